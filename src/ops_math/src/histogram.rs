//! Numbers to intervals: `Bucketize`, `HistogramFixedWidth`.

use tfcore_base::{DType, Elem, LoopFor, RealNumbers, Result, TypedLoop, internal, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_tensor::{Elems, ElemsMut, PartialShape, Shape};

use crate::number::Number;

/// The types that `Bucketize` has kernels for.
type Bucketed = (i32, i64, f32, f64);

pub(crate) fn register(r: &mut Registry) {
    // `Bucketize(input: T) -> output: int32`, the number of attr `boundaries` that are not above each element.
    r.op("Bucketize")
        .shape(shape_fns::unchanged)
        .typed_kernel::<BucketForm, Bucketed>("T", bucketize);
    // `HistogramFixedWidth(values: T, value_range: T, nbins: int32) -> out: dtype`: how many values there are in each of
    // `nbins` intervals of the range. Values beyond the range count for the outermost intervals.
    r.op("HistogramFixedWidth")
        .shape(histogram_shape)
        .typed::<BinForm, RealNumbers>("T", histogram);
}

type BucketLoop = fn(&[f32], Elems<'_>, ElemsMut<'_>);

struct BucketForm;

impl TypedLoop for BucketForm {
    type Loop = BucketLoop;
}

impl<T: Elem + Copy + Into<Boundary>> LoopFor<T> for BucketForm {
    const LOOP: BucketLoop = |boundaries, x, out| {
        for (out, &x) in out.typed::<i32>().iter_mut().zip(x.typed::<T>()) {
            let x: Boundary = x.into();
            *out = boundaries.partition_point(|&boundary| !x.is_below(boundary)) as i32;
        }
    };
}

/// An element next to a boundary, which is f32: the reference compares the two in the type that C++ takes for the pair,
/// f32 for integers.
enum Boundary {
    Single(f32),
    Double(f64),
}

impl Boundary {
    fn is_below(&self, boundary: f32) -> bool {
        match *self {
            Boundary::Single(x) => x < boundary,
            Boundary::Double(x) => x < f64::from(boundary),
        }
    }
}

impl From<f32> for Boundary {
    fn from(x: f32) -> Boundary {
        Boundary::Single(x)
    }
}

impl From<f64> for Boundary {
    fn from(x: f64) -> Boundary {
        Boundary::Double(x)
    }
}

impl From<i32> for Boundary {
    fn from(x: i32) -> Boundary {
        Boundary::Single(x as f32)
    }
}

impl From<i64> for Boundary {
    fn from(x: i64) -> Boundary {
        Boundary::Single(x as f32)
    }
}

fn bucketize(init: &KernelInit<'_>, body: BucketLoop) -> Result<Box<dyn Kernel>> {
    let boundaries: Vec<f32> = init.attrs.floats("boundaries")?.to_vec();
    require!(boundaries.is_sorted(), "Expected sorted boundaries");
    kernel(move |ctx: &mut OpContext<'_>| {
        let x = ctx.input(0)?;
        let mut out = ctx.allocate_output(0, x.shape().clone())?;
        body(&boundaries, x.elems(), out.elems_mut()?);
        ctx.set_output(0, out);
        Ok(())
    })
}

fn histogram_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let range = shape_ops::with_rank(ctx.input(1), 1)?;
    shape_ops::with_value(range.dim(0), 2)?;
    shape_ops::with_rank(ctx.input(2), 0)?;
    let bins = match ctx.operand(2) {
        None => PartialShape::of_rank(1),
        Some(operand) => {
            let bins = operand.to_i64s()?[0];
            require!(bins > 0, "Requires nbins > 0: {bins}");
            PartialShape::vector(bins)
        }
    };
    ctx.set_output(0, bins);
    Ok(())
}

/// Counts values: the range, the number of bins, the values, what to call with the number of each value's bin.
type BinLoop = fn(Elems<'_>, i32, Elems<'_>, &mut dyn FnMut(usize)) -> Result<()>;

struct BinForm;

/// Element types by their conversion to a double, differences being taken in the type itself.
trait Distance: Number {
    fn to_f64(self) -> f64;
    /// How far above `low` the element is; 0 below it.
    fn above(self, low: Self) -> f64;
    fn is_not_a_number(self) -> bool;
}

macro_rules! integer_distances {
    ($($t:ty)*) => {$(
        impl Distance for $t {
            fn to_f64(self) -> f64 {
                self as f64
            }

            fn above(self, low: $t) -> f64 {
                self.max(low).wrapping_sub(low) as f64
            }

            fn is_not_a_number(self) -> bool {
                false
            }
        }
    )*};
}
integer_distances!(i8 i16 i32 i64 u8 u16 u32 u64);

macro_rules! float_distances {
    ($($t:ty)*) => {$(
        impl Distance for $t {
            fn to_f64(self) -> f64 {
                self.widen().into()
            }

            fn above(self, low: $t) -> f64 {
                <$t>::narrow(self.widen().max(low.widen()) - low.widen()).to_f64()
            }

            fn is_not_a_number(self) -> bool {
                self.widen().is_nan()
            }
        }
    )*};
}
float_distances!(f32 f64 tfcore_base::Half tfcore_base::BFloat16);

impl TypedLoop for BinForm {
    type Loop = BinLoop;
}

impl<T: Distance + PartialOrd> LoopFor<T> for BinForm {
    const LOOP: BinLoop = |range, bins, values, count| {
        let &[low, high] = range.typed::<T>() else {
            return Err(internal!("a range of two elements"));
        };
        let text = |x: T| tfcore_base::format_float(Distance::to_f64(x) as f32);
        require!(
            low < high,
            "value_range should satisfy value_range[0] < value_range[1], but got '[{}, {}]'",
            text(low),
            text(high)
        );
        require!(bins > 0, "nbins should be a positive number, but got '{bins}'");
        let values = values.typed::<T>();
        require!(
            !values.iter().any(|value| value.is_not_a_number()),
            "Histogram values must not contain NaN"
        );
        let step = high.above(low) / f64::from(bins);
        let last = f64::from(bins - 1);
        for value in values {
            // A conversion from NaN, which infinities may give, is 0; bins are never negative.
            count((value.above(low) / step).min(last) as usize);
        }
        Ok(())
    };
}

fn histogram(ctx: &mut OpContext<'_>, body: BinLoop) -> Result<()> {
    let (values, range, bins) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    require!(range.rank() == 1, "value_range should be a vector.");
    require!(range.count() == 2, "value_range should be a vector of 2 elements.");
    require!(bins.rank() == 0, "nbins should be a scalar.");
    let bins: i32 = bins.scalar_value()?;
    let shape = Shape::vector(usize::try_from(bins).unwrap_or(0));
    let mut out = ctx.allocate_zeros(ctx.output_dtype(0), shape)?;
    if ctx.output_dtype(0) == DType::INT32 {
        let counts = out.as_mut_slice::<i32>()?;
        body(range.elems(), bins, values.elems(), &mut |bin| counts[bin] += 1)?;
    } else {
        let counts = out.as_mut_slice::<i64>()?;
        body(range.elems(), bins, values.elems(), &mut |bin| counts[bin] += 1)?;
    }
    ctx.set_output(0, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_framework::testing::{floats, infer, registry_of, run_op, tensor};
    use tfcore_framework::{AttrList, AttrValue, Registry};
    use tfcore_tensor::Tensor;

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn bucketize(x: Tensor, boundaries: &[f32]) -> Result<Vec<i32>> {
        let attrs = [
            ("T", AttrValue::Type(x.dtype())),
            ("boundaries", AttrValue::list(AttrList::Float(boundaries.to_vec()))),
        ];
        Ok(run_op(&registry(), "Bucketize", &attrs, &[x])?[0].as_slice()?.to_vec())
    }

    fn histogram<T: Elem>(values: &[T], range: [T; 2], bins: i32) -> Result<Vec<i32>> {
        let attrs = [("T", AttrValue::Type(T::DTYPE)), ("dtype", AttrValue::Type(DType::INT32))];
        let inputs =
            [tensor(&[values.len() as i64], values), tensor(&[2], &range), Tensor::scalar(bins)];
        Ok(run_op(&registry(), "HistogramFixedWidth", &attrs, &inputs)?[0].as_slice()?.to_vec())
    }

    #[test]
    fn buckets() {
        let boundaries = [0.0, 5.0, 10.0];
        assert_eq!(bucketize(tensor(&[4], &[1, 5, 10, -3]), &boundaries).unwrap(), [1, 2, 3, 0]);
        // As in the reference, NaN is above everything.
        assert_eq!(bucketize(floats(&[2], &[f32::NAN, 4.5]), &boundaries).unwrap(), [3, 1]);
        let error = bucketize(floats(&[1], &[1.0]), &[5.0, 0.0]).unwrap_err();
        assert_eq!(error.message(), "Expected sorted boundaries");
    }

    #[test]
    fn histograms() {
        let values = [-1.0f32, 0.0, 1.5, 2.0, 5.0, 15.0];
        assert_eq!(histogram(&values, [0.0, 5.0], 5).unwrap(), [2, 1, 1, 0, 2]);
        assert_eq!(histogram(&[1, 3, 4], [0, 5], 3).unwrap(), [1, 1, 1]);
        assert_eq!(histogram(&[f32::INFINITY, f32::MIN], [0.0, 1.0], 2).unwrap(), [1, 1]);
        let cases = [
            (
                histogram(&[1], [5, 5], 3),
                "value_range should satisfy value_range[0] < value_range[1], but got '[5, 5]'",
            ),
            (histogram(&[1], [0, 5], 0), "nbins should be a positive number, but got '0'"),
            (histogram(&[f32::NAN], [0.0, 5.0], 1), "Histogram values must not contain NaN"),
        ];
        for (found, message) in cases {
            assert_eq!(found.unwrap_err().message(), message);
        }
        let attrs =
            [("T", AttrValue::Type(DType::FLOAT)), ("dtype", AttrValue::Type(DType::INT32))];
        let infer = |bins: &[(usize, Tensor)]| {
            infer(&registry(), "HistogramFixedWidth", &attrs, "?;[2];[]", bins).unwrap()
        };
        assert_eq!(infer(&[]), "[?]");
        assert_eq!(infer(&[(2, Tensor::scalar(7i32))]), "[7]");
    }
}
