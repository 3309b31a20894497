//! Reading sorted tables of key and value pairs: the index of a bundle, and version 1 checkpoints.
//!
//! A table is a sequence of blocks, a block that lists them by their last key, and a footer of 48 bytes. A block holds
//! entries whose keys share prefixes with the key before, the positions of entries that share nothing, a byte that
//! says how it is compressed, and a checksum. The format is that of LevelDB.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tfcore_base::{Error, Result, data_loss};
use tfcore_files::{Files, RandomAccessFile};

use crate::checksum::unmask;
use crate::varint::{take, take_len};

pub(crate) const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
pub(crate) const FOOTER: usize = 48;
/// Bytes behind the entries of a block: the kind of compression and the checksum.
pub(crate) const TRAILER: usize = 5;
pub(crate) const UNCOMPRESSED: u8 = 0;
const SNAPPY: u8 = 1;

/// The most bytes that a byte of Snappy's output can come from: a copy takes two bytes for 64.
const MAX_SNAPPY_RATIO: usize = 32;

/// A table open for reading. It holds the list of blocks and the block read last.
pub(crate) struct Table {
    file: Box<dyn RandomAccessFile>,
    /// Each block with a key that is not below its last key and below the first key of the next one.
    blocks: Vec<(Vec<u8>, Handle)>,
    last: Mutex<Option<(usize, Arc<Block>)>>,
}

/// Where a block lies in the file.
#[derive(Clone, Copy, Debug)]
struct Handle {
    offset: u64,
    len: usize,
}

/// The entries of a block.
pub(crate) struct Block {
    /// The keys, concatenated.
    keys: Vec<u8>,
    content: Vec<u8>,
    /// Where the key and the value of each entry lie.
    entries: Vec<(Range<usize>, Range<usize>)>,
}

impl Table {
    /// # Errors
    /// `DataLoss` if the file is no table.
    pub(crate) fn open(files: &Files, path: &Path) -> Result<Table> {
        let size = files.file_size(path)?;
        let file = files.open(path)?;
        if size < FOOTER as u64 {
            return Err(data_loss!("file is too short to be an sstable"));
        }
        let mut footer = [0; FOOTER];
        file.read_exact_at(size - FOOTER as u64, &mut footer)?;
        let (handles, magic) = footer.split_at(FOOTER - 8);
        if magic != MAGIC.to_le_bytes() {
            return Err(data_loss!("not an sstable (bad magic number)"));
        }
        let mut rest = handles;
        let limit = size - FOOTER as u64;
        // The first handle is that of a block of extensions, of which there are none.
        let index = Handle::take(&mut rest, u64::MAX)
            .and_then(|_| Handle::take(&mut rest, limit))
            .ok_or_else(|| data_loss!("bad block handle"))?;
        let index = Block::read(&*file, index)?;
        let blocks = (0..index.len()).map(|entry| {
            let handle = Handle::take(&mut index.value(entry), limit);
            let handle = handle.ok_or_else(|| data_loss!("bad block handle"))?;
            Ok((index.key(entry).to_vec(), handle))
        });
        let blocks = blocks.collect::<Result<_>>()?;
        Ok(Table { file, blocks, last: Mutex::new(None) })
    }

    pub(crate) fn num_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// # Errors
    /// `DataLoss` if the block is damaged.
    pub(crate) fn block(&self, index: usize) -> Result<Arc<Block>> {
        if let Some((last, block)) = &*self.last.lock()
            && *last == index
        {
            return Ok(block.clone());
        }
        let block = Arc::new(Block::read(&*self.file, self.blocks[index].1)?);
        *self.last.lock() = Some((index, block.clone()));
        Ok(block)
    }

    /// The value of a key, if it is there.
    ///
    /// # Errors
    /// `DataLoss` if the block that would have it is damaged.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let index = self.blocks.partition_point(|(last, _)| &last[..] < key);
        if index == self.blocks.len() {
            return Ok(None);
        }
        let block = self.block(index)?;
        Ok(block.find(key).map(|entry| block.value(entry).to_vec()))
    }
}

impl Handle {
    /// Takes a handle off the front of `bytes`, of a block that ends before `limit`.
    fn take(bytes: &mut &[u8], limit: u64) -> Option<Handle> {
        let offset = take(bytes)?;
        let len = take_len(bytes)?;
        let end = offset.checked_add(len as u64)?.checked_add(TRAILER as u64)?;
        (end <= limit).then_some(Handle { offset, len })
    }
}

fn bad_block() -> Error {
    data_loss!("corrupted compressed block contents")
}

impl Block {
    fn read(file: &dyn RandomAccessFile, handle: Handle) -> Result<Block> {
        let mut content = vec![0; handle.len + TRAILER];
        if file.read_at(handle.offset, &mut content)? < content.len() {
            return Err(data_loss!("truncated block read"));
        }
        let (checked, crc) = content.split_at(handle.len + 1);
        let stored = u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]);
        if crc32c::crc32c(checked) != unmask(stored) {
            return Err(data_loss!("block checksum mismatch"));
        }
        let kind = checked[handle.len];
        content.truncate(handle.len);
        match kind {
            UNCOMPRESSED => Block::parse(content),
            SNAPPY => {
                let len = snap::raw::decompress_len(&content).map_err(|_| bad_block())?;
                if len > content.len().saturating_mul(MAX_SNAPPY_RATIO) {
                    return Err(bad_block());
                }
                let plain = snap::raw::Decoder::new().decompress_vec(&content);
                Block::parse(plain.map_err(|_| bad_block())?)
            }
            _ => Err(data_loss!("bad block type")),
        }
    }

    fn parse(content: Vec<u8>) -> Result<Block> {
        let bad = || data_loss!("bad entry in block");
        let (rest, count) = content.split_last_chunk::<4>().ok_or_else(bad)?;
        let restarts = (u32::from_le_bytes(*count) as usize).checked_mul(4).ok_or_else(bad)?;
        let end = rest.len().checked_sub(restarts).ok_or_else(bad)?;
        let mut keys = Vec::new();
        let mut entries = Vec::new();
        let mut key: Vec<u8> = Vec::new();
        let mut rest = &content[..end];
        while !rest.is_empty() {
            let mut length = || take_len(&mut rest).ok_or_else(bad);
            let (shared, unshared, value_len) = (length()?, length()?, length()?);
            let (suffix, tail) = rest.split_at_checked(unshared).ok_or_else(bad)?;
            let (_, tail) = tail.split_at_checked(value_len).ok_or_else(bad)?;
            if shared > key.len() {
                return Err(bad());
            }
            key.truncate(shared);
            key.extend_from_slice(suffix);
            let value = end - tail.len() - value_len..end - tail.len();
            entries.push((keys.len()..keys.len() + key.len(), value));
            keys.extend_from_slice(&key);
            // Shared prefixes are written out: a hostile block must not become much larger than it is.
            if keys.len() > content.len().saturating_mul(MAX_KEY_GROWTH) + MAX_KEY_GROWTH {
                return Err(bad());
            }
            rest = tail;
        }
        Ok(Block { keys, content, entries })
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn key(&self, entry: usize) -> &[u8] {
        &self.keys[self.entries[entry].0.clone()]
    }

    pub(crate) fn value(&self, entry: usize) -> &[u8] {
        &self.content[self.entries[entry].1.clone()]
    }

    fn find(&self, key: &[u8]) -> Option<usize> {
        let at = self.entries.partition_point(|(range, _)| &self.keys[range.clone()] < key);
        (at < self.len() && self.key(at) == key).then_some(at)
    }
}

/// The keys of a block may take this many times the bytes of the block. Writers repeat the whole key every 16 entries.
const MAX_KEY_GROWTH: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table_builder::TableBuilder;

    fn write(files: &Files, bytes: &[u8]) -> Result<Table> {
        let path = Path::new("ram://table");
        files.write(path, bytes).unwrap();
        Table::open(files, path)
    }

    fn entries(count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let entry =
            |i: usize| (format!("layer_{:05}/kernel", i * 3).into(), vec![i as u8; i % 400]);
        (0..count).map(entry).collect()
    }

    fn build(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let mut builder = TableBuilder::new();
        for (key, value) in entries {
            builder.add(key, value);
        }
        builder.finish()
    }

    #[test]
    fn entries_are_found_in_tables_of_one_and_many_blocks() {
        let files = Files::default();
        for count in [0, 1, 17, 5000] {
            let entries = entries(count);
            let table = write(&files, &build(&entries)).unwrap();
            assert_eq!(table.num_blocks() > 1, count == 5000);
            let all: Vec<(Vec<u8>, Vec<u8>)> = (0..table.num_blocks())
                .flat_map(|index| {
                    let block = table.block(index).unwrap();
                    let pair = |entry| (block.key(entry).to_vec(), block.value(entry).to_vec());
                    (0..block.len()).map(pair).collect::<Vec<_>>()
                })
                .collect();
            assert_eq!(all, entries);
            for (key, value) in &entries {
                assert_eq!(table.get(key).unwrap().as_ref(), Some(value));
                assert_eq!(table.get(&[&key[..], b"!"].concat()).unwrap(), None);
            }
            assert_eq!(table.get(b"a").unwrap(), None);
            assert_eq!(table.get(b"z").unwrap(), None);
        }
    }

    /// The block of a table compressed by hand.
    #[test]
    fn snappy_blocks_are_read() {
        let entries = entries(30);
        let plain = build(&entries);
        let footer = plain.len() - FOOTER;
        let table = write(&Files::default(), &plain).unwrap();
        let Handle { len, .. } = table.blocks[0].1;
        let mut compressed = snap::raw::Encoder::new().compress_vec(&plain[..len]).unwrap();
        assert!(compressed.len() < len);
        let block_len = compressed.len();
        compressed.push(SNAPPY);
        let crc = crate::checksum::mask(crc32c::crc32c(&compressed));
        compressed.extend_from_slice(&crc.to_le_bytes());
        let mut index = crate::table_builder::BlockBuilder::new(1);
        let mut handle = Vec::new();
        crate::varint::put(&mut handle, 0);
        crate::varint::put(&mut handle, block_len as u64);
        index.add(b"z", &handle);
        let index = index.finish();
        let index_at = compressed.len();
        compressed.extend_from_slice(&index);
        compressed.push(UNCOMPRESSED);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&index), &[UNCOMPRESSED]);
        compressed.extend_from_slice(&crate::checksum::mask(crc).to_le_bytes());
        let mut handles = vec![0, 0];
        crate::varint::put(&mut handles, index_at as u64);
        crate::varint::put(&mut handles, index.len() as u64);
        handles.resize(FOOTER - 8, 0);
        compressed.extend_from_slice(&handles);
        compressed.extend_from_slice(&plain[footer + FOOTER - 8..]);
        let table = write(&Files::default(), &compressed).unwrap();
        for (key, value) in &entries {
            assert_eq!(table.get(key).unwrap().as_ref(), Some(value));
        }
    }

    fn outcome(files: &Files, bytes: &[u8], entries: &[(Vec<u8>, Vec<u8>)]) -> Result<bool> {
        let table = write(files, bytes)?;
        let mut all = true;
        for (key, value) in entries {
            all &= table.get(key)?.as_ref() == Some(value);
        }
        Ok(all)
    }

    #[test]
    fn damaged_tables_are_data_loss_or_whole() {
        let files = Files::default();
        let entries = entries(40);
        let bytes = build(&entries);
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            match outcome(&files, &damaged, &entries) {
                Ok(all) => assert!(all, "bit {at}"),
                Err(error) => assert_eq!(error.code(), tfcore_base::Code::DataLoss, "bit {at}"),
            }
        }
        for len in 0..bytes.len() {
            let error = outcome(&files, &bytes[..len], &entries).unwrap_err();
            assert_eq!(error.code(), tfcore_base::Code::DataLoss, "{len} bytes");
        }
    }

    /// Blocks whose checksums are right, but not their content.
    #[test]
    fn hostile_blocks_are_refused() {
        for content in [
            &b""[..],
            b"\x01\0\0",
            b"\xff\xff\xff\xff",
            b"\x00\x05\x00a\0\0\0\0",
            b"\x01\x00\x00\0\0\0\0",
            b"\x00\x01\xff\xff\xff\xff\x0fa\0\0\0\0",
            b"\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\0\0\0\0",
        ] {
            assert!(Block::parse(content.to_vec()).is_err(), "{content:?}");
        }
        // One key of 1 KiB, shared by entries of three bytes each.
        let mut content = vec![0, 0x80, 0x08, 0];
        content.extend_from_slice(&[b'k'; 1024]);
        for _ in 0..20_000 {
            content.extend_from_slice(&[0x80, 0x08, 0, 0]);
        }
        content.extend_from_slice(&[0; 4]);
        assert!(Block::parse(content).is_err());
    }
}
