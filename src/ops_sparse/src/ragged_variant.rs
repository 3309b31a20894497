//! Ragged tensors inside of variants.

use std::any::Any;

use tfcore_base::{Result, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor, Variant, VariantValue};

use crate::ragged::splits_tensor;

pub(crate) fn register(r: &mut Registry) {
    // `RaggedTensorToVariant(rt_nested_splits: RAGGED_RANK*Tsplits, rt_dense_values: Tvalues) -> encoded_ragged: variant`, one or, by attr
    // `batched_input`, one for each row.
    r.op("RaggedTensorToVariant").shape(to_variant_shape).cpu(to_variant_kernel);
    // `RaggedTensorFromVariant(encoded_ragged: variant) -> output_nested_splits: output_ragged_rank*Tsplits, output_dense_values: Tvalues`.
    r.op("RaggedTensorFromVariant").shape(from_variant_shape).cpu(from_variant_kernel);
    // `RaggedTensorToVariantGradient(encoded_ragged_grad: variant, row_splits: Tsplits, dense_values_shape: int32) -> dense_values_grad`.
    r.op("RaggedTensorToVariantGradient")
        .shape(|ctx| {
            let shape = ctx.operand_shape(2)?;
            ctx.set_output(0, shape);
            Ok(())
        })
        .compute(gradient);
}

/// A ragged tensor as the value of a variant.
struct Ragged {
    /// The row splits of each ragged dimension.
    splits: Vec<Vec<i64>>,
    values: Tensor,
}

impl VariantValue for Ragged {
    fn type_name(&self) -> &str {
        "RaggedTensorVariant"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn to_variant_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let ragged = ctx.num_inputs() - 1;
    for input in 0..ragged {
        shape_ops::with_rank(ctx.input(input), 1)?;
    }
    let values = shape_ops::with_rank_at_least(ctx.input(ragged), 1)?;
    if !ctx.attrs.bool("batched_input")? {
        ctx.set_output(0, PartialShape::scalar());
        return Ok(());
    }
    let rows = match ragged {
        0 => values.dims().map_or_else(Dim::fresh, |dims| dims[0]),
        _ => shape_ops::subtract(shape_ops::with_rank(ctx.input(0), 1)?.dim(0), 1)?,
    };
    ctx.set_output(0, PartialShape::vector(rows));
    Ok(())
}

fn to_variant_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let batched = init.attrs.bool("batched_input")?;
    kernel(move |ctx| {
        let ragged = ctx.num_inputs() - 1;
        let values = ctx.input(ragged)?;
        let splits =
            (0..ragged).map(|input| ctx.input(input)?.to_i64s()).collect::<Result<Vec<_>>>()?;
        if !batched {
            let value = Ragged { splits, values: values.clone() };
            ctx.set_output(0, Tensor::scalar(Variant::new(value)));
            return Ok(());
        }
        require!(values.rank() >= 1, "Values must be at least a vector, got {}", values.shape());
        for (level, splits_of) in splits.iter().enumerate() {
            let end =
                splits.get(level + 1).map_or(values.dim(0), |next| next.len().saturating_sub(1));
            require!(
                splits_of.first() == Some(&0)
                    && splits_of.windows(2).all(|pair| pair[0] <= pair[1])
                    && splits_of.last().is_some_and(|&last| last <= end as i64),
                "Ragged splits must begin with 0, be sorted and end with the number of values"
            );
        }
        let rows = splits.first().map_or(values.dim(0), |outer| outer.len() - 1);
        let mut components = Vec::with_capacity(rows);
        for row in 0..rows {
            components.push(Variant::new(component(&splits, values, row)?));
        }
        ctx.set_output(0, Tensor::from_slice(Shape::vector(rows), &components)?);
        Ok(())
    })
}

/// A row of a ragged tensor, whose splits are valid.
fn component(splits: &[Vec<i64>], values: &Tensor, row: usize) -> Result<Ragged> {
    let (mut start, mut end) = (row, row + 1);
    let mut inner = Vec::new();
    for (level, splits) in splits.iter().enumerate() {
        let rows = &splits[start..=end];
        if level > 0 {
            inner.push(rows.iter().map(|at| at - rows[0]).collect());
        }
        (start, end) = (rows[0] as usize, rows[rows.len() - 1] as usize);
    }
    let mut dims = values.shape().dims().to_vec();
    if splits.is_empty() {
        // A row of a tensor that is not ragged has no dimension for it.
        dims.remove(0);
    } else {
        dims[0] = (end - start) as i64;
    }
    let row_len = values.count().checked_div(values.dim(0)).unwrap_or(0);
    let mut part = Tensor::zeros(values.dtype(), Shape::new(&dims)?)?;
    if part.count() > 0 {
        part.elems_mut()?.copy_from(values.elems().slice(start * row_len..end * row_len));
    }
    Ok(Ragged { splits: inner, values: part })
}

fn from_variant_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let splits = ctx.num_outputs() - 1;
    let given = ctx.attrs.int("input_ragged_rank")?;
    if let Some(rank) = ctx.input(0).rank() {
        require!(
            given == -1 || given + rank as i64 == splits as i64,
            "Invalid output_ragged_rank: {splits}, must be the rank of encoded_ragged ({rank}) plus input_ragged_rank ({given})"
        );
        require!(
            rank <= splits,
            "The rank of encoded_ragged ({rank}) must be at most output_ragged_rank ({splits})"
        );
    }
    for output in 0..splits {
        ctx.set_output(output, PartialShape::of_rank(1));
    }
    ctx.set_output(splits, PartialShape::unknown());
    Ok(())
}

fn components(encoded: &Tensor) -> Result<Vec<&Ragged>> {
    let all = encoded.as_slice::<Variant>()?.iter().enumerate().map(|(at, variant)| {
        variant.get::<Ragged>().ok_or_else(|| {
            invalid!(
                "Input Variant element at index {at} doesn't hold a RaggedTensorVariant: {}",
                variant.type_name()
            )
        })
    });
    all.collect()
}

fn from_variant_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let given = init.attrs.int("input_ragged_rank")?;
    let values_dtype = init.attrs.dtype("Tvalues")?;
    let splits_dtype = init.attrs.dtype("Tsplits")?;
    kernel(move |ctx| {
        let encoded = ctx.input(0)?;
        let outputs = ctx.num_outputs() - 1;
        let inner = match usize::try_from(given) {
            Ok(inner) => Some(inner),
            Err(_) => outputs.checked_sub(encoded.rank()),
        };
        let inner = inner.filter(|inner| inner + encoded.rank() == outputs).ok_or_else(|| {
            invalid!(
                "output_ragged_rank must be equal to input_ragged_rank + encoded_ragged.dims(); output_ragged_rank: \
                 {outputs}, input_ragged_rank: {given}, encoded_ragged.dims(): {}",
                encoded.rank()
            )
        })?;
        let all = components(encoded)?;
        for ragged in &all {
            require!(
                ragged.splits.len() == inner,
                "Encoded input RaggedTensorVariant has ragged_rank={}.  Expected ragged_rank={inner}.",
                ragged.splits.len()
            );
            require!(
                ragged.values.dtype() == values_dtype,
                "Expected values Tensor dtype: {values_dtype}, found: {}",
                ragged.values.dtype()
            );
        }
        let mut splits: Vec<Vec<i64>> = Vec::new();
        let dims = encoded.shape().to_usizes();
        for axis in 1..dims.len() {
            let rows: usize = dims[..axis].iter().product();
            splits.push((0..=rows).map(|row| (row * dims[axis]) as i64).collect());
        }
        if !dims.is_empty() {
            for ragged in &all {
                require!(
                    ragged.values.rank() >= 1,
                    "Ragged values must have rank >= 1; encoded scalar element"
                );
            }
            // The rows of each component, and then what its own splits say.
            let rows = |ragged: &Ragged| match ragged.splits.first() {
                Some(outer) => outer.len().saturating_sub(1),
                None => ragged.values.dim(0),
            };
            let mut ends = vec![0i64];
            let mut end = 0;
            for ragged in &all {
                end += rows(ragged) as i64;
                ends.push(end);
            }
            splits.push(ends);
        }
        for level in 0..inner {
            let mut joined = vec![0i64];
            let mut end = 0;
            for ragged in &all {
                joined.extend(ragged.splits[level].iter().skip(1).map(|at| at + end));
                end += ragged.splits[level].last().copied().unwrap_or(0);
            }
            splits.push(joined);
        }
        let values = joined_values(ctx, &all, values_dtype)?;
        for (output, splits) in splits.iter().enumerate() {
            ctx.set_output(output, splits_tensor(splits_dtype, splits)?);
        }
        ctx.set_output(outputs, values);
        Ok(())
    })
}

/// The values of all components, one after the other.
fn joined_values(
    ctx: &OpContext<'_>,
    all: &[&Ragged],
    dtype: tfcore_base::DType,
) -> Result<Tensor> {
    let Some(first) = all.first() else {
        return Tensor::zeros(dtype, Shape::vector(0));
    };
    if all.len() == 1 {
        return Ok(first.values.clone());
    }
    let mut dims = first.values.shape().dims().to_vec();
    let mut rows = 0;
    for ragged in all {
        let shape = ragged.values.shape();
        require!(
            shape.rank() == dims.len() && !dims.is_empty() && shape.dims()[1..] == dims[1..],
            "All flat_values must have compatible shapes.  Shape at index 0: {}.  Shape of another: {shape}.",
            first.values.shape()
        );
        rows += shape.dims()[0];
    }
    dims[0] = rows;
    let mut joined = ctx.allocate(dtype, Shape::new(&dims)?)?;
    if joined.count() > 0 {
        let mut rest = joined.elems_mut()?;
        for ragged in all {
            let (head, tail) = rest.split_at(ragged.values.count());
            if ragged.values.count() > 0 {
                head.copy_from(ragged.values.elems());
            }
            rest = tail;
        }
    }
    Ok(joined)
}

fn gradient(ctx: &mut OpContext<'_>) -> Result<()> {
    let encoded = ctx.input(0)?;
    let shape = Shape::new(&ctx.input(2)?.to_i64s()?)?;
    let dtype = ctx.output_dtype(0);
    let mut grad = ctx.allocate_zeros(dtype, shape)?;
    if encoded.rank() == 0 {
        // A single variant holds all values.
        let [ragged] = components(encoded)?[..] else {
            return Err(invalid!("A scalar has one element"));
        };
        require!(
            ragged.values.shape() == grad.shape() && ragged.values.dtype() == dtype,
            "The gradient has shape {} and not {}",
            ragged.values.shape(),
            grad.shape()
        );
        ctx.set_output(0, ragged.values.clone());
        return Ok(());
    }
    let all = encoded.as_slice::<Variant>()?;
    let splits = ctx.input(1)?.to_i64s()?;
    require!(
        splits.is_empty() || splits.len() == all.len() + 1,
        "There are {} splits for {} gradients",
        splits.len(),
        all.len()
    );
    let rows = grad.shape().dims().first().copied().unwrap_or(0);
    let row_len = grad.count().checked_div(rows as usize).unwrap_or(0);
    for (at, variant) in all.iter().enumerate() {
        // A row without a gradient has zeros.
        let Some(ragged) = variant.get::<Ragged>() else {
            continue;
        };
        let (start, end) = match splits.get(at..at + 2) {
            Some(pair) => (pair[0], pair[1]),
            None => (at as i64, at as i64 + 1),
        };
        require!(
            0 <= start && start <= end && end <= rows && ragged.values.dtype() == dtype,
            "The gradient of row {at} does not fit {}",
            grad.shape()
        );
        let (start, end) = (start as usize * row_len, end as usize * row_len);
        require!(
            ragged.values.count() == end - start,
            "The gradient of row {at} has {} values and not {}",
            ragged.values.count(),
            end - start
        );
        if end > start {
            grad.elems_mut()?.slice(start..end).copy_from(ragged.values.elems());
        }
    }
    ctx.set_output(0, grad);
    Ok(())
}
