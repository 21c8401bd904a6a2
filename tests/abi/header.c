/* All headers by themselves: nothing before it, nothing else needed. As C and as C++. */
#include "ferry/ferry_all.h"

/* Everything is declared for C linkage, or this would clash. */
#ifdef __cplusplus
extern "C" int32_t ferry_version(void);
#else
extern int32_t ferry_version(void);
#endif

/* A second time they say nothing. */
#include "ferry/ferry_all.h"
