//! Composite tensors (ragged, sparse, ...) as one variant.

use std::any::Any;

use tfcore_base::{Result, invalid, require};
use tfcore_framework::{
    Kernel, KernelInit, OpContext, Registry, describe_tensor, kernel, shape_fns,
};
use tfcore_tensor::{Tensor, Variant, VariantValue};

use crate::wire::{fields, int_field};

pub(crate) fn register(r: &mut Registry) {
    // `CompositeTensorVariantFromComponents(components: Tcomponents; metadata) -> encoded: variant`.
    r.op("CompositeTensorVariantFromComponents").shape(shape_fns::scalar).cpu(encode);
    // `CompositeTensorVariantToComponents(encoded: variant; metadata) -> components: Tcomponents`.
    r.op("CompositeTensorVariantToComponents").shape(shape_fns::unknown).cpu(decode);
}

/// The components of a composite tensor and the number of its kind.
struct Composite {
    class: u64,
    components: Vec<Tensor>,
}

impl VariantValue for Composite {
    fn type_name(&self) -> &str {
        "CompositeTensorVariant"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The kind that the metadata of a node tells; 0 if they tell none.
fn class_of(init: &KernelInit<'_>) -> Result<u64> {
    let metadata = init.attrs.bytes("metadata")?;
    let found = fields(metadata).and_then(|found| {
        let spec = found.iter().rev().find(|(number, _)| *number == 1);
        match spec {
            None => Some(0),
            Some((_, spec)) => fields(spec).and(int_field(spec, 1)),
        }
    });
    found.ok_or_else(|| invalid!("Error parsing metadata"))
}

/// The name of a kind, as in `TypeSpecProto`.
fn class_name(class: u64) -> &'static str {
    const NAMES: [&str; 14] = [
        "UNKNOWN",
        "SPARSE_TENSOR_SPEC",
        "INDEXED_SLICES_SPEC",
        "RAGGED_TENSOR_SPEC",
        "TENSOR_ARRAY_SPEC",
        "DATA_DATASET_SPEC",
        "DATA_ITERATOR_SPEC",
        "OPTIONAL_SPEC",
        "PER_REPLICA_SPEC",
        "VARIABLE_SPEC",
        "ROW_PARTITION_SPEC",
        "",
        "REGISTERED_TYPE_SPEC",
        "EXTENSION_TYPE_SPEC",
    ];
    usize::try_from(class).ok().and_then(|class| NAMES.get(class)).copied().unwrap_or("")
}

fn encode(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let class = class_of(init)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let components: Vec<Tensor> =
            (0..ctx.num_inputs()).map(|index| ctx.input(index).cloned()).collect::<Result<_>>()?;
        ctx.set_output(0, Tensor::scalar(Variant::new(Composite { class, components })));
        Ok(())
    })
}

fn decode(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let class = class_of(init)?;
    let dtypes = init.output_dtypes.to_vec();
    kernel(move |ctx: &mut OpContext<'_>| {
        let encoded = ctx.input(0)?;
        let composite = match encoded.as_slice::<Variant>()? {
            [variant] => variant.get::<Composite>(),
            _ => None,
        };
        let Some(composite) = composite else {
            return Err(invalid!(
                "`encoded` is not a valid CompositeTensorVariant tensor, got {}",
                describe_tensor(encoded)
            ));
        };
        require!(
            composite.class == class,
            "Expected a {} (based on `type_spec`), but `encoded` contains a {}",
            class_name(class),
            class_name(composite.class)
        );
        let components = &composite.components;
        require!(
            components.len() == dtypes.len(),
            "Encoded value has {} tensor components; expected {} components based on type_spec",
            components.len(),
            dtypes.len()
        );
        for (index, (component, dtype)) in components.iter().zip(&dtypes).enumerate() {
            require!(
                component.dtype() == *dtype,
                "Tensor component {index} had dtype {}; expected dtype {}",
                component.dtype().enum_name(),
                dtype.enum_name()
            );
        }
        for (index, component) in components.iter().enumerate() {
            ctx.set_output(index, component.clone());
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op};

    use super::*;

    #[test]
    fn components_come_back_by_kind_and_dtype() {
        let registry = registry_of(register);
        let run = |op: &str, metadata: &[u8], dtype: DType, input: Tensor| {
            let attrs = [
                ("metadata", AttrValue::string(metadata)),
                ("Tcomponents", AttrValue::types([dtype])),
            ];
            run_op(&registry, op, &attrs, &[input])
        };
        let (from, to) =
            ("CompositeTensorVariantFromComponents", "CompositeTensorVariantToComponents");
        let sparse = b"\x0a\x02\x08\x01";
        let encoded = run(from, sparse, DType::FLOAT, floats(&[1], &[2.0])).unwrap().remove(0);
        let decoded = run(to, sparse, DType::FLOAT, encoded.clone()).unwrap();
        assert_eq!(decoded[0].as_slice::<f32>().unwrap(), [2.0]);
        for (metadata, dtype, message) in [
            (&b"\x0a\x02\x08\x03"[..], DType::FLOAT, "Expected a RAGGED_TENSOR_SPEC"),
            (sparse, DType::DOUBLE, "had dtype DT_FLOAT; expected dtype DT_DOUBLE"),
            (b"\xff\xff", DType::FLOAT, "Error parsing metadata"),
        ] {
            let error = run(to, metadata, dtype, encoded.clone()).unwrap_err();
            assert!(error.message().contains(message), "{error}");
        }
    }
}
