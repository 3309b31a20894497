//! `L2Loss`: half the sum of squares.

use tfcore_base::{BFloat16, Elem, Floats, Half, LoopFor, Result, TypedLoop};
use tfcore_framework::{OpContext, Registry, shape_fns};
use tfcore_math::pool::Parallel;
use tfcore_math::reduce::{Reducer, reduce};
use tfcore_tensor::{Elems, ElemsMut, Shape};

pub(crate) fn register(r: &mut Registry) {
    // `L2Loss(t: T) -> output: T`, `Σ t² / 2` over all elements.
    r.op("L2Loss").shape(shape_fns::scalar).typed::<Loss, Floats>("T", l2_loss);
}

struct HalfSumOfSquares;

macro_rules! half_sum_of_squares {
    ($($t:ty: $acc:ty, $lift:path, $lower:path;)*) => {$(
        impl Reducer<$t> for HalfSumOfSquares {
            type Acc = $acc;

            const IDENTITY: $acc = 0.0;

            #[inline(always)]
            fn lift(value: $t) -> $acc {
                let value = $lift(value);
                value * value
            }

            #[inline(always)]
            fn merge(a: $acc, b: $acc) -> $acc {
                a + b
            }

            fn finish(acc: $acc, _: usize) -> $t {
                $lower(acc * 0.5)
            }
        }
    )*};
}

half_sum_of_squares! {
    f32: f32, f32::from, f32::from;
    f64: f64, f64::from, f64::from;
    Half: f32, Half::to_f32, Half::from_f32;
    BFloat16: f32, BFloat16::to_f32, BFloat16::from_f32;
}

type LossLoop = fn(Parallel<'_>, Elems<'_>, ElemsMut<'_>);

struct Loss;

impl TypedLoop for Loss {
    type Loop = LossLoop;
}

impl<T: Elem + Copy> LoopFor<T> for Loss
where
    HalfSumOfSquares: Reducer<T>,
{
    const LOOP: LossLoop = |parallel, x, out| {
        let layout = [1, x.len(), 1];
        reduce::<HalfSumOfSquares, T>(parallel, layout, x.typed(), out.typed());
    };
}

fn l2_loss(ctx: &mut OpContext<'_>, run: LossLoop) -> Result<()> {
    let x = ctx.input(0)?.elems();
    ctx.produce(0, Shape::scalar(), |out| run(ctx.parallel(), x, out))
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{registry_of, run_op};
    use tfcore_tensor::Tensor;

    use super::*;

    fn loss(x: Tensor) -> Tensor {
        let r = registry_of(register);
        let attrs = [("T", AttrValue::Type(x.dtype()))];
        run_op(&r, "L2Loss", &attrs, &[x]).unwrap().remove(0)
    }

    #[test]
    fn half_the_squares_are_summed() {
        let x =
            Tensor::from_slice(Shape::new(&[2, 2]).unwrap(), &[1.0f32, -2.0, 3.0, 4.0]).unwrap();
        assert_eq!(loss(x).scalar_value::<f32>().unwrap(), 15.0);
        let empty = Tensor::zeros(DType::DOUBLE, Shape::vector(0)).unwrap();
        assert_eq!(loss(empty).scalar_value::<f64>().unwrap(), 0.0);
    }

    #[test]
    fn halves_are_summed_without_their_rounding() {
        // 3000 ones: a sum of halves would stop at 2048.
        let x = Tensor::from_slice(Shape::vector(3000), &[Half::from_f32(1.0); 3000]).unwrap();
        assert_eq!(loss(x).scalar_value::<Half>().unwrap().to_f32(), 1500.0);
    }
}
