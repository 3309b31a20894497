#ifndef TENSORFLOW_C_TF_TENSOR_H_
#define TENSORFLOW_C_TF_TENSOR_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_buffer.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"

// Where a plug-in's memory shall be. `struct_size` is TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE.
typedef struct TF_AllocatorAttributes {
  size_t struct_size;
  // In the host's memory, 0 or 1.
  TF_Bool on_host;
} TF_AllocatorAttributes;

#define TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE TF_OFFSET_OF_END(TF_AllocatorAttributes, on_host)

// A tensor: a dtype, a shape and a share of a buffer.
typedef struct TF_Tensor TF_Tensor;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns a tensor over the caller's memory, or null if `len` is too short for the shape, the shape is
// impossible or the type is `TF_RESOURCE` or `TF_VARIANT`, whose elements only the library makes.
//
// `deallocator` is called exactly once with `data`, `len` and `deallocator_arg`: at once if null is
// returned or the memory is not aligned to 64 bytes and so is copied, else when the memory is not
// needed any more. It may be null.
TF_CAPI_EXPORT TF_Tensor *TF_NewTensor(TF_DataType dtype, const int64_t *dims, int num_dims,
    void *data, size_t len, void (*deallocator)(void *data, size_t len, void *arg),
    void *deallocator_arg);

// Returns the alignment in bytes of memory that is adopted without a copy.
TF_CAPI_EXPORT size_t TF_TensorDefaultAlignment(void);

// Returns a tensor of new memory: `len` bytes, zeroed; empty strings for `TF_STRING`, whose `len` is not
// looked at. Null if `len` is too short for the shape or there is no such memory.
TF_CAPI_EXPORT TF_Tensor *TF_AllocateTensor(TF_DataType dtype, const int64_t *dims, int num_dims,
    size_t len);

// Returns `tensor` if the library owns its memory and nobody else holds it, so that it can go to another owner; else null.
TF_CAPI_EXPORT TF_Tensor *TF_TensorMaybeMove(TF_Tensor *tensor);

// Deletes a tensor; null is allowed. Its memory lives on while the runtime holds it.
TF_CAPI_EXPORT void TF_DeleteTensor(TF_Tensor *tensor);

// Returns the element type.
TF_CAPI_EXPORT TF_DataType TF_TensorType(const TF_Tensor *tensor);

// Sets the shape, without any check against the number of elements.
TF_CAPI_EXPORT void TF_SetShape(TF_Tensor *tensor, const int64_t *dims, int num_dims);

// Returns the number of dimensions.
TF_CAPI_EXPORT int TF_NumDims(const TF_Tensor *tensor);

// Returns the size of a dimension; -1 if there is no such dimension.
TF_CAPI_EXPORT int64_t TF_Dim(const TF_Tensor *tensor, int dim_index);

// Returns the size of the memory in bytes, which may be more than the elements need.
TF_CAPI_EXPORT size_t TF_TensorByteSize(const TF_Tensor *tensor);

// Returns the address of the first element.
TF_CAPI_EXPORT void *TF_TensorData(const TF_Tensor *tensor);

// Returns the number of elements of the shape.
TF_CAPI_EXPORT int64_t TF_TensorElementCount(const TF_Tensor *tensor);

// Makes `to` share the memory of `from` as elements of another type and shape of as many bytes. Both types
// must be of fixed size.
TF_CAPI_EXPORT void TF_TensorBitcastFrom(const TF_Tensor *from, TF_DataType type, TF_Tensor *to,
    const int64_t *new_dims, int num_new_dims, TF_Status *status);

// Returns whether the memory is aligned as the library aligns its own.
TF_CAPI_EXPORT bool TF_TensorIsAligned(const TF_Tensor *tensor);

// Replaces `to` by the tensor that a serialised `TensorProto` describes.
TF_CAPI_EXPORT void TF_TensorFromProto(const TF_Buffer *from, TF_Tensor *to, TF_Status *status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_TF_TENSOR_H_ */
