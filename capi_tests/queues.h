/* A queue on which runs can be made to wait. */
#ifndef CAPI_TESTS_QUEUES_H_
#define CAPI_TESTS_QUEUES_H_

#include "nodes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

typedef struct {
  TF_Operation *queue, *value, *enqueue, *dequeue;
} Queue;

/* A queue of floats called `name`; "<name>/value" is what "<name>/enqueue" brings. */
static inline Queue add_queue(TF_Graph *g, const char *name) {
  Queue q;
  char text[64];
  const TF_DataType dtype = TF_FLOAT;
  TF_OperationDescription *desc = TF_NewOperation(g, "FIFOQueueV2", name);
  TF_SetAttrTypeList(desc, "component_types", &dtype, 1);
  q.queue = finish(desc);
  snprintf(text, sizeof text, "%s/value", name);
  q.value = placeholder(g, TF_FLOAT, text);
  snprintf(text, sizeof text, "%s/enqueue", name);
  desc = TF_NewOperation(g, "QueueEnqueueV2", text);
  TF_AddInput(desc, output(q.queue, 0));
  const TF_Output values[1] = {output(q.value, 0)};
  TF_AddInputList(desc, values, 1);
  q.enqueue = finish(desc);
  snprintf(text, sizeof text, "%s/dequeue", name);
  desc = TF_NewOperation(g, "QueueDequeueV2", text);
  TF_AddInput(desc, output(q.queue, 0));
  TF_SetAttrTypeList(desc, "component_types", &dtype, 1);
  q.dequeue = finish(desc);
  return q;
}

/* Milliseconds on a clock that only goes forward. */
static inline double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static inline void sleep_ms(int ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
  nanosleep(&t, NULL);
}

/* A thread that fetches one tensor, with a status of its own. */
typedef struct {
  TF_Session *session;
  TF_Output what;
  TF_Status *status;
  TF_Tensor *result;
  pthread_t thread;
  atomic_bool done;
} Waiter;

static inline void *wait_for_fetch(void *argument) {
  Waiter *w = argument;
  TF_SessionRun(w->session, NULL, NULL, NULL, 0, &w->what, &w->result, 1, NULL, 0, NULL, w->status);
  atomic_store(&w->done, true);
  return NULL;
}

static inline void start_waiter(Waiter *w, TF_Session *session, TF_Output what) {
  w->session = session;
  w->what = what;
  w->status = TF_NewStatus();
  w->result = NULL;
  atomic_init(&w->done, false);
  CHECK_INT(pthread_create(&w->thread, NULL, wait_for_fetch, w), 0);
}

/* Waits for the thread; the caller deletes status and result. */
static inline void join_waiter(Waiter *w) { CHECK_INT(pthread_join(w->thread, NULL), 0); }

static inline void delete_waiter(Waiter *w) {
  TF_DeleteTensor(w->result);
  TF_DeleteStatus(w->status);
}

#endif
