//! API definitions: how language bindings present an op.

use prost::Message;

/// A list of API definitions.
#[derive(Clone, PartialEq, Message)]
pub struct ApiDefs {
    #[prost(message, repeated, tag = "1")]
    pub op: Vec<ApiDef>,
}

/// How bindings name, hide and document one op.
#[derive(Clone, PartialEq, Message)]
pub struct ApiDef {
    #[prost(string, tag = "1")]
    pub graph_op_name: String,
    /// A `Visibility`.
    #[prost(int32, tag = "2")]
    pub visibility: i32,
    #[prost(message, repeated, tag = "3")]
    pub endpoint: Vec<api_def::Endpoint>,
    #[prost(message, repeated, tag = "4")]
    pub in_arg: Vec<api_def::Arg>,
    #[prost(message, repeated, tag = "5")]
    pub out_arg: Vec<api_def::Arg>,
    #[prost(message, repeated, tag = "6")]
    pub attr: Vec<api_def::Attr>,
    #[prost(string, tag = "7")]
    pub summary: String,
    #[prost(string, tag = "8")]
    pub description: String,
    #[prost(string, tag = "9")]
    pub description_prefix: String,
    #[prost(string, tag = "10")]
    pub description_suffix: String,
    #[prost(string, repeated, tag = "11")]
    pub arg_order: Vec<String>,
    #[prost(string, tag = "12")]
    pub deprecation_message: String,
    #[prost(int32, tag = "13")]
    pub deprecation_version: i32,
}

impl ApiDef {
    // `Visibility`
    pub const DEFAULT_VISIBILITY: i32 = 0;
    pub const VISIBLE: i32 = 1;
    pub const SKIP: i32 = 2;
    pub const HIDDEN: i32 = 3;
}

/// Parts of [`ApiDef`].
pub mod api_def {
    use prost::Message;

    /// A public name of the op.
    #[derive(Clone, PartialEq, Message)]
    pub struct Endpoint {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(bool, tag = "3")]
        pub deprecated: bool,
        #[prost(int32, tag = "4")]
        pub deprecation_version: i32,
    }

    /// A renamed or documented argument.
    #[derive(Clone, PartialEq, Message)]
    pub struct Arg {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub rename_to: String,
        #[prost(string, tag = "3")]
        pub description: String,
    }

    /// A renamed or documented attribute; its default may differ from the op's.
    #[derive(Clone, PartialEq, Message)]
    pub struct Attr {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub rename_to: String,
        #[prost(message, optional, tag = "3")]
        pub default_value: Option<crate::AttrValue>,
        #[prost(string, tag = "4")]
        pub description: String,
    }
}
