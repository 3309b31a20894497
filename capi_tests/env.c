/* Time, threads and shared libraries. */
#include "check.h"

#include <pthread.h>
#include <time.h>

#include "tensorflow/c/env.h"

static void clocks_agree(void) {
  uint64_t seconds = TF_NowSeconds(), micros = TF_NowMicros(), nanos = TF_NowNanos();
  CHECK(seconds > 1600000000);
  CHECK(micros / 1000000 - seconds <= 2);
  CHECK(nanos / 1000000000 - seconds <= 2);
  CHECK(TF_NowNanos() >= nanos);
  time_t now = time(NULL);
  CHECK((uint64_t)now - seconds <= 2);
}

static void default_options(void) {
  TF_ThreadOptions options = {1, 2, 3};
  TF_DefaultThreadOptions(&options);
  CHECK_INT(options.stack_size, 0);
  CHECK_INT(options.guard_size, 0);
  CHECK_INT(options.numa_node, -1);
}

static pthread_t seen;

static void add_one(void *value) {
  seen = pthread_self();
  ++*(int *)value;
}

static void a_thread_runs_once(void) {
  TF_ThreadOptions options;
  TF_DefaultThreadOptions(&options);
  int value = 41;
  TF_Thread *thread = TF_StartThread(&options, "adder", &add_one, &value);
  CHECK(thread != NULL);
  TF_JoinThread(thread);
  CHECK_INT(value, 42);
  CHECK(!pthread_equal(seen, pthread_self()));
}

static void many_threads(void) {
  TF_ThreadOptions options;
  TF_DefaultThreadOptions(&options);
  options.stack_size = 1 << 20;
  enum { COUNT = 16 };
  int values[COUNT];
  TF_Thread *threads[COUNT];
  for (int i = 0; i < COUNT; i++) {
    values[i] = i;
    threads[i] = TF_StartThread(&options, "adder", &add_one, &values[i]);
    CHECK(threads[i] != NULL);
  }
  for (int i = 0; i < COUNT; i++) TF_JoinThread(threads[i]);
  for (int i = 0; i < COUNT; i++) CHECK_INT(values[i], i + 1);
}

static void no_thread_is_joined(void) { TF_JoinThread(NULL); }

static void a_library_is_loaded(void) {
  void *library = TF_LoadSharedLibrary("libm.so.6", status);
  CHECK_OK(status);
  CHECK(library != NULL);
  void *symbol = TF_GetSymbolFromLibrary(library, "cos", status);
  CHECK_OK(status);
  double (*cosine)(double);
  memcpy(&cosine, &symbol, sizeof cosine);
  CHECK(cosine(0.0) == 1.0);
  CHECK(TF_GetSymbolFromLibrary(library, "no_such_function", status) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "undefined symbol: no_such_function");
}

static void no_such_library(void) {
  CHECK(TF_LoadSharedLibrary("/no/such/library.so", status) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "/no/such/library.so: cannot open shared object file");
}

CASES(CASE(clocks_agree), CASE(default_options), CASE(a_thread_runs_once), CASE(many_threads), CASE(no_thread_is_joined),
      CASE(a_library_is_loaded), CASE(no_such_library))
