//! `QuantizedConv2D` and `QuantizedMatMul`: products of levels, with those of 0 taken off, summed in 32 bits.

use tfcore_base::{DType, QInt32, Result, invalid, require, unimplemented_error};
use tfcore_framework::geometry::{ImageFormat, ImageWindow};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::conv::{Conv2dGeometry, conv2d};
use tfcore_math::gemm::{MatMut, MatRef, matmul};
use tfcore_tensor::{Shape, Tensor};

use crate::levels::{Levels, range, read, set_range};
use crate::shape_only::without_outputs;
use crate::shapes::{scalar_outputs, scalars};

pub(crate) fn register(r: &mut Registry) {
    // `QuantizedConv2D(input: Tinput, filter: Tfilter, min_input: float, max_input: float, min_filter: float, max_filter:
    // float) -> output: out_type, min_output: float, max_output: float`, attrs as `Conv2D`. A filter of `qint8` is for
    // another library.
    r.op("QuantizedConv2D")
        .shape(|ctx| {
            conv2d_shape(ctx)?;
            scalars(ctx, 2..6)?;
            scalar_outputs(ctx, 1);
            Ok(())
        })
        .cpu(|init| match init.attrs.dtype("Tfilter")? {
            DType::QUINT8 => quantized_conv2d(init),
            _ => without_outputs(init),
        });

    // `QuantizedMatMul(a: T1, b: T2, min_a: float, max_a: float, min_b: float, max_b: float) -> out: Toutput, min_out:
    // float, max_out: float`, attrs `transpose_a`, `transpose_b`.
    r.op("QuantizedMatMul")
        .shape(|ctx| {
            matmul_shape(ctx)?;
            scalars(ctx, 2..6)?;
            scalar_outputs(ctx, 1);
            Ok(())
        })
        .cpu(quantized_matmul);
}

/// The shape of a convolution of inputs 0 and 1, channels last.
pub(crate) fn conv2d_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank(ctx.input(0), 4)?;
    let filter = shape_ops::with_rank(ctx.input(1), 4)?;
    let field = |name: &str| -> Result<std::result::Result<[i64; 4], usize>> {
        let values = ctx.attrs.ints(name)?;
        Ok(<[i64; 4]>::try_from(values).map_err(|_| values.len()))
    };
    let dilations = field("dilations")?.map_err(|len| {
        invalid!("Conv2D requires the dilation attribute to contain 4 values, but got: {len}")
    })?;
    let strides = field("strides")?.map_err(|len| {
        invalid!(
            "Conv2D on data format NHWC requires the stride attribute to contain 4 values, but got: {len}"
        )
    })?;
    check_depths(&input, &filter)?;
    let window = ImageWindow::new(ctx.attrs, ImageFormat::Nhwc, strides, dilations)?;
    let rows = window.rows.output_dim(input.dim(1), filter.dim(0))?;
    let cols = window.cols.output_dim(input.dim(2), filter.dim(1))?;
    ctx.set_output(0, [input.dim(0), rows, cols, filter.dim(3)].into_iter().collect());
    Ok(())
}

fn check_depths(
    input: &tfcore_tensor::PartialShape,
    filter: &tfcore_tensor::PartialShape,
) -> Result<()> {
    let (Some(depth), Some(filter_depth)) = (input.dim(3).value(), filter.dim(2).value()) else {
        return Ok(());
    };
    require!(filter_depth != 0, "Depth of filter must not be 0");
    require!(
        depth % filter_depth == 0,
        "Depth of input ({depth}) is not a multiple of input depth of filter ({filter_depth})"
    );
    let groups = depth / filter_depth;
    require!(groups != 0, "Number of groups must not be 0");
    if let Some(output) = filter.dim(3).value() {
        require!(
            output % groups == 0,
            "Depth of output ({output}) is not a multiple of the number of groups ({groups})"
        );
    }
    Ok(())
}

/// The shape of a product of inputs 0 and 1, attrs `transpose_a` and `transpose_b`.
pub(crate) fn matmul_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let a = shape_ops::with_rank(ctx.input(0), 2)?;
    let b = shape_ops::with_rank(ctx.input(1), 2)?;
    let [ta, tb] =
        [ctx.attrs.bool("transpose_a")?, ctx.attrs.bool("transpose_b")?].map(usize::from);
    let (rows, cols) = (a.dim(ta), b.dim(1 - tb));
    shape_ops::merge_dims(a.dim(1 - ta), b.dim(tb))?;
    ctx.set_output(0, [rows, cols].into_iter().collect());
    Ok(())
}

/// The levels of input `index` without the level of 0, which input `range` and the next one make.
fn centered(ctx: &OpContext<'_>, index: usize, first: usize, name: &str) -> Result<Vec<i32>> {
    let tensor = ctx.input(index)?;
    let zero = Levels::of(tensor.dtype())?.unclamped(0.0, range(ctx, first, name)?) as i32;
    Ok(read(tensor)?.into_iter().map(|level| level.wrapping_sub(zero)).collect())
}

/// Sets output 0 to these levels of 32 bits.
fn set_levels(ctx: &OpContext<'_>, shape: Shape, levels: &[i32]) -> Result<()> {
    let levels: Vec<QInt32> = levels.iter().copied().map(QInt32).collect();
    ctx.set_output(0, Tensor::from_slice(shape, &levels)?);
    Ok(())
}

fn quantized_conv2d(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let strides = attrs.ints("strides")?;
    let &[batch, rows, cols, channels] = strides else {
        return Err(invalid!("Sliding window strides field must specify 4 dimensions"));
    };
    if rows != cols {
        return Err(invalid!(
            "Current implementation only supports equal length strides in the row and column dimensions."
        ));
    }
    if (batch, channels) != (1, 1) {
        return Err(invalid!(
            "Current implementation does not yet support strides in the batch and depth dimensions."
        ));
    }
    let dilations = attrs.ints("dilations")?;
    let &[_, height, width, _] = dilations else {
        return Err(invalid!("Dilation rates field must specify 4 dimensions"));
    };
    if dilations != [1, 1, 1, 1] {
        return Err(unimplemented_error!(
            "Current implementation only supports dilated rate as 1 in the row and column dimensions, got \
             {height} and {width}."
        ));
    }
    let window = ImageWindow::new(attrs, ImageFormat::Nhwc, [batch, rows, cols, channels], [1; 4])?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (input, filter) = (ctx.input(0)?, ctx.input(1)?);
        for (tensor, name) in [(input, "input"), (filter, "filter")] {
            let shape = tensor.shape();
            require!(shape.rank() == 4, "{name} must be rank 4 but is rank {}", shape.rank());
        }
        let in_c = input.dim(3);
        require!(
            in_c == filter.dim(2),
            "input and filter must have the same depth: {in_c} vs {}",
            filter.dim(2)
        );
        let along_rows = window.rows.places(input.dim(1), filter.dim(0))?;
        let along_cols = window.cols.places(input.dim(2), filter.dim(1))?;
        let (a, b) = (range(ctx, 2, "input")?, range(ctx, 4, "filter")?);
        let x = centered(ctx, 0, 2, "input")?;
        let w = centered(ctx, 1, 4, "filter")?;
        let g = Conv2dGeometry {
            batch: input.dim(0),
            in_h: input.dim(1),
            in_w: input.dim(2),
            in_c,
            filter_h: filter.dim(0),
            filter_w: filter.dim(1),
            out_c: filter.dim(3),
            out_h: along_rows.count,
            out_w: along_cols.count,
            stride_h: window.rows.stride as usize,
            stride_w: window.cols.stride as usize,
            dilation_h: 1,
            dilation_w: 1,
            pad_top: along_rows.before,
            pad_left: along_cols.before,
            groups: 1,
        };
        let shape = Shape::new(&ImageFormat::Nhwc.sizes(g.batch, g.out_h, g.out_w, g.out_c))?;
        let mut out = vec![0; shape.count()];
        if !x.is_empty() && !w.is_empty() && !out.is_empty() {
            conv2d(ctx.parallel(), &g, &x, &w, &mut out);
        }
        set_levels(ctx, shape, &out)?;
        let levels = (Levels::of(input.dtype())?, Levels::of(filter.dtype())?);
        set_range(ctx, 1, levels.0.product_range(a, levels.1, b));
        Ok(())
    })
}

fn quantized_matmul(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let transposed = [init.attrs.bool("transpose_a")?, init.attrs.bool("transpose_b")?];
    kernel(move |ctx: &mut OpContext<'_>| {
        let (a, b) = (ctx.input(0)?, ctx.input(1)?);
        let (range_a, range_b) = (range(ctx, 2, "a")?, range(ctx, 4, "b")?);
        require!(range_a.max > range_a.min, "max_a must be larger than min_a.");
        require!(range_b.max > range_b.min, "max_b must be larger than min_b.");
        require!(a.rank() == 2, "In[0] is not a matrix. Instead it has shape {}", a.shape());
        require!(b.rank() == 2, "In[1] is not a matrix. Instead it has shape {}", b.shape());
        let [ta, tb] = transposed.map(usize::from);
        let (m, k, n) = (a.dim(ta), a.dim(1 - ta), b.dim(1 - tb));
        require!(
            k == b.dim(tb),
            "Matrix size-incompatible: In[0]: {}, In[1]: {}",
            a.shape(),
            b.shape()
        );
        let (x, y) = (centered(ctx, 0, 2, "a")?, centered(ctx, 1, 4, "b")?);
        let view = |data, cols: usize, transposed: bool| {
            let view = MatRef::new(data, cols, 1);
            if transposed { view.transposed() } else { view }
        };
        let mut out = vec![0; Shape::new(&[m as i64, n as i64])?.count()];
        if k > 0 && !out.is_empty() {
            let (x, y) = (view(&x, a.dim(1), transposed[0]), view(&y, b.dim(1), transposed[1]));
            matmul(ctx.parallel(), m, n, k, x, y, MatMut::new(&mut out, n, 1), false);
        }
        set_levels(ctx, Shape::new(&[m as i64, n as i64])?, &out)?;
        let levels = (Levels::of(a.dtype())?, Levels::of(b.dtype())?);
        set_range(ctx, 1, levels.0.product_range(range_a, levels.1, range_b));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::QUInt8;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op, tensor};

    use super::*;

    #[test]
    fn products_without_the_level_of_zero() {
        let registry = registry_of(register);
        let one = |x: f32| floats(&[], &[x]);
        // Zero is level 5 of the first, level 0 of the second.
        let ranges = [one(-5.0), one(250.0), one(0.0), one(255.0)];
        let x = [QUInt8(6), QUInt8(5), QUInt8(4)];
        let y = [QUInt8(2), QUInt8(3), QUInt8(10)];
        let mut inputs = vec![tensor(&[1, 3], &x), tensor(&[3, 1], &y)];
        inputs.extend_from_slice(&ranges);
        let attrs =
            [("T1", AttrValue::Type(DType::QUINT8)), ("T2", AttrValue::Type(DType::QUINT8))];
        let out = run_op(&registry, "QuantizedMatMul", &attrs, &inputs).unwrap();
        assert_eq!(out[0].as_slice::<QInt32>().unwrap(), [QInt32(-8)]);
        let mut inputs = vec![tensor(&[1, 1, 3, 1], &x), tensor(&[1, 2, 1, 1], &y[..2])];
        inputs.extend_from_slice(&ranges);
        let attrs = [
            ("Tinput", AttrValue::Type(DType::QUINT8)),
            ("Tfilter", AttrValue::Type(DType::QUINT8)),
            ("strides", AttrValue::ints([1; 4])),
            ("padding", AttrValue::string("SAME")),
        ];
        let out = run_op(&registry, "QuantizedConv2D", &attrs, &inputs).unwrap();
        let expected = [QInt32(2), QInt32(-3), QInt32(-2)];
        assert_eq!(out[0].as_slice::<QInt32>().unwrap(), expected);
    }
}
