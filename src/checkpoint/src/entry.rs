//! Entries of the index of a bundle.

use std::collections::BTreeMap;

use tfcore_base::{DType, Result, data_loss};
use tfcore_framework::full_shape_from_proto;
use tfcore_proto::{
    BundleEntryProto, BundleHeaderProto, Message, TensorShapeProto, tensor_shape_proto,
};
use tfcore_tensor::Shape;

use crate::table_builder::TableBuilder;

/// The header comes first in the table.
pub(crate) const HEADER_KEY: &[u8] = b"";

/// The entries of a bundle by key.
pub(crate) type Entries = BTreeMap<Vec<u8>, BundleEntryProto>;

/// A key for messages.
pub(crate) fn show(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

/// # Errors
/// `DataLoss` if the bytes are no entry.
pub(crate) fn parse(key: &[u8], bytes: &[u8]) -> Result<BundleEntryProto> {
    BundleEntryProto::decode(bytes)
        .map_err(|_| data_loss!("Entry for key {} not parseable.", show(key)))
}

/// The dtype and shape of an entry.
///
/// # Errors
/// `DataLoss` if they are not those of a tensor.
pub(crate) fn dtype_and_shape(key: &[u8], entry: &BundleEntryProto) -> Result<(DType, Shape)> {
    let dtype = DType::from_i32(entry.dtype).filter(|dtype| !dtype.is_ref());
    let dtype =
        dtype.ok_or_else(|| data_loss!("Invalid tensor dtype: {} {}", show(key), entry.dtype))?;
    let shape = match &entry.shape {
        Some(shape) if shape.unknown_rank => None,
        Some(shape) => full_shape_from_proto(shape).ok(),
        None => Some(Shape::scalar()),
    };
    let shape = shape.ok_or_else(|| {
        let dims = entry.shape.as_ref().map_or(&[][..], |shape| &shape.dim);
        let dims: Vec<String> =
            dims.iter().map(|dim| format!("dim {{ size: {} }}", dim.size)).collect();
        data_loss!("Invalid tensor shape: {} {}", show(key), dims.join(" "))
    })?;
    Ok((dtype, shape))
}

pub(crate) fn shape_proto(shape: &Shape) -> TensorShapeProto {
    let dim = |&size: &i64| tensor_shape_proto::Dim { size, name: String::new() };
    TensorShapeProto { dim: shape.dims().iter().map(dim).collect(), unknown_rank: false }
}

/// The table of a bundle.
pub(crate) fn index_table(header: &BundleHeaderProto, entries: &Entries) -> Vec<u8> {
    let mut table = TableBuilder::new();
    table.add(HEADER_KEY, &header.encode_to_vec());
    for (key, entry) in entries {
        table.add(key, &entry.encode_to_vec());
    }
    table.finish()
}
