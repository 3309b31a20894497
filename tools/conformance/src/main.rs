//! `tfcore-conformance` plays recorded op cases, models and damaged graphs over the C functions of
//! a library.
//!
//! It works with any library that has TensorFlow's C functions, also with TensorFlow's own, which
//! is how the recordings are known to be right. See `testdata/README.md` for where they come from.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that reports on the terminal"
)]

mod case;
mod compare;
mod damage;
mod data;
mod graph_def;
mod handle;
mod library;
mod missing;
mod model;
mod mutant;
mod mutate;
mod options;
mod pack;
mod play;
mod pool;
mod random;
mod suite;
mod value;
mod worker;

use std::path::Path;
use std::process::ExitCode;

use options::Command;

fn main() -> ExitCode {
    match options::parse(std::env::args().skip(1)).and_then(execute) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("tfcore-conformance: {why}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether everything is as it should be.
fn execute(command: Command) -> Result<bool, String> {
    match command {
        Command::Help => {
            print!("{}", options::USAGE);
            Ok(true)
        }
        Command::Suite(suite, pool) => suite::run(&suite, &pool),
        Command::Mutate(mutate, pool) => mutate::run(&mutate, &pool),
        Command::PackCases { corpus, out } => write_pack(&data::corpus_files(&corpus)?, &out),
        Command::PackModels { models, names, out } => {
            write_pack(&data::model_files(&models, &names)?, &out)
        }
        Command::Worker(options) => worker::serve(&options).map(|()| true),
    }
}

fn write_pack(files: &pack::Files, out: &Path) -> Result<bool, String> {
    let pack = pack::compress(files)?;
    std::fs::write(out, &pack).map_err(|e| format!("{}: {e}", out.display()))?;
    let size: usize = files.iter().map(|(_, contents)| contents.len()).sum();
    println!("{} files, {size} bytes, packed {}", files.len(), pack.len());
    Ok(true)
}
