/* TF_DataType: the numbers of the types and the sizes of their elements. */
#include "check.h"

static void numbers(void) {
  CHECK_INT(TF_FLOAT, 1);
  CHECK_INT(TF_STRING, 7);
  CHECK_INT(TF_COMPLEX, TF_COMPLEX64);
  CHECK_INT(TF_BOOL, 10);
  CHECK_INT(TF_HALF, 19);
  CHECK_INT(TF_RESOURCE, 20);
  CHECK_INT(TF_VARIANT, 21);
  CHECK_INT(TF_UINT64, 23);
  CHECK_INT(TF_FLOAT8_E5M2FNUZ, 28);
  CHECK_INT(TF_FLOAT4_E2M1FN, 33);
}

static void sizes(void) {
  static const struct {
    TF_DataType dtype;
    size_t size;
  } table[] = {
      {TF_FLOAT, 4},
      {TF_DOUBLE, 8},
      {TF_INT32, 4},
      {TF_UINT8, 1},
      {TF_INT16, 2},
      {TF_INT8, 1},
      {TF_STRING, 0},
      {TF_COMPLEX64, 8},
      {TF_INT64, 8},
      {TF_BOOL, 1},
      {TF_QINT8, 1},
      {TF_QUINT8, 1},
      {TF_QINT32, 4},
      {TF_BFLOAT16, 2},
      {TF_QINT16, 2},
      {TF_QUINT16, 2},
      {TF_UINT16, 2},
      {TF_COMPLEX128, 16},
      {TF_HALF, 2},
      {TF_RESOURCE, 0},
      {TF_VARIANT, 0},
      {TF_UINT32, 4},
      {TF_UINT64, 8},
      {TF_FLOAT8_E5M2, 1},
      {TF_FLOAT8_E4M3FN, 1},
      {TF_FLOAT8_E4M3FNUZ, 1},
      {TF_FLOAT8_E4M3B11FNUZ, 1},
      {TF_FLOAT8_E5M2FNUZ, 1},
      {TF_INT4, 1},
      {TF_UINT4, 1},
      {TF_INT2, 1},
      {TF_UINT2, 1},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (TF_DataTypeSize(table[i].dtype) != table[i].size)
      CHECK_FAIL("type %d has size %zu", table[i].dtype, TF_DataTypeSize(table[i].dtype));
}

static void unknown_types_have_size_zero(void) {
  static const int unknown[] = {0, 34, 50, 99, 100, 101, 133, 1000, -1};
  for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
    CHECK_INT(TF_DataTypeSize((TF_DataType)unknown[i]), 0);
}

CASES(CASE(numbers), CASE(sizes), CASE(unknown_types_have_size_zero))
