//! Sums, products, activations, joins and normalisations of quantized tensors.

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape};

use crate::levels::{Levels, Range, range, read, scalar, set_range, write};
use crate::shapes::{like_first, scalar_outputs, scalars};

pub(crate) fn register(r: &mut Registry) {
    // `QuantizedRelu(features: Tinput, min_features: float, max_features: float) -> activations: out_type,
    // min_activations: float, max_activations: float`. `QuantizedRelu6` is bounded by 6 too.
    r.op("QuantizedRelu").shape(like_first).compute(|ctx| clamp(ctx, None));
    r.op("QuantizedRelu6").shape(like_first).compute(|ctx| clamp(ctx, Some(6.0)));

    // `QuantizedBiasAdd(input: T1, bias: T2, min_input: float, max_input: float, min_bias: float, max_bias: float) ->
    // output: out_type, min_out: float, max_out: float`.
    r.op("QuantizedBiasAdd").shape(bias_shape).compute(bias_add);

    // `QuantizedAdd(x: T1, y: T2, min_x: float, max_x: float, min_y: float, max_y: float) -> z: Toutput, min_z:
    // float, max_z: float`, `QuantizedMul`: operands of the same shape, or one of them the other's last dimensions.
    r.op("QuantizedAdd")
        .shape(|ctx| {
            binary_shape(ctx)?;
            scalars(ctx, 2..6)
        })
        .compute(add);
    r.op("QuantizedMul").shape(binary_shape).compute(multiply);

    // `QuantizedReshape(tensor: T, shape: Tshape, input_min: float, input_max: float) -> output: T, output_min: float,
    // output_max: float`.
    r.op("QuantizedReshape").shape(reshape_shape).compute(reshape);

    // `QuantizedConcatV2(values: N * T, axis: Tidx, input_mins: N * float, input_maxes: N * float) -> output: T,
    // output_min: float, output_max: float`: requantized to a range that holds all. `QuantizedConcat` has the axis
    // first; the newer one is computed by another library alone.
    r.op("QuantizedConcat").shape(|ctx| concat_shape(ctx, 0, 1)).cpu(concat);
    r.op("QuantizedConcatV2")
        .shape(|ctx| {
            let axis = ctx.attrs.int("N")? as usize;
            concat_shape(ctx, axis, 0)
        })
        .cpu(crate::shape_only::without_outputs);

    // `QuantizedInstanceNorm(x: T, x_min: float, x_max: float) -> y: T, y_min: float, y_max: float`: each channel of each
    // image to mean 0 and variance 1.
    r.op("QuantizedInstanceNorm")
        .shape(|ctx| {
            let shape = shape_ops::with_rank(ctx.input(0), 4);
            scalars(ctx, [1, 2])?;
            shape?;
            like_first(ctx)
        })
        .cpu(instance_norm);

    // `QuantizedBatchNormWithGlobalNormalization(t, m, v, beta, gamma: Tinput, each with its range) -> result: out_type,
    // result_min: float, result_max: float`, attrs `variance_epsilon`, `scale_after_normalization`.
    r.op("QuantizedBatchNormWithGlobalNormalization").shape(batch_norm_shape).cpu(batch_norm);

    // `QuantizedResizeBilinear(images: T, size: int32, min: float, max: float) -> resized_images: T, out_min: float,
    // out_max: float`, attrs `align_corners`, `half_pixel_centers`.
    r.op("QuantizedResizeBilinear").shape(resize_shape).cpu(resize);
}

fn clamp(ctx: &mut OpContext<'_>, highest: Option<f32>) -> Result<()> {
    let input = ctx.input(0)?;
    let (range, levels) = (range(ctx, 1, "input")?, Levels::of(input.dtype())?);
    let least = levels.quantize(0.0, range);
    let most = highest.map_or(i32::MAX, |highest| levels.quantize(highest, range));
    let values = read(input)?.into_iter().map(|level| level.max(least).min(most));
    write(ctx, 0, input.shape().clone(), values)?;
    set_range(ctx, 1, range);
    Ok(())
}

/// A range with 0 in its middle, so many bits wider than both ranges.
fn sum_range(a: Range, b: Range, bits: u32) -> Range {
    let reach = a.max.max((-a.min).max(b.max.max(-b.min))) * (1u32 << bits) as f32;
    Range { min: -reach, max: reach }
}

fn bias_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank_at_least(ctx.input(0), 2)?;
    let bias = shape_ops::with_rank(ctx.input(1), 1)?;
    let mut shape = input.clone();
    if let Some(rank) = input.rank() {
        let depth = shape_ops::merge_dims(input.dim(rank - 1), bias.dim(0))?;
        shape = shape_ops::replace_dim(&input, -1, depth)?;
    }
    scalars(ctx, 2..6)?;
    ctx.set_output(0, shape);
    scalar_outputs(ctx, 1);
    Ok(())
}

fn bias_add(ctx: &mut OpContext<'_>) -> Result<()> {
    let (input, bias) = (ctx.input(0)?, ctx.input(1)?);
    let (a, b) = (range(ctx, 2, "input")?, range(ctx, 4, "bias")?);
    let shape = input.shape();
    require!(shape.rank() >= 2, "Input tensor must be at least 2D: {shape}");
    require!(bias.rank() == 1, "Biases must be 1D: {}", bias.shape());
    require!(
        bias.dim(0) == shape.dim(shape.rank() - 1),
        "Must provide as many biases as the last dimension of the input tensor: {} vs. {shape}",
        bias.shape()
    );
    require!(bias.count() > 0, "Must provide at least 1 bias");
    let total = sum_range(a, b, 17);
    let quantize = Levels::QINT32.quantizer(total);
    let zero = Levels::QINT32.quantize(0.0, total);
    let part = |tensor: &tfcore_tensor::Tensor, range| -> Result<Vec<i32>> {
        let dequantize = Levels::of(tensor.dtype())?.dequantizer(range);
        Ok(read(tensor)?.into_iter().map(|level| quantize(dequantize(level))).collect())
    };
    let (x, y) = (part(input, a)?, part(bias, b)?);
    let sums = x.iter().zip(y.iter().cycle());
    let sums = sums.map(|(&x, &y)| x.wrapping_add(y).wrapping_add(zero));
    write(ctx, 0, shape.clone(), sums)?;
    set_range(ctx, 1, total);
    Ok(())
}

fn binary_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = shape_ops::broadcast(ctx.input(0), ctx.input(1))?;
    ctx.set_output(0, shape);
    scalar_outputs(ctx, 1);
    Ok(())
}

/// The shape that the operands broadcast to, and for each element of the result those of the operands.
pub(crate) fn broadcast(x: &Shape, y: &Shape) -> Result<(Shape, Vec<[usize; 2]>)> {
    let rank = x.rank().max(y.rank());
    let at = |shape: &Shape, axis: usize| match (axis + shape.rank()).checked_sub(rank) {
        Some(axis) => shape.dim(axis),
        None => 1,
    };
    let mut dims = Vec::with_capacity(rank);
    for axis in 0..rank {
        let (a, b) = (at(x, axis), at(y, axis));
        require!(a == b || a == 1 || b == 1, "Incompatible shapes: {x} vs. {y}");
        dims.push(if a == 1 { b } else { a } as i64);
    }
    let shape = Shape::new(&dims)?;
    let mut places = Vec::with_capacity(shape.count());
    for index in 0..shape.count() {
        let mut place = [0; 2];
        let (mut rest, mut strides) = (index, [1; 2]);
        for axis in (0..rank).rev() {
            let coordinate = rest % dims[axis] as usize;
            rest /= dims[axis] as usize;
            for (operand, shape) in [x, y].into_iter().enumerate() {
                let size = at(shape, axis);
                place[operand] += if size == 1 { 0 } else { coordinate * strides[operand] };
                strides[operand] *= size;
            }
        }
        places.push(place);
    }
    Ok((shape, places))
}

/// The ranges of the operands, neither of which may be empty.
fn operand_ranges(ctx: &OpContext<'_>) -> Result<[Range; 2]> {
    let (x, y) = (range(ctx, 2, "x")?, range(ctx, 4, "y")?);
    require!(x.max > x.min, "max_x must be larger than min_x.");
    require!(y.max > y.min, "max_y must be larger than min_y.");
    Ok([x, y])
}

fn add(ctx: &mut OpContext<'_>) -> Result<()> {
    let [a, b] = operand_ranges(ctx)?;
    let (x, y) = (ctx.input(0)?, ctx.input(1)?);
    let total = sum_range(a, b, 14);
    // A level is a multiple of the step, in the levels of the sum, from the level of 0 on. The reference does so unless a vector
    // meets a larger tensor.
    let by_steps = |range: Range, levels: Levels| {
        let at = |level| Levels::QINT32.unclamped(levels.dequantize(level, range), total);
        let (first, step) = (at(0), at(1) - at(0));
        move |level: i32| {
            let value = i128::from(first) + i128::from(level) * i128::from(step as i32);
            value.clamp(i128::from(i32::MIN), i128::from(i32::MAX)) as i32
        }
    };
    let (shape, places) = broadcast(x.shape(), y.shape())?;
    let (levels_x, levels_y) = (Levels::of(x.dtype())?, Levels::of(y.dtype())?);
    let (to_x, to_y) = (by_steps(a, levels_x), by_steps(b, levels_y));
    // The scalar of a sum with a scalar goes the direct way.
    let direct = |level, levels: Levels, range| {
        Levels::QINT32.quantize(levels.dequantize(level, range), total)
    };
    let (xs, ys) = (read(x)?, read(y)?);
    let (scalar_x, scalar_y) = (xs.len() == 1, ys.len() == 1 && xs.len() != 1);
    let sums = places.iter().map(|&[i, j]| {
        let x = if scalar_x { direct(xs[i], levels_x, a) } else { to_x(xs[i]) };
        let y = if scalar_y { direct(ys[j], levels_y, b) } else { to_y(ys[j]) };
        x.wrapping_add(y)
    });
    write(ctx, 0, shape, sums)?;
    set_range(ctx, 1, total);
    Ok(())
}

fn multiply(ctx: &mut OpContext<'_>) -> Result<()> {
    let [a, b] = operand_ranges(ctx)?;
    let (x, y) = (ctx.input(0)?, ctx.input(1)?);
    let (levels_x, levels_y) = (Levels::of(x.dtype())?, Levels::of(y.dtype())?);
    let zeros = [levels_x.unclamped(0.0, a) as i32, levels_y.unclamped(0.0, b) as i32];
    let (shape, places) = broadcast(x.shape(), y.shape())?;
    let (xs, ys) = (read(x)?, read(y)?);
    let products = places
        .iter()
        .map(|&[i, j]| xs[i].wrapping_sub(zeros[0]).wrapping_mul(ys[j].wrapping_sub(zeros[1])));
    write(ctx, 0, shape, products)?;
    set_range(ctx, 1, levels_x.product_range(a, levels_y, b));
    Ok(())
}

fn reshape_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    scalars(ctx, [2, 3])?;
    let mut shape = ctx.operand_shape(1)?;
    // One dimension may be left to find.
    if let (Some(dims), Some(count)) = (shape.dims(), ctx.input(0).count()) {
        let open: Vec<usize> = (0..dims.len()).filter(|&axis| !dims[axis].is_known()).collect();
        let known: i64 = dims.iter().filter_map(|dim| dim.value()).product();
        if let ([axis], 1..) = (&open[..], known)
            && count % known == 0
            && ctx.operand(1).is_some()
        {
            shape = shape_ops::replace_dim(&shape, *axis as i64, Dim::new(count / known))?;
        }
    }
    ctx.set_output(0, shape);
    scalar_outputs(ctx, 1);
    Ok(())
}

fn reshape(ctx: &mut OpContext<'_>) -> Result<()> {
    let input = ctx.input(0)?;
    let sizes = ctx.input(1)?;
    require!(sizes.rank() == 1, "sizes input must be 1-D, not {}", sizes.shape());
    let mut sizes = sizes.to_i64s()?;
    let open: Vec<usize> = (0..sizes.len()).filter(|&axis| sizes[axis] == -1).collect();
    require!(
        open.len() <= 1,
        "Only one input size may be -1, not both {} and {}",
        open[0],
        open[open.len() - 1]
    );
    for (axis, &size) in sizes.iter().enumerate() {
        require!(size >= -1, "Size {axis} must be non-negative, not {size}");
    }
    if let [axis] = open[..] {
        sizes[axis] = 1;
        let known = Shape::new(&sizes)?.count();
        require!(
            known > 0,
            "reshape cannot infer the missing input size for an empty tensor unless all specified input sizes are non-zero"
        );
        sizes[axis] = (input.count() / known) as i64;
    }
    let shape = Shape::new(&sizes)?;
    require!(
        shape.count() == input.count(),
        "Input to reshape is a tensor with {} values, but the requested shape has {}",
        input.count(),
        shape.count()
    );
    let (min, max) = (scalar(ctx, 2, "input_min")?, scalar(ctx, 3, "input_max")?);
    ctx.set_output(0, input.clone().with_shape(shape)?);
    set_range(ctx, 1, Range { min, max });
    Ok(())
}

fn concat_shape(ctx: &mut InferenceContext<'_>, axis: usize, first: usize) -> Result<()> {
    let count = ctx.attrs.int("N")? as usize;
    scalars(ctx, count + 1..ctx.num_inputs())?;
    scalar_outputs(ctx, 1);
    shape_ops::with_rank(ctx.input(axis), 0)?;
    let values = &ctx.inputs()[first..first + count];
    let Some(rank) = values.iter().find_map(PartialShape::rank) else {
        ctx.set_output(0, PartialShape::unknown());
        return Ok(());
    };
    let Some(axis) = ctx.operand_i64(axis)? else {
        require!(rank != 0, "Can't concatenate scalars (use tf.stack instead)");
        for value in values {
            shape_ops::with_rank(value, rank)?;
        }
        ctx.set_output(0, PartialShape::of_rank(rank));
        return Ok(());
    };
    require!(rank != 0, "Can't concatenate scalars (use tf.stack instead)");
    let least = if axis < 0 { axis.unsigned_abs() } else { axis as u64 + 1 };
    shape_ops::with_rank_at_least(&PartialShape::of_rank(rank), least as usize)?;
    let axis = shape_ops::resolve_axis(axis, rank)? as i64;
    let mut total = Dim::new(0);
    let mut shape = PartialShape::of_rank(rank);
    for value in values {
        let value = shape_ops::with_rank(value, rank)?;
        total = shape_ops::add(total, value.dim(axis as usize))?;
        let others = shape_ops::replace_dim(&value, axis, Dim::UNKNOWN)?;
        shape = shape_ops::merge(&shape, &others)?;
    }
    ctx.set_output(0, shape_ops::replace_dim(&shape, axis, total)?);
    Ok(())
}

fn concat(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let count = init.attrs.int("N")? as usize;
    kernel(move |ctx: &mut OpContext<'_>| {
        let axis = ctx.input(0)?;
        require!(
            axis.rank() == 0,
            "Concat dim tensor should be a scalar integer, but got shape {}",
            axis.shape()
        );
        let axis = axis.to_i64s()?[0];
        let first = ctx.input(1)?.shape();
        let rank = first.rank() as i64;
        require!(
            axis >= -rank && axis < rank,
            "ConcatOp : Expected concatenating dimensions in the range [{}, {rank}), but got {axis}",
            -rank
        );
        let axis = (if axis < 0 { axis + rank } else { axis }) as usize;
        let levels = Levels::of(ctx.input(1)?.dtype())?;
        let (mut ranges, mut overall) =
            (Vec::with_capacity(count), Range { min: f32::MAX, max: f32::MIN });
        for index in 0..count {
            let range = Range {
                min: scalar(ctx, 1 + count + index, "input_min")?,
                max: scalar(ctx, 1 + 2 * count + index, "input_max")?,
            };
            overall.min = overall.min.min(range.min);
            overall.max = overall.max.max(range.max);
            ranges.push(range);
        }
        overall.min = overall.min.min(0.0);
        if levels.is_signed() {
            let reach = overall.min.abs().max(overall.max.abs());
            overall = Range { min: -reach, max: reach };
        }
        let mut sizes = first.dims().to_vec();
        sizes[axis] = 0;
        let mut parts = Vec::with_capacity(count);
        for (index, &range) in ranges.iter().enumerate() {
            let tensor = ctx.input(1 + index)?;
            let shape = tensor.shape();
            require!(
                shape.rank() as i64 == rank
                    && (0..shape.rank()).all(|at| at == axis || shape[at] == first[at]),
                "ConcatOp : Dimensions of inputs should match: shape[0] = {first} vs. shape[{index}] = {shape}"
            );
            sizes[axis] += shape[axis];
            let mut values = read(tensor)?;
            if range != overall {
                let (from, to) = (levels.dequantizer(range), levels.quantizer(overall));
                values.iter_mut().for_each(|level| *level = to(from(*level)));
            }
            parts.push((values, shape[axis..].iter().product::<i64>() as usize));
        }
        let shape = Shape::new(&sizes)?;
        let outer = first[..axis].iter().product::<i64>() as usize;
        let rows = (0..outer).flat_map(|row| {
            parts.iter().flat_map(move |(values, len)| values[row * len..][..*len].iter().copied())
        });
        write(ctx, 0, shape, rows)?;
        set_range(ctx, 1, overall);
        Ok(())
    })
}

fn instance_norm(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let epsilon = attrs.float("variance_epsilon")?;
    let separation = attrs.float("min_separation")?;
    let given = match attrs.bool("output_range_given")? {
        true => Some(Range { min: attrs.float("given_y_min")?, max: attrs.float("given_y_max")? }),
        false => None,
    };
    if let Some(Range { min, max }) = given {
        require!(min < max, "given_y_min must be less than given_y_max : {min} >= {max}");
    }
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        let min = scalar(ctx, 1, "x_min")?;
        let max = scalar(ctx, 2, "x_max")?;
        require!(min < max, "input_min must be less than input_max : {min} >= {max}");
        require!(input.rank() == 4, "input must be 4-dimensional, got {}", input.shape());
        let scale = (max - min) / 255.0;
        let values = read(input)?;
        let channels = input.dim(3);
        let image = input.dim(1) * input.dim(2) * channels;
        let count = (input.dim(1) * input.dim(2)) as f32;
        let mut normed = vec![0.0f32; values.len()];
        for start in (0..values.len()).step_by(image.max(1)) {
            for channel in 0..channels {
                let places = (start + channel..start + image).step_by(channels);
                let mean = places.clone().map(|at| values[at] as f32).sum::<f32>() / count;
                let distance = |at: usize| scale * (values[at] as f32 - mean);
                let squares = places.clone().map(|at| distance(at) * distance(at));
                let variance = squares.sum::<f32>() / count;
                let inverse = 1.0 / (variance + epsilon).sqrt();
                for at in places {
                    normed[at] = distance(at) * inverse;
                }
            }
        }
        let mut range = given.unwrap_or_else(|| Range {
            min: normed.iter().copied().fold(f32::INFINITY, f32::min),
            max: normed.iter().copied().fold(f32::NEG_INFINITY, f32::max),
        });
        if range.max - range.min < separation {
            range.max = range.min + separation;
        }
        let quantize = Levels::QUINT8.quantizer(range);
        write(ctx, 0, input.shape().clone(), normed.into_iter().map(quantize))?;
        set_range(ctx, 1, range);
        Ok(())
    })
}

fn batch_norm_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank(ctx.input(0), 4)?;
    let mut channels = input.dim(3);
    for index in [3, 6, 9, 12] {
        let vector = shape_ops::with_rank(ctx.input(index), 1)?;
        channels = shape_ops::merge_dims(channels, vector.dim(0))?;
    }
    ctx.set_output(0, shape_ops::replace_dim(&input, 3, channels)?);
    scalar_outputs(ctx, 1);
    Ok(())
}

fn batch_norm(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let epsilon = init.attrs.float("variance_epsilon")?;
    let scaled = init.attrs.bool("scale_after_normalization")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        require!(input.rank() == 4, "input must be 4-dimensional{}", input.shape());
        let names = ["mean", "var", "beta", "gamma"];
        let mut vectors = Vec::with_capacity(4);
        for (index, name) in names.into_iter().enumerate() {
            let tensor = ctx.input(3 * index + 3)?;
            let shape = tensor.shape();
            require!(shape.rank() == 1, "{name} must be 1-dimensional{shape}");
            require!(
                shape.dim(0) == input.dim(3),
                "{name} must have as many elements as the input has channels, got {shape}"
            );
            let (range, levels) = (range(ctx, 3 * index + 4, name)?, Levels::of(tensor.dtype())?);
            let values = read(tensor)?.into_iter().map(|level| levels.dequantize(level, range));
            vectors.push(values.collect::<Vec<f32>>());
        }
        // A range for fixed point numbers, with 10 bits behind the point.
        let output = Range { min: -(1 << 20) as f32, max: (1 << 20) as f32 };
        let fixed = |x: f32| Levels::QINT32.quantize(x, output);
        let factors: Vec<[i32; 2]> = (0..input.dim(3))
            .map(|i| {
                let [mean, variance, beta, gamma] = [0, 1, 2, 3].map(|v: usize| vectors[v][i]);
                let inverse = 1.0 / (variance + epsilon).sqrt();
                let factor = if scaled { inverse * gamma } else { inverse };
                [fixed(factor), fixed(-mean * factor + beta)]
            })
            .collect();
        let one = fixed(1.0).max(1);
        let (from, levels) = (range(ctx, 1, "input")?, Levels::of(input.dtype())?);
        let values = read(input)?.into_iter().zip(factors.iter().cycle());
        let values = values.map(|(level, [factor, offset])| {
            let x = fixed(levels.dequantize(level, from));
            (x.wrapping_mul(*factor) / one).wrapping_add(*offset)
        });
        write(ctx, 0, input.shape().clone(), values)?;
        set_range(ctx, 1, output);
        Ok(())
    })
}

fn resize_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let images = shape_ops::with_rank(ctx.input(0), 4)?;
    let size = shape_ops::with_rank(ctx.input(1), 1)?;
    shape_ops::with_value(size.dim(0), 2)?;
    let [rows, cols] = match ctx.operand_i64s(1)?.as_deref() {
        Some(&[rows, cols]) => [Dim::new(rows), Dim::new(cols)],
        _ => [Dim::fresh(), Dim::fresh()],
    };
    scalars(ctx, [2, 3])?;
    ctx.set_output(0, [images.dim(0), rows, cols, images.dim(3)].into_iter().collect());
    scalar_outputs(ctx, 1);
    Ok(())
}

fn resize(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let align = init.attrs.bool("align_corners")?;
    let centers = init.attrs.bool("half_pixel_centers")?;
    if align && centers {
        return Err(invalid!("If half_pixel_centers is True, align_corners must be False."));
    }
    kernel(move |ctx: &mut OpContext<'_>| {
        let (images, size) = (ctx.input(0)?, ctx.input(1)?);
        require!(images.rank() == 4, "input must be 4-dimensional{}", images.shape());
        require!(size.rank() == 1, "shape_t must be 1-dimensional{}", size.shape());
        let size = size.to_i64s()?;
        let &[rows, cols] = size.as_slice() else {
            return Err(invalid!("shape_t must have two elements, got {}", size.len()));
        };
        require!(rows > 0 && cols > 0, "output dimensions must be positive");
        let [batch, in_h, in_w, channels] = [0, 1, 2, 3].map(|axis| images.dim(axis));
        require!(channels > 0, "image must have at least one channel");
        require!(in_h > 0 && in_w > 0, "input image must be of non-zero size");
        let min = scalar(ctx, 2, "min")?;
        let range = Range { min, max: scalar(ctx, 3, "max")? };
        let shape = Shape::new(&[batch as i64, rows, cols, channels as i64])?;
        // The two neighbours of each output, and the weight of the second.
        let neighbours = |input: usize, output: i64| -> Vec<(usize, usize, f32)> {
            let scale = match align && output > 1 {
                true => (input - 1) as f32 / (output - 1) as f32,
                false => input as f32 / output as f32,
            };
            (0..output)
                .map(|index| {
                    let at = match centers {
                        true => (index as f32 + 0.5) * scale - 0.5,
                        false => index as f32 * scale,
                    };
                    let lower = at.floor();
                    let upper = at.ceil().min((input - 1) as f32).max(0.0);
                    (lower.max(0.0) as usize, upper as usize, at - lower)
                })
                .collect()
        };
        let (down, across) = (neighbours(in_h, rows), neighbours(in_w, cols));
        // Elements of the result, of its four neighbours and the weights of the right and the lower ones.
        let each = |f: &mut dyn FnMut([usize; 4], f32, f32)| {
            for image in 0..batch {
                for &(top, bottom, y) in &down {
                    for &(left, right, x) in &across {
                        for channel in 0..channels {
                            let at = |row: usize, col: usize| {
                                ((image * in_h + row) * in_w + col) * channels + channel
                            };
                            let places = [
                                at(top, left),
                                at(top, right),
                                at(bottom, left),
                                at(bottom, right),
                            ];
                            f(places, x, y);
                        }
                    }
                }
            }
        };
        if images.dtype() == DType::FLOAT {
            let values = images.as_slice::<f32>()?;
            let mut out = Vec::with_capacity(shape.count());
            each(&mut |places, x, y| {
                let [a, b, c, d] = places.map(|at| values[at]);
                let (above, below) = (a + (b - a) * x, c + (d - c) * x);
                out.push(above + (below - above) * y);
            });
            ctx.set_output(0, tfcore_tensor::Tensor::from_slice(shape, &out)?);
        } else {
            // Fixed point, with as many bits behind the point as the reference has.
            let bits = if images.dtype() == DType::QUINT8 { 7 } else { 30 };
            let one = 1i64 << bits;
            let values = read(images)?;
            let mut out = Vec::with_capacity(shape.count());
            each(&mut |places, x, y| {
                let [a, b, c, d] = places.map(|at| i64::from(values[at]));
                let [x, y] = [x, y].map(|weight| (weight * one as f32) as i64);
                let (above, below) = (a * one + (b - a) * x, c * one + (d - c) * x);
                let sum = above + (below - above) / one * y;
                out.push(((sum + one / 2) / one) as i32);
            });
            write(ctx, 0, shape, out.into_iter())?;
        }
        set_range(ctx, 1, range);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::{QInt32, QUInt8};
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op, tensor};

    use super::*;

    fn one(x: f32) -> tfcore_tensor::Tensor {
        floats(&[], &[x])
    }

    #[test]
    fn activations_and_joins() {
        let registry = registry_of(register);
        let attrs = [
            ("Tinput", AttrValue::Type(DType::QUINT8)),
            ("out_type", AttrValue::Type(DType::QUINT8)),
        ];
        // Level 100 is 0.
        let x = tensor(&[3], &[QUInt8(90), QUInt8(103), QUInt8(110)]);
        let inputs = [x, one(-100.0), one(155.0)];
        let run = |op| {
            let out = run_op(&registry, op, &attrs, &inputs).unwrap();
            out[0].as_slice::<QUInt8>().unwrap().to_vec()
        };
        assert_eq!(run("QuantizedRelu"), [QUInt8(100), QUInt8(103), QUInt8(110)]);
        assert_eq!(run("QuantizedRelu6"), [QUInt8(100), QUInt8(103), QUInt8(106)]);
        let attrs = [("T", AttrValue::Type(DType::QUINT8)), ("N", AttrValue::Int(2))];
        let x = [tensor(&[1, 1], &[QUInt8(10)]), tensor(&[1, 2], &[QUInt8(10), QUInt8(20)])];
        let axis = tensor::<i32>(&[], &[1]);
        let [a, b] = x;
        // Half the range: half the levels.
        let inputs = [axis, a, b, one(0.0), one(0.0), one(255.0), one(127.5)];
        let out = run_op(&registry, "QuantizedConcat", &attrs, &inputs).unwrap();
        assert_eq!(out[0].as_slice::<QUInt8>().unwrap(), [QUInt8(10), QUInt8(5), QUInt8(10)]);
    }

    #[test]
    fn products() {
        let registry = registry_of(register);
        let attrs =
            [("T1", AttrValue::Type(DType::QUINT8)), ("T2", AttrValue::Type(DType::QUINT8))];
        let x = tensor(&[2, 2], &[QUInt8(1), QUInt8(2), QUInt8(3), QUInt8(4)]);
        let y = tensor(&[2], &[QUInt8(10), QUInt8(20)]);
        let inputs = [x, y, one(-1.0), one(254.0), one(0.0), one(255.0)];
        let out = run_op(&registry, "QuantizedMul", &attrs, &inputs).unwrap();
        let expected = [QInt32(0), QInt32(20), QInt32(20), QInt32(60)];
        assert_eq!(out[0].as_slice::<QInt32>().unwrap(), expected);
    }
}
