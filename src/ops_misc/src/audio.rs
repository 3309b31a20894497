//! `AudioSpectrogram` and `Mfcc`.

use std::f64::consts::PI;

use rustfft::FftPlanner;
use rustfft::num_complex::Complex;
use tfcore_base::{Result, invalid, require, try_filled};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, Shape};

pub(crate) fn register(r: &mut Registry) {
    // `AudioSpectrogram(input: float; window_size, stride, magnitude_squared) -> spectrogram: float`: `[samples, channels]`
    // to `[channels, windows, frequencies]`.
    r.op("AudioSpectrogram").shape(spectrogram_shape).cpu(spectrogram);
    // `Mfcc(spectrogram: float, sample_rate: int32; upper_frequency_limit, lower_frequency_limit,
    // filterbank_channel_count, dct_coefficient_count) -> output: float`: the cosine transform of the logarithms of the energy in
    // bands of equal width on the mel scale.
    r.op("Mfcc").shape(mfcc_shape).cpu(mfcc);
}

fn spectrogram_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank(ctx.input(0), 2)?;
    let (window, stride) = (ctx.attrs.int("window_size")?, ctx.attrs.int("stride")?);
    let windows = match input.dim(0).value() {
        None => Dim::fresh(),
        Some(len) if stride > 0 => {
            Dim::new(if len < window { 0 } else { 1 + (len - window) / stride })
        }
        Some(_) => Dim::fresh(),
    };
    let bins = u64::try_from(window).ok().and_then(u64::checked_next_power_of_two);
    let bins = bins.map_or_else(Dim::fresh, |bins| Dim::new(1 + (bins / 2) as i64));
    ctx.set_output(0, [input.dim(1), windows, bins].into_iter().collect());
    Ok(())
}

fn spectrogram(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let (window, stride) = (init.attrs.int("window_size")?, init.attrs.int("stride")?);
    let squared = init.attrs.bool("magnitude_squared")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        require!(input.rank() == 2, "input must be 2-dimensional{}", input.shape());
        if window < 2 || stride < 1 {
            return Err(invalid!(
                "Spectrogram initialization failed for window size {window} and stride {stride}"
            ));
        }
        let (len, channels) = (input.dim(0), input.dim(1));
        let (window, stride) = (window as usize, stride as usize);
        let size = window
            .checked_next_power_of_two()
            .filter(|size| *size < 1 << 32)
            .ok_or_else(|| invalid!("window_size {window} is too large"))?;
        let windows = if len < window { 0 } else { 1 + (len - window) / stride };
        let bins = 1 + size / 2;
        let values = input.as_slice::<f32>()?;
        let shape = Shape::new(&[channels as i64, windows as i64, bins as i64])?;
        ctx.try_produce(0, shape, |out| {
            // A Hann window whose period is its length.
            let weights =
                (0..window).map(|i| 0.5 - 0.5 * (2.0 * PI * i as f64 / window as f64).cos());
            let weights: Vec<f64> = weights.collect();
            let fft = FftPlanner::<f64>::new().plan_fft_forward(size);
            let mut buffer = try_filled(Complex::new(0.0, 0.0), size)?;
            let mut scratch = try_filled(Complex::new(0.0, 0.0), fft.get_inplace_scratch_len())?;
            for (number, out) in out.typed::<f32>().chunks_exact_mut(bins).enumerate() {
                let (channel, start) = (number / windows, number % windows * stride);
                buffer.fill(Complex::new(0.0, 0.0));
                for (i, weight) in weights.iter().enumerate() {
                    buffer[i].re = f64::from(values[(start + i) * channels + channel]) * weight;
                }
                fft.process_with_scratch(&mut buffer, &mut scratch);
                for (out, bin) in out.iter_mut().zip(&buffer) {
                    let energy = bin.norm_sqr();
                    *out = if squared { energy } else { energy.sqrt() } as f32;
                }
            }
            Ok(())
        })
    })
}

fn mfcc_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let spectrogram = shape_ops::with_rank(ctx.input(0), 3)?;
    shape_ops::with_rank(ctx.input(1), 0)?;
    let count = Dim::new(ctx.attrs.int("dct_coefficient_count")?);
    ctx.set_output(0, [spectrogram.dim(0), spectrogram.dim(1), count].into_iter().collect());
    Ok(())
}

/// The attrs of a node.
#[derive(Clone, Copy)]
struct Bands {
    lower: f64,
    upper: f64,
    channels: i64,
    coefficients: i64,
}

fn mel(frequency: f64) -> f64 {
    1127.0 * (frequency / 700.0).ln_1p()
}

/// The part that each bin of a spectrogram has in the bands.
struct Filters {
    /// For each bin that counts: its number, the band below it, if any, and how much of it goes there; the rest goes to the
    /// next one.
    bins: Vec<(usize, Option<usize>, f64)>,
    channels: usize,
}

impl Filters {
    /// `None` if the bands cannot be laid over so many bins.
    fn new(bands: Bands, bins: usize, rate: i32) -> Option<Filters> {
        let is_valid = bands.channels >= 1
            && rate > 0
            && bins >= 2
            && bands.lower >= 0.0
            && bands.upper > bands.lower;
        if !is_valid {
            return None;
        }
        let channels = bands.channels as usize;
        let low = mel(bands.lower);
        let spacing = (mel(bands.upper) - low) / (channels + 1) as f64;
        let centre = |band: usize| low + spacing * (band + 1) as f64;
        let per_bin = 0.5 * f64::from(rate) / (bins - 1) as f64;
        let first = (1.5 + bands.lower / per_bin) as usize;
        let last = ((bands.upper / per_bin) as usize).min(bins - 1);
        let mut above = 0;
        let mut filters = Vec::new();
        for bin in first..=last {
            let at = mel(bin as f64 * per_bin);
            while above < channels && centre(above) < at {
                above += 1;
            }
            let (below, weight) = match above.checked_sub(1) {
                Some(band) => {
                    (Some(band), (centre(band + 1) - at) / (centre(band + 1) - centre(band)))
                }
                None => (None, (centre(0) - at) / (centre(0) - low)),
            };
            filters.push((bin, below, weight));
        }
        Some(Filters { bins: filters, channels })
    }

    /// The energy in each band.
    fn apply(&self, spectrum: &[f32]) -> Vec<f64> {
        let mut bands = vec![0.0; self.channels];
        for &(bin, below, weight) in &self.bins {
            let value = f64::from(spectrum[bin]).sqrt();
            let share = value * weight;
            let above = match below {
                Some(band) => {
                    bands[band] += share;
                    band + 1
                }
                None => 0,
            };
            if let Some(band) = bands.get_mut(above) {
                *band += value - share;
            }
        }
        bands
    }
}

fn mfcc(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let bands = Bands {
        lower: attrs.float("lower_frequency_limit")?.into(),
        upper: attrs.float("upper_frequency_limit")?.into(),
        channels: attrs.int("filterbank_channel_count")?,
        coefficients: attrs.int("dct_coefficient_count")?,
    };
    kernel(move |ctx: &mut OpContext<'_>| {
        let (input, rate) = (ctx.input(0)?, ctx.input(1)?);
        require!(input.rank() == 3, "spectrogram must be 3-dimensional{}", input.shape());
        require!(
            rate.rank() == 0,
            "Input sample_rate should be a scalar tensor, got {} instead.",
            rate.shape()
        );
        let rate = rate.scalar_value::<i32>()?;
        let bins = input.dim(2);
        let fits = (1..=bands.channels).contains(&bands.coefficients);
        // A band for each of more channels than the spectrogram could fill would be a mere claim.
        let filters = Filters::new(bands, bins, rate).filter(|_| fits && bands.channels < 1 << 24);
        let Some(filters) = filters else {
            return Err(invalid!(
                "Mfcc initialization failed for channel count {bins}, sample rate {rate} and \
                 filterbank_channel_count {}",
                bands.channels
            ));
        };
        let coefficients = bands.coefficients as usize;
        let dims = input.shape().dims();
        let shape = Shape::new(&[dims[0], dims[1], bands.coefficients])?;
        let spectra = input.as_slice::<f32>()?;
        let (scale, step) = ((2.0 / filters.channels as f64).sqrt(), PI / filters.channels as f64);
        ctx.produce(0, shape, |out| {
            let rows = out.typed::<f32>().chunks_exact_mut(coefficients);
            for (out, spectrum) in rows.zip(spectra.chunks_exact(bins)) {
                let logs: Vec<f64> =
                    filters.apply(spectrum).into_iter().map(|band| band.max(1e-12).ln()).collect();
                for (i, out) in out.iter_mut().enumerate() {
                    let terms = logs.iter().enumerate();
                    let cosine = |j: usize| (i as f64 * step * (j as f64 + 0.5)).cos();
                    *out = (scale * terms.map(|(j, log)| log * cosine(j)).sum::<f64>()) as f32;
                }
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op};

    use super::*;

    #[test]
    fn a_constant_has_the_frequencies_of_its_window() {
        let registry = registry_of(register);
        let attrs = [("window_size", AttrValue::Int(4)), ("stride", AttrValue::Int(2))];
        let input = floats(&[4, 1], &[1.0; 4]);
        let out = run_op(&registry, "AudioSpectrogram", &attrs, &[input]).unwrap();
        assert_eq!(out[0].shape().dims(), [1, 1, 3]);
        // The window 0, 1/2, 1, 1/2.
        let expected = [2.0, 1.0, 0.0];
        let found = out[0].as_slice::<f32>().unwrap();
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
    }

    #[test]
    fn bands_share_the_energy() {
        let bands = Bands { lower: 0.0, upper: 4000.0, channels: 4, coefficients: 4 };
        let filters = Filters::new(bands, 65, 8000).unwrap();
        // All of a bin between two centres goes to the bands of the two.
        let between = filters.bins.iter().find(|(_, below, _)| *below == Some(1)).unwrap().0;
        let mut spectrum = vec![0.0; 65];
        spectrum[between] = 4.0;
        let found = filters.apply(&spectrum);
        assert!((found.iter().sum::<f64>() - 2.0).abs() < 1e-12 && found[0] == 0.0);
        assert!(Filters::new(bands, 1, 8000).is_none() && Filters::new(bands, 65, 0).is_none());
    }
}
