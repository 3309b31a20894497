/* The functions of a GraphDef, in which ops are looked up (grappler.h). */
#include "functions.h"
#include "pb.h"

#include "tensorflow/c/experimental/grappler/grappler.h"

static TF_FunctionLibraryDefinition *library_of(TF_Graph *g) {
  TF_Buffer *def = TF_NewBuffer();
  TF_GraphToGraphDef(g, def, status);
  CHECK_OK(status);
  TF_FunctionLibraryDefinition *library = TF_NewFunctionLibraryDefinition(def, status);
  CHECK_OK(status);
  TF_DeleteBuffer(def);
  return library;
}

static void ops_are_found(void) {
  TF_Graph *g = TF_NewGraph();
  placeholder(g, TF_FLOAT, "x");
  TF_FunctionLibraryDefinition *library = library_of(g);
  TF_Buffer *op = TF_NewBuffer();
  TF_LookUpOpDef(library, "MatMul", op, status);
  CHECK_OK(status);
  CHECK(pb_string_is(pb_view(op), 1, 0, "MatMul"));
  TF_DeleteBuffer(op);
  op = TF_NewBuffer();
  TF_LookUpOpDef(library, "NoSuchOp", op, status);
  CHECK_CODE(status, TF_NOT_FOUND);
  TF_DeleteBuffer(op);
  TF_DeleteFunctionLibraryDefinition(library);
  TF_DeleteGraph(g);
}

static void functions_are_found(void) {
  TF_Graph *body = TF_NewGraph();
  TF_Operation *x = placeholder(body, TF_FLOAT, "x");
  TF_Operation *y = unary(body, "Neg", output(x, 0), "y");
  const TF_Output in = output(x, 0), out = output(y, 0);
  TF_Function *function =
      TF_GraphToFunction(body, "Minus", 0, -1, NULL, 1, &in, 1, &out, NULL, NULL, NULL, status);
  CHECK_OK(status);
  TF_Graph *g = TF_NewGraph();
  TF_GraphCopyFunction(g, function, NULL, status);
  CHECK_OK(status);
  TF_FunctionLibraryDefinition *library = library_of(g);
  TF_Buffer *op = TF_NewBuffer();
  TF_LookUpOpDef(library, "Minus", op, status);
  CHECK_OK(status);
  CHECK(pb_string_is(pb_view(op), 1, 0, "Minus"));
  CHECK_INT(pb_count(pb_view(op), 2), 1);
  TF_DeleteBuffer(op);
  TF_DeleteFunctionLibraryDefinition(library);
  TF_DeleteFunction(function);
  TF_DeleteGraph(g);
  TF_DeleteGraph(body);
}

static void bytes_that_are_no_graph(void) {
  TF_Buffer *bytes = TF_NewBufferFromString("\xff\xff\xff", 3);
  CHECK(TF_NewFunctionLibraryDefinition(bytes, status) == NULL);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_DeleteBuffer(bytes);
}

CASES(CASE(ops_are_found), CASE(functions_are_found), CASE(bytes_that_are_no_graph))
