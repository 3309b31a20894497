/* The test runner and its checks. Include this file before any other.
 *
 * A test program is a list of cases, each a function without arguments:
 *
 *     static void adds(void) { CHECK_INT(1 + 1, 2); }
 *     CASES(CASE(adds))
 *
 * A failed check prints where and why, ends its case and lets the next one run. The checks do not depend on
 * NDEBUG. They belong to the thread that runs the cases; other threads hand their results over to it.
 */
#ifndef CAPI_TESTS_CHECK_H_
#define CAPI_TESTS_CHECK_H_

#define _GNU_SOURCE /* RTLD_DEFAULT */

#include <dlfcn.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

/* A fresh status for each case. */
static TF_Status *status;

static jmp_buf check_leave_case;

static inline _Noreturn void check_failed(const char *file, int line) {
  fflush(stdout);
  fprintf(stderr, "  at %s:%d\n", file, line);
  longjmp(check_leave_case, 1);
}

#define CHECK_FAIL(...) \
  (fprintf(stderr, "  "), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), check_failed(__FILE__, __LINE__))

#define CHECK(condition)                              \
  do {                                                \
    if (!(condition)) CHECK_FAIL("not true: %s", #condition); \
  } while (0)

#define CHECK_INT(actual, expected)                                                   \
  do {                                                                                \
    long long check_a = (long long)(actual), check_e = (long long)(expected);         \
    if (check_a != check_e) CHECK_FAIL("%s is %lld, not %lld", #actual, check_a, check_e); \
  } while (0)

#define CHECK_STR(actual, expected)                                                              \
  do {                                                                                           \
    const char *check_a = (actual), *check_e = (expected);                                       \
    if (check_a == NULL) CHECK_FAIL("%s is NULL", #actual);                                      \
    if (strcmp(check_a, check_e) != 0) CHECK_FAIL("%s is \"%s\", not \"%s\"", #actual, check_a, check_e); \
  } while (0)

#define CHECK_CODE(s, code)                                                                       \
  do {                                                                                            \
    int check_a = (int)TF_GetCode(s), check_e = (int)(code);                                      \
    if (check_a != check_e) CHECK_FAIL("code is %d, not %s: \"%s\"", check_a, #code, TF_Message(s)); \
  } while (0)

#define CHECK_OK(s) CHECK_CODE(s, TF_OK)

/* The message contains `part`. */
#define CHECK_MESSAGE(s, part)                                                                  \
  do {                                                                                          \
    const char *check_e = (part);                                                               \
    if (strstr(TF_Message(s), check_e) == NULL)                                                 \
      CHECK_FAIL("message lacks \"%s\":\n  \"%s\"", check_e, TF_Message(s));                    \
  } while (0)

#define CHECK_ERROR(s, code, part) \
  do {                             \
    CHECK_CODE(s, code);           \
    CHECK_MESSAGE(s, part);        \
  } while (0)

/* True when the library under test is ours. The reference aborts on some bad inputs, which are errors here. */
static inline bool is_tfcore(void) { return dlsym(RTLD_DEFAULT, "tfcore_version") != NULL; }

typedef struct {
  const char *name;
  void (*run)(void);
} Case;

#define CASE(function) {#function, function}

/* Runs all cases, or those named on the command line. */
static inline int run_cases(const Case *cases, size_t count, int argc, char **argv) {
  volatile int passed = 0, failed = 0;
  for (volatile size_t i = 0; i < count; i++) {
    bool wanted = argc < 2;
    for (int a = 1; a < argc; a++) wanted = wanted || strcmp(argv[a], cases[i].name) == 0;
    if (!wanted) continue;
    status = TF_NewStatus();
    if (setjmp(check_leave_case) == 0) {
      cases[i].run();
      passed++;
    } else {
      fprintf(stderr, "  in case %s\n", cases[i].name);
      failed++;
    }
    TF_DeleteStatus(status);
  }
  printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#define CASES(...)                                                                 \
  int main(int argc, char **argv) {                                                \
    static const Case cases[] = {__VA_ARGS__};                                     \
    return run_cases(cases, sizeof cases / sizeof cases[0], argc, argv);           \
  }

#endif
