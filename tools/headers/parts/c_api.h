// A string with its length; it need not end with NUL, and belongs to somebody else.
typedef struct TF_StringView {
  const char *data;
  size_t len;
} TF_StringView;
