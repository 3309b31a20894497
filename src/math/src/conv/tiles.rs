//! Passes as matrix products: tiles of output pixels of one row by panels of output channels.
//!
//! Pixels of an output row are a constant distance apart in the source, and so are the taps of a filter row and their channels
//! contiguous: the source is the left operand of the micro-kernels as it lies there, a filter row a part of the tile's list.

use std::ops::Range;

use super::pass::{Pass, with_rows};
use crate::gemm::block::{View, even_parts};
use crate::gemm::kernel::{Kernels, Tile};
use crate::gemm::pack::{self, Panels};
use crate::gemm::{Epilogue, Real};
use crate::pool::{Parallel, SharedMut};
use crate::scratch;

/// Bytes of source rows that are worked on together: they stay in the second cache.
const BAND_BYTES: usize = 384 << 10;

/// Bytes of a filter's panel that are multiplied at a time: they stay in the nearest cache.
const PANEL_BYTES: usize = 24 << 10;

/// Multiplications that are worth a thread of their own.
const WORK_PER_THREAD: usize = 1 << 17;

/// The filters of a pass.
pub(super) struct Filter<'a, W> {
    pub(super) data: &'a [W],
    /// Where a cell begins, by its place in depth, rows and columns, and the strides of source and output channels.
    pub(super) cell: &'a (dyn Fn([usize; 3]) -> usize + Sync),
    pub(super) row: usize,
    pub(super) col: usize,
    /// Groups of channels; source channels, output channels of a group.
    pub(super) groups: usize,
    pub(super) source_c: usize,
    pub(super) out_c: usize,
    /// From the first output channel of a group to that of the next, in elements of `data`.
    pub(super) group: usize,
}

/// A run of depth: channels under neighbouring taps of a filter row.
struct Run {
    row_tap: usize,
    /// The first column tap, and how many.
    col_tap: usize,
    taps: usize,
}

/// Parts of the depth that one call of a micro-kernel is about.
struct Chunk {
    runs: Range<usize>,
    /// Of each run.
    depths: Range<usize>,
    /// Depth before this chunk.
    before: usize,
}

/// Writes the pass over `source` with `filter` to the pixels of `out` that are the pass's.
pub(super) fn run<W: Real>(
    par: Parallel,
    pass: &Pass,
    source: &[W],
    filter: &Filter<'_, W>,
    out: &mut [W],
    epilogue: Option<&Epilogue<'_, W>>,
) {
    let kernels = W::kernels();
    let width = kernels.panel();
    let adjacent =
        filter.groups == 1 && pass.w.taps.windows(2).all(|t| t[0].offset + 1 == t[1].offset);
    let cols = pass.w.taps.len();
    let (each, runs_a_row) = if adjacent { (cols, 1) } else { (1, cols) };
    let runs: Vec<Run> = (0..pass.row_taps() * runs_a_row)
        .map(|i| Run { row_tap: i / runs_a_row, col_tap: i % runs_a_row * each, taps: each })
        .collect();
    let run_depth = each * filter.source_c;
    let depth = run_depth * runs.len();
    if depth == 0 {
        return pass.zero(filter.groups * filter.out_c, out);
    }
    let chunks = chunks(runs.len(), run_depth, PANEL_BYTES / (width * size_of::<W>()));
    let work = pass.rows() * pass.w.count * depth * filter.out_c * filter.groups;
    let bands = if par.threads() > 1 { (2 * par.threads()).min(work / WORK_PER_THREAD) } else { 1 };
    let band = pass.band::<W>(pass.channels, BAND_BYTES, bands);
    let pack = |group: usize, cols: Range<usize>, depths: Range<usize>, to: &mut [W]| {
        pack_filter(kernels, pass, filter, &runs, group, cols, depths, to);
    };
    // Several bands would each pack the filter.
    let packed: Vec<Panels<W>> = if pass.rows() > band {
        (0..filter.groups)
            .map(|group| {
                Panels::new(par, kernels, depth, filter.out_c, &|cols, depths, to| {
                    pack(group, cols, depths, to);
                })
            })
            .collect()
    } else {
        vec![]
    };
    let total_c = filter.out_c * filter.groups;
    let base = SharedMut(out.as_mut_ptr());
    par.for_each_chunk(pass.rows().div_ceil(band), 1, &|indices| {
        for index in indices {
            let rows = index * band..pass.rows().min((index + 1) * band);
            with_rows(pass, source, rows.clone(), pass.channels, None, |starts| {
                scratch::with(width * longest(&chunks), |panel: &mut [W]| {
                    for group in 0..filter.groups {
                        for col in (0..filter.out_c).step_by(width) {
                            let columns = col..filter.out_c.min(col + width);
                            for (number, chunk) in chunks.iter().enumerate() {
                                let depths = chunk.before..chunk.before + chunk.len();
                                let b = match packed.get(group) {
                                    Some(panels) => panels.place(col, chunk.before),
                                    None => {
                                        pack(group, columns.clone(), depths, panel);
                                        panel.as_ptr()
                                    }
                                };
                                let step = Step {
                                    pass,
                                    runs: &runs[chunk.runs.clone()],
                                    source: group * filter.source_c + chunk.depths.start,
                                    depth: chunk.depths.len(),
                                    b,
                                    out_col: group * filter.out_c + col,
                                    cols: columns.len(),
                                    total_c,
                                    accumulate: number > 0,
                                    epilogue: epilogue.filter(|_| number + 1 == chunks.len()),
                                };
                                for (row, starts) in
                                    rows.clone().zip(starts.chunks_exact(pass.row_taps().max(1)))
                                {
                                    // SAFETY: the starts are valid for what the taps read; the rows of the result
                                    // are this task's.
                                    unsafe { step.row(kernels, row, starts, base.get()) };
                                }
                            }
                        }
                    }
                });
            });
        }
    });
}

impl Chunk {
    fn len(&self) -> usize {
        self.runs.len() * self.depths.len()
    }
}

fn longest(chunks: &[Chunk]) -> usize {
    chunks.iter().map(Chunk::len).max().unwrap_or(0)
}

/// Cuts the depth into chunks of about `most`: several runs, or parts of one.
fn chunks(runs: usize, run_depth: usize, most: usize) -> Vec<Chunk> {
    let mut chunks = vec![];
    if run_depth <= most {
        let together = (most / run_depth.max(1)).max(1);
        for (start, len) in even_parts(runs, together) {
            let before = start * run_depth;
            chunks.push(Chunk { runs: start..start + len, depths: 0..run_depth, before });
        }
    } else {
        for run in 0..runs {
            for (start, len) in even_parts(run_depth, most) {
                let before = run * run_depth + start;
                chunks.push(Chunk { runs: run..run + 1, depths: start..start + len, before });
            }
        }
    }
    chunks
}

/// Packs columns and depths of the filter, whose rows are the runs' taps and their channels.
fn pack_filter<W: Real>(
    kernels: &Kernels<W, W>,
    pass: &Pass,
    filter: &Filter<'_, W>,
    runs: &[Run],
    group: usize,
    cols: Range<usize>,
    depths: Range<usize>,
    out: &mut [W],
) {
    let channels = filter.source_c;
    let mut depth = depths.start;
    while depth < depths.end {
        let (tap, channel) = (depth / channels, depth % channels);
        let run = &runs[tap / runs[0].taps];
        let [d, h] = pass.row_cell(run.row_tap);
        let w = pass.w.taps[run.col_tap + tap % runs[0].taps].cell;
        let first = (filter.cell)([d, h, w]) + group * filter.group;
        let end = depths.end.min(depth - channel + channels);
        // Every element of the cell lies in the filter, which the slicing checks.
        let last = first + (channels - 1) * filter.row + (filter.out_c - 1) * filter.col;
        let data = filter.data[first..=last].as_ptr();
        let view = View { data, row: filter.row, col: filter.col };
        let to = &mut out[(depth - depths.start) * kernels.panel()..];
        // SAFETY: rows and columns lie in the cell.
        unsafe { pack::panel(kernels, view, cols.clone(), channel..channel + end - depth, to) };
        depth = end;
    }
}

/// The multiplication of some depth with a panel.
struct Step<'a, W> {
    pass: &'a Pass,
    runs: &'a [Run],
    /// The first element of a pixel that meets the depth.
    source: usize,
    depth: usize,
    b: *const W,
    out_col: usize,
    cols: usize,
    total_c: usize,
    accumulate: bool,
    epilogue: Option<&'a Epilogue<'a, W>>,
}

impl<W: Real> Step<'_, W> {
    /// Computes an output row, given the source rows under it.
    ///
    /// # Safety
    /// The starts are those of the row; its pixels of `out` are valid, and no other thread's.
    unsafe fn row(&self, kernels: &Kernels<W, W>, row: usize, starts: &[*const W], out: *mut W) {
        let pass = self.pass;
        let pixel = pass.channels;
        let first = pass.out_pixel(row);
        let functions = kernels.tiles[usize::from(self.cols > kernels.lanes)];
        let step = pass.w.stride * pixel;
        let mut parts: Vec<*const W> = self
            .runs
            .iter()
            .map(|run| {
                let offset = pass.w.taps[run.col_tap].offset * pixel as isize;
                starts[run.row_tap].wrapping_offset(offset).wrapping_add(self.source)
            })
            .collect();
        for (col, height) in even_parts(pass.w.count, kernels.rows()) {
            let place = (first + col * pass.w.step) * self.total_c + self.out_col;
            let c = out.wrapping_add(place);
            let c_stride = pass.w.step * self.total_c;
            let tile = Tile {
                a: parts.as_ptr(),
                parts: parts.len(),
                row_stride: step,
                depth_stride: 1,
                depth: self.depth,
                b: self.b,
                b_stride: kernels.panel(),
                b_group: 0,
                c,
                c_stride,
                cols: self.cols,
                accumulate: self.accumulate,
            };
            // SAFETY: the caller's promise.
            unsafe { functions[height - 1](&tile) };
            parts.iter_mut().for_each(|part| *part = part.wrapping_add(height * step));
            if let Some(epilogue) = self.epilogue {
                for i in 0..height {
                    // SAFETY: the elements that were just written.
                    let run = unsafe {
                        std::slice::from_raw_parts_mut(c.wrapping_add(i * c_stride), self.cols)
                    };
                    epilogue.apply(first + (col + i) * pass.w.step, self.out_col, run);
                }
            }
        }
    }
}
