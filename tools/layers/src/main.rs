//! Checks that the files of a crate do not import each other in a circle.
//!
//!     cargo run -p tfcore-layers -- src/graph/src/lib.rs src/framework/src/lib.rs
//!
//! Each argument is the root file of a crate. A file imports another one if it names an item of it by a path:
//! in `use` declarations and elsewhere. Re-exports are followed to the file that has the item. Code for
//! tests does not count. Prints one circle for each group of files that import each other, and exits with 1.
#![forbid(unsafe_code)]

mod circles;
mod modules;
mod paths;

use std::path::Path;
use std::process::ExitCode;

use modules::Crate;

fn main() -> ExitCode {
    let roots: Vec<String> = std::env::args().skip(1).collect();
    if roots.is_empty() {
        return fail("usage: tfcore-layers ROOT.rs ...");
    }
    let mut is_clean = true;
    for root in &roots {
        let found = match Crate::read(Path::new(root)) {
            Ok(found) => found,
            Err(error) => return fail(&error),
        };
        for circle in circles::find(&found.imports()) {
            is_clean = false;
            fail(&format!("{root}: files that import each other:"));
            for import in circle {
                fail(&format!("  {} uses {} of {}", import.from, import.path, import.to));
            }
        }
    }
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[allow(clippy::print_stderr, reason = "a program's messages")]
fn fail(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(2)
}
