//! Scalar groups: neighbouring nodes of a body that are nothing but arithmetic run on bare scalars.
//!
//! A loop that counts, or a schedule that computes a learning rate, consists of ops on scalars, and making a tensor
//! for each result would cost many times what the arithmetic does. A group reads its scalars once, runs its nodes
//! on them and makes tensors only of results that other nodes read. If an input is no scalar, or a node reports an error,
//! the nodes run one by one; until then the group has changed nothing.
//!
//! This file holds data. `lower/scalars.rs` makes groups, the runtime's `run/scalars.rs` runs them.

use std::ops::Range;
use std::sync::Arc;

use tfcore_framework::ScalarKernel;
use tfcore_tensor::Scalar;

/// Number of nodes of a group at most: their scalars stay in the first-level cache.
pub const MAX_NODES: usize = 256;

/// All groups of a body, in the order of their nodes.
#[derive(Default)]
pub struct ScalarGroups {
    pub groups: Vec<Group>,
    // The groups' parts, concatenated.
    pub loads: Vec<u32>,
    pub code: Vec<Instruction>,
    pub stores: Vec<Store>,
    pub drops: Vec<u32>,
}

/// Neighbouring nodes. The registers of a group hold first what it loads, then the results of its instructions.
pub struct Group {
    pub nodes: Range<usize>,
    /// Slots of the values that the group reads.
    pub loads: Range<usize>,
    /// One for each node.
    pub code: Range<usize>,
    pub stores: Range<usize>,
    /// Slots of values that nothing reads after the group.
    pub drops: Range<usize>,
}

/// A node of a group.
pub struct Instruction {
    pub kernel: Arc<dyn ScalarKernel>,
    /// The registers of the inputs. Inputs that the kernel does not have are the same register as the first.
    pub inputs: [u16; 3],
    /// Of the output's dtype.
    pub zero: Scalar,
}

/// A result that nodes outside of the group read.
pub struct Store {
    pub slot: u32,
    pub register: u16,
    /// A slot whose value has no other reader, so that its tensor may hold the result.
    pub reused: Option<u32>,
}

impl ScalarGroups {
    /// The groups from node `start` on.
    pub fn starting_at(&self, start: usize) -> &[Group] {
        &self.groups[self.groups.partition_point(|group| group.nodes.start < start)..]
    }

    /// Number of registers that a run needs.
    pub fn num_registers(&self) -> usize {
        self.groups.iter().map(|group| group.loads.len() + group.code.len()).max().unwrap_or(0)
    }
}

/// A loop that is nothing but arithmetic on scalars: its variables stay in registers from the first iteration to the last.
pub struct ScalarLoop {
    /// Slots of the variables, then of all else that the loop reads.
    pub loads: Vec<u32>,
    pub code: Vec<Instruction>,
    /// Number of instructions that belong to the condition.
    pub split: usize,
    pub predicate: u16,
    /// The registers of the variables' next values.
    pub next: Vec<u16>,
}
