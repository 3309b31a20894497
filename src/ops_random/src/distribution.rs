//! The distributions that fill whole tensors, by dtype.

use tfcore_base::{DType, Elem, LoopFor, Result, TypedLoop, invalid};
use tfcore_framework::OpContext;
use tfcore_math::philox::{self, Philox, RandomFloat};
use tfcore_math::pool::Parallel;
use tfcore_tensor::ElemsMut;

/// Fills elements of one float type from a stream.
pub(crate) type Fill = fn(Parallel<'_>, Philox, ElemsMut<'_>);

/// Uniform in [0, 1).
pub(crate) struct Uniform;
/// Standard normal.
pub(crate) struct Normal;
/// Standard normal, drawn again until it lies between -2 and 2.
pub(crate) struct TruncatedNormal;

impl TypedLoop for Uniform {
    type Loop = Fill;
}

impl<T: Elem + RandomFloat> LoopFor<T> for Uniform {
    const LOOP: Fill =
        |parallel, stream, out| philox::fill_uniform::<T>(parallel, stream, out.typed());
}

impl TypedLoop for Normal {
    type Loop = Fill;
}

impl<T: Elem + RandomFloat> LoopFor<T> for Normal {
    const LOOP: Fill =
        |parallel, stream, out| philox::fill_normal::<T>(parallel, stream, out.typed());
}

impl TypedLoop for TruncatedNormal {
    type Loop = Fill;
}

impl<T: Elem + RandomFloat> LoopFor<T> for TruncatedNormal {
    const LOOP: Fill =
        |parallel, stream, out| philox::fill_truncated_normal::<T>(parallel, stream, out.typed());
}

/// The bounds of uniform integers, one below the other.
#[derive(Clone, Copy)]
pub(crate) struct IntRange {
    low: i64,
    high: i64,
}

impl IntRange {
    /// The range `[low, high)`.
    ///
    /// # Errors
    /// `InvalidArgument` if it is empty.
    pub(crate) fn new([low, high]: [i64; 2]) -> Result<IntRange> {
        match low < high {
            true => Ok(IntRange { low, high }),
            false => Err(invalid!("Need minval < maxval, got {low} >= {high}")),
        }
    }

    /// Fills elements of type `int32` or `int64`.
    pub(crate) fn fill(self, parallel: Parallel<'_>, stream: Philox, out: ElemsMut<'_>) {
        let IntRange { low, high } = self;
        match out.dtype() {
            // The bounds have the output's dtype.
            DType::INT32 => {
                let (low, high) = (low as i32, high as i32);
                philox::fill_uniform_i32(parallel, stream, low, high, out.typed());
            }
            _ => philox::fill_uniform_i64(parallel, stream, low, high, out.typed()),
        }
    }
}

/// The values of the two scalars at input `first` and the next one.
///
/// # Errors
/// `InvalidArgument` "minval must be 0-D, got shape [1]".
pub(crate) fn bounds(ctx: &OpContext<'_>, first: usize) -> Result<[i64; 2]> {
    let mut values = [0; 2];
    for (index, (value, name)) in values.iter_mut().zip(["minval", "maxval"]).enumerate() {
        let tensor = ctx.input(first + index)?;
        if tensor.rank() != 0 {
            return Err(invalid!("{name} must be 0-D, got shape {}", tensor.shape()));
        }
        *value = tensor.to_i64s()?[0];
    }
    Ok(values)
}

/// Fills 32 or 64-bit integers, signed or not, with the words of the stream.
pub(crate) fn fill_full_range(parallel: Parallel<'_>, stream: Philox, out: ElemsMut<'_>) {
    match out.dtype().size() {
        8 => philox::fill_words_u64(parallel, stream, out.lanes()),
        _ => philox::fill_words_u32(parallel, stream, out.lanes()),
    }
}
