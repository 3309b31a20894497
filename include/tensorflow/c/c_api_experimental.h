#ifndef TENSORFLOW_C_C_API_EXPERIMENTAL_H_
#define TENSORFLOW_C_C_API_EXPERIMENTAL_H_

#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api.h"



// The attrs of an op that is no operation of any graph.
typedef struct TF_AttrBuilder TF_AttrBuilder;

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

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_C_API_EXPERIMENTAL_H_ */
