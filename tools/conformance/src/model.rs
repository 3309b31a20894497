//! Plays a model: a directory with `model.pb` or `saved_model/`, and the recorded runs in `io.bin`.
//!
//! `io.bin` is a list of records, little-endian and without padding: name length (u32) and name,
//! dtype (u32), rank (u32), dimensions (i64 each), byte length of the payload (u64), payload. A
//! string's payload is, for each element, its length (u64) and its bytes. The names say what a
//! record is for: `case<K>/in/<tensor>`, `case<K>/out/<tensor>`, `case<K>/target/<operation>`,
//! `tol` (the tolerance) and `tol/<tensor>` (tolerance and the share that may miss).

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::compare::compare_scaled;
use crate::handle::{Failure, Graph, Session, Tensor};
use crate::library::Api;
use crate::play::code_name;
use crate::value::{Data, FloatFormat, STRING, Value, item_size};

/// One recorded run. The runs of a model share a session and keep their order.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) inputs: Vec<(String, Value)>,
    pub(crate) outputs: Vec<(String, Value)>,
    pub(crate) targets: Vec<String>,
}

/// The contents of an `io.bin`.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub(crate) runs: Vec<Run>,
    tolerance: f64,
    /// Tolerance and allowed share of single outputs.
    by_output: HashMap<String, (f64, f64)>,
}

impl Recording {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut recording = Self::default();
        let mut runs = BTreeMap::<usize, Run>::new();
        let mut reader = Reader { bytes };
        while !reader.bytes.is_empty() {
            let (name, value) = reader.record().ok_or("io.bin is cut off")?;
            let bad_name = || format!("io.bin has a record called {name}");
            if name == "tol" {
                recording.tolerance = numbers(&value).first().copied().ok_or_else(bad_name)?;
            } else if let Some(tensor) = name.strip_prefix("tol/") {
                let [tolerance, share] = numbers(&value)[..] else {
                    return Err(bad_name());
                };
                recording.by_output.insert(tensor.to_owned(), (tolerance, share));
            } else {
                let mut parts = name.splitn(3, '/');
                let mut part = || parts.next().ok_or_else(bad_name);
                let (case, role, tensor) = (part()?, part()?, part()?.to_owned());
                let index =
                    case.strip_prefix("case").and_then(|k| k.parse().ok()).ok_or_else(bad_name)?;
                let run = runs.entry(index).or_default();
                match role {
                    "in" => run.inputs.push((tensor, value)),
                    "out" => run.outputs.push((tensor, value)),
                    "target" => run.targets.push(tensor),
                    _ => return Err(bad_name()),
                }
            }
        }
        recording.runs = runs.into_values().collect();
        Ok(recording)
    }

    /// Tolerance and the share of elements that may miss it.
    fn tolerance(&self, output: &str) -> (f64, f64) {
        self.by_output.get(output).copied().unwrap_or((self.tolerance, 0.0))
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    match (FloatFormat::of(value.dtype), &value.data) {
        (Some(format), Data::Bytes(bytes)) => format.decode(bytes),
        _ => Vec::new(),
    }
}

/// Cuts records off the front of a buffer; `None` when it ends too early.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.first_chunk().copied()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(u64::from_le_bytes(self.array()?)).ok()
    }

    fn record(&mut self) -> Option<(String, Value)> {
        let name_length = self.u32()? as usize;
        let name = String::from_utf8(self.take(name_length)?.to_vec()).ok()?;
        let dtype = i32::try_from(self.u32()?).ok()?;
        let rank = self.u32()?;
        let dims =
            (0..rank).map(|_| self.array().map(i64::from_le_bytes)).collect::<Option<Vec<_>>>()?;
        let length = self.length()?;
        let payload = self.take(length)?;
        let data = match dtype {
            STRING => {
                let (mut strings, mut rest) = (Vec::new(), Reader { bytes: payload });
                while !rest.bytes.is_empty() {
                    let length = rest.length()?;
                    strings.push(rest.take(length)?.to_vec());
                }
                Data::Strings(strings)
            }
            _ => Data::Bytes(payload.to_vec()),
        };
        let count =
            dims.iter().try_fold(1_usize, |n, dim| n.checked_mul(usize::try_from(*dim).ok()?))?;
        let fits = match &data {
            Data::Strings(strings) => strings.len() == count,
            // A target has no values and no shape.
            Data::Bytes(bytes) => {
                bytes.is_empty() || Some(bytes.len()) == item_size(dtype)?.checked_mul(count)
            }
        };
        fits.then_some((name, Value { dtype, dims, data }))
    }
}

/// Plays the runs of a model in order in one session, with files in `folder`.
///
/// A passing model tells its largest error, by the rule of [`compare_scaled`], and its times.
pub(crate) fn check_model(api: &Api, directory: &Path, folder: &Path) -> Result<String, String> {
    let read = |file: &str| std::fs::read(directory.join(file)).map_err(|e| format!("{file}: {e}"));
    let recording = Recording::parse(&read("io.bin")?)?;
    let start = Instant::now();
    let graph = Graph::new(api);
    let tell = |f: Failure| format!("{} at {}: {}", code_name(f.code), f.stage, f.message);
    let saved_model = directory.join("saved_model");
    let session = if saved_model.is_dir() {
        Session::load(&graph, &saved_model.to_string_lossy())
    } else {
        let graph_def = read("model.pb")?;
        graph.import(&graph_def).and_then(|()| Session::new(&graph))
    };
    let session = session.map_err(tell)?;
    check_export(api, &graph)?;
    let load = start.elapsed();
    let mut last_run = Duration::ZERO;
    let mut worst = 0.0_f64;
    for (k, run) in recording.runs.iter().enumerate() {
        let start = Instant::now();
        let outputs = play_run(api, &graph, &session, run, directory, folder);
        let outputs = outputs.map_err(|failure| format!("run {k}: {}", tell(failure)))?;
        last_run = start.elapsed();
        for ((name, expected), got) in run.outputs.iter().zip(&outputs) {
            let (tolerance, share) = recording.tolerance(name);
            let error = compare_scaled(expected, got, tolerance, share);
            worst = worst.max(error.map_err(|why| format!("run {k} {name}: {why}"))?);
        }
    }
    session.close().map_err(tell)?;
    let milliseconds = |time: Duration| 1e3 * time.as_secs_f64();
    Ok(format!(
        "error {worst:.1e}, load {:.0} ms, last run {:.1} ms",
        milliseconds(load),
        milliseconds(last_run)
    ))
}

/// Checks that a graph which is exported and imported again is the same graph.
fn check_export(api: &Api, graph: &Graph<'_>) -> Result<(), String> {
    let tell = |f: Failure| format!("export: {} at {}: {}", code_name(f.code), f.stage, f.message);
    let exported = graph.export().map_err(tell)?;
    let copy = Graph::new(api);
    copy.import(&exported).map_err(tell)?;
    let is_same = copy.export().map_err(tell)? == exported;
    is_same.then_some(()).ok_or_else(|| "export: another graph when imported again".to_string())
}

fn play_run<'g>(
    api: &Api,
    graph: &'g Graph<'_>,
    session: &Session<'g>,
    run: &Run,
    directory: &Path,
    folder: &Path,
) -> Result<Vec<Value>, Failure> {
    let mut feeds = Vec::new();
    for (name, value) in &run.inputs {
        let value = value
            .clone()
            .replace_in_strings(b"${TMP}", folder.as_os_str().as_encoded_bytes())
            .replace_in_strings(b"${DIR}", directory.as_os_str().as_encoded_bytes());
        feeds.push((graph.output(name)?, Tensor::new(api, &value)?));
    }
    let feeds: Vec<_> = feeds.iter().map(|(output, tensor)| (*output, tensor)).collect();
    let fetches =
        run.outputs.iter().map(|(name, _)| graph.output(name)).collect::<Result<Vec<_>, _>>()?;
    let targets =
        run.targets.iter().map(|name| graph.operation(name)).collect::<Result<Vec<_>, _>>()?;
    session.run(&[], &feeds, &fetches, &targets)?.iter().map(Tensor::read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, dtype: u32, dims: &[i64], payload: &[u8]) -> Vec<u8> {
        let mut out = (name.len() as u32).to_le_bytes().to_vec();
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&dtype.to_le_bytes());
        out.extend_from_slice(&(dims.len() as u32).to_le_bytes());
        out.extend(dims.iter().flat_map(|d| d.to_le_bytes()));
        out.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        out.extend_from_slice(payload);
        out
    }

    #[test]
    fn records_become_runs() {
        let mut bytes = record("case0/target/init", 1, &[0], &[]);
        bytes.extend(record("case10/out/y:0", 4, &[2], &[5, 6]));
        bytes.extend(record("case2/in/scope/x:0", 7, &[], b"\x02\0\0\0\0\0\0\0ab"));
        bytes.extend(record("tol", 2, &[], &1e-3_f64.to_le_bytes()));
        let pair: Vec<u8> = [0.5_f64, 0.25].iter().flat_map(|v| v.to_le_bytes()).collect();
        bytes.extend(record("tol/y:0", 2, &[2], &pair));

        let recording = Recording::parse(&bytes).unwrap();
        assert_eq!(recording.runs.len(), 3);
        assert_eq!(recording.runs[0].targets, ["init"]);
        let text = Value { dtype: STRING, dims: vec![], data: Data::Strings(vec![b"ab".to_vec()]) };
        assert_eq!(recording.runs[1].inputs, [("scope/x:0".to_owned(), text)]);
        assert_eq!(recording.runs[2].outputs[0].0, "y:0");
        assert_eq!(recording.tolerance("y:0"), (0.5, 0.25));
        assert_eq!(recording.tolerance("z:0"), (1e-3, 0.0));

        for length in [1, 20, bytes.len() - 1] {
            assert!(Recording::parse(&bytes[..length]).is_err(), "{length}");
        }
        assert!(Recording::parse(&record("case0/out/y:0", 1, &[2], &[0; 4])).is_err());
        assert!(Recording::parse(&record("other", 1, &[], &[0; 4])).is_err());
    }
}
