#ifndef TENSORFLOW_C_OPS_H_
#define TENSORFLOW_C_OPS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"



// A dimension; a new one is none.
typedef struct TF_DimensionHandle TF_DimensionHandle;

// An op that is being defined.
typedef struct TF_OpDefinitionBuilder TF_OpDefinitionBuilder;

// A shape; of a new one nothing is known.
typedef struct TF_ShapeHandle TF_ShapeHandle;

// The node whose shapes are being inferred: inputs, attributes, outputs. It lives as long as the call of the shape
// function that it was passed to.
typedef struct TF_ShapeInferenceContext TF_ShapeInferenceContext;

// Computes the shapes of a node's outputs; an error that it leaves in the status is the node's.
typedef void (*TF_ShapeInferenceFunction)(TF_ShapeInferenceContext *ctx, TF_Status *status);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns a new builder of an op with this name. It is deleted by `TF_RegisterOpDefinition` or
// `TF_DeleteOpDefinitionBuilder`; null if `op_name` is null.
TF_CAPI_EXPORT TF_OpDefinitionBuilder *TF_NewOpDefinitionBuilder(const char *op_name);

// Registers the op for the whole process and deletes the builder, whether that succeeds or not.
//
// A specification that cannot be read is `TF_INVALID_ARGUMENT`, a name that is taken `TF_ALREADY_EXISTS`.
TF_CAPI_EXPORT void TF_RegisterOpDefinition(TF_OpDefinitionBuilder *builder, TF_Status *status);

// Deletes a builder that has not been registered; null is allowed.
TF_CAPI_EXPORT void TF_DeleteOpDefinitionBuilder(TF_OpDefinitionBuilder *builder);

// Adds an attribute: `name: type`, `name: type >= minimum`, `name: type = default`.
//
// The type is `string`, `int`, `float`, `bool`, `type`, `shape`, `tensor`, `func`, a set of types (`numbertype`,
// `realnumbertype`, `quantizedtype`, `{int32, int64}`), a set of strings (`{'SAME', 'VALID'}`), or a list of one of
// these, `list(int)`. A default is written as in the text format of protocol buffers, a list as `[a, b]`. An
// attribute that is the length of an argument has the minimum 1 unless it names another.
TF_CAPI_EXPORT void TF_OpDefinitionBuilderAddAttr(TF_OpDefinitionBuilder *builder,
    const char *attr_spec);

// Adds an input: `name: type` for one tensor, `name: number * type` for several of one type, `name: types` for
// several of different types, each also as `name: Ref(...)`. A type is `float`, `int32`, ... or an attribute.
TF_CAPI_EXPORT void TF_OpDefinitionBuilderAddInput(TF_OpDefinitionBuilder *builder,
    const char *input_spec);

// Adds an output, in the form that inputs have.
TF_CAPI_EXPORT void TF_OpDefinitionBuilderAddOutput(TF_OpDefinitionBuilder *builder,
    const char *output_spec);

// Says that the order of the op's two inputs makes no difference. The flag is set for any value, as
// TensorFlow does.
TF_CAPI_EXPORT void TF_OpDefinitionBuilderSetIsCommutative(TF_OpDefinitionBuilder *builder,
    bool is_commutative);

// Says that the op takes any number of inputs of one type and shape, in any order and grouping, and has an output
// like them. The flag is set for any value, as
// TensorFlow does.
TF_CAPI_EXPORT void TF_OpDefinitionBuilderSetIsAggregate(TF_OpDefinitionBuilder *builder,
    bool is_aggregate);

// Says that the op depends on more than its inputs, or does more than compute its outputs. The flag is set for any value, as
// TensorFlow does.
TF_CAPI_EXPORT void TF_OpDefinitionBuilderSetIsStateful(TF_OpDefinitionBuilder *builder,
    bool is_stateful);

// Says that the op may be handed tensors that nobody has written yet. The flag is set for any value, as
// TensorFlow does.
TF_CAPI_EXPORT void TF_OpDefinitionBuilderSetAllowsUninitializedInput(TF_OpDefinitionBuilder *builder,
    bool allows_uninitialized_input);

// Refuses the op in graphs whose producer has version `version` or a later one; `explanation` says what to use
// instead.
TF_CAPI_EXPORT void TF_OpDefinitionBuilderDeprecated(TF_OpDefinitionBuilder *builder, int version,
    const char *explanation);

// Sets the function that infers the shapes of a node's outputs when the node is added to a graph. An op without one
// cannot be added, unless the graph asks for none.
TF_CAPI_EXPORT void TF_OpDefinitionBuilderSetShapeInferenceFunction(TF_OpDefinitionBuilder *builder,
    TF_ShapeInferenceFunction shape_inference_func);

// Returns the number of inputs of the node.
TF_CAPI_EXPORT int64_t TF_ShapeInferenceContextNumInputs(TF_ShapeInferenceContext *ctx);

// Returns a new shape of which nothing is known, for the caller to delete.
TF_CAPI_EXPORT TF_ShapeHandle *TF_NewShapeHandle(void);

// Stores the shape of input `i` in `handle`; `TF_INVALID_ARGUMENT` if there is no such input.
TF_CAPI_EXPORT void TF_ShapeInferenceContextGetInput(TF_ShapeInferenceContext *ctx, int i,
    TF_ShapeHandle *handle, TF_Status *status);

// Sets the shape of output `i` to a copy of `handle`; `TF_INVALID_ARGUMENT` if there is no such output.
TF_CAPI_EXPORT void TF_ShapeInferenceContextSetOutput(TF_ShapeInferenceContext *ctx, int i,
    TF_ShapeHandle *handle, TF_Status *status);

// Returns the shape of a scalar, for the caller to delete.
TF_CAPI_EXPORT TF_ShapeHandle *TF_ShapeInferenceContextScalar(TF_ShapeInferenceContext *ctx);

// Returns the shape of a vector with `size` elements, for the caller to delete.
TF_CAPI_EXPORT TF_ShapeHandle *TF_ShapeInferenceContextVectorFromSize(TF_ShapeInferenceContext *ctx,
    size_t size);

// Returns a new dimension, for the caller to delete.
TF_CAPI_EXPORT TF_DimensionHandle *TF_NewDimensionHandle(void);

// Stores the type that the attribute `attr_name` of the node holds; `TF_NOT_FOUND` if there is no such attribute,
// `TF_INVALID_ARGUMENT` if it holds something else.
TF_CAPI_EXPORT void TF_ShapeInferenceContext_GetAttrType(TF_ShapeInferenceContext *ctx,
    const char *attr_name, TF_DataType *val, TF_Status *status);

// Returns the rank of a shape, -1 if it is unknown.
TF_CAPI_EXPORT int64_t TF_ShapeInferenceContextRank(TF_ShapeInferenceContext *ctx,
    TF_ShapeHandle *handle);

// Returns 1 if the rank of a shape is known, otherwise 0.
TF_CAPI_EXPORT int TF_ShapeInferenceContextRankKnown(TF_ShapeInferenceContext *ctx,
    TF_ShapeHandle *handle);

// Stores the shape in `result`, with this rank if its own is unknown; `TF_INVALID_ARGUMENT` "Shape must be rank 2 but is
// rank 3" if it has another.
TF_CAPI_EXPORT void TF_ShapeInferenceContextWithRank(TF_ShapeInferenceContext *ctx,
    TF_ShapeHandle *handle, int64_t rank, TF_ShapeHandle *result, TF_Status *status);

// Stores the shape in `result`; `TF_INVALID_ARGUMENT` if its rank is known to be lower.
TF_CAPI_EXPORT void TF_ShapeInferenceContextWithRankAtLeast(TF_ShapeInferenceContext *ctx,
    TF_ShapeHandle *handle, int64_t rank, TF_ShapeHandle *result, TF_Status *status);

// Stores the shape in `result`; `TF_INVALID_ARGUMENT` if its rank is known to be higher.
TF_CAPI_EXPORT void TF_ShapeInferenceContextWithRankAtMost(TF_ShapeInferenceContext *ctx,
    TF_ShapeHandle *handle, int64_t rank, TF_ShapeHandle *result, TF_Status *status);

// Stores dimension `i` of the shape in `result`; negative numbers count from the end. Where there is no such dimension,
// `result` becomes as a new one.
TF_CAPI_EXPORT void TF_ShapeInferenceContextDim(TF_ShapeInferenceContext *ctx,
    TF_ShapeHandle *shape_handle, int64_t i, TF_DimensionHandle *result);

// Stores the dimensions from `start` up to, but not including `end` in `result`. Negative numbers count from the end, those
// past the end are the end; `TF_INVALID_ARGUMENT` if they are still out of order or out of bounds.
TF_CAPI_EXPORT void TF_ShapeInferenceContextSubshape(TF_ShapeInferenceContext *ctx,
    TF_ShapeHandle *shape_handle, int64_t start, int64_t end, TF_ShapeHandle *result,
    TF_Status *status);

// Leaves the shapes of all outputs unknown.
TF_CAPI_EXPORT void TF_ShapeInferenceContextSetUnknownShape(TF_ShapeInferenceContext *ctx,
    TF_Status *status);

// Returns 1 if the size of a dimension is known, otherwise 0.
TF_CAPI_EXPORT int TF_DimensionHandleValueKnown(TF_DimensionHandle *dim_handle);

// Returns the size of a dimension: -1 if it is unknown, 0 for a new handle.
TF_CAPI_EXPORT int64_t TF_DimensionHandleValue(TF_DimensionHandle *dim_handle);

// Stores the dimensions of `first` and behind them those of `second` in `result`.
TF_CAPI_EXPORT void TF_ShapeInferenceContextConcatenateShapes(TF_ShapeInferenceContext *ctx,
    TF_ShapeHandle *first, TF_ShapeHandle *second, TF_ShapeHandle *result, TF_Status *status);

// Deletes a shape; null is allowed.
TF_CAPI_EXPORT void TF_DeleteShapeHandle(TF_ShapeHandle *handle);

// Deletes a dimension; null is allowed.
TF_CAPI_EXPORT void TF_DeleteDimensionHandle(TF_DimensionHandle *handle);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_OPS_H_ */
