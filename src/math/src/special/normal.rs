//! The inverses of the normal distribution and of the error function.

use std::f64::consts::FRAC_1_SQRT_2;

use super::{Special, polynomial, quotient};

/// The middle: `x / sqrt(2 pi) - w` by `w³`, in `w²`, where `w = y - 1/2`.
const MIDDLE: [&[f64]; 2] = [
    &[
        -5.996_335_010_141_078_952_67e1,
        9.800_107_541_859_996_615_36e1,
        -5.667_628_574_690_702_934_39e1,
        1.393_126_093_872_796_795_03e1,
        -1.239_165_838_673_812_580_16,
    ],
    &[
        1.0,
        1.954_488_583_381_417_598_34,
        4.676_279_128_988_815_384_53,
        8.636_024_213_908_905_905_75e1,
        -2.254_626_878_541_193_705_27e2,
        2.002_602_123_800_606_603_59e2,
        -8.203_722_561_683_333_399_12e1,
        1.590_562_251_262_116_955_15e1,
        -1.183_316_211_213_300_031_42,
    ],
];

/// The tail, in `1/z`, where `z = sqrt(-2 ln y)`, up to 8.
const NEAR_TAIL: [&[f64]; 2] = [
    &[
        4.055_448_923_059_624_199_23,
        3.152_510_945_998_938_661_54e1,
        5.716_281_922_464_212_881_62e1,
        4.408_050_738_932_008_347_00e1,
        1.468_495_619_288_580_240_14e1,
        2.186_633_068_507_902_675_39,
        -1.402_560_791_713_544_958_75e-1,
        -3.504_246_268_278_482_034_18e-2,
        -8.574_567_851_546_854_136_11e-4,
    ],
    &[
        1.0,
        1.577_998_832_564_667_497_31e1,
        4.539_076_351_288_792_105_84e1,
        4.131_720_382_546_720_304_40e1,
        1.504_253_856_929_075_034_08e1,
        2.504_649_462_083_094_159_79,
        -1.421_829_228_547_877_885_74e-1,
        -3.808_064_076_915_782_771_94e-2,
        -9.332_594_808_954_574_273_72e-4,
    ],
];

/// As before, beyond 8.
const FAR_TAIL: [&[f64]; 2] = [
    &[
        3.237_748_917_769_460_359_70,
        6.915_228_890_689_842_116_95,
        3.938_810_252_924_744_434_15,
        1.333_034_608_158_075_423_89,
        2.014_853_895_491_790_815_38e-1,
        1.237_166_348_178_200_213_58e-2,
        3.015_815_535_082_354_160_07e-4,
        2.658_069_746_867_375_508_32e-6,
        6.239_745_391_849_832_937_30e-9,
    ],
    &[
        1.0,
        6.024_270_393_647_420_142_55,
        3.679_835_638_561_608_594_03,
        1.377_020_994_890_813_302_71,
        2.162_369_935_944_966_358_90e-1,
        1.342_040_060_885_431_890_37e-2,
        3.280_144_646_821_277_391_04e-4,
        2.892_478_647_453_806_839_36e-6,
        6.790_194_080_099_812_744_25e-9,
    ],
];

/// The x below which a standard normal variable is with probability y; NaN outside of `[0, 1]`.
pub fn inverse_normal<T: Special>(y: T) -> T {
    let one = T::one();
    let e_to_minus_2 = T::of(0.135_335_283_236_612_691_89);
    if y == T::zero() {
        return T::neg_infinity();
    } else if y == one {
        return T::infinity();
    }
    let is_lower = y <= one - e_to_minus_2;
    let b = if is_lower { y } else { one - y };
    if b > e_to_minus_2 {
        let c = b - T::of(0.5);
        let square = c * c;
        let sum = c * (square * quotient(square, MIDDLE[0], MIDDLE[1])) + c;
        return sum * T::of(2.506_628_274_631_000_502_42);
    }
    let x = (T::of(-2.0) * b.ln()).sqrt();
    let z = x.recip();
    let [numerator, denominator] = if x < T::of(8.0) { NEAR_TAIL } else { FAR_TAIL };
    let result = x - x.ln() / x - z * (polynomial(z, numerator) / polynomial(z, denominator));
    if is_lower { -result } else { result }
}

/// The x whose error function is y; NaN outside of `[-1, 1]`.
pub fn inverse_erf<T: Special>(y: T) -> T {
    let half = T::of(0.5);
    inverse_normal(half * y + half) * T::of(FRAC_1_SQRT_2)
}

#[cfg(test)]
mod tests {
    use crate::special::normal::*;
    use crate::special::{Case, check_table};

    #[test]
    fn values_of_the_reference() {
        let cases: [Case; 2] =
            [("Ndtri", inverse_normal, inverse_normal), ("Erfinv", inverse_erf, inverse_erf)];
        // From TensorFlow 2.21: argument, float and double result.
        let rows = [
            ("Ndtri", -0.5, f32::NAN, f64::NAN),
            ("Ndtri", 0.0, -f32::INFINITY, -f64::INFINITY),
            ("Ndtri", 1e-20, -9.26234, -9.262340089798409),
            ("Ndtri", 0.01, -2.3263478, -2.3263478740408408),
            ("Ndtri", 0.25, -0.6744898, -0.6744897501960817),
            ("Ndtri", 0.5, 0.0, 0.0),
            ("Ndtri", 0.75, 0.6744898, 0.6744897501960817),
            ("Ndtri", 0.96875, 1.8627319, 1.8627318674216515),
            ("Ndtri", 1.0, f32::INFINITY, f64::INFINITY),
            ("Ndtri", 1.5, f32::NAN, f64::NAN),
            ("Ndtri", f64::NAN, f32::NAN, f64::NAN),
            ("Erfinv", -1.0, -f32::INFINITY, -f64::INFINITY),
            ("Erfinv", -0.5, -0.4769363, -0.4769362762044699),
            ("Erfinv", 0.0, 0.0, 0.0),
            ("Erfinv", 0.25, 0.22531205, 0.2253120550121781),
            ("Erfinv", 0.96875, 1.5230193, 1.5230194019969563),
            ("Erfinv", 1.0, f32::INFINITY, f64::INFINITY),
            ("Erfinv", 2.0, f32::NAN, f64::NAN),
            ("Erfinv", f64::NAN, f32::NAN, f64::NAN),
        ];
        check_table(&cases, &rows);
    }
}
