/* RunMetadata: what runs tell about themselves, node by node, and what nodes cost. The graphs run as they are: without the
 * reference's rewriting. */
#include "functions.h"
#include "pb.h"

static TF_Graph *graph;
static TF_Operation *x, *split, *z;

/* z = -split(exp(x) * c)[1], after a NoOp. */
static void open_sample(void) {
  graph = TF_NewGraph();
  x = placeholder(graph, TF_FLOAT, "x");
  TF_Operation *c = constant(graph, f32_vector(2, (float[]){1, 2}), "c");
  TF_Operation *exp = unary(graph, "Exp", output(x, 0), "exp");
  TF_Operation *y = binary(graph, "Mul", output(exp, 0), output(c, 0), "y");
  TF_OperationDescription *desc = TF_NewOperation(graph, "NoOp", "after");
  TF_AddControlInput(desc, y);
  TF_Operation *after = finish(desc);
  TF_Operation *axis = constant(graph, i32_scalar(0), "axis");
  desc = TF_NewOperation(graph, "Split", "split");
  TF_AddInput(desc, output(axis, 0));
  TF_AddInput(desc, output(y, 0));
  TF_SetAttrInt(desc, "num_split", 2);
  split = finish(desc);
  desc = TF_NewOperation(graph, "Neg", "z");
  TF_AddInput(desc, output(split, 1));
  TF_AddControlInput(desc, after);
  z = finish(desc);
}

static Pb number(int field, int64_t value) {
  Pb pb = {0};
  pb_int(&pb, field, value);
  return pb;
}

/* A session without rewriting. The options are GraphOptions, 4 build_cost_model and 9 build_cost_model_after. */
static TF_Session *session_with(int build, int after_runs, int devices) {
  Pb config = {0}, graph_options = {0}, entry = {0};
  pb_string(&entry, 1, "CPU");
  pb_int(&entry, 2, devices);
  pb_message(&config, 1, entry);
  pb_message(&graph_options, 3, number(3, -1));  /* optimizer_options.opt_level: L0 */
  pb_message(&graph_options, 10, number(19, 1)); /* rewrite_options.disable_meta_optimizer */
  pb_int(&graph_options, 4, build);
  pb_int(&graph_options, 9, after_runs);
  pb_message(&config, 10, graph_options);
  return configured_session(graph, config);
}

/* Fetches z:0 and split:0. */
static TF_Buffer *run(TF_Session *session, Pb options) {
  TF_Buffer *buffer = pb_buffer(options), *metadata = TF_NewBuffer();
  TF_Output feed = output(x, 0), what[] = {output(z, 0), output(split, 0)};
  TF_Tensor *value = f32_vector(2, (float[]){0, 0}), *results[2];
  TF_SessionRun(session, buffer, &feed, &value, 1, what, results, 2, NULL, 0, metadata, status);
  TF_DeleteTensor(value);
  TF_DeleteBuffer(buffer);
  CHECK_OK(status);
  CHECK(f32_at(results[0], 0) == -2 && f32_at(results[1], 0) == 1);
  for (int i = 0; i < 2; i++) TF_DeleteTensor(results[i]);
  return metadata;
}

static PbView only(PbView message, int field) {
  PbView found;
  CHECK_INT(pb_count(message, field), 1);
  CHECK(pb_find(message, field, 0, &found));
  return found;
}

/* The message among those of a field that has this name in another. */
static PbView named(PbView message, int field, int name_field, const char *name) {
  PbView found;
  for (int n = 0; pb_find(message, field, n, &found); n++)
    if (pb_string_is(found, name_field, 0, name)) return found;
  CHECK_FAIL("there is no %s", name);
}

/* ---- step stats ---- */

static void all_nodes_are_listed(void) {
  static const struct {
    const char *name, *label;
    int outputs, persistent;
  } nodes[] = {
      {"_SOURCE", "_SOURCE = NoOp()", 0, 0},
      {"c", "c = Const()", 1, 8},
      {"axis", "axis = Const()", 1, 4},
      {"_arg_x_0_0", "_arg_x_0_0 = _Arg()", 1, 0},
      {"exp", "exp = Exp(_arg_x_0_0)", 1, 0},
      {"y", "y = Mul(exp, c)", 1, 0},
      {"after", "after = NoOp(^y)", 0, 0},
      {"split", "split = Split(axis, y)", 2, 0},
      {"z", "z = Neg(split:1, ^after)", 1, 0},
      {"_retval_split_0_0", "_retval_split_0_0 = _Retval(split)", 0, 0},
      {"_retval_z_0_1", "_retval_z_0_1 = _Retval(z)", 0, 0},
  };
  const int count = sizeof nodes / sizeof *nodes;
  open_sample();
  TF_Session *session = session_with(0, 0, 1);
  TF_Buffer *metadata = run(session, number(1, 3)); /* trace_level */
  CHECK_INT(pb_count(pb_view(metadata), 2), 0);
  PbView device = only(only(pb_view(metadata), 1), 1), first;
  CHECK(pb_string_is(device, 1, 0, "/job:localhost/replica:0/task:0/device:CPU:0"));
  CHECK_INT(pb_count(device, 2), count);
  CHECK(pb_find(device, 2, 0, &first) && pb_string_is(first, 1, 0, "_SOURCE"));
  for (int n = 0; n < count; n++) {
    PbView node = named(device, 2, 1, nodes[n].name), memory;
    CHECK(pb_string_is(node, 8, 0, nodes[n].label));
    CHECK_INT(pb_count(node, 7), nodes[n].outputs);
    bool has_memory = pb_find(node, 12, 0, &memory);
    CHECK(has_memory == (strstr(nodes[n].label, "NoOp") == NULL));
    CHECK_INT(has_memory ? pb_find_int(memory, 3) : 0, nodes[n].persistent);
    CHECK(pb_find_int(node, 2) >= pb_find_int(first, 2) && pb_find_int(node, 13) / 1000 == pb_find_int(node, 2));
  }
  /* The memory of what is fed is the client's. */
  PbView arg = only(only(only(named(device, 2, 1, "_arg_x_0_0"), 7), 3), 4);
  CHECK(pb_find_int(arg, 1) == 8 && pb_find_int(arg, 2) == 0 && pb_string_is(arg, 3, 0, "cpu"));
  TF_DeleteBuffer(metadata);
  delete_session(session);
  TF_DeleteGraph(graph);
}

/* ---- cost graphs ---- */

/* Of every `build` runs of the same request one is measured, after some that are not. */
static void some_runs_are_measured(void) {
  static const struct {
    int build, after_runs;
    const char *runs;
  } cases[] = {{0, 0, "------"}, {1, 0, "xxxxxx"}, {2, 0, "-x-x-x"}, {1, 2, "--xxxx"}, {3, 1, "---x--"}, {-1, 0, "------"}};
  open_sample();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    TF_Session *session = session_with(cases[i].build, cases[i].after_runs, 1);
    for (int n = 0; n < 6; n++) {
      TF_Buffer *metadata = run(session, (Pb){0});
      CHECK_INT(pb_count(pb_view(metadata), 2), cases[i].runs[n] == 'x');
      CHECK_INT(pb_count(pb_view(metadata), 1), cases[i].runs[n] == 'x');
      TF_DeleteBuffer(metadata);
    }
    delete_session(session);
  }
  TF_DeleteGraph(graph);
}

/* Numbers as text: those of one field, or of a field of the messages of another. */
static const char *numbers(PbView message, int field, int inner) {
  static char text[256];
  text[0] = '\0';
  PbView packed;
  if (inner == 0 && pb_find(message, field, 0, &packed)) {
    for (size_t i = 0; i < packed.length; i++) snprintf(text + strlen(text), 8, "%d ", packed.data[i]);
  }
  for (int n = 0; inner != 0 && pb_find(message, field, n, &packed); n++)
    snprintf(text + strlen(text), 8, "%d ", (int)pb_find_int(packed, inner));
  return text;
}

static void nodes_have_costs(void) {
  static const struct {
    const char *name, *inputs, *ports, *controls, *sizes;
    int persistent;
  } nodes[] = {
      {"_SOURCE", "", "", "", "", 0},
      {"_SINK", "", "", "0 0 10 11 ", "", 0},
      {"c", "", "", "0 ", "8 ", 8},
      {"axis", "", "", "0 ", "4 ", 4},
      {"_arg_x_0_0", "", "", "0 ", "0 ", 0},
      {"exp", "4 ", "0 ", "", "8 ", 0},
      {"y", "5 2 ", "0 0 ", "", "8 ", 0},
      {"after", "", "", "6 ", "", 0},
      {"split", "3 6 ", "0 0 ", "", "4 4 ", 0},
      {"z", "8 ", "1 ", "7 ", "4 ", 0},
      {"_retval_split_0_0", "8 ", "0 ", "", "", 0},
      {"_retval_z_0_1", "9 ", "0 ", "", "", 0},
  };
  const int count = sizeof nodes / sizeof *nodes;
  open_sample();
  TF_Session *session = session_with(1, 0, 1);
  TF_Buffer *metadata = run(session, (Pb){0});
  PbView costs = only(pb_view(metadata), 2);
  CHECK_INT(pb_count(costs, 1), count);
  for (int n = 0; n < count; n++) {
    PbView node, out, shape;
    CHECK(pb_find(costs, 1, n, &node));
    CHECK(pb_string_is(node, 1, 0, nodes[n].name));
    CHECK_INT(pb_find_int(node, 3), n);
    CHECK(pb_string_is(node, 2, 0, "/job:localhost/replica:0/task:0/device:CPU:0") == (n >= 2));
    CHECK_STR(numbers(node, 4, 1), nodes[n].inputs);
    CHECK_STR(numbers(node, 4, 2), nodes[n].ports);
    CHECK_STR(numbers(node, 8, 0), nodes[n].controls);
    /* In the reference that of a constant is 0 if there was one like it in another session. */
    if (nodes[n].persistent == 0 || is_tfcore()) CHECK_STR(numbers(node, 5, 1), nodes[n].sizes);
    /* compute_cost, in microseconds; in the reference it can be 0. */
    bool costs_time = is_tfcore() && n >= 5 && n <= 9;
    CHECK(pb_find_int(node, 9) >= costs_time && pb_find_int(node, 9) < 60 * 1000000);
    CHECK_INT(pb_find_int(node, 7), 0);                                      /* is_final */
    CHECK_INT(pb_find_int(node, 12), nodes[n].persistent);
    if (!pb_find(node, 5, 0, &out)) continue;
    CHECK(pb_find(out, 3, 0, &shape));
    CHECK_INT(pb_count(shape, 2), strcmp(nodes[n].name, "axis") != 0);
    CHECK_INT(pb_find_int(out, 4), strcmp(nodes[n].name, "axis") == 0 ? TF_INT32 : TF_FLOAT);
    /* alias_input_port: what overwrites its input takes no memory; what is fed is not overwritten. */
    if (strcmp(nodes[n].name, "y") == 0 || strcmp(nodes[n].name, "z") == 0) CHECK_INT(pb_find_int(out, 2), 0);
    if (strcmp(nodes[n].name, "exp") == 0) CHECK_INT(pb_find_int(out, 2), -1);
  }
  TF_DeleteBuffer(metadata);
  delete_session(session);
  TF_DeleteGraph(graph);
}

/* A function's node is not the graph's of the same name: y = neg(f(x)), where f's y = exp(x). */
static void nodes_of_functions_stand_apart(void) {
  TF_Graph *body = TF_NewGraph();
  TF_Output arg = output(placeholder(body, TF_FLOAT, "x"), 0), result = output(unary(body, "Exp", arg, "y"), 0);
  graph = TF_NewGraph();
  add_function(graph, function_of(body, "F", 1, &arg, 1, &result));
  TF_DeleteGraph(body);
  x = placeholder(graph, TF_FLOAT, "x");
  const TF_DataType dtype = TF_FLOAT;
  TF_OperationDescription *desc = TF_NewOperation(graph, "StatefulPartitionedCall", "call");
  TF_Output feed = output(x, 0);
  TF_AddInputList(desc, &feed, 1);
  TF_SetAttrTypeList(desc, "Tout", &dtype, 1);
  TF_SetAttrFuncName(desc, "f", "F", 1);
  TF_Operation *call = finish(desc);
  TF_Output what = output(unary(graph, "Neg", output(call, 0), "y"), 0);
  TF_Session *session = session_with(1, 0, 1);
  TF_Buffer *metadata = TF_NewBuffer();
  TF_Tensor *value = f32_vector(3, (float[]){0, 0, 0}), *y = NULL;
  TF_SessionRun(session, NULL, &feed, &value, 1, &what, &y, 1, NULL, 0, metadata, status);
  CHECK_OK(status);
  TF_DeleteTensor(value);
  TF_DeleteTensor(y);
  PbView stats = only(only(pb_view(metadata), 1), 1), cost = named(only(pb_view(metadata), 2), 1, 1, "y"), node;
  int of_graph = 0;
  for (int n = 0; pb_find(stats, 2, n, &node); n++) of_graph += pb_string_is(node, 8, 0, "y = Neg(call)");
  CHECK_INT(of_graph, 1);
  CHECK_STR(numbers(cost, 5, 1), "12 ");
  TF_DeleteBuffer(metadata);
  delete_session(session);
  TF_DeleteGraph(graph);
}

/* Each device has a source and a sink, and what passes between the two has an end on each. */
static void two_devices_have_costs(void) {
  static const char *nodes[] = {"_SOURCE", "_SINK", "_arg_x_0_0/_1", "there", "there/_2",
                                "_SOURCE", "_SINK", "there/_3", "here", "_arg_x_0_0", "_arg_x_0_0/_0", "_retval_here_0_0"};
  graph = TF_NewGraph();
  x = placeholder(graph, TF_FLOAT, "x");
  TF_OperationDescription *desc = TF_NewOperation(graph, "Neg", "there");
  TF_AddInput(desc, output(x, 0));
  TF_SetDevice(desc, "/cpu:1");
  TF_Operation *there = finish(desc), *here = unary(graph, "Exp", output(there, 0), "here");
  TF_Session *session = session_with(1, 0, 2);
  TF_Buffer *metadata = TF_NewBuffer();
  TF_Output feed = output(x, 0), what = output(here, 0);
  TF_Tensor *value = f32_scalar(0), *result = NULL;
  TF_SessionRun(session, NULL, &feed, &value, 1, &what, &result, 1, NULL, 0, metadata, status);
  CHECK_OK(status);
  TF_DeleteTensor(value);
  TF_DeleteTensor(result);
  PbView costs = only(pb_view(metadata), 2), stats = only(pb_view(metadata), 1), node;
  CHECK_INT(pb_count(costs, 1), sizeof nodes / sizeof *nodes);
  for (int n = 0; pb_find(costs, 1, n, &node); n++) {
    CHECK(pb_string_is(node, 1, 0, nodes[n]));
    CHECK_INT(pb_find_int(node, 3), n);
    bool sends = strcmp(nodes[n], "there/_2") == 0 || strcmp(nodes[n], "_arg_x_0_0/_0") == 0;
    CHECK_INT(pb_find_int(node, 7), sends); /* is_final */
  }
  static const char *names[] = {"/job:localhost/replica:0/task:0/device:CPU:0", "/job:localhost/replica:0/task:0/device:CPU:1"};
  CHECK_INT(pb_count(stats, 1), 2);
  for (int n = 0; n < 2; n++)
    CHECK_INT(pb_count(named(stats, 1, 1, names[n]), 2), n == 0 ? 4 : 2); /* without those that send and receive */
  TF_DeleteBuffer(metadata);
  delete_session(session);
  TF_DeleteGraph(graph);
}

CASES(CASE(all_nodes_are_listed), CASE(some_runs_are_measured), CASE(nodes_have_costs), CASE(nodes_of_functions_stand_apart), CASE(two_devices_have_costs))
