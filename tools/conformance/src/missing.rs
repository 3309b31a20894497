//! The list of what is known to be missing. It only shrinks.
//!
//! A line is `op Name`, `case Op/007 reason` or `model name reason`; `#` starts a comment line.

use std::collections::{BTreeMap, BTreeSet};

/// What a line of the list, or a case that was played, is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Subject<'a> {
    /// A case by its short name, `Op/007`.
    Case(&'a str),
    Model(&'a str),
}

impl<'a> Subject<'a> {
    /// The op under test.
    fn op(&self) -> Option<&'a str> {
        match self {
            Subject::Case(id) => id.split('/').next(),
            Subject::Model(_) => None,
        }
    }

    /// The beginning of the line that lists just this.
    fn key(&self) -> String {
        match self {
            Subject::Case(id) => format!("case {id}"),
            Subject::Model(name) => format!("model {name}"),
        }
    }
}

/// Everything listed, by the beginning of its line (`op Abs`), with the line's reason.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    comments: Vec<String>,
    entries: BTreeMap<String, String>,
}

impl Missing {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut missing = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if line.starts_with('#') {
                missing.comments.push(line.to_owned());
                continue;
            }
            let mut words = line.splitn(3, ' ');
            match (words.next(), words.next(), words.next()) {
                (Some(kind @ ("op" | "case" | "model")), Some(name), reason) => {
                    missing.entries.insert(
                        format!("{kind} {name}"),
                        reason.unwrap_or_default().trim().to_owned(),
                    );
                }
                _ => return Err(format!("not understood: {line}")),
            }
        }
        Ok(missing)
    }

    /// The line that lists the subject, if there is one.
    pub(crate) fn entry(&self, subject: Subject<'_>) -> Option<&str> {
        let own = self.entries.get_key_value(&subject.key());
        let of_op = || self.entries.get_key_value(&format!("op {}", subject.op()?));
        own.or_else(of_op).map(|(key, _)| key.as_str())
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        for comment in &self.comments {
            text += comment;
            text.push('\n');
        }
        for (key, reason) in &self.entries {
            text += format!("{key} {reason}").trim_end();
            text.push('\n');
        }
        text
    }

    /// Entries of which everything that was played passes: they have no place in the list any more.
    pub(crate) fn outdated(&self, results: &[(Subject<'_>, bool)]) -> Vec<String> {
        let mut played = BTreeMap::<&str, bool>::new();
        for (subject, passed) in results {
            if let Some(key) = self.entry(*subject) {
                *played.entry(key).or_insert(true) &= *passed;
            }
        }
        played.into_iter().filter(|(_, passed)| *passed).map(|(key, _)| key.to_owned()).collect()
    }

    /// Takes off what passes, given results that hold whole ops.
    ///
    /// When most cases of a listed op pass, the op is there; its line becomes one for each case
    /// that still fails, so that the others cannot go wrong unseen.
    pub(crate) fn shrink(&mut self, results: &[(Subject<'_>, bool)]) {
        for key in self.outdated(results) {
            self.entries.remove(&key);
        }
        let mut by_op = BTreeMap::<&str, Vec<(Subject<'_>, bool)>>::new();
        for (subject, passed) in results {
            if let Some(op) = subject.op() {
                by_op.entry(op).or_default().push((*subject, *passed));
            }
        }
        for (op, cases) in by_op {
            let failing: BTreeSet<String> =
                cases.iter().filter(|case| !case.1).map(|case| case.0.key()).collect();
            let key = format!("op {op}");
            if 2 * failing.len() < cases.len()
                && let Some(reason) = self.entries.remove(&key)
            {
                self.entries.extend(failing.into_iter().map(|key| (key, reason.clone())));
            }
        }
    }

    /// Entries that name nothing there is.
    pub(crate) fn unknown<'a>(&self, all: impl Iterator<Item = Subject<'a>>) -> Vec<String> {
        let mut known = BTreeSet::new();
        for subject in all {
            known.insert(subject.key());
            known.extend(subject.op().map(|op| format!("op {op}")));
        }
        self.entries.keys().filter(|key| !known.contains(*key)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Subject::{Case, Model};
    use super::*;

    const LIST: &str = "# why\nop Big\nop Small\ncase Part/001 rounding\nmodel bert no Einsum\n";

    #[test]
    fn subjects_are_found() {
        let missing = Missing::parse(LIST).unwrap();
        assert_eq!(
            missing.to_text(),
            "# why\ncase Part/001 rounding\nmodel bert no Einsum\nop Big\nop Small\n"
        );
        assert_eq!(missing.entry(Case("Big/000")), Some("op Big"));
        assert_eq!(missing.entry(Case("BigOne/000")), None);
        assert_eq!(missing.entry(Case("Part/001")), Some("case Part/001"));
        assert_eq!(missing.entry(Case("Part/002")), None);
        assert_eq!(missing.entry(Model("bert")), Some("model bert"));
        assert!(Missing::parse("operation Big").is_err());
        assert_eq!(
            missing.unknown([Case("Big/1"), Case("Part/001"), Model("bert")].into_iter()),
            ["op Small"]
        );
    }

    #[test]
    fn the_list_shrinks_to_what_fails() {
        let mut missing = Missing::parse(LIST).unwrap();
        #[rustfmt::skip]
        let results = [
            (Case("Big/000"), true), (Case("Big/001"), true), (Case("Big/002"), false),
            (Case("Small/000"), true), (Case("Small/001"), false),
            (Case("Part/001"), true),
            (Case("New/000"), false),
        ];
        assert_eq!(missing.outdated(&results), ["case Part/001"]);
        missing.shrink(&results);
        assert_eq!(missing.to_text(), "# why\ncase Big/002\nmodel bert no Einsum\nop Small\n");
        missing.shrink(&[(Case("Small/000"), true), (Model("bert"), true)]);
        assert_eq!(missing.to_text(), "# why\ncase Big/002\n");
    }
}
