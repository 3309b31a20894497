/* What is fetched or read and has no value: dead, in a loop, not initialized; and how messages number it. */
#include "nodes.h"

/* i = 0; while (i < n) i = i + 1. */
typedef struct {
  TF_Graph *graph;
  TF_Session *session;
  TF_Operation *n, *merge, *less, *next, *exit;
} CountingLoop;

static TF_Operation *enter(TF_Graph *g, TF_Operation *value, const char *name, bool is_constant) {
  TF_OperationDescription *desc = TF_NewOperation(g, "Enter", name);
  TF_AddInput(desc, output(value, 0));
  TF_SetAttrString(desc, "frame_name", "loop", 4);
  TF_SetAttrBool(desc, "is_constant", is_constant);
  return finish(desc);
}

static CountingLoop open_loop(void) {
  CountingLoop loop = {.graph = TF_NewGraph()};
  TF_Graph *g = loop.graph;
  loop.n = placeholder(g, TF_INT32, "n");
  TF_Operation *first = enter(g, constant(g, i32_scalar(0), "zero"), "first", false);
  TF_Operation *limit = enter(g, loop.n, "limit", true);
  /* The back edge comes later: until then the Merge has its Enter twice. */
  TF_OperationDescription *desc = TF_NewOperation(g, "Merge", "merge");
  TF_Output twice[] = {output(first, 0), output(first, 0)};
  TF_AddInputList(desc, twice, 2);
  loop.merge = finish(desc);
  loop.less = binary(g, "Less", output(loop.merge, 0), output(limit, 0), "less");
  TF_Operation *cond = unary(g, "LoopCond", output(loop.less, 0), "cond");
  TF_Operation *branch = binary(g, "Switch", output(loop.merge, 0), output(cond, 0), "switch");
  TF_Operation *body = unary(g, "Identity", output(branch, 1), "body");
  desc = TF_NewOperation(g, "Const", "one");
  TF_AddControlInput(desc, body);
  TF_Tensor *one = i32_scalar(1);
  TF_SetAttrTensor(desc, "value", one, status);
  CHECK_OK(status);
  TF_DeleteTensor(one);
  TF_SetAttrType(desc, "dtype", TF_INT32);
  TF_Operation *step = finish(desc);
  loop.next = binary(g, "AddV2", output(body, 0), output(step, 0), "next");
  TF_Operation *back = unary(g, "NextIteration", output(loop.next, 0), "back");
  TF_UpdateEdge(g, output(back, 0), input(loop.merge, 1), status);
  CHECK_OK(status);
  loop.exit = unary(g, "Exit", output(branch, 0), "exit");
  loop.session = new_session(g);
  return loop;
}

static void close_loop(CountingLoop *loop) {
  delete_session(loop->session);
  TF_DeleteGraph(loop->graph);
}

/* A node inside of a loop can be fetched if it is alive in one iteration. */
static void fetches_inside_of_a_loop(void) {
  CountingLoop loop = open_loop();
  const char *none = "Retval[0] does not have value";
  const char *less_twice = "Retval[0] has already been set.\n\t [[{{node _retval_less_0_0}}]]";
  const char *next_twice = "Retval[0] has already been set.\n\t [[{{node _retval_next_0_0}}]]";
  const struct {
    TF_Operation *what;
    int n;
    TF_Code code;
    const char *message;
    int value;
  } cases[] = {
      {loop.exit, 0, TF_OK, "", 0},       {loop.exit, 3, TF_OK, "", 3},
      {loop.next, 1, TF_OK, "", 1},       {loop.next, 0, TF_INVALID_ARGUMENT, none, 0},
      {loop.less, 0, TF_OK, "", 0},       {loop.less, 1, TF_INTERNAL, less_twice, 0},
      {loop.next, 2, TF_INTERNAL, next_twice, 0}, {loop.next, 1, TF_OK, "", 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    TF_Tensor *t = try_fetch_with(loop.session, output(loop.n, 0), i32_scalar(cases[i].n), output(cases[i].what, 0));
    CHECK_CODE(status, cases[i].code);
    CHECK_STR(TF_Message(status), cases[i].message);
    CHECK((t != NULL) == (cases[i].code == TF_OK));
    if (t != NULL && TF_TensorType(t) == TF_INT32) CHECK_INT(i32_at(t, 0), cases[i].value);
    TF_DeleteTensor(t);
  }
  close_loop(&loop);
}

/* What is constant in a loop is there in every iteration, what enters it only in the first. */
static void enters_fetched_with_their_loop(void) {
  CountingLoop loop = open_loop();
  const struct {
    const char *name;
    int n;
    TF_Code code;
    int value;
  } cases[] = {
      {"first", 0, TF_OK, 0},       {"first", 2, TF_OK, 0},       {"limit", 0, TF_OK, 0},
      {"limit", 1, TF_INTERNAL, 0}, {"limit", 2, TF_INTERNAL, 0}, {"limit", 0, TF_OK, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    TF_Operation *entered = TF_GraphOperationByName(loop.graph, cases[i].name);
    TF_Output fed = output(loop.n, 0), fetched[] = {output(loop.exit, 0), output(entered, 0)};
    TF_Tensor *n = i32_scalar(cases[i].n), *results[2] = {NULL, NULL};
    TF_SessionRun(loop.session, NULL, &fed, &n, 1, fetched, results, 2, NULL, 0, NULL, status);
    TF_DeleteTensor(n);
    CHECK_CODE(status, cases[i].code);
    if (cases[i].code == TF_OK) {
      CHECK_INT(i32_at(results[0], 0), cases[i].n);
      CHECK_INT(i32_at(results[1], 0), cases[i].value);
    } else {
      CHECK_STR(TF_Message(status), "Retval[1] has already been set.\n\t [[{{node _retval_limit_0_1}}]]");
    }
    TF_DeleteTensor(results[0]);
    TF_DeleteTensor(results[1]);
  }
  /* Without the loop behind it, it is there once. */
  TF_Operation *limit = TF_GraphOperationByName(loop.graph, "limit");
  TF_Tensor *alone = fetch_with(loop.session, output(loop.n, 0), i32_scalar(7), output(limit, 0));
  CHECK_INT(i32_at(alone, 0), 7);
  TF_DeleteTensor(alone);
  close_loop(&loop);
}

/* Messages number feeds and fetches in the order of their names. */
static void numbers_are_those_of_sorted_names(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *b = placeholder(g, TF_FLOAT, "b"), *a = placeholder(g, TF_FLOAT, "a");
  TF_Operation *predicate = placeholder(g, TF_BOOL, "p");
  TF_Operation *branch = binary(g, "Switch", output(b, 0), output(predicate, 0), "switch");
  TF_Operation *live = unary(g, "Neg", output(a, 0), "live");
  TF_Session *session = new_session(g);
  const unsigned char yes = 1;
  TF_Tensor *values[] = {f32_scalar(1), tensor_of(TF_BOOL, NULL, 0, &yes, 1), i32_scalar(1)};
  TF_Output feeds[] = {output(b, 0), output(predicate, 0), output(a, 0)};
  TF_Output fetches[] = {output(branch, 0), output(live, 0)};
  TF_Tensor *results[2];
  TF_SessionRun(session, NULL, feeds, values, 3, fetches, results, 2, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Expects arg[0] to be float but int32 is provided");
  TF_DeleteTensor(values[2]);
  values[2] = f32_scalar(2);
  TF_SessionRun(session, NULL, feeds, values, 3, fetches, results, 2, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Retval[1] does not have value");
  CHECK(results[0] == NULL && results[1] == NULL);
  for (int i = 0; i < 3; i++) TF_DeleteTensor(values[i]);
  delete_session(session);
  TF_DeleteGraph(g);
}

/* Feeding twice is found before feeding what is fetched. */
static void fed_twice_and_fetched(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *a = placeholder(g, TF_FLOAT, "a"), *b = placeholder(g, TF_FLOAT, "b");
  TF_Session *session = new_session(g);
  TF_Tensor *values[] = {f32_scalar(1), f32_scalar(2), f32_scalar(3)}, *result;
  TF_Output feeds[] = {output(a, 0), output(b, 0), output(b, 0)}, what = output(a, 0);
  TF_SessionRun(session, NULL, feeds, values, 3, &what, &result, 1, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Endpoint \"b:0\" fed more than once.");
  for (int i = 0; i < 3; i++) TF_DeleteTensor(values[i]);
  delete_session(session);
  TF_DeleteGraph(g);
}

static TF_Operation *ref_variable(TF_Graph *g, const char *name) {
  TF_OperationDescription *desc = TF_NewOperation(g, "VariableV2", name);
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", NULL, 0);
  return finish(desc);
}

/* What is fed is not a variable any more. */
static void fed_variables(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *v = ref_variable(g, "v");
  TF_Operation *doubled = binary(g, "AddV2", output(v, 0), output(v, 0), "doubled");
  TF_Operation *assign = binary(g, "Assign", output(v, 0), output(constant(g, f32_scalar(1), "one"), 0), "assign");
  TF_Session *session = new_session(g);
  TF_Tensor *result = fetch_with(session, output(v, 0), f32_scalar(4), output(doubled, 0));
  CHECK(f32_at(result, 0) == 8);
  TF_DeleteTensor(result);
  CHECK(try_fetch_with(session, output(v, 0), f32_scalar(4), output(assign, 0)) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "Input 0 of node assign was passed float from _arg_v_0_0:0 incompatible with expected float_ref.");
  delete_session(session);
  TF_DeleteGraph(g);
}

/* Messages name what the node reads, which need not be the variable, and the node. */
static void uninitialized_variables(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *v = ref_variable(g, "v");
  const unsigned char yes = 1;
  TF_Operation *predicate = constant(g, tensor_of(TF_BOOL, NULL, 0, &yes, 1), "p");
  TF_Operation *branch = binary(g, "RefSwitch", output(v, 0), output(predicate, 0), "switch");
  TF_OperationDescription *desc = TF_NewOperation(g, "RefEnter", "enter");
  TF_AddInput(desc, output(v, 0));
  TF_SetAttrString(desc, "frame_name", "f", 1);
  TF_Operation *entered = unary(g, "RefExit", output(finish(desc), 0), "exit");
  const struct {
    TF_Operation *what;
    const char *message;
  } cases[] = {
      {v, "Attempting to use uninitialized value v\n\t [[{{node _retval_v_0_0}}]]"},
      {unary(g, "Neg", output(v, 0), "neg"), "Attempting to use uninitialized value v\n\t [[{{node neg}}]]"},
      {unary(g, "Neg", output(branch, 1), "other"), "Attempting to use uninitialized value switch:1\n\t [[{{node other}}]]"},
      {unary(g, "Neg", output(entered, 0), "left"), "Attempting to use uninitialized value v\n\t [[{{node enter}}]]"},
  };
  TF_Session *session = new_session(g);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK(try_fetch(session, output(cases[i].what, 0)) == NULL);
    CHECK_CODE(status, TF_FAILED_PRECONDITION);
    CHECK_STR(TF_Message(status), cases[i].message);
  }
  delete_session(session);
  TF_DeleteGraph(g);
}

/* A scalar resource variable is one row that scalars update. */
static void scatters_into_a_scalar(void) {
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "VarHandleOp", "handle");
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", NULL, 0);
  TF_SetAttrString(desc, "shared_name", "v", 1);
  TF_Operation *v = finish(desc);
  TF_Operation *init = binary(g, "AssignVariableOp", output(v, 0), output(constant(g, f32_scalar(5), "five"), 0), "init");
  desc = TF_NewOperation(g, "ResourceScatterAdd", "scatter");
  TF_AddInput(desc, output(v, 0));
  TF_AddInput(desc, output(constant(g, i32_vector(2, (int32_t[]){0, 0}), "rows"), 0));
  TF_AddInput(desc, output(constant(g, f32_scalar(2), "two"), 0));
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_Operation *scatter = finish(desc);
  desc = TF_NewOperation(g, "ReadVariableOp", "read");
  TF_AddInput(desc, output(v, 0));
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_Operation *read = finish(desc);
  TF_Session *session = new_session(g);
  run_target(session, init);
  run_target(session, scatter);
  CHECK(fetch_f32(session, output(read, 0)) == 9);
  delete_session(session);
  TF_DeleteGraph(g);
}

CASES(CASE(fetches_inside_of_a_loop), CASE(enters_fetched_with_their_loop), CASE(numbers_are_those_of_sorted_names),
      CASE(fed_twice_and_fetched), CASE(fed_variables), CASE(uninitialized_variables), CASE(scatters_into_a_scalar))
