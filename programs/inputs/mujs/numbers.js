// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic: a matrix, a fractal, primes, numbers as text.
var size = 24, a = [], b = [], trace = 0;
for (var i = 0; i < size; ++i) {
  a.push([]); b.push([]);
  for (var j = 0; j < size; ++j) { a[i].push((i * j) % 7 + 0.5); b[i].push((i + j) % 5 - 1); }
}
for (i = 0; i < size; ++i) {
  for (j = 0; j < size; ++j) {
    var sum = 0;
    for (var k = 0; k < size; ++k) sum += a[i][k] * b[k][j];
    if (i === j) trace += sum;
  }
}
print(trace);
var steps = 0;
for (var row = 0; row < 30; ++row) {
  for (var column = 0; column < 30; ++column) {
    var cr = column / 10 - 2, ci = row / 10 - 1.5, zr = 0, zi = 0, n = 0;
    while (n < 40 && zr * zr + zi * zi < 4) {
      var t = zr * zr - zi * zi + cr;
      zi = 2 * zr * zi + ci; zr = t; ++n;
    }
    steps += n;
  }
}
print(steps);
var hash = 0;
for (i = 0; i < 20000; ++i) hash = ((hash << 5) - hash + (i & 255)) | 0;
var primes = 0;
outer: for (i = 2; i < 2500; ++i) {
  for (j = 2; j * j <= i; ++j) if (i % j === 0) continue outer;
  ++primes;
}
print(hash, primes);
var length = 0;
for (i = 1; i < 3000; ++i) {
  var x = Math.sqrt(i) * Math.pow(10, i % 40 - 20);
  length += String(x).length + parseFloat(String(x)) % 1 + x.toFixed(3).length + x.toPrecision(5).length;
}
print(length.toFixed(3));
