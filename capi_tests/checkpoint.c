/* Checkpoints: written and restored by ops, read by TF_CheckpointReader, damaged. */
#include "checkpoints.h"

#include "tensorflow/c/c_api_experimental.h"

static const float kMatrix[6] = {0, 1, 2, 3, 4, 5};

/* Saves a matrix "m", a string vector "s", a scalar "n" and two slices of "p" under `prefix`. */
static void save(const char *prefix) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *path = placeholder(g, TF_STRING, "path");
  const char *words[] = {"hello", "", "a somewhat longer string, which is not stored in place"};
  TF_Output tensors[] = {
      output(constant(g, f32_matrix(2, 3, kMatrix), "m"), 0),
      output(constant(g, string_vector(3, words), "s"), 0),
      output(constant(g, i32_scalar(7), "n"), 0),
      output(constant(g, f32_matrix(1, 3, kMatrix), "p0"), 0),
      output(constant(g, f32_matrix(1, 3, kMatrix + 3), "p1"), 0),
  };
  const char *names[] = {"m", "s", "n", "p", "p"};
  const char *slices[] = {"", "", "", "2 3 0,1:-", "2 3 1,1:-"};
  const TF_Operation *target = save_node(g, output(path, 0), 5, names, slices, tensors, "save");
  TF_Session *session = new_session(g);
  TF_Tensor *value = string_scalar(prefix);
  TF_Output feed = output(path, 0);
  TF_SessionRun(session, NULL, &feed, &value, 1, NULL, NULL, 0, &target, 1, NULL, status);
  CHECK_OK(status);
  TF_DeleteTensor(value);
  delete_session(session);
  TF_DeleteGraph(g);
}

/* Restores one tensor in a session of its own; NULL on error. */
static TF_Tensor *restore(const char *prefix, const char *name, const char *slice, TF_DataType dtype) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *path = placeholder(g, TF_STRING, "path");
  TF_Operation *node = restore_node(g, output(path, 0), name, slice, dtype, "restore");
  TF_Session *session = new_session(g);
  TF_Tensor *t = try_fetch_with(session, output(path, 0), string_scalar(prefix), output(node, 0));
  TF_Status *closing = TF_NewStatus();
  TF_DeleteSession(session, closing);
  TF_DeleteStatus(closing);
  TF_DeleteGraph(g);
  return t;
}

static void what_is_saved_is_restored(void) {
  char *directory = new_directory(), *prefix = joined(directory, "/ckpt");
  save(prefix);
  TF_Tensor *t = restore(prefix, "m", "", TF_FLOAT);
  CHECK_OK(status);
  CHECK_INT(TF_Dim(t, 1), 3);
  CHECK(is_f32(t, 6, kMatrix));
  TF_DeleteTensor(t);
  t = restore(prefix, "m", "2 3 1,1:0,2", TF_FLOAT);
  CHECK_OK(status);
  CHECK(is_f32(t, 2, kMatrix + 3));
  TF_DeleteTensor(t);
  t = restore(prefix, "p", "", TF_FLOAT);
  CHECK_OK(status);
  CHECK(is_f32(t, 6, kMatrix));
  TF_DeleteTensor(t);
  t = restore(prefix, "s", "", TF_STRING);
  CHECK_OK(status);
  const TF_TString *strings = TF_TensorData(t);
  CHECK_INT(TF_StringGetSize(&strings[2]), 54);
  CHECK_INT(memcmp(TF_StringGetDataPointer(&strings[0]), "hello", 5), 0);
  TF_DeleteTensor(t);
  free(prefix);
  delete_directory(directory);
}

static void errors_say_what_is_wrong(void) {
  char *directory = new_directory(), *prefix = joined(directory, "/ckpt"), *none = joined(directory, "/none");
  save(prefix);
  CHECK(restore(prefix, "ghost", "", TF_FLOAT) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "Key ghost not found in checkpoint");
  CHECK(restore(prefix, "m", "", TF_INT32) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "tensor_name = m; expected dtype int32 does not equal original dtype float");
  CHECK(restore(prefix, "m", "2 4 -:-", TF_FLOAT) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "does not match the shape stored in checkpoint: [2,3]");
  CHECK(restore(none, "m", "", TF_FLOAT) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for");
  free(none);
  free(prefix);
  delete_directory(directory);
}

static void damage_is_noticed(void) {
  char *directory = new_directory(), *prefix = joined(directory, "/ckpt");
  save(prefix);
  char *data = joined(prefix, ".data-00000-of-00001"), *index = joined(prefix, ".index");
  size_t length;
  unsigned char *bytes = read_file(data, &length);
  bytes[5] ^= 16;
  write_file(data, bytes, length);
  CHECK(restore(prefix, "m", "", TF_FLOAT) == NULL);
  CHECK_ERROR(status, TF_DATA_LOSS, "Checksum does not match: stored");
  TF_Tensor *t = restore(prefix, "n", "", TF_INT32);
  CHECK_OK(status);
  CHECK_INT(i32_at(t, 0), 7);
  TF_DeleteTensor(t);
  write_file(data, bytes, 10);
  CHECK(restore(prefix, "m", "", TF_FLOAT) == NULL);
  CHECK_ERROR(status, TF_OUT_OF_RANGE, "Read less bytes than requested");
  CHECK_INT(unlink(data), 0);
  CHECK(restore(prefix, "m", "", TF_FLOAT) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "No such file or directory");
  free(bytes);
  bytes = read_file(index, &length);
  bytes[40] ^= 1;
  write_file(index, bytes, length);
  CHECK(restore(prefix, "m", "", TF_FLOAT) == NULL);
  CHECK_ERROR(status, TF_DATA_LOSS, "block checksum mismatch");
  bytes[length - 1] ^= 1;
  write_file(index, bytes, length);
  CHECK(restore(prefix, "m", "", TF_FLOAT) == NULL);
  CHECK_ERROR(status, TF_DATA_LOSS, "not an sstable (bad magic number)");
  write_file(index, bytes, 20);
  CHECK(restore(prefix, "m", "", TF_FLOAT) == NULL);
  CHECK_ERROR(status, TF_DATA_LOSS, "file is too short to be an sstable");
  free(bytes);
  free(data);
  free(index);
  free(prefix);
  delete_directory(directory);
}

static void a_second_save_replaces_the_first(void) {
  char *directory = new_directory(), *prefix = joined(directory, "/ckpt");
  save(prefix);
  char *data = joined(prefix, ".data-00000-of-00001");
  size_t first_length, second_length;
  unsigned char *first = read_file(data, &first_length);
  save(prefix);
  unsigned char *second = read_file(data, &second_length);
  CHECK_INT(first_length, second_length);
  CHECK_INT(memcmp(first, second, first_length), 0);
  TF_Tensor *t = restore(prefix, "m", "", TF_FLOAT);
  CHECK_OK(status);
  TF_DeleteTensor(t);
  free(first);
  free(second);
  free(data);
  free(prefix);
  delete_directory(directory);
}

static void readers_list_and_read_tensors(void) {
  char *directory = new_directory(), *prefix = joined(directory, "/ckpt");
  save(prefix);
  TF_CheckpointReader *reader = TF_NewCheckpointReader(prefix, status);
  CHECK_OK(status);
  CHECK_INT(TF_CheckpointReaderSize(reader), 4);
  const char *names[] = {"m", "n", "p", "s"};
  for (int i = 0; i < 4; i++) CHECK_STR(TF_CheckpointReaderGetVariable(reader, i), names[i]);
  CHECK_INT(TF_CheckpointReaderHasTensor(reader, "m"), 1);
  CHECK_INT(TF_CheckpointReaderHasTensor(reader, "ghost"), 0);
  CHECK_INT(TF_CheckpointReaderGetVariableDataType(reader, "s"), TF_STRING);
  CHECK_INT(TF_CheckpointReaderGetVariableNumDims(reader, "p"), 2);
  int64_t dims[2] = {0, 0};
  TF_CheckpointReaderGetVariableShape(reader, "p", dims, 2, status);
  CHECK_OK(status);
  CHECK_INT(dims[0] * 10 + dims[1], 23);
  TF_CheckpointReaderGetVariableShape(reader, "p", dims, 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Expected rank is 1 but actual rank is 2");
  TF_SetStatus(status, TF_OK, "");
  TF_Tensor *t = TF_CheckpointReaderGetTensor(reader, "p", status);
  CHECK_OK(status);
  CHECK(is_f32(t, 6, kMatrix));
  TF_DeleteTensor(t);
  CHECK(TF_CheckpointReaderGetTensor(reader, "ghost", status) == NULL);
  CHECK_CODE(status, TF_NOT_FOUND);
  TF_DeleteCheckpointReader(reader);
  char *none = joined(directory, "/none");
  CHECK(TF_NewCheckpointReader(none, status) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "Failed to find any matching files for");
  free(none);
  free(prefix);
  delete_directory(directory);
}

CASES(CASE(what_is_saved_is_restored), CASE(errors_say_what_is_wrong), CASE(damage_is_noticed),
      CASE(a_second_save_replaces_the_first), CASE(readers_list_and_read_tensors))
