//! `QuantizeV2` and `Dequantize`: from floats to quantized numbers and back.

use tfcore_base::{BFloat16, DType, Result, require, unimplemented_error};
use tfcore_framework::{Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel};
use tfcore_tensor::{Shape, Tensor};

use crate::levels::{Levels, Range, read, write};
use crate::shapes::slice_ranges;

pub(crate) fn register(r: &mut Registry) {
    // `QuantizeV2(input: float, min_range: float, max_range: float) -> output: T, output_min: float, output_max: float`,
    // attrs `mode`, `round_mode`, `narrow_range`, `axis`, `ensure_minimum_range`.
    r.op("QuantizeV2").shape(quantize_shape).cpu(quantize);

    // `Dequantize(input: T, min_range: float, max_range: float) -> output: dtype`, attrs `mode`, `narrow_range`,
    // `axis`.
    r.op("Dequantize").shape(dequantize_shape).cpu(dequantize);
}

/// How levels stand for reals.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// The lowest level is the least real.
    MinCombined,
    /// As `MinCombined`, with the least real rounded to a level first.
    MinFirst,
    /// Level 0 is 0.
    Scaled,
}

fn mode(attrs: &Attrs) -> Result<Mode> {
    Ok(match attrs.str("mode")? {
        "MIN_COMBINED" => Mode::MinCombined,
        "MIN_FIRST" => Mode::MinFirst,
        _ => Mode::Scaled,
    })
}

fn quantize_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let ranges = slice_ranges(ctx, 0, 1)?;
    ctx.set_output(0, ctx.input(0).clone());
    ctx.set_output(1, ranges.clone());
    ctx.set_output(2, ranges);
    Ok(())
}

fn dequantize_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let axis = ctx.attrs.int("axis")?;
    let rank = ctx.input(0).rank().map_or(-1, |rank| rank as i64);
    require!(
        axis < -1 || axis < rank || (axis == -1 && rank == -1),
        "Axis must be less than input dimension({rank}), got {axis}"
    );
    slice_ranges(ctx, 0, 1)?;
    ctx.set_output(0, ctx.input(0).clone());
    Ok(())
}

/// Slices of a tensor along an axis: `outer` times `slices` runs of `inner` elements.
#[derive(Clone, Copy)]
struct Slices {
    count: usize,
    inner: usize,
}

impl Slices {
    fn of(shape: &Shape, axis: i64) -> Slices {
        match usize::try_from(axis) {
            Ok(axis) => Slices {
                count: shape.dim(axis),
                inner: shape[axis + 1..].iter().product::<i64>() as usize,
            },
            Err(_) => Slices { count: 1, inner: shape.count().max(1) },
        }
    }

    /// The slice of an element.
    fn index(self, element: usize) -> usize {
        element / self.inner % self.count
    }
}

/// What is done to the floats of one slice.
type Rule = Box<dyn Fn(f32) -> i32>;

/// The attributes of `QuantizeV2`.
#[derive(Clone, Copy)]
struct Quantize {
    mode: Mode,
    levels: Levels,
    to_even: bool,
    narrow: bool,
    axis: i64,
    least_range: f32,
}

fn quantize(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let mode = mode(attrs)?;
    let round = attrs.str("round_mode")?;
    require!(
        round == "HALF_AWAY_FROM_ZERO" || mode == Mode::Scaled,
        "Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '{}'.",
        attrs.str("mode")?
    );
    let settings = Quantize {
        mode,
        levels: Levels::of(attrs.dtype("T")?)?,
        to_even: round == "HALF_TO_EVEN",
        narrow: attrs.bool("narrow_range")?,
        axis: attrs.int("axis")?,
        least_range: attrs.float("ensure_minimum_range")?,
    };
    kernel(move |ctx: &mut OpContext<'_>| settings.compute(ctx))
}

impl Quantize {
    fn compute(&self, ctx: &OpContext<'_>) -> Result<()> {
        let (input, minima, maxima) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        let shape = input.shape();
        let slices = if self.axis > -1 {
            require!(
                self.axis < shape.rank() as i64,
                "Axis must be at least -1 and less than the rank of the input, got {}",
                self.axis
            );
            let slices = Slices::of(shape, self.axis);
            for (tensor, name) in [(minima, "min_range"), (maxima, "max_range")] {
                require!(
                    tensor.rank() == 1,
                    "{name} must be a 1-D tensor when axis is specified, got shape {}",
                    tensor.shape()
                );
                require!(
                    tensor.count() == slices.count,
                    "{name} must have the same number of elements as the input along the axis. Expected {}, \
                     got {}",
                    slices.count,
                    tensor.count()
                );
            }
            slices
        } else {
            for (tensor, name) in [(minima, "min_range"), (maxima, "max_range")] {
                require!(
                    tensor.count() == 1,
                    "If axis is not specified, {name} must contain a single float element, but it contains \
                     {} elements",
                    tensor.count()
                );
            }
            Slices::of(shape, -1)
        };
        require!(
            self.mode != Mode::MinFirst || slices.count == 1,
            "MIN_FIRST mode is not implemented for Quantize with axis != -1."
        );
        let mut rules: Vec<Rule> = Vec::with_capacity(slices.count);
        let (mut out_min, mut out_max) = (Vec::new(), Vec::new());
        let pairs = minima.as_slice::<f32>()?.iter().zip(maxima.as_slice::<f32>()?);
        for (&min, &max) in pairs {
            let (rule, range) = self.rule(min, max)?;
            rules.push(rule);
            out_min.push(range.min);
            out_max.push(range.max);
        }
        let values = input.as_slice::<f32>()?.iter().enumerate();
        let values = values.map(|(index, &x)| rules[slices.index(index)](x));
        write(ctx, 0, shape.clone(), values)?;
        let ranges = if self.axis > -1 { Shape::vector(out_min.len()) } else { Shape::scalar() };
        ctx.set_output(1, Tensor::from_slice(ranges.clone(), &out_min)?);
        ctx.set_output(2, Tensor::from_slice(ranges, &out_max)?);
        Ok(())
    }

    /// What a slice with this range becomes, and the range that it really has.
    fn rule(&self, given_min: f32, given_max: f32) -> Result<(Rule, Range)> {
        let reversed = given_max < given_min;
        require!(!reversed, "input_max_range must be larger than input_min_range.");
        // Zero is in the range, which is wide enough for later ops to compute with.
        let min = given_min.min(0.0);
        let largest = given_min.abs().max(given_max.abs());
        let epsilon = largest.max(1.0) * self.least_range;
        let max = given_max.max(min + epsilon).max(0.0);
        let range = Range { min, max };
        let Levels { lowest, highest } = self.levels;
        match self.mode {
            Mode::MinCombined => {
                let scale = (highest as f32 - lowest as f32) / (max - min);
                let half = if self.levels.is_signed() {
                    (highest as f32 - lowest as f32 + 1.0) / 2.0
                } else {
                    0.0
                };
                let signed = self.levels.is_signed();
                let rule: Rule = Box::new(move |x| {
                    let shifted = (x.min(max).max(min) - min) * scale;
                    if signed { (shifted - half).round() as i32 } else { (shifted + 0.5) as i32 }
                });
                Ok((rule, range))
            }
            Mode::MinFirst => Ok((Box::new(self.levels.quantizer(range)), range)),
            Mode::Scaled => {
                let lowest = (lowest + i64::from(self.narrow)) as f32;
                let highest = highest as f32;
                // The larger side decides; what is not signed has one side alone.
                let from_min = if lowest * min > 0.0 { lowest / min } else { f32::MAX };
                let from_max = if highest * max > 0.0 { highest / max } else { f32::MAX };
                let scale = from_min.min(from_max);
                let range = Range { min: lowest / scale, max: highest / scale };
                let to_even = self.to_even;
                let rule: Rule = Box::new(move |x| {
                    let scaled = x.min(range.max).max(range.min) * scale;
                    truncated(if to_even { scaled.round_ties_even() } else { scaled.round() })
                });
                Ok((rule, range))
            }
        }
    }
}

/// A float as an integer of 32 bits, as the reference's machine converts it: what does not fit becomes the lowest one.
fn truncated(x: f32) -> i32 {
    if (-2_147_483_648.0..2_147_483_648.0).contains(&x) { x as i32 } else { i32::MIN }
}

fn dequantize(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let (mode, axis) = (mode(attrs)?, attrs.int("axis")?);
    let narrow = attrs.bool("narrow_range")?;
    let levels = Levels::of(attrs.dtype("T")?)?;
    let wide = attrs.dtype("dtype")? == DType::FLOAT;
    require!(
        wide || mode == Mode::MinCombined,
        "When output type is bfloat16, Mode string must be 'MIN_COMBINED', is '{}'",
        attrs.str("mode")?
    );
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        let shape = input.shape();
        require!(
            axis < shape.rank() as i64,
            "Axis must be less than input dimension({}), got {axis}",
            shape.rank()
        );
        let slices = Slices::of(shape, axis);
        for (index, name) in [(1, "input_min_tensor"), (2, "input_max_tensor")] {
            let count = ctx.input(index)?.count();
            require!(
                count == slices.count,
                "{name} must have as many elements as input on the dequantization axis ({axis}), got \
                 {count}, expected {}",
                slices.count
            );
        }
        if slices.count != 1 && mode == Mode::MinFirst {
            return Err(unimplemented_error!(
                "MIN_FIRST mode is not implemented for Dequantize with axis != -1."
            ));
        }
        let minima = ctx.input(1)?.as_slice::<f32>()?.iter();
        let rules: Vec<Box<dyn Fn(i32) -> f32>> = minima
            .zip(ctx.input(2)?.as_slice::<f32>()?)
            .map(|(&min, &max)| inverse(mode, levels, narrow, Range { min, max }))
            .collect();
        let values = read(input)?.into_iter().enumerate();
        let values = values.map(|(index, level)| rules[slices.index(index)](level));
        let mut out = ctx.allocate_output(0, shape.clone())?;
        if wide {
            out.as_mut_slice::<f32>()?.iter_mut().zip(values).for_each(|(to, x)| *to = x);
        } else {
            let out = out.as_mut_slice::<BFloat16>()?.iter_mut();
            out.zip(values).for_each(|(to, x)| *to = BFloat16::from_f32(x));
        }
        ctx.set_output(0, out);
        Ok(())
    })
}

/// The reals of the levels of a slice.
fn inverse(mode: Mode, levels: Levels, narrow: bool, range: Range) -> Box<dyn Fn(i32) -> f32> {
    let (lowest, highest) = (levels.lowest as f32, levels.highest as f32);
    match mode {
        Mode::MinCombined => {
            let half = if levels.is_signed() { (highest - lowest + 1.0) / 2.0 } else { 0.0 };
            let scale = (range.max - range.min) / (highest - lowest);
            Box::new(move |level| (level as f32 + half) * scale + range.min)
        }
        Mode::MinFirst => Box::new(levels.dequantizer(range)),
        Mode::Scaled => {
            let least = (levels.lowest + i64::from(narrow)) as f32;
            let scale = match levels.is_signed() {
                true => (range.min / least).max(range.max / highest),
                false => range.max / highest,
            };
            Box::new(move |level| level as f32 * scale)
        }
    }
}

#[cfg(test)]
mod tests {
    use tfcore_base::QInt8;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, infer, registry_of, run_op, tensor};

    use super::*;

    #[test]
    fn there_and_back() {
        let registry = registry_of(register);
        let attrs = |mode: &str, axis: i64| {
            [
                ("T", AttrValue::Type(DType::QINT8)),
                ("mode", AttrValue::string(mode)),
                ("axis", AttrValue::Int(axis)),
            ]
        };
        let one = |x: f32| floats(&[], &[x]);
        let x = floats(&[3], &[-1.0, 0.0, 6.0]);
        let inputs = [x, one(-128.0), one(127.0)];
        for mode in ["MIN_COMBINED", "MIN_FIRST", "SCALED"] {
            let out = run_op(&registry, "QuantizeV2", &attrs(mode, -1), &inputs).unwrap();
            assert_eq!(out[0].as_slice::<QInt8>().unwrap(), [QInt8(-1), QInt8(0), QInt8(6)]);
            let inputs = [out[0].clone(), one(-128.0), one(127.0)];
            let back = run_op(&registry, "Dequantize", &attrs(mode, -1), &inputs).unwrap();
            assert_eq!(back[0].as_slice::<f32>().unwrap(), [-1.0, 0.0, 6.0]);
        }
        // A scale for each column.
        let pair = |a: f32, b: f32| floats(&[2], &[a, b]);
        let x = floats(&[1, 2], &[1.0, 1.0]);
        let inputs = [x, pair(-1.0, 0.0), pair(1.0, 12.7)];
        let out = run_op(&registry, "QuantizeV2", &attrs("SCALED", 1), &inputs).unwrap();
        assert_eq!(out[0].as_slice::<QInt8>().unwrap(), [QInt8(127), QInt8(10)]);
        let wrong = [tensor(&[1], &[QInt8(1)]), one(1.0), pair(1.0, 2.0)];
        assert!(run_op(&registry, "Dequantize", &attrs("SCALED", -1), &wrong).is_err());
    }

    #[test]
    fn shapes() {
        let registry = registry_of(register);
        let attrs = [("T", AttrValue::Type(DType::QINT8)), ("axis", AttrValue::Int(1))];
        let shape = |op, inputs| infer(&registry, op, &attrs, inputs, &[]);
        assert_eq!(shape("QuantizeV2", "[2,5];[5];[5]").unwrap(), "[2,5];[5];[5]");
        assert!(shape("QuantizeV2", "[2,5];[7];[7]").is_err());
        assert!(shape("Dequantize", "?;[7];[7]").is_err());
    }
}
