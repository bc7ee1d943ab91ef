// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and writes the messages of tests/golden/serdes, which another implementation has made; see
// tests/golden/make_serdes.py for what index.json says of them.
#include "testing/built.h"
#include "testing/tensors.h"

#include <fstream>
#include <gtest/gtest.h>
#include <simdjson.h>
#include <sstream>

namespace mlbridge {
namespace {

using namespace mlbridge::testing;
namespace dom = simdjson::dom;

const std::string Folder = sourceFile("tests/golden/serdes/");

std::string fileNamed(const std::string &name) {
  std::ifstream file(Folder + name, std::ios::binary);
  EXPECT_TRUE(file) << Folder + name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string text(dom::element element) { return std::string(std::string_view(element)); }

std::string fromHex(std::string_view digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  return bytes;
}

Shape lengths(dom::element list) {
  Shape shape;
  for (int64_t length : list.get_array())
    shape.push_back(length);
  return shape;
}

std::vector<TensorSpec> specsOf(dom::element golden) {
  std::vector<TensorSpec> specs;
  for (dom::element from : golden["specs"].get_array()) {
    TensorSpec spec;
    spec.name = text(from["name"]);
    spec.type = *elementTypeNamed(text(from["type"]));
    spec.shape = lengths(from["shape"]);
    dom::element maximum;
    if (!from["maximum"].get(maximum))
      spec.maximum = lengths(maximum);
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<Tensor> tensorsOf(dom::element golden, const std::vector<TensorSpec> &specs) {
  std::vector<Tensor> tensors;
  for (dom::element from : golden["values"].get_array()) {
    Expected<Tensor> made = Tensor::make(specs[tensors.size()], lengths(from["shape"]));
    EXPECT_TRUE(made) << made.status().toString();
    TensorView view = made->view();
    if (view.type == ElementType::String) {
      size_t k = 0;
      for (std::string_view digits : from["strings"].get_array())
        view.as<std::string>()[k++] = fromHex(digits);
    } else {
      std::string bits = fromHex(text(from["bits"]));
      EXPECT_EQ(bits.size(), view.bytes());
      std::copy(bits.begin(), bits.end(), static_cast<char *>(view.data));
    }
    tensors.push_back(std::move(*made));
  }
  return tensors;
}

void checkGood(dom::element golden, const Codec &codec, const std::vector<TensorSpec> &specs,
               const std::string &message) {
  std::vector<Tensor> tensors = tensorsOf(golden, specs);
  ASSERT_EQ(tensors.size(), specs.size());
  Tensors read(specs);
  Status s = decode(codec, message, read);
  ASSERT_TRUE(s) << s.toString();
  for (size_t i = 0; i < specs.size(); ++i)
    EXPECT_TRUE(same(tensors[i], read.tensors[i])) << specs[i].toString();
  if (!bool(golden["canonical"]))
    return;
  Buffer written;
  ASSERT_TRUE(codec.encode(viewsOf(tensors), written));
  EXPECT_EQ(textOf(written), message);
}

void checkBad(dom::element golden, const Codec &codec, const std::vector<TensorSpec> &specs,
              const std::string &message) {
  Tensors read(specs);
  Status s = decode(codec, message, read);
  EXPECT_EQ(s.code(), Code::Protocol) << s.toString();
  for (std::string_view part : golden["mentions"].get_array())
    EXPECT_NE(s.message().find(part), std::string::npos) << s.message() << " without " << part;
}

class GoldenMessages : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenMessages, MeanWhatTheIndexSays) {
  dom::parser parser;
  dom::element index;
  ASSERT_EQ(parser.load(Folder + "index.json").get(index), simdjson::SUCCESS);
  auto serdes = serdesNamed(GetParam());
  ASSERT_TRUE(serdes) << serdes.status().toString();
  int good = 0, bad = 0;
  for (dom::element golden : index["cases"].get_array()) {
    std::string file = text(golden["file"]);
    SCOPED_TRACE(file);
    if (text(golden["serdes"]) != GetParam())
      continue;
    std::vector<TensorSpec> specs = specsOf(golden);
    auto codec = (*serdes)->newCodec(specs);
    ASSERT_TRUE(codec) << codec.status().toString();
    bool isGood = !golden["values"].error();
    (isGood ? checkGood : checkBad)(golden, **codec, specs, fileNamed(file));
    ++(isGood ? good : bad);
  }
  EXPECT_GT(good, 20);
  EXPECT_GT(bad, 10);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenMessages, ::testing::ValuesIn(serdes()), nameOf);

} // namespace
} // namespace mlbridge
