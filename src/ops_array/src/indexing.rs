//! Indices computed from indices: `UnravelIndex`, `RandomIndexShuffle`.

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, describe_tensor, kernel, shape_ops,
};
use tfcore_tensor::{Dim, ElemsMut, PartialShape, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `UnravelIndex(indices: Tidx, dims: Tidx) -> output: Tidx`: the coordinates of the elements of these numbers.
    r.op("UnravelIndex").shape(unravel_shape).compute(unravel);
    // `RandomIndexShuffle(index: dtype, seed: Tseed, max_index: dtype; rounds) -> output: dtype`: the place of an index in a
    // random permutation of `0, 1, .., max_index`.
    r.op("RandomIndexShuffle").shape(shuffle_shape).cpu(shuffle_kernel);
}

fn unravel_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (indices, dims) = (ctx.input(0), ctx.input(1));
    if dims.rank().is_some() {
        shape_ops::with_rank(dims, 1)?;
    }
    let Some(rank) = indices.rank() else {
        return Ok(());
    };
    let dims = shape_ops::with_rank(dims, 1)?;
    let shape = match rank {
        0 => dims,
        _ => PartialShape::matrix(dims.dim(0), shape_ops::num_elements(indices)),
    };
    ctx.set_output(0, shape);
    Ok(())
}

fn unravel(ctx: &mut OpContext<'_>) -> Result<()> {
    let (indices, dims) = (ctx.input(0)?, ctx.input(1)?);
    require!(
        indices.rank() <= 1,
        "The indices can only be scalar or vector, got \"{}\"",
        indices.shape()
    );
    require!(indices.count() > 0, "received empty tensor indices: {}", describe_tensor(indices));
    require!(dims.rank() == 1, "The indices can only be 1-D, got \"{}\"", dims.shape());
    let sizes = dims.to_i64s()?;
    let limit = if dims.dtype() == DType::INT64 { i64::MAX } else { i32::MAX.into() };
    let mut product = 1i64;
    for (axis, &size) in sizes.iter().enumerate() {
        require!(
            size != 0,
            "Input dims cannot contain a dim of zero, but dims contains zero at index {axis}"
        );
        require!(size > 0, "Input dims cannot be negative. Got dim = {size} at index {axis}");
        let next = product.checked_mul(size).filter(|product| *product <= limit);
        product = next.ok_or_else(|| {
            let sizes: Vec<String> = sizes.iter().map(i64::to_string).collect();
            invalid!("Input dims product is causing integer overflow: ({})", sizes.join(" "))
        })?;
    }
    let numbers = indices.to_i64s()?;
    require!(numbers.iter().all(|&number| number < product), "index is out of bound as with dims");
    let mut shape = vec![sizes.len() as i64];
    shape.extend(indices.shape().iter());
    let mut coordinates = Vec::with_capacity(sizes.len() * numbers.len());
    let mut stride = product;
    for &size in &sizes {
        let whole = stride;
        stride /= size;
        coordinates.extend(numbers.iter().map(|number| number % whole / stride));
    }
    ctx.produce(0, Shape::new(&shape)?, |out| write_i64s(&coordinates, out))
}

/// Writes integers of 32 or 64 bits, which they must fit.
fn write_i64s(values: &[i64], out: ElemsMut<'_>) {
    match out.dtype() {
        DType::INT32 => copy_as(values, out.typed(), |value| value as i32),
        DType::UINT32 => copy_as(values, out.typed(), |value| value as u32),
        DType::UINT64 => copy_as(values, out.typed(), |value| value as u64),
        _ => copy_as(values, out.typed(), |value| value),
    }
}

fn copy_as<T>(from: &[i64], to: &mut [T], convert: fn(i64) -> T) {
    from.iter().zip(to).for_each(|(&from, to)| *to = convert(from));
}

fn shuffle_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let index = shape_ops::with_rank_at_most(ctx.input(0), 1)?;
    let seed = shape_ops::with_rank_at_most(ctx.input(1), 2)?;
    let seed = shape_ops::with_rank_at_least(&seed, 1)?;
    let max_index = shape_ops::with_rank_at_most(ctx.input(2), 1)?;
    if let Some(dims) = seed.dims() {
        let is_of_three = dims.last().and_then(|dim| dim.value()) == Some(3);
        require!(is_of_three, "Seed must have shape [3] or [n, 3] but got {}.", listed(dims));
    }
    // Those that are not the same for all results, with what each has for one result.
    let operands = [("index", &index, 0), ("seed", &seed, 1), ("max_index", &max_index, 0)];
    let mut count: Option<Dim> = None;
    for (name, shape, inner) in operands {
        let Some(&[size, ref rest @ ..]) = shape.dims().filter(|dims| dims.len() > inner) else {
            continue;
        };
        match count {
            Some(known) if known.is_known() && size.is_known() => require!(
                known.value() == size.value(),
                "{} has shape {} but must have shape {}. since index had shape [{known}].",
                if name == "seed" { "Seed" } else { name },
                listed(&[&[size], rest].concat()),
                listed(&[&[known], rest].concat())
            ),
            Some(known) if known.is_known() => {}
            _ => count = Some(size),
        }
    }
    let all_known = operands.iter().all(|(_, shape, _)| shape.rank().is_some());
    match count {
        Some(count) => ctx.set_output(0, PartialShape::vector(count)),
        None if all_known => ctx.set_output(0, PartialShape::scalar()),
        None => {}
    }
    Ok(())
}

/// Dimensions as this op's messages show them.
fn listed(dims: &[Dim]) -> String {
    let dims: Vec<String> = dims.iter().map(|dim| dim.to_i64().to_string()).collect();
    format!("[{}]", dims.join(", "))
}

fn shuffle_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let rounds = init.attrs.int("rounds")?;
    kernel(move |ctx| {
        require!(
            rounds >= 4 && rounds % 2 == 0,
            "rounds must be even and at least 4, but got {rounds}"
        );
        let (index, seed, max_index) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        let count = index.count().max(max_index.count()).max(seed.count() / 3);
        let fits = |tensor: &Tensor| match tensor.shape().dims() {
            [] => true,
            [size] => *size as usize == count,
            _ => false,
        };
        require!(fits(index), "Index must be a scalar or vector.");
        let seed_fits = match *seed.shape().dims() {
            [3] => true,
            [rows, 3] => rows as usize == count,
            _ => false,
        };
        require!(
            seed_fits,
            "Seed must be a vector of size [3] or a matrix of size [{count}, 3] but got {}.",
            seed.shape()
        );
        require!(
            fits(max_index),
            "Maxval must be a scalar or a vector of the same size as index but got {}",
            max_index.shape()
        );
        let is_scalar = index.rank() == 0 && seed.rank() == 1 && max_index.rank() == 0;
        let shape = if is_scalar { Shape::scalar() } else { Shape::vector(count) };
        let seeds = bits(seed)?;
        let (indices, limits) = (bits(index)?, bits(max_index)?);
        let at = |values: &[u64], place: usize| values[if values.len() == 1 { 0 } else { place }];
        let mut out = Vec::with_capacity(count);
        for place in 0..count {
            let (index, limit) = (at(&indices, place), at(&limits, place));
            require!(limit >= index, "max_index must be >= index, but {limit} < {index}");
            let row = if seed.rank() == 1 { 0 } else { place * 3 };
            let key = [seeds[row], seeds[row + 1], seeds[row + 2]].map(|word| word as u32);
            out.push(shuffled(index, key, limit, rounds as usize) as i64);
        }
        ctx.produce(0, shape, |elems| write_i64s(&out, elems))
    })
}

/// The integers of a tensor, with the signs extended.
fn bits(tensor: &Tensor) -> Result<Vec<u64>> {
    Ok(match tensor.dtype() {
        DType::UINT32 => tensor.as_slice::<u32>()?.iter().map(|&value| value.into()).collect(),
        DType::UINT64 => tensor.as_slice::<u64>()?.to_vec(),
        _ => tensor.to_i64s()?.into_iter().map(|value| value as u64).collect(),
    })
}

/// The bits of the smallest block of the cipher: with fewer, its permutations show patterns.
const MIN_BLOCK: u32 = 16;

/// The place of `index`, which is at most `max_index`, by encrypting it with a Simon cipher of a block that is large enough until the
/// result is at most `max_index` again.
fn shuffled(index: u64, key: [u32; 3], max_index: u64, rounds: usize) -> u64 {
    if max_index == 0 {
        return 0;
    }
    // As the reference rounds: through a float, of which the logarithm may come out as the next integer.
    let bits = (max_index as f64).log2().ceil() as u32;
    let word = Word((bits + bits % 2).clamp(MIN_BLOCK, 64) / 2);
    let keys = word.round_keys(key, rounds);
    let mut at = index;
    loop {
        at = word.encrypt(at, &keys);
        // A permutation of the block comes back to the index at the latest, unless that is one more than the block holds; then the
        // whole block is in range.
        if at <= max_index {
            return at;
        }
    }
}

/// Words of so many bits, half a block: 8 to 32.
#[derive(Clone, Copy)]
struct Word(u32);

impl Word {
    fn cut(self, value: u64) -> u64 {
        value & ((1 << self.0) - 1)
    }

    fn rotated_left(self, value: u64, by: u32) -> u64 {
        self.cut(value << by) | value >> (self.0 - by)
    }

    fn rotated_right(self, value: u64, by: u32) -> u64 {
        value >> by | self.cut(value << (self.0 - by))
    }

    /// The keys of the rounds, of which the first three are the seed.
    fn round_keys(self, key: [u32; 3], rounds: usize) -> Vec<u64> {
        // The constants of the cipher: all bits but the last two, and a sequence of bits.
        let constant = self.cut(0xffff_fffc);
        let mut sequence = self.cut(0x7369_f885_192c_0ef5);
        let mut keys: Vec<u64> = key.iter().map(|&word| self.cut(word.into())).collect();
        for round in 3..rounds {
            let last = keys[round - 1];
            let mixed = self.rotated_right(last, 3) ^ self.rotated_right(last, 4);
            keys.push(constant ^ (sequence & 1) ^ keys[round - 3] ^ mixed);
            sequence >>= 1;
        }
        keys
    }

    fn mixed(self, value: u64) -> u64 {
        (self.rotated_left(value, 1) & self.rotated_left(value, 8)) ^ self.rotated_left(value, 2)
    }

    fn encrypt(self, value: u64, keys: &[u64]) -> u64 {
        let (mut left, mut right) = (self.cut(value >> self.0), self.cut(value));
        for pair in keys.chunks_exact(2) {
            left ^= self.mixed(right) ^ pair[0];
            right ^= self.mixed(left) ^ pair[1];
        }
        left << self.0 | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_framework::AttrValue;

    #[test]
    fn coordinates() {
        let attrs = [("Tidx", of(DType::INT32))];
        let unravel = |indices: Tensor, dims: &[i32]| [indices, ints(dims)];
        let found = values::<i32>("UnravelIndex", &attrs, &unravel(ints(&[5, 7, 23]), &[2, 3, 4]));
        assert_eq!(found.unwrap(), (vec![3, 3], vec![0, 0, 1, 1, 1, 2, 1, 3, 3]));
        let found = values::<i32>("UnravelIndex", &attrs, &unravel(Tensor::scalar(5), &[2, 3]));
        assert_eq!(found.unwrap(), (vec![2], vec![1, 2]));
        let cases = [
            (unravel(ints(&[6]), &[2, 3]), "index is out of bound as with dims"),
            (
                unravel(ints(&[1]), &[2, 0]),
                "Input dims cannot contain a dim of zero, but dims contains zero at index 1",
            ),
            (
                unravel(ints(&[1]), &[i32::MAX, 2]),
                "Input dims product is causing integer overflow: (2147483647 2)",
            ),
        ];
        for (inputs, message) in cases {
            assert_eq!(failure("UnravelIndex", &attrs, &inputs), message);
        }
        assert_eq!(shapes("UnravelIndex", &attrs, "[5];[3]", &[]), "[3,5]");
    }

    #[test]
    fn a_shuffle_is_a_permutation() {
        for max_index in [1, 6, 255, 65_536] {
            let mut places: Vec<u64> =
                (0..=max_index).map(|index| shuffled(index, [7, 11, 13], max_index, 4)).collect();
            if max_index < 65_536 {
                places.sort_unstable();
                assert!(places.iter().copied().eq(0..=max_index), "{max_index}");
            }
        }
    }

    /// Values of TensorFlow 2.21.
    #[test]
    fn shuffles_are_those_of_tensorflow() {
        let attrs = [
            ("dtype", of(DType::INT64)),
            ("Tseed", of(DType::INT64)),
            ("rounds", AttrValue::Int(4)),
        ];
        let inputs =
            [tensor(&[3], &[1i64, 2, 3]), tensor(&[3], &[-1i64, 2, 3]), Tensor::scalar(1i64 << 62)];
        let found = values::<i64>("RandomIndexShuffle", &attrs, &inputs).unwrap();
        let expected = [4611672593032289891, 4611659192735899784, 4611654863409386961];
        assert_eq!(found, (vec![3], expected.to_vec()));
        let cases = [
            ("[];[5,3];[]", "[5]"),
            ("?;[5,3];?", "[5]"),
            ("?;[3];[]", "?"),
            ("[];[3];[]", "[]"),
            ("[];[?,?];[]", "Seed must have shape [3] or [n, 3] but got [-1, -1]."),
            (
                "[4];[5,3];[]",
                "Seed has shape [5, 3] but must have shape [4, 3]. since index had shape [4].",
            ),
        ];
        for (inputs, expected) in cases {
            assert_eq!(shapes("RandomIndexShuffle", &attrs, inputs, &[]), expected);
        }
    }
}
