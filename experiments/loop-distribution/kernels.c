// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops of signal processing, statistics, simulation and checksums. "kernels" prints a checksum of
// what each computes, "kernels REPEATS" nanoseconds.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N = 1500, MARGIN = 16 };

static float f[10][N + MARGIN];
static double g[10][N + MARGIN];
static int32_t h[8][N + MARGIN];
static uint8_t o[8][N + MARGIN];
static uint16_t k[4][N + MARGIN];
static uint32_t table[256];
static volatile double result;

#define IN const float *restrict
#define OUT float *restrict
#define LOOP(FROM, TO) for (int i = (FROM); i < (TO); ++i)
#define KERNEL __attribute__((noinline)) static void

// A filter of second order in a channel, a gain in another.
KERNEL biquad(OUT left, OUT right, IN x, IN y, int n) {
  float s1 = 0, s2 = 0;
  LOOP(0, n) {
    const float in = x[i], out = in * .3f + s1;
    s1 = in * .2f - out * .1f + s2;
    s2 = in * .1f - out * .05f;
    left[i] = out;
    right[i] = (y[i] * .5f + x[i]) * .25f;
  }
}

// A one-pole filter beside the window of a longer signal.
KERNEL envelope(OUT level, OUT windowed, IN x, IN w, int n) {
  float e = 0;
  LOOP(0, n) {
    const float v = fabsf(x[i]);
    e = v > e ? v : e * .99f;
    level[i] = e;
    windowed[i] = x[i] * w[i];
  }
}

KERNEL differences_and_deltas(int32_t *restrict d, int32_t *restrict q, const int32_t *restrict p,
                              const int32_t *restrict t, int n) {
  int32_t last = 0;
  LOOP(0, n) {
    last = (last + p[i]) ^ (last >> 3);
    d[i] = last;
    q[i] = (p[i] - t[i]) * (p[i] - t[i]) + (t[i] >> 1);
  }
}

KERNEL adler_and_copy(uint8_t *restrict to, const uint8_t *restrict from, int n) {
  uint32_t low = 1, high = 0;
  LOOP(0, n) {
    low += from[i];
    high += low;
    to[i] = (uint8_t)(from[i] ^ 0x5a);
  }
  result = low + high;
}

KERNEL crc_and_invert(uint8_t *restrict to, const uint8_t *restrict from, int n) {
  uint32_t c = ~0u;
  LOOP(0, n) {
    c = table[(c ^ from[i]) & 255] ^ (c >> 8);
    to[i] = (uint8_t)(255 - from[i]);
  }
  result = c;
}

KERNEL returns(double *restrict wealth, double *restrict squares, double *restrict excess,
               const double *restrict r, const double *restrict b, int n) {
  double total = 1;
  LOOP(0, n) {
    total *= 1 + r[i] * .001;
    wealth[i] = total;
    squares[i] = r[i] * r[i];
    excess[i] = (r[i] - b[i]) * 252 + .5 * b[i];
  }
}

KERNEL thomas_forward(double *restrict c2, double *restrict d2, double *restrict norm,
                      const double *restrict c, const double *restrict d, int n) {
  LOOP(1, n) {
    const double m = 1 / (4 + c[i] - c2[i - 1]);
    c2[i] = c[i] * m;
    d2[i] = (d[i] - d2[i - 1]) * m;
    norm[i] = c[i] * c[i] + d[i] * d[i];
  }
}

KERNEL gauss_seidel(OUT u, OUT residual, IN right, IN old, int n) {
  LOOP(1, n) {
    u[i] = (u[i - 1] + old[i + 1] + right[i]) * .3f;
    residual[i] = right[i] - 2 * old[i] + old[i + 1] * .5f + old[i - 1] * .5f;
  }
}

KERNEL dither(uint8_t *restrict to, int32_t *restrict luma, const int32_t *restrict red,
              const int32_t *restrict green, const int32_t *restrict blue, int n) {
  int32_t error = 0;
  LOOP(0, n) {
    const int32_t v = red[i] + error, out = v > 127 ? 255 : 0;
    error = (v - out) / 2;
    to[i] = (uint8_t)out;
    luma[i] = (red[i] * 77 + green[i] * 151 + blue[i] * 28) >> 8;
  }
}

KERNEL interpolate(OUT to, OUT scaled, IN from, IN x, const int32_t *restrict at, int n) {
  LOOP(0, n) {
    const float a = from[at[i]], b = from[at[i] + 1];
    to[i] = a + (b - a) * x[i];
    scaled[i] = x[i] * x[i] * (3 - 2 * x[i]);
  }
}

KERNEL histogram_and_gray(int32_t *restrict bins, uint8_t *restrict gray, const uint8_t *restrict a,
                          const uint8_t *restrict b, int n) {
  LOOP(0, n) {
    bins[a[i]] += 1;
    gray[i] = (uint8_t)((a[i] + b[i] + 1) >> 1);
  }
}

KERNEL particles(OUT x, OUT v, OUT e, OUT cell, IN force, IN mass, int n) {
  float time = 0;
  LOOP(0, n) {
    v[i] = v[i] * .999f + force[i] * .01f;
    x[i] = x[i] * .999f + v[i] * .01f;
    e[i] = .5f * mass[i] * v[i] * v[i];
    time = time * .5f + mass[i];
    cell[i] = time;
  }
}

KERNEL kahan(double *restrict to, const double *restrict x, const double *restrict y, int n) {
  double sum = 0, lost = 0;
  LOOP(0, n) {
    const double v = x[i] - lost, next = sum + v;
    lost = (next - sum) - v;
    sum = next;
    to[i] = x[i] * y[i];
  }
  result = sum;
}

KERNEL moving_mean(OUT mean, OUT detail, IN x, int n) {
  float sum = 0;
  LOOP(8, n) {
    sum += x[i] - x[i - 8];
    mean[i] = sum * .125f;
    detail[i] = x[i] * 2 - x[i - 1] - x[i + 1];
  }
}

KERNEL count_sort_step(int32_t *restrict to, int32_t *restrict offsets, int32_t *restrict keys,
                       const int32_t *restrict from, int n) {
  LOOP(0, n) {
    const int32_t key = from[i] & 7;
    to[offsets[key] & 1023] = from[i];
    offsets[key] += 1;
    keys[i] = key * 3 + 1;
  }
}

KERNEL mix_audio(uint16_t *restrict to, int32_t *restrict peak, OUT left, IN right,
                 const uint16_t *restrict a, const uint16_t *restrict b, int n) {
  int32_t most = 0;
  LOOP(0, n) {
    to[i] = (uint16_t)((a[i] >> 1) + (b[i] >> 1));
    most = a[i] > most ? a[i] : most - (most >> 6);
    peak[i] = most;
    left[i] = right[i] * .7f + .3f;
  }
}

KERNEL expensive_beside_cheap(OUT slow, OUT fast, IN x, IN y, int n) {
  LOOP(1, n) {
    slow[i] = slow[i - 1] * .5f + x[i];
    fast[i] = sqrtf(x[i] * x[i] + y[i] * y[i]) / (1 + y[i] * y[i]);
  }
}

KERNEL polynomials(double *restrict p, double *restrict q, double *restrict s,
                   const double *restrict x, int n) {
  LOOP(1, n) {
    p[i] = p[i - 1] * .25 + x[i];
    q[i] = (((x[i] * .1 + .2) * x[i] + .3) * x[i] + .4) * x[i] + .5;
    s[i] = ((x[i] * .6 + .7) * x[i] + .8) * x[i] - .9;
  }
}

// As many loops are written: nothing says that arrays are apart.
KERNEL plain_pointers(float *y, float *z, const float *x, const float *w, int n) {
  LOOP(1, n) {
    y[i] = y[i - 1] * .9f + x[i];
    z[i] = x[i] * w[i] + (x[i] - w[i]) * (x[i] - w[i]) + w[i] * .5f;
  }
}

KERNEL short_rows(OUT a, OUT b, IN x, IN y, int n) {
  for (int row = 0; row + 24 <= n; row += 24)
    for (int i = row + 1; i < row + 24; ++i) {
      a[i] = a[i - 1] * .5f + x[i];
      b[i] = (x[i] + y[i]) * (x[i] - y[i]);
    }
}

#define KERNELS(K)                                                                                 \
  K(biquad, f[0], f[1], f[2], f[3])                                                                \
  K(envelope, f[0], f[1], f[2], f[3])                                                              \
  K(differences_and_deltas, h[0], h[1], h[2], h[3])                                                \
  K(adler_and_copy, o[0], o[1])                                                                    \
  K(crc_and_invert, o[0], o[1])                                                                    \
  K(returns, g[0], g[1], g[2], g[3], g[4])                                                         \
  K(thomas_forward, g[0], g[1], g[2], g[3], g[4])                                                  \
  K(gauss_seidel, f[0], f[1], f[2], f[3])                                                          \
  K(dither, o[0], h[0], h[1], h[2], h[3])                                                          \
  K(interpolate, f[0], f[1], f[2], f[3], h[4])                                                     \
  K(histogram_and_gray, h[0], o[0], o[1], o[2])                                                    \
  K(particles, f[0], f[1], f[2], f[3], f[4], f[5])                                                 \
  K(kahan, g[0], g[1], g[2])                                                                       \
  K(moving_mean, f[0], f[1], f[2])                                                                 \
  K(count_sort_step, h[0], h[1], h[2], h[3])                                                       \
  K(mix_audio, k[0], h[0], f[0], f[1], k[1], k[2])                                                 \
  K(expensive_beside_cheap, f[0], f[1], f[2], f[3])                                                \
  K(polynomials, g[0], g[1], g[2], g[3])                                                           \
  K(plain_pointers, f[0], f[1], f[2], f[3])                                                        \
  K(short_rows, f[0], f[1], f[2], f[3])

#define CALL(NAME, ...)                                                                            \
  static void call_##NAME(void) { NAME(__VA_ARGS__, N); }
KERNELS(CALL)

static const struct {
  const char *name;
  void (*run)(void);
} kernels[] = {
#define ENTRY(NAME, ...) {#NAME, call_##NAME},
    KERNELS(ENTRY)};

static uint32_t state;
static uint32_t next(void) { return (state = state * 1664525u + 1013904223u) >> 12; }

static void fill(void) {
  state = 1;
  for (int i = 0; i < N + MARGIN; ++i) {
    for (int j = 0; j < 10; ++j)
      f[j][i] = (float)(next() & 1023) / 1024, g[j][i] = (double)(next() & 1023) / 1024;
    for (int j = 0; j < 8; ++j)
      h[j][i] = (int32_t)(next() % N), o[j][i] = (uint8_t)next();
    for (int j = 0; j < 4; ++j)
      k[j][i] = (uint16_t)next();
  }
  for (int i = 0; i < 256; ++i)
    table[i] = next() * 2654435761u;
}

static uint64_t hashed(uint64_t from, const void *data, size_t size) {
  for (size_t i = 0; i < size; ++i)
    from = (from ^ ((const uint8_t *)data)[i]) * 1099511628211ul;
  return from;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int count, char **arguments) {
  const int repeats = count > 1 ? atoi(arguments[1]) : 0;
  for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; ++i) {
    fill();
    if (repeats) {
      const double start = now();
      for (int j = 0; j < repeats; ++j)
        kernels[i].run();
      printf("%s %.1f\n", kernels[i].name, (now() - start) / repeats);
      continue;
    }
    for (int j = 0; j < 3; ++j)
      kernels[i].run();
    uint64_t hash = hashed(hashed(hashed(0, f, sizeof f), g, sizeof g), h, sizeof h);
    hash = hashed(hashed(hash, o, sizeof o), k, sizeof k);
    printf("%s %lx %a\n", kernels[i].name, hash, result);
  }
  return 0;
}
