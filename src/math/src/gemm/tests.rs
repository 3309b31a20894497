//! Every element type and every path against the definition of a product.

use half::{bf16, f16};
use num_complex::Complex;

use super::*;
use crate::pool::Pool;

/// Shapes that reach the vector paths, panel edges, empty extents and more than one thread's worth.
const SHAPES: [[usize; 3]; 21] = [
    [2, 261, 33],
    [29, 131, 70],
    [1030, 40, 9],
    [6, 7, 5003],
    [64, 64, 300],
    [0, 3, 2],
    [3, 0, 2],
    [3, 2, 0],
    [1, 1, 1],
    [1, 5, 7],
    [5, 1, 7],
    [1, 3000, 130],
    [70, 1, 1000],
    [3, 4, 5],
    [17, 33, 65],
    [2, 300, 64],
    [300, 2, 64],
    [130, 140, 150],
    [257, 3, 5],
    [3, 257, 5],
    [20, 20, 600],
];

/// Small whole numbers, so that every sum is exact in every type that holds it.
fn numbers(len: usize, seed: usize) -> Vec<i32> {
    (0..len).map(|i| ((i * 7 + seed * 13 + i / 5) % 5) as i32 - 2).collect()
}

fn check_type<T: MatmulElem + PartialEq + std::fmt::Debug>(from: impl Fn(i32) -> T) {
    let pool = Pool::new(3);
    for [m, n, k] in SHAPES {
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        for layout in 0..8 {
            let (a_transposed, b_transposed, c_transposed) =
                (layout & 1 > 0, layout & 2 > 0, layout & 4 > 0);
            let strides = |rows: usize, cols: usize, transposed| {
                if transposed { (1, rows) } else { (cols, 1) }
            };
            let place = |(rs, cs): (usize, usize), i, j| i * rs + j * cs;
            let (sa, sb, sc) = (
                strides(m, k, a_transposed),
                strides(k, n, b_transposed),
                strides(m, n, c_transposed),
            );
            let mut expected = vec![0; m * n];
            for i in 0..m {
                for p in 0..k {
                    let x = a[place(sa, i, p)];
                    for j in 0..n {
                        expected[place(sc, i, j)] += x * b[place(sb, p, j)];
                    }
                }
            }
            let (ta, tb): (Vec<T>, Vec<T>) =
                (a.iter().map(|&v| from(v)).collect(), b.iter().map(|&v| from(v)).collect());
            for (accumulate, par) in [(false, Parallel::SERIAL), (true, Parallel::new(&pool))] {
                let mut c = vec![from(3); m * n];
                let (ra, rb) = (MatRef::new(&ta, sa.0, sa.1), MatRef::new(&tb, sb.0, sb.1));
                matmul(par, m, n, k, ra, rb, MatMut::new(&mut c, sc.0, sc.1), accumulate);
                let added = if accumulate { 3 } else { 0 };
                let expected: Vec<T> = expected.iter().map(|&v| from(v + added)).collect();
                assert!(
                    c == expected,
                    "{} [{m}, {n}, {k}] layout {layout} accumulate {accumulate}",
                    std::any::type_name::<T>()
                );
            }
        }
    }
}

#[test]
fn every_type_every_layout() {
    check_type(|v| v as f32);
    check_type(|v| v as f64);
    check_type(|v| f16::from_f32(v as f32));
    check_type(|v| bf16::from_f32(v as f32));
    check_type(|v| Complex::new(v as f32, 0.0));
    check_type(|v| Complex::new(v as f64, 0.0));
    check_type(|v| v as i8);
    check_type(|v| v as u16);
    check_type(|v| v);
    check_type(|v| v as u64);
}

#[test]
fn half_types_round_once() {
    // 2048 ones and one more: in half arithmetic a running sum would stick at 2048.
    let ones = vec![f16::ONE; 4100];
    let mut c = [f16::ZERO];
    matmul(
        Parallel::SERIAL,
        1,
        1,
        4100,
        MatRef::new(&ones, 4100, 1),
        MatRef::new(&ones, 1, 1),
        MatMut::new(&mut c, 1, 1),
        false,
    );
    assert_eq!(c[0].to_f32(), 4100.0);
}

#[test]
fn complex_numbers_and_conjugates() {
    let i = Complex::new(0.0f64, 1.0);
    let (a, b) = ([i + 1.0, i * 2.0], [i - 3.0, i]);
    for (conj_a, conj_b) in [(false, false), (true, false), (false, true), (true, true)] {
        let pick = |v: Complex<f64>, conj: bool| if conj { v.conj() } else { v };
        let expected =
            pick(a[0], conj_a) * pick(b[0], conj_b) + pick(a[1], conj_a) * pick(b[1], conj_b);
        let mut c = [Complex::new(9.0, 9.0)];
        let (ra, rb) = (
            MatRef { conj: conj_a, ..MatRef::new(&a, 2, 1) },
            MatRef { conj: conj_b, ..MatRef::new(&b, 1, 1) },
        );
        matmul(Parallel::SERIAL, 1, 1, 2, ra, rb, MatMut::new(&mut c, 1, 1), false);
        assert_eq!(c[0], expected, "conj {conj_a} {conj_b}");
    }
}

#[test]
fn integers_wrap() {
    let mut c = [0i8];
    matmul(
        Parallel::SERIAL,
        1,
        1,
        2,
        MatRef::new(&[100i8, 100], 2, 1),
        MatRef::new(&[2i8, 1], 1, 1),
        MatMut::new(&mut c, 1, 1),
        false,
    );
    assert_eq!(c[0], 300i32 as i8);
}

#[test]
fn not_a_number_spreads_through_zero() {
    let mut c = [5.0f32; 4];
    let a = [0.0, 0.0, 1.0, 1.0];
    let b = [f32::NAN, 1.0, 1.0, f32::INFINITY];
    matmul(
        Parallel::SERIAL,
        2,
        2,
        2,
        MatRef::new(&a, 2, 1),
        MatRef::new(&b, 2, 1),
        MatMut::new(&mut c, 2, 1),
        false,
    );
    assert!(c[0].is_nan() && c[1].is_nan() && c[2].is_nan());
    assert_eq!(c[3], f32::INFINITY);
}

#[test]
fn batches_follow_their_offsets() {
    let pool = Pool::new(2);
    let a: Vec<f32> = (0..12).map(|v| v as f32).collect();
    let b = [1.0f32, 2.0, 3.0, 4.0];
    for par in [Parallel::SERIAL, Parallel::new(&pool)] {
        for batch in [1, 3] {
            let offsets = [8, 0, 4];
            let mut c = vec![0.0; batch * 4];
            let (ra, rb) = (MatRef::new(&a, 2, 1), MatRef::new(&b, 2, 1));
            matmul_batch(par, 2, 2, 2, ra, &offsets[..batch], rb, &[0; 3][..batch], &mut c);
            for i in 0..batch {
                let x = &a[offsets[i]..];
                let expected = [
                    x[0] + 3.0 * x[1],
                    2.0 * x[0] + 4.0 * x[1],
                    x[2] + 3.0 * x[3],
                    2.0 * x[2] + 4.0 * x[3],
                ];
                assert_eq!(c[i * 4..][..4], expected, "entry {i} of {batch}");
            }
        }
    }
}

#[test]
fn a_column_of_a_wider_matrix_can_be_written() {
    let mut c = [7.0f32; 6];
    matmul(
        Parallel::SERIAL,
        2,
        1,
        1,
        MatRef::new(&[1.0, 2.0], 1, 1),
        MatRef::new(&[3.0], 1, 1),
        MatMut::new(&mut c[1..], 3, 1),
        false,
    );
    assert_eq!(c, [7.0, 3.0, 7.0, 7.0, 6.0, 7.0]);
}

#[test]
#[should_panic(expected = "too few")]
fn a_short_view_is_refused() {
    let mut c = [0.0f32; 4];
    matmul(
        Parallel::SERIAL,
        2,
        2,
        2,
        MatRef::new(&[0.0; 3], 2, 1),
        MatRef::new(&[0.0; 4], 2, 1),
        MatMut::new(&mut c, 2, 1),
        false,
    );
}

#[test]
#[should_panic(expected = "overlap")]
fn overlapping_results_are_refused() {
    let mut c = [0.0f32; 4];
    matmul(
        Parallel::SERIAL,
        2,
        2,
        1,
        MatRef::new(&[0.0; 4], 2, 1),
        MatRef::new(&[0.0; 4], 2, 1),
        MatMut::new(&mut c, 1, 1),
        false,
    );
}

#[test]
fn blocks_tile_the_result() {
    let pool = Pool::new(7);
    for (m, n) in [(1, 4000), (4000, 1), (100, 100), (17, 5000), (1000, 333)] {
        let (a, b, k) = (vec![1.0f32; m * 100], vec![1.0f32; n * 100], 100);
        let mut c = vec![1.0; m * n];
        let (ra, rb) = (MatRef::new(&a, k, 1), MatRef::new(&b, n, 1));
        matmul(Parallel::new(&pool), m, n, k, ra, rb, MatMut::new(&mut c, n, 1), true);
        assert!(c.iter().all(|&v| v == 101.0), "[{m}, {n}]");
    }
}

fn check_epilogue<T: PackElem<Sum = f32> + PartialEq>(from: impl Fn(f32) -> T) {
    let pool = Pool::new(3);
    for [m, n, k] in SHAPES {
        let a: Vec<T> = numbers(m * k, 1).iter().map(|&v| from(v as f32)).collect();
        let b: Vec<T> = numbers(k * n, 2).iter().map(|&v| from(v as f32)).collect();
        let plain = |c: &mut [T]| {
            let (ra, rb) = (MatRef::new(&a, k, 1), MatRef::new(&b, n, 1));
            matmul(Parallel::SERIAL, m, n, k, ra, rb, MatMut::new(c, n, 1), false);
        };
        let floats = |len, seed| numbers(len, seed).iter().map(|&v| v as f32).collect::<Vec<_>>();
        let (scale, bias, residual) = (floats(n, 3), floats(n, 4), floats(m * n, 5));
        let double = |run: &mut [f32]| run.iter_mut().for_each(|v| *v *= 2.0);
        let sums = {
            // The sums themselves are tested above.
            let (wide_a, wide_b) = (floats(m * k, 1), floats(k * n, 2));
            let mut c = vec![0.0; m * n];
            let (ra, rb) = (MatRef::new(&wide_a, k, 1), MatRef::new(&wide_b, n, 1));
            matmul(Parallel::SERIAL, m, n, k, ra, rb, MatMut::new(&mut c, n, 1), false);
            c
        };
        let functions: [(Activation<f32>, fn(f32) -> f32); 4] = [
            (Activation::None, |v| v),
            (Activation::Relu, |v| v.max(0.0)),
            (Activation::LeakyRelu(0.5), |v| if v > 0.0 { v } else { v * 0.5 }),
            (Activation::Each(&double), |v| v * 2.0),
        ];
        for (activation, function) in functions {
            let epilogue = Epilogue {
                scale: Some(&scale),
                bias: Some(&bias),
                residual: Some(MatRef::new(&residual, n, 1)),
                activation,
            };
            let expected: Vec<T> = (0..m * n)
                .map(|i| from(function(sums[i] * scale[i % n] + bias[i % n] + residual[i])))
                .collect();
            let par = Parallel::new(&pool);
            let packed = Packed::new(par, k, n, MatRef::new(&b, n, 1));
            let ra = MatRef::new(&a, k, 1);
            let mut c = vec![T::ZERO; m * n];
            product(par, m, ra, &packed, MatMut::new(&mut c, n, 1), &epilogue);
            assert!(c == expected, "packed [{m}, {n}, {k}]");
            c.fill(T::ZERO);
            let rb = MatRef::new(&b, n, 1);
            matmul_with(par, m, n, k, ra, rb, MatMut::new(&mut c, n, 1), &epilogue);
            assert!(c == expected, "[{m}, {n}, {k}]");
        }
        let mut c = vec![T::ZERO; m * n];
        plain(&mut c);
        let expected: Vec<T> = sums.iter().map(|&v| from(v)).collect();
        assert!(c == expected, "[{m}, {n}, {k}] without an epilogue");
    }
}

#[test]
fn epilogues_and_packed_operands() {
    check_epilogue(|v| v);
    check_epilogue(bf16::from_f32);
    check_epilogue(f16::from_f32);
}

#[test]
fn relu_keeps_not_a_number() {
    let mut run = [f32::NAN, -1.0, 7.0, f32::INFINITY];
    Epilogue { activation: Activation::Relu6, ..Epilogue::default() }.apply(0, 0, &mut run);
    assert!(run[0].is_nan());
    assert_eq!(run[1..], [0.0, 6.0, 6.0]);
}
