//! Element-wise kernels: the loops over elements, blocks and threads are here, once; an op brings a
//! function of one or two values.
//!
//! For each functor and type there is one loop, `out[i] = f(a[i], b[i])` over three separate slices. An
//! operand that repeats, and an input whose memory the output reuses, go through a block of scratch that
//! stays in the cache: far cheaper than a loop for each combination, in code size and in time.

use std::marker::PhantomData;
use std::sync::Arc;

use tfcore_base::{DType, Elem, LoopFor, LoopSet, Result, TypedLoop};
use tfcore_math::isa::vectorize;
use tfcore_tensor::{Elems, ElemsMut, Scalar, Tensor};

use crate::context::OpContext;
use crate::geometry::Broadcast;
use crate::kernel::{Kernel, KernelForm, KernelInit, ScalarKernel, for_each_part};
use crate::loops::{BinaryLoop, UnaryLoop};
use crate::registry::OpEntry;

/// A function of one value.
pub trait Unary<T: Elem>: 'static {
    type Out: Elem;
    /// Roughly the work, an addition being 1.
    const COST: usize = 1;

    fn apply(x: T) -> Self::Out;
}

/// A function of two values.
pub trait Binary<T: Elem>: 'static {
    type Out: Elem;
    /// Roughly the work, an addition being 1.
    const COST: usize = 1;

    fn apply(x: T, y: T) -> Self::Out;

    /// Refuses operands for which the op has no result, such as divisors of 0.
    const CHECK: Option<fn(&[T], &[T]) -> Result<()>> = None;
}

/// The loops of functor `F`.
pub struct UnaryLoops<F>(PhantomData<F>);

/// The loops of functor `F`.
pub struct BinaryLoops<F>(PhantomData<F>);

impl<F> TypedLoop for UnaryLoops<F> {
    type Loop = UnaryLoop;
}

impl<F> TypedLoop for BinaryLoops<F> {
    type Loop = BinaryLoop;
}

impl<T: Elem + Copy, F: Unary<T>> LoopFor<T> for UnaryLoops<F> {
    const LOOP: UnaryLoop =
        UnaryLoop { run: unary_loop::<T, F>, output: F::Out::DTYPE, cost: F::COST };
}

impl<T: Elem, F: Binary<T>> LoopFor<T> for BinaryLoops<F> {
    const LOOP: BinaryLoop = BinaryLoop {
        run: binary_loop::<T, F>,
        check: if F::CHECK.is_some() { Some(check::<T, F>) } else { None },
        output: F::Out::DTYPE,
        cost: F::COST,
    };
}

fn check<T: Elem, F: Binary<T>>(x: Elems<'_>, y: Elems<'_>) -> Result<()> {
    F::CHECK.map_or(Ok(()), |check| check(x.typed(), y.typed()))
}

fn unary_loop<T: Elem + Copy, F: Unary<T>>(x: Elems<'_>, out: ElemsMut<'_>) {
    let (x, out) = (x.typed::<T>(), out.typed::<F::Out>());
    vectorize(
        #[inline(always)]
        || {
            for (out, &x) in out.iter_mut().zip(x) {
                *out = F::apply(x);
            }
        },
    );
}

fn binary_loop<T: Elem, F: Binary<T>>(x: Elems<'_>, y: Elems<'_>, out: ElemsMut<'_>) {
    let (x, y, out) = (x.typed::<T>(), y.typed::<T>(), out.typed::<F::Out>());
    vectorize(
        #[inline(always)]
        || {
            for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
                *out = F::apply(x.clone(), y.clone());
            }
        },
    );
}

impl OpEntry<'_> {
    /// A CPU kernel that applies `F` to every element, for the types of set `S`, by attr `T`.
    pub fn unary<F, S: LoopSet<UnaryLoops<F>>>(self) -> Self {
        self.unary_by::<F, S>("T")
    }

    /// As [`OpEntry::unary`], by another attr.
    pub fn unary_by<F, S: LoopSet<UnaryLoops<F>>>(self, attr: &'static str) -> Self {
        let build = |init: &KernelInit<'_>, body| -> Result<Box<dyn Kernel>> {
            Ok(Box::new(UnaryKernel::new(init, body)))
        };
        self.typed_kernel::<UnaryLoops<F>, S>(attr, build)
    }

    /// A CPU kernel that applies `F` to pairs of elements, with broadcasting, for the types of set `S`, by
    /// attr `T`.
    pub fn binary<F, S: LoopSet<BinaryLoops<F>>>(self) -> Self {
        let build = |init: &KernelInit<'_>, body| -> Result<Box<dyn Kernel>> {
            Ok(Box::new(BinaryKernel::new(init, body)))
        };
        self.typed_kernel::<BinaryLoops<F>, S>("T", build)
    }
}

/// Applies a functor to every element of the first input.
pub struct UnaryKernel {
    body: UnaryLoop,
    /// See [`tiny_count`].
    tiny: usize,
}

impl UnaryKernel {
    pub fn new(init: &KernelInit<'_>, body: UnaryLoop) -> UnaryKernel {
        UnaryKernel { body, tiny: tiny_count(init.input_dtypes, body.output) }
    }
}

impl UnaryKernel {
    /// The short way for a few elements; see [`BinaryKernel::tiny`].
    fn tiny(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let input = ctx.input(0)?;
        let (dtype, output) = (input.dtype(), self.body.output);
        if input.count() == 0 || input.count() > self.tiny {
            return Ok(false);
        }
        if dtype == output && ctx.is_reusable(0) {
            let mut out = ctx.take_input(0)?;
            let mut memory = [0u64; TINY_BLOCK / 8];
            let mut copy = ElemsMut::scratch(dtype, out.count(), &mut memory);
            copy.reborrow().copy_from(out.elems());
            (self.body.run)(copy.as_shared(), out.elems_mut()?);
            ctx.set_output(0, out);
            return Ok(true);
        }
        let mut out = ctx.allocate(output, input.shape().clone())?;
        (self.body.run)(input.elems(), out.elems_mut()?);
        ctx.set_output(0, out);
        Ok(true)
    }
}

impl Kernel for UnaryKernel {
    fn compute(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        if self.tiny(ctx)? {
            return Ok(());
        }
        let shape = ctx.input(0)?.shape().clone();
        let (mut out, forwarded) = match ctx.input(0)?.dtype() == self.body.output {
            true => ctx.forward_or_allocate(&[0], 0, shape)?,
            false => (ctx.allocate(self.body.output, shape)?, None),
        };
        let parallel = ctx.parallel();
        let input = if forwarded.is_some() { None } else { Some(ctx.input(0)?.elems()) };
        for_each_part(parallel, out.elems_mut()?, self.body.cost, &|start, part| match input {
            Some(input) => (self.body.run)(input.slice(start..start + part.len()), part),
            None => in_place(part, &|x, out| (self.body.run)(x, out)),
        });
        ctx.set_output(0, out);
        Ok(())
    }

    fn form(&self) -> KernelForm<'_> {
        KernelForm::Unary(&self.body)
    }

    fn on_scalars(self: Arc<Self>) -> Option<Arc<dyn ScalarKernel>> {
        Some(self)
    }
}

impl ScalarKernel for UnaryKernel {
    fn apply(&self, [x, ..]: [&Scalar; 3], out: &mut Scalar) -> bool {
        (self.body.run)(x.elems(), out.elems_mut());
        true
    }
}

/// Bytes of scratch for a block: small enough to stay in the first-level cache with all operands.
const BLOCK: usize = 4096;
/// A block for short tensors.
const SMALL_BLOCK: usize = 512;
/// A block for the shortest, which is cleared by one instruction.
const TINY_BLOCK: usize = 64;

/// So many elements are few, for which parts, blocks and threads would cost many times what the loop does; 0 if there are
/// elements that are not plain.
fn tiny_count(inputs: &[DType], output: DType) -> usize {
    let dtypes = || inputs.iter().chain([&output]);
    let size = dtypes().map(|dtype| dtype.size()).max().unwrap_or(1);
    if dtypes().all(|dtype| dtype.is_plain()) { TINY_BLOCK / size } else { 0 }
}

/// Gives `f` a scratch of `len` elements of a plain dtype; at most [`BLOCK`] bytes.
fn with_scratch<R>(dtype: DType, len: usize, f: impl FnOnce(ElemsMut<'_>) -> R) -> R {
    let bytes = len * dtype.size();
    debug_assert!(bytes <= BLOCK && dtype.is_plain());
    if bytes <= TINY_BLOCK {
        f(ElemsMut::scratch(dtype, len, &mut [0u64; TINY_BLOCK / 8]))
    } else if bytes <= SMALL_BLOCK {
        f(ElemsMut::scratch(dtype, len, &mut [0u64; SMALL_BLOCK / 8]))
    } else {
        f(ElemsMut::scratch(dtype, len, &mut [0u64; BLOCK / 8]))
    }
}

/// Runs `f(copy, block)` over blocks of `data`, where `copy` holds what the block held.
fn in_place(mut data: ElemsMut<'_>, f: &dyn Fn(Elems<'_>, ElemsMut<'_>)) {
    let dtype = data.dtype();
    let len = data.len();
    let block = (BLOCK / dtype.size()).min(len);
    with_scratch(dtype, block, |mut scratch| {
        for start in (0..len).step_by(block.max(1)) {
            let end = (start + block).min(len);
            scratch.slice(0..end - start).copy_from(data.slice(start..end).as_shared());
            f(scratch.as_shared().slice(0..end - start), data.slice(start..end));
        }
    });
}

/// Applies a functor to the pairs of elements of the first two inputs, with broadcasting.
pub struct BinaryKernel {
    body: BinaryLoop,
    /// See [`tiny_count`].
    tiny: usize,
}

impl BinaryKernel {
    pub fn new(init: &KernelInit<'_>, body: BinaryLoop) -> BinaryKernel {
        BinaryKernel { body, tiny: tiny_count(init.input_dtypes, body.output) }
    }
}

impl Kernel for BinaryKernel {
    fn compute(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        if self.tiny(ctx)? {
            return Ok(());
        }
        let (x, y) = (ctx.input(0)?, ctx.input(1)?);
        let broadcast = Broadcast::new(x.shape(), y.shape())?;
        if let Some(check) = self.body.check
            && broadcast.output().count() > 0
        {
            check(x.elems(), y.elems())?;
        }
        let plain_alike = x.dtype() == self.body.output && x.dtype().is_plain();
        let shape = broadcast.output().clone();
        let (out, forwarded) = if plain_alike {
            ctx.forward_or_allocate(&[0, 1], 0, shape)?
        } else {
            (ctx.allocate(self.body.output, shape)?, None)
        };
        let out = self.run(ctx, &broadcast, out, forwarded)?;
        ctx.set_output(0, out);
        Ok(())
    }

    fn form(&self) -> KernelForm<'_> {
        KernelForm::Binary(&self.body)
    }

    fn on_scalars(self: Arc<Self>) -> Option<Arc<dyn ScalarKernel>> {
        Some(self)
    }
}

impl ScalarKernel for BinaryKernel {
    fn apply(&self, [x, y, _]: [&Scalar; 3], out: &mut Scalar) -> bool {
        let (x, y) = (x.elems(), y.elems());
        let is_refused = self.body.check.is_some_and(|check| check(x, y).is_err());
        if !is_refused {
            (self.body.run)(x, y, out.elems_mut());
        }
        !is_refused
    }
}

impl BinaryKernel {
    /// The short way for a few elements, of equal shapes or with a scalar: no parts, no blocks. In graphs of
    /// scalars the rest would cost many times what the loop does.
    fn tiny(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let (x, y) = (ctx.input(0)?, ctx.input(1)?);
        let shape = match () {
            () if y.rank() == 0 || x.shape() == y.shape() => x.shape(),
            () if x.rank() == 0 => y.shape(),
            () => return Ok(false),
        };
        let (count, output) = (shape.count(), self.body.output);
        if count == 0 || count > self.tiny {
            return Ok(false);
        }
        if let Some(check) = self.body.check {
            check(x.elems(), y.elems())?;
        }
        // The shape is that of the one or of both.
        let fits = |tensor: &Tensor| {
            tensor.dtype() == output && tensor.count() == count && tensor.rank() == shape.rank()
        };
        let reused = match () {
            () if fits(x) && ctx.is_reusable(0) => 0,
            () if fits(y) && ctx.is_reusable(1) => 1,
            () => {
                let mut out = ctx.allocate(output, shape.clone())?;
                run_tiny(&self.body, [Some(x.elems()), Some(y.elems())], out.elems_mut()?);
                ctx.set_output(0, out);
                return Ok(true);
            }
        };
        let mut out = ctx.take_input(reused)?;
        let mut operands = [None; 2];
        operands[1 - reused] = Some(ctx.input(1 - reused)?.elems());
        run_tiny(&self.body, operands, out.elems_mut()?);
        ctx.set_output(0, out);
        Ok(true)
    }

    fn run(
        &self,
        ctx: &OpContext<'_>,
        broadcast: &Broadcast,
        mut out: Tensor,
        forwarded: Option<usize>,
    ) -> Result<Tensor> {
        // A forwarded input has as many elements as the output, so that it never repeats.
        let operand = |index: usize| match forwarded {
            Some(gone) if gone == index => Ok(None),
            _ => ctx.input(index).map(|tensor| Some(tensor.elems())),
        };
        let operands = [operand(0)?, operand(1)?];
        let body = &self.body;
        if broadcast.run_len() == out.count() && broadcast.advances() == [true, true] {
            for_each_part(ctx.parallel(), out.elems_mut()?, body.cost, &|start, part| {
                let range = start..start + part.len();
                match operands {
                    [Some(x), Some(y)] => (body.run)(x.slice(range.clone()), y.slice(range), part),
                    _ => run_pairs(body, operands.map(|o| o.map(|o| o.slice(range.clone()))), part),
                }
            });
            return Ok(out);
        }
        if out.count() > 0 {
            self.run_broadcast(ctx, broadcast, operands, &mut out)?;
        }
        Ok(out)
    }

    fn run_broadcast(
        &self,
        ctx: &OpContext<'_>,
        broadcast: &Broadcast,
        operands: [Option<Elems<'_>>; 2],
        out: &mut Tensor,
    ) -> Result<()> {
        let (len, advances) = (broadcast.run_len(), broadcast.advances());
        let body = &self.body;
        let tiling = Tiling::new(broadcast, &operands);
        for_each_part(ctx.parallel(), out.elems_mut()?, body.cost, &|start, mut part| {
            if let Some(tiling) = &tiling {
                return tiling.run(body, broadcast, operands, start, part);
            }
            // A part may begin and end within a run.
            let (mut at, end) = (start, start + part.len());
            while at < end {
                let run = broadcast.run(at / len);
                let within = at - run.output;
                let stop = (run.output + len).min(end);
                let pair = [0, 1].map(|k| {
                    operands[k].map(|elems| match advances[k] {
                        true => {
                            let first = run.operands[k] + within;
                            elems.slice(first..first + (stop - at))
                        }
                        false => elems.slice(run.operands[k]..run.operands[k] + 1),
                    })
                });
                run_pairs(body, pair, part.slice(at - start..stop - start));
                at = stop;
            }
        });
        Ok(())
    }
}

/// Short runs of which one operand is the same in many neighbours, as in adding a bias of a few
/// channels: copies of that operand side by side make long runs of the short ones.
struct Tiling {
    /// The operand that is the same.
    repeating: usize,
    /// How many neighbouring runs share it.
    repeats: usize,
}

impl Tiling {
    /// Runs of this many elements are long enough by themselves.
    const LONG: usize = 256;

    fn new(broadcast: &Broadcast, operands: &[Option<Elems<'_>>; 2]) -> Option<Tiling> {
        let is_plain = operands.iter().flatten().all(|elems| elems.dtype().is_plain());
        if !is_plain || broadcast.run_len() >= Self::LONG {
            return None;
        }
        [0, 1].into_iter().find_map(|repeating| {
            let repeats = broadcast.repeats(repeating);
            (repeats > 1).then_some(Tiling { repeating, repeats })
        })
    }

    fn run(
        &self,
        body: &BinaryLoop,
        broadcast: &Broadcast,
        operands: [Option<Elems<'_>>; 2],
        start: usize,
        mut part: ElemsMut<'_>,
    ) {
        let tile = operands[self.repeating].expect("a repeating operand is not forwarded");
        let (len, size) = (broadcast.run_len(), tile.dtype().size());
        let period = len * self.repeats;
        // One run more than a block, so that a block may begin anywhere within a run.
        let copies = (BLOCK / (len * size)).min(self.repeats + 1);
        with_scratch(tile.dtype(), copies * len, |mut tiles| {
            let (mut at, end) = (start, start + part.len());
            let mut tiled = usize::MAX;
            while at < end {
                let run = broadcast.run(at / len);
                let within = at - run.output;
                let first = run.operands[self.repeating];
                if tiled != first {
                    for copy in 0..copies {
                        let target = tiles.slice(copy * len..(copy + 1) * len);
                        target.copy_from(tile.slice(first..first + len));
                    }
                    tiled = first;
                }
                let stop = end.min(at - at % period + period).min(at + copies * len - within);
                let other = 1 - self.repeating;
                let mut pair = [None; 2];
                pair[self.repeating] = Some(tiles.as_shared().slice(within..within + (stop - at)));
                pair[other] = operands[other].map(|elems| {
                    let first = run.operands[other] + within;
                    elems.slice(first..first + (stop - at))
                });
                run_pairs(body, pair, part.slice(at - start..stop - start));
                at = stop;
            }
        });
    }
}

/// As [`run_pairs`], for operands that are as long as `out` or one element, none above [`TINY_BLOCK`] bytes.
#[inline(always)]
fn run_tiny(body: &BinaryLoop, operands: [Option<Elems<'_>>; 2], out: ElemsMut<'_>) {
    let len = out.len();
    debug_assert!(operands.iter().flatten().all(|elems| elems.len() == len || elems.len() == 1));
    let mut memory = [[0u64; TINY_BLOCK / 8]; 2];
    let [first, second] = &mut memory;
    let x = place_tiny(operands[0], &out, first);
    let y = place_tiny(operands[1], &out, second);
    (body.run)(x, y, out);
}

/// What the operand is if the loop can read it where it is, else a copy.
#[inline(always)]
fn place_tiny<'s>(
    operand: Option<Elems<'s>>,
    out: &ElemsMut<'_>,
    memory: &'s mut [u64; TINY_BLOCK / 8],
) -> Elems<'s> {
    match operand {
        Some(elems) if elems.len() == out.len() => elems,
        Some(element) => element.repeated(out.len(), memory),
        None => {
            let mut copy = ElemsMut::scratch(out.dtype(), out.len(), memory);
            copy.reborrow().copy_from(out.as_shared());
            copy.into_shared()
        }
    }
}

/// Runs `body` where an operand may be a single repeating element, or `None` if it stands in `out`.
fn run_pairs(body: &BinaryLoop, operands: [Option<Elems<'_>>; 2], mut out: ElemsMut<'_>) {
    let len = out.len();
    let repeats = |operand: &Option<Elems<'_>>| operand.is_some_and(|o| o.len() == 1 && len != 1);
    if let [Some(x), Some(y)] = operands
        && !repeats(&operands[0])
        && !repeats(&operands[1])
    {
        return (body.run)(x, y, out);
    }
    let dtype = operands.iter().flatten().next().map_or(out.dtype(), |o| o.dtype());
    if !dtype.is_plain() {
        for index in 0..len {
            let item = |k: usize| {
                let elems = operands[k].expect("only plain operands are forwarded");
                let at = if elems.len() == 1 { 0 } else { index };
                elems.slice(at..at + 1)
            };
            (body.run)(item(0), item(1), out.slice(index..index + 1));
        }
        return;
    }
    let block = (BLOCK / dtype.size()).min(len);
    with_scratch(dtype, block, |mut first| {
        with_scratch(dtype, block, |mut second| {
            repeat(operands[0], &mut first);
            repeat(operands[1], &mut second);
            for start in (0..len).step_by(block.max(1)) {
                let range = start..(start + block).min(len);
                let mut part = out.slice(range.clone());
                let x = block_of(operands[0], &range, &mut first, &part);
                let y = block_of(operands[1], &range, &mut second, &part);
                (body.run)(x, y, part.reborrow());
            }
        });
    });
}

/// Fills the scratch with an operand that is a single element.
fn repeat(operand: Option<Elems<'_>>, scratch: &mut ElemsMut<'_>) {
    if let Some(element) = operand.filter(|elems| elems.len() == 1) {
        scratch.reborrow().fill(element);
    }
}

/// The elements of an operand that belong to `range`: its own, or those in the scratch, into which what
/// stands in the output is saved.
fn block_of<'s>(
    operand: Option<Elems<'s>>,
    range: &std::ops::Range<usize>,
    scratch: &'s mut ElemsMut<'_>,
    out: &ElemsMut<'_>,
) -> Elems<'s> {
    match operand {
        Some(elems) if elems.len() != 1 => return elems.slice(range.clone()),
        Some(_) => {}
        None => scratch.slice(0..range.len()).copy_from(out.as_shared()),
    }
    scratch.as_shared().slice(0..range.len())
}

#[cfg(test)]
mod tests {
    use tfcore_math::pool::{Parallel, Pool};
    use tfcore_tensor::Shape;

    use super::*;
    use crate::{Step, Value};

    struct Subtract;

    impl Binary<f32> for Subtract {
        type Out = f32;

        fn apply(x: f32, y: f32) -> f32 {
            x - y
        }
    }

    fn subtract(a: Tensor, b: Tensor, parallel: Parallel<'_>) -> Tensor {
        let body = <BinaryLoops<Subtract> as LoopFor<f32>>::LOOP;
        let step = Arc::new(Step::default());
        let mut inputs = [Value::Tensor(a), Value::Tensor(b)];
        let mut outputs = [Value::Absent];
        let mut ctx = OpContext::new(&mut inputs, &mut outputs, &[DType::FLOAT], &step, parallel);
        let tiny = tiny_count(&[DType::FLOAT; 2], DType::FLOAT);
        BinaryKernel { body, tiny }.compute(&mut ctx).unwrap();
        match outputs {
            [Value::Tensor(out)] => out,
            _ => panic!("no output"),
        }
    }

    fn ramp(dims: &[i64], scale: f32) -> Tensor {
        let shape = Shape::new(dims).unwrap();
        let values: Vec<f32> = (0..shape.count()).map(|i| i as f32 * scale).collect();
        Tensor::from_slice(shape, &values).unwrap()
    }

    /// The value of `x` at the coordinates of an output, by the definition of broadcasting.
    fn at(x: &Tensor, coords: &[usize]) -> f32 {
        let skip = coords.len() - x.rank();
        let index =
            x.shape().iter().zip(&coords[skip..]).fold(0, |index, (&size, &c)| {
                index * size as usize + if size == 1 { 0 } else { c }
            });
        x.as_slice::<f32>().unwrap()[index]
    }

    #[test]
    fn every_way_of_broadcasting() {
        let pool = Pool::new(2);
        let shapes: [(&[i64], &[i64]); 12] = [
            (&[7], &[7]),
            (&[], &[]),
            (&[5000], &[]),
            (&[], &[5000]),
            (&[3000, 3], &[3]),
            (&[3], &[20_000, 3]),
            (&[4, 1, 300], &[1, 5, 1]),
            (&[9, 700, 5], &[9, 1, 5]),
            (&[2, 3, 1, 65], &[3, 40, 1]),
            (&[0, 3], &[1]),
            (&[64, 1], &[1, 999]),
            (&[1, 50_000], &[1, 1]),
        ];
        for (a, b) in shapes {
            for parallel in [Parallel::SERIAL, Parallel::new(&pool)] {
                // Held elsewhere, an input is left alone; else its memory is reused.
                for is_held in [false, true] {
                    let (x, y) = (ramp(a, 1.0), ramp(b, 0.5));
                    let (expected_x, expected_y) = (ramp(a, 1.0), ramp(b, 0.5));
                    let _held = is_held.then(|| (x.clone(), y.clone()));
                    let out = subtract(x, y, parallel);
                    let dims = out.shape().to_usizes();
                    for (flat, &value) in out.as_slice::<f32>().unwrap().iter().enumerate() {
                        let mut rest = flat;
                        let mut coords = vec![0; dims.len()];
                        for axis in (0..dims.len()).rev() {
                            coords[axis] = rest % dims[axis];
                            rest /= dims[axis];
                        }
                        let expected = at(&expected_x, &coords) - at(&expected_y, &coords);
                        assert_eq!(value, expected, "{a:?} - {b:?} at {coords:?}");
                    }
                }
            }
        }
    }
}
