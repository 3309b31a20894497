/* Sessions: feeds, fetches, targets and the rules about them; options and metadata; graphs that grow; life times. */
#include "nodes.h"
#include "pb.h"
#include <stdbool.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* A graph x (float placeholder), neg = -x, sum = neg + x2 with x2 = x * x, and a session on it. */
static TF_Graph *graph;
static TF_Session *session;
static TF_Operation *x, *neg, *square, *sum;

static void open_sample(void) {
  graph = TF_NewGraph();
  x = placeholder(graph, TF_FLOAT, "x");
  neg = unary(graph, "Neg", output(x, 0), "neg");
  square = binary(graph, "Mul", output(x, 0), output(x, 0), "square");
  sum = binary(graph, "AddV2", output(neg, 0), output(square, 0), "sum");
  session = new_session(graph);
}

static void close_sample(void) {
  delete_session(session);
  TF_DeleteGraph(graph);
}

static bool is_scalar(TF_Tensor *t, float value) {
  bool same = TF_NumDims(t) == 0 && is_f32(t, 1, &value);
  TF_DeleteTensor(t);
  return same;
}

/* ---- feeds, fetches, targets ---- */

static void feed_and_fetch(void) {
  open_sample();
  CHECK(is_scalar(fetch_with(session, output(x, 0), f32_scalar(3), output(neg, 0)), -3));
  CHECK(is_scalar(fetch_with(session, output(x, 0), f32_scalar(3), output(sum, 0)), 6));
  CHECK(is_scalar(fetch_with(session, output(x, 0), f32_scalar(4), output(sum, 0)), 12));
  close_sample();
}

static void several_fetches(void) {
  open_sample();
  TF_Output fetches[4] = {output(sum, 0), output(neg, 0), output(sum, 0), output(square, 0)};
  TF_Output feed = output(x, 0);
  TF_Tensor *value = f32_vector(2, (float[]){1, 3}), *results[4] = {NULL};
  TF_SessionRun(session, NULL, &feed, &value, 1, fetches, results, 4, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK(is_f32(results[0], 2, (float[]){0, 6}));
  CHECK(is_f32(results[1], 2, (float[]){-1, -3}));
  CHECK(is_f32(results[2], 2, (float[]){0, 6}));
  CHECK(is_f32(results[3], 2, (float[]){1, 9}));
  CHECK(results[0] != results[2]);
  for (int i = 0; i < 4; i++) TF_DeleteTensor(results[i]);
  CHECK(is_f32(value, 2, (float[]){1, 3}));
  TF_DeleteTensor(value);
  close_sample();
}

static void intermediate_values_can_be_fed(void) {
  open_sample();
  TF_Operation *one = constant(graph, f32_scalar(1), "one");
  TF_Operation *next = binary(graph, "AddV2", output(x, 0), output(one, 0), "next");
  TF_Output feeds[2] = {output(neg, 0), output(next, 0)};
  TF_OperationDescription *desc = TF_NewOperation(graph, "Pack", "pack");
  TF_AddInputList(desc, feeds, 2);
  TF_Output what = output(finish(desc), 0);
  TF_Tensor *values[2] = {f32_scalar(10), f32_scalar(20)}, *result = NULL;
  TF_SessionRun(session, NULL, feeds, values, 2, &what, &result, 1, NULL, 0, NULL, status);
  CHECK_OK(status); /* x is not needed and not missed */
  CHECK(is_f32(result, 2, (float[]){10, 20}));
  TF_DeleteTensor(result);
  if (is_tfcore()) { /* the reference rewrites x * x and -x + y, past the feeds */
    feeds[1] = output(square, 0);
    what = output(sum, 0);
    TF_SessionRun(session, NULL, feeds, values, 2, &what, &result, 1, NULL, 0, NULL, status);
    CHECK_OK(status);
    CHECK(is_scalar(result, 30));
  }
  TF_DeleteTensor(values[0]);
  TF_DeleteTensor(values[1]);
  TF_Operation *twice = binary(graph, "AddV2", output(one, 0), output(one, 0), "twice");
  CHECK(is_scalar(fetch(session, output(twice, 0)), 2));
  CHECK(is_scalar(fetch_with(session, output(one, 0), f32_scalar(8), output(twice, 0)), 16));
  close_sample();
}

static void one_output_of_several_can_be_fed(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *axis = constant(g, i32_scalar(0), "axis");
  TF_Operation *both = constant(g, f32_vector(2, (float[]){1, 2}), "both");
  TF_OperationDescription *desc = TF_NewOperation(g, "Split", "split");
  TF_AddInput(desc, output(axis, 0));
  TF_AddInput(desc, output(both, 0));
  TF_SetAttrInt(desc, "num_split", 2);
  TF_Operation *split = finish(desc);
  TF_Operation *total = binary(g, "AddV2", output(split, 0), output(split, 1), "total");
  TF_Session *s = new_session(g);
  TF_Tensor *t = fetch_with(s, output(split, 1), f32_vector(1, (float[]){100}), output(total, 0));
  CHECK(is_f32(t, 1, (float[]){101}));
  TF_DeleteTensor(t);
  delete_session(s);
  TF_DeleteGraph(g);
}

static void a_fed_shape_may_differ_from_the_static_one(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *two = shaped(g, TF_FLOAT, (int64_t[]){2}, 1, "two");
  TF_Operation *minus = unary(g, "Neg", output(two, 0), "minus");
  TF_Session *s = new_session(g);
  TF_Tensor *t = fetch_with(s, output(two, 0), f32_vector(3, (float[]){1, 2, 3}), output(minus, 0));
  CHECK(is_f32(t, 3, (float[]){-1, -2, -3}));
  TF_DeleteTensor(t);
  delete_session(s);
  TF_DeleteGraph(g);
}

static void empty_tensors(void) {
  open_sample();
  TF_Tensor *t = fetch_with(session, output(x, 0), f32_vector(0, NULL), output(sum, 0));
  CHECK_INT(TF_NumDims(t), 1);
  CHECK_INT(TF_Dim(t, 0), 0);
  TF_DeleteTensor(t);
  close_sample();
}

static void targets_only(void) {
  open_sample();
  TF_Operation *nothing = no_op(graph, "nothing");
  run_target(session, nothing);
  const TF_Operation *targets[2] = {nothing, nothing};
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, targets, 2, NULL, status);
  CHECK_OK(status);
  close_sample();
}

static void multiple_results_of_one_op(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *v = constant(g, f32_vector(4, (float[]){2, 9, 4, 7}), "v");
  TF_Operation *top = binary(g, "TopKV2", output(v, 0), output(constant(g, i32_scalar(2), "k"), 0), "top");
  TF_Session *s = new_session(g);
  TF_Output what[2] = {output(top, 1), output(top, 0)};
  TF_Tensor *results[2] = {NULL, NULL};
  TF_SessionRun(s, NULL, NULL, NULL, 0, what, results, 2, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK_INT(TF_TensorType(results[0]), TF_INT32);
  CHECK(i32_at(results[0], 0) == 1 && i32_at(results[0], 1) == 3);
  CHECK(is_f32(results[1], 2, (float[]){9, 7}));
  TF_DeleteTensor(results[0]);
  TF_DeleteTensor(results[1]);
  delete_session(s);
  TF_DeleteGraph(g);
}

static void strings(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *a = placeholder(g, TF_STRING, "a");
  TF_Output two[2] = {{a, 0}, {constant(g, string_scalar("and a constant of some length"), "b"), 0}};
  TF_OperationDescription *desc = TF_NewOperation(g, "StringJoin", "join");
  TF_AddInputList(desc, two, 2);
  TF_SetAttrString(desc, "separator", ", ", 2);
  TF_Operation *join = finish(desc);
  TF_Session *s = new_session(g);
  TF_Tensor *t = fetch_with(s, two[0], string_scalar("fed"), output(join, 0));
  CHECK_INT(TF_TensorType(t), TF_STRING);
  CHECK_STR(TF_StringGetDataPointer(TF_TensorData(t)), "fed, and a constant of some length");
  TF_DeleteTensor(t);
  /* A view is as good as a string. */
  static const char text[] = "viewed, not copied into the tensor";
  t = TF_AllocateTensor(TF_STRING, NULL, 0, sizeof(TF_TString));
  TF_StringInit(TF_TensorData(t));
  TF_StringAssignView(TF_TensorData(t), text, sizeof text - 1);
  t = fetch_with(s, two[0], t, output(join, 0));
  CHECK_STR(TF_StringGetDataPointer(TF_TensorData(t)), "viewed, not copied into the tensor, and a constant of some length");
  TF_DeleteTensor(t);
  delete_session(s);
  TF_DeleteGraph(g);
}

/* ---- the rules ---- */

/* Runs with one feed (if `value` is given) and one fetch, which fails; the slot must be NULL. */
static void run_fails(TF_Output feed, TF_Tensor *value, TF_Output what, TF_Code code, const char *part) {
  TF_Tensor *result = (TF_Tensor *)&result;
  TF_SessionRun(session, NULL, &feed, &value, value != NULL, &what, &result, 1, NULL, 0, NULL, status);
  TF_DeleteTensor(value);
  CHECK_ERROR(status, code, part);
  CHECK(result == NULL);
}

static const TF_Output NONE = {NULL, 0};

static void nothing_to_do(void) {
  open_sample();
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Must specify at least one target to fetch or execute.");
  close_sample();
}

static void missing_feed(void) {
  open_sample();
  run_fails(NONE, NULL, output(sum, 0), TF_INVALID_ARGUMENT,
            "You must feed a value for placeholder tensor 'x' with dtype float\n\t [[{{node x}}]]");
  TF_Operation *y = shaped(graph, TF_INT32, (int64_t[]){-1, 3}, 2, "y");
  TF_Operation *minus = unary(graph, "Neg", output(y, 0), "minus");
  run_fails(NONE, NULL, output(minus, 0), TF_INVALID_ARGUMENT,
            "You must feed a value for placeholder tensor 'y' with dtype int32 and shape [?,3]\n\t [[{{node y}}]]");
  close_sample();
}

static void fed_and_fetched(void) {
  open_sample();
  run_fails(output(x, 0), f32_scalar(1), output(x, 0), TF_INVALID_ARGUMENT, "x:0 is both fed and fetched.");
  close_sample();
}

static void fed_twice(void) {
  open_sample();
  TF_Output feeds[2] = {output(x, 0), output(x, 0)}, what = output(neg, 0);
  TF_Tensor *value = f32_scalar(1), *values[2] = {value, value}, *result = NULL;
  TF_SessionRun(session, NULL, feeds, values, 2, &what, &result, 1, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Endpoint \"x:0\" fed more than once.");
  CHECK(result == NULL);
  TF_DeleteTensor(value);
  close_sample();
}

static void index_out_of_range(void) {
  open_sample();
  run_fails(output(x, 0), f32_scalar(1), output(neg, 4), TF_OUT_OF_RANGE,
            "Node 'neg' (type: 'Neg', num of outputs: 1) does not have output 4");
  run_fails(output(x, 2), f32_scalar(1), output(neg, 0), TF_OUT_OF_RANGE,
            "Node 'x' (type: 'Placeholder', num of outputs: 1) does not have output 2");
  close_sample();
}

/* Of several mistakes of a kind the one is told whose name comes first. */
static void mistakes_in_order_of_names(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *b = placeholder(g, TF_FLOAT, "b"), *a = placeholder(g, TF_FLOAT, "a");
  TF_Session *s = new_session(g);
  TF_Output four[4] = {output(b, 0), output(a, 0), output(b, 0), output(a, 0)};
  TF_Tensor *value = f32_scalar(1), *values[4] = {value, value, value, value}, *results[2];
  TF_SessionRun(s, NULL, four, values, 4, four, results, 1, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Endpoint \"a:0\" fed more than once.");
  TF_SessionRun(s, NULL, four, values, 2, four, results, 2, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "a:0 is both fed and fetched.");
  TF_Output beyond[2] = {output(b, 3), output(b, 10)};
  TF_SessionRun(s, NULL, NULL, NULL, 0, beyond, results, 2, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_OUT_OF_RANGE, "Node 'b' (type: 'Placeholder', num of outputs: 1) does not have output 10");
  TF_DeleteTensor(value);
  delete_session(s);
  TF_DeleteGraph(g);
}

static void wrong_dtype_fed(void) {
  open_sample();
  run_fails(output(x, 0), i32_scalar(1), output(neg, 0), TF_INVALID_ARGUMENT,
            is_tfcore() ? "Expects arg[0] to be float but int32 is provided (feed 'x:0')"
                        : "Expects arg[0] to be float but int32 is provided");
  close_sample();
}

static void operations_of_another_graph(void) {
  open_sample();
  constant(graph, f32_scalar(3), "same_name");
  TF_Graph *other = TF_NewGraph();
  TF_Operation *foreign = constant(other, f32_scalar(1), "foreign");
  TF_Tensor *result = NULL;
  TF_Output what = output(foreign, 0);
  TF_SessionRun(session, NULL, NULL, NULL, 0, &what, &result, 1, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "foreign:0, specified in either feed_devices or fetch_devices was not found in the Graph");
  CHECK(result == NULL);
  const TF_Operation *target = foreign;
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, &target, 1, NULL, status);
  CHECK_ERROR(status, TF_NOT_FOUND, "PruneForTargets: Some target nodes not found: foreign");
  /* They are looked up by name. */
  CHECK(fetch_f32(session, output(constant(other, f32_scalar(1), "same_name"), 0)) == 3);
  TF_DeleteGraph(other);
  close_sample();
}

static void invalid_names_fail_at_the_run(void) {
  static const struct {
    const char *name;
    bool is_valid;
  } cases[] = {{"has space", false}, {"bad name!", false}, {"_x", false}, {"", false}, {"/x", false}, {"x:0", false},
               {"a\\b", false},      {"a>", false},        {"a>>b", false}, {"a>_b", false}, {"x/", true}, {"a>.b>c_/-", true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    open_sample();
    no_op(graph, cases[i].name);
    TF_DeleteTensor(try_fetch_with(session, output(x, 0), f32_scalar(1), output(neg, 0)));
    if (cases[i].is_valid) {
      CHECK_OK(status);
    } else {
      char message[64];
      snprintf(message, sizeof message, "Node '%s': Node name contains invalid characters", cases[i].name);
      CHECK_ERROR(status, TF_INVALID_ARGUMENT, message);
    }
    close_sample();
  }
}

static void bad_devices_fail_at_the_run(void) {
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", "a");
  TF_SetDevice(desc, "/job:foo");
  const TF_Operation *a = finish(desc);
  TF_Session *s = new_session(g);
  TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, &a, 1, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Cannot assign a device for operation a");
  delete_session(s);
  TF_DeleteGraph(g);
}

static void kernel_errors_name_the_node(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *a = placeholder(g, TF_FLOAT, "a");
  TF_Operation *shape = placeholder(g, TF_INT32, "shape");
  TF_Operation *reshape = binary(g, "Reshape", output(a, 0), output(shape, 0), "reshape");
  TF_Session *s = new_session(g);
  TF_Output feeds[2] = {output(a, 0), output(shape, 0)}, what = output(reshape, 0);
  TF_Tensor *values[2] = {f32_vector(3, (float[]){1, 2, 3}), i32_vector(1, (int32_t[]){4})}, *result = NULL;
  TF_SessionRun(s, NULL, feeds, values, 2, &what, &result, 1, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Input to reshape is a tensor with 3 values, but the requested shape has 4");
  CHECK_MESSAGE(status, "[[{{node reshape}}]]");
  /* An error ends the step, not the session. */
  ((int32_t *)TF_TensorData(values[1]))[0] = -1;
  TF_SessionRun(s, NULL, feeds, values, 2, &what, &result, 1, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK_INT(TF_TensorElementCount(result), 3);
  TF_DeleteTensor(result);
  TF_DeleteTensor(values[0]);
  TF_DeleteTensor(values[1]);
  delete_session(s);
  TF_DeleteGraph(g);
}

/* ---- options and metadata ---- */

static void run_options_and_metadata(void) {
  open_sample();
  TF_Output feed = output(x, 0), what = output(sum, 0);
  TF_Tensor *value = f32_scalar(3), *result = NULL;
  TF_Buffer *bad = TF_NewBufferFromString("\xff\xff", 2), *metadata = TF_NewBuffer();
  TF_SessionRun(session, bad, &feed, &value, 1, &what, &result, 1, NULL, 0, metadata, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable RunOptions proto");
  CHECK(result == NULL);
  TF_SessionRun(session, NULL, &feed, &value, 1, &what, &result, 1, NULL, 0, bad, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Passing non-empty run_metadata is invalid.");
  CHECK(result == NULL);
  Pb options = {0};
  pb_int(&options, 1, 3); /* trace_level: FULL_TRACE */
  TF_Buffer *trace = pb_buffer(options);
  TF_SessionRun(session, trace, &feed, &value, 1, &what, &result, 1, NULL, 0, metadata, status);
  CHECK_OK(status);
  CHECK(is_scalar(result, 6));
  PbView step_stats;
  CHECK(pb_find(pb_view(metadata), 1, 0, &step_stats));
  CHECK(pb_count(step_stats, 1) >= 1);
  TF_DeleteBuffer(metadata);
  TF_DeleteBuffer(trace);
  TF_DeleteBuffer(bad);
  TF_DeleteTensor(value);
  close_sample();
}

static void session_options(void) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetConfig(options, "\xff\xff", 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable ConfigProto");
  TF_SetStatus(status, TF_OK, "");
  Pb config = {0};
  pb_int(&config, 2, 1); /* intra_op_parallelism_threads */
  pb_int(&config, 5, 1); /* inter_op_parallelism_threads */
  TF_SetConfig(options, config.data, config.length, status);
  free(config.data);
  CHECK_OK(status);
  TF_Graph *g = TF_NewGraph();
  TF_Operation *c = constant(g, f32_scalar(2), "c");
  TF_Session *s = TF_NewSession(g, options, status);
  CHECK_OK(status);
  CHECK(fetch_f32(s, output(c, 0)) == 2);
  delete_session(s);
  TF_SetTarget(options, "local");
  CHECK(TF_NewSession(g, options, status) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "No session factory registered for the given session options: {target: \"local\"");
  TF_SetTarget(options, "");
  s = TF_NewSession(g, options, status);
  CHECK_OK(status);
  delete_session(s);
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(g);
}

/* ---- graphs that grow, several sessions ---- */

static void nodes_added_after_a_run(void) {
  open_sample();
  CHECK(is_scalar(fetch_with(session, output(x, 0), f32_scalar(2), output(neg, 0)), -2));
  TF_Operation *more = binary(graph, "Mul", output(neg, 0), output(square, 0), "more");
  CHECK(is_scalar(fetch_with(session, output(x, 0), f32_scalar(2), output(more, 0)), -8));
  CHECK(is_scalar(fetch_with(session, output(x, 0), f32_scalar(2), output(neg, 0)), -2));
  close_sample();
}

static void imported_after_a_run(void) {
  open_sample();
  CHECK(is_scalar(fetch_with(session, output(x, 0), f32_scalar(2), output(neg, 0)), -2));
  Pb def = {0};
  pb_graph_node(&def, "twice", "AddV2", "in", "in");
  TF_Buffer *buffer = pb_buffer(def);
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsAddInputMapping(options, "in", 0, output(neg, 0));
  TF_GraphImportGraphDef(graph, buffer, options, status);
  CHECK_OK(status);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(buffer);
  TF_Operation *twice = TF_GraphOperationByName(graph, "twice");
  CHECK(is_scalar(fetch_with(session, output(x, 0), f32_scalar(2), output(twice, 0)), -4));
  close_sample();
}

static void session_of_an_empty_graph(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Session *s = new_session(g);
  TF_Operation *c = constant(g, f32_scalar(4), "c");
  CHECK(fetch_f32(s, output(c, 0)) == 4);
  delete_session(s);
  TF_DeleteGraph(g);
}

static void extend_session(void) {
  open_sample();
  TF_ExtendSession(session, status);
  CHECK_OK(status);
  CHECK(is_scalar(fetch_with(session, output(x, 0), f32_scalar(2), output(neg, 0)), -2));
  /* From now on the client extends the session. */
  TF_Operation *late = unary(graph, "Neg", output(neg, 0), "late");
  TF_Tensor *result = try_fetch_with(session, output(x, 0), f32_scalar(2), output(late, 0));
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  CHECK_MESSAGE(status, "Tensor late:0, specified in either feed_devices or fetch_devices was not found in the Graph");
  CHECK(result == NULL);
  const TF_Operation *targets[] = {neg, late, unary(graph, "Neg", output(neg, 0), "and_later")};
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, targets, 3, NULL, status);
  CHECK_CODE(status, TF_NOT_FOUND);
  CHECK_MESSAGE(status, "PruneForTargets: Some target nodes not found: and_later late");
  /* A negative number is the name of no output. */
  result = try_fetch_with(session, output(x, 0), f32_scalar(2), output(neg, -1));
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  CHECK_MESSAGE(status, "Tensor neg:-1:0, specified in either feed_devices or fetch_devices was not found in the Graph");
  CHECK(result == NULL);
  TF_ExtendSession(session, status);
  CHECK_OK(status);
  CHECK(is_scalar(fetch_with(session, output(x, 0), f32_scalar(2), output(late, 0)), 2));
  close_sample();
}

static void two_sessions(void) {
  open_sample();
  TF_Session *other = new_session(graph);
  CHECK(is_scalar(fetch_with(session, output(x, 0), f32_scalar(2), output(neg, 0)), -2));
  CHECK(is_scalar(fetch_with(other, output(x, 0), f32_scalar(3), output(neg, 0)), -3));
  TF_Operation *late = unary(graph, "Neg", output(neg, 0), "late");
  CHECK(is_scalar(fetch_with(other, output(x, 0), f32_scalar(3), output(late, 0)), 3));
  delete_session(other);
  CHECK(is_scalar(fetch_with(session, output(x, 0), f32_scalar(2), output(late, 0)), 2));
  close_sample();
}

/* ---- life times ---- */

static void closed_session(void) {
  open_sample();
  TF_CloseSession(session, status);
  CHECK_OK(status);
  TF_Tensor *result = try_fetch_with(session, output(x, 0), f32_scalar(2), output(neg, 0));
  CHECK_ERROR(status, TF_CANCELLED, "Session has been closed.");
  CHECK(result == NULL);
  TF_CloseSession(session, status);
  CHECK_OK(status);
  /* New nodes come too late; that the session is closed is said first. */
  TF_Operation *late = no_op(graph, "late");
  TF_ExtendSession(session, status);
  CHECK_ERROR(status, TF_CANCELLED, "Session has been closed.");
  const TF_Operation *target = late;
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, &target, 1, NULL, status);
  CHECK_ERROR(status, TF_CANCELLED, "Session has been closed.");
  close_sample();
}

static void graph_deleted_before_its_session(void) {
  open_sample();
  TF_DeleteGraph(graph);
  CHECK(is_scalar(fetch_with(session, output(x, 0), f32_scalar(5), output(neg, 0)), -5));
  CHECK_STR(TF_OperationName(x), "x");
  delete_session(session);
}

static void graph_deleted_between_two_sessions(void) {
  open_sample();
  TF_Session *other = new_session(graph);
  TF_DeleteGraph(graph);
  delete_session(session);
  CHECK(is_scalar(fetch_with(other, output(x, 0), f32_scalar(5), output(neg, 0)), -5));
  delete_session(other);
}

static void results_outlive_session_and_graph(void) {
  open_sample();
  TF_Operation *c = constant(graph, f32_vector(3, (float[]){1, 2, 3}), "c");
  TF_Tensor *computed = fetch_with(session, output(x, 0), f32_scalar(5), output(neg, 0));
  TF_Tensor *stored = fetch(session, output(c, 0));
  close_sample();
  CHECK(is_f32(stored, 3, (float[]){1, 2, 3}));
  TF_DeleteTensor(stored);
  CHECK(is_scalar(computed, -5));
}

static int deallocations;

static void count_deallocation(void *data, size_t length, void *argument) {
  (void)length;
  (void)argument;
  deallocations++;
  free(data);
}

/* A tensor that passes through shares the client's memory, which is given back when the last user is gone. */
static void fed_memory_is_released_last(void) {
  deallocations = 0;
  TF_Graph *g = TF_NewGraph();
  TF_Operation *in = placeholder(g, TF_FLOAT, "in");
  TF_Operation *same = unary(g, "Identity", output(in, 0), "same");
  TF_Session *s = new_session(g);
  float *data = aligned_alloc(64, 64);
  for (int i = 0; i < 16; i++) data[i] = (float)i;
  const int64_t dims[] = {16};
  TF_Tensor *t = TF_NewTensor(TF_FLOAT, dims, 1, data, 64, count_deallocation, NULL);
  TF_Tensor *result = fetch_with(s, output(in, 0), t, output(same, 0));
  for (int i = 0; i < 16; i++) CHECK(f32_at(result, i) == (float)i);
  TF_DeleteTensor(result);
  delete_session(s);
  TF_DeleteGraph(g);
  CHECK_INT(deallocations, 1);
}

/* The options of a run are read before its metadata is looked at. */
static void bad_options_and_metadata(void) {
  open_sample();
  TF_Buffer *bad = TF_NewBufferFromString("\xff", 1);
  TF_SessionRun(session, bad, NULL, NULL, 0, NULL, NULL, 0, NULL, 0, bad, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable RunOptions proto");
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, NULL, 0, bad, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Passing non-empty run_metadata is invalid.");
  TF_DeleteBuffer(bad);
  close_sample();
}

static void delete_of_null(void) {
  TF_DeleteSession(NULL, status);
  CHECK_OK(status);
}

static void null_arguments(void) {
  if (!is_tfcore()) return; /* the reference crashes */
  TF_SessionOptions *options = TF_NewSessionOptions();
  CHECK(TF_NewSession(NULL, options, status) == NULL);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_DeleteSessionOptions(options);
  open_sample();
  run_fails(NONE, NULL, NONE, TF_INVALID_ARGUMENT, "");
  TF_Output feed = output(x, 0), what = output(neg, 0);
  TF_Tensor *value = NULL, *result = NULL;
  TF_SessionRun(session, NULL, &feed, &value, 1, &what, &result, 1, NULL, 0, NULL, status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_SessionRun(session, NULL, NULL, NULL, 1, &what, &result, 1, NULL, 0, NULL, status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  CHECK(result == NULL);
  close_sample();
}

/* ---- variables ---- */

static void reference_variables(void) {
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "VariableV2", "v");
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", NULL, 0);
  TF_Operation *v = finish(desc);
  TF_Operation *init = binary(g, "Assign", output(v, 0), output(constant(g, f32_scalar(5), "five"), 0), "init");
  TF_Operation *read = unary(g, "Identity", output(v, 0), "read");
  TF_Session *first = new_session(g), *second = new_session(g);
  CHECK(try_fetch(first, output(read, 0)) == NULL);
  CHECK_ERROR(status, TF_FAILED_PRECONDITION, "Attempting to use uninitialized value v");
  run_target(first, init);
  CHECK(fetch_f32(first, output(read, 0)) == 5);
  TF_Tensor *t = fetch(first, output(v, 0)); /* a fetched reference is a plain tensor */
  CHECK_INT(TF_TensorType(t), TF_FLOAT);
  CHECK(is_scalar(t, 5));
  /* State belongs to the session. */
  CHECK(try_fetch(second, output(read, 0)) == NULL);
  CHECK_CODE(status, TF_FAILED_PRECONDITION);
  CHECK(is_scalar(fetch_with(second, output(v, 0), f32_scalar(7), output(read, 0)), 7));
  delete_session(first);
  delete_session(second);
  TF_DeleteGraph(g);
}

static void resource_variables(void) {
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "VarHandleOp", "handle");
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", NULL, 0);
  TF_SetAttrString(desc, "shared_name", "v", 1);
  TF_Operation *v = finish(desc);
  TF_Operation *value = placeholder(g, TF_FLOAT, "value");
  TF_Operation *assign = binary(g, "AssignVariableOp", output(v, 0), output(value, 0), "assign");
  desc = TF_NewOperation(g, "ReadVariableOp", "read");
  TF_AddInput(desc, output(v, 0));
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_Operation *read = finish(desc);
  desc = TF_NewOperation(g, "ReadVariableOp", "read_after");
  TF_AddInput(desc, output(v, 0));
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_AddControlInput(desc, assign);
  TF_Operation *read_after = finish(desc);
  TF_Session *first = new_session(g), *second = new_session(g);
  CHECK(try_fetch(first, output(read, 0)) == NULL);
  CHECK_ERROR(status, TF_FAILED_PRECONDITION, "Could not find variable v.");
  CHECK(is_scalar(fetch_with(first, output(value, 0), f32_scalar(3), output(read_after, 0)), 3));
  TF_Tensor *before = fetch(first, output(read, 0));
  CHECK(is_scalar(fetch_with(first, output(value, 0), f32_scalar(4), output(read_after, 0)), 4));
  CHECK(is_scalar(before, 3)); /* what was read does not change */
  CHECK(fetch_f32(first, output(read, 0)) == 4);
  CHECK(try_fetch(second, output(read, 0)) == NULL);
  CHECK_CODE(status, TF_FAILED_PRECONDITION);
  delete_session(first);
  delete_session(second);
  TF_DeleteGraph(g);
}

static void random_streams(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *shape = constant(g, i32_vector(1, (int32_t[]){6}), "shape");
  TF_OperationDescription *desc = TF_NewOperation(g, "RandomUniform", "uniform");
  TF_AddInput(desc, output(shape, 0));
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrInt(desc, "seed", 87654321);
  TF_SetAttrInt(desc, "seed2", 42);
  TF_Operation *uniform = finish(desc);
  for (int round = 0; round < 2; round++) { /* each session starts afresh */
    TF_Session *s = new_session(g);
    TF_Tensor *t = fetch(s, output(uniform, 0));
    CHECK(f32_at(t, 0) == 0.952271461f && f32_at(t, 1) == 0.677407742f && f32_at(t, 5) == 0.631014824f);
    TF_DeleteTensor(t);
    t = fetch(s, output(uniform, 0));
    CHECK(f32_at(t, 0) == 0.151169181f && f32_at(t, 1) == 0.998814225f);
    TF_DeleteTensor(t);
    delete_session(s);
  }
  TF_DeleteGraph(g);
}

static void shapes_found_at_the_run(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *v = placeholder(g, TF_INT32, "v");
  TF_Operation *unique = unary(g, "Unique", output(v, 0), "unique");
  TF_Session *s = new_session(g);
  TF_Tensor *t = fetch_with(s, output(v, 0), i32_vector(5, (int32_t[]){7, 7, 1, 7, 1}), output(unique, 0));
  CHECK_INT(TF_TensorElementCount(t), 2);
  CHECK(i32_at(t, 0) == 7 && i32_at(t, 1) == 1);
  TF_DeleteTensor(t);
  TF_Operation *where = unary(g, "Where", output(placeholder(g, TF_BOOL, "b"), 0), "where");
  const int64_t dims[] = {4};
  const unsigned char bits[] = {0, 1, 0, 1};
  t = fetch_with(s, TF_OperationInput(input(where, 0)), tensor_of(TF_BOOL, dims, 1, bits, 4), output(where, 0));
  CHECK_INT(TF_NumDims(t), 2);
  CHECK(TF_Dim(t, 0) == 2 && TF_Dim(t, 1) == 1);
  const int64_t *found = TF_TensorData(t);
  CHECK(found[0] == 1 && found[1] == 3);
  TF_DeleteTensor(t);
  delete_session(s);
  TF_DeleteGraph(g);
}

/* Whether this machine can take denormal numbers as zeros: valgrind computes without that mode. */
static bool can_flush_denormals(void) {
#ifdef __SSE2__
  volatile float small = 1e-30f, smaller = 1e-10f;
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040); /* flush results, take operands as zeros */
  const bool is_zero = small * smaller == 0;
  _mm_setcsr(mode);
  return is_zero;
#else
  return true;
#endif
}

/* Runs see denormal numbers as zeros, and yield none; the caller's thread keeps its mode. */
static void denormal_numbers_are_zeros(void) {
  if (!can_flush_denormals()) return;
  TF_Graph *g = TF_NewGraph();
  TF_Output a = output(placeholder(g, TF_FLOAT, "a"), 0), b = output(placeholder(g, TF_FLOAT, "b"), 0);
  TF_Output fetches[] = {output(binary(g, "Mul", a, b, "product"), 0), output(unary(g, "Floor", a, "floor"), 0),
                         output(unary(g, "Where", a, "where"), 0)};
  TF_Session *s = new_session(g);
  volatile float small = 1e-30f, smaller = 1e-10f, denormal = -1e-40f;
  const float as[] = {small, denormal, 1e-40f}, bs[] = {smaller, 1e10f, 1};
  TF_Output feeds[] = {a, b};
  TF_Tensor *fed[] = {f32_vector(3, as), f32_vector(3, bs)}, *results[3] = {NULL};
  const float before = small * smaller;
  TF_SessionRun(s, NULL, feeds, fed, 2, fetches, results, 3, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK(small * smaller == before && before > 0);
  for (int i = 0; i < 3; i++) CHECK(f32_at(results[0], i) == 0);
  CHECK(f32_at(results[1], 1) == 0 && f32_at(results[1], 2) == 0);
  CHECK_INT(TF_Dim(results[2], 0), 1);
  for (int i = 0; i < 3; i++) TF_DeleteTensor(results[i]);
  for (int i = 0; i < 2; i++) TF_DeleteTensor(fed[i]);
  delete_session(s);
  TF_DeleteGraph(g);
}

CASES(CASE(feed_and_fetch), CASE(several_fetches), CASE(intermediate_values_can_be_fed),
      CASE(one_output_of_several_can_be_fed), CASE(a_fed_shape_may_differ_from_the_static_one), CASE(empty_tensors),
      CASE(targets_only), CASE(multiple_results_of_one_op), CASE(strings), CASE(nothing_to_do), CASE(missing_feed),
      CASE(fed_and_fetched), CASE(fed_twice), CASE(index_out_of_range), CASE(mistakes_in_order_of_names), CASE(wrong_dtype_fed),
      CASE(operations_of_another_graph), CASE(invalid_names_fail_at_the_run), CASE(bad_devices_fail_at_the_run),
      CASE(kernel_errors_name_the_node), CASE(run_options_and_metadata), CASE(session_options),
      CASE(nodes_added_after_a_run), CASE(imported_after_a_run), CASE(session_of_an_empty_graph), CASE(extend_session),
      CASE(two_sessions), CASE(closed_session), CASE(graph_deleted_before_its_session),
      CASE(graph_deleted_between_two_sessions), CASE(results_outlive_session_and_graph),
      CASE(fed_memory_is_released_last), CASE(bad_options_and_metadata), CASE(delete_of_null), CASE(null_arguments), CASE(reference_variables),
      CASE(resource_variables), CASE(random_streams), CASE(shapes_found_at_the_run),
      CASE(denormal_numbers_are_zeros))
