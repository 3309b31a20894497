/* Functions that only say that they are not built in. TensorFlow has them, not all of them in its wheel: they are looked up. */
#include "nodes.h"

#include "tensorflow/c/experimental/grappler/grappler.h"
#include "tensorflow/c/experimental/next_pluggable_device/c_api.h"
#include "tensorflow/c/kernels_experimental.h"

/* Calls a function of this library and checks the code. */
#define REFUSES(name, ...)                                       \
  do {                                                           \
    __typeof__(&name) function = dlsym(RTLD_DEFAULT, #name);     \
    CHECK(function != NULL);                                     \
    TF_SetStatus(status, TF_OK, "");                             \
    function(__VA_ARGS__);                                       \
    CHECK_ERROR(status, TF_UNIMPLEMENTED, #name " is not implemented: "); \
  } while (0)

static void optimizers(void) {
  if (!is_tfcore()) return;
  int count = 0;
  size_t size = 0;
  REFUSES(TF_GetNodesToPreserveListSize, NULL, &count, &size, status);
  REFUSES(TF_GetNodesToPreserveList, NULL, NULL, NULL, 0, NULL, 0, status);
  REFUSES(TF_GetFetchNodesListSize, NULL, &count, &size, status);
  REFUSES(TF_GetFetchNodesList, NULL, NULL, NULL, 0, NULL, 0, status);
  REFUSES(TF_InferStatically, NULL, 0, 0, 0, 0, status);
  REFUSES(TF_GetInputPropertiesListSize, NULL, "x", &count, status);
  REFUSES(TF_GetOutputPropertiesListSize, NULL, "x", &count, status);
  REFUSES(TF_GetInputPropertiesList, NULL, "x", NULL, 0, status);
  REFUSES(TF_GetOutputPropertiesList, NULL, "x", NULL, 0, status);
}

static void devices(void) {
  if (!is_tfcore()) return;
  REFUSES(TF_CreatePluginResource, NULL, "c", "r", NULL, NULL, status);
  REFUSES(TF_LookupOrCreatePluginResource, NULL, "c", "r", NULL, NULL, NULL, NULL, status);
  REFUSES(TF_CreateVariableInfoFromContext, NULL, 0, status);
  REFUSES(TF_LockVariableInfos, NULL, 0, status);
  REFUSES(TF_AllocateTempForVariableInfo, NULL, NULL, status);
  REFUSES(TF_GetTensorFromVariableInfo, NULL, status);
  REFUSES(TF_CreateAndSetPjRtCApiClient, "CPU", status, NULL, 0);
  REFUSES(TF_ResetPjRtCClient, "CPU", status);
  REFUSES(TF_GetPjRtCClient, "CPU", status);
  REFUSES(TF_GetPjRtCBuffer, NULL, status);
  REFUSES(TF_CreatePjRtBuffer, NULL, NULL, "CPU", status);
}

static void coordination(void) {
  if (!is_tfcore()) return;
  REFUSES(TF_CoordinationServiceInsertKeyValue, "k", 1, "v", 1, NULL, status);
  REFUSES(TF_CoordinationServiceGetKeyValue, "k", 1, NULL, status);
  REFUSES(TF_CoordinationServiceGetKeyValueWithTimeout, "k", 1, 1, NULL, status);
  REFUSES(TF_CoordinationServiceTryGetKeyValue, "k", 1, NULL, status);
  REFUSES(TF_CoordinationServiceDeleteKeyValue, "k", 1, NULL, status);
}

static void kernels(void) {
  if (!is_tfcore()) return;
  REFUSES(TF_TemporaryVariable, NULL, TF_FLOAT, NULL, 0, NULL, NULL, status);
  REFUSES(TF_DestroyTemporaryVariable, NULL, 0, NULL, status);
  REFUSES(TF_AddNVariant, NULL, NULL, status);
  REFUSES(TF_ZerosLikeVariant, NULL, NULL, status);
  REFUSES(TF_GetSerializedConfigProto, NULL, NULL, status);
  REFUSES(TF_GetSerializedFunctionDefLibrary, NULL, NULL, status);
}

CASES(CASE(optimizers), CASE(devices), CASE(coordination), CASE(kernels))
