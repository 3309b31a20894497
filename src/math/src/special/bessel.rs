//! Bessel functions of the first and second kind, J and Y, of orders 0 and 1.
//!
//! J is defined for all x; Y for positive ones, and is minus infinity below. For f32 the intervals are
//! `[0, 2]` and beyond, with modulus and phase as polynomials; for f64 `[0, 5]` and beyond, with Hankel's
//! asymptotic expansion as rational functions.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_4};

use super::{Special, polynomial, quotient};

/// `sqrt(2 / pi)`.
const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_355_88;

const THREE_PI_4: f64 = 3.0 * FRAC_PI_4;

/// A function for which f32 and f64 have approximations of different kinds.
pub trait Bessel: Special {
    /// `J0(x)`.
    fn j0(self) -> Self;
    /// `J1(x)`.
    fn j1(self) -> Self;
    /// `Y0(x)`.
    fn y0(self) -> Self;
    /// `Y1(x)`.
    fn y1(self) -> Self;
}

mod single {
    /// `J0(x) / (x² - r²)` in `x²`, `r` being the first zero.
    pub(super) const J0: [f64; 5] = [
        -6.068_350_350_393_235e-8,
        6.388_945_720_783_375e-6,
        -3.969_646_342_510_940e-4,
        1.332_913_422_519_003e-2,
        -1.729_150_680_240_724e-1,
    ];
    /// `Y0(x) - 2/pi ln(x) J0(x)` by `x² - r²`.
    pub(super) const Y0: [f64; 5] = [
        9.454_583_683_980_369e-8,
        -9.413_212_653_797_057e-6,
        5.344_486_707_214_273e-4,
        -1.584_289_289_821_316e-2,
        1.707_584_643_733_568e-1,
    ];
    /// The modulus of order 0, times `sqrt(x)`, in `1/x`.
    pub(super) const MODULUS_0: [f64; 8] = [
        -6.838_999_669_318_810e-2,
        1.864_949_361_379_502e-1,
        -2.145_007_480_346_739e-1,
        1.197_549_369_473_540e-1,
        -3.560_281_861_530_129e-3,
        -4.969_382_655_296_620e-2,
        -3.355_424_622_293_709e-6,
        7.978_845_717_621_440e-1,
    ];
    /// The phase of order 0, `x (phase - x + pi/4)`, in `1/x²`.
    pub(super) const PHASE_0: [f64; 8] = [
        3.242_077_816_988_247e1,
        -3.630_592_630_518_434e1,
        1.756_221_482_109_099e1,
        -4.974_978_466_280_903,
        1.001_973_420_681_837,
        -1.939_906_941_791_308e-1,
        6.490_598_792_654_666e-2,
        -1.249_992_184_872_738e-1,
    ];
    pub(super) const J1: [f64; 5] = [
        -4.878_788_132_172_128e-9,
        6.009_061_827_883_699e-7,
        -4.541_343_896_997_497e-5,
        1.937_383_947_804_541e-3,
        -3.405_537_384_615_824e-2,
    ];
    pub(super) const Y1: [f64; 5] = [
        8.061_978_323_326_852e-9,
        -9.496_460_629_917_016e-7,
        6.719_543_806_674_249e-5,
        -2.641_785_726_447_862e-3,
        4.202_369_946_500_099e-2,
    ];
    pub(super) const MODULUS_1: [f64; 8] = [
        6.913_942_741_265_801e-2,
        -2.284_801_500_053_359e-1,
        3.138_238_455_499_697e-1,
        -2.102_302_420_403_875e-1,
        5.435_364_690_523_026e-3,
        1.493_389_585_089_498e-1,
        4.976_029_650_847_191e-6,
        7.978_845_453_073_848e-1,
    ];
    pub(super) const PHASE_1: [f64; 8] = [
        -4.497_014_141_919_556e1,
        5.073_465_654_089_319e1,
        -2.485_774_108_720_340e1,
        7.222_973_196_770_240,
        -1.544_842_782_180_211,
        3.503_787_691_653_334e-1,
        -1.637_986_776_941_202e-1,
        3.749_989_509_080_821e-1,
    ];
    /// Squares of zeros.
    pub(super) const J0_ZERO: f32 = 5.783_185_962_946_784_521_18;
    pub(super) const Y0_ZERO: f32 = 0.432_214_556_865_108_348_78;
    pub(super) const J1_ZERO: f32 = 1.468_197_064_212_389_325_72e1;
    pub(super) const Y1_ZERO: f32 = 4.665_393_301_856_688_575_32;
}

mod double {
    /// `J0(x) / ((x² - r²) (x² - s²))` in `x²`, `r` and `s` being the first zeros.
    pub(super) const J0: [&[f64]; 2] = [
        &[
            -4.794_432_209_782_017_738_21e9,
            1.956_174_919_465_565_775_43e12,
            -2.492_483_443_609_677_162_04e14,
            9.708_622_510_473_063_239_52e15,
        ],
        &[
            1.000_000_000_000_000_000_00,
            4.995_631_471_526_510_172_19e2,
            1.737_854_016_763_746_831_23e5,
            4.844_096_583_399_620_453_05e7,
            1.118_555_370_453_568_348_62e10,
            2.112_775_201_154_892_175_87e12,
            3.105_182_298_574_225_838_14e14,
            3.181_219_559_432_049_433_06e16,
            1.710_862_940_810_431_360_91e18,
        ],
    ];
    pub(super) const J0_ZEROS: [f64; 2] =
        [5.783_185_962_946_784_521_18, 3.047_126_234_366_208_639_91e1];
    /// `Y0(x) - 2/pi ln(x) J0(x)` in `x²`.
    pub(super) const Y0: [&[f64]; 2] = [
        &[
            1.559_243_678_552_357_379_65e4,
            -1.466_392_959_039_716_061_43e7,
            5.435_264_770_518_765_004_13e9,
            -9.821_360_657_179_114_664_09e11,
            8.759_063_943_953_669_995_49e13,
            -3.466_283_033_847_297_194_41e15,
            4.427_332_685_725_698_003_51e16,
            -1.849_508_004_369_866_906_37e16,
        ],
        &[
            1.000_000_000_000_000_000_00,
            1.041_283_536_642_598_484_12e3,
            6.261_073_301_371_349_568_42e5,
            2.689_196_333_938_141_219_87e8,
            8.640_024_871_039_350_003_37e10,
            2.029_796_127_501_055_467_09e13,
            3.171_577_528_429_750_282_69e15,
            2.505_962_561_726_530_592_28e17,
        ],
    ];
    /// The even and the odd part of Hankel's expansion of order 0, in `25 / x²`.
    pub(super) const EVEN_0: [&[f64]; 2] = [
        &[
            7.969_367_292_973_470_516_24e-4,
            8.283_523_921_074_407_998_03e-2,
            1.239_533_716_464_142_993_88,
            5.447_250_030_587_687_750_90,
            8.747_165_001_998_170_119_41,
            5.303_240_382_353_948_921_83,
            9.999_999_999_999_999_978_21e-1,
        ],
        &[
            9.244_088_105_588_636_370_13e-4,
            8.562_884_743_544_744_314_28e-2,
            1.253_527_439_010_589_535_37,
            5.470_977_403_304_171_051_82,
            8.761_908_832_370_695_942_32,
            5.306_052_882_353_946_176_18,
            1.000_000_000_000_000_002_18,
        ],
    ];
    pub(super) const ODD_0: [&[f64]; 2] = [
        &[
            -1.136_638_388_984_691_499_31e-2,
            -1.282_527_186_705_093_185_12,
            -1.955_395_442_577_359_723_85e1,
            -9.320_601_521_237_682_313_69e1,
            -1.776_811_679_804_880_505_95e2,
            -1.470_775_051_549_511_701_75e2,
            -5.141_053_267_665_993_302_20e1,
            -6.050_143_506_007_284_811_86,
        ],
        &[
            1.000_000_000_000_000_000_00,
            6.431_782_561_181_780_231_84e1,
            8.564_300_259_769_805_871_98e2,
            3.882_401_836_054_016_096_83e3,
            7.240_467_741_956_524_781_89e3,
            5.930_727_011_873_169_848_27e3,
            2.062_093_316_603_278_474_17e3,
            2.420_057_402_402_913_931_79e2,
        ],
    ];
    /// As for order 0, but by `x` too.
    pub(super) const J1: [&[f64]; 2] = [
        &[
            -8.999_712_257_055_593_982_24e8,
            4.522_282_979_981_940_343_23e11,
            -7.274_942_452_218_182_760_15e13,
            3.682_957_328_638_528_832_86e15,
        ],
        &[
            1.000_000_000_000_000_000_00,
            6.208_364_781_180_543_354_76e2,
            2.569_872_567_577_488_303_83e5,
            8.351_467_914_319_492_530_37e7,
            2.215_115_954_797_924_996_75e10,
            4.749_141_220_799_914_148_98e12,
            7.843_696_078_762_358_548_94e14,
            8.952_223_361_846_273_380_78e16,
            5.322_786_203_326_800_853_95e18,
        ],
    ];
    pub(super) const J1_ZEROS: [f64; 2] =
        [1.468_197_064_212_389_325_72e1, 4.921_845_632_169_460_367_03e1];
    pub(super) const Y1: [&[f64]; 2] = [
        &[
            1.263_204_747_901_780_264_40e9,
            -6.473_558_763_791_602_910_31e11,
            1.145_095_115_418_237_275_83e14,
            -8.127_702_555_013_251_096_21e15,
            2.024_394_757_135_948_981_96e17,
            -7.788_771_962_659_500_268_25e17,
        ],
        &[
            1.000_000_000_000_000_000_00,
            5.943_015_923_461_281_953_59e2,
            2.355_640_929_430_685_779_43e5,
            7.348_119_444_597_217_056_60e7,
            1.876_013_161_087_061_594_78e10,
            3.882_312_774_962_385_660_08e12,
            6.205_577_271_469_536_933_63e14,
            6.871_410_873_553_004_898_66e16,
            3.972_706_081_165_606_556_12e18,
        ],
    ];
    pub(super) const EVEN_1: [&[f64]; 2] = [
        &[
            7.621_256_162_081_731_120_03e-4,
            7.313_970_569_409_175_704_36e-2,
            1.127_196_081_296_849_251_92,
            5.112_079_511_468_076_448_18,
            8.424_045_901_417_724_209_27,
            5.214_515_986_823_615_040_63,
            1.000_000_000_000_000_002_54,
        ],
        &[
            5.713_231_280_725_486_997_14e-4,
            6.884_559_087_544_954_040_82e-2,
            1.105_142_326_340_616_969_26,
            5.073_863_861_286_014_885_57,
            8.399_855_543_276_041_597_57,
            5.209_828_486_823_618_216_19,
            9.999_999_999_999_999_974_61e-1,
        ],
    ];
    pub(super) const ODD_1: [&[f64]; 2] = [
        &[
            5.108_625_947_501_766_216_35e-2,
            4.982_138_729_512_334_494_20,
            7.582_382_841_325_452_838_18e1,
            3.667_796_093_601_507_778_00e2,
            7.108_563_049_989_261_072_77e2,
            5.974_896_124_006_136_399_65e2,
            2.116_887_571_005_721_356_98e2,
            2.520_702_058_580_237_197_84e1,
        ],
        &[
            1.000_000_000_000_000_000_00,
            7.423_732_770_356_751_499_43e1,
            1.056_448_860_382_628_163_51e3,
            4.986_410_583_376_536_076_51e3,
            9.562_318_924_047_561_707_95e3,
            7.997_041_604_473_506_836_50e3,
            2.826_192_785_176_390_966_00e3,
            3.360_936_078_106_982_934_19e2,
        ],
    ];
}

impl Bessel for f32 {
    fn j0(self) -> f32 {
        let (y, z) = (self.abs(), self * self);
        if y < 1e-3 {
            z * -0.25 + 1.0
        } else if y <= 2.0 {
            (z - single::J0_ZERO) * polynomial(z, &single::J0)
        } else {
            let (modulus, phase) = polar(y, &single::MODULUS_0, &single::PHASE_0, FRAC_PI_4);
            modulus * phase.cos()
        }
    }

    fn j1(self) -> f32 {
        let (y, z) = (self.abs(), self * self);
        if y <= 2.0 {
            return (z - single::J1_ZERO) * (self * polynomial(z, &single::J1));
        }
        let (modulus, phase) = polar(y, &single::MODULUS_1, &single::PHASE_1, THREE_PI_4);
        let result = modulus * phase.cos();
        if self < 0.0 { -result } else { result }
    }

    fn y0(self) -> f32 {
        if self <= 0.0 {
            f32::NEG_INFINITY
        } else if self <= 2.0 {
            let z = self * self;
            let logarithmic = FRAC_2_PI as f32 * (self.ln() * self.j0());
            (z - single::Y0_ZERO) * polynomial(z, &single::Y0) + logarithmic
        } else {
            let (modulus, phase) = polar(self, &single::MODULUS_0, &single::PHASE_0, FRAC_PI_4);
            modulus * phase.sin()
        }
    }

    /// NaN at 0, as in the reference; the limit is minus infinity.
    fn y1(self) -> f32 {
        if self < 0.0 {
            f32::NEG_INFINITY
        } else if self <= 2.0 {
            let z = self * self;
            let logarithmic = FRAC_2_PI as f32 * (self.j1() * self.ln() + -1.0 / self);
            (z - single::Y1_ZERO) * polynomial(z, &single::Y1) * self + logarithmic
        } else {
            let (modulus, phase) = polar(self, &single::MODULUS_1, &single::PHASE_1, THREE_PI_4);
            modulus * phase.sin()
        }
    }
}

/// Modulus and phase of J and Y beyond 2.
fn polar(x: f32, modulus: &[f64], phase: &[f64], shift: f64) -> (f32, f32) {
    let q = 1.0 / x;
    let modulus = x.sqrt().recip() * polynomial(q, modulus);
    let phase = q * polynomial(q * q, phase) - shift as f32;
    (modulus, phase + x)
}

impl Bessel for f64 {
    fn j0(self) -> f64 {
        let (y, z) = (self.abs(), self * self);
        if y < 1e-5 {
            z * -0.25 + 1.0
        } else if y <= 5.0 {
            let [first, second] = double::J0_ZEROS;
            (z - first) * (z - second) * quotient(z, double::J0[0], double::J0[1])
        } else {
            let (even, odd) = hankel(y, double::EVEN_0, double::ODD_0);
            let angle = y - FRAC_PI_4;
            (even * angle.cos() - odd * angle.sin()) * (SQRT_2_OVER_PI * y.sqrt().recip())
        }
    }

    fn j1(self) -> f64 {
        let (y, z) = (self.abs(), self * self);
        if y <= 5.0 {
            let [first, second] = double::J1_ZEROS;
            return quotient(z, double::J1[0], double::J1[1]) * self * (z - first) * (z - second);
        }
        let (even, odd) = hankel(y, double::EVEN_1, double::ODD_1);
        let angle = y - THREE_PI_4;
        let result = (even * angle.cos() - odd * angle.sin()) * (SQRT_2_OVER_PI * y.sqrt().recip());
        if self < 0.0 { -result } else { result }
    }

    fn y0(self) -> f64 {
        if self <= 0.0 {
            f64::NEG_INFINITY
        } else if self <= 5.0 {
            let rational = quotient(self * self, double::Y0[0], double::Y0[1]);
            FRAC_2_PI * self.ln() * self.j0() + rational
        } else {
            let (even, odd) = hankel(self, double::EVEN_0, double::ODD_0);
            let angle = self - FRAC_PI_4;
            (even * angle.sin() + odd * angle.cos()) * (SQRT_2_OVER_PI * self.sqrt().recip())
        }
    }

    fn y1(self) -> f64 {
        if self <= 0.0 {
            f64::NEG_INFINITY
        } else if self <= 5.0 {
            let rational = quotient(self * self, double::Y1[0], double::Y1[1]);
            rational * self + FRAC_2_PI * (self.j1() * self.ln() + -1.0 / self)
        } else {
            let (even, odd) = hankel(self, double::EVEN_1, double::ODD_1);
            let angle = self - THREE_PI_4;
            (even * angle.sin() + odd * angle.cos()) * (SQRT_2_OVER_PI * self.sqrt().recip())
        }
    }
}

/// The even and the odd part of Hankel's expansion, for x beyond 5.
fn hankel(x: f64, even: [&[f64]; 2], odd: [&[f64]; 2]) -> (f64, f64) {
    let s = 25.0 / (x * x);
    (quotient(s, even[0], even[1]), 5.0 / x * quotient(s, odd[0], odd[1]))
}

#[cfg(test)]
mod tests {
    use crate::special::bessel::Bessel;
    use crate::special::{Case, check_table};

    #[test]
    fn values_of_the_reference() {
        let cases: [Case; 4] = [
            ("BesselJ0", Bessel::j0, Bessel::j0),
            ("BesselJ1", Bessel::j1, Bessel::j1),
            ("BesselY0", Bessel::y0, Bessel::y0),
            ("BesselY1", Bessel::y1, Bessel::y1),
        ];
        // From TensorFlow 2.21: argument, float and double result.
        let rows = [
            ("BesselJ0", 0.0, 1.0, 1.0),
            ("BesselJ0", 0.0005, 0.99999994, 0.9999999375000009),
            ("BesselJ0", -1.25, 0.6459061, 0.6459060852712852),
            ("BesselJ0", 2.0, 0.2238908, 0.22389077914123562),
            ("BesselJ0", -4.5, -0.3205425, -0.32054250898512143),
            ("BesselJ0", 30.0, -0.08636795, -0.08636798358104031),
            ("BesselJ0", f64::INFINITY, f32::NAN, f64::NAN),
            ("BesselJ0", f64::NAN, f32::NAN, f64::NAN),
            ("BesselJ1", 0.0, 0.0, 0.0),
            ("BesselJ1", 0.0005, 0.00025000004, 0.0002499999921875001),
            ("BesselJ1", -1.25, -0.5106233, -0.5106232603198805),
            ("BesselJ1", 2.0, 0.5767248, 0.5767248077568734),
            ("BesselJ1", -4.5, 0.23106042, 0.2310604319233706),
            ("BesselJ1", 30.0, -0.11875107, -0.11875106261662303),
            ("BesselJ1", f64::INFINITY, f32::NAN, f64::NAN),
            ("BesselJ1", f64::NAN, f32::NAN, f64::NAN),
            ("BesselY0", -1.0, -f32::INFINITY, -f64::INFINITY),
            ("BesselY0", 0.0, -f32::INFINITY, -f64::INFINITY),
            ("BesselY0", 0.25, -0.93157303, -0.9315730249300589),
            ("BesselY0", 2.0, 0.51037574, 0.5103756726497451),
            ("BesselY0", 4.5, -0.19470495, -0.19470500862950416),
            ("BesselY0", 30.0, -0.11729575, -0.11729573168666396),
            ("BesselY0", f64::NAN, f32::NAN, f64::NAN),
            ("BesselY1", -1.0, -f32::INFINITY, -f64::INFINITY),
            ("BesselY1", 0.0, f32::NAN, -f64::INFINITY),
            ("BesselY1", 0.25, -2.7041051, -2.7041052293152825),
            ("BesselY1", 2.0, -0.10703243, -0.10703243154093756),
            ("BesselY1", 4.5, 0.30099732, 0.300997323069655),
            ("BesselY1", 30.0, 0.08442555, 0.08442557066174712),
            ("BesselY1", f64::NAN, f32::NAN, f64::NAN),
        ];
        check_table(&cases, &rows);
    }
}
