//! Checkpoints: tensors in files, by name.
//!
//! A version 2 checkpoint `prefix` is a table `prefix.index` and data files `prefix.data-00000-of-00001` and so on
//! ([`BundleReader`], [`BundleWriter`], [`merge`]); version 1 is a table that holds the values too ([`v1`]).
//! [`Checkpoint`] reads either. Files come from [`tfcore_files::Files`].
//!
//! Nothing is trusted: what is read is checked against checksums, and no length that a file states makes memory that
//! the file does not fill.
#![forbid(unsafe_code)]

mod bundle_reader;
#[cfg(test)]
mod bundle_tests;
mod bundle_writer;
mod checksum;
mod entry;
mod merge;
mod names;
mod ordered_code;
mod publish;
mod reader;
mod slice;
mod slice_set;
mod strings;
mod table;
mod table_builder;
pub mod v1;
mod varint;
mod versions;

pub use bundle_reader::{BundleReader, Request};
pub use bundle_writer::BundleWriter;
pub use checksum::{mask, unmask};
pub use merge::merge;
pub use names::{data_path, index_path};
pub use reader::Checkpoint;
pub use slice::{TensorSlice, parse_shape_and_slice};
