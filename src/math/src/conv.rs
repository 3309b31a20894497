//! Convolutions over images with channels last, and their gradients.
//!
//! Volumes are in [`volume`]. For images there are four ways, chosen by shape and type:
//! * a matrix product, if patches lie in the input as they are (1x1 filters, filters as large as the image);
//! * [`tiles`]: the micro-kernels of products on the input as it lies, row by row ([`filter_gradient`] for the filter's);
//! * [`channelwise`]: lanes that are channels, for depthwise convolutions and groups of few channels;
//! * [`gathered`]: products with patches that are copied, for what remains.
//!
//! Padding counts as zeros that are multiplied like other elements, so that a filter's NaN and infinities reach the output.
//! Half types are summed in f32 and rounded once per output.

use crate::gemm::{Finish, MatMut, MatRef, MatmulElem, Real, matmul};
use crate::pool::Parallel;
use crate::wide::Widen;

mod channelwise;
mod depthwise;
mod filter_gradient;
mod gathered;
mod pass;
pub(crate) mod strip;
mod tiles;
mod volume;

use channelwise::Spread;
pub use depthwise::{
    depthwise_conv2d, depthwise_conv2d_backprop_filter, depthwise_conv2d_backprop_input,
};
use filter_gradient::Groups;
use pass::{Axis, Extents, Pass};
use tiles::Filter;
pub use volume::{Conv3dGeometry, conv3d, conv3d_backprop_filter, conv3d_backprop_input};

/// Elements of a tile of patches: as many as the second cache holds, more if that would be but a few pixels, since
/// the product reads the whole filter for each tile.
const TILE: usize = 1 << 16;
const LARGEST_TILE: usize = 1 << 22;
const PIXELS: usize = 128;

/// Pixels of an output row below which patches are gathered.
const NARROW: usize = 4;

/// Output channels of a group below which, and input channels up to which, lanes are channels.
const FEW_OUT: usize = 8;
const FEW_IN: usize = 16;

/// Extents of a convolution: input [batch, in_h, in_w, in_c], filter [filter_h, filter_w, in_c / groups, out_c],
/// output [batch, out_h, out_w, out_c].
///
/// Cell (fh, fw) of the filter meets, for output pixel (oh, ow), input row `oh · stride_h + fh · dilation_h - pad_top`
/// and the like column; what lies outside of the image counts as zero. Bottom and right padding follow from the output's extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2dGeometry {
    pub batch: usize,
    pub in_h: usize,
    pub in_w: usize,
    pub in_c: usize,
    pub filter_h: usize,
    pub filter_w: usize,
    pub out_c: usize,
    pub out_h: usize,
    pub out_w: usize,
    pub stride_h: usize,
    pub stride_w: usize,
    pub dilation_h: usize,
    pub dilation_w: usize,
    pub pad_top: usize,
    pub pad_left: usize,
    /// Groups of channels; output channels of a group see the input channels of that group alone.
    pub groups: usize,
}

impl Conv2dGeometry {
    /// Elements of the input.
    pub fn input_len(&self) -> usize {
        self.batch * self.in_h * self.in_w * self.in_c
    }

    /// Elements of the filter; of a depthwise filter too.
    pub fn filter_len(&self) -> usize {
        self.filter_h * self.filter_w * self.group_in() * self.out_c
    }

    /// Elements of the output.
    pub fn output_len(&self) -> usize {
        self.batch * self.out_h * self.out_w * self.out_c
    }

    /// Input channels of a group. A depthwise convolution of no channels has no groups.
    fn group_in(&self) -> usize {
        self.in_c.checked_div(self.groups).unwrap_or(0)
    }

    /// Output channels of a group.
    fn group_out(&self) -> usize {
        self.out_c / self.groups
    }

    /// Output pixels of all images.
    fn pixels(&self) -> usize {
        self.batch * self.out_h * self.out_w
    }

    /// Cells of the filter.
    fn cells(&self) -> usize {
        self.filter_h * self.filter_w
    }

    /// The input row under row `fh` of the filter at output row `oh`, if it lies in the image.
    fn input_row(&self, oh: usize, fh: usize) -> Option<usize> {
        input_position(oh, self.stride_h, fh, self.dilation_h, self.pad_top, self.in_h)
    }

    /// The input column under column `fw` of the filter at output column `ow`, if it lies in the image.
    fn input_col(&self, ow: usize, fw: usize) -> Option<usize> {
        input_position(ow, self.stride_w, fw, self.dilation_w, self.pad_left, self.in_w)
    }

    /// The rows and the depth of the one product that a convolution is when its patches lie in the input as they are.
    fn as_product(&self) -> Option<[usize; 2]> {
        if self.groups != 1 || self.pad_top != 0 || self.pad_left != 0 {
            return None;
        }
        let unit = self.cells() == 1 && self.stride_h == 1 && self.stride_w == 1;
        if unit && (self.out_h, self.out_w) == (self.in_h, self.in_w) {
            return Some([self.pixels(), self.in_c]);
        }
        let dense = (self.filter_h == 1 || self.dilation_h == 1)
            && (self.filter_w == 1 || self.dilation_w == 1);
        let whole = (self.filter_h, self.filter_w) == (self.in_h, self.in_w)
            && (self.out_h, self.out_w) == (1, 1);
        (dense && whole).then(|| [self.batch, self.cells() * self.in_c])
    }

    /// Output pixels per tile of patches that are `width` elements each.
    fn tile(&self, width: usize) -> usize {
        let width = width.max(1);
        (TILE / width).max(PIXELS.min(LARGEST_TILE / width)).clamp(1, self.pixels().max(1))
    }

    /// Splits the number of an output pixel into image, row and column.
    fn place(&self, pixel: usize) -> [usize; 3] {
        let (row, ow) = (pixel / self.out_w, pixel % self.out_w);
        [row / self.out_h, row % self.out_h, ow]
    }

    fn check(&self, input: usize, filter: usize, output: usize) {
        assert!(
            self.groups > 0
                && self.in_c.is_multiple_of(self.groups)
                && self.out_c.is_multiple_of(self.groups),
            "conv2d: groups of {self:?}"
        );
        assert!(self.stride_h > 0 && self.stride_w > 0, "conv2d: strides of {self:?}");
        let expected = (self.input_len(), self.filter_len(), self.output_len());
        assert_eq!((input, filter, output), expected, "conv2d: lengths of {self:?}");
    }
}

/// `out · stride + cell · dilation - pad`, if that lies in `0..extent`. Saturates: such a position is outside.
fn input_position(
    out: usize,
    stride: usize,
    cell: usize,
    dilation: usize,
    pad: usize,
    extent: usize,
) -> Option<usize> {
    let position = out.saturating_mul(stride).saturating_add(cell.saturating_mul(dilation));
    position.checked_sub(pad).filter(|&p| p < extent)
}

/// An element type with convolutions: the floats and i32.
pub trait ConvElem: Widen + MatmulElem {
    #[doc(hidden)]
    fn forward(
        par: Parallel,
        g: &Conv2dGeometry,
        input: &[Self],
        filter: &[Self],
        out: &mut [Self],
    ) {
        gathered::conv2d(par, g, input, filter, out);
    }

    #[doc(hidden)]
    fn input_gradient(
        par: Parallel,
        g: &Conv2dGeometry,
        filter: &[Self],
        gradient: &[Self],
        out: &mut [Self],
    ) {
        gathered::conv2d_backprop_input(par, g, filter, gradient, out);
    }

    #[doc(hidden)]
    fn filter_gradient(
        par: Parallel,
        g: &Conv2dGeometry,
        input: &[Self],
        gradient: &[Self],
        out: &mut [Self],
    ) {
        gathered::conv2d_backprop_filter(par, g, input, gradient, out);
    }

    #[doc(hidden)]
    fn depthwise(
        par: Parallel,
        g: &Conv2dGeometry,
        input: &[Self],
        filter: &[Self],
        out: &mut [Self],
    ) {
        let (input, filter) = (&*Self::widen(input), &*Self::widen(filter));
        Self::write_wide(out, |out| depthwise::far(par, g, input, filter, out));
    }

    #[doc(hidden)]
    fn depthwise_input_gradient(
        par: Parallel,
        g: &Conv2dGeometry,
        filter: &[Self],
        gradient: &[Self],
        out: &mut [Self],
    ) {
        let (filter, gradient) = (&*Self::widen(filter), &*Self::widen(gradient));
        Self::write_wide(out, |out| depthwise::far_input(par, g, filter, gradient, out));
    }

    #[doc(hidden)]
    fn volume(par: Parallel, g: &Conv3dGeometry, x: &[Self], w: &[Self], out: &mut [Self]) {
        volume::plain(par, g, x, w, out);
    }

    #[doc(hidden)]
    fn volume_input_gradient(
        par: Parallel,
        g: &Conv3dGeometry,
        w: &[Self],
        dy: &[Self],
        out: &mut [Self],
    ) {
        let _ = par;
        let (w, dy) = (&*Self::widen(w), &*Self::widen(dy));
        Self::write_wide(out, |out| volume::plain_input_gradient(g, w, dy, out));
    }

    #[doc(hidden)]
    fn volume_filter_gradient(
        par: Parallel,
        g: &Conv3dGeometry,
        x: &[Self],
        dy: &[Self],
        out: &mut [Self],
    ) {
        let _ = par;
        let (x, dy) = (&*Self::widen(x), &*Self::widen(dy));
        Self::write_wide(out, |out| volume::plain_filter_gradient(g, x, dy, out));
    }
}

impl ConvElem for i32 {}

macro_rules! float {
    ($($t:ty)*) => {$(
        impl ConvElem for $t {
            fn forward(par: Parallel, g: &Conv2dGeometry, x: &[$t], w: &[$t], out: &mut [$t]) {
                forward(par, g, x, w, out);
            }

            fn input_gradient(par: Parallel, g: &Conv2dGeometry, w: &[$t], dy: &[$t], out: &mut [$t]) {
                input_gradient(par, g, w, dy, out);
            }

            fn filter_gradient(par: Parallel, g: &Conv2dGeometry, x: &[$t], dy: &[$t], out: &mut [$t]) {
                filter_gradient(par, g, x, dy, out);
            }

            fn depthwise(par: Parallel, g: &Conv2dGeometry, x: &[$t], w: &[$t], out: &mut [$t]) {
                depthwise::forward(par, g, x, w, out);
            }

            fn depthwise_input_gradient(
                par: Parallel,
                g: &Conv2dGeometry,
                w: &[$t],
                dy: &[$t],
                out: &mut [$t],
            ) {
                depthwise::input_gradient(par, g, w, dy, out);
            }

            fn volume(par: Parallel, g: &Conv3dGeometry, x: &[$t], w: &[$t], out: &mut [$t]) {
                volume::forward(par, g, x, w, out);
            }

            fn volume_input_gradient(
                par: Parallel,
                g: &Conv3dGeometry,
                w: &[$t],
                dy: &[$t],
                out: &mut [$t],
            ) {
                volume::input_gradient(par, g, w, dy, out);
            }

            fn volume_filter_gradient(
                par: Parallel,
                g: &Conv3dGeometry,
                x: &[$t],
                dy: &[$t],
                out: &mut [$t],
            ) {
                volume::filter_gradient(par, g, x, dy, out);
            }
        }
    )*};
}
float!(f32 f64 half::f16 half::bf16);

/// Writes the convolution of `input` with `filter` to `output`.
pub fn conv2d<T: ConvElem>(
    par: Parallel,
    g: &Conv2dGeometry,
    input: &[T],
    filter: &[T],
    output: &mut [T],
) {
    g.check(input.len(), filter.len(), output.len());
    if let Some([rows, depth]) = g.as_product() {
        let (a, b) = (MatRef::new(input, depth, 1), MatRef::new(filter, g.out_c, 1));
        return matmul(par, rows, g.out_c, depth, a, b, MatMut::new(output, g.out_c, 1), false);
    }
    T::forward(par, g, input, filter, output);
}

/// Writes the gradient with respect to the input, given the gradient `out_backprop` with respect to the output.
pub fn conv2d_backprop_input<T: ConvElem>(
    par: Parallel,
    g: &Conv2dGeometry,
    filter: &[T],
    out_backprop: &[T],
    in_backprop: &mut [T],
) {
    g.check(in_backprop.len(), filter.len(), out_backprop.len());
    if filter.is_empty() || out_backprop.is_empty() {
        return in_backprop.fill(T::ZERO);
    }
    if let Some([rows, depth]) = g.as_product() {
        let (a, b) = (MatRef::new(out_backprop, g.out_c, 1), MatRef::new(filter, 1, g.out_c));
        return matmul(par, rows, depth, g.out_c, a, b, MatMut::new(in_backprop, depth, 1), false);
    }
    T::input_gradient(par, g, filter, out_backprop, in_backprop);
}

/// Writes the gradient with respect to the filter, given the gradient `out_backprop` with respect to the output.
pub fn conv2d_backprop_filter<T: ConvElem>(
    par: Parallel,
    g: &Conv2dGeometry,
    input: &[T],
    out_backprop: &[T],
    filter_backprop: &mut [T],
) {
    g.check(input.len(), filter_backprop.len(), out_backprop.len());
    if input.is_empty() || out_backprop.is_empty() {
        return filter_backprop.fill(T::ZERO);
    }
    if let Some([rows, depth]) = g.as_product() {
        let (a, b) = (MatRef::new(input, 1, depth), MatRef::new(out_backprop, g.out_c, 1));
        let c = MatMut::new(filter_backprop, g.out_c, 1);
        return matmul(par, depth, g.out_c, rows, a, b, c, false);
    }
    T::filter_gradient(par, g, input, out_backprop, filter_backprop);
}

impl Conv2dGeometry {
    /// The extents along rows and along columns.
    fn extents(&self) -> [Extents; 2] {
        [
            Extents {
                input: self.in_h,
                filter: self.filter_h,
                output: self.out_h,
                stride: self.stride_h,
                dilation: self.dilation_h,
                pad: self.pad_top,
            },
            Extents {
                input: self.in_w,
                filter: self.filter_w,
                output: self.out_w,
                stride: self.stride_w,
                dilation: self.dilation_w,
                pad: self.pad_left,
            },
        ]
    }

    /// The pass of the convolution, if its padding is in proportion to the image.
    fn forward_pass(&self) -> Option<Pass> {
        let [h, w] = self.extents();
        let pass = Pass {
            batch: self.batch,
            d: Axis::single(),
            h: h.forward(),
            w: w.forward(),
            channels: self.in_c,
            out: [1, self.out_h, self.out_w],
        };
        (pass.h.is_sensible() && pass.w.is_sensible()).then_some(pass)
    }

    /// The passes of the gradient with respect to the input, if padding is in proportion to the image.
    fn backward_passes(&self) -> Option<Vec<Pass>> {
        let [h, w] = self.extents();
        let mut passes = vec![];
        let columns = w.backward();
        for h in h.backward() {
            for w in &columns {
                passes.push(Pass {
                    batch: self.batch,
                    d: Axis::single(),
                    h: h.clone(),
                    w: w.clone(),
                    channels: self.out_c,
                    out: [1, self.in_h, self.in_w],
                });
            }
        }
        passes.iter().all(|pass| pass.h.is_sensible() && pass.w.is_sensible()).then_some(passes)
    }
}

fn forward<T: Widen + MatmulElem>(
    par: Parallel,
    g: &Conv2dGeometry,
    input: &[T],
    filter: &[T],
    out: &mut [T],
) where
    T::Wide: Real,
{
    let (group_in, group_out) = (g.group_in(), g.group_out());
    let few = g.groups > 1 && group_out < FEW_OUT && group_in <= FEW_IN;
    let pass = match g.forward_pass() {
        Some(pass) if few || g.out_w >= NARROW => pass,
        _ => return gathered::conv2d(par, g, input, filter, out),
    };
    if out.is_empty() {
        return;
    }
    let (input, filter) = (&*T::widen(input), &*T::widen(filter));
    T::write_wide(out, |out| {
        if few {
            let spread = Spread {
                planes: group_in,
                channels: g.out_c,
                expand: Some(&|from, to| {
                    depthwise::spread(from, to, g.groups, group_in, group_out)
                }),
                factors: &|[_, h, w], plane, to| {
                    let from = ((h * g.filter_w + w) * group_in + plane) * g.out_c;
                    to.copy_from_slice(&filter[from..from + g.out_c]);
                },
            };
            return channelwise::run(par, &pass, input, &spread, out);
        }
        let filter = Filter {
            data: filter,
            cell: &|[_, h, w]| (h * g.filter_w + w) * group_in * g.out_c,
            row: g.out_c,
            col: 1,
            groups: g.groups,
            source_c: group_in,
            out_c: group_out,
            group: group_out,
        };
        tiles::run(par, &pass, input, &filter, out, None);
    });
}

fn input_gradient<T: Widen + MatmulElem>(
    par: Parallel,
    g: &Conv2dGeometry,
    filter: &[T],
    gradient: &[T],
    out: &mut [T],
) where
    T::Wide: Real,
{
    let wide_enough = g.in_w / g.stride_w >= NARROW;
    // The reference adds nothing for outputs that are not there: no zeros that would make NaN of an infinite filter.
    let finite = T::widen(filter)
        .iter()
        .all(|&v| v * <T::Wide as Finish>::ZERO == <T::Wide as Finish>::ZERO);
    let passes = match g.backward_passes() {
        Some(passes) if wide_enough && g.groups == 1 && finite => passes,
        _ => return gathered::conv2d_backprop_input(par, g, filter, gradient, out),
    };
    let (filter, gradient) = (&*T::widen(filter), &*T::widen(gradient));
    T::write_wide(out, |out| {
        let filter = Filter {
            data: filter,
            cell: &|[_, h, w]| (h * g.filter_w + w) * g.in_c * g.out_c,
            row: 1,
            col: g.out_c,
            groups: 1,
            source_c: g.out_c,
            out_c: g.in_c,
            group: 0,
        };
        for pass in &passes {
            tiles::run(par, pass, gradient, &filter, out, None);
        }
    });
}

fn filter_gradient<T: Widen + MatmulElem>(
    par: Parallel,
    g: &Conv2dGeometry,
    input: &[T],
    gradient: &[T],
    out: &mut [T],
) where
    T::Wide: Real,
{
    let pass = match g.forward_pass() {
        Some(pass) if g.out_w >= NARROW => pass,
        _ => return gathered::conv2d_backprop_filter(par, g, input, gradient, out),
    };
    let groups = Groups { count: g.groups, source_c: g.group_in(), out_c: g.group_out() };
    let (input, gradient) = (&*T::widen(input), &*T::widen(gradient));
    T::write_wide(out, |out| {
        filter_gradient::run(par, &pass, input, gradient, groups, out);
    });
}

#[cfg(test)]
mod tests;
