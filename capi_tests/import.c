/* GraphDef import: every option, every result, and that a failed import leaves no trace. */
#include "nodes.h"
#include "pb.h"
#include "tensorflow/c/c_api_experimental.h"

static TF_Buffer *graph_def(TF_Graph *g) {
  TF_Buffer *buffer = TF_NewBuffer();
  TF_GraphToGraphDef(g, buffer, status);
  CHECK_OK(status);
  return buffer;
}

/* feed (Placeholder), scalar (Const 3), neg = -feed, add = neg + scalar; a control edge feed -> add. */
static TF_Buffer *sample(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *feed = placeholder(g, TF_INT32, "feed");
  TF_Operation *scalar = constant(g, i32_scalar(3), "scalar");
  TF_Operation *neg = unary(g, "Neg", output(feed, 0), "neg");
  TF_OperationDescription *desc = TF_NewOperation(g, "AddV2", "add");
  TF_AddInput(desc, output(neg, 0));
  TF_AddInput(desc, output(scalar, 0));
  TF_AddControlInput(desc, feed);
  finish(desc);
  TF_Buffer *buffer = graph_def(g);
  TF_DeleteGraph(g);
  return buffer;
}

/* Imports and keeps neither buffer nor options. */
static void import(TF_Graph *g, TF_Buffer *def, TF_ImportGraphDefOptions *options) {
  TF_GraphImportGraphDef(g, def, options, status);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(def);
}

static void import_fails(TF_Graph *g, TF_Buffer *def, TF_ImportGraphDefOptions *options, TF_Code code,
                         const char *part) {
  int operations = count_operations(g);
  import(g, def, options);
  CHECK_ERROR(status, code, part);
  CHECK_INT(count_operations(g), operations);
}

static TF_ImportGraphDefOptions *with_prefix(const char *prefix) {
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetPrefix(options, prefix);
  return options;
}

static TF_Operation *by_name(TF_Graph *g, const char *name) {
  TF_Operation *op = TF_GraphOperationByName(g, name);
  if (op == NULL) CHECK_FAIL("no operation named %s", name);
  return op;
}

/* ---- names ---- */

static void plain(void) {
  TF_Graph *g = TF_NewGraph();
  import(g, sample(), TF_NewImportGraphDefOptions());
  CHECK_OK(status);
  CHECK_INT(count_operations(g), 4);
  TF_Operation *add = by_name(g, "add");
  CHECK(TF_OperationInput(input(add, 0)).oper == by_name(g, "neg"));
  CHECK(TF_OperationInput(input(add, 1)).oper == by_name(g, "scalar"));
  CHECK_INT(TF_OperationNumControlInputs(add), 1);
  TF_Session *session = new_session(g);
  TF_Tensor *t = fetch_with(session, output(by_name(g, "feed"), 0), i32_scalar(5), output(add, 0));
  CHECK_INT(i32_at(t, 0), -2);
  TF_DeleteTensor(t);
  delete_session(session);
  TF_DeleteGraph(g);
}

static void empty_graph_def(void) {
  TF_Graph *g = TF_NewGraph();
  import(g, TF_NewBufferFromString("", 0), TF_NewImportGraphDefOptions());
  CHECK_OK(status);
  CHECK_INT(count_operations(g), 0);
  TF_DeleteGraph(g);
}

static void prefixes(void) {
  TF_Graph *g = TF_NewGraph();
  import(g, sample(), with_prefix("imported"));
  CHECK_OK(status);
  TF_Operation *add = by_name(g, "imported/add");
  CHECK(TF_OperationInput(input(add, 0)).oper == by_name(g, "imported/neg"));
  CHECK(TF_GraphOperationByName(g, "add") == NULL);
  import(g, sample(), with_prefix("slash/"));
  CHECK_OK(status);
  by_name(g, "slash/add");
  import(g, sample(), with_prefix("a/b"));
  CHECK_OK(status);
  by_name(g, "a/b/add");
  import(g, sample(), with_prefix(""));
  CHECK_OK(status);
  by_name(g, "add");
  import_fails(g, sample(), with_prefix("BAD!!!"), TF_INVALID_ARGUMENT,
               "Imported node name prefix 'BAD!!!/' would lead to invalid node names");
  TF_DeleteGraph(g);
}

static void name_exists(void) {
  TF_Graph *g = TF_NewGraph();
  placeholder(g, TF_FLOAT, "neg");
  import_fails(g, sample(), TF_NewImportGraphDefOptions(), TF_INVALID_ARGUMENT,
               "Node name 'neg' already exists in the Graph");
  CHECK(TF_GraphOperationByName(g, "feed") == NULL);
  TF_DeleteGraph(g);
}

/* The name of a scope is taken as well. */
static void name_is_a_scope(void) {
  TF_Graph *g = TF_NewGraph();
  no_op(g, "scalar/inside");
  import_fails(g, sample(), TF_NewImportGraphDefOptions(), TF_INVALID_ARGUMENT,
               "Node name 'scalar' already exists in the Graph");
  TF_DeleteGraph(g);
}

static void prefix_taken(void) {
  if (!is_tfcore()) return; /* the reference makes two nodes of one name */
  TF_Graph *g = TF_NewGraph();
  import(g, sample(), with_prefix("p"));
  CHECK_OK(status);
  import_fails(g, sample(), with_prefix("p"), TF_INVALID_ARGUMENT, "already exists in the Graph");
  TF_DeleteGraph(g);
}

static void unique_names(void) {
  TF_Graph *g = TF_NewGraph();
  placeholder(g, TF_INT32, "neg");
  placeholder(g, TF_INT32, "neg_1");
  no_op(g, "add/inside");
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetUniquifyNames(options, 1);
  import(g, sample(), options);
  CHECK_OK(status);
  TF_Operation *add = by_name(g, "add_1");
  CHECK(TF_OperationInput(input(add, 0)).oper == by_name(g, "neg_2"));
  CHECK(TF_OperationInput(input(add, 1)).oper == by_name(g, "scalar"));
  TF_DeleteGraph(g);
}

static void unique_prefix(void) {
  TF_Graph *g = TF_NewGraph();
  no_op(g, "imp");
  for (int i = 1; i <= 3; i++) {
    TF_ImportGraphDefOptions *options = with_prefix("imp");
    TF_ImportGraphDefOptionsSetUniquifyPrefix(options, 1);
    import(g, sample(), options);
    CHECK_OK(status);
    char name[32];
    snprintf(name, sizeof name, "imp_%d/add", i);
    by_name(g, name);
  }
  TF_DeleteGraph(g);
}

/* ---- mappings and control dependencies ---- */

static void input_mapping(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *mine = constant(g, i32_scalar(10), "mine");
  TF_ImportGraphDefOptions *options = with_prefix("i");
  TF_ImportGraphDefOptionsAddInputMapping(options, "feed", 0, output(mine, 0));
  import(g, sample(), options);
  CHECK_OK(status);
  TF_Operation *neg = by_name(g, "i/neg"), *add = by_name(g, "i/add");
  CHECK(TF_OperationInput(input(neg, 0)).oper == mine);
  by_name(g, "i/feed"); /* imported all the same */
  TF_Operation *control[2] = {NULL, NULL};
  CHECK_INT(TF_OperationGetControlInputs(add, control, 2), 1);
  CHECK(control[0] == by_name(g, "i/feed"));
  TF_DeleteGraph(g);
}

static void control_mapping(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *mine = no_op(g, "mine");
  TF_ImportGraphDefOptions *options = with_prefix("i");
  TF_ImportGraphDefOptionsRemapControlDependency(options, "feed", mine);
  import(g, sample(), options);
  CHECK_OK(status);
  TF_Operation *control[2] = {NULL, NULL};
  CHECK_INT(TF_OperationGetControlInputs(by_name(g, "i/add"), control, 2), 1);
  CHECK(control[0] == mine);
  CHECK(TF_OperationInput(input(by_name(g, "i/neg"), 0)).oper == by_name(g, "i/feed"));
  TF_DeleteGraph(g);
}

/* A mapped input need not exist in the GraphDef. */
static void input_of_an_absent_node(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *mine = placeholder(g, TF_FLOAT, "mine");
  Pb def = {0};
  pb_graph_node(&def, "neg", "Neg", "absent:0", NULL);
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsAddInputMapping(options, "absent", 0, output(mine, 0));
  import(g, pb_buffer(def), options);
  CHECK_OK(status);
  CHECK(TF_OperationInput(input(by_name(g, "neg"), 0)).oper == mine);
  TF_DeleteGraph(g);
}

static void mapping_to_a_bad_output(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *mine = placeholder(g, TF_INT32, "mine");
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsAddInputMapping(options, "feed", 0, output(mine, 7));
  import_fails(g, sample(), options, TF_INVALID_ARGUMENT,
               "Node 'neg': Connecting to invalid output 7 of source node mine which has 1 outputs.");
  TF_Operation *floats = placeholder(g, TF_FLOAT, "floats");
  options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsAddInputMapping(options, "feed", 0, output(floats, 0));
  import_fails(g, sample(), options, TF_INVALID_ARGUMENT,
               "Input 0 of node neg was passed float from floats:0 incompatible with expected int32.");
  TF_DeleteGraph(g);
}

/* Targets are found by name, so that one of another graph stands for its namesake. */
static void mapping_to_another_graph(void) {
  TF_Graph *g = TF_NewGraph(), *other = TF_NewGraph();
  TF_Operation *foreign = placeholder(other, TF_INT32, "foreign");
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsAddInputMapping(options, "feed", 0, output(foreign, 0));
  import_fails(g, sample(), options, TF_INVALID_ARGUMENT, "node 'foreign' in input_map does not exist in graph");
  TF_Operation *mine = placeholder(g, TF_INT32, "foreign");
  options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsAddInputMapping(options, "feed", 0, output(foreign, 0));
  import(g, sample(), options);
  CHECK_OK(status);
  CHECK(TF_OperationInput(input(by_name(g, "neg"), 0)).oper == mine);
  TF_DeleteGraph(other);
  TF_DeleteGraph(g);
}

static void control_dependencies(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *first = no_op(g, "first"), *second = no_op(g, "second");
  TF_ImportGraphDefOptions *options = with_prefix("i");
  TF_ImportGraphDefOptionsAddControlDependency(options, first);
  TF_ImportGraphDefOptionsAddControlDependency(options, second);
  import(g, sample(), options);
  CHECK_OK(status);
  CHECK_INT(TF_OperationNumControlInputs(by_name(g, "i/feed")), 2);
  CHECK_INT(TF_OperationNumControlInputs(by_name(g, "i/scalar")), 2);
  /* The others wait for these through their inputs. */
  CHECK_INT(TF_OperationNumControlInputs(by_name(g, "i/neg")), 0);
  CHECK_INT(TF_OperationNumControlInputs(by_name(g, "i/add")), 1);
  TF_DeleteGraph(g);
}

static void default_device(void) {
  TF_Graph *g = TF_NewGraph();
  Pb def = {0}, node = pb_node("own", "NoOp");
  pb_string(&node, 4, "/cpu:0");
  pb_message(&def, 1, node);
  pb_graph_node(&def, "none", "NoOp", NULL, NULL);
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetDefaultDevice(options, "/device:CPU:1");
  import(g, pb_buffer(def), options);
  CHECK_OK(status);
  CHECK_STR(TF_OperationDevice(by_name(g, "own")), "/cpu:0");
  CHECK_STR(TF_OperationDevice(by_name(g, "none")), "/device:CPU:1");
  TF_DeleteGraph(g);
}

static void option_strings_are_copied(void) {
  TF_Graph *g = TF_NewGraph();
  char prefix[] = "prefix", name[] = "feed";
  TF_Operation *mine = constant(g, i32_scalar(1), "mine");
  TF_ImportGraphDefOptions *options = with_prefix(prefix);
  TF_ImportGraphDefOptionsAddInputMapping(options, name, 0, output(mine, 0));
  TF_ImportGraphDefOptionsAddReturnOperation(options, name);
  memset(prefix, 'x', 6);
  memset(name, 'x', 4);
  import(g, sample(), options);
  CHECK_OK(status);
  CHECK(TF_OperationInput(input(by_name(g, "prefix/neg"), 0)).oper == mine);
  TF_DeleteGraph(g);
}

/* ---- results ---- */

static void return_outputs_and_operations(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *mine = constant(g, i32_scalar(1), "mine");
  TF_Buffer *def = sample();
  TF_ImportGraphDefOptions *options = with_prefix("i");
  CHECK_INT(TF_ImportGraphDefOptionsNumReturnOutputs(options), 0);
  CHECK_INT(TF_ImportGraphDefOptionsNumReturnOperations(options), 0);
  TF_ImportGraphDefOptionsAddInputMapping(options, "scalar", 0, output(mine, 0));
  TF_ImportGraphDefOptionsAddReturnOutput(options, "feed", 0);
  TF_ImportGraphDefOptionsAddReturnOutput(options, "scalar", 0);
  TF_ImportGraphDefOptionsAddReturnOperation(options, "scalar");
  TF_ImportGraphDefOptionsAddReturnOperation(options, "add");
  CHECK_INT(TF_ImportGraphDefOptionsNumReturnOutputs(options), 2);
  CHECK_INT(TF_ImportGraphDefOptionsNumReturnOperations(options), 2);
  TF_ImportGraphDefResults *results = TF_GraphImportGraphDefWithResults(g, def, options, status);
  CHECK_OK(status);
  int count = 0;
  TF_Output *outputs = NULL;
  TF_ImportGraphDefResultsReturnOutputs(results, &count, &outputs);
  CHECK_INT(count, 2);
  CHECK(outputs[0].oper == by_name(g, "i/feed") && outputs[0].index == 0);
  CHECK(outputs[1].oper == mine && outputs[1].index == 0); /* mapped */
  TF_Operation **operations = NULL;
  TF_ImportGraphDefResultsReturnOperations(results, &count, &operations);
  CHECK_INT(count, 2);
  CHECK(operations[0] == by_name(g, "i/scalar")); /* operations are not mapped */
  CHECK(operations[1] == by_name(g, "i/add"));
  const char **names = NULL;
  int *indexes = NULL;
  TF_ImportGraphDefResultsMissingUnusedInputMappings(results, &count, &names, &indexes);
  CHECK_INT(count, 0);
  TF_DeleteImportGraphDefResults(results);

  TF_Output pair[2];
  TF_ImportGraphDefOptionsSetPrefix(options, "again");
  TF_GraphImportGraphDefWithReturnOutputs(g, def, options, pair, 2, status);
  CHECK_OK(status);
  CHECK(pair[0].oper == by_name(g, "again/feed"));
  CHECK(pair[1].oper == mine);
  TF_ImportGraphDefOptionsSetPrefix(options, "third");
  TF_GraphImportGraphDefWithReturnOutputs(g, def, options, pair, 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Expected 'num_return_outputs' to be 2, got 1");
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(def);
  TF_DeleteGraph(g);
}

static void bad_return_values(void) {
  TF_Graph *g = TF_NewGraph();
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsAddReturnOutput(options, "ghost", 0);
  import_fails(g, sample(), options, TF_INVALID_ARGUMENT, "Requested return tensor 'ghost:0' not found in graph def");
  options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsAddReturnOutput(options, "feed", 7);
  import_fails(g, sample(), options, TF_INVALID_ARGUMENT, "Invalid return output 7 of node 'feed', which has 1 output(s)");
  options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsAddReturnOperation(options, "ghost");
  import_fails(g, sample(), options, TF_INVALID_ARGUMENT, "Requested return node 'ghost' not found in graph def");
  TF_DeleteGraph(g);
}

static void unused_mappings(void) {
  static const char ABSENT[] = "a_node_that_is_absent";
  TF_Graph *g = TF_NewGraph();
  TF_Output mine = output(constant(g, i32_scalar(1), "mine"), 0);
  TF_Buffer *def = sample();
  TF_ImportGraphDefOptions *options = with_prefix("i");
  TF_ImportGraphDefOptionsAddInputMapping(options, "feed", 0, mine);   /* used */
  TF_ImportGraphDefOptionsAddInputMapping(options, "add", 0, mine);    /* unused, but an output of the GraphDef */
  TF_ImportGraphDefOptionsAddInputMapping(options, ABSENT, 0, mine); /* no such node */
  TF_ImportGraphDefOptionsAddInputMapping(options, "neg", 4, mine);    /* no such output */
  TF_ImportGraphDefResults *results = TF_GraphImportGraphDefWithResults(g, def, options, status);
  CHECK_OK(status);
  int count = 0, *indexes = NULL;
  const char **names = NULL;
  TF_ImportGraphDefResultsMissingUnusedInputMappings(results, &count, &names, &indexes);
  CHECK_INT(count, 2);
  int absent = strcmp(names[0], ABSENT) == 0 ? 0 : 1;
  CHECK_STR(names[absent], ABSENT);
  CHECK_INT(indexes[absent], 0);
  CHECK_STR(names[1 - absent], "neg");
  CHECK_INT(indexes[1 - absent], 4);
  TF_DeleteImportGraphDefResults(results);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(def);
  TF_DeleteGraph(g);
}

/* ---- what is refused ---- */

static void invalid_bytes(void) {
  TF_Graph *g = TF_NewGraph();
  import_fails(g, TF_NewBufferFromString("\xff\xff\xff", 3), TF_NewImportGraphDefOptions(), TF_INVALID_ARGUMENT,
               "Invalid GraphDef");
  TF_Buffer *def = sample();
  TF_Buffer *half = TF_NewBufferFromString(def->data, def->length / 2);
  TF_DeleteBuffer(def);
  import_fails(g, half, TF_NewImportGraphDefOptions(), TF_INVALID_ARGUMENT, "Invalid GraphDef");
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_Buffer *bad = TF_NewBufferFromString("\x0a\xff", 2);
  CHECK(TF_GraphImportGraphDefWithResults(g, bad, options, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Invalid GraphDef");
  TF_DeleteBuffer(bad);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteGraph(g);
}

/* A GraphDef with a good node in front, so that there is something to leave behind, and one bad one. */
static void refused(const char *name, const char *op, const char *a, const char *b, TF_Code code, const char *part) {
  TF_Graph *g = TF_NewGraph();
  Pb def = {0};
  pb_graph_node(&def, "x", "Placeholder", NULL, NULL);
  pb_graph_node(&def, name, op, a, b);
  import_fails(g, pb_buffer(def), TF_NewImportGraphDefOptions(), code, part);
  placeholder(g, TF_FLOAT, "x");
  TF_DeleteGraph(g);
}

static void bad_nodes(void) {
  refused("n", "Neg", "ghost", NULL, TF_INVALID_ARGUMENT, "Node 'n': Unknown input node 'ghost'");
  refused("n", "NoOp", "^ghost", NULL, TF_INVALID_ARGUMENT, "Node 'n': Unknown input node '^ghost'");
  refused("n", "Neg", "^x", "x", TF_INVALID_ARGUMENT, "Node 'n': Control dependencies must come after regular dependencies");
  refused("n", "Neg", "x:1", NULL, TF_INVALID_ARGUMENT, "Node 'n': Connecting to invalid output 1 of source node x which has 1 outputs.");
  refused("n", "Neg", "n", NULL, TF_INVALID_ARGUMENT, "1 nodes in a cycle");
  refused("x", "Neg", "x", NULL, TF_INVALID_ARGUMENT, "Node 'x' is not unique");
  refused("has space", "Neg", "x", NULL, TF_INVALID_ARGUMENT, "Node 'has space': Node name contains invalid characters");
  refused("_internal", "Neg", "x", NULL, TF_INVALID_ARGUMENT, "Node '_internal': Node name contains invalid characters");
  refused("", "Neg", "x", NULL, TF_INVALID_ARGUMENT, "Node name contains invalid characters");
  refused("n", "", NULL, NULL, TF_INVALID_ARGUMENT, "Node 'n' does not specify an operation");
  refused("n", "NoSuchOp", "x", NULL, TF_NOT_FOUND, "Op type not registered 'NoSuchOp' in binary running on");
  refused("n", "AddV2", "x", NULL, TF_INVALID_ARGUMENT, "NodeDef expected inputs 'float, float' do not match 1 inputs specified");
  refused("n", "Neg", "x", "x", TF_INVALID_ARGUMENT, "NodeDef expected inputs 'float' do not match 2 inputs specified");
}

static void bad_attrs(void) {
  TF_Graph *g = TF_NewGraph();
  Pb def = {0}, node = pb_node("n", "Placeholder");
  pb_message(&def, 1, node);
  import_fails(g, pb_buffer(def), TF_NewImportGraphDefOptions(), TF_INVALID_ARGUMENT,
               "NodeDef missing attr 'dtype' from Op<name=Placeholder;");
  def = (Pb){0};
  node = pb_node("n", "Placeholder");
  pb_attr_int(&node, "dtype", 1);
  pb_message(&def, 1, node);
  import_fails(g, pb_buffer(def), TF_NewImportGraphDefOptions(), TF_INVALID_ARGUMENT,
               "AttrValue had value with type 'int' when 'type' expected");
  def = (Pb){0};
  pb_graph_node(&def, "x", "Placeholder", NULL, NULL);
  node = pb_node("n", "Neg");
  pb_string(&node, 3, "x");
  pb_attr_type(&node, "T", TF_INT32);
  pb_message(&def, 1, node);
  import_fails(g, pb_buffer(def), TF_NewImportGraphDefOptions(), TF_INVALID_ARGUMENT,
               "Input 0 of node n was passed float from x:0 incompatible with expected int32.");
  TF_DeleteGraph(g);
}

static void long_cycle(void) {
  TF_Graph *g = TF_NewGraph();
  Pb def = {0};
  pb_graph_node(&def, "a", "Neg", "c", NULL);
  pb_graph_node(&def, "b", "Neg", "a", NULL);
  pb_graph_node(&def, "c", "Neg", "b", NULL);
  import_fails(g, pb_buffer(def), TF_NewImportGraphDefOptions(), TF_INVALID_ARGUMENT, "3 nodes in a cycle");
  TF_DeleteGraph(g);
}

static void shapes_are_inferred(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output a = output(shaped(g, TF_FLOAT, (int64_t[]){2}, 1, "a"), 0);
  TF_Output b = output(shaped(g, TF_FLOAT, (int64_t[]){3}, 1, "b"), 0);
  Pb def = {0};
  pb_graph_node(&def, "sum", "AddV2", "p", "q");
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsAddInputMapping(options, "p", 0, a);
  TF_ImportGraphDefOptionsAddInputMapping(options, "q", 0, b);
  TF_Buffer *buffer = pb_buffer(def);
  TF_GraphImportGraphDef(g, buffer, options, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Dimensions must be equal, but are 2 and 3 for '{{node sum}} = AddV2[T=DT_FLOAT](a:0, b:0)' with input shapes: [2], [3].");
  CHECK(TF_GraphOperationByName(g, "sum") == NULL);
  TF_DeleteImportGraphDefOptions(options);
  options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsAddInputMapping(options, "p", 0, a);
  TF_ImportGraphDefOptionsAddInputMapping(options, "q", 0, a);
  TF_GraphImportGraphDef(g, buffer, options, status);
  CHECK_OK(status);
  CHECK_INT(TF_GraphGetTensorNumDims(g, output(by_name(g, "sum"), 0), status), 1);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(buffer);
  TF_DeleteGraph(g);
}

/* Producers up to version 21 wrote the shape of a scalar for an unknown one. */
static void placeholders_of_old_graphs(void) {
  for (int producer = 21; producer <= 22; producer++) {
    TF_Graph *g = TF_NewGraph();
    Pb def = {0}, version = {0}, scalar = {0}, value = {0}, node = pb_node("x", "Placeholder");
    pb_attr_type(&node, "dtype", TF_FLOAT);
    pb_message(&value, 7, scalar);
    pb_attr(&node, "shape", value);
    pb_message(&def, 1, node);
    pb_int(&version, 1, producer);
    pb_message(&def, 4, version);
    import(g, pb_buffer(def), TF_NewImportGraphDefOptions());
    CHECK_OK(status);
    CHECK_INT(TF_GraphGetTensorNumDims(g, output(by_name(g, "x"), 0), status), producer == 21 ? -1 : 0);
    TF_DeleteGraph(g);
  }
}

static void versions(void) {
  TF_Graph *g = TF_NewGraph();
  Pb def = {0}, version = {0};
  pb_int(&version, 1, 21);
  pb_int(&version, 2, 1900000);
  pb_message(&def, 4, version);
  import_fails(g, pb_buffer(def), TF_NewImportGraphDefOptions(), TF_INVALID_ARGUMENT,
               "GraphDef min consumer version 1900000 above current version 2474 for TensorFlow 2.21.0.  Please upgrade TensorFlow.");
  def = (Pb){0};
  version = (Pb){0};
  pb_int(&version, 1, 21);
  pb_int(&version, 3, 2474);
  pb_message(&def, 4, version);
  import_fails(g, pb_buffer(def), TF_NewImportGraphDefOptions(), TF_INVALID_ARGUMENT,
               "GraphDef disallows consumer version 2474.");
  /* The graph becomes as old as the oldest part of it; the single version of old is not looked at. */
  def = (Pb){0};
  pb_int(&def, 3, 5);
  version = (Pb){0};
  pb_int(&version, 1, 1000);
  pb_message(&def, 4, version);
  import(g, pb_buffer(def), TF_NewImportGraphDefOptions());
  CHECK_OK(status);
  TF_Buffer *buffer = TF_NewBuffer();
  TF_GraphVersions(g, buffer, status);
  CHECK_OK(status);
  CHECK_INT(pb_find_int(pb_view(buffer), 1), 1000);
  TF_DeleteBuffer(buffer);
  TF_DeleteGraph(g);
}

static void defaults_are_filled_in(void) {
  TF_Graph *g = TF_NewGraph();
  Pb def = {0};
  pb_graph_node(&def, "x", "Placeholder", NULL, NULL);
  import(g, pb_buffer(def), TF_NewImportGraphDefOptions());
  CHECK_OK(status);
  TF_OperationGetAttrMetadata(by_name(g, "x"), "shape", status);
  CHECK_OK(status);
  TF_DeleteGraph(g);
}

static void nodes_in_any_order(void) {
  TF_Graph *g = TF_NewGraph();
  Pb def = {0};
  pb_graph_node(&def, "sum", "AddV2", "neg", "x:0");
  pb_graph_node(&def, "neg", "Neg", "x", NULL);
  pb_graph_node(&def, "x", "Placeholder", NULL, NULL);
  import(g, pb_buffer(def), TF_NewImportGraphDefOptions());
  CHECK_OK(status);
  TF_Operation *sum = by_name(g, "sum");
  CHECK(TF_OperationInput(input(sum, 0)).oper == by_name(g, "neg"));
  /* A NodeDef keeps the spelling of its inputs, the GraphDef of the whole graph is written from the edges. */
  TF_Buffer *node = TF_NewBuffer();
  TF_OperationToNodeDef(sum, node, status);
  CHECK_OK(status);
  CHECK(pb_string_is(pb_view(node), 3, 1, "x:0"));
  TF_DeleteBuffer(node);
  TF_Buffer *whole = graph_def(g);
  PbView found;
  CHECK(pb_find_node(pb_view(whole), "sum", &found));
  CHECK(pb_string_is(found, 3, 1, "x"));
  TF_DeleteBuffer(whole);
  TF_DeleteGraph(g);
}

static void colocation_follows_the_prefix(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *a = no_op(g, "a");
  TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", "b");
  TF_ColocateWith(desc, a);
  finish(desc);
  TF_Buffer *def = graph_def(g);
  TF_DeleteGraph(g);
  g = TF_NewGraph();
  import(g, def, with_prefix("p"));
  CHECK_OK(status);
  void *value;
  size_t length;
  char storage[16];
  TF_OperationGetAttrStringList(by_name(g, "p/b"), "_class", &value, &length, 1, storage, sizeof storage, status);
  CHECK_OK(status);
  CHECK_INT(length, 8);
  CHECK(memcmp(value, "loc:@p/a", 8) == 0);
  TF_DeleteGraph(g);
}

static void unknown_colocation(void) {
  TF_Graph *g = TF_NewGraph();
  Pb def = {0}, node = pb_node("y", "NoOp"), list = {0}, value = {0};
  pb_string(&list, 2, "loc:@ghost");
  pb_message(&value, 1, list);
  pb_attr(&node, "_class", value);
  pb_message(&def, 1, node);
  import_fails(g, pb_buffer(def), TF_NewImportGraphDefOptions(), TF_INVALID_ARGUMENT,
               "Node 'y' expects to be colocated with unknown node 'ghost'");
  TF_DeleteGraph(g);
}

static void round_trip(void) {
  TF_Graph *g = TF_NewGraph();
  import(g, sample(), TF_NewImportGraphDefOptions());
  CHECK_OK(status);
  TF_Buffer *first = graph_def(g);
  TF_DeleteGraph(g);
  g = TF_NewGraph();
  TF_Buffer *copy = TF_NewBufferFromString(first->data, first->length);
  import(g, copy, TF_NewImportGraphDefOptions());
  CHECK_OK(status);
  TF_Buffer *second = graph_def(g);
  CHECK_INT(pb_count(pb_view(second), 1), pb_count(pb_view(first), 1));
  static const char *const names[] = {"feed", "scalar", "neg", "add"};
  for (int i = 0; i < 4; i++) {
    PbView a, b;
    CHECK(pb_find_node(pb_view(first), names[i], &a) && pb_find_node(pb_view(second), names[i], &b));
    CHECK_INT(a.length, b.length);
    CHECK_INT(pb_count(a, 3), pb_count(b, 3));
    CHECK_INT(pb_count(a, 5), pb_count(b, 5));
  }
  TF_DeleteBuffer(first);
  TF_DeleteBuffer(second);
  TF_DeleteGraph(g);
}

/* x of shape [2,3], and `noted` as the `_output_shapes` of neg = -x; takes `noted`, an AttrValue, over. */
static TF_Buffer *with_noted_shapes(Pb noted) {
  Pb graph = {0}, x = pb_node("x", "Placeholder"), neg = pb_node("neg", "Neg"), shape = {0};
  for (int size = 2; size <= 3; size++) {
    Pb dim = {0};
    pb_int(&dim, 1, size);
    pb_message(&shape, 2, dim);
  }
  Pb value = {0};
  pb_message(&value, 7, shape);
  pb_attr(&x, "shape", value);
  pb_attr_type(&x, "dtype", TF_FLOAT);
  pb_string(&neg, 3, "x");
  pb_attr_type(&neg, "T", TF_FLOAT);
  pb_attr(&neg, "_output_shapes", noted);
  pb_message(&graph, 1, x);
  pb_message(&graph, 1, neg);
  return pb_buffer(graph);
}

/* An AttrValue: a list of as many shapes as there are sizes, each of rank 1. */
static Pb list_of_vectors(int count, const int64_t *sizes) {
  Pb list = {0}, value = {0};
  for (int i = 0; i < count; i++) {
    Pb dim = {0}, shape = {0};
    pb_int(&dim, 1, sizes[i]);
    pb_message(&shape, 2, dim);
    pb_message(&list, 7, shape);
  }
  pb_message(&value, 1, list);
  return value;
}

static void noted_shapes(void) {
  TF_Graph *g = TF_NewGraph();
  Pb unknown = {0}, list = {0}, no_list = {0};
  pb_int(&unknown, 3, 1);
  pb_message(&list, 7, unknown);
  Pb value = {0};
  pb_message(&value, 1, list);
  import(g, with_noted_shapes(value), with_prefix("fits"));
  CHECK_OK(status);
  TF_Operation *neg = by_name(g, "fits/neg");
  CHECK_INT(TF_GraphGetTensorNumDims(g, output(neg, 0), status), 2);
  TF_AttrMetadata metadata = TF_OperationGetAttrMetadata(neg, "_output_shapes", status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT); /* it is gone */
  (void)metadata;
  pb_int(&no_list, 3, 7);
  import(g, with_noted_shapes(no_list), with_prefix("other"));
  CHECK_OK(status);
  int64_t kept = 0;
  TF_OperationGetAttrInt(by_name(g, "other/neg"), "_output_shapes", &kept, status);
  CHECK_OK(status);
  CHECK_INT(kept, 7);

  import_fails(g, with_noted_shapes(list_of_vectors(1, (int64_t[]){4})), TF_NewImportGraphDefOptions(), TF_INVALID_ARGUMENT,
               "Node 'neg' has an _output_shapes attribute inconsistent with the GraphDef for output #0");
  import_fails(g, with_noted_shapes(list_of_vectors(0, NULL)), TF_NewImportGraphDefOptions(), TF_INVALID_ARGUMENT,
               "Node 'neg' has 1 outputs but the _output_shapes attribute specifies shapes for 0 outputs");
  import_fails(g, with_noted_shapes(list_of_vectors(1, (int64_t[]){-5})), TF_NewImportGraphDefOptions(), TF_INVALID_ARGUMENT,
               "has an invalid _output_shapes attribute (shape #0 error:'Shape [-5] has dimensions with values below -1");
  TF_DeleteGraph(g);
}

static void unknown_colocation_allowed(void) {
  TF_Graph *g = TF_NewGraph();
  Pb graph = {0}, node = pb_node("y", "NoOp"), list = {0}, value = {0};
  pb_string(&list, 2, "loc:@ghost");
  pb_message(&value, 1, list);
  pb_attr(&node, "_class", value);
  pb_message(&graph, 1, node);
  TF_ImportGraphDefOptions *options = with_prefix("p");
  TF_ImportGraphDefOptionsSetValidateColocationConstraints(options, 0);
  import(g, pb_buffer(graph), options);
  CHECK_OK(status);
  by_name(g, "p/y");
  TF_DeleteGraph(g);
}

static void prefix_of_a_slash(void) {
  TF_Graph *g = TF_NewGraph();
  import_fails(g, sample(), with_prefix("/"), TF_INVALID_ARGUMENT,
               "Imported node name prefix '/' would lead to invalid node names");
  TF_DeleteGraph(g);
}

static void negative_producer(void) {
  TF_Graph *g = TF_NewGraph();
  Pb graph = {0}, versions = {0};
  pb_graph_node(&graph, "n", "NoOp", NULL, NULL);
  pb_int(&versions, 1, -1);
  pb_message(&graph, 4, versions);
  import_fails(g, pb_buffer(graph), TF_NewImportGraphDefOptions(), TF_INVALID_ARGUMENT,
               "GraphDef producer version -1 below min producer 0 supported by TensorFlow 2.21.0.");
  TF_DeleteGraph(g);
}

static void delete_of_unused_options(void) {
  TF_ImportGraphDefOptions *options = with_prefix("unused");
  TF_ImportGraphDefOptionsAddReturnOutput(options, "x", 0);
  TF_DeleteImportGraphDefOptions(options);
}

CASES(CASE(plain), CASE(empty_graph_def), CASE(prefixes), CASE(name_exists), CASE(name_is_a_scope), CASE(prefix_taken), CASE(unique_names),
      CASE(unique_prefix), CASE(input_mapping), CASE(control_mapping), CASE(input_of_an_absent_node),
      CASE(mapping_to_a_bad_output),
      CASE(mapping_to_another_graph), CASE(control_dependencies), CASE(default_device), CASE(option_strings_are_copied),
      CASE(return_outputs_and_operations), CASE(bad_return_values), CASE(unused_mappings), CASE(invalid_bytes),
      CASE(bad_nodes), CASE(bad_attrs), CASE(long_cycle), CASE(shapes_are_inferred), CASE(placeholders_of_old_graphs), CASE(versions),
      CASE(defaults_are_filled_in), CASE(nodes_in_any_order), CASE(colocation_follows_the_prefix),
      CASE(unknown_colocation), CASE(unknown_colocation_allowed), CASE(noted_shapes), CASE(prefix_of_a_slash),
      CASE(negative_producer), CASE(round_trip), CASE(delete_of_unused_options))
