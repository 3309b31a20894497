//! File systems of plug-ins: `experimental/filesystem/filesystem_interface.h`, behind the trait of crate `files`.

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use tfcore_base::{Code, Error, Result, failed_precondition, invalid, unimplemented_error};
use tfcore_files::{FileSystem, RandomAccessFile, Region, Stat, WritableFile, clean, parse_uri};

use super::dynamic;
use super::handle::{CStrIn, Status, guard};
use super::tf_file_statistics::TF_FileStatistics;
use super::tf_status::TF_Status;
use crate::ops;

/// An object of the plug-in: a file, a region or a file system.
#[repr(C)]
struct Object {
    state: *mut c_void,
}

/// A function on a path.
type OnPath = unsafe extern "C" fn(*const Object, *const c_char, *mut TF_Status);
/// A function that opens a path.
type Open = unsafe extern "C" fn(*const Object, *const c_char, *mut Object, *mut TF_Status);
/// A function on two paths.
type OnPaths = unsafe extern "C" fn(*const Object, *const c_char, *const c_char, *mut TF_Status);
/// A function on an object.
type OnObject = unsafe extern "C" fn(*const Object, *mut TF_Status);
type Cleanup = Option<unsafe extern "C" fn(*mut Object)>;
/// A function that this library does not call.
type Unused = Option<unsafe extern "C" fn()>;

#[repr(C)]
#[derive(Clone, Copy)]
struct RandomAccessFileOps {
    cleanup: Cleanup,
    read:
        Option<unsafe extern "C" fn(*const Object, u64, usize, *mut c_char, *mut TF_Status) -> i64>,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct WritableFileOps {
    cleanup: Cleanup,
    append: Option<unsafe extern "C" fn(*const Object, *const c_char, usize, *mut TF_Status)>,
    tell: Option<unsafe extern "C" fn(*const Object, *mut TF_Status) -> i64>,
    flush: Option<OnObject>,
    sync: Option<OnObject>,
    close: Option<OnObject>,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RegionOps {
    cleanup: Cleanup,
    data: Option<unsafe extern "C" fn(*const Object) -> *const c_void>,
    length: Option<unsafe extern "C" fn(*const Object) -> u64>,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct FilesystemOps {
    init: Option<unsafe extern "C" fn(*mut Object, *mut TF_Status)>,
    cleanup: Cleanup,
    new_random_access_file: Option<Open>,
    new_writable_file: Option<Open>,
    new_appendable_file: Option<Open>,
    new_read_only_memory_region_from_file: Option<Open>,
    create_dir: Option<OnPath>,
    recursively_create_dir: Option<OnPath>,
    delete_file: Option<OnPath>,
    delete_dir: Option<OnPath>,
    delete_recursively: Unused,
    rename_file: Option<OnPaths>,
    copy_file: Unused,
    path_exists: Option<OnPath>,
    paths_exist: Unused,
    stat: Option<
        unsafe extern "C" fn(*const Object, *const c_char, *mut TF_FileStatistics, *mut TF_Status),
    >,
    is_directory: Unused,
    get_file_size: Unused,
    translate_name: Option<unsafe extern "C" fn(*const Object, *const c_char) -> *mut c_char>,
    get_children: Option<
        unsafe extern "C" fn(
            *const Object,
            *const c_char,
            *mut *mut *mut c_char,
            *mut TF_Status,
        ) -> c_int,
    >,
    get_matching_paths: Unused,
    flush_caches: Option<unsafe extern "C" fn(*const Object)>,
    /// Transactions and options.
    unused: [Unused; 11],
}

/// A table's version numbers, its size in bytes, and the table.
#[repr(C)]
struct Table<T> {
    abi: c_int,
    api: c_int,
    size: usize,
    ops: *mut T,
}

#[repr(C)]
struct PluginOps {
    scheme: *mut c_char,
    filesystem: Table<FilesystemOps>,
    random_access_file: Table<RandomAccessFileOps>,
    writable_file: Table<WritableFileOps>,
    region: Table<RegionOps>,
}

#[repr(C)]
struct PluginInfo {
    num_schemes: usize,
    ops: *mut PluginOps,
    memory_allocate: Option<unsafe extern "C" fn(usize) -> *mut c_void>,
    memory_free: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// Loads a plug-in and registers its file systems, each for its scheme. Reports `TF_NOT_FOUND` if there is no such library or
/// it has no `TF_InitPlugin`, `TF_ALREADY_EXISTS` for a scheme that has a file system, and `TF_FAILED_PRECONDITION` for tables
/// of another version.
#[unsafe(no_mangle)]
pub extern "C" fn TF_RegisterFilesystemPlugin(plugin_filename: CStrIn, status: Status) {
    guard(status, (), || {
        let library = dynamic::open(&plugin_filename, "plugin_filename")?;
        // SAFETY: the library has just been loaded.
        let init = unsafe { dynamic::symbol(library, c"TF_InitPlugin")? };
        // SAFETY: a function of this name has this type, by the interface.
        let init: unsafe extern "C" fn(*mut PluginInfo) = unsafe { std::mem::transmute(init) };
        let mut info = PluginInfo {
            num_schemes: 0,
            ops: ptr::null_mut(),
            memory_allocate: None,
            memory_free: None,
        };
        // SAFETY: the plug-in fills in a description that lives during the call.
        unsafe { init(&mut info) };
        let free = info.memory_free.ok_or_else(|| {
            invalid!("Cannot load filesystem plugin without `plugin_memory_free`")
        })?;
        if info.memory_allocate.is_none() {
            return Err(invalid!("Cannot load filesystem plugin without `plugin_memory_allocate`"));
        }
        let systems = match info.ops.is_null() {
            true => &[][..],
            // SAFETY: the plug-in has made so many descriptions.
            false => unsafe { std::slice::from_raw_parts(info.ops, info.num_schemes) },
        };
        let registered = systems.iter().map(|ops| register(ops, free)).collect::<Result<Vec<_>>>();
        for ops in systems {
            for block in ops.blocks() {
                // SAFETY: the plug-in has allocated the block, and nothing refers to it any more.
                unsafe { free(block) };
            }
        }
        // SAFETY: as above.
        unsafe { free(info.ops.cast()) };
        registered.map(|_| ())
    })
}

fn register(ops: &PluginOps, free: unsafe extern "C" fn(*mut c_void)) -> Result<()> {
    if ops.scheme.is_null() {
        return Err(invalid!("Cannot load filesystem plugin without a scheme"));
    }
    // SAFETY: a NUL-terminated string of the plug-in.
    let scheme = unsafe { CStr::from_ptr(ops.scheme) }.to_string_lossy().into_owned();
    let mut system = Plugin {
        system: Object { state: ptr::null_mut() },
        ops: ops
            .filesystem
            .read("filesystem")?
            .ok_or_else(|| invalid!("Trying to register filesystem without operations"))?,
        reading: ops.random_access_file.read("random access file")?,
        writing: ops.writable_file.read("writable file")?,
        regions: ops.region.read("read only memory region")?,
        free,
    };
    let init = system
        .ops
        .init
        .ok_or_else(|| invalid!("Trying to register filesystem without `init` operation"))?;
    // SAFETY: the plug-in sets the state of a file system that lives during the call.
    call(|status| unsafe { init(&mut system.system, status) })?;
    ops::registry().files().register(&scheme, Arc::new(system))
}

impl PluginOps {
    /// What the plug-in has allocated for a file system.
    fn blocks(&self) -> [*mut c_void; 5] {
        [
            self.scheme.cast(),
            self.filesystem.ops.cast(),
            self.random_access_file.ops.cast(),
            self.writable_file.ops.cast(),
            self.region.ops.cast(),
        ]
    }
}

impl<T: Copy> Table<T> {
    /// A copy of the table; `None` if there is none.
    ///
    /// # Errors
    /// `FailedPrecondition` for another version, `InvalidArgument` for a table that is too short.
    fn read(&self, name: &str) -> Result<Option<T>> {
        if self.ops.is_null() {
            return Ok(None);
        }
        if self.abi != 0 {
            return Err(failed_precondition!(
                "Plugin ABI ({}) for {name} operations doesn't match expected core ABI (0). Plugin cannot be loaded.",
                self.abi
            ));
        }
        if self.size < size_of::<T>() {
            return Err(invalid!(
                "Plugin has {name} operations of {} bytes, less than the {} of the interface",
                self.size,
                size_of::<T>()
            ));
        }
        // SAFETY: the plug-in has made a table of at least this size.
        Ok(Some(unsafe { self.ops.read() }))
    }
}

/// A file system of a plug-in.
struct Plugin {
    system: Object,
    ops: FilesystemOps,
    reading: Option<RandomAccessFileOps>,
    writing: Option<WritableFileOps>,
    regions: Option<RegionOps>,
    free: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: by the interface any thread may call the functions of a file system.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

/// Runs a call with a status of its own.
fn call<R>(body: impl FnOnce(*mut TF_Status) -> R) -> Result<R> {
    let mut status = TF_Status::default();
    let value = body(&mut status);
    status.result().map(|()| value)
}

fn c_path(path: &Path) -> Result<CString> {
    let nul = |_| invalid!("Path {} contains a NUL", path.display());
    CString::new(path.as_os_str().as_bytes()).map_err(nul)
}

fn missing(operation: &str) -> Error {
    unimplemented_error!("Filesystem does not support {operation}()")
}

impl Plugin {
    /// The path that the functions of the plug-in get for a URI: without scheme and host, unless the plug-in says otherwise.
    fn path(&self, uri: &Path) -> Result<CString> {
        let Some(translate) = self.ops.translate_name else {
            let (_, _, path) = parse_uri(uri);
            return match path.as_os_str().is_empty() {
                true => Ok(c"/".to_owned()),
                false => c_path(&clean(path)),
            };
        };
        let uri = c_path(uri)?;
        // SAFETY: the interface of the plug-in; it returns a string that this function frees.
        let path = unsafe { translate(&self.system, uri.as_ptr()) };
        if path.is_null() {
            return Ok(uri);
        }
        // SAFETY: a NUL-terminated string.
        let copy = unsafe { CStr::from_ptr(path) }.to_owned();
        // SAFETY: the plug-in has allocated it.
        unsafe { (self.free)(path.cast()) };
        Ok(copy)
    }

    fn on_path(&self, function: Option<OnPath>, path: &Path, name: &str) -> Result<()> {
        let (function, path) = (function.ok_or_else(|| missing(name))?, self.path(path)?);
        // SAFETY: the interface of the plug-in; all arguments live during the call.
        call(|status| unsafe { function(&self.system, path.as_ptr(), status) })
    }

    fn on_paths(&self, function: OnPaths, from: &Path, to: &Path) -> Result<()> {
        let (from, to) = (self.path(from)?, self.path(to)?);
        // SAFETY: as above.
        call(|status| unsafe { function(&self.system, from.as_ptr(), to.as_ptr(), status) })
    }

    fn opened(&self, function: Option<Open>, path: &Path, name: &str) -> Result<Object> {
        let (function, path) = (function.ok_or_else(|| missing(name))?, self.path(path)?);
        let mut object = Object { state: ptr::null_mut() };
        // SAFETY: as above.
        call(|status| unsafe { function(&self.system, path.as_ptr(), &mut object, status) })?;
        Ok(object)
    }

    fn writable(
        &self,
        open: Option<Open>,
        path: &Path,
        name: &str,
    ) -> Result<Box<dyn WritableFile>> {
        let ops = self.writing.ok_or_else(|| missing(name))?;
        Ok(Box::new(Writing { file: self.opened(open, path, name)?, ops }))
    }
}

impl FileSystem for Plugin {
    fn open(&self, path: &Path) -> Result<Box<dyn RandomAccessFile>> {
        let ops = self.reading.ok_or_else(|| missing("NewRandomAccessFile"))?;
        let file = self.opened(self.ops.new_random_access_file, path, "NewRandomAccessFile")?;
        Ok(Box::new(Reading { file, ops }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.writable(self.ops.new_writable_file, path, "NewWritableFile")
    }

    fn append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.writable(self.ops.new_appendable_file, path, "NewAppendableFile")
    }

    fn map(&self, path: &Path) -> Result<Region> {
        let name = "NewReadOnlyMemoryRegionFromFile";
        let ops = self.regions.ok_or_else(|| missing(name))?;
        let region = self.opened(self.ops.new_read_only_memory_region_from_file, path, name)?;
        Ok(Box::new(Mapped { region, ops }))
    }

    fn exists(&self, path: &Path) -> Result<()> {
        self.on_path(self.ops.path_exists, path, "FileExists")
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        let (stat, path) = (self.ops.stat.ok_or_else(|| missing("Stat"))?, self.path(path)?);
        let mut found = TF_FileStatistics { length: -1, mtime_nsec: 0, is_directory: false };
        // SAFETY: the interface of the plug-in; all arguments live during the call.
        call(|status| unsafe { stat(&self.system, path.as_ptr(), &mut found, status) })?;
        Ok(Stat {
            len: u64::try_from(found.length).unwrap_or(0),
            modified: Duration::from_nanos(u64::try_from(found.mtime_nsec).unwrap_or(0)),
            is_directory: found.is_directory,
        })
    }

    fn children(&self, path: &Path) -> Result<Vec<OsString>> {
        let list = self.ops.get_children.ok_or_else(|| missing("GetChildren"))?;
        let path = self.path(path)?;
        let mut entries: *mut *mut c_char = ptr::null_mut();
        // SAFETY: as above.
        let count =
            call(|status| unsafe { list(&self.system, path.as_ptr(), &mut entries, status) })?;
        let mut names = Vec::new();
        if entries.is_null() {
            return Ok(names);
        }
        for index in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: the plug-in has stored so many strings, which this function frees.
            let entry = unsafe { *entries.add(index) };
            if !entry.is_null() {
                // SAFETY: a NUL-terminated string.
                let name = unsafe { CStr::from_ptr(entry) }.to_bytes().to_vec();
                names.push(OsString::from_vec(name));
                // SAFETY: the plug-in has allocated it.
                unsafe { (self.free)(entry.cast()) };
            }
        }
        // SAFETY: as above.
        unsafe { (self.free)(entries.cast()) };
        Ok(names)
    }

    fn delete_file(&self, path: &Path) -> Result<()> {
        self.on_path(self.ops.delete_file, path, "DeleteFile")
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        self.on_path(self.ops.create_dir, path, "CreateDir")
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        self.on_path(self.ops.delete_dir, path, "DeleteDir")
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.on_paths(self.ops.rename_file.ok_or_else(|| missing("RenameFile"))?, from, to)
    }

    fn flush_caches(&self) {
        if let Some(flush) = self.ops.flush_caches {
            // SAFETY: the interface of the plug-in.
            unsafe { flush(&self.system) };
        }
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        if let Some(cleanup) = self.ops.cleanup {
            // SAFETY: nothing uses the file system any more.
            unsafe { cleanup(&mut self.system) };
        }
    }
}

/// A file that is open for reading.
struct Reading {
    file: Object,
    ops: RandomAccessFileOps,
}

// SAFETY: by the interface any thread may read.
unsafe impl Send for Reading {}
// SAFETY: as above.
unsafe impl Sync for Reading {}

impl RandomAccessFile for Reading {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let read = self.ops.read.ok_or_else(|| missing("Read"))?;
        let mut status = TF_Status::default();
        let buffer = out.as_mut_ptr().cast();
        // SAFETY: the interface of the plug-in; all arguments live during the call.
        let len = unsafe { read(&self.file, offset, out.len(), buffer, &mut status) };
        match status.result() {
            // The end of the file is no error here.
            Err(error) if error.code() != Code::OutOfRange => Err(error),
            _ => Ok(usize::try_from(len).unwrap_or(0).min(out.len())),
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(cleanup) = self.ops.cleanup {
            // SAFETY: nothing uses the file any more.
            unsafe { cleanup(&mut self.file) };
        }
    }
}

/// A file that is open for writing.
struct Writing {
    file: Object,
    ops: WritableFileOps,
}

// SAFETY: by the interface any thread may write, one at a time.
unsafe impl Send for Writing {}

impl Writing {
    fn on_file(&self, function: Option<OnObject>, name: &str) -> Result<()> {
        let function = function.ok_or_else(|| missing(name))?;
        // SAFETY: the interface of the plug-in; all arguments live during the call.
        call(|status| unsafe { function(&self.file, status) })
    }
}

impl WritableFile for Writing {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let append = self.ops.append.ok_or_else(|| missing("Append"))?;
        let bytes = data.as_ptr().cast();
        // SAFETY: as above.
        call(|status| unsafe { append(&self.file, bytes, data.len(), status) })
    }

    fn flush(&mut self) -> Result<()> {
        self.on_file(self.ops.flush, "Flush")
    }

    fn sync(&mut self) -> Result<()> {
        // TensorFlow flushes files that cannot be synchronised.
        self.on_file(self.ops.sync.or(self.ops.flush), "Sync")
    }

    fn tell(&mut self) -> Result<u64> {
        let tell = self.ops.tell.ok_or_else(|| missing("Tell"))?;
        // SAFETY: as above.
        let position = call(|status| unsafe { tell(&self.file, status) })?;
        Ok(u64::try_from(position).unwrap_or(0))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.on_file(self.ops.close, "Close")
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(cleanup) = self.ops.cleanup {
            // SAFETY: nothing uses the file any more.
            unsafe { cleanup(&mut self.file) };
        }
    }
}

/// The content of a file as memory.
struct Mapped {
    region: Object,
    ops: RegionOps,
}

// SAFETY: the memory does not change.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        let (Some(data), Some(length)) = (self.ops.data, self.ops.length) else { return &[] };
        // SAFETY: the interface of the plug-in.
        let (data, length) = unsafe { (data(&self.region), length(&self.region)) };
        match usize::try_from(length) {
            // SAFETY: the plug-in keeps so many bytes until the region is cleaned up.
            Ok(length) if length > 0 && !data.is_null() => unsafe {
                std::slice::from_raw_parts(data.cast(), length)
            },
            _ => &[],
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if let Some(cleanup) = self.ops.cleanup {
            // SAFETY: nothing uses the memory any more.
            unsafe { cleanup(&mut self.region) };
        }
    }
}
