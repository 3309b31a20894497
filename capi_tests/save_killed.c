/* A process that is killed while it saves over an older checkpoint leaves a whole one. KILLS=500 kills more often. */
#include "checkpoints.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define COUNT 20000

/* Saves a vector of COUNT times the same number, a larger one each time, until it is killed. Does nothing unless it runs
 * in the process that `kills_leave_a_checkpoint` starts. */
static void save_forever(void) {
  const char *prefix = getenv("SAVE_FOREVER");
  if (prefix == NULL) return;
  TF_Graph *g = TF_NewGraph();
  TF_Operation *path = placeholder(g, TF_STRING, "path"), *x = placeholder(g, TF_FLOAT, "x");
  const char *names[] = {"x"}, *slices[] = {""};
  TF_Output tensor = output(x, 0);
  const TF_Operation *target = save_node(g, output(path, 0), 1, names, slices, &tensor, "save");
  TF_Session *session = new_session(g);
  static float numbers[COUNT];
  for (;;) {
    for (int i = 0; i < COUNT; i++) numbers[i] += 1;
    TF_Output feeds[] = {output(path, 0), tensor};
    TF_Tensor *values[] = {string_scalar(prefix), f32_vector(COUNT, numbers)};
    TF_SessionRun(session, NULL, feeds, values, 2, NULL, NULL, 0, &target, 1, NULL, status);
    CHECK_OK(status);
    TF_DeleteTensor(values[0]);
    TF_DeleteTensor(values[1]);
  }
}

/* Restores the vector, whose elements must be equal. Returns false if there is no checkpoint yet. */
static bool restored(TF_Session *session, TF_Output path, TF_Output vector, const char *prefix) {
  TF_Tensor *t = try_fetch_with(session, path, string_scalar(prefix), vector);
  if (TF_GetCode(status) == TF_NOT_FOUND && strstr(TF_Message(status), "Failed to find any matching files")) return false;
  CHECK_OK(status);
  CHECK_INT(TF_TensorElementCount(t), COUNT);
  for (int i = 1; i < COUNT; i++) CHECK(f32_at(t, i) == f32_at(t, 0));
  TF_DeleteTensor(t);
  return true;
}

static void kills_leave_a_checkpoint(void) {
  /* The reference renames two files one after the other; a kill in between leaves files that do not match. */
  if (!is_tfcore() || getenv("SAVE_FOREVER") != NULL) return;
  int kills = getenv("KILLS") != NULL ? atoi(getenv("KILLS")) : 10;
  char *directory = new_directory(), *prefix = joined(directory, "/ckpt");
  TF_Graph *g = TF_NewGraph();
  TF_Operation *path = placeholder(g, TF_STRING, "path");
  TF_Operation *vector = restore_node(g, output(path, 0), "x", "", TF_FLOAT, "restore");
  TF_Session *session = new_session(g);
  int checked = 0;
  srand(1);
  for (int i = 0; i < kills; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      setenv("SAVE_FOREVER", prefix, 1);
      execl("/proc/self/exe", "save_killed", "save_forever", (char *)NULL);
      _exit(127);
    }
    /* Until there is a checkpoint, a child has the time to write one however slow the machine is. */
    struct timespec pause = {checked == 0, 20000000 + (rand() % 1000) * 30000};
    nanosleep(&pause, NULL);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    checked += restored(session, output(path, 0), output(vector, 0), prefix);
  }
  printf("%d kills, %d checkpoints read; ", kills, checked);
  CHECK(checked > 0);
  delete_session(session);
  TF_DeleteGraph(g);
  free(prefix);
  delete_directory(directory);
}

CASES(CASE(save_forever), CASE(kills_leave_a_checkpoint))
