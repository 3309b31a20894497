#ifndef TENSORFLOW_C_EAGER_C_API_H_
#define TENSORFLOW_C_EAGER_C_API_H_

#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api.h"



// What happens to an input that lies on another device than the op.
typedef enum TFE_ContextDevicePlacementPolicy {
  // The op fails.
  TFE_DEVICE_PLACEMENT_EXPLICIT = 0,
  // The input is copied, and a warning is logged.
  TFE_DEVICE_PLACEMENT_WARN = 1,
  // The input is copied.
  TFE_DEVICE_PLACEMENT_SILENT = 2,
  // Inputs of int32 are copied, others make the op fail.
  TFE_DEVICE_PLACEMENT_SILENT_FOR_INT32 = 3,
} TFE_ContextDevicePlacementPolicy;

// Devices, functions, variables and kernels for ops that are executed one by one. All functions may be called by several
// threads at once, except the deletion.
typedef struct TFE_Context TFE_Context;

// How contexts are made.
typedef struct TFE_ContextOptions TFE_ContextOptions;

// An op with inputs and attrs, to be executed once or several times.
typedef struct TFE_Op TFE_Op;

// How a tensor lies in the memory of its device.
typedef struct TFE_TensorDebugInfo TFE_TensorDebugInfo;

// A tensor on a device: one that is there, or one that an op will have made. Handles never change.
typedef struct TFE_TensorHandle TFE_TensorHandle;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns options for a context, for the caller to delete: one thread for each processor, inputs copied between devices silently,
// ops run on the caller's thread.
TF_CAPI_EXPORT struct TFE_ContextOptions *TFE_NewContextOptions(void);

// Sets the configuration: a serialised `ConfigProto`.
TF_CAPI_EXPORT void TFE_ContextOptionsSetConfig(struct TFE_ContextOptions *options,
    const void *proto, size_t proto_len, TF_Status *status);

// Has ops run later, in order, on a thread of the context. Errors then reach whoever asks for a result, and the ops that follow.
TF_CAPI_EXPORT void TFE_ContextOptionsSetAsync(struct TFE_ContextOptions *options,
    unsigned char enable);

// Sets what happens to inputs on other devices than their op.
TF_CAPI_EXPORT void TFE_ContextOptionsSetDevicePlacementPolicy(struct TFE_ContextOptions *options,
    TFE_ContextDevicePlacementPolicy policy);

// Deletes options; null is allowed.
TF_CAPI_EXPORT void TFE_DeleteContextOptions(struct TFE_ContextOptions *options);

// Returns a context, for the caller to delete; null on error.
TF_CAPI_EXPORT struct TFE_Context *TFE_NewContext(const struct TFE_ContextOptions *opts,
    TF_Status *status);

// Deletes a context; null is allowed. Handles stay good. Waits for the ops that still run.
TF_CAPI_EXPORT void TFE_DeleteContext(struct TFE_Context *ctx);

// Returns the devices of a context, for the caller to delete.
TF_CAPI_EXPORT TF_DeviceList *TFE_ContextListDevices(struct TFE_Context *ctx, TF_Status *status);

// Forgets the kernels that the context has prepared.
TF_CAPI_EXPORT void TFE_ContextClearCaches(struct TFE_Context *ctx);

// Sets what happens to inputs on other devices than their op, for this thread.
TF_CAPI_EXPORT void TFE_ContextSetThreadLocalDevicePlacementPolicy(struct TFE_Context *ctx,
    TFE_ContextDevicePlacementPolicy policy);

// Returns what happens to inputs on other devices than their op, for this thread.
TF_CAPI_EXPORT enum TFE_ContextDevicePlacementPolicy TFE_ContextGetDevicePlacementPolicy(struct TFE_Context *ctx);

// Makes the context one of a cluster. Not implemented.
TF_CAPI_EXPORT void TFE_ContextSetServerDef(struct TFE_Context *_ctx, int _keep_alive_secs,
    const void *_proto, size_t _proto_len, TF_Status *status);

// Returns a handle of a tensor, for the caller to delete; null on error. It shares the tensor's memory, which must not be changed
// any more.
TF_CAPI_EXPORT struct TFE_TensorHandle *TFE_NewTensorHandle(const TF_Tensor *t, TF_Status *status);

// Deletes a handle; null is allowed.
TF_CAPI_EXPORT void TFE_DeleteTensorHandle(struct TFE_TensorHandle *h);

// Returns the dtype.
TF_CAPI_EXPORT TF_DataType TFE_TensorHandleDataType(struct TFE_TensorHandle *h);

// Returns the rank; waits for the tensor. -1 on error.
TF_CAPI_EXPORT int TFE_TensorHandleNumDims(struct TFE_TensorHandle *h, TF_Status *status);

// Returns the number of elements; waits for the tensor. -1 on error.
TF_CAPI_EXPORT int64_t TFE_TensorHandleNumElements(struct TFE_TensorHandle *h, TF_Status *status);

// Returns a dimension; waits for the tensor. -1 on error.
TF_CAPI_EXPORT int64_t TFE_TensorHandleDim(struct TFE_TensorHandle *h, int dim_index,
    TF_Status *status);

// Returns the full name of the device of the op that made the tensor, which lives as long as the handle; null on error.
TF_CAPI_EXPORT const char *TFE_TensorHandleDeviceName(struct TFE_TensorHandle *h,
    TF_Status *status);

// Returns the full name of the device whose memory holds the tensor, which lives as long as the handle; null on error.
TF_CAPI_EXPORT const char *TFE_TensorHandleBackingDeviceName(struct TFE_TensorHandle *h,
    TF_Status *status);

// Returns another handle of the same tensor, for the caller to delete; null on error.
TF_CAPI_EXPORT struct TFE_TensorHandle *TFE_TensorHandleCopySharingTensor(struct TFE_TensorHandle *h,
    TF_Status *status);

// Returns the tensor, for the caller to delete; waits for it. It shares the handle's memory, which must not be changed. Null on
// error: that of the op.
TF_CAPI_EXPORT TF_Tensor *TFE_TensorHandleResolve(struct TFE_TensorHandle *h, TF_Status *status);

// Returns a handle of the tensor on a device of `ctx`, for the caller to delete; null on error. `device_name` is a full name.
TF_CAPI_EXPORT struct TFE_TensorHandle *TFE_TensorHandleCopyToDevice(struct TFE_TensorHandle *h,
    struct TFE_Context *ctx, const char *device_name, TF_Status *status);

// Returns how the tensor lies in memory, for the caller to delete; null on error.
TF_CAPI_EXPORT struct TFE_TensorDebugInfo *TFE_TensorHandleTensorDebugInfo(struct TFE_TensorHandle *h,
    TF_Status *status);

// Deletes the description; null is allowed.
TF_CAPI_EXPORT void TFE_DeleteTensorDebugInfo(struct TFE_TensorDebugInfo *debug_info);

// Returns the rank of the tensor in memory.
TF_CAPI_EXPORT int TFE_TensorDebugInfoOnDeviceNumDims(struct TFE_TensorDebugInfo *debug_info);

// Returns a dimension of the tensor in memory; -1 if there is none of that index.
TF_CAPI_EXPORT int64_t TFE_TensorDebugInfoOnDeviceDim(struct TFE_TensorDebugInfo *debug_info,
    int dim_index);

// Returns an op, or a call of a function of the context, for the caller to delete; null on error.
TF_CAPI_EXPORT struct TFE_Op *TFE_NewOp(struct TFE_Context *ctx, const char *op_or_function_name,
    TF_Status *status);

// Deletes an op; null is allowed. Its inputs and outputs stay the caller's.
TF_CAPI_EXPORT void TFE_DeleteOp(struct TFE_Op *op);

// Returns the name of the op or function, which lives as long as the op; null on error.
TF_CAPI_EXPORT const char *TFE_OpGetName(const struct TFE_Op *op, TF_Status *status);

// Returns the context that the op was made for.
TF_CAPI_EXPORT struct TFE_Context *TFE_OpGetContext(const struct TFE_Op *op, TF_Status *status);

// Requests a device; an empty string requests none. Parts of the name may be left out.
TF_CAPI_EXPORT void TFE_OpSetDevice(struct TFE_Op *op, const char *device_name, TF_Status *status);

// Returns the device that was requested, or, once the op has been executed, that of the execution. It lives until the device
// changes.
TF_CAPI_EXPORT const char *TFE_OpGetDevice(const struct TFE_Op *op, TF_Status *status);

// Adds the next input, where the op takes one tensor. The handle stays the caller's.
TF_CAPI_EXPORT void TFE_OpAddInput(struct TFE_Op *op, struct TFE_TensorHandle *input,
    TF_Status *status);

// Adds the next input, where the op takes a list. The handles stay the caller's.
TF_CAPI_EXPORT void TFE_OpAddInputList(struct TFE_Op *op, struct TFE_TensorHandle **inputs,
    int num_inputs, TF_Status *status);

// Returns the number of tensors that have been added as inputs.
TF_CAPI_EXPORT int TFE_OpGetFlatInputCount(const struct TFE_Op *op, TF_Status *status);

// Returns an input, which stays the op's; null if there is none of that index.
TF_CAPI_EXPORT struct TFE_TensorHandle *TFE_OpGetFlatInput(const struct TFE_Op *op, int index,
    TF_Status *status);

// Returns the type of an attr and stores whether it is a list. `TF_ATTR_INT` on error.
TF_CAPI_EXPORT TF_AttrType TFE_OpGetAttrType(struct TFE_Op *op, const char *attr_name,
    unsigned char *is_list, TF_Status *status);

// As `TFE_OpGetAttrType`, for the name of an op or function.
TF_CAPI_EXPORT TF_AttrType TFE_OpNameGetAttrType(struct TFE_Context *ctx,
    const char *op_or_function_name, const char *attr_name, unsigned char *is_list,
    TF_Status *status);

// Returns the number of tensors of an input argument, as far as inputs and attrs tell; -1 on error.
TF_CAPI_EXPORT int TFE_OpGetInputLength(struct TFE_Op *op, const char *input_name,
    TF_Status *status);

// Returns the number of tensors of an output argument, as far as inputs and attrs tell; -1 on error.
TF_CAPI_EXPORT int TFE_OpGetOutputLength(struct TFE_Op *op, const char *output_name,
    TF_Status *status);

// Executes the op, or has the thread's executor do so. `*num_retvals` is the room in `retvals`, and then the number of outputs, whose
// handles the caller deletes.
TF_CAPI_EXPORT void TFE_Execute(struct TFE_Op *op, struct TFE_TensorHandle **retvals,
    int *num_retvals, TF_Status *status);

// Sets an attr of type string.
TF_CAPI_EXPORT void TFE_OpSetAttrString(struct TFE_Op *op, const char *attr_name, const void *value,
    size_t length);

// Sets an attr of type int.
TF_CAPI_EXPORT void TFE_OpSetAttrInt(struct TFE_Op *op, const char *attr_name, int64_t value);

// Sets an attr of type float.
TF_CAPI_EXPORT void TFE_OpSetAttrFloat(struct TFE_Op *op, const char *attr_name, float value);

// Sets an attr of type bool; any value but 0 is true.
TF_CAPI_EXPORT void TFE_OpSetAttrBool(struct TFE_Op *op, const char *attr_name,
    unsigned char value);

// Sets an attr of type type.
TF_CAPI_EXPORT void TFE_OpSetAttrType(struct TFE_Op *op, const char *attr_name, TF_DataType value);

// Sets an attr of type shape: -1 for an unknown dimension, `num_dims` -1 for an unknown rank.
TF_CAPI_EXPORT void TFE_OpSetAttrShape(struct TFE_Op *op, const char *attr_name,
    const int64_t *dims, int num_dims, TF_Status *out_status);

// Sets an attr of type func to the function of `value`, with the attrs that are set there.
TF_CAPI_EXPORT void TFE_OpSetAttrFunction(struct TFE_Op *op, const char *attr_name,
    const struct TFE_Op *value);

// Sets an attr of type func to a function without attrs of its own.
TF_CAPI_EXPORT void TFE_OpSetAttrFunctionName(struct TFE_Op *op, const char *attr_name,
    const char *data, size_t length);

// Sets an attr of type tensor; the tensor stays the caller's.
TF_CAPI_EXPORT void TFE_OpSetAttrTensor(struct TFE_Op *op, const char *attr_name, TF_Tensor *tensor,
    TF_Status *status);

// Sets an attr of type list(string).
TF_CAPI_EXPORT void TFE_OpSetAttrStringList(struct TFE_Op *op, const char *attr_name,
    const void *const *values, const size_t *lengths, int num_values);

// Sets an attr of type list(int).
TF_CAPI_EXPORT void TFE_OpSetAttrIntList(struct TFE_Op *op, const char *attr_name,
    const int64_t *values, int num_values);

// Sets an attr of type list(float).
TF_CAPI_EXPORT void TFE_OpSetAttrFloatList(struct TFE_Op *op, const char *attr_name,
    const float *values, int num_values);

// Sets an attr of type list(bool).
TF_CAPI_EXPORT void TFE_OpSetAttrBoolList(struct TFE_Op *op, const char *attr_name,
    const unsigned char *values, int num_values);

// Sets an attr of type list(type).
TF_CAPI_EXPORT void TFE_OpSetAttrTypeList(struct TFE_Op *op, const char *attr_name,
    const TF_DataType *values, int num_values);

// Sets an attr of type list(shape).
TF_CAPI_EXPORT void TFE_OpSetAttrShapeList(struct TFE_Op *op, const char *attr_name,
    const int64_t **dims, const int *num_dims, int num_values, TF_Status *out_status);

// Sets an attr of type list(func) to the functions of other ops.
TF_CAPI_EXPORT void TFE_OpSetAttrFunctionList(struct TFE_Op *op, const char *attr_name,
    const struct TFE_Op **value, int num_values);

// Adds the function of a serialised `FunctionDef`.
TF_CAPI_EXPORT void TFE_ContextAddFunctionDef(struct TFE_Context *ctx,
    const void *serialized_function_def, size_t size, TF_Status *status);

// Adds a function, which stays the caller's too.
TF_CAPI_EXPORT void TFE_ContextAddFunction(struct TFE_Context *ctx, TF_Function *function,
    TF_Status *status);

// Removes a function.
TF_CAPI_EXPORT void TFE_ContextRemoveFunction(struct TFE_Context *ctx, const char *name,
    TF_Status *status);

// Returns whether the context has a function of that name.
TF_CAPI_EXPORT unsigned char TFE_ContextHasFunction(struct TFE_Context *ctx, const char *name);

// Has runs recorded for `TFE_ContextExportRunMetadata`. Nothing is recorded yet.
TF_CAPI_EXPORT void TFE_ContextEnableRunMetadata(struct TFE_Context *_ctx);

// Ends what `TFE_ContextEnableRunMetadata` began.
TF_CAPI_EXPORT void TFE_ContextDisableRunMetadata(struct TFE_Context *_ctx);

// Waits for all ops and stores a serialised `RunMetadata`, which is empty.
TF_CAPI_EXPORT void TFE_ContextExportRunMetadata(struct TFE_Context *ctx, TF_Buffer *buf,
    TF_Status *status);

// Begins a step. Steps of a context keep nothing that would have to end with them.
TF_CAPI_EXPORT void TFE_ContextStartStep(struct TFE_Context *_ctx);

// Ends a step.
TF_CAPI_EXPORT void TFE_ContextEndStep(struct TFE_Context *_ctx);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_EAGER_C_API_H_ */
