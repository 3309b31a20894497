//! `CropAndResize` and its two gradients.

use num_traits::AsPrimitive;
use tfcore_base::{
    BFloat16, Elem, Half, LoopFor, Result, TypedLoop, invalid, out_of_range, require,
};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Dim, Elems, ElemsMut, PartialShape, Shape, Tensor};

/// The types of the images.
type Types = (f32, f64, Half, BFloat16, i8, i16, i32, i64, u8, u16, u32, u64);

pub(crate) fn register(r: &mut Registry) {
    // `CropAndResize(image: T, boxes: float, box_ind: int32, crop_size: int32; method, extrapolation_value) -> crops:
    // float`: box `b` of image `box_ind[b]`, corners `(y1, x1, y2, x2)` in parts of the image, brought to `crop_size`.
    r.op("CropAndResize").shape(crop_shape).typed_kernel::<Crop, Types>("T", crop_kernel);

    // `CropAndResizeGradImage(grads: float, boxes: float, box_ind: int32, image_size: int32; method) -> output: T`.
    r.op("CropAndResizeGradImage")
        .shape(|ctx| {
            let size = ctx.operand_shape(3)?;
            let size = shape_ops::with_rank(&size, 4)?;
            ctx.set_output(0, size);
            Ok(())
        })
        .typed_kernel::<Spread, (f32, f64, Half)>("T", grad_image_kernel);

    // `CropAndResizeGradBoxes(grads: float, image: T, boxes: float, box_ind: int32; method) -> output: float`.
    r.op("CropAndResizeGradBoxes")
        .shape(|ctx| {
            ctx.set_output(0, ctx.input(2).clone());
            Ok(())
        })
        .typed::<Slopes, Types>("T", grad_boxes);
}

fn crop_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let image = shape_ops::with_rank(ctx.input(0), 4)?;
    let boxes = shape_ops::with_rank(ctx.input(1), 2)?;
    let indices = shape_ops::with_rank(ctx.input(2), 1)?;
    let boxes_dim = shape_ops::merge_dims(boxes.dim(0), indices.dim(0))?;
    shape_ops::with_value(boxes.dim(1), 4)?;
    let size = shape_ops::with_rank(ctx.input(3), 1)?;
    shape_ops::with_value(size.dim(0), 2)?;
    let [rows, cols] = match ctx.operand_i64s(3)?.as_deref() {
        Some(&[rows, cols]) => [Dim::new(rows), Dim::new(cols)],
        _ => [Dim::fresh(), Dim::fresh()],
    };
    let shape: PartialShape = [boxes_dim, rows, cols, image.dim(3)].into_iter().collect();
    ctx.set_output(0, shape);
    Ok(())
}

/// The boxes of a node: corners, and the image of each.
struct Boxes<'a> {
    corners: &'a [f32],
    images: &'a [i32],
}

impl<'a> Boxes<'a> {
    /// # Errors
    /// `InvalidArgument` for shapes that do not fit.
    fn new(boxes: &'a Tensor, indices: &'a Tensor) -> Result<Boxes<'a>> {
        if boxes.count() > 0 || indices.count() > 0 || boxes.rank() != 2 {
            require!(boxes.rank() == 2, "boxes must be 2-D, got: {}", boxes.shape());
            require!(boxes.dim(1) == 4, "boxes must have 4 columns");
            require!(
                indices.rank() == 1,
                "box_indices must be rank 1 but is shape {}",
                indices.shape()
            );
            require!(indices.dim(0) == boxes.dim(0), "box_index has incompatible shape");
        }
        Ok(Boxes { corners: boxes.as_slice()?, images: indices.as_slice()? })
    }

    fn len(&self) -> usize {
        self.images.len()
    }

    fn corners(&self, index: usize) -> [f32; 4] {
        let at = index * 4;
        [self.corners[at], self.corners[at + 1], self.corners[at + 2], self.corners[at + 3]]
    }

    fn check_images(&self, batch: usize) -> Result<()> {
        match self.images.iter().all(|&image| (0..batch as i64).contains(&image.into())) {
            true => Ok(()),
            false => Err(out_of_range!("box_index has values outside [0, batch_size)")),
        }
    }
}

/// The extents of images and crops.
#[derive(Clone, Copy)]
struct Extents {
    image_h: usize,
    image_w: usize,
    crop_h: usize,
    crop_w: usize,
    depth: usize,
}

/// The place in an image of pixel `index` of `len` of a crop that runs from `from` to `to`.
fn place(index: usize, len: usize, from: f32, to: f32, size: usize) -> f32 {
    let last = size as f32 - 1.0;
    match len {
        ..=1 => 0.5 * (from + to) * last,
        _ => {
            let scale = (to - from) * last / (len - 1) as f32;
            from * last + index as f32 * scale
        }
    }
}

/// The pixels around a place along one axis, and how far it is from the first; `None` outside of the image.
fn around(at: f32, size: usize) -> Option<(usize, usize, f32)> {
    if !(at >= 0.0 && at <= (size - 1) as f32) {
        return None;
    }
    let low = at.floor();
    Some((low as usize, at.ceil() as usize, at - low))
}

impl Extents {
    fn image_len(&self) -> usize {
        self.image_h * self.image_w * self.depth
    }

    fn at(&self, image: i32, row: usize, col: usize) -> usize {
        ((image as usize * self.image_h + row) * self.image_w + col) * self.depth
    }
}

/// Crops all boxes: extents, boxes, the value beyond the image, bilinear or not.
type CropLoop = fn(Parallel<'_>, Extents, &Boxes<'_>, f32, bool, Elems<'_>, &mut [f32]);

struct Crop;

impl TypedLoop for Crop {
    type Loop = CropLoop;
}

impl<T: Elem + AsPrimitive<f32>> LoopFor<T> for Crop {
    const LOOP: CropLoop = |parallel, extents, boxes, beyond, bilinear, image, out| {
        let image = image.typed::<T>();
        let Extents { image_h, image_w, crop_h, crop_w, depth } = extents;
        let row_len = crop_w * depth;
        par_chunks_mut(parallel, out, row_len, 1 << 12, &|start, piece| {
            for (number, out) in (start / row_len..).zip(piece.chunks_exact_mut(row_len)) {
                let (index, y) = (number / crop_h, number % crop_h);
                let [y1, x1, y2, x2] = boxes.corners(index);
                let from = boxes.images[index];
                let in_y = place(y, crop_h, y1, y2, image_h);
                let Some((top, bottom, y_part)) = around(in_y, image_h) else {
                    out.fill(beyond);
                    continue;
                };
                for (x, out) in out.chunks_exact_mut(depth).enumerate() {
                    let in_x = place(x, crop_w, x1, x2, image_w);
                    let Some((left, right, x_part)) = around(in_x, image_w) else {
                        out.fill(beyond);
                        continue;
                    };
                    if !bilinear {
                        let at = extents.at(from, in_y.round() as usize, in_x.round() as usize);
                        for (out, value) in out.iter_mut().zip(&image[at..]) {
                            *out = value.as_();
                        }
                        continue;
                    }
                    let corner = |row, col| &image[extents.at(from, row, col)..];
                    let (tl, tr) = (corner(top, left), corner(top, right));
                    let (bl, br) = (corner(bottom, left), corner(bottom, right));
                    for (d, out) in out.iter_mut().enumerate() {
                        let mix = |left: T, right: T| -> f32 {
                            let (left, right): (f32, f32) = (left.as_(), right.as_());
                            left + (right - left) * x_part
                        };
                        let (top, bottom) = (mix(tl[d], tr[d]), mix(bl[d], br[d]));
                        *out = top + (bottom - top) * y_part;
                    }
                }
            }
        });
    };
}

fn crop_kernel(init: &KernelInit<'_>, run: CropLoop) -> Result<Box<dyn Kernel>> {
    let bilinear = init.attrs.str("method")? == "bilinear";
    let beyond = init.attrs.float("extrapolation_value")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (image, size) = (ctx.input(0)?, ctx.input(3)?);
        require!(image.rank() == 4, "input image must be 4-D{}", image.shape());
        let dims = image.shape().to_usizes();
        require!(dims[1] > 0 && dims[2] > 0, "image dimensions must be positive");
        let boxes = Boxes::new(ctx.input(1)?, ctx.input(2)?)?;
        require!(size.rank() == 1, "crop_size must be 1-D{}", size.shape());
        let &[crop_h, crop_w] = size.as_slice::<i32>()? else {
            return Err(invalid!("crop_size must have two elements{}", size.shape()));
        };
        require!(crop_h > 0 && crop_w > 0, "crop dimensions must be positive");
        let extents = Extents {
            image_h: dims[1],
            image_w: dims[2],
            crop_h: crop_h as usize,
            crop_w: crop_w as usize,
            depth: dims[3],
        };
        let shape =
            Shape::new(&[boxes.len() as i64, crop_h.into(), crop_w.into(), dims[3] as i64])?;
        boxes.check_images(dims[0])?;
        require!(
            boxes.corners.iter().all(|corner| corner.is_finite()),
            "Boxes contains at least one element that is not finite"
        );
        ctx.produce(0, shape, |out| {
            run(ctx.parallel(), extents, &boxes, beyond, bilinear, image.elems(), out.typed());
        })
    })
}

/// Checks the gradients of the crops. Returns their rows, columns and channels.
fn check_grads(grads: &Tensor, boxes: &Boxes<'_>) -> Result<[usize; 3]> {
    require!(grads.rank() == 4, "grads image must be 4-D{}", grads.shape());
    require!(grads.dim(1) > 0 && grads.dim(2) > 0, "grads dimensions must be positive");
    require!(grads.dim(0) == boxes.len(), "boxes and grads have incompatible shape");
    Ok([grads.dim(1), grads.dim(2), grads.dim(3)])
}

/// Adds the gradients of all crops to those of the images, which begin with zeros.
type SpreadLoop = fn(Extents, &Boxes<'_>, bool, &[f32], ElemsMut<'_>);

struct Spread;

impl TypedLoop for Spread {
    type Loop = SpreadLoop;
}

/// A float that gradients are summed in.
trait Sum: Elem + Copy + std::ops::Add<Output = Self> {
    fn of(value: f32) -> Self;
}

impl Sum for f32 {
    fn of(value: f32) -> f32 {
        value
    }
}

impl Sum for f64 {
    fn of(value: f32) -> f64 {
        value.into()
    }
}

impl Sum for Half {
    fn of(value: f32) -> Half {
        Half::from_f32(value)
    }
}

impl<T: Sum> LoopFor<T> for Spread {
    const LOOP: SpreadLoop = |extents, boxes, bilinear, grads, out| {
        let out = out.typed::<T>();
        let Extents { image_h, image_w, crop_h, crop_w, depth } = extents;
        for index in 0..boxes.len() {
            let [y1, x1, y2, x2] = boxes.corners(index);
            let image = boxes.images[index];
            for y in 0..crop_h {
                let in_y = place(y, crop_h, y1, y2, image_h);
                let Some((top, bottom, y_part)) = around(in_y, image_h) else { continue };
                for x in 0..crop_w {
                    let in_x = place(x, crop_w, x1, x2, image_w);
                    let Some((left, right, x_part)) = around(in_x, image_w) else { continue };
                    let from = ((index * crop_h + y) * crop_w + x) * depth;
                    let grads = &grads[from..from + depth];
                    let mut add = |row: usize, col: usize, d: usize, value: f32| {
                        let at = extents.at(image, row, col) + d;
                        out[at] = out[at] + T::of(value);
                    };
                    for (d, &grad) in grads.iter().enumerate() {
                        if !bilinear {
                            add(in_y.round() as usize, in_x.round() as usize, d, grad);
                            continue;
                        }
                        let above = (1.0 - y_part) * grad;
                        add(top, left, d, (1.0 - x_part) * above);
                        add(top, right, d, x_part * above);
                        let below = y_part * grad;
                        add(bottom, left, d, (1.0 - x_part) * below);
                        add(bottom, right, d, x_part * below);
                    }
                }
            }
        }
    };
}

fn grad_image_kernel(init: &KernelInit<'_>, run: SpreadLoop) -> Result<Box<dyn Kernel>> {
    let bilinear = init.attrs.str("method")? == "bilinear";
    kernel(move |ctx: &mut OpContext<'_>| {
        let (grads, size) = (ctx.input(0)?, ctx.input(3)?);
        require!(grads.rank() == 4, "grads image must be 4-D{}", grads.shape());
        let boxes = Boxes::new(ctx.input(1)?, ctx.input(2)?)?;
        let [crop_h, crop_w, depth] = check_grads(grads, &boxes)?;
        require!(size.rank() == 1, "image_size must be 1-D{}", size.shape());
        require!(size.count() == 4, "image_size must have 4 elements{}", size.shape());
        let sizes = size.to_i64s()?;
        require!(sizes[1] > 0 && sizes[2] > 0, "image dimensions must be positive");
        require!(sizes[3] == depth as i64, "image_size and grads are incompatible");
        let shape = Shape::new(&sizes)?;
        boxes.check_images(shape.dim(0))?;
        let (image_h, image_w) = (shape.dim(1), shape.dim(2));
        let extents = Extents { image_h, image_w, crop_h, crop_w, depth };
        let mut out = ctx.allocate_zeros(ctx.output_dtype(0), shape)?;
        if extents.image_len() > 0 && out.count() > 0 {
            run(extents, &boxes, bilinear, grads.as_slice()?, out.elems_mut()?);
        }
        ctx.set_output(0, out);
        Ok(())
    })
}

/// Adds the gradients by the corners of all boxes.
type SlopesLoop = fn(Extents, &Boxes<'_>, &[f32], Elems<'_>, &mut [f32]);

struct Slopes;

impl TypedLoop for Slopes {
    type Loop = SlopesLoop;
}

impl<T: Elem + AsPrimitive<f32>> LoopFor<T> for Slopes {
    const LOOP: SlopesLoop = |extents, boxes, grads, image, out| {
        let image = image.typed::<T>();
        let Extents { image_h, image_w, crop_h, crop_w, depth } = extents;
        let ratio = |len: usize, size: usize| match len {
            ..=1 => 0.0,
            _ => (size - 1) as f32 / (len - 1) as f32,
        };
        let (y_ratio, x_ratio) = (ratio(crop_h, image_h), ratio(crop_w, image_w));
        for (index, out) in out.chunks_exact_mut(4).enumerate() {
            let [y1, x1, y2, x2] = boxes.corners(index);
            let from = boxes.images[index];
            for y in 0..crop_h {
                let in_y = place(y, crop_h, y1, y2, image_h);
                let Some((top, bottom, y_part)) = around(in_y, image_h) else { continue };
                for x in 0..crop_w {
                    let in_x = place(x, crop_w, x1, x2, image_w);
                    let Some((left, right, x_part)) = around(in_x, image_w) else { continue };
                    for d in 0..depth {
                        let pixel =
                            |row, col| -> f32 { image[extents.at(from, row, col) + d].as_() };
                        let (tl, tr) = (pixel(top, left), pixel(top, right));
                        let (bl, br) = (pixel(bottom, left), pixel(bottom, right));
                        let grad = grads[((index * crop_h + y) * crop_w + x) * depth + d];
                        let by_y = ((1.0 - x_part) * (bl - tl) + x_part * (br - tr)) * grad;
                        let by_x = ((1.0 - y_part) * (tr - tl) + y_part * (br - bl)) * grad;
                        let mut add =
                            |corner: usize, by: f32, step: usize, len, size, ratio: f32| {
                                let last = (size - 1) as f32;
                                let (low, high) = match len {
                                    ..=1usize => (0.5 * last, 0.5 * last),
                                    _ => (last - step as f32 * ratio, step as f32 * ratio),
                                };
                                out[corner] += by * low;
                                out[corner + 2] += by * high;
                            };
                        add(0, by_y, y, crop_h, image_h, y_ratio);
                        add(1, by_x, x, crop_w, image_w, x_ratio);
                    }
                }
            }
        }
    };
}

fn grad_boxes(ctx: &mut OpContext<'_>, run: SlopesLoop) -> Result<()> {
    let (grads, image) = (ctx.input(0)?, ctx.input(1)?);
    require!(grads.rank() == 4, "grads image must be 4-D{}", grads.shape());
    require!(grads.dim(1) > 0 && grads.dim(2) > 0, "grads dimensions must be positive");
    require!(image.rank() == 4, "input image must be 4-D{}", image.shape());
    let dims = image.shape().to_usizes();
    require!(dims[1] > 0 && dims[2] > 0, "image dimensions must be positive");
    require!(dims[3] == grads.dim(3), "image, grads depth differ");
    let boxes = Boxes::new(ctx.input(2)?, ctx.input(3)?)?;
    let [crop_h, crop_w, depth] = check_grads(grads, &boxes)?;
    boxes.check_images(dims[0])?;
    let extents = Extents { image_h: dims[1], image_w: dims[2], crop_h, crop_w, depth };
    let grads = grads.as_slice::<f32>()?;
    ctx.produce(0, Shape::new(&[boxes.len() as i64, 4])?, |out| {
        let out = out.typed::<f32>();
        out.fill(0.0);
        run(extents, &boxes, grads, image.elems(), out);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_run_from_corner_to_corner() {
        assert_eq!([0, 1, 2].map(|index| place(index, 3, 0.0, 1.0, 5)), [0.0, 2.0, 4.0]);
        assert_eq!(place(0, 1, 0.0, 1.0, 5), 2.0);
        assert_eq!(around(1.5, 3), Some((1, 2, 0.5)));
        assert_eq!([around(-0.1, 3), around(2.1, 3), around(f32::NAN, 3)], [None; 3]);
    }

    #[test]
    fn crops_mix_four_pixels() {
        let extents = Extents { image_h: 2, image_w: 2, crop_h: 1, crop_w: 1, depth: 1 };
        let boxes = Boxes { corners: &[0.0, 0.0, 1.0, 0.5], images: &[0] };
        let image = [0.0f32, 4.0, 8.0, 12.0];
        let mut out = [0.0];
        let run = <Crop as LoopFor<f32>>::LOOP;
        run(Parallel::SERIAL, extents, &boxes, 0.0, true, Elems::of(&image), &mut out);
        assert_eq!(out, [5.0]);
        let mut slopes = [0.0; 4];
        let run = <Slopes as LoopFor<f32>>::LOOP;
        run(extents, &boxes, &[1.0], Elems::of(&image), &mut slopes);
        // The centre moves by half of what a corner moves; down it gains 8, to the right 4.
        assert_eq!(slopes, [4.0, 2.0, 4.0, 2.0]);
    }
}
