/* Eager execution: ops one by one, on handles. */
#include "nodes.h"

#include <pthread.h>

#include "tensorflow/c/eager/c_api.h"
#include "tensorflow/c/eager/c_api_experimental.h"

static TFE_Context *new_context(void) {
  TFE_ContextOptions *options = TFE_NewContextOptions();
  TFE_Context *context = TFE_NewContext(options, status);
  TFE_DeleteContextOptions(options);
  CHECK_OK(status);
  return context;
}

/* A handle of `t`, which it takes over. */
static TFE_TensorHandle *handle_of(TF_Tensor *t) {
  TFE_TensorHandle *h = TFE_NewTensorHandle(t, status);
  CHECK_OK(status);
  TF_DeleteTensor(t);
  return h;
}

static TFE_TensorHandle *vector(int n, const float *values) { return handle_of(f32_vector(n, values)); }
static TFE_TensorHandle *scalar(float value) { return handle_of(f32_scalar(value)); }

static TFE_Op *new_op(TFE_Context *context, const char *name) {
  TFE_Op *op = TFE_NewOp(context, name, status);
  CHECK_OK(status);
  return op;
}

static void add_input(TFE_Op *op, TFE_TensorHandle *input) {
  TFE_OpAddInput(op, input, status);
  CHECK_OK(status);
}

/* The only output of `op`, which is deleted; NULL with the status if it fails. */
static TFE_TensorHandle *execute(TFE_Op *op) {
  TFE_TensorHandle *result = NULL;
  int count = 1;
  TFE_Execute(op, &result, &count, status);
  TFE_DeleteOp(op);
  return TF_GetCode(status) == TF_OK ? result : NULL;
}

static TFE_TensorHandle *binary_op(TFE_Context *context, const char *name, TFE_TensorHandle *x, TFE_TensorHandle *y) {
  TFE_Op *op = new_op(context, name);
  add_input(op, x);
  add_input(op, y);
  return execute(op);
}

/* Whether `h`, which is deleted, has these elements. */
static bool holds(TFE_TensorHandle *h, int n, const float *values) {
  TF_Tensor *t = TFE_TensorHandleResolve(h, status);
  CHECK_OK(status);
  const bool result = is_f32(t, n, values);
  TF_DeleteTensor(t);
  TFE_DeleteTensorHandle(h);
  return result;
}

static void ops_run(void) {
  TFE_Context *context = new_context();
  TFE_TensorHandle *x = vector(3, (float[]){1, 2, 3}), *y = vector(3, (float[]){10, 20, 30});
  for (int i = 0; i < 3; i++) {
    TFE_TensorHandle *sum = binary_op(context, "AddV2", x, y);
    CHECK_OK(status);
    CHECK_INT(TFE_TensorHandleDataType(sum), TF_FLOAT);
    CHECK_INT(TFE_TensorHandleNumDims(sum, status), 1);
    CHECK_INT(TFE_TensorHandleDim(sum, 0, status), 3);
    CHECK_INT(TFE_TensorHandleNumElements(sum, status), 3);
    CHECK_STR(TFE_TensorHandleDeviceName(sum, status), "/job:localhost/replica:0/task:0/device:CPU:0");
    CHECK_STR(TFE_TensorHandleBackingDeviceName(sum, status), "/job:localhost/replica:0/task:0/device:CPU:0");
    CHECK(holds(sum, 3, (float[]){11, 22, 33}));
  }
  CHECK(holds(x, 3, (float[]){1, 2, 3}));
  TFE_DeleteTensorHandle(y);
  TFE_DeleteContext(context);
}

static void lists_and_attrs(void) {
  TFE_Context *context = new_context();
  TFE_TensorHandle *inputs[] = {vector(2, (float[]){1, 2}), vector(1, (float[]){3})}, *axis = handle_of(i32_scalar(0));
  TFE_Op *op = new_op(context, "ConcatV2");
  TFE_OpAddInputList(op, inputs, 2, status);
  CHECK_OK(status);
  add_input(op, axis);
  CHECK_INT(TFE_OpGetInputLength(op, "values", status), 2);
  CHECK_INT(TFE_OpGetOutputLength(op, "output", status), 1);
  CHECK_INT(TFE_OpGetInputLength(op, "q", status), -1);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Input 'q' not found");
  CHECK_INT(TFE_OpGetFlatInputCount(op, status), 3);
  CHECK(TFE_OpGetFlatInput(op, 2, status) != NULL);
  unsigned char is_list = 9;
  CHECK_INT(TFE_OpGetAttrType(op, "T", &is_list, status), TF_ATTR_TYPE);
  CHECK_INT(is_list, 0);
  TFE_OpGetAttrType(op, "zz", &is_list, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Attribute 'zz' does not exist for this operation");
  CHECK_INT(TFE_OpNameGetAttrType(context, "Squeeze", "squeeze_dims", &is_list, status), TF_ATTR_INT);
  CHECK_INT(is_list, 1);
  CHECK_STR(TFE_OpGetName(op, status), "ConcatV2");
  CHECK(TFE_OpGetContext(op, status) == context);
  CHECK(holds(execute(op), 3, (float[]){1, 2, 3}));

  op = new_op(context, "Sum");
  add_input(op, inputs[0]);
  add_input(op, axis);
  TFE_OpSetAttrBool(op, "keep_dims", 1);
  TFE_TensorHandle *sum = execute(op);
  CHECK_OK(status);
  CHECK_INT(TFE_TensorHandleNumDims(sum, status), 1);
  CHECK(holds(sum, 1, (float[]){3}));

  /* Without inputs all is up to the attrs. */
  op = new_op(context, "Const");
  TF_Tensor *value = f32_vector(2, (float[]){5, 6});
  TFE_OpSetAttrTensor(op, "value", value, status);
  CHECK_OK(status);
  TF_DeleteTensor(value);
  TFE_OpSetAttrType(op, "dtype", TF_FLOAT);
  CHECK(holds(execute(op), 2, (float[]){5, 6}));

  /* A reset op is as new, and so is its device. */
  op = new_op(context, "Neg");
  add_input(op, inputs[0]);
  TFE_OpReset(op, "Square", NULL, status);
  CHECK_OK(status);
  add_input(op, inputs[1]);
  CHECK(holds(execute(op), 1, (float[]){9}));
  for (int i = 0; i < 2; i++) TFE_DeleteTensorHandle(inputs[i]);
  TFE_DeleteTensorHandle(axis);
  TFE_DeleteContext(context);
}

static void mistakes(void) {
  TFE_Context *context = new_context();
  TFE_TensorHandle *x = vector(3, (float[]){1, 2, 3}), *y = vector(2, (float[]){1, 2}), *i = handle_of(i32_scalar(1));
  CHECK(TFE_NewOp(context, "NoSuch", status) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "'NoSuch' is neither a type of a primitive operation nor a name of a function");
  binary_op(context, "AddV2", x, y);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Incompatible shapes: [3] vs. [2]");
  binary_op(context, "AddV2", x, i);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "cannot compute AddV2 as input #1(zero-based) was expected to be a float tensor but is a int32 tensor");
  binary_op(context, "Neg", x, x);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "NodeDef expected inputs 'float' do not match 2 inputs specified");
  TFE_Op *op = new_op(context, "AddV2");
  add_input(op, x);
  CHECK(execute(op) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "expected 2 inputs, got 1");
  op = new_op(context, "Placeholder");
  execute(op);
  CHECK_ERROR(status, TF_NOT_FOUND, "No attr named 'dtype' in NodeDef");
  op = new_op(context, "Neg");
  add_input(op, x);
  int count = 0;
  TFE_Execute(op, NULL, &count, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Expecting 1 outputs, but *num_retvals is 0");
  int64_t dims[300] = {0};
  TFE_OpSetAttrShape(op, "shape", dims, 300, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Value specified for `shape` has 300 dimensions which is over the limit of 254.");
  TFE_DeleteOp(op);
  CHECK_INT(TFE_TensorHandleNumDims(NULL, status), -1);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Invalid handle");
  CHECK(TFE_TensorHandleResolve(NULL, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Invalid handle");
  TFE_ContextOptions *options = TFE_NewContextOptions();
  TFE_ContextOptionsSetConfig(options, "\xff\xff", 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable ConfigProto");
  TFE_DeleteContextOptions(options);
  TFE_DeleteTensorHandle(x);
  TFE_DeleteTensorHandle(y);
  TFE_DeleteTensorHandle(i);
  TFE_DeleteContext(context);
}

static void devices(void) {
  TFE_Context *context = new_context();
  TF_DeviceList *list = TFE_ContextListDevices(context, status);
  CHECK_INT(TF_DeviceListCount(list), 1);
  CHECK_STR(TF_DeviceListName(list, 0, status), "/job:localhost/replica:0/task:0/device:CPU:0");
  TF_DeleteDeviceList(list);
  TFE_TensorHandle *x = scalar(2);
  TFE_Op *op = new_op(context, "Neg");
  TFE_OpSetDevice(op, "junk", status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Malformed device specification 'junk' in eager op");
  TFE_OpSetDevice(op, "/cpu:0", status);
  CHECK_OK(status);
  add_input(op, x);
  TFE_TensorHandle *result = NULL;
  int count = 1;
  TFE_Execute(op, &result, &count, status);
  CHECK_OK(status);
  CHECK_STR(TFE_OpGetDevice(op, status), "/job:localhost/replica:0/task:0/device:CPU:0");
  TFE_DeleteOp(op);
  TFE_DeleteTensorHandle(result);
  op = new_op(context, "Neg");
  TFE_OpSetDevice(op, "/device:CPU:5", status);
  CHECK_OK(status);
  add_input(op, x);
  CHECK(execute(op) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Could not satisfy device specification '/device:CPU:5'. enable_soft_placement=0.");
  TFE_ContextSetSoftDevicePlacement(context, 1, status);
  CHECK(TFE_TensorHandleCopyToDevice(x, context, "/gpu:0", status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "/gpu:0 unknown device.");
  TFE_TensorHandle *copy = TFE_TensorHandleCopyToDevice(x, context, "/job:localhost/replica:0/task:0/device:CPU:0", status);
  CHECK_OK(status);
  CHECK(holds(copy, 1, (float[]){2}));
  CHECK_INT(TFE_ContextGetDevicePlacementPolicy(context), TFE_DEVICE_PLACEMENT_SILENT);
  TFE_ContextSetThreadLocalDevicePlacementPolicy(context, TFE_DEVICE_PLACEMENT_EXPLICIT);
  CHECK_INT(TFE_ContextGetDevicePlacementPolicy(context), TFE_DEVICE_PLACEMENT_EXPLICIT);
  TFE_DeleteTensorHandle(x);
  TFE_DeleteContext(context);
}

static int freed;

static void count_free(void *data, size_t len, void *arg) {
  (void)data, (void)len, (void)arg;
  freed++;
}

static void handles_share_memory(void) {
  static _Alignas(64) float memory[16] = {1, 2, 3};
  freed = 0;
  const int64_t dim = 3;
  TF_Tensor *t = TF_NewTensor(TF_FLOAT, &dim, 1, memory, sizeof(float) * 3, count_free, NULL);
  TFE_TensorHandle *h = TFE_NewTensorHandle(t, status), *copy = TFE_TensorHandleCopySharingTensor(h, status);
  CHECK_OK(status);
  TF_DeleteTensor(t);
  TFE_DeleteTensorHandle(h);
  CHECK_INT(freed, 0);
  t = TFE_TensorHandleResolve(copy, status);
  CHECK(TF_TensorData(t) == memory);
  CHECK(TFE_TensorHandleDevicePointer(copy, status) == memory);
  CHECK_INT(TFE_TensorHandleDeviceMemorySize(copy, status), 12);
  TFE_DeleteTensorHandle(copy);
  CHECK_INT(freed, 0);
  TF_DeleteTensor(t);
  CHECK_INT(freed, 1);
  TFE_DeleteTensorHandle(NULL);
}

static void variables(void) {
  TFE_Context *context = new_context();
  TFE_Op *op = new_op(context, "VarHandleOp");
  TFE_OpSetAttrType(op, "dtype", TF_FLOAT);
  TFE_OpSetAttrShape(op, "shape", NULL, 0, status);
  CHECK_OK(status);
  TFE_OpSetAttrString(op, "shared_name", "v", 1);
  TFE_TensorHandle *variable = execute(op), *seven = scalar(7), *one = scalar(1);
  CHECK_OK(status);
  CHECK_INT(TFE_TensorHandleDataType(variable), TF_RESOURCE);
  const char *assign[] = {"AssignVariableOp", "AssignAddVariableOp"};
  for (int i = 0; i < 2; i++) {
    op = new_op(context, assign[i]);
    TFE_OpSetAttrType(op, "dtype", TF_FLOAT);
    add_input(op, variable);
    add_input(op, i == 0 ? seven : one);
    int none = 0;
    TFE_Execute(op, NULL, &none, status);
    CHECK_OK(status);
    TFE_DeleteOp(op);
  }
  op = new_op(context, "ReadVariableOp");
  TFE_OpSetAttrType(op, "dtype", TF_FLOAT);
  add_input(op, variable);
  CHECK(holds(execute(op), 1, (float[]){8}));
  TFE_DeleteTensorHandle(variable);
  TFE_DeleteTensorHandle(seven);
  TFE_DeleteTensorHandle(one);
  TFE_DeleteContext(context);
}

/* `name(x) = op(x)` */
static TF_Function *function_of(const char *name, const char *op) {
  TF_Graph *graph = TF_NewGraph();
  TF_Output x = output(placeholder(graph, TF_FLOAT, "x"), 0), y = output(unary(graph, op, x, "y"), 0);
  TF_Function *function = TF_GraphToFunction(graph, name, 0, -1, NULL, 1, &x, 1, &y, NULL, NULL, NULL, status);
  CHECK_OK(status);
  TF_DeleteGraph(graph);
  return function;
}

static void functions(void) {
  TFE_Context *context = new_context();
  TF_Function *negate = function_of("negate", "Neg"), *square = function_of("square", "Square");
  TFE_ContextAddFunction(context, negate, status);
  CHECK_OK(status);
  TF_Buffer *def = TF_NewBuffer();
  TF_FunctionToFunctionDef(square, def, status);
  TFE_ContextAddFunctionDef(context, def->data, def->length, status);
  CHECK_OK(status);
  TFE_ContextAddFunctionDef(context, "\xff", 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Invalid FunctionDef proto");
  CHECK_INT(TFE_ContextHasFunction(context, "negate"), 1);
  CHECK_INT(TFE_ContextHasFunction(context, "nothing"), 0);
  TFE_TensorHandle *x = scalar(3);
  TFE_Op *op = new_op(context, "negate");
  add_input(op, x);
  CHECK(holds(execute(op), 1, (float[]){-3}));
  bool truth = true;
  TFE_TensorHandle *which = handle_of(tensor_of(TF_BOOL, NULL, 0, &truth, 1));
  op = new_op(context, "StatelessIf");
  add_input(op, which);
  TFE_OpAddInputList(op, &x, 1, status);
  const TF_DataType types[] = {TF_FLOAT};
  TFE_OpSetAttrTypeList(op, "Tout", types, 1);
  TFE_OpSetAttrFunctionName(op, "then_branch", "square", 6);
  TFE_OpSetAttrFunctionName(op, "else_branch", "negate", 6);
  CHECK(holds(execute(op), 1, (float[]){9}));
  TF_Buffer *found = TF_NewBuffer();
  TFE_ContextGetFunctionDef(context, "square", found, status);
  CHECK_OK(status);
  CHECK(found->length > 0);
  TF_DeleteBuffer(found);
  found = TF_NewBuffer();
  TFE_ContextGetFunctionDef(context, "abc", found, status);
  CHECK_ERROR(status, TF_NOT_FOUND, "Unable to find FunctionDef with name: abc");
  TFE_ContextRemoveFunction(context, "abc", status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Tried to remove non-existent function 'abc'.");
  TFE_ContextRemoveFunction(context, "negate", status);
  CHECK_OK(status);
  CHECK_INT(TFE_ContextHasFunction(context, "negate"), 0);
  TF_DeleteBuffer(found);
  TF_DeleteBuffer(def);
  TF_DeleteFunction(negate);
  TF_DeleteFunction(square);
  TFE_DeleteTensorHandle(x);
  TFE_DeleteTensorHandle(which);
  TFE_DeleteContext(context);
}

static void asynchronous_executors(void) {
  TFE_Context *context = new_context();
  TFE_Executor *executor = TFE_NewExecutor(true, true, 0);
  CHECK(TFE_ExecutorIsAsync(executor));
  TFE_ContextSetExecutorForThread(context, executor);
  TFE_TensorHandle *sum = scalar(0), *one = scalar(1), *pair = vector(2, (float[]){1, 2});
  for (int i = 0; i < 1000; i++) {
    TFE_TensorHandle *next = binary_op(context, "AddV2", sum, one);
    CHECK_OK(status);
    TFE_DeleteTensorHandle(sum);
    sum = next;
  }
  CHECK(holds(sum, 1, (float[]){1000}));
  TFE_ExecutorWaitForAllPendingNodes(executor, status);
  CHECK_OK(status);
  /* The error reaches who asks for the result, and whoever waits. */
  TFE_TensorHandle *three = vector(3, (float[]){1, 2, 3}), *bad = binary_op(context, "AddV2", three, pair);
  if (bad != NULL) {
    CHECK(TFE_TensorHandleResolve(bad, status) == NULL);
    CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Incompatible shapes: [3] vs. [2]");
    TFE_DeleteTensorHandle(bad);
  }
  TFE_ExecutorWaitForAllPendingNodes(executor, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Incompatible shapes: [3] vs. [2]");
  TFE_ExecutorClearError(executor);
  TFE_ExecutorWaitForAllPendingNodes(executor, status);
  CHECK_OK(status);
  CHECK(holds(binary_op(context, "AddV2", one, one), 1, (float[]){2}));
  TFE_DeleteTensorHandle(one);
  TFE_DeleteTensorHandle(pair);
  TFE_DeleteTensorHandle(three);
  TFE_DeleteExecutor(executor);
  TFE_DeleteContext(context);
}

static void count_call(void *context) { ++*(int *)context; }

static void *cancel_soon(void *manager) {
  struct timespec pause = {0, 50000000};
  nanosleep(&pause, NULL);
  TFE_CancellationManagerStartCancel(manager);
  return NULL;
}

static void cancellation(void) {
  TFE_CancellationManager *manager = TFE_NewCancellationManager();
  int calls[2] = {0, 0};
  const TFE_CancelCallback first = {count_call, &calls[0]}, second = {count_call, &calls[1]};
  const TFE_CancellationToken tokens[2] = {TFE_CancellationManagerGetToken(manager), TFE_CancellationManagerGetToken(manager)};
  CHECK(tokens[0] != tokens[1]);
  CHECK(TFE_CancellationManagerRegisterCallback(manager, tokens[0], &first, "first"));
  CHECK(TFE_CancellationManagerRegisterCallback(manager, tokens[1], &second, "second"));
  CHECK(TFE_CancellationManagerTryDeregisterCallback(manager, tokens[1]));

  TFE_Context *context = new_context();
  TFE_Op *op = new_op(context, "FIFOQueueV2");
  const TF_DataType types[] = {TF_FLOAT};
  TFE_OpSetAttrTypeList(op, "component_types", types, 1);
  TFE_TensorHandle *queue = execute(op);
  CHECK_OK(status);
  op = new_op(context, "QueueDequeueV2");
  add_input(op, queue);
  TFE_OpSetAttrTypeList(op, "component_types", types, 1);
  TFE_OpSetCancellationManager(op, manager, status);
  CHECK_OK(status);
  pthread_t canceller;
  CHECK_INT(pthread_create(&canceller, NULL, cancel_soon, manager), 0);
  CHECK(execute(op) == NULL);
  CHECK_CODE(status, TF_CANCELLED);
  CHECK_INT(pthread_join(canceller, NULL), 0);
  CHECK(TFE_CancellationManagerIsCancelled(manager));
  CHECK_INT(calls[0], 1);
  CHECK_INT(calls[1], 0);
  CHECK(!TFE_CancellationManagerRegisterCallback(manager, tokens[1], &second, "second"));
  TFE_DeleteTensorHandle(queue);
  TFE_DeleteContext(context);
  TFE_DeleteCancellationManager(manager);
}

static void attrs_apart_from_their_op(void) {
  TFE_Context *context = new_context();
  TFE_TensorHandle *x = vector(2, (float[]){1, 2}), *axis = handle_of(i32_scalar(0));
  TFE_Op *from = new_op(context, "Sum"), *to = new_op(context, "Sum");
  TFE_OpSetAttrBool(from, "keep_dims", 1);
  const TFE_OpAttrs *attrs = TFE_OpGetAttrs(from);
  TFE_OpAddAttrs(to, attrs);
  TF_Buffer *buffer = TF_NewBuffer();
  TFE_OpAttrsSerialize(attrs, buffer, status);
  CHECK_OK(status);
  CHECK(buffer->length > 0);
  TF_DeleteBuffer(buffer);
  TFE_DeleteOp(from);
  add_input(to, x);
  add_input(to, axis);
  TFE_TensorHandle *sum = execute(to);
  CHECK_OK(status);
  CHECK_INT(TFE_TensorHandleNumDims(sum, status), 1);
  TFE_DeleteTensorHandle(sum);
  TFE_DeleteTensorHandle(x);
  TFE_DeleteTensorHandle(axis);
  TFE_DeleteContext(context);
}

static void monitoring(void) {
  TFE_MonitoringCounter1 *counter = TFE_MonitoringNewCounter1("/tests/eager/counter", status, "a counter", "label");
  CHECK_OK(status);
  TFE_MonitoringCounterCell *a = TFE_MonitoringGetCellCounter1(counter, "a"), *b = TFE_MonitoringGetCellCounter1(counter, "b");
  TFE_MonitoringCounterCellIncrementBy(a, 2);
  TFE_MonitoringCounterCellIncrementBy(TFE_MonitoringGetCellCounter1(counter, "a"), 3);
  CHECK_INT(TFE_MonitoringCounterCellValue(a), 5);
  CHECK_INT(TFE_MonitoringCounterCellValue(b), 0);
  TFE_MonitoringDeleteCounter1(counter);
  TFE_MonitoringStringGauge0 *gauge = TFE_MonitoringNewStringGauge0("/tests/eager/gauge", status, "a gauge");
  TFE_MonitoringStringGaugeCell *cell = TFE_MonitoringGetCellStringGauge0(gauge);
  TFE_MonitoringStringGaugeCellSet(cell, "text");
  TF_Buffer *buffer = TF_NewBuffer();
  TFE_MonitoringStringGaugeCellValue(cell, buffer);
  CHECK(buffer->length == 4 && memcmp(buffer->data, "text", 4) == 0);
  TF_DeleteBuffer(buffer);
  TFE_MonitoringDeleteStringGauge0(gauge);
}

typedef struct {
  TFE_Context *context;
  TF_Status *status;
  bool is_right;
} Worker;

static void *square_often(void *argument) {
  Worker *worker = argument;
  const float two = 2;
  TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof two);
  memcpy(TF_TensorData(t), &two, sizeof two);
  TFE_TensorHandle *x = TFE_NewTensorHandle(t, worker->status);
  worker->is_right = true;
  for (int i = 0; i < 1000 && worker->is_right; i++) {
    TFE_Op *op = TFE_NewOp(worker->context, "Square", worker->status);
    TFE_OpAddInput(op, x, worker->status);
    TFE_TensorHandle *y = NULL;
    int count = 1;
    TFE_Execute(op, &y, &count, worker->status);
    TFE_DeleteOp(op);
    TF_Tensor *result = TFE_TensorHandleResolve(y, worker->status);
    worker->is_right = result != NULL && f32_at(result, 0) == 4;
    TF_DeleteTensor(result);
    TFE_DeleteTensorHandle(y);
  }
  TF_DeleteTensor(t);
  TFE_DeleteTensorHandle(x);
  return NULL;
}

static void threads(void) {
  TFE_Context *context = new_context();
  pthread_t runners[4];
  Worker workers[4];
  for (int i = 0; i < 4; i++) {
    workers[i] = (Worker){context, TF_NewStatus(), false};
    CHECK_INT(pthread_create(&runners[i], NULL, square_often, &workers[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    CHECK_INT(pthread_join(runners[i], NULL), 0);
    CHECK(workers[i].is_right);
    TF_DeleteStatus(workers[i].status);
  }
  TFE_DeleteContext(context);
}

CASES(CASE(ops_run), CASE(lists_and_attrs), CASE(mistakes), CASE(devices), CASE(handles_share_memory), CASE(variables),
      CASE(functions), CASE(asynchronous_executors), CASE(cancellation), CASE(attrs_apart_from_their_op), CASE(monitoring),
      CASE(threads))
