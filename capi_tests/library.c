/* Plug-ins: libraries whose ops and kernels are registered when they are loaded. The library is that of examples_c/plugin. */
#include "nodes.h"
#include "pb.h"
#include "plugins.h"

static TF_Library *load(void) {
  TF_Library *library = TF_LoadLibrary(plugin("libcube.so"), status);
  CHECK_OK(status);
  CHECK(library != NULL);
  return library;
}

static void ops_are_listed(void) {
  TF_Library *library = load();
  TF_Buffer list = TF_GetOpList(library);
  CHECK(list.data != NULL);
  PbView op, view = {list.data, list.length};
  CHECK_INT(pb_count(view, 1), 1);
  CHECK(pb_find(view, 1, 0, &op));
  CHECK(pb_string_is(op, 1, 0, "Cube"));
  TF_DeleteLibraryHandle(library);
}

static void loading_twice_is_loading_once(void) {
  TF_Library *first = load(), *second = load();
  TF_Buffer a = TF_GetOpList(first), b = TF_GetOpList(second);
  CHECK_INT(a.length, b.length);
  CHECK(memcmp(a.data, b.data, a.length) == 0);
  TF_DeleteLibraryHandle(first);
  TF_DeleteLibraryHandle(second);
}

static TF_Operation *cube(TF_Graph *g, TF_Output x, const char *name) { return unary(g, "Cube", x, name); }

static void the_op_runs(void) {
  TF_DeleteLibraryHandle(load());
  TF_Graph *g = TF_NewGraph();
  const float values[4] = {-1, 0, 2, 3}, cubes[4] = {-1, 0, 8, 27};
  TF_Operation *x = constant(g, f32_matrix(2, 2, values), "x");
  TF_Operation *y = cube(g, output(x, 0), "y");
  CHECK_INT(TF_GraphGetTensorNumDims(g, output(y, 0), status), 2);
  TF_Session *session = new_session(g);
  TF_Tensor *result = fetch(session, output(y, 0));
  CHECK(is_f32(result, 4, cubes));
  TF_DeleteTensor(result);
  delete_session(session);
  TF_DeleteGraph(g);
}

static void attrs_reach_the_kernel(void) {
  TF_DeleteLibraryHandle(load());
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "Cube", "y");
  TF_AddInput(desc, output(constant(g, f32_scalar(2), "x"), 0));
  TF_SetAttrFloat(desc, "scale", 0.5f);
  TF_Operation *y = finish(desc);
  TF_Session *session = new_session(g);
  CHECK(fetch_f32(session, output(y, 0)) == 4);
  delete_session(session);
  TF_DeleteGraph(g);
}

static void types_without_a_kernel_are_refused(void) {
  TF_DeleteLibraryHandle(load());
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "Cube", "y");
  TF_AddInput(desc, output(constant(g, i32_scalar(2), "x"), 0));
  finish_fails(desc, TF_INVALID_ARGUMENT, "int32");
  TF_DeleteGraph(g);
}

static void no_such_library(void) {
  CHECK(TF_LoadLibrary("/no/such/library.so", status) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "/no/such/library.so: cannot open shared object file");
}

static void nothing_is_deleted(void) { TF_DeleteLibraryHandle(NULL); }

CASES(CASE(ops_are_listed), CASE(loading_twice_is_loading_once), CASE(the_op_runs), CASE(attrs_reach_the_kernel),
      CASE(types_without_a_kernel_are_refused), CASE(no_such_library), CASE(nothing_is_deleted))
