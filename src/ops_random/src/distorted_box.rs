//! `SampleDistortedBoundingBox` and its relatives: a window of an image that covers part of an object.

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::philox::Philox;
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::candidates::Words;
use crate::operands::stream_of_seed;
use crate::stateful::Generator;
use crate::stateless::check_seed;

pub(crate) fn register(r: &mut Registry) {
    // `SampleDistortedBoundingBox(image_size: T, bounding_boxes: float; seed, seed2, min_object_covered,
    // aspect_ratio_range, area_range, max_attempts, use_image_if_no_bounding_boxes) -> (begin: T, size: T, bboxes: float)`;
    // `V2` has `min_object_covered: float` for an input.
    for (op, input) in
        [("SampleDistortedBoundingBox", false), ("SampleDistortedBoundingBoxV2", true)]
    {
        r.op(op).shape(move |ctx| sample_shape(ctx, input)).cpu(move |init| {
            let generator = Generator::new(init)?;
            let request = Request::new(init, input)?;
            let words = request.max_attempts.saturating_mul(4);
            distorted(request, move |_| Ok(generator.reserve_words(words)))
        });
    }

    // `StatelessSampleDistortedBoundingBox(image_size: T, bounding_boxes: float, min_object_covered: float, seed: Tseed)`.
    r.op("StatelessSampleDistortedBoundingBox")
        .shape(|ctx| {
            check_seed(ctx, 3)?;
            sample_shape(ctx, true)
        })
        .cpu(|init| distorted(Request::new(init, true)?, |ctx| stream_of_seed(ctx.input(3)?)));
}

fn sample_shape(ctx: &mut InferenceContext<'_>, has_covered: bool) -> Result<()> {
    let size = shape_ops::with_rank(ctx.input(0), 1)?;
    shape_ops::with_value(size.dim(0), 3)?;
    let boxes = shape_ops::with_rank(ctx.input(1), 3)?;
    shape_ops::with_value(boxes.dim(2), 4)?;
    if has_covered {
        shape_ops::with_rank(ctx.input(2), 0)?;
    }
    ctx.set_output(0, PartialShape::vector(3));
    ctx.set_output(1, PartialShape::vector(3));
    ctx.set_output(2, PartialShape::from_i64s(&[1, 1, 4])?);
    Ok(())
}

/// The attrs of a node.
struct Request {
    /// `None` if it is input 2.
    min_object_covered: Option<f32>,
    aspect_ratios: [f32; 2],
    areas: [f32; 2],
    max_attempts: usize,
    whole_image: bool,
}

impl Request {
    fn new(init: &KernelInit<'_>, covered_is_input: bool) -> Result<Request> {
        let attrs = init.attrs;
        let min_object_covered = match covered_is_input {
            true => None,
            false => {
                let covered = attrs.float("min_object_covered")?;
                require!(covered >= 0.0, "Min object covered must be non-negative: {covered}");
                Some(covered)
            }
        };
        let &[low, high] = attrs.floats("aspect_ratio_range")? else {
            return Err(invalid!("Aspect ratio range field must specify 2 dimensions"));
        };
        require!(
            low > 0.0 && high > 0.0,
            "Aspect ratio range must be non-negative: [{low}, {high}]"
        );
        let &[least, most] = attrs.floats("area_range")? else {
            return Err(invalid!("Area range field must specify 2 dimensions"));
        };
        require!(least > 0.0 && most > 0.0, "Area range must be non-negative: [{least}, {most}]");
        require!(
            least <= 1.0 && most <= 1.0,
            "Area range must be less then or equal to 1.0: [{least}, {most}]"
        );
        let attempts = attrs.int("max_attempts")?;
        require!(attempts > 0, "Max attempts must be non-negative: {attempts}");
        Ok(Request {
            min_object_covered,
            aspect_ratios: [low, high],
            areas: [least, most],
            max_attempts: attempts as usize,
            whole_image: attrs.bool("use_image_if_no_bounding_boxes")?,
        })
    }

    /// A window of the image that covers enough of one of the boxes; the image if none is found.
    fn window(&self, image: Box2, boxes: &[Box2], covered: f32, words: &mut Words) -> Box2 {
        for _ in 0..self.max_attempts {
            let [low, high] = self.aspect_ratios;
            let ratio = words.next_f32() * (high - low) + low;
            if let Some(window) = self.random_window(image, ratio, words)
                && covers(window, boxes, covered)
            {
                return window;
            }
        }
        image
    }

    fn random_window(&self, image: Box2, ratio: f32, words: &mut Words) -> Option<Box2> {
        let ([least, most], width, height) = (self.areas, image.right, image.bottom);
        if most <= 0.0 || ratio <= 0.0 || width <= 0 || height <= 0 || least > most {
            return None;
        }
        let round = |value: f32| value.round_ties_even() as i64;
        let wide = |rows: i64| round(rows as f32 * ratio);
        let min_area = least * width as f32 * height as f32;
        let max_area = most * width as f32 * height as f32;
        let mut rows = round((min_area / ratio).sqrt());
        let mut max_rows = round((max_area / ratio).sqrt());
        if wide(max_rows) > width {
            // As many rows as leave the window within the image's width.
            max_rows = ((width as f64 + 0.5 - 1e-7) / f64::from(ratio)) as i64;
            if wide(max_rows) > width {
                max_rows -= 1;
            }
        }
        max_rows = max_rows.min(height);
        rows = rows.min(max_rows);
        if rows < max_rows {
            rows += i64::from(words.below_u32((max_rows - rows + 1) as u32));
        }
        let mut cols = wide(rows);
        let area = |rows: i64, cols: i64| (rows * cols) as f32;
        // Rounding may lead just beyond the bounds.
        if area(rows, cols) < min_area {
            rows += 1;
            cols = wide(rows);
        }
        if area(rows, cols) > max_area {
            rows -= 1;
            cols = wide(rows);
        }
        let within = (min_area..=max_area).contains(&area(rows, cols));
        if !within || cols > width || rows > height || cols <= 0 || rows <= 0 {
            return None;
        }
        let mut place = |size: i64, room: i64| match size < room {
            true => i64::from(words.below_u32((room - size) as u32)),
            false => 0,
        };
        let top = place(rows, height);
        let left = place(cols, width);
        Some(Box2 { left, top, right: left + cols, bottom: top + rows })
    }
}

/// A rectangle of pixels; the right and the bottom one are outside of it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Box2 {
    left: i64,
    top: i64,
    right: i64,
    bottom: i64,
}

impl Box2 {
    fn area(self) -> f32 {
        ((self.right - self.left).max(0) * (self.bottom - self.top).max(0)) as f32
    }

    fn meet(self, other: Box2) -> Box2 {
        Box2 {
            left: self.left.max(other.left),
            top: self.top.max(other.top),
            right: self.right.min(other.right),
            bottom: self.bottom.min(other.bottom),
        }
    }
}

/// True if the window has so much of one of the boxes. Boxes of less than a pixel do not count.
fn covers(window: Box2, boxes: &[Box2], covered: f32) -> bool {
    window.area() >= 1.0
        && boxes.iter().any(|object| {
            object.area() >= 1.0 && window.meet(*object).area() / object.area() >= covered
        })
}

fn distorted(
    request: Request,
    stream: impl Fn(&OpContext<'_>) -> Result<Philox> + Send + Sync + 'static,
) -> Result<Box<dyn Kernel>> {
    kernel(move |ctx: &mut OpContext<'_>| {
        let size = ctx.input(0)?;
        require!(size.rank() == 1, "image_size must be 1-dimensional{}", size.shape());
        require!(size.count() == 3, "image_size must contain 3 elements{}", size.shape());
        let sizes = size_values(size)?;
        let (height, width) = (sizes[0], sizes[1]);
        for (value, name) in [(height, "height"), (width, "width")] {
            require!(
                (1..=i64::from(i32::MAX)).contains(&value),
                "Image {name} must be in (0, INT_MAX], got {value}"
            );
        }
        let covered = match request.min_object_covered {
            Some(covered) => covered,
            None => {
                let covered = ctx.input(2)?;
                require!(
                    covered.rank() == 0,
                    "min_object_covered must be 0-D, got shape {}",
                    covered.shape()
                );
                let covered = covered.scalar_value::<f32>()?;
                require!(covered >= 0.0, "Min object covered must be non-negative: {covered}");
                covered
            }
        };
        let input_boxes = ctx.input(1)?;
        require!(
            input_boxes.rank() == 3,
            "input boxes must be 3-dimensional [batch, num_boxes, coords]: {}",
            input_boxes.shape()
        );
        require!(
            input_boxes.dim(2) == 4,
            "bounding boxes must have shape [4] or [*, 4], got {}",
            input_boxes.shape()
        );
        let image = Box2 { left: 0, top: 0, right: width, bottom: height };
        let mut boxes = vec![];
        for corners in input_boxes.as_slice::<f32>()?.chunks_exact(4) {
            let &[y_min, x_min, y_max, x_max] = corners else { continue };
            require!(
                corners.iter().all(|corner| (0.0..=1.0).contains(corner)),
                "All bounding box coordinates must be in [0.0, 1.0]: {}",
                corners
                    .iter()
                    .find(|corner| !(0.0..=1.0).contains(*corner))
                    .copied()
                    .unwrap_or(0.0)
            );
            require!(
                x_min < x_max && y_min < y_max,
                "Minimum of a bounding box must be below its maximum: {corners:?}"
            );
            let scaled = |corner: f32, size: i64| (corner * size as f32) as i64;
            boxes.push(Box2 {
                left: scaled(x_min, width),
                top: scaled(y_min, height),
                right: scaled(x_max, width),
                bottom: scaled(y_max, height),
            });
        }
        if boxes.is_empty() {
            require!(
                request.whole_image,
                "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish to \
                 not provide any bounding boxes."
            );
            boxes.push(image);
        }
        let mut words = Words::new(stream(ctx)?);
        let window = request.window(image, &boxes, covered, &mut words);
        let dtype = size.dtype();
        let begin = [window.top, window.left, 0];
        let extent = [window.bottom - window.top, window.right - window.left, -1];
        ctx.set_output(0, vector(dtype, &begin)?);
        ctx.set_output(1, vector(dtype, &extent)?);
        let part = |value: i64, size: i64| value as f32 / size as f32;
        let corners = [
            part(window.top, height),
            part(window.left, width),
            part(window.bottom, height),
            part(window.right, width),
        ];
        ctx.set_output(2, Tensor::from_slice(Shape::new(&[1, 1, 4])?, &corners)?);
        Ok(())
    })
}

/// The elements of a tensor of any integer type.
fn size_values(tensor: &Tensor) -> Result<Vec<i64>> {
    match tensor.dtype() {
        DType::UINT64 => Ok(tensor.as_slice::<u64>()?.iter().map(|&value| value as i64).collect()),
        _ => tensor.to_i64s(),
    }
}

/// A vector of an integer type.
fn vector(dtype: DType, values: &[i64; 3]) -> Result<Tensor> {
    let shape = Shape::vector(3);
    macro_rules! of {
        ($t:ty) => {
            Tensor::from_slice(shape, &values.map(|value| value as $t))
        };
    }
    match dtype {
        DType::INT8 => of!(i8),
        DType::INT16 => of!(i16),
        DType::INT32 => of!(i32),
        DType::UINT8 => of!(u8),
        DType::UINT16 => of!(u16),
        DType::UINT32 => of!(u32),
        DType::UINT64 => of!(u64),
        _ => of!(i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_the_wanted_area_and_part_of_an_object() {
        let request = Request {
            min_object_covered: None,
            aspect_ratios: [0.5, 2.0],
            areas: [0.2, 0.6],
            max_attempts: 100,
            whole_image: false,
        };
        let image = Box2 { left: 0, top: 0, right: 40, bottom: 30 };
        let object = Box2 { left: 10, top: 10, right: 20, bottom: 20 };
        for seed in 0..50 {
            let mut words = Words::new(Philox::new(seed, 3));
            let window = request.window(image, &[object], 0.5, &mut words);
            assert!(window == image || (240.0..=720.0).contains(&window.area()), "{window:?}");
            assert!(window.meet(object).area() >= 50.0 && window.meet(image) == window);
        }
    }
}
