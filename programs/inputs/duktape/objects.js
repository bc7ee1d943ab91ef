// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Objects: a calculator with a parser, prototypes, closures, exceptions.
function Parser(text) { this.text = text; this.at = 0; }
Parser.prototype.peek = function () { return this.text.charAt(this.at); };
Parser.prototype.sum = function () {
  var node = this.product();
  while (this.peek() === "+" || this.peek() === "-") node = { op: this.text.charAt(this.at++), left: node, right: this.product() };
  return node;
};
Parser.prototype.product = function () {
  var node = this.atom();
  while (this.peek() === "*" || this.peek() === "/") node = { op: this.text.charAt(this.at++), left: node, right: this.atom() };
  return node;
};
Parser.prototype.atom = function () {
  if (this.peek() === "(") {
    ++this.at;
    var inside = this.sum();
    if (this.text.charAt(this.at++) !== ")") throw new SyntaxError("expected ) at " + this.at);
    return inside;
  }
  var start = this.at;
  while (/[0-9]/.test(this.peek())) ++this.at;
  if (start === this.at) throw new SyntaxError("expected a number at " + start);
  return { value: Number(this.text.substring(start, this.at)) };
};
var actions = {
  "+": function (a, b) { return a + b; }, "-": function (a, b) { return a - b; },
  "*": function (a, b) { return a * b; }, "/": function (a, b) { return b ? a / b : 0; }
};
function evaluate(node) { return node.op ? actions[node.op](evaluate(node.left), evaluate(node.right)) : node.value; }
var state = 3, failed = 0, total = 0;
function random(limit) { state = state * 16807 % 2147483647; return state % limit; }
for (var n = 0; n < 500; ++n) {
  var parts = [];
  for (var k = 0; k < 8; ++k) parts.push(random(4) ? String(random(100)) : "(" + random(9) + "-" + random(9) + ")", "+-*/".charAt(random(4)));
  if (random(6)) parts.pop();
  try { total += evaluate(new Parser(parts.join("")).sum()); } catch (error) { if (error instanceof SyntaxError) ++failed; }
}
print(total.toFixed(4), failed);
function Shape(size) { this.size = size; }
Object.defineProperty(Shape.prototype, "area", { get: function () { return this.size * this.size * this.factor; } });
function Square(size) { Shape.call(this, size); }
function Circle(size) { Shape.call(this, size); }
Square.prototype = Object.create(Shape.prototype, { factor: { value: 1 } });
Circle.prototype = Object.create(Shape.prototype, { factor: { value: 3.14 } });
var area = 0;
for (n = 0; n < 12000; ++n) area += new (n % 3 ? Square : Circle)(n % 50).area;
print(area.toFixed(2));
