//! `_FusedMatMul`: a matrix product with a bias and an activation, as the reference's optimiser makes it.

use tfcore_base::{BFloat16, Half, LoopFor, Result, TypedLoop, require, unimplemented_error};
use tfcore_framework::{Kernel, KernelInit, OpContext, Registry, kernel};
use tfcore_math::elementary;
use tfcore_tensor::{Elems, ElemsMut};

use crate::matmul::{ProductLoop, matmul_kernel, matmul_shape, multiply};
use crate::number::Number;

/// The types that the op has kernels for; all compute activations in f32.
type Fused = (f32, Half, BFloat16);

pub(crate) fn register(r: &mut Registry) {
    // `_FusedMatMul(a: T, b: T, args: num_args * T) -> product: T`, `activation(a b + bias)`; attr `fused_ops` names what
    // follows the product.
    r.op("_FusedMatMul").shape(matmul_shape).typed_kernel::<BiasForm, Fused>("T", fused_kernel);
}

#[derive(Clone, Copy)]
enum Activation {
    Identity,
    Relu,
    Relu6,
    Tanh,
    Sigmoid,
    Elu,
    /// With the slope below zero.
    LeakyRelu(f32),
}

impl Activation {
    fn apply(self, x: f32) -> f32 {
        match self {
            Activation::Identity => x,
            Activation::Relu => x.max(0.0),
            Activation::Relu6 => x.clamp(0.0, 6.0),
            Activation::Tanh => elementary::tanh_f32(x),
            Activation::Sigmoid => elementary::sigmoid_f32(x),
            Activation::Elu if x < 0.0 => x.exp_m1(),
            Activation::Elu => x,
            Activation::LeakyRelu(slope) if x < 0.0 => slope * x,
            Activation::LeakyRelu(_) => x,
        }
    }
}

fn fused_kernel(init: &KernelInit<'_>, body: BiasLoop) -> Result<Box<dyn Kernel>> {
    let ops: Vec<String> = init
        .attrs
        .string_list("fused_ops")?
        .iter()
        .map(|op| String::from_utf8_lossy(op).into_owned())
        .collect();
    require!(!ops.is_empty(), "Fused MatMul must have at least one fused op.");
    let names: Vec<&str> = ops.iter().map(String::as_str).collect();
    let activation = match names[..] {
        ["BiasAdd"] => Activation::Identity,
        ["BiasAdd", "Relu"] => Activation::Relu,
        ["BiasAdd", "Relu6"] => Activation::Relu6,
        ["BiasAdd", "Tanh"] => Activation::Tanh,
        ["BiasAdd", "Sigmoid"] => Activation::Sigmoid,
        ["BiasAdd", "Elu"] => Activation::Elu,
        ["BiasAdd", "LeakyRelu"] => Activation::LeakyRelu(init.attrs.float("leakyrelu_alpha")?),
        _ => {
            return Err(unimplemented_error!("Fusion is not implemented: [{}]", names.join(",")));
        }
    };
    require!(
        init.attrs.int("num_args")? == 1,
        "Fused MatMul with BiasAdd must have one extra argument: bias."
    );
    let (product, transposed) = matmul_kernel(init)?;
    kernel(move |ctx| compute(ctx, product, transposed, body, activation))
}

/// Adds a bias to rows and applies an activation.
type BiasLoop = fn(ElemsMut<'_>, Elems<'_>, Activation);

struct BiasForm;

impl TypedLoop for BiasForm {
    type Loop = BiasLoop;
}

impl<T: Number<Wide = f32>> LoopFor<T> for BiasForm {
    const LOOP: BiasLoop = |out, bias, activation| {
        let bias = bias.typed::<T>();
        for row in out.typed::<T>().chunks_exact_mut(bias.len()) {
            for (out, bias) in row.iter_mut().zip(bias) {
                let sum = T::narrow(out.widen() + bias.widen());
                *out = T::narrow(activation.apply(sum.widen()));
            }
        }
    };
}

fn compute(
    ctx: &mut OpContext<'_>,
    product: ProductLoop,
    transposed: [bool; 2],
    body: BiasLoop,
    activation: Activation,
) -> Result<()> {
    let mut out = multiply(ctx, product, transposed)?;
    let bias = ctx.input(2)?;
    let columns = out.dim(1);
    require!(bias.rank() == 1, "bias must be 1-dimensional, but got shape {}", bias.shape());
    require!(
        bias.count() >= columns,
        "Must provide as many biases as the last dimension of the input tensor: {} vs. {}",
        bias.shape(),
        out.shape()
    );
    if out.count() > 0 {
        // The reference never looks at what a bias has too much.
        body(out.elems_mut()?, bias.elems().slice(0..columns), activation);
    }
    ctx.set_output(0, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op};

    use super::*;

    fn run(ops: &[&str], bias: &[f32]) -> Result<Vec<f32>> {
        let attrs = [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("num_args", AttrValue::Int(1)),
            ("fused_ops", AttrValue::strings(ops)),
            ("leakyrelu_alpha", AttrValue::Float(0.5)),
        ];
        let inputs = [
            floats(&[1, 2], &[1.0, 2.0]),
            floats(&[2, 2], &[1.0, -1.0, 3.0, -2.0]),
            floats(&[bias.len() as i64], bias),
        ];
        let out = run_op(&registry_of(register), "_FusedMatMul", &attrs, &inputs)?;
        Ok(out[0].as_slice()?.to_vec())
    }

    #[test]
    fn activations_follow() {
        let bias = [0.5, 1.0];
        assert_eq!(run(&["BiasAdd"], &bias).unwrap(), [7.5, -4.0]);
        assert_eq!(run(&["BiasAdd", "Relu6"], &bias).unwrap(), [6.0, 0.0]);
        assert_eq!(run(&["BiasAdd", "LeakyRelu"], &bias).unwrap(), [7.5, -2.0]);
        let cases: [(&[&str], &str); 2] = [
            (&[], "Fused MatMul must have at least one fused op."),
            (&["Relu"], "Fusion is not implemented: [Relu]"),
        ];
        for (ops, message) in cases {
            assert_eq!(run(ops, &bias).unwrap_err().message(), message);
        }
    }
}
