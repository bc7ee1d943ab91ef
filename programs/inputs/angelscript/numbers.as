// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic: primes, a fractal, a matrix.
int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
void main() {
  array<bool> sieve(60000);
  int primes = 0;
  for (uint i = 2; i < sieve.length(); ++i) {
    if (sieve[i]) continue;
    ++primes;
    for (uint j = 2 * i; j < sieve.length(); j += i) sieve[j] = true;
  }
  print("" + primes + " " + fibonacci(20));
  int steps = 0;
  for (int row = 0; row < 60; ++row) {
    for (int column = 0; column < 60; ++column) {
      double cr = column / 20.0 - 2, ci = row / 20.0 - 1.5, zr = 0, zi = 0;
      int n = 0;
      while (n < 60 && zr * zr + zi * zi < 4) {
        double t = zr * zr - zi * zi + cr;
        zi = 2 * zr * zi + ci;
        zr = t;
        ++n;
      }
      steps += n;
    }
  }
  uint hash = 2166136261;
  for (uint i = 0; i < 200000; ++i) hash = (hash ^ (i & 255)) * 16777619;
  print("" + steps + " " + hash + " " + formatFloat(sqrt(2.0) * cos(0.5), "", 0, 6));
}
