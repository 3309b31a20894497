//! Plays the recorded cases and models and reports what passed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use prost::Message;

use crate::case::Case;
use crate::data::{Models, load_cases, load_families, test_data};
use crate::missing::{Missing, Subject};
use crate::pool::{self, Answer, PoolOptions, Task};
use crate::worker::{PASSED, PLAY_CASE, PLAY_MODEL};

/// A model runs long: it gets this much when a case gets less.
const MODEL_TIMEOUT: Duration = Duration::from_secs(300);

/// How many failing cases are printed when not all are asked for.
const SHOWN_FAILURES: usize = 60;

/// What to play and what to print.
#[derive(Clone, Debug, Default)]
pub(crate) struct SuiteOptions {
    /// Only these ops; empty stands for all.
    pub(crate) only: BTreeSet<String>,
    pub(crate) family: Option<String>,
    /// Only cases and models with this in their name.
    pub(crate) name_part: String,
    pub(crate) cases: bool,
    pub(crate) models: bool,
    pub(crate) timeout: Duration,
    pub(crate) all_failures: bool,
    /// Plays everything, as if nothing were known to be missing: for TensorFlow's own library.
    pub(crate) ignore_missing: bool,
    /// Also plays what is on the list of what is missing.
    pub(crate) include_missing: bool,
    /// Takes off the list what passes.
    pub(crate) update_missing: bool,
}

impl SuiteOptions {
    /// Whether everything that the list can be about gets played.
    fn is_whole(&self) -> bool {
        if ["TFCORE_CORPUS", "TFCORE_MODELS"].iter().any(|name| std::env::var_os(name).is_some()) {
            return false;
        }
        self.only.is_empty()
            && self.family.is_none()
            && self.name_part.is_empty()
            && self.cases
            && self.models
    }
}

/// A case or model that the options ask for.
struct Item {
    subject: Name,
    /// Name in full, as printed.
    title: String,
    family: String,
    work: Work,
}

enum Name {
    Case(String),
    Model(String),
}

impl Name {
    fn subject(&self) -> Subject<'_> {
        match self {
            Name::Case(id) => Subject::Case(id),
            Name::Model(name) => Subject::Model(name),
        }
    }
}

enum Work {
    /// Serialised.
    Case(Vec<u8>),
    Model(PathBuf),
}

/// Plays what the options ask for; true when every failure is listed as missing and nothing listed
/// passes.
pub(crate) fn run(options: &SuiteOptions, pool: &PoolOptions) -> Result<bool, String> {
    let list = test_data().join("missing.txt");
    let text = match options.ignore_missing {
        true => String::new(),
        false => std::fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?,
    };
    let mut missing = Missing::parse(&text).map_err(|why| format!("{}: {why}", list.display()))?;
    let models = if options.models { Some(Models::load()?) } else { None };
    let all = collect(options, models.as_ref())?;
    let unknown = if options.is_whole() {
        missing.unknown(all.iter().map(|i| i.subject.subject()))
    } else {
        Vec::new()
    };
    for key in &unknown {
        println!("{}: there is no such thing as \"{key}\"", list.display());
    }

    let include = options.include_missing || options.update_missing;
    let (items, skipped): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|item| include || missing.entry(item.subject.subject()).is_none());
    let start = Instant::now();
    let failures = play(&items, options, pool)?;
    let seconds = start.elapsed().as_secs_f64();

    print_families(&items, &failures, &skipped);
    print_failures(options, &items, &failures);
    let results: Vec<_> = items
        .iter()
        .zip(&failures)
        .map(|(item, failure)| (item.subject.subject(), failure.is_none()))
        .collect();
    let outdated = missing.outdated(&results);
    if !outdated.is_empty() && !options.update_missing {
        println!("passes and has to leave {} (--update-missing):", list.display());
        println!("  {}", outdated.join(", "));
    }
    if options.update_missing {
        missing.shrink(&results);
        std::fs::write(&list, missing.to_text()).map_err(|e| format!("{}: {e}", list.display()))?;
    }
    let failed = results.iter().filter(|(_, passed)| !passed).count();
    let unexpected =
        results.iter().filter(|(s, passed)| !passed && missing.entry(*s).is_none()).count();
    println!(
        "{} in {seconds:.1} s; known to be missing: {} skipped, {} failed",
        results.len(),
        skipped.len(),
        failed - unexpected
    );
    println!("{} passed, {failed} failed", results.len() - failed);
    let up_to_date = unknown.is_empty() && (outdated.is_empty() || options.update_missing);
    let something = !results.is_empty() || !skipped.is_empty();
    Ok(unexpected == 0 && up_to_date && something)
}

fn collect(options: &SuiteOptions, models: Option<&Models>) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    let families = load_families()?;
    for (op, cases) in if options.cases { load_cases()? } else { BTreeMap::new() } {
        let family = families.get(&op).map_or("other", String::as_str);
        let wanted_op = options.only.is_empty() || options.only.contains(&op);
        if !wanted_op || options.family.as_deref().is_some_and(|wanted| wanted != family) {
            continue;
        }
        for bytes in cases {
            let case = Case::decode(&bytes[..]).map_err(|e| format!("a case of {op}: {e}"))?;
            if case.name.contains(&options.name_part) {
                let subject = Name::Case(case.id().to_owned());
                items.push(Item {
                    subject,
                    title: case.name,
                    family: family.to_owned(),
                    work: Work::Case(bytes),
                });
            }
        }
    }
    let models_wanted = options.only.is_empty()
        && options.family.as_deref().is_none_or(|family| family == "models");
    for (name, directory) in
        models.filter(|_| models_wanted).iter().flat_map(|models| &models.directories)
    {
        if name.contains(&options.name_part) {
            items.push(Item {
                subject: Name::Model(name.clone()),
                title: format!("model {name}"),
                family: "models".into(),
                work: Work::Model(directory.clone()),
            });
        }
    }
    Ok(items)
}

/// Plays the items; for each, why it failed.
fn play(
    items: &[Item],
    options: &SuiteOptions,
    pool: &PoolOptions,
) -> Result<Vec<Option<String>>, String> {
    let task = |index: usize| {
        let (kind, body, timeout) = match &items[index].work {
            Work::Case(bytes) => (PLAY_CASE, &bytes[..], options.timeout),
            Work::Model(path) => {
                (PLAY_MODEL, path.as_os_str().as_bytes(), options.timeout.max(MODEL_TIMEOUT))
            }
        };
        Task { request: [&[kind], body].concat(), timeout }
    };
    let mut failures = vec![None; items.len()];
    pool::run_all(pool, items.len(), task, |index, answer| {
        failures[index] = match answer {
            Answer::Text(text) => match text.strip_prefix(PASSED) {
                Some(note) => {
                    if !note.is_empty() {
                        println!("{}: {note}", items[index].title);
                    }
                    None
                }
                None => Some(text),
            },
            Answer::Died(how) => Some(how),
        };
    })?;
    Ok(failures)
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
}

fn print_families(items: &[Item], failures: &[Option<String>], skipped: &[Item]) {
    let mut table = BTreeMap::<&str, Tally>::new();
    for (item, failure) in items.iter().zip(failures) {
        let tally = table.entry(&item.family).or_default();
        *if failure.is_none() { &mut tally.passed } else { &mut tally.failed } += 1;
    }
    for item in skipped {
        table.entry(&item.family).or_default().skipped += 1;
    }
    let mut text = format!("{:12} {:>7} {:>7} {:>7}\n", "family", "passed", "failed", "skipped");
    for (family, Tally { passed, failed, skipped }) in table {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{family:12} {passed:7} {failed:7} {skipped:7}");
    }
    print!("{text}");
}

/// The first failing case of each op, or all of them.
fn print_failures(options: &SuiteOptions, items: &[Item], failures: &[Option<String>]) {
    let failing =
        || items.iter().zip(failures).filter_map(|(item, why)| Some((item, why.as_deref()?)));
    let op = |item: &Item| item.title.split('/').next().unwrap_or_default().to_owned();
    let mut of_op = BTreeMap::<String, usize>::new();
    for (item, _) in failing() {
        *of_op.entry(op(item)).or_default() += 1;
    }
    let mut shown = BTreeSet::new();
    for (item, why) in failing() {
        let first = shown.insert(op(item));
        if options.all_failures || (first && shown.len() <= SHOWN_FAILURES) {
            let others = match of_op[&op(item)] - 1 {
                others if others > 0 && !options.all_failures => {
                    format!(" (and {others} more of this op)")
                }
                _ => String::new(),
            };
            println!(
                "FAILED {}: {}{others}",
                item.title,
                why.split_whitespace().collect::<Vec<_>>().join(" ")
            );
        }
    }
    if !options.all_failures && shown.len() > SHOWN_FAILURES {
        println!(
            "... and {} more ops with failing cases (--all-failures)",
            shown.len() - SHOWN_FAILURES
        );
    }
}
