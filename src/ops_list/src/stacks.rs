//! Stacks: what loops of the old kind keep for their gradients.

use std::sync::Arc;

use parking_lot::Mutex;
use tfcore_base::{DType, Error, Result, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, Resource, Value, kernel, shape_fns,
    shape_ops,
};
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::step_handles::{StepResource, find, keep, output_handle, unique_name};

pub(crate) fn register(r: &mut Registry) {
    // `StackV2(max_size: int32; elem_type, stack_name) -> handle: resource`.
    // `Stack(; elem_type, stack_name) -> handle: Ref(string)`.
    r.ops(["Stack", "StackV2"], |op| {
        op.shape(handle_shape).cpu(create);
    });

    // `StackPushV2(handle: resource, elem: T) -> output: T`, hands the element on, too.
    r.ops(["StackPush", "StackPushV2"], |op| {
        op.shape(push_shape).compute(push);
    });

    // `StackPopV2(handle: resource) -> elem: elem_type`.
    r.ops(["StackPop", "StackPopV2"], |op| {
        op.shape(shape_fns::unknown).compute(pop);
    });

    // `StackCloseV2(handle: resource)`, drops the elements.
    r.ops(["StackClose", "StackCloseV2"], |op| {
        op.shape(close_shape).compute(|ctx| {
            find::<Stack>(ctx)?.close();
            Ok(())
        });
    });
}

struct Stack {
    /// The name in messages.
    name: String,
    dtype: DType,
    max_len: usize,
    /// The elements; `None` once the stack is closed.
    elements: Mutex<Option<Vec<Tensor>>>,
    /// Why an element was not taken, for the next pop.
    refused: Mutex<Option<Error>>,
}

impl Stack {
    fn push(&self, element: Tensor) -> Result<()> {
        self.require_dtype(element.dtype())?;
        let mut elements = self.elements.lock();
        let elements = self.open(&mut elements)?;
        require!(
            elements.len() < self.max_len,
            "Stack[{}] overflowed its max_size ({})",
            self.name,
            self.max_len
        );
        elements.push(element);
        Ok(())
    }

    fn pop(&self) -> Result<Tensor> {
        if let Some(error) = self.refused.lock().clone() {
            return Err(error);
        }
        let mut elements = self.elements.lock();
        let popped = self.open(&mut elements)?.pop();
        popped.ok_or_else(|| invalid!("Stack[{}] is empty when calling Pop().", self.name))
    }

    fn close(&self) {
        let elements = self.elements.lock().take();
        drop(elements);
    }

    fn open<'e>(&self, elements: &'e mut Option<Vec<Tensor>>) -> Result<&'e mut Vec<Tensor>> {
        elements.as_mut().ok_or_else(|| invalid!("Stack[{}] has already been closed.", self.name))
    }

    /// # Errors
    /// `InvalidArgument` for an element of another type than the stack's.
    fn require_dtype(&self, dtype: DType) -> Result<()> {
        require!(
            dtype == self.dtype,
            "Must have type {} but got {}",
            self.dtype.to_i32(),
            dtype.to_i32()
        );
        Ok(())
    }
}

impl Resource for Stack {
    fn type_name(&self) -> &'static str {
        Stack::TYPE
    }
}

impl StepResource for Stack {
    const TYPE: &'static str = "N10tensorflow5StackE";

    fn no_handle(shape: &Shape) -> Error {
        invalid!("Stack handle must have two elements, but had shape: {shape}")
    }
}

fn handle_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    ctx.set_output(0, PartialShape::vector(2));
    Ok(())
}

fn push_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    ctx.set_output(0, ctx.input(1).clone());
    Ok(())
}

fn close_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let handle = shape_ops::with_rank(ctx.input(0), 1)?;
    shape_ops::with_value(handle.dim(0), 2)?;
    Ok(())
}

/// The container of stacks, as handles name it.
const STACKS: &str = "_stacks";

fn create(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("elem_type")?;
    let name = match init.attrs.str("stack_name")? {
        "" => init.name.to_string(),
        name => name.to_string(),
    };
    kernel(move |ctx| {
        let mut max_len = i32::MAX as usize;
        if ctx.num_inputs() > 0 {
            let size = ctx.input(0)?;
            require!(
                size.rank() == 0,
                "Stack size must be a scalar, but had shape: {}",
                size.shape()
            );
            // Negative sizes set no limit.
            max_len = usize::try_from(size.scalar_value::<i32>()?).unwrap_or(max_len);
        }
        let name = unique_name(&name);
        let elements = Mutex::new(Some(Vec::new()));
        let stack = Arc::new(Stack { name, dtype, max_len, elements, refused: Mutex::new(None) });
        keep(ctx, STACKS, &stack.name, stack.clone())?;
        output_handle(ctx, STACKS, &stack.name, &stack)
    })
}

fn push(ctx: &mut OpContext<'_>) -> Result<()> {
    let stack = find::<Stack>(ctx)?;
    let element = ctx.take_input(1)?;
    if let Err(error) = stack.push(element.clone()) {
        // The reference leaves out pushes to stacks behind resource handles that nobody pops from: there it is
        // left to the pop to complain.
        match ctx.value(0) {
            Some(Value::Ref(_)) => return Err(error),
            _ => *stack.refused.lock() = Some(error),
        }
    }
    ctx.set_output(0, element);
    Ok(())
}

fn pop(ctx: &mut OpContext<'_>) -> Result<()> {
    let element = find::<Stack>(ctx)?.pop()?;
    ctx.try_set_output(0, element)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    fn stack(ops: &Ops, max_len: i32) -> Tensor {
        let attrs = [of("elem_type", DType::FLOAT)];
        ops.first("StackV2", &attrs, vec![Tensor::scalar(max_len)]).unwrap()
    }

    fn push(ops: &Ops, stack: &Tensor, element: Tensor) -> Result<Tensor> {
        let dtype = element.dtype();
        ops.first("StackPushV2", &[of("T", dtype)], vec![stack.clone(), element])
    }

    fn pop(ops: &Ops, stack: &Tensor) -> Result<Tensor> {
        ops.first("StackPopV2", &[of("elem_type", DType::FLOAT)], vec![stack.clone()])
    }

    #[test]
    fn what_comes_last_goes_first() {
        let ops = Ops::new();
        let stack = stack(&ops, -1);
        let first = floats(&[1.0]);
        assert!(push(&ops, &stack, first.clone()).unwrap().shares_buffer(&first));
        push(&ops, &stack, floats(&[2.0, 3.0])).unwrap();
        assert_eq!(contents::<f32>(&pop(&ops, &stack).unwrap()).1, [2.0, 3.0]);
        assert!(pop(&ops, &stack).unwrap().shares_buffer(&first));
        let empty = pop(&ops, &stack).unwrap_err();
        assert!(empty.message().ends_with("] is empty when calling Pop()."), "{empty}");
    }

    #[test]
    fn bounds_types_and_ends() {
        let mut ops = Ops::new();
        let full = stack(&ops, 1);
        push(&ops, &full, floats(&[1.0])).unwrap();
        push(&ops, &full, floats(&[1.0])).unwrap();
        let error = pop(&ops, &full).unwrap_err();
        assert!(error.message().ends_with("] overflowed its max_size (1)"), "{error}");
        let other = stack(&ops, -1);
        push(&ops, &other, ints(&[1])).unwrap();
        assert_eq!(pop(&ops, &other).unwrap_err().message(), "Must have type 1 but got 3");
        let closed = stack(&ops, 1);
        ops.all("StackCloseV2", &[], vec![closed.clone()]).unwrap();
        let error = pop(&ops, &closed).unwrap_err();
        assert!(error.message().ends_with("] has already been closed."), "{error}");
        ops.next_step();
        assert_eq!(pop(&ops, &other).unwrap_err().code(), tfcore_base::Code::NotFound);
    }
}
