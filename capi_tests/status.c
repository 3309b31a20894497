/* TF_Status: codes, messages, payloads, errno mapping, and the TSL_ names of the same functions. */
#include "check.h"

#include <errno.h>

static void new_status_is_ok(void) {
  CHECK_INT(TF_GetCode(status), TF_OK);
  CHECK_STR(TF_Message(status), "");
}

static void every_code_is_kept(void) {
  for (int code = 1; code <= 16; code++) {
    TF_SetStatus(status, (TF_Code)code, "text");
    CHECK_INT(TF_GetCode(status), code);
    CHECK_STR(TF_Message(status), "text");
  }
}

static void code_numbers(void) {
  CHECK_INT(TF_OK, 0);
  CHECK_INT(TF_CANCELLED, 1);
  CHECK_INT(TF_UNKNOWN, 2);
  CHECK_INT(TF_INVALID_ARGUMENT, 3);
  CHECK_INT(TF_DEADLINE_EXCEEDED, 4);
  CHECK_INT(TF_NOT_FOUND, 5);
  CHECK_INT(TF_ALREADY_EXISTS, 6);
  CHECK_INT(TF_PERMISSION_DENIED, 7);
  CHECK_INT(TF_RESOURCE_EXHAUSTED, 8);
  CHECK_INT(TF_FAILED_PRECONDITION, 9);
  CHECK_INT(TF_ABORTED, 10);
  CHECK_INT(TF_OUT_OF_RANGE, 11);
  CHECK_INT(TF_UNIMPLEMENTED, 12);
  CHECK_INT(TF_INTERNAL, 13);
  CHECK_INT(TF_UNAVAILABLE, 14);
  CHECK_INT(TF_DATA_LOSS, 15);
  CHECK_INT(TF_UNAUTHENTICATED, 16);
}

static void ok_drops_the_text(void) {
  TF_SetStatus(status, TF_OK, "text");
  CHECK_OK(status);
  CHECK_STR(TF_Message(status), "");
  TF_SetStatus(status, TF_ABORTED, "text");
  TF_SetStatus(status, TF_OK, "");
  CHECK_OK(status);
  CHECK_STR(TF_Message(status), "");
}

static void message_is_copied(void) {
  char text[] = "first";
  TF_SetStatus(status, TF_UNKNOWN, text);
  memset(text, 'x', 5);
  CHECK_STR(TF_Message(status), "first");
  TF_SetStatus(status, TF_CANCELLED, "");
  CHECK_CODE(status, TF_CANCELLED);
  CHECK_STR(TF_Message(status), "");
}

static void long_message(void) {
  enum { LENGTH = 100000 };
  char *text = malloc(LENGTH + 1);
  memset(text, 'm', LENGTH);
  text[LENGTH] = '\0';
  TF_SetStatus(status, TF_INTERNAL, text);
  free(text);
  CHECK_INT(strlen(TF_Message(status)), LENGTH);
}

/* Collects "key=value;" in a string. */
static void collect(const char *key, const char *value, void *capture) {
  char *text = capture;
  strcat(text, key);
  strcat(text, "=");
  strcat(text, value);
  strcat(text, ";");
}

static void payloads(void) {
  char seen[64] = "";
  TF_SetStatus(status, TF_NOT_FOUND, "text");
  TF_SetPayload(status, "a", "1");
  TF_SetPayload(status, "b", "2");
  TF_SetPayload(status, "a", "3");
  TF_ForEachPayload(status, collect, seen);
  CHECK(strcmp(seen, "a=3;b=2;") == 0 || strcmp(seen, "b=2;a=3;") == 0);
  CHECK_STR(TF_Message(status), "text");
}

static void payloads_end_with_the_error(void) {
  char seen[64] = "";
  TF_SetStatus(status, TF_NOT_FOUND, "text");
  TF_SetPayload(status, "a", "1");
  TF_SetStatus(status, TF_NOT_FOUND, "text");
  TF_ForEachPayload(status, collect, seen);
  CHECK_STR(seen, "");
}

static void ok_has_no_payloads(void) {
  char seen[64] = "";
  TF_SetPayload(status, "a", "1");
  TF_ForEachPayload(status, collect, seen);
  CHECK_STR(seen, "");
  TF_SetStatus(status, TF_NOT_FOUND, "text");
  TF_ForEachPayload(status, collect, seen);
  CHECK_STR(seen, "");
}

static void io_errors(void) {
  static const struct {
    int error;
    TF_Code code;
  } table[] = {
      {EINVAL, TF_INVALID_ARGUMENT},
      {ENAMETOOLONG, TF_INVALID_ARGUMENT},
      {E2BIG, TF_INVALID_ARGUMENT},
      {EDESTADDRREQ, TF_INVALID_ARGUMENT},
      {EDOM, TF_INVALID_ARGUMENT},
      {EFAULT, TF_INVALID_ARGUMENT},
      {EILSEQ, TF_INVALID_ARGUMENT},
      {ENOPROTOOPT, TF_INVALID_ARGUMENT},
      {ENOTSOCK, TF_INVALID_ARGUMENT},
      {ENOTTY, TF_INVALID_ARGUMENT},
      {EPROTOTYPE, TF_INVALID_ARGUMENT},
      {ESPIPE, TF_INVALID_ARGUMENT},
      {ETIMEDOUT, TF_DEADLINE_EXCEEDED},
      {ENODEV, TF_NOT_FOUND},
      {ENOENT, TF_NOT_FOUND},
      {ENXIO, TF_NOT_FOUND},
      {ESRCH, TF_NOT_FOUND},
      {EEXIST, TF_ALREADY_EXISTS},
      {EADDRNOTAVAIL, TF_ALREADY_EXISTS},
      {EALREADY, TF_ALREADY_EXISTS},
      {EPERM, TF_PERMISSION_DENIED},
      {EACCES, TF_PERMISSION_DENIED},
      {EROFS, TF_PERMISSION_DENIED},
      {ENOTEMPTY, TF_FAILED_PRECONDITION},
      {EISDIR, TF_FAILED_PRECONDITION},
      {ENOTDIR, TF_FAILED_PRECONDITION},
      {EADDRINUSE, TF_FAILED_PRECONDITION},
      {EBADF, TF_FAILED_PRECONDITION},
      {EBUSY, TF_FAILED_PRECONDITION},
      {ECHILD, TF_FAILED_PRECONDITION},
      {EISCONN, TF_FAILED_PRECONDITION},
      {ENOTBLK, TF_FAILED_PRECONDITION},
      {ENOTCONN, TF_FAILED_PRECONDITION},
      {EPIPE, TF_FAILED_PRECONDITION},
      {ETXTBSY, TF_FAILED_PRECONDITION},
      {ENOSPC, TF_RESOURCE_EXHAUSTED},
      {EDQUOT, TF_RESOURCE_EXHAUSTED},
      {EMFILE, TF_RESOURCE_EXHAUSTED},
      {EMLINK, TF_RESOURCE_EXHAUSTED},
      {ENFILE, TF_RESOURCE_EXHAUSTED},
      {ENOBUFS, TF_RESOURCE_EXHAUSTED},
      {ENOMEM, TF_RESOURCE_EXHAUSTED},
      {EUSERS, TF_RESOURCE_EXHAUSTED},
      {EFBIG, TF_OUT_OF_RANGE},
      {EOVERFLOW, TF_OUT_OF_RANGE},
      {ERANGE, TF_OUT_OF_RANGE},
      {ENOSYS, TF_UNIMPLEMENTED},
      {ENOTSUP, TF_UNIMPLEMENTED},
      {EAFNOSUPPORT, TF_UNIMPLEMENTED},
      {EPFNOSUPPORT, TF_UNIMPLEMENTED},
      {EPROTONOSUPPORT, TF_UNIMPLEMENTED},
      {ESOCKTNOSUPPORT, TF_UNIMPLEMENTED},
      {EXDEV, TF_UNIMPLEMENTED},
      {EAGAIN, TF_UNAVAILABLE},
      {ECONNREFUSED, TF_UNAVAILABLE},
      {ECONNABORTED, TF_UNAVAILABLE},
      {ECONNRESET, TF_UNAVAILABLE},
      {EINTR, TF_UNAVAILABLE},
      {EHOSTDOWN, TF_UNAVAILABLE},
      {EHOSTUNREACH, TF_UNAVAILABLE},
      {ENETDOWN, TF_UNAVAILABLE},
      {ENETRESET, TF_UNAVAILABLE},
      {ENETUNREACH, TF_UNAVAILABLE},
      {ENOLCK, TF_UNAVAILABLE},
      {ENOLINK, TF_UNAVAILABLE},
      {EDEADLK, TF_ABORTED},
      {ESTALE, TF_ABORTED},
      {ECANCELED, TF_CANCELLED},
      {EBADMSG, TF_UNKNOWN},
      {EIDRM, TF_UNKNOWN},
      {EINPROGRESS, TF_UNKNOWN},
      {EIO, TF_UNKNOWN},
      {ELOOP, TF_UNKNOWN},
      {ENOEXEC, TF_UNKNOWN},
      {ENOMSG, TF_UNKNOWN},
      {EPROTO, TF_UNKNOWN},
      {EREMOTE, TF_UNKNOWN},
      {99999, TF_UNKNOWN},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    TF_SetStatusFromIOError(status, table[i].error, "ctx");
    if (TF_GetCode(status) != table[i].code)
      CHECK_FAIL("errno %d (%s) gives code %d", table[i].error, strerror(table[i].error), TF_GetCode(status));
  }
}

static void io_error_message(void) {
  TF_SetStatusFromIOError(status, ENOENT, "path/to/file");
  CHECK_CODE(status, TF_NOT_FOUND);
  CHECK_STR(TF_Message(status), "path/to/file; No such file or directory");
}

static void delete_of_null(void) { TF_DeleteStatus(NULL); }

static void tsl_names(void) {
  char seen[64] = "";
  TSL_Status *s = TSL_NewStatus();
  TSL_SetStatus(s, TSL_DATA_LOSS, "text");
  TSL_SetPayload(s, "key", "value");
  TSL_ForEachPayload(s, collect, seen);
  CHECK_STR(seen, "key=value;");
  CHECK_INT(TSL_GetCode(s), TF_GetCode(s));
  CHECK_STR(TSL_Message(s), TF_Message(s));
  TSL_SetStatusFromIOError(s, EEXIST, "ctx");
  CHECK_CODE(s, TF_ALREADY_EXISTS);
  TSL_DeleteStatus(s);
}

static void null_text_is_empty(void) {
  if (!is_tfcore()) return;
  TF_SetStatus(status, TF_ABORTED, NULL);
  CHECK_CODE(status, TF_ABORTED);
  CHECK_STR(TF_Message(status), "");
}

CASES(CASE(new_status_is_ok), CASE(every_code_is_kept), CASE(code_numbers), CASE(ok_drops_the_text),
      CASE(message_is_copied), CASE(long_message), CASE(payloads), CASE(payloads_end_with_the_error),
      CASE(ok_has_no_payloads), CASE(io_errors), CASE(io_error_message), CASE(delete_of_null), CASE(tsl_names),
      CASE(null_text_is_empty))
