// The C header in a C++ program built without exceptions and run-time types.
#include "subproject/main.c"
