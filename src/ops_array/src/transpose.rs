//! Ops that permute: `Transpose`, `ConjugateTranspose`, `InvertPermutation`.

use tfcore_base::{Complex64, Complex128, DType, Result, invalid, require};
use tfcore_framework::geometry::StridedView;
use tfcore_framework::movement::{copy_view, for_each_units};
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_fns, shape_ops};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

use crate::slice::output_view;

pub(crate) fn register(r: &mut Registry) {
    // `Transpose(x: T, perm: Tperm) -> y: T`, where axis `i` of `y` is axis `perm[i]` of `x`.
    r.op("Transpose").shape(transpose_shape).compute(transpose);
    // `ConjugateTranspose(x: T, perm: Tperm) -> y: T`, conjugated as well.
    r.op("ConjugateTranspose").shape(transpose_shape).compute(|ctx| {
        let (view, shape) = permuted(ctx)?;
        let mut out = ctx.allocate_output(0, shape)?;
        copy_view(ctx.parallel(), ctx.input(0)?.elems(), &view, out.elems_mut()?);
        conjugate(ctx.parallel(), &mut out)?;
        ctx.set_output(0, out);
        Ok(())
    });
    // `InvertPermutation(x: T) -> y: T`, where `y[x[i]] = i`.
    r.op("InvertPermutation").shape(shape_fns::unchanged_of_rank(1)).compute(invert_permutation);
}

fn transpose_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (input, perm_shape) = (ctx.input(0), ctx.input(1));
    let perm = ctx.operand_i64s(1)?;
    let perm_count = shape_ops::num_elements(perm_shape);
    let from_perm = || {
        let count = perm.as_ref().map(|perm| perm.len() as i64);
        perm_count.value().or(count).and_then(|count| usize::try_from(count).ok())
    };
    let Some(rank) = input.rank().or_else(from_perm) else {
        return Ok(());
    };
    // A permutation of one axis leaves vectors as they are, and the reference scalars too.
    if input.rank().is_none() && rank < 2 {
        return Ok(());
    }
    let input = shape_ops::with_rank(input, rank)?;
    shape_ops::with_rank(perm_shape, 1)?;
    shape_ops::with_value(perm_count, rank as i64)?;
    let shape: PartialShape = match perm {
        None => PartialShape::of_rank(rank),
        Some(perm) => {
            let source = |&axis: &i64| {
                shape_ops::resolve_axis(axis, rank)
                    .map(|axis| input.dim(axis))
                    .map_err(|_| invalid!("perm dim {axis} is out of range of input rank {rank}"))
            };
            perm.iter().map(source).collect::<Result<Vec<Dim>>>()?.into_iter().collect()
        }
    };
    ctx.set_output(0, shape);
    Ok(())
}

fn transpose(ctx: &mut OpContext<'_>) -> Result<()> {
    let (view, shape) = permuted(ctx)?;
    output_view(ctx, &view, shape)
}

/// The permuted elements of input 0 and their shape.
fn permuted(ctx: &OpContext<'_>) -> Result<(StridedView, Shape)> {
    let (input, perm) = (ctx.input(0)?, ctx.input(1)?);
    require!(perm.rank() == 1, "perm must be rank 1, got shape {}", perm.shape());
    let rank = input.rank();
    require!(
        perm.count() == rank,
        "transpose expects a vector of size {rank}. But input(1) is a vector of size {}",
        perm.count()
    );
    let axes = permutation(&perm.to_i64s()?)?;
    let dims: Vec<i64> = axes.iter().map(|&axis| input.shape()[axis]).collect();
    let view = StridedView::transposed(input.shape(), &axes);
    Ok((view, Shape::new(&dims)?))
}

/// The axes of a permutation, of which negative ones count from the end.
fn permutation(perm: &[i64]) -> Result<Vec<usize>> {
    let rank = perm.len() as i64;
    let mut seen = vec![false; perm.len()];
    let mut axes = Vec::with_capacity(perm.len());
    for &axis in perm {
        let resolved = if axis < 0 { axis.saturating_add(rank) } else { axis };
        require!((0..rank).contains(&resolved), "{axis} is out of range [0 .. {rank})");
        seen[resolved as usize] = true;
        axes.push(resolved as usize);
    }
    if let Some(missing) = seen.iter().position(|seen| !seen) {
        let perm: Vec<String> = perm.iter().map(i64::to_string).collect();
        return Err(invalid!("{missing} is missing from {{{}}}.", perm.join(",")));
    }
    Ok(axes)
}

/// Conjugates the elements, if they are complex.
fn conjugate(parallel: Parallel<'_>, tensor: &mut Tensor) -> Result<()> {
    let dtype = tensor.dtype();
    if !dtype.is_complex() {
        return Ok(());
    }
    for_each_units(parallel, tensor.elems_mut()?, 1, &|_, part| match dtype {
        DType::COMPLEX64 => part.typed::<Complex64>().iter_mut().for_each(|z| z.im = -z.im),
        _ => part.typed::<Complex128>().iter_mut().for_each(|z| z.im = -z.im),
    });
    Ok(())
}

fn invert_permutation(ctx: &mut OpContext<'_>) -> Result<()> {
    let input = ctx.input(0)?;
    require!(input.rank() == 1, "invert_permutation expects a 1D vector.");
    let values = input.to_i64s()?;
    let mut inverse = vec![-1i64; values.len()];
    for (index, &value) in values.iter().enumerate() {
        let slot = usize::try_from(value).ok().and_then(|value| inverse.get_mut(value));
        let Some(slot) = slot else {
            return Err(invalid!("{value} is not between 0 and {}", values.len()));
        };
        require!(*slot == -1, "{value} is duplicated in the input.");
        *slot = index as i64;
    }
    let out = match input.dtype() {
        DType::INT64 => Tensor::from_slice(input.shape().clone(), &inverse)?,
        _ => {
            // As many positions as `int32` elements fit an `int32`, or some value would be duplicated.
            let inverse: Vec<i32> = inverse.iter().map(|&index| index as i32).collect();
            Tensor::from_slice(input.shape().clone(), &inverse)?
        }
    };
    ctx.set_output(0, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    #[test]
    fn transposing() {
        let attrs = [int32(), ("Tperm", of(DType::INT32))];
        let found =
            values::<i32>("Transpose", &attrs, &[counting(&[2, 3]), ints(&[1, 0])]).unwrap();
        assert_eq!(found, (vec![3, 2], vec![0, 3, 1, 4, 2, 5]));
        let complex = [("T", of(DType::COMPLEX64)), ("Tperm", of(DType::INT32))];
        let z = tensor(&[1, 2], &[Complex64::new(1.0, 2.0), Complex64::new(3.0, -4.0)]);
        let found =
            values::<Complex64>("ConjugateTranspose", &complex, &[z, ints(&[1, 0])]).unwrap();
        assert_eq!(found.1, [Complex64::new(1.0, -2.0), Complex64::new(3.0, 4.0)]);
    }

    #[test]
    fn what_is_no_permutation_is_refused() {
        let attrs = [int32(), ("Tperm", of(DType::INT32))];
        let cases: [(&[i32], &str); 3] = [
            (&[0, 0], "1 is missing from {0,0}."),
            (&[0, 2], "2 is out of range [0 .. 2)"),
            (&[0], "transpose expects a vector of size 2. But input(1) is a vector of size 1"),
        ];
        for (perm, message) in cases {
            let found = failure("Transpose", &attrs, &[counting(&[2, 3]), ints(perm)]);
            assert_eq!(found, message, "{perm:?}");
        }
    }

    #[test]
    fn shapes_of_transposes() {
        let attrs = [int32(), ("Tperm", of(DType::INT32))];
        let perm = || vec![(1, ints(&[2, 0, 1]))];
        let cases = [
            ("[2,?,4];[3]", perm(), "[4,2,?]"),
            ("?;[3]", perm(), "[?,?,?]"),
            ("[2,3,4];?", vec![], "[?,?,?]"),
            ("?;[1]", vec![], "?"),
            ("[2];[2]", vec![], "Dimension must be 1 but is 2"),
        ];
        for (inputs, constants, expected) in cases {
            assert_eq!(shapes("Transpose", &attrs, inputs, &constants), expected, "{inputs}");
        }
    }

    #[test]
    fn inverting() {
        let inverse = values::<i32>("InvertPermutation", &[int32()], &[ints(&[2, 0, 1])]).unwrap();
        assert_eq!(inverse.1, [1, 2, 0]);
        for (values, message) in
            [([0, 0], "0 is duplicated in the input."), ([0, 2], "2 is not between 0 and 2")]
        {
            assert_eq!(failure("InvertPermutation", &[int32()], &[ints(&values)]), message);
        }
    }
}
