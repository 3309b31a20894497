//! The types in which sums are kept: f32 for half and bfloat16, the type itself for the others.

use std::borrow::Cow;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::gemm::MatmulElem;

/// An element type, and the type in which sums of it are kept so that a result is rounded once.
pub trait Widen: Copy + Send + Sync + 'static {
    type Wide: Sum;

    /// The values in the wide type, without a copy where it is the same type.
    fn widen(values: &[Self]) -> Cow<'_, [Self::Wide]>;

    /// Lets `f` write `out` in the wide type, then rounds. `f` finds unspecified values.
    fn write_wide(out: &mut [Self], f: impl FnOnce(&mut [Self::Wide]));
}

/// A type of sums: f32, f64, i32.
pub trait Sum: MatmulElem {
    /// `self + a · b`; integers wrap.
    fn add_product(self, a: Self, b: Self) -> Self;

    /// `self + a`; integers wrap.
    fn add(self, a: Self) -> Self;
}

macro_rules! own_sum {
    ($t:ty, $add:expr, $mul:expr) => {
        impl Sum for $t {
            #[inline(always)]
            fn add_product(self, a: Self, b: Self) -> Self {
                $add(self, $mul(a, b))
            }

            #[inline(always)]
            fn add(self, a: Self) -> Self {
                $add(self, a)
            }
        }

        impl Widen for $t {
            type Wide = $t;

            fn widen(values: &[$t]) -> Cow<'_, [$t]> {
                Cow::Borrowed(values)
            }

            fn write_wide(out: &mut [$t], f: impl FnOnce(&mut [$t])) {
                f(out);
            }
        }
    };
}
own_sum!(f32, |a: f32, b: f32| a + b, |a: f32, b: f32| a * b);
own_sum!(f64, |a: f64, b: f64| a + b, |a: f64, b: f64| a * b);
own_sum!(i32, i32::wrapping_add, i32::wrapping_mul);

macro_rules! half_sum {
    ($t:ty) => {
        impl Widen for $t {
            type Wide = f32;

            fn widen(values: &[$t]) -> Cow<'_, [f32]> {
                Cow::Owned(values.to_f32_vec())
            }

            fn write_wide(out: &mut [$t], f: impl FnOnce(&mut [f32])) {
                let mut wide = vec![0.0; out.len()];
                f(&mut wide);
                out.convert_from_f32_slice(&wide);
            }
        }
    };
}
half_sum!(f16);
half_sum!(bf16);
