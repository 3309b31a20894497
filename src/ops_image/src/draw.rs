//! `DrawBoundingBoxes` and its `V2`.

use tfcore_base::{Elem, Half, LoopFor, Result, TypedLoop, require};
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_ops};
use tfcore_tensor::{ElemsMut, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `DrawBoundingBoxes(images: T, boxes: float) -> output: T`: the images, `[batch, height, width, depth]`, with the
    // outlines of `boxes`, `[batch, num_boxes, (y_min, x_min, y_max, x_max)]` in parts of an image.
    r.op("DrawBoundingBoxes")
        .shape(draw_shape)
        .typed::<Paint, (f32, Half)>("T", |ctx, paint| draw(ctx, paint, &COLOURS));

    // `DrawBoundingBoxesV2(images: T, boxes: float, colors: float) -> output: T`: `colors` are used in turn.
    r.op("DrawBoundingBoxesV2").shape(draw_shape).typed::<Paint, (f32, Half)>("T", |ctx, paint| {
        let colors = ctx.input(2)?;
        require!(colors.rank() == 2, "colors must be a 2-D matrix, got {}", colors.shape());
        let depth = ctx.input(0)?.shape().dims().get(3).copied().unwrap_or(0) as usize;
        if colors.dim(0) == 0 {
            return draw(ctx, paint, &COLOURS);
        }
        require!(
            colors.dim(1) >= depth,
            "colors must have equal or more channels than the image provided: {} vs. {depth}",
            colors.dim(1)
        );
        let table: Vec<Vec<f32>> =
            colors.as_slice::<f32>()?.chunks(colors.dim(1).max(1)).map(<[f32]>::to_vec).collect();
        let table: Vec<&[f32]> = table.iter().map(Vec::as_slice).collect();
        draw(ctx, paint, &table)
    });
}

fn draw_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let images = shape_ops::with_rank_at_least(ctx.input(0), 3)?;
    ctx.set_output(0, images);
    Ok(())
}

/// Red, green, blue and opacity of the boxes without colours of their own.
const COLOURS: [&[f32]; 10] = [
    &[1.0, 1.0, 0.0, 1.0],
    &[0.0, 0.0, 1.0, 1.0],
    &[1.0, 0.0, 0.0, 1.0],
    &[0.0, 1.0, 0.0, 1.0],
    &[0.5, 0.0, 0.5, 1.0],
    &[0.5, 0.5, 0.0, 1.0],
    &[0.5, 0.0, 0.0, 1.0],
    &[0.0, 0.0, 0.5, 1.0],
    &[0.0, 1.0, 1.0, 1.0],
    &[1.0, 0.0, 1.0, 1.0],
];

/// Writes a colour over pixels that begin at these elements.
type PaintLoop = fn(ElemsMut<'_>, &mut dyn Iterator<Item = usize>, &[f32]);

struct Paint;

impl TypedLoop for Paint {
    type Loop = PaintLoop;
}

/// A float that a colour is rounded to.
trait Channel: Elem + Copy {
    fn of(value: f32) -> Self;
}

impl Channel for f32 {
    fn of(value: f32) -> f32 {
        value
    }
}

impl Channel for Half {
    fn of(value: f32) -> Half {
        Half::from_f32(value)
    }
}

impl<T: Channel> LoopFor<T> for Paint {
    const LOOP: PaintLoop = |out, pixels, colour| {
        let out = out.typed::<T>();
        for at in pixels {
            for (out, &value) in out[at..at + colour.len()].iter_mut().zip(colour) {
                *out = T::of(value);
            }
        }
    };
}

fn draw(ctx: &mut OpContext<'_>, paint: PaintLoop, colours: &[&[f32]]) -> Result<()> {
    let (images, boxes) = (ctx.input(0)?, ctx.input(1)?);
    require!(images.rank() == 4, "The rank of the images should be 4");
    require!(boxes.rank() == 3, "The rank of the boxes tensor should be 3");
    require!(images.dim(0) == boxes.dim(0), "The batch sizes should be the same");
    let depth = images.dim(3);
    require!(
        matches!(depth, 1 | 3 | 4),
        "Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)"
    );
    require!(
        boxes.dim(2) == 4,
        "The size of the third dimension of the box must be 4. Received: {}",
        boxes.dim(2)
    );
    let mut output: Tensor = images.deep_copy()?;
    let [height, width] = [images.shape().dims()[1], images.shape().dims()[2]];
    let corners = boxes.as_slice::<f32>()?;
    let mut out = output.elems_mut()?;
    for (index, corners) in corners.chunks_exact(4).enumerate() {
        let (batch, number) = (index / boxes.dim(1), index % boxes.dim(1));
        let scaled = |corner: usize, size: i64| (corners[corner] * (size - 1) as f32) as i64;
        let rows = (scaled(0, height), scaled(2, height));
        let cols = (scaled(1, width), scaled(3, width));
        if rows.0 > rows.1
            || cols.0 > cols.1
            || rows.0 >= height
            || rows.1 < 0
            || cols.0 >= width
            || cols.1 < 0
        {
            continue;
        }
        let rows_inside = rows.0.max(0)..=rows.1.min(height - 1);
        let cols_inside = cols.0.max(0)..=cols.1.min(width - 1);
        let at =
            |row: i64, col: i64| ((batch as i64 * height + row) * width + col) as usize * depth;
        let horizontal = [(rows.0 >= 0, rows.0), (rows.1 < height, rows.1)];
        let vertical = [(cols.0 >= 0, cols.0), (cols.1 < width, cols.1)];
        let lines = horizontal
            .iter()
            .filter(|line| line.0)
            .flat_map(|line| cols_inside.clone().map(move |col| at(line.1, col)));
        let columns = vertical
            .iter()
            .filter(|line| line.0)
            .flat_map(|line| rows_inside.clone().map(move |row| at(row, line.1)));
        let colour = colours[number % colours.len()];
        // Boxes in grey images are white.
        let white = [1.0];
        let colour = if depth == 1 { &white[..] } else { &colour[..depth] };
        paint(out.reborrow(), &mut lines.chain(columns), colour);
    }
    ctx.set_output(0, output);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op};

    use super::*;

    #[test]
    fn outlines() {
        let registry = registry_of(register);
        let images = floats(&[1, 4, 4, 1], &[0.0; 16]);
        let boxes = floats(&[1, 2, 4], &[0.0, 0.0, 0.7, 0.7, 0.5, 0.9, 0.2, 1.0]);
        let attrs = [("T", AttrValue::Type(DType::FLOAT))];
        let out = run_op(&registry, "DrawBoundingBoxes", &attrs, &[images, boxes]).unwrap();
        #[rustfmt::skip]
        let expected = [
            1.0, 1.0, 1.0, 0.0,
            1.0, 0.0, 1.0, 0.0,
            1.0, 1.0, 1.0, 0.0,
            0.0, 0.0, 0.0, 0.0,
        ];
        assert_eq!(out[0].as_slice::<f32>().unwrap(), expected);
    }
}
