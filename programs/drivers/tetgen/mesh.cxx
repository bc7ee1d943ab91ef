// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes tetrahedra of points: mesh points|quality|shell COUNT.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tetgen.h"

static void show(const tetgenio &out) {
  double sum = 0;
  for (int n = 0; n < out.numberoftetrahedra; ++n) {
    const int *corners = out.tetrahedronlist + n * out.numberofcorners;
    const double *p[4];
    for (int k = 0; k < 4; ++k)
      p[k] = out.pointlist + 3 * (corners[k] - out.firstnumber);
    double e[3][3];
    for (int k = 0; k < 3; ++k) {
      for (int c = 0; c < 3; ++c)
        e[k][c] = p[k + 1][c] - p[0][c];
    }
    sum += std::fabs(e[0][0] * (e[1][1] * e[2][2] - e[1][2] * e[2][1]) -
                     e[0][1] * (e[1][0] * e[2][2] - e[1][2] * e[2][0]) +
                     e[0][2] * (e[1][0] * e[2][1] - e[1][1] * e[2][0])) /
           6;
  }
  std::printf("%d points, %d tetrahedra, volume %.6f\n", out.numberofpoints, out.numberoftetrahedra,
              sum);
}

// A box, or with `inner` a box in a box.
static void box(tetgenio &in, bool inner) {
  const int boxes = inner ? 2 : 1;
  in.numberofpoints = 8 * boxes;
  in.pointlist = new REAL[3 * in.numberofpoints];
  in.numberoffacets = 6 * boxes;
  in.facetlist = new tetgenio::facet[in.numberoffacets];
  static const int sides[6][4] = {{0, 1, 3, 2}, {4, 5, 7, 6}, {0, 1, 5, 4},
                                  {2, 3, 7, 6}, {0, 2, 6, 4}, {1, 3, 7, 5}};
  for (int b = 0; b < boxes; ++b) {
    for (int n = 0; n < 8; ++n) {
      for (int c = 0; c < 3; ++c)
        in.pointlist[3 * (8 * b + n) + c] = (n >> c & 1 ? 1.0 : -1.0) * (b ? 0.4 : 1.0);
    }
    for (int n = 0; n < 6; ++n) {
      tetgenio::facet &facet = in.facetlist[6 * b + n];
      tetgenio::init(&facet);
      facet.numberofpolygons = 1;
      facet.polygonlist = new tetgenio::polygon[1];
      tetgenio::init(facet.polygonlist);
      facet.polygonlist->numberofvertices = 4;
      facet.polygonlist->vertexlist = new int[4];
      for (int k = 0; k < 4; ++k)
        facet.polygonlist->vertexlist[k] = 8 * b + sides[n][k];
    }
  }
  if (inner) {
    in.numberofholes = 1;
    in.holelist = new REAL[3]();
  }
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  const std::string how = argv[1];
  const int count = std::atoi(argv[2]);
  tetgenio in, out;
  char switches[40];
  if (how == "points") {
    unsigned state = 1;
    in.numberofpoints = count;
    in.pointlist = new REAL[3 * count];
    for (int n = 0; n < 3 * count; ++n)
      in.pointlist[n] = (state = state * 1664525u + 1013904223u) / 4294967296.0;
    std::snprintf(switches, sizeof switches, "Q");
  } else {
    box(in, how == "shell");
    std::snprintf(switches, sizeof switches, how == "shell" ? "pq1.6a%.8fQ" : "pq1.3a%.8fQ",
                  8.0 / count);
  }
  tetrahedralize(switches, &in, &out);
  show(out);
  return 0;
}
