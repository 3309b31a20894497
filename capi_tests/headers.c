/* All headers together, as C11, and the sizes of what programs lay out themselves. Compiled only; headers.cpp
 * includes this file as C++17. */
#include "tfcore.h"

#ifdef __cplusplus
#define STATIC_ASSERT static_assert
#else
#define STATIC_ASSERT _Static_assert
#endif

STATIC_ASSERT(sizeof(TF_Buffer) == 24, "TF_Buffer");
STATIC_ASSERT(sizeof(TF_Output) == 16, "TF_Output");
STATIC_ASSERT(sizeof(TF_Input) == 16, "TF_Input");
STATIC_ASSERT(sizeof(TF_AttrMetadata) == 32, "TF_AttrMetadata");
STATIC_ASSERT(sizeof(TF_StringView) == 16, "TF_StringView");
STATIC_ASSERT(sizeof(TF_TString) == 24, "TF_TString");
STATIC_ASSERT(sizeof(TF_AllocatorAttributes) == 16, "TF_AllocatorAttributes");
STATIC_ASSERT(TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE == 9, "TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE");
STATIC_ASSERT(sizeof(TF_DataType) == 4, "TF_DataType");
STATIC_ASSERT(sizeof(TF_Code) == 4, "TF_Code");
