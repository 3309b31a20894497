#ifndef TENSORFLOW_C_C_API_H_
#define TENSORFLOW_C_C_API_H_

#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_attrtype.h"
#include "tensorflow/c/tf_buffer.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"
#include "tensorflow/c/tf_tstring.h"

// A string with its length; it need not end with NUL, and belongs to somebody else.
typedef struct TF_StringView {
  const char *data;
  size_t len;
} TF_StringView;

// How language bindings present ops.
typedef struct TF_ApiDefMap TF_ApiDefMap;

// A session with a graph of its own.
typedef struct TF_DeprecatedSession TF_DeprecatedSession;

// The devices of a session.
typedef struct TF_DeviceList TF_DeviceList;

// A function, apart from any graph.
typedef struct TF_Function TF_Function;

// How a function is made; there is nothing to choose.
typedef struct TF_FunctionOptions TF_FunctionOptions;

// A graph. Sessions keep it alive after the client has deleted it, so that the client's pointer is good as long as its
// sessions are.
typedef struct TF_Graph TF_Graph;

// How a GraphDef is brought into a graph.
typedef struct TF_ImportGraphDefOptions TF_ImportGraphDefOptions;

// What an import hands back. The arrays live as long as this.
typedef struct TF_ImportGraphDefResults TF_ImportGraphDefResults;

// A library that has been loaded.
typedef struct TF_Library TF_Library;

// An operation of a graph; lives as long as the graph.
typedef struct TF_Operation TF_Operation;

// An operation that is being built.
typedef struct TF_OperationDescription TF_OperationDescription;

// A server of a cluster. There is none: `TF_NewServer` makes none.
typedef struct TF_Server TF_Server;

// A session over a graph.
typedef struct TF_Session TF_Session;

// How sessions are made.
typedef struct TF_SessionOptions TF_SessionOptions;

// Output `index` of an operation.
typedef struct TF_Output {
  TF_Operation *oper;
  int index;
} TF_Output;

// Input `index` of an operation.
typedef struct TF_Input {
  TF_Operation *oper;
  int index;
} TF_Input;

// What an attribute is and how much room its value needs.
typedef struct TF_AttrMetadata {
  // 1 for a list, else 0.
  uint8_t is_list;
  // The length of a list, else -1.
  int64_t list_size;
  // The type of the value, or of a list's items.
  TF_AttrType type;
  // Strings: the length, summed over a list. Shapes: the rank (-1 if unknown), summed over a list. Else
  // -1.
  int64_t total_size;
} TF_AttrMetadata;

// A loop that is being put together. The client builds the condition and the body, starting from their inputs, and
// fills in `cond_output`, `body_outputs` and `name`.
typedef struct TF_WhileParams {
  // The number of loop variables.
  int ninputs;
  // The graph of the condition.
  TF_Graph *cond_graph;
  // The loop variables in the condition.
  const TF_Output *cond_inputs;
  // Whether there is another iteration: a scalar bool.
  TF_Output cond_output;
  // The graph of the body.
  TF_Graph *body_graph;
  // The loop variables in the body.
  const TF_Output *body_inputs;
  // The next values of the loop variables.
  TF_Output *body_outputs;
  // What the loop is called; the names of its operations begin with it.
  const char *name;
} TF_WhileParams;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of TensorFlow whose behaviour this library has, as a static string such as
// "2.21.0".
TF_CAPI_EXPORT const char *TF_Version(void);

// Returns a new, empty graph.
TF_CAPI_EXPORT TF_Graph *TF_NewGraph(void);

// Deletes a graph once no session uses it any more; null is allowed.
TF_CAPI_EXPORT void TF_DeleteGraph(TF_Graph *graph);

// Merges a shape into what is known of an output's: -1 for an unknown dimension, `num_dims` -1 for an
// unknown rank, which changes nothing.
TF_CAPI_EXPORT void TF_GraphSetTensorShape(TF_Graph *graph, TF_Output output, const int64_t *dims,
    int num_dims, TF_Status *status);

// Returns the rank of an output, or -1 if it is unknown.
TF_CAPI_EXPORT int TF_GraphGetTensorNumDims(TF_Graph *graph, TF_Output output, TF_Status *status);

// Stores the dimensions of an output, -1 for unknown ones. `num_dims` must be the rank.
TF_CAPI_EXPORT void TF_GraphGetTensorShape(TF_Graph *graph, TF_Output output, int64_t *dims,
    int num_dims, TF_Status *status);

// Returns the operation called `oper_name`, or null.
TF_CAPI_EXPORT TF_Operation *TF_GraphOperationByName(TF_Graph *graph, const char *oper_name);

// Goes through the operations in order of their creation: returns the one at `*pos`, which begins at 0,
// and moves on; null at the end.
TF_CAPI_EXPORT TF_Operation *TF_GraphNextOperation(TF_Graph *graph, size_t *pos);

// Stores the graph as a serialised `GraphDef`.
TF_CAPI_EXPORT void TF_GraphToGraphDef(TF_Graph *graph, TF_Buffer *output_graph_def,
    TF_Status *status);

// Stores the serialised `OpDef` of an op or of a function of the graph.
TF_CAPI_EXPORT void TF_GraphGetOpDef(TF_Graph *graph, const char *op_name, TF_Buffer *output_op_def,
    TF_Status *status);

// Stores the serialised `VersionDef` of the graph.
TF_CAPI_EXPORT void TF_GraphVersions(TF_Graph *graph, TF_Buffer *output_version_def,
    TF_Status *status);

// Begins to build an operation. The caller finishes it with `TF_FinishOperation`.
TF_CAPI_EXPORT TF_OperationDescription *TF_NewOperation(TF_Graph *graph, const char *op_type,
    const char *oper_name);

// As `TF_NewOperation`: a description takes no lock.
TF_CAPI_EXPORT TF_OperationDescription *TF_NewOperationLocked(TF_Graph *graph, const char *op_type,
    const char *oper_name);

// Adds the operation to its graph and deletes the description. On error null is returned and the graph
// is as before.
TF_CAPI_EXPORT TF_Operation *TF_FinishOperation(TF_OperationDescription *desc, TF_Status *status);

// As `TF_FinishOperation`.
TF_CAPI_EXPORT TF_Operation *TF_FinishOperationLocked(TF_OperationDescription *desc,
    TF_Status *status);

// Requests a device; an empty string requests none.
TF_CAPI_EXPORT void TF_SetDevice(TF_OperationDescription *desc, const char *device);

// Adds the next input, where the op takes one tensor.
TF_CAPI_EXPORT void TF_AddInput(TF_OperationDescription *desc, TF_Output input);

// Adds the next input, where the op takes a list.
TF_CAPI_EXPORT void TF_AddInputList(TF_OperationDescription *desc, const TF_Output *inputs,
    int num_inputs);

// Makes the operation run after `input`.
TF_CAPI_EXPORT void TF_AddControlInput(TF_OperationDescription *desc, TF_Operation *input);

// Places the operation on the device of `op`.
TF_CAPI_EXPORT void TF_ColocateWith(TF_OperationDescription *desc, TF_Operation *op);

// Sets an attr of type string.
TF_CAPI_EXPORT void TF_SetAttrString(TF_OperationDescription *desc, const char *attr_name,
    const void *value, size_t length);

// Sets an attr of type list(string).
TF_CAPI_EXPORT void TF_SetAttrStringList(TF_OperationDescription *desc, const char *attr_name,
    const void *const *values, const size_t *lengths, int num_values);

// Sets an attr of type int.
TF_CAPI_EXPORT void TF_SetAttrInt(TF_OperationDescription *desc, const char *attr_name,
    int64_t value);

// Sets an attr of type list(int).
TF_CAPI_EXPORT void TF_SetAttrIntList(TF_OperationDescription *desc, const char *attr_name,
    const int64_t *values, int num_values);

// Sets an attr of type float.
TF_CAPI_EXPORT void TF_SetAttrFloat(TF_OperationDescription *desc, const char *attr_name,
    float value);

// Sets an attr of type list(float).
TF_CAPI_EXPORT void TF_SetAttrFloatList(TF_OperationDescription *desc, const char *attr_name,
    const float *values, int num_values);

// Sets an attr of type bool; any value but 0 is true.
TF_CAPI_EXPORT void TF_SetAttrBool(TF_OperationDescription *desc, const char *attr_name,
    uint8_t value);

// Sets an attr of type list(bool).
TF_CAPI_EXPORT void TF_SetAttrBoolList(TF_OperationDescription *desc, const char *attr_name,
    const uint8_t *values, int num_values);

// Sets an attr of type type.
TF_CAPI_EXPORT void TF_SetAttrType(TF_OperationDescription *desc, const char *attr_name,
    TF_DataType value);

// Sets an attr of type list(type).
TF_CAPI_EXPORT void TF_SetAttrTypeList(TF_OperationDescription *desc, const char *attr_name,
    const TF_DataType *values, int num_values);

// Sets an attr to the value of the attr `placeholder` of the function around the operation.
TF_CAPI_EXPORT void TF_SetAttrPlaceholder(TF_OperationDescription *desc, const char *attr_name,
    const char *placeholder);

// Sets an attr of type func to a function without attrs of its own.
TF_CAPI_EXPORT void TF_SetAttrFuncName(TF_OperationDescription *desc, const char *attr_name,
    const char *value, size_t length);

// Sets an attr of type shape: -1 for an unknown dimension, `num_dims` -1 for an unknown rank.
TF_CAPI_EXPORT void TF_SetAttrShape(TF_OperationDescription *desc, const char *attr_name,
    const int64_t *dims, int num_dims);

// Sets an attr of type list(shape).
TF_CAPI_EXPORT void TF_SetAttrShapeList(TF_OperationDescription *desc, const char *attr_name,
    const int64_t *const *dims, const int *num_dims, int num_shapes);

// Sets an attr of type shape to a serialised `TensorShapeProto`. On error the description stays as it was.
TF_CAPI_EXPORT void TF_SetAttrTensorShapeProto(TF_OperationDescription *desc, const char *attr_name,
    const void *proto, size_t proto_len, TF_Status *status);

// Sets an attr of type list(shape) to serialised `TensorShapeProto`s.
TF_CAPI_EXPORT void TF_SetAttrTensorShapeProtoList(TF_OperationDescription *desc,
    const char *attr_name, const void *const *protos, const size_t *proto_lens, int num_shapes,
    TF_Status *status);

// Sets an attr of type tensor; the tensor stays the caller's.
TF_CAPI_EXPORT void TF_SetAttrTensor(TF_OperationDescription *desc, const char *attr_name,
    TF_Tensor *value, TF_Status *status);

// Sets an attr of type list(tensor); the tensors stay the caller's.
TF_CAPI_EXPORT void TF_SetAttrTensorList(TF_OperationDescription *desc, const char *attr_name,
    TF_Tensor *const *values, int num_values, TF_Status *status);

// Sets an attr to a serialised `AttrValue`.
TF_CAPI_EXPORT void TF_SetAttrValueProto(TF_OperationDescription *desc, const char *attr_name,
    const void *proto, size_t proto_len, TF_Status *status);

// Returns the name, which lives as long as the graph.
TF_CAPI_EXPORT const char *TF_OperationName(TF_Operation *oper);

// Returns the name of the op, which lives as long as the graph.
TF_CAPI_EXPORT const char *TF_OperationOpType(TF_Operation *oper);

// Returns the requested device, empty for none; it lives as long as the graph.
TF_CAPI_EXPORT const char *TF_OperationDevice(TF_Operation *oper);

// Returns the number of outputs.
TF_CAPI_EXPORT int TF_OperationNumOutputs(TF_Operation *oper);

// Returns the type of an output; 0 if there is no such output.
TF_CAPI_EXPORT TF_DataType TF_OperationOutputType(TF_Output oper_out);

// Returns the number of tensors of the output argument `arg_name`; -1 on error.
TF_CAPI_EXPORT int TF_OperationOutputListLength(TF_Operation *oper, const char *arg_name,
    TF_Status *status);

// Returns the number of data inputs.
TF_CAPI_EXPORT int TF_OperationNumInputs(TF_Operation *oper);

// Returns the type that an input expects; 0 if there is no such input.
TF_CAPI_EXPORT TF_DataType TF_OperationInputType(TF_Input oper_in);

// Returns the number of tensors of the input argument `arg_name`; -1 on error.
TF_CAPI_EXPORT int TF_OperationInputListLength(TF_Operation *oper, const char *arg_name,
    TF_Status *status);

// Returns the output that feeds an input.
TF_CAPI_EXPORT TF_Output TF_OperationInput(TF_Input oper_in);

// Stores the outputs that feed the first `max_inputs` inputs.
TF_CAPI_EXPORT void TF_OperationAllInputs(TF_Operation *oper, TF_Output *inputs, int max_inputs);

// Returns the number of inputs that read an output.
TF_CAPI_EXPORT int TF_OperationOutputNumConsumers(TF_Output oper_out);

// Stores the first `max_consumers` inputs that read an output and returns how many there are.
TF_CAPI_EXPORT int TF_OperationOutputConsumers(TF_Output oper_out, TF_Input *consumers,
    int max_consumers);

// Returns the number of control inputs.
TF_CAPI_EXPORT int TF_OperationNumControlInputs(TF_Operation *oper);

// Stores the first `max_control_inputs` control inputs and returns how many there are.
TF_CAPI_EXPORT int TF_OperationGetControlInputs(TF_Operation *oper, TF_Operation **control_inputs,
    int max_control_inputs);

// Returns the number of operations that have this one as a control input.
TF_CAPI_EXPORT int TF_OperationNumControlOutputs(TF_Operation *oper);

// Stores the first `max_control_outputs` operations that have this one as a control input and
// returns how many there are.
TF_CAPI_EXPORT int TF_OperationGetControlOutputs(TF_Operation *oper, TF_Operation **control_outputs,
    int max_control_outputs);

// Stores the operation as a serialised `NodeDef`.
TF_CAPI_EXPORT void TF_OperationToNodeDef(TF_Operation *oper, TF_Buffer *output_node_def,
    TF_Status *status);

// Returns what an attribute is and how much room its value needs.
TF_CAPI_EXPORT TF_AttrMetadata TF_OperationGetAttrMetadata(TF_Operation *oper,
    const char *attr_name, TF_Status *status);

// Copies at most `max_length` bytes of a string attr, without a terminator.
TF_CAPI_EXPORT void TF_OperationGetAttrString(TF_Operation *oper, const char *attr_name,
    void *value, size_t max_length, TF_Status *status);

// Copies the strings of a list one behind the other into `storage` and stores where each is.
TF_CAPI_EXPORT void TF_OperationGetAttrStringList(TF_Operation *oper, const char *attr_name,
    void **values, size_t *lengths, int max_values, void *storage, size_t storage_size,
    TF_Status *status);

// Stores an int attr.
TF_CAPI_EXPORT void TF_OperationGetAttrInt(TF_Operation *oper, const char *attr_name,
    int64_t *value, TF_Status *status);

// Stores the first `max_values` items of a list(int) attr.
TF_CAPI_EXPORT void TF_OperationGetAttrIntList(TF_Operation *oper, const char *attr_name,
    int64_t *values, int max_values, TF_Status *status);

// Stores a float attr.
TF_CAPI_EXPORT void TF_OperationGetAttrFloat(TF_Operation *oper, const char *attr_name,
    float *value, TF_Status *status);

// Stores the first `max_values` items of a list(float) attr.
TF_CAPI_EXPORT void TF_OperationGetAttrFloatList(TF_Operation *oper, const char *attr_name,
    float *values, int max_values, TF_Status *status);

// Stores a bool attr.
TF_CAPI_EXPORT void TF_OperationGetAttrBool(TF_Operation *oper, const char *attr_name,
    uint8_t *value, TF_Status *status);

// Stores the first `max_values` items of a list(bool) attr.
TF_CAPI_EXPORT void TF_OperationGetAttrBoolList(TF_Operation *oper, const char *attr_name,
    uint8_t *values, int max_values, TF_Status *status);

// Stores a type attr.
TF_CAPI_EXPORT void TF_OperationGetAttrType(TF_Operation *oper, const char *attr_name,
    TF_DataType *value, TF_Status *status);

// Stores the first `max_values` items of a list(type) attr.
TF_CAPI_EXPORT void TF_OperationGetAttrTypeList(TF_Operation *oper, const char *attr_name,
    TF_DataType *values, int max_values, TF_Status *status);

// Stores the first `num_dims` dimensions of a shape attr, -1 for unknown ones.
TF_CAPI_EXPORT void TF_OperationGetAttrShape(TF_Operation *oper, const char *attr_name,
    int64_t *value, int num_dims, TF_Status *status);

// Stores the shapes of a list one behind the other in `storage`, where each is, and each rank, -1 for an
// unknown one.
TF_CAPI_EXPORT void TF_OperationGetAttrShapeList(TF_Operation *oper, const char *attr_name,
    int64_t **dims, int *num_dims, int num_shapes, int64_t *storage, int storage_size,
    TF_Status *status);

// Stores a shape attr as a serialised `TensorShapeProto`.
TF_CAPI_EXPORT void TF_OperationGetAttrTensorShapeProto(TF_Operation *oper, const char *attr_name,
    TF_Buffer *value, TF_Status *status);

// Stores the first `max_values` items of a list(shape) attr as new buffers, which the caller deletes.
TF_CAPI_EXPORT void TF_OperationGetAttrTensorShapeProtoList(TF_Operation *oper,
    const char *attr_name, TF_Buffer **values, int max_values, TF_Status *status);

// Stores a tensor attr as a new tensor with memory of its own, which the caller deletes.
TF_CAPI_EXPORT void TF_OperationGetAttrTensor(TF_Operation *oper, const char *attr_name,
    TF_Tensor **value, TF_Status *status);

// Stores the first `max_values` items of a list(tensor) attr as new tensors with memory of their own, which the
// caller deletes.
TF_CAPI_EXPORT void TF_OperationGetAttrTensorList(TF_Operation *oper, const char *attr_name,
    TF_Tensor **values, int max_values, TF_Status *status);

// Stores an attr as a serialised `AttrValue`.
TF_CAPI_EXPORT void TF_OperationGetAttrValueProto(TF_Operation *oper, const char *attr_name,
    TF_Buffer *output_attr_value, TF_Status *status);

// Returns the number of attributes.
TF_CAPI_EXPORT int TF_OperationGetNumAttrs(TF_Operation *oper);

// Returns the length of the name of attribute `i`, without a terminator; -1 if there is none.
TF_CAPI_EXPORT int TF_OperationGetAttrNameLength(TF_Operation *oper, int i);

// Copies the name of attribute `i` with a terminator.
TF_CAPI_EXPORT void TF_OperationGetAttrName(TF_Operation *oper, int i, char *output,
    TF_Status *status);

// Adds an input behind the last one of a While, whose attr `T` must have been given room for it.
//
// Reports `TF_INTERNAL` for an operation of another type, `TF_OUT_OF_RANGE` if there is no such output, and
// `TF_INVALID_ARGUMENT` if `T` leaves no room.
TF_CAPI_EXPORT void TF_AddWhileInputHack(TF_Graph *graph, TF_Output new_src, TF_Operation *dst,
    TF_Status *status);

// Makes `new_src` feed an input, in place of the output that does. The types are checked when a session takes the
// operation in, and so is that no cycle is closed.
//
// Reports `TF_OUT_OF_RANGE` if there is no such output or input, and `TF_INVALID_ARGUMENT` if the shapes contradict
// each other; the edge is then as it was.
TF_CAPI_EXPORT void TF_UpdateEdge(TF_Graph *graph, TF_Output new_src, TF_Input dst,
    TF_Status *status);

// Makes `op` run after `input`.
TF_CAPI_EXPORT void TF_AddOperationControlInput(TF_Graph *graph, TF_Operation *op,
    TF_Operation *input);

// Removes all control inputs of `op`.
TF_CAPI_EXPORT void TF_RemoveAllControlInputs(TF_Graph *graph, TF_Operation *op);

// Sets an attr of `op` to a serialised `AttrValue`. Whether the op declares such an attr is not checked; the types of
// inputs and outputs follow.
TF_CAPI_EXPORT void TF_SetAttr(TF_Graph *graph, TF_Operation *op, const char *attr_name,
    TF_Buffer *attr_value_proto, TF_Status *status);

// Removes an attr of `op`; one that it does not have is no error.
TF_CAPI_EXPORT void TF_ClearAttr(TF_Graph *graph, TF_Operation *op, const char *attr_name,
    TF_Status *status);

// Sets the full type of `op` to a serialised `FullTypeDef`; to an empty one, if the bytes are none.
TF_CAPI_EXPORT void TF_SetFullType(TF_Graph *graph, TF_Operation *op,
    const TF_Buffer *full_type_proto);

// Requests a device for `op`; an empty name requests none. The name is checked when a session places the operation.
TF_CAPI_EXPORT void TF_SetRequestedDevice(TF_Graph *graph, TF_Operation *op, const char *device);

// Sets whether operations that are added from now on must have a shape function, as they must by default.
TF_CAPI_EXPORT void TF_SetRequireShapeInferenceFns(TF_Graph *graph, bool require);

// Computes an output that depends on constants and static shapes only. Returns 1 and stores its value, for the caller
// to delete, or 0 and null if it cannot be told before a run; that is no error.
TF_CAPI_EXPORT uint8_t TF_TryEvaluateConstant(TF_Graph *graph, TF_Output output, TF_Tensor **result,
    TF_Status *status);

// Returns what is known of the values behind a resource handle, as a serialised
// `CppShapeInferenceResult.HandleData` for the caller to delete; null if nothing is, or there is no such output.
TF_CAPI_EXPORT TF_Buffer *TF_GetHandleShapeAndType(TF_Graph *graph, TF_Output output);

// Sets what is known of the values behind a resource handle to a serialised `CppShapeInferenceResult.HandleData`.
TF_CAPI_EXPORT void TF_SetHandleShapeAndType(TF_Graph *graph, TF_Output output, const void *proto,
    size_t proto_len, TF_Status *status);

// Returns options without any effect.
TF_CAPI_EXPORT TF_ImportGraphDefOptions *TF_NewImportGraphDefOptions(void);

// Deletes options; null is allowed.
TF_CAPI_EXPORT void TF_DeleteImportGraphDefOptions(TF_ImportGraphDefOptions *opts);

// Puts `prefix` and a slash before every imported name.
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsSetPrefix(TF_ImportGraphDefOptions *opts,
    const char *prefix);

// Sets the device of operations that request none.
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsSetDefaultDevice(TF_ImportGraphDefOptions *opts,
    const char *device);

// Whether names that are taken are given a number, rather than refused.
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsSetUniquifyNames(TF_ImportGraphDefOptions *opts,
    uint8_t uniquify_names);

// Whether a prefix that is taken is given a number.
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsSetUniquifyPrefix(TF_ImportGraphDefOptions *opts,
    uint8_t uniquify_prefix);

// Makes inputs `src_name:src_index` of the GraphDef read `dst` of the graph instead.
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsAddInputMapping(TF_ImportGraphDefOptions *opts,
    const char *src_name, int src_index, TF_Output dst);

// Makes control inputs `^src_name` of the GraphDef depend on `dst` of the graph instead.
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsRemapControlDependency(TF_ImportGraphDefOptions *opts,
    const char *src_name, TF_Operation *dst);

// Makes all imported operations run after `oper`.
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsAddControlDependency(TF_ImportGraphDefOptions *opts,
    TF_Operation *oper);

// Asks for the output `oper_name:index` of the GraphDef as it is after the import.
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsAddReturnOutput(TF_ImportGraphDefOptions *opts,
    const char *oper_name, int index);

// Returns how many outputs have been asked for.
TF_CAPI_EXPORT int TF_ImportGraphDefOptionsNumReturnOutputs(const TF_ImportGraphDefOptions *opts);

// Asks for the operation `oper_name` of the GraphDef as it is after the import.
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsAddReturnOperation(TF_ImportGraphDefOptions *opts,
    const char *oper_name);

// Returns how many operations have been asked for.
TF_CAPI_EXPORT int TF_ImportGraphDefOptionsNumReturnOperations(const TF_ImportGraphDefOptions *opts);

// Stores the outputs that were asked for, in order.
TF_CAPI_EXPORT void TF_ImportGraphDefResultsReturnOutputs(TF_ImportGraphDefResults *results,
    int *num_outputs, TF_Output **outputs);

// Stores the operations that were asked for, in order.
TF_CAPI_EXPORT void TF_ImportGraphDefResultsReturnOperations(TF_ImportGraphDefResults *results,
    int *num_opers, TF_Operation ***opers);

// Stores the keys of input mappings that were not used and name nothing in the GraphDef.
TF_CAPI_EXPORT void TF_ImportGraphDefResultsMissingUnusedInputMappings(TF_ImportGraphDefResults *results,
    int *num_missing_unused_input_mappings, const char ***src_names, int **src_indexes);

// Deletes results with their arrays; null is allowed.
TF_CAPI_EXPORT void TF_DeleteImportGraphDefResults(TF_ImportGraphDefResults *results);

// Imports a serialised GraphDef and returns what the options ask for; null on error, and the graph is as
// before.
TF_CAPI_EXPORT TF_ImportGraphDefResults *TF_GraphImportGraphDefWithResults(TF_Graph *graph,
    const TF_Buffer *graph_def, const TF_ImportGraphDefOptions *options, TF_Status *status);

// Not available: the buffer would hold a C++ object. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT TF_ImportGraphDefResults *TF_GraphImportGraphDefWithResultsNoSerialization(TF_Graph *_graph,
    const TF_Buffer *_graph_def, const TF_ImportGraphDefOptions *_options, TF_Status *status);

// Imports a serialised GraphDef and stores the outputs that the options ask for.
TF_CAPI_EXPORT void TF_GraphImportGraphDefWithReturnOutputs(TF_Graph *graph,
    const TF_Buffer *graph_def, const TF_ImportGraphDefOptions *options, TF_Output *return_outputs,
    int num_return_outputs, TF_Status *status);

// Imports a serialised GraphDef. On error the graph is as before.
TF_CAPI_EXPORT void TF_GraphImportGraphDef(TF_Graph *graph, const TF_Buffer *graph_def,
    const TF_ImportGraphDefOptions *options, TF_Status *status);

// Makes a function of a part of the graph. Returns null on an error.
//
// - `num_opers` is the number of operations in `opers`, which are the body; -1 stands for all operations
//   but those of the inputs.
// - The arguments are named after the operations of `inputs`, and so are the outputs if `output_names` is
//   null. An output that is also an input is passed through.
// - With `append_hash_to_fn_name` the name ends with a hash of the definition.
// - `opts` is not looked at, `description` may be null.
TF_CAPI_EXPORT TF_Function *TF_GraphToFunction(const TF_Graph *fn_body, const char *fn_name,
    unsigned char append_hash_to_fn_name, int num_opers, const TF_Operation *const *opers,
    int ninputs, const TF_Output *inputs, int noutputs, const TF_Output *outputs,
    const char *const *output_names, const TF_FunctionOptions *opts, const char *description,
    TF_Status *status);

// As `TF_GraphToFunction`, with operations of the body that run with every call of the function.
// `control_output_names` may be null; then they keep their names.
TF_CAPI_EXPORT TF_Function *TF_GraphToFunctionWithControlOutputs(const TF_Graph *fn_body,
    const char *fn_name, unsigned char append_hash_to_fn_name, int num_opers,
    const TF_Operation *const *opers, int ninputs, const TF_Output *inputs, int noutputs,
    const TF_Output *outputs, const char *const *output_names, int ncontrol_outputs,
    const TF_Operation *const *control_outputs, const char *const *control_output_names,
    const TF_FunctionOptions *_opts, const char *description, TF_Status *status);

// Returns the name of a function, which lives until the function is changed or deleted.
TF_CAPI_EXPORT const char *TF_FunctionName(TF_Function *func);

// Stores the function as a serialised `FunctionDef`.
TF_CAPI_EXPORT void TF_FunctionToFunctionDef(TF_Function *func, TF_Buffer *output_func_def,
    TF_Status *status);

// Returns the function of a serialised `FunctionDef`, or null on an error. Its body is not looked at.
TF_CAPI_EXPORT TF_Function *TF_FunctionImportFunctionDef(const void *proto, size_t proto_len,
    TF_Status *status);

// Sets or replaces an attribute of the function: a serialised `AttrValue`. Copies of the function in graphs
// stay as they are.
TF_CAPI_EXPORT void TF_FunctionSetAttrValueProto(TF_Function *func, const char *attr_name,
    const void *proto, size_t proto_len, TF_Status *status);

// Stores an attribute of the function as a serialised `AttrValue`.
TF_CAPI_EXPORT void TF_FunctionGetAttrValueProto(TF_Function *func, const char *attr_name,
    TF_Buffer *output_attr_value, TF_Status *status);

// Deletes a function, but not the copies that graphs have; null is allowed.
TF_CAPI_EXPORT void TF_DeleteFunction(TF_Function *func);

// Puts a function, and if `grad` is not null its gradient, into a graph. Operations of the graph can then
// have its name as their type. The same function again changes nothing, a different one of the same
// name is an error; then the graph is as before.
TF_CAPI_EXPORT void TF_GraphCopyFunction(TF_Graph *g, const TF_Function *func,
    const TF_Function *grad, TF_Status *status);

// Returns the number of functions in the graph's library.
TF_CAPI_EXPORT int TF_GraphNumFunctions(TF_Graph *g);

// Stores functions of the graph in `funcs`, at most `max_func`, and returns how many. The caller deletes
// each.
TF_CAPI_EXPORT int TF_GraphGetFunctions(TF_Graph *g, TF_Function **funcs, int max_func,
    TF_Status *status);

// Begins a loop in `g` whose variables begin with `inputs`. Everything is returned filled in but `cond_output`,
// `body_outputs` and `name`. If this succeeds, the client must call `TF_FinishWhile` or `TF_AbortWhile`.
TF_CAPI_EXPORT TF_WhileParams TF_NewWhile(TF_Graph *g, TF_Output *inputs, int ninputs,
    TF_Status *status);

// Adds the loop to the graph that `TF_NewWhile` was given, and stores the values of its variables after the last iteration
// in `outputs`, which has room for `ninputs`. Frees what belongs to `params`, also on an error; then the graph is as it
// was.
TF_CAPI_EXPORT void TF_FinishWhile(const TF_WhileParams *params, TF_Status *status,
    TF_Output *outputs);

// Frees what belongs to `params` without building a loop.
TF_CAPI_EXPORT void TF_AbortWhile(const TF_WhileParams *params);

// Adds operations that compute the derivatives of the sum of `y` by each of `x`, and stores their outputs in `dy`, which
// has room for `nx`; an output without an operation where nothing flows back.
//
// `dx` has the `ny` derivatives by the `y` to begin with, or is null for ones. The operations are named `gradients/...`, in
// later calls `gradients_1/...` and so on. On an error the graph is as it was.
TF_CAPI_EXPORT void TF_AddGradients(TF_Graph *g, TF_Output *y, int ny, TF_Output *x, int nx,
    TF_Output *dx, TF_Status *status, TF_Output *dy);

// As `TF_AddGradients`, with names in the scope `prefix`, which nothing in the graph may use; null for the default.
TF_CAPI_EXPORT void TF_AddGradientsWithPrefix(TF_Graph *g, const char *prefix, TF_Output *y, int ny,
    TF_Output *x, int nx, TF_Output *dx, TF_Status *status, TF_Output *dy);

// Returns options for a session in this process, with the default configuration.
TF_CAPI_EXPORT TF_SessionOptions *TF_NewSessionOptions(void);

// Deletes options; null is allowed.
TF_CAPI_EXPORT void TF_DeleteSessionOptions(TF_SessionOptions *options);

// Sets where sessions run: "" for this process.
TF_CAPI_EXPORT void TF_SetTarget(TF_SessionOptions *options, const char *target);

// Sets the configuration to a serialised `ConfigProto`.
TF_CAPI_EXPORT void TF_SetConfig(TF_SessionOptions *options, const void *proto, size_t proto_len,
    TF_Status *status);

// Returns a session over `graph`, which stays alive as long as the session; null on error.
TF_CAPI_EXPORT TF_Session *TF_NewSession(TF_Graph *graph, const TF_SessionOptions *opts,
    TF_Status *status);

// Loads the SavedModel in the directory `export_dir`: imports the graph that has exactly the given tags into `graph`, which
// must be empty, and returns a session in which its variables are restored and its init op has run. `run_options` is null or
// a serialised `RunOptions` for these runs. Unless `meta_graph_def` is null, it is set to the serialised `MetaGraphDef`.
// Returns null on error; the graph is empty then.
TF_CAPI_EXPORT TF_Session *TF_LoadSessionFromSavedModel(const TF_SessionOptions *session_options,
    const TF_Buffer *run_options, const char *export_dir, const char *const *tags, int tags_len,
    TF_Graph *graph, TF_Buffer *meta_graph_def, TF_Status *status);

// Ends a session: runs in progress are cancelled, and runs that come later fail, both with `TF_CANCELLED`.
// Closing twice is allowed.
TF_CAPI_EXPORT void TF_CloseSession(TF_Session *session, TF_Status *status);

// Deletes a session; null is allowed. Runs must have ended; partial runs may be left.
TF_CAPI_EXPORT void TF_DeleteSession(TF_Session *session, TF_Status *status);

// Takes in the operations that are new in the graph. From then on the session does not do so by
// itself any more.
TF_CAPI_EXPORT void TF_ExtendSession(TF_Session *session, TF_Status *status);

// Runs what the outputs and targets need and stores a new tensor for each output, which the caller deletes.
// On error all of them are null.
//
// `run_options` may be null, else it holds a serialised `RunOptions`. `run_metadata` may be null, else it is
// empty and receives a serialised `RunMetadata`.
TF_CAPI_EXPORT void TF_SessionRun(TF_Session *session, const TF_Buffer *run_options,
    const TF_Output *inputs, TF_Tensor *const *input_values, int ninputs, const TF_Output *outputs,
    TF_Tensor **output_values, int noutputs, const TF_Operation *const *target_opers, int ntargets,
    TF_Buffer *run_metadata, TF_Status *status);

// Announces a partial run: everything that the calls of `TF_SessionPRun` to come will feed and fetch, and the
// operations to run. Stores a handle for these calls, which the caller deletes with
// `TF_DeletePRunHandle`; null on error.
TF_CAPI_EXPORT void TF_SessionPRunSetup(TF_Session *session, const TF_Output *inputs, int ninputs,
    const TF_Output *outputs, int noutputs, const TF_Operation *const *target_opers, int ntargets,
    const char **handle, TF_Status *status);

// Goes on with a partial run: feeds a part of what was announced, waits for another part and stores a new tensor for each
// output, which the caller deletes. On error all of them are null.
//
// A call that feeds or fetches what is not its turn fails and does no harm; any other error ends the partial run. The
// operations to run were said when the run began; those named here are ignored.
TF_CAPI_EXPORT void TF_SessionPRun(TF_Session *session, const char *handle, const TF_Output *inputs,
    TF_Tensor *const *input_values, int ninputs, const TF_Output *outputs,
    TF_Tensor **output_values, int noutputs, const TF_Operation *const *_target_opers,
    int _ntargets, TF_Status *status);

// Deletes the handle of a partial run; null is allowed. The run is not affected.
TF_CAPI_EXPORT void TF_DeletePRunHandle(const char *handle);

// Returns a session with an empty graph, for the caller to delete; null on error.
TF_CAPI_EXPORT TF_DeprecatedSession *TF_NewDeprecatedSession(const TF_SessionOptions *options,
    TF_Status *status);

// Ends a session: runs in progress are cancelled, and runs that come later fail, both with `TF_CANCELLED`.
TF_CAPI_EXPORT void TF_CloseDeprecatedSession(TF_DeprecatedSession *session, TF_Status *status);

// Deletes a session; null is allowed. Runs must have ended; partial runs may be left.
TF_CAPI_EXPORT void TF_DeleteDeprecatedSession(TF_DeprecatedSession *session, TF_Status *status);

// Closes all sessions of the process, also those over graphs, and clears these containers in them: the default one if
// `ncontainers` is 0.
TF_CAPI_EXPORT void TF_Reset(const TF_SessionOptions *opt, const char **containers, int ncontainers,
    TF_Status *status);

// Adds the nodes of a serialised `GraphDef` to the graph of the session. Their inputs may be nodes that are there
// already; their names must be new.
TF_CAPI_EXPORT void TF_ExtendGraph(TF_DeprecatedSession *session, const void *proto,
    size_t proto_len, TF_Status *status);

// As `TF_SessionRun`, with names for tensors (`y` is `y:0`) and operations.
TF_CAPI_EXPORT void TF_Run(TF_DeprecatedSession *session, const TF_Buffer *run_options,
    const char **input_names, TF_Tensor **inputs, int ninputs, const char **output_names,
    TF_Tensor **outputs, int noutputs, const char **target_oper_names, int ntargets,
    TF_Buffer *run_metadata, TF_Status *status);

// As `TF_SessionPRunSetup`, with names.
TF_CAPI_EXPORT void TF_PRunSetup(TF_DeprecatedSession *session, const char **input_names,
    int ninputs, const char **output_names, int noutputs, const char **target_oper_names,
    int ntargets, const char **handle, TF_Status *status);

// As `TF_SessionPRun`, with names: the very ones that were announced.
TF_CAPI_EXPORT void TF_PRun(TF_DeprecatedSession *session, const char *handle,
    const char **input_names, TF_Tensor **inputs, int ninputs, const char **output_names,
    TF_Tensor **outputs, int noutputs, const char **_target_oper_names, int _ntargets,
    TF_Status *status);

// Returns the devices of a session, for the caller to delete.
TF_CAPI_EXPORT TF_DeviceList *TF_SessionListDevices(TF_Session *session, TF_Status *status);

// Returns the devices of a deprecated session, for the caller to delete.
TF_CAPI_EXPORT TF_DeviceList *TF_DeprecatedSessionListDevices(TF_DeprecatedSession *session,
    TF_Status *status);

// Deletes a list; null is allowed.
TF_CAPI_EXPORT void TF_DeleteDeviceList(TF_DeviceList *list);

// Returns the number of devices.
TF_CAPI_EXPORT int TF_DeviceListCount(const TF_DeviceList *list);

// Returns the full name of a device, which lives as long as the list; null on error.
TF_CAPI_EXPORT const char *TF_DeviceListName(const TF_DeviceList *list, int index,
    TF_Status *status);

// Returns the type of a device, such as "CPU", which lives as long as the list; null on error.
TF_CAPI_EXPORT const char *TF_DeviceListType(const TF_DeviceList *list, int index,
    TF_Status *status);

// Returns the memory of a device in bytes; -1 on error.
TF_CAPI_EXPORT int64_t TF_DeviceListMemoryBytes(const TF_DeviceList *list, int index,
    TF_Status *status);

// Returns a number that tells this device from those of other sessions; 0 on error.
TF_CAPI_EXPORT uint64_t TF_DeviceListIncarnation(const TF_DeviceList *list, int index,
    TF_Status *status);

// Returns the definitions of all ops as a serialised `OpList`, for the caller to delete.
TF_CAPI_EXPORT TF_Buffer *TF_GetAllOpList(void);

// Returns a map with what the ops of a serialised `OpList` imply, for the caller to delete; null on error.
TF_CAPI_EXPORT TF_ApiDefMap *TF_NewApiDefMap(TF_Buffer *op_list_buffer, TF_Status *status);

// Deletes a map; null is allowed.
TF_CAPI_EXPORT void TF_DeleteApiDefMap(TF_ApiDefMap *apimap);

// Overrides definitions with the `ApiDefs` in `text`, which is in the text format of protocol buffers; a string may also
// stand on lines of its own, from `<<END` to `END`. Ops that the map lacks are skipped.
//
// After `TF_ApiDefMapGet` the map cannot be changed: `TF_FAILED_PRECONDITION`.
TF_CAPI_EXPORT void TF_ApiDefMapPut(TF_ApiDefMap *api_def_map, const char *text, size_t text_len,
    TF_Status *status);

// Returns the serialised `ApiDef` of an op, for the caller to delete; null, without an error, if the map lacks it.
TF_CAPI_EXPORT TF_Buffer *TF_ApiDefMapGet(TF_ApiDefMap *api_def_map, const char *name,
    size_t name_len, TF_Status *status);

// Returns all kernels as a serialised `KernelList`, for the caller to delete.
TF_CAPI_EXPORT TF_Buffer *TF_GetAllRegisteredKernels(TF_Status *status);

// Returns the kernels of an op as a serialised `KernelList`, for the caller to delete; an empty one if it has none.
TF_CAPI_EXPORT TF_Buffer *TF_GetRegisteredKernelsForOp(const char *name, TF_Status *status);

// Adds a function that gets what ops such as PrintV2 print, each text whole and with its line end, instead of the streams
// of the process. Each listener hears everything, for the rest of the process.
TF_CAPI_EXPORT void TF_RegisterLogListener(void (*listener)(const char*));

// Loads a shared library, whose constructors register ops and kernels. Returns a handle for the caller to delete; null on
// error. A library is loaded once; it stays loaded until the process ends.
//
// Reports `TF_NOT_FOUND` if there is no such file, or if a symbol that it needs is missing.
TF_CAPI_EXPORT TF_Library *TF_LoadLibrary(const char *library_filename, TF_Status *status);

// Returns the ops that the library has registered, a serialised `OpList`. The bytes live as long as the handle.
TF_CAPI_EXPORT TF_Buffer TF_GetOpList(TF_Library *lib_handle);

// Deletes a handle; null is allowed. The library stays loaded.
TF_CAPI_EXPORT void TF_DeleteLibraryHandle(TF_Library *lib_handle);

// Not available. Reports `TF_UNIMPLEMENTED` and returns null.
TF_CAPI_EXPORT TF_Server *TF_NewServer(const void *proto, size_t proto_len, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_ServerStart(TF_Server *server, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_ServerStop(TF_Server *server, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_ServerJoin(TF_Server *server, TF_Status *status);

// Returns an empty string: there are no servers.
TF_CAPI_EXPORT const char *TF_ServerTarget(TF_Server *server);

// Deletes a server; null is allowed.
TF_CAPI_EXPORT void TF_DeleteServer(TF_Server *server);

// Loads a plug-in and registers its file systems, each for its scheme. Reports `TF_NOT_FOUND` if there is no such library or
// it has no `TF_InitPlugin`, `TF_ALREADY_EXISTS` for a scheme that has a file system, and `TF_FAILED_PRECONDITION` for tables
// of another version.
TF_CAPI_EXPORT void TF_RegisterFilesystemPlugin(const char *plugin_filename, TF_Status *status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_C_API_H_ */
