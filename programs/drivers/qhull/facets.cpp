// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convex hulls by the classes of C++: facets COUNT.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "libqhullcpp/Qhull.h"
#include "libqhullcpp/QhullFacet.h"
#include "libqhullcpp/QhullFacetList.h"
#include "libqhullcpp/QhullFacetSet.h"
#include "libqhullcpp/QhullVertexSet.h"
#include "libqhullcpp/RboxPoints.h"

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  const std::string count = argv[1];
  for (const char *shape : {"D3 s t7", "D4 t8", "D2 t9"}) {
    orgQhull::RboxPoints points;
    points.appendPoints((count + " " + shape).c_str());
    orgQhull::Qhull qhull;
    qhull.runQhull(points, "Qt");
    double offsets = 0, centres = 0;
    long corners = 0, neighbours = 0;
    for (const orgQhull::QhullFacet &facet : qhull.facetList()) {
      offsets += facet.hyperplane().offset();
      neighbours += facet.neighborFacets().size();
      for (const orgQhull::QhullVertex &vertex : facet.vertices()) {
        const orgQhull::QhullPoint point = vertex.point();
        for (const double *x = point.begin(); x != point.end(); ++x)
          centres += std::fabs(*x);
        ++corners;
      }
    }
    std::printf("%s: %d facets, area %.6f, volume %.6f, %.6f %.6f %ld %ld\n", shape,
                qhull.facetCount(), qhull.area(), qhull.volume(), offsets, centres, corners,
                neighbours);
  }
  return 0;
}
