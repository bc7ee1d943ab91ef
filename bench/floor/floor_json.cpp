// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parser alone, for the floor's Python server: one function, parse(message, size, to), which
// reads {"x":[…]} with simdjson into a float32 buffer and returns the count. CPython's C interface,
// no binding library.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <simdjson.h>

namespace {

simdjson::ondemand::parser parser;

PyObject *parse(PyObject *, PyObject *const *arguments, Py_ssize_t count) {
  Py_buffer message, to;
  if (count != 3 || PyObject_GetBuffer(arguments[0], &message, PyBUF_SIMPLE) != 0)
    return nullptr;
  if (PyObject_GetBuffer(arguments[2], &to, PyBUF_WRITABLE) != 0) {
    PyBuffer_Release(&message);
    return nullptr;
  }
  const size_t size = static_cast<size_t>(PyLong_AsSsize_t(arguments[1]));
  float *at = static_cast<float *>(to.buf);
  auto document = parser.iterate(static_cast<const char *>(message.buf), size,
                                 static_cast<size_t>(message.len));
  for (auto value : document["x"].get_array())
    *at++ = static_cast<float>(double(value.get_double()));
  const Py_ssize_t found = at - static_cast<float *>(to.buf);
  PyBuffer_Release(&message);
  PyBuffer_Release(&to);
  return PyLong_FromSsize_t(found);
}

PyMethodDef methods[] = {{"parse",
                          reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(parse)),
                          METH_FASTCALL, "parse(message, size, to) -> count"},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "floor_json", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

} // namespace

extern "C" __attribute__((visibility("default"))) PyObject *PyInit_floor_json() {
  return PyModule_Create(&definition);
}
