#ifndef TENSORFLOW_C_EXPERIMENTAL_NEXT_PLUGGABLE_DEVICE_C_API_H_
#define TENSORFLOW_C_EXPERIMENTAL_NEXT_PLUGGABLE_DEVICE_C_API_H_

#include "tensorflow/c/kernels.h"
#include "tensorflow/c/kernels_experimental.h"



// A buffer of PJRT. There is none.
typedef struct PJRT_Buffer PJRT_Buffer;

// A client of PJRT. There is none.
typedef struct PJRT_Client PJRT_Client;

// An option of a client of PJRT.
typedef struct PJRT_NamedValue PJRT_NamedValue;

// The agent of a cluster's coordination service. There is none.
typedef struct TF_CoordinationServiceAgent TF_CoordinationServiceAgent;

// A device of a plug-in. There is none.
typedef struct TF_Device TF_Device;

// A variable of a running kernel. There is none.
typedef struct TF_VariableInfo TF_VariableInfo;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Not available. Returns null.
TF_CAPI_EXPORT TF_Device *TF_GetDevice(TF_OpKernelContext *ctx);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_CreatePluginResource(TF_OpKernelContext *ctx, const char *container_name,
    const char *plugin_resource_name, void *plugin_resource, void (*delete_func)(void*),
    TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_LookupOrCreatePluginResource(TF_OpKernelContext *ctx,
    const char *container_name, const char *plugin_resource_name, void **result_plugin_resource,
    void *(*create_func)(void*), void *create_func_args, void (*delete_func)(void*),
    TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED` and returns null.
TF_CAPI_EXPORT TF_VariableInfo *TF_CreateVariableInfoFromContext(TF_OpKernelContext *ctx, int index,
    TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_LockVariableInfos(TF_VariableInfo **vars, int num_vars, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_AllocateTempForVariableInfo(TF_OpKernelContext *ctx,
    TF_VariableInfo *var_info, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED` and returns null.
TF_CAPI_EXPORT TF_Tensor *TF_GetTensorFromVariableInfo(TF_VariableInfo *var_info,
    TF_Status *status);

// Deletes a variable; null is allowed.
TF_CAPI_EXPORT void TF_DeleteVariableInfo(TF_VariableInfo *var_info);

// Not available. Returns null: there is no coordination service.
TF_CAPI_EXPORT TF_CoordinationServiceAgent *TF_GetCoordinationServiceAgent(TF_OpKernelContext *ctx);

// Returns false: there is no coordination service.
TF_CAPI_EXPORT bool TF_CoordinationServiceIsInitialized(TF_CoordinationServiceAgent *agent);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_CoordinationServiceInsertKeyValue(const char *key, int64_t key_size,
    const char *value, int64_t value_size, TF_CoordinationServiceAgent *agent, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED` and returns null.
TF_CAPI_EXPORT TF_Buffer *TF_CoordinationServiceGetKeyValue(const char *key, int64_t key_size,
    TF_CoordinationServiceAgent *agent, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED` and returns null.
TF_CAPI_EXPORT TF_Buffer *TF_CoordinationServiceGetKeyValueWithTimeout(const char *key,
    int64_t key_size, int64_t timeout_seconds, TF_CoordinationServiceAgent *agent,
    TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED` and returns null.
TF_CAPI_EXPORT TF_Buffer *TF_CoordinationServiceTryGetKeyValue(const char *key, int64_t key_size,
    TF_CoordinationServiceAgent *agent, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_CoordinationServiceDeleteKeyValue(const char *key, int64_t key_size,
    TF_CoordinationServiceAgent *agent, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_CreateAndSetPjRtCApiClient(const char *device_type, TF_Status *status,
    struct PJRT_NamedValue *create_options, int num_options);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_ResetPjRtCClient(const char *device_type, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED` and returns null.
TF_CAPI_EXPORT struct PJRT_Client *TF_GetPjRtCClient(const char *device_type, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED` and returns null.
TF_CAPI_EXPORT struct PJRT_Buffer *TF_GetPjRtCBuffer(TF_Tensor *c_tensor, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_CreatePjRtBuffer(TF_Tensor *c_tensor, struct PJRT_Buffer *c_buffer,
    const char *device_type, TF_Status *status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_EXPERIMENTAL_NEXT_PLUGGABLE_DEVICE_C_API_H_ */
