//! `kernels.h`: kernels that clients define: their description, their registration, and their calls.
#![allow(unused_variables, reason = "the headers have arguments that no implementation needs")]

use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Arc;

use tfcore_base::{DType, Error, Result, internal, invalid, unimplemented_error};
use tfcore_framework::{AttrValue, Attrs};
use tfcore_framework::{
    BlockingContext, DeviceType, Kernel, KernelDef, KernelFactory, KernelInit, OpContext, OpDef,
    blocking_kernel,
};
use tfcore_proto as proto;

use super::handle::{Boxed, CStrIn, Mut, Owned, Status, guard, quiet};
use super::kernel_construction::{Construction, TF_OpKernelConstruction};
use super::kernel_context::TF_OpKernelContext;
use super::tf_datatype::TF_DataTypeNumber;
use crate::ops;

/// Makes the state of a kernel for one node, which the other functions are passed; may be null for none.
pub type TF_KernelCreate =
    Option<unsafe extern "C" fn(ctx: *mut TF_OpKernelConstruction) -> *mut c_void>;

/// Runs a kernel.
pub type TF_KernelCompute =
    Option<unsafe extern "C" fn(kernel: *mut c_void, ctx: *mut TF_OpKernelContext)>;

/// Begins to run a kernel; `done` is called once, by any thread, when it has ended.
pub type TF_KernelComputeAsync = Option<
    unsafe extern "C" fn(
        kernel: *mut c_void,
        ctx: *mut TF_OpKernelContext,
        done: *mut TF_AsyncOpKernelDoneCallback,
    ),
>;

/// Deletes the state of a kernel; may be null.
pub type TF_KernelDelete = Option<unsafe extern "C" fn(kernel: *mut c_void)>;

/// A kernel that is being described.
pub struct TF_KernelBuilder {
    def: proto::KernelDef,
    functions: Functions,
}

/// Ends the run of an asynchronous kernel.
pub struct TF_AsyncOpKernelDoneCallback {
    context: Box<TF_OpKernelContext>,
}

#[derive(Clone, Copy)]
struct Functions {
    create: TF_KernelCreate,
    compute: Compute,
    delete: TF_KernelDelete,
}

#[derive(Clone, Copy)]
enum Compute {
    Sync(TF_KernelCompute),
    Async(TF_KernelComputeAsync),
}

impl Boxed for TF_KernelBuilder {}

impl Boxed for TF_AsyncOpKernelDoneCallback {}

// ---- description ----

/// Returns a description of a kernel for an op on a type of device, such as "CPU". It is deleted by
/// `TF_RegisterKernelBuilder` or `TF_DeleteKernelBuilder`; null if a name is null.
///
/// # Safety
/// The functions must be live as long as the process, and callable by any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_NewKernelBuilder(
    op_name: CStrIn,
    device_name: CStrIn,
    create_func: TF_KernelCreate,
    compute_func: TF_KernelCompute,
    delete_func: TF_KernelDelete,
) -> *mut TF_KernelBuilder {
    let compute = Compute::Sync(compute_func);
    let functions = Functions { create: create_func, compute, delete: delete_func };
    new_builder(op_name, device_name, functions)
}

/// As `TF_NewKernelBuilder`, for a kernel that ends its run by `TF_RunAsyncOpKernelDoneCallback` and holds no thread
/// until then.
///
/// # Safety
/// As for `TF_NewKernelBuilder`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_NewAsyncKernelBuilder(
    op_name: CStrIn,
    device_name: CStrIn,
    create_func: TF_KernelCreate,
    compute_async_func: TF_KernelComputeAsync,
    delete_func: TF_KernelDelete,
) -> *mut TF_KernelBuilder {
    let compute = Compute::Async(compute_async_func);
    let functions = Functions { create: create_func, compute, delete: delete_func };
    new_builder(op_name, device_name, functions)
}

fn new_builder(op: CStrIn, device: CStrIn, functions: Functions) -> *mut TF_KernelBuilder {
    quiet(ptr::null_mut(), || {
        let (op, device) = (op.get("op_name")?, device.get("device_name")?);
        let def = proto::KernelDef {
            op: op.into_owned(),
            device_type: device.into_owned(),
            ..Default::default()
        };
        Ok(TF_KernelBuilder { def, functions }.hand_out())
    })
}

/// Limits a kernel to nodes whose type attr has this type. Reports `TF_UNIMPLEMENTED` for types that kernels cannot be
/// limited to, such as references.
#[unsafe(no_mangle)]
pub extern "C" fn TF_KernelBuilder_TypeConstraint(
    mut kernel_builder: Mut<TF_KernelBuilder>,
    attr_name: CStrIn,
    r#type: TF_DataTypeNumber,
    status: Status,
) {
    guard(status, (), || {
        let builder = kernel_builder.get("kernel_builder")?;
        let name = attr_name.get("attr_name")?.into_owned();
        let unexpected = || unimplemented_error!("Unexpected type {}", r#type.0);
        let dtype = r#type.dtype().ok().filter(may_be_constrained).ok_or_else(unexpected)?;
        let allowed_values = Some(AttrValue::types([dtype]).to_proto());
        let constraint = proto::kernel_def::AttrConstraint { name, allowed_values };
        builder.def.constraint.push(constraint);
        Ok(())
    })
}

/// True for the types that TensorFlow's kernels name: neither references nor float8, float4, int4 and int2.
fn may_be_constrained(dtype: &DType) -> bool {
    !dtype.is_ref() && dtype.to_i32() <= DType::UINT64.to_i32()
}

/// Says that an argument of the op lies in host memory, whatever the device.
#[unsafe(no_mangle)]
pub extern "C" fn TF_KernelBuilder_HostMemory(
    mut kernel_builder: Mut<TF_KernelBuilder>,
    arg_name: CStrIn,
) {
    quiet((), || {
        let name = arg_name.get("arg_name")?.into_owned();
        kernel_builder.get("kernel_builder")?.def.host_memory_arg.push(name);
        Ok(())
    });
}

/// Sets the priority, 0 by default. Of several kernels for a node that with the highest priority is taken.
#[unsafe(no_mangle)]
pub extern "C" fn TF_KernelBuilder_Priority(
    mut kernel_builder: Mut<TF_KernelBuilder>,
    priority_number: i32,
) {
    quiet((), || {
        kernel_builder.get("kernel_builder")?.def.priority = priority_number;
        Ok(())
    });
}

/// Sets the label. Only nodes that ask for it by the attr `_kernel` take a kernel with a label.
#[unsafe(no_mangle)]
pub extern "C" fn TF_KernelBuilder_Label(mut kernel_builder: Mut<TF_KernelBuilder>, label: CStrIn) {
    quiet((), || {
        let label = label.get("label")?.into_owned();
        kernel_builder.get("kernel_builder")?.def.label = label;
        Ok(())
    });
}

/// Deletes a description that has not been registered; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteKernelBuilder(builder: Owned<TF_KernelBuilder>) {
    drop(builder);
}

// ---- registration ----

/// Registers a kernel for the whole process and deletes the builder, whether that succeeds or not. `kernel_name` is for
/// messages alone. The op may be registered later.
#[unsafe(no_mangle)]
pub extern "C" fn TF_RegisterKernelBuilder(
    kernel_name: CStrIn,
    builder: Owned<TF_KernelBuilder>,
    status: Status,
) {
    TF_RegisterKernelBuilderWithKernelDef(CStrIn::NULL, kernel_name, builder, status)
}

/// As `TF_RegisterKernelBuilder`, with a serialised `KernelDef` in place of the builder's description, unless it is null.
/// It ends at its first NUL.
#[unsafe(no_mangle)]
pub extern "C" fn TF_RegisterKernelBuilderWithKernelDef(
    serialized_kernel_def: CStrIn,
    name: CStrIn,
    builder: Owned<TF_KernelBuilder>,
    status: Status,
) {
    guard(status, (), || {
        let TF_KernelBuilder { def, functions } = builder.take("builder")?;
        let def = match serialized_kernel_def.c_str() {
            None => def,
            Some(bytes) => proto::decode(bytes.to_bytes())
                .map_err(|_| invalid!("Error parsing serialized KernelDef."))?,
        };
        let op = def.op.clone();
        if let Some(def) = kernel_def(def, functions)? {
            ops::registry().add_kernel(&op, def);
        }
        Ok(())
    })
}

/// The kernel for the registry; `None` if it is for a device that this library does not have.
fn kernel_def(def: proto::KernelDef, functions: Functions) -> Result<Option<KernelDef>> {
    let devices = [DeviceType::Cpu, DeviceType::Gpu];
    let Some(device) = devices.into_iter().find(|device| device.name() == def.device_type) else {
        return Ok(None);
    };
    let constraint = |constraint: proto::kernel_def::AttrConstraint| {
        let allowed = AttrValue::from_proto(constraint.allowed_values.unwrap_or_default());
        let mut attrs = Attrs::new();
        attrs.set("allowed", allowed);
        Ok((constraint.name.into(), attrs.dtypes("allowed")?.to_vec()))
    };
    let constraints = def.constraint.into_iter().map(constraint).collect::<Result<_>>()?;
    let host_memory = def.host_memory_arg.clone();
    let factory: KernelFactory =
        Arc::new(move |init: &KernelInit<'_>| build(functions, &host_memory, init));
    Ok(Some(KernelDef {
        device,
        constraints,
        label: def.label.into(),
        priority: def.priority,
        host_memory: def.host_memory_arg,
        factory: Some(factory),
    }))
}

// ---- calls ----

/// The kernel of one node, as the client has made it.
pub(super) struct CKernel {
    functions: Functions,
    /// What `create_func` has returned.
    state: *mut c_void,
    /// The name of the node.
    pub(super) name: CString,
    pub(super) op: Arc<OpDef>,
    pub(super) attrs: Attrs,
    pub(super) input_dtypes: Vec<DType>,
    pub(super) output_dtypes: Vec<DType>,
    /// The arguments that the client wants in host memory.
    pub(super) host_memory: Vec<String>,
}

// SAFETY: the caller of `TF_NewKernelBuilder` promises that any thread may call the functions with the state.
unsafe impl Send for CKernel {}
// SAFETY: as above.
unsafe impl Sync for CKernel {}

impl Drop for CKernel {
    fn drop(&mut self) {
        if let Some(delete) = self.functions.delete {
            // SAFETY: the state comes from `create_func` and is used no more.
            unsafe { delete(self.state) };
        }
    }
}

fn build(
    functions: Functions,
    host_memory: &[String],
    init: &KernelInit<'_>,
) -> Result<Box<dyn Kernel>> {
    let mut construction = Construction::new(init);
    let state = match functions.create {
        // SAFETY: the client's function gets a context that lives during the call.
        Some(create) => unsafe { create(construction.as_ptr()) },
        None => ptr::null_mut(),
    };
    let kernel = CKernel {
        functions,
        state,
        name: CString::new(init.name).unwrap_or_default(),
        op: init.op.clone(),
        attrs: init.attrs.clone(),
        input_dtypes: init.input_dtypes.to_vec(),
        output_dtypes: init.output_dtypes.to_vec(),
        host_memory: host_memory.to_vec(),
    };
    construction.result()?;
    let kernel = Arc::new(kernel);
    match functions.compute {
        Compute::Sync(None) | Compute::Async(None) => Err(kernel.has_no_function()),
        Compute::Sync(Some(compute)) => {
            let compute = move |ctx: &mut OpContext<'_>| {
                let mut context = TF_OpKernelContext::running(ctx, kernel.clone());
                // SAFETY: the client's function gets a context that lives during the call.
                unsafe { compute(kernel.state, &mut context) };
                context.end(ctx)
            };
            Ok(Box::new(compute))
        }
        Compute::Async(Some(compute)) => blocking_kernel(move |ctx: BlockingContext| {
            let context = Box::new(TF_OpKernelContext::waiting(ctx, kernel.clone()));
            let done = TF_AsyncOpKernelDoneCallback { context }.hand_out();
            // SAFETY: the context and the callback live until the client calls `TF_RunAsyncOpKernelDoneCallback`; the client
            // uses the context no longer.
            unsafe { compute(kernel.state, &raw mut *(*done).context, done) };
        }),
    }
}

impl CKernel {
    fn has_no_function(&self) -> Error {
        internal!("The kernel of node {} has no compute function", self.name.to_string_lossy())
    }
}

/// Ends the run of an asynchronous kernel, with the error that `TF_OpKernelContext_Failure` has noted or with the outputs.
/// The context and `arg` are deleted; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_RunAsyncOpKernelDoneCallback(arg: Owned<TF_AsyncOpKernelDoneCallback>) {
    quiet((), || {
        arg.take("done")?.context.finish();
        Ok(())
    });
}
