#ifndef TENSORFLOW_C_EXPERIMENTAL_GRAPPLER_GRAPPLER_H_
#define TENSORFLOW_C_EXPERIMENTAL_GRAPPLER_GRAPPLER_H_

#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api.h"

// The interface of plug-ins that optimize graphs. This library calls none of them.
#define GO_MAJOR 0
#define GO_MINOR 0
#define GO_PATCH 1

// A switch of an optimizer.
typedef enum TF_TriState {
  TF_TriState_Default = 0,
  TF_TriState_Off,
  TF_TriState_On,
} TF_TriState;

// The switches of TensorFlow's own optimizers.
typedef struct TP_OptimizerConfigs {
  size_t struct_size;
  void *ext;
  TF_TriState disable_model_pruning;
  TF_TriState implementation_selector;
  TF_TriState function_optimization;
  TF_TriState common_subgraph_elimination;
  TF_TriState arithmetic_optimization;
  TF_TriState debug_stripper;
  TF_TriState constant_folding;
  TF_TriState shape_optimization;
  TF_TriState auto_mixed_precision;
  TF_TriState auto_mixed_precision_onednn_bfloat16;
  TF_TriState auto_mixed_precision_mkl;
  TF_TriState pin_to_host_optimization;
  TF_TriState layout_optimizer;
  TF_TriState remapping;
  TF_TriState loop_optimization;
  TF_TriState dependency_optimization;
  TF_TriState auto_parallel;
  TF_TriState memory_optimization;
  TF_TriState scoped_allocator_optimization;
} TP_OptimizerConfigs;
#define TP_OPTIMIZER_CONFIGS_STRUCT_SIZE TF_OFFSET_OF_END(TP_OptimizerConfigs, scoped_allocator_optimization)

typedef struct TF_GrapplerItem TF_GrapplerItem;

typedef struct TP_Optimizer {
  size_t struct_size;
  void *ext;
  void *(*create_func)(void);
  void (*optimize_func)(void *, const TF_Buffer *, const TF_GrapplerItem *, TF_Buffer *, TF_Status *);
  void (*destroy_func)(void *);
} TP_Optimizer;
#define TP_OPTIMIZER_STRUCT_SIZE TF_OFFSET_OF_END(TP_Optimizer, destroy_func)

typedef struct TP_OptimizerRegistrationParams {
  size_t struct_size;
  void *ext;
  int32_t major_version;
  int32_t minor_version;
  int32_t patch_version;
  const char *device_type;
  TP_OptimizerConfigs *optimizer_configs;
  TP_Optimizer *optimizer;
} TP_OptimizerRegistrationParams;
#define TP_OPTIMIZER_REGISTRATION_PARAMS_STRUCT_SIZE TF_OFFSET_OF_END(TP_OptimizerRegistrationParams, optimizer)

#ifdef __cplusplus
extern "C" {
#endif
// Defined by the plug-in.
void TF_InitGraph(TP_OptimizerRegistrationParams *params, TF_Status *status);
#ifdef __cplusplus
}
#endif

// The functions of a graph, with which ops are looked up.
typedef struct TF_FunctionLibraryDefinition TF_FunctionLibraryDefinition;

// Shapes and types of a graph. There is none.
typedef struct TF_GraphProperties TF_GraphProperties;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_GetNodesToPreserveListSize(const TF_GrapplerItem *item, int *num_values,
    size_t *storage_size, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_GetNodesToPreserveList(const TF_GrapplerItem *item, char **values,
    size_t *lengths, int num_values, void *storage, size_t storage_size, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_GetFetchNodesListSize(const TF_GrapplerItem *item, int *num_values,
    size_t *storage_size, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_GetFetchNodesList(const TF_GrapplerItem *item, char **values,
    size_t *lengths, int num_values, void *storage, size_t storage_size, TF_Status *status);

// Not available. Returns null.
TF_CAPI_EXPORT TF_GraphProperties *TF_NewGraphProperties(const TF_GrapplerItem *item);

// Deletes properties; null is allowed.
TF_CAPI_EXPORT void TF_DeleteGraphProperties(TF_GraphProperties *graph_properties);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_InferStatically(TF_GraphProperties *graph_properties,
    uint8_t assume_valid_feeds, uint8_t aggressive_shape_inference,
    uint8_t include_input_tensor_values, uint8_t include_output_tensor_values, TF_Status *s);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_GetInputPropertiesListSize(TF_GraphProperties *graph_properties,
    const char *name, int *num_values, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_GetOutputPropertiesListSize(TF_GraphProperties *graph_properties,
    const char *name, int *num_values, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_GetInputPropertiesList(TF_GraphProperties *graph_properties,
    const char *name, TF_Buffer **properties, int num_values, TF_Status *status);

// Not available. Reports `TF_UNIMPLEMENTED`.
TF_CAPI_EXPORT void TF_GetOutputPropertiesList(TF_GraphProperties *graph_properties,
    const char *name, TF_Buffer **properties, int num_values, TF_Status *status);

// Returns the functions of a serialised `GraphDef`, for the caller to delete; null on error.
TF_CAPI_EXPORT TF_FunctionLibraryDefinition *TF_NewFunctionLibraryDefinition(const TF_Buffer *graph_buf,
    TF_Status *status);

// Deletes functions; null is allowed.
TF_CAPI_EXPORT void TF_DeleteFunctionLibraryDefinition(TF_FunctionLibraryDefinition *fn_lib);

// Stores the serialised `OpDef` of a function, or of an op if there is no function of this name.
TF_CAPI_EXPORT void TF_LookUpOpDef(TF_FunctionLibraryDefinition *fn_lib, const char *name,
    TF_Buffer *buf, TF_Status *s);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_EXPERIMENTAL_GRAPPLER_GRAPPLER_H_ */
