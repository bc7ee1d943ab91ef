// Classes and templates, with what a checker remarks on.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shapes {

template <typename T> struct Point {
  T x, y;
  Point operator+(Point other) const { return {x + other.x, y + other.y}; }
  bool operator==(const Point &other) const { return x == other.x && y == other.y; }
};

class Shape {
public:
  Shape(std::string title) { name = title; }
  ~Shape() { delete[] cache; }
  virtual double area() const = 0;
  virtual std::string describe() { return name; }

protected:
  std::string name;
  double *cache;
  int used;
};

class Circle : public Shape {
public:
  Circle(double radius) : Shape("circle"), radius(radius) {}
  double area() const override { return 3.14 * radius * radius; }
  std::string describe() override { return name + " of " + std::to_string(radius); }

private:
  double radius;
};

class Polygon : public Shape {
  std::vector<Point<double>> points;

public:
  explicit Polygon(std::vector<Point<double>> corners) : Shape("polygon"), points(corners) {}
  double area() const override {
    double sum = 0;
    for (size_t n = 0; n < points.size(); n++) {
      const Point<double> &a = points[n];
      const Point<double> &b = points[(n + 1) % points.size()];
      sum += a.x * b.y - b.x * a.y;
    }
    return sum / 2;
  }
  void removeDoubles() {
    for (auto one = points.begin(); one != points.end(); ++one)
      if (std::count(points.begin(), points.end(), *one) > 1)
        points.erase(one);
  }
  double &first() {
    double x = points[0].x;
    return x;
  }
};

template <typename Key, typename Value, int Size = 8> class Cache {
  std::map<Key, Value> values;
  std::vector<Key> order;

public:
  const Value *find(Key key) const {
    auto found = values.find(key);
    if (found == values.end())
      return nullptr;
    return &found->second;
  }
  void insert(const Key &key, Value value) {
    if (order.size() >= Size) {
      values.erase(order.front());
      order.erase(order.begin());
    }
    order.push_back(key);
    values[key] = value;
  }
};

double total(std::vector<std::unique_ptr<Shape>> &all, bool absolute) {
  double sum = 0;
  for (auto &shape : all) {
    if (absolute == true)
      sum += shape->area() < 0 ? -shape->area() : shape->area();
    else if (absolute == false)
      sum += shape->area();
    else
      return 0;
  }
  return sum;
}

} // namespace shapes

int main() {
  using namespace shapes;
  std::vector<std::unique_ptr<Shape>> all;
  all.push_back(std::unique_ptr<Shape>(new Circle(2)));
  all.emplace_back(new Polygon({{0, 0}, {1, 0}, {1, 1}}));
  Cache<std::string, double> areas;
  Cache<int, std::string, 4> names;
  for (int i = 0; i < all.size(); i++) {
    areas.insert(all[i]->describe(), all[i]->area());
    names.insert(i, all[i]->describe().c_str());
  }
  const double *found = areas.find("circle");
  std::string *text = new std::string("x");
  if (found)
    text->append(std::to_string(*found));
  int largest = *found > 1 ? 1 : 1;
  return total(all, true) > 5 && largest;
}
