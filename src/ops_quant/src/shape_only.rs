//! Ops that the reference's CPU computes with another library alone, which may be switched off, as it is here: they have static shapes
//! and a kernel that sets no output.

use tfcore_base::{Result, internal, invalid};
use tfcore_framework::geometry::{ImageFormat, ImageWindow};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};

use crate::product::{conv2d_shape, matmul_shape};
use crate::shapes::{scalar_outputs, scalars};

pub(crate) fn register(r: &mut Registry) {
    // `QuantizedConv2D...(input, filter, [bias], min_input, max_input, min_filter, max_filter, [min_freezed_output,
    // max_freezed_output], [summand, ...]) -> output, min_output, max_output`.
    r.ops(["QuantizedConv2DAndRelu", "QuantizedConv2DPerChannel"], |op| {
        op.shape(|ctx| conv_shape(ctx, false, true)).cpu(without_outputs);
    });
    r.op("QuantizedConv2DAndRequantize")
        .shape(|ctx| {
            scalars(ctx, [4, 5])?;
            conv_shape(ctx, false, false)
        })
        .cpu(without_outputs);
    r.op("QuantizedConv2DAndReluAndRequantize")
        .shape(|ctx| conv_shape(ctx, false, false))
        .cpu(without_outputs);
    r.ops(
        [
            "QuantizedConv2DWithBias",
            "QuantizedConv2DWithBiasAndRelu",
            "QuantizedConv2DWithBiasSumAndRelu",
        ],
        |op| {
            op.shape(|ctx| conv_shape(ctx, true, true)).cpu(without_outputs);
        },
    );
    r.ops(
        [
            "QuantizedConv2DWithBiasAndRequantize",
            "QuantizedConv2DWithBiasAndReluAndRequantize",
            "QuantizedConv2DWithBiasSumAndReluAndRequantize",
            "QuantizedConv2DWithBiasSignedSumAndReluAndRequantize",
        ],
        |op| {
            op.shape(|ctx| conv_shape(ctx, true, false)).cpu(without_outputs);
        },
    );
    r.ops(
        [
            "QuantizedDepthwiseConv2D",
            "QuantizedDepthwiseConv2DWithBias",
            "QuantizedDepthwiseConv2DWithBiasAndRelu",
            "QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize",
        ],
        |op| {
            op.shape(depthwise_shape).cpu(without_outputs);
        },
    );
    r.ops(
        [
            "QuantizedMatMulWithBias",
            "QuantizedMatMulWithBiasAndRelu",
            "QuantizedMatMulWithBiasAndReluAndRequantize",
            "QuantizedMatMulWithBiasAndRequantize",
            "QuantizedMatMulWithBiasAndDequantize",
        ],
        |op| {
            op.shape(biased_matmul_shape).cpu(without_outputs);
        },
    );
}

/// A kernel that sets no output, which the executor of the reference finds.
pub(crate) fn without_outputs(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let name = init.name.to_string();
    kernel(move |_: &mut OpContext<'_>| {
        Err(internal!("Missing 0-th output from {{{{node {name}}}}}"))
    })
}

/// A convolution with a bias perhaps. Where the filter's range may have an entry for each channel, so has the output's; where it is
/// given, it is a scalar.
fn conv_shape(ctx: &mut InferenceContext<'_>, biased: bool, by_channel: bool) -> Result<()> {
    conv2d_shape(ctx)?;
    let first = if biased {
        shape_ops::with_rank(ctx.input(2), 1)?;
        3
    } else {
        2
    };
    scalars(ctx, [first, first + 1])?;
    if !by_channel {
        scalars(ctx, [first + 4, first + 5])?;
        scalar_outputs(ctx, 1);
        return Ok(());
    }
    shape_ops::with_rank_at_most(ctx.input(first + 2), 1)?;
    let ranges = shape_ops::with_rank_at_most(ctx.input(first + 3), 1)?;
    (1..3).for_each(|index| ctx.set_output(index, ranges.clone()));
    Ok(())
}

fn biased_matmul_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    matmul_shape(ctx)?;
    shape_ops::with_rank(ctx.input(2), 1)?;
    scalars(ctx, 3..ctx.num_inputs())?;
    scalar_outputs(ctx, 1);
    Ok(())
}

/// Nothing is known of the ranges.
pub(crate) fn depthwise_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank(ctx.input(0), 4)?;
    let filter = shape_ops::with_rank(ctx.input(1), 4)?;
    let field = |name: &str, shown: &str| {
        let values = ctx.attrs.ints(name)?;
        <[i64; 4]>::try_from(values).map_err(|_| {
            let len = values.len();
            invalid!(
                "DepthwiseConv2D requires the {shown} attribute to contain 4 values, but got: {len}"
            )
        })
    };
    let (strides, dilations) = (field("strides", "stride")?, field("dilations", "dilations")?);
    let channels = shape_ops::merge_dims(input.dim(3), filter.dim(2))?;
    let channels = shape_ops::multiply(channels, filter.dim(3))?;
    let window = ImageWindow::new(ctx.attrs, ImageFormat::Nhwc, strides, dilations)?;
    let rows = window.rows.output_dim(input.dim(1), filter.dim(0))?;
    let cols = window.cols.output_dim(input.dim(2), filter.dim(1))?;
    ctx.set_output(0, [input.dim(0), rows, cols, channels].into_iter().collect());
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, registry_of};

    use super::*;

    #[test]
    fn ranges_by_channel() {
        let attrs = [
            ("Tinput", AttrValue::Type(DType::QUINT8)),
            ("Tfilter", AttrValue::Type(DType::QINT8)),
            ("strides", AttrValue::ints([1; 4])),
            ("padding", AttrValue::string("SAME")),
        ];
        let shape = |op, inputs: &str| infer(&registry_of(register), op, &attrs, inputs, &[]);
        let inputs = "[1,5,5,2];[2,2,2,4];[4];[];[];[4];[4]";
        assert_eq!(shape("QuantizedConv2DWithBias", inputs).unwrap(), "[1,5,5,4];[4];[4]");
        let inputs = "[1,5,5,2];[2,2,2,4];[];[];[4];[4];[];[]";
        let op = "QuantizedConv2DAndReluAndRequantize";
        assert_eq!(shape(op, inputs).unwrap(), "[1,5,5,4];[];[]");
        assert!(shape("QuantizedConv2DAndRequantize", inputs).is_err());
        let inputs = "[1,5,5,2];[2,2,2,2];[4];[];[];[];[]";
        let op = "QuantizedDepthwiseConv2DWithBias";
        assert_eq!(shape(op, inputs).unwrap(), "[1,5,5,4];?;?");
    }
}
