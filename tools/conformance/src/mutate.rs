//! Sends damaged copies of the recorded cases to the workers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use prost::Message;

use crate::case::{Case, NamedBytes, decode_tensor, encode_tensor};
use crate::damage::{damage_feed, damage_graph_def};
use crate::data::{Models, load_cases};
use crate::model::Recording;
use crate::pool::{self, Answer, PoolOptions, Task};
use crate::random::Random;
use crate::worker::{PASSED, TRY_MUTANT};

/// One mutant in this many is made of a model; they are large, and so take long.
const MODEL_SHARE: usize = 12;

/// What to make and how long to wait for it.
#[derive(Clone, Debug)]
pub(crate) struct MutateOptions {
    pub(crate) count: usize,
    pub(crate) seed: u64,
    /// Number of the first mutant: mutant 7 of a seed is always the same.
    pub(crate) first: u64,
    pub(crate) timeout: Duration,
    /// Where failing mutants are written, as serialised cases.
    pub(crate) keep: Option<PathBuf>,
}

/// Tries `count` mutants; true when the library stood all of them.
pub(crate) fn run(options: &MutateOptions, pool: &PoolOptions) -> Result<bool, String> {
    let (cases, models) = (decode_cases()?, load_models()?);
    let mutant =
        |index: usize| make_mutant(&cases, &models, options.seed, options.first + index as u64);
    let task = |index: usize| {
        let request = [vec![TRY_MUTANT], mutant(index).encode_to_vec()].concat();
        Task { request, timeout: options.timeout }
    };
    let start = Instant::now();
    let mut endings = BTreeMap::<String, usize>::new();
    let mut failures = Vec::new();
    pool::run_all(pool, options.count, task, |index, answer| {
        let why = match answer {
            Answer::Text(text) => match text.strip_prefix(PASSED) {
                Some(ending) => {
                    *endings.entry(ending.to_owned()).or_default() += 1;
                    return;
                }
                None => text,
            },
            Answer::Died(how) => how,
        };
        let number = options.first + index as u64;
        println!("FAILED mutant {number} of {}: {why}", mutant(index).name);
        failures.push(index);
    })?;
    for (ending, count) in &endings {
        println!("{count:8} {ending}");
    }
    if let Some(directory) = &options.keep {
        for index in &failures {
            let path = directory.join(format!(
                "mutant_{}_{}.case",
                options.seed,
                options.first + *index as u64
            ));
            let write = std::fs::create_dir_all(directory)
                .and_then(|()| std::fs::write(&path, mutant(*index).encode_to_vec()));
            write.map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    println!("seed {}, {:.1} s", options.seed, start.elapsed().as_secs_f64());
    println!("{} passed, {} failed", options.count - failures.len(), failures.len());
    Ok(failures.is_empty())
}

/// The mutant of that number: a case with a damaged graph, damaged feeds, or both.
fn make_mutant(cases: &[Case], models: &[Case], seed: u64, number: u64) -> Case {
    let mut random = Random::new(seed, number);
    let from_models = !models.is_empty() && random.one_in(MODEL_SHARE);
    let mut mutant =
        random.pick(if from_models { models } else { cases }).cloned().unwrap_or_default();
    let others: Vec<&[u8]> =
        (0..4).filter_map(|_| random.pick(cases)).map(|case| &case.graph_def[..]).collect();
    let (feeds_only, both) = (random.one_in(3), random.one_in(6));
    if !feeds_only {
        mutant.graph_def = damage_graph_def(&mutant.graph_def, &others, &mut random);
    }
    if feeds_only || both {
        for _ in 0..=random.below(2) {
            damage_some_feed(&mut mutant.feeds, &mut random);
        }
    }
    // Nothing is compared with the recording.
    mutant.expected.clear();
    mutant.static_shapes.clear();
    mutant
}

fn damage_some_feed(feeds: &mut [NamedBytes], random: &mut Random) {
    if let Some(feed) = random.pick_mut(feeds)
        && let Ok(mut value) = decode_tensor(&feed.bytes)
    {
        damage_feed(&mut value, random);
        feed.bytes = encode_tensor(&value);
    }
}

fn decode_cases() -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    for (op, serialised) in load_cases()? {
        for bytes in serialised {
            cases.push(Case::decode(&bytes[..]).map_err(|e| format!("a case of {op}: {e}"))?);
        }
    }
    Ok(cases)
}

/// The first run of every model that is a plain graph, as a case.
fn load_models() -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    for (name, directory) in &Models::load()?.directories {
        let Ok(graph_def) = std::fs::read(directory.join("model.pb")) else {
            continue;
        };
        let recording =
            std::fs::read(directory.join("io.bin")).map_err(|e| format!("{name}: {e}"))?;
        let Some(run) = Recording::parse(&recording)?.runs.into_iter().next() else {
            continue;
        };
        let feed = |(name, value)| NamedBytes { name, bytes: encode_tensor(&value) };
        cases.push(Case {
            name: format!("model {name}"),
            graph_def,
            feeds: run.inputs.into_iter().map(feed).collect(),
            fetches: run.outputs.into_iter().map(|(name, _)| name).collect(),
            targets: run.targets,
            ..Case::default()
        });
    }
    Ok(cases)
}
