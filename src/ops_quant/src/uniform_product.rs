//! Matrix products and convolutions of uniformly quantized tensors. In the hybrid forms the left operand is float and gets a scale and
//! a zero point for each row or image.

use prost::Message;
use tfcore_base::{Result, invalid, require};
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

use crate::levels::{read, write};
use crate::uniform::{Multiplier, Slices, axis, bounded, bounds, level};

pub(crate) fn register(r: &mut Registry) {
    // `UniformQuantizedDot(lhs: Tin, rhs: Tin, lhs_scales, lhs_zero_points, rhs_scales, rhs_zero_points, output_scales,
    // output_zero_points) -> output: Tout`. `UniformQuantizedDotHybrid(lhs: Tlhs, rhs: Trhs, rhs_scales, rhs_zero_points)
    // -> output: Tout`.
    r.op("UniformQuantizedDot").shape(|ctx| dot_shape(ctx, false)).cpu(|init| dot(init, false));
    r.op("UniformQuantizedDotHybrid").shape(|ctx| dot_shape(ctx, true)).cpu(|init| dot(init, true));

    // `UniformQuantizedConvolution(...)`, inputs as above, attrs `window_strides`, `padding`, `explicit_padding`,
    // `lhs_dilation`, `rhs_dilation`, `batch_group_count`, `feature_group_count`, `dimension_numbers`.
    r.op("UniformQuantizedConvolution")
        .shape(|ctx| convolution_shape(ctx, false))
        .cpu(|init| convolution(init, false));
    r.op("UniformQuantizedConvolutionHybrid")
        .shape(|ctx| convolution_shape(ctx, true))
        .cpu(|init| convolution(init, true));
}

/// Checks what is known of scales and zero points in inputs `first` and the next one: scalars, or vectors of `depth` elements
/// if that is given.
fn check_scales(ctx: &InferenceContext<'_>, first: usize, depth: Option<Dim>) -> Result<()> {
    let most = usize::from(depth.is_some());
    let scales = shape_ops::with_rank_at_most(ctx.input(first), most)?;
    let zeros = shape_ops::with_rank_at_most(ctx.input(first + 1), most)?;
    if let (Some(a), Some(b)) = (scales.rank(), zeros.rank()) {
        require!(a == b, "scales and zero_points must have same rank.");
    }
    if let (Some(1), Some(depth)) = (scales.rank(), depth) {
        shape_ops::merge_dims(scales.dim(0), depth)?;
    }
    if let (Some(1), Some(depth)) = (zeros.rank(), depth) {
        shape_ops::merge_dims(zeros.dim(0), depth)?;
    }
    Ok(())
}

/// As [`check_scales`] for all of an op.
fn check_all_scales(ctx: &InferenceContext<'_>, hybrid: bool, depth: Dim) -> Result<()> {
    if hybrid {
        return check_scales(ctx, 2, Some(depth));
    }
    check_scales(ctx, 2, None)?;
    check_scales(ctx, 4, Some(depth))?;
    check_scales(ctx, 6, Some(depth))
}

fn dot_shape(ctx: &mut InferenceContext<'_>, hybrid: bool) -> Result<()> {
    let lhs = shape_ops::with_rank(ctx.input(0), 2)?;
    let rhs = shape_ops::with_rank(ctx.input(1), 2)?;
    shape_ops::merge_dims(lhs.dim(1), rhs.dim(0))?;
    check_all_scales(ctx, hybrid, rhs.dim(1))?;
    ctx.set_output(0, [lhs.dim(0), rhs.dim(1)].into_iter().collect());
    Ok(())
}

/// The left operand as levels, with a scale and a zero point for each of its rows.
struct Left {
    levels: Vec<i32>,
    scales: Vec<f32>,
    zeros: Vec<i32>,
}

impl Left {
    /// Quantizes rows of floats, each by its range.
    fn of_floats(values: &[f32], rows: usize) -> Left {
        const BOUNDS: [i32; 2] = [-128, 127];
        let [lowest, highest] = BOUNDS.map(f64::from);
        let mut left =
            Left { levels: Vec::with_capacity(values.len()), scales: vec![], zeros: vec![] };
        let len = values.len() / rows.max(1);
        for row in 0..rows {
            let row = &values[row * len..][..len];
            let min = f64::from(row.iter().copied().fold(0.0, f32::min));
            let max = f64::from(row.iter().copied().fold(0.0, f32::max));
            if min == max {
                left.levels.extend(row.iter().map(|_| 0));
                left.scales.push(1.0);
                left.zeros.push(0);
                continue;
            }
            let scale = (max - min) / (highest - lowest);
            // The end of the range that makes the smaller error decides where 0 is.
            let (from_min, from_max) = (lowest - min / scale, highest - max / scale);
            let error = |level: f64, end: f64| level.abs() + (end / scale).abs();
            let zero = if error(lowest, min) < error(highest, max) { from_min } else { from_max };
            let zero = zero.clamp(lowest, highest).round() as i32;
            left.levels.extend(row.iter().map(|&x| level(x, (1.0 / scale) as f32, zero, BOUNDS)));
            left.scales.push(scale as f32);
            left.zeros.push(zero);
        }
        left
    }
}

/// What becomes of sums of products, channel by channel.
struct Finish<'a> {
    right: Slices<'a>,
    output: Option<(Slices<'a>, [i32; 2])>,
}

impl Finish<'_> {
    /// The multiplier of a channel, for levels of the left operand of this scale.
    fn multiplier(&self, scale: f32, channel: usize) -> Result<Multiplier> {
        let Some((output, _)) = &self.output else {
            return Multiplier::new(1.0);
        };
        let right = self.right.scales[channel.min(self.right.scales.len() - 1)];
        let output = output.scales[channel.min(output.scales.len() - 1)];
        Multiplier::new(f64::from(scale) * f64::from(right) / f64::from(output))
    }

    fn right_zero(&self, channel: usize) -> i32 {
        self.right.zeros[channel.min(self.right.zeros.len() - 1)]
    }

    fn right_scale(&self, channel: usize) -> f32 {
        self.right.scales[channel.min(self.right.scales.len() - 1)]
    }

    /// The output's level for a sum.
    fn level(&self, sum: i32, multiplier: Multiplier, channel: usize) -> i32 {
        let Some((output, bounds)) = &self.output else {
            return sum;
        };
        let zero = output.zeros[channel.min(output.zeros.len() - 1)];
        bounded(multiplier.apply(sum).wrapping_add(zero), *bounds)
    }
}

/// Requires the scales of the inputs `firsts`, called by these names, to be positive.
fn check_positive(ctx: &OpContext<'_>, scales: &[(usize, &str)]) -> Result<()> {
    for &(index, name) in scales {
        let scales = ctx.input(index)?.as_slice::<f32>()?;
        require!(
            scales.iter().all(|&scale| scale > 0.0),
            "{name} scales elements must be all positive."
        );
    }
    Ok(())
}

/// The left operand of an op that is not hybrid: one scale and one zero point in inputs 2 and 3.
fn left_levels(ctx: &OpContext<'_>, rows: usize) -> Result<Left> {
    let (scales, zeros) = (ctx.input(2)?, ctx.input(3)?);
    require!(
        scales.rank() == 0 && zeros.rank() == 0,
        "lhs scales/zero_points must be all scalar tensors. Given: {}{}",
        scales.shape(),
        zeros.shape()
    );
    let (scale, zero) = (scales.as_slice::<f32>()?[0], zeros.as_slice::<i32>()?[0]);
    Ok(Left { levels: read(ctx.input(0)?)?, scales: vec![scale; rows], zeros: vec![zero; rows] })
}

fn dot(init: &KernelInit<'_>, hybrid: bool) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let right_axis = axis(attrs, "rhs_")?;
    require!(
        matches!(right_axis, -1 | 1),
        "rhs_quantization_axis Attr must be -1 (per-tensor) or 1 (per-channel)."
    );
    let mut output = None;
    if !hybrid {
        require!(axis(attrs, "lhs_")? == -1, "lhs_quantization_axis Attr must be -1 (per-tensor).");
        let out_axis = axis(attrs, "output_")?;
        require!(
            matches!(out_axis, -1 | 1),
            "output_quantization_axis Attr must be -1 (per-tensor) or 1 (per-channel)."
        );
        output = Some((out_axis, bounds(attrs, "output_")?));
    }
    kernel(move |ctx: &mut OpContext<'_>| {
        let (lhs, rhs) = (ctx.input(0)?, ctx.input(1)?);
        require!(
            lhs.rank() == 2 && rhs.rank() == 2,
            "lhs and rhs must have rank 2, but given lhs shape {} and rhs shape {}",
            lhs.shape(),
            rhs.shape()
        );
        let (rows, depth, cols) = (lhs.dim(0), lhs.dim(1), rhs.dim(1));
        require!(
            depth == rhs.dim(0),
            "lhs.dim_size(1) and rhs.dim_size(0) must be equal, but given lhs shape {} and rhs shape {}",
            lhs.shape(),
            rhs.shape()
        );
        let shape = Shape::new(&[rows as i64, cols as i64])?;
        let first = if hybrid { 2 } else { 4 };
        let right = Slices::new(ctx, first, rhs.shape(), right_axis)?;
        let all: &[(usize, &str)] =
            if hybrid { &[(2, "rhs")] } else { &[(2, "lhs"), (4, "rhs"), (6, "output")] };
        check_positive(ctx, all)?;
        let left = match hybrid {
            true => Left::of_floats(lhs.as_slice::<f32>()?, rows),
            false => left_levels(ctx, rows)?,
        };
        let output = match output {
            Some((axis, bounds)) => {
                require!(
                    right_axis != -1 || axis == -1,
                    "If rhs is per-tensor quantized, output must be also per-tensor quantized."
                );
                Some((Slices::new(ctx, 6, &shape, axis)?, bounds))
            }
            None => None,
        };
        let finish = Finish { right, output };
        let weights = read(rhs)?;
        let sum = |row: usize, col: usize| {
            let zero = finish.right_zero(col);
            (0..depth).fold(0i32, |sum, at| {
                let x = left.levels[row * depth + at].wrapping_sub(left.zeros[row]);
                sum.wrapping_add(x.wrapping_mul(weights[at * cols + col].wrapping_sub(zero)))
            })
        };
        let places = (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col)));
        if hybrid {
            let values: Vec<f32> = places
                .map(|(row, col)| sum(row, col) as f32 * left.scales[row] * finish.right_scale(col))
                .collect();
            ctx.set_output(0, Tensor::from_slice(shape, &values)?);
            return Ok(());
        }
        let scale = left.scales.first().copied().unwrap_or(1.0);
        let multipliers: Vec<Multiplier> =
            (0..cols).map(|col| finish.multiplier(scale, col)).collect::<Result<_>>()?;
        let levels = places.map(|(row, col)| finish.level(sum(row, col), multipliers[col], col));
        write(ctx, 0, shape, levels)
    })
}

/// The message in attr `dimension_numbers`: which dimensions are what.
#[derive(Clone, PartialEq, Message)]
struct DimensionNumbers {
    #[prost(int64, tag = "1")]
    input_batch: i64,
    #[prost(int64, tag = "2")]
    input_feature: i64,
    #[prost(int64, repeated, tag = "3")]
    input_spatial: Vec<i64>,
    #[prost(int64, tag = "4")]
    kernel_input_feature: i64,
    #[prost(int64, tag = "5")]
    kernel_output_feature: i64,
    #[prost(int64, repeated, tag = "6")]
    kernel_spatial: Vec<i64>,
    #[prost(int64, tag = "7")]
    output_batch: i64,
    #[prost(int64, tag = "8")]
    output_feature: i64,
    #[prost(int64, repeated, tag = "9")]
    output_spatial: Vec<i64>,
}

/// The attributes of a convolution.
#[derive(Clone)]
struct Params {
    strides: Vec<i64>,
    lhs_dilation: Vec<i64>,
    rhs_dilation: Vec<i64>,
    padding: String,
    explicit: Vec<i64>,
    batch_groups: i64,
    feature_groups: i64,
    numbers: DimensionNumbers,
}

/// A convolution of operands of known shapes.
struct Geometry {
    /// The dimensions of each operand and of the result: batch or output feature, feature, spatial ones.
    lhs: Vec<usize>,
    rhs: Vec<usize>,
    out: Vec<usize>,
    strides: Vec<i64>,
    lhs_dilation: Vec<i64>,
    rhs_dilation: Vec<i64>,
    /// Before the first element of each spatial dimension.
    before: Vec<i64>,
    shape: Shape,
    batch_groups: usize,
    feature_groups: usize,
}

impl Params {
    fn new(attrs: &Attrs) -> Result<Params> {
        let ints = |name: &str| -> Result<Vec<i64>> { Ok(attrs.ints(name)?.to_vec()) };
        let padding = String::from_utf8_lossy(attrs.bytes("padding")?).into_owned();
        let explicit = ints("explicit_padding")?;
        require!(
            matches!(&*padding, "EXPLICIT" | "SAME" | "VALID"),
            "padding Attr must be one of [EXPLICIT | SAME | VALID], but given: {padding}"
        );
        require!(
            padding == "EXPLICIT" || explicit.is_empty(),
            "If padding Attr is not 'EXPLICIT', explicit_padding Attr must be empty. Given padding {padding} \
             and explicit_padding of size {}",
            explicit.len()
        );
        let numbers = DimensionNumbers::decode(attrs.bytes("dimension_numbers")?)
            .map_err(|_| invalid!("Error parsing convolution dimension numbers."))?;
        Ok(Params {
            strides: ints("window_strides")?,
            lhs_dilation: ints("lhs_dilation")?,
            rhs_dilation: ints("rhs_dilation")?,
            padding,
            explicit,
            batch_groups: attrs.int("batch_group_count")?,
            feature_groups: attrs.int("feature_group_count")?,
            numbers,
        })
    }

    /// The dimension numbers for operands of this rank, and which they are: lhs, rhs and output, in the order batch or output
    /// feature, feature, spatial ones.
    fn orders(&self, rank: usize) -> Result<[Vec<usize>; 3]> {
        let spatial = rank - 2;
        let n = &self.numbers;
        if n.input_spatial.is_empty() {
            return Ok([(); 3].map(|()| (0..rank).collect()));
        }
        let order = |first: i64, second: i64, rest: &[i64]| -> Result<Vec<usize>> {
            let valid = |dim: i64| {
                usize::try_from(dim).ok().filter(|&dim| dim < rank).ok_or_else(|| {
                    invalid!(
                        "Each dimension number must be in region [0, rank). Given rank {rank} and dimension \
                         number value {dim}"
                    )
                })
            };
            let mut dims = vec![valid(first)?, valid(second)?];
            require!(
                rest.len() == spatial,
                "Spatial dimensions size must be rank - 2. Given rank {rank} and spatial dimensions size {}",
                rest.len()
            );
            for &dim in rest {
                dims.push(valid(dim)?);
            }
            let mut sorted = dims.clone();
            sorted.sort_unstable();
            sorted.dedup();
            require!(sorted.len() == rank, "Each dimension must have one number, got {dims:?}");
            Ok(dims)
        };
        Ok([
            order(n.input_batch, n.input_feature, &n.input_spatial)?,
            order(n.kernel_output_feature, n.kernel_input_feature, &n.kernel_spatial)?,
            order(n.output_batch, n.output_feature, &n.output_spatial)?,
        ])
    }

    fn geometry(&self, lhs: &Shape, rhs: &Shape) -> Result<Geometry> {
        require!(
            lhs.rank() == rhs.rank(),
            "lhs and rhs must have same dims. Given lhs and rhs of shapes: {lhs}{rhs}"
        );
        let rank = lhs.rank();
        require!(rank > 2, "lhs and rhs shape dims must be at least 3. Given: {rank}");
        let spatial = rank - 2;
        let filled = |values: &[i64], name: &str| -> Result<Vec<i64>> {
            if values.is_empty() {
                return Ok(vec![1; spatial]);
            }
            require!(values.len() == spatial, "Size of {name} Attr must be dims - 2.");
            require!(
                values.iter().all(|&value| (1..1 << 31).contains(&value)),
                "All elements of {name} must be >= 1. Given {}",
                values.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
            );
            Ok(values.to_vec())
        };
        let strides = filled(&self.strides, "window_strides")?;
        let lhs_dilation = filled(&self.lhs_dilation, "lhs_dilation")?;
        let rhs_dilation = filled(&self.rhs_dilation, "rhs_dilation")?;
        let [lhs_order, rhs_order, out_order] = self.orders(rank)?;
        let dims = |shape: &Shape, order: &[usize]| -> Vec<usize> {
            order.iter().map(|&axis| shape.dim(axis)).collect()
        };
        let (lhs, rhs) = (dims(lhs, &lhs_order), dims(rhs, &rhs_order));
        let groups = self.feature_groups;
        require!(groups > 0, "feature_group_count must be a positive integer, given: {groups}");
        let (features, inputs, outputs) = (lhs[1] as i64, rhs[1] as i64, rhs[0] as i64);
        require!(
            features % groups == 0,
            "feature_group_count must divide lhs feature dimension size, but {groups} does not divide {features}"
        );
        require!(
            inputs != 0 && features % inputs == 0,
            "rhs input feature dimension must divide lhs feature dimension size, but {inputs} does not divide \
             {features}"
        );
        require!(
            features / groups == inputs,
            "lhs feature dimension size divided by feature_group_count must equal the rhs input feature \
             dimension size, but {features} / {groups} != {inputs}"
        );
        require!(
            outputs % groups == 0,
            "rhs output dimension size must be a multiple of feature_group_count, but {outputs} is not a \
             multiple of {groups}"
        );
        let batches = self.batch_groups;
        require!(
            batches > 0,
            "batch_group_count Attr must be a positive integer. Given: {batches}"
        );
        require!(
            lhs[0] as i64 % batches == 0,
            "batch_group_count must divide lhs batch dimension size, but {batches} does not divide {}",
            lhs[0]
        );
        require!(
            outputs % batches == 0,
            "rhs output dimension size must be a multiple of batch_group_count, but {outputs} is not a multiple \
             of {batches}"
        );
        if self.padding == "EXPLICIT" {
            require!(
                self.explicit.len() == 2 * spatial,
                "Size of explicit_padding Attr must be 2 * (rank - 2). Given rank {rank} and explicit_padding of \
                 size {}",
                self.explicit.len()
            );
            require!(
                self.explicit.iter().all(|&size| (0..1 << 31).contains(&size)),
                "All explicit_padding elems must be >= 0, Given {}",
                self.explicit.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
            );
        }
        let dilated = |size: usize, dilation: i64| match size {
            0 => 0,
            _ => (size as i64 - 1).saturating_mul(dilation).saturating_add(1),
        };
        let mut out = vec![lhs[0] / batches as usize, rhs[0]];
        let mut before = Vec::with_capacity(spatial);
        for axis in 0..spatial {
            let input = dilated(lhs[axis + 2], lhs_dilation[axis]);
            let window = dilated(rhs[axis + 2], rhs_dilation[axis]);
            let stride = strides[axis];
            let padding = match &*self.padding {
                "EXPLICIT" => [self.explicit[2 * axis], self.explicit[2 * axis + 1]],
                "VALID" => [0, 0],
                _ => {
                    let count = input.saturating_add(stride - 1) / stride;
                    let reach = (count - 1).saturating_mul(stride).saturating_add(window);
                    let total = reach.saturating_sub(input).max(0);
                    [total / 2, total - total / 2]
                }
            };
            let room = input.saturating_add(padding[0]).saturating_add(padding[1]);
            let count = room.saturating_sub(window).saturating_add(stride) / stride;
            require!(count >= 0, "Dimension {count} must be >= 0");
            out.push(count as usize);
            before.push(padding[0]);
        }
        let mut sizes = vec![0; rank];
        for (&axis, &size) in out_order.iter().zip(&out) {
            sizes[axis] = size as i64;
        }
        Ok(Geometry {
            lhs,
            rhs,
            out,
            strides,
            lhs_dilation,
            rhs_dilation,
            before,
            shape: Shape::new(&sizes)?,
            batch_groups: batches as usize,
            feature_groups: groups as usize,
        })
    }
}

fn convolution_shape(ctx: &mut InferenceContext<'_>, hybrid: bool) -> Result<()> {
    let (lhs, rhs) = (ctx.input(0), ctx.input(1));
    let rank = match (lhs.rank(), rhs.rank()) {
        (None, None) => {
            ctx.set_output(0, PartialShape::unknown());
            return Ok(());
        }
        (Some(a), Some(b)) => {
            require!(a == b, "lhs and rhs must have same rank.");
            a
        }
        (a, b) => a.or(b).unwrap_or(0),
    };
    let params = Params::new(ctx.attrs)?;
    if rank > 2 {
        let depth = params.orders(rank).map_or_else(
            |_| Dim::fresh(),
            |[_, order, _]| match rhs.rank() {
                Some(_) => rhs.dim(order[0]),
                None => Dim::fresh(),
            },
        );
        check_all_scales(ctx, hybrid, depth)?;
    }
    let shape = match (lhs.to_shape(), rhs.to_shape()) {
        (Some(lhs), Some(rhs)) => {
            let geometry = params.geometry(&lhs, &rhs)?;
            PartialShape::from_i64s(geometry.shape.dims())?
        }
        _ => PartialShape::of_rank(rank),
    };
    ctx.set_output(0, shape);
    Ok(())
}

/// The elements in the order of these dimensions.
fn transposed<T: Copy>(values: &[T], shape: &Shape, order: &[usize]) -> Vec<T> {
    let strides = shape.strides();
    let sizes: Vec<usize> = order.iter().map(|&axis| shape.dim(axis)).collect();
    (0..values.len())
        .map(|index| {
            let (mut rest, mut at) = (index, 0);
            for (&size, &axis) in sizes.iter().zip(order).rev() {
                at += rest % size * strides[axis];
                rest /= size;
            }
            values[at]
        })
        .collect()
}

impl Geometry {
    /// The sum of products at an element of the result, in the order batch, feature, spatial; each factor is given by its place.
    fn sum(&self, index: usize, product: &dyn Fn(usize, usize) -> i32) -> i32 {
        let cells: usize = self.rhs[2..].iter().product();
        let pixels: usize = self.lhs[2..].iter().product();
        let (image, feature, place) = self.split(index);
        let row = self.row(image, feature);
        let group = feature / (self.out[1] / self.feature_groups).max(1);
        let mut sum = 0i32;
        for cell in 0..cells {
            let Some(pixel) = self.pixel(place, cell) else {
                continue;
            };
            for channel in 0..self.rhs[1] {
                let from = (row * self.lhs[1] + group * self.rhs[1] + channel) * pixels + pixel;
                let weight = (feature * self.rhs[1] + channel) * cells + cell;
                sum = sum.wrapping_add(product(from, weight));
            }
        }
        sum
    }

    /// Image, feature and place of an element of the result.
    fn split(&self, index: usize) -> (usize, usize, usize) {
        let pixels: usize = self.out[2..].iter().product();
        let (rest, place) = (index / pixels, index % pixels);
        (rest / self.out[1], rest % self.out[1], place)
    }

    /// The image of the left operand that a result is made of.
    fn row(&self, image: usize, feature: usize) -> usize {
        feature / (self.out[1] / self.batch_groups).max(1) * self.out[0] + image
    }

    /// The place in the left operand under a cell of the right one, unless it is padding.
    fn pixel(&self, mut place: usize, mut cell: usize) -> Option<usize> {
        let (mut pixel, mut stride) = (0, 1);
        for axis in (0..self.strides.len()).rev() {
            let (outputs, cells, size) =
                (self.out[axis + 2], self.rhs[axis + 2], self.lhs[axis + 2]);
            let at = ((place % outputs) as i64)
                .saturating_mul(self.strides[axis])
                .saturating_add(((cell % cells) as i64).saturating_mul(self.rhs_dilation[axis]))
                - self.before[axis];
            place /= outputs;
            cell /= cells;
            let dilation = self.lhs_dilation[axis];
            if at < 0 || at % dilation != 0 || at / dilation >= size as i64 {
                return None;
            }
            pixel += (at / dilation) as usize * stride;
            stride *= size;
        }
        Some(pixel)
    }
}

fn convolution(init: &KernelInit<'_>, hybrid: bool) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let params = Params::new(attrs)?;
    let right_axis = attrs.int("rhs_quantization_axis")?;
    let mut output = None;
    if !hybrid {
        require!(
            attrs.int("lhs_quantization_axis")? == -1,
            "lhs_quantization_axis Attr must be -1 (per-tensor)."
        );
        output = Some((attrs.int("output_quantization_axis")?, bounds(attrs, "output_")?));
    }
    kernel(move |ctx: &mut OpContext<'_>| {
        let (lhs, rhs) = (ctx.input(0)?, ctx.input(1)?);
        let all: &[(usize, &str)] =
            if hybrid { &[(2, "rhs")] } else { &[(2, "lhs"), (4, "rhs"), (6, "output")] };
        check_positive(ctx, all)?;
        let g = params.geometry(lhs.shape(), rhs.shape())?;
        let [lhs_order, rhs_order, out_order] = params.orders(lhs.rank())?;
        let left = match hybrid {
            true => {
                let values = transposed(lhs.as_slice::<f32>()?, lhs.shape(), &lhs_order);
                Left::of_floats(&values, g.lhs[0])
            }
            false => {
                let left = left_levels(ctx, g.lhs[0])?;
                Left { levels: transposed(&left.levels, lhs.shape(), &lhs_order), ..left }
            }
        };
        require!(
            right_axis == -1 || right_axis == rhs_order[0] as i64,
            "rhs_quantization_axis Attr must be -1 (per-tensor) or \
             dimension_numbers.kernel_output_feature_dimension (per-channel)."
        );
        let right = Slices::new(ctx, if hybrid { 2 } else { 4 }, rhs.shape(), right_axis)?;
        let output = match output {
            Some((axis, bounds)) => {
                require!(
                    axis == -1 || axis == out_order[1] as i64,
                    "output_quantization_axis Attr must be -1 (per-tensor) or \
                     dimension_numbers.output_feature_dimension (per-channel)."
                );
                let output = Slices::new(ctx, 6, &g.shape, axis)?;
                require!(
                    right_axis != -1 || axis == -1,
                    "If rhs is per-tensor quantized, output must be also per-tensor quantized. Given output \
                     scales/zero_points of rank 1"
                );
                Some((output, bounds))
            }
            None => None,
        };
        let finish = Finish { right, output };
        let weights = transposed(&read(rhs)?, rhs.shape(), &rhs_order);
        let image = g.lhs[1..].iter().product::<usize>().max(1);
        let sum = |index: usize, feature: usize| {
            let zero = finish.right_zero(feature);
            g.sum(index, &|from, weight| {
                let x = left.levels[from].wrapping_sub(left.zeros[from / image]);
                x.wrapping_mul(weights[weight].wrapping_sub(zero))
            })
        };
        // The result is computed in the order batch, feature, spatial, and then put in its own.
        let mut back = vec![0; out_order.len()];
        for (place, &axis) in out_order.iter().enumerate() {
            back[axis] = place;
        }
        let ordered = Shape::new(&g.out.iter().map(|&size| size as i64).collect::<Vec<_>>())?;
        if hybrid {
            let values: Vec<f32> = (0..ordered.count())
                .map(|index| {
                    let (image, feature, _) = g.split(index);
                    let scale = left.scales[g.row(image, feature)];
                    sum(index, feature) as f32 * scale * finish.right_scale(feature)
                })
                .collect();
            let values = transposed(&values, &ordered, &back);
            ctx.set_output(0, Tensor::from_slice(g.shape.clone(), &values)?);
            return Ok(());
        }
        let scale = left.scales.first().copied().unwrap_or(1.0);
        let multipliers: Vec<Multiplier> = (0..g.out[1])
            .map(|feature| finish.multiplier(scale, feature))
            .collect::<Result<_>>()?;
        let levels: Vec<i32> = (0..ordered.count())
            .map(|index| {
                let (_, feature, _) = g.split(index);
                finish.level(sum(index, feature), multipliers[feature], feature)
            })
            .collect();
        let levels = transposed(&levels, &ordered, &back);
        write(ctx, 0, g.shape.clone(), levels.into_iter())
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::{DType, QInt8, QInt32};
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, infer, registry_of, run_op, tensor};

    use super::*;

    fn attrs() -> Vec<(&'static str, AttrValue)> {
        let mut attrs =
            vec![("Tin", AttrValue::Type(DType::QINT8)), ("Tout", AttrValue::Type(DType::QINT32))];
        for name in
            ["lhs_quantization_min_val", "rhs_quantization_min_val", "output_quantization_min_val"]
        {
            attrs.push((name, AttrValue::Int(i64::from(i32::MIN))));
        }
        for name in
            ["lhs_quantization_max_val", "rhs_quantization_max_val", "output_quantization_max_val"]
        {
            attrs.push((name, AttrValue::Int(i64::from(i32::MAX))));
        }
        attrs
    }

    /// Scales and zero points of lhs, rhs and output.
    fn scales() -> Vec<Tensor> {
        let pair = |scale: f32, zero: i32| [floats(&[], &[scale]), tensor(&[], &[zero])];
        [pair(0.5, 1), pair(2.0, 0), pair(0.5, 3)].concat()
    }

    #[test]
    fn products_of_levels() {
        // (2 - 1, 3 - 1) · (4, 5) = 14, times 0.5 · 2 / 0.5, and 3.
        let mut inputs =
            vec![tensor(&[1, 2], &[QInt8(2), QInt8(3)]), tensor(&[2, 1], &[QInt8(4), QInt8(5)])];
        inputs.extend(scales());
        let registry = registry_of(register);
        let out = run_op(&registry, "UniformQuantizedDot", &attrs(), &inputs).unwrap();
        assert_eq!(out[0].as_slice::<QInt32>().unwrap(), [QInt32(31)]);
    }

    #[test]
    fn convolutions() {
        let mut inputs = vec![
            tensor(&[1, 1, 3], &[QInt8(2), QInt8(3), QInt8(1)]),
            tensor(&[1, 1, 2], &[QInt8(4), QInt8(5)]),
        ];
        inputs.extend(scales());
        let mut attrs = attrs();
        attrs.push(("padding", AttrValue::string("SAME")));
        let registry = registry_of(register);
        let op = "UniformQuantizedConvolution";
        let out = run_op(&registry, op, &attrs, &inputs).unwrap();
        // Without zero points: 1, 2, 0. Sums 14, 8, 0; twice that, and 3.
        let expected = [QInt32(31), QInt32(19), QInt32(3)];
        assert_eq!(out[0].as_slice::<QInt32>().unwrap(), expected);
        let shape = |inputs: &str| infer(&registry, op, &attrs, inputs, &[]);
        assert_eq!(shape("[1,2,4,4];[3,2,2,2];[];[];[];[];[];[]").unwrap(), "[1,3,4,4]");
        assert_eq!(shape("?;[3,2,2,2];[];[];[];[];[];[]").unwrap(), "[?,?,?,?]");
        assert!(shape("[1,2,4,4];[3,2,2,2];[2];[];[];[];[];[]").is_err());
    }
}
