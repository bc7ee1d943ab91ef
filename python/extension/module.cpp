// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// mlbridge._core: the C++ library for Python, TensorSpec and Signature, and what the command line
// asks of it besides.
#include "arrays.h"
#include "core/component.h"
#include "engine/file.h"
#include "engine/native/network.h"
#include "engine/onnx_format.h"
#include "engine/onnx_guards.h"
#ifdef MLBRIDGE_HAS_NATIVE
#include "engine/native/compile/generate.h"
#endif

namespace mlbridge::python {
namespace {

using Tuple = nb::typed<nb::tuple, int, nb::ellipsis>;

Tuple tupleOf(const Shape &shape) { return nb::steal<Tuple>(nb::tuple(nb::cast(shape)).release()); }

using Specs = nb::typed<nb::tuple, TensorSpec, nb::ellipsis>;

/// The specs in any sequence; `side` is "inputs" or "outputs".
std::vector<TensorSpec> specsOf(nb::handle values, const char *side) {
  constexpr const char *Expected = "a sequence of TensorSpec";
  const std::string what = std::string("the ") + side;
  if (!nb::hasattr(values, "__iter__"))
    refuseType(what, Expected, values);
  std::vector<TensorSpec> specs;
  for (nb::handle value : values) {
    if (!nb::isinstance<TensorSpec>(value))
      refuseType(what, Expected, value);
    specs.push_back(nb::cast<const TensorSpec &>(value));
  }
  return specs;
}

/// Makes a type be compared by value, and printed.
template <typename T> void defineValue(nb::class_<T> &type, const char *name) {
  type.def("__str__", [](const T &self) { return self.toString(); })
      .def("__repr__", [prefix = "<" + std::string(name) +
                                 " "](const T &self) { return prefix + self.toString() + ">"; })
      .def("__hash__", [](const T &self) { return nb::hash(nb::cast(self.toString())); })
      .def(
          "__eq__",
          [](const T &self, nb::handle other) {
            return nb::isinstance<T>(other) && self == nb::cast<const T &>(other);
          },
          nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"));
}

ComponentKind kindNamed(std::string_view wanted) {
  for (ComponentKind kind :
       {ComponentKind::Engine, ComponentKind::SerDes, ComponentKind::Transport})
    if (wanted == name(kind))
      return kind;
  throw nb::value_error("a component is an engine, a serdes or a transport");
}

/// Facts of a file that ONNX Runtime has to be told, or doesn't say.
nb::typed<nb::dict, nb::str, nb::any> onnxFacts(const std::string &path) {
  constexpr uint64_t Limit = uint64_t(1) << 31;
  const Expected<Buffer> bytes = engine::readFile(path, Limit);
  check(bytes.status());
  const Span<const uint8_t> file = bytes->span();
  const engine::OnnxFacts facts = engine::factsOf(file);
  const std::optional<std::string> guarded =
      facts.hasHazard ? engine::guardedModel(file) : std::nullopt;
  nb::typed<nb::dict, nb::str, nb::any> dict;
  dict["instead"] = engine::whatInstead(file);
  dict["prepack"] = engine::paysToPrepack(file);
  dict["defaults"] = engine::defaultsText(facts.defaults);
  dict["shapeless_inputs"] = facts.shapelessInputs;
  dict["shapeless_outputs"] = facts.shapelessOutputs;
  dict["never_empty"] = facts.isNeverEmpty;
  dict["guarded"] = nb::none();
  if (guarded)
    dict["guarded"] = nb::bytes(guarded->data(), guarded->size());
  return dict;
}

/// The native engine's view of a model: fields of mlbridge.inspection.Report and Support.
nb::typed<nb::dict, nb::str, nb::any> inspectNative(const std::string &path) {
  Expected<native::Inspection> inspection = native::inspect(path);
  check(inspection.status());
  nb::typed<nb::dict, nb::str, nb::any> all;
  std::map<std::string, uint64_t> operators;
  std::vector<std::string> missing;
  for (const native::Inspection::Use &use : inspection->operators) {
    operators[use.op] = use.nodes;
    if (!use.isSupported)
      missing.push_back(use.op);
  }
  all["signature"] = inspection->signature;
  all["metadata"] = inspection->metadata;
  all["opsets"] = inspection->opsets;
  all["operators"] = operators;
  all["parameters"] = inspection->parameters;
  all["parameter_bytes"] = inspection->parameterBytes;
  all["external_files"] = inspection->externalFiles;
  all["runs"] = inspection->native.ok();
  all["why"] = inspection->native.message();
  all["missing"] = missing;
  all["multiply_adds"] = inspection->multiplyAdds;
  all["workspace_bytes"] = inspection->workspace;
  return all;
}

#ifdef MLBRIDGE_HAS_NATIVE
using Files = nb::typed<nb::tuple, nb::bytes, nb::bytes, nb::bytes, nb::typed<nb::list, nb::str>>;

/// The source that `mlbridge aot` has compiled.
Files generate(const std::string &path, const std::string &name,
               const std::map<std::string, int64_t> &dimensions,
               const std::map<std::string, std::vector<int64_t>> &shapes, bool externalWeights,
               uint64_t memory) {
  aot::GenerateOptions options = {name, dimensions, shapes, externalWeights};
  if (memory)
    options.memory = memory;
  Expected<aot::Generated> generated = withoutGil([&] { return aot::generate(path, options); });
  check(generated.status());
  const auto bytes = [](const auto &text) { return nb::bytes(text.data(), text.size()); };
  return Files(nb::make_tuple(bytes(generated->source), bytes(generated->header),
                              bytes(generated->weights), generated->files));
}
#endif

} // namespace

nb::typed<nb::dict, nb::str, Signature> signaturesOf(Span<const AgentSpec> agents) {
  nb::typed<nb::dict, nb::str, Signature> signatures;
  for (const AgentSpec &agent : agents)
    signatures[nb::cast(agent.name)] = nb::cast(agent.signature);
  return signatures;
}

static void bindSignature(nb::module_ &m) {
  nb::class_<TensorSpec> spec(
      m, "TensorSpec",
      "One named input or output: name, element type, shape.\n\n"
      "A dimension of -1 (or None) changes from call to call; `maximum` may "
      "state the largest length of each.");
  spec.def(
          "__init__",
          [](TensorSpec *self, const std::string &name, const DType &dtype, const Lengths &shape,
             const std::optional<Lengths> &maximum) {
            const std::string where = "tensor '" + name + "': ";
            TensorSpec spec{
                name, elementType(dtype), shapeOf(shape, Dynamic, where + "dimension"), {}};
            if (maximum)
              spec.maximum = shapeOf(*maximum, 0, where + "maximum");
            check(spec.check());
            new (self) TensorSpec(std::move(spec));
          },
          nb::arg("name"), nb::arg("dtype") = "float32", nb::arg("shape") = nb::tuple(),
          nb::arg("maximum").none() = nb::none())
      .def_ro("name", &TensorSpec::name, "Unique among the inputs, or the outputs.")
      .def_prop_ro(
          "type", [](const TensorSpec &s) { return name(s.type); },
          "The name of the element type: \"float32\", \"string\", …")
      .def_prop_ro(
          "dtype", [](const TensorSpec &s) { return dtypeOf(s.type); },
          nb::sig("def dtype(self) -> numpy.dtype[typing.Any]"),
          "The NumPy dtype; object for strings")
      .def_prop_ro(
          "shape", [](const TensorSpec &s) { return tupleOf(s.shape); },
          "The lengths; -1 for one that changes from call to call.")
      .def_prop_ro(
          "maximum",
          [](const TensorSpec &s) {
            return s.maximum.empty() ? std::optional<Tuple>() : tupleOf(s.maximum);
          },
          "The largest length of each dimension, None where none is declared; None if there is "
          "none at all.");
  defineValue(spec, "TensorSpec");

  nb::class_<Signature> signature(
      m, "Signature", "The ordered inputs and outputs of a model, to which both sides are held.");
  signature
      .def(
          "__init__",
          [](Signature *self, const nb::object &inputs, const nb::object &outputs) {
            Signature signature{specsOf(inputs, "inputs"), specsOf(outputs, "outputs")};
            check(signature.check());
            new (self) Signature(std::move(signature));
          },
          nb::arg("inputs"), nb::arg("outputs"),
          nb::sig("def __init__(self, inputs: collections.abc.Sequence[TensorSpec], "
                  "outputs: collections.abc.Sequence[TensorSpec]) -> None"))
      .def_prop_ro(
          "inputs", [](const Signature &s) { return Specs(nb::tuple(nb::cast(s.inputs))); },
          "What the model is given.")
      .def_prop_ro(
          "outputs", [](const Signature &s) { return Specs(nb::tuple(nb::cast(s.outputs))); },
          "What it answers.");
  defineValue(signature, "Signature");
}

NB_MODULE(_core, m) {
  // A library never prints. What is alive at the end of the process may be a running server's.
  nb::set_leak_warnings(false);
  importNumpy();
  m.attr("version") = MLBRIDGE_VERSION;
  bindErrors(m);
  bindSignature(m);
  bindModel(m);
  bindServer(m);
  bindDriver(m);
  m.def("_component_names", [](std::string_view kind) { return componentNames(kindNamed(kind)); });
  m.def("_open_component", [](std::string_view kind, const std::string &name) {
    check(findComponent(kindNamed(kind), name).status());
  });
  m.def("_inspect_native", &inspectNative);
  m.def("_onnx_facts", &onnxFacts);
  m.def("_guard_failure", &engine::guardFailure);
  m.def("_empty_input", &engine::emptyInput);
  m.def("_plain_message", &engine::plainMessage);
  m.def("_shape_probe", [](const std::vector<std::string> &values) {
    const std::string bytes = engine::shapeProbe(values);
    return nb::bytes(bytes.data(), bytes.size());
  });
  m.def("_shape_probe_name", &engine::shapeProbeName);
#ifdef MLBRIDGE_HAS_NATIVE
  m.def("_generate", &generate);
#endif
}

} // namespace mlbridge::python
