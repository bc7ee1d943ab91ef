// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Classes, interfaces, handles and the collector.
interface Shape { double area(); }
class Square : Shape {
  double side;
  Square(double s) { side = s; }
  double area() { return side * side; }
}
class Circle : Shape {
  double radius;
  Circle(double r) { radius = r; }
  double area() { return 3.14 * radius * radius; }
}
class Node {
  int key;
  Node@ left;
  Node@ right;
  Node(int k) { key = k; }
  void insert(int k) {
    if (k < key) {
      if (left is null) @left = Node(k); else left.insert(k);
    } else {
      if (right is null) @right = Node(k); else right.insert(k);
    }
  }
  int depth() {
    int l = left is null ? 0 : left.depth(), r = right is null ? 0 : right.depth();
    return 1 + (l > r ? l : r);
  }
}
class Vector {
  double x, y;
  Vector() {}
  Vector(double a, double b) { x = a; y = b; }
  Vector opAdd(const Vector &in other) const { return Vector(x + other.x, y + other.y); }
  Vector opMul(double f) const { return Vector(x * f, y * f); }
}
uint state = 1;
uint random(uint limit) { state = state * 1664525 + 1013904223; return (state >> 8) % limit; }
void main() {
  array<Shape@> shapes;
  for (int i = 0; i < 8000; ++i) {
    if (i % 3 == 0) shapes.insertLast(Circle(i % 10)); else shapes.insertLast(Square(i % 7));
  }
  double total = 0;
  for (uint i = 0; i < shapes.length(); ++i) total += shapes[i].area();
  Node root(50000);
  for (int i = 0; i < 4000; ++i) root.insert(random(100000));
  Vector sum;
  for (int i = 0; i < 15000; ++i) sum = sum + Vector(i, -i) * 0.001;
  print(formatFloat(total, "", 0, 3) + " " + root.depth() + " " + formatFloat(sum.x - sum.y, "", 0, 3));
}
