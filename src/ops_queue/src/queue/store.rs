//! `Store`: the elements of a queue, and in which order they leave it.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

use smallvec::SmallVec;
use tfcore_math::philox::Philox;
use tfcore_tensor::Tensor;

/// An element of a queue: a tensor for each component.
pub(crate) type Element = SmallVec<[Tensor; 2]>;

pub(crate) enum Store {
    /// First in, first out.
    Fifo(VecDeque<Element>),
    /// In random order.
    Shuffle(Vec<Element>, RandomWords),
    /// The smallest first component first.
    Priority(Heap),
}

impl Store {
    pub(crate) fn fifo() -> Store {
        Store::Fifo(VecDeque::new())
    }

    /// The order depends on the seeds alone, unless both are 0: then no two are alike.
    pub(crate) fn shuffle(seed: i64, seed2: i64) -> Store {
        Store::Shuffle(Vec::new(), RandomWords::new(seed as u64, seed2 as u64))
    }

    /// The first component of each element is a scalar `int64`.
    pub(crate) fn priority() -> Store {
        Store::Priority(Heap::default())
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Store::Fifo(elements) => elements.len(),
            Store::Shuffle(elements, _) => elements.len(),
            Store::Priority(heap) => heap.elements.len(),
        }
    }

    pub(crate) fn push(&mut self, element: Element) {
        match self {
            Store::Fifo(elements) => elements.push_back(element),
            Store::Shuffle(elements, _) => elements.push(element),
            Store::Priority(heap) => heap.push(element),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Element> {
        match self {
            Store::Fifo(elements) => elements.pop_front(),
            Store::Shuffle(elements, _) if elements.is_empty() => None,
            Store::Shuffle(elements, words) => {
                let index = words.next() as usize % elements.len();
                Some(elements.swap_remove(index))
            }
            Store::Priority(heap) => heap.pop(),
        }
    }

    /// Undoes what `pop` has yielded, in that order.
    pub(crate) fn put_back(&mut self, popped: Vec<Element>) {
        for element in popped.into_iter().rev() {
            match self {
                Store::Fifo(elements) => elements.push_front(element),
                _ => self.push(element),
            }
        }
    }
}

/// A random stream, word by word.
pub(crate) struct RandomWords {
    stream: Philox,
    group: [u32; 4],
    used: usize,
}

impl RandomWords {
    fn new(seed: u64, seed2: u64) -> RandomWords {
        let (seed, seed2) = match (seed, seed2) {
            // The standard library seeds its hashers from the system.
            (0, 0) => (RandomState::new().hash_one(0), RandomState::new().hash_one(1)),
            given => given,
        };
        RandomWords { stream: Philox::new(seed, seed2), group: [0; 4], used: 4 }
    }

    fn next(&mut self) -> u32 {
        if self.used == self.group.len() {
            self.group = self.stream.next4();
            self.used = 0;
        }
        self.used += 1;
        self.group[self.used - 1]
    }
}

/// A binary heap, the smallest on top. Among equals the order is that of the C++ standard library's heap, by
/// which the reference orders them.
#[derive(Default)]
pub(crate) struct Heap {
    elements: Vec<(i64, Element)>,
}

impl Heap {
    fn push(&mut self, element: Element) {
        let priority = element.first().and_then(|tensor| tensor.scalar_value().ok());
        self.elements.push((priority.unwrap_or_default(), element));
        self.rise(self.elements.len() - 1);
    }

    fn pop(&mut self) -> Option<Element> {
        let last = self.elements.len().checked_sub(1)?;
        self.elements.swap(0, last);
        let (_, popped) = self.elements.pop()?;
        // The former last sinks to the bottom along the smaller children, and rises from there.
        let mut hole = 0;
        loop {
            let (left, right) = (2 * hole + 1, 2 * hole + 2);
            let child = match right < last {
                true if self.priority(right) > self.priority(left) => left,
                true => right,
                false if left < last => left,
                false => break,
            };
            self.elements.swap(hole, child);
            hole = child;
        }
        self.rise(hole);
        Some(popped)
    }

    fn priority(&self, index: usize) -> i64 {
        self.elements[index].0
    }

    fn rise(&mut self, mut index: usize) {
        while index > 0 {
            let parent = (index - 1) / 2;
            if self.priority(parent) <= self.priority(index) {
                return;
            }
            self.elements.swap(parent, index);
            index = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(priority: i64, value: i32) -> Element {
        [Tensor::scalar(priority), Tensor::scalar(value)].into_iter().collect()
    }

    fn pop(store: &mut Store) -> i32 {
        store.pop().unwrap().last().unwrap().scalar_value().unwrap()
    }

    #[test]
    fn equal_priorities_leave_in_the_order_of_tensorflow() {
        let mut store = Store::priority();
        for (value, priority) in [5, 3, 5, 3, 1, 5, 3, 1, 2, 2, 3, 5].into_iter().enumerate() {
            store.push(element(priority, value as i32));
        }
        let order: Vec<i32> = (0..12).map(|_| pop(&mut store)).collect();
        assert_eq!(order, [4, 7, 9, 8, 6, 10, 3, 1, 2, 5, 0, 11]);
        assert!(store.pop().is_none());
    }

    #[test]
    fn shuffles_are_those_of_tensorflow() {
        let cases: [(i64, i64, [i32; 11]); 3] = [
            (1, 2, [19, 7, 6, 1, 3, 16, 14, 11, 5, 13, 4]),
            (7, 0, [17, 12, 18, 16, 11, 6, 15, 8, 4, 3, 0]),
            (87_654_321, 42, [12, 0, 13, 18, 17, 8, 10, 15, 9, 14, 6]),
        ];
        for (seed, seed2, expected) in cases {
            let mut store = Store::shuffle(seed, seed2);
            (0..20).for_each(|value| store.push(element(0, value)));
            let order: Vec<i32> = (0..11).map(|_| pop(&mut store)).collect();
            assert_eq!(order, expected, "seeds {seed} and {seed2}");
        }
    }

    #[test]
    fn what_is_put_back_leaves_first() {
        let mut store = Store::fifo();
        (0..5).for_each(|value| store.push(element(0, value)));
        let popped = (0..3).map_while(|_| store.pop()).collect();
        store.put_back(popped);
        let order: Vec<i32> = (0..5).map(|_| pop(&mut store)).collect();
        assert_eq!(order, [0, 1, 2, 3, 4]);
    }
}
