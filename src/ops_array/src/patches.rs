//! Patches of images and volumes laid out as channels: `ExtractImagePatches`, `ExtractVolumePatches`.

use tfcore_base::{Result, invalid, out_of_range, require, unimplemented_error};
use tfcore_framework::geometry::{AxisPadding, WindowAxis, WindowPlaces};
use tfcore_framework::movement::{Movement, for_each_units, move_elems};
use tfcore_framework::{Attrs, InferenceContext, Kernel, KernelInit, Registry, kernel, shape_ops};
use tfcore_tensor::{Dim, Shape};

pub(crate) fn register(r: &mut Registry) {
    // `ExtractImagePatches(images: T; ksizes, strides, rates, padding) -> patches: T`: at each place of a window, the pixels
    // under it, in rows, as channels; zeros outside of the image.
    r.op("ExtractImagePatches").shape(|ctx| patches_shape(ctx, 2)).cpu(|init| patches(init, 2));
    // `ExtractVolumePatches(input: T; ksizes, strides, padding) -> patches: T`, the same in three dimensions, without rates.
    r.op("ExtractVolumePatches").shape(|ctx| patches_shape(ctx, 3)).cpu(|init| patches(init, 3));
}

/// A window along one axis and its size.
type Window = (WindowAxis, i64);

/// The windows along the `axes` axes between batch and channels, for a shape function.
fn static_windows(attrs: &Attrs, axes: usize) -> Result<Vec<Window>> {
    let name = if axes == 2 { "ExtractImagePatches" } else { "ExtractVolumePatches" };
    let read = |attr: &str, what: &str| {
        let values = attrs.ints(attr)?;
        let (expected, len) = (axes + 2, values.len());
        require!(
            len == expected,
            "{name} requires the {what} attribute to contain {expected} values, but got: {len}"
        );
        Ok(values[1..=axes].to_vec())
    };
    let ksizes = read("ksizes", "ksizes")?;
    let strides = read("strides", "stride")?;
    let rates = if axes == 2 { read("rates", "rates")? } else { vec![1; axes] };
    let padding = match attrs.str("padding")? {
        "SAME" => AxisPadding::Same,
        _ => AxisPadding::Valid,
    };
    let windows = ksizes.into_iter().zip(strides).zip(rates);
    Ok(windows
        .map(|((size, stride), dilation)| (WindowAxis { stride, dilation, padding }, size))
        .collect())
}

fn patches_shape(ctx: &mut InferenceContext<'_>, axes: usize) -> Result<()> {
    let input = shape_ops::with_rank(ctx.input(0), axes + 2)?;
    let windows = static_windows(ctx.attrs, axes)?;
    let dims = input.dims().unwrap_or_default();
    let mut depth = dims[axes + 1];
    for (_, size) in &windows {
        depth = shape_ops::multiply(depth, *size)?;
    }
    let mut output = vec![dims[0]];
    let space = &dims[1..=axes];
    // As in the reference, one unknown axis leaves all unknown.
    if space.iter().all(|dim| dim.is_known()) {
        for (&dim, (window, size)) in space.iter().zip(&windows) {
            let (dim, size) = (dim.value().unwrap_or_default(), *size);
            let taps = usize::try_from(size).map_err(|_| invalid!("ksizes is out of range."))?;
            output.push(Dim::new(window.places(dim as usize, taps)?.count as i64));
        }
    } else {
        // Two of them even for volumes: so the reference has it.
        output.extend([Dim::UNKNOWN; 2]);
    }
    output.push(depth);
    ctx.set_output(0, output.into_iter().collect());
    Ok(())
}

/// Checks attrs in the order of the reference's kernels.
fn kernel_windows(init: &KernelInit<'_>, axes: usize) -> Result<Vec<Window>> {
    let names: &[&str] =
        if axes == 2 { &["ksizes", "strides", "rates"] } else { &["ksizes", "strides"] };
    for name in names {
        let values = init.attrs.ints(name)?;
        let [first, space @ .., last] = values else {
            return Err(invalid!("{name} must have {} values", axes + 2));
        };
        if *first != 1 || *last != 1 {
            return Err(unimplemented_error!("Only support {name} across space."));
        }
        if space.iter().any(|value| *value < 1) {
            return Err(out_of_range!("{name} is out of range."));
        }
    }
    static_windows(init.attrs, axes)
}

fn patches(init: &KernelInit<'_>, axes: usize) -> Result<Box<dyn Kernel>> {
    let windows = kernel_windows(init, axes)?;
    kernel(move |ctx| {
        let input = ctx.input(0)?;
        let [batch, space @ .., depth] = input.shape().dims() else {
            return Err(not_of_rank(axes, input.shape()));
        };
        if space.len() != axes {
            return Err(not_of_rank(axes, input.shape()));
        }
        let mut dims = vec![*batch];
        let mut channels = Some(*depth);
        let mut places = Vec::with_capacity(axes);
        for (&size, (window, taps)) in space.iter().zip(&windows) {
            let taps_usize = usize::try_from(*taps).map_err(|_| invalid!("ksizes is too large"))?;
            let axis = window.places(size as usize, taps_usize)?;
            dims.push(axis.count as i64);
            channels = channels.and_then(|channels| channels.checked_mul(*taps));
            places.push(Axis {
                places: axis,
                size: size as usize,
                taps: taps_usize,
                stride: window.stride as usize,
                rate: window.dilation as usize,
            });
        }
        dims.push(channels.ok_or_else(|| invalid!("ksizes is too large"))?);
        let depth = *depth as usize;
        let elems = input.elems();
        ctx.produce(0, Shape::new(&dims)?, |mut out| {
            out.reborrow().fill_default();
            if elems.is_empty() {
                return;
            }
            let patch = depth * places.iter().map(|axis| axis.taps).product::<usize>();
            for_each_units(ctx.parallel(), out, patch, &|first, part| {
                move_elems(elems, part, Extract { axes: &places, depth, first });
            });
        })
    })
}

fn not_of_rank(axes: usize, shape: &Shape) -> tfcore_base::Error {
    invalid!("input must be {}-dimensional{shape}", axes + 2)
}

/// Windows along one axis of the input.
struct Axis {
    places: WindowPlaces,
    size: usize,
    taps: usize,
    stride: usize,
    rate: usize,
}

struct Extract<'a> {
    axes: &'a [Axis],
    depth: usize,
    /// The number of the first patch.
    first: usize,
}

impl Movement for Extract<'_> {
    fn run<E: Clone>(self, source: &[E], out: &mut [E]) {
        let patch = self.depth * self.axes.iter().map(|axis| axis.taps).product::<usize>();
        for (number, out) in out.chunks_exact_mut(patch).enumerate() {
            for (tap, out) in out.chunks_exact_mut(self.depth).enumerate() {
                if let Some(at) = self.pixel(self.first + number, tap) {
                    let start = at * self.depth;
                    out.clone_from_slice(&source[start..start + self.depth]);
                }
            }
        }
    }
}

impl Extract<'_> {
    /// The number of the pixel under tap `tap` of patch `number`; `None` outside of the input.
    fn pixel(&self, number: usize, tap: usize) -> Option<usize> {
        let (mut window, mut tap) = (number, tap);
        let (mut at, mut stride) = (0, 1);
        for axis in self.axes.iter().rev() {
            let start = window % axis.places.count * axis.stride;
            let padded = start + tap % axis.taps * axis.rate;
            let inside = padded.checked_sub(axis.places.before).filter(|&at| at < axis.size)?;
            at += inside * stride;
            stride *= axis.size;
            window /= axis.places.count;
            tap /= axis.taps;
        }
        Some(window * stride + at)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use tfcore_framework::AttrValue;

    fn attrs(
        ksizes: &[i64],
        strides: &[i64],
        rates: Option<&[i64]>,
        padding: &str,
    ) -> Vec<(&'static str, AttrValue)> {
        let ints = |values: &[i64]| AttrValue::ints(values.iter().copied());
        let mut attrs = vec![
            int32(),
            ("ksizes", ints(ksizes)),
            ("strides", ints(strides)),
            ("padding", AttrValue::string(padding)),
        ];
        attrs.extend(rates.map(|rates| ("rates", ints(rates))));
        attrs
    }

    #[test]
    fn patches_of_images() {
        let one = [1, 1, 1, 1];
        let valid = attrs(&[1, 2, 2, 1], &one, Some(&one), "VALID");
        let found = values::<i32>("ExtractImagePatches", &valid, &[counting(&[1, 2, 3, 1])]);
        assert_eq!(found.unwrap(), (vec![1, 1, 2, 4], vec![0, 1, 3, 4, 1, 2, 4, 5]));
        // One row: the window begins one pixel before the image, and leaves out every second one.
        let same = attrs(&[1, 1, 2, 1], &[1, 1, 2, 1], Some(&[1, 1, 2, 1]), "SAME");
        let found =
            values::<i32>("ExtractImagePatches", &same, &[tensor(&[1, 1, 3, 1], &[1, 2, 3])]);
        assert_eq!(found.unwrap(), (vec![1, 1, 2, 2], vec![0, 2, 2, 0]));
        assert_eq!(shapes("ExtractImagePatches", &valid, "[5,4,4,3]", &[]), "[5,3,3,12]");
        assert_eq!(shapes("ExtractImagePatches", &valid, "[5,?,4,3]", &[]), "[5,?,?,12]");
        let across = attrs(&[2, 1, 1, 1], &one, Some(&one), "VALID");
        assert_eq!(
            failure("ExtractImagePatches", &across, &[counting(&[1, 2, 3, 1])]),
            "Only support ksizes across space."
        );
    }

    #[test]
    fn patches_of_volumes() {
        let attrs = attrs(&[1, 2, 1, 2, 1], &[1, 1, 1, 1, 1], None, "VALID");
        let found = values::<i32>("ExtractVolumePatches", &attrs, &[counting(&[1, 2, 1, 3, 1])]);
        assert_eq!(found.unwrap(), (vec![1, 1, 1, 2, 4], vec![0, 1, 3, 4, 1, 2, 4, 5]));
        assert_eq!(
            failure("ExtractVolumePatches", &attrs, &[counting(&[2, 3])]),
            "input must be 5-dimensional[2,3]"
        );
    }
}
