//! From Rust to C: cbindgen's headers, with what it cannot know put right.

use std::path::Path;

use cbindgen::{
    Builder, Config, DocumentationStyle, FunctionConfig, Language, Layout, RenameRule, Style,
};

use super::pointers::Plain;
use super::table::{HEADERS, Header, RENAMED};
use super::{Headers, Result};

/// What every function is declared with.
const EXPORT: &str = "TF_CAPI_EXPORT";

/// The longest line of a declaration.
const WIDTH: usize = 100;

/// All headers.
pub(crate) fn generate(root: &Path) -> Result<Headers> {
    HEADERS.iter().map(|header| Ok((header.path.into(), text(root, header)?))).collect()
}

fn text(root: &Path, header: &Header) -> Result<String> {
    let mut builder = Builder::new().with_config(config(header));
    let without_handles = |source: &&str| Plain::new(&root.join("src/capi").join(source));
    let sources = header.sources.iter().map(without_handles).collect::<Result<Vec<_>>>()?;
    for source in &sources {
        builder = builder.with_src(source.path());
    }
    let bindings = builder.generate().map_err(|error| format!("{}: {error}", header.path))?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).map_err(|error| format!("{}: {error}", header.path))?;
    Ok(without_safety(&text).lines().map(|line| wrapped(&plain(line))).collect())
}

fn config(header: &Header) -> Config {
    let mut config = Config {
        language: Language::C,
        style: Style::Both,
        cpp_compat: true,
        include_guard: Some(guard(header.path)),
        no_includes: true,
        sys_includes: owned(header.system),
        includes: owned(header.includes),
        after_includes: Some(format!("\n{}", header.before.trim_end())),
        documentation: true,
        documentation_style: DocumentationStyle::C99,
        usize_is_size_t: true,
        function: FunctionConfig {
            prefix: Some(EXPORT.into()),
            args: Layout::Horizontal,
            rename_args: RenameRule::None,
            ..FunctionConfig::default()
        },
        ..Config::default()
    };
    // A header without sources is its parts.
    config.cpp_compat = !header.sources.is_empty();
    config.export.include = owned(header.add);
    config.export.exclude = owned(header.leave_out);
    for (rust, c) in RENAMED {
        config.export.exclude.push((*rust).into());
        config.export.rename.insert((*rust).into(), (*c).into());
    }
    config
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).into()).collect()
}

/// `TENSORFLOW_C_C_API_H_` for `tensorflow/c/c_api.h`.
fn guard(path: &str) -> String {
    let upper = path.to_uppercase();
    let words: Vec<&str> = upper.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    format!("{}_", words.join("_"))
}

/// Drops the sections `# Safety`, which speak to Rust's callers: in C it is known that pointers must
/// point at something.
fn without_safety(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut dropping = false;
    for line in text.lines() {
        let comment = line.trim_start().strip_prefix("//").map(str::trim);
        dropping = match comment {
            Some("# Safety") => {
                // The empty line before the section goes with it.
                if kept.last().is_some_and(|last| last.trim() == "//") {
                    kept.pop();
                }
                true
            }
            Some(comment) => dropping && !comment.starts_with("# "),
            None => false,
        };
        if !dropping {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
}

/// A line without the word `struct` where C does not need it.
fn plain(line: &str) -> String {
    match line.trim_start().starts_with("//") || line.starts_with("typedef struct") {
        true => line.into(),
        false => line.replace("struct TF_", "TF_").replace("struct SP_", "SP_"),
    }
}

/// A line as one or more, each ended; a function breaks after the commas of its arguments.
fn wrapped(line: &str) -> String {
    if !line.starts_with(EXPORT) {
        return format!("{line}\n");
    }
    let mut lines = String::new();
    let mut width = 0;
    for piece in line.split_inclusive(", ") {
        if width > 0 && width + piece.trim_end().len() > WIDTH {
            lines.truncate(lines.trim_end().len());
            lines.push_str("\n    ");
            width = 4;
        }
        lines.push_str(piece);
        width += piece.len();
    }
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_are_named_after_the_path() {
        assert_eq!(guard("tensorflow/c/c_api.h"), "TENSORFLOW_C_C_API_H_");
        assert_eq!(guard("tfcore.h"), "TFCORE_H_");
    }

    #[test]
    fn safety_sections_go() {
        let cases = [
            ("// Text.\nvoid f(void);\n", "// Text.\nvoid f(void);\n"),
            (
                "// Text.\n//\n// # Safety\n// Must be live.\nvoid f(void);\n",
                "// Text.\nvoid f(void);\n",
            ),
            (
                "// # Safety\n// Live.\n// # Errors\n// None.\nvoid f(void);\n",
                "// # Errors\n// None.\nvoid f(void);\n",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(without_safety(text), expected, "{text:?}");
        }
    }

    #[test]
    fn long_declarations_are_wrapped() {
        let arguments = ["int argument"; 12].join(", ");
        let line = format!("TF_CAPI_EXPORT void f({arguments});");
        let text = wrapped(&line);
        assert_eq!(text.replace("\n    ", " "), format!("{line}\n"));
        assert_eq!(text.lines().map(str::len).collect::<Vec<_>>(), [91, 87, 18]);
        let comment = "// A comment, ".repeat(10);
        assert_eq!(wrapped(&comment), format!("{comment}\n"));
    }
}
