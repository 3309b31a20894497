//! Uniform quantization, `real = (level - zero_point) · scale`, with a scale for a tensor or for each slice along an axis: conversions,
//! sums and bounds. Products are in `uniform_product.rs`.

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_tensor::{Shape, Tensor};

use crate::levels::{read, write};

pub(crate) fn register(r: &mut Registry) {
    // `UniformQuantize(input: Tin, scales: float, zero_points: int32) -> output: Tout`, attrs `quantization_axis`,
    // `quantization_min_val`, `quantization_max_val`. `UniformDequantize`: back.
    r.op("UniformQuantize").shape(shape_fns::unchanged).cpu(quantize);
    r.op("UniformDequantize").shape(shape_fns::unchanged).cpu(dequantize);

    // `UniformRequantize(input: Tin, input_scales: float, input_zero_points: int32, output_scales: float,
    // output_zero_points: int32) -> output: Tout`.
    r.op("UniformRequantize").shape(shape_fns::unchanged).cpu(requantize);

    // `UniformQuantizedAdd(lhs: T, rhs: T, lhs_scales, lhs_zero_points, rhs_scales, rhs_zero_points, output_scales,
    // output_zero_points) -> output: T`, with broadcasting.
    r.op("UniformQuantizedAdd").shape(add_shape).cpu(add);

    // `UniformQuantizedClipByValue(operand: T, min: T, max: T, scales: float, zero_points: int32) -> output: T`.
    r.op("UniformQuantizedClipByValue").shape(shape_fns::unchanged).cpu(clip);
}

fn add_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = shape_ops::broadcast(ctx.input(0), ctx.input(1))?;
    ctx.set_output(0, shape);
    Ok(())
}

/// Scales and zero points of the slices of a tensor, and how to find an element's slice.
pub(crate) struct Slices<'a> {
    pub(crate) scales: &'a [f32],
    pub(crate) zeros: &'a [i32],
    count: usize,
    inner: usize,
}

impl<'a> Slices<'a> {
    /// Those in inputs `first` and `first + 1`, for a tensor of this shape and axis.
    ///
    /// # Errors
    /// `InvalidArgument` if shapes and axis do not fit together.
    pub(crate) fn new(
        ctx: &'a OpContext<'_>,
        first: usize,
        shape: &Shape,
        axis: i64,
    ) -> Result<Slices<'a>> {
        let (scales, zeros) = (ctx.input(first)?, ctx.input(first + 1)?);
        require!(
            scales.shape() == zeros.shape(),
            "scales and zero_points shape must be same, but given scales shape {} and zero_points shape {}",
            scales.shape(),
            zeros.shape()
        );
        require!(
            axis >= -1 && axis < shape.rank() as i64,
            "quantization_axis must be -1 or within [0, dims), but given quantization_axis {axis}"
        );
        let (mut count, mut inner) = (1, shape.count().max(1));
        if let Ok(axis) = usize::try_from(axis) {
            count = shape.dim(axis);
            inner = (shape[axis + 1..].iter().product::<i64>() as usize).max(1);
            require!(
                scales.rank() == 1 && scales.count() == count,
                "If quantization_axis is not -1, scales and zero_points must be rank 1 tensors with the size of \
                 the quantization_axis dimension {count}, but given scales and zero_points shape {}",
                scales.shape()
            );
        } else {
            require!(
                scales.rank() == 0,
                "If quantization_axis is -1, scales and zero_points must be scalar tensors, but given scales and \
                 zero_points shape {}",
                scales.shape()
            );
        }
        Ok(Slices { scales: scales.as_slice()?, zeros: zeros.as_slice()?, count, inner })
    }

    /// The slice of an element.
    pub(crate) fn of(&self, element: usize) -> usize {
        element / self.inner % self.count
    }

    pub(crate) fn are_positive(&self) -> bool {
        self.scales.iter().all(|&scale| scale > 0.0)
    }
}

/// The bounds of levels in attrs `{prefix}quantization_min_val` and `..._max_val`.
pub(crate) fn bounds(attrs: &Attrs, prefix: &str) -> Result<[i32; 2]> {
    let bound = |name: &str| -> Result<i32> {
        let value = attrs.int(&format!("{prefix}quantization_{name}_val"))?;
        i32::try_from(value).map_err(|_| {
            invalid!(
                "Attr {prefix}quantization_{name}_val has value {value} out of range for an int32"
            )
        })
    };
    Ok([bound("min")?, bound("max")?])
}

/// The axis in attr `{prefix}quantization_axis`.
pub(crate) fn axis(attrs: &Attrs, prefix: &str) -> Result<i64> {
    let name = format!("{prefix}quantization_axis");
    let axis = attrs.int(&name)?;
    require!(axis >= -1, "{name} must be >= -1, given: {axis}");
    Ok(axis)
}

/// A level between bounds; unlike `clamp`, for bounds in any order.
pub(crate) fn bounded(level: i32, [min, max]: [i32; 2]) -> i32 {
    level.min(max).max(min)
}

/// The level for a real: half away from the next lower one goes up.
pub(crate) fn level(x: f32, inverse_scale: f32, zero: i32, bounds: [i32; 2]) -> i32 {
    bounded(((x * inverse_scale + 0.5).floor() as i32).wrapping_add(zero), bounds)
}

fn quantize(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let (axis, bounds) = (axis(init.attrs, "")?, bounds(init.attrs, "")?);
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        let slices = Slices::new(ctx, 1, input.shape(), axis)?;
        require!(slices.are_positive(), "scales elements must be all positive.");
        let values = input.as_slice::<f32>()?.iter().enumerate().map(|(index, &x)| {
            let slice = slices.of(index);
            level(x, 1.0 / slices.scales[slice], slices.zeros[slice], bounds)
        });
        write(ctx, 0, input.shape().clone(), values)
    })
}

fn dequantize(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let axis = axis(init.attrs, "")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        let slices = Slices::new(ctx, 1, input.shape(), axis)?;
        require!(slices.are_positive(), "scales elements must be all positive.");
        let values = read(input)?;
        ctx.produce(0, input.shape().clone(), |out| {
            for (index, (to, level)) in out.typed::<f32>().iter_mut().zip(values).enumerate() {
                let slice = slices.of(index);
                *to = level.wrapping_sub(slices.zeros[slice]) as f32 * slices.scales[slice];
            }
        })
    })
}

/// A positive factor as an integer and a shift.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Multiplier {
    factor: i32,
    shift: i32,
}

impl Multiplier {
    /// # Errors
    /// `InvalidArgument` for what is not positive and finite.
    pub(crate) fn new(value: f64) -> Result<Multiplier> {
        require!(
            value.is_finite() && value > 0.0,
            "double_multiplier must be a poisitive finite number. Given {value}"
        );
        // `value = fraction · 2^shift` with a fraction between one half and one. A subnormal number is shifted out anyway.
        let exponent = ((value.to_bits() >> 52) & 0x7ff) as i32;
        let mut shift = exponent - 1022;
        let fraction = f64::from_bits((value.to_bits() & !(0x7ff << 52)) | (1022 << 52));
        let mut factor = (fraction * (1i64 << 31) as f64).round() as i64;
        if factor == 1 << 31 {
            factor /= 2;
            shift += 1;
        }
        if shift < -31 {
            (factor, shift) = (0, 0);
        }
        if shift > 30 {
            (factor, shift) = ((1 << 31) - 1, 30);
        }
        Ok(Multiplier { factor: factor as i32, shift })
    }

    /// The product, rounded to the nearest integer.
    pub(crate) fn apply(self, x: i32) -> i32 {
        let shift = 31 - self.shift;
        let product = i64::from(x) * i64::from(self.factor) + (1i64 << (shift - 1));
        (product >> shift).clamp(i32::MIN.into(), i32::MAX.into()) as i32
    }
}

/// Levels of one quantization as those of another.
fn requantized(
    values: Vec<i32>,
    from: &Slices<'_>,
    to: &Slices<'_>,
    zeros: Option<&[i32]>,
    bounds: [i32; 2],
) -> Result<Vec<i32>> {
    let mut cache: Option<([f32; 2], Multiplier)> = None;
    let mut out = Vec::with_capacity(values.len());
    for (index, level) in values.into_iter().enumerate() {
        let (source, target) = (from.of(index), to.of(index));
        let scales = [from.scales[source], to.scales[target]];
        let multiplier = match cache {
            Some((known, multiplier)) if known == scales => multiplier,
            _ => Multiplier::new(f64::from(scales[0]) / f64::from(scales[1]))?,
        };
        cache = Some((scales, multiplier));
        let zero = zeros.map_or(0, |zeros| zeros[target]);
        let level = multiplier.apply(level.wrapping_sub(from.zeros[source])).wrapping_add(zero);
        out.push(bounded(level, bounds));
    }
    Ok(out)
}

fn requantize(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let (from_axis, to_axis) = (axis(init.attrs, "input_")?, axis(init.attrs, "output_")?);
    let bounds = bounds(init.attrs, "output_")?;
    require!(
        from_axis == -1 || to_axis == -1 || from_axis == to_axis,
        "If input and output is both per-axis quantized, the quantization axis must be same."
    );
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        let from = Slices::new(ctx, 1, input.shape(), from_axis)?;
        let to = Slices::new(ctx, 3, input.shape(), to_axis)?;
        require!(
            from.are_positive() && to.are_positive(),
            "input/output scales elements must be all positive."
        );
        let levels = requantized(read(input)?, &from, &to, Some(to.zeros), bounds)?;
        write(ctx, 0, input.shape().clone(), levels.into_iter())
    })
}

fn add(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let axes = ["lhs_", "rhs_", "output_"].map(|prefix| axis(init.attrs, prefix));
    let [lhs_axis, rhs_axis, out_axis] = axes;
    let (lhs_axis, rhs_axis, out_axis) = (lhs_axis?, rhs_axis?, out_axis?);
    let bounds = bounds(init.attrs, "output_")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (lhs, rhs) = (ctx.input(0)?, ctx.input(1)?);
        let from_lhs = Slices::new(ctx, 2, lhs.shape(), lhs_axis)?;
        let from_rhs = Slices::new(ctx, 4, rhs.shape(), rhs_axis)?;
        let (shape, places) =
            crate::elementwise::broadcast(lhs.shape(), rhs.shape()).map_err(|_| {
                invalid!("Cannot Add tensors of shapes: {}{}", lhs.shape(), rhs.shape())
            })?;
        let to = Slices::new(ctx, 6, &shape, out_axis)?;
        for (tensor, axis, name) in [(lhs, lhs_axis, "lhs"), (rhs, rhs_axis, "rhs")] {
            require!(
                axis < 0
                    || out_axis < 0
                    || tensor.rank() as i64 - axis == shape.rank() as i64 - out_axis,
                "If {name} and output is both per-axis quantized, the quantization axis must match."
            );
        }
        require!(
            from_lhs.are_positive() && from_rhs.are_positive() && to.are_positive(),
            "lhs/rhs/output scales elements must be all positive."
        );
        // The output's scales along the operands, which have fewer dimensions perhaps.
        let full = [i32::MIN, i32::MAX];
        let part = |tensor: &Tensor, from: &Slices<'_>, axis: i64| -> Result<Vec<i32>> {
            let axis = if out_axis == -1 { -1 } else { axis };
            let to = Slices::new(ctx, 6, tensor.shape(), axis)?;
            requantized(read(tensor)?, from, &to, None, full)
        };
        let along = |tensor: &Tensor| match out_axis {
            -1 => -1,
            axis => axis - (shape.rank() - tensor.rank()) as i64,
        };
        let (x, y) = (part(lhs, &from_lhs, along(lhs))?, part(rhs, &from_rhs, along(rhs))?);
        let sums = places.iter().enumerate().map(|(index, &[i, j])| {
            let zero = to.zeros[to.of(index)];
            bounded(x[i].wrapping_add(y[j]).wrapping_add(zero), bounds)
        });
        write(ctx, 0, shape.clone(), sums)
    })
}

fn clip(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let axis = axis(init.attrs, "")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (operand, min, max) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        debug_assert_eq!(operand.dtype(), DType::QINT32);
        let slices = Slices::new(ctx, 3, operand.shape(), axis)?;
        require!(slices.are_positive(), "scales elements must be all positive.");
        let expected = ctx.input(3)?.shape();
        require!(
            min.shape() == expected && max.shape() == expected,
            "Input min and max must have the shape of scales {expected}, got {} and {}",
            min.shape(),
            max.shape()
        );
        let (min, max) = (read(min)?, read(max)?);
        let values = read(operand)?.into_iter().enumerate().map(|(index, level)| {
            let slice = slices.of(index);
            level.max(min[slice]).min(max[slice])
        });
        write(ctx, 0, operand.shape().clone(), values)
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::QInt8;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op, tensor};

    use super::*;

    #[test]
    fn multipliers() {
        for (value, x, expected) in [
            (0.5, 7, 4),
            (0.5, -7, -3),
            (3.0, 5, 15),
            (1.0 / 3.0, 10, 3),
            (1e-20, 1 << 30, 0),
            (1e20, 5, i32::MAX),
        ] {
            assert_eq!(Multiplier::new(value).unwrap().apply(x), expected, "{value} {x}");
        }
        assert!(Multiplier::new(0.0).is_err());
    }

    #[test]
    fn scales_along_an_axis() {
        let registry = registry_of(register);
        let attrs = [
            ("Tin", AttrValue::Type(DType::FLOAT)),
            ("Tout", AttrValue::Type(DType::QINT8)),
            ("quantization_axis", AttrValue::Int(1)),
            ("quantization_min_val", AttrValue::Int(-128)),
            ("quantization_max_val", AttrValue::Int(127)),
        ];
        let x = floats(&[2, 2], &[1.0, 1.0, -2.4, 300.0]);
        let inputs = [x, floats(&[2], &[0.5, 2.0]), tensor(&[2], &[0i32, 10])];
        let out = run_op(&registry, "UniformQuantize", &attrs, &inputs).unwrap();
        let expected = [QInt8(2), QInt8(11), QInt8(-5), QInt8(127)];
        assert_eq!(out[0].as_slice::<QInt8>().unwrap(), expected);
    }
}
