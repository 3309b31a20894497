//! Field numbers and wire types against a short table of published facts, message by message.

use tfcore_proto::*;

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

/// Field number and wire type of the first field of an encoded message.
fn first_key(message: &impl Message) -> (u64, u8) {
    let mut key = 0;
    for (i, byte) in message.encode_to_vec().into_iter().enumerate() {
        key |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            break;
        }
    }
    (key >> 3, (key & 7) as u8)
}

macro_rules! facts {
    ($($message:path, $field:ident = $value:expr, $number:literal, $wire:ident;)*) => {
        [$((
            concat!(stringify!($message), ".", stringify!($field)),
            first_key(&{
                let mut message = <$message>::default();
                message.$field = $value;
                message
            }),
            ($number, $wire),
        )),*]
    };
}

fn some<M: Default>() -> Option<M> {
    Some(M::default())
}

fn one<M: Default>() -> Vec<M> {
    vec![M::default()]
}

#[test]
fn fields_have_the_published_numbers() {
    use std::iter::once;
    let facts = facts! {
        GraphDef, node = one(), 1, BYTES;
        GraphDef, library = some(), 2, BYTES;
        GraphDef, version = 9, 3, VARINT;
        GraphDef, versions = some(), 4, BYTES;
        NodeDef, name = "n".into(), 1, BYTES;
        NodeDef, input = one(), 3, BYTES;
        NodeDef, attr = once(Default::default()).collect(), 5, BYTES;
        NodeDef, experimental_debug_info = some(), 6, BYTES;
        NodeDef, experimental_type = some(), 7, BYTES;
        AttrValue, value = Some(attr_value::Value::List(Default::default())), 1, BYTES;
        AttrValue, value = Some(attr_value::Value::F(0.0)), 4, FIXED32;
        AttrValue, value = Some(attr_value::Value::Type(0)), 6, VARINT;
        AttrValue, value = Some(attr_value::Value::Func(Default::default())), 10, BYTES;
        attr_value::ListValue, s = one(), 2, BYTES;
        attr_value::ListValue, func = one(), 9, BYTES;
        FunctionDef, node_def = one(), 3, BYTES;
        FunctionDef, control_ret = once(Default::default()).collect(), 6, BYTES;
        FunctionDef, resource_arg_unique_id = once(Default::default()).collect(), 8, BYTES;
        FunctionDefLibrary, registered_gradients = one(), 3, BYTES;
        OpDef, deprecation = some(), 8, BYTES;
        OpDef, is_aggregate = true, 16, VARINT;
        OpDef, is_commutative = true, 18, VARINT;
        OpDef, is_distributed_communication = true, 21, VARINT;
        op_def::ArgDef, is_ref = true, 16, VARINT;
        op_def::ArgDef, experimental_full_type = some(), 17, BYTES;
        op_def::AttrDef, allowed_values = some(), 7, BYTES;
        TensorProto, tensor_content = "x".into(), 4, BYTES;
        TensorProto, half_val = one(), 13, BYTES;
        TensorProto, uint64_val = one(), 17, BYTES;
        TensorProto, float8_val = "x".into(), 18, BYTES;
        TensorShapeProto, dim = one(), 2, BYTES;
        TensorShapeProto, unknown_rank = true, 3, VARINT;
        ResourceHandleProto, dtypes_and_shapes = one(), 6, BYTES;
        cpp_shape_inference_result::HandleData, shape_and_type = one(), 2, BYTES;
        cpp_shape_inference_result::HandleShapeAndType, r#type = some(), 4, BYTES;
        ConfigProto, graph_options = some(), 10, BYTES;
        ConfigProto, session_inter_op_thread_pool = one(), 12, BYTES;
        ConfigProto, experimental = some(), 16, BYTES;
        config_proto::Experimental, executor_type = "x".into(), 3, BYTES;
        GPUOptions, per_process_gpu_memory_fraction = 0.5, 1, FIXED64;
        GraphOptions, rewrite_options = some(), 10, BYTES;
        RewriterConfig, cpu_layout_conversion = 1, 50, VARINT;
        RewriterConfig, custom_optimizers = one(), 200, BYTES;
        RunOptions, output_partition_graphs = true, 5, VARINT;
        RunMetadata, partition_graphs = one(), 3, BYTES;
        NodeExecStats, scheduled_nanos = 1, 17, VARINT;
        DeviceAttributes, incarnation = 1, 6, FIXED64;
        KernelDef, priority = 1, 6, VARINT;
        SavedModel, meta_graphs = one(), 2, BYTES;
        MetaGraphDef, signature_def = once(Default::default()).collect(), 5, BYTES;
        MetaGraphDef, object_graph_def = "x".into(), 7, BYTES;
        TensorInfo, encoding = Some(tensor_info::Encoding::CooSparse(Default::default())), 4, BYTES;
        BundleEntryProto, crc32c = 1, 6, FIXED32;
        BundleEntryProto, slices = one(), 7, BYTES;
        ServerDef, cluster_device_filters = some(), 7, BYTES;
    };
    for (field, found, published) in facts {
        assert_eq!(found, published, "{field}");
    }
}
