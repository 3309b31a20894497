//! The messages the recorded cases are made of, and how a `<Op>.cases` file is cut into them.
//!
//! Only the fields that a player reads are declared; the graph itself travels as bytes.

use prost::Message;

use crate::value::{Data, STRING, Value};

/// One small graph with its inputs and what TensorFlow answers to it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Case {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) op: String,
    /// Serialised `GraphDef`.
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) graph_def: Vec<u8>,
    /// Given to every run of the case.
    #[prost(message, repeated, tag = "4")]
    pub(crate) feeds: Vec<NamedBytes>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) fetches: Vec<String>,
    /// Operations run before the fetching run, one run each, in order.
    #[prost(string, repeated, tag = "6")]
    pub(crate) targets_first: Vec<String>,
    /// One tensor per fetch, when `code` is 0.
    #[prost(message, repeated, tag = "7")]
    pub(crate) expected: Vec<NamedBytes>,
    /// Expected `TF_Code`.
    #[prost(int32, tag = "8")]
    pub(crate) code: i32,
    /// Where the error comes up: `import` or `run`.
    #[prost(string, tag = "9")]
    pub(crate) stage: String,
    #[prost(string, tag = "10")]
    pub(crate) message_contains: String,
    /// 0 stands for the tolerance of the dtype.
    #[prost(double, tag = "11")]
    pub(crate) rtol: f64,
    #[prost(double, tag = "12")]
    pub(crate) atol: f64,
    /// `values` (also when empty), `exact` or `shape`.
    #[prost(string, tag = "13")]
    pub(crate) check: String,
    #[prost(message, repeated, tag = "14")]
    pub(crate) static_shapes: Vec<NamedBytes>,
    /// Operations run as targets of the fetching run.
    #[prost(string, repeated, tag = "15")]
    pub(crate) targets: Vec<String>,
}

impl Case {
    /// The short name, `Op/007`: what comes before the first space.
    pub(crate) fn id(&self) -> &str {
        self.name.split(' ').next().unwrap_or(&self.name)
    }
}

/// A tensor name (`node:index`) with a serialised `TensorProto` or `TensorShapeProto`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NamedBytes {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) bytes: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct TensorProto {
    #[prost(int32, tag = "1")]
    dtype: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<ShapeProto>,
    #[prost(bytes = "vec", tag = "4")]
    content: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    strings: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct ShapeProto {
    #[prost(message, repeated, tag = "2")]
    dims: Vec<DimProto>,
    #[prost(bool, tag = "3")]
    unknown_rank: bool,
}

#[derive(Clone, PartialEq, Message)]
struct DimProto {
    #[prost(int64, tag = "1")]
    size: i64,
}

/// Decodes a `TensorProto` that holds its values as `tensor_content` or `string_val`.
pub(crate) fn decode_tensor(bytes: &[u8]) -> Result<Value, String> {
    let proto = TensorProto::decode(bytes).map_err(|e| format!("bad tensor in the case: {e}"))?;
    let dims = proto.shape.unwrap_or_default().dims.iter().map(|d| d.size).collect();
    let data = match proto.dtype {
        STRING => Data::Strings(proto.strings),
        _ => Data::Bytes(proto.content),
    };
    Ok(Value { dtype: proto.dtype, dims, data })
}

/// The opposite of [`decode_tensor`].
pub(crate) fn encode_tensor(value: &Value) -> Vec<u8> {
    let dims = value.dims.iter().map(|&size| DimProto { size }).collect();
    let (content, strings) = match &value.data {
        Data::Bytes(bytes) => (bytes.clone(), Vec::new()),
        Data::Strings(strings) => (Vec::new(), strings.clone()),
    };
    let shape = Some(ShapeProto { dims, unknown_rank: false });
    TensorProto { dtype: value.dtype, shape, content, strings }.encode_to_vec()
}

/// Decodes a `TensorShapeProto`; `None` is the unknown rank, -1 an unknown dimension.
pub(crate) fn decode_shape(bytes: &[u8]) -> Result<Option<Vec<i64>>, String> {
    let proto = ShapeProto::decode(bytes).map_err(|e| format!("bad shape in the case: {e}"))?;
    Ok((!proto.unknown_rank).then(|| proto.dims.iter().map(|d| d.size).collect()))
}

/// Cuts the contents of a `.cases` file, serialised cases each after its length as a varint.
pub(crate) fn split_cases(mut bytes: &[u8]) -> Result<Vec<&[u8]>, String> {
    let mut cases = Vec::new();
    while !bytes.is_empty() {
        let length = prost::encoding::decode_varint(&mut bytes).map_err(|e| e.to_string())?;
        let (case, rest) = usize::try_from(length)
            .ok()
            .and_then(|length| bytes.split_at_checked(length))
            .ok_or("a case ends behind its file")?;
        cases.push(case);
        bytes = rest;
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_and_tensors_are_decoded() {
        // dtype 3, shape [2], tensor_content of 8 bytes.
        let wire = b"\x08\x03\x12\x04\x12\x02\x08\x02\x22\x08\x01\0\0\0\xff\xff\xff\xff";
        let value = decode_tensor(wire).unwrap();
        assert_eq!((value.dtype, value.dims.as_slice()), (3, &[2][..]));
        assert_eq!(value.data, Data::Bytes(vec![1, 0, 0, 0, 255, 255, 255, 255]));
        assert_eq!(encode_tensor(&value), wire);

        assert_eq!(decode_shape(b"\x18\x01").unwrap(), None);
        assert_eq!(decode_shape(b"").unwrap(), Some(vec![]));
        let unknown_dim = b"\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        assert_eq!(decode_shape(unknown_dim).unwrap(), Some(vec![-1]));
    }

    #[test]
    fn files_are_cut_at_the_lengths() {
        assert_eq!(split_cases(b"\x02ab\x00\x01c").unwrap(), [&b"ab"[..], b"", b"c"]);
        assert!(split_cases(b"\x05ab").is_err());
    }
}
