#ifndef TENSORFLOW_C_KERNELS_H_
#define TENSORFLOW_C_KERNELS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api.h"
#include "tensorflow/c/experimental/stream_executor/stream_executor.h"
#include "tensorflow/core/common_runtime/next_pluggable_device/c/tf_rendezvous_c_api.h"

#define TF_InputRange_Args_STRUCT_SIZE TF_OFFSET_OF_END(TF_InputRange_Args, status)

#ifdef __cplusplus
extern "C" {
#endif
// Defined by a plug-in for a device: registers its kernels. Libraries for TF_LoadLibrary register theirs in constructors.
void TF_InitKernel(void);
#ifdef __cplusplus
}
#endif

// Ends the run of an asynchronous kernel.
typedef struct TF_AsyncOpKernelDoneCallback TF_AsyncOpKernelDoneCallback;

// A kernel that is being described.
typedef struct TF_KernelBuilder TF_KernelBuilder;

// A node whose kernel is being made. It lives as long as the call of the function that it was passed to.
typedef struct TF_OpKernelConstruction TF_OpKernelConstruction;

// One run of a kernel. It lives until the compute function returns, that of an asynchronous kernel until the callback is
// run.
typedef struct TF_OpKernelContext TF_OpKernelContext;

// Makes the state of a kernel for one node, which the other functions are passed; may be null for none.
typedef void *(*TF_KernelCreate)(TF_OpKernelConstruction *ctx);

// Runs a kernel.
typedef void (*TF_KernelCompute)(void *kernel, TF_OpKernelContext *ctx);

// Deletes the state of a kernel; may be null.
typedef void (*TF_KernelDelete)(void *kernel);

// Begins to run a kernel; `done` is called once, by any thread, when it has ended.
typedef void (*TF_KernelComputeAsync)(void *kernel, TF_OpKernelContext *ctx, TF_AsyncOpKernelDoneCallback *done);

// The place of an input argument among the inputs.
typedef struct TF_InputRange_Args {
  // `TF_InputRange_Args_STRUCT_SIZE`.
  size_t struct_size;
  // Not used.
  void *priv;
  // Receives the first input, -1 on error.
  int start;
  // Receives the first input after the argument, -1 on error.
  int stop;
  // Receives the status.
  TF_Status *status;
} TF_InputRange_Args;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns a description of a kernel for an op on a type of device, such as "CPU". It is deleted by
// `TF_RegisterKernelBuilder` or `TF_DeleteKernelBuilder`; null if a name is null.
TF_CAPI_EXPORT TF_KernelBuilder *TF_NewKernelBuilder(const char *op_name, const char *device_name,
    TF_KernelCreate create_func, TF_KernelCompute compute_func, TF_KernelDelete delete_func);

// As `TF_NewKernelBuilder`, for a kernel that ends its run by `TF_RunAsyncOpKernelDoneCallback` and holds no thread
// until then.
TF_CAPI_EXPORT TF_KernelBuilder *TF_NewAsyncKernelBuilder(const char *op_name,
    const char *device_name, TF_KernelCreate create_func, TF_KernelComputeAsync compute_async_func,
    TF_KernelDelete delete_func);

// Limits a kernel to nodes whose type attr has this type. Reports `TF_UNIMPLEMENTED` for types that kernels cannot be
// limited to, such as references.
TF_CAPI_EXPORT void TF_KernelBuilder_TypeConstraint(TF_KernelBuilder *kernel_builder,
    const char *attr_name, TF_DataType type, TF_Status *status);

// Says that an argument of the op lies in host memory, whatever the device.
TF_CAPI_EXPORT void TF_KernelBuilder_HostMemory(TF_KernelBuilder *kernel_builder,
    const char *arg_name);

// Sets the priority, 0 by default. Of several kernels for a node that with the highest priority is taken.
TF_CAPI_EXPORT void TF_KernelBuilder_Priority(TF_KernelBuilder *kernel_builder,
    int32_t priority_number);

// Sets the label. Only nodes that ask for it by the attr `_kernel` take a kernel with a label.
TF_CAPI_EXPORT void TF_KernelBuilder_Label(TF_KernelBuilder *kernel_builder, const char *label);

// Deletes a description that has not been registered; null is allowed.
TF_CAPI_EXPORT void TF_DeleteKernelBuilder(TF_KernelBuilder *builder);

// Registers a kernel for the whole process and deletes the builder, whether that succeeds or not. `kernel_name` is for
// messages alone. The op may be registered later.
TF_CAPI_EXPORT void TF_RegisterKernelBuilder(const char *kernel_name, TF_KernelBuilder *builder,
    TF_Status *status);

// As `TF_RegisterKernelBuilder`, with a serialised `KernelDef` in place of the builder's description, unless it is null.
// It ends at its first NUL.
TF_CAPI_EXPORT void TF_RegisterKernelBuilderWithKernelDef(const char *serialized_kernel_def,
    const char *name, TF_KernelBuilder *builder, TF_Status *status);

// Ends the run of an asynchronous kernel, with the error that `TF_OpKernelContext_Failure` has noted or with the outputs.
// The context and `arg` are deleted; null is allowed.
TF_CAPI_EXPORT void TF_RunAsyncOpKernelDoneCallback(TF_AsyncOpKernelDoneCallback *arg);

// Says that the kernel cannot be made: the node fails with this status.
TF_CAPI_EXPORT void TF_OpKernelConstruction_Failure(TF_OpKernelConstruction *ctx,
    TF_Status *status);

// Stores the number of items of an attr that is a list, else -1, and the room that its value needs: the length of a
// string, summed over a list, the rank of a shape, summed over a list, else -1.
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrSize(TF_OpKernelConstruction *ctx,
    const char *attr_name, int32_t *list_size, int32_t *total_size, TF_Status *status);

// Stores a type attr.
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrType(TF_OpKernelConstruction *ctx,
    const char *attr_name, TF_DataType *val, TF_Status *status);

// Stores an int attr. Reports `TF_INVALID_ARGUMENT` if it does not fit.
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrInt32(TF_OpKernelConstruction *ctx,
    const char *attr_name, int32_t *val, TF_Status *status);

// Stores an int attr.
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrInt64(TF_OpKernelConstruction *ctx,
    const char *attr_name, int64_t *val, TF_Status *status);

// Stores a float attr.
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrFloat(TF_OpKernelConstruction *ctx,
    const char *attr_name, float *val, TF_Status *status);

// Stores a bool attr.
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrBool(TF_OpKernelConstruction *ctx,
    const char *attr_name, uint8_t *val, TF_Status *status);

// Copies at most `max_length` bytes of a string attr, without a terminator.
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrString(TF_OpKernelConstruction *ctx,
    const char *attr_name, char *val, size_t max_length, TF_Status *status);

// Stores a tensor attr as a new tensor with memory of its own, which the caller deletes; null on error.
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrTensor(TF_OpKernelConstruction *ctx,
    const char *attr_name, TF_Tensor **val, TF_Status *status);

// Stores the first `max_vals` items of a list(type) attr.
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrTypeList(TF_OpKernelConstruction *ctx,
    const char *attr_name, TF_DataType *vals, int max_vals, TF_Status *status);

// Stores the first `max_vals` items of a list(int) attr, each without the bits that do not fit.
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrInt32List(TF_OpKernelConstruction *ctx,
    const char *attr_name, int32_t *vals, int max_vals, TF_Status *status);

// Stores the first `max_vals` items of a list(int) attr.
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrInt64List(TF_OpKernelConstruction *ctx,
    const char *attr_name, int64_t *vals, int max_vals, TF_Status *status);

// Stores the first `max_vals` items of a list(float) attr.
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrFloatList(TF_OpKernelConstruction *ctx,
    const char *attr_name, float *vals, int max_vals, TF_Status *status);

// Stores the first `max_vals` items of a list(bool) attr.
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrBoolList(TF_OpKernelConstruction *ctx,
    const char *attr_name, uint8_t *vals, int max_vals, TF_Status *status);

// Copies the first `max_values` strings of a list one behind the other into `storage` and stores the address and the
// length of each.
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrStringList(TF_OpKernelConstruction *ctx,
    const char *attr_name, char **values, size_t *lengths, int max_values, void *storage,
    size_t storage_size, TF_Status *status);

// Stores the first `max_values` items of a list(tensor) attr as new tensors with memory of their own, which the caller
// deletes.
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrTensorList(TF_OpKernelConstruction *ctx,
    const char *attr_name, TF_Tensor **vals, int max_values, TF_Status *status);

// Returns an attr of type func as a serialised `NameAttrList`, for the caller to delete; null on error.
TF_CAPI_EXPORT TF_Buffer *TF_OpKernelConstruction_GetAttrFunction(TF_OpKernelConstruction *ctx,
    const char *attr_name, TF_Status *status);

// Returns true if the node has the attr.
TF_CAPI_EXPORT bool TF_OpKernelConstruction_HasAttr(TF_OpKernelConstruction *ctx,
    const char *attr_name, TF_Status *status);

// Returns the name of the node. It lives as long as the construction.
TF_CAPI_EXPORT TF_StringView TF_OpKernelConstruction_GetName(TF_OpKernelConstruction *ctx);

// Returns the node as a serialised `NodeDef` without inputs, for the caller to delete; null on error.
TF_CAPI_EXPORT TF_Buffer *TF_OpKernelConstruction_GetNodeDef(TF_OpKernelConstruction *ctx,
    TF_Status *status);

// Returns the number of inputs.
TF_CAPI_EXPORT int TF_NumInputs(TF_OpKernelContext *ctx);

// Returns the number of outputs.
TF_CAPI_EXPORT int TF_NumOutputs(TF_OpKernelContext *ctx);

// Stores input `i` as a new tensor that shares its memory, for the caller to delete. Reports `TF_OUT_OF_RANGE` if there is
// no such input; then nothing is stored.
TF_CAPI_EXPORT void TF_GetInput(TF_OpKernelContext *ctx, int i, TF_Tensor **tensor,
    TF_Status *status);

// Stores the inputs of the input argument `name`.
TF_CAPI_EXPORT void TF_InputRange(TF_OpKernelContext *ctx, const char *name,
    TF_InputRange_Args *args);

// Returns the type of input `index`; 0 if there is no such input.
TF_CAPI_EXPORT TF_DataType TF_InputDatatype(TF_OpKernelContext *ctx, int index);

// Returns true if input `i` lies in host memory although the device has memory of its own. Reports `TF_OUT_OF_RANGE` if
// there is no such input.
TF_CAPI_EXPORT bool TF_IsHostMemoryInput(TF_OpKernelContext *ctx, int i, TF_Status *status);

// Returns true if output `i` lies in host memory although the device has memory of its own. Reports `TF_OUT_OF_RANGE` if
// there is no such output.
TF_CAPI_EXPORT bool TF_IsHostMemoryOutput(TF_OpKernelContext *ctx, int i, TF_Status *status);

// Stores the resource handle at input `i` as a serialised `ResourceHandleProto`.
TF_CAPI_EXPORT void TF_GetSerializedResourceHandleProto(TF_OpKernelContext *ctx, int i,
    TF_Buffer *serialized_resource_handle_proto, TF_Status *status);

// Sets output `i` to `tensor`, which stays the caller's; the memory is shared. Reports `TF_OUT_OF_RANGE` if there is no
// such output.
TF_CAPI_EXPORT void TF_SetOutput(TF_OpKernelContext *ctx, int i, const TF_Tensor *tensor,
    TF_Status *status);

// Returns output `i`, which has been set or allocated, as a new tensor that shares its memory, for the caller to delete;
// null on error. Reports `TF_OUT_OF_RANGE` if there is no such output.
TF_CAPI_EXPORT TF_Tensor *TF_GetMutableOutput(TF_OpKernelContext *ctx, int i, TF_Status *status);

// Allocates output `index` and returns it, for the caller to fill in and to delete; null on error. The type is that of
// the node's output, whatever `dtype` says; `len` is not looked at.
TF_CAPI_EXPORT TF_Tensor *TF_AllocateOutput(TF_OpKernelContext *context, int index,
    TF_DataType dtype, const int64_t *dims, int num_dims, size_t len, TF_Status *status);

// As `TF_AllocateOutput`, with the memory of the first of the inputs `candidate_input_indices` that has the type and the
// number of elements of the output and that nothing else reads. Stores that input in `forwarded_input`, -1 if there is
// none; it may be null.
TF_CAPI_EXPORT TF_Tensor *TF_ForwardInputOrAllocateOutput(TF_OpKernelContext *context,
    const int *candidate_input_indices, int num_candidate_input_indices, int output_index,
    const int64_t *output_dims, int output_num_dims, int *forwarded_input, TF_Status *status);

// Returns a new tensor for the time of the run, for the caller to delete; null on error. `alloc_attrs` may be null.
TF_CAPI_EXPORT TF_Tensor *TF_AllocateTemp(TF_OpKernelContext *context, TF_DataType dtype,
    const int64_t *dims, int num_dims, TF_AllocatorAttributes *alloc_attrs, TF_Status *status);

// Returns the type of output `i`; 0 if there is no such output.
TF_CAPI_EXPORT TF_DataType TF_ExpectedOutputDataType(TF_OpKernelContext *ctx, int i);

// Says that the run has failed with this status.
TF_CAPI_EXPORT void TF_OpKernelContext_Failure(TF_OpKernelContext *ctx, TF_Status *status);

// Reports `TF_FAILED_PRECONDITION` and returns null: kernels run on the CPU, which has no streams.
TF_CAPI_EXPORT SP_Stream TF_GetStream(TF_OpKernelContext *ctx, TF_Status *status);

// Returns the id of the step, which is unique among those of the process.
TF_CAPI_EXPORT int64_t TF_StepId(TF_OpKernelContext *ctx);

// As `TF_StepId`.
TF_CAPI_EXPORT int64_t TF_GetStepId(TF_OpKernelContext *ctx);

// Returns 0: runs do not number their frames.
TF_CAPI_EXPORT uint64_t TF_GetFrameId(TF_OpKernelContext *ctx);

// Returns 0: kernels do not learn the iteration.
TF_CAPI_EXPORT int64_t TF_GetIterId(TF_OpKernelContext *ctx);

// Returns the number of the device among those of its type; -1 on error.
TF_CAPI_EXPORT int TF_GetDeviceId(TF_OpKernelContext *ctx);

// Returns the full name of the device. It lives as long as the run.
TF_CAPI_EXPORT TF_StringView TF_GetDeviceName(TF_OpKernelContext *ctx);

// Returns the name of the node. It lives as long as the kernel.
TF_CAPI_EXPORT TF_StringView TF_GetOpKernelName(TF_OpKernelContext *ctx);

// Returns the name of the container for resources whose op names none.
TF_CAPI_EXPORT TF_StringView TF_GetResourceMgrDefaultContainerName(TF_OpKernelContext *ctx);

// Returns an empty string: kernels do not learn the names of their inputs' nodes.
TF_CAPI_EXPORT TF_StringView TF_GetOpKernelRequestedInput(TF_OpKernelContext *ctx, size_t index);

// Returns the version of graphs that this library makes.
TF_CAPI_EXPORT int TF_GetGraphDefVersion(TF_OpKernelContext *ctx);

// Returns a rendezvous without functions: that of a step is not handed out.
TF_CAPI_EXPORT TF_RendezvousThunk TF_GetRendezvous(TF_OpKernelContext *ctx);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_GetSerializedFunctionDefLibrary(TF_OpKernelContext *ctx,
    TF_Buffer *serialized_function_def_library, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_GetSerializedConfigProto(TF_OpKernelContext *ctx,
    TF_Buffer *serialized_config_proto, TF_Status *status);

// Does nothing: work on the CPU is not deferred.
TF_CAPI_EXPORT void TF_IncNumDeferredOps(TF_OpKernelContext *context);

// Does nothing: work on the CPU is not deferred.
TF_CAPI_EXPORT void TF_DecNumDeferredOps(TF_OpKernelContext *context);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_KERNELS_H_ */
