/* A plug-in: an op with a shape function and a CPU kernel, written against TensorFlow's C headers and nothing else.
 *
 *   Cube(x: T) -> y: T     y = scale * x^3, for T in {float, double}; attr scale: float = 1.0
 *
 * Build it as a shared library that names no other library; the program that loads it has the functions:
 *
 *   cc -std=c11 -O2 -shared -fPIC -Iinclude examples_c/plugin/cube.c -o libcube.so
 *
 * Load it with TF_LoadLibrary("./libcube.so", status), then use the op like any other. The same file works with TensorFlow.
 */
#include <stdlib.h>

#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"

/* ---- the op ---- */

/* The output has the shape of the input. */
static void cube_shape(TF_ShapeInferenceContext *ctx, TF_Status *status) {
  TF_ShapeHandle *shape = TF_NewShapeHandle();
  TF_ShapeInferenceContextGetInput(ctx, 0, shape, status);
  if (TF_GetCode(status) == TF_OK) TF_ShapeInferenceContextSetOutput(ctx, 0, shape, status);
  TF_DeleteShapeHandle(shape);
}

static void register_op(TF_Status *status) {
  TF_OpDefinitionBuilder *op = TF_NewOpDefinitionBuilder("Cube");
  TF_OpDefinitionBuilderAddAttr(op, "T: {float, double}");
  TF_OpDefinitionBuilderAddAttr(op, "scale: float = 1.0");
  TF_OpDefinitionBuilderAddInput(op, "x: T");
  TF_OpDefinitionBuilderAddOutput(op, "y: T");
  TF_OpDefinitionBuilderSetShapeInferenceFunction(op, &cube_shape);
  TF_RegisterOpDefinition(op, status); /* takes `op` */
}

/* ---- the kernel ---- */

/* What a node keeps between runs: its attrs, read once. */
typedef struct {
  float scale;
} Cube;

static void *cube_create(TF_OpKernelConstruction *ctx) {
  Cube *cube = calloc(1, sizeof *cube);
  TF_Status *status = TF_NewStatus();
  TF_OpKernelConstruction_GetAttrFloat(ctx, "scale", &cube->scale, status);
  if (TF_GetCode(status) != TF_OK) TF_OpKernelConstruction_Failure(ctx, status);
  TF_DeleteStatus(status);
  return cube;
}

static void cube_delete(void *kernel) { free(kernel); }

/* Runs of one node may overlap, each on a thread of its own: `kernel` is read only. */
static void cube_compute(void *kernel, TF_OpKernelContext *ctx) {
  const Cube *cube = kernel;
  TF_Status *status = TF_NewStatus();
  TF_Tensor *x = NULL, *y = NULL;
  TF_GetInput(ctx, 0, &x, status);
  if (TF_GetCode(status) != TF_OK) goto fail;

  int64_t dims[8], count = TF_TensorElementCount(x);
  int rank = TF_NumDims(x);
  if (rank > 8) {
    TF_SetStatus(status, TF_INVALID_ARGUMENT, "Cube takes at most 8 dimensions");
    goto fail;
  }
  for (int i = 0; i < rank; i++) dims[i] = TF_Dim(x, i);
  y = TF_AllocateOutput(ctx, 0, TF_ExpectedOutputDataType(ctx, 0), dims, rank, TF_TensorByteSize(x), status);
  if (TF_GetCode(status) != TF_OK) goto fail;

  if (TF_TensorType(x) == TF_FLOAT) {
    const float *in = TF_TensorData(x);
    float *out = TF_TensorData(y);
    for (int64_t i = 0; i < count; i++) out[i] = cube->scale * in[i] * in[i] * in[i];
  } else {
    const double *in = TF_TensorData(x);
    double *out = TF_TensorData(y);
    for (int64_t i = 0; i < count; i++) out[i] = cube->scale * in[i] * in[i] * in[i];
  }
fail:
  if (TF_GetCode(status) != TF_OK) TF_OpKernelContext_Failure(ctx, status);
  /* The handles are ours, the memory is shared with the runtime. */
  TF_DeleteTensor(x);
  TF_DeleteTensor(y);
  TF_DeleteStatus(status);
}

/* One kernel for each type. */
static void register_kernel(TF_DataType type, TF_Status *status) {
  TF_KernelBuilder *builder = TF_NewKernelBuilder("Cube", "CPU", &cube_create, &cube_compute, &cube_delete);
  TF_KernelBuilder_TypeConstraint(builder, "T", type, status);
  if (TF_GetCode(status) != TF_OK) {
    TF_DeleteKernelBuilder(builder);
    return;
  }
  TF_RegisterKernelBuilder("Cube", builder, status); /* takes `builder` */
}

/* Runs when the library is loaded. */
__attribute__((constructor)) static void register_all(void) {
  TF_Status *status = TF_NewStatus();
  register_op(status);
  if (TF_GetCode(status) == TF_OK) register_kernel(TF_FLOAT, status);
  if (TF_GetCode(status) == TF_OK) register_kernel(TF_DOUBLE, status);
  TF_DeleteStatus(status);
}
