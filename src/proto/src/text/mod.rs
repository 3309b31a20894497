//! The text format of protobuf: `node { name: "a" op: "NoOp" }`.
//!
//! [`decode`] reads and [`encode`] writes any message that has a table of fields in `schema.rs`: graphs and all that is
//! in them, SavedModels, and API definitions. The text becomes the message's bytes, and those go through prost as if they had come
//! from a file; or the other way around. So there is one description of each message besides prost's, and a test
//! compares the two.
//!
//! Errors are those of TensorFlow's parser, with its line and column, but only the first of them. Not read:
//! extensions, `Any`, groups, and strings that are no UTF-8.

mod reader;
mod saved_model_schema;
mod schema;
mod token;
mod writer;

use prost::Message;
use tfcore_base::{Result, invalid};

use crate::*;
use schema::Type;

/// A message that has a text form here.
pub trait TextMessage: Message + Default {
    #[doc(hidden)]
    const TYPE: Described;
}

/// The description of a message's fields.
#[doc(hidden)]
pub struct Described(&'static Type);

/// Parses the text of a message.
///
/// # Errors
/// `InvalidArgument` "1(21): Expected string, got: 3" with the line and the column, both from 1; messages that
/// nest deeper than 100 are refused.
pub fn decode<M: TextMessage>(text: &[u8]) -> Result<M> {
    let bytes = reader::to_wire(text, M::TYPE.0)?;
    crate::decode(&bytes).map_err(|error| invalid!("{error}"))
}

/// The text of a message, for people to read: each field on a line of its own.
pub fn encode<M: TextMessage>(message: &M) -> String {
    writer::to_text(&message.encode_to_vec(), M::TYPE.0)
}

impl TextMessage for SavedModel {
    const TYPE: Described = Described(&saved_model_schema::SAVED_MODEL);
}

macro_rules! text_messages {
    ($($message:ty: $described:ident,)*) => {
        $(impl TextMessage for $message {
            const TYPE: Described = Described(&schema::$described);
        })*
    };
}

text_messages! {
    ApiDefs: API_DEFS,
    AttrValue: ATTR_VALUE,
    FunctionDefLibrary: FUNCTION_DEF_LIBRARY,
    GraphDef: GRAPH_DEF,
    NodeDef: NODE_DEF,
    OpDef: OP_DEF,
}

#[cfg(test)]
mod tests;
