//! Diagonals of tensors and matrices: `Diag`, `DiagPart`, `MatrixDiag`, `MatrixDiagPart`.

use tfcore_base::{Result, invalid, require};
use tfcore_framework::geometry::{StridedDim, StridedView};
use tfcore_framework::movement::{copy_view, write_view};
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_fns, shape_ops};
use tfcore_tensor::{Dim, PartialShape, Shape};

pub(crate) fn register(r: &mut Registry) {
    // `Diag(diagonal: T) -> output: T`: zeros, but for `output[i.., i..] = diagonal[i..]`.
    r.op("Diag").shape(diag_shape).compute(diag);
    // `DiagPart(input: T) -> diagonal: T`: `diagonal[i..] = input[i.., i..]`.
    r.op("DiagPart").shape(diag_part_shape).compute(diag_part);
    // `MatrixDiag(diagonal: T) -> output: T`, square matrices: zeros, but for `output[b.., i, i] = diagonal[b.., i]`.
    r.op("MatrixDiag").shape(matrix_diag_shape).compute(matrix_diag);
    r.op("BatchMatrixDiag").shape(shape_fns::unknown).compute(matrix_diag);
    // `MatrixDiagPart(input: T) -> diagonal: T`, of any matrices: `diagonal[b.., i] = input[b.., i, i]`.
    r.op("MatrixDiagPart").shape(matrix_diag_part_shape).compute(matrix_diag_part);
    r.op("BatchMatrixDiagPart").shape(shape_fns::unknown).compute(matrix_diag_part);
}

/// The diagonals of `batches` matrices of `rows` by `columns` elements.
fn diagonals(batches: usize, rows: usize, columns: usize) -> StridedView {
    let matrix = StridedDim { size: batches, stride: (rows * columns) as isize };
    let diagonal = StridedDim { size: rows.min(columns), stride: columns as isize + 1 };
    StridedView::new(0, [matrix, diagonal])
}

/// Sets output 0 to zeros, but for the elements of `view`, which are input 0.
fn spread(ctx: &mut OpContext<'_>, shape: Shape, view: &StridedView) -> Result<()> {
    let input = ctx.input(0)?;
    let mut out = ctx.allocate_zeros(input.dtype(), shape)?;
    write_view(input.elems(), view, out.elems_mut()?);
    ctx.set_output(0, out);
    Ok(())
}

/// Sets output 0 to the elements of input 0 that `view` names.
fn collect(ctx: &mut OpContext<'_>, shape: Shape, view: &StridedView) -> Result<()> {
    let input = ctx.input(0)?.elems();
    ctx.produce(0, shape, |out| copy_view(ctx.parallel(), input, view, out))
}

fn diag_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let diagonal = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    ctx.set_output(0, shape_ops::concatenate(&diagonal, &diagonal));
    Ok(())
}

fn diag(ctx: &mut OpContext<'_>) -> Result<()> {
    let diagonal = ctx.input(0)?;
    require!(diagonal.rank() >= 1, "Input must be at least rank 1, got 0");
    let count = diagonal.count();
    let shape = Shape::new(&[diagonal.shape().dims(), diagonal.shape().dims()].concat())?;
    spread(ctx, shape, &diagonals(1, count, count))
}

fn diag_part_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = ctx.input(0);
    let Some(rank) = input.rank() else {
        return Ok(());
    };
    require!(
        rank > 0 && rank % 2 == 0,
        "Input must have even and non-zero rank, input rank is {rank}"
    );
    let half = rank / 2;
    let dims = (0..half).map(|axis| shape_ops::merge_dims(input.dim(axis), input.dim(axis + half)));
    let dims = dims.collect::<Result<Vec<Dim>>>()?;
    ctx.set_output(0, dims.into_iter().collect());
    Ok(())
}

fn diag_part(ctx: &mut OpContext<'_>) -> Result<()> {
    let input = ctx.input(0)?.shape();
    require!(
        input.rank() % 2 == 0,
        "The rank of the tensor should be even and positive, got shape {input}"
    );
    let half = input.rank() / 2;
    for axis in 0..half {
        require!(
            input[axis] == input[axis + half],
            "Invalid shape {input}: dimensions {axis} and {} do not match.",
            axis + half
        );
    }
    let shape = Shape::new(&input[..half])?;
    let count = shape.count();
    collect(ctx, shape, &diagonals(1, count, count))
}

fn matrix_diag_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let diagonal = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    let shape = match diagonal.dims() {
        Some(dims) => {
            let last = PartialShape::vector(dims[dims.len() - 1]);
            shape_ops::concatenate(&diagonal, &last)
        }
        None => PartialShape::unknown(),
    };
    ctx.set_output(0, shape);
    Ok(())
}

fn matrix_diag(ctx: &mut OpContext<'_>) -> Result<()> {
    let diagonal = ctx.input(0)?.shape();
    let &[ref batch @ .., size] = diagonal.dims() else {
        return Err(invalid!("diagonal must be at least 1-dim, received shape: {diagonal}"));
    };
    let batches = batch.iter().product::<i64>() as usize;
    let shape = Shape::new(&[diagonal.dims(), &[size]].concat())?;
    spread(ctx, shape, &diagonals(batches, size as usize, size as usize))
}

fn matrix_diag_part_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank_at_least(ctx.input(0), 2)?;
    let Some(rank) = input.rank() else {
        return Ok(());
    };
    let (rows, columns) = (input.dim(rank - 2), input.dim(rank - 1));
    let size = match (rows.value(), columns.value()) {
        (Some(rows), Some(columns)) => Dim::new(rows.min(columns)),
        (Some(0), _) | (_, Some(0)) => Dim::new(0),
        _ => Dim::UNKNOWN,
    };
    let batch = shape_ops::subshape(&input, 0, Some(-2))?;
    ctx.set_output(0, shape_ops::concatenate(&batch, &PartialShape::vector(size)));
    Ok(())
}

fn matrix_diag_part(ctx: &mut OpContext<'_>) -> Result<()> {
    let input = ctx.input(0)?.shape();
    let &[ref batch @ .., rows, columns] = input.dims() else {
        return Err(invalid!("input must be at least 2-dim, received shape: {input}"));
    };
    let batches = batch.iter().product::<i64>() as usize;
    let shape = Shape::new(&[batch, &[rows.min(columns)]].concat())?;
    collect(ctx, shape, &diagonals(batches, rows as usize, columns as usize))
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use tfcore_tensor::Tensor;

    #[test]
    fn diagonals_go_and_come() {
        let cases = [
            ("Diag", ints(&[1, 2]), vec![2, 2], vec![1, 0, 0, 2]),
            ("DiagPart", counting(&[3, 3]), vec![3], vec![0, 4, 8]),
            ("DiagPart", counting(&[2, 1, 2, 1]), vec![2, 1], vec![0, 3]),
            (
                "MatrixDiag",
                tensor(&[2, 2], &[1, 2, 3, 4]),
                vec![2, 2, 2],
                vec![1, 0, 0, 2, 3, 0, 0, 4],
            ),
            ("MatrixDiagPart", counting(&[2, 2, 3]), vec![2, 2], vec![0, 4, 6, 10]),
            ("MatrixDiagPart", counting(&[3, 1]), vec![1], vec![0]),
            ("MatrixDiagPart", counting(&[2, 0, 3]), vec![2, 0], vec![]),
        ];
        for (op, input, dims, expected) in cases {
            assert_eq!(values::<i32>(op, &[int32()], &[input]).unwrap(), (dims, expected), "{op}");
        }
    }

    #[test]
    fn what_has_no_diagonal() {
        let cases = [
            ("Diag", Tensor::scalar(1), "Input must be at least rank 1, got 0"),
            (
                "DiagPart",
                counting(&[2, 3]),
                "Invalid shape [2,3]: dimensions 0 and 1 do not match.",
            ),
            (
                "MatrixDiag",
                Tensor::scalar(1),
                "diagonal must be at least 1-dim, received shape: []",
            ),
            ("MatrixDiagPart", ints(&[1]), "input must be at least 2-dim, received shape: [1]"),
        ];
        for (op, input, message) in cases {
            assert_eq!(failure(op, &[int32()], &[input]), message);
        }
    }

    #[test]
    fn shapes_of_diagonals() {
        let cases = [
            ("Diag", "[2,?]", "[2,?,2,?]"),
            ("DiagPart", "[2,?,?,3]", "[2,3]"),
            ("DiagPart", "[2]", "Input must have even and non-zero rank, input rank is 1"),
            ("MatrixDiag", "[2,?]", "[2,?,?]"),
            ("MatrixDiagPart", "[4,2,3]", "[4,2]"),
            ("MatrixDiagPart", "[4,?,3]", "[4,?]"),
        ];
        for (op, input, expected) in cases {
            assert_eq!(shapes(op, &[int32()], input, &[]), expected, "{op}");
        }
    }
}
