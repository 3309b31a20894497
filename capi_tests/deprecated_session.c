/* Deprecated sessions: a graph of their own made of GraphDefs, tensors by name; and TF_Reset. */
#include "pb.h"
#include "queues.h"

static TF_DeprecatedSession *session;

static void open_session(void) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  session = TF_NewDeprecatedSession(options, status);
  TF_DeleteSessionOptions(options);
  CHECK_OK(status);
  CHECK(session != NULL);
}

static void close_session(void) {
  TF_DeleteDeprecatedSession(session, status);
  CHECK_OK(status);
}

/* Takes over `def`. */
static void extend(Pb def) {
  TF_ExtendGraph(session, def.data, def.length, status);
  free(def.data);
}

static void extend_fails(Pb def, TF_Code code, const char *part) {
  extend(def);
  CHECK_ERROR(status, code, part);
}

static Pb graph_of(const char *name, const char *op, const char *in) {
  Pb def = {0};
  pb_graph_node(&def, name, op, in, NULL);
  return def;
}

/* x (a placeholder) and y = -x */
static void open_sample(void) {
  open_session();
  Pb def = {0};
  pb_graph_node(&def, "x", "Placeholder", NULL, NULL);
  pb_graph_node(&def, "y", "Neg", "x", NULL);
  extend(def);
  CHECK_OK(status);
}

/* One feed, if `in` is given, and one fetch. Returns the result, which the caller deletes. */
static TF_Tensor *run(const char *in, float value, const char *out) {
  TF_Tensor *fed = f32_scalar(value), *result = fed;
  TF_Run(session, NULL, &in, &fed, in != NULL, &out, &result, 1, NULL, 0, NULL, status);
  TF_DeleteTensor(fed);
  return result;
}

static void run_gives(const char *in, float value, const char *out, float expected) {
  TF_Tensor *t = run(in, value, out);
  CHECK_OK(status);
  CHECK(is_f32(t, 1, &expected));
  TF_DeleteTensor(t);
}

static void run_fails(const char *in, const char *out, TF_Code code, const char *part) {
  CHECK(run(in, 1, out) == NULL);
  CHECK_ERROR(status, code, part);
}

static void target_is(const char *name, TF_Code code, const char *part) {
  TF_Tensor *fed = f32_scalar(1);
  const char *in = "x";
  TF_Run(session, NULL, &in, &fed, 1, NULL, NULL, 0, &name, 1, NULL, status);
  TF_DeleteTensor(fed);
  CHECK_ERROR(status, code, part);
}

static void names_of_tensors(void) {
  open_sample();
  run_gives("x", 3, "y", -3);
  run_gives("x:0", 4, "y:0", -4);
  run_fails("x", "y:1", TF_OUT_OF_RANGE, "Node 'y' (type: 'Neg', num of outputs: 1) does not have output 1");
  run_fails("x", "^y", TF_OUT_OF_RANGE, "Node 'y' (type: 'Neg', num of outputs: 1) does not have output -1");
  run_fails("x", "nope", TF_INVALID_ARGUMENT,
            "Tensor nope:0, specified in either feed_devices or fetch_devices was not found in the Graph");
  run_fails("nope", "y", TF_INVALID_ARGUMENT,
            "Tensor nope:0, specified in either feed_devices or fetch_devices was not found in the Graph");
  run_fails("x", "", TF_INVALID_ARGUMENT, "Tensor :0, specified");
  run_fails("x", "y:z", TF_INVALID_ARGUMENT, "Tensor y:z:0, specified");
  run_fails("x", "y:-1", TF_INVALID_ARGUMENT, "Tensor y:-1:0, specified");
  run_fails("x", "x", TF_INVALID_ARGUMENT, "x is both fed and fetched.");
  run_fails(NULL, "y", TF_INVALID_ARGUMENT, "You must feed a value for placeholder tensor 'x' with dtype float");
  close_session();
}

static void feeds_of_one_tensor(void) {
  open_sample();
  TF_Tensor *value = f32_scalar(3), *values[2] = {value, value}, *result = NULL;
  const char *out = "y";
  TF_Run(session, NULL, (const char *[]){"x", "x"}, values, 2, &out, &result, 1, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Endpoint \"x\" fed more than once.");
  TF_Run(session, NULL, (const char *[]){"x", "x:0"}, values, 2, &out, &result, 1, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK(f32_at(result, 0) == -3);
  TF_DeleteTensor(result);
  TF_DeleteTensor(value);
  close_session();
}

/* Of several mistakes of a kind the one is told whose name comes first. */
static void mistakes_in_order_of_names(void) {
  open_sample();
  TF_Tensor *value = f32_scalar(3), *values[4] = {value, value, value, value}, *results[2];
  const char *four[] = {"y", "x", "y", "x"}, *absent[] = {"q", "p"};
  TF_Run(session, NULL, four, values, 4, absent, results, 2, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Tensor p:0, specified in either feed_devices");
  TF_Run(session, NULL, four, values, 4, four, results, 1, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Endpoint \"x\" fed more than once.");
  TF_Run(session, NULL, four, values, 2, four, results, 2, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "x is both fed and fetched.");
  TF_Run(session, NULL, absent, values, 2, four, results, 1, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Tensor p:0, specified in either feed_devices");
  TF_Run(session, NULL, four, values, 2, absent, results, 2, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Tensor p:0, specified in either feed_devices");
  const char *handle = NULL;
  TF_PRunSetup(session, four, 4, absent, 1, NULL, 0, &handle, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Endpoint \"x\" fed more than once.");
  TF_PRunSetup(session, absent, 2, four, 1, NULL, 0, &handle, status);
  CHECK_ERROR(status, TF_NOT_FOUND, "FeedInputs: unable to find feed output p");
  CHECK(handle == NULL);
  TF_DeleteTensor(value);
  close_session();
}

static void targets(void) {
  open_sample();
  target_is("y", TF_OK, "");
  target_is("y:0", TF_OK, "");
  target_is("nope", TF_NOT_FOUND, "PruneForTargets: Some target nodes not found: nope ");
  TF_Run(session, NULL, NULL, NULL, 0, NULL, NULL, 0, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Must specify at least one target to fetch or execute.");
  close_session();
}

static void graphs_that_grow(void) {
  open_session();
  run_fails(NULL, "y", TF_INVALID_ARGUMENT, "Session was not created with a graph before Run()!");
  const char *handle = "untouched", *y = "y";
  TF_PRunSetup(session, NULL, 0, &y, 1, NULL, 0, &handle, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Session was not created with a graph before PRunSetup()!");
  CHECK(handle == NULL);
  extend((Pb){0});
  CHECK_OK(status);
  run_fails(NULL, "y", TF_INVALID_ARGUMENT, "Tensor y:0, specified");
  close_session();
  open_sample();
  extend(graph_of("z", "Neg", "y"));
  CHECK_OK(status);
  run_gives("x", 3, "z", 3);
  run_gives("x", 3, "y", -3);
  /* Control inputs on nodes that are there. */
  extend(graph_of("after", "NoOp", "^z"));
  CHECK_OK(status);
  target_is("after", TF_OK, "");
  close_session();
}

static void bad_graphs(void) {
  open_sample();
  TF_ExtendGraph(session, "\xff\xff", 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Invalid GraphDef");
  extend_fails(graph_of("x", "Placeholder", NULL), TF_INVALID_ARGUMENT,
               "GraphDef argument to Extend includes node 'x', which was created by a previous call to Create or Extend in "
               "this session.");
  extend_fails(graph_of("w", "Neg", "missing"), TF_INVALID_ARGUMENT, "Node 'w': Unknown input node 'missing'");
  extend_fails(graph_of("w", "NoSuchOp", "y"), TF_NOT_FOUND, "Op type not registered 'NoSuchOp'");
  extend_fails(graph_of("bad name", "Neg", "y"), TF_INVALID_ARGUMENT, "Node 'bad name': Node name contains invalid characters");
  extend_fails(graph_of("_u", "Neg", "y"), TF_INVALID_ARGUMENT, "Node '_u': Node name contains invalid characters");
  Pb twice = graph_of("w", "Neg", "x");
  pb_graph_node(&twice, "w", "Neg", "y", NULL);
  extend_fails(twice, TF_INVALID_ARGUMENT, "Node 'w' is not unique");
  Pb newer = graph_of("w", "Neg", "x"), versions = {0};
  pb_int(&versions, 1, 9999);
  pb_int(&versions, 2, 9998);
  pb_message(&newer, 4, versions);
  extend_fails(newer, TF_INVALID_ARGUMENT, "GraphDef min consumer version 9998 above current version");
  /* None of these has left a trace. */
  extend(graph_of("w", "Neg", "y"));
  CHECK_OK(status);
  run_gives("x", 3, "w", 3);
  close_session();
}

static void partial_runs(void) {
  open_sample();
  extend(graph_of("z", "Neg", "y"));
  CHECK_OK(status);
  const char *handle = NULL, *in = "x", *outs[2] = {"z", "y"}, *out = "z:0";
  TF_PRunSetup(session, &in, 1, outs, 2, NULL, 0, &handle, status);
  CHECK_OK(status);
  CHECK_STR(handle, "x->y,z//1/;0");
  TF_Tensor *value = f32_scalar(3), *result = NULL;
  TF_PRun(session, handle, &in, &value, 1, &outs[1], &result, 1, NULL, 0, status);
  CHECK_OK(status);
  CHECK(f32_at(result, 0) == -3);
  TF_DeleteTensor(result);
  TF_PRun(session, handle, NULL, NULL, 0, &out, &result, 1, NULL, 0, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "The fetch z:0 was not specified in partial_run_setup.");
  CHECK(result == NULL);
  TF_PRun(session, handle, NULL, NULL, 0, &outs[0], &result, 1, NULL, 0, status);
  CHECK_OK(status);
  CHECK(f32_at(result, 0) == 3);
  TF_DeleteTensor(result);
  TF_DeleteTensor(value);
  TF_DeletePRunHandle(handle);
  close_session();
}

static void metadata(void) {
  open_sample();
  Pb full = {0};
  pb_int(&full, 1, 3);
  TF_Buffer *options = pb_buffer(full), *metadata = TF_NewBuffer();
  TF_Tensor *value = f32_scalar(3), *result = NULL;
  const char *in = "x", *out = "y";
  TF_Run(session, options, &in, &value, 1, &out, &result, 1, NULL, 0, metadata, status);
  CHECK_OK(status);
  PbView step_stats;
  CHECK(pb_find(pb_view(metadata), 1, 0, &step_stats));
  TF_DeleteTensor(value);
  TF_DeleteTensor(result);
  TF_DeleteBuffer(options);
  TF_DeleteBuffer(metadata);
  close_session();
}

static void devices(void) {
  open_session();
  TF_DeviceList *list = TF_DeprecatedSessionListDevices(session, status);
  CHECK_OK(status);
  CHECK_INT(TF_DeviceListCount(list), 1);
  CHECK_STR(TF_DeviceListName(list, 0, status), "/job:localhost/replica:0/task:0/device:CPU:0");
  TF_DeleteDeviceList(list);
  close_session();
}

static void other_targets(void) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetTarget(options, "local");
  CHECK(TF_NewDeprecatedSession(options, status) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "No session factory registered for the given session options: {target: \"local\"");
  TF_Reset(options, NULL, 0, status);
  CHECK_ERROR(status, TF_NOT_FOUND, "No session factory registered for the given session options: {target: \"local\"");
  TF_DeleteSessionOptions(options);
}

static void closing(void) {
  open_sample();
  TF_CloseDeprecatedSession(session, status);
  CHECK_OK(status);
  run_fails("x", "y", TF_CANCELLED, "Session has been closed.");
  extend_fails(graph_of("late", "Neg", "x"), TF_CANCELLED, "Session has been closed.");
  TF_CloseDeprecatedSession(session, status);
  CHECK_OK(status);
  close_session();
}

static void null_arguments(void) {
  if (!is_tfcore()) return; /* the reference crashes */
  TF_DeleteDeprecatedSession(NULL, status);
  CHECK_OK(status);
  CHECK(TF_NewDeprecatedSession(NULL, status) == NULL);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_Reset(NULL, NULL, 0, status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_ExtendGraph(NULL, NULL, 0, status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  open_sample();
  run_fails("x", NULL, TF_INVALID_ARGUMENT, "");
  TF_Run(session, NULL, NULL, NULL, 1, NULL, NULL, 0, NULL, 0, NULL, status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  close_session();
}

/* ---- TF_Reset ---- */

static void reset_closes_all_sessions(void) {
  open_sample();
  TF_Graph *graph = TF_NewGraph();
  TF_Operation *one = constant(graph, f32_scalar(1), "one");
  TF_Session *other = new_session(graph);
  CHECK(fetch_f32(other, output(one, 0)) == 1);
  TF_SessionOptions *options = TF_NewSessionOptions();
  const char *container = "nope";
  TF_Reset(options, &container, 1, status);
  CHECK_OK(status);
  run_fails("x", "y", TF_CANCELLED, "Session has been closed.");
  CHECK(try_fetch(other, output(one, 0)) == NULL);
  CHECK_ERROR(status, TF_CANCELLED, "Session has been closed.");
  TF_Session *later = new_session(graph);
  CHECK(fetch_f32(later, output(one, 0)) == 1);
  delete_session(later);
  TF_Reset(options, NULL, 0, status); /* closing twice does no harm */
  CHECK_OK(status);
  TF_DeleteSessionOptions(options);
  delete_session(other);
  close_session();
  TF_DeleteGraph(graph);
}

static void reset_wakes_who_waits(void) {
  if (!is_tfcore()) return; /* the reference frees the queue under the feet of the run */
  TF_Graph *graph = TF_NewGraph();
  Queue q = add_queue(graph, "q");
  TF_Session *blocked = new_session(graph);
  Waiter w;
  start_waiter(&w, blocked, output(q.dequeue, 0));
  sleep_ms(50);
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Reset(options, NULL, 0, status);
  CHECK_OK(status);
  join_waiter(&w);
  CHECK_CODE(w.status, TF_CANCELLED);
  delete_waiter(&w);
  TF_DeleteSessionOptions(options);
  delete_session(blocked);
  TF_DeleteGraph(graph);
}

CASES(CASE(names_of_tensors), CASE(feeds_of_one_tensor), CASE(mistakes_in_order_of_names), CASE(targets), CASE(graphs_that_grow), CASE(bad_graphs),
      CASE(partial_runs), CASE(metadata), CASE(devices), CASE(other_targets), CASE(closing), CASE(null_arguments),
      CASE(reset_closes_all_sessions), CASE(reset_wakes_who_waits))
