//! LSTM cells, one step or a sequence at a time, and their gradients.

use tfcore_base::{Half, Result, TypeSet, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::elementary::{sigmoid_f32, tanh_f32};
use tfcore_tensor::PartialShape;

use crate::matrix::{
    add_transposed_product, equal, extents, product, product_transposed, read, round, side_by_side,
    write,
};

pub(crate) fn register(r: &mut Registry) {
    debug_assert_eq!(<(f32, Half)>::DTYPES.len(), 2);
    // `LSTMBlockCell(x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T) -> i: T, cs: T, f: T, o: T, ci: T, co:
    // T, h: T`, attrs `forget_bias`, `cell_clip`, `use_peephole`. With `[i, ci, f, o] = [x, h_prev] w + b`:
    // `cs = tanh(ci) σ(i) + cs_prev σ(f + forget_bias)`, `co = tanh(cs)`, `h = co σ(o)`.
    r.op("LSTMBlockCell").shape(cell_shape).cpu(cell);

    // `LSTMBlockCellGrad(..., cs_grad: T, h_grad: T) -> cs_prev_grad: T, dicfo: T, wci_grad: T, wcf_grad: T, wco_grad: T`.
    r.op("LSTMBlockCellGrad").shape(cell_grad_shape).cpu(cell_grad);

    // `BlockLSTM(seq_len_max: int64, x: T, cs_prev: T, h_prev: T, ...) -> i: T, cs: T, f: T, o: T, ci: T, co: T, h: T`:
    // the cell at each time, the first dimension. `V2` has the gates in the order i, f, ci, o and no forget bias.
    r.op("BlockLSTM").shape(block_shape).cpu(|init| block(init, Layout::CellSecond));
    r.op("BlockLSTMV2").shape(block_shape).cpu(|init| block(init, Layout::CellThird));

    // `BlockLSTMGrad(..., cs_grad: T, h_grad: T) -> x_grad: T, cs_prev_grad: T, h_prev_grad: T, w_grad: T, wci_grad: T,
    // wcf_grad: T, wco_grad: T, b_grad: T`.
    r.op("BlockLSTMGrad").shape(block_grad_shape).cpu(|init| block_grad(init, Layout::CellSecond));
    r.op("BlockLSTMGradV2").shape(block_grad_shape).cpu(|init| block_grad(init, Layout::CellThird));

    r.ops(["BlockLSTM", "BlockLSTMV2"], |op| {
        op.gradient(|c| {
            let attrs = c.attrs_named(&["use_peephole"])?;
            let mut inputs = c.inputs().to_vec();
            inputs.extend((0..7).map(|index| c.output(index)));
            inputs.extend([c.grad(1), c.grad(6)]);
            let second = c.op() == "BlockLSTMV2";
            let op = if second { "BlockLSTMGradV2" } else { "BlockLSTMGrad" };
            let all = c.node(op, &inputs, &attrs);
            Ok(std::iter::once(None).chain((0..8).map(|index| Some(all.at(index)))).collect())
        });
    });
}

fn cell_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let x = shape_ops::with_rank(ctx.input(0), 2)?;
    let cs = shape_ops::with_rank(ctx.input(1), 2)?;
    let shape: PartialShape = [x.dim(0), cs.dim(1)].into_iter().collect();
    (0..7).for_each(|index| ctx.set_output(index, shape.clone()));
    Ok(())
}

fn cell_grad_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let x = shape_ops::with_rank(ctx.input(0), 2)?;
    let cs = shape_ops::with_rank(ctx.input(1), 2)?;
    let cells = cs.dim(1);
    ctx.set_output(0, [x.dim(0), cells].into_iter().collect());
    ctx.set_output(1, [x.dim(0), shape_ops::multiply(cells, 4)?].into_iter().collect());
    (2..5).for_each(|index| ctx.set_output(index, PartialShape::vector(cells)));
    Ok(())
}

fn block_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let x = shape_ops::with_rank(ctx.input(1), 3)?;
    let b = shape_ops::with_rank(ctx.input(8), 1)?;
    let cells = shape_ops::divide(b.dim(0), 4, true)?;
    let shape: PartialShape = [x.dim(0), x.dim(1), cells].into_iter().collect();
    (0..7).for_each(|index| ctx.set_output(index, shape.clone()));
    Ok(())
}

fn block_grad_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let ranks = [3, 2, 2, 2, 1, 1, 1, 1];
    for (index, rank) in ranks.into_iter().enumerate() {
        let shape = shape_ops::with_rank(ctx.input(index + 1), rank)?;
        ctx.set_output(index, shape);
    }
    Ok(())
}

/// The order of the gates in the weights: i, ci, f, o or i, f, ci, o.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    CellSecond,
    CellThird,
}

impl Layout {
    /// Where the gates i, ci, f, o stand among the four.
    fn places(self) -> [usize; 4] {
        match self {
            Layout::CellSecond => [0, 1, 2, 3],
            Layout::CellThird => [0, 2, 1, 3],
        }
    }
}

/// Attributes and weights of a cell.
struct Cell {
    layout: Layout,
    batch: usize,
    inputs: usize,
    cells: usize,
    w: Vec<f32>,
    b: Vec<f32>,
    /// Of i, f and o.
    peephole: Option<[Vec<f32>; 3]>,
}

/// The gates and states of one step, [batch, cells] each.
struct States {
    i: Vec<f32>,
    cs: Vec<f32>,
    f: Vec<f32>,
    o: Vec<f32>,
    ci: Vec<f32>,
    co: Vec<f32>,
    h: Vec<f32>,
}

impl Cell {
    /// Reads and checks inputs `first`: cs_prev, h_prev, w, wci, wcf, wco, b.
    fn new(
        ctx: &OpContext<'_>,
        first: usize,
        [batch, inputs]: [usize; 2],
        layout: Layout,
        use_peephole: bool,
    ) -> Result<Cell> {
        let [cs_batch, cells] = extents(ctx, first, "cs_prev")?;
        let [h_batch, h_cells] = extents(ctx, first + 1, "h_prev")?;
        let [rows, cols] = extents(ctx, first + 2, "w")?;
        equal("cs_prev.dims(0) != batch_size", cs_batch, batch)?;
        equal("h_prev.dims(0) != batch_size", h_batch, batch)?;
        equal("h_prev.dims(1) != cell_size", h_cells, cells)?;
        equal("w.dim_size(0) != input_size + cell_size", rows, inputs + cells)?;
        equal("w.dim_size(1) != cell_size * 4", cols, cells * 4)?;
        let [biases] = extents(ctx, first + 6, "b")?;
        equal("b.dim_size(0) != cell_size * 4", biases, cells * 4)?;
        let mut peephole = None;
        if use_peephole {
            let vector = |index: usize, name: &str| -> Result<Vec<f32>> {
                let [len] = extents(ctx, first + index, name)?;
                equal(&format!("{name}.dim_size(0) != cell_size"), len, cells)?;
                read(ctx.input(first + index)?)
            };
            peephole = Some([vector(3, "wci")?, vector(4, "wcf")?, vector(5, "wco")?]);
        }
        let w = read(ctx.input(first + 2)?)?;
        let b = read(ctx.input(first + 6)?)?;
        Ok(Cell { layout, batch, inputs, cells, w, b, peephole })
    }

    /// One step.
    fn forward(
        &self,
        ctx: &OpContext<'_>,
        x: &[f32],
        cs_prev: &[f32],
        h_prev: &[f32],
        forget_bias: f32,
        clip: f32,
    ) -> States {
        let (batch, cells) = (self.batch, self.cells);
        let width = self.inputs + cells;
        let xh = side_by_side(batch, x, self.inputs, h_prev, cells);
        let gates = product(ctx.parallel(), batch, 4 * cells, width, &xh, &self.w);
        let empty = || vec![0.0f32; batch * cells];
        let mut s = States {
            i: empty(),
            cs: empty(),
            f: empty(),
            o: empty(),
            ci: empty(),
            co: empty(),
            h: empty(),
        };
        let places = self.layout.places();
        for at in 0..batch * cells {
            let (row, cell) = (at / cells, at % cells);
            let gate = |which: usize| {
                let column = places[which] * cells + cell;
                gates[row * 4 * cells + column] + self.b[column]
            };
            let peep = |which: usize, state: f32| match &self.peephole {
                Some(weights) => state * weights[which][cell],
                None => 0.0,
            };
            let before = cs_prev[at];
            s.i[at] = sigmoid_f32(gate(0) + peep(0, before));
            s.ci[at] = tanh_f32(gate(1));
            s.f[at] = sigmoid_f32(gate(2) + forget_bias + peep(1, before));
            let mut cs = s.ci[at] * s.i[at] + s.f[at] * before;
            if clip > 0.0 {
                cs = cs.min(clip).max(-clip);
            }
            s.cs[at] = cs;
            s.co[at] = tanh_f32(cs);
            s.o[at] = sigmoid_f32(gate(3) + peep(2, cs));
            s.h[at] = s.o[at] * s.co[at];
        }
        s
    }
}

/// The gradients of one step.
struct Step {
    /// [batch, 4 cells], in the order of the layout.
    gates: Vec<f32>,
    cs_prev: Vec<f32>,
}

impl Cell {
    /// The gradients of gates and of the state before, given those of the state and of the output. Adds to those of the peephole
    /// weights.
    fn backward(
        &self,
        s: &States,
        cs_prev: &[f32],
        cs_grad: &[f32],
        h_grad: &[f32],
        peephole_grads: &mut [Vec<f32>; 3],
    ) -> Step {
        let cells = self.cells;
        let places = self.layout.places();
        let mut step = Step {
            gates: vec![0.0; 4 * self.batch * cells],
            cs_prev: vec![0.0; self.batch * cells],
        };
        for at in 0..self.batch * cells {
            let (row, cell) = (at / cells, at % cells);
            let (i, f, o, ci, co) = (s.i[at], s.f[at], s.o[at], s.ci[at], s.co[at]);
            let d_o = o * (1.0 - o) * h_grad[at] * co;
            let mut dcs = (1.0 - co * co) * h_grad[at] * o + cs_grad[at];
            if let Some([_, _, wco]) = &self.peephole {
                dcs += d_o * wco[cell];
            }
            let dci = (1.0 - ci * ci) * dcs * i;
            let df = f * (1.0 - f) * dcs * cs_prev[at];
            let di = i * (1.0 - i) * dcs * ci;
            for (which, value) in [di, dci, df, d_o].into_iter().enumerate() {
                step.gates[(row * 4 + places[which]) * cells + cell] = value;
            }
            step.cs_prev[at] = dcs * f;
            if let Some([wci, wcf, _]) = &self.peephole {
                step.cs_prev[at] += di * wci[cell] + df * wcf[cell];
                peephole_grads[0][cell] += di * cs_prev[at];
                peephole_grads[1][cell] += df * cs_prev[at];
                peephole_grads[2][cell] += d_o * s.cs[at];
            }
        }
        step
    }
}

fn cell(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let forget_bias = init.attrs.float("forget_bias")?;
    let clip = init.attrs.float("cell_clip")?;
    let peephole = init.attrs.bool("use_peephole")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let size = extents(ctx, 0, "x")?;
        let cell = Cell::new(ctx, 1, size, Layout::CellSecond, peephole)?;
        let (x, cs_prev, h_prev) =
            (read(ctx.input(0)?)?, read(ctx.input(1)?)?, read(ctx.input(2)?)?);
        let s = cell.forward(ctx, &x, &cs_prev, &h_prev, forget_bias, clip);
        let all = [&s.i, &s.cs, &s.f, &s.o, &s.ci, &s.co, &s.h];
        for (index, values) in all.into_iter().enumerate() {
            write(ctx, index, &[cell.batch, cell.cells], values)?;
        }
        Ok(())
    })
}

/// The states in inputs `first` to `first + 5` (i, cs, f, o, ci, co), of one step of `time` if there are several.
fn states(ctx: &OpContext<'_>, first: usize, len: usize, steps: usize) -> Result<Vec<Vec<f32>>> {
    let names = ["i", "cs", "f", "o", "ci", "co"];
    let mut all = Vec::with_capacity(names.len());
    for (index, name) in names.into_iter().enumerate() {
        let tensor = ctx.input(first + index)?;
        require!(
            tensor.count() == len * steps,
            "{name} must have {} elements, got shape {}",
            len * steps,
            tensor.shape()
        );
        all.push(read(tensor)?);
    }
    Ok(all)
}

/// One step of what [`states`] has read.
fn step_of(all: &[Vec<f32>], time: usize, len: usize) -> States {
    let part = |index: usize| all[index][time * len..][..len].to_vec();
    States {
        i: part(0),
        cs: part(1),
        f: part(2),
        o: part(3),
        ci: part(4),
        co: part(5),
        h: Vec::new(),
    }
}

fn cell_grad(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let peephole = init.attrs.bool("use_peephole")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let size = extents(ctx, 0, "x")?;
        let cell = Cell::new(ctx, 1, size, Layout::CellSecond, peephole)?;
        let len = cell.batch * cell.cells;
        let s = step_of(&states(ctx, 8, len, 1)?, 0, len);
        for (index, name) in [(14, "cs_grad"), (15, "h_grad")] {
            equal(
                &format!("{name} elements != batch_size * cell_size"),
                ctx.input(index)?.count(),
                len,
            )?;
        }
        let (cs_prev, cs_grad, h_grad) =
            (read(ctx.input(1)?)?, read(ctx.input(14)?)?, read(ctx.input(15)?)?);
        let mut weights = [(); 3].map(|()| vec![0.0; cell.cells]);
        let step = cell.backward(&s, &cs_prev, &cs_grad, &h_grad, &mut weights);
        write(ctx, 0, &[cell.batch, cell.cells], &step.cs_prev)?;
        write(ctx, 1, &[cell.batch, 4 * cell.cells], &step.gates)?;
        for (index, weights) in weights.iter().enumerate() {
            write(ctx, index + 2, &[cell.cells], weights)?;
        }
        Ok(())
    })
}

/// The number of steps in input 0, of as many as `x` has.
fn steps(ctx: &OpContext<'_>, times: usize) -> Result<usize> {
    let tensor = ctx.input(0)?;
    require!(tensor.count() == 1, "seq_len_max must be a scalar, got shape {}", tensor.shape());
    let steps = tensor.to_i64s()?[0];
    require!(
        steps >= 0 && steps <= times as i64,
        "seq_len_max must be between 0 and the time length {times}, got {steps}"
    );
    Ok(steps as usize)
}

fn block(init: &KernelInit<'_>, layout: Layout) -> Result<Box<dyn Kernel>> {
    let forget_bias = match init.attrs.contains("forget_bias") {
        true => init.attrs.float("forget_bias")?,
        false => 0.0,
    };
    let clip = init.attrs.float("cell_clip")?;
    let peephole = init.attrs.bool("use_peephole")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let [times, batch, inputs] = extents(ctx, 1, "x")?;
        let steps = steps(ctx, times)?;
        let cell = Cell::new(ctx, 2, [batch, inputs], layout, peephole)?;
        let x = read(ctx.input(1)?)?;
        let (mut cs_prev, mut h_prev) = (read(ctx.input(2)?)?, read(ctx.input(3)?)?);
        let len = batch * cell.cells;
        // What is behind the last step is zero.
        let mut all = [(); 7].map(|()| vec![0.0f32; times * len]);
        for time in 0..steps {
            let x = &x[time * batch * inputs..][..batch * inputs];
            let mut s = cell.forward(ctx, x, &cs_prev, &h_prev, forget_bias, clip);
            // The next step reads what the outputs hold.
            round(ctx, 1, &mut s.cs)?;
            round(ctx, 1, &mut s.h)?;
            let parts = [&s.i, &s.cs, &s.f, &s.o, &s.ci, &s.co, &s.h];
            for (all, part) in all.iter_mut().zip(parts) {
                all[time * len..][..len].copy_from_slice(part);
            }
            (cs_prev, h_prev) = (s.cs, s.h);
        }
        for (index, values) in all.iter().enumerate() {
            write(ctx, index, &[times, batch, cell.cells], values)?;
        }
        Ok(())
    })
}

fn block_grad(init: &KernelInit<'_>, layout: Layout) -> Result<Box<dyn Kernel>> {
    let peephole = init.attrs.bool("use_peephole")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let [times, batch, inputs] = extents(ctx, 1, "x")?;
        let steps = steps(ctx, times)?;
        let cell = Cell::new(ctx, 2, [batch, inputs], layout, peephole)?;
        let (cells, len) = (cell.cells, batch * cell.cells);
        let all = states(ctx, 9, len, times)?;
        for (index, name) in [(15, "h"), (16, "cs_grad"), (17, "h_grad")] {
            equal(
                &format!("{name} elements != time * batch_size * cell_size"),
                ctx.input(index)?.count(),
                times * len,
            )?;
        }
        let x = read(ctx.input(1)?)?;
        let (first_cs, first_h) = (read(ctx.input(2)?)?, read(ctx.input(3)?)?);
        let h = read(ctx.input(15)?)?;
        let (cs_grads, h_grads) = (read(ctx.input(16)?)?, read(ctx.input(17)?)?);
        let mut x_grad = vec![0.0f32; times * batch * inputs];
        let (mut cs_grad, mut h_grad) = (vec![0.0f32; len], vec![0.0f32; len]);
        let width = inputs + cells;
        let mut w_grad = vec![0.0f32; width * 4 * cells];
        let mut b_grad = vec![0.0f32; 4 * cells];
        let mut weights = [(); 3].map(|()| vec![0.0f32; cells]);
        for time in (0..steps).rev() {
            let at = |values: &[f32], time: usize| values[time * len..][..len].to_vec();
            let (cs_prev, h_prev) = match time.checked_sub(1) {
                Some(before) => (at(&all[1], before), at(&h, before)),
                None => (first_cs.clone(), first_h.clone()),
            };
            let s = step_of(&all, time, len);
            let sum = |given: Vec<f32>, later: &[f32]| -> Vec<f32> {
                given.iter().zip(later).map(|(a, b)| a + b).collect()
            };
            let step_cs = sum(at(&cs_grads, time), &cs_grad);
            let step_h = sum(at(&h_grads, time), &h_grad);
            let step = cell.backward(&s, &cs_prev, &step_cs, &step_h, &mut weights);
            let par = ctx.parallel();
            let xh_grad = product_transposed(par, batch, width, 4 * cells, &step.gates, &cell.w);
            for row in 0..batch {
                let from = &xh_grad[row * width..][..width];
                x_grad[(time * batch + row) * inputs..][..inputs].copy_from_slice(&from[..inputs]);
                h_grad[row * cells..][..cells].copy_from_slice(&from[inputs..]);
            }
            let x = &x[time * batch * inputs..][..batch * inputs];
            let xh = side_by_side(batch, x, inputs, &h_prev, cells);
            add_transposed_product(par, [width, 4 * cells, batch], &xh, &step.gates, &mut w_grad);
            for row in step.gates.chunks_exact((4 * cells).max(1)) {
                b_grad.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            }
            cs_grad = step.cs_prev;
        }
        write(ctx, 0, &[times, batch, inputs], &x_grad)?;
        write(ctx, 1, &[batch, cells], &cs_grad)?;
        write(ctx, 2, &[batch, cells], &h_grad)?;
        write(ctx, 3, &[width, 4 * cells], &w_grad)?;
        for (index, weights) in weights.iter().enumerate() {
            write(ctx, index + 4, &[cells], weights)?;
        }
        write(ctx, 7, &[4 * cells], &b_grad)
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op, tensor};

    use super::*;

    #[test]
    fn a_cell_without_weights_halves_its_state() {
        let registry = registry_of(register);
        let attrs = [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("forget_bias", AttrValue::Float(0.0)),
            ("cell_clip", AttrValue::Float(0.75)),
        ];
        let one = |x: f32| floats(&[1], &[x]);
        let mut inputs =
            vec![floats(&[1, 1], &[3.0]), floats(&[1, 1], &[1.0]), floats(&[1, 1], &[0.0])];
        inputs.extend([
            floats(&[2, 4], &[0.0; 8]),
            one(0.0),
            one(0.0),
            one(0.0),
            floats(&[4], &[0.0; 4]),
        ]);
        let out = run_op(&registry, "LSTMBlockCell", &attrs, &inputs).unwrap();
        let value = |index: usize| out[index].as_slice::<f32>().unwrap()[0];
        // Gates of nothing are one half; the state 1 becomes 1/2.
        assert_eq!((value(0), value(1), value(2), value(3), value(4)), (0.5, 0.5, 0.5, 0.5, 0.0));
        assert!((value(5) - 0.5f32.tanh()).abs() < 1e-6);
        assert!((value(6) - 0.5 * 0.5f32.tanh()).abs() < 1e-6);
        // A sequence of two steps, of which one is taken.
        let mut block = vec![tensor(&[], &[1i64]), floats(&[2, 1, 1], &[3.0, 4.0])];
        block.extend_from_slice(&inputs[1..]);
        let out = run_op(&registry, "BlockLSTM", &attrs, &block).unwrap();
        assert_eq!(out[1].as_slice::<f32>().unwrap(), [0.5, 0.0]);
        let mut wrong = inputs.clone();
        wrong[3] = floats(&[3, 4], &[0.0; 12]);
        let error = run_op(&registry, "LSTMBlockCell", &attrs, &wrong).unwrap_err();
        assert_eq!(error.message(), "w.dim_size(0) != input_size + cell_size: 3 vs. 2");
    }
}
