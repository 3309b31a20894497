/* Short ways to make tensors, build nodes and run sessions. All of them end the case on an error. */
#ifndef CAPI_TESTS_NODES_H_
#define CAPI_TESTS_NODES_H_

#include "check.h"

/* ---- tensors ---- */

/* A tensor with a copy of `bytes` bytes of `values`. */
static inline TF_Tensor *tensor_of(TF_DataType dtype, const int64_t *dims, int rank, const void *values, size_t bytes) {
  TF_Tensor *t = TF_AllocateTensor(dtype, dims, rank, bytes);
  CHECK(t != NULL);
  if (bytes > 0) memcpy(TF_TensorData(t), values, bytes);
  return t;
}

static inline TF_Tensor *f32_scalar(float value) { return tensor_of(TF_FLOAT, NULL, 0, &value, sizeof value); }
static inline TF_Tensor *i32_scalar(int32_t value) { return tensor_of(TF_INT32, NULL, 0, &value, sizeof value); }

static inline TF_Tensor *f32_vector(int64_t n, const float *values) {
  return tensor_of(TF_FLOAT, &n, 1, values, (size_t)n * sizeof *values);
}

static inline TF_Tensor *i32_vector(int64_t n, const int32_t *values) {
  return tensor_of(TF_INT32, &n, 1, values, (size_t)n * sizeof *values);
}

static inline TF_Tensor *f32_matrix(int64_t rows, int64_t columns, const float *values) {
  int64_t dims[2] = {rows, columns};
  return tensor_of(TF_FLOAT, dims, 2, values, (size_t)(rows * columns) * sizeof *values);
}

static inline TF_Tensor *string_scalar(const char *value) {
  TF_Tensor *t = TF_AllocateTensor(TF_STRING, NULL, 0, sizeof(TF_TString));
  CHECK(t != NULL);
  TF_TString *string = TF_TensorData(t);
  TF_StringInit(string);
  TF_StringCopy(string, value, strlen(value));
  return t;
}

static inline float f32_at(const TF_Tensor *t, int i) { return ((const float *)TF_TensorData(t))[i]; }
static inline int32_t i32_at(const TF_Tensor *t, int i) { return ((const int32_t *)TF_TensorData(t))[i]; }

/* `t` is a float tensor with exactly these elements. */
static inline bool is_f32(const TF_Tensor *t, int n, const float *values) {
  if (TF_TensorType(t) != TF_FLOAT || TF_TensorElementCount(t) != n) return false;
  for (int i = 0; i < n; i++)
    if (f32_at(t, i) != values[i]) return false;
  return true;
}

/* ---- nodes ---- */

static inline TF_Output output(TF_Operation *op, int index) {
  TF_Output o = {op, index};
  return o;
}

static inline TF_Input input(TF_Operation *op, int index) {
  TF_Input i = {op, index};
  return i;
}

static inline TF_Operation *finish(TF_OperationDescription *desc) {
  TF_Operation *op = TF_FinishOperation(desc, status);
  CHECK_OK(status);
  CHECK(op != NULL);
  return op;
}

/* Finishing fails with this code and a message that contains `part`. */
static inline void finish_fails(TF_OperationDescription *desc, TF_Code code, const char *part) {
  TF_Operation *op = TF_FinishOperation(desc, status);
  CHECK_ERROR(status, code, part);
  CHECK(op == NULL);
}

static inline TF_Operation *placeholder(TF_Graph *g, TF_DataType dtype, const char *name) {
  TF_OperationDescription *desc = TF_NewOperation(g, "Placeholder", name);
  TF_SetAttrType(desc, "dtype", dtype);
  return finish(desc);
}

static inline TF_Operation *shaped(TF_Graph *g, TF_DataType dtype, const int64_t *dims, int rank, const char *name) {
  TF_OperationDescription *desc = TF_NewOperation(g, "Placeholder", name);
  TF_SetAttrType(desc, "dtype", dtype);
  TF_SetAttrShape(desc, "shape", dims, rank);
  return finish(desc);
}

/* A Const node; takes over `value`. */
static inline TF_Operation *constant(TF_Graph *g, TF_Tensor *value, const char *name) {
  TF_OperationDescription *desc = TF_NewOperation(g, "Const", name);
  TF_SetAttrType(desc, "dtype", TF_TensorType(value));
  TF_SetAttrTensor(desc, "value", value, status);
  CHECK_OK(status);
  TF_DeleteTensor(value);
  return finish(desc);
}

static inline TF_Operation *unary(TF_Graph *g, const char *type, TF_Output x, const char *name) {
  TF_OperationDescription *desc = TF_NewOperation(g, type, name);
  TF_AddInput(desc, x);
  return finish(desc);
}

static inline TF_Operation *binary(TF_Graph *g, const char *type, TF_Output x, TF_Output y, const char *name) {
  TF_OperationDescription *desc = TF_NewOperation(g, type, name);
  TF_AddInput(desc, x);
  TF_AddInput(desc, y);
  return finish(desc);
}

static inline TF_Operation *no_op(TF_Graph *g, const char *name) { return finish(TF_NewOperation(g, "NoOp", name)); }

/* The number of operations in the graph. */
static inline int count_operations(TF_Graph *g) {
  int count = 0;
  for (size_t pos = 0; TF_GraphNextOperation(g, &pos) != NULL;) count++;
  return count;
}

/* ---- sessions ---- */

static inline TF_Session *new_session(TF_Graph *g) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_NewSession(g, options, status);
  TF_DeleteSessionOptions(options);
  CHECK_OK(status);
  CHECK(session != NULL);
  return session;
}

static inline void delete_session(TF_Session *session) {
  TF_DeleteSession(session, status);
  CHECK_OK(status);
}

/* Runs without checking the status; returns the fetched tensor or NULL. Takes over `value`. */
static inline TF_Tensor *try_fetch_with(TF_Session *session, TF_Output feed, TF_Tensor *value, TF_Output fetch) {
  TF_Tensor *result = NULL;
  TF_SessionRun(session, NULL, &feed, &value, 1, &fetch, &result, 1, NULL, 0, NULL, status);
  TF_DeleteTensor(value);
  return result;
}

static inline TF_Tensor *try_fetch(TF_Session *session, TF_Output fetch) {
  TF_Tensor *result = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &fetch, &result, 1, NULL, 0, NULL, status);
  return result;
}

/* Feeds `value` (and takes it over), fetches one tensor. */
static inline TF_Tensor *fetch_with(TF_Session *session, TF_Output feed, TF_Tensor *value, TF_Output fetch) {
  TF_Tensor *result = try_fetch_with(session, feed, value, fetch);
  CHECK_OK(status);
  CHECK(result != NULL);
  return result;
}

static inline TF_Tensor *fetch(TF_Session *session, TF_Output what) {
  TF_Tensor *result = try_fetch(session, what);
  CHECK_OK(status);
  CHECK(result != NULL);
  return result;
}

/* Fetches a float scalar. */
static inline float fetch_f32(TF_Session *session, TF_Output what) {
  TF_Tensor *t = fetch(session, what);
  CHECK_INT(TF_TensorType(t), TF_FLOAT);
  CHECK_INT(TF_NumDims(t), 0);
  float value = f32_at(t, 0);
  TF_DeleteTensor(t);
  return value;
}

static inline void run_target(TF_Session *session, const TF_Operation *target) {
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, &target, 1, NULL, status);
  CHECK_OK(status);
}

#endif
