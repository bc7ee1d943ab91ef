// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NumPy arrays over tensors, and the checked conversion of what users give into tensors.
#include "arrays.h"
#include "core/convert.h"

#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

namespace mlbridge::python {
namespace {

constexpr int typeNumbers[] = {NPY_NOTYPE,  NPY_INT8,    NPY_INT16,  NPY_INT32,  NPY_INT64,
                               NPY_UINT8,   NPY_UINT16,  NPY_UINT32, NPY_UINT64, NPY_FLOAT16,
                               NPY_FLOAT32, NPY_FLOAT64, NPY_BOOL,   NPY_OBJECT};
PyTypeObject *scalarTypes[std::size(typeNumbers)];

int typeNumber(ElementType type) { return typeNumbers[static_cast<int>(type)]; }

bool isInteger(ElementType type) { return type <= ElementType::UInt64; }

nb::object own(PyObject *object) {
  if (!object)
    throw nb::python_error();
  return nb::steal<nb::object>(object);
}

PyArrayObject *arrayOf(const nb::object &object) {
  return reinterpret_cast<PyArrayObject *>(object.ptr());
}

std::string shapeOf(PyArrayObject *array) {
  std::string out = "[";
  for (int i = 0; i < PyArray_NDIM(array); ++i)
    out += (i ? ", " : "") + std::to_string(PyArray_DIM(array, i));
  return out + "]";
}

std::string describe(PyArrayObject *array) {
  return shown(reinterpret_cast<PyObject *>(PyArray_DESCR(array))) +
         (PyArray_NDIM(array) > 0 ? shapeOf(array) : "");
}

/// The expected side of a message: "float32[4]".
std::string expected(const TensorSpec &spec) {
  TensorSpec anonymous = spec;
  anonymous.name = "x";
  return anonymous.toString().substr(3);
}

/// True if the finite number would become an infinity.
bool overflows(double number, ElementType type) {
  if (std::isinf(number) || type == ElementType::Float64)
    return false;
  if (type == ElementType::Float16)
    return std::abs(number) >= 65520; // halfway between the largest float16 and the next
  return std::isinf(static_cast<float>(number));
}

/// Stores a value in one tensor of a Target. `side` begins messages: "input" or "output".
class Storing {
public:
  Storing(const TensorSpec &spec, const char *side, Target &target, size_t index)
      : spec_(spec), side_(side), target_(target), index_(index), isDynamic_(spec.isDynamic()) {}

  Status store(PyObject *value);

private:
  std::string where() const { return std::string(side_) + " '" + spec_.name + "'"; }
  Status refuse(const std::string &came) const {
    return {Code::InvalidArgument, where() + ": expected " + expected(spec_) + ", got " + came};
  }
  Status wrongShape(PyArrayObject *array) const {
    std::string shape = expected(spec_).substr(std::string(name(spec_.type)).size());
    return {Code::InvalidArgument, where() + ": expected shape " + (shape.empty() ? "[]" : shape) +
                                       ", got shape " + shapeOf(array)};
  }
  Status outOfRange(const std::string &value) const {
    return {Code::InvalidArgument,
            where() + ": " + value + " is out of range for " + name(spec_.type)};
  }
  Expected<TensorView> tensorFor(PyArrayObject *array);
  Status strings(PyObject *value);
  Status numbers(PyObject *value);
  Status narrow(PyArrayObject *from, const TensorView &view) const;
  Status toFloats(PyArrayObject *from, const TensorView &view) const;

  const TensorSpec &spec_;
  const char *side_;
  Target &target_;
  const size_t index_;
  const bool isDynamic_;
};

template <typename T, typename From> bool fits(From value) {
  const bool isNegative = value < From();
  return isNegative
             ? std::is_signed_v<T> && static_cast<int64_t>(value) >=
                                          static_cast<int64_t>(std::numeric_limits<T>::min())
             : static_cast<uint64_t>(value) <= static_cast<uint64_t>(std::numeric_limits<T>::max());
}

/// Calls f with a T* for the integer type.
template <typename F> auto withInteger(ElementType type, void *data, F &&f) {
  return withNumber(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Integer =
        std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, T, int64_t>;
    return f(static_cast<Integer *>(data));
  });
}

enum class Fast { Stored, OutOfRange, No };

/// The answers that most policies give, a Python number or a NumPy scalar of the exact type, into a
/// tensor of one element.
Fast storeScalar(PyObject *value, ElementType type, void *data) {
  PyTypeObject *kind = Py_TYPE(value);
  if (kind == scalarTypes[static_cast<int>(type)]) { // whose value follows what all objects have
    static_assert(offsetof(PyInt64ScalarObject, obval) == sizeof(PyObject) &&
                  offsetof(PyFloat64ScalarObject, obval) == sizeof(PyObject) &&
                  offsetof(PyBoolScalarObject, obval) == sizeof(PyObject));
    std::memcpy(data, reinterpret_cast<const char *>(value) + sizeof(PyObject), sizeOf(type));
    return Fast::Stored;
  }
  if (kind == &PyLong_Type && isInteger(type)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0)
      return withInteger(type, data, [&](auto *to) {
        using T = std::remove_pointer_t<decltype(to)>;
        if (!fits<T>(number))
          return Fast::OutOfRange;
        *to = static_cast<T>(number);
        return Fast::Stored;
      });
    if (overflow > 0 && type == ElementType::UInt64) {
      const unsigned long long large = PyLong_AsUnsignedLongLong(value);
      if (!PyErr_Occurred()) {
        *static_cast<uint64_t *>(data) = large;
        return Fast::Stored;
      }
      PyErr_Clear();
    }
    return Fast::OutOfRange;
  }
  if (kind == &PyFloat_Type && isFloat(type)) {
    const double number = PyFloat_AsDouble(value);
    if (type == ElementType::Float64) {
      *static_cast<double *>(data) = number;
      return Fast::Stored;
    }
    const float narrow = static_cast<float>(number);
    if (std::isinf(narrow) && !std::isinf(number))
      return Fast::OutOfRange;
    if (type == ElementType::Float32) {
      *static_cast<float *>(data) = narrow;
      return Fast::Stored;
    }
    return Fast::No; // float16: NumPy rounds once, not twice
  }
  if (kind == &PyBool_Type && type == ElementType::Bool) {
    *static_cast<bool *>(data) = value == Py_True;
    return Fast::Stored;
  }
  return Fast::No;
}

bool sameShape(PyArrayObject *array, Span<const int64_t> shape) {
  if (static_cast<size_t>(PyArray_NDIM(array)) != shape.size())
    return false;
  for (size_t i = 0; i < shape.size(); ++i)
    if (PyArray_DIM(array, static_cast<int>(i)) != shape[i])
      return false;
  return true;
}

/// The tensor that the array goes into, once its shape is known to fit.
Expected<TensorView> Storing::tensorFor(PyArrayObject *array) {
  if (isDynamic_) {
    const Shape shape(PyArray_DIMS(array), PyArray_DIMS(array) + PyArray_NDIM(array));
    if (!checkShape(spec_, shape))
      return wrongShape(array);
    Expected<TensorView> view = target_.resize(index_, shape);
    if (!view)
      return view.status().withContext(where());
    return view;
  }
  TensorView view = target_.view(index_);
  if (sameShape(array, spec_.shape) || (view.count == 1 && PyArray_SIZE(array) == 1))
    return view;
  return wrongShape(array);
}

Status Storing::strings(PyObject *value) {
  nb::object array = own(
      PyArray_FromAny(value, PyArray_DescrFromType(NPY_OBJECT), 0, 0, NPY_ARRAY_CARRAY, nullptr));
  Expected<TensorView> view = tensorFor(arrayOf(array));
  if (!view)
    return view.status();
  auto *to = static_cast<std::string *>(view->data);
  auto *from = static_cast<PyObject **>(PyArray_DATA(arrayOf(array)));
  for (size_t i = 0; i < view->count; ++i)
    if (!from[i] || !fromPython(from[i], to[i])) {
      PyErr_Clear();
      return refuse("an element of type " + (from[i] ? typeName(from[i]) : "None"));
    }
  return Status();
}

/// Copies integers of another width, each of which must fit.
Status Storing::narrow(PyArrayObject *from, const TensorView &view) const {
  const bool isLarge = PyArray_TYPE(from) == NPY_ULONGLONG || PyArray_TYPE(from) == NPY_ULONG;
  nb::object wide = own(PyArray_FromArray(
      from, PyArray_DescrFromType(isLarge ? NPY_UINT64 : NPY_INT64), NPY_ARRAY_CARRAY_RO));
  const void *data = PyArray_DATA(arrayOf(wide));
  return withInteger(spec_.type, view.data, [&](auto *to) -> Status {
    using T = std::remove_pointer_t<decltype(to)>;
    const auto copy = [&](const auto *numbers) -> Status {
      for (size_t i = 0; i < view.count; ++i) {
        if (!fits<T>(numbers[i]))
          return outOfRange(std::to_string(numbers[i]));
        to[i] = static_cast<T>(numbers[i]);
      }
      return Status();
    };
    return isLarge ? copy(static_cast<const uint64_t *>(data))
                   : copy(static_cast<const int64_t *>(data));
  });
}

/// Copies numbers into a floating-point tensor, which must not overflow.
Status Storing::toFloats(PyArrayObject *from, const TensorView &view) const {
  constexpr int flags = NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST;
  nb::object wide = own(PyArray_FromArray(from, PyArray_DescrFromType(NPY_FLOAT64), flags));
  const double *numbers = static_cast<const double *>(PyArray_DATA(arrayOf(wide)));
  for (size_t i = 0; i < view.count; ++i)
    if (overflows(numbers[i], spec_.type))
      return outOfRange(std::to_string(numbers[i]));
  nb::object cast =
      own(PyArray_FromArray(from, PyArray_DescrFromType(typeNumber(spec_.type)), flags));
  std::memcpy(view.data, PyArray_DATA(arrayOf(cast)), view.bytes());
  return Status();
}

Status Storing::numbers(PyObject *value) {
  nb::object array = own(PyArray_FROM_O(value));
  PyArrayObject *from = arrayOf(array);
  const ElementType type = spec_.type;
  const char kind = PyArray_DESCR(from)->kind;
  const bool hasIntegers = kind == 'i' || kind == 'u';
  const bool isEmptyList = PyList_Check(value) && PyArray_SIZE(from) == 0; // has no type
  const bool isCompatible = type == ElementType::Bool ? kind == 'b'
                            : isInteger(type)         ? hasIntegers || kind == 'b' || isEmptyList
                                                      : hasIntegers || kind == 'f' || kind == 'b';
  if (!isCompatible)
    return kind == 'O' && PyLong_Check(value) ? outOfRange(shown(value)) : refuse(describe(from));
  Expected<TensorView> view = tensorFor(from);
  if (!view)
    return view.status();
  if (view->count == 0)
    return Status();
  if (PyArray_TYPE(from) == typeNumber(type)) {
    nb::object plain =
        own(PyArray_FromArray(from, PyArray_DescrFromType(typeNumber(type)), NPY_ARRAY_CARRAY_RO));
    std::memcpy(view->data, PyArray_DATA(arrayOf(plain)), view->bytes());
    return Status();
  }
  return isInteger(type) ? narrow(from, *view) : toFloats(from, *view);
}

Status Storing::store(PyObject *value) {
  const bool hasStrings = spec_.type == ElementType::String;
  if (!hasStrings && !isDynamic_) {
    const TensorView view = target_.view(index_);
    if (view.count == 1) {
      switch (storeScalar(value, spec_.type, view.data)) {
      case Fast::Stored:
        return Status();
      case Fast::OutOfRange:
        return outOfRange(shown(value));
      case Fast::No:
        break;
      }
    }
    if (PyArray_CheckExact(value)) {
      auto *array = reinterpret_cast<PyArrayObject *>(value);
      if (PyArray_TYPE(array) == typeNumber(spec_.type) && PyArray_IS_C_CONTIGUOUS(array) &&
          PyArray_ISNBO(PyArray_DESCR(array)->byteorder) && sameShape(array, view.shape)) {
        if (view.count)
          std::memcpy(view.data, PyArray_DATA(array), view.bytes());
        return Status();
      }
    }
  }
  if (value == Py_None)
    return refuse("None");
  try {
    return hasStrings ? strings(value) : numbers(value);
  } catch (nb::python_error &error) {
    return refuse(typeName(value) + " (" + shown(error.value()) + ")");
  }
}

nb::object newArray(Span<const int64_t> shape, ElementType type) {
  return own(PyArray_SimpleNew(static_cast<int>(shape.size()),
                               reinterpret_cast<const npy_intp *>(shape.data()), typeNumber(type)));
}

Array newStrings(const TensorView &tensor) {
  nb::object array = newArray(tensor.shape, tensor.type);
  auto *to = static_cast<PyObject **>(PyArray_DATA(arrayOf(array)));
  auto *from = static_cast<const std::string *>(tensor.data);
  for (size_t i = 0; i < tensor.count; ++i) {
    PyObject *const before = to[i];
    to[i] = nb::cast(from[i]).release().ptr();
    Py_XDECREF(before);
  }
  return nb::borrow<Array>(array);
}

} // namespace

void importNumpy() {
  if (_import_array() < 0)
    throw nb::python_error();
  for (size_t i = 1; i + 1 < std::size(typeNumbers); ++i)
    scalarTypes[i] = reinterpret_cast<PyTypeObject *>(PyArray_TypeObjectFromType(typeNumbers[i]));
}

Array newView(const TensorView &tensor, PyObject *base, bool writable) {
  if (tensor.type == ElementType::String)
    return newStrings(tensor);
  static_assert(sizeof(npy_intp) == sizeof(int64_t));
  nb::object array = own(PyArray_New(
      &PyArray_Type, static_cast<int>(tensor.shape.size()),
      reinterpret_cast<const npy_intp *>(tensor.shape.data()), typeNumber(tensor.type), nullptr,
      tensor.count ? tensor.data : nullptr, 0,
      NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | (writable ? NPY_ARRAY_WRITEABLE : 0), nullptr));
  if (tensor.count) {
    Py_INCREF(base);
    if (PyArray_SetBaseObject(arrayOf(array), base) < 0)
      throw nb::python_error();
  } else if (!writable) {
    PyArray_CLEARFLAGS(arrayOf(array), NPY_ARRAY_WRITEABLE);
  }
  return nb::borrow<Array>(array);
}

bool isViewOf(PyObject *object, const TensorView &tensor) {
  auto *array = reinterpret_cast<PyArrayObject *>(object);
  return PyArray_TYPE(array) == typeNumber(tensor.type) && PyArray_IS_C_CONTIGUOUS(array) &&
         sameShape(array, tensor.shape);
}

Array newCopy(const TensorView &tensor) {
  if (tensor.type == ElementType::String)
    return newStrings(tensor);
  nb::object array = newArray(tensor.shape, tensor.type);
  if (tensor.count)
    std::memcpy(PyArray_DATA(arrayOf(array)), tensor.data, tensor.bytes());
  return nb::borrow<Array>(array);
}

nb::object newRows(const std::vector<TensorView> &rows, nb::handle pad) {
  Shape shape(rows[0].shape.begin(), rows[0].shape.end());
  bool isSame = true;
  for (const TensorView &row : rows)
    for (size_t i = 0; i < shape.size(); ++i) {
      isSame = isSame && row.shape[i] == rows[0].shape[i];
      shape[i] = std::max(shape[i], row.shape[i]);
    }
  const ElementType type = rows[0].type;
  shape.insert(shape.begin(), static_cast<int64_t>(rows.size()));
  nb::object all = newArray(shape, type);
  if (isSame && type != ElementType::String) {
    auto *to = static_cast<uint8_t *>(PyArray_DATA(arrayOf(all)));
    for (const TensorView &row : rows) {
      if (row.count)
        std::memcpy(to, row.data, row.bytes());
      to += row.bytes();
    }
    return all;
  }
  if (!isSame && PyArray_FillWithScalar(arrayOf(all), pad.ptr()) < 0)
    throw nb::python_error();
  for (size_t k = 0; k < rows.size(); ++k) {
    nb::list place;
    place.append(k);
    for (const int64_t length : rows[k].shape)
      place.append(nb::slice(nb::int_(0), nb::int_(length), nb::none()));
    all[nb::tuple(place)] = newCopy(rows[k]);
  }
  return all;
}

bool storeOneNumber(PyObject *value, const TensorSpec &spec, Target &target) {
  if (spec.isDynamic() || spec.type == ElementType::String)
    return false;
  const TensorView view = target.view(0);
  return view.count == 1 && storeScalar(value, spec.type, view.data) == Fast::Stored;
}

Status store(PyObject *value, const TensorSpec &spec, const char *side, Target &target,
             size_t index) {
  return Storing(spec, side, target, index).store(value);
}

bool isTensorLike(PyObject *value) {
  return PyLong_Check(value) || PyFloat_Check(value) || PyUnicode_Check(value) ||
         PyArray_Check(value) || PyArray_CheckScalar(value);
}

ElementType elementType(nb::handle dtype) {
  if (dtype.ptr() == reinterpret_cast<PyObject *>(&PyUnicode_Type))
    return ElementType::String;
  if (PyUnicode_Check(dtype.ptr())) {
    Expected<ElementType> type = elementTypeNamed(shown(dtype));
    if (type)
      return *type;
  }
  PyArray_Descr *descr = nullptr;
  if (!PyArray_DescrConverter(dtype.ptr(), &descr) || !descr)
    throw nb::python_error();
  nb::object owner = nb::steal<nb::object>(reinterpret_cast<PyObject *>(descr));
  const int number = descr->type_num;
  if (number == NPY_OBJECT || number == NPY_UNICODE || descr->kind == 'T')
    return ElementType::String;
  for (size_t i = 1; i + 1 < std::size(typeNumbers); ++i)
    if (PyArray_EquivTypenums(number, typeNumbers[i]))
      return static_cast<ElementType>(i);
  raise({Code::InvalidArgument, "no element type for the dtype " + shown(owner)});
}

nb::object dtypeOf(ElementType type) {
  return own(reinterpret_cast<PyObject *>(PyArray_DescrFromType(typeNumber(type))));
}

TensorSpec specOf(std::string name, nb::handle value) {
  nb::object array = own(PyArray_FROM_O(value.ptr()));
  TensorSpec spec;
  spec.name = std::move(name);
  spec.type = elementType(
      nb::borrow<nb::object>(reinterpret_cast<PyObject *>(PyArray_DESCR(arrayOf(array)))));
  spec.shape.assign(PyArray_DIMS(arrayOf(array)),
                    PyArray_DIMS(arrayOf(array)) + PyArray_NDIM(arrayOf(array)));
  return spec;
}

} // namespace mlbridge::python
