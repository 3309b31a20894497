//! Hash functions of bytes whose values are part of models: buckets of strings, fingerprints, crossed columns.
//!
//! They are fixed for all time, unlike the hashes of hash tables.

use std::num::Wrapping as W;

const K0: W<u64> = W(0xc3a5_c85c_97cb_3127);
const K1: W<u64> = W(0xb492_b66f_be98_f273);
const K2: W<u64> = W(0x9ae1_6a3b_2f90_404f);
const MURMUR: W<u64> = W(0xc6a4_a793_5bd1_e995);

type U = W<u64>;

fn word(s: &[u8], at: usize) -> U {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&s[at..at + 8]);
    W(u64::from_le_bytes(bytes))
}

fn half_word(s: &[u8], at: usize) -> U {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&s[at..at + 4]);
    W(u64::from(u32::from_le_bytes(bytes)))
}

fn rotate(value: U, by: u32) -> U {
    W(value.0.rotate_right(by))
}

fn mix(value: U) -> U {
    value ^ (value >> 47)
}

fn of_two(u: U, v: U, factor: U) -> U {
    let a = mix((u ^ v) * factor);
    mix((v ^ a) * factor) * factor
}

/// FarmHash's `Fingerprint64`.
pub fn fingerprint64(s: &[u8]) -> u64 {
    match s.len() {
        0..=16 => up_to_16(s),
        17..=32 => up_to_32(s),
        33..=64 => up_to_64(s),
        _ => of_blocks(s),
    }
    .0
}

fn up_to_16(s: &[u8]) -> U {
    let len = s.len();
    let size = W(len as u64);
    let factor = K2 + size * W(2);
    match len {
        8.. => {
            let (a, b) = (word(s, 0) + K2, word(s, len - 8));
            of_two(rotate(b, 37) * factor + a, (rotate(a, 25) + b) * factor, factor)
        }
        4.. => of_two(size + (half_word(s, 0) << 3), half_word(s, len - 4), factor),
        1.. => {
            let [a, b, c] = [s[0], s[len >> 1], s[len - 1]].map(|byte| W(u64::from(byte)));
            let (y, z) = (a + (b << 8), size + (c << 2));
            mix((y * K2) ^ (z * K0)) * K2
        }
        0 => K2,
    }
}

/// What the fingerprints of 17 to 64 bytes make of the first and the last 16 bytes.
fn of_ends(s: &[u8], first: U) -> (U, U, U, U) {
    let len = s.len();
    let factor = K2 + W(len as u64) * W(2);
    let a = word(s, 0) * first;
    let b = word(s, 8);
    let c = word(s, len - 8) * factor;
    let d = word(s, len - 16) * K2;
    let u = rotate(a + b, 43) + rotate(c, 30) + d;
    let v = a + rotate(b + K2, 18) + c;
    (u, v, a, factor)
}

fn up_to_32(s: &[u8]) -> U {
    let (u, v, _, factor) = of_ends(s, K1);
    of_two(u, v, factor)
}

fn up_to_64(s: &[u8]) -> U {
    let len = s.len();
    let (y, v, a, factor) = of_ends(s, K2);
    let z = of_two(y, v, factor);
    let e = word(s, 16) * factor;
    let f = word(s, 24);
    let g = (y + word(s, len - 32)) * factor;
    let h = (z + word(s, len - 24)) * factor;
    of_two(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + a, 18) + g, factor)
}

fn weak(s: &[u8], at: usize, a: U, b: U) -> (U, U) {
    let [w, x, y, z] = [0, 8, 16, 24].map(|offset| word(s, at + offset));
    let mut a = a + w;
    let mut b = rotate(b + a + z, 21);
    let c = a;
    a += x + y;
    b += rotate(a, 44);
    (a + z, b + c)
}

fn of_blocks(s: &[u8]) -> U {
    let len = s.len();
    let seed = W(81);
    let mut x = seed * K2 + word(s, 0);
    let mut y = seed * K1 + W(113);
    let mut z = mix(y * K2 + W(113)) * K2;
    let (mut v, mut w) = ((W(0), W(0)), (W(0), W(0)));
    let end = (len - 1) / 64 * 64;
    for at in (0..end).step_by(64) {
        x = rotate(x + y + v.0 + word(s, at + 8), 37) * K1;
        y = rotate(y + v.1 + word(s, at + 48), 42) * K1;
        x ^= w.1;
        y += v.0 + word(s, at + 40);
        z = rotate(z + w.0, 33) * K1;
        v = weak(s, at, v.1 * K1, x + w.0);
        w = weak(s, at + 32, z + w.1, y + word(s, at + 16));
        (x, z) = (z, x);
    }
    let factor = K1 + ((z & W(0xff)) << 1);
    let at = len - 64;
    w.0 += W(((len - 1) & 63) as u64);
    v.0 += w.0;
    w.0 += v.0;
    x = rotate(x + y + v.0 + word(s, at + 8), 37) * factor;
    y = rotate(y + v.1 + word(s, at + 48), 42) * factor;
    x ^= w.1 * W(9);
    y += v.0 * W(9) + word(s, at + 40);
    z = rotate(z + w.0, 33) * factor;
    v = weak(s, at, v.1 * factor, x + w.0);
    w = weak(s, at + 32, z + w.1, y + word(s, at + 16));
    (x, z) = (z, x);
    of_two(of_two(v.0, w.0, factor) + mix(y) * K0 + z, of_two(v.1, w.1, factor) + x, factor)
}

/// The fingerprint of a sequence of which `head` is that of all but the last part and `tail` that of the last.
pub fn concatenated(head: u64, tail: u64) -> u64 {
    let joined = W(head) ^ MURMUR ^ (mix(W(tail) * MURMUR) * MURMUR);
    mix(mix(joined * MURMUR) * MURMUR).0
}

/// MurmurHash64A with the seed that TensorFlow gives it.
pub fn murmur64(s: &[u8]) -> u64 {
    let mut h = W(0x00DE_CAFC_AFFE) ^ (W(s.len() as u64) * MURMUR);
    let (words, rest) = s.as_chunks::<8>();
    for word in words {
        let mut k = W(u64::from_le_bytes(*word)) * MURMUR;
        k = mix(k) * MURMUR;
        h = (h ^ k) * MURMUR;
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        h = (h ^ W(u64::from_le_bytes(last))) * MURMUR;
    }
    mix(mix(h) * MURMUR).0
}

/// SipHash-2-4 with a key of two words.
pub fn sip_hash(key: [u64; 2], s: &[u8]) -> u64 {
    let mut state = Sip([
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ]);
    let (words, rest) = s.as_chunks::<8>();
    words.iter().for_each(|word| state.take(u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = s.len() as u8;
    state.take(u64::from_le_bytes(last));
    state.0[2] ^= 0xff;
    (0..4).for_each(|_| state.round());
    state.0.iter().fold(0, |all, one| all ^ one)
}

struct Sip([u64; 4]);

impl Sip {
    fn take(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }

    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        a = a.wrapping_add(b);
        c = c.wrapping_add(d);
        b = b.rotate_left(13) ^ a;
        d = d.rotate_left(16) ^ c;
        a = a.rotate_left(32).wrapping_add(d);
        c = c.wrapping_add(b);
        d = d.rotate_left(21) ^ a;
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.0 = [a, b, c, d];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first vectors of the paper that describes SipHash: key and message are the bytes 0, 1, 2, ...
    #[test]
    fn sip_hash_has_its_published_values() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(sip_hash(key, &message), 0xa129_ca61_49be_45e5);
        assert_eq!(sip_hash(key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(sip_hash(key, &message[..8]), 0x93f5_f579_9a93_2462);
    }

    /// Values that the documentation of TensorFlow's string ops gives: `["Hello", "TensorFlow", "2.x"]` in three buckets.
    #[test]
    fn fingerprints_have_their_documented_buckets() {
        let buckets = ["Hello", "TensorFlow", "2.x"].map(|text| fingerprint64(text.as_bytes()) % 3);
        assert_eq!(buckets, [0, 2, 2]);
        // FarmHash's constant for no bytes.
        assert_eq!(fingerprint64(&[]), K2.0);
        // Each length class reads all of its bytes.
        for len in [3, 7, 16, 30, 63, 64, 65, 200] {
            let text = vec![b'x'; len];
            let mut seen = vec![fingerprint64(&text), murmur64(&text)];
            for at in 0..len {
                let mut other = text.clone();
                other[at] = b'y';
                // Of three bytes or fewer, FarmHash reads the first, the middle and the last.
                seen.extend([fingerprint64(&other), murmur64(&other)]);
            }
            let count = seen.len();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), count, "{len}");
        }
    }
}
