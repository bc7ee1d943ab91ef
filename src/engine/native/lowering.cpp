// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/native/lowering.h"

#include "engine/native/planner.h"

#include <cstring>

namespace mlbridge::native {

namespace {

// AttributeProto.AttributeType
constexpr int RealAttribute = 1, IntegerAttribute = 2, TextAttribute = 3, TensorAttribute = 4,
              RealsAttribute = 6, IntegersAttribute = 7, TextsAttribute = 8;

} // namespace

void Lowering::setResult(size_t i, Value *value) {
  if (results.size() <= i)
    results.resize(i + 1);
  results[i] = value;
}

const onnx::Attribute *Lowering::attribute(std::string_view name) const {
  for (const onnx::Attribute &attribute : node.attributes)
    if (attribute.name == name)
      return planner.resolve(&attribute);
  return nullptr;
}

static const onnx::Attribute *typed(Lowering &l, std::string_view name, int type) {
  const onnx::Attribute *attribute = l.attribute(name);
  if (attribute && attribute->type && attribute->type != type) {
    l.invalid("its attribute '", name, "' has the wrong type");
    return nullptr;
  }
  return attribute;
}

int64_t Lowering::integer(std::string_view name, int64_t fallback) {
  const onnx::Attribute *attribute = typed(*this, name, IntegerAttribute);
  return attribute ? attribute->integer : fallback;
}
double Lowering::real(std::string_view name, double fallback) {
  const onnx::Attribute *attribute = typed(*this, name, RealAttribute);
  return attribute ? static_cast<double>(attribute->real) : fallback;
}
std::string_view Lowering::text(std::string_view name, std::string_view fallback) {
  const onnx::Attribute *attribute = typed(*this, name, TextAttribute);
  return attribute ? attribute->text : fallback;
}
const Integers *Lowering::integers(std::string_view name) {
  const onnx::Attribute *attribute = typed(*this, name, IntegersAttribute);
  return attribute ? &attribute->integers : nullptr;
}

const Integers &Lowering::list(std::string_view name) {
  static const Integers None;
  const Integers *given = integers(name);
  return given ? *given : None;
}
const std::vector<float> &Lowering::reals(std::string_view name) {
  static const std::vector<float> None;
  const onnx::Attribute *attribute = typed(*this, name, RealsAttribute);
  return attribute ? attribute->reals : None;
}
const std::vector<std::string_view> &Lowering::texts(std::string_view name) {
  static const std::vector<std::string_view> None;
  const onnx::Attribute *attribute = typed(*this, name, TextsAttribute);
  return attribute ? attribute->texts : None;
}

Value *Lowering::tensor(std::string_view name) {
  const onnx::Attribute *attribute = typed(*this, name, TensorAttribute);
  if (!attribute || !attribute->tensor)
    return nullptr;
  Expected<SharedBytes> bytes = planner.elements(*attribute->tensor);
  if (!bytes) {
    planner.fail(bytes.status());
    return nullptr;
  }
  Value *value = planner.constant(*onnx::elementType(attribute->tensor->type),
                                  attribute->tensor->shape, *bytes);
  value->initializer = attribute->tensor.get();
  return value;
}

bool Lowering::readNumbers(std::string_view name, std::vector<double> &out, bool *isDouble) {
  const Value *value = tensor(name);
  if (!value)
    return bool(status());
  out.resize(value->count);
  convert(*value, value->constantBytes(), ElementType::Float64, out.data());
  *isDouble |= value->type == ElementType::Float64;
  return true;
}

bool Lowering::axis(int64_t &axis, size_t rank) {
  const auto count = static_cast<int64_t>(rank);
  if (axis < -count || axis >= count)
    return invalid("axis ", axis, " is out of range for a tensor of ", rank, " dimensions");
  axis += axis < 0 ? count : 0;
  return true;
}

bool Lowering::axes(Integers &axes, size_t rank) {
  std::vector<bool> seen(rank);
  for (int64_t &a : axes) {
    if (!axis(a, rank))
      return false;
    if (seen[static_cast<size_t>(a)])
      return invalid("axis ", a, " is named twice");
    seen[static_cast<size_t>(a)] = true;
  }
  return true;
}

bool Lowering::broadcast(const std::vector<const Value *> &values, Shape &out) {
  out.clear();
  for (const Value *value : values)
    if (value && value->rank() > out.size())
      out.insert(out.begin(), value->rank() - out.size(), 1);
  for (const Value *value : values) {
    if (!value)
      continue;
    const size_t lead = out.size() - value->rank();
    for (size_t i = 0; i < value->rank(); ++i) {
      int64_t &length = out[lead + i];
      if (value->shape[i] == length || value->shape[i] == 1)
        continue;
      if (length != 1) {
        std::string shapes;
        for (const Value *v : values)
          if (v)
            shapes += (shapes.empty() ? "" : " and ") + toString(v->shape);
        return invalid("the shapes ", shapes, " don't fit each other");
      }
      length = value->shape[i];
    }
  }
  return true;
}

void convert(const Value &value, const uint8_t *bytes, ElementType type, void *out) {
  const auto run = [](KernelId kernel, std::initializer_list<void *> operands,
                      std::initializer_list<int64_t> parameters) {
    kernelsFor(InstructionSet::Portable)[static_cast<size_t>(kernel)](operands.begin(),
                                                                      parameters.begin());
  };
  void *from = const_cast<uint8_t *>(bytes);
  const auto count = static_cast<int64_t>(value.count);
  std::vector<float> wide;
  if (value.type == BFloat16) {
    wide.resize(value.count);
    run(KernelId::F32FromBF16, {wide.data(), from}, {count});
    from = wide.data();
  }
  const ElementType known = value.type == BFloat16 ? ElementType::Float32 : value.type;
  run(KernelId::Cast, {out, from},
      {static_cast<int64_t>(known), static_cast<int64_t>(type), count});
}

bool Lowering::read(size_t i, std::string_view attribute, Integers &out, bool isOptional) {
  if (in(i))
    return read(in(i), out);
  if (const Integers *given = integers(attribute))
    out = *given;
  else if (!isOptional)
    return invalid("its '", attribute, "' is missing");
  return bool(status());
}

bool Lowering::read(Value *value, Integers &out) {
  if (value->type != ElementType::Int64 && value->type != ElementType::Int32)
    return invalid(std::string("lengths or indices must be int32 or int64, not "),
                   name(value->type));
  const uint8_t *bytes = planner.bytesOf(value);
  if (!bytes)
    return false;
  out.resize(value->count);
  convert(*value, bytes, ElementType::Int64, out.data());
  return true;
}

bool Lowering::read(Value *value, int64_t &out) {
  Integers all;
  if (!read(value, all))
    return false;
  if (all.size() != 1)
    return invalid("expected one number, not ", all.size());
  out = all[0];
  return true;
}

bool Lowering::read(Value *value, double &out) {
  if (value->count != 1)
    return invalid("expected one number, not ", value->count);
  const uint8_t *bytes = planner.bytesOf(value);
  if (bytes)
    convert(*value, bytes, ElementType::Float64, &out);
  return bytes != nullptr;
}

Value *Lowering::output(size_t i, ElementType type, const Shape &shape) {
  Value *value = make(type, shape);
  setResult(i, value);
  return value;
}

Value *Lowering::constant(ElementType type, const Shape &shape, const void *elements) {
  Buffer bytes;
  const size_t size = elementCount(shape).value_or(0) * sizeOf(type);
  if (Status s = bytes.resize(std::max<size_t>(size, 8)); !s) {
    planner.fail(s);
    return make(type, shape);
  }
  std::memset(bytes.data(), 0, bytes.size());
  if (size)
    std::memcpy(bytes.data(), elements, size);
  return planner.constant(type, shape, std::make_shared<const Buffer>(std::move(bytes)));
}

Value *Lowering::constantReal(ElementType type, double value) {
  if (type == ElementType::Float64)
    return constant(type, {}, &value);
  const auto single = static_cast<float>(value);
  return constant(ElementType::Float32, {}, &single);
}

const Status &Lowering::emit(KernelId kernel, const Values &results, const Values &reads,
                             const Integers &parameters) {
  planner.emit(kernel, results, reads, parameters);
  return status();
}

const Status &Lowering::emit(KernelId kernel, std::initializer_list<Value *> results,
                             std::initializer_list<Value *> reads,
                             std::initializer_list<int64_t> parameters) {
  return emit(kernel, Values(results), Values(reads), Integers(parameters));
}

Value *Lowering::make(ElementType type, std::initializer_list<int64_t> shape) {
  return make(type, Shape(shape));
}
Value *Lowering::view(Value *value, std::initializer_list<int64_t> shape, uint64_t offset) {
  return view(value, Shape(shape), offset);
}

} // namespace mlbridge::native
