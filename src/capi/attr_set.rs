//! Operation descriptions: operations while they are built.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use tfcore_base::{Error, Result, invalid};
use tfcore_framework::{AttrList, AttrValue, Attrs, TensorAttr, shape_from_proto};
use tfcore_graph::NodeBuilder;

use super::graph::{SharedGraph, TF_Graph, TF_Operation, TF_Output, node_in, partial_shape};
use super::handle::{count, get, get_mut, guard, quiet, slice, text};
use super::tf_datatype::TF_DataTypeNumber;
use super::tf_status::TF_Status;
use super::tf_tensor::TF_Tensor;

/// An operation that is being built.
pub struct TF_OperationDescription {
    graph: Arc<SharedGraph>,
    builder: NodeBuilder,
    /// The first thing that was wrong with an argument; the calls have no status to report it by.
    error: Option<Error>,
}

/// Runs a call on a description and keeps its error for `TF_FinishOperation`.
///
/// # Safety
/// `desc` must be null or live.
unsafe fn describe(
    desc: *mut TF_OperationDescription,
    body: impl FnOnce(&mut TF_OperationDescription) -> Result<()>,
) {
    quiet((), || {
        // SAFETY: as the caller promises.
        let desc = unsafe { get_mut(desc, "desc")? };
        if let Err(error) = body(desc) {
            desc.error.get_or_insert(error);
        }
        Ok(())
    });
}

/// Sets an attr to the value that `make` yields.
///
/// # Safety
/// `desc` must be null or live, `attr_name` a NUL-terminated string.
unsafe fn set(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    make: impl FnOnce() -> Result<AttrValue>,
) {
    // SAFETY: as the caller promises.
    unsafe {
        describe(desc, |desc| {
            let name = text(attr_name, "attr_name")?;
            desc.builder.set_attr(name, make()?);
            Ok(())
        });
    }
}

/// Begins to build an operation. The caller finishes it with `TF_FinishOperation`.
///
/// # Safety
/// `graph` must be live, the strings NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_NewOperation(
    graph: *mut TF_Graph,
    op_type: *const c_char,
    oper_name: *const c_char,
) -> *mut TF_OperationDescription {
    quiet(ptr::null_mut(), || {
        // SAFETY: as the caller promises.
        let (graph, op, name) = unsafe {
            (get(graph, "graph")?, text(op_type, "op_type")?, text(oper_name, "oper_name")?)
        };
        Ok(Box::into_raw(Box::new(TF_OperationDescription {
            graph: graph.shared.clone(),
            builder: NodeBuilder::new(op, name),
            error: None,
        })))
    })
}

/// As `TF_NewOperation`: a description takes no lock.
///
/// # Safety
/// As for `TF_NewOperation`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_NewOperationLocked(
    graph: *mut TF_Graph,
    op_type: *const c_char,
    oper_name: *const c_char,
) -> *mut TF_OperationDescription {
    // SAFETY: the same contract.
    unsafe { TF_NewOperation(graph, op_type, oper_name) }
}

/// Adds the operation to its graph and deletes the description. On error null is returned and the graph
/// is as before.
///
/// # Safety
/// `desc` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_FinishOperation(
    desc: *mut TF_OperationDescription,
    status: *mut TF_Status,
) -> *mut TF_Operation {
    let body = || {
        if desc.is_null() {
            return Err(invalid!("Argument 'desc' is null"));
        }
        // SAFETY: the caller hands the description over.
        let desc = *unsafe { Box::from_raw(desc) };
        if let Some(error) = desc.error {
            return Err(error);
        }
        let mut graph = desc.graph.lock();
        let id = desc.builder.finish(&mut graph)?;
        Ok(graph.handle(id))
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, ptr::null_mut(), body) }
}

/// As `TF_FinishOperation`.
///
/// # Safety
/// As for `TF_FinishOperation`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_FinishOperationLocked(
    desc: *mut TF_OperationDescription,
    status: *mut TF_Status,
) -> *mut TF_Operation {
    // SAFETY: the same contract.
    unsafe { TF_FinishOperation(desc, status) }
}

/// Requests a device; an empty string requests none.
///
/// # Safety
/// `desc` must be live, `device` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetDevice(desc: *mut TF_OperationDescription, device: *const c_char) {
    // SAFETY: as the caller promises.
    unsafe {
        describe(desc, |desc| {
            desc.builder.set_device(text(device, "device")?);
            Ok(())
        });
    }
}

/// Adds the next input, where the op takes one tensor.
///
/// # Safety
/// `desc` and the operation must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_AddInput(desc: *mut TF_OperationDescription, input: TF_Output) {
    // SAFETY: as the caller promises.
    unsafe {
        describe(desc, |desc| {
            desc.builder.add_input(input.in_graph(&desc.graph)?);
            Ok(())
        });
    }
}

/// Adds the next input, where the op takes a list.
///
/// # Safety
/// `desc` and the operations must be live, `inputs` readable for `num_inputs` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_AddInputList(
    desc: *mut TF_OperationDescription,
    inputs: *const TF_Output,
    num_inputs: c_int,
) {
    // SAFETY: as the caller promises.
    unsafe {
        describe(desc, |desc| {
            let inputs = slice(inputs, count(num_inputs, "num_inputs")?, "inputs")?;
            let outputs = inputs.iter().map(|input| input.in_graph(&desc.graph));
            desc.builder.add_input_list(outputs.collect::<Result<_>>()?);
            Ok(())
        });
    }
}

/// Makes the operation run after `input`.
///
/// # Safety
/// `desc` and the operation must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_AddControlInput(
    desc: *mut TF_OperationDescription,
    input: *mut TF_Operation,
) {
    // SAFETY: as the caller promises.
    unsafe {
        describe(desc, |desc| {
            desc.builder.add_control_input(node_in(input, &desc.graph)?.id);
            Ok(())
        });
    }
}

/// Places the operation on the device of `op`.
///
/// # Safety
/// `desc` and the operation must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ColocateWith(
    desc: *mut TF_OperationDescription,
    op: *mut TF_Operation,
) {
    // SAFETY: as the caller promises.
    unsafe {
        describe(desc, |desc| {
            desc.builder.colocate_with(&node_in(op, &desc.graph)?.name);
            Ok(())
        });
    }
}

/// Sets an attr of type string.
///
/// # Safety
/// `desc` must be live, `value` readable for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrString(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    value: *const c_void,
    length: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        set(desc, attr_name, || Ok(AttrValue::string(slice::<u8>(value.cast(), length, "value")?)));
    }
}

/// The byte strings of an array of pointers and one of lengths.
///
/// # Safety
/// Both arrays must have `num` elements, which describe readable memory.
unsafe fn byte_strings<'a>(
    values: *const *const c_void,
    lengths: *const usize,
    num: c_int,
) -> Result<Vec<&'a [u8]>> {
    // SAFETY: as the caller promises.
    unsafe {
        let num = count(num, "num_values")?;
        let (values, lengths) = (slice(values, num, "values")?, slice(lengths, num, "lengths")?);
        let pairs = values.iter().zip(lengths);
        pairs.map(|(value, &length)| slice(value.cast(), length, "values")).collect()
    }
}

/// Sets an attr of type list(string).
///
/// # Safety
/// `desc` must be live; the arrays must have `num_values` elements that describe readable memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrStringList(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    values: *const *const c_void,
    lengths: *const usize,
    num_values: c_int,
) {
    // SAFETY: as the caller promises.
    unsafe {
        set(desc, attr_name, || Ok(AttrValue::strings(byte_strings(values, lengths, num_values)?)));
    }
}

/// Sets an attr of type int.
///
/// # Safety
/// `desc` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrInt(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    value: i64,
) {
    // SAFETY: as the caller promises.
    unsafe { set(desc, attr_name, || Ok(AttrValue::Int(value))) };
}

/// A list attr from an array.
///
/// # Safety
/// `values` must be readable for `num` elements.
unsafe fn list<T: Copy, V>(
    values: *const T,
    num: c_int,
    convert: impl Fn(T) -> Result<V>,
    wrap: impl FnOnce(Vec<V>) -> AttrList,
) -> Result<AttrValue> {
    // SAFETY: as the caller promises.
    let values = unsafe { slice(values, count(num, "num_values")?, "values")? };
    Ok(AttrValue::list(wrap(values.iter().map(|&value| convert(value)).collect::<Result<_>>()?)))
}

/// Sets an attr of type list(int).
///
/// # Safety
/// `desc` must be live, `values` readable for `num_values` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrIntList(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    values: *const i64,
    num_values: c_int,
) {
    // SAFETY: as the caller promises.
    unsafe { set(desc, attr_name, || list(values, num_values, Ok, AttrList::Int)) };
}

/// Sets an attr of type float.
///
/// # Safety
/// `desc` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrFloat(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    value: f32,
) {
    // SAFETY: as the caller promises.
    unsafe { set(desc, attr_name, || Ok(AttrValue::Float(value))) };
}

/// Sets an attr of type list(float).
///
/// # Safety
/// `desc` must be live, `values` readable for `num_values` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrFloatList(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    values: *const f32,
    num_values: c_int,
) {
    // SAFETY: as the caller promises.
    unsafe { set(desc, attr_name, || list(values, num_values, Ok, AttrList::Float)) };
}

/// Sets an attr of type bool; any value but 0 is true.
///
/// # Safety
/// `desc` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrBool(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    value: u8,
) {
    // SAFETY: as the caller promises.
    unsafe { set(desc, attr_name, || Ok(AttrValue::Bool(value != 0))) };
}

/// Sets an attr of type list(bool).
///
/// # Safety
/// `desc` must be live, `values` readable for `num_values` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrBoolList(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    values: *const u8,
    num_values: c_int,
) {
    // SAFETY: as the caller promises.
    unsafe { set(desc, attr_name, || list(values, num_values, |v| Ok(v != 0), AttrList::Bool)) };
}

/// Sets an attr of type type.
///
/// # Safety
/// `desc` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrType(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    value: TF_DataTypeNumber,
) {
    // SAFETY: as the caller promises.
    unsafe { set(desc, attr_name, || value.dtype().map(AttrValue::Type)) };
}

/// Sets an attr of type list(type).
///
/// # Safety
/// `desc` must be live, `values` readable for `num_values` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrTypeList(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    values: *const TF_DataTypeNumber,
    num_values: c_int,
) {
    // SAFETY: as the caller promises.
    unsafe {
        set(desc, attr_name, || list(values, num_values, TF_DataTypeNumber::dtype, AttrList::Type));
    }
}

/// Sets an attr to the value of the attr `placeholder` of the function around the operation.
///
/// # Safety
/// `desc` must be live, the strings NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrPlaceholder(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    placeholder: *const c_char,
) {
    // SAFETY: as the caller promises.
    unsafe {
        set(desc, attr_name, || {
            Ok(AttrValue::Placeholder(text(placeholder, "placeholder")?.as_ref().into()))
        });
    }
}

/// Sets an attr of type func to a function without attrs of its own.
///
/// # Safety
/// `desc` must be live, `value` readable for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrFuncName(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    value: *const c_char,
    length: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        set(desc, attr_name, || {
            let name = String::from_utf8_lossy(slice(value.cast(), length, "value")?);
            Ok(AttrValue::func(name, Attrs::new()))
        });
    }
}

/// Sets an attr of type shape: -1 for an unknown dimension, `num_dims` -1 for an unknown rank.
///
/// # Safety
/// `desc` must be live, `dims` readable for `num_dims` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrShape(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    dims: *const i64,
    num_dims: c_int,
) {
    // SAFETY: as the caller promises.
    unsafe { set(desc, attr_name, || Ok(AttrValue::shape(partial_shape(dims, num_dims)?))) };
}

/// Sets an attr of type list(shape).
///
/// # Safety
/// `desc` must be live; the arrays must have `num_shapes` elements, and each shape its dimensions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrShapeList(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    dims: *const *const i64,
    num_dims: *const c_int,
    num_shapes: c_int,
) {
    // SAFETY: as the caller promises.
    unsafe {
        set(desc, attr_name, || {
            let num = count(num_shapes, "num_shapes")?;
            let pairs = slice(dims, num, "dims")?.iter().zip(slice(num_dims, num, "num_dims")?);
            let shapes = pairs.map(|(&dims, &rank)| partial_shape(dims, rank));
            Ok(AttrValue::list(AttrList::Shape(shapes.collect::<Result<_>>()?)))
        });
    }
}

/// Sets an attr of type shape to a serialised `TensorShapeProto`. On error the description stays as it was.
///
/// # Safety
/// `desc` must be live, `proto` readable for `proto_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrTensorShapeProto(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    proto: *const c_void,
    proto_len: usize,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (desc, name, bytes) = unsafe {
            let bytes = slice::<u8>(proto.cast(), proto_len, "proto")?;
            (get_mut(desc, "desc")?, text(attr_name, "attr_name")?, bytes)
        };
        let message =
            tfcore_proto::decode(bytes).map_err(|_| invalid!("Unparseable TensorShapeProto"))?;
        desc.builder.set_attr(name, AttrValue::shape(shape_from_proto(&message)?));
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Sets an attr of type list(shape) to serialised `TensorShapeProto`s.
///
/// # Safety
/// `desc` must be live; the arrays must have `num_shapes` elements that describe readable memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrTensorShapeProtoList(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    protos: *const *const c_void,
    proto_lens: *const usize,
    num_shapes: c_int,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (desc, name, protos) = unsafe {
            let protos = byte_strings(protos, proto_lens, num_shapes)?;
            (get_mut(desc, "desc")?, text(attr_name, "attr_name")?, protos)
        };
        let parse = |(index, bytes): (usize, &&[u8])| {
            let message = tfcore_proto::decode(bytes)
                .map_err(|_| invalid!("Unparseable TensorShapeProto at index {index}"))?;
            shape_from_proto(&message)
        };
        let shapes = protos.iter().enumerate().map(parse).collect::<Result<_>>()?;
        desc.builder.set_attr(name, AttrValue::list(AttrList::Shape(shapes)));
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Sets an attr of type tensor; the tensor stays the caller's.
///
/// # Safety
/// `desc` and `value` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrTensor(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    value: *mut TF_Tensor,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (desc, name, value) = unsafe {
            (get_mut(desc, "desc")?, text(attr_name, "attr_name")?, get(value, "value")?)
        };
        desc.builder.set_attr(name, AttrValue::tensor(kept(value)?));
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// The tensor for an attribute: a copy of memory that the client may change.
fn kept(value: &TF_Tensor) -> Result<tfcore_tensor::Tensor> {
    value.tensor()?.deep_copy()
}

/// Sets an attr of type list(tensor); the tensors stay the caller's.
///
/// # Safety
/// `desc` and the tensors must be live, `values` readable for `num_values` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrTensorList(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    values: *const *mut TF_Tensor,
    num_values: c_int,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (desc, name, values) = unsafe {
            let values = slice(values, count(num_values, "num_values")?, "values")?;
            (get_mut(desc, "desc")?, text(attr_name, "attr_name")?, values)
        };
        let convert = |&value: &*mut TF_Tensor| {
            // SAFETY: as the caller promises.
            let tensor = kept(unsafe { get(value, "values")? })?;
            Ok(Arc::new(TensorAttr::from(tensor)))
        };
        let tensors = values.iter().map(convert).collect::<Result<_>>()?;
        desc.builder.set_attr(name, AttrValue::list(AttrList::Tensor(tensors)));
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Sets an attr to a serialised `AttrValue`.
///
/// # Safety
/// `desc` must be live, `proto` readable for `proto_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttrValueProto(
    desc: *mut TF_OperationDescription,
    attr_name: *const c_char,
    proto: *const c_void,
    proto_len: usize,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (desc, name, bytes) = unsafe {
            let bytes = slice::<u8>(proto.cast(), proto_len, "proto")?;
            (get_mut(desc, "desc")?, text(attr_name, "attr_name")?, bytes)
        };
        let message =
            tfcore_proto::decode(bytes).map_err(|_| invalid!("Unparseable AttrValue proto"))?;
        desc.builder.set_attr(name, AttrValue::from_proto(message));
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}
