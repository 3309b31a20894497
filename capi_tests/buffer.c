/* TF_Buffer: a public struct whose deallocator decides what deleting it frees. */
#include "nodes.h"

static int deallocations;
static size_t deallocated_length;

static void count_deallocation(void *data, size_t length) {
  deallocations++;
  deallocated_length = length;
  free(data);
}

static void layout(void) {
  CHECK_INT(sizeof(TF_Buffer), 3 * sizeof(void *));
  CHECK_INT(offsetof(TF_Buffer, length), sizeof(void *));
  CHECK_INT(offsetof(TF_Buffer, data_deallocator), 2 * sizeof(void *));
}

static void new_buffer_is_empty(void) {
  TF_Buffer *buffer = TF_NewBuffer();
  CHECK(buffer->data == NULL);
  CHECK_INT(buffer->length, 0);
  CHECK(buffer->data_deallocator == NULL);
  TF_DeleteBuffer(buffer);
}

static void string_is_copied(void) {
  char bytes[] = "a\0b";
  TF_Buffer *buffer = TF_NewBufferFromString(bytes, 4);
  memset(bytes, 'x', 3);
  CHECK(buffer->data != bytes);
  CHECK_INT(buffer->length, 4);
  CHECK(memcmp(buffer->data, "a\0b", 4) == 0);
  CHECK(buffer->data_deallocator != NULL);
  TF_DeleteBuffer(buffer);
}

static void empty_string(void) {
  TF_Buffer *buffer = TF_NewBufferFromString("", 0);
  CHECK_INT(buffer->length, 0);
  CHECK(buffer->data != NULL);
  TF_DeleteBuffer(buffer);
}

static void get_buffer_is_a_view(void) {
  TF_Buffer *buffer = TF_NewBufferFromString("abc", 3);
  TF_Buffer view = TF_GetBuffer(buffer);
  CHECK(view.data == buffer->data);
  CHECK_INT(view.length, 3);
  CHECK(view.data_deallocator == buffer->data_deallocator);
  TF_DeleteBuffer(buffer);
}

static void deallocator_of_the_client(void) {
  deallocations = 0;
  TF_Buffer *buffer = TF_NewBuffer();
  buffer->data = malloc(7);
  buffer->length = 7;
  buffer->data_deallocator = count_deallocation;
  TF_DeleteBuffer(buffer);
  CHECK_INT(deallocations, 1);
  CHECK_INT(deallocated_length, 7);
}

static void without_deallocator_data_is_kept(void) {
  static const char bytes[] = "static";
  TF_Buffer *buffer = TF_NewBuffer();
  buffer->data = bytes;
  buffer->length = sizeof bytes;
  TF_DeleteBuffer(buffer);
  CHECK_STR(bytes, "static");
}

static void delete_of_null(void) { TF_DeleteBuffer(NULL); }

static void output_buffers_must_be_empty(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *op = placeholder(g, TF_FLOAT, "x");
  TF_Buffer *full = TF_NewBufferFromString("x", 1);
  const char *message = "Passing non-empty TF_Buffer is invalid.";
  TF_GraphToGraphDef(g, full, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, message);
  TF_OperationToNodeDef(op, full, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, message);
  TF_GraphGetOpDef(g, "Neg", full, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, message);
  TF_GraphVersions(g, full, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, message);
  TF_OperationGetAttrValueProto(op, "dtype", full, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, message);
  TF_OperationGetAttrTensorShapeProto(op, "shape", full, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, message);
  CHECK_INT(full->length, 1);
  TF_DeleteBuffer(full);
  TF_DeleteGraph(g);
}

static void results_can_be_taken_over(void) {
  TF_Graph *g = TF_NewGraph();
  placeholder(g, TF_FLOAT, "x");
  TF_Buffer *buffer = TF_NewBuffer();
  TF_GraphToGraphDef(g, buffer, status);
  CHECK_OK(status);
  CHECK(buffer->length > 0);
  /* A client may free the data itself and clear the struct. */
  buffer->data_deallocator((void *)(uintptr_t)buffer->data, buffer->length);
  buffer->data = NULL;
  buffer->length = 0;
  buffer->data_deallocator = NULL;
  TF_DeleteBuffer(buffer);
  TF_DeleteGraph(g);
}

CASES(CASE(layout), CASE(new_buffer_is_empty), CASE(string_is_copied), CASE(empty_string), CASE(get_buffer_is_a_view),
      CASE(deallocator_of_the_client), CASE(without_deallocator_data_is_kept), CASE(delete_of_null),
      CASE(output_buffers_must_be_empty), CASE(results_can_be_taken_over))
