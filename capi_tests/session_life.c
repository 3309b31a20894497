/* The life of sessions: several on one graph, graphs that go first, closing with runs in progress, state. */
#include "functions.h"
#include "pb.h"
#include "queues.h"

static void close_wakes_blocked_runs(void) {
  TF_Graph *graph = TF_NewGraph();
  Queue q = add_queue(graph, "q");
  TF_Session *session = new_session(graph), *other = new_session(graph);
  enum { WAITERS = 3 };
  Waiter waiters[WAITERS], undisturbed;
  for (int i = 0; i < WAITERS; i++) start_waiter(&waiters[i], session, output(q.dequeue, 0));
  start_waiter(&undisturbed, other, output(q.dequeue, 0));
  sleep_ms(100);
  for (int i = 0; i < WAITERS; i++) CHECK(!atomic_load(&waiters[i].done));
  TF_CloseSession(session, status);
  CHECK_OK(status);
  for (int i = 0; i < WAITERS; i++) {
    join_waiter(&waiters[i]);
    CHECK_ERROR(waiters[i].status, TF_CANCELLED, "Dequeue operation was cancelled\n\t [[{{node q/dequeue}}]]");
    CHECK(waiters[i].result == NULL);
    delete_waiter(&waiters[i]);
  }
  TF_CloseSession(session, status);
  CHECK_OK(status);
  CHECK(try_fetch(session, output(q.dequeue, 0)) == NULL);
  CHECK_ERROR(status, TF_CANCELLED, "Session has been closed.");
  delete_session(session);
  /* Another session on the graph has a queue of its own and goes on. */
  CHECK(!atomic_load(&undisturbed.done));
  TF_Output feed = output(q.value, 0);
  TF_Tensor *value = f32_scalar(3);
  const TF_Operation *enqueue = q.enqueue;
  TF_SessionRun(other, NULL, &feed, &value, 1, NULL, NULL, 0, &enqueue, 1, NULL, status);
  CHECK_OK(status);
  TF_DeleteTensor(value);
  join_waiter(&undisturbed);
  CHECK_OK(undisturbed.status);
  CHECK(f32_at(undisturbed.result, 0) == 3);
  delete_waiter(&undisturbed);
  delete_session(other);
  TF_DeleteGraph(graph);
}

/* Loops without end: x = x + 0 while true, of Switches and as a While. */
static TF_Output add_endless_loop(TF_Graph *g) {
  TF_Output start = output(constant(g, f32_scalar(0), "start"), 0), result;
  TF_WhileParams params = TF_NewWhile(g, &start, 1, status);
  CHECK_OK(status);
  params.name = "endless";
  params.cond_output = output(constant(params.cond_graph, tensor_of(TF_BOOL, NULL, 0, "\1", 1), "yes"), 0);
  TF_Operation *zero = constant(params.body_graph, f32_scalar(0), "zero");
  params.body_outputs[0] = output(binary(params.body_graph, "AddV2", params.body_inputs[0], output(zero, 0), "next"), 0);
  TF_FinishWhile(&params, status, &result);
  CHECK_OK(status);
  return result;
}

static TF_Output add_endless_while(TF_Graph *g) {
  const TF_DataType dtype = TF_FLOAT;
  TF_Graph *parts[2] = {TF_NewGraph(), TF_NewGraph()};
  for (int i = 0; i < 2; i++) {
    TF_Output x = output(placeholder(parts[i], TF_FLOAT, "x"), 0);
    TF_Output zero = output(constant(parts[i], f32_scalar(0), "zero"), 0);
    TF_Output y = output(binary(parts[i], i == 0 ? "GreaterEqual" : "AddV2", x, zero, "y"), 0);
    add_function(g, function_of(parts[i], i == 0 ? "Cond" : "Body", 1, &x, 1, &y));
    TF_DeleteGraph(parts[i]);
  }
  TF_Output start = output(constant(g, f32_scalar(0), "start"), 0);
  TF_OperationDescription *desc = TF_NewOperation(g, "While", "endless");
  TF_AddInputList(desc, &start, 1);
  TF_SetAttrTypeList(desc, "T", &dtype, 1);
  TF_SetAttrFuncName(desc, "cond", "Cond", 4);
  TF_SetAttrFuncName(desc, "body", "Body", 4);
  return output(finish(desc), 0);
}

static void loops_without_end_have_one(void) {
  if (!is_tfcore()) return; /* the reference's go on, and so do its runs */
  const struct {
    TF_Output (*add)(TF_Graph *);
    const char *message;
  } loops[] = {{add_endless_loop, "Loop execution was cancelled."},
               {add_endless_while, "Function was cancelled before it was started"}};
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
    TF_Graph *graph = TF_NewGraph();
    TF_Output what = output(unary(graph, "Neg", loops[i].add(graph), "after"), 0);
    TF_Session *session = new_session(graph);
    Pb limit = {0};
    pb_int(&limit, 2, 100);
    TF_Buffer *options = pb_buffer(limit);
    TF_Tensor *result = NULL;
    TF_SessionRun(session, options, NULL, NULL, 0, &what, &result, 1, NULL, 0, NULL, status);
    CHECK_CODE(status, TF_DEADLINE_EXCEEDED);
    TF_DeleteBuffer(options);
    Waiter w;
    start_waiter(&w, session, what);
    sleep_ms(50);
    CHECK(!atomic_load(&w.done));
    TF_CloseSession(session, status);
    CHECK_OK(status);
    join_waiter(&w);
    CHECK_ERROR(w.status, TF_CANCELLED, loops[i].message);
    delete_waiter(&w);
    delete_session(session);
    TF_DeleteGraph(graph);
  }
}

static void graphs_and_sessions_go_in_any_order(void) {
  for (int order = 0; order < 6; order++) {
    TF_Graph *graph = TF_NewGraph();
    TF_Operation *one = constant(graph, f32_scalar(1), "one");
    TF_Session *sessions[2] = {new_session(graph), new_session(graph)};
    bool graph_is_live = true, is_live[2] = {true, true};
    int turns[3] = {order % 3, (order + 1 + order / 3) % 3, (order + 2 - order / 3) % 3};
    for (int t = 0; t < 3; t++) {
      if (turns[t] == 2) {
        TF_DeleteGraph(graph);
        graph_is_live = false;
      } else {
        delete_session(sessions[turns[t]]);
        is_live[turns[t]] = false;
      }
      for (int i = 0; i < 2; i++)
        if (is_live[i]) CHECK(fetch_f32(sessions[i], output(one, 0)) == 1);
    }
    CHECK(!graph_is_live);
  }
}

/* Queues and variables under one name in two containers are two; two sessions share nothing. */
static TF_Operation *variable(TF_Graph *g, const char *container, const char *name) {
  TF_OperationDescription *desc = TF_NewOperation(g, "VarHandleOp", name);
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", NULL, 0);
  TF_SetAttrString(desc, "container", container, strlen(container));
  TF_SetAttrString(desc, "shared_name", "shared", 6);
  return finish(desc);
}

static TF_Operation *read_of(TF_Graph *g, TF_Operation *v, const char *name) {
  TF_OperationDescription *desc = TF_NewOperation(g, "ReadVariableOp", name);
  TF_AddInput(desc, output(v, 0));
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  return finish(desc);
}

static void containers_and_shared_names(void) {
  TF_Graph *graph = TF_NewGraph();
  TF_Operation *first = variable(graph, "", "first"), *same = variable(graph, "localhost", "same");
  TF_Operation *other = variable(graph, "elsewhere", "other");
  TF_Operation *set = binary(graph, "AssignVariableOp", output(first, 0), output(constant(graph, f32_scalar(5), "five"), 0), "set");
  TF_Operation *read_same = read_of(graph, same, "read_same"), *read_other = read_of(graph, other, "read_other");
  TF_Session *session = new_session(graph), *next = new_session(graph);
  run_target(session, set);
  CHECK(fetch_f32(session, output(read_same, 0)) == 5);
  CHECK(try_fetch(session, output(read_other, 0)) == NULL);
  CHECK_CODE(status, TF_FAILED_PRECONDITION);
  CHECK(try_fetch(next, output(read_same, 0)) == NULL);
  CHECK_CODE(status, TF_FAILED_PRECONDITION);
  delete_session(session);
  CHECK(try_fetch(next, output(read_same, 0)) == NULL);
  CHECK_CODE(status, TF_FAILED_PRECONDITION);
  delete_session(next);
  TF_DeleteGraph(graph);
}

/* One that extends by itself, one that the client extends, both on a graph that grows. */
static void extending(void) {
  TF_Graph *graph = TF_NewGraph();
  TF_Operation *one = constant(graph, f32_scalar(1), "one");
  TF_Session *by_itself = new_session(graph), *by_client = new_session(graph);
  TF_ExtendSession(by_client, status);
  CHECK_OK(status);
  for (int i = 0; i < 5; i++) {
    char name[16];
    snprintf(name, sizeof name, "n%d", i);
    TF_Output late = output(unary(graph, "Neg", output(one, 0), name), 0);
    CHECK(fetch_f32(by_itself, late) == -1);
    CHECK(try_fetch(by_client, late) == NULL);
    CHECK(TF_GetCode(status) != TF_OK);
    CHECK(fetch_f32(by_client, output(one, 0)) == 1);
    TF_ExtendSession(by_client, status);
    CHECK_OK(status);
    CHECK(fetch_f32(by_client, late) == -1);
  }
  TF_CloseSession(by_client, status);
  CHECK_OK(status);
  TF_ExtendSession(by_client, status);
  CHECK_OK(status); /* there is nothing new */
  no_op(graph, "too_late");
  TF_ExtendSession(by_client, status);
  CHECK_ERROR(status, TF_CANCELLED, "Session has been closed.");
  delete_session(by_itself);
  delete_session(by_client);
  TF_DeleteGraph(graph);
}

/* A deleted graph is there, and can be asked and extended, as long as a session is. */
static void deleted_graphs_serve_their_sessions(void) {
  TF_Graph *graph = TF_NewGraph();
  constant(graph, f32_scalar(2), "two");
  TF_Session *first = new_session(graph), *second = new_session(graph);
  TF_DeleteGraph(graph);
  TF_Operation *two = TF_GraphOperationByName(graph, "two");
  CHECK(fetch_f32(first, output(two, 0)) == 2);
  delete_session(first);
  TF_Operation *neg = unary(graph, "Neg", output(two, 0), "neg");
  CHECK(fetch_f32(second, output(neg, 0)) == -2);
  delete_session(second);
}

CASES(CASE(deleted_graphs_serve_their_sessions), CASE(close_wakes_blocked_runs), CASE(loops_without_end_have_one),
      CASE(graphs_and_sessions_go_in_any_order),
      CASE(containers_and_shared_names), CASE(extending))
