/* Checkpoints of all types, written by one library and read by the other. EXCHANGE names a directory for them; `make
 * compare` runs this program with both libraries, and compares the files byte for byte. */
#include "checkpoints.h"

#include "tensorflow/c/c_api_experimental.h"

static const TF_DataType kTypes[] = {TF_FLOAT,  TF_DOUBLE, TF_INT32,  TF_UINT8,     TF_INT16,      TF_INT8,
                                     TF_INT64,  TF_BOOL,   TF_UINT16, TF_UINT32,    TF_UINT64,     TF_HALF,
                                     TF_QINT8,  TF_QUINT8, TF_QINT32, TF_COMPLEX64, TF_COMPLEX128, TF_BFLOAT16};
enum { kCount = sizeof kTypes / sizeof kTypes[0] };

static const char *own_name(void) { return is_tfcore() ? "tfcore" : "tensorflow"; }

/* The directory for all files, and true if it is this run's own. */
static char *directory_for(bool *own) {
  const char *shared = getenv("EXCHANGE");
  *own = shared == NULL;
  return *own ? new_directory() : joined(shared, "");
}

static void leave(char *directory, bool own) {
  if (own)
    delete_directory(directory);
  else
    free(directory);
}

/* 2 x 3 elements of a type with the bytes 1, 0, 1, 1, 0, 1 ... or, for bool, exactly these elements. */
static TF_Tensor *sample(TF_DataType dtype) {
  int64_t dims[2] = {2, 3};
  unsigned char bytes[96];
  size_t size = 6 * TF_DataTypeSize(dtype);
  for (size_t i = 0; i < size; i++) bytes[i] = (unsigned char)(dtype == TF_BOOL ? i % 3 != 1 : i * 7 % 64);
  return tensor_of(dtype, dims, 2, bytes, size);
}

static char *type_name(int i) {
  char *name = malloc(32);
  CHECK(name != NULL);
  snprintf(name, 32, "layer/type_%02d", (int)kTypes[i]);
  return name;
}

/* Writes a checkpoint of both versions. The second one has the types that it knows. */
static void write_all(void) {
  bool own;
  char *directory = directory_for(&own), *start = joined(directory, "/"), *prefix = joined(start, own_name());
  TF_Graph *g = TF_NewGraph();
  TF_Operation *path = constant(g, string_scalar(prefix), "path");
  const char *names[kCount + 3], *slices[kCount + 3];
  TF_Output tensors[kCount + 3];
  for (int i = 0; i < kCount; i++) {
    names[i] = type_name(i);
    slices[i] = "";
    tensors[i] = output(constant(g, sample(kTypes[i]), names[i]), 0);
  }
  const char *words[] = {"", "a", "the quick brown fox jumps over the lazy dog"};
  names[kCount] = "words";
  slices[kCount] = "";
  tensors[kCount] = output(constant(g, string_vector(3, words), "words"), 0);
  for (int i = 0; i < 2; i++) {
    float row[] = {(float)i, 10.0f + (float)i};
    names[kCount + 1 + i] = "partitioned";
    slices[kCount + 1 + i] = i == 0 ? "2 2 0,1:-" : "2 2 1,1:-";
    tensors[kCount + 1 + i] = output(constant(g, f32_matrix(1, 2, row), i == 0 ? "row_0" : "row_1"), 0);
  }
  TF_Operation *save = save_node(g, output(path, 0), kCount + 3, names, slices, tensors, "save");

  char *v1 = joined(prefix, ".v1");
  TF_Operation *v1_path = constant(g, string_scalar(v1), "v1_path");
  const char *v1_names[] = {names[0], names[2], names[5], names[6], "words"};
  TF_Output v1_tensors[] = {tensors[0], tensors[2], tensors[5], tensors[6], tensors[kCount]};
  TF_Operation *v1_names_const = constant(g, string_vector(5, v1_names), "v1_names");
  TF_OperationDescription *desc = TF_NewOperation(g, "Save", "save_v1");
  TF_AddInput(desc, output(v1_path, 0));
  TF_AddInput(desc, output(v1_names_const, 0));
  TF_AddInputList(desc, v1_tensors, 5);
  TF_Operation *save_v1 = finish(desc);

  TF_Session *session = new_session(g);
  run_target(session, save);
  run_target(session, save_v1);
  delete_session(session);
  TF_DeleteGraph(g);
  for (int i = 0; i < kCount; i++) free((char *)names[i]);
  free(v1);
  free(prefix);
  free(start);
  leave(directory, own);
}

/* Reads one checkpoint, if it is there. */
static int read_one(const char *prefix) {
  char *index = joined(prefix, ".index");
  bool is_there = access(index, R_OK) == 0;
  free(index);
  if (!is_there) return 0;
  TF_CheckpointReader *reader = TF_NewCheckpointReader(prefix, status);
  CHECK_OK(status);
  CHECK_INT(TF_CheckpointReaderSize(reader), kCount + 2);
  for (int i = 0; i < kCount; i++) {
    char *name = type_name(i);
    TF_Tensor *t = TF_CheckpointReaderGetTensor(reader, name, status), *expected = sample(kTypes[i]);
    CHECK_OK(status);
    CHECK_INT(TF_TensorType(t), kTypes[i]);
    CHECK_INT(TF_Dim(t, 1), 3);
    CHECK_INT(TF_TensorByteSize(t), TF_TensorByteSize(expected));
    CHECK_INT(memcmp(TF_TensorData(t), TF_TensorData(expected), TF_TensorByteSize(t)), 0);
    TF_DeleteTensor(t);
    TF_DeleteTensor(expected);
    free(name);
  }
  TF_Tensor *t = TF_CheckpointReaderGetTensor(reader, "words", status);
  CHECK_OK(status);
  CHECK_INT(TF_StringGetSize((const TF_TString *)TF_TensorData(t) + 2), 43);
  TF_DeleteTensor(t);
  t = TF_CheckpointReaderGetTensor(reader, "partitioned", status);
  CHECK_OK(status);
  float expected[] = {0, 10, 1, 11};
  CHECK(is_f32(t, 4, expected));
  TF_DeleteTensor(t);
  TF_DeleteCheckpointReader(reader);

  char *v1 = joined(prefix, ".v1"), *name = type_name(0);
  reader = TF_NewCheckpointReader(v1, status);
  CHECK_OK(status);
  CHECK_INT(TF_CheckpointReaderSize(reader), 5);
  t = TF_CheckpointReaderGetTensor(reader, name, status);
  CHECK_OK(status);
  TF_Tensor *floats = sample(TF_FLOAT);
  CHECK_INT(memcmp(TF_TensorData(t), TF_TensorData(floats), TF_TensorByteSize(floats)), 0);
  TF_DeleteTensor(floats);
  TF_DeleteTensor(t);
  TF_DeleteCheckpointReader(reader);
  free(name);
  free(v1);
  return 1;
}

static void read_all(void) {
  const char *shared = getenv("EXCHANGE");
  if (shared == NULL) return;
  char *ours = joined(shared, "/tfcore"), *theirs = joined(shared, "/tensorflow");
  int found = read_one(ours) + read_one(theirs);
  CHECK(found > 0);
  free(ours);
  free(theirs);
}

CASES(CASE(write_all), CASE(read_all))
