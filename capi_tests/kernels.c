/* Kernels that a program defines: attrs, inputs, outputs, forwarding, failures, priorities, labels, variables, and kernels
 * that end their runs by a callback. */
#include "nodes.h"
#include "pb.h"

#include <pthread.h>

#include "tensorflow/c/kernels.h"
#include "tensorflow/c/kernels_experimental.h"
#include "tensorflow/c/ops.h"

/* The functions of kernels_experimental.h, which TensorFlow's wheel does not export; null there. */
#define OPTIONAL(name) ((__typeof__(&name))dlsym(RTLD_DEFAULT, #name))

typedef void *Create(TF_OpKernelConstruction *ctx);
typedef void Compute(void *kernel, TF_OpKernelContext *ctx);

/* Defines an op by its specifications, each "i:" input, "o:" output or "a:" attr. */
static void define_op(const char *name, const char *const *specs) {
  TF_DeleteBuffer(TF_GetAllOpList());
  TF_OpDefinitionBuilder *op = TF_NewOpDefinitionBuilder(name);
  for (; *specs; specs++) {
    const char *spec = *specs + 2;
    if (**specs == 'i') TF_OpDefinitionBuilderAddInput(op, spec);
    if (**specs == 'o') TF_OpDefinitionBuilderAddOutput(op, spec);
    if (**specs == 'a') TF_OpDefinitionBuilderAddAttr(op, spec);
    if (**specs == 's') TF_OpDefinitionBuilderSetIsStateful(op, true);
  }
  TF_RegisterOpDefinition(op, status);
  CHECK_OK(status);
}

#define DEFINE_OP(name, ...) define_op(name, (const char *const[]){__VA_ARGS__, NULL})

static void register_kernel(const char *op, Create *create, Compute *compute, void (*delete)(void *)) {
  TF_RegisterKernelBuilder(op, TF_NewKernelBuilder(op, "CPU", create, compute, delete), status);
  CHECK_OK(status);
}

static TF_Graph *graph;
static TF_Session *session;

static void begin(void) {
  graph = TF_NewGraph();
  session = NULL;
  TF_SetRequireShapeInferenceFns(graph, false);
}

static void end(void) {
  if (session) delete_session(session);
  session = NULL;
  TF_DeleteGraph(graph);
}

static TF_Tensor *try_run(TF_Output what) {
  if (!session) session = new_session(graph);
  TF_Tensor *result = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &what, &result, 1, NULL, 0, NULL, status);
  return result;
}

static TF_Tensor *run(TF_Output what) {
  TF_Tensor *result = try_run(what);
  CHECK_OK(status);
  return result;
}

static TF_Operation *node(const char *type, const char *name) { return finish(TF_NewOperation(graph, type, name)); }

/* ---- attrs ---- */

static int problems;

#define EXPECT(condition) \
  do {                    \
    if (!(condition)) problems++, fprintf(stderr, "  not true: %s (%s:%d)\n", #condition, __FILE__, __LINE__); \
  } while (0)

static void *read_attrs(TF_OpKernelConstruction *ctx) {
  TF_Status *s = TF_NewStatus();
  int32_t list_size = 7, total = 7, i32 = 0, i32s[4] = {0};
  int64_t i64 = 0, i64s[4] = {0};
  float f = 0, fs[4] = {0};
  TF_Bool b = 0, bs[4] = {0};
  TF_DataType type = 0, types[4] = {0};
  char text[16] = "................", storage[16];
  char *texts[4];
  size_t lengths[4];
  TF_Tensor *tensor = NULL;

  TF_OpKernelConstruction_GetAttrSize(ctx, "i", &list_size, &total, s);
  EXPECT(TF_GetCode(s) == TF_OK && list_size == -1 && total == -1);
  TF_OpKernelConstruction_GetAttrSize(ctx, "text", &list_size, &total, s);
  EXPECT(list_size == -1 && total == 5);
  TF_OpKernelConstruction_GetAttrSize(ctx, "texts", &list_size, &total, s);
  EXPECT(list_size == 2 && total == 5);
  TF_OpKernelConstruction_GetAttrSize(ctx, "shape", &list_size, &total, s);
  EXPECT(list_size == -1 && total == 2);
  TF_OpKernelConstruction_GetAttrSize(ctx, "none", &list_size, &total, s);
  EXPECT(list_size == 0 && total == -1);
  TF_OpKernelConstruction_GetAttrSize(ctx, "is", &list_size, &total, s);
  EXPECT(list_size == 3 && total == -1);
  TF_OpKernelConstruction_GetAttrSize(ctx, "nope", &list_size, &total, s);
  EXPECT(TF_GetCode(s) == TF_INVALID_ARGUMENT && list_size == -1 && total == -1);
  EXPECT(strstr(TF_Message(s), "has no attr named 'nope'") != NULL);

  TF_OpKernelConstruction_GetAttrInt32(ctx, "i", &i32, s);
  EXPECT(TF_GetCode(s) == TF_OK && i32 == -5);
  TF_OpKernelConstruction_GetAttrInt64(ctx, "i", &i64, s);
  EXPECT(i64 == -5);
  TF_OpKernelConstruction_GetAttrInt64(ctx, "large", &i64, s);
  EXPECT(i64 == 1LL << 40);
  TF_OpKernelConstruction_GetAttrInt32(ctx, "large", &i32, s);
  EXPECT(TF_GetCode(s) == TF_INVALID_ARGUMENT);
  TF_OpKernelConstruction_GetAttrInt64(ctx, "text", &i64, s);
  EXPECT(TF_GetCode(s) == TF_INVALID_ARGUMENT);
  TF_OpKernelConstruction_GetAttrInt64(ctx, "nope", &i64, s);
  EXPECT(TF_GetCode(s) == TF_NOT_FOUND);
  TF_OpKernelConstruction_GetAttrInt64List(ctx, "is", i64s, 4, s);
  EXPECT(TF_GetCode(s) == TF_OK && i64s[0] == 1 && i64s[1] == 2 && i64s[2] == 3 && i64s[3] == 0);
  TF_OpKernelConstruction_GetAttrInt32List(ctx, "is", i32s, 2, s);
  EXPECT(i32s[0] == 1 && i32s[1] == 2 && i32s[2] == 0);
  TF_OpKernelConstruction_GetAttrInt32List(ctx, "i", i32s, 2, s);
  EXPECT(TF_GetCode(s) == TF_INVALID_ARGUMENT && strstr(TF_Message(s), "is not a list") != NULL);
  TF_OpKernelConstruction_GetAttrInt32List(ctx, "texts", i32s, 2, s);
  EXPECT(TF_GetCode(s) == TF_INVALID_ARGUMENT);
  TF_OpKernelConstruction_GetAttrFloat(ctx, "f", &f, s);
  EXPECT(TF_GetCode(s) == TF_OK && f == 1.5f);
  TF_OpKernelConstruction_GetAttrFloatList(ctx, "fs", fs, 4, s);
  EXPECT(fs[0] == 0.5f && fs[1] == 2.5f);
  TF_OpKernelConstruction_GetAttrBool(ctx, "b", &b, s);
  EXPECT(b == 1);
  TF_OpKernelConstruction_GetAttrBoolList(ctx, "bs", bs, 4, s);
  EXPECT(bs[0] == 1 && bs[1] == 0);
  TF_OpKernelConstruction_GetAttrType(ctx, "type", &type, s);
  EXPECT(type == TF_INT16);
  TF_OpKernelConstruction_GetAttrTypeList(ctx, "types", types, 4, s);
  EXPECT(types[0] == TF_FLOAT && types[1] == TF_STRING);
  TF_OpKernelConstruction_GetAttrString(ctx, "text", text, sizeof text, s);
  EXPECT(TF_GetCode(s) == TF_OK && memcmp(text, "hello.", 6) == 0);
  TF_OpKernelConstruction_GetAttrString(ctx, "text", text, 2, s);
  TF_OpKernelConstruction_GetAttrStringList(ctx, "texts", texts, lengths, 4, storage, sizeof storage, s);
  EXPECT(TF_GetCode(s) == TF_OK && lengths[0] == 2 && memcmp(texts[0], "ab", 2) == 0);
  EXPECT(lengths[1] == 3 && memcmp(texts[1], "cde", 3) == 0);
  TF_OpKernelConstruction_GetAttrStringList(ctx, "texts", texts, lengths, 4, storage, 3, s);
  EXPECT(TF_GetCode(s) == TF_INVALID_ARGUMENT && strstr(TF_Message(s), "Not enough storage") != NULL);
  TF_OpKernelConstruction_GetAttrTensor(ctx, "tensor", &tensor, s);
  EXPECT(TF_GetCode(s) == TF_OK && tensor != NULL && i32_at(tensor, 0) == 9);
  TF_DeleteTensor(tensor);
  TF_OpKernelConstruction_GetAttrTensor(ctx, "text", &tensor, s);
  EXPECT(TF_GetCode(s) == TF_INVALID_ARGUMENT && tensor == NULL);
  TF_Tensor *tensors[3] = {NULL};
  TF_OpKernelConstruction_GetAttrTensorList(ctx, "tensors", tensors, 3, s);
  EXPECT(TF_GetCode(s) == TF_OK && i32_at(tensors[0], 0) == 9 && i32_at(tensors[1], 0) == 9 && tensors[2] == NULL);
  TF_DeleteTensor(tensors[0]);
  TF_DeleteTensor(tensors[1]);
  TF_Buffer *function = TF_OpKernelConstruction_GetAttrFunction(ctx, "f_attr", s);
  EXPECT(TF_GetCode(s) == TF_OK && pb_string_is(pb_view(function), 1, 0, "Body"));
  TF_DeleteBuffer(function);
  EXPECT(TF_OpKernelConstruction_GetAttrFunction(ctx, "text", s) == NULL);
  EXPECT(TF_GetCode(s) == TF_INVALID_ARGUMENT);
  if (OPTIONAL(TF_OpKernelConstruction_GetAttrTensorShape)) {
    OPTIONAL(TF_OpKernelConstruction_GetAttrTensorShape)(ctx, "shape", i64s, 4, s);
    EXPECT(TF_GetCode(s) == TF_OK && i64s[0] == 3 && i64s[1] == 4);
  }

  EXPECT(TF_OpKernelConstruction_HasAttr(ctx, "text", s));
  EXPECT(!TF_OpKernelConstruction_HasAttr(ctx, "nope", s));
  TF_StringView name = TF_OpKernelConstruction_GetName(ctx);
  EXPECT(name.len == 4 && memcmp(name.data, "node", 4) == 0);
  TF_Buffer *def = TF_OpKernelConstruction_GetNodeDef(ctx, s);
  EXPECT(def != NULL && pb_string_is(pb_view(def), 1, 0, "node"));
  EXPECT(pb_string_is(pb_view(def), 2, 0, "KernelTestAttrs"));
  TF_DeleteBuffer(def);
  TF_DeleteStatus(s);
  return NULL;
}

static void set_nothing(void *kernel, TF_OpKernelContext *ctx) {
  (void)kernel;
  TF_Status *s = TF_NewStatus();
  TF_Tensor *out = i32_scalar(1);
  TF_SetOutput(ctx, 0, out, s);
  TF_DeleteTensor(out);
  TF_DeleteStatus(s);
}

static void attrs(void) {
  DEFINE_OP("KernelTestAttrs", "o:y: int32", "a:i: int = -5", "a:large: int = 1099511627776", "a:is: list(int) = [1, 2, 3]",
            "a:none: list(int) = []", "a:f: float = 1.5", "a:fs: list(float) = [0.5, 2.5]", "a:b: bool = true",
            "a:bs: list(bool) = [true, false]", "a:type: type = DT_INT16", "a:types: list(type) = [DT_FLOAT, DT_STRING]",
            "a:text: string = 'hello'", "a:texts: list(string) = ['ab', 'cde']", "a:shape: shape = { dim { size: 3 } dim { size: 4 } }",
            "a:tensor: tensor", "a:tensors: list(tensor)", "a:f_attr: func");
  register_kernel("KernelTestAttrs", &read_attrs, &set_nothing, NULL);
  begin();
  TF_OperationDescription *desc = TF_NewOperation(graph, "KernelTestAttrs", "node");
  TF_Tensor *value = i32_scalar(9);
  TF_SetAttrTensor(desc, "tensor", value, status);
  CHECK_OK(status);
  TF_Tensor *const values[2] = {value, value};
  TF_SetAttrTensorList(desc, "tensors", values, 2, status);
  CHECK_OK(status);
  TF_SetAttrFuncName(desc, "f_attr", "Body", 4);
  TF_DeleteTensor(value);
  problems = 0;
  TF_DeleteTensor(run(output(finish(desc), 0)));
  CHECK_INT(problems, 0);
  end();
}

/* ---- lives ---- */

static int created, deleted;

static void *count_create(TF_OpKernelConstruction *ctx) {
  (void)ctx;
  created++;
  return &created;
}

static void count_delete(void *kernel) {
  if (kernel == &created) deleted++;
}

static void kernels_are_deleted(void) {
  DEFINE_OP("KernelTestLife", "o:y: int32", "s:");
  register_kernel("KernelTestLife", &count_create, &set_nothing, &count_delete);
  begin();
  TF_Operation *y = node("KernelTestLife", "y");
  for (int i = 0; i < 3; i++) TF_DeleteTensor(run(output(y, 0)));
  CHECK(created >= 1);
  end();
  CHECK_INT(deleted, created);
}

static void *fail_create(TF_OpKernelConstruction *ctx) {
  TF_Status *s = TF_NewStatus();
  TF_SetStatus(s, TF_ABORTED, "no kernel today");
  TF_OpKernelConstruction_Failure(ctx, s);
  TF_DeleteStatus(s);
  return NULL;
}

static void creation_may_fail(void) {
  DEFINE_OP("KernelTestNoCreate", "o:y: int32", "s:");
  register_kernel("KernelTestNoCreate", &fail_create, &set_nothing, NULL);
  begin();
  CHECK(try_run(output(node("KernelTestNoCreate", "y"), 0)) == NULL);
  CHECK_ERROR(status, TF_ABORTED, "no kernel today");
  end();
}

static void fail_compute(void *kernel, TF_OpKernelContext *ctx) {
  (void)kernel;
  TF_Status *s = TF_NewStatus();
  TF_SetStatus(s, TF_DATA_LOSS, "the data are gone");
  TF_OpKernelContext_Failure(ctx, s);
  TF_DeleteStatus(s);
}

static void runs_may_fail(void) {
  DEFINE_OP("KernelTestFail", "o:y: int32", "s:");
  register_kernel("KernelTestFail", NULL, &fail_compute, NULL);
  begin();
  CHECK(try_run(output(node("KernelTestFail", "y"), 0)) == NULL);
  CHECK_ERROR(status, TF_DATA_LOSS, "the data are gone");
  end();
}

/* ---- the context ---- */

static void look_around(void *kernel, TF_OpKernelContext *ctx) {
  EXPECT(kernel == NULL);
  TF_Status *s = TF_NewStatus();
  TF_Tensor *tensor = NULL;
  EXPECT(TF_NumInputs(ctx) == 3);
  EXPECT(TF_NumOutputs(ctx) == 2);
  EXPECT(TF_InputDatatype(ctx, 0) == TF_FLOAT);
  EXPECT(TF_InputDatatype(ctx, 2) == TF_INT32);
  EXPECT(TF_ExpectedOutputDataType(ctx, 0) == TF_INT32);
  EXPECT(TF_ExpectedOutputDataType(ctx, 1) == TF_FLOAT);
  TF_GetInput(ctx, 3, &tensor, s);
  EXPECT(TF_GetCode(s) == TF_OUT_OF_RANGE && tensor == NULL);
  TF_GetInput(ctx, -1, &tensor, s);
  EXPECT(TF_GetCode(s) == TF_OUT_OF_RANGE);
  TF_GetInput(ctx, 2, &tensor, s);
  EXPECT(TF_GetCode(s) == TF_OK && i32_at(tensor, 0) == 4);
  TF_SetOutput(ctx, 2, tensor, s);
  EXPECT(TF_GetCode(s) == TF_OUT_OF_RANGE);
  TF_SetOutput(ctx, 0, tensor, s);
  EXPECT(TF_GetCode(s) == TF_OK);
  TF_DeleteTensor(tensor);
  if (OPTIONAL(TF_GetInputByName)) {
    OPTIONAL(TF_GetInputByName)(ctx, "n", &tensor, s);
    EXPECT(TF_GetCode(s) == TF_OK && i32_at(tensor, 0) == 4);
    TF_DeleteTensor(tensor);
  }
  TF_InputRange_Args range = {TF_InputRange_Args_STRUCT_SIZE, NULL, 0, 0, s};
  TF_InputRange(ctx, "xs", &range);
  EXPECT(TF_GetCode(s) == TF_OK && range.start == 0 && range.stop == 2);
  TF_InputRange(ctx, "nope", &range);
  EXPECT(TF_GetCode(s) == TF_INVALID_ARGUMENT);
  if (OPTIONAL(TF_IsRefInput)) {
    EXPECT(!OPTIONAL(TF_IsRefInput)(ctx, 0, s));
    OPTIONAL(TF_IsRefInput)(ctx, 5, s);
    EXPECT(TF_GetCode(s) == TF_OUT_OF_RANGE);
  }
  TF_IsHostMemoryInput(ctx, 3, s);
  EXPECT(TF_GetCode(s) == TF_OUT_OF_RANGE);
  TF_IsHostMemoryOutput(ctx, 2, s);
  EXPECT(TF_GetCode(s) == TF_OUT_OF_RANGE);
  EXPECT(TF_StepId(ctx) == TF_GetStepId(ctx));
  EXPECT(TF_GetDeviceId(ctx) == 0);
  TF_StringView name = TF_GetOpKernelName(ctx);
  EXPECT(name.len == 4 && memcmp(name.data, "look", 4) == 0);
  name = TF_GetDeviceName(ctx);
  EXPECT(name.len > 13 && memcmp(name.data, "/job:localhost", 14) == 0);
  name = TF_GetResourceMgrDefaultContainerName(ctx);
  EXPECT(name.len == 9 && memcmp(name.data, "localhost", 9) == 0);
  EXPECT(TF_GetGraphDefVersion(ctx) > 1000);
  EXPECT(TF_GetFrameId(ctx) == 0 && TF_GetIterId(ctx) == 0);
  EXPECT(TF_GetStream(ctx, s) == NULL);
  EXPECT(TF_GetCode(s) == TF_FAILED_PRECONDITION);

  const int64_t dims[2] = {2, 3};
  tensor = TF_AllocateTemp(ctx, TF_INT64, dims, 2, NULL, s);
  EXPECT(TF_GetCode(s) == TF_OK && TF_TensorType(tensor) == TF_INT64 && TF_TensorByteSize(tensor) == 48);
  TF_DeleteTensor(tensor);
  TF_AllocatorAttributes attributes = {0, 1};
  EXPECT(TF_AllocateTemp(ctx, TF_INT64, dims, 2, &attributes, s) == NULL);
  EXPECT(TF_GetCode(s) == TF_INVALID_ARGUMENT);
  tensor = TF_AllocateOutput(ctx, 1, TF_FLOAT, dims, 2, 24, s);
  EXPECT(TF_GetCode(s) == TF_OK && TF_NumDims(tensor) == 2 && TF_Dim(tensor, 1) == 3);
  for (int i = 0; i < 6; i++) ((float *)TF_TensorData(tensor))[i] = (float)i;
  TF_DeleteTensor(tensor);
  tensor = TF_GetMutableOutput(ctx, 1, s);
  EXPECT(TF_GetCode(s) == TF_OK && f32_at(tensor, 5) == 5);
  ((float *)TF_TensorData(tensor))[5] = 50;
  TF_DeleteTensor(tensor);
  EXPECT(TF_GetMutableOutput(ctx, 2, s) == NULL);
  EXPECT(TF_GetCode(s) == TF_OUT_OF_RANGE);
  TF_DeleteStatus(s);
}

static void the_context(void) {
  DEFINE_OP("KernelTestLook", "a:N: int", "i:xs: N * float", "i:n: int32", "o:a: int32", "o:b: float", "s:");
  register_kernel("KernelTestLook", NULL, &look_around, NULL);
  begin();
  const TF_Output xs[2] = {output(constant(graph, f32_scalar(1), "x"), 0), output(constant(graph, f32_scalar(2), "y"), 0)};
  TF_OperationDescription *desc = TF_NewOperation(graph, "KernelTestLook", "look");
  TF_AddInputList(desc, xs, 2);
  TF_AddInput(desc, output(constant(graph, i32_scalar(4), "n"), 0));
  TF_Operation *look = finish(desc);
  problems = 0;
  TF_Tensor *result = run(output(look, 1));
  CHECK_INT(problems, 0);
  const float expected[6] = {0, 1, 2, 3, 4, 50};
  CHECK(is_f32(result, 6, expected));
  TF_DeleteTensor(result);
  result = run(output(look, 0));
  CHECK_INT(i32_at(result, 0), 4);
  TF_DeleteTensor(result);
  end();
}

/* ---- forwarding ---- */

static int forwarded;

static void add_in_place(void *kernel, TF_OpKernelContext *ctx) {
  (void)kernel;
  TF_Status *s = TF_NewStatus();
  const int candidates[1] = {0};
  const int64_t dims[1] = {3};
  TF_Tensor *x = NULL;
  float values[3];
  TF_GetInput(ctx, 0, &x, s);
  memcpy(values, TF_TensorData(x), sizeof values);
  TF_DeleteTensor(x);
  TF_Tensor *out = TF_ForwardInputOrAllocateOutput(ctx, candidates, 1, 0, dims, 1, &forwarded, s);
  EXPECT(TF_GetCode(s) == TF_OK);
  for (int i = 0; i < 3; i++) ((float *)TF_TensorData(out))[i] = values[i] + 1;
  TF_DeleteTensor(out);
  TF_DeleteStatus(s);
}

static void inputs_are_forwarded(void) {
  DEFINE_OP("KernelTestForward", "i:x: float", "o:y: float");
  register_kernel("KernelTestForward", NULL, &add_in_place, NULL);
  begin();
  const float values[3] = {1, 2, 3}, expected[3] = {1, 0, -1};
  /* The input is -x in memory that nothing else reads. */
  TF_Operation *x = placeholder(graph, TF_FLOAT, "x");
  TF_Operation *minus = unary(graph, "Neg", output(x, 0), "minus");
  TF_Operation *zero = binary(graph, "AddV2", output(minus, 0), output(x, 0), "zero");
  TF_Operation *sum = binary(graph, "Sub", output(zero, 0), output(x, 0), "sum");
  TF_Operation *y = unary(graph, "KernelTestForward", output(sum, 0), "y");
  TF_Operation *z = unary(graph, "KernelTestForward", output(y, 0), "z");
  session = new_session(graph);
  forwarded = 7;
  problems = 0;
  TF_Tensor *fed = f32_vector(3, values);
  TF_Tensor *result = fetch_with(session, output(x, 0), fed, output(z, 0));
  CHECK_INT(problems, 0);
  CHECK(forwarded == 0);
  CHECK(is_f32(result, 3, expected));
  TF_DeleteTensor(result);
  /* A constant is needed again. */
  TF_Operation *again = unary(graph, "KernelTestForward", output(constant(graph, f32_vector(3, values), "c"), 0), "again");
  for (int i = 0; i < 2; i++) {
    result = fetch(session, output(again, 0));
    const float next[3] = {2, 3, 4};
    CHECK(is_f32(result, 3, next));
    CHECK_INT(forwarded, -1);
    TF_DeleteTensor(result);
  }
  end();
}

/* ---- which kernel ---- */

static void set_number(TF_OpKernelContext *ctx, int32_t number) {
  TF_Status *s = TF_NewStatus();
  TF_Tensor *out = i32_scalar(number);
  TF_SetOutput(ctx, 0, out, s);
  TF_DeleteTensor(out);
  TF_DeleteStatus(s);
}

static void set_one(void *kernel, TF_OpKernelContext *ctx) { (void)kernel, set_number(ctx, 1); }
static void set_two(void *kernel, TF_OpKernelContext *ctx) { (void)kernel, set_number(ctx, 2); }
static void set_three(void *kernel, TF_OpKernelContext *ctx) { (void)kernel, set_number(ctx, 3); }

static int32_t number_of(TF_Operation *y) {
  TF_Tensor *result = run(output(y, 0));
  int32_t number = i32_at(result, 0);
  TF_DeleteTensor(result);
  return number;
}

static TF_KernelBuilder *builder_of(const char *op, Compute *compute) {
  return TF_NewKernelBuilder(op, "CPU", NULL, compute, NULL);
}

static void types_choose(void) {
  DEFINE_OP("KernelTestTypes", "i:x: T", "o:y: int32", "a:T: type");
  TF_KernelBuilder *builder = builder_of("KernelTestTypes", &set_one);
  TF_KernelBuilder_TypeConstraint(builder, "T", TF_FLOAT, status);
  CHECK_OK(status);
  TF_RegisterKernelBuilder("one", builder, status);
  CHECK_OK(status);
  builder = builder_of("KernelTestTypes", &set_two);
  TF_KernelBuilder_TypeConstraint(builder, "T", TF_INT32, status);
  CHECK_OK(status);
  TF_RegisterKernelBuilder("two", builder, status);
  CHECK_OK(status);
  begin();
  TF_Operation *f = unary(graph, "KernelTestTypes", output(constant(graph, f32_scalar(1), "f"), 0), "of_f");
  TF_Operation *i = unary(graph, "KernelTestTypes", output(constant(graph, i32_scalar(1), "i"), 0), "of_i");
  CHECK_INT(number_of(f), 1);
  CHECK_INT(number_of(i), 2);
  TF_Operation *s = unary(graph, "KernelTestTypes", output(constant(graph, string_scalar("s"), "s"), 0), "of_s");
  CHECK(try_run(output(s, 0)) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "No OpKernel was registered to support Op 'KernelTestTypes'");
  end();
}

/* A KernelDef: 1 op, 2 device_type, 6 priority. */
static void definitions_may_be_serialised(void) {
  DEFINE_OP("KernelTestDef", "o:y: int32", "s:");
  Pb def = {0};
  pb_string(&def, 1, "KernelTestDef");
  pb_string(&def, 2, "CPU");
  pb_int(&def, 6, 7);
  char text[64] = {0};
  memcpy(text, def.data, def.length);
  TF_RegisterKernelBuilderWithKernelDef(text, "def", builder_of("Ignored", &set_three), status);
  CHECK_OK(status);
  TF_RegisterKernelBuilder("plain", builder_of("KernelTestDef", &set_one), status);
  CHECK_OK(status);
  free(def.data);
  begin();
  CHECK_INT(number_of(node("KernelTestDef", "y")), 3);
  end();
  TF_RegisterKernelBuilderWithKernelDef("\xff\xff", "bad", builder_of("Ignored", &set_three), status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Error parsing serialized KernelDef.");
}

static void impossible_constraints(void) {
  TF_KernelBuilder *builder = builder_of("KernelTestTypes", &set_one);
  TF_KernelBuilder_TypeConstraint(builder, "T", (TF_DataType)(TF_FLOAT + 100), status);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "Unexpected type");
  TF_DeleteKernelBuilder(builder);
  TF_DeleteKernelBuilder(NULL);
}

static void priorities_choose(void) {
  DEFINE_OP("KernelTestPriority", "o:y: int32", "s:");
  const int32_t priorities[3] = {1, 3, 2};
  Compute *computes[3] = {&set_one, &set_two, &set_three};
  for (int i = 0; i < 3; i++) {
    TF_KernelBuilder *builder = builder_of("KernelTestPriority", computes[i]);
    TF_KernelBuilder_Priority(builder, priorities[i]);
    TF_RegisterKernelBuilder("priority", builder, status);
    CHECK_OK(status);
  }
  begin();
  CHECK_INT(number_of(node("KernelTestPriority", "y")), 2);
  end();
}

static void labels_choose(void) {
  DEFINE_OP("KernelTestLabel", "o:y: int32", "s:");
  TF_RegisterKernelBuilder("plain", builder_of("KernelTestLabel", &set_one), status);
  CHECK_OK(status);
  TF_KernelBuilder *builder = builder_of("KernelTestLabel", &set_two);
  TF_KernelBuilder_Label(builder, "special");
  TF_RegisterKernelBuilder("special", builder, status);
  CHECK_OK(status);
  begin();
  CHECK_INT(number_of(node("KernelTestLabel", "plain")), 1);
  TF_OperationDescription *desc = TF_NewOperation(graph, "KernelTestLabel", "special");
  TF_SetAttrString(desc, "_kernel", "special", 7);
  CHECK_INT(number_of(finish(desc)), 2);
  end();
}

static void the_same_kernel_twice(void) {
  DEFINE_OP("KernelTestTwice", "o:y: int32", "s:");
  for (int i = 0; i < 2; i++) {
    TF_RegisterKernelBuilder("twice", builder_of("KernelTestTwice", &set_one), status);
    CHECK_OK(status);
  }
  begin();
  CHECK(try_run(output(node("KernelTestTwice", "y"), 0)) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Multiple OpKernel registrations match NodeDef at the same priority");
  end();
}

/* A kernel of higher priority takes the place of the library's own. */
static void kernels_of_known_ops(void) {
  TF_KernelBuilder *builder = builder_of("BitwiseAnd", &set_three);
  TF_KernelBuilder_TypeConstraint(builder, "T", TF_INT32, status);
  TF_KernelBuilder_Priority(builder, 1);
  TF_RegisterKernelBuilder("and", builder, status);
  CHECK_OK(status);
  begin();
  TF_Operation *x = placeholder(graph, TF_INT32, "x");
  TF_Operation *y = binary(graph, "BitwiseAnd", output(x, 0), output(x, 0), "y");
  session = new_session(graph);
  TF_Tensor *result = fetch_with(session, output(x, 0), i32_scalar(12), output(y, 0));
  CHECK_INT(i32_at(result, 0), 3);
  TF_DeleteTensor(result);
  end();
}

static void kernels_are_listed(void) {
  DEFINE_OP("KernelTestListed", "i:x: T", "o:y: int32", "a:T: type");
  TF_KernelBuilder *builder = builder_of("KernelTestListed", &set_one);
  TF_KernelBuilder_TypeConstraint(builder, "T", TF_INT32, status);
  TF_KernelBuilder_HostMemory(builder, "x");
  TF_KernelBuilder_Priority(builder, 5);
  TF_KernelBuilder_Label(builder, "label");
  TF_RegisterKernelBuilder("listed", builder, status);
  CHECK_OK(status);
  TF_Buffer *list = TF_GetRegisteredKernelsForOp("KernelTestListed", status);
  CHECK_OK(status);
  PbView kernel;
  CHECK_INT(pb_count(pb_view(list), 1), 1);
  CHECK(pb_find(pb_view(list), 1, 0, &kernel));
  CHECK(pb_string_is(kernel, 1, 0, "KernelTestListed"));
  CHECK(pb_string_is(kernel, 2, 0, "CPU"));
  CHECK_INT(pb_count(kernel, 3), 1);
  CHECK(pb_string_is(kernel, 4, 0, "x"));
  CHECK(pb_string_is(kernel, 5, 0, "label"));
  CHECK_INT(pb_find_int(kernel, 6), 5);
  TF_DeleteBuffer(list);
}

/* Strings are in host memory, and what the kernel asks for. */
static void tell_memory(void *kernel, TF_OpKernelContext *ctx) {
  (void)kernel;
  TF_Status *s = TF_NewStatus();
  const bool inputs[4] = {false, true, false, true};
  for (int i = 0; i < 4; i++) EXPECT(TF_IsHostMemoryInput(ctx, i, s) == inputs[i]);
  EXPECT(!TF_IsHostMemoryOutput(ctx, 0, s));
  EXPECT(TF_GetCode(s) == TF_OK);
  TF_DeleteStatus(s);
  set_number(ctx, 1);
}

static void host_memory(void) {
  DEFINE_OP("KernelTestMemory", "i:a: float", "i:b: string", "i:c: int32", "i:d: float", "o:y: int32", "s:");
  TF_KernelBuilder *builder = builder_of("KernelTestMemory", &tell_memory);
  TF_KernelBuilder_HostMemory(builder, "d");
  TF_RegisterKernelBuilder("memory", builder, status);
  CHECK_OK(status);
  begin();
  TF_OperationDescription *desc = TF_NewOperation(graph, "KernelTestMemory", "y");
  TF_AddInput(desc, output(constant(graph, f32_scalar(1), "a"), 0));
  TF_AddInput(desc, output(constant(graph, string_scalar("b"), "b"), 0));
  TF_AddInput(desc, output(constant(graph, i32_scalar(1), "c"), 0));
  TF_AddInput(desc, output(constant(graph, f32_scalar(1), "d"), 0));
  problems = 0;
  CHECK_INT(number_of(finish(desc)), 1);
  CHECK_INT(problems, 0);
  end();
}

/* ---- mistakes ---- */

static void do_nothing(void *kernel, TF_OpKernelContext *ctx) { (void)kernel, (void)ctx; }

static void outputs_must_be_set(void) {
  DEFINE_OP("KernelTestMissing", "o:y: int32", "s:");
  register_kernel("KernelTestMissing", NULL, &do_nothing, NULL);
  begin();
  CHECK(try_run(output(node("KernelTestMissing", "y"), 0)) == NULL);
  CHECK_ERROR(status, TF_INTERNAL, "Missing 0-th output from {{node y}}");
  end();
}

static void no_such_kernel(void) {
  DEFINE_OP("KernelTestNone", "o:y: int32", "s:");
  begin();
  CHECK(try_run(output(node("KernelTestNone", "y"), 0)) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "No OpKernel was registered to support Op 'KernelTestNone'");
  end();
}

/* ---- kernels that end later ---- */

typedef struct {
  TF_OpKernelContext *ctx;
  TF_AsyncOpKernelDoneCallback *done;
} Later;

static void *end_later(void *argument) {
  Later *later = argument;
  TF_Status *s = TF_NewStatus();
  TF_Tensor *x = NULL;
  TF_GetInput(later->ctx, 0, &x, s);
  if (i32_at(x, 0) < 0) {
    TF_SetStatus(s, TF_OUT_OF_RANGE, "a negative number");
    TF_OpKernelContext_Failure(later->ctx, s);
  } else {
    TF_Tensor *out = i32_scalar(i32_at(x, 0) * 10);
    TF_SetOutput(later->ctx, 0, out, s);
    TF_DeleteTensor(out);
  }
  TF_DeleteTensor(x);
  TF_DeleteStatus(s);
  TF_RunAsyncOpKernelDoneCallback(later->done);
  free(later);
  return NULL;
}

static void compute_later(void *kernel, TF_OpKernelContext *ctx, TF_AsyncOpKernelDoneCallback *done) {
  (void)kernel;
  Later *later = calloc(1, sizeof *later);
  later->ctx = ctx;
  later->done = done;
  if (!is_tfcore()) {
    /* The callback of the reference does not outlive this function. */
    end_later(later);
    return;
  }
  pthread_t thread;
  pthread_create(&thread, NULL, &end_later, later);
  pthread_detach(thread);
}

static void asynchronous_kernels(void) {
  DEFINE_OP("KernelTestAsync", "i:x: int32", "o:y: int32");
  TF_RegisterKernelBuilder("async", TF_NewAsyncKernelBuilder("KernelTestAsync", "CPU", NULL, &compute_later, NULL), status);
  CHECK_OK(status);
  begin();
  TF_Operation *x = placeholder(graph, TF_INT32, "x");
  TF_Operation *y = unary(graph, "KernelTestAsync", output(x, 0), "y");
  TF_Operation *z = unary(graph, "KernelTestAsync", output(y, 0), "z");
  session = new_session(graph);
  for (int32_t i = 1; i < 4; i++) {
    TF_Tensor *result = fetch_with(session, output(x, 0), i32_scalar(i), output(z, 0));
    CHECK_INT(i32_at(result, 0), i * 100);
    TF_DeleteTensor(result);
  }
  CHECK(try_fetch_with(session, output(x, 0), i32_scalar(-1), output(z, 0)) == NULL);
  CHECK_ERROR(status, TF_OUT_OF_RANGE, "a negative number");
  end();
}

/* ---- variables ---- */

static void copy(TF_OpKernelContext *ctx, TF_Tensor *source, TF_Tensor *dest) {
  (void)ctx;
  memcpy(TF_TensorData(dest), TF_TensorData(source), TF_TensorByteSize(source));
  TF_DeleteTensor(source);
  TF_DeleteTensor(dest);
}

static void add_to(TF_OpKernelContext *ctx, TF_Tensor *tensor, TF_Tensor *value, int op) {
  (void)ctx;
  float sign = op == 0 ? 1 : -1;
  float *out = TF_TensorData(tensor);
  for (int i = 0; i < TF_TensorElementCount(tensor); i++) out[i] += sign * f32_at(value, i);
  TF_DeleteTensor(tensor);
  TF_DeleteTensor(value);
}

static void assign(void *kernel, TF_OpKernelContext *ctx) {
  (void)kernel;
  TF_Status *s = TF_NewStatus();
  OPTIONAL(TF_AssignVariable)(ctx, 0, 1, true, &copy, s);
  if (TF_GetCode(s) != TF_OK) TF_OpKernelContext_Failure(ctx, s);
  TF_DeleteStatus(s);
}

static void update(void *kernel, TF_OpKernelContext *ctx) {
  (void)kernel;
  TF_Status *s = TF_NewStatus();
  OPTIONAL(TF_AssignUpdateVariable)(ctx, 0, 1, 1, 0, &copy, &add_to, s);
  if (TF_GetCode(s) != TF_OK) TF_OpKernelContext_Failure(ctx, s);
  TF_DeleteStatus(s);
}

static TF_Operation *with_value(const char *type, TF_Operation *variable, TF_Tensor *value, const char *name) {
  char text[64];
  snprintf(text, sizeof text, "%s/value", name);
  TF_OperationDescription *desc = TF_NewOperation(graph, type, name);
  TF_AddInput(desc, output(variable, 0));
  TF_AddInput(desc, output(constant(graph, value, text), 0));
  return finish(desc);
}

static void variables(void) {
  if (!OPTIONAL(TF_AssignVariable)) return;
  DEFINE_OP("KernelTestAssign", "i:v: resource", "i:x: float", "s:");
  DEFINE_OP("KernelTestSubtract", "i:v: resource", "i:x: float", "s:");
  register_kernel("KernelTestAssign", NULL, &assign, NULL);
  register_kernel("KernelTestSubtract", NULL, &update, NULL);
  begin();
  TF_OperationDescription *desc = TF_NewOperation(graph, "VarHandleOp", "v");
  const int64_t dims[1] = {2};
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", dims, 1);
  TF_SetAttrString(desc, "shared_name", "kernels_test", 12);
  TF_Operation *v = finish(desc);
  desc = TF_NewOperation(graph, "ReadVariableOp", "read");
  TF_AddInput(desc, output(v, 0));
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_Operation *read = finish(desc);
  const float one[2] = {5, 7}, two[2] = {1, 2}, three[3] = {0, 0, 0}, difference[2] = {4, 5};
  TF_Operation *set = with_value("KernelTestAssign", v, f32_vector(2, one), "set");
  TF_Operation *subtract = with_value("KernelTestSubtract", v, f32_vector(2, two), "subtract");
  TF_Operation *wrong = with_value("KernelTestAssign", v, f32_vector(3, three), "wrong");
  session = new_session(graph);
  run_target(session, set);
  TF_Tensor *before = fetch(session, output(read, 0));
  CHECK(is_f32(before, 2, one));
  run_target(session, subtract);
  TF_Tensor *after = fetch(session, output(read, 0));
  CHECK(is_f32(after, 2, difference));
  CHECK(is_f32(before, 2, one));
  TF_DeleteTensor(before);
  TF_DeleteTensor(after);
  const TF_Operation *targets[1] = {wrong};
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, targets, 1, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Trying to assign to variable with tensor with wrong shape");
  end();
}

CASES(CASE(attrs), CASE(kernels_are_deleted), CASE(creation_may_fail), CASE(runs_may_fail), CASE(the_context),
      CASE(inputs_are_forwarded), CASE(types_choose), CASE(definitions_may_be_serialised), CASE(impossible_constraints), CASE(priorities_choose),
      CASE(labels_choose), CASE(the_same_kernel_twice), CASE(kernels_of_known_ops), CASE(kernels_are_listed), CASE(host_memory),
      CASE(outputs_must_be_set), CASE(no_such_kernel), CASE(asynchronous_kernels), CASE(variables))
