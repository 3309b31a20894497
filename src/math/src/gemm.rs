//! Matrix products over strided views: `c = a · b` or `c += a · b`.
//!
//! The door is [`matmul`] and [`matmul_batch`]; what stands behind it is chosen by element type and shape:
//! the `gemm` crate for squarish f32, f64 and complex products, loops of our own where one side is a vector
//! (packing would cost more than the product), a conversion to f32 for half types, plain wrapping loops for integers.
//!
//! Half types accumulate in f32 and are rounded once. Integer products wrap, as TensorFlow's do.

use half::{bf16, f16};
use num_complex::Complex;

use crate::pool::{Parallel, SharedMut, par_chunks_mut};

mod half_product;
mod integer;
mod vector;

/// Multiplications that are worth a thread of their own.
const FLOPS_PER_CHUNK: usize = 1 << 17;

/// A read-only view of a matrix: element (i, j) is `data[i * row_stride + j * col_stride]`.
///
/// A transpose is a swap of the strides; a stride of 0 repeats a row or column.
#[derive(Clone, Copy)]
pub struct MatRef<'a, T> {
    pub data: &'a [T],
    pub row_stride: usize,
    pub col_stride: usize,
    /// Take the complex conjugate of each element; nothing to real types.
    pub conj: bool,
}

impl<'a, T> MatRef<'a, T> {
    /// A view with these strides.
    pub fn new(data: &'a [T], row_stride: usize, col_stride: usize) -> Self {
        MatRef {
            data,
            row_stride,
            col_stride,
            conj: false,
        }
    }

    /// The transposed view.
    pub fn transposed(self) -> Self {
        MatRef {
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// The view whose first element is `data[offset]`.
    fn offset(self, offset: usize) -> Self {
        MatRef {
            data: &self.data[offset..],
            ..self
        }
    }
}

/// A view to write: element (i, j) is `data[i * row_stride + j * col_stride]`, a place of its own.
pub struct MatMut<'a, T> {
    pub data: &'a mut [T],
    pub row_stride: usize,
    pub col_stride: usize,
}

impl<'a, T> MatMut<'a, T> {
    /// A view with these strides.
    pub fn new(data: &'a mut [T], row_stride: usize, col_stride: usize) -> Self {
        MatMut {
            data,
            row_stride,
            col_stride,
        }
    }
}

/// An element type with a matrix product: the floats, the integers, the complex numbers.
pub trait MatmulElem: Copy + Send + Sync + 'static {
    #[doc(hidden)]
    const ZERO: Self;

    /// Computes one block on the calling thread. `m`, `n` and `k` are at least 1.
    #[doc(hidden)]
    fn block(size: Size, a: MatRef<Self>, b: MatRef<Self>, c: Out<Self>, accumulate: bool);
}

/// Extents of a product: `[m, k] · [k, n] = [m, n]`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

impl Size {
    /// The multiplications of a product, saturating.
    fn work(self) -> usize {
        self.m.saturating_mul(self.n).saturating_mul(self.k.max(1))
    }
}

/// The block of `c` that one thread writes. Rows and columns of blocks interleave in memory, hence no slice.
///
/// Invariant: for `i < m` and `j < n` of the block's [`Size`], element (i, j) is valid, initialised, and touched by no other thread.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Out<T> {
    ptr: *mut T,
    row_stride: usize,
    col_stride: usize,
}

impl<T: Copy> Out<T> {
    fn transposed(self) -> Self {
        Out {
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// # Safety
    /// (i, j) lies in the block.
    unsafe fn at(self, i: usize, j: usize) -> *mut T {
        // SAFETY: the invariant of `Out`.
        unsafe { self.ptr.add(i * self.row_stride + j * self.col_stride) }
    }
}

/// `c = a · b`, or `c += a · b` if `accumulate`; `a` is [m, k], `b` is [k, n], `c` is [m, n].
///
/// With `k == 0` the product is zero. Panics if a view is too short for its extents, or if elements of `c` overlap.
pub fn matmul<T: MatmulElem>(
    par: Parallel,
    m: usize,
    n: usize,
    k: usize,
    a: MatRef<T>,
    b: MatRef<T>,
    c: MatMut<T>,
    accumulate: bool,
) {
    if m == 0 || n == 0 {
        return;
    }
    check("a", a.data.len(), [m, k], [a.row_stride, a.col_stride]);
    check("b", b.data.len(), [k, n], [b.row_stride, b.col_stride]);
    check("c", c.data.len(), [m, n], [c.row_stride, c.col_stride]);
    assert!(
        distinct([m, n], [c.row_stride, c.col_stride]),
        "matmul: elements of c overlap"
    );
    let size = Size { m, n, k };
    let base = SharedMut(c.data.as_mut_ptr());
    let (row_stride, col_stride) = (c.row_stride, c.col_stride);
    for_each_block(par, size, &|row, col, block| {
        // SAFETY: (row, col) is an element of c, by the checks above.
        let ptr = unsafe { base.get().add(row * row_stride + col * col_stride) };
        // The block lies in c, elements of c are distinct and blocks are disjoint: the invariant of `Out`.
        let out = Out {
            ptr,
            row_stride,
            col_stride,
        };
        if k == 0 {
            if !accumulate {
                fill_zero(block, out);
            }
            return;
        }
        T::block(
            block,
            a.offset(row * a.row_stride),
            b.offset(col * b.col_stride),
            out,
            accumulate,
        );
    });
}

/// One product for each batch entry: `c[i] = a[i] · b[i]`, with `c` dense and row major: `[batch, m, n]`.
///
/// Entry i of `a` begins `a_offsets[i]` elements into `a.data`, likewise `b`, so that broadcasting is a matter of
/// repeated offsets. Panics as [`matmul`] does, and if the lengths of the offsets and of `c` do not agree.
pub fn matmul_batch<T: MatmulElem>(
    par: Parallel,
    m: usize,
    n: usize,
    k: usize,
    a: MatRef<T>,
    a_offsets: &[usize],
    b: MatRef<T>,
    b_offsets: &[usize],
    c: &mut [T],
) {
    let batch = a_offsets.len();
    assert_eq!(batch, b_offsets.len(), "matmul_batch: batches differ");
    let entry = m
        .checked_mul(n)
        .expect("the extents of c were checked by the caller");
    assert_eq!(
        Some(c.len()),
        entry.checked_mul(batch),
        "matmul_batch: length of c"
    );
    if entry == 0 {
        return;
    }
    let one = |par: Parallel, i: usize, c: &mut [T]| {
        let (a, b) = (a.offset(a_offsets[i]), b.offset(b_offsets[i]));
        matmul(par, m, n, k, a, b, MatMut::new(c, n, 1), false);
    };
    // Whole products per thread, where there are enough of them; else the threads share each product.
    if batch >= par.threads() {
        let work = Size { m, n, k }.work();
        let grain = FLOPS_PER_CHUNK.div_ceil(work).saturating_mul(entry);
        par_chunks_mut(par, c, entry, grain, &|start, piece| {
            for (i, c) in piece.chunks_exact_mut(entry).enumerate() {
                one(Parallel::SERIAL, start / entry + i, c);
            }
        });
    } else {
        for (i, c) in c.chunks_exact_mut(entry).enumerate() {
            one(par, i, c);
        }
    }
}

/// Calls `f(first row, first column, extents)` for blocks that tile an [m, n] result, one block per thread or so.
fn for_each_block(par: Parallel, size: Size, f: &(dyn Fn(usize, usize, Size) + Sync)) {
    let Size { m, n, k } = size;
    let blocks = par.threads().min(size.work() / FLOPS_PER_CHUNK).max(1);
    // The grid whose blocks are nearest to squares, since a block reads (rows + columns) · k elements. A micro-kernel's
    // worth of rows and columns is the least that pays.
    let (most_rows, most_cols) = (m.div_ceil(16).min(blocks), n.div_ceil(16).min(blocks));
    let grid_rows = (1..=most_rows)
        .filter(|rows| rows * most_cols >= blocks || *rows == most_rows)
        .min_by_key(|&rows| {
            m.div_ceil(rows)
                .saturating_add(n.div_ceil((blocks / rows).clamp(1, most_cols)))
        })
        .unwrap_or(1);
    let grid_cols = (blocks / grid_rows).clamp(1, most_cols);
    let (rows, cols) = (m.div_ceil(grid_rows), n.div_ceil(grid_cols));
    par.for_each_chunk(grid_rows * grid_cols, 1, &|indices| {
        for index in indices {
            let (row, col) = (index / grid_cols * rows, index % grid_cols * cols);
            // Rounding up may leave nothing for the last blocks.
            if row < m && col < n {
                f(
                    row,
                    col,
                    Size {
                        m: rows.min(m - row),
                        n: cols.min(n - col),
                        k,
                    },
                );
            }
        }
    });
}

fn fill_zero<T: MatmulElem>(size: Size, c: Out<T>) {
    for i in 0..size.m {
        for j in 0..size.n {
            // SAFETY: (i, j) lies in the block.
            unsafe { *c.at(i, j) = T::ZERO };
        }
    }
}

/// Panics unless every element of a matrix lies within `len` elements.
fn check(name: &str, len: usize, extent: [usize; 2], stride: [usize; 2]) {
    if extent[0] == 0 || extent[1] == 0 {
        return;
    }
    let last = (extent[0] - 1)
        .checked_mul(stride[0])
        .zip((extent[1] - 1).checked_mul(stride[1]))
        .and_then(|(row, col)| row.checked_add(col));
    assert!(
        last.is_some_and(|last| last < len),
        "matmul: {name} has {len} elements, too few for {extent:?} with strides {stride:?}"
    );
}

/// Whether no two elements share a place. Sufficient, not necessary: one axis must fit between two steps of the other.
fn distinct(extent: [usize; 2], stride: [usize; 2]) -> bool {
    let fits = |inner: usize, outer: usize| {
        (extent[inner] == 1 || stride[inner] > 0)
            && (extent[outer] == 1 || (extent[inner] - 1) * stride[inner] < stride[outer])
    };
    fits(1, 0) || fits(0, 1)
}

/// Hands a block to the `gemm` crate.
fn crate_block<T: MatmulElem + num_traits::One>(
    size: Size,
    a: MatRef<T>,
    b: MatRef<T>,
    c: Out<T>,
    accumulate: bool,
) {
    let Size { m, n, k } = size;
    check("a", a.data.len(), [m, k], [a.row_stride, a.col_stride]);
    check("b", b.data.len(), [k, n], [b.row_stride, b.col_stride]);
    // SAFETY: the reads of a and b lie in their slices, as just checked; the writes are those of `Out`'s
    // invariant. Strides that are used are bounded by the length of a slice, so they fit an isize.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.ptr,
            c.col_stride as isize,
            c.row_stride as isize,
            accumulate,
            a.data.as_ptr(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.col_stride as isize,
            b.row_stride as isize,
            T::one(),
            T::one(),
            false,
            a.conj,
            b.conj,
            gemm::Parallelism::None,
        );
    }
}

macro_rules! real_matmul {
    ($($t:ty),*) => {$(
        impl MatmulElem for $t {
            const ZERO: Self = 0.0;

            fn block(size: Size, a: MatRef<Self>, b: MatRef<Self>, c: Out<Self>, accumulate: bool) {
                if size.m == 1 {
                    vector::product(size.n, size.k, b.transposed(), a.data, a.col_stride, c.transposed(), accumulate);
                } else if size.n == 1 {
                    vector::product(size.m, size.k, a, b.data, b.row_stride, c, accumulate);
                } else {
                    crate_block(size, a, b, c, accumulate);
                }
            }
        }
    )*};
}
real_matmul!(f32, f64);

macro_rules! complex_matmul {
    ($($t:ty),*) => {$(
        impl MatmulElem for Complex<$t> {
            const ZERO: Self = Complex::new(0.0, 0.0);

            fn block(size: Size, a: MatRef<Self>, b: MatRef<Self>, c: Out<Self>, accumulate: bool) {
                crate_block(size, a, b, c, accumulate);
            }
        }
    )*};
}
complex_matmul!(f32, f64);

macro_rules! half_matmul {
    ($($t:ty),*) => {$(
        impl MatmulElem for $t {
            const ZERO: Self = <$t>::ZERO;

            fn block(size: Size, a: MatRef<Self>, b: MatRef<Self>, c: Out<Self>, accumulate: bool) {
                half_product::product(size, a, b, c, accumulate);
            }
        }
    )*};
}
half_matmul!(f16, bf16);

macro_rules! integer_matmul {
    ($($t:ty),*) => {$(
        impl MatmulElem for $t {
            const ZERO: Self = 0;

            fn block(size: Size, a: MatRef<Self>, b: MatRef<Self>, c: Out<Self>, accumulate: bool) {
                integer::product(size, a, b, c, accumulate);
            }
        }
    )*};
}
integer_matmul!(i8, i16, i32, i64, u8, u16, u32, u64);

#[cfg(test)]
mod tests;
