//! The definitions of the library's own ops.
//!
//! They stand in one text table, in the notation of op registrations. The build script writes an index of
//! it; nothing is parsed before somebody asks for it, and then only that op.

use std::sync::{Arc, OnceLock};

use tfcore_base::{Result, invalid};

use crate::OpDef;
use crate::name_hash::{SLOTS, first_slot};
use crate::op_spec::OpSpec;
use crate::spec_reader::Reader;

mod index {
    include!(concat!(env!("OUT_DIR"), "/op_index.rs"));
}

const TABLE: &str = include_str!("../op_table/ops.txt");

/// What comes before the name of an op.
const KEYWORD: &str = "op ";

static DEFS: [OnceLock<Arc<OpDef>>; index::LEN] = [const { OnceLock::new() }; index::LEN];

/// How many ops there are.
pub fn len() -> usize {
    index::LEN
}

/// The definition of the op `name`.
pub fn get(name: &str) -> Option<&'static Arc<OpDef>> {
    let position = find(name)?;
    let parse = || Arc::new(parse_entry(entry(position)).expect("a test parses every entry"));
    Some(DEFS[position].get_or_init(parse))
}

/// The names of all ops, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    (0..index::LEN).map(name_at)
}

/// The position of the op `name` in the table.
fn find(name: &str) -> Option<usize> {
    let mut slot = first_slot(name);
    loop {
        // An empty slot, of which there are many, ends the search.
        let position = index::POSITIONS[slot].checked_sub(1)?.into();
        if is_named(position, name) {
            return Some(position);
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// Whether the op at `position` has this name. It is compared in place: looking for its end takes longer.
fn is_named(position: usize, name: &str) -> bool {
    let rest = entry(position).as_bytes()[KEYWORD.len()..].strip_prefix(name.as_bytes());
    rest.is_some_and(|rest| rest.first() == Some(&b'\n'))
}

fn name_at(position: usize) -> &'static str {
    let text = entry(position);
    let end = text.find('\n').unwrap_or(text.len());
    &text[KEYWORD.len()..end]
}

/// The lines of an op.
fn entry(position: usize) -> &'static str {
    let [start, end] = [index::STARTS[position], index::STARTS[position + 1]];
    &TABLE[start as usize..end as usize]
}

fn parse_entry(text: &str) -> Result<OpDef> {
    let mut lines = text.lines();
    let name = lines.next().and_then(|line| line.strip_prefix(KEYWORD)).unwrap_or_default();
    let mut spec = OpSpec::new(name);
    for line in lines.map(str::trim) {
        let (keyword, rest) = line.split_once(' ').unwrap_or((line, ""));
        match keyword {
            "input" => spec = spec.input(rest),
            // The full type behind ` as ` is nothing that building or running a graph needs.
            "output" => spec = spec.output(rest.split_once(" as ").map_or(rest, |(arg, _)| arg)),
            "attr" => spec = spec.attr(rest),
            "flags" => rest.split(' ').try_for_each(|flag| spec.set_flag(flag))?,
            "deprecated" => {
                let bad = || invalid!("Bad deprecation '{line}'");
                let (version, text) = rest.split_once(' ').ok_or_else(bad)?;
                let text = Reader::new(text).string().ok_or_else(bad)?;
                let version = version.parse().map_err(|_| bad())?;
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
        assert_eq!((len(), names().count()), (1799, 1799));
        assert!(names().is_sorted());
        for name in names() {
            assert_eq!(&*get(name).unwrap().name, name);
        }
        for name in ["", "NoSuchOp", "add", "AddV", "AddV22", "op Add", "Add\n", "NoOp\n"] {
            assert!(get(name).is_none(), "{name}");
        }
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
            ("NoOp", "Op<name=NoOp; signature= -> >"),
            (
                "MatMul",
                "Op<name=MatMul; signature=a:T, b:T -> product:T; \
                 attr=transpose_a:bool,default=false; attr=transpose_b:bool,default=false; \
                 attr=T:type,allowed=[DT_BFLOAT16, DT_HALF, DT_FLOAT, DT_DOUBLE, DT_INT32, \
                 DT_INT64, DT_UINT8, DT_UINT16, DT_UINT32, DT_UINT64, DT_COMPLEX64, \
                 DT_COMPLEX128]; attr=grad_a:bool,default=false; \
                 attr=grad_b:bool,default=false>",
            ),
            (
                "IdentityN",
                "Op<name=IdentityN; signature=input: -> output:; attr=T:list(type),min=1>",
            ),
            (
                "ConcatV2",
                "Op<name=ConcatV2; signature=values:N*T, axis:Tidx -> output:T; \
                 attr=N:int,min=2; attr=T:type; \
                 attr=Tidx:type,default=DT_INT32,allowed=[DT_INT32, DT_INT64]>",
            ),
            (
                "ImageSummary",
                "Op<name=ImageSummary; signature=tag:string, tensor:T -> summary:string; \
                 attr=max_images:int,default=3,min=1; \
                 attr=T:type,default=DT_FLOAT,allowed=[DT_UINT8, DT_FLOAT, DT_HALF, DT_DOUBLE]; \
                 attr=bad_color:tensor,default=Tensor<type: uint8 shape: [4] values: 255 0 \
                 0...>>",
            ),
            (
                "StatelessIf",
                "Op<name=StatelessIf; signature=cond:Tcond, input: -> output:; attr=Tcond:type; \
                 attr=Tin:list(type),min=0; attr=Tout:list(type),min=0; attr=then_branch:func; \
                 attr=else_branch:func; attr=output_shapes:list(shape),default=[]>",
            ),
            (
                "QueueDequeueV2",
                "Op<name=QueueDequeueV2; signature=handle:resource -> components:; \
                 attr=component_types:list(type),min=1; attr=timeout_ms:int,default=-1; \
                 is_stateful=true>",
            ),
            (
                "VariableV2",
                "Op<name=VariableV2; signature= -> ref:Ref(dtype); attr=shape:shape; \
                 attr=dtype:type; attr=container:string,default=\"\"; \
                 attr=shared_name:string,default=\"\"; is_stateful=true>",
            ),
            (
                "LRN",
                "Op<name=LRN; signature=input:T -> output:T; attr=depth_radius:int,default=5; \
                 attr=bias:float,default=1; attr=alpha:float,default=1; \
                 attr=beta:float,default=0.5; attr=T:type,default=DT_FLOAT,allowed=[DT_HALF, \
                 DT_BFLOAT16, DT_FLOAT]>",
            ),
            (
                "SymbolicGradient",
                "Op<name=SymbolicGradient; signature=input: -> output:; \
                 attr=Tin:list(type),min=1; attr=Tout:list(type),min=1; attr=f:func>",
            ),
            (
                "TensorSummary",
                "Op<name=TensorSummary; signature=tensor:T -> summary:string; attr=T:type; \
                 attr=description:string,default=\"\"; attr=labels:list(string),default=[]; \
                 attr=display_name:string,default=\"\">",
            ),
            (
                "CollectiveReduceV2",
                "Op<name=CollectiveReduceV2; signature=input:T, group_size:int32, \
                 group_key:int32, instance_key:int32, ordering_token:Nordering_token*resource \
                 -> data:T; attr=T:type,allowed=[DT_BFLOAT16, DT_FLOAT, DT_HALF, DT_DOUBLE, \
                 DT_INT32, DT_INT64]; attr=merge_op:string,allowed=[\"Min\", \"Max\", \"Mul\", \
                 \"Add\"]; attr=final_op:string,allowed=[\"Id\", \"Div\"]; \
                 attr=communication_hint:string,default=\"auto\"; \
                 attr=timeout_seconds:float,default=0; attr=is_stateless:bool,default=false; \
                 attr=Nordering_token:int,default=0,min=0; \
                 attr=max_subdivs_per_device:int,default=-1; is_stateful=true; \
                 is_distributed_communication=true>",
            ),
        ];
        for (name, text) in cases {
            assert_eq!(get(name).unwrap().to_string(), text);
        }
    }
}
