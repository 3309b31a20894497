//! Datasets whose elements are made of several elements, or of parts of one: batches and windows.

use std::collections::VecDeque;
use std::sync::Arc;

use tfcore_base::{Result, invalid, out_of_range, require};
use tfcore_framework::Registry;
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::args::{Args, Build, dataset_kernel, handle_shape};
use crate::compress::tensor_variant;
use crate::dataset::{
    Dataset, Element, Elements, Handle, Iter, IterContext, Rule, UNKNOWN, batched, only,
};
use crate::rows::{padded, rows, stacked, variants};

pub(crate) fn register(r: &mut Registry) {
    for (name, build) in [
        // `BatchDatasetV2(input_dataset: variant, batch_size: int64, drop_remainder: bool) -> handle`.
        ("BatchDataset", batch as Build),
        ("BatchDatasetV2", batch),
        ("ParallelBatchDataset", batch),
        // `PaddedBatchDatasetV2(input_dataset: variant, batch_size: int64, padded_shapes: N * int64,
        // padding_values: Toutput_types, drop_remainder: bool) -> handle`.
        ("PaddedBatchDataset", padded_batch),
        ("PaddedBatchDatasetV2", padded_batch),
        // `DenseToSparseBatchDataset(input_dataset: variant, batch_size: int64, row_shape: int64) -> handle`.
        ("DenseToSparseBatchDataset", dense_to_sparse),
        ("ExperimentalDenseToSparseBatchDataset", dense_to_sparse),
        // `WindowDataset(input_dataset: variant, size: int64, shift: int64, stride: int64,
        // drop_remainder: bool) -> handle`, datasets of elements.
        ("WindowDataset", window),
        // `SlidingWindowDataset(input_dataset: variant, window_size: int64, window_shift: int64,
        // window_stride: int64) -> handle`, batches of elements.
        ("SlidingWindowDataset", sliding_window),
        ("ExperimentalSlidingWindowDataset", sliding_window),
        // `RebatchDataset(input_dataset: variant, num_replicas: int64) -> handle`, each batch in so many parts.
        ("RebatchDataset", rebatch),
        ("ExperimentalRebatchDataset", rebatch),
        // `RebatchDatasetV2(input_dataset: variant, batch_sizes: int64, drop_remainder: bool) -> handle`.
        ("RebatchDatasetV2", rebatch_to),
    ] {
        r.op(name).shape(handle_shape).cpu(move |init| dataset_kernel(init, build));
    }
}

/// The size of batches.
///
/// # Errors
/// `InvalidArgument` unless it is positive.
pub(crate) fn batch_size(args: &Args<'_, '_>) -> Result<usize> {
    let size: i64 = args.scalar("batch_size")?;
    require!(size > 0, "Batch size must be greater than zero.");
    Ok(usize::try_from(size).unwrap_or(usize::MAX))
}

fn drop_remainder(args: &Args<'_, '_>) -> Result<bool> {
    if args.has_input("drop_remainder") { args.scalar("drop_remainder") } else { Ok(false) }
}

/// At most `size` elements; none if there are fewer and `drop_remainder`.
pub(crate) fn some_of(
    input: &mut Iter,
    ctx: &IterContext,
    size: usize,
    drop_remainder: bool,
) -> Result<Option<Vec<Element>>> {
    let mut elements = Vec::new();
    while elements.len() < size {
        match input.next(ctx)? {
            Some(element) => elements.push(element),
            None => break,
        }
    }
    let enough = !elements.is_empty() && (!drop_remainder || elements.len() == size);
    Ok(enough.then_some(elements))
}

pub(crate) struct Batch {
    pub(crate) input: Handle,
    pub(crate) size: usize,
    pub(crate) drop_remainder: bool,
}

fn batch(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let (size, drop_remainder) = (batch_size(args)?, drop_remainder(args)?);
    Ok(Arc::new(Batch { input: args.dataset("input_dataset")?, size, drop_remainder }))
}

impl Rule for Batch {
    fn batch_size(&self) -> Option<i64> {
        i64::try_from(self.size).ok()
    }

    fn cardinality(&self) -> i64 {
        batched(self.input.cardinality(), self.size as i64, self.drop_remainder)
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        Iter::new(move |ctx| {
            let elements = some_of(&mut input, ctx, self.size, self.drop_remainder)?;
            elements.map(|elements| stacked(&elements, &ctx.buffers)).transpose()
        })
    }

    fn at(&self, index: u64, ctx: &IterContext) -> Option<Result<Element>> {
        let count = self.cardinality();
        if count >= 0 && index >= count as u64 {
            return Some(Err(out_of_range!("Index out of range [0, {count}):{index}")));
        }
        let first = index.checked_mul(self.size as u64)?;
        let mut elements = Vec::new();
        for place in first..first.checked_add(self.size as u64)? {
            match self.input.at(place, ctx)? {
                Ok(element) => elements.push(element),
                Err(error) if elements.is_empty() => return Some(Err(error)),
                Err(_) => break,
            }
        }
        Some(stacked(&elements, &ctx.buffers))
    }
}

struct PaddedBatch {
    batch: Batch,
    /// -1 for the largest size in the batch.
    shapes: Vec<Vec<i64>>,
    padding: Vec<Tensor>,
}

fn padded_batch(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let (size, drop_remainder) = (batch_size(args)?, drop_remainder(args)?);
    let input = args.dataset("input_dataset")?;
    let shapes = args.tensors("padded_shapes")?;
    let padding = args.tensors("padding_values")?;
    require!(
        shapes.len() == input.dtypes.len(),
        "Number of padded shapes ({}) must match the number of components in the input dataset's elements ({})",
        shapes.len(),
        input.dtypes.len()
    );
    require!(
        padding.len() == input.dtypes.len(),
        "Number of padding values ({}) must match the number of components in the input dataset's elements ({})",
        padding.len(),
        input.dtypes.len()
    );
    let shapes: Vec<Vec<i64>> = shapes
        .iter()
        .map(|shape| {
            require!(shape.rank() == 1, "All padded shapes must be vectors");
            let dims = shape.to_i64s()?;
            require!(dims.iter().all(|&size| size >= -1), "All padded shapes must be at least -1");
            Ok(dims)
        })
        .collect::<Result<_>>()?;
    for (padding, dtype) in padding.iter().zip(&input.dtypes) {
        require!(padding.rank() == 0, "All padding values must be scalars");
        require!(
            padding.dtype() == *dtype,
            "Mismatched type between padding value and input dataset's component: {} vs. {dtype}",
            padding.dtype()
        );
    }
    let batch_dim = if drop_remainder { size as i64 } else { -1 };
    let known =
        shapes.iter().map(|dims| PartialShape::from_i64s(&[&[batch_dim], &dims[..]].concat()));
    args.shapes = Some(known.collect::<Result<_>>()?);
    Ok(Arc::new(PaddedBatch { batch: Batch { input, size, drop_remainder }, shapes, padding }))
}

impl Rule for PaddedBatch {
    fn batch_size(&self) -> Option<i64> {
        self.batch.batch_size()
    }

    fn cardinality(&self) -> i64 {
        self.batch.cardinality()
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.batch.input.iterate(ctx)?;
        Iter::new(move |ctx| {
            let (size, drop_remainder) = (self.batch.size, self.batch.drop_remainder);
            let elements = some_of(&mut input, ctx, size, drop_remainder)?;
            elements
                .map(|elements| padded(&elements, &self.shapes, &self.padding, &ctx.buffers))
                .transpose()
        })
    }
}

/// Batches as sparse tensors: a vector of the variants of indices, values and shape.
struct DenseToSparse {
    input: Handle,
    size: usize,
    /// -1 for the largest size in the batch.
    row: Vec<i64>,
}

fn dense_to_sparse(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let size = batch_size(args)?;
    let row = args.vector::<i64>("row_shape")?;
    let input = args.dataset("input_dataset")?;
    require!(
        input.dtypes.len() == 1,
        "DenseToSparseDataset only supports inputs with a single component."
    );
    if let Some(size) = row.iter().find(|&&size| size < -1) {
        return Err(invalid!("Dimension {size} must be >= -1"));
    }
    let shape = PartialShape::from_i64s(&row)?;
    require!(
        input.shapes[0].rank().is_none_or(|rank| rank == row.len()),
        "Input element had shape ({}) that is incompatible with the row shape ({shape}).",
        input.shapes[0]
    );
    args.dtypes = Some(vec![tfcore_base::DType::VARIANT]);
    Ok(Arc::new(DenseToSparse { input, size, row }))
}

impl Rule for DenseToSparse {
    fn cardinality(&self) -> i64 {
        batched(self.input.cardinality(), self.size as i64, false)
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        Iter::new(move |ctx| {
            let elements = some_of(&mut input, ctx, self.size, false)?;
            elements.map(|elements| self.sparse(elements)).transpose()
        })
    }
}

impl DenseToSparse {
    fn sparse(&self, elements: Vec<Element>) -> Result<Element> {
        let rows: Vec<Tensor> = elements.into_iter().map(only).collect::<Result<_>>()?;
        let mut dense: Vec<i64> = self.row.iter().map(|&size| size.max(0)).collect();
        for row in &rows {
            let dims = row.shape().dims();
            require!(
                dims.len() == dense.len(),
                "Input element had shape ({}) that is incompatible with the row shape ({}).",
                row.shape(),
                PartialShape::from_i64s(&self.row)?
            );
            for (axis, &size) in dims.iter().enumerate() {
                if self.row[axis] < 0 {
                    dense[axis] = dense[axis].max(size);
                } else if size > self.row[axis] {
                    return Err(tfcore_base::data_loss!(
                        "Input element had shape ({}) that is larger than the row shape ({}).",
                        row.shape(),
                        PartialShape::from_i64s(&self.row)?
                    ));
                }
            }
        }
        let count: usize = rows.iter().map(Tensor::count).sum();
        let rank = dense.len() + 1;
        let mut indices = Vec::with_capacity(count * rank);
        let mut values = Tensor::allocate(self.input.dtypes[0], Shape::vector(count), None)?;
        let mut at = 0;
        for (number, row) in rows.iter().enumerate() {
            let dims = row.shape().to_usizes();
            for index in 0..row.count() {
                let begin = indices.len();
                let mut rest = index;
                indices.resize(begin + rank, number as i64);
                for axis in (0..dims.len()).rev() {
                    indices[begin + 1 + axis] = (rest % dims[axis]) as i64;
                    rest /= dims[axis];
                }
            }
            values.elems_mut()?.slice(at..at + row.count()).copy_from(row.elems());
            at += row.count();
        }
        dense.insert(0, rows.len() as i64);
        let parts = [
            Tensor::from_slice(Shape::new(&[count as i64, rank as i64])?, &indices)?,
            values,
            Tensor::from_slice(Shape::vector(rank), &dense)?,
        ];
        let parts = parts.map(tensor_variant);
        Ok(vec![variants(&parts)?])
    }
}

/// Which elements make a window.
#[derive(Clone, Copy)]
struct Windows {
    size: i64,
    shift: i64,
    stride: i64,
    drop_remainder: bool,
}

impl Windows {
    /// The elements from the first to the last of a window, and those between them.
    fn span(&self) -> i64 {
        (self.size - 1).saturating_mul(self.stride).saturating_add(1)
    }

    fn cardinality(&self, input: i64) -> i64 {
        match input {
            known if known < 0 => known,
            known if !self.drop_remainder => batched(known, self.shift, false),
            known if known < self.span() => 0,
            known => (known - self.span()) / self.shift + 1,
        }
    }

    /// The elements of one window after the other.
    fn of(
        self,
        mut input: Iter,
    ) -> impl FnMut(&IterContext) -> Result<Option<Vec<Element>>> + Send {
        let mut buffer: VecDeque<Element> = VecDeque::new();
        let (mut to_skip, mut ended) = (0, false);
        move |ctx| {
            while !ended && (to_skip > 0 || (buffer.len() as i64) < self.span()) {
                match input.next(ctx)? {
                    Some(_) if to_skip > 0 => to_skip -= 1,
                    Some(element) => buffer.push_back(element),
                    None => ended = true,
                }
            }
            if buffer.is_empty() || self.drop_remainder && (buffer.len() as i64) < self.span() {
                return Ok(None);
            }
            let stride = usize::try_from(self.stride).unwrap_or(usize::MAX);
            let size = usize::try_from(self.size).unwrap_or(usize::MAX);
            let window = buffer.iter().step_by(stride).take(size).cloned().collect();
            let dropped = self.shift.min(buffer.len() as i64);
            buffer.drain(..dropped as usize);
            to_skip = self.shift - dropped;
            Ok(Some(window))
        }
    }
}

struct Window {
    input: Handle,
    windows: Windows,
}

fn window(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let positive = |name: &str| -> Result<i64> {
        let value = args.scalar(name)?;
        require!(value > 0, "Window {name} must be greater than zero, but got {value}.");
        Ok(value)
    };
    let (size, shift, stride) = (positive("size")?, positive("shift")?, positive("stride")?);
    let windows = Windows { size, shift, stride, drop_remainder: drop_remainder(args)? };
    Ok(Arc::new(Window { input: args.dataset("input_dataset")?, windows }))
}

impl Rule for Window {
    fn cardinality(&self) -> i64 {
        self.windows.cardinality(self.input.cardinality())
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut windows = self.windows.of(self.input.iterate(ctx)?);
        Iter::new(move |ctx| {
            let Some(elements) = windows(ctx)? else {
                return Ok(None);
            };
            let component = |index: usize| {
                let part = |element: &Element| vec![element[index].clone()];
                let parts = elements.iter().map(part).collect();
                let signature =
                    (vec![self.input.dtypes[index]], vec![self.input.shapes[index].clone()]);
                let rule = Arc::new(Elements(parts));
                let made = Dataset::new("Window".to_string(), signature, Vec::new(), rule)?;
                Ok(made.into_tensor())
            };
            (0..self.input.dtypes.len()).map(component).collect::<Result<_>>().map(Some)
        })
    }
}

struct SlidingWindow {
    input: Handle,
    windows: Windows,
}

fn sliding_window(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let size: i64 = args.scalar("window_size")?;
    require!(size > 0, "Window size must be greater than zero.");
    let shift: i64 = args.scalar("window_shift")?;
    require!(shift > 0, "Window shift must be greater than zero.");
    let stride: i64 = args.scalar("window_stride")?;
    require!(stride > 0, "window_stride must be greater than zero.");
    let drop_remainder = args.attrs().bool("drop_remainder").unwrap_or(true);
    let windows = Windows { size, shift, stride, drop_remainder };
    Ok(Arc::new(SlidingWindow { input: args.dataset("input_dataset")?, windows }))
}

impl Rule for SlidingWindow {
    fn cardinality(&self) -> i64 {
        self.windows.cardinality(self.input.cardinality())
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut windows = self.windows.of(self.input.iterate(ctx)?);
        Iter::new(move |ctx| {
            windows(ctx)?.map(|elements| stacked(&elements, &ctx.buffers)).transpose()
        })
    }
}

struct Rebatch {
    input: Handle,
    parts: usize,
}

fn rebatch(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let parts: i64 = args.scalar("num_replicas")?;
    require!(parts > 0, "num_replicas must be greater than zero.");
    let parts = usize::try_from(parts).unwrap_or(usize::MAX);
    Ok(Arc::new(Rebatch { input: args.dataset("input_dataset")?, parts }))
}

fn check_batch(element: &Element) -> Result<usize> {
    let Some(first) = element.first() else {
        return Err(invalid!("Elements without components cannot be divided"));
    };
    for component in element {
        require!(
            component.rank() > 0,
            "Cannot rebatch dataset: All components must have at least one dimension. Perhaps your input dataset is \
             not batched?"
        );
        require!(
            component.dim(0) == first.dim(0),
            "Cannot rebatch dataset: All components must have the same batch size"
        );
    }
    Ok(first.dim(0))
}

impl Rule for Rebatch {
    fn cardinality(&self) -> i64 {
        match self.input.cardinality() {
            known if known > 0 => known.saturating_mul(self.parts as i64),
            other => other,
        }
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        let (mut batch, mut part): (Element, usize) = (Vec::new(), 0);
        Iter::new(move |ctx| {
            if part == 0 {
                let Some(element) = input.next(ctx)? else {
                    return Ok(None);
                };
                check_batch(&element)?;
                batch = element;
            }
            let count = batch[0].dim(0);
            let size = count.div_ceil(self.parts);
            let start = part.saturating_mul(size).min(count);
            let end = (start + size).min(count);
            part = (part + 1) % self.parts;
            batch
                .iter()
                .map(|component| rows(component, start, end))
                .collect::<Result<_>>()
                .map(Some)
        })
    }
}

struct RebatchTo {
    input: Handle,
    sizes: Vec<usize>,
    drop_remainder: bool,
}

fn rebatch_to(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let tensor = args.tensor("batch_sizes")?;
    require!(tensor.rank() <= 1, "`batch_sizes` must be a scalar or vector.");
    let sizes: Vec<usize> = tensor
        .to_i64s()?
        .into_iter()
        .map(|size| {
            usize::try_from(size).map_err(|_| invalid!("Batch sizes must not be negative: {size}"))
        })
        .collect::<Result<_>>()?;
    require!(!sizes.is_empty(), "`batch_sizes` must not be empty.");
    let drop_remainder = drop_remainder(args)?;
    Ok(Arc::new(RebatchTo { input: args.dataset("input_dataset")?, sizes, drop_remainder }))
}

impl Rule for RebatchTo {
    fn cardinality(&self) -> i64 {
        match self.input.cardinality() {
            known if known > 0 => UNKNOWN,
            other => other,
        }
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        let (mut batch, mut used): (Element, usize) = (Vec::new(), 0);
        let (mut turn, mut ended) = (0, false);
        Iter::new(move |ctx| {
            let size = self.sizes[turn % self.sizes.len()];
            let (mut parts, mut have): (Vec<Element>, usize) = (Vec::new(), 0);
            while !ended && (have < size || parts.is_empty()) {
                let rest = batch.first().map_or(0, |component| component.dim(0) - used);
                // An empty batch is made of a batch that is used up, too.
                if rest == 0 && (size > 0 || batch.is_empty()) {
                    match input.next(ctx)? {
                        None => ended = true,
                        Some(element) => {
                            check_batch(&element)?;
                            (batch, used) = (element, 0);
                        }
                    }
                    continue;
                }
                let count = rest.min(size - have);
                let part = batch.iter().map(|component| rows(component, used, used + count));
                parts.push(part.collect::<Result<_>>()?);
                used += count;
                have += count;
            }
            if parts.is_empty() || (have < size && self.drop_remainder) {
                return Ok(None);
            }
            turn += 1;
            joined(&parts).map(Some)
        })
    }
}

/// Batches one after the other as one.
fn joined(parts: &[Element]) -> Result<Element> {
    if let [part] = parts {
        return Ok(part.clone());
    }
    (0..parts[0].len())
        .map(|component| {
            let first = &parts[0][component];
            let mut dims = first.shape().dims().to_vec();
            dims[0] = parts.iter().map(|part| part[component].dim(0) as i64).sum();
            let mut out = Tensor::allocate(first.dtype(), Shape::new(&dims)?, None)?;
            let mut at = 0;
            for part in parts {
                let part = &part[component];
                require!(
                    part.shape().dims()[1..] == first.shape().dims()[1..],
                    "Cannot batch tensors with different shapes in component {component}."
                );
                out.elems_mut()?.slice(at..at + part.count()).copy_from(part.elems());
                at += part.count();
            }
            Ok(out)
        })
        .collect()
}
