//! Drawing classes by the logarithms of their weights.

use tfcore_base::{DType, Elem, Floats, LoopFor, Result, TypedLoop, require, try_filled};
use tfcore_framework::{InferenceContext, OpContext, Registry, kernel, shape_ops};
use tfcore_math::philox::{Philox, to_f64};
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::operands::stream_of_seed;
use crate::stateful::Generator;

pub(crate) fn register(r: &mut Registry) {
    // `Multinomial(logits: T, num_samples: int32; seed, seed2) -> output: output_dtype`, for each row of `logits`
    // so many classes, class `c` with a probability proportional to `exp(logits[row, c])`.
    r.op("Multinomial").shape(multinomial_shape).typed_kernel::<RowWeights, Floats>(
        "T",
        |init, weights| {
            let generator = Generator::new(init)?;
            kernel(move |ctx| {
                let request = Request::new(ctx)?;
                // Whole groups of four outputs for each row.
                let samples = request.samples.next_multiple_of(4);
                let stream = generator.reserve(request.rows.saturating_mul(samples));
                request.draw(ctx, weights, stream)
            })
        },
    );

    // `StatelessMultinomial(logits: T, num_samples: int32, seed: Tseed) -> output: output_dtype`.
    r.op("StatelessMultinomial").shape(stateless_shape).typed::<RowWeights, Floats>(
        "T",
        |ctx, weights| {
            let request = Request::new(ctx)?;
            let stream = stream_of_seed(ctx.input(2)?)?;
            request.draw(ctx, weights, stream)
        },
    );
}

fn multinomial_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let logits = shape_ops::with_rank(ctx.input(0), 2)?;
    shape_ops::with_rank(ctx.input(1), 0)?;
    let samples = ctx.operand_dim(1)?;
    ctx.set_output(0, PartialShape::matrix(logits.dim(0), samples));
    Ok(())
}

fn stateless_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let seed = shape_ops::with_rank(ctx.input(2), 1)?;
    shape_ops::with_value(seed.dim(0), 2)?;
    multinomial_shape(ctx)
}

/// Makes the running sums of a row's weights; the last is their total.
type RunningWeights = fn(logits: &Tensor, row: usize, sums: &mut [f64]);

struct RowWeights;

impl TypedLoop for RowWeights {
    type Loop = RunningWeights;
}

impl<T: Elem + Into<f64> + Copy> LoopFor<T> for RowWeights {
    const LOOP: RunningWeights = |logits, row, sums| {
        let classes = sums.len();
        let logits = &logits.elems().typed::<T>()[row * classes..(row + 1) * classes];
        running_weights(logits.iter().map(|&logit| logit.into()), sums);
    };
}

/// Classes whose logit is not finite have no weight.
fn running_weights(logits: impl Iterator<Item = f64> + Clone, sums: &mut [f64]) {
    let largest = logits.clone().filter(|logit| logit.is_finite()).fold(f64::MIN, f64::max);
    let mut total = 0.0;
    for (sum, logit) in sums.iter_mut().zip(logits) {
        if logit.is_finite() {
            total += (logit - largest).exp();
        }
        *sum = total;
    }
}

/// How much is to be drawn.
struct Request {
    rows: usize,
    classes: usize,
    samples: usize,
}

impl Request {
    fn new(ctx: &OpContext<'_>) -> Result<Request> {
        let (logits, samples) = (ctx.input(0)?, ctx.input(1)?);
        require!(logits.rank() == 2, "logits should be a matrix, got shape {}", logits.shape());
        require!(
            samples.rank() == 0,
            "num_samples should be a scalar, got shape {}",
            samples.shape()
        );
        let samples = samples.scalar_value::<i32>()?;
        require!(samples >= 0, "num_samples should be non-negative, got {samples}");
        let [rows, classes] = [logits.dim(0), logits.dim(1)];
        require!(classes > 0, "num_classes should be positive, got {classes}");
        Ok(Request { rows, classes, samples: samples as usize })
    }

    /// Draws row after row from one stream, two words for each sample.
    fn draw(&self, ctx: &OpContext<'_>, weights: RunningWeights, mut stream: Philox) -> Result<()> {
        let shape = Shape::new(&[self.rows as i64, self.samples as i64])?;
        let logits = ctx.input(0)?;
        ctx.try_produce(0, shape, |out| {
            let mut draws = try_filled(0i64, out.len())?;
            let mut sums = vec![0.0; self.classes];
            let mut pending: Option<f64> = None;
            for (row, draws) in draws.chunks_mut(self.samples.max(1)).enumerate() {
                weights(logits, row, &mut sums);
                let total = sums[self.classes - 1];
                for draw in draws {
                    let uniform = pending.take().unwrap_or_else(|| {
                        let [x0, x1, x2, x3] = stream.next4();
                        pending = Some(to_f64(x2, x3));
                        to_f64(x0, x1)
                    });
                    let found = uniform * total;
                    *draw = sums.partition_point(|&sum| sum <= found) as i64;
                }
            }
            match out.dtype() {
                DType::INT32 => {
                    for (to, from) in out.typed::<i32>().iter_mut().zip(draws) {
                        *to = from as i32;
                    }
                }
                _ => out.typed::<i64>().copy_from_slice(&draws),
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_run_up_to_their_total() {
        let mut sums = [0.0; 4];
        running_weights([0.0, f64::NAN, 2.0f64.ln(), f64::NEG_INFINITY].into_iter(), &mut sums);
        for (sum, expected) in sums.into_iter().zip([0.5, 0.5, 1.5, 1.5]) {
            assert!((sum - expected).abs() < 1e-12, "{sums:?}");
        }
    }
}
