//! A file system in memory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tfcore_base::{
    Result, already_exists, failed_precondition, invalid, not_found, unimplemented_error,
};

use crate::path::{bytes, clean, dirname, from_bytes, into_path, parse_uri};
use crate::{FileSystem, FileTime, RandomAccessFile, Region, Stat, WritableFile};

/// Files in memory, shared by all that hold the file system. Directories exist if they were created or hold a file.
#[derive(Default)]
pub struct MemoryFileSystem {
    entries: Mutex<BTreeMap<PathBuf, Entry>>,
}

#[derive(Clone)]
enum Entry {
    File(Content),
    Directory,
}

/// A file's bytes; readers keep those of a file that is deleted or replaced.
type Content = Arc<RwLock<Vec<u8>>>;

/// The path within the file system: host and path of the URI, without a separator at the end.
fn key(path: &Path) -> PathBuf {
    let (scheme, host, rest) = parse_uri(path);
    let whole = if scheme.is_empty() { bytes(path).to_vec() } else { [host, bytes(rest)].concat() };
    if whole.is_empty() { PathBuf::new() } else { clean(from_bytes(&whole)) }
}

fn missing(path: &Path) -> tfcore_base::Error {
    not_found!("{}; No such file or directory", path.display())
}

fn no_file(path: &Path) -> tfcore_base::Error {
    invalid!("{} is a directory.", path.display())
}

/// The name of `path` in the directory `directory`, if it is there or below: the first component.
fn name_below<'a>(path: &'a Path, directory: &Path) -> Option<&'a [u8]> {
    let directory = bytes(directory);
    let rest = bytes(path).strip_prefix(directory)?;
    let rest =
        if directory.is_empty() || directory == b"/" { rest } else { rest.strip_prefix(b"/")? };
    rest.split(|&c| c == b'/').next().filter(|name| !name.is_empty())
}

impl MemoryFileSystem {
    fn file(&self, path: &Path) -> Result<Content> {
        match self.entries.lock().get(&key(path)) {
            Some(Entry::File(content)) => Ok(content.clone()),
            Some(Entry::Directory) => Err(no_file(path)),
            None => Err(missing(path)),
        }
    }

    fn has_children(entries: &BTreeMap<PathBuf, Entry>, directory: &Path) -> bool {
        entries.keys().any(|path| name_below(path, directory).is_some())
    }
}

impl FileSystem for MemoryFileSystem {
    fn open(&self, path: &Path) -> Result<Box<dyn RandomAccessFile>> {
        Ok(Box::new(MemoryFile(self.file(path)?)))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let mut entries = self.entries.lock();
        if let Some(Entry::Directory) = entries.get(&key(path)) {
            return Err(no_file(path));
        }
        let content = Content::default();
        entries.insert(key(path), Entry::File(content.clone()));
        Ok(Box::new(MemoryFile(content)))
    }

    fn append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let mut entries = self.entries.lock();
        let entry = entries.entry(key(path)).or_insert_with(|| Entry::File(Content::default()));
        match entry {
            Entry::File(content) => Ok(Box::new(MemoryFile(content.clone()))),
            Entry::Directory => Err(no_file(path)),
        }
    }

    fn map(&self, path: &Path) -> Result<Region> {
        let content = self.file(path)?.read().clone();
        Ok(Box::new(content))
    }

    fn exists(&self, path: &Path) -> Result<()> {
        self.stat(path).map(|_| ())
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        let entries = self.entries.lock();
        let (len, is_directory) = match entries.get(&key(path)) {
            Some(Entry::File(content)) => (content.read().len() as u64, false),
            Some(Entry::Directory) => (0, true),
            None if Self::has_children(&entries, &key(path)) => (0, true),
            None => return Err(missing(path)),
        };
        Ok(Stat { len, modified: FileTime::ZERO, is_directory })
    }

    fn children(&self, path: &Path) -> Result<Vec<OsString>> {
        let directory = key(path);
        let entries = self.entries.lock();
        let names = entries.keys().filter_map(|path| name_below(path, &directory));
        let mut names: Vec<OsString> =
            names.map(|name| from_bytes(name).as_os_str().to_owned()).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn delete_file(&self, path: &Path) -> Result<()> {
        self.file(path)?;
        self.entries.lock().remove(&key(path));
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        let mut entries = self.entries.lock();
        if let Some(Entry::File(_)) = entries.get(&key(path)) {
            return Err(already_exists!(
                "cannot create directory with same name as an existing file"
            ));
        }
        entries.insert(key(path), Entry::Directory);
        Ok(())
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        let mut entries = self.entries.lock();
        match entries.get(&key(path)) {
            Some(Entry::File(_)) => return Err(invalid!("Not a directory")),
            // An implied directory is gone with its last file.
            None if !Self::has_children(&entries, &key(path)) => return Ok(()),
            _ => {}
        }
        if Self::has_children(&entries, &key(path)) {
            return Err(failed_precondition!("{}; Directory not empty", path.display()));
        }
        entries.remove(&key(path));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut entries = self.entries.lock();
        let (from_key, to_key) = (key(from), key(to));
        let moved: Vec<PathBuf> = entries
            .keys()
            .filter(|path| **path == from_key || name_below(path, &from_key).is_some())
            .cloned()
            .collect();
        if moved.is_empty() {
            return Err(missing(from));
        }
        for old in moved {
            let rest = &bytes(&old)[bytes(&from_key).len()..];
            let new = into_path([bytes(&to_key), rest].concat());
            if let Some(entry) = entries.remove(&old) {
                entries.insert(new, entry);
            }
        }
        Ok(())
    }

    fn matching(&self, pattern: &Path) -> Result<Vec<PathBuf>> {
        let (scheme, ..) = parse_uri(pattern);
        let pattern = key(pattern);
        let entries = self.entries.lock();
        let mut paths: Vec<&Path> = entries.keys().map(PathBuf::as_path).collect();
        for path in entries.keys() {
            let mut parent = dirname(path);
            while !parent.as_os_str().is_empty() && parent != Path::new("/") {
                paths.push(parent);
                parent = dirname(parent);
            }
        }
        paths.sort();
        paths.dedup();
        paths.retain(|path| crate::glob::matches(bytes(&pattern), bytes(path)));
        let scheme = format!("{scheme}://");
        Ok(paths.iter().map(|path| into_path([scheme.as_bytes(), bytes(path)].concat())).collect())
    }
}

struct MemoryFile(Content);

impl RandomAccessFile for MemoryFile {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let content = self.0.read();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let count = out.len().min(content.len() - start);
        out[..count].copy_from_slice(&content[start..start + count]);
        Ok(count)
    }
}

impl WritableFile for MemoryFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let mut content = self.0.write();
        content.try_reserve(data.len()).map_err(|_| {
            tfcore_base::resource_exhausted!("No memory for {} more bytes of a file", data.len())
        })?;
        content.extend_from_slice(data);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn tell(&mut self) -> Result<u64> {
        Err(unimplemented_error!("This filesystem does not support Tell()"))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
