//! `TensorMap`: a map from tensors to tensors as the value of a variant, and its ops.

use std::any::Any;
use std::collections::BTreeMap;

use tfcore_base::{DType, Result, internal, invalid, require, unimplemented_error};
use tfcore_framework::{
    Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, summarize_values,
};
use tfcore_tensor::{TString, Tensor, Variant, VariantValue};

use crate::element_shape::with_first;
use crate::tensor_list::{add_tensors, take_variants, variant_text};
use crate::{nested, parts};

pub(crate) fn register(r: &mut Registry) {
    // `EmptyTensorMap() -> handle: variant`.
    r.op("EmptyTensorMap").shape(shape_fns::scalar).compute(|ctx| {
        ctx.set_output(0, Tensor::scalar(Variant::new(TensorMap::default())));
        Ok(())
    });

    // `TensorMapSize(input_handle: variant) -> size: int32`.
    r.op("TensorMapSize").shape(shape_fns::scalar).compute(|ctx| {
        let size = input_map(ctx)?.entries.len();
        ctx.set_output(0, Tensor::scalar(size as i32));
        Ok(())
    });

    // `TensorMapHasKey(input_handle: variant, key: key_dtype) -> has_key: bool`.
    r.op("TensorMapHasKey").shape(shape_fns::scalar).compute(|ctx| {
        let found = input_map(ctx)?.entries.contains_key(&key_bytes(ctx.input(1)?)?);
        ctx.set_output(0, Tensor::scalar(found));
        Ok(())
    });

    // `TensorMapLookup(input_handle: variant, key: key_dtype) -> value: value_dtype`.
    r.op("TensorMapLookup").shape(shape_fns::unknown).compute(lookup);

    // `TensorMapInsert(input_handle: variant, key: key_dtype, value: value_dtype) -> output_handle: variant`,
    // replaces the value of a key that is there.
    r.op("TensorMapInsert").shape(shape_fns::scalar).compute(insert);

    // `TensorMapErase(input_handle: variant, key: key_dtype) -> output_handle: variant`.
    r.op("TensorMapErase").shape(shape_fns::scalar).compute(erase);

    // `TensorMapStackKeys(input_handle: variant) -> keys: key_dtype`, the keys as rows.
    r.op("TensorMapStackKeys").shape(shape_fns::unknown).cpu(stack_keys);
}

/// Tensors by tensors. The keys are in an order of their own, so that it does not change from run to run.
#[derive(Clone, Default)]
pub(crate) struct TensorMap {
    entries: BTreeMap<Vec<u8>, Entry>,
}

#[derive(Clone)]
struct Entry {
    key: Tensor,
    value: Tensor,
}

impl TensorMap {
    /// Empties the map of its values.
    pub(crate) fn take_values(&mut self) -> Vec<Tensor> {
        std::mem::take(&mut self.entries).into_values().map(|entry| entry.value).collect()
    }

    /// The keys of both; the values of keys that both have are added.
    fn add(&self, other: &TensorMap) -> Result<TensorMap> {
        let mut sum = self.clone();
        for (key, entry) in &other.entries {
            match sum.entries.get_mut(key) {
                Some(known) => known.value = add_tensors(&entry.value, &known.value)?,
                None => {
                    sum.entries.insert(key.clone(), entry.clone());
                }
            }
        }
        Ok(sum)
    }
}

impl VariantValue for TensorMap {
    fn type_name(&self) -> &str {
        "tensorflow::TensorMap"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    /// The zeros of a map are an empty map.
    fn zeros_like(&self) -> Result<Option<Variant>> {
        Ok(Some(Variant::new(TensorMap::default())))
    }

    fn plus(&self, other: &Variant) -> Result<Option<Variant>> {
        let Some(other) = other.get::<TensorMap>() else {
            return Ok(None);
        };
        nested::descend(|| self.add(other).map(|sum| Some(Variant::new(sum))))
    }
}

impl Drop for TensorMap {
    fn drop(&mut self) {
        if self.entries.values().any(|entry| nested::may_nest(entry.value.dtype())) {
            nested::drop_tensors(self.take_values());
        }
    }
}

/// What tells keys apart: dtype, shape and elements, byte by byte.
fn key_bytes(key: &Tensor) -> Result<Vec<u8>> {
    let mut bytes = vec![key.dtype().to_i32() as u8, key.rank() as u8];
    for size in key.shape().dims() {
        bytes.extend(size.to_le_bytes());
    }
    match key.dtype() {
        DType::STRING => {
            for text in key.as_slice::<TString>()? {
                bytes.extend((text.len() as u64).to_le_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
        }
        dtype if dtype.is_plain() => bytes.extend_from_slice(key.elems().bytes()),
        dtype => return Err(unimplemented_error!("Keys of tensor maps cannot be of type {dtype}")),
    }
    Ok(bytes)
}

/// The map at input 0.
fn input_map<'c>(ctx: &'c OpContext<'_>) -> Result<&'c TensorMap> {
    let tensor = ctx.input(0)?;
    require!(tensor.rank() == 0, "Input map must be a scalar. Saw: {}", tensor.shape());
    let [variant] = tensor.as_slice::<Variant>()? else {
        return Err(internal!("A scalar of {} elements", tensor.count()));
    };
    variant
        .get()
        .ok_or_else(|| invalid!("Input handle is not a map. Saw: '{}'", variant_text(variant)))
}

/// Sets output 0 to the map at input 0 after a change.
fn output_changed_map(ctx: &mut OpContext<'_>, change: impl FnOnce(&mut TensorMap)) -> Result<()> {
    let mut tensor = take_variants(ctx, 0)?;
    let [variant] = tensor.as_mut_slice::<Variant>()? else {
        return Err(internal!("Changing a map that has not been checked"));
    };
    change(variant.make_mut().ok_or_else(|| internal!("Changing what is no map"))?);
    ctx.set_output(0, tensor);
    Ok(())
}

fn lookup(ctx: &mut OpContext<'_>) -> Result<()> {
    let key = ctx.input(1)?;
    let entry = input_map(ctx)?.entries.get(&key_bytes(key)?).ok_or_else(|| {
        invalid!(
            "Trying to lookup non-existent key. Could not find key \"{}\".",
            summarize_values(key, 100)
        )
    })?;
    let value = entry.value.clone();
    ctx.try_set_output(0, value)
}

fn insert(ctx: &mut OpContext<'_>) -> Result<()> {
    input_map(ctx)?;
    let bytes = key_bytes(ctx.input(1)?)?;
    let entry = Entry { key: ctx.take_input(1)?, value: ctx.take_input(2)? };
    output_changed_map(ctx, |map| {
        map.entries.insert(bytes, entry);
    })
}

fn erase(ctx: &mut OpContext<'_>) -> Result<()> {
    let key = ctx.input(1)?;
    let bytes = key_bytes(key)?;
    require!(
        input_map(ctx)?.entries.contains_key(&bytes),
        "Trying to erase non-existent item. Could not find key \"{}\".",
        summarize_values(key, 100)
    );
    output_changed_map(ctx, |map| {
        map.entries.remove(&bytes);
    })
}

fn stack_keys(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("key_dtype")?;
    kernel(move |ctx| {
        let map = input_map(ctx)?;
        let keys: Vec<Option<&Tensor>> =
            map.entries.values().map(|entry| Some(&entry.key)).collect();
        let Some(first) = keys.iter().flatten().next() else {
            return Err(invalid!("TensorMapStackKeys cannot be called on empty map."));
        };
        for key in keys.iter().flatten() {
            require!(key.dtype() == dtype, "Key does not match requested dtype.");
            require!(key.shape() == first.shape(), "Keys must all have the same shape.");
        }
        let shape = with_first(keys.len(), first.shape())?;
        let stacked = parts::stack(ctx, dtype, shape, first.count(), &keys)?;
        ctx.set_output(0, stacked);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_framework::AttrValue;

    const ATTRS: [(&str, AttrValue); 2] = [
        ("key_dtype", AttrValue::Type(DType::INT32)),
        ("value_dtype", AttrValue::Type(DType::FLOAT)),
    ];

    fn insert(ops: &Ops, map: Tensor, key: Tensor, value: f32) -> Tensor {
        ops.first("TensorMapInsert", &ATTRS, vec![map, key, Tensor::scalar(value)]).unwrap()
    }

    #[test]
    fn values_by_keys() {
        let ops = Ops::new();
        let empty = ops.first("EmptyTensorMap", &[], vec![]).unwrap();
        let one = insert(&ops, empty.clone(), ints(&[1, 2]), 1.0);
        let two = insert(&ops, one.clone(), ints(&[2, 1]), 2.0);
        let replaced = insert(&ops, two.clone(), ints(&[1, 2]), 3.0);
        let lookup = |map: &Tensor, key: &[i32]| {
            let found = ops.first("TensorMapLookup", &ATTRS, vec![map.clone(), ints(key)])?;
            found.scalar_value::<f32>()
        };
        assert_eq!(lookup(&two, &[1, 2]).unwrap(), 1.0);
        assert_eq!(lookup(&replaced, &[1, 2]).unwrap(), 3.0);
        assert_eq!(lookup(&replaced, &[2, 1]).unwrap(), 2.0);
        assert_eq!(
            lookup(&one, &[2, 1]).unwrap_err().message(),
            "Trying to lookup non-existent key. Could not find key \"2 1\"."
        );
        let keys = ops.first("TensorMapStackKeys", &ATTRS[..1], vec![replaced.clone()]).unwrap();
        assert_eq!(contents(&keys), (vec![2, 2], vec![1, 2, 2, 1]));
        let erased = ops.first("TensorMapErase", &ATTRS, vec![replaced, ints(&[1, 2])]).unwrap();
        for (map, size, has) in [(empty, 0, false), (two, 2, true), (erased.clone(), 1, false)] {
            let len = ops.first("TensorMapSize", &[], vec![map.clone()]).unwrap();
            assert_eq!(len.scalar_value::<i32>().unwrap(), size);
            let found =
                ops.first("TensorMapHasKey", &ATTRS[..1], vec![map, ints(&[1, 2])]).unwrap();
            assert_eq!(found.scalar_value::<bool>().unwrap(), has);
        }
        assert_eq!(
            ops.failure("TensorMapErase", &ATTRS, vec![erased, ints(&[1, 2])]),
            "Trying to erase non-existent item. Could not find key \"1 2\"."
        );
    }

    #[test]
    fn keys_of_other_types_and_shapes_are_other_keys() {
        let texts = |texts: &[&str]| {
            let texts: Vec<TString> = texts.iter().map(|&text| TString::from(text)).collect();
            Tensor::from_slice(tfcore_tensor::Shape::vector(texts.len()), &texts).unwrap()
        };
        let keys = [
            ints(&[1]),
            Tensor::scalar(1),
            floats(&[f32::from_bits(1)]),
            ints(&[1, 0]),
            texts(&["ab", "c"]),
            texts(&["a", "bc"]),
        ];
        for (a, first) in keys.iter().enumerate() {
            for (b, second) in keys.iter().enumerate() {
                let same = key_bytes(first).unwrap() == key_bytes(second).unwrap();
                assert_eq!(same, a == b, "{a} {b}");
            }
        }
        assert!(key_bytes(&Tensor::scalar(Variant::default())).is_err());
    }

    #[test]
    fn sums_of_maps() {
        let ops = Ops::new();
        let empty = ops.first("EmptyTensorMap", &[], vec![]).unwrap();
        let a = insert(&ops, empty.clone(), ints(&[1]), 1.0);
        let b = insert(&ops, insert(&ops, empty, ints(&[1]), 10.0), ints(&[2]), 20.0);
        let value = |tensor: &Tensor| tensor.scalar_value::<Variant>().unwrap();
        let sum = Tensor::scalar(value(&a).plus(&value(&b)).unwrap());
        for (key, expected) in [(1, 11.0), (2, 20.0)] {
            let found =
                ops.first("TensorMapLookup", &ATTRS, vec![sum.clone(), ints(&[key])]).unwrap();
            assert_eq!(found.scalar_value::<f32>().unwrap(), expected);
        }
    }
}
