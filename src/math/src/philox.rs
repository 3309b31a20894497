//! TensorFlow's random streams: Philox4x32-10 and the distributions drawn from it, value for value.
//!
//! A stream is a [`Philox`]: a key and a 128-bit counter, each step of which gives four 32-bit words. Outputs are made in
//! groups, one group from one step (from as many as it takes for [`fill_truncated_normal`], which sets aside
//! [`RESERVED_PER_OUTPUT`] words for each output). Group i depends on the start of the stream and on i alone, so
//! a fill gives the same values with any number of threads.
//!
//! A fill leaves its generator where it was. A stateful op then advances by [`Philox::skip_outputs`].

use half::{bf16, f16};

use crate::isa::vectorize;
use crate::pool::{Parallel, par_chunks_mut};

/// Words that an op sets aside for each output, since a draw by rejection may need many.
pub const RESERVED_PER_OUTPUT: u64 = 256;

/// Groups that are worth a thread of their own.
const GROUPS_PER_CHUNK: usize = 2048;

/// Groups that are drawn side by side, so that the compiler makes vectors of them.
const BLOCK: usize = 16;

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// A position in a random stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Philox {
    pub key: [u32; 2],
    /// Least significant word first.
    pub counter: [u32; 4],
}

impl Philox {
    /// The start of the stream of an op with the attributes `seed` and `seed2`.
    pub fn new(seed: u64, seed2: u64) -> Self {
        let ([k0, k1], [c2, c3]) = (words(seed), words(seed2));
        Philox { key: [k0, k1], counter: [0, 0, c2, c3] }
    }

    /// Advances by `steps` groups of four words. The counter carries through all its words.
    pub fn skip(&mut self, steps: u64) {
        let [c0, c1, c2, c3] = self.counter.map(u128::from);
        let counter = (c0 | c1 << 32 | c2 << 64 | c3 << 96).wrapping_add(u128::from(steps));
        self.counter = [0, 32, 64, 96].map(|shift| (counter >> shift) as u32);
    }

    /// Advances past what a stateful op sets aside for `outputs` values.
    pub fn skip_outputs(&mut self, outputs: u64) {
        self.skip(outputs.wrapping_mul(RESERVED_PER_OUTPUT));
    }

    /// The next four words.
    pub fn next4(&mut self) -> [u32; 4] {
        let out = scramble(self.key, self.counter.map(|word| [word]));
        self.skip(1);
        out.map(|[word]| word)
    }

    /// The generator `steps` groups further on.
    fn after(mut self, steps: u64) -> Self {
        self.skip(steps);
        self
    }

    /// The next [`BLOCK`] groups, worked on side by side: word by word, then group by group.
    #[inline(always)]
    fn next_block(&mut self) -> [[u32; BLOCK]; 4] {
        let mut x = [[0; BLOCK]; 4];
        for i in 0..BLOCK {
            for word in 0..4 {
                x[word][i] = self.counter[word];
            }
            self.skip(1);
        }
        scramble(self.key, x)
    }
}

/// Turns counters into random words.
#[inline(always)]
fn scramble<const N: usize>(mut key: [u32; 2], mut x: [[u32; N]; 4]) -> [[u32; N]; 4] {
    for _ in 0..ROUNDS {
        for i in 0..N {
            let p0 = u64::from(MULTIPLIERS[0]) * u64::from(x[0][i]);
            let p1 = u64::from(MULTIPLIERS[1]) * u64::from(x[2][i]);
            x[0][i] = (p1 >> 32) as u32 ^ x[1][i] ^ key[0];
            x[1][i] = p1 as u32;
            x[2][i] = (p0 >> 32) as u32 ^ x[3][i] ^ key[1];
            x[3][i] = p0 as u32;
        }
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    x
}

/// The low and the high word.
fn words(v: u64) -> [u32; 2] {
    [v as u32, (v >> 32) as u32]
}

/// A uniform float in [0, 1) from the low 23 bits.
pub fn to_f32(x: u32) -> f32 {
    f32::from_bits(0x3f80_0000 | x & 0x7f_ffff) - 1.0
}

/// A uniform double in [0, 1) from the low 20 bits of `high` and all of `low`.
pub fn to_f64(high: u32, low: u32) -> f64 {
    f64::from_bits(0x3ff << 52 | u64::from(high & 0xf_ffff) << 32 | u64::from(low)) - 1.0
}

/// A uniform half in [0, 1) from the low 10 bits.
pub fn to_f16(x: u32) -> f16 {
    f16::from_f32(f16::from_bits(0x3c00 | x as u16 & 0x3ff).to_f32() - 1.0)
}

/// A uniform bfloat16 in [0, 1) from the low 7 bits.
pub fn to_bf16(x: u32) -> bf16 {
    bf16::from_f32(bf16::from_bits(0x3f80 | x as u16 & 0x7f).to_f32() - 1.0)
}

/// Two independent standard normal floats, by the method of Box and Muller.
pub fn normal_f32(x0: u32, x1: u32) -> [f32; 2] {
    let radius = (-2.0 * to_f32(x0).max(1.0e-7).ln()).sqrt();
    // The reference forms the angle in double precision: near multiples of π the sine shows the difference.
    let angle = (std::f64::consts::TAU * f64::from(to_f32(x1))) as f32;
    let (sin, cos) = angle.sin_cos();
    [sin * radius, cos * radius]
}

/// Two independent standard normal doubles, by the method of Box and Muller.
pub fn normal_f64(x: [u32; 4]) -> [f64; 2] {
    let radius = (-2.0 * to_f64(x[0], x[1]).max(1.0e-7).ln()).sqrt();
    let (sin, cos) = (std::f64::consts::TAU * to_f64(x[2], x[3])).sin_cos();
    [sin * radius, cos * radius]
}

/// A floating point type that can be drawn.
pub trait RandomFloat: Copy + Send + 'static {
    /// What one group holds: `[Self; 4]`, or `[f64; 2]`.
    type Group: AsRef<[Self]>;

    /// Values uniform in [0, 1).
    fn uniform(words: [u32; 4]) -> Self::Group;

    /// Standard normal values.
    fn normal(words: [u32; 4]) -> Self::Group;

    /// A group of standard normal values between -2 and 2, from as many words of `stream` as it takes.
    fn truncated_normal(stream: &mut Philox) -> Self::Group;
}

/// A group of four floats, with candidates drawn in pairs from consecutive words.
fn truncated_f32(stream: &mut Philox) -> [f32; 4] {
    let mut group = [0.0; 4];
    let mut filled = 0;
    loop {
        let [x0, x1, x2, x3] = stream.next4();
        for candidate in [normal_f32(x0, x1), normal_f32(x2, x3)].into_iter().flatten() {
            if candidate.abs() < 2.0 {
                group[filled] = candidate;
                filled += 1;
                if filled == group.len() {
                    return group;
                }
            }
        }
    }
}

fn normals_f32(x: [u32; 4]) -> [f32; 4] {
    let ([a, b], [c, d]) = (normal_f32(x[0], x[1]), normal_f32(x[2], x[3]));
    [a, b, c, d]
}

impl RandomFloat for f64 {
    type Group = [f64; 2];

    fn uniform(x: [u32; 4]) -> [f64; 2] {
        [to_f64(x[0], x[1]), to_f64(x[2], x[3])]
    }

    fn normal(x: [u32; 4]) -> [f64; 2] {
        normal_f64(x)
    }

    fn truncated_normal(stream: &mut Philox) -> [f64; 2] {
        let mut group = [0.0; 2];
        let mut filled = 0;
        loop {
            for candidate in normal_f64(stream.next4()) {
                if candidate.abs() < 2.0 {
                    group[filled] = candidate;
                    filled += 1;
                    if filled == group.len() {
                        return group;
                    }
                }
            }
        }
    }
}

macro_rules! random_float {
    ($t:ty, $uniform:ident, $from_f32:expr) => {
        impl RandomFloat for $t {
            type Group = [$t; 4];

            fn uniform(words: [u32; 4]) -> [$t; 4] {
                words.map($uniform)
            }

            fn normal(words: [u32; 4]) -> [$t; 4] {
                normals_f32(words).map($from_f32)
            }

            fn truncated_normal(stream: &mut Philox) -> [$t; 4] {
                truncated_f32(stream).map($from_f32)
            }
        }
    };
}
random_float!(f32, to_f32, |v| v);
random_float!(f16, to_f16, f16::from_f32);
random_float!(bf16, to_bf16, bf16::from_f32);

/// Fills `out` with values uniform in [0, 1).
pub fn fill_uniform<T: RandomFloat>(par: Parallel, start: Philox, out: &mut [T]) {
    fill(par, start, out, T::uniform);
}

/// Fills `out` with standard normal values.
pub fn fill_normal<T: RandomFloat>(par: Parallel, start: Philox, out: &mut [T]) {
    fill(par, start, out, T::normal);
}

/// Fills `out` with standard normal values between -2 and 2.
pub fn fill_truncated_normal<T: RandomFloat>(par: Parallel, start: Philox, out: &mut [T]) {
    let group = size_of::<T::Group>() / size_of::<T>();
    let steps = RESERVED_PER_OUTPUT * group as u64 / 4;
    par_chunks_mut(par, out, group, group * GROUPS_PER_CHUNK / 4, &|first, piece| {
        let mut position = start.after((first / group) as u64 * steps);
        for out in piece.chunks_mut(group) {
            let mut stream = position;
            position.skip(steps);
            out.copy_from_slice(&T::truncated_normal(&mut stream).as_ref()[..out.len()]);
        }
    });
}

/// Fills `out` with integers in [`low`, `high`). Panics unless `low < high`.
pub fn fill_uniform_i32(par: Parallel, start: Philox, low: i32, high: i32, out: &mut [i32]) {
    assert!(low < high, "fill_uniform_i32: empty range");
    let range = high.wrapping_sub(low) as u32;
    fill(par, start, out, |words| words.map(|x| low.wrapping_add((x % range) as i32)));
}

/// Fills `out` with integers in [`low`, `high`). Panics unless `low < high`.
pub fn fill_uniform_i64(par: Parallel, start: Philox, low: i64, high: i64, out: &mut [i64]) {
    assert!(low < high, "fill_uniform_i64: empty range");
    let range = high.wrapping_sub(low) as u64;
    fill(par, start, out, |words| wide(words).map(|x| low.wrapping_add((x % range) as i64)));
}

/// Fills `out` with the words of the stream: integers over the full range of 32 bits.
pub fn fill_words_u32(par: Parallel, start: Philox, out: &mut [u32]) {
    fill(par, start, out, |words| words);
}

/// Fills `out` with pairs of words, low word first: integers over the full range of 64 bits.
pub fn fill_words_u64(par: Parallel, start: Philox, out: &mut [u64]) {
    fill(par, start, out, wide);
}

fn wide(x: [u32; 4]) -> [u64; 2] {
    [u64::from(x[0]) | u64::from(x[1]) << 32, u64::from(x[2]) | u64::from(x[3]) << 32]
}

/// Fills `out` group by group; group i comes from the words of step i after `start`.
fn fill<T: Copy + Send, G: AsRef<[T]>>(
    par: Parallel,
    start: Philox,
    out: &mut [T],
    draw: impl Fn([u32; 4]) -> G + Sync,
) {
    let group = size_of::<G>() / size_of::<T>();
    par_chunks_mut(par, out, group, group * GROUPS_PER_CHUNK, &|first, piece| {
        let mut stream = start.after((first / group) as u64);
        for block in piece.chunks_mut(group * BLOCK) {
            let words = vectorize(
                #[inline(always)]
                || stream.next_block(),
            );
            for (i, out) in block.chunks_mut(group).enumerate() {
                out.copy_from_slice(&draw(words.map(|word| word[i])).as_ref()[..out.len()]);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    const SEEDS: (u64, u64) = (87_654_321, 42);

    /// The values of the first and of the second run of an op with shape [10].
    fn runs<T: Copy + Default, const N: usize>(draw: impl Fn(Philox, &mut [T])) -> [[T; N]; 2] {
        let mut stream = Philox::new(SEEDS.0, SEEDS.1);
        let mut out = [[T::default(); N]; 2];
        for out in &mut out {
            draw(stream, out);
            stream.skip_outputs(10);
        }
        out
    }

    fn close<T: Into<f64> + Copy>(
        what: &str,
        actual: &[[T; 6]; 2],
        expected: &[[f64; 6]; 2],
        tolerance: f64,
    ) {
        for (run, (actual, expected)) in actual.iter().zip(expected).enumerate() {
            for (i, (&a, &e)) in actual.iter().zip(expected).enumerate() {
                let a: f64 = a.into();
                assert!(
                    (a - e).abs() <= tolerance * e.abs(),
                    "{what}, run {run}, value {i}: {a} for {e}"
                );
            }
        }
    }

    // The expected values below are what TensorFlow 2.21 gives for these seeds.

    #[test]
    fn uniform_values_are_tensorflows() {
        close(
            "f32",
            &runs(|s, out| fill_uniform::<f32>(Parallel::SERIAL, s, out)),
            &[
                [
                    0.9522714614868164,
                    0.6774077415466309,
                    0.7953182458877563,
                    0.7557817697525024,
                    0.475955605506897,
                    0.6310148239135742,
                ],
                [
                    0.06601464748382568,
                    0.5330828428268433,
                    0.7528594732284546,
                    0.8563590049743652,
                    0.07525813579559326,
                    0.3525867462158203,
                ],
            ],
            0.0,
        );
        close(
            "f64",
            &runs(|s, out| fill_uniform::<f64>(Parallel::SERIAL, s, out)),
            &[
                [
                    0.6181726095777149,
                    0.36254602252651336,
                    0.8076457653772362,
                    0.4881631901754211,
                    0.6897747269334924,
                    0.7535973263109803,
                ],
                [
                    0.5281179706250929,
                    0.0228763071007263,
                    0.6020654278855524,
                    0.6760187250387741,
                    0.5630916543409179,
                    0.6497927850342919,
                ],
            ],
            0.0,
        );
        close(
            "f16",
            &runs(|s, out| fill_uniform::<f16>(Parallel::SERIAL, s, out)),
            &[
                [0.0078125, 0.32421875, 0.2470703125, 0.3642578125, 0.0283203125, 0.2734375],
                [0.7919921875, 0.0146484375, 0.4248046875, 0.29296875, 0.5146484375, 0.390625],
            ],
            0.0,
        );
        close(
            "bf16",
            &runs(|s, out| fill_uniform::<bf16>(Parallel::SERIAL, s, out)),
            &[
                [0.0625, 0.59375, 0.9765625, 0.9140625, 0.2265625, 0.1875],
                [0.3359375, 0.1171875, 0.3984375, 0.34375, 0.1171875, 0.125],
            ],
            0.0,
        );
    }

    #[test]
    fn normal_values_are_tensorflows() {
        close(
            "f32",
            &runs(|s, out| fill_normal::<f32>(Parallel::SERIAL, s, out)),
            &[
                [
                    -0.2807750701904297,
                    -0.13775210082530975,
                    -0.6763296127319336,
                    0.024580413475632668,
                    -0.8935845494270325,
                    -0.8284732699394226,
                ],
                [
                    -0.4811500608921051,
                    -2.281282901763916,
                    -0.5914120078086853,
                    0.4668888747692108,
                    1.8181930780410767,
                    -1.3666880130767822,
                ],
            ],
            3e-7,
        );
        close(
            "f64",
            &runs(|s, out| fill_normal::<f64>(Parallel::SERIAL, s, out)),
            &[
                [
                    0.7456244549943906,
                    -0.6371964266311646,
                    0.04856931364585292,
                    -0.6518469707884212,
                    -0.861626965289776,
                    0.01947838523914368,
                ],
                [
                    0.16186124364153112,
                    1.1183345294872036,
                    -0.9004750700057771,
                    -0.4515782978239568,
                    -0.8662346226294153,
                    -0.6310810677380678,
                ],
            ],
            1e-15,
        );
        close(
            "f16",
            &runs(|s, out| fill_normal::<f16>(Parallel::SERIAL, s, out)),
            &[
                [
                    -0.28076171875,
                    -0.1376953125,
                    -0.67626953125,
                    0.0245819091796875,
                    -0.8935546875,
                    -0.82861328125,
                ],
                [
                    -0.481201171875,
                    -2.28125,
                    -0.59130859375,
                    0.466796875,
                    1.818359375,
                    -1.3662109375,
                ],
            ],
            0.0,
        );
    }

    #[test]
    fn truncated_normal_values_are_tensorflows() {
        close(
            "f32",
            &runs(|s, out| fill_truncated_normal::<f32>(Parallel::SERIAL, s, out)),
            &[
                [
                    -0.2807750701904297,
                    -0.13775210082530975,
                    -0.6763296127319336,
                    0.024580413475632668,
                    -0.4684547185897827,
                    -0.002466318430379033,
                ],
                [
                    -0.4811500608921051,
                    -0.5914120078086853,
                    0.4668888747692108,
                    1.8181930780410767,
                    -1.0811662673950195,
                    -0.36008700728416443,
                ],
            ],
            3e-7,
        );
        close(
            "f64",
            &runs(|s, out| fill_truncated_normal::<f64>(Parallel::SERIAL, s, out)),
            &[
                [
                    0.7456244549943906,
                    -0.6371964266311646,
                    1.0386338435537557,
                    0.8440623680320994,
                    -0.10011952002828886,
                    1.884183291284533,
                ],
                [
                    0.16186124364153112,
                    1.1183345294872036,
                    0.3711157701930472,
                    1.574023117315092,
                    -1.7476761642135938,
                    0.6186477944844718,
                ],
            ],
            1e-15,
        );
        close(
            "bf16",
            &runs(|s, out| fill_truncated_normal::<bf16>(Parallel::SERIAL, s, out)),
            &[
                [
                    -0.28125,
                    -0.1376953125,
                    -0.67578125,
                    0.0245361328125,
                    -0.46875,
                    -0.002471923828125,
                ],
                [-0.48046875, -0.58984375, 0.466796875, 1.8203125, -1.078125, -0.359375],
            ],
            0.0,
        );
    }

    #[test]
    fn integers_are_tensorflows() {
        let narrow = runs(|s, out| fill_uniform_i32(Parallel::SERIAL, s, -5, 1000, out));
        assert_eq!(
            narrow,
            [[627, 59, 518, 749, 591, 573, 268], [45, 995, 577, 662, 759, 871, 831]]
        );
        let wide = runs(|s, out| fill_uniform_i64(Parallel::SERIAL, s, -5, 1000, out));
        assert_eq!(
            wide,
            [[796, 342, 704, 246, 836, 675, 765], [550, 344, 120, 345, 984, 828, 370]]
        );
        let mut extremes = [0; 64];
        fill_uniform_i32(Parallel::SERIAL, Philox::new(1, 2), i32::MIN, i32::MAX, &mut extremes);
        assert!(extremes.iter().any(|&v| v < 0) && extremes.iter().any(|&v| v > 0));
    }

    #[test]
    fn threads_change_nothing() {
        let pool = Pool::new(5);
        let start = Philox { key: [7, 9], counter: [u32::MAX - 3, u32::MAX, u32::MAX, 1] };
        let mut pairs = vec![];
        for par in [Parallel::SERIAL, Parallel::new(&pool)] {
            let (mut floats, mut doubles, mut integers) =
                (vec![0.0f32; 100_003], vec![0.0f64; 50_001], vec![0; 77_777]);
            fill_truncated_normal(par, start, &mut floats);
            fill_normal(par, start, &mut doubles);
            fill_uniform_i64(par, start, -10, 1 << 40, &mut integers);
            pairs.push((floats, doubles, integers));
        }
        assert!(pairs[0] == pairs[1]);
    }

    #[test]
    fn skipping_is_drawing() {
        let start = Philox { key: [1, 2], counter: [u32::MAX - 1, u32::MAX, u32::MAX, 5] };
        let (mut drawn, mut skipped) = (start, start);
        for _ in 0..5 {
            drawn.next4();
        }
        skipped.skip(5);
        assert_eq!(drawn, skipped);
        assert_eq!(skipped.counter, [3, 0, 0, 6]);
    }
}
