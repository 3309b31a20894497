//! What counts as true where an op takes any tensor for a condition.

use tfcore_base::{DType, Result, invalid};
use tfcore_tensor::{TString, Tensor};

/// The truth of a tensor: that of its only value, else whether it has elements.
pub fn truth(tensor: &Tensor) -> Result<bool> {
    if tensor.rank() != 0 {
        return Ok(tensor.count() > 0);
    }
    Ok(match tensor.dtype() {
        DType::BOOL => tensor.scalar_value::<bool>()?,
        DType::FLOAT => tensor.scalar_value::<f32>()? != 0.0,
        DType::DOUBLE => tensor.scalar_value::<f64>()? != 0.0,
        DType::INT32 => tensor.scalar_value::<i32>()? != 0,
        DType::INT64 => tensor.scalar_value::<i64>()? != 0,
        DType::UINT8 => tensor.scalar_value::<u8>()? != 0,
        DType::INT8 => tensor.scalar_value::<i8>()? != 0,
        DType::INT16 => tensor.scalar_value::<i16>()? != 0,
        DType::STRING => !tensor.as_slice::<TString>()?[0].as_bytes().is_empty(),
        other => return Err(invalid!("{other} cannot be converted to a boolean")),
    })
}

#[cfg(test)]
mod tests {
    use tfcore_tensor::Shape;

    use super::*;

    #[test]
    fn numbers_strings_and_lists() {
        let text = |text: &str| Tensor::scalar(TString::from(text.as_bytes()));
        let cases = [
            (Tensor::scalar(true), true),
            (Tensor::scalar(-0.0f32), false),
            (Tensor::scalar(f64::NAN), true),
            (Tensor::scalar(7u8), true),
            (text(""), false),
            (text("0"), true),
            (Tensor::from_slice(Shape::vector(1), &[false]).unwrap(), true),
            (Tensor::from_slice(Shape::vector(0), &[1i32; 0]).unwrap(), false),
        ];
        for (tensor, expected) in cases {
            assert_eq!(truth(&tensor).unwrap(), expected, "{:?}", tensor.dtype());
        }
        assert!(truth(&Tensor::scalar(1u32)).is_err());
    }
}
