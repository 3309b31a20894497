//! `ParsedGraphDef`: a GraphDef that has been read, and not yet been brought into a graph.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use tfcore_base::invalid;
use tfcore_framework::{Attrs, OpDef, Registry, Role};
use tfcore_proto as proto;
use tfcore_proto::wire::{Fields, Malformed};

use crate::node::Annotations;

/// Attrs of more bytes than this are not compared with those of other nodes.
const MAX_SHARED_BYTES: usize = 1 << 10;

/// A GraphDef in parts, which borrow its names from the bytes that it was read from.
pub struct ParsedGraphDef<'a> {
    pub(crate) nodes: Vec<ParsedNode<'a>>,
    /// The inputs of all nodes.
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) kinds: Vec<ParsedKind<'a>>,
    /// Of the few nodes that have any, by position.
    pub(crate) annotations: Vec<(usize, Annotations)>,
    pub(crate) library: proto::FunctionDefLibrary,
    pub(crate) versions: proto::VersionDef,
}

/// A node's own part of its definition.
pub(crate) struct ParsedNode<'a> {
    pub(crate) name: &'a str,
    pub(crate) device: &'a str,
    /// The position of its op and its attrs.
    pub(crate) kind: u32,
    /// Where its inputs end among those of all nodes; they begin where the previous node's end.
    inputs_end: u32,
}

/// What nodes share that were defined by the same op and the same bytes of attrs.
pub(crate) struct ParsedKind<'a> {
    pub(crate) op: &'a str,
    /// [`Role::Plain`] for functions and unknown ops.
    pub(crate) role: Role,
    pub(crate) attrs: Attrs,
}

impl<'a> ParsedGraphDef<'a> {
    /// Reads a serialized GraphDef.
    ///
    /// # Errors
    /// `InvalidArgument` "Invalid GraphDef" for bytes that are none.
    pub fn from_bytes(
        bytes: &'a [u8],
        registry: &Registry,
    ) -> tfcore_base::Result<ParsedGraphDef<'a>> {
        let mut reader = Reader {
            registry,
            known: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            spans: Vec::new(),
            entries: Vec::new(),
            def: ParsedGraphDef::empty(),
        };
        reader.read(bytes).map_err(|_| invalid!("Invalid GraphDef"))?;
        Ok(reader.def)
    }

    /// Takes a message apart.
    pub fn from_proto(def: &'a proto::GraphDef, registry: &Registry) -> ParsedGraphDef<'a> {
        let mut parsed = ParsedGraphDef::empty();
        for node in &def.node {
            let op = registry.def(&node.op);
            let attrs = Attrs::from_proto_with(node.attr.clone(), op.as_deref());
            let kind = parsed.push_kind(&node.op, attrs);
            parsed.inputs.extend(node.input.iter().map(String::as_str));
            parsed.push_node(&node.name, &node.device, kind);
            parsed.annotate(Annotations {
                full_type: node.experimental_type.as_deref().cloned(),
                debug_info: node.experimental_debug_info.clone(),
            });
        }
        parsed.library = def.library.clone().unwrap_or_default();
        parsed.versions = def.versions.clone().unwrap_or_default();
        parsed
    }

    fn empty() -> ParsedGraphDef<'a> {
        ParsedGraphDef {
            nodes: Vec::new(),
            inputs: Vec::new(),
            kinds: Vec::new(),
            annotations: Vec::new(),
            library: proto::FunctionDefLibrary::default(),
            versions: proto::VersionDef::default(),
        }
    }

    /// The inputs of the node at a position.
    pub(crate) fn inputs_of(&self, position: usize) -> &[&'a str] {
        let end = |node: &ParsedNode<'_>| node.inputs_end as usize;
        let start = position.checked_sub(1).map_or(0, |previous| end(&self.nodes[previous]));
        &self.inputs[start..end(&self.nodes[position])]
    }

    /// The op of the node at a position.
    pub(crate) fn op_of(&self, position: usize) -> &'a str {
        self.kinds[self.nodes[position].kind as usize].op
    }

    /// The role of the op of the node at a position.
    pub(crate) fn role_of(&self, position: usize) -> Role {
        self.kinds[self.nodes[position].kind as usize].role
    }

    /// Adds a node, whose inputs have been added to those of all.
    fn push_node(&mut self, name: &'a str, device: &'a str, kind: u32) {
        let inputs_end = to_u32(self.inputs.len());
        self.nodes.push(ParsedNode { name, device, kind, inputs_end });
    }

    /// Notes what the definition of the last node says besides.
    fn annotate(&mut self, annotations: Annotations) {
        if annotations != Annotations::default() {
            self.annotations.push((self.nodes.len() - 1, annotations));
        }
    }

    fn push_kind(&mut self, op: &'a str, attrs: Attrs) -> u32 {
        self.kinds.push(ParsedKind { op, role: Role::of_op(op), attrs });
        to_u32(self.kinds.len() - 1)
    }
}

/// What has a number here takes several bytes of a message that fits the memory.
fn to_u32(number: usize) -> u32 {
    u32::try_from(number).expect("a graph has fewer than 2^32 nodes and inputs")
}

struct Reader<'a, 'r> {
    registry: &'r Registry,
    /// The kinds by the hash of their ops and attrs.
    known: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// The bytes of the attrs of each kind.
    spans: Vec<&'a [u8]>,
    /// The attrs of the node that is being read.
    entries: Vec<&'a [u8]>,
    def: ParsedGraphDef<'a>,
}

impl<'a> Reader<'a, '_> {
    fn read(&mut self, bytes: &'a [u8]) -> Result<(), Malformed> {
        let (mut library, mut versions) = (Vec::new(), Vec::new());
        let mut fields = Fields::new(bytes);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => self.read_node(value.bytes()?)?,
                // A message may come in parts, which in a row are one message.
                2 => library.extend_from_slice(value.bytes()?),
                // The one version that graphs of old have: nobody asks for it.
                3 => drop(value.varint()?),
                4 => versions.extend_from_slice(value.bytes()?),
                5 => drop(proto::decode::<proto::GraphDebugInfo>(value.bytes()?)?),
                _ => {}
            }
        }
        self.def.library = proto::decode(&library)?;
        self.def.versions = proto::decode(&versions)?;
        Ok(())
    }

    fn read_node(&mut self, bytes: &'a [u8]) -> Result<(), Malformed> {
        let (mut name, mut op, mut device) = ("", "", "");
        // Messages that may come in parts.
        let (mut debug_info, mut full_type) = (None::<Vec<u8>>, None::<Vec<u8>>);
        self.entries.clear();
        // From the first attr to the last, where they stand in a row.
        let mut span = Some(&bytes[..0]);
        let mut fields = Fields::new(bytes);
        loop {
            let rest = fields.rest();
            let Some((number, value)) = fields.next()? else {
                break;
            };
            match number {
                1 => name = value.text()?,
                2 => op = value.text()?,
                3 => self.def.inputs.push(value.text()?),
                4 => device = value.text()?,
                5 => {
                    let field = &rest[..rest.len() - fields.rest().len()];
                    span = span.and_then(|span| extend(bytes, span, field));
                    self.entries.push(value.bytes()?);
                }
                6 => debug_info.get_or_insert_default().extend_from_slice(value.bytes()?),
                7 => full_type.get_or_insert_default().extend_from_slice(value.bytes()?),
                _ => {}
            }
        }
        let kind = self.kind(op, span)?;
        self.def.push_node(name, device, kind);
        if debug_info.is_some() || full_type.is_some() {
            let full_type = full_type.map(|bytes| proto::decode(&bytes)).transpose()?;
            let debug_info = debug_info.map(|bytes| proto::decode(&bytes)).transpose()?;
            self.def.annotate(Annotations { full_type, debug_info: debug_info.map(Box::new) });
        }
        Ok(())
    }

    /// The kind of the node that has been read: that of an earlier node, if it was written with the same bytes.
    fn kind(&mut self, op: &'a str, span: Option<&'a [u8]>) -> Result<u32, Malformed> {
        let Some(span) = span.filter(|span| span.len() <= MAX_SHARED_BYTES) else {
            return self.new_kind(op, &[]);
        };
        let hash_of = |op: &str, span: &[u8]| {
            let mut hasher = self.hasher.build_hasher();
            op.hash(&mut hasher);
            span.hash(&mut hasher);
            hasher.finish()
        };
        let (kinds, spans) = (&self.def.kinds, &self.spans);
        let hash = hash_of(op, span);
        let is_it = |&kind: &u32| {
            let kind = kind as usize;
            kinds[kind].op == op && spans[kind] == span
        };
        if let Some(&kind) = self.known.find(hash, is_it) {
            return Ok(kind);
        }
        let rehash = |&kind: &u32| hash_of(kinds[kind as usize].op, spans[kind as usize]);
        self.known.insert_unique(hash, to_u32(kinds.len()), rehash);
        self.new_kind(op, span)
    }

    fn new_kind(&mut self, op: &'a str, span: &'a [u8]) -> Result<u32, Malformed> {
        let declared: Option<Arc<OpDef>> = self.registry.def(op);
        let attrs = Attrs::from_wire(self.entries.iter().copied(), declared.as_deref())?;
        self.spans.push(span);
        Ok(self.def.push_kind(op, attrs))
    }
}

/// `span` and the `field` right behind it, both in `bytes`; `None` if something stands between them.
fn extend<'a>(bytes: &'a [u8], span: &[u8], field: &[u8]) -> Option<&'a [u8]> {
    let offset = |part: &[u8]| part.as_ptr() as usize - bytes.as_ptr() as usize;
    let start = if span.is_empty() { offset(field) } else { offset(span) };
    let end = offset(field) + field.len();
    (start + span.len() == offset(field)).then(|| &bytes[start..end])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prost::Message;
    use proto::attr_value::Value;

    use super::*;

    fn node(name: &str, dtype: i32) -> proto::NodeDef {
        let dtype = proto::AttrValue { value: Some(Value::Type(dtype)) };
        proto::NodeDef {
            name: name.to_string(),
            op: "Placeholder".to_string(),
            input: vec!["a:1".to_string(), "^b".to_string()],
            device: "/CPU:0".to_string(),
            attr: BTreeMap::from([("dtype".to_string(), dtype)]),
            ..Default::default()
        }
    }

    /// All that was read, in a form that can be compared.
    fn text(def: &ParsedGraphDef<'_>) -> Vec<String> {
        let node = |position: usize| {
            let node = &def.nodes[position];
            let attrs = &def.kinds[node.kind as usize].attrs;
            let (op, inputs) = (def.op_of(position), def.inputs_of(position));
            format!("{} {op} {inputs:?} {} {attrs:?}", node.name, node.device)
        };
        (0..def.nodes.len()).map(node).collect()
    }

    #[test]
    fn bytes_and_messages_read_the_same() {
        let registry = Registry::new();
        let def = proto::GraphDef {
            node: vec![node("x", 1), node("y", 3), node("z", 1), proto::NodeDef::default()],
            version: 5,
            versions: Some(proto::VersionDef { producer: 21, ..Default::default() }),
            ..Default::default()
        };
        let bytes = def.encode_to_vec();
        let parsed = ParsedGraphDef::from_bytes(&bytes, &registry).unwrap();
        assert_eq!(text(&parsed), text(&ParsedGraphDef::from_proto(&def, &registry)));
        assert_eq!(parsed.versions.producer, 21);
        let kinds: Vec<u32> = parsed.nodes.iter().map(|node| node.kind).collect();
        assert_eq!(kinds, [0, 1, 0, 2]);
    }

    #[test]
    fn scattered_fields_are_one_node() {
        let registry = Registry::new();
        let whole = node("x", 1);
        let attrs = proto::NodeDef { attr: whole.attr.clone(), ..Default::default() };
        let other = proto::NodeDef { attr: BTreeMap::new(), ..whole.clone() };
        let shape = BTreeMap::from([("shape".to_string(), proto::AttrValue::default())]);
        let shape = proto::NodeDef { attr: shape, ..Default::default() };
        let node = [attrs.encode_to_vec(), other.encode_to_vec(), shape.encode_to_vec()].concat();
        let message = proto::NodeDef::decode(&node[..]).unwrap();
        assert_eq!(message.attr.len(), 2);
        let bytes = [&[0x0a, node.len() as u8], &node[..]].concat();
        let parsed = ParsedGraphDef::from_bytes(&bytes, &registry).unwrap();
        let def = proto::GraphDef { node: vec![message], ..Default::default() };
        assert_eq!(text(&parsed), text(&ParsedGraphDef::from_proto(&def, &registry)));
    }

    #[test]
    fn damaged_bytes_are_refused_where_prost_refuses_them() {
        let registry = Registry::new();
        let mut full = node("x", 1);
        full.experimental_debug_info = Some(Box::default());
        full.experimental_type =
            Some(Box::new(proto::FullTypeDef { type_id: 5, ..Default::default() }));
        let def = proto::GraphDef {
            node: vec![full, node("y", 1)],
            library: Some(proto::FunctionDefLibrary::default()),
            versions: Some(proto::VersionDef { producer: 9, ..Default::default() }),
            debug_info: Some(proto::GraphDebugInfo::default()),
            ..Default::default()
        };
        let bytes = def.encode_to_vec();
        for at in 0..bytes.len() {
            for value in [0, 1, 0x0a, 0x7f, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                for damaged in [&damaged[..], &bytes[..at]] {
                    let expected = proto::GraphDef::decode(damaged);
                    let actual = ParsedGraphDef::from_bytes(damaged, &registry);
                    assert_eq!(actual.is_ok(), expected.is_ok(), "{damaged:02x?}");
                    if let (Ok(actual), Ok(expected)) = (actual, expected) {
                        let expected = ParsedGraphDef::from_proto(&expected, &registry);
                        assert_eq!(text(&actual), text(&expected), "{damaged:02x?}");
                    }
                }
            }
        }
    }
}
