// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers: typed arrays, a sieve, a transform, sorting, numbers as text.
var size = 20000, sieve = new Uint8Array(size), primes = 0;
for (var i = 2; i < size; ++i) {
  if (sieve[i]) continue;
  ++primes;
  for (var j = i * 2; j < size; j += i) sieve[j] = 1;
}
print(primes);
var n = 512, re = new Float64Array(n), im = new Float64Array(n);
for (i = 0; i < n; ++i) re[i] = (i * 37 % 101) / 101 - 0.5;
for (i = 0, j = 0; i < n; ++i) {
  if (i < j) { var swap = re[i]; re[i] = re[j]; re[j] = swap; }
  for (var bit = n >> 1; bit && (j & bit); bit >>= 1) j ^= bit;
  j |= bit;
}
for (var half = 1; half < n; half *= 2) {
  for (i = 0; i < half; ++i) {
    var c = Math.cos(Math.PI * i / half), s = -Math.sin(Math.PI * i / half);
    for (var k = i; k < n; k += 2 * half) {
      var x = re[k + half] * c - im[k + half] * s, y = re[k + half] * s + im[k + half] * c;
      re[k + half] = re[k] - x; im[k + half] = im[k] - y;
      re[k] += x; im[k] += y;
    }
  }
}
print(re[1].toFixed(6), im[7].toFixed(6));
var values = [], state = 1;
for (i = 0; i < 4000; ++i) { state = state * 16807 % 2147483647; values.push(state / 1000); }
values.sort(function (a, b) { return a - b; });
var length = 0;
for (i = 0; i < 4000; i += 4) length += String(values[i]).length + values[i].toFixed(2).length + parseFloat(values[i].toExponential(4)) % 1;
print(values[0], values[3999], length.toFixed(3));
