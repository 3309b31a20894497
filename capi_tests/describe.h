/* The structure of a graph as text. */
#ifndef CAPI_TESTS_DESCRIBE_H_
#define CAPI_TESTS_DESCRIBE_H_

#include "check.h"

/* `name = Op(input:index, ^control)`, in a buffer that the next call overwrites. */
static inline const char *describe(TF_Operation *op) {
  static char text[2000];
  int at = snprintf(text, sizeof text, "%s = %s(", TF_OperationName(op), TF_OperationOpType(op));
  const char *comma = "";
  for (int i = 0; i < TF_OperationNumInputs(op); i++, comma = ", ") {
    TF_Input input = {op, i};
    TF_Output source = TF_OperationInput(input);
    at += snprintf(text + at, sizeof text - (size_t)at, "%s%s:%d", comma, TF_OperationName(source.oper), source.index);
  }
  TF_Operation *controls[10];
  int count = TF_OperationGetControlInputs(op, controls, 10);
  for (int i = 0; i < count && i < 10; i++, comma = ", ")
    at += snprintf(text + at, sizeof text - (size_t)at, "%s^%s", comma, TF_OperationName(controls[i]));
  snprintf(text + at, sizeof text - (size_t)at, ")");
  return text;
}

/* The operations after the first `skip` are as described, and there are no others. */
#define CHECK_OPERATIONS(graph, skip, ...)                                        \
  do {                                                                            \
    const char *check_lines[] = {__VA_ARGS__};                                    \
    size_t check_pos = 0, check_count = 0;                                        \
    for (int check_i = 0; check_i < (skip); check_i++) TF_GraphNextOperation(graph, &check_pos); \
    TF_Operation *check_op;                                                       \
    while ((check_op = TF_GraphNextOperation(graph, &check_pos)) != NULL) {       \
      CHECK(check_count < sizeof check_lines / sizeof *check_lines);              \
      CHECK_STR(describe(check_op), check_lines[check_count]);                    \
      check_count++;                                                              \
    }                                                                             \
    CHECK_INT(check_count, sizeof check_lines / sizeof *check_lines);             \
  } while (0)

#endif
