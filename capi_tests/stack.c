/* Functions that call functions, and loops within loops, on threads with small stacks. */
#include "functions.h"

#include <pthread.h>

static const size_t stack_sizes[] = {128 << 10, 1 << 20, 8 << 20};
enum { STACKS = sizeof stack_sizes / sizeof *stack_sizes };

typedef struct {
  TF_Graph *graph;
  TF_Output x, y;
  TF_Status *status;
  float result;
} Job;

/* Runs y(2), in a session of its own. */
static void *run_job(void *argument) {
  Job *job = argument;
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_NewSession(job->graph, options, job->status);
  TF_DeleteSessionOptions(options);
  float two = 2;
  TF_Tensor *x = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof two), *y = NULL;
  memcpy(TF_TensorData(x), &two, sizeof two);
  TF_SessionRun(session, NULL, &job->x, &x, 1, &job->y, &y, 1, NULL, 0, NULL, job->status);
  if (y != NULL) job->result = f32_at(y, 0);
  TF_DeleteTensor(x);
  TF_DeleteTensor(y);
  TF_Status *ignored = TF_NewStatus();
  TF_DeleteSession(session, ignored);
  TF_DeleteStatus(ignored);
  return NULL;
}

/* Runs on a thread with a stack of this size. */
static void run_on_stack(Job *job, size_t size) {
  pthread_attr_t attributes;
  pthread_t thread;
  job->status = status;
  job->result = 0;
  CHECK_INT(pthread_attr_init(&attributes), 0);
  CHECK_INT(pthread_attr_setstacksize(&attributes, size), 0);
  CHECK_INT(pthread_create(&thread, &attributes, run_job, job), 0);
  CHECK_INT(pthread_join(thread, NULL), 0);
  pthread_attr_destroy(&attributes);
}

/* A function `name(x) = y`, of the nodes of `g` and what `g` calls; goes to `into`, and `g` is deleted. */
static TF_Function *finish_function(TF_Graph *g, const char *name, TF_Output x, TF_Output y, TF_Graph *into) {
  TF_Function *function = function_of(g, name, 1, &x, 1, &y);
  CHECK_OK(status);
  TF_GraphCopyFunction(into, function, NULL, status);
  CHECK_OK(status);
  TF_DeleteGraph(g);
  return function;
}

static TF_Output add_call(TF_Graph *g, TF_Output x, const char *function, const char *name) {
  TF_OperationDescription *desc = TF_NewOperation(g, "PartitionedCall", name);
  const TF_DataType types[] = {TF_FLOAT};
  TF_AddInputList(desc, &x, 1);
  TF_SetAttrTypeList(desc, "Tin", types, 1);
  TF_SetAttrTypeList(desc, "Tout", types, 1);
  TF_SetAttrFuncName(desc, "f", function, strlen(function));
  return output(finish(desc), 0);
}

/* y = f<depth>(x), where f0 = Neg, and f<i> calls f<i-1>. */
static Job nested_functions(int depth) {
  Job job = {TF_NewGraph(), {NULL, 0}, {NULL, 0}, NULL, 0};
  TF_Function *innermost = unary_function("f0", "Neg");
  TF_GraphCopyFunction(job.graph, innermost, NULL, status);
  CHECK_OK(status);
  TF_DeleteFunction(innermost);
  char name[16], called[16] = "f0";
  for (int i = 1; i <= depth; i++) {
    TF_Graph *g = TF_NewGraph();
    TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0);
    snprintf(name, sizeof name, "f%d", i);
    TF_DeleteFunction(finish_function(g, name, x, add_call(g, x, called, "call"), job.graph));
    memcpy(called, name, sizeof name);
  }
  job.x = output(placeholder(job.graph, TF_FLOAT, "x"), 0);
  job.y = add_call(job.graph, job.x, called, "y");
  return job;
}

static void functions_call_functions(void) {
  for (int i = 0; i < 2; i++) {
    const int depths[] = {20, 10000};
    /* The reference puts functions in the place of calls; thousands take it minutes. */
    if (depths[i] > 1000 && !is_tfcore()) continue;
    Job job = nested_functions(depths[i]);
    for (int s = 0; s < STACKS; s++) {
      run_on_stack(&job, stack_sizes[s]);
      if (TF_GetCode(status) == TF_OK) CHECK(job.result == -2.0f);
      CHECK(TF_GetCode(status) == TF_OK || TF_GetCode(status) == TF_RESOURCE_EXHAUSTED);
      if (depths[i] < 1000) CHECK_OK(status);
    }
    TF_DeleteGraph(job.graph);
  }
}

/* A While of float variables; `cond` and `body` are functions that `g` has. */
static TF_Output add_while(TF_Graph *g, TF_Output x, const char *cond, const char *body, const char *name) {
  TF_OperationDescription *desc = TF_NewOperation(g, "While", name);
  const TF_DataType types[] = {TF_FLOAT};
  TF_AddInputList(desc, &x, 1);
  TF_SetAttrTypeList(desc, "T", types, 1);
  TF_SetAttrFuncName(desc, "cond", cond, strlen(cond));
  TF_SetAttrFuncName(desc, "body", body, strlen(body));
  return output(finish(desc), 0);
}

/* y = While(x), whose body has another While, and so on; each runs its body once, and the innermost body squares. */
static Job nested_loops(int depth) {
  Job job = {TF_NewGraph(), {NULL, 0}, {NULL, 0}, NULL, 0};
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0), three = output(constant(g, f32_scalar(3), "three"), 0);
  TF_Function *cond = finish_function(g, "cond", x, output(binary(g, "Less", x, three, "less"), 0), job.graph);
  TF_Function *body = unary_function("body0", "Square");
  TF_GraphCopyFunction(job.graph, body, NULL, status);
  CHECK_OK(status);
  char name[16], inner[16] = "body0";
  for (int i = 1; i < depth; i++) {
    g = TF_NewGraph();
    TF_GraphCopyFunction(g, cond, NULL, status);
    TF_GraphCopyFunction(g, body, NULL, status);
    TF_DeleteFunction(body);
    x = output(placeholder(g, TF_FLOAT, "x"), 0);
    snprintf(name, sizeof name, "body%d", i);
    body = finish_function(g, name, x, add_while(g, x, "cond", inner, "while"), job.graph);
    memcpy(inner, name, sizeof name);
  }
  TF_DeleteFunction(cond);
  TF_DeleteFunction(body);
  job.x = output(placeholder(job.graph, TF_FLOAT, "x"), 0);
  job.y = add_while(job.graph, job.x, "cond", inner, "y");
  return job;
}

static void loops_within_loops(void) {
  Job job = nested_loops(30);
  for (int s = 0; s < STACKS; s++) {
    run_on_stack(&job, stack_sizes[s]);
    CHECK_OK(status);
    CHECK(job.result == 4);
  }
  TF_DeleteGraph(job.graph);
}

CASES(CASE(functions_call_functions), CASE(loops_within_loops))
