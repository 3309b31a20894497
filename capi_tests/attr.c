/* Attributes: every setter read back through metadata, getter and NodeDef; wrong kinds, short storage, bad protos. */
#include "nodes.h"
#include "pb.h"

/* A NoOp keeps any attr; `set` sets them on its description. */
static TF_Operation *with_attrs(TF_Graph *g, const char *name, void (*set)(TF_OperationDescription *)) {
  TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", name);
  set(desc);
  CHECK_OK(status);
  return finish(desc);
}

static void check_metadata(TF_Operation *op, const char *attr, bool is_list, int64_t size, TF_AttrType type,
                           int64_t total) {
  TF_AttrMetadata m = TF_OperationGetAttrMetadata(op, attr, status);
  CHECK_OK(status);
  if ((bool)m.is_list != is_list || m.list_size != size || m.type != type || m.total_size != total)
    CHECK_FAIL("'%s': is_list %d, list_size %lld, type %d, total_size %lld", attr, m.is_list, (long long)m.list_size,
               m.type, (long long)m.total_size);
}

/* ---- one value ---- */

static void set_single(TF_OperationDescription *desc) {
  const int64_t dims[] = {2, -1, 3};
  TF_SetAttrString(desc, "_s", "a\0b", 3);
  TF_SetAttrString(desc, "_empty", "", 0);
  TF_SetAttrInt(desc, "_i", INT64_MIN);
  TF_SetAttrFloat(desc, "_f", 2.5f);
  TF_SetAttrBool(desc, "_b", 7);
  TF_SetAttrBool(desc, "_no", 0);
  TF_SetAttrType(desc, "_t", TF_COMPLEX128);
  TF_SetAttrShape(desc, "_shape", dims, 3);
  TF_SetAttrShape(desc, "_unknown", NULL, -1);
  TF_SetAttrShape(desc, "_scalar", NULL, 0);
  TF_SetAttrPlaceholder(desc, "_p", "T");
  TF_SetAttrFuncName(desc, "_func", "MyFunction", 10);
  TF_Tensor *t = f32_vector(2, (float[]){1, 2});
  TF_SetAttrTensor(desc, "_tensor", t, status);
  TF_DeleteTensor(t);
}

static void single_values(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *op = with_attrs(g, "n", set_single);
  check_metadata(op, "_s", false, -1, TF_ATTR_STRING, 3);
  check_metadata(op, "_empty", false, -1, TF_ATTR_STRING, 0);
  check_metadata(op, "_i", false, -1, TF_ATTR_INT, -1);
  check_metadata(op, "_f", false, -1, TF_ATTR_FLOAT, -1);
  check_metadata(op, "_b", false, -1, TF_ATTR_BOOL, -1);
  check_metadata(op, "_t", false, -1, TF_ATTR_TYPE, -1);
  check_metadata(op, "_shape", false, -1, TF_ATTR_SHAPE, 3);
  check_metadata(op, "_unknown", false, -1, TF_ATTR_SHAPE, -1);
  check_metadata(op, "_scalar", false, -1, TF_ATTR_SHAPE, 0);
  check_metadata(op, "_tensor", false, -1, TF_ATTR_TENSOR, -1);
  check_metadata(op, "_p", false, -1, TF_ATTR_PLACEHOLDER, -1);
  check_metadata(op, "_func", false, -1, TF_ATTR_FUNC, -1);

  char text[4] = "----";
  TF_OperationGetAttrString(op, "_s", text, 3, status);
  CHECK_OK(status);
  CHECK(memcmp(text, "a\0b-", 4) == 0);
  memcpy(text, "----", 4);
  TF_OperationGetAttrString(op, "_s", text, 1, status);
  CHECK_OK(status);
  CHECK(memcmp(text, "a---", 4) == 0);
  TF_OperationGetAttrString(op, "_s", NULL, 0, status);
  CHECK_OK(status);

  int64_t i = 0;
  TF_OperationGetAttrInt(op, "_i", &i, status);
  CHECK_OK(status);
  CHECK(i == INT64_MIN);
  float f = 0;
  TF_OperationGetAttrFloat(op, "_f", &f, status);
  CHECK_OK(status);
  CHECK(f == 2.5f);
  unsigned char b = 9;
  TF_OperationGetAttrBool(op, "_b", &b, status);
  CHECK_OK(status);
  CHECK_INT(b, 1);
  TF_OperationGetAttrBool(op, "_no", &b, status);
  CHECK_OK(status);
  CHECK_INT(b, 0);
  TF_DataType dtype = TF_FLOAT;
  TF_OperationGetAttrType(op, "_t", &dtype, status);
  CHECK_OK(status);
  CHECK_INT(dtype, TF_COMPLEX128);
  int64_t dims[3] = {0};
  TF_OperationGetAttrShape(op, "_shape", dims, 3, status);
  CHECK_OK(status);
  CHECK(dims[0] == 2 && dims[1] == -1 && dims[2] == 3);
  TF_Tensor *t = NULL;
  TF_OperationGetAttrTensor(op, "_tensor", &t, status);
  CHECK_OK(status);
  CHECK(is_f32(t, 2, (float[]){1, 2}));
  /* The tensor is the client's: what is written to it does not reach the attr. */
  ((float *)TF_TensorData(t))[0] = 9;
  TF_DeleteTensor(t);
  TF_OperationGetAttrTensor(op, "_tensor", &t, status);
  CHECK_OK(status);
  CHECK(is_f32(t, 2, (float[]){1, 2}));
  TF_DeleteTensor(t);
  TF_DeleteGraph(g);
}

/* ---- lists ---- */

static void set_lists(TF_OperationDescription *desc) {
  const void *strings[] = {"ab", "", "c\0d"};
  const size_t lengths[] = {2, 0, 3};
  TF_SetAttrStringList(desc, "_s", strings, lengths, 3);
  TF_SetAttrIntList(desc, "_i", (int64_t[]){5, -6}, 2);
  TF_SetAttrFloatList(desc, "_f", (float[]){1.5f, -2}, 2);
  TF_SetAttrBoolList(desc, "_b", (unsigned char[]){0, 5, 1}, 3);
  TF_SetAttrTypeList(desc, "_t", (TF_DataType[]){TF_INT8, TF_STRING}, 2);
  const int64_t first[] = {7}, second[] = {1, -1};
  const int64_t *const dims[] = {first, NULL, second, NULL};
  const int ranks[] = {1, -1, 2, 0};
  TF_SetAttrShapeList(desc, "_shape", dims, ranks, 4);
  TF_Tensor *tensors[2] = {f32_scalar(3), i32_scalar(4)};
  TF_SetAttrTensorList(desc, "_tensor", tensors, 2, status);
  TF_DeleteTensor(tensors[0]);
  TF_DeleteTensor(tensors[1]);
}

static void list_values(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *op = with_attrs(g, "n", set_lists);
  check_metadata(op, "_s", true, 3, TF_ATTR_STRING, 5);
  check_metadata(op, "_i", true, 2, TF_ATTR_INT, -1);
  check_metadata(op, "_f", true, 2, TF_ATTR_FLOAT, -1);
  check_metadata(op, "_b", true, 3, TF_ATTR_BOOL, -1);
  check_metadata(op, "_t", true, 2, TF_ATTR_TYPE, -1);
  check_metadata(op, "_shape", true, 4, TF_ATTR_SHAPE, 3);
  check_metadata(op, "_tensor", true, 2, TF_ATTR_TENSOR, -1);

  void *strings[3];
  size_t lengths[3];
  char text[5];
  TF_OperationGetAttrStringList(op, "_s", strings, lengths, 3, text, sizeof text, status);
  CHECK_OK(status);
  CHECK(strings[0] == text && lengths[0] == 2);
  CHECK(strings[1] == text + 2 && lengths[1] == 0);
  CHECK(strings[2] == text + 2 && lengths[2] == 3);
  CHECK(memcmp(text, "abc\0d", 5) == 0);

  int64_t ints[3] = {0, 0, 99};
  TF_OperationGetAttrIntList(op, "_i", ints, 3, status);
  CHECK_OK(status);
  CHECK(ints[0] == 5 && ints[1] == -6 && ints[2] == 99);
  ints[1] = 88;
  TF_OperationGetAttrIntList(op, "_i", ints, 1, status);
  CHECK_OK(status);
  CHECK(ints[0] == 5 && ints[1] == 88);
  float floats[2] = {0};
  TF_OperationGetAttrFloatList(op, "_f", floats, 2, status);
  CHECK_OK(status);
  CHECK(floats[0] == 1.5f && floats[1] == -2);
  unsigned char bools[3] = {9, 9, 9};
  TF_OperationGetAttrBoolList(op, "_b", bools, 3, status);
  CHECK_OK(status);
  CHECK(bools[0] == 0 && bools[1] == 1 && bools[2] == 1);
  TF_DataType types[2] = {TF_FLOAT, TF_FLOAT};
  TF_OperationGetAttrTypeList(op, "_t", types, 2, status);
  CHECK_OK(status);
  CHECK(types[0] == TF_INT8 && types[1] == TF_STRING);

  int64_t *dims[4], storage[3];
  int ranks[4];
  TF_OperationGetAttrShapeList(op, "_shape", dims, ranks, 4, storage, 3, status);
  CHECK_OK(status);
  CHECK(ranks[0] == 1 && dims[0][0] == 7);
  CHECK_INT(ranks[1], -1);
  CHECK(ranks[2] == 2 && dims[2][0] == 1 && dims[2][1] == -1);
  CHECK_INT(ranks[3], 0);

  TF_Tensor *tensors[2] = {NULL, NULL};
  TF_OperationGetAttrTensorList(op, "_tensor", tensors, 2, status);
  CHECK_OK(status);
  CHECK(is_f32(tensors[0], 1, (float[]){3}));
  CHECK_INT(i32_at(tensors[1], 0), 4);
  *(float *)TF_TensorData(tensors[0]) = 9;
  TF_DeleteTensor(tensors[0]);
  TF_DeleteTensor(tensors[1]);
  TF_OperationGetAttrTensorList(op, "_tensor", tensors, 1, status);
  CHECK_OK(status);
  CHECK(is_f32(tensors[0], 1, (float[]){3}));
  TF_DeleteTensor(tensors[0]);
  TF_DeleteGraph(g);
}

static void short_storage(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *op = with_attrs(g, "n", set_lists);
  void *strings[3];
  size_t lengths[3];
  char text[4];
  TF_OperationGetAttrStringList(op, "_s", strings, lengths, 3, text, sizeof text, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Not enough storage to hold the requested list of strings");
  TF_SetStatus(status, TF_OK, "");
  int64_t *dims[4], storage[2];
  int ranks[4];
  TF_OperationGetAttrShapeList(op, "_shape", dims, ranks, 4, storage, 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Not enough storage to hold the requested list of shapes");
  TF_SetStatus(status, TF_OK, "");
  /* What is asked for does fit. */
  TF_OperationGetAttrShapeList(op, "_shape", dims, ranks, 1, storage, 2, status);
  CHECK_OK(status);
  CHECK(ranks[0] == 1 && dims[0][0] == 7);
  TF_OperationGetAttrStringList(op, "_s", strings, lengths, 2, text, sizeof text, status);
  CHECK_OK(status);
  CHECK_INT(lengths[0], 2);
  TF_DeleteGraph(g);
}

static void set_empty_lists(TF_OperationDescription *desc) {
  TF_SetAttrIntList(desc, "ksize", NULL, 0);
  TF_SetAttrStringList(desc, "_undeclared", NULL, NULL, 0);
}

/* An empty list says nothing of its type; the op's definition does. */
static void empty_lists(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *x = placeholder(g, TF_FLOAT, "x");
  TF_OperationDescription *desc = TF_NewOperation(g, "Squeeze", "squeeze");
  TF_AddInput(desc, output(x, 0));
  TF_SetAttrIntList(desc, "squeeze_dims", NULL, 0);
  TF_Operation *op = finish(desc);
  check_metadata(op, "squeeze_dims", true, 0, TF_ATTR_INT, -1);
  int64_t none = 42;
  TF_OperationGetAttrIntList(op, "squeeze_dims", &none, 1, status);
  CHECK_OK(status);
  CHECK_INT(none, 42);
  desc = TF_NewOperation(g, "FIFOQueueV2", "queue");
  TF_SetAttrTypeList(desc, "component_types", (TF_DataType[]){TF_FLOAT}, 1);
  TF_SetAttrShapeList(desc, "shapes", NULL, NULL, 0);
  op = finish(desc);
  check_metadata(op, "shapes", true, 0, TF_ATTR_SHAPE, -1);
  op = with_attrs(g, "n", set_empty_lists);
  int64_t number = 0;
  TF_OperationGetAttrInt(op, "ksize", &number, status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_DeleteGraph(g);
}

/* ---- protos ---- */

static TF_Buffer *shape_proto(int rank, const int64_t *dims) {
  Pb shape = {0};
  for (int i = 0; i < rank; i++) {
    Pb dim = {0};
    pb_int(&dim, 1, dims[i]);
    pb_message(&shape, 2, dim);
  }
  if (rank < 0) pb_int(&shape, 3, 1);
  return pb_buffer(shape);
}

static void shape_protos(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Buffer *known = shape_proto(2, (int64_t[]){4, -1}), *unknown = shape_proto(-1, NULL);
  TF_OperationDescription *desc = TF_NewOperation(g, "Placeholder", "x");
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrTensorShapeProto(desc, "shape", known->data, known->length, status);
  CHECK_OK(status);
  const void *protos[] = {unknown->data, known->data};
  const size_t lengths[] = {unknown->length, known->length};
  TF_SetAttrTensorShapeProtoList(desc, "_list", protos, lengths, 2, status);
  CHECK_OK(status);
  TF_Operation *op = finish(desc);
  check_metadata(op, "shape", false, -1, TF_ATTR_SHAPE, 2);
  check_metadata(op, "_list", true, 2, TF_ATTR_SHAPE, 2);
  CHECK_INT(TF_GraphGetTensorNumDims(g, output(op, 0), status), 2);

  TF_Buffer *value = TF_NewBuffer();
  TF_OperationGetAttrTensorShapeProto(op, "shape", value, status);
  CHECK_OK(status);
  CHECK_INT(pb_count(pb_view(value), 2), 2);
  TF_DeleteBuffer(value);
  TF_Buffer *values[2] = {NULL, NULL};
  TF_OperationGetAttrTensorShapeProtoList(op, "_list", values, 2, status);
  CHECK_OK(status);
  CHECK_INT(pb_find_int(pb_view(values[0]), 3), 1);
  CHECK_INT(pb_count(pb_view(values[1]), 2), 2);
  TF_DeleteBuffer(values[0]);
  TF_DeleteBuffer(values[1]);
  TF_DeleteBuffer(known);
  TF_DeleteBuffer(unknown);
  TF_DeleteGraph(g);
}

static void bad_protos_leave_the_description_usable(void) {
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "Placeholder", "x");
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrTensorShapeProto(desc, "shape", "\xff\xff", 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable TensorShapeProto");
  const void *protos[] = {"\xff\xff"};
  const size_t lengths[] = {2};
  TF_SetAttrTensorShapeProtoList(desc, "_list", protos, lengths, 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable TensorShapeProto at index 0");
  TF_SetAttrValueProto(desc, "_value", "\xff\xff", 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable AttrValue proto");
  finish(desc);
  TF_DeleteGraph(g);
}

static void value_proto(void) {
  TF_Graph *g = TF_NewGraph();
  Pb number = {0};
  pb_int(&number, 3, -17);
  TF_Buffer *value = pb_buffer(number);
  TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", "n");
  TF_SetAttrValueProto(desc, "_i", value->data, value->length, status);
  CHECK_OK(status);
  TF_DeleteBuffer(value);
  TF_Operation *op = finish(desc);
  check_metadata(op, "_i", false, -1, TF_ATTR_INT, -1);
  value = TF_NewBuffer();
  TF_OperationGetAttrValueProto(op, "_i", value, status);
  CHECK_OK(status);
  CHECK_INT(pb_find_int(pb_view(value), 3), -17);
  TF_DeleteBuffer(value);
  value = TF_NewBuffer();
  TF_OperationGetAttrValueProto(op, "nope", value, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Operation 'n' has no attr named 'nope'.");
  TF_DeleteBuffer(value);
  TF_DeleteGraph(g);
}

static void function_and_placeholder_protos(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *op = with_attrs(g, "n", set_single);
  TF_Buffer *value = TF_NewBuffer();
  TF_OperationGetAttrValueProto(op, "_func", value, status);
  CHECK_OK(status);
  PbView function;
  CHECK(pb_find(pb_view(value), 10, 0, &function));
  CHECK(pb_string_is(function, 1, 0, "MyFunction"));
  TF_DeleteBuffer(value);
  value = TF_NewBuffer();
  TF_OperationGetAttrValueProto(op, "_p", value, status);
  CHECK_OK(status);
  CHECK(pb_string_is(pb_view(value), 9, 0, "T"));
  TF_DeleteBuffer(value);
  TF_DeleteGraph(g);
}

/* ---- errors of the getters ---- */

static void missing_attrs(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *op = no_op(g, "p");
  TF_OperationGetAttrMetadata(op, "nope", status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Operation 'p' has no attr named 'nope'.");
  TF_SetStatus(status, TF_OK, "");
  char text[1];
  TF_OperationGetAttrString(op, "nope", text, 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Operation 'p' has no attr named 'nope'.");
  TF_SetStatus(status, TF_OK, "");
  int64_t i;
  TF_OperationGetAttrIntList(op, "nope", &i, 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Operation 'p' has no attr named 'nope'.");
  const char *scalar_message = "No attr named 'nope' in NodeDef:";
  TF_OperationGetAttrInt(op, "nope", &i, status);
  CHECK_ERROR(status, TF_NOT_FOUND, scalar_message);
  float f;
  TF_OperationGetAttrFloat(op, "nope", &f, status);
  CHECK_ERROR(status, TF_NOT_FOUND, scalar_message);
  unsigned char b;
  TF_OperationGetAttrBool(op, "nope", &b, status);
  CHECK_ERROR(status, TF_NOT_FOUND, scalar_message);
  TF_DataType dtype;
  TF_OperationGetAttrType(op, "nope", &dtype, status);
  CHECK_ERROR(status, TF_NOT_FOUND, scalar_message);
  TF_OperationGetAttrShape(op, "nope", &i, 1, status);
  CHECK_ERROR(status, TF_NOT_FOUND, scalar_message);
  TF_Tensor *t = NULL;
  TF_OperationGetAttrTensor(op, "nope", &t, status);
  CHECK_ERROR(status, TF_NOT_FOUND, scalar_message);
  CHECK(t == NULL);
  TF_DeleteGraph(g);
}

static void wrong_kinds(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *op = with_attrs(g, "n", set_single);
  int64_t i = 3;
  TF_OperationGetAttrInt(op, "_s", &i, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "AttrValue had value with type 'string' when 'int' expected");
  CHECK_INT(i, 3);
  float f;
  TF_OperationGetAttrFloat(op, "_i", &f, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "AttrValue had value with type 'int' when 'float' expected");
  unsigned char b;
  TF_OperationGetAttrBool(op, "_f", &b, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "AttrValue had value with type 'float' when 'bool' expected");
  TF_DataType dtype;
  TF_OperationGetAttrType(op, "_b", &dtype, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "AttrValue had value with type 'bool' when 'type' expected");
  TF_OperationGetAttrShape(op, "_t", &i, 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "AttrValue had value with type 'type' when 'shape' expected");
  TF_Tensor *t = NULL;
  TF_OperationGetAttrTensor(op, "_shape", &t, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "AttrValue had value with type 'shape' when 'tensor' expected");
  TF_SetStatus(status, TF_OK, "");

  char text[8];
  TF_OperationGetAttrString(op, "_i", text, sizeof text, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Attribute '_i' is not a string");
  TF_SetStatus(status, TF_OK, "");
  TF_OperationGetAttrIntList(op, "_i", &i, 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Value for '_i' is not a list");
  TF_SetStatus(status, TF_OK, "");
  TF_OperationGetAttrTypeList(op, "_t", &dtype, 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Value for '_t' is not a list");
  TF_SetStatus(status, TF_OK, "");
  TF_Buffer *buffer = TF_NewBuffer();
  TF_OperationGetAttrTensorShapeProto(op, "_i", buffer, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Value for '_i' is not a shape.");
  TF_DeleteBuffer(buffer);
  TF_DeleteGraph(g);
}

static void wrong_rank(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *op = with_attrs(g, "n", set_single);
  int64_t dims[3] = {0};
  TF_OperationGetAttrShape(op, "_unknown", dims, -1, status);
  CHECK_OK(status);
  TF_OperationGetAttrShape(op, "_scalar", dims, 0, status);
  CHECK_OK(status);
  TF_DeleteGraph(g);
}

/* ---- defaults and names ---- */

static void defaults_are_present(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *x = shaped(g, TF_FLOAT, (int64_t[]){2, 2}, 2, "x");
  TF_Operation *op = binary(g, "MatMul", output(x, 0), output(x, 0), "product");
  unsigned char transpose = 9;
  TF_OperationGetAttrBool(op, "transpose_a", &transpose, status);
  CHECK_OK(status);
  CHECK_INT(transpose, 0);
  check_metadata(op, "transpose_b", false, -1, TF_ATTR_BOOL, -1);
  x = placeholder(g, TF_FLOAT, "any");
  check_metadata(x, "shape", false, -1, TF_ATTR_SHAPE, -1);
  TF_DeleteGraph(g);
}

static void names_of_attrs(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *op = placeholder(g, TF_FLOAT, "x");
  CHECK_INT(TF_OperationGetNumAttrs(op), 2);
  bool dtype = false, shape = false;
  for (int i = 0; i < 2; i++) {
    CHECK_INT(TF_OperationGetAttrNameLength(op, i), 5);
    char name[6] = "";
    TF_OperationGetAttrName(op, i, name, status);
    CHECK_OK(status);
    name[5] = '\0';
    dtype = dtype || strcmp(name, "dtype") == 0;
    shape = shape || strcmp(name, "shape") == 0;
  }
  CHECK(dtype && shape);
  CHECK_INT(TF_OperationGetAttrNameLength(op, 2), -1);
  CHECK_INT(TF_OperationGetAttrNameLength(op, -1), -1);
  char name[6];
  TF_OperationGetAttrName(op, 2, name, status);
  CHECK_CODE(status, TF_OUT_OF_RANGE);
  CHECK_INT(TF_OperationGetNumAttrs(no_op(g, "n")), 0);
  TF_DeleteGraph(g);
}

static void values_are_copied(void) {
  TF_Graph *g = TF_NewGraph();
  char name[] = "_s", value[] = "text";
  int64_t dims[] = {5};
  TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", "n");
  TF_SetAttrString(desc, name, value, 4);
  TF_SetAttrShape(desc, "_shape", dims, 1);
  memset(value, 'x', 4);
  name[1] = 'x';
  dims[0] = 6;
  TF_Operation *op = finish(desc);
  TF_OperationGetAttrString(op, "_s", value, 4, status);
  CHECK_OK(status);
  CHECK_STR(value, "text");
  TF_OperationGetAttrShape(op, "_shape", dims, 1, status);
  CHECK_OK(status);
  CHECK_INT(dims[0], 5);
  TF_DeleteGraph(g);
}

static void string_tensor_attr(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *op = constant(g, string_scalar("more than twenty-two bytes of text"), "c");
  TF_Tensor *t = NULL;
  TF_OperationGetAttrTensor(op, "value", &t, status);
  CHECK_OK(status);
  CHECK_INT(TF_TensorType(t), TF_STRING);
  CHECK_STR(TF_StringGetDataPointer(TF_TensorData(t)), "more than twenty-two bytes of text");
  TF_DeleteTensor(t);
  TF_DeleteGraph(g);
}

static void shape_with_too_many_dimensions(void) {
  if (!is_tfcore()) return; /* the reference aborts */
  TF_Graph *g = TF_NewGraph();
  int64_t dims[255];
  for (int i = 0; i < 255; i++) dims[i] = 1;
  TF_OperationDescription *desc = TF_NewOperation(g, "Placeholder", "x");
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", dims, 255);
  CHECK(TF_FinishOperation(desc, status) == NULL);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_DeleteGraph(g);
}

CASES(CASE(single_values), CASE(list_values), CASE(short_storage), CASE(empty_lists), CASE(shape_protos),
      CASE(bad_protos_leave_the_description_usable), CASE(value_proto), CASE(function_and_placeholder_protos),
      CASE(missing_attrs), CASE(wrong_kinds), CASE(wrong_rank), CASE(defaults_are_present), CASE(names_of_attrs),
      CASE(values_are_copied), CASE(string_tensor_attr), CASE(shape_with_too_many_dimensions))
