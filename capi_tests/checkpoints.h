/* Directories for a test's files, and the nodes that write and read checkpoints. */
#ifndef CAPI_TESTS_CHECKPOINTS_H_
#define CAPI_TESTS_CHECKPOINTS_H_

#include "nodes.h"

#include <sys/stat.h>
#include <unistd.h>

/* A new empty directory. The caller frees the path. */
static inline char *new_directory(void) {
  char *path = strdup("/tmp/capi_tests_XXXXXX");
  CHECK(path != NULL && mkdtemp(path) != NULL);
  return path;
}

/* The two texts concatenated. The caller frees the result. */
static inline char *joined(const char *a, const char *b) {
  char *path = malloc(strlen(a) + strlen(b) + 1);
  CHECK(path != NULL);
  strcpy(path, a);
  return strcat(path, b);
}

/* Deletes a directory and its files. */
static inline void delete_directory(char *path) {
  char *command = joined("rm -rf ", path);
  CHECK_INT(system(command), 0);
  free(command);
  free(path);
}

static inline void write_file(const char *path, const void *bytes, size_t length) {
  FILE *file = fopen(path, "wb");
  CHECK(file != NULL);
  CHECK_INT(fwrite(bytes, 1, length, file), length);
  CHECK_INT(fclose(file), 0);
}

/* The content of a file. The caller frees it. */
static inline unsigned char *read_file(const char *path, size_t *length) {
  FILE *file = fopen(path, "rb");
  CHECK(file != NULL);
  fseek(file, 0, SEEK_END);
  *length = (size_t)ftell(file);
  rewind(file);
  unsigned char *bytes = malloc(*length + 1);
  CHECK(bytes != NULL);
  CHECK_INT(fread(bytes, 1, *length, file), *length);
  fclose(file);
  return bytes;
}

static inline TF_Tensor *string_vector(int64_t n, const char *const *values) {
  TF_Tensor *t = TF_AllocateTensor(TF_STRING, &n, 1, (size_t)n * sizeof(TF_TString));
  CHECK(t != NULL);
  TF_TString *strings = TF_TensorData(t);
  for (int64_t i = 0; i < n; i++) {
    TF_StringInit(&strings[i]);
    TF_StringCopy(&strings[i], values[i], strlen(values[i]));
  }
  return t;
}

/* A SaveV2 node that writes `n` tensors. */
static inline TF_Operation *save_node(TF_Graph *g, TF_Output prefix, int n, const char *const *names,
                                      const char *const *slices, const TF_Output *tensors, const char *name) {
  char *names_name = joined(name, "_names"), *slices_name = joined(name, "_slices");
  TF_Operation *name_const = constant(g, string_vector(n, names), names_name);
  TF_Operation *slice_const = constant(g, string_vector(n, slices), slices_name);
  free(names_name);
  free(slices_name);
  TF_OperationDescription *desc = TF_NewOperation(g, "SaveV2", name);
  TF_AddInput(desc, prefix);
  TF_AddInput(desc, output(name_const, 0));
  TF_AddInput(desc, output(slice_const, 0));
  TF_AddInputList(desc, tensors, n);
  return finish(desc);
}

/* A RestoreV2 node that reads one tensor. */
static inline TF_Operation *restore_node(TF_Graph *g, TF_Output prefix, const char *tensor, const char *slice,
                                         TF_DataType dtype, const char *name) {
  char *names_name = joined(name, "_names"), *slices_name = joined(name, "_slices");
  TF_Operation *name_const = constant(g, string_vector(1, &tensor), names_name);
  TF_Operation *slice_const = constant(g, string_vector(1, &slice), slices_name);
  free(names_name);
  free(slices_name);
  TF_OperationDescription *desc = TF_NewOperation(g, "RestoreV2", name);
  TF_AddInput(desc, prefix);
  TF_AddInput(desc, output(name_const, 0));
  TF_AddInput(desc, output(slice_const, 0));
  TF_SetAttrTypeList(desc, "dtypes", &dtype, 1);
  return finish(desc);
}

#endif
