//! Gradients of matrix products.

use tfcore_base::Result;
use tfcore_framework::{AttrValue, GradientContext, Gradients, Output, Registry};
use tfcore_tensor::Tensor;

pub(crate) fn register(r: &mut Registry) {
    r.op("MatMul").gradient(|c| {
        let (x, y) = (c.conj(c.input(0)), c.conj(c.input(1)));
        let transposed = (c.attrs().bool("transpose_a")?, c.attrs().bool("transpose_b")?);
        let (dx, dy) = by_factors(c.grad(0), x, y, transposed, |a, b, transpose_a, transpose_b| {
            c.matmul(a, b, transpose_a, transpose_b)
        });
        Ok(vec![Some(dx), Some(dy)])
    });
    r.op("BatchMatMul").gradient(|c| {
        let (dx, dy) = batches(c)?;
        Ok(vec![Some(dx), Some(dy)])
    });
    r.ops(["BatchMatMulV2", "BatchMatMulV3"], |op| {
        op.gradient(broadcast_batches);
    });
}

/// The gradients of `op(x) * op(y)`, where `op` transposes as `transposed` says. `product` multiplies two matrices, each
/// transposed or not.
fn by_factors(
    grad: Output,
    x: Output,
    y: Output,
    transposed: (bool, bool),
    product: impl Fn(Output, Output, bool, bool) -> Output,
) -> (Output, Output) {
    match transposed {
        (false, false) => (product(grad, y, false, true), product(x, grad, true, false)),
        (false, true) => (product(grad, y, false, false), product(grad, x, true, false)),
        (true, false) => (product(y, grad, false, true), product(x, grad, false, false)),
        (true, true) => (product(y, grad, true, true), product(grad, x, true, true)),
    }
}

/// The gradients of a product for each pair of matrices, with the batches of the result. Here the flags
/// conjugate too.
fn batches(c: &GradientContext<'_>) -> Result<(Output, Output)> {
    let flags = (c.attrs().bool("adj_x")?, c.attrs().bool("adj_y")?);
    let (x, y) = (c.input(0), c.input(1));
    let product = |dtype| {
        move |a, b, adj_x, adj_y| {
            let attrs = [
                ("Tout", AttrValue::Type(dtype)),
                ("adj_x", AttrValue::Bool(adj_x)),
                ("adj_y", AttrValue::Bool(adj_y)),
            ];
            c.node("BatchMatMulV3", &[a, b], &attrs)
        }
    };
    // Each gradient is of the type of its factor.
    let (of_x, of_y) = (product(c.dtype(x)), product(c.dtype(y)));
    let first = std::cell::Cell::new(true);
    Ok(by_factors(c.grad(0), x, y, flags, |a, b, adj_a, adj_b| {
        if first.replace(false) { of_x(a, b, adj_a, adj_b) } else { of_y(a, b, adj_a, adj_b) }
    }))
}

/// As [`batches`], summed over the batch axes along which a factor was stretched.
fn broadcast_batches(c: &GradientContext<'_>) -> Result<Gradients> {
    let (dx, dy) = batches(c)?;
    let x_shape = c.shape(c.input(0));
    let y_shape = c.shape(c.input(1));
    let x_batches = without_matrix(c, x_shape);
    let axes = c.stretched_axes(x_batches, without_matrix(c, y_shape));
    let dx = c.sum_to_shape(dx, axes, x_shape);
    let dy = c.sum_to_shape(dy, axes.at(1), y_shape);
    Ok(vec![Some(dx), Some(dy)])
}

/// A shape without its last two dimensions.
fn without_matrix(c: &GradientContext<'_>, shape: Output) -> Output {
    let rank = c.shape(shape);
    let size = c.sub(rank, c.literal(Tensor::scalar(2i32)));
    c.apply("Slice", [shape, c.vector(&[0i32]), size])
}
