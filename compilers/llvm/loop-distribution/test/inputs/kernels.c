// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops of the kind that vectorizers are tried on: parts that can be vectorized together with parts
// that can't. "kernels" prints a checksum of what each computes, "kernels REPEATS" nanoseconds.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N = 2048, MARGIN = 64 };
typedef unsigned u32;
typedef unsigned char u8;

static struct {
  float a[N + MARGIN], b[N + MARGIN], c[N + MARGIN], d[N + MARGIN], e[N + MARGIN];
  double x[N + MARGIN], y[N + MARGIN], z[N + MARGIN];
  int p[N + MARGIN], q[N + MARGIN], r[N + MARGIN], s[N + MARGIN], t[N + MARGIN];
  u8 u[N + MARGIN], v[N + MARGIN], w[N + MARGIN];
  int index[N + MARGIN];
  float sum;
  int total;
} m;

#define a m.a
#define b m.b
#define c m.c
#define d m.d
#define e m.e
#define x m.x
#define y m.y
#define z m.z
#define p m.p
#define q m.q
#define r m.r
#define s m.s
#define t m.t
#define u m.u
#define v m.v
#define w m.w
#define at m.index

#define LOOP(FROM, TO) for (int i = (FROM); i < (TO); ++i)
#define KERNELS(K)                                                                                 \
  K(first_order, LOOP(1, n) { a[i] = a[i - 1] * .5f + b[i]; c[i] = d[i] * e[i]; })                 \
  K(first_order_after, LOOP(1, n) { c[i] = d[i] * e[i]; a[i] = a[i - 1] * .5f + b[i]; })           \
  K(first_order_feeds, LOOP(1, n) { a[i] = a[i - 1] * .5f + b[i]; c[i] = a[i] * e[i] + d[i]; })    \
  K(first_order_fed, LOOP(1, n) { b[i] = c[i] * d[i] + e[i]; a[i] = a[i - 1] * .5f + b[i]; })      \
  K(second_order, LOOP(2, n) { a[i] = a[i - 2] * .5f + b[i]; c[i] = d[i] + e[i] * .25f; })         \
  K(fourth_order, LOOP(4, n) { a[i] = a[i - 4] * .5f + b[i]; c[i] = d[i] + e[i] * .25f; })         \
  K(two_recurrences, LOOP(1, n) { a[i] = a[i - 1] * .5f + c[i]; b[i] = b[i - 1] * .25f + c[i];     \
                                  d[i] = c[i] * e[i]; })                                           \
  K(coupled, LOOP(1, n) { a[i] = b[i - 1] * .5f + c[i]; b[i] = a[i] * .25f + d[i];                 \
                          e[i] = c[i] * d[i] + 1; })                                               \
  K(anti, LOOP(0, n) { a[i] = a[i + 1] * b[i]; c[i] = d[i] * e[i]; })                              \
  K(anti_between, LOOP(0, n) { a[i] = b[i] * c[i]; d[i] = a[i + 1] * e[i]; })                      \
  K(output_twice, LOOP(0, n) { a[i] = b[i] * c[i]; a[i + 1] = d[i] * e[i]; })                      \
  K(copy_then_shift, LOOP(1, n) { c[i] = b[i]; b[i] = a[i - 1]; a[i] = d[i] * .5f; })              \
  K(prefix_sum, LOOP(1, n) { p[i] += p[i - 1]; q[i] = r[i] * 3 + s[i]; })                          \
  K(prefix_product, LOOP(1, n) { p[i] = p[i - 1] * q[i]; r[i] = (s[i] ^ t[i]) + (s[i] & 7); })     \
  K(prefix_maximum, LOOP(1, n) { p[i] = p[i - 1] > q[i] ? p[i - 1] : q[i]; r[i] = s[i] * t[i]; })  \
  K(carried_scalar, float k = 0; LOOP(0, n) { k = k * .5f + a[i]; b[i] = k; c[i] = d[i] * e[i]; }  \
                    m.sum = k;)                                                                    \
  K(ordered_sum, float k = 0; LOOP(0, n) { k += a[i]; b[i] = c[i] * d[i] + e[i]; } m.sum = k;)     \
  K(integer_sum, int k = 0; LOOP(0, n) { k += p[i]; q[i] = q[i - 0] + 1; r[i + 1] = r[i] * 3; }    \
                 m.total = k;)                                                                     \
  K(dot_and_scale, float k = 0; LOOP(0, n) { k += a[i] * b[i]; c[i] *= .5f; } m.sum = k;)          \
  K(gather, LOOP(0, n) { a[i] = b[at[i]] * .5f; c[i] = d[i] * e[i] + d[i]; })                      \
  K(scatter, LOOP(0, n) { a[at[i]] = b[i]; c[i] = d[i] * e[i] + d[i]; })                           \
  K(scatter_add, LOOP(0, n) { a[at[i]] += b[i]; c[i] = d[i] * e[i] + d[i]; })                      \
  K(histogram, LOOP(0, n) { p[u[i]] += 1; q[i] = r[i] * s[i] + t[i]; })                            \
  K(histogram_of_result, LOOP(0, n) { q[i] = (r[i] * s[i]) & 255; p[q[i]] += t[i]; })              \
  K(one_place, LOOP(0, n) { p[7] = p[7] * 3 + q[i]; r[i] = s[i] * t[i] + s[i]; })                  \
  K(reversed, for (int i = n - 2; i >= 0; --i) { a[i] = a[i + 1] * .5f + b[i];                     \
                                                 c[i] = d[i] * e[i]; })                            \
  K(reversed_safe, for (int i = n - 1; i >= 0; --i) { a[i + 1] = a[i] * .5f; c[i] = d[i] * e[i]; }) \
  K(every_second, for (int i = 2; i < n; i += 2) { a[i] = a[i - 2] * .5f + b[i];                   \
                                                   c[i] = d[i] * e[i]; })                          \
  K(even_and_odd, LOOP(0, n / 2) { a[2 * i + 2] = a[2 * i] * .5f; b[i] = c[i] * d[i]; })           \
  K(doubles, LOOP(1, n) { x[i] = x[i - 1] * .5 + y[i]; z[i] = y[i] * y[i] - z[i]; })               \
  K(mixed_widths, LOOP(1, n) { x[i] = x[i - 1] * .5 + a[i]; b[i] = a[i] * c[i]; p[i] = q[i] * 5; }) \
  K(bytes, LOOP(1, n) { u[i] = (u8)(u[i - 1] * 3 + v[i]); w[i] = (u8)((v[i] + w[i] + 1) / 2); })   \
  K(conversions, LOOP(1, n) { p[i] = p[i - 1] / 2 + (int)u[i]; a[i] = (float)q[i] * .5f; })        \
  K(divisions, LOOP(1, n) { a[i] = a[i - 1] / 3 + b[i]; c[i] = d[i] / (e[i] * e[i] + 1); })        \
  K(selects, LOOP(1, n) { a[i] = a[i - 1] > 1 ? b[i] : a[i - 1] + b[i];                            \
                          c[i] = d[i] > e[i] ? d[i] : e[i]; })                                     \
  K(smoothing, LOOP(1, n) { a[i] = a[i - 1] * .75f + b[i] * .25f;                                  \
                            c[i] = (b[i - 1] + b[i] + b[i + 1]) * (1 / 3.f); })                    \
  K(polynomial, LOOP(1, n) { a[i] = a[i - 1] * .5f + b[i];                                         \
                             c[i] = ((d[i] * .5f + 1) * d[i] + 2) * d[i] + 3; })                   \
  K(three_apart, LOOP(1, n) { a[i] = a[i - 1] * .5f + 1; p[i] = p[i - 1] * 3 + 1;                  \
                              c[i] = d[i] * e[i]; q[i] = r[i] + s[i]; })                           \
  K(chain, LOOP(1, n) { b[i] = c[i] * d[i]; a[i] = a[i - 1] * .5f + b[i]; e[i] = a[i] * c[i]; })   \
  K(shared_loads, LOOP(1, n) { a[i] = a[i - 1] * .5f + b[i] * c[i] + d[i];                         \
                               e[i] = b[i] * c[i] - d[i]; })                                       \
  K(induction, LOOP(1, n) { p[i] = p[i - 1] * 3 + i; q[i] = i * i + r[i]; s[i] = 2 * i; })         \
  K(random_numbers, u32 k = 1; LOOP(0, n) { k = k * 1664525u + 1013904223u; p[i] = (int)(k >> 8);  \
                                            q[i] = r[i] * s[i]; })                                 \
  K(running_hash, u32 k = 0; LOOP(0, n) { k = (k ^ u[i]) * 16777619u; w[i] = (u8)(u[i] + v[i]); }      \
              m.total = (int)k;)                                                                   \
  K(nothing_to_gain, LOOP(1, n) { a[i] = a[i - 1] * .5f; b[i] = b[i - 1] * .25f; })                \
  K(all_vectorizable, LOOP(0, n) { a[i] = b[i] * c[i]; d[i] = b[i] + c[i]; e[i] = b[i] - c[i]; })  \
  K(few_trips, LOOP(1, 9) { a[i] = a[i - 1] * .5f + b[i]; c[i] = d[i] * e[i]; })                   \
  K(nested, for (int o = 0; o < n / 64; ++o) LOOP(64 * o + 1, 64 * o + 64) {                       \
      a[i] = a[i - 1] * .5f + b[i]; c[i] = d[i] * e[i]; })

#define DEFINE(NAME, ...)                                                                          \
  __attribute__((noinline)) static void NAME(int n) { (void)n; __VA_ARGS__ }
KERNELS(DEFINE)

// Arrays that may overlap, as arguments mostly are.
#undef a
#undef b
#undef c
#undef d
#undef e
__attribute__((noinline)) static void by_pointers(float *a, float *b, float *c, float *d, int n) {
  LOOP(1, n) {
    a[i] = a[i - 1] * .5f + b[i];
    c[i] = d[i] * d[i] + b[i];
  }
}
static void arguments(int n) { by_pointers(m.a, m.b, m.c, m.d, n); }
static void arguments_equal(int n) { by_pointers(m.a, m.b, m.a, m.d, n); }
static void arguments_near(int n) { by_pointers(m.a, m.b, m.b + 1, m.a + 3, n); }

static const struct {
  const char *name;
  void (*run)(int);
} kernels[] = {
#define ENTRY(NAME, ...) {#NAME, NAME},
    KERNELS(ENTRY){"by_pointers:apart", arguments},
    {"by_pointers:equal", arguments_equal},
    {"by_pointers:near", arguments_near}};

static void fill(void) {
  u32 state = 1;
  memset(&m, 0, sizeof m);
  for (int i = 0; i < N + MARGIN; ++i) {
#define NEXT (state = state * 1664525u + 1013904223u, state >> 20)
#define SMALL ((float)(NEXT & 1023) / 1024)
    m.a[i] = SMALL, m.b[i] = SMALL, m.c[i] = SMALL, m.d[i] = SMALL, m.e[i] = SMALL;
    x[i] = SMALL, y[i] = SMALL, z[i] = SMALL;
    p[i] = NEXT & 7, q[i] = NEXT & 7, r[i] = NEXT & 7, s[i] = NEXT & 7, t[i] = NEXT & 7;
    u[i] = (u8)NEXT, v[i] = (u8)NEXT, w[i] = (u8)NEXT;
    at[i] = (int)(NEXT % N);
  }
}

static unsigned long checksum(void) {
  unsigned long h = 1469598103934665603ul;
  for (size_t i = 0; i < sizeof m; ++i)
    h = (h ^ ((const u8 *)&m)[i]) * 1099511628211ul;
  return h;
}

static double now(void) {
  struct timespec at_;
  clock_gettime(CLOCK_MONOTONIC, &at_);
  return (double)at_.tv_sec * 1e9 + (double)at_.tv_nsec;
}

int main(int count, char **arguments_) {
  const int repeats = count > 1 ? atoi(arguments_[1]) : 0;
  for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; ++i) {
    fill();
    if (repeats) {
      const double start = now();
      for (int j = 0; j < repeats; ++j)
        kernels[i].run(N);
      printf("%s %.1f\n", kernels[i].name, (now() - start) / repeats);
      continue;
    }
    static const int lengths[] = {0, 1, 2, 3, 4, 5, 8, 9, 17, 100, N};
    for (size_t j = 0; j < sizeof lengths / sizeof lengths[0]; ++j)
      kernels[i].run(lengths[j]);
    printf("%s %lx\n", kernels[i].name, checksum());
  }
  return 0;
}
