/* Static shapes: what inference finds, how clients read and refine it. */
#include "nodes.h"

/* The output has this static shape; rank -1 is unknown, so is a dimension of -1. */
static void check_shape(TF_Graph *g, TF_Output o, int rank, const int64_t *dims) {
  TF_SetStatus(status, TF_OK, ""); /* the getters need not clear an earlier error */
  int actual = TF_GraphGetTensorNumDims(g, o, status);
  CHECK_OK(status);
  CHECK_INT(actual, rank);
  int64_t found[8];
  TF_GraphGetTensorShape(g, o, found, rank, status);
  CHECK_OK(status);
  for (int i = 0; i < rank; i++)
    if (found[i] != dims[i]) CHECK_FAIL("dimension %d is %lld, not %lld", i, (long long)found[i], (long long)dims[i]);
}

#define DIMS(...) ((int64_t[]){__VA_ARGS__})

static void placeholders(void) {
  TF_Graph *g = TF_NewGraph();
  check_shape(g, output(placeholder(g, TF_FLOAT, "any"), 0), -1, NULL);
  check_shape(g, output(shaped(g, TF_FLOAT, NULL, 0, "scalar"), 0), 0, NULL);
  check_shape(g, output(shaped(g, TF_FLOAT, DIMS(2, -1), 2, "matrix"), 0), 2, DIMS(2, -1));
  check_shape(g, output(shaped(g, TF_FLOAT, DIMS(-7, 0), 2, "below_minus_one"), 0), 2, DIMS(-1, 0));
  TF_DeleteGraph(g);
}

static void wrong_rank(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(shaped(g, TF_FLOAT, DIMS(2, 3), 2, "x"), 0);
  int64_t dims[3] = {0};
  TF_GraphGetTensorShape(g, x, dims, 3, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Expected rank is 3 but actual rank is 2");
  TF_Output any = output(placeholder(g, TF_FLOAT, "any"), 0);
  TF_GraphGetTensorShape(g, any, dims, 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Expected rank is 1 but actual rank is -1");
  TF_DeleteGraph(g);
}

static void inference(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output a = output(shaped(g, TF_FLOAT, DIMS(2, 1), 2, "a"), 0);
  TF_Output b = output(shaped(g, TF_FLOAT, DIMS(-1, 5), 2, "b"), 0);
  TF_Output any = output(placeholder(g, TF_FLOAT, "any"), 0);
  check_shape(g, output(unary(g, "Neg", a, "neg"), 0), 2, DIMS(2, 1));
  check_shape(g, output(binary(g, "AddV2", a, b, "sum"), 0), 2, DIMS(2, 5));
  check_shape(g, output(binary(g, "AddV2", a, any, "sum_any"), 0), -1, NULL);
  check_shape(g, output(binary(g, "MatMul", a, any, "product"), 0), 2, DIMS(2, -1));
  check_shape(g, output(unary(g, "Shape", b, "shape"), 0), 1, DIMS(2));
  TF_Output two[2] = {a, a};
  TF_OperationDescription *desc = TF_NewOperation(g, "Pack", "pack");
  TF_AddInputList(desc, two, 2);
  TF_SetAttrInt(desc, "axis", 1);
  check_shape(g, output(finish(desc), 0), 3, DIMS(2, 2, 1));
  desc = TF_NewOperation(g, "TopKV2", "top");
  TF_AddInput(desc, b);
  TF_AddInput(desc, output(constant(g, i32_scalar(3), "k"), 0));
  TF_Operation *top = finish(desc);
  check_shape(g, output(top, 0), 2, DIMS(-1, 3));
  check_shape(g, output(top, 1), 2, DIMS(-1, 3));
  check_shape(g, output(unary(g, "Unique", output(shaped(g, TF_FLOAT, DIMS(4), 1, "v"), 0), "unique"), 0), 1, DIMS(-1));
  TF_DeleteGraph(g);
}

/* Some shapes follow from the values of operands, known as constants or in part. */
static void operand_values(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(shaped(g, TF_FLOAT, DIMS(6, -1), 2, "x"), 0);
  TF_Output vector = output(shaped(g, TF_FLOAT, DIMS(6), 1, "vector"), 0);
  TF_Output to = output(constant(g, i32_vector(2, (int32_t[]){-1, 2}), "to"), 0);
  check_shape(g, output(binary(g, "Reshape", vector, to, "reshape"), 0), 2, DIMS(3, 2));
  TF_Output zero = output(constant(g, f32_scalar(0), "zero"), 0);
  TF_Output shape = output(unary(g, "Shape", x, "shape"), 0);
  check_shape(g, output(binary(g, "Fill", shape, zero, "fill"), 0), 2, DIMS(6, -1));
  TF_Output twice = output(binary(g, "Mul", to, to, "twice"), 0);
  check_shape(g, output(binary(g, "Fill", twice, zero, "fill_twice"), 0), 2, DIMS(1, 4));
  TF_Output fed = output(placeholder(g, TF_INT32, "fed"), 0);
  check_shape(g, output(binary(g, "Reshape", vector, fed, "reshape_fed"), 0), -1, NULL);
  TF_DeleteGraph(g);
}

static void set_shape_merges(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0);
  TF_Operation *before = unary(g, "Neg", x, "before");
  TF_GraphSetTensorShape(g, x, NULL, -1, status);
  CHECK_OK(status);
  check_shape(g, x, -1, NULL);
  TF_GraphSetTensorShape(g, x, DIMS(2, -1), 2, status);
  CHECK_OK(status);
  check_shape(g, x, 2, DIMS(2, -1));
  TF_GraphSetTensorShape(g, x, DIMS(-1, 3), 2, status);
  CHECK_OK(status);
  check_shape(g, x, 2, DIMS(2, 3));
  TF_GraphSetTensorShape(g, x, DIMS(-1, -1), 2, status);
  CHECK_OK(status);
  check_shape(g, x, 2, DIMS(2, 3));
  TF_GraphSetTensorShape(g, x, NULL, -1, status);
  CHECK_OK(status);
  check_shape(g, x, 2, DIMS(2, 3));
  /* Consumers that exist already keep what was inferred for them. */
  check_shape(g, output(before, 0), -1, NULL);
  check_shape(g, output(unary(g, "Neg", x, "after"), 0), 2, DIMS(2, 3));
  TF_DeleteGraph(g);
}

static void set_shape_conflicts(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(shaped(g, TF_FLOAT, DIMS(2, 3), 2, "x"), 0);
  TF_GraphSetTensorShape(g, x, DIMS(3, 3), 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "Dimension 0 in both shapes must be equal, but are 2 and 3. Shapes are [2,3] and [3,3].");
  TF_GraphSetTensorShape(g, x, DIMS(2), 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Shapes must be equal rank, but are 2 and 1");
  TF_GraphSetTensorShape(g, x, NULL, 0, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Shapes must be equal rank, but are 2 and 0");
  check_shape(g, x, 2, DIMS(2, 3));
  TF_DeleteGraph(g);
}

static void operations_of_another_graph(void) {
  TF_Graph *g = TF_NewGraph(), *other = TF_NewGraph();
  TF_Output x = output(placeholder(other, TF_FLOAT, "a"), 0);
  int64_t dims[1];
  CHECK_INT(TF_GraphGetTensorNumDims(g, x, status), -1);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Node a was not found in the graph");
  TF_GraphGetTensorShape(g, x, dims, 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Node a was not found in the graph");
  TF_GraphSetTensorShape(g, x, DIMS(1), 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Node a was not found in the graph");
  TF_DeleteGraph(g);
  TF_DeleteGraph(other);
}

static void resource_variables_know_their_shape(void) {
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "VarHandleOp", "v");
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", DIMS(4, -1), 2);
  TF_Operation *v = finish(desc);
  check_shape(g, output(v, 0), 0, NULL);
  desc = TF_NewOperation(g, "ReadVariableOp", "read");
  TF_AddInput(desc, output(v, 0));
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  check_shape(g, output(finish(desc), 0), 2, DIMS(4, -1));
  TF_DeleteGraph(g);
}

static void null_arguments(void) {
  if (!is_tfcore()) return; /* the reference crashes */
  TF_Graph *g = TF_NewGraph();
  CHECK_INT(TF_GraphGetTensorNumDims(g, output(NULL, 0), status), -1);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_Output beyond = output(placeholder(g, TF_FLOAT, "x"), 5);
  CHECK_INT(TF_GraphGetTensorNumDims(g, beyond, status), -1);
  CHECK(TF_GetCode(status) != TF_OK);
  TF_DeleteGraph(g);
}

CASES(CASE(placeholders), CASE(wrong_rank), CASE(inference), CASE(operand_values), CASE(set_shape_merges),
      CASE(set_shape_conflicts), CASE(operations_of_another_graph), CASE(resource_variables_know_their_shape),
      CASE(null_arguments))
