//! Sets in the last dimension of tensors, dense or sparse: `SetSize`, `DenseToDenseSetOperation` and its sparse forms.

use std::collections::BTreeSet;

use tfcore_base::{Elem, LoopFor, Result, TypedLoop, internal, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_tensor::{Dim, Elems, PartialShape, Shape, TString, Tensor};

use crate::sparse_groups::Positions;

/// The types of members.
type Members = (i8, i16, i32, i64, u8, u16, TString);

pub(crate) fn register(r: &mut Registry) {
    // `SetSize(set_indices: int64, set_values: T, set_shape: int64) -> size: int32`: of each set of a sparse tensor, the
    // number of different members.
    r.op("SetSize").shape(shape_fns::unknown).typed_kernel::<Distinct, Members>(
        "T",
        |init, distinct| {
            let validate = init.attrs.bool("validate_indices")?;
            kernel(move |ctx| set_size(ctx, validate, distinct.count))
        },
    );
    // `DenseToDenseSetOperation(set1: T, set2: T; set_operation) -> (result_indices: int64, result_values: T, result_shape:
    // int64)`: for each pair of sets, their union, intersection or difference, as a sparse tensor.
    r.op("DenseToDenseSetOperation")
        .shape(dense_shape)
        .typed_kernel::<Distinct, Members>("T", |init, distinct| {
            operation_kernel(init, distinct, [Source::Dense(0), Source::Dense(1)])
        });
    // `DenseToSparseSetOperation(set1: T, set2_indices: int64, set2_values: T, set2_shape: int64; set_operation) -> ...`.
    r.op("DenseToSparseSetOperation")
        .shape(mixed_shape)
        .typed_kernel::<Distinct, Members>("T", |init, distinct| {
            operation_kernel(init, distinct, [Source::Dense(0), Source::Sparse(1)])
        });
    // `SparseToSparseSetOperation(set1_indices: int64, set1_values: T, set1_shape: int64, set2_indices: int64, ...) -> ...`.
    r.op("SparseToSparseSetOperation")
        .shape(sparse_shape)
        .typed_kernel::<Distinct, Members>("T", |init, distinct| {
            operation_kernel(init, distinct, [Source::Sparse(0), Source::Sparse(3)])
        });
}

fn set_result(ctx: &mut InferenceContext<'_>, rank: Dim) {
    ctx.set_output(0, PartialShape::matrix(Dim::UNKNOWN, rank));
    ctx.set_output(1, PartialShape::vector(Dim::UNKNOWN));
    ctx.set_output(2, PartialShape::vector(rank));
}

fn dense_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let first = shape_ops::with_rank_at_least(ctx.input(0), 2)?;
    let rank = match first.rank() {
        Some(rank) => {
            let second = shape_ops::with_rank(ctx.input(1), rank)?;
            let sets = |shape: &PartialShape| shape_ops::subshape(shape, 0, Some(-1));
            shape_ops::merge(&sets(&first)?, &sets(&second)?)?;
            Some(rank)
        }
        None => shape_ops::with_rank_at_least(ctx.input(1), 2)?.rank(),
    };
    set_result(ctx, rank.map_or(Dim::UNKNOWN, |rank| Dim::new(rank as i64)));
    Ok(())
}

/// Checks the shapes of the three tensors of a sparse one, from input `at` on, and returns its rank.
fn sparse_rank(ctx: &InferenceContext<'_>, at: usize) -> Result<Dim> {
    let indices = shape_ops::with_rank(ctx.input(at), 2)?;
    let values = shape_ops::with_rank(ctx.input(at + 1), 1)?;
    let shape = shape_ops::with_rank(ctx.input(at + 2), 1)?;
    shape_ops::merge_dims(indices.dim(0), values.dim(0))?;
    shape_ops::merge_dims(indices.dim(1), shape.dim(0))?;
    Ok(shape.dim(0))
}

fn mixed_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let second = sparse_rank(ctx, 1)?;
    let first = shape_ops::with_rank_at_least(ctx.input(0), 2)?;
    let rank = match first.rank() {
        Some(rank) => shape_ops::with_value(second, rank as i64)?,
        None => second,
    };
    set_result(ctx, rank);
    Ok(())
}

fn sparse_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (first, second) = (sparse_rank(ctx, 0)?, sparse_rank(ctx, 3)?);
    let rank = match (first.value(), second.value()) {
        (Some(rank), _) => {
            require!(rank >= 2, "Input 0, expected rank >= 2, got {rank}.");
            shape_ops::with_value(second, rank)?
        }
        (None, Some(rank)) => {
            require!(rank >= 2, "Input 1, expected rank >= 2, got {rank}.");
            second
        }
        (None, None) => Dim::UNKNOWN,
    };
    set_result(ctx, rank);
    Ok(())
}

/// A group of sets: the elements of each, by their numbers in the tensor.
type Entries = Vec<usize>;

/// Sets as they stand in an input.
#[derive(Clone, Copy)]
enum Source {
    /// The input of this number.
    Dense(usize),
    /// Indices, values and shape from this input on.
    Sparse(usize),
}

/// The sets of one operand: values, and where each set begins and ends.
struct Sets<'t> {
    values: &'t Tensor,
    /// The dimensions of the tensor, with the one that the sets lie along.
    dims: Vec<i64>,
    /// The sets that are not empty, with their places in the dimensions before the last, in order.
    sets: Vec<(Vec<i64>, std::ops::Range<usize>)>,
}

/// A sparse tensor from input `at` on, checked as the reference checks it.
fn sparse<'t>(ctx: &'t OpContext<'_>, at: usize, validate: bool) -> Result<Sets<'t>> {
    let (indices, values, shape) = (ctx.input(at)?, ctx.input(at + 1)?, ctx.input(at + 2)?);
    require!(shape.rank() == 1, "Shape must be a 1D tensor.");
    let shape = sparse_dims(&shape.to_i64s()?)?;
    let rank = shape.rank();
    require!(rank >= 2, "Invalid rank {rank}.");
    require!(indices.rank() == 2, "indices must be a matrix, but got: {}", indices.shape());
    require!(values.rank() == 1, "vals must be a vec, but got: {}", values.shape());
    require!(
        indices.dim(0) == values.dim(0),
        "indices and values rows (indexing dimension) must match. (indices = {}, values = {})",
        indices.dim(0),
        values.dim(0)
    );
    require!(indices.dim(1) == rank, "Order length must be SparseTensor rank.");
    let positions = Positions::new(indices)?;
    if validate {
        positions.check(&shape)?;
    }
    let mut sets = Vec::new();
    for group in positions.groups() {
        for entry in group.entries.clone() {
            check_entry(entry - group.entries.start, positions.at(entry), &shape)?;
        }
        sets.push((group.key.to_vec(), group.entries));
    }
    Ok(Sets { values, dims: shape.to_vec(), sets })
}

/// Sizes that a client gave.
fn sparse_dims(sizes: &[i64]) -> Result<Shape> {
    if let Some(size) = sizes.iter().find(|size| **size < 0) {
        return Err(invalid!("Expected shape dimensions to be non-negative, got {size}"));
    }
    Shape::new(sizes)
}

/// Refuses an entry outside of the tensor, which only indices that were not validated have.
fn check_entry(number: usize, at: &[i64], shape: &Shape) -> Result<()> {
    for (axis, (&index, &size)) in at.iter().zip(shape.dims()).enumerate() {
        if size <= 0 {
            return Err(internal!("Invalid dim_size[{axis}] = {size}."));
        }
        if index >= size || index < 0 {
            return Err(internal!("indices[{number}, {axis}] expected < {size}, got {index}."));
        }
    }
    Ok(())
}

fn dense<'t>(ctx: &'t OpContext<'_>, index: usize) -> Result<Sets<'t>> {
    let values = ctx.input(index)?;
    let dims = values.shape().to_vec();
    let mut sets = Vec::new();
    if let [groups @ .., size] = &dims[..]
        && values.count() > 0
    {
        let size = *size as usize;
        for number in 0..values.count() / size {
            let mut rest = number as i64;
            let mut key = vec![0; groups.len()];
            for (key, &size) in key.iter_mut().zip(groups).rev() {
                *key = rest % size;
                rest /= size;
            }
            sets.push((key, number * size..(number + 1) * size));
        }
    }
    Ok(Sets { values, dims, sets })
}

impl Sets<'_> {
    /// The dimensions that tell sets apart.
    fn group_dims(&self) -> Result<&[i64]> {
        match &self.dims[..] {
            [groups @ .., _] if !groups.is_empty() => Ok(groups),
            dims => Err(invalid!("Shape [{}] has rank {} < 2", joined(dims), dims.len())),
        }
    }
}

fn joined(dims: &[i64]) -> String {
    dims.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

fn set_size(ctx: &mut OpContext<'_>, validate: bool, count: CountLoop) -> Result<()> {
    let sets = sparse(ctx, 0, validate)?;
    let shape = Shape::new(sets.group_dims()?)?;
    let strides = shape.strides();
    let mut sizes = ctx.allocate_zeros(tfcore_base::DType::INT32, shape)?;
    let out = sizes.as_mut_slice::<i32>()?;
    for (key, entries) in &sets.sets {
        let at: usize = key.iter().zip(&strides).map(|(&key, &stride)| key as usize * stride).sum();
        out[at] = count(sets.values.elems().slice(entries.clone())) as i32;
    }
    ctx.set_output(0, sizes);
    Ok(())
}

/// What is made of two sets.
#[derive(Clone, Copy)]
enum Operation {
    FirstWithoutSecond,
    SecondWithoutFirst,
    Intersection,
    Union,
}

impl Operation {
    fn keeps(self, in_first: bool, in_second: bool) -> bool {
        match self {
            Operation::FirstWithoutSecond => in_first && !in_second,
            Operation::SecondWithoutFirst => in_second && !in_first,
            Operation::Intersection => in_first && in_second,
            Operation::Union => in_first || in_second,
        }
    }
}

fn operation_kernel(
    init: &KernelInit<'_>,
    distinct: DistinctLoops,
    sources: [Source; 2],
) -> Result<Box<dyn Kernel>> {
    let name = init.attrs.str("set_operation")?.to_ascii_lowercase();
    let operation = match name.as_str() {
        "a-b" => Operation::FirstWithoutSecond,
        "b-a" => Operation::SecondWithoutFirst,
        "intersection" => Operation::Intersection,
        "union" => Operation::Union,
        _ => return Err(invalid!("Invalid set_operation {name}.")),
    };
    let validate = init.attrs.bool("validate_indices")?;
    kernel(move |ctx| {
        let read = |source| match source {
            Source::Dense(index) => dense(ctx, index),
            Source::Sparse(at) => sparse(ctx, at, validate),
        };
        let sets = [read(sources[0])?, read(sources[1])?];
        let groups = [sets[0].group_dims()?, sets[1].group_dims()?];
        require!(
            groups[0] == groups[1],
            "Mismatched shapes [{}] vs [{}]",
            joined(groups[0]),
            joined(groups[1])
        );
        let results = combine(&sets, operation, distinct.combine);
        let outputs = outputs(ctx, groups[0], &sets, &results)?;
        for (index, output) in outputs.into_iter().enumerate() {
            ctx.set_output(index, output);
        }
        Ok(())
    })
}

/// The members of the results: for each pair of sets the place and, in order, the members, of the first operand and of the
/// second.
fn combine(
    [first, second]: &[Sets<'_>; 2],
    operation: Operation,
    run: CombineLoop,
) -> Vec<(Vec<i64>, [Entries; 2], Vec<bool>)> {
    let (mut a, mut b) = (first.sets.iter().peekable(), second.sets.iter().peekable());
    let mut results = Vec::new();
    loop {
        // The next place at which either operand has a set.
        let order = match (a.peek(), b.peek()) {
            (None, None) => return results,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((x, _)), Some((y, _))) => x.cmp(y),
        };
        let left = if order.is_le() { a.next() } else { None };
        let right = if order.is_ge() { b.next() } else { None };
        let range = |set: Option<&(Vec<i64>, std::ops::Range<usize>)>| {
            set.map_or(0..0, |(_, range)| range.clone())
        };
        let Some((key, _)) = left.or(right) else {
            return results;
        };
        let operands = [(first.values.elems(), range(left)), (second.values.elems(), range(right))];
        let members = run(operands, operation);
        if !members.is_empty() {
            let mut entries = [Vec::new(), Vec::new()];
            let mut of_second = Vec::with_capacity(members.len());
            for (operand, entry) in members {
                entries[usize::from(operand)].push(entry);
                of_second.push(operand);
            }
            results.push((key.clone(), entries, of_second));
        }
    }
}

/// The three outputs.
fn outputs(
    ctx: &OpContext<'_>,
    groups: &[i64],
    [first, second]: &[Sets<'_>; 2],
    results: &[(Vec<i64>, [Entries; 2], Vec<bool>)],
) -> Result<[Tensor; 3]> {
    let count: usize = results.iter().map(|(_, _, members)| members.len()).sum();
    let largest = results.iter().map(|(_, _, members)| members.len()).max().unwrap_or(0);
    let rank = groups.len() + 1;
    let mut indices = Vec::with_capacity(count * rank);
    let mut values = ctx.allocate_output(1, Shape::vector(count))?;
    if count > 0 {
        let mut out = values.elems_mut()?;
        let mut at = 0;
        for (key, entries, of_second) in results {
            let mut next = [entries[0].iter(), entries[1].iter()];
            for (place, &is_second) in of_second.iter().enumerate() {
                indices.extend(key.iter().copied().chain([place as i64]));
                let operand = if is_second { second } else { first };
                if let Some(&entry) = next[usize::from(is_second)].next() {
                    let member = operand.values.elems().slice(entry..entry + 1);
                    out.slice(at..at + 1).copy_from(member);
                }
                at += 1;
            }
        }
    }
    let dims: Vec<i64> = groups.iter().copied().chain([largest as i64]).collect();
    Ok([
        Tensor::from_slice(Shape::new(&[count as i64, rank as i64])?, &indices)?,
        values,
        Tensor::from_slice(Shape::vector(rank), &dims)?,
    ])
}

/// The number of different elements.
type CountLoop = fn(Elems<'_>) -> usize;
/// The members of the result of an operation on two sets, in order: whether each is of the second operand, and its number.
type CombineLoop = fn([(Elems<'_>, std::ops::Range<usize>); 2], Operation) -> Vec<(bool, usize)>;

#[derive(Clone, Copy)]
struct DistinctLoops {
    count: CountLoop,
    combine: CombineLoop,
}

struct Distinct;

impl TypedLoop for Distinct {
    type Loop = DistinctLoops;
}

impl<T: Elem + Ord> LoopFor<T> for Distinct {
    const LOOP: DistinctLoops = DistinctLoops {
        count: |elems| elems.typed::<T>().iter().collect::<BTreeSet<&T>>().len(),
        combine: |[(first, a), (second, b)], operation| {
            let (first, second) = (first.typed::<T>(), second.typed::<T>());
            let sorted = |values: &[T], range: std::ops::Range<usize>| {
                let mut entries: Vec<usize> = range.collect();
                entries.sort_by(|&x, &y| values[x].cmp(&values[y]));
                entries.dedup_by(|x, y| values[*x] == values[*y]);
                entries
            };
            let (a, b) = (sorted(first, a), sorted(second, b));
            let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
            let mut members = Vec::new();
            while let Some((member, order)) = match (a.peek(), b.peek()) {
                (Some(&x), Some(&y)) => {
                    let order = first[x].cmp(&second[y]);
                    Some((if order.is_le() { (false, x) } else { (true, y) }, order))
                }
                (Some(&x), None) => Some(((false, x), std::cmp::Ordering::Less)),
                (None, Some(&y)) => Some(((true, y), std::cmp::Ordering::Greater)),
                (None, None) => None,
            } {
                let in_first = order.is_le() && a.next().is_some();
                let in_second = order.is_ge() && b.next().is_some();
                if operation.keeps(in_first, in_second) {
                    members.push(member);
                }
            }
            members
        },
    };
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_tensor::Tensor;

    fn attrs(operation: &str) -> [(&'static str, AttrValue); 2] {
        [int32(), ("set_operation", AttrValue::string(operation))]
    }

    fn sparse(indices: &[i64], values: &[i32], shape: &[i64]) -> [Tensor; 3] {
        [
            tensor(&[values.len() as i64, 2], indices),
            ints(values),
            tensor(&[shape.len() as i64], shape),
        ]
    }

    #[test]
    fn sets_are_combined() {
        let inputs = [tensor(&[2, 3], &[5, 1, 5, 2, 2, 2]), tensor(&[2, 2], &[1, 3, 2, 2])];
        let cases: [(&str, &[i64], &[i32], &[i64]); 4] = [
            ("union", &[0, 0, 0, 1, 0, 2, 1, 0], &[1, 3, 5, 2], &[2, 3]),
            ("intersection", &[0, 0, 1, 0], &[1, 2], &[2, 1]),
            ("a-b", &[0, 0], &[5], &[2, 1]),
            ("B-A", &[0, 0], &[3], &[2, 1]),
        ];
        for (operation, indices, members, shape) in cases {
            let out = run("DenseToDenseSetOperation", &attrs(operation), &inputs).unwrap();
            assert_eq!(out[0].as_slice::<i64>().unwrap(), indices, "{operation}");
            assert_eq!(out[1].as_slice::<i32>().unwrap(), members, "{operation}");
            assert_eq!(out[2].as_slice::<i64>().unwrap(), shape, "{operation}");
        }
        let [indices, members, shape] = sparse(&[1, 0, 1, 2], &[2, 7], &[2, 3]);
        let mixed = [inputs[0].clone(), indices.clone(), members.clone(), shape.clone()];
        let out = run("DenseToSparseSetOperation", &attrs("union"), &mixed).unwrap();
        assert_eq!(out[1].as_slice::<i32>().unwrap(), [1, 5, 2, 7]);
        let [other, values, other_shape] = sparse(&[0, 0, 1, 1], &[4, 2], &[2, 5]);
        let both = [other, values, other_shape, indices, members, shape];
        let out = run("SparseToSparseSetOperation", &attrs("union"), &both).unwrap();
        assert_eq!(out[0].as_slice::<i64>().unwrap(), [0, 0, 1, 0, 1, 1]);
        assert_eq!(out[1].as_slice::<i32>().unwrap(), [4, 2, 7]);
        assert_eq!(
            failure("DenseToDenseSetOperation", &attrs("xor"), &inputs),
            "Invalid set_operation xor."
        );
        let unlike = [counting(&[1, 1]), counting(&[2, 1])];
        assert_eq!(
            failure("DenseToDenseSetOperation", &attrs("union"), &unlike),
            "Mismatched shapes [1] vs [2]"
        );
    }

    #[test]
    fn members_are_counted_once() {
        let inputs = sparse(&[0, 0, 0, 1, 2, 0], &[7, 7, 8], &[3, 2]);
        let found = values::<i32>("SetSize", &[int32()], &inputs).unwrap();
        assert_eq!(found, (vec![3], vec![1, 0, 1]));
        let loose = [int32(), ("validate_indices", AttrValue::Bool(false))];
        let inputs = sparse(&[0, 0, 5, 1], &[1, 2], &[2, 3]);
        assert_eq!(failure("SetSize", &loose, &inputs), "indices[0, 0] expected < 2, got 5.");
        let strings = [("T", of(DType::INT32))];
        let inputs = sparse(&[0, 0, 0, 1], &[1, 2], &[-3, 4]);
        assert_eq!(
            failure("SetSize", &strings, &inputs),
            "Expected shape dimensions to be non-negative, got -3"
        );
    }
}
