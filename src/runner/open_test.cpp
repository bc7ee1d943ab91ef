// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening by URI, metadata, binding, the form without a signature, and models behind components.
#include "core/component.h"
#include "testing/built.h"

#include <mlbridge/engine.h>
#include <mlbridge/function.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>

using namespace mlbridge;
using namespace std::chrono_literals;

namespace {

const Signature Sum{{TensorSpec::of<float>("x", {3}), TensorSpec::of<float>("w", {-1})},
                    {TensorSpec::of<float>("y")}};

Status sum(FunctionCall &call) {
  float total = 0;
  for (const char *name : {"x", "w"})
    for (float v : call.in<float>(name))
      total += v;
  call.out<float>("y")[0] = total;
  return Status();
}

FunctionModel sumModel() {
  return {Sum, {{"actions", "a b"}}, [] { return Function(sum); }};
}

void registerOnce() {
  static const bool done = [] {
    EXPECT_TRUE(registerFunction("open-test-sum", [](const Uri &) { return sumModel(); }));
    EXPECT_TRUE(registerFunction("open-test-any", [](const Uri &) {
      FunctionModel any;
      any.newFunction = [] {
        return [](FunctionCall &call) {
          float total = 0;
          for (size_t i = 0; i < call.signature().inputs.size(); ++i)
            for (float v : call.input(i).as<float>())
              total += v;
          for (int64_t &v : call.output(0).as<int64_t>())
            v = static_cast<int64_t>(total);
          for (float &v : call.output(0).as<float>())
            v = total;
          return Status();
        };
      };
      return any;
    }));
    EXPECT_TRUE(registerScheme("open-test", [](const Uri &uri) -> Expected<FunctionModel> {
      if (Status s = uri.allowOnly({"by"}); !s)
        return s;
      FunctionModel model = sumModel();
      model.metadata["place"] = uri.place;
      return model;
    }));
    return true;
  }();
  (void)done;
}

class Open : public ::testing::Test {
protected:
  void SetUp() override {
    registerOnce();
    ::setenv("MLBRIDGE_COMPONENT_PATH", mlbridge::testing::testComponents().c_str(), 1);
  }
};

TEST(LinkedEngine, OpensByTheNameThatItWasRegisteredUnder) {
  ::setenv("MLBRIDGE_COMPONENT_PATH", mlbridge::testing::testComponents().c_str(), 1);
  const Status none = Model::open("tfaot:sum").status();
  EXPECT_EQ(none.code(), Code::NotFound);
  EXPECT_NE(none.message().find("no model 'sum' is linked into this program"), std::string::npos);

  Expected<const mlb_component *> component = findComponent(ComponentKind::Engine, "testing");
  ASSERT_TRUE(component) << component.status().toString();
  const mlb_engine &table = *(*component)->engine;
  ASSERT_TRUE(registerEngine("tfaot", "sum", table));
  const Model model = Model::open("tfaot:sum");
  EXPECT_TRUE(model) << model.status().toString();
  ASSERT_TRUE(registerEngine("own-engine", "sum", table));
  EXPECT_TRUE(Model::open("own-engine:sum"));
  const Status wrong = Model::open("own-engine:sun").status();
  EXPECT_EQ(wrong.code(), Code::NotFound);
  EXPECT_NE(wrong.message().find("did you mean 'sum'"), std::string::npos) << wrong.toString();

  EXPECT_EQ(registerEngine("tfaot", "sum", table).code(), Code::InvalidArgument);
  EXPECT_EQ(registerEngine("onnx", "sum", table).code(), Code::InvalidArgument);
  EXPECT_EQ(registerEngine("tfaot", "", table).code(), Code::InvalidArgument);
  mlb_engine old = table;
  old.size = 8;
  EXPECT_EQ(registerEngine("tfaot", "old", old).code(), Code::InvalidArgument);
  // None of the functions may be missing.
  for (size_t at = sizeof(uint64_t); at < offsetof(mlb_engine, open_memory); at += sizeof(void *)) {
    mlb_engine broken = table;
    std::memset(reinterpret_cast<char *>(&broken) + at, 0, sizeof(void *));
    const Status refused = registerEngine("tfaot", "broken", broken);
    EXPECT_EQ(refused.code(), Code::InvalidArgument) << at;
    EXPECT_NE(refused.message().find("is null"), std::string::npos) << refused.message();
  }
  mlb_engine broken = table;
  broken.open = nullptr;
  EXPECT_EQ(registerEngine("tfaot", "broken", broken).message(),
            "engine tfaot:broken has no complete table: its function 'open' is null");
}

} // namespace

TEST_F(Open, RegisteredFunctionsAndSchemes) {
  const Model model = Model::open("function:open-test-sum");
  ASSERT_TRUE(model) << model.status().toString();
  EXPECT_EQ(model.uri(), "function:open-test-sum");
  EXPECT_EQ(model.metadata("actions"), "a b");
  EXPECT_EQ(model.metadata("nothing"), std::nullopt);
  ASSERT_NE(model.modelSignature(), nullptr);
  EXPECT_EQ(*model.modelSignature(), Sum);
  EXPECT_EQ(model.signature(), nullptr) << "not bound yet";
  EXPECT_EQ(Model::open("open-test:/a/b?by=me").metadata("place"), "/a/b");
}

TEST_F(Open, MisspeltOnesNameTheNearest) {
  const std::tuple<const char *, Code, const char *> bad[] = {
      {"fucntion:x", Code::InvalidArgument, "did you mean 'function'?"},
      {"open-tset:x", Code::InvalidArgument, "did you mean 'open-test'?"},
      {"testign:x", Code::InvalidArgument, "did you mean 'testing'?"},
      {"function:open-test-sun", Code::NotFound, "did you mean 'open-test-sum'?"},
      {"open-test:x?bye=1", Code::InvalidArgument, "did you mean 'by'?"},
      {"open-test:x?relaod=1s", Code::InvalidArgument, "did you mean 'reload'?"},
      {"open-test:x?recrod=d", Code::InvalidArgument, "did you mean 'record'?"},
      {"open-test:x?mask=m", Code::InvalidArgument, "goes with choose=argmax"},
      {"policy.onnx", Code::InvalidArgument, "no scheme"},
      {"", Code::InvalidArgument, "no scheme"},
      {"function:open-test-sum?deadline=soon", Code::InvalidArgument, "option 'deadline'"},
      {"nothing-like-it:x", Code::InvalidArgument, "libmlbridge-engine-nothing-like-it.so"},
  };
  for (const auto &[uri, code, why] : bad) {
    const Model model = Model::open(uri);
    EXPECT_EQ(model.status().code(), code) << uri << ": " << model.status().toString();
    EXPECT_NE(model.status().message().find(why), std::string::npos) << model.status().toString();
    EXPECT_EQ(model.newRunner().status().code(), code);
    EXPECT_TRUE(model.metadata().empty());
  }
}

TEST_F(Open, RegistrationsAreRefusedWhereTheyWouldReplace) {
  const auto factory = [](const Uri &) { return sumModel(); };
  EXPECT_EQ(registerFunction("open-test-sum", factory).code(), Code::InvalidArgument);
  EXPECT_EQ(registerFunction("", factory).code(), Code::InvalidArgument);
  EXPECT_EQ(registerFunction("empty", nullptr).code(), Code::InvalidArgument);
  for (const char *scheme :
       {"function", "unix", "pipe", "shm", "onnx", "open-test", "", "A", "a:b", "a b"})
    EXPECT_EQ(registerScheme(scheme, factory).code(), Code::InvalidArgument) << scheme;
}

TEST_F(Open, ExceptionsOfAFactoryBecomeItsFailure) {
  static const Status once = registerFunction("open-test-throws", [](const Uri &) -> FunctionModel {
    throw std::runtime_error("out of luck");
  });
  ASSERT_TRUE(once);
  const Model model = Model::open("function:open-test-throws");
  EXPECT_EQ(model.status().code(), Code::PolicyFailed);
  EXPECT_NE(model.status().message().find("out of luck"), std::string::npos);
}

TEST_F(Open, AStatelessFunctionIsRegisteredWithItsSignature) {
  const Signature half{{TensorSpec::of<float>("x")}, {TensorSpec::of<float>("y")}};
  const auto halve = [](FunctionCall &call) {
    call.out<float>("y")[0] = call.in<float>("x")[0] / 2;
    return Status();
  };
  ASSERT_TRUE(registerFunction("open-test-half", half, halve, {{"kind", "heuristic"}}));
  EXPECT_EQ(registerFunction("open-test-half", half, halve).code(), Code::InvalidArgument);
  EXPECT_EQ(registerFunction("open-test-no", half, Function()).code(), Code::InvalidArgument);
  EXPECT_EQ(Model::open("function:open-test-half?seed=1").status().code(), Code::InvalidArgument);
  Runner runner = open("function:open-test-half", half);
  ASSERT_TRUE(runner.set("x", 3.0f));
  EXPECT_EQ(runner.evaluate<float>().valueOr(0), 1.5f);
  EXPECT_EQ(Model::open("function:open-test-half").metadata("kind"), "heuristic");
}

TEST_F(Open, TheUriHasTheLastWord) {
  static CallContext seen;
  static Uri asked;
  static const Status once = registerFunction("open-test-context", [](const Uri &uri) {
    asked = uri;
    FunctionModel model;
    model.newFunction = [] {
      return [](FunctionCall &call) {
        seen = call.context();
        return Status();
      };
    };
    return model;
  });
  ASSERT_TRUE(once);
  OpenOptions options;
  options.context = {"from the pass", "from the pass", "from the pass"};
  const Signature nothing{{}, {TensorSpec::of<float>("y")}};
  Runner runner =
      open("function:open-test-context?agent=inliner&deadline=0s&own=1", nothing, options);
  EXPECT_EQ(runner.evaluate().code(), Code::DeadlineExceeded);
  ASSERT_TRUE(runner.evaluate(Deadline::after(5s)));
  EXPECT_EQ(seen.agent, "inliner");
  EXPECT_EQ(seen.episode, "from the pass");
  EXPECT_EQ(asked.options.size(), 1u) << "a factory sees its own options only";
  EXPECT_EQ(asked.option("own"), "1");
  ASSERT_TRUE(runner.beginEpisode("second", "main"));
  ASSERT_TRUE(runner.evaluate(Deadline::after(5s)));
  EXPECT_EQ(seen.episode, "second");
  EXPECT_EQ(seen.unit, "main");
  Model model = Model::open("function:open-test-context", options);
  ASSERT_TRUE(model.bind(nothing));
  ASSERT_TRUE(model.newRunner({"", "third", ""}).evaluate());
  EXPECT_EQ(seen.episode, "third");
  EXPECT_EQ(seen.unit, "from the pass");
}

TEST_F(Open, ARunnersOwnDeadline) {
  const Signature nothing{{}, {TensorSpec::of<float>("y")}};
  Model model = fromFunction(nothing, [](FunctionCall &) { return Status(); });
  ASSERT_TRUE(model.bind(nothing));
  EXPECT_EQ(model.newRunner({}, 0s).evaluate().code(), Code::DeadlineExceeded);
  EXPECT_TRUE(model.newRunner().evaluate());
}

TEST_F(Open, BindIsThisModelsOwn) {
  const Signature own{{TensorSpec::of<float>("x", {-1})}, {TensorSpec::of<float>("y")}};
  const Signature two{{TensorSpec::of<float>("x", {2})}, own.outputs};
  Model model = fromFunction(own, [](FunctionCall &call) {
    call.out<float>("y")[0] = static_cast<float>(call.in<float>("x").size());
    return Status();
  });
  Model copy = model;
  ASSERT_TRUE(model.bind(two));
  EXPECT_EQ(copy.signature(), nullptr) << "the copy is bound to nothing";
  ASSERT_TRUE(copy.bind(own));
  const Signature *bound = copy.signature();
  Runner runner = copy.newRunner();
  EXPECT_FALSE(model.bind({{}, {TensorSpec::of<float>("z")}}));
  EXPECT_TRUE(copy);
  EXPECT_EQ(copy.signature(), bound);
  ASSERT_TRUE(runner.set("x", {1, 2, 3}));
  EXPECT_EQ(*runner.evaluate<float>(), 3.0f);
  ASSERT_TRUE(model.bind(two)) << "again";
  EXPECT_EQ(model.newRunner().input<float>("x").size(), 2u);
}

#ifdef MLBRIDGE_HAS_NATIVE
TEST_F(Open, FromMemory) {
  const char bytes[] = "\x08\x08no model";
  for (const char *uri : {"native:policy", "native:", "native:policy?choose=argmax"}) {
    const Model broken = Model::fromMemory(uri, bytes, sizeof bytes);
    EXPECT_EQ(broken.status().code(), Code::InvalidModel) << broken.status().toString();
    EXPECT_EQ(broken.uri(), uri);
  }
  EXPECT_EQ(Model::fromMemory("native:", nullptr, 0).status().code(), Code::InvalidModel);
  EXPECT_EQ(Model::fromMemory("native:?reload=1s", bytes, 3).status().code(),
            Code::InvalidArgument);
  EXPECT_EQ(Model::fromMemory("", bytes, 3).status().code(), Code::InvalidArgument);
  for (const char *uri : {"unix:/tmp/s", "function:f", "aot:f", "grpc:localhost:1"})
    EXPECT_EQ(Model::fromMemory(uri, bytes, 3).status().code(), Code::Unsupported) << uri;
  EXPECT_EQ(Model::fromMemory("nothing:x", bytes, 3).status().code(), Code::NotFound);
}
#endif

TEST_F(Open, AMismatchIsAnErrorAtOpeningAndABufferStaysUsable) {
  const Signature pass{{TensorSpec::of<float>("x", {4}), TensorSpec::of<float>("w", {-1})},
                       {TensorSpec::of<float>("y")}};
  Model model = Model::open("function:open-test-sum");
  EXPECT_EQ(model.bind(pass).code(), Code::Mismatch);
  EXPECT_EQ(model.status().code(), Code::Mismatch);
  EXPECT_EQ(model.signature(), nullptr);
  Runner runner = model.newRunner();
  EXPECT_EQ(runner.evaluate().code(), Code::Mismatch);
  EXPECT_EQ(runner.input<float>("x").size(), 4u);
  EXPECT_TRUE(runner.resize<float>("w", {5}));
  EXPECT_TRUE(model.bind(Sum)) << "a second attempt";
  EXPECT_TRUE(model.newRunner());
}

TEST_F(Open, ARunnerNeedsASignature) {
  EXPECT_EQ(Model::open("function:open-test-sum").newRunner().status().code(),
            Code::InvalidArgument);
}

TEST_F(Open, WithoutASignatureTheModelsOwnIsUsed) {
  Runner runner = open("function:open-test-sum");
  ASSERT_TRUE(runner) << runner.status().toString();
  EXPECT_TRUE(runner.set("x", {1.0f, 2.0f, 3.0f}));
  EXPECT_TRUE(runner.set("unknown", 1.0)) << "a model may know less than the compiler";
  const Status status = runner.evaluate();
  EXPECT_EQ(status.code(), Code::InvalidArgument) << "but must get all that it knows";
  EXPECT_NE(status.message().find("'w: float32[?]'"), std::string::npos) << status.message();
  EXPECT_FALSE(runner.set("x", 1.0)) << "of its type";
  EXPECT_TRUE(runner.set("x", {1.0f, 2.0f, 3.0f}));
  EXPECT_TRUE(runner.set("w", {10.0f}));
  EXPECT_EQ(*runner.evaluate<float>(), 16.0f);
  EXPECT_EQ(runner.output<float>("y")[0], 16.0f);
}

TEST_F(Open, WithoutASignatureAMisspeltFeatureIsSeen) {
  Runner runner = open("function:open-test-sum");
  EXPECT_TRUE(runner.set("X", {1.0f, 2.0f, 3.0f}));
  EXPECT_TRUE(runner.set("w", {10.0f}));
  const Status status = runner.evaluate();
  EXPECT_NE(status.message().find("'x: float32[3]' was not set"), std::string::npos);
  EXPECT_NE(status.message().find("has no such inputs: X"), std::string::npos) << status.message();
}

TEST_F(Open, WithoutASignatureOnAModelThatTakesAny) {
  Runner runner = open("function:open-test-any");
  ASSERT_TRUE(runner) << runner.status().toString();
  EXPECT_EQ(runner.signature(), nullptr);
  runner.input<float>("a")[99] = 1;
  EXPECT_FALSE(runner.status()) << "has no buffer of its own before it is set";
  runner.clearStatus();
  EXPECT_FALSE(runner.set(0, 1.5f)) << "nor an index";
  EXPECT_FALSE(runner.bindInput<float>("a", {}));
  runner.clearStatus();
  EXPECT_TRUE(runner.set("a", 1.5f));
  EXPECT_TRUE(runner.set("b", {1.0f}));
  EXPECT_TRUE(runner.set("b", {1.0f, 2.0f})) << "the shape may still change";
  ASSERT_TRUE(runner.resize<float>("c", {2, 1}));
  EXPECT_EQ(runner.input<float>("c").size(), 2u);
  EXPECT_FALSE(runner.evaluate()) << "of which type?";
  EXPECT_EQ(*runner.evaluate<int64_t>(), 4);
  ASSERT_NE(runner.signature(), nullptr);
  EXPECT_EQ(runner.signature()->toString(),
            "(a: float32, b: float32[2], c: float32[2, 1]) -> (output: int64)");
  EXPECT_FALSE(runner.set("b", {1.0f}));
  EXPECT_TRUE(runner.set("b", {5.0f, 2.0f}));
  EXPECT_EQ(*runner.evaluate<int64_t>(), 8);
  EXPECT_FALSE(runner.evaluate<float>());
}

TEST_F(Open, AnEngineBehindTheComponentTable) {
  Model model = Model::open("testing:sum?known=1");
  ASSERT_TRUE(model) << model.status().toString();
  EXPECT_EQ(model.metadata("what"), "sum");
  EXPECT_EQ(model.metadata().size(), 2u);
  EXPECT_EQ(model.modelSignature()->toString(),
            "(x: float32[?, ?<=1000], words: string[2]) -> (sum: float32, text: string[2])");
  const Signature pass{
      {TensorSpec::of<std::string>("words", {2}), TensorSpec::of<float>("x", {-1})},
      {TensorSpec::of<std::string>("text", {2}), TensorSpec::of<float>("sum")}};
  ASSERT_TRUE(model.bind(pass)) << model.status().toString();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&model, t] {
      Runner runner = model.newRunner();
      ASSERT_TRUE(runner) << runner.status().toString();
      for (int i = 1; i < 50; ++i) {
        ASSERT_TRUE(runner.set("x", std::vector<float>(static_cast<size_t>(i), 1.0f)));
        ASSERT_TRUE(runner.set("words", std::vector<std::string>{std::to_string(t), ""}));
        ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
        EXPECT_EQ(runner.output<float>("sum")[0], static_cast<float>(i));
        EXPECT_EQ(runner.output<std::string>("text")[0], std::to_string(t));
        EXPECT_EQ(runner.output<std::string>("text")[1], "");
      }
      EXPECT_FALSE(runner.set("x", std::vector<float>(1001)));
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(Open, FailuresOfAnEngineKeepTheirCodeAndText) {
  EXPECT_EQ(Model::open("testing:nothing").status().toString(),
            "not found: 'testing:nothing': testing: no such model");
  EXPECT_EQ(Model::open("testing:sum?strange=1").status().code(), Code::InvalidArgument);
  EXPECT_EQ(Model::fromMemory("testing:sum", "", 0).status().toString(),
            "unsupported: 'testing:sum': testing: the engine takes no model from memory");
  EXPECT_EQ(Model::open("testing:bad-signature").status().code(), Code::InvalidModel);
  EXPECT_EQ(Model::open("wrong-abi:x").status().code(), Code::Unsupported);
  Signature any;
  const auto ask = [&](const char *uri, Deadline deadline) {
    Model model = Model::open(uri);
    const Signature pass{
        {TensorSpec::of<std::string>("words", {2}), TensorSpec::of<float>("x", {2})},
        {TensorSpec::of<float>("sum")}};
    (void)model.bind(pass);
    Runner runner = model.newRunner();
    return runner.evaluate(deadline);
  };
  EXPECT_EQ(ask("testing:fails", Deadline()).toString(), "policy failed: testing: no deadline");
  EXPECT_EQ(ask("testing:fails", Deadline::after(1h)).toString(),
            "policy failed: testing: a deadline");
  EXPECT_EQ(ask("testing:wrong-count", Deadline()).code(), Code::PolicyFailed);
  EXPECT_EQ(ask("testing:wrong-shape", Deadline()).code(), Code::PolicyFailed);
}

TEST_F(Open, WhatIsNotInstalledSaysWhatGivesIt) {
  ::setenv("MLBRIDGE_COMPONENT_PATH", "/nonexistent", 1);
  const Status status = Model::open("onnx:policy.onnx").status();
  if (status.code() == Code::NotFound &&
      status.message().find("libmlbridge-engine-onnx.so") != std::string::npos)
    EXPECT_NE(status.message().find("MLBRIDGE_ONNX=ON"), std::string::npos) << status.message();
  else // an installed component was found, which finds no such file
    EXPECT_NE(status.message().find("policy.onnx"), std::string::npos) << status.message();
}
