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

/* Adds `name(a, b) = type(a, b)` on scalars of the type `dtype`. */
static void add_function(TF_Graph *g, const char *name, const char *type, TF_DataType dtype) {
  TF_Graph *body = TF_NewGraph();
  TF_Output in[2] = {output(placeholder(body, dtype, "a"), 0), output(placeholder(body, dtype, "b"), 0)};
  TF_Output out = output(binary(body, type, in[0], in[1], "out"), 0);
  TF_Function *function = TF_GraphToFunction(body, name, 0, -1, NULL, 2, in, 1, &out, NULL, NULL, NULL, status);
  CHECK_OK(status);
  TF_GraphCopyFunction(g, function, NULL, status);
  CHECK_OK(status);
  TF_DeleteFunction(function);
  TF_DeleteGraph(body);
}

static void set_function(TF_OperationDescription *desc, const char *attr, const char *name) {
  TF_SetAttrFuncName(desc, attr, name, strlen(name));
}

/* The value of `fetch` where `x` and `w` are 3 and 5. */
static float at_3_and_5(TF_Graph *g, TF_Output x, TF_Output w, TF_Output fetch) {
  TF_Session *session = new_session(g);
  TF_Output feeds[2] = {x, w};
  TF_Tensor *fed[2] = {f32_scalar(3.0f), f32_scalar(5.0f)}, *result = NULL;
  TF_SessionRun(session, NULL, feeds, fed, 2, &fetch, &result, 1, NULL, 0, NULL, status);
  CHECK_OK(status);
  float value = f32_at(result, 0);
  TF_DeleteTensor(result);
  TF_DeleteTensor(fed[0]);
  TF_DeleteTensor(fed[1]);
  delete_session(session);
  return value;
}

static void calls(void) {
  const char *types[] = {"PartitionedCall", "StatefulPartitionedCall"};
  for (int i = 0; i < 2; i++) {
    TF_Graph *g = TF_NewGraph();
    TF_DataType f32 = TF_FLOAT;
    add_function(g, "times", "Mul", TF_FLOAT);
    TF_Output x = x_of(g), w = output(placeholder(g, TF_FLOAT, "w"), 0), xs[2] = {x, w};
    TF_OperationDescription *desc = TF_NewOperation(g, types[i], "y");
    TF_AddInputList(desc, xs, 2);
    set_function(desc, "f", "times");
    TF_SetAttrTypeList(desc, "Tout", &f32, 1);
    TF_Output y = output(finish(desc), 0), dxs[2] = {{NULL, -7}, {NULL, -7}};
    TF_AddGradients(g, &y, 1, xs, 2, NULL, status, dxs);
    CHECK_OK(status);
    CHECK_OPERATIONS(g, 3, "gradients/OnesLike = OnesLike(y:0)",
                     "gradients/SymbolicGradient = SymbolicGradient(x:0, w:0, gradients/OnesLike:0)");
    CHECK_INT(dxs[0].index, 0);
    CHECK_INT(dxs[1].index, 1);
    CHECK(at_3_and_5(g, x, w, dxs[0]) == 5.0f);
    CHECK(at_3_and_5(g, x, w, dxs[1]) == 3.0f);
    CHECK_INT(TF_GraphNumFunctions(g), 1);
    TF_DeleteGraph(g);
  }
}

/* The reference has no gradients of calls by name, conditionals and loops. */
static void calls_by_name(void) {
  TF_Graph *g = TF_NewGraph();
  add_function(g, "times", "Mul", TF_FLOAT);
  TF_Output x = x_of(g), w = output(placeholder(g, TF_FLOAT, "w"), 0);
  TF_Output y = output(binary(g, "times", x, w, "y"), 0);
  if (is_tfcore())
    CHECK(at_3_and_5(g, x, w, gradient(g, y, x, NULL)) == 5.0f);
  else
    gradient_fails(g, y, x, NULL, TF_NOT_FOUND, "No gradient defined for op: times");
  TF_DeleteGraph(g);
}

static void conditionals(void) {
  for (unsigned char taken = 0; taken < 2; taken++) {
    TF_Graph *g = TF_NewGraph();
    TF_DataType f32 = TF_FLOAT;
    add_function(g, "times", "Mul", TF_FLOAT);
    add_function(g, "minus", "Sub", TF_FLOAT);
    TF_Output x = x_of(g), w = output(placeholder(g, TF_FLOAT, "w"), 0), xs[2] = {x, w};
    TF_Operation *condition = constant(g, tensor_of(TF_BOOL, NULL, 0, &taken, 1), "condition");
    TF_OperationDescription *desc = TF_NewOperation(g, "If", "y");
    TF_AddInput(desc, output(condition, 0));
    TF_AddInputList(desc, xs, 2);
    set_function(desc, "then_branch", "times");
    set_function(desc, "else_branch", "minus");
    TF_SetAttrTypeList(desc, "Tout", &f32, 1);
    TF_Output y = output(finish(desc), 0), dxs[2] = {{NULL, -7}, {NULL, -7}};
    if (is_tfcore()) {
      TF_AddGradients(g, &y, 1, xs, 2, NULL, status, dxs);
      CHECK_OK(status);
      CHECK_STR(TF_OperationName(dxs[0].oper), "gradients/If");
      CHECK(at_3_and_5(g, x, w, dxs[0]) == (taken ? 5.0f : 1.0f));
      CHECK(at_3_and_5(g, x, w, dxs[1]) == (taken ? 3.0f : -1.0f));
      CHECK_INT(TF_GraphNumFunctions(g), 4);
    } else {
      gradient_fails(g, y, x, NULL, TF_NOT_FOUND, "No gradient defined for op: If");
    }
    TF_DeleteGraph(g);
  }
}

/* `for (; v < 100; v *= w)` from x = 3 with w = 5: v = 3 w^3. */
static void loops_of_functions(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Graph *cond = TF_NewGraph(), *body = TF_NewGraph();
  TF_Output in[2] = {output(placeholder(cond, TF_FLOAT, "v"), 0), output(placeholder(cond, TF_FLOAT, "w"), 0)};
  TF_Operation *limit = constant(cond, f32_scalar(100.0f), "limit");
  TF_Output out[2] = {output(binary(cond, "Less", in[0], output(limit, 0), "out"), 0)};
  TF_Function *functions[2];
  functions[0] = TF_GraphToFunction(cond, "cond", 0, -1, NULL, 2, in, 1, out, NULL, NULL, NULL, status);
  CHECK_OK(status);
  in[0] = output(placeholder(body, TF_FLOAT, "v"), 0);
  in[1] = output(placeholder(body, TF_FLOAT, "w"), 0);
  out[0] = output(binary(body, "Mul", in[0], in[1], "out"), 0);
  out[1] = in[1];
  functions[1] = TF_GraphToFunction(body, "body", 0, -1, NULL, 2, in, 2, out, NULL, NULL, NULL, status);
  CHECK_OK(status);
  for (int i = 0; i < 2; i++) {
    TF_GraphCopyFunction(g, functions[i], NULL, status);
    CHECK_OK(status);
    TF_DeleteFunction(functions[i]);
  }
  TF_Output x = x_of(g), w = output(placeholder(g, TF_FLOAT, "w"), 0), xs[2] = {x, w};
  TF_OperationDescription *desc = TF_NewOperation(g, "While", "y");
  TF_AddInputList(desc, xs, 2);
  set_function(desc, "cond", "cond");
  set_function(desc, "body", "body");
  TF_Output y = output(finish(desc), 0), dxs[2] = {{NULL, -7}, {NULL, -7}};
  CHECK(at_3_and_5(g, x, w, y) == 375.0f);
  if (is_tfcore()) {
    TF_AddGradients(g, &y, 1, xs, 2, NULL, status, dxs);
    CHECK_OK(status);
    CHECK(at_3_and_5(g, x, w, dxs[0]) == 125.0f);
    CHECK(at_3_and_5(g, x, w, dxs[1]) == 225.0f);
  } else {
    gradient_fails(g, y, x, NULL, TF_NOT_FOUND, "No gradient defined for op: While");
  }
  TF_DeleteGraph(cond);
  TF_DeleteGraph(body);
  TF_DeleteGraph(g);
}

/* A function without a gradient leaves the graph and its functions as they were. */
static void failures_in_functions(void) {
  TF_Graph *g = TF_NewGraph();
  TF_DataType f32 = TF_FLOAT;
  add_function(g, "times", "Mul", TF_FLOAT);
  add_function(g, "rest", "TruncateMod", TF_FLOAT);
  TF_Output x = x_of(g), xs[2] = {x, x};
  unsigned char yes = 1;
  TF_Operation *condition = constant(g, tensor_of(TF_BOOL, NULL, 0, &yes, 1), "condition");
  TF_OperationDescription *desc = TF_NewOperation(g, "If", "y");
  TF_AddInput(desc, output(condition, 0));
  TF_AddInputList(desc, xs, 2);
  set_function(desc, "then_branch", "times");
  set_function(desc, "else_branch", "rest");
  TF_SetAttrTypeList(desc, "Tout", &f32, 1);
  gradient_fails(g, output(finish(desc), 0), x, NULL, TF_NOT_FOUND, "No gradient defined for op: ");
  CHECK_INT(TF_GraphNumFunctions(g), 2);
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
      CASE(values), CASE(calls), CASE(calls_by_name), CASE(conditionals), CASE(loops_of_functions),
      CASE(failures_in_functions), CASE(long_chains))
