//! `Scalar`: one plain element by itself, without a buffer.

use tfcore_base::{DType, Result, internal};

use crate::{Elems, ElemsMut, Tensor};

/// An element of a plain dtype. Copying it allocates nothing, which is what sets it apart from a tensor of rank 0.
#[derive(Debug, Clone, Copy)]
pub struct Scalar {
    /// Holds a valid element of the dtype, from the first byte on; the largest has 16 bytes.
    memory: [u64; 2],
    dtype: DType,
}

impl Default for Scalar {
    fn default() -> Scalar {
        Scalar { memory: [0; 2], dtype: DType::FLOAT }
    }
}

impl Scalar {
    /// Zero, or false.
    ///
    /// # Errors
    /// `Internal` if the dtype is not plain.
    pub fn zero(dtype: DType) -> Result<Scalar> {
        if !dtype.is_plain() || dtype.size() > size_of::<[u64; 2]>() {
            return Err(internal!("{dtype} is not a plain type"));
        }
        Ok(Scalar { memory: [0; 2], dtype: dtype.base() })
    }

    /// The element of a tensor of rank 0; `None` for other ranks and for dtypes that are not plain.
    #[inline]
    pub fn of(tensor: &Tensor) -> Option<Scalar> {
        let dtype = tensor.dtype();
        if tensor.rank() != 0 || matches!(dtype, DType::STRING | DType::RESOURCE | DType::VARIANT) {
            return None;
        }
        let data = tensor.data();
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_ne_bytes(word)
        };
        // SAFETY: a plain tensor of rank 0 has one element of so many initialised bytes.
        let memory = unsafe {
            match dtype.size() {
                4 => [word(&data.cast::<[u8; 4]>().read()), 0],
                8 => [data.cast::<u64>().read_unaligned(), 0],
                1 => [word(&[data.read()]), 0],
                2 => [word(&data.cast::<[u8; 2]>().read()), 0],
                _ => data.cast::<[u64; 2]>().read_unaligned(),
            }
        };
        Some(Scalar { memory, dtype })
    }

    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The element, as elements.
    #[inline]
    pub fn elems(&self) -> Elems<'_> {
        // SAFETY: the memory holds one valid element of the dtype, and words are aligned for all plain ones.
        unsafe { Elems::from_raw(self.dtype, self.memory.as_ptr().cast(), 1) }
    }

    /// The element, as elements that may be written.
    #[inline]
    pub fn elems_mut(&mut self) -> ElemsMut<'_> {
        // SAFETY: as above, and nobody else uses the memory.
        unsafe { ElemsMut::from_raw(self.dtype, self.memory.as_mut_ptr().cast(), 1) }
    }

    /// Puts the element into a tensor of rank 0 and the same dtype whose buffer nobody shares. Returns whether it is one.
    #[inline]
    pub fn store(&self, tensor: &mut Tensor) -> bool {
        if tensor.rank() != 0 || tensor.dtype() != self.dtype || !tensor.is_exclusive() {
            return false;
        }
        let (from, to) = (self.memory.as_ptr().cast::<u8>(), tensor.data());
        // SAFETY: both have room for one element of the dtype, of this size, and nobody else holds the tensor's buffer.
        unsafe {
            match self.dtype.size() {
                4 => to.cast::<[u8; 4]>().write(from.cast::<[u8; 4]>().read()),
                8 => to.cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read()),
                size => to.copy_from_nonoverlapping(from, size),
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use tfcore_base::{Complex128, Elem, Half};

    use super::*;
    use crate::{Shape, TString};

    fn goes_through<T: Elem + std::fmt::Debug + Copy>(value: T) {
        let scalar = Scalar::of(&Tensor::scalar(value)).unwrap();
        assert_eq!(scalar.elems().typed::<T>(), [value]);
        let mut copy = Scalar::zero(T::DTYPE).unwrap();
        copy.elems_mut().copy_from(scalar.elems());
        let mut target = Tensor::scalar(T::default());
        assert!(copy.store(&mut target));
        assert_eq!(target.scalar_value::<T>().unwrap(), value);
        let _shared = target.clone();
        assert!(!copy.store(&mut target));
    }

    #[test]
    fn elements_of_every_width_go_through() {
        goes_through(true);
        goes_through(-7i8);
        goes_through(Half::from_f32(1.5));
        goes_through(-1.25f32);
        goes_through(i64::MIN + 3);
        goes_through(Complex128::new(1.0, -2.0));
    }

    #[test]
    fn what_is_no_plain_scalar_is_refused() {
        let vector = Tensor::from_slice(Shape::vector(1), &[1.0f32]).unwrap();
        assert!(Scalar::of(&vector).is_none());
        assert!(Scalar::of(&Tensor::scalar(TString::default())).is_none());
        assert!(Scalar::zero(DType::STRING).is_err());
        let scalar = Scalar::of(&Tensor::scalar(1.0f32)).unwrap();
        assert!(!scalar.store(&mut Tensor::scalar(0i32)));
        assert!(!scalar.store(&mut vector.deep_copy().unwrap()));
    }
}
