#ifndef TENSORFLOW_C_TF_FILE_STATISTICS_H_
#define TENSORFLOW_C_TF_FILE_STATISTICS_H_

#include <stdbool.h>
#include <stdint.h>



// Facts about a file or directory.
typedef struct TF_FileStatistics {
  // The length in bytes, -1 if it is unknown.
  int64_t length;
  // The time of the last change, in nanoseconds since 1970-01-01 UTC.
  int64_t mtime_nsec;
  // True for a directory.
  bool is_directory;
} TF_FileStatistics;

#endif  /* TENSORFLOW_C_TF_FILE_STATISTICS_H_ */
