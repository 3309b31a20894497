//! The text format of protobuf, as far as the defaults of attributes are written in it: shapes, tensors
//! and functions.

use bytes::Bytes;
use tfcore_proto::attr_value::{ListValue, Value};
use tfcore_proto::{self as proto, attr_value, tensor_shape_proto};

use crate::AttrValue;
use crate::spec_reader::Reader;

/// How deep functions may nest in the attributes of functions.
const MAX_DEPTH: usize = 16;

impl Reader<'_> {
    /// The default value of an attr of the given type, up to the end of the text.
    pub(crate) fn attr_value(mut self, type_name: &str) -> Option<AttrValue> {
        let value = match type_name.strip_prefix("list(") {
            Some(item) => Value::List(Box::new(self.list(item.strip_suffix(')')?)?)),
            None => self.single(type_name)?,
        };
        let is_whole = self.rest().is_empty();
        is_whole.then(|| AttrValue::from_proto(proto::AttrValue { value: Some(value) }))
    }

    fn single(&mut self, type_name: &str) -> Option<Value> {
        Some(match type_name {
            "string" => Value::S(self.string()?.into()),
            "int" => Value::I(self.integer()?),
            "float" => Value::F(self.float()?),
            "bool" => Value::B(self.bool()?),
            "type" => Value::Type(self.enum_value()?),
            "shape" => Value::Shape(shape(self)?),
            "tensor" => Value::Tensor(Box::new(tensor(self)?)),
            "func" => Value::Func(Box::new(func(self)?)),
            _ => return None,
        })
    }

    fn list(&mut self, item: &str) -> Option<ListValue> {
        let mut list = ListValue::default();
        match item {
            "string" => list.s = self.items(|reader| reader.string().map(Bytes::from))?,
            "int" => list.i = self.items(Reader::integer)?,
            "float" => list.f = self.items(Reader::float)?,
            "bool" => list.b = self.items(Reader::bool)?,
            "type" => list.r#type = self.items(Reader::enum_value)?,
            "shape" => list.shape = self.items(shape)?,
            "tensor" => list.tensor = self.items(tensor)?,
            "func" => list.func = self.items(func)?,
            _ => return None,
        }
        Some(list)
    }
}

/// `{ dim { size: 2 } unknown_rank: false }`
fn shape(reader: &mut Reader<'_>) -> Option<proto::TensorShapeProto> {
    let mut shape = proto::TensorShapeProto::default();
    fields(reader, |reader, name| {
        match name {
            "unknown_rank" => shape.unknown_rank = reader.bool()?,
            "dim" => shape.dim.extend(repeated(reader, dim)?),
            _ => return None,
        }
        Some(())
    })?;
    Some(shape)
}

fn dim(reader: &mut Reader<'_>) -> Option<tensor_shape_proto::Dim> {
    let mut dim = tensor_shape_proto::Dim::default();
    fields(reader, |reader, name| {
        match name {
            "size" => dim.size = reader.integer()?,
            "name" => dim.name = text(reader)?,
            _ => return None,
        }
        Some(())
    })?;
    Some(dim)
}

/// `{ dtype: DT_UINT8 tensor_shape { dim { size: 4 } } int_val: [255, 0, 0, 255] }`
fn tensor(reader: &mut Reader<'_>) -> Option<proto::TensorProto> {
    let mut tensor = proto::TensorProto::default();
    fields(reader, |reader, name| {
        let float = Reader::float;
        let double = Reader::double;
        match name {
            "dtype" => tensor.dtype = reader.enum_value()?,
            "tensor_shape" => tensor.tensor_shape = Some(shape(reader)?),
            "version_number" => tensor.version_number = number(reader)?,
            "tensor_content" => tensor.tensor_content = bytes(reader)?,
            "float_val" => tensor.float_val.extend(repeated(reader, float)?),
            "double_val" => tensor.double_val.extend(repeated(reader, double)?),
            "int_val" => tensor.int_val.extend(repeated(reader, number::<i32>)?),
            "string_val" => tensor.string_val.extend(repeated(reader, bytes)?),
            "scomplex_val" => tensor.scomplex_val.extend(repeated(reader, float)?),
            "int64_val" => tensor.int64_val.extend(repeated(reader, number::<i64>)?),
            "bool_val" => tensor.bool_val.extend(repeated(reader, Reader::bool)?),
            "dcomplex_val" => tensor.dcomplex_val.extend(repeated(reader, double)?),
            "half_val" => tensor.half_val.extend(repeated(reader, number::<i32>)?),
            "uint32_val" => tensor.uint32_val.extend(repeated(reader, number::<u32>)?),
            "uint64_val" => tensor.uint64_val.extend(repeated(reader, number::<u64>)?),
            "float8_val" => tensor.float8_val = bytes(reader)?,
            _ => return None,
        }
        Some(())
    })?;
    Some(tensor)
}

/// `{ name: 'F' attr { key: 'T' value { type: DT_FLOAT } } }`
fn func(reader: &mut Reader<'_>) -> Option<proto::NameAttrList> {
    func_within(reader, 0)
}

fn func_within(reader: &mut Reader<'_>, depth: usize) -> Option<proto::NameAttrList> {
    let mut func = proto::NameAttrList::default();
    fields(reader, |reader, name| {
        match name {
            "name" => func.name = text(reader)?,
            "attr" => func.attr.extend(repeated(reader, |reader| entry(reader, depth))?),
            _ => return None,
        }
        Some(())
    })?;
    Some(func)
}

/// An entry of a map of attributes.
fn entry(reader: &mut Reader<'_>, depth: usize) -> Option<(String, proto::AttrValue)> {
    let mut key = String::new();
    let mut attr = proto::AttrValue::default();
    fields(reader, |reader, name| {
        match name {
            "key" => key = text(reader)?,
            "value" => attr = value(reader, depth)?,
            _ => return None,
        }
        Some(())
    })?;
    Some((key, attr))
}

fn value(reader: &mut Reader<'_>, depth: usize) -> Option<proto::AttrValue> {
    use attr_value::Value;
    if depth == MAX_DEPTH {
        return None;
    }
    let mut attr = proto::AttrValue::default();
    fields(reader, |reader, name| {
        attr.value = Some(match name {
            "s" => Value::S(bytes(reader)?),
            "i" => Value::I(reader.integer()?),
            "f" => Value::F(reader.float()?),
            "b" => Value::B(reader.bool()?),
            "type" => Value::Type(reader.enum_value()?),
            "shape" => Value::Shape(shape(reader)?),
            "tensor" => Value::Tensor(Box::new(tensor(reader)?)),
            "placeholder" => Value::Placeholder(text(reader)?),
            "func" => Value::Func(Box::new(func_within(reader, depth + 1)?)),
            "list" => Value::List(Box::new(list(reader, depth + 1)?)),
            _ => return None,
        });
        Some(())
    })?;
    Some(attr)
}

fn list(reader: &mut Reader<'_>, depth: usize) -> Option<attr_value::ListValue> {
    let mut list = attr_value::ListValue::default();
    fields(reader, |reader, name| {
        match name {
            "s" => list.s.extend(repeated(reader, bytes)?),
            "i" => list.i.extend(repeated(reader, Reader::integer)?),
            "f" => list.f.extend(repeated(reader, Reader::float)?),
            "b" => list.b.extend(repeated(reader, Reader::bool)?),
            "type" => list.r#type.extend(repeated(reader, Reader::enum_value)?),
            "shape" => list.shape.extend(repeated(reader, shape)?),
            "tensor" => list.tensor.extend(repeated(reader, tensor)?),
            "func" => list.func.extend(repeated(reader, |reader| func_within(reader, depth))?),
            _ => return None,
        }
        Some(())
    })?;
    Some(list)
}

/// Reads the fields of a message in braces; `field` reads the value that belongs to a name.
fn fields<'a>(
    reader: &mut Reader<'a>,
    mut field: impl FnMut(&mut Reader<'a>, &str) -> Option<()>,
) -> Option<()> {
    reader.accept("{").then_some(())?;
    while !reader.accept("}") {
        let name = reader.word()?;
        reader.accept(":");
        field(reader, name)?;
        let _separator = reader.accept(",") || reader.accept(";");
    }
    Some(())
}

/// The items that stand behind the name of a repeated field: one, or a list in brackets.
fn repeated<'a, T>(
    reader: &mut Reader<'a>,
    item: impl Fn(&mut Reader<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    if reader.at("[") { reader.items(item) } else { Some(vec![item(reader)?]) }
}

fn number<T: TryFrom<i128>>(reader: &mut Reader<'_>) -> Option<T> {
    T::try_from(reader.wide_integer()?).ok()
}

fn bytes(reader: &mut Reader<'_>) -> Option<Bytes> {
    reader.string().map(Bytes::from)
}

fn text(reader: &mut Reader<'_>) -> Option<String> {
    String::from_utf8(reader.string()?).ok()
}
