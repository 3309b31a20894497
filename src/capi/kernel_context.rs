//! `kernels.h`: one run of a kernel: inputs, outputs, temporary tensors, and facts about the step.
#![allow(unused_variables, reason = "the headers have arguments that no implementation needs")]

use std::ffi::c_int;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use tfcore_base::{DType, Error, Result, failed_precondition, invalid, out_of_range};
use tfcore_framework::{BlockingContext, OpContext, Value, Variable, missing_output};
use tfcore_proto as proto;
use tfcore_tensor::{ResourceHandle, Shape, Tensor};

use super::handle::{Array, CStrIn, In, Mut, Out, Ref, Status, count, guard, quiet, to_int};
use super::kernel_builder::CKernel;
use super::kernel_types::{SP_Stream, TF_AllocatorAttributes, TF_RendezvousThunk, TF_StringView};
use super::not_built_in::not_built_in;
use super::tf_buffer::{TF_Buffer, fill};
use super::tf_datatype::TF_DataTypeNumber;
use super::tf_status::TF_Status;
use super::tf_tensor::TF_Tensor;

/// One run of a kernel. It lives until the compute function returns, that of an asynchronous kernel until the callback is
/// run.
pub struct TF_OpKernelContext {
    view: View,
    kernel: Arc<CKernel>,
    /// The outputs that the client has set.
    outputs: Vec<Value>,
    failure: Option<Error>,
}

// Boxing the larger one would cost an allocation for each run that waits.
#[allow(clippy::large_enum_variant)]
enum View {
    /// The caller's context, which outlives the run.
    Running(*mut OpContext<'static>),
    Waiting(BlockingContext),
}

impl TF_OpKernelContext {
    /// The run of a synchronous kernel. The result must not outlive `ctx`.
    pub(super) fn running(ctx: &mut OpContext<'_>, kernel: Arc<CKernel>) -> TF_OpKernelContext {
        TF_OpKernelContext::new(View::Running(ptr::from_mut(ctx).cast()), kernel)
    }

    pub(super) fn waiting(ctx: BlockingContext, kernel: Arc<CKernel>) -> TF_OpKernelContext {
        TF_OpKernelContext::new(View::Waiting(ctx), kernel)
    }

    fn new(view: View, kernel: Arc<CKernel>) -> TF_OpKernelContext {
        let outputs = vec![Value::Absent; kernel.output_dtypes.len()];
        TF_OpKernelContext { view, kernel, outputs, failure: None }
    }

    /// Calls `f` with the context that kernels of this library see.
    pub(super) fn op<R>(&mut self, f: impl FnOnce(&mut OpContext<'_>) -> R) -> R {
        match &mut self.view {
            // SAFETY: the context outlives the run, and only this one uses it.
            View::Running(ctx) => f(unsafe { &mut **ctx }),
            View::Waiting(ctx) => f(&mut ctx.op()),
        }
    }

    /// Ends the run of a synchronous kernel.
    pub(super) fn end(self, ctx: &OpContext<'_>) -> Result<()> {
        hand_over(self.outputs, self.failure, ctx)
    }

    /// Ends the run of an asynchronous kernel.
    pub(super) fn finish(self) {
        let TF_OpKernelContext { view, outputs, failure, .. } = self;
        if let View::Waiting(ctx) = view {
            ctx.finish_with(|op| hand_over(outputs, failure, op));
        }
    }

    pub(super) fn input_index(&self, index: c_int) -> Result<usize> {
        let range = 0..self.kernel.input_dtypes.len();
        let index = usize::try_from(index).ok().filter(|index| range.contains(index));
        index.ok_or_else(|| out_of_range!("input index out of range"))
    }

    pub(super) fn input_dtype(&self, index: c_int) -> Result<DType> {
        Ok(self.kernel.input_dtypes[self.input_index(index)?])
    }

    pub(super) fn output_index(&self, index: c_int) -> Result<usize> {
        let range = 0..self.kernel.output_dtypes.len();
        let index = usize::try_from(index).ok().filter(|index| range.contains(index));
        index.ok_or_else(|| out_of_range!("output index out of range"))
    }

    /// The value of an input; that of a ref is the variable's.
    pub(super) fn input(&mut self, index: usize) -> Result<Tensor> {
        self.op(|op| match op.value(index) {
            Some(Value::Ref(variable)) => variable.read(),
            _ => op.input(index).cloned(),
        })
    }

    pub(super) fn set_output(&mut self, index: usize, value: Value) {
        self.outputs[index] = value;
    }

    pub(super) fn variable(&mut self, index: usize) -> Result<Arc<Variable>> {
        self.op(|op| op.variable(index))
    }
}

impl CKernel {
    /// True if a tensor lies in host memory on any device: one of an argument that the client wants there, or of a type that
    /// is nowhere else. `range` gives the tensors of an argument.
    fn is_on_host(
        &self,
        dtype: DType,
        index: usize,
        range: impl Fn(&String) -> Result<Range<usize>>,
    ) -> bool {
        matches!(dtype.base(), DType::STRING | DType::RESOURCE)
            || self.host_memory.iter().any(|name| range(name).is_ok_and(|r| r.contains(&index)))
    }
}

/// Sets the outputs that the client has set, or returns the error that it has noted.
fn hand_over(outputs: Vec<Value>, failure: Option<Error>, ctx: &OpContext<'_>) -> Result<()> {
    if let Some(error) = failure {
        return Err(error);
    }
    for (index, value) in outputs.into_iter().enumerate() {
        match value {
            Value::Tensor(tensor) => ctx.try_set_output(index, tensor)?,
            Value::Ref(variable) => ctx.set_output_ref(index, variable),
            _ => return Err(missing_output(index)),
        }
    }
    Ok(())
}

fn shape(dims: &Array<i64>, num_dims: c_int) -> Result<Shape> {
    Shape::new(dims.get(count(num_dims, "num_dims")?, "dims")?)
}

// ---- inputs ----

/// Returns the number of inputs.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NumInputs(ctx: Ref<TF_OpKernelContext>) -> c_int {
    ctx.opt().map_or(0, |ctx| to_int(ctx.kernel.input_dtypes.len()))
}

/// Returns the number of outputs.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NumOutputs(ctx: Ref<TF_OpKernelContext>) -> c_int {
    ctx.opt().map_or(0, |ctx| to_int(ctx.kernel.output_dtypes.len()))
}

/// Stores input `i` as a new tensor that shares its memory, for the caller to delete. Reports `TF_OUT_OF_RANGE` if there is
/// no such input; then nothing is stored.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetInput(
    mut ctx: Mut<TF_OpKernelContext>,
    i: c_int,
    mut tensor: Out<*mut TF_Tensor>,
    status: Status,
) {
    guard(status, (), || {
        let ctx = ctx.get("ctx")?;
        let index = ctx.input_index(i)?;
        tensor.put(TF_Tensor::new(ctx.input(index)?), "tensor")
    })
}

impl TF_OpKernelContext {
    pub(super) fn input_range(&self, name: &str) -> Result<Range<usize>> {
        let unknown = |_| invalid!("Unknown input name: {name}");
        self.kernel.op.input_range(name, &self.kernel.attrs).map_err(unknown)
    }
}

/// The place of an input argument among the inputs.
#[repr(C)]
pub struct TF_InputRange_Args {
    /// `TF_InputRange_Args_STRUCT_SIZE`.
    pub struct_size: usize,
    /// Not used.
    pub r#priv: *mut std::ffi::c_void,
    /// Receives the first input, -1 on error.
    pub start: c_int,
    /// Receives the first input after the argument, -1 on error.
    pub stop: c_int,
    /// Receives the status.
    pub status: *mut TF_Status,
}

/// Stores the inputs of the input argument `name`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_InputRange(
    mut ctx: Mut<TF_OpKernelContext>,
    name: CStrIn,
    mut args: Mut<TF_InputRange_Args>,
) {
    quiet((), || {
        let args = args.get("args")?;
        (args.start, args.stop) = (-1, -1);
        // SAFETY: the status is null or live, as the header asks for.
        let status = unsafe { Status::new(args.status) };
        let range =
            guard(status, None, || ctx.get("ctx")?.input_range(&name.get("name")?).map(Some));
        if let Some(range) = range {
            (args.start, args.stop) = (to_int(range.start), to_int(range.end));
        }
        Ok(())
    });
}

/// Returns the type of input `index`; 0 if there is no such input.
#[unsafe(no_mangle)]
pub extern "C" fn TF_InputDatatype(
    ctx: Ref<TF_OpKernelContext>,
    index: c_int,
) -> TF_DataTypeNumber {
    let dtypes = ctx.opt().map_or(&[][..], |ctx| &ctx.kernel.input_dtypes);
    let dtype = usize::try_from(index).ok().and_then(|index| dtypes.get(index));
    dtype.map_or(TF_DataTypeNumber::INVALID, |&dtype| dtype.into())
}

/// Returns true if input `i` lies in host memory although the device has memory of its own. Reports `TF_OUT_OF_RANGE` if
/// there is no such input.
#[unsafe(no_mangle)]
pub extern "C" fn TF_IsHostMemoryInput(
    ctx: Ref<TF_OpKernelContext>,
    i: c_int,
    status: Status,
) -> bool {
    guard(status, false, || {
        let ctx = ctx.get("ctx")?;
        let (index, kernel) = (ctx.input_index(i)?, &ctx.kernel);
        let range = |name: &String| kernel.op.input_range(name, &kernel.attrs);
        Ok(kernel.is_on_host(kernel.input_dtypes[index], index, range))
    })
}

/// Returns true if output `i` lies in host memory although the device has memory of its own. Reports `TF_OUT_OF_RANGE` if
/// there is no such output.
#[unsafe(no_mangle)]
pub extern "C" fn TF_IsHostMemoryOutput(
    ctx: Ref<TF_OpKernelContext>,
    i: c_int,
    status: Status,
) -> bool {
    guard(status, false, || {
        let ctx = ctx.get("ctx")?;
        let (index, kernel) = (ctx.output_index(i)?, &ctx.kernel);
        let range = |name: &String| kernel.op.output_range(name, &kernel.attrs);
        Ok(kernel.is_on_host(kernel.output_dtypes[index], index, range))
    })
}

/// Stores the resource handle at input `i` as a serialised `ResourceHandleProto`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetSerializedResourceHandleProto(
    mut ctx: Mut<TF_OpKernelContext>,
    i: c_int,
    serialized_resource_handle_proto: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || {
        let ctx = ctx.get("ctx")?;
        let index = ctx.input_index(i)?;
        let tensor = ctx.input(index)?;
        let message = match tensor.as_slice::<ResourceHandle>()? {
            [ResourceHandle(Some(key))] => proto::ResourceHandleProto {
                device: key.device.to_string(),
                container: key.container.to_string(),
                name: key.name.to_string(),
                ..Default::default()
            },
            _ => proto::ResourceHandleProto::default(),
        };
        fill(serialized_resource_handle_proto, &message)
    })
}

// ---- outputs ----

/// Sets output `i` to `tensor`, which stays the caller's; the memory is shared. Reports `TF_OUT_OF_RANGE` if there is no
/// such output.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetOutput(
    mut ctx: Mut<TF_OpKernelContext>,
    i: c_int,
    tensor: In<TF_Tensor>,
    status: Status,
) {
    guard(status, (), || {
        let ctx = ctx.get("ctx")?;
        let index = ctx.output_index(i)?;
        ctx.set_output(index, Value::Tensor(tensor.get("tensor")?.tensor()?));
        Ok(())
    })
}

/// Returns output `i`, which has been set or allocated, as a new tensor that shares its memory, for the caller to delete;
/// null on error. Reports `TF_OUT_OF_RANGE` if there is no such output.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetMutableOutput(
    ctx: Ref<TF_OpKernelContext>,
    i: c_int,
    status: Status,
) -> *mut TF_Tensor {
    guard(status, ptr::null_mut(), || {
        let ctx = ctx.get("ctx")?;
        match &ctx.outputs[ctx.output_index(i)?] {
            Value::Tensor(tensor) => Ok(TF_Tensor::new(tensor.clone())),
            _ => Err(failed_precondition!("Output {i} has not been allocated")),
        }
    })
}

/// Allocates output `index` and returns it, for the caller to fill in and to delete; null on error. The type is that of
/// the node's output, whatever `dtype` says; `len` is not looked at.
#[unsafe(no_mangle)]
pub extern "C" fn TF_AllocateOutput(
    mut context: Mut<TF_OpKernelContext>,
    index: c_int,
    dtype: TF_DataTypeNumber,
    dims: Array<i64>,
    num_dims: c_int,
    len: usize,
    status: Status,
) -> *mut TF_Tensor {
    guard(status, ptr::null_mut(), || {
        let ctx = context.get("context")?;
        let (index, shape) = (ctx.output_index(index)?, shape(&dims, num_dims)?);
        let dtype = ctx.kernel.output_dtypes[index].base();
        let tensor = ctx.op(|op| op.allocate_zeros(dtype, shape))?;
        ctx.set_output(index, Value::Tensor(tensor.clone()));
        Ok(TF_Tensor::new(tensor))
    })
}

/// As `TF_AllocateOutput`, with the memory of the first of the inputs `candidate_input_indices` that has the type and the
/// number of elements of the output and that nothing else reads. Stores that input in `forwarded_input`, -1 if there is
/// none; it may be null.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ForwardInputOrAllocateOutput(
    mut context: Mut<TF_OpKernelContext>,
    candidate_input_indices: Array<c_int>,
    num_candidate_input_indices: c_int,
    output_index: c_int,
    output_dims: Array<i64>,
    output_num_dims: c_int,
    mut forwarded_input: Out<c_int>,
    status: Status,
) -> *mut TF_Tensor {
    guard(status, ptr::null_mut(), || {
        let ctx = context.get("context")?;
        let len = count(num_candidate_input_indices, "num_candidate_input_indices")?;
        let candidates = candidate_input_indices.get(len, "candidate_input_indices")?;
        let candidates = candidates.iter().map(|&input| ctx.input_index(input));
        let candidates = candidates.collect::<Result<Vec<_>>>()?;
        let index = ctx.output_index(output_index)?;
        let shape = shape(&output_dims, output_num_dims)?;
        let (tensor, input) = ctx.op(|op| op.forward_or_allocate(&candidates, index, shape))?;
        let tensor = match input {
            Some(_) => tensor,
            // The client gets memory that is initialised.
            None => ctx.op(|op| op.allocate_zeros(tensor.dtype(), tensor.shape().clone()))?,
        };
        forwarded_input.put(input.map_or(-1, to_int), "forwarded_input").ok();
        ctx.set_output(index, Value::Tensor(tensor.clone()));
        Ok(TF_Tensor::new(tensor))
    })
}

/// Returns a new tensor for the time of the run, for the caller to delete; null on error. `alloc_attrs` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn TF_AllocateTemp(
    mut context: Mut<TF_OpKernelContext>,
    dtype: TF_DataTypeNumber,
    dims: Array<i64>,
    num_dims: c_int,
    alloc_attrs: Ref<TF_AllocatorAttributes>,
    status: Status,
) -> *mut TF_Tensor {
    guard(status, ptr::null_mut(), || {
        if alloc_attrs.opt().is_some_and(|attributes| attributes.struct_size == 0) {
            return Err(invalid!(
                "TF_AllocatorAttributes struct size member must be set to TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE"
            ));
        }
        let (dtype, shape) = (dtype.dtype()?, shape(&dims, num_dims)?);
        let ctx = context.get("context")?;
        Ok(TF_Tensor::new(ctx.op(|op| op.allocate_zeros(dtype, shape))?))
    })
}

/// Returns the type of output `i`; 0 if there is no such output.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ExpectedOutputDataType(
    ctx: Ref<TF_OpKernelContext>,
    i: c_int,
) -> TF_DataTypeNumber {
    let dtypes = ctx.opt().map_or(&[][..], |ctx| &ctx.kernel.output_dtypes);
    let dtype = usize::try_from(i).ok().and_then(|index| dtypes.get(index));
    dtype.map_or(TF_DataTypeNumber::INVALID, |&dtype| dtype.into())
}

/// Says that the run has failed with this status.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelContext_Failure(
    mut ctx: Mut<TF_OpKernelContext>,
    status: Ref<TF_Status>,
) {
    quiet((), || {
        let error = status.get("status")?.result().err();
        ctx.get("ctx")?.failure = error;
        Ok(())
    });
}

// ---- the step ----

/// Reports `TF_FAILED_PRECONDITION` and returns null: kernels run on the CPU, which has no streams.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetStream(ctx: Ref<TF_OpKernelContext>, status: Status) -> SP_Stream {
    guard(status, ptr::null_mut(), || {
        Err(failed_precondition!("Accessing device stream is not supported for a CPU device."))
    })
}

/// Returns the id of the step, which is unique among those of the process.
#[unsafe(no_mangle)]
pub extern "C" fn TF_StepId(mut ctx: Mut<TF_OpKernelContext>) -> i64 {
    quiet(0, || Ok(ctx.get("ctx")?.op(|op| op.step().id)))
}

/// As `TF_StepId`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetStepId(ctx: Mut<TF_OpKernelContext>) -> i64 {
    TF_StepId(ctx)
}

/// Returns 0: runs do not number their frames.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetFrameId(ctx: Ref<TF_OpKernelContext>) -> u64 {
    0
}

/// Returns 0: kernels do not learn the iteration.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetIterId(ctx: Ref<TF_OpKernelContext>) -> i64 {
    0
}

/// Returns the number of the device among those of its type; -1 on error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetDeviceId(mut ctx: Mut<TF_OpKernelContext>) -> c_int {
    quiet(-1, || {
        let device = ctx.get("ctx")?.op(|op| op.step().device.clone());
        let number = device.rsplit(':').next().and_then(|number| number.parse().ok());
        Ok(number.unwrap_or(-1))
    })
}

/// Returns the full name of the device. It lives as long as the run.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetDeviceName(mut ctx: Mut<TF_OpKernelContext>) -> TF_StringView {
    quiet(TF_StringView::new(""), || {
        Ok(ctx.get("ctx")?.op(|op| TF_StringView::new(&op.step().device)))
    })
}

/// Returns the name of the node. It lives as long as the kernel.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetOpKernelName(ctx: Ref<TF_OpKernelContext>) -> TF_StringView {
    let name = ctx.opt().and_then(|ctx| ctx.kernel.name.to_str().ok());
    TF_StringView::new(name.unwrap_or_default())
}

/// Returns the name of the container for resources whose op names none.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetResourceMgrDefaultContainerName(
    ctx: Ref<TF_OpKernelContext>,
) -> TF_StringView {
    TF_StringView::new("localhost")
}

/// Returns an empty string: kernels do not learn the names of their inputs' nodes.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetOpKernelRequestedInput(
    ctx: Ref<TF_OpKernelContext>,
    index: usize,
) -> TF_StringView {
    TF_StringView::new("")
}

/// Returns the version of graphs that this library makes.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetGraphDefVersion(ctx: Ref<TF_OpKernelContext>) -> c_int {
    tfcore_graph::GRAPH_VERSION
}

/// Returns a rendezvous without functions: that of a step is not handed out.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetRendezvous(ctx: Ref<TF_OpKernelContext>) -> TF_RendezvousThunk {
    TF_RendezvousThunk::NONE
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetSerializedFunctionDefLibrary(
    ctx: Ref<TF_OpKernelContext>,
    serialized_function_def_library: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_GetSerializedFunctionDefLibrary")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetSerializedConfigProto(
    ctx: Ref<TF_OpKernelContext>,
    serialized_config_proto: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_GetSerializedConfigProto")))
}

/// Does nothing: work on the CPU is not deferred.
#[unsafe(no_mangle)]
pub extern "C" fn TF_IncNumDeferredOps(context: Ref<TF_OpKernelContext>) {}

/// Does nothing: work on the CPU is not deferred.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DecNumDeferredOps(context: Ref<TF_OpKernelContext>) {}
