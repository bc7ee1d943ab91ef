#include <math.h>
#define IS_FINITE isfinite
#define LS_VERSION_STR "20221101"
