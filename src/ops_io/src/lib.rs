//! Ops on files: whole files, checkpoints of both versions, names of shards.
//!
//! Files are those of the step, [`tfcore_framework::Step::files`].
#![forbid(unsafe_code)]

use tfcore_framework::Registry;

mod args;
mod configuration;
mod remap;
mod restore;
mod restore_v1;
mod save;
mod save_v1;
mod sharded;
mod vocabulary;
mod whole_file;

/// Registers the ops of this family.
pub fn register(r: &mut Registry) {
    remap::register(r);
    restore::register(r);
    restore_v1::register(r);
    save::register(r);
    save_v1::register(r);
    sharded::register(r);
    configuration::register(r);
    vocabulary::register(r);
    whole_file::register(r);
}
