//! Files of 20 by 18 pixels, and sums of their pixels as libjpeg-turbo decodes them.

use super::*;

const BASELINE: &[u8] = &[
    255, 216, 255, 224, 0, 16, 74, 70, 73, 70, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 255, 219, 0, 67, 0,
    13, 9, 10, 11, 10, 8, 13, 11, 10, 11, 14, 14, 13, 15, 19, 32, 21, 19, 18, 18, 19, 39, 28, 30,
    23, 32, 46, 41, 49, 48, 46, 41, 45, 44, 51, 58, 74, 62, 51, 54, 70, 55, 44, 45, 64, 87, 65, 70,
    76, 78, 82, 83, 82, 50, 62, 90, 97, 90, 80, 96, 74, 81, 82, 79, 255, 219, 0, 67, 1, 14, 14, 14,
    19, 17, 19, 38, 21, 21, 38, 79, 53, 45, 53, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79,
    79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79,
    79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 255, 192, 0, 17, 8, 0, 18, 0, 20, 3, 1, 34,
    0, 2, 17, 1, 3, 17, 1, 255, 196, 0, 23, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    4, 6, 5, 255, 196, 0, 29, 16, 0, 2, 2, 2, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 3, 4, 2,
    97, 34, 49, 81, 17, 255, 196, 0, 23, 1, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 5,
    6, 2, 255, 196, 0, 27, 17, 0, 1, 4, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 5, 33, 49, 1,
    2, 65, 255, 221, 0, 4, 0, 1, 255, 218, 0, 12, 3, 1, 0, 2, 17, 3, 17, 0, 63, 0, 204, 67, 75, 69,
    240, 210, 209, 213, 134, 150, 139, 225, 165, 161, 170, 215, 43, 147, 13, 203, 40, 255, 208,
    143, 26, 92, 122, 6, 147, 26, 92, 122, 0, 153, 114, 155, 41, 181, 89, 7, 255, 209, 235, 66,
    151, 136, 186, 20, 188, 64, 0, 173, 232, 145, 187, 135, 255, 210, 216, 98, 151, 206, 144, 0,
    144, 205, 135, 107, 71, 255, 217,
];

const PROGRESSIVE: &[u8] = &[
    255, 216, 255, 224, 0, 16, 74, 70, 73, 70, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 255, 219, 0, 67, 0,
    13, 9, 10, 11, 10, 8, 13, 11, 10, 11, 14, 14, 13, 15, 19, 32, 21, 19, 18, 18, 19, 39, 28, 30,
    23, 32, 46, 41, 49, 48, 46, 41, 45, 44, 51, 58, 74, 62, 51, 54, 70, 55, 44, 45, 64, 87, 65, 70,
    76, 78, 82, 83, 82, 50, 62, 90, 97, 90, 80, 96, 74, 81, 82, 79, 255, 219, 0, 67, 1, 14, 14, 14,
    19, 17, 19, 38, 21, 21, 38, 79, 53, 45, 53, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79,
    79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79,
    79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 79, 255, 194, 0, 17, 8, 0, 18, 0, 20, 3, 1, 34,
    0, 2, 17, 1, 3, 17, 1, 255, 196, 0, 24, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    4, 3, 5, 1, 255, 196, 0, 24, 1, 1, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 1, 2, 4, 6,
    255, 218, 0, 12, 3, 1, 0, 2, 16, 3, 16, 0, 0, 1, 229, 209, 85, 26, 171, 27, 164, 61, 95, 55,
    35, 158, 216, 28, 175, 255, 196, 0, 24, 16, 0, 3, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    1, 2, 18, 16, 255, 218, 0, 8, 1, 1, 0, 1, 5, 2, 80, 40, 48, 40, 20, 24, 16, 185, 255, 196, 0,
    23, 17, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 3, 4, 255, 218, 0, 8, 1, 3, 1, 1,
    63, 1, 207, 114, 46, 103, 67, 255, 196, 0, 24, 17, 0, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 3, 4, 16, 20, 255, 218, 0, 8, 1, 2, 1, 1, 63, 1, 116, 147, 72, 234, 255, 196, 0, 20, 16,
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 48, 255, 218, 0, 8, 1, 1, 0, 6, 63, 2, 31, 255,
    196, 0, 23, 16, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 16, 33, 0, 255, 218, 0, 8,
    1, 1, 0, 1, 63, 33, 84, 33, 208, 135, 141, 255, 218, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 0, 16, 172,
    32, 66, 255, 196, 0, 23, 17, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 49, 33, 65,
    255, 218, 0, 8, 1, 3, 1, 1, 63, 16, 147, 7, 40, 127, 255, 196, 0, 24, 17, 0, 3, 1, 1, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 49, 33, 65, 255, 218, 0, 8, 1, 2, 1, 1, 63, 16, 182, 143, 84,
    236, 116, 255, 196, 0, 25, 16, 0, 3, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 81, 97,
    17, 49, 255, 218, 0, 8, 1, 1, 0, 1, 63, 16, 196, 196, 136, 196, 196, 136, 69, 16, 138, 33, 23,
    60, 71, 255, 217,
];

/// Size, sum of all values, and their sum with weights that count up to 250 over and over.
fn sums(picture: &Picture) -> ([usize; 3], u64, u64) {
    let Pixels::Narrow(pixels) = &picture.pixels else { panic!("8 bits are expected") };
    let weighted = pixels.iter().enumerate().map(|(i, &value)| u64::from(value) * (i as u64 % 251));
    let sum = pixels.iter().map(|&value| u64::from(value)).sum();
    ([picture.height, picture.width, picture.channels], sum, weighted.sum())
}

#[test]
fn pixels_are_those_of_libjpeg() {
    let cases = [
        (BASELINE, 1, Method::Fast, None, ([18, 20, 3], 138743, 16546025)),
        (BASELINE, 1, Method::Accurate, None, ([18, 20, 3], 139619, 16650876)),
        (BASELINE, 2, Method::Fast, None, ([9, 10, 3], 34822, 4271756)),
        (BASELINE, 4, Method::Fast, None, ([5, 5, 3], 9913, 397413)),
        (BASELINE, 8, Method::Fast, None, ([3, 3, 3], 3768, 53064)),
        (BASELINE, 1, Method::Fast, Some([3, 17, 9, 3]), ([9, 3, 3], 11446, 469971)),
        (PROGRESSIVE, 1, Method::Fast, None, ([18, 20, 3], 138743, 16546025)),
        (PROGRESSIVE, 1, Method::Accurate, None, ([18, 20, 3], 139619, 16650876)),
        (PROGRESSIVE, 2, Method::Fast, None, ([9, 10, 3], 34822, 4271756)),
        (PROGRESSIVE, 4, Method::Fast, None, ([5, 5, 3], 9913, 397413)),
        (PROGRESSIVE, 8, Method::Fast, None, ([3, 3, 3], 3768, 53064)),
        (PROGRESSIVE, 1, Method::Fast, Some([3, 17, 9, 3]), ([9, 3, 3], 11446, 469971)),
    ];
    for (file, ratio, method, crop, expected) in cases {
        let options = Options { ratio, method, ..Options::default() };
        let picture = decode(file, 0, options, crop).unwrap();
        assert_eq!(sums(&picture), expected, "{ratio} {method:?} {crop:?}");
    }
}

#[test]
fn incomplete_files_fail_unless_accepted() {
    let cut = &BASELINE[..BASELINE.len() - 6];
    assert!(decode(cut, 0, Options::default(), None).is_err());
    let options = Options { acceptable_fraction: 0.1, ..Options::default() };
    let whole = decode(BASELINE, 0, Options::default(), None).unwrap();
    let part = decode(cut, 0, options, None).unwrap();
    let (Pixels::Narrow(whole), Pixels::Narrow(part)) = (whole.pixels, part.pixels) else {
        panic!("8 bits are expected")
    };
    // The first row of units has 16 rows, the last two of which wait for the next one.
    let (read, rest) = part.split_at(14 * 20 * 3);
    assert_eq!(read, &whole[..read.len()]);
    assert!(rest.iter().all(|&value| value == 0));
    let options = Options { try_recover_truncated: true, ..Options::default() };
    assert!(decode(cut, 0, options, None).is_ok());
    for crop in [[0, 0, 19, 20], [-1, 0, 1, 1], [0, 20, 1, 1], [0, 0, 0, 1], [1, 0, i32::MAX, 1]] {
        assert!(decode(BASELINE, 0, options, Some(crop)).is_err(), "{crop:?}");
    }
}

#[test]
fn damaged_files_do_not_panic() {
    let recovering =
        Options { try_recover_truncated: true, acceptable_fraction: 0.0, ..Options::default() };
    for file in [BASELINE, PROGRESSIVE] {
        for options in [Options::default(), recovering] {
            for len in 0..file.len() {
                let _ = decode(&file[..len], 0, options, None);
            }
            for at in 0..file.len() {
                // Sizes are left alone: large ones take their time.
                let is_size = at > 4 && matches!(file[at - 5], 0xc0 | 0xc2) && file[at - 6] == 0xff
                    || at > 6 && matches!(file[at - 7], 0xc0 | 0xc2) && file[at - 8] == 0xff;
                for flip in [1, 0x10, 0x80, 0xff] {
                    let mut damaged = file.to_vec();
                    damaged[at] ^= if is_size { 0 } else { flip };
                    let _ = decode(&damaged, 3, options, Some([1, 1, 2, 3]));
                }
            }
        }
    }
}
