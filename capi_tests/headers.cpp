// The headers as C++17, in one translation unit.
#include "headers.c"
