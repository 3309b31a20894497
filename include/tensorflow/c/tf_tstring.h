#ifndef TENSORFLOW_C_TF_TSTRING_H_
#define TENSORFLOW_C_TF_TSTRING_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_tensor.h"

// Where a string's bytes are. The kind is in the two low bits of the first byte.
typedef enum TF_TString_Type {
  // In the struct itself.
  TF_TSTR_SMALL = 0,
  // In a block of malloc, which the string owns.
  TF_TSTR_LARGE = 1,
  // At an offset from the struct, which owns nothing.
  TF_TSTR_OFFSET = 2,
  // In memory of somebody else.
  TF_TSTR_VIEW = 3,
  TF_TSTR_TYPE_MASK = 3
} TF_TString_Type;

// Who owns the bytes of a view: a counter of references.
typedef struct TStringOwnerCApi {
  void (*ref)(struct TStringOwnerCApi *self);
  // True if this was the last reference.
  bool (*unref)(struct TStringOwnerCApi *self);
  void *obj;
} TStringOwnerCApi;

// All sizes but the small one's are `size << 2 | kind`.
typedef struct TF_TString_Large {
  size_t size;
  // Without the NUL at the end.
  size_t cap;
  char *ptr;
} TF_TString_Large;

typedef struct TF_TString_Offset {
  uint32_t size;
  // From the address of the struct.
  uint32_t offset;
  uint32_t count;
} TF_TString_Offset;

typedef struct TF_TString_View {
  size_t size;
  const char *ptr;
  // May be null.
  TStringOwnerCApi *owner_ref;
} TF_TString_View;

typedef struct TF_TString_Raw {
  uint8_t raw[24];
} TF_TString_Raw;

enum { TF_TString_SmallCapacity = 22 };

typedef struct TF_TString_Small {
  // size << 2
  uint8_t size;
  // NUL-terminated.
  char str[TF_TString_SmallCapacity + 1];
} TF_TString_Small;

// A string element of a tensor: 24 bytes, on little-endian machines. Read and change it with the functions below.
typedef struct TF_TString {
  union {
    TF_TString_Small smll;
    TF_TString_Large large;
    TF_TString_Offset offset;
    TF_TString_View view;
    TF_TString_Raw raw;
  } u;
} TF_TString;

// The same functions as TensorFlow's ctstring.h names them.
#define TF_TString_Init TF_StringInit
#define TF_TString_Dealloc TF_StringDealloc
#define TF_TString_Copy TF_StringCopy
#define TF_TString_AssignView TF_StringAssignView
#define TF_TString_GetType TF_StringGetType
#define TF_TString_GetSize TF_StringGetSize
#define TF_TString_GetCapacity TF_StringGetCapacity
#define TF_TString_GetDataPointer TF_StringGetDataPointer

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes an empty string of uninitialised memory. Never call it on a string that owns a block.
TF_CAPI_EXPORT void TF_StringInit(TF_TString *str);

// Replaces the content of `dst` by a copy of `size` bytes.
TF_CAPI_EXPORT void TF_StringCopy(TF_TString *dst, const char *src, size_t size);

// Makes `dst` a view of `size` bytes, which it does not own.
TF_CAPI_EXPORT void TF_StringAssignView(TF_TString *dst, const char *src, size_t size);

// Returns the address of the first byte.
TF_CAPI_EXPORT const char *TF_StringGetDataPointer(const TF_TString *tstr);

// Returns where the bytes live.
TF_CAPI_EXPORT TF_TString_Type TF_StringGetType(const TF_TString *str);

// Returns the number of bytes.
TF_CAPI_EXPORT size_t TF_StringGetSize(const TF_TString *tstr);

// Returns the number of bytes that fit without a new block.
TF_CAPI_EXPORT size_t TF_StringGetCapacity(const TF_TString *str);

// Frees what the string owns; afterwards it is empty and may be used again.
TF_CAPI_EXPORT void TF_StringDealloc(TF_TString *tstr);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_TF_TSTRING_H_ */
