//! Evenly spaced numbers: `Range` and `LinSpace`.

use tfcore_base::{BFloat16, DType, Elem, Half, Result, internal, invalid};
use tfcore_framework::{InferenceContext, OpContext, Registry, for_each_part, shape_ops};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

use crate::number::Number;

pub(crate) fn register(r: &mut Registry) {
    // `Range(start: Tidx, limit: Tidx, delta: Tidx) -> output: Tidx`, `start + i * delta` up to but without
    // `limit`.
    r.op("Range").shape(range_shape).compute(range);
    // `LinSpace(start: T, stop: T, num: Tidx) -> output: T`, `num` values from `start` to `stop`.
    r.op("LinSpace").shape(lin_space_shape).compute(lin_space);
}

/// A type that ranges are made of.
trait RangeElem: Elem + Copy {
    /// The number of values from `start` up to `limit`.
    fn count(start: Self, limit: Self, delta: Self) -> Result<i64>;
    /// `start + index * delta`.
    fn value(start: Self, delta: Self, index: usize) -> Self;
}

macro_rules! integer_ranges {
    ($($type:ty),*) => {$(
        impl RangeElem for $type {
            fn count(start: $type, limit: $type, delta: $type) -> Result<i64> {
                check_direction(start, limit, delta, 0)?;
                let span = i128::from(limit) - i128::from(start);
                let delta = i128::from(delta).abs();
                i64::try_from((span.abs() + delta - 1) / delta).map_err(|_| too_many())
            }

            #[inline(always)]
            fn value(start: $type, delta: $type, index: usize) -> $type {
                start.wrapping_add((index as $type).wrapping_mul(delta))
            }
        }
    )*};
}
integer_ranges!(i32, i64);

macro_rules! float_ranges {
    ($($type:ty),*) => {$(
        impl RangeElem for $type {
            /// Every step is rounded to the type, as in the reference: a short type may well lose or
            /// gain a value by it.
            fn count(start: $type, limit: $type, delta: $type) -> Result<i64> {
                check_direction(start, limit, delta, <$type>::narrow(0.0))?;
                let span = <$type>::narrow(limit.widen() - start.widen());
                let count = <$type>::narrow(span.widen() / delta.widen()).widen().abs().ceil();
                // A `f64` holds the bound, `i64::MAX` rounded up.
                if f64::from(count) >= i64::MAX as f64 || count.is_nan() {
                    return Err(too_many());
                }
                Ok(count as i64)
            }

            #[inline(always)]
            fn value(start: $type, delta: $type, index: usize) -> $type {
                <$type>::narrow(start.widen() + index as <$type as Number>::Wide * delta.widen())
            }
        }
    )*};
}
float_ranges!(f32, f64, Half, BFloat16);

fn too_many() -> tfcore_base::Error {
    invalid!("Requires ((limit - start) / delta) <= {}", i64::MAX)
}

/// # Errors
/// `InvalidArgument` if `delta` is zero or leads away from `limit`.
fn check_direction<T: PartialOrd + std::fmt::Display>(
    start: T,
    limit: T,
    delta: T,
    zero: T,
) -> Result<()> {
    // Messages have "nan" and "inf" in lower case.
    let text = |value: &T| value.to_string().to_lowercase();
    if delta == zero {
        return Err(invalid!("Requires delta != 0: {}", text(&delta)));
    }
    // Written so that NaN is refused, too.
    let (relation, condition, holds) = match delta > zero {
        true => ("<=", "> 0", start <= limit),
        false => (">=", "< 0", start >= limit),
    };
    if !holds {
        return Err(invalid!(
            "Requires start {relation} limit when delta {condition}: {}/{}",
            text(&start),
            text(&limit)
        ));
    }
    Ok(())
}

/// Calls `$function::<T>($args)` for the type of a range.
macro_rules! for_range_type {
    ($dtype:expr, $function:ident($($arg:expr),*)) => {
        match $dtype {
            DType::INT32 => $function::<i32>($($arg),*),
            DType::INT64 => $function::<i64>($($arg),*),
            DType::FLOAT => $function::<f32>($($arg),*),
            DType::DOUBLE => $function::<f64>($($arg),*),
            DType::HALF => $function::<Half>($($arg),*),
            DType::BFLOAT16 => $function::<BFloat16>($($arg),*),
            other => Err(internal!("Range of {other}")),
        }
    };
}

fn range_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    for input in 0..3 {
        scalar_operand(ctx, input, ["start", "limit", "delta"][input])?;
    }
    let len = match (ctx.operand(0), ctx.operand(1), ctx.operand(2)) {
        (Some(start), Some(limit), Some(delta)) => Dim::new(static_len(&start, &limit, &delta)?),
        _ => Dim::fresh(),
    };
    ctx.set_output(0, PartialShape::vector(len));
    Ok(())
}

/// The number of values of a range of constants. Integers of all types have one, though some have no kernel.
///
/// # Errors
/// `InvalidArgument` if there is no such range, and for `half`, as in the reference.
fn static_len(start: &Tensor, limit: &Tensor, delta: &Tensor) -> Result<i64> {
    fn len<T: RangeElem>(start: &Tensor, limit: &Tensor, delta: &Tensor) -> Result<i64> {
        T::count(start.scalar_value()?, limit.scalar_value()?, delta.scalar_value()?)
    }
    let integer = |tensor: &Tensor| {
        let values = tensor.to_i64s()?;
        values.first().copied().ok_or_else(|| internal!("a scalar has a value"))
    };
    match start.dtype() {
        DType::HALF => Err(invalid!("Unsupported dtype{}", DType::HALF.to_i32())),
        dtype if dtype.is_integer() => {
            i64::count(integer(start)?, integer(limit)?, integer(delta)?)
        }
        dtype => for_range_type!(dtype, len(start, limit, delta)),
    }
}

/// # Errors
/// `InvalidArgument` if the input is known to be no scalar.
fn scalar_operand(ctx: &InferenceContext<'_>, index: usize, name: &str) -> Result<()> {
    shape_ops::with_rank(ctx.input(index), 0).map(|_| ()).map_err(|error| {
        let message = format!("{}\n\t for '{name}'", error.message());
        error.with_message(message)
    })
}

fn range(ctx: &mut OpContext<'_>) -> Result<()> {
    for (index, name) in ["start", "limit", "delta"].into_iter().enumerate() {
        // Vectors of one element pass for scalars, as in old graphs.
        let shape = ctx.input(index)?.shape();
        if !matches!(**shape, [] | [1]) {
            return Err(invalid!("{name} must be a scalar, not shape {shape}"));
        }
    }
    for_range_type!(ctx.input(0)?.dtype(), typed_range(ctx))
}

fn typed_range<T: RangeElem>(ctx: &mut OpContext<'_>) -> Result<()> {
    let operand = |index: usize| ctx.input(index)?.scalar_value::<T>();
    let (start, limit, delta) = (operand(0)?, operand(1)?, operand(2)?);
    let count = T::count(start, limit, delta)?;
    let mut out = ctx.allocate_output(0, Shape::new(&[count])?)?;
    for_each_part(ctx.parallel(), out.elems_mut()?, 2, &|first, part| {
        for (index, value) in part.typed::<T>().iter_mut().enumerate() {
            *value = T::value(start, delta, first + index);
        }
    });
    ctx.set_output(0, out);
    Ok(())
}

fn lin_space_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    for input in 0..3 {
        scalar_operand(ctx, input, ["start", "stop", "num"][input])?;
    }
    let len = match ctx.operand_i64(2)? {
        Some(num) => Dim::new(positive(num)?),
        None => Dim::fresh(),
    };
    ctx.set_output(0, PartialShape::vector(len));
    Ok(())
}

fn positive(num: i64) -> Result<i64> {
    if num > 0 { Ok(num) } else { Err(invalid!("Requires num > 0: {num}")) }
}

fn lin_space(ctx: &mut OpContext<'_>) -> Result<()> {
    for (index, name) in ["start", "stop", "num"].into_iter().enumerate() {
        let shape = ctx.input(index)?.shape();
        if shape.rank() != 0 {
            return Err(invalid!("{name} must be a scalar, not shape {shape}"));
        }
    }
    let num = match ctx.input(2)?.to_i64s()?[..] {
        [num] => positive(num)?,
        _ => return Err(internal!("num is a scalar")),
    };
    let mut out = ctx.allocate_output(0, Shape::new(&[num])?)?;
    match out.dtype() {
        DType::FLOAT => {
            let (start, stop) = (ctx.input(0)?.scalar_value()?, ctx.input(1)?.scalar_value()?);
            fill_between::<f32>(start, stop, out.as_mut_slice()?);
        }
        _ => {
            let (start, stop) = (ctx.input(0)?.scalar_value()?, ctx.input(1)?.scalar_value()?);
            fill_between::<f64>(start, stop, out.as_mut_slice()?);
        }
    }
    ctx.set_output(0, out);
    Ok(())
}

/// `start` first, `stop` last, and the others evenly in between.
fn fill_between<T: num_traits::Float>(start: T, stop: T, out: &mut [T]) {
    let number = |index: usize| T::from(index).expect("floats hold any index, rounded");
    let last = out.len().saturating_sub(1);
    let step = (stop - start) / number(last.max(1));
    for (index, value) in out.iter_mut().enumerate() {
        *value = start + step * number(index);
    }
    if last > 0 {
        out[last] = stop;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_base::Code;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, registry_of, run_op};

    fn registry() -> Registry {
        registry_of(register)
    }

    fn run_range<T: Elem + Copy>(start: T, limit: T, delta: T) -> Result<Vec<T>> {
        let inputs = [start, limit, delta].map(Tensor::scalar);
        let attrs = [("Tidx", AttrValue::Type(T::DTYPE))];
        let outputs = run_op(&registry(), "Range", &attrs, &inputs)?;
        outputs[0].as_slice().map(<[T]>::to_vec)
    }

    #[test]
    fn ranges() {
        assert_eq!(run_range(3, 9, 3).unwrap(), [3, 6]);
        assert_eq!(run_range(3, 10, 3).unwrap(), [3, 6, 9]);
        assert_eq!(run_range(2, -1, -1i64).unwrap(), [2, 1, 0]);
        assert_eq!(run_range(1.0f32, 2.0, 0.25).unwrap(), [1.0, 1.25, 1.5, 1.75]);
        assert_eq!(
            run_range(i64::MIN, i64::MAX, 1 << 62).unwrap(),
            [i64::MIN, -(1 << 62), 0, 1 << 62]
        );
        // 100 / 0.1 is 1000.24 before it is rounded to half.
        let half = Half::from_f32;
        assert_eq!(run_range(half(0.0), half(100.0), half(0.1)).unwrap().len(), 1000);
    }

    #[test]
    fn refused_ranges() {
        let cases = [
            (run_range(0, 5, 0), "Requires delta != 0: 0"),
            (run_range(5, 0, 1), "Requires start <= limit when delta > 0: 5/0"),
            (run_range(0, 5, -1), "Requires start >= limit when delta < 0: 0/5"),
        ];
        for (result, message) in cases {
            assert_eq!(result.unwrap_err().message(), message);
        }
        let bound = "Requires ((limit - start) / delta) <= 9223372036854775807";
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        assert_eq!(
            run_range(nan, 1.0, 1.0).unwrap_err().message(),
            "Requires start <= limit when delta > 0: nan/1"
        );
        assert_eq!(run_range(0.0, infinity, 1.0).unwrap_err().message(), bound);
    }

    #[test]
    fn shapes() {
        let attrs = [("Tidx", AttrValue::Type(DType::INT32))];
        let shape = |inputs: &str, known: &[(usize, Tensor)]| {
            infer(&registry(), "Range", &attrs, inputs, known)
        };
        let known = [0, 7, 2].map(Tensor::scalar);
        let known: Vec<(usize, Tensor)> = known.into_iter().enumerate().collect();
        assert_eq!(shape("[];[];[]", &known).unwrap(), "[4]");
        assert_eq!(shape("[];[];[]", &known[..2]).unwrap(), "[?]");
        // Integers without a kernel have shapes, half has a kernel and no shape.
        let typed = |dtype: DType, known: [Tensor; 3]| {
            let known: Vec<(usize, Tensor)> = known.into_iter().enumerate().collect();
            infer(&registry(), "Range", &[("Tidx", AttrValue::Type(dtype))], "[];[];[]", &known)
        };
        assert_eq!(typed(DType::INT8, [1i8, 10, 3].map(Tensor::scalar)).unwrap(), "[3]");
        assert_eq!(typed(DType::INT16, [9i16, 0, -2].map(Tensor::scalar)).unwrap(), "[5]");
        assert_eq!(typed(DType::UINT16, [0u16, 7, 7].map(Tensor::scalar)).unwrap(), "[1]");
        let halves = [1.0, 10.0, 3.0].map(|value| Tensor::scalar(Half::from_f32(value)));
        let error = typed(DType::HALF, halves).unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::InvalidArgument, "Unsupported dtype19"));
        let error = shape("[1];[];[]", &[]).unwrap_err();
        assert_eq!(error.message(), "Shape must be rank 0 but is rank 1\n\t for 'start'");
    }

    #[test]
    fn lin_spaces() {
        let run = |num: i32| {
            let inputs = [Tensor::scalar(1.0f32), Tensor::scalar(2.0f32), Tensor::scalar(num)];
            let attrs =
                [("T", AttrValue::Type(DType::FLOAT)), ("Tidx", AttrValue::Type(DType::INT32))];
            let outputs = run_op(&registry(), "LinSpace", &attrs, &inputs)?;
            outputs[0].as_slice::<f32>().map(<[f32]>::to_vec)
        };
        assert_eq!(run(1).unwrap(), [1.0]);
        assert_eq!(run(5).unwrap(), [1.0, 1.25, 1.5, 1.75, 2.0]);
        assert_eq!(run(0).unwrap_err().message(), "Requires num > 0: 0");
    }
}
