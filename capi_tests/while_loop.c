/* Loops of the old kind: the graphs to fill in, what is made of them, and what is refused. */
#include "check.h"
#include "describe.h"
#include "nodes.h"

/* The header of the reference has constant members, which cannot be assigned. */
static TF_WhileParams *new_while(TF_Graph *g, TF_Output *inputs, int count) {
  TF_WhileParams made = TF_NewWhile(g, inputs, count, status), *params = malloc(sizeof made);
  CHECK(params != NULL);
  memcpy(params, &made, sizeof made);
  return params;
}

/* `input0 < limit`, and `input0 + 1`. */
static void count_up(TF_WhileParams *params, int limit, const char *name) {
  TF_Output end = output(constant(params->cond_graph, i32_scalar(limit), "limit"), 0);
  params->cond_output = output(binary(params->cond_graph, "Less", params->cond_inputs[0], end, "less"), 0);
  TF_Output one = output(constant(params->body_graph, i32_scalar(1), "one"), 0);
  params->body_outputs[0] = output(binary(params->body_graph, "Add", params->body_inputs[0], one, "add"), 0);
  params->name = name;
}

static void finish_while(TF_WhileParams *params, TF_Output *outputs) {
  TF_FinishWhile(params, status, outputs);
  free(params);
}

static void parts_begin_with_the_variables(void) {
  TF_Graph *g = TF_NewGraph();
  int64_t dims[2] = {2, 3};
  TF_Output inputs[2] = {output(placeholder(g, TF_INT32, "i"), 0), output(shaped(g, TF_FLOAT, dims, 2, "m"), 0)};
  TF_WhileParams *params = new_while(g, inputs, 2);
  CHECK_OK(status);
  CHECK_INT(params->ninputs, 2);
  CHECK(params->name == NULL && params->cond_output.oper == NULL && params->cond_output.index == -1);
  CHECK(params->body_outputs[1].oper == NULL && params->body_outputs[1].index == -1);
  CHECK_OPERATIONS(params->cond_graph, 0, "cond_input0 = Placeholder()", "cond_input1 = Placeholder()");
  CHECK_OPERATIONS(params->body_graph, 0, "body_input0 = Placeholder()", "body_input1 = Placeholder()");
  CHECK_INT(TF_OperationOutputType(params->body_inputs[1]), TF_FLOAT);
  CHECK_INT(TF_GraphGetTensorNumDims(params->body_graph, params->body_inputs[1], status), -1);
  TF_AbortWhile(params);
  free(params);
  CHECK_INT(count_operations(g), 2);
  TF_DeleteGraph(g);
}

static void operations_of_a_loop(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output inputs[2] = {output(placeholder(g, TF_INT32, "i"), 0), output(placeholder(g, TF_FLOAT, "m"), 0)};
  TF_WhileParams *params = new_while(g, inputs, 2);
  count_up(params, 10, "loop");
  params->body_outputs[1] = output(unary(params->body_graph, "Neg", params->body_inputs[1], "neg"), 0);
  TF_Output outputs[2] = {{NULL, -7}, {NULL, -7}};
  finish_while(params, outputs);
  CHECK_OK(status);
  CHECK_STR(TF_OperationName(outputs[0].oper), "loop/Exit");
  CHECK_STR(TF_OperationName(outputs[1].oper), "loop/Exit_1");
  CHECK_INT(outputs[1].index, 0);
  CHECK_OPERATIONS(g, 2, "loop/Enter = Enter(i:0)", "loop/Enter_1 = Enter(m:0)",
                   "loop/Merge = Merge(loop/Enter:0, loop/NextIteration:0)",
                   "loop/Merge_1 = Merge(loop/Enter_1:0, loop/NextIteration_1:0)", "loop/cond/limit = Const(^loop/Merge)",
                   "loop/cond/less = Less(loop/Merge:0, loop/cond/limit:0)",
                   "loop/LoopCond = LoopCond(loop/cond/less:0)", "loop/Switch = Switch(loop/Merge:0, loop/LoopCond:0)",
                   "loop/Switch_1 = Switch(loop/Merge_1:0, loop/LoopCond:0)", "loop/body/one = Const(^loop/Switch)",
                   "loop/body/add = Add(loop/Switch:1, loop/body/one:0)",
                   "loop/body/neg = Neg(loop/Switch_1:1, ^loop/Switch)",
                   "loop/NextIteration = NextIteration(loop/body/add:0)",
                   "loop/NextIteration_1 = NextIteration(loop/body/neg:0)", "loop/Exit = Exit(loop/Switch:0)",
                   "loop/Exit_1 = Exit(loop/Switch_1:0)");
  TF_Operation *enter = TF_GraphOperationByName(g, "loop/Enter_1");
  char frame[10] = "";
  TF_OperationGetAttrString(enter, "frame_name", frame, sizeof frame, status);
  CHECK_STR(frame, "loop");
  int64_t parallel = 0;
  TF_OperationGetAttrInt(enter, "parallel_iterations", &parallel, status);
  CHECK_INT(parallel, 10);
  unsigned char is_constant = 1;
  TF_OperationGetAttrBool(enter, "is_constant", &is_constant, status);
  CHECK_INT(is_constant, 0);
  TF_DeleteGraph(g);
}

static void a_variable_may_stay_as_it_is(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output inputs[2] = {output(placeholder(g, TF_INT32, "i"), 0), output(placeholder(g, TF_FLOAT, "m"), 0)};
  TF_WhileParams *params = new_while(g, inputs, 2);
  count_up(params, 10, "i"); /* A name that is taken gets a number. */
  params->body_outputs[1] = params->body_inputs[1];
  TF_Output outputs[2];
  finish_while(params, outputs);
  CHECK_OK(status);
  CHECK_STR(TF_OperationName(outputs[0].oper), "i_1/Exit");
  CHECK_STR(describe(TF_GraphOperationByName(g, "i_1/NextIteration_1")), "i_1/NextIteration_1 = NextIteration(i_1/Switch_1:1)");
  TF_DeleteGraph(g);
}

static void loops_in_loops(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output i = output(placeholder(g, TF_INT32, "i"), 0), inner_end = {NULL, -7}, end = {NULL, -7};
  TF_WhileParams *outer = new_while(g, &i, 1);
  count_up(outer, 10, "outer");
  TF_Output start = outer->body_outputs[0];
  TF_WhileParams *inner = new_while(outer->body_graph, &start, 1);
  CHECK_OK(status);
  count_up(inner, 5, "inner");
  finish_while(inner, &inner_end);
  CHECK_OK(status);
  CHECK_STR(TF_OperationName(inner_end.oper), "inner/Exit");
  outer->body_outputs[0] = inner_end;
  finish_while(outer, &end);
  CHECK_OK(status);
  CHECK_STR(describe(TF_GraphOperationByName(g, "outer/body/inner/Merge")),
            "outer/body/inner/Merge = Merge(outer/body/inner/Enter:0, outer/body/inner/NextIteration:0)");
  CHECK_STR(describe(TF_GraphOperationByName(g, "outer/NextIteration")),
            "outer/NextIteration = NextIteration(outer/body/inner/Exit:0)");
  TF_DeleteGraph(g);
}

/* Finishes a loop that `spoil` has changed: an error, and our graph is as before. */
static void finish_fails_after(void (*spoil)(TF_WhileParams *), const char *part) {
  TF_Graph *g = TF_NewGraph();
  TF_Output i = output(placeholder(g, TF_INT32, "i"), 0), end = {NULL, -7};
  TF_WhileParams *params = new_while(g, &i, 1);
  count_up(params, 10, "loop");
  spoil(params);
  finish_while(params, &end);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, part);
  CHECK(end.oper == NULL && end.index == -7);
  if (is_tfcore()) CHECK_INT(count_operations(g), 1);
  TF_DeleteGraph(g);
}

static void without_name(TF_WhileParams *params) { params->name = NULL; }
static void without_cond(TF_WhileParams *params) { params->cond_output = output(NULL, -1); }
static void without_body(TF_WhileParams *params) { params->body_outputs[0] = output(NULL, -1); }
static void with_number(TF_WhileParams *params) { params->cond_output = params->cond_inputs[0]; }
static void with_bad_output(TF_WhileParams *params) { params->cond_output.index = 5; }
static void with_bad_name(TF_WhileParams *params) { params->name = "a b"; }
static void with_other_type(TF_WhileParams *params) {
  params->body_outputs[0] = output(unary(params->body_graph, "Shape", params->body_inputs[0], "shape"), 0);
  TF_OperationDescription *cast = TF_NewOperation(params->body_graph, "Cast", "cast");
  TF_AddInput(cast, params->body_outputs[0]);
  TF_SetAttrType(cast, "DstT", TF_FLOAT);
  params->body_outputs[0] = output(finish(cast), 0);
}
static void with_foreign_output(TF_WhileParams *params) { params->cond_output = params->body_outputs[0]; }

static void unfinished_loops_are_refused(void) {
  finish_fails_after(without_name, "TF_WhileParams `name` field is null");
  finish_fails_after(without_cond, "TF_WhileParams `cond_output` field isn't set");
  finish_fails_after(without_body, "TF_WhileParams `body_outputs[0]` field isn't set");
  finish_fails_after(with_number, "BuildWhileLoop: 'cond' argument must return a boolean output, got int32");
  finish_fails_after(with_bad_output, "Invalid return output 5 of node 'less', which has 1 output(s)");
  finish_fails_after(with_bad_name, "Imported node name prefix 'a b/cond/' would lead to invalid node names");
  if (is_tfcore()) {
    /* The reference builds a loop that no session takes, and mixes up the graphs. */
    finish_fails_after(with_other_type, "was passed float from loop/NextIteration:0 incompatible with expected int32");
    finish_fails_after(with_foreign_output, "was not found in the graph");
  }
}

static void loops_without_variables_are_refused(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output i = output(placeholder(g, TF_INT32, "i"), 0);
  TF_NewWhile(g, &i, 0, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "TF_NewWhile() must be passed at least one input");
  if (is_tfcore()) { /* The reference aborts. */
    TF_NewWhile(g, &i, -1, status);
    CHECK_ERROR(status, TF_INVALID_ARGUMENT, "TF_NewWhile() must be passed at least one input");
    i.index = 3;
    TF_NewWhile(g, &i, 1, status);
    CHECK_ERROR(status, TF_OUT_OF_RANGE, "does not have output 3");
  }
  TF_DeleteGraph(g);
}

static void names_of_loops_are_unique(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output i = output(placeholder(g, TF_INT32, "i"), 0), end = {NULL, -7};
  for (int round = 0; round < 2; round++) {
    TF_WhileParams *params = new_while(g, &i, 1);
    count_up(params, 10, "loop");
    finish_while(params, &end);
    if (round == 0) CHECK_OK(status);
  }
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "WhileContext with frame name 'loop' already exists");
  TF_DeleteGraph(g);
}

static void loops_run(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output inputs[2] = {output(placeholder(g, TF_INT32, "i"), 0), output(placeholder(g, TF_FLOAT, "x"), 0)};
  TF_WhileParams *params = new_while(g, inputs, 2);
  count_up(params, 3, "loop");
  params->body_outputs[1] = output(unary(params->body_graph, "Square", params->body_inputs[1], "square"), 0);
  TF_Output ends[2];
  finish_while(params, ends);
  CHECK_OK(status);
  TF_Output slope = {NULL, -7};
  /* The reference's gradients of loops fail when they run. */
  if (is_tfcore()) {
    TF_AddGradients(g, &ends[1], 1, &inputs[1], 1, NULL, status, &slope);
    CHECK_OK(status);
  }
  TF_Session *session = new_session(g);
  TF_Output fetches[3] = {ends[0], ends[1], slope};
  int count = is_tfcore() ? 3 : 2;
  TF_Tensor *fed[2] = {i32_scalar(0), f32_scalar(2.0f)}, *results[3] = {NULL, NULL, NULL};
  TF_SessionRun(session, NULL, inputs, fed, 2, fetches, results, count, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK_INT(i32_at(results[0], 0), 3);
  /* ((2^2)^2)^2, and 8 * 2^7. */
  CHECK_INT(f32_at(results[1], 0), 256);
  if (is_tfcore()) CHECK_INT(f32_at(results[2], 0), 1024);
  for (int k = 0; k < 3; k++) TF_DeleteTensor(results[k]);
  for (int k = 0; k < 2; k++) TF_DeleteTensor(fed[k]);
  delete_session(session);
  TF_DeleteGraph(g);
}

CASES(CASE(parts_begin_with_the_variables), CASE(operations_of_a_loop), CASE(a_variable_may_stay_as_it_is),
      CASE(loops_in_loops), CASE(unfinished_loops_are_refused), CASE(loops_without_variables_are_refused),
      CASE(names_of_loops_are_unique), CASE(loops_run))
