//! `tf_file_statistics.h`: facts about a file.

/// Facts about a file or directory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TF_FileStatistics {
    /// The length in bytes, -1 if it is unknown.
    pub length: i64,
    /// The time of the last change, in nanoseconds since 1970-01-01 UTC.
    pub mtime_nsec: i64,
    /// True for a directory.
    pub is_directory: bool,
}
