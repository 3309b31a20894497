//! Cross entropy between the softmax of logits and labels, with its gradient.

use num_traits::{AsPrimitive, Float, One, Zero};
use tfcore_base::{BFloat16, Elem, Floats, Half, LoopFor, Result, TypedLoop, invalid};
use tfcore_framework::geometry::Broadcast;
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_ops};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Elems, ElemsMut, PartialShape, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `SoftmaxCrossEntropyWithLogits(features: T, labels: T) -> loss: T, backprop: T`, both [batch, classes]
    // or broadcast to that: `Σ labels · (log Σ e^x - x)` and `softmax(x) - labels`.
    r.op("SoftmaxCrossEntropyWithLogits").shape(dense_shape).typed::<Entropy, Floats>("T", dense);

    // `SparseSoftmaxCrossEntropyWithLogits(features: T, labels: Tlabels) -> loss: T, backprop: T`, where a label
    // is the number of a class.
    r.op("SparseSoftmaxCrossEntropyWithLogits")
        .shape(sparse_shape)
        .typed::<Entropy, Floats>("T", sparse);
}

fn dense_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    // Alike as far as is known, so alike they are taken to be; else one is broadcast.
    let alike =
        shape_ops::with_rank(ctx.input(0), 2).and_then(|x| shape_ops::merge(&x, ctx.input(1)));
    let shape = match alike {
        Ok(shape) => shape,
        Err(_) => shape_ops::broadcast(ctx.input(0), ctx.input(1))?,
    };
    match shape.rank() {
        Some(2) => {}
        Some(rank) => {
            return Err(invalid!("Shape must be broadcasted with rank 2, but is rank {rank}"));
        }
        None => {
            return Err(invalid!("Shape must be broadcasted with rank 2, but is rank is unknown."));
        }
    }
    ctx.set_output(0, PartialShape::vector(shape.dim(0)));
    ctx.set_output(1, shape);
    Ok(())
}

fn sparse_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let features = shape_ops::with_rank(ctx.input(0), 2)?;
    let labels = shape_ops::with_rank(ctx.input(1), 1)?;
    let batch = shape_ops::merge_dims(features.dim(0), labels.dim(0))?;
    ctx.set_output(0, PartialShape::vector(batch));
    ctx.set_output(1, PartialShape::matrix(batch, features.dim(1)));
    Ok(())
}

/// A matrix whose rows or columns may repeat: elements, and the steps from row to row and column to column.
#[derive(Clone, Copy)]
struct Matrix<'a> {
    elems: Elems<'a>,
    steps: [usize; 2],
}

impl<'a> Matrix<'a> {
    /// The tensor broadcast to a matrix; it has rank 2 at most.
    fn new(tensor: &'a Tensor) -> Matrix<'a> {
        let size = |from_end: usize| {
            tensor.rank().checked_sub(from_end).map_or(1, |axis| tensor.dim(axis))
        };
        let (rows, cols) = (size(2), size(1));
        let step = |size: usize, step: usize| if size == 1 { 0 } else { step };
        Matrix { elems: tensor.elems(), steps: [step(rows, cols), step(cols, 1)] }
    }
}

#[derive(Clone, Copy)]
enum Labels<'a> {
    Classes(&'a [usize]),
    Weights(Matrix<'a>),
}

/// Logits, labels, classes, losses, gradients.
type EntropyLoop = fn(Parallel<'_>, Matrix<'_>, Labels<'_>, usize, ElemsMut<'_>, ElemsMut<'_>);

struct Entropy;

/// A float and the type that it is summed in.
trait Summed: Elem + Copy + AsPrimitive<Self::Wide> {
    type Wide: Float + AsPrimitive<Self> + Send + Sync;
}

impl Summed for f32 {
    type Wide = f32;
}

impl Summed for f64 {
    type Wide = f64;
}

impl Summed for Half {
    type Wide = f32;
}

impl Summed for BFloat16 {
    type Wide = f32;
}

impl TypedLoop for Entropy {
    type Loop = EntropyLoop;
}

impl<T: Summed> LoopFor<T> for Entropy {
    const LOOP: EntropyLoop = cross_entropy::<T>;
}

fn cross_entropy<T: Summed>(
    parallel: Parallel<'_>,
    logits: Matrix<'_>,
    labels: Labels<'_>,
    classes: usize,
    losses: ElemsMut<'_>,
    gradients: ElemsMut<'_>,
) {
    let at = |matrix: Matrix<'_>, row: usize, class: usize| -> T::Wide {
        let [row_step, class_step] = matrix.steps;
        matrix.elems.typed::<T>()[row * row_step + class * class_step].as_()
    };
    let zero = T::Wide::zero();
    let grain = 1 + 4096 / classes;
    // The largest logit of each row, and Σ e^(x - largest).
    let mut rows = vec![(zero, zero); losses.len()];
    par_chunks_mut(parallel, &mut rows, 1, grain, &|start, piece| {
        for (row, (max, sum)) in (start..).zip(piece) {
            let logits = |class| at(logits, row, class);
            *max = (0..classes)
                .map(logits)
                .fold(T::Wide::neg_infinity(), |max, x| if x > max { x } else { max });
            *sum = (0..classes).map(|class| (logits(class) - *max).exp()).fold(zero, |s, x| s + x);
        }
    });
    let rows = &rows;
    par_chunks_mut(parallel, losses.typed::<T>(), 1, grain, &|start, piece| {
        for (row, loss) in (start..).zip(piece) {
            let (max, sum) = rows[row];
            let surprise = |class: usize| sum.ln() - (at(logits, row, class) - max);
            *loss = match labels {
                Labels::Classes(labels) => surprise(labels[row]),
                Labels::Weights(weights) => (0..classes)
                    .fold(zero, |loss, class| loss + at(weights, row, class) * surprise(class)),
            }
            .as_();
        }
    });
    par_chunks_mut(parallel, gradients.typed::<T>(), classes, 4096, &|start, piece| {
        for (row, gradients) in (start / classes..).zip(piece.chunks_exact_mut(classes)) {
            let (max, sum) = rows[row];
            for (class, gradient) in gradients.iter_mut().enumerate() {
                let weight = match labels {
                    Labels::Classes(labels) if labels[row] == class => T::Wide::one(),
                    Labels::Classes(_) => zero,
                    Labels::Weights(weights) => at(weights, row, class),
                };
                *gradient = ((at(logits, row, class) - max).exp() / sum - weight).as_();
            }
        }
    });
}

/// Sets losses and gradients for logits that are, or are broadcast to be, of shape [batch, classes].
fn set_outputs(
    ctx: &OpContext<'_>,
    run: EntropyLoop,
    logits: &Tensor,
    labels: Labels<'_>,
    shape: Shape,
) -> Result<()> {
    let (batch, classes) = (shape.dim(0), shape.dim(1));
    let mut loss = ctx.allocate_output(0, Shape::vector(batch))?;
    let mut backprop = ctx.allocate_output(1, shape)?;
    if classes == 0 {
        loss.elems_mut()?.fill_default();
    } else if batch > 0 {
        let (losses, gradients) = (loss.elems_mut()?, backprop.elems_mut()?);
        run(ctx.parallel(), Matrix::new(logits), labels, classes, losses, gradients);
    }
    ctx.set_output(0, loss);
    ctx.set_output(1, backprop);
    Ok(())
}

fn dense(ctx: &mut OpContext<'_>, run: EntropyLoop) -> Result<()> {
    let (logits, labels) = (ctx.input(0)?, ctx.input(1)?);
    let shape = Broadcast::new(logits.shape(), labels.shape())
        .map_err(|_| {
            invalid!(
                "logits and labels must be broadcastable: logits_size={} labels_size={}",
                logits.shape(),
                labels.shape()
            )
        })?
        .output()
        .clone();
    if shape.rank() != 2 {
        return Err(invalid!(
            "logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional"
        ));
    }
    let weights = Labels::Weights(Matrix::new(labels));
    set_outputs(ctx, run, logits, weights, shape)
}

fn sparse(ctx: &mut OpContext<'_>, run: EntropyLoop) -> Result<()> {
    let (logits, labels) = (ctx.input(0)?, ctx.input(1)?);
    let shape = logits.shape().clone();
    if shape.rank() != 2 {
        return Err(invalid!("logits must be 2-D, but got shape {shape}"));
    }
    if labels.rank() != 1 {
        return Err(invalid!("labels must be 1-D, but got shape {}", labels.shape()));
    }
    if shape[0] != labels.shape()[0] {
        return Err(invalid!(
            "logits and labels must have the same first dimension, got logits shape {shape} and \
             labels shape {}",
            labels.shape()
        ));
    }
    if shape[1] == 0 {
        return Err(invalid!("Must have at least one class, but got logits shape {shape}"));
    }
    let classes = checked_classes(&labels.to_i64s()?, shape[1])?;
    set_outputs(ctx, run, logits, Labels::Classes(&classes), shape)
}

/// The labels as indices.
///
/// # Errors
/// `InvalidArgument` for a label that is no class.
fn checked_classes(labels: &[i64], classes: i64) -> Result<Vec<usize>> {
    if let Some(label) = labels.iter().find(|&label| !(0..classes).contains(label)) {
        let texts: Vec<String> = labels.iter().map(i64::to_string).collect();
        return Err(invalid!(
            "Received a label value of {label} which is outside the valid range of [0, {classes}).  \
             Label values: {}",
            texts.join(" ")
        ));
    }
    Ok(labels.iter().map(|&label| label as usize).collect())
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, registry_of, run_op};

    use super::*;

    const FLOAT: (&str, AttrValue) = ("T", AttrValue::Type(DType::FLOAT));

    fn registry() -> Registry {
        registry_of(register)
    }

    fn assert_near(actual: &Tensor, expected: &[f32]) {
        for (actual, expected) in actual.as_slice::<f32>().unwrap().iter().zip(expected) {
            assert!((actual - expected).abs() < 1e-6, "{actual} for {expected}");
        }
        assert_eq!(actual.count(), expected.len());
    }

    #[test]
    fn losses_and_gradients() {
        // Odds of 1 to 3.
        let ln_3 = 3.0f32.ln();
        let logits = Tensor::from_slice(Shape::new(&[1, 2]).unwrap(), &[0.0, ln_3]).unwrap();
        let attrs = [FLOAT, ("Tlabels", AttrValue::Type(DType::INT32))];
        let op = "SparseSoftmaxCrossEntropyWithLogits";
        let label = |label: i32| Tensor::from_slice(Shape::vector(1), &[label]).unwrap();
        let out = run_op(&registry(), op, &attrs, &[logits.clone(), label(0)]).unwrap();
        assert_near(&out[0], &[4.0f32.ln()]);
        assert_near(&out[1], &[-0.75, 0.75]);
        let error = run_op(&registry(), op, &attrs, &[logits.clone(), label(2)]).unwrap_err();
        assert!(error.message().contains("outside the valid range of [0, 2)"), "{error}");

        let labels =
            Tensor::from_slice(Shape::new(&[2, 2]).unwrap(), &[0.5f32, 0.5, 1.0, 0.0]).unwrap();
        let op = "SoftmaxCrossEntropyWithLogits";
        let out = run_op(&registry(), op, &[FLOAT], &[logits, labels]).unwrap();
        assert_near(&out[0], &[4.0f32.ln() - 0.5 * ln_3, 4.0f32.ln()]);
        assert_near(&out[1], &[-0.25, 0.25, -0.75, 0.75]);
    }

    #[test]
    fn shapes() {
        let op = "SoftmaxCrossEntropyWithLogits";
        let shape = |inputs: &str| infer(&registry(), op, &[FLOAT], inputs, &[]);
        assert_eq!(shape("[?,3];[1,?]").unwrap(), "[1];[1,3]");
        assert_eq!(shape("[1,3];[2,3]").unwrap(), "[2];[2,3]");
        assert_eq!(shape("?;[2,3]").unwrap(), "[2];[2,3]");
        assert_eq!(
            shape("[3];[3]").unwrap_err().message(),
            "Shape must be broadcasted with rank 2, but is rank 1"
        );
    }
}
