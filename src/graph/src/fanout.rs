//! Who reads a node's outputs, and who runs after it.

use crate::node::{NodeId, OutputRef};

/// The consumers of all nodes: one list for each, linked through one array, in order of their creation.
#[derive(Default)]
pub(crate) struct Fanouts {
    lists: Vec<List>,
    links: Vec<Link>,
    /// The first of the links that are not in use.
    free: Option<LinkId>,
}

/// The number of a link, plus one.
type LinkId = std::num::NonZeroU32;

#[derive(Clone, Copy, Default)]
struct List {
    first: Option<LinkId>,
    last: Option<LinkId>,
}

/// One edge, as its source sees it.
#[derive(Clone, Copy)]
struct Link {
    /// The index of the output; that of [`OutputRef::control`] for a control edge.
    output: u32,
    consumer: NodeId,
    input: u32,
    next: Option<LinkId>,
}

impl Fanouts {
    /// A list for one more node.
    pub(crate) fn push_node(&mut self) {
        self.lists.push(List::default());
    }

    /// Adds an edge from an output to input `input` of `consumer`, or a control edge, where `input` is 0.
    pub(crate) fn add(&mut self, source: OutputRef, consumer: NodeId, input: usize) {
        let input = u32::try_from(input).expect("a node has fewer than 2^32 inputs");
        let link = Link { output: source.index, consumer, input, next: None };
        let id = match self.free {
            Some(id) => {
                self.free = self.links[slot(id)].next;
                self.links[slot(id)] = link;
                id
            }
            None => {
                self.links.push(link);
                let number = u32::try_from(self.links.len());
                number.ok().and_then(LinkId::new).expect("a graph has fewer than 2^32 edges")
            }
        };
        let list = &mut self.lists[source.node.index()];
        match list.last {
            Some(last) => self.links[slot(last)].next = Some(id),
            None => list.first = Some(id),
        }
        list.last = Some(id);
    }

    /// Removes the edges of a node that `keep`, given output, consumer and input, says no to.
    pub(crate) fn retain(&mut self, node: NodeId, keep: impl Fn(u32, NodeId, u32) -> bool) {
        let mut list = List::default();
        let mut next = self.lists[node.index()].first;
        while let Some(id) = next {
            let link = self.links[slot(id)];
            next = link.next;
            if !keep(link.output, link.consumer, link.input) {
                self.links[slot(id)].next = self.free;
                self.free = Some(id);
                continue;
            }
            match list.last {
                Some(last) => self.links[slot(last)].next = Some(id),
                None => list.first = Some(id),
            }
            list.last = Some(id);
            self.links[slot(id)].next = None;
        }
        self.lists[node.index()] = list;
    }

    /// Drops the lists of all nodes from number `len` on, none of which may be in an edge any more.
    pub(crate) fn truncate(&mut self, len: usize) {
        for index in len..self.lists.len() {
            self.retain(NodeId(index as u32), |_, _, _| false);
        }
        self.lists.truncate(len);
    }

    /// Whether any node reads an output of the node or waits for it.
    pub(crate) fn is_read(&self, node: NodeId) -> bool {
        self.lists[node.index()].first.is_some()
    }

    /// The consumers of an output, each with the index of its input.
    pub(crate) fn consumers(&self, output: OutputRef) -> impl Iterator<Item = (NodeId, usize)> {
        let links = self.links(output.node).filter(move |link| link.output == output.index);
        links.map(|link| (link.consumer, link.input as usize))
    }

    fn links(&self, node: NodeId) -> impl Iterator<Item = &Link> {
        let follow = |id: Option<LinkId>| id.map(|id| &self.links[slot(id)]);
        let first = follow(self.lists[node.index()].first);
        std::iter::successors(first, move |link| follow(link.next))
    }
}

fn slot(id: LinkId) -> usize {
    id.get() as usize - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_come_and_go_in_order() {
        let mut fanouts = Fanouts::default();
        (0..4).for_each(|_| fanouts.push_node());
        let x = OutputRef::new(NodeId(0), 0);
        let all = |fanouts: &Fanouts, output| fanouts.consumers(output).collect::<Vec<_>>();
        fanouts.add(x, NodeId(1), 0);
        fanouts.add(OutputRef::control(NodeId(0)), NodeId(1), 0);
        fanouts.add(x, NodeId(2), 1);
        fanouts.add(x, NodeId(3), 0);
        assert_eq!(all(&fanouts, x), [(NodeId(1), 0), (NodeId(2), 1), (NodeId(3), 0)]);
        assert_eq!(all(&fanouts, OutputRef::control(NodeId(0))), [(NodeId(1), 0)]);

        fanouts.retain(NodeId(0), |_, consumer, _| consumer != NodeId(3));
        fanouts.add(x, NodeId(3), 5);
        assert_eq!(fanouts.links.len(), 4, "the free link is used again");
        assert_eq!(all(&fanouts, x), [(NodeId(1), 0), (NodeId(2), 1), (NodeId(3), 5)]);
        fanouts.retain(NodeId(0), |_, _, _| false);
        assert_eq!(all(&fanouts, x), []);
    }
}
