/* Switches of XLA, lists of shapes and types, queues by number, ports; and what is not built in. */
#include "nodes.h"
#include "pb.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tensorflow/c/c_api_experimental.h"

static void switches_keep_their_values(void) {
  CHECK_INT(TF_SetXlaEnableLazyCompilation(0), 1);
  CHECK_INT(TF_SetXlaEnableLazyCompilation(1), 0);
  CHECK_INT(TF_SetTfXlaCpuGlobalJit(1), 0);
  CHECK_INT(TF_SetTfXlaCpuGlobalJit(0), 1);
  CHECK_INT(TF_GetXlaConstantFoldingDisabled(), 0);
  TF_SetXlaConstantFoldingDisabled(1);
  CHECK_INT(TF_GetXlaConstantFoldingDisabled(), 1);
  TF_SetXlaConstantFoldingDisabled(0);
  TF_SetXlaMinClusterSize(3);
}

static void auto_jit(void) {
  CHECK_INT(TF_GetXlaAutoJitEnabled(), 0);
  TF_SetXlaAutoJitMode("1");
  CHECK_INT(TF_GetXlaAutoJitEnabled(), 1);
  TF_SetXlaAutoJitMode("0");
  CHECK_INT(TF_GetXlaAutoJitEnabled(), 0);
  TF_SetXlaAutoJitMode("single-gpu(2)");
  CHECK_INT(TF_GetXlaAutoJitEnabled(), 1);
  TF_SetXlaAutoJitMode("single-gpu(0)");
  CHECK_INT(TF_GetXlaAutoJitEnabled(), 0);
}

/* A session whose options ask for XLA and then do not gives the same values. */
static void sessions_run_with_the_switch(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *x = constant(g, f32_scalar(2), "x");
  TF_Operation *y = binary(g, "Mul", output(x, 0), output(x, 0), "y");
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_EnableXLACompilation(options, 1);
  TF_EnableXLACompilation(options, 0);
  TF_Session *session = TF_NewSession(g, options, status);
  CHECK_OK(status);
  CHECK(fetch_f32(session, output(y, 0)) == 4);
  TF_DeleteSessionOptions(options);
  delete_session(session);
  TF_DeleteGraph(g);
}

static void lists_of_shapes(void) {
  TF_ShapeAndTypeList *list = TF_NewShapeAndTypeList(2);
  CHECK_INT(list->num_items, 2);
  const int64_t dims[3] = {2, -1, 4};
  TF_ShapeAndTypeListSetShape(list, 0, dims, 3);
  TF_ShapeAndTypeListSetDtype(list, 0, TF_INT32);
  TF_ShapeAndTypeListSetUnknownShape(list, 1);
  CHECK_INT(list->items[0].num_dims, 3);
  for (int i = 0; i < 3; i++) CHECK_INT(list->items[0].dims[i], dims[i]);
  CHECK_INT(list->items[0].dtype, TF_INT32);
  CHECK_INT(list->items[1].num_dims, -1);
  CHECK(list->items[1].dims == NULL);
  TF_ShapeAndTypeListSetShape(list, 0, dims, 1);
  CHECK_INT(list->items[0].num_dims, 1);
  CHECK_INT(list->items[0].dims[0], 2);
  TF_DeleteShapeAndTypeList(list);
  TF_DeleteShapeAndTypeList(TF_NewShapeAndTypeList(0));
  TF_DeleteShapeAndTypeListArray(NULL, 0);
}

static TF_Graph *graph_with_queue(void) {
  TF_Graph *g = TF_NewGraph();
  const TF_DataType dtype = TF_FLOAT;
  TF_OperationDescription *desc = TF_NewOperation(g, "FIFOQueueV2", "queue");
  TF_SetAttrTypeList(desc, "component_types", &dtype, 1);
  TF_Output queue = output(finish(desc), 0);
  TF_Output value = output(placeholder(g, TF_FLOAT, "arg_tensor_enqueue_7"), 0);
  desc = TF_NewOperation(g, "QueueEnqueueV2", "fifo_queue_enqueue_7");
  TF_AddInput(desc, queue);
  TF_AddInputList(desc, &value, 1);
  finish(desc);
  desc = TF_NewOperation(g, "QueueDequeueV2", "fifo_queue_dequeue_7");
  TF_AddInput(desc, queue);
  TF_SetAttrTypeList(desc, "component_types", &dtype, 1);
  finish(desc);
  return g;
}

static void queues_by_number(void) {
  TF_Graph *g = graph_with_queue();
  TF_Session *session = new_session(g);
  for (int i = 1; i <= 2; i++) {
    TF_Tensor *value = f32_scalar((float)i);
    TF_EnqueueNamedTensor(session, 7, value, status);
    CHECK_OK(status);
    TF_DeleteTensor(value);
  }
  for (int i = 1; i <= 2; i++) {
    TF_Tensor *value = TF_DequeueNamedTensor(session, 7, status);
    CHECK_OK(status);
    CHECK(f32_at(value, 0) == (float)i);
    TF_DeleteTensor(value);
  }
  delete_session(session);
  TF_DeleteGraph(g);
}

static void queues_that_are_missing(void) {
  TF_Graph *g = graph_with_queue();
  TF_Session *session = new_session(g);
  CHECK(TF_DequeueNamedTensor(session, 1, status) == NULL);
  CHECK_ERROR(status, TF_INTERNAL, "Unable to find the dequeue node in the TF graph.");
  TF_Tensor *value = f32_scalar(1);
  TF_EnqueueNamedTensor(session, 1, value, status);
  CHECK_ERROR(status, TF_INTERNAL, "Unable to find the enqueue node in the TF graph.");
  TF_DeleteTensor(value);
  delete_session(session);
  TF_DeleteGraph(g);
}

static void a_port_is_free(void) {
  int port = TF_PickUnusedPortOrDie();
  CHECK(port > 0 && port < 65536);
  int s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  CHECK(bind(s, (struct sockaddr *)&address, sizeof address) == 0);
  close(s);
}

/* The reference has these, each with more than a test can bring. */
static void not_built_in(void) {
  if (!is_tfcore()) return;
  CHECK(TF_NewServer(NULL, 0, status) == NULL);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "TF_NewServer is not implemented: servers");
  TF_ServerStart(NULL, status);
  CHECK_CODE(status, TF_UNIMPLEMENTED);
  TF_ServerStop(NULL, status);
  CHECK_CODE(status, TF_UNIMPLEMENTED);
  TF_ServerJoin(NULL, status);
  CHECK_CODE(status, TF_UNIMPLEMENTED);
  CHECK_STR(TF_ServerTarget(NULL), "");
  TF_DeleteServer(NULL);
  CHECK(TF_LoadPluggableDeviceLibrary("libm.so.6", status) == NULL);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "stream_executor");
  TF_DeletePluggableDeviceLibraryHandle(NULL);
}

static void no_such_device_library(void) {
  CHECK(TF_LoadPluggableDeviceLibrary("/no/such/library.so", status) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "/no/such/library.so");
}

static void initialisation(void) {
  int argc = 1;
  char name[] = "test";
  char *arguments[] = {name, NULL}, **argv = arguments;
  TF_InitMain("usage", &argc, &argv);
  CHECK_INT(argc, 1);
}

CASES(CASE(switches_keep_their_values), CASE(auto_jit), CASE(sessions_run_with_the_switch), CASE(lists_of_shapes),
      CASE(queues_by_number), CASE(queues_that_are_missing), CASE(a_port_is_free), CASE(not_built_in),
      CASE(no_such_device_library), CASE(initialisation))
