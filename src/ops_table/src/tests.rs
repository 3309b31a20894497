//! Tables, as ops see them.

use std::sync::Arc;

use tfcore_base::{DType, Result};
use tfcore_framework::testing::{registry_of, run_op_in, step, tensor};
use tfcore_framework::{AttrValue, Registry, Step};
use tfcore_tensor::{PartialShape, TString, Tensor};

struct Ops {
    registry: Registry,
    step: Arc<Step>,
}

impl Ops {
    fn new() -> Ops {
        Ops { registry: registry_of(crate::register), step: step() }
    }

    fn run(
        &self,
        op: &str,
        attrs: &[(&str, AttrValue)],
        inputs: &[&Tensor],
    ) -> Result<Vec<Tensor>> {
        let inputs = inputs.iter().map(|&input| input.clone()).collect();
        run_op_in(&self.step, &self.registry, op, attrs, inputs)
    }

    fn message(&self, op: &str, attrs: &[(&str, AttrValue)], inputs: &[&Tensor]) -> String {
        self.run(op, attrs, inputs).map_or_else(|e| e.message().to_string(), |_| "none".to_string())
    }
}

fn types(names: [&'static str; 2], key: DType, value: DType) -> [(&'static str, AttrValue); 2] {
    [(names[0], AttrValue::Type(key)), (names[1], AttrValue::Type(value))]
}

fn texts(texts: &[&str]) -> Tensor {
    let texts: Vec<TString> = texts.iter().map(|&text| text.into()).collect();
    tensor(&[texts.len() as i64], &texts)
}

fn longs(values: &[i64]) -> Tensor {
    tensor(&[values.len() as i64], values)
}

const INOUT: [&str; 2] = ["Tin", "Tout"];
const MADE: [&str; 2] = ["key_dtype", "value_dtype"];

#[test]
fn a_table_is_filled_once() {
    let ops = Ops::new();
    let both = |names| types(names, DType::STRING, DType::INT64);
    let table = ops.run("AnonymousHashTable", &both(MADE), &[]).unwrap().remove(0);
    let default = Tensor::scalar(-1i64);
    let find =
        |keys: &Tensor| ops.run("LookupTableFindV2", &both(INOUT), &[&table, keys, &default]);
    assert_eq!(find(&texts(&["a"])).unwrap_err().message(), "Table not initialized.");
    let fill = |keys: &[&str], values: &[i64]| {
        let attrs = both(["Tkey", "Tval"]);
        ops.message("InitializeTableV2", &attrs, &[&table, &texts(keys), &longs(values)])
    };
    assert_eq!(
        fill(&["a", "b", "a"], &[1, 2, 3]),
        "HashTable has different value for same key. Key a has 1 and trying to add value 3"
    );
    assert_eq!(fill(&["a"], &[1, 2]), "Keys and values must have the same size 1 vs 2");
    assert_eq!(fill(&["a", "b", "a"], &[1, 2, 1]), "none");
    assert_eq!(fill(&["c"], &[1]), "Table was already initialized with different data.");
    let found = find(&texts(&["b", "z", "a"])).unwrap();
    assert_eq!(found[0].as_slice::<i64>().unwrap(), [2, -1, 1]);
    let attrs = types(INOUT, DType::INT64, DType::INT64);
    assert_eq!(
        ops.message("LookupTableFindV2", &attrs, &[&table, &longs(&[1]), &default]),
        "Signature mismatch, have: resource, int64, int64->int64 expected: resource, string, int64->int64"
    );
    let exported = ops.run("LookupTableExportV2", &both(["Tkeys", "Tvalues"]), &[&table]).unwrap();
    assert_eq!(exported[0].as_slice::<TString>().unwrap(), texts(&["a", "b"]).as_slice().unwrap());
    assert_eq!(exported[1].as_slice::<i64>().unwrap(), [1, 2]);
}

#[test]
fn tables_of_vectors_change() {
    let ops = Ops::new();
    let both = |names| types(names, DType::INT64, DType::INT64);
    let mut attrs = both(MADE).to_vec();
    attrs.push(("value_shape", AttrValue::shape(PartialShape::vector(2))));
    let table = ops.run("AnonymousMutableHashTableOfTensors", &attrs, &[]).unwrap().remove(0);
    let rows = tensor(&[2, 2], &[1i64, 2, 3, 4]);
    ops.run("LookupTableInsertV2", &both(INOUT), &[&table, &longs(&[7, 8]), &rows]).unwrap();
    ops.run(
        "LookupTableRemoveV2",
        &[("Tin", AttrValue::Type(DType::INT64))],
        &[&table, &longs(&[7, 9])],
    )
    .unwrap();
    let row = tensor(&[1, 2], &[5i64, 6]);
    ops.run("LookupTableInsertV2", &both(INOUT), &[&table, &longs(&[9]), &row]).unwrap();
    let find = |default: &Tensor| {
        ops.run("LookupTableFindV2", &both(INOUT), &[&table, &longs(&[7, 8, 9]), default])
    };
    let found = find(&longs(&[0, -1])).unwrap();
    assert_eq!(found[0].as_slice::<i64>().unwrap(), [0, -1, 3, 4, 5, 6]);
    let found = find(&tensor(&[3, 2], &[10i64, 11, 12, 13, 14, 15])).unwrap();
    assert_eq!(found[0].as_slice::<i64>().unwrap(), [10, 11, 3, 4, 5, 6]);
    assert_eq!(
        find(&longs(&[1])).unwrap_err().message(),
        "Expected shape [2] or [3,2] for default value, got [1]"
    );
    let size = ops.run("LookupTableSizeV2", &[], &[&table]).unwrap();
    assert_eq!(size[0].scalar_value::<i64>().unwrap(), 2);
}

/// The places of integers follow from the number of buckets by hand: they are its remainders, with steps of 1, 2, 3 on collisions.
#[test]
fn buckets_are_seen() {
    let ops = Ops::new();
    let both = |names| types(names, DType::INT64, DType::INT64);
    let mut attrs = both(MADE).to_vec();
    attrs.push(("initial_num_buckets", AttrValue::Int(4)));
    let (empty, deleted) = (Tensor::scalar(-1i64), Tensor::scalar(-2i64));
    let table =
        ops.run("AnonymousMutableDenseHashTable", &attrs, &[&empty, &deleted]).unwrap().remove(0);
    let insert = |keys: &[i64], values: &[i64]| {
        ops.message("LookupTableInsertV2", &both(INOUT), &[&table, &longs(keys), &longs(values)])
    };
    let keys = || {
        let exported =
            ops.run("LookupTableExportV2", &both(["Tkeys", "Tvalues"]), &[&table]).unwrap();
        assert_eq!(exported[0].shape(), exported[1].shape());
        exported[0].as_slice::<i64>().unwrap().to_vec()
    };
    assert_eq!(insert(&[5, 1], &[50, 10]), "none");
    assert_eq!(keys(), [-1, 5, 1, -1]);
    assert_eq!(insert(&[9, 3], &[90, 30]), "none");
    assert_eq!(
        keys(),
        [-1, 9, 1, 3, -1, 5, -1, -1].map(|key| if key == 9 {
            1
        } else if key == 1 {
            9
        } else {
            key
        })
    );
    ops.run(
        "LookupTableRemoveV2",
        &[("Tin", AttrValue::Type(DType::INT64))],
        &[&table, &longs(&[1])],
    )
    .unwrap();
    assert_eq!(keys(), [-1, -2, 9, 3, -1, 5, -1, -1]);
    assert_eq!(insert(&[-1], &[0]), "Using the empty_key as a table key is not allowed");
    let found =
        ops.run("LookupTableFindV2", &both(INOUT), &[&table, &longs(&[9, 1, 5]), &empty]).unwrap();
    assert_eq!(found[0].as_slice::<i64>().unwrap(), [90, -1, 50]);
}
