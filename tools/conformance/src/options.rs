//! The command line.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::mutate::MutateOptions;
use crate::pool::PoolOptions;
use crate::suite::SuiteOptions;
use crate::worker::WorkerOptions;

pub(crate) const USAGE: &str = "\
Plays recorded cases over the C functions of a TensorFlow library.

  tfcore-conformance --lib LIBRARY [--preload LIBRARY].. [options]
      --only OP[,OP..]      only these ops
      --family NAME         only this family of ops (\"models\" for the models)
      --case TEXT           only cases and models with this in their name
      --corpus-only         no models
      --models-only         no cases of single ops
      --all-failures        print every failing case
      --include-missing     also play what missing.txt lists
      --update-missing      play it and take off the list what passes
      --ignore-missing      play everything without the list
  tfcore-conformance mutate --lib LIBRARY [--preload LIBRARY].. [options]
      Damages graphs and feeds of the cases and models, imports and runs them: no crash, no hang, no half import.
      --count N             mutants (1000)
      --seed N              of the random choices (1)
      --first N             number of the first mutant (0), to play one again
      --keep DIR            write failing mutants there, as serialised cases
  tfcore-conformance pack --corpus DIR --out FILE
  tfcore-conformance pack --models DIR --only MODEL[,MODEL..] --out FILE

For both players:
      --jobs N              worker processes (number of cores)
      --timeout SECONDS     for one case (20)
      --memory-limit BYTES  address space of a worker (none; for mutants 16 GiB)
      --verbose             let the library's own messages through

TFCORE_CORPUS and TFCORE_MODELS name directories with other cases and models than the packed ones.
";

/// What the command line asks for.
pub(crate) enum Command {
    Help,
    Suite(SuiteOptions, PoolOptions),
    Mutate(MutateOptions, PoolOptions),
    PackCases { corpus: PathBuf, out: PathBuf },
    PackModels { models: PathBuf, names: Vec<String>, out: PathBuf },
    Worker(WorkerOptions),
}

/// Everything that can be given, before it is sorted by command.
#[derive(Default)]
struct Given {
    library: Option<String>,
    preload: Vec<String>,
    only: Vec<String>,
    family: Option<String>,
    name_part: String,
    jobs: Option<usize>,
    timeout: Option<f64>,
    memory_limit: Option<u64>,
    count: Option<usize>,
    seed: Option<u64>,
    first: Option<u64>,
    keep: Option<PathBuf>,
    corpus: Option<PathBuf>,
    models: Option<PathBuf>,
    out: Option<PathBuf>,
    folder: PathBuf,
    flags: BTreeSet<&'static str>,
}

const FLAGS: [&str; 8] = [
    "--corpus-only",
    "--models-only",
    "--all-failures",
    "--include-missing",
    "--update-missing",
    "--ignore-missing",
    "--verbose",
    "--worker",
];

/// Reads the arguments that follow the program's name.
pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut arguments = arguments.peekable();
    let verb = arguments.next_if(|word| !word.starts_with('-')).unwrap_or_default();
    let mut given = Given::default();
    while let Some(name) = arguments.next() {
        if name == "--help" || name == "-h" {
            return Ok(Command::Help);
        }
        if let Some(flag) = FLAGS.iter().find(|flag| **flag == name) {
            given.flags.insert(flag);
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        given.set(&name, value)?;
    }
    given.command(&verb)
}

impl Given {
    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "--lib" => self.library = Some(absolute(value)),
            "--preload" => self.preload.push(absolute(value)),
            "--only" => self.only.extend(value.split(',').map(str::to_owned)),
            "--family" => self.family = Some(value),
            "--case" => self.name_part = value,
            "--jobs" => self.jobs = Some(number(name, &value)?),
            "--timeout" => self.timeout = Some(number(name, &value)?),
            "--memory-limit" => self.memory_limit = Some(number(name, &value)?),
            "--count" => self.count = Some(number(name, &value)?),
            "--seed" => self.seed = Some(number(name, &value)?),
            "--first" => self.first = Some(number(name, &value)?),
            "--keep" => self.keep = Some(value.into()),
            "--corpus" => self.corpus = Some(value.into()),
            "--models" => self.models = Some(value.into()),
            "--out" => self.out = Some(value.into()),
            "--folder" => self.folder = value.into(),
            _ => return Err(format!("unknown option {name}")),
        }
        Ok(())
    }

    fn command(self, verb: &str) -> Result<Command, String> {
        let has = |flag: &str| self.flags.contains(flag);
        if verb == "pack" {
            let out = self.out.ok_or("pack needs --out")?;
            return match (self.corpus, self.models) {
                (Some(corpus), None) => Ok(Command::PackCases { corpus, out }),
                (None, Some(models)) => Ok(Command::PackModels { models, names: self.only, out }),
                _ => Err("pack needs --corpus or --models".into()),
            };
        }
        let library = self.library.clone().ok_or("--lib is needed")?;
        if has("--worker") {
            return Ok(Command::Worker(WorkerOptions {
                library,
                preload: self.preload,
                verbose: self.flags.contains("--verbose"),
                folder: self.folder,
                memory_limit: self.memory_limit.unwrap_or(0),
            }));
        }
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let timeout = self.timeout.unwrap_or(20.0);
        let timeout =
            Duration::try_from_secs_f64(timeout).map_err(|e| format!("--timeout: {e}"))?;
        let mut pool = PoolOptions {
            library,
            preload: self.preload,
            jobs: self.jobs.unwrap_or(cores),
            verbose: self.flags.contains("--verbose"),
            memory_limit: self.memory_limit.unwrap_or(0),
        };
        let has = |flag: &str| self.flags.contains(flag);
        match verb {
            "" => {
                let suite = SuiteOptions {
                    only: self.only.into_iter().collect(),
                    family: self.family,
                    name_part: self.name_part,
                    cases: !has("--models-only"),
                    models: !has("--corpus-only"),
                    timeout,
                    all_failures: has("--all-failures"),
                    include_missing: has("--include-missing"),
                    update_missing: has("--update-missing"),
                    ignore_missing: has("--ignore-missing"),
                };
                if suite.update_missing && suite.ignore_missing {
                    return Err(
                        "--update-missing needs the list that --ignore-missing leaves out".into()
                    );
                }
                if suite.update_missing && !suite.name_part.is_empty() {
                    return Err(
                        "--update-missing judges whole ops, so it goes not with --case".into()
                    );
                }
                Ok(Command::Suite(suite, pool))
            }
            "mutate" => {
                pool.memory_limit = self.memory_limit.unwrap_or(16 << 30);
                let mutate = MutateOptions {
                    count: self.count.unwrap_or(1000),
                    seed: self.seed.unwrap_or(1),
                    first: self.first.unwrap_or(0),
                    timeout,
                    keep: self.keep,
                };
                Ok(Command::Mutate(mutate, pool))
            }
            _ => Err(format!("unknown command {verb}")),
        }
    }
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name}: {value:?} is not a number it can have"))
}

/// Workers run in other folders. What is no file is left to the search of the dynamic linker.
fn absolute(path: String) -> String {
    match std::fs::canonicalize(&path) {
        Ok(absolute) => absolute.to_string_lossy().into_owned(),
        Err(_) => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn commands_are_told_apart() {
        let Ok(Command::Suite(suite, pool)) =
            parse_line("--lib x.so --only A,B --corpus-only --jobs 3")
        else {
            panic!("a suite")
        };
        assert_eq!(suite.only.into_iter().collect::<Vec<_>>(), ["A", "B"]);
        assert!(suite.cases && !suite.models);
        assert_eq!((pool.jobs, pool.memory_limit), (3, 0));
        let Ok(Command::Mutate(mutate, _)) = parse_line("mutate --lib x.so --count 5 --seed 9")
        else {
            panic!("mutants")
        };
        assert_eq!((mutate.count, mutate.seed, mutate.first), (5, 9, 0));
        assert!(matches!(parse_line("pack --corpus a --out b"), Ok(Command::PackCases { .. })));
        for wrong in [
            "",
            "--lib",
            "--lib x --jobs many",
            "--lib x --timeout -1",
            "play --lib x",
            "pack --out b",
        ] {
            assert!(parse_line(wrong).is_err(), "{wrong}");
        }
    }
}
