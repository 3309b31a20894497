//! Tests of all ops: by the equations that define the results, and by the texts of errors.

use num_traits::{Float, Zero};
use tfcore_base::{Complex64, Complex128, DType, Elem, Result};
use tfcore_framework::testing::{infer, registry_of, run_op, tensor};
use tfcore_framework::{AttrValue, Registry};
use tfcore_tensor::Tensor;

use crate::matrix::{Matrix, Scalar};

fn registry() -> Registry {
    registry_of(crate::register)
}

fn run(op: &str, attrs: &[(&str, AttrValue)], inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut all = vec![("T", AttrValue::Type(inputs[0].dtype()))];
    all.extend_from_slice(attrs);
    run_op(&registry(), op, &all, inputs)
}

fn flag(name: &'static str, value: bool) -> (&'static str, AttrValue) {
    (name, AttrValue::Bool(value))
}

/// Numbers without a pattern, from -1 to 1.
fn random<T: Scalar>(rows: usize, cols: usize) -> Matrix<T> {
    let mut state = 12_345u64 + rows as u64 * 7 + cols as u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (state >> 40) as f64 / (1u64 << 24) as f64;
        <T::Real as num_traits::NumCast>::from(2.0 * unit - 1.0).unwrap()
    };
    let data = (0..rows * cols).map(|_| T::from_parts(next(), next())).collect();
    Matrix { rows, cols, data }
}

fn to_tensor<T: Scalar>(matrix: &Matrix<T>) -> Tensor {
    tensor(&[matrix.rows as i64, matrix.cols as i64], &matrix.data)
}

fn to_matrix<T: Scalar>(tensor: &Tensor) -> Matrix<T> {
    let size = [tensor.dim(0), tensor.shape().get(1).map_or(1, |&cols| cols as usize)];
    Matrix::from_slice(size, tensor.as_slice().unwrap())
}

#[track_caller]
fn assert_close<T: Scalar>(found: &Matrix<T>, expected: &Matrix<T>, what: &str) {
    let epsilon = <T::Real as Float>::epsilon();
    let largest = expected.data.iter().fold(T::Real::zero(), |max, x| Float::max(max, x.abs()));
    let bound =
        epsilon * <T::Real as num_traits::NumCast>::from(3000.0).unwrap() * (largest + epsilon);
    let worst = found
        .minus(expected)
        .data
        .iter()
        .fold(T::Real::zero(), |max, x| if max > x.abs() { max } else { x.abs() });
    assert!(worst <= bound, "{what}: off by {worst:?}, {bound:?} allowed");
}

/// Runs a generic check for all four types.
macro_rules! for_all_types {
    ($check:ident) => {
        $check::<f32>();
        $check::<f64>();
        $check::<Complex64>();
        $check::<Complex128>();
    };
}

fn check_factors<T: Scalar>() {
    for n in [1, 2, 5, 33, 70] {
        let a = random::<T>(n, n);
        let mut definite = a.times(&a.adjoint());
        for i in 0..n {
            definite[(i, i)] = definite[(i, i)] + T::one();
        }
        let l = to_matrix::<T>(&run("Cholesky", &[], &[to_tensor(&definite)]).unwrap()[0]);
        assert_close(&l.times(&l.adjoint()), &definite, "Cholesky");
        for i in 0..n {
            assert!(l.row(i)[i + 1..].iter().all(|x| *x == T::zero()));
        }

        let outputs =
            run("Lu", &[("output_idx_type", AttrValue::Type(DType::INT64))], &[to_tensor(&a)]);
        let outputs = outputs.unwrap();
        let (packed, order) = (to_matrix::<T>(&outputs[0]), outputs[1].to_i64s().unwrap());
        let (mut l, mut u, mut permuted) = (Matrix::identity(n), packed.clone(), a.clone());
        for i in 0..n {
            l.row_mut(i)[..i].copy_from_slice(&packed.row(i)[..i]);
            u.row_mut(i)[..i].fill(T::zero());
            permuted.row_mut(i).copy_from_slice(a.row(order[i] as usize));
        }
        assert_close(&l.times(&u), &permuted, "Lu");

        let adjoint = [flag("adjoint", true)];
        let inverse =
            to_matrix::<T>(&run("MatrixInverse", &adjoint, &[to_tensor(&definite)]).unwrap()[0]);
        assert_close(&definite.times(&inverse), &Matrix::identity(n), "MatrixInverse");
        let rhs = random::<T>(n, 3);
        let inputs = [to_tensor(&definite), to_tensor(&rhs)];
        let x = to_matrix::<T>(&run("MatrixSolve", &adjoint, &inputs).unwrap()[0]);
        assert_close(&definite.times(&x), &rhs, "MatrixSolve");
    }
}

#[test]
fn triangular_factors() {
    for_all_types!(check_factors);
}

fn check_orthogonal<T: Scalar>() {
    for (m, n) in [(1, 1), (4, 4), (7, 3), (3, 7), (40, 35)] {
        let a = random::<T>(m, n);
        for full in [false, true] {
            let outputs = run("Qr", &[flag("full_matrices", full)], &[to_tensor(&a)]).unwrap();
            let (q, r) = (to_matrix::<T>(&outputs[0]), to_matrix::<T>(&outputs[1]));
            assert_close(&q.times(&r), &a, "Qr");
            assert_close(&q.adjoint().times(&q), &Matrix::identity(q.cols), "Q");

            let attrs = [flag("compute_uv", true), flag("full_matrices", full)];
            let outputs = run("Svd", &attrs, &[to_tensor(&a)]).unwrap();
            let values = outputs[0].as_slice::<T>().unwrap();
            assert!(values.windows(2).all(|pair| pair[0].re() >= pair[1].re()));
            let (u, v) = (to_matrix::<T>(&outputs[1]), to_matrix::<T>(&outputs[2]));
            let mut s = Matrix::zeros(u.cols, v.cols);
            for (i, &value) in values.iter().enumerate() {
                s[(i, i)] = value;
            }
            assert_close(&u.times(&s).times(&v.adjoint()), &a, "Svd");
            assert_close(&u.adjoint().times(&u), &Matrix::identity(u.cols), "U");
            assert_close(&v.adjoint().times(&v), &Matrix::identity(v.cols), "V");
        }
    }
}

#[test]
fn orthogonal_factors() {
    for_all_types!(check_orthogonal);
}

fn check_eigen<T: Scalar>() {
    for n in [1, 2, 3, 8, 30] {
        let a = random::<T>(n, n);
        let hermitian = a.plus(&a.adjoint());
        let compute = [flag("compute_v", true)];
        let outputs = run("SelfAdjointEigV2", &compute, &[to_tensor(&hermitian)]).unwrap();
        let values = outputs[0].as_slice::<T>().unwrap();
        let v = to_matrix::<T>(&outputs[1]);
        let mut scaled = v.clone();
        for i in 0..n {
            for (x, &value) in scaled.row_mut(i).iter_mut().zip(values) {
                *x = *x * value;
            }
        }
        assert_close(&hermitian.times(&v), &scaled, "SelfAdjointEigV2");
        assert!(values.windows(2).all(|pair| pair[0].re() <= pair[1].re()));

        let attrs =
            [flag("compute_v", true), ("Tout", AttrValue::Type(<T::Complex as Elem>::DTYPE))];
        let outputs = run("Eig", &attrs, &[to_tensor(&a)]).unwrap();
        let values = outputs[0].as_slice::<T::Complex>().unwrap();
        let v = to_matrix::<T::Complex>(&outputs[1]);
        let mut scaled = v.clone();
        for i in 0..n {
            for (x, &value) in scaled.row_mut(i).iter_mut().zip(values) {
                *x = *x * value;
            }
        }
        let data = a.data.iter().map(|x| x.to_complex()).collect();
        let complex = Matrix { rows: n, cols: n, data };
        assert_close(&complex.times(&v), &scaled, "Eig");
    }
}

#[test]
fn eigenvalues() {
    for_all_types!(check_eigen);
}

fn check_functions<T: Scalar>() {
    for n in [1, 2, 6, 20] {
        let a = random::<T>(n, n);
        let mut definite = a.times(&a.adjoint());
        for i in 0..n {
            definite[(i, i)] = definite[(i, i)] + T::one();
        }
        let root =
            to_matrix::<T>(&run("MatrixSquareRoot", &[], &[to_tensor(&definite)]).unwrap()[0]);
        assert_close(&root.times(&root), &definite, "MatrixSquareRoot");
        if T::DTYPE.is_complex() {
            let log = run("MatrixLogarithm", &[], &[to_tensor(&definite)]).unwrap();
            let exp = run("MatrixExponential", &[], &log).unwrap();
            assert_close(&to_matrix::<T>(&exp[0]), &definite, "MatrixExponential");
        }
    }
}

#[test]
fn functions_of_matrices() {
    for_all_types!(check_functions);
}

fn check_solutions<T: Scalar>() {
    for (m, n) in [(4, 4), (9, 4), (4, 9)] {
        let (a, b) = (random::<T>(m, n), random::<T>(m, 2));
        let solve = |fast: bool| {
            let inputs = [to_tensor(&a), to_tensor(&b), Tensor::scalar(0.0f64)];
            to_matrix::<T>(&run("MatrixSolveLs", &[flag("fast", fast)], &inputs).unwrap()[0])
        };
        // What is left is orthogonal to the columns.
        let x = solve(false);
        let rest = a.adjoint().times(&a.times(&x).minus(&b));
        assert_close(&rest.plus(&a.adjoint().times(&b)), &a.adjoint().times(&b), "MatrixSolveLs");
        assert_close(
            &solve(true).plus(&random(n, 2)),
            &x.plus(&random(n, 2)),
            "fast MatrixSolveLs",
        );
    }
    let n = 6;
    let mut dense = random::<T>(n, n);
    for i in 0..n {
        dense[(i, i)] = dense[(i, i)] + T::one() + T::one();
    }
    let b = random::<T>(n, 2);
    for lower in [false, true] {
        let mut triangle = dense.clone();
        let mut bands = Matrix::<T>::zeros(3, n);
        let mut banded = Matrix::<T>::zeros(n, n);
        for i in 0..n {
            for j in 0..n {
                if if lower { j > i } else { j < i } {
                    triangle[(i, j)] = T::zero();
                } else if i.abs_diff(j) < 3 {
                    banded[(i, j)] = dense[(i, j)];
                    let band = if lower { i - j } else { 2 - (j - i) };
                    bands[(band, i)] = dense[(i, j)];
                }
            }
        }
        for adjoint in [false, true] {
            let attrs = [flag("lower", lower), flag("adjoint", adjoint)];
            for (op, stored, meant) in [
                ("MatrixTriangularSolve", &dense, &triangle),
                ("BandedTriangularSolve", &bands, &banded),
            ] {
                let x = run(op, &attrs, &[to_tensor(stored), to_tensor(&b)]).unwrap();
                let meant = if adjoint { meant.adjoint() } else { meant.clone() };
                assert_close(&meant.times(&to_matrix(&x[0])), &b, op);
            }
        }
    }
    let diagonals = random::<T>(3, n);
    let mut whole = Matrix::<T>::zeros(n, n);
    for i in 0..n {
        whole[(i, i)] = diagonals[(1, i)];
        if i + 1 < n {
            whole[(i, i + 1)] = diagonals[(0, i)];
            whole[(i + 1, i)] = diagonals[(2, i + 1)];
        }
    }
    for (pivoting, perturb) in [(false, false), (true, false), (true, true)] {
        let attrs = [flag("partial_pivoting", pivoting), flag("perturb_singular", perturb)];
        let inputs = [to_tensor(&diagonals), to_tensor(&b)];
        let x = to_matrix::<T>(&run("TridiagonalSolve", &attrs, &inputs).unwrap()[0]);
        assert_close(&whole.times(&x), &b, "TridiagonalSolve");
    }
    let row = |i: usize| tensor(&[1, n as i64], diagonals.row(i));
    let inputs = [row(0), row(1), row(2), to_tensor(&b)];
    let product = to_matrix::<T>(&run("TridiagonalMatMul", &[], &inputs).unwrap()[0]);
    assert_close(&product, &whole.times(&b), "TridiagonalMatMul");
}

#[test]
fn solutions() {
    for_all_types!(check_solutions);
}

#[test]
fn gradients_of_factors() {
    // The derivative of the sum of the elements of L, by difference quotients.
    let n = 5;
    let a = random::<f64>(n, n);
    let mut definite = a.times(&a.adjoint());
    for i in 0..n {
        definite[(i, i)] += 1.0;
    }
    let sum = |matrix: &Matrix<f64>| -> f64 {
        let l = run("Cholesky", &[], &[to_tensor(matrix)]).unwrap();
        l[0].as_slice::<f64>().unwrap().iter().sum()
    };
    let l = run("Cholesky", &[], &[to_tensor(&definite)]).unwrap().remove(0);
    let ones = tensor(&[n as i64, n as i64], &vec![1.0f64; n * n]);
    let grad = to_matrix::<f64>(&run("CholeskyGrad", &[], &[l, ones]).unwrap()[0]);
    for (i, j) in [(0, 0), (2, 1), (4, 0), (3, 3)] {
        let step = 1e-6;
        let moved = |sign: f64| {
            let mut moved = definite.clone();
            moved[(i, j)] += sign * step;
            if i != j {
                moved[(j, i)] += sign * step;
            }
            sum(&moved)
        };
        let quotient = (moved(1.0) - moved(-1.0)) / (2.0 * step);
        let expected = if i == j { grad[(i, j)] } else { grad[(i, j)] + grad[(j, i)] };
        assert!((quotient - expected).abs() < 1e-6, "({i}, {j}): {expected}, not {quotient}");
    }
}

#[test]
fn determinants() {
    let matrix = tensor(&[2, 2, 2], &[1.0f64, 2.0, 2.0, 1.0, 2.0, 1.0, 4.0, 2.0]);
    let out = run("MatrixDeterminant", &[], std::slice::from_ref(&matrix)).unwrap();
    let found = out[0].as_slice::<f64>().unwrap();
    assert!((found[0] + 3.0).abs() < 1e-14 && found[1] == 0.0);
    let out = run("LogMatrixDeterminant", &[], &[matrix]).unwrap();
    assert_eq!(out[0].as_slice::<f64>().unwrap()[0], -1.0);
    assert_eq!(out[1].as_slice::<f64>().unwrap()[1], f64::NEG_INFINITY);
    let empty = run("MatrixDeterminant", &[], &[tensor::<f32>(&[0, 0], &[])]).unwrap();
    assert_eq!(empty[0].as_slice::<f32>().unwrap(), [1.0]);
}

#[test]
fn what_does_not_fit() {
    let square = |data: &[f32]| tensor(&[2, 2], data);
    let singular = || square(&[1.0, 2.0, 2.0, 4.0]);
    let adjoint = [flag("adjoint", false)];
    let index = [("output_idx_type", AttrValue::Type(DType::INT32))];
    let nan = || square(&[f32::NAN; 4]);
    let cases: [(&str, &[(&str, AttrValue)], Vec<Tensor>, &str); 8] = [
        ("Cholesky", &[], vec![tensor(&[2, 3], &[0f32; 6])], "Input matrix must be square."),
        (
            "Cholesky",
            &[],
            vec![tensor(&[2], &[0f32; 2])],
            "Input tensor 0 must have rank >= 2, got 1",
        ),
        ("MatrixInverse", &adjoint, vec![singular()], "Input is not invertible."),
        ("Lu", &index, vec![nan()], "Input is not invertible."),
        ("MatrixSolve", &adjoint, vec![singular(), singular()], "Input matrix is not invertible."),
        (
            "MatrixSolve",
            &adjoint,
            vec![singular(), tensor(&[3, 1], &[0f32; 3])],
            "Input matrix and rhs are incompatible.",
        ),
        (
            "MatrixSolve",
            &adjoint,
            vec![singular(), tensor(&[1, 2, 1], &[0f32; 2])],
            "All input tensors must have the same rank.",
        ),
        (
            "SelfAdjointEigV2",
            &[flag("compute_v", true)],
            vec![nan()],
            "Self-adjoint eigen decomposition was not successful. The input might not be valid.",
        ),
    ];
    for (op, attrs, inputs, message) in cases {
        assert_eq!(run(op, attrs, &inputs).err().unwrap().message(), message);
    }
    let out = run("Cholesky", &[], &[square(&[1.0, 2.0, 2.0, 1.0])]).unwrap();
    let out = out[0].as_slice::<f32>().unwrap();
    assert!(out[0].is_nan() && out[1] == 0.0 && out[2].is_nan() && out[3].is_nan());
}

#[test]
fn transforms() {
    let complex = |values: &[f64]| -> Vec<Complex128> {
        values.iter().map(|&x| Complex128::new(x, 0.0)).collect()
    };
    let run = |op: &str, inputs: &[Tensor], real: bool| {
        let mut attrs = vec![("Tcomplex", AttrValue::Type(DType::COMPLEX128))];
        if real {
            attrs.push(("Treal", AttrValue::Type(DType::DOUBLE)));
        }
        run_op(&registry(), op, &attrs, inputs)
    };
    // By the definition, for lengths with large prime factors too.
    for n in [1usize, 2, 6, 7, 16, 23] {
        let x: Vec<f64> = (0..n).map(|i| ((i * i + 3) % 7) as f64).collect();
        let expected: Vec<Complex128> = (0..n)
            .map(|k| {
                let angle = |i: usize| -std::f64::consts::TAU * (i * k) as f64 / n as f64;
                (0..n).map(|i| Complex128::from_polar(x[i], angle(i))).sum()
            })
            .collect();
        let spectrum = run("FFT", &[tensor(&[n as i64], &complex(&x))], false).unwrap();
        let half =
            run("RFFT", &[tensor(&[n as i64], &x), tensor(&[1], &[n as i32])], true).unwrap();
        let found = [&spectrum[0], &half[0]].map(|t| t.as_slice::<Complex128>().unwrap().to_vec());
        for found in found {
            for (x, y) in found.iter().zip(&expected) {
                assert!((x - y).norm() < 1e-12, "{n}: {found:?}");
            }
        }
        let back = run("IRFFT", &[half[0].clone(), tensor(&[1], &[n as i32])], true).unwrap();
        for (found, x) in back[0].as_slice::<f64>().unwrap().iter().zip(&x) {
            assert!((found - x).abs() < 1e-12, "{n}");
        }
    }
    // Two dimensions: one after the other, and back.
    let x = tensor(
        &[2, 2, 3],
        &complex(&[1.0, 2.0, 0.0, -1.0, 5.0, 2.0, 3.0, 3.0, 1.0, 0.0, 7.0, 4.0]),
    );
    let there = run("FFT2D", std::slice::from_ref(&x), false).unwrap();
    assert_eq!(there[0].as_slice::<Complex128>().unwrap()[0], Complex128::new(9.0, 0.0));
    let back = run("IFFT2D", &there, false).unwrap();
    let pairs =
        back[0].as_slice::<Complex128>().unwrap().iter().zip(x.as_slice::<Complex128>().unwrap());
    assert!(pairs.into_iter().all(|(a, b)| (a - b).norm() < 1e-14));
    let error = run("FFT3D", &[tensor(&[2], &complex(&[0.0; 2]))], false).err().unwrap();
    assert_eq!(error.message(), "Input must have rank of at least 3 but got: [2]");
}

#[test]
fn shapes() {
    let attrs = |names: &[&'static str]| -> Vec<(&'static str, AttrValue)> {
        let mut attrs = vec![("T", AttrValue::Type(DType::FLOAT))];
        attrs.extend(names.iter().map(|name| (*name, AttrValue::Bool(true))));
        attrs
    };
    let cases: [(&str, &[&'static str], &str, &str); 8] = [
        ("Cholesky", &[], "[?,2,?]", "[?,2,2]"),
        ("Qr", &["full_matrices"], "[5,3]", "[5,5];[5,3]"),
        ("Svd", &["compute_uv", "full_matrices"], "[4,5,3]", "[4,3];[4,5,5];[4,3,3]"),
        ("SelfAdjointEigV2", &["compute_v"], "[?,3]", "[3];[3,3]"),
        ("MatrixSolve", &["adjoint"], "[7,?,3];[?,3,2]", "[7,3,2]"),
        ("MatrixSolveLs", &["fast"], "[5,3];[5,2];[]", "[3,2]"),
        ("MatrixTriangularSolve", &["lower", "adjoint"], "[4,1,3,3];[2,3,5]", "[4,2,3,5]"),
        ("MatrixDeterminant", &[], "[4,3,3]", "[4]"),
    ];
    for (op, flags, inputs, expected) in cases {
        assert_eq!(infer(&registry(), op, &attrs(flags), inputs, &[]).unwrap(), expected, "{op}");
    }
    let real =
        [("Treal", AttrValue::Type(DType::FLOAT)), ("Tcomplex", AttrValue::Type(DType::COMPLEX64))];
    let lengths = [(1, tensor(&[2], &[4i32, 6]))];
    let infer = |constants: &[(usize, Tensor)]| {
        infer(&registry(), "RFFT2D", &real, "[3,4,8];[2]", constants).unwrap()
    };
    assert_eq!(infer(&lengths), "[3,4,4]");
    assert_eq!(infer(&[]), "[3,?,?]");
}
