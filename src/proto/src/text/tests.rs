use std::collections::BTreeSet;

use prost::encoding::encode_varint;

use super::schema::{Field, Value};
use super::*;
use crate::attr_value::Value as Attr;

fn read<M: TextMessage>(text: &str) -> M {
    decode(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error<M: TextMessage>(text: &[u8]) -> String {
    let error = decode::<M>(text).map(|_| ()).unwrap_err();
    error.message().trim_end_matches('\n').to_string()
}

#[test]
fn a_graph() {
    let graph: GraphDef = read(
        r#"
        # Two nodes.
        node {
          name: "c" op: "Const"
          attr { key: "dtype" value { type: DT_FLOAT } }
          attr {
            key: "value"
            value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } dim { size: -1 name: 'n' } }
                             float_val: 1.5 float_val: [-.5, inf, 2e3f] tensor_content: "\001\x02\377" "more" } }
          }
        },
        node < name: "n" op: "Neg" input: ["c", "^c:0"]; input: "d" device: '/cpu:0'
               attr: { key: "T" value: { type: 1 } } attr { key: "l" value { list { i: [] b: [true, f] } } } >
        library { function { signature { name: "F" input_arg { name: "x" type: DT_INT32_REF } }
                             ret { key: "y" value: "x" } arg_attr { key: 3 value {} } } }
        versions { producer: 0x10 min_consumer: 012 bad_consumers: -7 }
        debug_info { frames_by_id { key: 9 value { line: 4 } } }
        "#,
    );
    let [constant, neg] = &graph.node[..] else { panic!("{graph:?}") };
    assert_eq!((&*constant.name, &*constant.op), ("c", "Const"));
    assert_eq!(constant.attr["dtype"].value, Some(Attr::Type(1)));
    let Some(Attr::Tensor(tensor)) = &constant.attr["value"].value else { panic!("{constant:?}") };
    assert_eq!(tensor.float_val, [1.5, -0.5, f32::INFINITY, 2000.0]);
    assert_eq!(&tensor.tensor_content[..], b"\x01\x02\xffmore");
    let shape = tensor.tensor_shape.as_ref().unwrap();
    assert_eq!((shape.dim[0].size, shape.dim[1].size, &*shape.dim[1].name), (2, -1, "n"));
    assert_eq!(
        (&neg.input[..], &*neg.device),
        (&["c".into(), "^c:0".into(), "d".into()][..], "/cpu:0")
    );
    let list = attr_value::ListValue { b: vec![true, false], ..Default::default() };
    assert_eq!(neg.attr["l"].value, Some(Attr::List(Box::new(list))));
    let function = &graph.library.as_ref().unwrap().function[0];
    assert_eq!(function.signature.as_ref().unwrap().input_arg[0].r#type, 103);
    assert_eq!(function.ret["y"], "x");
    assert!(function.arg_attr.contains_key(&3));
    let versions = VersionDef { producer: 16, min_consumer: 10, bad_consumers: vec![-7] };
    assert_eq!(graph.versions, Some(versions));
    assert_eq!(graph.debug_info.as_ref().unwrap().frames_by_id[&9].line, 4);
    assert_eq!(read::<GraphDef>(&encode(&graph)), graph);
    assert_eq!(read::<GraphDef>(" \n# nothing"), GraphDef::default());
}

#[test]
fn values() {
    let cases = [
        ("i: - 5", Attr::I(-5)),
        ("i: 010", Attr::I(8)),
        ("i: -0x8000000000000000", Attr::I(i64::MIN)),
        ("f: 1.5f", Attr::F(1.5)),
        ("f: -infinity", Attr::F(f32::NEG_INFINITY)),
        ("f: 1e400", Attr::F(f32::INFINITY)),
        ("f: 5", Attr::F(5.0)),
        ("f: 5.", Attr::F(5.0)),
        ("f: -  .5F", Attr::F(-0.5)),
        ("b: True", Attr::B(true)),
        ("b: 0x1", Attr::B(true)),
        ("type: 500", Attr::Type(500)),
        ("type: -1", Attr::Type(-1)),
        ("type: DT_INVALID", Attr::Type(0)),
        ("type: DT_FLOAT8_E4M3FN", Attr::Type(25)),
        (r#"s: "\a\b\f\n\r\t\v\?\\\'\"""#, Attr::S("\x07\x08\x0c\n\r\t\x0b?\\'\"".into())),
        (r#"s: "\1\0123\x4a4\u00e9\U0001F600""#, Attr::S("\x01\n3J4é😀".into())),
        (r#"s: "\777""#, Attr::S((&b"\xff"[..]).into())),
        ("s: 'it''s' # two", Attr::S("its".into())),
    ];
    for (text, value) in cases {
        assert_eq!(read::<AttrValue>(text).value, Some(value), "{text}");
    }
    assert!(matches!(read::<AttrValue>("f: -nan").value, Some(Attr::F(f)) if f.is_nan()));
}

/// Texts and errors as TensorFlow 2.21 has them, the first error of each.
#[test]
fn errors_name_their_place() {
    let in_op = [
        ("summary: 3", "1(34): Expected string, got: 3"),
        ("summary \"a\"", "1(33): Expected \":\", found \"\"a\"\"."),
        (
            "endpoint { deprecated: maybe } }",
            "1(54): Invalid value for boolean field \"deprecated\". Value: \"maybe\".",
        ),
        ("endpoint { deprecated: 2 } }", "1(48): Integer out of range (2)"),
        ("attr { default_value { f: abc } } }", "1(51): Expected double, got: abc"),
        (
            "attr { default_value { f: 1e400 i: 3 } } }",
            "1(58): Field \"i\" is specified along with field \"f\", another member of oneof \"value\".",
        ),
        ("attr { default_value { i: \"3\" } } }", "1(51): Expected integer, got: \"3\""),
        (
            "attr { default_value { i: 9223372036854775808 } } }",
            "1(51): Integer out of range (9223372036854775808)",
        ),
        (
            "attr { name: \"q\" default_value { f: 0x10 } } }",
            "1(61): Expect a decimal number, got: 0x10",
        ),
        (
            "attr { name: \"q\" default_value { i: 09 } } }",
            "1(62): Numbers starting with leading zero must be in octal.",
        ),
        ("attr { name: \"q\" default_value { i: 5.0 } } }", "1(61): Expected integer, got: 5.0"),
        (
            "attr { name: \"q\" default_value { list { i: [] i: [1,2,] } } } }",
            "1(79): Expected integer, got: ]",
        ),
        (
            "attr { name: \"q\" default_value { list { i: [1 2] } } } }",
            "1(71): Expected \",\", found \"2\".",
        ),
        ("summary: [\"a\"] }", "1(34): Expected string, got: ["),
        ("summary: \"\\q\" }", "1(36): Invalid escape sequence in string literal."),
        ("summary: \"\\u12\" }", "1(39): Expected four hex digits for \\u escape sequence."),
        ("summary: \"\\x\" }", "1(37): Expected hex digits for escape sequence."),
        ("summary: \"a\nb\" }", "1(36): Multiline strings are not allowed."),
        ("summary: \"a", "1(36): Unexpected end of string."),
        (", summary: \"a\";; }", "1(40): Expected identifier, got: ;"),
        (">", "1(25): Expected \"}\", found \">\"."),
        (
            "Summary: \"a\" }",
            "1(32): Message type \"tensorflow.ApiDef\" has no field named \"Summary\".",
        ),
        ("endpoint [ {} {} ] }", "1(39): Expected \",\", found \"{\"."),
        ("endpoint: 3 }", "1(35): Expected \"{\", found \"3\"."),
        ("/* c */ }", "1(25): Expected identifier, got: /"),
        ("deprecation_version: 1a }", "1(47): Need space between number and identifier."),
        ("deprecation_version: 4294967296 }", "1(46): Integer out of range (4294967296)"),
        ("visibility: 1.5 }", "1(37): Expected integer or identifier, got: 1.5"),
        (
            "visibility: NOPE }",
            "1(42): Unknown enumeration value of \"NOPE\" for field \"visibility\".",
        ),
        (
            "attr { name: \"q\" default_value { f: 1.5e } } }",
            "1(65): \"e\" must be followed by exponent.",
        ),
        ("} extra", "1(32): Message type \"tensorflow.ApiDefs\" has no field named \"extra\"."),
        ("} }", "1(27): Expected identifier, got: }"),
        (
            "graph_op_name: \"F\" }",
            "1(38): Non-repeated field \"graph_op_name\" is specified multiple times.",
        ),
    ];
    for (text, expected) in in_op {
        let text = format!("op {{ graph_op_name: \"F\" {text}");
        assert_eq!(error::<ApiDefs>(text.as_bytes()), expected, "{text}");
    }
    let cases: [(&[u8], &str); 7] = [
        (b"op { graph_op_name: ", "1(21): Expected string, got: "),
        (b"op {{ graph_op_name: \"Foo\" } }", "1(5): Expected identifier, got: {"),
        (b"op { 1: \"F\" }", "1(6): Expected identifier, got: 1"),
        (b"op {\tgraph_op_name: 5}", "1(24): Expected string, got: 5"),
        (b"op {\n}\n}", "3(1): Expected identifier, got: }"),
        (
            b"op { graph_op_name: \"Foo\" }\0",
            "1(28): Invalid control characters encountered in text.",
        ),
        (b"\xc3\xa9", "1(1): Interpreting non ascii codepoint 195."),
    ];
    for (text, expected) in cases {
        assert_eq!(error::<ApiDefs>(text), expected);
    }
}

/// A message of one field with a value that is no default.
fn sample(field: &Field) -> Vec<u8> {
    let (wire_type, value) = match field.value {
        Value::Fixed64 | Value::Double => (1, vec![0, 0, 0, 0, 0, 0, 0xf0, 0x3f]),
        Value::Float => (5, vec![0, 0, 0x80, 0x3f]),
        Value::String | Value::Bytes => (2, vec![1, b'a']),
        Value::Message(inner) => {
            let is_leaf = |field: &&Field| !matches!(field.value, Value::Message(_));
            let inner = sample(inner.fields.iter().find(is_leaf).unwrap_or(&inner.fields[0]));
            (2, [vec![inner.len() as u8], inner].concat())
        }
        _ => (0, vec![1]),
    };
    let mut wire = Vec::new();
    encode_varint(u64::from(field.number) << 3 | wire_type, &mut wire);
    wire.extend(value);
    wire
}

/// What prost does not know it drops, and what it knows as another wire type is an error.
#[test]
fn the_tables_are_those_of_the_messages() {
    fn walk<M: TextMessage>(
        message: &Type,
        around: &dyn Fn(Vec<u8>) -> Vec<u8>,
        known: &mut BTreeSet<&'static str>,
    ) {
        if !known.insert(message.name) {
            return;
        }
        for field in message.fields {
            let wire = around(sample(field));
            let read: M = crate::decode(&wire).unwrap();
            let kept = read.encode_to_vec().len() >= wire.len();
            assert!(kept, "{}.{}", message.name, field.name);
            if let Value::Message(inner) = field.value {
                let around = |wire: Vec<u8>| {
                    let mut outer = Vec::new();
                    encode_varint(u64::from(field.number) << 3 | 2, &mut outer);
                    encode_varint(wire.len() as u64, &mut outer);
                    outer.extend_from_slice(&wire);
                    around(outer)
                };
                walk::<M>(inner, &around, known);
            }
        }
    }
    let mut known = BTreeSet::new();
    walk::<GraphDef>(GraphDef::TYPE.0, &|wire| wire, &mut known);
    assert!(known.contains("tensorflow.ResourceHandleProto.DtypeAndShape"), "{known:?}");
    let mut known = BTreeSet::new();
    walk::<ApiDefs>(ApiDefs::TYPE.0, &|wire| wire, &mut known);
    assert!(known.contains("tensorflow.ApiDef.Endpoint"), "{known:?}");
    let mut known = BTreeSet::new();
    walk::<SavedModel>(SavedModel::TYPE.0, &|wire| wire, &mut known);
    assert!(known.contains("tensorflow.TensorInfo.CooSparse"), "{known:?}");
}

#[test]
fn messages_nest_to_a_limit() {
    let nested = |depth: usize| {
        let text = "func { attr { key: 'a' value { ".repeat(depth) + &"} } } ".repeat(depth);
        decode::<AttrValue>(text.as_bytes())
    };
    assert!(nested(30).is_ok());
    for depth in [34, 1_000, 100_000] {
        let error = nested(depth).unwrap_err();
        assert!(error.message().contains("recursion limit of 100"), "{error}");
    }
}

#[test]
fn damaged_texts_never_panic() {
    let texts = [
        "node { name: \"a\\n\\x41\\u00e9\" op: 'Const' input: ['b', \"c\"] attr { key: \"T\" value { type: DT_INT32 } } }",
        "node < attr { key: 'v' value { tensor { dtype: 1 float_val: [1.5e3f, -inf, .5] int64_val: -0x7f } } } >",
        "library { function { signature { name: 'F' } ret { key: 'a' value: 'b' } arg_attr { key: 07 value { } } } }",
        "# c\nversions { producer: 21, min_consumer: 0; bad_consumers: [] } debug_info { traces { value { } } }",
    ];
    let mut state = 1u64;
    for round in 0..50_000 {
        let mut bytes = texts[round % texts.len()].as_bytes().to_vec();
        for _ in 0..=round % 4 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let position = (state >> 33) as usize % bytes.len();
            match state >> 24 & 3 {
                0 => bytes.truncate(position.max(1)),
                1 => bytes[position] = b"{}<>[]'\"\\:,;#-.0x\n"[(state >> 50) as usize % 18],
                2 => drop(bytes.remove(position.min(bytes.len() - 1))),
                _ => bytes[position] = (state >> 40) as u8,
            }
            if bytes.is_empty() {
                bytes.push(b' ');
            }
        }
        let _ = decode::<GraphDef>(&bytes);
    }
}
