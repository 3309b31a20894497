//! Lifting: loops of Enter, Merge, Switch, NextIteration and Exit become one node each, which runs its condition and its
//! body one after the other.
//!
//! A loop is lifted if it has the shape that all front ends build: each loop variable enters through a Merge of an
//! Enter and a NextIteration, passes a Switch on the one LoopCond, and leaves through an Exit; all
//! else that enters is constant. Whatever has another shape runs in the gear with frames.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::{HashMap, HashSet};
use tfcore_base::Result;
use tfcore_graph::{Node, NodeId, OutputRef};

use crate::context::PassContext;
use crate::graph::PlanGraph;
use crate::loops::{Item, LiftedLoop, LoopVar, ROOT};
use crate::passes::pass::Pass;

/// Loops nested deeper are not lifted; what is kept for each loop holds all loops within.
const MAX_DEPTH: usize = 32;

/// See the module's documentation.
pub struct Lift;

impl Pass for Lift {
    fn name(&self) -> &'static str {
        "lift"
    }

    fn run(&self, graph: &mut PlanGraph<'_>, _: &PassContext<'_>) -> Result<()> {
        // A result inside of a loop has a value in each iteration.
        let is_inside = |output: &OutputRef| {
            !graph.fed.contains(output) && graph.frames.of(output.node) != ROOT
        };
        if !graph.frames.is_flat() && !graph.source.results.iter().any(is_inside) {
            graph.items = lift(graph);
        }
        Ok(())
    }
}

/// The nodes with every loop lifted; `None` if one has another shape.
fn lift(graph: &PlanGraph<'_>) -> Option<Vec<Item>> {
    let frames = &graph.frames;
    if frames.depth() > MAX_DEPTH {
        return None;
    }
    let members = members(graph);
    let mut children = vec![Vec::new(); members.len()];
    let mut subtrees = members.clone();
    for frame in (1..members.len()).rev() {
        let parent = frames.frames[frame].parent;
        children[parent].push(frame);
        let subtree = subtrees[frame].clone();
        subtrees[parent].extend(subtree);
    }
    let lifter = Lifter { graph, members, children, subtrees };
    // Innermost first; a loop's parent takes it over as an item.
    let mut loops: HashMap<usize, LiftedLoop> = HashMap::new();
    for frame in (1..frames.frames.len()).rev() {
        let lifted = lifter.take_apart(frame, &mut loops)?;
        loops.insert(frame, lifted);
    }
    lifter.sorted(ROOT, &HashSet::new(), &mut loops)
}

/// The needed nodes by the frame in which they run: an Enter in the frame it leads to, an Exit in the one it leads
/// out of.
fn members(graph: &PlanGraph<'_>) -> Vec<Vec<NodeId>> {
    let frames = &graph.frames;
    let mut members = vec![Vec::new(); frames.frames.len()];
    for &id in &graph.order {
        let node = graph.node(id);
        let frame =
            if node.is_exit() { frames.of(node.inputs[0].source.node) } else { frames.of(id) };
        members[frame].push(id);
    }
    members
}

struct Lifter<'n> {
    graph: &'n PlanGraph<'n>,
    /// The nodes of each frame.
    members: Vec<Vec<NodeId>>,
    /// The frames within each frame.
    children: Vec<Vec<usize>>,
    /// The nodes of each frame and of those within it.
    subtrees: Vec<Vec<NodeId>>,
}

impl<'n> Lifter<'n> {
    fn node(&self, id: NodeId) -> &'n Node {
        self.graph.node(id)
    }

    fn take_apart(
        &self,
        frame: usize,
        loops: &mut HashMap<usize, LiftedLoop>,
    ) -> Option<LiftedLoop> {
        let members = &self.members[frame];
        let mut conds = members.iter().copied().filter(|&id| self.node(id).is_loop_cond());
        let (loop_cond, None) = (conds.next()?, conds.next()) else { return None };
        let mut vars = self.variables(members)?;
        let merges: HashMap<NodeId, usize> =
            vars.iter().enumerate().map(|(index, var)| (var.merge, index)).collect();
        // The nodes that the loop itself stands for.
        let mut own: HashSet<NodeId> = HashSet::from([loop_cond]);
        let mut invariants = Vec::new();
        for &id in members {
            let node = self.node(id);
            let input = || node.inputs.first().map(|edge| edge.source);
            if node.is_enter() && !vars.iter().any(|var| var.enter == id) {
                if !node.attrs.bool("is_constant").unwrap_or(false) {
                    return None;
                }
                invariants.push(id);
            } else if node.is_switch() && node.inputs[1].source.node == loop_cond {
                let var = &mut vars[*merges.get(&input()?.node)?];
                if input()?.index != 0 || var.switch.replace(id).is_some() {
                    return None;
                }
            } else if node.is_exit() {
                let switch = input()?;
                let switch_node = self.node(switch.node);
                if !switch_node.is_switch() || switch_node.inputs[1].source.node != loop_cond {
                    return None;
                }
                let merge = switch_node.inputs[0].source.node;
                let var = &mut vars[*merges.get(&merge)?];
                if switch.index != 0 || var.exit.replace(id).is_some() {
                    return None;
                }
            } else if !node.is_enter() && !node.is_next_iteration() && !merges.contains_key(&id) {
                continue;
            }
            own.insert(id);
        }
        if vars.iter().any(|var| var.exit.is_some() && var.switch.is_none()) {
            return None;
        }
        let items = self.sorted(frame, &own, loops)?;
        let predicate = self.node(loop_cond).inputs[0].source;
        let (cond, body) = self.divide(items, &vars, &own, predicate)?;
        Some(LiftedLoop { frame, vars, invariants, cond, predicate, loop_cond, body })
    }

    /// The loop variables: the Merges of an Enter and a NextIteration.
    fn variables(&self, members: &[NodeId]) -> Option<Vec<LoopVar>> {
        let mut vars = Vec::new();
        let mut next_iterations = 0;
        for &id in members {
            let node = self.node(id);
            next_iterations += usize::from(node.is_next_iteration());
            if !node.is_merge()
                || !node.inputs.iter().any(|e| self.graph.is_back_edge(e.source.node, node))
            {
                continue;
            }
            let [enter, back] = &node.inputs[..] else { return None };
            let (enter, back) = (enter.source, back.source);
            let is_canonical = self.node(enter.node).is_enter()
                && self.graph.is_back_edge(back.node, node)
                && !self.graph.fed.contains(&enter)
                && !self.graph.fed.contains(&back)
                && node.control_inputs.is_empty()
                && self.node(back.node).control_inputs.is_empty();
            if !is_canonical || vars.iter().any(|var: &LoopVar| var.enter == enter.node) {
                return None;
            }
            let next = self.node(back.node).inputs[0].source;
            vars.push(LoopVar { enter: enter.node, merge: id, switch: None, exit: None, next });
        }
        (next_iterations == vars.len() && !vars.is_empty()).then_some(vars)
    }

    /// Splits the items of a loop into those that run before the condition is known and those that depend on it.
    fn divide(
        &self,
        items: Vec<Item>,
        vars: &[LoopVar],
        own: &HashSet<NodeId>,
        predicate: OutputRef,
    ) -> Option<(Vec<Item>, Vec<Item>)> {
        let merges: HashSet<NodeId> = vars.iter().map(|var| var.merge).collect();
        let switches: HashSet<NodeId> = vars.iter().filter_map(|var| var.switch).collect();
        let mut in_body: HashSet<NodeId> = HashSet::new();
        let (mut cond, mut body) = (Vec::new(), Vec::new());
        for item in items {
            let mut depends = false;
            for &id in self.nodes_of(&item) {
                let node = self.node(id);
                for edge in node.inputs.iter().filter(|edge| !self.graph.fed.contains(&edge.source))
                {
                    let source = edge.source;
                    // What a variable was when the loop ended may only leave, and nobody may ask which
                    // of its inputs a Merge had or what the condition was.
                    if switches.contains(&source.node) && source.index == 0
                        || merges.contains(&source.node) && source.index == 1
                    {
                        return None;
                    }
                    depends |= switches.contains(&source.node) || in_body.contains(&source.node);
                    if own.contains(&source.node) && self.node(source.node).is_next_iteration() {
                        return None;
                    }
                }
                for control in &node.control_inputs {
                    let is_end = own.contains(control)
                        && (self.node(*control).is_next_iteration()
                            || self.node(*control).is_exit());
                    if is_end {
                        return None;
                    }
                    depends |= in_body.contains(control);
                }
            }
            if depends {
                in_body.extend(self.nodes_of(&item).iter().copied());
                body.push(item);
            } else {
                cond.push(item);
            }
        }
        (!in_body.contains(&predicate.node)).then_some((cond, body))
    }

    /// All nodes that an item stands for.
    fn nodes_of<'a>(&'a self, item: &'a Item) -> &'a [NodeId] {
        match item {
            Item::Node(id) => std::slice::from_ref(id),
            Item::Loop(lifted) => &self.subtrees[lifted.frame],
        }
    }

    /// The items of a frame without the nodes `own`, each after those it depends on; the loops within are taken out of
    /// `loops`. `None` if loops depend on each other.
    fn sorted(
        &self,
        frame: usize,
        own: &HashSet<NodeId>,
        loops: &mut HashMap<usize, LiftedLoop>,
    ) -> Option<Vec<Item>> {
        let mut items: Vec<Item> = Vec::new();
        let mut item_of: HashMap<NodeId, usize> = HashMap::new();
        for &id in self.members[frame].iter().filter(|id| !own.contains(*id)) {
            item_of.insert(id, items.len());
            items.push(Item::Node(id));
        }
        for child in self.children[frame].iter().rev() {
            let lifted = loops.remove(child)?;
            item_of.extend(self.subtrees[*child].iter().map(|&id| (id, items.len())));
            items.push(Item::Loop(lifted));
        }
        let order = self.topological(&items, &item_of)?;
        let mut items: Vec<Option<Item>> = items.into_iter().map(Some).collect();
        order.into_iter().map(|index| items[index].take()).collect()
    }

    /// The numbers of the items, each after those it depends on.
    fn topological(&self, items: &[Item], item_of: &HashMap<NodeId, usize>) -> Option<Vec<usize>> {
        let mut waits = vec![0usize; items.len()];
        let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); items.len()];
        for (index, item) in items.iter().enumerate() {
            let mut before: HashSet<usize> = HashSet::new();
            for &id in self.nodes_of(item) {
                let node = self.node(id);
                let sources = self
                    .graph
                    .sources(node)
                    .filter(|&source| !self.graph.is_back_edge(source, node));
                before.extend(sources.filter_map(|source| item_of.get(&source).copied()));
            }
            before.remove(&index);
            waits[index] = before.len();
            before.into_iter().for_each(|other| waiting[other].push(index));
        }
        let ready = (0..items.len()).filter(|&index| waits[index] == 0);
        let mut ready: BinaryHeap<Reverse<usize>> = ready.map(Reverse).collect();
        let mut order = Vec::with_capacity(items.len());
        while let Some(Reverse(index)) = ready.pop() {
            order.push(index);
            for &next in &waiting[index] {
                waits[next] -= 1;
                if waits[next] == 0 {
                    ready.push(Reverse(next));
                }
            }
        }
        (order.len() == items.len()).then_some(order)
    }
}

#[cfg(test)]
mod tests {
    use tfcore_graph::Graph;

    use super::*;
    use crate::passes;
    use crate::testing::{COUNT, graph, graph_of, registry, with_context};

    /// Numbers of variables, of invariants and of items of condition and body, for each loop at the top; `None` if there are
    /// loops that are not lifted.
    fn lifted(lines: &str, fetch: &str) -> Option<Vec<[usize; 4]>> {
        let graph: Graph = graph(registry(), lines);
        let output = |name: &str| OutputRef::new(graph.find(name).unwrap(), 0);
        graph_of(&graph, &["i", "n", "one"].map(output), &[output(fetch)], &[], |plan_graph| {
            with_context(&graph, |context| passes::run(passes::ALL, plan_graph, context)).unwrap();
            let loops = plan_graph.items.as_ref()?.iter().filter_map(|item| match item {
                Item::Node(_) => None,
                Item::Loop(l) => {
                    Some([l.vars.len(), l.invariants.len(), l.cond.len(), l.body.len()])
                }
            });
            Some(loops.collect())
        })
    }

    #[test]
    fn loops_of_the_usual_shape_become_one_item() {
        assert_eq!(lifted(COUNT, "last"), Some(vec![[2, 2, 1, 2]]));
        assert_eq!(lifted(COUNT, "add"), None);
        let unusual = COUNT.replace("enter_one Enter one f!", "enter_one Enter one f");
        assert_eq!(lifted(&unusual, "last"), None);
    }
}
