/* TF_LoadSessionFromSavedModel: models with variables, assets and init ops; what is wrong with others. */
#include "checkpoints.h"
#include "pb.h"


static TF_Operation *with_dtype(TF_OperationDescription *desc, TF_DataType dtype) {
  TF_SetAttrType(desc, "dtype", dtype);
  return finish(desc);
}

static TF_Operation *assign(TF_Graph *g, TF_Operation *handle, TF_Output value, TF_DataType dtype, const char *name) {
  TF_OperationDescription *desc = TF_NewOperation(g, "AssignVariableOp", name);
  TF_AddInput(desc, output(handle, 0));
  TF_AddInput(desc, value);
  return with_dtype(desc, dtype);
}

static TF_Operation *variable(TF_Graph *g, TF_DataType dtype, const char *name) {
  TF_OperationDescription *desc = TF_NewOperation(g, "VarHandleOp", name);
  TF_SetAttrType(desc, "dtype", dtype);
  TF_SetAttrShape(desc, "shape", NULL, 0);
  TF_SetAttrString(desc, "shared_name", name, strlen(name));
  return finish(desc);
}

static TF_Operation *read_variable(TF_Graph *g, TF_Operation *handle, TF_DataType dtype, const char *name) {
  TF_OperationDescription *desc = TF_NewOperation(g, "ReadVariableOp", name);
  TF_AddInput(desc, output(handle, 0));
  return with_dtype(desc, dtype);
}

/* A message with one string field. */
static Pb with_string(int field, const char *text) {
  Pb pb = {0};
  pb_string(&pb, field, text);
  return pb;
}

/* How the saved_model.pb of `write_model` differs from a good one. */
typedef struct {
  const char *init_op;
  const char *restore_op;
  bool two_init_ops;
  const char *file;
} Model;

/* Writes a SavedModel with the tag "serve": a variable w, saved as 42, and an asset whose path the init op keeps in the
 * variable `path`. */
static void write_model(const char *directory, Model model) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *filename = constant(g, string_scalar("model"), "save/Const");
  TF_Operation *w = variable(g, TF_FLOAT, "w"), *path = variable(g, TF_STRING, "path");
  TF_Operation *init = assign(g, w, output(constant(g, f32_scalar(42), "initial"), 0), TF_FLOAT, "assign");
  TF_Operation *read = read_variable(g, w, TF_FLOAT, "read");
  read_variable(g, path, TF_STRING, "read_path");
  const char *names[] = {"w"}, *slices[] = {""};
  TF_Output value = output(read, 0);
  TF_Operation *save = save_node(g, output(filename, 0), 1, names, slices, &value, "save/SaveV2");
  TF_Operation *restored = restore_node(g, output(filename, 0), "w", "", TF_FLOAT, "save/RestoreV2");
  assign(g, w, output(restored, 0), TF_FLOAT, "save/restore_all");
  TF_Operation *asset = constant(g, string_scalar("elsewhere"), "asset");
  assign(g, path, output(asset, 0), TF_STRING, "init");

  TF_Session *session = new_session(g);
  run_target(session, init);
  char *variables = joined(directory, "/variables"), *prefix = joined(directory, "/variables/variables");
  CHECK_INT(mkdir(variables, 0777), 0);
  TF_Tensor *prefix_tensor = string_scalar(prefix);
  TF_Output feed = output(filename, 0);
  const TF_Operation *target = save;
  TF_SessionRun(session, NULL, &feed, &prefix_tensor, 1, NULL, NULL, 0, &target, 1, NULL, status);
  CHECK_OK(status);
  TF_DeleteTensor(prefix_tensor);
  delete_session(session);

  TF_Buffer *graph_def = TF_NewBuffer();
  TF_GraphToGraphDef(g, graph_def, status);
  CHECK_OK(status);
  Pb meta = {0}, saver = {0}, collection = {0}, nodes = {0}, asset_def = {0}, saved = {0};
  pb_message(&meta, 1, with_string(4, "serve"));
  pb_bytes(&meta, 2, graph_def->data, graph_def->length);
  pb_string(&saver, 1, "save/Const:0");
  pb_string(&saver, 3, model.restore_op ? model.restore_op : "save/restore_all");
  pb_message(&meta, 3, saver);
  pb_string(&nodes, 1, model.init_op ? model.init_op : "init");
  if (model.two_init_ops) pb_string(&nodes, 1, "init");
  Pb kind = {0};
  pb_message(&kind, 1, nodes);
  pb_string(&collection, 1, "saved_model_main_op");
  pb_message(&collection, 2, kind);
  pb_message(&meta, 4, collection);
  pb_message(&asset_def, 1, with_string(1, "asset:0"));
  pb_string(&asset_def, 2, "vocabulary.txt");
  pb_message(&meta, 6, asset_def);
  pb_int(&saved, 1, 1);
  pb_message(&saved, 2, meta);
  char *file = joined(directory, model.file ? model.file : "/saved_model.pb");
  write_file(file, saved.data, saved.length);
  free(saved.data);
  free(file);
  free(prefix);
  free(variables);
  TF_DeleteBuffer(graph_def);
  TF_DeleteGraph(g);
}

static TF_Session *load(const char *directory, const char *tag, TF_Graph *g, TF_Buffer *meta_graph) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_LoadSessionFromSavedModel(options, NULL, directory, &tag, 1, g, meta_graph, status);
  TF_DeleteSessionOptions(options);
  return session;
}

static void models_are_loaded(void) {
  char *directory = new_directory();
  write_model(directory, (Model){0});
  TF_Graph *g = TF_NewGraph();
  TF_Buffer *meta_graph = TF_NewBuffer();
  TF_Session *session = load(directory, "serve", g, meta_graph);
  CHECK_OK(status);
  CHECK(session != NULL && meta_graph->length > 100);
  CHECK(fetch_f32(session, output(TF_GraphOperationByName(g, "read"), 0)) == 42);
  TF_Tensor *t = fetch(session, output(TF_GraphOperationByName(g, "read_path"), 0));
  const TF_TString *path = TF_TensorData(t);
  char *expected = joined(directory, "/assets/vocabulary.txt");
  CHECK_INT(TF_StringGetSize(path), strlen(expected));
  CHECK_INT(memcmp(TF_StringGetDataPointer(path), expected, strlen(expected)), 0);
  TF_DeleteTensor(t);
  free(expected);
  /* The graph can go on growing. */
  TF_Operation *twice = binary(g, "AddV2", output(TF_GraphOperationByName(g, "read"), 0),
                               output(TF_GraphOperationByName(g, "read"), 0), "twice");
  CHECK(fetch_f32(session, output(twice, 0)) == 84);
  TF_CloseSession(session, status);
  CHECK_OK(status);
  delete_session(session);
  TF_DeleteBuffer(meta_graph);
  TF_DeleteGraph(g);
  delete_directory(directory);
}

static void models_without_variables_are_loaded(void) {
  char *directory = new_directory();
  write_model(directory, (Model){0});
  char *index = joined(directory, "/variables/variables.index");
  CHECK_INT(unlink(index), 0);
  free(index);
  TF_Graph *g = TF_NewGraph();
  TF_Session *session = load(directory, "serve", g, NULL);
  CHECK_OK(status);
  CHECK(try_fetch(session, output(TF_GraphOperationByName(g, "read"), 0)) == NULL);
  CHECK_CODE(status, TF_FAILED_PRECONDITION);
  delete_session(session);
  TF_DeleteGraph(g);
  delete_directory(directory);
}

/* Loading fails with this code and a message that contains `part`; the graph stays empty. */
static void fails(const char *directory, const char *tag, TF_Code code, const char *part) {
  TF_Graph *g = TF_NewGraph();
  TF_Session *session = load(directory, tag, g, NULL);
  CHECK_ERROR(status, code, part);
  CHECK(session == NULL);
  CHECK_INT(count_operations(g), 0);
  TF_DeleteGraph(g);
}

static void what_is_wrong_is_told(void) {
  char *directory = new_directory();
  fails(directory, "serve", TF_NOT_FOUND,
        "Could not find SavedModel .pb or .pbtxt at supplied export directory path: /tmp/capi_tests_");
  write_model(directory, (Model){0});
  fails(directory, "train", TF_NOT_FOUND,
        "Could not find meta graph def matching supplied tags: { train }. To inspect available tag-sets in the "
        "SavedModel, please use the SavedModel CLI: `saved_model_cli`");
  TF_Graph *g = TF_NewGraph();
  no_op(g, "there");
  CHECK(load(directory, "serve", g, NULL) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Graph is non-empty.");
  TF_DeleteGraph(g);
  char *data = joined(directory, "/variables/variables.data-00000-of-00001");
  write_file(data, "\0\0\0\0", 4);
  fails(directory, "serve", TF_DATA_LOSS, "Checksum does not match");
  free(data);
  char *file = joined(directory, "/saved_model.pb");
  write_file(file, "\x12\xff", 2);
  fails(directory, "serve", TF_OUT_OF_RANGE, "Read less bytes than requested");
  free(file);
  delete_directory(directory);
}

static void ops_that_are_not_there_are_named(void) {
  Model models[] = {{.two_init_ops = true}, {.init_op = "nope"}, {.restore_op = "nope"}};
  TF_Code codes[] = {TF_FAILED_PRECONDITION, TF_NOT_FOUND, TF_NOT_FOUND};
  const char *parts[] = {"Expected exactly one main op in : ", "nope", "nope"};
  for (int i = 0; i < 3; i++) {
    char *directory = new_directory();
    write_model(directory, models[i]);
    fails(directory, "serve", codes[i], parts[i]);
    delete_directory(directory);
  }
}

CASES(CASE(models_are_loaded), CASE(models_without_variables_are_loaded), CASE(what_is_wrong_is_told),
      CASE(ops_that_are_not_there_are_named))
