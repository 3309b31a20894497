//! Biases: a vector added along the channels, and its gradient.

use tfcore_base::{Elem, LoopFor, Number, Numbers, Result, Ring, TypedLoop, invalid};
use tfcore_framework::geometry::ImageFormat;
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, for_each_part, kernel,
    matching, shape_ops,
};
use tfcore_math::isa::vectorize;
use tfcore_tensor::{Dim, Elems, ElemsMut, PartialShape, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `BiasAdd(value: T, bias: T) -> output: T`, attr `data_format`: `value[.., c] + bias[c]`, where the
    // channels are the last dimension, or the second one for NCHW.
    // `BiasAddV1` is the same without the attr.
    r.ops(["BiasAdd", "BiasAddV1"], |op| {
        op.shape(bias_add_shape).typed_kernel::<AddBias, Numbers>("T", bias_add);
    });

    // `BiasAddGrad(out_backprop: T) -> output: T`, attr `data_format`: the sum over all but the channels.
    r.op("BiasAddGrad")
        .shape(bias_add_grad_shape)
        .typed_kernel::<SumChannels, Numbers>("T", bias_add_grad);
}

fn channels_second(attrs: &Attrs) -> Result<bool> {
    Ok(ImageFormat::from_attrs(attrs)? == ImageFormat::Nchw)
}

/// The input's shape, of sufficient rank, and the axis of its channels.
fn channel_axis(ctx: &InferenceContext<'_>) -> Result<(PartialShape, i64)> {
    let second = channels_second(ctx.attrs)?;
    let shape = shape_ops::with_rank_at_least(ctx.input(0), if second { 3 } else { 2 })?;
    Ok((shape, if second { 1 } else { -1 }))
}

fn bias_add_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (shape, axis) = channel_axis(ctx)?;
    let bias = shape_ops::with_rank(ctx.input(1), 1)?;
    if let Some(dims) = shape.dims() {
        let index = shape_ops::resolve_axis(axis, dims.len())?;
        let merged = shape_ops::merge_dims(dims[index], bias.dim(0))?;
        ctx.set_output(0, shape_ops::replace_dim(&shape, axis, merged)?);
    }
    Ok(())
}

fn bias_add_grad_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (shape, axis) = channel_axis(ctx)?;
    let channels = match shape.dims() {
        Some(dims) => dims[shape_ops::resolve_axis(axis, dims.len())?],
        None => Dim::fresh(),
    };
    ctx.set_output(0, PartialShape::vector(channels));
    Ok(())
}

/// How the channels lie in a tensor: [outer, channels, inner].
struct Layout {
    channels: usize,
    inner: usize,
}

fn layout(shape: &Shape, second: bool) -> Result<Layout> {
    if shape.rank() < 2 {
        return Err(invalid!("Input tensor must be at least 2D: {shape}"));
    }
    let axis = if second { 1 } else { shape.rank() - 1 };
    let inner = shape[axis + 1..].iter().product::<i64>() as usize;
    Ok(Layout { channels: shape.dim(axis), inner })
}

/// Adds biases to elements in place: as many as there are elements, or one for all.
type AddLoop = fn(ElemsMut<'_>, Elems<'_>);

struct AddBias;

impl TypedLoop for AddBias {
    type Loop = AddLoop;
}

impl<T: Elem + Ring> LoopFor<T> for AddBias {
    const LOOP: AddLoop = |out, bias| {
        let (out, bias) = (out.typed::<T>(), bias.typed::<T>());
        vectorize(
            #[inline(always)]
            || match *bias {
                [bias] => out.iter_mut().for_each(|x| *x = x.plus(bias)),
                _ => out.iter_mut().zip(bias).for_each(|(x, &bias)| *x = x.plus(bias)),
            },
        );
    };
}

/// Bytes of repeated biases: enough that a loop over them is long, few enough to stay in the cache.
const PATTERN: usize = 2048;

fn bias_add(init: &KernelInit<'_>, add: AddLoop) -> Result<Box<dyn Kernel>> {
    let second = channels_second(init.attrs)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (shape, bias) = (ctx.input(0)?.shape().clone(), ctx.input(1)?);
        let Layout { channels, inner } = layout(&shape, second)?;
        if bias.rank() != 1 {
            return Err(invalid!("Biases must be 1D: {}", bias.shape()));
        }
        if bias.count() != channels {
            return Err(invalid!(
                "Must provide as many biases as the last dimension of the input tensor: {} vs. {shape}",
                bias.shape()
            ));
        }
        let (mut out, forwarded) = ctx.forward_or_allocate(&[0], 0, shape)?;
        if out.count() == 0 {
            ctx.set_output(0, out);
            return Ok(());
        }
        let value = if forwarded.is_some() { None } else { Some(ctx.input(0)?.elems()) };
        let pattern = if inner == 1 { Some(repeated(ctx.input(1)?.elems())?) } else { None };
        let bias = pattern.as_ref().map_or(ctx.input(1)?.elems(), |pattern| pattern.elems());
        // Elements that meet one stretch of biases: the whole pattern, or a single channel's plane.
        let run = if inner == 1 { bias.len() } else { inner };
        for_each_part(ctx.parallel(), out.elems_mut()?, 1, &|start, mut part| {
            let (mut at, end) = (start, start + part.len());
            while at < end {
                let within = at % run;
                let stop = end.min(at + (run - within).min(MAX_RUN));
                let mut piece = part.slice(at - start..stop - start);
                if let Some(value) = value {
                    let source = matching(value, at, &piece);
                    piece.reborrow().copy_from(source);
                }
                let biases = match inner {
                    1 => within..within + (stop - at),
                    _ => (at / inner) % channels..(at / inner) % channels + 1,
                };
                add(piece, bias.slice(biases));
                at = stop;
            }
        });
        ctx.set_output(0, out);
        Ok(())
    })
}

/// Elements that are copied and then added to while they are in the cache.
const MAX_RUN: usize = 2048;

/// The elements, several times over where they are few.
fn repeated(elems: Elems<'_>) -> Result<Tensor> {
    let len = elems.len();
    let times = (PATTERN / elems.dtype().size().max(1)).checked_div(len).unwrap_or(1).max(1);
    let shape = Shape::vector(times * len);
    let mut pattern = Tensor::allocate(elems.dtype(), shape, None)?;
    let mut target = pattern.elems_mut()?;
    for time in 0..times {
        target.slice(time * len..(time + 1) * len).copy_from(elems);
    }
    Ok(pattern)
}

/// Sums, into `out`, the channels of `x` from the given one on; `x` is [outer, channels, inner].
type SumLoop = fn(x: Elems<'_>, layout: &Layout, first: usize, out: ElemsMut<'_>);

struct SumChannels;

impl TypedLoop for SumChannels {
    type Loop = SumLoop;
}

impl<T: Number<Wide: Ring>> LoopFor<T> for SumChannels {
    const LOOP: SumLoop = |x, &Layout { channels, inner }, first, out| {
        let (x, out) = (x.typed::<T>(), out.typed::<T>());
        let mut sums = vec![T::Wide::ZERO; out.len()];
        let span = first * inner..(first + out.len()) * inner;
        for outer in x.chunks_exact((channels * inner).max(1)) {
            let planes = &outer[span.clone()];
            vectorize(
                #[inline(always)]
                || match inner {
                    1 => {
                        for (sum, x) in sums.iter_mut().zip(planes) {
                            *sum = sum.plus(x.widen());
                        }
                    }
                    _ => {
                        for (sum, plane) in sums.iter_mut().zip(planes.chunks_exact(inner)) {
                            *sum = plane.iter().fold(*sum, |sum, x| sum.plus(x.widen()));
                        }
                    }
                },
            );
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = T::narrow(sum);
        }
    };
}

fn bias_add_grad(init: &KernelInit<'_>, sum: SumLoop) -> Result<Box<dyn Kernel>> {
    let second = channels_second(init.attrs)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let value = ctx.input(0)?;
        let layout = layout(value.shape(), second)?;
        ctx.produce(0, Shape::vector(layout.channels), |out| {
            if value.count() == 0 {
                return out.fill_default();
            }
            let cost = value.count() / layout.channels;
            for_each_part(ctx.parallel(), out, cost, &|first, part| {
                sum(value.elems(), &layout, first, part);
            });
        })
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, infer, registry_of, run_op};

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn attrs(format: &str) -> [(&'static str, AttrValue); 2] {
        [("T", AttrValue::Type(DType::FLOAT)), ("data_format", AttrValue::string(format))]
    }

    #[test]
    fn the_channels_are_last_or_second() {
        let value = floats(&[1, 2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let cases: [(&str, &[f32], [f32; 6]); 2] = [
            ("NHWC", &[10.0, 20.0, 30.0], [10.0, 21.0, 32.0, 13.0, 24.0, 35.0]),
            ("NCHW", &[10.0, 20.0], [10.0, 11.0, 12.0, 23.0, 24.0, 25.0]),
        ];
        for (format, bias, expected) in cases {
            let inputs = [value.clone(), floats(&[bias.len() as i64], bias)];
            let out = run_op(&registry(), "BiasAdd", &attrs(format), &inputs).unwrap();
            assert_eq!(out[0].as_slice::<f32>().unwrap(), expected, "{format}");
        }
        let sums = |format: &str| {
            let inputs = std::slice::from_ref(&value);
            let out = run_op(&registry(), "BiasAddGrad", &attrs(format), inputs).unwrap();
            out[0].as_slice::<f32>().unwrap().to_vec()
        };
        assert_eq!(sums("NHWC"), [3.0, 5.0, 7.0]);
        assert_eq!(sums("NCHW"), [3.0, 12.0]);
    }

    #[test]
    fn a_long_row_meets_its_biases() {
        let bias: Vec<f32> = (0..700).map(|i| i as f32).collect();
        let inputs = [floats(&[7, 700], &[1.0; 4900]), floats(&[700], &bias)];
        let out = run_op(&registry(), "BiasAdd", &attrs("NHWC"), &inputs).unwrap();
        for (index, &value) in out[0].as_slice::<f32>().unwrap().iter().enumerate() {
            assert_eq!(value, (index % 700) as f32 + 1.0, "{index}");
        }
    }

    #[test]
    fn shapes() {
        let cases = [
            ("NHWC", "[2,?];[3]", Ok("[2,3]")),
            ("NCHW", "[2,?,4];[3]", Ok("[2,3,4]")),
            ("NHWC", "?;[3]", Ok("?")),
            ("NHWC", "[2,4];[3]", Err("Dimensions must be equal, but are 4 and 3")),
            ("NHWC", "[3];[3]", Err("Shape must be at least rank 2 but is rank 1")),
        ];
        for (format, inputs, expected) in cases {
            let actual = infer(&registry(), "BiasAdd", &attrs(format), inputs, &[]);
            let actual = actual.as_deref().map_err(|error| error.message());
            assert_eq!(actual, expected, "{format} {inputs}");
        }
    }
}
