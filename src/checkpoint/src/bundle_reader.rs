//! Reading a version 2 checkpoint.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tfcore_base::{
    DType, Error, Result, data_loss, invalid, not_found, out_of_range, resource_exhausted,
    unimplemented_error,
};
use tfcore_files::{Files, RandomAccessFile};
use tfcore_math::pool::Parallel;
use tfcore_proto::{BundleEntryProto, BundleHeaderProto, Message};
use tfcore_tensor::{Shape, Tensor};

use crate::checksum::unmask;
use crate::entry::{self, HEADER_KEY, show};
use crate::names::{data_path, index_path};
use crate::ordered_code::slice_key;
use crate::slice::{TensorSlice, copy_common};
use crate::slice_set::SliceSet;
use crate::table::Table;
use crate::{strings, versions};

/// Bytes that one thread reads of a tensor before another thread may go on with the same tensor.
const PIECE: usize = 4 << 20;
/// Bytes that are read and checksummed at a time, while they are in the cache.
const CHUNK: usize = 256 << 10;

/// A checkpoint open for reading. It holds the index; data files are opened and read when tensors are asked for.
pub struct BundleReader<'f> {
    files: &'f Files,
    prefix: PathBuf,
    num_shards: i32,
    /// True if a machine of the other byte order has written the checkpoint.
    swap: bool,
    /// Key and encoded entry of each tensor, slice and sliced tensor, by key.
    index: Vec<(Vec<u8>, Vec<u8>)>,
    shards: Mutex<BTreeMap<i32, Arc<Shard>>>,
}

struct Shard {
    file: Box<dyn RandomAccessFile>,
    size: u64,
}

/// A tensor or a slice of one that is wanted.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub key: &'a [u8],
    /// `None` for the whole tensor.
    pub slice: Option<TensorSlice>,
}

impl<'f> BundleReader<'f> {
    /// Opens the checkpoint `prefix` and reads its index.
    ///
    /// # Errors
    /// `NotFound` if there is no index, `DataLoss` if it is damaged.
    pub fn open(files: &'f Files, prefix: &Path) -> Result<BundleReader<'f>> {
        let path = index_path(prefix);
        let table = Table::open(files, &path)?;
        let header = read_header(&table, &path)?;
        versions::check(header.version.as_ref())?;
        let mut index = Vec::new();
        for number in 0..table.num_blocks() {
            let block = table
                .block(number)
                .map_err(|error| corrupt(error, &path, "failed to read block"))?;
            let pair = |entry| (block.key(entry).to_vec(), block.value(entry).to_vec());
            index.extend((0..block.len()).map(pair).filter(|(key, _)| key != HEADER_KEY));
        }
        Ok(BundleReader {
            files,
            prefix: prefix.to_path_buf(),
            num_shards: header.num_shards,
            swap: (header.endianness == BundleHeaderProto::BIG) != cfg!(target_endian = "big"),
            index,
            shards: Mutex::default(),
        })
    }

    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Keys and entries, sorted by key. A sliced tensor has an entry with slices, and its slices have entries of
    /// their own, whose keys begin with a zero byte.
    ///
    /// # Errors
    /// `DataLoss` for an entry that is damaged.
    pub fn entries(&self) -> impl Iterator<Item = Result<(&[u8], BundleEntryProto)>> {
        self.index.iter().map(|(key, bytes)| Ok((&key[..], entry::parse(key, bytes)?)))
    }

    /// True if there is a tensor of this name.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.position(key).is_some()
    }

    fn position(&self, key: &[u8]) -> Option<usize> {
        self.index.binary_search_by(|(other, _)| other.as_slice().cmp(key)).ok()
    }

    fn entry(&self, key: &[u8]) -> Result<BundleEntryProto> {
        let at = self
            .position(key)
            .ok_or_else(|| not_found!("Key {} not found in checkpoint", show(key)))?;
        entry::parse(key, &self.index[at].1)
    }

    /// The dtype and full shape of a tensor.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name, `DataLoss` if the entry is damaged.
    pub fn dtype_and_shape(&self, key: &[u8]) -> Result<(DType, Shape)> {
        entry::dtype_and_shape(key, &self.entry(key)?)
    }

    /// A whole tensor, put together if it is stored in slices.
    ///
    /// # Errors
    /// As [`BundleReader::read_all`].
    pub fn read(&self, key: &[u8]) -> Result<Tensor> {
        let request = Request { key, slice: None };
        let mut tensors = self.read_all(&[request], Parallel::SERIAL)?;
        tensors.pop().ok_or_else(|| not_found!("Key {} not found in checkpoint", show(key)))
    }

    /// The wanted tensors, in the order of the requests. Large plain tensors that are stored whole are read and
    /// checked by several threads, straight into the tensors' memory.
    ///
    /// # Errors
    /// `NotFound` if there is no tensor of a name, `DataLoss` if a checksum does not match, `OutOfRange` if a data
    /// file is too short, `InvalidArgument` if a slice does not fit or is not stored.
    pub fn read_all(
        &self,
        requests: &[Request<'_>],
        parallel: Parallel<'_>,
    ) -> Result<Vec<Tensor>> {
        let mut tensors = Vec::with_capacity(requests.len());
        let mut reads = Vec::new();
        for request in requests {
            let (key, entry) = (request.key, self.entry(request.key)?);
            let (dtype, shape) = entry::dtype_and_shape(key, &entry)?;
            let slice = request.slice.clone().unwrap_or_else(|| TensorSlice::full(shape.rank()));
            let is_whole = entry.slices.is_empty() && slice.shape_of(&shape)? == shape;
            if is_whole && dtype.is_plain() && dtype != DType::BOOL {
                reads.push((tensors.len(), self.locate(key, &entry, &shape)?, entry));
                tensors.push(Tensor::allocate(dtype, shape, None)?);
            } else if is_whole {
                tensors.push(self.read_entry(key, &entry)?);
            } else {
                tensors.push(self.read_slice(key, &entry, &slice)?);
            }
        }
        self.fill(&mut tensors, &reads, parallel)?;
        Ok(tensors)
    }

    /// Reads plain tensors piece by piece.
    fn fill(
        &self,
        tensors: &mut [Tensor],
        reads: &[(usize, Arc<Shard>, BundleEntryProto)],
        parallel: Parallel<'_>,
    ) -> Result<()> {
        let mut pieces = Vec::new();
        let mut next = reads.iter().peekable();
        for (number, tensor) in tensors.iter_mut().enumerate() {
            let Some((_, shard, entry)) = next.next_if(|read| read.0 == number) else { continue };
            let bytes = tensor.elems_mut()?.bytes();
            let mut offset = entry.offset as u64;
            for piece in bytes.chunks_mut(PIECE) {
                let len = piece.len();
                pieces.push(Piece { number, len, shard, offset, work: Mutex::new(Err(piece)) });
                offset += len as u64;
            }
        }
        let total: usize = pieces.iter().map(|piece| piece.len).sum();
        let parallel = if total < PIECE { Parallel::SERIAL } else { parallel };
        parallel.for_each_chunk(pieces.len(), 1, &|range| {
            pieces[range].iter().for_each(Piece::read);
        });
        let mut outcomes = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let Ok(outcome) = piece.work.into_inner() else { continue };
            outcomes.push((piece.number, piece.len, outcome?));
        }
        let mut outcomes = outcomes.into_iter().peekable();
        for (number, _, entry) in reads {
            let mut crc = 0;
            while let Some((_, len, part)) = outcomes.next_if(|outcome| outcome.0 == *number) {
                crc = crc32c::crc32c_combine(crc, part, len);
            }
            self.check(entry, crc)?;
            if self.swap {
                swap_bytes(&mut tensors[*number])?;
            }
        }
        Ok(())
    }

    /// The tensor of one entry, on this thread.
    fn read_entry(&self, key: &[u8], entry: &BundleEntryProto) -> Result<Tensor> {
        let (dtype, shape) = entry::dtype_and_shape(key, entry)?;
        let shard = self.locate(key, entry, &shape)?;
        if dtype.is_plain() && dtype != DType::BOOL {
            let mut tensors = [Tensor::allocate(dtype, shape, None)?];
            self.fill(&mut tensors, &[(0, shard, entry.clone())], Parallel::SERIAL)?;
            let [tensor] = tensors;
            return Ok(tensor);
        }
        let bytes = shard.bytes(entry)?;
        let mut tensor = Tensor::zeros(dtype, shape)?;
        let crc = match dtype {
            DType::STRING => strings::decode(&bytes, tensor.as_mut_slice()?, self.swap)?,
            DType::BOOL => {
                for (value, byte) in tensor.as_mut_slice::<bool>()?.iter_mut().zip(&bytes) {
                    *value = *byte != 0;
                }
                crc32c::crc32c(&bytes)
            }
            _ => {
                return Err(unimplemented_error!(
                    "Restoring tensor {} of type {dtype} is not supported",
                    show(key)
                ));
            }
        };
        self.check(entry, crc)?;
        Ok(tensor)
    }

    /// A slice, put together from those that are stored.
    fn read_slice(
        &self,
        key: &[u8],
        entry: &BundleEntryProto,
        wanted: &TensorSlice,
    ) -> Result<Tensor> {
        let (dtype, full) = entry::dtype_and_shape(key, entry)?;
        let mut set = SliceSet::new(full.clone(), dtype);
        if entry.slices.is_empty() {
            set.add(TensorSlice::full(full.rank()), 0)?;
        }
        for proto in &entry.slices {
            set.add(TensorSlice::from_proto(proto)?, 0)?;
        }
        let stored = set.covering(wanted).ok_or_else(|| {
            invalid!(
                "Does not have sufficient slices for partitioned tensor {} to restore in slice_spec: {wanted}",
                show(key)
            )
        })?;
        let read_stored = |slice: &TensorSlice| {
            if slice.is_full() && entry.slices.is_empty() {
                return self.read_entry(key, entry);
            }
            let key = slice_key(key, slice);
            let entry = self.entry(&key)?;
            let (stored_dtype, shape) = entry::dtype_and_shape(&key, &entry)?;
            if stored_dtype != dtype || shape != slice.shape_of(&full)? || !entry.slices.is_empty()
            {
                return Err(data_loss!("Invalid entry for slice {slice} of key {}", show(&key)));
            }
            self.read_entry(&key, &entry)
        };
        if let [(only, _)] = &stored[..]
            && only == wanted
        {
            return read_stored(only);
        }
        if !dtype.is_plain() {
            return Err(invalid!("Dtype {dtype} not supported."));
        }
        // The slices are whole before there is memory for what they make up.
        let parts = stored.iter().map(|(slice, _)| Ok((slice, read_stored(slice)?)));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let mut tensor = Tensor::zeros(dtype, wanted.shape_of(&full)?)?;
        for (slice, part) in parts {
            copy_common(&full, (slice, &part), (wanted, &mut tensor))?;
        }
        Ok(tensor)
    }

    /// The data file of an entry, which is long enough for it.
    fn locate(&self, key: &[u8], entry: &BundleEntryProto, shape: &Shape) -> Result<Arc<Shard>> {
        let dtype = DType::from_i32(entry.dtype).unwrap_or(DType::STRING);
        let count = shape.count() as u64;
        let wrong = |expected: String| {
            data_loss!(
                "Invalid size in bundle entry: key {}; stored size {}; expected size {expected}",
                show(key),
                entry.size
            )
        };
        let size = u64::try_from(entry.size).map_err(|_| wrong("is at least 0".into()))?;
        if dtype.is_plain() {
            let expected = count.checked_mul(dtype.size() as u64);
            if expected != Some(size) {
                return Err(wrong(expected.map_or("too large".into(), |size| size.to_string())));
            }
        } else if size < count {
            return Err(wrong(format!("is at least {count}")));
        }
        let shard = self.shard(entry.shard_id)?;
        let offset = u64::try_from(entry.offset).ok();
        let end = offset.and_then(|offset| offset.checked_add(size));
        if end.is_none_or(|end| end > shard.size) {
            return Err(out_of_range!("Read less bytes than requested"));
        }
        Ok(shard)
    }

    fn shard(&self, id: i32) -> Result<Arc<Shard>> {
        if let Some(shard) = self.shards.lock().get(&id) {
            return Ok(shard.clone());
        }
        let path = data_path(&self.prefix, id, self.num_shards);
        let file = self.files.open(&path)?;
        let shard = Arc::new(Shard { file, size: self.files.file_size(&path)? });
        Ok(self.shards.lock().entry(id).or_insert(shard).clone())
    }

    fn check(&self, entry: &BundleEntryProto, crc: u32) -> Result<()> {
        let stored = unmask(entry.crc32c);
        if stored != crc {
            return Err(data_loss!(
                "TensorBundle at {} shard {} ({} bytes): Checksum does not match: stored {stored:08} vs. \
                 calculated on the restored bytes {crc}",
                self.prefix.display(),
                entry.shard_id,
                entry.size
            ));
        }
        Ok(())
    }
}

impl Shard {
    /// The bytes of an entry that lies within the file.
    fn bytes(&self, entry: &BundleEntryProto) -> Result<Vec<u8>> {
        let len = usize::try_from(entry.size).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(len)
            .map_err(|_| resource_exhausted!("No memory for {len} bytes of a checkpoint"))?;
        bytes.resize(len, 0);
        self.file.read_exact_at(entry.offset as u64, &mut bytes)?;
        Ok(bytes)
    }
}

/// A part of a tensor's bytes that is to be read.
struct Piece<'a> {
    /// The tensor's number.
    number: usize,
    len: usize,
    shard: &'a Shard,
    offset: u64,
    /// The memory to fill; afterwards the checksum.
    work: Mutex<std::result::Result<Result<u32>, &'a mut [u8]>>,
}

impl Piece<'_> {
    fn read(&self) {
        let mut work = self.work.lock();
        if let Err(memory) = &mut *work {
            let mut crc = 0;
            let mut offset = self.offset;
            let mut outcome = Ok(());
            for chunk in memory.chunks_mut(CHUNK) {
                outcome = self.shard.file.read_exact_at(offset, chunk);
                if outcome.is_err() {
                    break;
                }
                crc = crc32c::crc32c_append(crc, chunk);
                offset += chunk.len() as u64;
            }
            *work = Ok(outcome.map(|()| crc));
        }
    }
}

/// Turns the byte order of each number round; complex numbers are two.
fn swap_bytes(tensor: &mut Tensor) -> Result<()> {
    let dtype = tensor.dtype();
    let width = if dtype.is_complex() { dtype.size() / 2 } else { dtype.size() };
    if width > 1 {
        tensor.elems_mut()?.bytes().chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    Ok(())
}

fn corrupt(error: Error, path: &Path, detail: &str) -> Error {
    let message = format!(
        "Unable to read file ({}). Perhaps the file is corrupt or was produced by a newer version of \
         TensorFlow with format changes ({detail}): {}",
        path.display(),
        error.message()
    );
    error.with_message(message)
}

/// The header of an index.
pub(crate) fn read_header(table: &Table, path: &Path) -> Result<BundleHeaderProto> {
    let value = table.get(HEADER_KEY);
    let value = value.map_err(|error| corrupt(error, path, "failed to seek to header entry"))?;
    let value = value.ok_or_else(|| {
        let error = data_loss!("no header entry");
        corrupt(error, path, "failed to seek to header entry")
    })?;
    let header = BundleHeaderProto::decode(&value[..])
        .map_err(|_| data_loss!("Entry for key  not parseable."))
        .map_err(|error| corrupt(error, path, "unable to parse header"))?;
    match header.num_shards {
        1.. => Ok(header),
        _ => {
            Err(corrupt(data_loss!("{} shards", header.num_shards), path, "unable to parse header"))
        }
    }
}

/// The number of shards of the checkpoint that is at `prefix`, if one can be read.
pub(crate) fn num_shards(files: &Files, prefix: &Path) -> Option<i32> {
    let path = index_path(prefix);
    let table = Table::open(files, &path).ok()?;
    Some(read_header(&table, &path).ok()?.num_shards)
}
