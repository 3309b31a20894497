#ifndef TENSORFLOW_C_EXPERIMENTAL_FILESYSTEM_FILESYSTEM_INTERFACE_H_
#define TENSORFLOW_C_EXPERIMENTAL_FILESYSTEM_FILESYSTEM_INTERFACE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_file_statistics.h"
#include "tensorflow/c/tf_status.h"

// The interface of plug-ins for file systems. TF_RegisterFilesystemPlugin loads one and calls its TF_InitPlugin, which
// describes a file system for each scheme: tables of functions, with the versions of the tables.
//
// Paths are what translate_name makes of URIs, without it the URI without scheme and host. A function with a status sets it, also to TF_OK. Functions that may be null are marked; the library
// then does with others what they do, or reports TF_UNIMPLEMENTED.
#ifdef __cplusplus
extern "C" {
#endif

// An open file, a region of memory, a file system: each with what the plug-in keeps for it.
typedef struct TF_RandomAccessFile {
  void *plugin_file;
} TF_RandomAccessFile;

typedef struct TF_WritableFile {
  void *plugin_file;
} TF_WritableFile;

typedef struct TF_ReadOnlyMemoryRegion {
  void *plugin_memory_region;
} TF_ReadOnlyMemoryRegion;

typedef struct TF_Filesystem {
  void *plugin_filesystem;
} TF_Filesystem;

typedef struct TF_TransactionToken {
  void *token;
  TF_Filesystem *owner;
} TF_TransactionToken;

// Options of a file system, which this library neither reads nor sets.
typedef union TF_Filesystem_Option_Value_Union {
  int64_t int_val;
  double real_val;
  struct {
    char *buf;
    int buf_length;
  } buffer_val;
} TF_Filesystem_Option_Value_Union;

typedef struct TF_Filesystem_Option_Value {
  int type_tag;
  int num_values;
  TF_Filesystem_Option_Value_Union *values;
} TF_Filesystem_Option_Value;

typedef enum TF_Filesystem_Option_Type {
  TF_Filesystem_Option_Type_Int = 0,
  TF_Filesystem_Option_Type_Real,
  TF_Filesystem_Option_Type_Buffer,
  TF_Filesystem_Num_Option_Types,
} TF_Filesystem_Option_Type;

typedef struct TF_Filesystem_Option {
  char *name;
  char *description;
  int per_file;
  TF_Filesystem_Option_Value *value;
} TF_Filesystem_Option;

typedef struct TF_RandomAccessFileOps {
  void (*cleanup)(TF_RandomAccessFile *file);
  // Returns the number of bytes read; fewer than `n` with TF_OUT_OF_RANGE at the end of the file.
  int64_t (*read)(const TF_RandomAccessFile *file, uint64_t offset, size_t n, char *buffer, TF_Status *status);
} TF_RandomAccessFileOps;

typedef struct TF_WritableFileOps {
  void (*cleanup)(TF_WritableFile *file);
  // All that follow may be null.
  void (*append)(const TF_WritableFile *file, const char *buffer, size_t n, TF_Status *status);
  int64_t (*tell)(const TF_WritableFile *file, TF_Status *status);
  void (*flush)(const TF_WritableFile *file, TF_Status *status);
  void (*sync)(const TF_WritableFile *file, TF_Status *status);
  void (*close)(const TF_WritableFile *file, TF_Status *status);
} TF_WritableFileOps;

typedef struct TF_ReadOnlyMemoryRegionOps {
  void (*cleanup)(TF_ReadOnlyMemoryRegion *region);
  const void *(*data)(const TF_ReadOnlyMemoryRegion *region);
  uint64_t (*length)(const TF_ReadOnlyMemoryRegion *region);
} TF_ReadOnlyMemoryRegionOps;

typedef struct TF_FilesystemOps {
  void (*init)(TF_Filesystem *filesystem, TF_Status *status);
  void (*cleanup)(TF_Filesystem *filesystem);
  // All that follow may be null.
  void (*new_random_access_file)(const TF_Filesystem *filesystem, const char *path, TF_RandomAccessFile *file,
                                 TF_Status *status);
  void (*new_writable_file)(const TF_Filesystem *filesystem, const char *path, TF_WritableFile *file,
                            TF_Status *status);
  void (*new_appendable_file)(const TF_Filesystem *filesystem, const char *path, TF_WritableFile *file,
                              TF_Status *status);
  void (*new_read_only_memory_region_from_file)(const TF_Filesystem *filesystem, const char *path,
                                                TF_ReadOnlyMemoryRegion *region, TF_Status *status);
  void (*create_dir)(const TF_Filesystem *filesystem, const char *path, TF_Status *status);
  void (*recursively_create_dir)(const TF_Filesystem *filesystem, const char *path, TF_Status *status);
  void (*delete_file)(const TF_Filesystem *filesystem, const char *path, TF_Status *status);
  void (*delete_dir)(const TF_Filesystem *filesystem, const char *path, TF_Status *status);
  void (*delete_recursively)(const TF_Filesystem *filesystem, const char *path, uint64_t *undeleted_files,
                             uint64_t *undeleted_dirs, TF_Status *status);
  void (*rename_file)(const TF_Filesystem *filesystem, const char *src, const char *dst, TF_Status *status);
  void (*copy_file)(const TF_Filesystem *filesystem, const char *src, const char *dst, TF_Status *status);
  void (*path_exists)(const TF_Filesystem *filesystem, const char *path, TF_Status *status);
  bool (*paths_exist)(const TF_Filesystem *filesystem, char **paths, int num_files, TF_Status **statuses);
  void (*stat)(const TF_Filesystem *filesystem, const char *path, TF_FileStatistics *stats, TF_Status *status);
  bool (*is_directory)(const TF_Filesystem *filesystem, const char *path, TF_Status *status);
  int64_t (*get_file_size)(const TF_Filesystem *filesystem, const char *path, TF_Status *status);
  // Returns the path for the other functions; plugin_memory_free frees it.
  char *(*translate_name)(const TF_Filesystem *filesystem, const char *uri);
  // Returns the number of names, which plugin_memory_free frees, and so their array.
  int (*get_children)(const TF_Filesystem *filesystem, const char *path, char ***entries, TF_Status *status);
  int (*get_matching_paths)(const TF_Filesystem *filesystem, const char *glob, char ***entries, TF_Status *status);
  void (*flush_caches)(const TF_Filesystem *filesystem);
  int (*start_transaction)(const TF_Filesystem *filesystem, TF_TransactionToken **token, TF_Status *status);
  int (*end_transaction)(const TF_Filesystem *filesystem, TF_TransactionToken *token, TF_Status *status);
  int (*add_to_transaction)(const TF_Filesystem *filesystem, const char *path, TF_TransactionToken *token,
                            TF_Status *status);
  int (*get_transaction_for_path)(const TF_Filesystem *filesystem, const char *path, TF_TransactionToken **token,
                                  TF_Status *status);
  int (*get_or_start_transaction_for_path)(const TF_Filesystem *filesystem, const char *path,
                                           TF_TransactionToken **token, TF_Status *status);
  char *(*decode_transaction_token)(const TF_Filesystem *filesystem, const TF_TransactionToken *token);
  void (*get_filesystem_configuration)(const TF_Filesystem *filesystem, TF_Filesystem_Option **options,
                                       int *num_options, TF_Status *status);
  void (*set_filesystem_configuration)(const TF_Filesystem *filesystem, const TF_Filesystem_Option *options,
                                       int num_options, TF_Status *status);
  void (*get_filesystem_configuration_option)(const TF_Filesystem *filesystem, const char *key,
                                              TF_Filesystem_Option **option, TF_Status *status);
  void (*set_filesystem_configuration_option)(const TF_Filesystem *filesystem, const TF_Filesystem_Option *option,
                                              TF_Status *status);
  void (*get_filesystem_configuration_keys)(const TF_Filesystem *filesystem, char **keys, int *num_keys,
                                            TF_Status *status);
} TF_FilesystemOps;

// The versions of the tables.
#define TF_RANDOM_ACCESS_FILE_OPS_API 0
#define TF_RANDOM_ACCESS_FILE_OPS_ABI 0
#define TF_RANDOM_ACCESS_FILE_OPS_SIZE sizeof(TF_RandomAccessFileOps)
#define TF_WRITABLE_FILE_OPS_API 0
#define TF_WRITABLE_FILE_OPS_ABI 0
#define TF_WRITABLE_FILE_OPS_SIZE sizeof(TF_WritableFileOps)
#define TF_READ_ONLY_MEMORY_REGION_OPS_API 0
#define TF_READ_ONLY_MEMORY_REGION_OPS_ABI 0
#define TF_READ_ONLY_MEMORY_REGION_OPS_SIZE sizeof(TF_ReadOnlyMemoryRegionOps)
#define TF_FILESYSTEM_OPS_API 0
#define TF_FILESYSTEM_OPS_ABI 0
#define TF_FILESYSTEM_OPS_SIZE sizeof(TF_FilesystemOps)

// A file system: its scheme and its tables, all from plugin_memory_allocate.
typedef struct TF_FilesystemPluginOps {
  char *scheme;
  int filesystem_ops_abi;
  int filesystem_ops_api;
  size_t filesystem_ops_size;
  TF_FilesystemOps *filesystem_ops;
  int random_access_file_ops_abi;
  int random_access_file_ops_api;
  size_t random_access_file_ops_size;
  TF_RandomAccessFileOps *random_access_file_ops;
  int writable_file_ops_abi;
  int writable_file_ops_api;
  size_t writable_file_ops_size;
  TF_WritableFileOps *writable_file_ops;
  int read_only_memory_region_ops_abi;
  int read_only_memory_region_ops_api;
  size_t read_only_memory_region_ops_size;
  TF_ReadOnlyMemoryRegionOps *read_only_memory_region_ops;
} TF_FilesystemPluginOps;

// The file systems of a plug-in.
typedef struct TF_FilesystemPluginInfo {
  size_t num_schemes;
  TF_FilesystemPluginOps *ops;
  void *(*plugin_memory_allocate)(size_t size);
  void (*plugin_memory_free)(void *ptr);
} TF_FilesystemPluginInfo;

static inline void TF_SetFilesystemVersionMetadata(TF_FilesystemPluginOps *ops) {
  ops->filesystem_ops_abi = TF_FILESYSTEM_OPS_ABI;
  ops->filesystem_ops_api = TF_FILESYSTEM_OPS_API;
  ops->filesystem_ops_size = TF_FILESYSTEM_OPS_SIZE;
  ops->random_access_file_ops_abi = TF_RANDOM_ACCESS_FILE_OPS_ABI;
  ops->random_access_file_ops_api = TF_RANDOM_ACCESS_FILE_OPS_API;
  ops->random_access_file_ops_size = TF_RANDOM_ACCESS_FILE_OPS_SIZE;
  ops->writable_file_ops_abi = TF_WRITABLE_FILE_OPS_ABI;
  ops->writable_file_ops_api = TF_WRITABLE_FILE_OPS_API;
  ops->writable_file_ops_size = TF_WRITABLE_FILE_OPS_SIZE;
  ops->read_only_memory_region_ops_abi = TF_READ_ONLY_MEMORY_REGION_OPS_ABI;
  ops->read_only_memory_region_ops_api = TF_READ_ONLY_MEMORY_REGION_OPS_API;
  ops->read_only_memory_region_ops_size = TF_READ_ONLY_MEMORY_REGION_OPS_SIZE;
}

// Defined by the plug-in: fills in the description.
TF_CAPI_EXPORT void TF_InitPlugin(TF_FilesystemPluginInfo *plugin_info);

#ifdef __cplusplus
}
#endif

#endif  /* TENSORFLOW_C_EXPERIMENTAL_FILESYSTEM_FILESYSTEM_INTERFACE_H_ */
