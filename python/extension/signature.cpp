// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TensorSpec and Signature.
#include "arrays.h"

namespace mlbridge::python {
namespace {

int64_t lengthOf(nb::handle length, const std::string &tensor, const char *what, size_t index) {
  const std::string where = "tensor '" + tensor + "': " + what + " " + std::to_string(index);
  if (!PyIndex_Check(length.ptr()))
    throw nb::type_error(
        (where + " is " + shown(nb::repr(length)) + ", expected an integer or None").c_str());
  nb::object number = nb::steal<nb::object>(PyNumber_Index(length.ptr()));
  if (!number)
    throw nb::python_error();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow)
    raise({Code::InvalidArgument, where + " is " + (overflow < 0 ? "under -1" : "over 2**63 - 1")});
  return value;
}

/// None or -1 is a dimension that changes from call to call.
Shape shapeOf(nb::handle dimensions, int64_t none, const std::string &tensor, const char *what) {
  Shape shape;
  if (dimensions.is_none())
    return shape;
  if (nb::isinstance<nb::int_>(dimensions)) {
    shape.push_back(lengthOf(dimensions, tensor, what, 0));
    return shape;
  }
  for (nb::handle dimension : dimensions)
    shape.push_back(dimension.is_none() ? none : lengthOf(dimension, tensor, what, shape.size()));
  return shape;
}

nb::tuple tupleOf(const Shape &shape) {
  nb::list list;
  for (int64_t length : shape)
    list.append(length);
  return nb::tuple(list);
}

} // namespace

void bindSignature(nb::module_ &m) {
  nb::class_<TensorSpec>(m, "TensorSpec",
                         "One named input or output: name, element type, shape.\n\n"
                         "A dimension of -1 (or None) changes from call to call; `maximum` may "
                         "state the largest length of each.")
      .def(
          "__init__",
          [](TensorSpec *self, const std::string &name, const nb::object &dtype,
             const nb::object &shape, const nb::object &maximum) {
            TensorSpec spec{name, elementType(dtype), shapeOf(shape, Dynamic, name, "dimension"),
                            shapeOf(maximum, 0, name, "maximum")};
            check(spec.check());
            new (self) TensorSpec(std::move(spec));
          },
          nb::arg("name"), nb::arg("dtype") = "float32", nb::arg("shape") = nb::tuple(),
          nb::arg("maximum").none() = nb::none())
      .def_prop_ro(
          "name", [](const TensorSpec &s) { return s.name; },
          "Unique among the inputs, or the outputs.")
      .def_prop_ro(
          "type", [](const TensorSpec &s) { return name(s.type); },
          "The name of the element type: \"float32\", \"string\", …")
      .def_prop_ro(
          "dtype", [](const TensorSpec &s) { return dtypeOf(s.type); },
          "The NumPy dtype; object for strings")
      .def_prop_ro(
          "shape", [](const TensorSpec &s) { return tupleOf(s.shape); },
          "The lengths; -1 for one that changes from call to call.")
      .def_prop_ro(
          "maximum",
          [](const TensorSpec &s) -> nb::object {
            return s.maximum.empty() ? nb::none() : nb::object(tupleOf(s.maximum));
          },
          "The largest length of each dimension, None where none is declared; None if there is "
          "none at all.")
      .def("__str__", [](const TensorSpec &s) { return s.toString(); })
      .def("__repr__", [](const TensorSpec &s) { return "<TensorSpec " + s.toString() + ">"; })
      .def(
          "__eq__",
          [](const TensorSpec &a, nb::handle b) {
            return nb::isinstance<TensorSpec>(b) && a == nb::cast<const TensorSpec &>(b);
          },
          nb::arg("other").none())
      .def("__hash__", [](const TensorSpec &s) { return nb::hash(nb::cast(s.toString())); });

  nb::class_<Signature>(m, "Signature",
                        "The ordered inputs and outputs of a model, to which both sides are held.")
      .def(
          "__init__",
          [](Signature *self, std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs) {
            Signature signature{std::move(inputs), std::move(outputs)};
            check(signature.check());
            new (self) Signature(std::move(signature));
          },
          nb::arg("inputs"), nb::arg("outputs"))
      .def_prop_ro(
          "inputs", [](const Signature &s) { return nb::tuple(nb::cast(s.inputs)); },
          "What the model is given.")
      .def_prop_ro(
          "outputs", [](const Signature &s) { return nb::tuple(nb::cast(s.outputs)); },
          "What it answers.")
      .def("__str__", [](const Signature &s) { return s.toString(); })
      .def("__repr__", [](const Signature &s) { return "<Signature " + s.toString() + ">"; })
      .def(
          "__eq__",
          [](const Signature &a, nb::handle b) {
            return nb::isinstance<Signature>(b) && a == nb::cast<const Signature &>(b);
          },
          nb::arg("other").none())
      .def("__hash__", [](const Signature &s) { return nb::hash(nb::cast(s.toString())); });
}

} // namespace mlbridge::python
