//! Denormal numbers, which TensorFlow's threads take for zero.

use std::marker::PhantomData;

/// As long as it lives, its thread takes denormal inputs of floating-point instructions for zero and returns zero instead of
/// denormal results. Then the thread's former mode is restored.
pub struct FlushDenormals {
    former: mode::Mode,
    /// The mode is the thread's.
    _not_send: PhantomData<*const ()>,
}

impl FlushDenormals {
    #[inline]
    #[allow(clippy::new_without_default, reason = "it changes the thread's mode")]
    pub fn new() -> FlushDenormals {
        let former = mode::get();
        if former | mode::FLUSH != former {
            mode::set(former | mode::FLUSH);
        }
        FlushDenormals { former, _not_send: PhantomData }
    }
}

impl Drop for FlushDenormals {
    #[inline]
    fn drop(&mut self) {
        if self.former | mode::FLUSH != self.former {
            mode::set(self.former);
        }
    }
}

/// The register MXCSR.
#[cfg(target_arch = "x86_64")]
mod mode {
    use std::arch::asm;

    pub(super) type Mode = u32;

    /// Flush to zero (results), and denormals are zero (inputs).
    pub(super) const FLUSH: Mode = 1 << 15 | 1 << 6;

    #[inline]
    pub(super) fn get() -> Mode {
        let mut mode = 0u32;
        // SAFETY: the instruction writes the four bytes it is given. All x86-64 processors have it.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mode, options(nostack, preserves_flags)) };
        mode
    }

    #[inline]
    pub(super) fn set(mode: Mode) {
        // SAFETY: the instruction reads four bytes. `mode` differs from the thread's mode in the two bits above alone, which no
        // code that the compiler makes relies on.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const mode, options(nostack, preserves_flags)) };
    }
}

/// The register FPCR.
#[cfg(target_arch = "aarch64")]
mod mode {
    use std::arch::asm;

    pub(super) type Mode = u64;

    /// Flush to zero, inputs and results.
    pub(super) const FLUSH: Mode = 1 << 24;

    #[inline]
    pub(super) fn get() -> Mode {
        let mode;
        // SAFETY: the instruction only reads the register.
        unsafe { asm!("mrs {}, fpcr", out(reg) mode, options(nomem, nostack, preserves_flags)) };
        mode
    }

    #[inline]
    pub(super) fn set(mode: Mode) {
        // SAFETY: `mode` differs from the thread's mode in the bit above alone, which no code that the compiler makes relies on.
        unsafe { asm!("msr fpcr, {}", in(reg) mode, options(nomem, nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod mode {
    pub(super) type Mode = u32;
    pub(super) const FLUSH: Mode = 0;

    pub(super) fn get() -> Mode {
        0
    }

    pub(super) fn set(_mode: Mode) {}
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn inputs_and_results_are_flushed_within_the_guard() {
        let cases = [(1e-30f32, 1e-10f32), (1e-40, 1e10)];
        let products = || cases.map(|(a, b)| black_box(a) * black_box(b));
        let before = products();
        {
            let _outer = FlushDenormals::new();
            {
                let _inner = FlushDenormals::new();
                assert_eq!(products(), [0.0; 2]);
            }
            assert_eq!(products(), [0.0; 2]);
            assert_eq!(black_box(1e-310f64) * black_box(1e10), 0.0);
        }
        assert_eq!(products(), before);
        assert!(before.iter().all(|&product| product > 0.0));
    }
}
