/* Files and directories (env.h). */
#include "check.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tensorflow/c/env.h"

static char base[256];

/* A new directory for a case. */
static const char *begin(void) {
  snprintf(base, sizeof base, "/tmp/tfcore_files_XXXXXX");
  CHECK(mkdtemp(base) != NULL);
  return base;
}

/* Deletes what the case has left. */
static void end(void) {
  int64_t files = -1, directories = -1;
  TF_DeleteRecursively(base, &files, &directories, status);
  CHECK_OK(status);
  CHECK_INT(files, 0);
  CHECK_INT(directories, 0);
}

static const char *below(const char *name) {
  static char paths[4][512];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", base, name);
  return path;
}

static void write_file(const char *path, const char *text) {
  TF_WritableFileHandle *file = NULL;
  TF_NewWritableFile(path, &file, status);
  CHECK_OK(status);
  CHECK(file != NULL);
  TF_AppendWritableFile(file, text, strlen(text), status);
  CHECK_OK(status);
  TF_CloseWritableFile(file, status);
  CHECK_OK(status);
}

static void check_content(const char *path, const char *text) {
  char buffer[64] = {0};
  FILE *file = fopen(path, "rb");
  CHECK(file != NULL);
  size_t length = fread(buffer, 1, sizeof buffer - 1, file);
  fclose(file);
  CHECK_INT(length, strlen(text));
  CHECK_STR(buffer, text);
}

static void directories(void) {
  begin();
  TF_CreateDir(below("d"), status);
  CHECK_OK(status);
  TF_CreateDir(below("d"), status);
  CHECK_ERROR(status, TF_ALREADY_EXISTS, "File exists");
  TF_CreateDir(below("no/d"), status);
  CHECK_ERROR(status, TF_NOT_FOUND, "No such file or directory");
  TF_DeleteDir(below("d"), status);
  CHECK_OK(status);
  TF_DeleteDir(below("d"), status);
  CHECK_CODE(status, TF_NOT_FOUND);
  end();
}

static void files(void) {
  begin();
  write_file(below("a"), "hello");
  check_content(below("a"), "hello");
  write_file(below("a"), "new");
  check_content(below("a"), "new");
  TF_DeleteFile(below("a"), status);
  CHECK_OK(status);
  TF_DeleteFile(below("a"), status);
  CHECK_ERROR(status, TF_NOT_FOUND, "No such file or directory");
  TF_WritableFileHandle *file = NULL;
  TF_NewWritableFile(below("no/a"), &file, status);
  CHECK_CODE(status, TF_NOT_FOUND);
  CHECK(file == NULL);
  end();
}

static void flushed_bytes_are_seen(void) {
  begin();
  TF_WritableFileHandle *file = NULL;
  TF_NewWritableFile(below("a"), &file, status);
  CHECK_OK(status);
  TF_AppendWritableFile(file, "one", 3, status);
  CHECK_OK(status);
  TF_FlushWritableFile(file, status);
  CHECK_OK(status);
  check_content(below("a"), "one");
  TF_AppendWritableFile(file, NULL, 0, status);
  CHECK_OK(status);
  TF_AppendWritableFile(file, " two", 4, status);
  CHECK_OK(status);
  TF_SyncWritableFile(file, status);
  CHECK_OK(status);
  check_content(below("a"), "one two");
  TF_CloseWritableFile(file, status);
  CHECK_OK(status);
  end();
}

static void facts(void) {
  begin();
  write_file(below("a"), "hello");
  TF_FileStatistics stats;
  TF_FileStat(below("a"), &stats, status);
  CHECK_OK(status);
  CHECK_INT(stats.length, 5);
  CHECK(!stats.is_directory);
  uint64_t age = TF_NowNanos() - (uint64_t)stats.mtime_nsec;
  CHECK(age < 60000000000u);
  TF_FileStat(base, &stats, status);
  CHECK_OK(status);
  CHECK(stats.is_directory);
  TF_FileStat(below("no"), &stats, status);
  CHECK_ERROR(status, TF_NOT_FOUND, "No such file or directory");
  end();
}

static void children(void) {
  begin();
  write_file(below("a"), "");
  write_file(below("b"), "");
  TF_CreateDir(below("d"), status);
  write_file(below("d/c"), "");
  TF_StringStream *list = TF_GetChildren(base, status);
  CHECK_OK(status);
  int seen[3] = {0};
  const char *name;
  while (TF_StringStreamNext(list, &name)) {
    CHECK_INT(strlen(name), 1);
    seen[name[0] == 'a' ? 0 : name[0] == 'b' ? 1 : 2]++;
  }
  CHECK(name == NULL);
  CHECK(!TF_StringStreamNext(list, &name));
  for (int i = 0; i < 3; i++) CHECK_INT(seen[i], 1);
  TF_StringStreamDone(list);
  list = TF_GetChildren(below("no"), status);
  CHECK_CODE(status, TF_NOT_FOUND);
  CHECK(list != NULL);
  CHECK(!TF_StringStreamNext(list, &name));
  TF_StringStreamDone(list);
  end();
}

static void what_is_not_there_is_not_deleted(void) {
  begin();
  int64_t file_count = -1, directory_count = -1;
  TF_DeleteRecursively(below("no"), &file_count, &directory_count, status);
  CHECK_CODE(status, TF_NOT_FOUND);
  CHECK_INT(file_count, 0);
  CHECK_INT(directory_count, 1);
  end();
}

static void files_in_memory(void) {
  write_file("ram://files_test/a", "hello");
  TF_FileStatistics stats;
  TF_FileStat("ram://files_test/a", &stats, status);
  CHECK_OK(status);
  CHECK_INT(stats.length, 5);
  TF_DeleteFile("ram://files_test/a", status);
  CHECK_OK(status);
}

static void temporary_files(void) {
  TF_StringStream *list = TF_GetLocalTempDirectories();
  const char *name;
  CHECK(TF_StringStreamNext(list, &name));
  CHECK(name[strlen(name) - 1] == '/');
  CHECK(access(name, W_OK) == 0);
  CHECK(!TF_StringStreamNext(list, &name));
  TF_StringStreamDone(list);
  char *first = TF_GetTempFileName("txt"), *second = TF_GetTempFileName("");
  CHECK(strcmp(first + strlen(first) - 4, ".txt") == 0);
  CHECK(strcmp(first, second) != 0);
  CHECK(access(first, F_OK) == 0);
  CHECK(access(second, F_OK) == 0);
  unlink(first);
  unlink(second);
  free(first);
  free(second);
}

CASES(CASE(directories), CASE(files), CASE(flushed_bytes_are_seen), CASE(facts), CASE(children),
      CASE(what_is_not_there_is_not_deleted), CASE(files_in_memory), CASE(temporary_files))
