//! One error type from the bottom of the library to the C boundary.

use std::fmt;

/// The status codes of the C API (`TF_Code`), with their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Code {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    /// The code with this number, if there is one.
    pub fn from_i32(value: i32) -> Option<Code> {
        use Code::*;
        const ALL: [Code; 17] = [
            Ok,
            Cancelled,
            Unknown,
            InvalidArgument,
            DeadlineExceeded,
            NotFound,
            AlreadyExists,
            PermissionDenied,
            ResourceExhausted,
            FailedPrecondition,
            Aborted,
            OutOfRange,
            Unimplemented,
            Internal,
            Unavailable,
            DataLoss,
            Unauthenticated,
        ];
        ALL.get(usize::try_from(value).ok()?).copied()
    }
}

/// What went wrong: a status code and the message that users see.
///
/// Boxed, so that a `Result<()>` is one word on the hot path.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<ErrorParts>);

#[derive(Clone, PartialEq, Eq)]
struct ErrorParts {
    code: Code,
    message: String,
    /// What the end of the message says of where the error arose.
    origin: Origin,
    /// The function that the error has left, until its caller says how that is called.
    left: Option<Box<str>>,
}

/// What the last line of a message tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Nothing yet.
    Unknown,
    /// Nothing yet; the node's name goes on in the same line: `... {{node name}}`.
    Open,
    /// The node: `[[{{node name}}]]`.
    Node,
    /// The node and its function: `[[{{function_node f}}{{node name}}]]`.
    NodeOfFunction,
    /// A node that has called the function: `[[name]]`.
    Caller,
}

/// The result type of the whole library.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        let origin = Origin::Unknown;
        Error(Box::new(ErrorParts { code, message: message.into(), origin, left: None }))
    }

    pub fn code(&self) -> Code {
        self.0.code
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The same code with the text `message`.
    pub fn with_message(mut self, message: impl Into<String>) -> Error {
        self.0.message = message.into();
        self
    }

    /// The same message under another code.
    pub fn with_code(mut self, code: Code) -> Error {
        self.0.code = code;
        self
    }

    /// Appends `"\n\t [[{{node name}}]]"`, as run-time errors carry it, unless an inner frame has done so.
    pub fn at_node(mut self, name: &str) -> Error {
        let (before, after) = match self.0.origin {
            Origin::Unknown => ("\n\t [[{{node ", "}}]]"),
            Origin::Open => ("{{node ", "}}"),
            Origin::Node | Origin::NodeOfFunction | Origin::Caller => return self,
        };
        self.0.message.extend([before, name, after]);
        self.0.origin = Origin::Node;
        self
    }

    /// For a message that ends in the name of its node, `"output of {{node name}}"`: [`Error::at_node`] puts it there.
    pub fn ending_in_node(mut self) -> Error {
        self.0.origin = Origin::Open;
        self
    }

    /// Appends `"\n\t [[name]]"`, as errors carry it that arise before a node can run.
    pub fn placing(mut self, name: &str) -> Error {
        self.0.message.push_str("\n\t [[");
        self.0.message.push_str(name);
        self.0.message.push_str("]]");
        self.0.origin = Origin::NodeOfFunction;
        self
    }

    /// Notes that the error leaves a function. How the message shows that is up to the caller: [`Error::inlined_at`] or
    /// [`Error::called_by`]. An error of no node is the caller's own.
    pub fn in_function(mut self, name: &str) -> Error {
        if !matches!(self.0.origin, Origin::Unknown | Origin::Open) {
            self.0.left = Some(name.into());
        }
        self
    }

    /// For an error that has left a function whose nodes stand, as the reference runs it, in place of the node `caller`:
    /// names the function if it is the innermost, `"[[{{function_node f}}{{node name}}]]"`.
    pub fn inlined_at(mut self, caller: &str) -> Error {
        let Some(function) = self.0.left.take() else { return self };
        let message = &self.0.message;
        let (at, prefix) = match self.0.origin {
            Origin::Node => (message.rfind("{{node "), format!("{{{{function_node {function}}}}}")),
            Origin::Caller => (message.rfind("[[").map(|at| at + 2), format!("{caller}/")),
            Origin::Unknown | Origin::Open | Origin::NodeOfFunction => return self,
        };
        if let Some(at) = at {
            self.0.message.insert_str(at, &prefix);
        }
        if self.0.origin == Origin::Node {
            self.0.origin = Origin::NodeOfFunction;
        }
        self
    }

    /// For an error that has left a function which the node `caller` runs apart: appends `"\n\t [[caller]]"`.
    pub fn called_by(mut self, caller: &str) -> Error {
        if self.0.left.take().is_some() {
            self.0.message.push_str("\n\t [[");
            self.0.message.push_str(caller);
            self.0.message.push_str("]]");
            self.0.origin = Origin::Caller;
        }
        self
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.code, self.0.message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}

macro_rules! constructors {
    ($($name:ident $code:ident $d:tt)*) => {$(
        #[doc = concat!("Makes an [`Error`] with code `", stringify!($code), "` from a format string.")]
        #[macro_export]
        macro_rules! $name {
            ($d($d arg:tt)*) => { $crate::Error::new($crate::Code::$code, format!($d($d arg)*)) };
        }
    )*};
}

constructors! {
    cancelled Cancelled $
    invalid InvalidArgument $
    not_found NotFound $
    already_exists AlreadyExists $
    failed_precondition FailedPrecondition $
    resource_exhausted ResourceExhausted $
    out_of_range OutOfRange $
    unimplemented_error Unimplemented $
    internal Internal $
    data_loss DataLoss $
    aborted Aborted $
    deadline_exceeded DeadlineExceeded $
}

/// Returns an `InvalidArgument` error with the formatted message unless the condition holds.
#[macro_export]
macro_rules! require {
    ($condition:expr, $($arg:tt)*) => {
        if !$condition {
            return Err($crate::invalid!($($arg)*));
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_numbers_of_the_c_header() {
        for number in 0..17 {
            assert_eq!(Code::from_i32(number).map(|code| code as i32), Some(number));
        }
        assert_eq!(Code::from_i32(17), None);
        assert_eq!(Code::from_i32(-1), None);
    }

    /// As the reference words errors in calls (inlined) and in conditionals and loops that are not lowered (called).
    #[test]
    fn callers_are_told() {
        let inner = || invalid!("bad").at_node("n").in_function("f");
        let cases = [
            (inner().inlined_at("c"), "bad\n\t [[{{function_node f}}{{node n}}]]"),
            (inner().called_by("if"), "bad\n\t [[{{node n}}]]\n\t [[if]]"),
            (
                inner().inlined_at("c").in_function("g").called_by("if"),
                "bad\n\t [[{{function_node f}}{{node n}}]]\n\t [[if]]",
            ),
            (
                inner().called_by("if").in_function("g").inlined_at("c"),
                "bad\n\t [[{{node n}}]]\n\t [[c/if]]",
            ),
            (
                inner().inlined_at("c").in_function("g").inlined_at("d"),
                "bad\n\t [[{{function_node f}}{{node n}}]]",
            ),
            (
                invalid!("bad").in_function("f").called_by("if").at_node("if"),
                "bad\n\t [[{{node if}}]]",
            ),
            (invalid!("bad").placing("n").at_node("n"), "bad\n\t [[n]]"),
            (
                invalid!("of ").ending_in_node().at_node("n").in_function("f").inlined_at("c"),
                "of {{function_node f}}{{node n}}",
            ),
            (
                invalid!("of ").ending_in_node().in_function("f").called_by("if").at_node("if"),
                "of {{node if}}",
            ),
        ];
        for (error, expected) in cases {
            assert_eq!(error.message(), expected);
        }
    }

    #[test]
    fn the_node_is_named_once() {
        let error = invalid!("bad {}", 1).at_node("inner").at_node("outer");
        assert_eq!(error.message(), "bad 1\n\t [[{{node inner}}]]");
        assert_eq!(error.code(), Code::InvalidArgument);
        assert_eq!(std::mem::size_of::<Result<()>>(), std::mem::size_of::<usize>());
    }
}
