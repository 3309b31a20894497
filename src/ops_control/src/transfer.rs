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
