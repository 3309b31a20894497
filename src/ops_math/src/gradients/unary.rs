//! Gradients of functions of one value.
//!
//! For complex values the derivative is conjugated: the gradient points where the real part of the result grows.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

use tfcore_base::{DType, Result};
use tfcore_framework::{AttrValue, GradientContext, Gradients, Output, Registry};

/// `dx = dy * conj(dy/dx)`.
fn times(c: &GradientContext<'_>, slope: Output) -> Result<Gradients> {
    let slope = c.conj(slope);
    Ok(vec![Some(c.mul(c.grad(0), slope))])
}

/// An op made for this gradient, of the result and the gradient by it.
fn of_result(c: &GradientContext<'_>, op: &str) -> Result<Gradients> {
    Ok(vec![Some(c.apply(op, [c.output(0), c.grad(0)]))])
}

/// As [`of_result`], conjugated and in order: the result may be wanted again before the gradient is known, so nothing
/// is computed until then.
fn of_result_later(c: &GradientContext<'_>, op: &str) -> Result<Gradients> {
    let c = &c.after(c.grad(0));
    let y = c.conj(c.output(0));
    Ok(vec![Some(c.apply(op, [y, c.grad(0)]))])
}

/// The number 1 in the type of the input.
fn one(c: &GradientContext<'_>) -> Output {
    c.real(1.0, c.dtype(c.input(0)))
}

pub(crate) fn register(r: &mut Registry) {
    register_arithmetic(r);
    register_functions(r);
    register_trigonometry(r);
    register_parts(r);
    for name in ["Floor", "LogicalNot"] {
        r.op(name).no_gradient();
    }
}

fn register_arithmetic(r: &mut Registry) {
    r.op("Abs").gradient(|c| times(c, c.sign(c.input(0))));
    r.op("Neg").gradient(|c| Ok(vec![Some(c.neg(c.grad(0)))]));
    r.op("Inv").gradient(|c| of_result(c, "ReciprocalGrad"));
    r.op("Reciprocal").gradient(|c| of_result(c, "ReciprocalGrad"));
    r.op("Sqrt").gradient(|c| of_result(c, "SqrtGrad"));
    r.op("Rsqrt").gradient(|c| of_result(c, "RsqrtGrad"));
    r.op("Square").gradient(|c| {
        let two = c.integer(2, c.dtype(c.input(0)));
        times(c, c.mul(two, c.input(0)))
    });
    r.op("Sign").gradient(|c| {
        let shape = c.shape(c.input(0));
        let zero = c.real(0.0, c.dtype(c.input(0)));
        Ok(vec![Some(c.fill(shape, zero))])
    });
}

fn register_functions(r: &mut Registry) {
    r.op("Exp").gradient(|c| times(c, c.output(0)));
    r.op("Expm1").gradient(|c| times(c, c.exp(c.input(0))));
    r.op("Log").gradient(|c| times(c, c.reciprocal(c.input(0))));
    r.op("Log1p").gradient(|c| times(c, c.reciprocal(c.add(one(c), c.input(0)))));
    r.op("Sigmoid").gradient(|c| of_result_later(c, "SigmoidGrad"));
    r.op("Tanh").gradient(|c| of_result_later(c, "TanhGrad"));
    // `digamma(x)`
    r.op("Lgamma").gradient(|c| {
        let c = &c.after(c.grad(0));
        let x = c.conj(c.input(0));
        Ok(vec![Some(c.mul(c.grad(0), c.apply("Digamma", [x])))])
    });
    // `2 / sqrt(pi) * exp(-x^2)`
    r.op("Erf").gradient(|c| {
        let c = &c.after(c.grad(0));
        let factor = c.real(FRAC_2_SQRT_PI, c.dtype(c.grad(0)));
        let x = c.conj(c.input(0));
        let scaled = c.mul(c.grad(0), factor);
        Ok(vec![Some(c.mul(scaled, c.exp(c.neg(c.square(x)))))])
    });
    // `sqrt(pi) / 2 * exp(y^2)`
    r.op("Erfinv").gradient(|c| {
        let c = &c.after(c.grad(0));
        let factor = c.real(PI.sqrt() / 2.0, c.dtype(c.grad(0)));
        let scaled = c.mul(c.grad(0), factor);
        Ok(vec![Some(c.mul(scaled, c.exp(c.square(c.output(0)))))])
    });
    // `sqrt(2 pi) * exp(y^2 / 2)`
    r.op("Ndtri").gradient(|c| {
        let c = &c.after(c.grad(0));
        let dtype = c.dtype(c.grad(0));
        let factor = c.real((2.0 * PI).sqrt(), dtype);
        let two = c.integer(2, dtype);
        let scaled = c.mul(c.grad(0), factor);
        Ok(vec![Some(c.mul(scaled, c.exp(c.div(c.square(c.output(0)), two))))])
    });
}

fn register_trigonometry(r: &mut Registry) {
    r.op("Sin").gradient(|c| times(c, c.cos(c.input(0))));
    r.op("Cos").gradient(|c| times(c, c.neg(c.sin(c.input(0)))));
    r.op("Tan").gradient(|c| times(c, c.square(c.reciprocal(c.cos(c.input(0))))));
    r.op("Sinh").gradient(|c| times(c, c.cosh(c.input(0))));
    r.op("Cosh").gradient(|c| times(c, c.sinh(c.input(0))));
    // `1 / sqrt(1 - x^2)`
    r.op("Asin").gradient(|c| times(c, c.reciprocal(root_of_complement(c))));
    r.op("Acos").gradient(|c| times(c, c.neg(c.reciprocal(root_of_complement(c)))));
    r.op("Atan").gradient(|c| {
        let one = one(c);
        times(c, c.reciprocal(c.add(one, c.square(c.input(0)))))
    });
    r.op("Asinh").gradient(|c| times(c, c.reciprocal(c.cosh(c.output(0)))));
    r.op("Acosh").gradient(|c| times(c, c.reciprocal(c.sinh(c.output(0)))));
    r.op("Atanh").gradient(|c| {
        let one = one(c);
        times(c, c.reciprocal(c.sub(one, c.square(c.input(0)))))
    });
}

/// `sqrt(1 - x^2)`
fn root_of_complement(c: &GradientContext<'_>) -> Output {
    let square = c.square(c.input(0));
    c.sqrt(c.sub(one(c), square))
}

fn register_parts(r: &mut Registry) {
    r.op("CheckNumerics").gradient(check_numerics);
    r.op("Conj").gradient(|c| Ok(vec![Some(c.conj(c.grad(0)))]));
    r.op("Real").gradient(|c| {
        let zero = c.real(0.0, c.dtype(c.output(0)));
        Ok(vec![Some(c.complex(c.grad(0), zero))])
    });
    r.op("Imag").gradient(|c| {
        let zero = c.real(0.0, c.dtype(c.output(0)));
        Ok(vec![Some(c.complex(zero, c.grad(0)))])
    });
    // With `z = x + iy` and `w = y + ix`: `-dy / w`.
    r.op("Angle").gradient(|c| {
        let re = c.real_part(c.input(0));
        let im = c.imaginary_part(c.input(0));
        let slope = c.reciprocal(c.complex(im, re));
        let zero = c.integer(0, c.dtype(c.grad(0)));
        let grad = c.complex(c.grad(0), zero);
        Ok(vec![Some(c.neg(c.mul(grad, slope)))])
    });
    r.op("Cast").gradient(|c| {
        let (from, to) = (c.dtype(c.input(0)), c.dtype(c.output(0)));
        // What is rounded to integers does not move with its input, and integers do not move at all.
        let is_continuous = |dtype: DType| dtype.is_float() || dtype.is_complex();
        let flows = is_continuous(from) && is_continuous(to);
        Ok(vec![flows.then(|| c.cast(c.grad(0), from))])
    });
}

/// The gradient is checked like the value.
fn check_numerics(c: &GradientContext<'_>) -> Result<Gradients> {
    let message = format!(
        "Not a number (NaN) or infinity (Inf) values detected in gradient. {}",
        c.attrs().str("message")?
    );
    Ok(vec![Some(c.node(
        "CheckNumerics",
        &[c.grad(0)],
        &[("message", AttrValue::string(message))],
    ))])
}
