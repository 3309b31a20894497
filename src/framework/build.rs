//! Writes the index of the op table: where each op begins, and a hash table of their names.

use std::{env, fs, path::Path};

#[path = "src/name_hash.rs"]
mod name_hash;

use name_hash::{SLOTS, first_slot};

const TABLE: &str = "op_table/ops.txt";

fn main() {
    for source in [TABLE, "build.rs", "src/name_hash.rs"] {
        println!("cargo::rerun-if-changed={source}");
    }
    let table = fs::read_to_string(TABLE).expect("the op table is part of the sources");
    let mut starts: Vec<usize> = table.match_indices("\nop ").map(|(at, _)| at + 1).collect();
    let mut positions = [0; SLOTS];
    for (position, start) in starts.iter().enumerate() {
        let line = table[*start..].lines().next().expect("an op has a line");
        let mut slot = first_slot(&line["op ".len()..]);
        while positions[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        positions[slot] = position + 1;
    }
    let len = starts.len();
    assert!(2 * len <= SLOTS, "the index needs more slots");
    starts.push(table.len());
    let code = format!(
        "pub(super) const LEN: usize = {len};\n\
         /// Where each op begins, and the end of the table.\n\
         pub(super) static STARTS: [u32; LEN + 1] = {starts:?};\n\
         /// By hash of the name, the position of an op plus 1; 0 is an empty slot.\n\
         pub(super) static POSITIONS: [u16; {SLOTS}] = {positions:?};\n"
    );
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("op_index.rs"), code).expect("OUT_DIR can be written");
}
