//! Sums in place: what `AddN`, tensor lists and tensor arrays accumulate whole tensors with, and `ScatterNd` rows.

use tfcore_base::{DType, Elem, LoopFor, LoopSet, Numbers, Result, Ring, TypedLoop, internal};
use tfcore_math::isa::vectorize;
use tfcore_tensor::{Elems, ElemsMut};

/// Adds elements to as many others of the same type.
pub type AddAssign = fn(ElemsMut<'_>, Elems<'_>);

/// The loop `sums[i] += terms[i]` for numbers of type `dtype`; integers wrap. `None` for what are no numbers.
pub fn add_assign(dtype: DType) -> Option<AddAssign> {
    <Numbers as LoopSet<AddAssignForm>>::loop_for(dtype)
}

/// As [`add_assign`], for kernels that exist for numbers only.
///
/// # Errors
/// `Internal` for what are no numbers.
pub fn add_assign_of_number(dtype: DType) -> Result<AddAssign> {
    add_assign(dtype).ok_or_else(|| internal!("No sums of type {dtype}"))
}

/// Adds rows of `width` elements to the rows of the sums that have these numbers; [`LEFT_OUT`] adds to none.
pub type AddRows = fn(sums: ElemsMut<'_>, terms: Elems<'_>, rows: &[usize], width: usize);

/// The number of no row.
pub const LEFT_OUT: usize = usize::MAX;

/// The loop `sums[rows[i]] += terms[i]` for numbers of type `dtype`, in order; integers wrap. `None` for what are no numbers.
pub fn add_rows(dtype: DType) -> Option<AddRows> {
    <Numbers as LoopSet<AddRowsForm>>::loop_for(dtype)
}

struct AddRowsForm;

impl TypedLoop for AddRowsForm {
    type Loop = AddRows;
}

impl<T: Elem + Copy + Ring> LoopFor<T> for AddRowsForm {
    const LOOP: AddRows = |sums, terms, rows, width| {
        let (sums, terms) = (sums.typed::<T>(), terms.typed::<T>());
        vectorize(
            #[inline(always)]
            || {
                for (terms, &row) in terms.chunks_exact(width.max(1)).zip(rows) {
                    if row != LEFT_OUT {
                        let sums = &mut sums[row * width..(row + 1) * width];
                        sums.iter_mut().zip(terms).for_each(|(sum, &term)| *sum = sum.plus(term));
                    }
                }
            },
        );
    };
}

struct AddAssignForm;

impl TypedLoop for AddAssignForm {
    type Loop = AddAssign;
}

impl<T: Elem + Copy + Ring> LoopFor<T> for AddAssignForm {
    const LOOP: AddAssign = |sums, terms| {
        let (sums, terms) = (sums.typed::<T>(), terms.typed::<T>());
        vectorize(
            #[inline(always)]
            || sums.iter_mut().zip(terms).for_each(|(sum, &term)| *sum = sum.plus(term)),
        );
    };
}

#[cfg(test)]
mod tests {
    use tfcore_base::Half;

    use super::*;

    #[test]
    fn sums_by_type() {
        let mut sums = [127i8, -3];
        add_assign(DType::INT8).unwrap()(ElemsMut::of(&mut sums), Elems::of(&[1i8, 5]));
        assert_eq!(sums, [-128, 2]);
        let mut sums = [Half::from_f32(1.0)];
        let terms = [Half::from_f32(0.5)];
        add_assign(DType::HALF).unwrap()(ElemsMut::of(&mut sums), Elems::of(&terms));
        assert_eq!(sums[0].to_f32(), 1.5);
        let mut sums = [1i32, 2, 3, 4];
        let terms = [10i32, 20, 5, 6, 7, 8];
        let add = add_rows(DType::INT32).unwrap();
        add(ElemsMut::of(&mut sums), Elems::of(&terms), &[1, LEFT_OUT, 1], 2);
        assert_eq!(sums, [1, 2, 20, 32]);
        assert!(add_assign(DType::BOOL).is_none());
        assert!(add_assign_of_number(DType::STRING).is_err());
    }
}
