//! `env.h`: time, threads and shared libraries.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::dynamic;
use super::handle::{Boxed, CStrIn, In, Out, Owned, Status, guard, quiet};

/// Choices for a thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TF_ThreadOptions {
    /// The size of the stack in bytes, 0 for the default.
    pub stack_size: usize,
    /// The size in bytes of the guard beside the stack, 0 for the default; there is always one, of a page.
    pub guard_size: usize,
    /// The NUMA node, -1 for any. No thread is bound to one.
    pub numa_node: c_int,
}

/// A thread.
pub struct TF_Thread {
    handle: JoinHandle<()>,
}

impl Boxed for TF_Thread {}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the number of nanoseconds since 1970-01-01 UTC.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NowNanos() -> u64 {
    u64::try_from(since_epoch().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the number of microseconds since 1970-01-01 UTC.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NowMicros() -> u64 {
    u64::try_from(since_epoch().as_micros()).unwrap_or(u64::MAX)
}

/// Returns the number of seconds since 1970-01-01 UTC.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NowSeconds() -> u64 {
    since_epoch().as_secs()
}

/// Stores the default choices for a thread.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DefaultThreadOptions(mut options: Out<TF_ThreadOptions>) {
    let default = TF_ThreadOptions { stack_size: 0, guard_size: 0, numa_node: -1 };
    quiet((), || options.put(default, "options"));
}

/// What a thread runs.
struct Work {
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
}

// SAFETY: the caller of `TF_StartThread` promises that the thread may use the argument.
unsafe impl Send for Work {}

impl Work {
    fn run(self) {
        // SAFETY: as the caller of `TF_StartThread` promises.
        unsafe { (self.function)(self.argument) }
    }
}

/// Starts a thread that calls `work_func` with `param`, and returns it for `TF_JoinThread`; null if there can be no thread.
///
/// # Safety
/// `work_func` may be called with `param` by another thread, until `TF_JoinThread` returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_StartThread(
    options: In<TF_ThreadOptions>,
    thread_name: CStrIn,
    work_func: Option<unsafe extern "C" fn(*mut c_void)>,
    param: *mut c_void,
) -> *mut TF_Thread {
    quiet(ptr::null_mut(), || {
        let name = thread_name.opt().unwrap_or_default().replace('\0', "");
        let mut builder = std::thread::Builder::new().name(name);
        if let Some(options) = options.opt().filter(|options| options.stack_size > 0) {
            builder = builder.stack_size(options.stack_size);
        }
        let work = work_func.map(|function| Work { function, argument: param });
        let thread = builder.spawn(move || {
            if let Some(work) = work {
                work.run();
            }
        });
        Ok(thread.map_or(ptr::null_mut(), |handle| TF_Thread { handle }.hand_out()))
    })
}

/// Waits for the end of a thread and deletes it; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_JoinThread(thread: Owned<TF_Thread>) {
    quiet((), || {
        // The thread runs C, which does not panic.
        let _ = thread.take("thread")?.handle.join();
        Ok(())
    });
}

/// Loads a shared library and returns a handle for `TF_GetSymbolFromLibrary`; null on error. Reports `TF_NOT_FOUND` if
/// there is no such file or a symbol that it needs is missing.
#[unsafe(no_mangle)]
pub extern "C" fn TF_LoadSharedLibrary(library_filename: CStrIn, status: Status) -> *mut c_void {
    guard(status, ptr::null_mut(), || dynamic::open(&library_filename, "library_filename"))
}

/// Returns the address of a symbol; null on error. Reports `TF_NOT_FOUND` if the library has no such symbol.
///
/// # Safety
/// `handle` must come from `TF_LoadSharedLibrary`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GetSymbolFromLibrary(
    handle: *mut c_void,
    symbol_name: CStrIn,
    status: Status,
) -> *mut c_void {
    guard(status, ptr::null_mut(), || {
        symbol_name.get("symbol_name")?;
        let name = symbol_name.c_str().unwrap_or_default();
        // SAFETY: as the caller promises.
        unsafe { dynamic::symbol(handle, name) }
    })
}
