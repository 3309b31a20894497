//! The distributions that fill whole tensors, by dtype.

use tfcore_base::{DType, Elem, Floats, Make, Pick, Result, internal, invalid};
use tfcore_math::philox::{self, Philox, RandomFloat};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{ElemsMut, Tensor};

/// Fills elements of one float type from a stream.
pub(crate) type Fill = fn(Parallel<'_>, Philox, ElemsMut<'_>);

/// A distribution of floats without parameters.
#[derive(Clone, Copy)]
pub(crate) enum FloatDistribution {
    /// Uniform in [0, 1).
    Uniform,
    /// Standard normal.
    Normal,
    /// Standard normal, drawn again until it lies between -2 and 2.
    TruncatedNormal,
}

struct UniformForm;
struct NormalForm;
struct TruncatedNormalForm;

impl<T: Elem + RandomFloat> Make<T, Fill> for UniformForm {
    fn make() -> Fill {
        |parallel, stream, out| philox::fill_uniform::<T>(parallel, stream, out.typed())
    }
}

impl<T: Elem + RandomFloat> Make<T, Fill> for NormalForm {
    fn make() -> Fill {
        |parallel, stream, out| philox::fill_normal::<T>(parallel, stream, out.typed())
    }
}

impl<T: Elem + RandomFloat> Make<T, Fill> for TruncatedNormalForm {
    fn make() -> Fill {
        |parallel, stream, out| philox::fill_truncated_normal::<T>(parallel, stream, out.typed())
    }
}

impl FloatDistribution {
    /// The fill for `dtype`.
    ///
    /// # Errors
    /// `Internal` if it is none of [`Floats`], for which the kernels are registered.
    pub(crate) fn fill(self, dtype: DType) -> Result<Fill> {
        let fill = match self {
            FloatDistribution::Uniform => <Floats as Pick<UniformForm, Fill>>::pick(dtype),
            FloatDistribution::Normal => <Floats as Pick<NormalForm, Fill>>::pick(dtype),
            FloatDistribution::TruncatedNormal => {
                <Floats as Pick<TruncatedNormalForm, Fill>>::pick(dtype)
            }
        };
        fill.ok_or_else(|| internal!("No random numbers of type {dtype}"))
    }
}

/// The bounds of uniform integers, one below the other.
#[derive(Clone, Copy)]
pub(crate) struct IntRange {
    low: i64,
    high: i64,
}

impl IntRange {
    /// The range `[minval, maxval)` of two scalars.
    ///
    /// # Errors
    /// `InvalidArgument` if one is no scalar or the range is empty.
    pub(crate) fn new(minval: &Tensor, maxval: &Tensor) -> Result<IntRange> {
        let [low, high] = bounds(minval, maxval)?;
        match low < high {
            true => Ok(IntRange { low, high }),
            false => Err(invalid!("Need minval < maxval, got {low} >= {high}")),
        }
    }

    /// Fills an `int32` or `int64` tensor.
    pub(crate) fn fill(
        self,
        parallel: Parallel<'_>,
        stream: Philox,
        out: &mut Tensor,
    ) -> Result<()> {
        let IntRange { low, high } = self;
        match out.dtype() {
            // The bounds have the output's dtype.
            DType::INT32 => philox::fill_uniform_i32(
                parallel,
                stream,
                low as i32,
                high as i32,
                out.as_mut_slice()?,
            ),
            _ => philox::fill_uniform_i64(parallel, stream, low, high, out.as_mut_slice()?),
        }
        Ok(())
    }
}

/// The values of two scalars.
///
/// # Errors
/// `InvalidArgument` "minval must be 0-D, got shape [1]".
pub(crate) fn bounds(minval: &Tensor, maxval: &Tensor) -> Result<[i64; 2]> {
    let mut values = [0; 2];
    for (value, (tensor, name)) in values.iter_mut().zip([(minval, "minval"), (maxval, "maxval")]) {
        if tensor.rank() != 0 {
            return Err(invalid!("{name} must be 0-D, got shape {}", tensor.shape()));
        }
        *value = tensor.to_i64s()?[0];
    }
    Ok(values)
}

/// Fills a tensor of 32 or 64-bit integers, signed or not, with the words of the stream.
pub(crate) fn fill_full_range(
    parallel: Parallel<'_>,
    stream: Philox,
    out: &mut Tensor,
) -> Result<()> {
    let wide = out.dtype().size() == 8;
    let elems = out.elems_mut()?;
    match wide {
        true => philox::fill_words_u64(parallel, stream, elems.lanes()),
        false => philox::fill_words_u32(parallel, stream, elems.lanes()),
    }
    Ok(())
}
