//! Matrix products: `MatMul`, `SparseMatMul`, `BatchMatMul`, `BatchMatMulV2`, `BatchMatMulV3`.

use tfcore_base::{
    BFloat16, Complex64, Complex128, DType, Elem, Half, LoopFor, Result, TypedLoop, internal,
    invalid, require,
};
use tfcore_framework::geometry::Broadcast;
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::gemm::{MatMut, MatRef, MatmulElem, matmul, matmul_batch};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{Dim, Elems, ElemsMut, PartialShape, Shape, Tensor};

/// The types that have a matrix product.
pub(crate) type Products = (f32, f64, Half, BFloat16, Complex64, Complex128, i16, i32, i64);

pub(crate) fn register(r: &mut Registry) {
    // `MatMul(a: T, b: T) -> product: T`, `op(a) * op(b)` where `op` may transpose.
    r.op("MatMul")
        .shape(matmul_shape)
        .cpu(|init| product(init, ["transpose_a", "transpose_b"], Batch::None));
    // `SparseMatMul(a: Ta, b: Tb) -> product: float`, `op(a) * op(b)`. Zeros are multiplied like other
    // numbers.
    r.op("SparseMatMul").shape(matmul_shape).cpu(|init| {
        let (body, transposed) = matmul_kernel(init)?;
        kernel(move |ctx| sparse_matmul(ctx, body, transposed))
    });
    // `BatchMatMul(x: T, y: T) -> output: T`, a product for each pair of matrices; `adj` transposes and
    // conjugates.
    r.op("BatchMatMul")
        .shape(|ctx| batch_shape(ctx, Batch::Equal))
        .cpu(|init| product(init, ["adj_x", "adj_y"], Batch::Equal));
    // `BatchMatMulV2`, as `BatchMatMul`; the batches broadcast.
    r.op("BatchMatMulV2")
        .shape(|ctx| batch_shape(ctx, Batch::Broadcast))
        .cpu(|init| product(init, ["adj_x", "adj_y"], Batch::Broadcast));
    // `BatchMatMulV3(x: Ta, y: Tb) -> output: Tout`, as `BatchMatMulV2`, computed in type `Tout`.
    r.op("BatchMatMulV3")
        .shape(|ctx| batch_shape(ctx, Batch::Broadcast))
        .cpu(|init| product(init, ["adj_x", "adj_y"], Batch::Broadcast));
}

/// What becomes of the dimensions before the matrices.
#[derive(Clone, Copy, PartialEq)]
enum Batch {
    None,
    Equal,
    Broadcast,
}

/// The shape of a product of two matrices.
pub(crate) fn matmul_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let a = shape_ops::with_rank(ctx.input(0), 2)?;
    let b = shape_ops::with_rank(ctx.input(1), 2)?;
    let transpose = |name| ctx.attrs.bool(name).map(usize::from);
    let (ta, tb) = (transpose("transpose_a")?, transpose("transpose_b")?);
    shape_ops::merge_dims(a.dim(1 - ta), b.dim(tb))?;
    let shape = PartialShape::matrix(a.dim(ta), b.dim(1 - tb));
    ctx.set_output(0, shape);
    Ok(())
}

fn batch_shape(ctx: &mut InferenceContext<'_>, batch: Batch) -> Result<()> {
    let x = shape_ops::with_rank_at_least(ctx.input(0), 2)?;
    let y = shape_ops::with_rank_at_least(ctx.input(1), 2)?;
    let (ax, ay) = (ctx.attrs.bool("adj_x")?, ctx.attrs.bool("adj_y")?);
    let dim = |shape: &PartialShape, from_end: usize| match shape.rank() {
        Some(rank) => shape.dim(rank - from_end),
        None => Dim::UNKNOWN,
    };
    let (rows, inner_x) = if ax { (dim(&x, 1), dim(&x, 2)) } else { (dim(&x, 2), dim(&x, 1)) };
    let (inner_y, cols) = if ay { (dim(&y, 1), dim(&y, 2)) } else { (dim(&y, 2), dim(&y, 1)) };
    let (bx, by) = (shape_ops::subshape(&x, 0, Some(-2))?, shape_ops::subshape(&y, 0, Some(-2))?);
    let both = match batch {
        Batch::Broadcast => shape_ops::broadcast(&bx, &by)?,
        _ => shape_ops::merge(&bx, &by)?,
    };
    shape_ops::merge_dims(inner_x, inner_y)?;
    let shape = shape_ops::concatenate(&both, &PartialShape::matrix(rows, cols));
    ctx.set_output(0, shape);
    Ok(())
}

/// The operands of a product: matrices of `m x k` and `k x n` elements, as they lie in memory.
pub(crate) struct Operands<'a> {
    pub(crate) size: [usize; 3],
    pub(crate) transposed: [bool; 2],
    pub(crate) a: Elems<'a>,
    pub(crate) b: Elems<'a>,
    /// Where each pair of matrices begins; `None` for one pair.
    pub(crate) offsets: Option<[Vec<usize>; 2]>,
}

/// A product of elements of known type.
pub(crate) type ProductLoop = fn(Parallel<'_>, &Operands<'_>, ElemsMut<'_>);

pub(crate) struct MatrixProduct;

impl TypedLoop for MatrixProduct {
    type Loop = ProductLoop;
}

impl<T: Elem + MatmulElem> LoopFor<T> for MatrixProduct {
    const LOOP: ProductLoop = |parallel, operands, out| {
        let [m, n, k] = operands.size;
        let strides = |rows, cols, transposed| if transposed { (1, rows) } else { (cols, 1) };
        let (a_row, a_col) = strides(m, k, operands.transposed[0]);
        let (b_row, b_col) = strides(k, n, operands.transposed[1]);
        let a = MatRef::new(operands.a.typed::<T>(), a_row, a_col);
        let b = MatRef::new(operands.b.typed::<T>(), b_row, b_col);
        let out = out.typed::<T>();
        match &operands.offsets {
            None => matmul(parallel, m, n, k, a, b, MatMut::new(out, n, 1), false),
            Some([of_a, of_b]) => matmul_batch(parallel, m, n, k, a, of_a, b, of_b, out),
        }
    };
}

fn product(init: &KernelInit<'_>, names: [&str; 2], batch: Batch) -> Result<Box<dyn Kernel>> {
    let body = init.loop_for::<MatrixProduct, Products>(init.output_dtypes[0])?;
    let transposed = [init.attrs.bool(names[0])?, init.attrs.bool(names[1])?];
    kernel(move |ctx| compute(ctx, transposed, batch, body))
}

/// The loop and the attrs of a product of two matrices.
pub(crate) fn matmul_kernel(init: &KernelInit<'_>) -> Result<(ProductLoop, [bool; 2])> {
    let body = init.loop_for::<MatrixProduct, Products>(init.output_dtypes[0])?;
    let transpose = |name| init.attrs.bool(name);
    Ok((body, [transpose("transpose_a")?, transpose("transpose_b")?]))
}

/// The product of the first two inputs, which are matrices.
pub(crate) fn multiply(
    ctx: &OpContext<'_>,
    body: ProductLoop,
    transposed: [bool; 2],
) -> Result<Tensor> {
    product_of(ctx, transposed, Batch::None, body)
}

fn sparse_matmul(ctx: &mut OpContext<'_>, body: ProductLoop, transposed: [bool; 2]) -> Result<()> {
    let (a, b) = (ctx.input(0)?, ctx.input(1)?);
    require!(a.rank() == 2, "a is not a matrix");
    require!(b.rank() == 2, "b is not a matrix");
    require!(
        a.dim(1 - usize::from(transposed[0])) == b.dim(usize::from(transposed[1])),
        "Matrix size incompatible: a: {}, b: {}",
        a.shape(),
        b.shape()
    );
    let out = multiply(ctx, body, transposed)?;
    ctx.set_output(0, out);
    Ok(())
}

fn compute(
    ctx: &mut OpContext<'_>,
    transposed: [bool; 2],
    batch: Batch,
    body: ProductLoop,
) -> Result<()> {
    let out = product_of(ctx, transposed, batch, body)?;
    ctx.set_output(0, out);
    Ok(())
}

fn product_of(
    ctx: &OpContext<'_>,
    transposed: [bool; 2],
    batch: Batch,
    body: ProductLoop,
) -> Result<Tensor> {
    let (a, b) = (ctx.input(0)?, ctx.input(1)?);
    check_shapes(a.shape(), b.shape(), batch)?;
    let split = |shape: &Shape| -> Result<(Shape, [usize; 2])> {
        let batch = shape.rank() - 2;
        Ok((Shape::new(&shape.dims()[..batch])?, [shape.dim(batch), shape.dim(batch + 1)]))
    };
    let ((batch_a, mut dims_a), (batch_b, mut dims_b)) = (split(a.shape())?, split(b.shape())?);
    if transposed[0] {
        dims_a.reverse();
    }
    if transposed[1] {
        dims_b.reverse();
    }
    let ([m, k], [inner, n]) = (dims_a, dims_b);
    if k != inner {
        return Err(invalid!(
            "Matrix size-incompatible: In[0]: {}, In[1]: {}",
            a.shape(),
            b.shape()
        ));
    }
    let broadcast = Broadcast::new(&batch_a, &batch_b).map_err(|_| {
        invalid!(
            "In[0] and In[1] must have compatible batch dimensions: {} vs. {}",
            a.shape(),
            b.shape()
        )
    })?;
    let dims = [broadcast.output().dims(), &[m as i64, n as i64]].concat();
    let mut out = ctx.allocate_output(0, Shape::new(&dims)?)?;
    if out.count() > 0 {
        // `adj` conjugates, which makes a difference for complex numbers alone.
        let adjoint = if batch == Batch::None { [false; 2] } else { transposed };
        let a = prepared(ctx, a, out.dtype(), adjoint[0])?;
        let b = prepared(ctx, b, out.dtype(), adjoint[1])?;
        let offsets = (broadcast.output().count() != 1).then(|| broadcast.offsets([m * k, k * n]));
        let operands =
            Operands { size: [m, n, k], transposed, a: a.elems(), b: b.elems(), offsets };
        body(ctx.parallel(), &operands, out.elems_mut()?);
    }
    Ok(out)
}

fn check_shapes(a: &Shape, b: &Shape, batch: Batch) -> Result<()> {
    if batch == Batch::Broadcast {
        for (index, shape) in [a, b].into_iter().enumerate() {
            if shape.rank() < 2 {
                return Err(invalid!("In[{index}] ndims must be >= 2: {}", shape.rank()));
            }
        }
        return Ok(());
    }
    if a.rank() != b.rank() {
        return Err(invalid!("In[0] and In[1] has different ndims: {a} vs. {b}"));
    }
    if a.rank() < 2 || (batch == Batch::None && a.rank() > 2) {
        return Err(invalid!("In[0] and In[1] ndims must be == 2: {}", a.rank()));
    }
    match (0..a.rank() - 2).find(|&axis| a.dim(axis) != b.dim(axis)) {
        Some(axis) => {
            Err(invalid!("In[0].dim({axis}) and In[1].dim({axis}) must be the same: {a} vs {b}"))
        }
        None => Ok(()),
    }
}

/// An operand in the type of the output, conjugated if it is complex and `adjoint`.
fn prepared(ctx: &OpContext<'_>, x: &Tensor, dtype: DType, adjoint: bool) -> Result<Tensor> {
    if x.dtype() == dtype && !(adjoint && dtype.is_complex()) {
        return Ok(x.clone());
    }
    let mut out = ctx.allocate(dtype, x.shape().clone())?;
    let target = out.elems_mut()?;
    match (x.dtype(), dtype) {
        (DType::COMPLEX64, _) => map(x, target, |z: Complex64| z.conj())?,
        (DType::COMPLEX128, _) => map(x, target, |z: Complex128| z.conj())?,
        (DType::BFLOAT16, DType::FLOAT) => map(x, target, |v: BFloat16| v.to_f32())?,
        (DType::INT8, DType::INT32) => map(x, target, |v: i8| i32::from(v))?,
        (DType::UINT8, DType::INT32) => map(x, target, |v: u8| i32::from(v))?,
        (DType::INT8, _) => map(x, target, |v: i8| BFloat16::from_f32(v.into()))?,
        (DType::UINT8, _) => map(x, target, |v: u8| BFloat16::from_f32(v.into()))?,
        (from, to) => return Err(internal!("a matrix product of {from} in {to}")),
    }
    Ok(out)
}

fn map<T: Elem + Copy, U: Elem>(x: &Tensor, out: ElemsMut<'_>, f: impl Fn(T) -> U) -> Result<()> {
    for (out, &x) in out.typed::<U>().iter_mut().zip(x.as_slice::<T>()?) {
        *out = f(x);
    }
    Ok(())
}
