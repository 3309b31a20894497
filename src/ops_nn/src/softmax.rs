//! `Softmax` and `LogSoftmax`: over the last dimension.

use half::slice::HalfFloatSliceExt;
use tfcore_base::{BFloat16, Elem, Floats, Half, LoopFor, Result, TypedLoop, invalid};
use tfcore_framework::{OpContext, Registry, shape_fns};
use tfcore_math::elementary::exp_f32;
use tfcore_math::isa::vectorize;
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Elems, ElemsMut};

pub(crate) fn register(r: &mut Registry) {
    // `Softmax(logits: T) -> softmax: T`, `e^x / Σ e^x`.
    r.op("Softmax")
        .shape(shape_fns::unchanged_of_rank_at_least(1))
        .typed::<Normalize, Floats>("T", |ctx, rows| softmax(ctx, rows, false));

    // `LogSoftmax(logits: T) -> logsoftmax: T`, `x - log Σ e^x`.
    r.op("LogSoftmax")
        .shape(shape_fns::unchanged_of_rank_at_least(1))
        .typed::<Normalize, Floats>("T", |ctx, rows| softmax(ctx, rows, true));
}

/// Normalises rows of `classes` elements: logits, classes, whether to take logarithms, output.
type RowsLoop = fn(Parallel<'_>, Elems<'_>, usize, bool, ElemsMut<'_>);

fn softmax(ctx: &mut OpContext<'_>, rows: RowsLoop, log: bool) -> Result<()> {
    let logits = ctx.input(0)?;
    let Some(&classes) = logits.shape().last() else {
        return Err(invalid!("logits must have >= 1 dimension, got {}", logits.shape()));
    };
    ctx.produce(0, logits.shape().clone(), |out| {
        rows(ctx.parallel(), logits.elems(), classes as usize, log, out);
    })
}

struct Normalize;

impl TypedLoop for Normalize {
    type Loop = RowsLoop;
}

impl<T: Elem + Rows> LoopFor<T> for Normalize {
    const LOOP: RowsLoop = |par, x, classes, log, out| {
        let (x, out) = (x.typed::<T>(), out.typed::<T>());
        par_chunks_mut(par, out, classes, GRAIN, &|start, piece| {
            let x = &x[start..start + piece.len()];
            T::rows(x, classes, log, piece);
        });
    };
}

/// Elements that are worth a thread of their own.
const GRAIN: usize = 4096;

/// A type with rows to normalise.
trait Rows: Sized {
    fn rows(x: &[Self], classes: usize, log: bool, out: &mut [Self]);
}

macro_rules! rows {
    ($t:ty, $exp:path) => {
        impl Rows for $t {
            fn rows(x: &[$t], classes: usize, log: bool, out: &mut [$t]) {
                for (x, out) in x.chunks_exact(classes).zip(out.chunks_exact_mut(classes)) {
                    vectorize(
                        #[inline(always)]
                        || {
                            // A NaN spreads through the sum, whatever the largest element is.
                            let larger = |m: $t, x: $t| if x > m { x } else { m };
                            let max = fold(x, <$t>::NEG_INFINITY, larger);
                            for (out, &x) in out.iter_mut().zip(x) {
                                *out = $exp(x - max);
                            }
                            let sum = fold(out, 0.0, |sum: $t, x: $t| sum + x);
                            if log {
                                let log_sum = sum.ln();
                                for (out, &x) in out.iter_mut().zip(x) {
                                    *out = (x - max) - log_sum;
                                }
                            } else {
                                let scale = 1.0 / sum;
                                out.iter_mut().for_each(|out| *out *= scale);
                            }
                        },
                    );
                }
            }
        }
    };
}
rows!(f32, exp_f32);
rows!(f64, f64::exp);

/// Folds the values in sixteen lanes and then the lanes, so that it takes vector instructions and sums lose
/// less.
#[inline(always)]
fn fold<T: Copy>(values: &[T], start: T, f: impl Fn(T, T) -> T) -> T {
    let mut lanes = [start; 16];
    let chunks = values.chunks_exact(16);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = f(*lane, x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = f(*lane, x);
    }
    for width in [8, 4, 2, 1] {
        for i in 0..width {
            lanes[i] = f(lanes[i], lanes[i + width]);
        }
    }
    lanes[0]
}

macro_rules! half_rows {
    ($($t:ty)*) => {$(
        impl Rows for $t {
            fn rows(x: &[$t], classes: usize, log: bool, out: &mut [$t]) {
                let (mut wide, mut result) = (vec![0.0; classes], vec![0.0; classes]);
                for (x, out) in x.chunks_exact(classes).zip(out.chunks_exact_mut(classes)) {
                    x.convert_to_f32_slice(&mut wide);
                    f32::rows(&wide, classes, log, &mut result);
                    out.convert_from_f32_slice(&result);
                }
            }
        }
    )*};
}
half_rows!(Half BFloat16);

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{registry_of, run_op};
    use tfcore_tensor::{Shape, Tensor};

    use super::*;

    #[test]
    fn rows_sum_to_one() {
        let r = registry_of(register);
        let attrs = [("T", AttrValue::Type(DType::FLOAT))];
        // Odds of 1 to 3, with any offset.
        let ln_3 = 3.0f32.ln();
        let logits = [0.0, ln_3, 100.0, 100.0 + ln_3, f32::NEG_INFINITY, 0.0];
        let logits = Tensor::from_slice(Shape::new(&[3, 2]).unwrap(), &logits).unwrap();
        let expected = [0.25, 0.75, 0.25, 0.75, 0.0, 1.0f32];
        for (op, log) in [("Softmax", false), ("LogSoftmax", true)] {
            let out = run_op(&r, op, &attrs, std::slice::from_ref(&logits)).unwrap();
            for (&actual, expected) in out[0].as_slice::<f32>().unwrap().iter().zip(expected) {
                let actual = if log { actual.exp() } else { actual };
                assert!((actual - expected).abs() < 1e-5, "{op}: {actual} for {expected}");
            }
        }
        let scalar = run_op(&r, "Softmax", &attrs, &[Tensor::scalar(1.0f32)]).unwrap_err();
        assert_eq!(scalar.message(), "logits must have >= 1 dimension, got []");
    }

    #[test]
    fn folds_take_every_value_once() {
        let values: Vec<f64> = (1..=37).map(f64::from).collect();
        assert_eq!(fold(&values, 0.0, |a, b| a + b), 703.0);
        assert_eq!(fold(&values, f64::MIN, f64::max), 37.0);
    }
}
