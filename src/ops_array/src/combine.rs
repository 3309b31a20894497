//! Loops that change rows of a tensor by rows of another: replace, add, subtract, least, greatest.

use tfcore_base::{Elem, LoopFor, Ring, TypedLoop};
use tfcore_framework::LEFT_OUT;
use tfcore_framework::movement::{Movement, move_elems};
use tfcore_tensor::{Elems, ElemsMut};

/// Changes the rows of the first argument that have these numbers, of `width` elements, by those of the second, in order.
/// [`LEFT_OUT`] changes none.
pub(crate) type RowLoop = fn(ElemsMut<'_>, Elems<'_>, &[usize], usize);

/// How an element and an update make the new element.
pub(crate) trait Rule<T>: 'static {
    fn combine(old: T, update: T) -> T;
}

/// `old + update`; integers wrap.
pub(crate) struct Add;
/// `old - update`; integers wrap.
pub(crate) struct Sub;
/// The smaller one; the old one if either is NaN.
pub(crate) struct Min;
/// The larger one; the old one if either is NaN.
pub(crate) struct Max;

impl<T: Ring> Rule<T> for Add {
    fn combine(old: T, update: T) -> T {
        old.plus(update)
    }
}

impl<T: Ring> Rule<T> for Sub {
    fn combine(old: T, update: T) -> T {
        old.minus(update)
    }
}

impl<T: PartialOrd> Rule<T> for Min {
    fn combine(old: T, update: T) -> T {
        if update < old { update } else { old }
    }
}

impl<T: PartialOrd> Rule<T> for Max {
    fn combine(old: T, update: T) -> T {
        if update > old { update } else { old }
    }
}

/// The loops of rule `R`.
pub(crate) struct Combine<R>(std::marker::PhantomData<R>);

impl<R: 'static> TypedLoop for Combine<R> {
    type Loop = RowLoop;
}

impl<T: Elem + Copy, R: Rule<T>> LoopFor<T> for Combine<R> {
    const LOOP: RowLoop = |out, updates, rows, width| {
        let (out, updates) = (out.typed::<T>(), updates.typed::<T>());
        for (updates, &row) in updates.chunks_exact(width.max(1)).zip(rows) {
            if row != LEFT_OUT {
                let out = &mut out[row * width..(row + 1) * width];
                out.iter_mut().zip(updates).for_each(|(old, &new)| *old = R::combine(*old, new));
            }
        }
    };
}

/// The update itself, for elements of any type.
pub(crate) struct Replace;

impl Replace {
    /// A [`RowLoop`].
    pub(crate) fn run(out: ElemsMut<'_>, updates: Elems<'_>, rows: &[usize], width: usize) {
        move_elems(updates, out, ReplaceRows { rows, width });
    }
}

struct ReplaceRows<'r> {
    rows: &'r [usize],
    width: usize,
}

impl Movement for ReplaceRows<'_> {
    fn run<E: Clone>(self, updates: &[E], out: &mut [E]) {
        let width = self.width;
        for (updates, &row) in updates.chunks_exact(width.max(1)).zip(self.rows) {
            if row != LEFT_OUT {
                out[row * width..(row + 1) * width].clone_from_slice(updates);
            }
        }
    }
}
