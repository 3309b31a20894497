//! Views of elements whose type is known only at run time.
//!
//! Loops over elements are written once on these; only the innermost loop names a type.

use std::any::TypeId;
use std::marker::PhantomData;
use std::ops::Range;

use tfcore_base::{
    BFloat16, Complex64, Complex128, DType, Elem, Float8E4M3B11, Float8E4M3Fn, Float8E4M3Fnuz,
    Float8E5M2, Float8E5M2Fnuz, Half, Int2, Int4, QInt8, QInt16, QInt32, QUInt8, QUInt16, UInt2,
    UInt4,
};

/// Shared elements of one dtype, side by side.
#[derive(Clone, Copy)]
pub struct Elems<'a> {
    dtype: DType,
    data: *const u8,
    len: usize,
    _life: PhantomData<&'a [u8]>,
}

/// Elements of one dtype, side by side, that may be written.
pub struct ElemsMut<'a> {
    dtype: DType,
    data: *mut u8,
    len: usize,
    _life: PhantomData<&'a mut [u8]>,
}

// SAFETY: as `&[T]` of an `Elem` type, which is `Sync`.
unsafe impl Send for Elems<'_> {}
// SAFETY: as above.
unsafe impl Sync for Elems<'_> {}
// SAFETY: as `&mut [T]` of an `Elem` type, which is `Send`.
unsafe impl Send for ElemsMut<'_> {}

/// A plain type that stands for all plain dtypes of its width, in code that only moves elements.
///
/// # Safety
/// Any bytes must be a value of the type, none of them padding, and its alignment at most 8.
pub unsafe trait Lane: Copy + Default + PartialEq + Send + Sync + 'static {}

// SAFETY: an unsigned integer has a value for any bytes.
unsafe impl Lane for u8 {}
// SAFETY: as above.
unsafe impl Lane for u16 {}
// SAFETY: as above.
unsafe impl Lane for u32 {}
// SAFETY: as above.
unsafe impl Lane for u64 {}
// SAFETY: as above.
unsafe impl Lane for [u64; 2] {}

impl<'a> Elems<'a> {
    /// # Safety
    /// `data` must point at `len` valid elements of `dtype` that stay unchanged during `'a`; null is
    /// allowed for no elements.
    #[inline]
    pub(crate) unsafe fn from_raw(dtype: DType, data: *const u8, len: usize) -> Elems<'a> {
        Elems { dtype, data, len, _life: PhantomData }
    }

    /// The elements of a slice.
    #[inline]
    pub fn of<T: Elem>(slice: &'a [T]) -> Elems<'a> {
        assert!(is_element_type::<T>(), "not the type of its dtype");
        Elems { dtype: T::DTYPE, data: slice.as_ptr().cast(), len: slice.len(), _life: PhantomData }
    }

    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements of `range`, which must lie within.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> Elems<'a> {
        assert!(range.start <= range.end && range.end <= self.len, "range outside of the elements");
        Elems {
            data: self.data.wrapping_add(range.start * self.dtype.size()),
            len: range.len(),
            ..*self
        }
    }

    /// The elements as a slice. `T` must be the type of the dtype.
    #[inline]
    pub fn typed<T: Elem>(&self) -> &'a [T] {
        assert_eq!(T::DTYPE, self.dtype, "elements of another dtype");
        assert!(is_element_type::<T>(), "not the type of its dtype");
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the constructor's promise, and `T` is the dtype's own type.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.len) }
    }

    /// Plain elements as lanes. `L` must have the dtype's size.
    #[inline]
    pub fn lanes<L: Lane>(&self) -> &'a [L] {
        assert!(
            self.dtype.is_plain() && size_of::<L>() == self.dtype.size(),
            "lanes of another width"
        );
        if self.len == 0 {
            return &[];
        }
        // SAFETY: plain elements of this width are valid lanes, and at least as aligned: the only
        // lane wider than its alignment is 16 bytes with alignment 8, as complex128.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.len) }
    }

    /// The one plain element, `len` times in `memory`, which must have room for as many.
    #[inline]
    pub fn repeated<'m>(&self, len: usize, memory: &'m mut [u64]) -> Elems<'m> {
        assert!(self.len == 1 && self.dtype.is_plain(), "not one plain element");
        let size = self.dtype.size();
        assert!(len.saturating_mul(size) <= size_of_val(memory), "memory too small");
        match size {
            1 => memory.fill(u64::from(self.lanes::<u8>()[0]) * (u64::MAX / 0xff)),
            2 => memory.fill(u64::from(self.lanes::<u16>()[0]) * (u64::MAX / 0xffff)),
            4 => memory.fill(u64::from(self.lanes::<u32>()[0]) * (u64::MAX / 0xffff_ffff)),
            8 => memory.fill(self.lanes::<u64>()[0]),
            _ => {
                let pair = self.lanes::<[u64; 2]>()[0];
                memory.chunks_exact_mut(2).for_each(|words| words.copy_from_slice(&pair));
            }
        }
        // SAFETY: the memory holds the element as often, and words are aligned for all plain elements.
        unsafe { Elems::from_raw(self.dtype, memory.as_ptr().cast(), len) }
    }

    /// The bytes of plain elements.
    pub fn bytes(&self) -> &'a [u8] {
        assert!(self.dtype.is_plain(), "only plain elements are bytes");
        if self.len == 0 {
            return &[];
        }
        // SAFETY: plain elements are initialised bytes.
        unsafe { std::slice::from_raw_parts(self.data, self.len * self.dtype.size()) }
    }
}

impl<'a> ElemsMut<'a> {
    /// # Safety
    /// `data` must point at `len` valid elements of `dtype` that nobody else uses during `'a`; null
    /// is allowed for no elements.
    #[inline]
    pub(crate) unsafe fn from_raw(dtype: DType, data: *mut u8, len: usize) -> ElemsMut<'a> {
        ElemsMut { dtype, data, len, _life: PhantomData }
    }

    /// The elements of a slice.
    #[inline]
    pub fn of<T: Elem>(slice: &'a mut [T]) -> ElemsMut<'a> {
        assert!(is_element_type::<T>(), "not the type of its dtype");
        ElemsMut {
            dtype: T::DTYPE,
            data: slice.as_mut_ptr().cast(),
            len: slice.len(),
            _life: PhantomData,
        }
    }

    /// The first `len` elements of `memory` taken as a plain dtype other than `bool`.
    pub fn scratch(dtype: DType, len: usize, memory: &'a mut [u64]) -> ElemsMut<'a> {
        assert!(dtype.is_plain(), "scratch holds plain elements");
        assert!(len.saturating_mul(dtype.size()) <= size_of_val(memory), "scratch too small");
        if dtype == DType::BOOL {
            // Whatever was there need not be a valid `bool`.
            memory.fill(0);
        }
        ElemsMut { dtype, data: memory.as_mut_ptr().cast(), len, _life: PhantomData }
    }

    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The same elements for a shorter while.
    #[inline]
    pub fn reborrow(&mut self) -> ElemsMut<'_> {
        ElemsMut { dtype: self.dtype, data: self.data, len: self.len, _life: PhantomData }
    }

    /// The same elements, not to be written any more.
    #[inline]
    pub fn into_shared(self) -> Elems<'a> {
        Elems { dtype: self.dtype, data: self.data, len: self.len, _life: PhantomData }
    }

    #[inline]
    pub fn as_shared(&self) -> Elems<'_> {
        Elems { dtype: self.dtype, data: self.data, len: self.len, _life: PhantomData }
    }

    /// The first `at` elements and the rest.
    #[inline]
    pub fn split_at(self, at: usize) -> (ElemsMut<'a>, ElemsMut<'a>) {
        assert!(at <= self.len, "split outside of the elements");
        let tail = ElemsMut {
            data: self.data.wrapping_add(at * self.dtype.size()),
            len: self.len - at,
            ..self
        };
        (ElemsMut { len: at, ..self }, tail)
    }

    /// The elements of `range`, which must lie within.
    #[inline]
    pub fn slice(&mut self, range: Range<usize>) -> ElemsMut<'_> {
        assert!(range.start <= range.end && range.end <= self.len, "range outside of the elements");
        ElemsMut {
            dtype: self.dtype,
            data: self.data.wrapping_add(range.start * self.dtype.size()),
            len: range.len(),
            _life: PhantomData,
        }
    }

    /// The elements as a slice. `T` must be the type of the dtype.
    #[inline]
    pub fn typed<T: Elem>(self) -> &'a mut [T] {
        assert_eq!(T::DTYPE, self.dtype, "elements of another dtype");
        assert!(is_element_type::<T>(), "not the type of its dtype");
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: the constructor's promise, and `T` is the dtype's own type.
        unsafe { std::slice::from_raw_parts_mut(self.data.cast(), self.len) }
    }

    /// Plain elements as lanes, to be written with lanes of the same dtype. `L` must have the
    /// dtype's size.
    #[inline]
    pub fn lanes<L: Lane>(self) -> &'a mut [L] {
        assert!(
            self.dtype.is_plain() && size_of::<L>() == self.dtype.size(),
            "lanes of another width"
        );
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: see `Elems::lanes`.
        unsafe { std::slice::from_raw_parts_mut(self.data.cast(), self.len) }
    }

    /// The bytes of plain elements other than `bool`, whose bytes are not all valid.
    pub fn bytes(self) -> &'a mut [u8] {
        assert!(
            self.dtype.is_plain() && self.dtype != DType::BOOL,
            "only plain elements are bytes, and any bytes plain elements"
        );
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: plain elements are initialised bytes, and any bytes are elements of these dtypes.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len * self.dtype.size()) }
    }

    /// Sets every plain element to zero, false or empty.
    pub fn fill_default(self) {
        match self.dtype {
            DType::STRING => self.typed::<crate::TString>().fill_with(Default::default),
            DType::RESOURCE => self.typed::<crate::ResourceHandle>().fill_with(Default::default),
            DType::VARIANT => self.typed::<crate::Variant>().fill_with(Default::default),
            dtype => match dtype.size() {
                1 => self.lanes::<u8>().fill(0),
                2 => self.lanes::<u16>().fill(0),
                4 => self.lanes::<u32>().fill(0),
                8 => self.lanes::<u64>().fill(0),
                _ => self.lanes::<[u64; 2]>().fill([0; 2]),
            },
        }
    }

    /// Sets every element to the one element of `value`.
    pub fn fill(self, value: Elems<'_>) {
        assert_eq!((self.dtype, 1), (value.dtype, value.len), "fill with an unlike element");
        match self.dtype.size() {
            _ if !self.dtype.is_plain() => self.fill_clones(value),
            1 => self.lanes::<u8>().fill(value.lanes()[0]),
            2 => self.lanes::<u16>().fill(value.lanes()[0]),
            4 => self.lanes::<u32>().fill(value.lanes()[0]),
            8 => self.lanes::<u64>().fill(value.lanes()[0]),
            _ => self.lanes::<[u64; 2]>().fill(value.lanes()[0]),
        }
    }

    fn fill_clones(self, value: Elems<'_>) {
        match self.dtype {
            DType::STRING => {
                self.typed::<crate::TString>().fill(value.typed::<crate::TString>()[0].clone())
            }
            DType::RESOURCE => self
                .typed::<crate::ResourceHandle>()
                .fill(value.typed::<crate::ResourceHandle>()[0].clone()),
            _ => self.typed::<crate::Variant>().fill(value.typed::<crate::Variant>()[0].clone()),
        }
    }

    /// Copies elements of the same dtype and number.
    pub fn copy_from(self, source: Elems<'_>) {
        assert_eq!(
            (self.dtype, self.len),
            (source.dtype, source.len),
            "copy between unlike elements"
        );
        match self.dtype {
            DType::STRING => self.typed::<crate::TString>().clone_from_slice(source.typed()),
            DType::RESOURCE => {
                self.typed::<crate::ResourceHandle>().clone_from_slice(source.typed())
            }
            DType::VARIANT => self.typed::<crate::Variant>().clone_from_slice(source.typed()),
            dtype if self.len > 0 => {
                // SAFETY: both hold so many plain elements; a mutable view overlaps no other.
                unsafe {
                    std::ptr::copy_nonoverlapping(source.data, self.data, self.len * dtype.size());
                }
            }
            _ => {}
        }
    }
}

/// Whether `T` is the one type that stands for the elements of its dtype. `Elem` is a safe trait: whoever
/// implements it may name any dtype, so that its word is not enough to read memory by. The answer
/// is known to the compiler and costs nothing.
fn is_element_type<T: Elem>() -> bool {
    macro_rules! one_of {
        ($($type:ty: $size:literal),* $(,)?) => {{
            const { $(assert!(size_of::<$type>() == $size);)* }
            $(TypeId::of::<T>() == TypeId::of::<$type>())||*
        }};
    }
    one_of!(
        f32: 4,
        f64: 8,
        Half: 2,
        BFloat16: 2,
        i8: 1,
        i16: 2,
        i32: 4,
        i64: 8,
        u8: 1,
        u16: 2,
        u32: 4,
        u64: 8,
        bool: 1,
        Complex64: 8,
        Complex128: 16,
        QInt8: 1,
        QUInt8: 1,
        QInt16: 2,
        QUInt16: 2,
        QInt32: 4,
        Int4: 1,
        UInt4: 1,
        Int2: 1,
        UInt2: 1,
        Float8E5M2: 1,
        Float8E4M3Fn: 1,
        Float8E4M3Fnuz: 1,
        Float8E4M3B11: 1,
        Float8E5M2Fnuz: 1,
        crate::TString: 24,
        crate::ResourceHandle: 8,
        crate::Variant: 16,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_and_types() {
        let mut data = [1i32, 2, 3, 4];
        let (head, tail) = ElemsMut::of(&mut data).split_at(1);
        head.typed::<i32>()[0] = 7;
        tail.lanes::<u32>()[2] = 9;
        assert_eq!(Elems::of(&data).slice(2..4).typed::<i32>(), [3, 9]);
        assert_eq!(Elems::of(&data).bytes().len(), 16);
    }

    #[test]
    fn an_element_of_any_width_is_repeated() {
        let mut memory = [7; 4];
        assert_eq!(Elems::of(&[true]).repeated(9, &mut memory).typed::<bool>(), [true; 9]);
        assert_eq!(Elems::of(&[-2i16]).repeated(16, &mut memory).typed::<i16>(), [-2i16; 16]);
        assert_eq!(Elems::of(&[0.1f32]).repeated(7, &mut memory).typed::<f32>(), [0.1f32; 7]);
        assert_eq!(Elems::of(&[0.1f64]).repeated(4, &mut memory).typed::<f64>(), [0.1f64; 4]);
        let pair = Complex128::new(1.0, -3.0);
        assert_eq!(Elems::of(&[pair]).repeated(2, &mut memory).typed::<Complex128>(), [pair; 2]);
    }

    #[test]
    #[should_panic(expected = "memory too small")]
    fn repeating_is_bounded() {
        Elems::of(&[0.1f64]).repeated(5, &mut [0; 4]);
    }

    #[test]
    #[should_panic(expected = "not the type of its dtype")]
    fn an_impostor_is_found() {
        #[derive(Clone, Default, PartialEq)]
        struct Impostor(&'static str);
        impl Elem for Impostor {
            const DTYPE: DType = DType::STRING;
        }
        Elems::of(&[crate::TString::new()]).typed::<Impostor>();
    }

    #[test]
    #[should_panic(expected = "another dtype")]
    fn a_wrong_type_is_found() {
        Elems::of(&[1i32]).typed::<f32>();
    }
}
