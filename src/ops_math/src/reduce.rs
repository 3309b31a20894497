//! Reductions over axes: `Sum`, `Mean`, `Prod`, `Max`, `Min`, `All`, `Any`, `EuclideanNorm`.

use std::marker::PhantomData;

use tfcore_base::{
    BFloat16, Complex64, Complex128, Elem, Half, LoopFor, LoopSet, Numbers, RealNumbers, Result,
    TypedLoop,
};
use tfcore_framework::geometry::Reduction;
use tfcore_framework::movement::copy_view;
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, OpEntry, Registry, kernel, shape_ops,
};
use tfcore_math::pool::Parallel;
use tfcore_math::reduce::{self, Reducer};
use tfcore_tensor::{Elems, ElemsMut, Tensor};

use crate::number::Ring;

pub(crate) fn register(r: &mut Registry) {
    // `Sum(input: T, reduction_indices: Tidx, keep_dims: bool) -> output: T`
    r.op("Sum").reduction::<reduce::Sum, Numbers>();
    // `Prod`, as `Sum`, of the product.
    r.op("Prod").reduction::<reduce::Prod, Numbers>();
    // `Mean`, as `Sum`, divided by the number of elements; integers are divided as integers.
    r.op("Mean").reduction::<reduce::Mean, Numbers>();
    // `Max`, as `Sum`, of the largest; a NaN is largest of all.
    r.op("Max").reduction::<reduce::Max, RealNumbers>();
    // `Min`, as `Sum`, of the smallest; a NaN is smallest of all.
    r.op("Min").reduction::<reduce::Min, RealNumbers>();
    // `EuclideanNorm`, as `Sum`, `sqrt(sum(|x|^2))`.
    r.op("EuclideanNorm").reduction::<EuclideanNorm, Numbers>();
    // `All(input: bool, reduction_indices: Tidx, keep_dims: bool) -> output: bool`
    r.op("All").bool_reduction::<reduce::All>();
    // `Any`, as `All`, of whether one of them is true.
    r.op("Any").bool_reduction::<reduce::Any>();
}

/// A reduction loop over elements of known type.
type ReduceLoop = fn(Parallel<'_>, [usize; 3], Elems<'_>, ElemsMut<'_>);

/// The loops of a reducer.
struct ReduceLoops<R>(PhantomData<R>);

impl<R> TypedLoop for ReduceLoops<R> {
    type Loop = ReduceLoop;
}

impl<T: Elem + Copy, R: Reducer<T>> LoopFor<T> for ReduceLoops<R> {
    const LOOP: ReduceLoop =
        |parallel, layout, x, out| reduce::reduce::<R, T>(parallel, layout, x.typed(), out.typed());
}

trait ReductionEntry: Sized {
    fn reduction<R, S: LoopSet<ReduceLoops<R>>>(self);
    fn bool_reduction<R: Reducer<bool> + 'static>(self);
}

impl ReductionEntry for OpEntry<'_> {
    fn reduction<R, S: LoopSet<ReduceLoops<R>>>(self) {
        self.shape(reduction_shape).typed_kernel::<ReduceLoops<R>, S>("T", reduction_kernel);
    }

    fn bool_reduction<R: Reducer<bool> + 'static>(self) {
        let body = <ReduceLoops<R> as LoopFor<bool>>::LOOP;
        self.shape(reduction_shape).cpu(move |init| reduction_kernel(init, body));
    }
}

fn reduction_kernel(init: &KernelInit<'_>, body: ReduceLoop) -> Result<Box<dyn Kernel>> {
    let keep_dims = init.attrs.bool("keep_dims")?;
    kernel(move |ctx| compute(ctx, keep_dims, body))
}

/// Graphs of producers from this version on name axes by a scalar or a vector; older ones by any tensor.
const AXES_ARE_A_LIST: i32 = 21;

/// The axes in input 1, if they are known, decide; without them only a kept rank is known.
pub(crate) fn reduction_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let keep_dims = ctx.attrs.bool("keep_dims")?;
    if ctx.producer() >= AXES_ARE_A_LIST {
        shape_ops::with_rank_at_most(ctx.input(1), 1)?;
    }
    let input = ctx.input(0);
    let shape = match ctx.operand_i64s(1)? {
        Some(axes) => Reduction::infer(input, &axes, keep_dims)?,
        None => match input.rank() {
            Some(rank) if keep_dims => tfcore_tensor::PartialShape::of_rank(rank),
            _ => tfcore_tensor::PartialShape::unknown(),
        },
    };
    ctx.set_output(0, shape);
    Ok(())
}

fn compute(ctx: &mut OpContext<'_>, keep_dims: bool, body: ReduceLoop) -> Result<()> {
    let axes = ctx.input(1)?.to_i64s()?;
    let input = ctx.input(0)?;
    let reduction = Reduction::new(input.shape(), &axes, keep_dims)?;
    let mut out = ctx.allocate_output(0, reduction.output().clone())?;
    let permuted: Tensor;
    let elems = match reduction.permuted() {
        None => input.elems(),
        Some(view) => {
            let mut copy = ctx.allocate(input.dtype(), input.shape().clone())?;
            copy_view(ctx.parallel(), input.elems(), view, copy.elems_mut()?);
            permuted = copy;
            permuted.elems()
        }
    };
    body(ctx.parallel(), reduction.layout(), elems, out.elems_mut()?);
    ctx.set_output(0, out);
    Ok(())
}

/// The square root of the sum of squared magnitudes.
struct EuclideanNorm;

macro_rules! norms {
    ($($t:ty, $acc:ty, $lift:expr, $finish:expr;)*) => {$(
        impl Reducer<$t> for EuclideanNorm {
            type Acc = $acc;
            const IDENTITY: $acc = 0 as $acc;

            fn lift(value: $t) -> $acc {
                let lift: fn($t) -> $acc = $lift;
                lift(value)
            }

            fn merge(a: $acc, b: $acc) -> $acc {
                a.plus(b)
            }

            fn finish(acc: $acc, _: usize) -> $t {
                let finish: fn($acc) -> $t = $finish;
                finish(acc)
            }
        }
    )*};
}

norms! {
    f32, f32, |x| x * x, f32::sqrt;
    f64, f64, |x| x * x, f64::sqrt;
    Half, f32, |x| x.to_f32() * x.to_f32(), |a| Half::from_f32(a.sqrt());
    BFloat16, f32, |x| x.to_f32() * x.to_f32(), |a| BFloat16::from_f32(a.sqrt());
    Complex64, f32, |z| z.norm_sqr(), |a| Complex64::new(a.sqrt(), 0.0);
    Complex128, f64, |z| z.norm_sqr(), |a| Complex128::new(a.sqrt(), 0.0);
    // Sums of integers wrap; the root of one that has become negative is no number, hence what x86 makes
    // of such: the least `i32`, cut to size, or the least `i64`.
    i8, i8, |x| x.wrapping_mul(x), |a| if a < 0 { 0 } else { f64::from(a).sqrt() as i8 };
    i16, i16, |x| x.wrapping_mul(x), |a| if a < 0 { 0 } else { f64::from(a).sqrt() as i16 };
    i32, i32, |x| x.wrapping_mul(x), |a| if a < 0 { i32::MIN } else { f64::from(a).sqrt() as i32 };
    i64, i64, |x| x.wrapping_mul(x), |a| if a < 0 { i64::MIN } else { (a as f64).sqrt() as i64 };
    u8, u8, |x| x.wrapping_mul(x), |a| f64::from(a).sqrt() as u8;
    u16, u16, |x| x.wrapping_mul(x), |a| f64::from(a).sqrt() as u16;
    u32, u32, |x| x.wrapping_mul(x), |a| f64::from(a).sqrt() as u32;
    u64, u64, |x| x.wrapping_mul(x), |a| (a as f64).sqrt() as u64;
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, registry_of, tensor};

    use super::*;

    fn norm<T: Elem + Copy>(values: &[T]) -> T
    where
        EuclideanNorm: Reducer<T>,
    {
        let mut out = [T::default()];
        reduce::reduce::<EuclideanNorm, T>(
            Parallel::SERIAL,
            [1, values.len(), 1],
            values,
            &mut out,
        );
        out[0]
    }

    #[test]
    fn norms_of_integers_wrap() {
        assert_eq!(norm(&[3.0f32, 4.0]), 5.0);
        // 106 is below 11 squared.
        assert_eq!(norm(&[3, 4, 9]), 10);
        // 144 wraps to -112, and 400 to 144 of a byte.
        assert_eq!(norm(&[12i8]), 0);
        assert_eq!(norm(&[20u8]), 12);
        assert_eq!(norm(&[46341]), i32::MIN);
    }

    #[test]
    fn axes_are_a_scalar_or_a_vector() {
        let registry = registry_of(register);
        let attrs = [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("Tidx", AttrValue::Type(DType::INT32)),
            ("keep_dims", AttrValue::Bool(true)),
        ];
        let matrix = "Shape must be at most rank 1 but is rank 2";
        let cases = [
            ("[3,4];[2]", None, Ok("[?,?]")),
            ("[3,4];[]", Some(tensor(&[], &[1])), Ok("[3,1]")),
            ("[3,4];[1]", Some(tensor(&[1], &[0])), Ok("[1,4]")),
            ("[3,4];[1,1]", None, Err(matrix)),
            ("?;[1,1]", Some(tensor(&[1, 1], &[0])), Err(matrix)),
        ];
        for (inputs, axes, expected) in cases {
            let axes: Vec<_> = axes.into_iter().map(|axes| (1, axes)).collect();
            let shape = infer(&registry, "Sum", &attrs, inputs, &axes);
            let shape = shape.map_err(|error| error.message().to_string());
            assert_eq!(shape, expected.map(String::from).map_err(String::from), "{inputs}");
        }
    }
}
