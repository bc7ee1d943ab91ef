// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operators, one line each in the table of the family. CONTRIBUTING.md says how to add one.
#ifndef MLBRIDGE_ENGINE_NATIVE_REGISTRY_H
#define MLBRIDGE_ENGINE_NATIVE_REGISTRY_H

#include "engine/native/lowering.h"

namespace mlbridge::native {

/// Sets of element types.
enum Types : uint16_t {
  Real16 = 1,
  Real32 = 2,
  Real64 = 4,
  Ints = 8,
  UInts = 16,
  Bools = 32,
  Reals = Real16 | Real32 | Real64,
  Signed = Reals | Ints,
  Whole = Ints | UInts,
  Numbers = Reals | Whole,
  Fixed = Numbers | Bools, ///< everything but strings
};
bool isIn(ElementType type, uint16_t types);

struct Operator {
  /// A row of a table. The members stand in an order that leaves no gaps.
  template <size_t N, size_t M>
  constexpr Operator(const char (&name)[N], uint8_t first, const char (&inputs)[M], uint16_t types,
                     uint8_t outputs, bool halfAsFloat, Status (*lower)(Lowering &),
                     const char *attributes = nullptr, uint8_t deciding = 0)
      : first(first), outputs(outputs), types(types), halfAsFloat(halfAsFloat), deciding(deciding),
        lower(lower), attributes(attributes) {
    for (size_t i = 0; i < N; ++i)
      this->name[i] = name[i];
    for (size_t i = 0; i < M; ++i)
      this->inputs[i] = inputs[i];
  }

  // Short texts are in the table itself: pointers have to be relocated when a compiler loads it.
  char name[33] = {};
  uint8_t first; ///< version of the operator set that means this; later ones do, up to another row
  /// The type of each input: T, one of `types`, the same for all T; U any, the same for all U; A
  /// any; I int32 or int64; L int64; B bool. In lower case it may be left out. A '*' at the end:
  /// the last one repeated.
  char inputs[10] = {};
  uint8_t outputs; ///< at most, or AnyNumber
  uint16_t types;
  bool halfAsFloat; ///< float16 is computed as float32 and rounded
  uint8_t deciding; ///< inputs on whose values shapes depend, a bit for each, and SelfDeciding
  Status (*lower)(Lowering &);
  const char *attributes; ///< names with blanks between them, or null; others are refused
};
constexpr uint8_t AnyNumber = 0xff; ///< of outputs
/// The length of a result depends on what the operator finds in its input.
constexpr uint8_t SelfDeciding = 0x80;

/// The operator, or null. ONNX's own domain is ""; `version` is that of the operator set.
const Operator *findOperator(std::string_view domain, std::string_view name, int64_t version);

/// The failure that names the operator and its version.
Status unsupportedOperator(const onnx::Node &node, int64_t version);
/// Whether ONNX Runtime has an operator of this name, of those that native lacks, or may have it.
bool isInOnnxRuntime(const onnx::Node &node);
/// Checks the number and types of the inputs. Errors: InvalidModel, Unsupported (a type).
Status checkInputs(const Operator &op, const Values &inputs);
/// Checks that the operator has the node's attributes. Errors: InvalidModel.
Status checkAttributes(const Operator &op, const onnx::Node &node);

// One table for each file in operators/.
extern const Span<const Operator> ElementwiseOperators, MatrixOperators, MovementOperators,
    ReductionOperators, ControlOperators, ShapeOperators, QuantizedOperators;
extern const Span<const Operator> ConvolutionOperators, PoolingOperators, ResizeOperators;
/// Transformers, and what is composed of other operators' kernels.
extern const Span<const Operator> AttentionOperators, EinsumOperators, LossOperators,
    SignalOperators;
/// The operators of the domain com.microsoft that ONNX Runtime writes, and of ai.onnx.preview.
extern const Span<const Operator> FusedOperators, RuntimeQuantizedOperators, PreviewOperators;
/// The operators of the domain ai.onnx.ml.
extern const Span<const Operator> ClassicalOperators, TreeOperators;

} // namespace mlbridge::native

#endif
