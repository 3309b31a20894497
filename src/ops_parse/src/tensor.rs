//! `SerializeTensor` and `ParseTensor`.

use bytes::Bytes;
use prost::Message;
use tfcore_base::{Result, invalid, require};
use tfcore_framework::{
    Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, tensor_from_proto, tensor_to_proto,
};
use tfcore_proto::TensorProto;
use tfcore_tensor::{PartialShape, TString, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `SerializeTensor(tensor: T) -> serialized: string`, a `TensorProto`.
    r.op("SerializeTensor").shape(shape_fns::scalar).compute(serialize);
    // `ParseTensor(serialized: string) -> output: out_type`.
    r.op("ParseTensor")
        .shape(|ctx| {
            ctx.set_output(0, PartialShape::unknown());
            Ok(())
        })
        .cpu(parse_kernel);
}

fn serialize(ctx: &mut OpContext<'_>) -> Result<()> {
    let tensor = ctx.input(0)?;
    let mut message = tensor_to_proto(tensor);
    if tensor.dtype().is_plain() {
        // Single elements are packed like all others.
        let content = Bytes::copy_from_slice(tensor.elems().bytes());
        let head = TensorProto {
            dtype: message.dtype,
            tensor_shape: message.tensor_shape.take(),
            ..TensorProto::default()
        };
        message = TensorProto { tensor_content: content, ..head };
    }
    ctx.set_output(0, Tensor::scalar(TString::from(&*message.encode_to_vec())));
    Ok(())
}

fn parse_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("out_type")?;
    kernel(move |ctx| {
        let serialized = ctx.input(0)?;
        require!(
            serialized.rank() == 0,
            "Expected `serialized` to be a scalar, got shape: {}",
            serialized.shape()
        );
        let text = serialized.scalar_value::<TString>()?;
        let message: TensorProto =
            tfcore_proto::decode(text.as_bytes()).map_err(|_| not_a_tensor(text.as_bytes()))?;
        let tensor = tensor_from_proto(&message)?;
        require!(
            tensor.dtype() == dtype,
            "Type mismatch between parsed tensor ({}) and dtype ({dtype})",
            tensor.dtype()
        );
        ctx.set_output(0, tensor);
        Ok(())
    })
}

#[cold]
fn not_a_tensor(bytes: &[u8]) -> tfcore_base::Error {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte))
            << (8 * (3 - group.len()));
        for place in 0..=group.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * place) & 63) as usize]));
        }
    }
    invalid!("Could not parse `serialized` as TensorProto, base64: {text}")
}
