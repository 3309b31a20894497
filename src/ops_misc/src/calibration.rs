//! `CustomAggregator`: statistics of activations for quantization.

use tfcore_base::{Code, Error, Result, try_filled};
use tfcore_framework::{InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel};
use tfcore_tensor::{PartialShape, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `CustomAggregator(input: float; id, calibration_method, num_bins, min_percentile, max_percentile) -> (output: float,
    // min: float, max: float, histogram: int64)`.
    r.op("CustomAggregator").shape(aggregator_shape).cpu(aggregator);
}

fn aggregator_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    ctx.set_output(0, ctx.input(0).clone());
    ctx.set_output(1, PartialShape::scalar());
    ctx.set_output(2, PartialShape::scalar());
    let bins = ctx.attrs.int("num_bins")?;
    ctx.set_output(3, PartialShape::from_i64s(&[bins])?);
    Ok(())
}

fn aggregator(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    if init.attrs.int("calibration_method")? == 0 {
        let message = "The calibration method must be specified for the id: ";
        let id = init.attrs.str("id")?;
        return Err(Error::new(Code::Aborted, format!("{message}{id}")));
    }
    let bins = Shape::new(&[init.attrs.int("num_bins")?])?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        let values = input.as_slice::<f32>()?;
        let min = values.iter().copied().fold(f32::INFINITY, f32::min);
        let max = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let counts = histogram(values, min, max, bins.count())?;
        ctx.set_output(0, input.clone());
        ctx.set_output(1, Tensor::scalar(min));
        ctx.set_output(2, Tensor::scalar(max));
        ctx.set_output(3, Tensor::from_slice(bins.clone(), &counts)?);
        Ok(())
    })
}

/// The values in each of so many bins, whose width is a power of two and whose bounds are multiples of it.
fn histogram(values: &[f32], min: f32, max: f32, bins: usize) -> Result<Vec<i64>> {
    let mut counts = try_filled(0i64, bins)?;
    if values.is_empty() || bins == 0 {
        return Ok(counts);
    }
    let range = max - min;
    let width = if range > 0.0 { (range / bins as f32).log2().ceil().exp2() } else { 1.0 };
    let low = (min / width).floor() * width;
    for value in values {
        let bin = ((value - low) / width) as usize;
        counts[bin.min(bins - 1)] += 1;
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_powers_of_two_wide() {
        // (0.9 + 0.6) / 8 is below 1/4, so that the bins begin at -1.
        let values = [-0.9, -0.1, 0.6];
        assert_eq!(histogram(&values, -0.9, 0.6, 8).unwrap(), [1, 0, 0, 1, 0, 0, 1, 0]);
        assert_eq!(histogram(&[], 0.0, 0.0, 2).unwrap(), [0, 0]);
    }
}
