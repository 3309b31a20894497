//! File systems by scheme: the local one, one in memory (`ram://`), and those that a program registers.
//!
//! [`FileSystem`] has the operations of TensorFlow's file-system plug-in interface. [`Files`] is the set of
//! registered file systems: it picks the one of a path's scheme. There is no global set; the composition root owns
//! one and hands it to sessions.
//!
//! Paths are bytes, as in TensorFlow: they need not be UTF-8. Messages show them with replacement characters.

mod buffered;
mod errno;
mod glob;
mod local;
mod memory;
mod path;
mod registry;
mod replace;
mod system;

pub use buffered::BufferedReader;
pub use errno::{error_of_errno, io_error};
pub use glob::matches;
pub use local::LocalFileSystem;
pub use memory::MemoryFileSystem;
pub use path::{clean, dirname, join, parse_uri, with_suffix};
pub use registry::Files;
pub use replace::Replacement;
pub use system::{FileSystem, FileTime, RandomAccessFile, Region, Stat, Undeleted, WritableFile};
