/* The device list of a session. */
#include "nodes.h"
#include "pb.h"

static TF_DeviceList *list_devices(TF_Session *session) {
  TF_DeviceList *list = TF_SessionListDevices(session, status);
  CHECK_OK(status);
  CHECK(list != NULL);
  return list;
}

/* The index of the first device of the type CPU. */
static int find_cpu(const TF_DeviceList *list) {
  for (int i = 0; i < TF_DeviceListCount(list); i++) {
    const char *type = TF_DeviceListType(list, i, status);
    CHECK_OK(status);
    if (strcmp(type, "CPU") == 0) return i;
  }
  CHECK_FAIL("no CPU among %d devices", TF_DeviceListCount(list));
}

static void a_cpu(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Session *session = new_session(g);
  TF_DeviceList *list = list_devices(session);
  CHECK(TF_DeviceListCount(list) >= 1);
  int cpu = find_cpu(list);
  CHECK_STR(TF_DeviceListName(list, cpu, status), "/job:localhost/replica:0/task:0/device:CPU:0");
  CHECK_OK(status);
  CHECK_INT(TF_DeviceListMemoryBytes(list, cpu, status), 256 << 20);
  CHECK_OK(status);
  CHECK(TF_DeviceListIncarnation(list, cpu, status) != 0);
  CHECK_OK(status);
  TF_DeleteDeviceList(list);
  delete_session(session);
  TF_DeleteGraph(g);
}

static void incarnations_differ(void) {
  TF_Graph *g = TF_NewGraph();
  uint64_t incarnations[2];
  for (int i = 0; i < 2; i++) {
    TF_Session *session = new_session(g);
    TF_DeviceList *list = list_devices(session);
    incarnations[i] = TF_DeviceListIncarnation(list, find_cpu(list), status);
    TF_DeleteDeviceList(list);
    delete_session(session);
  }
  CHECK(incarnations[0] != incarnations[1]);
  TF_DeleteGraph(g);
}

static void index_out_of_range(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Session *session = new_session(g);
  TF_DeviceList *list = list_devices(session);
  const int indexes[] = {-1, TF_DeviceListCount(list)};
  for (int i = 0; i < 2; i++) {
    CHECK(TF_DeviceListName(list, indexes[i], status) == NULL);
    CHECK_ERROR(status, TF_INVALID_ARGUMENT, "index out of bounds");
    CHECK(TF_DeviceListType(list, indexes[i], status) == NULL);
    CHECK_ERROR(status, TF_INVALID_ARGUMENT, "index out of bounds");
    CHECK_INT(TF_DeviceListMemoryBytes(list, indexes[i], status), -1);
    CHECK_ERROR(status, TF_INVALID_ARGUMENT, "index out of bounds");
    CHECK_INT(TF_DeviceListIncarnation(list, indexes[i], status), 0);
    CHECK_ERROR(status, TF_INVALID_ARGUMENT, "index out of bounds");
  }
  TF_DeleteDeviceList(list);
  delete_session(session);
  TF_DeleteGraph(g);
}

static void list_outlives_the_session(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Session *session = new_session(g);
  TF_DeviceList *list = list_devices(session);
  delete_session(session);
  TF_DeleteGraph(g);
  CHECK_STR(TF_DeviceListName(list, find_cpu(list), status), "/job:localhost/replica:0/task:0/device:CPU:0");
  TF_DeleteDeviceList(list);
}

/* device_count {"CPU": 2} in the ConfigProto. */
static void two_cpus(void) {
  Pb entry = {0}, config = {0};
  pb_string(&entry, 1, "CPU");
  pb_int(&entry, 2, 2);
  pb_message(&config, 1, entry);
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetConfig(options, config.data, config.length, status);
  CHECK_OK(status);
  free(config.data);
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "Const", "c");
  TF_Tensor *value = f32_scalar(6);
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrTensor(desc, "value", value, status);
  TF_SetDevice(desc, "/device:CPU:1");
  TF_DeleteTensor(value);
  TF_Operation *c = finish(desc);
  TF_Operation *neg = unary(g, "Neg", output(c, 0), "neg");
  TF_Session *session = TF_NewSession(g, options, status);
  CHECK_OK(status);
  TF_DeleteSessionOptions(options);
  TF_DeviceList *list = list_devices(session);
  int cpus = 0;
  for (int i = 0; i < TF_DeviceListCount(list); i++) {
    char name[64];
    snprintf(name, sizeof name, "/job:localhost/replica:0/task:0/device:CPU:%d", cpus);
    cpus += strcmp(TF_DeviceListName(list, i, status), name) == 0;
  }
  CHECK_INT(cpus, 2);
  TF_DeleteDeviceList(list);
  CHECK(fetch_f32(session, output(neg, 0)) == -6);
  delete_session(session);
  TF_DeleteGraph(g);
}

static void an_absent_device(void) {
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", "n");
  TF_SetDevice(desc, "/device:CPU:1");
  const TF_Operation *n = finish(desc);
  TF_Session *session = new_session(g);
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, &n, 1, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "Cannot assign a device for operation n: {{node n}} was explicitly assigned to /device:CPU:1 but available devices are [ /job:localhost/replica:0/task:0/device:CPU:0");
  CHECK_MESSAGE(status, "Make sure the device specification refers to a valid device.");
  delete_session(session);
  TF_DeleteGraph(g);
}

CASES(CASE(a_cpu), CASE(incarnations_differ), CASE(index_out_of_range), CASE(list_outlives_the_session),
      CASE(two_cpus), CASE(an_absent_device))
