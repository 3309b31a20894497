/* TF_TString: 24 bytes that C programs lay out themselves, in four kinds. */
#include "check.h"

static void layout(void) {
  CHECK_INT(sizeof(TF_TString), 24);
  CHECK_INT(TF_TSTR_SMALL, 0);
  CHECK_INT(TF_TSTR_LARGE, 1);
  CHECK_INT(TF_TSTR_OFFSET, 2);
  CHECK_INT(TF_TSTR_VIEW, 3);
}

static void init_is_empty(void) {
  TF_TString s;
  memset(&s, 0xff, sizeof s);
  TF_StringInit(&s);
  static const char zero[sizeof s];
  CHECK(memcmp(&s, zero, sizeof s) == 0);
  CHECK_INT(TF_StringGetType(&s), TF_TSTR_SMALL);
  CHECK_INT(TF_StringGetSize(&s), 0);
  CHECK_INT(TF_StringGetCapacity(&s), 22);
  CHECK_STR(TF_StringGetDataPointer(&s), "");
}

static void copies_of_every_size(void) {
  for (size_t size = 0; size <= 200; size++) {
    char text[201];
    for (size_t i = 0; i < size; i++) text[i] = (char)('a' + i % 26);
    text[size] = '\0';
    TF_TString s;
    TF_StringInit(&s);
    TF_StringCopy(&s, text, size);
    CHECK_INT(TF_StringGetSize(&s), size);
    CHECK_STR(TF_StringGetDataPointer(&s), text);
    CHECK(TF_StringGetDataPointer(&s) != text);
    CHECK_INT(TF_StringGetType(&s), size <= 22 ? TF_TSTR_SMALL : TF_TSTR_LARGE);
    CHECK_INT(TF_StringGetCapacity(&s), size <= 22 ? 22 : ((size + 16) & ~(size_t)15) - 1);
    TF_StringDealloc(&s);
  }
}

/* Programs read the fields with inline code of the headers, so the bits are part of the interface. */
static void bits_of_small(void) {
  TF_TString s;
  TF_StringInit(&s);
  TF_StringCopy(&s, "abc", 3);
  CHECK_INT(s.u.raw.raw[0], 3 << 2);
  CHECK(memcmp(&s.u.raw.raw[1], "abc", 4) == 0);
  TF_StringDealloc(&s);
}

static void bits_of_large(void) {
  const char *text = "thirty-one characters of text..";
  TF_TString s;
  TF_StringInit(&s);
  TF_StringCopy(&s, text, 31);
  CHECK_INT(s.u.large.size, 31 << 2 | 1);
  CHECK_INT(s.u.large.cap, 31);
  CHECK_STR(s.u.large.ptr, text);
  TF_StringDealloc(&s);
}

static void bytes_with_zeros(void) {
  TF_TString s;
  TF_StringInit(&s);
  TF_StringCopy(&s, "a\0b\0", 4);
  CHECK_INT(TF_StringGetSize(&s), 4);
  CHECK(memcmp(TF_StringGetDataPointer(&s), "a\0b\0", 5) == 0);
  TF_StringDealloc(&s);
}

static void copy_again(void) {
  static const size_t sizes[] = {0, 10, 300, 200, 100, 22, 23, 1000, 40, 5, 0, 64};
  char text[1000];
  memset(text, 'q', sizeof text);
  TF_TString s;
  TF_StringInit(&s);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    TF_StringCopy(&s, text, sizes[i]);
    CHECK_INT(TF_StringGetSize(&s), sizes[i]);
    CHECK(memcmp(TF_StringGetDataPointer(&s), text, sizes[i]) == 0);
    CHECK(TF_StringGetDataPointer(&s)[sizes[i]] == '\0');
    CHECK(TF_StringGetCapacity(&s) >= sizes[i]);
  }
  TF_StringDealloc(&s);
}

static void shrinking_keeps_a_block_that_fits(void) {
  char text[200];
  memset(text, 's', sizeof text);
  TF_TString s;
  TF_StringInit(&s);
  TF_StringCopy(&s, text, 200);
  const char *block = TF_StringGetDataPointer(&s);
  size_t capacity = TF_StringGetCapacity(&s);
  TF_StringCopy(&s, text, 150);
  CHECK(TF_StringGetDataPointer(&s) == block);
  CHECK_INT(TF_StringGetCapacity(&s), capacity);
  TF_StringCopy(&s, text, 30);
  CHECK(TF_StringGetCapacity(&s) < capacity);
  TF_StringDealloc(&s);
}

static void view(void) {
  const char *text = "not owned by the string, whatever its size";
  TF_TString s;
  TF_StringInit(&s);
  TF_StringAssignView(&s, text, 9);
  CHECK_INT(TF_StringGetType(&s), TF_TSTR_VIEW);
  CHECK_INT(TF_StringGetSize(&s), 9);
  CHECK_INT(TF_StringGetCapacity(&s), 0);
  CHECK(TF_StringGetDataPointer(&s) == text);
  TF_StringDealloc(&s);
}

static void view_releases_the_block_before(void) {
  char text[100];
  memset(text, 'v', sizeof text);
  TF_TString s;
  TF_StringInit(&s);
  TF_StringCopy(&s, text, sizeof text);
  TF_StringAssignView(&s, text, sizeof text); /* a leak would show under valgrind */
  CHECK(TF_StringGetDataPointer(&s) == text);
  TF_StringCopy(&s, text, sizeof text);
  CHECK(TF_StringGetDataPointer(&s) != text);
  CHECK_INT(TF_StringGetType(&s), TF_TSTR_LARGE);
  TF_StringDealloc(&s);
}

/* An OFFSET string points into the memory behind itself, as in files mapped into memory. */
static void offset(void) {
  struct {
    TF_TString string;
    char text[8];
  } record;
  memset(&record, 0, sizeof record);
  memcpy(record.text, "offset!", 8);
  record.string.u.offset.size = 7 << 2 | TF_TSTR_OFFSET;
  record.string.u.offset.offset = sizeof(TF_TString);
  record.string.u.offset.count = 1;
  CHECK_INT(TF_StringGetType(&record.string), TF_TSTR_OFFSET);
  CHECK_INT(TF_StringGetSize(&record.string), 7);
  CHECK_INT(TF_StringGetCapacity(&record.string), 0);
  CHECK(TF_StringGetDataPointer(&record.string) == record.text);
  TF_StringDealloc(&record.string);
  TF_StringCopy(&record.string, "now small", 9);
  CHECK_STR(TF_StringGetDataPointer(&record.string), "now small");
}

static void dealloc_leaves_an_empty_string(void) {
  char text[100];
  memset(text, 'd', sizeof text);
  TF_TString s;
  TF_StringInit(&s);
  TF_StringCopy(&s, text, sizeof text);
  TF_StringDealloc(&s);
  CHECK_INT(TF_StringGetSize(&s), 0);
  CHECK_INT(TF_StringGetType(&s), TF_TSTR_SMALL);
  TF_StringDealloc(&s);
  TF_StringCopy(&s, "again", 5);
  CHECK_STR(TF_StringGetDataPointer(&s), "again");
  TF_StringDealloc(&s);
}

static void copy_of_nothing(void) {
  TF_TString s;
  TF_StringInit(&s);
  TF_StringCopy(&s, NULL, 0);
  CHECK_INT(TF_StringGetSize(&s), 0);
  TF_StringDealloc(&s);
}

/* Copying a string's own text must work although its memory may move. */
static void copy_of_itself(void) {
  if (!is_tfcore()) return;
  TF_TString s;
  TF_StringInit(&s);
  TF_StringCopy(&s, "0123456789", 10);
  TF_StringCopy(&s, TF_StringGetDataPointer(&s) + 2, 5);
  CHECK_STR(TF_StringGetDataPointer(&s), "23456");
  char text[64];
  memset(text, 't', sizeof text);
  TF_StringCopy(&s, text, sizeof text);
  TF_StringCopy(&s, TF_StringGetDataPointer(&s) + 1, 10);
  CHECK_STR(TF_StringGetDataPointer(&s), "tttttttttt");
  TF_StringDealloc(&s);
}

CASES(CASE(layout), CASE(init_is_empty), CASE(copies_of_every_size), CASE(bits_of_small), CASE(bits_of_large),
      CASE(bytes_with_zeros), CASE(copy_again), CASE(shrinking_keeps_a_block_that_fits), CASE(view),
      CASE(view_releases_the_block_before), CASE(offset), CASE(dealloc_leaves_an_empty_string), CASE(copy_of_nothing),
      CASE(copy_of_itself))
