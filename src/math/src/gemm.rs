//! Matrix products over strided views: `c = a · b`, `c += a · b`, and `c = f(a · b)` with an [`Epilogue`].
//!
//! [`matmul`] and [`matmul_batch`] multiply what is in memory. [`Packed`] keeps a right operand, usually weights, in the order in
//! which the kernels read it, and [`product`] multiplies with it: packing costs about as much as multiplying with
//! ten rows.
//!
//! Floats and complex numbers are multiplied by micro-kernels ([`kernel`]) that are chosen by the machine's instructions; a
//! complex product is a real one of twice the extents. Half types are widened to f32 and rounded once. Integer products wrap, as
//! TensorFlow's do.

use crate::pool::Parallel;

pub(crate) mod block;
mod complex;
mod epilogue;
mod half_product;
mod integer;
pub(crate) mod kernel;
pub(crate) mod pack;
mod plain;
mod real;
#[cfg(target_arch = "x86_64")]
mod x86;

use block::View;
pub use epilogue::{Activation, Epilogue, Finish};
use pack::Panels;
pub(crate) use real::Real;

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
        MatRef { data, row_stride, col_stride, conj: false }
    }

    /// The transposed view.
    pub fn transposed(self) -> Self {
        MatRef { row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }

    /// The view whose first element is `data[offset]`.
    fn offset(self, offset: usize) -> Self {
        MatRef { data: &self.data[offset..], ..self }
    }

    /// The view as the kernels take it, from this element on.
    fn view(self, offset: usize) -> View<T> {
        View { data: self.data[offset..].as_ptr(), row: self.row_stride, col: self.col_stride }
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
        MatMut { data, row_stride, col_stride }
    }
}

/// An element type with a matrix product: the floats, the integers, the complex numbers.
pub trait MatmulElem: Copy + Send + Sync + 'static {
    /// The type of the sums that an epilogue gets.
    type Sum: Copy + Send + Sync + 'static;

    #[doc(hidden)]
    const ZERO: Self;

    /// Computes products of at least one row, column and depth.
    #[doc(hidden)]
    fn run(par: Parallel, job: &Job<'_, Self>);
}

/// An element type that can be packed: the floats.
pub trait PackElem: MatmulElem {
    #[doc(hidden)]
    fn pack(par: Parallel, k: usize, n: usize, b: MatRef<Self>) -> AnyPanels;
}

/// Panels of one of the types that kernels read.
#[doc(hidden)]
pub struct AnyPanels(PanelsOf);

enum PanelsOf {
    F32(Panels<f32>),
    F64(Panels<f64>),
}

/// Extents of a product: `[m, k] · [k, n] = [m, n]`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

/// Products of one size, one for each entry of `offsets`: where its operands and its result begin, in elements.
#[doc(hidden)]
pub struct Job<'a, T: MatmulElem> {
    size: Size,
    a: MatRef<'a, T>,
    b: RightOperand<'a, T>,
    c: Out<T>,
    offsets: &'a (dyn Fn(usize) -> [usize; 3] + Sync),
    count: usize,
    accumulate: bool,
    epilogue: Option<&'a Epilogue<'a, T::Sum>>,
}

/// The right operand of a job.
#[derive(Clone, Copy)]
enum RightOperand<'a, T> {
    Matrix(MatRef<'a, T>),
    Panels(&'a AnyPanels),
}

/// The first element of `c`, and its strides. Rows and columns of blocks interleave in memory, hence no slice.
///
/// Invariant: for each product of the job, for `i < m` and `j < n`, element (i, j) is valid, initialised, and touched by no other
/// thread than the one whose block it is.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Out<T> {
    ptr: *mut T,
    row_stride: usize,
    col_stride: usize,
}

// SAFETY: threads write disjoint blocks.
unsafe impl<T: Send> Send for Out<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Out<T> {}

impl<T: Copy> Out<T> {
    /// # Safety
    /// (i, j) lies in the result.
    unsafe fn at(self, i: usize, j: usize) -> *mut T {
        // SAFETY: the invariant of `Out`.
        unsafe { self.ptr.add(i * self.row_stride + j * self.col_stride) }
    }

    /// The result that begins `offset` elements later.
    fn offset(self, offset: usize) -> Self {
        Out { ptr: self.ptr.wrapping_add(offset), ..self }
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
    check("b", b.data.len(), [k, n], [b.row_stride, b.col_stride]);
    run_one(par, Size { m, n, k }, a, RightOperand::Matrix(b), c, accumulate, None);
}

/// `c = epilogue(a · b)`; `a` is [m, k], `b` is [k, n], `c` is [m, n].
///
/// Panics as [`matmul`] does, and if an operand of the epilogue is too short.
pub fn matmul_with<T: MatmulElem>(
    par: Parallel,
    m: usize,
    n: usize,
    k: usize,
    a: MatRef<T>,
    b: MatRef<T>,
    c: MatMut<T>,
    epilogue: &Epilogue<T::Sum>,
) where
    T::Sum: Finish,
{
    epilogue.check(m, n);
    check("b", b.data.len(), [k, n], [b.row_stride, b.col_stride]);
    run_one(par, Size { m, n, k }, a, RightOperand::Matrix(b), c, false, Some(epilogue));
}

/// A right operand in the order in which the kernels read it. It takes as much memory as the operand, twice as much for half
/// types.
pub struct Packed<T> {
    panels: AnyPanels,
    k: usize,
    n: usize,
    element: std::marker::PhantomData<T>,
}

impl<T: PackElem> Packed<T> {
    /// Packs `b`, which is [k, n]. Panics if the view is too short for its extents.
    pub fn new(par: Parallel, k: usize, n: usize, b: MatRef<T>) -> Self {
        check("b", b.data.len(), [k, n], [b.row_stride, b.col_stride]);
        Packed { panels: T::pack(par, k, n, b), k, n, element: std::marker::PhantomData }
    }

    /// Rows and columns.
    pub fn extents(&self) -> [usize; 2] {
        [self.k, self.n]
    }
}

/// `c = epilogue(a · b)`, where `a` is [m, k], `b` is packed, [k, n], and `c` is [m, n].
///
/// Panics as [`matmul`] does, and if an operand of the epilogue is too short.
pub fn product<T: PackElem>(
    par: Parallel,
    m: usize,
    a: MatRef<T>,
    b: &Packed<T>,
    c: MatMut<T>,
    epilogue: &Epilogue<T::Sum>,
) where
    T::Sum: Finish,
{
    epilogue.check(m, b.n);
    let size = Size { m, n: b.n, k: b.k };
    run_one(par, size, a, RightOperand::Panels(&b.panels), c, false, Some(epilogue));
}

/// Checks `a` and `c`, and computes one product. `b` is as large as `size` says.
fn run_one<T: MatmulElem>(
    par: Parallel,
    size: Size,
    a: MatRef<T>,
    b: RightOperand<T>,
    c: MatMut<T>,
    accumulate: bool,
    epilogue: Option<&Epilogue<T::Sum>>,
) {
    let Size { m, n, k } = size;
    if m == 0 || n == 0 {
        return;
    }
    check("a", a.data.len(), [m, k], [a.row_stride, a.col_stride]);
    check("c", c.data.len(), [m, n], [c.row_stride, c.col_stride]);
    assert!(distinct([m, n], [c.row_stride, c.col_stride]), "matmul: elements of c overlap");
    // The invariant of `Out` holds by these checks.
    let (ptr, row_stride, col_stride) = (c.data.as_mut_ptr(), c.row_stride, c.col_stride);
    let c = Out { ptr, row_stride, col_stride };
    run_checked(par, &Job { size, a, b, c, offsets: &|_| [0; 3], count: 1, accumulate, epilogue });
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
    let entry = m.checked_mul(n).expect("the extents of c were checked by the caller");
    assert_eq!(Some(c.len()), entry.checked_mul(batch), "matmul_batch: length of c");
    if c.is_empty() {
        return;
    }
    let last = |offsets: &[usize]| offsets.iter().copied().max().unwrap_or(0);
    let behind = |len: usize, offset: usize| len.saturating_sub(offset);
    check("a", behind(a.data.len(), last(a_offsets)), [m, k], [a.row_stride, a.col_stride]);
    check("b", behind(b.data.len(), last(b_offsets)), [k, n], [b.row_stride, b.col_stride]);
    run_checked(
        par,
        &Job {
            size: Size { m, n, k },
            a,
            b: RightOperand::Matrix(b),
            // Entries are disjoint parts of the slice: the invariant of `Out`.
            c: Out { ptr: c.as_mut_ptr(), row_stride: n, col_stride: 1 },
            offsets: &|i| [a_offsets[i], b_offsets[i], i * entry],
            count: batch,
            accumulate: false,
            epilogue: None,
        },
    );
}

/// Runs a job whose operands are as large as they have to be. Its result is not empty; its depth may be 0.
fn run_checked<T: MatmulElem>(par: Parallel, job: &Job<T>) {
    if job.size.k > 0 {
        return T::run(par, job);
    }
    // A sum of nothing, computed as a product with a single zero, so that an epilogue has its say.
    let zero = [T::ZERO];
    let zero = MatRef::new(&zero, 0, 0);
    let size = Size { k: 1, ..job.size };
    let offsets = &|i| [0, 0, (job.offsets)(i)[2]];
    T::run(par, &Job { size, a: zero, b: RightOperand::Matrix(zero), offsets, ..*job });
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

/// True if no two elements share a place. Sufficient, not necessary: one axis must fit between two steps of the other.
fn distinct(extent: [usize; 2], stride: [usize; 2]) -> bool {
    let fits = |inner: usize, outer: usize| {
        (extent[inner] == 1 || stride[inner] > 0)
            && (extent[outer] == 1 || (extent[inner] - 1) * stride[inner] < stride[outer])
    };
    fits(1, 0) || fits(0, 1)
}

macro_rules! integer_matmul {
    ($($t:ty),*) => {$(
        impl MatmulElem for $t {
            type Sum = $t;

            const ZERO: Self = 0;

            fn run(par: Parallel, job: &Job<'_, Self>) {
                integer::run(par, job);
            }
        }
    )*};
}
integer_matmul!(i8, i16, i32, i64, u8, u16, u32, u64);

#[cfg(test)]
mod tests;
