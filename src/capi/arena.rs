//! `Arena`: values at addresses that stay, for handles that C keeps.

use std::mem::MaybeUninit;
use std::ptr;

/// How many values are allocated together.
const CHUNK: usize = 256;

/// Values that live as long as the arena, and never move.
pub(super) struct Arena<T> {
    /// What a box of length [`CHUNK`] each has given up.
    chunks: Vec<*mut T>,
    /// How many values the last chunk has.
    used: usize,
}

impl<T> Arena<T> {
    pub(super) fn new() -> Arena<T> {
        Arena { chunks: Vec::new(), used: CHUNK }
    }

    /// Takes a value over.
    pub(super) fn push(&mut self, value: T) -> *mut T {
        if self.used == CHUNK {
            let chunk: Box<[MaybeUninit<T>]> = Box::new_uninit_slice(CHUNK);
            self.chunks.push(Box::into_raw(chunk).cast());
            self.used = 0;
        }
        let chunk = self.chunks.last().expect("there is a chunk with room");
        // SAFETY: the chunk has room for CHUNK values, of which `used` have been written.
        let address = unsafe { chunk.add(self.used) };
        // SAFETY: as above.
        unsafe { address.write(value) };
        self.used += 1;
        address
    }
}

impl<T> Drop for Arena<T> {
    fn drop(&mut self) {
        let last = self.chunks.len().saturating_sub(1);
        for (index, &chunk) in self.chunks.iter().enumerate() {
            let len = if index == last { self.used } else { CHUNK };
            // SAFETY: so many values of the chunk have been written, and nobody uses them any more.
            unsafe { ptr::drop_in_place(ptr::slice_from_raw_parts_mut(chunk, len)) };
            let chunk = ptr::slice_from_raw_parts_mut(chunk.cast::<MaybeUninit<T>>(), CHUNK);
            // SAFETY: a Box of this length gave the chunk up.
            drop(unsafe { Box::from_raw(chunk) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn values_stay_and_are_dropped_once() {
        let shared = Rc::new(7);
        for count in [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let mut arena = Arena::new();
            let addresses: Vec<*mut Rc<i32>> =
                (0..count).map(|_| arena.push(shared.clone())).collect();
            // SAFETY: the arena lives.
            assert!(addresses.iter().all(|&address| unsafe { **address == 7 }));
            assert_eq!(Rc::strong_count(&shared), 1 + count);
            drop(arena);
            assert_eq!(Rc::strong_count(&shared), 1);
        }
    }
}
