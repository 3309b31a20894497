//! Writes the index of the op table: for each op its name and where its lines stand, by name.

use std::{env, fs, path::Path};

const TABLE: &str = "op_table/ops.txt";

fn main() {
    println!("cargo::rerun-if-changed={TABLE}");
    println!("cargo::rerun-if-changed=build.rs");
    let table = fs::read_to_string(TABLE).expect("the op table is part of the sources");
    let starts: Vec<usize> = table.match_indices("\nop ").map(|(at, _)| at + 1).collect();
    let ends = starts.iter().skip(1).copied().chain([table.len()]);
    let mut entries: Vec<(&str, usize, usize)> = starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| {
            let name = table[start + 3..end].lines().next().expect("an op has a name").trim();
            (name, start, end)
        })
        .collect();
    entries.sort_unstable();
    let mut code = format!(
        "pub(super) const LEN: usize = {};\npub(super) static INDEX: [(&str, u32, u32); LEN] = [\n",
        entries.len()
    );
    for (name, start, end) in entries {
        code.push_str(&format!("    ({name:?}, {start}, {end}),\n"));
    }
    code.push_str("];\n");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("op_index.rs"), code).expect("OUT_DIR can be written");
}
