//! Places and ranks in rows: `LowerBound`, `UpperBound` of sorted rows, `NthElement` of any.

use tfcore_base::{DType, Elem, LoopFor, RealNumbers, Result, TypedLoop, invalid, require};
use tfcore_framework::movement::for_each_units;
use tfcore_framework::{InferenceContext, OpContext, Registry, kernel, shape_ops};
use tfcore_tensor::{Elems, ElemsMut, PartialShape, Shape};

pub(crate) fn register(r: &mut Registry) {
    // `LowerBound(sorted_inputs: T, values: T) -> output: out_type`: in each row, the number of entries before the first that
    // is not below the value.
    r.op("LowerBound")
        .shape(bound_shape)
        .typed::<Search, RealNumbers>("T", |ctx, search| bound(ctx, search.lower));
    // `UpperBound(sorted_inputs: T, values: T) -> output: out_type`: the number of entries before the first that is above it.
    r.op("UpperBound")
        .shape(bound_shape)
        .typed::<Search, RealNumbers>("T", |ctx, search| bound(ctx, search.upper));
    // `NthElement(input: T, n: int32; reverse) -> values: T`: of each row the entry that would be number `n` if it was sorted.
    r.op("NthElement").shape(nth_shape).typed_kernel::<Search, RealNumbers>("T", |init, search| {
        let reverse = init.attrs.bool("reverse")?;
        kernel(move |ctx| nth_element(ctx, reverse, search.nth))
    });
}

/// The bounds of values in one sorted row.
type BoundLoop = fn(Elems<'_>, Elems<'_>, &mut [i64]);
/// The entry number `n` of each row of so many elements.
type NthLoop = fn(Elems<'_>, usize, usize, ElemsMut<'_>);

#[derive(Clone, Copy)]
struct SearchLoops {
    lower: BoundLoop,
    upper: BoundLoop,
    nth: NthLoop,
}

struct Search;

impl TypedLoop for Search {
    type Loop = SearchLoops;
}

impl<T: Elem + Copy + PartialOrd> LoopFor<T> for Search {
    const LOOP: SearchLoops = SearchLoops {
        lower: |row, values, out| {
            bounds(row.typed::<T>(), values.typed(), out, |x, value| x < value)
        },
        upper: |row, values, out| {
            // Not `x <= value`: NaN is above nothing.
            bounds(row.typed::<T>(), values.typed(), out, |x, value| !above(x, value));
        },
        nth: |rows, columns, n, out| {
            let mut buffer = Vec::with_capacity(columns);
            for (row, out) in rows.typed::<T>().chunks_exact(columns).zip(out.typed::<T>()) {
                buffer.clear();
                buffer.extend_from_slice(row);
                select(&mut buffer, n);
                *out = buffer[n];
            }
        },
    };
}

fn above<T: PartialOrd>(x: &T, value: &T) -> bool {
    value < x
}

/// The number of entries at the front of the row that come before a value, found by halving as the C++ library does: in a row that
/// is not sorted, or has NaNs, other ways would find other places.
fn bounds<T>(row: &[T], values: &[T], out: &mut [i64], is_before: impl Fn(&T, &T) -> bool) {
    for (value, out) in values.iter().zip(out) {
        let (mut first, mut len) = (0, row.len());
        while len > 0 {
            let half = len / 2;
            if is_before(&row[first + half], value) {
                first += half + 1;
                len -= half + 1;
            } else {
                len = half;
            }
        }
        *out = first as i64;
    }
}

fn bound_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(0), 2)?;
    shape_ops::with_rank(ctx.input(1), 2)?;
    // An unknown rank stays unknown, as in the reference.
    ctx.set_output(0, ctx.input(1).clone());
    Ok(())
}

fn bound(ctx: &mut OpContext<'_>, run: BoundLoop) -> Result<()> {
    let (sorted, values) = (ctx.input(0)?, ctx.input(1)?);
    for (tensor, name) in [(sorted, "sorted_inputs"), (values, "values")] {
        let rank = tensor.rank();
        require!(rank == 2, "Shape must be rank 2 but is rank {rank} for `{name}` argument");
    }
    require!(sorted.dim(0) == values.dim(0), "Leading dim_size of both tensors must match.");
    let most = i32::MAX as usize;
    require!(values.count() < most, "values tensor size must less than INT_MAX");
    let dtype = ctx.output_dtype(0);
    let columns = sorted.dim(1);
    require!(
        dtype != DType::INT32 || columns < most,
        "trailing dim_size must less than INT_MAX for int32 output type, was {columns}"
    );
    let (wanted, width) = (values.elems(), values.dim(1));
    ctx.produce(0, values.shape().clone(), |out| {
        for_each_units(ctx.parallel(), out, width, &|first, part| {
            let mut found = vec![0; part.len()];
            for (row, found) in found.chunks_exact_mut(width).enumerate() {
                let row = first + row;
                let sorted = sorted.elems().slice(row * columns..(row + 1) * columns);
                run(sorted, wanted.slice(row * width..(row + 1) * width), found);
            }
            if dtype == DType::INT32 {
                let out = part.typed::<i32>().iter_mut();
                out.zip(&found).for_each(|(out, &found)| *out = found as i32);
            } else {
                part.typed::<i64>().copy_from_slice(&found);
            }
        });
    })
}

fn nth_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    let n = ctx.operand_dim(1)?;
    let Some([outer @ .., last]) = input.dims() else {
        return Ok(());
    };
    if let (Some(n), Some(last)) = (n.value(), last.value()) {
        require!(last > n, "Input must have last dimension > n = {n} but is {last}");
    }
    ctx.set_output(0, outer.iter().copied().collect::<PartialShape>());
    Ok(())
}

fn nth_element(ctx: &mut OpContext<'_>, reverse: bool, run: NthLoop) -> Result<()> {
    let (input, n) = (ctx.input(0)?, ctx.input(1)?);
    require!(n.rank() == 0, "N must be scalar but has rank {}", n.rank());
    let n = n.to_i64s()?[0];
    require!(n >= 0, "n must be non-negative but is {n}");
    let &[ref outer @ .., columns] = input.shape().dims() else {
        return Err(invalid!(
            "Input must be at least rank 1 but is rank 0, got shape {}",
            input.shape()
        ));
    };
    require!(columns > n, "Input must have last dimension > n = {n} but is {columns}");
    let columns = columns as usize;
    let n = if reverse { columns - 1 - n as usize } else { n as usize };
    let elems = input.elems();
    ctx.produce(0, Shape::new(outer)?, |out| {
        for_each_units(ctx.parallel(), out, 1, &|first, part| {
            let range = first * columns..(first + part.len()) * columns;
            run(elems.slice(range), columns, n, part);
        });
    })
}

/// Brings the entry that belongs at place `n` there, in the steps of the C++ library's `std::nth_element`: where there are NaNs,
/// other steps find other entries.
fn select<T: Copy + PartialOrd>(items: &mut [T], n: usize) {
    let (mut first, mut last) = (0, items.len());
    let mut levels = 2 * items.len().checked_ilog2().unwrap_or(0);
    while last - first > 3 {
        if levels == 0 {
            // The reference goes on with a heap here; with numbers alone any way finds the same.
            let order = |a: &T, b: &T| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal);
            let rest = items[first..last].iter().copied().enumerate();
            let mut rest: Vec<(usize, T)> = rest.collect();
            rest.sort_by(|a, b| order(&a.1, &b.1));
            rest.iter().zip(&mut items[first..last]).for_each(|((_, from), to)| *to = *from);
            return;
        }
        levels -= 1;
        median_to_front(items, first, last);
        let cut = partition(items, first, last);
        if cut <= n {
            first = cut;
        } else {
            last = cut;
        }
    }
    for end in first + 1..last {
        let mut hole = end;
        let value = items[end];
        if value < items[first] {
            items.copy_within(first..end, first + 1);
            hole = first;
        } else {
            while hole > first && value < items[hole - 1] {
                items[hole] = items[hole - 1];
                hole -= 1;
            }
        }
        items[hole] = value;
    }
}

/// Exchanges the first entry for the median of the second, the middle one and the last.
fn median_to_front<T: Copy + PartialOrd>(items: &mut [T], first: usize, last: usize) {
    let (a, b, c) = (first + 1, first + (last - first) / 2, last - 1);
    let less = |x: usize, y: usize| items[x] < items[y];
    let median = if less(a, b) {
        if less(b, c) {
            b
        } else if less(a, c) {
            c
        } else {
            a
        }
    } else if less(a, c) {
        a
    } else if less(b, c) {
        c
    } else {
        b
    };
    items.swap(first, median);
}

/// Divides the entries after the first into those below it and those above; returns where the latter begin.
fn partition<T: Copy + PartialOrd>(items: &mut [T], first: usize, last: usize) -> usize {
    let pivot = items[first];
    let (mut low, mut high) = (first + 1, last);
    loop {
        // NaNs can let either search run on; the bounds end it.
        while low < last && items[low] < pivot {
            low += 1;
        }
        high -= 1;
        while high > first && pivot < items[high] {
            high -= 1;
        }
        if low >= high {
            return low.max(first + 1);
        }
        items.swap(low, high);
        low += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_framework::AttrValue;
    use tfcore_tensor::Tensor;

    #[test]
    fn bounds_of_values() {
        let attrs = [int32(), ("out_type", of(DType::INT64))];
        let inputs = [tensor(&[2, 4], &[1, 3, 3, 5, 2, 4, 6, 8]), tensor(&[2, 2], &[3, 9, 1, 4])];
        let lower = values::<i64>("LowerBound", &attrs, &inputs).unwrap();
        assert_eq!(lower, (vec![2, 2], vec![1, 4, 0, 1]));
        let upper = values::<i64>("UpperBound", &attrs, &inputs).unwrap();
        assert_eq!(upper.1, [3, 4, 0, 2]);
        let empty = [tensor::<i32>(&[1, 0], &[]), tensor(&[1, 1], &[3])];
        assert_eq!(values::<i64>("LowerBound", &attrs, &empty).unwrap().1, [0]);
        assert_eq!(
            failure("LowerBound", &attrs, &[counting(&[3]), counting(&[3])]),
            "Shape must be rank 2 but is rank 1 for `sorted_inputs` argument"
        );
    }

    #[test]
    fn entries_by_rank() {
        let reverse = |reverse: bool| [int32(), ("reverse", AttrValue::Bool(reverse))];
        let rows = || tensor(&[2, 5], &[5, 1, 4, 2, 3, 9, 7, 7, 7, 8]);
        for (n, low, high) in [(0, [1, 7], [5, 9]), (1, [2, 7], [4, 8]), (4, [5, 9], [1, 7])] {
            let inputs = [rows(), Tensor::scalar(n)];
            assert_eq!(values::<i32>("NthElement", &reverse(false), &inputs).unwrap().1, low);
            assert_eq!(values::<i32>("NthElement", &reverse(true), &inputs).unwrap().1, high);
        }
        let inputs = [rows(), Tensor::scalar(5)];
        assert!(failure("NthElement", &reverse(false), &inputs).contains("last dimension > n = 5"));
        assert_eq!(shapes("NthElement", &reverse(false), "[2,?];[]", &[]), "[2]");
    }

    #[test]
    fn selection_agrees_with_sorting() {
        let mut state = 1u32;
        for len in 1..60 {
            let items: Vec<u32> = (0..len)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    state >> 28
                })
                .collect();
            let mut sorted = items.clone();
            sorted.sort_unstable();
            for n in 0..len {
                let mut items = items.clone();
                select(&mut items, n);
                assert_eq!(items[n], sorted[n]);
            }
        }
        let mut nans = vec![f32::NAN; 40];
        select(&mut nans, 20);
        let mut mixed = [f32::NAN, 1.0, 3.0, 2.0];
        select(&mut mixed, 1);
        assert_eq!(mixed[1], 2.0);
    }
}
