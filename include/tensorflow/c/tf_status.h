#ifndef TENSORFLOW_C_TF_STATUS_H_
#define TENSORFLOW_C_TF_STATUS_H_

#include "tensorflow/c/c_api_macros.h"



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

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_TF_STATUS_H_ */
