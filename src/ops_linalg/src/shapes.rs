//! Static shapes of ops on matrices.

use tfcore_base::{Result, require};
use tfcore_framework::{InferenceContext, shape_ops};
use tfcore_tensor::{Dim, PartialShape};

/// The outer dimensions and the last two of a shape of rank 2 at least.
fn split(shape: &PartialShape) -> Result<(PartialShape, Dim, Dim)> {
    let shape = shape_ops::with_rank_at_least(shape, 2)?;
    let batch = shape_ops::subshape(&shape, 0, Some(-2))?;
    Ok(match shape.rank() {
        Some(rank) => (batch, shape.dim(rank - 2), shape.dim(rank - 1)),
        None => (PartialShape::unknown(), Dim::UNKNOWN, Dim::UNKNOWN),
    })
}

/// As [`split`], for square matrices.
fn split_square(shape: &PartialShape) -> Result<(PartialShape, Dim)> {
    let (batch, rows, cols) = split(shape)?;
    Ok((batch, shape_ops::merge_dims(rows, cols)?))
}

fn join(batch: &PartialShape, rows: Dim, cols: Dim) -> PartialShape {
    shape_ops::concatenate(batch, &PartialShape::matrix(rows, cols))
}

fn join_vector(batch: &PartialShape, len: Dim) -> PartialShape {
    shape_ops::concatenate(batch, &PartialShape::vector(len))
}

/// The smaller dimension, as far as known.
fn smaller(a: Dim, b: Dim) -> Dim {
    match (a.value(), b.value()) {
        (Some(a), Some(b)) => Dim::new(a.min(b)),
        (Some(0), None) | (None, Some(0)) => Dim::new(0),
        _ => Dim::UNKNOWN,
    }
}

/// Square matrices to as many of their size.
pub(crate) fn square(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (batch, n) = split_square(ctx.input(0))?;
    ctx.set_output(0, join(&batch, n, n));
    Ok(())
}

pub(crate) fn determinant(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (batch, _) = split_square(ctx.input(0))?;
    ctx.set_output(0, batch);
    Ok(())
}

pub(crate) fn log_determinant(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (batch, _) = split_square(ctx.input(0))?;
    ctx.set_output(0, batch.clone());
    ctx.set_output(1, batch);
    Ok(())
}

pub(crate) fn lu(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (batch, n) = split_square(ctx.input(0))?;
    ctx.set_output(0, join(&batch, n, n));
    ctx.set_output(1, join_vector(&batch, n));
    Ok(())
}

/// Eigenvalues, and eigenvectors if attr `compute_v`.
pub(crate) fn eigen(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (batch, n) = split_square(ctx.input(0))?;
    ctx.set_output(0, join_vector(&batch, n));
    let vectors = match ctx.attrs.bool("compute_v")? {
        true => join(&batch, n, n),
        false => PartialShape::vector(0),
    };
    ctx.set_output(1, vectors);
    Ok(())
}

/// Eigenvalues and eigenvectors in one matrix.
pub(crate) fn stacked_eigen(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (batch, n) = split_square(ctx.input(0))?;
    let rows = shape_ops::add(n, 1)?;
    ctx.set_output(0, join(&batch, rows, n));
    Ok(())
}

pub(crate) fn qr(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (batch, m, n) = split(ctx.input(0))?;
    let width = if ctx.attrs.bool("full_matrices")? { m } else { smaller(m, n) };
    ctx.set_output(0, join(&batch, m, width));
    ctx.set_output(1, join(&batch, width, n));
    Ok(())
}

pub(crate) fn svd(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (batch, m, n) = split(ctx.input(0))?;
    let count = smaller(m, n);
    ctx.set_output(0, join_vector(&batch, count));
    let (mut u, mut v) = (PartialShape::vector(0), PartialShape::vector(0));
    if ctx.attrs.bool("compute_uv")? {
        let full = ctx.attrs.bool("full_matrices")?;
        u = join(&batch, m, if full { m } else { count });
        v = join(&batch, n, if full { n } else { count });
    }
    ctx.set_output(1, u);
    ctx.set_output(2, v);
    Ok(())
}

fn solution(ctx: &mut InferenceContext<'_>, is_square: bool) -> Result<()> {
    let (batch, m, n) = split(ctx.input(0))?;
    let n = if is_square { shape_ops::merge_dims(m, n)? } else { n };
    let (rhs_batch, rhs_rows, rhs_cols) = split(ctx.input(1))?;
    let batch = shape_ops::merge(&batch, &rhs_batch)?;
    let m = shape_ops::merge_dims(m, rhs_rows)?;
    let n = if is_square { shape_ops::merge_dims(m, n)? } else { n };
    ctx.set_output(0, join(&batch, n, rhs_cols));
    Ok(())
}

/// `[.., m, n]` and `[.., m, k]` to `[.., n, k]`.
pub(crate) fn solve(ctx: &mut InferenceContext<'_>) -> Result<()> {
    solution(ctx, false)
}

/// As [`solve`], m and n being the same.
pub(crate) fn square_solve(ctx: &mut InferenceContext<'_>) -> Result<()> {
    solution(ctx, true)
}

/// As [`square_solve`], for batches that broadcast.
pub(crate) fn triangular_solve(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (batch, n) = split_square(ctx.input(0))?;
    let (rhs_batch, rhs_rows, rhs_cols) = split(ctx.input(1))?;
    let batch = shape_ops::broadcast(&batch, &rhs_batch)?;
    let n = shape_ops::merge_dims(n, rhs_rows)?;
    ctx.set_output(0, join(&batch, n, rhs_cols));
    Ok(())
}

pub(crate) fn banded_solve(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (batch, bands, n) = split(ctx.input(0))?;
    let (rhs_batch, rhs_rows, rhs_cols) = split(ctx.input(1))?;
    if let (Some(bands), Some(n)) = (bands.value(), n.value()) {
        require!(bands <= n, "Number of bands {bands} cannot exceed the size of the matrix {n}");
    }
    let batch = shape_ops::broadcast(&batch, &rhs_batch)?;
    let n = shape_ops::merge_dims(n, rhs_rows)?;
    ctx.set_output(0, join(&batch, n, rhs_cols));
    Ok(())
}

pub(crate) fn tridiagonal_solve(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (batch, rows, n) = split(ctx.input(0))?;
    let (rhs_batch, rhs_rows, _) = split(ctx.input(1))?;
    shape_ops::merge(&batch, &rhs_batch)?;
    shape_ops::with_value(rows, 3)?;
    shape_ops::merge_dims(n, rhs_rows)?;
    // As the reference has it, the diagonals tell nothing of the result.
    ctx.set_output(0, ctx.input(1).clone());
    Ok(())
}

pub(crate) fn tridiagonal_product(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (mut batch, mut m, _) = split(ctx.input(3))?;
    for index in 0..3 {
        let (other, rows, cols) = split(ctx.input(index))?;
        batch = shape_ops::merge(&batch, &other)?;
        m = shape_ops::merge_dims(m, cols)?;
        shape_ops::with_value(rows, 1)?;
    }
    ctx.set_output(0, ctx.input(3).clone());
    Ok(())
}
