/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Long numbers: numbers powers|primes|digits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tommath.h"

static void check(mp_err error) {
  if (error != MP_OKAY) {
    fprintf(stderr, "numbers: %s\n", mp_error_to_string(error));
    exit(1);
  }
}

/* A number of `digits` decimal digits that look arbitrary. */
static void arbitrary(mp_int *number, int digits, unsigned seed) {
  char text[4096];
  for (int i = 0; i < digits; i++) {
    seed = seed * 1103515245u + 12345u;
    text[i] = '1' + seed / 65536 % 9;
  }
  text[digits] = 0;
  check(mp_read_radix(number, text, 10));
}

static void print(const mp_int *number) {
  char text[4096];
  check(mp_to_radix(number, text, sizeof text, NULL, 10));
  puts(text);
}

/* Modular powers and inverses, as public-key cryptography needs them. */
static void powers(mp_int *a, mp_int *b, mp_int *c, mp_int *d) {
  for (int i = 0; i < 40; i++) {
    arbitrary(a, 200, i);
    arbitrary(b, 190, i + 100);
    arbitrary(c, 210, i + 200);
    if (i % 2 == 0 && mp_iseven(c))
      check(mp_add_d(c, 1, c));
    check(mp_exptmod(a, b, c, d));
    print(d);
    check(mp_gcd(a, c, d));
    if (mp_cmp_d(d, 1) == MP_EQ) {
      check(mp_invmod(a, c, d));
      print(d);
    }
  }
}

/* The next primes, by several tests. */
static void primes(mp_int *a, mp_int *b) {
  for (int i = 0; i < 24; i++) {
    mp_bool prime;
    arbitrary(a, 20 + 3 * i, i);
    check(mp_prime_next_prime(a, 4, i % 3 == 0));
    print(a);
    check(mp_prime_strong_lucas_selfridge(a, &prime));
    mp_set(b, 3);
    mp_bool fermat;
    check(mp_prime_fermat(a, b, &fermat));
    printf("%d %d\n", prime == MP_YES, fermat == MP_YES);
  }
}

/* Products, quotients, roots and conversion of long numbers. */
static void digits(mp_int *a, mp_int *b, mp_int *c, mp_int *d) {
  for (int i = 0; i < 10; i++) {
    arbitrary(a, 1500 + 30 * i, i);
    arbitrary(b, 1000, i + 100);
    check(mp_mul(a, b, c));
    print(c);
    check(mp_div(c, b, d, NULL));
    if (mp_cmp(d, a) != MP_EQ)
      exit(1);
    check(mp_sqr(a, c));
    check(mp_div(c, b, d, a));
    print(a);
    check(mp_sqrt(c, d));
    print(d);
  }
}

int main(int argc, char **argv) {
  mp_int a, b, c, d;
  if (argc != 2)
    return 2;
  check(mp_init_multi(&a, &b, &c, &d, NULL));
  if (!strcmp(argv[1], "powers"))
    powers(&a, &b, &c, &d);
  else if (!strcmp(argv[1], "primes"))
    primes(&a, &b);
  else
    digits(&a, &b, &c, &d);
  mp_clear_multi(&a, &b, &c, &d, NULL);
  return 0;
}
