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
