// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/bind.h"

#include <gtest/gtest.h>

using namespace mlbridge;

namespace {

TensorSpec f(std::string name, Shape shape, Shape maximum = {}) {
  return TensorSpec::of<float>(std::move(name), std::move(shape), std::move(maximum));
}

Signature in(TensorSpec spec) { return {{std::move(spec)}, {}}; }
Signature out(TensorSpec spec) { return {{}, {std::move(spec)}}; }

struct Case {
  Signature pass, model;
  std::string bound; ///< what the backend is asked for; empty if it is a mismatch
};

} // namespace

TEST(Bind, ShapesFitOrNot) {
  const Case cases[] = {
      {in(f("x", {3})), in(f("x", {3})), "(x: float32[3]) -> ()"},
      {in(f("x", {3})), in(f("x", {4})), ""},
      {in(f("x", {3})), in(f("x", {-1})), "(x: float32[3]) -> ()"},
      {in(f("x", {3})), in(f("x", {-1}, {2})), ""},
      {in(f("x", {3})), in(f("x", {1, 3})), "(x: float32[1, 3]) -> ()"},
      {in(f("x", {3})), in(f("x", {-1, 3})), "(x: float32[1, 3]) -> ()"},
      {in(f("x", {3})), in(f("x", {-1, -1})), "(x: float32[1, 3]) -> ()"},
      {in(f("x", {3})), in(f("x", {2, 3})), ""},
      {in(f("x", {1, 3})), in(f("x", {3})), ""},
      {in(f("x", {3})), in(f("x", {1, 1, 3})), ""},
      {in(f("x", {})), in(f("x", {1})), "(x: float32[1]) -> ()"},
      {in(f("x", {})), in(f("x", {-1})), "(x: float32[1]) -> ()"},
      {in(f("x", {0})), in(f("x", {-1})), "(x: float32[0]) -> ()"},
      {in(f("x", {-1})), in(f("x", {3})), ""},
      {in(f("x", {-1})), in(f("x", {-1})), "(x: float32[?]) -> ()"},
      {in(f("x", {-1})), in(f("x", {-1}, {9})), "(x: float32[?<=9]) -> ()"},
      {in(f("x", {-1}, {9})), in(f("x", {-1})), "(x: float32[?<=9]) -> ()"},
      {in(f("x", {-1}, {9})), in(f("x", {-1}, {8})), ""},
      {in(f("x", {-1}, {8})), in(f("x", {1, -1}, {0, 9})), "(x: float32[1, ?<=8]) -> ()"},
      {out(f("y", {-1})), out(f("y", {3})), "() -> (y: float32[3])"},
      {out(f("y", {-1}, {2})), out(f("y", {3})), ""},
      {out(f("y", {3})), out(f("y", {-1})), "() -> (y: float32[3])"},
      {out(f("y", {-1}, {4})), out(f("y", {-1}, {5})), "() -> (y: float32[?<=4])"},
      {out(f("y", {3})), out(f("y", {1, 3})), "() -> (y: float32[1, 3])"},
      // A pass may know more than the model, and use less of its answers.
      {{{f("a", {1}), f("x", {3})}, {}}, in(f("x", {3})), "(x: float32[3]) -> ()"},
      {out(f("y", {3})), {{}, {f("z", {-1}), f("y", {3})}}, "() -> (z: float32[?], y: float32[3])"},
      {in(f("x", {3})), {{f("x", {3}), f("z", {1})}, {}}, ""},
      {out(f("y", {3})), {}, ""},
      {in(f("x", {3})), in(TensorSpec::of<double>("x", {3})), ""},
  };
  for (const Case &c : cases) {
    SCOPED_TRACE(c.pass.toString() + " against " + c.model.toString());
    const auto binding = bindSignature(c.pass, &c.model);
    if (c.bound.empty()) {
      ASSERT_FALSE(binding) << (*binding)->model.toString();
      EXPECT_EQ(binding.status().code(), Code::Mismatch);
      const std::string &why = binding.status().message();
      EXPECT_NE(why.find("the pass declares " + c.pass.toString()), std::string::npos) << why;
      EXPECT_NE(why.find("the model has " + c.model.toString()), std::string::npos) << why;
      continue;
    }
    ASSERT_TRUE(binding) << binding.status().toString();
    EXPECT_EQ((*binding)->model.toString(), c.bound);
    EXPECT_EQ((*binding)->caller, c.pass);
  }
}

TEST(Bind, OfManyDisagreementsSaysThreeAndTheNumber) {
  Signature model;
  for (int i = 0; i < 40; ++i)
    model.inputs.push_back(f(("feature" + std::to_string(i)).c_str(), {1, 33}));
  const std::string why = bindSignature({{f("x", {3})}, {}}, &model).status().message();
  EXPECT_NE(why.find("'feature2: "), std::string::npos) << why;
  EXPECT_EQ(why.find("'feature3: "), std::string::npos) << why;
  EXPECT_NE(why.find("; and 37 more"), std::string::npos) << why;
  EXPECT_LT(why.size(), 400u) << why;
}

TEST(Bind, SaysEveryDisagreementOfAFew) {
  const Signature pass{{f("embeding", {300}), f("b", {2})}, {TensorSpec::of<int64_t>("action")}};
  const Signature model{{f("embedding", {300}), f("b", {3})}, {TensorSpec::of<float>("action")}};
  const auto binding = bindSignature(pass, &model);
  ASSERT_FALSE(binding);
  const std::string &why = binding.status().message();
  for (const char *part :
       {"the model's input 'embedding: float32[300]'; did you mean 'embeding'?",
        "input 'b' is different in dimension 0: 2 in the pass and 3 in the model",
        "output 'action' is int64 in the pass and float32 in the model"})
    EXPECT_NE(why.find(part), std::string::npos) << why;
}

TEST(Bind, NamesTheOptionThatMakesAnActionOfLogits) {
  const Signature model{{f("x", {3})}, {f("logits", {5})}};
  const auto why = [&](const char *name) {
    return bindSignature({{f("x", {3})}, {TensorSpec::of<int64_t>(name)}}, &model)
        .status()
        .message();
  };
  EXPECT_NE(why("action").find("; '?choose=argmax' in the URI makes an int64 of the model's "
                               "'logits: float32[5]'"),
            std::string::npos)
      << why("action");
  EXPECT_NE(why("pick").find("choose=argmax&choose_as=pick"), std::string::npos);
  EXPECT_NE(why("logits").find("choose=argmax"), std::string::npos) << "of another type";
  const Status another = bindSignature({{}, {f("z", {})}}, &model).status();
  EXPECT_EQ(another.message().find("choose"), std::string::npos) << another.message();
}

TEST(Bind, PrefersAnIntegerOfAnotherNameToAnIndexIntoItsProbabilities) {
  const auto why = [](const Signature &pass, const Signature &model) {
    return bindSignature(pass, &model).status().message();
  };
  const TensorSpec action = TensorSpec::of<int64_t>("action"), probabilities = f("p", {-1, 2}),
                   label = TensorSpec::of<int64_t>("label", {-1});
  const std::string advice = why({{}, {action}}, {{}, {label, probabilities}});
  EXPECT_NE(advice.find("'?rename=action:label' in the URI"), std::string::npos) << advice;
  EXPECT_EQ(advice.find("choose"), std::string::npos) << advice;
  // It has another shape, or the pass has a use for it: then only the logits are left.
  EXPECT_NE(why({{}, {action}}, {{}, {TensorSpec::of<int64_t>("label", {7}), probabilities}})
                .find("choose=argmax"),
            std::string::npos);
  EXPECT_NE(why({{}, {action, TensorSpec::of<int64_t>("label")}}, {{}, {label, probabilities}})
                .find("choose=argmax"),
            std::string::npos);
  // Nobody can say which of two is meant.
  const std::string two =
      why({{}, {action}}, {{}, {label, TensorSpec::of<int64_t>("tree"), probabilities}});
  EXPECT_EQ(two.find("rename="), std::string::npos) << two;
  EXPECT_EQ(two.find("choose="), std::string::npos) << two;
}

TEST(Bind, SaysThatABatchIsStated) {
  const Signature pass{{f("x", {-1, 3})}, {f("y", {2})}},
      model{{f("x", {-1, 3})}, {f("y", {32, 2})}};
  const std::string why = bindSignature(pass, &model).status().message();
  EXPECT_NE(why.find("its first, a batch of 32, would have to be 1 or dynamic"), std::string::npos)
      << why;
  const Signature other{{f("x", {-1, 3})}, {f("y", {32, 3})}};
  EXPECT_EQ(bindSignature(pass, &other).status().message().find("batch"), std::string::npos);
}

TEST(Bind, ConnectsByNameWhateverTheOrder) {
  const Signature pass{{f("a", {1}), f("b", {2}), f("c", {3})}, {f("q", {}), f("p", {})}};
  const Signature model{{f("c", {1, 3}), f("a", {1})}, {f("p", {}), f("q", {1})}};
  const auto binding = bindSignature(pass, &model);
  ASSERT_TRUE(binding) << binding.status().toString();
  const Binding &b = **binding;
  EXPECT_EQ(b.inputs[0].model, 1);
  EXPECT_EQ(b.inputs[1].model, -1);
  EXPECT_EQ(b.inputs[2].model, 0);
  EXPECT_TRUE(b.inputs[2].batch);
  EXPECT_FALSE(b.inputs[0].batch);
  EXPECT_EQ(b.outputs[0].model, 1);
  EXPECT_EQ(b.outputs[1].model, 0);
}

TEST(Bind, AModelThatTakesAnyTakesThisOne) {
  const Signature pass{{f("a", {-1})}, {f("q", {})}};
  const auto binding = bindSignature(pass, nullptr);
  ASSERT_TRUE(binding);
  EXPECT_EQ((*binding)->model, pass);
}

TEST(Bind, AMalformedSignatureIsTheCallersFault) {
  const auto binding = bindSignature({{f("a", {1}), f("a", {1})}, {}}, nullptr);
  EXPECT_EQ(binding.status().code(), Code::InvalidArgument);
}

// Quadratic, this would take minutes; unbounded, the message would have megabytes.
TEST(Bind, TakesVeryManyTensors) {
  Signature many;
  for (int i = 0; i < 100'000; ++i)
    many.inputs.push_back(f("input" + std::to_string(i), {3}));
  EXPECT_TRUE(bindSignature(many, &many));
  const Status status = bindSignature(in(f("other", {3})), &many).status();
  EXPECT_EQ(status.code(), Code::Mismatch);
  EXPECT_LT(status.message().size(), 20'000u);
}
