//! Non-maximum suppression: of boxes that overlap, the one with the best score stays.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use num_traits::Float;
use tfcore_base::{Elem, Half, LoopFor, Result, TypedLoop, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `NonMaxSuppression(boxes: float, scores: float, max_output_size: int32; iou_threshold) -> selected_indices: int32`:
    // the numbers of at most `max_output_size` boxes `(y1, x1, y2, x2)`, best score first, no two of which share more than
    // `iou_threshold` of their common area.
    r.op("NonMaxSuppression").shape(|ctx| suppression_shape(ctx, Version::V1)).cpu(|init| {
        let threshold = init.attrs.float("iou_threshold")?;
        let run = init.loop_for::<Suppress, Types>(tfcore_base::DType::FLOAT)?;
        require!((0.0..=1.0).contains(&threshold), "iou_threshold must be in [0, 1]");
        kernel(move |ctx| suppress(ctx, Version::V1, run, Some(f64::from(threshold)), false))
    });
    // `V2` has `iou_threshold` for an input, `V3` and later `score_threshold` besides, `V4` and `V5` the output
    // `valid_outputs: int32`, and `V5` input `soft_nms_sigma` and output `selected_scores`.
    for (op, version) in [
        ("NonMaxSuppressionV2", Version::V2),
        ("NonMaxSuppressionV3", Version::V3),
        ("NonMaxSuppressionV4", Version::V4),
        ("NonMaxSuppressionV5", Version::V5),
    ] {
        r.op(op)
            .shape(move |ctx| suppression_shape(ctx, version))
            .typed_kernel::<Suppress, Types>("T", move |init, run| by_boxes(init, run, version));
    }

    // `NonMaxSuppressionWithOverlaps(overlaps: float, scores: float, max_output_size: int32, overlap_threshold: float,
    // score_threshold: float) -> selected_indices: int32`: `overlaps[i, j]` is how much boxes `i` and `j` overlap.
    r.op("NonMaxSuppressionWithOverlaps").shape(overlaps_shape).compute(by_overlaps);
}

type Types = (f32, Half);

#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Version {
    V1,
    V2,
    V3,
    V4,
    V5,
}

fn suppression_shape(ctx: &mut InferenceContext<'_>, version: Version) -> Result<()> {
    let boxes = shape_ops::with_rank(ctx.input(0), 2)?;
    let scores = shape_ops::with_rank(ctx.input(1), 1)?;
    for index in 2..ctx.num_inputs() {
        shape_ops::with_rank(ctx.input(index), 0)?;
    }
    shape_ops::merge_dims(boxes.dim(0), scores.dim(0))?;
    shape_ops::with_value(boxes.dim(1), 4)?;
    let pads = version >= Version::V4 && ctx.attrs.bool("pad_to_max_output_size")?;
    let selected = if pads { ctx.operand_dim(2)? } else { Dim::fresh() };
    ctx.set_output(0, PartialShape::vector(selected));
    match version {
        Version::V4 => ctx.set_output(1, PartialShape::scalar()),
        Version::V5 => {
            ctx.set_output(1, PartialShape::vector(selected));
            ctx.set_output(2, PartialShape::scalar());
        }
        _ => {}
    }
    Ok(())
}

fn overlaps_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let overlaps = shape_ops::with_rank(ctx.input(0), 2)?;
    let scores = shape_ops::with_rank(ctx.input(1), 1)?;
    for index in 2..5 {
        shape_ops::with_rank(ctx.input(index), 0)?;
    }
    shape_ops::merge_dims(overlaps.dim(0), scores.dim(0))?;
    shape_ops::merge_dims(overlaps.dim(0), overlaps.dim(1))?;
    ctx.set_output(0, PartialShape::vector(Dim::fresh()));
    Ok(())
}

/// What a selection goes by.
pub(crate) struct Rules<T> {
    pub(crate) limit: usize,
    pub(crate) overlap: T,
    pub(crate) score: T,
    /// Above 0, boxes that overlap a better one lose score instead of their place.
    pub(crate) sigma: T,
}

/// A box that may still be selected.
struct Candidate<T> {
    index: usize,
    score: T,
    /// The selected boxes up to here have been compared with it.
    compared: usize,
}

impl<T: Float> Ord for Candidate<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = self.score.partial_cmp(&other.score).unwrap_or(Ordering::Equal);
        by_score.then(other.index.cmp(&self.index))
    }
}

impl<T: Float> PartialOrd for Candidate<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Float> PartialEq for Candidate<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T: Float> Eq for Candidate<T> {}

/// Selects boxes by their scores and `overlap(i, j)`. Returns their numbers and scores.
pub(crate) fn select<T: Float>(
    scores: &[T],
    rules: &Rules<T>,
    overlap: impl Fn(usize, usize) -> T,
) -> Vec<(usize, T)> {
    let is_soft = rules.sigma > T::zero();
    let half = T::from(0.5).unwrap_or_else(T::zero);
    let scale = if is_soft { -half / rules.sigma } else { T::zero() };
    let weight = |overlap: T| match overlap <= rules.overlap {
        true => (scale * overlap * overlap).exp(),
        false => T::zero(),
    };
    let mut queue: BinaryHeap<Candidate<T>> = scores
        .iter()
        .enumerate()
        .filter(|(_, score)| **score > rules.score)
        .map(|(index, &score)| Candidate { index, score, compared: 0 })
        .collect();
    let mut selected: Vec<(usize, T)> = Vec::new();
    while selected.len() < rules.limit
        && let Some(mut next) = queue.pop()
    {
        let original = next.score;
        let mut dropped = false;
        for &(index, _) in selected[next.compared..].iter().rev() {
            let shared = overlap(next.index, index);
            next.score = next.score * weight(shared);
            if !is_soft && shared > rules.overlap {
                dropped = true;
                break;
            }
            if next.score <= rules.score {
                break;
            }
        }
        next.compared = selected.len();
        if dropped {
            continue;
        }
        if next.score == original {
            selected.push((next.index, next.score));
        } else if next.score > rules.score {
            queue.push(next);
        }
    }
    selected
}

/// The common area of two boxes as a part of all that they cover.
pub(crate) fn intersection_over_union<T: Float>(a: &[T], b: &[T]) -> T {
    let sides = |corners: &[T], axis: usize| {
        (corners[axis].min(corners[axis + 2]), corners[axis].max(corners[axis + 2]))
    };
    let [(a_top, a_bottom), (a_left, a_right)] = [0, 1].map(|axis| sides(a, axis));
    let [(b_top, b_bottom), (b_left, b_right)] = [0, 1].map(|axis| sides(b, axis));
    let a_area = (a_bottom - a_top) * (a_right - a_left);
    let b_area = (b_bottom - b_top) * (b_right - b_left);
    if a_area <= T::zero() || b_area <= T::zero() {
        return T::zero();
    }
    let height = (a_bottom.min(b_bottom) - a_top.max(b_top)).max(T::zero());
    let width = (a_right.min(b_right) - a_left.max(b_left)).max(T::zero());
    let shared = height * width;
    shared / (a_area + b_area - shared)
}

/// The numbers and the scores of the boxes that are selected: boxes, scores, limit, the three thresholds.
type SuppressLoop = fn(&Tensor, &Tensor, usize, [f64; 3]) -> Result<(Vec<i32>, Vec<f64>)>;

struct Suppress;

impl TypedLoop for Suppress {
    type Loop = SuppressLoop;
}

impl<T: Elem + Float> LoopFor<T> for Suppress {
    const LOOP: SuppressLoop = |boxes, scores, limit, thresholds| {
        let boxes = boxes.as_slice::<T>()?;
        let [overlap, score, sigma] =
            thresholds.map(|value| T::from(value).unwrap_or_else(T::zero));
        let rules = Rules { limit, overlap, score, sigma };
        let corners = |index: usize| &boxes[index * 4..index * 4 + 4];
        let found = select(scores.as_slice::<T>()?, &rules, |a, b| {
            intersection_over_union(corners(a), corners(b))
        });
        Ok(found
            .into_iter()
            .map(|(index, score)| (index as i32, score.to_f64().unwrap_or(0.0)))
            .unzip())
    };
}

fn by_boxes(init: &KernelInit<'_>, run: SuppressLoop, version: Version) -> Result<Box<dyn Kernel>> {
    let pads = version >= Version::V4 && init.attrs.bool("pad_to_max_output_size")?;
    kernel(move |ctx| suppress(ctx, version, run, None, pads))
}

/// The value of a scalar that is a float of any width.
fn threshold(ctx: &OpContext<'_>, index: usize, name: &str) -> Result<f64> {
    let tensor = ctx.input(index)?;
    require!(tensor.rank() == 0, "{name} must be 0-D, got shape {}", tensor.shape());
    match tensor.dtype() {
        tfcore_base::DType::HALF => Ok(tensor.scalar_value::<Half>()?.to_f64()),
        _ => Ok(tensor.scalar_value::<f32>()?.into()),
    }
}

/// The number of boxes wanted.
fn limit(ctx: &OpContext<'_>) -> Result<i32> {
    let limit = ctx.input(2)?;
    require!(limit.rank() == 0, "max_output_size must be 0-D, got shape {}", limit.shape());
    let limit = limit.scalar_value::<i32>()?;
    require!(limit >= 0, "output size must be non-negative");
    Ok(limit)
}

fn suppress(
    ctx: &mut OpContext<'_>,
    version: Version,
    run: SuppressLoop,
    overlap: Option<f64>,
    pads: bool,
) -> Result<()> {
    let (boxes, scores) = (ctx.input(0)?, ctx.input(1)?);
    let wanted = ctx.input(2)?;
    require!(wanted.rank() == 0, "max_output_size must be 0-D, got shape {}", wanted.shape());
    let overlap = match overlap {
        Some(overlap) => overlap,
        None => {
            let overlap = threshold(ctx, 3, "iou_threshold")?;
            require!((0.0..=1.0).contains(&overlap), "iou_threshold must be in [0, 1]");
            overlap
        }
    };
    let score = match version >= Version::V3 {
        true => threshold(ctx, 4, "score_threshold")?,
        false => f64::NEG_INFINITY,
    };
    let sigma = match version {
        Version::V5 => {
            let sigma = threshold(ctx, 5, "soft_nms_sigma")?;
            require!(sigma >= 0.0, "soft_nms_sigma_val must be >= 0");
            sigma
        }
        _ => 0.0,
    };
    require!(
        boxes.rank() == 2,
        "boxes must be 2-D{} (Shape must be rank 2 but is rank {})",
        boxes.shape(),
        boxes.rank()
    );
    require!(
        boxes.dim(1) == 4,
        "boxes must have 4 columns (Dimension must be 4 but is {})",
        boxes.dim(1)
    );
    check_scores(scores, boxes.dim(0))?;
    let limit = limit(ctx)?;
    let (mut indices, mut values) = run(boxes, scores, limit as usize, [overlap, score, sigma])?;
    let valid = indices.len();
    if pads {
        // The room is asked for before it is taken: the limit is a mere claim.
        let missing = limit as usize - valid;
        indices.extend(tfcore_base::try_filled(0, missing)?);
        values.extend(tfcore_base::try_filled(0.0, missing)?);
    }
    ctx.set_output(0, Tensor::from_slice(Shape::vector(indices.len()), &indices)?);
    if version == Version::V5 {
        ctx.produce(1, Shape::vector(values.len()), |out| match out.dtype() {
            tfcore_base::DType::HALF => {
                for (out, value) in out.typed::<Half>().iter_mut().zip(values) {
                    *out = Half::from_f64(value);
                }
            }
            _ => {
                for (out, value) in out.typed::<f32>().iter_mut().zip(values) {
                    *out = value as f32;
                }
            }
        })?;
    }
    if version >= Version::V4 {
        ctx.set_output(ctx.num_outputs() - 1, Tensor::scalar(valid as i32));
    }
    Ok(())
}

fn check_scores(scores: &Tensor, boxes: usize) -> Result<()> {
    require!(
        scores.rank() == 1,
        "scores must be 1-D{} (Shape must be rank 1 but is rank {})",
        scores.shape(),
        scores.rank()
    );
    require!(
        scores.dim(0) == boxes,
        "scores has incompatible shape (Dimensions must be equal, but are {boxes} and {})",
        scores.dim(0)
    );
    Ok(())
}

fn by_overlaps(ctx: &mut OpContext<'_>) -> Result<()> {
    let (overlaps, scores) = (ctx.input(0)?, ctx.input(1)?);
    let wanted = ctx.input(2)?;
    require!(wanted.rank() == 0, "max_output_size must be 0-D, got shape {}", wanted.shape());
    let overlap = threshold(ctx, 3, "overlap_threshold")? as f32;
    let score = threshold(ctx, 4, "score_threshold")? as f32;
    require!(overlaps.rank() == 2, "overlaps must be 2-D{}", overlaps.shape());
    let boxes = overlaps.dim(0);
    require!(overlaps.dim(1) == boxes, "overlaps must be square{}", overlaps.shape());
    check_scores(scores, boxes)?;
    let rules = Rules { limit: limit(ctx)? as usize, overlap, score, sigma: 0.0 };
    let overlaps = overlaps.as_slice::<f32>()?;
    let found = select(scores.as_slice()?, &rules, |a, b| overlaps[a * boxes + b]);
    let indices: Vec<i32> = found.into_iter().map(|(index, _)| index as i32).collect();
    ctx.set_output(0, Tensor::from_slice(Shape::vector(indices.len()), &indices)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_areas() {
        let a = [0.0, 0.0, 1.0, 1.0];
        assert_eq!(intersection_over_union(&a, &[0.5, 0.0, 1.5, 1.0]), 0.5 / 1.5);
        // Corners may come in any order; boxes without area share nothing.
        assert_eq!(intersection_over_union(&a, &[1.0, 1.0, 0.0, 0.0]), 1.0);
        assert_eq!(intersection_over_union(&a, &[0.5, 0.0, 0.5, 1.0]), 0.0);
    }

    #[test]
    fn the_best_stay() {
        let overlap = |a: usize, b: usize| if a + b == 1 { 0.8f32 } else { 0.0 };
        let scores = [0.9, 0.8, 0.7, f32::NAN];
        let mut rules = Rules { limit: 3, overlap: 0.5, score: 0.1, sigma: 0.0 };
        let indices = |found: Vec<(usize, f32)>| -> Vec<usize> {
            found.into_iter().map(|(index, _)| index).collect()
        };
        assert_eq!(indices(select(&scores, &rules, overlap)), [0, 2]);
        rules.overlap = 1.0;
        rules.sigma = 0.5;
        let soft = select(&scores, &rules, overlap);
        // 0.8 * exp(-0.64)
        assert!((soft[2].1 - 0.8 * (-0.64f32).exp()).abs() < 1e-6);
        assert_eq!(indices(soft), [0, 2, 1]);
    }
}
