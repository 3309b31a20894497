//! The local file system.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use tfcore_base::{Result, already_exists, not_found};

use crate::path::{clean, parse_uri};
use crate::{FileSystem, FileTime, RandomAccessFile, Region, Stat, WritableFile, io_error};

/// Files of the operating system, for paths without a scheme and those of the scheme `file`.
#[derive(Debug, Default)]
pub struct LocalFileSystem;

/// Bytes that a file open for writing collects before it writes them.
const WRITE_BUFFER: usize = 64 * 1024;

/// The name by which the operating system knows the file.
fn translate(path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() {
        return PathBuf::new();
    }
    let (_, _, path) = parse_uri(path);
    if path.as_os_str().is_empty() { PathBuf::from("/") } else { clean(path) }
}

/// Runs `f` on the operating system's name of `path`; its error names `path`.
fn at<T>(path: &Path, f: impl FnOnce(&Path) -> io::Result<T>) -> Result<T> {
    f(&translate(path)).map_err(|error| io_error(&error, &path.to_string_lossy()))
}

impl FileSystem for LocalFileSystem {
    fn open(&self, path: &Path) -> Result<Box<dyn RandomAccessFile>> {
        let file = at(path, |path| File::open(path))?;
        Ok(Box::new(LocalFile { path: path.to_path_buf(), file }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        writer(path, OpenOptions::new().write(true).create(true).truncate(true))
    }

    fn append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        writer(path, OpenOptions::new().append(true).create(true))
    }

    fn map(&self, path: &Path) -> Result<Region> {
        at(path, |path| {
            let file = File::open(path)?;
            if file.metadata()?.len() == 0 {
                // The operating system maps no empty files.
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            // SAFETY: the mapping is private and read-only; callers of `FileSystem::map` keep the file from being
            // truncated while it lives.
            let region = unsafe { Mmap::map(&file) }?;
            Ok(Box::new(region) as Region)
        })
    }

    fn exists(&self, path: &Path) -> Result<()> {
        match translate(path).try_exists() {
            Ok(true) => Ok(()),
            _ => Err(not_found!("{} not found", path.display())),
        }
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        let data = at(path, |path| fs::metadata(path))?;
        let seconds = u64::try_from(data.mtime()).unwrap_or(0);
        let nanoseconds = u32::try_from(data.mtime_nsec()).unwrap_or(0);
        let modified = FileTime::new(seconds, nanoseconds);
        Ok(Stat { len: data.len(), modified, is_directory: data.is_dir() })
    }

    fn children(&self, path: &Path) -> Result<Vec<OsString>> {
        at(path, |path| fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect())
    }

    fn delete_file(&self, path: &Path) -> Result<()> {
        at(path, |path| fs::remove_file(path))
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        if path.as_os_str().is_empty() {
            return Err(already_exists!(""));
        }
        at(path, |path| fs::DirBuilder::new().mode(0o755).create(path))
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        at(path, |path| fs::remove_dir(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        at(from, |from| fs::rename(from, translate(to)))
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let (mut source, mode) = at(from, |from| {
            let source = File::open(from)?;
            let data = source.metadata()?;
            if data.is_dir() {
                return Err(io::Error::from_raw_os_error(libc::EISDIR));
            }
            Ok((source, data.mode() & 0o777))
        })?;
        at(to, |to| {
            let mut options = OpenOptions::new();
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
            let mut target = options.write(true).create(true).truncate(true).open(to)?;
            // The kernel copies: between two files `io::copy` uses `copy_file_range` or `sendfile`.
            io::copy(&mut source, &mut target).map(|_| ())
        })
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        at(from, |from| fs::hard_link(from, translate(to)))
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let is_here = path.as_os_str().is_empty();
        let path = if is_here { Path::new(".") } else { path };
        at(path, |path| match File::open(path)?.sync_all() {
            // Some file systems cannot sync directories; there the names are as safe as they can be.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            result => result,
        })
    }
}

struct LocalFile {
    path: PathBuf,
    file: File,
}

impl RandomAccessFile for LocalFile {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < out.len() {
            match self.file.read_at(&mut out[done..], offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io_error(&error, &self.path.to_string_lossy())),
            }
        }
        Ok(done)
    }
}

struct LocalWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

fn writer(path: &Path, options: &OpenOptions) -> Result<Box<dyn WritableFile>> {
    let file = at(path, |path| options.open(path))?;
    let file = BufWriter::with_capacity(WRITE_BUFFER, file);
    Ok(Box::new(LocalWriter { path: path.to_path_buf(), file }))
}

impl LocalWriter {
    fn run<T>(&mut self, f: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>) -> Result<T> {
        f(&mut self.file).map_err(|error| io_error(&error, &self.path.to_string_lossy()))
    }
}

impl WritableFile for LocalWriter {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.run(|file| file.write_all(data))
    }

    fn flush(&mut self) -> Result<()> {
        self.run(|file| file.flush())
    }

    fn sync(&mut self) -> Result<()> {
        self.run(|file| {
            file.flush()?;
            match file.get_ref().sync_all() {
                // Pipes and the like cannot be synced; there is nothing to lose either.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
                result => result,
            }
        })
    }

    fn tell(&mut self) -> Result<u64> {
        self.run(|file| file.stream_position())
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.flush()
    }
}
