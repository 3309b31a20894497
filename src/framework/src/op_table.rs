//! The definitions of the library's own ops.
//!
//! They stand in one text table, in the notation of op registrations. Nothing is parsed before
//! somebody asks for it, and then only that op.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use tfcore_base::{Result, invalid};

use crate::OpDef;
use crate::op_spec::OpSpec;

mod index {
    include!(concat!(env!("OUT_DIR"), "/op_index.rs"));
}

const TABLE: &str = include_str!("../op_table/ops.txt");

static DEFS: [OnceLock<Arc<OpDef>>; index::LEN] = [const { OnceLock::new() }; index::LEN];

/// Positions by name: a graph looks an op up for each of its nodes.
static POSITIONS: LazyLock<HashMap<&'static str, u32>> = LazyLock::new(|| {
    index::INDEX.iter().enumerate().map(|(position, entry)| (entry.0, position as u32)).collect()
});

/// The definition of the op `name`.
pub fn get(name: &str) -> Option<&'static Arc<OpDef>> {
    let position = *POSITIONS.get(name)? as usize;
    let (_, start, end) = index::INDEX[position];
    let parse = || {
        let text = &TABLE[start as usize..end as usize];
        Arc::new(parse_entry(text).expect("a test parses every entry of the table"))
    };
    Some(DEFS[position].get_or_init(parse))
}

/// The names of all ops, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    index::INDEX.iter().map(|entry| entry.0)
}

fn parse_entry(text: &str) -> Result<OpDef> {
    let mut lines = text.lines();
    let name = lines.next().and_then(|line| line.strip_prefix("op ")).unwrap_or_default();
    let mut spec = OpSpec::new(name.trim());
    for line in lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (keyword, rest) = line.split_once(' ').unwrap_or((line, ""));
        match keyword {
            "input" => spec = spec.input(rest),
            "output" => spec = spec.output(rest),
            "attr" => spec = spec.attr(rest),
            "flags" => rest.split(' ').try_for_each(|flag| spec.set_flag(flag))?,
            "deprecated" => {
                let (version, text) = rest.split_once(' ').unwrap_or((rest, "\"\""));
                let version = version.parse().map_err(|_| invalid!("Bad version in '{line}'"))?;
                let text = crate::spec_reader::Reader::new(text).string()?;
                spec = spec.deprecated(version, String::from_utf8_lossy(&text));
            }
            _ => return Err(invalid!("Unknown line '{line}'")),
        }
    }
    spec.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_op_parses() {
        assert_eq!(names().count(), 1799);
        for name in names() {
            assert_eq!(&*get(name).unwrap().name, name);
        }
        assert!(get("NoSuchOp").is_none());
    }

    #[test]
    fn definitions_read_as_messages_show_them() {
        let cases = [
            (
                "Placeholder",
                "Op<name=Placeholder; signature= -> output:dtype; attr=dtype:type; \
                 attr=shape:shape,default=<unknown>>",
            ),
            (
                "AddN",
                "Op<name=AddN; signature=inputs:N*T -> sum:T; attr=N:int,min=1; \
                 attr=T:type,allowed=[DT_FLOAT, DT_DOUBLE, DT_INT32, DT_UINT8, DT_INT16, DT_INT8, \
                 DT_COMPLEX64, DT_INT64, DT_QINT8, DT_QUINT8, DT_QINT32, DT_BFLOAT16, DT_QINT16, \
                 DT_QUINT16, DT_UINT16, DT_COMPLEX128, DT_HALF, DT_UINT32, DT_UINT64, DT_VARIANT]; \
                 is_commutative=true; is_aggregate=true>",
            ),
            (
                "Assign",
                "Op<name=Assign; signature=ref:Ref(T), value:T -> output_ref:Ref(T); attr=T:type; \
                 attr=validate_shape:bool,default=true; attr=use_locking:bool,default=true; \
                 allows_uninitialized_input=true>",
            ),
        ];
        for (name, text) in cases {
            assert_eq!(get(name).unwrap().to_string(), text);
        }
    }
}
