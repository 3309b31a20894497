//! The loops of accumulators.

use tfcore_base::{DType, Elem, Half, LoopFor, LoopSet, Result, TypedLoop, internal};
use tfcore_math::isa::vectorize;
use tfcore_tensor::{Elems, ElemsMut};

/// The types of gradients.
type Gradients = (Half, f32, f64);

/// The loops for one dtype.
#[derive(Clone, Copy)]
pub(crate) struct Loops {
    /// Adds elements to as many others.
    pub(crate) add: fn(ElemsMut<'_>, Elems<'_>),
    /// Divides all elements by a count.
    pub(crate) divide: fn(ElemsMut<'_>, i32),
}

impl Loops {
    /// # Errors
    /// `Internal` if gradients cannot have the dtype: the kernel is registered for more than it can do.
    pub(crate) fn of(dtype: DType) -> Result<Loops> {
        <Gradients as LoopSet<Sums>>::loop_for(dtype)
            .ok_or_else(|| internal!("No gradients of type {dtype}"))
    }
}

struct Sums;

impl TypedLoop for Sums {
    type Loop = Loops;
}

impl<T: Elem + Gradient> LoopFor<T> for Sums {
    const LOOP: Loops = Loops { add: add::<T>, divide: divide::<T> };
}

trait Gradient: Copy {
    fn from_count(count: i32) -> Self;
    fn plus(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
}

macro_rules! gradients {
    ($($type:ty: $from_count:expr),*) => {$(
        impl Gradient for $type {
            fn from_count(count: i32) -> $type {
                $from_count(count)
            }

            #[inline(always)]
            fn plus(self, other: $type) -> $type {
                self + other
            }

            #[inline(always)]
            fn over(self, other: $type) -> $type {
                self / other
            }
        }
    )*};
}

gradients! {
    Half: |count| Half::from_f32(count as f32),
    f32: |count| count as f32,
    f64: f64::from
}

fn add<T: Elem + Gradient>(target: ElemsMut<'_>, other: Elems<'_>) {
    let (target, other) = (target.typed::<T>(), other.typed::<T>());
    vectorize(
        #[inline(always)]
        || target.iter_mut().zip(other).for_each(|(sum, &value)| *sum = sum.plus(value)),
    );
}

fn divide<T: Elem + Gradient>(target: ElemsMut<'_>, count: i32) {
    let (target, count) = (target.typed::<T>(), T::from_count(count));
    vectorize(
        #[inline(always)]
        || target.iter_mut().for_each(|value| *value = value.over(count)),
    );
}
