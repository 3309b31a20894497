//! Requantization: levels of 32 bits to fewer, and the ranges for that.

use tfcore_base::{Result, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::Tensor;

use crate::levels::{Levels, Range, read, scalar, set_range, write};
use crate::shapes::{like_first, scalar_outputs, scalars};

pub(crate) fn register(r: &mut Registry) {
    // `RequantizationRange(input: Tinput, input_min: float, input_max: float) -> output_min: float, output_max: float`:
    // the range that is used. `...PerChannel`: for ranges by channel, no wider than attr `clip_value_max`.
    r.op("RequantizationRange")
        .shape(|ctx| {
            scalars(ctx, [1, 2])?;
            scalar_outputs(ctx, 0);
            Ok(())
        })
        .compute(|ctx| {
            let range = used_range(ctx)?;
            set_range(ctx, 0, range);
            Ok(())
        });
    r.op("RequantizationRangePerChannel")
        .shape(|ctx| {
            shape_ops::with_rank(ctx.input(1), 1)?;
            shape_ops::with_rank(ctx.input(2), 1)?;
            scalar_outputs(ctx, 0);
            Ok(())
        })
        .cpu(range_per_channel);

    // `QuantizeDownAndShrinkRange(input: Tinput, input_min: float, input_max: float) -> output: out_type, output_min:
    // float, output_max: float`: requantized to the range that is used.
    r.op("QuantizeDownAndShrinkRange").shape(like_first).compute(|ctx| {
        let (from, to) = (range(ctx, 1)?, used_range(ctx)?);
        requantize(ctx, from, to)
    });

    // `Requantize(input: Tinput, input_min: float, input_max: float, requested_output_min: float, requested_output_max:
    // float) -> output: out_type, output_min: float, output_max: float`. `RequantizePerChannel`: with ranges by channel.
    r.op("Requantize").shape(like_first).compute(|ctx| {
        let from = range(ctx, 1)?;
        let min = scalar(ctx, 3, "requested_output_min")?;
        let max = scalar(ctx, 4, "requested_output_max")?;
        require!(min <= 0.0, "requested_output_min must be <= 0, but got {min}");
        require!(
            max >= min,
            "requested_output_max must be >= requested_output_min, but got {max} and {min}"
        );
        requantize(ctx, from, Range { min, max })
    });
    r.op("RequantizePerChannel").shape(per_channel_shape).compute(per_channel);
}

fn per_channel_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(1), 1)?;
    shape_ops::with_rank(ctx.input(2), 1)?;
    scalars(ctx, [3, 4])?;
    ctx.set_output(0, ctx.input(0).clone());
    scalar_outputs(ctx, 1);
    Ok(())
}

fn range(ctx: &OpContext<'_>, first: usize) -> Result<Range> {
    let min = scalar(ctx, first, "input_min")?;
    Ok(Range { min, max: scalar(ctx, first + 1, "input_max")? })
}

/// The reals between the least and the largest element, and 0.
fn used_range(ctx: &OpContext<'_>) -> Result<Range> {
    let given = range(ctx, 1)?;
    let values = read(ctx.input(0)?)?;
    // What there is of no elements is a range the wrong way round.
    let least = values.iter().copied().min().unwrap_or(i32::MAX);
    let largest = values.iter().copied().max().unwrap_or(i32::MIN);
    let min = Levels::QINT32.dequantize(least, given).min(0.0);
    Ok(Range { min, max: Levels::QINT32.dequantize(largest, given) })
}

/// Levels of 32 bits to those of the output.
fn requantize(ctx: &OpContext<'_>, from: Range, to: Range) -> Result<()> {
    let levels = Levels::of(ctx.output_dtype(0))?;
    let input = ctx.input(0)?;
    let shape = input.shape().clone();
    let values = read(input)?.into_iter();
    if levels == Levels::QUINT8 {
        write(ctx, 0, shape, values.map(to_8_bits(from, to)))?;
    } else {
        let (dequantize, quantize) = (Levels::QINT32.dequantizer(from), levels.quantizer(to));
        write(ctx, 0, shape, values.map(|level| quantize(dequantize(level))))?;
    }
    set_range(ctx, 1, to);
    Ok(())
}

/// Requantization to unsigned levels of 8 bits, in fixed point with 16 bits behind the point.
fn to_8_bits(from: Range, to: Range) -> impl Fn(i32) -> i32 {
    const SHIFT: u32 = 16;
    let one = (1i64 << SHIFT) as f32;
    let (from_width, to_width) = (from.max - from.min, to.max - to.min);
    let middle = (f64::from(from.min + from.max) / 2.0) as f32;
    let (mut scale, mut to_offset, mut reciprocal) = (0, 0, 0.0f32);
    if to_width != 0.0 {
        reciprocal = (255.0 / f64::from(to_width)) as f32;
        let factor = 255.0 * f64::from(one) * f64::from(from_width) / f64::from(to_width);
        scale = factor as i64;
        to_offset = (f64::from(one) * (f64::from(to.min) * 255.0) / f64::from(to_width)) as i64;
    }
    let from_offset = (middle * reciprocal * one) as i64;
    move |level| {
        let scaled = (i128::from(level) * i128::from(scale)) >> 32;
        let fixed = scaled + i128::from(from_offset) - i128::from(to_offset) + (1 << (SHIFT - 1));
        (fixed >> SHIFT).clamp(0, 255) as i32
    }
}

/// The vector of input `index` with an entry for each of so many channels.
fn vector<'a>(ctx: &'a OpContext<'_>, index: usize, name: &str, depth: usize) -> Result<&'a [f32]> {
    let tensor = ctx.input(index)?;
    require!(
        tensor.rank() == 1 && tensor.count() == depth,
        "{name} has incorrect size, expected {depth} was {}",
        tensor.count()
    );
    tensor.as_slice()
}

/// Two to the power of 31, which the levels of 32 bits are fractions of.
const HALF_RANGE: f32 = 2_147_483_648.0;

fn range_per_channel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let clip = init.attrs.float("clip_value_max")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        require!(input.rank() == 4, "Rank of input must be 4, got shape {}", input.shape());
        let depth = input.dim(3);
        let minima = vector(ctx, 1, "input_min", depth)?;
        // The reference calls both by the first one's name.
        let maxima = vector(ctx, 2, "input_min", depth)?;
        let mut largest = vec![0u32; depth];
        let mut negative = false;
        for (index, level) in read(input)?.into_iter().enumerate() {
            let channel = index % depth;
            largest[channel] = largest[channel].max(level.unsigned_abs());
            negative |= level < 0;
        }
        let mut reach = f32::MIN_POSITIVE;
        for channel in 0..depth {
            let scale = minima[channel].abs().max(maxima[channel].abs());
            reach = reach.max(scale * largest[channel] as f32 / HALF_RANGE);
        }
        let max = if reach > clip { clip } else { reach };
        let min = if negative { -max } else { 0.0 };
        set_range(ctx, 0, Range { min, max });
        Ok(())
    })
}

fn per_channel(ctx: &mut OpContext<'_>) -> Result<()> {
    let input = ctx.input(0)?;
    // The reference names the depth by the vector that it looks at first.
    let depth = match input.rank() {
        4 => input.dim(3),
        _ => ctx.input(2)?.count(),
    };
    let maxima = vector(ctx, 2, "input_max", depth);
    let minima = vector(ctx, 1, "input_min", depth);
    let (minima, maxima) = match (minima, maxima) {
        (Ok(minima), Ok(maxima)) => (minima, maxima),
        _ => {
            let (found, expected) = (ctx.input(2)?.count(), ctx.input(1)?.count());
            require!(false, "input_max has incorrect size, expected {expected} was {found}");
            return Ok(());
        }
    };
    for (index, name) in [(3, "requested_output_min"), (4, "requested_output_max")] {
        let tensor: &Tensor = ctx.input(index)?;
        require!(tensor.count() == 1, "{name} must be a scalar, got shape {}", tensor.shape());
    }
    let to = Range { min: scalar(ctx, 3, "")?, max: scalar(ctx, 4, "")? };
    let levels = Levels::of(ctx.output_dtype(0))?;
    let factor = if levels.is_signed() { 127.0f32 } else { 255.0 };
    let requested = to.min.abs().max(to.max.abs());
    let ends = minima.iter().zip(maxima).map(|(min, max)| min.abs().max(max.abs()));
    let scales: Vec<f32> = ends.map(|end| factor * (end / requested / HALF_RANGE)).collect();
    let (lowest, highest) = (levels.lowest as f32, levels.highest as f32);
    let values = read(input)?.into_iter().zip(scales.iter().cycle());
    let values = values.map(|(level, scale)| {
        (level as f32 * scale).max(lowest).min(highest).round_ties_even() as i32
    });
    write(ctx, 0, input.shape().clone(), values)?;
    set_range(ctx, 1, to);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_base::{DType, QInt8, QInt32, QUInt8};
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op, tensor};

    use super::*;

    #[test]
    fn from_32_bits_to_8() {
        let registry = registry_of(register);
        let attrs = |dtype| {
            [("Tinput", AttrValue::Type(DType::QINT32)), ("out_type", AttrValue::Type(dtype))]
        };
        // Levels that stand for themselves divided by 2^23.
        let x = tensor(&[3], &[QInt32(0), QInt32(10 << 23), QInt32(100 << 23)]);
        let one = |x: f32| floats(&[], &[x]);
        let inputs = [x.clone(), one(-256.0), one(256.0), one(0.0), one(255.0)];
        let out = run_op(&registry, "Requantize", &attrs(DType::QUINT8), &inputs).unwrap();
        assert_eq!(out[0].as_slice::<QUInt8>().unwrap(), [QUInt8(0), QUInt8(10), QUInt8(100)]);
        let inputs = [x.clone(), one(-256.0), one(256.0)];
        let attrs = [("Tinput", AttrValue::Type(DType::QINT32))];
        let out = run_op(&registry, "RequantizationRange", &attrs, &inputs).unwrap();
        assert!((out[1].as_slice::<f32>().unwrap()[0] - 100.0).abs() < 1e-4);
        let x = x.with_shape(tfcore_tensor::Shape::new(&[1, 1, 1, 3]).unwrap()).unwrap();
        let by_channel = [256.0, 256.0, 2560.0];
        let ends = floats(&[3], &by_channel);
        let starts = floats(&[3], &by_channel.map(|x: f32| -x));
        let attrs =
            [("T", AttrValue::Type(DType::QINT32)), ("out_type", AttrValue::Type(DType::QINT8))];
        let inputs = [x, starts, ends, one(-127.0), one(127.0)];
        let out = run_op(&registry, "RequantizePerChannel", &attrs, &inputs).unwrap();
        assert_eq!(out[0].as_slice::<QInt8>().unwrap(), [QInt8(0), QInt8(10), QInt8(127)]);
    }
}
