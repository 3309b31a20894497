/* A plug-in with a file system in memory for the scheme "shelf": a few small files in one directory. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/experimental/filesystem/filesystem_interface.h"

enum { FILES = 8, SIZE = 256 };

typedef struct {
  char name[64], data[SIZE];
  size_t length;
} File;

static File files[FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Paths come without the scheme: "/name" for a file, "/" for the directory. */
static const char *name_of(const char *path) { return path + (path[0] == '/'); }

static File *find(const char *path) {
  for (int i = 0; i < FILES; i++)
    if (files[i].name[0] && strcmp(files[i].name, name_of(path)) == 0) return &files[i];
  return NULL;
}

static File *find_or_fail(const char *path, TF_Status *status) {
  File *file = find(path);
  TF_SetStatus(status, file ? TF_OK : TF_NOT_FOUND, file ? "" : "no such file on the shelf");
  return file;
}

static void init(TF_Filesystem *filesystem, TF_Status *status) {
  filesystem->plugin_filesystem = files;
  TF_SetStatus(status, TF_OK, "");
}

static void cleanup(TF_Filesystem *filesystem) { filesystem->plugin_filesystem = NULL; }

static void open_for_reading(const TF_Filesystem *fs, const char *path, TF_RandomAccessFile *file, TF_Status *status) {
  (void)fs;
  pthread_mutex_lock(&lock);
  file->plugin_file = find_or_fail(path, status);
  pthread_mutex_unlock(&lock);
}

static void open_for_writing(const TF_Filesystem *fs, const char *path, TF_WritableFile *file, TF_Status *status) {
  (void)fs;
  pthread_mutex_lock(&lock);
  File *found = find(path);
  for (int i = 0; i < FILES && !found; i++)
    if (!files[i].name[0]) found = &files[i];
  if (found) {
    snprintf(found->name, sizeof found->name, "%s", name_of(path));
    found->length = 0;
  }
  TF_SetStatus(status, found ? TF_OK : TF_RESOURCE_EXHAUSTED, found ? "" : "the shelf is full");
  file->plugin_file = found;
  pthread_mutex_unlock(&lock);
}

static void exists(const TF_Filesystem *fs, const char *path, TF_Status *status) {
  (void)fs;
  pthread_mutex_lock(&lock);
  if (name_of(path)[0] == '\0')
    TF_SetStatus(status, TF_OK, "");
  else
    find_or_fail(path, status);
  pthread_mutex_unlock(&lock);
}

static void stat_file(const TF_Filesystem *fs, const char *path, TF_FileStatistics *stats, TF_Status *status) {
  (void)fs;
  pthread_mutex_lock(&lock);
  if (name_of(path)[0] == '\0') {
    *stats = (TF_FileStatistics){0, 0, true};
    TF_SetStatus(status, TF_OK, "");
  } else {
    File *file = find_or_fail(path, status);
    if (file) *stats = (TF_FileStatistics){(int64_t)file->length, 5000000000, false};
  }
  pthread_mutex_unlock(&lock);
}

static void delete_file(const TF_Filesystem *fs, const char *path, TF_Status *status) {
  (void)fs;
  pthread_mutex_lock(&lock);
  File *file = find_or_fail(path, status);
  if (file) memset(file, 0, sizeof *file);
  pthread_mutex_unlock(&lock);
}

static int get_children(const TF_Filesystem *fs, const char *path, char ***entries, TF_Status *status) {
  (void)fs, (void)path;
  pthread_mutex_lock(&lock);
  *entries = calloc(FILES, sizeof **entries);
  int count = 0;
  for (int i = 0; i < FILES; i++)
    if (files[i].name[0]) (*entries)[count++] = strdup(files[i].name);
  TF_SetStatus(status, TF_OK, "");
  pthread_mutex_unlock(&lock);
  return count;
}

static void close_reading(TF_RandomAccessFile *file) { file->plugin_file = NULL; }

static int64_t read_file(const TF_RandomAccessFile *file, uint64_t offset, size_t n, char *buffer, TF_Status *status) {
  pthread_mutex_lock(&lock);
  const File *from = file->plugin_file;
  size_t begin = offset < from->length ? (size_t)offset : from->length;
  size_t count = n < from->length - begin ? n : from->length - begin;
  memcpy(buffer, from->data + begin, count);
  TF_SetStatus(status, count < n ? TF_OUT_OF_RANGE : TF_OK, count < n ? "the end" : "");
  pthread_mutex_unlock(&lock);
  return (int64_t)count;
}

static void close_writing(TF_WritableFile *file) { file->plugin_file = NULL; }

static void append(const TF_WritableFile *file, const char *buffer, size_t n, TF_Status *status) {
  pthread_mutex_lock(&lock);
  File *to = file->plugin_file;
  if (n > SIZE - to->length) {
    TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "the file is full");
  } else {
    memcpy(to->data + to->length, buffer, n);
    to->length += n;
    TF_SetStatus(status, TF_OK, "");
  }
  pthread_mutex_unlock(&lock);
}

static void succeed(const TF_WritableFile *file, TF_Status *status) {
  (void)file;
  TF_SetStatus(status, TF_OK, "");
}

static void *allocate(size_t size) { return calloc(1, size); }
static void release(void *memory) { free(memory); }

void TF_InitPlugin(TF_FilesystemPluginInfo *info) {
  info->plugin_memory_allocate = &allocate;
  info->plugin_memory_free = &release;
  info->num_schemes = 1;
  TF_FilesystemPluginOps *ops = info->ops = allocate(sizeof *ops);
  TF_SetFilesystemVersionMetadata(ops);
  ops->scheme = strdup("shelf");
  ops->filesystem_ops = allocate(TF_FILESYSTEM_OPS_SIZE);
  ops->filesystem_ops->init = &init;
  ops->filesystem_ops->cleanup = &cleanup;
  ops->filesystem_ops->new_random_access_file = &open_for_reading;
  ops->filesystem_ops->new_writable_file = &open_for_writing;
  ops->filesystem_ops->path_exists = &exists;
  ops->filesystem_ops->stat = &stat_file;
  ops->filesystem_ops->delete_file = &delete_file;
  ops->filesystem_ops->get_children = &get_children;
  ops->random_access_file_ops = allocate(TF_RANDOM_ACCESS_FILE_OPS_SIZE);
  ops->random_access_file_ops->cleanup = &close_reading;
  ops->random_access_file_ops->read = &read_file;
  ops->writable_file_ops = allocate(TF_WRITABLE_FILE_OPS_SIZE);
  ops->writable_file_ops->cleanup = &close_writing;
  ops->writable_file_ops->append = &append;
  ops->writable_file_ops->flush = &succeed;
  ops->writable_file_ops->sync = &succeed;
  ops->writable_file_ops->close = &succeed;
}
