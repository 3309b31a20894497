//! `ops.h`: ops that clients define, with their shape functions.
#![allow(unused_variables, reason = "the headers have arguments that no implementation needs")]

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use tfcore_base::{Result, invalid};
use tfcore_framework::{Behaviour, InferenceContext, OpSpec, ShapeFn, shape_ops};
use tfcore_tensor::{Dim, MAX_RANK, PartialShape};

use super::handle::{Boxed, CStrIn, Mut, Out, Owned, Ref, Status, guard, quiet};
use super::tf_datatype::TF_DataTypeNumber;
use super::tf_status::TF_Status;
use crate::ops;

/// An op that is being defined.
#[derive(Default)]
pub struct TF_OpDefinitionBuilder {
    spec: OpSpec,
    shape_fn: Option<ShapeFn>,
    /// What has been said twice.
    mistakes: Vec<String>,
}

/// The node whose shapes are being inferred: inputs, attributes, outputs. It lives as long as the call of the shape
/// function that it was passed to.
pub struct TF_ShapeInferenceContext {
    _inference_context: (),
}

/// A shape; of a new one nothing is known.
#[derive(Default)]
pub struct TF_ShapeHandle {
    shape: PartialShape,
}

/// A dimension; a new one is none.
#[derive(Default)]
pub struct TF_DimensionHandle {
    dim: Option<Dim>,
}

/// Computes the shapes of a node's outputs; an error that it leaves in the status is the node's.
pub type TF_ShapeInferenceFunction =
    Option<unsafe extern "C" fn(ctx: *mut TF_ShapeInferenceContext, status: *mut TF_Status)>;

impl TF_OpDefinitionBuilder {
    /// Changes the definition.
    fn edit(&mut self, edit: impl FnOnce(OpSpec) -> OpSpec) {
        self.spec = edit(std::mem::take(&mut self.spec));
    }

    fn register(self) -> Result<()> {
        if !self.mistakes.is_empty() {
            return Err(invalid!("{}", self.mistakes.join("\n")));
        }
        let behaviour = Behaviour::with_shape(self.shape_fn);
        ops::registry().add(self.spec.finalize()?, behaviour)
    }
}

impl Boxed for TF_OpDefinitionBuilder {}

impl Boxed for TF_ShapeHandle {}

impl Boxed for TF_DimensionHandle {}

// ---- definitions ----

/// Returns a new builder of an op with this name. It is deleted by `TF_RegisterOpDefinition` or
/// `TF_DeleteOpDefinitionBuilder`; null if `op_name` is null.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewOpDefinitionBuilder(op_name: CStrIn) -> *mut TF_OpDefinitionBuilder {
    quiet(ptr::null_mut(), || {
        let spec = OpSpec::new(op_name.get("op_name")?);
        Ok(TF_OpDefinitionBuilder { spec, ..Default::default() }.hand_out())
    })
}

/// Registers the op for the whole process and deletes the builder, whether that succeeds or not.
///
/// A specification that cannot be read is `TF_INVALID_ARGUMENT`, a name that is taken `TF_ALREADY_EXISTS`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_RegisterOpDefinition(builder: Owned<TF_OpDefinitionBuilder>, status: Status) {
    guard(status, (), || builder.take("builder")?.register())
}

/// Deletes a builder that has not been registered; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteOpDefinitionBuilder(builder: Owned<TF_OpDefinitionBuilder>) {
    drop(builder);
}

/// Changes the builder with a text from C.
fn edit(
    mut builder: Mut<TF_OpDefinitionBuilder>,
    argument: CStrIn,
    edit: impl FnOnce(OpSpec, String) -> OpSpec,
) {
    quiet((), || {
        let (builder, argument) = (builder.get("builder")?, argument.get("spec")?.into_owned());
        builder.edit(|spec| edit(spec, argument));
        Ok(())
    });
}

/// Adds an attribute: `name: type`, `name: type >= minimum`, `name: type = default`.
///
/// The type is `string`, `int`, `float`, `bool`, `type`, `shape`, `tensor`, `func`, a set of types (`numbertype`,
/// `realnumbertype`, `quantizedtype`, `{int32, int64}`), a set of strings (`{'SAME', 'VALID'}`), or a list of one of
/// these, `list(int)`. A default is written as in the text format of protocol buffers, a list as `[a, b]`. An
/// attribute that is the length of an argument has the minimum 1 unless it names another.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpDefinitionBuilderAddAttr(
    builder: Mut<TF_OpDefinitionBuilder>,
    attr_spec: CStrIn,
) {
    edit(builder, attr_spec, |spec, text| spec.attr(text))
}

/// Adds an input: `name: type` for one tensor, `name: number * type` for several of one type, `name: types` for
/// several of different types, each also as `name: Ref(...)`. A type is `float`, `int32`, ... or an attribute.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpDefinitionBuilderAddInput(
    builder: Mut<TF_OpDefinitionBuilder>,
    input_spec: CStrIn,
) {
    edit(builder, input_spec, |spec, text| spec.input(text))
}

/// Adds an output, in the form that inputs have.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpDefinitionBuilderAddOutput(
    builder: Mut<TF_OpDefinitionBuilder>,
    output_spec: CStrIn,
) {
    edit(builder, output_spec, |spec, text| spec.output(text))
}

/// Sets a flag of the op. TensorFlow does so whatever value it is given, and programs see the same here.
fn set_flag(mut builder: Mut<TF_OpDefinitionBuilder>, name: &str) {
    quiet((), || builder.get("builder")?.spec.set_flag(name));
}

/// Says that the order of the op's two inputs makes no difference. The flag is set for any value, as
/// TensorFlow does.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpDefinitionBuilderSetIsCommutative(
    builder: Mut<TF_OpDefinitionBuilder>,
    is_commutative: bool,
) {
    set_flag(builder, "commutative")
}

/// Says that the op takes any number of inputs of one type and shape, in any order and grouping, and has an output
/// like them. The flag is set for any value, as
/// TensorFlow does.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpDefinitionBuilderSetIsAggregate(
    builder: Mut<TF_OpDefinitionBuilder>,
    is_aggregate: bool,
) {
    set_flag(builder, "aggregate")
}

/// Says that the op depends on more than its inputs, or does more than compute its outputs. The flag is set for any value, as
/// TensorFlow does.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpDefinitionBuilderSetIsStateful(
    builder: Mut<TF_OpDefinitionBuilder>,
    is_stateful: bool,
) {
    set_flag(builder, "stateful")
}

/// Says that the op may be handed tensors that nobody has written yet. The flag is set for any value, as
/// TensorFlow does.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpDefinitionBuilderSetAllowsUninitializedInput(
    builder: Mut<TF_OpDefinitionBuilder>,
    allows_uninitialized_input: bool,
) {
    set_flag(builder, "allows_uninitialized_input")
}

/// Refuses the op in graphs whose producer has version `version` or a later one; `explanation` says what to use
/// instead.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpDefinitionBuilderDeprecated(
    builder: Mut<TF_OpDefinitionBuilder>,
    version: c_int,
    explanation: CStrIn,
) {
    edit(builder, explanation, |spec, text| spec.deprecated(version, text))
}

/// Sets the function that infers the shapes of a node's outputs when the node is added to a graph. An op without one
/// cannot be added, unless the graph asks for none.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpDefinitionBuilderSetShapeInferenceFunction(
    mut builder: Mut<TF_OpDefinitionBuilder>,
    shape_inference_func: TF_ShapeInferenceFunction,
) {
    quiet((), || {
        let builder = builder.get("builder")?;
        let Some(function) = shape_inference_func else {
            return Ok(());
        };
        if builder.shape_fn.is_some() {
            builder
                .mistakes
                .push(format!("SetShapeFn called twice for Op {}", builder.spec.name()));
        }
        builder.shape_fn = Some(Arc::new(move |ctx: &mut InferenceContext<'_>| {
            let mut status = TF_Status::default();
            // SAFETY: the client's function gets a context and a status that live during the call.
            unsafe { function(ptr::from_mut(ctx).cast(), &mut status) };
            status.result()
        }));
        Ok(())
    });
}

// ---- shape functions ----

/// The context that a shape function was called with.
fn context(ctx: &mut Mut<TF_ShapeInferenceContext>) -> Result<&mut InferenceContext<'static>> {
    // SAFETY: `TF_OpDefinitionBuilderSetShapeInferenceFunction` makes these pointers, of an `InferenceContext` that lives
    // during the call of the shape function; no C function keeps a part of it.
    unsafe { ctx.get_as("ctx") }
}

/// The shape in a handle.
fn shape(handle: &Ref<TF_ShapeHandle>) -> Result<&PartialShape> {
    Ok(&handle.get("handle")?.shape)
}

/// Stores a shape in a handle.
fn store(mut handle: Mut<TF_ShapeHandle>, shape: PartialShape) -> Result<()> {
    handle.get("result")?.shape = shape;
    Ok(())
}

fn new_shape(shape: PartialShape) -> *mut TF_ShapeHandle {
    TF_ShapeHandle { shape }.hand_out()
}

/// Returns the number of inputs of the node.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContextNumInputs(mut ctx: Mut<TF_ShapeInferenceContext>) -> i64 {
    quiet(0, || Ok(context(&mut ctx)?.num_inputs() as i64))
}

/// Returns a new shape of which nothing is known, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewShapeHandle() -> *mut TF_ShapeHandle {
    new_shape(PartialShape::unknown())
}

/// Stores the shape of input `i` in `handle`; `TF_INVALID_ARGUMENT` if there is no such input.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContextGetInput(
    mut ctx: Mut<TF_ShapeInferenceContext>,
    i: c_int,
    handle: Mut<TF_ShapeHandle>,
    status: Status,
) {
    guard(status, (), || {
        let inputs = context(&mut ctx)?.inputs();
        let input = usize::try_from(i).ok().and_then(|i| inputs.get(i));
        let input = input.ok_or_else(|| invalid!("input index out of range"))?;
        store(handle, input.clone())
    })
}

/// Sets the shape of output `i` to a copy of `handle`; `TF_INVALID_ARGUMENT` if there is no such output.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContextSetOutput(
    mut ctx: Mut<TF_ShapeInferenceContext>,
    i: c_int,
    handle: Ref<TF_ShapeHandle>,
    status: Status,
) {
    guard(status, (), || {
        let (ctx, shape) = (context(&mut ctx)?, shape(&handle)?);
        let i = usize::try_from(i).ok().filter(|&i| i < ctx.num_outputs());
        ctx.set_output(i.ok_or_else(|| invalid!("output index out of range"))?, shape.clone());
        Ok(())
    })
}

/// Returns the shape of a scalar, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContextScalar(
    ctx: Ref<TF_ShapeInferenceContext>,
) -> *mut TF_ShapeHandle {
    new_shape(PartialShape::scalar())
}

/// Returns the shape of a vector with `size` elements, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContextVectorFromSize(
    ctx: Ref<TF_ShapeInferenceContext>,
    size: usize,
) -> *mut TF_ShapeHandle {
    new_shape(PartialShape::vector(i64::try_from(size).map_or(Dim::UNKNOWN, Dim::new)))
}

/// Returns a new dimension, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewDimensionHandle() -> *mut TF_DimensionHandle {
    TF_DimensionHandle::default().hand_out()
}

/// Stores the type that the attribute `attr_name` of the node holds; `TF_NOT_FOUND` if there is no such attribute,
/// `TF_INVALID_ARGUMENT` if it holds something else.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContext_GetAttrType(
    mut ctx: Mut<TF_ShapeInferenceContext>,
    attr_name: CStrIn,
    mut val: Out<TF_DataTypeNumber>,
    status: Status,
) {
    guard(status, (), || {
        let dtype = context(&mut ctx)?.attrs.dtype(&attr_name.get("attr_name")?)?;
        val.put(TF_DataTypeNumber(dtype.to_i32()), "val")
    })
}

/// Returns the rank of a shape, -1 if it is unknown.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContextRank(
    ctx: Ref<TF_ShapeInferenceContext>,
    handle: Ref<TF_ShapeHandle>,
) -> i64 {
    quiet(-1, || Ok(shape(&handle)?.rank().map_or(-1, |rank| rank as i64)))
}

/// Returns 1 if the rank of a shape is known, otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContextRankKnown(
    ctx: Ref<TF_ShapeInferenceContext>,
    handle: Ref<TF_ShapeHandle>,
) -> c_int {
    quiet(0, || Ok(c_int::from(shape(&handle)?.rank().is_some())))
}

/// Stores in `result` what `check` makes of a shape and a rank.
fn with_rank(
    handle: Ref<TF_ShapeHandle>,
    result: Mut<TF_ShapeHandle>,
    status: Status,
    check: impl FnOnce(&PartialShape) -> Result<PartialShape>,
) {
    guard(status, (), || store(result, check(shape(&handle)?)?))
}

/// Stores the shape in `result`, with this rank if its own is unknown; `TF_INVALID_ARGUMENT` "Shape must be rank 2 but is
/// rank 3" if it has another.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContextWithRank(
    ctx: Ref<TF_ShapeInferenceContext>,
    handle: Ref<TF_ShapeHandle>,
    rank: i64,
    result: Mut<TF_ShapeHandle>,
    status: Status,
) {
    with_rank(handle, result, status, |shape| of_rank(shape, rank))
}

/// Stores the shape in `result`; `TF_INVALID_ARGUMENT` if its rank is known to be lower.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContextWithRankAtLeast(
    ctx: Ref<TF_ShapeInferenceContext>,
    handle: Ref<TF_ShapeHandle>,
    rank: i64,
    result: Mut<TF_ShapeHandle>,
    status: Status,
) {
    let check = |shape: &PartialShape| shape_ops::with_rank_at_least(shape, bound(rank)?);
    with_rank(handle, result, status, check)
}

/// Stores the shape in `result`; `TF_INVALID_ARGUMENT` if its rank is known to be higher.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContextWithRankAtMost(
    ctx: Ref<TF_ShapeInferenceContext>,
    handle: Ref<TF_ShapeHandle>,
    rank: i64,
    result: Mut<TF_ShapeHandle>,
    status: Status,
) {
    let check = |shape: &PartialShape| match shape.rank() {
        Some(actual) if rank < 0 => {
            Err(invalid!("Shape must be at most rank {rank} but is rank {actual}"))
        }
        _ => shape_ops::with_rank_at_most(shape, bound(rank)?),
    };
    with_rank(handle, result, status, check)
}

fn of_rank(shape: &PartialShape, rank: i64) -> Result<PartialShape> {
    let wanted = bound(rank)?;
    if let Some(actual) = shape.rank().filter(|_| rank < 0) {
        return Err(invalid!("Shape must be rank {rank} but is rank {actual}"));
    }
    if rank < 0 || wanted > MAX_RANK {
        return Err(invalid!("Shape cannot have rank {rank}; the limit is {MAX_RANK}"));
    }
    shape_ops::with_rank(shape, wanted)
}

/// A rank to compare with; a negative one is like 0 for those that have a rank of at least that.
fn bound(rank: i64) -> Result<usize> {
    if rank > i64::from(i32::MAX) {
        return Err(invalid!("Rank cannot exceed kint32max"));
    }
    Ok(usize::try_from(rank).unwrap_or(0))
}

/// Stores dimension `i` of the shape in `result`; negative numbers count from the end. Where there is no such dimension,
/// `result` becomes as a new one.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContextDim(
    ctx: Ref<TF_ShapeInferenceContext>,
    shape_handle: Ref<TF_ShapeHandle>,
    i: i64,
    mut result: Mut<TF_DimensionHandle>,
) {
    quiet((), || {
        let (shape, result) = (shape(&shape_handle)?, result.get("result")?);
        result.dim = shape
            .dims()
            .and_then(|dims| shape_ops::resolve_axis(i, dims.len()).ok().map(|axis| dims[axis]));
        Ok(())
    });
}

/// Stores the dimensions from `start` up to, but not including `end` in `result`. Negative numbers count from the end, those
/// past the end are the end; `TF_INVALID_ARGUMENT` if they are still out of order or out of bounds.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContextSubshape(
    ctx: Ref<TF_ShapeInferenceContext>,
    shape_handle: Ref<TF_ShapeHandle>,
    start: i64,
    end: i64,
    result: Mut<TF_ShapeHandle>,
    status: Status,
) {
    let body = || store(result, shape_ops::subshape(shape(&shape_handle)?, start, Some(end))?);
    guard(status, (), body)
}

/// Leaves the shapes of all outputs unknown.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContextSetUnknownShape(
    mut ctx: Mut<TF_ShapeInferenceContext>,
    status: Status,
) {
    guard(status, (), || {
        let ctx = context(&mut ctx)?;
        (0..ctx.num_outputs()).for_each(|i| ctx.set_output(i, PartialShape::unknown()));
        Ok(())
    })
}

/// Returns 1 if the size of a dimension is known, otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DimensionHandleValueKnown(dim_handle: Ref<TF_DimensionHandle>) -> c_int {
    let dim = quiet(None, || Ok(dim_handle.get("dim_handle")?.dim));
    c_int::from(dim.is_some_and(Dim::is_known))
}

/// Returns the size of a dimension: -1 if it is unknown, 0 for a new handle.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DimensionHandleValue(dim_handle: Ref<TF_DimensionHandle>) -> i64 {
    let dim = quiet(None, || Ok(dim_handle.get("dim_handle")?.dim));
    dim.map_or(0, Dim::to_i64)
}

/// Stores the dimensions of `first` and behind them those of `second` in `result`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContextConcatenateShapes(
    ctx: Ref<TF_ShapeInferenceContext>,
    first: Ref<TF_ShapeHandle>,
    second: Ref<TF_ShapeHandle>,
    result: Mut<TF_ShapeHandle>,
    status: Status,
) {
    guard(status, (), || {
        let joined = shape_ops::concatenate(shape(&first)?, shape(&second)?);
        if joined.rank().is_some_and(|rank| rank > MAX_RANK) {
            return Err(invalid!("Shape has too many dimensions; the limit is {MAX_RANK}"));
        }
        store(result, joined)
    })
}

/// Deletes a shape; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteShapeHandle(handle: Owned<TF_ShapeHandle>) {
    drop(handle);
}

/// Deletes a dimension; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteDimensionHandle(handle: Owned<TF_DimensionHandle>) {
    drop(handle);
}
