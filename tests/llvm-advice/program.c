// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small functions to be inlined or not, and a loop with more values than there are registers.
#include <stdio.h>

static unsigned mix(unsigned a, unsigned b) {
  a ^= b + 0x9e3779b9u + (a << 6) + (a >> 2);
  return a;
}

static unsigned fold(const unsigned *values, int count, unsigned seed) {
  for (int i = 0; i < count; ++i)
    seed = mix(seed, values[i]);
  return seed;
}

static unsigned classify(unsigned x) {
  switch (x % 7) {
  case 0:
    return mix(x, 1);
  case 1:
    return mix(x, x >> 3);
  case 2:
    return x * 17;
  case 3:
    return fold(&x, 1, 5);
  default:
    return x + 3;
  }
}

unsigned blend(const unsigned *in, int rounds) {
  unsigned a = in[0], b = in[1], c = in[2], d = in[3], e = in[4], f = in[5], g = in[6], h = in[7];
  unsigned i = in[8], j = in[9], k = in[10], l = in[11], m = in[12], n = in[13], o = in[14];
  unsigned p = in[15], q = in[16], r = in[17], s = in[18], t = in[19];
  for (int round = 0; round < rounds; ++round) {
    a += b * t, c ^= d + s, e += f * r, g ^= h + q, i += j * p;
    k ^= l + o, m += n * b, o ^= p + d, q += r * f, s ^= t + h;
    if (a % 3 == 0)
      a = classify(a) + in[round % 20];
  }
  return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i ^ j ^ k ^ l ^ m ^ n ^ o ^ p ^ q ^ r ^ s ^ t;
}

int main(void) {
  unsigned values[20];
  for (int i = 0; i < 20; ++i)
    values[i] = classify((unsigned)i * 2654435761u);
  printf("%u\n", fold(values, 20, 1));
  for (int rounds = 0; rounds < 60; rounds += 7)
    printf("%u %u\n", blend(values, rounds), classify(blend(values, rounds / 2)));
  return 0;
}
