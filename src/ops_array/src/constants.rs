//! Tensors from nothing: `Const`, placeholders, `Fill`, `ZerosLike`, `OnesLike`.

use std::path::Path;

use num_traits::One;
use tfcore_base::{
    DType, Elem, LoopFor, Numbers, Result, TypedLoop, invalid, require, resource_exhausted,
    unimplemented_error,
};
use tfcore_framework::movement::for_each_units;
use tfcore_framework::{
    Forward, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns,
    shape_ops,
};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{ElemsMut, Shape, Tensor, Variant};

pub(crate) fn register(r: &mut Registry) {
    // `Const() -> output: dtype`.
    r.op("Const").shape(const_shape).cpu(const_kernel);
    // `Placeholder() -> output: dtype`: to be fed.
    r.op("Placeholder").shape(placeholder_shape).cpu(placeholder_kernel);
    r.op("PlaceholderV2").shape(shape_fns::explicit).cpu(placeholder_kernel);
    // `PlaceholderWithDefault(input: dtype) -> output: dtype`: the input, unless it is fed.
    r.op("PlaceholderWithDefault")
        .shape(placeholder_with_default_shape)
        .cpu(|_| Ok(Box::new(Forward)));
    // `Fill(dims: index_type, value: T) -> output: T`.
    r.op("Fill").shape(fill_shape).compute(fill);
    // `Empty(shape: int32; init) -> output: dtype`: a tensor of that shape; zeros if `init` is set.
    r.op("Empty").shape(empty_shape).compute(empty);
    // `ImmutableConst(; dtype, shape, memory_region_name) -> tensor: dtype`: the bytes of a file.
    r.op("ImmutableConst").shape(shape_fns::explicit).cpu(immutable_const_kernel);
    // `ZerosLike(x: T) -> y: T`.
    r.op("ZerosLike").shape(shape_fns::unchanged).compute(zeros_like);
    // `OnesLike(x: T) -> y: T`.
    r.op("OnesLike")
        .shape(shape_fns::unchanged)
        .typed::<Unit, Numbers>("T", |ctx, one| ones_like(ctx, &one()))
        .cpu_of::<(bool,)>("T", |_| kernel(|ctx| ones_like(ctx, &Tensor::scalar(true))));
}

/// The shape in attr `shape`. Producers up to version 21 wrote a scalar's for an unknown one.
fn placeholder_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let is_legacy = ctx.producer() <= 21 && ctx.attrs.shape("shape")?.rank() == Some(0);
    if is_legacy { Ok(()) } else { shape_fns::explicit(ctx) }
}

fn const_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = ctx.attrs.tensor("value")?.shape()?;
    ctx.set_output(0, (&shape).into());
    Ok(())
}

fn const_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let value = init.attrs.tensor("value")?;
    let (actual, dtype) = (value.dtype()?, init.output_dtypes[0]);
    require!(actual == dtype, "Type mismatch between value ({actual}) and dtype ({dtype})");
    let tensor = value.tensor()?;
    kernel(move |ctx| {
        ctx.set_output(0, tensor.clone());
        Ok(())
    })
}

/// A placeholder that runs has not been fed.
fn placeholder_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let shape = init.attrs.shape("shape")?;
    let suffix = match shape.rank() {
        None | Some(0) => String::new(),
        Some(_) => format!(" and shape {shape}"),
    };
    let message = format!(
        "You must feed a value for placeholder tensor '{}' with dtype {}{suffix}",
        init.name, init.output_dtypes[0]
    );
    kernel(move |_| Err(invalid!("{message}")))
}

/// The attr's shape, which the input must agree with.
fn placeholder_with_default_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = ctx.attrs.shape("shape")?.clone();
    shape_ops::merge(ctx.input(0), &shape)?;
    ctx.set_output(0, shape);
    Ok(())
}

fn fill_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(0), 1)?;
    shape_ops::with_rank(ctx.input(1), 0)?;
    let shape = ctx.operand_shape(0)?;
    if let Some(dims) = ctx.operand_i64s(0)? {
        require!(dims.iter().all(|&size| size >= 0), "Fill dimensions must be >= 0");
    }
    ctx.set_output(0, shape);
    ctx.forward_handle(1, 0);
    Ok(())
}

fn fill(ctx: &mut OpContext<'_>) -> Result<()> {
    let (dims, value) = (ctx.input(0)?, ctx.input(1)?);
    // Older graphs have a scalar for a vector of one element, and the other way round.
    require!(dims.rank() <= 1, "dims must represent a vector, got shape {}", dims.shape());
    require!(
        matches!(value.shape().dims(), [] | [1]),
        "value must represent a scalar, got shape {}",
        value.shape()
    );
    let shape = Shape::new(&dims.to_i64s()?)?;
    ctx.produce(0, shape, |out| fill_with(ctx.parallel(), out, value))
}

/// Sets all elements to the one element of `value`, on several threads if it is worth it.
fn fill_with(parallel: Parallel<'_>, out: ElemsMut<'_>, value: &Tensor) {
    for_each_units(parallel, out, 1, &|_, part| part.fill(value.elems()));
}

fn empty_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = ctx.operand_shape(0)?;
    ctx.set_output(0, shape);
    Ok(())
}

/// The reference hands out memory as it finds it unless attr `init` is set; ours is always clear.
fn empty(ctx: &mut OpContext<'_>) -> Result<()> {
    let dims = ctx.input(0)?;
    require!(dims.rank() == 1, "shape must be a vector of int32, got shape {}", dims.shape());
    let out = ctx.allocate_zeros(ctx.output_dtype(0), Shape::new(&dims.to_i64s()?)?)?;
    ctx.set_output(0, out);
    Ok(())
}

fn immutable_const_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("dtype")?;
    if dtype == DType::STRING || dtype.size() == 0 {
        return Err(unimplemented_error!(
            "Sorry, {} is not currently supported for ImmutableConstOp.",
            dtype.enum_name()
        ));
    }
    let shape = init.attrs.shape("shape")?;
    let shape = shape.to_shape().ok_or_else(|| invalid!("Shape {shape} is not fully defined"))?;
    let name = init.attrs.str("memory_region_name")?.to_string();
    kernel(move |ctx| {
        let content = ctx.step().files.read(Path::new(&name))?;
        let needed = shape.count() * dtype.size();
        if content.len() < needed {
            return Err(resource_exhausted!(
                "Region {name} has {} bytes, but a tensor of shape {shape} needs {needed}",
                content.len()
            ));
        }
        let mut out = ctx.allocate(dtype, shape.clone())?;
        out.elems_mut()?.bytes().copy_from_slice(&content[..needed]);
        ctx.set_output(0, out);
        Ok(())
    })
}

fn zeros_like(ctx: &mut OpContext<'_>) -> Result<()> {
    let input = ctx.input(0)?;
    let shape = input.shape().clone();
    if input.dtype() == DType::VARIANT {
        require!(
            input.rank() == 0,
            "ZerosLike non-scalar Tensor with dtype=DT_VARIANT is not supported."
        );
        let zeros = input.scalar_value::<Variant>()?.zeros_like()?;
        ctx.set_output(0, Tensor::from_slice(shape, &[zeros])?);
        return Ok(());
    }
    let (mut out, _) = ctx.forward_or_allocate(&[0], 0, shape)?;
    let elems = out.elems_mut()?;
    for_each_units(ctx.parallel(), elems, 1, &|_, part| part.fill_default());
    ctx.set_output(0, out);
    Ok(())
}

/// Makes the scalar 1 of a type.
struct Unit;

impl TypedLoop for Unit {
    type Loop = fn() -> Tensor;
}

impl<T: Elem + One> LoopFor<T> for Unit {
    const LOOP: fn() -> Tensor = || Tensor::scalar(T::one());
}

fn ones_like(ctx: &mut OpContext<'_>, one: &Tensor) -> Result<()> {
    let shape = ctx.input(0)?.shape().clone();
    let (mut out, _) = ctx.forward_or_allocate(&[0], 0, shape)?;
    fill_with(ctx.parallel(), out.elems_mut()?, one);
    ctx.set_output(0, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_framework::AttrValue;
    use tfcore_tensor::PartialShape;

    #[test]
    fn filling() {
        let filled = values::<f32>(
            "Fill",
            &[("T", of(DType::FLOAT))],
            &[ints(&[2, 1]), Tensor::scalar(1.5f32)],
        );
        assert_eq!(filled.unwrap(), (vec![2, 1], vec![1.5, 1.5]));
        let ones =
            values::<bool>("OnesLike", &[("T", of(DType::BOOL))], &[tensor(&[2], &[false, true])]);
        assert_eq!(ones.unwrap().1, [true, true]);
        let zeros = values::<i32>("ZerosLike", &[int32()], &[ints(&[3, 4])]);
        assert_eq!(zeros.unwrap().1, [0, 0]);
        let negative = failure("Fill", &[int32()], &[ints(&[-1]), Tensor::scalar(1i32)]);
        assert_eq!(negative, "Dimension -1 must be >= 0");
    }

    #[test]
    fn empty_tensors_and_files() {
        let attrs = [("dtype", of(DType::FLOAT)), ("init", AttrValue::Bool(true))];
        let found = values::<f32>("Empty", &attrs, &[ints(&[2, 1])]).unwrap();
        assert_eq!(found, (vec![2, 1], vec![0.0, 0.0]));
        assert_eq!(
            failure("Empty", &attrs, &[tensor(&[1, 1], &[2])]),
            "shape must be a vector of int32, got shape [1,1]"
        );
        let name = std::env::temp_dir().join(format!("tfcore-region-{}", std::process::id()));
        std::fs::write(&name, [1, 0, 2, 0, 3]).unwrap();
        let attrs = |size: i64| {
            [
                ("dtype", of(DType::INT16)),
                ("shape", AttrValue::shape(PartialShape::from_i64s(&[size]).unwrap())),
                ("memory_region_name", AttrValue::string(name.to_str().unwrap())),
            ]
        };
        assert_eq!(values::<i16>("ImmutableConst", &attrs(2), &[]).unwrap().1, [1, 2]);
        assert!(failure("ImmutableConst", &attrs(3), &[]).contains("has 5 bytes"));
        std::fs::remove_file(&name).unwrap();
    }

    #[test]
    fn placeholders_must_be_fed() {
        let shape = |dims: &[i64]| AttrValue::shape(PartialShape::from_i64s(dims).unwrap());
        let dtype = ("dtype", of(DType::FLOAT));
        let cases = [
            (vec![dtype.clone()], ""),
            (vec![dtype, ("shape", shape(&[-1, 3]))], " and shape [?,3]"),
        ];
        for (attrs, suffix) in cases {
            let expected = format!(
                "You must feed a value for placeholder tensor 'op' with dtype float{suffix}"
            );
            assert_eq!(failure("Placeholder", &attrs, &[]), expected);
        }
    }

    #[test]
    fn a_constant_has_its_declared_type() {
        let attrs = [("dtype", of(DType::FLOAT)), ("value", AttrValue::tensor(ints(&[1])))];
        assert_eq!(
            failure("Const", &attrs, &[]),
            "Type mismatch between value (int32) and dtype (float)"
        );
        assert_eq!(shapes("Const", &attrs, "", &[]), "[1]");
    }
}
