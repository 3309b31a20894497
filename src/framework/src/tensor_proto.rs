//! Tensors as messages.

use bytes::Bytes;
use tfcore_base::{
    BFloat16, Complex64, Complex128, DType, Elem, Half, Result, invalid, unimplemented_error,
};
use tfcore_proto::{ResourceHandleProto, TensorProto, resource_handle_proto};
use tfcore_tensor::{HandleKey, ResourceHandle, Shape, TString, Tensor};

use crate::convert::{shape_from_proto, shape_to_proto};

/// The tensor that a message describes.
///
/// Values stand in `tensor_content`, which is taken over without a copy where it is aligned, or in the
/// field of the dtype, whose last value repeats.
///
/// # Errors
/// `InvalidArgument` "Cannot parse tensor from proto: ..." if it describes none, `ResourceExhausted` if
/// there is no memory for it.
pub fn tensor_from_proto(message: &TensorProto) -> Result<Tensor> {
    let bad = |what: &str| invalid!("Cannot parse tensor from proto: {what}");
    let dtype = DType::from_i32(message.dtype)
        .filter(|dtype| !dtype.is_ref())
        .ok_or_else(|| bad(&format!("unknown dtype {}", message.dtype)))?;
    let shape = match &message.tensor_shape {
        Some(shape) => shape_from_proto(shape)?,
        None => tfcore_tensor::PartialShape::scalar(),
    };
    let shape = shape.to_shape().ok_or_else(|| bad("the shape is not fully defined"))?;
    if !message.tensor_content.is_empty() && dtype.is_plain() {
        let expected = shape.count().checked_mul(dtype.size());
        if expected != Some(message.tensor_content.len()) {
            return Err(bad(&format!(
                "{} bytes of tensor_content for shape {shape} of type {dtype}",
                message.tensor_content.len()
            )));
        }
        return Tensor::from_bytes(dtype, shape, message.tensor_content.clone());
    }
    from_values(message, dtype, shape)
}

fn from_values(message: &TensorProto, dtype: DType, shape: Shape) -> Result<Tensor> {
    let ints = &message.int_val;
    match dtype {
        DType::FLOAT => fill(shape, &message.float_val, |&v| v),
        DType::DOUBLE => fill(shape, &message.double_val, |&v| v),
        DType::INT32 => fill(shape, ints, |&v| v),
        DType::INT16 => fill(shape, ints, |&v| v as i16),
        DType::INT8 => fill(shape, ints, |&v| v as i8),
        DType::UINT16 => fill(shape, ints, |&v| v as u16),
        DType::UINT8 => fill(shape, ints, |&v| v as u8),
        DType::INT64 => fill(shape, &message.int64_val, |&v| v),
        DType::UINT32 => fill(shape, &message.uint32_val, |&v| v),
        DType::UINT64 => fill(shape, &message.uint64_val, |&v| v),
        DType::BOOL => fill(shape, &message.bool_val, |&v| v),
        DType::HALF => fill(shape, &message.half_val, |&v| Half::from_bits(v as u16)),
        DType::BFLOAT16 => fill(shape, &message.half_val, |&v| BFloat16::from_bits(v as u16)),
        DType::COMPLEX64 => {
            let pairs: Vec<Complex64> =
                message.scomplex_val.chunks_exact(2).map(|p| Complex64::new(p[0], p[1])).collect();
            fill(shape, &pairs, |&v| v)
        }
        DType::COMPLEX128 => {
            let pairs: Vec<Complex128> =
                message.dcomplex_val.chunks_exact(2).map(|p| Complex128::new(p[0], p[1])).collect();
            fill(shape, &pairs, |&v| v)
        }
        DType::STRING => fill(shape, &message.string_val, |v| TString::from(&v[..])),
        DType::RESOURCE => fill(shape, &message.resource_handle_val, handle_from_proto),
        DType::VARIANT => Err(unimplemented_error!("Tensors of type variant in a TensorProto")),
        _ if dtype.size() == 1 => {
            let bytes: Vec<u8> = match message.float8_val.is_empty() {
                false => message.float8_val.to_vec(),
                true => ints.iter().map(|&v| v as u8).collect(),
            };
            fill(shape.clone(), &bytes, |&v| v)?.bitcast(dtype, shape)
        }
        _ if dtype.size() == 2 => fill(shape.clone(), ints, |&v| v as u16)?.bitcast(dtype, shape),
        _ => fill(shape.clone(), ints, |&v| v)?.bitcast(dtype, shape),
    }
}

/// The values, of which the last one repeats; no values are zeros.
fn fill<P, T: Elem>(shape: Shape, values: &[P], convert: impl Fn(&P) -> T) -> Result<Tensor> {
    if values.len() > shape.count() {
        return Err(invalid!(
            "Cannot parse tensor from proto: {} values for shape {shape}",
            values.len()
        ));
    }
    let mut tensor = Tensor::zeros(T::DTYPE, shape)?;
    let out = tensor.as_mut_slice::<T>()?;
    for (out, value) in out.iter_mut().zip(values) {
        *out = convert(value);
    }
    if let Some(last) = values.last() {
        let (_, rest) = out.split_at_mut(values.len());
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
    ResourceHandle(Some(std::sync::Arc::new(HandleKey {
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
    ResourceHandleProto {
        device: key.device.clone(),
        container: key.container.clone(),
        name: key.name.clone(),
        hash_code: 0,
        maybe_type_name: key.type_name.clone(),
        dtypes_and_shapes: key
            .dtypes_and_shapes
            .iter()
            .map(|(dtype, shape)| resource_handle_proto::DtypeAndShape {
                dtype: dtype.to_i32(),
                shape: Some(shape_to_proto(shape)),
            })
            .collect(),
    }
}

/// The message that describes a tensor. Variants have no message of their own and are left out.
pub fn tensor_to_proto(tensor: &Tensor) -> TensorProto {
    let mut message = TensorProto {
        dtype: tensor.dtype().to_i32(),
        tensor_shape: Some(shape_to_proto(&tensor.shape().into())),
        ..Default::default()
    };
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
        _ => message.tensor_content = Bytes::copy_from_slice(tensor.elems().bytes()),
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dims: &[i64]) -> Option<tfcore_proto::TensorShapeProto> {
        Some(shape_to_proto(&tfcore_tensor::PartialShape::from_i64s(dims).unwrap()))
    }

    #[test]
    fn the_last_value_repeats() {
        let message = TensorProto {
            dtype: DType::FLOAT.to_i32(),
            tensor_shape: shape(&[4]),
            float_val: vec![1.0, 2.0],
            ..Default::default()
        };
        let tensor = tensor_from_proto(&message).unwrap();
        assert_eq!(tensor.as_slice::<f32>().unwrap(), [1.0, 2.0, 2.0, 2.0]);
    }

    #[test]
    fn hostile_messages_are_errors() {
        let float = DType::FLOAT.to_i32();
        let cases = [
            TensorProto { dtype: 99, ..Default::default() },
            TensorProto { dtype: 101, ..Default::default() },
            TensorProto {
                dtype: float,
                tensor_shape: shape(&[1]),
                float_val: vec![0.0; 2],
                ..Default::default()
            },
            TensorProto { dtype: float, tensor_shape: shape(&[-1]), ..Default::default() },
            TensorProto {
                dtype: float,
                tensor_shape: shape(&[1 << 60]),
                float_val: vec![0.0],
                ..Default::default()
            },
            TensorProto {
                dtype: float,
                tensor_shape: shape(&[2]),
                tensor_content: vec![0; 7].into(),
                ..Default::default()
            },
        ];
        for message in cases {
            assert!(tensor_from_proto(&message).is_err(), "{message:?}");
        }
    }

    #[test]
    fn every_plain_dtype_survives_a_round_trip() {
        for &dtype in DType::ALL.iter().filter(|dtype| dtype.is_plain()) {
            let bytes: Vec<u8> = (0..3 * dtype.size()).map(|byte| byte as u8 & 1).collect();
            let tensor = Tensor::from_bytes(dtype, Shape::vector(3), bytes.into()).unwrap();
            let back = tensor_from_proto(&tensor_to_proto(&tensor)).unwrap();
            assert_eq!(back.elems().bytes(), tensor.elems().bytes(), "{dtype}");
            assert_eq!((back.dtype(), back.shape()), (dtype, tensor.shape()));
        }
    }
}
