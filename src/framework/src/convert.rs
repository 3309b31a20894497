//! Shapes, attributes and op definitions as messages.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Arc;

use bytes::Bytes;
use tfcore_base::{DType, Result, invalid};
use tfcore_proto::{self as proto, attr_value, op_def, tensor_shape_proto};
use tfcore_tensor::{PartialShape, Shape};

use crate::{ArgDef, ArgKind, AttrDef, AttrList, AttrValue, Attrs, Func, OpDef, TensorAttr};

/// # Errors
/// `InvalidArgument` for sizes below -1, too many dimensions, or a product that overflows.
pub fn shape_from_proto(message: &proto::TensorShapeProto) -> Result<PartialShape> {
    if message.unknown_rank {
        if !message.dim.is_empty() {
            return Err(invalid!("An unknown shape must not have any dimensions set"));
        }
        return Ok(PartialShape::unknown());
    }
    let dims: Vec<i64> = message.dim.iter().map(|dim| dim.size).collect();
    if let Some(size) = dims.iter().find(|&&size| size < -1) {
        return Err(invalid!(
            "Shape has dimensions with values below -1 (where -1 means unknown): {size}"
        ));
    }
    PartialShape::from_i64s(&dims)
}

pub fn shape_to_proto(shape: &PartialShape) -> proto::TensorShapeProto {
    let Some(dims) = shape.dims() else {
        return proto::TensorShapeProto { unknown_rank: true, ..Default::default() };
    };
    let dim = |size| tensor_shape_proto::Dim { size, name: String::new() };
    proto::TensorShapeProto {
        dim: dims.iter().map(|d| dim(d.to_i64())).collect(),
        unknown_rank: false,
    }
}

/// The full shape that a message describes.
pub fn full_shape_from_proto(message: &proto::TensorShapeProto) -> Result<Shape> {
    let shape = shape_from_proto(message)?;
    shape.to_shape().ok_or_else(|| invalid!("Shape {shape} is not fully defined"))
}

fn dtype(number: i32) -> Result<DType> {
    DType::from_i32(number).ok_or_else(|| invalid!("Invalid data type {number}"))
}

impl AttrValue {
    /// # Errors
    /// `InvalidArgument` for a message without a value, an unknown dtype or a bad shape.
    pub fn from_proto(message: proto::AttrValue) -> Result<AttrValue> {
        use attr_value::Value;
        Ok(match message.value {
            None => return Err(invalid!("AttrValue missing value")),
            Some(Value::S(bytes)) => AttrValue::String(bytes[..].into()),
            Some(Value::I(value)) => AttrValue::Int(value),
            Some(Value::F(value)) => AttrValue::Float(value),
            Some(Value::B(value)) => AttrValue::Bool(value),
            Some(Value::Type(number)) => AttrValue::Type(dtype(number)?),
            Some(Value::Shape(shape)) => AttrValue::shape(shape_from_proto(&shape)?),
            Some(Value::Tensor(tensor)) => {
                AttrValue::Tensor(Arc::new(TensorAttr::from_proto(*tensor)?))
            }
            Some(Value::Func(func)) => AttrValue::Func(Arc::new(Func::from_proto(*func)?)),
            Some(Value::Placeholder(name)) => AttrValue::Placeholder(name.into()),
            Some(Value::List(list)) => AttrValue::list(AttrList::from_proto(*list)?),
        })
    }

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
        };
        proto::AttrValue { value: Some(value) }
    }
}

impl AttrList {
    fn from_proto(list: attr_value::ListValue) -> Result<AttrList> {
        let attr_value::ListValue { s, i, f, b, r#type, shape, tensor, func } = list;
        Ok(if !s.is_empty() {
            AttrList::String(s.iter().map(|bytes| bytes[..].into()).collect())
        } else if !i.is_empty() {
            AttrList::Int(i)
        } else if !f.is_empty() {
            AttrList::Float(f)
        } else if !b.is_empty() {
            AttrList::Bool(b)
        } else if !r#type.is_empty() {
            AttrList::Type(r#type.into_iter().map(dtype).collect::<Result<_>>()?)
        } else if !shape.is_empty() {
            AttrList::Shape(shape.iter().map(shape_from_proto).collect::<Result<_>>()?)
        } else if !tensor.is_empty() {
            let items =
                tensor.into_iter().map(|tensor| TensorAttr::from_proto(tensor).map(Arc::new));
            AttrList::Tensor(items.collect::<Result<_>>()?)
        } else if !func.is_empty() {
            AttrList::Func(func.into_iter().map(Func::from_proto).collect::<Result<_>>()?)
        } else {
            AttrList::Empty
        })
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
    fn from_proto(message: proto::NameAttrList) -> Result<Func> {
        Ok(Func { name: message.name, attrs: Attrs::from_proto_with(message.attr, None)? })
    }

    fn to_proto(&self) -> proto::NameAttrList {
        proto::NameAttrList { name: self.name.clone(), attr: self.attrs.to_proto() }
    }
}

impl Attrs {
    /// The attributes of a message. Those that `op` declares share its names.
    pub fn from_proto_with(
        messages: BTreeMap<String, proto::AttrValue>,
        op: Option<&OpDef>,
    ) -> Result<Attrs> {
        let mut attrs = Attrs::with_capacity(messages.len());
        for (name, message) in messages {
            let value = AttrValue::from_proto(message).map_err(|error| {
                crate::op_def::with_suffix(error, &format!(" for attr '{name}'"))
            })?;
            match op.and_then(|op| op.attr(&name)) {
                Some(declared) => attrs.set(declared.name.clone(), value),
                None => attrs.set(name, value),
            }
        }
        Ok(attrs)
    }

    pub fn to_proto(&self) -> BTreeMap<String, proto::AttrValue> {
        self.iter().map(|(name, value)| (name.to_string(), value.to_proto())).collect()
    }
}

impl OpDef {
    /// # Errors
    /// `InvalidArgument` for a message that defines no op.
    pub fn from_proto(message: proto::OpDef) -> Result<OpDef> {
        let c_name = CString::new(message.name.as_str())
            .map_err(|_| invalid!("Op name '{}' holds a NUL", message.name.escape_default()))?;
        Ok(OpDef {
            name: message.name.into(),
            c_name,
            inputs: message.input_arg.into_iter().map(ArgDef::from_proto).collect::<Result<_>>()?,
            outputs: message
                .output_arg
                .into_iter()
                .map(ArgDef::from_proto)
                .collect::<Result<_>>()?,
            attrs: message.attr.into_iter().map(AttrDef::from_proto).collect::<Result<_>>()?,
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
    fn from_proto(message: op_def::AttrDef) -> Result<AttrDef> {
        Ok(AttrDef {
            name: message.name.into(),
            type_name: message.r#type,
            description: message.description,
            default: message.default_value.map(AttrValue::from_proto).transpose()?,
            minimum: message.has_minimum.then_some(message.minimum),
            allowed: message.allowed_values.map(AttrValue::from_proto).transpose()?,
        })
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
