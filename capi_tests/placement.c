/* Placement: which device a node runs on, what belongs together, and the graphs that devices run. */
#include "nodes.h"
#include "pb.h"

#include <unistd.h>

/* ---- sessions with several devices ---- */

/* A session with so many CPUs that changes nothing in the graph. */
static TF_Session *session_on(TF_Graph *g, int cpus, bool soft) {
  Pb count = {0}, optimizer = {0}, rewriter = {0}, graph = {0}, config = {0};
  pb_string(&count, 1, "CPU");
  pb_int(&count, 2, cpus);
  pb_message(&config, 1, count);
  pb_int(&config, 7, soft);
  pb_int(&optimizer, 3, -1); /* opt_level: L0 */
  pb_message(&graph, 3, optimizer);
  pb_int(&rewriter, 19, 1); /* disable_meta_optimizer */
  pb_message(&graph, 10, rewriter);
  pb_message(&config, 10, graph);
  return configured_session(g, config);
}

/* Runs with partition graphs and step stats wanted; returns the RunMetadata, or NULL after an error. */
static TF_Buffer *run_for_metadata(TF_Session *session, const TF_Output *fetches, int nfetches,
                                   const TF_Operation *target) {
  Pb options = {0};
  pb_int(&options, 1, 3); /* FULL_TRACE */
  pb_int(&options, 5, 1); /* output_partition_graphs */
  TF_Buffer *run_options = pb_buffer(options), *metadata = TF_NewBuffer();
  TF_Tensor *results[4] = {NULL};
  TF_SessionRun(session, run_options, NULL, NULL, 0, fetches, results, nfetches, &target, target != NULL, metadata,
                status);
  for (int i = 0; i < nfetches; i++) TF_DeleteTensor(results[i]);
  TF_DeleteBuffer(run_options);
  if (TF_GetCode(status) == TF_OK) return metadata;
  TF_DeleteBuffer(metadata);
  return NULL;
}

/* The number of the CPU that `name` runs on, or -1. */
static int cpu_of(const TF_Buffer *metadata, const char *name) {
  PbView graph, node, device;
  for (int n = 0; pb_find(pb_view(metadata), 3, n, &graph); n++) {
    if (!pb_find_node(graph, name, &node)) continue;
    CHECK(pb_find(node, 4, 0, &device));
    return device.data[device.length - 1] - '0';
  }
  return -1;
}

/* Runs `target` and checks where `names`, separated by blanks, run: on the CPUs whose numbers `cpus` lists. */
static void check_cpus(TF_Graph *g, bool soft, const TF_Operation *target, const char *names, const char *cpus) {
  TF_Session *session = session_on(g, 2, soft);
  TF_Buffer *metadata = run_for_metadata(session, NULL, 0, target);
  CHECK_OK(status);
  char copy[128], *rest = copy, *name;
  snprintf(copy, sizeof copy, "%s", names);
  for (; (name = strsep(&rest, " ")) != NULL; cpus++)
    if (cpu_of(metadata, name) != *cpus - '0')
      CHECK_FAIL("%s is on CPU %d, not %c", name, cpu_of(metadata, name), *cpus);
  TF_DeleteBuffer(metadata);
  delete_session(session);
}

/* Running `target` fails with this message. */
static void check_refused(TF_Graph *g, bool soft, const TF_Operation *target, const char *message) {
  TF_Session *session = session_on(g, 2, soft);
  CHECK(run_for_metadata(session, NULL, 0, target) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, message);
  delete_session(session);
}

/* ---- nodes that ask for a device ---- */

static TF_Operation *constant_at(TF_Graph *g, const char *name, const char *device, const char *with) {
  TF_OperationDescription *desc = TF_NewOperation(g, "Const", name);
  TF_Tensor *value = f32_scalar(1);
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrTensor(desc, "value", value, status);
  CHECK_OK(status);
  TF_DeleteTensor(value);
  if (with != NULL) {
    const void *class = with;
    size_t length = strlen(with);
    TF_SetAttrStringList(desc, "_class", &class, &length, 1);
  }
  TF_SetDevice(desc, device);
  return finish(desc);
}

static TF_Operation *neg_at(TF_Graph *g, const char *name, TF_Operation *x, const char *device) {
  TF_OperationDescription *desc = TF_NewOperation(g, "Neg", name);
  TF_AddInput(desc, output(x, 0));
  TF_SetDevice(desc, device);
  return finish(desc);
}

static TF_Operation *after_at(TF_Graph *g, const char *name, TF_Operation *before, const char *device) {
  TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", name);
  TF_AddControlInput(desc, before);
  TF_SetDevice(desc, device);
  return finish(desc);
}

/* A variable behind a handle, or of the old kind. */
static TF_Operation *variable_at(TF_Graph *g, bool is_ref, const char *name, const char *shared, const char *device) {
  TF_OperationDescription *desc = TF_NewOperation(g, is_ref ? "VariableV2" : "VarHandleOp", name);
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", NULL, 0);
  TF_SetAttrString(desc, "shared_name", shared, strlen(shared));
  TF_SetDevice(desc, device);
  return finish(desc);
}

static TF_Operation *assign_at(TF_Graph *g, bool is_ref, const char *name, TF_Operation *variable, TF_Operation *value,
                               const char *device) {
  TF_OperationDescription *desc = TF_NewOperation(g, is_ref ? "Assign" : "AssignVariableOp", name);
  TF_AddInput(desc, output(variable, 0));
  TF_AddInput(desc, output(value, 0));
  TF_SetDevice(desc, device);
  return finish(desc);
}

/* ---- names ---- */

#define DEVICES "/job:localhost/replica:0/task:0/device:CPU:0, /job:localhost/replica:0/task:0/device:CPU:1"

static void names_of_devices(void) {
  static const struct {
    const char *device;
    int cpu; /* -1: there is none */
    int soft;
  } cases[] = {
      {"", 0, 0},
      {"/", 0, 0},
      {"/cpu:1", 1, 1},
      {"/CPU:1", 1, 1},
      {"/cpu:*", 0, 0},
      {"/device:CPU:1", 1, 1},
      {"/device:CPU:01", 1, 1},
      {"/device:CPU:*", 0, 0},
      {"/device:CPU", 0, 0},
      {"/device:*", 0, 0},
      {"/device:*:1", 1, 1},
      {"/job:localhost", 0, 0},
      {"/job:*/replica:*/task:*/device:*:*", 0, 0},
      {"/job:localhost/replica:0/task:0/cpu:1", 1, 1},
      {"/cpu:1/job:localhost", 1, 1},
      {"/device:CPU:0/device:CPU:1", 1, 1},
      {"/device:cpu:*", -1, 0},
      {"/device:Cpu:1", -1, 0},
      {"/device:CPU:2", -1, 0},
      {"/device:CPU:2147483648", -1, 0},
      {"/gpu:1", -1, 0},
      {"/device:FOO:0", -1, 0},
      {"/job:foo", -1, -1},
      {"/job:localhost/job:foo", -1, -1},
      {"/replica:1", -1, -1},
      {"/task:1/cpu:0", -1, -1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    TF_Graph *g = TF_NewGraph();
    TF_Operation *a = constant_at(g, "a", cases[i].device, NULL);
    for (int soft = 0; soft < 2; soft++) {
      int cpu = soft ? cases[i].soft : cases[i].cpu;
      char text[512];
      if (cpu >= 0) {
        snprintf(text, sizeof text, "%d", cpu);
        check_cpus(g, soft, a, "a", text);
        continue;
      }
      snprintf(text, sizeof text,
               "Cannot assign a device for operation a: {{node a}} was explicitly assigned to %s but available devices "
               "are [ " DEVICES " ]. Make sure the device specification refers to a valid device.",
               cases[i].device);
      check_refused(g, soft, a, text);
    }
    TF_DeleteGraph(g);
  }
}

static void malformed_names(void) {
  const char *names[] = {"xx",       "cpu:0",         "job:localhost", "/cpu",      "/Cpu:0",    "//cpu:0",
                         "/cpu:0/",  "/cpu:0x",       "/cpu:",         "/tpu:0",    "/device:",  "/device:CPU:",
                         "/job:",    "/device:CPU:x", "/device:CPU:-1", "/job:1a",  "/job:a-b",  "/JOB:localhost"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    TF_Graph *g = TF_NewGraph();
    TF_Operation *a = constant_at(g, "a", names[i], NULL);
    char text[512];
    snprintf(text, sizeof text,
             "Malformed device specification '%s' in node: {name:'a' id:2 op device:{requested: '%s', assigned: ''} "
             "def:{{{node a}} = Const[dtype=DT_FLOAT, value=Tensor<type: float shape: [] values: 1>, "
             "_device=\"%s\"]()}}\n\t [[a]]",
             names[i], names[i], names[i]);
    for (int soft = 0; soft < 2; soft++) check_refused(g, soft, a, text);
    TF_DeleteGraph(g);
  }
}

/* A device that is not there is an error although nobody needs the node, and remains one. */
static void nodes_that_are_not_needed(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *a = constant_at(g, "a", "", NULL);
  constant_at(g, "z", "/job:foo", NULL);
  TF_Session *session = session_on(g, 1, false);
  for (int i = 0; i < 2; i++) {
    CHECK(try_fetch(session, output(a, 0)) == NULL);
    CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Cannot assign a device for operation z");
    CHECK_MESSAGE(status, "\n\t [[z]]");
  }
  TF_ExtendSession(session, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Cannot assign a device for operation z");
  delete_session(session);
  TF_DeleteGraph(g);
}

/* ---- groups ---- */

/* a, then b that wants to be with it. */
static void two_together(const char *a_device, const char *b_device, const char *cpus, const char *message,
                         const char *soft_cpus, const char *soft_message) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *a = constant_at(g, "a", a_device, NULL);
  TF_Operation *b = constant_at(g, "b", b_device, "loc:@a");
  TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", "both");
  TF_AddControlInput(desc, a);
  TF_AddControlInput(desc, b);
  TF_SetDevice(desc, "/cpu:0");
  TF_Operation *both = finish(desc);
  if (cpus != NULL) check_cpus(g, false, both, "a b", cpus);
  else check_refused(g, false, both, message);
  if (soft_cpus != NULL) check_cpus(g, true, both, "a b", soft_cpus);
  else check_refused(g, true, both, soft_message);
  TF_DeleteGraph(g);
}

#define TOGETHER "Cannot colocate nodes {{colocation_node b}} and {{colocation_node a}}: Cannot merge devices with incompatible "

/* Fetches while what is written to the standard output goes into `text`. */
static void fetch_with_output(TF_Session *session, TF_Output what, char *text, size_t size) {
  fflush(stdout);
  FILE *file = tmpfile();
  int kept = dup(STDOUT_FILENO);
  CHECK(file != NULL && kept >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0);
  TF_Tensor *result = try_fetch(session, what);
  fflush(stdout);
  CHECK(dup2(kept, STDOUT_FILENO) >= 0);
  close(kept);
  CHECK_OK(status);
  TF_DeleteTensor(result);
  rewind(file);
  text[fread(text, 1, size - 1, file)] = '\0';
  fclose(file);
}

/* A session that logs where nodes go tells it of all nodes whenever there are new ones. */
static void log_of_placement(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *one = constant(g, f32_scalar(1), "one");
  TF_Operation *a = unary(g, "Neg", output(one, 0), "a");
  Pb config = {0};
  pb_int(&config, 8, 1); /* log_device_placement */
  TF_Session *session = configured_session(g, config);
#define CPU_0 "/job:localhost/replica:0/task:0/device:CPU:0\n"
  char text[1024];
  fetch_with_output(session, output(a, 0), text, sizeof text);
  CHECK_STR(text, "a: (Neg): " CPU_0 "one: (Const): " CPU_0);
  fetch_with_output(session, output(a, 0), text, sizeof text);
  CHECK_STR(text, "");
  unary(g, "Exp", output(a, 0), "b");
  fetch_with_output(session, output(a, 0), text, sizeof text);
  CHECK_STR(text, "a: (Neg): " CPU_0 "b: (Exp): " CPU_0 "one: (Const): " CPU_0);
#undef CPU_0
  delete_session(session);
  TF_DeleteGraph(g);
}

static void nodes_of_a_class(void) {
  two_together("/cpu:1", "", "11", NULL, "11", NULL);
  two_together("", "/cpu:1", "11", NULL, "11", NULL);
  two_together("/cpu:1", "/job:localhost/task:0", "11", NULL, "11", NULL);
  two_together("/cpu:0", "/cpu:1", NULL, TOGETHER "ids: '/device:CPU:1' and '/device:CPU:0'\n\t [[{{node b}}]]", "00",
               NULL);
  two_together("/gpu:0", "/cpu:1", NULL, TOGETHER "types: '/device:CPU:1' and '/device:GPU:0'", "00", NULL);
  two_together("/job:localhost", "/job:foo", NULL, TOGETHER "jobs: '/job:foo' and '/job:localhost'", NULL,
               "Cannot assign a device for operation b: {{node b}} was explicitly assigned to /job:foo");
  two_together("/task:0", "/task:1", NULL, TOGETHER "tasks: '/task:1' and '/task:0'", NULL,
               "{{node b}} was explicitly assigned to /task:1");
  two_together("/replica:0", "/replica:1", NULL, TOGETHER "replicas: '/replica:1' and '/replica:0'", NULL,
               "{{node b}} was explicitly assigned to /replica:1");
  two_together("", "/gpu:0", NULL,
               "Cannot assign a device for operation a: Could not satisfy explicit device specification '' because the "
               "node {{colocation_node a}} was colocated with a group of nodes that required incompatible device "
               "'/device:GPU:0'. All available devices [" DEVICES "]. \nColocation Debug Info:\nColocation group had "
               "the following types and supported devices: \nRoot Member(assigned_device_name_index_=-1 "
               "requested_device_name_='/device:GPU:0' assigned_device_name_='' resource_device_name_='' "
               "supported_device_types_=[CPU] possible_devices_=[]\nConst: CPU \n\nColocation members, user-requested "
               "devices, and framework assigned devices, if any:\n  a (Const) \n  b (Const) /gpu:0\n\n\t [[{{node a}}]]",
               "00", NULL);
}

static void chains_of_classes(void) {
  TF_Graph *g = TF_NewGraph();
  constant_at(g, "a", "/cpu:1", NULL);
  constant_at(g, "b", "/task:0", "loc:@a");
  TF_Operation *c = constant_at(g, "c", "", "loc:@b");
  check_cpus(g, false, c, "c", "1");
  TF_DeleteGraph(g);
}

/* Variables and their users, of both kinds: the variable's wish comes first, then the user's. */
static void users_of_variables(void) {
  static const struct {
    const char *variable, *user, *cpus, *message;
  } cases[] = {
      {"/cpu:1", "", "11", NULL},
      {"", "/cpu:1", "11", NULL},
      {"/cpu:1", "/cpu:0", "11", NULL},
      {"/cpu:0", "/cpu:1", "00", NULL},
      {"/cpu:1", "/job:foo", NULL,
       "Could not satisfy explicit device specification '/job:foo' because the node {{colocation_node as}} was "
       "colocated with a group of nodes that required incompatible device '/job:foo/device:CPU:1'"},
      {"", "/gpu:0", NULL, "Cannot assign a device for operation as: {{node as}} was explicitly assigned to /gpu:0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    for (int is_ref = 0; is_ref < 2; is_ref++) {
      if (is_ref && cases[i].cpus == NULL) continue; /* another order of nodes, other words */
      TF_Graph *g = TF_NewGraph();
      TF_Operation *v = variable_at(g, is_ref, "v", "", cases[i].variable);
      TF_Operation *as = assign_at(g, is_ref, "as", v, constant_at(g, "k", "", NULL), cases[i].user);
      if (cases[i].cpus != NULL) check_cpus(g, false, as, "v as", cases[i].cpus);
      else check_refused(g, false, as, cases[i].message);
      TF_DeleteGraph(g);
    }
  }
}

static void two_variables_for_one_node(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *v = variable_at(g, false, "v", "", "/cpu:0");
  TF_Operation *w = variable_at(g, false, "w", "", "/cpu:1");
  TF_OperationDescription *desc = TF_NewOperation(g, "Merge", "s");
  TF_Output inputs[] = {output(v, 0), output(w, 0)};
  TF_AddInputList(desc, inputs, 2);
  TF_Operation *s = finish(desc);
  for (int soft = 0; soft < 2; soft++)
    check_refused(g, soft, s,
                  "Cannot place the graph because a reference or resource edge connects colocation groups with "
                  "incompatible resource devices: /device:CPU:1 vs /device:CPU:0. The edge src node is name='w' "
                  "(op='VarHandleOp'), and the dst node is name='s' (op='Merge').");
  TF_DeleteGraph(g);
}

/* Nodes without inputs go where they are read, if that is one device. */
static void nodes_go_to_their_readers(void) {
  static const struct {
    const char *device, *first, *second, *cpus;
  } cases[] = {
      {"", "/cpu:1", "/cpu:1", "111"},
      {"/job:localhost", "/cpu:1", "/cpu:1", "111"},
      {"/cpu:0", "/cpu:1", "/cpu:1", "011"},
      {"", "/cpu:1", "/cpu:0", "010"},
      {"", "", "", "000"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    TF_Graph *g = TF_NewGraph();
    TF_Operation *a = constant_at(g, "a", cases[i].device, NULL);
    TF_Operation *b = neg_at(g, "b", a, cases[i].first);
    TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", "c");
    TF_AddControlInput(desc, a);
    TF_AddControlInput(desc, b);
    TF_SetDevice(desc, cases[i].second);
    check_cpus(g, false, finish(desc), "a b c", cases[i].cpus);
    TF_DeleteGraph(g);
  }
}

/* ---- state ---- */

static void each_device_has_its_state(void) {
  for (int is_ref = 0; is_ref < 2; is_ref++) {
    TF_Graph *g = TF_NewGraph();
    TF_Operation *one = constant_at(g, "one", "/cpu:0", NULL), *v[2], *assign[2], *read[2];
    TF_Operation *minus = neg_at(g, "minus", one, "/cpu:0");
    for (int i = 0; i < 2; i++) {
      char name[8];
      const char *device = i == 0 ? "/cpu:0" : "/cpu:1";
      snprintf(name, sizeof name, "v%d", i);
      v[i] = variable_at(g, is_ref, name, "shared", device);
      snprintf(name, sizeof name, "as%d", i);
      assign[i] = assign_at(g, is_ref, name, v[i], i == 0 ? one : minus, device);
      snprintf(name, sizeof name, "r%d", i);
      TF_OperationDescription *desc = TF_NewOperation(g, is_ref ? "Identity" : "ReadVariableOp", name);
      TF_AddInput(desc, output(v[i], 0));
      if (!is_ref) TF_SetAttrType(desc, "dtype", TF_FLOAT);
      read[i] = finish(desc);
    }
    TF_Session *session = session_on(g, 2, false);
    for (int i = 0; i < 2; i++) run_target(session, assign[i]);
    CHECK(fetch_f32(session, output(read[0], 0)) == 1);
    CHECK(fetch_f32(session, output(read[1], 0)) == -1);
    delete_session(session);
    TF_DeleteGraph(g);
  }
}

/* ---- what devices run ---- */

/* The names of the nodes of a partition graph, separated by blanks. */
static void check_part(const TF_Buffer *metadata, int n, const char *names) {
  PbView graph, node, name;
  CHECK(pb_find(pb_view(metadata), 3, n, &graph));
  char text[512] = "";
  for (int i = 0; pb_find(graph, 1, i, &node); i++) {
    CHECK(pb_find(node, 1, 0, &name));
    if (i > 0) strcat(text, " ");
    strncat(text, (const char *)name.data, name.length);
  }
  CHECK_STR(text, names);
}

static void values_between_devices(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *k = constant_at(g, "k", "/cpu:0", NULL);
  TF_Operation *a = neg_at(g, "a", k, "/cpu:0");
  TF_Operation *b = neg_at(g, "b", a, "/cpu:1");
  TF_Operation *c = neg_at(g, "c", a, "/cpu:1");
  TF_Session *session = session_on(g, 2, false);
  TF_Output fetches[] = {output(c, 0), output(b, 0)};
  TF_Buffer *metadata = run_for_metadata(session, fetches, 2, NULL);
  CHECK_OK(status);
  CHECK_INT(pb_count(pb_view(metadata), 3), 2);
  check_part(metadata, 0, "k a a/_0 b/_3 _retval_b_0_0 c/_5 _retval_c_0_1");
  check_part(metadata, 1, "a/_1 b c b/_2 c/_4");
  PbView graph, node, value;
  CHECK(pb_find(pb_view(metadata), 3, 0, &graph) && pb_find_node(graph, "a/_0", &node));
  static const char *strings[][2] = {
      {"tensor_name", "edge_4_a"},
      {"send_device", "/job:localhost/replica:0/task:0/device:CPU:0"},
      {"recv_device", "/job:localhost/replica:0/task:0/device:CPU:1"},
      {"_src", "a"},
      {"_dst", "b"},
  };
  CHECK(pb_string_is(node, 2, 0, "_Send"));
  CHECK(pb_string_is(node, 3, 0, "a"));
  for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
    CHECK(pb_find_attr(node, strings[i][0], &value) && pb_string_is(value, 2, 0, strings[i][1]));
  CHECK(pb_find_attr(node, "T", &value) && pb_find_int(value, 6) == TF_FLOAT);
  CHECK(pb_find_attr(node, "send_device_incarnation", &value) && pb_find_int(value, 3) == 1);
  CHECK(pb_find(pb_view(metadata), 3, 1, &graph) && pb_find_node(graph, "a/_1", &node));
  CHECK(pb_string_is(node, 2, 0, "_Recv"));
  CHECK(pb_find_attr(node, "tensor_type", &value) && pb_find_int(value, 6) == TF_FLOAT);
  CHECK(pb_find_attr(node, "tensor_name", &value) && pb_string_is(value, 2, 0, "edge_4_a"));
  CHECK(pb_find_node(graph, "b", &node) && pb_string_is(node, 3, 0, "a/_1"));
  /* Nodes are traced on the device on which they ran. */
  PbView stats, device;
  CHECK(pb_find(pb_view(metadata), 1, 0, &stats));
  CHECK_INT(pb_count(stats, 1), 2);
  for (int i = 0; i < 2; i++) {
    CHECK(pb_find(stats, 1, i, &device));
    bool is_second = pb_string_is(device, 1, 0, "/job:localhost/replica:0/task:0/device:CPU:1"), has_b = false;
    for (int n = 0; pb_find(device, 2, n, &node); n++) has_b = has_b || pb_string_is(node, 1, 0, "b");
    CHECK(is_second == has_b);
  }
  TF_DeleteBuffer(metadata);
  delete_session(session);
  TF_DeleteGraph(g);
}

static void control_edges_between_devices(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *a = constant_at(g, "a", "/cpu:0", NULL);
  TF_Operation *b = after_at(g, "b", a, "/cpu:1");
  TF_Operation *c = after_at(g, "c", b, "/cpu:0");
  TF_Session *session = session_on(g, 2, false);
  TF_Buffer *metadata = run_for_metadata(session, NULL, 0, c);
  CHECK_OK(status);
  check_part(metadata, 0, "a a/ctrl/_0 a/_1 b/_6 b/_7 c");
  check_part(metadata, 1, "a/_2 a/_3 b b/ctrl/_4 b/_5");
  TF_DeleteBuffer(metadata);
  delete_session(session);
  TF_DeleteGraph(g);
}

/* A small constant is everywhere where it is read. */
static void constants_on_several_devices(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *a = constant_at(g, "a", "", NULL);
  TF_Operation *b = neg_at(g, "b", a, "/cpu:1");
  neg_at(g, "c", a, "/cpu:0");
  TF_Session *session = session_on(g, 2, false);
  TF_Output fetches[] = {output(a, 0), output(b, 0)};
  TF_Buffer *metadata = run_for_metadata(session, fetches, 2, NULL);
  CHECK_OK(status);
  check_part(metadata, 0, "a/replicate/_1 b b/_0");
  check_part(metadata, 1, "b/_1 _retval_b_0_1 a/replicate/_0 _retval_a_0_0");
  TF_DeleteBuffer(metadata);
  delete_session(session);
  TF_DeleteGraph(g);
}

static void one_device_one_graph(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *a = constant_at(g, "a", "", NULL);
  TF_Output b = output(neg_at(g, "b", a, ""), 0);
  TF_Session *session = session_on(g, 2, false);
  TF_Buffer *metadata = run_for_metadata(session, &b, 1, NULL);
  CHECK_OK(status);
  CHECK_INT(pb_count(pb_view(metadata), 3), 1);
  check_part(metadata, 0, "a b _retval_b_0_0");
  TF_DeleteBuffer(metadata);
  delete_session(session);
  TF_DeleteGraph(g);
}

/* ---- sending and receiving in the client's graph ---- */

static TF_OperationDescription *transfer(TF_Graph *g, const char *op, const char *name, const char *from,
                                         const char *device) {
  TF_OperationDescription *desc = TF_NewOperation(g, op, name);
  TF_SetAttrString(desc, "tensor_name", "t", 1);
  TF_SetAttrString(desc, "send_device", from, strlen(from));
  TF_SetAttrInt(desc, "send_device_incarnation", 1);
  TF_SetAttrString(desc, "recv_device", from, strlen(from));
  TF_SetDevice(desc, device);
  return desc;
}

static TF_Operation *send_at(TF_Graph *g, const char *op, TF_Output value, const char *device) {
  TF_OperationDescription *desc = transfer(g, op, "send", "/job:localhost/replica:0/task:0/device:CPU:0", device);
  TF_AddInput(desc, value);
  return finish(desc);
}

static TF_Operation *receive_at(TF_Graph *g, const char *op, const char *device) {
  TF_OperationDescription *desc = transfer(g, op, "recv", "/job:localhost/replica:0/task:0/device:CPU:0", device);
  TF_SetAttrType(desc, "tensor_type", TF_FLOAT);
  return finish(desc);
}

static void send_and_receive(void) {
  static const char *ops[][3] = {
      {"_Send", "_Recv", ""}, {"_HostSend", "_HostRecv", ""}, {"_Send", "_HostRecv", "/cpu:1"}};
  for (int i = 0; i < 3; i++) {
    TF_Graph *g = TF_NewGraph();
    TF_Operation *a = neg_at(g, "a", constant_at(g, "k", "", NULL), ops[i][2]);
    const TF_Operation *send = send_at(g, ops[i][0], output(a, 0), ops[i][2]);
    TF_Output y = output(neg_at(g, "y", receive_at(g, ops[i][1], ""), ""), 0);
    TF_Session *session = session_on(g, 2, false);
    for (int run = 0; run < 3; run++) {
      TF_Tensor *result = NULL;
      TF_SessionRun(session, NULL, NULL, NULL, 0, &y, &result, 1, &send, 1, NULL, status);
      CHECK_OK(status);
      CHECK(f32_at(result, 0) == 1);
      TF_DeleteTensor(result);
    }
    delete_session(session);
    TF_DeleteGraph(g);
  }
}

/* That a value is dead travels too. */
static void send_what_is_dead(void) {
  TF_Graph *g = TF_NewGraph();
  bool no = false;
  TF_Operation *k = constant_at(g, "k", "", NULL);
  TF_Operation *p = constant(g, tensor_of(TF_BOOL, NULL, 0, &no, 1), "p");
  TF_Operation *branch = binary(g, "Switch", output(k, 0), output(p, 0), "branch");
  const TF_Operation *send = send_at(g, "_Send", output(branch, 1), "");
  TF_Operation *n = neg_at(g, "n", receive_at(g, "_Recv", ""), "");
  TF_OperationDescription *desc = TF_NewOperation(g, "Merge", "m");
  TF_Output inputs[] = {output(n, 0), output(branch, 0)};
  TF_AddInputList(desc, inputs, 2);
  TF_Output which = output(finish(desc), 1), dead = output(n, 0);
  TF_Session *session = session_on(g, 1, false);
  TF_Tensor *result = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &which, &result, 1, &send, 1, NULL, status);
  CHECK_OK(status);
  CHECK_INT(i32_at(result, 0), 1);
  TF_DeleteTensor(result);
  TF_SessionRun(session, NULL, NULL, NULL, 0, &dead, &result, 1, &send, 1, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Retval[0] does not have value");
  delete_session(session);
  TF_DeleteGraph(g);
}

/* A value that nobody sends is waited for, but not beyond the timeout. */
static void receive_what_nobody_sends(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output y = output(receive_at(g, "_Recv", ""), 0);
  TF_Session *session = session_on(g, 1, false);
  Pb options = {0};
  pb_int(&options, 2, 50); /* timeout_in_ms */
  TF_Buffer *run_options = pb_buffer(options);
  TF_Tensor *result = NULL;
  TF_SessionRun(session, run_options, NULL, NULL, 0, &y, &result, 1, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_DEADLINE_EXCEEDED, "Timed out waiting for notification");
  TF_DeleteBuffer(run_options);
  delete_session(session);
  TF_DeleteGraph(g);
}

CASES(CASE(names_of_devices), CASE(malformed_names), CASE(nodes_that_are_not_needed), CASE(log_of_placement), CASE(nodes_of_a_class),
      CASE(chains_of_classes), CASE(users_of_variables), CASE(two_variables_for_one_node),
      CASE(nodes_go_to_their_readers), CASE(each_device_has_its_state), CASE(values_between_devices),
      CASE(control_edges_between_devices), CASE(constants_on_several_devices), CASE(one_device_one_graph),
      CASE(send_and_receive), CASE(send_what_is_dead), CASE(receive_what_nobody_sends))
