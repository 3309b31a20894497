//! Sending and receiving: values that pass between nodes of a step without an edge, from device to device.

use tfcore_base::Result;
use tfcore_framework::{
    BlockingContext, Kernel, KernelInit, Registry, Value, blocking_kernel, kernel, shape_fns,
};

pub(crate) fn register(r: &mut Registry) {
    // _Send(tensor: T; tensor_name, send_device, send_device_incarnation, recv_device), leaves the tensor, or that it
    // is dead, for the `_Recv` with the same attrs.
    r.ops(["_Send", "_HostSend"], |op| {
        op.shape(shape_fns::no_outputs).cpu(send);
    });
    // _Recv(; the same) -> tensor: tensor_type
    r.ops(["_Recv", "_HostRecv"], |op| {
        op.shape(shape_fns::unknown).cpu(receive);
    });
}

/// What a sender and its receiver have in common.
fn key(init: &KernelInit<'_>) -> Result<String> {
    let attrs = init.attrs;
    Ok(format!(
        "{};{:016x};{};{}",
        attrs.str("send_device")?,
        attrs.int("send_device_incarnation")?,
        attrs.str("recv_device")?,
        attrs.str("tensor_name")?
    ))
}

fn send(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let key = key(init)?;
    kernel(move |ctx| {
        let value = ctx.value(0).cloned().unwrap_or_default();
        ctx.step().send(&key, value);
        Ok(())
    })
}

fn receive(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let key = key(init)?;
    blocking_kernel(move |ctx: BlockingContext| {
        let step = ctx.step().clone();
        step.receive(&key, move |value| {
            ctx.finish_with(|op| {
                if let Value::Tensor(tensor) = value? {
                    op.set_output(0, tensor);
                }
                Ok(())
            })
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{registry_of, run_op_in, step};
    use tfcore_tensor::Tensor;

    #[test]
    fn what_is_sent_is_received_by_name() {
        let registry = registry_of(register);
        let step = step();
        let run = |op: &str, name: &str, inputs: Vec<Tensor>| {
            let dtype = if inputs.is_empty() { "tensor_type" } else { "T" };
            let attrs = [
                (dtype, AttrValue::Type(DType::INT32)),
                ("tensor_name", AttrValue::string(name)),
                ("send_device", AttrValue::string("/cpu:0")),
                ("send_device_incarnation", AttrValue::Int(1)),
                ("recv_device", AttrValue::string("/cpu:1")),
            ];
            run_op_in(&step, &registry, op, &attrs, inputs).unwrap()
        };
        run("_Send", "a", vec![Tensor::scalar(1i32)]);
        run("_HostSend", "b", vec![Tensor::scalar(2i32)]);
        let received =
            |op: &str, name: &str| run(op, name, Vec::new())[0].scalar_value::<i32>().unwrap();
        assert_eq!((received("_HostRecv", "b"), received("_Recv", "a")), (2, 1));
    }
}
