//! Bands of diagonals of matrices: `MatrixDiagV2`, `MatrixDiagPartV2`, `MatrixSetDiag`, their versions 3, and the old `Batch`
//! forms. Versions 1 of the first two, which are about the main diagonal alone, are in `diag.rs`.

use tfcore_base::{Result, invalid, require};
use tfcore_framework::movement::{Movement, for_each_units, move_elems};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, ElemsMut, PartialShape, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `MatrixDiagV2(diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T) -> output: T`: the diagonals
    // `k[0]` to `k[1]` of matrices that are padding elsewhere. `diagonal[b.., m, :]` is diagonal `k[1] - m`, at the left.
    // Version 3 has attr `align`, which says where the shorter ones lie.
    r.ops(["MatrixDiagV2", "MatrixDiagV3"], |op| {
        op.shape(diag_shape).cpu(diag_kernel);
    });
    // `MatrixDiagPartV2(input: T, k: int32, padding_value: T) -> diagonal: T`, the same read the other way.
    r.ops(["MatrixDiagPartV2", "MatrixDiagPartV3"], |op| {
        op.shape(part_shape).cpu(part_kernel);
    });
    // `MatrixSetDiag(input: T, diagonal: T) -> output: T`: the input with another main diagonal.
    r.op("MatrixSetDiag").shape(set_main_shape).cpu(set_kernel);
    // `MatrixSetDiagV2(input: T, diagonal: T, k: int32) -> output: T`: with another band.
    r.ops(["MatrixSetDiagV2", "MatrixSetDiagV3"], |op| {
        op.shape(set_shape).cpu(set_kernel);
    });
    r.op("BatchMatrixSetDiag").shape(tfcore_framework::shape_fns::unknown).cpu(set_kernel);
}

/// A band of diagonals: 0 is the main one, positive ones lie above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Diagonals {
    lower: i64,
    upper: i64,
}

impl Diagonals {
    /// Reads `k` of a kernel.
    fn of(k: &Tensor) -> Result<Diagonals> {
        require!(
            k.rank() <= 1,
            "diag_index must be a scalar or vector, received shape: {}",
            k.shape()
        );
        match k.to_i64s()?[..] {
            [only] => Ok(Diagonals { lower: only, upper: only }),
            [lower, upper] => Ok(Diagonals { lower, upper }),
            _ => Err(invalid!(
                "diag_index must have only one or two elements, received {} elements.",
                k.count()
            )),
        }
    }

    /// Reads `k` of a shape function; `None` if it is not constant.
    fn of_operand(ctx: &InferenceContext<'_>, index: usize) -> Result<Option<Diagonals>> {
        let shape = shape_ops::with_rank_at_most(ctx.input(index), 1)?;
        let Some(k) = ctx.operand_i64s(index)?.filter(|_| shape.is_fully_known()) else {
            return Ok(None);
        };
        let (lower, upper) = match k[..] {
            [only] => (only, only),
            [lower, upper] => (lower, upper),
            _ => {
                return Err(invalid!(
                    "diag_index must be a vector with one or two elements. It has {} elements.",
                    k.len()
                ));
            }
        };
        require!(lower <= upper, "lower_diag_index is greater than upper_diag_index");
        Ok(Some(Diagonals { lower, upper }))
    }

    fn count(self) -> i64 {
        self.upper - self.lower + 1
    }

    /// The length of the longest diagonal.
    fn longest(self, rows: i64, columns: i64) -> i64 {
        (rows + self.upper.min(0)).min(columns - self.lower.max(0))
    }

    /// The length of the diagonals and, if there are several, their number before it.
    fn compact_dims(self, longest: Dim) -> impl Iterator<Item = Dim> {
        let count = (self.lower < self.upper).then(|| Dim::new(self.count()));
        count.into_iter().chain([longest])
    }

    fn check_order(self) -> Result<()> {
        let Diagonals { lower, upper } = self;
        require!(
            lower <= upper,
            "lower_diag_index must not be larger than upper_diag_index: {lower} > {upper}"
        );
        Ok(())
    }

    /// Checks for a kernel that the diagonals are some of a matrix of this size. What the message has behind the lower number
    /// is up to the op.
    fn check_within(self, rows: i64, columns: i64, stop: &str) -> Result<()> {
        for (name, index, stop) in [("lower", self.lower, stop), ("upper", self.upper, "")] {
            require!(
                is_within(index, rows, columns),
                "{name}_diag_index is out of bound: {index}{stop} It must be between {} and {columns}",
                -rows
            );
        }
        self.check_order()
    }

    /// As [`Diagonals::check_within`], for a shape function.
    fn check_static(self, rows: i64, columns: i64) -> Result<()> {
        for (name, index) in [("lower", self.lower), ("upper", self.upper)] {
            require!(is_within(index, rows, columns), "{name}_diag_index is out of bound.");
        }
        Ok(())
    }
}

/// True if a matrix of this size has that diagonal. Any matrix has the main one.
fn is_within(diagonal: i64, rows: i64, columns: i64) -> bool {
    diagonal == 0 || (-rows < diagonal && diagonal < columns)
}

/// The side on which shorter diagonals begin.
#[derive(Debug, Clone, Copy)]
struct Alignment {
    left_above: bool,
    left_below: bool,
}

impl Alignment {
    /// Attr `align`, which only versions 3 have.
    fn from_attrs(init: &KernelInit<'_>) -> Result<Alignment> {
        if init.attrs.get("align").is_none() {
            return Ok(Alignment { left_above: true, left_below: true });
        }
        let align = init.attrs.str("align")?;
        Ok(Alignment {
            left_above: align.starts_with("LEFT_"),
            left_below: align.ends_with("_LEFT"),
        })
    }

    fn is_left(self, diagonal: i64) -> bool {
        (diagonal >= 0 && self.left_above) || (diagonal <= 0 && self.left_below)
    }
}

/// Where the elements of a band lie in one matrix and in the compact form of it.
struct Band {
    lines: Vec<Line>,
    columns: usize,
    /// Elements of one matrix.
    matrix: usize,
    /// Elements of its compact form.
    compact: usize,
}

/// One diagonal.
struct Line {
    in_matrix: usize,
    in_compact: usize,
    len: usize,
}

impl Band {
    fn new(k: Diagonals, align: Alignment, rows: i64, columns: i64, longest: i64) -> Band {
        let lines = (k.lower..=k.upper).rev().enumerate().map(|(number, diagonal)| {
            let len = (rows + diagonal.min(0)).min(columns - diagonal.max(0)).max(0);
            let shift = if align.is_left(diagonal) { 0 } else { (longest - len).max(0) };
            Line {
                in_matrix: (diagonal.max(0) - diagonal.min(0) * columns) as usize,
                in_compact: number * longest as usize + shift as usize,
                len: len.min(longest) as usize,
            }
        });
        Band {
            lines: lines.collect(),
            columns: columns as usize,
            matrix: (rows * columns) as usize,
            compact: (k.count() * longest) as usize,
        }
    }
}

/// Copies the compact form into matrices.
struct Spread<'b>(&'b Band);

impl Movement for Spread<'_> {
    fn run<E: Clone>(self, source: &[E], out: &mut [E]) {
        let Band { lines, columns, matrix, compact } = self.0;
        for (batch, out) in out.chunks_exact_mut(*matrix).enumerate() {
            let source = &source[batch * compact..][..*compact];
            for line in lines.iter().filter(|line| line.len > 0) {
                let out = out[line.in_matrix..].iter_mut().step_by(columns + 1);
                out.zip(&source[line.in_compact..][..line.len])
                    .for_each(|(out, value)| out.clone_from(value));
            }
        }
    }
}

/// Copies the band of matrices into the compact form.
struct Collect<'b>(&'b Band);

impl Movement for Collect<'_> {
    fn run<E: Clone>(self, source: &[E], out: &mut [E]) {
        let Band { lines, columns, matrix, compact } = self.0;
        for (batch, out) in out.chunks_exact_mut(*compact).enumerate() {
            let source = &source[batch * matrix..][..*matrix];
            for line in lines.iter().filter(|line| line.len > 0) {
                let source = source[line.in_matrix..].iter().step_by(columns + 1);
                out[line.in_compact..][..line.len]
                    .iter_mut()
                    .zip(source)
                    .for_each(|(out, value)| out.clone_from(value));
            }
        }
    }
}

/// Lets `Spread` write the diagonals, input `index`, into the matrices of `out`.
fn spread(ctx: &OpContext<'_>, index: usize, band: &Band, out: ElemsMut<'_>) -> Result<()> {
    let diagonals = ctx.input(index)?.elems();
    for_each_units(ctx.parallel(), out, band.matrix, &|first, part| {
        let batches = part.len() / band.matrix;
        let range = first * band.compact..(first + batches) * band.compact;
        move_elems(diagonals.slice(range), part, Spread(band));
    });
    Ok(())
}

/// The padding, one element.
fn padding<'c>(ctx: &'c OpContext<'_>, index: usize) -> Result<&'c Tensor> {
    let padding = ctx.input(index)?;
    require!(
        padding.count() == 1,
        "padding_value must be a scalar, received shape: {}",
        padding.shape()
    );
    Ok(padding)
}

fn diag_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let diagonal = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    shape_ops::with_rank_at_most(ctx.input(1), 1)?;
    for scalar in 2..5 {
        shape_ops::with_rank(ctx.input(scalar), 0)?;
    }
    let Some(dims) = diagonal.dims() else {
        return Ok(());
    };
    let Some(k) = Diagonals::of_operand(ctx, 1)? else {
        return Ok(());
    };
    let (batch, longest) = match dims {
        [batch @ .., count, longest]
            if k.lower < k.upper && count.value().is_none_or(|count| count == k.count()) =>
        {
            (batch, longest)
        }
        [batch @ .., longest] if k.lower == k.upper => (batch, longest),
        _ => {
            return Err(invalid!(
                "The number of rows of `diagonal` doesn't match the number of diagonals implied from `d_lower` and \
                 `d_upper`.\ndiagonal = {diagonal}, d_lower = {}, d_upper = {}",
                k.lower,
                k.upper
            ));
        }
    };
    let size = |index| Ok::<i64, tfcore_base::Error>(ctx.operand_i64(index)?.unwrap_or(-1));
    // An unknown length counts as -1 here, as in the reference.
    let (rows, columns) = matrix_size(k, longest.to_i64(), size(2)?, size(3)?, &STATIC_TEXTS)?;
    let dim = |size: i64| if size < 0 { Dim::UNKNOWN } else { Dim::new(size) };
    ctx.set_output(0, batch.iter().copied().chain([dim(rows), dim(columns)]).collect());
    Ok(())
}

/// The messages for a matrix that does not fit its diagonals: too few rows, too few columns, too many of both.
type SizeTexts = [&'static str; 3];

const STATIC_TEXTS: SizeTexts = [
    "num_rows is too small",
    "num_cols is too small.",
    "num_rows and num_cols are not consistent with lower_diag_index, upper_diag_index, and the length of the given \
     diagonals.",
];

const TEXTS: SizeTexts = [
    "The number of rows is too small.",
    "The number of columns is too small.",
    "The number of rows or columns is not consistent with the specified d_lower, d_upper, and diagonal.",
];

/// The size of the matrices; -1 for `rows` or `columns` leaves it to the diagonals.
fn matrix_size(
    k: Diagonals,
    longest: i64,
    rows: i64,
    columns: i64,
    texts: &SizeTexts,
) -> Result<(i64, i64)> {
    let (least_rows, least_columns) = (longest - k.upper.min(0), longest + k.lower.max(0));
    require!(rows == -1 || rows >= least_rows, "{}", texts[0]);
    require!(columns == -1 || columns >= least_columns, "{}", texts[1]);
    let size = match (rows, columns) {
        (-1, -1) => {
            let side = least_rows.max(least_columns);
            (side, side)
        }
        (-1, _) => (least_rows, columns),
        (_, -1) => (rows, least_columns),
        _ => (rows, columns),
    };
    require!(size.0 == least_rows || size.1 == least_columns, "{}", texts[2]);
    Ok(size)
}

fn diag_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let align = Alignment::from_attrs(init)?;
    kernel(move |ctx| {
        let k = Diagonals::of(ctx.input(1)?)?;
        let [rows, columns] = [ctx.input(2)?, ctx.input(3)?].map(|size| {
            require!(size.count() == 1, "num_rows and num_cols must be scalars");
            Ok(size.to_i64s()?[0])
        });
        let padding = padding(ctx, 4)?;
        let diagonal = ctx.input(0)?.shape();
        let &[ref batch @ .., longest] = diagonal.dims() else {
            return Err(invalid!("diagonal must be at least 1-dim, received shape: {diagonal}"));
        };
        k.check_order()?;
        let batch = match batch {
            _ if k.lower == k.upper => batch,
            [batch @ .., count] if *count == k.count() => batch,
            _ => {
                return Err(invalid!(
                    "The number of diagonals provided in the input does not match the lower_diag_index and \
                     upper_diag_index range."
                ));
            }
        };
        let (rows, columns) = matrix_size(k, longest, rows?, columns?, &TEXTS)?;
        let shape = Shape::new(&[batch, &[rows, columns]].concat())?;
        ctx.try_produce(0, shape, |mut out| {
            out.reborrow().fill(padding.elems());
            spread(ctx, 0, &Band::new(k, align, rows, columns, longest), out)
        })
    })
}

fn part_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank_at_least(ctx.input(0), 2)?;
    shape_ops::with_rank_at_most(ctx.input(1), 1)?;
    shape_ops::with_rank(ctx.input(2), 0)?;
    let Some(&[ref batch @ .., rows, columns]) = input.dims() else {
        return Ok(());
    };
    let Some(k) = Diagonals::of_operand(ctx, 1)? else {
        return Ok(());
    };
    let longest = match (rows.value(), columns.value()) {
        (Some(rows), Some(columns)) => {
            k.check_static(rows, columns)?;
            Dim::new(k.longest(rows, columns))
        }
        _ => Dim::UNKNOWN,
    };
    ctx.set_output(0, batch.iter().copied().chain(k.compact_dims(longest)).collect());
    Ok(())
}

fn part_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let align = Alignment::from_attrs(init)?;
    kernel(move |ctx| {
        let k = Diagonals::of(ctx.input(1)?)?;
        let padding = padding(ctx, 2)?;
        let input = ctx.input(0)?;
        let &[ref batch @ .., rows, columns] = input.shape().dims() else {
            let shape = input.shape();
            return Err(invalid!("input must be at least 2-dim, received shape: {shape}"));
        };
        k.check_within(rows, columns, ".")?;
        let longest = k.longest(rows, columns);
        let compact = k.compact_dims(Dim::new(longest)).map(Dim::to_i64);
        let dims: Vec<i64> = batch.iter().copied().chain(compact).collect();
        ctx.produce(0, Shape::new(&dims)?, |mut out| {
            let band = Band::new(k, align, rows, columns, longest);
            out.reborrow().fill(padding.elems());
            for_each_units(ctx.parallel(), out, band.compact, &|first, part| {
                let batches = part.len() / band.compact;
                let range = first * band.matrix..(first + batches) * band.matrix;
                move_elems(input.elems().slice(range), part, Collect(&band));
            });
        })
    })
}

/// The input's shape, with what the diagonals' batch dimensions tell.
fn with_batch_of(
    input: &PartialShape,
    diagonal: &PartialShape,
    inner: i64,
) -> Result<PartialShape> {
    if diagonal.rank().is_none() || input.is_fully_known() {
        return Ok(input.clone());
    }
    let batch = shape_ops::subshape(diagonal, 0, Some(-inner))?;
    shape_ops::merge(input, &shape_ops::concatenate(&batch, &PartialShape::of_rank(2)))
}

fn set_main_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank_at_least(ctx.input(0), 2)?;
    let mut diagonal = shape_ops::with_rank_at_least(ctx.input(1), 1)?;
    if let Some(&[ref batch @ .., rows, columns]) = input.dims() {
        diagonal = shape_ops::with_rank(&diagonal, batch.len() + 1)?;
        let shorter = match (rows.value(), columns.value()) {
            (Some(rows), Some(columns)) => Dim::new(rows.min(columns)),
            (Some(0), _) | (_, Some(0)) => Dim::new(0),
            _ => Dim::UNKNOWN,
        };
        shape_ops::merge_dims(shorter, diagonal.dim(batch.len()))?;
    }
    ctx.set_output(0, with_batch_of(&input, &diagonal, 1)?);
    Ok(())
}

/// The reference infers the shape first without the value of `k`, as if it were the main diagonal. What does not fit then is an
/// error even if the value would tell better.
fn set_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = with_band(ctx, None)?;
    let shape = match Diagonals::of_operand(ctx, 2)? {
        None => shape,
        known => with_band(ctx, known)?,
    };
    ctx.set_output(0, shape);
    Ok(())
}

/// The shape of the input with another band, of which the numbers of the diagonals may be known.
fn with_band(ctx: &InferenceContext<'_>, known: Option<Diagonals>) -> Result<PartialShape> {
    let input = shape_ops::with_rank_at_least(ctx.input(0), 2)?;
    let mut diagonal = shape_ops::with_rank_at_least(ctx.input(1), 1)?;
    let k = known.unwrap_or(Diagonals { lower: 0, upper: 0 });
    let is_single = k.lower == k.upper;
    if let Some(&[ref batch @ .., rows, columns]) = input.dims() {
        let rank = batch.len() + 2;
        diagonal = match known {
            Some(_) if is_single => shape_ops::with_rank(&diagonal, rank - 1)?,
            Some(_) => shape_ops::with_rank(&diagonal, rank)?,
            None => {
                let diagonal = shape_ops::with_rank_at_least(&diagonal, rank - 1)?;
                shape_ops::with_rank_at_most(&diagonal, rank)?
            }
        };
        if let (Some(rows), Some(columns)) = (rows.value(), columns.value()) {
            k.check_static(rows, columns)?;
        }
    }
    with_batch_of(&input, &diagonal, if is_single { 1 } else { 2 })
}

fn set_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let align = Alignment::from_attrs(init)?;
    kernel(move |ctx| {
        let k = match ctx.num_inputs() {
            2 => Diagonals { lower: 0, upper: 0 },
            _ => {
                let k = ctx.input(2)?;
                require!(
                    k.rank() > 1 || k.count() > 0,
                    "diag_index must have at least one element"
                );
                Diagonals::of(k)?
            }
        };
        let (input, diagonal) = (ctx.input(0)?.shape(), ctx.input(1)?.shape());
        let &[ref batch @ .., rows, columns] = input.dims() else {
            return Err(invalid!("input must be at least 2-dim, received shape: {input}"));
        };
        require!(
            diagonal.rank() >= 1,
            "diagonal must be at least 1-dim, received shape: {diagonal}"
        );
        k.check_within(rows, columns, "")?;
        require!(
            k.lower == k.upper || diagonal.rank() > batch.len(),
            "Diagonal tensor rank must be large enough to contain a diagonal-count dimension. Input rank: {}, Expected \
             diagonal rank >= {}, Received diagonal rank: {}",
            input.rank(),
            batch.len() + 1,
            diagonal.rank()
        );
        let count = diagonal.dims().get(batch.len());
        require!(
            k.lower == k.upper || count == Some(&k.count()),
            "The number of diagonals provided in `diag` is not consistent with `lower_diag_index` and \
             `upper_diag_index`"
        );
        let longest = k.longest(rows, columns);
        let compact = k.compact_dims(Dim::new(longest)).map(Dim::to_i64);
        let dims: Vec<i64> = batch.iter().copied().chain(compact).collect();
        let expected = Shape::new(&dims)?;
        require!(
            *diagonal == expected,
            "Either first dimensions of diagonal don't match input.shape[:-2], or diagonal.shape[:-1] is not equal \
             to the longests diagonal in range [lower_diag_index:upper_diag_index].\nInput shape: {input}\nDiagonal \
             shape: {diagonal}\nExpected diagonal shape: {expected}"
        );
        let mut out = ctx.take_or_copy_input(0)?;
        if out.count() > 0 {
            let band = Band::new(k, align, rows, columns, longest);
            spread(ctx, 1, &band, out.elems_mut()?)?;
        }
        ctx.set_output(0, out);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use tfcore_framework::AttrValue;
    use tfcore_tensor::Tensor;

    fn aligned(align: &str) -> [(&'static str, AttrValue); 2] {
        [int32(), ("align", AttrValue::string(align))]
    }

    /// The band from -1 to 1 of the matrix 0 to 11 of 3 rows.
    const LEFT: [i32; 9] = [1, 6, 11, 0, 5, 10, 4, 9, -1];

    #[test]
    fn bands_are_read() {
        let inputs = [counting(&[3, 4]), ints(&[-1, 1]), Tensor::scalar(-1)];
        let found = values::<i32>("MatrixDiagPartV2", &[int32()], &inputs).unwrap();
        assert_eq!(found, (vec![3, 3], LEFT.to_vec()));
        let found = values::<i32>("MatrixDiagPartV3", &aligned("RIGHT_RIGHT"), &inputs).unwrap();
        assert_eq!(found.1, [1, 6, 11, 0, 5, 10, -1, 4, 9]);
        let corner = [counting(&[2, 1, 2]), Tensor::scalar(1), Tensor::scalar(0)];
        let found = values::<i32>("MatrixDiagPartV2", &[int32()], &corner).unwrap();
        assert_eq!(found, (vec![2, 1], vec![1, 3]));
        let cases = [
            (ints(&[4]), "lower_diag_index is out of bound: 4. It must be between -3 and 4"),
            (ints(&[1, 0]), "lower_diag_index must not be larger than upper_diag_index: 1 > 0"),
            (
                ints(&[0, 1, 2]),
                "diag_index must have only one or two elements, received 3 elements.",
            ),
        ];
        for (k, message) in cases {
            let inputs = [counting(&[3, 4]), k, Tensor::scalar(-1)];
            assert_eq!(failure("MatrixDiagPartV2", &[int32()], &inputs), message);
        }
    }

    #[test]
    fn bands_become_matrices() {
        let scalars = |rows: i32, columns: i32| {
            [Tensor::scalar(rows), Tensor::scalar(columns), Tensor::scalar(7)]
        };
        let run = |diagonal: Tensor, k: Tensor, rows: i32, columns: i32| {
            let [rows, columns, padding] = scalars(rows, columns);
            [diagonal, k, rows, columns, padding]
        };
        let band = tensor(&[3, 3], &LEFT);
        let found =
            values::<i32>("MatrixDiagV2", &[int32()], &run(band, ints(&[-1, 1]), 3, 4)).unwrap();
        assert_eq!(found, (vec![3, 4], vec![0, 1, 7, 7, 4, 5, 6, 7, 7, 9, 10, 11]));
        let above = run(ints(&[1, 2]), Tensor::scalar(1), -1, -1);
        let found = values::<i32>("MatrixDiagV2", &[int32()], &above).unwrap();
        assert_eq!(found, (vec![3, 3], vec![7, 1, 7, 7, 7, 2, 7, 7, 7]));
        let below = run(ints(&[1]), Tensor::scalar(-1), -1, 3);
        let found = values::<i32>("MatrixDiagV3", &aligned("RIGHT_LEFT"), &below).unwrap();
        assert_eq!(found, (vec![2, 3], vec![7, 7, 7, 1, 7, 7]));
        // The lowest diagonal of the band has no element in matrices of one row.
        let flat = run(tensor(&[3, 1], &[1, 2, 3]), ints(&[-1, 1]), 1, 2);
        let found = values::<i32>("MatrixDiagV2", &[int32()], &flat).unwrap();
        assert_eq!(found, (vec![1, 2], vec![2, 1]));
        let cases = [
            (run(ints(&[1, 2]), ints(&[0]), 1, -1), "The number of rows is too small."),
            (run(ints(&[1, 2]), ints(&[0]), -1, 1), "The number of columns is too small."),
            (
                run(ints(&[1, 2]), ints(&[0]), 3, 3),
                "The number of rows or columns is not consistent with the specified d_lower, d_upper, and diagonal.",
            ),
        ];
        for (inputs, message) in cases {
            assert_eq!(failure("MatrixDiagV2", &[int32()], &inputs), message);
        }
    }

    #[test]
    fn bands_are_replaced() {
        let main = [counting(&[2, 3]), ints(&[-1, -2])];
        let found = values::<i32>("MatrixSetDiag", &[int32()], &main).unwrap();
        assert_eq!(found.1, [-1, 1, 2, 3, -2, 5]);
        let band = [counting(&[2, 2]), tensor(&[2, 2], &[-1, -2, -3, 9]), ints(&[-1, 0])];
        let found = values::<i32>("MatrixSetDiagV2", &[int32()], &band).unwrap();
        assert_eq!(found.1, [-1, 1, -3, -2]);
        let found = values::<i32>("MatrixSetDiagV3", &aligned("LEFT_RIGHT"), &band).unwrap();
        assert_eq!(found.1, [-1, 1, 9, -2]);
        let unlike = [counting(&[2, 2]), ints(&[1])];
        assert!(
            failure("MatrixSetDiag", &[int32()], &unlike).contains("Expected diagonal shape: [2]")
        );
    }

    #[test]
    fn shapes_of_bands() {
        let k = |at: usize, k: &[i32]| vec![(at, ints(k))];
        let cases = [
            ("MatrixDiagPartV2", "[5,3,4];[2];[]", k(1, &[-1, 1]), "[5,3,3]"),
            ("MatrixDiagPartV2", "[5,?,4];[1];[]", k(1, &[1]), "[5,?]"),
            ("MatrixDiagPartV2", "[5,3,4];[1];[]", vec![], "?"),
            ("MatrixDiagV2", "[2,3];[1];[];[];[]", k(1, &[1]), "[2,4,4]"),
            (
                "MatrixDiagV2",
                "[2,3];[2];[];[];[]",
                k(1, &[1, 0]),
                "lower_diag_index is greater than upper_diag_index",
            ),
            ("MatrixSetDiag", "[?,3,4];[2,3]", vec![], "[2,3,4]"),
            ("MatrixSetDiagV2", "[?,3,4];[2,3];[1]", k(2, &[0]), "[2,3,4]"),
            ("MatrixSetDiagV2", "[2,3,4];[2,2,3];[2]", k(2, &[0, 1]), "[2,3,4]"),
            ("MatrixSetDiagV2", "?;[2,?,?];[2]", k(2, &[0, 1]), "[2,?,?]"),
            (
                "MatrixSetDiagV2",
                "[?,3,4];[2,2,3];[2]",
                k(2, &[0, 1]),
                "Shapes must be equal rank, but are 3 and 4",
            ),
        ];
        for (op, inputs, constants, expected) in cases {
            assert_eq!(shapes(op, &[int32()], inputs, &constants), expected, "{op} {inputs}");
        }
    }
}
