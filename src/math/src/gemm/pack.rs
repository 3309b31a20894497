//! Operands copied into the order in which the micro-kernels read them.

use std::ops::Range;

use super::block::View;
use super::kernel::Kernels;
use crate::isa::vectorize;
use crate::pool::{Parallel, par_chunks_mut};
use crate::scratch::{Bits, Buffer};

/// A right operand packed as a whole: panels of columns, in each of them depth by depth the columns of one group of vectors.
pub(crate) struct Panels<U> {
    data: Buffer<U>,
    depth: usize,
    width: usize,
}

impl<U: Bits> Panels<U> {
    /// Packs `n` columns of `depth` units.
    pub(crate) fn new<S>(
        par: Parallel,
        kernels: &Kernels<U, S>,
        depth: usize,
        n: usize,
        pack: &(dyn Fn(Range<usize>, Range<usize>, &mut [U]) + Sync),
    ) -> Panels<U> {
        let width = kernels.panel();
        let mut data = Buffer::zeros(n.div_ceil(width) * depth * width);
        let panel = (depth * width).max(1);
        par_chunks_mut(par, data.as_mut_slice(), panel, panel, &|start, piece| {
            for (i, out) in piece.chunks_exact_mut(panel).enumerate() {
                let col = (start / panel + i) * width;
                pack(col..n.min(col + width), 0..depth, out);
            }
        });
        Panels { data, depth, width }
    }

    /// Where the panel with column `col` has its unit at `depth`. Both lie in the operand, and `col` begins a panel.
    pub(crate) fn place(&self, col: usize, depth: usize) -> *const U {
        self.data.as_slice()[(col / self.width * self.depth + depth) * self.width..].as_ptr()
    }

    /// Units from one panel to the next.
    pub(crate) fn stride(&self) -> usize {
        self.depth * self.width
    }
}

/// Packs columns and depths of a right operand in memory as a panel.
///
/// # Safety
/// These elements of the view are valid.
pub(crate) unsafe fn panel<U: Bits, S>(
    kernels: &Kernels<U, S>,
    view: View<U>,
    cols: Range<usize>,
    depths: Range<usize>,
    out: &mut [U],
) {
    let width = kernels.panel();
    let (count, depth) = (cols.len(), depths.len());
    assert!(count <= width && out.len() >= depth * width, "pack: a panel's buffer");
    let from = view.at(depths.start, cols.start);
    // SAFETY: the elements read are valid by the caller's promise, those written lie in `out`, as just checked.
    unsafe {
        if count < width {
            for row in out.chunks_exact_mut(width).take(depth) {
                row[count..].fill(std::mem::zeroed());
            }
        }
        if from.col == 1 {
            rows(from, depth, count, out.as_mut_ptr(), width);
        } else if from.row == 1 {
            (kernels.transpose)(from.data, from.col, count, depth, out.as_mut_ptr(), width);
        } else {
            rows(from, depth, count, out.as_mut_ptr(), width);
        }
    }
}

/// Copies `rows` rows of `cols` elements to rows with this stride.
///
/// # Safety
/// The elements of the view and of `out` are valid.
pub(crate) unsafe fn rows<U: Bits>(
    from: View<U>,
    rows: usize,
    cols: usize,
    out: *mut U,
    stride: usize,
) {
    vectorize(
        #[inline(always)]
        || {
            for i in 0..rows {
                let (row, out) =
                    (from.data.wrapping_add(i * from.row), out.wrapping_add(i * stride));
                // SAFETY: the caller's promise.
                unsafe {
                    if from.col == 1 {
                        copy(row, cols, out);
                    } else {
                        for j in 0..cols {
                            *out.wrapping_add(j) = *row.wrapping_add(j * from.col);
                        }
                    }
                }
            }
        },
    );
}

/// Copies `count` elements: in vectors, without a call for each of the short runs that panels are made of.
///
/// # Safety
/// Both places are valid for them and do not overlap.
#[inline(always)]
unsafe fn copy<U: Copy>(from: *const U, count: usize, to: *mut U) {
    const RUN: usize = 16;
    // SAFETY: the caller's promise.
    unsafe {
        let mut done = 0;
        while done + RUN <= count {
            let run = from.wrapping_add(done).cast::<[U; RUN]>().read_unaligned();
            to.wrapping_add(done).cast::<[U; RUN]>().write_unaligned(run);
            done += RUN;
        }
        for i in done..count {
            *to.wrapping_add(i) = *from.wrapping_add(i);
        }
    }
}
