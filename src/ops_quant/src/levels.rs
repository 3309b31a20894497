//! `Levels`: how the integers of a quantized type stand for the reals of a range, and how tensors of them are read.
//!
//! All arithmetic is on i32, which holds the elements of every quantized type. The steps from float to double and back are those of
//! the reference, on which the last bit depends.

use tfcore_base::{DType, QInt8, QInt16, QInt32, QUInt8, QUInt16, Result, internal, require};
use tfcore_framework::OpContext;
use tfcore_tensor::{Shape, Tensor};

/// The integers of a quantized type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Levels {
    pub(crate) lowest: i64,
    pub(crate) highest: i64,
}

/// The reals that the lowest and the highest level stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) min: f32,
    pub(crate) max: f32,
}

impl Levels {
    pub(crate) const QUINT8: Levels = Levels { lowest: 0, highest: 255 };
    pub(crate) const QINT8: Levels = Levels { lowest: -128, highest: 127 };
    pub(crate) const QINT32: Levels = Levels { lowest: i32::MIN as i64, highest: i32::MAX as i64 };

    /// # Errors
    /// `Internal` for a type that is not quantized.
    pub(crate) fn of(dtype: DType) -> Result<Levels> {
        let (lowest, highest) = match dtype {
            DType::QINT8 => return Ok(Levels::QINT8),
            DType::QUINT8 => return Ok(Levels::QUINT8),
            DType::QINT32 => return Ok(Levels::QINT32),
            DType::QINT16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            DType::QUINT16 => (0, i64::from(u16::MAX)),
            _ => return Err(internal!("{dtype} is not a quantized type")),
        };
        Ok(Levels { lowest, highest })
    }

    pub(crate) fn is_signed(self) -> bool {
        self.lowest < 0
    }

    /// How many levels there are.
    pub(crate) fn steps(self) -> f64 {
        (self.highest - self.lowest + 1) as f64
    }

    /// The level for a real, which may lie outside of the type.
    pub(crate) fn unclamped(self, x: f32, range: Range) -> i64 {
        if range.min == range.max {
            return self.lowest;
        }
        let adjust = self.steps() / (self.steps() - 1.0);
        let width = f64::from(range.max - range.min) * adjust;
        let scale = self.steps() / width;
        let level = (f64::from(x) * scale).round() - (f64::from(range.min) * scale).round();
        (level as i64).saturating_add(self.lowest)
    }

    /// The level nearest to a real.
    pub(crate) fn quantize(self, x: f32, range: Range) -> i32 {
        self.unclamped(x, range).clamp(self.lowest, self.highest) as i32
    }

    /// The real that a level stands for.
    pub(crate) fn dequantize(self, level: i32, range: Range) -> f32 {
        if range.min == range.max {
            return range.min;
        }
        let adjust = self.steps() / (self.steps() - 1.0);
        let scale = f64::from(range.max - range.min) * adjust / self.steps();
        let narrow = scale as f32;
        let first = f64::from((range.min / narrow).round()) * f64::from(narrow);
        (first + (f64::from(level) - self.lowest as f64) * scale) as f32
    }

    /// The difference of the reals of neighbouring levels.
    pub(crate) fn step(self, range: Range) -> f32 {
        (range.max - range.min) / (self.highest - self.lowest) as f32
    }

    /// [`Levels::dequantize`] as the reference's vector code has it, all in float.
    pub(crate) fn dequantizer(self, range: Range) -> impl Fn(i32) -> f32 + Copy {
        let scale = (f64::from(range.max - range.min) / (self.steps() - 1.0)) as f32;
        let first = match range.min == range.max {
            true => range.min,
            false => (range.min / scale).round() * scale,
        };
        let offset = first - self.lowest as f32 * scale;
        move |level| offset + level as f32 * scale
    }

    /// [`Levels::quantize`] as the reference's vector code has it, all in float.
    pub(crate) fn quantizer(self, range: Range) -> impl Fn(f32) -> i32 + Copy {
        let scale = match range.min == range.max {
            true => 0.0,
            false => ((self.steps() - 1.0) / f64::from(range.max - range.min)) as f32,
        };
        let first = (range.min * scale).round() - self.lowest as f32;
        // Bounds that are integers of 32 bits after they became floats.
        let lower = (self.lowest as f32).max(-2.147_483_6e9);
        let upper = (self.highest as f32).min(2.147_483_5e9);
        move |x| ((x * scale).round() - first).max(lower).min(upper) as i32
    }

    /// Range of the products of `a` and `b`, which have levels of this type and of `other`, as levels of 32 bits.
    pub(crate) fn product_range(self, a: Range, other: Levels, b: Range) -> Range {
        let step = self.step(a) * other.step(b);
        Range { min: step * i32::MIN as f32, max: step * i32::MAX as f32 }
    }
}

/// The elements of a quantized tensor.
///
/// # Errors
/// `Internal` for a type that is not quantized.
pub(crate) fn read(tensor: &Tensor) -> Result<Vec<i32>> {
    Ok(match tensor.dtype() {
        DType::QINT8 => tensor.as_slice::<QInt8>()?.iter().map(|q| q.0.into()).collect(),
        DType::QUINT8 => tensor.as_slice::<QUInt8>()?.iter().map(|q| q.0.into()).collect(),
        DType::QINT16 => tensor.as_slice::<QInt16>()?.iter().map(|q| q.0.into()).collect(),
        DType::QUINT16 => tensor.as_slice::<QUInt16>()?.iter().map(|q| q.0.into()).collect(),
        DType::QINT32 => tensor.as_slice::<QInt32>()?.iter().map(|q| q.0).collect(),
        dtype => return Err(internal!("{dtype} is not a quantized type")),
    })
}

/// Sets output `index` to these elements, of which the low bits count.
///
/// # Errors
/// As [`read`].
pub(crate) fn write(
    ctx: &OpContext<'_>,
    index: usize,
    shape: Shape,
    values: impl Iterator<Item = i32>,
) -> Result<()> {
    let mut tensor = ctx.allocate_output(index, shape)?;
    macro_rules! fill {
        ($t:ident) => {
            for (to, value) in tensor.as_mut_slice::<$t>()?.iter_mut().zip(values) {
                *to = $t(value as _);
            }
        };
    }
    match tensor.dtype() {
        DType::QINT8 => fill!(QInt8),
        DType::QUINT8 => fill!(QUInt8),
        DType::QINT16 => fill!(QInt16),
        DType::QUINT16 => fill!(QUInt16),
        DType::QINT32 => fill!(QInt32),
        dtype => return Err(internal!("{dtype} is not a quantized type")),
    }
    ctx.set_output(index, tensor);
    Ok(())
}

/// The scalar float of input `index`, which is called `name`.
///
/// # Errors
/// `InvalidArgument` if it is no scalar.
pub(crate) fn scalar(ctx: &OpContext<'_>, index: usize, name: &str) -> Result<f32> {
    let tensor = ctx.input(index)?;
    require!(tensor.count() == 1, "`{name}` must be rank 0 but is rank {}", tensor.rank());
    Ok(tensor.as_slice::<f32>()?[0])
}

/// The range whose ends are the scalars `first` and `first + 1`; `name` is that of the tensor.
///
/// # Errors
/// As [`scalar`].
pub(crate) fn range(ctx: &OpContext<'_>, first: usize, name: &str) -> Result<Range> {
    let min = scalar(ctx, first, &format!("min_{name}"))?;
    Ok(Range { min, max: scalar(ctx, first + 1, &format!("max_{name}"))? })
}

/// Sets outputs `first` and `first + 1` to the ends of a range.
pub(crate) fn set_range(ctx: &OpContext<'_>, first: usize, range: Range) {
    ctx.set_output(first, Tensor::scalar(range.min));
    ctx.set_output(first + 1, Tensor::scalar(range.max));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_reals() {
        let range = Range { min: 0.0, max: 255.0 };
        assert_eq!(Levels::QUINT8.quantize(17.4, range), 17);
        assert_eq!(Levels::QUINT8.quantize(300.0, range), 255);
        assert_eq!(Levels::QUINT8.dequantize(17, range), 17.0);
        assert_eq!(Levels::QINT8.dequantize(-111, range), 17.0);
        assert_eq!(Levels::QUINT8.quantizer(range)(17.4), 17);
        assert_eq!(Levels::QINT8.dequantizer(range)(-111), 17.0);
        // A range of one number has one level.
        let point = Range { min: 2.0, max: 2.0 };
        assert_eq!(Levels::QINT8.quantize(7.0, point), -128);
        assert_eq!(Levels::QINT8.dequantize(7, point), 2.0);
    }

    #[test]
    fn ranges_of_products() {
        let unit = Range { min: 0.0, max: 255.0 };
        let product = Levels::QUINT8.product_range(unit, Levels::QUINT8, unit);
        assert_eq!(product, Range { min: -2.147_483_6e9, max: 2.147_483_6e9 });
    }
}
