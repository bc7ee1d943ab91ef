// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors as NumPy arrays and Python values as tensors. The only part that knows NumPy's C API.
// Everything here requires the GIL.
#ifndef MLBRIDGE_PYTHON_ARRAYS_H
#define MLBRIDGE_PYTHON_ARRAYS_H

#include "common.h"

#include <mlbridge/tensor.h>

namespace mlbridge::python {

/// Throws if NumPy cannot be imported.
void importNumpy();

/// numpy.ndarray.
class Array : public nb::object {
  NB_OBJECT_DEFAULT(Array, nb::object, "numpy.typing.NDArray[typing.Any]", isAny)
};
/// Arrays by the names of tensors.
using Arrays = nb::typed<nb::dict, nb::str, Array>;
/// An argument of numpy.dtype.
class DType : public nb::object {
  NB_OBJECT_DEFAULT(DType, nb::object, "numpy.typing.DTypeLike", isAny)
};

/// An array over the tensor's own memory, which `base` keeps alive (a reference is taken). Strings,
/// which have no memory that NumPy could see, are copied.
Array newView(const TensorView &tensor, PyObject *base, bool writable);
/// True if the array still has the tensor's type and shape: both can be set in place.
bool isViewOf(PyObject *array, const TensorView &tensor);
/// An array of its own: numbers, or objects of type str.
Array newCopy(const TensorView &tensor);
/// An array with a row for each of the tensors, which are of one type, and of one shape or shorter:
/// the rest is filled with `pad` then, a number.
nb::object newRows(const std::vector<TensorView> &rows, nb::handle pad);

/// An array for each of the tensors, by its name; `make` gets its index.
template <typename F> Arrays arraysOf(const std::vector<TensorSpec> &specs, F &&make) {
  Arrays arrays;
  for (size_t i = 0; i < specs.size(); ++i)
    arrays[nb::cast(specs[i].name)] = make(i);
  return arrays;
}

/// Tensors to store values in: of fixed shape, or that take the shape of the value.
class Target {
public:
  virtual TensorView view(size_t index) = 0;
  virtual Expected<TensorView> resize(size_t index, Span<const int64_t> shape) = 0;

protected:
  ~Target() = default;
};

/// The tensors of a Runner, an Event, ….
template <typename T, TensorView (T::*View)(size_t),
          Expected<TensorView> (T::*Resize)(size_t, Span<const int64_t>)>
class TensorsOf final : public Target {
public:
  explicit TensorsOf(T &owner) : owner_(owner) {}
  TensorView view(size_t index) override { return (owner_.*View)(index); }
  Expected<TensorView> resize(size_t index, Span<const int64_t> shape) override {
    return (owner_.*Resize)(index, shape);
  }

private:
  T &owner_;
};

/// Converts a Python scalar, str, NumPy scalar or array, or anything that numpy.asarray takes.
/// Integers may change their width if every value fits; nothing is rounded to an integer; a single
/// element may be given for a tensor of one element whatever its rank. InvalidArgument otherwise,
/// with a message that starts with `side` and the tensor's name ("output 'action': …").
Status store(PyObject *value, const TensorSpec &spec, const char *side, Target &target,
             size_t index);

/// Stores a number of just the tensor's type in the only tensor, which has one element. False if it
/// is something else, which says nothing of whether it fits.
bool storeOneNumber(PyObject *value, const TensorSpec &spec, Target &target);

/// A number, a str, or something of NumPy's: no mapping, whatever attributes it has.
bool isTensorLike(PyObject *value);

/// The element type of a NumPy dtype, a Python type or a name; throws for others.
ElementType elementType(nb::handle dtype);
/// numpy.dtype("float32"); dtype('O') for strings.
nb::object dtypeOf(ElementType type);
/// The type and shape of what numpy.asarray(value) gives; throws for values that are no tensor.
TensorSpec specOf(std::string name, nb::handle value);

} // namespace mlbridge::python

#endif
