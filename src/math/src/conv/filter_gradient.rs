//! The gradient with respect to the filter, as products over pixels.
//!
//! For each filter row it is a product whose depth are the output pixels: its left operand is the source, transposed, which the
//! micro-kernels read as it lies (neighbouring cells and channels are contiguous, pixels a stride apart), each output row a part of
//! the tile's list; its right operand is the output's gradient, packed a chunk of pixels at a time.

use super::pass::{Pass, with_rows};
use crate::gemm::Real;
use crate::gemm::block::{View, even_parts};
use crate::gemm::kernel::Tile;
use crate::gemm::pack;
use crate::pool::{Parallel, SharedMut};
use crate::scratch;

/// Bytes of a panel of the output's gradient that are multiplied at a time.
const PANEL_BYTES: usize = 24 << 10;

/// Bytes of source rows that are prepared together.
const BAND_BYTES: usize = 384 << 10;

/// Groups of channels: how many, and their source and output channels.
#[derive(Clone, Copy)]
pub(super) struct Groups {
    pub(super) count: usize,
    pub(super) source_c: usize,
    pub(super) out_c: usize,
}

/// Writes the gradient of a forward pass's filter, [cells, source channels of a group, output channels].
pub(super) fn run<W: Real>(
    par: Parallel,
    pass: &Pass,
    source: &[W],
    gradient: &[W],
    groups: Groups,
    out: &mut [W],
) {
    let width = W::kernels().panel();
    out.fill(W::ZERO);
    let panels = groups.out_c.div_ceil(width);
    let tasks = pass.row_taps() * groups.count * panels;
    let band = pass.band::<W>(pass.channels, BAND_BYTES, 1);
    // Rows of the output's gradient whose panel stays in the nearest cache.
    let together = (PANEL_BYTES / (pass.w.count * width * size_of::<W>()).max(1)).max(1);
    let base = SharedMut(out.as_mut_ptr());
    let bands = pass.rows().div_ceil(band);
    par.for_each_chunk(tasks, 1, &|indices| {
        for band_index in 0..bands {
            let rows = band_index * band..pass.rows().min((band_index + 1) * band);
            with_rows(pass, source, rows.clone(), pass.channels, None, |starts| {
                scratch::with(together * pass.w.count * width, |panel: &mut [W]| {
                    for (start, len) in even_parts(rows.len(), together) {
                        for task in indices.clone() {
                            let (rest, panel_index) = (task / panels, task % panels);
                            let task = Task {
                                pass,
                                groups,
                                row_tap: rest % pass.row_taps(),
                                group: rest / pass.row_taps(),
                                col: panel_index * width,
                                first: rows.start + start,
                                count: len,
                            };
                            let taps = pass.row_taps();
                            let starts = &starts[start * taps..(start + len) * taps];
                            // SAFETY: the starts are valid for what the taps read; no other thread has these
                            // places of the result.
                            unsafe { task.run(starts, gradient, panel, base.get()) };
                        }
                    }
                });
            });
        }
    });
}

/// A filter row and a panel of output channels, over some rows of pixels.
struct Task<'a> {
    pass: &'a Pass,
    groups: Groups,
    row_tap: usize,
    group: usize,
    col: usize,
    first: usize,
    count: usize,
}

impl Task<'_> {
    /// Adds the products of the task's pixels.
    ///
    /// # Safety
    /// The starts are those of the task's rows; its places in `out` are valid and no other thread's.
    unsafe fn run<W: Real>(
        &self,
        starts: &[*const W],
        gradient: &[W],
        panel: &mut [W],
        out: *mut W,
    ) {
        let (pass, groups, kernels) = (self.pass, self.groups, W::kernels());
        let (width, total_c) = (kernels.panel(), groups.count * groups.out_c);
        let cols = width.min(groups.out_c - self.col);
        let pixels = self.count * pass.w.count;
        let first = self.first * pass.w.count * total_c + self.group * groups.out_c + self.col;
        let data = gradient[first..first + (pixels - 1) * total_c + cols].as_ptr();
        let view = View { data, row: total_c, col: 1 };
        // SAFETY: these pixels and channels lie in the gradient, as just checked.
        unsafe { pack::panel(kernels, view, 0..cols, 0..pixels, panel) };
        let [d, h] = pass.row_cell(self.row_tap);
        // Neighbouring columns of the filter are one run of rows, unless channels are left out between them.
        let taps = &pass.w.taps;
        let adjacent = groups.count == 1 && taps.windows(2).all(|t| t[0].offset + 1 == t[1].offset);
        let (runs, run) = if adjacent { (1, taps.len()) } else { (taps.len(), 1) };
        let functions = kernels.tiles[usize::from(cols > kernels.lanes)];
        let mut parts: Vec<*const W> = Vec::with_capacity(self.count);
        for index in 0..runs {
            let tap = taps[index];
            let cell = (d * pass.h.taps.len() + h) * taps.len() + tap.cell;
            let height = run * groups.source_c;
            let from =
                tap.offset * pass.channels as isize + (self.group * groups.source_c) as isize;
            for (row, rows) in even_parts(height, kernels.rows()) {
                parts.clear();
                let row_taps = pass.row_taps();
                parts.extend(
                    starts
                        .chunks_exact(row_taps)
                        .map(|starts| starts[self.row_tap].wrapping_offset(from).wrapping_add(row)),
                );
                let place = (cell * groups.source_c + row) * total_c;
                let tile = Tile {
                    a: parts.as_ptr(),
                    parts: parts.len(),
                    row_stride: 1,
                    depth_stride: pass.w.stride * pass.channels,
                    depth: pass.w.count,
                    b: panel.as_ptr(),
                    b_stride: width,
                    b_group: 0,
                    c: out.wrapping_add(place + self.group * groups.out_c + self.col),
                    c_stride: total_c,
                    cols,
                    accumulate: true,
                };
                // SAFETY: the caller's promise; the kernel has so many rows.
                unsafe { functions[rows - 1](&tile) };
            }
        }
    }
}
