//! Ragged tensors: ranges, gathers, and as sparse and dense tensors.

use tfcore_base::{DType, Elem, LoopFor, Result, TypedLoop, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

use crate::coo::{Compute, matrix, run, vector};

pub(crate) fn register(r: &mut Registry) {
    // `RaggedRange(starts: T, limits: T, deltas: T) -> rt_nested_splits: Tsplits, rt_dense_values: T`, a row for each start.
    r.op("RaggedRange").shape(range_shape).typed::<Range, (f32, f64, i32, i64)>("T", run);
    // `RaggedTensorToSparse(rt_nested_splits: RAGGED_RANK*Tsplits, rt_dense_values: T) -> sparse_indices, sparse_values, sparse_dense_shape`.
    r.op("RaggedTensorToSparse").shape(to_sparse_shape).compute(to_sparse);
    // `RaggedGather(params_nested_splits: PARAMS_RAGGED_RANK*Tsplits, params_dense_values: Tvalues, indices: Tindices) ->
    // output_nested_splits, output_dense_values`, the rows of the indices.
    r.op("RaggedGather").shape(gather_shape).compute(gather);
    // `RaggedTensorToTensor(shape: Tshape, values: T, default_value: T, row_partition_tensors: N*Tindex) -> result: T`.
    r.op("RaggedTensorToTensor").shape(to_tensor_shape).cpu(to_tensor_kernel);
}

/// Integers as splits of type `dtype`.
pub(crate) fn splits_tensor(dtype: DType, splits: &[i64]) -> Result<Tensor> {
    if dtype == DType::INT64 {
        return vector(splits);
    }
    let narrow: std::result::Result<Vec<i32>, _> =
        splits.iter().map(|&at| i32::try_from(at)).collect();
    let narrow = narrow.map_err(|_| invalid!("Splits do not fit type {dtype}"))?;
    Tensor::from_slice(Shape::vector(narrow.len()), &narrow)
}

fn range_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let mut rows = Dim::fresh();
    let mut may_be_vectors = false;
    for input in ctx.inputs() {
        let shape = shape_ops::with_rank_at_most(input, 1)?;
        match shape.rank() {
            Some(1) => {
                rows = shape_ops::merge_dims(rows, shape.dim(0))?;
                may_be_vectors = true;
            }
            Some(_) => {}
            None => may_be_vectors = true,
        }
    }
    if !may_be_vectors {
        rows = Dim::new(1);
    }
    ctx.set_output(0, PartialShape::vector(shape_ops::add(rows, 1)?));
    ctx.set_output(1, PartialShape::vector(Dim::fresh()));
    Ok(())
}

struct Range;

impl TypedLoop for Range {
    type Loop = Compute;
}

/// A number that ranges are made of.
trait Step: Elem + Copy + PartialOrd {
    const ZERO: Self;

    /// The number of values from `self` on, below a limit; `None` if they are too many.
    fn count(self, limit: Self, delta: Self) -> Option<i64>;

    fn next(self, delta: Self) -> Self;
}

macro_rules! integer_steps {
    ($($type:ty)*) => {$(
        impl Step for $type {
            const ZERO: $type = 0;

            fn count(self, limit: $type, delta: $type) -> Option<i64> {
                let (start, limit, delta) = (i128::from(self), i128::from(limit), i128::from(delta));
                let span = if delta > 0 { limit - start } else { start - limit };
                let delta = delta.abs();
                i64::try_from(if span <= 0 { 0 } else { (span + delta - 1) / delta }).ok()
            }

            fn next(self, delta: $type) -> $type {
                self.wrapping_add(delta)
            }
        }
    )*};
}
integer_steps!(i32 i64);

macro_rules! float_steps {
    ($($type:ty)*) => {$(
        impl Step for $type {
            const ZERO: $type = 0.0;

            fn count(self, limit: $type, delta: $type) -> Option<i64> {
                if (delta > 0.0 && limit < self) || (delta < 0.0 && limit > self) {
                    return Some(0);
                }
                let count = f64::from(((limit - self) / delta).abs().ceil());
                (count < 2f64.powi(62)).then_some(count as i64)
            }

            fn next(self, delta: $type) -> $type {
                self + delta
            }
        }
    )*};
}
float_steps!(f32 f64);

impl<T: Step> LoopFor<T> for Range {
    const LOOP: Compute = range::<T>;
}

fn range<T: Step>(ctx: &mut OpContext<'_>) -> Result<()> {
    let mut rows = None;
    for (input, name) in ["starts", "limits", "deltas"].into_iter().enumerate() {
        let tensor = ctx.input(input)?;
        require!(tensor.rank() <= 1, "{name} must be a scalar or vector");
        if tensor.rank() == 1 {
            require!(
                *rows.get_or_insert(tensor.dim(0)) == tensor.dim(0),
                "starts, limits, and deltas must have the same shape"
            );
        }
    }
    let rows = rows.unwrap_or(1);
    let [starts, limits, deltas] = [ctx.input(0)?, ctx.input(1)?, ctx.input(2)?];
    let of = |tensor: &Tensor, row: usize| -> Result<T> {
        Ok(tensor.as_slice::<T>()?[if tensor.rank() == 0 { 0 } else { row }])
    };
    let mut splits = vec![0i64];
    let mut total = 0i64;
    for row in 0..rows {
        let delta = of(deltas, row)?;
        require!(delta != T::ZERO, "Requires delta != 0");
        let count = of(starts, row)?.count(of(limits, row)?, delta);
        total = count
            .and_then(|count| total.checked_add(count))
            .filter(|&total| total <= 1 << 40)
            .ok_or_else(|| invalid!("The total range size overflowed. Consider using int64 instead of int32 for row_splits_dtype."))?;
        splits.push(total);
    }
    let splits_tensor = splits_tensor(ctx.output_dtype(0), &splits)?;
    let mut values = ctx.allocate(T::DTYPE, Shape::vector(total as usize))?;
    let mut out = values.as_mut_slice::<T>()?.iter_mut();
    for (row, pair) in splits.windows(2).enumerate() {
        let (mut value, delta) = (of(starts, row)?, of(deltas, row)?);
        for out in out.by_ref().take((pair[1] - pair[0]) as usize) {
            *out = value;
            value = value.next(delta);
        }
    }
    ctx.set_output(0, splits_tensor);
    ctx.set_output(1, values);
    Ok(())
}

fn to_sparse_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let ragged = ctx.num_inputs() - 1;
    for input in 0..ragged {
        shape_ops::with_rank(ctx.input(input), 1)?;
    }
    let values = shape_ops::with_rank_at_least(ctx.input(ragged), 1)?;
    let rank = values.rank().map_or_else(Dim::fresh, |rank| Dim::new((rank + ragged) as i64));
    let count = shape_ops::num_elements(&values);
    ctx.set_output(0, PartialShape::matrix(count, rank));
    ctx.set_output(1, PartialShape::vector(count));
    ctx.set_output(2, PartialShape::vector(rank));
    Ok(())
}

/// The row splits at inputs `0 .. count`, each of which splits the rows of the next and the last one `rows` rows.
fn nested_splits(ctx: &OpContext<'_>, count: usize, rows: usize) -> Result<Vec<Vec<i64>>> {
    let nested = (0..count).map(|input| ctx.input(input)?.to_i64s()).collect::<Result<Vec<_>>>()?;
    for (level, splits) in nested.iter().enumerate() {
        require!(splits.first() == Some(&0), "First value of ragged splits must be 0.");
        require!(
            splits.windows(2).all(|pair| pair[0] <= pair[1]),
            "Ragged splits should be non decreasing, but we got them out of order"
        );
        let end = nested.get(level + 1).map_or(rows, |next| next.len() - 1);
        require!(
            splits.last() == Some(&(end as i64)),
            "Final value of ragged splits must match the length the corresponding ragged values."
        );
    }
    Ok(nested)
}

fn to_sparse(ctx: &mut OpContext<'_>) -> Result<()> {
    let ragged = ctx.num_inputs() - 1;
    let values = ctx.input(ragged)?;
    require!(values.rank() >= 1, "Ragged values must be at least a vector, got {}", values.shape());
    for input in 0..ragged {
        let splits = ctx.input(input)?;
        require!(
            splits.rank() == 1 && splits.count() > 0,
            "Invalid ragged splits: first element of splits must be 0, got shape {}",
            splits.shape()
        );
    }
    let nested = nested_splits(ctx, ragged, values.dim(0))?;
    // The index of each row of the values.
    let mut rows: Vec<Vec<i64>> = (0..nested[0].len() as i64 - 1).map(|row| vec![row]).collect();
    let mut shape = vec![rows.len() as i64];
    for splits in &nested {
        let mut next = Vec::new();
        let mut longest = 0;
        for (row, pair) in rows.iter().zip(splits.windows(2)) {
            longest = longest.max(pair[1] - pair[0]);
            next.extend((0..pair[1] - pair[0]).map(|column| [&row[..], &[column]].concat()));
        }
        shape.push(longest);
        rows = next;
    }
    let inner = &values.shape().dims()[1..];
    shape.extend(inner);
    let row_len = values.count().checked_div(values.dim(0)).unwrap_or(0);
    let inner_shape = Shape::new(inner)?;
    let strides = inner_shape.strides();
    let mut indices = Vec::with_capacity(values.count() * shape.len());
    for row in &rows {
        for at in 0..row_len {
            indices.extend_from_slice(row);
            indices.extend(
                strides.iter().zip(inner).map(|(&stride, &size)| (at / stride) as i64 % size),
            );
        }
    }
    ctx.set_output(0, matrix(ctx, &indices, shape.len())?);
    let flat = values.clone().with_shape(Shape::vector(values.count()))?;
    ctx.set_output(1, flat);
    ctx.set_output(2, vector(&shape)?);
    Ok(())
}

fn gather_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let ragged = usize::try_from(ctx.attrs.int("PARAMS_RAGGED_RANK")?).unwrap_or(0);
    let out_ragged = usize::try_from(ctx.attrs.int("OUTPUT_RAGGED_RANK")?).unwrap_or(0);
    let (values, indices) = (ctx.input(ragged), ctx.input(ragged + 1));
    if let Some(rank) = indices.rank() {
        require!(
            rank + ragged == out_ragged + 1,
            "Inner dimension of indices: OUTPUT_RAGGED_RANK must be PARAMS_RAGGED_RANK + rank(indices) - 1"
        );
    }
    for input in 0..ragged {
        shape_ops::with_rank(ctx.input(input), 1)?;
    }
    let values = shape_ops::with_rank_at_least(values, 1)?;
    for output in 0..out_ragged {
        ctx.set_output(output, PartialShape::vector(Dim::fresh()));
    }
    let inner = match values.dims() {
        Some([_, inner @ ..]) => {
            std::iter::once(Dim::fresh()).chain(inner.iter().copied()).collect()
        }
        _ => PartialShape::unknown(),
    };
    ctx.set_output(out_ragged, inner);
    Ok(())
}

fn gather(ctx: &mut OpContext<'_>) -> Result<()> {
    let ragged = ctx.num_inputs() - 2;
    let (values, indices) = (ctx.input(ragged)?, ctx.input(ragged + 1)?);
    require!(values.rank() >= 1, "params.rank must be nonzero");
    for input in 0..ragged {
        require!(ctx.input(input)?.count() > 0, "Splits must have at least one element");
    }
    let nested =
        (0..ragged).map(|input| ctx.input(input)?.to_i64s()).collect::<Result<Vec<_>>>()?;
    let dtype = ctx.input(0)?.dtype();
    let rows = nested[0].len() as i64 - 1;
    let picked = indices.to_i64s()?;
    for (at, &index) in picked.iter().enumerate() {
        require!(
            (0..rows).contains(&index),
            "indices{} = {index} is not in [0, {rows})",
            indices.shape().coordinates(at)
        );
    }
    let outputs = ctx.num_outputs() - 1;
    require!(
        outputs + 1 == ragged + indices.rank(),
        "The ragged rank of the output is not that of params and indices together"
    );
    let mut output = 0;
    // The inner dimensions of the indices have rows of one length.
    let dims = indices.shape().to_usizes();
    for axis in 1..dims.len() {
        let rows: usize = dims[..axis].iter().product();
        let splits: Vec<i64> = (0..=rows).map(|row| (row * dims[axis]) as i64).collect();
        ctx.set_output(output, splits_tensor(dtype, &splits)?);
        output += 1;
    }
    let mut ranges: Vec<(i64, i64)> = picked.iter().map(|&row| (row, row + 1)).collect();
    for (level, splits) in nested.iter().enumerate() {
        let end = nested.get(level + 1).map_or(values.dim(0), |next| next.len() - 1) as i64;
        let mut out = vec![0i64];
        let mut total = 0i64;
        let mut next = Vec::with_capacity(ranges.len());
        for &(start, limit) in &ranges {
            let rows = &splits[start as usize..=limit as usize];
            require!(
                rows.windows(2).all(|pair| pair[0] <= pair[1])
                    && rows[0] >= 0
                    && rows[rows.len() - 1] <= end,
                "Ragged splits must be sorted and end with the number of values"
            );
            for pair in rows.windows(2) {
                total = total
                    .checked_add(pair[1] - pair[0])
                    .ok_or_else(|| invalid!("Too many values"))?;
                out.push(total);
            }
            next.push((rows[0], rows[rows.len() - 1]));
        }
        ctx.set_output(output, splits_tensor(dtype, &out)?);
        output += 1;
        ranges = next;
    }
    let total: i64 = ranges.iter().map(|range| range.1 - range.0).sum();
    let mut shape = values.shape().dims().to_vec();
    shape[0] = total;
    let row_len = values.count().checked_div(values.dim(0)).unwrap_or(0);
    let mut out = ctx.allocate(values.dtype(), Shape::new(&shape)?)?;
    if out.count() > 0 {
        let mut rest = out.elems_mut()?;
        for &(start, limit) in &ranges {
            let (start, limit) = (start as usize * row_len, limit as usize * row_len);
            let (head, tail) = rest.split_at(limit - start);
            if limit > start {
                head.copy_from(values.elems().slice(start..limit));
            }
            rest = tail;
        }
    }
    ctx.set_output(output, out);
    Ok(())
}

fn to_tensor_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let kinds = kinds(ctx.attrs.string_list("row_partition_types")?)?;
    let ragged = levels(&kinds);
    let shape = ctx.operand_shape_or_unknown(0)?;
    let values = ctx.input(1).clone();
    let inner = values.dims().and_then(|dims| dims.get(1..)).map(<[Dim]>::to_vec);
    let Some(inner) = inner else {
        ctx.set_output(0, shape);
        return Ok(());
    };
    let known: PartialShape = (0..=ragged).map(|_| Dim::fresh()).chain(inner).collect();
    let merged = match shape.rank() {
        None => known,
        Some(_) => shape_ops::merge(&shape, &known)?,
    };
    ctx.set_output(0, merged);
    Ok(())
}

/// How rows are told.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    FirstSize,
    RowIds,
    Splits,
}

fn kinds(names: &[std::sync::Arc<[u8]>]) -> Result<Vec<Kind>> {
    let kinds = names.iter().map(|name| match &**name {
        b"FIRST_DIM_SIZE" => Ok(Kind::FirstSize),
        b"VALUE_ROWIDS" => Ok(Kind::RowIds),
        b"ROW_SPLITS" => Ok(Kind::Splits),
        other => Err(invalid!(
            "Unknown string for partition info type: {}",
            String::from_utf8_lossy(other)
        )),
    });
    let kinds = kinds.collect::<Result<Vec<Kind>>>()?;
    require!(!kinds.is_empty(), "Number of row partition tensors must be positive");
    Ok(kinds)
}

/// The number of ragged dimensions.
fn levels(kinds: &[Kind]) -> usize {
    kinds.iter().filter(|&&kind| kind != Kind::FirstSize).count()
}

fn to_tensor_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let kinds = kinds(init.attrs.string_list("row_partition_types")?)?;
    kernel(move |ctx| to_tensor(ctx, &kinds))
}

/// The length of each row of each ragged dimension.
fn row_lengths(ctx: &OpContext<'_>, kinds: &[Kind]) -> Result<Vec<Vec<usize>>> {
    let mut lengths: Vec<Vec<usize>> = Vec::new();
    let mut first = None;
    for (index, kind) in kinds.iter().enumerate() {
        let tensor = ctx.input(3 + index)?;
        let numbers = tensor.to_i64s()?;
        // The rows that the dimension before has.
        let rows = match lengths.last() {
            Some(before) => Some(before.iter().sum::<usize>()),
            None => first,
        };
        match kind {
            Kind::FirstSize => {
                require!(
                    tensor.rank() == 0 && index == 0,
                    "FIRST_DIM_SIZE must be a scalar and come first."
                );
                first = Some(
                    usize::try_from(numbers[0])
                        .map_err(|_| invalid!("FIRST_DIM_SIZE is negative"))?,
                );
            }
            Kind::Splits => {
                require!(
                    tensor.rank() == 1,
                    "Expected a vector of row splits, got {}",
                    tensor.shape()
                );
                let bad = || invalid!("Invalid row split: splits must begin with 0 and be sorted");
                require!(
                    numbers.first() == Some(&0),
                    "Invalid row split: splits must begin with 0 and be sorted"
                );
                let lens = numbers.windows(2).map(|pair| {
                    pair[1]
                        .checked_sub(pair[0])
                        .and_then(|len| usize::try_from(len).ok())
                        .ok_or_else(bad)
                });
                let lens = lens.collect::<Result<Vec<usize>>>()?;
                require!(
                    rows.is_none_or(|rows| rows == lens.len()),
                    "Invalid row split size: expected {} rows but got {}",
                    rows.unwrap_or(0),
                    lens.len()
                );
                lengths.push(lens);
            }
            Kind::RowIds => {
                require!(
                    tensor.rank() == 1,
                    "Expected a vector of row ids, got {}",
                    tensor.shape()
                );
                let Some(rows) = rows else {
                    return Err(invalid!("Cannot handle VALUE_ROWIDS in first dimension."));
                };
                let mut lens = tfcore_base::try_filled(0usize, rows)?;
                let mut before = 0;
                for &row in &numbers {
                    let at = usize::try_from(row).ok().filter(|&at| at < rows && row >= before);
                    let at = at.ok_or_else(|| {
                        invalid!("Row id {row} is not sorted or not below {rows}")
                    })?;
                    lens[at] += 1;
                    before = row;
                }
                lengths.push(lens);
            }
        }
    }
    require!(!lengths.is_empty(), "There must be a ragged dimension");
    Ok(lengths)
}

fn to_tensor(ctx: &mut OpContext<'_>, kinds: &[Kind]) -> Result<()> {
    let (shape, values, default) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let lengths = row_lengths(ctx, kinds)?;
    require!(values.rank() >= 1, "Values must be at least a vector, got {}", values.shape());
    let total: usize = lengths.last().map_or(0, |last| last.iter().sum());
    require!(
        total <= values.dim(0),
        "The row partitions need {total} values but there are {}",
        values.dim(0)
    );
    // The dense shape, by what is given and by what there is.
    let inner = &values.shape().dims()[1..];
    let mut dims: Vec<i64> = vec![lengths[0].len() as i64];
    dims.extend(lengths.iter().map(|lens| lens.iter().copied().max().unwrap_or(0) as i64));
    dims.extend(inner);
    let given = shape.to_i64s()?;
    match shape.rank() {
        0 => require!(
            given[0] == -1,
            "The only valid scalar shape tensor is the fully unknown shape specified as -1."
        ),
        _ => {
            require!(
                given.len() == dims.len(),
                "shape.rank {} and the rank of the ragged tensor {} do not match",
                given.len(),
                dims.len()
            );
            for (axis, (dim, &given)) in dims.iter_mut().zip(&given).enumerate() {
                require!(given >= -1, "Dimension {axis} of shape must be >= -1, got {given}");
                if given >= 0 {
                    require!(
                        axis <= lengths.len() || *dim == given,
                        "Inner dimension {axis} of values is {dim} and not {given}"
                    );
                    *dim = given;
                }
            }
        }
    }
    let out_shape = Shape::new(&dims)?;
    let inner_shape = Shape::new(inner)?;
    let row_len = inner_shape.count();
    let mut out = ctx.allocate_output(0, out_shape)?;
    if out.count() == 0 {
        ctx.set_output(0, out);
        return Ok(());
    }
    fill_default(&mut out, default, &inner_shape)?;
    // Where each row goes; rows that are cut off go nowhere.
    let mut places: Vec<Option<usize>> =
        (0..lengths[0].len()).map(|row| (row < dims[0] as usize).then_some(row)).collect();
    for (level, lens) in lengths.iter().enumerate() {
        let size = dims[level + 1] as usize;
        let mut next = Vec::new();
        for (place, &len) in places.iter().zip(lens) {
            next.extend(
                (0..len).map(|at| place.filter(|_| at < size).map(|place| place * size + at)),
            );
        }
        places = next;
    }
    for (row, place) in places.iter().enumerate() {
        if let Some(place) = place {
            let source = values.elems().slice(row * row_len..(row + 1) * row_len);
            out.elems_mut()?.slice(place * row_len..(place + 1) * row_len).copy_from(source);
        }
    }
    ctx.set_output(0, out);
    Ok(())
}

/// Fills a tensor with a default that is broadcast to the shape of its rows.
fn fill_default(out: &mut Tensor, default: &Tensor, inner: &Shape) -> Result<()> {
    if default.count() == 1 {
        out.elems_mut()?.fill(default.elems());
        return Ok(());
    }
    let skipped = inner.rank().checked_sub(default.rank());
    let fits = skipped.is_some_and(|skipped| {
        default.shape().dims().iter().zip(&inner.dims()[skipped..]).all(|(a, b)| a == b || *a == 1)
    });
    require!(fits, "default_value shape {} does not broadcast to {inner}", default.shape());
    let strides = inner.strides();
    let default_strides = default.shape().strides();
    let skipped = inner.rank() - default.rank();
    let row_len = inner.count();
    let offsets: Vec<usize> = (0..row_len)
        .map(|at| {
            (0..default.rank())
                .map(|axis| {
                    let index = at / strides[skipped + axis] % inner.dim(skipped + axis);
                    if default.dim(axis) == 1 { 0 } else { index * default_strides[axis] }
                })
                .sum()
        })
        .collect();
    for start in (0..out.count()).step_by(row_len) {
        for (at, &offset) in offsets.iter().enumerate() {
            let value = default.elems().slice(offset..offset + 1);
            out.elems_mut()?.slice(start + at..start + at + 1).copy_from(value);
        }
    }
    Ok(())
}
