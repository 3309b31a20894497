//! `CTCLoss`: the loss of connectionist temporal classification and its gradient.
//!
//! As in A. Graves, "Supervised Sequence Labelling with Recurrent Neural Networks", chapter 7; the equations are numbered as there.

use num_traits::{AsPrimitive, Float};
use tfcore_base::{Elem, LoopFor, Result, TypedLoop, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Elems, ElemsMut, PartialShape, Shape};

pub(crate) fn register(r: &mut Registry) {
    // `CTCLoss(inputs: T, labels_indices: int64, labels_values: int32, sequence_length: int32) -> loss: T, gradient: T`,
    // attrs `preprocess_collapse_repeated`, `ctc_merge_repeated`, `ignore_longer_outputs_than_inputs`. Inputs are
    // [time, batch, classes], the last class is the blank.
    r.op("CTCLoss").shape(loss_shape).typed_kernel::<Loss, (f32, f64)>("T", loss_kernel);
    r.op("CTCLoss").gradient(|c| {
        // The gradient of each sequence, times that of its loss.
        let factor = c.node("ExpandDims", &[c.grad(0), c.int(-1)], &[]);
        Ok(vec![Some(c.mul(c.output(1), factor)), None, None, None])
    });
}

fn loss_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let inputs = shape_ops::with_rank(ctx.input(0), 3)?;
    let indices = shape_ops::with_rank(ctx.input(1), 2)?;
    let values = shape_ops::with_rank(ctx.input(2), 1)?;
    let lengths = shape_ops::with_rank(ctx.input(3), 1)?;
    shape_ops::merge_dims(indices.dim(0), values.dim(0))?;
    let batch = shape_ops::merge_dims(inputs.dim(1), lengths.dim(0))?;
    ctx.set_output(0, PartialShape::vector(batch));
    ctx.set_output(1, shape_ops::replace_dim(&inputs, 1, batch)?);
    Ok(())
}

/// What becomes of repeated and of too many labels.
#[derive(Clone, Copy)]
struct Rules {
    collapse_labels: bool,
    merge_repeated: bool,
    ignore_longer: bool,
}

/// The sequences of a batch: [time, batch, classes].
struct Problem<'a> {
    times: usize,
    batch: usize,
    classes: usize,
    rules: Rules,
    lengths: &'a [usize],
    /// Of each sequence, with a blank before each label and at the end.
    labels: &'a [Vec<usize>],
    /// Of each sequence, as they were given.
    given: &'a [usize],
}

/// Problem, inputs, losses and gradients, which are zeros.
type LossLoop = fn(Parallel<'_>, &Problem<'_>, Elems<'_>, ElemsMut<'_>, ElemsMut<'_>);

struct Loss;

impl TypedLoop for Loss {
    type Loop = LossLoop;
}

impl<T> LoopFor<T> for Loss
where
    T: Elem + Float + AsPrimitive<f32>,
    f32: AsPrimitive<T>,
{
    const LOOP: LossLoop = |par, problem, inputs, losses, gradients| {
        let inputs = inputs.typed::<T>();
        // Each sequence's loss and its gradient, [time, classes].
        let mut results: Vec<(T, Vec<T>)> = vec![(T::zero(), Vec::new()); problem.batch];
        par_chunks_mut(par, &mut results, 1, 1, &|first, piece| {
            for (index, result) in (first..).zip(piece) {
                *result = problem.sequence(inputs, index);
            }
        });
        let (losses, gradients) = (losses.typed::<T>(), gradients.typed::<T>());
        for (index, (loss, gradient)) in results.into_iter().enumerate() {
            losses[index] = loss;
            for (time, row) in gradient.chunks_exact(problem.classes).enumerate() {
                let to = (time * problem.batch + index) * problem.classes;
                gradients[to..to + problem.classes].copy_from_slice(row);
            }
        }
    };
}

/// `log(e^a + e^b)`.
pub(crate) fn log_sum<T: Float>(a: T, b: T) -> T {
    let zero = T::neg_infinity();
    if a == zero {
        return b;
    }
    if b == zero {
        return a;
    }
    if a > b { a + (b - a).exp().ln_1p() } else { b + (a - b).exp().ln_1p() }
}

impl Problem<'_> {
    fn sequence<T>(&self, inputs: &[T], index: usize) -> (T, Vec<T>)
    where
        T: Float + AsPrimitive<f32>,
        f32: AsPrimitive<T>,
    {
        let (length, labels, classes) = (self.lengths[index], &self.labels[index], self.classes);
        if length == 0 || (self.rules.ignore_longer && self.given[index] > length) {
            return (T::zero(), Vec::new());
        }
        // Softmax of each time's inputs.
        let mut y = Vec::with_capacity(length * classes);
        for time in 0..length {
            let row = &inputs[(time * self.batch + index) * classes..][..classes];
            let largest = row.iter().fold(T::neg_infinity(), |a, &b| if a < b { b } else { a });
            let start = y.len();
            y.extend(row.iter().map(|&x| (x - largest).exp()));
            let sum = y[start..].iter().fold(T::zero(), |a, &b| a + b);
            y[start..].iter_mut().for_each(|x| *x = *x / sum);
        }
        let y = &y;
        let probability = |u: usize, time: usize| y[time * classes + labels[u]].ln();
        let alpha = self.forward(labels, length, &probability);
        let beta = self.backward(labels, length, &probability);
        let at = |u: usize, time: usize| time * labels.len() + u;
        // Equation 7.26 at the first time.
        let zero = T::neg_infinity();
        let total =
            (0..labels.len()).fold(zero, |sum, u| log_sum(sum, alpha[at(u, 0)] + beta[at(u, 0)]));
        if total == zero {
            return (-total, y.clone());
        }
        // Equation 7.34.
        let mut gradient = y.clone();
        for (time, row) in gradient.chunks_exact_mut(classes).enumerate() {
            let mut sums = vec![zero; classes];
            for (u, &label) in labels.iter().enumerate() {
                sums[label] = log_sum(sums[label], alpha[at(u, time)] + beta[at(u, time)]);
            }
            for (dy, sum) in row.iter_mut().zip(sums) {
                // The reference takes this exponential in single precision for every type.
                let share: f32 = (sum - total).as_();
                *dy = *dy - share.exp().as_();
            }
        }
        (-total, gradient)
    }

    /// The labels that can be reached at a time, with enough time left for the others.
    fn reachable(labels: usize, length: usize, time: usize) -> std::ops::Range<usize> {
        let first = labels.saturating_sub(2 * (length - time));
        first..labels.min(2 * (time + 1))
    }

    /// True if label `v` may follow `u` directly, with the blank between them left out.
    fn skips(&self, labels: &[usize], u: usize, v: usize) -> bool {
        let merged = self.rules.merge_repeated && labels[u] == labels[v];
        labels[u] != self.classes - 1 && !merged
    }

    /// True if a label may stay for another time.
    fn stays(&self, label: usize) -> bool {
        self.rules.merge_repeated || label == self.classes - 1
    }

    /// Equation 7.9: `log α`, [time, labels].
    fn forward<T: Float>(
        &self,
        labels: &[usize],
        length: usize,
        probability: &dyn Fn(usize, usize) -> T,
    ) -> Vec<T> {
        let count = labels.len();
        let mut alpha = vec![T::neg_infinity(); length * count];
        for u in 0..count.min(2) {
            alpha[u] = probability(u, 0);
        }
        for time in 1..length {
            for u in Self::reachable(count, length, time) {
                let before = &alpha[(time - 1) * count..][..count];
                let mut sum = T::neg_infinity();
                if self.stays(labels[u]) {
                    sum = before[u];
                }
                if u > 0 {
                    sum = log_sum(sum, before[u - 1]);
                }
                if u > 1 && self.skips(labels, u, u - 2) {
                    sum = log_sum(sum, before[u - 2]);
                }
                alpha[time * count + u] = probability(u, time) + sum;
            }
        }
        alpha
    }

    /// Equation 7.15: `log β`, [time, labels].
    fn backward<T: Float>(
        &self,
        labels: &[usize],
        length: usize,
        probability: &dyn Fn(usize, usize) -> T,
    ) -> Vec<T> {
        let count = labels.len();
        let mut beta = vec![T::neg_infinity(); length * count];
        for u in count.saturating_sub(2)..count {
            beta[(length - 1) * count + u] = T::zero();
        }
        // Without a label the reference writes the second of the two a step too early, and later steps add to it.
        if count == 1 && length > 1 {
            beta[length - 2] = T::zero();
        }
        for time in (0..length - 1).rev() {
            for u in Self::reachable(count, length, time) {
                let after = |v: usize| beta[(time + 1) * count + v] + probability(v, time + 1);
                let mut sum = beta[time * count + u];
                if self.stays(labels[u]) {
                    sum = log_sum(sum, after(u));
                }
                if u + 1 < count {
                    sum = log_sum(sum, after(u + 1));
                }
                if u + 2 < count && self.skips(labels, u, u + 2) {
                    sum = log_sum(sum, after(u + 2));
                }
                beta[time * count + u] = sum;
            }
        }
        beta
    }
}

/// The labels of sequence `index` with blanks between them.
fn with_blanks(
    labels: &[i32],
    index: usize,
    classes: usize,
    length: usize,
    rules: Rules,
) -> Result<Vec<usize>> {
    require!(!labels.is_empty(), "Labels length is zero in batch {index}");
    let show = |labels: &[i32]| {
        let labels: Vec<String> = labels.iter().map(i32::to_string).collect();
        labels.join(",")
    };
    let mut kept: Vec<i32> = Vec::with_capacity(labels.len());
    let mut ended = false;
    for (place, &label) in labels.iter().enumerate() {
        if place > 0 && rules.collapse_labels && label == labels[place - 1] {
            continue;
        }
        if i64::from(label) >= classes as i64 - 1 {
            ended = true;
        } else {
            require!(
                !ended,
                "Saw a non-null label (index >= num_classes - 1) following a null label, batch: {index} \
                 num_classes: {classes} labels: {} labels seen so far: {}",
                show(labels),
                show(&kept)
            );
            kept.push(label);
        }
    }
    require!(
        kept.iter().all(|&label| label >= 0),
        "All labels must be nonnegative integers, batch: {index} labels: {}",
        show(&kept)
    );
    require!(
        rules.ignore_longer || labels.len() <= length,
        "Not enough time for target transition sequence (required: {}, available: {length}){index}You can \
         turn this error into a warning by using the flag ignore_longer_outputs_than_inputs",
        labels.len()
    );
    let blank = classes - 1;
    let mut all: Vec<usize> = kept.iter().flat_map(|&label| [blank, label as usize]).collect();
    all.push(blank);
    Ok(all)
}

fn loss_kernel(init: &KernelInit<'_>, run: LossLoop) -> Result<Box<dyn Kernel>> {
    let rules = Rules {
        collapse_labels: init.attrs.bool("preprocess_collapse_repeated")?,
        merge_repeated: init.attrs.bool("ctc_merge_repeated")?,
        ignore_longer: init.attrs.bool("ignore_longer_outputs_than_inputs")?,
    };
    kernel(move |ctx: &mut OpContext<'_>| {
        let (inputs, indices, values, lengths) =
            (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?, ctx.input(3)?);
        require!(inputs.rank() == 3, "inputs is not a 3-Tensor");
        require!(lengths.rank() == 1, "sequence_length is not a vector");
        require!(indices.rank() == 2, "labels_indices is not a matrix");
        require!(
            indices.dim(1) > 1,
            "labels_indices second dimension must be >= 1. Received {}",
            indices.dim(1)
        );
        require!(values.rank() == 1, "labels_values is not a vector");
        let [times, batch, classes] = [0, 1, 2].map(|axis| inputs.dim(axis));
        require!(times != 0, "Max time or first dimension of input cannot be 0.");
        require!(
            lengths.dim(0) == batch,
            "len(sequence_length) != batch_size.  len(sequence_length):  {} batch_size: {batch}",
            lengths.dim(0)
        );
        require!(
            indices.dim(0) == values.dim(0),
            "labels_indices and labels_values must contain the same number of rows, but saw shapes: {} vs. {}",
            indices.shape(),
            values.shape()
        );
        require!(batch != 0, "batch_size must not be 0");
        require!(classes > 0, "num_classes must be positive, got {classes}");
        let lengths = ctc_lengths(lengths.as_slice::<i32>()?, times)
            .map_err(|index| index.loss_error(times))?;
        let columns = indices.dim(1);
        let mut given: Vec<Vec<i32>> = vec![Vec::new(); batch];
        let mut last: Option<(i64, i64)> = None;
        let rows = indices.as_slice::<i64>()?.chunks_exact(columns);
        for (row, (index, &value)) in rows.zip(values.as_slice::<i32>()?).enumerate() {
            let at = (index[0], index[1]);
            let sequence = usize::try_from(at.0).ok().filter(|&sequence| sequence < batch);
            let Some(sequence) = sequence.filter(|_| at.1 >= 0) else {
                return Err(invalid!(
                    "label SparseTensor is not valid: indices[{row}] = [{},{}] is out of bounds: need 0 <= index < \
                     [{batch},...]",
                    at.0,
                    at.1
                ));
            };
            require!(
                last.is_none_or(|last| last < at),
                "label SparseTensor is not valid: indices[{row}] = [{},{}] is {}",
                at.0,
                at.1,
                if last == Some(at) { "repeated" } else { "out of order" }
            );
            last = Some(at);
            given[sequence].push(value);
        }
        let mut labels = Vec::with_capacity(batch);
        for (index, given) in given.iter().enumerate() {
            labels.push(with_blanks(given, index, classes, lengths[index], rules)?);
        }
        let given: Vec<usize> = given.iter().map(Vec::len).collect();
        let problem = Problem {
            times,
            batch,
            classes,
            rules,
            lengths: &lengths,
            labels: &labels,
            given: &given,
        };
        debug_assert!(problem.times >= lengths.iter().copied().max().unwrap_or(0));
        let mut loss = ctx.allocate_zeros(inputs.dtype(), Shape::vector(batch))?;
        let mut gradient = ctx.allocate_zeros(inputs.dtype(), inputs.shape().clone())?;
        run(ctx.parallel(), &problem, inputs.elems(), loss.elems_mut()?, gradient.elems_mut()?);
        ctx.set_output(0, loss);
        ctx.set_output(1, gradient);
        Ok(())
    })
}

/// A sequence that is longer than the inputs, or has a negative length.
pub(crate) struct WrongLength {
    pub(crate) index: usize,
    pub(crate) length: i32,
}

impl WrongLength {
    fn loss_error(&self, times: usize) -> tfcore_base::Error {
        let WrongLength { index, length } = self;
        match length {
            ..0 => invalid!("sequence_length({index}) < 0"),
            _ => invalid!("sequence_length({index}) <= {times}"),
        }
    }
}

/// The lengths of sequences of at most so many times.
pub(crate) fn ctc_lengths(
    lengths: &[i32],
    times: usize,
) -> std::result::Result<Vec<usize>, WrongLength> {
    let checked = lengths.iter().enumerate().map(|(index, &length)| {
        let fits = usize::try_from(length).ok().filter(|&length| length <= times);
        fits.ok_or(WrongLength { index, length })
    });
    checked.collect()
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op, tensor};

    use super::*;

    #[test]
    fn one_label_in_two_times() {
        // Even odds for a label and the blank: of four paths, three spell the label.
        let inputs = [
            floats(&[2, 1, 2], &[0.0; 4]),
            tensor(&[1, 2], &[0i64, 0]),
            tensor(&[1], &[0i32]),
            tensor(&[1], &[2i32]),
        ];
        let attrs = [("T", AttrValue::Type(DType::FLOAT))];
        let out = run_op(&registry_of(register), "CTCLoss", &attrs, &inputs).unwrap();
        assert!((out[0].as_slice::<f32>().unwrap()[0] - (4.0f32 / 3.0).ln()).abs() < 1e-6);
        // Of the three, two have the label at each time.
        for (i, &dy) in out[1].as_slice::<f32>().unwrap().iter().enumerate() {
            let expected = if i % 2 == 0 { 0.5 - 2.0 / 3.0 } else { 0.5 - 1.0 / 3.0 };
            assert!((dy - expected).abs() < 1e-6, "{i}: {dy}");
        }
        let mut short = inputs.clone();
        short[3] = tensor(&[1], &[3i32]);
        assert!(run_op(&registry_of(register), "CTCLoss", &attrs, &short).is_err());
    }
}
