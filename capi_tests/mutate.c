/* Changes to operations that are in a graph already; constants, handles, and what c_api_experimental.h tells of ops. */
#include "nodes.h"
#include "pb.h"
#include "tensorflow/c/c_api_experimental.h"

static TF_Buffer *node_def(TF_Operation *op) {
  TF_Buffer *buffer = TF_NewBuffer();
  TF_OperationToNodeDef(op, buffer, status);
  CHECK_OK(status);
  return buffer;
}

/* Input `n` of the operation's NodeDef is `text`; there are `count` of them. */
static bool inputs_are(TF_Operation *op, int count, int n, const char *text) {
  TF_Buffer *def = node_def(op);
  bool same = pb_count(pb_view(def), 3) == count && (count == 0 || pb_string_is(pb_view(def), 3, n, text));
  TF_DeleteBuffer(def);
  return same;
}

/* Fetching fails, in a session that has never run. */
static void run_fails(TF_Graph *g, TF_Output what, TF_Code code, const char *part) {
  TF_Session *session = new_session(g);
  TF_Tensor *t = try_fetch(session, what);
  CHECK_ERROR(status, code, part);
  CHECK(t == NULL);
  delete_session(session);
}

static void set_attr(TF_Graph *g, TF_Operation *op, const char *name, const void *proto, size_t length) {
  TF_Buffer *value = TF_NewBufferFromString(proto, length);
  TF_SetAttr(g, op, name, value, status);
  TF_DeleteBuffer(value);
}

static void clear_attr(TF_Graph *g, TF_Operation *op, const char *name) {
  TF_SetStatus(status, TF_OK, ""); /* the reference leaves an error there */
  TF_ClearAttr(g, op, name, status);
  CHECK_OK(status);
}

static float run_fresh(TF_Graph *g, TF_Output what) {
  TF_Session *session = new_session(g);
  float value = fetch_f32(session, what);
  delete_session(session);
  return value;
}

/* ---- edges ---- */

static void update_edge(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *one = constant(g, f32_scalar(1), "one"), *two = constant(g, f32_scalar(2), "two");
  TF_Operation *neg = unary(g, "Neg", output(one, 0), "neg");
  TF_UpdateEdge(g, output(two, 0), input(neg, 0), status);
  CHECK_OK(status);
  CHECK(TF_OperationInput(input(neg, 0)).oper == two);
  CHECK_INT(TF_OperationOutputNumConsumers(output(one, 0)), 0);
  CHECK_INT(TF_OperationOutputNumConsumers(output(two, 0)), 1);
  CHECK(inputs_are(neg, 1, 0, "two:0"));
  CHECK(run_fresh(g, output(neg, 0)) == -2);

  TF_UpdateEdge(g, output(one, 1), input(neg, 0), status);
  CHECK_ERROR(status, TF_OUT_OF_RANGE,
              "Cannot update edge. Output index [1] is greater than the number of total outputs [1].");
  TF_UpdateEdge(g, output(one, 0), input(neg, 1), status);
  CHECK_ERROR(status, TF_OUT_OF_RANGE,
              "Cannot update edge. Input index [1] is greater than the number of total inputs [1].");
  TF_UpdateEdge(g, output(one, 0), input(two, 0), status);
  CHECK_ERROR(status, TF_OUT_OF_RANGE,
              "Cannot update edge. Input index [0] is greater than the number of total inputs [0].");
  CHECK(TF_OperationInput(input(neg, 0)).oper == two);
  TF_DeleteGraph(g);
}

static void while_input_of_another_op(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *one = constant(g, f32_scalar(1), "one");
  TF_Operation *neg = unary(g, "Neg", output(one, 0), "neg");
  TF_AddWhileInputHack(g, output(one, 0), neg, status);
  CHECK_ERROR(status, TF_INTERNAL, "dst argument to AddWhileEdgeHack should be a While op, got: ");
  CHECK_INT(TF_OperationNumInputs(neg), 1);
  TF_DeleteGraph(g);
}

static void update_edge_checks_shapes(void) {
  TF_Graph *g = TF_NewGraph();
  int64_t dims[2] = {2, 3}, four = 4;
  TF_Operation *any = placeholder(g, TF_FLOAT, "any");
  TF_Operation *matrix = shaped(g, TF_FLOAT, dims, 2, "matrix"), *vector = shaped(g, TF_FLOAT, &four, 1, "vector");
  TF_Operation *neg = unary(g, "Neg", output(any, 0), "neg");
  TF_UpdateEdge(g, output(matrix, 0), input(neg, 0), status);
  CHECK_OK(status);
  CHECK_INT(TF_GraphGetTensorNumDims(g, output(neg, 0), status), -1); /* shapes are not inferred again */
  TF_UpdateEdge(g, output(vector, 0), input(neg, 0), status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Cannot update edge, incompatible shapes: [4] and [2,3].");
  CHECK(TF_OperationInput(input(neg, 0)).oper == matrix);
  TF_UpdateEdge(g, output(any, 0), input(neg, 0), status);
  CHECK_OK(status);
  TF_UpdateEdge(g, output(vector, 0), input(neg, 0), status); /* what was known of the input stays known */
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Cannot update edge, incompatible shapes: [4] and [2,3].");
  TF_DeleteGraph(g);
}

/* Types are looked at when a session takes the operation in. */
static void update_edge_of_wrong_type(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *one = constant(g, f32_scalar(1), "one"), *integer = constant(g, i32_scalar(1), "integer");
  TF_Operation *neg = unary(g, "Neg", output(one, 0), "neg");
  TF_UpdateEdge(g, output(integer, 0), input(neg, 0), status);
  CHECK_OK(status);
  CHECK_INT(TF_OperationInputType(input(neg, 0)), TF_FLOAT);
  run_fails(g, output(neg, 0), TF_INVALID_ARGUMENT,
            "Input 0 of node neg was passed int32 from integer:0 incompatible with expected float.");
  if (is_tfcore()) { /* the reference runs the kernel on what is no float, and aborts */
    TF_Tensor *t = NULL;
    CHECK_INT(TF_TryEvaluateConstant(g, output(neg, 0), &t, status), 0);
    CHECK_OK(status);
    CHECK(t == NULL);
  }
  TF_DeleteGraph(g);
}

static void negative_indices(void) {
  if (!is_tfcore()) return; /* the reference aborts */
  TF_Graph *g = TF_NewGraph();
  TF_Operation *one = constant(g, f32_scalar(1), "one"), *neg = unary(g, "Neg", output(one, 0), "neg");
  TF_UpdateEdge(g, output(one, -1), input(neg, 0), status);
  CHECK_CODE(status, TF_OUT_OF_RANGE);
  TF_UpdateEdge(g, output(one, 0), input(neg, -1), status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_Graph *other = TF_NewGraph();
  TF_UpdateEdge(other, output(one, 0), input(neg, 0), status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "was not found in the graph");
  TF_DeleteGraph(other);
  TF_DeleteGraph(g);
}

/* ---- cycles ---- */

static void data_cycle(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *x = placeholder(g, TF_FLOAT, "x");
  TF_Operation *a = unary(g, "Neg", output(x, 0), "a"), *b = unary(g, "Neg", output(a, 0), "b");
  TF_UpdateEdge(g, output(b, 0), input(a, 0), status);
  CHECK_OK(status);
  run_fails(g, output(b, 0), TF_INVALID_ARGUMENT, "Graph is invalid, contains a cycle with 2 nodes, including: a, b");
  run_fails(g, output(x, 0), TF_INVALID_ARGUMENT, "Graph is invalid, contains a cycle");
  unary(g, "Neg", output(b, 0), "c");
  run_fails(g, output(b, 0), TF_INVALID_ARGUMENT, "a cycle with 3 nodes, including: a, b, c");
  TF_Tensor *t = NULL;
  CHECK_INT(TF_TryEvaluateConstant(g, output(b, 0), &t, status), 0);
  CHECK_OK(status);
  TF_Buffer *def = TF_NewBuffer();
  TF_GraphToGraphDef(g, def, status);
  CHECK_OK(status);
  TF_Graph *copy = TF_NewGraph();
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(copy, def, options, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "nodes in a cycle");
  CHECK_INT(count_operations(copy), 0);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(def);
  TF_DeleteGraph(copy);
  TF_DeleteGraph(g);
}

/* What shape functions look at may lie on a cycle. */
static void cycle_of_shapes(void) {
  if (!is_tfcore()) return; /* the reference overflows its stack */
  TF_Graph *g = TF_NewGraph();
  TF_Operation *x = placeholder(g, TF_INT32, "x"), *axis = constant(g, i32_scalar(0), "axis");
  TF_Operation *first = constant(g, i32_vector(1, (int32_t[]){2}), "first");
  TF_Output two[2] = {{first, 0}, {x, 0}};
  TF_OperationDescription *desc = TF_NewOperation(g, "ConcatV2", "shape");
  TF_AddInputList(desc, two, 2);
  TF_AddInput(desc, output(axis, 0));
  TF_Operation *shape = finish(desc);
  TF_UpdateEdge(g, output(shape, 0), input(shape, 1), status);
  CHECK_OK(status);
  TF_Operation *fill = binary(g, "Fill", output(shape, 0), output(axis, 0), "fill");
  CHECK_INT(TF_GraphGetTensorNumDims(g, output(fill, 0), status), -1);
  CHECK_OK(status);
  run_fails(g, output(fill, 0), TF_INVALID_ARGUMENT, "Graph is invalid, contains a cycle with 2 nodes");
  TF_DeleteGraph(g);
}

static void control_cycle(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *a = no_op(g, "a");
  TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", "b");
  TF_AddControlInput(desc, a);
  TF_Operation *b = finish(desc), *one = constant(g, f32_scalar(1), "one");
  TF_AddOperationControlInput(g, a, b);
  run_fails(g, output(one, 0), TF_INVALID_ARGUMENT, "Graph is invalid, contains a cycle with 2 nodes, including: a, b");
  TF_RemoveAllControlInputs(g, a);
  CHECK(run_fresh(g, output(one, 0)) == 1);
  TF_DeleteGraph(g);
}

/* ---- control inputs ---- */

static void control_inputs(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *a = no_op(g, "a"), *b = no_op(g, "b"), *c = no_op(g, "c");
  TF_AddOperationControlInput(g, c, a);
  TF_AddOperationControlInput(g, c, b);
  TF_AddOperationControlInput(g, c, a); /* it is there */
  CHECK_INT(TF_OperationNumControlInputs(c), 2);
  CHECK_INT(TF_OperationNumControlOutputs(a), 1);
  CHECK(inputs_are(c, 2, 0, "^a") && inputs_are(c, 2, 1, "^b"));
  TF_RemoveAllControlInputs(g, c);
  CHECK_INT(TF_OperationNumControlInputs(c), 0);
  CHECK_INT(TF_OperationNumControlOutputs(a), 0);
  CHECK_INT(TF_OperationNumControlOutputs(b), 0);
  CHECK(inputs_are(c, 0, 0, ""));
  TF_DeleteGraph(g);
}

/* ---- attrs, device, full type ---- */

static void attrs(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *one = constant(g, f32_scalar(1), "one"), *neg = unary(g, "Neg", output(one, 0), "neg");
  set_attr(g, neg, "undeclared", "\x18\x05", 2);
  CHECK_OK(status);
  int64_t value = 0;
  TF_OperationGetAttrInt(neg, "undeclared", &value, status);
  CHECK_OK(status);
  CHECK_INT(value, 5);
  set_attr(g, neg, "undeclared", "\x18\x06", 2); /* another value is no error */
  CHECK_OK(status);
  TF_OperationGetAttrInt(neg, "undeclared", &value, status);
  CHECK_INT(value, 6);
  set_attr(g, neg, "undeclared", "\xff\xff", 2);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Invalid AttrValue proto");
  clear_attr(g, neg, "undeclared");
  TF_OperationGetAttrInt(neg, "undeclared", &value, status);
  CHECK_CODE(status, TF_NOT_FOUND);
  clear_attr(g, neg, "nope");
  CHECK(run_fresh(g, output(neg, 0)) == -1);

  set_attr(g, neg, "T", "\x30\x03", 2); /* the types follow */
  CHECK_OK(status);
  CHECK_INT(TF_OperationOutputType(output(neg, 0)), TF_INT32);
  CHECK_INT(TF_OperationInputType(input(neg, 0)), TF_INT32);
  run_fails(g, output(neg, 0), TF_INVALID_ARGUMENT,
            "Input 0 of node neg was passed float from one:0 incompatible with expected int32.");
  clear_attr(g, neg, "T");
  run_fails(g, output(neg, 0), TF_NOT_FOUND, "No attr named 'T' in NodeDef:");
  TF_DeleteGraph(g);
}

/* More inputs and outputs than there are edges, and fewer outputs than are read. */
static void attrs_that_count(void) {
  if (!is_tfcore()) return; /* the reference crashes */
  TF_Graph *g = TF_NewGraph();
  TF_Operation *x = constant(g, f32_vector(4, (float[]){1, 2, 3, 4}), "x"), *axis = constant(g, i32_scalar(0), "axis");
  TF_OperationDescription *desc = TF_NewOperation(g, "Split", "split");
  TF_AddInput(desc, output(axis, 0));
  TF_AddInput(desc, output(x, 0));
  TF_SetAttrInt(desc, "num_split", 2);
  TF_Operation *split = finish(desc);
  TF_Operation *neg = unary(g, "Neg", output(split, 1), "neg");
  set_attr(g, split, "num_split", "\x18\x04", 2);
  CHECK_OK(status);
  CHECK_INT(TF_OperationNumOutputs(split), 4);
  TF_Session *session = new_session(g);
  TF_Tensor *t = fetch(session, output(neg, 0));
  CHECK(is_f32(t, 1, (float[]){-2}));
  TF_DeleteTensor(t);
  delete_session(session);

  set_attr(g, split, "num_split", "\x18\x01", 2);
  CHECK_OK(status);
  session = new_session(g);
  t = try_fetch(session, output(neg, 0));
  CHECK(TF_GetCode(status) != TF_OK && t == NULL);
  delete_session(session);

  TF_Output two[2] = {{x, 0}, {x, 0}};
  desc = TF_NewOperation(g, "AddN", "sum");
  TF_AddInputList(desc, two, 2);
  TF_Operation *sum = finish(desc);
  set_attr(g, split, "num_split", "\x18\x02", 2);
  set_attr(g, sum, "N", "\x18\x03", 2);
  CHECK_OK(status);
  session = new_session(g);
  t = try_fetch(session, output(sum, 0));
  CHECK(TF_GetCode(status) != TF_OK && t == NULL);
  delete_session(session);
  TF_DeleteGraph(g);
}

static void device(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *one = constant(g, f32_scalar(1), "one"), *neg = unary(g, "Neg", output(one, 0), "neg");
  TF_SetRequestedDevice(g, neg, "/cpu:0");
  CHECK_STR(TF_OperationDevice(neg), "/cpu:0");
  TF_Buffer *def = node_def(neg);
  CHECK(pb_string_is(pb_view(def), 4, 0, "/cpu:0"));
  TF_DeleteBuffer(def);
  CHECK(run_fresh(g, output(neg, 0)) == -1);
  TF_SetRequestedDevice(g, neg, "junk");
  run_fails(g, output(neg, 0), TF_INVALID_ARGUMENT, "Malformed device specification 'junk'");
  TF_SetRequestedDevice(g, neg, "");
  CHECK_STR(TF_OperationDevice(neg), "");
  CHECK(run_fresh(g, output(neg, 0)) == -1);
  TF_DeleteGraph(g);
}

/* The full type of the operation has this number; -1 for no full type. */
static void full_type_is(TF_Operation *op, int64_t type_id) {
  TF_Buffer *def = node_def(op);
  PbView full_type;
  bool found = pb_find(pb_view(def), 7, 0, &full_type);
  int64_t actual = found ? pb_find_int(full_type, 1) : -1;
  TF_DeleteBuffer(def);
  CHECK_INT(actual, type_id);
}

static void full_type(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *one = constant(g, f32_scalar(1), "one"), *neg = unary(g, "Neg", output(one, 0), "neg");
  full_type_is(neg, -1);
  TF_Buffer *tensor = TF_NewBufferFromString("\x08\xe8\x07", 3), *junk = TF_NewBufferFromString("\xff", 1);
  TF_SetFullType(g, neg, tensor);
  full_type_is(neg, 1000);

  TF_Buffer *def = TF_NewBuffer(); /* it is exported and imported */
  TF_GraphToGraphDef(g, def, status);
  CHECK_OK(status);
  TF_Graph *copy = TF_NewGraph();
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(copy, def, options, status);
  CHECK_OK(status);
  full_type_is(TF_GraphOperationByName(copy, "neg"), 1000);
  full_type_is(TF_GraphOperationByName(copy, "one"), -1);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(def);
  TF_DeleteGraph(copy);

  TF_SetFullType(g, neg, junk);
  full_type_is(neg, 0);
  CHECK(run_fresh(g, output(neg, 0)) == -1);
  TF_DeleteBuffer(tensor);
  TF_DeleteBuffer(junk);
  TF_DeleteGraph(g);
}

/* ---- sessions ---- */

/* A session that has run an operation goes on with it as it was. */
static void sessions_keep_what_they_ran(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *one = constant(g, f32_scalar(1), "one"), *two = constant(g, f32_scalar(2), "two");
  TF_Operation *neg = unary(g, "Neg", output(one, 0), "neg");
  TF_Session *old = new_session(g), *idle = new_session(g);
  CHECK(fetch_f32(old, output(neg, 0)) == -1);
  TF_UpdateEdge(g, output(two, 0), input(neg, 0), status);
  CHECK_OK(status);
  CHECK(fetch_f32(old, output(neg, 0)) == -1);
  CHECK(fetch_f32(idle, output(neg, 0)) == -2); /* had not run */
  TF_Operation *again = unary(g, "Neg", output(neg, 0), "again");
  CHECK(fetch_f32(old, output(again, 0)) == 1);
  CHECK(fetch_f32(idle, output(again, 0)) == 2);
  CHECK(run_fresh(g, output(again, 0)) == 2);

  TF_Operation *late = unary(g, "Neg", output(one, 0), "late");
  TF_UpdateEdge(g, output(two, 0), input(late, 0), status); /* before any session has it */
  CHECK_OK(status);
  CHECK(fetch_f32(old, output(late, 0)) == -2);
  delete_session(idle);
  delete_session(old);
  TF_DeleteGraph(g);
}

static void a_constant_is_changed(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *one = constant(g, f32_scalar(1), "one"), *neg = unary(g, "Neg", output(one, 0), "neg");
  TF_Session *old = new_session(g);
  CHECK(fetch_f32(old, output(neg, 0)) == -1);
  set_attr(g, one, "value", "\x42\x0a\x08\x01\x12\x00\x2a\x04\x00\x00\x00\x40", 12); /* a float, 2 */
  CHECK_OK(status);
  CHECK(fetch_f32(old, output(neg, 0)) == -1);
  CHECK(run_fresh(g, output(neg, 0)) == -2);
  delete_session(old);
  TF_DeleteGraph(g);
}

/* ---- constants ---- */

/* Returns the integers of an output that can be told, in `values`; -1 if it cannot. */
static int evaluate(TF_Graph *g, TF_Output what, int32_t *values, int max) {
  TF_Tensor *t = (TF_Tensor *)1;
  unsigned char known = TF_TryEvaluateConstant(g, what, &t, status);
  CHECK_OK(status);
  if (!known) {
    CHECK(t == NULL);
    return -1;
  }
  CHECK_INT(TF_TensorType(t), TF_INT32);
  int count = (int)TF_TensorElementCount(t);
  for (int i = 0; i < count && i < max; i++) values[i] = i32_at(t, i);
  TF_DeleteTensor(t);
  return count;
}

static void constants(void) {
  TF_Graph *g = TF_NewGraph();
  int32_t v[4] = {0};
  TF_Operation *c = constant(g, i32_vector(2, (int32_t[]){1, 2}), "c"), *x = placeholder(g, TF_INT32, "x");
  TF_Operation *neg = unary(g, "Neg", output(c, 0), "neg");
  CHECK_INT(evaluate(g, output(neg, 0), v, 4), 2);
  CHECK(v[0] == -1 && v[1] == -2);
  CHECK_INT(evaluate(g, output(x, 0), v, 4), -1);
  CHECK_INT(evaluate(g, output(unary(g, "Neg", output(x, 0), "of_x"), 0), v, 4), -1);

  TF_OperationDescription *desc = TF_NewOperation(g, "Neg", "after_x");
  TF_AddInput(desc, output(c, 0));
  TF_AddControlInput(desc, x); /* does not count */
  CHECK_INT(evaluate(g, output(finish(desc), 0), v, 4), 2);

  desc = TF_NewOperation(g, "PlaceholderWithDefault", "default"); /* may be fed */
  TF_AddInput(desc, output(c, 0));
  int64_t two = 2;
  TF_SetAttrShape(desc, "shape", &two, 1);
  CHECK_INT(evaluate(g, output(finish(desc), 0), v, 4), -1);

  desc = TF_NewOperation(g, "RandomUniformInt", "random");
  TF_AddInput(desc, output(c, 0));
  TF_AddInput(desc, output(constant(g, i32_scalar(0), "low"), 0));
  TF_AddInput(desc, output(constant(g, i32_scalar(9), "high"), 0));
  CHECK_INT(evaluate(g, output(finish(desc), 0), v, 4), -1);
  TF_DeleteGraph(g);
}

static void shapes_are_constants(void) {
  TF_Graph *g = TF_NewGraph();
  int32_t v[4] = {0};
  int64_t full[2] = {2, 3}, half[2] = {-1, 3};
  TF_Operation *x = shaped(g, TF_FLOAT, full, 2, "x"), *y = shaped(g, TF_FLOAT, half, 2, "y");
  CHECK_INT(evaluate(g, output(unary(g, "Shape", output(x, 0), "shape"), 0), v, 4), 2);
  CHECK(v[0] == 2 && v[1] == 3);
  CHECK_INT(evaluate(g, output(unary(g, "Size", output(x, 0), "size"), 0), v, 4), 1);
  CHECK_INT(v[0], 6);
  TF_Operation *shape = unary(g, "Shape", output(y, 0), "shape_y");
  CHECK_INT(evaluate(g, output(shape, 0), v, 4), -1);
  CHECK_INT(evaluate(g, output(unary(g, "Rank", output(y, 0), "rank"), 0), v, 4), 1);
  CHECK_INT(v[0], 2);

  TF_Operation *dim[2];
  for (int i = 0; i < 2; i++) { /* shape[i] */
    char name[4][8] = {"begin?", "end?", "step?", "dim?"};
    for (int k = 0; k < 4; k++) *strchr(name[k], '?') = (char)('0' + i);
    TF_OperationDescription *desc = TF_NewOperation(g, "StridedSlice", name[3]);
    TF_AddInput(desc, output(shape, 0));
    TF_AddInput(desc, output(constant(g, i32_vector(1, (int32_t[]){i}), name[0]), 0));
    TF_AddInput(desc, output(constant(g, i32_vector(1, (int32_t[]){i + 1}), name[1]), 0));
    TF_AddInput(desc, output(constant(g, i32_vector(1, (int32_t[]){1}), name[2]), 0));
    TF_SetAttrInt(desc, "shrink_axis_mask", 1);
    dim[i] = finish(desc);
  }
  CHECK_INT(evaluate(g, output(dim[0], 0), v, 4), -1);
  CHECK_INT(evaluate(g, output(dim[1], 0), v, 4), 1);
  CHECK_INT(v[0], 3);
  CHECK_INT(evaluate(g, output(binary(g, "AddV2", output(dim[1], 0), output(dim[1], 0), "twice"), 0), v, 4), 1);
  CHECK_INT(v[0], 6);
  TF_DeleteGraph(g);
}

/* A kernel that fails makes no constant, and no error. */
static void what_cannot_be_computed(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *c = constant(g, i32_vector(2, (int32_t[]){1, 2}), "c"), *far = constant(g, i32_scalar(7), "far");
  TF_OperationDescription *desc = TF_NewOperation(g, "GatherV2", "gather");
  TF_AddInput(desc, output(c, 0));
  TF_AddInput(desc, output(far, 0));
  TF_AddInput(desc, output(constant(g, i32_scalar(0), "axis"), 0));
  int32_t v[1];
  CHECK_INT(evaluate(g, output(finish(desc), 0), v, 1), -1);
  if (is_tfcore()) { /* the reference answers with output 0 */
    TF_Tensor *t = NULL;
    CHECK_INT(TF_TryEvaluateConstant(g, output(c, 3), &t, status), 0);
    CHECK_ERROR(status, TF_OUT_OF_RANGE, "does not have output 3");
  }
  TF_DeleteGraph(g);
}

/* ---- resource handles ---- */

static TF_Operation *variable(TF_Graph *g, const char *name) {
  TF_OperationDescription *desc = TF_NewOperation(g, "VarHandleOp", name);
  int64_t dims[2] = {2, -1};
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", dims, 2);
  return finish(desc);
}

static void handle_data(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *v = variable(g, "v"), *handle = placeholder(g, TF_RESOURCE, "handle");
  TF_Operation *x = placeholder(g, TF_FLOAT, "x");
  CHECK(TF_GetHandleShapeAndType(g, output(x, 0)) == NULL);
  CHECK(TF_GetHandleShapeAndType(g, output(handle, 0)) == NULL);
  TF_Buffer *data = TF_GetHandleShapeAndType(g, output(v, 0));
  CHECK(data != NULL);
  PbView value, shape, dim;
  CHECK_INT(pb_find_int(pb_view(data), 1), 1);
  CHECK_INT(pb_count(pb_view(data), 2), 1);
  CHECK(pb_find(pb_view(data), 2, 0, &value) && pb_find(value, 1, 0, &shape));
  CHECK_INT(pb_find_int(value, 2), TF_FLOAT);
  CHECK(pb_find(shape, 2, 0, &dim) && pb_find_int(dim, 1) == 2);
  CHECK(pb_find(shape, 2, 1, &dim) && pb_find_int(dim, 1) == -1);

  TF_SetHandleShapeAndType(g, output(handle, 0), data->data, data->length, status);
  CHECK_OK(status);
  TF_Buffer *copy = TF_GetHandleShapeAndType(g, output(handle, 0));
  CHECK(copy != NULL && copy->length == data->length && memcmp(copy->data, data->data, copy->length) == 0);
  TF_OperationDescription *desc = TF_NewOperation(g, "ReadVariableOp", "read"); /* shape functions use it */
  TF_AddInput(desc, output(handle, 0));
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_Operation *read = finish(desc);
  int64_t dims[2] = {0, 0};
  TF_GraphGetTensorShape(g, output(read, 0), dims, 2, status);
  CHECK_OK(status);
  CHECK(dims[0] == 2 && dims[1] == -1);

  TF_SetHandleShapeAndType(g, output(handle, 0), "\xff\xff", 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Couldn't deserialize HandleData proto");
  TF_DeleteBuffer(copy);
  copy = TF_GetHandleShapeAndType(g, output(handle, 0));
  CHECK(copy != NULL && copy->length == data->length);
  if (is_tfcore()) { /* the reference aborts */
    TF_SetHandleShapeAndType(g, output(handle, 5), data->data, data->length, status);
    CHECK_CODE(status, TF_INVALID_ARGUMENT);
    CHECK(TF_GetHandleShapeAndType(g, output(handle, 5)) == NULL);
  }
  TF_DeleteBuffer(copy);
  TF_DeleteBuffer(data);
  TF_DeleteGraph(g);
}

/* ---- c_api_experimental.h ---- */

static void debug_string(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *one = constant(g, f32_scalar(1), "one");
  unary(g, "Neg", output(one, 0), "neg");
  size_t length = 0;
  const char *text = TF_GraphDebugString(g, &length);
  CHECK(text != NULL);
  CHECK_INT(strlen(text), length);
  CHECK(strstr(text, "node {\n  name: \"neg\"\n  op: \"Neg\"\n  input: \"one\"\n  attr {\n    key: \"T\"\n"
                     "    value {\n      type: DT_FLOAT\n    }\n  }\n}\n") != NULL);
  free((void *)text);
  TF_DeleteGraph(g);
}

static void questions_about_ops(void) {
  CHECK_INT(TF_OpIsStateful("Neg", status), 0);
  CHECK_OK(status);
  CHECK_INT(TF_OpIsStateful("VarHandleOp", status), 1);
  CHECK_OK(status);
  TF_OpIsStateful("Nope", status);
  CHECK_ERROR(status, TF_NOT_FOUND, "Op type not registered 'Nope'");

  CHECK_STR(TF_GetNumberAttrForOpListInput("AddN", 0, status), "N");
  CHECK_OK(status);
  CHECK_STR(TF_GetNumberAttrForOpListInput("ParseExample", 2, status), "Nsparse");
  CHECK(TF_GetNumberAttrForOpListInput("Neg", 0, status) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "Neg does not have number_attr() defined.");
  CHECK(TF_GetNumberAttrForOpListInput("AddN", 1, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "1 out of range for AddN");
  CHECK(TF_GetNumberAttrForOpListInput("AddN", -1, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "-1 out of range for AddN");
  CHECK(TF_GetNumberAttrForOpListInput("Nope", 0, status) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "Op type not registered 'Nope'");
}

static void kernels_for_attrs(void) {
  TF_AttrBuilder *neg = TF_NewAttrBuilder("Neg");
  TF_AttrBuilderCheckCanRunOnDevice(neg, "CPU", status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "OpKernel 'Neg' has constraint on attr 'T' not in NodeDef '[]'");
  TF_AttrBuilderSetType(neg, "T", TF_FLOAT);
  TF_AttrBuilderCheckCanRunOnDevice(neg, "CPU", status);
  CHECK_OK(status);
  TF_AttrBuilderCheckCanRunOnDevice(neg, "TPU", status);
  CHECK_ERROR(status, TF_NOT_FOUND, "No registered 'Neg' OpKernel for TPU devices compatible with node {{node Neg}}");
  TF_DeleteAttrBuilder(neg);
  TF_AttrBuilder *of_strings = TF_NewAttrBuilder("Neg");
  TF_AttrBuilderSetType(of_strings, "T", TF_STRING);
  TF_AttrBuilderCheckCanRunOnDevice(of_strings, "CPU", status);
  CHECK_ERROR(status, TF_NOT_FOUND,
              "(OpKernel was found, but attributes didn't match) Requested Attributes: T=DT_STRING");
  TF_DeleteAttrBuilder(of_strings);
  TF_AttrBuilder *list = TF_NewAttrBuilder("IdentityN");
  TF_AttrBuilderSetTypeList(list, "T", (TF_DataType[]){TF_FLOAT, TF_INT32}, 2);
  TF_AttrBuilderCheckCanRunOnDevice(list, "CPU", status);
  CHECK_OK(status);
  TF_DeleteAttrBuilder(list);
  TF_AttrBuilder *unknown = TF_NewAttrBuilder("Nope");
  TF_AttrBuilderCheckCanRunOnDevice(unknown, "CPU", status);
  CHECK_ERROR(status, TF_NOT_FOUND, "<no registered kernels>");
  TF_DeleteAttrBuilder(unknown);
}

static void buffer_is(TF_Buffer *buffer, const char *bytes, size_t length) {
  CHECK(buffer != NULL);
  bool same = buffer->length == length && memcmp(buffer->data, bytes, length) == 0;
  TF_DeleteBuffer(buffer);
  CHECK(same);
}

static void ready_made_options(void) {
  buffer_is(TF_CreateConfig(1, 1, 4), "\x0a\x07\x0a\x03" "CPU\x10\x04\x28\x01\x32\x02\x20\x01\x52\x04\x1a\x02\x28\x01", 21);
  buffer_is(TF_CreateConfig(0, 0, 1),
            "\x0a\x07\x0a\x03" "CPU\x10\x01\x28\x01\x32\x00\x52\x0d\x1a\x0b\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 28);
  TF_Buffer *options = TF_CreateRunOptions(1);
  buffer_is(options, "\x08\x03", 2);
  options = TF_CreateRunOptions(0);
  CHECK_INT(options->length, 0);
  TF_DeleteBuffer(options);
  TF_MakeInternalErrorStatus(status, "out of order");
  CHECK_ERROR(status, TF_INTERNAL, "out of order");
}

CASES(CASE(update_edge), CASE(while_input_of_another_op), CASE(update_edge_checks_shapes), CASE(update_edge_of_wrong_type), CASE(negative_indices),
      CASE(data_cycle), CASE(cycle_of_shapes), CASE(control_cycle), CASE(control_inputs), CASE(attrs),
      CASE(attrs_that_count), CASE(device), CASE(full_type), CASE(sessions_keep_what_they_ran),
      CASE(a_constant_is_changed), CASE(constants), CASE(shapes_are_constants), CASE(what_cannot_be_computed),
      CASE(handle_data), CASE(debug_string), CASE(questions_about_ops), CASE(kernels_for_attrs),
      CASE(ready_made_options))
