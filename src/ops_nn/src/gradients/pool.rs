//! Gradients of pooling.

use tfcore_base::{DType, Result};
use tfcore_framework::{AttrValue, GradientContext, Gradients, Output, Registry};

pub(crate) fn register(r: &mut Registry) {
    // The reference leaves out the explicit paddings, without which its gradient cannot run.
    r.op("MaxPool").gradient(|c| {
        let attrs = ["ksize", "strides", "padding", "explicit_paddings", "data_format"];
        max_pool(c, "MaxPoolGrad", &attrs)
    });
    r.op("MaxPool3D").gradient(|c| {
        max_pool(c, "MaxPool3DGrad", &["ksize", "strides", "padding", "data_format"])
    });
    r.op("MaxPoolV2").gradient(|c| {
        let attrs = c.attrs_named(&["padding", "data_format"])?;
        let inputs = [c.input(0), c.output(0), c.grad(0), c.input(1), c.input(2)];
        Ok(vec![Some(c.node("MaxPoolGradV2", &inputs, &attrs)), None, None])
    });
    r.op("MaxPoolWithArgmax").gradient(|c| {
        let attrs = c.attrs_named(&["ksize", "strides", "padding", "include_batch_in_index"])?;
        let inputs = [c.input(0), c.grad(0), c.output(1)];
        Ok(vec![Some(c.node("MaxPoolGradWithArgmax", &inputs, &attrs))])
    });
    // Where the largest elements stand does not change.
    r.op("MaxPoolGrad").gradient(|c| by_gradient(c, "MaxPoolGradGrad"));
    r.op("MaxPoolGradGrad").gradient(|c| by_gradient(c, "MaxPoolGrad"));
    r.op("MaxPool3DGrad").gradient(|c| by_gradient(c, "MaxPool3DGradGrad"));
    r.op("MaxPool3DGradGrad").gradient(|c| by_gradient(c, "MaxPool3DGrad"));
    r.op("AvgPool").gradient(|c| average_pool(c, "AvgPoolGrad"));
    r.op("AvgPool3D").gradient(|c| average_pool(c, "AvgPool3DGrad"));
    // Outputs 1 and 2 of both say where the regions begin.
    r.op("FractionalMaxPool")
        .gradient(|c| fractional_pool(c, "FractionalMaxPoolGrad", &[c.input(0), c.output(0)]));
    r.op("FractionalAvgPool").gradient(|c| {
        let shape = c.node("Shape", &[c.input(0)], &[("out_type", AttrValue::Type(DType::INT64))]);
        fractional_pool(c, "FractionalAvgPoolGrad", &[shape])
    });
}

/// Each gradient to the largest element of its window.
fn max_pool(c: &GradientContext<'_>, op: &str, attrs: &[&str]) -> Result<Gradients> {
    let attrs = c.attrs_named(attrs)?;
    Ok(vec![Some(c.node(op, &[c.input(0), c.output(0), c.grad(0)], &attrs))])
}

/// The gradient with respect to input 2, made by `op`.
fn by_gradient(c: &GradientContext<'_>, op: &str) -> Result<Gradients> {
    let attrs = c.attrs_named(&["ksize", "strides", "padding", "data_format"])?;
    let gradient = c.node(op, &[c.input(0), c.input(1), c.grad(0)], &attrs);
    Ok(vec![Some(c.zeros_like(c.input(0))), Some(c.zeros_like(c.input(1))), Some(gradient)])
}

/// Each gradient shared by the elements of its window.
fn average_pool(c: &GradientContext<'_>, op: &str) -> Result<Gradients> {
    let attrs = c.attrs_named(&["ksize", "strides", "padding", "data_format"])?;
    let shape = c.shape(c.input(0));
    Ok(vec![Some(c.node(op, &[shape, c.grad(0)], &attrs))])
}

fn fractional_pool(c: &GradientContext<'_>, op: &str, input: &[Output]) -> Result<Gradients> {
    let attrs = c.attrs_named(&["overlapping"])?;
    let inputs = [input, &[c.grad(0), c.output(1), c.output(2)]].concat();
    Ok(vec![Some(c.node(op, &inputs, &attrs))])
}
