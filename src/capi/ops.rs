//! `ops.h`: ops that clients define, with their shape functions.
#![allow(unused_variables, reason = "the headers have arguments that no implementation needs")]

use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::Arc;

use tfcore_base::{Result, invalid};
use tfcore_framework::{Behaviour, InferenceContext, OpSpec, ShapeFn, shape_ops};
use tfcore_tensor::{Dim, MAX_RANK, PartialShape};

use super::handle::{get, get_mut, guard, put, quiet, text};
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
        let behaviour = Behaviour { shape: self.shape_fn, ..Behaviour::default() };
        ops::registry().add(self.spec.finalize()?, behaviour)
    }
}

// ---- definitions ----

/// Returns a new builder of an op with this name. It is deleted by `TF_RegisterOpDefinition` or
/// `TF_DeleteOpDefinitionBuilder`; null if `op_name` is null.
///
/// # Safety
/// `op_name` must be null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_NewOpDefinitionBuilder(
    op_name: *const c_char,
) -> *mut TF_OpDefinitionBuilder {
    quiet(ptr::null_mut(), || {
        // SAFETY: as the caller promises.
        let spec = OpSpec::new(unsafe { text(op_name, "op_name")? });
        Ok(Box::into_raw(Box::new(TF_OpDefinitionBuilder { spec, ..Default::default() })))
    })
}

/// Registers the op for the whole process and deletes the builder, whether that succeeds or not.
///
/// A specification that cannot be read is `TF_INVALID_ARGUMENT`, a name that is taken `TF_ALREADY_EXISTS`.
///
/// # Safety
/// `builder` must be null or live; `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_RegisterOpDefinition(
    builder: *mut TF_OpDefinitionBuilder,
    status: *mut TF_Status,
) {
    let body = || {
        if builder.is_null() {
            return Err(invalid!("Argument 'builder' is null"));
        }
        // SAFETY: the caller hands the builder over.
        unsafe { Box::from_raw(builder) }.register()
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Deletes a builder that has not been registered; null is allowed.
///
/// # Safety
/// `builder` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeleteOpDefinitionBuilder(builder: *mut TF_OpDefinitionBuilder) {
    if !builder.is_null() {
        // SAFETY: the caller hands the builder over.
        drop(unsafe { Box::from_raw(builder) });
    }
}

/// Changes the builder with a text from C.
///
/// # Safety
/// `builder` must be null or live, `argument` null or a NUL-terminated string.
unsafe fn edit(
    builder: *mut TF_OpDefinitionBuilder,
    argument: *const c_char,
    edit: impl FnOnce(OpSpec, String) -> OpSpec,
) {
    quiet((), || {
        // SAFETY: as the caller promises.
        let (builder, argument) =
            unsafe { (get_mut(builder, "builder")?, text(argument, "spec")?.into_owned()) };
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
///
/// # Safety
/// `builder` must be live, `attr_spec` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OpDefinitionBuilderAddAttr(
    builder: *mut TF_OpDefinitionBuilder,
    attr_spec: *const c_char,
) {
    // SAFETY: as the caller promises.
    unsafe { edit(builder, attr_spec, |spec, text| spec.attr(text)) }
}

/// Adds an input: `name: type` for one tensor, `name: number * type` for several of one type, `name: types` for
/// several of different types, each also as `name: Ref(...)`. A type is `float`, `int32`, ... or an attribute.
///
/// # Safety
/// `builder` must be live, `input_spec` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OpDefinitionBuilderAddInput(
    builder: *mut TF_OpDefinitionBuilder,
    input_spec: *const c_char,
) {
    // SAFETY: as the caller promises.
    unsafe { edit(builder, input_spec, |spec, text| spec.input(text)) }
}

/// Adds an output, in the form that inputs have.
///
/// # Safety
/// `builder` must be live, `output_spec` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OpDefinitionBuilderAddOutput(
    builder: *mut TF_OpDefinitionBuilder,
    output_spec: *const c_char,
) {
    // SAFETY: as the caller promises.
    unsafe { edit(builder, output_spec, |spec, text| spec.output(text)) }
}

/// Sets a flag of the op. TensorFlow does so whatever value it is given, and programs see the same here.
///
/// # Safety
/// `builder` must be null or live.
unsafe fn set_flag(builder: *mut TF_OpDefinitionBuilder, name: &str) {
    // SAFETY: as the caller promises.
    quiet((), || unsafe { get_mut(builder, "builder")? }.spec.set_flag(name));
}

/// Says that the order of the op's two inputs makes no difference. The flag is set for any value, as
/// TensorFlow does.
///
/// # Safety
/// `builder` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OpDefinitionBuilderSetIsCommutative(
    builder: *mut TF_OpDefinitionBuilder,
    is_commutative: bool,
) {
    // SAFETY: as the caller promises.
    unsafe { set_flag(builder, "commutative") }
}

/// Says that the op takes any number of inputs of one type and shape, in any order and grouping, and has an output
/// like them. The flag is set for any value, as
/// TensorFlow does.
///
/// # Safety
/// `builder` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OpDefinitionBuilderSetIsAggregate(
    builder: *mut TF_OpDefinitionBuilder,
    is_aggregate: bool,
) {
    // SAFETY: as the caller promises.
    unsafe { set_flag(builder, "aggregate") }
}

/// Says that the op depends on more than its inputs, or does more than compute its outputs. The flag is set for any value, as
/// TensorFlow does.
///
/// # Safety
/// `builder` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OpDefinitionBuilderSetIsStateful(
    builder: *mut TF_OpDefinitionBuilder,
    is_stateful: bool,
) {
    // SAFETY: as the caller promises.
    unsafe { set_flag(builder, "stateful") }
}

/// Says that the op may be handed tensors that nobody has written yet. The flag is set for any value, as
/// TensorFlow does.
///
/// # Safety
/// `builder` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OpDefinitionBuilderSetAllowsUninitializedInput(
    builder: *mut TF_OpDefinitionBuilder,
    allows_uninitialized_input: bool,
) {
    // SAFETY: as the caller promises.
    unsafe { set_flag(builder, "allows_uninitialized_input") }
}

/// Refuses the op in graphs whose producer has version `version` or a later one; `explanation` says what to use
/// instead.
///
/// # Safety
/// `builder` must be live, `explanation` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OpDefinitionBuilderDeprecated(
    builder: *mut TF_OpDefinitionBuilder,
    version: c_int,
    explanation: *const c_char,
) {
    // SAFETY: as the caller promises.
    unsafe { edit(builder, explanation, |spec, text| spec.deprecated(version, text)) }
}

/// Sets the function that infers the shapes of a node's outputs when the node is added to a graph. An op without one
/// cannot be added, unless the graph asks for none.
///
/// # Safety
/// `builder` must be live; the function must live as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OpDefinitionBuilderSetShapeInferenceFunction(
    builder: *mut TF_OpDefinitionBuilder,
    shape_inference_func: TF_ShapeInferenceFunction,
) {
    quiet((), || {
        // SAFETY: as the caller promises.
        let builder = unsafe { get_mut(builder, "builder")? };
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
///
/// # Safety
/// `ctx` must be null or what a shape function has got, during its call.
unsafe fn context<'c>(ctx: *mut TF_ShapeInferenceContext) -> Result<&'c mut InferenceContext<'c>> {
    // SAFETY: such a pointer is one to an `InferenceContext`, of which nothing is kept beyond the C function.
    unsafe { get_mut(ctx.cast::<InferenceContext<'c>>(), "ctx") }
}

/// The shape in a handle.
///
/// # Safety
/// `handle` must be null or live.
unsafe fn shape<'h>(handle: *const TF_ShapeHandle) -> Result<&'h PartialShape> {
    // SAFETY: as the caller promises.
    Ok(&unsafe { get(handle, "handle")? }.shape)
}

/// Stores a shape in a handle.
///
/// # Safety
/// `handle` must be null or live.
unsafe fn store(handle: *mut TF_ShapeHandle, shape: PartialShape) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { get_mut(handle, "result")? }.shape = shape;
    Ok(())
}

fn new_shape(shape: PartialShape) -> *mut TF_ShapeHandle {
    Box::into_raw(Box::new(TF_ShapeHandle { shape }))
}

/// Returns the number of inputs of the node.
///
/// # Safety
/// `ctx` must be that of the running shape function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ShapeInferenceContextNumInputs(
    ctx: *mut TF_ShapeInferenceContext,
) -> i64 {
    // SAFETY: as the caller promises.
    quiet(0, || Ok(unsafe { context(ctx)? }.num_inputs() as i64))
}

/// Returns a new shape of which nothing is known, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewShapeHandle() -> *mut TF_ShapeHandle {
    new_shape(PartialShape::unknown())
}

/// Stores the shape of input `i` in `handle`; `TF_INVALID_ARGUMENT` if there is no such input.
///
/// # Safety
/// `ctx` must be that of the running shape function, `handle` and `status` live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ShapeInferenceContextGetInput(
    ctx: *mut TF_ShapeInferenceContext,
    i: c_int,
    handle: *mut TF_ShapeHandle,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let inputs = unsafe { context(ctx)? }.inputs();
        let input = usize::try_from(i).ok().and_then(|i| inputs.get(i));
        let input = input.ok_or_else(|| invalid!("input index out of range"))?;
        // SAFETY: as the caller promises.
        unsafe { store(handle, input.clone()) }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Sets the shape of output `i` to a copy of `handle`; `TF_INVALID_ARGUMENT` if there is no such output.
///
/// # Safety
/// `ctx` must be that of the running shape function, `handle` and `status` live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ShapeInferenceContextSetOutput(
    ctx: *mut TF_ShapeInferenceContext,
    i: c_int,
    handle: *mut TF_ShapeHandle,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (ctx, shape) = unsafe { (context(ctx)?, shape(handle)?) };
        let i = usize::try_from(i).ok().filter(|&i| i < ctx.num_outputs());
        ctx.set_output(i.ok_or_else(|| invalid!("output index out of range"))?, shape.clone());
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Returns the shape of a scalar, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContextScalar(
    ctx: *mut TF_ShapeInferenceContext,
) -> *mut TF_ShapeHandle {
    new_shape(PartialShape::scalar())
}

/// Returns the shape of a vector with `size` elements, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeInferenceContextVectorFromSize(
    ctx: *mut TF_ShapeInferenceContext,
    size: usize,
) -> *mut TF_ShapeHandle {
    new_shape(PartialShape::vector(i64::try_from(size).map_or(Dim::UNKNOWN, Dim::new)))
}

/// Returns a new dimension, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewDimensionHandle() -> *mut TF_DimensionHandle {
    Box::into_raw(Box::default())
}

/// Stores the type that the attribute `attr_name` of the node holds; `TF_NOT_FOUND` if there is no such attribute,
/// `TF_INVALID_ARGUMENT` if it holds something else.
///
/// # Safety
/// `ctx` must be that of the running shape function, `attr_name` a NUL-terminated string, `val` valid for a
/// write, `status` live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ShapeInferenceContext_GetAttrType(
    ctx: *mut TF_ShapeInferenceContext,
    attr_name: *const c_char,
    val: *mut TF_DataTypeNumber,
    status: *mut TF_Status,
) {
    // SAFETY: as the caller promises.
    let body = || unsafe {
        let dtype = context(ctx)?.attrs.dtype(&text(attr_name, "attr_name")?)?;
        put(val, TF_DataTypeNumber(dtype.to_i32()), "val")
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Returns the rank of a shape, -1 if it is unknown.
///
/// # Safety
/// `handle` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ShapeInferenceContextRank(
    ctx: *mut TF_ShapeInferenceContext,
    handle: *mut TF_ShapeHandle,
) -> i64 {
    // SAFETY: as the caller promises.
    quiet(-1, || Ok(unsafe { shape(handle)? }.rank().map_or(-1, |rank| rank as i64)))
}

/// Returns 1 if the rank of a shape is known, otherwise 0.
///
/// # Safety
/// `handle` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ShapeInferenceContextRankKnown(
    ctx: *mut TF_ShapeInferenceContext,
    handle: *mut TF_ShapeHandle,
) -> c_int {
    // SAFETY: as the caller promises.
    quiet(0, || Ok(c_int::from(unsafe { shape(handle)? }.rank().is_some())))
}

/// Stores in `result` what `check` makes of a shape and a rank.
///
/// # Safety
/// `handle`, `result` and `status` must be null or live.
unsafe fn with_rank(
    handle: *mut TF_ShapeHandle,
    result: *mut TF_ShapeHandle,
    status: *mut TF_Status,
    check: impl FnOnce(&PartialShape) -> Result<PartialShape>,
) {
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), || store(result, check(shape(handle)?)?)) }
}

/// Stores the shape in `result`, with this rank if its own is unknown; `TF_INVALID_ARGUMENT` "Shape must be rank 2 but is
/// rank 3" if it has another.
///
/// # Safety
/// `handle`, `result` and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ShapeInferenceContextWithRank(
    ctx: *mut TF_ShapeInferenceContext,
    handle: *mut TF_ShapeHandle,
    rank: i64,
    result: *mut TF_ShapeHandle,
    status: *mut TF_Status,
) {
    // SAFETY: as the caller promises.
    unsafe { with_rank(handle, result, status, |shape| of_rank(shape, rank)) }
}

/// Stores the shape in `result`; `TF_INVALID_ARGUMENT` if its rank is known to be lower.
///
/// # Safety
/// `handle`, `result` and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ShapeInferenceContextWithRankAtLeast(
    ctx: *mut TF_ShapeInferenceContext,
    handle: *mut TF_ShapeHandle,
    rank: i64,
    result: *mut TF_ShapeHandle,
    status: *mut TF_Status,
) {
    let check = |shape: &PartialShape| shape_ops::with_rank_at_least(shape, bound(rank)?);
    // SAFETY: as the caller promises.
    unsafe { with_rank(handle, result, status, check) }
}

/// Stores the shape in `result`; `TF_INVALID_ARGUMENT` if its rank is known to be higher.
///
/// # Safety
/// `handle`, `result` and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ShapeInferenceContextWithRankAtMost(
    ctx: *mut TF_ShapeInferenceContext,
    handle: *mut TF_ShapeHandle,
    rank: i64,
    result: *mut TF_ShapeHandle,
    status: *mut TF_Status,
) {
    let check = |shape: &PartialShape| match shape.rank() {
        Some(actual) if rank < 0 => {
            Err(invalid!("Shape must be at most rank {rank} but is rank {actual}"))
        }
        _ => shape_ops::with_rank_at_most(shape, bound(rank)?),
    };
    // SAFETY: as the caller promises.
    unsafe { with_rank(handle, result, status, check) }
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
///
/// # Safety
/// `shape_handle` and `result` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ShapeInferenceContextDim(
    ctx: *mut TF_ShapeInferenceContext,
    shape_handle: *mut TF_ShapeHandle,
    i: i64,
    result: *mut TF_DimensionHandle,
) {
    quiet((), || {
        // SAFETY: as the caller promises.
        let (shape, result) = unsafe { (shape(shape_handle)?, get_mut(result, "result")?) };
        result.dim = shape
            .dims()
            .and_then(|dims| shape_ops::resolve_axis(i, dims.len()).ok().map(|axis| dims[axis]));
        Ok(())
    });
}

/// Stores the dimensions from `start` up to, but not including `end` in `result`. Negative numbers count from the end, those
/// past the end are the end; `TF_INVALID_ARGUMENT` if they are still out of order or out of bounds.
///
/// # Safety
/// `shape_handle`, `result` and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ShapeInferenceContextSubshape(
    ctx: *mut TF_ShapeInferenceContext,
    shape_handle: *mut TF_ShapeHandle,
    start: i64,
    end: i64,
    result: *mut TF_ShapeHandle,
    status: *mut TF_Status,
) {
    // SAFETY: as the caller promises.
    let body =
        || unsafe { store(result, shape_ops::subshape(shape(shape_handle)?, start, Some(end))?) };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Leaves the shapes of all outputs unknown.
///
/// # Safety
/// `ctx` must be that of the running shape function, `status` live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ShapeInferenceContextSetUnknownShape(
    ctx: *mut TF_ShapeInferenceContext,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let ctx = unsafe { context(ctx)? };
        (0..ctx.num_outputs()).for_each(|i| ctx.set_output(i, PartialShape::unknown()));
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Returns 1 if the size of a dimension is known, otherwise 0.
///
/// # Safety
/// `dim_handle` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DimensionHandleValueKnown(
    dim_handle: *mut TF_DimensionHandle,
) -> c_int {
    // SAFETY: as the caller promises.
    let dim = quiet(None, || Ok(unsafe { get(dim_handle, "dim_handle")? }.dim));
    c_int::from(dim.is_some_and(Dim::is_known))
}

/// Returns the size of a dimension: -1 if it is unknown, 0 for a new handle.
///
/// # Safety
/// `dim_handle` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DimensionHandleValue(dim_handle: *mut TF_DimensionHandle) -> i64 {
    // SAFETY: as the caller promises.
    let dim = quiet(None, || Ok(unsafe { get(dim_handle, "dim_handle")? }.dim));
    dim.map_or(0, Dim::to_i64)
}

/// Stores the dimensions of `first` and behind them those of `second` in `result`.
///
/// # Safety
/// The handles and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ShapeInferenceContextConcatenateShapes(
    ctx: *mut TF_ShapeInferenceContext,
    first: *mut TF_ShapeHandle,
    second: *mut TF_ShapeHandle,
    result: *mut TF_ShapeHandle,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let joined = unsafe { shape_ops::concatenate(shape(first)?, shape(second)?) };
        if joined.rank().is_some_and(|rank| rank > MAX_RANK) {
            return Err(invalid!("Shape has too many dimensions; the limit is {MAX_RANK}"));
        }
        // SAFETY: as the caller promises.
        unsafe { store(result, joined) }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Deletes a shape; null is allowed.
///
/// # Safety
/// `handle` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeleteShapeHandle(handle: *mut TF_ShapeHandle) {
    if !handle.is_null() {
        // SAFETY: the caller hands the shape over.
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// Deletes a dimension; null is allowed.
///
/// # Safety
/// `handle` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeleteDimensionHandle(handle: *mut TF_DimensionHandle) {
    if !handle.is_null() {
        // SAFETY: the caller hands the dimension over.
        drop(unsafe { Box::from_raw(handle) });
    }
}
