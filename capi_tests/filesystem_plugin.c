/* File systems of plug-ins. The plug-in is plugins/shelf_fs.c. */
#include "plugins.h"

#include "tensorflow/c/env.h"

static void load(void) {
  static bool is_loaded;
  if (is_loaded) return;
  TF_RegisterFilesystemPlugin(plugin("libshelf_fs.so"), status);
  CHECK_OK(status);
  is_loaded = true;
}

static void write_file(const char *path, const char *text) {
  TF_WritableFileHandle *file = NULL;
  TF_NewWritableFile(path, &file, status);
  CHECK_OK(status);
  TF_AppendWritableFile(file, text, strlen(text), status);
  CHECK_OK(status);
  TF_FlushWritableFile(file, status);
  CHECK_OK(status);
  TF_SyncWritableFile(file, status);
  CHECK_OK(status);
  TF_CloseWritableFile(file, status);
  CHECK_OK(status);
}

static void files_are_written_and_found(void) {
  load();
  write_file("shelf:///a", "hello");
  write_file("shelf:///b", "");
  TF_FileStatistics stats;
  TF_FileStat("shelf:///a", &stats, status);
  CHECK_OK(status);
  CHECK_INT(stats.length, 5);
  CHECK_INT(stats.mtime_nsec, 5000000000);
  CHECK(!stats.is_directory);
  TF_StringStream *children = TF_GetChildren("shelf:///", status);
  CHECK_OK(status);
  const char *name;
  int count = 0;
  while (TF_StringStreamNext(children, &name)) {
    CHECK(strcmp(name, "a") == 0 || strcmp(name, "b") == 0);
    count++;
  }
  CHECK(name == NULL);
  CHECK_INT(count, 2);
  TF_StringStreamDone(children);
  TF_DeleteFile("shelf:///a", status);
  CHECK_OK(status);
  TF_DeleteFile("shelf:///b", status);
  CHECK_OK(status);
  TF_FileStat("shelf:///a", &stats, status);
  CHECK_ERROR(status, TF_NOT_FOUND, "no such file on the shelf");
}

static void errors_of_the_plugin_are_told(void) {
  load();
  char large[300];
  memset(large, 'x', sizeof large);
  TF_WritableFileHandle *file = NULL;
  TF_NewWritableFile("shelf:///large", &file, status);
  CHECK_OK(status);
  TF_AppendWritableFile(file, large, sizeof large, status);
  CHECK_ERROR(status, TF_RESOURCE_EXHAUSTED, "the file is full");
  TF_CloseWritableFile(file, status);
  CHECK_OK(status);
  TF_DeleteFile("shelf:///large", status);
  CHECK_OK(status);
  TF_CreateDir("shelf:///directory", status);
  CHECK_CODE(status, TF_UNIMPLEMENTED);
}

static void a_scheme_is_taken_once(void) {
  load();
  TF_RegisterFilesystemPlugin(plugin("libshelf_fs.so"), status);
  CHECK_ERROR(status, TF_ALREADY_EXISTS, "shelf");
}

static void no_plugin(void) {
  TF_RegisterFilesystemPlugin("/no/such/plugin.so", status);
  CHECK_ERROR(status, TF_NOT_FOUND, "/no/such/plugin.so");
  TF_RegisterFilesystemPlugin("libm.so.6", status);
  CHECK_ERROR(status, TF_NOT_FOUND, "undefined symbol: TF_InitPlugin");
}

static void schemes_without_a_file_system(void) {
  TF_FileStatistics stats;
  TF_FileStat("nosuchscheme://a", &stats, status);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "nosuchscheme");
}

CASES(CASE(files_are_written_and_found), CASE(errors_of_the_plugin_are_told), CASE(a_scheme_is_taken_once),
      CASE(no_plugin), CASE(schemes_without_a_file_system))
