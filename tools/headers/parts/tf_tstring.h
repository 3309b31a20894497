// Where a string's bytes are. The kind is in the two low bits of the first byte.
typedef enum TF_TString_Type {
  // In the struct itself.
  TF_TSTR_SMALL = 0,
  // In a block of malloc, which the string owns.
  TF_TSTR_LARGE = 1,
  // At an offset from the struct, which owns nothing.
  TF_TSTR_OFFSET = 2,
  // In memory of somebody else.
  TF_TSTR_VIEW = 3,
  TF_TSTR_TYPE_MASK = 3
} TF_TString_Type;

// Who owns the bytes of a view: a counter of references.
typedef struct TStringOwnerCApi {
  void (*ref)(struct TStringOwnerCApi *self);
  // True if this was the last reference.
  bool (*unref)(struct TStringOwnerCApi *self);
  void *obj;
} TStringOwnerCApi;

// All sizes but the small one's are `size << 2 | kind`.
typedef struct TF_TString_Large {
  size_t size;
  // Without the NUL at the end.
  size_t cap;
  char *ptr;
} TF_TString_Large;

typedef struct TF_TString_Offset {
  uint32_t size;
  // From the address of the struct.
  uint32_t offset;
  uint32_t count;
} TF_TString_Offset;

typedef struct TF_TString_View {
  size_t size;
  const char *ptr;
  // May be null.
  TStringOwnerCApi *owner_ref;
} TF_TString_View;

typedef struct TF_TString_Raw {
  uint8_t raw[24];
} TF_TString_Raw;

enum { TF_TString_SmallCapacity = 22 };

typedef struct TF_TString_Small {
  // size << 2
  uint8_t size;
  // NUL-terminated.
  char str[TF_TString_SmallCapacity + 1];
} TF_TString_Small;

// A string element of a tensor: 24 bytes, on little-endian machines. Read and change it with the functions below.
typedef struct TF_TString {
  union {
    TF_TString_Small smll;
    TF_TString_Large large;
    TF_TString_Offset offset;
    TF_TString_View view;
    TF_TString_Raw raw;
  } u;
} TF_TString;

// The same functions as TensorFlow's ctstring.h names them.
#define TF_TString_Init TF_StringInit
#define TF_TString_Dealloc TF_StringDealloc
#define TF_TString_Copy TF_StringCopy
#define TF_TString_AssignView TF_StringAssignView
#define TF_TString_GetType TF_StringGetType
#define TF_TString_GetSize TF_StringGetSize
#define TF_TString_GetCapacity TF_StringGetCapacity
#define TF_TString_GetDataPointer TF_StringGetDataPointer
