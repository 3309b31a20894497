/* Every header stands on its own as C11. Compiled only; headers.cpp includes this file as C++17. */
#include "tensorflow/c/c_api.h"
#include "tensorflow/c/c_api_experimental.h"
#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/eager/c_api.h"
#include "tensorflow/c/eager/c_api_experimental.h"
#include "tensorflow/c/env.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_attrtype.h"
#include "tensorflow/c/tf_buffer.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_file_statistics.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"
#include "tensorflow/c/tf_tstring.h"

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
STATIC_ASSERT(sizeof(TF_WhileParams) == 72, "TF_WhileParams");
STATIC_ASSERT(sizeof(TF_DataType) == 4, "TF_DataType");
STATIC_ASSERT(sizeof(TF_Code) == 4, "TF_Code");
