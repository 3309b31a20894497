//! File systems by scheme.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use tfcore_base::{Error, Result, already_exists, resource_exhausted, unimplemented_error};

use crate::path::parse_uri;
use crate::system::copy_between;
use crate::{
    FileSystem, LocalFileSystem, MemoryFileSystem, RandomAccessFile, Region, Replacement, Stat,
    Undeleted, WritableFile,
};

/// The registered file systems. Each operation goes to the one of the path's scheme; see [`FileSystem`].
pub struct Files {
    systems: RwLock<BTreeMap<String, Arc<dyn FileSystem>>>,
}

/// The most bytes that are read of a file without a size.
const MAX_OF_UNKNOWN_SIZE: usize = 1 << 28;

impl Default for Files {
    /// The local file system, for no scheme and `file`, and an empty one in memory for `ram`.
    fn default() -> Files {
        let local: Arc<dyn FileSystem> = Arc::new(LocalFileSystem);
        let memory: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::default());
        let systems = [("", local.clone()), ("file", local), ("ram", memory)];
        let systems = systems.map(|(scheme, system)| (scheme.to_string(), system));
        Files { systems: RwLock::new(systems.into()) }
    }
}

impl Files {
    /// Adds the file system of a scheme.
    ///
    /// # Errors
    /// `AlreadyExists` if the scheme has one.
    pub fn register(&self, scheme: &str, system: Arc<dyn FileSystem>) -> Result<()> {
        let mut systems = self.systems.write();
        if systems.contains_key(scheme) {
            return Err(already_exists!("File system for {scheme} already registered"));
        }
        systems.insert(scheme.to_string(), system);
        Ok(())
    }

    /// The schemes that have a file system, sorted.
    pub fn schemes(&self) -> Vec<String> {
        self.systems.read().keys().cloned().collect()
    }

    /// The file system of a path.
    ///
    /// # Errors
    /// `Unimplemented` if its scheme has none.
    pub fn system(&self, path: &Path) -> Result<Arc<dyn FileSystem>> {
        let (scheme, ..) = parse_uri(path);
        self.systems.read().get(scheme).cloned().ok_or_else(|| {
            let scheme = if scheme.is_empty() { "[local]" } else { scheme };
            let path = path.display();
            unimplemented_error!("File system scheme '{scheme}' not implemented (file: '{path}')")
        })
    }

    pub fn open(&self, path: &Path) -> Result<Box<dyn RandomAccessFile>> {
        self.system(path)?.open(path)
    }

    pub fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.system(path)?.create(path)
    }

    pub fn append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.system(path)?.append(path)
    }

    pub fn map(&self, path: &Path) -> Result<Region> {
        self.system(path)?.map(path)
    }

    pub fn exists(&self, path: &Path) -> Result<()> {
        self.system(path)?.exists(path)
    }

    pub fn stat(&self, path: &Path) -> Result<Stat> {
        self.system(path)?.stat(path)
    }

    pub fn file_size(&self, path: &Path) -> Result<u64> {
        self.system(path)?.file_size(path)
    }

    pub fn is_directory(&self, path: &Path) -> Result<()> {
        self.system(path)?.is_directory(path)
    }

    pub fn children(&self, path: &Path) -> Result<Vec<OsString>> {
        self.system(path)?.children(path)
    }

    pub fn matching(&self, pattern: &Path) -> Result<Vec<PathBuf>> {
        self.system(pattern)?.matching(pattern)
    }

    pub fn delete_file(&self, path: &Path) -> Result<()> {
        self.system(path)?.delete_file(path)
    }

    pub fn create_dir(&self, path: &Path) -> Result<()> {
        self.system(path)?.create_dir(path)
    }

    pub fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.system(path)?.create_dir_all(path)
    }

    pub fn delete_dir(&self, path: &Path) -> Result<()> {
        self.system(path)?.delete_dir(path)
    }

    pub fn delete_recursively(&self, path: &Path) -> std::result::Result<(), (Error, Undeleted)> {
        let system = self.system(path).map_err(|error| (error, Undeleted::default()))?;
        system.delete_recursively(path)
    }

    /// # Errors
    /// `Unimplemented` if the two paths are of different file systems.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let system = self.system(from)?;
        if !Arc::ptr_eq(&system, &self.system(to)?) {
            let (from, to) = (from.display(), to.display());
            return Err(unimplemented_error!("Renaming {from} to {to} not implemented"));
        }
        system.rename(from, to)
    }

    /// Copies a file, also from one file system to another.
    pub fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let (from_system, to_system) = (self.system(from)?, self.system(to)?);
        if Arc::ptr_eq(&from_system, &to_system) {
            return from_system.copy(from, to);
        }
        copy_between(&*from_system, from, &*to_system, to)
    }

    /// Gives a file a second name, which must be new and of the same file system; see [`FileSystem::link`].
    pub fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.system(from)?.link(from, to)
    }

    /// The whole content of a file.
    ///
    /// # Errors
    /// Those of [`FileSystem::open`]; `ResourceExhausted` if memory does not hold it, or if it is a device without an end.
    pub fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let system = self.system(path)?;
        let size = system.file_size(path)?;
        let file = system.open(path)?;
        let too_large = || resource_exhausted!("{} is too large to be read", path.display());
        // Files of the system, such as those below /proc, have no size and some bytes nevertheless.
        let limit = if size == 0 { MAX_OF_UNKNOWN_SIZE } else { usize::MAX };
        let mut step = usize::try_from(size).map_err(|_| too_large())?.max(1);
        let mut content = Vec::new();
        loop {
            let start = content.len();
            content.try_reserve_exact(step).map_err(|_| too_large())?;
            content.resize(start + step, 0);
            let count = file.read_at(start as u64, &mut content[start..])?;
            content.truncate(start + count);
            if count < step || content.len() as u64 == size {
                return Ok(content);
            }
            if content.len() >= limit {
                return Err(too_large());
            }
            step = step.max(content.len()).max(4096);
        }
    }

    /// Writes a file in place.
    ///
    /// # Errors
    /// Those of [`FileSystem::create`] and [`WritableFile::append`].
    pub fn write(&self, path: &Path, content: &[u8]) -> Result<()> {
        let mut file = self.create(path)?;
        file.append(content)?;
        file.close()
    }

    /// A new content for a file, which takes its place in one step.
    ///
    /// # Errors
    /// Those of [`FileSystem::create`].
    pub fn replace(&self, path: &Path) -> Result<Replacement> {
        Replacement::new(self.system(path)?, path)
    }

    /// Drops what the file systems cache.
    pub fn flush_caches(&self) {
        for system in self.systems.read().values() {
            system.flush_caches();
        }
    }
}

#[cfg(test)]
mod tests {
    use tfcore_base::Code;

    use super::*;
    use crate::path::join;

    /// A directory in each file system, empty and gone after the test.
    fn for_each_system(f: impl Fn(&Files, &Path)) {
        let files = Files::default();
        let local = std::env::temp_dir().join(format!("tfcore-files-{}", std::process::id()));
        let local = local.join(std::thread::current().name().unwrap_or("test").replace("::", "-"));
        let local_uri = PathBuf::from(format!("file://{}", local.display()));
        for directory in [local, local_uri, PathBuf::from("ram://test/a")] {
            let _ = files.delete_recursively(&directory);
            files.create_dir_all(&directory).unwrap();
            f(&files, &directory);
            files.delete_recursively(&directory).unwrap();
            assert!(files.exists(&directory).is_err(), "{}", directory.display());
        }
    }

    fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
        values.sort();
        values
    }

    #[test]
    fn files_are_written_read_and_found() {
        for_each_system(|files, directory| {
            let (a, b, below) =
                (join(directory, "a.txt"), join(directory, "b.txt"), join(directory, "d/e/f"));
            files.write(&a, b"hello").unwrap();
            files.write(&a, b"hi").unwrap();
            assert_eq!(files.read(&a).unwrap(), b"hi");
            let mut file = files.append(&a).unwrap();
            file.append(b" there").unwrap();
            file.close().unwrap();
            assert_eq!(files.read(&a).unwrap(), b"hi there");
            assert_eq!(files.file_size(&a).unwrap(), 8);
            let mut out = [0; 4];
            let file = files.open(&a).unwrap();
            assert_eq!(file.read_at(5, &mut out).unwrap(), 3);
            assert_eq!(&out[..3], b"ere");
            assert_eq!(file.read_exact_at(5, &mut out).unwrap_err().code(), Code::OutOfRange);
            assert_eq!(file.read_at(u64::MAX / 4, &mut out).unwrap(), 0);
            assert_eq!((*files.map(&a).unwrap()).as_ref(), b"hi there");
            files.copy(&a, &b).unwrap();
            files.create_dir_all(&join(directory, "d/e")).unwrap();
            files.write(&below, b"").unwrap();
            assert!(files.is_directory(&join(directory, "d")).is_ok());
            assert!(files.stat(&join(directory, "d")).unwrap().is_directory);
            assert!(files.is_directory(&a).is_err());
            assert_eq!(sorted(files.children(directory).unwrap()), ["a.txt", "b.txt", "d"]);
            for (pattern, expected) in [
                ("*.txt", vec![a.clone(), b.clone()]),
                ("a.txt", vec![a.clone()]),
                ("*/*/?", vec![below.clone()]),
                ("[b-c].txt", vec![b.clone()]),
                ("nothing*", vec![]),
                ("nothing", vec![]),
            ] {
                let found = files.matching(&join(directory, pattern)).unwrap();
                assert_eq!(sorted(found), expected, "{pattern}");
            }
            match files.link(&a, &join(directory, "c.txt")) {
                Ok(()) => assert_eq!(files.read(&join(directory, "c.txt")).unwrap(), b"hi there"),
                Err(error) => assert_eq!(error.code(), Code::Unimplemented),
            }
            files.rename(&a, &b).unwrap();
            assert_eq!(files.read(&a).unwrap_err().code(), Code::NotFound);
            assert_eq!(files.read(&b).unwrap(), b"hi there");
        });
    }

    /// Messages as the reference's local file system has them.
    #[test]
    fn errors_name_the_path_and_the_reason() {
        let files = Files::default();
        let directory = std::env::temp_dir();
        let text = |path: &str| Path::new(path).to_path_buf();
        let cases: Vec<(Error, Code, String)> = vec![
            (
                files.read(&text("/nope")).unwrap_err(),
                Code::NotFound,
                "/nope; No such file or directory".into(),
            ),
            (
                files.read(&text("file:///nope")).unwrap_err(),
                Code::NotFound,
                "file:///nope; No such file or directory".into(),
            ),
            (
                files.read(&directory).unwrap_err(),
                Code::FailedPrecondition,
                format!("{}; Is a directory", directory.display()),
            ),
            (files.exists(&text("/nope")).unwrap_err(), Code::NotFound, "/nope not found".into()),
            (
                files.create_dir(&directory).unwrap_err(),
                Code::AlreadyExists,
                format!("{}; File exists", directory.display()),
            ),
            (
                files.create_dir_all(&text("/dev/null/x")).unwrap_err(),
                Code::FailedPrecondition,
                "/dev/null is not a directory".into(),
            ),
            (
                files.open(&text("bogus://x")).err().unwrap(),
                Code::Unimplemented,
                "File system scheme 'bogus' not implemented (file: 'bogus://x')".into(),
            ),
            (
                files.rename(&text("ram://x"), &text("/y")).unwrap_err(),
                Code::Unimplemented,
                "Renaming ram://x to /y not implemented".into(),
            ),
            (
                files.delete_recursively(&text("/nope")).unwrap_err().0,
                Code::NotFound,
                "/nope not found".into(),
            ),
        ];
        for (error, code, message) in cases {
            assert_eq!((error.code(), error.message()), (code, &message[..]));
        }
        assert!(files.read(Path::new("a\0b")).is_err());
        assert!(files.read(Path::new("/proc/self/status")).unwrap().starts_with(b"Name:"));
        assert!(files.read(Path::new("/dev/null")).unwrap().is_empty());
        assert!(files.register("ram", Arc::new(LocalFileSystem)).is_err());
        assert_eq!(files.schemes(), ["", "file", "ram"]);
    }

    #[test]
    fn replaced_files_are_old_or_new() {
        for_each_system(|files, directory| {
            let path = join(directory, "x");
            files.write(&path, b"old").unwrap();
            let mut new = files.replace(&path).unwrap();
            new.append(b"new").unwrap();
            new.close().unwrap();
            assert_eq!(files.read(&path).unwrap(), b"old");
            assert_eq!(files.children(directory).unwrap().len(), 2);
            drop(new);
            assert_eq!(files.children(directory).unwrap(), ["x"]);
            let mut new = files.replace(&path).unwrap();
            new.append(b"new").unwrap();
            new.commit().unwrap();
            assert_eq!(files.read(&path).unwrap(), b"new");
            assert_eq!(files.children(directory).unwrap(), ["x"]);
            assert!(
                files.replace(&join(directory, "x/y/z")).is_err() || directory.starts_with("ram:")
            );
        });
    }
}
