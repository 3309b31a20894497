//! What has been found out about constant expressions. Shape functions ask for the same ones again and again.

use std::collections::{HashMap, HashSet};

use smallvec::SmallVec;
use tfcore_tensor::Tensor;

use crate::node::NodeId;

/// The values of all outputs of a node.
pub(crate) type NodeValues = SmallVec<[Tensor; 1]>;

/// What a graph of no nodes may spend.
const CREDIT: usize = 1 << 18;
/// What every node adds. Each is folded once, and now and then again.
const CREDIT_PER_NODE: usize = 4;
/// How many bytes of values are kept, at most twice: those of a generation.
const GENERATION: usize = 1 << 25;
/// The part of a tensor that counts as one unit.
const PAGE: usize = 1 << 12;
/// What a tensor takes besides its elements, nearly.
const OVERHEAD: usize = 128;

/// The memo of a graph, and what it may still spend on folding.
///
/// Values that have not been asked for since a whole generation of others came are dropped.
pub(crate) struct FoldMemo {
    young: HashMap<NodeId, NodeValues>,
    young_bytes: usize,
    old: HashMap<NodeId, NodeValues>,
    /// Nodes that have no value before the run.
    open: HashSet<NodeId>,
    credit: usize,
    generation: usize,
}

impl Default for FoldMemo {
    fn default() -> FoldMemo {
        FoldMemo {
            young: HashMap::new(),
            young_bytes: 0,
            old: HashMap::new(),
            open: HashSet::new(),
            credit: CREDIT,
            generation: GENERATION,
        }
    }
}

impl FoldMemo {
    /// One for an expression that costs what it may.
    pub(crate) fn unlimited() -> FoldMemo {
        FoldMemo { credit: usize::MAX, generation: usize::MAX, ..FoldMemo::default() }
    }

    pub(crate) fn values(&mut self, id: NodeId) -> Option<NodeValues> {
        if let Some(values) = self.young.get(&id) {
            return Some(values.clone());
        }
        let values = self.old.remove(&id)?;
        self.keep(id, values.clone());
        Some(values)
    }

    pub(crate) fn is_open(&self, id: NodeId) -> bool {
        self.open.contains(&id)
    }

    pub(crate) fn keep(&mut self, id: NodeId, values: NodeValues) {
        let bytes = held_bytes(&values);
        if self.young_bytes.saturating_add(bytes) > self.generation {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes = self.young_bytes.saturating_add(bytes);
        self.young.insert(id, values);
    }

    pub(crate) fn set_open(&mut self, id: NodeId) {
        self.open.insert(id);
    }

    /// Forgets a node whose values nobody reads.
    pub(crate) fn forget(&mut self, id: NodeId) {
        self.young.remove(&id);
        self.old.remove(&id);
        self.open.remove(&id);
    }

    /// Forgets everything but what has been spent.
    pub(crate) fn clear(&mut self) {
        *self =
            FoldMemo { credit: self.credit, generation: self.generation, ..FoldMemo::default() };
    }

    /// Forgets which nodes have no value: more is known of shapes.
    pub(crate) fn reopen(&mut self) {
        self.open = HashSet::new();
    }

    /// Takes note of `nodes` nodes that have come, or are looked at anew.
    pub(crate) fn earn(&mut self, nodes: usize) {
        self.credit = self.credit.saturating_add(CREDIT_PER_NODE.saturating_mul(nodes));
    }

    /// Pays for a node that reads and writes so many bytes, if that can be paid. A product of matrices takes more time for
    /// each byte the larger they are, and so all ops do here.
    pub(crate) fn spend(&mut self, bytes: usize) -> bool {
        let pages = bytes / PAGE;
        let cost = pages.saturating_mul(pages.isqrt()).saturating_add(1);
        let left = self.credit.checked_sub(cost);
        self.credit = left.unwrap_or(self.credit);
        left.is_some()
    }
}

/// What values take in memory; those of strings are short.
pub(crate) fn held_bytes(values: &[Tensor]) -> usize {
    values.iter().map(|tensor| tensor.byte_size().saturating_add(OVERHEAD)).sum()
}

#[cfg(test)]
mod tests {
    use tfcore_tensor::Shape;

    use super::*;

    fn value(id: u32) -> NodeValues {
        let tensor = Tensor::from_slice(Shape::vector(100), &[id as i32; 100]);
        NodeValues::from_elem(tensor.expect("as many values as elements"), 1)
    }

    fn first(values: Option<NodeValues>) -> Option<i64> {
        values.map(|values| values[0].to_i64s().expect("integers")[0])
    }

    #[test]
    fn old_values_go_and_used_ones_stay() {
        let one = held_bytes(&value(0));
        let mut memo = FoldMemo { generation: 10 * one, ..FoldMemo::default() };
        for id in 0..1000 {
            memo.keep(NodeId(id), value(id));
            assert_eq!(first(memo.values(NodeId(0))), Some(0), "{id}");
            assert!(memo.young.len() + memo.old.len() <= 20, "{id}");
        }
        assert_eq!(first(memo.values(NodeId(999))), Some(999));
        assert_eq!(first(memo.values(NodeId(500))), None);
    }

    #[test]
    fn large_values_cost_more_than_their_size() {
        let mut memo = FoldMemo::default();
        let cost = |memo: &mut FoldMemo, bytes| {
            let before = memo.credit;
            assert!(memo.spend(bytes));
            before - memo.credit
        };
        for (bytes, expected) in
            [(0, 1), (PAGE - 1, 1), (PAGE, 2), (4 * PAGE, 9), (100 * PAGE, 1001)]
        {
            assert_eq!(cost(&mut memo, bytes), expected, "{bytes}");
        }
        assert!(!memo.spend(usize::MAX));
        assert!(memo.spend(0), "what cannot be paid is not paid for");
        memo.credit = 0;
        assert!(!memo.spend(0));
        memo.earn(1);
        assert!(memo.spend(0));
    }
}
