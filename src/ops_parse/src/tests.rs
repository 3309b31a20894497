//! Examples, written out byte by byte.

use tfcore_base::{DType, Result};
use tfcore_framework::testing::{infer, registry_of, run_op, tensor};
use tfcore_framework::{AttrValue, Registry};
use tfcore_tensor::{PartialShape, TString, Tensor};

fn registry() -> Registry {
    registry_of(crate::register)
}

/// A field with bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, content.len() as u8], content].concat()
}

fn entry(key: &str, feature: &[u8]) -> Vec<u8> {
    field(1, &[field(1, key.as_bytes()), field(2, feature)].concat())
}

fn ints(values: &[u8]) -> Vec<u8> {
    field(3, &field(1, values))
}

fn floats(values: &[f32]) -> Vec<u8> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    field(2, &field(1, &bytes))
}

fn example(entries: &[Vec<u8>]) -> TString {
    TString::from(&*field(1, &entries.concat()))
}

fn texts(texts: &[&str]) -> Tensor {
    let texts: Vec<TString> = texts.iter().map(|&text| text.into()).collect();
    tensor(&[texts.len() as i64], &texts)
}

fn example_attrs() -> Vec<(&'static str, AttrValue)> {
    vec![
        ("num_sparse", AttrValue::Int(1)),
        ("sparse_types", AttrValue::types([DType::INT64])),
        ("Tdense", AttrValue::types([DType::FLOAT])),
        (
            "dense_shapes",
            AttrValue::list(tfcore_framework::AttrList::Shape(vec![
                PartialShape::from_i64s(&[2]).unwrap(),
            ])),
        ),
        ("ragged_value_types", AttrValue::types([DType::INT64])),
        ("ragged_split_types", AttrValue::types([DType::INT32])),
    ]
}

fn parse(serialized: Tensor, default: &[f32]) -> Result<Vec<Tensor>> {
    let default = tensor(&[default.len() as i64], default);
    let inputs = [serialized, texts(&[]), texts(&["s"]), texts(&["d"]), texts(&["s"]), default];
    run_op(&registry(), "ParseExampleV2", &example_attrs(), &inputs)
}

#[test]
fn features_become_tensors() {
    let batch = [
        example(&[entry("s", &ints(&[5, 6])), entry("d", &floats(&[1.0, 2.0]))]),
        example(&[entry("x", &ints(&[9])), entry("s", &ints(&[1])), entry("s", &ints(&[7]))]),
    ];
    let out = parse(tensor(&[2], &batch), &[8.0, 9.0]).unwrap();
    assert_eq!(out[0].as_slice::<i64>().unwrap(), [0, 0, 0, 1, 1, 0]);
    assert_eq!(out[1].as_slice::<i64>().unwrap(), [5, 6, 7]);
    assert_eq!(out[2].as_slice::<i64>().unwrap(), [2, 2]);
    assert_eq!(out[3].as_slice::<f32>().unwrap(), [1.0, 2.0, 8.0, 9.0]);
    assert_eq!(out[4].as_slice::<i64>().unwrap(), [5, 6, 7]);
    assert_eq!(out[5].as_slice::<i32>().unwrap(), [0, 2, 3]);
    let message = |batch: &[TString]| {
        parse(tensor(&[batch.len() as i64], batch), &[]).unwrap_err().message().to_string()
    };
    assert_eq!(
        message(&batch),
        "Name: <unknown>, Feature: d (data type: float) is required but could not be found."
    );
    assert_eq!(
        message(&[example(&[entry("d", &floats(&[1.0]))])]),
        "Name: <unknown>, Key: d, Index: 0.  Number of float values != expected.  Values size: 1 but output \
         shape: [2]"
    );
    assert_eq!(
        message(&[example(&[entry("s", &floats(&[1.0]))])]),
        "Name: <unknown>, Key: s, Index: 0.  Data types don't match. Expected type: int64, Actual type: float"
    );
    let one = parse(tensor(&[], &batch[..1]), &[]).unwrap();
    assert_eq!(one[0].shape().dims(), [2, 1]);
    assert_eq!(one[3].shape().dims(), [2]);
    let shapes =
        infer(&registry(), "ParseExampleV2", &example_attrs(), "[3];?;?;?;?;?", &[]).unwrap();
    assert_eq!(shapes, "[?,2];[?];[2];[3,2];[?];[4]");
}

/// Every prefix and every changed byte of an example is parsed or refused.
#[test]
fn damaged_examples_do_no_harm() {
    let whole = example(&[entry("s", &ints(&[0x85, 1])), entry("d", &floats(&[1.0, 2.0]))]);
    let bytes = whole.as_bytes();
    for end in 0..bytes.len() {
        let _ = parse(tensor(&[1], &[TString::from(&bytes[..end])]), &[0.0, 0.0]);
    }
    for at in 0..bytes.len() {
        for change in [1, 0x80, 0xff] {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= change;
            let _ = parse(tensor(&[1], &[TString::from(&*damaged)]), &[0.0, 0.0]);
        }
    }
}

#[test]
fn csv_has_quotes_and_defaults() {
    let attrs = [("OUT_TYPE", AttrValue::types([DType::INT32, DType::STRING]))];
    let run = |record: &str| {
        let inputs = [texts(&[record]), tensor(&[1], &[7i32]), texts(&[])];
        run_op(&registry(), "DecodeCSV", &attrs, &inputs)
    };
    let out = run("1,\"a,\"\"b\"").unwrap();
    assert_eq!(out[0].as_slice::<i32>().unwrap(), [1]);
    assert_eq!(out[1].as_slice::<TString>().unwrap(), [TString::from("a,\"b")]);
    assert_eq!(run(",x").unwrap()[0].as_slice::<i32>().unwrap(), [7]);
    for (record, message) in [
        ("1", "Expect 2 fields but have 1 in record 0"),
        ("1,", "Field 1 is required but missing in record 0!"),
        ("x,y", "Field 0 in record 0 is not a valid int32: x"),
        ("1,\"a", "Quoted field has to end with quote followed by delim or end"),
        ("1,a\"", "Unquoted fields cannot have quotes/CRLFs inside"),
    ] {
        assert_eq!(run(record).unwrap_err().message(), message);
    }
}

#[test]
fn json_becomes_bytes() {
    let json = r#"{"features": {"feature": {"s": {"int64List": {"value": ["5", 6]}}}}}"#;
    let out = run_op(&registry(), "DecodeJSONExample", &[], &[texts(&[json, "{}"])]).unwrap();
    // The integers stand by themselves.
    let list = field(3, &[1 << 3, 5, 1 << 3, 6]);
    let expected = [example(&[entry("s", &list)]), TString::new()];
    assert_eq!(out[0].as_slice::<TString>().unwrap(), expected);
    let error = run_op(&registry(), "DecodeJSONExample", &[], &[texts(&["{bad"])]).unwrap_err();
    assert_eq!(error.message(), "Error while parsing JSON: unexpected EOF");
}

#[test]
fn tensors_are_messages() {
    let attrs = [("T", AttrValue::Type(DType::INT16))];
    let scalar = Tensor::scalar(258i16);
    let out = run_op(&registry(), "SerializeTensor", &attrs, &[scalar]).unwrap();
    let bytes = out[0].scalar_value::<TString>().unwrap();
    // dtype 5, an empty shape, two bytes of content.
    assert_eq!(bytes.as_bytes(), [0x08, 5, 0x12, 0, 0x22, 2, 2, 1]);
    let parse =
        |dtype| run_op(&registry(), "ParseTensor", &[("out_type", AttrValue::Type(dtype))], &out);
    assert_eq!(parse(DType::INT16).unwrap()[0].scalar_value::<i16>().unwrap(), 258);
    assert_eq!(
        parse(DType::INT32).unwrap_err().message(),
        "Type mismatch between parsed tensor (int16) and dtype (int32)"
    );
}
