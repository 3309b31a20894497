/* Functions: made from graphs, as messages, in graphs, and what is refused. */
#include "functions.h"
#include "pb.h"

#include "tensorflow/c/c_api_experimental.h"

/* ---- a function as text ---- */

typedef struct {
  char data[4096];
  size_t length;
} Text;

static void add_bytes(Text *text, PbView bytes) {
  CHECK(text->length + bytes.length < sizeof text->data);
  memcpy(text->data + text->length, bytes.data, bytes.length);
  text->length += bytes.length;
  text->data[text->length] = '\0';
}

static void add_text(Text *text, const char *more) {
  PbView view = {(const unsigned char *)more, strlen(more)};
  add_bytes(text, view);
}

/* The string field `field` of `message`; empty if it is not there. */
static PbView string_of(PbView message, int field) {
  PbView value = {NULL, 0};
  if (!pb_find(message, field, 0, &value)) value.length = 0;
  return value;
}

/* The value of `key` in a map of strings. */
static PbView map_get(PbView message, int field, PbView key) {
  PbView entry;
  for (int n = 0; pb_find(message, field, n, &entry); n++) {
    PbView name = string_of(entry, 1);
    if (name.length == key.length && memcmp(name.data, key.data, key.length) == 0) return string_of(entry, 2);
  }
  CHECK_FAIL("no key %.*s in field %d", (int)key.length, (const char *)key.data, field);
}

static void add_args(Text *text, PbView signature, int field) {
  PbView arg;
  for (int n = 0; pb_find(signature, field, n, &arg); n++) {
    char type[16];
    if (n > 0) add_text(text, ", ");
    add_bytes(text, string_of(arg, 1));
    snprintf(type, sizeof type, ":%d", (int)pb_find_int(arg, 3));
    add_text(text, type);
  }
}

/* `F(x:1) -> (y:1) n=Neg(x); return n:y:0; control c=c`, where numbers are dtypes. */
static const char *text_of(TF_Function *function) {
  static Text text;
  PbView signature, node, name, input;
  TF_Buffer *buffer = TF_NewBuffer();
  TF_FunctionToFunctionDef(function, buffer, status);
  CHECK_OK(status);
  PbView def = pb_view(buffer);
  text.length = 0;
  CHECK(pb_find(def, 1, 0, &signature));
  add_bytes(&text, string_of(signature, 1));
  add_text(&text, "(");
  add_args(&text, signature, 2);
  add_text(&text, ") -> (");
  add_args(&text, signature, 3);
  add_text(&text, ")");
  if (pb_find_int(signature, 17)) add_text(&text, " stateful");
  for (int n = 0; pb_find(def, 3, n, &node); n++) {
    add_text(&text, " ");
    add_bytes(&text, string_of(node, 1));
    add_text(&text, "=");
    add_bytes(&text, string_of(node, 2));
    add_text(&text, "(");
    for (int i = 0; pb_find(node, 3, i, &input); i++) {
      if (i > 0) add_text(&text, ",");
      add_bytes(&text, input);
    }
    add_text(&text, ");");
  }
  for (int n = 0; pb_find(signature, 3, n, &node); n++) {
    add_text(&text, " return ");
    add_bytes(&text, map_get(def, 4, string_of(node, 1)));
    add_text(&text, ";");
  }
  for (int n = 0; pb_find(signature, 20, n, &name); n++) {
    add_text(&text, " control ");
    add_bytes(&text, name);
    add_text(&text, "=");
    add_bytes(&text, map_get(def, 6, name));
    add_text(&text, ";");
  }
  TF_DeleteBuffer(buffer);
  return text.data;
}

/* Checks the text of a function and deletes it. */
#define CHECK_FUNCTION(function, text)     \
  do {                                     \
    TF_Function *check_f = (function);     \
    CHECK_OK(status);                      \
    CHECK(check_f != NULL);                \
    CHECK_STR(text_of(check_f), text);     \
    TF_DeleteFunction(check_f);            \
  } while (0)

#define CHECK_NO_FUNCTION(function, code, message) \
  do {                                             \
    TF_Function *check_f = (function);             \
    CHECK_ERROR(status, code, message);            \
    CHECK(check_f == NULL);                        \
  } while (0)

/* ---- from graphs ---- */

static void names_of_arguments_and_nodes(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "My/Input.Name"), 0);
  TF_Output same = output(placeholder(g, TF_INT32, "my_input_name"), 0);
  TF_Output digits = output(placeholder(g, TF_INT32, "9.8_7"), 0);
  TF_Output underscore = output(placeholder(g, TF_FLOAT, "9/aB"), 0);
  TF_Output n = output(unary(g, "Neg", x, "my_input_name_0"), 0);
  TF_Output m = output(unary(g, "Neg", n, "M"), 0);
  TF_Output u = output(unary(g, "Neg", underscore, "unknown"), 0);
  TF_Output inputs[] = {x, same, digits, underscore}, outputs[] = {m, m, u, n};
  CHECK_FUNCTION(function_of(g, "lower", 4, inputs, 4, outputs),
                 "lower(my_input_name:1, my_input_name_1:3, unknown_0:3, ab:1) -> (m:1, m_0:1, unknown:1, "
                 "my_input_name_0:1) my_input_name_0_0=Neg(my_input_name); M=Neg(my_input_name_0_0:y:0); "
                 "unknown_1=Neg(ab); return M:y:0; return M:y:0; return unknown_1:y:0; return my_input_name_0_0:y:0;");
  TF_DeleteGraph(g);
}

static void names_of_outputs(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "r"), 0), n = output(unary(g, "Neg", x, "Q"), 0);
  TF_Output outputs[] = {n, x};
  const char *names[] = {"r", "Q"}, *twice[] = {"r", "r"};
  CHECK_FUNCTION(TF_GraphToFunction(g, "F", 0, -1, NULL, 1, &x, 2, outputs, names, NULL, NULL, status),
                 "F(r_0:1) -> (r:1, Q:1) Q_0=Neg(r_0); return Q_0:y:0; return r_0;");
  CHECK_NO_FUNCTION(TF_GraphToFunction(g, "F", 0, -1, NULL, 1, &x, 2, outputs, twice, NULL, NULL, status),
                    TF_INVALID_ARGUMENT,
                    "Cannot have duplicate output names. Name 'r' appears more than once in 'output_names' array.");
  TF_DeleteGraph(g);
}

static void the_body_is_chosen(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0);
  TF_Operation *a = unary(g, "Neg", x, "a"), *b = unary(g, "Abs", output(a, 0), "b");
  TF_Operation *c = unary(g, "Exp", output(b, 0), "c");
  const TF_Operation *opers[] = {c, b};
  TF_Output from_a = output(a, 0), from_c = output(c, 0);
  CHECK_FUNCTION(TF_GraphToFunction(g, "F", 0, 2, opers, 1, &from_a, 1, &from_c, NULL, NULL, NULL, status),
                 "F(a:1) -> (c:1) c_0=Exp(b:y:0); b=Abs(a); return c_0:y:0;");
  /* An argument whose node is in the body too: everybody reads the argument. */
  const TF_Operation *with_a[] = {a, b};
  TF_Output from_b = output(b, 0), inputs[] = {x, from_a};
  CHECK_FUNCTION(TF_GraphToFunction(g, "F", 0, 2, with_a, 2, inputs, 1, &from_b, NULL, NULL, NULL, status),
                 "F(x:1, a:1) -> (b:1) a_0=Neg(x); b_0=Abs(a); return b_0:y:0;");
  /* The same argument as result: it passes through, though its node is not in the body. */
  CHECK_FUNCTION(TF_GraphToFunction(g, "F", 0, 0, NULL, 1, &from_a, 1, &from_a, NULL, NULL, NULL, status),
                 "F(a_0:1) -> (a:1) return a_0;");
  CHECK_FUNCTION(TF_GraphToFunction(g, "Empty", 0, 0, NULL, 0, NULL, 0, NULL, NULL, NULL, NULL, status), "Empty() -> ()");
  CHECK_NO_FUNCTION(TF_GraphToFunction(g, "F", 0, 1, opers, 0, NULL, 1, &from_c, NULL, NULL, NULL, status),
                    TF_INVALID_ARGUMENT,
                    "Input 0, 'b:0', of node 'c' in function 'F' is not available. You might need to include it in "
                    "inputs or include its source node in the body");
  CHECK_NO_FUNCTION(TF_GraphToFunction(g, "F", 0, 0, NULL, 0, NULL, 1, &from_c, NULL, NULL, NULL, status),
                    TF_INVALID_ARGUMENT,
                    "TF_Output c:0 is neither in the function body nor among function inputs. Encountered while "
                    "creating function 'F'");
  TF_DeleteGraph(g);
}

static void several_outputs_of_a_node(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0);
  TF_OperationDescription *desc = TF_NewOperation(g, "Unpack", "u");
  TF_AddInput(desc, x);
  TF_SetAttrInt(desc, "num", 3);
  TF_Operation *u = finish(desc);
  desc = TF_NewOperation(g, "TopKV2", "top");
  TF_AddInput(desc, output(u, 1));
  TF_AddInput(desc, output(constant(g, i32_scalar(2), "k"), 0));
  TF_Operation *top = finish(desc);
  TF_Output outputs[] = {{u, 2}, {top, 1}, {top, 0}}, two[] = {{u, 0}, {u, 2}};
  CHECK_FUNCTION(function_of(g, "F", 1, &x, 3, outputs),
                 "F(x:1) -> (u:1, top:3, top_0:1) u_0=Unpack(x); k=Const(); top_1=TopKV2(u_0:output:1,k:output:0); "
                 "return u_0:output:2; return top_1:indices:0; return top_1:values:0;");
  CHECK_NO_FUNCTION(function_of(g, "F", 2, two, 0, NULL), TF_INVALID_ARGUMENT,
                    "When `num_opers` is set to -1, nodes referenced in `inputs` must have a single output. Node u has "
                    "3 outputs. Encountered while creating function 'F'");
  const TF_Operation *body[] = {top, TF_GraphOperationByName(g, "k")};
  TF_Output second[] = {{u, 1}, {u, 0}}, first = output(top, 0);
  CHECK_FUNCTION(TF_GraphToFunction(g, "F", 0, 2, body, 2, second, 1, &first, NULL, NULL, NULL, status),
                 "F(u:1, u_0:1) -> (top:1) top_0=TopKV2(u,k:output:0); k=Const(); return top_0:values:0;");
  TF_DeleteGraph(g);
}

static void control_edges(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "X"), 0);
  TF_Operation *z = no_op(g, "z"), *a = no_op(g, "a");
  TF_OperationDescription *desc = TF_NewOperation(g, "Neg", "n");
  TF_AddInput(desc, x);
  TF_AddControlInput(desc, z);
  TF_AddControlInput(desc, a);
  TF_AddControlInput(desc, x.oper);
  TF_Operation *n = finish(desc);
  TF_Output y = output(n, 0);
  CHECK_FUNCTION(function_of(g, "F", 1, &x, 1, &y),
                 "F(x:1) -> (n:1) z=NoOp(); a=NoOp(); n_0=Neg(x,^x,^a,^z); return n_0:y:0;");
  const TF_Operation *body[] = {n, a};
  CHECK_NO_FUNCTION(TF_GraphToFunction(g, "F", 0, 2, body, 1, &x, 1, &y, NULL, NULL, NULL, status), TF_INVALID_ARGUMENT,
                    "The source of control edge [");
  CHECK_MESSAGE(status, "z:-1 -> n:-1] is not in the body. Encountered while creating function 'F'");
  TF_DeleteGraph(g);
}

static TF_Function *with_controls(TF_Graph *g, int n, const TF_Operation *const *opers, const char *const *names) {
  return TF_GraphToFunctionWithControlOutputs(g, "F", 0, -1, NULL, 0, NULL, 0, NULL, NULL, n, opers, names, NULL, NULL,
                                              status);
}

static void control_outputs(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *b = no_op(g, "b"), *a = no_op(g, "a");
  const TF_Operation *opers[] = {b, a}, *same[] = {a, a};
  const char *names[] = {"one", "two"}, *twice[] = {"one", "one"}, *empty[] = {"one", ""};
  CHECK_FUNCTION(with_controls(g, 2, opers, NULL), "F() -> () b=NoOp(); a=NoOp(); control a=a; control b=b;");
  CHECK_FUNCTION(with_controls(g, 2, opers, names), "F() -> () b=NoOp(); a=NoOp(); control one=b; control two=a;");
  CHECK_FUNCTION(with_controls(g, 2, same, names), "F() -> () b=NoOp(); a=NoOp(); control one=a; control two=a;");
  CHECK_NO_FUNCTION(with_controls(g, 2, same, NULL), TF_INVALID_ARGUMENT, "Repeated control output name: a");
  CHECK_NO_FUNCTION(with_controls(g, 2, opers, twice), TF_INVALID_ARGUMENT, "Repeated control output name: one");
  CHECK_NO_FUNCTION(with_controls(g, 2, opers, empty), TF_INVALID_ARGUMENT, "Control output name must be not empty");
  const TF_Operation *only_a[] = {a};
  CHECK_NO_FUNCTION(TF_GraphToFunctionWithControlOutputs(g, "F", 0, 1, only_a, 0, NULL, 0, NULL, NULL, 2, opers, names,
                                                         NULL, NULL, status),
                    TF_INVALID_ARGUMENT, "Control output node name must be not empty");
  TF_DeleteGraph(g);
}

static void inputs_and_outputs_are_checked(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0), n = output(unary(g, "Neg", x, "n"), 0);
  TF_Output twice[] = {x, x}, bad = {n.oper, 5}, none = {NULL, 0};
  CHECK_NO_FUNCTION(function_of(g, "F", 2, twice, 1, &n), TF_INVALID_ARGUMENT,
                    "TF_Output x:0 appears more than once in the input list");
  CHECK_NO_FUNCTION(function_of(g, "F", 1, &x, 1, &bad), TF_OUT_OF_RANGE,
                    "Node 'n' (type: 'Neg', num of outputs: 1) does not have output 5\n\tEncountered while processing "
                    "output 0 from function 'F'");
  CHECK_NO_FUNCTION(function_of(g, "F", 1, &bad, 1, &n), TF_OUT_OF_RANGE,
                    "\n\tEncountered while processing input 0 into function 'F'");
  CHECK_NO_FUNCTION(function_of(g, "F", 1, &none, 1, &n), TF_INVALID_ARGUMENT, "");
  TF_OperationDescription *desc = TF_NewOperation(g, "VariableV2", "v");
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", NULL, 0);
  TF_Output v = output(finish(desc), 0);
  CHECK_NO_FUNCTION(function_of(g, "F", 1, &v, 1, &n), TF_INVALID_ARGUMENT,
                    "Output 0 of node 'v' has a reference type float_ref\n\tEncountered while processing input 0 into "
                    "function 'F'");
  TF_DeleteGraph(g);
}

static void attrs_of_arguments(void) {
  TF_Graph *g = TF_NewGraph();
  int64_t dims[] = {2, -1};
  TF_OperationDescription *desc = TF_NewOperation(g, "Placeholder", "x");
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", dims, 2);
  TF_SetAttrInt(desc, "_mine", 7);
  TF_Output x = output(finish(desc), 0), y = output(unary(g, "Neg", x, "y"), 0);
  TF_Function *function = function_of(g, "F", 1, &x, 1, &y);
  CHECK_OK(status);
  TF_Buffer *buffer = TF_NewBuffer();
  TF_FunctionToFunctionDef(function, buffer, status);
  CHECK_OK(status);
  /* arg_attr is a map from the argument's number, which is left out for 0, to a message with the map of its attrs. */
  PbView entry, attrs, attr, value, list, shape, dim;
  CHECK_INT(pb_count(pb_view(buffer), 7), 1);
  CHECK(pb_find(pb_view(buffer), 7, 0, &entry));
  CHECK_INT(pb_find_int(entry, 1), 0);
  CHECK(pb_find(entry, 2, 0, &attrs));
  CHECK_INT(pb_count(attrs, 1), 2);
  for (int n = 0; n < 2; n++) {
    CHECK(pb_find(attrs, 1, n, &attr) && pb_find(attr, 2, 0, &value));
    if (pb_string_is(attr, 1, 0, "_mine")) {
      CHECK_INT(pb_find_int(value, 3), 7);
      continue;
    }
    CHECK(pb_string_is(attr, 1, 0, "_output_shapes"));
    CHECK(pb_find(value, 1, 0, &list) && pb_find(list, 7, 0, &shape));
    CHECK(pb_find(shape, 2, 0, &dim) && pb_find_int(dim, 1) == 2);
    CHECK(pb_find(shape, 2, 1, &dim) && pb_find_int(dim, 1) == -1);
  }
  TF_DeleteBuffer(buffer);
  TF_DeleteFunction(function);
  TF_DeleteGraph(g);
}

static void a_function_of_stateful_nodes_is_stateful(void) {
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "RandomUniform", "r");
  TF_AddInput(desc, output(constant(g, i32_vector(1, (int32_t[]){2}), "shape"), 0));
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_Output r = output(finish(desc), 0);
  CHECK_FUNCTION(function_of(g, "F", 0, NULL, 1, &r),
                 "F() -> (r:1) stateful shape=Const(); r_0=RandomUniform(shape:output:0); return r_0:output:0;");
  TF_DeleteGraph(g);
}

static TF_Output checked(TF_Graph *g, TF_Output x, const char *name) {
  TF_OperationDescription *desc = TF_NewOperation(g, "CheckNumerics", name);
  TF_AddInput(desc, x);
  TF_SetAttrPlaceholder(desc, "message", "words");
  return output(finish(desc), 0);
}

static void placeholder_attrs_become_attrs_of_the_function(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0), y = checked(g, checked(g, x, "a"), "b");
  TF_Function *function = function_of(g, "F", 1, &x, 1, &y);
  CHECK_OK(status);
  TF_Buffer *buffer = TF_NewBuffer();
  TF_FunctionToFunctionDef(function, buffer, status);
  PbView signature, attr;
  CHECK(pb_find(pb_view(buffer), 1, 0, &signature));
  CHECK_INT(pb_count(signature, 4), 1);
  CHECK(pb_find(signature, 4, 0, &attr));
  CHECK(pb_string_is(attr, 1, 0, "words") && pb_string_is(attr, 2, 0, "string"));
  TF_DeleteBuffer(buffer);
  TF_DeleteFunction(function);
  TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", "bad");
  TF_SetAttrPlaceholder(desc, "_unknown", "p");
  finish(desc);
  CHECK_NO_FUNCTION(function_of(g, "F", 1, &x, 1, &y), TF_UNIMPLEMENTED,
                    "Placeholder value is not supported for attributes not in OpDef. Attribute: _unknown, OpDef: ");
  TF_DeleteGraph(g);
}

static TF_Function *hashed(const char *op, const char *description) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0), y = output(unary(g, op, x, "n"), 0);
  TF_Function *function =
      TF_GraphToFunction(g, "Name", 1, -1, NULL, 1, &x, 1, &y, NULL, NULL, description, status);
  CHECK_OK(status);
  TF_DeleteGraph(g);
  return function;
}

static void hashes_depend_on_the_definition(void) {
  TF_Function *a = hashed("Neg", NULL), *b = hashed("Neg", NULL), *c = hashed("Exp", NULL);
  CHECK(strncmp(TF_FunctionName(a), "Name_", 5) == 0);
  CHECK_INT(strlen(TF_FunctionName(a)), 16);
  CHECK_INT(strspn(TF_FunctionName(a) + 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"), 11);
  CHECK_STR(TF_FunctionName(a), TF_FunctionName(b));
  CHECK(strcmp(TF_FunctionName(a), TF_FunctionName(c)) != 0);
  TF_DeleteFunction(a);
  TF_DeleteFunction(b);
  TF_DeleteFunction(c);
}

static void descriptions(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Function *f = TF_GraphToFunction(g, "F", 0, -1, NULL, 0, NULL, 0, NULL, NULL, NULL, "says what", status);
  CHECK_OK(status);
  TF_Buffer *buffer = TF_NewBuffer();
  TF_FunctionToFunctionDef(f, buffer, status);
  PbView signature;
  CHECK(pb_find(pb_view(buffer), 1, 0, &signature) && pb_string_is(signature, 6, 0, "says what"));
  TF_FunctionToFunctionDef(f, buffer, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Passing non-empty TF_Buffer is invalid.");
  TF_DeleteBuffer(buffer);
  TF_DeleteFunction(f);
  TF_DeleteGraph(g);
}

/* ---- as messages ---- */

static void messages_come_back(void) {
  TF_Function *f = unary_function("F", "Neg");
  TF_Buffer *buffer = TF_NewBuffer();
  TF_FunctionToFunctionDef(f, buffer, status);
  CHECK_OK(status);
  TF_DeleteFunction(f);
  f = TF_FunctionImportFunctionDef(buffer->data, buffer->length, status);
  CHECK_OK(status);
  CHECK_STR(TF_FunctionName(f), "F");
  CHECK_FUNCTION(f, "F(x:1) -> (n:1) n_0=Neg(x); return n_0:y:0;");
  CHECK_NO_FUNCTION(TF_FunctionImportFunctionDef("\x0a\xff", 2, status), TF_INVALID_ARGUMENT,
                    "Invalid FunctionDef given to TF_FunctionImportFunctionDef");
  TF_DeleteBuffer(buffer);
  TF_DeleteFunction(NULL);
}

static void attrs_of_functions(void) {
  TF_Function *f = unary_function("F", "Neg");
  Pb value = {0};
  pb_int(&value, 3, 42);
  TF_FunctionSetAttrValueProto(f, "_one", value.data, value.length, status);
  CHECK_OK(status);
  TF_Buffer *buffer = TF_NewBuffer();
  TF_FunctionGetAttrValueProto(f, "_one", buffer, status);
  CHECK_OK(status);
  CHECK_INT(pb_find_int(pb_view(buffer), 3), 42);
  TF_FunctionGetAttrValueProto(f, "nope", buffer, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Function 'F' has no attr named 'nope'.");
  TF_FunctionSetAttrValueProto(f, "_one", "\x0a\xff", 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable AttrValue proto passed to TF_FunctionSetAttrValueProto");
  TF_DeleteBuffer(buffer);
  free(value.data);
  TF_DeleteFunction(f);
}

static void text_for_people(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0);
  TF_OperationDescription *desc = TF_NewOperation(g, "Neg", "n");
  TF_AddInput(desc, x);
  TF_AddControlInput(desc, no_op(g, "c"));
  TF_SetDevice(desc, "/device:CPU:0");
  TF_Operation *n = finish(desc);
  TF_Output y = output(n, 0);
  const TF_Operation *controls[] = {n};
  TF_Function *f = TF_GraphToFunctionWithControlOutputs(g, "F", 0, -1, NULL, 1, &x, 1, &y, NULL, 1, controls, NULL, NULL,
                                                        NULL, status);
  CHECK_OK(status);
  size_t length = 0;
  char *text = TF_FunctionDebugString(f, &length);
  CHECK_INT(length, strlen(text));
  CHECK_STR(text,
            "\nF(x:float) -> (n:float) {\n  c = NoOp()\n  n_0 = Neg[T=float, device=CPU:0](x) @ c\n"
            "  @return n = n_0\n  return n = n_0:y:0\n}\n");
  free(text);
  TF_DeleteFunction(f);
  TF_DeleteGraph(g);
}

/* ---- in graphs ---- */

static void copies_into_graphs(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Function *f = unary_function("MyNeg", "Neg"), *other = unary_function("MyNeg", "Exp");
  TF_GraphCopyFunction(g, NULL, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "'func' argument to TF_GraphCopyFunction cannot be null");
  TF_GraphCopyFunction(g, f, NULL, status);
  CHECK_OK(status);
  TF_GraphCopyFunction(g, f, NULL, status);
  CHECK_OK(status);
  CHECK_INT(TF_GraphNumFunctions(g), 1);
  TF_GraphCopyFunction(g, other, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "Cannot add function 'MyNeg' because a different function with the same name already exists.");
  CHECK_INT(TF_GraphNumFunctions(g), 1);
  TF_Function *op = unary_function("Neg", "Exp");
  TF_GraphCopyFunction(g, op, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Cannot add function 'Neg' because an op with the same name already exists.");
  TF_DeleteFunction(op);
  TF_DeleteFunction(f);
  TF_DeleteFunction(other);
  /* The copy in the graph does not mind. */
  TF_Function *found[2] = {NULL, NULL};
  CHECK_INT(TF_GraphGetFunctions(g, found, 0, status), 0);
  CHECK_OK(status);
  CHECK_INT(TF_GraphGetFunctions(g, found, 2, status), 1);
  CHECK_OK(status);
  CHECK(found[1] == NULL);
  CHECK_FUNCTION(found[0], "MyNeg(x:1) -> (n:1) n_0=Neg(x); return n_0:y:0;");
  TF_GraphRemoveFunction(g, "nope", status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Tried to remove non-existent function 'nope'.");
  TF_GraphRemoveFunction(g, "MyNeg", status);
  CHECK_OK(status);
  CHECK_INT(TF_GraphNumFunctions(g), 0);
  TF_DeleteGraph(g);
}

static void gradients_of_functions(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Function *f = unary_function("F", "Neg"), *grad = unary_function("Grad", "Exp");
  TF_Function *grad2 = unary_function("Grad2", "Exp");
  TF_GraphCopyFunction(g, f, grad, status);
  CHECK_OK(status);
  CHECK_INT(TF_GraphNumFunctions(g), 2);
  TF_GraphCopyFunction(g, f, grad2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "Cannot assign gradient function 'Grad2' to 'F' because it already has gradient function 'Grad'");
  /* The header promises an unchanged graph; the reference leaves Grad2 in it. */
  if (!is_tfcore()) TF_GraphRemoveFunction(g, "Grad2", status);
  CHECK_INT(TF_GraphNumFunctions(g), 2);
  TF_Buffer *buffer = TF_NewBuffer();
  TF_GraphToGraphDef(g, buffer, status);
  CHECK_OK(status);
  PbView library, gradient, versions;
  CHECK(pb_find(pb_view(buffer), 2, 0, &library));
  CHECK_INT(pb_count(library, 1), 2);
  CHECK_INT(pb_count(library, 2), 1);
  CHECK(pb_find(library, 2, 0, &gradient));
  CHECK(pb_string_is(gradient, 1, 0, "F") && pb_string_is(gradient, 2, 0, "Grad"));
  /* Functions ask for a consumer that knows them. */
  CHECK(pb_find(pb_view(buffer), 4, 0, &versions));
  CHECK_INT(pb_find_int(versions, 2), 12);
  /* All of it comes back from the GraphDef. */
  TF_Graph *copy = TF_NewGraph();
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(copy, buffer, options, status);
  CHECK_OK(status);
  CHECK_INT(TF_GraphNumFunctions(copy), 2);
  TF_GraphCopyFunction(copy, f, grad2, status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteGraph(copy);
  TF_DeleteBuffer(buffer);
  TF_DeleteFunction(f);
  TF_DeleteFunction(grad);
  TF_DeleteFunction(grad2);
  TF_DeleteGraph(g);
}

static void functions_are_ops_of_their_graph(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Function *f = unary_function("MyNeg", "Neg");
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0);
  TF_OperationDescription *desc = TF_NewOperation(g, "MyNeg", "early");
  TF_AddInput(desc, x);
  finish_fails(desc, TF_INVALID_ARGUMENT, "Op type not registered 'MyNeg' in binary running on ");
  TF_GraphCopyFunction(g, f, NULL, status);
  CHECK_OK(status);
  TF_DeleteFunction(f);
  TF_Operation *call = unary(g, "MyNeg", x, "call");
  CHECK_STR(TF_OperationOpType(call), "MyNeg");
  CHECK_INT(TF_OperationNumOutputs(call), 1);
  CHECK_INT(TF_OperationOutputType(output(call, 0)), TF_FLOAT);
  CHECK_INT(TF_OperationOutputListLength(call, "n", status), 1);
  CHECK_OK(status);
  CHECK_INT(TF_GraphGetTensorNumDims(g, output(call, 0), status), -1);
  CHECK_OK(status);
  desc = TF_NewOperation(g, "MyNeg", "wrong");
  TF_AddInput(desc, output(constant(g, i32_scalar(1), "one"), 0));
  finish_fails(desc, TF_INVALID_ARGUMENT, "expected float");
  TF_Buffer *buffer = TF_NewBuffer();
  TF_GraphGetOpDef(g, "MyNeg", buffer, status);
  CHECK_OK(status);
  CHECK(pb_string_is(pb_view(buffer), 1, 0, "MyNeg"));
  TF_DeleteBuffer(buffer);
  /* Calls and functions travel together. */
  buffer = TF_NewBuffer();
  TF_GraphToGraphDef(g, buffer, status);
  TF_Graph *copy = TF_NewGraph();
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(copy, buffer, options, status);
  CHECK_OK(status);
  CHECK_STR(TF_OperationOpType(TF_GraphOperationByName(copy, "call")), "MyNeg");
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(buffer);
  TF_DeleteGraph(copy);
  /* A call outlives its function. */
  TF_GraphRemoveFunction(g, "MyNeg", status);
  CHECK_OK(status);
  CHECK_STR(TF_OperationOpType(call), "MyNeg");
  TF_DeleteGraph(g);
}

/* ---- damaged definitions ---- */

/* `F(x:float) -> (y:float)` with nodes such as "n Neg x", at most two, and `y` from `ret`. */
static void damaged(const char *first, const char *second, const char *ret, TF_Code code, const char *message) {
  Pb signature = {0}, def = {0}, x = {0}, y = {0}, entry = {0};
  pb_string(&x, 1, "x");
  pb_int(&x, 3, TF_FLOAT);
  pb_string(&y, 1, "y");
  pb_int(&y, 3, TF_FLOAT);
  pb_string(&signature, 1, "F");
  pb_message(&signature, 2, x);
  pb_message(&signature, 3, y);
  pb_message(&def, 1, signature);
  const char *nodes[] = {first, second};
  for (int i = 0; i < 2 && nodes[i] != NULL; i++) {
    char words[3][32] = {"", "", ""}, control[32] = "";
    int count = sscanf(nodes[i], "%31s %31s %31s %31s", words[0], words[1], words[2], control);
    Pb node = pb_node(words[0], words[1]);
    if (count > 2) pb_string(&node, 3, words[2]);
    if (count > 3) pb_string(&node, 3, control);
    if (strcmp(words[1], "NoOp") != 0) pb_attr_type(&node, "T", TF_FLOAT);
    pb_message(&def, 3, node);
  }
  pb_string(&entry, 1, "y");
  pb_string(&entry, 2, ret);
  pb_message(&def, 4, entry);
  TF_Function *f = TF_FunctionImportFunctionDef(def.data, def.length, status);
  CHECK_OK(status);
  TF_Graph *g = TF_NewGraph();
  TF_GraphCopyFunction(g, f, NULL, status);
  CHECK_OK(status);
  TF_OperationDescription *desc = TF_NewOperation(g, "F", "call");
  TF_AddInput(desc, output(constant(g, f32_scalar(1), "one"), 0));
  finish_fails(desc, code, message);
  CHECK_INT(count_operations(g), 1);
  free(def.data);
  TF_DeleteFunction(f);
  TF_DeleteGraph(g);
}

static void damaged_definitions(void) {
  const TF_Code bad = TF_INVALID_ARGUMENT;
  damaged("n Neg nope", NULL, "n:y:0", bad, "input nope is not found: {{node n}}\n\tIn {{node n}}");
  damaged("n Neg n", NULL, "n:y:0", bad, "input n is not found: {{node n}}");
  damaged("n Neg x:1", NULL, "n:y:0", bad, "input x:1 is not found: {{node n}}");
  damaged("n Neg", NULL, "n:y:0", bad, "Attempt to access beyond input size: 0 >= 0\n\tIn {{node n}}");
  damaged("n Neg x x", NULL, "n:y:0", bad, "Expected input[1] == 'x' to be a control input.\n\tIn {{node n}}");
  damaged("n Neg x ^z", NULL, "n:y:0", bad, "input[1] == '^z', is not found.\n\tIn {{node n}}");
  damaged("n Neg x", "n Neg x", "n:y:0", bad, "Duplicated ret name: n:y\n\tIn {{node n}}");
  damaged("e NoOp", "e NoOp", "x", bad, "Duplicated ret name: e\n\tIn {{node e}}");
  damaged("x NoOp", NULL, "x", bad, "Duplicated ret name: x\n\tIn {{node x}}");
  damaged("x Neg x", NULL, "x", bad, "Node 'x' is not unique");
  damaged("n Neg m:y:0", "m Neg n:y:0", "n:y:0", bad, "3 nodes in a cycle");
  damaged("n NoSuchOp x", NULL, "n:y:0", TF_NOT_FOUND, "Op type not registered 'NoSuchOp' in binary running on ");
  damaged("n Neg x", NULL, "z:y:0", bad, "Return y -> z:y:0 is not found.\n\tIn function output y:float");
  damaged("n!n Neg x", NULL, "n!n:y:0", bad, "Node 'n!n': Node name contains invalid characters");
}

CASES(CASE(names_of_arguments_and_nodes), CASE(names_of_outputs), CASE(the_body_is_chosen),
      CASE(several_outputs_of_a_node), CASE(control_edges), CASE(control_outputs),
      CASE(inputs_and_outputs_are_checked), CASE(attrs_of_arguments),
      CASE(a_function_of_stateful_nodes_is_stateful), CASE(placeholder_attrs_become_attrs_of_the_function),
      CASE(hashes_depend_on_the_definition), CASE(descriptions), CASE(messages_come_back), CASE(attrs_of_functions),
      CASE(text_for_people), CASE(copies_into_graphs), CASE(gradients_of_functions),
      CASE(functions_are_ops_of_their_graph), CASE(damaged_definitions))
