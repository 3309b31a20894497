//! The gradients of the resizing ops: each gradient is handed back to the pixels that its own pixel was made of.

use std::ops::Add;

use num_traits::AsPrimitive;
use tfcore_base::{Elem, Floats, Integers, LoopFor, Result, TypedLoop, invalid, try_collect};
use tfcore_framework::{InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Elems, ElemsMut, Shape};

use crate::bicubic::taps;
use crate::bilinear::between;
use crate::nearest::sources;
use crate::resize::{Alignment, Resize, resize_shape};

pub(crate) fn register(r: &mut Registry) {
    // `ResizeBilinearGrad(grads: float, original_image: T) -> output: T`, attrs as `ResizeBilinear`.
    r.op("ResizeBilinearGrad").shape(original_shape).typed_kernel::<Weighted, Floats>(
        "T",
        |init, run| {
            interpolation_grad(init, run, |alignment, input, output| {
                let all = between(alignment, input, output)?;
                shares_of(&all, |at| [(at.lower, 1.0 - at.fraction), (at.upper, at.fraction)])
            })
        },
    );

    // `ResizeBicubicGrad(grads: float, original_image: T) -> output: T`, attrs as `ResizeBicubic`.
    r.op("ResizeBicubicGrad").shape(original_shape).typed_kernel::<Weighted, (f32, f64)>(
        "T",
        |init, run| {
            interpolation_grad(init, run, |alignment, input, output| {
                let all = taps(alignment, input, output)?;
                shares_of(&all, |taps| [0, 1, 2, 3].map(|i| (taps.pixels[i], taps.weights[i])))
            })
        },
    );

    // `ResizeNearestNeighborGrad(grads: T, size: int32) -> output: T`, attrs as `ResizeNearestNeighbor`; `size` is that
    // of the image which was resized. Integers wrap.
    r.op("ResizeNearestNeighborGrad")
        .shape(resize_shape)
        .typed_kernel::<Whole, Floats>("T", nearest_grad)
        .typed_kernel::<WholeIntegers, Integers>("T", nearest_grad);
}

fn original_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let original = ctx.input(1).clone();
    ctx.set_output(0, original);
    Ok(())
}

/// Along one axis: pixel `from` of the resized image has taken so much of pixel `pixel`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Share {
    pixel: usize,
    from: usize,
    weight: f32,
}

/// The shares of an axis by its extent before and after the resize, in any order.
type SharesFn = fn(Alignment, usize, usize) -> Result<Vec<Share>>;

/// The shares of pixels which are made of `N` others each.
fn shares_of<P, const N: usize>(
    pixels: &[P],
    made_of: impl Fn(&P) -> [(usize, f32); N],
) -> Result<Vec<Share>> {
    try_collect((0..pixels.len() * N).map(|index| {
        let from = index / N;
        let (pixel, weight) = made_of(&pixels[from])[index % N];
        Share { pixel, from, weight }
    }))
}

/// The extents of a resize, the shares of its rows in the order of the pixels and of its columns, gradients, output.
type GatherLoop = fn(Parallel<'_>, &Resize, &[Share], &[Share], Elems<'_>, ElemsMut<'_>);

/// The loop for interpolation, whose gradients are `float`.
struct Weighted;

impl TypedLoop for Weighted {
    type Loop = GatherLoop;
}

impl<T: Elem + Copy> LoopFor<T> for Weighted
where
    f64: AsPrimitive<T>,
{
    const LOOP: GatherLoop = |parallel, resize, rows, cols, grads, out| {
        // Each term is rounded to `float`, also where the sum is a `double`.
        let add = |sum: f64, grad: f32, row: f32, col: f32| sum + f64::from(grad * row * col);
        gather::<f32, T, f64>(parallel, resize, rows, cols, grads, out, add);
    };
}

/// The loop for whole pixels, whose sums are rounded as the reference rounds them: after each term.
struct Whole;

impl TypedLoop for Whole {
    type Loop = GatherLoop;
}

impl<T: Elem + AsPrimitive<T> + Add<Output = T>> LoopFor<T> for Whole {
    const LOOP: GatherLoop = |parallel, resize, rows, cols, grads, out| {
        let add = |sum: T, grad: T, _, _| sum + grad;
        gather::<T, T, T>(parallel, resize, rows, cols, grads, out, add);
    };
}

/// As [`Whole`]; sums of 64 bits wrap, and their lower bits are the sums in shorter types.
struct WholeIntegers;

impl TypedLoop for WholeIntegers {
    type Loop = GatherLoop;
}

impl<T: Elem + AsPrimitive<i64>> LoopFor<T> for WholeIntegers
where
    i64: AsPrimitive<T>,
{
    const LOOP: GatherLoop = |parallel, resize, rows, cols, grads, out| {
        let add = |sum: i64, grad: T, _, _| sum.wrapping_add(grad.as_());
        gather::<T, T, i64>(parallel, resize, rows, cols, grads, out, add);
    };
}

fn gather<G: Elem + Copy, T: Elem + Copy, A: AsPrimitive<T> + Default>(
    parallel: Parallel<'_>,
    resize: &Resize,
    rows: &[Share],
    cols: &[Share],
    grads: Elems<'_>,
    out: ElemsMut<'_>,
    add: impl Fn(A, G, f32, f32) -> A + Sync,
) {
    let (grads, channels) = (grads.typed::<G>(), resize.channels);
    let (in_row, out_row) = (resize.in_row(), resize.out_row());
    par_chunks_mut(parallel, out.typed::<T>(), in_row, 1 << 12, &|start, piece| {
        let mut sums = vec![A::default(); in_row];
        for (row, out) in (start / in_row..).zip(piece.chunks_exact_mut(in_row)) {
            let (image, row) = (row / resize.in_h, row % resize.in_h);
            let first = rows.partition_point(|share| share.pixel < row);
            sums.fill(A::default());
            for share in rows[first..].iter().take_while(|share| share.pixel == row) {
                let source = &grads[(image * resize.out_h + share.from) * out_row..][..out_row];
                for col in cols {
                    let grads = &source[col.from * channels..][..channels];
                    let sums = &mut sums[col.pixel * channels..][..channels];
                    for (sum, &grad) in sums.iter_mut().zip(grads) {
                        *sum = add(*sum, grad, share.weight, col.weight);
                    }
                }
            }
            out.iter_mut().zip(&sums).for_each(|(out, sum)| *out = sum.as_());
        }
    });
}

fn interpolation_grad(
    init: &KernelInit<'_>,
    run: GatherLoop,
    shares: SharesFn,
) -> Result<Box<dyn Kernel>> {
    let alignment = Alignment::new(init.attrs)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (grads, image) = (ctx.input(0)?.shape(), ctx.input(1)?.shape());
        let &[batch, out_h, out_w, channels] = grads.to_usizes().as_slice() else {
            return Err(invalid!("input_grad must be 4-dimensional{grads}"));
        };
        let &[_, in_h, in_w, _] = image.to_usizes().as_slice() else {
            return Err(invalid!("original_image must be 4-dimensional{image}"));
        };
        if out_h == 0 || out_w == 0 {
            return Err(invalid!("resized dimensions must be positive"));
        }
        if in_h > i32::MAX as usize || in_w > i32::MAX as usize {
            return Err(invalid!("original sizes must be between 0 and max int32"));
        }
        if in_h == 0 || in_w == 0 {
            return Err(invalid!("original dimensions must be positive"));
        }
        let resize = Resize { batch, in_h, in_w, channels, out_h, out_w };
        compute(ctx, &resize, run, |input, output| shares(alignment, input, output))
    })
}

fn nearest_grad(init: &KernelInit<'_>, run: GatherLoop) -> Result<Box<dyn Kernel>> {
    // Unlike the op itself, its gradient takes both at once.
    let alignment = Alignment {
        align_corners: init.attrs.bool("align_corners")?,
        half_pixel_centers: init.attrs.bool("half_pixel_centers")?,
    };
    kernel(move |ctx: &mut OpContext<'_>| {
        let (grads, size) = (ctx.input(0)?.shape(), ctx.input(1)?);
        let &[batch, out_h, out_w, channels] = grads.to_usizes().as_slice() else {
            return Err(invalid!("input must be 4-dimensional{grads}"));
        };
        if size.rank() != 1 {
            return Err(invalid!("shape_t must be 1-dimensional{}", size.shape()));
        }
        let &[rows, cols] = size.as_slice::<i32>()? else {
            return Err(invalid!("shape_t must have two elements{}", size.shape()));
        };
        let (Ok(in_h @ 1..), Ok(in_w @ 1..)) = (usize::try_from(rows), usize::try_from(cols))
        else {
            return Err(invalid!("shape_t's elements must be positive"));
        };
        let resize = Resize { batch, in_h, in_w, channels, out_h, out_w };
        compute(ctx, &resize, run, |input, output| {
            shares_of(&sources(alignment, input, output)?, |&pixel| [(pixel, 1.0)])
        })
    })
}

fn compute(
    ctx: &mut OpContext<'_>,
    resize: &Resize,
    run: GatherLoop,
    shares: impl Fn(usize, usize) -> Result<Vec<Share>>,
) -> Result<()> {
    let Resize { batch, in_h, in_w, channels, out_h, out_w } = *resize;
    let sizes = [batch, in_h, in_w, channels].map(|size| size as i64);
    let grads = ctx.input(0)?.elems();
    ctx.try_produce(0, Shape::new(&sizes)?, |out| {
        let mut rows = shares(in_h, out_h)?;
        rows.sort_by_key(|share| share.pixel);
        let cols = shares(in_w, out_w)?;
        run(ctx.parallel(), resize, &rows, &cols, grads, out);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, registry_of, run_op, tensor};

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn attrs(dtype: DType) -> [(&'static str, AttrValue); 3] {
        [
            ("T", AttrValue::Type(dtype)),
            ("align_corners", AttrValue::Bool(false)),
            ("half_pixel_centers", AttrValue::Bool(false)),
        ]
    }

    #[test]
    fn gradients_are_shared_out() {
        // Two pixels became four: 0, between 0 and 1, 1, 1.
        let grads = tensor(&[1, 1, 4, 1], &[1.0f32, 2.0, 4.0, 8.0]);
        let original = tensor(&[1, 1, 2, 1], &[0.0f64; 2]);
        let inputs = [grads, original];
        let out =
            run_op(&registry(), "ResizeBilinearGrad", &attrs(DType::DOUBLE), &inputs).unwrap();
        assert_eq!(out[0].as_slice::<f64>().unwrap(), [2.0, 13.0]);
    }

    #[test]
    fn integers_wrap() {
        let inputs = [tensor(&[1, 3, 1, 1], &[100u8; 3]), tensor(&[2], &[1i32, 1])];
        let op = "ResizeNearestNeighborGrad";
        let out = run_op(&registry(), op, &attrs(DType::UINT8), &inputs).unwrap();
        assert_eq!(out[0].as_slice::<u8>().unwrap(), [44]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let float = attrs(DType::FLOAT);
        let ones =
            |dims: &[i64]| tensor(dims, &vec![1.0f32; dims.iter().product::<i64>() as usize]);
        let cases = [
            ("ResizeBilinearGrad", ones(&[2, 2, 3]), ones(&[1, 4, 4, 3]), "input_grad must be 4"),
            ("ResizeBicubicGrad", ones(&[1, 2, 2, 3]), ones(&[4, 3]), "original_image must be 4"),
            ("ResizeBicubicGrad", ones(&[1, 0, 2, 3]), ones(&[1, 4, 4, 3]), "resized dimensions"),
            ("ResizeBilinearGrad", ones(&[1, 2, 2, 3]), ones(&[1, 4, 0, 3]), "original dimensions"),
            (
                "ResizeNearestNeighborGrad",
                ones(&[1, 2, 2, 1]),
                tensor(&[2], &[0i32, 1]),
                "elements must be positive",
            ),
        ];
        for (op, grads, other, expected) in cases {
            let error = run_op(&registry(), op, &float, &[grads, other]).unwrap_err();
            assert!(error.message().contains(expected), "{op}: {error}");
        }
    }

    #[test]
    fn shapes() {
        let float = attrs(DType::FLOAT);
        let bilinear = infer(&registry(), "ResizeBilinearGrad", &float, "[1,2,2,3];[1,?,4,3]", &[]);
        assert_eq!(bilinear.unwrap(), "[1,?,4,3]");
        let op = "ResizeNearestNeighborGrad";
        assert_eq!(infer(&registry(), op, &float, "[1,2,2,3];[2]", &[]).unwrap(), "[1,?,?,3]");
    }
}
