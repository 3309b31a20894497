//! Run-time choice of the vector instruction set.
//!
//! The library is compiled for the baseline of its platform. [`level`] says which wider instructions this machine has;
//! [`vectorize`] runs a plain loop compiled for them, and kernels with intrinsics are chosen by it too. The environment
//! variable `TFCORE_ISA` holds the level down (`portable`, `avx2`, `avx512`, `avx512_vnni`, `avx512_bf16`, `neon`), to test
//! and measure the code of lesser machines. It cannot raise the level, so no value of it leads to a fault.
//!
//! `vectorize` changes no result: the compiler reorders no floating point arithmetic and contracts no product and sum into a
//! fused one, so an element-wise loop gives the same bits on every level.

use std::sync::atomic::{AtomicU8, Ordering};

/// Instruction sets, each with all of those before it on the same architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// The baseline of the platform.
    Portable = 1,
    /// 128-bit vectors of aarch64.
    Neon,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, CD, DQ and VL.
    Avx512,
    /// With products of 8-bit integers.
    Avx512Vnni,
    /// With products of bfloat16.
    Avx512Bf16,
}

impl Level {
    /// The names that `TFCORE_ISA` takes.
    const NAMES: [(&str, Level); 6] = [
        ("portable", Level::Portable),
        ("neon", Level::Neon),
        ("avx2", Level::Avx2),
        ("avx512", Level::Avx512),
        ("avx512_vnni", Level::Avx512Vnni),
        ("avx512_bf16", Level::Avx512Bf16),
    ];
}

/// The level that kernels are to use. It is determined once; later calls cost a load.
#[inline]
pub fn level() -> Level {
    static LEVEL: AtomicU8 = AtomicU8::new(0);
    let known = LEVEL.load(Ordering::Relaxed);
    match known {
        1 => Level::Portable,
        2 => Level::Neon,
        3 => Level::Avx2,
        4 => Level::Avx512,
        5 => Level::Avx512Vnni,
        6 => Level::Avx512Bf16,
        _ => {
            let level = determine(std::env::var("TFCORE_ISA").ok().as_deref(), detect());
            LEVEL.store(level as u8, Ordering::Relaxed);
            level
        }
    }
}

/// The level of a machine that has `detected`, held down to the one named; unknown names count for nothing.
fn determine(name: Option<&str>, detected: Level) -> Level {
    let named = Level::NAMES.iter().find(|(known, _)| Some(*known) == name);
    match named {
        // The two architectures share an order, but not their instructions.
        Some(&(_, Level::Neon)) if detected != Level::Neon => Level::Portable,
        Some(&(_, level)) => level.min(detected),
        None => detected,
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    use std::arch::is_x86_feature_detected as has;
    let avx2 = has!("avx2") && has!("fma") && has!("f16c");
    // They came with AVX2 in every processor so far, but are reported apart.
    if !(avx2 && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt")) {
        return Level::Portable;
    }
    let avx512 = has!("avx512f")
        && has!("avx512bw")
        && has!("avx512cd")
        && has!("avx512dq")
        && has!("avx512vl");
    match (avx512, avx512 && has!("avx512vnni"), has!("avx512bf16")) {
        (false, ..) => Level::Avx2,
        (_, false, _) => Level::Avx512,
        (_, _, false) => Level::Avx512Vnni,
        _ => Level::Avx512Bf16,
    }
}

#[cfg(target_arch = "aarch64")]
fn detect() -> Level {
    Level::Neon
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detect() -> Level {
    Level::Portable
}

/// Runs `f` compiled for the widest vector instructions of this machine.
///
/// Only what is inlined into `f`, and `f` itself, benefits: functions called in its loops must be `#[inline(always)]`, and so
/// must a closure that is more than a few lines, or the compiler compiles it once, for the baseline:
/// `vectorize(#[inline(always)] || ...)`.
///
/// The choice costs a load and a branch; it belongs around a loop, not inside one.
#[inline(always)]
pub fn vectorize<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        let level = level();
        if level >= Level::Avx512 {
            // SAFETY: the machine has the instructions, as `level` says.
            return unsafe { with_avx512(f) };
        }
        if level >= Level::Avx2 {
            // SAFETY: as above.
            return unsafe { with_avx2(f) };
        }
    }
    f()
}

/// # Safety
/// The machine has the instructions of [`Level::Avx512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt"
)]
unsafe fn with_avx512<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// # Safety
/// The machine has the instructions of [`Level::Avx2`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn with_avx2<R>(f: impl FnOnce() -> R) -> R {
    f()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_closure_its_arguments_and_returns_its_result() {
        let x: Vec<f32> = (0..1003).map(|i| i as f32 * 0.37).collect();
        let mut y = vec![1.0f32; x.len()];
        let count = vectorize(
            #[inline(always)]
            || {
                for (y, x) in y.iter_mut().zip(&x) {
                    *y += x * x;
                }
                x.len()
            },
        );
        assert_eq!(count, 1003);
        // A fused multiply and add would differ in the last bit for many of these.
        for (y, x) in y.iter().zip(&x) {
            assert_eq!(*y, 1.0 + std::hint::black_box(x * x));
        }
    }

    #[test]
    fn the_environment_lowers_the_level_only() {
        let cases = [
            (None, Level::Avx512, Level::Avx512),
            (Some("avx2"), Level::Avx512Bf16, Level::Avx2),
            (Some("avx512"), Level::Avx2, Level::Avx2),
            (Some("neon"), Level::Avx2, Level::Portable),
            (Some("avx2"), Level::Neon, Level::Neon),
            (Some("portable"), Level::Neon, Level::Portable),
            (Some("sse9"), Level::Avx512, Level::Avx512),
        ];
        for (name, detected, expected) in cases {
            assert_eq!(determine(name, detected), expected, "{name:?} on {detected:?}");
        }
    }
}
