//! Convolutions with what follows them, as the reference's optimiser makes them, and other ops of its.

use tfcore_base::{
    Elem, LoopFor, Number, Result, TypedLoop, internal, invalid, require, unimplemented_error,
};
use tfcore_framework::geometry::ImageFormat;
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Elems, ElemsMut, Shape};

use crate::batch_norm::{batch_norm_shape, format};
use crate::conv::{ConvLoop, Convolve, conv2d_geometry, conv2d_shape};
use crate::conv3d::conv3d_shape;
use crate::depthwise::depthwise_shape;
use crate::window_attrs::convolution_window;

pub(crate) fn register(r: &mut Registry) {
    // `_FusedConv2D(input: T, filter: T, args: TArgs, host_args: float) -> output: T`, attrs as `Conv2D`, `fused_ops`,
    // `epsilon`, `leakyrelu_alpha`: a convolution, a bias or a normalisation by given statistics, an activation.
    r.op("_FusedConv2D").shape(conv2d_shape).cpu(|init| match init.attrs.dtype("T")? {
        tfcore_base::DType::FLOAT | tfcore_base::DType::DOUBLE => fused_conv(init),
        _ => not_supported(init),
    });

    // The reference's CPU has no code for these without the library that the optimiser makes them for.
    r.op("_FusedConv3D").shape(fused_conv3d_shape).cpu(not_supported);
    r.op("_FusedDepthwiseConv2dNative").shape(depthwise_shape).cpu(without_outputs);
    r.op("_FusedBatchNormEx").shape(batch_norm_ex_shape).cpu(without_outputs);
}

fn fused_conv3d_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    conv3d_shape(ctx)
}

fn batch_norm_ex_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    batch_norm_shape(ctx)?;
    let (_, axis) = format(ctx.attrs)?;
    let x = shape_ops::with_rank(ctx.input(0), 4)?;
    if let Some(channels) = x.dim(axis).value() {
        require!(channels % 4 == 0, "_FusedBatchNormEx channel dimension must be divisible by 4.");
    }
    Ok(())
}

/// A kernel that sets no output, which the executor of the reference finds.
fn without_outputs(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let name = init.name.to_string();
    kernel(move |_: &mut OpContext<'_>| {
        Err(internal!("Missing 0-th output from {{{{node {name}}}}}"))
    })
}

/// The error for a type without code, under the name that the type has in C++.
fn not_supported(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("T")?;
    let name = match dtype {
        tfcore_base::DType::FLOAT => "f",
        tfcore_base::DType::HALF => "N5Eigen4halfE",
        tfcore_base::DType::BFLOAT16 => "N5Eigen8bfloat16E",
        _ => {
            return Err(unimplemented_error!("{} is not implemented for {dtype}", init.op.name));
        }
    };
    kernel(move |_: &mut OpContext<'_>| Err(invalid!("Op does not support {name} inputs")))
}

/// What is done to a convolution's results.
#[derive(Clone, Copy, PartialEq)]
enum First {
    Bias,
    /// By scale, offset, mean and variance.
    Normalise,
}

#[derive(Clone, Copy)]
enum Activation {
    Identity,
    Relu,
    Relu6,
    Elu,
    /// With the slope below zero.
    LeakyRelu(f32),
}

/// What attr `fused_ops` says; the reference has no other combinations.
fn fused_ops(attrs: &Attrs) -> Result<(First, Activation)> {
    let ops = attrs.string_list("fused_ops")?;
    let ops: Vec<_> = ops.iter().map(|op| String::from_utf8_lossy(op)).collect();
    require!(!ops.is_empty(), "Fused Conv2D must have at least one fused op.");
    let none = || unimplemented_error!("Fusion is not implemented: [{}]", ops.join(","));
    let first = match &*ops[0] {
        "BiasAdd" => First::Bias,
        "FusedBatchNorm" => First::Normalise,
        _ => return Err(none()),
    };
    let activation = match ops.get(1).map(|op| &**op) {
        _ if ops.len() > 2 => return Err(none()),
        None => Activation::Identity,
        Some("Relu") => Activation::Relu,
        Some("Relu6") => Activation::Relu6,
        Some("Elu") => Activation::Elu,
        Some("LeakyRelu") => Activation::LeakyRelu(attrs.float("leakyrelu_alpha")?),
        Some(_) => return Err(none()),
    };
    let num_args = attrs.int("num_args")?;
    require!(
        first != First::Bias || matches!(num_args, 1 | 4),
        "Fused Conv2D with BiasAdd must have one extra argument: bias or 4 extra arguments: bias, \
         side_input, conv_input_scale and side_input_scale"
    );
    require!(
        first != First::Normalise || num_args == 4,
        "Fused Conv2D with FusedBatchNorm must have four extra arguments: scale, offset, mean, variance."
    );
    Ok((first, activation))
}

/// Finishes the results, rows of channels, with the arguments behind the filter and epsilon.
type FinishLoop = fn(Parallel<'_>, ElemsMut<'_>, &[Elems<'_>], usize, f32, Activation);

struct Finish;

impl TypedLoop for Finish {
    type Loop = FinishLoop;
}

impl<T: Elem + Number<Wide = T> + num_traits::Float + From<f32>> LoopFor<T> for Finish {
    const LOOP: FinishLoop = |par, out, args, channels, epsilon, activation| {
        let args: Vec<&[T]> = args.iter().map(|arg| &arg.typed::<T>()[..channels]).collect();
        // `(x - mean) · factor + offset`.
        let (zeros, ones) = (vec![T::zero(); channels], vec![T::one(); channels]);
        let factors: Vec<T>;
        let (mean, factor, offset) = match args[..] {
            [scale, offset, mean, variance] => {
                let inverse = |v: &T| (*v + epsilon.into()).sqrt().recip();
                factors = variance.iter().zip(scale).map(|(v, &s)| inverse(v) * s).collect();
                (mean, &factors[..], offset)
            }
            _ => (&zeros[..], &ones[..], args[0]),
        };
        let six: T = 6.0f32.into();
        par_chunks_mut(par, out.typed::<T>(), channels, 1 << 13, &|_, piece| {
            for row in piece.chunks_exact_mut(channels) {
                for (i, out) in row.iter_mut().enumerate() {
                    let x = (*out - mean[i]) * factor[i] + offset[i];
                    *out = match activation {
                        Activation::Relu if x < T::zero() => T::zero(),
                        Activation::Relu6 if x < T::zero() => T::zero(),
                        Activation::Relu6 if x > six => six,
                        Activation::Elu if x < T::zero() => x.exp_m1(),
                        Activation::LeakyRelu(slope) if x < T::zero() => x * slope.into(),
                        _ => x,
                    };
                }
            }
        });
    };
}

fn fused_conv(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let window = convolution_window(init.attrs)?;
    let (first, activation) = fused_ops(init.attrs)?;
    let epsilon = init.attrs.float("epsilon")?;
    let convolve: ConvLoop = init.typed::<Convolve, (f32, f64)>("T")?;
    let finish: FinishLoop = init.typed::<Finish, (f32, f64)>("T")?;
    let dtype = init.attrs.dtype("T")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (input, filter) = (ctx.input(0)?, ctx.input(1)?);
        let g = conv2d_geometry(&window, input.shape(), filter.shape())?;
        let sizes = window.format.sizes(g.batch, g.out_h, g.out_w, g.out_c);
        let mut out = ctx.allocate_output(0, Shape::new(&sizes)?)?;
        if out.count() == 0 {
            ctx.set_output(0, out);
            return Ok(());
        }
        if window.format != ImageFormat::Nhwc {
            return Err(unimplemented_error!(
                "Fused conv implementation only supports NHWC tensor format for now."
            ));
        }
        if g.groups != 1 {
            return Err(unimplemented_error!(
                "Fused conv implementation does not support grouped convolutions for now."
            ));
        }
        require!(filter.count() > 0, "filter must not have zero elements");
        let names: &[&str] = match first {
            First::Bias => &["bias"],
            First::Normalise => &["scale", "offset", "estimated_mean", "estimated_variance"],
        };
        let mut args = Vec::with_capacity(names.len());
        for (index, name) in (2..).zip(names) {
            let arg = ctx.input(index)?;
            let shape = arg.shape();
            let name = name.trim_start_matches("estimated_");
            require!(shape.rank() == 1, "{name} must be 1-dimensional{shape}");
            require!(
                shape.dim(0) >= g.out_c && arg.dtype() == dtype,
                "{name} must have an element for each of {} channels, got {shape}",
                g.out_c
            );
            args.push(arg.elems());
        }
        convolve(ctx.parallel(), &g, input.elems(), filter.elems(), out.elems_mut()?);
        finish(ctx.parallel(), out.elems_mut()?, &args, g.out_c, epsilon, activation);
        ctx.set_output(0, out);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, infer, registry_of, run_op};
    use tfcore_tensor::Tensor;

    use super::*;

    fn run(ops: &[&str], args: &[Tensor]) -> Result<Vec<f32>> {
        let attrs = [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("TArgs", AttrValue::types(vec![DType::FLOAT; args.len()])),
            ("num_args", AttrValue::Int(args.len() as i64)),
            ("strides", AttrValue::ints([1; 4])),
            ("padding", AttrValue::string("VALID")),
            ("fused_ops", AttrValue::strings(ops)),
            ("epsilon", AttrValue::Float(1.0)),
            ("leakyrelu_alpha", AttrValue::Float(0.5)),
        ];
        let image = floats(&[1, 1, 3, 1], &[1.0, 2.0, -4.0]);
        let mut inputs = vec![image, floats(&[1, 1, 1, 2], &[1.0, 3.0])];
        inputs.extend_from_slice(args);
        let out = run_op(&registry_of(register), "_FusedConv2D", &attrs, &inputs)?;
        Ok(out[0].as_slice()?.to_vec())
    }

    #[test]
    fn what_follows_a_convolution() {
        let pair = |a: f32, b: f32| floats(&[2], &[a, b]);
        let bias = [pair(1.0, 0.0)];
        assert_eq!(run(&["BiasAdd"], &bias).unwrap(), [2.0, 3.0, 3.0, 6.0, -3.0, -12.0]);
        let relu6 = run(&["BiasAdd", "Relu6"], &bias).unwrap();
        assert_eq!(relu6, [2.0, 3.0, 3.0, 6.0, 0.0, 0.0]);
        let leaky = run(&["BiasAdd", "LeakyRelu"], &bias).unwrap();
        assert_eq!(leaky, [2.0, 3.0, 3.0, 6.0, -1.5, -6.0]);
        // Scale, offset, mean, variance; the roots of 4 and 1.
        let norm = [pair(2.0, 1.0), pair(0.0, 10.0), pair(1.0, 0.0), pair(3.0, 0.0)];
        let normalised = run(&["FusedBatchNorm"], &norm).unwrap();
        assert_eq!(normalised, [0.0, 13.0, 1.0, 16.0, -5.0, -2.0]);
        let error = run(&["BiasAdd", "Tanh"], &bias).unwrap_err();
        assert_eq!(error.message(), "Fusion is not implemented: [BiasAdd,Tanh]");
    }

    #[test]
    fn channels_of_a_fused_normalisation() {
        let attrs = [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("U", AttrValue::Type(DType::FLOAT)),
            ("is_training", AttrValue::Bool(false)),
        ];
        let shape = |x: &str, c: &str| {
            let inputs = format!("{x};{c};{c};{c};{c}");
            infer(&registry_of(register), "_FusedBatchNormEx", &attrs, &inputs, &[])
        };
        assert!(shape("[1,2,2,4]", "[4]").unwrap().starts_with("[1,2,2,4];[4]"));
        assert!(shape("[1,2,2,3]", "[3]").is_err());
    }
}
