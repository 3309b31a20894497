#ifndef TENSORFLOW_C_C_API_EXPERIMENTAL_H_
#define TENSORFLOW_C_C_API_EXPERIMENTAL_H_

#include <stddef.h>
#include "tensorflow/c/c_api.h"



#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the function as text for people and stores its length in `len`. The caller frees it with
// `free`.
TF_CAPI_EXPORT char *TF_FunctionDebugString(TF_Function *func, size_t *len);

// Takes a function out of the graph's library. Operations that call it stay.
//
// # Errors
// `TF_INVALID_ARGUMENT` if there is no function of this name.
TF_CAPI_EXPORT void TF_GraphRemoveFunction(TF_Graph *g, const char *func_name, TF_Status *status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_C_API_EXPERIMENTAL_H_ */
