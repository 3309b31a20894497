//! Named sets of element types, for kernels that exist for several of them.

use crate::elem::*;
use crate::{DType, Elem};

/// A family of loops: one for each element type, all with the same signature.
pub trait TypedLoop {
    /// A function pointer, or a few of them.
    type Loop: Copy + Send + Sync + 'static;
}

/// The loop of a family for elements of type `T`, with the bound that the loop needs on `T`.
pub trait LoopFor<T: Elem>: TypedLoop {
    const LOOP: Self::Loop;
}

/// A tuple of element types.
pub trait TypeSet: 'static {
    /// The dtypes of the set, in order.
    const DTYPES: &'static [DType];

    /// The dtypes of the set, in order.
    fn dtypes() -> Vec<DType> {
        Self::DTYPES.to_vec()
    }
}

/// A set for whose types the family `F` has loops.
pub trait LoopSet<F: TypedLoop>: TypeSet {
    /// The loop of each type. A table, because code that chooses among the loops would be compiled
    /// for each family and set.
    fn loops() -> Vec<(DType, F::Loop)>;

    /// The loop of `dtype`; `None` if the set lacks that type.
    fn loop_for(dtype: DType) -> Option<F::Loop> {
        Self::loops().into_iter().find(|(of, _)| *of == dtype).map(|(_, found)| found)
    }
}

macro_rules! tuple_sets {
    ($($($t:ident)+;)*) => {$(
        impl<$($t: Elem),+> TypeSet for ($($t,)+) {
            const DTYPES: &'static [DType] = &[$($t::DTYPE),+];
        }

        impl<Family: TypedLoop, $($t: Elem),+> LoopSet<Family> for ($($t,)+)
        where
            $(Family: LoopFor<$t>,)+
        {
            fn loops() -> Vec<(DType, Family::Loop)> {
                vec![$(($t::DTYPE, <Family as LoopFor<$t>>::LOOP)),+]
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
    A B C D E F G H I J K L M N O P Q R S T U;
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

    impl TypedLoop for SizeOf {
        type Loop = usize;
    }

    impl<T: Elem> LoopFor<T> for SizeOf {
        const LOOP: usize = size_of::<T>();
    }

    #[test]
    fn loops_by_dtype() {
        let size = |dtype| <Numbers as LoopSet<SizeOf>>::loop_for(dtype);
        assert_eq!(size(DType::COMPLEX128), Some(16));
        assert_eq!(size(DType::STRING), None);
        assert_eq!(Complexes::DTYPES, [DType::COMPLEX64, DType::COMPLEX128]);
    }
}
