//! `SobolSample`: points of a low-discrepancy sequence.

use tfcore_base::{Elem, LoopFor, Result, TypedLoop, require, try_filled};
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_ops};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{ElemsMut, PartialShape, Shape};

pub(crate) fn register(r: &mut Registry) {
    // `SobolSample(dim: int32, num_results: int32, skip: int32) -> samples: dtype`, `num_results` points of `dim`
    // coordinates in [0, 1) after the first `skip`.
    r.op("SobolSample").shape(sobol_shape).typed::<Points, (f32, f64)>("dtype", sobol);
}

fn sobol_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    for index in 0..3 {
        shape_ops::with_rank(ctx.input(index), 0)?;
    }
    let (dim, results) = (ctx.operand_dim(0)?, ctx.operand_dim(1)?);
    ctx.set_output(0, PartialShape::matrix(results, dim));
    Ok(())
}

/// The coordinates that the table has direction numbers for.
const MAX_DIM: i32 = 21_200;

/// Parameters of Joe and Kuo's `new-joe-kuo-6` for coordinates 1 to 21199, a stream of bits, lowest first. For each: the
/// inner coefficients of its primitive polynomial of degree `s` (`s - 1` bits), then of its first odd numbers `m(k)`, k
/// = 1 .. `s`, all bits but the lowest (`k - 1` bits).
static PARAMETERS: &[u8] = include_bytes!("../data/sobol.bin");

/// The number of primitive polynomials over the field of two elements, for degrees from 1.
const POLYNOMIALS: [usize; 18] =
    [1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630, 756, 1800, 2048, 7710, 7776];

/// Reads numbers of a few bits each.
struct Bits {
    position: usize,
}

impl Bits {
    fn take(&mut self, count: usize) -> u32 {
        let mut value = 0;
        for bit in 0..count {
            let at = self.position + bit;
            value |= u32::from(PARAMETERS[at / 8] >> (at % 8) & 1) << bit;
        }
        self.position += count;
        value
    }
}

/// The first `digits` direction numbers of each of `dims` coordinates: number `k` has its binary point after bit
/// `k`, counted from 1.
fn directions(dims: usize, digits: usize) -> Result<Vec<u32>> {
    let mut all = try_filled(0u32, dims * digits)?;
    all[..digits].fill(1);
    let mut bits = Bits { position: 0 };
    let degrees = (1..).zip(POLYNOMIALS).flat_map(|(s, count)| std::iter::repeat_n(s, count));
    for (numbers, s) in all.chunks_mut(digits).skip(1).zip(degrees) {
        let coefficients = bits.take(s - 1);
        for k in 0..s {
            let m = bits.take(k) << 1 | 1;
            if k < digits {
                numbers[k] = m;
            }
        }
        for k in s..digits {
            let mut m = numbers[k - s] ^ numbers[k - s] << s;
            for i in 1..s {
                m ^= (coefficients >> (i - 1) & 1) * (numbers[k - i] << i);
            }
            numbers[k] = m;
        }
    }
    Ok(all)
}

/// Fills points from number `first` on.
type Fill = fn(Parallel<'_>, &[u32], usize, i32, ElemsMut<'_>);

struct Points;

impl TypedLoop for Points {
    type Loop = Fill;
}

impl<T: Elem + Copy + num_traits::Float> LoopFor<T> for Points {
    const LOOP: Fill = |parallel, directions, digits, skip, out| {
        let dims = directions.len() / digits;
        let scale = T::from(2.0f64.powi(-(digits as i32))).unwrap_or_else(T::zero);
        let value = |point: u32| T::from(point as i32).unwrap_or_else(T::zero) * scale;
        par_chunks_mut(parallel, out.typed::<T>(), dims, 1 << 14, &|start, piece| {
            let number = skip as u32 + (start / dims) as u32;
            let mut point: Vec<u32> = directions
                .chunks_exact(digits)
                .map(|numbers| point_at(numbers, number + 1))
                .collect();
            for (row, out) in (number..).zip(piece.chunks_exact_mut(dims)) {
                // The Gray codes of neighbours differ in the lowest bit that is set in the larger one.
                if row > number {
                    let k = (row + 1).trailing_zeros() as usize;
                    let numbers = directions.chunks_exact(digits);
                    for (point, numbers) in point.iter_mut().zip(numbers) {
                        *point ^= numbers[k] << (digits - 1 - k);
                    }
                }
                for (out, &point) in out.iter_mut().zip(&point) {
                    *out = value(point);
                }
            }
        });
    };
}

/// One coordinate of point `number`, counted from 0 at the origin.
fn point_at(numbers: &[u32], number: u32) -> u32 {
    let gray = number ^ number >> 1;
    let bits = numbers.iter().enumerate().filter(|(k, _)| gray >> k & 1 == 1);
    bits.fold(0, |point, (k, &m)| point ^ m << (numbers.len() - 1 - k))
}

fn sobol(ctx: &mut OpContext<'_>, fill: Fill) -> Result<()> {
    let dim: i32 = scalar(ctx, 0, "dim")?;
    let results: i32 = scalar(ctx, 1, "num_results")?;
    let skip: i32 = scalar(ctx, 2, "skip")?;
    require!(dim >= 1, "dim must be at least one");
    require!(dim <= MAX_DIM, "dim must be at most {MAX_DIM}");
    require!(results >= 1, "num_results must be at least one");
    require!(skip >= 0, "skip must be non-negative");
    require!(
        i64::from(results) + i64::from(skip) < i64::from(i32::MAX),
        "num_results+skip must be less than {}",
        i32::MAX
    );
    ctx.try_produce(0, Shape::new(&[results.into(), dim.into()])?, |out| {
        let last = (i64::from(skip) + i64::from(results) + 1) as u64;
        let digits = 64 - last.leading_zeros() as usize;
        let directions = directions(dim as usize, digits)?;
        fill(ctx.parallel(), &directions, digits, skip, out);
        Ok(())
    })
}

fn scalar(ctx: &OpContext<'_>, index: usize, name: &str) -> Result<i32> {
    let tensor = ctx.input(index)?;
    require!(tensor.rank() == 0, "{name} must be a scalar");
    tensor.scalar_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_ends_with_the_last_coordinate() {
        // Of the last degree, Joe and Kuo's table has one more.
        assert_eq!(POLYNOMIALS.iter().sum::<usize>(), MAX_DIM as usize);
        let bits: usize = (1..)
            .zip(POLYNOMIALS)
            .map(|(s, count): (usize, _)| count * (s - 1 + s * (s - 1) / 2))
            .sum();
        assert_eq!((bits - (17 + 18 * 17 / 2)).div_ceil(8), PARAMETERS.len());
    }

    #[test]
    fn the_first_points_are_the_published_ones() {
        // The first points of the three-dimensional sequence of Joe and Kuo, times 8.
        let numbers = directions(3, 3).unwrap();
        let points: Vec<[u32; 3]> = (1..6)
            .map(|number| [0, 1, 2].map(|j| point_at(&numbers[j * 3..j * 3 + 3], number)))
            .collect();
        assert_eq!(points, [[4, 4, 4], [6, 2, 2], [2, 6, 6], [3, 3, 5], [7, 7, 1]]);
    }
}
