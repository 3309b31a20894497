//! What a client is told of a run for which there was not enough memory.

use tfcore_base::{Code, Error};

use crate::environment::device::Device;
use crate::trace::record::Trace;

/// Of a run that is not traced.
const HINT: &str = "\nHint: If you want to see a list of allocated tensors when OOM happens, add \
    report_tensor_allocations_upon_oom to RunOptions for current allocation info. This isn't available when running in \
    Eager mode.\n";

/// Adds to `ResourceExhausted` what was in use, if the run was traced, else how to find that out: after each node that the
/// message names, as in the reference every frame adds it. Other errors stay as they are.
pub(crate) fn explain(error: Error, trace: Option<&Trace>, devices: &[Device]) -> Error {
    if error.code() != Code::ResourceExhausted {
        return error;
    }
    let added = match trace {
        None => HINT.to_string(),
        Some(trace) if error.message().contains("OOM") => format!("\n{}", trace.usage(devices)),
        Some(_) => return error,
    };
    let mut nodes = error.message().split("\n\t [[");
    let mut message = nodes.next().unwrap_or_default().to_string();
    for node in nodes {
        message.push_str("\n\t [[");
        message.push_str(node);
        message.push_str(&added);
    }
    error.with_message(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_base::{invalid, resource_exhausted};

    #[test]
    fn every_frame_explains() {
        let error = resource_exhausted!("OOM").at_node("a").in_function("f").called_by("b");
        let error = explain(error, None, &[]);
        let parts: Vec<&str> = error.message().split(HINT).collect();
        assert_eq!(parts, ["OOM\n\t [[{{node a}}]]", "\n\t [[b]]", ""]);
        let error = resource_exhausted!("OOM").at_node("a");
        let error = explain(error, Some(&Trace::new()), &[]);
        assert_eq!(error.message(), "OOM\n\t [[{{node a}}]]\n");
        assert_eq!(explain(invalid!("x"), None, &[]).message(), "x");
    }
}
