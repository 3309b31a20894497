//! What the resizing ops share: shapes, checks and the way from an output pixel back to the input.

use tfcore_base::{Result, invalid};
use tfcore_framework::{Attrs, InferenceContext, Kernel, KernelInit, OpContext, kernel, shape_ops};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{Dim, Elems, Shape, Tensor};

/// `[batch, rows, cols, channels]` where rows and columns are the values of the second input.
pub(crate) fn resize_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let images = shape_ops::with_rank(ctx.input(0), 4)?;
    let size = shape_ops::with_rank(ctx.input(1), 1)?;
    shape_ops::with_value(size.dim(0), 2)?;
    let [rows, cols] = match ctx.operand_i64s(1)?.as_deref() {
        Some(&[rows, cols]) => [Dim::new(rows), Dim::new(cols)],
        _ => [Dim::fresh(), Dim::fresh()],
    };
    let shape = [images.dim(0), rows, cols, images.dim(3)].into_iter().collect();
    ctx.set_output(0, shape);
    Ok(())
}

/// How output pixels are laid over the input: attrs `align_corners` and `half_pixel_centers`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alignment {
    /// The corners of both images meet; else their edges do.
    pub(crate) align_corners: bool,
    /// A pixel stands for its centre, half a pixel from its corner.
    pub(crate) half_pixel_centers: bool,
}

impl Alignment {
    /// # Errors
    /// `InvalidArgument` for a node that wants both.
    pub(crate) fn new(attrs: &Attrs) -> Result<Alignment> {
        let align_corners = attrs.bool("align_corners")?;
        let half_pixel_centers =
            attrs.contains("half_pixel_centers") && attrs.bool("half_pixel_centers")?;
        if align_corners && half_pixel_centers {
            return Err(invalid!("If half_pixel_centers is True, align_corners must be False."));
        }
        Ok(Alignment { align_corners, half_pixel_centers })
    }

    /// The distance in the input of neighbouring output pixels.
    pub(crate) fn scale(self, input: usize, output: usize) -> f32 {
        if self.align_corners && output > 1 {
            (input - 1) as f32 / (output - 1) as f32
        } else {
            input as f32 / output as f32
        }
    }

    /// Where output pixel `index` lies in the input.
    pub(crate) fn position(self, index: usize, scale: f32) -> f32 {
        if self.half_pixel_centers {
            (index as f32 + 0.5) * scale - 0.5
        } else {
            index as f32 * scale
        }
    }
}

/// The extents of a resize.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resize {
    pub(crate) batch: usize,
    pub(crate) in_h: usize,
    pub(crate) in_w: usize,
    pub(crate) channels: usize,
    pub(crate) out_h: usize,
    pub(crate) out_w: usize,
}

impl Resize {
    /// The resize of a node's inputs: images and the size of the output.
    ///
    /// # Errors
    /// `InvalidArgument` for wrong ranks, sizes that are not positive, and empty images.
    pub(crate) fn new(ctx: &OpContext<'_>) -> Result<Resize> {
        let (images, size): (&Tensor, &Tensor) = (ctx.input(0)?, ctx.input(1)?);
        let &[batch, in_h, in_w, channels] = images.shape().to_usizes().as_slice() else {
            return Err(invalid!("input must be 4-dimensional{}", images.shape()));
        };
        if size.rank() != 1 {
            return Err(invalid!("shape_t must be 1-dimensional{}", size.shape()));
        }
        let sizes = size.to_i64s()?;
        let &[rows, cols] = sizes.as_slice() else {
            return Err(invalid!("shape_t must have two elements{}", size.shape()));
        };
        if in_h > i32::MAX as usize || in_w > i32::MAX as usize {
            return Err(invalid!("input sizes must be between 0 and max int32"));
        }
        let (Ok(out_h @ 1..), Ok(out_w @ 1..)) = (usize::try_from(rows), usize::try_from(cols))
        else {
            return Err(invalid!("output dimensions must be positive"));
        };
        if channels == 0 {
            return Err(invalid!("image must have at least one channel"));
        }
        if in_h == 0 || in_w == 0 {
            return Err(invalid!("input image must be of non-zero size"));
        }
        Ok(Resize { batch, in_h, in_w, channels, out_h, out_w })
    }

    /// The shape of the output.
    pub(crate) fn sizes(&self) -> [i64; 4] {
        [self.batch, self.out_h, self.out_w, self.channels].map(|size| size as i64)
    }

    /// Elements of an input row.
    pub(crate) fn in_row(&self) -> usize {
        self.in_w * self.channels
    }

    /// Elements of an output row.
    pub(crate) fn out_row(&self) -> usize {
        self.out_w * self.channels
    }
}

/// Interpolates images: the extents, what each row and each column of the output is made of, images, output.
pub(crate) type InterpolationLoop<P> = fn(Parallel<'_>, &Resize, &[P], &[P], Elems<'_>, &mut [f32]);

/// What each of so many output pixels along one axis is made of, by the alignment and the number of input pixels.
pub(crate) type PixelsFn<P> = fn(Alignment, usize, usize) -> Result<Vec<P>>;

/// The kernel of an op that interpolates between pixels.
pub(crate) fn interpolation<P: 'static>(
    init: &KernelInit<'_>,
    run: InterpolationLoop<P>,
    pixels: PixelsFn<P>,
) -> Result<Box<dyn Kernel>> {
    let alignment = Alignment::new(init.attrs)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let resize = Resize::new(ctx)?;
        let images = ctx.input(0)?.elems();
        ctx.try_produce(0, Shape::new(&resize.sizes())?, |out| {
            let rows = pixels(alignment, resize.in_h, resize.out_h)?;
            let cols = pixels(alignment, resize.in_w, resize.out_w)?;
            run(ctx.parallel(), &resize, &rows, &cols, images, out.typed());
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions() {
        let corners = Alignment { align_corners: true, half_pixel_centers: false };
        assert_eq!(corners.scale(5, 3), 2.0);
        assert_eq!(corners.scale(5, 1), 5.0);
        let edges = Alignment { align_corners: false, half_pixel_centers: false };
        assert_eq!(edges.position(3, edges.scale(2, 4)), 1.5);
        let centers = Alignment { align_corners: false, half_pixel_centers: true };
        assert_eq!(centers.position(0, centers.scale(2, 4)), -0.25);
    }
}
