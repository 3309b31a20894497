//! Kernels that may have to wait: queues, barriers, receives. They hand back a continuation rather than hold a thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{DType, Result, internal};
use tfcore_math::pool::Parallel;

use crate::context::OpContext;
use crate::step::Step;
use crate::value::{Outputs, Value};

/// The part of a kernel that begins a computation whose end somebody else brings about.
pub trait BlockingKernel: Send + Sync {
    /// Begins. Whoever holds the context finishes it, at once or later, on any thread. While it waits it
    /// should be registered with the step's cancellation, and finish with `Cancelled` when called.
    fn start(&self, ctx: BlockingContext);
}

impl<F: Fn(BlockingContext) + Send + Sync> BlockingKernel for F {
    fn start(&self, ctx: BlockingContext) {
        self(ctx)
    }
}

/// What an executor is told when a computation has ended.
type Done = Box<dyn FnOnce(Result<Outputs>) + Send>;

/// One execution of a kernel that may wait: it owns its inputs, and ends with a call of
/// [`BlockingContext::finish`].
pub struct BlockingContext {
    inputs: SmallVec<[Value; 3]>,
    outputs: Outputs,
    output_dtypes: SmallVec<[DType; 8]>,
    step: Arc<Step>,
    /// Gone once the computation has ended.
    done: Option<Done>,
}

impl BlockingContext {
    pub fn new(
        inputs: SmallVec<[Value; 3]>,
        output_dtypes: &[DType],
        step: Arc<Step>,
        done: Done,
    ) -> BlockingContext {
        BlockingContext {
            inputs,
            outputs: SmallVec::from_elem(Value::Absent, output_dtypes.len()),
            output_dtypes: output_dtypes.into(),
            step,
            done: Some(done),
        }
    }

    pub fn step(&self) -> &Arc<Step> {
        &self.step
    }

    /// The view of other kernels, for reading inputs and setting outputs. Its loops stay on one thread.
    pub fn op(&mut self) -> OpContext<'_> {
        OpContext::new(
            &mut self.inputs,
            &mut self.outputs,
            &self.output_dtypes,
            &self.step,
            Parallel::SERIAL,
        )
    }

    /// Ends the computation: with the outputs that were set, or an error.
    pub fn finish(mut self, result: Result<()>) {
        let outputs = std::mem::take(&mut self.outputs);
        self.end(result.map(|()| outputs));
    }

    /// Does something with the view of other kernels, and ends the computation with its result. A panic in it is
    /// a bug, which must not leave the step waiting.
    pub fn finish_with(mut self, compute: impl FnOnce(&mut OpContext<'_>) -> Result<()>) {
        let result = catch_unwind(AssertUnwindSafe(|| compute(&mut self.op())))
            .unwrap_or_else(|_| Err(internal!("The kernel panicked")));
        self.finish(result);
    }

    fn end(&mut self, result: Result<Outputs>) {
        if let Some(done) = self.done.take() {
            done(result);
        }
    }
}

impl Drop for BlockingContext {
    /// A context that is dropped unfinished is a bug, which must not leave the step waiting.
    fn drop(&mut self) {
        self.end(Err(internal!("The kernel ended without a result")));
    }
}

#[cfg(test)]
mod tests {
    use tfcore_base::Code;
    use tfcore_tensor::Tensor;

    use super::*;
    use crate::kernel::blocking_kernel;

    fn compute(start: impl Fn(BlockingContext) + Send + Sync + 'static) -> Result<Value> {
        let kernel = blocking_kernel(start).unwrap();
        let (step, dtypes) = (Arc::new(Step::default()), [DType::INT32]);
        let mut inputs = [Value::Tensor(Tensor::scalar(3i32))];
        let mut outputs = [Value::Absent];
        let mut ctx = OpContext::new(&mut inputs, &mut outputs, &dtypes, &step, Parallel::SERIAL);
        kernel.compute(&mut ctx)?;
        Ok(std::mem::take(&mut outputs[0]))
    }

    #[test]
    fn another_thread_may_finish() {
        let value = compute(|ctx| {
            std::thread::spawn(|| {
                ctx.finish_with(|op| {
                    let tensor = op.take_input(0)?;
                    op.set_output(0, tensor);
                    Ok(())
                })
            });
        });
        let Value::Tensor(tensor) = value.unwrap() else { panic!("no tensor") };
        assert_eq!(tensor.scalar_value::<i32>().unwrap(), 3);
    }

    #[test]
    fn an_unfinished_computation_is_an_error() {
        assert_eq!(compute(drop).err().unwrap().code(), Code::Internal);
        let panicked = compute(|ctx| ctx.finish_with(|_| panic!("a bug")));
        assert_eq!(panicked.err().unwrap().code(), Code::Internal);
    }
}
