/* y = x * W + b, built node by node: first with constants, then with variables that are assigned and changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

static TF_Status *status;
static TF_Graph *graph;

/* Ends the program if the last call failed. */
static void require_ok(const char *what) {
  if (TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "%s: %s\n", what, TF_Message(status));
  exit(EXIT_FAILURE);
}

/* A float matrix with a copy of `values`. */
static TF_Tensor *matrix(int64_t rows, int64_t columns, const float *values) {
  const int64_t dims[] = {rows, columns};
  size_t bytes = (size_t)(rows * columns) * sizeof(float);
  TF_Tensor *tensor = TF_AllocateTensor(TF_FLOAT, dims, 2, bytes);
  if (tensor == NULL) {
    fprintf(stderr, "out of memory\n");
    exit(EXIT_FAILURE);
  }
  memcpy(TF_TensorData(tensor), values, bytes);
  return tensor;
}

/* Adds the described node to the graph; its first output. */
static TF_Output finish(TF_OperationDescription *node, const char *name) {
  TF_Operation *operation = TF_FinishOperation(node, status);
  require_ok(name);
  return (TF_Output){operation, 0};
}

/* A constant. The tensor may be deleted at once: the graph holds its own reference. */
static TF_Output constant(TF_Tensor *value, const char *name) {
  TF_OperationDescription *node = TF_NewOperation(graph, "Const", name);
  TF_SetAttrType(node, "dtype", TF_TensorType(value));
  TF_SetAttrTensor(node, "value", value, status);
  require_ok(name);
  TF_DeleteTensor(value);
  return finish(node, name);
}

/* A node with two inputs; the type attribute follows from them. */
static TF_Output binary(const char *op, TF_Output a, TF_Output b, const char *name) {
  TF_OperationDescription *node = TF_NewOperation(graph, op, name);
  TF_AddInput(node, a);
  TF_AddInput(node, b);
  return finish(node, name);
}

/* A float matrix that the session keeps from run to run. */
static TF_Output variable(int64_t rows, int64_t columns, const char *name) {
  const int64_t dims[] = {rows, columns};
  TF_OperationDescription *node = TF_NewOperation(graph, "VariableV2", name);
  TF_SetAttrType(node, "dtype", TF_FLOAT);
  TF_SetAttrShape(node, "shape", dims, 2);
  return finish(node, name);
}

/* Feeds `input` with `value`, prints the matrix `output`. */
static void run_and_print(TF_Session *session, TF_Output input, TF_Tensor *value, TF_Output output) {
  TF_Tensor *result = NULL;
  TF_SessionRun(session, NULL, &input, &value, 1, &output, &result, 1, NULL, 0, NULL, status);
  require_ok("run");
  const float *elements = TF_TensorData(result);
  for (int64_t row = 0; row < TF_Dim(result, 0); row++) {
    printf("  ");
    for (int64_t column = 0; column < TF_Dim(result, 1); column++) printf(" %6.2f", *elements++);
    printf("\n");
  }
  TF_DeleteTensor(result);
}

static void run_target(TF_Session *session, TF_Output target) {
  const TF_Operation *operation = target.oper;
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, &operation, 1, NULL, status);
  require_ok("run target");
}

int main(void) {
  status = TF_NewStatus();
  graph = TF_NewGraph();

  /* x has any number of rows: -1. */
  const int64_t x_shape[] = {-1, 2};
  TF_OperationDescription *node = TF_NewOperation(graph, "Placeholder", "x");
  TF_SetAttrType(node, "dtype", TF_FLOAT);
  TF_SetAttrShape(node, "shape", x_shape, 2);
  TF_Output x = finish(node, "x");

  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_NewSession(graph, options, status);
  require_ok("open session");
  TF_DeleteSessionOptions(options);
  TF_Tensor *value = matrix(2, 2, (float[]){1, 2, 3, 4});

  TF_Output w = constant(matrix(2, 3, (float[]){1, 0, 2, 0, 1, -1}), "W");
  TF_Output b = constant(matrix(1, 3, (float[]){10, 20, 30}), "b");
  TF_Output y = binary("AddV2", binary("MatMul", x, w, "xW"), b, "y");
  printf("y = x * W + b with constants:\n");
  run_and_print(session, x, value, y);

  /* The session takes over nodes that were added since its last run. */
  TF_Output w_variable = variable(2, 3, "W_variable");
  TF_Output b_variable = variable(1, 3, "b_variable");
  TF_Output assign_w = binary("Assign", w_variable, w, "W_assign");
  TF_Output assign_b = binary("Assign", b_variable, b, "b_assign");
  TF_Output double_b = binary("AssignAdd", b_variable, b_variable, "b_double");
  TF_Output z = binary("AddV2", binary("MatMul", x, w_variable, "xW_variable"), b_variable, "z");
  run_target(session, assign_w);
  run_target(session, assign_b);
  printf("the same with variables:\n");
  run_and_print(session, x, value, z);
  run_target(session, double_b);
  printf("after b was doubled:\n");
  run_and_print(session, x, value, z);

  TF_DeleteTensor(value);
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return EXIT_SUCCESS;
}
