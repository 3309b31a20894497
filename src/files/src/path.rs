//! Paths and URIs as TensorFlow takes them apart and puts them together.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The scheme, host and path of `scheme://host/path`. Without a valid scheme, all of it is the path.
pub fn parse_uri(uri: &Path) -> (&str, &[u8], &Path) {
    let bytes = bytes(uri);
    let letters = bytes.iter().take_while(|&&c| c.is_ascii_alphanumeric() || c == b'.').count();
    let is_scheme = bytes.first().is_some_and(u8::is_ascii_alphabetic);
    if !is_scheme || !bytes[letters..].starts_with(b"://") {
        return ("", &[], uri);
    }
    let scheme = std::str::from_utf8(&bytes[..letters]).unwrap_or_default();
    let rest = &bytes[letters + 3..];
    let host = rest.iter().position(|&c| c == b'/').unwrap_or(rest.len());
    (scheme, &rest[..host], from_bytes(&rest[host..]))
}

/// The part of a path or URI before the last separator of its path; `/` for a file in the root directory, empty if
/// there is no separator.
pub fn dirname(uri: &Path) -> &Path {
    let all = bytes(uri);
    let (_, host, path) = parse_uri(uri);
    let path = bytes(path);
    let start = all.len() - path.len();
    let end = match path.iter().rposition(|&c| c == b'/') {
        Some(0) => start + 1,
        Some(at) => start + at,
        None if path.is_empty() || host.is_empty() => 0,
        None => start,
    };
    from_bytes(&all[..end])
}

/// `directory/name` with exactly one separator between the two. An absolute `name` stays below `directory`.
pub fn join(directory: &Path, name: impl AsRef<OsStr>) -> PathBuf {
    let (directory, name) = (bytes(directory), name.as_ref().as_bytes());
    if directory.is_empty() || name.is_empty() {
        return from_bytes(&[directory, name].concat()).to_path_buf();
    }
    let name =
        if directory.ends_with(b"/") { name.strip_prefix(b"/").unwrap_or(name) } else { name };
    let separator: &[u8] = match directory.ends_with(b"/") || name.starts_with(b"/") {
        true => b"",
        false => b"/",
    };
    into_path([directory, separator, name].concat())
}

/// The path with `suffix` at its end.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    into_path([bytes(path), suffix.as_bytes()].concat())
}

/// The path without empty and `.` components, and without `..` after a name. Symbolic links are not looked at: the
/// result for `link/..` is the directory that holds the link.
pub fn clean(path: &Path) -> PathBuf {
    let path = bytes(path);
    let is_absolute = path.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|&c| c == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match parts.last() {
                Some(&last) if last != b".." => {
                    parts.pop();
                }
                _ if is_absolute => {}
                _ => parts.push(part),
            },
            _ => parts.push(part),
        }
    }
    let joined = parts.join(&b'/');
    match (is_absolute, joined.is_empty()) {
        (true, _) => into_path([b"/", &joined[..]].concat()),
        (false, true) => PathBuf::from("."),
        (false, false) => into_path(joined),
    }
}

pub(crate) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

pub(crate) fn from_bytes(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

pub(crate) fn into_path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_have_a_scheme_a_host_and_a_path() {
        for (uri, scheme, host, path) in [
            ("ram://host/a/b", "ram", "host", "/a/b"),
            ("ram://a", "ram", "a", ""),
            ("file:///etc/x", "file", "", "/etc/x"),
            ("/etc://x", "", "", "/etc://x"),
            ("a/b", "", "", "a/b"),
            ("1a://b", "", "", "1a://b"),
            ("a-b://c", "", "", "a-b://c"),
            ("s3.v2://c/", "s3.v2", "c", "/"),
        ] {
            let expected = (scheme, host.as_bytes(), Path::new(path));
            assert_eq!(parse_uri(Path::new(uri)), expected, "{uri}");
        }
    }

    #[test]
    fn directories_are_what_stands_before_the_last_separator() {
        for (path, expected) in [
            ("a/b/c", "a/b"),
            ("/a", "/"),
            ("a", ""),
            ("/", "/"),
            ("", ""),
            ("a/", "a"),
            ("ram://h/a/b", "ram://h/a"),
            ("ram://h/a", "ram://h/"),
            ("ram://h", ""),
        ] {
            assert_eq!(dirname(Path::new(path)).as_os_str(), OsStr::new(expected), "{path}");
        }
    }

    #[test]
    fn paths_are_joined_and_cleaned() {
        for (directory, name, expected) in [
            ("a", "b", "a/b"),
            ("a/", "b", "a/b"),
            ("a/", "/b", "a/b"),
            ("a", "/b", "a/b"),
            ("", "/b", "/b"),
            ("a", "", "a"),
        ] {
            let joined = join(Path::new(directory), name);
            assert_eq!(joined.as_os_str(), OsStr::new(expected), "{directory} {name}");
        }
        for (path, expected) in [
            ("a/./b//c/", "a/b/c"),
            ("a/../b", "b"),
            ("../a/../../b", "../../b"),
            ("/../a", "/a"),
            ("/", "/"),
            ("a/..", "."),
            (".", "."),
        ] {
            assert_eq!(clean(Path::new(path)).as_os_str(), OsStr::new(expected), "{path}");
        }
    }
}
