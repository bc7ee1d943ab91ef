// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Built with -fno-exceptions -fno-rtti, as LLVM builds its passes: every public header is included
// and a pass is written as an Environment.
#include <mlbridge/component.h>
#include <mlbridge/deadline.h>
#include <mlbridge/environment.h>
#include <mlbridge/function.h>
#include <mlbridge/model.h>
#include <mlbridge/runner.h>
#include <mlbridge/server.h>
#include <mlbridge/status.h>
#include <mlbridge/tensor.h>
#include <mlbridge/uri.h>

#include <gtest/gtest.h>

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "this test is about code without exceptions and RTTI"
#endif

using namespace mlbridge;

namespace {

class Countdown final : public Environment {
public:
  const Signature &signature() const override { return signature_; }
  Status reset(Observation &first) override { return first.set("left", left_); }
  Status step(const Action &action, Observation &next) override {
    Expected<int64_t> take = action.get<int64_t>("take");
    if (!take)
      return take.status();
    if (*take < 1 || *take > left_)
      return Status(Code::PolicyFailed, "took " + std::to_string(*take));
    left_ -= *take;
    setReward(1);
    if (left_ == 0)
      setDone();
    return next.set("left", left_);
  }
  int64_t left() const { return left_; }

private:
  int64_t left_ = 10;
  Signature signature_{{TensorSpec::of<int64_t>("left")}, {TensorSpec::of<int64_t>("take")}};
};

Model taking(int64_t most) {
  return fromFunction(Countdown().signature(), [most](FunctionCall &call) {
    const int64_t left = call.in<int64_t>("left")[0];
    call.out<int64_t>("take")[0] = left < most ? left : most;
    return Status();
  });
}

} // namespace

TEST(NoExceptions, APassAsksAModel) {
  Countdown environment;
  Model model = taking(4);
  ASSERT_TRUE(model.bind(environment.signature()));
  const EpisodeResult result = run(environment, model);
  EXPECT_TRUE(result.status) << result.status.toString();
  EXPECT_EQ(result.steps, 3u);
  EXPECT_EQ(result.totalReward, 3.0);
  EXPECT_EQ(environment.left(), 0);
}

TEST(NoExceptions, APassFallsBack) {
  Countdown environment;
  Runner runner = open("function:does-not-exist", environment.signature());
  EXPECT_EQ(runner.evaluateOr<int64_t>([] { return 1; }), 1);
  EXPECT_EQ(run(environment, runner).status.code(), Code::NotFound);
  EXPECT_EQ(environment.left(), 10);
}

TEST(NoExceptions, AnExceptionOfTheOtherSideIsAStatus) {
  // std::stoi in the library's C++ runtime throws, whatever this file is built with.
  Model model = fromFunction(Countdown().signature(), [](FunctionCall &) {
    return Status(Code::PolicyFailed, std::to_string(std::string().at(5)));
  });
  Countdown environment;
  ASSERT_TRUE(model.bind(environment.signature()));
  const EpisodeResult result = run(environment, model);
  EXPECT_EQ(result.status.code(), Code::PolicyFailed);
  EXPECT_EQ(result.status.message().find("step 0: the function threw an exception: "), 0u)
      << result.status.message();
}
