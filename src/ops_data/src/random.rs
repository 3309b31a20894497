//! The random numbers of datasets: words of Philox one at a time, and where an iterator has its seeds from.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use tfcore_base::Result;
use tfcore_framework::Resource;
use tfcore_math::philox::Philox;

use crate::args::Args;
use crate::resources;

/// A stream of 32-bit words.
pub(crate) struct Words {
    stream: Philox,
    group: [u32; 4],
    used: usize,
}

impl Words {
    pub(crate) fn new((seed, seed2): (i64, i64)) -> Words {
        Words { stream: Philox::new(seed as u64, seed2 as u64), group: [0; 4], used: 4 }
    }

    pub(crate) fn next(&mut self) -> u32 {
        if self.used == 4 {
            (self.group, self.used) = (self.stream.next4(), 0);
        }
        self.used += 1;
        self.group[self.used - 1]
    }
}

/// Where iterators of a dataset have their seeds from: always the same two, or the next two words of a stream.
pub(crate) struct Seeds {
    seeds: (i64, i64),
    stream: Option<Mutex<Words>>,
}

impl Seeds {
    /// Two zeros stand for seeds of the library's choice.
    pub(crate) fn new(seed: i64, seed2: i64, reseeds: bool) -> Seeds {
        let seeds =
            if (seed, seed2) == (0, 0) { (arbitrary(), arbitrary()) } else { (seed, seed2) };
        Seeds { seeds, stream: reseeds.then(|| Mutex::new(Words::new(seeds))) }
    }

    pub(crate) fn next(&self) -> (i64, i64) {
        match &self.stream {
            None => self.seeds,
            Some(stream) => {
                let mut words = stream.lock();
                let first = words.next();
                (i64::from(first), i64::from(words.next()))
            }
        }
    }

    /// Those of a node: of its seed generator if it has one, else of its inputs `seed` and `seed2`.
    ///
    /// # Errors
    /// `InvalidArgument` for seeds that are no scalars.
    pub(crate) fn of_node(args: &Args<'_, '_>, reseeds: bool) -> Result<Arc<Seeds>> {
        if args.has_input("seed_generator") {
            let index = args.index("seed_generator")?;
            match resources::find::<Seeds>(args.ctx, index) {
                Ok(found) => return Ok(found),
                // The handle of a dummy: seeds of the library's choice.
                Err(_) if !args.has_input("seed") => {
                    return Ok(Arc::new(Seeds::new(0, 0, reseeds)));
                }
                Err(_) => {}
            }
        }
        Ok(Arc::new(Seeds::new(args.scalar("seed")?, args.scalar("seed2")?, reseeds)))
    }
}

impl Resource for Seeds {
    fn type_name(&self) -> &'static str {
        <Seeds as resources::Named>::TYPE
    }
}

impl resources::Named for Seeds {
    const TYPE: &'static str = "N10tensorflow4data20SeedGeneratorManagerE";
    const ANONYMOUS: &'static str = "AnonymousSeedGenerator";
}

/// Keys of the standard library's hash maps are the randomness that is at hand everywhere.
pub(crate) fn arbitrary() -> i64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u8(0);
    hasher.finish() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_stream_in_order() {
        let mut stream = Philox::new(5, 7);
        let mut words = Words::new((5, 7));
        let expected = [stream.next4(), stream.next4()].concat();
        let drawn: Vec<u32> = (0..8).map(|_| words.next()).collect();
        assert_eq!(drawn, expected);
    }

    #[test]
    fn seeds_stay_or_move_on() {
        let fixed = Seeds::new(3, 4, false);
        assert_eq!((fixed.next(), fixed.next()), ((3, 4), (3, 4)));
        let moving = Seeds::new(3, 4, true);
        let words = Philox::new(3, 4).next4().map(i64::from);
        assert_eq!(moving.next(), (words[0], words[1]));
        assert_eq!(moving.next(), (words[2], words[3]));
    }
}
