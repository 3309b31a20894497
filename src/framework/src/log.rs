//! What ops have to say to the user: to the listeners that a client has registered, or else to a stream of the
//! process.

use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::RwLock;

/// Receives what ops print, each text whole.
pub type Listener = Arc<dyn Fn(&str) + Send + Sync>;

/// Where a text goes while nobody listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// How serious a message of the library is, with TensorFlow's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Warning = 1,
    Error = 2,
}

/// TensorFlow's variable for the least severity that is written: 0 and 1 warnings, 2 errors, 3 neither.
const LEVEL: &str = "TF_CPP_MIN_LOG_LEVEL";

/// Writes a line to stderr about something that has no status to be reported by.
pub fn report(severity: Severity, message: &str) {
    let level = std::env::var(LEVEL).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    if severity as i32 >= level {
        let letter = if severity == Severity::Error { 'E' } else { 'W' };
        write(Stream::Stderr, &format!("{letter} tfcore: {message}\n"));
    }
}

static LISTENERS: RwLock<Vec<Listener>> = RwLock::new(Vec::new());

/// Adds a listener for the rest of the process; the ones before it go on listening.
pub fn add_listener(listener: Listener) {
    LISTENERS.write().push(listener);
}

/// Prints `text` as it is, line ends included: to all listeners, or to `stream` if there are none.
pub fn print(stream: Stream, text: &str) {
    if !tell(text) {
        write(stream, text);
    }
}

/// Hands `text` to all listeners, in the order in which they came; whether there are any.
pub fn tell(text: &str) -> bool {
    // A listener may run a graph that prints, or register another one: no lock is held while it runs.
    let listeners = LISTENERS.read().clone();
    for listener in &listeners {
        listener(text);
    }
    !listeners.is_empty()
}

/// Writes `text` to `stream`, whoever listens. A stream that cannot be written is none of the op's business.
pub fn write(stream: Stream, text: &str) {
    let _written = match stream {
        Stream::Stdout => write_all(io::stdout().lock(), text),
        Stream::Stderr => write_all(io::stderr().lock(), text),
    };
}

fn write_all(mut stream: impl Write, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn all_listeners_hear_in_order() {
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        for name in ["a", "b"] {
            let heard = heard.clone();
            add_listener(Arc::new(move |text| heard.lock().push(format!("{name}: {text}"))));
        }
        print(Stream::Stderr, "one\n");
        assert_eq!(*heard.lock(), ["a: one\n", "b: one\n"]);
    }
}
