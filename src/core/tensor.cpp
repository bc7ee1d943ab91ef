// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element types, tensor specifications, signatures and owning tensors.
#include <mlbridge/tensor.h>

#include "core/bind.h"
#include "core/message.h"

#include <algorithm>
#include <exception>

namespace mlbridge {

static constexpr struct {
  const char *name;
  uint8_t size;
} Types[] = {
    {"invalid", 0}, {"int8", 1},    {"int16", 2},  {"int32", 4},  {"int64", 8},
    {"uint8", 1},   {"uint16", 2},  {"uint32", 4}, {"uint64", 8}, {"float16", 2},
    {"float32", 4}, {"float64", 8}, {"bool", 1},   {"string", 0},
};

bool isValid(ElementType type) {
  return static_cast<size_t>(type) >= 1 && static_cast<size_t>(type) < std::size(Types);
}

const char *name(ElementType type) { return Types[isValid(type) ? size_t(type) : 0].name; }

size_t sizeOf(ElementType type) { return Types[isValid(type) ? size_t(type) : 0].size; }

Expected<ElementType> elementTypeNamed(std::string_view name) {
  for (size_t i = 1; i < std::size(Types); ++i)
    if (name == Types[i].name)
      return static_cast<ElementType>(i);
  return makeError(Code::InvalidArgument, "no element type is called '", name, "'");
}

std::optional<size_t> elementCount(Span<const int64_t> shape) {
  // So that neither bytes nor an array of strings or descriptors of so many elements overflow.
  constexpr uint64_t Most = uint64_t(1) << 58;
  uint64_t count = 1;
  bool empty = false, tooMany = false;
  for (int64_t length : shape) {
    if (length < 0)
      return std::nullopt;
    if (length == 0)
      empty = true;
    else
      tooMany |=
          __builtin_mul_overflow(count, static_cast<uint64_t>(length), &count) || count > Most;
  }
  if (empty)
    return 0;
  if (tooMany)
    return std::nullopt;
  return static_cast<size_t>(count);
}

static std::string toString(Span<const int64_t> shape, Span<const int64_t> maximum) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += i ? ", " : "";
    text += shape[i] == Dynamic ? "?" : std::to_string(shape[i]);
    if (shape[i] == Dynamic && i < maximum.size() && maximum[i])
      text += "<=" + std::to_string(maximum[i]);
  }
  return text + "]";
}

std::string toString(Span<const int64_t> shape) { return toString(shape, {}); }

bool operator==(const TensorSpec &a, const TensorSpec &b) {
  if (a.name != b.name || a.type != b.type || a.shape != b.shape)
    return false;
  for (size_t i = 0; i < a.shape.size(); ++i)
    if ((i < a.maximum.size() ? a.maximum[i] : 0) != (i < b.maximum.size() ? b.maximum[i] : 0))
      return false;
  return true;
}

bool TensorSpec::isDynamic() const {
  return std::find(shape.begin(), shape.end(), Dynamic) != shape.end();
}

std::optional<size_t> TensorSpec::count() const { return elementCount(shape); }

std::string TensorSpec::toString() const {
  return join(name, ": ", mlbridge::name(type),
              shape.empty() ? std::string() : mlbridge::toString(shape, maximum));
}

Status TensorSpec::check() const {
  const auto wrong = [&](const auto &...what) {
    return makeError(Code::InvalidArgument, "tensor '", name, "': ", what...);
  };
  if (name.empty())
    return makeError(Code::InvalidArgument, "a tensor has an empty name");
  if (!isValid(type))
    return wrong("element type ", static_cast<int>(type), " does not exist");
  if (!maximum.empty() && maximum.size() != shape.size())
    return wrong(maximum.size(), " maximum lengths for ", shape.size(), " dimensions");
  Shape fixed;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t most = maximum.empty() ? 0 : maximum[i];
    if (shape[i] < Dynamic)
      return wrong("dimension ", i, " has the length ", shape[i]);
    if (most < 0 || (most && shape[i] != Dynamic))
      return wrong("dimension ", i, " has the maximum ", most,
                   most < 0 ? "" : " although its length is fixed");
    if (shape[i] != Dynamic)
      fixed.push_back(shape[i]);
  }
  if (!elementCount(fixed))
    return wrong("too many elements: ", toString());
  return Status();
}

Status checkShape(const TensorSpec &spec, Span<const int64_t> shape) {
  const auto wrong = [&](const auto &...what) {
    return makeError(Code::InvalidArgument, "tensor '", spec.toString(), "' cannot have the shape ",
                     toString(shape), ": ", what...);
  };
  if (shape.size() != spec.shape.size())
    return wrong(shape.size(), " dimensions instead of ", spec.shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0)
      return wrong("dimension ", i, " is negative");
    if (spec.shape[i] == Dynamic) {
      const int64_t most = i < spec.maximum.size() ? spec.maximum[i] : 0;
      if (most && shape[i] > most)
        return wrong("dimension ", i, " exceeds its maximum");
    } else if (shape[i] != spec.shape[i]) {
      return wrong("dimension ", i, " differs");
    }
  }
  if (!elementCount(shape))
    return wrong("too many elements");
  return Status();
}

/// Names come from peers, so this must not be quadratic.
static Status checkDifferent(const std::vector<std::string_view> &names, const char *what) {
  std::vector<std::string_view> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  const auto twin = std::adjacent_find(sorted.begin(), sorted.end());
  if (twin == sorted.end())
    return Status();
  const auto one = std::find(names.begin(), names.end(), *twin);
  const auto other = std::find(one + 1, names.end(), *twin);
  return makeError(Code::InvalidArgument, what, "s ", one - names.begin(), " and ",
                   other - names.begin(), " are both called '", *twin, "'");
}

static Status checkSide(const std::vector<TensorSpec> &specs, const char *side) {
  for (size_t i = 0; i < specs.size(); ++i) {
    Status s = specs[i].check();
    if (s && specs[i].shape.size() > MaxRank)
      s = makeError(Code::InvalidArgument, "tensor '", specs[i].name, "' has the rank ",
                    specs[i].shape.size(), ", a tensor has at most ", MaxRank, " dimensions");
    if (!s)
      return s.withContext(join(side, " ", i));
  }
  return checkDifferent(namesOf(specs), side);
}

Status Signature::check() const {
  if (Status s = checkSide(inputs, "input"); !s)
    return s;
  return checkSide(outputs, "output");
}

static std::string toString(const std::vector<TensorSpec> &specs) {
  std::string text = "(";
  for (const TensorSpec &spec : specs)
    text.append(text.size() > 1 ? ", " : "").append(spec.toString());
  return text + ")";
}

std::string Signature::toString() const {
  return join(mlbridge::toString(inputs), " -> ", mlbridge::toString(outputs));
}

template <typename Named> static int find(Span<const Named> all, std::string_view name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Named &one) { return one.name == name; });
  return found == all.end() ? -1 : static_cast<int>(found - all.begin());
}

int Signature::findInput(std::string_view name) const { return find<TensorSpec>(inputs, name); }
int Signature::findOutput(std::string_view name) const { return find<TensorSpec>(outputs, name); }
int findAgent(Span<const AgentSpec> agents, std::string_view name) { return find(agents, name); }

Status checkAgents(Span<const AgentSpec> agents) {
  for (size_t i = 0; i < agents.size(); ++i) {
    const std::string where = "agent " + std::to_string(i);
    if (agents[i].name.empty() && agents.size() > 1)
      return makeError(Code::InvalidArgument, where, " has no name");
    if (Status s = agents[i].signature.check(); !s)
      return s.withContext(join(where, ", '", agents[i].name, "'"));
  }
  return checkDifferent(namesOf(agents), "agent");
}

Tensor::Tensor(TensorSpec spec) {
  Expected<Tensor> tensor = make(spec, spec.shape);
  if (tensor)
    *this = std::move(*tensor);
}

Expected<Tensor> Tensor::make(TensorSpec spec, Span<const int64_t> shape) {
  if (Status s = spec.check(); !s)
    return s;
  Tensor tensor;
  tensor.spec_.type = spec.type;
  if (Status s = tensor.reshape(spec, shape); !s)
    return s;
  tensor.spec_.name = std::move(spec.name);
  return tensor;
}

TensorView Tensor::view() {
  TensorView v;
  v.type = spec_.type;
  v.data = spec_.type == ElementType::String ? static_cast<void *>(strings_.data())
                                             : static_cast<void *>(numbers_.data());
  v.count = count_;
  v.shape = spec_.shape;
  return v;
}

Status Tensor::reshape(const TensorSpec &declared, Span<const int64_t> shape) {
  if (Status s = checkShape(declared, shape); !s)
    return s;
  const size_t count = *elementCount(shape);
  if (spec_.type != declared.type || spec_.name != declared.name) {
    // An empty tensor becomes one of the declared kind.
    spec_.name = declared.name;
    spec_.type = declared.type;
    spec_.maximum = declared.maximum;
    count_ = 0;
  }
  const size_t bytes = count * sizeOf(spec_.type);
  const auto noMemory = [&] {
    return makeError(Code::LimitExceeded, "no memory for ", declared.toString(), " of the shape ",
                     mlbridge::toString(shape));
  };
  constexpr size_t AddressSpace = size_t(1) << 47;
  if (std::max(bytes, spec_.type == ElementType::String ? count * sizeof(std::string) : 0) >
      AddressSpace)
    return noMemory();
  try {
    if (spec_.type == ElementType::String) {
      if (strings_.size() < count)
        strings_.resize(count);
    } else if (numbers_.size() * sizeof(Chunk) < bytes) {
      // Contents are lost anyway: give the old storage back first.
      numbers_.clear();
      numbers_.resize((bytes + sizeof(Chunk) - 1) / sizeof(Chunk));
    }
    spec_.shape.assign(shape.begin(), shape.end());
  } catch (const std::exception &) { // std::bad_alloc, std::length_error
    count_ = 0;
    return noMemory();
  }
  count_ = count;
  return Status();
}

} // namespace mlbridge
