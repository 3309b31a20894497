//! Sparse tensors as strings or variants, and kept in maps between runs.

use std::any::Any;
use std::collections::BTreeMap;

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::named::{NamedResource, ResourceName};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, Resource, kernel, shape_ops,
    tensor_from_proto, tensor_to_proto,
};
use tfcore_proto::TensorProto;
use tfcore_tensor::{Dim, PartialShape, Shape, TString, Tensor, Variant, VariantValue};

use crate::coo::{Coo, gather, join, matrix, static_parts, vector};

pub(crate) fn register(r: &mut Registry) {
    // `SerializeSparse(sparse_indices, sparse_values: T, sparse_shape) -> serialized_sparse: out_type`, three elements.
    r.op("SerializeSparse")
        .shape(|ctx| {
            static_parts(ctx, 0)?;
            ctx.set_output(0, PartialShape::vector(3));
            Ok(())
        })
        .cpu(|_| serialize_kernel(false));
    // `SerializeManySparse(sparse_indices, sparse_values: T, sparse_shape) -> serialized_sparse: out_type`, a row of three elements for
    // each entry of the first dimension.
    r.op("SerializeManySparse")
        .shape(|ctx| {
            static_parts(ctx, 0)?;
            ctx.set_output(0, PartialShape::matrix(Dim::fresh(), 3));
            Ok(())
        })
        .cpu(|_| serialize_kernel(true));
    // `DeserializeSparse(serialized_sparse: Tserialized) -> sparse_indices, sparse_values: dtype, sparse_shape`; the dimensions of the
    // input but the last become those of the result.
    r.op("DeserializeSparse")
        .shape(|ctx| {
            let input = ctx.input(0);
            if let Some(dims) = input.dims() {
                let last = dims
                    .last()
                    .ok_or_else(|| invalid!("Shape must be at least rank 1 but is rank 0"))?;
                shape_ops::with_value(*last, 3)?;
            }
            set_any(ctx);
            Ok(())
        })
        .cpu(deserialize_kernel);
    r.op("DeserializeManySparse")
        .shape(|ctx| {
            let input = shape_ops::with_rank(ctx.input(0), 2)?;
            shape_ops::with_value(input.dim(1), 3)?;
            set_any(ctx);
            Ok(())
        })
        .cpu(deserialize_kernel);
    // `AddSparseToTensorsMap(sparse_indices, sparse_values: T, sparse_shape) -> sparse_handle: int64`.
    r.op("AddSparseToTensorsMap")
        .shape(|ctx| {
            static_parts(ctx, 0)?;
            ctx.set_output(0, PartialShape::scalar());
            Ok(())
        })
        .cpu(|init| add_kernel(init, false));
    // `AddManySparseToTensorsMap(sparse_indices, sparse_values: T, sparse_shape) -> sparse_handles: int64`.
    r.op("AddManySparseToTensorsMap")
        .shape(|ctx| {
            static_parts(ctx, 0)?;
            ctx.set_output(0, PartialShape::vector(Dim::fresh()));
            Ok(())
        })
        .cpu(|init| add_kernel(init, true));
    // `TakeManySparseFromTensorsMap(sparse_handles: int64) -> sparse_indices, sparse_values: dtype, sparse_shape`, which are no longer in
    // the map then.
    r.op("TakeManySparseFromTensorsMap")
        .shape(|ctx| {
            shape_ops::with_rank(ctx.input(0), 1)?;
            set_any(ctx);
            Ok(())
        })
        .cpu(take_kernel);
}

fn set_any(ctx: &mut InferenceContext<'_>) {
    ctx.set_output(0, PartialShape::of_rank(2));
    ctx.set_output(1, PartialShape::of_rank(1));
    ctx.set_output(2, PartialShape::of_rank(1));
}

/// A sparse tensor by itself.
#[derive(Clone)]
struct Parts([Tensor; 3]);

/// A tensor as the value of a variant.
struct TensorValue(Tensor);

impl VariantValue for TensorValue {
    fn type_name(&self) -> &str {
        "tensorflow::Tensor"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The sparse tensor at inputs 0, 1 and 2.
fn whole(ctx: &OpContext<'_>) -> Result<Parts> {
    for (input, name, rank, kind) in
        [(0, "indices", 2, "matrix"), (1, "values", 1, "vector"), (2, "shape", 1, "vector")]
    {
        let shape = ctx.input(input)?.shape();
        require!(
            shape.rank() == rank,
            "Input {name} should be a {kind} but received shape {shape}"
        );
    }
    Coo::unchecked(ctx, 0)?;
    Ok(Parts([ctx.input(0)?.clone(), ctx.input(1)?.clone(), ctx.input(2)?.clone()]))
}

/// A sparse tensor for each entry of the first dimension.
fn rows(ctx: &OpContext<'_>) -> Result<Vec<Parts>> {
    whole(ctx)?;
    let coo = Coo::unchecked(ctx, 0)?;
    require!(coo.rank > 1, "Rank of input SparseTensor should be > 1, but saw rank: {}", coo.rank);
    coo.check_bounds()?;
    let values = ctx.input(1)?;
    let mut members: Vec<Vec<usize>> = tfcore_base::try_filled(Vec::new(), coo.shape[0] as usize)?;
    for (position, index) in coo.iter().enumerate() {
        members[index[0] as usize].push(position);
    }
    let shape = vector(&coo.shape[1..])?;
    let row = |positions: &Vec<usize>| {
        let indices: Vec<i64> =
            positions.iter().flat_map(|&position| &coo.index(position)[1..]).copied().collect();
        Ok(Parts([
            matrix(ctx, &indices, coo.rank - 1)?,
            gather(ctx, values, positions)?,
            shape.clone(),
        ]))
    };
    members.iter().map(row).collect()
}

fn to_text(tensor: &Tensor) -> TString {
    let mut message = tensor_to_proto(tensor);
    if tensor.dtype().is_plain() {
        let head = TensorProto {
            dtype: message.dtype,
            tensor_shape: message.tensor_shape.take(),
            ..TensorProto::default()
        };
        let tensor_content = Bytes::copy_from_slice(tensor.elems().bytes());
        message = TensorProto { tensor_content, ..head };
    }
    TString::from(&*message.encode_to_vec())
}

fn serialize_kernel(many: bool) -> Result<Box<dyn Kernel>> {
    kernel(move |ctx| {
        let (all, shape) = match many {
            false => (vec![whole(ctx)?], Shape::vector(3)),
            true => {
                let rows = rows(ctx)?;
                let shape = Shape::new(&[rows.len() as i64, 3])?;
                (rows, shape)
            }
        };
        let parts = all.iter().flat_map(|parts| &parts.0);
        let tensor = if ctx.output_dtype(0) == DType::STRING {
            Tensor::from_slice(shape, &parts.map(to_text).collect::<Vec<_>>())?
        } else {
            let values = parts.map(|part| Variant::new(TensorValue(part.clone())));
            Tensor::from_slice(shape, &values.collect::<Vec<_>>())?
        };
        ctx.set_output(0, tensor);
        Ok(())
    })
}

fn deserialize_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("dtype")?;
    kernel(move |ctx| {
        let input = ctx.input(0)?;
        let dims = input.shape().dims();
        let Some((&last, batch)) = dims.split_last() else {
            return Err(invalid!("Serialized sparse should have non-zero rank {}", input.shape()));
        };
        require!(
            last == 3,
            "Serialized sparse should have 3 as the last dimension {}",
            input.shape()
        );
        require!(
            input.count() > 0,
            "Serialized sparse should have at least 1 serialized tensor, but has a zero dimension {}",
            input.shape()
        );
        let tensors = match input.dtype() {
            DType::STRING => {
                let texts = input.as_slice::<TString>()?;
                texts.iter().map(|text| from_text(text.as_bytes())).collect::<Result<Vec<_>>>()?
            }
            _ => {
                let values = input.as_slice::<Variant>()?.iter().map(|value| {
                    let tensor = value.get::<TensorValue>().map(|value| value.0.clone());
                    tensor.ok_or_else(|| {
                        invalid!("Could not get a tensor from variant '{}'", value.type_name())
                    })
                });
                values.collect::<Result<Vec<_>>>()?
            }
        };
        let all: Vec<Parts> = tensors.as_chunks::<3>().0.iter().cloned().map(Parts).collect();
        stack(ctx, &all, batch, dtype)
    })
}

fn from_text(text: &[u8]) -> Result<Tensor> {
    let message: TensorProto =
        tfcore_proto::decode(text).map_err(|_| invalid!("Could not parse serialized proto"))?;
    tensor_from_proto(&message)
        .map_err(|_| invalid!("Could not construct tensor from serialized proto"))
}

/// Sets the outputs to all tensors as one, with the dimensions of a batch before those of each.
fn stack(ctx: &OpContext<'_>, all: &[Parts], batch: &[i64], dtype: DType) -> Result<()> {
    let mut shape: Option<Vec<i64>> = None;
    let mut total = 0;
    for (number, Parts([indices, values, dense])) in all.iter().enumerate() {
        let name = format!("SparseTensor[{number}]");
        require!(
            values.dtype() == dtype,
            "Requested SparseTensor of type {dtype} but {name}.values.dtype() == {}",
            values.dtype()
        );
        require!(
            indices.dtype() == DType::INT64 && indices.rank() == 2,
            "Expected {name}.indices to be a matrix of int64 but received shape {}",
            indices.shape()
        );
        require!(
            values.rank() == 1,
            "Expected {name}.values to be a vector but received shape {}",
            values.shape()
        );
        require!(
            dense.dtype() == DType::INT64 && dense.rank() == 1,
            "Expected {name}.shape to be a vector of int64 but received shape {}",
            dense.shape()
        );
        let coo = Coo::of_indices(indices, dense)?;
        require!(
            coo.len() == values.count(),
            "Expected row counts of {name}.indices and {name}.values to match but they do not: {} vs. {}",
            coo.len(),
            values.count()
        );
        total += values.count();
        match &mut shape {
            None => shape = Some(coo.shape.to_vec()),
            Some(shape) => {
                require!(
                    shape.len() == coo.rank,
                    "Inconsistent shape across SparseTensors: rank prior to {name} was: {} but rank of {name} is: {}",
                    shape.len(),
                    coo.rank
                );
                for (most, &size) in shape.iter_mut().zip(coo.shape) {
                    *most = size.max(*most);
                }
            }
        }
    }
    let inner = shape.ok_or_else(|| {
        invalid!("Must have at least 1 serialized SparseTensor, but input matrix has 0 rows")
    })?;
    let full = [batch, &inner].concat();
    let batch_shape = Shape::new(batch)?;
    let strides = batch_shape.strides();
    let mut indices = Vec::with_capacity(total * full.len());
    let mut values = ctx.allocate(dtype, Shape::vector(total))?;
    if total > 0 {
        let mut rest = values.elems_mut()?;
        for (number, Parts(parts)) in all.iter().enumerate() {
            let coo = Coo::of_indices(&parts[0], &parts[2])?;
            for index in coo.iter() {
                indices.extend(
                    strides
                        .iter()
                        .zip(batch)
                        .map(|(&stride, &size)| (number / stride) as i64 % size),
                );
                indices.extend_from_slice(index);
            }
            let (head, tail) = rest.split_at(parts[1].count());
            if parts[1].count() > 0 {
                head.copy_from(parts[1].elems());
            }
            rest = tail;
        }
    }
    ctx.set_output(0, matrix(ctx, &indices, full.len())?);
    ctx.set_output(1, values);
    ctx.set_output(2, vector(&full)?);
    Ok(())
}

/// Sparse tensors by handles.
#[derive(Default)]
struct Map(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    next: i64,
    tensors: BTreeMap<i64, Parts>,
}

impl Resource for Map {
    fn type_name(&self) -> &'static str {
        Map::TYPE
    }
}

impl NamedResource for Map {
    const TYPE: &'static str = "N10tensorflow16SparseTensorsMapE";
}

fn map_of(ctx: &OpContext<'_>, names: &ResourceName) -> Result<std::sync::Arc<Map>> {
    ctx.resources().get_or_create(names.container(), Map::TYPE, names.name(), || Ok(Map::default()))
}

fn add_kernel(init: &KernelInit<'_>, many: bool) -> Result<Box<dyn Kernel>> {
    let names = ResourceName::or_node(init)?;
    kernel(move |ctx| {
        let all = if many { rows(ctx)? } else { vec![whole(ctx)?] };
        let map = map_of(ctx, &names)?;
        let mut entries = map.0.lock();
        let first = entries.next;
        entries.next += all.len() as i64;
        let handles: Vec<i64> = (first..entries.next).collect();
        entries.tensors.extend(handles.iter().copied().zip(all));
        drop(entries);
        let shape = if many { Shape::vector(handles.len()) } else { Shape::scalar() };
        ctx.set_output(0, Tensor::from_slice(shape, &handles)?);
        Ok(())
    })
}

fn take_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let names = ResourceName::or_node(init)?;
    let dtype = init.attrs.dtype("dtype")?;
    kernel(move |ctx| {
        let handles = ctx.input(0)?;
        require!(
            handles.rank() == 1,
            "sparse_handles should be a vector but received shape {}",
            handles.shape()
        );
        let handles = handles.as_slice::<i64>()?;
        let map = map_of(ctx, &names)?;
        let mut entries = map.0.lock();
        let missing = handles.iter().find(|handle| !entries.tensors.contains_key(handle));
        if let Some(handle) = missing {
            return Err(invalid!(
                "Unable to find SparseTensor: {handle} in map: {}",
                join(handles)
            ));
        }
        let all: Vec<Parts> =
            handles.iter().filter_map(|handle| entries.tensors.remove(handle)).collect();
        drop(entries);
        require!(
            all.len() == handles.len(),
            "A SparseTensor cannot be taken twice: {}",
            join(handles)
        );
        stack(ctx, &all, &[all.len() as i64], dtype)
    })
}
