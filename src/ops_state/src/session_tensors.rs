//! Tensors that a session keeps from one run to the next, under handles that the client holds.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, Resource, kernel, shape_fns,
    shape_ops,
};
use tfcore_tensor::{HandleKey, ResourceHandle, TString, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `GetSessionHandle(value: T) -> handle: string`, keeps the value and returns its handle.
    // `GetSessionHandleV2(value: T) -> handle: resource`.
    r.ops(["GetSessionHandle", "GetSessionHandleV2"], |op| {
        op.shape(shape_fns::scalar).cpu(get_handle);
    });

    // `GetSessionTensor(handle: string) -> value: dtype`.
    r.op("GetSessionTensor").shape(handle_shape).compute(get_tensor);

    // `DeleteSessionTensor(handle: string)`, forgets the value.
    r.op("DeleteSessionTensor").shape(handle_shape).compute(delete_tensor);
}

/// The tensors that a session keeps.
#[derive(Default)]
struct SessionTensors(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    next_id: i64,
    tensors: HashMap<String, Tensor>,
}

impl Resource for SessionTensors {
    fn type_name(&self) -> &'static str {
        "SessionTensors"
    }
}

impl SessionTensors {
    fn of(ctx: &OpContext<'_>) -> Result<Arc<SessionTensors>> {
        ctx.resources().get_or_create("", "SessionTensors", "", || Ok(SessionTensors::default()))
    }
}

/// The type name and the container in handles of session tensors.
const HANDLE_TYPE: &str = "TensorHandle";

fn handle_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(0), 0)?;
    Ok(())
}

fn get_handle(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let name = init.name.to_string();
    let is_resource = init.output_dtypes[0] == DType::RESOURCE;
    kernel(move |ctx| {
        // The session gets a buffer of its own: a client may write to the tensor it has fed.
        let value = ctx.take_or_copy_input(0)?;
        let device = &ctx.step().device;
        let kept = SessionTensors::of(ctx)?;
        let handle = {
            let mut kept = kept.0.lock();
            let handle = format!("{name};{};{device}", kept.next_id);
            kept.next_id += 1;
            kept.tensors.insert(handle.clone(), value);
            handle
        };
        let handle = match is_resource {
            false => Tensor::scalar(TString::from(handle.as_str())),
            true => Tensor::scalar(ResourceHandle(Some(Arc::new(HandleKey {
                device: device.to_string(),
                container: HANDLE_TYPE.to_string(),
                name: handle,
                type_name: HANDLE_TYPE.to_string(),
                dtypes_and_shapes: Vec::new(),
                resource: None,
            })))),
        };
        ctx.set_output(0, handle);
        Ok(())
    })
}

/// The handle at input 0, which errors call `what`.
fn handle(ctx: &OpContext<'_>, what: &str) -> Result<String> {
    let handle = ctx.input(0)?;
    require!(handle.rank() == 0, "{what} must be scalar");
    let handle: TString = handle.scalar_value()?;
    Ok(String::from_utf8_lossy(handle.as_bytes()).into_owned())
}

fn get_tensor(ctx: &mut OpContext<'_>) -> Result<()> {
    let handle = handle(ctx, "handle")?;
    let value = SessionTensors::of(ctx)?.0.lock().tensors.get(&handle).cloned();
    let value = value.ok_or_else(|| {
        invalid!("The tensor with handle '{handle}' is not in the session store.")
    })?;
    ctx.try_set_output(0, value)
}

fn delete_tensor(ctx: &mut OpContext<'_>) -> Result<()> {
    let handle = handle(ctx, "`handle`")?;
    let removed = SessionTensors::of(ctx)?.0.lock().tensors.remove(&handle);
    match removed {
        Some(_) => Ok(()),
        None => {
            Err(invalid!("Failed to delete a tensor with handle '{handle}' in the session store."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{registry_of, run_op_in, step};

    #[test]
    fn tensors_are_kept_until_they_are_deleted() {
        let registry = registry_of(register);
        let step = step();
        let run = |op: &str, attr: &str, dtype: DType, input: Tensor| {
            let attrs = [(attr, AttrValue::Type(dtype))];
            let attrs = if attr.is_empty() { &[][..] } else { &attrs };
            run_op_in(&step, &registry, op, attrs, vec![input])
        };
        let value = Tensor::scalar(7i32);
        let handle = run("GetSessionHandle", "T", DType::INT32, value.clone()).unwrap().remove(0);
        let get = |dtype| run("GetSessionTensor", "dtype", dtype, handle.clone());
        let kept = get(DType::INT32).unwrap().remove(0);
        assert_eq!(kept.scalar_value::<i32>().unwrap(), 7);
        // The client still holds the value, and may write to it.
        assert!(!kept.shares_buffer(&value));
        assert!(get(DType::FLOAT).is_err());

        let delete = || run("DeleteSessionTensor", "", DType::INT32, handle.clone());
        delete().unwrap();
        let text: TString = handle.scalar_value().unwrap();
        let text = String::from_utf8_lossy(text.as_bytes()).into_owned();
        assert_eq!(
            get(DType::INT32).unwrap_err().message(),
            format!("The tensor with handle '{text}' is not in the session store.")
        );
        assert_eq!(
            delete().unwrap_err().message(),
            format!("Failed to delete a tensor with handle '{text}' in the session store.")
        );
        let pair = run("GetSessionTensor", "dtype", DType::INT32, {
            let texts = [TString::from("a"), TString::from("b")];
            Tensor::from_slice(tfcore_tensor::Shape::vector(2), &texts).unwrap()
        });
        assert_eq!(pair.unwrap_err().message(), "handle must be scalar");
    }
}
