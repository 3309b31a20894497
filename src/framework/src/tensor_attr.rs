//! `TensorAttr`: a tensor as the value of an attribute.

use std::fmt;
use std::sync::OnceLock;

use tfcore_base::{DType, Result, invalid};
use tfcore_proto::{Message, TensorProto};
use tfcore_tensor::{PartialShape, Tensor};

use crate::attr::format_float;
use crate::convert::shape_from_proto;
use crate::tensor_proto::{tensor_from_proto, tensor_to_proto};

/// A tensor kept as it came: as a message or as a tensor. A message is only turned into a tensor when
/// somebody asks for the values, because a few bytes of it can stand for a tensor of any size.
pub struct TensorAttr {
    dtype: DType,
    shape: PartialShape,
    message: Option<TensorProto>,
    tensor: OnceLock<Result<Tensor>>,
}

impl TensorAttr {
    /// # Errors
    /// `InvalidArgument` for an unknown dtype or an impossible shape.
    pub fn from_proto(message: TensorProto) -> Result<TensorAttr> {
        let dtype = DType::from_i32(message.dtype).ok_or_else(|| {
            invalid!("Cannot parse tensor from proto: unknown dtype {}", message.dtype)
        })?;
        let shape = match &message.tensor_shape {
            Some(shape) => shape_from_proto(shape)?,
            None => PartialShape::scalar(),
        };
        Ok(TensorAttr { dtype, shape, message: Some(message), tensor: OnceLock::new() })
    }

    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The declared shape.
    pub fn shape(&self) -> &PartialShape {
        &self.shape
    }

    /// The tensor itself.
    ///
    /// # Errors
    /// `InvalidArgument` "Cannot parse tensor from proto: ..." for a message that is no tensor.
    pub fn tensor(&self) -> Result<Tensor> {
        let convert = || {
            let message = self.message.as_ref().expect("there is a message or a tensor");
            tensor_from_proto(message)
        };
        self.tensor.get_or_init(convert).clone()
    }

    pub fn to_proto(&self) -> TensorProto {
        match (&self.message, self.tensor.get()) {
            (Some(message), _) => message.clone(),
            (None, Some(Ok(tensor))) => tensor_to_proto(tensor),
            _ => TensorProto::default(),
        }
    }

    /// As messages show it: `Tensor<type: float shape: [2] values: 1 2>`.
    pub fn summary(&self) -> String {
        match self.tensor() {
            Ok(tensor) => format!(
                "Tensor<type: {} shape: {} values: {}>",
                self.dtype,
                self.shape,
                summarize_values(&tensor, 10)
            ),
            Err(_) => format!("<Invalid TensorProto: dtype: {}>", self.dtype.enum_name()),
        }
    }

    /// The values alone: `1 2 3`.
    pub fn values_summary(&self) -> String {
        self.tensor().map_or_else(|_| String::new(), |tensor| summarize_values(&tensor, 100))
    }
}

impl From<Tensor> for TensorAttr {
    fn from(tensor: Tensor) -> TensorAttr {
        TensorAttr {
            dtype: tensor.dtype(),
            shape: tensor.shape().into(),
            message: None,
            tensor: OnceLock::from(Ok(tensor)),
        }
    }
}

impl PartialEq for TensorAttr {
    fn eq(&self, other: &TensorAttr) -> bool {
        if let (Some(a), Some(b)) = (&self.message, &other.message)
            && a == b
        {
            return true;
        }
        match (self.tensor(), other.tensor()) {
            (Ok(a), Ok(b)) => {
                tensor_to_proto(&a).encode_to_vec() == tensor_to_proto(&b).encode_to_vec()
            }
            _ => false,
        }
    }
}

impl fmt::Debug for TensorAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())
    }
}

/// At most `limit` values, in brackets by row where the rank is above 1.
fn summarize_values(tensor: &Tensor, limit: usize) -> String {
    let mut text = String::new();
    let mut left = limit;
    let mut position = 0;
    let dims = tensor.shape().to_usizes();
    append_values(tensor, &dims, &mut position, &mut left, &mut text);
    if tensor.count() > limit {
        text.push_str("...");
    }
    text
}

fn append_values(
    tensor: &Tensor,
    dims: &[usize],
    position: &mut usize,
    left: &mut usize,
    text: &mut String,
) {
    let [size, inner @ ..] = dims else {
        if tensor.count() > 0 {
            text.push_str(&value_text(tensor, *position));
        }
        return;
    };
    for index in 0..*size {
        if *left == 0 {
            return;
        }
        if inner.is_empty() {
            if index > 0 {
                text.push(' ');
            }
            text.push_str(&value_text(tensor, *position));
            *position += 1;
            *left -= 1;
        } else {
            text.push('[');
            append_values(tensor, inner, position, left, text);
            text.push(']');
        }
    }
}

fn value_text(tensor: &Tensor, index: usize) -> String {
    use tfcore_base::{BFloat16, Complex64, Complex128, Half};
    use tfcore_tensor::TString;
    let elem = tensor.elems().slice(index..index + 1);
    match tensor.dtype() {
        DType::FLOAT => format_float(elem.typed::<f32>()[0]),
        DType::DOUBLE => format_float(elem.typed::<f64>()[0] as f32),
        DType::HALF => format_float(elem.typed::<Half>()[0].to_f32()),
        DType::BFLOAT16 => format_float(elem.typed::<BFloat16>()[0].to_f32()),
        DType::INT8 => elem.typed::<i8>()[0].to_string(),
        DType::INT16 => elem.typed::<i16>()[0].to_string(),
        DType::INT32 => elem.typed::<i32>()[0].to_string(),
        DType::INT64 => elem.typed::<i64>()[0].to_string(),
        DType::UINT8 => elem.typed::<u8>()[0].to_string(),
        DType::UINT16 => elem.typed::<u16>()[0].to_string(),
        DType::UINT32 => elem.typed::<u32>()[0].to_string(),
        DType::UINT64 => elem.typed::<u64>()[0].to_string(),
        DType::BOOL => u8::from(elem.typed::<bool>()[0]).to_string(),
        DType::COMPLEX64 => {
            let value = elem.typed::<Complex64>()[0];
            format!("({},{})", format_float(value.re), format_float(value.im))
        }
        DType::COMPLEX128 => {
            let value = elem.typed::<Complex128>()[0];
            format!("({},{})", format_float(value.re as f32), format_float(value.im as f32))
        }
        DType::STRING => {
            format!("\"{}\"", tfcore_base::escape_bytes(elem.typed::<TString>()[0].as_bytes()))
        }
        _ => "?".to_string(),
    }
}
