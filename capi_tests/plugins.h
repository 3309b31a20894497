/* Where the plug-ins are that tests load. */
#ifndef CAPI_TESTS_PLUGINS_H_
#define CAPI_TESTS_PLUGINS_H_

#include "check.h"

#include <libgen.h>
#include <unistd.h>

/* The path of build/plugin/<name>, from that of this program. */
static inline const char *plugin(const char *name) {
  static char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
  CHECK(length > 0);
  path[length] = '\0';
  for (int up = 0; up < 3; up++) {
    char candidate[4224];
    dirname(path);
    snprintf(candidate, sizeof candidate, "%s/plugin/%s", path, name);
    if (access(candidate, R_OK) == 0) {
      snprintf(path, sizeof path, "%.4095s", candidate);
      return path;
    }
  }
  CHECK_FAIL("%s is missing", name);
}

#endif
