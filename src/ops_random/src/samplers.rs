//! One sample of a distribution by rejection, with the uniform and normal values of a stream.

// Coefficients are written as published.
#![allow(clippy::excessive_precision)]

use tfcore_math::philox::{Philox, RandomFloat};
use tfcore_math::special::Special;

use crate::draws::Backwards;

fn uniforms() -> Backwards<f64> {
    Backwards::new(f64::uniform)
}

/// Gamma with shape `alpha` and rate 1, by the method of Marsaglia and Tsang. NaN for an `alpha` that no
/// draw would be accepted for.
pub(crate) fn gamma(alpha: f64, mut stream: Philox) -> f64 {
    let (mut normals, mut uniforms) = (Backwards::<f64>::new(f64::normal), uniforms());
    if alpha == 1.0 {
        return -(-uniforms.next(&mut stream)).ln_1p();
    }
    let is_small = alpha < 1.0;
    let d = alpha + if is_small { 2.0 / 3.0 } else { -1.0 / 3.0 };
    let c = 1.0 / 3.0 / d.sqrt();
    if c.is_nan() {
        return f64::NAN;
    }
    loop {
        let x = normals.next(&mut stream);
        let v = 1.0 + c * x;
        if v <= 0.0 {
            continue;
        }
        let v = v * v * v;
        let u = uniforms.next(&mut stream);
        let accepted =
            u < 1.0 - 0.0331 * (x * x) * (x * x) || u.ln() < 0.5 * x * x + d * (1.0 - v + v.ln());
        if accepted {
            let sample = d * v;
            return match is_small {
                true => sample * uniforms.next(&mut stream).powf(1.0 / alpha),
                false => sample,
            };
        }
    }
}

/// Poisson with mean `rate`: Knuth's products below 10, Hörmann's transformed rejection from there on. NaN for a
/// rate that no draw would be accepted for.
pub(crate) fn poisson(rate: f64, mut stream: Philox) -> f64 {
    let mut uniforms = uniforms();
    if rate < 10.0 {
        let limit = (-rate).exp();
        let (mut product, mut count) = (1.0, 0.0);
        loop {
            product *= uniforms.next(&mut stream);
            if product <= limit {
                return count;
            }
            count += 1.0;
        }
    }
    if !rate.is_finite() {
        return f64::NAN;
    }
    let log_rate = rate.ln();
    let b = 0.931 + 2.53 * rate.sqrt();
    let a = -0.059 + 0.02483 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    loop {
        let u = uniforms.next(&mut stream) - 0.5;
        let v = uniforms.next(&mut stream);
        let shifted = 0.5 - u.abs();
        let k = ((2.0 * a / shifted + b) * u + rate + 0.43).floor();
        if shifted >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2.0) {
            return k;
        }
        if k < 0.0 || (shifted < 0.013 && v > shifted) {
            continue;
        }
        let s = (v * inverse_alpha / (a / (shifted * shifted) + b)).ln();
        let t = -rate + k * log_rate - Special::ln_gamma(k + 1.0);
        if s <= t {
            return k;
        }
    }
}

/// The number of successes of `count` trials, sample `index` of a stream. NaN for parameters that are. `round` rounds to
/// the parameters' type.
pub(crate) fn binomial(
    count: f64,
    prob: f64,
    round: fn(f64) -> f64,
    stream: Philox,
    index: u64,
) -> f64 {
    if count <= 0.0 || prob <= 0.0 {
        return 0.0;
    }
    if prob >= 1.0 {
        return count;
    }
    if count.is_nan() || prob.is_nan() {
        return f64::NAN;
    }
    let successes = |prob: f64| {
        let mut stream = stream;
        let by_rejection = round(count * prob) >= 10.0;
        stream.skip(index.wrapping_mul(if by_rejection { 256 } else { 42 }));
        match by_rejection {
            true => binomial_by_rejection(count, prob, stream),
            false => binomial_by_inversion(count, prob, stream),
        }
    };
    match prob <= 0.5 {
        true => successes(prob),
        false => count - successes(round(1.0 - prob)),
    }
}

/// Adds geometric variables until they exceed the count.
fn binomial_by_inversion(count: f64, prob: f64, mut stream: Philox) -> f64 {
    let mut uniforms = uniforms();
    let log_failure = (-prob).ln_1p();
    let (mut sum, mut successes) = (0.0, 0.0);
    loop {
        sum += (uniforms.next(&mut stream).ln() / log_failure).ceil();
        if sum > count {
            return successes;
        }
        successes += 1.0;
    }
}

/// Hörmann's BTRS.
fn binomial_by_rejection(count: f64, prob: f64, mut stream: Philox) -> f64 {
    let mut uniforms = uniforms();
    let deviation = (count * prob * (1.0 - prob)).sqrt();
    let b = 1.15 + 2.53 * deviation;
    let a = -0.0873 + 0.0248 * b + 0.01 * prob;
    let c = count * prob + 0.5;
    let v_r = 0.92 - 4.2 / b;
    let r = prob / (1.0 - prob);
    let alpha = (2.83 + 5.1 / b) * deviation;
    let m = ((count + 1.0) * prob).floor();
    loop {
        let u = uniforms.next(&mut stream) - 0.5;
        let v = uniforms.next(&mut stream);
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + c).floor();
        if us >= 0.07 && v <= v_r {
            return k;
        }
        if k < 0.0 || k > count {
            continue;
        }
        let v = (v * alpha / (a / (us * us) + b)).ln();
        let bound = (m + 0.5) * ((m + 1.0) / (r * (count - m + 1.0))).ln()
            + (count + 1.0) * ((count - m + 1.0) / (count - k + 1.0)).ln()
            + (k + 0.5) * (r * (count - k + 1.0) / (k + 1.0)).ln()
            + stirling_tail(m)
            + stirling_tail(count - m)
            - stirling_tail(k)
            - stirling_tail(count - k);
        if v <= bound || bound.is_nan() {
            return k;
        }
    }
}

/// The error of Stirling's approximation of the logarithm of `k!`.
fn stirling_tail(k: f64) -> f64 {
    const TAIL: [f64; 10] = [
        0.0810614667953272,
        0.0413406959554092,
        0.0276779256849983,
        0.02079067210376509,
        0.0166446911898211,
        0.0138761288230707,
        0.0118967099458917,
        0.0104112652619720,
        0.00925546218271273,
        0.00833056343336287,
    ];
    if k <= 9.0 {
        return TAIL[k as usize];
    }
    let square = (k + 1.0) * (k + 1.0);
    (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / (k + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean of many samples.
    fn mean(draw: impl Fn(Philox) -> f64) -> f64 {
        let samples = 4000;
        let sum: f64 = (0..samples).map(|seed| draw(Philox::new(seed, 7))).sum();
        sum / samples as f64
    }

    #[test]
    fn means_are_those_of_the_distributions() {
        for (expected, actual) in [
            (0.5, mean(|stream| gamma(0.5, stream))),
            (1.0, mean(|stream| gamma(1.0, stream))),
            (7.5, mean(|stream| gamma(7.5, stream))),
            (3.0, mean(|stream| poisson(3.0, stream))),
            (40.0, mean(|stream| poisson(40.0, stream))),
            (3.0, mean(|stream| binomial(10.0, 0.3, |p| p, stream, 0))),
            (70.0, mean(|stream| binomial(100.0, 0.7, |p| p, stream, 0))),
        ] {
            assert!((actual - expected).abs() < 0.06 * expected, "{actual} for {expected}");
        }
    }

    #[test]
    fn parameters_without_a_distribution_end() {
        let stream = Philox::new(1, 2);
        for value in [
            gamma(-1.0, stream),
            gamma(f64::NAN, stream),
            poisson(f64::NAN, stream),
            poisson(f64::INFINITY, stream),
            binomial(f64::NAN, 0.5, |p| p, stream, 0),
            binomial(3.0, f64::NAN, |p| p, stream, 0),
        ] {
            assert!(value.is_nan());
        }
        assert_eq!(poisson(-1.0, stream), 0.0);
        assert_eq!(
            [binomial(-1.0, 0.5, |p| p, stream, 0), binomial(4.0, 2.0, |p| p, stream, 0)],
            [0.0, 4.0]
        );
    }
}
