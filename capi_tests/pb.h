/* Just enough of the protocol buffer wire format to write and read graph messages by hand.
 *
 * Messages used here, with their field numbers:
 *   GraphDef    1 node (NodeDef), 2 library, 4 versions (VersionDef)
 *   NodeDef     1 name, 2 op, 3 input, 4 device, 5 attr (map entry: 1 key, 2 AttrValue)
 *   AttrValue   2 s, 3 i, 4 f, 5 b, 6 type, 7 shape, 8 tensor, 1 list
 *   TensorShapeProto  2 dim (1 size), 3 unknown_rank
 *   VersionDef  1 producer, 2 min_consumer, 3 bad_consumers
 */
#ifndef CAPI_TESTS_PB_H_
#define CAPI_TESTS_PB_H_

#include "check.h"

/* ---- writing ---- */

typedef struct {
  unsigned char *data;
  size_t length, capacity;
} Pb;

static inline void pb_append(Pb *pb, const void *bytes, size_t length) {
  if (pb->length + length > pb->capacity) {
    pb->capacity = 2 * (pb->length + length);
    pb->data = realloc(pb->data, pb->capacity);
    CHECK(pb->data != NULL);
  }
  if (length > 0) memcpy(pb->data + pb->length, bytes, length);
  pb->length += length;
}

static inline void pb_raw_varint(Pb *pb, uint64_t value) {
  do {
    unsigned char byte = (unsigned char)(value & 0x7f);
    value >>= 7;
    if (value != 0) byte |= 0x80;
    pb_append(pb, &byte, 1);
  } while (value != 0);
}

static inline void pb_int(Pb *pb, int field, int64_t value) {
  pb_raw_varint(pb, (uint64_t)field << 3);
  pb_raw_varint(pb, (uint64_t)value);
}

static inline void pb_bytes(Pb *pb, int field, const void *bytes, size_t length) {
  pb_raw_varint(pb, (uint64_t)field << 3 | 2);
  pb_raw_varint(pb, length);
  pb_append(pb, bytes, length);
}

static inline void pb_string(Pb *pb, int field, const char *text) { pb_bytes(pb, field, text, strlen(text)); }

/* Takes over `message`. */
static inline void pb_message(Pb *pb, int field, Pb message) {
  pb_bytes(pb, field, message.data, message.length);
  free(message.data);
}

/* A buffer with the bytes of `pb`, which it takes over. */
static inline TF_Buffer *pb_buffer(Pb pb) {
  TF_Buffer *buffer = TF_NewBufferFromString(pb.data, pb.length);
  free(pb.data);
  return buffer;
}

/* ---- NodeDef and GraphDef ---- */

static inline Pb pb_node(const char *name, const char *op) {
  Pb node = {0};
  pb_string(&node, 1, name);
  pb_string(&node, 2, op);
  return node;
}

/* Adds an attr; takes over `value`, an AttrValue. */
static inline void pb_attr(Pb *node, const char *key, Pb value) {
  Pb entry = {0};
  pb_string(&entry, 1, key);
  pb_message(&entry, 2, value);
  pb_message(node, 5, entry);
}

static inline void pb_attr_type(Pb *node, const char *key, TF_DataType dtype) {
  Pb value = {0};
  pb_int(&value, 6, dtype);
  pb_attr(node, key, value);
}

static inline void pb_attr_int(Pb *node, const char *key, int64_t i) {
  Pb value = {0};
  pb_int(&value, 3, i);
  pb_attr(node, key, value);
}

/* One NodeDef more in the GraphDef; `a` and `b` are inputs or NULL. Float types fill the type attr of the op. */
static inline void pb_graph_node(Pb *graph, const char *name, const char *op, const char *a, const char *b) {
  Pb node = pb_node(name, op);
  if (a != NULL) pb_string(&node, 3, a);
  if (b != NULL) pb_string(&node, 3, b);
  if (strcmp(op, "Placeholder") == 0) pb_attr_type(&node, "dtype", TF_FLOAT);
  else if (strcmp(op, "NoOp") != 0) pb_attr_type(&node, "T", TF_FLOAT);
  pb_message(graph, 1, node);
}

/* ---- reading ---- */

typedef struct {
  const unsigned char *data;
  size_t length;
} PbView;

static inline PbView pb_view(const TF_Buffer *buffer) {
  PbView view = {buffer->data, buffer->length};
  return view;
}

static inline uint64_t pb_read_varint(PbView *view) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    CHECK(view->length > 0);
    unsigned char byte = *view->data++;
    view->length--;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  CHECK_FAIL("varint too long");
}

/* Reads the next field into `payload` (bytes) or `number`; returns its number, 0 at the end. */
static inline int pb_next(PbView *view, PbView *payload, uint64_t *number) {
  if (view->length == 0) return 0;
  uint64_t tag = pb_read_varint(view);
  payload->data = view->data;
  payload->length = 0;
  *number = 0;
  switch (tag & 7) {
    case 0: *number = pb_read_varint(view); return (int)(tag >> 3);
    case 1: payload->length = 8; break;
    case 2: payload->length = (size_t)pb_read_varint(view); break;
    case 5: payload->length = 4; break;
    default: CHECK_FAIL("wire type %d", (int)(tag & 7));
  }
  CHECK(payload->length <= view->length);
  payload->data = view->data;
  view->data += payload->length;
  view->length -= payload->length;
  return (int)(tag >> 3);
}

/* The n-th payload of a repeated field; false if there are fewer. */
static inline bool pb_find(PbView view, int field, int n, PbView *payload) {
  uint64_t number;
  for (int f; (f = pb_next(&view, payload, &number)) != 0;)
    if (f == field && n-- == 0) return true;
  return false;
}

static inline int pb_count(PbView view, int field) {
  int count = 0;
  PbView payload;
  uint64_t number;
  for (int f; (f = pb_next(&view, &payload, &number)) != 0;) count += f == field;
  return count;
}

/* The value of a number field, or 0. */
static inline int64_t pb_find_int(PbView view, int field) {
  PbView payload;
  uint64_t number, last = 0;
  for (int f; (f = pb_next(&view, &payload, &number)) != 0;)
    if (f == field) last = number;
  return (int64_t)last;
}

static inline bool pb_equal(PbView view, const char *text) {
  return view.length == strlen(text) && memcmp(view.data, text, view.length) == 0;
}

/* The n-th value of a string field equals `text`. */
static inline bool pb_string_is(PbView view, int field, int n, const char *text) {
  PbView payload;
  return pb_find(view, field, n, &payload) && pb_equal(payload, text);
}

/* The AttrValue of `key` in a NodeDef. */
static inline bool pb_find_attr(PbView node, const char *key, PbView *value) {
  PbView entry;
  for (int n = 0; pb_find(node, 5, n, &entry); n++)
    if (pb_string_is(entry, 1, 0, key)) return pb_find(entry, 2, 0, value);
  return false;
}

/* The NodeDef named `name` in a GraphDef. */
static inline bool pb_find_node(PbView graph, const char *name, PbView *node) {
  for (int n = 0; pb_find(graph, 1, n, node); n++)
    if (pb_string_is(*node, 1, 0, name)) return true;
  return false;
}

/* A session with this ConfigProto, which is freed. */
static inline TF_Session *configured_session(TF_Graph *g, Pb config) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetConfig(options, config.data, config.length, status);
  CHECK_OK(status);
  free(config.data);
  TF_Session *session = TF_NewSession(g, options, status);
  TF_DeleteSessionOptions(options);
  CHECK_OK(status);
  return session;
}

#endif
