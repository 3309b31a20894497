//! Attributes and op definitions as messages.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Arc;

use bytes::Bytes;
use tfcore_base::{DType, Error, Result, invalid};
use tfcore_proto::{self as proto, attr_value, op_def};

use crate::raw_attr::{RawAttr, list_type_names, mismatch};
use crate::shape_proto::{shape_from_proto, shape_to_proto};
use crate::{ArgDef, ArgKind, AttrDef, AttrList, AttrValue, Attrs, Func, OpDef, Role, TensorAttr};

fn dtype(number: i32) -> Result<DType> {
    DType::from_i32(number).ok_or_else(|| match number {
        0 => invalid!("AttrValue has invalid DataType"),
        _ => invalid!("AttrValue has invalid DataType enum: {number}"),
    })
}

impl AttrValue {
    /// The value of a message. One that makes no sense is kept as [`AttrValue::Raw`].
    pub fn from_proto(message: proto::AttrValue) -> AttrValue {
        use attr_value::Value;
        match message.value {
            None => raw(None, invalid!("AttrValue missing value")),
            Some(Value::S(bytes)) => AttrValue::String(bytes[..].into()),
            Some(Value::I(value)) => AttrValue::Int(value),
            Some(Value::F(value)) => AttrValue::Float(value),
            Some(Value::B(value)) => AttrValue::Bool(value),
            Some(Value::Type(number)) => match dtype(number) {
                Ok(dtype) => AttrValue::Type(dtype),
                Err(error) => raw(Some(Value::Type(number)), error),
            },
            Some(Value::Shape(message)) => match shape_from_proto(&message) {
                Ok(shape) => AttrValue::shape(shape),
                Err(error) => raw(Some(Value::Shape(message)), error),
            },
            Some(Value::Tensor(tensor)) => {
                AttrValue::Tensor(Arc::new(TensorAttr::from_proto(*tensor)))
            }
            Some(Value::Func(func)) => AttrValue::Func(Arc::new(Func::from_proto(*func))),
            Some(Value::Placeholder(name)) => AttrValue::Placeholder(name.into()),
            Some(Value::List(list)) => match check_list(&list) {
                Ok(()) => AttrValue::list(AttrList::from_proto(*list)),
                Err(error) => raw(Some(Value::List(list)), error),
            },
        }
    }

    /// The message that describes the value.
    pub fn to_proto(&self) -> proto::AttrValue {
        use attr_value::Value;
        let value = match self {
            AttrValue::String(bytes) => Value::S(Bytes::copy_from_slice(bytes)),
            AttrValue::Int(value) => Value::I(*value),
            AttrValue::Float(value) => Value::F(*value),
            AttrValue::Bool(value) => Value::B(*value),
            AttrValue::Type(dtype) => Value::Type(dtype.to_i32()),
            AttrValue::Shape(shape) => Value::Shape(shape_to_proto(shape)),
            AttrValue::Tensor(tensor) => Value::Tensor(Box::new(tensor.to_proto())),
            AttrValue::Func(func) => Value::Func(Box::new(func.to_proto())),
            AttrValue::Placeholder(name) => Value::Placeholder(name.to_string()),
            AttrValue::List(list) => Value::List(Box::new(list.to_proto())),
            AttrValue::Raw(raw) => return raw.message().clone(),
        };
        proto::AttrValue { value: Some(value) }
    }
}

fn raw(value: Option<attr_value::Value>, error: Error) -> AttrValue {
    AttrValue::Raw(Arc::new(RawAttr::new(value, error)))
}

/// Whether a list has items of one type, and only such as can be.
fn check_list(list: &attr_value::ListValue) -> Result<()> {
    if let [first, second, ..] = list_type_names(list)[..] {
        return Err(mismatch(second, first));
    }
    list.r#type.iter().try_for_each(|&number| dtype(number).map(drop))?;
    list.shape.iter().try_for_each(|shape| shape_from_proto(shape).map(drop))
}

impl AttrList {
    /// The list of a message that [`check_list`] has passed.
    fn from_proto(list: attr_value::ListValue) -> AttrList {
        let attr_value::ListValue { s, i, f, b, r#type, shape, tensor, func } = list;
        if !s.is_empty() {
            AttrList::String(s.iter().map(|bytes| bytes[..].into()).collect())
        } else if !i.is_empty() {
            AttrList::Int(i)
        } else if !f.is_empty() {
            AttrList::Float(f)
        } else if !b.is_empty() {
            AttrList::Bool(b)
        } else if !r#type.is_empty() {
            AttrList::Type(r#type.into_iter().filter_map(DType::from_i32).collect())
        } else if !shape.is_empty() {
            AttrList::Shape(shape.iter().filter_map(|shape| shape_from_proto(shape).ok()).collect())
        } else if !tensor.is_empty() {
            let tensors = tensor.into_iter().map(|tensor| Arc::new(TensorAttr::from_proto(tensor)));
            AttrList::Tensor(tensors.collect())
        } else if !func.is_empty() {
            AttrList::Func(func.into_iter().map(Func::from_proto).collect())
        } else {
            AttrList::Empty
        }
    }

    fn to_proto(&self) -> attr_value::ListValue {
        let mut list = attr_value::ListValue::default();
        match self {
            AttrList::Empty => {}
            AttrList::String(items) => {
                list.s = items.iter().map(|bytes| Bytes::copy_from_slice(bytes)).collect();
            }
            AttrList::Int(items) => list.i = items.clone(),
            AttrList::Float(items) => list.f = items.clone(),
            AttrList::Bool(items) => list.b = items.clone(),
            AttrList::Type(items) => {
                list.r#type = items.iter().map(|dtype| dtype.to_i32()).collect()
            }
            AttrList::Shape(items) => list.shape = items.iter().map(shape_to_proto).collect(),
            AttrList::Tensor(items) => {
                list.tensor = items.iter().map(|item| item.to_proto()).collect()
            }
            AttrList::Func(items) => list.func = items.iter().map(Func::to_proto).collect(),
        }
        list
    }
}

impl Func {
    /// The function reference of a message.
    pub fn from_proto(message: proto::NameAttrList) -> Func {
        Func { name: message.name, attrs: Attrs::from_proto_with(message.attr, None) }
    }

    /// The message that describes the function reference.
    pub fn to_proto(&self) -> proto::NameAttrList {
        proto::NameAttrList { name: self.name.clone(), attr: self.attrs.to_proto() }
    }
}

impl Attrs {
    /// The attributes of a message. Those that `op` declares share its names.
    pub fn from_proto_with(
        messages: BTreeMap<String, proto::AttrValue>,
        op: Option<&OpDef>,
    ) -> Attrs {
        let mut attrs = Attrs::new();
        for (name, message) in messages {
            let value = AttrValue::from_proto(message);
            match op.and_then(|op| op.attr(&name)) {
                Some(declared) => attrs.set(declared.name.clone(), value),
                None => attrs.set(name, value),
            }
        }
        attrs
    }

    /// The messages that describe the attributes.
    pub fn to_proto(&self) -> BTreeMap<String, proto::AttrValue> {
        self.iter().map(|(name, value)| (name.to_string(), value.to_proto())).collect()
    }
}

impl OpDef {
    /// The signature of a function; the full types of its arguments are dropped.
    ///
    /// # Errors
    /// `InvalidArgument` for a name with a NUL or an argument of an unknown dtype.
    pub fn of_function(message: proto::OpDef) -> Result<OpDef> {
        let c_name = CString::new(message.name.as_str())
            .map_err(|_| invalid!("Op name '{}' holds a NUL", message.name.escape_default()))?;
        Ok(OpDef {
            role: Role::Function,
            name: message.name.into(),
            c_name,
            inputs: message.input_arg.into_iter().map(ArgDef::from_proto).collect::<Result<_>>()?,
            outputs: message
                .output_arg
                .into_iter()
                .map(ArgDef::from_proto)
                .collect::<Result<_>>()?,
            attrs: message.attr.into_iter().map(AttrDef::from_proto).collect(),
            control_outputs: message.control_output,
            summary: message.summary,
            description: message.description,
            deprecation: message.deprecation.map(|old| (old.version, old.explanation)),
            is_commutative: message.is_commutative,
            is_aggregate: message.is_aggregate,
            is_stateful: message.is_stateful,
            allows_uninitialized_input: message.allows_uninitialized_input,
            is_distributed_communication: message.is_distributed_communication,
        })
    }

    /// The message that describes the definition.
    pub fn to_proto(&self) -> proto::OpDef {
        proto::OpDef {
            name: self.name.to_string(),
            input_arg: self.inputs.iter().map(ArgDef::to_proto).collect(),
            output_arg: self.outputs.iter().map(ArgDef::to_proto).collect(),
            attr: self.attrs.iter().map(AttrDef::to_proto).collect(),
            summary: self.summary.clone(),
            description: self.description.clone(),
            deprecation: self
                .deprecation
                .clone()
                .map(|(version, explanation)| proto::OpDeprecation { version, explanation }),
            is_aggregate: self.is_aggregate,
            is_stateful: self.is_stateful,
            is_commutative: self.is_commutative,
            allows_uninitialized_input: self.allows_uninitialized_input,
            control_output: self.control_outputs.clone(),
            is_distributed_communication: self.is_distributed_communication,
        }
    }
}

impl ArgDef {
    fn from_proto(message: op_def::ArgDef) -> Result<ArgDef> {
        let number: Arc<str> = message.number_attr.as_str().into();
        let kind = if !message.type_list_attr.is_empty() {
            ArgKind::ListAttr(message.type_list_attr.into())
        } else {
            match (message.r#type, number.is_empty()) {
                (0, true) => ArgKind::TypeAttr(message.type_attr.into()),
                (0, false) => ArgKind::AttrTimes { dtype: message.type_attr.into(), number },
                (fixed, true) => ArgKind::Fixed(dtype(fixed)?),
                (fixed, false) => ArgKind::FixedTimes(dtype(fixed)?, number),
            }
        };
        Ok(ArgDef {
            name: message.name,
            description: message.description,
            kind,
            is_ref: message.is_ref,
        })
    }

    fn to_proto(&self) -> op_def::ArgDef {
        let mut message = op_def::ArgDef {
            name: self.name.clone(),
            description: self.description.clone(),
            is_ref: self.is_ref,
            ..Default::default()
        };
        match &self.kind {
            ArgKind::Fixed(dtype) => message.r#type = dtype.to_i32(),
            ArgKind::TypeAttr(attr) => message.type_attr = attr.to_string(),
            ArgKind::FixedTimes(dtype, number) => {
                message.r#type = dtype.to_i32();
                message.number_attr = number.to_string();
            }
            ArgKind::AttrTimes { dtype, number } => {
                message.type_attr = dtype.to_string();
                message.number_attr = number.to_string();
            }
            ArgKind::ListAttr(attr) => message.type_list_attr = attr.to_string(),
        }
        message
    }
}

impl AttrDef {
    fn from_proto(message: op_def::AttrDef) -> AttrDef {
        AttrDef {
            name: message.name.into(),
            type_name: message.r#type,
            description: message.description,
            default: message.default_value.map(AttrValue::from_proto),
            minimum: message.has_minimum.then_some(message.minimum),
            allowed: message.allowed_values.map(AttrValue::from_proto),
        }
    }

    fn to_proto(&self) -> op_def::AttrDef {
        op_def::AttrDef {
            name: self.name.to_string(),
            r#type: self.type_name.clone(),
            default_value: self.default.as_ref().map(AttrValue::to_proto),
            description: self.description.clone(),
            has_minimum: self.minimum.is_some(),
            minimum: self.minimum.unwrap_or(0),
            allowed_values: self.allowed.as_ref().map(AttrValue::to_proto),
        }
    }
}

#[cfg(test)]
mod tests {
    use attr_value::{ListValue, Value};
    use tfcore_proto::tensor_shape_proto;

    use super::*;

    fn shape(sizes: &[i64]) -> proto::TensorShapeProto {
        let dim = |&size: &i64| tensor_shape_proto::Dim { size, name: String::new() };
        proto::TensorShapeProto { dim: sizes.iter().map(dim).collect(), unknown_rank: false }
    }

    fn attr(value: Value) -> proto::AttrValue {
        proto::AttrValue { value: Some(value) }
    }

    fn list(list: ListValue) -> proto::AttrValue {
        attr(Value::List(Box::new(list)))
    }

    #[test]
    fn values_survive_a_round_trip() {
        let nested = proto::NameAttrList {
            name: "F".to_string(),
            attr: [("T".to_string(), attr(Value::Type(1)))].into(),
        };
        let cases = [
            proto::AttrValue { value: None },
            attr(Value::S(Bytes::from_static(b"a\xff"))),
            attr(Value::I(-3)),
            attr(Value::F(0.5)),
            attr(Value::B(true)),
            attr(Value::Type(101)),
            attr(Value::Type(77)),
            attr(Value::Shape(shape(&[2, -1]))),
            attr(Value::Shape(shape(&[-7]))),
            attr(Value::Placeholder("T".to_string())),
            attr(Value::Func(Box::new(nested.clone()))),
            list(ListValue::default()),
            list(ListValue { s: vec![Bytes::from_static(b"x")], ..Default::default() }),
            list(ListValue { i: vec![1, 2], ..Default::default() }),
            list(ListValue { f: vec![1.5], ..Default::default() }),
            list(ListValue { b: vec![true, false], ..Default::default() }),
            list(ListValue { r#type: vec![1, 0], ..Default::default() }),
            list(ListValue { r#type: vec![1, 3], ..Default::default() }),
            list(ListValue { shape: vec![shape(&[1]), shape(&[-5])], ..Default::default() }),
            list(ListValue { shape: vec![shape(&[1])], ..Default::default() }),
            list(ListValue { func: vec![nested], ..Default::default() }),
            list(ListValue { i: vec![1], f: vec![1.0], ..Default::default() }),
        ];
        for message in cases {
            assert_eq!(AttrValue::from_proto(message.clone()).to_proto(), message);
        }
    }

    #[test]
    fn senseless_values_are_errors_where_an_op_declares_them() {
        let missing = proto::AttrValue { value: None };
        let mixed = ListValue { i: vec![1], f: vec![1.0], ..Default::default() };
        let types =
            |types: &[i32]| list(ListValue { r#type: types.to_vec(), ..Default::default() });
        let cases = [
            (missing, "shape", "AttrValue missing value with expected type 'shape'"),
            (attr(Value::Type(77)), "type", "AttrValue has invalid DataType enum: 77"),
            (attr(Value::Type(0)), "type", "AttrValue has invalid DataType"),
            (
                attr(Value::Type(101)),
                "type",
                "AttrValue must not have reference type value of float_ref",
            ),
            (
                attr(Value::Type(0)),
                "int",
                "AttrValue had value with type 'type' when 'int' expected",
            ),
            (types(&[1, 77]), "list(type)", "AttrValue has invalid DataType enum: 77"),
            (
                types(&[1, 103]),
                "list(type)",
                "AttrValue must not have reference type value of int32_ref",
            ),
            (
                list(mixed),
                "list(int)",
                "AttrValue had value with type 'list(float)' when 'list(int)' expected",
            ),
        ];
        for (message, declared, text) in cases {
            let value = AttrValue::from_proto(message);
            assert_eq!(value.check_type(declared).unwrap_err().message(), text);
        }
        let mut attrs = Attrs::new();
        attrs.set("shape", AttrValue::from_proto(attr(Value::Shape(shape(&[-5])))));
        attrs.get("shape").unwrap().check_type("shape").unwrap();
        assert!(attrs.shape("shape").unwrap_err().message().starts_with("Shape [-5] has dim"));
        assert_eq!(attrs.get("shape").unwrap().to_string(), "[-5]");
    }
}
