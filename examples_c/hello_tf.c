/* The smallest program: which version this is, how many operations it knows, which devices it sees. */
#include <stdio.h>
#include <stdlib.h>

#include "tensorflow/c/c_api.h"

/* Ends the program if the last call failed. */
static void require_ok(TF_Status *status, const char *what) {
  if (TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "%s: %s\n", what, TF_Message(status));
  exit(EXIT_FAILURE);
}

/* An OpList is a protocol buffer: a sequence of length-delimited OpDefs, each under field 1. */
static int count_ops(const TF_Buffer *op_list) {
  const unsigned char *p = op_list->data, *end = p + op_list->length;
  int count = 0;
  while (p < end && *p++ == (1 << 3 | 2)) {
    size_t length = 0;
    for (int shift = 0; p < end; shift += 7) {
      length |= (size_t)(*p & 0x7f) << shift;
      if ((*p++ & 0x80) == 0) break;
    }
    p += length;
    count++;
  }
  return count;
}

int main(void) {
  printf("TensorFlow C API %s\n", TF_Version());

  TF_Buffer *ops = TF_GetAllOpList();
  printf("%d operations\n", count_ops(ops));
  TF_DeleteBuffer(ops);

  /* Devices belong to a session, a session to a graph; an empty one will do. */
  TF_Status *status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_NewSession(graph, options, status);
  require_ok(status, "open session");
  TF_DeleteSessionOptions(options);

  TF_DeviceList *devices = TF_SessionListDevices(session, status);
  require_ok(status, "list devices");
  for (int i = 0; i < TF_DeviceListCount(devices); i++) {
    const char *name = TF_DeviceListName(devices, i, status);
    require_ok(status, "name of device");
    printf("device %s\n", name);
  }

  TF_DeleteDeviceList(devices);
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return EXIT_SUCCESS;
}
