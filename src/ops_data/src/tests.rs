//! Pipelines of several ops, as graphs have them. The order of shuffled elements is the reference's.

use tfcore_base::{Code, DType, Result};
use tfcore_framework::testing::{registry_of, run_op_in, step, tensor};
use tfcore_framework::{AttrList, AttrValue, Registry, Step};
use tfcore_tensor::{PartialShape, Tensor};

use std::sync::Arc;

struct Ops {
    registry: Registry,
    step: Arc<Step>,
}

fn types() -> (&'static str, AttrValue) {
    ("output_types", AttrValue::types([DType::INT64]))
}

fn shapes() -> (&'static str, AttrValue) {
    ("output_shapes", AttrValue::list(AttrList::Shape(vec![PartialShape::unknown()])))
}

impl Ops {
    fn new() -> Ops {
        Ops { registry: registry_of(crate::register), step: step() }
    }

    fn run(&self, op: &str, more: &[(&str, AttrValue)], inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let attrs = [&[types(), shapes()], more].concat();
        run_op_in(&self.step, &self.registry, op, &attrs, inputs.to_vec())
    }

    fn dataset(&self, op: &str, inputs: &[Tensor]) -> Tensor {
        self.run(op, &[], inputs).unwrap().remove(0)
    }

    fn range(&self, stop: i64) -> Tensor {
        self.dataset("RangeDataset", &[0, stop, 1].map(Tensor::scalar::<i64>))
    }

    /// The elements of a dataset of scalars.
    fn all(&self, dataset: &Tensor) -> Vec<i64> {
        let inputs = [dataset.clone(), Tensor::scalar(1000i64), Tensor::scalar(false)];
        let batch = self.dataset("BatchDatasetV2", &inputs);
        let single = self.run("DatasetToSingleElement", &[], &[batch]).unwrap().remove(0);
        single.as_slice::<i64>().unwrap().to_vec()
    }

    fn cardinality(&self, dataset: &Tensor) -> i64 {
        let found =
            run_op_in(&self.step, &self.registry, "DatasetCardinality", &[], vec![dataset.clone()]);
        found.unwrap()[0].scalar_value().unwrap()
    }
}

#[test]
fn parts_of_sequences() {
    let ops = Ops::new();
    let count = |op: &str, input: &Tensor, count: i64| {
        ops.dataset(op, &[input.clone(), Tensor::scalar(count)])
    };
    let four = ops.range(4);
    for (op, number, expected) in [
        ("TakeDataset", 2, vec![0, 1]),
        ("TakeDataset", -1, vec![0, 1, 2, 3]),
        ("SkipDataset", 3, vec![3]),
        ("RepeatDataset", 2, vec![0, 1, 2, 3, 0, 1, 2, 3]),
    ] {
        let dataset = count(op, &four, number);
        assert_eq!(ops.all(&dataset), expected, "{op} {number}");
        assert_eq!(ops.cardinality(&dataset), expected.len() as i64, "{op} {number}");
    }
    assert_eq!(ops.cardinality(&count("RepeatDataset", &four, -1)), -1);
    assert_eq!(ops.cardinality(&count("SkipDataset", &four, -1)), 0);
    let shard = [four.clone(), Tensor::scalar(3i64), Tensor::scalar(0i64)];
    let shard = ops.run("ShardDataset", &[], &shard).unwrap().remove(0);
    assert_eq!(ops.all(&shard), [0, 3]);
    let both = ops.dataset("ConcatenateDataset", &[shard, four]);
    assert_eq!(ops.all(&both), [0, 3, 0, 1, 2, 3]);
}

#[test]
fn an_empty_dataset_is_not_repeated_without_end() {
    let ops = Ops::new();
    let forever = ops.dataset("RepeatDataset", &[ops.range(0), Tensor::scalar(-1i64)]);
    assert_eq!(ops.cardinality(&forever), 0);
    let single = ops.run("DatasetToSingleElement", &[], &[forever]);
    assert_eq!(single.unwrap_err().message(), "Dataset was empty.");
}

#[test]
fn shuffles_are_in_the_order_of_the_reference() {
    let ops = Ops::new();
    let inputs = [4i64, 5, 7].map(Tensor::scalar);
    let inputs = [&[ops.range(10)], &inputs[..]].concat();
    for (reshuffle, expected) in
        [(false, [2, 4, 5, 3, 7, 0, 6, 1, 8, 9]), (true, [3, 1, 4, 5, 7, 8, 9, 2, 0, 6])]
    {
        let attr = ("reshuffle_each_iteration", AttrValue::Bool(reshuffle));
        let dataset = ops.run("ShuffleDataset", &[attr], &inputs).unwrap().remove(0);
        assert_eq!(ops.all(&dataset), expected);
        if reshuffle {
            assert_eq!(ops.all(&dataset), [2, 0, 1, 6, 4, 5, 9, 7, 8, 3]);
        }
    }
}

#[test]
fn windows_overlap_and_jump() {
    let ops = Ops::new();
    for (size, shift, stride, expected) in [
        (2, 1, 1, vec![0, 1, 1, 2, 2, 3, 3, 4]),
        (2, 3, 1, vec![0, 1, 3, 4]),
        (2, 1, 2, vec![0, 2, 1, 3, 2, 4]),
    ] {
        let numbers = [size, shift, stride].map(Tensor::scalar::<i64>);
        let inputs = [&[ops.range(5)], &numbers[..]].concat();
        let windows = ops.dataset("SlidingWindowDataset", &inputs);
        assert_eq!(ops.cardinality(&windows), expected.len() as i64 / 2);
        let rows = ops.dataset("UnbatchDataset", &[windows]);
        assert_eq!(ops.all(&rows), expected);
    }
}

#[test]
fn iterators_end_and_begin_again() {
    let ops = Ops::new();
    let names = [("container", AttrValue::string("")), ("shared_name", AttrValue::string("it"))];
    let iterator = ops.run("IteratorV2", &names, &[]).unwrap().remove(0);
    let next = || ops.run("IteratorGetNext", &[], std::slice::from_ref(&iterator));
    assert_eq!(next().unwrap_err().code(), Code::FailedPrecondition);
    for _ in 0..2 {
        let inputs = vec![ops.range(2), iterator.clone()];
        run_op_in(&ops.step, &ops.registry, "MakeIterator", &[], inputs).unwrap();
        for expected in 0..2 {
            assert_eq!(next().unwrap()[0].scalar_value::<i64>().unwrap(), expected);
        }
        for _ in 0..2 {
            let end = next().unwrap_err();
            assert_eq!((end.code(), end.message()), (Code::OutOfRange, "End of sequence"));
        }
    }
}

#[test]
fn only_elements_that_are_new() {
    let ops = Ops::new();
    let attrs = [("Toutput_types", AttrValue::types([DType::INT64])), shapes()];
    let values = vec![tensor(&[5], &[3i64, 1, 3, 2, 1])];
    let slices = run_op_in(&ops.step, &ops.registry, "TensorSliceDataset", &attrs, values);
    let unique = ops.dataset("UniqueDataset", &[slices.unwrap().remove(0)]);
    assert_eq!(ops.all(&unique), [3, 1, 2]);
}

#[test]
fn pipelines_may_be_long_but_not_without_measure() {
    let ops = Ops::new();
    let mut dataset = ops.range(3);
    let error = loop {
        match ops.run("TakeDataset", &[], &[dataset.clone(), Tensor::scalar(-1i64)]) {
            Ok(mut made) => dataset = made.remove(0),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert_eq!(
        ops.run("DatasetToSingleElement", &[], &[dataset]).unwrap_err().message(),
        "Dataset had more than one element."
    );
}

#[test]
fn shared_inputs_are_asked_once() {
    let ops = Ops::new();
    let mut dataset = ops.range(1);
    for _ in 0..62 {
        dataset = ops.dataset("ConcatenateDataset", &[dataset.clone(), dataset]);
    }
    assert_eq!(ops.cardinality(&dataset), 1 << 62);
    let fingerprint = |dataset: &Tensor| {
        let inputs = vec![dataset.clone()];
        run_op_in(&ops.step, &ops.registry, "DatasetFingerprint", &[], inputs).unwrap()[0]
            .scalar_value::<u64>()
            .unwrap()
    };
    assert_eq!(fingerprint(&dataset), fingerprint(&dataset));
    assert_ne!(fingerprint(&ops.range(1)), fingerprint(&ops.range(2)));
}
