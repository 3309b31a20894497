//! How often values occur: counts as sparse tensors, and `SparseBincount`.

use std::collections::BTreeMap;

use tfcore_base::{LoopFor, Number, Numbers, Result, Ring, TypedLoop, invalid, require};
use tfcore_framework::{InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

use crate::coo::{matrix, vector};

type CountTypes = (f32, f64, i8, i16, i32, i64, u8, u16, u32, u64);

pub(crate) fn register(r: &mut Registry) {
    // `DenseCountSparseOutput(values: T, weights: output_type) -> output_indices, output_values: output_type, output_dense_shape`, of each
    // row of the values.
    r.op("DenseCountSparseOutput")
        .shape(|ctx| {
            // Weights that may be there have the shape of the values.
            let weights = Some(ctx.input(1)).filter(|weights| weights.count() != Some(0));
            let rank = ctx.input(0).rank().or_else(|| weights.and_then(|weights| weights.rank()));
            let rank = rank.map_or_else(Dim::fresh, |rank| Dim::new(rank as i64));
            set_counts(ctx, rank);
            Ok(())
        })
        .typed_kernel::<Counting, CountTypes>("output_type", |init, found| {
            counts(init, found, dense_rows)
        });
    // `SparseCountSparseOutput(indices: int64, values: T, dense_shape: int64, weights: output_type) -> ...`.
    r.op("SparseCountSparseOutput")
        .shape(|ctx| {
            let rank = match ctx.input(0).dims() {
                Some([_, rank]) => *rank,
                _ => Dim::fresh(),
            };
            set_counts(ctx, rank);
            Ok(())
        })
        .typed_kernel::<Counting, CountTypes>("output_type", |init, found| {
            counts(init, found, sparse_rows)
        });
    // `RaggedCountSparseOutput(splits: int64, values: T, weights: output_type) -> ...`.
    r.op("RaggedCountSparseOutput")
        .shape(|ctx| {
            set_counts(ctx, Dim::new(2));
            Ok(())
        })
        .typed_kernel::<Counting, CountTypes>("output_type", |init, found| {
            counts(init, found, ragged_rows)
        });
    // `SparseBincount(indices: int64, values: Tidx, dense_shape: int64, size: Tidx, weights: T) -> output: T`.
    r.op("SparseBincount").shape(bincount_shape).typed_kernel::<Bincount, Numbers>(
        "T",
        |init, found| {
            let binary = init.attrs.bool("binary_output")?;
            kernel(move |ctx| found(ctx, binary))
        },
    );
}

fn set_counts(ctx: &mut InferenceContext<'_>, rank: Dim) {
    ctx.set_output(0, PartialShape::matrix(Dim::fresh(), rank));
    ctx.set_output(1, PartialShape::vector(Dim::fresh()));
    ctx.set_output(2, PartialShape::vector(rank));
}

/// The rows in which values are counted.
struct Rows {
    /// The row of each value.
    of_value: Vec<usize>,
    count: usize,
    /// True if there is but one row and the result has no dimension for it.
    is_vector: bool,
    /// Which input the values and which one the weights are.
    inputs: [usize; 2],
}

fn dense_rows(ctx: &OpContext<'_>) -> Result<Rows> {
    let values = ctx.input(0)?;
    require!(
        (1..=2).contains(&values.rank()),
        "Input must be a 1 or 2-dimensional tensor. Got: {}",
        values.rank()
    );
    let is_vector = values.rank() == 1;
    let count = if is_vector { 1 } else { values.dim(0) };
    let len = values.count().checked_div(count).unwrap_or(0);
    let of_value = (0..values.count()).map(|at| at.checked_div(len).unwrap_or(0)).collect();
    Ok(Rows { of_value, count, is_vector, inputs: [0, 1] })
}

fn sparse_rows(ctx: &OpContext<'_>) -> Result<Rows> {
    let (indices, values, shape) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    require!(
        indices.rank() == 2,
        "Input indices must be a 2-dimensional tensor. Got: {}",
        indices.shape()
    );
    require!(values.rank() == 1, "Input values must be a vector. Got: {}", values.shape());
    require!(shape.rank() == 1, "Input shape must be a vector. Got: {}", shape.shape());
    require!(
        values.dim(0) == indices.dim(0),
        "Number of values must match first dimension of indices.Got {} values, indices shape: {}",
        values.dim(0),
        indices.shape()
    );
    require!(
        shape.dim(0) == indices.dim(1),
        "Number of dimensions must match second dimension of indices.Got {} dimensions, indices shape: {}",
        shape.dim(0),
        indices.shape()
    );
    let shape = shape.as_slice::<i64>()?;
    require!(
        (1..=2).contains(&shape.len()),
        "The shape argument requires one or two elements, got {}",
        shape.len()
    );
    let is_vector = shape.len() == 1;
    let count = if is_vector { 1 } else { usize::try_from(shape[0]).unwrap_or(0) };
    let rows = indices.as_slice::<i64>()?.chunks_exact(shape.len()).map(|index| {
        if is_vector {
            return Ok(0);
        }
        let row = usize::try_from(index[0]).ok().filter(|&row| row < count);
        row.ok_or_else(|| {
            invalid!("Indices value along the first dimension must be lower than the first index of the shape.Got {} as \
                      the index and {count} as the shape", index[0])
        })
    });
    Ok(Rows { of_value: rows.collect::<Result<_>>()?, count, is_vector, inputs: [1, 3] })
}

fn ragged_rows(ctx: &OpContext<'_>) -> Result<Rows> {
    let (splits, values) = (ctx.input_slice::<i64>(0)?, ctx.input(1)?);
    require!(values.rank() == 1, "Input values must be a vector. Got: {}", values.shape());
    let Some((&first, &last)) = splits.first().zip(splits.last()) else {
        return Err(invalid!("Must provide at least 2 elements for the splits argument"));
    };
    require!(splits.len() > 1, "Must provide at least 2 elements for the splits argument");
    require!(first == 0, "Splits must start with 0, not with {first}");
    require!(
        last == values.count() as i64,
        "Splits must end with the number of values, got {last} instead of {}",
        values.count()
    );
    let mut of_value = Vec::with_capacity(values.count());
    for (row, pair) in splits.windows(2).enumerate() {
        require!(pair[0] <= pair[1] && pair[1] <= last, "Splits must be sorted");
        of_value.extend((pair[0]..pair[1]).map(|_| row));
    }
    Ok(Rows { of_value, count: splits.len() - 1, is_vector: false, inputs: [1, 2] })
}

/// The values that count, in their wide type.
struct Limits {
    minimum: i64,
    maximum: i64,
    binary: bool,
}

type CountLoop = fn(&OpContext<'_>, &Rows, &Limits) -> Result<()>;

struct Counting;

impl TypedLoop for Counting {
    type Loop = CountLoop;
}

impl<T: Number> LoopFor<T> for Counting
where
    T::Wide: Ring,
{
    const LOOP: CountLoop = count::<T>;
}

fn counts(
    init: &KernelInit<'_>,
    found: CountLoop,
    rows: fn(&OpContext<'_>) -> Result<Rows>,
) -> Result<Box<dyn Kernel>> {
    let limits = Limits {
        minimum: init.attrs.int("minlength")?,
        maximum: init.attrs.int("maxlength")?,
        binary: init.attrs.bool("binary_output")?,
    };
    kernel(move |ctx| found(ctx, &rows(ctx)?, &limits))
}

fn count<T: Number>(ctx: &OpContext<'_>, rows: &Rows, limits: &Limits) -> Result<()>
where
    T::Wide: Ring,
{
    let (values, weights) = (ctx.input(rows.inputs[0])?, ctx.input(rows.inputs[1])?);
    let weighted = weights.count() > 0;
    require!(
        !weighted || weights.shape() == values.shape(),
        "Weights and values must have the same shape. Weight shape: {}; values shape: {}",
        weights.shape(),
        values.shape()
    );
    let weights = weights.as_slice::<T>()?;
    let one = T::narrow(T::Wide::ONE);
    let mut counted: Vec<BTreeMap<i64, T>> = Vec::new();
    counted.resize_with(rows.count, BTreeMap::new);
    let mut largest = 0;
    for (at, value) in values.to_i64s()?.into_iter().enumerate() {
        require!(value >= 0, "Input values must all be non-negative");
        if limits.maximum > 0 && value >= limits.maximum {
            continue;
        }
        let sum =
            counted[rows.of_value[at]].entry(value).or_insert_with(|| T::narrow(T::Wide::ZERO));
        *sum = match limits.binary {
            true => one,
            false => {
                let weight = if weighted { weights[at] } else { one };
                T::narrow(sum.widen().plus(weight.widen()))
            }
        };
        largest = largest.max(value);
    }
    let size = match limits.maximum {
        maximum if maximum > 0 => maximum,
        _ => limits.minimum.max(largest.saturating_add(1)),
    };
    let (mut indices, mut sums) = (Vec::new(), Vec::new());
    for (row, counts) in counted.iter().enumerate() {
        for (&value, &sum) in counts {
            if !rows.is_vector {
                indices.push(row as i64);
            }
            indices.push(value);
            sums.push(sum);
        }
    }
    let rank = if rows.is_vector { 1 } else { 2 };
    ctx.set_output(0, matrix(ctx, &indices, rank)?);
    ctx.set_output(1, Tensor::from_slice(Shape::vector(sums.len()), &sums)?);
    let shape: &[i64] = if rows.is_vector { &[size] } else { &[rows.count as i64, size] };
    ctx.set_output(2, vector(shape)?);
    Ok(())
}

fn bincount_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let Some(size) = ctx.operand_i64(3)? else {
        ctx.set_output(0, PartialShape::unknown());
        return Ok(());
    };
    require!(size >= 0, "size ({size}) must be non-negative");
    let shape = match ctx.operand_i64s(2)?.as_deref() {
        Some([_]) => PartialShape::vector(size),
        Some([rows, _]) => PartialShape::matrix(*rows, size),
        Some(_) => return Err(invalid!("Dense shape must have one or two dimensions")),
        None => PartialShape::unknown(),
    };
    ctx.set_output(0, shape);
    Ok(())
}

type BincountLoop = fn(&OpContext<'_>, bool) -> Result<()>;

struct Bincount;

impl TypedLoop for Bincount {
    type Loop = BincountLoop;
}

impl<T: Number> LoopFor<T> for Bincount
where
    T::Wide: Ring,
{
    const LOOP: BincountLoop = bincount::<T>;
}

fn bincount<T: Number>(ctx: &OpContext<'_>, binary: bool) -> Result<()>
where
    T::Wide: Ring,
{
    let (indices, values, size, weights) =
        (ctx.input(0)?, ctx.input(1)?, ctx.input(3)?, ctx.input(4)?);
    require!(size.count() == 1, "Shape must be rank 0 but is rank {}", size.rank());
    let size = size.to_i64s()?[0];
    require!(size >= 0, "size ({size}) must be non-negative");
    require!(
        indices.rank() == 2 && indices.dim(0) == values.count(),
        "Number of indices {} and of values {} do not match",
        indices.shape(),
        values.shape()
    );
    let shape = ctx.input(2)?.to_i64s()?;
    let rows = match shape[..] {
        [_] => None,
        [rows, _] => Some(rows),
        _ => return Err(invalid!("Dense shape must have one or two dimensions")),
    };
    require!(
        indices.dim(1) == shape.len(),
        "Index rank ({}) and shape rank ({}) do not match",
        indices.dim(1),
        shape.len()
    );
    let weighted = weights.count() > 0;
    require!(
        !weighted || weights.count() == values.count(),
        "weights must have the same shape as values or be of length 0, got {}",
        weights.shape()
    );
    let weights = weights.as_slice::<T>()?;
    let out_shape = match rows {
        Some(rows) => Shape::new(&[rows, size])?,
        None => Shape::new(&[size])?,
    };
    let one = T::narrow(T::Wide::ONE);
    let mut out = ctx.allocate_zeros(T::DTYPE, out_shape)?;
    let sums = out.as_mut_slice::<T>()?;
    let indices = indices.as_slice::<i64>()?;
    for (at, value) in values.to_i64s()?.into_iter().enumerate() {
        require!(value >= 0, "Input must be non-negative");
        if value >= size {
            continue;
        }
        let row = rows.map_or(0, |_| indices[at * shape.len()]);
        require!(
            rows.is_none_or(|rows| (0..rows).contains(&row)),
            "Index out of bound. `batch` ({row}) must be less than the dimension size ({}).",
            rows.unwrap_or(1)
        );
        let sum = &mut sums[(row * size + value) as usize];
        *sum = match binary {
            true => one,
            false => {
                let weight = if weighted { weights[at] } else { one };
                T::narrow(sum.widen().plus(weight.widen()))
            }
        };
    }
    ctx.set_output(0, out);
    Ok(())
}
