// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finding and refusing components; src/testing/engine.c is what is found.
#include "core/component.h"
#include "core/component_values.h"
#include "testing/built.h"

#include <mlbridge/engine.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

using namespace mlbridge;

class Component : public ::testing::Test {
protected:
  void SetUp() override {
    ::setenv("MLBRIDGE_COMPONENT_PATH", mlbridge::testing::testComponents().c_str(), 1);
  }
};

TEST_F(Component, IsFoundOnceAndSharedByThreads) {
  const mlb_component *found[8] = {};
  std::vector<std::thread> threads;
  for (const mlb_component *&slot : found)
    threads.emplace_back([&slot] {
      if (Expected<const mlb_component *> c = findComponent(ComponentKind::Engine, "testing"))
        slot = *c;
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const mlb_component *one : found) {
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(one, found[0]);
  }
  EXPECT_EQ(fromComponent(found[0]->name), "testing");
}

TEST_F(Component, MissingOneNamesTheFileTheFoldersAndTheRemedy) {
  const Status status = findComponent(ComponentKind::SerDes, "cbor").status();
  EXPECT_EQ(status.code(), Code::NotFound);
  for (const std::string &part :
       {std::string("libmlbridge-serdes-cbor.so"), mlbridge::testing::testComponents(),
        std::string("MLBRIDGE_COMPONENT_PATH")})
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST_F(Component, OneThatIsOpenIsNotLookedForAgain) {
  ASSERT_TRUE(findComponent(ComponentKind::Engine, "testing"));
  ::setenv("MLBRIDGE_COMPONENT_PATH", "/nonexistent", 1);
  EXPECT_TRUE(findComponent(ComponentKind::Engine, "testing"));
}

TEST_F(Component, ANameIsNoPath) {
  for (const char *name : {"", "../x", "a/b", "A", "x y", "x\n", "%"})
    EXPECT_EQ(findComponent(ComponentKind::Engine, name).status().code(), Code::InvalidArgument)
        << name;
  EXPECT_FALSE(findComponent(ComponentKind::Engine, std::string(1000, 'a')));
}

TEST_F(Component, BrokenOnesAreRefusedWithTheReason) {
  const std::pair<const char *, const char *> broken[] = {
      {"wrong-abi", "ABI 99"},          {"short-table", "16 bytes"},
      {"no-entry", "no function"},      {"missing-function", "no complete engine table"},
      {"refuses", "refuses"},           {"short-engine", "no complete engine table"},
      {"not-an-object", "cannot open"}, {"other-name", "calls itself 'testing'"},
  };
  for (const auto &[name, why] : broken) {
    const Status status = findComponent(ComponentKind::Engine, name).status();
    EXPECT_EQ(status.code(), Code::Unsupported) << name << ": " << status.toString();
    EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(std::string("libmlbridge-engine-") + name), std::string::npos)
        << status.message();
  }
}

TEST_F(Component, LinkedOnesAreFoundByTheirName) {
  static const mlb_component testing = **findComponent(ComponentKind::Engine, "testing");
  static mlb_component linked = testing;
  linked.name = {"linked", 6};
  ASSERT_TRUE(registerComponent(linked));
  EXPECT_EQ(*findComponent(ComponentKind::Engine, "linked"), &linked);
  EXPECT_EQ(findComponent(ComponentKind::SerDes, "linked").status().code(), Code::NotFound);
  EXPECT_EQ(registerComponent(linked).code(), Code::InvalidArgument) << "there is one already";
  EXPECT_EQ(registerComponent(testing).code(), Code::InvalidArgument) << "it was opened";
  mlb_component broken = testing;
  for (const char *name : {"", "A/B", "unix", "native"}) {
    broken.name = {name, std::string_view(name).size()};
    EXPECT_EQ(registerComponent(broken).code(), Code::InvalidArgument) << name;
  }
  broken.name = {"broken", 6};
  broken.abi = 99;
  EXPECT_EQ(registerComponent(broken).code(), Code::Unsupported);
  broken.abi = testing.abi;
  broken.engine = nullptr;
  EXPECT_EQ(registerComponent(broken).code(), Code::Unsupported) << "nothing in it";
  const mlb_serdes serdes{sizeof(mlb_serdes), nullptr, nullptr, nullptr, nullptr, nullptr};
  broken.serdes = &serdes;
  EXPECT_NE(registerComponent(broken).message().find("serdes table: its function 'create' is null"),
            std::string::npos);
  mlb_transport transport{};
  transport.size = sizeof transport;
  broken.serdes = nullptr;
  broken.transport = &transport;
  EXPECT_NE(registerComponent(broken).message().find("its function 'connect' is null"),
            std::string::npos);
}

TEST_F(Component, NamesAreListed) {
  const std::vector<std::string> names = componentNames(ComponentKind::Engine);
  EXPECT_NE(std::find(names.begin(), names.end(), "testing"), names.end());
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST_F(Component, FoldersOfTheVariableComeFirst) {
  ::setenv("MLBRIDGE_COMPONENT_PATH", "::/a:/b::/a:", 1);
  const std::vector<std::string> folders = componentFolders();
  ASSERT_GE(folders.size(), 3u);
  EXPECT_EQ(folders[0], "/a");
  EXPECT_EQ(folders[1], "/b");
  EXPECT_EQ(std::count(folders.begin(), folders.end(), "/a"), 1);
}

TEST(ComponentError, MessagesAreCutAndUnknownCodesAreBugs) {
  ComponentError error;
  (void)fail(error.get(), Status(Code::Busy, std::string(5000, 'x')));
  EXPECT_EQ(error.status(static_cast<mlb_code>(Code::Busy), "onnx").message().size(), 6u + 1024u);
  (void)fail(error.get(), Status(Code::Busy, "odd"));
  EXPECT_TRUE(error.status(0, "onnx").ok());
  EXPECT_EQ(error.status(77, "onnx").code(), Code::Internal);
  EXPECT_EQ(error.status(-1, "onnx").code(), Code::Internal);
  EXPECT_EQ(error.status(9, "onnx").toString(), "invalid model: onnx: odd");
  EXPECT_EQ(fail(nullptr, Status(Code::Busy, "nothing is written")), 3);
}

TEST(ComponentSpecs, GoBothWays) {
  const std::vector<TensorSpec> specs = {TensorSpec::of<float>("a", {-1, 3}, {5, 0}),
                                         TensorSpec::of<std::string>("b")};
  const std::vector<mlb_tensor_spec> table = toComponent(specs);
  ASSERT_EQ(table.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const Expected<TensorSpec> back = fromComponent(table.data()[i]);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, specs[i]);
  }
  mlb_tensor_spec bad = table.data()[0];
  bad.type = 0x10a; // would be Float32 if cut to a byte
  EXPECT_FALSE(fromComponent(bad));
  bad = table.data()[0];
  bad.shape = nullptr;
  EXPECT_FALSE(fromComponent(bad));
}
