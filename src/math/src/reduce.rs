//! Reductions over the middle axis of an [outer, reduced, inner] layout.
//!
//! Any reduction over neighbouring axes has that form. Sums are formed in a fixed tree, cut where the extents
//! say and not where the threads are, so results depend on no thread count and errors grow with the logarithm of the length.
//!
//! What is reduced how is a [`Reducer`]: [`Sum`], [`Prod`], [`Mean`], [`Max`], [`Min`], [`All`], [`Any`].

use half::{bf16, f16};
use num_complex::Complex;
use num_traits::AsPrimitive;

use crate::isa::vectorize;
use crate::pool::{Parallel, par_chunks_mut};

/// Elements that are worth a thread of their own.
const GRAIN: usize = 1 << 15;

/// Elements that are folded in a run before the tree begins.
const RUN: usize = 1024;

/// Independent accumulators of a contiguous run.
const LANES: usize = 32;

/// A way to reduce elements of type `T`: an associative fold with an identity.
pub trait Reducer<T>: 'static {
    /// What partial results are kept in.
    type Acc: Copy + Send + Sync;

    /// The result of nothing.
    const IDENTITY: Self::Acc;

    /// An element as a partial result.
    fn lift(value: T) -> Self::Acc;

    /// Two partial results in one.
    fn merge(a: Self::Acc, b: Self::Acc) -> Self::Acc;

    /// The result over `count` elements.
    fn finish(acc: Self::Acc, count: usize) -> T;
}

/// Reduces `input`, [outer, reduced, inner], to `out`, [outer, inner].
///
/// Panics if the lengths do not agree with the layout.
pub fn reduce<R: Reducer<T>, T: Copy + Send + Sync>(
    par: Parallel,
    [outer, reduced, inner]: [usize; 3],
    input: &[T],
    out: &mut [T],
) {
    let slab =
        reduced.checked_mul(inner).expect("the extents of the input were checked by the caller");
    assert_eq!(Some(input.len()), slab.checked_mul(outer), "reduce: length of input");
    assert_eq!(Some(out.len()), outer.checked_mul(inner), "reduce: length of out");
    if out.is_empty() {
        return;
    }
    // Few results of many elements each: the elements are shared out, not the results.
    if outer < 16 && inner <= RUN && slab >= 4 * GRAIN {
        for (slab, out) in input.chunks_exact(slab).zip(out.chunks_exact_mut(inner)) {
            reduce_slab::<R, T>(par, slab, reduced, out);
        }
        return;
    }
    par_chunks_mut(par, out, 1, GRAIN / reduced.max(1), &|start, piece| {
        if inner == 1 {
            for (i, out) in piece.iter_mut().enumerate() {
                *out = R::finish(
                    fold_run::<R, T>(&input[(start + i) * reduced..][..reduced]),
                    reduced,
                );
            }
            return;
        }
        let mut done = 0;
        while done < piece.len() {
            let (row, col) = ((start + done) / inner, (start + done) % inner);
            let width = (inner - col).min(piece.len() - done).min(RUN);
            let mut accs = vec![R::IDENTITY; width];
            fold_columns::<R, T>(
                input.get(row * slab + col..).unwrap_or(&[]),
                inner,
                reduced,
                &mut accs,
            );
            for (out, acc) in piece[done..done + width].iter_mut().zip(accs) {
                *out = R::finish(acc, reduced);
            }
            done += width;
        }
    });
}

/// Reduces one [reduced, inner] slab in pieces of a fixed size, then their partial results.
fn reduce_slab<R: Reducer<T>, T: Copy + Send + Sync>(
    par: Parallel,
    slab: &[T],
    reduced: usize,
    out: &mut [T],
) {
    let inner = out.len();
    let rows = (GRAIN / inner).max(1);
    let mut partial = vec![R::IDENTITY; reduced.div_ceil(rows) * inner];
    par_chunks_mut(par, &mut partial, inner, inner, &|start, piece| {
        for (i, accs) in piece.chunks_exact_mut(inner).enumerate() {
            let first = (start / inner + i) * rows;
            let rows = rows.min(reduced - first);
            let part = &slab[first * inner..(first + rows) * inner];
            if inner == 1 {
                accs[0] = fold_run::<R, T>(part);
            } else {
                fold_columns::<R, T>(part, inner, rows, accs);
            }
        }
    });
    let accs = merge_rows::<R, T>(&mut partial, inner);
    for (out, &acc) in out.iter_mut().zip(accs.iter()) {
        *out = R::finish(acc, reduced);
    }
}

/// Merges rows of partial results into the first, pairing neighbours.
fn merge_rows<R: Reducer<T>, T>(partial: &mut [R::Acc], inner: usize) -> &[R::Acc] {
    let rows = partial.len() / inner;
    let mut step = 1;
    while step < rows {
        for row in (0..rows - step).step_by(2 * step) {
            for i in row * inner..(row + 1) * inner {
                partial[i] = R::merge(partial[i], partial[i + step * inner]);
            }
        }
        step *= 2;
    }
    &partial[..inner]
}

/// Reduces neighbouring elements: halves down to a run, which is folded in lanes.
fn fold_run<R: Reducer<T>, T: Copy>(values: &[T]) -> R::Acc {
    if values.len() > RUN {
        let middle = (values.len() / 2).next_multiple_of(RUN);
        let (left, right) = values.split_at(middle);
        return R::merge(fold_run::<R, T>(left), fold_run::<R, T>(right));
    }
    vectorize(
        #[inline(always)]
        || {
            let (chunks, rest) = values.as_chunks::<LANES>();
            let mut lanes = [R::IDENTITY; LANES];
            for chunk in chunks {
                for i in 0..LANES {
                    lanes[i] = R::merge(lanes[i], R::lift(chunk[i]));
                }
            }
            for (lane, &value) in lanes.iter_mut().zip(rest) {
                *lane = R::merge(*lane, R::lift(value));
            }
            let mut width = LANES / 2;
            while width > 0 {
                for i in 0..width {
                    lanes[i] = R::merge(lanes[i], lanes[i + width]);
                }
                width /= 2;
            }
            lanes[0]
        },
    )
}

/// Reduces `rows` rows, which begin `stride` apart, column by column into `accs`, which holds identities.
fn fold_columns<R: Reducer<T>, T: Copy>(
    values: &[T],
    stride: usize,
    rows: usize,
    accs: &mut [R::Acc],
) {
    const ROWS: usize = 128;
    if rows > ROWS {
        let middle = (rows / 2).next_multiple_of(ROWS);
        let mut right = vec![R::IDENTITY; accs.len()];
        fold_columns::<R, T>(values, stride, middle, accs);
        fold_columns::<R, T>(&values[middle * stride..], stride, rows - middle, &mut right);
        for (acc, right) in accs.iter_mut().zip(right) {
            *acc = R::merge(*acc, right);
        }
        return;
    }
    vectorize(
        #[inline(always)]
        || {
            for row in 0..rows {
                for (acc, &value) in accs.iter_mut().zip(&values[row * stride..]) {
                    *acc = R::merge(*acc, R::lift(value));
                }
            }
        },
    );
}

/// The sum; 0 of nothing. Integers wrap, half types are summed in f32.
pub struct Sum;
/// The product; 1 of nothing. Integers wrap, half types are multiplied in f32.
pub struct Prod;
/// The sum over the count. Integers are summed in 64 bits and the quotient truncated. Of nothing: NaN for real
/// floats, 0 for the others.
pub struct Mean;
/// The largest element, NaN if there is one; the least value of the type, of nothing.
pub struct Max;
/// The smallest element, NaN if there is one; the greatest value of the type, of nothing.
pub struct Min;
/// Whether all are true.
pub struct All;
/// Whether any is true.
pub struct Any;

/// Writes `impl Reducer<$t> for $r` from its five items.
macro_rules! reducer {
    ($r:ty, $t:ty, $acc:ty, $identity:expr, $lift:expr, $merge:expr, $finish:expr) => {
        impl Reducer<$t> for $r {
            type Acc = $acc;
            const IDENTITY: $acc = $identity;

            #[inline(always)]
            fn lift(value: $t) -> $acc {
                $lift(value)
            }

            #[inline(always)]
            fn merge(a: $acc, b: $acc) -> $acc {
                $merge(a, b)
            }

            #[inline(always)]
            fn finish(acc: $acc, count: usize) -> $t {
                $finish(acc, count)
            }
        }
    };
}

macro_rules! float_reducers {
    ($($t:ty, $acc:ty);*) => {$(
        reducer!(Sum, $t, $acc, 0.0, AsPrimitive::as_, |a, b| a + b, |a: $acc, _| a.as_());
        reducer!(Prod, $t, $acc, 1.0, AsPrimitive::as_, |a, b| a * b, |a: $acc, _| a.as_());
        reducer!(Mean, $t, $acc, 0.0, AsPrimitive::as_, |a, b| a + b, |a: $acc, n| (a / n as $acc).as_());
        // A NaN on either side is taken: on the left because no comparison holds, on the right by name.
        reducer!(Max, $t, $acc, <$acc>::NEG_INFINITY, AsPrimitive::as_,
            |a: $acc, b: $acc| if b > a || b.is_nan() { b } else { a }, |a: $acc, _| a.as_());
        reducer!(Min, $t, $acc, <$acc>::INFINITY, AsPrimitive::as_,
            |a: $acc, b: $acc| if b < a || b.is_nan() { b } else { a }, |a: $acc, _| a.as_());
    )*};
}
float_reducers!(f32, f32; f64, f64; f16, f32; bf16, f32);

macro_rules! integer_reducers {
    ($($t:ty, $mean:ty);*) => {$(
        reducer!(Sum, $t, $t, 0, |v| v, |a: $t, b: $t| a.wrapping_add(b), |a, _| a);
        reducer!(Prod, $t, $t, 1, |v| v, |a: $t, b: $t| a.wrapping_mul(b), |a, _| a);
        reducer!(Mean, $t, $mean, 0, |v: $t| v as $mean, |a: $mean, b: $mean| a.wrapping_add(b),
            |a: $mean, n: usize| (a / (n.max(1) as $mean)) as $t);
        reducer!(Max, $t, $t, <$t>::MIN, |v| v, |a: $t, b: $t| a.max(b), |a, _| a);
        reducer!(Min, $t, $t, <$t>::MAX, |v| v, |a: $t, b: $t| a.min(b), |a, _| a);
    )*};
}
integer_reducers!(i8, i64; i16, i64; i32, i64; i64, i64; u8, u64; u16, u64; u32, u64; u64, u64);

macro_rules! complex_reducers {
    ($($t:ty),*) => {$(
        reducer!(Sum, Complex<$t>, Complex<$t>, Complex::new(0.0, 0.0), |v| v, |a, b| a + b, |a, _| a);
        reducer!(Prod, Complex<$t>, Complex<$t>, Complex::new(1.0, 0.0), |v| v, |a, b| a * b, |a, _| a);
        reducer!(Mean, Complex<$t>, Complex<$t>, Complex::new(0.0, 0.0), |v| v, |a, b| a + b,
            |a: Complex<$t>, n: usize| a / n.max(1) as $t);
    )*};
}
complex_reducers!(f32, f64);

reducer!(All, bool, bool, true, |v| v, |a, b| a & b, |a, _| a);
reducer!(Any, bool, bool, false, |v| v, |a, b| a | b, |a, _| a);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    const LAYOUTS: [[usize; 3]; 17] = [
        [0, 3, 2],
        [2, 0, 3],
        [2, 3, 0],
        [1, 1, 1],
        [3, 4, 5],
        [1, 31, 1],
        [1, 33, 1],
        [7, 1000, 1],
        [2, 3001, 1],
        [1, 300_001, 1],
        [3, 140_001, 1],
        [1, 20_000, 9],
        [2, 400, 700],
        [300, 20, 30],
        [5000, 3, 7],
        [1, 129, 2000],
        [1, 2, 100_000],
    ];

    /// Whole numbers from -3 to 3, whose sums every type under test holds.
    fn numbers(len: usize) -> Vec<i64> {
        (0..len).map(|i| (i * 5 + i / 3) as i64 % 7 - 3).collect()
    }

    fn check<R: Reducer<T>, T: Copy + Send + Sync + PartialEq + std::fmt::Debug>(
        from: impl Fn(i64) -> T,
        fold: impl Fn(&mut dyn Iterator<Item = i64>) -> T,
    ) {
        let pool = Pool::new(3);
        for layout @ [outer, reduced, inner] in LAYOUTS {
            let input = numbers(outer * reduced * inner);
            let typed: Vec<T> = input.iter().map(|&v| from(v)).collect();
            for par in [Parallel::SERIAL, Parallel::new(&pool)] {
                let mut out = vec![from(3); outer * inner];
                reduce::<R, T>(par, layout, &typed, &mut out);
                for (i, &actual) in out.iter().enumerate() {
                    let (o, j) = (i / inner, i % inner);
                    let expected =
                        fold(&mut (0..reduced).map(|r| input[(o * reduced + r) * inner + j]));
                    assert_eq!(
                        actual,
                        expected,
                        "{} {layout:?} at {i}",
                        std::any::type_name::<(R, T)>()
                    );
                }
            }
        }
    }

    #[test]
    fn every_layout() {
        check::<Sum, f32>(|v| v as f32, |v| v.sum::<i64>() as f32);
        check::<Sum, i8>(|v| v as i8, |v| v.sum::<i64>() as i8);
        check::<Sum, Complex<f64>>(
            |v| Complex::new(v as f64, 0.0),
            |v| Complex::new(v.sum::<i64>() as f64, 0.0),
        );
        check::<Max, f64>(|v| v as f64, |v| v.max().map_or(f64::NEG_INFINITY, |v| v as f64));
        check::<Min, u16>(|v| v as u16, |v| v.map(|v| v as u16).min().unwrap_or(u16::MAX));
        check::<Max, f16>(
            |v| f16::from_f32(v as f32),
            |v| v.max().map_or(f16::NEG_INFINITY, |v| f16::from_f32(v as f32)),
        );
        check::<Prod, u64>(|v| v as u64, |v| v.fold(1u64, |p, v| p.wrapping_mul(v as u64)));
        check::<All, bool>(|v| v > -3, |v| v.filter(|&v| v <= -3).count() == 0);
        check::<Any, bool>(|v| v == 3, |v| v.filter(|&v| v == 3).count() > 0);
        check::<Mean, i32>(
            |v| v as i32,
            |v| {
                let (sum, count) = v.fold((0, 0), |(s, n), v| (s + v, n + 1));
                (sum / count.max(1)) as i32
            },
        );
    }

    fn one<R: Reducer<T>, T: Copy + Send + Sync + Default>(values: &[T]) -> T {
        let mut out = [T::default()];
        reduce::<R, T>(Parallel::SERIAL, [1, values.len(), 1], values, &mut out);
        out[0]
    }

    // The expectations of the next three tests are observed of TensorFlow 2.21.

    #[test]
    fn results_of_nothing() {
        assert_eq!(one::<Prod, f32>(&[]), 1.0);
        assert!(one::<Mean, f64>(&[]).is_nan());
        assert!(one::<Mean, bf16>(&[]).is_nan());
        assert_eq!(one::<Mean, i32>(&[]), 0);
        assert_eq!(one::<Mean, Complex<f32>>(&[]), Complex::ZERO);
        assert_eq!(one::<Max, f16>(&[]), f16::NEG_INFINITY);
        assert_eq!(one::<Max, i32>(&[]), i32::MIN);
        assert_eq!(one::<Min, u8>(&[]), 255);
    }

    #[test]
    fn means_of_integers_truncate_and_do_not_overflow() {
        assert_eq!(one::<Mean, i32>(&[-7, 2, 1]), -1);
        assert_eq!(one::<Mean, i32>(&[i32::MAX; 4]), i32::MAX);
        assert_eq!(one::<Mean, u8>(&[100; 400]), 100);
        assert_eq!(one::<Mean, i64>(&[i64::MAX; 4]), -1);
    }

    #[test]
    fn not_a_number_wins() {
        for len in [1, 3, 40, 2000] {
            for place in [0, len / 2, len - 1] {
                let mut values = vec![1.0f32; len];
                values[place] = f32::NAN;
                assert!(one::<Max, f32>(&values).is_nan(), "max of {len}, NaN at {place}");
                assert!(one::<Min, f32>(&values).is_nan(), "min of {len}, NaN at {place}");
                let halves: Vec<f16> = values.iter().map(|&v| f16::from_f32(v)).collect();
                assert!(one::<Max, f16>(&halves).is_nan(), "half max of {len}, NaN at {place}");
            }
        }
    }

    #[test]
    fn long_sums_keep_their_digits() {
        let values = vec![0.1f32; 3_000_000];
        let expected = 3_000_000.0 * f64::from(0.1f32);
        let sum = f64::from(one::<Sum, f32>(&values));
        assert!((sum / expected - 1.0).abs() < 1e-6, "{sum}");
        let mut columns = [0.0f32; 3];
        reduce::<Sum, f32>(Parallel::SERIAL, [1, 1_000_000, 3], &values, &mut columns);
        assert!((f64::from(columns[2]) / expected * 3.0 - 1.0).abs() < 1e-6, "{columns:?}");
        assert_eq!(one::<Sum, bf16>(&vec![bf16::ONE; 1000]), bf16::from_f32(1000.0));
    }
}
