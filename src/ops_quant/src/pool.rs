//! Pooling of quantized images and volumes. Ranges stay as they are.

use tfcore_base::{Result, invalid, require, unimplemented_error};
use tfcore_framework::geometry::{AxisPadding, ImageFormat, WindowAxis};
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::Shape;

use crate::levels::{Levels, range, read, set_range, write};
use crate::shapes::{scalar_outputs, scalars};

pub(crate) fn register(r: &mut Registry) {
    // `QuantizedAvgPool(input: T, min_input: float, max_input: float) -> output: T, min_output: float, max_output:
    // float`, attrs `ksize`, `strides`, `padding`: the mean of each window, without its fraction. `QuantizedMaxPool`:
    // the largest element.
    r.op("QuantizedAvgPool").shape(|ctx| images_shape(ctx, "AvgPool")).cpu(|init| pool(init, true));
    r.op("QuantizedMaxPool")
        .shape(|ctx| images_shape(ctx, "MaxPool"))
        .cpu(|init| pool(init, false));

    // `_QuantizedMaxPool3D`, over volumes.
    r.op("_QuantizedMaxPool3D").shape(volumes_shape).cpu(|init| pool(init, false));
}

fn padding(attrs: &Attrs) -> Result<AxisPadding> {
    Ok(if attrs.str("padding")? == "SAME" { AxisPadding::Same } else { AxisPadding::Valid })
}

fn pooled(
    ctx: &mut InferenceContext<'_>,
    rank: usize,
    error: impl Fn(&str, usize) -> String,
    axes: std::ops::Range<usize>,
) -> Result<()> {
    let mut shape = shape_ops::with_rank(ctx.input(0), rank)?;
    let field = |name: &str, shown: &str| {
        let values = ctx.attrs.ints(name)?;
        match values.len() == rank {
            true => Ok(values.to_vec()),
            false => Err(invalid!("{}", error(shown, values.len()))),
        }
    };
    let (strides, ksize) = (field("strides", "stride")?, field("ksize", "ksize")?);
    let padding = padding(ctx.attrs)?;
    for axis in axes {
        let along = WindowAxis { stride: strides[axis], dilation: 1, padding };
        let dim = along.output_dim(shape.dim(axis), ksize[axis])?;
        shape = shape_ops::replace_dim(&shape, axis as i64, dim)?;
    }
    ctx.set_output(0, shape);
    Ok(())
}

fn images_shape(ctx: &mut InferenceContext<'_>, op: &str) -> Result<()> {
    let error = |name: &str, len: usize| {
        format!("{op} requires the {name} attribute to contain 4 values, but got: {len}")
    };
    pooled(ctx, 4, error, if op == "MaxPool" { 1..4 } else { 1..3 })?;
    scalars(ctx, [1, 2])?;
    scalar_outputs(ctx, 1);
    Ok(())
}

fn volumes_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let first = if ctx.attrs.str("data_format")? == "NCDHW" { 2 } else { 1 };
    let error = |name: &str, len: usize| {
        format!("Pool3D ops require the {name} attribute to contain 5 values, but got: {len}")
    };
    pooled(ctx, 5, error, first..first + 3)
}

fn pool(init: &KernelInit<'_>, mean: bool) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let rank = if init.op.name.ends_with("3D") { 5 } else { 4 };
    let field = |name: &str, shown: &str| {
        let values = attrs.ints(name)?.to_vec();
        require!(
            values.len() == rank,
            "Sliding window {shown} field must specify {rank} dimensions"
        );
        Ok(values)
    };
    let (ksize, strides) = (field("ksize", "ksize")?, field("strides", "strides")?);
    require!(
        ksize.iter().chain(&strides).all(|&size| (1..1 << 31).contains(&size)),
        "Sliding window ksize and strides must be positive 32-bit integers"
    );
    if ksize[0] != 1 || strides[0] != 1 {
        return Err(unimplemented_error!("Pooling is not yet supported on the batch dimension."));
    }
    if ksize[rank - 1] != 1 || strides[rank - 1] != 1 {
        return Err(unimplemented_error!(
            "Non-spatial pooling is not yet supported. Volunteers? :)"
        ));
    }
    if attrs.contains("data_format") && attrs.str("data_format")? == "NCDHW" {
        return Err(invalid!("Default {} only supports NDHWC on device type CPU", init.op.name));
    }
    let padding = padding(attrs)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        require!(input.rank() == rank, "tensor_in must be {rank}-dimensional");
        let range = range(ctx, 1, "input")?;
        // Images are volumes of one plane.
        let spread = |of: &dyn Fn(usize) -> usize, missing: usize| match rank {
            5 => [of(1), of(2), of(3)],
            _ => [missing, of(1), of(2)],
        };
        let size = spread(&|axis| input.dim(axis), 1);
        let window = spread(&|axis| ksize[axis] as usize, 1);
        let stride = spread(&|axis| strides[axis] as usize, 1);
        let (mut count, mut before) = ([0; 3], [0; 3]);
        for axis in 0..3 {
            let along = WindowAxis { stride: stride[axis] as i64, dilation: 1, padding };
            let places = along.places(size[axis], window[axis])?;
            (count[axis], before[axis]) = (places.count, places.before);
        }
        let (batch, channels) = (input.dim(0), input.dim(rank - 1));
        let shape = match rank {
            5 => Shape::new(&[batch, count[0], count[1], count[2], channels].map(|n| n as i64))?,
            _ => Shape::new(&ImageFormat::Nhwc.sizes(batch, count[1], count[2], channels))?,
        };
        let levels = Levels::of(input.dtype())?;
        let values = read(input)?;
        let mut out = Vec::with_capacity(shape.count());
        let reach = |axis: usize, place: usize| {
            let start = place * stride[axis];
            let end = (start + window[axis]).saturating_sub(before[axis]).min(size[axis]);
            start.saturating_sub(before[axis]).min(end)..end
        };
        let windows = count.iter().product::<usize>();
        for index in 0..if channels == 0 { 0 } else { batch * windows } {
            let (image, place) = (index / windows, index % windows);
            let places =
                [place / (count[1] * count[2]), place / count[2] % count[1], place % count[2]];
            let [planes, rows, cols] = [0, 1, 2].map(|axis| reach(axis, places[axis]));
            let least = if mean { 0 } else { levels.lowest };
            let mut results = vec![least; channels];
            for plane in planes.clone() {
                for row in rows.clone() {
                    for col in cols.clone() {
                        let pixel = ((image * size[0] + plane) * size[1] + row) * size[2] + col;
                        let pixel = &values[pixel * channels..][..channels];
                        for (result, &level) in results.iter_mut().zip(pixel) {
                            let level = i64::from(level);
                            *result = if mean { *result + level } else { level.max(*result) };
                        }
                    }
                }
            }
            let elements = (planes.len() * rows.len() * cols.len()) as i64;
            let divide = |sum: i64| if mean { sum / elements.max(1) } else { sum };
            out.extend(results.into_iter().map(|sum| divide(sum) as i32));
        }
        write(ctx, 0, shape, out.into_iter())?;
        set_range(ctx, 1, range);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::{DType, QInt8};
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op, tensor};

    use super::*;

    #[test]
    fn windows() {
        let attrs = [
            ("T", AttrValue::Type(DType::QINT8)),
            ("ksize", AttrValue::ints([1, 1, 2, 1])),
            ("strides", AttrValue::ints([1, 1, 2, 1])),
            ("padding", AttrValue::string("SAME")),
        ];
        let x = tensor(&[1, 1, 3, 1], &[QInt8(-2), QInt8(-3), QInt8(7)]);
        let inputs = [x, floats(&[], &[-1.0]), floats(&[], &[1.0])];
        let run = |op| {
            let out = run_op(&registry_of(register), op, &attrs, &inputs).unwrap();
            out[0].as_slice::<QInt8>().unwrap().to_vec()
        };
        assert_eq!(run("QuantizedMaxPool"), [QInt8(-2), QInt8(7)]);
        // -2.5 without its fraction.
        assert_eq!(run("QuantizedAvgPool"), [QInt8(-2), QInt8(7)]);
    }
}
