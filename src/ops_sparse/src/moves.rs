//! Sparse tensors in another order, shape or number: reorder, reshape, slice, concat, split.

use tfcore_base::{LoopFor, Numbers, Result, TypedLoop, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

use crate::coo::{
    Compute, Coo, count, gather, join, matrix, run, static_parts, vector, vector_input,
};

pub(crate) fn register(r: &mut Registry) {
    // `SparseReorder(input_indices: int64, input_values: T, input_shape: int64) -> output_indices: int64, output_values: T`, sorted by
    // index.
    r.op("SparseReorder").shape(reorder_shape).compute(reorder);
    // `SparseReshape(input_indices: int64, input_shape: int64, new_shape: int64) -> output_indices: int64, output_shape: int64`; one -1 in
    // the new shape is worked out.
    r.op("SparseReshape").shape(reshape_shape).compute(reshape);
    // `SparseSlice(indices: int64, values: T, shape: int64, start: int64, size: int64) -> output_indices, output_values, output_shape`.
    r.op("SparseSlice").shape(slice_shape).compute(slice);
    // `SparseSliceGrad(backprop_val_grad: T, input_indices: int64, input_start: int64, output_indices: int64) -> val_grad: T`.
    r.op("SparseSliceGrad").shape(slice_grad_shape).typed::<SliceGrad, Numbers>("T", run);
    // `SparseConcat(indices: N*int64, values: N*T, shapes: N*int64) -> output_indices, output_values, output_shape`, along attr
    // `concat_dim`.
    r.op("SparseConcat").shape(concat_shape).cpu(concat_kernel);
    // `SparseSplit(split_dim: int64, indices: int64, values: T, shape: int64) -> output_indices, output_values, output_shape`, attr
    // `num_split` of each.
    r.op("SparseSplit").shape(split_shape).compute(split);
}

fn reorder_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let [indices, values, _] = static_parts(ctx, 0)?;
    ctx.set_output(0, indices);
    ctx.set_output(1, values);
    Ok(())
}

fn reorder(ctx: &mut OpContext<'_>) -> Result<()> {
    let coo = Coo::unchecked(ctx, 0)?;
    let order = coo.sorted();
    if order.iter().enumerate().all(|(at, &from)| at == from) {
        let (indices, values) = (ctx.input(0)?.clone(), ctx.input(1)?.clone());
        ctx.set_output(0, indices);
        ctx.set_output(1, values);
        return Ok(());
    }
    let indices: Vec<i64> = order.iter().flat_map(|&at| coo.index(at)).copied().collect();
    ctx.set_output(0, matrix(ctx, &indices, coo.rank)?);
    ctx.set_output(1, gather(ctx, ctx.input(1)?, &order)?);
    Ok(())
}

fn reshape_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let indices = shape_ops::with_rank(ctx.input(0), 2)?;
    shape_ops::with_rank(ctx.input(1), 1)?;
    let new_shape = shape_ops::with_rank(ctx.input(2), 1)?;
    ctx.set_output(0, PartialShape::matrix(indices.dim(0), new_shape.dim(0)));
    ctx.set_output(1, new_shape);
    Ok(())
}

/// The new shape with its -1 worked out.
fn resolve(old: &[i64], new: &[i64]) -> Result<Vec<i64>> {
    let dense = count(old)? as i64;
    let mut unknown = None;
    let mut product = 1i64;
    for (axis, &size) in new.iter().enumerate() {
        if size == -1 {
            if let Some(first) = unknown.replace(axis) {
                return Err(invalid!(
                    "only one output dimension may be -1, not both {first} and {axis}"
                ));
            }
            continue;
        }
        require!(size >= 0, "size {axis} must be non-negative, not {size}");
        product = product
            .checked_mul(size)
            .ok_or_else(|| invalid!("The requested shape [{}] is too large", join(new)))?;
    }
    let mut resolved = new.to_vec();
    if let Some(axis) = unknown {
        require!(
            product > 0,
            "reshape cannot infer the missing input size for an empty tensor unless all specified input sizes are \
             non-zero"
        );
        let missing = dense / product;
        require!(
            missing * product == dense,
            "Input to SparseReshape is a SparseTensor with {dense} dense values, but the requested shape requires a \
             multiple of {product}. input_shape=[{}] output_shape=[{}]",
            join(old),
            join(new)
        );
        resolved[axis] = missing;
        product = dense;
    }
    require!(
        product == dense,
        "Input to SparseReshape is a tensor with {dense} dense values, but the requested shape has {product}. \
         input_shape=[{}] output_shape=[{}]",
        join(old),
        join(new)
    );
    Ok(resolved)
}

fn reshape(ctx: &mut OpContext<'_>) -> Result<()> {
    let indices = ctx.input(0)?;
    require!(
        indices.rank() == 2,
        "Input indices should be a matrix but received shape {}",
        indices.shape()
    );
    vector_input(ctx, 1, "Input shape")?;
    let new = vector_input(ctx, 2, "Target shape")?;
    let coo = Coo::of_indices(indices, ctx.input(1)?)?;
    let new = resolve(coo.shape, new)?;
    let shape = vector(&new)?;
    if new == coo.shape {
        ctx.set_output(0, indices.clone());
        ctx.set_output(1, shape);
        return Ok(());
    }
    coo.check_bounds()?;
    require!(!new.is_empty() || coo.len() == 0, "Values cannot have an index of rank 0");
    let mut moved = vec![0i64; coo.len() * new.len()];
    for (offset, index) in coo.offsets().into_iter().zip(moved.chunks_exact_mut(new.len().max(1))) {
        let mut rest = offset as i64;
        for (at, &size) in index.iter_mut().zip(&new).rev() {
            (*at, rest) = (rest % size, rest / size);
        }
    }
    let rows = Shape::new(&[coo.len() as i64, new.len() as i64])?;
    ctx.set_output(0, Tensor::from_slice(rows, &moved)?);
    ctx.set_output(1, shape);
    Ok(())
}

fn slice_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = ctx.input(2).clone();
    let rank = shape_ops::num_elements(&shape);
    ctx.set_output(0, PartialShape::matrix(Dim::fresh(), rank));
    ctx.set_output(1, PartialShape::vector(Dim::fresh()));
    ctx.set_output(2, shape);
    Ok(())
}

fn slice(ctx: &mut OpContext<'_>) -> Result<()> {
    let coo = Coo::unchecked(ctx, 0)?;
    let (start, size) = (vector_input(ctx, 3, "Input start")?, vector_input(ctx, 4, "Input size")?);
    for (name, given) in [("start", start), ("size", size)] {
        require!(
            given.len() == coo.rank,
            "Expected {name} to be a vector of length {} but got length {}",
            coo.rank,
            given.len()
        );
    }
    require!(start.iter().all(|&at| at >= 0), "start must be non-negative, got [{}]", join(start));
    require!(size.iter().all(|&len| len >= 0), "size must be non-negative, got [{}]", join(size));
    let shape: Vec<i64> =
        (0..coo.rank).map(|axis| size[axis].min(coo.shape[axis] - start[axis]).max(0)).collect();
    select(ctx, &coo, 1, start, &shape, [0, 1, 2])
}

/// Sets the outputs to the part of a sparse tensor that begins at `start` and has a shape.
fn select(
    ctx: &OpContext<'_>,
    coo: &Coo<'_>,
    values: usize,
    start: &[i64],
    shape: &[i64],
    outputs: [usize; 3],
) -> Result<()> {
    let mut kept = Vec::new();
    let mut indices = Vec::new();
    for (position, index) in coo.iter().enumerate() {
        let moved = index.iter().zip(start).map(|(at, start)| at.wrapping_sub(*start));
        if moved.clone().zip(shape).all(|(at, size)| (0..*size).contains(&at)) {
            kept.push(position);
            indices.extend(moved);
        }
    }
    ctx.set_output(outputs[0], matrix(ctx, &indices, coo.rank)?);
    ctx.set_output(outputs[1], gather(ctx, ctx.input(values)?, &kept)?);
    ctx.set_output(outputs[2], vector(shape)?);
    Ok(())
}

fn slice_grad_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let indices = shape_ops::with_rank(ctx.input(1), 2)?;
    ctx.set_output(0, PartialShape::vector(indices.dim(0)));
    Ok(())
}

struct SliceGrad;

impl TypedLoop for SliceGrad {
    type Loop = Compute;
}

impl<T: tfcore_base::Number> LoopFor<T> for SliceGrad {
    const LOOP: Compute = slice_grad::<T>;
}

fn slice_grad<T: tfcore_base::Number>(ctx: &mut OpContext<'_>) -> Result<()> {
    let (grads, inputs, starts, outputs) =
        (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?, ctx.input(3)?);
    require!(
        inputs.rank() == 2 && outputs.rank() == 2,
        "Input and output indices should be matrices but received shapes: {} and {}",
        inputs.shape(),
        outputs.shape()
    );
    require!(
        grads.rank() == 1,
        "Input backprop_val_grad should be a vector but received shape: {}",
        grads.shape()
    );
    require!(
        starts.rank() == 1,
        "Input start should be a vector but received shape {}",
        starts.shape()
    );
    let rank = inputs.dim(1);
    require!(
        outputs.dim(1) == rank,
        "The input and output should have the same ndims: got: {rank} and {}",
        outputs.dim(1)
    );
    require!(
        outputs.dim(0) <= inputs.dim(0),
        "# rows of output_indices should be not greater than of input_indices, got {} and {}",
        outputs.dim(0),
        inputs.dim(0)
    );
    require!(
        grads.dim(0) == outputs.dim(0),
        "# elements of backprop_val_grad and # rows of output_indices should match (#nnz of sum): got {} and {}",
        grads.dim(0),
        outputs.dim(0)
    );
    require!(
        starts.dim(0) == rank,
        "Expected start to be a vector of length {rank} but got length {}",
        starts.dim(0)
    );
    let mut grad = ctx.allocate_zeros(T::DTYPE, Shape::vector(inputs.dim(0)))?;
    let (values, starts) = (grads.as_slice::<T>()?, starts.as_slice::<i64>()?);
    if rank > 0 {
        let mut sliced = outputs.as_slice::<i64>()?.chunks_exact(rank).zip(values).peekable();
        for (out, index) in
            grad.as_mut_slice::<T>()?.iter_mut().zip(inputs.as_slice::<i64>()?.chunks_exact(rank))
        {
            let Some((next, value)) = sliced.peek() else {
                break;
            };
            if next
                .iter()
                .zip(starts)
                .map(|(at, start)| at.wrapping_add(*start))
                .eq(index.iter().copied())
            {
                *out = **value;
                sliced.next();
            }
        }
        require!(
            sliced.peek().is_none(),
            "Elements of backprop_val_grad aren't all propagated. Num elements:{}",
            values.len()
        );
    }
    ctx.set_output(0, grad);
    Ok(())
}

fn concat_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let count = ctx.num_inputs() / 3;
    let mut rows = Dim::new(0);
    let mut rank = Dim::fresh();
    let mut shape = PartialShape::unknown();
    for part in 0..count {
        let indices = shape_ops::with_rank(ctx.input(part), 2)?;
        let values = shape_ops::with_rank(ctx.input(count + part), 1)?;
        let dims = shape_ops::with_rank(ctx.input(2 * count + part), 1)?;
        rows = shape_ops::add(rows, shape_ops::merge_dims(indices.dim(0), values.dim(0))?)?;
        rank = shape_ops::merge_dims(rank, indices.dim(1))?;
        shape = shape_ops::merge(&shape, &dims)?;
    }
    ctx.set_output(0, PartialShape::matrix(rows, rank));
    ctx.set_output(1, PartialShape::vector(rows));
    ctx.set_output(2, shape);
    Ok(())
}

fn concat_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let axis = init.attrs.int("concat_dim")?;
    kernel(move |ctx| concat(ctx, axis))
}

fn concat(ctx: &mut OpContext<'_>, axis: i64) -> Result<()> {
    let parts = ctx.num_inputs() / 3;
    let mut coos = Vec::with_capacity(parts);
    for part in 0..parts {
        let values = ctx.input(parts + part)?;
        let coo = Coo::of_indices(ctx.input(part)?, ctx.input(2 * parts + part)?)?;
        require!(
            values.rank() == 1 && values.dim(0) == coo.len(),
            "Expected {} input values, got {} at position {part}",
            coo.len(),
            values.count()
        );
        coos.push(coo);
    }
    let Some(first) = coos.first() else {
        return Err(invalid!("Nothing to concatenate"));
    };
    let rank = first.rank;
    let axis = shape_ops::resolve_axis(axis, rank)
        .map_err(|_| invalid!("Concat dimension must be in range [-{rank}, {rank}), got {axis}"))?;
    let mut shape = first.shape.to_vec();
    for (position, coo) in coos.iter().enumerate().skip(1) {
        require!(
            coo.rank == rank,
            "Ranks of all input tensors must match: expected {rank} but got {} at position {position}",
            coo.rank
        );
        for dim in 0..rank {
            if dim == axis {
                shape[axis] = shape[axis].checked_add(coo.shape[axis]).ok_or_else(|| {
                    invalid!("The dimensions of all inputs are too large together")
                })?;
            } else {
                require!(
                    coo.shape[dim] == shape[dim],
                    "Input shapes must match: expected {} for dimension {dim} but got {} at position {position}",
                    shape[dim],
                    coo.shape[dim]
                );
            }
        }
    }
    let mut indices = Vec::new();
    let mut offset = 0;
    for coo in &coos {
        for index in coo.iter() {
            let start = indices.len();
            indices.extend_from_slice(index);
            indices[start + axis] += offset;
        }
        offset += coo.shape[axis];
    }
    let joined = Coo { indices: &indices, rank, shape: &shape };
    let order = joined.sorted();
    let sorted: Vec<i64> = order.iter().flat_map(|&at| joined.index(at)).copied().collect();
    let values = concatenated(ctx, parts, order.len())?;
    ctx.set_output(0, matrix(ctx, &sorted, rank)?);
    ctx.set_output(1, gather(ctx, &values, &order)?);
    ctx.set_output(2, vector(&shape)?);
    Ok(())
}

/// The values of all parts, one after the other.
fn concatenated(ctx: &OpContext<'_>, parts: usize, total: usize) -> Result<Tensor> {
    let dtype = ctx.input(parts)?.dtype();
    let mut all = ctx.allocate(dtype, Shape::vector(total))?;
    if total > 0 {
        let mut rest = all.elems_mut()?;
        for part in 0..parts {
            let values = ctx.input(parts + part)?;
            let (head, tail) = rest.split_at(values.count());
            if values.count() > 0 {
                head.copy_from(values.elems());
            }
            rest = tail;
        }
    }
    Ok(all)
}

fn split_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = ctx.input(3).clone();
    let rank = shape_ops::num_elements(&shape);
    let parts = ctx.num_outputs() / 3;
    for part in 0..parts {
        ctx.set_output(part, PartialShape::matrix(Dim::fresh(), rank));
        ctx.set_output(parts + part, PartialShape::vector(Dim::fresh()));
        ctx.set_output(2 * parts + part, shape.clone());
    }
    Ok(())
}

fn split(ctx: &mut OpContext<'_>) -> Result<()> {
    let parts = ctx.num_outputs() / 3;
    let axis = ctx.input(0)?;
    require!(axis.rank() == 0, "split_dim should be a scalar, got {}", axis.shape());
    let axis = axis.scalar_value::<i64>()?;
    let coo = Coo::at(ctx, 1)?;
    let rank = coo.rank as i64;
    let axis = shape_ops::resolve_axis(axis, coo.rank)
        .map_err(|_| invalid!("Input axis should be in range [-{rank}, {rank}), got {axis}"))?;
    let size = coo.shape[axis];
    require!(
        (1..=size).contains(&(parts as i64)),
        "Input num_split should be between 1 and the splitting dimension size ({size}), got {parts}"
    );
    let (len, longer) = (size / parts as i64, size % parts as i64);
    let mut start = vec![0; coo.rank];
    for part in 0..parts {
        let mut shape = coo.shape.to_vec();
        // The first parts have one more.
        shape[axis] = len + i64::from((part as i64) < longer);
        select(ctx, &coo, 2, &start, &shape, [part, parts + part, 2 * parts + part])?;
        start[axis] += shape[axis];
    }
    Ok(())
}
