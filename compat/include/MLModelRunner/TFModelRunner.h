// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TFModelRunner of the 2024 release: a model that TensorFlow compiled ahead of time into a class.
#ifndef MLBRIDGE_COMPAT_TFMODELRUNNER_H
#define MLBRIDGE_COMPAT_TFMODELRUNNER_H

#include "MLModelRunner/MLModelRunner.h"
#include "MLModelRunner/PipeModelRunner.h" // FileName, which takes a StringRef
#include "SerDes/TensorSpec.h"
#include "SerDes/tensorflowSerDes.h"

#include <cstdint>
#include <memory>
#include <string>

namespace MLBridge {

/// TGen is the compiled class: LookupArgIndex, LookupResultIndex, arg_data, result_data, Run. If it
/// has arg_size and result_size as well, lengths are checked.
template <class TGen> class TFModelRunner final : public MLModelRunner {
public:
  TFModelRunner(const FileName &DecisionName, llvm::LLVMContext &Ctx,
                const FileName &FeedPrefix = "feed_", const FileName &FetchPrefix = "fetch_")
      : TFModelRunner(&Ctx, DecisionName.str(), FeedPrefix.str(), FetchPrefix.str()) {}
  TFModelRunner(const FileName &DecisionName, const FileName &FeedPrefix = "feed_",
                const FileName &FetchPrefix = "fetch_")
      : TFModelRunner(nullptr, DecisionName.str(), FeedPrefix.str(), FetchPrefix.str()) {}

  static bool classof(const MLModelRunner *R) { return R->getKind() == Kind::TFAOT; }
  void requestExit() override {}

private:
  TFModelRunner(llvm::LLVMContext *Ctx, const std::string &decision, const std::string &feed,
                const std::string &fetch)
      : MLModelRunner(Kind::TFAOT, SerDesKind::Tensorflow, Ctx),
        CompiledModel(std::make_unique<TGen>()) {
    TGen *const model = CompiledModel.get();
    SerDes = std::make_unique<TensorflowSerDes>(
        [model, feed](const std::string &name, size_t &bytes) -> void * {
          const int index = model->LookupArgIndex(feed + name);
          if (index < 0)
            return nullptr;
          bytes = argumentSize(*model, index, 0);
          return model->arg_data(index);
        });
    ResultIndex = CompiledModel->LookupResultIndex(fetch + decision);
    if (ResultIndex < 0)
      missing(fetch + decision);
  }
  void missing(const std::string &result) {
    fail({mlbridge::Code::Mismatch, "the compiled model has no result '" + result + "'"});
  }
  // Taken if the class has the function.
  template <typename M>
  static auto argumentSize(M &model, int i, int) -> decltype(size_t(model.arg_size(i))) {
    return static_cast<size_t>(model.arg_size(i));
  }
  template <typename M> static size_t argumentSize(M &, int, long) { return 0; }
  template <typename M>
  static auto resultSize(M &model, int i, int) -> decltype(size_t(model.result_size(i))) {
    return static_cast<size_t>(model.result_size(i));
  }
  template <typename M> static size_t resultSize(M &, int, long) { return 0; }

  void *evaluateUntyped() override {
    if (ResultIndex < 0) {
      missing("of that name");
      return nullptr;
    }
    CompiledModel->Run();
    static_cast<TensorflowSerDes &>(*SerDes).setMessageLength(
        resultSize(*CompiledModel, ResultIndex, 0));
    return CompiledModel->result_data(ResultIndex);
  }

  int32_t ResultIndex = -1;
  std::unique_ptr<TGen> CompiledModel;
};

/// Stands for a compiled class where there is none: a runner of it never has an answer.
class NoopSavedModelImpl final {
public:
  int LookupArgIndex(const std::string &) { return -1; }
  int LookupResultIndex(const std::string &) { return -1; }
  void Run() {}
  void *result_data(int) { return nullptr; }
  void *arg_data(int) { return nullptr; }
};

template <class T> bool isEmbeddedModelEvaluatorValid() { return true; }
template <> inline bool isEmbeddedModelEvaluatorValid<NoopSavedModelImpl>() { return false; }

} // namespace MLBridge

#endif
