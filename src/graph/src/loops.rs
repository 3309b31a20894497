//! Finds the loops of the old kind in a graph: Enter, Merge, Switch, NextIteration and Exit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{Result, invalid};
use tfcore_framework::Role;

use crate::Graph;
use crate::copy::in_order;
use crate::node::{Node, NodeId, OutputRef};
use crate::reach::{reach, readers};

/// A loop, as its LoopCond holds it together.
pub(crate) struct Loop {
    /// Whether there is another iteration.
    pub(crate) condition: OutputRef,
    pub(crate) frame: String,
    pub(crate) parallel_iterations: i64,
    pub(crate) variables: Vec<LoopVariable>,
    /// The Enters of values that all iterations share, in order.
    pub(crate) invariants: Vec<NodeId>,
    /// The positions of the variables by their Switches.
    by_switch: HashMap<NodeId, usize>,
}

pub(crate) struct LoopVariable {
    /// The value before the first iteration, outside of the loop.
    pub(crate) first: OutputRef,
    pub(crate) switch: NodeId,
    /// The value for the next iteration, in the loop.
    pub(crate) next: OutputRef,
    pub(crate) exits: SmallVec<[NodeId; 1]>,
}

impl LoopVariable {
    /// The value in the body.
    pub(crate) fn value(&self) -> OutputRef {
        OutputRef::new(self.switch, 1)
    }

    /// Whether the body hands the value on as it is.
    pub(crate) fn is_constant(&self) -> bool {
        self.next == self.value()
    }
}

/// The part of a body that some values are computed by.
pub(crate) struct BodyPart {
    /// Each after those that it reads.
    pub(crate) nodes: Vec<Arc<Node>>,
    /// Positions of the loop variables that are read, in order.
    pub(crate) variables: Vec<usize>,
    /// The Enters that are read, in order.
    pub(crate) invariants: Vec<NodeId>,
}

impl Loop {
    /// The loop that `exit` leaves.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not built as loops are.
    pub(crate) fn of_exit(graph: &Graph, exit: NodeId) -> Result<Loop> {
        let find = || {
            let switch = producer(graph, graph.node(exit), 0, Role::Switch)?;
            producer(graph, switch, 1, Role::LoopCond).map(|condition| condition.id)
        };
        let Some(condition) = find() else {
            return Err(invalid!("Exit '{}' leaves no loop", graph.node(exit).name));
        };
        let condition = OutputRef::new(condition, 0);
        let mut found = Loop {
            condition,
            frame: String::new(),
            parallel_iterations: 1,
            variables: Vec::new(),
            invariants: Vec::new(),
            by_switch: HashMap::new(),
        };
        for (switch, input) in graph.consumers(condition) {
            if input == 1 && graph.node(switch).is_switch() {
                found.add_variable(graph, switch)?;
            }
        }
        let all: Vec<usize> = (0..found.variables.len()).collect();
        found.invariants = found.body(graph, &all)?.invariants;
        Ok(found)
    }

    fn add_variable(&mut self, graph: &Graph, switch: NodeId) -> Result<()> {
        let node = graph.node(switch);
        let find = || {
            let merge = producer(graph, node, 0, Role::Merge)?;
            let enter = producer(graph, merge, 0, Role::Enter)?;
            let next = producer(graph, merge, 1, Role::NextIteration)?;
            Some((enter, next))
        };
        let Some((enter, next)) = find() else {
            return Err(invalid!("Switch '{}' belongs to no loop variable", node.name));
        };
        self.frame = enter.attrs.str("frame_name")?.to_string();
        self.parallel_iterations = enter.attrs.int("parallel_iterations")?;
        let exits = graph
            .consumers(OutputRef::new(switch, 0))
            .map(|(consumer, _)| consumer)
            .filter(|&consumer| graph.node(consumer).is_exit());
        self.by_switch.insert(switch, self.variables.len());
        self.variables.push(LoopVariable {
            first: enter.inputs[0].source,
            switch,
            next: next.inputs[0].source,
            exits: exits.collect(),
        });
        Ok(())
    }

    /// What the next values of some variables are computed by.
    pub(crate) fn body(&self, graph: &Graph, variables: &[usize]) -> Result<BodyPart> {
        let mut part =
            BodyPart { nodes: Vec::new(), variables: Vec::new(), invariants: Vec::new() };
        let mut seen: HashSet<NodeId> = HashSet::new();
        let mut queue: Vec<NodeId> =
            variables.iter().map(|&index| self.variables[index].next.node).collect();
        while let Some(id) = queue.pop() {
            if !seen.insert(id) {
                continue;
            }
            let node = graph.node(id);
            if let Some(&index) = self.by_switch.get(&id) {
                part.variables.push(index);
            } else if self.is_invariant(node) {
                part.invariants.push(id);
            } else {
                part.nodes.push(node.clone());
                queue.extend(node.inputs.iter().map(|edge| edge.source.node));
            }
        }
        part.nodes.sort_by_key(|node| node.id);
        part.variables.sort_unstable();
        part.invariants.sort_unstable();
        part.nodes = in_order(&part.nodes)?;
        Ok(part)
    }

    /// Marks the variables that marked ones are computed by, in this iteration or an earlier one.
    pub(crate) fn spread_back(&self, graph: &Graph, marks: &mut [bool]) {
        let next = |index: usize| self.variables[index].next.node;
        let marked = (0..marks.len()).filter(|&index| marks[index]);
        let reached =
            reach(marked.map(next).collect(), |id, queue| match self.by_switch.get(&id) {
                Some(&index) => queue.push(next(index)),
                None if self.is_invariant(graph.node(id)) => {}
                None => queue.extend(graph.node(id).inputs.iter().map(|edge| edge.source.node)),
            });
        for (mark, variable) in marks.iter_mut().zip(&self.variables) {
            *mark |= reached.contains(&variable.switch);
        }
    }

    /// Marks the variables that are computed by marked ones or by `invariants`, in this iteration or a later one.
    pub(crate) fn spread_forth(
        &self,
        body: &BodyPart,
        marks: &mut [bool],
        invariants: impl Iterator<Item = NodeId>,
    ) {
        let readers = readers(&body.nodes);
        let mut switches: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
        for variable in &self.variables {
            switches.entry(variable.next.node).or_default().push(variable.switch);
        }
        let marked = (0..marks.len()).filter(|&index| marks[index]);
        let marked = marked.map(|index| self.variables[index].switch);
        let reached = reach(marked.chain(invariants).collect(), |id, queue| {
            queue.extend(readers.get(&id).into_iter().flatten());
            queue.extend(switches.get(&id).into_iter().flatten());
        });
        for (mark, variable) in marks.iter_mut().zip(&self.variables) {
            *mark |= reached.contains(&variable.next.node);
        }
    }

    fn is_invariant(&self, node: &Node) -> bool {
        node.is_enter()
            && node.attrs.bytes("frame_name").is_ok_and(|frame| frame == self.frame.as_bytes())
            && node.attrs.bool("is_constant").unwrap_or(false)
    }

    /// What enters the loop from outside: first the variables, then the invariants.
    pub(crate) fn sources(&self, graph: &Graph) -> Vec<OutputRef> {
        let invariants = self.invariants.iter().map(|&enter| graph.node(enter).inputs[0].source);
        self.variables.iter().map(|variable| variable.first).chain(invariants).collect()
    }
}

/// The node that computes an input, if it has the role.
fn producer<'g>(graph: &'g Graph, node: &Node, input: usize, role: Role) -> Option<&'g Arc<Node>> {
    let found = graph.node(node.inputs.get(input)?.source.node);
    (found.role() == role).then_some(found)
}
