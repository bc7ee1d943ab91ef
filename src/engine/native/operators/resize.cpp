// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Images and signals of other lengths, and looked at from elsewhere.
#include "engine/native/kernels/spatial.h"
#include "engine/native/operators/spatial.h"

#include <cmath>

namespace mlbridge::native {
namespace {

bool readReals(Lowering &l, Value *value, std::vector<double> &out) {
  const uint8_t *bytes = value ? l.planner.bytesOf(value) : nullptr;
  if (!bytes)
    return bool(l.status());
  out.resize(value->count);
  convert(*value, bytes, ElementType::Float64, out.data());
  return true;
}

/// How an element of the result is made of those along an axis.
struct Resizing {
  std::string_view coordinates, nearest;
  bool isNearest = false, isCubic = false, antialiases = false, excludes = false;
  double a = -0.75;
  Value *extrapolated = nullptr;

  /// The place of element i of a result whose length would be n · scale.
  double place(double i, double n, double length, double scale, const double *region) const {
    const double wide = n * scale;
    if (coordinates == "align_corners")
      return wide == 1 ? 0 : i * (n - 1) / (wide - 1);
    if (coordinates == "asymmetric")
      return i / scale;
    if (coordinates == "tf_crop_and_resize")
      return region[0] * (n - 1) + (wide == 1 ? (region[1] - region[0]) * (n - 1) / 2
                                              : i * (region[1] - region[0]) * (n - 1) / (wide - 1));
    if (coordinates == "pytorch_half_pixel" && wide == 1)
      return -0.5;
    if (coordinates == "half_pixel_symmetric")
      return n / 2 * (1 - length / wide) + (i + 0.5) / scale - 0.5;
    return (i + 0.5) / scale - 0.5;
  }
  double round(double x) const {
    if (nearest == "floor")
      return std::floor(x);
    if (nearest == "ceil")
      return std::ceil(x);
    return nearest == "round_prefer_ceil" ? std::floor(x + 0.5) : std::ceil(x - 0.5);
  }
  /// What an element at a distance weighs.
  double weight(double d) const {
    d = std::fabs(d);
    if (!isCubic)
      return std::max(0.0, 1 - d);
    if (d <= 1)
      return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
  }
};

Value *resizeAxis(Lowering &l, const Resizing &r, Value *x, size_t axis, int64_t length,
                  double scale, const double *region) {
  const Along at(x, static_cast<int64_t>(axis));
  Shape shape = x->shape;
  shape[axis] = length;
  Value *y = l.make(x->type, shape);
  const double shrunk = r.antialiases ? std::min(scale, 1.0) : 1;
  const double first = r.isNearest ? 0 : std::floor((r.isCubic ? -2 : -1) / shrunk) + 1;
  const double taps = r.isNearest ? 1 : 2 - 2 * first;
  const double n = static_cast<double>(at.n), most = static_cast<double>(length) * taps;
  if (!l.status() || y->count == 0)
    return y;
  if (at.n == 0 || !(most <= 1 << 24)) {
    l.invalid("a length of ", at.n, " becomes ", length);
    return y;
  }
  if (!l.planner.hasTimeFor(64 * static_cast<uint64_t>(most)))
    return y;
  Integers indices;
  std::vector<double> weights;
  bool isGather = r.isNearest;
  for (int64_t i = 0; i < length; ++i) {
    const double place =
        r.place(static_cast<double>(i), n, static_cast<double>(length), scale, region);
    const bool isOutside =
        r.coordinates == "tf_crop_and_resize" && !(place >= 0 && place <= n - 1);
    const double base = r.isNearest ? r.round(place) : std::ceil(place) - 1;
    double sum = 0;
    const size_t begin = weights.size();
    for (double tap = first; tap < first + taps; ++tap) {
      const double index = base + tap;
      double weight = r.isNearest ? 1 : r.weight((index - place) * shrunk);
      if (r.excludes && !(index >= 0 && index < n))
        weight = 0;
      sum += weight;
      weights.push_back(weight);
      indices.push_back(isOutside
                            ? -1
                            : static_cast<int64_t>(std::min(std::max(index, 0.0), n - 1)));
    }
    if ((r.excludes || r.antialiases) && sum != 0)
      for (size_t k = begin; k < weights.size(); ++k)
        weights[k] /= sum;
    isGather = isGather && !isOutside;
  }
  Value *places = l.constantOf<int64_t>({length, static_cast<int64_t>(taps)}, indices);
  if (isGather) {
    l.emit(KernelId::Gather, {y}, {x, places, l.fault()},
           {at.outer, at.n, at.inner * width(x), length});
  } else if (!isFloat(x->type)) {
    l.unsupported("interpolation of ", name(x->type));
  } else {
    l.emit(KernelId::Interpolate, {y},
           {x, places, l.constantOf<double>({length, static_cast<int64_t>(taps)}, weights),
            r.extrapolated},
           {code(x->type), at.outer, at.n, at.inner, length, static_cast<int64_t>(taps)});
    l.planner.countMultiplyAdds(y->count * static_cast<uint64_t>(taps));
  }
  return y;
}

/// `scales` or `sizes` are for the axes; the other list is empty.
Status resizeBy(Lowering &l, const Resizing &r, std::vector<double> scales, const Integers &sizes,
                const std::vector<double> &region) {
  Value *x = l.in(0);
  Integers axes = l.list("axes");
  if (axes.empty())
    axes = allAxes(x->rank());
  if (!l.axes(axes, x->rank()))
    return l.status();
  const std::string_view policy = l.text("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    return l.invalid("its attribute 'keep_aspect_ratio_policy' is '", policy, "'");
  const bool crops = r.coordinates == "tf_crop_and_resize";
  const bool hasSizes = scales.empty();
  if ((hasSizes ? sizes.size() : scales.size()) != axes.size() ||
      (crops && region.size() != 2 * axes.size()))
    return l.invalid("it has ", scales.size(), " scales, ", sizes.size(), " sizes and ",
                     region.size(), " corners for ", axes.size(), " axes");
  Integers lengths = sizes;
  double one = 0; // scale for all axes
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto n = static_cast<double>(x->shape[static_cast<size_t>(axes[i])]);
    if (hasSizes)
      scales.push_back(n == 0 ? 1 : static_cast<double>(sizes[i]) / n);
    const double scale = scales[i], length = std::floor(scale * n);
    if (!(hasSizes ? sizes[i] >= 0 : scale > 0 && length < 0x1p40))
      return l.invalid("a length of ", n, " times ", scale);
    if (!hasSizes)
      lengths.push_back(static_cast<int64_t>(length));
    one = i == 0 ? scale : policy == "not_larger" ? std::min(one, scale) : std::max(one, scale);
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    const int64_t n = x->shape[axis];
    if (hasSizes && policy != "stretch") {
      scales[i] = one;
      if (!(one * static_cast<double>(n) < 0x1p40))
        return l.invalid("a length of ", n, " times ", one);
      lengths[i] = static_cast<int64_t>(one * static_cast<double>(n) + 0.5);
    }
    const double corners[] = {crops ? region[i] : 0, crops ? region[axes.size() + i] : 1};
    if (lengths[i] != n || std::fabs(scales[i] - 1) > 1e-9 || corners[0] != 0 || corners[1] != 1)
      x = resizeAxis(l, r, x, axis, lengths[i], scales[i], corners);
  }
  return l.give(x);
}

bool readMode(Lowering &l, Resizing &r) {
  const std::string_view mode = l.text("mode", "nearest");
  r.isNearest = mode == "nearest";
  r.isCubic = mode == "cubic";
  return r.isNearest || r.isCubic || mode == "linear" || mode == "bilinear" ||
         l.invalid("its attribute 'mode' is '", mode, "'");
}

/// Upsample, and Resize of version 10.
Status resizeByScales(Lowering &l) {
  Resizing r;
  r.coordinates = "asymmetric";
  r.nearest = "floor";
  std::vector<double> scales(l.reals("scales").begin(), l.reals("scales").end());
  if (!readMode(l, r) || !readReals(l, l.in(1), scales))
    return l.status();
  return resizeBy(l, r, scales, {}, {});
}

Status resize(Lowering &l) {
  Resizing r;
  r.coordinates = l.text("coordinate_transformation_mode", "half_pixel");
  r.nearest = l.text("nearest_mode", "round_prefer_floor");
  r.antialiases = l.integer("antialias", 0) != 0;
  r.excludes = l.integer("exclude_outside", 0) != 0;
  r.a = l.real("cubic_coeff_a", -0.75);
  std::vector<double> region, scales;
  Integers sizes;
  const auto isOneOf = [&](const char *name, std::string_view text, std::string_view known) {
    return (!text.empty() && text.find(' ') == text.npos &&
            known.find(" " + std::string(text) + " ") != known.npos) ||
           l.invalid("its attribute '", name, "' is '", text, "'");
  };
  if (!readMode(l, r) ||
      !isOneOf("coordinate_transformation_mode", r.coordinates,
               " align_corners asymmetric half_pixel half_pixel_symmetric pytorch_half_pixel "
               "tf_crop_and_resize tf_half_pixel_for_nn ") ||
      !isOneOf("nearest_mode", r.nearest, " ceil floor round_prefer_ceil round_prefer_floor "))
    return l.status();
  if (r.coordinates == "tf_half_pixel_for_nn")
    return l.unsupported("the coordinates 'tf_half_pixel_for_nn'");
  const bool crops = r.coordinates == "tf_crop_and_resize";
  if ((crops && !readReals(l, l.in(1), region)) || !readReals(l, l.in(2), scales) ||
      (l.in(3) && !l.read(l.in(3), sizes)))
    return l.status();
  if (crops && isFloat(l.in(0)->type))
    r.extrapolated = l.constantReal(l.in(0)->type, l.real("extrapolation_value", 0));
  return resizeBy(l, r, scales, sizes, region);
}

/// The middle of x, or x in the middle of zeros.
Status centerCropPad(Lowering &l) {
  Value *x = l.in(0);
  Integers wanted, axes = l.list("axes");
  if (!l.read(l.in(1), wanted))
    return l.status();
  if (axes.empty())
    axes = allAxes(x->rank());
  if (!l.axes(axes, x->rank()))
    return l.status();
  if (wanted.size() != axes.size())
    return l.invalid("it has ", wanted.size(), " lengths for ", axes.size(), " axes");
  Shape inner = x->shape, shape = x->shape;
  Integers from(x->rank()), to(x->rank());
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    const int64_t length = wanted[i], n = x->shape[axis];
    if (length < 0)
      return l.invalid("a length of ", length);
    shape[axis] = length;
    inner[axis] = std::min(n, length);
    (length < n ? from : to)[axis] = (std::max(n, length) - inner[axis]) / 2;
  }
  Value *middle = slice(l, x, inner, from, Integers(x->rank(), 1));
  if (shape == inner)
    return l.give(middle);
  const int64_t zero = 0;
  Value *y = fill(l, x->type, shape, l.constant(x->type, {}, &zero));
  place(l, y, middle, to);
  return l.give(y);
}

Status gridSample(Lowering &l) {
  Value *x = l.in(0), *grid = l.in(1);
  const std::string_view mode = l.text("mode", "linear"), padding = l.text("padding_mode", "zeros");
  const bool isNearest = mode == "nearest", isCubic = mode == "cubic" || mode == "bicubic";
  if ((!isNearest && !isCubic && mode != "linear" && mode != "bilinear") ||
      (padding != "zeros" && padding != "border" && padding != "reflection"))
    return l.invalid("its attributes 'mode' and 'padding_mode' are '", mode, "' and '", padding,
                     "'");
  if (x->rank() > 5)
    return l.unsupported("images of more than three dimensions");
  if (x->rank() < 3 || grid->rank() != x->rank() || grid->type != x->type ||
      grid->shape[0] != x->shape[0] || grid->shape.back() != static_cast<int64_t>(x->rank()) - 2)
    return l.invalid("a grid ", toString(grid->shape), " of ", name(grid->type), " for ",
                     toString(x->shape), " of ", name(x->type));
  Shape shape{x->shape[0], x->shape[1]};
  shape.insert(shape.end(), grid->shape.begin() + 1, grid->shape.end() - 1);
  const int64_t positions = product(shape, 2, shape.size());
  Value *y = l.output(0, x->type, shape);
  if (y->count && x->count == 0)
    return l.invalid("there is nothing to sample in ", toString(x->shape));
  Integers p{code(x->type), x->shape[0], x->shape[1], positions,
             static_cast<int64_t>(x->rank()) - 2,
             number(isNearest ? SampleMode::Nearest
                    : isCubic ? SampleMode::Cubic
                              : SampleMode::Linear),
             padding == "zeros"    ? 0
             : padding == "border" ? 1
                                   : 2,
             l.integer("align_corners", 0) != 0};
  p.insert(p.end(), 5 - x->rank(), 1);
  p.insert(p.end(), x->shape.begin() + 2, x->shape.end());
  l.emit(KernelId::GridSample, {y}, {x, grid}, p);
  l.planner.countMultiplyAdds(y->count * 64);
  return l.status();
}

/// A product of places from -1 to 1 with the transposed matrices.
Status affineGrid(Lowering &l) {
  Value *theta = l.in(0);
  Integers size;
  if (!l.read(l.in(1), size))
    return l.status();
  const size_t d = size.size() - 2;
  if ((size.size() != 4 && size.size() != 5) ||
      theta->shape != Shape{size[0], static_cast<int64_t>(d), static_cast<int64_t>(d) + 1} ||
      *std::min_element(size.begin(), size.end()) < 0)
    return l.invalid("matrices ", toString(theta->shape), " for a size of ", toString(size));
  const bool aligns = l.integer("align_corners", 0) != 0;
  Shape shape{size[0]};
  shape.insert(shape.end(), size.begin() + 2, size.end());
  shape.push_back(static_cast<int64_t>(d));
  const int64_t positions = product(size, 2, size.size());
  const Value *result = l.make(ElementType::Float64, shape);
  if (!l.status() || !l.planner.hasTimeFor(8 * result->count))
    return l.status();
  std::vector<double> places;
  for (int64_t i = 0; i < (result->count ? positions : 0); ++i) {
    std::array<double, 4> place = {};
    int64_t rest = i;
    for (size_t k = 0; k < d; ++k) { // the last dimension first
      const int64_t n = size[size.size() - 1 - k];
      const auto at = static_cast<double>(rest % n), length = static_cast<double>(n);
      place[k] = aligns ? (n == 1 ? -1 : 2 * at / (length - 1) - 1) : (2 * at + 1) / length - 1;
      rest /= n;
    }
    place[d] = 1;
    places.insert(places.end(), place.begin(), place.begin() + static_cast<ptrdiff_t>(d) + 1);
  }
  const auto rows = static_cast<int64_t>(places.size() / (d + 1));
  Value *grid = l.constantOf<double>({rows, static_cast<int64_t>(d) + 1}, places);
  Value *y = matmul(l, cast(l, grid, theta->type), transpose(l, theta, {0, 2, 1}));
  return l.give(l.view(y, shape));
}

Status roiAlignBy(Lowering &l, std::string_view coordinates) {
  Value *x = l.in(0), *regions = l.in(1), *batches = l.in(2);
  const int64_t height = l.integer("output_height", 1), width = l.integer("output_width", 1);
  const int64_t samples = l.integer("sampling_ratio", 0);
  const std::string_view mode = l.text("mode", "avg");
  constexpr int64_t Most = 1024;
  if ((mode != "avg" && mode != "max") ||
      (coordinates != "half_pixel" && coordinates != "output_half_pixel"))
    return l.invalid("its attributes 'mode' and 'coordinate_transformation_mode' are '", mode,
                     "' and '", coordinates, "'");
  if (height < 1 || width < 1 || samples < 0 || samples > Most || height > Most * Most ||
      width > Most * Most)
    return l.invalid("an output of ", height, " by ", width, " with ", samples, " samples");
  if (x->rank() != 4 || batches->rank() != 1 || regions->shape != Shape{batches->shape[0], 4})
    return l.invalid("regions ", toString(regions->shape), " and batches ",
                     toString(batches->shape), " for ", toString(x->shape));
  Value *y = l.output(0, x->type, {batches->shape[0], x->shape[1], height, width});
  l.emit(KernelId::RoiAlign, {y}, {x, regions, batches, l.fault()},
         {code(x->type), batches->shape[0], x->shape[0], x->shape[1], x->shape[2], x->shape[3],
          height, width, samples, real(l.real("spatial_scale", 1)), coordinates == "half_pixel",
          mode == "max"});
  l.planner.countMultiplyAdds(y->count * 64 * static_cast<uint64_t>(1 + samples * samples));
  return l.status();
}
Status roiAlign(Lowering &l) {
  return roiAlignBy(l, l.text("coordinate_transformation_mode", "half_pixel"));
}
/// Until version 15.
Status roiAlignWithoutShift(Lowering &l) { return roiAlignBy(l, "output_half_pixel"); }

constexpr Operator Table[] = {
    {"Upsample", 7, "T", Fixed, 1, true, resizeByScales, "mode scales"},
    {"Upsample", 9, "TA", Fixed, 1, true, resizeByScales, "mode", 2},
    {"Resize", 10, "TA", Fixed, 1, true, resizeByScales, "mode", 2},
    {"Resize", 11, "Taal", Fixed, 1, true, resize,
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
     "extrapolation_value keep_aspect_ratio_policy mode nearest_mode",
     14},
    {"CenterCropPad", 18, "TI", Fixed, 1, false, centerCropPad, "axes", 2},
    {"GridSample", 16, "TA", Reals, 1, true, gridSample, "align_corners mode padding_mode"},
    {"AffineGrid", 20, "TL", Reals, 1, true, affineGrid, "align_corners", 2},
    {"RoiAlign", 10, "TTL", Reals, 1, true, roiAlignWithoutShift,
     "mode output_height output_width sampling_ratio spatial_scale"},
    {"RoiAlign", 16, "TTL", Reals, 1, true, roiAlign,
     "coordinate_transformation_mode mode output_height output_width sampling_ratio "
     "spatial_scale"},
};

} // namespace

const Span<const Operator> ResizeOperators = Table;

} // namespace mlbridge::native
