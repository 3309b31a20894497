//! From the bytes of a message to text, by the tables of `schema.rs`.

use tfcore_base::{escape_bytes, format_double, format_float};

use super::schema::{Field, Type, Value};

/// The text of a message, which was encoded just now.
pub(super) fn to_text(wire: &[u8], message: &Type) -> String {
    let mut writer = Writer { text: String::new(), indent: 0 };
    // What was encoded just now can be read to its end.
    let _ = writer.message(wire, message, false);
    writer.text
}

struct Writer {
    text: String,
    indent: usize,
}

/// What stands on the wire for one field.
enum Payload<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

impl Writer {
    fn message(&mut self, mut bytes: &[u8], message: &Type, is_entry: bool) -> Option<()> {
        let mut seen = 0;
        while !bytes.is_empty() {
            let (number, payload) = next_field(&mut bytes)?;
            let Some(position) = message.fields.iter().position(|field| field.number == number)
            else {
                continue;
            };
            if is_entry {
                self.defaults(&message.fields[seen..position])?;
                seen = position + 1;
            }
            self.field(&message.fields[position], payload)?;
        }
        match is_entry {
            true => self.defaults(&message.fields[seen..]),
            false => Some(()),
        }
    }

    /// Key and value of a map's entry are written even if they are not encoded.
    fn defaults(&mut self, fields: &[Field]) -> Option<()> {
        for field in fields {
            let payload = match field.value {
                Value::String | Value::Bytes | Value::Message(_) => Payload::Bytes(&[]),
                _ => Payload::Number(0),
            };
            self.field(field, payload)?;
        }
        Some(())
    }

    fn field(&mut self, field: &Field, payload: Payload<'_>) -> Option<()> {
        match (field.value, payload) {
            (Value::Message(message), Payload::Bytes(bytes)) => {
                self.line(&[field.name, " {"]);
                self.indent += 1;
                self.message(bytes, message, field.is_map)?;
                self.indent -= 1;
                self.line(&["}"]);
            }
            (Value::String | Value::Bytes, Payload::Bytes(bytes)) => {
                self.line(&[field.name, ": \"", &escape_bytes(bytes), "\""]);
            }
            (value, Payload::Number(number)) => {
                self.line(&[field.name, ": ", &scalar(value, number)]);
            }
            // A packed list.
            (value, Payload::Bytes(mut bytes)) => {
                while !bytes.is_empty() {
                    let number = match value {
                        Value::Float => fixed::<4>(&mut bytes)?,
                        Value::Double | Value::Fixed64 => fixed::<8>(&mut bytes)?,
                        _ => varint(&mut bytes)?,
                    };
                    self.line(&[field.name, ": ", &scalar(value, number)]);
                }
            }
        }
        Some(())
    }

    fn line(&mut self, parts: &[&str]) {
        (0..self.indent).for_each(|_| self.text.push_str("  "));
        parts.iter().for_each(|part| self.text.push_str(part));
        self.text.push('\n');
    }
}

fn scalar(value: Value, number: u64) -> String {
    match value {
        Value::Bool => (number != 0).to_string(),
        Value::Float => format_float(f32::from_bits(number as u32)),
        Value::Double => format_double(f64::from_bits(number)),
        Value::Enum(names) => {
            let number = number as i32;
            (names.name_of)(number).unwrap_or_else(|| number.to_string())
        }
        Value::Uint32 | Value::Uint64 | Value::Fixed64 => number.to_string(),
        Value::Int32 | Value::Int64 | Value::String | Value::Bytes | Value::Message(_) => {
            (number as i64).to_string()
        }
    }
}

/// The number of the next field, and what it holds.
fn next_field<'b>(bytes: &mut &'b [u8]) -> Option<(u32, Payload<'b>)> {
    let tag = varint(bytes)?;
    let payload = match tag & 7 {
        0 => Payload::Number(varint(bytes)?),
        1 => Payload::Number(fixed::<8>(bytes)?),
        2 => {
            let len = usize::try_from(varint(bytes)?).ok()?;
            let (payload, rest) = bytes.split_at_checked(len)?;
            *bytes = rest;
            Payload::Bytes(payload)
        }
        5 => Payload::Number(fixed::<4>(bytes)?),
        _ => return None,
    };
    Some((u32::try_from(tag >> 3).ok()?, payload))
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// A little-endian number of `N` bytes.
fn fixed<const N: usize>(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(number.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use crate as proto;
    use crate::attr_value::Value;
    use crate::text;

    /// What TensorFlow's `TF_GraphDebugString` shows for the same nodes.
    #[test]
    fn a_graph_as_text() {
        let attr = |value| proto::AttrValue { value: Some(value) };
        let list = proto::attr_value::ListValue { i: vec![1, -2], ..Default::default() };
        let tensor = proto::TensorProto {
            dtype: 1,
            tensor_shape: Some(proto::TensorShapeProto {
                dim: vec![proto::tensor_shape_proto::Dim { size: 1, name: String::new() }],
                unknown_rank: false,
            }),
            float_val: vec![1.0, 0.1],
            tensor_content: (&b"\x01\""[..]).into(),
            ..Default::default()
        };
        let node = proto::NodeDef {
            name: "c".into(),
            op: "Const".into(),
            input: vec!["a:1".into(), "^b".into()],
            attr: [
                ("b", attr(Value::B(false))),
                ("dtype", attr(Value::Type(1))),
                ("e", proto::AttrValue::default()),
                ("i", attr(Value::I(-3))),
                ("l", attr(Value::List(Box::new(list)))),
                ("value", attr(Value::Tensor(Box::new(tensor)))),
            ]
            .map(|(name, value)| (name.to_string(), value))
            .into(),
            experimental_type: Some(Box::new(proto::FullTypeDef {
                type_id: 1000,
                ..Default::default()
            })),
            ..Default::default()
        };
        let graph = proto::GraphDef {
            node: vec![node],
            library: Some(Default::default()),
            versions: Some(proto::VersionDef { producer: 2474, ..Default::default() }),
            ..Default::default()
        };
        let expected = r#"
node {
  name: "c"
  op: "Const"
  input: "a:1"
  input: "^b"
  attr {
    key: "b"
    value {
      b: false
    }
  }
  attr {
    key: "dtype"
    value {
      type: DT_FLOAT
    }
  }
  attr {
    key: "e"
    value {
    }
  }
  attr {
    key: "i"
    value {
      i: -3
    }
  }
  attr {
    key: "l"
    value {
      list {
        i: 1
        i: -2
      }
    }
  }
  attr {
    key: "value"
    value {
      tensor {
        dtype: DT_FLOAT
        tensor_shape {
          dim {
            size: 1
          }
        }
        tensor_content: "\001\""
        float_val: 1
        float_val: 0.1
      }
    }
  }
  experimental_type {
    type_id: TFT_TENSOR
  }
}
library {
}
versions {
  producer: 2474
}
"#;
        assert_eq!(text::encode(&graph), expected.trim_start());
    }
}
