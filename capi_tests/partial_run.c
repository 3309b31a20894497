/* Partial runs: announced as a whole, then fed and fetched piece by piece. */
#include "pb.h"
#include "queues.h"

/* The sample: r1 = a + b, r2 = r1 * c, and a node without outputs. */
static TF_Graph *graph;
static TF_Session *session;
static TF_Operation *a, *b, *c, *r1, *r2, *nothing;

static void open_sample(void) {
  graph = TF_NewGraph();
  a = placeholder(graph, TF_FLOAT, "a");
  b = placeholder(graph, TF_FLOAT, "b");
  c = placeholder(graph, TF_FLOAT, "c");
  r1 = binary(graph, "AddV2", output(a, 0), output(b, 0), "r1");
  r2 = binary(graph, "Mul", output(r1, 0), output(c, 0), "r2");
  nothing = no_op(graph, "nothing");
  session = new_session(graph);
}

static void close_sample(void) {
  delete_session(session);
  TF_DeleteGraph(graph);
}

#define OUTPUTS(...) \
  (const TF_Output[]){__VA_ARGS__}, (int)(sizeof((const TF_Output[]){__VA_ARGS__}) / sizeof(TF_Output))
#define NONE NULL, 0
#define O(op) output(op, 0)
#define VALUES(...) (const float[]){__VA_ARGS__}

static const char *try_setup(const TF_Output *in, int ins, const TF_Output *out, int outs, const TF_Operation *target) {
  const char *handle = "untouched";
  TF_SessionPRunSetup(session, in, ins, out, outs, &target, target != NULL, &handle, status);
  return handle;
}

static const char *setup(const TF_Output *in, int ins, const TF_Output *out, int outs, const TF_Operation *target) {
  const char *handle = try_setup(in, ins, out, outs, target);
  CHECK_OK(status);
  CHECK(handle != NULL);
  return handle;
}

static const char *setup_sample(void) {
  return setup(OUTPUTS(O(a), O(b), O(c)), OUTPUTS(O(r1), O(r2)), NULL);
}

static void setup_fails(const TF_Output *in, int ins, const TF_Output *out, int outs, const TF_Operation *target,
                        TF_Code code, const char *part) {
  const char *handle = try_setup(in, ins, out, outs, target);
  CHECK_ERROR(status, code, part);
  CHECK(handle == NULL);
}

/* One call; the results are compared with `expected` if it succeeds, and must be NULL if not. */
static void call(const char *handle, const TF_Output *in, int ins, const float *values, const TF_Output *out, int outs,
                 const float *expected) {
  TF_Tensor *fed[4] = {NULL}, *results[4];
  for (int i = 0; i < ins; i++) fed[i] = f32_scalar(values[i]);
  for (int i = 0; i < outs; i++) results[i] = (TF_Tensor *)&results;
  TF_SessionPRun(session, handle, in, fed, ins, out, results, outs, NULL, 0, status);
  for (int i = 0; i < ins; i++) TF_DeleteTensor(fed[i]);
  for (int i = 0; i < outs; i++) {
    if (TF_GetCode(status) == TF_OK) {
      CHECK(results[i] != NULL);
      CHECK_INT(TF_TensorElementCount(results[i]), 1);
      CHECK(f32_at(results[i], 0) == expected[i]);
      TF_DeleteTensor(results[i]);
    } else {
      CHECK(results[i] == NULL);
    }
  }
}

static void feed(const char *handle, TF_Operation *op, float value) {
  call(handle, OUTPUTS(O(op)), &value, NONE, NULL);
  CHECK_OK(status);
}

static void fetch_part(const char *handle, TF_Operation *op, float expected) {
  call(handle, NONE, NULL, OUTPUTS(O(op)), &expected);
  CHECK_OK(status);
}

static void is_unknown(const char *handle) {
  call(handle, NONE, NULL, NONE, NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Must run 'setup' before performing partial runs!");
}

/* ---- what works ---- */

static void in_two_steps(void) {
  open_sample();
  for (int round = 0; round < 3; round++) {
    const char *handle = setup_sample();
    call(handle, OUTPUTS(O(a), O(b)), VALUES(1, 2), OUTPUTS(O(r1)), VALUES(3));
    CHECK_OK(status);
    call(handle, OUTPUTS(O(c)), VALUES(10), OUTPUTS(O(r2)), VALUES(30));
    CHECK_OK(status);
    is_unknown(handle);
    TF_DeletePRunHandle(handle);
  }
  close_sample();
}

static void one_by_one(void) {
  open_sample();
  const char *handle = setup_sample();
  feed(handle, c, 4);
  feed(handle, a, 1);
  call(handle, NONE, NULL, NONE, NULL);
  CHECK_OK(status);
  feed(handle, b, 5);
  fetch_part(handle, r2, 24);
  fetch_part(handle, r1, 6);
  is_unknown(handle);
  TF_DeletePRunHandle(handle);
  close_sample();
}

static void handles_are_told_by_their_names(void) {
  open_sample();
  const char *handle = setup(OUTPUTS(O(b), O(a), O(c)), OUTPUTS(O(r2), O(r1)), nothing);
  CHECK_STR(handle, "a:0,b:0,c:0->r1:0,r2:0/nothing/1/;0");
  TF_DeletePRunHandle(handle);
  close_sample();
}

static void it_ends_with_the_last_feed_and_fetch(void) {
  open_sample();
  const char *handle = setup(OUTPUTS(O(a), O(b), O(c)), OUTPUTS(O(r1)), NULL);
  call(handle, OUTPUTS(O(a), O(b)), VALUES(1, 2), OUTPUTS(O(r1)), VALUES(3));
  CHECK_OK(status);
  call(handle, NONE, NULL, NONE, NULL); /* c is still to come */
  CHECK_OK(status);
  feed(handle, c, 1);
  is_unknown(handle);
  TF_DeletePRunHandle(handle);
  close_sample();
}

static void intermediate_tensors_are_fed(void) {
  open_sample();
  const char *handle = setup(OUTPUTS(O(r1), O(c)), OUTPUTS(O(r2)), NULL);
  call(handle, OUTPUTS(O(r1), O(c)), VALUES(4, 5), OUTPUTS(O(r2)), VALUES(20));
  CHECK_OK(status);
  TF_DeletePRunHandle(handle);
  /* What was fetched decides on what is fed next. */
  TF_Operation *n = unary(graph, "Neg", O(r1), "n"), *m = unary(graph, "Neg", O(n), "m");
  handle = setup(OUTPUTS(O(a), O(b), O(n)), OUTPUTS(O(r1), O(m)), NULL);
  call(handle, OUTPUTS(O(a), O(b)), VALUES(1, 2), OUTPUTS(O(r1)), VALUES(3));
  CHECK_OK(status);
  call(handle, OUTPUTS(O(n)), VALUES(50), OUTPUTS(O(m)), VALUES(-50));
  CHECK_OK(status);
  TF_DeletePRunHandle(handle);
  close_sample();
}

static void targets(void) {
  open_sample();
  const char *handle = setup(NONE, NONE, nothing);
  const TF_Operation *target = nothing;
  TF_SessionPRun(session, handle, NULL, NULL, 0, NULL, NULL, 0, &target, 1, status);
  CHECK_OK(status);
  is_unknown(handle);
  TF_DeletePRunHandle(handle);
  handle = setup(OUTPUTS(O(a), O(b)), OUTPUTS(O(r1)), nothing);
  call(handle, OUTPUTS(O(a), O(b)), VALUES(1, 2), OUTPUTS(O(r1)), VALUES(3)); /* need not be named again */
  CHECK_OK(status);
  is_unknown(handle);
  TF_DeletePRunHandle(handle);
  close_sample();
}

static void a_fetch_may_be_announced_twice(void) {
  open_sample();
  const char *handle = setup(OUTPUTS(O(a), O(b)), OUTPUTS(O(r1), O(r1)), NULL);
  if (is_tfcore()) { /* the reference waits for a second value that never comes */
    call(handle, OUTPUTS(O(a), O(b)), VALUES(1, 2), OUTPUTS(O(r1), O(r1)), VALUES(3, 3));
    CHECK_OK(status);
    is_unknown(handle);
  }
  TF_DeletePRunHandle(handle);
  close_sample();
}

static void interleaved(void) {
  open_sample();
  const char *first = setup_sample(), *second = setup_sample();
  CHECK(strcmp(first, second) != 0);
  call(first, OUTPUTS(O(a), O(b)), VALUES(1, 2), OUTPUTS(O(r1)), VALUES(3));
  CHECK_OK(status);
  call(second, OUTPUTS(O(a), O(b)), VALUES(10, 20), OUTPUTS(O(r1)), VALUES(30));
  CHECK_OK(status);
  /* Whole runs go on in between. */
  TF_Operation *n = unary(graph, "Neg", O(r1), "n");
  TF_Tensor *t = fetch_with(session, O(r1), f32_scalar(7), O(n));
  CHECK(f32_at(t, 0) == -7);
  TF_DeleteTensor(t);
  call(second, OUTPUTS(O(c)), VALUES(2), OUTPUTS(O(r2)), VALUES(60));
  CHECK_OK(status);
  call(first, OUTPUTS(O(c)), VALUES(3), OUTPUTS(O(r2)), VALUES(9));
  CHECK_OK(status);
  TF_DeletePRunHandle(first);
  TF_DeletePRunHandle(second);
  close_sample();
}

/* ---- calls out of turn, which do no harm ---- */

static void feeds_and_fetches_out_of_turn(void) {
  open_sample();
  const char *handle = setup_sample();
  const float one = 1;
  call(handle, OUTPUTS(O(nothing)), &one, NONE, NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "The feed nothing:0 was not specified in partial_run_setup.");
  call(handle, OUTPUTS(output(a, 7)), &one, NONE, NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "The feed a:7 was not specified in partial_run_setup.");
  call(handle, NONE, NULL, OUTPUTS(O(a)), NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "The fetch a:0 was not specified in partial_run_setup.");
  call(handle, NONE, NULL, OUTPUTS(O(r2)), NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Fetch c:0 can't be computed from the feeds that have been fed so far.");
  call(handle, OUTPUTS(O(c)), &one, OUTPUTS(O(r2)), NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Fetch a:0 can't be computed from the feeds that have been fed so far.");
  call(handle, OUTPUTS(O(a), O(b)), VALUES(1, 2), OUTPUTS(O(r1)), VALUES(3));
  CHECK_OK(status);
  call(handle, OUTPUTS(O(a)), &one, NONE, NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "The feed a:0 has already been fed.");
  call(handle, NONE, NULL, OUTPUTS(O(r1)), NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "The fetch r1:0 has already been fetched.");
  call(handle, OUTPUTS(O(c)), VALUES(10), OUTPUTS(O(r2)), VALUES(30));
  CHECK_OK(status);
  TF_DeletePRunHandle(handle);
  close_sample();
}

/* A pending feed counts as needed even behind a tensor that has been fed. */
static void pending_feeds_behind_fed_tensors(void) {
  open_sample();
  const char *handle = setup(OUTPUTS(O(a), O(b), O(c), O(r1)), OUTPUTS(O(r2)), NULL);
  call(handle, OUTPUTS(O(r1), O(c)), VALUES(1, 2), OUTPUTS(O(r2)), NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Fetch a:0 can't be computed from the feeds that have been fed so far.");
  call(handle, OUTPUTS(O(a), O(b), O(c), O(r1)), VALUES(1, 2, 3, 4), OUTPUTS(O(r2)), VALUES(12));
  CHECK_OK(status);
  TF_DeletePRunHandle(handle);
  close_sample();
}

static void unknown_handles(void) {
  open_sample();
  is_unknown("nope");
  if (is_tfcore()) is_unknown(""); /* the reference crashes */
  TF_DeletePRunHandle(NULL);
  close_sample();
}

static void bad_announcements(void) {
  open_sample();
  setup_fails(NONE, NONE, NULL, TF_INVALID_ARGUMENT, "Must specify at least one target to fetch or execute.");
  setup_fails(OUTPUTS(O(a)), NONE, NULL, TF_INVALID_ARGUMENT, "Must specify at least one target to fetch or execute.");
  setup_fails(OUTPUTS(O(a), O(a)), OUTPUTS(O(r1)), NULL, TF_INVALID_ARGUMENT, "Endpoint \"a:0\" fed more than once.");
  setup_fails(OUTPUTS(O(a)), OUTPUTS(O(a)), NULL, TF_INVALID_ARGUMENT, "a:0 is both fed and fetched.");
  setup_fails(OUTPUTS(output(a, 3)), OUTPUTS(O(r1)), NULL, TF_INVALID_ARGUMENT,
              "FeedInputs: a:3 should have output index < 1");
  setup_fails(OUTPUTS(O(a), O(b)), OUTPUTS(output(r1, 2)), NULL, TF_INVALID_ARGUMENT,
              "FetchOutputs r1:2: output index too large, must be < 1");
  TF_Graph *other = TF_NewGraph();
  TF_Operation *foreign = placeholder(other, TF_FLOAT, "foreign");
  setup_fails(OUTPUTS(O(foreign)), OUTPUTS(O(r1)), NULL, TF_NOT_FOUND, "FeedInputs: unable to find feed output foreign:0");
  setup_fails(OUTPUTS(O(a), O(b)), OUTPUTS(O(foreign)), NULL, TF_NOT_FOUND, "FetchOutputs node foreign:0: not found");
  setup_fails(OUTPUTS(O(a)), NONE, foreign, TF_NOT_FOUND, "PruneForTargets: Some target nodes not found: foreign");
  TF_DeleteGraph(other);
  close_sample();
}

/* What is announced goes by name. */
static void operations_of_other_graphs(void) {
  open_sample();
  TF_Graph *other = TF_NewGraph();
  TF_Operation *also_a = placeholder(other, TF_INT32, "a"), *also_r1 = placeholder(other, TF_INT32, "r1");
  const char *handle = setup(OUTPUTS(O(also_a), O(b)), OUTPUTS(O(also_r1)), NULL);
  call(handle, OUTPUTS(O(a), O(b)), VALUES(1, 2), OUTPUTS(O(r1)), VALUES(3));
  CHECK_OK(status);
  TF_DeletePRunHandle(handle);
  TF_DeleteGraph(other);
  close_sample();
}

static void null_arguments(void) {
  if (!is_tfcore()) return; /* the reference crashes */
  open_sample();
  TF_SessionPRunSetup(session, NULL, 0, NULL, 0, NULL, 0, NULL, status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  setup_fails(NULL, 1, OUTPUTS(O(r1)), NULL, TF_INVALID_ARGUMENT, "");
  setup_fails(OUTPUTS(O(NULL)), OUTPUTS(O(r1)), NULL, TF_INVALID_ARGUMENT, "");
  call(NULL, NONE, NULL, NONE, NULL);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_SessionPRun(NULL, "", NULL, NULL, 0, NULL, NULL, 0, NULL, 0, status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  close_sample();
}

/* ---- errors that end the run ---- */

/* The session lives on. The reference cancels it, with all its runs to come. */
static void session_goes_on(void) {
  if (!is_tfcore()) return;
  const char *handle = setup_sample();
  call(handle, OUTPUTS(O(a), O(b)), VALUES(1, 2), OUTPUTS(O(r1)), VALUES(3));
  CHECK_OK(status);
  call(handle, OUTPUTS(O(c)), VALUES(10), OUTPUTS(O(r2)), VALUES(30));
  CHECK_OK(status);
  TF_DeletePRunHandle(handle);
}

static void missing_feed(void) {
  open_sample();
  const char *handle = setup(OUTPUTS(O(a)), OUTPUTS(O(r1)), NULL);
  call(handle, OUTPUTS(O(a)), VALUES(1), OUTPUTS(O(r1)), NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "You must feed a value for placeholder tensor 'b' with dtype float\n\t [[{{node b}}]]");
  is_unknown(handle);
  TF_DeletePRunHandle(handle);
  session_goes_on();
  close_sample();
}

static void failing_kernel(void) {
  open_sample();
  const char *handle = setup_sample();
  TF_Tensor *values[2] = {f32_vector(2, VALUES(1, 2)), f32_vector(3, VALUES(1, 2, 3))}, *result = values[0];
  TF_Output feeds[2] = {O(a), O(b)}, fetch = O(r1);
  TF_SessionPRun(session, handle, feeds, values, 2, &fetch, &result, 1, NULL, 0, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Incompatible shapes: [2] vs. [3]\n\t [[{{node r1}}]]");
  CHECK(result == NULL);
  TF_DeleteTensor(values[0]);
  TF_DeleteTensor(values[1]);
  is_unknown(handle);
  TF_DeletePRunHandle(handle);
  session_goes_on();
  close_sample();
}

static void wrong_dtype(void) {
  open_sample();
  const char *handle = setup_sample();
  TF_Tensor *values[2] = {i32_scalar(1), f32_scalar(2)}, *result = values[0];
  TF_Output feeds[2] = {O(a), O(b)}, fetch = O(r1);
  TF_SessionPRun(session, handle, feeds, values, 2, &fetch, &result, 1, NULL, 0, status);
  CHECK_ERROR(status, TF_INTERNAL,
              "Output 0 of type int32 does not match declared output type float for node {{node _recv_a_0}}");
  CHECK(result == NULL);
  TF_DeleteTensor(values[0]);
  TF_DeleteTensor(values[1]);
  is_unknown(handle);
  TF_DeletePRunHandle(handle);
  session_goes_on();
  close_sample();
}

static void dead_results(void) {
  open_sample();
  TF_Operation *p = placeholder(graph, TF_BOOL, "p");
  TF_Operation *fork = binary(graph, "Switch", O(a), O(p), "fork");
  TF_Operation *no = unary(graph, "Neg", output(fork, 0), "no"), *yes = unary(graph, "Neg", output(fork, 1), "yes");
  const char *handle = setup(OUTPUTS(O(a), O(p)), OUTPUTS(O(no), O(yes)), NULL);
  TF_Tensor *values[2] = {f32_scalar(1), tensor_of(TF_BOOL, NULL, 0, "\1", 1)}, *result = NULL;
  TF_Output feeds[2] = {O(a), O(p)}, fetch = O(yes);
  TF_SessionPRun(session, handle, feeds, values, 2, &fetch, &result, 1, NULL, 0, status);
  CHECK_OK(status);
  CHECK(is_f32(result, 1, VALUES(-1)));
  TF_DeleteTensor(result);
  TF_DeleteTensor(values[0]);
  TF_DeleteTensor(values[1]);
  call(handle, NONE, NULL, OUTPUTS(O(no)), NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "The tensor returned for no:0 was not valid.");
  is_unknown(handle);
  TF_DeletePRunHandle(handle);
  close_sample();
}

/* ---- waiting ---- */

/* Ends the session and opens one whose calls may take so long. */
static void limit_calls(int64_t ms) {
  delete_session(session);
  Pb config = {0};
  pb_int(&config, 11, ms); /* operation_timeout_in_ms */
  session = configured_session(graph, config);
}

static void time_limit_of_the_session(void) {
  open_sample();
  Queue q = add_queue(graph, "q");
  limit_calls(100);
  const char *handle = setup(OUTPUTS(O(a), O(b)), OUTPUTS(O(r1), O(q.dequeue)), NULL);
  call(handle, OUTPUTS(O(a), O(b)), VALUES(1, 2), OUTPUTS(O(r1)), VALUES(3));
  CHECK_OK(status);
  double start = now_ms();
  call(handle, NONE, NULL, OUTPUTS(O(q.dequeue)), NULL);
  CHECK_ERROR(status, TF_DEADLINE_EXCEEDED, "Timed out waiting for notification");
  double took = now_ms() - start;
  CHECK(took > 95 && took < 1000);
  is_unknown(handle);
  TF_DeletePRunHandle(handle);
  session_goes_on();
  close_sample();
}

/* A loop that would take minutes ends in time too. */
static void time_limit_within_a_loop(void) {
  open_sample();
  TF_Output zero = output(constant(graph, i32_scalar(0), "zero"), 0), last;
  TF_WhileParams params = TF_NewWhile(graph, &zero, 1, status);
  CHECK_OK(status);
  TF_Operation *limit = constant(params.cond_graph, i32_scalar(INT32_MAX), "limit");
  params.cond_output = output(binary(params.cond_graph, "Less", params.cond_inputs[0], output(limit, 0), "less"), 0);
  TF_Operation *one = constant(params.body_graph, i32_scalar(1), "one");
  params.body_outputs[0] = output(binary(params.body_graph, "AddV2", params.body_inputs[0], output(one, 0), "next"), 0);
  params.name = "loop";
  TF_FinishWhile(&params, status, &last);
  CHECK_OK(status);
  limit_calls(100);
  const char *handle = setup(OUTPUTS(O(a), O(b)), OUTPUTS(O(r1), last), NULL);
  double start = now_ms();
  call(handle, NONE, NULL, &last, 1, NULL);
  CHECK_ERROR(status, TF_DEADLINE_EXCEEDED, "Timed out waiting for notification");
  double took = now_ms() - start;
  CHECK(took > 95 && took < 5000);
  is_unknown(handle);
  TF_DeletePRunHandle(handle);
  close_sample();
}

/* What a thread of a test does with a partial run. */
typedef struct {
  const char *handle;
  TF_Output feed, fetch;
  float value;
  TF_Tensor *result;
  TF_Status *status;
} Part;

static void *run_part(void *argument) {
  Part *part = argument;
  TF_Tensor *value = NULL;
  if (part->feed.oper != NULL) {
    value = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof(float));
    memcpy(TF_TensorData(value), &part->value, sizeof(float));
  }
  TF_SessionPRun(session, part->handle, &part->feed, &value, value != NULL, &part->fetch, &part->result,
                 part->fetch.oper != NULL, NULL, 0, part->status);
  TF_DeleteTensor(value);
  return NULL;
}

/* Adds the function `name(x) = op(x, value)`. */
static void add_function(const char *name, const char *op, int value) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = O(placeholder(g, TF_INT32, "x")), y = O(constant(g, i32_scalar(value), "value"));
  TF_Output result = O(binary(g, op, x, y, "result"));
  TF_Function *function = TF_GraphToFunction(g, name, 0, -1, NULL, 1, &x, 1, &result, NULL, NULL, NULL, status);
  CHECK_OK(status);
  TF_GraphCopyFunction(graph, function, NULL, status);
  CHECK_OK(status);
  TF_DeleteFunction(function);
  TF_DeleteGraph(g);
}

/* Adds a loop that would take minutes from 0, as one node. */
static TF_Output add_long_loop(TF_Output start) {
  add_function("is_below", "Less", INT32_MAX);
  add_function("add_one", "AddV2", 1);
  TF_OperationDescription *desc = TF_NewOperation(graph, "Cast", "start");
  TF_AddInput(desc, start);
  TF_SetAttrType(desc, "DstT", TF_INT32);
  TF_Output first = O(finish(desc));
  desc = TF_NewOperation(graph, "StatelessWhile", "loop");
  TF_AddInputList(desc, &first, 1);
  TF_SetAttrFuncName(desc, "cond", "is_below", strlen("is_below"));
  TF_SetAttrFuncName(desc, "body", "add_one", strlen("add_one"));
  return O(finish(desc));
}

/* A call that returns does not take the limit of another one with it, whose thread is inside of a node. */
static void time_limit_of_each_call(void) {
  if (!is_tfcore()) return; /* the reference deletes what its loop still uses, and crashes */
  open_sample();
  TF_Output last = add_long_loop(O(c));
  limit_calls(2000); /* ample for the call in between, under a memory checker too */
  const char *handle = setup(OUTPUTS(O(a), O(b), O(c)), OUTPUTS(O(r1), last), NULL);
  Part part = {handle, O(c), last, 0, NULL, TF_NewStatus()};
  pthread_t thread;
  double start = now_ms();
  CHECK_INT(pthread_create(&thread, NULL, run_part, &part), 0);
  sleep_ms(50);
  call(handle, OUTPUTS(O(a), O(b)), VALUES(1, 2), OUTPUTS(O(r1)), VALUES(3));
  CHECK_OK(status);
  CHECK_INT(pthread_join(thread, NULL), 0);
  double took = now_ms() - start;
  CHECK(took > 1995 && took < 20000);
  CHECK_ERROR(part.status, TF_DEADLINE_EXCEEDED, "Timed out waiting for notification");
  CHECK(part.result == NULL);
  TF_DeleteStatus(part.status);
  TF_DeletePRunHandle(handle);
  close_sample();
}

static void closing_wakes_who_waits(void) {
  open_sample();
  Queue q = add_queue(graph, "q");
  const char *handle = setup(OUTPUTS(O(a), O(b)), OUTPUTS(O(r1), O(q.dequeue)), NULL);
  Part part = {handle, {NULL, 0}, O(q.dequeue), 0, NULL, TF_NewStatus()};
  pthread_t thread;
  CHECK_INT(pthread_create(&thread, NULL, run_part, &part), 0);
  sleep_ms(50);
  TF_CloseSession(session, status);
  CHECK_OK(status);
  CHECK_INT(pthread_join(thread, NULL), 0);
  CHECK_CODE(part.status, TF_CANCELLED);
  CHECK(part.result == NULL);
  TF_DeleteStatus(part.status);
  call(handle, NONE, NULL, NONE, NULL);
  CHECK_ERROR(status, TF_CANCELLED, "Session has been closed.");
  TF_DeletePRunHandle(handle);
  setup_fails(OUTPUTS(O(a), O(b)), OUTPUTS(O(r1)), NULL, TF_CANCELLED, "Session has been closed.");
  close_sample();
}

/* A partial run goes on between its calls: another run gets what it brings. */
static void it_goes_on_between_calls(void) {
  open_sample();
  Queue q = add_queue(graph, "q");
  const char *handle = setup(OUTPUTS(O(a), O(b), O(q.value)), OUTPUTS(O(r1)), q.enqueue);
  feed(handle, q.value, 5);
  TF_Tensor *t = fetch(session, O(q.dequeue));
  CHECK(f32_at(t, 0) == 5);
  TF_DeleteTensor(t);
  call(handle, OUTPUTS(O(a), O(b)), VALUES(1, 2), OUTPUTS(O(r1)), VALUES(3));
  CHECK_OK(status);
  TF_DeletePRunHandle(handle);
  close_sample();
}

static void several_threads_share_a_run(void) {
  open_sample();
  enum { PARTS = 3 };
  for (int round = 0; round < 50; round++) {
    TF_Operation *ops[PARTS] = {a, b, c};
    TF_Operation *negs[PARTS];
    TF_Output feeds[PARTS], fetches[PARTS];
    for (int i = 0; i < PARTS; i++) {
      char name[32];
      snprintf(name, sizeof name, "n%d_%d", round, i);
      negs[i] = unary(graph, "Neg", O(ops[i]), name);
      feeds[i] = O(ops[i]);
      fetches[i] = O(negs[i]);
    }
    const char *handle = setup(feeds, PARTS, fetches, PARTS, NULL);
    Part parts[PARTS];
    pthread_t threads[PARTS];
    for (int i = 0; i < PARTS; i++) {
      parts[i] = (Part){handle, feeds[i], fetches[i], (float)i, NULL, TF_NewStatus()};
      CHECK_INT(pthread_create(&threads[i], NULL, run_part, &parts[i]), 0);
    }
    for (int i = 0; i < PARTS; i++) {
      CHECK_INT(pthread_join(threads[i], NULL), 0);
      CHECK_OK(parts[i].status);
      CHECK(f32_at(parts[i].result, 0) == -(float)i);
      TF_DeleteTensor(parts[i].result);
      TF_DeleteStatus(parts[i].status);
    }
    is_unknown(handle);
    TF_DeletePRunHandle(handle);
  }
  close_sample();
}

/* ---- ends ---- */

static void sessions_are_deleted_with_open_runs(void) {
  open_sample();
  Queue q = add_queue(graph, "q");
  const char *first = setup_sample();
  const char *second = setup(OUTPUTS(O(a), O(b)), OUTPUTS(O(r1), O(q.dequeue)), NULL);
  call(first, OUTPUTS(O(a), O(b)), VALUES(1, 2), OUTPUTS(O(r1)), VALUES(3));
  CHECK_OK(status);
  close_sample();
  TF_DeletePRunHandle(first);
  TF_DeletePRunHandle(second);
}

CASES(CASE(in_two_steps), CASE(one_by_one), CASE(handles_are_told_by_their_names),
      CASE(it_ends_with_the_last_feed_and_fetch), CASE(intermediate_tensors_are_fed), CASE(targets),
      CASE(a_fetch_may_be_announced_twice), CASE(interleaved), CASE(feeds_and_fetches_out_of_turn),
      CASE(pending_feeds_behind_fed_tensors), CASE(unknown_handles), CASE(bad_announcements), CASE(operations_of_other_graphs), CASE(null_arguments),
      CASE(missing_feed), CASE(failing_kernel), CASE(wrong_dtype), CASE(dead_results),
      CASE(time_limit_of_the_session), CASE(time_limit_within_a_loop), CASE(time_limit_of_each_call),
      CASE(closing_wakes_who_waits), CASE(it_goes_on_between_calls), CASE(several_threads_share_a_run),
      CASE(sessions_are_deleted_with_open_runs))
