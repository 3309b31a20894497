#ifndef TFCORE_H_
#define TFCORE_H_

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/c_api_experimental.h"
#include "tensorflow/c/eager/c_api_experimental.h"
#include "tensorflow/c/env.h"
#include "tensorflow/c/experimental/filesystem/filesystem_interface.h"
#include "tensorflow/c/experimental/grappler/grappler.h"
#include "tensorflow/c/experimental/next_pluggable_device/c_api.h"
#include "tensorflow/c/experimental/pluggable_profiler/pluggable_profiler.h"
#include "tensorflow/c/kernels_experimental.h"
#include "tensorflow/c/ops.h"



#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of tfcore itself, as a static string such as "0.1.0".
TF_CAPI_EXPORT const char *tfcore_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TFCORE_H_ */
