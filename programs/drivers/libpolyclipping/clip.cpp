// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Clips polygons that are made by rule: clip union|difference|offset COUNT.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "clipper.hpp"

using namespace ClipperLib;

static Path star(double x, double y, double radius, int points) {
  Path path;
  for (int n = 0; n < 2 * points; ++n) {
    const double r = n % 2 ? radius * 0.45 : radius, angle = M_PI * n / points;
    path << IntPoint(cInt(x + r * std::cos(angle)), cInt(y + r * std::sin(angle)));
  }
  return path;
}

static void print(const char *what, const Paths &paths) {
  double area = 0;
  std::size_t points = 0;
  for (const Path &path : paths) {
    area += Area(path);
    points += path.size();
  }
  std::printf("%s: %zu paths, %zu points, area %.1f\n", what, paths.size(), points, area);
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  const std::string how = argv[1];
  const int count = std::atoi(argv[2]);
  Paths subjects, clips, result;
  unsigned state = 1;
  auto random = [&state](unsigned limit) {
    return (state = state * 1664525u + 1013904223u) / 65536 % limit;
  };
  for (int n = 0; n < count; ++n) {
    (n % 3 ? subjects : clips)
        .push_back(star(random(60000), random(60000), 1000 + random(4000), 5 + n % 20));
  }
  if (how == "offset") {
    for (const double delta : {300.0, -120.0}) {
      ClipperOffset offset(2.0, 0.5);
      offset.AddPaths(subjects, jtRound, etClosedPolygon);
      offset.AddPaths(clips, jtMiter, etClosedPolygon);
      offset.Execute(result, delta);
      print("offset", result);
    }
    CleanPolygons(result);
    print("cleaned", result);
    return 0;
  }
  Clipper clipper;
  clipper.AddPaths(subjects, ptSubject, true);
  clipper.AddPaths(clips, ptClip, true);
  if (how == "union") {
    clipper.Execute(ctUnion, result, pftNonZero, pftNonZero);
    print("union", result);
    SimplifyPolygons(result, pftEvenOdd);
    print("simplified", result);
  } else {
    PolyTree tree;
    clipper.Execute(ctDifference, tree, pftEvenOdd, pftNonZero);
    PolyTreeToPaths(tree, result);
    print("difference", result);
    clipper.Execute(ctXor, result, pftEvenOdd, pftEvenOdd);
    print("xor", result);
  }
  return 0;
}
