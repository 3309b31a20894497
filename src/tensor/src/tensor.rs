//! `Tensor`: a dtype, a shape and a share of a buffer.

use std::fmt;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use tfcore_base::{DType, Elem, Error, Result, internal, invalid, resource_exhausted};

use crate::share::Share;
use crate::{ALIGNMENT, Buffer, BufferPool, Elems, ElemsMut, Lane, Shape};

/// A dense, row-major array. Cloning shares the buffer.
#[derive(Clone)]
pub struct Tensor {
    buffer: Share,
    /// Where the elements begin in the buffer, in bytes.
    offset: usize,
    dtype: DType,
    shape: Shape,
}

impl Tensor {
    /// A tensor of new memory. Plain elements are zero or, from a pool, arbitrary; strings, handles and
    /// variants are empty.
    ///
    /// # Errors
    /// `ResourceExhausted` if there is no memory of that size.
    pub fn allocate(dtype: DType, shape: Shape, pool: Option<&Arc<BufferPool>>) -> Result<Tensor> {
        let dtype = dtype.base();
        match Share::allocate(dtype, shape.count(), pool) {
            Ok(buffer) => Ok(Tensor { buffer, offset: 0, dtype, shape }),
            Err(_) => Err(out_of_memory(dtype, &shape)),
        }
    }

    /// A tensor of zeros, false or empty elements.
    pub fn zeros(dtype: DType, shape: Shape) -> Result<Tensor> {
        Tensor::allocate(dtype, shape, None)
    }

    /// A tensor with a copy of `values`, whose number must be the shape's.
    pub fn from_slice<T: Elem>(shape: Shape, values: &[T]) -> Result<Tensor> {
        if shape.count() != values.len() {
            return Err(internal!("{} values for shape {shape}", values.len()));
        }
        let mut tensor = Tensor::allocate(T::DTYPE, shape, None)?;
        tensor.as_mut_slice::<T>()?.clone_from_slice(values);
        Ok(tensor)
    }

    /// A scalar tensor.
    pub fn scalar<T: Elem>(value: T) -> Tensor {
        Tensor::from_slice(Shape::scalar(), &[value]).expect("one element has a buffer")
    }

    /// A tensor over a buffer that somebody else has filled.
    ///
    /// Where the memory is not aligned to 64 bytes, or its bytes are no valid elements, the elements
    /// are copied.
    ///
    /// # Errors
    /// `InvalidArgument` if the buffer is too short for the shape, or the dtype is not plain.
    pub fn from_buffer(dtype: DType, shape: Shape, buffer: Buffer) -> Result<Tensor> {
        if !dtype.is_plain() || dtype.is_ref() {
            return Err(invalid!("Bytes cannot be elements of type {dtype}"));
        }
        let needed = shape.count().checked_mul(dtype.size());
        if needed.is_none_or(|needed| needed > buffer.len()) {
            return Err(invalid!(
                "A buffer of {} bytes is too short for shape {shape} and type {dtype}",
                buffer.len()
            ));
        }
        let aligned = (buffer.as_ptr() as usize).is_multiple_of(ALIGNMENT);
        let tensor = Tensor { buffer: Share::new(buffer), offset: 0, dtype, shape };
        if aligned && tensor.has_valid_elements() { Ok(tensor) } else { tensor.copied_from_bytes() }
    }

    /// A tensor over bytes that were read from outside, such as a `tensor_content`.
    pub fn from_bytes(dtype: DType, shape: Shape, bytes: Bytes) -> Result<Tensor> {
        Tensor::from_buffer(dtype, shape, Buffer::from_bytes(bytes))
    }

    /// A tensor over a client's array, without any copy: what the C API does with strings.
    ///
    /// # Safety
    /// The buffer must hold `shape.count()` valid, 8-byte aligned elements of `dtype`.
    pub unsafe fn from_client_elements(dtype: DType, shape: Shape, buffer: Buffer) -> Tensor {
        Tensor { buffer: Share::new(buffer), offset: 0, dtype, shape }
    }

    /// Bytes of a client may be no `bool`: then any bit set means true.
    fn has_valid_elements(&self) -> bool {
        self.dtype != DType::BOOL || self.raw_bytes().iter().all(|&byte| byte <= 1)
    }

    fn copied_from_bytes(&self) -> Result<Tensor> {
        let mut copy = Tensor::allocate(self.dtype, self.shape.clone(), None)?;
        let target = copy.elems_mut()?;
        if self.dtype == DType::BOOL {
            let source = self.raw_bytes();
            for (target, &source) in target.typed::<bool>().iter_mut().zip(source) {
                *target = source != 0;
            }
        } else {
            // SAFETY: the elements are bytes of any value; alignment does not matter to a byte copy.
            target.copy_from(unsafe { Elems::from_raw(self.dtype, self.data(), self.count()) });
        }
        Ok(copy)
    }

    fn raw_bytes(&self) -> &[u8] {
        let len = self.count() * self.dtype.size();
        if len == 0 {
            return &[];
        }
        // SAFETY: a plain tensor's buffer has at least so many initialised bytes.
        unsafe { std::slice::from_raw_parts(self.data(), len) }
    }

    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    #[inline]
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// The size of dimension `axis`, as an index.
    #[inline]
    pub fn dim(&self, axis: usize) -> usize {
        self.shape.dim(axis)
    }

    /// The number of elements.
    #[inline]
    pub fn count(&self) -> usize {
        self.shape.count()
    }

    /// The bytes that the elements take.
    #[inline]
    pub fn byte_size(&self) -> usize {
        self.count() * self.dtype.size()
    }

    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The address of the first element.
    #[inline]
    pub fn data(&self) -> *mut u8 {
        self.buffer.as_ptr().wrapping_add(self.offset)
    }

    /// Whether nobody else holds the buffer and the library may write it.
    #[inline]
    pub fn is_exclusive(&self) -> bool {
        self.buffer.is_ours() && self.buffer.is_last()
    }

    /// What tells later whether the buffer is still in use; `None` for a small one, which threads keep.
    pub fn watch(&self) -> Option<Watch> {
        self.buffer.watch().map(Watch)
    }

    /// Whether two tensors share their buffer.
    pub fn shares_buffer(&self, other: &Tensor) -> bool {
        self.buffer.is_of(&other.buffer)
    }

    #[inline]
    pub fn elems(&self) -> Elems<'_> {
        // SAFETY: the constructors have checked length and validity.
        unsafe { Elems::from_raw(self.dtype, self.data(), self.count()) }
    }

    /// # Errors
    /// `Internal` if the buffer is shared.
    #[inline]
    pub fn elems_mut(&mut self) -> Result<ElemsMut<'_>> {
        if !self.is_exclusive() {
            return Err(internal!("Writing to a tensor whose buffer is shared"));
        }
        // SAFETY: nobody else holds the buffer, and `&mut self` is held.
        Ok(unsafe { ElemsMut::from_raw(self.dtype, self.data(), self.count()) })
    }

    /// The elements as a slice.
    ///
    /// # Errors
    /// `Internal` if `T` is not the tensor's type.
    pub fn as_slice<T: Elem>(&self) -> Result<&[T]> {
        if T::DTYPE != self.dtype {
            return Err(internal!("Expected a tensor of type {}, got {}", T::DTYPE, self.dtype));
        }
        Ok(self.elems().typed())
    }

    /// The elements as a slice that may be written.
    ///
    /// # Errors
    /// `Internal` if `T` is not the tensor's type or the buffer is shared.
    pub fn as_mut_slice<T: Elem>(&mut self) -> Result<&mut [T]> {
        if T::DTYPE != self.dtype {
            return Err(internal!("Expected a tensor of type {}, got {}", T::DTYPE, self.dtype));
        }
        Ok(self.elems_mut()?.typed())
    }

    /// Plain elements as lanes of their width.
    pub fn lanes<L: Lane>(&self) -> &[L] {
        self.elems().lanes()
    }

    /// The value of a tensor with one element.
    ///
    /// # Errors
    /// `InvalidArgument` if it has another number of elements, `Internal` for another type.
    pub fn scalar_value<T: Elem>(&self) -> Result<T> {
        match self.as_slice::<T>()? {
            [value] => Ok(value.clone()),
            _ => Err(invalid!("Expected a scalar, got a tensor of shape {}", self.shape)),
        }
    }

    /// The elements of an `int32` or `int64` tensor (or a narrower integer) as `i64`.
    ///
    /// # Errors
    /// `InvalidArgument` for any other type.
    pub fn to_i64s(&self) -> Result<Vec<i64>> {
        Ok(match self.dtype {
            DType::INT32 => self.as_slice::<i32>()?.iter().map(|&value| value.into()).collect(),
            DType::INT64 => self.as_slice::<i64>()?.to_vec(),
            DType::INT16 => self.as_slice::<i16>()?.iter().map(|&value| value.into()).collect(),
            DType::INT8 => self.as_slice::<i8>()?.iter().map(|&value| value.into()).collect(),
            DType::UINT8 => self.as_slice::<u8>()?.iter().map(|&value| value.into()).collect(),
            DType::UINT16 => self.as_slice::<u16>()?.iter().map(|&value| value.into()).collect(),
            DType::UINT32 => self.as_slice::<u32>()?.iter().map(|&value| value.into()).collect(),
            other => return Err(invalid!("Expected an integer tensor, got {other}")),
        })
    }

    /// The same elements under another shape with as many.
    ///
    /// # Errors
    /// `Internal` if the counts differ.
    pub fn with_shape(mut self, shape: Shape) -> Result<Tensor> {
        if shape.count() != self.count() {
            return Err(internal!("{} elements cannot have shape {shape}", self.count()));
        }
        self.shape = shape;
        Ok(self)
    }

    /// Bytes from the first element to the end of the buffer, which may be more than the elements take.
    fn available_bytes(&self) -> usize {
        self.buffer.len() - self.offset
    }

    /// The buffer with the shape that a client gives it, and with elements that are valid although a
    /// client may have written them.
    ///
    /// # Errors
    /// `InvalidArgument` if the shape needs more elements than there are.
    pub fn viewed_as(&self, dims: &[i64]) -> Result<Tensor> {
        let mut tensor = self.clone();
        if dims != self.shape.dims() {
            let shape = Shape::new(dims)?;
            let needed = shape.count().checked_mul(self.dtype.size());
            if needed.is_none_or(|needed| needed > self.available_bytes()) {
                return Err(invalid!(
                    "A tensor of {} bytes cannot have shape {shape}",
                    self.available_bytes()
                ));
            }
            tensor.shape = shape;
        }
        if tensor.has_valid_elements() { Ok(tensor) } else { tensor.copied_from_bytes() }
    }

    /// The same bytes as elements of another plain dtype.
    ///
    /// # Errors
    /// `InvalidArgument` if the byte counts differ or a dtype is a reference or not plain.
    pub fn bitcast(&self, dtype: DType, shape: Shape) -> Result<Tensor> {
        let fits = shape.count().checked_mul(dtype.size()) == Some(self.byte_size());
        if !fits || !dtype.is_plain() || dtype.is_ref() || !self.dtype.is_plain() {
            return Err(invalid!(
                "Cannot bitcast values of type {} into values of type {dtype}",
                self.dtype
            ));
        }
        let tensor = Tensor { dtype, shape, ..self.clone() };
        if tensor.has_valid_elements() { Ok(tensor) } else { tensor.copied_from_bytes() }
    }

    /// Rows `start .. start + len` of the outermost dimension, sharing the buffer, if the rows begin
    /// at an aligned address.
    pub fn share_rows(&self, start: usize, len: usize) -> Option<Tensor> {
        let rows = *self.shape.first()? as usize;
        if start.checked_add(len)? > rows {
            return None;
        }
        let row_bytes = self.byte_size().checked_div(rows).unwrap_or(0);
        let offset = self.offset + start * row_bytes;
        let mut dims = self.shape.dims().to_vec();
        dims[0] = len as i64;
        let shape = Shape::new(&dims).ok()?;
        let aligned =
            (self.data().wrapping_add(start * row_bytes) as usize).is_multiple_of(ALIGNMENT);
        (self.dtype.is_plain() && aligned).then(|| Tensor {
            buffer: self.buffer.clone(),
            offset,
            dtype: self.dtype,
            shape,
        })
    }

    /// A tensor of its own memory with the same elements.
    pub fn deep_copy(&self) -> Result<Tensor> {
        let mut copy = Tensor::allocate(self.dtype, self.shape.clone(), None)?;
        copy.elems_mut()?.copy_from(self.elems());
        Ok(copy)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor<type: {} shape: {}>", self.dtype, self.shape)
    }
}

#[cold]
fn out_of_memory(dtype: DType, shape: &Shape) -> Error {
    resource_exhausted!("OOM when allocating tensor with shape{shape} and type {dtype}")
}

/// An eye on a buffer that does not keep it.
pub struct Watch(Weak<Buffer>);

impl Watch {
    /// Whether some tensor still uses the buffer.
    pub fn is_in_use(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// A number that no other buffer has as long as it is watched.
    pub fn id(&self) -> usize {
        self.0.as_ptr() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_watched_as_long_as_they_are_used() {
        let tensor = Tensor::zeros(DType::FLOAT, Shape::new(&[1000]).unwrap()).unwrap();
        let watch = tensor.watch().unwrap();
        assert!(tensor.is_exclusive());
        assert_eq!(watch.id(), tensor.clone().watch().unwrap().id());
        drop(tensor);
        assert!(!watch.is_in_use());
        assert!(Tensor::scalar(1f32).watch().is_none());
        let shape = Shape::new(&[1 << 30, 1 << 20]).unwrap();
        let error = Tensor::zeros(DType::DOUBLE, shape).unwrap_err();
        let expected = "OOM when allocating tensor with shape[1073741824,1048576] and type double";
        assert_eq!(error.message(), expected);
    }

    #[test]
    fn bytes_become_valid_bools() {
        let bytes = Bytes::from_static(&[0, 1, 2, 255]);
        let tensor = Tensor::from_bytes(DType::BOOL, Shape::vector(4), bytes).unwrap();
        assert_eq!(tensor.as_slice::<bool>().unwrap(), [false, true, true, true]);
    }

    #[test]
    fn misaligned_bytes_are_copied() {
        let data: Vec<u8> = (0..201).collect();
        let bytes = Bytes::from(data).slice(1..201);
        let tensor = Tensor::from_bytes(DType::INT32, Shape::vector(50), bytes.clone()).unwrap();
        assert_eq!(tensor.data() as usize % ALIGNMENT, 0);
        assert_eq!(tensor.as_slice::<i32>().unwrap()[0], i32::from_le_bytes([1, 2, 3, 4]));
        assert!(Tensor::from_bytes(DType::INT32, Shape::vector(51), bytes).is_err());
    }

    #[test]
    fn sharing_forbids_writing() {
        let mut tensor = Tensor::from_slice(Shape::vector(2), &[1.0f32, 2.0]).unwrap();
        let other = tensor.clone();
        assert!(tensor.as_mut_slice::<f32>().is_err());
        drop(other);
        tensor.as_mut_slice::<f32>().unwrap()[0] = 5.0;
        assert_eq!(tensor.as_slice::<f32>().unwrap(), [5.0, 2.0]);
        assert!(tensor.as_slice::<i32>().is_err());
    }

    #[test]
    fn rows_are_shared_where_aligned() {
        let tensor = Tensor::zeros(DType::FLOAT, Shape::new(&[4, 16]).unwrap()).unwrap();
        let rows = tensor.share_rows(1, 2).unwrap();
        assert_eq!(rows.shape().dims(), [2, 16]);
        assert!(rows.shares_buffer(&tensor));
        let narrow = Tensor::zeros(DType::FLOAT, Shape::new(&[4, 3]).unwrap()).unwrap();
        assert!(narrow.share_rows(1, 1).is_none());
        assert!(tensor.share_rows(3, 2).is_none());
    }
}
