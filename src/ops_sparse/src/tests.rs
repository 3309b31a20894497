//! Sparse and ragged tensors of a few values.

use tfcore_base::{DType, Result};
use tfcore_framework::testing::{floats, infer, registry_of, run_op, tensor};
use tfcore_framework::{AttrValue, Registry};
use tfcore_tensor::Tensor;

fn registry() -> Registry {
    registry_of(crate::register)
}

fn longs(values: &[i64]) -> Tensor {
    tensor(&[values.len() as i64], values)
}

fn pairs(values: &[[i64; 2]]) -> Tensor {
    tensor(&[values.len() as i64, 2], values.as_flattened())
}

const FLOATS: (&str, AttrValue) = ("T", AttrValue::Type(DType::FLOAT));

fn run(op: &str, attrs: &[(&str, AttrValue)], inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    run_op(&registry(), op, attrs, inputs)
}

fn long_values(tensor: &Tensor) -> Vec<i64> {
    tensor.as_slice::<i64>().unwrap().to_vec()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.as_slice::<f32>().unwrap().to_vec()
}

#[test]
fn values_move() {
    let indices = pairs(&[[1, 1], [0, 2]]);
    let (two, shape) = (floats(&[2], &[1.0, 2.0]), longs(&[2, 3]));
    let out =
        run("SparseReorder", &[FLOATS], &[indices.clone(), two.clone(), shape.clone()]).unwrap();
    assert_eq!((long_values(&out[0]), values(&out[1])), (vec![0, 2, 1, 1], vec![2.0, 1.0]));
    let out =
        run("SparseReshape", &[], &[indices.clone(), shape.clone(), longs(&[-1, 2])]).unwrap();
    assert_eq!((long_values(&out[0]), long_values(&out[1])), (vec![2, 0, 1, 0], vec![3, 2]));
    let inputs = [indices.clone(), two.clone(), shape.clone(), longs(&[1, 0]), longs(&[5, 2])];
    let out = run("SparseSlice", &[FLOATS], &inputs).unwrap();
    assert_eq!((long_values(&out[0]), values(&out[1])), (vec![0, 1], vec![1.0]));
    assert_eq!(long_values(&out[2]), [1, 2]);
    let attrs = [FLOATS, ("N", AttrValue::Int(2)), ("concat_dim", AttrValue::Int(-1))];
    let both = |tensor: &Tensor| [tensor.clone(), tensor.clone()];
    let sorted = pairs(&[[0, 2], [1, 1]]);
    let inputs = [both(&sorted), both(&two), both(&shape)].concat();
    let out = run("SparseConcat", &attrs, &inputs).unwrap();
    assert_eq!(long_values(&out[0]), [0, 2, 0, 5, 1, 1, 1, 4]);
    assert_eq!((values(&out[1]), long_values(&out[2])), (vec![1.0, 1.0, 2.0, 2.0], vec![2, 6]));
    let attrs = [FLOATS, ("num_split", AttrValue::Int(2))];
    let out = run("SparseSplit", &attrs, &[Tensor::scalar(1i64), sorted, two, shape]).unwrap();
    assert_eq!((long_values(&out[0]), long_values(&out[1])), (vec![1, 1], vec![0, 0]));
    assert_eq!((long_values(&out[4]), long_values(&out[5])), (vec![2, 2], vec![2, 1]));
}

#[test]
fn empty_rows_are_filled_and_dense_tensors_made() {
    let inputs = [
        pairs(&[[2, 1], [0, 0]]),
        floats(&[2], &[1.0, 2.0]),
        longs(&[3, 2]),
        Tensor::scalar(-1f32),
    ];
    let out = run("SparseFillEmptyRows", &[FLOATS], &inputs).unwrap();
    assert_eq!(long_values(&out[0]), [0, 0, 1, 0, 2, 1]);
    assert_eq!(values(&out[1]), [2.0, -1.0, 1.0]);
    assert_eq!(out[2].as_slice::<bool>().unwrap(), [false, true, false]);
    assert_eq!(long_values(&out[3]), [2, 0]);
    let grads = [out[3].clone(), floats(&[3], &[10.0, 20.0, 30.0])];
    let out = run("SparseFillEmptyRowsGrad", &[FLOATS], &grads).unwrap();
    assert_eq!((values(&out[0]), values(&out[1])), (vec![30.0, 10.0], vec![20.0]));
    let attrs = [FLOATS, ("Tindices", AttrValue::Type(DType::INT64))];
    let dense = |indices: &[[i64; 2]]| {
        let inputs =
            [pairs(indices), longs(&[2, 2]), floats(&[2], &[5.0, 6.0]), Tensor::scalar(0f32)];
        run("SparseToDense", &attrs, &inputs)
    };
    assert_eq!(values(&dense(&[[0, 1], [1, 0]]).unwrap()[0]), [0.0, 5.0, 6.0, 0.0]);
    for (indices, message) in [
        ([[0, 1], [0, 1]], "indices[1] = [0,1] is repeated"),
        ([[0, 1], [2, 0]], "indices[1] = [2,0] is out of bounds: need 0 <= index < [2,2]"),
    ] {
        assert_eq!(dense(&indices).unwrap_err().message(), message);
    }
}

#[test]
fn sparse_arithmetic() {
    let a = [pairs(&[[0, 0], [1, 1]]), floats(&[2], &[1.0, 2.0]), longs(&[2, 2])];
    let b = [pairs(&[[0, 1], [1, 1]]), floats(&[2], &[4.0, -2.0]), longs(&[2, 2])];
    let attrs = [FLOATS, ("Treal", AttrValue::Type(DType::FLOAT))];
    let mut inputs = [a.clone(), b.clone()].concat();
    inputs.push(Tensor::scalar(0.5f32));
    let out = run("SparseAdd", &attrs, &inputs).unwrap();
    assert_eq!((long_values(&out[0]), values(&out[1])), (vec![0, 0, 0, 1], vec![1.0, 4.0]));
    inputs.pop();
    let out = run("SparseSparseMaximum", &[FLOATS], &inputs).unwrap();
    assert_eq!(values(&out[1]), [1.0, 4.0, 2.0]);
    let dense = floats(&[2], &[10.0, 20.0]);
    let with_dense = |op| {
        values(&run(op, &[FLOATS], &[&a[..], std::slice::from_ref(&dense)].concat()).unwrap()[0])
    };
    assert_eq!(with_dense("SparseDenseCwiseMul"), [10.0, 40.0]);
    assert_eq!(with_dense("SparseDenseCwiseDiv"), [0.1, 0.1]);
    let product = [&a[..], &[floats(&[2, 1], &[3.0, 5.0])]].concat();
    assert_eq!(
        values(&run("SparseTensorDenseMatMul", &[FLOATS], &product).unwrap()[0]),
        [3.0, 10.0]
    );
    let reduced = |op, axis: i32| {
        let inputs = [&b[..], &[Tensor::scalar(axis)]].concat();
        run(op, &[FLOATS], &inputs).unwrap()
    };
    assert_eq!(values(&reduced("SparseReduceSum", 0)[0]), [0.0, 2.0]);
    assert_eq!(values(&reduced("SparseReduceMax", 1)[0]), [4.0, -2.0]);
    let out = reduced("SparseReduceSumSparse", 0);
    assert_eq!(
        (long_values(&out[0]), values(&out[1]), long_values(&out[2])),
        (vec![1], vec![2.0], vec![2])
    );
    let same = [pairs(&[[0, 0], [0, 1]]), floats(&[2], &[3.0, 3.0]), longs(&[1, 2])];
    assert_eq!(values(&run("SparseSoftmax", &[FLOATS], &same).unwrap()[0]), [0.5, 0.5]);
}

#[test]
fn ragged_tensors() {
    let attrs = [("T", AttrValue::Type(DType::INT32))];
    let scalars = [Tensor::scalar(0i32), tensor(&[2], &[3i32, 1]), Tensor::scalar(2i32)];
    let out = run("RaggedRange", &attrs, &scalars).unwrap();
    assert_eq!(long_values(&out[0]), [0, 2, 3]);
    assert_eq!(out[1].as_slice::<i32>().unwrap(), [0, 2, 0]);
    let splits = longs(&[0, 2, 2, 3]);
    let three = floats(&[3], &[1.0, 2.0, 3.0]);
    let attrs = [FLOATS, ("RAGGED_RANK", AttrValue::Int(1))];
    let out = run("RaggedTensorToSparse", &attrs, &[splits.clone(), three.clone()]).unwrap();
    assert_eq!((long_values(&out[0]), long_values(&out[2])), (vec![0, 0, 0, 1, 2, 0], vec![3, 2]));
    let attrs = [
        ("Tvalues", AttrValue::Type(DType::FLOAT)),
        ("Tindices", AttrValue::Type(DType::INT64)),
        ("PARAMS_RAGGED_RANK", AttrValue::Int(1)),
        ("OUTPUT_RAGGED_RANK", AttrValue::Int(1)),
    ];
    let out =
        run("RaggedGather", &attrs, &[splits.clone(), three.clone(), longs(&[2, 0])]).unwrap();
    assert_eq!((long_values(&out[0]), values(&out[1])), (vec![0, 1, 3], vec![3.0, 1.0, 2.0]));
    let attrs = [
        FLOATS,
        ("Tindex", AttrValue::Type(DType::INT64)),
        ("Tshape", AttrValue::Type(DType::INT64)),
        ("num_row_partition_tensors", AttrValue::Int(1)),
        ("row_partition_types", AttrValue::strings(["ROW_SPLITS"])),
    ];
    let inputs = [longs(&[-1, 1]), three, Tensor::scalar(9f32), splits];
    assert_eq!(values(&run("RaggedTensorToTensor", &attrs, &inputs).unwrap()[0]), [1.0, 9.0, 3.0]);
    assert_eq!(
        infer(&registry(), "RaggedTensorToTensor", &attrs, "[2];[?];[];[?]", &[]).unwrap(),
        "[?,?]"
    );
}

#[test]
fn counts() {
    let attrs = [
        ("T", AttrValue::Type(DType::INT32)),
        ("output_type", AttrValue::Type(DType::FLOAT)),
        ("binary_output", AttrValue::Bool(false)),
    ];
    let rows = tensor(&[2, 2], &[1i32, 1, 0, 3]);
    let out = run("DenseCountSparseOutput", &attrs, &[rows, floats(&[0], &[])]).unwrap();
    assert_eq!(long_values(&out[0]), [0, 1, 1, 0, 1, 3]);
    assert_eq!((values(&out[1]), long_values(&out[2])), (vec![2.0, 1.0, 1.0], vec![2, 4]));
    let attrs = [FLOATS, ("Tidx", AttrValue::Type(DType::INT32))];
    let inputs = [
        pairs(&[[0, 0], [1, 1]]),
        tensor(&[2], &[1i32, 5]),
        longs(&[2, 2]),
        Tensor::scalar(2i32),
        floats(&[2], &[3.0, 4.0]),
    ];
    assert_eq!(values(&run("SparseBincount", &attrs, &inputs).unwrap()[0]), [0.0, 3.0, 0.0, 0.0]);
}

#[test]
fn matrices_by_rows() {
    let attrs = [FLOATS];
    let entries =
        [pairs(&[[1, 0], [0, 2], [1, 2]]), floats(&[3], &[4.0, 3.0, 5.0]), longs(&[2, 3])];
    let csr = run("SparseTensorToCSRSparseMatrix", &attrs, &entries).unwrap().remove(0);
    let of_type = [("type", AttrValue::Type(DType::FLOAT))];
    let dense = |csr: &Tensor| {
        values(&run("CSRSparseMatrixToDense", &of_type, std::slice::from_ref(csr)).unwrap()[0])
    };
    assert_eq!(dense(&csr), [0.0, 0.0, 3.0, 4.0, 0.0, 5.0]);
    let parts =
        run("CSRSparseMatrixComponents", &of_type, &[csr.clone(), Tensor::scalar(0i32)]).unwrap();
    assert_eq!(parts[0].as_slice::<i32>().unwrap(), [0, 1, 3]);
    assert_eq!(parts[1].as_slice::<i32>().unwrap(), [2, 0, 2]);
    let transposed =
        run("SparseMatrixTranspose", &of_type, std::slice::from_ref(&csr)).unwrap().remove(0);
    assert_eq!(dense(&transposed), [0.0, 4.0, 0.0, 0.0, 3.0, 5.0]);
    let right = floats(&[3, 1], &[1.0, 10.0, 100.0]);
    let product = run("SparseMatrixMatMul", &attrs, &[csr.clone(), right]).unwrap();
    assert_eq!(values(&product[0]), [300.0, 504.0]);
    let both = [csr.clone(), transposed];
    let square = run("SparseMatrixSparseMatMul", &of_type, &both).unwrap().remove(0);
    assert_eq!(dense(&square), [9.0, 15.0, 15.0, 41.0]);
    let nnz = run("SparseMatrixNNZ", &[], &[csr]).unwrap();
    assert_eq!(nnz[0].scalar_value::<i32>().unwrap(), 3);
}

#[test]
fn sparse_tensors_in_strings_and_variants() {
    let entries = [pairs(&[[2, 1], [0, 0]]), floats(&[2], &[1.0, 2.0]), longs(&[3, 2])];
    for out_type in [DType::STRING, DType::VARIANT] {
        let attrs = [FLOATS, ("out_type", AttrValue::Type(out_type))];
        let many = run("SerializeManySparse", &attrs, &entries).unwrap();
        assert_eq!(many[0].shape().dims(), [3, 3]);
        let attrs =
            [("dtype", AttrValue::Type(DType::FLOAT)), ("Tserialized", AttrValue::Type(out_type))];
        let out = run("DeserializeSparse", &attrs, &many).unwrap();
        assert_eq!((long_values(&out[0]), values(&out[1])), (vec![0, 0, 2, 1], vec![2.0, 1.0]));
        assert_eq!(long_values(&out[2]), [3, 2]);
    }
}

#[test]
fn ragged_tensors_in_variants() {
    let attrs = [
        ("Tvalues", AttrValue::Type(DType::FLOAT)),
        ("RAGGED_RANK", AttrValue::Int(1)),
        ("batched_input", AttrValue::Bool(true)),
        ("input_ragged_rank", AttrValue::Int(0)),
        ("output_ragged_rank", AttrValue::Int(1)),
    ];
    let splits = longs(&[0, 2, 2, 3]);
    let inputs = [splits.clone(), floats(&[3], &[1.0, 2.0, 3.0])];
    let encoded = run("RaggedTensorToVariant", &attrs, &inputs).unwrap();
    assert_eq!(encoded[0].shape().dims(), [3]);
    let out = run("RaggedTensorFromVariant", &attrs, &encoded).unwrap();
    assert_eq!((long_values(&out[0]), values(&out[1])), (vec![0, 2, 2, 3], vec![1.0, 2.0, 3.0]));
    let shape = tensor(&[1], &[3i32]);
    let inputs = [encoded[0].clone(), splits, shape];
    let grad = run("RaggedTensorToVariantGradient", &attrs, &inputs).unwrap();
    assert_eq!(values(&grad[0]), [1.0, 2.0, 3.0]);
}

#[test]
fn columns_are_crossed() {
    let texts = |texts: &[&str]| {
        let texts: Vec<tfcore_tensor::TString> = texts.iter().map(|&text| text.into()).collect();
        tensor(&[1, texts.len() as i64], &texts)
    };
    let attrs = [
        ("N", AttrValue::Int(0)),
        ("sparse_types", AttrValue::types([])),
        ("dense_types", AttrValue::types([DType::STRING, DType::INT64])),
    ];
    let separator = Tensor::scalar(tfcore_tensor::TString::from("-"));
    let inputs = [texts(&["a", "b"]), tensor(&[1, 2], &[1i64, 2]), separator];
    let out = run("SparseCrossV2", &attrs, &inputs).unwrap();
    assert_eq!(long_values(&out[0]), [0, 0, 0, 1, 0, 2, 0, 3]);
    let crossed = out[1].as_slice::<tfcore_tensor::TString>().unwrap();
    let expected = ["a-1", "a-2", "b-1", "b-2"].map(tfcore_tensor::TString::from);
    assert_eq!(crossed, expected);
    assert_eq!(long_values(&out[2]), [1, 4]);
}
