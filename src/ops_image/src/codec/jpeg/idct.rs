//! Inverse cosine transforms, as libjpeg-turbo's vector code computes them: 16 bits that wrap around between the steps of
//! the fast one, saturation at the end of all.

/// A way to transform a block back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Method {
    Fast,
    Accurate,
}

/// cos(k pi / 16) sqrt(2) with 14 bits behind the point, 1 for k = 0.
const SCALES: [f64; 8] = [
    1.0,
    1.387_039_845_322_147_5,
    1.306_562_964_876_376_4,
    1.175_875_602_419_358_8,
    1.0,
    0.785_694_958_387_102_1,
    0.541_196_100_146_197,
    0.275_899_379_282_943_1,
];

/// The multipliers of the fast method.
pub(super) fn fast_table(quant: &[u16; 64]) -> [i16; 64] {
    std::array::from_fn(|i| {
        let scale = (SCALES[i / 8] * SCALES[i % 8] * 16384.0).round() as i64;
        ((i64::from(quant[i]) * scale + (1 << 11)) >> 12) as i16
    })
}

fn clamp(value: i32) -> u8 {
    (value + 128).clamp(0, 255) as u8
}

/// Eight values of a row or column, transformed with 8 bits behind the point of each constant.
fn fast_pass(v: [i16; 8]) -> [i16; 8] {
    let times = |x: i16, c: i32| ((i32::from(x << 2) * (c << 6)) >> 16) as i16;
    let add = i16::wrapping_add;
    let sub = i16::wrapping_sub;
    let (t10, t11) = (add(v[0], v[4]), sub(v[0], v[4]));
    let t13 = add(v[2], v[6]);
    let t12 = sub(times(sub(v[2], v[6]), 362), t13);
    let (e0, e3) = (add(t10, t13), sub(t10, t13));
    let (e1, e2) = (add(t11, t12), sub(t11, t12));
    let (z13, z10) = (add(v[5], v[3]), sub(v[5], v[3]));
    let (z11, z12) = (add(v[1], v[7]), sub(v[1], v[7]));
    let o7 = add(z11, z13);
    let t11 = times(sub(z11, z13), 362);
    let z5 = times(add(z10, z12), 473);
    let t10 = sub(times(z12, 277), z5);
    // 2.613 does not fit: 1.613 and one more.
    let t12 = add(sub(times(z10, -413), z10), z5);
    let o6 = sub(t12, o7);
    let o5 = sub(t11, o6);
    let o4 = add(t10, o5);
    [
        add(e0, o7),
        add(e1, o6),
        add(e2, o5),
        sub(e3, o4),
        add(e3, o4),
        sub(e2, o5),
        sub(e1, o6),
        sub(e0, o7),
    ]
}

fn fast(block: &[i16], table: &[i16; 64]) -> [u8; 64] {
    let mut work = [0i16; 64];
    for col in 0..8 {
        let column =
            std::array::from_fn(|row| block[row * 8 + col].wrapping_mul(table[row * 8 + col]));
        for (row, value) in fast_pass(column).into_iter().enumerate() {
            work[row * 8 + col] = value;
        }
    }
    let mut out = [0; 64];
    for row in 0..8 {
        let values = fast_pass(std::array::from_fn(|col| work[row * 8 + col]));
        for (col, value) in values.into_iter().enumerate() {
            out[row * 8 + col] = clamp(i32::from(value >> 5));
        }
    }
    out
}

fn descale(value: i32, bits: u32) -> i32 {
    value.wrapping_add(1 << (bits - 1)) >> bits
}

/// Loeffler, Ligtenberg and Moschytz's transform, with 13 bits behind the point of each constant.
fn accurate_pass(v: [i32; 8], bits: u32) -> [i32; 8] {
    let sum = |terms: &[(i32, i32)]| {
        terms.iter().fold(0i32, |sum, &(x, c)| sum.wrapping_add(x.wrapping_mul(c)))
    };
    let t2 = sum(&[(v[2], 4433), (v[6], 4433 - 15137)]);
    let t3 = sum(&[(v[2], 4433 + 6270), (v[6], 4433)]);
    let t0 = (v[0] + v[4]) << 13;
    let t1 = (v[0] - v[4]) << 13;
    let even = [t0.wrapping_add(t3), t1.wrapping_add(t2), t1.wrapping_sub(t2), t0.wrapping_sub(t3)];
    let (a, b, c, d) = (v[7], v[5], v[3], v[1]);
    let (z3, z4) = (a + c, b + d);
    let z5 = sum(&[(z3, 9633), (z4, 9633)]);
    let z3 = z5.wrapping_sub(z3.wrapping_mul(16069));
    let z4 = z5.wrapping_sub(z4.wrapping_mul(3196));
    let z1 = (a + d).wrapping_mul(-7373);
    let z2 = (b + c).wrapping_mul(-20995);
    let odd = [
        sum(&[(d, 12299), (z1, 1), (z4, 1)]),
        sum(&[(c, 25172), (z2, 1), (z3, 1)]),
        sum(&[(b, 16819), (z2, 1), (z4, 1)]),
        sum(&[(a, 2446), (z1, 1), (z3, 1)]),
    ];
    std::array::from_fn(|i| match i {
        0..4 => descale(even[i].wrapping_add(odd[i]), bits),
        _ => descale(even[7 - i].wrapping_sub(odd[7 - i]), bits),
    })
}

/// Four values of the eight of a row or column.
fn half_pass(v: [i32; 8], bits: u32) -> [i32; 4] {
    let dot = |a: [i32; 4], b: [i32; 4]| {
        a.into_iter().zip(b).fold(0i32, |sum, (a, b)| sum.wrapping_add(a.wrapping_mul(b)))
    };
    let t0 = v[0] << 14;
    let t2 = dot([v[2], v[6], 0, 0], [15137, -6270, 0, 0]);
    let (even0, even1) = (t0.wrapping_add(t2), t0.wrapping_sub(t2));
    let odds = [v[7], v[5], v[3], v[1]];
    let odd1 = dot(odds, [-1730, 11893, -17799, 8697]);
    let odd0 = dot(odds, [-4176, -4926, 7373, 20995]);
    [
        descale(even0.wrapping_add(odd0), bits),
        descale(even1.wrapping_add(odd1), bits),
        descale(even1.wrapping_sub(odd1), bits),
        descale(even0.wrapping_sub(odd0), bits),
    ]
}

/// Two values of the eight.
fn quarter_pass(v: [i32; 8], bits: u32) -> [i32; 2] {
    let even = v[0] << 15;
    let odd = v[7]
        .wrapping_mul(-5906)
        .wrapping_add(v[5].wrapping_mul(6967))
        .wrapping_add(v[3].wrapping_mul(-10426))
        .wrapping_add(v[1].wrapping_mul(29692));
    [descale(even.wrapping_add(odd), bits), descale(even.wrapping_sub(odd), bits)]
}

/// Columns, then rows, of `N` values each.
fn two_passes<const N: usize>(
    values: &[i32; 64],
    bits: [u32; 2],
    pass: fn([i32; 8], u32) -> [i32; N],
) -> [u8; 64] {
    let mut work = [[0i32; 8]; N];
    for col in 0..8 {
        let column = pass(std::array::from_fn(|row| values[row * 8 + col]), bits[0]);
        for (row, value) in column.into_iter().enumerate() {
            work[row][col] = value.clamp(i16::MIN.into(), i16::MAX.into());
        }
    }
    let mut out = [0; 64];
    for (row, values) in work.into_iter().enumerate() {
        for (col, value) in pass(values, bits[1]).into_iter().enumerate() {
            out[row * N + col] = clamp(value);
        }
    }
    out
}

/// The `size` rows of `size` pixels of a block.
pub(super) fn transform(
    block: &[i16],
    quant: &[u16; 64],
    fast_multipliers: &[i16; 64],
    size: usize,
    method: Method,
) -> [u8; 64] {
    if size == 8 && method == Method::Fast {
        return fast(block, fast_multipliers);
    }
    let values = std::array::from_fn(|i| i32::from(block[i].wrapping_mul(quant[i] as i16)));
    match size {
        8 => two_passes(&values, [11, 18], accurate_pass),
        4 => two_passes(&values, [12, 19], half_pass),
        2 => two_passes(&values, [13, 20], quarter_pass),
        _ => [clamp(descale(values[0], 3)); 64],
    }
}
