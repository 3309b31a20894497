/* Cuts a person out of a picture with a neural network.
 *
 *     segment MODEL.pb PICTURE.ppm RESULT.png
 *
 * The whole way from bytes to bytes is one graph: nodes that scale the picture to what the model wants, the model
 * imported onto them, and nodes that scale its mask back and paint everything else in one colour.
 */
#include "picture.h"

#include "tensorflow/c/c_api.h"

/* What the model takes, float32 [1, 256, 256, 3] from 0 to 1, and gives, the probability of "person" per pixel. */
enum { MODEL_SIZE = 256 };
static const char MODEL_INPUT[] = "input_1", MODEL_OUTPUT[] = "activation_10";

static const float BACKGROUND[] = {32, 128, 96};

static TF_Status *status;
static TF_Graph *graph;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(EXIT_FAILURE);
}

/* Ends the program if the last call failed. */
static void require_ok(const char *what) {
  if (TF_GetCode(status) != TF_OK) fail(what, TF_Message(status));
}

/* A tensor with a copy of `bytes` bytes of `values`. */
static TF_Tensor *tensor(TF_DataType dtype, const int64_t *dims, int rank, const void *values, size_t bytes) {
  TF_Tensor *t = TF_AllocateTensor(dtype, dims, rank, bytes);
  if (t == NULL) fail("tensor", "out of memory");
  memcpy(TF_TensorData(t), values, bytes);
  return t;
}

/* ---- nodes ---- */

static TF_Output finish(TF_OperationDescription *node, const char *name) {
  TF_Operation *operation = TF_FinishOperation(node, status);
  require_ok(name);
  return (TF_Output){operation, 0};
}

static TF_Output constant(TF_Tensor *value, const char *name) {
  TF_OperationDescription *node = TF_NewOperation(graph, "Const", name);
  TF_SetAttrType(node, "dtype", TF_TensorType(value));
  TF_SetAttrTensor(node, "value", value, status);
  require_ok(name);
  TF_DeleteTensor(value);
  return finish(node, name);
}

static TF_Output float_constant(float value, const char *name) {
  return constant(tensor(TF_FLOAT, NULL, 0, &value, sizeof value), name);
}

static TF_Output int_vector(int64_t count, const int32_t *values, const char *name) {
  return constant(tensor(TF_INT32, &count, 1, values, (size_t)count * sizeof *values), name);
}

static TF_Output binary(const char *op, TF_Output a, TF_Output b, const char *name) {
  TF_OperationDescription *node = TF_NewOperation(graph, op, name);
  TF_AddInput(node, a);
  TF_AddInput(node, b);
  return finish(node, name);
}

static TF_Output cast(TF_Output x, TF_DataType to, const char *name) {
  TF_OperationDescription *node = TF_NewOperation(graph, "Cast", name);
  TF_AddInput(node, x);
  TF_SetAttrType(node, "DstT", to);
  return finish(node, name);
}

/* Scales images [n, h, w, c] to `size`, an int32 vector of height and width. */
static TF_Output resize(TF_Output images, TF_Output size, const char *name) {
  TF_OperationDescription *node = TF_NewOperation(graph, "ResizeBilinear", name);
  TF_AddInput(node, images);
  TF_AddInput(node, size);
  TF_SetAttrBool(node, "half_pixel_centers", 1);
  return finish(node, name);
}

/* Height and width of a picture [h, w, 3], known only when it runs. */
static TF_Output height_and_width(TF_Output picture) {
  TF_OperationDescription *node = TF_NewOperation(graph, "Shape", "shape");
  TF_AddInput(node, picture);
  TF_Output shape = finish(node, "shape");
  node = TF_NewOperation(graph, "Slice", "height_and_width");
  TF_AddInput(node, shape);
  TF_AddInput(node, int_vector(1, (int32_t[]){0}, "shape_begin"));
  TF_AddInput(node, int_vector(1, (int32_t[]){2}, "shape_size"));
  return finish(node, "height_and_width");
}

/* ---- the model ---- */

static TF_Buffer *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) fail(path, strerror(errno));
  size_t capacity = 1 << 20, length = 0, got;
  char *bytes = malloc(capacity);
  while (bytes != NULL && (got = fread(bytes + length, 1, capacity - length, file)) > 0) {
    length += got;
    if (length < capacity) continue;
    capacity *= 2;
    char *larger = realloc(bytes, capacity);
    if (larger == NULL) free(bytes);
    bytes = larger;
  }
  if (bytes == NULL) fail(path, "out of memory");
  if (ferror(file)) fail(path, "cannot read");
  fclose(file);
  TF_Buffer *buffer = TF_NewBufferFromString(bytes, length);
  free(bytes);
  return buffer;
}

/* Imports the model with `images` in the place of its placeholder; its output. */
static TF_Output import_model(const char *path, TF_Output images) {
  TF_Buffer *graph_def = read_file(path);
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetPrefix(options, "model");
  TF_ImportGraphDefOptionsAddInputMapping(options, MODEL_INPUT, 0, images);
  TF_ImportGraphDefOptionsAddReturnOutput(options, MODEL_OUTPUT, 0);
  TF_Output output;
  TF_GraphImportGraphDefWithReturnOutputs(graph, graph_def, options, &output, 1, status);
  require_ok(path);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(graph_def);
  return output;
}

/* ---- the graph around it ---- */

/* From a picture uint8 [h, w, 3] to one of the same size with only the person left. */
static TF_Output build(const char *model, TF_Output picture) {
  TF_Output pixels = cast(picture, TF_FLOAT, "pixels");
  int32_t zero = 0;
  TF_Output axis = constant(tensor(TF_INT32, NULL, 0, &zero, sizeof zero), "axis");
  TF_Output image = binary("ExpandDims", pixels, axis, "image");
  TF_Output model_size = int_vector(2, (int32_t[]){MODEL_SIZE, MODEL_SIZE}, "model_size");
  TF_Output small = resize(image, model_size, "small");
  TF_Output scaled = binary("Mul", small, float_constant(1.0f / 255, "scale"), "scaled");

  TF_Output mask = import_model(model, scaled);

  /* background + mask * (pixels - background), rounded; the mask [1, h, w, 1] spreads over the colours. */
  TF_Output large = resize(mask, height_and_width(picture), "large");
  const int64_t channels = 3;
  TF_Output background = constant(tensor(TF_FLOAT, &channels, 1, BACKGROUND, sizeof BACKGROUND), "background");
  TF_Output difference = binary("Sub", image, background, "difference");
  TF_Output kept = binary("Mul", large, difference, "kept");
  TF_Output blended = binary("AddV2", kept, background, "blended");
  TF_Output rounded = binary("AddV2", blended, float_constant(0.5f, "half"), "rounded");
  return cast(rounded, TF_UINT8, "result");
}

int main(int argc, char **argv) {
  if (argc != 4) fail("usage", "segment MODEL.pb PICTURE.ppm RESULT.png");
  Picture picture;
  if (!read_ppm(argv[2], &picture)) return EXIT_FAILURE;

  status = TF_NewStatus();
  graph = TF_NewGraph();
  const int64_t any_size[] = {-1, -1, 3};
  TF_OperationDescription *node = TF_NewOperation(graph, "Placeholder", "picture");
  TF_SetAttrType(node, "dtype", TF_UINT8);
  TF_SetAttrShape(node, "shape", any_size, 3);
  TF_Output input = finish(node, "picture");
  TF_Output output = build(argv[1], input);

  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_NewSession(graph, options, status);
  require_ok("open session");
  TF_DeleteSessionOptions(options);

  const int64_t dims[] = {picture.height, picture.width, 3};
  TF_Tensor *value = tensor(TF_UINT8, dims, 3, picture.pixels, picture_bytes(picture.width, picture.height));
  TF_Tensor *result = NULL;
  TF_SessionRun(session, NULL, &input, &value, 1, &output, &result, 1, NULL, 0, NULL, status);
  require_ok("run");

  free(picture.pixels);
  picture.pixels = TF_TensorData(result);
  bool written = write_picture(argv[3], &picture);
  if (written) printf("%d x %d pixels, the person is in %s\n", picture.width, picture.height, argv[3]);

  TF_DeleteTensor(value);
  TF_DeleteTensor(result);
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return written ? EXIT_SUCCESS : EXIT_FAILURE;
}
