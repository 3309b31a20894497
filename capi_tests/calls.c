/* Calls of functions: their shapes, their runs, and what their errors tell. */
#include "functions.h"

/* ---- shapes ---- */

static void shapes_go_through_calls(void) {
  TF_Graph *g = TF_NewGraph();
  add_function(g, unary_function("F", "Neg"));
  int64_t dims[] = {2, -1}, actual[2];
  TF_Output x = output(shaped(g, TF_FLOAT, dims, 2, "x"), 0);
  TF_Output y = output(unary(g, "F", x, "direct"), 0);
  CHECK_INT(TF_GraphGetTensorNumDims(g, y, status), 2);
  TF_GraphGetTensorShape(g, y, actual, 2, status);
  CHECK_OK(status);
  CHECK(actual[0] == 2 && actual[1] == -1);
  const char *calls[] = {"PartitionedCall", "StatefulPartitionedCall"};
  for (int i = 0; i < 2; i++) {
    TF_DataType two[] = {TF_FLOAT, TF_FLOAT};
    TF_OperationDescription *desc = TF_NewOperation(g, calls[i], calls[i]);
    TF_AddInputList(desc, &x, 1);
    TF_SetAttrTypeList(desc, "Tout", two, 2); /* one more than there is */
    TF_SetAttrFuncName(desc, "f", "F", 1);
    TF_Operation *call = finish(desc);
    CHECK_INT(TF_GraphGetTensorNumDims(g, output(call, 0), status), 2);
    CHECK_INT(TF_GraphGetTensorNumDims(g, output(call, 1), status), -1);
    desc = TF_NewOperation(g, calls[i], i ? "off1" : "off0");
    TF_AddInputList(desc, &x, 1);
    TF_SetAttrTypeList(desc, "Tout", two, 1);
    TF_SetAttrFuncName(desc, "f", "F", 1);
    TF_SetAttrBool(desc, "_disable_call_shape_inference", 1);
    CHECK_INT(TF_GraphGetTensorNumDims(g, output(finish(desc), 0), status), -1);
    desc = TF_NewOperation(g, calls[i], "none");
    TF_AddInputList(desc, &x, 1);
    TF_SetAttrTypeList(desc, "Tout", NULL, 0);
    TF_SetAttrFuncName(desc, "f", "F", 1);
    finish_fails(desc, TF_INTERNAL, "Function instantiation included invalid output index: 0 not in [0, 0).");
    desc = TF_NewOperation(g, calls[i], "none");
    TF_AddInputList(desc, NULL, 0);
    TF_SetAttrTypeList(desc, "Tout", two, 1);
    TF_SetAttrFuncName(desc, "f", "F", 1);
    finish_fails(desc, TF_INTERNAL, "Function instantiation included invalid input index: 0 not in [0, 0).");
  }
  TF_DeleteGraph(g);
}

static void constants_go_through_calls(void) {
  TF_Graph *body = TF_NewGraph();
  TF_Output dims = output(placeholder(body, TF_INT32, "dims"), 0);
  TF_Output value = output(constant(body, f32_scalar(1), "value"), 0);
  TF_Output filled = output(binary(body, "Fill", dims, value, "filled"), 0);
  TF_Function *f = function_of(body, "F", 1, &dims, 1, &filled);
  CHECK_OK(status);
  TF_Graph *g = TF_NewGraph();
  add_function(g, f);
  TF_DeleteGraph(body);
  for (int32_t i = 0; i < 2; i++) {
    char name[8];
    int64_t actual[2];
    snprintf(name, sizeof name, "call%d", i);
    const int32_t values[] = {4, 5 + i};
    TF_Output call = output(unary(g, "F", output(constant(g, i32_vector(2, values), i ? "c1" : "c0"), 0), name), 0);
    TF_GraphGetTensorShape(g, call, actual, 2, status);
    CHECK_OK(status);
    CHECK(actual[0] == 4 && actual[1] == 5 + i);
  }
  TF_DeleteGraph(g);
}

static void a_call_is_refused_if_the_body_cannot_be(void) {
  TF_Graph *body = TF_NewGraph();
  TF_Output x = output(placeholder(body, TF_FLOAT, "x"), 0);
  TF_Output y = output(binary(body, "MatMul", x, x, "n"), 0);
  TF_Function *f = function_of(body, "F", 1, &x, 1, &y);
  CHECK_OK(status);
  TF_Graph *g = TF_NewGraph();
  TF_GraphCopyFunction(g, f, NULL, status);
  CHECK_OK(status);
  TF_OperationDescription *desc = TF_NewOperation(g, "F", "call");
  TF_AddInput(desc, output(constant(g, f32_scalar(1), "scalar"), 0));
  finish_fails(desc, TF_INVALID_ARGUMENT, "Shape must be rank 2 but is rank 0 for '{{node n_0}} = MatMul[");
  TF_DeleteFunction(f);
  TF_DeleteGraph(body);
  TF_DeleteGraph(g);
}

/* ---- runs ---- */

static void calls_run(void) {
  TF_Graph *g = TF_NewGraph();
  add_function(g, unary_function("F", "Neg"));
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0), direct = output(unary(g, "F", x, "direct"), 0);
  TF_DataType dtype = TF_FLOAT;
  TF_OperationDescription *desc = TF_NewOperation(g, "PartitionedCall", "indirect");
  TF_AddInputList(desc, &direct, 1);
  TF_SetAttrTypeList(desc, "Tout", &dtype, 1);
  TF_SetAttrFuncName(desc, "f", "F", 1);
  TF_Output indirect = output(finish(desc), 0);
  TF_Session *session = new_session(g);
  TF_Tensor *y = fetch_with(session, x, f32_scalar(3), direct);
  CHECK(is_f32(y, 1, (float[]){-3}));
  TF_DeleteTensor(y);
  y = fetch_with(session, x, f32_scalar(3), indirect);
  CHECK(is_f32(y, 1, (float[]){3}));
  TF_DeleteTensor(y);
  /* A session learns of functions that come later. */
  add_function(g, unary_function("G", "Square"));
  TF_Output later = output(unary(g, "G", direct, "later"), 0);
  y = fetch_with(session, x, f32_scalar(3), later);
  CHECK(is_f32(y, 1, (float[]){9}));
  TF_DeleteTensor(y);
  delete_session(session);
  TF_DeleteGraph(g);
}

/* A result that is declared but not returned is missed by those who read it, whether they run or not. */
static void results_are_as_many_as_declared(void) {
  TF_Graph *g = TF_NewGraph();
  add_function(g, unary_function("F", "Neg"));
  const unsigned char truth = 1;
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0);
  TF_Output yes = output(constant(g, tensor_of(TF_BOOL, NULL, 0, &truth, 1), "yes"), 0);
  TF_Operation *choice = binary(g, "Switch", x, yes, "switch"); /* from now on values may be dead */
  const TF_DataType two[] = {TF_FLOAT, TF_FLOAT}, other[] = {TF_INT32};
  TF_Operation *calls[2];
  for (int i = 0; i < 2; i++) {
    TF_OperationDescription *desc = TF_NewOperation(g, "StatefulPartitionedCall", i == 0 ? "longer" : "other");
    TF_AddInputList(desc, &x, 1);
    TF_SetAttrTypeList(desc, "Tout", i == 0 ? two : other, i == 0 ? 2 : 1);
    TF_SetAttrFuncName(desc, "f", "F", 1);
    calls[i] = finish(desc);
  }
  TF_Output read = output(unary(g, "Neg", output(calls[0], 1), "reader"), 0);
  const struct {
    TF_Output fetches[2];
    const char *message;
  } cases[] = {
      {{output(calls[0], 0), output(choice, 1)}, ""},
      {{output(calls[0], 1), output(calls[0], 0)}, "Missing 1-th output from {{node longer}}"},
      {{read, output(calls[0], 0)}, "Missing 1-th output from {{node longer}}"},
      {{read, output(choice, 1)}, "Missing 1-th output from {{node longer}}"},
      {{output(calls[1], 0), output(choice, 1)},
       "Output 0 of type float does not match declared output type int32 for node {{node other}}"},
  };
  TF_Session *session = new_session(g);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    TF_Tensor *value = f32_scalar(3), *results[2];
    TF_SessionRun(session, NULL, &x, &value, 1, cases[i].fetches, results, 2, NULL, 0, NULL, status);
    CHECK_CODE(status, i == 0 ? TF_OK : TF_INTERNAL);
    CHECK_STR(TF_Message(status), cases[i].message);
    TF_DeleteTensor(value);
    for (int r = 0; i == 0 && r < 2; r++) TF_DeleteTensor(results[r]);
  }
  delete_session(session);
  TF_DeleteGraph(g);
}

/* The function `name` of x and u: op(x), and op(u) as a second result if it is asked for. */
static void add_function_of_two(TF_Graph *g, const char *name, const char *op, bool reads_both) {
  TF_Graph *body = TF_NewGraph();
  TF_Output in[] = {output(placeholder(body, TF_FLOAT, "x"), 0), output(placeholder(body, TF_FLOAT, "u"), 0)};
  TF_Output out[] = {output(unary(body, op, in[0], "y"), 0), output(unary(body, op, in[1], "z"), 0)};
  add_function(g, function_of(body, name, 2, in, reads_both ? 2 : 1, out));
  TF_DeleteGraph(body);
}

/* What only an argument needs that no function reads does not run: u has no value. */
static void unread_arguments_need_no_value(void) {
  TF_Graph *g = TF_NewGraph();
  add_function_of_two(g, "First", "Neg", false);
  add_function_of_two(g, "Both", "Neg", true);
  TF_Graph *outer = TF_NewGraph();
  add_function_of_two(outer, "First", "Neg", false);
  TF_Output in[] = {output(placeholder(outer, TF_FLOAT, "x"), 0), output(placeholder(outer, TF_FLOAT, "u"), 0)};
  TF_Output inner = output(binary(outer, "First", in[0], in[1], "inner"), 0);
  add_function(g, function_of(outer, "Outer", 2, in, 1, &inner));
  TF_DeleteGraph(outer);
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0), u = output(placeholder(g, TF_FLOAT, "u"), 0);
  const TF_DataType dtypes[] = {TF_FLOAT, TF_FLOAT};
  TF_Output args[] = {x, u}, yes = output(constant(g, tensor_of(TF_BOOL, NULL, 0, "\1", 1), "yes"), 0);
  static const char *const calls[][3] = {{"direct", "First", NULL},          {"nested", "Outer", NULL},
                                         {"call", "PartitionedCall", "First"}, {"if", "If", "First"},
                                         {"lowered", "If", "First"},           {"both", "PartitionedCall", "Both"}};
  const int count = sizeof calls / sizeof *calls;
  TF_Operation *ops[6];
  for (int i = 0; i < count; i++) {
    const char *name = calls[i][0], *op = calls[i][1], *function = calls[i][2];
    bool is_if = strcmp(op, "If") == 0, is_both = strcmp(name, "both") == 0;
    TF_OperationDescription *desc = TF_NewOperation(g, op, name);
    if (is_if) TF_AddInput(desc, yes);
    if (function == NULL) {
      TF_AddInput(desc, x);
      TF_AddInput(desc, u);
    } else {
      TF_AddInputList(desc, args, 2);
      TF_SetAttrTypeList(desc, "Tout", dtypes, is_both ? 2 : 1);
      TF_SetAttrFuncName(desc, is_if ? "then_branch" : "f", function, strlen(function));
      if (is_if) TF_SetAttrFuncName(desc, "else_branch", function, strlen(function));
      if (strcmp(name, "lowered") == 0) TF_SetAttrBool(desc, "_lower_using_switch_merge", true);
    }
    ops[i] = finish(desc);
  }
  TF_Session *session = new_session(g);
  for (int i = 0; i < count; i++) {
    TF_Tensor *y = try_fetch_with(session, x, f32_scalar(3), output(ops[i], 0));
    if (i < count - 1) {
      CHECK_OK(status);
      CHECK(is_f32(y, 1, (float[]){-3}));
      TF_DeleteTensor(y);
    } else {
      CHECK_ERROR(status, TF_INVALID_ARGUMENT, "You must feed a value for placeholder tensor 'u' with dtype float");
    }
  }
  delete_session(session);
  TF_DeleteGraph(g);
}

static void functions_that_call_themselves(void) {
  if (!is_tfcore()) return; /* the reference runs out of stack */
  TF_Function *inner = unary_function("F", "Neg");
  TF_Graph *body = TF_NewGraph();
  TF_GraphCopyFunction(body, inner, NULL, status);
  CHECK_OK(status);
  TF_Output x = output(placeholder(body, TF_FLOAT, "x"), 0), y = output(unary(body, "F", x, "n"), 0);
  TF_Function *f = function_of(body, "F", 1, &x, 1, &y);
  CHECK_OK(status);
  TF_Graph *g = TF_NewGraph();
  TF_GraphCopyFunction(g, f, NULL, status);
  CHECK_OK(status);
  TF_Operation *call = unary(g, "F", output(constant(g, f32_scalar(1), "one"), 0), "call");
  CHECK_INT(TF_GraphGetTensorNumDims(g, output(call, 0), status), -1);
  TF_DeleteFunction(inner);
  TF_DeleteFunction(f);
  TF_DeleteGraph(body);
  TF_DeleteGraph(g);
}

/* The function `name` of a vector, which fails at its node "check" if that has no sixth element. */
static void add_checking(TF_Graph *g, const char *name) {
  TF_Graph *body = TF_NewGraph();
  TF_Output in = output(placeholder(body, TF_FLOAT, "x"), 0);
  TF_OperationDescription *desc = TF_NewOperation(body, "Gather", "check");
  TF_AddInput(desc, in);
  TF_AddInput(desc, output(constant(body, i32_scalar(5), "five"), 0));
  TF_Output out = output(unary(body, "Identity", output(finish(desc), 0), "out"), 0);
  add_function(g, function_of(body, name, 1, &in, 1, &out));
  TF_DeleteGraph(body);
}

/* Calls the functions `a` and `b` (or only `a`) through an op of this type. */
static TF_Operation *call_through(TF_Graph *g, const char *type, TF_Output x, TF_Output yes, const char *a, const char *b,
                                  bool is_lowered) {
  TF_OperationDescription *desc = TF_NewOperation(g, type, "caller");
  TF_DataType dtypes[] = {TF_FLOAT};
  if (b != NULL) TF_AddInput(desc, yes);
  TF_AddInputList(desc, &x, 1);
  TF_SetAttrTypeList(desc, "Tout", dtypes, 1);
  TF_SetAttrFuncName(desc, b == NULL ? "f" : "then_branch", a, strlen(a));
  if (b != NULL) TF_SetAttrFuncName(desc, "else_branch", b, strlen(b));
  if (is_lowered) TF_SetAttrBool(desc, "_lower_using_switch_merge", true);
  return finish(desc);
}

/* A node that fails within functions (of graphs that are not so small that the reference leaves them as they are) is named with its function, or with the nodes that call that. */
static void errors_tell_the_caller(void) {
  static const struct {
    const char *type;
    bool has_branches, is_lowered;
    const char *end;
  } cases[] = {
      {"StatefulPartitionedCall", false, false, "[[{{function_node F}}{{node check}}]]"},
      {"StatelessIf", true, false, "[[{{node check}}]]\n\t [[caller]]"},
      {"If", true, false, "[[{{node check}}]]\n\t [[caller]]"},
      {"If", true, true, "[[{{function_node F}}{{node check}}]]"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    TF_Graph *g = TF_NewGraph();
    add_checking(g, "F");
    TF_Operation *x = placeholder(g, TF_FLOAT, "x"), *yes = placeholder(g, TF_BOOL, "yes");
    TF_Operation *caller = call_through(g, cases[i].type, output(x, 0), output(yes, 0), "F",
                                        cases[i].has_branches ? "F" : NULL, cases[i].is_lowered);
    TF_Operation *end = unary(g, "Exp", output(caller, 0), "end");
    for (int n = 0; n < 4; n++) end = unary(g, "Neg", output(end, 0), (const char *[]){"a", "b", "c", "d"}[n]);
    TF_Session *session = new_session(g);
    bool truth = true;
    TF_Output feeds[] = {output(x, 0), output(yes, 0)}, what = output(end, 0);
    TF_Tensor *values[] = {f32_vector(2, (float[]){1, 2}), tensor_of(TF_BOOL, NULL, 0, &truth, sizeof truth)}, *result = NULL;
    TF_SessionRun(session, NULL, feeds, values, 1 + cases[i].has_branches, &what, &result, 1, NULL, 0, NULL, status);
    CHECK_ERROR(status, TF_INVALID_ARGUMENT, cases[i].end);
    size_t length = strlen(TF_Message(status)), expected = strlen(cases[i].end);
    CHECK(length > expected && strcmp(TF_Message(status) + length - expected, cases[i].end) == 0);
    for (int n = 0; n < 2; n++) TF_DeleteTensor(values[n]);
    delete_session(session);
    TF_DeleteGraph(g);
  }
}

CASES(CASE(shapes_go_through_calls), CASE(constants_go_through_calls),
      CASE(a_call_is_refused_if_the_body_cannot_be), CASE(calls_run), CASE(results_are_as_many_as_declared),
      CASE(unread_arguments_need_no_value), CASE(functions_that_call_themselves), CASE(errors_tell_the_caller))
