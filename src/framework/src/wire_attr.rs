//! Attributes read from the bytes of a message and written to them, without the message in between.
//!
//! What almost all attributes of a graph are is read and written here: numbers, strings, types, shapes, packed tensors. All else goes
//! through the structs of the proto room, which also decide on what is malformed.

use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::DType;
use tfcore_proto::wire::{Fields, Malformed, Value, Writer};
use tfcore_proto::{self as proto, LARGE, Message, aligned_copy};
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::attr::Entries;
use crate::{AttrValue, Attrs, OpDef};

impl Attrs {
    /// The attributes whose map entries these are. Those that `op` declares share its names.
    ///
    /// # Errors
    /// [`Malformed`] if one of the entries is.
    pub fn from_wire<'a>(
        entries: impl Iterator<Item = &'a [u8]>,
        op: Option<&OpDef>,
    ) -> Result<Attrs, Malformed> {
        let mut attrs = entries
            .map(|entry| {
                let (name, value) = read_entry(entry)?;
                let declared = op.and_then(|op| op.attr(name));
                Ok((declared.map_or_else(|| name.into(), |attr| attr.name.clone()), value))
            })
            .collect::<Result<Entries, Malformed>>()?;
        // Of entries with the same name, the last one counts.
        attrs.reverse();
        attrs.sort_by(|(a, _), (b, _)| a.cmp(b));
        attrs.dedup_by(|(later, _), (first, _)| later == first);
        Ok(Attrs::from_sorted(attrs))
    }

    /// Writes the attributes as the entries of the map field `number`.
    pub fn write(&self, writer: &mut Writer, number: u32) {
        for (name, value) in self.iter().rev() {
            writer.field(number, |entry| {
                entry.field_unless_empty(2, |message| value.write(message));
                entry.field_unless_empty(1, |text| text.raw(name.as_bytes()));
            });
        }
    }
}

fn read_entry(entry: &[u8]) -> Result<(&str, AttrValue), Malformed> {
    let mut name = "";
    let mut parts: SmallVec<[&[u8]; 1]> = SmallVec::new();
    let mut fields = Fields::new(entry);
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => name = field.text()?,
            2 => parts.push(field.bytes()?),
            _ => {}
        }
    }
    let value = match parts[..] {
        [] => AttrValue::from_wire(&[]),
        [whole] => AttrValue::from_wire(whole),
        // Messages in a row are one message.
        _ => AttrValue::from_wire(&parts.concat()),
    };
    Ok((name, value?))
}

impl AttrValue {
    /// The value of a message. One that makes no sense is kept as [`AttrValue::Raw`].
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are no message.
    pub fn from_wire(bytes: &[u8]) -> Result<AttrValue, Malformed> {
        match read_simple(bytes) {
            Some(value) => Ok(value),
            None => Ok(AttrValue::from_proto(proto::decode(bytes)?)),
        }
    }

    /// Writes the message that describes the value.
    pub fn write(&self, writer: &mut Writer) {
        match self {
            AttrValue::String(text) => writer.bytes_field(2, text),
            AttrValue::Int(value) => writer.varint_field(3, *value as u64),
            AttrValue::Float(value) => writer.float_field(4, *value),
            AttrValue::Bool(value) => writer.varint_field(5, u64::from(*value)),
            AttrValue::Type(dtype) => writer.varint_field(6, dtype.to_i32() as u64),
            AttrValue::Shape(shape) => writer.field(7, |message| write_shape(message, shape)),
            AttrValue::Tensor(tensor) => writer.field(8, |message| match tensor.as_packed() {
                Some(tensor) => write_tensor(message, tensor),
                None => message.raw(&tensor.to_proto().encode_to_vec()),
            }),
            _ => writer.raw(&self.to_proto().encode_to_vec()),
        }
    }
}

/// A value of a simple kind that stands alone in its message.
fn read_simple(bytes: &[u8]) -> Option<AttrValue> {
    let mut fields = Fields::new(bytes);
    let (number, value) = fields.next().ok()??;
    if !fields.rest().is_empty() {
        return None;
    }
    Some(match (number, value) {
        (2, Value::Bytes(text)) => AttrValue::String(text.into()),
        (3, Value::Varint(bits)) => AttrValue::Int(bits as i64),
        (4, Value::Fixed32(bits)) => AttrValue::Float(f32::from_bits(bits)),
        (5, Value::Varint(bits)) => AttrValue::Bool(bits != 0),
        (6, Value::Varint(bits)) => AttrValue::Type(DType::from_i32(bits as i32)?),
        (7, Value::Bytes(shape)) => AttrValue::shape(read_shape(shape)?),
        (8, Value::Bytes(tensor)) => AttrValue::Tensor(Arc::new(read_tensor(tensor)?.into())),
        _ => return None,
    })
}

/// A valid shape without names of dimensions.
fn read_shape(bytes: &[u8]) -> Option<PartialShape> {
    let mut fields = Fields::new(bytes);
    let mut dims: SmallVec<[i64; 6]> = SmallVec::new();
    while let Some((number, value)) = fields.next().ok()? {
        match (number, value) {
            (2, Value::Bytes(dim)) => dims.push(read_dim(dim)?),
            (3, Value::Varint(1)) if dims.is_empty() && fields.rest().is_empty() => {
                return Some(PartialShape::unknown());
            }
            _ => return None,
        }
    }
    if dims.iter().any(|&size| size < -1) {
        return None;
    }
    PartialShape::from_i64s(&dims).ok()
}

fn read_dim(bytes: &[u8]) -> Option<i64> {
    let mut fields = Fields::new(bytes);
    let size = match fields.next().ok()? {
        Some((1, Value::Varint(size))) => size as i64,
        Some(_) => return None,
        None => 0,
    };
    fields.rest().is_empty().then_some(size)
}

fn write_shape(writer: &mut Writer, shape: &PartialShape) {
    let Some(dims) = shape.dims() else {
        return writer.varint_field(3, 1);
    };
    for dim in dims.iter().rev() {
        writer.field(2, |message| match dim.to_i64() {
            0 => {}
            size => message.varint_field(1, size as u64),
        });
    }
}

/// The message that `tensor_to_proto` makes for a tensor of packed bytes.
fn write_tensor(writer: &mut Writer, tensor: &Tensor) {
    writer.bytes_field(4, tensor.elems().bytes());
    writer.field(2, |message| write_shape(message, &tensor.shape().into()));
    writer.varint_field(1, tensor.dtype().to_i32() as u64);
}

/// A tensor in packed bytes, from which the same message can be made again.
fn read_tensor(bytes: &[u8]) -> Option<Tensor> {
    let mut fields = Fields::new(bytes);
    let (mut dtype, mut shape, mut content) = (None, None, None);
    while let Some((number, value)) = fields.next().ok()? {
        match (number, value) {
            (1, Value::Varint(number)) if dtype.is_none() => {
                dtype = Some(DType::from_i32(number as i32)?);
            }
            (2, Value::Bytes(bytes)) if shape.is_none() => shape = read_shape(bytes)?.to_shape(),
            (4, Value::Bytes(bytes)) if content.is_none() => content = Some(bytes),
            _ => return None,
        }
    }
    let (dtype, shape, content) = (dtype?, shape?, content?);
    let is_valid = dtype.is_plain()
        && !dtype.is_ref()
        && shape.count() > 1
        && shape.count().checked_mul(dtype.size()) == Some(content.len())
        && (dtype != DType::BOOL || content.iter().all(|&byte| byte <= 1));
    if !is_valid {
        return None;
    }
    if content.len() >= LARGE {
        return Tensor::from_bytes(dtype, shape, aligned_copy(content)).ok();
    }
    let mut tensor = Tensor::zeros(DType::UINT8, Shape::vector(content.len())).ok()?;
    tensor.as_mut_slice::<u8>().ok()?.copy_from_slice(content);
    tensor.bitcast(dtype, shape).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tfcore_proto::attr_value::{ListValue, Value as ProtoValue};
    use tfcore_proto::{NodeDef, TensorProto, TensorShapeProto, tensor_shape_proto};

    use super::*;

    fn shape(sizes: &[i64]) -> TensorShapeProto {
        let dim = |&size: &i64| tensor_shape_proto::Dim { size, name: String::new() };
        TensorShapeProto { dim: sizes.iter().map(dim).collect(), unknown_rank: false }
    }

    fn tensor(dtype: i32, sizes: &[i64], content: &[u8]) -> TensorProto {
        TensorProto {
            dtype,
            tensor_shape: Some(shape(sizes)),
            tensor_content: content.to_vec().into(),
            ..Default::default()
        }
    }

    fn values() -> Vec<ProtoValue> {
        let mut named = shape(&[2]);
        named.dim[0].name = "batch".to_string();
        let tensor_value = |tensor: TensorProto| ProtoValue::Tensor(Box::new(tensor));
        vec![
            ProtoValue::S("text".into()),
            ProtoValue::S(vec![0xff, 0].into()),
            ProtoValue::I(-3),
            ProtoValue::F(-0.0),
            ProtoValue::B(true),
            ProtoValue::B(false),
            ProtoValue::Type(1),
            ProtoValue::Type(101),
            ProtoValue::Type(0),
            ProtoValue::Type(-7),
            ProtoValue::Type(77),
            ProtoValue::Shape(shape(&[])),
            ProtoValue::Shape(shape(&[2, -1, 0])),
            ProtoValue::Shape(shape(&[-5])),
            ProtoValue::Shape(shape(&[1 << 40, 1 << 40])),
            ProtoValue::Shape(named.clone()),
            ProtoValue::Shape(TensorShapeProto { unknown_rank: true, dim: Vec::new() }),
            ProtoValue::Shape(TensorShapeProto { unknown_rank: true, ..shape(&[2]) }),
            tensor_value(TensorProto::default()),
            tensor_value(tensor(1, &[2], &[0, 0, 128, 63, 0, 0, 0, 64])),
            tensor_value(tensor(4, &[3, 700], &[7; 2100])),
            tensor_value(tensor(1, &[2], &[0; 7])),
            tensor_value(tensor(10, &[3], &[0, 1, 1])),
            tensor_value(tensor(10, &[2], &[0, 2])),
            tensor_value(tensor(7, &[2], &[1, 1, 65, 66])),
            tensor_value(tensor(101, &[2], &[0; 8])),
            tensor_value(tensor(1, &[-1], &[0; 8])),
            tensor_value(TensorProto { version_number: 1, ..tensor(1, &[2], &[0; 8]) }),
            tensor_value(TensorProto { tensor_shape: Some(named), ..tensor(1, &[], &[0; 8]) }),
            tensor_value(TensorProto { float_val: vec![1.5], ..tensor(1, &[], &[]) }),
            ProtoValue::Placeholder("T".to_string()),
            ProtoValue::List(Box::new(ListValue { i: vec![1, 2], ..Default::default() })),
        ]
    }

    /// Reads the attrs of a node, whose field they are.
    fn read(node: &[u8]) -> Result<Attrs, Malformed> {
        let mut entries = Vec::new();
        let mut fields = Fields::new(node);
        while let Some((5, value)) = fields.next()? {
            entries.push(value.bytes()?);
        }
        Attrs::from_wire(entries.into_iter(), None)
    }

    #[test]
    fn attrs_are_those_of_the_message() {
        for value in values() {
            let message = proto::AttrValue { value: Some(value) };
            let attr = BTreeMap::from([("a".to_string(), message.clone())]);
            let attrs = read(&NodeDef { attr, ..Default::default() }.encode_to_vec()).unwrap();
            let mut writer = Writer::default();
            attrs.write(&mut writer, 5);
            let node = NodeDef { attr: attrs.to_proto(), ..Default::default() };
            assert_eq!(writer.as_bytes(), node.encode_to_vec());
            let expected = AttrValue::from_proto(message);
            assert_eq!(attrs.get("a").unwrap().to_proto(), expected.to_proto());
            assert_eq!(*attrs.get("a").unwrap(), expected);
        }
    }

    #[test]
    fn of_repeated_fields_the_last_counts() {
        let int = |value| proto::AttrValue { value: Some(ProtoValue::I(value)) };
        let list = |i| {
            let list = ListValue { i: vec![i], ..Default::default() };
            proto::AttrValue { value: Some(ProtoValue::List(Box::new(list))) }
        };
        let entry = |name: &str, values: &[proto::AttrValue]| {
            let mut entry = vec![0x0a, name.len() as u8];
            entry.extend(name.as_bytes());
            for value in values {
                let value = value.encode_to_vec();
                entry.extend([0x12, value.len() as u8]);
                entry.extend(value);
            }
            entry
        };
        let entries = [
            entry("b", &[int(1)]),
            entry("a", &[int(2), int(3)]),
            entry("b", &[int(4)]),
            entry("c", &[list(5), list(6)]),
            entry("none", &[]),
        ];
        let attrs = Attrs::from_wire(entries.iter().map(|entry| &entry[..]), None).unwrap();
        let node: Vec<u8> = entries
            .iter()
            .flat_map(|entry| [&[0x2a, entry.len() as u8], &entry[..]].concat())
            .collect();
        let message = NodeDef::decode(&node[..]).unwrap();
        assert_eq!(attrs.to_proto(), message.attr);
        assert_eq!(attrs.ints("c").unwrap(), [5, 6]);
    }

    #[test]
    fn damaged_bytes_are_malformed_where_prost_says_so() {
        for value in values() {
            let bytes = proto::AttrValue { value: Some(value) }.encode_to_vec();
            for cut in 0..bytes.len().min(40) {
                for change in [None, Some(0), Some(0x80), Some(0xff)] {
                    let mut damaged = bytes[..cut].to_vec();
                    damaged.extend(change);
                    if change.is_some() {
                        damaged.extend(&bytes[cut + 1..]);
                    }
                    let expected = proto::AttrValue::decode(&damaged[..]);
                    let actual = AttrValue::from_wire(&damaged);
                    assert_eq!(actual.is_ok(), expected.is_ok(), "{damaged:02x?}");
                    if let (Ok(actual), Ok(expected)) = (actual, expected) {
                        assert_eq!(actual, AttrValue::from_proto(expected), "{damaged:02x?}");
                    }
                }
            }
        }
    }
}
