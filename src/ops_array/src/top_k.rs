//! `TopK`, `TopKV2` and `ApproxTopK`: the largest entries of each row.

use num_traits::Num;
use tfcore_base::{DType, Elem, LoopFor, RealNumbers, Result, TypedLoop, require, try_filled};
use tfcore_framework::movement::{Movement, for_each_units, move_elems};
use tfcore_framework::{InferenceContext, OpContext, Registry, kernel, shape_ops};
use tfcore_tensor::{Dim, Elems, ElemsMut, PartialShape, Shape};

use crate::no_kernel;

pub(crate) fn register(r: &mut Registry) {
    // `TopK(input: T) -> (values: T, indices: int32)`, where `k` is an attr.
    r.op("TopK").shape(|ctx| top_k_shape(ctx, attr_k)).typed_kernel::<Select, RealNumbers>(
        "T",
        |init, select| {
            let k = init.attrs.int("k")?;
            let sorted = init.attrs.bool("sorted")?;
            kernel(move |ctx| top_k(ctx, k, sorted, select))
        },
    );
    // `ApproxTopK(input: T; k) -> (values: T, indices: int32)`: on CPUs the largest entries themselves, in order.
    r.op("ApproxTopK").shape(approx_top_k_shape).typed_kernel::<Select, RealNumbers>(
        "T",
        |init, select| {
            let k = init.attrs.int("k")?;
            let (largest, axis) =
                (init.attrs.bool("is_max_k")?, init.attrs.int("reduction_dimension")?);
            if !largest {
                return Err(no_kernel(init, "is_max_k", largest));
            }
            if axis != -1 {
                return Err(no_kernel(init, "reduction_dimension", axis));
            }
            kernel(move |ctx| top_k(ctx, k, true, select))
        },
    );
    // `TopKV2(input: T, k: Tk) -> (values: T, indices: index_type)`: the `k` largest entries of each row
    // and where they are; of equal ones the first.
    r.op("TopKV2")
        .shape(|ctx| top_k_shape(ctx, |ctx| ctx.operand_dim(1)))
        .typed_kernel::<Select, RealNumbers>("T", |init, select| {
            let sorted = init.attrs.bool("sorted")?;
            kernel(move |ctx| {
                let k = ctx.input(1)?;
                require!(k.rank() == 0, "k must be scalar, got shape {}", k.shape());
                top_k(ctx, k.to_i64s()?[0], sorted, select)
            })
        });
}

/// The shape function of `ApproxTopK` for the attrs for which there are kernels.
fn approx_top_k_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    let axis = ctx.attrs.int("reduction_dimension")?;
    let rank = input.rank().map_or(-1, |rank| rank as i64);
    let axis = if axis < 0 { axis + rank } else { axis };
    require!(
        (0..rank).contains(&axis),
        "Invalid reduction dimension: {}. Must be within the range of [{}, {}]",
        ctx.attrs.int("reduction_dimension")?,
        -rank,
        rank - 1
    );
    let (k, size) = (ctx.attrs.int("k")?, input.dim(axis as usize));
    require!(
        size.to_i64() >= k,
        "input must have last dimension >= k = {k} but was {}",
        size.to_i64()
    );
    let count = match ctx.attrs.bool("aggregate_to_topk")? {
        true => k,
        false => bins(
            size.to_i64(),
            input.rank().unwrap_or(0),
            k,
            ctx.attrs.float("recall_target")?,
            ctx.attrs.int("reduction_input_size_override")?,
        )?,
    };
    let shape = shape_ops::replace_dim(&input, axis, Dim::new(count))?;
    ctx.set_output(0, shape.clone());
    ctx.set_output(1, shape);
    Ok(())
}

/// The number of bins of which each keeps its largest entry, on the accelerators that this op is made for: so many that the expected
/// share of the `k` largest entries among them, `exp((1 - k) / bins)`, reaches the recall.
fn bins(size: i64, rank: usize, k: i64, recall: f32, counted: i64) -> Result<i64> {
    let tile = if rank == 1 { 1024 } else { 128 };
    if size <= tile {
        return Ok(size);
    }
    require!(recall > 0.0 && recall <= 1.0, "recall_target should range in (0, 1]");
    if recall == 1.0 {
        return Ok(size);
    }
    if k == 1 {
        return Ok(tile);
    }
    let wanted = ((1 - k) as f64 / f64::from(recall).ln()) as i64;
    let counted = if counted >= 0 { counted } else { size };
    let tiles = (size + tile - 1) / tile;
    // Entries of so many tiles, a power of two, share a bin.
    let halvings = (counted / wanted.max(tile).min(size)).checked_ilog2().unwrap_or(0);
    let most = (tiles as u64).next_power_of_two().ilog2();
    match halvings.min(most) {
        0 => Ok(size),
        halvings => Ok(((tiles + (1 << halvings) - 1) >> halvings) * tile),
    }
}

fn attr_k(ctx: &InferenceContext<'_>) -> Result<Dim> {
    let k = ctx.attrs.int("k")?;
    require!(k >= 0, "Need k >= 0, got {k}");
    Ok(Dim::new(k))
}

fn top_k_shape(
    ctx: &mut InferenceContext<'_>,
    k: impl Fn(&InferenceContext<'_>) -> Result<Dim>,
) -> Result<()> {
    let input = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    let k = k(ctx)?;
    let last = input.dims().and_then(|dims| dims.last().copied()).unwrap_or(Dim::UNKNOWN);
    if let (Some(k), Some(last)) = (k.value(), last.value()) {
        require!(last >= k, "input must have last dimension >= k = {k} but is {last}");
    }
    let outer = match input.rank() {
        Some(_) => shape_ops::subshape(&input, 0, Some(-1))?,
        None => PartialShape::unknown(),
    };
    let shape = shape_ops::concatenate(&outer, &PartialShape::vector(k));
    ctx.set_output(0, shape.clone());
    ctx.set_output(1, shape);
    Ok(())
}

/// Finds, in one row, the indices of as many of the largest entries as `indices` has room for.
type SelectRow = fn(Elems<'_>, &mut [usize], bool);

struct Select;

impl TypedLoop for Select {
    type Loop = SelectRow;
}

impl<T: Elem + Num + PartialOrd + Copy> LoopFor<T> for Select {
    const LOOP: SelectRow = |row, indices, sorted| select(row.typed::<T>(), indices, sorted);
}

fn top_k(ctx: &OpContext<'_>, k: i64, sorted: bool, select: SelectRow) -> Result<()> {
    let input = ctx.input(0)?;
    require!(k >= 0, "Need k >= 0, got {k}");
    require!(input.rank() >= 1, "input must be >= 1-D, got shape {}", input.shape());
    let columns = input.dim(input.rank() - 1);
    require!(columns as i64 >= k, "input must have at least k columns. Had {columns}, needed {k}");
    let index_type = ctx.output_dtype(1);
    let most = if index_type == DType::INT16 { i16::MAX as usize } else { i32::MAX as usize };
    require!(
        columns <= most || index_type == DType::INT64,
        "{columns} columns are too many for indices of type {index_type}"
    );
    let mut dims = input.shape().dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = k;
    }
    let shape = Shape::new(&dims)?;
    let k = k as usize;
    let mut values = ctx.allocate_output(0, shape.clone())?;
    let mut indices = ctx.allocate_output(1, shape.clone())?;
    if shape.count() > 0 {
        let mut picked = try_filled(0i64, shape.count())?;
        let elems = input.elems();
        let rows = ElemsMut::of(&mut picked);
        // A unit is a row of results, but the work is that of the row it comes from.
        for_each_units(ctx.parallel(), rows, k, &|first, part| {
            let mut chosen = vec![0; k];
            for (number, out) in part.typed::<i64>().chunks_exact_mut(k).enumerate() {
                let start = (first + number) * columns;
                select(elems.slice(start..start + columns), &mut chosen, sorted);
                for (out, &index) in out.iter_mut().zip(&chosen) {
                    *out = index as i64;
                }
            }
        });
        move_elems(elems, values.elems_mut()?, Picked { indices: &picked, k, columns });
        match index_type {
            DType::INT16 => copy_as(&picked, indices.as_mut_slice::<i16>()?, |at| at as i16),
            DType::INT32 => copy_as(&picked, indices.as_mut_slice::<i32>()?, |at| at as i32),
            _ => copy_as(&picked, indices.as_mut_slice::<i64>()?, |at| at),
        }
    }
    ctx.set_output(0, values);
    ctx.set_output(1, indices);
    Ok(())
}

fn copy_as<T>(from: &[i64], to: &mut [T], convert: fn(i64) -> T) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = convert(from);
    }
}

/// Takes, of each row of the input, the entries that were picked.
struct Picked<'p> {
    indices: &'p [i64],
    k: usize,
    columns: usize,
}

impl Movement for Picked<'_> {
    fn run<E: Clone>(self, source: &[E], out: &mut [E]) {
        for (index, (out, &at)) in out.iter_mut().zip(self.indices).enumerate() {
            out.clone_from(&source[index / self.k * self.columns + at as usize]);
        }
    }
}

/// With `sorted`, from the largest down; else in the order of the reference's heap, in which its
/// unsorted results come.
fn select<T: PartialOrd + Copy>(row: &[T], indices: &mut [usize], sorted: bool) {
    let k = indices.len();
    if k == 1 {
        indices[0] = first_maximum(row);
        return;
    }
    // Whether `a` comes before `b`.
    let before = |a: usize, b: usize| {
        if row[b] < row[a] {
            true
        } else if row[b] > row[a] {
            false
        } else {
            a < b
        }
    };
    if k == row.len() {
        for (index, slot) in indices.iter_mut().enumerate() {
            *slot = index;
        }
        // By value alone, and then each run of equal values by index: where there are NaNs, this is not the same as one sort by
        // both.
        sort(indices, &|a, b| row[b] < row[a]);
        for run in indices.chunk_by_mut(|&a, &b| row[a] == row[b]) {
            run.sort_unstable();
        }
        return;
    }
    let mut heap = Heap { items: Vec::with_capacity(k + 1), before };
    for index in 0..row.len() {
        heap.offer(index, k);
    }
    heap.items.truncate(k);
    if sorted {
        heap.sort();
    }
    indices.copy_from_slice(&heap.items);
}

/// Up to this length a list is sorted by insertion.
const SHORT: usize = 16;

/// Sorts by `before`, in the steps of the C++ library's `std::sort`: NaN is neither above nor below a number, so that the outcome
/// depends on which values are compared.
fn sort<F: Fn(usize, usize) -> bool>(items: &mut [usize], before: &F) {
    let depth = 2 * items.len().checked_ilog2().unwrap_or(0);
    partition(items, depth, before);
    for end in 1..items.len() {
        let value = items[end];
        let mut hole = end;
        if end < SHORT && before(value, items[0]) {
            items.copy_within(0..end, 1);
            hole = 0;
        } else {
            while hole > 0 && before(value, items[hole - 1]) {
                items[hole] = items[hole - 1];
                hole -= 1;
            }
        }
        items[hole] = value;
    }
}

/// Brings items near to their places, as quicksort does; gives up on it after `depth` levels.
fn partition<F: Fn(usize, usize) -> bool>(mut items: &mut [usize], depth: u32, before: &F) {
    for depth in (0..=depth).rev() {
        let len = items.len();
        if len <= SHORT {
            return;
        }
        if depth == 0 {
            let mut heap = Heap { items: items.to_vec(), before };
            heap.build();
            heap.sort();
            return items.copy_from_slice(&heap.items);
        }
        median_to_front(items, before);
        let pivot = items[0];
        let (mut low, mut high) = (1, len);
        // Without an order of all items neither end is a bound for the search.
        let cut = loop {
            while low < len && before(items[low], pivot) {
                low += 1;
            }
            high -= 1;
            while high > 0 && before(pivot, items[high]) {
                high -= 1;
            }
            if low >= high {
                break low;
            }
            items.swap(low, high);
            low += 1;
        };
        let (first, second) = items.split_at_mut(cut);
        partition(second, depth - 1, before);
        items = first;
    }
}

/// Exchanges the first item with the median of the second one, the middle one and the last one.
fn median_to_front<F: Fn(usize, usize) -> bool>(items: &mut [usize], before: &F) {
    let (a, b, c) = (1, items.len() / 2, items.len() - 1);
    let is_before = |a: usize, b: usize| before(items[a], items[b]);
    let median = match (is_before(a, b), is_before(b, c), is_before(a, c)) {
        (true, true, _) | (false, false, false) => b,
        (true, false, true) | (false, true, false) => c,
        (true, false, false) | (false, _, true) => a,
    };
    items.swap(0, median);
}

/// True if the value has no place in the order of its type.
fn is_nan<T: PartialOrd + Copy>(value: T) -> bool {
    value.partial_cmp(&value).is_none()
}

fn first_maximum<T: PartialOrd + Copy>(row: &[T]) -> usize {
    let mut best = 0;
    for (index, value) in row.iter().enumerate() {
        // A NaN in the first place gives way to any number.
        if *value > row[best] || (is_nan(row[best]) && !is_nan(*value)) {
            best = index;
        }
    }
    best
}

/// The best `k` of a stream of indices, the worst of them in front. The steps are those of the C++
/// library's heaps: the order of the items is visible in unsorted results and where there are NaNs.
struct Heap<F> {
    items: Vec<usize>,
    before: F,
}

impl<F: Fn(usize, usize) -> bool> Heap<F> {
    fn offer(&mut self, index: usize, k: usize) {
        if self.items.len() <= k {
            self.items.push(index);
            if self.items.len() == k + 1 {
                self.build();
                self.drop_front(k + 1);
            }
        } else if (self.before)(index, self.items[0]) {
            self.items[k] = index;
            self.drop_front(k + 1);
        }
    }

    /// Makes the items a heap.
    fn build(&mut self) {
        for parent in (0..self.items.len() / 2).rev() {
            let value = self.items[parent];
            self.sift(parent, self.items.len(), value);
        }
    }

    /// Turns the heap into a list from the best item down.
    fn sort(&mut self) {
        for len in (2..=self.items.len()).rev() {
            self.drop_front(len);
        }
    }

    /// Moves the worst of the first `len` items behind the others.
    fn drop_front(&mut self, len: usize) {
        let last = len - 1;
        let value = self.items[last];
        self.items[last] = self.items[0];
        self.sift(0, last, value);
    }

    /// Puts `value` into the heap of the first `len` items at the free place `hole`: down to a leaf along
    /// the children that come last, then up again to where it belongs.
    fn sift(&mut self, hole: usize, len: usize, value: usize) {
        let top = hole;
        let mut hole = hole;
        let mut child = hole;
        while child < (len - 1) / 2 {
            child = 2 * (child + 1);
            if (self.before)(self.items[child], self.items[child - 1]) {
                child -= 1;
            }
            self.items[hole] = self.items[child];
            hole = child;
        }
        if len.is_multiple_of(2) && child == (len - 2) / 2 {
            child = 2 * (child + 1);
            self.items[hole] = self.items[child - 1];
            hole = child - 1;
        }
        while hole > top {
            let parent = (hole - 1) / 2;
            if !(self.before)(self.items[parent], value) {
                break;
            }
            self.items[hole] = self.items[parent];
            hole = parent;
        }
        self.items[hole] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_framework::AttrValue;

    #[test]
    fn ties_go_to_the_lower_index() {
        let row = [1.0f32, 3.0, 2.0, 3.0, -1.0, 2.0];
        let cases: [(usize, &[usize]); 4] =
            [(1, &[1]), (2, &[1, 3]), (4, &[1, 3, 2, 5]), (6, &[1, 3, 2, 5, 0, 4])];
        for (k, expected) in cases {
            let mut indices = vec![0; k];
            select(&row, &mut indices, true);
            assert_eq!(indices, expected, "k = {k}");
        }
    }

    #[test]
    fn approximate_results_are_exact() {
        let attrs = |largest: bool, aggregate: bool| {
            [
                ("T", of(DType::FLOAT)),
                ("k", AttrValue::Int(2)),
                ("is_max_k", AttrValue::Bool(largest)),
                ("aggregate_to_topk", AttrValue::Bool(aggregate)),
            ]
        };
        let row = tensor(&[1, 4], &[1.0f32, 4.0, 3.0, 4.0]);
        let found = run("ApproxTopK", &attrs(true, true), std::slice::from_ref(&row)).unwrap();
        assert_eq!(found[0].as_slice::<f32>().unwrap(), [4.0, 4.0]);
        assert_eq!(found[1].as_slice::<i32>().unwrap(), [1, 3]);
        assert!(failure("ApproxTopK", &attrs(false, true), &[row]).contains("is_max_k=\"false\""));
        // The static shapes without aggregation are those of TensorFlow 2.21.
        assert_eq!(shapes("ApproxTopK", &attrs(true, true), "[2,10]", &[]), "[2,2];[2,2]");
        for (input, expected) in [("[2,10]", "[2,10]"), ("[2,1000]", "[2,256]")] {
            let found = shapes("ApproxTopK", &attrs(true, false), input, &[]);
            assert_eq!(found, format!("{expected};{expected}"));
        }
    }

    #[test]
    fn nodes_without_an_attr_that_chooses_the_kernel() {
        let attrs = [("T", of(DType::FLOAT)), ("k", AttrValue::Int(1))];
        let message = failure("TopK", &attrs, &[tensor(&[1], &[1.0f32])]);
        assert!(message.starts_with("OpKernel 'TopK' has constraint on attr 'index_type'"));
    }

    #[test]
    fn the_heap_keeps_the_best() {
        let row: Vec<i32> = (0..1000).map(|i| (i * 7919) % 1009).collect();
        let mut indices = vec![0; 37];
        select(&row, &mut indices, false);
        let mut found: Vec<i32> = indices.iter().map(|&index| row[index]).collect();
        found.sort();
        let mut all = row.clone();
        all.sort();
        assert_eq!(found, all[1000 - 37..]);
    }

    /// Expected values from TensorFlow.
    #[test]
    fn nan_is_sorted_as_in_the_reference() {
        let nan = f32::NAN;
        let long = (0..48).map(|i| if i % 5 == 0 { nan } else { (i * 7 % 31) as f32 }).collect();
        let cases: [(Vec<f32>, &[usize]); 4] = [
            (vec![1.0, nan, 3.0, 2.0], &[2, 0, 1, 3]),
            (vec![nan, 5.0, nan, 1.0, 2.0, 7.0, nan, 3.0], &[0, 1, 2, 5, 4, 3, 6, 7]),
            (vec![3.0, 5.0, nan, 1.0, 2.0, 7.0, nan, 3.0], &[5, 1, 0, 2, 4, 3, 6, 7]),
            (
                long,
                &[
                    22, 26, 30, 35, 4, 40, 13, 44, 17, 8, 39, 21, 43, 45, 12, 3, 34, 16, 47, 7, 38,
                    29, 11, 42, 2, 33, 24, 46, 28, 5, 6, 10, 15, 37, 20, 19, 41, 32, 23, 14, 36,
                    18, 9, 31, 0, 25, 1, 27,
                ],
            ),
        ];
        for (row, expected) in cases {
            let mut indices = vec![0; row.len()];
            select(&row, &mut indices, true);
            assert_eq!(indices, expected, "{row:?}");
        }
    }

    #[test]
    fn nan_is_no_reason_to_fail() {
        let row: Vec<f32> = (0..64).map(|i| if i % 3 == 0 { f32::NAN } else { i as f32 }).collect();
        for k in [1, 5, 64] {
            let mut indices = vec![0; k];
            select(&row, &mut indices, true);
            assert_eq!(indices.iter().collect::<std::collections::HashSet<_>>().len(), k);
        }
    }
}
