//! Elements as one compressed value, and tensors as values of variants.

use std::any::Any;

use prost::Message;
use tfcore_base::{Result, data_loss, internal, invalid};
use tfcore_framework::{Registry, shape_fns, tensor_from_proto, tensor_to_proto};
use tfcore_proto::TensorProto;
use tfcore_tensor::{Tensor, Variant, VariantValue};

use crate::args::{components_shape, kernel, set_components};
use crate::iterators::check_components;

pub(crate) fn register(r: &mut Registry) {
    // `CompressElement(components: input_types) -> compressed: variant`.
    r.op("CompressElement").shape(shape_fns::scalar).cpu(|init| {
        kernel(init, |args| {
            let value = Compressed::new(&args.tensors("components")?)?;
            args.ctx.set_output(0, Tensor::scalar(Variant::new(value)));
            Ok(())
        })
    });
    // `UncompressElement(compressed: variant) -> components: output_types`.
    r.op("UncompressElement").shape(components_shape).cpu(|init| {
        kernel(init, |args| {
            let variant: Variant = args.scalar("compressed")?;
            let value = variant.get::<Compressed>();
            let element =
                value.ok_or_else(|| invalid!("Tensor must be a compressed element"))?.element()?;
            check_components(args, &element)?;
            set_components(args.ctx, element)
        })
    });
}

/// The components of an element, each as a message, compressed.
struct Compressed(Vec<Vec<u8>>);

impl Compressed {
    fn new(components: &[Tensor]) -> Result<Compressed> {
        let compress = |tensor: &Tensor| {
            let message = tensor_to_proto(tensor).encode_to_vec();
            let compressed = snap::raw::Encoder::new().compress_vec(&message);
            compressed.map_err(|error| internal!("Failed to compress using snappy: {error}"))
        };
        components.iter().map(compress).collect::<Result<_>>().map(Compressed)
    }

    fn element(&self) -> Result<Vec<Tensor>> {
        let uncompress = |bytes: &Vec<u8>| {
            let message = snap::raw::Decoder::new().decompress_vec(bytes);
            let message = message
                .map_err(|error| data_loss!("Could not perform snappy decompression: {error}"))?;
            let proto = TensorProto::decode(&message[..])
                .map_err(|_| data_loss!("Could not parse the compressed component"))?;
            tensor_from_proto(&proto)
        };
        self.0.iter().map(uncompress).collect()
    }
}

impl VariantValue for Compressed {
    fn type_name(&self) -> &str {
        "tensorflow.data.CompressedElement"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A tensor as the value of a variant.
pub(crate) struct TensorValue(#[allow(dead_code)] pub(crate) Tensor);

impl VariantValue for TensorValue {
    fn type_name(&self) -> &str {
        "tensorflow::Tensor"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub(crate) fn tensor_variant(tensor: Tensor) -> Variant {
    Variant::new(TensorValue(tensor))
}
