/* Loops, calls, floats, varargs, inline assembly that needs fixed registers, a switch, and more
   live values than registers. Prints what it computes. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#define KEPT __attribute__((noinline))

static KEPT double mean(int count, ...) {
  va_list values;
  double sum = 0;
  va_start(values, count);
  for (int i = 0; i < count; ++i)
    sum += i % 2 ? va_arg(values, double) : (double)va_arg(values, int);
  va_end(values);
  return sum / count;
}

static KEPT uint64_t fixed(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t high = a ^ c, low = b + c;
#if defined(__x86_64__)
  __asm__("mulq %2" : "=d"(high), "+a"(low) : "r"(c), "0"(high) : "cc");
  __asm__ volatile("" : "+b"(high), "+c"(low), "+S"(a), "+D"(b) : : "r8", "r9", "r10", "r11");
#elif defined(__aarch64__)
  register uint64_t first __asm__("x3") = low;
  register uint64_t second __asm__("x19") = c;
  __asm__("mul %0, %0, %1" : "+r"(first) : "r"(second));
  low = first;
  __asm__ volatile("" : "+r"(high), "+r"(low) : : "x0", "x1", "x8", "x9", "x20", "x21");
#endif
  return high * 3 + low + a * b + c;
}

static KEPT int state(int now, int seen) {
  switch (seen % 9) {
  case 0:
    return now + 1;
  case 1:
    return now * 3;
  case 2:
    return now ^ seen;
  case 3:
    return now - seen;
  case 4:
    return now / (seen + 1);
  case 7:
    return state(now, seen - 5) + 2;
  default:
    return -now;
  }
}

/* Each value is needed after all have been computed. */
static KEPT uint64_t pressure(const uint64_t *from, int rounds) {
  uint64_t a = from[0], b = from[1], c = from[2], d = from[3], e = from[4], f = from[5];
  uint64_t g = from[6], h = from[7], i = from[8], j = from[9], k = from[10], l = from[11];
  uint64_t m = from[12], n = from[13], o = from[14], p = from[15], q = from[16], r = from[17];
  for (int round = 0; round < rounds; ++round) {
    a += b * r, b ^= c >> 3, c += d * q, d ^= e << 2, e += f * p, f ^= g >> 5;
    g += h * o, h ^= i << 7, i += j * n, j ^= k >> 1, k += l * m, l ^= m << 4;
    m += n * a, n ^= o >> 6, o += p * b, p ^= q << 1, q += r * c, r ^= a >> 2;
    if (round % 3 == 0)
      a += (uint64_t)state((int)(b & 1023), round);
  }
  return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i ^ j ^ k ^ l ^ m ^ n ^ o ^ p ^ q ^ r;
}

/* What is computed first is used last. */
static KEPT uint64_t late(const uint64_t *from, uint64_t x) {
  uint64_t first[24], sum = 0;
  for (int i = 0; i < 24; ++i)
    first[i] = from[i % 18] * (x + (uint64_t)i);
  sum += (uint64_t)state((int)(first[3] & 255), 4);
  for (int i = 0; i < 24; ++i)
    sum = sum * 31 + (first[23 - i] ^ (first[i] >> 7));
  return sum;
}

static KEPT float floats(const float *v, int count) {
  float s0 = 0, s1 = 1, s2 = 2, s3 = 3, s4 = 4, s5 = 5, s6 = 6, s7 = 7, s8 = 8, s9 = 9;
  for (int i = 0; i + 10 <= count; i += 10) {
    s0 += v[i] * s9, s1 -= v[i + 1] * s8, s2 += v[i + 2] * s7, s3 -= v[i + 3] * s6;
    s4 += v[i + 4] * s5, s5 -= v[i + 5] / 8, s6 += v[i + 6] / 4, s7 -= v[i + 7] / 2;
    s8 += (float)state((int)v[i + 8], i), s9 -= v[i + 9] * 0.125f;
  }
  return s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9;
}

int main(void) {
  uint64_t values[18];
  float reals[64];
  for (int i = 0; i < 18; ++i)
    values[i] = (uint64_t)i * 0x9e3779b97f4a7c15u + 7;
  for (int i = 0; i < 64; ++i)
    reals[i] = (float)(i % 7) - 2.5f;
  printf("%.3f\n", mean(5, 1, 2.5, 3, 4.5, 5));
  printf("%llu\n", (unsigned long long)fixed(values[1], values[2], values[3]));
  for (int i = 0; i < 10; ++i)
    printf("%d ", state(17 * i, i));
  printf("\n%llx\n", (unsigned long long)pressure(values, 50));
  printf("%llx\n", (unsigned long long)late(values, 11));
  printf("%.4f\n", (double)floats(reals, 64));
  return 0;
}
