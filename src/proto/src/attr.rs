//! Attribute values and function references.

use std::collections::BTreeMap;

use prost::Message;

/// An attribute's value: of a node, or an op definition's default or allowed set.
#[derive(Clone, PartialEq, Message)]
pub struct AttrValue {
    #[prost(oneof = "attr_value::Value", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10")]
    pub value: Option<attr_value::Value>,
}

/// Parts of [`AttrValue`].
pub mod attr_value {
    use bytes::Bytes;
    use prost::{Message, Oneof};

    /// Which `value` a [`super::AttrValue`] holds.
    #[derive(Clone, PartialEq, Oneof)]
    pub enum Value {
        #[prost(message, tag = "1")]
        List(Box<ListValue>),
        #[prost(bytes = "bytes", tag = "2")]
        S(Bytes),
        #[prost(int64, tag = "3")]
        I(i64),
        #[prost(float, tag = "4")]
        F(f32),
        #[prost(bool, tag = "5")]
        B(bool),
        #[prost(int32, tag = "6")]
        Type(i32),
        #[prost(message, tag = "7")]
        Shape(crate::TensorShapeProto),
        #[prost(message, tag = "8")]
        Tensor(Box<crate::TensorProto>),
        #[prost(string, tag = "9")]
        Placeholder(String),
        #[prost(message, tag = "10")]
        Func(Box<super::NameAttrList>),
    }

    /// A list; at most one of the fields is in use.
    #[derive(Clone, PartialEq, Message)]
    pub struct ListValue {
        #[prost(bytes = "bytes", repeated, tag = "2")]
        pub s: Vec<Bytes>,
        #[prost(int64, repeated, tag = "3")]
        pub i: Vec<i64>,
        #[prost(float, repeated, tag = "4")]
        pub f: Vec<f32>,
        #[prost(bool, repeated, tag = "5")]
        pub b: Vec<bool>,
        #[prost(int32, repeated, tag = "6")]
        pub r#type: Vec<i32>,
        #[prost(message, repeated, tag = "7")]
        pub shape: Vec<crate::TensorShapeProto>,
        #[prost(message, repeated, tag = "8")]
        pub tensor: Vec<crate::TensorProto>,
        #[prost(message, repeated, tag = "9")]
        pub func: Vec<super::NameAttrList>,
    }
}

/// A function by name, with the attributes it is instantiated with.
#[derive(Clone, PartialEq, Message)]
pub struct NameAttrList {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(btree_map = "string, message", tag = "2")]
    pub attr: BTreeMap<String, AttrValue>,
}
