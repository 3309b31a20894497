#ifndef XLA_TSL_C_TSL_STATUS_H_
#define XLA_TSL_C_TSL_STATUS_H_

#include "tensorflow/c/tf_status.h"

// The status of tf_status.h by other names.
typedef TF_Status TSL_Status;
typedef TF_Code TSL_Code;
typedef TF_PayloadVisitor TSL_PayloadVisitor;

#define TSL_OK TF_OK
#define TSL_CANCELLED TF_CANCELLED
#define TSL_UNKNOWN TF_UNKNOWN
#define TSL_INVALID_ARGUMENT TF_INVALID_ARGUMENT
#define TSL_DEADLINE_EXCEEDED TF_DEADLINE_EXCEEDED
#define TSL_NOT_FOUND TF_NOT_FOUND
#define TSL_ALREADY_EXISTS TF_ALREADY_EXISTS
#define TSL_PERMISSION_DENIED TF_PERMISSION_DENIED
#define TSL_RESOURCE_EXHAUSTED TF_RESOURCE_EXHAUSTED
#define TSL_FAILED_PRECONDITION TF_FAILED_PRECONDITION
#define TSL_ABORTED TF_ABORTED
#define TSL_OUT_OF_RANGE TF_OUT_OF_RANGE
#define TSL_UNIMPLEMENTED TF_UNIMPLEMENTED
#define TSL_INTERNAL TF_INTERNAL
#define TSL_UNAVAILABLE TF_UNAVAILABLE
#define TSL_DATA_LOSS TF_DATA_LOSS
#define TSL_UNAUTHENTICATED TF_UNAUTHENTICATED

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// As `TF_NewStatus`.
TF_CAPI_EXPORT TSL_Status *TSL_NewStatus(void);

// As `TF_DeleteStatus`.
TF_CAPI_EXPORT void TSL_DeleteStatus(TSL_Status *status);

// As `TF_SetStatus`.
TF_CAPI_EXPORT void TSL_SetStatus(TSL_Status *status, TSL_Code code, const char *msg);

// As `TF_SetPayload`.
TF_CAPI_EXPORT void TSL_SetPayload(TSL_Status *status, const char *key, const char *value);

// As `TF_ForEachPayload`.
TF_CAPI_EXPORT void TSL_ForEachPayload(const TSL_Status *status, TSL_PayloadVisitor visitor,
    void *capture);

// As `TF_SetStatusFromIOError`.
TF_CAPI_EXPORT void TSL_SetStatusFromIOError(TSL_Status *status, int error_code,
    const char *context);

// As `TF_GetCode`.
TF_CAPI_EXPORT TSL_Code TSL_GetCode(const TSL_Status *status);

// As `TF_Message`.
TF_CAPI_EXPORT const char *TSL_Message(const TSL_Status *status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* XLA_TSL_C_TSL_STATUS_H_ */
