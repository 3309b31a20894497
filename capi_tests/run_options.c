/* What runs and sessions are told by RunOptions and ConfigProto, and what RunMetadata tells. */
#include "pb.h"
#include "queues.h"

/* x, y = -x, both = y + y, and a queue. */
static TF_Graph *graph;
static TF_Session *session;
static TF_Operation *x, *y, *both;
static Queue q;

/* Takes over `config`. Returns NULL with the status set if there is no such session. */
static TF_Session *session_with(Pb config) {
  TF_SetStatus(status, TF_OK, ""); /* the reference's TF_SetConfig leaves an old error */
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetConfig(options, config.data, config.length, status);
  free(config.data);
  CHECK_OK(status);
  TF_Session *made = TF_NewSession(graph, options, status);
  TF_DeleteSessionOptions(options);
  return made;
}

static void open_sample(Pb config) {
  graph = TF_NewGraph();
  x = placeholder(graph, TF_FLOAT, "x");
  y = unary(graph, "Neg", output(x, 0), "y");
  both = binary(graph, "AddV2", output(y, 0), output(y, 0), "both");
  q = add_queue(graph, "q");
  session = session_with(config);
  CHECK_OK(status);
}

static void close_sample(void) {
  delete_session(session);
  TF_DeleteGraph(graph);
}

static Pb number(int field, int64_t value) {
  Pb pb = {0};
  pb_int(&pb, field, value);
  return pb;
}

static Pb nested(int field, Pb message) {
  Pb pb = {0};
  pb_message(&pb, field, message);
  return pb;
}

/* Runs y with these options, which it takes over. */
static void run_with(Pb options) {
  TF_Buffer *buffer = pb_buffer(options);
  TF_Output feed = output(x, 0), what = output(y, 0);
  TF_Tensor *value = f32_scalar(2), *result = NULL;
  TF_SessionRun(session, buffer, &feed, &value, 1, &what, &result, 1, NULL, 0, NULL, status);
  CHECK((TF_GetCode(status) == TF_OK) == (result != NULL));
  if (result != NULL) CHECK(f32_at(result, 0) == -2);
  TF_DeleteTensor(result);
  TF_DeleteTensor(value);
  TF_DeleteBuffer(buffer);
}

/* Waits for the empty queue, with these options. Returns how long, in milliseconds. */
static double wait_with(Pb options) {
  TF_Buffer *buffer = pb_buffer(options);
  TF_Output what = output(q.dequeue, 0);
  TF_Tensor *result = NULL;
  double start = now_ms();
  TF_SessionRun(session, buffer, NULL, NULL, 0, &what, &result, 1, NULL, 0, NULL, status);
  double took = now_ms() - start;
  TF_DeleteBuffer(buffer);
  CHECK_ERROR(status, TF_DEADLINE_EXCEEDED, "Timed out waiting for notification");
  CHECK(result == NULL);
  return took;
}

/* The reference is late by some more at its first run, valgrind by much. */
static bool is_about(double took, double ms) { return took > ms - 1 && took < ms + 2000; }

static void time_limit_of_a_run(void) {
  open_sample((Pb){0});
  CHECK(is_about(wait_with(number(2, 60)), 60));
  run_with((Pb){0}); /* the session goes on */
  CHECK_OK(status);
  CHECK(is_about(wait_with(number(2, 60)), 60));
  run_with(number(2, -5)); /* no limit */
  CHECK_OK(status);
  /* What the runs that gave up left in line does not get what comes later. */
  TF_Output feed = output(q.value, 0);
  TF_Tensor *value = f32_scalar(7);
  const TF_Operation *enqueue = q.enqueue;
  TF_SessionRun(session, NULL, &feed, &value, 1, NULL, NULL, 0, &enqueue, 1, NULL, status);
  CHECK_OK(status);
  TF_DeleteTensor(value);
  CHECK(fetch_f32(session, output(q.dequeue, 0)) == 7);
  close_sample();
}

static void time_limit_of_a_session(void) {
  open_sample(number(11, 60));
  CHECK(is_about(wait_with((Pb){0}), 60));
  run_with((Pb){0});
  CHECK_OK(status);
  CHECK(is_about(wait_with(number(2, 150)), 150)); /* a run's own limit wins */
  close_sample();
}

/* A pool for runs: 1 num_threads, 2 global_name. */
static Pb pool(int threads, const char *name) {
  Pb pb = number(1, threads);
  pb_string(&pb, 2, name);
  return nested(12, pb);
}

static void pools(void) {
  open_sample((Pb){0});
  run_with(number(3, 0));
  CHECK_OK(status);
  run_with(number(3, -1)); /* the caller's thread */
  CHECK_OK(status);
  run_with(number(3, 1));
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Invalid inter_op_thread_pool: 1");
  run_with(number(3, -2));
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Invalid inter_op_thread_pool: -2");
  close_sample();
  Pb two = pool(2, ""), named = pool(3, "a shared pool");
  pb_append(&two, named.data, named.length);
  free(named.data);
  open_sample(two);
  run_with(number(3, 1));
  CHECK_OK(status);
  run_with(number(3, 2));
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Invalid inter_op_thread_pool: 2");
  close_sample();
  if (is_tfcore()) { /* the reference aborts */
    open_sample((Pb){0});
    CHECK(session_with(pool(-2, "")) == NULL);
    CHECK_CODE(status, TF_INVALID_ARGUMENT);
    close_sample();
  }
}

static void other_run_options(void) {
  open_sample((Pb){0});
  run_with(number(7, 1)); /* report_tensor_allocations_upon_oom */
  CHECK_OK(status);
  run_with(number(1, 77)); /* a trace level of tomorrow */
  CHECK_OK(status);
  run_with(number(999, 1));
  CHECK_OK(status);
  close_sample();
}

/* A device_count entry: 1 key, 2 value. */
static Pb device_count(const char *type, int count) {
  Pb entry = {0};
  pb_string(&entry, 1, type);
  pb_int(&entry, 2, count);
  return nested(1, entry);
}

static void sessions_that_work(void) {
  Pb configs[] = {
      device_count("XYZ", 3),
      number(2, -1),                                /* intra_op_parallelism_threads */
      number(5, -1),                                /* inter_op_parallelism_threads */
      number(9, 1),                                 /* use_per_session_threads */
      number(15, 1),                                /* isolate_session_state */
      number(11, -5),                               /* operation_timeout_in_ms */
      number(999, 1),                               /* a field of tomorrow */
      nested(10, nested(3, number(3, -1))),         /* graph_options.optimizer_options.opt_level: L0 */
      nested(10, number(5, 1)),                     /* graph_options.place_pruned_graph */
      nested(16, (Pb){0}),                          /* experimental */
  };
  for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
    open_sample(configs[i]);
    run_with((Pb){0});
    CHECK_OK(status);
    close_sample();
  }
}

static void executor_types(void) {
  Pb single = {0}, none = {0};
  pb_string(&single, 3, "SINGLE_THREADED_EXECUTOR");
  open_sample(nested(16, single));
  run_with((Pb){0});
  CHECK_OK(status);
  close_sample();
  pb_string(&none, 3, "NOPE");
  open_sample(nested(16, none));
  run_with((Pb){0});
  CHECK_ERROR(status, TF_NOT_FOUND,
              "No executor factory registered for the given executor type: NOPE Registered factories are {");
  close_sample();
}

/* An experimental option of a config, and a session that has it. */
static TF_Session *experimental(int field, Pb value) { return session_with(nested(16, nested(field, value))); }

static Pb metadata_of_session(const char *name, int version) {
  Pb pb = {0};
  pb_string(&pb, 1, name);
  pb_int(&pb, 2, version);
  return pb;
}

/* A name and a version of what sessions serve is taken until its session is closed. */
static void names_of_sessions(void) {
  open_sample((Pb){0});
  TF_Session *first = experimental(11, metadata_of_session("served", 3));
  CHECK_OK(status);
  CHECK(experimental(11, metadata_of_session("served", 3)) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "A session with the same name and version has already been created: ");
  TF_Session *second = experimental(11, metadata_of_session("served", 4));
  CHECK_OK(status);
  TF_Buffer *metadata = TF_NewBuffer();
  TF_Output feed = output(x, 0), what = output(y, 0);
  TF_Tensor *value = f32_scalar(1), *result = NULL;
  TF_SessionRun(second, NULL, &feed, &value, 1, &what, &result, 1, NULL, 0, metadata, status);
  CHECK_OK(status);
  PbView told; /* RunMetadata.session_metadata */
  CHECK(pb_find(pb_view(metadata), 5, 0, &told) && pb_string_is(told, 1, 0, "served") && pb_find_int(told, 2) == 4);
  TF_DeleteTensor(value);
  TF_DeleteTensor(result);
  TF_DeleteBuffer(metadata);
  TF_CloseSession(first, status);
  CHECK_OK(status);
  TF_Session *third = experimental(11, metadata_of_session("served", 3));
  CHECK_OK(status);
  CHECK(experimental(11, metadata_of_session("served", -1)) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Session version shouldn't be negative: ");
  delete_session(first);
  delete_session(second);
  delete_session(third);
  close_sample();
}

static void sessions_that_are_refused(void) {
  open_sample((Pb){0});
  Pb filters = {0};
  pb_string(&filters, 4, "/job:worker");
  pb_string(&filters, 4, "@@@");
  CHECK(session_with(filters) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Invalid device filter: @@@");
  CHECK(session_with(nested(16, number(18, 1))) == NULL); /* experimental.use_tfrt */
  CHECK_ERROR(status, TF_NOT_FOUND, "No session factory registered for the given session options: {target: \"\" config: ");
  close_sample();
}

static void no_partition_graphs(void) {
  open_sample(nested(16, number(14, 1))); /* experimental.disable_output_partition_graphs */
  run_with(number(5, 1));
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "RunOptions.output_partition_graphs() is not supported when disable_output_partition_graphs is true.");
  run_with(number(5, 0));
  CHECK_OK(status);
  close_sample();
}

/* ---- not enough memory ---- */

/* Fills more than there is after `many` (a vector) has been made from x, and fetches both. */
static void run_out_of_memory(Pb options) {
  const int32_t dims[2] = {1 << 23, 1 << 22};
  TF_Operation *many = unary(graph, "Exp", output(x, 0), "many");
  TF_OperationDescription *desc = TF_NewOperation(graph, "Fill", "much");
  TF_Operation *shape = placeholder(graph, TF_INT32, "shape"), *one = constant(graph, f32_scalar(1), "one");
  TF_AddInput(desc, output(shape, 0));
  TF_AddInput(desc, output(one, 0));
  TF_AddControlInput(desc, many);
  TF_Operation *much = finish(desc);
  float values[1000] = {0};
  TF_Buffer *buffer = pb_buffer(options);
  TF_Output feeds[] = {output(x, 0), output(shape, 0)}, what[] = {output(many, 0), output(much, 0)};
  TF_Tensor *in[] = {f32_vector(1000, values), i32_vector(2, dims)}, *out[2];
  TF_SessionRun(session, buffer, feeds, in, 2, what, out, 2, NULL, 0, NULL, status);
  for (int i = 0; i < 2; i++) TF_DeleteTensor(in[i]);
  TF_DeleteBuffer(buffer);
  CHECK(out[0] == NULL && out[1] == NULL);
}

static void out_of_memory(void) {
#ifdef __SANITIZE_ADDRESS__
  return; /* the sanitizer ends the program */
#endif
  static const char *message =
      "OOM when allocating tensor with shape[8388608,4194304] and type float on "
      "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu\n\t [[{{node much}}]]\n";
  static const char *ends[] = {
      "Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to "
      "RunOptions for current allocation info. This isn't available when running in Eager mode.\n",
      "\nCurrent usage from device: /job:localhost/replica:0/task:0/device:CPU:0, allocator: cpu\n  3.9KiB from many\n",
  };
  for (int reports = 0; reports < 2; reports++) {
    open_sample((Pb){0});
    run_out_of_memory(number(7, reports)); /* report_tensor_allocations_upon_oom */
    char expected[1024];
    snprintf(expected, sizeof expected, "%s%s", message, ends[reports]);
    CHECK_CODE(status, TF_RESOURCE_EXHAUSTED);
    CHECK_STR(TF_Message(status), expected);
    run_with((Pb){0}); /* the session goes on */
    CHECK_OK(status);
    close_sample();
  }
}

static void no_devices(void) {
  open_sample((Pb){0});
  CHECK(session_with(device_count("CPU", 0)) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "No CPU devices are available in this process");
  close_sample();
}

/* ---- metadata ---- */

/* Runs `both` traced at a level. */
static TF_Buffer *trace(int level) {
  TF_Buffer *options = pb_buffer(number(1, level)), *metadata = TF_NewBuffer();
  TF_Output feed = output(x, 0), what = output(both, 0);
  TF_Tensor *value = f32_vector(3, (float[]){1, 2, 3}), *result = NULL;
  TF_SessionRun(session, options, &feed, &value, 1, &what, &result, 1, NULL, 0, metadata, status);
  TF_DeleteTensor(value);
  TF_DeleteTensor(result);
  TF_DeleteBuffer(options);
  CHECK_OK(status);
  return metadata;
}

/* The NodeExecStats of a node: 1 node_name. */
static bool find_node_stats(PbView device, const char *name, PbView *stats) {
  for (int n = 0; pb_find(device, 2, n, stats); n++)
    if (pb_string_is(*stats, 1, 0, name)) return true;
  return false;
}

static void step_stats(void) {
  open_sample((Pb){0});
  TF_Buffer *metadata = trace(0);
  CHECK_INT(metadata->length, 0);
  TF_DeleteBuffer(metadata);
  for (int level = 1; level <= 3; level++) {
    metadata = trace(level);
    PbView all, device, node, out, description, shape, dim, memory;
    CHECK(pb_find(pb_view(metadata), 1, 0, &all));
    CHECK_INT(pb_count(all, 1), 1);
    CHECK(pb_find(all, 1, 0, &device));
    CHECK(pb_string_is(device, 1, 0, "/job:localhost/replica:0/task:0/device:CPU:0"));
    if (is_tfcore()) { /* the reference rewrites -x + -x */
      CHECK(find_node_stats(device, "both", &node));
      CHECK(pb_string_is(node, 8, 0, "both = AddV2(y, y)")); /* timeline_label */
    }
    CHECK(find_node_stats(device, "y", &node));
    int64_t start = pb_find_int(node, 2), nanos = pb_find_int(node, 13); /* all_start_micros, all_start_nanos */
    CHECK(start > 1600000000000000 && nanos / 1000 == start);
    CHECK(pb_find_int(node, 9) <= start);  /* scheduled_micros */
    CHECK(pb_find_int(node, 16) > 0);      /* all_end_rel_nanos */
    CHECK(pb_find_int(node, 15) <= pb_find_int(node, 16)); /* op_end_rel_nanos */
    PbView label;
    CHECK(pb_find(node, 8, 0, &label) && label.length >= 8 && memcmp(label.data, "y = Neg(", 8) == 0);
    CHECK(pb_find(node, 7, 0, &out));
    CHECK_INT(pb_find_int(out, 1), 0);
    CHECK(pb_find(out, 3, 0, &description));
    CHECK_INT(pb_find_int(description, 1), TF_FLOAT);
    CHECK(pb_find(description, 2, 0, &shape) && pb_find(shape, 2, 0, &dim));
    CHECK_INT(pb_find_int(dim, 1), 3);
    CHECK(pb_find(description, 4, 0, &memory));
    CHECK_INT(pb_find_int(memory, 1), 12); /* requested_bytes */
    TF_DeleteBuffer(metadata);
  }
  close_sample();
}

/* Nodes that wait are in the trace too. */
static void traces_of_queues(void) {
  open_sample((Pb){0});
  TF_Output feed = output(q.value, 0), what = output(q.dequeue, 0);
  TF_Tensor *value = f32_scalar(5), *result = NULL;
  const TF_Operation *enqueue = q.enqueue;
  TF_Buffer *options = pb_buffer(number(1, 3)), *metadata = TF_NewBuffer();
  TF_SessionRun(session, options, &feed, &value, 1, &what, &result, 1, &enqueue, 1, metadata, status);
  CHECK_OK(status);
  CHECK(f32_at(result, 0) == 5);
  PbView all, device, node;
  CHECK(pb_find(pb_view(metadata), 1, 0, &all) && pb_find(all, 1, 0, &device));
  CHECK(find_node_stats(device, "q/enqueue", &node));
  CHECK(find_node_stats(device, "q/dequeue", &node));
  TF_DeleteBuffer(metadata);
  TF_DeleteBuffer(options);
  TF_DeleteTensor(value);
  TF_DeleteTensor(result);
  close_sample();
}

CASES(CASE(time_limit_of_a_run), CASE(time_limit_of_a_session), CASE(pools), CASE(other_run_options),
      CASE(sessions_that_work), CASE(executor_types), CASE(no_devices),
      CASE(names_of_sessions), CASE(sessions_that_are_refused), CASE(no_partition_graphs), CASE(out_of_memory), CASE(step_stats), CASE(traces_of_queues))
