//! `RawAttr`: an attribute value that means nothing to us, kept as it came.
//!
//! Graphs may carry such values in attributes that no op declares: they import, and go out again
//! unchanged. Where an op does declare the attribute, using the value is the error.

use tfcore_base::{DType, Error, Result, escape_bytes, format_float, invalid};
use tfcore_proto::{self as proto, attr_value};

/// No value at all, an unknown dtype, an impossible shape, or a list with items of several types.
#[derive(Debug, Clone)]
pub struct RawAttr {
    message: proto::AttrValue,
    error: Error,
}

impl RawAttr {
    /// `error` says what is wrong with the value.
    pub(crate) fn new(value: Option<attr_value::Value>, error: Error) -> RawAttr {
        RawAttr { message: proto::AttrValue { value }, error }
    }

    pub fn message(&self) -> &proto::AttrValue {
        &self.message
    }

    /// What is wrong with the value.
    pub fn error(&self) -> Error {
        self.error.clone()
    }

    /// The types that the value claims to have: none, one, or for a list several.
    fn type_names(&self) -> Vec<&'static str> {
        use attr_value::Value;
        match &self.message.value {
            Some(Value::Type(_)) => vec!["type"],
            Some(Value::Shape(_)) => vec!["shape"],
            Some(Value::List(list)) => list_type_names(list),
            _ => Vec::new(),
        }
    }

    /// The first of the types that the value claims to have.
    pub(crate) fn type_name(&self) -> &'static str {
        self.type_names().first().copied().unwrap_or("none")
    }

    /// Checks the value as far as op definitions go: shapes are left to those who use them.
    pub(crate) fn check_type(&self, declared: &str) -> Result<()> {
        let names = self.type_names();
        if names.is_empty() {
            return Err(invalid!("AttrValue missing value with expected type '{declared}'"));
        }
        match names.into_iter().find(|&name| name != declared) {
            Some(name) => Err(mismatch(name, declared)),
            None if matches!(declared, "shape" | "list(shape)") => Ok(()),
            None => Err(self.error()),
        }
    }

    /// As messages show it.
    pub(crate) fn summary(&self) -> String {
        use attr_value::Value;
        match &self.message.value {
            Some(Value::Type(number)) => summarize_type(*number),
            Some(Value::Shape(shape)) => summarize_shape(shape),
            Some(Value::List(list)) => summarize_list(list),
            _ => "<Unknown AttrValue type>".to_string(),
        }
    }
}

impl PartialEq for RawAttr {
    fn eq(&self, other: &RawAttr) -> bool {
        self.message == other.message
    }
}

pub(crate) fn mismatch(actual: &str, declared: &str) -> Error {
    invalid!("AttrValue had value with type '{actual}' when '{declared}' expected")
}

/// The types of the items that a list message has.
pub(crate) fn list_type_names(list: &attr_value::ListValue) -> Vec<&'static str> {
    [
        (list.s.is_empty(), "list(string)"),
        (list.i.is_empty(), "list(int)"),
        (list.f.is_empty(), "list(float)"),
        (list.b.is_empty(), "list(bool)"),
        (list.r#type.is_empty(), "list(type)"),
        (list.shape.is_empty(), "list(shape)"),
        (list.tensor.is_empty(), "list(tensor)"),
        (list.func.is_empty(), "list(func)"),
    ]
    .into_iter()
    .filter_map(|(is_empty, name)| (!is_empty).then_some(name))
    .collect()
}

fn summarize_type(number: i32) -> String {
    match DType::from_i32(number) {
        Some(dtype) => dtype.enum_name(),
        None if number == 0 => "DT_INVALID".to_string(),
        None => String::new(),
    }
}

fn summarize_shape(shape: &proto::TensorShapeProto) -> String {
    let sizes: Vec<String> = shape
        .dim
        .iter()
        .map(|dim| if dim.size == -1 { "?".to_string() } else { dim.size.to_string() })
        .collect();
    let unknown = if shape.unknown_rank { "<unknown>" } else { "" };
    format!("{unknown}[{}]", sizes.join(","))
}

/// The items of the first type that the list has.
fn summarize_list(list: &attr_value::ListValue) -> String {
    let items: Vec<String> = match list_type_names(list).first() {
        Some(&"list(string)") => {
            list.s.iter().map(|text| format!("\"{}\"", escape_bytes(text))).collect()
        }
        Some(&"list(int)") => list.i.iter().map(i64::to_string).collect(),
        Some(&"list(float)") => list.f.iter().map(|&value| format_float(value)).collect(),
        Some(&"list(bool)") => list.b.iter().map(bool::to_string).collect(),
        Some(&"list(type)") => list.r#type.iter().map(|&number| summarize_type(number)).collect(),
        Some(&"list(shape)") => list.shape.iter().map(summarize_shape).collect(),
        _ => Vec::new(),
    };
    format!("[{}]", items.join(", "))
}
