//! Datasets of the records of files: lines, TFRecords, records of one length, and the names of files.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tfcore_base::{Error, Result, data_loss, invalid, not_found, out_of_range, require};
use tfcore_files::{RandomAccessFile, WritableFile};
use tfcore_framework::Registry;
use tfcore_tensor::{TString, Tensor};

use crate::args::{Args, Build, dataset_kernel, handle_shape};
use crate::dataset::{Iter, IterContext, Rule};

pub(crate) fn register(r: &mut Registry) {
    for (name, build) in [
        // `TextLineDataset(filenames: string, compression_type: string, buffer_size: int64) -> handle`.
        ("TextLineDataset", text_lines as Build),
        // `TFRecordDataset(filenames: string, compression_type: string, buffer_size: int64) -> handle`.
        ("TFRecordDataset", tf_records),
        ("TFRecordDatasetV2", tf_records),
        // `FixedLengthRecordDataset(filenames: string, header_bytes: int64, record_bytes: int64,
        // footer_bytes: int64, buffer_size: int64) -> handle`.
        ("FixedLengthRecordDataset", fixed_records),
        ("FixedLengthRecordDatasetV2", fixed_records),
        // `MatchingFilesDataset(patterns: string) -> handle`.
        ("MatchingFilesDataset", matching_files),
        ("ExperimentalMatchingFilesDataset", matching_files),
    ] {
        r.op(name).shape(handle_shape).cpu(move |init| dataset_kernel(init, build));
    }
}

/// How the bytes of a file are packed.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Compression {
    None,
    Zlib,
    Gzip,
    /// Blocks of Snappy, each behind its length. Snapshots alone may be packed like that.
    Snappy,
}

impl Compression {
    pub(crate) fn named(name: &[u8]) -> Result<Compression> {
        match name {
            b"" => Ok(Compression::None),
            b"ZLIB" => Ok(Compression::Zlib),
            b"GZIP" => Ok(Compression::Gzip),
            other => {
                Err(invalid!("Unsupported compression_type: {}.", String::from_utf8_lossy(other)))
            }
        }
    }
}

/// A file as a stream of bytes.
struct Stream {
    file: Box<dyn RandomAccessFile>,
    offset: u64,
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(self.offset, out).map_err(io::Error::other)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// Bytes of a file behind its compression.
pub(crate) type Bytes = Box<dyn BufRead + Send>;

/// Opens a file for reading from its begin to its end.
///
/// # Errors
/// `NotFound` and those of the file system.
pub(crate) fn open(ctx: &IterContext, name: &Path, compression: Compression) -> Result<Bytes> {
    const BUFFER: usize = 256 * 1024;
    let stream = Stream { file: ctx.files.open(name)?, offset: 0 };
    let stream = BufReader::with_capacity(BUFFER, stream);
    Ok(match compression {
        Compression::None => Box::new(stream),
        Compression::Zlib => Box::new(BufReader::new(flate2::bufread::ZlibDecoder::new(stream))),
        Compression::Gzip => Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(stream))),
        Compression::Snappy => {
            let blocks = SnappyBlocks { packed: stream, block: Vec::new(), at: 0 };
            Box::new(BufReader::new(blocks))
        }
    })
}

/// Blocks of Snappy, each behind its packed length in four bytes, the most significant first.
struct SnappyBlocks<R> {
    packed: R,
    block: Vec<u8>,
    at: usize,
}

impl<R: BufRead> Read for SnappyBlocks<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.block.len() {
            if self.packed.fill_buf()?.is_empty() {
                return Ok(0);
            }
            let mut length = [0; 4];
            self.packed.read_exact(&mut length)?;
            let length = u32::from_be_bytes(length);
            let mut packed = Vec::new();
            (&mut self.packed).take(u64::from(length)).read_to_end(&mut packed)?;
            // No block becomes more than 64 times as long, whatever it claims.
            let claimed = snap::raw::decompress_len(&packed).map_err(io::Error::other)?;
            if packed.len() < length as usize || claimed / 64 > packed.len() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.block =
                snap::raw::Decoder::new().decompress_vec(&packed).map_err(io::Error::other)?;
            self.at = 0;
        }
        let count = out.len().min(self.block.len() - self.at);
        out[..count].copy_from_slice(&self.block[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// The error of the file system inside an error of a stream.
pub(crate) fn stream_error(error: io::Error) -> Error {
    match error.into_inner() {
        Some(inner) => match inner.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => data_loss!("{other}"),
        },
        None => data_loss!("Failed to uncompress"),
    }
}

/// Reads at most `count` bytes; memory grows with what is there, not with what is claimed.
pub(crate) fn read_up_to(bytes: &mut Bytes, count: u64) -> Result<Vec<u8>> {
    let mut read = Vec::new();
    bytes.take(count).read_to_end(&mut read).map_err(stream_error)?;
    Ok(read)
}

/// The names at input `filenames`.
///
/// # Errors
/// `InvalidArgument` for a matrix of names.
pub(crate) fn file_names(args: &Args<'_, '_>) -> Result<Vec<PathBuf>> {
    let names = args.tensor("filenames")?;
    require!(names.rank() <= 1, "`filenames` must be a scalar or a vector.");
    let path = |name: &TString| PathBuf::from(std::ffi::OsStr::from_bytes(name.as_bytes()));
    Ok(names.as_slice::<TString>()?.iter().map(path).collect())
}

fn check_buffer_size(args: &Args<'_, '_>) -> Result<()> {
    let size: i64 = args.scalar("buffer_size")?;
    require!(size >= 0, "`buffer_size` must be >= 0 (0 == no buffering)");
    Ok(())
}

fn compression(args: &Args<'_, '_>) -> Result<Compression> {
    if !args.has_input("compression_type") {
        return Ok(Compression::None);
    }
    Compression::named(&args.text("compression_type")?)
}

/// Files one after the other, each read by `next` to its end.
fn over_files<F>(names: Vec<PathBuf>, mut next: F) -> Result<Iter>
where
    F: FnMut(&IterContext, usize, &mut Option<Bytes>) -> Result<Option<Vec<u8>>> + Send + 'static,
{
    let (mut index, mut open) = (0, None);
    Iter::new(move |ctx| {
        while index < names.len() {
            let record = next(ctx, index, &mut open);
            match record {
                Ok(Some(record)) => {
                    return Ok(Some(vec![Tensor::scalar(TString::from(&record[..]))]));
                }
                Ok(None) => (open, index) = (None, index + 1),
                // What comes after an error is the next file.
                Err(error) => {
                    (open, index) = (None, index + 1);
                    return Err(error);
                }
            }
        }
        Ok(None)
    })
}

/// The stream, opened if it is not yet.
fn opened<'b>(
    bytes: &'b mut Option<Bytes>,
    ctx: &IterContext,
    name: &Path,
    compression: Compression,
) -> Result<&'b mut Bytes> {
    match bytes {
        Some(bytes) => Ok(bytes),
        None => Ok(bytes.insert(open(ctx, name, compression)?)),
    }
}

struct TextLines {
    names: Vec<PathBuf>,
    compression: Compression,
}

fn text_lines(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let (names, compression) = (file_names(args)?, compression(args)?);
    check_buffer_size(args)?;
    Ok(Arc::new(TextLines { names, compression }))
}

impl Rule for TextLines {
    fn iterate(self: Arc<Self>, _: &IterContext) -> Result<Iter> {
        over_files(self.names.clone(), move |ctx, index, bytes| {
            let bytes = opened(bytes, ctx, &self.names[index], self.compression)?;
            let mut line = Vec::new();
            if bytes.read_until(b'\n', &mut line).map_err(stream_error)? == 0 {
                return Ok(None);
            }
            // The reference drops every carriage return of a line, and the end of the line.
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            line.retain(|&byte| byte != b'\r');
            Ok(Some(line))
        })
    }
}

struct TfRecords {
    names: Vec<PathBuf>,
    compression: Compression,
    /// Where the reading begins in each file.
    offsets: Vec<u64>,
}

fn tf_records(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let names = file_names(args)?;
    let compression =
        Compression::named(&args.text("compression_type")?).unwrap_or(Compression::None);
    let mut offsets = Vec::new();
    if args.has_input("byte_offsets") {
        for offset in args.vector::<i64>("byte_offsets")? {
            offsets.push(
                u64::try_from(offset)
                    .map_err(|_| invalid!("`byte_offsets` must be greater than or equal to 0"))?,
            );
        }
    }
    Ok(Arc::new(TfRecords { names, compression, offsets }))
}

impl Rule for TfRecords {
    fn iterate(self: Arc<Self>, _: &IterContext) -> Result<Iter> {
        let mut at = 0u64;
        over_files(self.names.clone(), move |ctx, index, bytes| {
            if bytes.is_none() {
                let stream = bytes.insert(open(ctx, &self.names[index], self.compression)?);
                at = self.offsets.get(index).copied().unwrap_or(0);
                skip(stream, at)?;
            }
            match bytes {
                Some(bytes) => record(bytes, &mut at),
                None => Ok(None),
            }
        })
    }
}

fn skip(bytes: &mut Bytes, count: u64) -> Result<()> {
    io::copy(&mut bytes.take(count), &mut io::sink()).map_err(stream_error)?;
    Ok(())
}

/// The next record of a TFRecord file: its length, a checksum of that, its bytes, a checksum of those. `None` at the end.
///
/// # Errors
/// `DataLoss` for a record that is cut off or damaged.
pub(crate) fn record(bytes: &mut Bytes, at: &mut u64) -> Result<Option<Vec<u8>>> {
    let Some(header) = checked(bytes, 8, *at)? else {
        return Ok(None);
    };
    let mut length = [0; 8];
    length.copy_from_slice(&header);
    let length = u64::from_le_bytes(length);
    let body = checked(bytes, length, *at)?.ok_or_else(|| truncated(*at))?;
    *at = at.saturating_add(16).saturating_add(length);
    Ok(Some(body))
}

fn truncated(at: u64) -> Error {
    data_loss!("truncated record at {at}")
}

/// `count` bytes and their checksum; `None` if there is not one byte.
fn checked(bytes: &mut Bytes, count: u64, at: u64) -> Result<Option<Vec<u8>>> {
    let mut read = read_up_to(bytes, count.saturating_add(4))?;
    if read.is_empty() {
        return Ok(None);
    }
    if (read.len() as u64) < count.saturating_add(4) {
        return Err(truncated(at));
    }
    let sum = read.split_off(read.len() - 4);
    let expected = u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]);
    if masked(&read) != expected {
        let hint = if at == 0 { " (Is this even a TFRecord file?)" } else { "" };
        return Err(data_loss!("corrupted record at {at}{hint}"));
    }
    Ok(Some(read))
}

/// The checksum of a record's part: CRC32C, rotated and shifted so that it is none of itself.
pub(crate) fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Writes a TFRecord file.
pub(crate) struct RecordWriter {
    file: Box<dyn WritableFile>,
    compression: Packer,
}

/// What packs the bytes, with those that are packed and not written.
enum Packer {
    None(Vec<u8>),
    Snappy(Vec<u8>),
    Zlib(flate2::write::ZlibEncoder<Vec<u8>>),
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
}

impl RecordWriter {
    /// # Errors
    /// Those of the file system.
    pub(crate) fn create(ctx: &IterContext, name: &Path, compression: Compression) -> Result<Self> {
        let level = flate2::Compression::default();
        let compression = match compression {
            Compression::None => Packer::None(Vec::new()),
            Compression::Snappy => Packer::Snappy(Vec::new()),
            Compression::Zlib => Packer::Zlib(flate2::write::ZlibEncoder::new(Vec::new(), level)),
            Compression::Gzip => Packer::Gzip(flate2::write::GzEncoder::new(Vec::new(), level)),
        };
        Ok(RecordWriter { file: ctx.files.create(name)?, compression })
    }

    /// # Errors
    /// Those of the file system.
    pub(crate) fn write(&mut self, record: &[u8]) -> Result<()> {
        let length = (record.len() as u64).to_le_bytes();
        let sums = [masked(&length).to_le_bytes(), masked(record).to_le_bytes()];
        for part in [&length[..], &sums[0], record, &sums[1]] {
            let written = match &mut self.compression {
                Packer::None(bytes) | Packer::Snappy(bytes) => bytes.write_all(part),
                Packer::Zlib(packer) => packer.write_all(part),
                Packer::Gzip(packer) => packer.write_all(part),
            };
            written.map_err(stream_error)?;
        }
        if let Packer::Snappy(bytes) = &mut self.compression {
            pack_snappy(&mut self.file, bytes)?;
        }
        let ready = match &mut self.compression {
            Packer::None(bytes) | Packer::Snappy(bytes) => bytes,
            Packer::Zlib(packer) => packer.get_mut(),
            Packer::Gzip(packer) => packer.get_mut(),
        };
        self.file.append(ready)?;
        ready.clear();
        Ok(())
    }

    /// # Errors
    /// Those of the file system.
    pub(crate) fn close(mut self) -> Result<()> {
        let rest = match self.compression {
            Packer::None(bytes) | Packer::Snappy(bytes) => Ok(bytes),
            Packer::Zlib(packer) => packer.finish(),
            Packer::Gzip(packer) => packer.finish(),
        };
        self.file.append(&rest.map_err(stream_error)?)?;
        self.file.close()
    }
}

/// Writes the bytes as blocks.
fn pack_snappy(file: &mut Box<dyn WritableFile>, bytes: &mut Vec<u8>) -> Result<()> {
    const BLOCK: usize = 256 * 1024;
    for block in bytes.chunks(BLOCK) {
        let packed = snap::raw::Encoder::new().compress_vec(block);
        let packed = packed.map_err(|error| data_loss!("Failed to compress: {error}"))?;
        file.append(&(packed.len() as u32).to_be_bytes())?;
        file.append(&packed)?;
    }
    bytes.clear();
    Ok(())
}

struct FixedRecords {
    names: Vec<PathBuf>,
    compression: Compression,
    header: u64,
    record: u64,
    footer: u64,
}

fn fixed_records(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let names = file_names(args)?;
    let size = |name: &str, least: i64, text: &str| {
        let value: i64 = args.scalar(name)?;
        require!(value >= least, "`{name}` must be {text}");
        Ok(value as u64)
    };
    let header = size("header_bytes", 0, ">= 0")?;
    let record = size("record_bytes", 1, "> 0")?;
    let footer = size("footer_bytes", 0, ">= 0")?;
    check_buffer_size(args)?;
    let compression = compression(args)?;
    Ok(Arc::new(FixedRecords { names, compression, header, record, footer }))
}

impl Rule for FixedRecords {
    fn iterate(self: Arc<Self>, _: &IterContext) -> Result<Iter> {
        let mut left = 0;
        over_files(self.names.clone(), move |ctx, index, bytes| {
            let name = &self.names[index];
            if bytes.is_none() {
                // Where the footer begins is known from the whole length alone.
                let size = match self.compression {
                    Compression::None => ctx.files.file_size(name)?,
                    packed => io::copy(&mut open(ctx, name, packed)?, &mut io::sink())
                        .map_err(stream_error)?,
                };
                let around = self.header.saturating_add(self.footer);
                let body = size.checked_sub(around);
                let body = body.filter(|body| body.is_multiple_of(self.record));
                left = body.ok_or_else(|| {
                    invalid!(
                        "Excluding the header ({} bytes) and footer ({} bytes), input file \"{}\" has body length {} \
                         bytes, which is not an exact multiple of the record length ({} bytes).",
                        self.header,
                        self.footer,
                        name.display(),
                        size as i64 - around as i64,
                        self.record
                    )
                })? / self.record;
                let stream = bytes.insert(open(ctx, name, self.compression)?);
                skip(stream, self.header)?;
            }
            let Some(bytes) = bytes else {
                return Ok(None);
            };
            if left == 0 {
                return Ok(None);
            }
            left -= 1;
            let read = read_up_to(bytes, self.record)?;
            if (read.len() as u64) < self.record {
                return Err(out_of_range!("Read less bytes than requested"));
            }
            Ok(Some(read))
        })
    }
}

struct MatchingFiles(Vec<PathBuf>);

fn matching_files(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let patterns = args.tensor("patterns")?;
    require!(patterns.rank() <= 1, "`patterns` must be a scalar or a vector.");
    let path = |name: &TString| PathBuf::from(std::ffi::OsStr::from_bytes(name.as_bytes()));
    Ok(Arc::new(MatchingFiles(patterns.as_slice::<TString>()?.iter().map(path).collect())))
}

impl Rule for MatchingFiles {
    fn iterate(self: Arc<Self>, _: &IterContext) -> Result<Iter> {
        let mut found: Option<VecDeque<Vec<u8>>> = None;
        Iter::new(move |ctx| {
            if found.is_none() {
                let mut names: Vec<Vec<u8>> = Vec::new();
                for pattern in &self.0 {
                    let matching = ctx.files.matching(pattern)?;
                    let bytes = |name: PathBuf| name.as_os_str().as_bytes().to_vec();
                    let mut matching: Vec<Vec<u8>> = matching.into_iter().map(bytes).collect();
                    matching.sort();
                    names.extend(matching);
                }
                if names.is_empty() {
                    return Err(not_found!("Don't find any matched files"));
                }
                found = Some(names.into());
            }
            let next = found.as_mut().and_then(VecDeque::pop_front);
            Ok(next.map(|name| vec![Tensor::scalar(TString::from(&name[..]))]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of "abc": the length, its checksum, the bytes, theirs.
    #[test]
    fn records_are_read_and_checked() {
        let length = 3u64.to_le_bytes();
        let whole =
            [&length[..], &masked(&length).to_le_bytes(), b"abc", &masked(b"abc").to_le_bytes()]
                .concat();
        let read = |bytes: Vec<u8>| -> Result<Option<Vec<u8>>> {
            let mut stream: Bytes = Box::new(io::Cursor::new(bytes));
            record(&mut stream, &mut 0)
        };
        assert_eq!(read(whole.clone()).unwrap().unwrap(), b"abc");
        assert!(read(Vec::new()).unwrap().is_none());
        assert!(read(whole[..17].to_vec()).unwrap_err().message().starts_with("truncated"));
        let mut damaged = whole;
        damaged[13] ^= 1;
        assert!(read(damaged).unwrap_err().message().starts_with("corrupted record at 0"));
        // CRC32C's check value is e3069283; the rest is done by hand.
        assert_eq!(masked(b"123456789"), 0xc78a_b0e5);
    }
}
