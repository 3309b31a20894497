//! `ClipByValue`: numbers brought into an interval.

use num_complex::Complex;
use tfcore_base::{BFloat16, Complex64, Complex128, Half, LoopFor, Result, TypedLoop, invalid};
use tfcore_framework::{OpContext, Registry, for_each_part, shape_fns};
use tfcore_math::isa::vectorize;
use tfcore_tensor::{Elems, ElemsMut, Shape};

use crate::number::Number;

type Clippable = (f32, f64, Half, BFloat16, i8, i16, i32, i64, u8, u16, Complex64, Complex128);

pub(crate) fn register(r: &mut Registry) {
    // `ClipByValue(t: T, clip_value_min: T, clip_value_max: T) -> output: T`,
    // `max(min(t, clip_value_max), clip_value_min)`.
    r.op("ClipByValue")
        .shape(shape_fns::unchanged)
        .typed::<ClipLoops, Clippable>("T", clip_by_value);
}

/// A type of numbers that can be brought into an interval.
trait Clip: Copy {
    /// A bound that is not a number is no bound; of a bad interval the lower end wins.
    fn clip(self, low: Self, high: Self) -> Self;
}

macro_rules! clips {
    ($($type:ty),*) => {$(
        impl Clip for $type {
            #[inline(always)]
            fn clip(self, low: $type, high: $type) -> $type {
                let value = if high < self { high } else { self };
                if value < low { low } else { value }
            }
        }
    )*};
}
clips!(f32, f64, i8, i16, i32, i64, u8, u16);

/// Both parts are clipped, each to the interval of its like.
impl<F: Clip> Clip for Complex<F> {
    #[inline(always)]
    fn clip(self, low: Self, high: Self) -> Self {
        Complex::new(self.re.clip(low.re, high.re), self.im.clip(low.im, high.im))
    }
}

/// Clips elements to bounds of which each is one for all or one for each.
type ClipLoop = fn(Elems<'_>, [Elems<'_>; 2], ElemsMut<'_>);

struct ClipLoops;

impl TypedLoop for ClipLoops {
    type Loop = ClipLoop;
}

impl<T: Number<Wide: Clip>> LoopFor<T> for ClipLoops {
    const LOOP: ClipLoop = clip_loop::<T>;
}

fn clip_loop<T: Number<Wide: Clip>>(input: Elems<'_>, bounds: [Elems<'_>; 2], out: ElemsMut<'_>) {
    let (input, out) = (input.typed::<T>(), out.typed::<T>());
    let [low, high] = bounds.map(|bound| bound.typed::<T>());
    if let ([low], [high]) = (low, high) {
        let (low, high) = (low.widen(), high.widen());
        return vectorize(
            #[inline(always)]
            || {
                for (out, x) in out.iter_mut().zip(input) {
                    *out = T::narrow(x.widen().clip(low, high));
                }
            },
        );
    }
    let [low_step, high_step] = [low, high].map(|bound| usize::from(bound.len() != 1));
    for (index, (out, x)) in out.iter_mut().zip(input).enumerate() {
        let (low, high) = (low[index * low_step], high[index * high_step]);
        *out = T::narrow(x.widen().clip(low.widen(), high.widen()));
    }
}

fn clip_by_value(ctx: &mut OpContext<'_>, clip: ClipLoop) -> Result<()> {
    let shape = ctx.input(0)?.shape().clone();
    let fits = |bound: &Shape| bound.rank() == 0 || *bound == shape;
    let (low, high) = (ctx.input(1)?.shape(), ctx.input(2)?.shape());
    if !fits(low) || !fits(high) {
        return Err(invalid!(
            "clip_value_min and clip_value_max must be either of the same shape as input, or a scalar. \
             input shape: {shape}clip_value_min shape: {low}clip_value_max shape: {high}"
        ));
    }
    let (input, low, high) = (ctx.input(0)?.elems(), ctx.input(1)?.elems(), ctx.input(2)?.elems());
    ctx.produce(0, shape, |out| {
        for_each_part(ctx.parallel(), out, 1, &|start, part| {
            let range = start..start + part.len();
            // A bound of one element is one for all, also where the input has but one.
            let bounds = [low, high].map(|bound| match bound.len() {
                1 => bound,
                _ => bound.slice(range.clone()),
            });
            clip(input.slice(range.clone()), bounds, part);
        })
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::Elem;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{registry_of, run_op};
    use tfcore_tensor::Tensor;

    use super::*;

    fn clip<T: Elem>(values: &[T], low: &[T], high: &[T]) -> Result<Vec<T>> {
        let registry = registry_of(register);
        let bound = |bound: &[T]| match bound {
            [single] => Ok(Tensor::scalar(single.clone())),
            _ => Tensor::from_slice(Shape::vector(bound.len()), bound),
        };
        let input = Tensor::from_slice(Shape::vector(values.len()), values)?;
        let attrs = [("T", AttrValue::Type(T::DTYPE))];
        let outputs =
            run_op(&registry, "ClipByValue", &attrs, &[input, bound(low)?, bound(high)?])?;
        outputs[0].as_slice().map(<[T]>::to_vec)
    }

    #[test]
    fn intervals() {
        assert_eq!(clip(&[-5, 1, 9], &[0], &[3]).unwrap(), [0, 1, 3]);
        assert_eq!(clip(&[5.0, 5.0], &[0.0, 6.0], &[3.0]).unwrap(), [3.0, 6.0]);
        assert_eq!(clip(&[-5i8, 9], &[0, 0], &[3, 4]).unwrap(), [0, 4]);
        // As TensorFlow 2.21 has it.
        assert_eq!(clip(&[1.0, 3.0], &[2.0], &[1.0]).unwrap(), [2.0, 2.0]);
        assert_eq!(clip(&[1.0, 5.0], &[f32::NAN], &[2.0]).unwrap(), [1.0, 2.0]);
        assert!(clip(&[f32::NAN, 0.0], &[1.0], &[2.0]).unwrap()[0].is_nan());
        let z = Complex64::new;
        let clipped = clip(&[z(5.0, 2.0), z(-3.0, 4.0)], &[z(0.0, 0.0)], &[z(2.0, 1.0)]).unwrap();
        assert_eq!(clipped, [z(2.0, 1.0), z(0.0, 1.0)]);
    }

    #[test]
    fn bounds_do_not_broadcast() {
        let error = clip(&[1.0, 2.0, 3.0], &[1.0, 2.0], &[2.0]).unwrap_err();
        assert!(
            error
                .message()
                .ends_with("input shape: [3]clip_value_min shape: [2]clip_value_max shape: []")
        );
    }
}
