//! Named sets of element types, for kernels that exist for several of them.

use crate::elem::*;
use crate::{DType, Elem};

/// Something made for one element type: most often a function pointer.
///
/// A kernel form implements it once, with the bound its functor needs on `T`; [`Pick`] then finds
/// the one that belongs to a dtype.
pub trait Make<T: Elem, Output> {
    fn make() -> Output;
}

/// A tuple of element types.
pub trait TypeSet {
    /// The dtypes of the set, in order.
    fn dtypes() -> Vec<DType>;
}

/// What form `F` makes for the types of this set.
pub trait Pick<F, Output>: TypeSet {
    /// What `F` makes for `dtype`; `None` where the set lacks that type.
    fn pick(dtype: DType) -> Option<Output>;
}

macro_rules! tuple_sets {
    ($($($t:ident)+;)*) => {$(
        impl<$($t: Elem),+> TypeSet for ($($t,)+) {
            fn dtypes() -> Vec<DType> {
                vec![$($t::DTYPE),+]
            }
        }

        impl<Form, Output, $($t: Elem),+> Pick<Form, Output> for ($($t,)+)
        where
            $(Form: Make<$t, Output>,)+
        {
            fn pick(dtype: DType) -> Option<Output> {
                $(if dtype == $t::DTYPE {
                    return Some(<Form as Make<$t, Output>>::make());
                })+
                None
            }
        }
    )*};
}

tuple_sets! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
    A B C D E F G H I;
    A B C D E F G H I J;
    A B C D E F G H I J K;
    A B C D E F G H I J K L;
    A B C D E F G H I J K L M;
    A B C D E F G H I J K L M N;
    A B C D E F G H I J K L M N O;
    A B C D E F G H I J K L M N O P;
    A B C D E F G H I J K L M N O P Q;
    A B C D E F G H I J K L M N O P Q R;
    A B C D E F G H I J K L M N O P Q R S;
    A B C D E F G H I J K L M N O P Q R S T;
}

/// Floating point types.
pub type Floats = (f32, f64, Half, BFloat16);
/// Complex types.
pub type Complexes = (Complex64, Complex128);
/// Integers of 8 to 64 bits.
pub type Integers = (i8, i16, i32, i64, u8, u16, u32, u64);
/// Floats and integers.
pub type RealNumbers = (f32, f64, Half, BFloat16, i8, i16, i32, i64, u8, u16, u32, u64);
/// Real and complex numbers.
pub type Numbers =
    (f32, f64, Half, BFloat16, i8, i16, i32, i64, u8, u16, u32, u64, Complex64, Complex128);
/// Numbers that have a negative: floats, signed integers, complex numbers.
pub type SignedNumbers = (f32, f64, Half, BFloat16, i8, i16, i32, i64, Complex64, Complex128);
/// Quantized integers.
pub type Quantized = (QInt8, QUInt8, QInt16, QUInt16, QInt32);

#[cfg(test)]
mod tests {
    use super::*;

    struct SizeOf;

    impl<T: Elem> Make<T, usize> for SizeOf {
        fn make() -> usize {
            size_of::<T>()
        }
    }

    #[test]
    fn picks_by_dtype() {
        assert_eq!(<Numbers as Pick<SizeOf, usize>>::pick(DType::COMPLEX128), Some(16));
        assert_eq!(<Floats as Pick<SizeOf, usize>>::pick(DType::INT32), None);
        assert_eq!(Complexes::dtypes(), [DType::COMPLEX64, DType::COMPLEX128]);
    }
}
