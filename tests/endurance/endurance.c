/* What a process must stand that runs for months: memory, threads and files stay as they are, whatever ends how often.
 *
 * Usage: endurance [divisor [case...]]. The divisor makes all counts smaller; 1 is the long form.
 */
#include "../../capi_tests/pb.h"
#include "../../capi_tests/queues.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int divisor = 1;

/* ---- what a process has ---- */

static void memory_kb(long *mapped, long *resident) {
  FILE *f = fopen("/proc/self/statm", "r");
  CHECK(f != NULL && fscanf(f, "%ld %ld", mapped, resident) == 2);
  fclose(f);
  const long page = sysconf(_SC_PAGESIZE) / 1024;
  *mapped *= page;
  *resident *= page;
}

static long resident_kb(void) {
  long mapped = 0, resident = 0;
  memory_kb(&mapped, &resident);
  return resident;
}

static int count_entries(const char *directory) {
  DIR *d = opendir(directory);
  CHECK(d != NULL);
  int count = 0;
  while (readdir(d) != NULL) count++;
  closedir(d);
  return count;
}

/* Does `count / divisor` times what `once` does; after a tenth of it (at least 1000 times) nothing may grow any more. */
static void repeat(const char *what, long count, void (*once)(long)) {
  long total = count / divisor > 2000 ? count / divisor : 2000, settled = total / 10 > 1000 ? total / 10 : 1000;
  long memory = 0;
  int files = 0;
  double start = now_ms();
  for (long i = 0; i < total; i++) {
    if (i == settled) {
      memory = resident_kb();
      files = count_entries("/proc/self/fd");
    }
    once(i);
  }
  long grown = resident_kb() - memory;
  printf("%-16s %8ld times, %6.1f s, %6ld KB more\n", what, total, (now_ms() - start) / 1e3, grown);
  fflush(stdout);
  CHECK(grown < 1024);
  CHECK(count_entries("/proc/self/fd") <= files);
}

/* ---- a small graph ---- */

/* x, y = -x + x * x, broken (a Reshape that fails), and a queue. */
typedef struct {
  TF_Graph *graph;
  TF_Session *session;
  TF_Operation *x, *y, *broken;
  Queue q;
} Sample;

static Sample sample;

static Sample new_sample(void) {
  Sample s;
  s.graph = TF_NewGraph();
  s.x = placeholder(s.graph, TF_FLOAT, "x");
  TF_Operation *neg = unary(s.graph, "Neg", output(s.x, 0), "neg");
  TF_Operation *square = binary(s.graph, "Mul", output(s.x, 0), output(s.x, 0), "square");
  s.y = binary(s.graph, "AddV2", output(neg, 0), output(square, 0), "y");
  TF_Operation *five = constant(s.graph, i32_vector(1, (int32_t[]){5}), "five");
  s.broken = binary(s.graph, "Reshape", output(s.y, 0), output(five, 0), "broken");
  s.q = add_queue(s.graph, "q");
  s.session = new_session(s.graph);
  return s;
}

static void delete_sample(Sample s) {
  delete_session(s.session);
  TF_DeleteGraph(s.graph);
}

enum { ALONE = 3 }; /* entries of /proc/self/task: this thread, "." and ".." */

/* With the last session its threads are gone; the system takes a moment to say so. */
static void threads_are_gone(void) {
  for (int i = 0; i < 1000 && count_entries("/proc/self/task") > ALONE; i++) sleep_ms(1);
  CHECK_INT(count_entries("/proc/self/task"), ALONE);
}

static void end_sample(void) {
  delete_sample(sample);
  threads_are_gone();
}

static void run_sample(const Sample *s, float value) {
  TF_Tensor *t = fetch_with(s->session, output(s->x, 0), f32_scalar(value), output(s->y, 0));
  CHECK(f32_at(t, 0) == value * value - value);
  TF_DeleteTensor(t);
}

/* ---- the same again and again ---- */

static void run_once(long i) { run_sample(&sample, (float)(i % 1000)); }

static void runs(void) {
  sample = new_sample();
  repeat("runs", 1000000, run_once);
  end_sample();
}

static void session_once(long i) {
  TF_Session *session = sample.session;
  sample.session = new_session(sample.graph);
  run_sample(&sample, (float)(i % 1000));
  delete_session(sample.session);
  sample.session = session;
}

static void sessions(void) {
  sample = new_sample();
  repeat("sessions", 10000, session_once);
  end_sample();
}

static void graph_once(long i) {
  Sample s = new_sample();
  run_sample(&s, (float)(i % 1000));
  delete_sample(s);
}

static void graphs(void) {
  repeat("graphs", 10000, graph_once);
  threads_are_gone();
}

static void fail_once(long i) {
  TF_Tensor *t = try_fetch_with(sample.session, output(sample.x, 0), f32_scalar((float)i), output(sample.broken, 0));
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "[[{{node broken}}]]");
  CHECK(t == NULL);
  if (i % 100 == 0) run_sample(&sample, 3);
}

static void failing_runs(void) {
  sample = new_sample();
  repeat("failing runs", 100000, fail_once);
  end_sample();
}

static TF_Buffer *limit_of(int ms) {
  Pb options = {0};
  pb_int(&options, 2, ms);
  return pb_buffer(options);
}

static void cancel_once(long i) {
  TF_Buffer *limit = limit_of(1);
  TF_Output what = output(sample.q.dequeue, 0);
  TF_Tensor *t = NULL;
  TF_SessionRun(sample.session, limit, NULL, NULL, 0, &what, &t, 1, NULL, 0, NULL, status);
  TF_DeleteBuffer(limit);
  CHECK_CODE(status, TF_DEADLINE_EXCEEDED);
  CHECK(t == NULL);
  if (i % 100 == 0) run_sample(&sample, 3);
}

static void cancelled_runs(void) {
  sample = new_sample();
  repeat("cancelled runs", 100000, cancel_once);
  end_sample();
}

/* Every other partial run is left open; those go with their session. */
static void partial_once(long i) {
  TF_Session *session = sample.session;
  if (i % 10 == 0) {
    delete_session(session);
    session = sample.session = new_session(sample.graph);
  }
  TF_Output x = output(sample.x, 0), y = output(sample.y, 0);
  const char *handle = NULL;
  TF_SessionPRunSetup(session, &x, 1, &y, 1, NULL, 0, &handle, status);
  CHECK_OK(status);
  if (i % 2 == 0) {
    TF_Tensor *value = f32_scalar(3), *result = NULL;
    TF_SessionPRun(session, handle, &x, &value, 1, &y, &result, 1, NULL, 0, status);
    CHECK_OK(status);
    CHECK(f32_at(result, 0) == 6);
    TF_DeleteTensor(value);
    TF_DeleteTensor(result);
  }
  TF_DeletePRunHandle(handle);
}

static void partial_runs(void) {
  sample = new_sample();
  repeat("partial runs", 100000, partial_once);
  end_sample();
}

/* A session closed while a thread waits for its queue. */
static void close_once(long i) {
  (void)i;
  TF_Session *session = new_session(sample.graph);
  Waiter w;
  start_waiter(&w, session, output(sample.q.dequeue, 0));
  if (i % 2 == 0) sleep_ms(1);
  TF_CloseSession(session, status);
  CHECK_OK(status);
  join_waiter(&w);
  CHECK_CODE(w.status, TF_CANCELLED);
  delete_waiter(&w);
  delete_session(session);
}

static void closed_sessions(void) {
  sample = new_sample();
  repeat("closed sessions", 10000, close_once);
  end_sample();
}

/* ---- deadlines ---- */

static void deadlines(void) {
  sample = new_sample();
  int rounds = 200 / divisor > 20 ? 200 / divisor : 20, late = 0;
  double worst = 0;
  for (int i = 0; i < rounds; i++) {
    const int limit_ms = 5 + i % 20;
    TF_Buffer *limit = limit_of(limit_ms);
    TF_Output what = output(sample.q.dequeue, 0);
    TF_Tensor *t = NULL;
    double start = now_ms();
    TF_SessionRun(sample.session, limit, NULL, NULL, 0, &what, &t, 1, NULL, 0, NULL, status);
    double over = now_ms() - start - limit_ms;
    CHECK_CODE(status, TF_DEADLINE_EXCEEDED);
    CHECK(over > -1);
    if (over > worst) worst = over;
    late += over > 10;
    TF_DeleteBuffer(limit);
    run_sample(&sample, 3);
  }
  printf("%-16s %8d times, %6.2f ms late at worst\n", "deadlines", rounds, worst);
  /* A machine with other things to do may keep a thread from running. */
  CHECK(late * 20 <= rounds);
  end_sample();
}

/* ---- one thread ---- */

/* A session that is asked for one thread makes none, whatever there is to share; one that is asked for two does. */
static void as_many_threads_as_asked_for(void) {
  sample = new_sample();
  delete_session(sample.session);
  for (int asked = 1; asked <= 2; asked++) {
    Pb config = {0};
    pb_int(&config, 2, asked); /* intra_op_parallelism_threads */
    pb_int(&config, 5, asked); /* inter_op_parallelism_threads */
    sample.session = configured_session(sample.graph, config);
    const int64_t count = 1 << 20;
    for (int i = 0; i < 20; i++) {
      TF_Tensor *x = TF_AllocateTensor(TF_FLOAT, &count, 1, (size_t)count * sizeof(float));
      memset(TF_TensorData(x), 0, TF_TensorByteSize(x));
      TF_DeleteTensor(fetch_with(sample.session, output(sample.x, 0), x, output(sample.y, 0)));
    }
    CHECK((count_entries("/proc/self/task") == ALONE) == (asked == 1));
    if (asked == 1) delete_session(sample.session);
  }
  printf("%-16s done\n", "one thread");
  end_sample();
}

/* ---- many threads ---- */

/* What the threads run: `what` of the sample, fed with so many equal values. */
typedef struct {
  const char *name;
  TF_Output what;
  int values;
  float (*expected)(float);
  long runs;
} Load;

static const Load *load;
static atomic_int failures;
static atomic_bool go_on;

/* Feeds equal values, and checks that `what` is as many times `expected`. Threads must not use CHECK. */
static void run_and_count(TF_Output what, int values, float value, float expected, TF_Status *own) {
  const int64_t dims[1] = {values};
  TF_Tensor *fed = TF_AllocateTensor(TF_FLOAT, dims, values > 1, (size_t)values * sizeof value), *result = NULL;
  for (int i = 0; i < values; i++) ((float *)TF_TensorData(fed))[i] = value;
  TF_Output in = output(sample.x, 0);
  TF_SessionRun(sample.session, NULL, &in, &fed, 1, &what, &result, 1, NULL, 0, NULL, own);
  bool is_right = result != NULL && TF_TensorElementCount(result) == values;
  for (int i = 0; is_right && i < values; i++) is_right = f32_at(result, i) == expected;
  if (!is_right) atomic_fetch_add(&failures, 1);
  TF_DeleteTensor(fed);
  TF_DeleteTensor(result);
}

static void *run_many(void *argument) {
  (void)argument;
  TF_Status *own = TF_NewStatus();
  for (long i = 0; i < load->runs; i++) {
    const float value = (float)(i % 1000);
    run_and_count(load->what, load->values, value, load->expected(value), own);
  }
  TF_DeleteStatus(own);
  return NULL;
}

/* Adds nodes behind what is run, as long as the others run, and runs each. */
static void *extend_graph(void *argument) {
  TF_Status *own = TF_NewStatus();
  TF_Output last = load->what;
  for (int i = 0; atomic_load(&go_on) && i < 2000; i++) {
    char name[48];
    snprintf(name, sizeof name, "late%d_%d", (int)(intptr_t)argument, i);
    TF_OperationDescription *desc = TF_NewOperation(sample.graph, "Neg", name);
    TF_AddInput(desc, last);
    TF_Operation *op = TF_FinishOperation(desc, own);
    if (op == NULL) {
      atomic_fetch_add(&failures, 1);
      break;
    }
    last = output(op, 0);
    run_and_count(last, load->values, 2, load->expected(2) * (i % 2 == 0 ? -1.0f : 1.0f), own);
  }
  TF_DeleteStatus(own);
  return NULL;
}

/* How many runs so many threads do in a second, perhaps while the graph grows. */
static double throughput(int count, bool grows) {
  pthread_t runners[4], extender;
  atomic_store(&go_on, true);
  double start = now_ms();
  for (int i = 0; i < count; i++) CHECK_INT(pthread_create(&runners[i], NULL, run_many, NULL), 0);
  if (grows) CHECK_INT(pthread_create(&extender, NULL, extend_graph, (void *)(intptr_t)count), 0);
  for (int i = 0; i < count; i++) CHECK_INT(pthread_join(runners[i], NULL), 0);
  double took = now_ms() - start;
  atomic_store(&go_on, false);
  if (grows) CHECK_INT(pthread_join(extender, NULL), 0);
  return (double)(count * load->runs) / took * 1e3;
}

static float small_expected(float x) { return x * x - x; }

enum { BRANCHES = 64, DEPTH = 31 };

/* Some thousand nodes: the sum of 64 chains of 31 times `1 - x`. */
static TF_Output add_large(TF_Graph *g, TF_Output x) {
  TF_Output one = output(constant(g, f32_scalar(1), "one"), 0), ends[BRANCHES];
  for (int b = 0; b < BRANCHES; b++) {
    ends[b] = x;
    for (int depth = 0; depth < DEPTH; depth++) {
      char name[32];
      snprintf(name, sizeof name, "chain%d_%d", b, depth);
      ends[b] = output(binary(g, "Sub", one, ends[b], name), 0);
    }
  }
  TF_OperationDescription *desc = TF_NewOperation(g, "AddN", "sum");
  TF_AddInputList(desc, ends, BRANCHES);
  return output(finish(desc), 0);
}

static float large_expected(float x) { return BRANCHES * (1 - x); }

static long at_least(long count, long least) { return count / divisor > least ? count / divisor : least; }

static void threads(void) {
  for (int is_large = 0; is_large <= 1; is_large++) {
    sample = new_sample();
    const Load small = {"small graph", output(sample.y, 0), 1, small_expected, at_least(200000, 1000)};
    Load large = {"large graph", small.what, 64, large_expected, at_least(2000, 20)};
    if (is_large) large.what = add_large(sample.graph, output(sample.x, 0));
    load = is_large ? &large : &small;
    for (int count = 1; count <= 4; count *= 2) {
      double alone = throughput(count, false), growing = throughput(count, true);
      printf("%-16s %8d at once, %9.0f runs a second, %9.0f while it grows\n", load->name, count, alone, growing);
    }
    CHECK_INT(atomic_load(&failures), 0);
    end_sample();
  }
}

/* ---- without threads ---- */

/* Eight branches of matrix products, wide enough for being shared out. */
static TF_Output add_wide(TF_Graph *g) {
  enum { N = 128, PRODUCTS = 8 };
  float *values = calloc(N * N, sizeof *values);
  for (int i = 0; i < N; i++) values[i * N + i] = 1;
  TF_Output unit = output(constant(g, f32_matrix(N, N, values), "unit"), 0), sums[PRODUCTS];
  free(values);
  TF_Output from = output(unary(g, "Neg", unit, "from"), 0);
  for (int b = 0; b < PRODUCTS; b++) {
    sums[b] = from;
    for (int depth = 0; depth < 3; depth++) {
      char name[32];
      snprintf(name, sizeof name, "product%d_%d", b, depth);
      sums[b] = output(binary(g, "MatMul", sums[b], unit, name), 0);
    }
  }
  TF_OperationDescription *desc = TF_NewOperation(g, "AddN", "sum");
  TF_AddInputList(desc, sums, PRODUCTS);
  return output(finish(desc), 0);
}

static void run_wide(TF_Session *session, TF_Output what) {
  for (int i = 0; i < 20; i++) {
    TF_Tensor *t = fetch(session, what);
    CHECK(f32_at(t, 0) == -8 && f32_at(t, 1) == 0);
    TF_DeleteTensor(t);
  }
}

/* A session with threads of its own, which runs what is wide enough for them. */
static TF_Session *new_wide_session(TF_Graph *graph) {
  Pb config = {0};
  pb_int(&config, 5, 4); /* inter_op_parallelism_threads */
  pb_int(&config, 9, 1); /* use_per_session_threads */
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetConfig(options, config.data, config.length, status);
  free(config.data);
  TF_Session *session = TF_NewSession(graph, options, status);
  CHECK_OK(status);
  TF_DeleteSessionOptions(options);
  return session;
}

/* A child whose runs and session must end. */
static void fork_once(TF_Graph *graph, TF_Session *session, TF_Output what) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60);
    run_wide(session, what);
    delete_session(session);
    TF_DeleteGraph(graph);
    _exit(0);
  }
  int outcome = 1;
  CHECK(waitpid(child, &outcome, 0) == child);
  CHECK(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0);
}

/* The child of a fork has no threads, and makes new ones. */
static void after_a_fork(void) {
  TF_Graph *graph = TF_NewGraph();
  TF_Output what = add_wide(graph);
  TF_Session *session = new_wide_session(graph);
  run_wide(session, what);
  sleep_ms(20); /* the threads are asleep */
  fflush(stdout);
  fork_once(graph, session, what);
  run_wide(session, what);
  delete_session(session);
  TF_DeleteGraph(graph);
  printf("%-16s done\n", "after a fork");
}

static TF_Session *shared_session;
static TF_Output shared_output;

/* Runs what the threads of the session share, and makes and deletes sessions. */
static void *run_on(void *graph) {
  TF_Status *own = TF_NewStatus();
  TF_SessionOptions *options = TF_NewSessionOptions();
  for (int i = 0; atomic_load(&go_on); i++) {
    TF_Session *session = i % 8 == 0 ? TF_NewSession(graph, options, own) : shared_session;
    TF_Tensor *t = NULL;
    TF_SessionRun(session, NULL, NULL, NULL, 0, &shared_output, &t, 1, NULL, 0, NULL, own);
    if (t == NULL || f32_at(t, 0) != -8) atomic_fetch_add(&failures, 1);
    TF_DeleteTensor(t);
    if (session != shared_session) TF_DeleteSession(session, own);
  }
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(own);
  return NULL;
}

/* Whatever other threads are doing at the time of a fork, the child can go on with the library. */
static void forks(void) {
  TF_Graph *graph = TF_NewGraph();
  shared_output = add_wide(graph);
  shared_session = new_wide_session(graph);
  pthread_t runners[2];
  atomic_store(&go_on, true);
  for (int i = 0; i < 2; i++) CHECK_INT(pthread_create(&runners[i], NULL, run_on, graph), 0);
  const long count = at_least(10000, 200);
  double start = now_ms();
  fflush(stdout);
  for (long i = 0; i < count; i++) fork_once(graph, shared_session, shared_output);
  printf("%-16s %8ld times, %6.1f s\n", "forks", count, (now_ms() - start) / 1e3);
  atomic_store(&go_on, false);
  for (int i = 0; i < 2; i++) CHECK_INT(pthread_join(runners[i], NULL), 0);
  CHECK_INT(atomic_load(&failures), 0);
  delete_session(shared_session);
  TF_DeleteGraph(graph);
}

/* Refused threads: their work is done by those that exist. */
static void no_threads(void) {
  fflush(stdout);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60);
    const struct rlimit limit = {0, 0};
    if (setrlimit(RLIMIT_NPROC, &limit) != 0) _exit(2);
    /* The limit is not for root. */
    if (getuid() == 0 && setuid(65534) != 0) _exit(3);
    TF_Graph *graph = TF_NewGraph();
    TF_Output what = add_wide(graph);
    TF_Session *session = new_wide_session(graph);
    run_wide(session, what);
    delete_session(session);
    TF_DeleteGraph(graph);
    _exit(count_entries("/proc/self/task") == ALONE ? 0 : 4);
  }
  int outcome = 1;
  CHECK(waitpid(child, &outcome, 0) == child);
  CHECK(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0);
  printf("%-16s done\n", "no threads");
}

/* ---- memory ---- */

/* Runs the sample on so many zeros. */
static void run_zeros(int64_t count) {
  TF_Tensor *x = TF_AllocateTensor(TF_FLOAT, &count, 1, (size_t)count * sizeof(float));
  CHECK(x != NULL);
  memset(TF_TensorData(x), 0, TF_TensorByteSize(x));
  TF_Tensor *y = fetch_with(sample.session, output(sample.x, 0), x, output(sample.y, 0));
  CHECK(TF_TensorElementCount(y) == count && f32_at(y, (int)count - 1) == 0);
  TF_DeleteTensor(y);
}

/* A session keeps what recent runs used, not the sum of all sizes that it has seen, and nothing after its end. */
static void changing_sizes(void) {
  sample = new_sample();
  const long most = 4 << 20, least = resident_kb();
  unsigned random = 1;
  for (int i = 0; i < 3000; i++) {
    random = random * 1664525u + 1013904223u;
    /* Half of them of any size, half of any order of magnitude. */
    run_zeros(i % 2 == 0 ? 1 + (random >> 8) % most : 1 + most / (1 << (random >> 27) % 23));
  }
  const long used = resident_kb();
  delete_session(sample.session);
  const long left = resident_kb();
  sample.session = new_session(sample.graph);
  printf("%-16s %ld KB before, %ld KB with the session, %ld KB without it\n", "changing sizes", least, used, left);
  CHECK(used - least < 60 << 10);
  CHECK(left - least < 20 << 10);
  end_sample();
}

/* Memory that is free in the pool must not make an allocation fail. */
static void little_memory(void) {
  sample = new_sample();
  run_zeros(1);
  fflush(stdout);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    /* Earlier cases have left mappings without memory behind them, the arenas of threads. */
    long mapped = 0, resident = 0;
    memory_kb(&mapped, &resident);
    const rlim_t most = (rlim_t)(mapped + 1000000) << 10;
    const struct rlimit limit = {most, most};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    for (int64_t count = 64 << 20; count > 1000; count -= count / 16) run_zeros(count);
    _exit(0);
  }
  int outcome = 1;
  CHECK(waitpid(child, &outcome, 0) == child);
  CHECK(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0);
  printf("%-16s done\n", "little memory");
  end_sample();
}

int main(int argc, char **argv) {
  static const Case cases[] = {CASE(runs), CASE(sessions), CASE(graphs), CASE(failing_runs), CASE(cancelled_runs),
                               CASE(partial_runs), CASE(closed_sessions), CASE(deadlines),
                               CASE(as_many_threads_as_asked_for), CASE(threads), CASE(after_a_fork), CASE(forks), CASE(no_threads),
                               CASE(changing_sizes), CASE(little_memory)};
  if (argc > 1) divisor = atoi(argv[1]) > 0 ? atoi(argv[1]) : 1;
  return run_cases(cases, sizeof cases / sizeof *cases, argc > 1 ? argc - 1 : argc, argc > 1 ? argv + 1 : argv);
}
