//! Full types: the experimental type annotations of nodes and arguments.

use prost::Message;

/// A type constructor (`FullTypeId`) applied to arguments.
#[derive(Clone, PartialEq, Message)]
pub struct FullTypeDef {
    /// A `FullTypeId`.
    #[prost(int32, tag = "1")]
    pub type_id: i32,
    #[prost(message, repeated, tag = "2")]
    pub args: Vec<FullTypeDef>,
    #[prost(oneof = "full_type_def::Attr", tags = "3, 4")]
    pub attr: Option<full_type_def::Attr>,
}

/// Parts of [`FullTypeDef`].
pub mod full_type_def {
    use prost::Oneof;

    /// Which `attr` a [`super::FullTypeDef`] holds.
    #[derive(Clone, PartialEq, Oneof)]
    pub enum Attr {
        #[prost(string, tag = "3")]
        S(String),
        #[prost(int64, tag = "4")]
        I(i64),
    }
}
