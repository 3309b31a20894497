//! Parsing with one copy: from the caller's slice straight into memory that a tensor can adopt.

use bytes::{Buf, Bytes};
use prost::{DecodeError, Message};

/// Alignment in bytes of large `bytes` fields of a message that [`decode`] returns.
pub const ALIGNMENT: usize = 64;

/// `bytes` fields from this length on are aligned; below it the slack would outweigh the payload.
pub const LARGE: usize = 1024;

/// Parses a message.
///
/// Each `bytes` field is copied once. Fields of 1 KiB and more start at a multiple of [`ALIGNMENT`], so that a
/// tensor can take over `tensor_content` without another copy.
pub fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, DecodeError> {
    M::decode(Aligning(bytes))
}

/// A reader over a slice which differs from the slice's own in where it copies large payloads.
struct Aligning<'a>(&'a [u8]);

impl Buf for Aligning<'_> {
    fn remaining(&self) -> usize {
        self.0.len()
    }

    fn chunk(&self) -> &[u8] {
        self.0
    }

    fn advance(&mut self, count: usize) {
        self.0.advance(count);
    }

    fn copy_to_bytes(&mut self, len: usize) -> Bytes {
        let (payload, rest) = self.0.split_at(len);
        self.0 = rest;
        if len < LARGE { Bytes::copy_from_slice(payload) } else { aligned_copy(payload) }
    }
}

/// Copies to an aligned address: into a buffer with room for the longest gap before an aligned address, and drops the gap.
pub fn aligned_copy(payload: &[u8]) -> Bytes {
    let mut buffer = Vec::with_capacity(payload.len() + ALIGNMENT - 1);
    let address = buffer.as_ptr() as usize;
    let gap = address.next_multiple_of(ALIGNMENT) - address;
    buffer.resize(gap, 0);
    buffer.extend_from_slice(payload);
    Bytes::from(buffer).slice(gap..)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::*;

    fn attr(value: attr_value::Value) -> AttrValue {
        AttrValue { value: Some(value) }
    }

    /// A graph with something in every kind of field: maps, oneofs, boxed and recursive messages.
    fn graph() -> GraphDef {
        let weights = TensorProto {
            dtype: 1,
            tensor_shape: Some(TensorShapeProto {
                dim: vec![tensor_shape_proto::Dim { size: 250_000, name: "n".into() }],
                unknown_rank: false,
            }),
            tensor_content: (0..1_000_000u32).map(|i| (i % 251) as u8).collect(),
            ..Default::default()
        };
        let branch = NameAttrList {
            name: "f".into(),
            attr: BTreeMap::from([("T".into(), attr(attr_value::Value::Type(-7)))]),
        };
        let list = attr_value::ListValue {
            i: vec![-1, 1 << 40],
            s: vec!["a".into(), "".into()],
            ..Default::default()
        };
        let node = NodeDef {
            name: "w".into(),
            op: "Const".into(),
            input: vec!["a:1".into(), "^b".into()],
            device: "/CPU:0".into(),
            attr: BTreeMap::from([
                ("value".into(), attr(attr_value::Value::Tensor(weights.into()))),
                ("f".into(), attr(attr_value::Value::Func(branch.into()))),
                ("list".into(), attr(attr_value::Value::List(list.into()))),
                ("s".into(), attr(attr_value::Value::S(Bytes::from_static(b"\xff\x00")))),
                ("none".into(), AttrValue::default()),
                ("unknown_dtype".into(), attr(attr_value::Value::Type(123_456))),
            ]),
            experimental_type: Some(Box::new(FullTypeDef {
                type_id: 1000,
                args: vec![FullTypeDef {
                    attr: Some(full_type_def::Attr::I(0)),
                    ..Default::default()
                }],
                attr: None,
            })),
            ..Default::default()
        };
        let function = FunctionDef {
            signature: Some(OpDef { name: "f".into(), is_stateful: true, ..Default::default() }),
            ret: BTreeMap::from([("y".into(), "w:output:0".into())]),
            arg_attr: BTreeMap::from([(3, function_def::ArgAttrs::default())]),
            ..Default::default()
        };
        GraphDef {
            node: vec![node],
            library: Some(FunctionDefLibrary { function: vec![function], ..Default::default() }),
            versions: Some(VersionDef {
                producer: 1087,
                bad_consumers: vec![1, 2],
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    #[test]
    fn a_graph_survives_a_round_trip() {
        let graph = graph();
        assert_eq!(decode::<GraphDef>(&graph.encode_to_vec()).expect("own encoding"), graph);
    }

    #[test]
    fn large_payloads_are_aligned_wherever_they_start() {
        for len in [LARGE, LARGE + 1, 1_000_000] {
            for prefix in 0..70 {
                let tensor = TensorProto {
                    tensor_content: (0..len).map(|i| (i % 251) as u8).collect(),
                    string_val: vec!["short".into(), vec![7; len].into()],
                    ..Default::default()
                };
                let mut bytes = vec![0; prefix];
                tensor.encode(&mut bytes).expect("a Vec grows");
                let decoded: TensorProto = decode(&bytes[prefix..]).expect("own encoding");
                assert_eq!(decoded, tensor, "{len} bytes after {prefix}");
                for payload in [&decoded.tensor_content, &decoded.string_val[1]] {
                    assert_eq!(
                        payload.as_ptr() as usize % ALIGNMENT,
                        0,
                        "{len} bytes after {prefix}"
                    );
                }
            }
        }
    }

    /// A large `tensor_content` must reach `copy_to_bytes` whole, and be stored as it comes back from there.
    #[test]
    fn payloads_are_copied_once() {
        struct Counting<'a>(Aligning<'a>, &'a mut Vec<(usize, usize)>);
        impl Buf for Counting<'_> {
            fn remaining(&self) -> usize {
                self.0.remaining()
            }
            fn chunk(&self) -> &[u8] {
                self.0.chunk()
            }
            fn advance(&mut self, count: usize) {
                self.0.advance(count);
            }
            fn copy_to_bytes(&mut self, len: usize) -> Bytes {
                let copy = self.0.copy_to_bytes(len);
                self.1.push((copy.as_ptr() as usize, len));
                copy
            }
        }
        let tensor = TensorProto { tensor_content: vec![1; 1 << 20].into(), ..Default::default() };
        let bytes = tensor.encode_to_vec();
        let mut copies = Vec::new();
        let decoded =
            TensorProto::decode(Counting(Aligning(&bytes), &mut copies)).expect("own encoding");
        assert_eq!(copies, [(decoded.tensor_content.as_ptr() as usize, 1 << 20)]);
    }

    #[test]
    fn truncated_input_is_an_error() {
        let mut graph = graph();
        graph.node[0].attr.remove("value");
        let bytes = graph.encode_to_vec();
        // Where one top-level field ends, what precedes is a message of its own.
        let ends: Vec<usize> = [
            GraphDef::default(),
            GraphDef { node: graph.node.clone(), ..Default::default() },
            GraphDef { versions: None, ..graph.clone() },
        ]
        .iter()
        .map(Message::encoded_len)
        .collect();
        for cut in 0..bytes.len() {
            assert_eq!(
                decode::<GraphDef>(&bytes[..cut]).is_ok(),
                ends.contains(&cut),
                "cut at {cut}"
            );
        }
    }

    /// Functions within functions, from the inside out: `func` of a value, `value` of an entry, `attr` of a list.
    fn nested(levels: usize) -> Vec<u8> {
        let mut inner = Vec::new();
        for field in [10, 2, 2].repeat(levels) {
            let mut outer = vec![field << 3 | 2];
            prost::encode_length_delimiter(inner.len(), &mut outer).expect("a Vec grows");
            outer.append(&mut inner);
            inner = outer;
        }
        inner
    }

    #[test]
    fn hostile_input_is_an_error() {
        // tensor_content that claims 2^63 bytes.
        let mut huge = vec![0x22];
        huge.extend([0x80; 9]);
        huge.push(0x01);
        for (what, result) in [
            ("length", decode::<TensorProto>(&huge).map(|_| ())),
            (
                "varint",
                decode::<TensorProto>(&[
                    0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                ])
                .map(|_| ()),
            ),
            ("utf-8", decode::<NodeDef>(&[0x0a, 1, 0xff]).map(|_| ())),
            ("field 0", decode::<NodeDef>(&[0x02, 0]).map(|_| ())),
            ("wire type", decode::<NodeDef>(&[0x08, 1]).map(|_| ())),
            ("depth", decode::<NameAttrList>(&nested(200)).map(|_| ())),
        ] {
            assert!(result.is_err(), "{what}");
        }
        assert!(decode::<NameAttrList>(&nested(20)).is_ok());
    }
}
