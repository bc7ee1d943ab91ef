#define TCC_VERSION "0.9.27"
#define GCC_MAJOR 12
#define GCC_MINOR 2
#define CONFIG_TRIPLET "x86_64-linux-gnu"
