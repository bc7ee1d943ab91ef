// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gRPC's C++ server alone, for the floor's Python server: one function, serve(address, input,
// output, answer). Each message is copied into the buffer `input`, answer(size) is called, and what
// it gave is the number of bytes of the buffer `output` that are sent back. The thread that waits
// for a message is the one that calls Python. CPython's C interface, no binding library.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "grpc_arguments.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/method_handler.h>
#include <grpcpp/support/sync_stream.h>

#include <cstring>

namespace {

struct Buffers {
  Py_buffer input, output;
  PyObject *answer;
};

class Floor final : public grpc::Service {
public:
  using Stream = grpc::ServerReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

  explicit Floor(Buffers &buffers) : buffers_(buffers) {
    AddMethod(new grpc::internal::RpcServiceMethod(
        FloorMethod, grpc::internal::RpcMethod::BIDI_STREAMING,
        new grpc::internal::BidiStreamingHandler<Floor, grpc::ByteBuffer, grpc::ByteBuffer>(
            [](Floor *floor, grpc::ServerContext *, Stream *stream) { return floor->ask(*stream); },
            this)));
  }

private:
  grpc::Status ask(Stream &stream) {
    const PyGILState_STATE state = PyGILState_Ensure();
    PyThreadState *released = PyEval_SaveThread();
    grpc::ByteBuffer message;
    while (stream.Read(&message)) {
      std::vector<grpc::Slice> slices;
      message.Dump(&slices);
      char *to = static_cast<char *>(buffers_.input.buf);
      size_t size = 0;
      for (const grpc::Slice &slice : slices) {
        std::memcpy(to + size, slice.begin(), slice.size());
        size += slice.size();
      }
      PyEval_RestoreThread(released);
      PyObject *count = PyObject_CallFunction(buffers_.answer, "n", Py_ssize_t(size));
      const Py_ssize_t answered = count ? PyLong_AsSsize_t(count) : -1;
      Py_XDECREF(count);
      if (answered < 0)
        PyErr_Print();
      released = PyEval_SaveThread();
      if (answered < 0)
        break;
      const grpc::Slice slice(buffers_.output.buf, size_t(answered));
      if (!stream.Write(grpc::ByteBuffer(&slice, 1)))
        break;
    }
    PyEval_RestoreThread(released);
    PyGILState_Release(state);
    return grpc::Status::OK;
  }

  Buffers &buffers_;
};

PyObject *serve(PyObject *, PyObject *arguments) {
  const char *address;
  PyObject *input, *output;
  Buffers buffers;
  if (!PyArg_ParseTuple(arguments, "sOOO", &address, &input, &output, &buffers.answer) ||
      PyObject_GetBuffer(input, &buffers.input, PyBUF_WRITABLE) != 0 ||
      PyObject_GetBuffer(output, &buffers.output, PyBUF_SIMPLE) != 0)
    return nullptr;
  Floor floor(buffers);
  grpc::ServerBuilder builder;
  for (const auto &[name, value] : FloorArguments)
    builder.AddChannelArgument(name, value);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&floor);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server)
    return PyErr_Format(PyExc_OSError, "cannot listen at %s", address);
  std::puts("listening");
  std::fflush(stdout);
  Py_BEGIN_ALLOW_THREADS;
  server->Wait(); // until the process is terminated
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {{"serve", serve, METH_VARARGS, "serve(address, input, output, answer)"},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "floor_grpc", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

} // namespace

extern "C" __attribute__((visibility("default"))) PyObject *PyInit_floor_grpc() {
  return PyModule_Create(&definition);
}
