//! Shapes as messages.

use smallvec::SmallVec;
use tfcore_base::{Error, Result, invalid};
use tfcore_proto::{self as proto, tensor_shape_proto};
use tfcore_tensor::{MAX_RANK, PartialShape, Shape};

/// The shape that a message describes; the names of dimensions are dropped.
///
/// # Errors
/// `InvalidArgument` for sizes below -1, too many dimensions, or a product that overflows.
pub fn shape_from_proto(message: &proto::TensorShapeProto) -> Result<PartialShape> {
    if message.unknown_rank {
        if !message.dim.is_empty() {
            return Err(invalid!("An unknown shape must not have any dimensions set."));
        }
        return Ok(PartialShape::unknown());
    }
    let dims = sizes(message);
    if dims.iter().any(|&size| size < -1) {
        return Err(invalid!(
            "Shape {} has dimensions with values below -1 (where -1 means unknown)",
            sizes_text(&dims)
        ));
    }
    PartialShape::from_i64s(&dims).map_err(|_| too_large(&dims))
}

/// The shape of a tensor that a message describes. Whether the rank is marked as unknown does not matter
/// here: the dimensions of a tensor are those that are listed.
///
/// # Errors
/// `InvalidArgument` for unknown sizes, too many dimensions, or a product that overflows.
pub fn full_shape_from_proto(message: &proto::TensorShapeProto) -> Result<Shape> {
    let dims = sizes(message);
    if dims.iter().any(|&size| size < 0) {
        let unknown = if message.unknown_rank { "<unknown>" } else { "" };
        return Err(invalid!("Shape {unknown}{} is not fully defined", sizes_text(&dims)));
    }
    Shape::new(&dims).map_err(|_| too_large(&dims))
}

fn sizes(message: &proto::TensorShapeProto) -> SmallVec<[i64; 6]> {
    message.dim.iter().map(|dim| dim.size).collect()
}

fn sizes_text(dims: &[i64]) -> String {
    let text = |&size: &i64| if size == -1 { "?".to_string() } else { size.to_string() };
    let texts: Vec<String> = dims.iter().map(text).collect();
    format!("[{}]", texts.join(","))
}

/// Why dimensions of valid sizes make no shape.
fn too_large(dims: &[i64]) -> Error {
    let reason = match dims.len() {
        0..=MAX_RANK => "is too large (more than 2**63 - 1 entries)",
        _ => "has too many dimensions",
    };
    invalid!("Shape {} {reason}", sizes_text(dims))
}

/// The message that describes a shape.
pub fn shape_to_proto(shape: &PartialShape) -> proto::TensorShapeProto {
    let Some(dims) = shape.dims() else {
        return proto::TensorShapeProto { unknown_rank: true, ..Default::default() };
    };
    let dim = |size| tensor_shape_proto::Dim { size, name: String::new() };
    proto::TensorShapeProto {
        dim: dims.iter().map(|d| dim(d.to_i64())).collect(),
        unknown_rank: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(sizes: &[i64]) -> proto::TensorShapeProto {
        let dim = |&size: &i64| tensor_shape_proto::Dim { size, name: String::new() };
        proto::TensorShapeProto { dim: sizes.iter().map(dim).collect(), unknown_rank: false }
    }

    #[test]
    fn impossible_shapes_are_errors() {
        let unknown = proto::TensorShapeProto { unknown_rank: true, ..shape(&[2]) };
        let cases = [
            (
                shape(&[-5, -1]),
                "Shape [-5,?] has dimensions with values below -1 (where -1 means unknown)",
            ),
            (
                shape(&[1 << 40, -1, 1 << 40]),
                "Shape [1099511627776,?,1099511627776] is too large (more than 2**63 - 1 entries)",
            ),
            (unknown, "An unknown shape must not have any dimensions set."),
        ];
        for (message, text) in cases {
            assert_eq!(shape_from_proto(&message).unwrap_err().message(), text);
        }
        let error = shape_from_proto(&shape(&[1; 255])).unwrap_err();
        assert!(error.message().ends_with("has too many dimensions"), "{error}");
        let error = full_shape_from_proto(&shape(&[2, -1])).unwrap_err();
        assert_eq!(error.message(), "Shape [2,?] is not fully defined");
    }
}
