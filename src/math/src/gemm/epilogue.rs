//! Arithmetic on the sums of a product before they are stored, while they are in the nearest cache.

use super::MatRef;
use crate::isa::vectorize;

/// Results are `activation(sum · scale + bias + residual)`, without the parts that are not there.
///
/// It is given in the type of the sums: f32 for half and bfloat16, whose results are rounded after it.
#[derive(Clone, Copy)]
pub struct Epilogue<'a, S> {
    /// A factor for each column.
    pub scale: Option<&'a [S]>,
    /// A summand for each column.
    pub bias: Option<&'a [S]>,
    /// A summand for each result, as long as the result.
    pub residual: Option<MatRef<'a, S>>,
    pub activation: Activation<'a, S>,
}

/// A function of each result.
#[derive(Clone, Copy)]
pub enum Activation<'a, S> {
    None,
    /// `max(x, 0)`; NaN stays.
    Relu,
    /// `min(max(x, 0), 6)`; NaN stays.
    Relu6,
    /// `x` if positive, else `alpha · x`.
    LeakyRelu(S),
    /// Any function on a run of results of one row.
    Each(&'a (dyn Fn(&mut [S]) + Sync)),
}

impl<S> Default for Epilogue<'_, S> {
    /// The sums as they are.
    fn default() -> Self {
        Epilogue { scale: None, bias: None, residual: None, activation: Activation::None }
    }
}

/// A type of sums that have epilogues.
pub trait Finish:
    Copy
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Mul<Output = Self>
    + Send
    + Sync
    + 'static
{
    #[doc(hidden)]
    const ZERO: Self;
    #[doc(hidden)]
    const SIX: Self;
}

impl Finish for f32 {
    const ZERO: f32 = 0.0;
    const SIX: f32 = 6.0;
}

impl Finish for f64 {
    const ZERO: f64 = 0.0;
    const SIX: f64 = 6.0;
}

impl<S: Finish> Epilogue<'_, S> {
    /// True if sums are stored as they are.
    pub(crate) fn is_empty(&self) -> bool {
        self.scale.is_none()
            && self.bias.is_none()
            && self.residual.is_none()
            && matches!(self.activation, Activation::None)
    }

    /// Panics if an operand is too short for an [m, n] result.
    pub(crate) fn check(&self, m: usize, n: usize) {
        for (name, operand) in [("scale", self.scale), ("bias", self.bias)] {
            assert!(operand.is_none_or(|v| v.len() >= n), "epilogue: length of {name}");
        }
        if let Some(residual) = self.residual {
            super::check(
                "residual",
                residual.data.len(),
                [m, n],
                [residual.row_stride, residual.col_stride],
            );
        }
    }

    /// Finishes a run of results, from this row and column on.
    pub(crate) fn apply(&self, row: usize, col: usize, run: &mut [S]) {
        vectorize(
            #[inline(always)]
            || {
                if let Some(scale) = self.scale {
                    for (v, &scale) in run.iter_mut().zip(&scale[col..]) {
                        *v = *v * scale;
                    }
                }
                if let Some(bias) = self.bias {
                    for (v, &bias) in run.iter_mut().zip(&bias[col..]) {
                        *v = *v + bias;
                    }
                }
                if let Some(r) = self.residual {
                    let from = &r.data[row * r.row_stride + col * r.col_stride..];
                    if r.col_stride == 1 {
                        for (v, &residual) in run.iter_mut().zip(from) {
                            *v = *v + residual;
                        }
                    } else {
                        for (j, v) in run.iter_mut().enumerate() {
                            *v = *v + from[j * r.col_stride];
                        }
                    }
                }
                match self.activation {
                    Activation::None | Activation::Each(_) => {}
                    Activation::Relu => run.iter_mut().for_each(|v| {
                        *v = if *v < S::ZERO { S::ZERO } else { *v };
                    }),
                    Activation::Relu6 => run.iter_mut().for_each(|v| {
                        let positive = if *v < S::ZERO { S::ZERO } else { *v };
                        *v = if positive > S::SIX { S::SIX } else { positive };
                    }),
                    Activation::LeakyRelu(alpha) => run.iter_mut().for_each(|v| {
                        *v = if *v > S::ZERO { *v } else { *v * alpha };
                    }),
                }
            },
        );
        if let Activation::Each(f) = self.activation {
            f(run);
        }
    }
}
