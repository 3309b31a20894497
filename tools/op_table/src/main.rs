//! `op-table`: writes the tables in `src/framework/op_table/` from what a TensorFlow library lists about itself.
//!
//!     op-table ops OP_LIST [LEAVE_OUT] > src/framework/op_table/ops.txt
//!     op-table kernels KERNEL_LIST [LEAVE_OUT] > src/framework/op_table/cpu_kernels.txt
//!
//! OP_LIST holds the bytes that `TF_GetAllOpList` returns, KERNEL_LIST those of `TF_GetAllRegisteredKernels`,
//! LEAVE_OUT names of ops to leave out, one a line. The tables are needed again only for another release.
#![forbid(unsafe_code)]

mod dtype;
mod kernels;
mod ops;
mod text;

use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write;

/// What can go wrong, as a message: the tool is run by hand.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (what, list, leave_out) = match arguments.as_slice() {
        [what, list] => (what, list, None),
        [what, list, leave_out] => (what, list, Some(leave_out)),
        _ => return Err("usage: op-table ops|kernels LIST [LEAVE_OUT]".into()),
    };
    let list = std::fs::read(list)?;
    let names = leave_out.map(std::fs::read_to_string).transpose()?.unwrap_or_default();
    let leave_out: BTreeSet<&str> = names.split_whitespace().collect();
    let table = match what.as_str() {
        "ops" => ops::table(tfcore_proto::decode(&list)?, &leave_out)?,
        "kernels" => kernels::table(tfcore_proto::decode(&list)?, &leave_out)?,
        other => return Err(format!("no table '{other}'; there are 'ops' and 'kernels'").into()),
    };
    std::io::stdout().write_all(table.as_bytes())?;
    Ok(())
}
