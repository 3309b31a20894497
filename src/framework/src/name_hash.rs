//! The hash of op names: the build script fills the slots by it, the library finds them by it.

/// How many slots the index of the op table has: more than twice its ops, so that probes are few.
pub(crate) const SLOTS: usize = 4096;

/// The slot where the search for `name` begins (FNV-1a).
pub(crate) fn first_slot(name: &str) -> usize {
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = name.bytes().fold(0x811c_9dc5, mix);
    (hash ^ (hash >> 16)) as usize % SLOTS
}
