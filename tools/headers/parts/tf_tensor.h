// Where a plug-in's memory shall be. `struct_size` is TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE.
typedef struct TF_AllocatorAttributes {
  size_t struct_size;
  // In the host's memory, 0 or 1.
  TF_Bool on_host;
} TF_AllocatorAttributes;

#define TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE TF_OFFSET_OF_END(TF_AllocatorAttributes, on_host)
