// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeps the interpreter busy: calls, arrays, strings, sorting.
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
var state = 1;
function random() { state = (state * 16807) % 2147483647; return state; }
var items = [];
for (var i = 0; i < 20000; ++i) items.push(random());
items.sort(function (a, b) { return a - b; });
var words = [];
for (i = 0; i < 20000; ++i) words.push(items[i].toString(16).toUpperCase().replace(/A/g, "b"));
print(fib(22), items[0], items[19999], words.join(" ").split(/[0-9]+/).length);
