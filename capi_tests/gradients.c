/* Gradients: which operations are added, what they are called, and what comes out. */
#include "check.h"
#include "describe.h"
#include "nodes.h"

static TF_Output x_of(TF_Graph *g) { return output(placeholder(g, TF_FLOAT, "x"), 0); }
static TF_Output tanh_of(TF_Graph *g, TF_Output x, const char *name) { return output(unary(g, "Tanh", x, name), 0); }

/* The gradient of one output by another. */
static TF_Output gradient(TF_Graph *g, TF_Output y, TF_Output x, const char *prefix) {
  TF_Output dy = {NULL, -7};
  TF_AddGradientsWithPrefix(g, prefix, &y, 1, &x, 1, NULL, status, &dy);
  CHECK_OK(status);
  return dy;
}

/* Adding the gradient fails, and our graph is as before. */
static void gradient_fails(TF_Graph *g, TF_Output y, TF_Output x, const char *prefix, TF_Code code, const char *part) {
  int before = count_operations(g);
  TF_Output dy = {NULL, -7};
  TF_SetStatus(status, TF_OK, ""); /* The reference keeps an older error. */
  TF_AddGradientsWithPrefix(g, prefix, &y, 1, &x, 1, NULL, status, &dy);
  CHECK_ERROR(status, code, part);
  /* The reference leaves behind what it had built. */
  if (is_tfcore()) CHECK_INT(count_operations(g), before);
}

static void names_are_in_a_scope(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = x_of(g), y = tanh_of(g, x, "y");
  TF_Output dx = {NULL, -7};
  TF_AddGradients(g, &y, 1, &x, 1, NULL, status, &dx);
  CHECK_OK(status);
  CHECK_STR(TF_OperationName(dx.oper), "gradients/TanhGrad");
  CHECK_INT(dx.index, 0);
  CHECK_OPERATIONS(g, 2, "gradients/OnesLike = OnesLike(y:0)",
                   "gradients/TanhGrad = TanhGrad(y:0, gradients/OnesLike:0, ^gradients/OnesLike)");
  CHECK_STR(TF_OperationName(gradient(g, y, x, NULL).oper), "gradients_1/TanhGrad");
  CHECK_STR(TF_OperationName(gradient(g, y, x, NULL).oper), "gradients_2/TanhGrad");
  CHECK_STR(TF_OperationName(gradient(g, y, x, "mine").oper), "mine/TanhGrad");
  CHECK_STR(TF_OperationName(gradient(g, y, x, "a/b").oper), "a/b/TanhGrad");
  gradient_fails(g, y, x, "mine", TF_INVALID_ARGUMENT, "prefix [mine] conflicts with existing node in the graph named [mine/");
  gradient_fails(g, y, x, "y", TF_INVALID_ARGUMENT, "prefix [y] conflicts with existing node in the graph named [y]");
  gradient_fails(g, y, x, "a", TF_INVALID_ARGUMENT, "prefix [a] conflicts with existing node in the graph named [a/b/");
  gradient_fails(g, y, x, "", TF_INTERNAL, "The gradients prefix have been unexpectedly altered");
  TF_DeleteGraph(g);
}

static void a_name_or_a_scope_moves_the_default(void) {
  const char *taken[] = {"gradients", "gradients/inner"};
  for (int i = 0; i < 2; i++) {
    TF_Graph *g = TF_NewGraph();
    TF_Output x = x_of(g), y = tanh_of(g, x, taken[i]);
    CHECK_STR(TF_OperationName(gradient(g, y, x, NULL).oper), "gradients_1/TanhGrad");
    TF_DeleteGraph(g);
  }
}

static void contributions_are_summed(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = x_of(g), a = tanh_of(g, x, "a");
  TF_Output b = output(unary(g, "Exp", a, "b"), 0);
  TF_Output ys[2] = {a, b}, dx = {NULL, -7};
  TF_AddGradients(g, ys, 2, &x, 1, NULL, status, &dx);
  CHECK_OK(status);
  CHECK_OPERATIONS(g, 3, "gradients/OnesLike = OnesLike(a:0)", "gradients/OnesLike_1 = OnesLike(b:0)",
                   "gradients/Multiply = Mul(gradients/OnesLike_1:0, b:0)",
                   "gradients/AddN = AddN(gradients/OnesLike:0, gradients/Multiply:0)",
                   "gradients/TanhGrad = TanhGrad(a:0, gradients/AddN:0, ^gradients/AddN)");
  TF_DeleteGraph(g);
}

static void inner_values_may_be_asked_for(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = x_of(g), a = tanh_of(g, x, "a");
  TF_Output y = output(unary(g, "Exp", a, "y"), 0);
  TF_Output xs[2] = {a, x}, dxs[2] = {{NULL, -7}, {NULL, -7}};
  TF_AddGradients(g, &y, 1, xs, 2, NULL, status, dxs);
  CHECK_OK(status);
  CHECK_STR(TF_OperationName(dxs[0].oper), "gradients/Multiply");
  CHECK_STR(TF_OperationName(dxs[1].oper), "gradients/TanhGrad");
  TF_DeleteGraph(g);
}

static void the_same_value_twice(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = x_of(g), y = tanh_of(g, x, "y");
  TF_Output xs[2] = {x, x}, dxs[2] = {{NULL, -7}, {NULL, -7}};
  TF_AddGradients(g, &y, 1, xs, 2, NULL, status, dxs);
  CHECK_OK(status);
  CHECK_STR(TF_OperationName(dxs[0].oper), "gradients/TanhGrad");
  /* The reference answers the first one only. */
  if (is_tfcore()) CHECK(dxs[1].oper == dxs[0].oper);
  /* A value differentiated by itself. */
  CHECK_STR(TF_OperationName(gradient(g, x, x, "self").oper), "self/OnesLike");
  TF_DeleteGraph(g);
}

static void nothing_flows_back(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = x_of(g);
  TF_Output y = output(unary(g, "Floor", x, "y"), 0);
  TF_Output z = output(binary(g, "Equal", x, x, "z"), 0);
  CHECK(gradient(g, y, x, NULL).oper == NULL);
  CHECK(gradient(g, z, x, NULL).oper == NULL);
  TF_DeleteGraph(g);
}

static void wrong_requests(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = x_of(g), y = tanh_of(g, x, "y");
  TF_Output z = output(placeholder(g, TF_FLOAT, "z"), 0);
  TF_Output ceil = output(unary(g, "Ceil", x, "ceil"), 0);
  gradient_fails(g, y, z, NULL, TF_INVALID_ARGUMENT,
                 "Cannot compute the partial derivative for node 'z' as it's unreachable from the output node(s).");
  gradient_fails(g, ceil, x, NULL, TF_NOT_FOUND, "No gradient defined for op: Ceil. Please see ");
  if (is_tfcore()) {
    /* The reference reads behind the outputs, and follows pointers into the other graph. */
    gradient_fails(g, output(y.oper, 1), x, NULL, TF_OUT_OF_RANGE, "does not have output 1");
    gradient_fails(g, y, output(x.oper, -1), NULL, TF_OUT_OF_RANGE, "does not have output -1");
    TF_Graph *other = TF_NewGraph();
    gradient_fails(g, y, x_of(other), NULL, TF_INVALID_ARGUMENT, "not found in the graph");
    TF_DeleteGraph(other);
    TF_Output dy = {NULL, -7};
    TF_AddGradients(g, &y, -1, &x, 1, NULL, status, &dy);
    CHECK_CODE(status, TF_INVALID_ARGUMENT);
    TF_AddGradients(g, NULL, 1, &x, 1, NULL, status, &dy);
    CHECK_CODE(status, TF_INVALID_ARGUMENT);
    TF_AddGradients(g, &y, 1, &x, 1, NULL, status, NULL);
    CHECK_CODE(status, TF_INVALID_ARGUMENT);
  }
  TF_DeleteGraph(g);
}

static void values(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = x_of(g), weights = output(placeholder(g, TF_FLOAT, "weights"), 0);
  TF_Output square = output(unary(g, "Square", x, "square"), 0);
  TF_Output y = output(unary(g, "Neg", square, "y"), 0), dx = {NULL, -7};
  TF_AddGradients(g, &y, 1, &x, 1, &weights, status, &dx);
  CHECK_OK(status);
  TF_Session *session = new_session(g);
  TF_Output feeds[2] = {x, weights};
  float at[3] = {1.0f, -2.0f, 0.5f}, weighted[3] = {1.0f, 1.0f, 3.0f}, expected[3] = {-2.0f, 4.0f, -3.0f};
  TF_Tensor *fed[2] = {f32_vector(3, at), f32_vector(3, weighted)}, *result = NULL;
  TF_SessionRun(session, NULL, feeds, fed, 2, &dx, &result, 1, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK(is_f32(result, 3, expected));
  TF_DeleteTensor(result);
  /* The second derivative: each call sees the operations of the one before. */
  TF_Output second = gradient(g, dx, x, NULL);
  float expected_second[3] = {-2.0f, -2.0f, -6.0f};
  TF_SessionRun(session, NULL, feeds, fed, 2, &second, &result, 1, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK(is_f32(result, 3, expected_second));
  TF_DeleteTensor(result);
  TF_DeleteTensor(fed[0]);
  TF_DeleteTensor(fed[1]);
  delete_session(session);
  TF_DeleteGraph(g);
}

/* A chain of 20,000 nodes: neither deep recursion nor quadratic time. */
static void long_chains(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = x_of(g), y = x;
  for (int i = 0; i < 20000; i++) {
    char name[20];
    snprintf(name, sizeof name, "n%d", i);
    y = output(unary(g, "Neg", y, name), 0);
  }
  CHECK_STR(TF_OperationName(gradient(g, y, x, NULL).oper), "gradients/Negate_19999");
  TF_DeleteGraph(g);
}

CASES(CASE(names_are_in_a_scope), CASE(a_name_or_a_scope_moves_the_default), CASE(contributions_are_summed),
      CASE(inner_values_may_be_asked_for), CASE(the_same_value_twice), CASE(nothing_flows_back), CASE(wrong_requests),
      CASE(values), CASE(long_chains))
