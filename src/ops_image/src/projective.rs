//! `ImageProjectiveTransformV2` and `V3`.

use num_traits::AsPrimitive;
use tfcore_base::{BFloat16, Half};
use tfcore_base::{Elem, LoopFor, Result, TypedLoop, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Dim, Elems, ElemsMut, Shape};

/// The types of both ops.
type Types = (f32, f64, Half, BFloat16, i32, i64, u8);

pub(crate) fn register(r: &mut Registry) {
    // `ImageProjectiveTransformV2(images: dtype, transforms: float, output_shape: int32; interpolation, fill_mode) ->
    // transformed_images: dtype`: output pixel (x, y) is the input's at `((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k)`,
    // `k = c0 x + c1 y + 1`. `V3` has `fill_value: float` besides.
    for (op, fill) in [("ImageProjectiveTransformV2", false), ("ImageProjectiveTransformV3", true)]
    {
        r.op(op)
            .shape(move |ctx| transform_shape(ctx, fill))
            .typed_kernel::<Transform, Types>("dtype", move |init, run| transform(init, run, fill));
    }
}

fn transform_shape(ctx: &mut InferenceContext<'_>, fill: bool) -> Result<()> {
    let images = shape_ops::with_rank(ctx.input(0), 4)?;
    let transforms = shape_ops::with_rank(ctx.input(1), 2)?;
    shape_ops::with_value(transforms.dim(1), 8)?;
    let size = shape_ops::with_rank(ctx.input(2), 1)?;
    shape_ops::with_value(size.dim(0), 2)?;
    if fill {
        shape_ops::with_rank(ctx.input(3), 0)?;
    }
    let [rows, cols] = match ctx.operand_i64s(2)?.as_deref() {
        Some(&[rows, cols]) => [Dim::new(rows), Dim::new(cols)],
        _ => [Dim::fresh(), Dim::fresh()],
    };
    ctx.set_output(0, [images.dim(0), rows, cols, images.dim(3)].into_iter().collect());
    Ok(())
}

/// The pixels beyond the edges of an image.
#[derive(Clone, Copy, PartialEq)]
enum FillMode {
    Reflect,
    Wrap,
    Constant,
    Nearest,
}

impl FillMode {
    /// The coordinate that one of an axis of `len` pixels stands for.
    fn map(self, coordinate: f32, len: i64) -> f32 {
        let mut at = coordinate;
        let last = (len - 1) as f32;
        match self {
            FillMode::Constant => return coordinate,
            FillMode::Nearest => {}
            FillMode::Reflect if at < 0.0 => {
                let period = 2 * len;
                if len <= 1 {
                    at = 0.0;
                } else {
                    if at < period as f32 {
                        at += (period.wrapping_mul((-at / period as f32) as i64)) as f32;
                    }
                    at = if at < -len as f32 { at + period as f32 } else { -at - 1.0 };
                }
            }
            FillMode::Reflect if at > last => {
                let period = 2 * len;
                if len <= 1 {
                    at = 0.0;
                } else {
                    at -= (period.wrapping_mul((at / period as f32) as i64)) as f32;
                    if at >= len as f32 {
                        at = period as f32 - at - 1.0;
                    }
                }
            }
            FillMode::Wrap if at < 0.0 => {
                at = match len {
                    ..=1 => 0.0,
                    _ => at + (len.wrapping_mul((-at / last) as i64 + 1)) as f32,
                };
            }
            FillMode::Wrap if at > last => {
                at = match len {
                    ..=1 => 0.0,
                    _ => at - (len.wrapping_mul((at / last) as i64)) as f32,
                };
            }
            FillMode::Reflect | FillMode::Wrap => {}
        }
        // A NaN stays, as it does in the reference.
        if at < 0.0 {
            0.0
        } else if at > last {
            last
        } else {
            at
        }
    }
}

/// What pixels are made of: sizes, modes, and the transforms, one for each image or one for all.
struct Job<'a> {
    in_h: i64,
    in_w: i64,
    channels: usize,
    out_h: usize,
    out_w: usize,
    bilinear: bool,
    mode: FillMode,
    fill: f32,
    transforms: &'a [f32],
}

/// Transforms all images.
type Run = fn(Parallel<'_>, &Job<'_>, Elems<'_>, ElemsMut<'_>);

struct Transform;

impl TypedLoop for Transform {
    type Loop = Run;
}

/// An element that is made of a float, towards zero.
trait Pixel: Elem + Copy + AsPrimitive<f32> {
    fn of(value: f32) -> Self;
}

macro_rules! pixels {
    ($($t:ty)*) => {$(
        impl Pixel for $t {
            fn of(value: f32) -> $t {
                value as $t
            }
        }
    )*};
}
pixels!(f32 f64 i32 i64 u8);

impl Pixel for Half {
    fn of(value: f32) -> Half {
        Half::from_f32(value)
    }
}

impl Pixel for BFloat16 {
    fn of(value: f32) -> BFloat16 {
        BFloat16::from_f32(value)
    }
}

impl<T: Pixel> LoopFor<T> for Transform {
    const LOOP: Run = |parallel, job, images, out| {
        let (images, channels) = (images.typed::<T>(), job.channels);
        let row_len = job.out_w * channels;
        let fill = T::of(job.fill);
        par_chunks_mut(parallel, out.typed::<T>(), row_len, 1 << 12, &|start, piece| {
            for (number, out) in (start / row_len..).zip(piece.chunks_exact_mut(row_len)) {
                let (image, y) = (number / job.out_h, (number % job.out_h) as f32);
                let read = |row: i64, col: i64, channel: usize| -> T {
                    let inside = (0..job.in_h).contains(&row) && (0..job.in_w).contains(&col);
                    match inside {
                        true => {
                            let row = image * job.in_h as usize + row as usize;
                            images[(row * job.in_w as usize + col as usize) * channels + channel]
                        }
                        false => fill,
                    }
                };
                let t = match job.transforms.len() {
                    8 => job.transforms,
                    _ => &job.transforms[image * 8..image * 8 + 8],
                };
                for (x, out) in out.chunks_exact_mut(channels).enumerate() {
                    let x = x as f32;
                    let projection = t[6] * x + t[7] * y + 1.0;
                    if projection == 0.0 {
                        out.fill(fill);
                        continue;
                    }
                    let at = |a: &[f32], len: i64| {
                        job.mode.map((a[0] * x + a[1] * y + a[2]) / projection, len)
                    };
                    let (col, row) = (at(&t[..3], job.in_w), at(&t[3..6], job.in_h));
                    if !job.bilinear {
                        let (row, col) = (row.round() as i64, col.round() as i64);
                        for (channel, out) in out.iter_mut().enumerate() {
                            *out = read(row, col, channel);
                        }
                        continue;
                    }
                    let (top, left) = (row.floor(), col.floor());
                    let (bottom, right) = (top + 1.0, left + 1.0);
                    for (channel, out) in out.iter_mut().enumerate() {
                        let mix = |row: f32| -> f32 {
                            let at =
                                |col: f32| -> f32 { read(row as i64, col as i64, channel).as_() };
                            (right - col) * at(left) + (col - left) * at(right)
                        };
                        *out = T::of((bottom - row) * mix(top) + (row - top) * mix(bottom));
                    }
                }
            }
        });
    };
}

fn transform(init: &KernelInit<'_>, run: Run, has_fill: bool) -> Result<Box<dyn Kernel>> {
    let bilinear = match init.attrs.str("interpolation")? {
        "NEAREST" => false,
        "BILINEAR" => true,
        other => {
            return Err(invalid!(
                "Invalid interpolation {other}. Supported types: NEAREST, BILINEAR"
            ));
        }
    };
    let mode = match init.attrs.str("fill_mode")? {
        "REFLECT" => FillMode::Reflect,
        "WRAP" => FillMode::Wrap,
        "CONSTANT" => FillMode::Constant,
        "NEAREST" => FillMode::Nearest,
        other => {
            return Err(invalid!(
                "Invalid mode {other}. Supported types: REFLECT, WRAP, CONSTANT, NEAREST"
            ));
        }
    };
    kernel(move |ctx: &mut OpContext<'_>| {
        let (images, transforms, size) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        require!(images.rank() == 4, "Input images must have rank 4");
        require!(
            transforms.rank() == 2
                && (transforms.dim(0) == images.dim(0) || transforms.dim(0) == 1)
                && transforms.dim(1) == 8,
            "Input transform should be num_images x 8 or 1 x 8"
        );
        require!(size.rank() == 1, "output shape must be 1-dimensional{}", size.shape());
        let &[out_h, out_w] = size.as_slice::<i32>()? else {
            return Err(invalid!("output shape must have two elements{}", size.shape()));
        };
        require!(out_h > 0 && out_w > 0, "output dimensions must be positive");
        let fill = match has_fill {
            true => {
                let fill = ctx.input(3)?;
                require!(fill.rank() == 0, "fill_value must be a scalar{}", fill.shape());
                fill.scalar_value()?
            }
            false => 0.0,
        };
        let dims = images.shape().dims();
        let job = Job {
            in_h: dims[1],
            in_w: dims[2],
            channels: images.dim(3),
            out_h: out_h as usize,
            out_w: out_w as usize,
            bilinear,
            mode,
            fill,
            transforms: transforms.as_slice()?,
        };
        let shape = Shape::new(&[dims[0], out_h.into(), out_w.into(), dims[3]])?;
        ctx.produce(0, shape, |out| run(ctx.parallel(), &job, images.elems(), out))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_beyond_the_edges() {
        // Axis of four pixels: abcd.
        let at = |mode: FillMode| [-5.0, -1.0, 1.5, 4.0, 9.0].map(|x| mode.map(x, 4));
        assert_eq!(at(FillMode::Reflect), [3.0, 0.0, 1.5, 3.0, 1.0]);
        assert_eq!(at(FillMode::Nearest), [0.0, 0.0, 1.5, 3.0, 3.0]);
        assert_eq!(at(FillMode::Constant), [-5.0, -1.0, 1.5, 4.0, 9.0]);
        assert_eq!(FillMode::Wrap.map(-1.0, 4), 3.0);
        assert_eq!(FillMode::Wrap.map(4.0, 4), 0.0);
    }
}
