// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes the cells of particles in a box: cells plain|radii|periodic COUNT.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "voro++.hh"

static unsigned state = 1;

static double random_number() { return (state = state * 1664525u + 1013904223u) / 4294967296.0; }

template <class Container> static void show(Container &box) {
  voro::c_loop_all loop(box);
  voro::voronoicell_neighbor cell;
  double volume = 0, surface = 0, edges = 0;
  std::size_t faces = 0;
  std::vector<int> neighbours;
  if (loop.start())
    do {
      if (!box.compute_cell(cell, loop))
        continue;
      volume += cell.volume();
      surface += cell.surface_area();
      edges += cell.total_edge_distance();
      cell.neighbors(neighbours);
      faces += neighbours.size();
    } while (loop.inc());
  std::printf("volume %.8f, surface %.6f, edges %.6f, %zu faces\n", volume, surface, edges, faces);
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  const std::string how = argv[1];
  const int count = std::atoi(argv[2]);
  const bool periodic = how == "periodic";
  if (how == "radii") {
    voro::container_poly box(0, 1, 0, 1, 0, 1, 6, 6, 6, false, false, false, 8);
    voro::wall_sphere ball(0.5, 0.5, 0.5, 0.6);
    box.add_wall(ball);
    for (int n = 0; n < count; ++n) {
      const double x = random_number(), y = random_number(), z = random_number();
      if (box.point_inside(x, y, z))
        box.put(n, x, y, z, 0.02 + 0.05 * random_number());
    }
    show(box);
  } else {
    voro::container box(0, 1, 0, 1, 0, 1, 6, 6, 6, periodic, periodic, periodic, 8);
    for (int n = 0; n < count; ++n) {
      const double x = random_number(), y = random_number(), z = random_number();
      box.put(n, x, y, z);
    }
    show(box);
  }
  return 0;
}
