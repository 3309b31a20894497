//! Gradients of arithmetic of two values, which broadcast, and of sums of many.

use tfcore_base::Result;
use tfcore_framework::{GradientContext, Gradients, Output, Registry};

/// Both operands, conjugated.
fn operands(c: &GradientContext<'_>) -> (Output, Output) {
    let x = c.conj(c.input(0));
    let y = c.conj(c.input(1));
    (x, y)
}

pub(crate) fn register(r: &mut Registry) {
    r.ops(["Add", "AddV2"], |op| {
        op.gradient(|c| {
            let dx = c.identity(c.grad(0));
            c.sum_to_operands(dx, c.identity(c.grad(0)))
        });
    });
    r.op("Sub").gradient(|c| {
        let dx = c.identity(c.grad(0));
        c.sum_to_operands(dx, c.neg(c.grad(0)))
    });
    r.op("Mul").gradient(|c| {
        let (x, y) = operands(c);
        let dx = c.mul(c.grad(0), y);
        c.sum_to_operands(dx, c.mul(c.grad(0), x))
    });
    r.ops(["Div", "RealDiv", "DivNoNan"], |op| {
        op.gradient(quotient);
    });
    r.op("SquaredDifference").gradient(|c| {
        let (x, y) = operands(c);
        let two = c.integer(2, c.dtype(c.grad(0)));
        let dx = c.mul(c.grad(0), c.mul(two, c.sub(x, y)));
        c.sum_to_operands(dx, c.neg(dx))
    });
    r.op("Pow").gradient(power);
    r.op("Maximum").gradient(|c| extremum(c, "GreaterEqual"));
    r.op("Minimum").gradient(|c| extremum(c, "LessEqual"));
    r.op("Atan2").gradient(arc_tangent);
    r.op("Complex").gradient(|c| {
        let dre = c.real_part(c.grad(0));
        c.sum_to_operands(dre, c.imaginary_part(c.grad(0)))
    });
    // The gradient goes to each summand.
    r.op("AddN").gradient(|c| {
        let grad = c.identity(c.grad(0));
        Ok(vec![Some(grad); c.inputs().len()])
    });
    for name in [
        "ApproximateEqual",
        "Equal",
        "Greater",
        "GreaterEqual",
        "Less",
        "LessEqual",
        "LogicalAnd",
        "LogicalOr",
        "NotEqual",
    ] {
        r.op(name).no_gradient();
    }
}

/// `x / y` by the op itself: `g / y` and `g * (-x / y / y)`.
fn quotient(c: &GradientContext<'_>) -> Result<Gradients> {
    let (x, y) = operands(c);
    let divide = |a, b| c.apply(c.op(), [a, b]);
    let dx = divide(c.grad(0), y);
    let slope = divide(divide(c.neg(x), y), y);
    c.sum_to_operands(dx, c.mul(c.grad(0), slope))
}

/// `x^y`: `g * y * x^(y - 1)` and `g * x^y * log(x)`, where the logarithm counts as 0 where it is not defined.
fn power(c: &GradientContext<'_>) -> Result<Gradients> {
    let (x, y) = operands(c);
    let z = c.conj(c.output(0));
    let dtype = c.dtype(x);
    let one = c.real(1.0, dtype);
    let scaled = c.mul(c.grad(0), y);
    let dx = c.mul(scaled, c.pow(x, c.sub(y, one)));
    let zero = c.real(0.0, dtype);
    let defined = c.apply(if dtype.is_complex() { "NotEqual" } else { "Greater" }, [x, zero]);
    let log = c.log(x);
    let log = c.choose(defined, log, c.zeros_like(x));
    c.sum_to_operands(dx, c.mul(c.mul(c.grad(0), z), log))
}

/// The gradient goes to the operand that won; `x` wins where both are equal.
fn extremum(c: &GradientContext<'_>, x_wins: &str) -> Result<Gradients> {
    let x_wins = c.apply(x_wins, [c.input(0), c.input(1)]);
    let zeros = c.zeros_like(c.grad(0));
    let dx = c.choose(x_wins, c.grad(0), zeros);
    c.sum_to_operands(dx, c.choose(x_wins, zeros, c.grad(0)))
}

/// `atan2(y, x)`: `x * g / (x^2 + y^2)` and `-y * g / (x^2 + y^2)`.
fn arc_tangent(c: &GradientContext<'_>) -> Result<Gradients> {
    let (y, x) = (c.input(0), c.input(1));
    let x_square = c.square(x);
    let scaled = c.div(c.grad(0), c.add(x_square, c.square(y)));
    let dy = c.mul(x, scaled);
    let dx = c.mul(c.neg(y), scaled);
    // The reference forgets that operands may have been stretched; where they cannot have been, the nodes are its.
    let shapes = (c.static_shape(y).to_shape(), c.static_shape(x).to_shape());
    match shapes {
        (Some(a), Some(b)) if a == b => Ok(vec![Some(dy), Some(dx)]),
        _ => c.sum_to_operands(dy, dx),
    }
}
