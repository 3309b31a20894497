//! The interface of a file system.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tfcore_base::{Code, Error, Result, out_of_range, unimplemented_error};

use crate::path::{bytes, dirname, into_path, join, parse_uri};

/// A file open for reading at any position, by many threads at once.
pub trait RandomAccessFile: Send + Sync {
    /// Reads from byte `offset` on into `out`. Returns the number of bytes read, which is less than asked for only at
    /// the end of the file.
    ///
    /// # Errors
    /// Those of the device.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize>;

    /// Fills `out` from byte `offset` on.
    ///
    /// # Errors
    /// `OutOfRange` if the file ends before; those of [`RandomAccessFile::read_at`].
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        if self.read_at(offset, out)? < out.len() {
            return Err(out_of_range!("Read less bytes than requested"));
        }
        Ok(())
    }
}

/// A file open for writing at its end. Dropping it closes it; only [`WritableFile::close`] reports errors.
pub trait WritableFile: Send {
    /// # Errors
    /// Those of the device, such as `ResourceExhausted` if it is full.
    fn append(&mut self, data: &[u8]) -> Result<()>;

    /// Hands buffered bytes to the operating system, so that readers see them.
    ///
    /// # Errors
    /// As [`WritableFile::append`].
    fn flush(&mut self) -> Result<()>;

    /// Writes all bytes to the device, so that they survive a crash of the machine.
    ///
    /// # Errors
    /// As [`WritableFile::append`].
    fn sync(&mut self) -> Result<()>;

    /// The position in bytes at which the next append writes.
    ///
    /// # Errors
    /// `Unimplemented` if the file system does not know.
    fn tell(&mut self) -> Result<u64>;

    /// # Errors
    /// As [`WritableFile::append`].
    fn close(self: Box<Self>) -> Result<()>;
}

/// The bytes of a whole file, readable as memory.
pub type Region = Box<dyn AsRef<[u8]> + Send + Sync>;

/// Time since 1970-01-01, UTC.
pub type FileTime = Duration;

/// Facts about a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The length in bytes.
    pub len: u64,
    /// The time of the last change.
    pub modified: FileTime,
    pub is_directory: bool,
}

/// The numbers of files and directories that [`FileSystem::delete_recursively`] could not delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Undeleted {
    pub files: u64,
    pub directories: u64,
}

/// The operations of TensorFlow's file-system plug-in interface. Paths are whole URIs, scheme included.
///
/// Unless stated otherwise a missing file is `NotFound`, a missing permission `PermissionDenied`.
pub trait FileSystem: Send + Sync {
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> Result<Box<dyn RandomAccessFile>>;

    /// Opens a new or emptied file for writing.
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>>;

    /// Opens a new or existing file for writing at its end.
    fn append(&self, path: &Path) -> Result<Box<dyn WritableFile>>;

    /// The content of a file as memory. The file must not be truncated while the region lives: reading a lost page of
    /// a mapped file ends the process, so that this is for files that the program owns.
    fn map(&self, path: &Path) -> Result<Region>;

    /// # Errors
    /// `NotFound` if there is neither a file nor a directory.
    fn exists(&self, path: &Path) -> Result<()>;

    fn stat(&self, path: &Path) -> Result<Stat>;

    /// The names in a directory, in no particular order.
    fn children(&self, path: &Path) -> Result<Vec<OsString>>;

    fn delete_file(&self, path: &Path) -> Result<()>;

    /// # Errors
    /// `AlreadyExists` if there is a file or directory.
    fn create_dir(&self, path: &Path) -> Result<()>;

    /// # Errors
    /// `FailedPrecondition` if the directory is not empty.
    fn delete_dir(&self, path: &Path) -> Result<()>;

    /// Renames a file; a file of the name `to` is replaced in one step.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Copies a file of this file system.
    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        copy_between(self, from, self, to)
    }

    /// Gives a file the second name `to`, which must be new.
    ///
    /// # Errors
    /// `Unimplemented` if a file of this file system has one name only.
    fn link(&self, _from: &Path, to: &Path) -> Result<()> {
        Err(unimplemented_error!("{} cannot be a second name", to.display()))
    }

    /// The length of a file in bytes.
    fn file_size(&self, path: &Path) -> Result<u64> {
        Ok(self.stat(path)?.len)
    }

    /// # Errors
    /// `FailedPrecondition` for a file.
    fn is_directory(&self, path: &Path) -> Result<()> {
        self.exists(path)?;
        match self.stat(path)?.is_directory {
            true => Ok(()),
            false => Err(Error::new(Code::FailedPrecondition, "Not a directory")),
        }
    }

    /// True if [`FileSystem::rename`] replaces in one step. If not, files are written in place.
    fn has_atomic_move(&self, _path: &Path) -> Result<bool> {
        Ok(true)
    }

    /// Makes the names in a directory survive a crash of the machine.
    fn sync_dir(&self, _path: &Path) -> Result<()> {
        Ok(())
    }

    /// Drops what is cached of files.
    fn flush_caches(&self) {}

    /// The paths that match a glob pattern; see [`crate::matches`]. In no particular order. A pattern that matches
    /// nothing is no error.
    fn matching(&self, pattern: &Path) -> Result<Vec<PathBuf>> {
        matching_paths(self, pattern)
    }

    /// Creates a directory and those above it. An existing one is no error.
    ///
    /// # Errors
    /// `FailedPrecondition` "... is not a directory" if there is a file on the way.
    fn create_dir_all(&self, path: &Path) -> Result<()> {
        let mut missing = Vec::new();
        let mut current = path;
        while !parse_uri(current).2.as_os_str().is_empty() {
            match self.exists(current) {
                Ok(()) if self.is_directory(current).is_ok() => break,
                Ok(()) => {
                    let at = parse_uri(current).2.display();
                    let message = format!("{at} is not a directory");
                    return Err(Error::new(Code::FailedPrecondition, message));
                }
                Err(error) if error.code() == Code::NotFound => {}
                Err(error) => return Err(error),
            }
            if !bytes(current).ends_with(b"/") {
                missing.push(current);
            }
            let parent = dirname(current);
            if bytes(parent).len() == bytes(current).len() {
                break;
            }
            current = parent;
        }
        for path in missing.into_iter().rev() {
            match self.create_dir(path) {
                Err(error) if error.code() != Code::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Deletes a directory and all that it holds, or a file.
    ///
    /// # Errors
    /// The first one, with the numbers of what is left. Everything else is deleted nevertheless.
    fn delete_recursively(&self, path: &Path) -> std::result::Result<(), (Error, Undeleted)> {
        let mut left = Undeleted::default();
        if let Err(error) = self.exists(path) {
            left.directories += 1;
            return Err((error, left));
        }
        if self.is_directory(path).is_err() {
            left.files += 1;
            return self.delete_file(path).map_err(|error| (error, left));
        }
        let mut first = None;
        let mut directories = vec![path.to_path_buf()];
        let mut next = 0;
        while let Some(directory) = directories.get(next).cloned() {
            next += 1;
            let children = self.children(&directory).unwrap_or_else(|error| {
                left.directories += 1;
                first.get_or_insert(error);
                Vec::new()
            });
            for child in children {
                let child = join(&directory, child);
                if self.is_directory(&child).is_ok() {
                    directories.push(child);
                } else if let Err(error) = self.delete_file(&child) {
                    left.files += 1;
                    first.get_or_insert(error);
                }
            }
        }
        for directory in directories.iter().rev() {
            if let Err(error) = self.delete_dir(directory) {
                left.directories += 1;
                first.get_or_insert(error);
            }
        }
        first.map_or(Ok(()), |error| Err((error, left)))
    }
}

/// Bytes that a copy holds at a time.
const COPY_BUFFER: usize = 128 * 1024;

/// Copies a file from one file system to another.
pub(crate) fn copy_between(
    from_system: &(impl FileSystem + ?Sized),
    from: &Path,
    to_system: &(impl FileSystem + ?Sized),
    to: &Path,
) -> Result<()> {
    let source = from_system.open(from)?;
    let mut target = to_system.create(to)?;
    let mut buffer = vec![0; COPY_BUFFER];
    let mut offset = 0;
    loop {
        let count = source.read_at(offset, &mut buffer)?;
        target.append(&buffer[..count])?;
        offset += count as u64;
        if count < buffer.len() {
            return target.close();
        }
    }
}

/// Expands a glob pattern component by component, from the last directory whose name is no pattern on.
fn matching_paths(system: &(impl FileSystem + ?Sized), pattern: &Path) -> Result<Vec<PathBuf>> {
    let all = bytes(pattern);
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let Some(first) = all.iter().position(|c| b"*?[\\".contains(c)) else {
        return Ok(if system.exists(pattern).is_ok() {
            vec![pattern.to_path_buf()]
        } else {
            vec![]
        });
    };
    // A pattern that begins in the working directory gives paths that begin with "./".
    let is_bare = dirname(crate::path::from_bytes(&all[..first])).as_os_str().is_empty();
    let patched = if is_bare { join(Path::new("."), pattern) } else { pattern.to_path_buf() };
    let patched = bytes(&patched);
    let mut prefixes = Vec::new();
    let mut prefix = patched.strip_suffix(b"/").unwrap_or(patched);
    while !prefix.is_empty() {
        prefixes.push(prefix);
        let parent = bytes(dirname(crate::path::from_bytes(prefix)));
        if parent.len() == prefix.len() {
            break;
        }
        prefix = parent;
    }
    prefixes.reverse();
    let is_pattern = |prefix: &&[u8]| prefix.iter().any(|c| b"*?[\\".contains(c));
    let start = prefixes.iter().position(is_pattern).unwrap_or(prefixes.len());
    let Some(root) = start.checked_sub(1).map(|at| prefixes[at]) else { return Ok(Vec::new()) };
    let mut found = vec![into_path(root.to_vec())];
    for (index, prefix) in prefixes.iter().enumerate().skip(start) {
        let is_last = index + 1 == prefixes.len();
        let mut next = Vec::new();
        for directory in &found {
            // What cannot be listed matches nothing.
            for name in system.children(directory).unwrap_or_default() {
                let path = join(directory, name);
                let is_match = crate::glob::matches(prefix, bytes(&path));
                if is_match && (is_last || system.is_directory(&path).is_ok()) {
                    next.push(path);
                }
            }
        }
        found = next;
    }
    Ok(found)
}
