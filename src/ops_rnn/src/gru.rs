//! The GRU cell and its gradient.

use tfcore_base::Result;
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_ops};
use tfcore_math::elementary::{sigmoid_f32, tanh_f32};
use tfcore_tensor::PartialShape;

use crate::matrix::{equal, extents, product, product_transposed, read, side_by_side, write};

pub(crate) fn register(r: &mut Registry) {
    // `GRUBlockCell(x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T) -> r: T, u: T, c: T, h: T`: `[r, u] = σ([x, h_prev]
    // w_ru + b_ru)`, `c = tanh([x, r h_prev] w_c + b_c)`, `h = u h_prev + (1 - u) c`.
    r.op("GRUBlockCell").shape(cell_shape).compute(cell);

    // `GRUBlockCellGrad(..., r: T, u: T, c: T, d_h: T) -> d_x: T, d_h_prev: T, d_c_bar: T, d_r_bar_u_bar: T`.
    r.op("GRUBlockCellGrad").shape(grad_shape).compute(cell_grad);
}

fn cell_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let x = shape_ops::with_rank(ctx.input(0), 2)?;
    let h = shape_ops::with_rank(ctx.input(1), 2)?;
    let shape: PartialShape = [x.dim(0), h.dim(1)].into_iter().collect();
    (0..4).for_each(|index| ctx.set_output(index, shape.clone()));
    Ok(())
}

fn grad_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let x = shape_ops::with_rank(ctx.input(0), 2)?;
    let h = shape_ops::with_rank(ctx.input(1), 2)?;
    let w = shape_ops::with_rank(ctx.input(2), 2)?;
    let state: PartialShape = [x.dim(0), h.dim(1)].into_iter().collect();
    ctx.set_output(0, x.clone());
    ctx.set_output(1, state.clone());
    ctx.set_output(2, state);
    ctx.set_output(3, [x.dim(0), w.dim(1)].into_iter().collect());
    Ok(())
}

/// Batch, inputs and cells.
fn check(ctx: &OpContext<'_>) -> Result<[usize; 3]> {
    let [batch, inputs] = extents(ctx, 0, "x")?;
    let [h_batch, cells] = extents(ctx, 1, "h_prev")?;
    let [ru_rows, ru_cols] = extents(ctx, 2, "w_ru")?;
    let [c_rows, c_cols] = extents(ctx, 3, "w_c")?;
    let [b_ru] = extents(ctx, 4, "b_ru")?;
    let [b_c] = extents(ctx, 5, "b_c")?;
    equal("h_prev.dims(0) != batch_size", h_batch, batch)?;
    equal("w_ru.dim_size(0) != input_size + cell_size", ru_rows, inputs + cells)?;
    equal("w_ru.dim_size(1) != cell_size * 2", ru_cols, cells * 2)?;
    equal("w_c.dim_size(0) != input_size + cell_size", c_rows, inputs + cells)?;
    equal("w_c.dim_size(1) != cell_size", c_cols, cells)?;
    equal("b_ru.dim_size(0) != cell_size * 2", b_ru, cells * 2)?;
    equal("b_c.dim_size(0) != cell_size", b_c, cells)?;
    Ok([batch, inputs, cells])
}

fn cell(ctx: &mut OpContext<'_>) -> Result<()> {
    let [batch, inputs, cells] = check(ctx)?;
    let input = |index: usize| read(ctx.input(index)?);
    let (x, h_prev, w_ru, w_c, b_ru, b_c) =
        (input(0)?, input(1)?, input(2)?, input(3)?, input(4)?, input(5)?);
    let (width, par) = (inputs + cells, ctx.parallel());
    let xh = side_by_side(batch, &x, inputs, &h_prev, cells);
    let gates = product(par, batch, 2 * cells, width, &xh, &w_ru);
    let gate = |at: usize, which: usize| {
        let column = which * cells + at % cells;
        sigmoid_f32(gates[at / cells * 2 * cells + column] + b_ru[column])
    };
    let len = batch * cells;
    let r: Vec<f32> = (0..len).map(|at| gate(at, 0)).collect();
    let u: Vec<f32> = (0..len).map(|at| gate(at, 1)).collect();
    let reset: Vec<f32> = r.iter().zip(&h_prev).map(|(r, h)| r * h).collect();
    let xh = side_by_side(batch, &x, inputs, &reset, cells);
    let mut c = product(par, batch, cells, width, &xh, &w_c);
    c.iter_mut().enumerate().for_each(|(at, c)| *c = tanh_f32(*c + b_c[at % cells]));
    let h: Vec<f32> = (0..len).map(|at| u[at] * (h_prev[at] - c[at]) + c[at]).collect();
    for (index, values) in [&r, &u, &c, &h].into_iter().enumerate() {
        write(ctx, index, &[batch, cells], values)?;
    }
    Ok(())
}

fn cell_grad(ctx: &mut OpContext<'_>) -> Result<()> {
    let [batch, inputs, cells] = check(ctx)?;
    for (index, name) in [(6, "r"), (7, "u"), (8, "c"), (9, "d_h")] {
        let [rows, cols] = extents(ctx, index, name)?;
        equal(&format!("{name}.dims(0) != batch_size"), rows, batch)?;
        equal(&format!("{name}.dims(1) != cell_size"), cols, cells)?;
    }
    let input = |index: usize| read(ctx.input(index)?);
    let (h_prev, w_ru, w_c) = (input(1)?, input(2)?, input(3)?);
    let (r, u, c, d_h) = (input(6)?, input(7)?, input(8)?, input(9)?);
    let (width, par, len) = (inputs + cells, ctx.parallel(), batch * cells);
    let d_c: Vec<f32> =
        (0..len).map(|at| d_h[at] * (1.0 - u[at]) * (1.0 - c[at] * c[at])).collect();
    let by_candidate = product_transposed(par, batch, width, cells, &d_c, &w_c);
    // The gradient of the state that was reset.
    let d_reset = |at: usize| by_candidate[at / cells * width + inputs + at % cells];
    let mut d_gates = vec![0.0f32; 2 * len];
    for at in 0..len {
        let (row, cell) = (at / cells, at % cells);
        let to = &mut d_gates[row * 2 * cells..];
        to[cell] = d_reset(at) * h_prev[at] * r[at] * (1.0 - r[at]);
        to[cells + cell] = d_h[at] * (h_prev[at] - c[at]) * u[at] * (1.0 - u[at]);
    }
    let by_gates = product_transposed(par, batch, width, 2 * cells, &d_gates, &w_ru);
    let d_x: Vec<f32> = (0..batch * inputs)
        .map(|at| {
            let place = at / inputs * width + at % inputs;
            by_gates[place] + by_candidate[place]
        })
        .collect();
    let d_h_prev: Vec<f32> = (0..len)
        .map(|at| {
            let place = at / cells * width + inputs + at % cells;
            by_gates[place] + d_reset(at) * r[at] + d_h[at] * u[at]
        })
        .collect();
    write(ctx, 0, &[batch, inputs], &d_x)?;
    write(ctx, 1, &[batch, cells], &d_h_prev)?;
    write(ctx, 2, &[batch, cells], &d_c)?;
    write(ctx, 3, &[batch, 2 * cells], &d_gates)
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op};

    use super::*;

    #[test]
    fn a_cell_without_weights_halves_its_state() {
        let registry = registry_of(register);
        let attrs = [("T", AttrValue::Type(DType::FLOAT))];
        let x = floats(&[1, 1], &[3.0]);
        let weights = [
            floats(&[2, 2], &[0.0; 4]),
            floats(&[2, 1], &[0.0; 2]),
            floats(&[2], &[0.0; 2]),
            floats(&[1], &[0.0]),
        ];
        let mut inputs = vec![x, floats(&[1, 1], &[1.0])];
        inputs.extend(weights);
        let out = run_op(&registry, "GRUBlockCell", &attrs, &inputs).unwrap();
        let values: Vec<f32> = out.iter().map(|out| out.as_slice::<f32>().unwrap()[0]).collect();
        assert_eq!(values, [0.5, 0.5, 0.0, 0.5]);
        inputs.extend([out[0].clone(), out[1].clone(), out[2].clone(), floats(&[1, 1], &[8.0])]);
        let out = run_op(&registry, "GRUBlockCellGrad", &attrs, &inputs).unwrap();
        let values: Vec<f32> = out.iter().map(|out| out.as_slice::<f32>().unwrap()[0]).collect();
        assert_eq!(values, [0.0, 4.0, 4.0, 0.0]);
        assert_eq!(out[3].as_slice::<f32>().unwrap()[1], 2.0);
    }
}
