//! `env.h`: files and directories of all file systems that are registered.

use std::ffi::{CString, OsString, c_char};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr;

use tfcore_files::{Files, WritableFile};

use super::checkpoint_reader::path;
use super::handle::{Boxed, CStrIn, Mut, Out, Owned, Status, guard, quiet};
use super::tf_buffer::malloc_text;
use super::tf_file_statistics::TF_FileStatistics;
use crate::ops;

/// A file that is open for writing. C calls one function of it at a time.
pub struct TF_WritableFileHandle {
    file: Box<dyn WritableFile>,
}

/// A list of strings that is read from its beginning to its end.
pub struct TF_StringStream {
    strings: std::vec::IntoIter<CString>,
    /// The string that C reads.
    current: CString,
}

impl Boxed for TF_WritableFileHandle {}

impl Boxed for TF_StringStream {}

impl TF_StringStream {
    fn new(strings: Vec<OsString>) -> TF_StringStream {
        let strings = strings.into_iter().map(|name| CString::new(name.into_vec()));
        let strings: Vec<CString> = strings.map(std::result::Result::unwrap_or_default).collect();
        TF_StringStream { strings: strings.into_iter(), current: CString::default() }
    }
}

fn files() -> &'static Files {
    ops::registry().files()
}

/// Creates a directory in one that exists. Reports `TF_ALREADY_EXISTS` if there is a file or directory of this name.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CreateDir(dirname: CStrIn, status: Status) {
    guard(status, (), || files().create_dir(path(&dirname, "dirname")?))
}

/// Deletes an empty directory.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteDir(dirname: CStrIn, status: Status) {
    guard(status, (), || files().delete_dir(path(&dirname, "dirname")?))
}

/// Deletes a directory with all that is in it, as far as possible. Stores the numbers of files and of directories that
/// could not be deleted; the status is then the first error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteRecursively(
    dirname: CStrIn,
    mut undeleted_file_count: Out<i64>,
    mut undeleted_dir_count: Out<i64>,
    status: Status,
) {
    guard(status, (), || {
        let (error, undeleted) = match files().delete_recursively(path(&dirname, "dirname")?) {
            Ok(()) => (None, Default::default()),
            Err((error, undeleted)) => (Some(error), undeleted),
        };
        undeleted_file_count.put(undeleted.files as i64, "undeleted_file_count")?;
        undeleted_dir_count.put(undeleted.directories as i64, "undeleted_dir_count")?;
        error.map_or(Ok(()), Err)
    })
}

/// Stores facts about a file or directory.
#[unsafe(no_mangle)]
pub extern "C" fn TF_FileStat(filename: CStrIn, mut stats: Out<TF_FileStatistics>, status: Status) {
    guard(status, (), || {
        let stat = files().stat(path(&filename, "filename")?)?;
        let found = TF_FileStatistics {
            length: stat.len as i64,
            mtime_nsec: i64::try_from(stat.modified.as_nanos()).unwrap_or(i64::MAX),
            is_directory: stat.is_directory,
        };
        stats.put(found, "stats")
    })
}

/// Opens a new or emptied file for writing and stores a handle for `TF_CloseWritableFile`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewWritableFile(
    filename: CStrIn,
    mut handle: Out<*mut TF_WritableFileHandle>,
    status: Status,
) {
    guard(status, (), || {
        let file = files().create(path(&filename, "filename")?)?;
        handle.put(TF_WritableFileHandle { file }.hand_out(), "handle")
    })
}

/// Closes a file and deletes the handle, also on an error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CloseWritableFile(handle: Owned<TF_WritableFileHandle>, status: Status) {
    guard(status, (), || handle.take("handle")?.file.close())
}

/// Writes all bytes to the device, so that they survive a crash of the machine.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SyncWritableFile(mut handle: Mut<TF_WritableFileHandle>, status: Status) {
    guard(status, (), || handle.get("handle")?.file.sync())
}

/// Hands buffered bytes to the operating system, so that readers see them.
#[unsafe(no_mangle)]
pub extern "C" fn TF_FlushWritableFile(mut handle: Mut<TF_WritableFileHandle>, status: Status) {
    guard(status, (), || handle.get("handle")?.file.flush())
}

/// Writes `length` bytes at the end of a file.
#[unsafe(no_mangle)]
pub extern "C" fn TF_AppendWritableFile(
    mut handle: Mut<TF_WritableFileHandle>,
    data: CStrIn,
    length: usize,
    status: Status,
) {
    guard(status, (), || handle.get("handle")?.file.append(data.bytes(length, "data")?))
}

/// Deletes a file.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteFile(filename: CStrIn, status: Status) {
    guard(status, (), || files().delete_file(path(&filename, "filename")?))
}

/// Stores the next string, which lives until the next call, and returns true; at the end null and false.
#[unsafe(no_mangle)]
pub extern "C" fn TF_StringStreamNext(
    mut list: Mut<TF_StringStream>,
    mut result: Out<*const c_char>,
) -> bool {
    quiet(false, || {
        let next = list.get("list")?.next();
        result.put(next.unwrap_or(ptr::null()), "result")?;
        Ok(next.is_some())
    })
}

impl TF_StringStream {
    fn next(&mut self) -> Option<*const c_char> {
        self.current = self.strings.next()?;
        Some(self.current.as_ptr())
    }
}

/// Deletes a list; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_StringStreamDone(list: Owned<TF_StringStream>) {
    drop(list);
}

/// Returns the names in a directory, in no particular order, for the caller to delete with `TF_StringStreamDone`; an empty
/// list on error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetChildren(filename: CStrIn, status: Status) -> *mut TF_StringStream {
    let mut names = Vec::new();
    guard(status, (), || {
        names = files().children(path(&filename, "filename")?)?;
        Ok(())
    });
    TF_StringStream::new(names).hand_out()
}

/// The directories for temporary files, in the order in which they are tried.
fn temporary_directories() -> impl Iterator<Item = OsString> {
    let variables = ["TEST_TMPDIR", "TMPDIR", "TMP"].into_iter().filter_map(std::env::var_os);
    let directories = variables.chain([OsString::from("/tmp")]);
    directories.filter(|directory| !directory.is_empty() && Path::new(directory).is_dir())
}

/// Returns a directory for temporary files, with a slash at its end, as a list for the caller to delete with
/// `TF_StringStreamDone`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetLocalTempDirectories() -> *mut TF_StringStream {
    quiet(ptr::null_mut(), || {
        let directory = temporary_directories().next().map(|mut directory| {
            if !directory.as_bytes().ends_with(b"/") {
                directory.push("/");
            }
            directory
        });
        Ok(TF_StringStream::new(directory.into_iter().collect()).hand_out())
    })
}

/// Creates an empty file with a new name in a directory for temporary files, and returns its path, for the caller to free
/// with `free`; null on error. `extension` may be empty.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetTempFileName(extension: CStrIn) -> *mut c_char {
    quiet(ptr::null_mut(), || {
        let extension = extension.get("extension")?;
        let made = temporary_directories()
            .next()
            .and_then(|directory| new_file(&PathBuf::from(directory), &extension).ok());
        Ok(made.map_or(ptr::null_mut(), |path| malloc_text(&path.to_string_lossy()).cast_mut()))
    })
}

/// Creates a file that is not there yet; the process and a counter make the name, so that few attempts are needed.
fn new_file(directory: &Path, extension: &str) -> std::io::Result<PathBuf> {
    let dot = if extension.is_empty() { "" } else { "." };
    loop {
        let unique = unique_number();
        let name = format!("tmp_file_tensorflow_{}_{unique:x}{dot}{extension}", std::process::id());
        let path = directory.join(name);
        match std::fs::File::create_new(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

fn unique_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
