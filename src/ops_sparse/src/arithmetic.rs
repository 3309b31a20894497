//! Sums, products and extremes of sparse tensors with one another and with dense ones.

use num_complex::Complex;
use tfcore_base::{
    BFloat16, Complex64, Complex128, DType, Elem, Half, LoopFor, Number, Numbers, RealNumbers,
    Result, Ring, TypedLoop, invalid, require,
};
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_ops};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

use crate::coo::{Compute, Coo, join, matrix, merge, run, set_sparse, static_parts};

type Addable = (f32, f64, i8, i16, i32, i64, Complex64, Complex128);

pub(crate) fn register(r: &mut Registry) {
    // `SparseAdd(a_indices, a_values: T, a_shape, b_indices, b_values: T, b_shape, thresh: Treal) -> sum_indices, sum_values: T,
    // sum_shape`, without sums that are smaller than the threshold.
    r.op("SparseAdd").shape(add_shape).typed::<Adding, Addable>("T", run);
    // `SparseAddGrad(backprop_val_grad: T, a_indices, b_indices, sum_indices) -> a_val_grad: T, b_val_grad: T`.
    r.op("SparseAddGrad").shape(add_grad_shape).typed::<AddGrad, Addable>("T", run);
    // `SparseTensorDenseAdd(a_indices: Tindices, a_values: T, a_shape: Tindices, b: T) -> output: T`.
    r.op("SparseTensorDenseAdd")
        .shape(|ctx| {
            let dense = ctx.input(3).clone();
            ctx.set_output(0, dense);
            Ok(())
        })
        .typed::<DenseAdd, Numbers>("T", run);
    // `SparseDenseCwiseAdd(sp_indices, sp_values: T, sp_shape, dense: T) -> output: T`, of the values that are there.
    r.op("SparseDenseCwiseAdd").shape(cwise_shape).typed::<Cwise<Add>, RealNumbers>("T", run);
    r.op("SparseDenseCwiseMul").shape(cwise_shape).typed::<Cwise<Mul>, RealNumbers>("T", run);
    r.op("SparseDenseCwiseDiv").shape(cwise_shape).typed::<Cwise<Div>, RealNumbers>("T", run);
    // `SparseSparseMaximum(a_indices, a_values: T, a_shape, b_indices, b_values: T, b_shape) -> output_indices, output_values: T`; what is
    // missing is 0.
    r.op("SparseSparseMaximum").shape(extreme_shape).typed::<Extreme<Max>, RealNumbers>("T", run);
    r.op("SparseSparseMinimum").shape(extreme_shape).typed::<Extreme<Min>, RealNumbers>("T", run);
}

/// Defines a loop family of a generic function.
macro_rules! family {
    ($name:ident, $function:ident, $($bound:tt)+) => {
        struct $name;

        impl TypedLoop for $name {
            type Loop = Compute;
        }

        impl<T: $($bound)+> LoopFor<T> for $name
        where
            T::Wide: Ring,
        {
            const LOOP: Compute = $function::<T>;
        }
    };
}

family!(Adding, add, Number + Magnitude);
family!(AddGrad, add_grad, Number);
family!(DenseAdd, dense_add, Number);

/// The size of a number, to be compared with a threshold.
pub(crate) trait Magnitude: Elem + Copy {
    fn magnitude(self) -> f64;
}

macro_rules! magnitudes {
    ($($type:ty)*) => {$(
        impl Magnitude for $type {
            fn magnitude(self) -> f64 {
                (self as f64).abs()
            }
        }
    )*};
}
magnitudes!(f32 f64 i8 i16 i32 i64);

impl Magnitude for Complex64 {
    fn magnitude(self) -> f64 {
        f64::from(Complex::norm(self))
    }
}

impl Magnitude for Complex128 {
    fn magnitude(self) -> f64 {
        Complex::norm(self)
    }
}

fn plus<T: Number>(a: T, b: T) -> T
where
    T::Wide: Ring,
{
    T::narrow(a.widen().plus(b.widen()))
}

fn add_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = shape_ops::with_rank(ctx.input(2), 1)?;
    set_sparse(ctx, shape);
    Ok(())
}

/// A scalar of any real type.
fn threshold(tensor: &Tensor) -> Result<f64> {
    require!(
        tensor.rank() == 0,
        "The magnitude threshold must be a scalar: got shape {}",
        tensor.shape()
    );
    Ok(match tensor.dtype() {
        DType::FLOAT => tensor.scalar_value::<f32>()?.into(),
        DType::DOUBLE => tensor.scalar_value::<f64>()?,
        DType::HALF => tensor.scalar_value::<Half>()?.to_f64(),
        DType::BFLOAT16 => tensor.scalar_value::<BFloat16>()?.to_f64(),
        _ => tensor.to_i64s()?[0] as f64,
    })
}

fn check_shapes(a: &Coo<'_>, b: &Coo<'_>) -> Result<()> {
    require!(
        a.rank == b.rank,
        "Ranks of input tensors must match, but saw ranks: {} and {}",
        a.rank,
        b.rank
    );
    for (axis, (a, b)) in a.shape.iter().zip(b.shape).enumerate() {
        require!(a == b, "Input shapes must match: got {a} and {b} for dimension {axis}");
    }
    Ok(())
}

fn add<T: Number + Magnitude>(ctx: &mut OpContext<'_>) -> Result<()>
where
    T::Wide: Ring,
{
    let (a, b) = (Coo::unchecked(ctx, 0)?, Coo::unchecked(ctx, 3)?);
    require!(
        a.rank == b.rank && a.shape == b.shape,
        "Operands' shapes do not match: got [{}] and [{}]",
        join(a.shape),
        join(b.shape)
    );
    let threshold = threshold(ctx.input(6)?)?;
    let (x, y) = (ctx.input_slice::<T>(1)?, ctx.input_slice::<T>(4)?);
    let (mut indices, mut values) = (Vec::new(), Vec::new());
    merge(&a, &b, &mut |i, j| {
        let (index, value) = match (i, j) {
            (Some(i), Some(j)) => (a.index(i), plus(x[i], y[j])),
            (Some(i), None) => (a.index(i), x[i]),
            (None, Some(j)) => (b.index(j), y[j]),
            (None, None) => return,
        };
        // NaN is smaller than nothing.
        if threshold <= value.magnitude() {
            indices.extend_from_slice(index);
            values.push(value);
        }
    });
    ctx.set_output(0, matrix(ctx, &indices, a.rank)?);
    ctx.set_output(1, Tensor::from_slice(Shape::vector(values.len()), &values)?);
    let shape = ctx.input(2)?.clone();
    ctx.set_output(2, shape);
    Ok(())
}

fn add_grad_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    for (output, input) in [(0, 1), (1, 2)] {
        let indices = shape_ops::with_rank(ctx.input(input), 2)?;
        ctx.set_output(output, PartialShape::vector(indices.dim(0)));
    }
    Ok(())
}

fn add_grad<T: Number>(ctx: &mut OpContext<'_>) -> Result<()>
where
    T::Wide: Ring,
{
    let (grads, sum) = (ctx.input(0)?, ctx.input(3)?);
    require!(
        (1..4).all(|input| ctx.input(input).is_ok_and(|indices| indices.rank() == 2)),
        "Input indices should be matrices"
    );
    require!(
        grads.rank() == 1,
        "Input backprop_val_grad should be a vector but received shape: {}",
        grads.shape()
    );
    let rank = sum.dim(1);
    require!(
        ctx.input(1)?.dim(1) == rank && ctx.input(2)?.dim(1) == rank,
        "The densified operands should have the same ndims; for A, B, Sum got: {}, {}, {rank}",
        ctx.input(1)?.dim(1),
        ctx.input(2)?.dim(1)
    );
    require!(
        grads.dim(0) == sum.dim(0),
        "# elements of backprop_val_grad and # rows of sum_indices should match (#nnz of sum): got {} and {}",
        grads.dim(0),
        sum.dim(0)
    );
    let grads = grads.as_slice::<T>()?;
    for (output, input) in [(0, 1), (1, 2)] {
        let indices = ctx.input(input)?;
        let mut out = ctx.allocate_zeros(T::DTYPE, Shape::vector(indices.dim(0)))?;
        if rank > 0 {
            let mut sums = sum.as_slice::<i64>()?.chunks_exact(rank).zip(grads).peekable();
            let indices = indices.as_slice::<i64>()?.chunks_exact(rank);
            for (out, index) in out.as_mut_slice::<T>()?.iter_mut().zip(indices) {
                while sums.next_if(|(sum, _)| *sum < index).is_some() {}
                if let Some((sum, grad)) = sums.peek()
                    && *sum == index
                {
                    *out = **grad;
                }
            }
        }
        ctx.set_output(output, out);
    }
    Ok(())
}

fn dense_add<T: Number>(ctx: &mut OpContext<'_>) -> Result<()>
where
    T::Wide: Ring,
{
    let (indices, values, shape, dense) =
        (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?, ctx.input(3)?);
    require!(
        indices.rank() == 2,
        "Input a_indices should be a matrix but received shape: {}",
        indices.shape()
    );
    require!(
        values.rank() == 1 && shape.rank() == 1,
        "Inputs a_values and a_shape should be vectors but received shapes: {} and {}",
        values.shape(),
        shape.shape()
    );
    let dims = shape.to_i64s()?;
    require!(
        dims.len() == dense.rank(),
        "Two operands have different ranks; received: {} and {}",
        dims.len(),
        dense.rank()
    );
    require!(
        values.dim(0) == indices.dim(0),
        "Dimensions {} and {} are not compatible",
        values.dim(0),
        indices.dim(0)
    );
    for (axis, (sparse, dense)) in dims.iter().zip(dense.shape().dims()).enumerate() {
        require!(
            sparse == dense,
            "Dimension {axis} does not equal (no broadcasting is supported): sparse side {sparse} vs dense side {dense}"
        );
    }
    require!(indices.dim(1) == dims.len(), "a_indices and a_shape have different ranks");
    let indices = indices.to_i64s()?;
    let wide = vector_of(&indices, dims.len())?;
    let shape = crate::coo::vector(&dims)?;
    let coo = Coo::of_indices(&wide, &shape)?;
    coo.check_bounds()?;
    let offsets = coo.offsets();
    let values = values.clone();
    let mut out = ctx.take_or_copy_input(3)?;
    let sums = out.as_mut_slice::<T>()?;
    for (&at, &value) in offsets.iter().zip(values.as_slice::<T>()?) {
        sums[at] = plus(sums[at], value);
    }
    ctx.set_output(0, out);
    Ok(())
}

fn vector_of(indices: &[i64], rank: usize) -> Result<Tensor> {
    let rows = indices.len().checked_div(rank).unwrap_or(0);
    Tensor::from_slice(Shape::new(&[rows as i64, rank as i64])?, indices)
}

fn cwise_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let indices = shape_ops::with_rank(ctx.input(0), 2)?;
    ctx.set_output(0, PartialShape::vector(indices.dim(0)));
    Ok(())
}

/// What is done with a value and its dense counterpart.
trait Pairwise<T>: 'static {
    fn apply(a: T, b: T) -> Option<T>;
}

struct Add;
struct Mul;
struct Div;

/// Division, which of integers may have no result.
pub(crate) trait Divide: Sized {
    fn divide(self, other: Self) -> Option<Self>;
}

macro_rules! divides {
    (floats $($float:ty)*; integers $($integer:ty)*) => {
        $(impl Divide for $float {
            fn divide(self, other: $float) -> Option<$float> {
                Some(self / other)
            }
        })*
        $(impl Divide for $integer {
            fn divide(self, other: $integer) -> Option<$integer> {
                (other != 0).then(|| self.wrapping_div(other))
            }
        })*
    };
}
divides!(floats f32 f64; integers i8 i16 i32 i64 u8 u16 u32 u64);

impl<T: Number> Pairwise<T> for Add
where
    T::Wide: Ring,
{
    fn apply(a: T, b: T) -> Option<T> {
        Some(plus(a, b))
    }
}

impl<T: Number> Pairwise<T> for Mul
where
    T::Wide: Ring,
{
    fn apply(a: T, b: T) -> Option<T> {
        Some(T::narrow(a.widen().times(b.widen())))
    }
}

impl<T: Number> Pairwise<T> for Div
where
    T::Wide: Divide,
{
    fn apply(a: T, b: T) -> Option<T> {
        a.widen().divide(b.widen()).map(T::narrow)
    }
}

struct Cwise<P>(P);

impl<P: 'static> TypedLoop for Cwise<P> {
    type Loop = Compute;
}

impl<P: Pairwise<T>, T: Number> LoopFor<T> for Cwise<P> {
    const LOOP: Compute = cwise::<P, T>;
}

fn cwise<P: Pairwise<T>, T: Number>(ctx: &mut OpContext<'_>) -> Result<()> {
    let coo = Coo::at(ctx, 0)?;
    let dense = ctx.input(3)?;
    let dims = dense.shape().dims();
    // The dense operand's dimensions are the last ones; those of size 1 repeat.
    let fits = dims.len() <= coo.rank
        && dims
            .iter()
            .rev()
            .zip(coo.shape.iter().rev())
            .all(|(&dense, &sparse)| dense == 1 || dense == sparse);
    require!(
        fits,
        "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: [{}] vs. [{}]",
        join(coo.shape),
        join(dims)
    );
    let (values, dense) = (ctx.input_slice::<T>(1)?, dense.as_slice::<T>()?);
    let skipped = coo.rank - dims.len();
    ctx.try_produce(0, Shape::vector(coo.len()), |out| {
        for ((out, &value), index) in out.typed::<T>().iter_mut().zip(values).zip(coo.iter()) {
            let at = index[skipped..].iter().zip(dims).fold(0, |at, (&index, &size)| {
                at * size as usize + if size == 1 { 0 } else { index as usize }
            });
            *out =
                P::apply(value, dense[at]).ok_or_else(|| invalid!("Integer division by zero"))?;
        }
        Ok(())
    })
}

fn extreme_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    static_parts(ctx, 0)?;
    static_parts(ctx, 3)?;
    ctx.set_output(0, PartialShape::matrix(Dim::fresh(), Dim::fresh()));
    ctx.set_output(1, PartialShape::vector(Dim::fresh()));
    Ok(())
}

struct Extreme<P>(P);
struct Max;
struct Min;

impl<T: PartialOrd> Pairwise<T> for Max {
    fn apply(a: T, b: T) -> Option<T> {
        Some(if a < b { b } else { a })
    }
}

impl<T: PartialOrd> Pairwise<T> for Min {
    fn apply(a: T, b: T) -> Option<T> {
        Some(if b < a { b } else { a })
    }
}

impl<P: 'static> TypedLoop for Extreme<P> {
    type Loop = Compute;
}

impl<P: Pairwise<T>, T: Number> LoopFor<T> for Extreme<P> {
    const LOOP: Compute = extreme::<P, T>;
}

fn extreme<P: Pairwise<T>, T: Number>(ctx: &mut OpContext<'_>) -> Result<()> {
    let (a, b) = (Coo::unchecked(ctx, 0)?, Coo::unchecked(ctx, 3)?);
    check_shapes(&a, &b)?;
    let (x, y) = (ctx.input_slice::<T>(1)?, ctx.input_slice::<T>(4)?);
    let (mut indices, mut values) = (Vec::new(), Vec::new());
    merge(&a, &b, &mut |i, j| {
        let index = match (i, j) {
            (Some(i), _) => a.index(i),
            (None, Some(j)) => b.index(j),
            (None, None) => return,
        };
        let left = i.map_or_else(T::default, |i| x[i]);
        let right = j.map_or_else(T::default, |j| y[j]);
        indices.extend_from_slice(index);
        values.extend(P::apply(left, right));
    });
    ctx.set_output(0, matrix(ctx, &indices, a.rank)?);
    ctx.set_output(1, Tensor::from_slice(Shape::vector(values.len()), &values)?);
    Ok(())
}
