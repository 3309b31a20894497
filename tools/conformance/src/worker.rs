//! The worker's side: loads the library, then answers requests until the pipe ends.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use prost::Message;

use crate::case::Case;
use crate::library::Api;
use crate::pool::{read_message, write_message};
use crate::{model, mutant, play};

/// What a request's first byte asks for; the rest is a serialised case or a model's path.
pub(crate) const PLAY_CASE: u8 = b'c';
pub(crate) const PLAY_MODEL: u8 = b'm';
pub(crate) const TRY_MUTANT: u8 = b'x';

/// Starts the answer when all is as it should be; a note may follow. Any other answer says what is
/// not.
pub(crate) const PASSED: &str = "+";

/// What a worker is told on its command line.
#[derive(Debug, Default)]
pub(crate) struct WorkerOptions {
    pub(crate) library: String,
    pub(crate) preload: Vec<String>,
    /// An own folder, made here; it becomes the current one.
    pub(crate) folder: PathBuf,
    pub(crate) verbose: bool,
    pub(crate) memory_limit: u64,
}

/// Answers requests until there are no more.
pub(crate) fn serve(options: &WorkerOptions) -> Result<(), String> {
    let (mut requests, mut answers) = take_pipes(options.verbose).map_err(|e| e.to_string())?;
    std::fs::create_dir_all(&options.folder).map_err(|e| e.to_string())?;
    limit_memory(options.memory_limit)?;
    let api = match Api::open(&options.library, &options.preload) {
        Ok(api) => api,
        Err(why) => return write_message(&mut answers, why.as_bytes()).map_err(|e| e.to_string()),
    };
    std::env::set_current_dir(&options.folder).map_err(|e| e.to_string())?;
    write_message(&mut answers, b"").map_err(|e| e.to_string())?;
    let mut count = 0_u64;
    while let Some(request) = read_message(&mut requests).map_err(|e| e.to_string())? {
        count += 1;
        let folder = options.folder.join(format!("case{count}"));
        std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
        let answer = answer(api, &request, &folder);
        // A case may leave anything behind, also what cannot be removed; the pool removes the rest.
        let _ = std::fs::remove_dir_all(&folder);
        write_message(&mut answers, answer.as_bytes()).map_err(|e| e.to_string())?;
    }
    // Leaving at once: exit handlers of a library with running threads are not what is tested.
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

fn answer(api: &Api, request: &[u8], folder: &Path) -> String {
    let Some((kind, body)) = request.split_first() else {
        return "an empty request".into();
    };
    let case = || Case::decode(body).map_err(|e| format!("bad case: {e}"));
    let answer = match *kind {
        PLAY_CASE => {
            case().and_then(|case| play::check_case(api, &case, folder)).map(|()| String::new())
        }
        TRY_MUTANT => case().and_then(|case| mutant::try_mutant(api, &case, folder)),
        PLAY_MODEL => model::check_model(api, &PathBuf::from(OsStr::from_bytes(body)), folder),
        _ => Err(format!("unknown request {kind}")),
    };
    match answer {
        Ok(note) => format!("{PASSED}{note}"),
        Err(why) => why,
    }
}

/// Takes the pipes away from standard input and output, so that what the library prints does not
/// get between.
fn take_pipes(verbose: bool) -> io::Result<(File, File)> {
    let requests = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let answers = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    redirect(nowhere.as_raw_fd(), libc::STDIN_FILENO)?;
    redirect(nowhere.as_raw_fd(), libc::STDOUT_FILENO)?;
    if !verbose {
        redirect(nowhere.as_raw_fd(), libc::STDERR_FILENO)?;
    }
    Ok((requests, answers))
}

fn redirect(from: i32, to: i32) -> io::Result<()> {
    // SAFETY: `from` is open; `to` is a standard stream, which no Rust object owns.
    if unsafe { libc::dup2(from, to) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets allocations fail that would bring the whole machine down.
fn limit_memory(bytes: u64) -> Result<(), String> {
    if bytes == 0 {
        return Ok(());
    }
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: `limit` is initialised.
    match unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) } {
        0 => Ok(()),
        _ => Err(format!("no memory limit: {}", io::Error::last_os_error())),
    }
}
