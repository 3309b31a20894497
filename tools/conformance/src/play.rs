//! Plays one recorded case and judges the answer.

use std::path::Path;

use crate::case::{Case, decode_shape, decode_tensor};
use crate::compare::{Check, compare};
use crate::handle::{Failure, Graph, Session, Tensor};
use crate::library::Api;
use crate::value::Value;

/// Stands in fed strings for a folder that is new and empty for each case.
const FOLDER_MARK: &[u8] = b"@TMP@";

const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The name of a `TF_Code`.
pub(crate) fn code_name(code: i32) -> String {
    let known = usize::try_from(code).ok().and_then(|code| CODES.get(code));
    known.map_or_else(|| format!("code {code}"), |name| (*name).to_owned())
}

/// What the library answered.
struct Answer {
    outputs: Vec<Value>,
    /// Static shape of each fetch; `None` is the unknown rank.
    shapes: Vec<Option<Vec<i64>>>,
}

/// Plays the case with files in `folder`; the error says what is not as recorded.
pub(crate) fn check_case(api: &Api, case: &Case, folder: &Path) -> Result<(), String> {
    judge(case, play(api, case, folder))
}

/// The value of a feed, with the folder put in.
pub(crate) fn feed_value(bytes: &[u8], folder: &Path) -> Result<Value, Failure> {
    let value = decode_tensor(bytes).map_err(Failure::api)?;
    Ok(value.replace_in_strings(FOLDER_MARK, folder.as_os_str().as_encoded_bytes()))
}

fn play(api: &Api, case: &Case, folder: &Path) -> Result<Answer, Failure> {
    let graph = Graph::new(api);
    graph.import(&case.graph_def)?;
    let fetches =
        case.fetches.iter().map(|name| graph.output(name)).collect::<Result<Vec<_>, _>>()?;
    let shapes =
        fetches.iter().map(|output| graph.static_shape(*output)).collect::<Result<_, _>>()?;

    let session = Session::new(&graph)?;
    let mut feeds = Vec::new();
    for feed in &case.feeds {
        feeds.push((
            graph.output(&feed.name)?,
            Tensor::new(api, &feed_value(&feed.bytes, folder)?)?,
        ));
    }
    let feeds: Vec<_> = feeds.iter().map(|(output, tensor)| (*output, tensor)).collect();
    for name in &case.targets_first {
        session.run(&[], &feeds, &[], &[graph.operation(name)?])?;
    }
    let targets =
        case.targets.iter().map(|name| graph.operation(name)).collect::<Result<Vec<_>, _>>()?;
    let mut outputs = Vec::new();
    for tensor in session.run(&[], &feeds, &fetches, &targets)? {
        let value = tensor.read()?;
        outputs.push(value.replace_in_strings(folder.as_os_str().as_encoded_bytes(), FOLDER_MARK));
    }
    Ok(Answer { outputs, shapes })
}

fn judge(case: &Case, answer: Result<Answer, Failure>) -> Result<(), String> {
    let answer = match answer {
        Err(failure) if case.code == 0 => {
            return Err(format!(
                "{} at {}: {}",
                code_name(failure.code),
                failure.stage,
                failure.message
            ));
        }
        Err(failure) => return judge_failure(case, &failure),
        Ok(_) if case.code != 0 => {
            return Err(format!("succeeded, expected {} at {}", code_name(case.code), case.stage));
        }
        Ok(answer) => answer,
    };
    for hint in &case.static_shapes {
        let expected = decode_shape(&hint.bytes)?;
        for (name, shape) in case.fetches.iter().zip(&answer.shapes) {
            if *name == hint.name && *shape != expected {
                let (shape, expected) = (show_shape(shape), show_shape(&expected));
                return Err(format!("static shape of {name} is {shape}, expected {expected}"));
            }
        }
    }
    let check = Check::parse(&case.check, case.rtol, case.atol)?;
    for (expected, got) in case.expected.iter().zip(&answer.outputs) {
        let name = &expected.name;
        compare(&decode_tensor(&expected.bytes)?, got, check)
            .map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

fn judge_failure(case: &Case, failure: &Failure) -> Result<(), String> {
    let Failure { code, stage, message } = failure;
    if *code != case.code || *stage != case.stage {
        let (got, expected) = (code_name(*code), code_name(case.code));
        return Err(format!("{got} at {stage} ({message}), expected {expected} at {}", case.stage));
    }
    if !message.contains(&case.message_contains) {
        return Err(format!("message {message:?} lacks {:?}", case.message_contains));
    }
    Ok(())
}

fn show_shape(shape: &Option<Vec<i64>>) -> String {
    shape.as_ref().map_or_else(|| "of unknown rank".into(), |dims| format!("{dims:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{NamedBytes, encode_tensor};
    use crate::value::Data;

    fn failure(code: i32, stage: &'static str, message: &str) -> Result<Answer, Failure> {
        Err(Failure { code, stage, message: message.into() })
    }

    fn bytes(bytes: &[u8]) -> Value {
        Value { dtype: 4, dims: vec![bytes.len() as i64], data: Data::Bytes(bytes.to_vec()) }
    }

    #[test]
    fn errors_match_by_code_stage_and_phrase() {
        let case = Case {
            code: 3,
            stage: "run".into(),
            message_contains: "must be".into(),
            ..Case::default()
        };
        assert!(judge(&case, failure(3, "run", "x must be y")).is_ok());
        assert!(judge(&case, failure(3, "import", "x must be y")).is_err());
        assert!(judge(&case, failure(5, "run", "x must be y")).is_err());
        assert!(judge(&case, failure(3, "run", "x is y")).is_err());
        assert!(judge(&case, Ok(Answer { outputs: vec![], shapes: vec![] })).is_err());
        assert!(judge(&Case::default(), failure(3, "run", "")).is_err());
    }

    #[test]
    fn shapes_and_values_are_compared() {
        let named = |bytes: &[u8]| NamedBytes { name: "a:0".into(), bytes: bytes.to_vec() };
        let case = Case {
            fetches: vec!["a:0".into()],
            expected: vec![named(&encode_tensor(&bytes(&[1, 2])))],
            static_shapes: vec![named(b"\x12\x02\x08\x02")],
            ..Case::default()
        };
        let answer =
            |value: &[u8], shape| Ok(Answer { outputs: vec![bytes(value)], shapes: vec![shape] });
        assert!(judge(&case, answer(&[1, 2], Some(vec![2]))).is_ok());
        assert!(judge(&case, answer(&[1, 3], Some(vec![2]))).is_err());
        assert!(judge(&case, answer(&[1, 2], None)).is_err());
        assert!(judge(&case, answer(&[1, 2], Some(vec![-1]))).is_err());
    }
}
