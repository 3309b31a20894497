//! Ops that change the shape and leave the elements: `Reshape`, `Squeeze`, `ExpandDims`, `Bitcast`,
//! `EnsureShape`.

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `Reshape(tensor: T, shape: Tshape) -> output: T`; one size may be -1.
    r.op("Reshape").shape(reshape_shape).compute(reshape);
    // `Squeeze(input: T) -> output: T`, without dimensions of size 1.
    r.op("Squeeze").shape(squeeze_shape).cpu(squeeze_kernel);
    // `ExpandDims(input: T, dim: Tdim) -> output: T`, with one more dimension of size 1.
    r.op("ExpandDims").shape(expand_dims_shape).compute(expand_dims);
    // `Bitcast(input: T) -> output: type`: the same bytes.
    r.op("Bitcast").shape(bitcast_shape).cpu(bitcast_kernel);
    // `EnsureShape(input: T) -> output: T`: fails unless the input has the attr's shape.
    r.op("EnsureShape").shape(ensure_shape_shape).cpu(ensure_shape_kernel);
}

/// The product of the known dimensions and where the unknown one is.
struct Factors {
    known: i64,
    unknown: Option<usize>,
}

/// `None` if more than one dimension is unknown. A dimension of size 0 decides by itself.
fn factors(dims: &[Dim]) -> Result<Option<Factors>> {
    if dims.iter().any(|dim| dim.value() == Some(0)) {
        return Ok(Some(Factors { known: 0, unknown: None }));
    }
    let mut factors = Factors { known: 1, unknown: None };
    let mut product = Dim::new(1);
    for (axis, &dim) in dims.iter().enumerate() {
        if dim.is_known() {
            product = shape_ops::multiply(product, dim)?;
        } else if factors.unknown.replace(axis).is_some() {
            return Ok(None);
        }
    }
    factors.known = product.to_i64();
    Ok(Some(factors))
}

fn reshape_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let target = ctx.operand_shape(1)?;
    let shape = infer_reshape(ctx.input(0), target)?;
    ctx.set_output(0, shape);
    ctx.forward_handle(0, 0);
    Ok(())
}

/// What is known of `input` reshaped to `target`: one unknown dimension follows from the others.
fn infer_reshape(input: &PartialShape, target: PartialShape) -> Result<PartialShape> {
    let (Some(from), Some(to)) = (input.dims(), target.dims()) else {
        return Ok(target);
    };
    let (Some(source), Some(result)) = (factors(from)?, factors(to)?) else {
        return Ok(target);
    };
    match (source.unknown, result.unknown) {
        (None, None) => {
            require!(
                source.known == result.known,
                "Cannot reshape a tensor with {} elements to shape {target} ({} elements)",
                source.known,
                result.known
            );
            Ok(target)
        }
        (None, Some(axis)) if result.known > 0 => {
            let dim = shape_ops::divide(Dim::new(source.known), result.known, true)?;
            shape_ops::replace_dim(&target, axis as i64, dim)
        }
        (Some(axis), None) if source.known > 0 => {
            let dim = shape_ops::divide(Dim::new(result.known), source.known, true)?;
            shape_ops::merge_dims(from[axis], dim)?;
            Ok(target)
        }
        (Some(axis), Some(open)) if source.known == result.known => {
            shape_ops::replace_dim(&target, open as i64, from[axis])
        }
        _ => Ok(target),
    }
}

fn reshape(ctx: &mut OpContext<'_>) -> Result<()> {
    let sizes = ctx.input(1)?;
    // Older graphs have a scalar for a vector of one size.
    require!(sizes.rank() <= 1, "sizes input must be 1-D, not {}", sizes.shape());
    let shape = reshaped(ctx.input(0)?.shape(), &sizes.to_i64s()?)?;
    let tensor = ctx.take_input(0)?.with_shape(shape)?;
    ctx.set_output(0, tensor);
    Ok(())
}

/// The shape that `sizes` means for the elements of `input`.
fn reshaped(input: &Shape, sizes: &[i64]) -> Result<Shape> {
    let mut dims = sizes.to_vec();
    let mut unknown: Option<usize> = None;
    for (axis, size) in dims.iter_mut().enumerate() {
        if *size == -1 {
            if let Some(other) = unknown.replace(axis) {
                return Err(invalid!("Only one input size may be -1, not both {other} and {axis}"));
            }
            *size = 1;
        }
        require!(*size >= 0, "Size {axis} must be non-negative, not {size}");
    }
    let mut shape = Shape::new(&dims)?;
    if let Some(axis) = unknown {
        // Zeros among the sizes stand for those of the input; the size is found from what is left of both.
        let has_zero = dims.contains(&0);
        let product_of = |dims: &[i64]| {
            let dims = dims.iter().filter(|&&dim| !has_zero || dim != 0);
            dims.fold(1i64, |product, &dim| product.saturating_mul(dim))
        };
        let (count, product) = (product_of(input.dims()), product_of(&dims));
        let is_exact = count % product == 0 || has_zero && input.dims().contains(&0);
        require!(
            is_exact,
            "Input to reshape is a tensor with {count} values, but the requested shape requires a multiple \
             of {product}"
        );
        dims[axis] = count / product;
        shape = Shape::new(&dims)?;
    }
    require!(
        shape.count() == input.count(),
        "Input to reshape is a tensor with {} values, but the requested shape has {}",
        input.count(),
        shape.count()
    );
    Ok(shape)
}

fn squeeze_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let axes = ctx.attrs.ints("squeeze_dims")?;
    ctx.forward_handle(0, 0);
    let Some(dims) = ctx.input(0).dims() else {
        return Ok(());
    };
    let rank = dims.len() as i64;
    let mut chosen = vec![false; dims.len()];
    for (index, &axis) in axes.iter().enumerate() {
        require!((-rank..rank).contains(&axis), "squeeze_dims[{index}] not in [{},{rank}).", -rank);
        chosen[axis.rem_euclid(rank) as usize] = true;
    }
    if axes.is_empty() && dims.iter().any(|dim| !dim.is_known()) {
        return Ok(());
    }
    for (axis, dim) in dims.iter().enumerate() {
        require!(
            !chosen[axis] || dim.value().is_none_or(|size| size == 1),
            "Can not squeeze dim[{axis}], expected a dimension of 1, got {dim}"
        );
    }
    let keeps = |axis: usize, dim: Dim| match axes.is_empty() {
        true => dim.value() != Some(1),
        false => !chosen[axis],
    };
    let shape =
        dims.iter().enumerate().filter(|&(axis, &dim)| keeps(axis, dim)).map(|(_, &dim)| dim);
    let shape = shape.collect();
    ctx.set_output(0, shape);
    Ok(())
}

fn squeeze_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let axes = init.attrs.ints("squeeze_dims")?.to_vec();
    kernel(move |ctx| {
        let shape = squeezed(ctx.input(0)?.shape(), &axes)?;
        let tensor = ctx.take_input(0)?.with_shape(shape)?;
        ctx.set_output(0, tensor);
        Ok(())
    })
}

fn squeezed(input: &Shape, axes: &[i64]) -> Result<Shape> {
    let rank = input.rank() as i64;
    let mut chosen = vec![axes.is_empty(); input.rank()];
    for &axis in axes {
        require!(
            (-rank..rank).contains(&axis),
            "Tried to squeeze dim index {axis} for tensor with {rank} dimensions."
        );
        let axis = axis.rem_euclid(rank) as usize;
        require!(
            input[axis] == 1,
            "Can not squeeze dim[{axis}], expected a dimension of 1, got {}",
            input[axis]
        );
        chosen[axis] = true;
    }
    let dims: Vec<i64> = input
        .iter()
        .zip(chosen)
        .filter(|&(&size, chosen)| !chosen || size != 1)
        .map(|(&size, _)| size)
        .collect();
    Shape::new(&dims)
}

fn expand_dims_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let axis = ctx.operand_i64s(1)?;
    require!(
        axis.as_ref().is_none_or(|values| values.len() == 1),
        "'dim' input must be a tensor with a single value"
    );
    ctx.forward_handle(0, 0);
    let (Some(axis), Some(dims)) = (axis, ctx.input(0).dims()) else {
        return Ok(());
    };
    let (axis, rank) = (axis[0], dims.len() as i64);
    require!(
        (-rank - 1..=rank).contains(&axis),
        "dim {axis} not in the interval [{}, {rank}].",
        -rank - 1
    );
    let mut dims = dims.to_vec();
    dims.insert(axis.rem_euclid(rank + 1) as usize, Dim::new(1));
    ctx.set_output(0, dims.into_iter().collect());
    Ok(())
}

fn expand_dims(ctx: &mut OpContext<'_>) -> Result<()> {
    let axis = ctx.input(1)?;
    require!(axis.count() == 1, "'dim' must be a tensor with a single value");
    let axis = axis.to_i64s()?[0];
    let mut dims = ctx.input(0)?.shape().dims().to_vec();
    let rank = dims.len() as i64;
    require!(
        (-rank - 1..=rank).contains(&axis),
        "Tried to expand dim index {axis} for tensor with {rank} dimensions."
    );
    dims.insert(axis.rem_euclid(rank + 1) as usize, 1);
    let shape = Shape::new(&dims)?;
    let tensor = ctx.take_input(0)?.with_shape(shape)?;
    ctx.set_output(0, tensor);
    Ok(())
}

fn bitcast_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (from, to) = (ctx.attrs.dtype("T")?.size(), ctx.attrs.dtype("type")?.size());
    let Some(dims) = ctx.input(0).dims() else {
        return Ok(());
    };
    let mut dims = dims.to_vec();
    if to > from {
        // The last dimension makes up one element.
        let parts = (to / from) as i64;
        let Some(last) = dims.pop() else {
            return Err(invalid!("Shape must be at least rank 1 but is rank 0"));
        };
        require!(
            last.value().is_none_or(|size| size == parts),
            "Cannot bitcast from {to} to {from} due to shape. {last} does not match {parts}"
        );
    } else if from > to {
        dims.push(Dim::new((from / to) as i64));
    }
    ctx.set_output(0, dims.into_iter().collect());
    Ok(())
}

fn bitcast_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let to: DType = init.output_dtypes[0];
    kernel(move |ctx| {
        let input: Tensor = ctx.take_input(0)?;
        let (old, new) = (input.dtype().size(), to.size());
        let mut dims = input.shape().dims().to_vec();
        if new > old {
            let parts = (new / old) as i64;
            require!(
                dims.last() == Some(&parts),
                "Cannot bitcast from {} to {to}: shape {} incompatible",
                input.dtype(),
                input.shape()
            );
            dims.pop();
        } else if old > new {
            dims.push((old / new) as i64);
        }
        let out = input.bitcast(to, Shape::new(&dims)?)?;
        ctx.set_output(0, out);
        Ok(())
    })
}

fn ensure_shape_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let expected = ctx.attrs.shape("shape")?;
    let input = match expected.rank() {
        Some(rank) => shape_ops::with_rank(ctx.input(0), rank)?,
        None => ctx.input(0).clone(),
    };
    let shape = shape_ops::merge(expected, &input)?;
    ctx.set_output(0, shape);
    Ok(())
}

fn ensure_shape_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let expected = init.attrs.shape("shape")?.clone();
    let name = init.name.to_string();
    kernel(move |ctx| {
        let input = ctx.take_input(0)?;
        require!(
            expected.admits(input.shape()),
            "Shape of tensor {name} {} is not compatible with expected shape {expected}.",
            input.shape()
        );
        ctx.set_output(0, input);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_framework::AttrValue;

    #[test]
    fn reshapes_infer_one_size() {
        let cases: [(&[i64], &[i32], &str); 12] = [
            (&[2, 3], &[3, -1], "[3,2]"),
            (&[2, 3], &[-1], "[6]"),
            (&[0, 3], &[-1, 3], "[0,3]"),
            (&[2, 1, 0, 1, 2, 1], &[-1, 0], "[4,0]"),
            (&[0, 3], &[0, -1], "[0,3]"),
            (&[2, 0], &[0, -1, 0], "[0,2,0]"),
            (&[4, 0, 3], &[-1, 0, 2], "[6,0,2]"),
            (&[4, 0, 3], &[-1, 0, 5], "[2,0,5]"),
            (
                &[2, 3],
                &[-1, 0],
                "Input to reshape is a tensor with 6 values, but the requested shape has 0",
            ),
            (&[2, 3], &[-1, -1], "Only one input size may be -1, not both 0 and 1"),
            (
                &[2, 3],
                &[4, -1],
                "Input to reshape is a tensor with 6 values, but the requested shape requires a multiple of 4",
            ),
            (
                &[2, 3],
                &[5],
                "Input to reshape is a tensor with 6 values, but the requested shape has 5",
            ),
        ];
        for (dims, sizes, expected) in cases {
            let out = run("Reshape", &[int32()], &[counting(dims), ints(sizes)]);
            let found = match &out {
                Ok(out) => out[0].shape().to_string(),
                Err(error) => error.message().to_string(),
            };
            assert_eq!(found, expected, "{dims:?} {sizes:?}");
        }
    }

    #[test]
    fn static_shapes_of_reshapes() {
        let sizes = |sizes: &[i32]| vec![(1, ints(sizes))];
        let cases = [
            ("[2,3];[2]", sizes(&[3, -1]), "[3,2]"),
            ("[?,3];[2]", sizes(&[3, -1]), "[3,?]"),
            ("[2,?];[2]", sizes(&[2, -1]), "[2,?]"),
            ("[2,3];[2]", vec![], "[?,?]"),
            ("?;?", vec![], "?"),
            (
                "[2,3];[1]",
                sizes(&[5]),
                "Cannot reshape a tensor with 6 elements to shape [5] (5 elements)",
            ),
            ("[2,3];[2]", sizes(&[4, -1]), "Dimension size must be evenly divisible by 4 but is 6"),
        ];
        for (inputs, constants, expected) in cases {
            assert_eq!(shapes("Reshape", &[int32()], inputs, &constants), expected, "{inputs}");
        }
    }

    #[test]
    fn sizes_of_1_come_and_go() {
        let squeeze =
            |axes: &[i64]| [int32(), ("squeeze_dims", AttrValue::ints(axes.iter().copied()))];
        let cases: [(&[i64], &[i64], &str); 4] = [
            (&[1, 2, 1], &[], "[2]"),
            (&[1, 2, 1], &[-1], "[1,2]"),
            (&[1, 2, 1], &[1], "Can not squeeze dim[1], expected a dimension of 1, got 2"),
            (&[1, 2, 1], &[3], "Tried to squeeze dim index 3 for tensor with 3 dimensions."),
        ];
        for (dims, axes, expected) in cases {
            let found = run("Squeeze", &squeeze(axes), &[counting(dims)]);
            let found = found.map(|out| out[0].shape().to_string());
            assert_eq!(found.unwrap_or_else(|error| error.message().to_string()), expected);
        }
        assert_eq!(shapes("Squeeze", &squeeze(&[]), "[1,?]", &[]), "?");
        assert_eq!(shapes("Squeeze", &squeeze(&[0]), "[?,?]", &[]), "[?]");
        let expanded =
            values::<i32>("ExpandDims", &[int32()], &[ints(&[7]), Tensor::scalar(-1i32)]);
        assert_eq!(expanded.unwrap(), (vec![1, 1], vec![7]));
        assert_eq!(
            shapes("ExpandDims", &[int32()], "[2,3];[]", &[(1, Tensor::scalar(1i32))]),
            "[2,1,3]"
        );
    }

    #[test]
    fn bits_are_kept() {
        let attrs = [("T", of(DType::FLOAT)), ("type", of(DType::UINT8))];
        let bytes = values::<u8>("Bitcast", &attrs, &[tensor(&[1], &[1.0f32])]).unwrap();
        assert_eq!(bytes, (vec![1, 4], vec![0, 0, 0x80, 0x3f]));
        let back = [("T", of(DType::UINT8)), ("type", of(DType::FLOAT))];
        assert_eq!(shapes("Bitcast", &back, "[5,4]", &[]), "[5]");
        assert!(
            failure("Bitcast", &back, &[tensor(&[3], &[0u8; 3])])
                .starts_with("Cannot bitcast from uint8 to float")
        );
    }
}
