//! Writing tables; see `table.rs` for the format.

use crate::checksum::mask;
use crate::table::{FOOTER, MAGIC, UNCOMPRESSED};
use crate::varint::put;

/// Blocks end when they have as many bytes.
const BLOCK_SIZE: usize = 256 * 1024;
/// Every so many entries of a block, one has its whole key.
const RESTART_INTERVAL: usize = 16;

/// A table in memory, made entry by entry.
pub(crate) struct TableBuilder {
    out: Vec<u8>,
    block: BlockBuilder,
    index: BlockBuilder,
    /// The handle of a finished block, until the next key says which key separates the two.
    pending: Option<Vec<u8>>,
}

impl TableBuilder {
    pub(crate) fn new() -> TableBuilder {
        TableBuilder {
            out: Vec::new(),
            block: BlockBuilder::new(RESTART_INTERVAL),
            index: BlockBuilder::new(1),
            pending: None,
        }
    }

    /// Adds an entry. Keys must come in rising order.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        if let Some(handle) = self.pending.take() {
            let separator = separator(&self.block.last_key, key);
            self.index.add(&separator, &handle);
        }
        self.block.add(key, value);
        if self.block.size() >= BLOCK_SIZE {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        if self.block.is_empty() {
            return;
        }
        let content = self.block.finish();
        self.pending = Some(self.write(&content));
    }

    /// Appends a block. Returns its handle.
    fn write(&mut self, content: &[u8]) -> Vec<u8> {
        let mut handle = Vec::new();
        put(&mut handle, self.out.len() as u64);
        put(&mut handle, content.len() as u64);
        self.out.extend_from_slice(content);
        self.out.push(UNCOMPRESSED);
        let crc = crc32c::crc32c_append(crc32c::crc32c(content), &[UNCOMPRESSED]);
        self.out.extend_from_slice(&mask(crc).to_le_bytes());
        handle
    }

    /// The bytes of the table.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.end_block();
        let extensions = BlockBuilder::new(RESTART_INTERVAL).finish();
        let mut footer = self.write(&extensions);
        if let Some(handle) = self.pending.take() {
            let successor = successor(&self.block.last_key);
            self.index.add(&successor, &handle);
        }
        let index = self.index.finish();
        footer.extend(self.write(&index));
        footer.resize(FOOTER - 8, 0);
        self.out.extend_from_slice(&footer);
        self.out.extend_from_slice(&MAGIC.to_le_bytes());
        self.out
    }
}

/// A block, made entry by entry.
pub(crate) struct BlockBuilder {
    out: Vec<u8>,
    restarts: Vec<u32>,
    interval: usize,
    since_restart: usize,
    /// The key added last; it stays when the block is finished.
    last_key: Vec<u8>,
}

impl BlockBuilder {
    pub(crate) fn new(interval: usize) -> BlockBuilder {
        BlockBuilder {
            out: Vec::new(),
            restarts: vec![0],
            interval,
            since_restart: 0,
            last_key: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// The bytes that the finished block takes.
    fn size(&self) -> usize {
        self.out.len() + 4 * self.restarts.len() + 4
    }

    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        let shared = if self.is_empty() {
            0
        } else if self.since_restart < self.interval {
            key.iter().zip(&self.last_key).take_while(|(a, b)| a == b).count()
        } else {
            self.restarts.push(self.out.len() as u32);
            self.since_restart = 0;
            0
        };
        put(&mut self.out, shared as u64);
        put(&mut self.out, (key.len() - shared) as u64);
        put(&mut self.out, value.len() as u64);
        self.out.extend_from_slice(&key[shared..]);
        self.out.extend_from_slice(value);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.since_restart += 1;
    }

    /// The block's bytes. The builder is empty then.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.out);
        for restart in &self.restarts {
            out.extend_from_slice(&restart.to_le_bytes());
        }
        out.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        self.restarts.truncate(1);
        self.since_restart = 0;
        out
    }
}

/// A short key that is not below `last` and below `next`.
fn separator(last: &[u8], next: &[u8]) -> Vec<u8> {
    let common = last.iter().zip(next).take_while(|(a, b)| a == b).count();
    match (last.get(common), next.get(common)) {
        (Some(&a), Some(&b)) if a < 0xff && a + 1 < b => [&last[..common], &[a + 1]].concat(),
        _ => last.to_vec(),
    }
}

/// A short key that is not below `last`.
fn successor(last: &[u8]) -> Vec<u8> {
    match last.iter().position(|&byte| byte != 0xff) {
        Some(at) => [&last[..at], &[last[at] + 1]].concat(),
        None => last.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The index that TensorFlow writes for tensors "s", "x" and "y".
    #[test]
    fn tables_are_tensorflow_s_byte_for_byte() {
        let mut builder = TableBuilder::new();
        builder.add(b"", b"\x08\x01\x1a\x02\x08\x01");
        builder
            .add(b"s", b"\x08\x07\x12\x04\x12\x02\x08\x03\x20\x1c\x28\xb9\x02\x35\x40\x9b\x66\xa2");
        builder.add(
            b"x",
            b"\x08\x01\x12\x08\x12\x02\x08\x02\x12\x02\x08\x03\x28\x18\x35\xc0\xdb\x3d\x17",
        );
        builder.add(b"y", b"\x08\x03\x12\x00\x20\x18\x28\x04\x35\xd9\xc6\x9c\x43");
        let blocks_and_handles = b"\
            \x00\x00\x06\x08\x01\x1a\x02\x08\x01\
            \x00\x01\x12s\x08\x07\x12\x04\x12\x02\x08\x03\x20\x1c\x28\xb9\x02\x35\x40\x9b\x66\xa2\
            \x00\x01\x13x\x08\x01\x12\x08\x12\x02\x08\x02\x12\x02\x08\x03\x28\x18\x35\xc0\xdb\x3d\x17\
            \x00\x01\x0dy\x08\x03\x12\x00\x20\x18\x28\x04\x35\xd9\xc6\x9c\x43\
            \x00\x00\x00\x00\x01\x00\x00\x00\x00\x4f\x7d\x48\xda\
            \x00\x00\x00\x00\x01\x00\x00\x00\x00\xc0\xf2\xa1\xb0\
            \x00\x01\x02z\x00\x4f\x00\x00\x00\x00\x01\x00\x00\x00\x00\x74\xe5\x3e\x13\
            \x54\x08\x61\x0e";
        let mut expected = blocks_and_handles.to_vec();
        expected.extend_from_slice(&[0; 36]);
        expected.extend_from_slice(b"\x57\xfb\x80\x8b\x24\x75\x47\xdb");
        assert_eq!(builder.finish(), expected);
    }

    #[test]
    fn separating_keys_are_short() {
        for (last, next, expected) in [
            ("abcde", "abxyz", "abd"),
            ("abc", "abd", "abc"),
            ("ab", "abc", "ab"),
            ("a", "c", "b"),
            ("a\u{7f}", "b", "a\u{7f}"),
        ] {
            let result = separator(last.as_bytes(), next.as_bytes());
            assert_eq!(result, expected.as_bytes(), "{last} {next}");
        }
        assert_eq!(successor(b"\xff\xffab"), b"\xff\xffb");
        assert_eq!(successor(b"\xff"), b"\xff");
    }
}
