//! Replacing a file in one step.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tfcore_base::Result;

use crate::path::{dirname, with_suffix};
use crate::{FileSystem, WritableFile};

/// A new content for a file. Until [`Replacement::commit`] it stands in a temporary file beside it; one that is dropped
/// before leaves the file as it was.
///
/// A process killed at any moment leaves either the old content or the new one.
pub struct Replacement {
    system: Arc<dyn FileSystem>,
    path: PathBuf,
    /// The file that is written: `path` itself if the file system has no atomic move.
    temporary: PathBuf,
    file: Option<Box<dyn WritableFile>>,
    is_done: bool,
}

impl Replacement {
    pub(crate) fn new(system: Arc<dyn FileSystem>, path: &Path) -> Result<Replacement> {
        let temporary = match system.has_atomic_move(path)? {
            true => with_suffix(path, &format!(".tempstate{}", unique())),
            false => path.to_path_buf(),
        };
        let file = Some(system.create(&temporary)?);
        Ok(Replacement { system, path: path.to_path_buf(), temporary, file, is_done: false })
    }

    /// # Errors
    /// Those of [`WritableFile::append`].
    pub fn append(&mut self, data: &[u8]) -> Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.append(data))
    }

    /// Writes the content to the device and closes the temporary file; what is left for
    /// [`Replacement::commit`] is the renaming. For files that belong together: all are closed before one is renamed.
    ///
    /// # Errors
    /// Those of [`WritableFile::sync`].
    pub fn close(&mut self) -> Result<()> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        file.sync()?;
        file.close()
    }

    /// Puts the new content in the place of the old one, and makes the name survive a crash of the machine.
    ///
    /// # Errors
    /// Those of [`Replacement::close`] and [`FileSystem::rename`].
    pub fn commit(self) -> Result<()> {
        let path = self.path.clone();
        self.commit_as(&path)
    }

    /// As [`Replacement::commit`], for another file of the same file system.
    ///
    /// # Errors
    /// As [`Replacement::commit`].
    pub fn commit_as(mut self, path: &Path) -> Result<()> {
        self.close()?;
        if self.temporary != path {
            self.system.rename(&self.temporary, path)?;
        }
        self.is_done = true;
        self.system.sync_dir(dirname(path))
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.is_done {
            self.file = None;
            // A leftover temporary file is harmless.
            let _ = self.system.delete_file(&self.temporary);
        }
    }
}

/// A number that no other process and no other call is likely to have.
fn unique() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mixed = time ^ (u64::from(std::process::id()) << 40) ^ count.rotate_right(16);
    // Spreads the bits that differ over the whole number.
    (mixed ^ mixed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
