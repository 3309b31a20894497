//! `SparseTensorDenseMatMul`.

use tfcore_base::{
    BFloat16, Complex64, Complex128, Half, LoopFor, Number, Result, Ring, TypedLoop, invalid,
    require,
};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{PartialShape, Shape};

type Types = (f32, f64, Half, BFloat16, i32, Complex64, Complex128);

pub(crate) fn register(r: &mut Registry) {
    // `SparseTensorDenseMatMul(a_indices: Tindices, a_values: T, a_shape: int64, b: T) -> product: T`, of the adjoints by attr.
    r.op("SparseTensorDenseMatMul")
        .shape(product_shape)
        .typed_kernel::<Product, Types>("T", product_kernel);
}

fn product_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(0), 2)?;
    shape_ops::with_rank(ctx.input(1), 1)?;
    let a = shape_ops::with_rank(&ctx.operand_shape(2)?, 2)?;
    let b = shape_ops::with_rank(ctx.input(3), 2)?;
    let (adjoint_a, adjoint_b) = (ctx.attrs.bool("adjoint_a")?, ctx.attrs.bool("adjoint_b")?);
    let [a_outer, a_inner] = [usize::from(adjoint_a), usize::from(!adjoint_a)];
    let [b_inner, b_outer] = [usize::from(adjoint_b), usize::from(!adjoint_b)];
    shape_ops::merge_dims(a.dim(a_inner), b.dim(b_inner))?;
    ctx.set_output(0, PartialShape::matrix(a.dim(a_outer), b.dim(b_outer)));
    Ok(())
}

type ProductLoop = fn(&mut OpContext<'_>, [bool; 2]) -> Result<()>;

struct Product;

impl TypedLoop for Product {
    type Loop = ProductLoop;
}

impl<T: Number> LoopFor<T> for Product
where
    T::Wide: Ring,
{
    const LOOP: ProductLoop = product::<T>;
}

fn product_kernel(init: &KernelInit<'_>, found: ProductLoop) -> Result<Box<dyn Kernel>> {
    let adjoint = [init.attrs.bool("adjoint_a")?, init.attrs.bool("adjoint_b")?];
    kernel(move |ctx| found(ctx, adjoint))
}

fn product<T: Number>(ctx: &mut OpContext<'_>, [adjoint_a, adjoint_b]: [bool; 2]) -> Result<()>
where
    T::Wide: Ring,
{
    let (indices, values, shape, b) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?, ctx.input(3)?);
    require!(b.rank() == 2, "Tensor 'b' is not a matrix");
    require!(shape.rank() == 1, "Tensor 'a_shape' is not a vector");
    require!(shape.count() == 2, "Tensor 'a_shape' must have 2 elements");
    require!(values.rank() == 1, "Tensor 'a_values' is not a vector");
    require!(indices.rank() == 2, "Tensor 'a_indices' is not a matrix");
    require!(
        indices.dim(0) == values.dim(0),
        "Number of rows of a_indices does not match number of entries in a_values"
    );
    require!(
        indices.dim(1) == 2,
        "Number of columns of a_indices does not match number of entries in a_shape"
    );
    let a = shape.as_slice::<i64>()?;
    let (outer, inner) = if adjoint_a { (a[1], a[0]) } else { (a[0], a[1]) };
    let (b_inner, columns) = if adjoint_b { (b.dim(1), b.dim(0)) } else { (b.dim(0), b.dim(1)) };
    require!(
        inner == b_inner as i64,
        "Cannot multiply A and B because inner dimension does not match: {inner} vs. {b_inner}.  Did you forget a \
         transpose?  Dimensions of A: [{}, {}).  Dimensions of B: {}",
        a[0],
        a[1],
        b.shape()
    );
    let indices = indices.to_i64s()?;
    let values = values.as_slice::<T>()?;
    let right = b.as_slice::<T>()?;
    let out_shape = Shape::new(&[outer, columns as i64])?;
    let mut sums = tfcore_base::try_filled(T::Wide::ZERO, out_shape.count())?;
    for (position, (index, &value)) in indices.as_chunks::<2>().0.iter().zip(values).enumerate() {
        let [row, column] = if adjoint_a { [index[1], index[0]] } else { *index };
        let bad = |at: i64, place: usize, size: i64| {
            invalid!("{at} from index[{position},{place}] out of bounds (>={size})")
        };
        require_inside(column, inner).ok_or_else(|| bad(column, usize::from(!adjoint_a), inner))?;
        require_inside(row, outer).ok_or_else(|| bad(row, usize::from(adjoint_a), outer))?;
        let value = if adjoint_a { value.widen().conjugate() } else { value.widen() };
        let (row, column) = (row as usize, column as usize);
        let sums = &mut sums[row * columns..(row + 1) * columns];
        if adjoint_b {
            for (at, sum) in sums.iter_mut().enumerate() {
                let other = right[at * b_inner + column].widen().conjugate();
                *sum = sum.plus(value.times(other));
            }
        } else {
            for (sum, other) in
                sums.iter_mut().zip(&right[column * columns..(column + 1) * columns])
            {
                *sum = sum.plus(value.times(other.widen()));
            }
        }
    }
    ctx.produce(0, out_shape, |out| {
        for (out, sum) in out.typed::<T>().iter_mut().zip(&sums) {
            *out = T::narrow(*sum);
        }
    })
}

fn require_inside(at: i64, size: i64) -> Option<()> {
    (0..size).contains(&at).then_some(())
}
