#ifndef TENSORFLOW_C_KERNELS_EXPERIMENTAL_H_
#define TENSORFLOW_C_KERNELS_EXPERIMENTAL_H_

#include "tensorflow/c/kernels.h"



// The lock on variables, until it is released.
typedef struct TF_VariableInputLockHolder TF_VariableInputLockHolder;

// Copies a tensor; both belong to the function, which deletes them. Variables of this library are in host memory and are
// replaced rather than copied, so that it is not called.
typedef void (*TF_KernelCopy)(TF_OpKernelContext *ctx, TF_Tensor *source, TF_Tensor *dest);

// Changes `tensor` in place by `value`; both belong to the function, which deletes them.
typedef void (*TF_KernelUpdate)(TF_OpKernelContext *ctx, TF_Tensor *tensor, TF_Tensor *value, int op);

// Allocates a temporary variable.
typedef void (*TF_KernelAllocate)(TF_OpKernelContext *ctx, TF_Tensor *tensor, TF_DataType dtype, const int64_t *dims, int num_dims, TF_Status *status);

// Adds two tensors of a variant.
typedef void (*TF_KernelBinary)(TF_OpKernelContext *ctx, TF_Tensor *a, TF_Tensor *b, TF_Tensor *out);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Replaces the value of the variable at input `input_index` by input `value_index`, and makes the variable if there is
// none. Reports `TF_INVALID_ARGUMENT` for a value of another type, and with `validate_shape` for one of another shape.
TF_CAPI_EXPORT void TF_AssignVariable(TF_OpKernelContext *ctx, int input_index, int value_index,
    bool validate_shape, TF_KernelCopy copyFunc, TF_Status *status);

// Replaces the value of the ref variable at input `input_ref_index` by input `value_index`, and forwards the reference to
// output `output_ref_index`.
TF_CAPI_EXPORT void TF_AssignRefVariable(TF_OpKernelContext *ctx, int input_ref_index,
    int output_ref_index, int value_index, bool use_locking, bool validate_shape,
    TF_KernelCopy copyFunc, TF_Status *status);

// Lets `updateFunc` change the value of the variable at input `input_index` by input `value_index`, while no other op
// sees it. `Op` is passed on.
TF_CAPI_EXPORT void TF_AssignUpdateVariable(TF_OpKernelContext *ctx, int input_index,
    int value_index, int Op, int isVariantType, TF_KernelCopy copyFunc, TF_KernelUpdate updateFunc,
    TF_Status *status);

// Returns in `out` the value of the variable at input `input`, for the caller to change in place and to delete. The
// memory is the variable's alone: what was read before keeps its values.
TF_CAPI_EXPORT void TF_GetInputTensorFromVariable(TF_OpKernelContext *ctx, int input,
    bool lock_held, bool isVariantType, bool sparse, TF_KernelCopy copyFunc, TF_Tensor **out,
    TF_Status *status);

// With `do_lock` excludes other kernels of clients that lock, until the holder that is stored is released.
TF_CAPI_EXPORT void TF_MaybeLockVariableInputMutexesInOrder(TF_OpKernelContext *ctx, bool do_lock,
    bool sparse, const int *inputs, size_t len, TF_KernelCopy copyFunc,
    TF_VariableInputLockHolder **lockHolder, TF_Status *status);

// Releases a lock; null is allowed. The thread must be the one that took it.
TF_CAPI_EXPORT void TF_ReleaseVariableInputLockHolder(TF_VariableInputLockHolder *lockHolder);

// Makes output `output_index` the reference at input `input_index`.
TF_CAPI_EXPORT void TF_OpKernelContext_ForwardRefInputToRefOutput(TF_OpKernelContext *ctx,
    int32_t input_index, int32_t output_index);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_TemporaryVariable(TF_OpKernelContext *ctx, TF_DataType dtype,
    const int64_t *dims, int num_dims, TF_StringView *var_name, TF_KernelAllocate plugin_allocator,
    TF_Status *tf_status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_DestroyTemporaryVariable(TF_OpKernelContext *ctx, int index,
    TF_StringView *var_name, TF_Status *tf_status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_AddNVariant(TF_OpKernelContext *ctx, TF_KernelBinary binary_add_func,
    TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_ZerosLikeVariant(TF_OpKernelContext *ctx, TF_KernelCopy zeros_like_func,
    TF_Status *status);

// As `TF_GetInput`, for the one tensor of the input argument `inputName`.
TF_CAPI_EXPORT void TF_GetInputByName(TF_OpKernelContext *ctx, const char *inputName,
    TF_Tensor **tensor, TF_Status *status);

// Returns true if input `i` is a reference to a variable. Reports `TF_OUT_OF_RANGE` if there is no such input.
TF_CAPI_EXPORT bool TF_IsRefInput(TF_OpKernelContext *ctx, int i, TF_Status *status);

// Stores the first `num_dims` dimensions of a shape attr, -1 for unknown ones.
TF_CAPI_EXPORT void TF_OpKernelConstruction_GetAttrTensorShape(TF_OpKernelConstruction *ctx,
    const char *attr_name, int64_t *dims, size_t num_dims, TF_Status *status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_KERNELS_EXPERIMENTAL_H_ */
