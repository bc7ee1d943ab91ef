#define RETSIGTYPE void
