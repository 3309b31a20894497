/* TF_Tensor: ownership of memory, shapes, strings, bitcasts, TensorProto. */
#include "nodes.h"
#include "pb.h"

enum { ALIGNMENT = 64 };

static int deallocations;
static void *deallocated_data, *deallocated_argument;
static size_t deallocated_length;

static void note_deallocation(void *data, size_t length, void *argument) {
  deallocations++;
  deallocated_data = data;
  deallocated_length = length;
  deallocated_argument = argument;
}

static const int64_t SIX[] = {6};
static const int64_t TWO_BY_THREE[] = {2, 3};

static void default_alignment(void) { CHECK_INT(TF_TensorDefaultAlignment(), ALIGNMENT); }

static void aligned_memory_is_adopted(void) {
  deallocations = 0;
  float *data = aligned_alloc(ALIGNMENT, ALIGNMENT);
  for (int i = 0; i < 6; i++) data[i] = (float)i;
  int argument;
  TF_Tensor *t = TF_NewTensor(TF_FLOAT, TWO_BY_THREE, 2, data, 24, note_deallocation, &argument);
  CHECK(t != NULL);
  CHECK(TF_TensorData(t) == data);
  CHECK_INT(TF_TensorType(t), TF_FLOAT);
  CHECK_INT(TF_NumDims(t), 2);
  CHECK_INT(TF_Dim(t, 0), 2);
  CHECK_INT(TF_Dim(t, 1), 3);
  CHECK_INT(TF_TensorByteSize(t), 24);
  CHECK_INT(TF_TensorElementCount(t), 6);
  CHECK(TF_TensorIsAligned(t));
  CHECK_INT(deallocations, 0);
  TF_DeleteTensor(t);
  CHECK_INT(deallocations, 1);
  CHECK(deallocated_data == data);
  CHECK(deallocated_argument == &argument);
  CHECK_INT(deallocated_length, 24);
  free(data);
}

static void misaligned_memory_is_copied(void) {
  deallocations = 0;
  char *block = aligned_alloc(ALIGNMENT, 2 * ALIGNMENT);
  char *data = block + 4;
  for (int i = 0; i < 6; i++) data[i] = (char)i;
  TF_Tensor *t = TF_NewTensor(TF_INT8, SIX, 1, data, 6, note_deallocation, NULL);
  CHECK(t != NULL);
  CHECK_INT(deallocations, 1);
  CHECK(deallocated_data == data);
  CHECK(TF_TensorData(t) != data);
  free(block);
  CHECK((uintptr_t)TF_TensorData(t) % ALIGNMENT == 0);
  CHECK(TF_TensorIsAligned(t));
  for (int i = 0; i < 6; i++) CHECK_INT(((char *)TF_TensorData(t))[i], i);
  TF_DeleteTensor(t);
  CHECK_INT(deallocations, 1);
}

static void misaligned_strings_are_adopted(void) {
  deallocations = 0;
  char *block = aligned_alloc(ALIGNMENT, 2 * ALIGNMENT);
  TF_TString *data = (TF_TString *)(block + 8);
  TF_StringInit(data);
  TF_StringCopy(data, "a string too long to be kept inside of 24 bytes", 47);
  TF_Tensor *t = TF_NewTensor(TF_STRING, NULL, 0, data, sizeof *data, note_deallocation, NULL);
  CHECK(t != NULL);
  CHECK(TF_TensorData(t) == data);
  CHECK_INT(deallocations, 0);
  TF_DeleteTensor(t);
  CHECK_INT(deallocations, 1);
  /* The strings themselves belong to the client. */
  CHECK_INT(TF_StringGetSize(data), 47);
  TF_StringDealloc(data);
  free(block);
}

static void too_short_memory_is_refused(void) {
  deallocations = 0;
  float data[6];
  CHECK(TF_NewTensor(TF_FLOAT, SIX, 1, data, 23, note_deallocation, NULL) == NULL);
  CHECK_INT(deallocations, 1);
}

static void longer_memory_is_accepted(void) {
  deallocations = 0;
  float *data = aligned_alloc(ALIGNMENT, ALIGNMENT);
  TF_Tensor *t = TF_NewTensor(TF_FLOAT, SIX, 1, data, 32, note_deallocation, NULL);
  CHECK(t != NULL);
  CHECK_INT(TF_TensorByteSize(t), 32);
  CHECK_INT(TF_TensorElementCount(t), 6);
  TF_DeleteTensor(t);
  CHECK_INT(deallocations, 1);
  free(data);
}

static void no_elements_no_memory(void) {
  deallocations = 0;
  const int64_t dims[] = {3, 0, 2};
  TF_Tensor *t = TF_NewTensor(TF_FLOAT, dims, 3, NULL, 0, note_deallocation, NULL);
  CHECK(t != NULL);
  CHECK_INT(TF_TensorElementCount(t), 0);
  CHECK_INT(TF_TensorByteSize(t), 0);
  CHECK(TF_TensorIsAligned(t));
  CHECK_INT(TF_Dim(t, 2), 2);
  CHECK_INT(deallocations, 0);
  TF_DeleteTensor(t);
  CHECK_INT(deallocations, 1);
}

static void bad_dimensions(void) {
  if (!is_tfcore()) return; /* the reference aborts */
  deallocations = 0;
  char data[64];
  const int64_t negative[] = {2, -1}, large[] = {INT64_MAX, 2}, wide[] = {INT64_MAX / 4 + 1};
  CHECK(TF_NewTensor(TF_FLOAT, negative, 2, data, 64, note_deallocation, NULL) == NULL);
  CHECK(TF_NewTensor(TF_FLOAT, large, 2, data, 64, note_deallocation, NULL) == NULL);
  CHECK(TF_NewTensor(TF_FLOAT, wide, 1, data, 64, note_deallocation, NULL) == NULL);
  CHECK(TF_NewTensor(TF_FLOAT, NULL, 1, data, 64, note_deallocation, NULL) == NULL);
  CHECK(TF_NewTensor(TF_FLOAT, SIX, -1, data, 64, note_deallocation, NULL) == NULL);
  CHECK(TF_NewTensor(TF_FLOAT, SIX, 1, NULL, 64, note_deallocation, NULL) == NULL);
  CHECK_INT(deallocations, 6);
  CHECK(TF_AllocateTensor(TF_FLOAT, negative, 2, 64) == NULL);
  CHECK(TF_AllocateTensor(TF_FLOAT, large, 2, 64) == NULL);
  CHECK(TF_AllocateTensor(TF_STRING, wide, 1, 64) == NULL);
}

static void without_deallocator(void) {
  if (!is_tfcore()) return; /* the reference calls through the null pointer */
  static _Alignas(ALIGNMENT) float data[6] = {1, 2, 3, 4, 5, 6};
  TF_Tensor *t = TF_NewTensor(TF_FLOAT, SIX, 1, data, sizeof data, NULL, NULL);
  CHECK(t != NULL);
  CHECK(TF_TensorData(t) == data);
  TF_DeleteTensor(t);
}

static void dimension_out_of_range(void) {
  if (!is_tfcore()) return; /* the reference aborts */
  TF_Tensor *t = f32_scalar(1);
  CHECK_INT(TF_Dim(t, 0), -1);
  CHECK_INT(TF_Dim(t, -1), -1);
  TF_DeleteTensor(t);
}

static void allocation_of_every_plain_type(void) {
  for (int dtype = 1; dtype <= 32; dtype++) {
    size_t size = TF_DataTypeSize((TF_DataType)dtype);
    if (size == 0) continue;
    TF_Tensor *t = TF_AllocateTensor((TF_DataType)dtype, TWO_BY_THREE, 2, 6 * size);
    CHECK(t != NULL);
    CHECK_INT(TF_TensorType(t), dtype);
    CHECK_INT(TF_TensorByteSize(t), 6 * size);
    CHECK((uintptr_t)TF_TensorData(t) % ALIGNMENT == 0);
    memset(TF_TensorData(t), 1, 6 * size);
    TF_DeleteTensor(t);
  }
}

static void allocation_checks_the_length(void) {
  CHECK(TF_AllocateTensor(TF_FLOAT, SIX, 1, 23) == NULL);
  TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, SIX, 1, 64);
  CHECK(t != NULL);
  CHECK_INT(TF_TensorByteSize(t), 64);
  TF_DeleteTensor(t);
}

static void scalar(void) {
  TF_Tensor *t = f32_scalar(1.5f);
  CHECK_INT(TF_NumDims(t), 0);
  CHECK_INT(TF_TensorElementCount(t), 1);
  TF_DeleteTensor(t);
}

static void empty_allocation(void) {
  const int64_t dims[] = {0};
  TF_Tensor *t = TF_AllocateTensor(TF_INT64, dims, 1, 0);
  CHECK(t != NULL);
  CHECK_INT(TF_TensorElementCount(t), 0);
  CHECK(TF_TensorIsAligned(t));
  TF_DeleteTensor(t);
}

/* Deleting a string tensor that the library allocated frees its strings. */
static void strings_die_with_their_tensor(void) {
  const int64_t dims[] = {3};
  char text[300];
  memset(text, 's', sizeof text);
  TF_Tensor *t = TF_AllocateTensor(TF_STRING, dims, 1, 3 * sizeof(TF_TString));
  CHECK(t != NULL);
  CHECK_INT(TF_TensorByteSize(t), 3 * sizeof(TF_TString));
  TF_TString *strings = TF_TensorData(t);
  for (int i = 0; i < 3; i++) TF_StringInit(&strings[i]);
  TF_StringCopy(&strings[0], "short", 5);
  TF_StringCopy(&strings[1], text, sizeof text);
  TF_StringAssignView(&strings[2], text, sizeof text);
  TF_DeleteTensor(t);
}

static void strings_may_be_freed_by_the_client(void) {
  char text[300];
  memset(text, 's', sizeof text);
  TF_Tensor *t = TF_AllocateTensor(TF_STRING, NULL, 0, sizeof(TF_TString));
  TF_TString *string = TF_TensorData(t);
  TF_StringInit(string);
  TF_StringCopy(string, text, sizeof text);
  TF_StringDealloc(string);
  TF_DeleteTensor(t);
}

static void untouched_strings(void) {
  if (!is_tfcore()) return; /* the reference frees what happens to lie in the memory */
  const int64_t dims[] = {100};
  TF_Tensor *t = TF_AllocateTensor(TF_STRING, dims, 1, 100 * sizeof(TF_TString));
  CHECK(t != NULL);
  const TF_TString *strings = TF_TensorData(t);
  for (int i = 0; i < 100; i++) CHECK_INT(TF_StringGetSize(&strings[i]), 0);
  TF_DeleteTensor(t);
}

static void delete_of_null(void) { TF_DeleteTensor(NULL); }

/* A tensor whose memory goes takes another one with it. */
static void delete_the_argument(void *data, size_t length, void *argument) {
  note_deallocation(data, length, argument);
  TF_DeleteTensor(argument);
}

/* Many at a time: more than a thread could keep at hand. */
static void deleted_tensors_leave_nothing(void) {
  enum { COUNT = 1000 };
  static _Alignas(ALIGNMENT) float data[6];
  static TF_Tensor *tensors[COUNT];
  deallocations = 0;
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < COUNT; i++) {
      tensors[i] = TF_AllocateTensor(TF_INT32, round == 1 ? TWO_BY_THREE : NULL, round == 1 ? 2 : 0, round == 1 ? 24 : 4);
      *(int32_t *)TF_TensorData(tensors[i]) = i;
    }
    for (int i = 0; i < COUNT; i++) {
      CHECK_INT(*(int32_t *)TF_TensorData(tensors[i]), i);
      CHECK_INT(TF_NumDims(tensors[i]), round == 1 ? 2 : 0);
      TF_Tensor *outer = TF_NewTensor(TF_FLOAT, SIX, 1, data, sizeof data, delete_the_argument, tensors[i]);
      TF_DeleteTensor(outer);
    }
    CHECK_INT(deallocations, (round + 1) * COUNT);
  }
}

static void move_of_owned_memory(void) {
  TF_Tensor *t = f32_vector(3, (float[]){1, 2, 3});
  void *data = TF_TensorData(t);
  TF_Tensor *moved = TF_TensorMaybeMove(t);
  CHECK(moved != NULL);
  CHECK(TF_TensorData(moved) == data);
  CHECK(is_f32(moved, 3, (float[]){1, 2, 3}));
  TF_DeleteTensor(moved);
}

static void move_of_adopted_memory(void) {
  deallocations = 0;
  float *data = aligned_alloc(ALIGNMENT, ALIGNMENT);
  TF_Tensor *t = TF_NewTensor(TF_FLOAT, SIX, 1, data, 24, note_deallocation, NULL);
  CHECK(TF_TensorMaybeMove(t) == NULL);
  CHECK_INT(deallocations, 0);
  CHECK(TF_TensorData(t) == data);
  TF_DeleteTensor(t);
  CHECK_INT(deallocations, 1);
  free(data);
}

static void move_of_shared_memory(void) {
  TF_Tensor *t = f32_vector(6, (float[]){1, 2, 3, 4, 5, 6});
  TF_Tensor *other = f32_scalar(0);
  TF_TensorBitcastFrom(t, TF_FLOAT, other, SIX, 1, status);
  CHECK_OK(status);
  CHECK(TF_TensorMaybeMove(t) == NULL);
  TF_DeleteTensor(t);
  TF_Tensor *moved = TF_TensorMaybeMove(other);
  CHECK(moved != NULL);
  CHECK(is_f32(moved, 6, (float[]){1, 2, 3, 4, 5, 6}));
  TF_DeleteTensor(moved);
}

static void bitcast(void) {
  TF_Tensor *from = f32_vector(6, (float[]){1, 2, 3, 4, 5, 6});
  TF_Tensor *to = f32_scalar(0);
  TF_TensorBitcastFrom(from, TF_INT32, to, TWO_BY_THREE, 2, status);
  CHECK_OK(status);
  CHECK_INT(TF_TensorType(to), TF_INT32);
  CHECK_INT(TF_NumDims(to), 2);
  CHECK_INT(TF_Dim(to, 1), 3);
  CHECK(TF_TensorData(to) == TF_TensorData(from));
  CHECK_INT(i32_at(to, 0), 0x3f800000);
  const int64_t three[] = {3};
  TF_TensorBitcastFrom(from, TF_DOUBLE, to, three, 1, status);
  CHECK_OK(status);
  CHECK_INT(TF_TensorElementCount(to), 3);
  TF_DeleteTensor(from);
  CHECK_INT(((const int32_t *)TF_TensorData(to))[0], 0x3f800000);
  TF_DeleteTensor(to);
}

static void bitcast_errors(void) {
  TF_Tensor *from = f32_vector(6, (float[]){1, 2, 3, 4, 5, 6});
  TF_Tensor *to = f32_scalar(7);
  TF_TensorBitcastFrom(from, TF_DOUBLE, to, SIX, 1, status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_TensorBitcastFrom(from, TF_STRING, to, SIX, 1, status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_DeleteTensor(to);
  to = string_scalar("text");
  TF_TensorBitcastFrom(to, TF_FLOAT, from, SIX, 1, status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  CHECK(is_f32(from, 6, (float[]){1, 2, 3, 4, 5, 6}));
  TF_DeleteTensor(from);
  TF_DeleteTensor(to);
}

static void set_shape(void) {
  TF_Tensor *t = f32_vector(6, (float[]){1, 2, 3, 4, 5, 6});
  void *data = TF_TensorData(t);
  TF_SetShape(t, TWO_BY_THREE, 2);
  CHECK_INT(TF_NumDims(t), 2);
  CHECK_INT(TF_Dim(t, 0), 2);
  CHECK_INT(TF_TensorElementCount(t), 6);
  CHECK(TF_TensorData(t) == data);
  const int64_t four[] = {4};
  TF_SetShape(t, four, 1);
  CHECK_INT(TF_TensorElementCount(t), 4);
  TF_DeleteTensor(t);
}

/* TensorProto: 1 dtype, 2 tensor_shape, 4 tensor_content, 5 float_val, 7 int_val, 8 string_val. */
static Pb tensor_proto(TF_DataType dtype, int rank, const int64_t *dims) {
  Pb proto = {0}, shape = {0};
  pb_int(&proto, 1, dtype);
  for (int i = 0; i < rank; i++) {
    Pb dim = {0};
    pb_int(&dim, 1, dims[i]);
    pb_message(&shape, 2, dim);
  }
  pb_message(&proto, 2, shape);
  return proto;
}

static TF_Tensor *from_proto(Pb proto) {
  TF_Buffer *buffer = pb_buffer(proto);
  TF_Tensor *t = f32_scalar(0);
  TF_TensorFromProto(buffer, t, status);
  TF_DeleteBuffer(buffer);
  return t;
}

static void proto_content(void) {
  Pb proto = tensor_proto(TF_FLOAT, 2, TWO_BY_THREE);
  float values[6] = {1, 2, 3, 4, 5, 6};
  pb_bytes(&proto, 4, values, sizeof values);
  TF_Tensor *t = from_proto(proto);
  CHECK_OK(status);
  CHECK_INT(TF_NumDims(t), 2);
  CHECK_INT(TF_Dim(t, 1), 3);
  CHECK(is_f32(t, 6, values));
  TF_DeleteTensor(t);
}

static void proto_values_repeat_the_last(void) {
  Pb proto = tensor_proto(TF_INT32, 1, SIX);
  pb_int(&proto, 7, 4);
  pb_int(&proto, 7, -9);
  TF_Tensor *t = from_proto(proto);
  CHECK_OK(status);
  CHECK_INT(TF_TensorType(t), TF_INT32);
  CHECK_INT(i32_at(t, 0), 4);
  for (int i = 1; i < 6; i++) CHECK_INT(i32_at(t, i), -9);
  TF_DeleteTensor(t);
}

static void proto_strings(void) {
  Pb proto = tensor_proto(TF_STRING, 0, NULL);
  pb_string(&proto, 8, "a string of more than twenty-two bytes");
  TF_Tensor *t = from_proto(proto);
  CHECK_OK(status);
  CHECK_INT(TF_TensorType(t), TF_STRING);
  CHECK_STR(TF_StringGetDataPointer(TF_TensorData(t)), "a string of more than twenty-two bytes");
  TF_DeleteTensor(t);
}

static void bad_protos(void) {
  TF_Buffer *buffer = TF_NewBufferFromString("\xff\xff", 2);
  TF_Tensor *t = f32_scalar(3);
  TF_TensorFromProto(buffer, t, status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_DeleteBuffer(buffer);
  TF_DeleteTensor(t);
  /* Content of the wrong length. */
  Pb proto = tensor_proto(TF_FLOAT, 1, SIX);
  pb_bytes(&proto, 4, "abcd", 4);
  TF_DeleteTensor(from_proto(proto));
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  const int64_t negative[] = {-2};
  TF_DeleteTensor(from_proto(tensor_proto(TF_FLOAT, 1, negative)));
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
}

CASES(CASE(default_alignment), CASE(aligned_memory_is_adopted), CASE(misaligned_memory_is_copied),
      CASE(misaligned_strings_are_adopted), CASE(too_short_memory_is_refused), CASE(longer_memory_is_accepted),
      CASE(no_elements_no_memory), CASE(bad_dimensions), CASE(without_deallocator), CASE(dimension_out_of_range),
      CASE(allocation_of_every_plain_type), CASE(allocation_checks_the_length), CASE(scalar), CASE(empty_allocation),
      CASE(strings_die_with_their_tensor), CASE(strings_may_be_freed_by_the_client), CASE(untouched_strings),
      CASE(delete_of_null), CASE(deleted_tensors_leave_nothing), CASE(move_of_owned_memory), CASE(move_of_adopted_memory), CASE(move_of_shared_memory),
      CASE(bitcast), CASE(bitcast_errors), CASE(set_shape), CASE(proto_content), CASE(proto_values_repeat_the_last),
      CASE(proto_strings), CASE(bad_protos))
