//! `NegTrain`: a step of word embeddings by negative sampling.

use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;
use tfcore_base::{Result, invalid, require};
use tfcore_framework::{Kernel, KernelInit, Registry, kernel, shape_fns};
use tfcore_math::philox::{Philox, to_f32};
use tfcore_tensor::Tensor;

use super::driver::step_together;

pub(crate) fn register(r: &mut Registry) {
    // `NegTrain(w_in: Ref(float), w_out: Ref(float), examples: int32, labels: int32, lr: float; vocab_count,
    // num_negative_samples)`: for each pair of words, draws the example's row of `w_in` and the label's of `w_out` together, and
    // drives it and those of words drawn at random apart.
    r.op("NegTrain").shape(shape_fns::no_outputs).cpu(neg_train_kernel);
}

/// Draws words with probabilities in proportion to `count^0.75`.
struct Sampler {
    /// The sums of the weights up to each word.
    sums: Vec<f32>,
    /// No two kernels draw the same words.
    stream: Mutex<Philox>,
}

impl Sampler {
    fn new(counts: &[i64]) -> Sampler {
        let mut sum = 0.0;
        let sums = counts.iter().map(|&count| {
            sum += (count as f32).powf(0.75);
            sum
        });
        let seeds = RandomState::new();
        let stream = Mutex::new(Philox::new(seeds.hash_one(0), seeds.hash_one(1)));
        Sampler { sums: sums.collect(), stream }
    }

    fn draw(&self, stream: &mut Philox) -> usize {
        let total = self.sums.last().copied().unwrap_or_default();
        let point = to_f32(stream.next4()[0]) * total;
        self.sums.partition_point(|sum| *sum <= point).min(self.sums.len() - 1)
    }
}

fn neg_train_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let sampler = Sampler::new(init.attrs.ints("vocab_count")?);
    let samples = init.attrs.int("num_negative_samples")?;
    kernel(move |ctx| {
        let variables = [ctx.input_ref(0)?.clone(), ctx.input_ref(1)?.clone()];
        step_together(ctx, &variables, &["w_in", "w_out"], &mut |mut tensors| {
            let [w_in, w_out] = &mut tensors[..] else { return Ok(()) };
            require!(w_in.rank() == 2, "Must be a matrix");
            require!(w_in.shape() == w_out.shape(), "w_in.shape == w_out.shape");
            let (examples, labels, lr) = (ctx.input(2)?, ctx.input(3)?, ctx.input(4)?);
            require!(examples.rank() == 1, "Must be a vector");
            require!(examples.shape() == labels.shape(), "examples.shape == labels.shape");
            require!(lr.rank() == 0, "Must be a scalar");
            let (words, width) = (w_in.dim(0), w_in.dim(1));
            require!(
                words == sampler.sums.len(),
                "vocab_size mismatches: {words} vs. {}",
                sampler.sums.len()
            );
            let rows = |tensor: &Tensor, name: &str| {
                let row = |index: &i32| usize::try_from(*index).ok().filter(|row| *row < words);
                let rows: Option<Vec<usize>> = tensor.as_slice::<i32>()?.iter().map(row).collect();
                rows.ok_or_else(|| invalid!("{name} must be in [0, {words})"))
            };
            let (examples, labels) = (rows(examples, "examples")?, rows(labels, "labels")?);
            let rate = lr.scalar_value::<f32>()?;
            let (w_in, w_out) = (w_in.as_mut_slice::<f32>()?, w_out.as_mut_slice::<f32>()?);
            let mut stream = sampler.stream.lock();
            let mut gradient = vec![0.0; width];
            for (&example, &label) in examples.iter().zip(&labels) {
                let v_in = &mut w_in[example * width..(example + 1) * width];
                gradient.fill(0.0);
                attract(
                    v_in,
                    &mut w_out[label * width..(label + 1) * width],
                    &mut gradient,
                    |dot| rate / (dot.exp() + 1.0),
                );
                for _ in 0..samples {
                    let word = sampler.draw(&mut stream);
                    if word == label {
                        continue;
                    }
                    let v_word = &mut w_out[word * width..(word + 1) * width];
                    attract(v_in, v_word, &mut gradient, |dot| -rate / ((-dot).exp() + 1.0));
                }
                v_in.iter_mut().zip(&gradient).for_each(|(x, &step)| *x += step);
            }
            Ok(())
        })
    })
}

/// Moves `v_out` by a share of `v_in` that depends on their product, and adds the opposite move to `gradient`.
fn attract(v_in: &[f32], v_out: &mut [f32], gradient: &mut [f32], share: impl Fn(f32) -> f32) {
    let dot: f32 = v_in.iter().zip(v_out.iter()).map(|(x, y)| x * y).sum();
    let share = share(dot);
    for ((x, y), step) in v_in.iter().zip(v_out).zip(gradient) {
        *step += *y * share;
        *y += x * share;
    }
}
