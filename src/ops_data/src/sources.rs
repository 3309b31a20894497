//! Datasets made of tensors and numbers.

use std::sync::Arc;

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::Registry;
use tfcore_tensor::{Shape, Tensor};

use crate::args::{Args, dataset_kernel, handle_shape};
use crate::dataset::{Element, Elements, INFINITE, Iter, IterContext, Rule, at_index};
use crate::random::{Seeds, Words};
use crate::rows::row;

pub(crate) fn register(r: &mut Registry) {
    // `TensorDataset(components: Toutput_types) -> handle`, one element.
    r.op("TensorDataset").shape(handle_shape).cpu(|init| {
        dataset_kernel(init, |args| Ok(Arc::new(Elements(vec![args.tensors("components")?]))))
    });
    // `TensorSliceDataset(components: Toutput_types) -> handle`, the rows of the components.
    r.op("TensorSliceDataset").shape(handle_shape).cpu(|init| dataset_kernel(init, slices));
    // `ListDataset(tensors: Tinput_types) -> handle`, elements one after the other.
    r.op("ListDataset").shape(handle_shape).cpu(|init| dataset_kernel(init, list));
    // `RangeDataset(start: int64, stop: int64, step: int64) -> handle`.
    r.op("RangeDataset").shape(handle_shape).cpu(|init| dataset_kernel(init, range));
    // `RandomDataset(seed: int64, seed2: int64) -> handle`, words of 32 bits without end.
    r.ops(["RandomDataset", "RandomDatasetV2"], |op| {
        op.shape(handle_shape).cpu(|init| dataset_kernel(init, random));
    });
    // `SparseTensorSliceDataset(indices: int64, values: Tvalues, dense_shape: int64) -> handle`.
    r.op("SparseTensorSliceDataset").shape(handle_shape).cpu(|init| dataset_kernel(init, sparse));
    // `WindowOp(inputs: Tinputs) -> handle`, what a window of elements is made of.
    r.op("WindowOp").shape(handle_shape).cpu(|init| dataset_kernel(init, window));
}

struct Slices(Vec<Tensor>);

fn slices(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let components = args.tensors("components")?;
    require!(!components.is_empty(), "TensorSliceDataset needs a component");
    for component in &components {
        require!(component.rank() > 0, "All components must be at least 1-dimensional");
        require!(
            component.dim(0) == components[0].dim(0),
            "All components must have the same size in the 0th dimension"
        );
    }
    Ok(Arc::new(Slices(components)))
}

impl Rule for Slices {
    fn cardinality(&self) -> i64 {
        self.0[0].dim(0) as i64
    }

    fn iterate(self: Arc<Self>, _: &IterContext) -> Result<Iter> {
        let mut next = 0;
        Iter::new(move |_| {
            if next == self.0[0].dim(0) {
                return Ok(None);
            }
            next += 1;
            self.element(next - 1).map(Some)
        })
    }

    fn at(&self, index: u64, _: &IterContext) -> Option<Result<Element>> {
        let rows = self.0[0].dim(0);
        Some(match usize::try_from(index) {
            Ok(index) if index < rows => self.element(index),
            _ => at_index(&[], index).map_err(|error| {
                error.with_message(format!("Index out of range [0, {rows}):{index}"))
            }),
        })
    }
}

impl Slices {
    fn element(&self, index: usize) -> Result<Element> {
        self.0.iter().map(|component| row(component, index)).collect()
    }
}

fn list(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let tensors = args.tensors("tensors")?;
    let width = args.attrs().dtypes("output_types")?.len().max(1);
    require!(
        tensors.len().is_multiple_of(width),
        "{} tensors are no whole number of elements of {width} components",
        tensors.len()
    );
    Ok(Arc::new(Elements(tensors.chunks(width).map(<[Tensor]>::to_vec).collect())))
}

#[derive(Clone, Copy)]
struct Range {
    start: i64,
    step: i64,
    count: u64,
    dtype: DType,
}

fn range(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let (start, stop) = (args.scalar::<i64>("start")?, args.scalar::<i64>("stop")?);
    let step: i64 = args.scalar("step")?;
    require!(step != 0, "step must be a non-zero integer.");
    let distance = match step > 0 {
        true => i128::from(stop) - i128::from(start),
        false => i128::from(start) - i128::from(stop),
    };
    let step_size = i128::from(step).abs();
    let count = if distance <= 0 { 0 } else { (distance + step_size - 1) / step_size };
    let dtype = args.attrs().dtypes("output_types")?.first().copied().unwrap_or(DType::INT64);
    // At most 2^64 - 1 elements: the distance of two numbers of 64 bits.
    Ok(Arc::new(Range { start, step, count: count as u64, dtype }))
}

impl Rule for Range {
    fn cardinality(&self) -> i64 {
        i64::try_from(self.count).unwrap_or(i64::MAX)
    }

    fn iterate(self: Arc<Self>, _: &IterContext) -> Result<Iter> {
        let mut next = 0;
        Iter::new(move |_| {
            if next == self.count {
                return Ok(None);
            }
            next += 1;
            self.element(next - 1).map(Some)
        })
    }

    fn at(&self, index: u64, _: &IterContext) -> Option<Result<Element>> {
        Some(match index < self.count {
            true => self.element(index),
            false => {
                Err(tfcore_base::out_of_range!("Index out of range [0, {}):{index}", self.count))
            }
        })
    }
}

impl Range {
    fn element(&self, index: u64) -> Result<Element> {
        let value = self.start.wrapping_add(self.step.wrapping_mul(index as i64));
        Ok(vec![integer(value, self.dtype)?])
    }
}

/// A scalar of a number type.
fn integer(value: i64, dtype: DType) -> Result<Tensor> {
    Ok(match dtype {
        DType::INT64 => Tensor::scalar(value),
        DType::INT32 => Tensor::scalar(value as i32),
        DType::INT16 => Tensor::scalar(value as i16),
        DType::INT8 => Tensor::scalar(value as i8),
        DType::UINT8 => Tensor::scalar(value as u8),
        DType::UINT16 => Tensor::scalar(value as u16),
        DType::UINT32 => Tensor::scalar(value as u32),
        DType::UINT64 => Tensor::scalar(value as u64),
        DType::FLOAT => Tensor::scalar(value as f32),
        DType::DOUBLE => Tensor::scalar(value as f64),
        other => return Err(invalid!("Unsupported data type: {other}")),
    })
}

struct Random {
    seeds: Arc<Seeds>,
    dtype: DType,
}

fn random(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let reseeds = args.attrs().bool("rerandomize_each_iteration").unwrap_or(false);
    let seeds = Seeds::of_node(args, reseeds)?;
    let dtype = args.attrs().dtypes("output_types")?.first().copied().unwrap_or(DType::INT64);
    Ok(Arc::new(Random { seeds, dtype }))
}

impl Rule for Random {
    fn cardinality(&self) -> i64 {
        INFINITE
    }

    fn iterate(self: Arc<Self>, _: &IterContext) -> Result<Iter> {
        let mut words = Words::new(self.seeds.next());
        Iter::new(move |_| Ok(Some(vec![integer(i64::from(words.next()), self.dtype)?])))
    }
}

/// The slices of a sparse tensor along its first dimension, as sparse tensors.
struct SparseSlices {
    /// `[entries, rank]`, in order of the first column.
    indices: Tensor,
    values: Tensor,
    shape: Vec<i64>,
}

fn sparse(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let (indices, values) = (args.tensor("indices")?.clone(), args.tensor("values")?.clone());
    let shape = args.tensor("dense_shape")?.clone();
    require!(
        indices.rank() == 2,
        "Input indices should be a matrix but received shape {}",
        indices.shape()
    );
    require!(
        values.rank() == 1,
        "Input values should be a vector but received shape {}",
        values.shape()
    );
    require!(
        shape.rank() == 1,
        "Input shape should be a vector but received shape {}",
        shape.shape()
    );
    require!(
        indices.dim(0) == values.dim(0),
        "Number of values must match first dimension of indices. Got {} values, indices shape: {}",
        values.dim(0),
        indices.shape()
    );
    require!(
        indices.dim(1) == shape.dim(0),
        "Number of dimensions must match second dimension of indices. Got {} dimensions, indices shape: {}",
        shape.dim(0),
        indices.shape()
    );
    require!(shape.dim(0) > 0, "The shape argument requires at least one element.");
    let rank = indices.dim(1);
    let dims = shape.as_slice::<i64>()?.to_vec();
    require!(dims.iter().all(|&size| size >= 0), "Dimensions must be non-negative");
    let mut previous = 0;
    for row in indices.as_slice::<i64>()?.chunks(rank) {
        require!(
            row[0] >= previous && row[0] < dims[0],
            "The SparseTensor must be ordered in the batch dimension; handling arbitrarily ordered input is not \
             currently supported."
        );
        previous = row[0];
    }
    Ok(Arc::new(SparseSlices { indices, values, shape: dims }))
}

impl Rule for SparseSlices {
    fn cardinality(&self) -> i64 {
        self.shape[0]
    }

    fn iterate(self: Arc<Self>, _: &IterContext) -> Result<Iter> {
        let (mut slice, mut entry) = (0, 0);
        Iter::new(move |_| {
            if slice == self.shape[0] {
                return Ok(None);
            }
            let rank = self.shape.len();
            let rows = self.indices.as_slice::<i64>()?;
            let begin = entry;
            while entry < self.indices.dim(0) && rows[entry * rank] == slice {
                entry += 1;
            }
            slice += 1;
            let inner: Vec<i64> = (begin..entry)
                .flat_map(|at| rows[at * rank + 1..(at + 1) * rank].iter().copied())
                .collect();
            let size = [(entry - begin) as i64, rank as i64 - 1];
            Ok(Some(vec![
                Tensor::from_slice(Shape::new(&size)?, &inner)?,
                crate::rows::rows(&self.values, begin, entry)?,
                Tensor::from_slice(Shape::vector(rank - 1), &self.shape[1..])?,
            ]))
        })
    }
}

/// Inputs that are not enough for an element are left out.
fn window(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let inputs = args.tensors("inputs")?;
    let dtypes = args.attrs().dtypes("output_types")?;
    let elements = inputs.chunks_exact(dtypes.len().max(1)).map(<[Tensor]>::to_vec);
    let elements: Vec<Element> = elements.collect();
    elements.iter().try_for_each(|element| crate::iterators::check(dtypes, element))?;
    Ok(Arc::new(Elements(elements)))
}
