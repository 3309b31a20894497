//! The rules that every node obeys, however it gets into a graph: names, attributes, input types.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tfcore_base::{DType, Result, invalid, unimplemented_error};
use tfcore_framework::log::{self, Severity};
use tfcore_framework::{Attrs, OpDef};

/// The least time between two reports of unknown attributes.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Checks the attributes of a node against its op's definition. Attributes that the definition lacks
/// are allowed, and reported to the log unless they begin with an underscore.
///
/// # Errors
/// `InvalidArgument` for a missing attribute, or one of wrong type or value.
pub(crate) fn check_attrs(name: &str, op: &OpDef, attrs: &Attrs) -> Result<()> {
    let mut missing: Vec<String> = Vec::new();
    for attr in &op.attrs {
        match attrs.get(&attr.name) {
            None => missing.push(format!("'{}'", attr.name)),
            Some(value) => attr.check(value).map_err(|error| {
                let message =
                    format!("{}\n\t; NodeDef: {{{{node {name}}}}}; {op}", error.message());
                error.with_message(message)
            })?,
        }
    }
    if missing.is_empty() {
        report_unknown(name, op, attrs);
        return Ok(());
    }
    missing.sort();
    let plural = if missing.len() > 1 { "s" } else { "" };
    Err(invalid!(
        "NodeDef missing attr{plural} {} from {op}; NodeDef: {{{{node {name}}}}}",
        missing.join(", ")
    ))
}

/// Reports an attribute that the op does not define, at most once in five seconds.
fn report_unknown(node: &str, op: &OpDef, attrs: &Attrs) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let is_unknown = |name: &str| !name.starts_with('_') && op.attr(name).is_none();
    let Some((attr, _)) = attrs.iter().find(|(name, _)| is_unknown(name)) else {
        return;
    };
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_none_or(|last| last.elapsed() >= REPORT_INTERVAL) {
        *last = Some(Instant::now());
        drop(last);
        let message = format!(
            "NodeDef mentions attribute {attr} which is not in the op definition: {op} This may be expected if \
             your graph generating binary is newer  than this binary. Unknown attributes will be ignored. NodeDef: \
             {{{{node {node}}}}}"
        );
        log::report(Severity::Error, &message);
    }
}

/// Checks the number of data inputs of a node.
///
/// # Errors
/// `InvalidArgument` "NodeDef expected inputs 'float, float' do not match 1 inputs specified; ...".
pub(crate) fn check_input_count(
    name: &str,
    op: &OpDef,
    expected: &[DType],
    actual: usize,
) -> Result<()> {
    if expected.len() == actual {
        return Ok(());
    }
    let names: Vec<String> = expected.iter().map(|dtype| dtype.name()).collect();
    Err(invalid!(
        "NodeDef expected inputs '{}' do not match {actual} inputs specified; {op}; NodeDef: {{{{node \
         {name}}}}}",
        names.join(", ")
    ))
}

/// Whether a value of type `actual` may go where `expected` is declared: a reference may be read,
/// but a value is no reference.
pub(crate) fn types_compatible(expected: DType, actual: DType) -> bool {
    expected == actual || expected == actual.base()
}

/// # Errors
/// `Unimplemented` if graphs of this version must not use the op any more.
pub(crate) fn check_deprecation(op: &OpDef, producer: i32) -> Result<()> {
    match &op.deprecation {
        Some((version, explanation)) if producer >= *version => Err(unimplemented_error!(
            "Op {} is not available in GraphDef version {producer}. It has been removed in version \
             {version}. {explanation}.",
            op.name
        )),
        _ => Ok(()),
    }
}

/// The message for an op that nobody knows.
pub(crate) fn unknown_op(op: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!(
        "Op type not registered '{op}' in binary running on {}. Make sure the Op and Kernel are \
         registered in the binary running in this process. Note that if you are loading a saved graph \
         which used ops from tf.contrib (e.g. `tf.contrib.resampler`), accessing should be done before \
         importing the graph, as contrib ops are lazily registered when the module is first accessed.",
        host.trim()
    )
}

/// True if a node of a GraphDef may have this name: one or more pieces `[A-Za-z0-9.][A-Za-z0-9_./-]*` with `>` between them. The names
/// of internal nodes may begin with an underscore.
pub fn is_valid_node_name(name: &str, allow_internal: bool) -> bool {
    let is_first = |b: u8| b.is_ascii_alphanumeric() || b == b'.';
    let is_other = |b: u8| is_first(b) || matches!(b, b'_' | b'/' | b'-');
    name.split('>').enumerate().all(|(index, piece)| {
        let mut bytes = piece.bytes();
        let may_be_internal = allow_internal && index == 0;
        bytes.next().is_some_and(|b| is_first(b) || (may_be_internal && b == b'_'))
            && bytes.all(is_other)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_names() {
        let cases = [
            ("a", true),
            (".x/y-z_0>1", true),
            ("a>b>.c_/-", true),
            ("a\\b", false),
            ("a>", false),
            ("a>>b", false),
            ("a>_b", false),
            ("a>/b", false),
            ("9", true),
            ("a//b/", true),
            ("", false),
            ("_a", false),
            ("a b", false),
            ("a:0", false),
            ("é", false),
            ("/a", false),
        ];
        for (name, valid) in cases {
            assert_eq!(is_valid_node_name(name, false), valid, "{name}");
        }
        assert!(is_valid_node_name("_a", true));
    }
}
