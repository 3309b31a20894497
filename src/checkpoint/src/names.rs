//! Names of the files of a version 2 checkpoint.

use std::path::{Path, PathBuf};

use tfcore_files::with_suffix;

/// The table of all tensors: `prefix.index`.
pub fn index_path(prefix: &Path) -> PathBuf {
    with_suffix(prefix, ".index")
}

/// The data file of a shard: `prefix.data-00000-of-00001`.
pub fn data_path(prefix: &Path, shard: i32, shards: i32) -> PathBuf {
    with_suffix(prefix, &format!(".data-{shard:05}-of-{shards:05}"))
}
