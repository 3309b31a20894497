//! A small generator of reproducible random choices (SplitMix64).

/// The same seed gives the same choices on every machine.
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// A stream of its own for every pair.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self { state: seed };
        random.state = random.next().wrapping_add(stream);
        random
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `count`, which is not 0.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { items.get(self.below(items.len())) }
    }

    pub(crate) fn pick_mut<'a, T>(&mut self, items: &'a mut [T]) -> Option<&'a mut T> {
        if items.is_empty() {
            None
        } else {
            let index = self.below(items.len());
            items.get_mut(index)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_reproducible_and_different() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            (0..8).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn the_first_number_is_that_of_the_published_generator() {
        // SplitMix64 with state 1234567 begins with this number.
        assert_eq!(Random { state: 1234567 }.next(), 6457827717110365317);
    }
}
