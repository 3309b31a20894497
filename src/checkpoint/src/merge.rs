//! Merging checkpoints: one index for the data files of several.

use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use tfcore_base::{Code, Result, internal, invalid};
use tfcore_files::Files;
use tfcore_proto::BundleHeaderProto;

use crate::bundle_reader::read_header;
use crate::bundle_writer::make_directory;
use crate::entry::{self, Entries, HEADER_KEY, index_table, show};
use crate::names::{data_path, index_path};
use crate::publish::publish;
use crate::table::Table;

/// What is known of the bundles read so far.
#[derive(Default)]
struct Merged {
    header: Option<BundleHeaderProto>,
    entries: Entries,
    /// The data files, in the order of the shards that they become.
    data: Vec<PathBuf>,
}

/// Makes the checkpoint `merged` of those at `prefixes`, whose data files are renamed and whose indexes are deleted.
///
/// # Errors
/// `InvalidArgument` if two of them have a tensor of the same name that is not sliced, or differ in format, or if one is
/// missing, all of them if `allow_missing`; those of the file system.
pub fn merge(
    files: &Files,
    prefixes: &[PathBuf],
    merged: &Path,
    allow_missing: bool,
) -> Result<()> {
    make_directory(files, merged)?;
    let mut state = Merged::default();
    let mut found = 0;
    for prefix in prefixes {
        match state.add(files, prefix) {
            Ok(()) => found += 1,
            Err(error) if error.code() != Code::NotFound => return Err(error),
            Err(_) if allow_missing => {}
            Err(_) => {
                let prefix = prefix.display();
                return Err(invalid!(
                    "allow_missing_files was set to false and {prefix} did not exist.NOT_FOUND: {prefix} not found"
                ));
            }
        }
    }
    if !prefixes.is_empty() && found == 0 {
        return Err(invalid!("At least one prefix checkpoint file must exist, but none existed."));
    }
    let Merged { header, entries, data } = state;
    let header = header.unwrap_or_default();
    let place = |shard: usize, path: &Path| files.rename(&data[shard], path);
    let shards = i32::try_from(data.len()).map_err(|_| invalid!("Too many shards"))?;
    publish(files, merged, shards, place, |num_shards| {
        let header = BundleHeaderProto { num_shards: num_shards.max(1), ..header.clone() };
        index_table(&header, &entries)
    })?;
    for prefix in prefixes.iter().filter(|prefix| prefix.as_path() != merged) {
        // What was merged is not needed; a leftover is harmless.
        let _ = files.delete_file(&index_path(prefix));
    }
    Ok(())
}

impl Merged {
    fn add(&mut self, files: &Files, prefix: &Path) -> Result<()> {
        let path = index_path(prefix);
        let table = Table::open(files, &path)?;
        let header = read_header(&table, &path)?;
        let num_shards = header.num_shards;
        match &self.header {
            None => self.header = Some(header),
            Some(first) if first.endianness != header.endianness => {
                return Err(invalid!(
                    "Merging bundles with conflicting endianness; inputs corrupted?"
                ));
            }
            Some(first) if first.version != header.version => {
                return Err(invalid!(
                    "Merging bundles with different format versions: merged {:?} vs. curr {:?}",
                    first.version,
                    header.version
                ));
            }
            Some(_) => {}
        }
        for number in 0..table.num_blocks() {
            let block = table.block(number)?;
            for at in 0..block.len() {
                let (key, value) = (block.key(at), block.value(at));
                if key != HEADER_KEY {
                    self.add_entry(prefix, num_shards, key, value)?;
                }
            }
        }
        Ok(())
    }

    fn add_entry(
        &mut self,
        prefix: &Path,
        num_shards: i32,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let mut new = entry::parse(key, value)?;
        match self.entries.entry(key.to_vec()) {
            Entry::Occupied(old) if old.get().slices.is_empty() => Err(invalid!(
                "Duplicate tensor keyed by {} encountered, when merging prefix: {}",
                show(key),
                prefix.display()
            )),
            Entry::Occupied(_) if new.slices.is_empty() => Err(internal!(
                "Duplicate tensor keyed by {}; attempting to merge in a non-slice bundle entry",
                show(key)
            )),
            Entry::Occupied(mut old) => {
                let old = old.get_mut();
                if old.dtype != new.dtype || old.shape != new.shape {
                    return Err(invalid!("Slices of tensor {} of unlike type or shape", show(key)));
                }
                old.slices.append(&mut new.slices);
                Ok(())
            }
            Entry::Vacant(place) => {
                let path = data_path(prefix, new.shard_id, num_shards);
                let known = self.data.iter().position(|other| *other == path);
                let shard = known.unwrap_or_else(|| {
                    self.data.push(path);
                    self.data.len() - 1
                });
                new.shard_id = i32::try_from(shard).map_err(|_| invalid!("Too many shards"))?;
                place.insert(new);
                Ok(())
            }
        }
    }
}
