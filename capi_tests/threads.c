/* Many threads: one session run by all, a graph that grows meanwhile, graphs and sessions of their own. */
#include "nodes.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, RUNS = 200, NODES = 200 };

/* What the threads share. They must not use CHECK: they count what went wrong, and keep the first message. */
static TF_Graph *graph;
static TF_Session *session;
static TF_Operation *x, *y;
static atomic_int failures;
static atomic_bool go_on;

static void note(bool ok, TF_Status *s, const char *what) {
  if (ok) return;
  if (atomic_fetch_add(&failures, 1) == 0) fprintf(stderr, "  %s: \"%s\"\n", what, TF_Message(s));
}

static void start(pthread_t *threads, int count, void *(*body)(void *)) {
  for (int i = 0; i < count; i++) CHECK_INT(pthread_create(&threads[i], NULL, body, (void *)(intptr_t)i), 0);
}

static void join(pthread_t *threads, int count) {
  for (int i = 0; i < count; i++) CHECK_INT(pthread_join(threads[i], NULL), 0);
}

static TF_Tensor *new_scalar(float value) {
  TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof value);
  memcpy(TF_TensorData(t), &value, sizeof value);
  return t;
}

/* Feeds x, fetches `what` and compares; with a status of the thread's own. */
static void run_and_compare(TF_Session *s, TF_Output feed, float value, TF_Output what, float expected,
                            TF_Status *own) {
  TF_Tensor *fed = new_scalar(value), *result = NULL;
  TF_SessionRun(s, NULL, &feed, &fed, 1, &what, &result, 1, NULL, 0, NULL, own);
  note(TF_GetCode(own) == TF_OK, own, "run");
  if (result != NULL) note(f32_at(result, 0) == expected, own, "wrong value");
  TF_DeleteTensor(result);
  TF_DeleteTensor(fed);
}

static void *run_shared(void *argument) {
  TF_Status *own = TF_NewStatus();
  for (int i = 0; i < RUNS; i++) {
    float value = (float)((intptr_t)argument * RUNS + i);
    run_and_compare(session, output(x, 0), value, output(y, 0), value * value - value, own);
  }
  TF_DeleteStatus(own);
  return NULL;
}

static void open_graph(void) {
  atomic_store(&failures, 0);
  graph = TF_NewGraph();
  x = placeholder(graph, TF_FLOAT, "x");
  TF_Operation *neg = unary(graph, "Neg", output(x, 0), "neg");
  TF_Operation *square = binary(graph, "Mul", output(x, 0), output(x, 0), "square");
  y = binary(graph, "AddV2", output(neg, 0), output(square, 0), "y");
  session = new_session(graph);
}

static void close_graph(void) {
  delete_session(session);
  TF_DeleteGraph(graph);
  CHECK_INT(atomic_load(&failures), 0);
}

static void one_session_many_threads(void) {
  open_graph();
  pthread_t threads[THREADS];
  start(threads, THREADS, run_shared);
  join(threads, THREADS);
  close_graph();
}

/* Adds a chain of nodes and runs each as soon as it exists. */
static void *extend_shared(void *argument) {
  (void)argument;
  TF_Status *own = TF_NewStatus();
  TF_Output last = output(x, 0);
  for (int i = 0; i < NODES; i++) {
    char name[32];
    snprintf(name, sizeof name, "chain%d", i);
    TF_OperationDescription *desc = TF_NewOperation(graph, "Neg", name);
    TF_AddInput(desc, last);
    TF_Operation *op = TF_FinishOperation(desc, own);
    note(op != NULL, own, "finish");
    if (op == NULL) break;
    last = output(op, 0);
    if (i % 10 == 0) run_and_compare(session, output(x, 0), 3, last, i % 2 == 0 ? -3 : 3, own);
  }
  TF_DeleteStatus(own);
  return NULL;
}

static void runs_while_the_graph_grows(void) {
  open_graph();
  pthread_t runners[THREADS], extender;
  start(runners, THREADS, run_shared);
  start(&extender, 1, extend_shared);
  join(runners, THREADS);
  join(&extender, 1);
  CHECK(TF_GraphOperationByName(graph, "chain199") != NULL);
  close_graph();
}

/* Each thread adds nodes of its own to the one graph. */
static void *build_shared(void *argument) {
  TF_Status *own = TF_NewStatus();
  for (int i = 0; i < NODES; i++) {
    char name[32];
    snprintf(name, sizeof name, "t%d_%d", (int)(intptr_t)argument, i);
    TF_OperationDescription *desc = TF_NewOperation(graph, "Neg", name);
    TF_AddInput(desc, output(x, 0));
    TF_Operation *op = TF_FinishOperation(desc, own);
    note(op != NULL, own, "finish");
    note(TF_GraphOperationByName(graph, name) == op, own, "lookup");
  }
  TF_DeleteStatus(own);
  return NULL;
}

static void many_threads_build_one_graph(void) {
  open_graph();
  int before = count_operations(graph);
  pthread_t threads[THREADS];
  start(threads, THREADS, build_shared);
  join(threads, THREADS);
  CHECK_INT(count_operations(graph), before + THREADS * NODES);
  close_graph();
}

/* All threads want the same names: one of them gets each. */
static atomic_int won;

static void *compete(void *argument) {
  (void)argument;
  TF_Status *own = TF_NewStatus();
  for (int i = 0; i < NODES; i++) {
    char name[32];
    snprintf(name, sizeof name, "same%d", i);
    if (TF_FinishOperation(TF_NewOperation(graph, "NoOp", name), own) != NULL) atomic_fetch_add(&won, 1);
    else note(TF_GetCode(own) == TF_INVALID_ARGUMENT, own, "compete");
  }
  TF_DeleteStatus(own);
  return NULL;
}

static void a_name_goes_to_one_thread(void) {
  open_graph();
  atomic_store(&won, 0);
  pthread_t threads[THREADS];
  start(threads, THREADS, compete);
  join(threads, THREADS);
  CHECK_INT(atomic_load(&won), NODES);
  close_graph();
}

/* A graph and a session for each thread, opened and closed again and again. */
static void *own_sessions(void *argument) {
  (void)argument;
  TF_Status *own = TF_NewStatus();
  TF_SessionOptions *options = TF_NewSessionOptions();
  for (int i = 0; i < 10; i++) {
    TF_Graph *g = TF_NewGraph();
    TF_OperationDescription *desc = TF_NewOperation(g, "Placeholder", "in");
    TF_SetAttrType(desc, "dtype", TF_FLOAT);
    TF_Operation *in = TF_FinishOperation(desc, own);
    desc = TF_NewOperation(g, "Neg", "out");
    TF_AddInput(desc, output(in, 0));
    TF_Operation *out = TF_FinishOperation(desc, own);
    note(out != NULL, own, "finish");
    TF_Session *s = TF_NewSession(g, options, own);
    note(s != NULL, own, "session");
    if (out != NULL && s != NULL) run_and_compare(s, output(in, 0), 2, output(out, 0), -2, own);
    TF_DeleteSession(s, own);
    TF_DeleteGraph(g);
  }
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(own);
  return NULL;
}

static void a_session_for_each_thread(void) {
  atomic_store(&failures, 0);
  pthread_t threads[THREADS];
  start(threads, THREADS, own_sessions);
  join(threads, THREADS);
  CHECK_INT(atomic_load(&failures), 0);
}

/* Runs until the session is closed; then the error says so. */
static void *run_until_closed(void *argument) {
  (void)argument;
  TF_Status *own = TF_NewStatus();
  while (atomic_load(&go_on)) {
    TF_Output feed = output(x, 0), what = output(y, 0);
    TF_Tensor *fed = new_scalar(2), *result = NULL;
    TF_SessionRun(session, NULL, &feed, &fed, 1, &what, &result, 1, NULL, 0, NULL, own);
    if (TF_GetCode(own) != TF_OK) {
      note(TF_GetCode(own) == TF_CANCELLED && result == NULL, own, "after close");
      atomic_store(&go_on, false);
    }
    TF_DeleteTensor(result);
    TF_DeleteTensor(fed);
  }
  TF_DeleteStatus(own);
  return NULL;
}

static void close_during_runs(void) {
  open_graph();
  atomic_store(&go_on, true);
  pthread_t threads[THREADS];
  start(threads, THREADS, run_until_closed);
  TF_CloseSession(session, status);
  CHECK_OK(status);
  join(threads, THREADS);
  close_graph();
}

CASES(CASE(one_session_many_threads), CASE(runs_while_the_graph_grows), CASE(many_threads_build_one_graph),
      CASE(a_name_goes_to_one_thread), CASE(a_session_for_each_thread), CASE(close_during_runs))
