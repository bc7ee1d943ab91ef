// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Building blocks of the operators of ai.onnx.ml.
#ifndef MLBRIDGE_ENGINE_NATIVE_OPERATORS_CLASSICAL_H
#define MLBRIDGE_ENGINE_NATIVE_OPERATORS_CLASSICAL_H

#include "engine/native/kernels/classical.h"
#include "engine/native/operators/common.h"

namespace mlbridge::native {

/// [rows, features]: a vector is a row. Fails for other tensors.
Value *matrixOf(Lowering &l, Value *x);
/// y [rows, columns] plus one number for all columns or one for each; y itself for none.
Value *plus(Lowering &l, Value *y, const std::vector<double> &numbers);
/// y after the post_transform of that name, by rows.
Value *transformed(Lowering &l, Value *y, std::string_view transform);
/// Two columns [rows, 1] beside each other.
Value *beside(Lowering &l, Value *first, Value *second);
/// For each row of a column 1 if it is greater than the limit, otherwise 0, as int64 [rows].
Value *isAbove(Lowering &l, Value *column, double limit);

/// The classes of a classifier. Labels that are texts can't be given out; output 0 is left out
/// then.
class Labels {
public:
  /// `integers`: the attribute with integers; classlabels_strings has texts.
  bool read(Lowering &l, const char *integers);
  int64_t count() const { return count_; }
  /// Label and scores, of scores [rows, classes] before their transform: the greatest one, the
  /// first of equals.
  Status give(Lowering &l, Value *scores, std::string_view transform) const;
  /// The same of one score [rows, 1] for two classes, with which the second is chosen if it is
  /// above the limit. That of the other is 1 minus it if it is a share, otherwise its negative.
  Status giveBinary(Lowering &l, Value *score, double limit, bool isShare,
                    std::string_view transform) const;
  /// The labels of the classes in `indices`, int64, as output 0.
  void giveLabels(Lowering &l, Value *indices) const;
  /// Scores after their transform, as output 1.
  static Status giveScores(Lowering &l, Value *scores, std::string_view transform);

private:
  Integers labels_;
  int64_t count_ = 0;
  bool areTexts_ = false;
};

} // namespace mlbridge::native

#endif
