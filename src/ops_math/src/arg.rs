//! Where the extreme elements are: `ArgMax`, `ArgMin`.

use std::marker::PhantomData;

use tfcore_base::{
    BFloat16, DType, Elem, Half, LoopFor, Result, TypedLoop, invalid, try_collect, try_filled,
};
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_ops};
use tfcore_tensor::{Dim, Elems, PartialShape, Shape, Tensor};

/// The types that have an order, `bool` among them.
type Ordered = (f32, f64, Half, BFloat16, i8, i16, i32, i64, u8, u16, u32, u64, bool);

pub(crate) fn register(r: &mut Registry) {
    // `ArgMax(input: T, dimension: Tidx) -> output: output_type`, the first of the largest elements
    // along an axis; a NaN is larger than nothing.
    r.op("ArgMax").shape(arg_shape).typed::<ArgLoops<Largest>, Ordered>("T", compute);
    // `ArgMin`, as `ArgMax`, of the smallest.
    r.op("ArgMin").shape(arg_shape).typed::<ArgLoops<Smallest>, Ordered>("T", compute);
}

/// Which of two elements is taken.
trait Choice: 'static {
    /// Whether `x` is taken instead of `best`.
    fn beats<T: PartialOrd>(x: &T, best: &T) -> bool;
    /// What every element but a NaN and itself beats.
    fn worst<T: Bounds>() -> T;
}

struct Largest;
struct Smallest;

impl Choice for Largest {
    fn beats<T: PartialOrd>(x: &T, best: &T) -> bool {
        x > best
    }

    fn worst<T: Bounds>() -> T {
        T::LEAST
    }
}

impl Choice for Smallest {
    fn beats<T: PartialOrd>(x: &T, best: &T) -> bool {
        x < best
    }

    fn worst<T: Bounds>() -> T {
        T::GREATEST
    }
}

/// The ends of a type's order: of the finite numbers, for floats.
trait Bounds: Elem + PartialOrd + Copy {
    const LEAST: Self;
    const GREATEST: Self;
}

macro_rules! bounds {
    ($($t:ty)*) => {$(
        impl Bounds for $t {
            const LEAST: $t = <$t>::MIN;
            const GREATEST: $t = <$t>::MAX;
        }
    )*};
}

bounds!(f32 f64 Half BFloat16 i8 i16 i32 i64 u8 u16 u32 u64);

impl Bounds for bool {
    const LEAST: bool = false;
    const GREATEST: bool = true;
}

/// Finds the index for each `(outer, inner)` of an `[outer, len, inner]` layout.
type ArgLoop = fn(Elems<'_>, [usize; 3], &mut [i64]);

struct ArgLoops<C>(PhantomData<C>);

impl<C> TypedLoop for ArgLoops<C> {
    type Loop = ArgLoop;
}

impl<T: Bounds, C: Choice> LoopFor<T> for ArgLoops<C> {
    const LOOP: ArgLoop = arg_loop::<T, C>;
}

fn arg_loop<T: Bounds, C: Choice>(x: Elems<'_>, [_, len, inner]: [usize; 3], out: &mut [i64]) {
    let x = x.typed::<T>();
    let mut best = vec![C::worst::<T>(); inner];
    for (slab, out) in x.chunks_exact((len * inner).max(1)).zip(out.chunks_exact_mut(inner.max(1)))
    {
        best.fill(C::worst());
        out.fill(0);
        for (index, row) in slab.chunks_exact(inner).enumerate() {
            for ((x, best), out) in row.iter().zip(&mut best).zip(out.iter_mut()) {
                if C::beats(x, best) {
                    (*best, *out) = (*x, index as i64);
                }
            }
        }
    }
}

fn arg_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(1), 0)?;
    let Some(dims) = ctx.input(0).dims() else {
        return Ok(());
    };
    if dims.len() <= 1 {
        ctx.set_output(0, PartialShape::scalar());
        return Ok(());
    }
    let Some(axis) = ctx.operand_i64(1)? else {
        ctx.set_output(0, PartialShape::of_rank(dims.len() - 1));
        return Ok(());
    };
    let rank = dims.len() as i64;
    let resolved = if axis < 0 { axis.saturating_add(rank) } else { axis };
    if !(0..rank).contains(&resolved) {
        return Err(invalid!(
            "Dimension ({axis}) must be in the range [{}, {rank}), where {rank} is the number of \
             dimensions in the input.",
            -rank
        ));
    }
    let kept = dims.iter().enumerate().filter(|(index, _)| *index as i64 != resolved);
    let shape = kept.map(|(_, &dim)| dim).collect::<Vec<Dim>>().into_iter().collect();
    ctx.set_output(0, shape);
    Ok(())
}

fn compute(ctx: &mut OpContext<'_>, body: ArgLoop) -> Result<()> {
    let (input, dimension) = (ctx.input(0)?, ctx.input(1)?);
    if dimension.rank() != 0 {
        return Err(invalid!(
            "dim must be a scalar, but received tensor of shape: {}",
            dimension.shape()
        ));
    }
    let (asked, rank) = (dimension.to_i64s()?[0], input.rank() as i64);
    let axis = if asked < 0 { asked.saturating_add(rank) } else { asked };
    if !(0..rank).contains(&axis) {
        return Err(invalid!(
            "Expected dimension in the range [{}, {rank}), but got {asked}",
            -rank
        ));
    }
    let axis = axis as usize;
    if input.dim(axis) == 0 {
        return Err(invalid!("Reduction axis {asked} is empty in shape {}", input.shape()));
    }
    let dims = input.shape().dims();
    let kept: Vec<i64> = [&dims[..axis], &dims[axis + 1..]].concat();
    let count = |dims: &[i64]| dims.iter().product::<i64>() as usize;
    let layout = [count(&dims[..axis]), input.dim(axis), count(&dims[axis + 1..])];
    let shape = Shape::new(&kept)?;
    let mut indices = try_filled(0, shape.count())?;
    body(input.elems(), layout, &mut indices);
    let out = narrowed(ctx.output_dtype(0), shape, &indices)?;
    ctx.set_output(0, out);
    Ok(())
}

/// Indices as the output has them.
fn narrowed(dtype: DType, shape: Shape, indices: &[i64]) -> Result<Tensor> {
    match dtype {
        DType::INT16 => narrow(shape, indices, |index| index as i16),
        DType::UINT16 => narrow(shape, indices, |index| index as u16),
        DType::INT32 => narrow(shape, indices, |index| index as i32),
        _ => Tensor::from_slice(shape, indices),
    }
}

fn narrow<T: Elem>(shape: Shape, indices: &[i64], convert: impl Fn(i64) -> T) -> Result<Tensor> {
    let narrow = try_collect(indices.iter().map(|&index| convert(index)))?;
    Tensor::from_slice(shape, &narrow)
}
