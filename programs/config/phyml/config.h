#define VERSION "3"
