//! `TensorAttr`: a tensor as the value of an attribute.

use std::fmt;
use std::sync::OnceLock;

use tfcore_base::{
    BFloat16, DType, Half, Int2, Int4, QInt8, QInt16, QUInt8, QUInt16, Result, UInt2, UInt4,
    escape_bytes, format_double, format_float,
};
use tfcore_proto::TensorProto;
use tfcore_tensor::{ResourceHandle, Shape, TString, Tensor, Variant};

use crate::tensor_proto::{
    describe, dtype_of, head_from_proto, header, shape_of, tensor_from_proto, tensor_to_proto,
};

/// A tensor, or the message that it came in.
///
/// A few bytes of a message can stand for a tensor of any size, and a message may describe no tensor at
/// all: it is only looked into when somebody asks for the values.
pub struct TensorAttr(Form);

enum Form {
    Tensor(Tensor),
    Message { message: Box<TensorProto>, tensor: OnceLock<Result<Tensor>> },
}

/// How many values a summary shows.
const SUMMARY_VALUES: usize = 3;

/// Values of unlike form are compared by their elements up to this many bytes, and unequal beyond.
const MAX_COMPARED_BYTES: usize = 32 << 20;

impl TensorAttr {
    /// Takes any message over; one that describes no tensor is an error for those who ask for it.
    pub fn from_proto(message: TensorProto) -> TensorAttr {
        match as_small_tensor(&message) {
            Some(tensor) => TensorAttr(Form::Tensor(tensor)),
            None => {
                TensorAttr(Form::Message { message: Box::new(message), tensor: OnceLock::new() })
            }
        }
    }

    /// The declared type of the elements.
    ///
    /// # Errors
    /// `InvalidArgument` "Cannot parse tensor from proto: ..." for a number that is no type.
    pub fn dtype(&self) -> Result<DType> {
        match &self.0 {
            Form::Tensor(tensor) => Ok(tensor.dtype()),
            Form::Message { message, .. } => dtype_of(message),
        }
    }

    /// The declared shape.
    ///
    /// # Errors
    /// `InvalidArgument` "Shape [?] is not fully defined" and the like.
    pub fn shape(&self) -> Result<Shape> {
        match &self.0 {
            Form::Tensor(tensor) => Ok(tensor.shape().clone()),
            Form::Message { message, .. } => shape_of(message),
        }
    }

    /// The tensor itself.
    ///
    /// # Errors
    /// `InvalidArgument` "Cannot parse tensor from proto: ..." for a message that is no tensor.
    pub fn tensor(&self) -> Result<Tensor> {
        match &self.0 {
            Form::Tensor(tensor) => Ok(tensor.clone()),
            Form::Message { message, tensor } => {
                tensor.get_or_init(|| tensor_from_proto(message)).clone()
            }
        }
    }

    /// The tensor, if its message is type, shape and packed bytes.
    pub(crate) fn as_packed(&self) -> Option<&Tensor> {
        match &self.0 {
            Form::Tensor(tensor) if tensor.dtype().is_plain() && tensor.count() > 1 => Some(tensor),
            _ => None,
        }
    }

    /// The message that describes the tensor, which is the one it came in.
    pub fn to_proto(&self) -> TensorProto {
        match &self.0 {
            Form::Tensor(tensor) => tensor_to_proto(tensor),
            Form::Message { message, .. } => (**message).clone(),
        }
    }

    /// As messages show it: `Tensor<type: float shape: [2] values: 1 2>`, with at most three values.
    pub fn summary(&self) -> String {
        let head = match &self.0 {
            Form::Tensor(tensor) => Ok((tensor.shape().clone(), tensor.clone())),
            Form::Message { message, .. } => match shape_of(message) {
                Err(_) => return format!("<TensorProto: {}>", describe(message)),
                Ok(shape) => head_from_proto(message, SUMMARY_VALUES)
                    .map(|head| (shape, head))
                    .map_err(|_| describe(message)),
            },
        };
        match head {
            Ok((shape, head)) => format!(
                "Tensor<type: {} shape: {shape} values: {}>",
                head.dtype(),
                summarize(&head, &shape, SUMMARY_VALUES)
            ),
            Err(description) => format!("<Invalid TensorProto: {description}>"),
        }
    }
}

impl From<Tensor> for TensorAttr {
    fn from(tensor: Tensor) -> TensorAttr {
        TensorAttr(Form::Tensor(tensor))
    }
}

/// The tensor of a message that says the same in less memory: one of packed bytes, or of one element.
/// The message can be made from it again.
fn as_small_tensor(message: &TensorProto) -> Option<Tensor> {
    let dtype = dtype_of(message).ok().filter(|dtype| dtype.is_plain())?;
    let shape = shape_of(message).ok()?;
    if message.tensor_content.is_empty() {
        let tensor = (shape.count() == 1).then(|| tensor_from_proto(message).ok())??;
        return (tensor_to_proto(&tensor) == *message).then_some(tensor);
    }
    let values =
        TensorProto { tensor_content: message.tensor_content.clone(), ..header(dtype, &shape) };
    (shape.count() > 1 && values == *message).then(|| tensor_from_proto(message).ok())?
}

impl PartialEq for TensorAttr {
    fn eq(&self, other: &TensorAttr) -> bool {
        if let (Form::Message { message: a, .. }, Form::Message { message: b, .. }) =
            (&self.0, &other.0)
            && a == b
        {
            return true;
        }
        match (self.comparable(), other.comparable()) {
            (Some(a), Some(b)) => same_elements(&a, &b),
            _ => false,
        }
    }
}

impl TensorAttr {
    /// The tensor, unless a message blows up to a large one.
    fn comparable(&self) -> Option<Tensor> {
        if let Form::Tensor(tensor) = &self.0 {
            return Some(tensor.clone());
        }
        let bytes = self.shape().ok()?.count().checked_mul(self.dtype().ok()?.size())?;
        (bytes <= MAX_COMPARED_BYTES).then(|| self.tensor().ok())?
    }
}

fn same_elements(a: &Tensor, b: &Tensor) -> bool {
    if (a.dtype(), a.shape()) != (b.dtype(), b.shape()) {
        return false;
    }
    match a.dtype() {
        DType::STRING => a.elems().typed::<TString>() == b.elems().typed(),
        DType::RESOURCE => a.elems().typed::<ResourceHandle>() == b.elems().typed(),
        DType::VARIANT => a.elems().typed::<Variant>() == b.elems().typed(),
        _ => a.elems().bytes() == b.elems().bytes(),
    }
}

impl fmt::Debug for TensorAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())
    }
}

/// A tensor as messages show it: `Tensor<type: float shape: [2] values: 1 2>`, with at most three values.
pub fn describe_tensor(tensor: &Tensor) -> String {
    let values = summarize_values(tensor, SUMMARY_VALUES);
    format!("Tensor<type: {} shape: {} values: {values}>", tensor.dtype(), tensor.shape())
}

/// At most `limit` values of a tensor, as messages show them: `1 2 3...`, and `[1 2][3 4]` from two
/// dimensions on.
pub fn summarize_values(tensor: &Tensor, limit: usize) -> String {
    summarize(tensor, tensor.shape(), limit)
}

/// As [`summarize_values`], for a tensor of shape `shape` whose first elements `values` holds.
fn summarize(values: &Tensor, shape: &Shape, limit: usize) -> String {
    let mut text = String::new();
    let count = shape.count();
    if count == 0 {
        return text;
    }
    if shape.rank() < 2 {
        append_run(values, 0..count.min(limit), &mut text);
    } else {
        append_rows(values, &shape.to_usizes(), &mut 0, limit, &mut text);
    }
    if count > limit {
        text.push_str("...");
    }
    text
}

fn append_run(values: &Tensor, range: std::ops::Range<usize>, text: &mut String) {
    for position in range.clone() {
        if position > range.start {
            text.push(' ');
        }
        text.push_str(&value_text(values, position));
    }
}

/// Appends what `dims` spans, from element `position` on. A row that the limit cuts ends in an ellipsis.
fn append_rows(
    values: &Tensor,
    dims: &[usize],
    position: &mut usize,
    limit: usize,
    text: &mut String,
) {
    let [size, inner @ ..] = dims else {
        return;
    };
    if inner.is_empty() {
        let end = (*position + size).min(limit);
        append_run(values, *position..end, text);
        if end < *position + size {
            text.push_str("...");
        }
        *position = end;
        return;
    }
    for _ in 0..*size {
        if *position >= limit {
            return;
        }
        text.push('[');
        append_rows(values, inner, position, limit, text);
        text.push(']');
    }
}

/// One element. Types that the reference cannot show are question marks there, too.
fn value_text(tensor: &Tensor, position: usize) -> String {
    let elem = tensor.elems().slice(position..position + 1);
    match tensor.dtype() {
        DType::FLOAT => format_float(elem.typed::<f32>()[0]),
        DType::DOUBLE => format_double(elem.typed::<f64>()[0]),
        DType::HALF => format_float(elem.typed::<Half>()[0].to_f32()),
        DType::BFLOAT16 => format_float(elem.typed::<BFloat16>()[0].to_f32()),
        dtype @ (DType::FLOAT8_E5M2
        | DType::FLOAT8_E4M3FN
        | DType::FLOAT8_E4M3B11FNUZ
        | DType::FLOAT4_E2M1FN) => format_float(small_float(dtype, elem.lanes::<u8>()[0])),
        DType::INT8 => elem.typed::<i8>()[0].to_string(),
        DType::INT16 => elem.typed::<i16>()[0].to_string(),
        DType::INT32 => elem.typed::<i32>()[0].to_string(),
        DType::INT64 => elem.typed::<i64>()[0].to_string(),
        DType::UINT8 => elem.typed::<u8>()[0].to_string(),
        DType::UINT16 => elem.typed::<u16>()[0].to_string(),
        DType::UINT32 => elem.typed::<u32>()[0].to_string(),
        DType::UINT64 => elem.typed::<u64>()[0].to_string(),
        DType::QINT8 => elem.typed::<QInt8>()[0].0.to_string(),
        DType::QUINT8 => elem.typed::<QUInt8>()[0].0.to_string(),
        DType::QINT16 => elem.typed::<QInt16>()[0].0.to_string(),
        DType::QUINT16 => elem.typed::<QUInt16>()[0].0.to_string(),
        DType::INT4 => elem.typed::<Int4>()[0].0.to_string(),
        DType::UINT4 => elem.typed::<UInt4>()[0].0.to_string(),
        DType::INT2 => elem.typed::<Int2>()[0].0.to_string(),
        DType::UINT2 => elem.typed::<UInt2>()[0].0.to_string(),
        DType::BOOL => u8::from(elem.typed::<bool>()[0]).to_string(),
        DType::STRING => escape_bytes(elem.typed::<TString>()[0].as_bytes()),
        DType::RESOURCE => handle_text(&elem.typed::<ResourceHandle>()[0]),
        DType::VARIANT => match &elem.typed::<Variant>()[0].0 {
            Some(value) => format!("<{}>", value.type_name()),
            None => "<[empty]>".to_string(),
        },
        _ => "?".to_string(),
    }
}

fn handle_text(handle: &ResourceHandle) -> String {
    let (name, device, container, type_name) = match &handle.0 {
        Some(key) => (&*key.name, &*key.device, &*key.container, &*key.type_name),
        None => ("", "", "", ""),
    };
    let described: Vec<String> = handle
        .0
        .iter()
        .flat_map(|key| &key.dtypes_and_shapes)
        .map(|(dtype, shape)| format!("DType enum: {}, Shape: {shape}", dtype.to_i32()))
        .collect();
    format!(
        "<ResourceHandle(name=\"{name}\", device=\"{device}\", container=\"{container}\", \
         type=\"{type_name}\", dtype and shapes : \"[ {} ]\")>",
        described.join(",")
    )
}

/// The value of a float of at most 8 bits whose exponent is offset by `bias`.
fn small_float(dtype: DType, code: u8) -> f32 {
    let (exponent_bits, mantissa_bits, bias) = match dtype {
        DType::FLOAT8_E5M2 => (5, 2, 15),
        DType::FLOAT8_E4M3FN => (4, 3, 7),
        DType::FLOAT8_E4M3B11FNUZ => (4, 3, 11),
        _ => (2, 1, 1),
    };
    let sign_bit = 1 << (exponent_bits + mantissa_bits);
    let sign = if code & sign_bit == 0 { 1.0 } else { -1.0 };
    let magnitude = code & (sign_bit - 1);
    match (dtype, magnitude) {
        (DType::FLOAT8_E5M2, 0x7c) => return sign * f32::INFINITY,
        (DType::FLOAT8_E5M2, 0x7d..) | (DType::FLOAT8_E4M3FN, 0x7f) => return f32::NAN,
        (DType::FLOAT8_E4M3B11FNUZ, 0) if code != 0 => return f32::NAN,
        _ => {}
    }
    let exponent = i32::from(magnitude >> mantissa_bits);
    let ones = 1 << mantissa_bits;
    let fraction = f32::from(magnitude & (ones - 1)) / f32::from(ones);
    match exponent {
        0 => sign * fraction * 2f32.powi(1 - bias),
        _ => sign * (1.0 + fraction) * 2f32.powi(exponent - bias),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn message(dtype: i32, dims: &[i64]) -> TensorProto {
        TensorProto { dtype, ..header(DType::FLOAT, &Shape::new(dims).unwrap()) }
    }

    fn ints(dims: &[i64]) -> TensorProto {
        let count = Shape::new(dims).unwrap().count();
        TensorProto { int_val: (0..count as i32).collect(), ..message(3, dims) }
    }

    #[test]
    fn summaries_read_as_the_references() {
        let bytes = |text: &'static [u8]| Bytes::from_static(text);
        let small = |dtype, float8_val| TensorProto { float8_val, ..message(dtype, &[2]) };
        let small_ints = |dtype, values: [i32; 2]| TensorProto {
            int_val: values.to_vec(),
            ..message(dtype, &[2])
        };
        let cases = [
            (
                TensorProto { float_val: vec![1.0, 2.5], ..message(1, &[2]) },
                "float shape: [2] values: 1 2.5",
            ),
            (
                TensorProto {
                    double_val: vec![1.123456789, 1e300, f64::INFINITY],
                    ..message(2, &[3])
                },
                "double shape: [3] values: 1.123456789 1e+300 inf",
            ),
            (
                TensorProto { half_val: vec![0x3c00, 0x3555], ..message(19, &[2]) },
                "half shape: [2] values: 1 0.333251953",
            ),
            (ints(&[3]), "int32 shape: [3] values: 0 1 2"),
            (ints(&[20]), "int32 shape: [20] values: 0 1 2..."),
            (ints(&[2, 2]), "int32 shape: [2,2] values: [0 1][2...]..."),
            (ints(&[4, 5]), "int32 shape: [4,5] values: [0 1 2...]..."),
            (ints(&[2, 2, 2]), "int32 shape: [2,2,2] values: [[0 1][2...]]..."),
            (ints(&[2, 3, 3]), "int32 shape: [2,3,3] values: [[0 1 2]]..."),
            (ints(&[0]), "int32 shape: [0] values: "),
            (ints(&[2, 0]), "int32 shape: [2,0] values: "),
            (TensorProto { int_val: vec![5], ..message(3, &[]) }, "int32 shape: [] values: 5"),
            (
                TensorProto { int_val: vec![7], ..message(3, &[300]) },
                "int32 shape: [300] values: 7 7 7...",
            ),
            (
                TensorProto { bool_val: vec![true, false], ..message(10, &[2]) },
                "bool shape: [2] values: 1 0",
            ),
            (
                TensorProto {
                    string_val: vec![bytes(b"a\"\x01"), bytes(b"b")],
                    ..message(7, &[2])
                },
                "string shape: [2] values: a\\\"\\001 b",
            ),
            (
                TensorProto { tensor_content: bytes(b"\x01\x00\x01\x00xy"), ..message(7, &[4]) },
                "string shape: [4] values: x  y...",
            ),
            (message(8, &[2]), "complex64 shape: [2] values: ? ?"),
            (small_ints(11, [1, -2]), "qint8 shape: [2] values: 1 -2"),
            (small_ints(29, [1, -2]), "int4 shape: [2] values: 1 -2"),
            (small(24, bytes(b"\x3c\x01")), "float8_e5m2 shape: [2] values: 1 1.52587891e-05"),
            (small(25, bytes(b"\x38\x01")), "float8_e4m3fn shape: [2] values: 1 0.001953125"),
            (small(27, bytes(b"\x38\x80")), "float8_e4m3b11fnuz shape: [2] values: 0.0625 nan"),
            (small(33, bytes(b"\x01\x02")), "float4_e2m1fn shape: [2] values: 0.5 1"),
            (message(21, &[1]), "variant shape: [1] values: <[empty]>"),
            (
                message(20, &[1]),
                "resource shape: [1] values: <ResourceHandle(name=\"\", device=\"\", \
                 container=\"\", type=\"\", dtype and shapes : \"[  ]\")>",
            ),
        ];
        for (message, text) in cases {
            let summary = TensorAttr::from_proto(message).summary();
            assert_eq!(summary, format!("Tensor<type: {text}>"));
        }
    }

    #[test]
    fn messages_that_are_no_tensors_wait_for_their_use() {
        let short = TensorProto { tensor_content: Bytes::from_static(b"123"), ..message(1, &[2]) };
        let attr = TensorAttr::from_proto(short.clone());
        assert_eq!(attr.to_proto(), short);
        assert!(attr.tensor().is_err());
        assert_eq!(
            attr.summary(),
            "<Invalid TensorProto: dtype: DT_FLOAT tensor_shape { dim { size: 2 } } \
             tensor_content: \"123\">"
        );
        for dtype in [0, 77] {
            assert!(TensorAttr::from_proto(message(dtype, &[1])).dtype().is_err());
        }
        let mut unknown = message(1, &[2]);
        unknown.tensor_shape.as_mut().unwrap().dim[0].size = -1;
        let attr = TensorAttr::from_proto(unknown);
        assert_eq!(attr.shape().unwrap_err().message(), "Shape [?] is not fully defined");
        assert_eq!(
            attr.summary(),
            "<TensorProto: dtype: DT_FLOAT tensor_shape { dim { size: -1 } }>"
        );
    }

    #[test]
    fn a_splat_is_not_expanded_unless_asked_for() {
        let splat = TensorProto { float_val: vec![1.0], ..message(1, &[1 << 40]) };
        let attr = TensorAttr::from_proto(splat.clone());
        assert_eq!(attr.summary(), "Tensor<type: float shape: [1099511627776] values: 1 1 1...>");
        assert_eq!(attr.shape().unwrap().count(), 1 << 40);
        assert!(attr == TensorAttr::from_proto(splat));
        assert!(attr != TensorAttr::from_proto(message(1, &[1 << 40])));
    }

    #[test]
    fn messages_come_out_as_they_went_in() {
        let content = Bytes::from_static(&[1, 0, 0, 0, 2, 0, 0, 0]);
        let packed = TensorProto { tensor_content: content.clone(), ..message(3, &[2]) };
        let cases = [
            packed.clone(),
            TensorProto { version_number: 1, ..packed.clone() },
            TensorProto { int_val: vec![7], ..packed.clone() },
            TensorProto { int_val: vec![7], ..message(3, &[]) },
            TensorProto { int_val: vec![7, 8], ..message(3, &[]) },
            TensorProto { tensor_content: content.slice(..4), ..message(3, &[1]) },
            TensorProto { int_val: vec![-3], ..message(6, &[1]) },
            TensorProto { tensor_shape: None, int_val: vec![7], ..message(3, &[]) },
            message(3, &[]),
            ints(&[5]),
        ];
        for message in cases {
            assert_eq!(TensorAttr::from_proto(message.clone()).to_proto(), message);
        }
        let attr = TensorAttr::from_proto(packed);
        assert!(matches!(attr.0, Form::Tensor(_)));
        assert!(attr == TensorAttr::from(Tensor::from_slice(Shape::vector(2), &[1, 2]).unwrap()));
        let listed = TensorProto { int_val: vec![1, 2], ..message(3, &[2]) };
        assert!(attr == TensorAttr::from_proto(listed));
    }
}
