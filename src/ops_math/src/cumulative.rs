//! Cumulative sums and products: `Cumsum`, `Cumprod`, `CumulativeLogsumexp`.

use std::marker::PhantomData;

use tfcore_base::{
    BFloat16, Elem, Floats, Half, LoopFor, LoopSet, Numbers, Result, Ring, TypedLoop, invalid,
};
use tfcore_framework::{OpContext, OpEntry, Registry, kernel, shape_fns};
use tfcore_tensor::{Elems, ElemsMut};

use crate::number::Number;

pub(crate) fn register(r: &mut Registry) {
    // `Cumsum(x: T, axis: Tidx) -> out: T`, the sum of the elements up to each one; without itself if
    // `exclusive`, from the other end if `reverse`.
    scan::<Plus, Numbers>(r.op("Cumsum"));
    // `Cumprod`, as `Cumsum`, of the product.
    scan::<Times, Numbers>(r.op("Cumprod"));
    // `CumulativeLogsumexp`, as `Cumsum`, of the logarithms of sums of exponentials.
    scan::<LogPlus, Floats>(r.op("CumulativeLogsumexp"));
}

/// An associative operation with an identity. Results are rounded to `T` after each step, as the
/// reference's are.
trait Operation<T>: 'static {
    fn identity() -> T;
    fn combine(a: T, b: T) -> T;
}

struct Plus;
struct Times;

impl<T: Ring> Operation<T> for Plus {
    fn identity() -> T {
        T::ZERO
    }

    fn combine(a: T, b: T) -> T {
        a.plus(b)
    }
}

impl<T: Ring> Operation<T> for Times {
    fn identity() -> T {
        T::ONE
    }

    fn combine(a: T, b: T) -> T {
        a.times(b)
    }
}

struct LogPlus;

macro_rules! log_operations {
    ($($t:ty)*) => {$(
        impl Operation<$t> for LogPlus {
            fn identity() -> $t {
                <$t>::NEG_INFINITY
            }

            /// `ln(e^a + e^b)` without overflow; the larger one if it is infinite.
            fn combine(a: $t, b: $t) -> $t {
                let (x, y) = (a.widen(), b.widen());
                let (low, high) = if x < y { (x, y) } else { (y, x) };
                if high == low && high.is_infinite() {
                    return b;
                }
                // Halves are rounded at each step, as the reference's are.
                let rounded = |x| <$t>::narrow(x).widen();
                let correction = rounded(rounded(rounded(low - high).exp()).ln_1p());
                <$t>::narrow(correction + high)
            }
        }
    )*};
}
log_operations!(f32 f64 Half BFloat16);

#[derive(Clone, Copy)]
struct Direction {
    exclusive: bool,
    reverse: bool,
}

/// Scans the middle axis of an `[outer, len, inner]` layout.
type ScanLoop = fn(Direction, [usize; 3], Elems<'_>, ElemsMut<'_>);

struct Scan<O>(PhantomData<O>);

impl<O> TypedLoop for Scan<O> {
    type Loop = ScanLoop;
}

impl<T: Elem + Copy, O: Operation<T>> LoopFor<T> for Scan<O> {
    const LOOP: ScanLoop = scan_loop::<T, O>;
}

fn scan_loop<T: Elem + Copy, O: Operation<T>>(
    direction: Direction,
    [_, len, inner]: [usize; 3],
    x: Elems<'_>,
    out: ElemsMut<'_>,
) {
    let slab = len * inner;
    let mut sums = vec![O::identity(); inner];
    for (x, out) in x.typed::<T>().chunks_exact(slab).zip(out.typed::<T>().chunks_exact_mut(slab)) {
        sums.fill(O::identity());
        for step in 0..len {
            let row = if direction.reverse { len - 1 - step } else { step };
            let range = row * inner..(row + 1) * inner;
            for ((x, out), sum) in x[range.clone()].iter().zip(&mut out[range]).zip(&mut sums) {
                let next = O::combine(*sum, *x);
                *out = if direction.exclusive { *sum } else { next };
                *sum = next;
            }
        }
    }
}

fn scan<O: 'static, S: LoopSet<Scan<O>>>(op: OpEntry<'_>) {
    op.shape(shape_fns::unchanged).typed_kernel::<Scan<O>, S>("T", |init, body| {
        let direction = Direction {
            exclusive: init.attrs.bool("exclusive")?,
            reverse: init.attrs.bool("reverse")?,
        };
        kernel(move |ctx| compute(ctx, direction, body))
    });
}

fn compute(ctx: &mut OpContext<'_>, direction: Direction, body: ScanLoop) -> Result<()> {
    let (x, axis) = (ctx.input(0)?, ctx.input(1)?);
    if axis.rank() != 0 {
        return Err(invalid!("ScanOp: axis must be a scalar, not {}", axis.shape()));
    }
    let (asked, rank) = (axis.to_i64s()?[0], x.rank() as i64);
    let axis = if asked < 0 { asked.saturating_add(rank) } else { asked };
    if !(0..rank).contains(&axis) {
        return Err(invalid!(
            "ScanOp: Expected scan axis in the range [{}, {rank}), but got {asked}",
            -rank
        ));
    }
    let (axis, dims) = (axis as usize, x.shape().dims());
    let count = |dims: &[i64]| dims.iter().product::<i64>() as usize;
    let layout = [count(&dims[..axis]), x.dim(axis), count(&dims[axis + 1..])];
    let mut out = ctx.allocate_output(0, x.shape().clone())?;
    if out.count() > 0 {
        body(direction, layout, x.elems(), out.elems_mut()?);
    }
    ctx.set_output(0, out);
    Ok(())
}
