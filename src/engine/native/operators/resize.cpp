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

constexpr double MostLength = 0x1p40;
enum Mode { Nearest, Linear, Bilinear, Cubic };
constexpr const char *Modes = "nearest linear bilinear cubic";
enum Coordinates { HalfPixel, Aligned, Asymmetric, Crop, PytorchHalfPixel, Symmetric };
constexpr const char *CoordinateModes = "half_pixel align_corners asymmetric tf_crop_and_resize "
                                        "pytorch_half_pixel half_pixel_symmetric";
enum Rounding { PreferFloor, PreferCeil, Floor, Ceil };
constexpr const char *Roundings = "round_prefer_floor round_prefer_ceil floor ceil";

/// How elements of the result are made of those along an axis.
struct Resizing {
  int mode, coordinates = Asymmetric, rounding = Floor;
  bool antialiases = false, excludes = false;
  double a = -0.75;
  Value *extrapolated = nullptr;

  double round(double x) const {
    if (rounding == PreferFloor || rounding == Ceil)
      return std::ceil(x - (rounding == PreferFloor ? 0.5 : 0));
    return std::floor(x + (rounding == PreferCeil ? 0.5 : 0));
  }
  /// What an element at a distance weighs.
  double weight(double d) const {
    d = std::fabs(d);
    if (mode != Cubic)
      return std::max(0.0, 1 - d);
    if (d <= 1)
      return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
  }
};

/// `begin` and `end`: of the part that is looked at, where all is 0 … 1.
Value *resizeAxis(Lowering &l, const Resizing &r, Value *x, int64_t axis, int64_t length,
                  double scale, double begin, double end) {
  constexpr double MostWeights = 1 << 24, ForWeight = 64; // nanoseconds
  const Along at(x, axis);
  Shape shape = x->shape;
  shape[at.axis] = length;
  Value *y = l.make(x->type, shape);
  const bool isNearest = r.mode == Nearest;
  const double shrunk = r.antialiases ? std::min(scale, 1.0) : 1;
  const double first = isNearest ? 0 : std::floor((r.mode == Cubic ? -2 : -1) / shrunk) + 1;
  const double taps = isNearest ? 1 : 2 - 2 * first;
  const double n = static_cast<double>(at.n), all = static_cast<double>(length) * taps;
  if (y->count == 0)
    return y;
  if (at.n == 0 || !(all <= MostWeights))
    l.invalid("a length of ", at.n, " becomes ", length);
  if (!l.status() || !l.planner.hasTimeFor(static_cast<uint64_t>(ForWeight * all)))
    return y;
  // Element i of the result is at (i + before) · numerator / denominator + after.
  const double wide = n * scale;
  double before = 0.5, numerator = 1, denominator = scale, after = -0.5;
  if (r.coordinates == Aligned || r.coordinates == Crop) {
    before = 0;
    numerator = wide == 1 ? 0 : (end - begin) * (n - 1);
    denominator = wide == 1 ? 1 : wide - 1;
    after = begin * (n - 1) + (wide == 1 ? (end - begin) * (n - 1) / 2 : 0);
    if (r.coordinates == Aligned)
      after = 0;
  } else if (r.coordinates == Asymmetric) {
    before = after = 0;
  } else if (r.coordinates == Symmetric) {
    after += n / 2 * (1 - static_cast<double>(length) / wide);
  } else if (r.coordinates == PytorchHalfPixel && wide == 1) {
    numerator = 0;
  }
  Integers indices;
  std::vector<double> weights;
  for (int64_t i = 0; i < length; ++i) {
    const double place = (static_cast<double>(i) + before) * numerator / denominator + after;
    const bool isOutside = r.coordinates == Crop && !(place >= 0 && place <= n - 1);
    const double base = isNearest ? r.round(place) : std::ceil(place) - 1;
    double sum = 0;
    for (int64_t tap = 0; tap < static_cast<int64_t>(taps); ++tap) {
      const double index = base + first + static_cast<double>(tap);
      const bool isThere = index >= 0 && index < n;
      const double weight = isNearest ? 1 : r.weight((index - place) * shrunk);
      weights.push_back(isThere || !r.excludes ? weight : 0);
      sum += weights.back();
      const double clamped = isThere ? index : index < 0 ? 0 : n - 1;
      indices.push_back(isOutside ? -1 : static_cast<int64_t>(clamped));
    }
    for (size_t k = weights.size() - static_cast<size_t>(taps); k < weights.size(); ++k)
      weights[k] /= (r.excludes || r.antialiases) && sum != 0 ? sum : 1;
  }
  const Shape size{length, static_cast<int64_t>(taps)};
  Value *places = l.constantOf<int64_t>(size, indices);
  if (isNearest && r.coordinates != Crop)
    l.emit(KernelId::Gather, {y}, {x, places, l.fault()},
           {at.outer, at.n, at.inner * width(x), length});
  else if (!isFloat(x->type))
    l.unsupported("interpolation of ", name(x->type));
  else
    l.emit(KernelId::Interpolate, {y},
           {x, places, cast(l, l.constantOf<double>(size, weights), x->type), r.extrapolated},
           {code(x->type), at.outer, at.n, at.inner, length, size[1]});
  return y;
}

/// Upsample and Resize; until version 10 there were only scales.
Status resizeBy(Lowering &l, bool isOld) {
  Value *x = l.in(0);
  Resizing r = {choice(l, "mode", Modes)};
  std::vector<double> scales(l.reals("scales").begin(), l.reals("scales").end()), region;
  Integers axes = l.list("axes"), lengths;
  if (!isOld) {
    r.coordinates = choice(l, "coordinate_transformation_mode", CoordinateModes);
    r.rounding = choice(l, "nearest_mode", Roundings);
    r.antialiases = l.integer("antialias", 0) != 0;
    r.excludes = l.integer("exclude_outside", 0) != 0;
    r.a = l.real("cubic_coeff_a", -0.75);
    r.extrapolated = l.constantReal(x->type, l.real("extrapolation_value", 0));
  }
  const int policy = choice(l, "keep_aspect_ratio_policy", "stretch not_larger not_smaller");
  const bool crops = r.coordinates == Crop;
  if (axes.empty())
    axes = allAxes(x->rank());
  if (!l.axes(axes, x->rank()) || !readReals(l, l.in(isOld ? 1 : 2), scales) ||
      (crops && !readReals(l, l.in(1), region)) || (l.in(3) && !l.read(l.in(3), lengths)))
    return l.status();
  const size_t count = axes.size();
  const bool hasSizes = scales.empty();
  if ((hasSizes ? lengths.size() : scales.size()) != count || (crops && region.size() != 2 * count))
    return l.invalid("it has ", scales.size(), " scales, ", lengths.size(), " sizes and ",
                     region.size(), " corners for ", count, " axes");
  lengths.resize(count);
  scales.resize(count);
  double common = 0; // scale of all axes
  const auto lengthOf = [&](size_t i) { return x->shape[static_cast<size_t>(axes[i])]; };
  for (size_t i = 0; i < count; ++i) {
    const auto n = static_cast<double>(lengthOf(i));
    if (hasSizes)
      scales[i] = n == 0 ? 1 : static_cast<double>(lengths[i]) / n;
    const bool isFirst = i == 0 || (scales[i] < common) == (policy == 1);
    common = isFirst ? scales[i] : common;
  }
  for (size_t i = count; i-- > 0;) { // the last one first, so that few are made of single elements
    const int64_t n = lengthOf(i);
    double length = std::floor(scales[i] * static_cast<double>(n));
    if (hasSizes && policy) {
      scales[i] = common;
      length = std::floor(common * static_cast<double>(n) + 0.5);
    } else if (hasSizes) {
      length = static_cast<double>(lengths[i]);
    }
    if (!(length >= 0 && length < MostLength) || !(scales[i] > 0 || length == 0))
      return l.invalid("a length of ", n, " becomes ", length);
    const double begin = crops ? region[i] : 0, end = crops ? region[count + i] : 1;
    if (length != static_cast<double>(n) || std::fabs(scales[i] - 1) > 1e-9 || begin != 0 ||
        end != 1)
      x = resizeAxis(l, r, x, axes[i], static_cast<int64_t>(length), scales[i], begin, end);
  }
  return l.give(x);
}
Status upsample(Lowering &l) { return resizeBy(l, true); }
Status resize(Lowering &l) { return resizeBy(l, false); }

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
  const int mode = choice(l, "mode", "linear bilinear nearest cubic bicubic");
  const int padding = choice(l, "padding_mode", "zeros border reflection");
  const size_t rank = x->rank();
  if (rank < 3 || rank > 5)
    return l.unsupported("images of the shape ", x->shape);
  const auto dimensions = static_cast<int64_t>(rank) - 2;
  if (grid->rank() != rank || grid->type != x->type || grid->shape[0] != x->shape[0] ||
      grid->shape.back() != dimensions || (grid->count && product(x->shape, 2, rank) == 0))
    return l.invalid("a grid ", grid->shape, " of ", name(grid->type), " for ", x->shape, " of ",
                     name(x->type));
  Shape shape = x->shape;
  std::copy(grid->shape.begin() + 1, grid->shape.end() - 1, shape.begin() + 2);
  Integers p{code(x->type),
             x->shape[0],
             x->shape[1],
             product(shape, 2, rank),
             dimensions,
             mode < 2    ? number(SampleMode::Linear)
             : mode == 2 ? number(SampleMode::Nearest)
                         : number(SampleMode::Cubic),
             padding,
             l.integer("align_corners", 0),
             1,
             1,
             1};
  std::copy(x->shape.begin() + 2, x->shape.end(), p.end() - dimensions);
  Value *y = l.output(0, x->type, shape);
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
  const size_t rank = size.size(), d = rank - 2;
  const auto dimensions = static_cast<int64_t>(d);
  if ((rank != 4 && rank != 5) || *std::min_element(size.begin(), size.end()) < 0 ||
      theta->shape != Shape{size[0], dimensions, dimensions + 1})
    return l.invalid("matrices ", theta->shape, " for a size of ", size);
  const bool aligns = l.integer("align_corners", 0) != 0;
  Shape shape = size;
  shape.erase(shape.begin() + 1);
  shape.push_back(dimensions);
  const size_t all = l.make(ElementType::Float64, shape)->count;
  if (!l.status() || !l.planner.hasTimeFor(8 * all))
    return l.status();
  const int64_t positions = all ? product(size, 2, rank) : 0;
  std::vector<double> places;
  for (int64_t i = 0; i < positions; ++i) {
    int64_t rest = i;
    for (size_t k = 0; k < d; ++k) { // the last dimension first
      const int64_t n = size[rank - 1 - k], doubled = 2 * (rest % n);
      rest /= n;
      const int64_t wide = aligns ? std::max<int64_t>(n - 1, 1) : n;
      places.push_back(static_cast<double>(doubled + !aligns) / static_cast<double>(wide) - 1);
    }
    places.push_back(1);
  }
  Value *grid = cast(l, l.constantOf<double>({positions, dimensions + 1}, places), theta->type);
  return l.give(l.view(matmul(l, grid, transpose(l, theta, {0, 2, 1})), shape));
}

constexpr Operator Table[] = {
    {"Upsample", 7, "T", Fixed, 1, true, upsample, "mode scales"},
    {"Upsample", 9, "TA", Fixed, 1, true, upsample, "mode", 2},
    {"Resize", 10, "TA", Fixed, 1, true, upsample, "mode", 2},
    {"Resize", 11, "Taal", Fixed, 1, true, resize,
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
     "extrapolation_value keep_aspect_ratio_policy mode nearest_mode",
     14},
    {"CenterCropPad", 18, "TI", Fixed, 1, false, centerCropPad, "axes", 2},
    {"GridSample", 16, "TA", Reals, 1, true, gridSample, "align_corners mode padding_mode"},
    {"AffineGrid", 20, "TL", Reals, 1, true, affineGrid, "align_corners", 2},
};

} // namespace

const Span<const Operator> ResizeOperators = Table;

} // namespace mlbridge::native
