//! Ops whose output's size depends on values: `Where` and the `Unique` family.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use num_traits::Zero;
use tfcore_base::{
    BFloat16, DType, Elem, Half, LoopFor, Numbers, Result, TypedLoop, internal, invalid, require,
};
use tfcore_framework::geometry::{StridedDim, StridedView};
use tfcore_framework::movement::copy_view;
use tfcore_framework::{InferenceContext, OpContext, Registry, kernel, shape_ops};
use tfcore_tensor::{Dim, Elems, PartialShape, Shape, TString, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `Where(input: T) -> index: int64`, the positions of what is not zero, in row-major order.
    r.op("Where")
        .shape(where_shape)
        .typed::<NonZero, Numbers>("T", positions)
        .cpu_of::<(bool,)>("T", |_| kernel(|ctx| positions(ctx, |x| holding(x, |x: &bool| *x))));
    // `Unique(x: T) -> (y: T, idx: out_idx)`: `y` has each value once, in order of appearance, and
    // `x[i] = y[idx[i]]`.
    r.op("Unique").shape(unique_shape).compute(unique);
    // `UniqueWithCounts(x: T) -> (y: T, idx: out_idx, count: out_idx)`.
    r.op("UniqueWithCounts").shape(unique_with_counts_shape).compute(unique);
    // `UniqueV2(x: T, axis: Taxis) -> (y: T, idx: out_idx)`, of slices along an axis.
    r.op("UniqueV2").shape(unique_v2_shape).compute(unique);
    // `UniqueWithCountsV2(x: T, axis: Taxis) -> (y: T, idx: out_idx, count: out_idx)`.
    r.op("UniqueWithCountsV2")
        .shape(|ctx| {
            unique_v2_shape(ctx)?;
            ctx.set_output(2, PartialShape::vector(Dim::UNKNOWN));
            Ok(())
        })
        .compute(unique);
}

fn where_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let rank = ctx.input(0).rank().map_or(Dim::UNKNOWN, |rank| Dim::new(rank as i64));
    ctx.set_output(0, PartialShape::matrix(Dim::UNKNOWN, rank));
    Ok(())
}

/// The numbers of the elements that are not zero.
type NonZeroLoop = fn(Elems<'_>) -> Vec<usize>;

struct NonZero;

impl TypedLoop for NonZero {
    type Loop = NonZeroLoop;
}

impl<T: Elem + Zero> LoopFor<T> for NonZero {
    const LOOP: NonZeroLoop = |elems| holding(elems, |value: &T| !value.is_zero());
}

fn holding<T: Elem>(elems: Elems<'_>, holds: impl Fn(&T) -> bool) -> Vec<usize> {
    let values = elems.typed::<T>().iter().enumerate();
    values.filter(|(_, value)| holds(value)).map(|(index, _)| index).collect()
}

fn positions(ctx: &mut OpContext<'_>, find: NonZeroLoop) -> Result<()> {
    let input = ctx.input(0)?;
    let found = find(input.elems());
    let dims = input.shape().to_usizes();
    let shape = Shape::new(&[found.len() as i64, dims.len() as i64])?;
    ctx.produce(0, shape, |out| {
        for (row, index) in out.typed::<i64>().chunks_exact_mut(dims.len()).zip(found) {
            let mut rest = index;
            for (coordinate, size) in row.iter_mut().zip(&dims).rev() {
                *coordinate = (rest % size) as i64;
                rest /= size;
            }
        }
    })
}

fn unique_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    ctx.set_output(0, PartialShape::vector(Dim::UNKNOWN));
    ctx.set_output(1, ctx.input(0).clone());
    shape_ops::with_rank(ctx.input(0), 1)?;
    Ok(())
}

fn unique_with_counts_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let count = Dim::fresh();
    ctx.set_output(0, PartialShape::vector(count));
    ctx.set_output(1, ctx.input(0).clone());
    ctx.set_output(2, PartialShape::vector(count));
    Ok(())
}

fn unique_v2_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = ctx.input(0);
    let rank = input.rank();
    ctx.set_output(0, rank.map_or_else(PartialShape::unknown, PartialShape::of_rank));
    let along = match (ctx.operand_i64s(1)?, rank) {
        (Some(axis), Some(rank)) => {
            require!(ctx.input(1).rank() == Some(1), "axis expects a 1D vector.");
            match unique_axis(&axis, rank)? {
                Some(axis) => input.dim(axis),
                None => input.dim(0),
            }
        }
        _ => Dim::UNKNOWN,
    };
    ctx.set_output(1, PartialShape::vector(along));
    Ok(())
}

/// The axis, if there is one; without one the input must be a vector.
fn unique_axis(axis: &[i64], rank: usize) -> Result<Option<usize>> {
    match *axis {
        [] => {
            require!(rank == 1, "unique expects a 1D vector.");
            Ok(None)
        }
        [axis] => {
            let resolved = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
            require!((0..rank as i64).contains(&resolved), "axis has to be between [0, {rank})");
            Ok(Some(resolved as usize))
        }
        _ => Err(invalid!("axis does not support input tensors larger than 1 elements")),
    }
}

fn unique(ctx: &mut OpContext<'_>) -> Result<()> {
    let input = ctx.input(0)?;
    // `Unique` and `UniqueWithCounts` have no axis.
    let has_axis = ctx.num_inputs() == 2;
    let axis = if has_axis {
        let axis = ctx.input(1)?;
        require!(axis.rank() == 1, "axis expects a 1D vector.");
        unique_axis(&axis.to_i64s()?, input.rank())?
    } else {
        unique_axis(&[], input.rank())?
    };
    let axis = axis.unwrap_or(0);
    let dims = input.shape().to_usizes();
    let size = dims[axis];
    let outer: usize = dims[..axis].iter().product();
    let inner: usize = dims[axis + 1..].iter().product();

    // Slices along the axis, each side by side.
    let slices = if outer == 1 {
        input.clone()
    } else {
        let mut slices = ctx.allocate(input.dtype(), input.shape().clone())?;
        let view = swapped(outer, size, inner);
        copy_view(ctx.parallel(), input.elems(), &view, slices.elems_mut()?);
        slices
    };
    let groups = group(slices.elems(), size, outer * inner)?;

    let mut shape = input.shape().dims().to_vec();
    shape[axis] = groups.firsts.len() as i64;
    let mut values = ctx.allocate_output(0, Shape::new(&shape)?)?;
    let mut target = values.elems_mut()?;
    let width = inner;
    let source = input.elems();
    for block in 0..outer {
        for (number, &first) in groups.firsts.iter().enumerate() {
            let to = (block * groups.firsts.len() + number) * width;
            let from = (block * size + first) * width;
            target.slice(to..to + width).copy_from(source.slice(from..from + width));
        }
    }
    ctx.set_output(0, values);
    let ids = integers(ctx.output_dtype(1), &groups.ids)?;
    ctx.set_output(1, ids);
    if ctx.num_outputs() == 3 {
        let mut counts = vec![0; groups.firsts.len()];
        for &id in &groups.ids {
            counts[id] += 1;
        }
        let counts = integers(ctx.output_dtype(2), &counts)?;
        ctx.set_output(2, counts);
    }
    Ok(())
}

/// `[outer, size, inner]` as `[size, outer, inner]`.
fn swapped(outer: usize, size: usize, inner: usize) -> StridedView {
    let dim = |size: usize, stride: usize| StridedDim { size, stride: stride as isize };
    StridedView::new(0, [dim(size, inner), dim(outer, size * inner), dim(inner, 1)])
}

fn integers(dtype: DType, values: &[usize]) -> Result<Tensor> {
    let shape = Shape::vector(values.len());
    if dtype == DType::INT64 {
        let values: Vec<i64> = values.iter().map(|&value| value as i64).collect();
        return Tensor::from_slice(shape, &values);
    }
    let narrow = |&value: &usize| {
        i32::try_from(value).map_err(|_| {
            invalid!("unique does not support input tensors larger than {} elements", i32::MAX)
        })
    };
    Tensor::from_slice(shape, &values.iter().map(narrow).collect::<Result<Vec<i32>>>()?)
}

/// Slices that are alike.
struct Groups {
    /// The first slice of each group.
    firsts: Vec<usize>,
    /// The group of each slice.
    ids: Vec<usize>,
}

/// Groups `count` slices of `width` elements.
fn group(elems: Elems<'_>, count: usize, width: usize) -> Result<Groups> {
    let equal_bits = |elems: Elems<'_>| match elems.dtype().size() {
        1 => group_by(elems.lanes::<u8>(), count, width, |value| Some(*value)),
        2 => group_by(elems.lanes::<u16>(), count, width, |value| Some(*value)),
        4 => group_by(elems.lanes::<u32>(), count, width, |value| Some(*value)),
        _ => group_by(elems.lanes::<u64>(), count, width, |value| Some(*value)),
    };
    Ok(match elems.dtype() {
        DType::STRING => group_by(elems.typed::<TString>(), count, width, |s| Some(s.as_bytes())),
        DType::FLOAT => group_by(elems.typed::<f32>(), count, width, |v| float_key((*v).into())),
        DType::DOUBLE => group_by(elems.typed::<f64>(), count, width, |v| float_key(*v)),
        // The reference tells the two zeros of the short floats apart.
        DType::HALF => group_by(elems.typed::<Half>(), count, width, |v| {
            if v.is_nan() { None } else { Some(v.to_bits()) }
        }),
        DType::BFLOAT16 => group_by(elems.typed::<BFloat16>(), count, width, |v| {
            if v.is_nan() { None } else { Some(v.to_bits()) }
        }),
        dtype if dtype.is_integer() || dtype == DType::BOOL => equal_bits(elems),
        dtype => return Err(internal!("Unique has no kernel for type {dtype}")),
    })
}

/// The bits that equal numbers share; `None` for NaN, which equals nothing.
fn float_key(value: f64) -> Option<u64> {
    if value.is_nan() { None } else { Some((value + 0.0).to_bits()) }
}

/// A slice of keys.
struct SliceKey<'e, E, K> {
    elems: &'e [E],
    key: fn(&'e E) -> Option<K>,
}

impl<E, K: Hash> Hash for SliceKey<'_, E, K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.elems.iter().for_each(|elem| (self.key)(elem).hash(state));
    }
}

impl<E, K: PartialEq> PartialEq for SliceKey<'_, E, K> {
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = self.elems.iter().zip(other.elems);
        pairs.all(|(a, b)| match ((self.key)(a), (self.key)(b)) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        })
    }
}

/// Not reflexive for NaN; a map whose keys are unlike themselves only finds them less often.
impl<E, K: PartialEq> Eq for SliceKey<'_, E, K> {}

fn group_by<'e, E, K: Hash + PartialEq>(
    elems: &'e [E],
    count: usize,
    width: usize,
    key: fn(&'e E) -> Option<K>,
) -> Groups {
    let mut groups = Groups { firsts: Vec::new(), ids: Vec::with_capacity(count) };
    let mut seen: HashMap<SliceKey<'e, E, K>, usize> = HashMap::new();
    for index in 0..count {
        let slice = SliceKey { elems: &elems[index * width..(index + 1) * width], key };
        let next = groups.firsts.len();
        let id = *seen.entry(slice).or_insert(next);
        if id == next {
            groups.firsts.push(index);
        }
        groups.ids.push(id);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_base::Result;

    #[test]
    fn positions_of_what_is_not_zero() {
        let x = tensor(&[2, 3], &[0.0f32, f32::NAN, 2.0, -0.0, 0.0, -1.0]);
        let found = values::<i64>("Where", &[("T", of(DType::FLOAT))], &[x]).unwrap();
        assert_eq!(found, (vec![3, 2], vec![0, 1, 0, 2, 1, 2]));
        let scalar = values::<i64>("Where", &[("T", of(DType::BOOL))], &[Tensor::scalar(true)]);
        assert_eq!(scalar.unwrap(), (vec![1, 0], vec![]));
        assert_eq!(shapes("Where", &[("T", of(DType::BOOL))], "[2,?,3]", &[]), "[?,3]");
    }

    fn unique(op: &str, dtype: DType, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        run(op, &[("T", of(dtype)), ("out_idx", of(DType::INT32))], inputs)
    }

    #[test]
    fn values_in_order_of_appearance() {
        let out = unique("UniqueWithCounts", DType::INT32, &[ints(&[5, 3, 5, 5, 1])]).unwrap();
        let found: Vec<&[i32]> = out.iter().map(|part| part.as_slice().unwrap()).collect();
        assert_eq!(found, [&[5, 3, 1][..], &[0, 1, 0, 0, 2], &[3, 1, 1]]);
        let zeros = tensor(&[4], &[0.0f32, -0.0, f32::NAN, f32::NAN]);
        let out = unique("Unique", DType::FLOAT, &[zeros]).unwrap();
        assert_eq!(out[1].as_slice::<i32>().unwrap(), [0, 0, 1, 2]);
    }

    #[test]
    fn slices_along_an_axis() {
        let x = tensor(&[2, 3], &[1, 2, 1, 4, 5, 4]);
        let out =
            run("UniqueV2", &[int32(), ("Taxis", of(DType::INT32))], &[x, ints(&[1])]).unwrap();
        assert_eq!(out[0].shape().dims(), [2, 2]);
        assert_eq!(out[0].as_slice::<i32>().unwrap(), [1, 2, 4, 5]);
        assert_eq!(out[1].as_slice::<i32>().unwrap(), [0, 1, 0]);
    }
}
