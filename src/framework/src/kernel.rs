//! Kernels: the computation of an op on a device.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use tfcore_base::{DType, Error, LoopSet, Result, TypedLoop, internal};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{Elems, ElemsMut, Scalar, Shape, Tensor};

use crate::blocking::{BlockingContext, BlockingKernel};
use crate::context::OpContext;
use crate::loops::{BinaryLoop, UnaryLoop};
use crate::{Attrs, OpDef};

/// The computation of one node, built once when the node is planned and then run many times, by
/// many threads at once.
pub trait Kernel: Send + Sync {
    /// Reads the inputs and sets every output.
    fn compute(&self, ctx: &mut OpContext<'_>) -> Result<()>;

    /// What the kernel is, for the passes that rewrite plans.
    fn form(&self) -> KernelForm<'_> {
        match self.blocking() {
            Some(_) => KernelForm::Waits,
            None => KernelForm::Opaque,
        }
    }

    /// A kernel for a plan in which some inputs are constants: `known[i]` is the value of input `i`. It computes the same
    /// from the same inputs, and belongs to that plan alone. `None` if nothing is gained.
    fn specialise(&self, known: &[Option<&Tensor>]) -> Option<Arc<dyn Kernel>> {
        let _ = known;
        None
    }

    /// Roughly the work of one run in additions of one element, for inputs of these shapes; `None` if the kernel cannot tell.
    fn cost(&self, inputs: &[&Shape]) -> Option<u64> {
        let _ = inputs;
        None
    }

    /// The form that does not hold a thread, of a kernel that may have to wait.
    fn blocking(&self) -> Option<&Arc<dyn BlockingKernel>> {
        None
    }

    /// The form for inputs that are all plain scalars, of a kernel of at most three inputs whose one output then is a
    /// plain scalar too. It depends on nothing but the inputs.
    fn on_scalars(self: Arc<Self>) -> Option<Arc<dyn ScalarKernel>> {
        None
    }
}

/// What a kernel is, as far as a pass may make use of it.
pub enum KernelForm<'k> {
    Opaque,
    /// Each output is the input of the same number.
    Forwards,
    /// One loop over the elements of input 0.
    Unary(&'k UnaryLoop),
    /// One loop over the pairs of elements of inputs 0 and 1, which are broadcast.
    Binary(&'k BinaryLoop),
    /// A matrix product or a convolution of inputs 0 and 1.
    Product,
    /// May wait for other nodes or for other runs; see [`Kernel::blocking`].
    Waits,
    /// Calls functions of the session.
    CallsFunctions,
}

/// A kernel for scalars: what is between ops that are nothing but arithmetic need not be tensors.
pub trait ScalarKernel: Send + Sync {
    /// Sets the output, which has its dtype already. Missing inputs are whatever the first is. Returns whether there
    /// is a result; if not, [`Kernel::compute`] says what is wrong.
    fn apply(&self, inputs: [&Scalar; 3], out: &mut Scalar) -> bool;

    /// Whether there is anything to compute, so that it pays to keep away from tensors.
    fn is_arithmetic(&self) -> bool {
        true
    }
}

impl<F> Kernel for F
where
    F: Fn(&mut OpContext<'_>) -> Result<()> + Send + Sync,
{
    fn compute(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        self(ctx)
    }
}

/// Boxes a closure as a kernel; what most factories end with.
pub fn kernel<F>(compute: F) -> Result<Box<dyn Kernel>>
where
    F: Fn(&mut OpContext<'_>) -> Result<()> + Send + Sync + 'static,
{
    Ok(Box::new(compute))
}

/// Boxes a closure as a kernel that may wait; what most factories of such kernels end with.
pub fn blocking_kernel<F>(start: F) -> Result<Box<dyn Kernel>>
where
    F: Fn(BlockingContext) + Send + Sync + 'static,
{
    Ok(Box::new(Blocking(Arc::new(start))))
}

struct Blocking(Arc<dyn BlockingKernel>);

impl Kernel for Blocking {
    /// Holds the thread until the computation has ended; for those who run an op by itself.
    fn compute(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let end = Arc::new((Mutex::new(None), Condvar::new()));
        let signal = end.clone();
        let blocking = BlockingContext::new(
            ctx.take_values(),
            ctx.output_dtypes(),
            ctx.step().clone(),
            Box::new(move |result| {
                *signal.0.lock() = Some(result);
                signal.1.notify_one();
            }),
        );
        self.0.start(blocking);
        let mut result = end.0.lock();
        while result.is_none() {
            end.1.wait(&mut result);
        }
        ctx.set_values(result.take().expect("the loop ends with a result")?);
        Ok(())
    }

    fn blocking(&self) -> Option<&Arc<dyn BlockingKernel>> {
        Some(&self.0)
    }
}

/// What a factory knows of the node that it builds a kernel for.
#[derive(Clone, Copy)]
pub struct KernelInit<'a> {
    /// The node's name.
    pub name: &'a str,
    pub op: &'a Arc<OpDef>,
    pub attrs: &'a Attrs,
    pub input_dtypes: &'a [DType],
    pub output_dtypes: &'a [DType],
}

impl KernelInit<'_> {
    /// The loop of family `F` for the type of attr `attr`.
    ///
    /// # Errors
    /// `Internal` if set `S` lacks the type, which a registration for that set rules out.
    pub fn typed<F: TypedLoop, S: LoopSet<F>>(&self, attr: &str) -> Result<F::Loop> {
        self.loop_for::<F, S>(self.attrs.dtype(attr)?.base())
    }

    /// The loop of family `F` for `dtype`.
    ///
    /// # Errors
    /// `Internal` if set `S` lacks the type.
    pub fn loop_for<F: TypedLoop, S: LoopSet<F>>(&self, dtype: DType) -> Result<F::Loop> {
        S::loop_for(dtype).ok_or_else(|| self.no_loop(dtype))
    }

    #[cold]
    fn no_loop(&self, dtype: DType) -> Error {
        internal!("{} has no kernel for type {dtype}", self.op.name)
    }
}

/// Elements an element-wise loop should do at least per thread: about the cost of handing over.
const MIN_ELEMENTS: usize = 16 * 1024;

/// Runs `f(start, part)` over consecutive parts of `out`, on several threads if it is worth it. `cost`
/// is roughly the work for one element, 1 being an addition.
pub fn for_each_part(
    parallel: Parallel<'_>,
    out: ElemsMut<'_>,
    cost: usize,
    f: &(dyn Fn(usize, ElemsMut<'_>) + Sync),
) {
    let grain = (MIN_ELEMENTS / cost.max(1)).max(64);
    let len = out.len();
    let parts = (len / grain).min(parallel.threads() * 4);
    if parallel.threads() == 1 || parts < 2 {
        return f(0, out);
    }
    let step = len.div_ceil(parts).next_multiple_of(16);
    let mut cells: SmallVec<[Mutex<Option<ElemsMut<'_>>>; 32]> = SmallVec::new();
    let mut rest = out;
    while rest.len() > step {
        let (part, tail) = rest.split_at(step);
        cells.push(Mutex::new(Some(part)));
        rest = tail;
    }
    cells.push(Mutex::new(Some(rest)));
    parallel.for_each_chunk(cells.len(), 1, &|range| {
        for index in range {
            if let Some(part) = cells[index].lock().take() {
                f(index * step, part);
            }
        }
    });
}

/// The part of `input` that belongs to a part of an output of the same length.
pub fn matching<'a>(input: Elems<'a>, start: usize, part: &ElemsMut<'_>) -> Elems<'a> {
    input.slice(start..start + part.len())
}
