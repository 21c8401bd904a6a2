/* The header by itself: nothing before it, nothing else needed. As C and as C++. */
#include "ferry/ferry.h"

/* Everything is declared for C linkage, or this would clash. */
#ifdef __cplusplus
extern "C" int32_t ferry_version(void);
#else
extern int32_t ferry_version(void);
#endif

/* A second time it says nothing. */
#include "ferry/ferry.h"
