//! Products cut into blocks and tiles: what lies between the interface and the micro-kernels.
//!
//! A product is a grid of blocks, each one thread's work. Within a block the depth goes in chunks, so that a panel of `b`, a
//! group of vectors wide, stays in the nearest cache while all rows of the block are multiplied with it. `a` stays where it is or is
//! copied (if its rows would meet in the same lines of the cache, or its elements are to be converted); panels of `b` are
//! packed when their turn comes, unless the caller has them packed.

use std::ops::Range;

use super::kernel::{DOT_COLS, DOT_ROWS, Dots, Kernels, Tile, WIDE_GROUPS, WIDE_ROWS};
use super::pack::{self, Panels};
use crate::pool::Parallel;
use crate::scratch::{self, Bits};

/// Multiplications that are worth a thread of their own.
const WORK_PER_THREAD: usize = 1 << 17;

/// Rows of a block: as many of `a` as the second cache holds, at one chunk of depth.
const BLOCK_ROWS: usize = 512;

/// Columns of a block whose sums are kept apart from `c`.
const BLOCK_COLS: usize = 512;

/// Bytes of a panel of `b` at one chunk of depth, for a nearest cache of 32 or 48 KiB.
const PANEL_BYTES: usize = 24 << 10;

/// Depth of a chunk whose `b` is read but once.
const LONGEST_CHUNK: usize = 4096;

/// Rows or columns up to which a product with contiguous depth is made of dot products.
const DOT_EXTENT: usize = 8;

/// Depth from which it is.
const DOT_DEPTH: usize = 64;

/// A matrix in memory: element (i, j) at `data[i · row + j · col]`.
#[derive(Clone, Copy)]
pub(crate) struct View<U> {
    pub(crate) data: *const U,
    pub(crate) row: usize,
    pub(crate) col: usize,
}

// SAFETY: views are read only, and their elements are plain.
unsafe impl<U: Bits> Sync for View<U> {}
// SAFETY: as above.
unsafe impl<U: Bits> Send for View<U> {}

impl<U> View<U> {
    /// The view from element (i, j) on.
    pub(crate) fn at(self, i: usize, j: usize) -> View<U> {
        View { data: self.data.wrapping_add(i * self.row + j * self.col), ..self }
    }

    pub(crate) fn transposed(self) -> View<U> {
        View { row: self.col, col: self.row, ..self }
    }
}

/// Writes rows and depths of a product's `a` to a dense buffer with this row stride. All of these functions get the product's number.
pub(crate) type PackRows<'a, U> =
    &'a (dyn Fn(usize, Range<usize>, Range<usize>, &mut [U], usize) + Sync);

/// Writes columns and depths of `b` as a panel: for each depth the columns, and zeros up to the panel's width.
pub(crate) type PackPanel<'a, U> = &'a (dyn Fn(usize, Range<usize>, Range<usize>, &mut [U]) + Sync);

/// Takes a finished block: its rows, its columns, the sums and their row stride.
pub(crate) type TakeBlock<'a, S> =
    &'a (dyn Fn(usize, Range<usize>, Range<usize>, &mut [S], usize) + Sync);

/// Changes finished sums of one row, from this row and column on.
pub(crate) type FinishRow<'a, S> = &'a (dyn Fn(usize, usize, &mut [S]) + Sync);

/// The left operand, [m, depth].
#[derive(Clone, Copy)]
pub(crate) enum Left<'a, U> {
    InPlace(View<U>),
    Packed(PackRows<'a, U>),
}

/// The right operand, [depth, n].
#[derive(Clone, Copy)]
pub(crate) enum Right<'a, U> {
    InPlace(View<U>),
    Packed(PackPanel<'a, U>),
    Panels(&'a Panels<U>),
}

/// The result, [m, n].
#[derive(Clone, Copy)]
pub(crate) enum Target<'a, S> {
    /// Rows of contiguous elements.
    Rows { data: *mut S, stride: usize, accumulate: bool, finish: Option<FinishRow<'a, S>> },
    /// Sums that go elsewhere, a block at a time.
    Blocks(TakeBlock<'a, S>),
}

/// One product.
///
/// Invariant: the places that it names are valid, and no one else touches those of the target meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Product<'a, U, S> {
    /// The number of the product in its batch.
    pub(crate) index: usize,
    pub(crate) m: usize,
    pub(crate) n: usize,
    /// In units; at least 1.
    pub(crate) depth: usize,
    pub(crate) left: Left<'a, U>,
    pub(crate) right: Right<'a, U>,
    pub(crate) target: Target<'a, S>,
}

// SAFETY: threads read the operands and write disjoint blocks of the target, all of plain elements.
unsafe impl<U: Bits, S: Bits> Sync for Product<'_, U, S> {}

/// Computes `count` products, all of the same extents and kinds of operands, given by their numbers.
///
/// A right operand that several blocks read is packed first.
pub(crate) fn run<'a, U: Bits, S: Bits>(
    par: Parallel,
    kernels: &'static Kernels<U, S>,
    count: usize,
    product: &(dyn Fn(usize) -> Product<'a, U, S> + Sync),
) {
    let like = product(0);
    if like.m <= BLOCK_ROWS || like.n <= DOT_EXTENT || matches!(like.right, Right::Panels(_)) {
        return run_blocks(par, kernels, count, product);
    }
    for index in 0..count {
        let product = product(index);
        let panels = Panels::new(par, kernels, like.depth, like.n, &|cols, depths, out| {
            // SAFETY: the invariant of `Product`.
            unsafe { pack_panel(kernels, &product, cols, depths, out) };
        });
        let product = Product { right: Right::Panels(&panels), ..product };
        run_blocks(par, kernels, 1, &|_| product);
    }
}

/// Packs columns and depths of a right operand that is not packed yet.
///
/// # Safety
/// The invariant of [`Product`].
unsafe fn pack_panel<U: Bits, S: Bits>(
    kernels: &'static Kernels<U, S>,
    product: &Product<'_, U, S>,
    cols: Range<usize>,
    depths: Range<usize>,
    out: &mut [U],
) {
    match product.right {
        // SAFETY: the caller's promise.
        Right::InPlace(view) => unsafe { pack::panel(kernels, view, cols, depths, out) },
        Right::Packed(pack) => pack(product.index, cols, depths, out),
        Right::Panels(_) => unreachable!("panels are not packed again"),
    }
}

/// Computes the blocks of all products as one loop over the threads.
fn run_blocks<'a, U: Bits, S: Bits>(
    par: Parallel,
    kernels: &'static Kernels<U, S>,
    count: usize,
    product: &(dyn Fn(usize) -> Product<'a, U, S> + Sync),
) {
    let like = product(0);
    let grid = Grid::new(par, kernels, &like, count);
    let blocks = grid.row_blocks * grid.col_blocks;
    let work = grid.rows.saturating_mul(grid.cols).saturating_mul(like.depth);
    let grain = WORK_PER_THREAD / work.max(1);
    par.for_each_chunk(count * blocks, grain, &|indices| {
        for index in indices {
            let product = product(index / blocks);
            let (i, j) = (index % blocks / grid.col_blocks, index % blocks % grid.col_blocks);
            let rows = i * grid.rows..product.m.min((i + 1) * grid.rows);
            let cols = j * grid.cols..product.n.min((j + 1) * grid.cols);
            if !rows.is_empty() && !cols.is_empty() {
                // SAFETY: the invariant of `Product`; blocks are disjoint.
                unsafe { block(kernels, &product, rows, cols) };
            }
        }
    });
}

/// How a product is cut into blocks of so many rows and columns.
struct Grid {
    rows: usize,
    cols: usize,
    row_blocks: usize,
    col_blocks: usize,
}

impl Grid {
    fn new<U, S>(
        par: Parallel,
        kernels: &Kernels<U, S>,
        p: &Product<'_, U, S>,
        count: usize,
    ) -> Grid {
        let limit = if matches!(p.target, Target::Blocks(_)) { BLOCK_COLS } else { usize::MAX };
        let mut row_blocks = p.m.div_ceil(BLOCK_ROWS);
        let mut col_blocks = p.n.div_ceil(limit);
        let work = p.m.saturating_mul(p.n).saturating_mul(p.depth).saturating_mul(count);
        let wanted = if par.threads() == 1 {
            1
        } else {
            // A few for each thread, so that a slow one does not hold up the others.
            par.threads().saturating_mul(2).min(work / WORK_PER_THREAD).div_ceil(count.max(1))
        };
        let (least_rows, least_cols) = (kernels.rows(), kernels.panel());
        while row_blocks * col_blocks < wanted {
            let (rows, cols) = (p.m.div_ceil(row_blocks), p.n.div_ceil(col_blocks));
            if rows > least_rows && (rows >= cols || cols <= least_cols) {
                row_blocks += 1;
            } else if cols > least_cols {
                col_blocks += 1;
            } else {
                break;
            }
        }
        let cols = p.n.div_ceil(col_blocks).next_multiple_of(least_cols);
        Grid { rows: p.m.div_ceil(row_blocks), cols, row_blocks, col_blocks }
    }
}

/// Computes the sums of these rows and columns.
///
/// # Safety
/// The invariant of [`Product`]; these rows and columns of the target are the caller's.
unsafe fn block<U: Bits, S: Bits>(
    kernels: &'static Kernels<U, S>,
    p: &Product<'_, U, S>,
    rows: Range<usize>,
    cols: Range<usize>,
) {
    match p.target {
        Target::Rows { data, stride, accumulate, finish } => {
            let c = data.wrapping_add(rows.start * stride + cols.start);
            let row_finish = |i: usize, j: usize, count: usize| {
                if let Some(finish) = finish {
                    let place = c.wrapping_add(i * stride + j);
                    // SAFETY: these are elements of the block.
                    let row = unsafe { std::slice::from_raw_parts_mut(place, count) };
                    finish(rows.start + i, cols.start + j, row);
                }
            };
            let out = Sums { c, stride, accumulate };
            // SAFETY: the caller's promise.
            unsafe { sums(kernels, p, rows.clone(), cols.clone(), out, &row_finish) };
        }
        Target::Blocks(take) => {
            let stride = cols.len().next_multiple_of(kernels.panel());
            scratch::with(rows.len() * stride, |buffer: &mut [S]| {
                let out = Sums { c: buffer.as_mut_ptr(), stride, accumulate: false };
                // SAFETY: the caller's promise; the buffer has a place for each sum.
                unsafe { sums(kernels, p, rows.clone(), cols.clone(), out, &|_, _, _| {}) };
                take(p.index, rows, cols, buffer, stride);
            });
        }
    }
}

/// Where the sums of a block go.
#[derive(Clone, Copy)]
struct Sums<S> {
    c: *mut S,
    stride: usize,
    accumulate: bool,
}

/// Computes the sums of a block; calls `finish(row, column, count)`, counted from the block's first, for each run of finished ones.
///
/// # Safety
/// As for [`block`]; `out` has a place for each sum.
unsafe fn sums<U: Bits, S: Bits>(
    kernels: &'static Kernels<U, S>,
    p: &Product<'_, U, S>,
    rows: Range<usize>,
    cols: Range<usize>,
    out: Sums<S>,
    finish: &dyn Fn(usize, usize, usize),
) {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        if let (Left::InPlace(a), Right::InPlace(b)) = (p.left, p.right)
            && p.depth >= DOT_DEPTH
            && dots(kernels, p.depth, rows.clone(), cols.clone(), a, b, out)
        {
            for i in 0..rows.len() {
                finish(i, 0, cols.len());
            }
            return;
        }
        tiles(kernels, p, rows, cols, out, finish);
    }
}

/// Computes a block of few rows or columns as dot products, if the depth is contiguous in the larger operand. True if so.
///
/// # Safety
/// As for [`sums`].
unsafe fn dots<U: Bits, S: Bits>(
    kernels: &'static Kernels<U, S>,
    depth: usize,
    rows: Range<usize>,
    cols: Range<usize>,
    a: View<U>,
    b: View<U>,
    out: Sums<S>,
) -> bool {
    let (m, n) = (rows.len(), cols.len());
    let (a, b) = (a.at(rows.start, 0), b.at(0, cols.start).transposed());
    // A single row or column has the stride that suits.
    let contiguous = |view: View<U>| view.col == 1;
    let run = |a: View<U>, b: View<U>| {
        let tile = |i: usize, j: usize| {
            let height = DOT_ROWS.min(m - i);
            let mut j = j;
            let end = n.min(j + DOT_COLS);
            while j < end {
                let wide = end - j == DOT_COLS;
                // SAFETY: the caller's promise: rows, columns and depth lie in the operands.
                unsafe {
                    kernels.dots[height - 1][usize::from(wide)](&Dots {
                        a: a.at(i, 0).data,
                        a_stride: a.row,
                        b: b.at(j, 0).data,
                        b_stride: b.row,
                        depth,
                        c: out.c.wrapping_add(i * out.stride + j),
                        c_row: out.stride,
                        c_col: 1,
                        accumulate: out.accumulate,
                    });
                }
                j += if wide { DOT_COLS } else { 1 };
            }
        };
        // The larger operand is read once.
        if m <= n {
            for j in (0..n).step_by(DOT_COLS) {
                (0..m).step_by(DOT_ROWS).for_each(|i| tile(i, j));
            }
        } else {
            for i in (0..m).step_by(DOT_ROWS) {
                (0..n).step_by(DOT_COLS).for_each(|j| tile(i, j));
            }
        }
    };
    // The smaller one may have to be copied.
    let copied = |view: View<U>, count: usize, f: &dyn Fn(View<U>)| {
        if contiguous(view) {
            return f(view);
        }
        scratch::with(count * depth, |buffer: &mut [U]| {
            // SAFETY: the elements of the view are valid, and the buffer has room for them.
            unsafe { pack::rows(view, count, depth, buffer.as_mut_ptr(), depth) };
            f(View { data: buffer.as_ptr(), row: depth, col: 1 });
        });
    };
    if m <= DOT_EXTENT && m <= n && contiguous(b) {
        copied(a, m, &|a| run(a, b));
    } else if n <= DOT_EXTENT && n <= m && contiguous(a) {
        copied(b, n, &|b| run(a, b));
    } else {
        return false;
    }
    true
}

/// Computes a block tile by tile.
///
/// # Safety
/// As for [`sums`].
unsafe fn tiles<U: Bits, S: Bits>(
    kernels: &'static Kernels<U, S>,
    p: &Product<'_, U, S>,
    rows: Range<usize>,
    cols: Range<usize>,
    out: Sums<S>,
    finish: &dyn Fn(usize, usize, usize),
) {
    let (m, n, width) = (rows.len(), cols.len(), kernels.panel());
    let tiles = m.div_ceil(kernels.rows());
    // Rows are read in place by few tiles; packing would cost more than it saves.
    let in_place = |view: View<U>| view.col == 1 && tiles <= 2;
    let once = tiles == 1
        && match p.right {
            Right::InPlace(view) => in_place(view),
            Right::Packed(_) => false,
            Right::Panels(_) => true,
        };
    let longest = if once { LONGEST_CHUNK } else { PANEL_BYTES / (width * size_of::<U>()) };
    let chunk = p.depth.div_ceil(p.depth.div_ceil(longest));
    let copy = match p.left {
        Left::InPlace(view) => is_awkward(view, m, n, width),
        Left::Packed(_) => true,
    };
    // Room for either order.
    let by_row = m * copied_stride::<U>(chunk);
    let copied = if copy { by_row.max(chunk * copied_stride::<U>(m)) } else { 0 };
    scratch::with(width * chunk, |panel: &mut [U]| {
        scratch::with(copied, |copied: &mut [U]| {
            for start in (0..p.depth).step_by(chunk) {
                let depths = start..p.depth.min(start + chunk);
                let a = match p.left {
                    Left::InPlace(view) if copy => {
                        // SAFETY: the invariant of `Product`.
                        unsafe { copy_rows(view.at(rows.start, start), m, depths.len(), copied) }
                    }
                    Left::InPlace(view) => view.at(rows.start, start),
                    Left::Packed(pack) => {
                        let stride = copied_stride::<U>(depths.len());
                        pack(p.index, rows.clone(), depths.clone(), copied, stride);
                        View { data: copied.as_ptr(), row: stride, col: 1 }
                    }
                };
                let mut col = 0;
                while col < n {
                    let wide = WIDE_GROUPS * width;
                    let b = match p.right {
                        Right::InPlace(view) if in_place(view) && n - col >= width => {
                            let view = view.at(start, cols.start + col);
                            Columns { data: view.data, stride: view.row, group: width }
                        }
                        Right::Panels(panels) => {
                            let data = panels.place(cols.start + col, start);
                            Columns { data, stride: width, group: panels.stride() }
                        }
                        _ => {
                            let part = cols.start + col..cols.end.min(cols.start + col + width);
                            // SAFETY: the invariant of `Product`.
                            unsafe { pack_panel(kernels, p, part, depths.clone(), panel) };
                            Columns { data: panel.as_ptr(), stride: width, group: 0 }
                        }
                    };
                    let groups = if m <= WIDE_ROWS && b.group > 0 && n - col >= wide {
                        WIDE_GROUPS
                    } else {
                        1
                    };
                    let count = (n - col).min(groups * width);
                    let part = Part {
                        depth: depths.len(),
                        groups,
                        col,
                        count,
                        accumulate: out.accumulate || start > 0,
                        last: depths.end == p.depth,
                    };
                    // SAFETY: rows and columns lie in the operands.
                    unsafe { column_of_tiles(kernels, m, &part, a, b, out, finish) };
                    col += count;
                }
            }
        });
    });
}

/// Columns of `b` from one depth on, as [`Tile`] has them.
struct Columns<U> {
    data: *const U,
    stride: usize,
    group: usize,
}

/// The columns and the chunk of depth that a column of tiles is about.
struct Part {
    depth: usize,
    groups: usize,
    col: usize,
    count: usize,
    accumulate: bool,
    last: bool,
}

/// Multiplies all rows of a block with a panel.
///
/// # Safety
/// As for [`tiles`].
unsafe fn column_of_tiles<U: Bits, S: Bits>(
    kernels: &'static Kernels<U, S>,
    m: usize,
    part: &Part,
    a: View<U>,
    b: Columns<U>,
    out: Sums<S>,
    finish: &dyn Fn(usize, usize, usize),
) {
    let vectors = part.count.div_ceil(kernels.lanes).min(kernels.tiles.len());
    let functions = if part.groups > 1 { kernels.wide } else { kernels.tiles[vectors - 1] };
    for (row, height) in even_parts(m, kernels.rows()) {
        let place = a.at(row, 0).data;
        let tile = Tile {
            a: &place,
            parts: 1,
            row_stride: a.row,
            depth_stride: a.col,
            depth: part.depth,
            b: b.data,
            b_stride: b.stride,
            b_group: b.group,
            c: out.c.wrapping_add(row * out.stride + part.col),
            c_stride: out.stride,
            cols: part.count,
            accumulate: part.accumulate,
        };
        // SAFETY: the caller's promise; the kernel has `height` rows.
        unsafe { functions[height - 1](&tile) };
        if part.last {
            for i in row..row + height {
                finish(i, part.col, part.count);
            }
        }
    }
}

/// Cuts `extent` into as few parts of at most `most` as there can be, of nearly one size: (start, length).
pub(crate) fn even_parts(extent: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let parts = extent.div_ceil(most);
    let (len, longer) = (extent / parts.max(1), extent % parts.max(1));
    (0..parts).map(move |i| (i * len + i.min(longer), len + usize::from(i < longer)))
}

/// True if a left operand that is read for each panel of columns had better be copied.
fn is_awkward<U>(view: View<U>, m: usize, n: usize, width: usize) -> bool {
    if n <= 2 * width {
        return false;
    }
    let bytes = |stride: usize| stride.saturating_mul(size_of::<U>());
    if view.col == 1 {
        // Rows that meet in the same lines of the nearest cache, or more pages than there are translations for.
        m > 4 && (bytes(view.row) % 1024 == 0 || bytes(view.row) > 1 << 14)
    } else if view.row == 1 {
        bytes(view.col) >= 512
    } else {
        true
    }
}

/// The row stride of copied rows: no multiple of what would make them meet in the nearest cache.
fn copied_stride<U>(len: usize) -> usize {
    let line = 64 / size_of::<U>();
    let lines = len.div_ceil(line);
    (lines | 1) * line
}

/// Copies rows and depths to a buffer, in the order that is contiguous in memory.
///
/// # Safety
/// These elements of the view are valid.
unsafe fn copy_rows<U: Bits>(view: View<U>, m: usize, depth: usize, out: &mut [U]) -> View<U> {
    let by_depth = view.row == 1 && view.col != 1;
    let (from, rows, cols) =
        if by_depth { (view.transposed(), depth, m) } else { (view, m, depth) };
    let stride = copied_stride::<U>(cols);
    assert!(out.len() >= rows * stride, "product: a buffer for copied rows");
    // SAFETY: the caller's promise, and the buffer is as long as just checked.
    unsafe { pack::rows(from, rows, cols, out.as_mut_ptr(), stride) };
    let copied = View { data: out.as_ptr(), row: stride, col: 1 };
    if by_depth { copied.transposed() } else { copied }
}
