//! One run-time choice of the vector instruction set.
//!
//! The library is compiled for the baseline of its platform. A plain loop that runs inside [`vectorize`] is
//! compiled once more for each wider instruction set, and the widest one that the machine has is taken.
//! Neither changes a result: the compiler reorders no floating point arithmetic and contracts no product and
//! sum into a fused one, so an elementwise loop gives the same bits everywhere.

use pulp::Arch;

/// Runs `f` compiled for the widest vector instructions of this machine.
///
/// Only what is inlined into `f`, and `f` itself, benefits: functions called in its loops must be `#[inline(always)]`, and so
/// must a closure that is more than a few lines, or the compiler compiles it once, for the baseline:
/// `vectorize(#[inline(always)] || ...)`.
///
/// The choice costs a load and a branch; it belongs around a loop, not inside one.
#[inline(always)]
pub fn vectorize<R>(f: impl FnOnce() -> R) -> R {
    Arch::new().dispatch(f)
}

#[cfg(test)]
mod tests {
    use super::vectorize;

    #[test]
    fn gives_the_closure_its_arguments_and_returns_its_result() {
        let x: Vec<f32> = (0..1003).map(|i| i as f32 * 0.37).collect();
        let mut y = vec![1.0f32; x.len()];
        let count = vectorize(
            #[inline(always)]
            || {
                for (y, x) in y.iter_mut().zip(&x) {
                    *y += x * x;
                }
                x.len()
            },
        );
        assert_eq!(count, 1003);
        // A fused multiply and add would differ in the last bit for many of these.
        for (y, x) in y.iter().zip(&x) {
            assert_eq!(*y, 1.0 + std::hint::black_box(x * x));
        }
    }
}
