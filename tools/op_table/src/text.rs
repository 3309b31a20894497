//! Attribute values in the notation of registrations, which for messages is that of text protos.

use tfcore_proto::attr_value::{ListValue, Value};
use tfcore_proto::{AttrValue, NameAttrList, TensorProto, TensorShapeProto};

use crate::{Result, dtype};

/// A value: `3`, `1.0`, `true`, `'SAME'`, `DT_FLOAT`, `[1, 2]`, `{ unknown_rank: true }`.
pub(crate) fn value(value: &AttrValue) -> Result<String> {
    match &value.value {
        Some(Value::S(s)) => Ok(quoted(s, '\'')),
        Some(Value::I(i)) => Ok(i.to_string()),
        Some(Value::F(f)) => Ok(format!("{f:?}")),
        Some(Value::B(b)) => Ok(b.to_string()),
        Some(Value::Type(t)) => enum_name(*t),
        Some(Value::Shape(s)) => Ok(shape(s)),
        Some(Value::Tensor(t)) => tensor(t),
        Some(Value::Func(f)) => func(f),
        Some(Value::List(l)) => list(l),
        Some(Value::Placeholder(_)) | None => {
            Err(format!("no notation for the value {value:?}").into())
        }
    }
}

fn list(list: &ListValue) -> Result<String> {
    let mut items: Vec<String> = list.s.iter().map(|s| quoted(s, '\'')).collect();
    items.extend(list.i.iter().map(i64::to_string));
    items.extend(list.f.iter().map(|f| format!("{f:?}")));
    items.extend(list.b.iter().map(bool::to_string));
    items.extend(list.shape.iter().map(shape));
    for item in &list.r#type {
        items.push(enum_name(*item)?);
    }
    for item in &list.tensor {
        items.push(tensor(item)?);
    }
    for item in &list.func {
        items.push(func(item)?);
    }
    Ok(format!("[{}]", items.join(", ")))
}

fn enum_name(dtype: i32) -> Result<String> {
    Ok(format!("DT_{}", dtype::name(dtype)?.to_uppercase()))
}

fn shape(shape: &TensorShapeProto) -> String {
    let mut fields = Vec::new();
    for dim in &shape.dim {
        let name = if dim.name.is_empty() {
            String::new()
        } else {
            format!(" name: {}", quoted(dim.name.as_bytes(), '\''))
        };
        fields.push(format!("dim {{ size: {}{name} }}", dim.size));
    }
    if shape.unknown_rank {
        fields.push("unknown_rank: true".to_owned());
    }
    message(fields)
}

/// A tensor of numbers, bools or strings.
fn tensor(tensor: &TensorProto) -> Result<String> {
    if !tensor.resource_handle_val.is_empty()
        || !tensor.variant_val.is_empty()
        || tensor.version_number != 0
    {
        return Err("no notation for a tensor of resources or variants".into());
    }
    let mut fields = vec![format!("dtype: {}", enum_name(tensor.dtype)?)];
    fields.extend(tensor.tensor_shape.as_ref().map(|s| format!("tensor_shape {}", shape(s))));
    for (name, bytes) in
        [("tensor_content", &tensor.tensor_content), ("float8_val", &tensor.float8_val)]
    {
        if !bytes.is_empty() {
            fields.push(format!("{name}: {}", quoted(bytes, '\'')));
        }
    }
    fields.extend(tensor.string_val.iter().map(|s| format!("string_val: {}", quoted(s, '\''))));
    fields.extend(numbers("float_val", &tensor.float_val));
    fields.extend(numbers("double_val", &tensor.double_val));
    fields.extend(numbers("int_val", &tensor.int_val));
    fields.extend(numbers("scomplex_val", &tensor.scomplex_val));
    fields.extend(numbers("int64_val", &tensor.int64_val));
    fields.extend(numbers("bool_val", &tensor.bool_val));
    fields.extend(numbers("dcomplex_val", &tensor.dcomplex_val));
    fields.extend(numbers("half_val", &tensor.half_val));
    fields.extend(numbers("uint32_val", &tensor.uint32_val));
    fields.extend(numbers("uint64_val", &tensor.uint64_val));
    Ok(message(fields))
}

fn numbers<T: std::fmt::Debug>(name: &str, values: &[T]) -> Option<String> {
    (!values.is_empty()).then(|| format!("{name}: {values:?}"))
}

fn func(func: &NameAttrList) -> Result<String> {
    if !func.attr.is_empty() {
        return Err(format!("no notation for the attributes of function '{}'", func.name).into());
    }
    Ok(message(vec![format!("name: {}", quoted(func.name.as_bytes(), '\''))]))
}

fn message(fields: Vec<String>) -> String {
    if fields.is_empty() { "{ }".to_owned() } else { format!("{{ {} }}", fields.join(" ")) }
}

/// A string in quotes, escaped as in C; everything outside printable ASCII becomes an octal escape.
pub(crate) fn quoted(bytes: &[u8], quote: char) -> String {
    let mut text = String::from(quote);
    for &byte in bytes {
        match byte {
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b'\\' => text.push_str("\\\\"),
            _ if char::from(byte) == quote => text.extend(['\\', quote]),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\{byte:03o}")),
        }
    }
    text.push(quote);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_proto::tensor_shape_proto::Dim;

    #[test]
    fn values_are_written_as_registrations_write_them() {
        let dim = |size, name: &str| Dim { size, name: name.into() };
        let known = TensorShapeProto { dim: vec![dim(2, ""), dim(-1, "n")], unknown_rank: false };
        let unknown = TensorShapeProto { unknown_rank: true, ..Default::default() };
        let color = TensorProto {
            dtype: 4,
            tensor_shape: Some(TensorShapeProto { dim: vec![dim(4, "")], unknown_rank: false }),
            int_val: vec![255, 0, 0, 255],
            ..Default::default()
        };
        for (written, expected) in [
            (Value::I(-3), "-3"),
            (Value::F(1e-4), "0.0001"),
            (Value::F(1.0), "1.0"),
            (Value::F(f32::NEG_INFINITY), "-inf"),
            (Value::B(false), "false"),
            (Value::S("it's\n\x07\"\\".into()), r#"'it\'s\n\007"\\'"#),
            (Value::Type(14), "DT_BFLOAT16"),
            (Value::Shape(TensorShapeProto::default()), "{ }"),
            (Value::Shape(unknown), "{ unknown_rank: true }"),
            (Value::Shape(known), "{ dim { size: 2 } dim { size: -1 name: 'n' } }"),
            (
                Value::Tensor(color.into()),
                "{ dtype: DT_UINT8 tensor_shape { dim { size: 4 } } int_val: [255, 0, 0, 255] }",
            ),
            (
                Value::Func(NameAttrList { name: "f".into(), ..Default::default() }.into()),
                "{ name: 'f' }",
            ),
            (Value::List(ListValue::default().into()), "[]"),
            (Value::List(ListValue { i: vec![1, 2], ..Default::default() }.into()), "[1, 2]"),
            (
                Value::List(
                    ListValue { s: vec!["a".into(), "".into()], ..Default::default() }.into(),
                ),
                "['a', '']",
            ),
            (
                Value::List(ListValue { r#type: vec![1, 9], ..Default::default() }.into()),
                "[DT_FLOAT, DT_INT64]",
            ),
        ] {
            let attr = AttrValue { value: Some(written) };
            assert_eq!(value(&attr).expect("writable"), expected);
        }
        assert!(value(&AttrValue::default()).is_err());
    }
}
