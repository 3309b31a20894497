//! Warnings, for what has no status to be reported by.

use std::io::Write;

/// The level from which on messages are wanted: 0 all, 1 warnings, 2 errors, 3 none of them. TensorFlow's own variable.
const LEVEL: &str = "TF_CPP_MIN_LOG_LEVEL";

/// Writes a line to stderr.
pub(crate) fn warn(message: &str) {
    let level = std::env::var(LEVEL).ok().and_then(|text| text.parse().ok()).unwrap_or(0u32);
    if level <= 1 {
        // There is nowhere else to report that stderr is closed.
        let _ = writeln!(std::io::stderr().lock(), "W tfcore: {message}");
    }
}
