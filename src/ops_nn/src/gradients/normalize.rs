//! Gradients of normalisation.

use tfcore_base::Result;
use tfcore_framework::{AttrValue, GradientContext, Gradients, Output, Registry};

pub(crate) fn register(r: &mut Registry) {
    r.op("LRN").gradient(|c| {
        // The reference leaves out the attrs, without which the values are wrong.
        let attrs = c.attrs_named(&["depth_radius", "bias", "alpha", "beta"])?;
        Ok(vec![Some(c.node("LRNGrad", &[c.grad(0), c.input(0), c.output(0)], &attrs))])
    });
    r.op("FusedBatchNormV3").gradient(batch_norm);
}

/// Outputs 3 and 4 hold the mean and the variance of the batch, 5 what the kernel likes to keep. Only `y` passes gradients on.
fn batch_norm(c: &GradientContext<'_>) -> Result<Gradients> {
    let format = c.attrs().str("data_format")?;
    let (x, dy) = (c.input(0), c.grad(0));
    if c.attrs().bool("is_training")? {
        let grads = batch_norm_grad(c, format, dy, x, [c.output(3), c.output(4)])?;
        return Ok(of_inputs(grads, grads));
    }
    let statistics = [c.input(3), c.input(4)];
    // The kernel for given statistics wants the channels last.
    let (to_last, from_last, last): (&[i32], &[i32], _) = match format {
        "NCHW" => (&[0, 2, 3, 1], &[0, 3, 1, 2], "NHWC"),
        "NCDHW" => (&[0, 2, 3, 4, 1], &[0, 4, 1, 2, 3], "NDHWC"),
        _ => {
            let grads = batch_norm_grad(c, format, dy, x, statistics)?;
            return Ok(of_inputs(grads, grads));
        }
    };
    let x = c.transpose(x, c.vector(to_last));
    let dy = c.transpose(dy, c.vector(to_last));
    let grads = batch_norm_grad(c, last, dy, x, statistics)?;
    let dx = c.transpose(grads, c.vector(from_last));
    Ok(of_inputs(grads, dx))
}

fn batch_norm_grad(
    c: &GradientContext<'_>,
    format: &str,
    dy: Output,
    x: Output,
    [mean, variance]: [Output; 2],
) -> Result<Output> {
    let mut attrs = c.attrs_named(&["epsilon", "is_training"])?;
    attrs.push(("data_format", AttrValue::string(format)));
    let inputs = [dy, x, c.input(1), mean, variance, c.output(5)];
    Ok(c.node("FusedBatchNormGradV3", &inputs, &attrs))
}

/// The gradients by image, scale and offset; there are none by the statistics.
fn of_inputs(grads: Output, dx: Output) -> Gradients {
    vec![Some(dx), Some(grads.at(1)), Some(grads.at(2)), None, None]
}
