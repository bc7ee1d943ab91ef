// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that the onnx engine has to refuse, with a code and a message that says what to do: files
// that are no models, models that it cannot run, wrong options, and a missing or unfit ONNX
// Runtime.
#include "test_models.h"

#include <mlbridge/model.h>

#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <sys/stat.h>

namespace mlbridge {
namespace {

using onnx::golden;
using onnx::goldenFile;

struct Bad {
  const char *name;
  std::string uri;
  Code code;
  std::vector<const char *> says;
};
std::ostream &operator<<(std::ostream &out, const Bad &bad) { return out << bad.name; }

class BadOnnx : public ::testing::TestWithParam<Bad> {};

TEST_P(BadOnnx, IsRefusedWithACodeAndAMessageAndNothingIsPrinted) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const Model model = Model::open(GetParam().uri);
  const std::string printed =
      ::testing::internal::GetCapturedStdout() + ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(printed, "");
  EXPECT_EQ(model.status().code(), GetParam().code) << model.status().toString();
  for (const char *part : GetParam().says)
    EXPECT_NE(model.status().message().find(part), std::string::npos)
        << "'" << part << "' is not in: " << model.status().message();
  EXPECT_EQ(model.status().message().find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadOnnx,
    ::testing::Values(
        Bad{"missing", golden("no-such"), Code::NotFound, {"no-such.onnx", "No such file"}},
        Bad{"below_a_file", golden("linear.onnx/x"), Code::NotFound, {"Not a directory"}},
        Bad{"folder", "onnx:" + testing::sourceFile("src"), Code::InvalidArgument, {"is a folder"}},
        Bad{"device", "onnx:/dev/null", Code::InvalidArgument, {"not a regular file"}},
        Bad{"no_place", "onnx:", Code::InvalidArgument, {}},
        Bad{"not_onnx", "onnx:" + goldenFile("make.py"), Code::InvalidModel, {"make.py"}}),
    [](const auto &info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Models, BadOnnx,
    ::testing::Values(
        Bad{"sequence", golden("sequence"), Code::Unsupported, {"'many'", "sequence"}},
        Bad{"bfloat16", golden("bfloat16"), Code::Unsupported, {"'brain'"}},
        Bad{"unknown_operator", golden("unknown-operator"), Code::InvalidModel, {"Teleport"}},
        Bad{"no_custom_ops", golden("bucketize"), Code::InvalidModel, {"Bucketize"}},
        Bad{"future_opset", golden("future-opset"), Code::InvalidModel, {"9999"}},
        Bad{"external_missing", golden("external-missing"), Code::NotFound, {"nowhere.bin"}},
        Bad{"external_escape", golden("external-escape"), Code::InvalidModel, {"own folder"}},
        Bad{"external_absolute", golden("external-absolute"), Code::InvalidModel, {"/dev/zero"}},
        Bad{"external_beyond",
            golden("external-beyond"),
            Code::InvalidModel,
            {"24 bytes, expected"}},
        Bad{"external_overflow", golden("external-overflow"), Code::InvalidModel, {"valid number"}},
        Bad{"external_short", golden("external-short"), Code::InvalidModel, {"external"}},
        Bad{"external_constant", golden("external-constant"), Code::Unsupported, {"one file"}}),
    [](const auto &info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Options, BadOnnx,
    ::testing::Values(
        Bad{"unknown",
            golden("linear") + "?thread=2",
            Code::InvalidArgument,
            {"no option 'thread'", "did you mean 'threads'?", "custom_ops"}},
        Bad{"custom_ops_missing",
            golden("bucketize") + "?custom_ops=/nowhere/ops.so",
            Code::NotFound,
            {"/nowhere/ops.so", "No such file"}},
        Bad{"custom_ops_second_missing",
            golden("bucketize") + "?custom_ops=" + testing::library("bucketize") +
                ":/nowhere/more.so",
            Code::NotFound,
            {"/nowhere/more.so"}},
        Bad{"custom_ops_none",
            golden("linear") + "?custom_ops=",
            Code::InvalidArgument,
            {"custom_ops", "files"}},
        Bad{"custom_ops_other",
            golden("linear") + "?custom_ops=" + testing::library("engine_onnx"),
            Code::InvalidArgument,
            {"RegisterCustomOps"}},
        Bad{"spin", golden("linear") + "?spin=no", Code::InvalidArgument, {"spin", "0 or 1"}},
        Bad{"arena", golden("linear") + "?arena=", Code::InvalidArgument, {"arena", "0 or 1"}},
        Bad{"threads_zero", golden("linear") + "?threads=0", Code::InvalidArgument, {"1 to"}},
        Bad{"threads_text", golden("linear") + "?threads=2x", Code::InvalidArgument, {"2x"}},
        Bad{"threads_huge", golden("linear") + "?threads=99999999999", Code::InvalidArgument, {}},
        Bad{"prepack", golden("linear") + "?prepack=yes", Code::InvalidArgument, {"0 or 1"}},
        Bad{"optimize", golden("linear") + "?optimize=fast", Code::InvalidArgument, {"extended"}}),
    [](const auto &info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Runtimes, BadOnnx,
    ::testing::Values(Bad{"nowhere",
                          golden("linear") + "?runtime=/nowhere",
                          Code::NotFound,
                          {"/nowhere", "pip install onnxruntime", "Debian's pip refuses",
                           "python3 -m venv", "libonnxruntime", "MLBRIDGE_ONNXRUNTIME"}},
                      Bad{"no_library",
                          golden("linear") + "?runtime=" + goldenFile("make.py"),
                          Code::NotFound,
                          {"make.py"}},
                      Bad{"another_library",
                          golden("linear") + "?runtime=" + testing::library("engine_onnx"),
                          Code::NotFound,
                          {"not ONNX Runtime"}},
                      Bad{"too_old",
                          golden("linear") + "?runtime=" + testing::library("old_runtime"),
                          Code::Unsupported,
                          {"1.2.0", "version 16"}},
                      Bad{"without_the_api",
                          golden("linear") + "?runtime=" + testing::library("empty_runtime"),
                          Code::Unsupported,
                          {"1.99.0", "version 16"}}),
    [](const auto &info) { return info.param.name; });

TEST(BadOnnxFile, AMissingFileIsToldBeforeAMissingRuntime) {
  const Model model = Model::open(golden("no-such") + "?runtime=/nowhere");
  EXPECT_NE(model.status().message().find("no-such.onnx"), std::string::npos);
}

TEST(BadOnnxFile, TheEnvironmentMayNameARuntimeThatIsNotThere) {
  const onnx::Variable variable("MLBRIDGE_ONNXRUNTIME", "/nowhere/at/all");
  const Model model = Model::open(golden("linear"));
  EXPECT_EQ(model.status().code(), Code::NotFound);
  EXPECT_NE(model.status().message().find("/nowhere/at/all"), std::string::npos);
  EXPECT_NE(model.status().message().find("MLBRIDGE_ONNXRUNTIME names"), std::string::npos);
}

TEST(BadOnnxFile, AFifoDoesNotHang) {
  const onnx::ScratchFolder folder;
  const std::string path = folder.path() + "/fifo.onnx";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(Model::open("onnx:" + path).status().code(), Code::InvalidArgument);
}

TEST(BadOnnxFile, AnEmptyFileIsNoModel) {
  const onnx::ScratchFolder folder;
  onnx::writeFile(folder.path() + "/empty.onnx", "");
  const Status status = Model::open("onnx:" + folder.path() + "/empty.onnx").status();
  EXPECT_EQ(status.code(), Code::InvalidModel);
  EXPECT_NE(status.message().find("is empty"), std::string::npos);
}

TEST(BadOnnxFile, NoPrefixOfAModelIsTakenForIt) {
  const onnx::ScratchFolder folder;
  const std::string path = folder.path() + "/cut.onnx";
  const std::string whole = onnx::readFileText(goldenFile("policy.onnx"));
  ASSERT_GT(whole.size(), 100u);
  for (size_t size = 1; size < whole.size(); ++size) {
    onnx::writeFile(path, whole.substr(0, size));
    const Model model = Model::open("onnx:" + path);
    EXPECT_EQ(model.status().code(), Code::InvalidModel)
        << size << " of " << whole.size() << ": " << model.status().toString();
  }
}

TEST(BadOnnxFile, ADamagedModelIsRefusedOrRuns) {
  const onnx::ScratchFolder folder;
  const std::string path = folder.path() + "/damaged.onnx";
  std::mt19937 random(1);
  for (const char *name : {"policy.onnx", "dynamic.onnx", "external-data.onnx"}) {
    const std::string whole = onnx::readFileText(goldenFile(name));
    for (int round = 0; round < 300; ++round) {
      std::string bytes = whole;
      for (int k = 0; k <= round % 3; ++k)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      onnx::writeFile(path, bytes);
      Model model = Model::open("onnx:" + path);
      if (!model) {
        EXPECT_FALSE(model.status().message().empty());
        continue;
      }
      (void)model.bind(*model.modelSignature());
      Runner runner = model.newRunner();
      (void)runner.evaluate();
    }
  }
}

TEST(BadOnnxFile, AnotherSignatureIsRefusedWithBothSides) {
  Model model = Model::open(golden("policy"));
  ASSERT_TRUE(model) << model.status().toString();
  const Status status =
      model.bind({{TensorSpec::of<float>("features", {4}), TensorSpec::of<int64_t>("step")},
                  {TensorSpec::of<int64_t>("action")}});
  EXPECT_EQ(status.code(), Code::Mismatch);
  EXPECT_NE(status.message().find("features: float32[4]"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("features: float32[3]"), std::string::npos) << status.message();
}

} // namespace
} // namespace mlbridge
