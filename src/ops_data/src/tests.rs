//! Pipelines of several ops, as graphs have them. The order of shuffled elements is the reference's.

use tfcore_base::{Code, DType, Result};
use tfcore_framework::testing::{registry_of, run_op_in, step, tensor};
use tfcore_framework::{
    AttrList, AttrValue, Attrs, Callable, Caller, FunctionLookup, Registry, Step,
};
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

/// The functions `tens(n)`, a dataset of the numbers `10 n .. 11 n`, and `double(n)`.
struct Functions;

struct Function(String);

impl FunctionLookup for Functions {
    fn function(&self, name: &str, _: &Attrs, _: &str) -> Result<Arc<dyn Callable>> {
        Ok(Arc::new(Function(name.to_string())))
    }

    fn threads(&self) -> usize {
        2
    }
}

impl Callable for Function {
    fn name(&self) -> &str {
        &self.0
    }

    fn call(&self, args: Vec<Tensor>, _: &Caller) -> Result<Vec<Tensor>> {
        let n: i64 = args[0].scalar_value()?;
        match self.0.as_str() {
            "tens" => Ops::new().run("RangeDataset", &[], &[10 * n, 11 * n, 1].map(Tensor::scalar)),
            _ => Ok(vec![Tensor::scalar(2 * n)]),
        }
    }
}

/// A dataset op with the function `f`.
fn with_function(ops: &Ops, op: &str, f: &str, inputs: &[Tensor]) -> Tensor {
    let attrs = [("f", AttrValue::func(f, Attrs::new())), ("Targuments", AttrValue::types([]))];
    ops.run(op, &attrs, inputs).unwrap().remove(0)
}

fn ops_with_functions() -> Ops {
    let mut ops = Ops::new();
    ops.step = Arc::new(Step {
        device: ops.step.device.clone(),
        functions: Some(Arc::new(Functions)),
        ..Step::default()
    });
    ops
}

fn slices(ops: &Ops, values: &[i64]) -> Tensor {
    let attrs = [("Toutput_types", AttrValue::types([DType::INT64])), shapes()];
    let values = vec![tensor(&[values.len() as i64], values)];
    run_op_in(&ops.step, &ops.registry, "TensorSliceDataset", &attrs, values).unwrap().remove(0)
}

/// The orders are the reference's.
#[test]
fn datasets_in_turn() {
    let ops = ops_with_functions();
    let numbers = slices(&ops, &[1, 5, 0, 2, 3, 4]);
    for (block, expected) in [
        (1, [10, 50, 51, 52, 20, 53, 21, 54, 30, 40, 31, 41, 32, 42, 43]),
        (2, [10, 50, 51, 52, 53, 20, 21, 54, 30, 31, 40, 41, 32, 42, 43]),
        (3, [10, 50, 51, 52, 53, 54, 20, 21, 30, 31, 32, 40, 41, 42, 43]),
    ] {
        let inputs = [numbers.clone(), Tensor::scalar(2i64), Tensor::scalar::<i64>(block)];
        let dataset = with_function(&ops, "InterleaveDataset", "tens", &inputs);
        assert_eq!(ops.all(&dataset), expected);
    }
    let flat = with_function(&ops, "FlatMapDataset", "tens", &[slices(&ops, &[2, 0, 1])]);
    assert_eq!(ops.all(&flat), [20, 21, 10]);
}

#[test]
fn functions_of_elements() {
    let ops = ops_with_functions();
    let numbers: Vec<i64> = (0..100).collect();
    let doubles: Vec<i64> = (0..100).map(|number| 2 * number).collect();
    let map = with_function(&ops, "MapDataset", "double", &[slices(&ops, &numbers)]);
    assert_eq!(ops.all(&map), doubles);
    let inputs = [slices(&ops, &numbers), Tensor::scalar(3i64)];
    let map = with_function(&ops, "ParallelMapDatasetV2", "double", &inputs);
    assert_eq!(ops.all(&map), doubles);
    assert_eq!(ops.cardinality(&map), -2);
    let prefetched = ops.dataset("PrefetchDataset", &[map, Tensor::scalar(4i64)]);
    assert_eq!(ops.all(&prefetched), doubles);
}

/// As the reference divides them.
#[test]
fn batches_in_parts() {
    let ops = Ops::new();
    let batch = [ops.range(5), Tensor::scalar(5i64), Tensor::scalar(false)];
    let batch = ops.dataset("BatchDatasetV2", &batch);
    let names = [("container", AttrValue::string("")), ("shared_name", AttrValue::string("parts"))];
    let iterator = ops.run("IteratorV2", &names, &[]).unwrap().remove(0);
    let fourths = ops.dataset("RebatchDataset", &[batch.clone(), Tensor::scalar(4i64)]);
    let sizes = [batch, tensor(&[3], &[2i64, 0, 1]), Tensor::scalar(false)];
    let sizes = ops.dataset("RebatchDatasetV2", &sizes);
    for (dataset, expected) in [
        (fourths, vec![vec![0i64, 1], vec![2, 3], vec![4], vec![]]),
        (sizes, vec![vec![0, 1], vec![], vec![2], vec![3, 4], vec![]]),
    ] {
        let inputs = vec![dataset, iterator.clone()];
        run_op_in(&ops.step, &ops.registry, "MakeIterator", &[], inputs).unwrap();
        for part in expected {
            let next = ops.run("IteratorGetNext", &[], std::slice::from_ref(&iterator)).unwrap();
            assert_eq!(next[0].as_slice::<i64>().unwrap(), part);
        }
        let end = ops.run("IteratorGetNext", &[], std::slice::from_ref(&iterator));
        assert_eq!(end.unwrap_err().code(), Code::OutOfRange);
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
