//! Fake quantization: floats rounded to the levels that they would have, and the gradients of that.

use tfcore_base::{Result, require};
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::shapes::scalars;

pub(crate) fn register(r: &mut Registry) {
    // `FakeQuantWithMinMaxArgs(inputs: float) -> outputs: float`, attrs `min`, `max`, `num_bits`, `narrow_range`: the
    // range in attrs. `...Vars(inputs, min, max)`: in inputs. `...VarsPerChannel`: one for each channel.
    r.op("FakeQuantWithMinMaxArgs").shape(shape_fns::unchanged).cpu(|init| {
        let args = Args::new(init.attrs)?;
        kernel(move |ctx: &mut OpContext<'_>| args.forward(ctx))
    });
    r.op("FakeQuantWithMinMaxVars")
        .shape(|ctx| {
            scalars(ctx, [1, 2])?;
            shape_fns::unchanged(ctx)
        })
        .cpu(|init| forward(init, false));
    r.op("FakeQuantWithMinMaxVarsPerChannel")
        .shape(per_channel_shape)
        .cpu(|init| forward(init, true));

    // `...Gradient(gradients: float, inputs: float, ...) -> backprops_wrt_input: float, backprop_wrt_min: float,
    // backprop_wrt_max: float`: gradients of inputs outside of the range go to its ends.
    r.op("FakeQuantWithMinMaxArgsGradient").shape(shape_fns::unchanged).cpu(|init| {
        let args = Args::new(init.attrs)?;
        kernel(move |ctx: &mut OpContext<'_>| args.backward(ctx))
    });
    r.op("FakeQuantWithMinMaxVarsGradient")
        .shape(vars_gradient_shape)
        .cpu(|init| backward(init, false));
    r.op("FakeQuantWithMinMaxVarsPerChannelGradient")
        .shape(per_channel_gradient_shape)
        .cpu(|init| backward(init, true));

    r.op("FakeQuantWithMinMaxArgs").gradient(|c| {
        let attrs = c.attrs_named(&["min", "max", "num_bits", "narrow_range"])?;
        let op = "FakeQuantWithMinMaxArgsGradient";
        Ok(vec![Some(c.node(op, &[c.grad(0), c.input(0)], &attrs))])
    });
    r.op("FakeQuantWithMinMaxVars")
        .gradient(|c| vars_gradient(c, "FakeQuantWithMinMaxVarsGradient"));
    r.op("FakeQuantWithMinMaxVarsPerChannel")
        .gradient(|c| vars_gradient(c, "FakeQuantWithMinMaxVarsPerChannelGradient"));
}

fn vars_gradient(
    c: &tfcore_framework::GradientContext<'_>,
    op: &str,
) -> Result<tfcore_framework::Gradients> {
    let attrs = c.attrs_named(&["num_bits", "narrow_range"])?;
    let inputs = [c.grad(0), c.input(0), c.input(1), c.input(2)];
    let all = c.node(op, &inputs, &attrs);
    Ok((0..3).map(|index| Some(all.at(index))).collect())
}

fn per_channel_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    let mut channels = match input.dims() {
        Some(dims) => dims[dims.len() - 1],
        None => tfcore_tensor::Dim::UNKNOWN,
    };
    for index in [1, 2] {
        let vector = shape_ops::with_rank(ctx.input(index), 1)?;
        channels = shape_ops::merge_dims(channels, vector.dim(0))?;
    }
    shape_fns::unchanged(ctx)
}

fn vars_gradient_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = shape_ops::merge(ctx.input(0), ctx.input(1))?;
    scalars(ctx, [2, 3])?;
    ctx.set_output(0, shape);
    (1..3).for_each(|index| ctx.set_output(index, PartialShape::scalar()));
    Ok(())
}

fn per_channel_gradient_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = shape_ops::with_rank_at_most(&shape_ops::with_rank_at_least(ctx.input(0), 1)?, 4)?;
    let shape = shape_ops::merge(&shape, ctx.input(1))?;
    let mut vector = match shape.dims() {
        Some(dims) => PartialShape::vector(dims[dims.len() - 1]),
        None => PartialShape::of_rank(1),
    };
    let ends = shape_ops::merge(ctx.input(2), ctx.input(3))?;
    vector = shape_ops::merge(&ends, &vector)?;
    ctx.set_output(0, shape);
    (1..3).for_each(|index| ctx.set_output(index, vector.clone()));
    Ok(())
}

/// The range of levels: attrs `num_bits` and `narrow_range`.
#[derive(Clone, Copy)]
struct Bits {
    lowest: f32,
    highest: f32,
}

impl Bits {
    fn new(attrs: &Attrs) -> Result<Bits> {
        let bits = attrs.int("num_bits")?;
        require!((2..=16).contains(&bits), "num_bits must be between 2 and 16, inclusive");
        let lowest = if attrs.bool("narrow_range")? { 1.0 } else { 0.0 };
        Ok(Bits { lowest, highest: ((1u32 << bits) - 1) as f32 })
    }

    /// The range moved such that 0 is a level.
    fn nudged(self, min: f32, max: f32) -> Nudged {
        let scale = (max - min) / (self.highest - self.lowest);
        let zero = self.lowest - min / scale;
        let zero = if zero < self.lowest {
            self.lowest
        } else if zero > self.highest {
            self.highest
        } else {
            zero.round()
        };
        let (min, max) = ((self.lowest - zero) * scale, (self.highest - zero) * scale);
        Nudged { min, max, scale }
    }
}

#[derive(Clone, Copy)]
struct Nudged {
    min: f32,
    max: f32,
    scale: f32,
}

impl Nudged {
    fn round(self, x: f32) -> f32 {
        let inverse = 1.0 / self.scale;
        let zero = (-self.min * inverse + 0.5).floor();
        let clamped = if x < self.max { x } else { self.max };
        let clamped = if clamped > self.min { clamped } else { self.min };
        ((clamped - self.min) * inverse - zero + 0.5).floor() * self.scale
    }

    fn contains(self, x: f32) -> bool {
        x >= self.min && x <= self.max
    }
}

/// The op with its range in attrs.
#[derive(Clone, Copy)]
struct Args(Nudged);

impl Args {
    fn new(attrs: &Attrs) -> Result<Args> {
        let (min, max) = (attrs.float("min")?, attrs.float("max")?);
        require!(min < max, "min has to be smaller than max, was: {min} >= {max}");
        Ok(Args(Bits::new(attrs)?.nudged(min, max)))
    }

    fn forward(&self, ctx: &OpContext<'_>) -> Result<()> {
        let x = ctx.input(0)?;
        let values = x.as_slice::<f32>()?;
        ctx.produce(0, x.shape().clone(), |out| {
            out.typed::<f32>().iter_mut().zip(values).for_each(|(to, &x)| *to = self.0.round(x));
        })
    }

    fn backward(&self, ctx: &OpContext<'_>) -> Result<()> {
        let (gradients, x) = (ctx.input(0)?, ctx.input(1)?);
        require!(x.shape() == gradients.shape(), "gradient and input must be the same size");
        let pairs = gradients.as_slice::<f32>()?.iter().zip(x.as_slice::<f32>()?);
        ctx.produce(0, x.shape().clone(), |out| {
            for (to, (&gradient, &x)) in out.typed::<f32>().iter_mut().zip(pairs) {
                *to = if self.0.contains(x) { gradient } else { gradient * 0.0 };
            }
        })
    }
}

/// The ranges in inputs `first` and `first + 1`: one, or one for each of the channels of input `x`. `None` stands for a range of
/// nothing but 0.
fn ranges(
    ctx: &OpContext<'_>,
    bits: Bits,
    x: usize,
    first: usize,
    per_channel: bool,
) -> Result<Vec<Option<Nudged>>> {
    let (min, max) = (ctx.input(first)?, ctx.input(first + 1)?);
    if per_channel {
        let shape = ctx.input(x)?.shape();
        require!(shape.rank() > 0, "inputs must have at least one dimension, got {shape}");
        let depth = shape.dim(shape.rank() - 1);
        for (tensor, name) in [(min, "min"), (max, "max")] {
            require!(tensor.rank() == 1, "`{name}` must be rank 1 but is rank {}", tensor.rank());
            require!(
                tensor.count() == depth,
                "{name} has incorrect size, expected {depth} was {}",
                tensor.count()
            );
        }
    } else {
        for (tensor, name) in [(min, "min"), (max, "max")] {
            require!(tensor.rank() == 0, "`{name}` must be rank 0 but is rank {}", tensor.rank());
        }
    }
    let pairs = min.as_slice::<f32>()?.iter().zip(max.as_slice::<f32>()?);
    Ok(pairs
        .map(|(&min, &max)| (min != 0.0 || max != 0.0).then(|| bits.nudged(min, max)))
        .collect())
}

fn forward(init: &KernelInit<'_>, per_channel: bool) -> Result<Box<dyn Kernel>> {
    let bits = Bits::new(init.attrs)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let ranges = ranges(ctx, bits, 0, 1, per_channel)?;
        let x = ctx.input(0)?;
        let values = x.as_slice::<f32>()?.iter();
        ctx.produce(0, x.shape().clone(), |out| {
            let out = out.typed::<f32>().iter_mut();
            for ((to, &x), range) in out.zip(values).zip(ranges.iter().cycle()) {
                *to = range.map_or(0.0, |range| range.round(x));
            }
        })
    })
}

fn backward(init: &KernelInit<'_>, per_channel: bool) -> Result<Box<dyn Kernel>> {
    let bits = Bits::new(init.attrs)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (gradients, x) = (ctx.input(0)?, ctx.input(1)?);
        require!(x.shape() == gradients.shape(), "gradient and input must be the same size");
        let ranges = ranges(ctx, bits, 1, 2, per_channel)?;
        let pairs = gradients.as_slice::<f32>()?.iter().zip(x.as_slice::<f32>()?);
        let mut below = vec![0.0f32; ranges.len()];
        let mut above = below.clone();
        ctx.produce(0, x.shape().clone(), |out| {
            let out = out.typed::<f32>().iter_mut();
            let channels = ranges.iter().enumerate().cycle();
            for ((to, (&gradient, &x)), (channel, range)) in out.zip(pairs).zip(channels) {
                let Some(range) = range else {
                    *to = gradient;
                    continue;
                };
                *to = if range.contains(x) { gradient } else { gradient * 0.0 };
                below[channel] += if x < range.min { gradient } else { 0.0 };
                above[channel] += if x > range.max { gradient } else { 0.0 };
            }
        })?;
        let shape = if per_channel { Shape::vector(ranges.len()) } else { Shape::scalar() };
        ctx.set_output(1, Tensor::from_slice(shape.clone(), &below)?);
        ctx.set_output(2, Tensor::from_slice(shape, &above)?);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op};

    use super::*;

    #[test]
    fn levels_include_zero() {
        let registry = registry_of(register);
        // Four levels of range 3: nudged from [-1.1, 1.9] to [-1, 2].
        let attrs = [("num_bits", AttrValue::Int(2))];
        let x = floats(&[5], &[-2.0, -0.4, 0.6, 1.4, 9.0]);
        let inputs = [x.clone(), floats(&[], &[-1.1]), floats(&[], &[1.9])];
        let out = run_op(&registry, "FakeQuantWithMinMaxVars", &attrs, &inputs).unwrap();
        assert_eq!(out[0].as_slice::<f32>().unwrap(), [-1.0, 0.0, 1.0, 1.0, 2.0]);
        let gradients = floats(&[5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
        let inputs = [gradients, x, inputs[1].clone(), inputs[2].clone()];
        let out = run_op(&registry, "FakeQuantWithMinMaxVarsGradient", &attrs, &inputs).unwrap();
        assert_eq!(out[0].as_slice::<f32>().unwrap(), [0.0, 2.0, 3.0, 4.0, 0.0]);
        assert_eq!(out[1].as_slice::<f32>().unwrap(), [1.0]);
        assert_eq!(out[2].as_slice::<f32>().unwrap(), [5.0]);
        let attrs = [("min", AttrValue::Float(1.0)), ("max", AttrValue::Float(0.0))];
        let x = floats(&[1], &[1.0]);
        assert!(run_op(&registry, "FakeQuantWithMinMaxArgs", &attrs, &[x]).is_err());
    }
}
