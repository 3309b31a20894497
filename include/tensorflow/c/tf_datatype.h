#ifndef TENSORFLOW_C_TF_DATATYPE_H_
#define TENSORFLOW_C_TF_DATATYPE_H_

#include <stddef.h>
#include "tensorflow/c/c_api_macros.h"

// The older name.
#define TF_COMPLEX TF_COMPLEX64

// The element types. A value of 100 more is the reference form of a type, as variables hand it
// out.
typedef enum TF_DataType {
  TF_FLOAT = 1,
  TF_DOUBLE = 2,
  TF_INT32 = 3,
  TF_UINT8 = 4,
  TF_INT16 = 5,
  TF_INT8 = 6,
  TF_STRING = 7,
  TF_COMPLEX64 = 8,
  TF_INT64 = 9,
  TF_BOOL = 10,
  // Quantized int8.
  TF_QINT8 = 11,
  // Quantized uint8.
  TF_QUINT8 = 12,
  // Quantized int32.
  TF_QINT32 = 13,
  // The upper 16 bits of a float.
  TF_BFLOAT16 = 14,
  // Quantized int16.
  TF_QINT16 = 15,
  // Quantized uint16.
  TF_QUINT16 = 16,
  TF_UINT16 = 17,
  TF_COMPLEX128 = 18,
  TF_HALF = 19,
  TF_RESOURCE = 20,
  TF_VARIANT = 21,
  TF_UINT32 = 22,
  TF_UINT64 = 23,
  TF_FLOAT8_E5M2 = 24,
  TF_FLOAT8_E4M3FN = 25,
  TF_FLOAT8_E4M3FNUZ = 26,
  TF_FLOAT8_E4M3B11FNUZ = 27,
  TF_FLOAT8_E5M2FNUZ = 28,
  TF_INT4 = 29,
  TF_UINT4 = 30,
  TF_INT2 = 31,
  TF_UINT2 = 32,
  TF_FLOAT4_E2M1FN = 33,
} TF_DataType;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the bytes that one element of a type takes; 0 for types of variable size and unknown
// types.
TF_CAPI_EXPORT size_t TF_DataTypeSize(TF_DataType dt);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_TF_DATATYPE_H_ */
