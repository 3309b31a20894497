/* Functions in which a node waits for another node of the same step: the ops that call them must not hold the only thread. */
#include "functions.h"
#include "pb.h"
#include "queues.h"

static TF_Graph *graph;
static TF_Session *session;
static Queue queue;
static TF_Operation *fill;

/* `x` plus what the queue `q` gives. */
static TF_Output plus_next(TF_Graph *g, TF_Output x, TF_Output q) {
  const TF_DataType dtype = TF_FLOAT;
  TF_OperationDescription *desc = TF_NewOperation(g, "QueueDequeueV2", "next");
  TF_AddInput(desc, q);
  TF_SetAttrTypeList(desc, "component_types", &dtype, 1);
  return output(binary(g, "AddV2", x, output(finish(desc), 0), "sum"), 0);
}

/* A session with one thread, and a queue that `fill` brings three values. */
static void open_session(void) {
  graph = TF_NewGraph();
  queue = add_queue(graph, "q");
  const float values[3] = {1, 2, 3};
  TF_Output all = output(constant(graph, f32_vector(3, values), "all"), 0);
  TF_OperationDescription *desc = TF_NewOperation(graph, "QueueEnqueueManyV2", "fill");
  TF_AddInput(desc, output(queue.queue, 0));
  TF_AddInputList(desc, &all, 1);
  fill = finish(desc);
  Pb config = {0};
  pb_int(&config, 2, 1); /* intra_op_parallelism_threads */
  pb_int(&config, 5, 1); /* inter_op_parallelism_threads */
  session = configured_session(graph, config);
}

static void close_session(void) {
  delete_session(session);
  TF_DeleteGraph(graph);
}

/* Fetches `what` while `fill` runs in the same step. */
static TF_Tensor *fetch_and_fill(TF_Output what) {
  const TF_Operation *target = fill;
  TF_Tensor *result = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &what, &result, 1, &target, 1, NULL, status);
  CHECK_OK(status);
  return result;
}

/* ---- one op each ---- */

/* [10, 20, 30] plus what the queue gives, row by row. */
static TF_Output add_map(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output inputs[2] = {output(placeholder(g, TF_FLOAT, "x"), 0), output(placeholder(g, TF_RESOURCE, "q"), 0)};
  TF_Output sum = plus_next(g, inputs[0], inputs[1]);
  add_function(graph, function_of(g, "Row", 2, inputs, 1, &sum));
  TF_DeleteGraph(g);
  const float rows[3] = {10, 20, 30};
  TF_Output x = output(constant(graph, f32_vector(3, rows), "rows"), 0), q = output(queue.queue, 0);
  const TF_DataType floats = TF_FLOAT, resources = TF_RESOURCE;
  const int scalar = 0;
  const int64_t *no_dims = NULL;
  TF_OperationDescription *desc = TF_NewOperation(graph, "MapDefun", "map");
  TF_AddInputList(desc, &x, 1);
  TF_AddInputList(desc, &q, 1);
  TF_SetAttrTypeList(desc, "Targuments", &floats, 1);
  TF_SetAttrTypeList(desc, "Tcaptured", &resources, 1);
  TF_SetAttrTypeList(desc, "output_types", &floats, 1);
  TF_SetAttrShapeList(desc, "output_shapes", &no_dims, &scalar, 1);
  TF_SetAttrFuncName(desc, "f", "Row", 3);
  return output(finish(desc), 0);
}

/* The variables of both loops are a float and the queue. */
static void set_variables(TF_OperationDescription *desc, bool counts) {
  TF_DataType dtypes[3] = {TF_INT32, TF_FLOAT, TF_RESOURCE};
  TF_SetAttrTypeList(desc, "T", counts ? dtypes : dtypes + 1, counts ? 3 : 2);
}

/* A function of a counter, a sum and the queue that adds to the sum. */
static void add_body(const char *name, bool counts) {
  TF_Graph *g = TF_NewGraph();
  TF_Output inputs[3] = {output(placeholder(g, TF_INT32, "i"), 0), output(placeholder(g, TF_FLOAT, "sum_so_far"), 0),
                         output(placeholder(g, TF_RESOURCE, "q"), 0)};
  TF_Output one = output(constant(g, i32_scalar(1), "one"), 0);
  TF_Output outputs[3] = {output(binary(g, "AddV2", inputs[0], one, "next_i"), 0), plus_next(g, inputs[1], inputs[2]),
                          inputs[2]};
  add_function(graph, function_of(g, name, 3, inputs, counts ? 3 : 2, counts ? outputs : outputs + 1));
  TF_DeleteGraph(g);
}

static TF_Output add_for(void) {
  add_body("ForBody", false);
  const TF_Output vars[2] = {output(constant(graph, f32_scalar(100), "start_sum"), 0), output(queue.queue, 0)};
  TF_OperationDescription *desc = TF_NewOperation(graph, "For", "for");
  TF_AddInput(desc, output(constant(graph, i32_scalar(0), "start"), 0));
  TF_AddInput(desc, output(constant(graph, i32_scalar(3), "limit"), 0));
  TF_AddInput(desc, output(constant(graph, i32_scalar(1), "delta"), 0));
  TF_AddInputList(desc, vars, 2);
  set_variables(desc, false);
  TF_SetAttrFuncName(desc, "body", "ForBody", 7);
  return output(finish(desc), 0);
}

static TF_Output add_while(void) {
  add_body("WhileBody", true);
  TF_Graph *g = TF_NewGraph();
  TF_Output inputs[3] = {output(placeholder(g, TF_INT32, "i"), 0), output(placeholder(g, TF_FLOAT, "sum"), 0),
                         output(placeholder(g, TF_RESOURCE, "q"), 0)};
  TF_Output three = output(constant(g, i32_scalar(3), "three"), 0);
  TF_Output less = output(binary(g, "Less", inputs[0], three, "less"), 0);
  add_function(graph, function_of(g, "Below3", 3, inputs, 1, &less));
  TF_DeleteGraph(g);
  const TF_Output vars[3] = {output(constant(graph, i32_scalar(0), "i"), 0),
                             output(constant(graph, f32_scalar(100), "start_sum"), 0), output(queue.queue, 0)};
  TF_OperationDescription *desc = TF_NewOperation(graph, "While", "while");
  TF_AddInputList(desc, vars, 3);
  set_variables(desc, true);
  TF_SetAttrFuncName(desc, "cond", "Below3", 6);
  TF_SetAttrFuncName(desc, "body", "WhileBody", 9);
  return output(finish(desc), 1);
}

/* ---- the cases ---- */

static void rows_of_a_map_wait(void) {
  open_session();
  TF_Output map = add_map();
  for (int run = 0; run < 50; run++) {
    TF_Tensor *result = fetch_and_fill(map);
    CHECK_INT(TF_NumDims(result), 1);
    CHECK_INT(TF_Dim(result, 0), 3);
    /* Rows may run in any order. */
    int seen = 0;
    for (int i = 0; i < 3; i++) seen |= 1 << (int)(f32_at(result, i) - 10 * (float)(i + 1));
    CHECK_INT(seen, 1 << 1 | 1 << 2 | 1 << 3);
    TF_DeleteTensor(result);
  }
  close_session();
}

static void iterations_wait(void) {
  TF_Output (*const loops[2])(void) = {add_for, add_while};
  for (int i = 0; i < 2; i++) {
    open_session();
    TF_Output sum = loops[i]();
    for (int run = 0; run < 50; run++) {
      TF_Tensor *result = fetch_and_fill(sum);
      CHECK(f32_at(result, 0) == 106);
      TF_DeleteTensor(result);
    }
    close_session();
  }
}

/* What waits in vain ends with the step's time, and with the session. */
static void waiting_ends(void) {
  TF_Output (*const ops[3])(void) = {add_map, add_for, add_while};
  for (int i = 0; i < 3; i++) {
    open_session();
    TF_Output what = ops[i]();
    Pb limit = {0};
    pb_int(&limit, 2, 100); /* timeout_in_ms */
    TF_Buffer *options = pb_buffer(limit);
    TF_Tensor *result = NULL;
    double start = now_ms();
    TF_SessionRun(session, options, NULL, NULL, 0, &what, &result, 1, NULL, 0, NULL, status);
    CHECK_CODE(status, TF_DEADLINE_EXCEEDED);
    CHECK(result == NULL && now_ms() - start >= 90);
    TF_DeleteBuffer(options);
    Waiter waiter;
    start_waiter(&waiter, session, what);
    sleep_ms(50);
    CHECK(!atomic_load(&waiter.done));
    TF_CloseSession(session, status);
    CHECK_OK(status);
    join_waiter(&waiter);
    CHECK_CODE(waiter.status, TF_CANCELLED);
    delete_waiter(&waiter);
    close_session();
  }
}

/* The error of one row is the op's. */
static void a_row_fails(void) {
  open_session();
  TF_Output map = add_map();
  TF_OperationDescription *desc = TF_NewOperation(graph, "QueueCloseV2", "close");
  TF_AddInput(desc, output(queue.queue, 0));
  run_target(session, finish(desc));
  CHECK(try_fetch(session, map) == NULL);
  CHECK_ERROR(status, TF_OUT_OF_RANGE, "is closed and has insufficient elements (requested 1, current size 0)");
  close_session();
}

CASES(CASE(rows_of_a_map_wait), CASE(iterations_wait), CASE(waiting_ends), CASE(a_row_fails))
