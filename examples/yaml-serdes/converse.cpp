// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// converse serve URI        a model that answers one request: the place of the largest number
// converse ask URI          a compiler: with ?serdes=yaml it asks in YAML
// Nothing but the first lines knows of YAML.
#ifdef YAML_LINKED
#include <mlbridge/engine.h>
const mlb_component &yamlComponent(); // yaml.cpp
#endif
#include <mlbridge/model.h>
#include <mlbridge/server.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

using mlbridge::TensorSpec;

namespace {

const mlbridge::Signature Choice = {
    {TensorSpec::of<float>("embedding", {mlbridge::Dynamic}),
     TensorSpec::of<std::string>("module")},
    {TensorSpec::of<int64_t>("action"), TensorSpec::of<std::string>("why")}};

int serve(const char *uri) {
  mlbridge::ServerOptions options;
  options.signature = Choice;
  mlbridge::Expected<mlbridge::Server> server = mlbridge::Server::listen(uri, options);
  if (!server) {
    std::fprintf(stderr, "%s\n", server.status().toString().c_str());
    return 1;
  }
  std::puts("ready");
  std::fflush(stdout);
  bool isAnswered = false;
  while (!isAnswered) {
    mlbridge::Expected<mlbridge::Event> event =
        server->next(mlbridge::Deadline::after(std::chrono::seconds(30)));
    if (!event)
      return 1;
    if (event->kind() != mlbridge::EventKind::Request)
      continue;
    const auto numbers = event->input(0).as<float>();
    *event->output(0).as<int64_t>().data() =
        std::max_element(numbers.begin(), numbers.end()) - numbers.begin();
    *event->output(1).as<std::string>().data() = "largest of " + std::to_string(numbers.size()) +
                                                 " in \"" +
                                                 *event->input(1).as<std::string>().data() + "\"";
    isAnswered = event->reply().ok();
  }
  return 0;
}

int ask(const char *uri) {
  mlbridge::Runner runner = mlbridge::open(uri, Choice);
  const std::vector<float> embedding = {0.5F, -1.25e-7F, 3, 2};
  (void)runner.set("embedding", embedding); // status() will tell
  (void)runner.set("module", "main.c\t# not a comment");
  const int64_t action = runner.evaluateOr<int64_t>([] { return int64_t{-1}; });
  std::printf("%d %s\n", int(action), runner.status().toString().c_str());
  if (runner.status())
    std::printf("%s\n", runner.output<std::string>("why")[0].c_str());
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
#ifdef YAML_LINKED
  if (mlbridge::Status s = mlbridge::registerComponent(yamlComponent()); !s)
    std::fprintf(stderr, "%s\n", s.toString().c_str());
#endif
  return std::string(argv[1]) == "serve" ? serve(argv[2]) : ask(argv[2]);
}
