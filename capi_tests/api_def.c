/* How language bindings present ops: ApiDefMap.
 *
 * ApiDef: 1 graph_op_name, 2 visibility, 3 endpoint (1 name), 4 in_arg, 5 out_arg (1 name, 2 rename_to, 3 description),
 * 6 attr, 7 summary, 8 description, 11 arg_order. */
#include "nodes.h"
#include "pb.h"

static TF_ApiDefMap *new_map(void) {
  TF_Buffer *ops = TF_GetAllOpList();
  TF_ApiDefMap *map = TF_NewApiDefMap(ops, status);
  CHECK_OK(status);
  CHECK(map != NULL);
  TF_DeleteBuffer(ops);
  return map;
}

static void put(TF_ApiDefMap *map, const char *text) { TF_ApiDefMapPut(map, text, strlen(text), status); }

static void put_ok(TF_ApiDefMap *map, const char *text) {
  put(map, text);
  CHECK_OK(status);
}

static TF_Buffer *get(TF_ApiDefMap *map, const char *name) {
  TF_Buffer *def = TF_ApiDefMapGet(map, name, strlen(name), status);
  CHECK_OK(status);
  return def;
}

static void implied(void) {
  TF_ApiDefMap *map = new_map();
  TF_Buffer *buffer = get(map, "MatMul");
  CHECK(buffer != NULL);
  PbView def = pb_view(buffer), part;
  CHECK(pb_string_is(def, 1, 0, "MatMul"));
  CHECK_INT(pb_find_int(def, 2), 1);
  CHECK(pb_find(def, 3, 0, &part));
  CHECK(pb_string_is(part, 1, 0, "MatMul"));
  CHECK_INT(pb_count(def, 4), 2);
  CHECK_INT(pb_count(def, 5), 1);
  CHECK(pb_find(def, 4, 1, &part));
  CHECK(pb_string_is(part, 1, 0, "b"));
  CHECK(pb_string_is(part, 2, 0, "b"));
  CHECK(pb_string_is(def, 11, 0, "a"));
  CHECK(pb_string_is(def, 11, 1, "b"));
  TF_DeleteBuffer(buffer);
  CHECK(get(map, "NoSuchOp") == NULL);
  TF_DeleteApiDefMap(map);
}

static void overridden(void) {
  TF_ApiDefMap *map = new_map();
  put_ok(map, "# Comments are skipped.\n"
              "op {\n  graph_op_name: \"NoSuchOp\"\n  summary: \"skipped\"\n}\n"
              "op {\n"
              "  graph_op_name: \"Sub\"\n"
              "  visibility: HIDDEN\n"
              "  endpoint { name: \"math.subtract\" } endpoint { name: 'sub' }\n"
              "  in_arg { name: \"x\" rename_to: \"left\"\n"
              "    description: <<END\n"
              "What `y` is taken \"from\".\n"
              "  As it is, with a \\.\n"
              "END\n"
              "  }\n"
              "  arg_order: \"y\" arg_order: \"x\"\n"
              "  summary: \"`Sub` of `x`\\n\"\n"
              "  description: 'one ' \"two\"\n"
              "  description_suffix: \"three\"\n"
              "}\n");
  TF_Buffer *buffer = get(map, "Sub");
  PbView def = pb_view(buffer), part;
  CHECK_INT(pb_find_int(def, 2), 3);
  CHECK_INT(pb_count(def, 3), 2);
  CHECK(pb_find(def, 4, 0, &part));
  CHECK(pb_string_is(part, 2, 0, "left"));
  CHECK(pb_string_is(part, 3, 0, "What `y` is taken \"from\".\n  As it is, with a \\."));
  CHECK(pb_string_is(def, 7, 0, "`math.subtract` of `left`\n"));
  CHECK(pb_string_is(def, 8, 0, "one two\nthree"));
  CHECK(pb_string_is(def, 11, 0, "y"));
  TF_DeleteBuffer(buffer);
  put(map, "op { graph_op_name: 'Sub' }");
  CHECK_ERROR(status, TF_FAILED_PRECONDITION, "TF_ApiDefMapPut cannot be called after TF_ApiDefMapGet has been called.");
  TF_DeleteApiDefMap(map);
}

static void mistakes(void) {
  static const struct {
    const char *text;
    TF_Code code;
    const char *message;
  } cases[] = {
      {"op { graph_op_name: ", TF_INVALID_ARGUMENT, "1(21): Expected string, got: "},
      {"op {{ }", TF_INVALID_ARGUMENT, "1(5): Expected identifier, got: {"},
      {"op {\n bogus: 1 }", TF_INVALID_ARGUMENT, "2(7): Message type \"tensorflow.ApiDef\" has no field named \"bogus\"."},
      {"op { visibility: NOPE }", TF_INVALID_ARGUMENT, "Unknown enumeration value of \"NOPE\" for field \"visibility\"."},
      {"op { summary: <<END\nno end", TF_INVALID_ARGUMENT, "2(1): Expected identifier, got: "},
      {"op { graph_op_name: 'Sub' in_arg { name: 'q' } }", TF_FAILED_PRECONDITION,
       "Argument q not defined in base api for Sub"},
      {"op { graph_op_name: 'Sub' attr { name: 'q' } }", TF_FAILED_PRECONDITION,
       "Attribute q not defined in base api for Sub"},
      {"op { graph_op_name: 'Sub' arg_order: 'x' }", TF_FAILED_PRECONDITION,
       "Invalid number of arguments 1 for Sub. Expected: 2"},
      {"op { graph_op_name: 'Sub' arg_order: ['x', 'z'] }", TF_FAILED_PRECONDITION,
       "Invalid arg_order: x, z for Sub. All elements in arg_order override must match base arg_order: x, y"},
  };
  TF_ApiDefMap *map = new_map();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    put(map, cases[i].text);
    CHECK_ERROR(status, cases[i].code, cases[i].message);
  }
  put_ok(map, "");
  TF_DeleteApiDefMap(map);
  TF_DeleteApiDefMap(NULL);
  TF_Buffer *garbage = TF_NewBufferFromString("\xff\xff", 2);
  CHECK(TF_NewApiDefMap(garbage, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable OpList");
  TF_DeleteBuffer(garbage);
}

CASES(CASE(implied), CASE(overridden), CASE(mistakes))
