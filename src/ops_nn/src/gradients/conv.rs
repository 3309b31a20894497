//! Gradients of convolutions.

use tfcore_base::Result;
use tfcore_framework::{AttrValue, GradientContext, Registry};

pub(crate) fn register(r: &mut Registry) {
    r.op("Conv2D").gradient(|c| {
        // The reference leaves out dilations and explicit paddings, without which the values are wrong.
        let attrs = attrs(c)?;
        let sizes = c.shape(c.input(0));
        let dx = c.node("Conv2DBackpropInput", &[sizes, c.input(1), c.grad(0)], &attrs);
        let sizes = c.shape(c.input(1));
        let dw = c.node("Conv2DBackpropFilter", &[c.input(0), sizes, c.grad(0)], &attrs);
        Ok(vec![Some(dx), Some(dw)])
    });
    r.op("Conv2DBackpropInput").gradient(|c| {
        let attrs = attrs(c)?;
        let sizes = c.shape(c.input(1));
        let dw = c.node("Conv2DBackpropFilter", &[c.grad(0), sizes, c.input(2)], &attrs);
        let dy = c.node("Conv2D", &[c.grad(0), c.input(1)], &attrs);
        Ok(vec![None, Some(dw), Some(dy)])
    });
    r.op("DepthwiseConv2dNative").gradient(|c| {
        let attrs = c.attrs_named(&WINDOW)?;
        let (by_input, by_filter) =
            ("DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter");
        let sizes = c.shape(c.input(0));
        let dx = c.node(by_input, &[sizes, c.input(1), c.grad(0)], &attrs);
        let sizes = c.shape(c.input(1));
        let dw = c.node(by_filter, &[c.input(0), sizes, c.grad(0)], &attrs);
        Ok(vec![Some(dx), Some(dw)])
    });
    r.op("Conv3D").gradient(|c| {
        let attrs = c.attrs_named(&VOLUME)?;
        let sizes = c.shape(c.input(0));
        let dx = c.node("Conv3DBackpropInputV2", &[sizes, c.input(1), c.grad(0)], &attrs);
        let sizes = c.shape(c.input(1));
        let dw = c.node("Conv3DBackpropFilterV2", &[c.input(0), sizes, c.grad(0)], &attrs);
        Ok(vec![Some(dx), Some(dw)])
    });
    r.op("Conv3DBackpropInputV2").gradient(|c| {
        let attrs = c.attrs_named(&VOLUME)?;
        let sizes = c.shape(c.input(1));
        let dw = c.node("Conv3DBackpropFilterV2", &[c.grad(0), sizes, c.input(2)], &attrs);
        let dy = c.node("Conv3D", &[c.grad(0), c.input(1)], &attrs);
        Ok(vec![None, Some(dw), Some(dy)])
    });
    r.op("Conv3DBackpropFilterV2").gradient(|c| {
        let attrs = c.attrs_named(&VOLUME)?;
        let sizes = c.shape(c.input(0));
        let dx = c.node("Conv3DBackpropInputV2", &[sizes, c.grad(0), c.input(2)], &attrs);
        let dy = c.node("Conv3D", &[c.input(0), c.grad(0)], &attrs);
        Ok(vec![Some(dx), None, Some(dy)])
    });
    r.op("Dilation2D").gradient(|c| {
        let attrs = c.attrs_named(&["strides", "rates", "padding"])?;
        let inputs = [c.input(0), c.input(1), c.grad(0)];
        let dx = c.node("Dilation2DBackpropInput", &inputs, &attrs);
        let dw = c.node("Dilation2DBackpropFilter", &inputs, &attrs);
        Ok(vec![Some(dx), Some(dw)])
    });
}

/// The attrs that say how the filter moves over a volume.
const VOLUME: [&str; 4] = ["strides", "padding", "data_format", "dilations"];

/// The attrs that say how the filter moves.
const WINDOW: [&str; 5] = ["strides", "padding", "explicit_paddings", "data_format", "dilations"];

/// The attrs that all two-dimensional convolutions have.
fn attrs(c: &GradientContext<'_>) -> Result<Vec<(&'static str, AttrValue)>> {
    let mut attrs = c.attrs_named(&WINDOW)?;
    attrs.extend(c.attrs_named(&["use_cudnn_on_gpu"])?);
    Ok(attrs)
}
