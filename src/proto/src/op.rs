//! Op definitions.

use prost::Message;

/// A list of op definitions.
#[derive(Clone, PartialEq, Message)]
pub struct OpList {
    #[prost(message, repeated, tag = "1")]
    pub op: Vec<OpDef>,
}

/// An op's interface.
#[derive(Clone, PartialEq, Message)]
pub struct OpDef {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub input_arg: Vec<op_def::ArgDef>,
    #[prost(message, repeated, tag = "3")]
    pub output_arg: Vec<op_def::ArgDef>,
    #[prost(message, repeated, tag = "4")]
    pub attr: Vec<op_def::AttrDef>,
    #[prost(string, tag = "5")]
    pub summary: String,
    #[prost(string, tag = "6")]
    pub description: String,
    #[prost(message, optional, tag = "8")]
    pub deprecation: Option<OpDeprecation>,
    #[prost(bool, tag = "16")]
    pub is_aggregate: bool,
    #[prost(bool, tag = "17")]
    pub is_stateful: bool,
    #[prost(bool, tag = "18")]
    pub is_commutative: bool,
    #[prost(bool, tag = "19")]
    pub allows_uninitialized_input: bool,
    #[prost(string, repeated, tag = "20")]
    pub control_output: Vec<String>,
    #[prost(bool, tag = "21")]
    pub is_distributed_communication: bool,
}

/// Parts of [`OpDef`].
pub mod op_def {
    use prost::Message;

    /// An input or output: a fixed type, `type_attr`, `number_attr` copies, or `type_list_attr`.
    #[derive(Clone, PartialEq, Message)]
    pub struct ArgDef {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub description: String,
        /// Not 0 where the type is fixed.
        #[prost(int32, tag = "3")]
        pub r#type: i32,
        #[prost(string, tag = "4")]
        pub type_attr: String,
        #[prost(string, tag = "5")]
        pub number_attr: String,
        #[prost(string, tag = "6")]
        pub type_list_attr: String,
        #[prost(message, repeated, tag = "7")]
        pub handle_data: Vec<crate::resource_handle_proto::DtypeAndShape>,
        #[prost(bool, tag = "16")]
        pub is_ref: bool,
        #[prost(message, optional, tag = "17")]
        pub experimental_full_type: Option<crate::FullTypeDef>,
    }

    /// An attribute's declaration.
    #[derive(Clone, PartialEq, Message)]
    pub struct AttrDef {
        #[prost(string, tag = "1")]
        pub name: String,
        /// `int`, `list(type)`, `func` and so on.
        #[prost(string, tag = "2")]
        pub r#type: String,
        #[prost(message, optional, tag = "3")]
        pub default_value: Option<crate::AttrValue>,
        #[prost(string, tag = "4")]
        pub description: String,
        #[prost(bool, tag = "5")]
        pub has_minimum: bool,
        /// Least value of an int, least length of a list; counts if `has_minimum`.
        #[prost(int64, tag = "6")]
        pub minimum: i64,
        /// A list of types or strings.
        #[prost(message, optional, tag = "7")]
        pub allowed_values: Option<crate::AttrValue>,
    }
}

/// From which graph version on an op is refused, and why.
#[derive(Clone, PartialEq, Message)]
pub struct OpDeprecation {
    #[prost(int32, tag = "1")]
    pub version: i32,
    #[prost(string, tag = "2")]
    pub explanation: String,
}
