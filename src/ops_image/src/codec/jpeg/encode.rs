//! Baseline files with the standard tables, byte by byte as libjpeg-turbo writes them.

use super::frame::ZIGZAG;

/// The standard's quantisation of luma and chroma at quality 50.
const QUANTS: [[u16; 64]; 2] = [
    [
        16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69,
        56, 14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81,
        104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
    ],
    [
        17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99,
        99, 47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
        99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    ],
];

/// Numbers of codes of each length, and their symbols.
type Code = ([u8; 16], &'static [u8]);

/// The standard's codes for constant and other coefficients, of luma and chroma.
const HUFFMAN: [[Code; 2]; 2] = [
    [
        ([0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
        (
            [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125],
            &[
                1, 2, 3, 0, 4, 17, 5, 18, 33, 49, 65, 6, 19, 81, 97, 7, 34, 113, 20, 50, 129, 145,
                161, 8, 35, 66, 177, 193, 21, 82, 209, 240, 36, 51, 98, 114, 130, 9, 10, 22, 23,
                24, 25, 26, 37, 38, 39, 40, 41, 42, 52, 53, 54, 55, 56, 57, 58, 67, 68, 69, 70, 71,
                72, 73, 74, 83, 84, 85, 86, 87, 88, 89, 90, 99, 100, 101, 102, 103, 104, 105, 106,
                115, 116, 117, 118, 119, 120, 121, 122, 131, 132, 133, 134, 135, 136, 137, 138,
                146, 147, 148, 149, 150, 151, 152, 153, 154, 162, 163, 164, 165, 166, 167, 168,
                169, 170, 178, 179, 180, 181, 182, 183, 184, 185, 186, 194, 195, 196, 197, 198,
                199, 200, 201, 202, 210, 211, 212, 213, 214, 215, 216, 217, 218, 225, 226, 227,
                228, 229, 230, 231, 232, 233, 234, 241, 242, 243, 244, 245, 246, 247, 248, 249,
                250,
            ],
        ),
    ],
    [
        ([0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
        (
            [0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 119],
            &[
                0, 1, 2, 3, 17, 4, 5, 33, 49, 6, 18, 65, 81, 7, 97, 113, 19, 34, 50, 129, 8, 20,
                66, 145, 161, 177, 193, 9, 35, 51, 82, 240, 21, 98, 114, 209, 10, 22, 36, 52, 225,
                37, 241, 23, 24, 25, 26, 38, 39, 40, 41, 42, 53, 54, 55, 56, 57, 58, 67, 68, 69,
                70, 71, 72, 73, 74, 83, 84, 85, 86, 87, 88, 89, 90, 99, 100, 101, 102, 103, 104,
                105, 106, 115, 116, 117, 118, 119, 120, 121, 122, 130, 131, 132, 133, 134, 135,
                136, 137, 138, 146, 147, 148, 149, 150, 151, 152, 153, 154, 162, 163, 164, 165,
                166, 167, 168, 169, 170, 178, 179, 180, 181, 182, 183, 184, 185, 186, 194, 195,
                196, 197, 198, 199, 200, 201, 202, 210, 211, 212, 213, 214, 215, 216, 217, 218,
                226, 227, 228, 229, 230, 231, 232, 233, 234, 242, 243, 244, 245, 246, 247, 248,
                249, 250,
            ],
        ),
    ],
];

fn quant_table(base: &[u16; 64], quality: i32) -> [u16; 64] {
    let scale = match quality {
        ..=0 => 5000,
        1..50 => 5000 / quality,
        _ => 200 - 2 * quality,
    };
    base.map(|value| ((i32::from(value) * scale + 50) / 100).clamp(1, 255) as u16)
}

/// Code and length of each symbol.
fn codes(counts: &[u8; 16], symbols: &[u8]) -> [(u32, u32); 256] {
    let mut codes = [(0, 0); 256];
    let (mut code, mut at) = (0, 0);
    for (len, &count) in counts.iter().enumerate() {
        for &symbol in &symbols[at..at + usize::from(count)] {
            codes[usize::from(symbol)] = (code, len as u32 + 1);
            code += 1;
        }
        at += usize::from(count);
        code <<= 1;
    }
    codes
}

struct Writer {
    out: Vec<u8>,
    buffer: u64,
    left: u32,
}

impl Writer {
    fn bits(&mut self, value: u32, count: u32) {
        self.buffer = self.buffer << count | u64::from(value);
        self.left += count;
        while self.left >= 8 {
            self.left -= 8;
            let byte = (self.buffer >> self.left) as u8;
            self.out.push(byte);
            if byte == 0xff {
                self.out.push(0);
            }
        }
    }

    fn signed(&mut self, (code, len): (u32, u32), value: i32, bits: u32) {
        self.bits(code, len);
        let low = if value < 0 { value - 1 } else { value };
        self.bits(low as u32 & ((1 << bits) - 1), bits);
    }

    fn block(&mut self, block: &[i16; 64], last: i16, tables: &[[(u32, u32); 256]; 2]) {
        let size = |value: i32| 32 - value.unsigned_abs().leading_zeros();
        let difference = i32::from(block[0]) - i32::from(last);
        let bits = size(difference);
        self.signed(tables[0][bits as usize], difference, bits);
        let mut zeros = 0;
        for &at in &ZIGZAG[1..] {
            let value = i32::from(block[usize::from(at)]);
            if value == 0 {
                zeros += 1;
                continue;
            }
            while zeros > 15 {
                let (code, len) = tables[1][0xf0];
                self.bits(code, len);
                zeros -= 16;
            }
            let bits = size(value);
            self.signed(tables[1][zeros << 4 | bits as usize], value, bits);
            zeros = 0;
        }
        if zeros > 0 {
            let (code, len) = tables[1][0];
            self.bits(code, len);
        }
    }

    fn segment(&mut self, marker: u8, data: &[u8]) {
        self.out.extend([0xff, marker]);
        self.out.extend((data.len() as u16 + 2).to_be_bytes());
        self.out.extend(data);
    }
}

/// Values of a row or column; with 2 more bits after rows, without them after columns.
fn pass(v: [i32; 8], is_row: bool) -> [i32; 8] {
    let bits = if is_row { 11 } else { 15 };
    let descale = |value: i32| (value + (1 << (bits - 1))) >> bits;
    let sums: [i32; 4] = std::array::from_fn(|i| v[i] + v[7 - i]);
    let [t7, t6, t5, t4]: [i32; 4] = std::array::from_fn(|i| v[i] - v[7 - i]);
    let (t10, t13) = (sums[0] + sums[3], sums[0] - sums[3]);
    let (t11, t12) = (sums[1] + sums[2], sums[1] - sums[2]);
    let ends = [t10 + t11, t10 - t11].map(|value| match is_row {
        true => value << 2,
        false => (value + 2) >> 2,
    });
    let z = (t12 + t13) * 4433;
    let (z1, z2) = ((t4 + t7) * -7373, (t5 + t6) * -20995);
    let (z3, z4) = (t4 + t6, t5 + t7);
    let z5 = (z3 + z4) * 9633;
    let (z3, z4) = (z5 - z3 * 16069, z5 - z4 * 3196);
    [
        ends[0],
        descale(t7 * 12299 + z1 + z4),
        descale(z + t13 * 6270),
        descale(t6 * 25172 + z2 + z3),
        ends[1],
        descale(t5 * 16819 + z2 + z4),
        descale(z - t12 * 15137),
        descale(t4 * 2446 + z1 + z3),
    ]
}

/// The quantised transform of a block whose top left pixel is at `(x, y)`.
fn block(plane: &Plane, x: usize, y: usize, quant: &[u16; 64]) -> [i16; 64] {
    let mut work = [[0; 8]; 8];
    for (row, line) in work.iter_mut().enumerate() {
        let values = std::array::from_fn(|col| i32::from(plane.at(x + col, y + row)) - 128);
        *line = pass(values, true);
    }
    let mut out = [0; 64];
    for col in 0..8 {
        let values = pass(std::array::from_fn(|row| work[row][col]), false);
        for (row, value) in values.into_iter().enumerate() {
            // The transform is 8 times as large as its values.
            let divisor = i32::from(quant[row * 8 + col]) * 8;
            let size = (value.abs() + divisor / 2) / divisor;
            out[row * 8 + col] = (size * value.signum()) as i16;
        }
    }
    out
}

/// A component; pixels past its edges are those at the edges.
struct Plane {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Plane {
    fn at(&self, x: usize, y: usize) -> u8 {
        self.pixels[y.min(self.height - 1) * self.width + x.min(self.width - 1)]
    }

    /// Half as wide and high; halves are rounded down and up in turn.
    fn halved(&self) -> Self {
        // Columns past the right edge are those of the last pixel alone, up to the end of the block.
        let width = self.width.div_ceil(16) * 8;
        let height = self.height.div_ceil(2);
        let mut pixels = Vec::with_capacity(width * height);
        for y in 0..height {
            for x in 0..width {
                let sum: u32 = [(0, 0), (1, 0), (0, 1), (1, 1)]
                    .into_iter()
                    .map(|(dx, dy)| u32::from(self.at(2 * x + dx, 2 * y + dy)))
                    .sum();
                pixels.push(((sum + 1 + (x as u32 & 1)) >> 2) as u8);
            }
        }
        Self { width, height, pixels }
    }
}

/// The file of a picture of 1 or 3 channels at 300 pixels per inch, with chroma of half the size. Sizes are below 65536.
pub(crate) fn encode(
    pixels: &[u8],
    width: usize,
    height: usize,
    channels: usize,
    quality: i32,
) -> Vec<u8> {
    let plane = |of: &dyn Fn(&[u8]) -> u8| Plane {
        width,
        height,
        pixels: pixels.chunks_exact(channels).map(of).collect(),
    };
    let mix = |factors: [i32; 3], offset: i32| {
        plane(&move |pixel: &[u8]| {
            let terms = pixel.iter().zip(factors).map(|(&value, factor)| i32::from(value) * factor);
            ((terms.sum::<i32>() + offset) >> 16) as u8
        })
    };
    let chroma_offset = (128 << 16) + (1 << 15) - 1;
    let planes = match channels {
        1 => vec![plane(&|pixel| pixel[0])],
        _ => vec![
            mix([19595, 38470, 7471], 1 << 15),
            mix([-11059, -21709, 32768], chroma_offset).halved(),
            mix([32768, -27439, -5329], chroma_offset).halved(),
        ],
    };
    let quants = QUANTS.map(|base| quant_table(&base, quality));
    let kinds = planes.len().min(2);
    let mut writer = Writer { out: vec![0xff, 0xd8], buffer: 0, left: 0 };
    writer.segment(0xe0, b"JFIF\0\x01\x01\x01\x01\x2c\x01\x2c\0\0");
    for (index, quant) in quants[..kinds].iter().enumerate() {
        let mut data = vec![index as u8];
        data.extend(ZIGZAG.iter().map(|&at| quant[usize::from(at)] as u8));
        writer.segment(0xdb, &data);
    }
    let factor = if channels == 1 { 1 } else { 2 };
    let mut header = vec![8];
    header.extend((height as u16).to_be_bytes());
    header.extend((width as u16).to_be_bytes());
    header.push(channels as u8);
    let mut scan = vec![channels as u8];
    for index in 0..channels as u8 {
        let is_chroma = u8::from(index > 0);
        let factors = if index == 0 { factor as u8 * 0x11 } else { 0x11 };
        header.extend([index + 1, factors, is_chroma]);
        scan.extend([index + 1, is_chroma * 0x11]);
    }
    writer.segment(0xc0, &header);
    for (index, tables) in HUFFMAN[..kinds].iter().enumerate() {
        for (class, (counts, symbols)) in tables.iter().enumerate() {
            let head = [(class << 4 | index) as u8];
            writer.segment(0xc4, &[&head, &counts[..], symbols].concat());
        }
    }
    scan.extend([0, 63, 0]);
    writer.segment(0xda, &scan);
    let tables = HUFFMAN.map(|tables| tables.map(|(counts, symbols)| codes(&counts, symbols)));
    let mut last = [0i16; 3];
    let unit = 8 * factor;
    // Blocks with pixels of luma.
    let (cols, rows) = (width.div_ceil(8), height.div_ceil(8));
    for row in 0..height.div_ceil(unit) {
        for col in 0..width.div_ceil(unit) {
            for (index, plane) in planes.iter().enumerate() {
                let (kind, count) = if index == 0 { (0, factor) } else { (1, 1) };
                for part in 0..count * count {
                    let (x, y) = (col * count + part % count, row * count + part / count);
                    let coefficients = match index == 0 && (x >= cols || y >= rows) {
                        // Blocks past the edges repeat the constant before them.
                        true => std::array::from_fn(|i| if i == 0 { last[0] } else { 0 }),
                        false => block(plane, x * 8, y * 8, &quants[kind]),
                    };
                    writer.block(&coefficients, last[index], &tables[kind]);
                    last[index] = coefficients[0];
                }
            }
        }
    }
    if writer.left > 0 {
        writer.bits(0x7f, 7);
    }
    writer.out.extend([0xff, 0xd9]);
    writer.out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_follow_quality() {
        // 16 and 11 at quality 50; a quarter of them and 2 at 95, no less than 1 at 100, no more than 255 at 0.
        for (quality, expected) in [(50, [16, 11]), (95, [2, 1]), (100, [1, 1]), (0, [255, 255])] {
            assert_eq!(quant_table(&QUANTS[0], quality)[..2], expected, "{quality}");
        }
    }

    #[test]
    fn flat_pictures_are_a_constant_each_block() {
        // Grey of 136 is 8 above the middle: a constant of 64, 32 after division by 2. Its difference takes 6 bits after
        // the code 1110, and the end of the block is 1010.
        let file = encode(&[136; 64], 8, 8, 1, 95);
        let bits = 0b1110_1000_0010_1011u16;
        assert_eq!(file[file.len() - 4..], [&bits.to_be_bytes()[..], &[0xff, 0xd9]].concat());
    }

    #[test]
    fn halves_are_rounded_in_turn() {
        let plane = Plane { width: 4, height: 1, pixels: vec![0, 1, 0, 1] };
        // (0 + 1 + 0 + 1 + 1) / 4 and (0 + 1 + 0 + 1 + 2) / 4; the last pixel fills the block.
        assert_eq!(plane.halved().pixels, [0, 1, 1, 1, 1, 1, 1, 1]);
    }
}
