//! Accumulators of gradients: they add up what ops bring, until there is enough for those who take the sum
//! or the mean.

mod arithmetic;
mod dense;
mod sparse;

use std::sync::Arc;

use tfcore_base::{DType, Error, Result, cancelled, invalid, not_found};
use tfcore_framework::{Kernel, KernelInit, OpContext, Registry, Resource, kernel, shape_fns};
use tfcore_tensor::{PartialShape, Tensor};

use crate::monitor::{Line, Monitor, State, Turn, waiting_kernel};
use crate::named::{NamedResource, Signature, find, handle_kernel};
use crate::shapes;

use dense::DenseSum;
use sparse::{SparseGradient, SparseSum};

pub(crate) fn register(r: &mut Registry) {
    // `ConditionalAccumulator(; dtype, shape, container, shared_name, reduction_type) -> handle: Ref(string)`, an
    // accumulator of tensors; `ResourceConditionalAccumulator` hands out a resource handle.
    for name in ["ConditionalAccumulator", "ResourceConditionalAccumulator"] {
        r.op(name)
            .shape(shapes::ref_handle)
            .cpu(|init| accumulator(init, || Sum::Dense(DenseSum::default())));
    }

    // `SparseConditionalAccumulator`, as `ConditionalAccumulator`, of rows by index.
    r.op("SparseConditionalAccumulator")
        .shape(shapes::ref_handle)
        .cpu(|init| accumulator(init, || Sum::Sparse(SparseSum::default())));

    // `AccumulatorNumAccumulated(handle: Ref(string)) -> num_accumulated: int32`, how many gradients are in the sum.
    r.ops(["AccumulatorNumAccumulated", "ResourceAccumulatorNumAccumulated"], |op| {
        op.shape(shape_fns::scalar).compute(|ctx| {
            let count = find::<Accumulator>(ctx, 0)?.0.read(|state| state.count);
            ctx.set_output(0, Tensor::scalar(count));
            Ok(())
        });
    });

    // `AccumulatorSetGlobalStep(handle: Ref(string), new_global_step: int64)`, the step from which on gradients count.
    r.ops(["AccumulatorSetGlobalStep", "ResourceAccumulatorSetGlobalStep"], |op| {
        op.shape(shapes::with_scalar_operand).compute(|ctx| {
            // The reference's message names the argument of another op.
            let step = scalar_step(ctx, "num_required")?;
            find::<Accumulator>(ctx, 0)?.0.change(|state| state.global_step = step);
            Ok(())
        });
    });

    // `AccumulatorApplyGradient(handle: Ref(string), local_step: int64, gradient: dtype)`, adds a gradient, unless its
    // step is over.
    r.ops(["AccumulatorApplyGradient", "ResourceAccumulatorApplyGradient"], |op| {
        op.shape(shapes::with_scalar_operand).cpu(apply_dense);
    });

    // `SparseAccumulatorApplyGradient(handle: Ref(string), local_step: int64, gradient_indices: int64,
    // gradient_values: dtype, gradient_shape: int64; has_known_shape)`, adds rows.
    r.op("SparseAccumulatorApplyGradient").shape(shapes::with_scalar_operand).cpu(apply_sparse);

    // `AccumulatorTakeGradient(handle: Ref(string), num_required: int32) -> average: dtype`, takes the result as soon
    // as there are so many gradients, and begins the next step.
    r.ops(["AccumulatorTakeGradient", "ResourceAccumulatorTakeGradient"], |op| {
        op.shape(shapes::with_scalar_operand).cpu(take);
    });

    // `SparseAccumulatorTakeGradient(handle: Ref(string), num_required: int32) -> indices: int64, values: dtype,
    // shape: int64`, as `AccumulatorTakeGradient`.
    r.op("SparseAccumulatorTakeGradient").shape(shapes::with_scalar_operand).cpu(take);
}

struct Accumulator(Arc<Monitor<AccumulatorState>>);

impl Resource for Accumulator {
    fn type_name(&self) -> &'static str {
        Accumulator::TYPE
    }
}

impl NamedResource for Accumulator {
    const TYPE: &'static str = "N10tensorflow26ConditionalAccumulatorBaseE";
}

struct AccumulatorState {
    dtype: DType,
    /// What the gradients' shapes must agree with.
    shape: PartialShape,
    is_mean: bool,
    global_step: i64,
    /// How many gradients are in the sum.
    count: i32,
    sum: Sum,
}

enum Sum {
    Dense(DenseSum),
    Sparse(SparseSum),
}

/// To take the result once it is of so many gradients.
struct Take {
    required: i32,
}

/// A result that was taken: the sum, and of how many gradients.
struct Taken {
    sum: Sum,
    shape: PartialShape,
    /// What the sum is to be divided by; nothing where the sum itself is wanted.
    count: Option<i32>,
}

fn accumulator(init: &KernelInit<'_>, sum: fn() -> Sum) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("dtype")?;
    let shape = init.attrs.shape("shape")?.clone();
    let is_mean = match init.attrs.str("reduction_type")? {
        "MEAN" => true,
        "SUM" => false,
        other => return Err(invalid!("Unknown reduction type {other}")),
    };
    let make = move |_: &str| {
        let state = AccumulatorState {
            dtype,
            shape: shape.clone(),
            is_mean,
            global_step: 0,
            count: 0,
            sum: sum(),
        };
        Ok(Accumulator(Monitor::new(state)))
    };
    // The reference lets nodes share an accumulator whatever they say of it.
    handle_kernel(init, make, |_: &Accumulator| Ok(()))
}

/// The step at input 1.
fn scalar_step(ctx: &OpContext<'_>, argument: &str) -> Result<i64> {
    let step = ctx.input(1)?;
    if step.rank() != 0 {
        return Err(invalid!(
            "Argument {argument} must be scalar, but had bad shape {}",
            step.shape()
        ));
    }
    step.scalar_value()
}

fn apply_dense(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let signature = Signature::new(init);
    kernel(move |ctx| {
        let accumulator = find::<Accumulator>(ctx, 0)?;
        let step = scalar_step(ctx, "local_step")?;
        signature.check_inputs(2, &[accumulator.0.read(|state| state.dtype)])?;
        let gradient = ctx.take_or_copy_input(2)?;
        accumulator.0.change(|state| match &mut state.sum {
            _ if step < state.global_step => Ok(()),
            Sum::Dense(sum) => {
                sum.add(&state.shape, gradient)?;
                state.count += 1;
                Ok(())
            }
            Sum::Sparse(_) => Err(not_found!("No attr named 'has_known_shape' in NodeDef:")),
        })
    })
}

fn apply_sparse(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let has_known_shape = init.attrs.bool("has_known_shape")?;
    let signature = Signature::new(init);
    kernel(move |ctx| {
        let accumulator = find::<Accumulator>(ctx, 0)?;
        let step = scalar_step(ctx, "local_step")?;
        let dtype = accumulator.0.read(|state| state.dtype);
        signature.check_inputs(2, &[DType::INT64, dtype, DType::INT64])?;
        let gradient = SparseGradient {
            indices: ctx.input(2)?.clone(),
            values: ctx.input(3)?.clone(),
            shape: has_known_shape
                .then(|| ctx.input_slice::<i64>(4))
                .transpose()?
                .map(<[i64]>::to_vec),
        };
        accumulator.0.change(|state| match &mut state.sum {
            _ if step < state.global_step => Ok(()),
            Sum::Sparse(sum) => {
                sum.add(&state.shape, &gradient)?;
                state.count += 1;
                Ok(())
            }
            Sum::Dense(_) => Err(invalid!("Unknown input name: gradient")),
        })
    })
}

fn take(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let signature = Signature::new(init);
    waiting_kernel(move |ctx| {
        let accumulator = find::<Accumulator>(ctx, 0)?;
        let required = ctx.input(1)?.scalar_value::<i32>()?;
        if required <= 0 {
            return Err(invalid!("Argument num_required must be positive, but was {required}"));
        }
        let (dtype, holds_sparse) =
            accumulator.0.read(|state| (state.dtype, matches!(state.sum, Sum::Sparse(_))));
        let outputs = match holds_sparse {
            true => vec![DType::INT64, dtype, DType::INT64],
            false => vec![dtype],
        };
        signature.check_outputs(0, &outputs)?;
        Ok(Some((accumulator.0.clone(), Take { required })))
    })
}

impl State for AccumulatorState {
    type Attempt = Take;
    type Outcome = Taken;

    fn line(_: &Take) -> Line {
        Line::Take
    }

    fn attempt(&mut self, take: &mut Take) -> Turn<Taken> {
        if self.count < take.required {
            return Turn::Wait;
        }
        let count = self.is_mean.then_some(self.count);
        self.count = 0;
        self.global_step = self.global_step.wrapping_add(1);
        let sum = match &mut self.sum {
            Sum::Dense(sum) => Sum::Dense(std::mem::take(sum)),
            Sum::Sparse(sum) => Sum::Sparse(std::mem::take(sum)),
        };
        Turn::Done(Ok(Taken { sum, shape: self.shape.clone(), count }))
    }

    fn cancelled(_: &Take) -> Error {
        cancelled!("TakeGrad operation was cancelled")
    }

    fn deliver(taken: Taken, op: &mut OpContext<'_>) -> Result<()> {
        match taken.sum {
            Sum::Dense(sum) => op.set_output(0, sum.finish(taken.count)?),
            Sum::Sparse(sum) => {
                let outputs = sum.finish(&taken.shape, taken.count.is_some())?;
                for (index, tensor) in outputs.into_iter().enumerate() {
                    op.set_output(index, tensor);
                }
            }
        }
        Ok(())
    }
}
