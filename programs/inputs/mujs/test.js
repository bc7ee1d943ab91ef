// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Works through the interpreter's parts and prints what can be compared between two builds.
var state = Number(scriptArgs[0]) || 1;
function random(limit) {
  state = (state * 16807) % 2147483647;
  return state % limit;
}

// arrays, sorting, closures
var items = [];
for (var i = 0; i < 300; ++i) items.push({ key: random(1000), name: "item" + i });
items.sort(function (a, b) { return a.key - b.key || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0); });
print(items.filter(function (e, n) { return n % 29 === 0; }).map(function (e) { return e.key + ":" + e.name; }).join(" "));
print(items.reduce(function (sum, e) { return sum + e.key; }, 0), items.some(function (e) { return e.key > 990; }));
print([5, 1, 4].concat([9, [2]]).reverse(), [1, 2, 3, 4].splice(1, 2), [3, 1, 2].sort(), "a,b,c".split(",").indexOf("c"));

// strings and regular expressions
var text = "The quick brown fox, 42 jumps over 17 lazy dogs; éà€";
print(text.replace(/(\w+) (\w+)/g, "$2 $1"), text.match(/\d+/g), text.search(/fox/));
print(text.replace(/[aeiou]/g, function (c, at) { return c.toUpperCase() + at; }));
print(/^(a+)+(?=b)(?!bc)/.exec("aaab"), /(\d{2,4})-(\d+)/i.exec("on 2024-11"), "x.y.z".split(/\./));
print(text.charCodeAt(text.length - 1), text.slice(-3), text.toUpperCase(), encodeURIComponent("a b&ü"));

// numbers
var numbers = [0.1 + 0.2, 1 / 3, 1e21, 1e-7, 123456789.125, -0, 1 / 0, NaN, 0xff, 5e-324, 1.7976931348623157e308];
print(numbers.join(" "));
print(numbers.slice(0, 5).map(function (x) { return x.toFixed(3) + "/" + x.toPrecision(4) + "/" + x.toExponential(2); }).join(" "));
print((255).toString(16), (0.5).toString(2), parseInt("0x1f"), parseFloat("3.14abc"), 7 >>> 1, -7 >> 1, -1 >>> 28, ~5 ^ 3);
print(Math.sqrt(2), Math.atan2(1, 2), Math.pow(2, 0.5), Math.round(-2.5), Math.max(1, 7, 3), Math.floor(-1.5));

// objects, prototypes, exceptions, JSON, dates
function Shape(name) { this.name = name; }
Shape.prototype.describe = function () { return this.name + " of area " + this.area(); };
function Square(side) { Shape.call(this, "square"); this.side = side; }
Square.prototype = Object.create(Shape.prototype);
Square.prototype.area = function () { return this.side * this.side; };
print(new Square(3).describe(), new Square(1) instanceof Shape, Object.keys({ b: 1, a: 2 }));
var counter = { hidden: 0, get next() { return ++this.hidden; }, set next(n) { this.hidden = n; } };
counter.next = 41;
print(counter.next, JSON.stringify({ a: [1, null, true, "q\"\n"], b: { c: 1.5 } }, null, 2));
print(JSON.stringify(JSON.parse('{"x": [1, 2, {"y": "\\u00e9"}], "z": -1.5e3}')));
["null.x", "undefinedName", "JSON.parse('{')", "new Array(-1)", "(1).toFixed(200)", "decodeURI('%')", "eval('var 1')"].forEach(function (code) {
  try { eval(code); print("no error in " + code); } catch (error) { print(code + " -> " + error.name + ": " + error.message); }
});
print(new Date(86400000 * 365).toISOString(), Date.UTC(2020, 1, 29, 12), new Date("2001-02-03T04:05:06Z").getTime());
outer: for (var a = 0; a < 4; ++a) {
  for (var b in { p: 1, q: 2 }) {
    switch (a) {
      case 1: continue outer;
      case 3: break outer;
      default: print(a + b);
    }
  }
}

// a sieve and the queens
var sieve = [], primes = 0;
for (var n = 2; n < 8000; ++n) {
  if (sieve[n]) continue;
  ++primes;
  for (var m = n * n; m < 8000; m += n) sieve[m] = true;
}
function queens(size, row, columns, left, right) {
  if (row === size) return 1;
  var found = 0;
  for (var c = 0; c < size; ++c) {
    if (columns[c] || left[row + c] || right[row - c + size]) continue;
    columns[c] = left[row + c] = right[row - c + size] = true;
    found += queens(size, row + 1, columns, left, right);
    columns[c] = left[row + c] = right[row - c + size] = false;
  }
  return found;
}
print(primes, queens(6, 0, [], [], []));
