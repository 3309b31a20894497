//! `ResizeNearestNeighbor`.

use tfcore_base::{Result, try_collect};
use tfcore_framework::{Kernel, KernelInit, OpContext, Registry, kernel};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Elems, ElemsMut, Lane, Shape};

use crate::resize::{Alignment, Resize, resize_shape};

pub(crate) fn register(r: &mut Registry) {
    // `ResizeNearestNeighbor(images: T, size: int32) -> resized_images: T`, attrs `align_corners`,
    // `half_pixel_centers`: each pixel is the input's that is nearest to it.
    r.op("ResizeNearestNeighbor").shape(resize_shape).cpu(nearest_kernel);
}

fn nearest_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let alignment = Alignment::new(init.attrs)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let resize = Resize::new(ctx)?;
        let (parallel, images) = (ctx.parallel(), ctx.input(0)?.elems());
        ctx.try_produce(0, Shape::new(&resize.sizes())?, |out| {
            let rows = sources(alignment, resize.in_h, resize.out_h)?;
            let cols = sources(alignment, resize.in_w, resize.out_w)?;
            match images.dtype().size() {
                1 => gather::<u8>(parallel, &resize, &rows, &cols, images, out),
                2 => gather::<u16>(parallel, &resize, &rows, &cols, images, out),
                4 => gather::<u32>(parallel, &resize, &rows, &cols, images, out),
                _ => gather::<u64>(parallel, &resize, &rows, &cols, images, out),
            }
            Ok(())
        })
    })
}

/// For each of `output` pixels along one axis, the nearest of `input` pixels.
pub(crate) fn sources(alignment: Alignment, input: usize, output: usize) -> Result<Vec<usize>> {
    let scale = alignment.scale(input, output);
    try_collect((0..output).map(|index| {
        let position = match alignment.half_pixel_centers {
            // The pixel in which the centre lies.
            true => (index as f32 + 0.5) * scale,
            false => index as f32 * scale,
        };
        let nearest = if alignment.align_corners { position.round() } else { position.floor() };
        (nearest as usize).min(input - 1)
    }))
}

fn gather<L: Lane>(
    parallel: Parallel<'_>,
    resize: &Resize,
    rows: &[usize],
    cols: &[usize],
    images: Elems<'_>,
    out: ElemsMut<'_>,
) {
    let (images, channels) = (images.lanes::<L>(), resize.channels);
    let (in_row, out_row) = (resize.in_row(), resize.out_row());
    par_chunks_mut(parallel, out.lanes::<L>(), out_row, 1 << 14, &|start, piece| {
        for (row, out) in (start / out_row..).zip(piece.chunks_exact_mut(out_row)) {
            let (image, row) = (row / resize.out_h, rows[row % resize.out_h]);
            let source = &images[(image * resize.in_h + row) * in_row..][..in_row];
            match channels {
                1 => out.iter_mut().zip(cols).for_each(|(out, &col)| *out = source[col]),
                _ => {
                    for (out, &col) in out.chunks_exact_mut(channels).zip(cols) {
                        out.copy_from_slice(&source[col * channels..][..channels]);
                    }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_pixels() {
        // align_corners, half_pixel_centers, input, output, sources
        let cases: [(bool, bool, usize, usize, &[usize]); 5] = [
            (false, false, 2, 4, &[0, 0, 1, 1]),
            (false, false, 5, 2, &[0, 2]),
            (false, true, 5, 2, &[1, 3]),
            (true, false, 3, 5, &[0, 1, 1, 2, 2]),
            (true, false, 3, 1, &[0]),
        ];
        for (align_corners, half_pixel_centers, input, output, expected) in cases {
            let alignment = Alignment { align_corners, half_pixel_centers };
            assert_eq!(sources(alignment, input, output).unwrap(), expected, "{alignment:?}");
        }
    }
}
