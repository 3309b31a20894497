#ifndef TENSORFLOW_C_EAGER_C_API_EXPERIMENTAL_H_
#define TENSORFLOW_C_EAGER_C_API_EXPERIMENTAL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/eager/c_api.h"



// Cancels the ops that it is set on.
typedef struct TFE_CancellationManager TFE_CancellationManager;

// Runs ops at once, or later, in order, on a thread of its own.
typedef struct TFE_Executor TFE_Executor;

// A gauge of a truth value with no label.
typedef struct TFE_MonitoringBoolGauge0 TFE_MonitoringBoolGauge0;

// A gauge of a truth value with one label.
typedef struct TFE_MonitoringBoolGauge1 TFE_MonitoringBoolGauge1;

// A gauge of a truth value with two labels.
typedef struct TFE_MonitoringBoolGauge2 TFE_MonitoringBoolGauge2;

// A truth value.
typedef struct TFE_MonitoringBoolGaugeCell TFE_MonitoringBoolGaugeCell;

// A counter with no label.
typedef struct TFE_MonitoringCounter0 TFE_MonitoringCounter0;

// A counter with one label.
typedef struct TFE_MonitoringCounter1 TFE_MonitoringCounter1;

// A counter with two labels.
typedef struct TFE_MonitoringCounter2 TFE_MonitoringCounter2;

// A number that grows.
typedef struct TFE_MonitoringCounterCell TFE_MonitoringCounterCell;

// A gauge of a number with no label.
typedef struct TFE_MonitoringIntGauge0 TFE_MonitoringIntGauge0;

// A gauge of a number with one label.
typedef struct TFE_MonitoringIntGauge1 TFE_MonitoringIntGauge1;

// A gauge of a number with two labels.
typedef struct TFE_MonitoringIntGauge2 TFE_MonitoringIntGauge2;

// A number.
typedef struct TFE_MonitoringIntGaugeCell TFE_MonitoringIntGaugeCell;

// A gauge of a text with no label.
typedef struct TFE_MonitoringStringGauge0 TFE_MonitoringStringGauge0;

// A gauge of a text with one label.
typedef struct TFE_MonitoringStringGauge1 TFE_MonitoringStringGauge1;

// A gauge of a text with two labels.
typedef struct TFE_MonitoringStringGauge2 TFE_MonitoringStringGauge2;

// A gauge of a text with three labels.
typedef struct TFE_MonitoringStringGauge3 TFE_MonitoringStringGauge3;

// A gauge of a text with four labels.
typedef struct TFE_MonitoringStringGauge4 TFE_MonitoringStringGauge4;

// A text.
typedef struct TFE_MonitoringStringGaugeCell TFE_MonitoringStringGaugeCell;

// The attrs of an op. They belong to the op that they come from.
typedef struct TFE_OpAttrs TFE_OpAttrs;

// Names a callback of a manager.
typedef int64_t TFE_CancellationToken;

// What a cancellation calls.
typedef struct TFE_CancelCallback {
  void (*callback)(void *context);
  void *context;
} TFE_CancelCallback;

// What a device of the program does. No function of it is called.
typedef struct TFE_CustomDevice {
  int version;
  TFE_TensorHandle *(*copy_tensor_to_device)(TFE_Context *context, TFE_TensorHandle *tensor, TF_Status *status, void *device_info);
  TFE_TensorHandle *(*copy_tensor_from_device)(TFE_Context *context, TFE_TensorHandle *tensor, const char *target_device_name, TF_Status *status, void *device_info);
  void (*execute)(const TFE_Op *op, int *num_outputs, TFE_TensorHandle **outputs, TF_Status *s, void *device_info);
  void (*delete_device)(void *device_info);
  TFE_TensorHandle *(*pack)(TFE_Context *context, TFE_TensorHandle **handles, int num_handles, TF_Status *s, void *device_info);
  bool (*shall_pin_to_this_device)(const TFE_Op *op, TF_Status *s);
} TFE_CustomDevice;

// What a tensor of a device of the program is. No function of it is called.
typedef struct TFE_CustomDeviceTensorHandle {
  int version;
  int (*num_dims)(void *data, TF_Status *status);
  int64_t (*dim)(void *data, int dim_index, TF_Status *status);
  void (*deallocator)(void *data);
  TF_Buffer *(*summarize)(void *data, TF_Status *status);
} TFE_CustomDeviceTensorHandle;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Stores a function as a serialised `FunctionDef`.
TF_CAPI_EXPORT void TFE_ContextGetFunctionDef(TFE_Context *ctx, const char *function_name,
    TF_Buffer *buf, TF_Status *status);

// Returns a function, for the caller to delete; null on error.
TF_CAPI_EXPORT TF_Function *TFE_ContextGetFunction(TFE_Context *ctx, const char *name,
    TF_Status *status);

// Has the graphs of functions recorded for `TFE_ContextExportRunMetadata`. Nothing is recorded yet.
TF_CAPI_EXPORT void TFE_ContextEnableGraphCollection(TFE_Context *_ctx);

// Ends what `TFE_ContextEnableGraphCollection` began.
TF_CAPI_EXPORT void TFE_ContextDisableGraphCollection(TFE_Context *_ctx);

// Stores the names of the ops that ran within functions, where they are recorded: nothing.
TF_CAPI_EXPORT void TFE_GetExecutedOpNames(TFE_Context *ctx, TF_Buffer *buf, TF_Status *status);

// Returns a number that no other context of the process has.
TF_CAPI_EXPORT uint64_t TFE_GetContextId(TFE_Context *ctx);

// Chooses another runtime, which is not built in: nothing changes.
TF_CAPI_EXPORT void TFE_ContextOptionsSetTfrt(TFE_ContextOptions *_options, bool _use_tfrt);

// Makes the op a new one of this name, without inputs and attrs. `raw_device_name` may be null.
TF_CAPI_EXPORT void TFE_OpReset(TFE_Op *op_to_reset, const char *op_or_function_name,
    const char *raw_device_name, TF_Status *status);

// Has the op end when the manager cancels; the manager may be deleted before.
TF_CAPI_EXPORT void TFE_OpSetCancellationManager(TFE_Op *op,
    struct TFE_CancellationManager *cancellation_manager, TF_Status *status);

// Returns a manager, for the caller to delete.
TF_CAPI_EXPORT struct TFE_CancellationManager *TFE_NewCancellationManager(void);

// Returns whether the ops have been cancelled.
TF_CAPI_EXPORT bool TFE_CancellationManagerIsCancelled(struct TFE_CancellationManager *cancellation_manager);

// As `TFE_CancellationManagerIsCancelled`: a cancellation takes no time.
TF_CAPI_EXPORT bool TFE_CancellationManagerIsCancelling(struct TFE_CancellationManager *cancellation_manager);

// Cancels the ops, and calls each callback once, on this thread.
TF_CAPI_EXPORT void TFE_CancellationManagerStartCancel(struct TFE_CancellationManager *cancellation_manager);

// Returns a token for a callback.
TF_CAPI_EXPORT TFE_CancellationToken TFE_CancellationManagerGetToken(struct TFE_CancellationManager *cancellation_manager);

// Has a callback called upon cancellation. Returns false, and never calls it, if that has happened already. `callback_name` is not
// looked at.
TF_CAPI_EXPORT bool TFE_CancellationManagerRegisterCallback(struct TFE_CancellationManager *cancellation_manager,
    TFE_CancellationToken token, const struct TFE_CancelCallback *c_callback,
    const char *_callback_name);

// Takes a callback back. Returns whether it was there and had not been called.
TF_CAPI_EXPORT bool TFE_CancellationManagerDeregisterCallback(struct TFE_CancellationManager *cancellation_manager,
    TFE_CancellationToken token);

// As `TFE_CancellationManagerDeregisterCallback`, which does not wait either.
TF_CAPI_EXPORT bool TFE_CancellationManagerTryDeregisterCallback(struct TFE_CancellationManager *cancellation_manager,
    TFE_CancellationToken token);

// Deletes a manager; null is allowed. Callbacks that are left are not called any more.
TF_CAPI_EXPORT void TFE_DeleteCancellationManager(struct TFE_CancellationManager *cancellation_manager);

// Returns an executor, for the caller to delete. An asynchronous one lets at most `in_flight_nodes_limit` ops wait, any number if that
// is 0. Ops are handed on one by one in any case.
TF_CAPI_EXPORT struct TFE_Executor *TFE_NewExecutor(bool is_async, bool _enable_streaming_enqueue,
    int in_flight_nodes_limit);

// Deletes an executor; null is allowed. Threads that it is set for keep using it.
TF_CAPI_EXPORT void TFE_DeleteExecutor(struct TFE_Executor *executor);

// Returns whether ops run later.
TF_CAPI_EXPORT bool TFE_ExecutorIsAsync(struct TFE_Executor *executor);

// Waits until all ops have run; the first error since the last one was cleared goes to `status`.
TF_CAPI_EXPORT void TFE_ExecutorWaitForAllPendingNodes(struct TFE_Executor *executor,
    TF_Status *status);

// Forgets the error, so that ops run again.
TF_CAPI_EXPORT void TFE_ExecutorClearError(struct TFE_Executor *executor);

// Has the ops of this thread run by an executor.
TF_CAPI_EXPORT void TFE_ContextSetExecutorForThread(TFE_Context *ctx,
    struct TFE_Executor *executor);

// Returns the executor of this thread, for the caller to delete.
TF_CAPI_EXPORT struct TFE_Executor *TFE_ContextGetExecutorForThread(TFE_Context *ctx);

// Waits until all ops of all threads have run; the first error goes to `status`.
TF_CAPI_EXPORT void TFE_ContextAsyncWait(TFE_Context *ctx, TF_Status *status);

// Returns the attrs that are set on an op. They live until the next call for the op, or until it is deleted.
TF_CAPI_EXPORT const struct TFE_OpAttrs *TFE_OpGetAttrs(TFE_Op *op);

// Sets all attrs of `attrs` on an op.
TF_CAPI_EXPORT void TFE_OpAddAttrs(TFE_Op *op, const struct TFE_OpAttrs *attrs);

// Stores the attrs, with the name of the op, as a serialised `NameAttrList`.
TF_CAPI_EXPORT void TFE_OpAttrsSerialize(const struct TFE_OpAttrs *attrs, TF_Buffer *buf,
    TF_Status *status);

// Sets an attr to a serialised `AttrValue`.
TF_CAPI_EXPORT void TFE_OpSetAttrValueProto(TFE_Op *op, const char *attr_name, const void *proto,
    size_t proto_len, TF_Status *status);

// Has ops that request a device that there is not run on another one.
TF_CAPI_EXPORT void TFE_ContextSetSoftDevicePlacement(TFE_Context *ctx, unsigned char enable,
    TF_Status *status);

// Has the device of each op logged. Nothing is logged yet.
TF_CAPI_EXPORT void TFE_ContextSetLogDevicePlacement(TFE_Context *ctx, unsigned char _enable,
    TF_Status *status);

// Has ops run as functions of one op, which makes no difference.
TF_CAPI_EXPORT void TFE_ContextSetRunEagerOpAsFunction(TFE_Context *ctx, unsigned char _enable,
    TF_Status *status);

// Has functions compiled by XLA, which is not built in: nothing changes.
TF_CAPI_EXPORT void TFE_ContextSetJitCompileRewrite(TFE_Context *ctx, unsigned char _enable,
    TF_Status *status);

// Returns the type of the device of a tensor, such as "CPU"; null on error. It lives as long as the process.
TF_CAPI_EXPORT const char *TFE_TensorHandleDeviceType(TFE_TensorHandle *h, TF_Status *status);

// Returns the number of the device of a tensor among those of its type; -1 on error.
TF_CAPI_EXPORT int TFE_TensorHandleDeviceID(TFE_TensorHandle *h, TF_Status *status);

// Stores the error of the op that was to make the tensor, if it is known already.
TF_CAPI_EXPORT void TFE_TensorHandleGetStatus(TFE_TensorHandle *h, TF_Status *status);

// Returns the address of a tensor in the memory of its device; waits for it. Null on error. It must not be written.
TF_CAPI_EXPORT void *TFE_TensorHandleDevicePointer(TFE_TensorHandle *h, TF_Status *status);

// Returns the size in bytes of a tensor in the memory of its device; waits for it. 0 on error.
TF_CAPI_EXPORT size_t TFE_TensorHandleDeviceMemorySize(TFE_TensorHandle *h, TF_Status *status);

// Returns a handle over memory of a device, for the caller to delete; null on error. As with `TF_NewTensor`, `deallocator` is called
// exactly once.
TF_CAPI_EXPORT TFE_TensorHandle *TFE_NewTensorHandleFromDeviceMemory(TFE_Context *ctx,
    const char *device_name, TF_DataType dtype, const int64_t *dims, int num_dims, void *data,
    size_t len, void (*deallocator)(void *data, size_t len, void *arg), void *deallocator_arg,
    TF_Status *status);

// Stores the name of the part of the device names that hosts the context.
TF_CAPI_EXPORT void TFE_HostAddressSpace(TFE_Context *ctx, TF_Buffer *buf);

// Returns a tensor in the memory of the host, for the caller to delete; null on error.
TF_CAPI_EXPORT TF_Tensor *TFE_AllocateHostTensor(TFE_Context *ctx, TF_DataType dtype,
    const int64_t *dims, int num_dims, TF_Status *status);

// As `TFE_NewTensorHandle`.
TF_CAPI_EXPORT TFE_TensorHandle *TFE_NewTensorHandleFromTensor(TFE_Context *_ctx, TF_Tensor *t,
    TF_Status *status);

// Makes one handle of the tensors of several devices. Not implemented.
TF_CAPI_EXPORT TFE_TensorHandle *TFE_CreatePackedTensorHandle(TFE_Context *_ctx,
    TFE_TensorHandle **_handles, int *_num_handles, TF_Status *status);

// Changes the cluster of the context. Not implemented.
TF_CAPI_EXPORT void TFE_ContextUpdateServerDef(TFE_Context *_ctx, int _keep_alive_secs,
    const void *_proto, size_t _proto_len, TF_Status *status);

// Changes the cluster of the context. Not implemented.
TF_CAPI_EXPORT void TFE_ContextUpdateServerDefWithTimeout(TFE_Context *_ctx, int _keep_alive_secs,
    const void *_proto, size_t _proto_len, int64_t _init_timeout_in_ms, TF_Status *status);

// Makes the context one of a cluster. Not implemented.
TF_CAPI_EXPORT void TFE_ContextSetServerDefWithTimeout(TFE_Context *_ctx, int _keep_alive_secs,
    const void *_proto, size_t _proto_len, int64_t _init_timeout_in_ms, TF_Status *status,
    bool _clear_existing_contexts);

// Makes the context one of a cluster. Not implemented.
TF_CAPI_EXPORT void TFE_ContextSetServerDefWithTimeoutAndRetries(TFE_Context *_ctx,
    int _keep_alive_secs, const void *_proto, size_t _proto_len, int64_t _init_timeout_in_ms,
    int _retries, TF_Status *status, bool _clear_existing_contexts);

// Returns whether a worker of the cluster answers. Not implemented.
TF_CAPI_EXPORT bool TFE_ContextCheckAlive(TFE_Context *_ctx, const char *_worker_name,
    TF_Status *status);

// Makes the context one of a cluster of one task. Not implemented.
TF_CAPI_EXPORT void TFE_InitializeLocalOnlyContext(TFE_Context *_ctx, int _keep_alive_secs,
    const void *_proto, size_t _proto_len, TF_Status *status);

// Stores a value in the coordination service. Not implemented.
TF_CAPI_EXPORT void TFE_InsertConfigKeyValue(TFE_Context *_ctx, const char *_key,
    const char *_value, TF_Status *status);

// Reads a value of the coordination service. Not implemented.
TF_CAPI_EXPORT void TFE_GetConfigKeyValue(TFE_Context *_ctx, const char *_key,
    int64_t _timeout_in_ms, TF_Buffer *_value_buf, TF_Status *status);

// Deletes a value of the coordination service. Not implemented.
TF_CAPI_EXPORT void TFE_DeleteConfigKeyValue(TFE_Context *_ctx, const char *_key,
    TF_Status *status);

// Tells the coordination service of an error. Not implemented.
TF_CAPI_EXPORT void TFE_ReportErrorToCluster(TFE_Context *_ctx, int _error_code,
    const char *_error_message, TF_Status *status);

// Waits for the other tasks of the cluster. Not implemented.
TF_CAPI_EXPORT void TFE_WaitAtBarrier(TFE_Context *_ctx, const char *_barrier_id,
    int64_t _barrier_timeout_in_ms, TF_Status *status);

// Adds a device that the program implements. Not implemented.
TF_CAPI_EXPORT void TFE_RegisterCustomDevice(TFE_Context *_ctx, struct TFE_CustomDevice _device,
    const char *_device_name, void *_device_info, TF_Status *status);

// Returns whether the program implements a device, which it never does.
TF_CAPI_EXPORT bool TFE_IsCustomDevice(TFE_Context *_ctx, const char *_device_name);

// Returns a handle of a tensor on a device of the program. Not implemented.
TF_CAPI_EXPORT TFE_TensorHandle *TFE_NewCustomDeviceTensorHandle(TFE_Context *_ctx,
    const char *_device_name, TF_DataType _dtype, void *_data,
    struct TFE_CustomDeviceTensorHandle _methods, TF_Status *status);

// Gives the context several CPU devices. Not implemented: ask for them in the configuration, by `device_count`.
TF_CAPI_EXPORT void TFE_SetLogicalCpuDevices(TFE_Context *_ctx, int _num_cpus, const char *_prefix,
    TF_Status *status);

// Adds to a counter.
TF_CAPI_EXPORT void TFE_MonitoringCounterCellIncrementBy(struct TFE_MonitoringCounterCell *cell,
    int64_t value);

// Returns the number of a counter.
TF_CAPI_EXPORT int64_t TFE_MonitoringCounterCellValue(struct TFE_MonitoringCounterCell *cell);

// Sets a gauge.
TF_CAPI_EXPORT void TFE_MonitoringIntGaugeCellSet(struct TFE_MonitoringIntGaugeCell *cell,
    int64_t value);

// Returns the number of a gauge.
TF_CAPI_EXPORT int64_t TFE_MonitoringIntGaugeCellValue(struct TFE_MonitoringIntGaugeCell *cell);

// Sets a gauge to a copy of a text.
TF_CAPI_EXPORT void TFE_MonitoringStringGaugeCellSet(struct TFE_MonitoringStringGaugeCell *cell,
    const char *value);

// Stores the text of a gauge.
TF_CAPI_EXPORT void TFE_MonitoringStringGaugeCellValue(struct TFE_MonitoringStringGaugeCell *cell,
    TF_Buffer *buf);

// Sets a gauge.
TF_CAPI_EXPORT void TFE_MonitoringBoolGaugeCellSet(struct TFE_MonitoringBoolGaugeCell *cell,
    bool value);

// Returns the truth value of a gauge.
TF_CAPI_EXPORT bool TFE_MonitoringBoolGaugeCellValue(struct TFE_MonitoringBoolGaugeCell *cell);

// Returns a counter, for the caller to delete. Names need not be unique.
TF_CAPI_EXPORT struct TFE_MonitoringCounter0 *TFE_MonitoringNewCounter0(const char *_name,
    TF_Status *status, const char *_description);

// Deletes a counter with its cells; null is allowed.
TF_CAPI_EXPORT void TFE_MonitoringDeleteCounter0(struct TFE_MonitoringCounter0 *counter);

// Returns the only cell, which is the counter's.
TF_CAPI_EXPORT struct TFE_MonitoringCounterCell *TFE_MonitoringGetCellCounter0(struct TFE_MonitoringCounter0 *counter);

// Returns a counter, for the caller to delete. Names need not be unique.
TF_CAPI_EXPORT struct TFE_MonitoringCounter1 *TFE_MonitoringNewCounter1(const char *_name,
    TF_Status *status, const char *_description, const char *_label1);

// Deletes a counter with its cells; null is allowed.
TF_CAPI_EXPORT void TFE_MonitoringDeleteCounter1(struct TFE_MonitoringCounter1 *counter);

// Returns the cell of these labels, which is the counter's.
TF_CAPI_EXPORT struct TFE_MonitoringCounterCell *TFE_MonitoringGetCellCounter1(struct TFE_MonitoringCounter1 *counter,
    const char *label1);

// Returns a counter, for the caller to delete. Names need not be unique.
TF_CAPI_EXPORT struct TFE_MonitoringCounter2 *TFE_MonitoringNewCounter2(const char *_name,
    TF_Status *status, const char *_description, const char *_label1, const char *_label2);

// Deletes a counter with its cells; null is allowed.
TF_CAPI_EXPORT void TFE_MonitoringDeleteCounter2(struct TFE_MonitoringCounter2 *counter);

// Returns the cell of these labels, which is the counter's.
TF_CAPI_EXPORT struct TFE_MonitoringCounterCell *TFE_MonitoringGetCellCounter2(struct TFE_MonitoringCounter2 *counter,
    const char *label1, const char *label2);

// Returns a gauge of a number, for the caller to delete. Names need not be unique.
TF_CAPI_EXPORT struct TFE_MonitoringIntGauge0 *TFE_MonitoringNewIntGauge0(const char *_name,
    TF_Status *status, const char *_description);

// Deletes a gauge of a number with its cells; null is allowed.
TF_CAPI_EXPORT void TFE_MonitoringDeleteIntGauge0(struct TFE_MonitoringIntGauge0 *gauge);

// Returns the only cell, which is the gauge's.
TF_CAPI_EXPORT struct TFE_MonitoringIntGaugeCell *TFE_MonitoringGetCellIntGauge0(struct TFE_MonitoringIntGauge0 *gauge);

// Returns a gauge of a number, for the caller to delete. Names need not be unique.
TF_CAPI_EXPORT struct TFE_MonitoringIntGauge1 *TFE_MonitoringNewIntGauge1(const char *_name,
    TF_Status *status, const char *_description, const char *_label1);

// Deletes a gauge of a number with its cells; null is allowed.
TF_CAPI_EXPORT void TFE_MonitoringDeleteIntGauge1(struct TFE_MonitoringIntGauge1 *gauge);

// Returns the cell of these labels, which is the gauge's.
TF_CAPI_EXPORT struct TFE_MonitoringIntGaugeCell *TFE_MonitoringGetCellIntGauge1(struct TFE_MonitoringIntGauge1 *gauge,
    const char *label1);

// Returns a gauge of a number, for the caller to delete. Names need not be unique.
TF_CAPI_EXPORT struct TFE_MonitoringIntGauge2 *TFE_MonitoringNewIntGauge2(const char *_name,
    TF_Status *status, const char *_description, const char *_label1, const char *_label2);

// Deletes a gauge of a number with its cells; null is allowed.
TF_CAPI_EXPORT void TFE_MonitoringDeleteIntGauge2(struct TFE_MonitoringIntGauge2 *gauge);

// Returns the cell of these labels, which is the gauge's.
TF_CAPI_EXPORT struct TFE_MonitoringIntGaugeCell *TFE_MonitoringGetCellIntGauge2(struct TFE_MonitoringIntGauge2 *gauge,
    const char *label1, const char *label2);

// Returns a gauge of a text, for the caller to delete. Names need not be unique.
TF_CAPI_EXPORT struct TFE_MonitoringStringGauge0 *TFE_MonitoringNewStringGauge0(const char *_name,
    TF_Status *status, const char *_description);

// Deletes a gauge of a text with its cells; null is allowed.
TF_CAPI_EXPORT void TFE_MonitoringDeleteStringGauge0(struct TFE_MonitoringStringGauge0 *gauge);

// Returns the only cell, which is the gauge's.
TF_CAPI_EXPORT struct TFE_MonitoringStringGaugeCell *TFE_MonitoringGetCellStringGauge0(struct TFE_MonitoringStringGauge0 *gauge);

// Returns a gauge of a text, for the caller to delete. Names need not be unique.
TF_CAPI_EXPORT struct TFE_MonitoringStringGauge1 *TFE_MonitoringNewStringGauge1(const char *_name,
    TF_Status *status, const char *_description, const char *_label1);

// Deletes a gauge of a text with its cells; null is allowed.
TF_CAPI_EXPORT void TFE_MonitoringDeleteStringGauge1(struct TFE_MonitoringStringGauge1 *gauge);

// Returns the cell of these labels, which is the gauge's.
TF_CAPI_EXPORT struct TFE_MonitoringStringGaugeCell *TFE_MonitoringGetCellStringGauge1(struct TFE_MonitoringStringGauge1 *gauge,
    const char *label1);

// Returns a gauge of a text, for the caller to delete. Names need not be unique.
TF_CAPI_EXPORT struct TFE_MonitoringStringGauge2 *TFE_MonitoringNewStringGauge2(const char *_name,
    TF_Status *status, const char *_description, const char *_label1, const char *_label2);

// Deletes a gauge of a text with its cells; null is allowed.
TF_CAPI_EXPORT void TFE_MonitoringDeleteStringGauge2(struct TFE_MonitoringStringGauge2 *gauge);

// Returns the cell of these labels, which is the gauge's.
TF_CAPI_EXPORT struct TFE_MonitoringStringGaugeCell *TFE_MonitoringGetCellStringGauge2(struct TFE_MonitoringStringGauge2 *gauge,
    const char *label1, const char *label2);

// Returns a gauge of a text, for the caller to delete. Names need not be unique.
TF_CAPI_EXPORT struct TFE_MonitoringStringGauge3 *TFE_MonitoringNewStringGauge3(const char *_name,
    TF_Status *status, const char *_description, const char *_label1, const char *_label2,
    const char *_label3);

// Deletes a gauge of a text with its cells; null is allowed.
TF_CAPI_EXPORT void TFE_MonitoringDeleteStringGauge3(struct TFE_MonitoringStringGauge3 *gauge);

// Returns the cell of these labels, which is the gauge's.
TF_CAPI_EXPORT struct TFE_MonitoringStringGaugeCell *TFE_MonitoringGetCellStringGauge3(struct TFE_MonitoringStringGauge3 *gauge,
    const char *label1, const char *label2, const char *label3);

// Returns a gauge of a text, for the caller to delete. Names need not be unique.
TF_CAPI_EXPORT struct TFE_MonitoringStringGauge4 *TFE_MonitoringNewStringGauge4(const char *_name,
    TF_Status *status, const char *_description, const char *_label1, const char *_label2,
    const char *_label3, const char *_label4);

// Deletes a gauge of a text with its cells; null is allowed.
TF_CAPI_EXPORT void TFE_MonitoringDeleteStringGauge4(struct TFE_MonitoringStringGauge4 *gauge);

// Returns the cell of these labels, which is the gauge's.
TF_CAPI_EXPORT struct TFE_MonitoringStringGaugeCell *TFE_MonitoringGetCellStringGauge4(struct TFE_MonitoringStringGauge4 *gauge,
    const char *label1, const char *label2, const char *label3, const char *label4);

// Returns a gauge of a truth value, for the caller to delete. Names need not be unique.
TF_CAPI_EXPORT struct TFE_MonitoringBoolGauge0 *TFE_MonitoringNewBoolGauge0(const char *_name,
    TF_Status *status, const char *_description);

// Deletes a gauge of a truth value with its cells; null is allowed.
TF_CAPI_EXPORT void TFE_MonitoringDeleteBoolGauge0(struct TFE_MonitoringBoolGauge0 *gauge);

// Returns the only cell, which is the gauge's.
TF_CAPI_EXPORT struct TFE_MonitoringBoolGaugeCell *TFE_MonitoringGetCellBoolGauge0(struct TFE_MonitoringBoolGauge0 *gauge);

// Returns a gauge of a truth value, for the caller to delete. Names need not be unique.
TF_CAPI_EXPORT struct TFE_MonitoringBoolGauge1 *TFE_MonitoringNewBoolGauge1(const char *_name,
    TF_Status *status, const char *_description, const char *_label1);

// Deletes a gauge of a truth value with its cells; null is allowed.
TF_CAPI_EXPORT void TFE_MonitoringDeleteBoolGauge1(struct TFE_MonitoringBoolGauge1 *gauge);

// Returns the cell of these labels, which is the gauge's.
TF_CAPI_EXPORT struct TFE_MonitoringBoolGaugeCell *TFE_MonitoringGetCellBoolGauge1(struct TFE_MonitoringBoolGauge1 *gauge,
    const char *label1);

// Returns a gauge of a truth value, for the caller to delete. Names need not be unique.
TF_CAPI_EXPORT struct TFE_MonitoringBoolGauge2 *TFE_MonitoringNewBoolGauge2(const char *_name,
    TF_Status *status, const char *_description, const char *_label1, const char *_label2);

// Deletes a gauge of a truth value with its cells; null is allowed.
TF_CAPI_EXPORT void TFE_MonitoringDeleteBoolGauge2(struct TFE_MonitoringBoolGauge2 *gauge);

// Returns the cell of these labels, which is the gauge's.
TF_CAPI_EXPORT struct TFE_MonitoringBoolGaugeCell *TFE_MonitoringGetCellBoolGauge2(struct TFE_MonitoringBoolGauge2 *gauge,
    const char *label1, const char *label2);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_EAGER_C_API_EXPERIMENTAL_H_ */
