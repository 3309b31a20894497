//! Stacks of threads, which may be too small for functions that call functions.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tfcore_base::{Result, resource_exhausted};

/// Planning or running one function, with a kernel, needs less than this, in bytes ...
const STACK_LEFT: usize = 128 << 10;
/// ... and a new piece of stack has this size.
const STACK_PIECE: usize = 2 << 20;

/// True if the stack of this thread may end before one more function has been planned or run.
#[inline]
pub fn is_low() -> bool {
    stacker::remaining_stack().is_some_and(|left| left < STACK_LEFT)
}

/// Calls `f`, on a new piece of stack if this one is about to end.
///
/// # Errors
/// Those of `f`; `ResourceExhausted` if there is no memory for a stack. Then `f` is not called.
#[inline]
pub fn with_stack<R>(f: impl FnOnce() -> Result<R>) -> Result<R> {
    if is_low() { on_new_piece(f) } else { f() }
}

#[cold]
fn on_new_piece<R>(f: impl FnOnce() -> Result<R>) -> Result<R> {
    let mut f = Some(f);
    // A refused mapping is a panic of `stacker`.
    let grown = catch_unwind(AssertUnwindSafe(|| {
        stacker::grow(STACK_PIECE, || f.take().map(|f| catch_unwind(AssertUnwindSafe(f))))
    }));
    match grown {
        Ok(Some(Ok(result))) => result,
        Ok(Some(Err(panic))) => resume_unwind(panic),
        Ok(None) | Err(_) => {
            Err(resource_exhausted!("There is no memory for a stack of {STACK_PIECE} bytes"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn depth(left: usize) -> Result<usize> {
        with_stack(|| {
            let frame = std::hint::black_box([left as u8; 1000]);
            match left {
                0 => Ok(usize::from(frame[0])),
                _ => depth(left - 1).map(|depth| depth + 1),
            }
        })
    }

    #[test]
    fn small_stacks_are_continued() {
        for size in [128 << 10, 1 << 20, 8 << 20] {
            let deep = thread::Builder::new().stack_size(size).spawn(|| depth(10_000));
            assert_eq!(deep.unwrap().join().unwrap().unwrap(), 10_000);
        }
    }

    #[test]
    fn panics_go_through() {
        let small = thread::Builder::new().stack_size(64 << 10).spawn(|| {
            let panicking = || -> Result<()> { resume_unwind(Box::new("a reason")) };
            catch_unwind(AssertUnwindSafe(|| with_stack(panicking))).unwrap_err()
        });
        let payload = small.unwrap().join().unwrap();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"a reason"));
    }
}
