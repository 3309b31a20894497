//! Solutions of triangular systems, dense and banded.

use num_traits::Zero;
use tfcore_base::{LoopFor, Result, TypedLoop, invalid, require};
use tfcore_framework::geometry::Broadcast;
use tfcore_framework::{Kernel, KernelInit, OpContext, Registry, kernel};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Elems, ElemsMut, Shape};

use crate::matrix::{Fields, Matrix, Scalar, add_scaled};
use crate::shapes;

pub(crate) fn register(r: &mut Registry) {
    // `MatrixTriangularSolve(matrix: T, rhs: T) -> output: T`, X with `A X = B`, where A is the lower or upper triangle of the
    // matrix, by attr `lower`; its adjoint if attr `adjoint`. Batches broadcast.
    for op in ["MatrixTriangularSolve", "BatchMatrixTriangularSolve"] {
        r.op(op)
            .shape(shapes::triangular_solve)
            .typed_kernel::<DenseForm, Fields>("T", |init, solve| {
                triangular(init, Layout::Dense, solve)
            });
    }
    // `BandedTriangularSolve(matrix: T, rhs: T) -> output: T`, as above; the rows of the matrix are the diagonals of A.
    r.op("BandedTriangularSolve")
        .shape(shapes::banded_solve)
        .typed_kernel::<BandedForm, Fields>("T", |init, solve| {
            triangular(init, Layout::Banded, solve)
        });
}

#[derive(Clone, Copy, PartialEq)]
enum Layout {
    Dense,
    Banded,
}

/// The rows and columns of the matrix and the columns of the right-hand side; which triangle is meant.
#[derive(Clone, Copy)]
struct System {
    rows: usize,
    cols: usize,
    rhs: usize,
    lower: bool,
    adjoint: bool,
}

/// Solves the systems of a batch: matrices and right-hand sides by their offsets.
type SolveAll =
    fn(Parallel<'_>, System, [Elems<'_>; 2], &[Vec<usize>; 2], ElemsMut<'_>) -> Result<()>;

/// The coefficient of unknown j in equation i.
type Coefficient<T> = fn(&System, &[T], usize, usize) -> T;

struct DenseForm;
struct BandedForm;

impl TypedLoop for DenseForm {
    type Loop = SolveAll;
}

impl<T: Scalar> LoopFor<T> for DenseForm {
    const LOOP: SolveAll = |parallel, system, operands, offsets, out| {
        let coefficient: Coefficient<T> = |system, matrix, i, j| match system.adjoint {
            true => matrix[j * system.cols + i].conj(),
            false => matrix[i * system.cols + j],
        };
        solve_all::<T>(parallel, system, operands, offsets, out, coefficient, system.cols);
        Ok(())
    };
}

impl TypedLoop for BandedForm {
    type Loop = SolveAll;
}

impl<T: Scalar> LoopFor<T> for BandedForm {
    const LOOP: SolveAll = |parallel, system, operands, offsets, out| {
        let System { rows: bands, cols, lower, .. } = system;
        // As in the reference, the first matrix of a batch is looked at.
        let diagonal = if lower { 0 } else { (bands - 1) * cols };
        let diagonal = &operands[0].typed::<T>()[diagonal..diagonal + cols];
        require!(
            diagonal.iter().all(|x| x.abs() > T::Real::zero()),
            "Input matrix is not invertible."
        );
        let coefficient: Coefficient<T> = |system, matrix, i, j| {
            let (row, col) = if system.adjoint { (j, i) } else { (i, j) };
            let band = match system.lower {
                true => row - col,
                false => system.rows - 1 - (col - row),
            };
            let x = matrix[band * system.cols + row];
            if system.adjoint { x.conj() } else { x }
        };
        solve_all::<T>(parallel, system, operands, offsets, out, coefficient, bands);
        Ok(())
    };
}

/// Solves all systems; `bands` are the diagonals that may hold something.
fn solve_all<T: Scalar>(
    parallel: Parallel<'_>,
    system: System,
    operands: [Elems<'_>; 2],
    offsets: &[Vec<usize>; 2],
    out: ElemsMut<'_>,
    coefficient: Coefficient<T>,
    bands: usize,
) {
    const WORTH_A_THREAD: usize = 1 << 15;
    let System { cols: n, rhs, rows, lower, adjoint } = system;
    let [matrices, sides] = operands.map(|operand| operand.typed::<T>());
    let len = n * rhs;
    let grain = len * WORTH_A_THREAD.div_ceil(n * bands.min(n) * rhs);
    par_chunks_mut(parallel, out.typed::<T>(), len, grain, &|start, piece: &mut [T]| {
        for (index, out) in piece.chunks_exact_mut(len).enumerate() {
            let index = start / len + index;
            let (from, side) = (offsets[0][index], offsets[1][index]);
            let matrix = &matrices[from..from + rows * n];
            let mut x = Matrix::from_slice([n, rhs], &sides[side..side + len]);
            // The unknowns from the first to the last, or the other way round.
            let forward = lower != adjoint;
            for step in 0..n {
                let i = if forward { step } else { n - 1 - step };
                let near = bands.saturating_sub(1).min(step);
                for distance in (1..=near).rev() {
                    let j = if forward { i - distance } else { i + distance };
                    let factor = -coefficient(&system, matrix, i, j);
                    let (first, second) = x.two_rows(i.min(j), i.max(j));
                    let (target, source) = if forward { (second, first) } else { (first, second) };
                    add_scaled(target, factor, source);
                }
                let pivot = coefficient(&system, matrix, i, i);
                x.row_mut(i).iter_mut().for_each(|x| *x = *x / pivot);
            }
            out.copy_from_slice(&x.data);
        }
    });
}

fn triangular(init: &KernelInit<'_>, layout: Layout, solve: SolveAll) -> Result<Box<dyn Kernel>> {
    let (lower, adjoint) = (init.attrs.bool("lower")?, init.attrs.bool("adjoint")?);
    kernel(move |ctx| compute(ctx, layout, lower, adjoint, solve))
}

fn compute(
    ctx: &mut OpContext<'_>,
    layout: Layout,
    lower: bool,
    adjoint: bool,
    solve: SolveAll,
) -> Result<()> {
    let (a, b) = (ctx.input(0)?, ctx.input(1)?);
    require!(a.rank() >= 2, "In[0] ndims must be >= 2: {}", a.rank());
    require!(b.rank() >= 2, "In[1] ndims must be >= 2: {}", b.rank());
    let split = |shape: &Shape| -> Result<(Shape, usize, usize)> {
        let batch = shape.rank() - 2;
        Ok((Shape::new(&shape[..batch])?, shape.dim(batch), shape.dim(batch + 1)))
    };
    let ((batch_a, rows, cols), (batch_b, rhs_rows, rhs)) = (split(a.shape())?, split(b.shape())?);
    match layout {
        Layout::Dense => require!(
            rows == cols,
            "In[0] matrices in the last dimensions must be square ({cols} =/= {rows})"
        ),
        Layout::Banded => {
            for (index, input) in [a, b].into_iter().enumerate() {
                require!(
                    input.count() > 0,
                    "In[{index}] must not be an empty tensor: Tensor<type: {} shape: {} values: >",
                    input.dtype(),
                    input.shape()
                );
            }
        }
    }
    let broadcast = Broadcast::new(&batch_a, &batch_b).map_err(|_| {
        invalid!(
            "In[0] and In[1] must have compatible batch dimensions: {} vs. {}",
            a.shape(),
            b.shape()
        )
    })?;
    require!(
        cols == rhs_rows,
        "In[0] mismatch In[1] shape: {cols} vs. {rhs_rows}: {} {} {} {}",
        a.shape(),
        b.shape(),
        u8::from(lower),
        u8::from(adjoint)
    );
    let shape = Shape::new(&[broadcast.output().dims(), &[cols as i64, rhs as i64]].concat())?;
    let mut out = ctx.allocate_output(0, shape)?;
    if out.count() > 0 {
        let offsets = broadcast.offsets([rows * cols, rhs_rows * rhs]);
        let system = System { rows, cols, rhs, lower, adjoint };
        solve(ctx.parallel(), system, [a.elems(), b.elems()], &offsets, out.elems_mut()?)?;
    }
    ctx.set_output(0, out);
    Ok(())
}
