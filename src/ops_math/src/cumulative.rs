//! Cumulative sums and products: `Cumsum`, `Cumprod`.

use std::marker::PhantomData;

use tfcore_base::{
    BFloat16, DType, Elem, Half, Make, Numbers, Pick, Result, TypeSet, internal, invalid,
};
use tfcore_framework::{OpContext, OpEntry, Registry, kernel, shape_fns};
use tfcore_tensor::{Elems, ElemsMut};

pub(crate) fn register(r: &mut Registry) {
    // `Cumsum(x: T, axis: Tidx) -> out: T`, the sum of the elements up to each one; without itself if
    // `exclusive`, from the other end if `reverse`.
    r.op("Cumsum").scan::<Plus>();
    // `Cumprod`, as `Cumsum`, of the product.
    r.op("Cumprod").scan::<Times>();
}

/// An associative operation with an identity. Results are rounded to `T` after each step, as the
/// reference's are.
trait Operation<T>: 'static {
    fn identity() -> T;
    fn combine(a: T, b: T) -> T;
}

struct Plus;
struct Times;

macro_rules! operations {
    ($($zero:expr, $one:expr, $plus:expr, $times:expr => $($t:ty)*;)*) => {$($(
        impl Operation<$t> for Plus {
            fn identity() -> $t {
                $zero.into()
            }

            fn combine(a: $t, b: $t) -> $t {
                let plus: fn($t, $t) -> $t = $plus;
                plus(a, b)
            }
        }

        impl Operation<$t> for Times {
            fn identity() -> $t {
                $one.into()
            }

            fn combine(a: $t, b: $t) -> $t {
                let times: fn($t, $t) -> $t = $times;
                times(a, b)
            }
        }
    )*)*};
}

operations! {
    0.0f32, 1.0f32, |a, b| a + b, |a, b| a * b => f32 f64 tfcore_base::Complex64;
    0.0f64, 1.0f64, |a, b| a + b, |a, b| a * b => tfcore_base::Complex128;
    Half::ZERO, Half::ONE, |a, b| a + b, |a, b| a * b => Half;
    BFloat16::ZERO, BFloat16::ONE, |a, b| a + b, |a, b| a * b => BFloat16;
    0u8, 1u8, |a, b| a.wrapping_add(b), |a, b| a.wrapping_mul(b) => i16 i32 i64 u8 u16 u32 u64;
    0i8, 1i8, |a, b| a.wrapping_add(b), |a, b| a.wrapping_mul(b) => i8;
}

#[derive(Clone, Copy)]
struct Direction {
    exclusive: bool,
    reverse: bool,
}

/// Scans the middle axis of an `[outer, len, inner]` layout.
type ScanLoop = fn(Direction, [usize; 3], Elems<'_>, ElemsMut<'_>);

struct ScanForm<O>(PhantomData<O>);

impl<T: Elem + Copy, O: Operation<T>> Make<T, ScanLoop> for ScanForm<O> {
    fn make() -> ScanLoop {
        scan_loop::<T, O>
    }
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

trait ScanEntry {
    fn scan<O>(self)
    where
        Numbers: Pick<ScanForm<O>, ScanLoop>;
}

impl ScanEntry for OpEntry<'_> {
    fn scan<O>(self)
    where
        Numbers: Pick<ScanForm<O>, ScanLoop>,
    {
        let indices = vec![DType::INT32, DType::INT64];
        let constraints = vec![("T", Numbers::dtypes()), ("Tidx", indices)];
        self.shape(shape_fns::unchanged).cpu_where(constraints, |init| {
            let dtype = init.input_dtypes[0];
            let body: ScanLoop = <Numbers as Pick<ScanForm<O>, ScanLoop>>::pick(dtype)
                .ok_or_else(|| internal!("{} of {dtype}", init.op.name))?;
            let direction = Direction {
                exclusive: init.attrs.bool("exclusive")?,
                reverse: init.attrs.bool("reverse")?,
            };
            kernel(move |ctx| compute(ctx, direction, body))
        });
    }
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
