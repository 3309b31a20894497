//! `CombinedNonMaxSuppression`.

use tfcore_base::{Result, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::pool::par_chunks_mut;
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

use crate::suppression::{Rules, intersection_over_union, select};

pub(crate) fn register(r: &mut Registry) {
    // `CombinedNonMaxSuppression(boxes: float, scores: float, max_output_size_per_class: int32, max_total_size: int32,
    // iou_threshold: float, score_threshold: float; pad_per_class, clip_boxes) -> (nmsed_boxes: float, nmsed_scores: float,
    // nmsed_classes: float, valid_detections: int32)`: suppression in each class of each image, then the best of all
    // classes. `boxes` has `[batch, boxes, classes or 1, 4]`, `scores` `[batch, boxes, classes]`.
    r.op("CombinedNonMaxSuppression").shape(combined_shape).cpu(combined);
}

fn combined_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let boxes = shape_ops::with_rank(ctx.input(0), 4)?;
    let scores = shape_ops::with_rank(ctx.input(1), 3)?;
    for index in 2..6 {
        shape_ops::with_rank(ctx.input(index), 0)?;
    }
    shape_ops::merge_dims(boxes.dim(0), scores.dim(0))?;
    shape_ops::merge_dims(boxes.dim(1), scores.dim(1))?;
    if let (Some(of_boxes), Some(classes)) = (boxes.dim(2).value(), scores.dim(2).value())
        && of_boxes != 1
        && of_boxes != classes
    {
        shape_ops::merge_dims(boxes.dim(2), scores.dim(2))?;
    }
    shape_ops::with_value(boxes.dim(3), 4)?;
    let mut size = Dim::fresh();
    if let Some(total) = ctx.operand_i64(3)? {
        require!(total > 0, "max_total_size should be > 0 ");
        size = Dim::new(total);
        if ctx.attrs.bool("pad_per_class")? {
            size = match (ctx.operand_i64(2)?, scores.dim(2).value()) {
                (Some(per_class), Some(classes)) => {
                    require!(per_class > 0, "max_output_size_per_class must be > 0 ");
                    Dim::new(total.min(per_class.saturating_mul(classes)))
                }
                _ => Dim::fresh(),
            };
        }
    }
    let batch = boxes.dim(0);
    ctx.set_output(0, [batch, size, Dim::new(4)].into_iter().collect());
    ctx.set_output(1, PartialShape::matrix(batch, size));
    ctx.set_output(2, PartialShape::matrix(batch, size));
    ctx.set_output(3, PartialShape::vector(batch));
    Ok(())
}

/// What the best of an image are.
#[derive(Default, Clone)]
struct Best {
    corners: Vec<[f32; 4]>,
    scores: Vec<f32>,
    classes: Vec<f32>,
}

fn scalar<'c>(ctx: &'c OpContext<'_>, index: usize, name: &str) -> Result<&'c Tensor> {
    let tensor = ctx.input(index)?;
    require!(tensor.rank() == 0, "{name} must be 0-D, got shape {}", tensor.shape());
    Ok(tensor)
}

fn combined(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let pads_per_class = init.attrs.bool("pad_per_class")?;
    let clips = init.attrs.bool("clip_boxes")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (boxes, scores) = (ctx.input(0)?, ctx.input(1)?);
        let per_class = scalar(ctx, 2, "max_size_per_class")?.scalar_value::<i32>()?;
        require!(per_class > 0, "max_size_per_class must be positive");
        let total = scalar(ctx, 3, "max_total_size")?.scalar_value::<i32>()?;
        require!(total > 0, "max_total_size must be > 0");
        let overlap = scalar(ctx, 4, "iou_threshold")?.scalar_value::<f32>()?;
        let score = scalar(ctx, 5, "score_threshold")?.scalar_value::<f32>()?;
        require!((0.0..=1.0).contains(&overlap), "iou_threshold must be in [0, 1]");
        require!(boxes.rank() == 4, "boxes must be 4-D{}", boxes.shape());
        require!(scores.rank() == 3, "scores must be 3-D{}", scores.shape());
        let [batch, count, of_boxes] = [0, 1, 2].map(|axis| boxes.dim(axis));
        let classes = scores.dim(2);
        require!(scores.dim(0) == batch, "boxes and scores must have same batch size");
        require!(scores.dim(1) == count, "scores has incompatible shape");
        require!(boxes.dim(3) == 4, "box coordinate dimension must be 4");
        require!(
            of_boxes == 1 || of_boxes == classes,
            "third dimension of boxes must be either 1 or num classes"
        );
        let size = match pads_per_class {
            true => i64::from(total).min(i64::from(per_class) * classes as i64),
            false => i64::from(total),
        };
        let corners = boxes.as_slice::<f32>()?;
        let all_scores = scores.as_slice::<f32>()?;
        let limit = per_class as usize;
        let mut best = vec![Best::default(); batch];
        par_chunks_mut(ctx.parallel(), &mut best, 1, 1, &|first, piece| {
            for (image, best) in (first..).zip(piece) {
                let mut found: Vec<(f32, usize, usize)> = vec![];
                let corners_of = |index: usize, class: usize| {
                    let class = if of_boxes > 1 { class } else { 0 };
                    let at = ((image * count + index) * of_boxes + class) * 4;
                    &corners[at..at + 4]
                };
                for class in 0..classes {
                    let scores: Vec<f32> = (0..count)
                        .map(|index| all_scores[(image * count + index) * classes + class])
                        .collect();
                    let rules = Rules { limit, overlap, score, sigma: 0.0 };
                    let selected = select(&scores, &rules, |a, b| {
                        intersection_over_union(corners_of(a, class), corners_of(b, class))
                    });
                    found.extend(selected.into_iter().map(|(index, score)| (score, class, index)));
                }
                found.sort_by(|a, b| b.0.total_cmp(&a.0));
                for &(score, class, index) in found.iter().take(size as usize) {
                    let corners = corners_of(index, class);
                    let cut = |value: f32| if clips { value.clamp(0.0, 1.0) } else { value };
                    best.corners.push([0, 1, 2, 3].map(|k| cut(corners[k])));
                    best.scores.push(score);
                    best.classes.push(class as f32);
                }
            }
        });
        let matrix = Shape::new(&[batch as i64, size])?;
        let size = size as usize;
        ctx.produce(0, Shape::new(&[batch as i64, size as i64, 4])?, |out| {
            let out = out.typed::<f32>();
            out.fill(0.0);
            for (out, best) in out.chunks_mut(size * 4).zip(&best) {
                for (out, corners) in out.chunks_mut(4).zip(&best.corners) {
                    out.copy_from_slice(corners);
                }
            }
        })?;
        for (index, values) in
            [(1, (|best| &best.scores) as fn(&Best) -> &Vec<f32>), (2, |best| &best.classes)]
        {
            ctx.produce(index, matrix.clone(), |out| {
                let out = out.typed::<f32>();
                out.fill(0.0);
                for (out, best) in out.chunks_mut(size).zip(&best) {
                    let values = values(best);
                    out[..values.len()].copy_from_slice(values);
                }
            })?;
        }
        let valid: Vec<i32> = best.iter().map(|best| best.scores.len() as i32).collect();
        ctx.set_output(3, Tensor::from_slice(Shape::vector(batch), &valid)?);
        Ok(())
    })
}
