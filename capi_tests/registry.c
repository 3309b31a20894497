/* The version, the lists of all ops and of all kernels, and who hears what ops print. */
#include "nodes.h"
#include "pb.h"

static void version(void) {
  CHECK_STR(TF_Version(), "2.21.0");
  CHECK(TF_Version() == TF_Version());
}

/* The OpDef named `name` in an OpList. */
static bool find_op(PbView list, const char *name, PbView *op) {
  for (PbView rest = list; rest.length > 0;) {
    uint64_t number;
    if (pb_next(&rest, op, &number) == 1 && pb_string_is(*op, 1, 0, name)) return true;
  }
  return false;
}

static void all_ops(void) {
  TF_Buffer *buffer = TF_GetAllOpList();
  CHECK(buffer != NULL);
  CHECK(pb_count(pb_view(buffer), 1) >= 1700);
  static const char *const names[] = {"Placeholder", "Const",  "Neg",     "AddV2",       "MatMul",      "Conv2D",
                                      "ConcatV2",    "While",  "If",      "VariableV2",  "VarHandleOp", "RestoreV2",
                                      "DecodeJpeg",  "Switch", "Merge",   "StringJoin",  "TopKV2",      "ParseExample",
                                      "Dequantize",  "Fill",   "Einsum",  "RandomUniform"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    PbView op;
    if (!find_op(pb_view(buffer), names[i], &op)) CHECK_FAIL("%s is missing", names[i]);
  }
  PbView op;
  CHECK(!find_op(pb_view(buffer), "NoSuchOp", &op));
  TF_DeleteBuffer(buffer);
}

/* OpDef: 1 name, 2 input_arg, 3 output_arg, 4 attr, 17 is_stateful. ArgDef: 1 name, 4 type_attr. AttrDef: 1 name, 2 type. */
static void an_op_definition(void) {
  TF_Buffer *buffer = TF_GetAllOpList();
  PbView op, part;
  CHECK(find_op(pb_view(buffer), "MatMul", &op));
  CHECK_INT(pb_count(op, 2), 2);
  CHECK_INT(pb_count(op, 3), 1);
  CHECK(pb_find(op, 2, 0, &part));
  CHECK(pb_string_is(part, 1, 0, "a"));
  CHECK(pb_string_is(part, 4, 0, "T"));
  CHECK(pb_find(op, 4, 0, &part));
  CHECK(pb_string_is(part, 1, 0, "transpose_a"));
  CHECK(pb_string_is(part, 2, 0, "bool"));
  CHECK(find_op(pb_view(buffer), "VariableV2", &op));
  CHECK_INT(pb_find_int(op, 17), 1);
  TF_DeleteBuffer(buffer);
}

static void no_op_twice(void) {
  TF_Buffer *buffer = TF_GetAllOpList();
  PbView list = pb_view(buffer), op, name;
  int count = pb_count(list, 1);
  PbView *names = calloc((size_t)count, sizeof *names);
  for (int i = 0; i < count; i++) {
    uint64_t number;
    pb_next(&list, &op, &number);
    CHECK(pb_find(op, 1, 0, &name));
    for (int j = 0; j < i; j++)
      if (names[j].length == name.length && memcmp(names[j].data, name.data, name.length) == 0)
        CHECK_FAIL("%.*s is there twice", (int)name.length, (const char *)name.data);
    names[i] = name;
  }
  free(names);
  TF_DeleteBuffer(buffer);
}

/* KernelList: 1 kernel. KernelDef: 1 op, 2 device_type, 3 constraint. AttrConstraint: 1 name, 2 allowed_values (AttrValue: 1
 * list). ListValue: 6 type. Whether the list has a CPU kernel of `op` for `dtype` alone. */
static bool has_kernel(PbView list, const char *op, unsigned char dtype) {
  const unsigned char types[3] = {6 << 3 | 2, 1, dtype};
  for (PbView kernel, rest = list; rest.length > 0;) {
    uint64_t number;
    PbView constraint, allowed, values;
    if (pb_next(&rest, &kernel, &number) != 1 || !pb_string_is(kernel, 1, 0, op)) continue;
    if (!pb_string_is(kernel, 2, 0, "CPU") || !pb_find(kernel, 3, 0, &constraint)) continue;
    if (!pb_string_is(constraint, 1, 0, "T") || !pb_find(constraint, 2, 0, &allowed)) continue;
    if (pb_find(allowed, 1, 0, &values) && values.length == 3 && memcmp(values.data, types, 3) == 0) return true;
  }
  return false;
}

static int count_cpu_kernels(PbView list) {
  int count = 0;
  for (PbView kernel, rest = list; rest.length > 0;) {
    uint64_t number;
    if (pb_next(&rest, &kernel, &number) == 1) count += pb_string_is(kernel, 2, 0, "CPU");
  }
  return count;
}

static void kernels(void) {
  TF_Buffer *of_neg = TF_GetRegisteredKernelsForOp("Neg", status);
  CHECK_OK(status);
  CHECK_INT(count_cpu_kernels(pb_view(of_neg)), 10);
  CHECK(has_kernel(pb_view(of_neg), "Neg", TF_FLOAT));
  CHECK(has_kernel(pb_view(of_neg), "Neg", TF_INT8));
  CHECK(!has_kernel(pb_view(of_neg), "Neg", TF_STRING));
  TF_Buffer *all = TF_GetAllRegisteredKernels(status);
  CHECK_OK(status);
  CHECK(has_kernel(pb_view(all), "Neg", TF_FLOAT));
  CHECK(has_kernel(pb_view(all), "MatMul", TF_DOUBLE));
  TF_Buffer *none = TF_GetRegisteredKernelsForOp("Nope", status);
  CHECK_OK(status);
  CHECK_INT(none->length, 0);
  TF_DeleteBuffer(none);
  TF_DeleteBuffer(all);
  TF_DeleteBuffer(of_neg);
}

/* Switches, loops and calls are listed, too. (The reference has some of their ops for any device, rather than for a CPU.) */
static void kernels_of_control_flow(void) {
  const struct {
    const char *op;
    int count; /* one for each type that the kernel names, or one for all */
  } cases[] = {{"Switch", 21}, {"RefSwitch", 21}, {"Merge", 1}, {"Enter", 1}, {"Exit", 1}, {"LoopCond", 1},
               {"If", 1}, {"StatelessCase", 1}, {"While", 1}, {"For", 1}, {"PartitionedCall", 1},
               {"RemoteCall", 1}, {"SymbolicGradient", 1}, {"MapDefun", 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    TF_Buffer *kernels = TF_GetRegisteredKernelsForOp(cases[i].op, status);
    CHECK_OK(status);
    int count = count_cpu_kernels(pb_view(kernels));
    if (count != cases[i].count) CHECK_FAIL("%d kernels of %s", count, cases[i].op);
    TF_DeleteBuffer(kernels);
  }
}

/* ---- listeners ---- */

static char heard[256];

static void hear_first(const char *text) { strncat(strcat(heard, "1:"), text, 99); }
static void hear_second(const char *text) { strncat(strcat(heard, "2:"), text, 99); }

static void listeners(void) {
  static const char *const streams[] = {"stderr", "stdout", "log(info)", "log(warning)"};
  TF_Graph *g = TF_NewGraph();
  TF_Operation *text = constant(g, string_scalar("hi"), "text");
  TF_Session *session = new_session(g);
  TF_RegisterLogListener(&hear_first);
  TF_RegisterLogListener(&hear_second);
  for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
    const char name[2] = {(char)('a' + i), 0};
    TF_OperationDescription *desc = TF_NewOperation(g, "PrintV2", name);
    TF_AddInput(desc, output(text, 0));
    TF_SetAttrString(desc, "output_stream", streams[i], strlen(streams[i]));
    TF_SetAttrString(desc, "end", "!", 1);
    heard[0] = 0;
    run_target(session, finish(desc));
    CHECK_STR(heard, "1:hi!2:hi!");
  }
  delete_session(session);
  TF_DeleteGraph(g);
}

CASES(CASE(version), CASE(all_ops), CASE(an_op_definition), CASE(no_op_twice), CASE(kernels), CASE(kernels_of_control_flow), CASE(listeners))
