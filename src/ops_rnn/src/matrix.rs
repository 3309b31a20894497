//! Matrices of floats in which cells compute; half types are widened when read and rounded when written.

use tfcore_base::{DType, Half, Result, invalid, require};
use tfcore_framework::OpContext;
use tfcore_math::gemm::{MatMut, MatRef, matmul};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{Shape, Tensor};

/// The elements of a tensor of `float` or `half`.
pub(crate) fn read(tensor: &Tensor) -> Result<Vec<f32>> {
    match tensor.dtype() {
        DType::HALF => Ok(tensor.as_slice::<Half>()?.iter().map(|x| x.to_f32()).collect()),
        _ => Ok(tensor.as_slice::<f32>()?.to_vec()),
    }
}

/// Sets output `index` to these elements.
pub(crate) fn write(
    ctx: &OpContext<'_>,
    index: usize,
    dims: &[usize],
    values: &[f32],
) -> Result<()> {
    let dims: Vec<i64> = dims.iter().map(|&size| size as i64).collect();
    let mut tensor = ctx.allocate_output(index, Shape::new(&dims)?)?;
    match tensor.dtype() {
        DType::HALF => {
            let out = tensor.as_mut_slice::<Half>()?.iter_mut();
            out.zip(values).for_each(|(to, &x)| *to = Half::from_f32(x));
        }
        _ => tensor.as_mut_slice::<f32>()?.copy_from_slice(values),
    }
    ctx.set_output(index, tensor);
    Ok(())
}

/// Rounds values to what the type of input `index` holds.
pub(crate) fn round(ctx: &OpContext<'_>, index: usize, values: &mut [f32]) -> Result<()> {
    if ctx.input(index)?.dtype() == DType::HALF {
        values.iter_mut().for_each(|x| *x = Half::from_f32(*x).to_f32());
    }
    Ok(())
}

/// The extents of input `index`, called `name`, which has rank `N`.
///
/// # Errors
/// `InvalidArgument` for another rank.
pub(crate) fn extents<const N: usize>(
    ctx: &OpContext<'_>,
    index: usize,
    name: &str,
) -> Result<[usize; N]> {
    let shape = ctx.input(index)?.shape();
    <[usize; N]>::try_from(shape.to_usizes().as_slice())
        .map_err(|_| invalid!("{name} must be rank {N} but is rank {}", shape.rank()))
}

/// Requires two extents to be equal; `what` says which.
pub(crate) fn equal(what: &str, found: usize, expected: usize) -> Result<()> {
    require!(found == expected, "{what}: {found} vs. {expected}");
    Ok(())
}

/// `x · w`; x is [m, k], w is [k, n].
pub(crate) fn product(
    par: Parallel<'_>,
    m: usize,
    n: usize,
    k: usize,
    x: &[f32],
    w: &[f32],
) -> Vec<f32> {
    general(par, [m, n, k], MatRef::new(x, k, 1), MatRef::new(w, n, 1))
}

/// `x · wᵀ`; x is [m, k], w is [n, k].
pub(crate) fn product_transposed(
    par: Parallel<'_>,
    m: usize,
    n: usize,
    k: usize,
    x: &[f32],
    w: &[f32],
) -> Vec<f32> {
    general(par, [m, n, k], MatRef::new(x, k, 1), MatRef::new(w, 1, k))
}

/// Adds `xᵀ · y` to `sum`; x is [k, m], y is [k, n].
pub(crate) fn add_transposed_product(
    par: Parallel<'_>,
    [m, n, k]: [usize; 3],
    x: &[f32],
    y: &[f32],
    sum: &mut [f32],
) {
    if m * n * k > 0 {
        let (x, y) = (MatRef::new(x, 1, m), MatRef::new(y, n, 1));
        matmul(par, m, n, k, x, y, MatMut::new(sum, n, 1), true);
    }
}

fn general(par: Parallel<'_>, [m, n, k]: [usize; 3], a: MatRef<f32>, b: MatRef<f32>) -> Vec<f32> {
    let mut out = vec![0.0; m * n];
    if m * n * k > 0 {
        matmul(par, m, n, k, a, b, MatMut::new(&mut out, n, 1), false);
    }
    out
}

/// The rows of `x`, which has `a` columns, each followed by that of `y`, which has `b`.
pub(crate) fn side_by_side(rows: usize, x: &[f32], a: usize, y: &[f32], b: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(rows * (a + b));
    for row in 0..rows {
        out.extend_from_slice(&x[row * a..][..a]);
        out.extend_from_slice(&y[row * b..][..b]);
    }
    out
}
