// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stands in for trained networks: an allowed choice that depends on each bit of all inputs. For a
// FunctionCall in process, a server's Event, or a driver.
#ifndef TWO_AGENTS_CHOOSE_H
#define TWO_AGENTS_CHOOSE_H

#include <mlbridge/function.h>
#include <mlbridge/server.h>

#include <algorithm>
#include <string>

template <typename Call> int64_t choose(const Call &call) {
  uint64_t hash = 0xcbf29ce484222325U; // FNV-1a
  const auto add = [&](const void *bytes, size_t size) {
    for (size_t i = 0; i < size; ++i)
      hash = (hash ^ static_cast<const unsigned char *>(bytes)[i]) * 0x100000001b3U;
  };
  mlbridge::Span<bool> mask;
  for (size_t i = 0; i < call.signature().inputs.size(); ++i) {
    const mlbridge::TensorView input = call.input(i);
    if (input.type == mlbridge::ElementType::String) {
      for (const std::string &text : input.template as<std::string>())
        add(text.data(), text.size());
      continue;
    }
    add(input.data, input.bytes());
    if (input.type == mlbridge::ElementType::Bool)
      mask = input.template as<bool>();
  }
  const auto allowed = static_cast<uint64_t>(std::count(mask.begin(), mask.end(), true));
  uint64_t left = allowed ? hash % allowed : 0;
  for (size_t i = 0; i < mask.size(); ++i)
    if (mask[i] && left-- == 0)
      return static_cast<int64_t>(i);
  return -1;
}

inline mlbridge::Status registerChoose(const char *name) {
  const auto answer = [](mlbridge::FunctionCall &call) {
    call.output(0).as<int64_t>()[0] = choose(call);
    return mlbridge::Status();
  };
  return mlbridge::registerFunction(name, [answer](const mlbridge::Uri &) {
    return mlbridge::FunctionModel{{}, {}, [answer] { return answer; }};
  });
}

/// In a server.
inline void answer(mlbridge::Event &event) {
  if (event.kind() != mlbridge::EventKind::Request)
    return;
  event.output(0).as<int64_t>()[0] = choose(event);
  (void)event.reply();
}

#endif
