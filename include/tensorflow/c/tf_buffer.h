#ifndef TENSORFLOW_C_TF_BUFFER_H_
#define TENSORFLOW_C_TF_BUFFER_H_

#include <stddef.h>
#include "tensorflow/c/c_api_macros.h"



// A block of bytes. `data_deallocator`, where it is set, frees them.
typedef struct TF_Buffer {
  const void *data;
  size_t length;
  void (*data_deallocator)(void *data, size_t length);
} TF_Buffer;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns a buffer with a copy of `proto_len` bytes.
TF_CAPI_EXPORT TF_Buffer *TF_NewBufferFromString(const void *proto, size_t proto_len);

// Returns an empty buffer.
TF_CAPI_EXPORT TF_Buffer *TF_NewBuffer(void);

// Calls the deallocator, if there is one, and deletes the buffer; null is allowed.
TF_CAPI_EXPORT void TF_DeleteBuffer(TF_Buffer *buffer);

// Returns a copy of the struct; the data stays the buffer's.
TF_CAPI_EXPORT TF_Buffer TF_GetBuffer(TF_Buffer *buffer);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_TF_BUFFER_H_ */
