//! `FusedPadConv2D` and `FusedResizeAndPadConv2D`: convolutions of images that are mirrored at their edges, and enlarged before that.
//!
//! As in the reference, all results of a batch are those of its first image.

use num_traits::AsPrimitive;
use tfcore_base::{
    Elem, Floats, Half, LoopFor, Result, TypedLoop, invalid, require, unimplemented_error,
};
use tfcore_framework::geometry::{ImageFormat, ImageWindow, WindowAxis};
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, Elems, ElemsMut, PartialShape, Shape, Tensor};

use crate::conv::{Convolve, conv2d_geometry};
use crate::window_attrs::{int32s, same_or_valid};

pub(crate) fn register(r: &mut Registry) {
    // `FusedPadConv2D(input: T, paddings: int32, filter: T) -> output: T`, attrs `mode`, `strides`, `padding`.
    r.op("FusedPadConv2D")
        .shape(|ctx| fused_shape(ctx, false))
        .typed_kernel::<Move, Floats>("T", |init, moves| fused(init, moves, false));

    // `FusedResizeAndPadConv2D(input: T, size: int32, paddings: int32, filter: T) -> output: T`, attr
    // `resize_align_corners` too.
    r.op("FusedResizeAndPadConv2D")
        .shape(|ctx| fused_shape(ctx, true))
        .typed_kernel::<Move, (f32, f64, Half)>("T", |init, moves| fused(init, moves, true));
}

fn fused_shape(ctx: &mut InferenceContext<'_>, resized: bool) -> Result<()> {
    let mut image = shape_ops::with_rank(ctx.input(0), 4)?;
    let first = if resized { 2 } else { 1 };
    if resized {
        let size = shape_ops::with_rank(ctx.input(1), 1)?;
        shape_ops::with_value(size.dim(0), 2)?;
        let sizes = match ctx.operand_i64s(1)?.as_deref() {
            Some(&[rows, cols]) => [Dim::new(rows), Dim::new(cols)],
            _ => [Dim::fresh(), Dim::fresh()],
        };
        image = [image.dim(0), sizes[0], sizes[1], image.dim(3)].into_iter().collect();
    }
    let paddings = shape_ops::with_rank(ctx.input(first), 2)?;
    // The reference takes an unknown number of rows for a rank.
    let rank = paddings.dim(0).to_i64();
    require!(rank == 4, "Shape must be rank {rank} but is rank 4");
    shape_ops::merge(&paddings, &PartialShape::matrix(4, 2))?;
    let padded = match ctx.operand_i64s(first)? {
        Some(values) => {
            let mut dims = Vec::with_capacity(4);
            for (axis, sides) in values.chunks_exact(2).enumerate() {
                require!(sides.iter().all(|&side| side >= 0), "paddings must be non-negative");
                let sum = sides[0].saturating_add(sides[1]);
                dims.push(shape_ops::add(image.dim(axis), sum)?);
            }
            dims.into_iter().collect()
        }
        None => PartialShape::of_rank(4),
    };
    let filter = shape_ops::with_rank(ctx.input(first + 1), 4)?;
    let strides = int32s(ctx.attrs, "strides")?;
    require!(
        strides.len() == 4,
        "Operation requires the stride attribute to contain 4 values, but got: {}",
        strides.len()
    );
    shape_ops::merge_dims(padded.dim(3), filter.dim(2))?;
    let padding = same_or_valid(ctx.attrs)?;
    let count = |axis: usize| {
        let along = WindowAxis { stride: strides[axis], dilation: 1, padding };
        along.output_dim(padded.dim(axis), filter.dim(axis - 1))
    };
    let dims = [padded.dim(0), count(1)?, count(2)?, filter.dim(3)];
    ctx.set_output(0, dims.into_iter().collect());
    Ok(())
}

/// Two neighbours and the weight of the second.
type Mix = (usize, usize, f32);

/// How the pixels of an image are made of those of another: its rows and its columns.
struct Source {
    batch: usize,
    width: usize,
    channels: usize,
    rows: Vec<Mix>,
    cols: Vec<Mix>,
}

type MoveLoop = fn(&Source, Elems<'_>, ElemsMut<'_>);

struct Move;

impl TypedLoop for Move {
    type Loop = MoveLoop;
}

impl<T: Elem + AsPrimitive<f64>> LoopFor<T> for Move
where
    f64: AsPrimitive<T>,
{
    const LOOP: MoveLoop = |source, x, out| {
        let (x, mut out) = (x.typed::<T>(), out.typed::<T>().iter_mut());
        let width = source.width;
        // The reference makes every image of the batch from the first one.
        for _ in 0..source.batch {
            for &(top, bottom, down) in &source.rows {
                for &(left, right, across) in &source.cols {
                    for channel in 0..source.channels {
                        let at = |row: usize, col: usize| {
                            x[(row * width + col) * source.channels + channel]
                        };
                        let Some(out) = out.next() else { return };
                        if down == 0.0 && across == 0.0 {
                            *out = at(top, left);
                            continue;
                        }
                        let mix = |a: f64, b: f64, t: f32| a + (b - a) * f64::from(t);
                        let above = mix(at(top, left).as_(), at(top, right).as_(), across);
                        let below = mix(at(bottom, left).as_(), at(bottom, right).as_(), across);
                        *out = mix(above, below, down).as_();
                    }
                }
            }
        }
    };
}

/// The neighbours of each of `output` pixels along an axis of `input`.
fn resized(input: usize, output: usize, align_corners: bool) -> Vec<Mix> {
    let scale = match align_corners && output > 1 {
        true => (input - 1) as f32 / (output - 1) as f32,
        false => input as f32 / output as f32,
    };
    (0..output)
        .map(|index| {
            let at = index as f32 * scale;
            let lower = (at as usize).min(input - 1);
            (lower, (lower + 1).min(input - 1), at - at.floor())
        })
        .collect()
}

/// The pixels with those before and behind mirrored; the edge itself is repeated if it is symmetric.
fn mirrored(pixels: &[Mix], [before, after]: [i64; 2], symmetric: bool) -> Result<Vec<Mix>> {
    require!(before >= 0 && after >= 0, "paddings must be non-negative: {before} {after}");
    let most = pixels.len() as i64 - i64::from(!symmetric);
    require!(
        before <= most && after <= most,
        "paddings must be {} the dimension size: {before}, {after} {} {}",
        if symmetric { "no greater than" } else { "less than" },
        if symmetric { "greater than" } else { "not less than" },
        pixels.len()
    );
    let skipped = usize::from(!symmetric);
    let front = pixels[skipped..][..before as usize].iter().rev();
    let back = pixels.iter().rev().skip(skipped).take(after as usize);
    Ok(front.chain(pixels).chain(back).copied().collect())
}

/// The pairs in a matrix of paddings.
fn paddings(tensor: &Tensor) -> Result<[[i64; 2]; 4]> {
    require!(
        tensor.rank() == 2 && tensor.dim(1) == 2,
        "paddings must be a matrix with 2 columns: {}",
        tensor.shape()
    );
    let values = tensor.to_i64s()?;
    let pairs: Vec<[i64; 2]> = values.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
    pairs.as_slice().try_into().map_err(|_| {
        invalid!("The first dimension of paddings must be the rank of inputs: {}", tensor.shape())
    })
}

fn window(attrs: &Attrs) -> Result<ImageWindow> {
    let strides = int32s(attrs, "strides")?;
    let strides = <[i64; 4]>::try_from(strides.as_slice())
        .map_err(|_| invalid!("Sliding window strides field must specify 4 dimensions"))?;
    if (strides[0], strides[3]) != (1, 1) {
        return Err(unimplemented_error!(
            "Current implementation does not yet support strides in the batch and depth dimensions."
        ));
    }
    ImageWindow::new(attrs, ImageFormat::Nhwc, strides, [1; 4])
}

fn fused(init: &KernelInit<'_>, moves: MoveLoop, resize: bool) -> Result<Box<dyn Kernel>> {
    let convolve = init.typed::<Convolve, Floats>("T")?;
    let window = window(init.attrs)?;
    let symmetric = init.attrs.str("mode")? == "SYMMETRIC";
    let align_corners = resize && init.attrs.bool("resize_align_corners")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        require!(input.rank() == 4, "input must be 4-dimensional, got shape {}", input.shape());
        let [batch, height, width, channels] = [0, 1, 2, 3].map(|axis| input.dim(axis));
        let mut first = 1;
        let (mut rows, mut cols): (Vec<Mix>, Vec<Mix>) = (
            (0..height).map(|row| (row, row, 0.0)).collect(),
            (0..width).map(|col| (col, col, 0.0)).collect(),
        );
        if resize {
            first = 2;
            let size = ctx.input(1)?;
            require!(size.rank() == 1, "shape_t must be 1-dimensional{}", size.shape());
            let &[out_rows, out_cols] = size.to_i64s()?.as_slice() else {
                return Err(invalid!("shape_t must have two elements{}", size.shape()));
            };
            require!(
                (1..1 << 31).contains(&out_rows) && (1..1 << 31).contains(&out_cols),
                "output dimensions must be positive"
            );
            require!(height > 0 && width > 0, "input image must be of non-zero size");
            // Sizes that no memory could hold are refused before anything is made of them.
            Shape::new(&[batch as i64, out_rows, out_cols, channels as i64])?;
            rows = resized(height, out_rows as usize, align_corners);
            cols = resized(width, out_cols as usize, align_corners);
        }
        let pads = paddings(ctx.input(first)?)?;
        require!(
            pads[0] == [0, 0] && pads[3] == [0, 0],
            "paddings of batch and channels must be 0"
        );
        let rows = mirrored(&rows, pads[1], symmetric)?;
        let cols = mirrored(&cols, pads[2], symmetric)?;
        let filter = ctx.input(first + 1)?;
        let sizes = [batch, rows.len(), cols.len(), channels].map(|size| size as i64);
        let padded = Shape::new(&sizes)?;
        require!(
            filter.rank() != 4 || filter.dim(2) == channels,
            "input and filter must have the same depth: {channels} vs {}",
            filter.dim(2)
        );
        let g = conv2d_geometry(&window, &padded, filter.shape())?;
        let sizes = ImageFormat::Nhwc.sizes(g.batch, g.out_h, g.out_w, g.out_c);
        let mut out = ctx.allocate_output(0, Shape::new(&sizes)?)?;
        if out.count() > 0 {
            require!(filter.count() > 0, "filter must not have zero elements");
            let mut image = ctx.allocate(input.dtype(), padded)?;
            let source = Source { batch, width, channels, rows, cols };
            moves(&source, input.elems(), image.elems_mut()?);
            convolve(ctx.parallel(), &g, image.elems(), filter.elems(), out.elems_mut()?);
        }
        ctx.set_output(0, out);
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
    fn mirrors_and_enlarged_images() {
        let registry = registry_of(register);
        let attrs = |mode: &str| {
            [
                ("T", AttrValue::Type(DType::FLOAT)),
                ("mode", AttrValue::string(mode)),
                ("strides", AttrValue::ints([1; 4])),
                ("padding", AttrValue::string("VALID")),
            ]
        };
        let image = floats(&[1, 1, 3, 1], &[1.0, 2.0, 4.0]);
        let pads = tensor(&[4, 2], &[0i32, 0, 0, 0, 1, 1, 0, 0]);
        let one = floats(&[1, 1, 1, 1], &[1.0]);
        let run = |mode: &str| {
            let inputs = [image.clone(), pads.clone(), one.clone()];
            let out = run_op(&registry, "FusedPadConv2D", &attrs(mode), &inputs).unwrap();
            out[0].as_slice::<f32>().unwrap().to_vec()
        };
        assert_eq!(run("REFLECT"), [2.0, 1.0, 2.0, 4.0, 2.0]);
        assert_eq!(run("SYMMETRIC"), [1.0, 1.0, 2.0, 4.0, 4.0]);
        let size = tensor(&[2], &[1i32, 6]);
        let inputs = [image.clone(), size, tensor(&[4, 2], &[0i32; 8]), one];
        let op = "FusedResizeAndPadConv2D";
        let out = run_op(&registry, op, &attrs("REFLECT"), &inputs).unwrap();
        assert_eq!(out[0].as_slice::<f32>().unwrap(), [1.0, 1.5, 2.0, 3.0, 4.0, 4.0]);
    }
}
