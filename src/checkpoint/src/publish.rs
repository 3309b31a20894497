//! Putting the files of a checkpoint in place, so that a process killed at any moment leaves a whole one.

use std::path::Path;

use tfcore_base::Result;
use tfcore_files::{Files, dirname, with_suffix};

use crate::bundle_reader::num_shards;
use crate::names::{data_path, index_path};

/// Moves `shards` data files to their places with `place(shard, path)`, then writes the index, which is the table that
/// `index` makes for a number of shards.
///
/// An index that is there may refer to data files of the same names. They must not change before it does: the new ones
/// first get the names of a checkpoint of one shard more, which the new index refers to, and their own names when
/// nothing refers to the old files any longer.
pub(crate) fn publish(
    files: &Files,
    prefix: &Path,
    shards: i32,
    mut place: impl FnMut(usize, &Path) -> Result<()>,
    index: impl Fn(i32) -> Vec<u8>,
) -> Result<()> {
    let is_occupied = num_shards(files, prefix) == Some(shards);
    let spare = shards + i32::from(is_occupied);
    for shard in 0..shards {
        place(shard as usize, &data_path(prefix, shard, spare))?;
    }
    write_index(files, prefix, &index(spare))?;
    if !is_occupied {
        return Ok(());
    }
    for shard in 0..shards {
        let path = data_path(prefix, shard, shards);
        let temporary = with_suffix(&path, ".tempstate");
        // A leftover of a process that was killed.
        let _ = files.delete_file(&temporary);
        if files.link(&data_path(prefix, shard, spare), &temporary).is_err() {
            // Files of this file system have one name; the index is right as it is.
            return Ok(());
        }
        files.rename(&temporary, &path)?;
    }
    files.system(prefix)?.sync_dir(dirname(prefix))?;
    write_index(files, prefix, &index(shards))?;
    for shard in 0..shards {
        // Nothing refers to this name.
        let _ = files.delete_file(&data_path(prefix, shard, spare));
    }
    Ok(())
}

fn write_index(files: &Files, prefix: &Path, table: &[u8]) -> Result<()> {
    let mut file = files.replace(&index_path(prefix))?;
    file.append(table)?;
    file.commit()
}
