//! The micro-kernels of matrix products, written once for all instruction sets and element types.
//!
//! A kernel computes a tile of `c`, up to twelve rows by two vectors, keeps it in registers, and walks down the
//! depth of the product: a row of `b` is loaded as vectors, each element of a column of `a` is broadcast and multiplied with
//! them. `a` is read where it lies, with any strides; `b` where its rows are contiguous, or packed (see `pack`).
//!
//! Elements of `a` and `b` come in units: the elements of successive depths that one instruction multiplies and sums, which is one
//! element for f32 and f64, two for bfloat16 and four for bytes.

use std::mem::MaybeUninit;

use crate::conv::strip::{PIXELS, StripFn};

/// Vectors of a group of columns: a packed panel of `b` is one group wide.
pub(crate) const GROUP: usize = 2;

/// Groups that a wide kernel has, for products of so few rows that one group would leave the multipliers waiting.
pub(crate) const WIDE_GROUPS: usize = 4;

/// The rows that a wide kernel can have at most.
pub(crate) const WIDE_ROWS: usize = 3;

/// An instruction set's way to multiply and sum one type.
///
/// # Safety
/// The functions may be called where the instruction set is enabled only; pointers must be valid for what is read and written.
pub(crate) unsafe trait Machine: Copy + 'static {
    /// The factors that meet in one lane.
    type Unit: Copy;
    /// The type of the sums.
    type Sum: Copy;
    /// A vector of factors.
    type Factors: Copy;
    /// A vector of sums.
    type Sums: Copy;

    /// Sums in a vector, and units.
    const LANES: usize;
    unsafe fn zero() -> Self::Sums;
    /// The unit at `p` in each lane.
    unsafe fn broadcast(p: *const Self::Unit) -> Self::Factors;
    unsafe fn factors(p: *const Self::Unit) -> Self::Factors;
    /// The first `count < LANES` units at `p`, zeros behind them, which are not read.
    unsafe fn first_factors(p: *const Self::Unit, count: usize) -> Self::Factors;
    unsafe fn sums(p: *const Self::Sum) -> Self::Sums;
    unsafe fn first_sums(p: *const Self::Sum, count: usize) -> Self::Sums;
    unsafe fn store(p: *mut Self::Sum, sums: Self::Sums);
    /// Writes the first `count < LANES` sums.
    unsafe fn store_first(p: *mut Self::Sum, count: usize, sums: Self::Sums);
    /// `sums + a · b` in each lane.
    unsafe fn multiply_add(sums: Self::Sums, a: Self::Factors, b: Self::Factors) -> Self::Sums;
    unsafe fn add(x: Self::Sums, y: Self::Sums) -> Self::Sums;
    /// The sum of all lanes.
    unsafe fn total(sums: Self::Sums) -> Self::Sum;
}

/// A tile of `c = Σ a · b`, over a list of places in `a`.
///
/// The list is what makes a convolution a product: each entry is where the patches of the tile begin for one part of the
/// filter, and the rows of `b` continue from one entry to the next.
pub(crate) struct Tile<U, S> {
    /// Where row 0, depth 0 of `a` lies, for each part.
    pub(crate) a: *const *const U,
    pub(crate) parts: usize,
    /// Steps in `a`, in units.
    pub(crate) row_stride: usize,
    pub(crate) depth_stride: usize,
    /// Units of depth in each part.
    pub(crate) depth: usize,
    pub(crate) b: *const U,
    /// From one depth of `b` to the next, and from one group of columns to the next, in units.
    pub(crate) b_stride: usize,
    pub(crate) b_group: usize,
    pub(crate) c: *mut S,
    pub(crate) c_stride: usize,
    /// Columns of `c` that are written.
    pub(crate) cols: usize,
    /// True if the sums are added to `c`.
    pub(crate) accumulate: bool,
}

/// A micro-kernel. What the tile names must be valid: units of `a`, and `b` for all columns of the kernel.
pub(crate) type TileFn<U, S> = unsafe fn(&Tile<U, S>);

/// Dot products: `c[i, j] = Σ a[i, p] · b[j, p]`, where both are contiguous in p.
pub(crate) struct Dots<U, S> {
    pub(crate) a: *const U,
    pub(crate) a_stride: usize,
    pub(crate) b: *const U,
    pub(crate) b_stride: usize,
    pub(crate) depth: usize,
    /// Where sum (i, j) goes: `c[i · c_row + j · c_col]`.
    pub(crate) c: *mut S,
    pub(crate) c_row: usize,
    pub(crate) c_col: usize,
    pub(crate) accumulate: bool,
}

pub(crate) type DotsFn<U, S> = unsafe fn(&Dots<U, S>);

/// Rows and columns of the largest tile of dot products.
pub(crate) const DOT_ROWS: usize = 4;
pub(crate) const DOT_COLS: usize = 4;

/// Copies the transpose of a [rows, cols] block with this row stride to `out`, with that row stride.
pub(crate) type TransposeFn<U> = unsafe fn(
    from: *const U,
    from_stride: usize,
    rows: usize,
    cols: usize,
    out: *mut U,
    out_stride: usize,
);

/// The kernels of one type on one level.
pub(crate) struct Kernels<U: 'static, S: 'static> {
    pub(crate) lanes: usize,
    /// `tiles[vectors - 1][rows - 1]` for tiles of up to a group.
    pub(crate) tiles: [&'static [TileFn<U, S>]; GROUP],
    /// `wide[rows - 1]`, tiles of [`WIDE_GROUPS`] groups.
    pub(crate) wide: &'static [TileFn<U, S>],
    /// `dots[rows - 1][0]` for one column, `[1]` for [`DOT_COLS`].
    pub(crate) dots: [[DotsFn<U, S>; 2]; DOT_ROWS],
    /// `strips[pixels - 1]`, see [`strip`](crate::conv::strip).
    pub(crate) strips: &'static [StripFn<U, S>; PIXELS],
    pub(crate) transpose: TransposeFn<U>,
}

impl<U, S> Kernels<U, S> {
    /// Columns of a packed panel.
    pub(crate) fn panel(&self) -> usize {
        GROUP * self.lanes
    }

    /// Rows of the largest tile.
    pub(crate) fn rows(&self) -> usize {
        self.tiles[0].len()
    }
}

/// Rows whose addresses are formed from one pointer: what offsets by one and two row strides reach.
const ROWS_PER_POINTER: usize = 3;
const POINTERS: usize = 6;

/// Vectors of sums in the largest tile.
const MOST_SUMS: usize = 32;

/// Computes a tile of `ROWS` rows by `GROUPS` groups of `VECTORS` vectors.
///
/// # Safety
/// Those of [`Machine`]; the places that the tile names are valid, in `a` for `ROWS` rows, in `b` for all columns of the kernel.
#[inline(always)]
pub(crate) unsafe fn tile<
    M: Machine,
    const ROWS: usize,
    const GROUPS: usize,
    const VECTORS: usize,
>(
    t: &Tile<M::Unit, M::Sum>,
) {
    // SAFETY: the caller's promise, for every access below.
    unsafe {
        let mut sums = [[[M::zero(); VECTORS]; GROUPS]; ROWS];
        let mut b = t.b;
        let stride = t.row_stride;
        for part in 0..t.parts {
            let start = *t.a.add(part);
            let mut a = [start; POINTERS];
            for g in 0..ROWS.div_ceil(ROWS_PER_POINTER) {
                a[g] = start.wrapping_add(g * ROWS_PER_POINTER * stride);
            }
            for _ in 0..t.depth {
                prefetch(b.wrapping_add(t.b_stride * AHEAD));
                if GROUPS * VECTORS * size_of::<M::Sums>() > 64 {
                    prefetch(b.wrapping_add(t.b_stride * AHEAD).wrapping_byte_add(64));
                }
                let mut row = [[M::factors(b); VECTORS]; GROUPS];
                for g in 0..GROUPS {
                    for v in 0..VECTORS {
                        row[g][v] = M::factors(b.add(g * t.b_group + v * M::LANES));
                    }
                }
                for i in 0..ROWS {
                    let p = a[i / ROWS_PER_POINTER].add(i % ROWS_PER_POINTER * stride);
                    let x = M::broadcast(p);
                    for g in 0..GROUPS {
                        for v in 0..VECTORS {
                            sums[i][g][v] = M::multiply_add(sums[i][g][v], x, row[g][v]);
                        }
                    }
                }
                for g in 0..ROWS.div_ceil(ROWS_PER_POINTER) {
                    a[g] = opaque(a[g].wrapping_add(t.depth_stride));
                }
                b = b.wrapping_add(t.b_stride);
            }
        }
        if t.cols == GROUPS * VECTORS * M::LANES {
            for i in 0..ROWS {
                for g in 0..GROUPS {
                    for v in 0..VECTORS {
                        let place = t.c.wrapping_add(i * t.c_stride + (g * VECTORS + v) * M::LANES);
                        if t.accumulate {
                            sums[i][g][v] = M::add(M::sums(place), sums[i][g][v]);
                        }
                        M::store(place, sums[i][g][v]);
                    }
                }
            }
        } else {
            // By way of memory, so that the loop over what is to be written need not be unrolled.
            let vectors = GROUPS * VECTORS;
            let mut spilled = [MaybeUninit::<M::Sums>::uninit(); MOST_SUMS];
            for i in 0..ROWS {
                for g in 0..GROUPS {
                    for v in 0..VECTORS {
                        spilled[i * vectors + g * VECTORS + v].write(sums[i][g][v]);
                    }
                }
            }
            for i in 0..ROWS {
                put_first::<M>(t, i, &spilled[i * vectors..][..vectors]);
            }
        }
    }
}

/// Writes the first `cols` sums of row `i`, or adds them to what is there.
///
/// # Safety
/// Those of [`tile`]; `sums` are initialised and reach as far as `cols`.
#[inline(always)]
unsafe fn put_first<M: Machine>(
    t: &Tile<M::Unit, M::Sum>,
    i: usize,
    sums: &[MaybeUninit<M::Sums>],
) {
    // SAFETY: the caller's promise.
    unsafe {
        for (v, sums) in sums.iter().enumerate() {
            let count = t.cols.saturating_sub(v * M::LANES).min(M::LANES);
            let place = t.c.wrapping_add(i * t.c_stride + v * M::LANES);
            let mut sums = sums.assume_init();
            if count == M::LANES {
                if t.accumulate {
                    sums = M::add(M::sums(place), sums);
                }
                M::store(place, sums);
            } else if count > 0 {
                if t.accumulate {
                    sums = M::add(M::first_sums(place, count), sums);
                }
                M::store_first(place, count, sums);
            }
        }
    }
}

/// Computes `ROWS` by `COLS` dot products.
///
/// # Safety
/// Those of [`Machine`]; the places that `d` names are valid.
#[inline(always)]
pub(crate) unsafe fn dots<M, const ROWS: usize, const COLS: usize>(d: &Dots<M::Unit, M::Sum>)
where
    M: Machine,
    M::Sum: Copy + std::ops::Add<Output = M::Sum>,
{
    // SAFETY: the caller's promise, for every access below.
    unsafe {
        let mut sums = [[M::zero(); COLS]; ROWS];
        let whole = d.depth / M::LANES * M::LANES;
        let mut p = 0;
        while p < whole {
            dot_step::<M, ROWS, COLS, true>(d, p, M::LANES, &mut sums);
            p += M::LANES;
        }
        if whole < d.depth {
            dot_step::<M, ROWS, COLS, false>(d, whole, d.depth - whole, &mut sums);
        }
        for i in 0..ROWS {
            for j in 0..COLS {
                let place = d.c.wrapping_add(i * d.c_row + j * d.c_col);
                let sum = M::total(sums[i][j]);
                *place = if d.accumulate { *place + sum } else { sum };
            }
        }
    }
}

/// Multiplies one vector of each row and column; `count` units of it if not `WHOLE`.
///
/// # Safety
/// As for [`dots`]; `p + count <= depth`.
#[inline(always)]
unsafe fn dot_step<M: Machine, const ROWS: usize, const COLS: usize, const WHOLE: bool>(
    d: &Dots<M::Unit, M::Sum>,
    p: usize,
    count: usize,
    sums: &mut [[M::Sums; COLS]; ROWS],
) {
    // SAFETY: the caller's promise.
    unsafe {
        for i in 0..ROWS {
            let a = d.a.wrapping_add(i * d.a_stride + p);
            let x = if WHOLE { M::factors(a) } else { M::first_factors(a, count) };
            for j in 0..COLS {
                let b = d.b.wrapping_add(j * d.b_stride + p);
                let y = if WHOLE { M::factors(b) } else { M::first_factors(b, count) };
                sums[i][j] = M::multiply_add(sums[i][j], x, y);
            }
        }
    }
}

/// Depths of `b` between a row's prefetch and its use.
const AHEAD: usize = 8;

/// Starts to load the cache line of `p`, which need not be valid.
#[inline(always)]
fn prefetch<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program can see, whatever the address; SSE is part of the baseline.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// The pointer itself, of whose value the compiler knows nothing afterwards.
///
/// Without it, the compiler turns the few pointers and offsets of a kernel into one pointer a row, which are more than there
/// are registers.
// The block has no instruction, so that nothing behind the pointer is read or written.
#[allow(clippy::pointers_in_nomem_asm_block)]
#[inline(always)]
fn opaque<T>(p: *const T) -> *const T {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    {
        let mut p = p;
        // SAFETY: no instruction.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) p, options(pure, nomem, nostack, preserves_flags));
        }
        p
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    p
}

/// A table of kernels: one instance for each size of tile, compiled with the instructions of its machine.
///
/// `kernels!(Machine, [target_feature(...)], transpose, [rows of tiles])` is an expression.
macro_rules! kernels {
    ($machine:ty, [$($enable:meta)?], $transpose:expr, [$($rows:literal)*]) => {{
        type Unit = <$machine as $crate::gemm::kernel::Machine>::Unit;
        type Sum = <$machine as $crate::gemm::kernel::Machine>::Sum;

        /// # Safety
        /// That of `kernel::tile`, on a processor with these instructions.
        $(#[$enable])?
        unsafe fn tile<const ROWS: usize, const GROUPS: usize, const VECTORS: usize>(
            t: &$crate::gemm::kernel::Tile<Unit, Sum>,
        ) {
            // SAFETY: the caller's promise.
            unsafe { $crate::gemm::kernel::tile::<$machine, ROWS, GROUPS, VECTORS>(t) }
        }

        /// # Safety
        /// That of `kernel::dots`, on a processor with these instructions.
        $(#[$enable])?
        unsafe fn dots<const ROWS: usize, const COLS: usize>(
            d: &$crate::gemm::kernel::Dots<Unit, Sum>,
        ) {
            // SAFETY: the caller's promise.
            unsafe { $crate::gemm::kernel::dots::<$machine, ROWS, COLS>(d) }
        }

        /// # Safety
        /// That of `strip::strip`, on a processor with these instructions.
        $(#[$enable])?
        unsafe fn strip<const COUNT: usize>(s: &$crate::conv::strip::Strip<Unit, Sum>) {
            // SAFETY: the caller's promise.
            unsafe { $crate::conv::strip::strip::<$machine, COUNT>(s) }
        }

        static KERNELS: $crate::gemm::kernel::Kernels<Unit, Sum> = $crate::gemm::kernel::Kernels {
            lanes: <$machine as $crate::gemm::kernel::Machine>::LANES,
            tiles: [&[$(tile::<$rows, 1, 1>),*], &[$(tile::<$rows, 1, 2>),*]],
            wide: &[tile::<1, 4, 2>, tile::<2, 4, 2>, tile::<3, 4, 2>],
            dots: [
                [dots::<1, 1>, dots::<1, 4>],
                [dots::<2, 1>, dots::<2, 4>],
                [dots::<3, 1>, dots::<3, 4>],
                [dots::<4, 1>, dots::<4, 4>],
            ],
            strips: &[
                strip::<1>, strip::<2>, strip::<3>, strip::<4>, strip::<5>, strip::<6>, strip::<7>,
                strip::<8>,
            ],
            transpose: $transpose,
        };
        &KERNELS
    }};
}
pub(crate) use kernels;
