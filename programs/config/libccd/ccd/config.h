#define CCD_DOUBLE
