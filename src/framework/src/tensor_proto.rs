//! Tensors as messages.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use tfcore_base::{
    BFloat16, Code, Complex64, Complex128, DType, Elem, Error, Half, Result, escape_bytes, invalid,
    unimplemented_error,
};
use tfcore_proto::{ResourceHandleProto, TensorProto, resource_handle_proto};
use tfcore_tensor::{HandleKey, ResourceHandle, Shape, TString, Tensor};

use crate::shape_proto::{full_shape_from_proto, shape_from_proto, shape_to_proto};

/// The tensor that a message describes.
///
/// Values stand in `tensor_content`, which is taken over without a copy where it is aligned, or in the
/// field of the dtype. There the last value repeats, no values are zeros, and surplus ones are ignored.
///
/// # Errors
/// `InvalidArgument` "Cannot parse tensor from proto: ..." if the message describes no tensor, or one
/// that the memory cannot hold; `Unimplemented` for variants that are not empty.
pub fn tensor_from_proto(message: &TensorProto) -> Result<Tensor> {
    let shape = shape_of(message).map_err(|error| unparsable(message, error))?;
    parse(message, shape, None).map_err(|error| unparsable(message, error))
}

/// The first `limit` elements of the tensor that a message describes, as a vector. The size of the tensor
/// itself does not matter.
///
/// # Errors
/// As [`tensor_from_proto`].
pub(crate) fn head_from_proto(message: &TensorProto, limit: usize) -> Result<Tensor> {
    let shape = shape_of(message).map_err(|error| unparsable(message, error))?;
    parse(message, shape, Some(limit)).map_err(|error| unparsable(message, error))
}

/// The dtype that a message declares.
///
/// # Errors
/// `InvalidArgument` "Cannot parse tensor from proto: ..." if there is none of that number.
pub(crate) fn dtype_of(message: &TensorProto) -> Result<DType> {
    DType::from_i32(message.dtype)
        .filter(|dtype| !dtype.is_ref())
        .ok_or_else(|| unparsable(message, invalid!("unknown dtype {}", message.dtype)))
}

/// The shape that a message declares; a message without one describes a scalar.
///
/// # Errors
/// `InvalidArgument` for what is not the shape of a tensor.
pub(crate) fn shape_of(message: &TensorProto) -> Result<Shape> {
    message.tensor_shape.as_ref().map_or_else(|| Ok(Shape::scalar()), full_shape_from_proto)
}

/// Type, shape and content of a message, for other messages.
pub(crate) fn describe(message: &TensorProto) -> String {
    let mut text = match DType::from_i32(message.dtype) {
        Some(dtype) => format!("dtype: {}", dtype.enum_name()),
        None => format!("dtype: {}", message.dtype),
    };
    if let Some(shape) = &message.tensor_shape {
        let unknown = if shape.unknown_rank { "unknown_rank: true " } else { "" };
        let dims: Vec<String> =
            shape.dim.iter().map(|dim| format!("dim {{ size: {} }} ", dim.size)).collect();
        text.push_str(&format!(" tensor_shape {{ {}{unknown}}}", dims.concat()));
    }
    let content = &message.tensor_content;
    if !content.is_empty() {
        let head = escape_bytes(&content[..content.len().min(64)]);
        let dots = if content.len() > 64 { "..." } else { "" };
        text.push_str(&format!(" tensor_content: \"{head}{dots}\""));
    }
    text
}

fn unparsable(message: &TensorProto, error: Error) -> Error {
    match error.code() {
        Code::Unimplemented => error,
        _ => invalid!("Cannot parse tensor from proto: {} ({error})", describe(message)),
    }
}

fn parse(message: &TensorProto, shape: Shape, limit: Option<usize>) -> Result<Tensor> {
    let dtype = dtype_of(message)?;
    let count = shape.count();
    let shape = match limit {
        Some(limit) => Shape::vector(count.min(limit)),
        None => shape,
    };
    if message.tensor_content.is_empty() || count == 0 {
        from_values(message, dtype, shape)
    } else {
        from_content(&message.tensor_content, count, dtype, shape)
    }
}

/// Elements from the packed bytes of `count` elements, of which `shape` may take only the first.
fn from_content(content: &Bytes, count: usize, dtype: DType, shape: Shape) -> Result<Tensor> {
    match dtype {
        DType::STRING => {
            return fill(shape, &split_strings(content, count)?, |&text| TString::from(text));
        }
        DType::RESOURCE | DType::VARIANT => {
            return Err(unimplemented_error!("A tensor_content of type {dtype}"));
        }
        _ => {}
    }
    if count.checked_mul(dtype.size()) != Some(content.len()) {
        return Err(invalid!(
            "{} bytes of tensor_content for {count} elements of type {dtype}",
            content.len()
        ));
    }
    if dtype == DType::BOOL && content.iter().any(|&byte| byte > 1) {
        return Err(invalid!("tensor_content with a bool that is neither 0 nor 1"));
    }
    let len = shape.count() * dtype.size();
    Tensor::from_bytes(dtype, shape, content.slice(..len))
}

/// Strings as `tensor_content` packs them: all lengths as varints, then all bytes.
fn split_strings(content: &[u8], count: usize) -> Result<Vec<&[u8]>> {
    let bad = || invalid!("tensor_content that does not hold {count} strings");
    // Every length takes a byte at least, so that the memory for them is bounded by the content's.
    if count > content.len() {
        return Err(bad());
    }
    let mut rest = content;
    let mut lengths = Vec::with_capacity(count);
    for _ in 0..count {
        lengths.push(usize::try_from(varint(&mut rest).ok_or_else(bad)?).map_err(|_| bad())?);
    }
    let mut strings = Vec::with_capacity(count);
    for len in lengths {
        let (text, tail) = rest.split_at_checked(len).ok_or_else(bad)?;
        strings.push(text);
        rest = tail;
    }
    if rest.is_empty() { Ok(strings) } else { Err(bad()) }
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = rest.try_get_u8().ok()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn from_values(message: &TensorProto, dtype: DType, shape: Shape) -> Result<Tensor> {
    let ints = &message.int_val;
    match dtype {
        DType::FLOAT => fill(shape, &message.float_val, |&v| v),
        DType::DOUBLE => fill(shape, &message.double_val, |&v| v),
        DType::INT64 => fill(shape, &message.int64_val, |&v| v),
        DType::UINT32 => fill(shape, &message.uint32_val, |&v| v),
        DType::UINT64 => fill(shape, &message.uint64_val, |&v| v),
        DType::BOOL => fill(shape, &message.bool_val, |&v| v),
        DType::HALF => fill(shape, &message.half_val, |&v| Half::from_bits(v as u16)),
        DType::BFLOAT16 => fill(shape, &message.half_val, |&v| BFloat16::from_bits(v as u16)),
        DType::COMPLEX64 => {
            let pairs = message.scomplex_val.as_chunks::<2>().0;
            fill(shape, pairs, |&[re, im]| Complex64::new(re, im))
        }
        DType::COMPLEX128 => {
            let pairs = message.dcomplex_val.as_chunks::<2>().0;
            fill(shape, pairs, |&[re, im]| Complex128::new(re, im))
        }
        DType::STRING => fill(shape, &message.string_val, |text| TString::from(&text[..])),
        DType::RESOURCE => fill(shape, &message.resource_handle_val, handle_from_proto),
        DType::VARIANT => match message.variant_val.first() {
            None => Tensor::zeros(DType::VARIANT, shape),
            Some(value) => Err(unimplemented_error!(
                "A variant of type '{}' in a TensorProto",
                value.type_name
            )),
        },
        DType::FLOAT8_E5M2
        | DType::FLOAT8_E4M3FN
        | DType::FLOAT8_E4M3FNUZ
        | DType::FLOAT8_E4M3B11FNUZ
        | DType::FLOAT8_E5M2FNUZ
        | DType::FLOAT4_E2M1FN => {
            fill(shape.clone(), &message.float8_val, |&v| v)?.bitcast(dtype, shape)
        }
        // Small integers and quantized types share `int_val` and are cut to their width.
        _ => match dtype.size() {
            1 => fill(shape.clone(), ints, |&v| v as u8)?.bitcast(dtype, shape),
            2 => fill(shape.clone(), ints, |&v| v as u16)?.bitcast(dtype, shape),
            _ => fill(shape.clone(), ints, |&v| v)?.bitcast(dtype, shape),
        },
    }
}

/// As many values as the shape has elements; the last one repeats.
fn fill<P, T: Elem>(shape: Shape, values: &[P], convert: impl Fn(&P) -> T) -> Result<Tensor> {
    let mut tensor = Tensor::zeros(T::DTYPE, shape)?;
    let out = tensor.as_mut_slice::<T>()?;
    let (head, rest) = out.split_at_mut(values.len().min(out.len()));
    for (out, value) in head.iter_mut().zip(values) {
        *out = convert(value);
    }
    if let Some(last) = values.last() {
        rest.fill(convert(last));
    }
    Ok(tensor)
}

fn handle_from_proto(message: &ResourceHandleProto) -> ResourceHandle {
    let mut dtypes_and_shapes = Vec::new();
    for item in &message.dtypes_and_shapes {
        let shape = item.shape.as_ref().and_then(|shape| shape_from_proto(shape).ok());
        if let Some(dtype) = DType::from_i32(item.dtype) {
            dtypes_and_shapes.push((dtype, shape.unwrap_or_default()));
        }
    }
    ResourceHandle(Some(Arc::new(HandleKey {
        device: message.device.clone(),
        container: message.container.clone(),
        name: message.name.clone(),
        type_name: message.maybe_type_name.clone(),
        dtypes_and_shapes,
        resource: None,
    })))
}

fn handle_to_proto(handle: &ResourceHandle) -> ResourceHandleProto {
    let Some(key) = &handle.0 else {
        return ResourceHandleProto::default();
    };
    let to_proto = |(dtype, shape): &(DType, _)| resource_handle_proto::DtypeAndShape {
        dtype: dtype.to_i32(),
        shape: Some(shape_to_proto(shape)),
    };
    ResourceHandleProto {
        device: key.device.clone(),
        container: key.container.clone(),
        name: key.name.clone(),
        hash_code: 0,
        maybe_type_name: key.type_name.clone(),
        dtypes_and_shapes: key.dtypes_and_shapes.iter().map(to_proto).collect(),
    }
}

/// A message with a type and a shape, but no values.
pub(crate) fn header(dtype: DType, shape: &Shape) -> TensorProto {
    TensorProto {
        dtype: dtype.to_i32(),
        tensor_shape: Some(shape_to_proto(&shape.into())),
        ..Default::default()
    }
}

/// The message that describes a tensor: a single element in the field of its type, more of them packed.
/// The values of variants have no message and are left out.
pub fn tensor_to_proto(tensor: &Tensor) -> TensorProto {
    let mut message = header(tensor.dtype(), tensor.shape());
    match tensor.dtype() {
        DType::STRING => {
            let strings = tensor.elems().typed::<TString>();
            message.string_val =
                strings.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
        }
        DType::RESOURCE => {
            let handles = tensor.elems().typed::<ResourceHandle>();
            message.resource_handle_val = handles.iter().map(handle_to_proto).collect();
        }
        DType::VARIANT => {}
        _ if tensor.count() > 1 => {
            message.tensor_content = Bytes::copy_from_slice(tensor.elems().bytes());
        }
        _ => set_values(&mut message, tensor),
    }
    message
}

/// The elements of a tensor in the field of their type, without dtype and shape.
pub fn values_to_proto(tensor: &Tensor) -> TensorProto {
    if !tensor.dtype().is_plain() {
        return TensorProto { dtype: 0, tensor_shape: None, ..tensor_to_proto(tensor) };
    }
    let mut message = TensorProto::default();
    set_values(&mut message, tensor);
    message
}

/// Writes the elements of a plain tensor into the field of their type.
fn set_values(message: &mut TensorProto, tensor: &Tensor) {
    let elems = tensor.elems();
    match tensor.dtype() {
        DType::FLOAT => message.float_val = elems.typed().to_vec(),
        DType::DOUBLE => message.double_val = elems.typed().to_vec(),
        DType::INT64 => message.int64_val = elems.typed().to_vec(),
        DType::UINT32 => message.uint32_val = elems.typed().to_vec(),
        DType::UINT64 => message.uint64_val = elems.typed().to_vec(),
        DType::BOOL => message.bool_val = elems.typed().to_vec(),
        DType::HALF | DType::BFLOAT16 => {
            message.half_val = elems.lanes::<u16>().iter().map(|&bits| bits.into()).collect();
        }
        DType::COMPLEX64 => {
            let values = elems.typed::<Complex64>();
            message.scomplex_val = values.iter().flat_map(|value| [value.re, value.im]).collect();
        }
        DType::COMPLEX128 => {
            let values = elems.typed::<Complex128>();
            message.dcomplex_val = values.iter().flat_map(|value| [value.re, value.im]).collect();
        }
        DType::FLOAT8_E5M2
        | DType::FLOAT8_E4M3FN
        | DType::FLOAT8_E4M3FNUZ
        | DType::FLOAT8_E4M3B11FNUZ
        | DType::FLOAT8_E5M2FNUZ
        | DType::FLOAT4_E2M1FN => message.float8_val = Bytes::copy_from_slice(elems.bytes()),
        DType::UINT8 | DType::QUINT8 | DType::UINT4 | DType::UINT2 => {
            message.int_val = elems.lanes::<u8>().iter().map(|&value| value.into()).collect();
        }
        DType::UINT16 | DType::QUINT16 => {
            message.int_val = elems.lanes::<u16>().iter().map(|&value| value.into()).collect();
        }
        dtype => {
            let bytes = elems.bytes().chunks_exact(dtype.size());
            message.int_val = bytes.map(|mut bytes| bytes.get_int_le(bytes.len()) as i32).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(dtype: DType, dims: &[i64]) -> TensorProto {
        header(dtype, &Shape::new(dims).unwrap())
    }

    #[test]
    fn the_last_value_repeats_and_surplus_values_are_ignored() {
        let cases: [(&[f32], &[f32]); 4] = [
            (&[], &[0.0, 0.0, 0.0]),
            (&[1.0, 2.0], &[1.0, 2.0, 2.0]),
            (&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]),
            (&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0]),
        ];
        for (values, expected) in cases {
            let float_val = values.to_vec();
            let message = TensorProto { float_val, ..message(DType::FLOAT, &[3]) };
            let tensor = tensor_from_proto(&message).unwrap();
            assert_eq!(tensor.as_slice::<f32>().unwrap(), expected);
        }
    }

    #[test]
    fn every_dtype_has_its_field() {
        let ints = |dtype, int_val: &[i32]| TensorProto {
            int_val: int_val.to_vec(),
            ..message(dtype, &[3])
        };
        let halves =
            |dtype| TensorProto { half_val: vec![0x13c00, 0x4000], ..message(dtype, &[3]) };
        let float8s = |dtype| TensorProto {
            float8_val: Bytes::from_static(b"ab"),
            int_val: vec![1],
            ..message(dtype, &[3])
        };
        let complex =
            TensorProto { scomplex_val: vec![1.0, 2.0, 3.0], ..message(DType::COMPLEX64, &[2]) };
        let cases: [(TensorProto, &[u8]); 14] = [
            (ints(DType::INT8, &[300, -300]), &[0x2c, 0xd4, 0xd4]),
            (ints(DType::INT4, &[100, -8]), &[100, 0xf8, 0xf8]),
            (ints(DType::UINT4, &[7, 15]), &[7, 15, 15]),
            (ints(DType::INT2, &[1, -2]), &[1, 0xfe, 0xfe]),
            (ints(DType::QINT16, &[70000]), &[0x70, 0x11, 0x70, 0x11, 0x70, 0x11]),
            (ints(DType::QINT32, &[97]), &[97, 0, 0, 0, 97, 0, 0, 0, 97, 0, 0, 0]),
            (ints(DType::UINT32, &[97]), &[0; 12]),
            (ints(DType::FLOAT8_E5M2, &[97]), &[0; 3]),
            (float8s(DType::FLOAT8_E4M3B11FNUZ), b"abb"),
            (float8s(DType::FLOAT4_E2M1FN), b"abb"),
            (float8s(DType::INT4), &[1; 3]),
            (halves(DType::HALF), &[0, 0x3c, 0, 0x40, 0, 0x40]),
            (halves(DType::BFLOAT16), &[0, 0x3c, 0, 0x40, 0, 0x40]),
            (complex, &[0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40]),
        ];
        for (message, bytes) in cases {
            assert_eq!(tensor_from_proto(&message).unwrap().elems().bytes(), bytes, "{message:?}");
        }
    }

    #[test]
    fn strings_may_be_packed() {
        let packed = |content: &'static [u8]| TensorProto {
            tensor_content: Bytes::from_static(content),
            ..message(DType::STRING, &[3])
        };
        let tensor = tensor_from_proto(&packed(b"\x01\x00\x02abc")).unwrap();
        let strings: Vec<&[u8]> =
            tensor.elems().typed::<TString>().iter().map(TString::as_bytes).collect();
        assert_eq!(strings, [&b"a"[..], b"", b"bc"]);
        for content in [
            &b"\x01\x00\x01abz"[..],
            b"\x01\x00\x02a",
            b"\x01",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00",
            b"\x80\x80\x80",
        ] {
            assert!(tensor_from_proto(&packed(content)).is_err(), "{content:?}");
        }
    }

    #[test]
    fn hostile_messages_are_errors() {
        let float = |dims: &[i64]| message(DType::FLOAT, dims);
        let unknown = tfcore_tensor::PartialShape::from_i64s(&[-1]).unwrap();
        let content = |bytes: &'static [u8]| Bytes::from_static(bytes);
        let cases = [
            TensorProto { dtype: 0, ..Default::default() },
            TensorProto { dtype: 99, ..Default::default() },
            TensorProto { dtype: 101, ..Default::default() },
            TensorProto { tensor_shape: Some(shape_to_proto(&unknown)), ..float(&[]) },
            TensorProto { float_val: vec![1.0], ..float(&[1 << 60]) },
            TensorProto { string_val: vec![], ..message(DType::STRING, &[1 << 60]) },
            TensorProto { tensor_content: content(&[0; 7]), ..float(&[2]) },
            TensorProto { tensor_content: content(&[0; 8]), ..float(&[1 << 62]) },
            TensorProto { tensor_content: content(&[0]), ..message(DType::STRING, &[1 << 60]) },
            TensorProto { tensor_content: content(&[1, 2]), ..message(DType::BOOL, &[2]) },
        ];
        for message in cases {
            let error = tensor_from_proto(&message).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument, "{error}");
            assert!(error.message().starts_with("Cannot parse tensor from proto: "), "{error}");
        }
    }

    /// Whatever a message says, it is an error or a tensor of the size that it has.
    #[test]
    fn damaged_messages_never_panic() {
        let message = TensorProto {
            tensor_content: vec![1; 4].into(),
            int_val: vec![3, 4],
            half_val: vec![5],
            string_val: vec!["text".into()],
            bool_val: vec![true],
            ..message(DType::INT16, &[2, 1])
        };
        let bytes = prost::Message::encode_to_vec(&message);
        let (mut state, mut tensors) = (1u64, 0);
        let mut below = |limit: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % limit
        };
        for _ in 0..20_000 {
            let mut bytes = bytes.clone();
            for _ in 0..=below(3) {
                let at = below(bytes.len());
                // Small numbers are dtypes, tags, sizes and lengths.
                bytes[at] = below(if at % 2 == 0 { 32 } else { 256 }) as u8;
            }
            let Ok(message) = tfcore_proto::decode::<TensorProto>(&bytes) else {
                continue;
            };
            // A value may be spread over a shape of gigabytes.
            let size = |dim: &tfcore_proto::tensor_shape_proto::Dim| dim.size > 1 << 10;
            if message.tensor_shape.iter().flat_map(|shape| &shape.dim).any(size) {
                continue;
            }
            if let Ok(tensor) = tensor_from_proto(&message) {
                tensors += 1;
                assert_eq!(tensor.dtype().to_i32(), message.dtype);
                assert_eq!(tensor.elems().len(), tensor.shape().count());
            }
        }
        assert!(tensors > 100, "{tensors}");
    }

    #[test]
    fn variants_are_empty_or_refused() {
        let empty = message(DType::VARIANT, &[2]);
        assert_eq!(tensor_from_proto(&empty).unwrap().count(), 2);
        let value = tfcore_proto::VariantTensorDataProto {
            type_name: "tensorflow::TensorList".to_string(),
            ..Default::default()
        };
        let error =
            tensor_from_proto(&TensorProto { variant_val: vec![value], ..empty }).unwrap_err();
        assert_eq!(error.code(), Code::Unimplemented);
        assert!(error.message().contains("tensorflow::TensorList"));
    }

    #[test]
    fn every_plain_dtype_survives_a_round_trip() {
        for &dtype in DType::ALL.iter().filter(|dtype| dtype.is_plain()) {
            for count in [0, 1, 3] {
                let high = if dtype == DType::BOOL { 1 } else { 0xff };
                let bytes: Vec<u8> = (0..count * dtype.size()).map(|_| high).collect();
                let tensor = Tensor::from_bytes(dtype, Shape::vector(count), bytes.into()).unwrap();
                let message = tensor_to_proto(&tensor);
                assert_eq!(message.tensor_content.is_empty(), count < 2, "{dtype}");
                let back = tensor_from_proto(&message).unwrap();
                assert_eq!(back.elems().bytes(), tensor.elems().bytes(), "{dtype}");
                assert_eq!((back.dtype(), back.shape()), (dtype, tensor.shape()));
            }
        }
    }

    #[test]
    fn handles_survive_a_round_trip() {
        let handle = ResourceHandleProto {
            container: "localhost".to_string(),
            name: "v".to_string(),
            dtypes_and_shapes: vec![resource_handle_proto::DtypeAndShape {
                dtype: 1,
                shape: Some(shape_to_proto(&tfcore_tensor::PartialShape::vector(2))),
            }],
            ..Default::default()
        };
        let message =
            TensorProto { resource_handle_val: vec![handle], ..message(DType::RESOURCE, &[1]) };
        assert_eq!(tensor_to_proto(&tensor_from_proto(&message).unwrap()), message);
    }
}
