//! `PassOptions`: which passes are switched off, by a session's configuration or by the environment.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The environment variable that switches passes: `TFCORE_PASSES=-fold,-lift`. `+fold` undoes a configuration's switch.
const SWITCHES: &str = "TFCORE_PASSES";

/// The environment variable that prints: `TFCORE_LOG=plan` writes each graph to stderr before and after each pass.
const LOG: &str = "TFCORE_LOG";

/// Which passes run. Passes that plans cannot do without run anyway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PassOptions {
    off: BTreeSet<String>,
    /// True to print the graph before and after each pass.
    pub log: bool,
}

impl PassOptions {
    /// All passes but `off` and those that the environment switches off. The environment is read once in a process.
    pub fn from_env(off: &[&str]) -> PassOptions {
        static SWITCHED: LazyLock<String> =
            LazyLock::new(|| std::env::var(SWITCHES).unwrap_or_default());
        static LOGS: LazyLock<bool> = LazyLock::new(|| {
            let log = std::env::var(LOG).unwrap_or_default();
            log.split(',').any(|topic| topic.trim() == "plan")
        });
        PassOptions { log: *LOGS, ..PassOptions::parse(off, &SWITCHED) }
    }

    fn parse(off: &[&str], switches: &str) -> PassOptions {
        let mut off: BTreeSet<String> = off.iter().map(|name| name.to_string()).collect();
        for switch in switches.split(',').map(str::trim) {
            match switch.strip_prefix('-') {
                Some(name) => _ = off.insert(name.to_string()),
                None => _ = off.remove(switch.trim_start_matches('+')),
            }
        }
        PassOptions { off, log: false }
    }

    pub fn is_on(&self, pass: &str) -> bool {
        !self.off.contains(pass)
    }

    /// These options with another pass switched off.
    pub fn without(&self, pass: &str) -> PassOptions {
        let mut options = self.clone();
        options.off.insert(pass.to_string());
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_has_the_last_word() {
        for (off, switches, fold, lift) in [
            (&[][..], "", true, true),
            (&["fold"][..], "", false, true),
            (&["fold"][..], "+fold, -lift", true, false),
            (&[][..], "-fold,fold,-unknown", true, true),
        ] {
            let options = PassOptions::parse(off, switches);
            assert_eq!((options.is_on("fold"), options.is_on("lift")), (fold, lift), "{switches}");
        }
        assert!(!PassOptions::default().without("fold").is_on("fold"));
    }
}
