#ifndef TENSORFLOW_C_ENV_H_
#define TENSORFLOW_C_ENV_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_file_statistics.h"
#include "tensorflow/c/tf_status.h"



// A list of strings that is read from its beginning to its end.
typedef struct TF_StringStream TF_StringStream;

// A thread.
typedef struct TF_Thread TF_Thread;

// A file that is open for writing. C calls one function of it at a time.
typedef struct TF_WritableFileHandle TF_WritableFileHandle;

// Choices for a thread.
typedef struct TF_ThreadOptions {
  // The size of the stack in bytes, 0 for the default.
  size_t stack_size;
  // The size in bytes of the guard beside the stack, 0 for the default; there is always one, of a page.
  size_t guard_size;
  // The NUMA node, -1 for any. No thread is bound to one.
  int numa_node;
} TF_ThreadOptions;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the number of nanoseconds since 1970-01-01 UTC.
TF_CAPI_EXPORT uint64_t TF_NowNanos(void);

// Returns the number of microseconds since 1970-01-01 UTC.
TF_CAPI_EXPORT uint64_t TF_NowMicros(void);

// Returns the number of seconds since 1970-01-01 UTC.
TF_CAPI_EXPORT uint64_t TF_NowSeconds(void);

// Stores the default choices for a thread.
TF_CAPI_EXPORT void TF_DefaultThreadOptions(TF_ThreadOptions *options);

// Starts a thread that calls `work_func` with `param`, and returns it for `TF_JoinThread`; null if there can be no thread.
TF_CAPI_EXPORT TF_Thread *TF_StartThread(const TF_ThreadOptions *options, const char *thread_name,
    void (*work_func)(void*), void *param);

// Waits for the end of a thread and deletes it; null is allowed.
TF_CAPI_EXPORT void TF_JoinThread(TF_Thread *thread);

// Loads a shared library and returns a handle for `TF_GetSymbolFromLibrary`; null on error. Reports `TF_NOT_FOUND` if
// there is no such file or a symbol that it needs is missing.
TF_CAPI_EXPORT void *TF_LoadSharedLibrary(const char *library_filename, TF_Status *status);

// Returns the address of a symbol; null on error. Reports `TF_NOT_FOUND` if the library has no such symbol.
TF_CAPI_EXPORT void *TF_GetSymbolFromLibrary(void *handle, const char *symbol_name,
    TF_Status *status);

// Creates a directory in one that exists. Reports `TF_ALREADY_EXISTS` if there is a file or directory of this name.
TF_CAPI_EXPORT void TF_CreateDir(const char *dirname, TF_Status *status);

// Deletes an empty directory.
TF_CAPI_EXPORT void TF_DeleteDir(const char *dirname, TF_Status *status);

// Deletes a directory with all that is in it, as far as possible. Stores the numbers of files and of directories that
// could not be deleted; the status is then the first error.
TF_CAPI_EXPORT void TF_DeleteRecursively(const char *dirname, int64_t *undeleted_file_count,
    int64_t *undeleted_dir_count, TF_Status *status);

// Stores facts about a file or directory.
TF_CAPI_EXPORT void TF_FileStat(const char *filename, TF_FileStatistics *stats, TF_Status *status);

// Opens a new or emptied file for writing and stores a handle for `TF_CloseWritableFile`.
TF_CAPI_EXPORT void TF_NewWritableFile(const char *filename, TF_WritableFileHandle **handle,
    TF_Status *status);

// Closes a file and deletes the handle, also on an error.
TF_CAPI_EXPORT void TF_CloseWritableFile(TF_WritableFileHandle *handle, TF_Status *status);

// Writes all bytes to the device, so that they survive a crash of the machine.
TF_CAPI_EXPORT void TF_SyncWritableFile(TF_WritableFileHandle *handle, TF_Status *status);

// Hands buffered bytes to the operating system, so that readers see them.
TF_CAPI_EXPORT void TF_FlushWritableFile(TF_WritableFileHandle *handle, TF_Status *status);

// Writes `length` bytes at the end of a file.
TF_CAPI_EXPORT void TF_AppendWritableFile(TF_WritableFileHandle *handle, const char *data,
    size_t length, TF_Status *status);

// Deletes a file.
TF_CAPI_EXPORT void TF_DeleteFile(const char *filename, TF_Status *status);

// Stores the next string, which lives until the next call, and returns true; at the end null and false.
TF_CAPI_EXPORT bool TF_StringStreamNext(TF_StringStream *list, const char **result);

// Deletes a list; null is allowed.
TF_CAPI_EXPORT void TF_StringStreamDone(TF_StringStream *list);

// Returns the names in a directory, in no particular order, for the caller to delete with `TF_StringStreamDone`; an empty
// list on error.
TF_CAPI_EXPORT TF_StringStream *TF_GetChildren(const char *filename, TF_Status *status);

// Returns a directory for temporary files, with a slash at its end, as a list for the caller to delete with
// `TF_StringStreamDone`.
TF_CAPI_EXPORT TF_StringStream *TF_GetLocalTempDirectories(void);

// Creates an empty file with a new name in a directory for temporary files, and returns its path, for the caller to free
// with `free`; null on error. `extension` may be empty.
TF_CAPI_EXPORT char *TF_GetTempFileName(const char *extension);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TENSORFLOW_C_ENV_H_ */
