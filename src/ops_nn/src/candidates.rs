//! `InTopK` and `ComputeAccidentalHits`: classes among predicted and sampled ones.

use std::collections::HashMap;

use tfcore_base::{Result, require};
use tfcore_framework::Kernel;
use tfcore_framework::{InferenceContext, KernelInit, OpContext, Registry, kernel, shape_ops};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `InTopK(predictions: float, targets: T) -> precision: bool`, attr `k`: true if fewer than `k` classes of the row have a
    // larger prediction than the target. `V2` has `k` as its third input.
    r.ops(["InTopK", "InTopKV2"], |op| {
        op.shape(in_top_k_shape).cpu(in_top_k);
    });

    // `ComputeAccidentalHits(true_classes: int64, sampled_candidates: int64) -> indices: int32, ids: int64, weights:
    // float`: rows whose true classes were sampled, the places of these in the samples, and the lowest number for each.
    r.op("ComputeAccidentalHits").shape(hits_shape).cpu(accidental_hits);
}

fn in_top_k_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let predictions = shape_ops::with_rank(ctx.input(0), 2)?;
    let targets = shape_ops::with_rank(ctx.input(1), 1)?;
    let rows = shape_ops::merge_dims(predictions.dim(0), targets.dim(0))?;
    ctx.set_output(0, PartialShape::vector(rows));
    Ok(())
}

fn in_top_k(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let attr = match init.attrs.contains("k") {
        true => Some(init.attrs.int("k")?),
        false => None,
    };
    kernel(move |ctx: &mut OpContext<'_>| {
        let (predictions, targets) = (ctx.input(0)?, ctx.input(1)?);
        let k = match attr {
            Some(k) => k,
            None => {
                let k = ctx.input(2)?;
                require!(k.rank() == 0, "k must be 0-D, got shape {}", k.shape());
                k.to_i64s()?[0]
            }
        };
        require!(predictions.rank() == 2, "predictions must be 2-dimensional");
        require!(targets.rank() == 1, "targets must be 1-dimensional");
        require!(
            predictions.dim(0) == targets.dim(0),
            "First dimension of predictions {} must match length of targets {}",
            predictions.dim(0),
            targets.dim(0)
        );
        let (scores, classes) = (predictions.as_slice::<f32>()?, predictions.dim(1));
        let targets = targets.to_i64s()?;
        ctx.produce(0, Shape::vector(targets.len()), |out| {
            for (row, (out, &target)) in out.typed::<bool>().iter_mut().zip(&targets).enumerate() {
                *out = is_in_top(&scores[row * classes..][..classes], target, k);
            }
        })
    })
}

/// False too if one of the predictions that are looked at is not finite.
fn is_in_top(scores: &[f32], target: i64, k: i64) -> bool {
    let target = usize::try_from(target).ok().and_then(|target| scores.get(target));
    let Some(&target) = target.filter(|score| score.is_finite()) else {
        return false;
    };
    let mut larger = 0;
    for &score in scores {
        if !score.is_finite() {
            return false;
        }
        if score > target {
            larger += 1;
            if larger > k {
                break;
            }
        }
    }
    larger < k
}

fn hits_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let classes = shape_ops::with_rank(ctx.input(0), 2)?;
    shape_ops::with_value(classes.dim(1), ctx.attrs.int("num_true")?)?;
    shape_ops::with_rank(ctx.input(1), 1)?;
    let hits = PartialShape::vector(Dim::fresh());
    (0..3).for_each(|index| ctx.set_output(index, hits.clone()));
    Ok(())
}

fn accidental_hits(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let num_true = init.attrs.int("num_true")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (classes, sampled) = (ctx.input(0)?, ctx.input(1)?);
        require!(
            classes.rank() == 2 && classes.shape()[1] == num_true,
            "true_candidates must be a batch_size * num_true matrix"
        );
        require!(
            sampled.rank() == 1,
            "sampled_candidates must be a vector, which is typically an output from CandidateSampler"
        );
        // Of a class that was sampled several times the last place counts.
        let places: HashMap<i64, i64> =
            sampled.as_slice::<i64>()?.iter().copied().zip(0..).collect();
        let (mut indices, mut ids) = (Vec::new(), Vec::new());
        for (index, class) in classes.as_slice::<i64>()?.iter().enumerate() {
            if let Some(&place) = places.get(class) {
                indices.push((index / num_true as usize) as i32);
                ids.push(place);
            }
        }
        let shape = Shape::vector(ids.len());
        let weights = vec![f32::MIN; ids.len()];
        ctx.set_output(0, Tensor::from_slice(shape.clone(), &indices)?);
        ctx.set_output(1, Tensor::from_slice(shape.clone(), &ids)?);
        ctx.set_output(2, Tensor::from_slice(shape, &weights)?);
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
    fn targets_among_the_first_k() {
        let scores = [0.1, 0.3, 0.2, 0.3, f32::INFINITY, 0.0];
        let inputs = [floats(&[2, 3], &scores), tensor(&[2], &[2i32, 2]), tensor::<i32>(&[], &[2])];
        let attrs = [("T", AttrValue::Type(DType::INT32))];
        let out = run_op(&registry_of(register), "InTopKV2", &attrs, &inputs).unwrap();
        assert_eq!(out[0].as_slice::<bool>().unwrap(), [true, false]);
        // Equal predictions share a place; classes that there are not are in none.
        assert!(is_in_top(&[1.0, 1.0, 0.0], 1, 1));
        assert!(!is_in_top(&[1.0, 1.0, 0.0], 3, 3));
        assert!(!is_in_top(&[1.0, 1.0, 0.0], -1, 3));
    }

    #[test]
    fn true_classes_that_were_sampled() {
        let inputs = [tensor(&[2, 2], &[1i64, 2, 3, 1]), tensor(&[4], &[3i64, 1, 1, 7])];
        let attrs = [("num_true", AttrValue::Int(2))];
        let out = run_op(&registry_of(register), "ComputeAccidentalHits", &attrs, &inputs).unwrap();
        assert_eq!(out[0].as_slice::<i32>().unwrap(), [0, 1, 1]);
        assert_eq!(out[1].as_slice::<i64>().unwrap(), [2, 0, 2]);
        assert_eq!(out[2].as_slice::<f32>().unwrap(), [f32::MIN; 3]);
    }
}
