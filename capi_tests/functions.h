/* Short ways to make functions. */
#ifndef CAPI_TESTS_FUNCTIONS_H_
#define CAPI_TESTS_FUNCTIONS_H_

#include "nodes.h"

/* A function of all nodes but the inputs. */
static inline TF_Function *function_of(TF_Graph *g, const char *name, int ninputs, const TF_Output *inputs, int noutputs,
                                const TF_Output *outputs) {
  return TF_GraphToFunction(g, name, 0, -1, NULL, ninputs, inputs, noutputs, outputs, NULL, NULL, NULL, status);
}

/* `name(x) = op x` on floats. */
static inline TF_Function *unary_function(const char *name, const char *op) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0), y = output(unary(g, op, x, "n"), 0);
  TF_Function *function = function_of(g, name, 1, &x, 1, &y);
  CHECK_OK(status);
  TF_DeleteGraph(g);
  return function;
}

/* Copies a function into a graph and deletes it. */
static inline void add_function(TF_Graph *g, TF_Function *function) {
  CHECK_OK(status);
  TF_GraphCopyFunction(g, function, NULL, status);
  CHECK_OK(status);
  TF_DeleteFunction(function);
}

#endif
