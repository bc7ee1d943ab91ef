/* A program with many configurations. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#ifdef SMALL
#define SIZE 16
#elif defined(MIDDLE)
#define SIZE 64
#else
#define SIZE 1024
#endif

#define CLAMP(x, low, high) ((x) < (low) ? (low) : (x) > (high) ? (high) : (x))

static char buffer[SIZE];

#if defined(WITH_THREADS) && WITH_THREADS > 1
static pthread_mutex_t lock;
static void enter(void) { pthread_mutex_lock(&lock); }
static void leave(void) { pthread_mutex_unlock(&lock); }
#else
static void enter(void) {}
static void leave(void) {}
#endif

static int get(int index) {
  // cppcheck-suppress negativeIndex
  return buffer[CLAMP(index, -1, SIZE)];
}

#ifdef WITH_FILES
static int load(const char *path) {
  int file = open(path, O_RDONLY);
  if (file < 0)
    return -1;
  if (read(file, buffer, 100) < 10)
    return -2;
  close(file);
  return 0;
}
#endif

int main(int argc, char **argv) {
#ifdef DEBUG
  fprintf(stderr, "%s starts\n", argv[0]);
#endif
  int result = 0;
#ifdef WITH_FILES
  for (int i = 1; i < argc; i++)
    result |= load(argv[i]);
#endif
  enter();
  for (int i = 0; i <= SIZE; i++) {
#ifdef UPSIDE_DOWN
    result += get(SIZE - i);
#else
    result += get(i);
#endif
  }
  leave();
  return result;
}
