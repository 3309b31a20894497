//! Worker processes that play cases, so that a crash or a hang costs one case.
//!
//! Both directions of the pipe carry messages: a length (u32, little-endian) and that many bytes. A
//! worker says hello when the library is loaded, then answers each request with one message.

use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

/// How long a worker may take to load the library.
const LOAD_TIMEOUT: Duration = Duration::from_secs(120);

/// The recorded answers are those of TensorFlow's own CPU kernels, so these are set unless they are
/// set already.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("TF_ENABLE_ONEDNN_OPTS", "0"),
    ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE"),
    ("TF_CPP_MIN_LOG_LEVEL", "3"),
];

/// How the workers are started.
#[derive(Clone, Debug)]
pub(crate) struct PoolOptions {
    pub(crate) library: String,
    pub(crate) preload: Vec<String>,
    pub(crate) jobs: usize,
    /// Lets the library's own messages through.
    pub(crate) verbose: bool,
    /// Bytes of address space a worker may have; 0 is no limit.
    pub(crate) memory_limit: u64,
}

/// A request and the time its answer may take.
pub(crate) struct Task {
    pub(crate) request: Vec<u8>,
    pub(crate) timeout: Duration,
}

/// What became of a task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Text(String),
    /// The worker crashed or hung; says how.
    Died(String),
}

/// Gives `count` tasks to workers and every answer to `on_answer`, in any order.
pub(crate) fn run_all(
    options: &PoolOptions,
    count: usize,
    task: impl Fn(usize) -> Task + Sync,
    on_answer: impl FnMut(usize, Answer) + Send,
) -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| format!("no scratch folder: {e}"))?;
    let next = AtomicUsize::new(0);
    let on_answer = Mutex::new(on_answer);
    let failed = Mutex::new(None);
    let play = |number: usize| {
        let mut worker = None;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return Ok(());
            }
            let running = match worker.take() {
                Some(running) => running,
                None => Worker::start(options, &scratch.0.join(format!("worker{number}")))?,
            };
            let Task { request, timeout } = task(index);
            let answer = match running.ask(&request, timeout) {
                Ok((running, bytes)) => {
                    worker = Some(running);
                    Answer::Text(String::from_utf8_lossy(&bytes).into_owned())
                }
                Err(how) => Answer::Died(how),
            };
            let mut on_answer = on_answer.lock().expect("no answer handler panics");
            on_answer(index, answer);
        }
    };
    std::thread::scope(|scope| {
        for number in 0..options.jobs.clamp(1, count.max(1)) {
            let (play, failed, next) = (&play, &failed, &next);
            scope.spawn(move || {
                if let Err(why) = play(number) {
                    next.store(count, Ordering::Relaxed);
                    *failed.lock().expect("nobody panics with this lock") = Some(why);
                }
            });
        }
    });
    failed.into_inner().expect("nobody panics with this lock").map_or(Ok(()), Err)
}

/// A temporary folder, removed with everything in it at the end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> io::Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir()
            .join(format!("tfcore-conformance-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own cleaning of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running worker process with its pipes.
struct Worker {
    child: Child,
    /// `None` once the worker has been told to end.
    requests: Option<ChildStdin>,
    answers: mpsc::Receiver<Vec<u8>>,
}

impl Worker {
    fn start(options: &PoolOptions, folder: &Path) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = Command::new(program);
        command.arg("--worker").args(["--lib", &options.library]).arg("--folder").arg(folder);
        for path in &options.preload {
            command.args(["--preload", path]);
        }
        if options.verbose {
            command.arg("--verbose");
        }
        if options.memory_limit > 0 {
            command.arg("--memory-limit").arg(options.memory_limit.to_string());
        }
        for (name, value) in ENVIRONMENT {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|e| format!("no worker process: {e}"))?;
        let requests = child.stdin.take();
        let mut pipe = child.stdout.take().ok_or("the worker has no output pipe")?;
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            while let Ok(Some(message)) = read_message(&mut pipe) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let worker = Self { child, requests, answers };
        let (worker, hello) = worker.wait(LOAD_TIMEOUT)?;
        match hello.is_empty() {
            true => Ok(worker),
            false => Err(String::from_utf8_lossy(&hello).into_owned()),
        }
    }

    /// Gives the worker back with its answer, or says how it ended.
    fn ask(mut self, request: &[u8], timeout: Duration) -> Result<(Self, Vec<u8>), String> {
        if let Some(pipe) = &mut self.requests {
            // A worker that died meanwhile gives no answer, which `wait` finds out.
            let _ = write_message(pipe, request);
        }
        self.wait(timeout)
    }

    fn wait(mut self, timeout: Duration) -> Result<(Self, Vec<u8>), String> {
        match self.answers.recv_timeout(timeout) {
            Ok(answer) => Ok((self, answer)),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                self.kill();
                Err(format!("timed out after {} s", timeout.as_secs_f64()))
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => match self.child.wait() {
                Ok(status) => Err(format!("crashed ({})", show_status(status))),
                Err(error) => Err(format!("crashed ({error})")),
            },
        }
    }

    fn kill(&mut self) {
        // It fails for a process that has ended, which is all that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.requests = None;
        // The end of the requests tells the worker to leave; one that hangs in the library's exit
        // code is ended.
        for _ in 0..200 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.kill();
    }
}

fn show_status(status: ExitStatus) -> String {
    let Some(signal) = status.signal() else {
        return status.to_string();
    };
    let name = match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGTRAP => "SIGTRAP",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

/// Reads a message; `None` at the end of the pipe.
pub(crate) fn read_message(pipe: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match pipe.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let mut message = vec![0; u32::from_le_bytes(length) as usize];
    pipe.read_exact(&mut message)?;
    Ok(Some(message))
}

pub(crate) fn write_message(pipe: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    pipe.write_all(&length.to_le_bytes())?;
    pipe.write_all(message)?;
    pipe.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_borders() {
        let mut pipe = Vec::new();
        for message in [&b"one"[..], b"", b"three"] {
            write_message(&mut pipe, message).unwrap();
        }
        let mut reader = &pipe[..];
        for message in [&b"one"[..], b"", b"three"] {
            assert_eq!(read_message(&mut reader).unwrap().as_deref(), Some(message));
        }
        assert_eq!(read_message(&mut reader).unwrap(), None);
        assert!(read_message(&mut &pipe[..5]).is_err());
    }
}
