//! The gradients of ops on images.
//!
//! They build the nodes that TensorFlow's C++ gradients build, in the same order, so that the names are the same.

use tfcore_base::Result;
use tfcore_framework::{GradientContext, Gradients, Registry};

pub(crate) fn register(r: &mut Registry) {
    r.op("ResizeBilinear").gradient(|c| resize(c, "ResizeBilinearGrad"));
    r.op("ResizeBicubic").gradient(|c| resize(c, "ResizeBicubicGrad"));
    r.op("ResizeNearestNeighbor").gradient(|c| {
        let attrs = c.attrs_named(&["align_corners", "half_pixel_centers"])?;
        let shape = c.shape(c.input(0));
        // Height and width.
        let begin = c.vector(&[1i32]);
        let size = c.apply("Slice", [shape, begin, c.vector(&[2i32])]);
        Ok(vec![Some(c.node("ResizeNearestNeighborGrad", &[c.grad(0), size], &attrs)), None])
    });
    r.op("ScaleAndTranslate").gradient(|c| {
        let attrs = c.attrs_named(&["kernel_type", "antialias"])?;
        let inputs = [c.grad(0), c.input(0), c.input(2), c.input(3)];
        Ok(vec![Some(c.node("ScaleAndTranslateGrad", &inputs, &attrs)), None, None, None])
    });
    r.op("CropAndResize").gradient(|c| {
        let method = c.attrs_named(&["method"])?;
        let (image, boxes, indices) = (c.input(0), c.input(1), c.input(2));
        let mut attrs = c.attrs_named(&["T"])?;
        attrs.extend(method);
        let inputs = [c.grad(0), boxes, indices, c.shape(image)];
        let by_image = c.node("CropAndResizeGradImage", &inputs, &attrs);
        // The only method there is for this one.
        let by_boxes = c.apply("CropAndResizeGradBoxes", [c.grad(0), image, boxes, indices]);
        Ok(vec![Some(by_image), Some(by_boxes), None, None])
    });
    // What comes out are indices of boxes.
    for name in [
        "NonMaxSuppression",
        "NonMaxSuppressionV2",
        "NonMaxSuppressionV3",
        "NonMaxSuppressionV4",
        "NonMaxSuppressionV5",
    ] {
        r.op(name).no_gradient();
    }
}

/// An op made for this gradient, of the gradient by the result and the image.
fn resize(c: &GradientContext<'_>, op: &str) -> Result<Gradients> {
    let attrs = c.attrs_named(&["align_corners", "half_pixel_centers"])?;
    Ok(vec![Some(c.node(op, &[c.grad(0), c.input(0)], &attrs)), None])
}
