//! Many files in one: an index and the files one after the other, compressed together with xz.
//!
//! Uncompressed, a pack is the number of files (u32, little-endian), for each file the length of
//! its name (u32), the name and its size (u64), and then all contents in the same order.

use std::io::{Read, Write};
use std::path::Path;

use lzma_rust2::{XzOptions, XzReader, XzWriter};

/// Files with their paths inside the pack.
pub(crate) type Files = Vec<(String, Vec<u8>)>;

/// The strongest setting; its window of 64 MiB sees all of a pack.
const PRESET: u32 = 9;

pub(crate) fn compress(files: &Files) -> Result<Vec<u8>, String> {
    let mut index = length_bytes(files.len())?;
    for (name, contents) in files {
        index.extend(length_bytes(name.len())?);
        index.extend_from_slice(name.as_bytes());
        index.extend_from_slice(&(contents.len() as u64).to_le_bytes());
    }
    let compress = || -> std::io::Result<Vec<u8>> {
        let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(PRESET))?;
        writer.write_all(&index)?;
        for (_, contents) in files {
            writer.write_all(contents)?;
        }
        writer.finish()
    };
    compress().map_err(|e| format!("cannot compress: {e}"))
}

fn length_bytes(length: usize) -> Result<Vec<u8>, String> {
    u32::try_from(length)
        .map(|n| n.to_le_bytes().to_vec())
        .map_err(|_| "too long for a pack".into())
}

pub(crate) fn decompress(pack: &[u8]) -> Result<Files, String> {
    let mut bytes = Vec::new();
    XzReader::new(pack, false)
        .read_to_end(&mut bytes)
        .map_err(|e| format!("cannot decompress: {e}"))?;
    split(&bytes).ok_or_else(|| "the pack is cut off".into())
}

fn split(bytes: &[u8]) -> Option<Files> {
    let mut rest = bytes;
    let mut take = |length: usize| {
        let (taken, after) = rest.split_at_checked(length)?;
        rest = after;
        Some(taken)
    };
    let count = u32::from_le_bytes(*take(4)?.first_chunk()?);
    let mut index = Vec::new();
    for _ in 0..count {
        let length = u32::from_le_bytes(*take(4)?.first_chunk()?) as usize;
        let name = String::from_utf8(take(length)?.to_vec()).ok()?;
        index.push((name, usize::try_from(u64::from_le_bytes(*take(8)?.first_chunk()?)).ok()?));
    }
    index.into_iter().map(|(name, size)| Some((name, take(size)?.to_vec()))).collect()
}

pub(crate) fn read(path: &Path) -> Result<Files, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    decompress(&bytes).map_err(|why| format!("{}: {why}", path.display()))
}

/// All files below a directory, sorted, with paths relative to it.
pub(crate) fn read_directory(directory: &Path) -> Result<Files, String> {
    let mut files = Files::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(path) = open.pop() {
        let tell = |e: std::io::Error| format!("{}: {e}", path.display());
        if path.is_dir() {
            for entry in path.read_dir().map_err(tell)? {
                open.push(entry.map_err(tell)?.path());
            }
        } else {
            let name = path.strip_prefix(directory).unwrap_or(&path).to_string_lossy().into_owned();
            files.push((name, std::fs::read(&path).map_err(tell)?));
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_back() {
        let files: Files = vec![
            ("a/b".into(), vec![7; 3000]),
            ("c".into(), vec![]),
            ("d".into(), b"text".to_vec()),
        ];
        let pack = compress(&files).unwrap();
        assert!(pack.len() < 1000);
        assert_eq!(decompress(&pack).unwrap(), files);
        assert!(decompress(&pack[..pack.len() / 2]).is_err());
        assert_eq!(split(&[1, 0, 0, 0, 9, 0, 0, 0, b'x']), None);
    }
}
