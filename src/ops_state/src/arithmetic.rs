//! How one element of a variable and one of an update make the new element.

use num_complex::Complex;

use tfcore_base::{BFloat16, Elem, Half, LoopFor, Result, Ring, TypedLoop, invalid};
use tfcore_math::isa::vectorize;
use tfcore_tensor::{Elems, ElemsMut};

/// The loop of a rule for one dtype.
#[derive(Clone, Copy)]
pub(crate) struct Update {
    /// Changes the target by an update of the same length, or by one element for all.
    pub(crate) apply: fn(ElemsMut<'_>, Elems<'_>),
    /// Refuses updates that the rule cannot apply.
    pub(crate) check: fn(Elems<'_>) -> Result<()>,
}

/// What an update does to an element.
pub(crate) trait Rule<T>: 'static {
    fn apply(old: T, update: T) -> T;

    /// # Errors
    /// `InvalidArgument` for updates that the rule cannot apply.
    fn check(_: &[T]) -> Result<()> {
        Ok(())
    }
}

/// The loops of rule `R`.
pub(crate) struct Updates<R>(std::marker::PhantomData<R>);

impl<R: 'static> TypedLoop for Updates<R> {
    type Loop = Update;
}

impl<T: Elem + Copy, R: Rule<T>> LoopFor<T> for Updates<R> {
    const LOOP: Update = Update { apply: apply::<T, R>, check: |update| R::check(update.typed()) };
}

fn apply<T: Elem + Copy, R: Rule<T>>(target: ElemsMut<'_>, update: Elems<'_>) {
    let (target, update) = (target.typed::<T>(), update.typed::<T>());
    vectorize(
        #[inline(always)]
        || match update {
            &[one] => target.iter_mut().for_each(|old| *old = R::apply(*old, one)),
            _ => target.iter_mut().zip(update).for_each(|(old, &new)| *old = R::apply(*old, new)),
        },
    );
}

/// Numbers that can be divided too: integers round towards zero and wrap around.
pub(crate) trait Arithmetic: Ring {
    fn over(self, other: Self) -> Self;
    /// Whether dividing by this number has no result.
    fn is_no_divisor(self) -> bool;
}

macro_rules! floating {
    ($($t:ty)*) => {$(
        impl Arithmetic for $t {
            fn over(self, other: $t) -> $t { self / other }
            fn is_no_divisor(self) -> bool { false }
        }
    )*};
}

macro_rules! integer {
    ($($t:ty)*) => {$(
        impl Arithmetic for $t {
            fn over(self, other: $t) -> $t { self.wrapping_div(other) }
            fn is_no_divisor(self) -> bool { self == 0 }
        }
    )*};
}

floating!(f32 f64 Half BFloat16 Complex<f32> Complex<f64>);
integer!(i8 i16 i32 i64 u8 u16 u32 u64);

/// `old + update`.
pub(crate) struct Add;
/// `old - update`.
pub(crate) struct Sub;
/// `old * update`.
pub(crate) struct Mul;
/// `old / update`; integers round towards zero.
pub(crate) struct Div;
/// The smaller of the two.
pub(crate) struct Min;
/// The larger of the two.
pub(crate) struct Max;

impl<T: Arithmetic> Rule<T> for Add {
    fn apply(old: T, update: T) -> T {
        old.plus(update)
    }
}

impl<T: Arithmetic> Rule<T> for Sub {
    fn apply(old: T, update: T) -> T {
        old.minus(update)
    }
}

impl<T: Arithmetic> Rule<T> for Mul {
    fn apply(old: T, update: T) -> T {
        old.times(update)
    }
}

impl<T: Arithmetic> Rule<T> for Div {
    fn apply(old: T, update: T) -> T {
        old.over(update)
    }

    fn check(update: &[T]) -> Result<()> {
        match update.iter().any(|value| value.is_no_divisor()) {
            true => Err(invalid!("updates must not contain 0")),
            false => Ok(()),
        }
    }
}

/// Sums of truth values are as those of 0 and 1, anything but 0 being true.
impl Rule<bool> for Add {
    fn apply(old: bool, update: bool) -> bool {
        old | update
    }
}

impl Rule<bool> for Sub {
    fn apply(old: bool, update: bool) -> bool {
        old != update
    }
}

impl<T: PartialOrd> Rule<T> for Min {
    fn apply(old: T, update: T) -> T {
        if update < old { update } else { old }
    }
}

impl<T: PartialOrd> Rule<T> for Max {
    fn apply(old: T, update: T) -> T {
        if update > old { update } else { old }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_base::{DType, LoopSet, Numbers, RealNumbers};

    #[test]
    fn rules_by_dtype() {
        let run = |update: Update, target: &mut [i8], by: &[i8]| {
            (update.apply)(ElemsMut::of(target), Elems::of(by));
        };
        let numbers = <Numbers as LoopSet<Updates<Add>>>::loop_for(DType::INT8).unwrap();
        let mut target = [127, 1];
        run(numbers, &mut target, &[1, 2]);
        assert_eq!(target, [-128, 3]);
        let div = <Numbers as LoopSet<Updates<Div>>>::loop_for(DType::INT8).unwrap();
        run(div, &mut target, &[-1]);
        assert_eq!(target, [-128, -3]);
        assert!((div.check)(Elems::of(&[1i8, 0])).is_err());
        let max = <RealNumbers as LoopSet<Updates<Max>>>::loop_for(DType::INT8).unwrap();
        run(max, &mut target, &[5, -5]);
        assert_eq!(target, [5, -3]);
    }
}
