//! `tf_tensor.h`: tensors.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use tfcore_base::{DType, Result, invalid};
use tfcore_math::fork;
use tfcore_tensor::{ALIGNMENT, Buffer, Shape, Tensor};

use super::handle::{Array, Handle, In, Mut, Owned, Ref, Status, count, guard, quiet, to_int};
use super::tf_buffer::TF_Buffer;
use super::tf_datatype::TF_DataTypeNumber;

/// A tensor: a dtype, a shape and a share of a buffer.
pub struct TF_Tensor {
    tensor: Tensor,
    /// The dimensions as the client sees them: `TF_SetShape` may have set others than the buffer has.
    dims: Vec<i64>,
    /// The size of the memory, which may be more than the elements need.
    byte_size: usize,
}

/// So many places a thread keeps.
const MAX_KEPT: usize = 256;

thread_local! {
    /// The places of tensors that this thread has deleted. Whoever runs a session deletes as many tensors as it is handed
    /// out, and the system's allocator is slow for more than a handful of them.
    #[expect(clippy::vec_box, reason = "what is handed out is a box")]
    static KEPT: RefCell<Vec<Box<MaybeUninit<TF_Tensor>>>> = const { RefCell::new(Vec::new()) };
}

impl TF_Tensor {
    pub(crate) fn new(tensor: Tensor) -> *mut TF_Tensor {
        TF_Tensor::from(tensor).hand_out()
    }

    fn hand_out(self) -> *mut TF_Tensor {
        let kept = KEPT.try_with(|kept| kept.borrow_mut().pop()).ok().flatten();
        Box::into_raw(Box::write(kept.unwrap_or_else(Box::new_uninit), self))
    }

    /// A tensor over `byte_size` bytes that the client has asked for.
    fn sized(tensor: Tensor, byte_size: usize) -> *mut TF_Tensor {
        TF_Tensor { byte_size, ..TF_Tensor::from(tensor) }.hand_out()
    }

    /// The tensor with the client's shape.
    ///
    /// # Errors
    /// `InvalidArgument` if that shape has more elements than the buffer.
    pub(crate) fn tensor(&self) -> Result<Tensor> {
        self.tensor.viewed_as(&self.dims)
    }
}

impl Handle for TF_Tensor {
    /// Drops a tensor and keeps its place.
    unsafe fn free(tensor: *mut TF_Tensor) {
        // SAFETY: as the caller promises, here and below; a place that may be uninitialised has the same layout.
        let mut place: Box<MaybeUninit<TF_Tensor>> = unsafe { Box::from_raw(tensor.cast()) };
        // SAFETY: as above.
        unsafe { place.assume_init_drop() };
        let mut place = Some(place);
        // A thread that is ending keeps nothing.
        let _is_over = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.len() < MAX_KEPT {
                kept.extend(place.take());
            }
        });
    }
}

impl From<Tensor> for TF_Tensor {
    fn from(tensor: Tensor) -> TF_Tensor {
        let (dims, byte_size) = (tensor.shape().dims().to_vec(), tensor.byte_size());
        TF_Tensor { tensor, dims, byte_size }
    }
}

/// Returns a tensor over the caller's memory, or null if `len` is too short for the shape, the shape is
/// impossible or the type is `TF_RESOURCE` or `TF_VARIANT`, whose elements only the library makes.
///
/// `deallocator` is called exactly once with `data`, `len` and `deallocator_arg`: at once if null is
/// returned or the memory is not aligned to 64 bytes and so is copied, else when the memory is not
/// needed any more. It may be null.
///
/// # Safety
/// `data` must be readable for `len` bytes until the deallocator is called. For strings the memory holds initialised
/// `TF_TString`s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_NewTensor(
    dtype: TF_DataTypeNumber,
    dims: Array<i64>,
    num_dims: c_int,
    data: *mut c_void,
    len: usize,
    deallocator: Option<unsafe extern "C" fn(data: *mut c_void, len: usize, arg: *mut c_void)>,
    deallocator_arg: *mut c_void,
) -> *mut TF_Tensor {
    // SAFETY: as the caller promises. The buffer owns the memory from here on, whatever fails below.
    let buffer = unsafe { Buffer::from_client(data, len, deallocator, deallocator_arg) };
    quiet(ptr::null_mut(), || {
        let dtype = dtype.dtype()?;
        let shape = shape(dims, num_dims)?;
        if data.is_null() && len > 0 {
            return Err(invalid!("Argument 'data' is null"));
        }
        if dtype.is_plain() {
            return Tensor::from_buffer(dtype, shape, buffer)
                .map(|tensor| TF_Tensor::sized(tensor, len));
        }
        if dtype != DType::STRING {
            return Err(invalid!("A client's bytes cannot be elements of type {dtype}"));
        }
        let needed = shape.count().checked_mul(dtype.size());
        let misaligned = !(data as usize).is_multiple_of(align_of::<u64>());
        if needed.is_none_or(|needed| needed > len) || misaligned {
            return Err(invalid!("A buffer of {len} bytes cannot hold shape {shape} of {dtype}"));
        }
        // SAFETY: length and alignment have been checked, the elements are the caller's promise.
        let tensor = unsafe { Tensor::from_client_elements(dtype, shape, buffer) };
        Ok(TF_Tensor::sized(tensor, len))
    })
}

pub(crate) fn shape(dims: Array<i64>, num_dims: c_int) -> Result<Shape> {
    Shape::new(dims.get(count(num_dims, "num_dims")?, "dims")?)
}

/// Returns the alignment in bytes of memory that is adopted without a copy.
#[unsafe(no_mangle)]
pub extern "C" fn TF_TensorDefaultAlignment() -> usize {
    ALIGNMENT
}

/// Returns a tensor of new memory: `len` bytes, zeroed; empty strings for `TF_STRING`, whose `len` is not
/// looked at. Null if `len` is too short for the shape or there is no such memory.
#[unsafe(no_mangle)]
pub extern "C" fn TF_AllocateTensor(
    dtype: TF_DataTypeNumber,
    dims: Array<i64>,
    num_dims: c_int,
    len: usize,
) -> *mut TF_Tensor {
    quiet(ptr::null_mut(), || {
        let dtype = dtype.dtype()?;
        let shape = shape(dims, num_dims)?;
        if !dtype.is_plain() {
            return Tensor::zeros(dtype, shape).map(TF_Tensor::new);
        }
        let buffer = Buffer::allocate(DType::UINT8, len, None)?;
        Tensor::from_buffer(dtype, shape, buffer).map(|tensor| TF_Tensor::sized(tensor, len))
    })
}

/// Returns `tensor` if the library owns its memory and nobody else holds it, so that it can go to another owner; else null.
#[unsafe(no_mangle)]
pub extern "C" fn TF_TensorMaybeMove(tensor: Ref<TF_Tensor>) -> *mut TF_Tensor {
    quiet(ptr::null_mut(), || {
        if !tensor.get("tensor")?.tensor.is_exclusive() {
            return Ok(ptr::null_mut());
        }
        Ok(tensor.as_ptr())
    })
}

/// Deletes a tensor; null is allowed. Its memory lives on while the runtime holds it.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteTensor(tensor: Owned<TF_Tensor>) {
    let _inside = fork::enter();
    drop(tensor);
}

/// Returns the element type.
#[unsafe(no_mangle)]
pub extern "C" fn TF_TensorType(tensor: In<TF_Tensor>) -> TF_DataTypeNumber {
    tensor.opt().map_or(TF_DataTypeNumber::INVALID, |t| t.tensor.dtype().into())
}

/// Sets the shape, without any check against the number of elements.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetShape(mut tensor: Mut<TF_Tensor>, dims: Array<i64>, num_dims: c_int) {
    quiet((), || {
        let (tensor, shape) = (tensor.get("tensor")?, shape(dims, num_dims)?);
        tensor.dims = shape.dims().to_vec();
        Ok(())
    });
}

/// Returns the number of dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NumDims(tensor: In<TF_Tensor>) -> c_int {
    tensor.opt().map_or(-1, |tensor| to_int(tensor.dims.len()))
}

/// Returns the size of a dimension; -1 if there is no such dimension.
#[unsafe(no_mangle)]
pub extern "C" fn TF_Dim(tensor: In<TF_Tensor>, dim_index: c_int) -> i64 {
    let dims = tensor.opt().map_or(&[][..], |tensor| &tensor.dims);
    usize::try_from(dim_index).ok().and_then(|index| dims.get(index)).copied().unwrap_or(-1)
}

/// Returns the size of the memory in bytes, which may be more than the elements need.
#[unsafe(no_mangle)]
pub extern "C" fn TF_TensorByteSize(tensor: In<TF_Tensor>) -> usize {
    tensor.opt().map_or(0, |tensor| tensor.byte_size)
}

/// Returns the address of the first element.
#[unsafe(no_mangle)]
pub extern "C" fn TF_TensorData(tensor: In<TF_Tensor>) -> *mut c_void {
    tensor.opt().map_or(ptr::null_mut(), |tensor| tensor.tensor.data().cast())
}

/// Returns the number of elements of the shape.
#[unsafe(no_mangle)]
pub extern "C" fn TF_TensorElementCount(tensor: In<TF_Tensor>) -> i64 {
    let dims = tensor.opt().map(|tensor| &tensor.dims);
    dims.map_or(0, |dims| dims.iter().product())
}

/// Makes `to` share the memory of `from` as elements of another type and shape of as many bytes. Both types
/// must be of fixed size.
#[unsafe(no_mangle)]
pub extern "C" fn TF_TensorBitcastFrom(
    from: In<TF_Tensor>,
    r#type: TF_DataTypeNumber,
    mut to: Mut<TF_Tensor>,
    new_dims: Array<i64>,
    num_new_dims: c_int,
    status: Status,
) {
    guard(status, (), || {
        let (from, shape) = (from.get("from")?, shape(new_dims, num_new_dims)?);
        let shared = from.tensor()?.bitcast(r#type.dtype()?, shape)?;
        *to.get("to")? = shared.into();
        Ok(())
    })
}

/// Returns whether the memory is aligned as the library aligns its own.
#[unsafe(no_mangle)]
pub extern "C" fn TF_TensorIsAligned(tensor: In<TF_Tensor>) -> bool {
    tensor.opt().is_some_and(|tensor| {
        tensor.tensor.count() == 0 || (tensor.tensor.data() as usize).is_multiple_of(ALIGNMENT)
    })
}

/// Replaces `to` by the tensor that a serialised `TensorProto` describes.
#[unsafe(no_mangle)]
pub extern "C" fn TF_TensorFromProto(from: In<TF_Buffer>, mut to: Mut<TF_Tensor>, status: Status) {
    guard(status, (), || {
        let (bytes, to) = (from.get("from")?.bytes("from")?, to.get("to")?);
        let message =
            tfcore_proto::decode(bytes).map_err(|_| invalid!("Unparseable tensor proto"))?;
        *to = tfcore_framework::tensor_from_proto(&message)?.into();
        Ok(())
    })
}
