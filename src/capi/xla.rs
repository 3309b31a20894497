//! Switches of XLA, which is not built in: what is set can be read, and changes nothing else.
#![allow(unused_variables, reason = "the headers have arguments that no implementation needs")]

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use super::handle::{CStrIn, Mut, quiet};
use super::session::TF_SessionOptions;

static LAZY_COMPILATION: AtomicBool = AtomicBool::new(true);
static CPU_GLOBAL_JIT: AtomicBool = AtomicBool::new(false);
static AUTO_JIT: AtomicBool = AtomicBool::new(false);
static CONSTANT_FOLDING_DISABLED: AtomicBool = AtomicBool::new(false);

/// Sets `global_jit_level` of the configuration to `ON_1`, and the switch of `TF_SetTfXlaCpuGlobalJit` with it, or to
/// `OFF`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_EnableXLACompilation(mut options: Mut<TF_SessionOptions>, enable: u8) {
    quiet((), || {
        options.get("options")?.set_global_jit(enable != 0);
        if enable != 0 {
            CPU_GLOBAL_JIT.store(true, Ordering::Relaxed);
        }
        Ok(())
    });
}

/// Sets a switch and returns its former value.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetXlaEnableLazyCompilation(enable: u8) -> u8 {
    LAZY_COMPILATION.swap(enable != 0, Ordering::Relaxed).into()
}

/// Sets a switch and returns its former value.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetTfXlaCpuGlobalJit(enable: u8) -> u8 {
    CPU_GLOBAL_JIT.swap(enable != 0, Ordering::Relaxed).into()
}

/// Sets the level at which nodes are compiled: a number, `single-gpu(number)` or `fusible`. Other texts change nothing.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetXlaAutoJitMode(mode: CStrIn) {
    quiet((), || {
        if let Some(is_on) = auto_jit(&mode.get("mode")?) {
            AUTO_JIT.store(is_on, Ordering::Relaxed);
        }
        Ok(())
    });
}

/// True if the level is above 0; `None` for a text that is no mode.
fn auto_jit(mode: &str) -> Option<bool> {
    if mode == "fusible" {
        return Some(true);
    }
    let level =
        mode.strip_prefix("single-gpu(").and_then(|rest| rest.strip_suffix(')')).unwrap_or(mode);
    level.trim().parse::<i32>().ok().map(|level| level > 0)
}

/// Returns 1 if the mode of `TF_SetXlaAutoJitMode` is above level 0, as it is not by default.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetXlaAutoJitEnabled() -> u8 {
    AUTO_JIT.load(Ordering::Relaxed).into()
}

/// Does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetXlaMinClusterSize(size: c_int) {}

/// Returns what `TF_SetXlaConstantFoldingDisabled` has set, 0 by default.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetXlaConstantFoldingDisabled() -> u8 {
    CONSTANT_FOLDING_DISABLED.load(Ordering::Relaxed).into()
}

/// Sets what `TF_GetXlaConstantFoldingDisabled` returns.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetXlaConstantFoldingDisabled(should_enable: u8) {
    CONSTANT_FOLDING_DISABLED.store(should_enable != 0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read() {
        let cases = [
            ("0", Some(false)),
            ("1", Some(true)),
            ("-1", Some(false)),
            ("fusible", Some(true)),
            ("single-gpu(2)", Some(true)),
            ("single-gpu(0)", Some(false)),
            ("single-gpu(2", None),
            ("", None),
        ];
        for (mode, expected) in cases {
            assert_eq!(auto_jit(mode), expected, "{mode:?}");
        }
    }
}
