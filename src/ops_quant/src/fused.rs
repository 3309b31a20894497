//! `_FusedQuantizedConv2D`, `_FusedQuantizedDepthwiseConv2D` and `_QuantizedMatMul`: products of scaled levels and what follows them,
//! as the reference's optimiser makes them.
//!
//! Ranges lie around 0 here: a level is a multiple of the larger end divided by 127, or by 255 if it has no sign.

use tfcore_base::{BFloat16, DType, Result, invalid, require, unimplemented_error};
use tfcore_framework::geometry::{ImageFormat, ImageWindow};
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::conv::{Conv2dGeometry, conv2d};
use tfcore_math::gemm::{MatMut, MatRef, matmul};
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::levels::{Levels, Range, read, scalar, set_range, write};
use crate::product::{conv2d_shape, matmul_shape};
use crate::shape_only::depthwise_shape;

pub(crate) fn register(r: &mut Registry) {
    // `_FusedQuantizedConv2D(device_inputs: Tdevice_inputs, host_inputs: Thost_inputs) -> device_outputs, host_outputs`:
    // image, filter and bias; the ends of the ranges of image and filter, and of the output's if it is requantized.
    r.op("_FusedQuantizedConv2D")
        .shape(|ctx| {
            conv2d_shape(ctx)?;
            range_shapes(ctx)
        })
        .cpu(|init| fused_conv(init, false));
    r.op("_FusedQuantizedDepthwiseConv2D")
        .shape(|ctx| {
            depthwise_shape(ctx)?;
            range_shapes(ctx)
        })
        .cpu(|init| fused_conv(init, true));

    // `_QuantizedMatMul(device_inputs: Tdevice_inputs, host_inputs: Thost_inputs) -> device_outputs, host_outputs`.
    r.op("_QuantizedMatMul").shape(matmul_shape).cpu(fused_matmul);
}

/// Outputs from 1 on are the ends of a range: those of the output if they are given, else like those of the filter.
fn range_shapes(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let devices = ctx.attrs.dtypes("Tdevice_inputs")?.len();
    let requantized = ctx.attrs.string_list("fused_ops")?.iter().any(|op| &**op == b"Requantize");
    let shape = match requantized {
        true => PartialShape::scalar(),
        false => shape_ops::with_rank_at_most(ctx.input(devices + 3), 1)?,
    };
    (1..ctx.num_outputs()).for_each(|index| ctx.set_output(index, shape.clone()));
    Ok(())
}

/// A function of the reals.
#[derive(Clone, Copy, PartialEq)]
enum Activation {
    Identity,
    Relu,
    Relu6,
    Tanh,
    Sigmoid,
    Elu,
    LeakyRelu(f32),
    GeluApproximate,
    GeluExact,
}

impl Activation {
    fn apply(self, x: f32) -> f32 {
        match self {
            Activation::Identity => x,
            Activation::Relu => x.max(0.0),
            Activation::Relu6 => x.clamp(0.0, 6.0),
            Activation::Tanh => x.tanh(),
            Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Activation::Elu if x < 0.0 => x.exp_m1(),
            Activation::LeakyRelu(slope) if x < 0.0 => x * slope,
            Activation::Elu | Activation::LeakyRelu(_) => x,
            Activation::GeluApproximate => {
                let inner = 0.797_884_6 * (x + 0.044_715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }
            Activation::GeluExact => {
                0.5 * x
                    * (1.0 + tfcore_math::elementary::erf_f32(x * std::f32::consts::FRAC_1_SQRT_2))
            }
        }
    }
}

/// What attr `fused_ops` says.
#[derive(Clone, Copy)]
struct Fusion {
    bias: bool,
    activation: Activation,
    last: Last,
}

/// What a result is turned into.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    /// Levels of 32 bits.
    Levels,
    Requantize,
    Dequantize,
}

impl Fusion {
    fn new(attrs: &Attrs, slope: &str) -> Result<Fusion> {
        let ops = attrs.string_list("fused_ops")?;
        let names: Vec<_> = ops.iter().map(|op| String::from_utf8_lossy(op)).collect();
        let none = || unimplemented_error!("Fusion is not implemented: [{}]", names.join(","));
        let mut rest: Vec<&str> = names.iter().map(|name| &**name).collect();
        let bias = rest.first() == Some(&"BiasAdd");
        if bias {
            rest.remove(0);
        }
        let last = match rest.last() {
            Some(&"Requantize") => Last::Requantize,
            Some(&"Dequantize") => Last::Dequantize,
            _ => Last::Levels,
        };
        if last != Last::Levels {
            rest.pop();
        }
        let activation = match rest[..] {
            [] => Activation::Identity,
            ["Relu"] => Activation::Relu,
            ["Relu6"] => Activation::Relu6,
            ["Tanh"] => Activation::Tanh,
            ["Sigmoid"] => Activation::Sigmoid,
            ["Elu"] => Activation::Elu,
            ["LeakyRelu"] => Activation::LeakyRelu(attrs.float(slope)?),
            ["GeluApproximate"] => Activation::GeluApproximate,
            ["GeluExact"] => Activation::GeluExact,
            _ => return Err(none()),
        };
        Ok(Fusion { bias, activation, last })
    }
}

/// The largest level that ranges around 0 are divided by.
fn largest(dtype: DType) -> f32 {
    if dtype == DType::QUINT8 { 255.0 } else { 127.0 }
}

/// The real of level 1.
fn unit(range: Range, dtype: DType) -> f32 {
    range.min.abs().max(range.max.abs()) / largest(dtype)
}

/// The ranges in inputs `first` and `first + 1`: one, or one for each channel.
fn ranges(ctx: &OpContext<'_>, first: usize, channels: usize) -> Result<Vec<Range>> {
    let (min, max) = (ctx.input(first)?, ctx.input(first + 1)?);
    require!(
        min.count() == max.count() && (min.count() == 1 || min.count() == channels),
        "min_filter and max_filter must have one element or one for each of {channels} channels, got {} and {}",
        min.shape(),
        max.shape()
    );
    let pairs = min.as_slice::<f32>()?.iter().zip(max.as_slice::<f32>()?);
    Ok(pairs.map(|(&min, &max)| Range { min, max }).collect())
}

/// Range of sums of products in 32 bits. The lowest level of a signed type is left out, so that those of both signs are as many.
fn product_range(a: Range, a_dtype: DType, b: Range, b_dtype: DType) -> Range {
    let step = |range: Range, dtype: DType| {
        let levels = if dtype == DType::QUINT8 { 255.0 } else { 254.0 };
        (range.max - range.min) / levels
    };
    let max = step(a, a_dtype) * step(b, b_dtype) * i32::MAX as f32;
    Range { min: -max, max }
}

/// The biases of channels as reals, given what level 1 is.
fn biases(tensor: &Tensor, channels: usize, units: &dyn Fn(usize) -> f32) -> Result<Vec<f32>> {
    require!(
        tensor.rank() == 1 && tensor.count() == channels,
        "bias must have an element for each of {channels} channels, got {}",
        tensor.shape()
    );
    Ok(match tensor.dtype() {
        DType::FLOAT => tensor.as_slice::<f32>()?.to_vec(),
        DType::BFLOAT16 => tensor.as_slice::<BFloat16>()?.iter().map(|x| x.to_f32()).collect(),
        _ => {
            let levels = read(tensor)?.into_iter().enumerate();
            levels.map(|(channel, level)| level as f32 * units(channel)).collect()
        }
    })
}

/// Turns sums of products, rows of channels, into the output.
struct Finish<'a> {
    fusion: Fusion,
    /// Of the sums, channel by channel or for all.
    units: Vec<f32>,
    bias: Option<Vec<f32>>,
    /// Of the output, if it is requantized.
    range: Option<Range>,
    sums: &'a [i32],
    channels: usize,
}

impl Finish<'_> {
    fn unit(&self, channel: usize) -> f32 {
        self.units[channel.min(self.units.len() - 1)]
    }

    /// The reals of the sums with what follows them.
    fn reals(&self) -> impl Iterator<Item = f32> + '_ {
        self.sums.iter().enumerate().map(|(index, &sum)| {
            let channel = index % self.channels;
            let bias = self.bias.as_ref().map_or(0.0, |bias| bias[channel]);
            self.fusion.activation.apply(sum as f32 * self.unit(channel) + bias)
        })
    }

    /// Sets output 0, to levels of the output's type.
    fn set(&self, ctx: &OpContext<'_>, shape: Shape) -> Result<()> {
        let dtype = ctx.output_dtype(0);
        if let Some(range) = self.range {
            let (levels, unit) = (Levels::of(dtype)?, unit(range, dtype));
            let (lowest, highest) = (levels.lowest as f32, levels.highest as f32);
            let values =
                self.reals().map(|x| (x / unit).round_ties_even().clamp(lowest, highest) as i32);
            return write(ctx, 0, shape, values);
        }
        let values = self.sums.iter().enumerate().map(|(index, &sum)| {
            let channel = index % self.channels;
            let bias = self.bias.as_ref().map_or(0.0, |bias| bias[channel]);
            let level = (f64::from(bias) / f64::from(self.unit(channel))).round_ties_even();
            let sum =
                (i64::from(sum) + level as i64).clamp(i32::MIN.into(), i32::MAX.into()) as i32;
            if self.fusion.activation == Activation::Relu { sum.max(0) } else { sum }
        });
        write(ctx, 0, shape, values)
    }
}

fn fused_conv(init: &KernelInit<'_>, depthwise: bool) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let fusion = Fusion::new(attrs, "alpha")?;
    if fusion.last == Last::Dequantize
        || !matches!(fusion.activation, Activation::Identity | Activation::Relu)
    {
        let ops = attrs.string_list("fused_ops")?;
        let names: Vec<_> = ops.iter().map(|op| String::from_utf8_lossy(op)).collect();
        return Err(unimplemented_error!("Fusion is not implemented: [{}]", names.join(",")));
    }
    let four = |name: &str| {
        <[i64; 4]>::try_from(attrs.ints(name)?)
            .map_err(|_| invalid!("Sliding window {name} field must specify 4 dimensions"))
    };
    let (strides, dilations) = (four("strides")?, four("dilations")?);
    let format = attrs.str("data_format")?;
    require!(format == "NHWC", "{} only supports NHWC, got {format}", init.op.name);
    for (of, name) in [(&strides, "strides"), (&dilations, "dilations")] {
        if (of[0], of[3]) != (1, 1) {
            return Err(unimplemented_error!(
                "Current implementation does not yet support {name} in the batch and depth dimensions."
            ));
        }
        require!(of[1] > 0 && of[2] > 0, "{name} must be positive");
    }
    let window = ImageWindow::new(attrs, ImageFormat::Nhwc, strides, dilations)?;
    let device_inputs = attrs.dtypes("Tdevice_inputs")?.len();
    let inputs = device_inputs + attrs.dtypes("Thost_inputs")?.len();
    let needed = device_inputs + if fusion.last == Last::Requantize { 6 } else { 4 };
    require!(
        inputs >= needed && device_inputs >= 2 + usize::from(fusion.bias),
        "{} has too few inputs: {inputs}",
        init.op.name
    );
    kernel(move |ctx: &mut OpContext<'_>| {
        let (input, filter) = (ctx.input(0)?, ctx.input(1)?);
        for (tensor, name) in [(input, "input"), (filter, "filter")] {
            require!(tensor.rank() == 4, "{name} must be rank 4 but is rank {}", tensor.rank());
        }
        let in_c = input.dim(3);
        require!(
            in_c == filter.dim(2),
            "input and filter must have the same depth: {in_c} vs {}",
            filter.dim(2)
        );
        let rows = window.rows.places(input.dim(1), filter.dim(0))?;
        let cols = window.cols.places(input.dim(2), filter.dim(1))?;
        let out_c = match depthwise {
            true => in_c.checked_mul(filter.dim(3)).ok_or_else(|| invalid!("too many channels"))?,
            false => filter.dim(3),
        };
        let g = Conv2dGeometry {
            batch: input.dim(0),
            in_h: input.dim(1),
            in_w: input.dim(2),
            in_c,
            filter_h: filter.dim(0),
            filter_w: filter.dim(1),
            out_c,
            out_h: rows.count,
            out_w: cols.count,
            stride_h: window.rows.stride as usize,
            stride_w: window.cols.stride as usize,
            dilation_h: window.rows.dilation as usize,
            dilation_w: window.cols.dilation as usize,
            pad_top: rows.before,
            pad_left: cols.before,
            // Each channel by itself is a group.
            groups: if depthwise { in_c.max(1) } else { 1 },
        };
        let shape = Shape::new(&ImageFormat::Nhwc.sizes(g.batch, g.out_h, g.out_w, g.out_c))?;
        let mut sums = vec![0; shape.count()];
        if input.count() > 0 && filter.count() > 0 && !sums.is_empty() {
            conv2d(ctx.parallel(), &g, &read(input)?, &read(filter)?, &mut sums);
        }
        let min = scalar(ctx, device_inputs, "min_input")?;
        let a = Range { min, max: scalar(ctx, device_inputs + 1, "max_input")? };
        let filters = ranges(ctx, device_inputs + 2, out_c)?;
        let input_unit = unit(a, input.dtype());
        let units: Vec<f32> =
            filters.iter().map(|&range| input_unit * unit(range, filter.dtype())).collect();
        let bias = match fusion.bias {
            true => {
                let of = |channel: usize| units[channel.min(units.len() - 1)];
                Some(biases(ctx.input(2)?, out_c, &of)?)
            }
            false => None,
        };
        let range = match fusion.last {
            Last::Requantize => {
                let min = scalar(ctx, device_inputs + 4, "min_freezed_output")?;
                Some(Range { min, max: scalar(ctx, device_inputs + 5, "max_freezed_output")? })
            }
            _ => None,
        };
        let finish = Finish { fusion, units, bias, range, sums: &sums, channels: out_c };
        finish.set(ctx, shape)?;
        if let Some(range) = range {
            set_range(ctx, 1, range);
            return Ok(());
        }
        let products: Vec<Range> =
            filters.iter().map(|&b| product_range(a, input.dtype(), b, filter.dtype())).collect();
        let ends = |end: fn(&Range) -> f32| products.iter().map(end).collect::<Vec<f32>>();
        let shape = ctx.input(device_inputs + 2)?.shape().clone();
        ctx.set_output(1, Tensor::from_slice(shape.clone(), &ends(|range| range.min))?);
        ctx.set_output(2, Tensor::from_slice(shape, &ends(|range| range.max))?);
        Ok(())
    })
}

fn fused_matmul(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let fusion = Fusion::new(attrs, "leakyrelu_alpha")?;
    let ops = attrs.string_list("fused_ops")?;
    let names: Vec<_> = ops.iter().map(|op| String::from_utf8_lossy(op)).collect();
    let min_first = attrs.str("input_quant_mode")? == "MIN_FIRST"
        || attrs.str("output_quant_mode")? == "MIN_FIRST";
    let levels_only = fusion.last == Last::Levels && fusion.activation != Activation::Identity;
    if !fusion.bias || levels_only {
        return Err(unimplemented_error!("Fusion is not implemented: [{}]", names.join(",")));
    }
    if min_first {
        return Err(unimplemented_error!("_QuantizedMatMul is not implemented for mode MIN_FIRST"));
    }
    let transposed = [attrs.bool("transpose_a")?, attrs.bool("transpose_b")?];
    let device_inputs = attrs.dtypes("Tdevice_inputs")?.len();
    let inputs = device_inputs + attrs.dtypes("Thost_inputs")?.len();
    let needed = device_inputs + if fusion.last == Last::Requantize { 6 } else { 4 };
    require!(
        inputs >= needed && device_inputs >= 3,
        "_QuantizedMatMul has too few inputs: {inputs}"
    );
    kernel(move |ctx: &mut OpContext<'_>| {
        let (a, b) = (ctx.input(0)?, ctx.input(1)?);
        require!(a.rank() == 2, "In[0] is not a matrix. Instead it has shape {}", a.shape());
        require!(b.rank() == 2, "In[1] is not a matrix. Instead it has shape {}", b.shape());
        let [ta, tb] = transposed.map(usize::from);
        let (m, k, n) = (a.dim(ta), a.dim(1 - ta), b.dim(1 - tb));
        require!(
            k == b.dim(tb),
            "Matrix size-incompatible: In[0]: {}, In[1]: {}",
            a.shape(),
            b.shape()
        );
        let shape = Shape::new(&[m as i64, n as i64])?;
        let mut sums = vec![0; shape.count()];
        let (x, y) = (read(a)?, read(b)?);
        if k > 0 && !sums.is_empty() {
            let view = |data, cols: usize, transposed: bool| {
                let view = MatRef::new(data, cols, 1);
                if transposed { view.transposed() } else { view }
            };
            let (x, y) = (view(&x, a.dim(1), transposed[0]), view(&y, b.dim(1), transposed[1]));
            matmul(ctx.parallel(), m, n, k, x, y, MatMut::new(&mut sums, n, 1), false);
        }
        let end = |at: usize, name: &str| scalar(ctx, device_inputs + at, name);
        let range_a = Range { min: end(0, "min_a")?, max: end(1, "max_a")? };
        let range_b = Range { min: end(2, "min_b")?, max: end(3, "max_b")? };
        let mut unit_of_sums = unit(range_a, a.dtype()) * unit(range_b, b.dtype());
        if fusion.last == Last::Levels {
            // The reference adds the bias to levels as it is.
            unit_of_sums = 1.0;
        }
        let bias = biases(ctx.input(2)?, n, &|_| unit_of_sums)?;
        let range = match fusion.last {
            Last::Requantize => Some(Range {
                min: end(4, "min_freezed_output")?,
                max: end(5, "max_freezed_output")?,
            }),
            _ => None,
        };
        let units = vec![unit_of_sums];
        let finish = Finish { fusion, units, bias: Some(bias), range, sums: &sums, channels: n };
        match fusion.last {
            Last::Dequantize => {
                let mut out = ctx.allocate_output(0, shape)?;
                match out.dtype() {
                    DType::BFLOAT16 => {
                        let out = out.as_mut_slice::<BFloat16>()?.iter_mut();
                        out.zip(finish.reals()).for_each(|(to, x)| *to = BFloat16::from_f32(x));
                    }
                    _ => {
                        let out = out.as_mut_slice::<f32>()?.iter_mut();
                        out.zip(finish.reals()).for_each(|(to, x)| *to = x);
                    }
                }
                ctx.set_output(0, out);
                return Ok(());
            }
            _ => finish.set(ctx, shape)?,
        }
        let mut result = match range {
            Some(range) => range,
            None => product_range(range_a, a.dtype(), range_b, b.dtype()),
        };
        if ctx.output_dtype(0) == DType::QUINT8 {
            result.min = 0.0;
        }
        if ctx.num_outputs() > 2 {
            set_range(ctx, 1, result);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::{QInt8, QInt32, QUInt8};
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op, tensor};

    use super::*;

    fn run(ops: &[&str], output: DType, host: &[f32]) -> Vec<Tensor> {
        let types = |types: Vec<DType>| AttrValue::types(types);
        let attrs = [
            ("Tinput", AttrValue::Type(DType::QUINT8)),
            ("Tfilter", AttrValue::Type(DType::QINT8)),
            ("Tbias", AttrValue::Type(DType::FLOAT)),
            ("Tsummand", AttrValue::Type(output)),
            ("out_type", AttrValue::Type(output)),
            ("Tdevice_inputs", types(vec![DType::QUINT8, DType::QINT8, DType::FLOAT])),
            ("Thost_inputs", types(vec![DType::FLOAT; host.len()])),
            ("Tdevice_outputs", types(vec![output])),
            ("Thost_outputs", types(vec![DType::FLOAT; 2])),
            ("strides", AttrValue::ints([1; 4])),
            ("padding", AttrValue::string("VALID")),
            ("fused_ops", AttrValue::strings(ops)),
        ];
        let mut inputs = vec![
            tensor(&[1, 1, 3, 1], &[QUInt8(1), QUInt8(2), QUInt8(3)]),
            tensor(&[1, 1, 1, 1], &[QInt8(-4)]),
            floats(&[1], &[10.0]),
        ];
        inputs.extend(host.iter().map(|&x| floats(&[], &[x])));
        run_op(&registry_of(register), "_FusedQuantizedConv2D", &attrs, &inputs).unwrap()
    }

    #[test]
    fn what_follows_a_convolution() {
        // Levels of 2 and of 1/2: a unit of 1. Products -4, -8, -12 and 10.
        let host = [0.0, 510.0, -63.5, 63.5];
        let out = run(&["BiasAdd", "Relu"], DType::QINT32, &host);
        let expected = [QInt32(6), QInt32(2), QInt32(0)];
        assert_eq!(out[0].as_slice::<QInt32>().unwrap(), expected);
        let host = [0.0, 510.0, -63.5, 63.5, -254.0, 254.0];
        let out = run(&["BiasAdd", "Requantize"], DType::QINT8, &host);
        assert_eq!(out[0].as_slice::<QInt8>().unwrap(), [QInt8(3), QInt8(1), QInt8(-1)]);
        assert_eq!(out[2].as_slice::<f32>().unwrap(), [254.0]);
    }
}
