//! Errors of the operating system as statuses.

use std::io;

use libc as c;
use tfcore_base::{Code, Error};

/// The error for an `errno`: `"context; text of the errno"`.
pub fn error_of_errno(number: i32, context: &str) -> Error {
    let text = io::Error::from_raw_os_error(number).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    Error::new(code(number), format!("{context}; {text}"))
}

/// The error for a failed call of the standard library, in the form of [`error_of_errno`].
pub fn io_error(error: &io::Error, context: &str) -> Error {
    match error.raw_os_error() {
        Some(number) => error_of_errno(number, context),
        None => Error::new(Code::InvalidArgument, format!("{context}; {error}")),
    }
}

fn code(number: i32) -> Code {
    match number {
        0 => Code::Ok,
        c::EINVAL
        | c::ENAMETOOLONG
        | c::E2BIG
        | c::EDESTADDRREQ
        | c::EDOM
        | c::EFAULT
        | c::EILSEQ
        | c::ENOPROTOOPT
        | c::ENOSTR
        | c::ENOTSOCK
        | c::ENOTTY
        | c::EPROTOTYPE
        | c::ESPIPE => Code::InvalidArgument,
        c::ETIMEDOUT => Code::DeadlineExceeded,
        c::ENODEV | c::ENOENT | c::ENXIO | c::ESRCH => Code::NotFound,
        c::EEXIST | c::EADDRNOTAVAIL | c::EALREADY => Code::AlreadyExists,
        c::EPERM | c::EACCES | c::EROFS => Code::PermissionDenied,
        c::ENOTEMPTY
        | c::EISDIR
        | c::ENOTDIR
        | c::EADDRINUSE
        | c::EBADF
        | c::EBUSY
        | c::ECHILD
        | c::EISCONN
        | c::ENOTBLK
        | c::ENOTCONN
        | c::EPIPE
        | c::ESHUTDOWN
        | c::ETXTBSY => Code::FailedPrecondition,
        c::ENOSPC
        | c::EDQUOT
        | c::EMFILE
        | c::EMLINK
        | c::ENFILE
        | c::ENOBUFS
        | c::ENODATA
        | c::ENOMEM
        | c::ENOSR
        | c::EUSERS => Code::ResourceExhausted,
        c::EFBIG | c::EOVERFLOW | c::ERANGE => Code::OutOfRange,
        c::ENOSYS
        | c::ENOTSUP
        | c::EAFNOSUPPORT
        | c::EPFNOSUPPORT
        | c::EPROTONOSUPPORT
        | c::ESOCKTNOSUPPORT
        | c::EXDEV => Code::Unimplemented,
        c::EAGAIN
        | c::ECONNREFUSED
        | c::ECONNABORTED
        | c::ECONNRESET
        | c::EINTR
        | c::EHOSTDOWN
        | c::EHOSTUNREACH
        | c::ENETDOWN
        | c::ENETRESET
        | c::ENETUNREACH
        | c::ENOLCK
        | c::ENOLINK => Code::Unavailable,
        c::EDEADLK | c::ESTALE => Code::Aborted,
        c::ECANCELED => Code::Cancelled,
        _ => Code::Unknown,
    }
}
