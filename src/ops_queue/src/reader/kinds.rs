//! What the kinds of readers make of a piece of work.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tfcore_base::{Code, Error, Result, invalid, not_found, require, unimplemented_error};
use tfcore_files::Files;
use tfcore_framework::KernelInit;

use super::Record;

/// A kind of reader.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// The name of the work.
    Identity,
    WholeFile,
    /// Lines, without those of the header.
    TextLines {
        header: u64,
    },
    /// Records of so many bytes, a new one every `hop` bytes.
    FixedLength {
        header: usize,
        record: usize,
        footer: usize,
        hop: usize,
    },
    TfRecords,
}

/// Work that is under way.
pub(super) struct Work {
    name: Vec<u8>,
    /// The file, unless the name is all.
    content: Vec<u8>,
    /// The first byte that is still to be read.
    position: usize,
    /// The records before.
    count: u64,
}

impl Kind {
    pub(super) fn text_lines(init: &KernelInit<'_>) -> Result<Kind> {
        let header = init.attrs.int("skip_header_lines")?;
        let header = u64::try_from(header)
            .map_err(|_| invalid!("skip_header_lines must be >= 0 not {header}"))?;
        Ok(Kind::TextLines { header })
    }

    pub(super) fn fixed_length(init: &KernelInit<'_>) -> Result<Kind> {
        let size = |name: &str, least: i64| {
            let size = init.attrs.int(name)?;
            require!(size >= least, "{name} must be >= {least} not {size}");
            Ok(size as usize)
        };
        let header = size("header_bytes", 0)?;
        let record = size("record_bytes", 0)?;
        let footer = size("footer_bytes", 0)?;
        let hop = match size("hop_bytes", 0)? {
            0 => record,
            hop => hop,
        };
        // The first version of the op lacks the attr, and the reference cannot build its kernel.
        if !init.attrs.contains("encoding") {
            return Err(not_found!("No attr named 'encoding' in NodeDef:"));
        }
        if init.attrs.str("encoding")? == "ZLIB" {
            return Err(unimplemented_error!("{}: encoding ZLIB is not supported", init.op.name));
        }
        require!(record > 0, "record_bytes must be > 0 not {record}");
        Ok(Kind::FixedLength { header, record, footer, hop })
    }

    pub(super) fn tf_records(init: &KernelInit<'_>) -> Result<Kind> {
        match init.attrs.str("compression_type")? {
            "" => Ok(Kind::TfRecords),
            other => Err(unimplemented_error!(
                "{}: compression_type {other} is not supported",
                init.op.name
            )),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Kind::Identity => "IdentityReader",
            Kind::WholeFile => "WholeFileReader",
            Kind::TextLines { .. } => "TextLineReader",
            Kind::FixedLength { .. } => "FixedLengthRecordReader",
            Kind::TfRecords => "TFRecordReader",
        }
    }

    /// True if each piece of work is one record.
    pub(super) fn is_single(&self) -> bool {
        matches!(self, Kind::Identity | Kind::WholeFile)
    }

    /// Begins a piece of work.
    pub(super) fn begin(&self, files: &Files, name: Vec<u8>) -> Result<Work> {
        let content = match self {
            Kind::Identity => Vec::new(),
            _ => files.read(Path::new(OsStr::from_bytes(&name)))?.to_vec(),
        };
        let mut work = Work { name, content, position: 0, count: 0 };
        match self {
            Kind::TextLines { header } => {
                for _ in 0..*header {
                    if work.line().is_none() {
                        break;
                    }
                }
            }
            Kind::FixedLength { header, record, footer, hop } => {
                let body = work.content.len().checked_sub(header + footer);
                let Some(body) = body else {
                    return Err(invalid!("The file is shorter than its header and footer"));
                };
                let whole = if hop == record { body % record == 0 } else { true };
                require!(
                    whole,
                    "Excluding the header ({header} bytes) and footer ({footer} bytes), input file has body length {body} \
                     bytes, which is not an exact multiple of the record length ({record} bytes)."
                );
                work.position = *header;
            }
            _ => {}
        }
        Ok(work)
    }

    /// The next record: key and value.
    pub(super) fn next(&self, work: &mut Work) -> Result<Option<Record>> {
        match self {
            Kind::Identity => Ok(Some((work.name.clone(), work.name.clone()))),
            Kind::WholeFile => Ok(Some((work.name.clone(), std::mem::take(&mut work.content)))),
            Kind::TextLines { .. } => Ok(work.line().map(|line| (work.key(work.count), line))),
            Kind::FixedLength { record, footer, hop, .. } => {
                let limit = work.content.len() - footer;
                let end = work.position.saturating_add(*record);
                if end > limit {
                    return Ok(None);
                }
                let value = work.content[work.position..end].to_vec();
                let key = work.key(work.count);
                work.position = work.position.saturating_add(*hop);
                work.count += 1;
                Ok(Some((key, value)))
            }
            Kind::TfRecords => work.tf_record(),
        }
    }
}

impl Work {
    fn key(&self, number: u64) -> Vec<u8> {
        [&self.name[..], format!(":{number}").as_bytes()].concat()
    }

    /// The next line, without its end.
    fn line(&mut self) -> Option<Vec<u8>> {
        let rest = self.content.get(self.position..).filter(|rest| !rest.is_empty())?;
        let end = rest.iter().position(|&byte| byte == b'\n');
        let line: Vec<u8> = rest[..end.unwrap_or(rest.len())]
            .iter()
            .copied()
            .filter(|&byte| byte != b'\r')
            .collect();
        self.position += end.map_or(rest.len(), |end| end + 1);
        self.count += 1;
        Some(line)
    }

    /// The next record of a file whose records have their length and checksums.
    fn tf_record(&mut self) -> Result<Option<Record>> {
        let start = self.position;
        let rest = &self.content[start..];
        if rest.is_empty() {
            return Ok(None);
        }
        let lost = |what: &str| Error::new(Code::DataLoss, format!("{what} record at {start}"));
        let header = rest.get(..12).ok_or_else(|| lost("truncated"))?;
        let (len, sum) = header.split_at(8);
        require_checksum(len, sum).ok_or_else(|| lost("corrupted"))?;
        let len = u64::from_le_bytes(len.try_into().map_err(|_| lost("truncated"))?);
        let end = usize::try_from(len)
            .ok()
            .and_then(|len| len.checked_add(12))
            .filter(|end| rest.len() >= 4 && *end <= rest.len() - 4)
            .ok_or_else(|| lost("truncated"))?;
        let value = &rest[12..end];
        require_checksum(value, &rest[end..end + 4]).ok_or_else(|| lost("corrupted"))?;
        let record = (self.key(start as u64), value.to_vec());
        self.position += end + 4;
        Ok(Some(record))
    }
}

/// `None` unless the four bytes are the masked checksum of `bytes`.
fn require_checksum(bytes: &[u8], sum: &[u8]) -> Option<()> {
    let masked = crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8);
    (masked.to_le_bytes() == sum).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(kind: &Kind, content: &[u8]) -> Result<Vec<(String, Vec<u8>)>> {
        let mut work =
            Work { name: b"f".to_vec(), content: content.to_vec(), position: 0, count: 0 };
        let mut found = vec![];
        while let Some((key, value)) = kind.next(&mut work)? {
            found.push((String::from_utf8_lossy(&key).into_owned(), value));
        }
        Ok(found)
    }

    #[test]
    fn files_are_cut_into_records() {
        let lines = records(&Kind::TextLines { header: 0 }, b"a\r\n\nb").unwrap();
        let expected = [("f:1", "a"), ("f:2", ""), ("f:3", "b")];
        assert_eq!(lines, expected.map(|(key, value)| (key.to_string(), value.into())));
        let kind = Kind::FixedLength { header: 0, record: 2, footer: 1, hop: 2 };
        let expected = [("f:0", "ab"), ("f:1", "cd")];
        assert_eq!(
            records(&kind, b"abcdX").unwrap(),
            expected.map(|(key, value)| (key.to_string(), value.into()))
        );
    }

    #[test]
    fn damaged_records_are_data_loss() {
        let mut file = 3u64.to_le_bytes().to_vec();
        let masked = |bytes: &[u8]| {
            crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
        };
        file.extend(masked(&3u64.to_le_bytes()));
        file.extend(b"abc");
        file.extend(masked(b"abc"));
        let found = records(&Kind::TfRecords, &file).unwrap();
        assert_eq!(found, [("f:0".to_string(), b"abc".to_vec())]);
        for len in 1..file.len() {
            let error = records(&Kind::TfRecords, &file[..len]).unwrap_err();
            assert_eq!(error.code(), Code::DataLoss, "{len}");
        }
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            assert!(records(&Kind::TfRecords, &damaged).is_err(), "{at}");
        }
    }
}
