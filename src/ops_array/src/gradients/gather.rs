//! Gradients of looking up by index: what was read from a place is summed there.

use tfcore_base::{DType, Result, invalid};
use tfcore_framework::{AttrValue, GradientContext, Gradients, Output, Registry};
use tfcore_tensor::{MAX_RANK, Shape, Tensor};

use super::{by_first, widened};

pub(crate) fn register(r: &mut Registry) {
    r.op("GatherV2").gradient(gather);
    r.op("GatherNd").gradient(|c| {
        let indices = widened(c, c.input(1));
        // The reference has shapes of 32 and 64 bits only, and fails for indices of 16.
        let shape = c.shape_as(c.input(0), c.dtype(indices));
        by_first(c, c.node("ScatterNd", &[indices, c.grad(0), shape], &policy(c)))
    });
    r.op("ScatterNd").gradient(|c| Ok(vec![None, Some(looked_up(c, c.input(0))), None]));
    r.op("ScatterNdNonAliasingAdd").gradient(|c| {
        let dx = c.identity(c.grad(0));
        Ok(vec![Some(dx), None, Some(looked_up(c, c.input(1)))])
    });
}

/// What is done about indices that are outside; the reference forgets it.
fn policy(c: &GradientContext<'_>) -> Vec<(&'static str, AttrValue)> {
    let name = "bad_indices_policy";
    c.attrs().get(name).map(|policy| (name, policy.clone())).into_iter().collect()
}

fn looked_up(c: &GradientContext<'_>, indices: Output) -> Output {
    c.node("GatherNd", &[c.grad(0), indices], &policy(c))
}

/// The gradient with the axis of the indices in front of all but the batch axes, summed by index and moved back.
fn gather(c: &GradientContext<'_>) -> Result<Gradients> {
    let batch_dims = batch_dims(c)?;
    let (params, indices) = (c.input(0), c.input(1));
    let axis = axis(c);
    let shape = {
        let c = c.beside(params);
        c.cast(c.shape_as(params, DType::INT64), DType::INT32)
    };
    // Nothing reads this one, but the names of all others count on it.
    flat_shape(c, indices);
    let axis = c.expand_front(axis);
    let outer = c.slice(shape, c.vector(&[0i32]), axis);
    let rest = c.slice(shape, axis, c.vector(&[-1i32]));
    let inner = c.slice(rest, c.vector(&[1i32]), c.vector(&[-1i32]));
    let picked = c.vector(&[-1i32]);
    let flat_grad = c.concat(&[outer, picked, inner], c.int(0));
    let rank = c.size(flat_grad);
    let axis_number = c.size(outer);
    let batch_axes = c.range(c.int(0), c.int(batch_dims), c.int(1));
    let outer_axes = c.range(c.int(batch_dims), axis_number, c.int(1));
    let behind = c.add(axis_number, c.int(1));
    let inner_axes = c.range(behind, rank, c.int(1));
    let axis_number = c.expand_front(axis_number);
    let grad = c.reshape(c.grad(0), flat_grad);
    let order = c.concat(&[batch_axes, axis_number, outer_axes, inner_axes], c.int(0));
    let rows = c.transpose(grad, order);
    let places = c.squeeze(c.slice(shape, axis, c.vector(&[1i32])));
    let moved_shape = c.gather(shape, order);
    let flat = flat_shape(c, indices);
    let sums = if batch_dims == 0 {
        let indices = c.reshape(indices, flat);
        c.apply("UnsortedSegmentSum", [rows, indices, places])
    } else {
        sum_in_batches(c, batch_dims, &Lookup { rows, indices, flat, places, moved_shape })
    };
    let shifted = c.add(outer_axes, c.int(1));
    let axis = c.vector(&[batch_dims]);
    let back = c.concat(&[batch_axes, shifted, axis, inner_axes], c.int(0));
    by_first(c, c.transpose(sums, back))
}

/// The attr `batch_dims`, counted from the front.
fn batch_dims(c: &GradientContext<'_>) -> Result<i32> {
    let given = c.attrs().int("batch_dims")?;
    let rank = c.static_shape(c.input(1)).rank();
    let batch_dims = match (given, rank) {
        (0.., _) => given,
        (_, Some(rank)) => given.saturating_add(rank as i64),
        (_, None) => {
            return Err(invalid!("C++ GatherV2 gradient does not support negative batch_dims."));
        }
    };
    match usize::try_from(batch_dims) {
        Ok(valid) if valid < MAX_RANK => Ok(valid as i32),
        _ => Err(invalid!("batch_dims {given} is out of range")),
    }
}

/// The axis as an `int32`, counted from the front. The reference takes what there is, and fails for other axes.
fn axis(c: &GradientContext<'_>) -> Output {
    let given = c.input(2);
    let known = c.static_value(given).and_then(|axis| axis.to_i64s().ok());
    let axis = if c.dtype(given) == DType::INT32 { given } else { c.cast(given, DType::INT32) };
    if known.is_some_and(|axis| axis.iter().all(|&axis| axis >= 0)) {
        return axis;
    }
    let rank = c.rank(c.input(0));
    c.apply("FloorMod", [axis, rank])
}

/// The shape of `indices` as a vector.
fn flat_shape(c: &GradientContext<'_>, indices: Output) -> Output {
    c.expand_front(c.size(indices))
}

/// What a lookup in several batches knows.
struct Lookup {
    /// The gradient: batch axes, one axis for the indices, the others.
    rows: Output,
    indices: Output,
    flat: Output,
    /// How many indices there are along the axis.
    places: Output,
    /// The shape of the params with the axis moved like that of the rows.
    moved_shape: Output,
}

/// Sums rows by index; indices of different batches are different, so all batches can be taken as one.
fn sum_in_batches(c: &GradientContext<'_>, batch_dims: i32, lookup: &Lookup) -> Output {
    let shape = c.shape(lookup.rows);
    let batches = c.slice(shape, c.vector(&[0i32]), c.vector(&[batch_dims]));
    let rest = c.slice(shape, c.vector(&[batch_dims]), c.vector(&[-1i32]));
    let row_shape = c.slice(rest, c.vector(&[1i32]), c.vector(&[-1i32]));
    let batches = c.prod(batches, c.int(0));
    let all_rows = c.vector(&[-1i32]);
    let flat_rows = c.concat(&[all_rows, row_shape], c.int(0));
    let places = c.mul(lookup.places, batches);
    let indices = distinct(c, batch_dims, lookup);
    let rows = c.reshape(lookup.rows, flat_rows);
    let indices = c.reshape(indices, lookup.flat);
    let sums = c.apply("UnsortedSegmentSum", [rows, indices, places]);
    c.reshape(sums, lookup.moved_shape)
}

/// The indices, to which every batch adds the number of places in the batches before it.
fn distinct(c: &GradientContext<'_>, batch_dims: i32, lookup: &Lookup) -> Output {
    let mut indices = widened(c, lookup.indices);
    let dtype = c.dtype(indices);
    let rank = c.rank(indices);
    let sizes = c.cast(lookup.moved_shape, dtype);
    let mut stride = c.integer(1, dtype);
    for axis in (0..batch_dims).rev() {
        let size = c.slice(sizes, c.vector(&[axis]), c.vector(&[1i32]));
        let next = c.slice(sizes, c.vector(&[axis + 1]), c.vector(&[1i32]));
        stride = c.mul(stride, next);
        let steps = {
            let first = c.integer(0, dtype);
            let step = c.integer(1, dtype);
            let limit = c.squeeze(size);
            c.mul(c.range(first, limit, step), stride)
        };
        // All axes but this one are of size 1.
        let shape = {
            let one = c.cast(vector(c, 1), dtype);
            let before = c.tile(one, vector(c, axis));
            let count = c.sub(rank, c.int(axis + 1));
            let after = c.tile(one, c.expand_front(count));
            c.concat(&[before, size, after], c.int(0))
        };
        indices = c.add(indices, c.reshape(steps, shape));
    }
    indices
}

/// A vector of one element.
fn vector(c: &GradientContext<'_>, value: i32) -> Output {
    c.constant(Tensor::from_slice(Shape::vector(1), &[value]).expect("one element fits"))
}
