#ifndef TENSORFLOW_C_TF_STATUS_H_
#define TENSORFLOW_C_TF_STATUS_H_

#include "tensorflow/c/c_api_macros.h"

// All of this header has a second name, with TSL for TF.
#define TSL_Status TF_Status
#define TSL_Code TF_Code
#define TSL_PayloadVisitor TF_PayloadVisitor
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

// The status codes.
typedef enum TF_Code {
  // Not an error; returned on success.
  TF_OK = 0,
  // The operation was cancelled, typically by the caller.
  TF_CANCELLED = 1,
  // An error of unknown origin.
  TF_UNKNOWN = 2,
  // The caller specified an argument that is wrong whatever the state of the system.
  TF_INVALID_ARGUMENT = 3,
  // The deadline passed before the operation could complete.
  TF_DEADLINE_EXCEEDED = 4,
  // A requested entity was not found.
  TF_NOT_FOUND = 5,
  // An entity that was to be created exists already.
  TF_ALREADY_EXISTS = 6,
  // The caller may not do this.
  TF_PERMISSION_DENIED = 7,
  // A resource, such as memory, has been exhausted.
  TF_RESOURCE_EXHAUSTED = 8,
  // The system is not in the state that the operation requires.
  TF_FAILED_PRECONDITION = 9,
  // The operation was aborted, typically because of a conflict.
  TF_ABORTED = 10,
  // The operation was tried past the valid range.
  TF_OUT_OF_RANGE = 11,
  // The operation is not implemented or not supported.
  TF_UNIMPLEMENTED = 12,
  // An invariant of the library is broken.
  TF_INTERNAL = 13,
  // The service is unavailable at the moment.
  TF_UNAVAILABLE = 14,
  // Data is lost or corrupt beyond recovery.
  TF_DATA_LOSS = 15,
  // The caller has no valid credentials.
  TF_UNAUTHENTICATED = 16,
} TF_Code;

// The outcome of a call: a code, a message and payloads.
typedef struct TF_Status TF_Status;

// Receives one payload: key, value, and the caller's argument.
typedef void (*TF_PayloadVisitor)(const char*, const char*, void*);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns a new status, which is OK.
TF_CAPI_EXPORT TF_Status *TF_NewStatus(void);

// Deletes a status; null is allowed.
TF_CAPI_EXPORT void TF_DeleteStatus(TF_Status *status);

// Sets the code and a copy of the message. An OK status keeps no message. Payloads are cleared.
TF_CAPI_EXPORT void TF_SetStatus(TF_Status *status, TF_Code code, const char *msg);

// Records `value` under `key`; the same key overwrites. Ignored on an OK status.
TF_CAPI_EXPORT void TF_SetPayload(TF_Status *status, const char *key, const char *value);

// Calls `visitor` once for each payload, with `capture` as its last argument.
TF_CAPI_EXPORT void TF_ForEachPayload(const TF_Status *status, TF_PayloadVisitor visitor,
    void *capture);

// Sets the code that belongs to an `errno` and the message "context; text of the errno".
TF_CAPI_EXPORT void TF_SetStatusFromIOError(TF_Status *status, int error_code, const char *context);

// Returns the code.
TF_CAPI_EXPORT TF_Code TF_GetCode(const TF_Status *status);

// Returns the message, which lives until the status changes; empty for an OK status.
TF_CAPI_EXPORT const char *TF_Message(const TF_Status *status);

// As `TF_NewStatus`.
TF_CAPI_EXPORT TF_Status *TSL_NewStatus(void);

// As `TF_DeleteStatus`.
TF_CAPI_EXPORT void TSL_DeleteStatus(TF_Status *status);

// As `TF_SetStatus`.
TF_CAPI_EXPORT void TSL_SetStatus(TF_Status *status, TF_Code code, const char *msg);

// As `TF_SetPayload`.
TF_CAPI_EXPORT void TSL_SetPayload(TF_Status *status, const char *key, const char *value);

// As `TF_ForEachPayload`.
TF_CAPI_EXPORT void TSL_ForEachPayload(const TF_Status *status, TF_PayloadVisitor visitor,
    void *capture);

// As `TF_SetStatusFromIOError`.
TF_CAPI_EXPORT void TSL_SetStatusFromIOError(TF_Status *status, int error_code,
    const char *context);

// As `TF_GetCode`.
TF_CAPI_EXPORT TF_Code TSL_GetCode(const TF_Status *status);

// As `TF_Message`.
TF_CAPI_EXPORT const char *TSL_Message(const TF_Status *status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_TF_STATUS_H_ */
