//! `CTCGreedyDecoder` and `CTCBeamSearchDecoder`: the labels of sequences.

use num_traits::Float;
use tfcore_base::{Elem, LoopFor, Result, TypedLoop, failed_precondition, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Dim, Elems, ElemsMut, PartialShape, Shape, Tensor};

use crate::beam_search::Search;
use crate::ctc_loss::ctc_lengths;

pub(crate) fn register(r: &mut Registry) {
    // `CTCGreedyDecoder(inputs: T, sequence_length: int32) -> decoded_indices: int64, decoded_values: int64, decoded_shape:
    // int64, log_probability: T`, attrs `merge_repeated`, `blank_index`: the most probable class at each time.
    r.op("CTCGreedyDecoder")
        .shape(|ctx| decoded_shape(ctx, 1))
        .typed_kernel::<Decode, (f32, f64)>("T", |init, loops| greedy(init, loops.greedy));

    // `CTCBeamSearchDecoder(inputs: T, sequence_length: int32) -> decoded_indices: top_paths * int64, decoded_values:
    // top_paths * int64, decoded_shape: top_paths * int64, log_probability: T`, attrs `beam_width`, `top_paths`,
    // `merge_repeated`: the most probable labels, of which the paths are added up.
    r.op("CTCBeamSearchDecoder")
        .shape(|ctx| {
            let paths = ctx.attrs.int("top_paths")?;
            decoded_shape(ctx, paths)
        })
        .typed_kernel::<Decode, (f32, f64)>("T", |init, loops| beam(init, loops.beam));
}

fn decoded_shape(ctx: &mut InferenceContext<'_>, paths: i64) -> Result<()> {
    let inputs = shape_ops::with_rank(ctx.input(0), 3)?;
    let lengths = shape_ops::with_rank(ctx.input(1), 1)?;
    let batch = shape_ops::merge_dims(inputs.dim(1), lengths.dim(0))?;
    let count = (ctx.num_outputs() - 1) / 3;
    for path in 0..count {
        ctx.set_output(path, [Dim::fresh(), Dim::new(2)].into_iter().collect());
        ctx.set_output(count + path, PartialShape::vector(Dim::fresh()));
        ctx.set_output(2 * count + path, PartialShape::vector(2));
    }
    ctx.set_output(3 * count, [batch, Dim::new(paths)].into_iter().collect());
    Ok(())
}

/// Labels of one sequence.
type Labels = Vec<usize>;

/// Sequences of a batch: [time, batch, classes].
struct Batch<'a> {
    size: usize,
    classes: usize,
    lengths: &'a [usize],
}

/// What the greedy decoder is to do.
#[derive(Clone, Copy)]
struct Greedy {
    merge_repeated: bool,
    blank: usize,
}

/// What the beam search is to do.
#[derive(Clone, Copy)]
struct Beam {
    width: usize,
    paths: usize,
    merge_repeated: bool,
}

#[derive(Clone, Copy)]
struct LoopsOf {
    /// Writes the negative sum of the largest inputs of each sequence; returns the labels.
    greedy: fn(Parallel<'_>, &Batch<'_>, Greedy, Elems<'_>, ElemsMut<'_>) -> Vec<Labels>,
    /// Writes the logarithmic probabilities [batch, paths]; returns the labels of each sequence and path, `None` if there are too
    /// few.
    beam: fn(Parallel<'_>, &Batch<'_>, Beam, Elems<'_>, ElemsMut<'_>) -> Option<Vec<Vec<Labels>>>,
}

struct Decode;

impl TypedLoop for Decode {
    type Loop = LoopsOf;
}

impl<T: Elem + Float> LoopFor<T> for Decode {
    const LOOP: LoopsOf = LoopsOf {
        greedy: |par, batch, settings, inputs, out| {
            let (inputs, out) = (inputs.typed::<T>(), out.typed::<T>());
            let mut results = vec![(T::zero(), Labels::new()); batch.size];
            par_chunks_mut(par, &mut results, 1, 1, &|first, piece| {
                for (index, (sum, labels)) in (first..).zip(piece) {
                    let mut previous = usize::MAX;
                    for time in 0..batch.lengths[index] {
                        let row = batch.row(inputs, time, index);
                        let mut best = 0;
                        for class in 1..row.len() {
                            if row[class] > row[best] {
                                best = class;
                            }
                        }
                        *sum = *sum - row[best];
                        let repeated = settings.merge_repeated && best == previous;
                        if best != settings.blank && !repeated {
                            labels.push(best);
                        }
                        previous = best;
                    }
                }
            });
            let mut all = Vec::with_capacity(batch.size);
            for (out, (sum, labels)) in out.iter_mut().zip(results) {
                *out = sum;
                all.push(labels);
            }
            all
        },
        beam: |par, batch, settings, inputs, out| {
            let (inputs, out) = (inputs.typed::<T>(), out.typed::<T>());
            let mut results: Vec<Option<Vec<(Labels, T)>>> = vec![None; batch.size];
            par_chunks_mut(par, &mut results, 1, 1, &|first, piece| {
                for (index, result) in (first..).zip(piece) {
                    let mut search = Search::new(settings.width);
                    for time in 0..batch.lengths[index] {
                        search.step(batch.row(inputs, time, index));
                    }
                    *result = search.best(settings.paths, settings.merge_repeated);
                }
            });
            let mut all = Vec::with_capacity(batch.size);
            for (out, result) in out.chunks_exact_mut(settings.paths).zip(results) {
                let (labels, totals): (Vec<Labels>, Vec<T>) = result?.into_iter().unzip();
                out.copy_from_slice(&totals);
                all.push(labels);
            }
            Some(all)
        },
    };
}

impl Batch<'_> {
    fn row<'t, T>(&self, inputs: &'t [T], time: usize, index: usize) -> &'t [T] {
        &inputs[(time * self.size + index) * self.classes..][..self.classes]
    }
}

/// Checks the inputs; returns batch, classes and the lengths of the sequences.
fn check(ctx: &OpContext<'_>) -> Result<(usize, usize, Vec<usize>)> {
    let (inputs, lengths) = (ctx.input(0)?, ctx.input(1)?);
    require!(inputs.rank() == 3, "inputs is not a 3-Tensor");
    require!(inputs.count() > 0, "inputs must not be empty, got shape {}", inputs.shape());
    let [times, batch, classes] = [0, 1, 2].map(|axis| inputs.dim(axis));
    require!(times > 0, "max_time is 0");
    require!(lengths.rank() == 1, "sequence_length is not a vector");
    if lengths.dim(0) != batch {
        return Err(failed_precondition!(
            "len(sequence_length) != batch_size.  len(sequence_length):  {} batch_size: {batch}",
            lengths.dim(0)
        ));
    }
    let lengths = ctc_lengths(lengths.as_slice::<i32>()?, times).map_err(|wrong| {
        failed_precondition!("sequence_length({}) <= {times}, got {}", wrong.index, wrong.length)
    })?;
    Ok((batch, classes, lengths))
}

/// Sets the outputs of one path: indices, values and shape of a sparse matrix of the labels.
fn set_path(ctx: &OpContext<'_>, path: usize, count: usize, sequences: &[&Labels]) -> Result<()> {
    let (mut indices, mut values, mut longest) = (Vec::new(), Vec::new(), 0);
    for (sequence, labels) in sequences.iter().enumerate() {
        longest = longest.max(labels.len());
        for (place, &label) in labels.iter().enumerate() {
            indices.extend([sequence as i64, place as i64]);
            values.push(label as i64);
        }
    }
    let shape = [sequences.len() as i64, longest as i64];
    let pairs = Shape::new(&[values.len() as i64, 2])?;
    ctx.set_output(path, Tensor::from_slice(pairs, &indices)?);
    ctx.set_output(count + path, Tensor::from_slice(Shape::vector(values.len()), &values)?);
    ctx.set_output(2 * count + path, Tensor::from_slice(Shape::vector(2), &shape)?);
    Ok(())
}

fn greedy(
    init: &KernelInit<'_>,
    run: fn(Parallel<'_>, &Batch<'_>, Greedy, Elems<'_>, ElemsMut<'_>) -> Vec<Labels>,
) -> Result<Box<dyn Kernel>> {
    let merge_repeated = init.attrs.bool("merge_repeated")?;
    let blank = init.attrs.int("blank_index")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (size, classes, lengths) = check(ctx)?;
        let count = classes as i64;
        require!(
            blank >= -count && blank < count,
            "blank_index expected to be between {} and {} but got {blank}",
            -count,
            count - 1
        );
        let blank = (if blank < 0 { blank + count } else { blank }) as usize;
        let mut out = ctx.allocate_output(3, Shape::new(&[size as i64, 1])?)?;
        let batch = Batch { size, classes, lengths: &lengths };
        let settings = Greedy { merge_repeated, blank };
        let labels = run(ctx.parallel(), &batch, settings, ctx.input(0)?.elems(), out.elems_mut()?);
        set_path(ctx, 0, 1, &labels.iter().collect::<Vec<&Labels>>())?;
        ctx.set_output(3, out);
        Ok(())
    })
}

fn beam(
    init: &KernelInit<'_>,
    run: fn(Parallel<'_>, &Batch<'_>, Beam, Elems<'_>, ElemsMut<'_>) -> Option<Vec<Vec<Labels>>>,
) -> Result<Box<dyn Kernel>> {
    let (width, paths) = (init.attrs.int("beam_width")?, init.attrs.int("top_paths")?);
    let merge_repeated = init.attrs.bool("merge_repeated")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (size, classes, lengths) = check(ctx)?;
        require!(paths <= width, "requested more paths than the beam width.");
        let settings = Beam { width: width as usize, paths: paths as usize, merge_repeated };
        let few = || invalid!("Less leaves in the beam search than requested.");
        // Each label of each time makes at most one prefix more, so that more paths than that cannot be.
        let shape = Shape::new(&[size as i64, paths])?;
        let mut out = ctx.allocate_output(3 * settings.paths, shape)?;
        let batch = Batch { size, classes, lengths: &lengths };
        let labels = run(ctx.parallel(), &batch, settings, ctx.input(0)?.elems(), out.elems_mut()?)
            .ok_or_else(few)?;
        for path in 0..settings.paths {
            let sequences: Vec<&Labels> = labels.iter().map(|paths| &paths[path]).collect();
            set_path(ctx, path, settings.paths, &sequences)?;
        }
        ctx.set_output(3 * settings.paths, out);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op, tensor};

    use super::*;

    #[test]
    fn the_most_probable_class_at_each_time() {
        // Classes 1, 1, blank, 1.
        let x = [0.0, 3.0, 1.0, 0.0, 4.0, 1.0, 0.0, 0.0, 5.0, 1.0, 2.0, 0.0];
        let inputs = [floats(&[4, 1, 3], &x), tensor(&[1], &[4i32])];
        let run = |merge: bool| {
            let attrs =
                [("T", AttrValue::Type(DType::FLOAT)), ("merge_repeated", AttrValue::Bool(merge))];
            run_op(&registry_of(register), "CTCGreedyDecoder", &attrs, &inputs).unwrap()
        };
        let out = run(true);
        assert_eq!(out[0].as_slice::<i64>().unwrap(), [0, 0, 0, 1]);
        assert_eq!(out[1].as_slice::<i64>().unwrap(), [1, 1]);
        assert_eq!(out[2].as_slice::<i64>().unwrap(), [1, 2]);
        assert_eq!(out[3].as_slice::<f32>().unwrap(), [-14.0]);
        assert_eq!(run(false)[1].as_slice::<i64>().unwrap(), [1, 1, 1]);
    }
}
