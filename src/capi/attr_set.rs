//! Operation descriptions: operations while they are built.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use tfcore_base::{Error, Result, invalid};
use tfcore_framework::{AttrList, AttrValue, Attrs, TensorAttr, shape_from_proto};
use tfcore_graph::NodeBuilder;

use super::graph::{SharedGraph, TF_Graph, TF_Operation, TF_Output, node_in, partial_shape};
use super::handle::{Array, Boxed, Bytes, CStrIn, Mut, Owned, Ref, Status, count, guard, quiet};
use super::tf_datatype::TF_DataTypeNumber;
use super::tf_tensor::TF_Tensor;

/// An operation that is being built.
pub struct TF_OperationDescription {
    graph: Arc<SharedGraph>,
    builder: NodeBuilder,
    /// The first thing that was wrong with an argument; the calls have no status to report it by.
    error: Option<Error>,
}

impl Boxed for TF_OperationDescription {}

/// Runs a call on a description and keeps its error for `TF_FinishOperation`.
fn describe(
    mut desc: Mut<TF_OperationDescription>,
    body: impl FnOnce(&mut TF_OperationDescription) -> Result<()>,
) {
    quiet((), || {
        let desc = desc.get("desc")?;
        if let Err(error) = body(desc) {
            desc.error.get_or_insert(error);
        }
        Ok(())
    });
}

/// Sets an attr to the value that `make` yields.
fn set(
    desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    make: impl FnOnce() -> Result<AttrValue>,
) {
    describe(desc, |desc| {
        let name = attr_name.get("attr_name")?;
        desc.builder.set_attr(name, make()?);
        Ok(())
    });
}

/// Begins to build an operation. The caller finishes it with `TF_FinishOperation`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewOperation(
    graph: Ref<TF_Graph>,
    op_type: CStrIn,
    oper_name: CStrIn,
) -> *mut TF_OperationDescription {
    quiet(ptr::null_mut(), || {
        let (graph, op, name) =
            (graph.get("graph")?, op_type.get("op_type")?, oper_name.get("oper_name")?);
        Ok(TF_OperationDescription {
            graph: graph.shared.clone(),
            builder: NodeBuilder::new(op, name),
            error: None,
        }
        .hand_out())
    })
}

/// As `TF_NewOperation`: a description takes no lock.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewOperationLocked(
    graph: Ref<TF_Graph>,
    op_type: CStrIn,
    oper_name: CStrIn,
) -> *mut TF_OperationDescription {
    TF_NewOperation(graph, op_type, oper_name)
}

/// Adds the operation to its graph and deletes the description. On error null is returned and the graph
/// is as before.
#[unsafe(no_mangle)]
pub extern "C" fn TF_FinishOperation(
    desc: Owned<TF_OperationDescription>,
    status: Status,
) -> *mut TF_Operation {
    guard(status, ptr::null_mut(), || {
        let desc = desc.take("desc")?;
        if let Some(error) = desc.error {
            return Err(error);
        }
        let mut graph = desc.graph.lock();
        let id = desc.builder.finish(&mut graph)?;
        Ok(graph.handle(id))
    })
}

/// As `TF_FinishOperation`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_FinishOperationLocked(
    desc: Owned<TF_OperationDescription>,
    status: Status,
) -> *mut TF_Operation {
    TF_FinishOperation(desc, status)
}

/// Requests a device; an empty string requests none.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetDevice(desc: Mut<TF_OperationDescription>, device: CStrIn) {
    describe(desc, |desc| {
        desc.builder.set_device(device.get("device")?);
        Ok(())
    });
}

/// Adds the next input, where the op takes one tensor.
#[unsafe(no_mangle)]
pub extern "C" fn TF_AddInput(desc: Mut<TF_OperationDescription>, input: TF_Output) {
    describe(desc, |desc| {
        desc.builder.add_input(input.in_graph(&desc.graph)?);
        Ok(())
    });
}

/// Adds the next input, where the op takes a list.
#[unsafe(no_mangle)]
pub extern "C" fn TF_AddInputList(
    desc: Mut<TF_OperationDescription>,
    inputs: Array<TF_Output>,
    num_inputs: c_int,
) {
    describe(desc, |desc| {
        let inputs = inputs.get(count(num_inputs, "num_inputs")?, "inputs")?;
        let outputs = inputs.iter().map(|input| input.in_graph(&desc.graph));
        desc.builder.add_input_list(outputs.collect::<Result<_>>()?);
        Ok(())
    });
}

/// Makes the operation run after `input`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_AddControlInput(desc: Mut<TF_OperationDescription>, input: Ref<TF_Operation>) {
    describe(desc, |desc| {
        desc.builder.add_control_input(node_in(input.get("oper")?, &desc.graph)?.id);
        Ok(())
    });
}

/// Places the operation on the device of `op`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ColocateWith(desc: Mut<TF_OperationDescription>, op: Ref<TF_Operation>) {
    describe(desc, |desc| {
        desc.builder.colocate_with(&node_in(op.get("oper")?, &desc.graph)?.name);
        Ok(())
    });
}

/// Sets an attr of type string.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrString(
    desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    value: Bytes,
    length: usize,
) {
    set(desc, attr_name, || Ok(AttrValue::string(value.get(length, "value")?)));
}

/// The byte strings of an array of pointers and one of lengths.
pub(crate) fn byte_strings(
    values: &Array<Bytes>,
    lengths: Array<usize>,
    num: c_int,
) -> Result<Vec<&[u8]>> {
    let num = count(num, "num_values")?;
    let (values, lengths) = (values.get(num, "values")?, lengths.get(num, "lengths")?);
    let pairs = values.iter().zip(lengths);
    pairs.map(|(value, &length)| value.get(length, "values")).collect()
}

/// Sets an attr of type list(string).
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrStringList(
    desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    values: Array<Bytes>,
    lengths: Array<usize>,
    num_values: c_int,
) {
    set(desc, attr_name, || Ok(AttrValue::strings(byte_strings(&values, lengths, num_values)?)));
}

/// Sets an attr of type int.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrInt(desc: Mut<TF_OperationDescription>, attr_name: CStrIn, value: i64) {
    set(desc, attr_name, || Ok(AttrValue::Int(value)));
}

/// A list attr from an array.
pub(crate) fn list<T: Copy, V>(
    values: Array<T>,
    num: c_int,
    convert: impl Fn(T) -> Result<V>,
    wrap: impl FnOnce(Vec<V>) -> AttrList,
) -> Result<AttrValue> {
    let values = values.get(count(num, "num_values")?, "values")?;
    Ok(AttrValue::list(wrap(values.iter().map(|&value| convert(value)).collect::<Result<_>>()?)))
}

/// Sets an attr of type list(int).
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrIntList(
    desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    values: Array<i64>,
    num_values: c_int,
) {
    set(desc, attr_name, || list(values, num_values, Ok, AttrList::Int));
}

/// Sets an attr of type float.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrFloat(
    desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    value: f32,
) {
    set(desc, attr_name, || Ok(AttrValue::Float(value)));
}

/// Sets an attr of type list(float).
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrFloatList(
    desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    values: Array<f32>,
    num_values: c_int,
) {
    set(desc, attr_name, || list(values, num_values, Ok, AttrList::Float));
}

/// Sets an attr of type bool; any value but 0 is true.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrBool(desc: Mut<TF_OperationDescription>, attr_name: CStrIn, value: u8) {
    set(desc, attr_name, || Ok(AttrValue::Bool(value != 0)));
}

/// Sets an attr of type list(bool).
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrBoolList(
    desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    values: Array<u8>,
    num_values: c_int,
) {
    set(desc, attr_name, || list(values, num_values, |v| Ok(v != 0), AttrList::Bool));
}

/// Sets an attr of type type.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrType(
    desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    value: TF_DataTypeNumber,
) {
    set(desc, attr_name, || value.dtype().map(AttrValue::Type));
}

/// Sets an attr of type list(type).
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrTypeList(
    desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    values: Array<TF_DataTypeNumber>,
    num_values: c_int,
) {
    set(desc, attr_name, || list(values, num_values, TF_DataTypeNumber::dtype, AttrList::Type));
}

/// Sets an attr to the value of the attr `placeholder` of the function around the operation.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrPlaceholder(
    desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    placeholder: CStrIn,
) {
    set(desc, attr_name, || {
        Ok(AttrValue::Placeholder(placeholder.get("placeholder")?.as_ref().into()))
    });
}

/// Sets an attr of type func to a function without attrs of its own.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrFuncName(
    desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    value: CStrIn,
    length: usize,
) {
    set(desc, attr_name, || {
        let name = String::from_utf8_lossy(value.bytes(length, "value")?);
        Ok(AttrValue::func(name, Attrs::new()))
    });
}

/// Sets an attr of type shape: -1 for an unknown dimension, `num_dims` -1 for an unknown rank.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrShape(
    desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    dims: Array<i64>,
    num_dims: c_int,
) {
    set(desc, attr_name, || Ok(AttrValue::shape(partial_shape(dims, num_dims)?)));
}

/// Sets an attr of type list(shape).
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrShapeList(
    desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    dims: Array<Array<i64>>,
    num_dims: Array<c_int>,
    num_shapes: c_int,
) {
    set(desc, attr_name, || {
        let num = count(num_shapes, "num_shapes")?;
        let pairs = dims.get(num, "dims")?.iter().zip(num_dims.get(num, "num_dims")?);
        let shapes = pairs.map(|(&dims, &rank)| partial_shape(dims, rank));
        Ok(AttrValue::list(AttrList::Shape(shapes.collect::<Result<_>>()?)))
    });
}

/// Sets an attr of type shape to a serialised `TensorShapeProto`. On error the description stays as it was.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrTensorShapeProto(
    mut desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    proto: Bytes,
    proto_len: usize,
    status: Status,
) {
    guard(status, (), || {
        let bytes = proto.get(proto_len, "proto")?;
        let (desc, name) = (desc.get("desc")?, attr_name.get("attr_name")?);
        let message =
            tfcore_proto::decode(bytes).map_err(|_| invalid!("Unparseable TensorShapeProto"))?;
        desc.builder.set_attr(name, AttrValue::shape(shape_from_proto(&message)?));
        Ok(())
    })
}

/// Sets an attr of type list(shape) to serialised `TensorShapeProto`s.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrTensorShapeProtoList(
    mut desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    protos: Array<Bytes>,
    proto_lens: Array<usize>,
    num_shapes: c_int,
    status: Status,
) {
    guard(status, (), || {
        let protos = byte_strings(&protos, proto_lens, num_shapes)?;
        let (desc, name) = (desc.get("desc")?, attr_name.get("attr_name")?);
        let parse = |(index, bytes): (usize, &&[u8])| {
            let message = tfcore_proto::decode(bytes)
                .map_err(|_| invalid!("Unparseable TensorShapeProto at index {index}"))?;
            shape_from_proto(&message)
        };
        let shapes = protos.iter().enumerate().map(parse).collect::<Result<_>>()?;
        desc.builder.set_attr(name, AttrValue::list(AttrList::Shape(shapes)));
        Ok(())
    })
}

/// Sets an attr of type tensor; the tensor stays the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrTensor(
    mut desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    value: Ref<TF_Tensor>,
    status: Status,
) {
    guard(status, (), || {
        let (desc, name, value) =
            (desc.get("desc")?, attr_name.get("attr_name")?, value.get("value")?);
        desc.builder.set_attr(name, AttrValue::tensor(kept(value)?));
        Ok(())
    })
}

/// The tensor for an attribute: a copy of memory that the client may change.
pub(crate) fn kept(value: &TF_Tensor) -> Result<tfcore_tensor::Tensor> {
    value.tensor()?.deep_copy()
}

/// Sets an attr of type list(tensor); the tensors stay the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrTensorList(
    mut desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    values: Array<Ref<TF_Tensor>>,
    num_values: c_int,
    status: Status,
) {
    guard(status, (), || {
        let values = values.get(count(num_values, "num_values")?, "values")?;
        let (desc, name) = (desc.get("desc")?, attr_name.get("attr_name")?);
        let convert = |value: &Ref<TF_Tensor>| {
            let tensor = kept(value.get("values")?)?;
            Ok(Arc::new(TensorAttr::from(tensor)))
        };
        let tensors = values.iter().map(convert).collect::<Result<_>>()?;
        desc.builder.set_attr(name, AttrValue::list(AttrList::Tensor(tensors)));
        Ok(())
    })
}

/// Sets an attr to a serialised `AttrValue`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttrValueProto(
    mut desc: Mut<TF_OperationDescription>,
    attr_name: CStrIn,
    proto: Bytes,
    proto_len: usize,
    status: Status,
) {
    guard(status, (), || {
        let bytes = proto.get(proto_len, "proto")?;
        let (desc, name) = (desc.get("desc")?, attr_name.get("attr_name")?);
        let message =
            tfcore_proto::decode(bytes).map_err(|_| invalid!("Unparseable AttrValue proto"))?;
        desc.builder.set_attr(name, AttrValue::from_proto(message));
        Ok(())
    })
}
