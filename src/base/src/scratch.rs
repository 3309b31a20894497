//! Working memory of a size that the input decides.
//!
//! `vec!` and `collect` end the process when there is no memory of that size; these say so instead.

use crate::{Code, Error, Result};

/// `count` times `value`.
///
/// # Errors
/// `ResourceExhausted` if there is no memory of that size.
pub fn try_filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>> {
    let mut items = with_room::<T>(count)?;
    items.resize(count, value);
    Ok(items)
}

/// All that the iterator yields.
///
/// # Errors
/// `ResourceExhausted` if there is no memory for as many as it announces.
pub fn try_collect<T>(iterator: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut items = with_room(iterator.len())?;
    items.extend(iterator);
    Ok(items)
}

fn with_room<T>(count: usize) -> Result<Vec<T>> {
    let mut items = Vec::new();
    items.try_reserve_exact(count).map_err(|_| {
        let message = format!("OOM when allocating working memory for {count} elements");
        Error::new(Code::ResourceExhausted, message)
    })?;
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_no_memory_for_is_an_error() {
        for count in [usize::MAX, isize::MAX as usize, 1 << 59] {
            let filled = try_filled(7u64, count).map(|items| items.len());
            let collected = try_collect((0..count).map(|_| 0u64)).map(|items| items.len());
            for result in [filled, collected] {
                assert_eq!(result.map_err(|e| e.code()), Err(Code::ResourceExhausted), "{count}");
            }
        }
    }

    #[test]
    fn what_fits_is_there() {
        assert_eq!(try_filled('a', 3).unwrap(), ['a'; 3]);
        assert_eq!(try_collect((0..3).map(|i| i * i)).unwrap(), [0, 1, 4]);
        assert!(try_filled(0u8, 0).unwrap().is_empty());
    }
}
