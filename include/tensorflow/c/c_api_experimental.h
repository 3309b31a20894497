#ifndef TENSORFLOW_C_C_API_EXPERIMENTAL_H_
#define TENSORFLOW_C_C_API_EXPERIMENTAL_H_

#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api.h"



// The attrs of an op that is no operation of any graph.
typedef struct TF_AttrBuilder TF_AttrBuilder;

// An open checkpoint.
typedef struct TF_CheckpointReader TF_CheckpointReader;

// A shape and a type.
typedef struct TF_ShapeAndType {
  // The number of dimensions, -1 for an unknown rank.
  int num_dims;
  // The dimensions, -1 for unknown ones.
  int64_t *dims;
  // The type, 0 for an unknown one.
  TF_DataType dtype;
} TF_ShapeAndType;

// A list of shapes and types.
typedef struct TF_ShapeAndTypeList {
  int num_items;
  TF_ShapeAndType *items;
} TF_ShapeAndTypeList;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns a serialised `ConfigProto` for the caller to delete: whether to compile with XLA, which this library does
// not do, whether a GPU's memory is taken as needed, and the number of CPU devices.
TF_CAPI_EXPORT TF_Buffer *TF_CreateConfig(uint8_t enable_xla_compilation,
    uint8_t gpu_memory_allow_growth, uint32_t num_cpu_devices);

// Returns a serialised `RunOptions` for the caller to delete, with or without a full trace.
TF_CAPI_EXPORT TF_Buffer *TF_CreateRunOptions(uint8_t enable_full_trace);

// Returns the graph as text and stores its length. The caller frees the text with `free`.
TF_CAPI_EXPORT const char *TF_GraphDebugString(TF_Graph *graph, size_t *len);

// Returns the function as text for people and stores its length in `len`. The caller frees it with
// `free`.
TF_CAPI_EXPORT char *TF_FunctionDebugString(TF_Function *func, size_t *len);

// Takes a function out of the graph's library. Operations that call it stay.
//
// # Errors
// `TF_INVALID_ARGUMENT` if there is no function of this name.
TF_CAPI_EXPORT void TF_GraphRemoveFunction(TF_Graph *g, const char *func_name, TF_Status *status);

// Whether operations may be colocated only with operations of the same `GraphDef`, which is so by default.
TF_CAPI_EXPORT void TF_ImportGraphDefOptionsSetValidateColocationConstraints(TF_ImportGraphDefOptions *opts,
    uint8_t enable);

// Sets the status to `TF_INTERNAL` with this message.
TF_CAPI_EXPORT void TF_MakeInternalErrorStatus(TF_Status *status, const char *errMsg);

// Returns the attrs of an op, none set yet.
TF_CAPI_EXPORT TF_AttrBuilder *TF_NewAttrBuilder(const char *op_name);

// Deletes a builder; null is allowed.
TF_CAPI_EXPORT void TF_DeleteAttrBuilder(TF_AttrBuilder *builder);

// Sets a type attr.
TF_CAPI_EXPORT void TF_AttrBuilderSetType(TF_AttrBuilder *builder, const char *attr_name,
    TF_DataType value);

// Sets an attr that is a list of types.
TF_CAPI_EXPORT void TF_AttrBuilderSetTypeList(TF_AttrBuilder *builder, const char *attr_name,
    const TF_DataType *values, int num_values);

// Checks that a device type, such as "CPU", has a kernel for the op with these attrs.
//
// Reports `TF_NOT_FOUND` if it has none, `TF_INVALID_ARGUMENT` if an attr is missing that tells.
TF_CAPI_EXPORT void TF_AttrBuilderCheckCanRunOnDevice(TF_AttrBuilder *builder,
    const char *device_type, TF_Status *status);

// Returns the name of the attr that counts the tensors of an input which is a list of one type, such as "N" of AddN. It
// lives for ever. Null if there is none: `TF_NOT_FOUND`, or `TF_INVALID_ARGUMENT` if the op has no such input.
TF_CAPI_EXPORT const char *TF_GetNumberAttrForOpListInput(const char *op_name, int input_index,
    TF_Status *status);

// Returns 1 if the op has state or side effects, else 0. Reports `TF_NOT_FOUND` for an op that nobody knows.
TF_CAPI_EXPORT int TF_OpIsStateful(const char *op_type, TF_Status *status);

// Opens the checkpoint whose prefix is `filename`, or the files of the older version that match it as a pattern.
// Returns null on error. The caller deletes the reader.
TF_CAPI_EXPORT TF_CheckpointReader *TF_NewCheckpointReader(const char *filename, TF_Status *status);

// Deletes a reader; null is allowed. Tensors that it has read stay.
TF_CAPI_EXPORT void TF_DeleteCheckpointReader(TF_CheckpointReader *reader);

// Returns 1 if there is a tensor of this name, else 0.
TF_CAPI_EXPORT int TF_CheckpointReaderHasTensor(TF_CheckpointReader *reader, const char *name);

// Returns the name of the tensor at `index` in the sorted list of names; it lives as long as the reader. Null if there
// are not so many.
TF_CAPI_EXPORT const char *TF_CheckpointReaderGetVariable(TF_CheckpointReader *reader, int index);

// Returns the number of tensors.
TF_CAPI_EXPORT int TF_CheckpointReaderSize(TF_CheckpointReader *reader);

// Returns the type of a tensor; 0 if there is none of this name.
TF_CAPI_EXPORT TF_DataType TF_CheckpointReaderGetVariableDataType(TF_CheckpointReader *reader,
    const char *name);

// Stores the shape of a tensor in `dims`, which must have room for `num_dims` sizes, the rank.
TF_CAPI_EXPORT void TF_CheckpointReaderGetVariableShape(TF_CheckpointReader *reader,
    const char *name, int64_t *dims, int num_dims, TF_Status *status);

// Returns the rank of a tensor; -1 if there is none of this name.
TF_CAPI_EXPORT int TF_CheckpointReaderGetVariableNumDims(TF_CheckpointReader *reader,
    const char *name);

// Reads a tensor. Returns null on error. The caller deletes the tensor.
TF_CAPI_EXPORT TF_Tensor *TF_CheckpointReaderGetTensor(TF_CheckpointReader *reader,
    const char *name, TF_Status *status);

// Sets `global_jit_level` of the configuration to `ON_1`, and the switch of `TF_SetTfXlaCpuGlobalJit` with it, or to
// `OFF`.
TF_CAPI_EXPORT void TF_EnableXLACompilation(TF_SessionOptions *options, uint8_t enable);

// Sets a switch and returns its former value.
TF_CAPI_EXPORT uint8_t TF_SetXlaEnableLazyCompilation(uint8_t enable);

// Sets a switch and returns its former value.
TF_CAPI_EXPORT uint8_t TF_SetTfXlaCpuGlobalJit(uint8_t enable);

// Sets the level at which nodes are compiled: a number, `single-gpu(number)` or `fusible`. Other texts change nothing.
TF_CAPI_EXPORT void TF_SetXlaAutoJitMode(const char *mode);

// Returns 1 if the mode of `TF_SetXlaAutoJitMode` is above level 0, as it is not by default.
TF_CAPI_EXPORT uint8_t TF_GetXlaAutoJitEnabled(void);

// Does nothing.
TF_CAPI_EXPORT void TF_SetXlaMinClusterSize(int size);

// Returns what `TF_SetXlaConstantFoldingDisabled` has set, 0 by default.
TF_CAPI_EXPORT uint8_t TF_GetXlaConstantFoldingDisabled(void);

// Sets what `TF_GetXlaConstantFoldingDisabled` returns.
TF_CAPI_EXPORT void TF_SetXlaConstantFoldingDisabled(uint8_t should_enable);

// Runs `fifo_queue_dequeue_<tensor_id>` and returns the tensor, for the caller to delete; null on error. Waits while the
// queue is empty.
TF_CAPI_EXPORT TF_Tensor *TF_DequeueNamedTensor(TF_Session *session, int tensor_id,
    TF_Status *status);

// Runs `fifo_queue_enqueue_<tensor_id>` with `arg_tensor_enqueue_<tensor_id>` fed with `tensor`, which stays the caller's.
// Waits while the queue is full.
TF_CAPI_EXPORT void TF_EnqueueNamedTensor(TF_Session *session, int tensor_id, TF_Tensor *tensor,
    TF_Status *status);

// Does nothing: this platform needs no initialisation.
TF_CAPI_EXPORT void TF_InitMain(const char *usage, int *argc, char ***argv);

// Returns the number of a TCP port that is free now, for tests; 0 if there is none.
TF_CAPI_EXPORT int TF_PickUnusedPortOrDie(void);

// Not available: loads the library, so that one that cannot be loaded is told apart, and reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT TF_Library *TF_LoadPluggableDeviceLibrary(const char *library_filename,
    TF_Status *status);

// Deletes a handle; null is allowed.
TF_CAPI_EXPORT void TF_DeletePluggableDeviceLibraryHandle(TF_Library *lib_handle);

// Returns a list of `num_shapes` scalars of unknown type, for the caller to delete; null if there is no memory for it.
TF_CAPI_EXPORT TF_ShapeAndTypeList *TF_NewShapeAndTypeList(int num_shapes);

// Sets the shape of an item to a copy of `dims`.
TF_CAPI_EXPORT void TF_ShapeAndTypeListSetShape(TF_ShapeAndTypeList *shape_list, int index,
    const int64_t *dims, int num_dims);

// Sets the shape of an item to one of unknown rank.
TF_CAPI_EXPORT void TF_ShapeAndTypeListSetUnknownShape(TF_ShapeAndTypeList *shape_list, int index);

// Sets the type of an item.
TF_CAPI_EXPORT void TF_ShapeAndTypeListSetDtype(TF_ShapeAndTypeList *shape_list, int index,
    TF_DataType dtype);

// Deletes a list with its shapes; null is allowed.
TF_CAPI_EXPORT void TF_DeleteShapeAndTypeList(TF_ShapeAndTypeList *shape_list);

// Deletes an array of lists, as this library hands it out; null is allowed, also for its lists.
TF_CAPI_EXPORT void TF_DeleteShapeAndTypeListArray(TF_ShapeAndTypeList **shape_list_array,
    int num_items);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_C_API_EXPERIMENTAL_H_ */
