//! Writes `include/` from the C functions in `src/capi`, or checks that it is as this would write it.
//!
//!     cargo run -p tfcore-headers
//!     cargo run -p tfcore-headers -- --check

#[cfg(test)]
mod bindings;
mod generate;
mod pointers;
mod table;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use generate::generate;

type Result<T> = std::result::Result<T, String>;

/// What a header lies at, below `include/`, and its text.
type Headers = BTreeMap<PathBuf, String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => write(&root()),
        ["--check"] => check(&root()),
        _ => Err("usage: tfcore-headers [--check]".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            say(&message);
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stderr, reason = "this is a program")]
fn say(message: &str) {
    eprintln!("{message}");
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn write(root: &Path) -> Result<()> {
    let include = root.join("include");
    let wanted = generate(root)?;
    for stray in read(&include)?.keys().filter(|path| !wanted.contains_key(*path)) {
        let path = include.join(stray);
        fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    for (name, text) in &wanted {
        let path = include.join(name);
        let parent = path.parent().expect("a header lies in a directory");
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Fails with a line for each header that differs.
fn check(root: &Path) -> Result<()> {
    let found = read(&root.join("include"))?;
    let wanted = generate(root)?;
    let stray = found.keys().filter(|path| !wanted.contains_key(*path));
    let stray = stray.map(|path| format!("include/{} has no source", path.display()));
    let stale = wanted.iter().filter_map(|(path, text)| match found.get(path) {
        None => Some(format!("include/{} is missing", path.display())),
        Some(found) => first_difference(found, text)
            .map(|line| format!("include/{}:{line} differs from src/capi", path.display())),
    });
    let wrong: Vec<String> = stray.chain(stale).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("{}\nrun `make headers`", wrong.join("\n")))
}

/// The number of the first line that differs, from 1.
fn first_difference(left: &str, right: &str) -> Option<usize> {
    if left == right {
        return None;
    }
    let same = left.split('\n').zip(right.split('\n')).take_while(|(left, right)| left == right);
    Some(same.count() + 1)
}

/// All files of a directory and those below it.
fn read(directory: &Path) -> Result<Headers> {
    let mut headers = Headers::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(below) = todo.pop() {
        let path = directory.join(&below);
        let fail = |error: std::io::Error| format!("{}: {error}", path.display());
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(fail(error)),
        };
        for entry in entries {
            let entry = entry.map_err(fail)?;
            let name = below.join(entry.file_name());
            if entry.file_type().map_err(fail)?.is_dir() {
                todo.push(name);
            } else {
                headers.insert(name, fs::read_to_string(entry.path()).map_err(fail)?);
            }
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn include_is_up_to_date() {
        check(&root()).unwrap();
    }

    #[test]
    fn differences_are_found_by_line() {
        let cases = [
            ("a\nb\n", "a\nb\n", None),
            ("a\nb\n", "a\nc\n", Some(2)),
            ("a\n", "a\nb\n", Some(2)),
            ("", "a\n", Some(1)),
        ];
        for (left, right, expected) in cases {
            assert_eq!(first_difference(left, right), expected, "{left:?} {right:?}");
        }
    }
}
