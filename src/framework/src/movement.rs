//! Moving elements: the loops behind every op that only copies.
//!
//! A loop is written once for any element that can be cloned and instantiated for the five widths of plain
//! elements, strings, handles and variants; the dtype is looked at once per call.

use crate::geometry::StridedView;
use parking_lot::Mutex;
use tfcore_base::DType;
use tfcore_math::isa::vectorize;
use tfcore_math::pool::Parallel;
use tfcore_tensor::{Elems, ElemsMut, ResourceHandle, TString, Variant};

/// A loop that fills `out` with elements of `source`.
pub trait Movement {
    fn run<E: Clone>(self, source: &[E], out: &mut [E]);
}

/// Runs a movement on elements of any dtype; both must be of the same.
pub fn move_elems(source: Elems<'_>, out: ElemsMut<'_>, movement: impl Movement) {
    assert_eq!(source.dtype(), out.dtype(), "movement between unlike elements");
    match out.dtype() {
        DType::STRING => movement.run(source.typed::<TString>(), out.typed()),
        DType::RESOURCE => movement.run(source.typed::<ResourceHandle>(), out.typed()),
        DType::VARIANT => movement.run(source.typed::<Variant>(), out.typed()),
        dtype => match dtype.size() {
            1 => movement.run::<u8>(source.lanes(), out.lanes()),
            2 => movement.run::<u16>(source.lanes(), out.lanes()),
            4 => movement.run::<u32>(source.lanes(), out.lanes()),
            8 => movement.run::<u64>(source.lanes(), out.lanes()),
            _ => movement.run::<[u64; 2]>(source.lanes(), out.lanes()),
        },
    }
}

/// Bytes that a thread should move at least: about the cost of handing over.
const MIN_BYTES: usize = 64 * 1024;

/// Runs `f(first_unit, part)` over consecutive parts of `out` that are multiples of `unit` elements, on
/// several threads if it is worth it.
pub fn for_each_units(
    parallel: Parallel<'_>,
    out: ElemsMut<'_>,
    unit: usize,
    f: &(dyn Fn(usize, ElemsMut<'_>) + Sync),
) {
    let unit = unit.max(1);
    let units = out.len() / unit;
    let parts = (out.len() * out.dtype().size() / MIN_BYTES).min(parallel.threads() * 4).min(units);
    if parallel.threads() == 1 || parts < 2 {
        if units > 0 {
            f(0, out);
        }
        return;
    }
    let step = units.div_ceil(parts);
    let mut cells = Vec::with_capacity(parts);
    let mut rest = out;
    while rest.len() > step * unit {
        let (part, tail) = rest.split_at(step * unit);
        cells.push(Mutex::new(Some(part)));
        rest = tail;
    }
    cells.push(Mutex::new(Some(rest)));
    parallel.for_each_chunk(cells.len(), 1, &|range| {
        for index in range {
            if let Some(part) = cells[index].lock().take() {
                f(index * step, part);
            }
        }
    });
}

/// Fills `out` with the elements of `source` that `view` names.
pub fn copy_view(parallel: Parallel<'_>, source: Elems<'_>, view: &StridedView, out: ElemsMut<'_>) {
    assert_eq!(view.count(), out.len(), "view of another size");
    if out.is_empty() {
        return;
    }
    let last = view.dims().len() - 1;
    let inner = view.innermost();
    if view.is_contiguous() {
        return for_each_units(parallel, out, 1, &|start, part| {
            let first = view.offset + start;
            let range = first..first + part.len();
            part.copy_from(source.slice(range));
        });
    }
    // Where another axis than the innermost is the one with consecutive input elements, rows of several
    // indices along it are written together, so that each cache line of the input is read once.
    let transposed = view.dims()[..last].iter().rposition(|dim| dim.stride == 1);
    match transposed {
        Some(axis) if inner.stride != 0 => {
            let unit = view.dims()[axis + 1..].iter().map(|dim| dim.size).product();
            for_each_units(parallel, out, unit, &|start, part| {
                move_elems(source, part, Transposed { view, axis, start });
            });
        }
        _ => for_each_units(parallel, out, inner.size, &|start, part| {
            move_elems(source, part, Rows { view, start });
        }),
    }
}

/// Writes whole rows of the innermost dimension.
struct Rows<'v> {
    view: &'v StridedView,
    /// The number of the first row.
    start: usize,
}

impl Movement for Rows<'_> {
    fn run<E: Clone>(self, source: &[E], out: &mut [E]) {
        let inner = self.view.innermost();
        let axes = self.view.dims().len() - 1;
        for (row, out) in out.chunks_exact_mut(inner.size).enumerate() {
            let at = self.view.input_index(self.start + row, axes);
            match inner.stride {
                1 => out.clone_from_slice(&source[at..at + inner.size]),
                0 => out.fill(source[at].clone()),
                -1 => {
                    let reversed = source[at + 1 - inner.size..=at].iter().rev();
                    out.iter_mut().zip(reversed).for_each(|(out, value)| out.clone_from(value));
                }
                stride => {
                    for (step, out) in out.iter_mut().enumerate() {
                        let index = at as isize + step as isize * stride;
                        out.clone_from(&source[index as usize]);
                    }
                }
            }
        }
    }
}

/// Replaces the elements of `out` that `view` names, no one twice, by those of `source`, in order.
pub fn write_view(source: Elems<'_>, view: &StridedView, out: ElemsMut<'_>) {
    assert_eq!(view.count(), source.len(), "view of another size");
    if view.count() > 0 {
        move_elems(source, out, IntoRows { view });
    }
}

/// Reads consecutive elements into rows of the innermost dimension.
struct IntoRows<'v> {
    view: &'v StridedView,
}

impl Movement for IntoRows<'_> {
    fn run<E: Clone>(self, source: &[E], out: &mut [E]) {
        let inner = self.view.innermost();
        let axes = self.view.dims().len() - 1;
        for (row, source) in source.chunks_exact(inner.size).enumerate() {
            let at = self.view.input_index(row, axes);
            if inner.stride == 1 {
                out[at..at + inner.size].clone_from_slice(source);
                continue;
            }
            for (step, value) in source.iter().enumerate() {
                let index = at as isize + step as isize * inner.stride;
                out[index as usize].clone_from(value);
            }
        }
    }
}

/// Rows that are written together.
const BLOCK: usize = 8;

/// Writes blocks of rows whose elements are neighbours in the input.
struct Transposed<'v> {
    view: &'v StridedView,
    /// The axis along which the input is consecutive.
    axis: usize,
    /// The number of the first index over the axes up to `axis`.
    start: usize,
}

impl Movement for Transposed<'_> {
    fn run<E: Clone>(self, source: &[E], out: &mut [E]) {
        let dims = self.view.dims();
        let inner = self.view.innermost();
        // What lies between the axis and the innermost dimension.
        let middle = StridedView::new(0, dims[self.axis + 1..dims.len() - 1].iter().copied());
        let middle_axes = middle.dims().len();
        let unit = middle.count() * inner.size;
        let units = out.len() / unit;
        let mut done = 0;
        while done < units {
            let index = self.start + done;
            let left = dims[self.axis].size - index % dims[self.axis].size;
            let rows = BLOCK.min(left).min(units - done);
            let at = self.view.input_index(index, self.axis + 1) as isize;
            let block = &mut out[done * unit..(done + rows) * unit];
            for step in 0..middle.count() {
                let at = at + middle.displacement(step, middle_axes);
                let target = &mut block[step * inner.size..];
                vectorize(
                    #[inline(always)]
                    || transpose_rows(source, at, inner.stride, target, rows, inner.size, unit),
                );
            }
            done += rows;
        }
    }
}

/// `out[row * row_stride + column] = source[at + row + column * stride]` for `rows` rows.
#[inline(always)]
fn transpose_rows<E: Clone>(
    source: &[E],
    at: isize,
    stride: isize,
    out: &mut [E],
    rows: usize,
    columns: usize,
    row_stride: usize,
) {
    let first = |column: usize| (at + column as isize * stride) as usize;
    let mut column = 0;
    while rows == BLOCK && column + BLOCK <= columns {
        let tile: [&[E; BLOCK]; BLOCK] = std::array::from_fn(|k| {
            let start = first(column + k);
            source[start..start + BLOCK].try_into().expect("a slice of that length")
        });
        for row in 0..BLOCK {
            let start = row * row_stride + column;
            let target: &mut [E; BLOCK] =
                (&mut out[start..start + BLOCK]).try_into().expect("a slice of that length");
            for k in 0..BLOCK {
                target[k].clone_from(&tile[k][row]);
            }
        }
        column += BLOCK;
    }
    for column in column..columns {
        let start = first(column);
        for (row, value) in source[start..start + rows].iter().enumerate() {
            out[row * row_stride + column].clone_from(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::StridedDim;
    use tfcore_math::pool::Pool;
    use tfcore_tensor::Shape;

    /// Every element by itself.
    fn naive(source: &[i32], view: &StridedView) -> Vec<i32> {
        let axes = view.dims().len();
        (0..view.count()).map(|index| source[view.input_index(index, axes)]).collect()
    }

    #[test]
    fn views_are_copied_element_by_element() {
        let shape = Shape::new(&[3, 17, 5, 9]).unwrap();
        let source: Vec<i32> = (0..shape.count() as i32).collect();
        let dim = |size, stride| StridedDim { size, stride };
        let mut views = vec![
            StridedView::boxed(&shape, &[1, 2, 3, 4], &[2, 9, 2, 5]),
            StridedView::new(44, [dim(45, -1)]),
            StridedView::new(10, [dim(3, 0), dim(4, 7), dim(5, 0)]),
            StridedView::new(8, [dim(51, 45), dim(5, 9), dim(3, -2)]),
        ];
        for permutation in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 3, 1, 2], [0, 2, 3, 1], [3, 0, 2, 1]] {
            views.push(StridedView::transposed(&shape, &permutation));
        }
        for view in views {
            let mut out = vec![-1; view.count()];
            copy_view(Parallel::SERIAL, Elems::of(&source), &view, ElemsMut::of(&mut out));
            assert_eq!(out, naive(&source, &view), "{view:?}");
        }
    }

    #[test]
    fn what_is_written_into_a_view_is_found_there() {
        let dim = |size, stride| StridedDim { size, stride };
        for view in [
            StridedView::new(3, [dim(4, 10), dim(5, 1)]),
            StridedView::new(39, [dim(4, -10), dim(3, -2)]),
            StridedView::new(7, []),
        ] {
            let source: Vec<i32> = (1..=view.count() as i32).collect();
            let mut out = vec![0; 45];
            write_view(Elems::of(&source), &view, ElemsMut::of(&mut out));
            assert_eq!(naive(&out, &view), source, "{view:?}");
            assert_eq!(out.iter().filter(|&&value| value == 0).count(), 45 - view.count());
        }
    }

    #[test]
    fn threads_share_a_large_view() {
        let pool = Pool::new(3);
        let shape = Shape::new(&[301, 203]).unwrap();
        let source: Vec<i32> = (0..shape.count() as i32).collect();
        let view = StridedView::transposed(&shape, &[1, 0]);
        let mut out = vec![-1; view.count()];
        copy_view(Parallel::new(&pool), Elems::of(&source), &view, ElemsMut::of(&mut out));
        assert_eq!(out, naive(&source, &view));
    }
}
