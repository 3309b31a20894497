//! `kernels_experimental.h`: variables in kernels that clients define, and further queries.
#![allow(unused_variables, reason = "the headers have arguments that no implementation needs")]

use std::ffi::c_int;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tfcore_base::{Result, invalid};
use tfcore_framework::{Value, Variable};
use tfcore_tensor::{Shape, Tensor};

use super::handle::{Array, ArrayMut, Boxed, CStrIn, Mut, Out, Owned, Ref, Status, guard, quiet};
use super::kernel_construction::{TF_OpKernelConstruction, construction};
use super::kernel_context::TF_OpKernelContext;
use super::kernel_types::TF_StringView;
use super::not_built_in::not_built_in;
use super::tf_datatype::TF_DataTypeNumber;
use super::tf_status::TF_Status;
use super::tf_tensor::TF_Tensor;

/// Copies a tensor; both belong to the function, which deletes them. Variables of this library are in host memory and are
/// replaced rather than copied, so that it is not called.
pub type TF_KernelCopy = Option<
    unsafe extern "C" fn(
        ctx: *mut TF_OpKernelContext,
        source: *mut TF_Tensor,
        dest: *mut TF_Tensor,
    ),
>;

/// Changes `tensor` in place by `value`; both belong to the function, which deletes them.
pub type TF_KernelUpdate = Option<
    unsafe extern "C" fn(
        ctx: *mut TF_OpKernelContext,
        tensor: *mut TF_Tensor,
        value: *mut TF_Tensor,
        op: c_int,
    ),
>;

/// Allocates a temporary variable.
pub type TF_KernelAllocate = Option<
    unsafe extern "C" fn(
        ctx: *mut TF_OpKernelContext,
        tensor: *mut TF_Tensor,
        dtype: TF_DataTypeNumber,
        dims: *const i64,
        num_dims: c_int,
        status: *mut TF_Status,
    ),
>;

/// Adds two tensors of a variant.
pub type TF_KernelBinary = Option<
    unsafe extern "C" fn(
        ctx: *mut TF_OpKernelContext,
        a: *mut TF_Tensor,
        b: *mut TF_Tensor,
        out: *mut TF_Tensor,
    ),
>;

/// The lock on variables, until it is released.
pub struct TF_VariableInputLockHolder {
    _lock: Option<MutexGuard<'static, ()>>,
}

impl Boxed for TF_VariableInputLockHolder {}

/// Excludes kernels of clients that change variables from each other. One lock is enough: the lock of a variable is held
/// for as long as its tensor is replaced.
static VARIABLES: Mutex<()> = Mutex::new(());

/// Checks a new shape as the assigning ops do.
fn check_shape(old: &Shape, is_initialized: bool, new: &Shape, validate: bool) -> Result<()> {
    if validate && is_initialized && old != new {
        return Err(invalid!(
            "Trying to assign to variable with tensor with wrong shape. Expected {old} got {new}"
        ));
    }
    Ok(())
}

fn check_dtype(variable: &Variable, value: &Tensor) -> Result<()> {
    if variable.dtype() != value.dtype() {
        return Err(invalid!(
            "Trying to assign variable with wrong dtype. Expected {} got {}",
            variable.dtype(),
            value.dtype()
        ));
    }
    Ok(())
}

/// Replaces the value of the variable at input `input_index` by input `value_index`, and makes the variable if there is
/// none. Reports `TF_INVALID_ARGUMENT` for a value of another type, and with `validate_shape` for one of another shape.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn TF_AssignVariable(
    mut ctx: Mut<TF_OpKernelContext>,
    input_index: c_int,
    value_index: c_int,
    validate_shape: bool,
    copyFunc: TF_KernelCopy,
    status: Status,
) {
    guard(status, (), || {
        let ctx = ctx.get("ctx")?;
        let (input, value) = (ctx.input_index(input_index)?, ctx.input_index(value_index)?);
        let value = ctx.input(value)?;
        let variable = ctx.op(|op| {
            let key = op.handle(input)?;
            op.resources().get_or_create(&key.container, Variable::RESOURCE, &key.name, || {
                let shape = value.shape().clone();
                Ok(Variable::new(key.name.as_str(), value.dtype(), shape))
            })
        })?;
        assign(&variable, value, validate_shape)
    })
}

fn assign(variable: &Variable, value: Tensor, validate_shape: bool) -> Result<()> {
    check_dtype(variable, &value)?;
    let shape = value.shape().clone();
    variable.write_if(value, |old, is_initialized| {
        check_shape(old, is_initialized, &shape, validate_shape)
    })
}

/// Replaces the value of the ref variable at input `input_ref_index` by input `value_index`, and forwards the reference to
/// output `output_ref_index`.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn TF_AssignRefVariable(
    mut ctx: Mut<TF_OpKernelContext>,
    input_ref_index: c_int,
    output_ref_index: c_int,
    value_index: c_int,
    use_locking: bool,
    validate_shape: bool,
    copyFunc: TF_KernelCopy,
    status: Status,
) {
    guard(status, (), || {
        let ctx = ctx.get("ctx")?;
        let (input, value) = (ctx.input_index(input_ref_index)?, ctx.input_index(value_index)?);
        let output = ctx.output_index(output_ref_index)?;
        let (variable, value) = (ctx.variable(input)?, ctx.input(value)?);
        assign(&variable, value, validate_shape)?;
        ctx.set_output(output, Value::Ref(variable));
        Ok(())
    })
}

/// Lets `updateFunc` change the value of the variable at input `input_index` by input `value_index`, while no other op
/// sees it. `Op` is passed on.
///
/// # Safety
/// `updateFunc` must not use the variable by other functions.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn TF_AssignUpdateVariable(
    mut ctx: Mut<TF_OpKernelContext>,
    input_index: c_int,
    value_index: c_int,
    Op: c_int,
    isVariantType: c_int,
    copyFunc: TF_KernelCopy,
    updateFunc: TF_KernelUpdate,
    status: Status,
) {
    guard(status, (), || {
        let update = updateFunc.ok_or_else(|| invalid!("Argument 'updateFunc' is null"))?;
        let ctx = ctx.get("ctx")?;
        let (input, value) = (ctx.input_index(input_index)?, ctx.input_index(value_index)?);
        let (variable, value) = (ctx.variable(input)?, ctx.input(value)?);
        check_dtype(&variable, &value)?;
        let buffers = ctx.op(|op| op.step().buffers.clone());
        variable.update(&buffers, |tensor| {
            if tensor.shape() != value.shape() {
                return Err(invalid!(
                    "Cannot update variable with shape {} using a Tensor with shape {}, shapes must be equal.",
                    tensor.shape(),
                    value.shape()
                ));
            }
            let (target, value) = (TF_Tensor::new(tensor.clone()), TF_Tensor::new(value));
            // SAFETY: the client's function gets a context that lives during the call and two tensors that it owns. Nothing else
            // reads the memory of the variable's: it was exclusive, and the variable is locked.
            unsafe { update(ctx, target, value, Op) };
            Ok(())
        })
    })
}

/// Returns in `out` the value of the variable at input `input`, for the caller to change in place and to delete. The
/// memory is the variable's alone: what was read before keeps its values.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn TF_GetInputTensorFromVariable(
    mut ctx: Mut<TF_OpKernelContext>,
    input: c_int,
    lock_held: bool,
    isVariantType: bool,
    sparse: bool,
    copyFunc: TF_KernelCopy,
    mut out: Out<*mut TF_Tensor>,
    status: Status,
) {
    guard(status, (), || {
        let ctx = ctx.get("ctx")?;
        let input = ctx.input_index(input)?;
        let variable = ctx.variable(input)?;
        let buffers = ctx.op(|op| op.step().buffers.clone());
        let tensor = variable.update(&buffers, |tensor| Ok(tensor.clone()))?;
        out.put(TF_Tensor::new(tensor), "out")
    })
}

/// With `do_lock` excludes other kernels of clients that lock, until the holder that is stored is released.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn TF_MaybeLockVariableInputMutexesInOrder(
    mut ctx: Mut<TF_OpKernelContext>,
    do_lock: bool,
    sparse: bool,
    inputs: Array<c_int>,
    len: usize,
    copyFunc: TF_KernelCopy,
    mut lockHolder: Out<*mut TF_VariableInputLockHolder>,
    status: Status,
) {
    guard(status, (), || {
        let ctx = ctx.get("ctx")?;
        for &input in inputs.get(len, "inputs")? {
            let input = ctx.input_index(input)?;
            ctx.variable(input)?;
        }
        let _lock = do_lock.then(|| VARIABLES.lock());
        lockHolder.put(TF_VariableInputLockHolder { _lock }.hand_out(), "lockHolder")
    })
}

/// Releases a lock; null is allowed. The thread must be the one that took it.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn TF_ReleaseVariableInputLockHolder(lockHolder: Owned<TF_VariableInputLockHolder>) {
    drop(lockHolder);
}

/// Makes output `output_index` the reference at input `input_index`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelContext_ForwardRefInputToRefOutput(
    mut ctx: Mut<TF_OpKernelContext>,
    input_index: i32,
    output_index: i32,
) {
    quiet((), || {
        let ctx = ctx.get("ctx")?;
        let (input, output) = (ctx.input_index(input_index)?, ctx.output_index(output_index)?);
        let variable: Arc<Variable> = ctx.op(|op| op.input_ref(input).cloned())?;
        ctx.set_output(output, Value::Ref(variable));
        Ok(())
    });
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_TemporaryVariable(
    ctx: Ref<TF_OpKernelContext>,
    dtype: TF_DataTypeNumber,
    dims: Array<i64>,
    num_dims: c_int,
    var_name: Ref<TF_StringView>,
    plugin_allocator: TF_KernelAllocate,
    tf_status: Status,
) {
    guard(tf_status, (), || Err(not_built_in("TF_TemporaryVariable")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DestroyTemporaryVariable(
    ctx: Ref<TF_OpKernelContext>,
    index: c_int,
    var_name: Ref<TF_StringView>,
    tf_status: Status,
) {
    guard(tf_status, (), || Err(not_built_in("TF_DestroyTemporaryVariable")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_AddNVariant(
    ctx: Ref<TF_OpKernelContext>,
    binary_add_func: TF_KernelBinary,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_AddNVariant")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ZerosLikeVariant(
    ctx: Ref<TF_OpKernelContext>,
    zeros_like_func: TF_KernelCopy,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_ZerosLikeVariant")))
}

/// As `TF_GetInput`, for the one tensor of the input argument `inputName`.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn TF_GetInputByName(
    mut ctx: Mut<TF_OpKernelContext>,
    inputName: CStrIn,
    mut tensor: Out<*mut TF_Tensor>,
    status: Status,
) {
    guard(status, (), || {
        let ctx = ctx.get("ctx")?;
        let name = inputName.get("inputName")?;
        let range = ctx.input_range(&name)?;
        if range.len() != 1 {
            return Err(invalid!(
                "OpKernel used list-valued input name '{name}' when single-valued input was expected"
            ));
        }
        tensor.put(TF_Tensor::new(ctx.input(range.start)?), "tensor")
    })
}

/// Returns true if input `i` is a reference to a variable. Reports `TF_OUT_OF_RANGE` if there is no such input.
#[unsafe(no_mangle)]
pub extern "C" fn TF_IsRefInput(ctx: Ref<TF_OpKernelContext>, i: c_int, status: Status) -> bool {
    guard(status, false, || {
        let ctx = ctx.get("ctx")?;
        Ok(ctx.input_dtype(i)?.is_ref())
    })
}

/// Stores the first `num_dims` dimensions of a shape attr, -1 for unknown ones.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrTensorShape(
    mut ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    mut dims: ArrayMut<i64>,
    num_dims: usize,
    status: Status,
) {
    guard(status, (), || {
        let shape = construction(&mut ctx)?.init.attrs.shape(&attr_name.get("attr_name")?)?;
        let known = shape.dims().unwrap_or_default();
        let dims = dims.get(known.len().min(num_dims), "dims")?;
        for (out, dim) in dims.iter_mut().zip(known) {
            *out = dim.to_i64();
        }
        Ok(())
    })
}
