// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Things that are known by a name for as long as the process lives.
#ifndef MLBRIDGE_CORE_REGISTRY_H
#define MLBRIDGE_CORE_REGISTRY_H

#include "core/message.h"
#include "core/nearest.h"

#include <map>
#include <mutex>
#include <optional>

namespace mlbridge {

/// Thread-safe. To be made with `new` and never destroyed: threads may run until the process has
/// ended.
template <typename Value> class Registry {
public:
  /// False if the name is taken.
  bool add(std::string name, Value value) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return values_.emplace(std::move(name), std::move(value)).second;
  }
  /// The same for all of the names, or none.
  bool addAll(const std::vector<std::string> &names, const Value &value) {
    const std::lock_guard<std::mutex> guard(mutex_);
    for (const std::string &name : names)
      if (values_.count(name))
        return false;
    for (const std::string &name : names)
      values_.emplace(name, value);
    return true;
  }
  std::optional<Value> find(std::string_view name) const {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = values_.find(name);
    return found == values_.end() ? std::nullopt : std::optional<Value>(found->second);
  }
  /// The value that has the name afterwards: the first one that was given.
  Value findOrAdd(std::string_view name, Value value) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return values_.emplace(name, std::move(value)).first->second;
  }
  std::vector<std::string> names() const {
    const std::lock_guard<std::mutex> guard(mutex_);
    std::vector<std::string> names;
    for (const auto &[name, value] : values_)
      names.push_back(name);
    return names;
  }
  /// For the error of a name that is not there: "; did you mean 'a'? (registered: a, b)".
  std::string suggestion(std::string_view name, std::string_view what = "registered") const {
    const std::vector<std::string> known = names();
    return mlbridge::suggestion(name, viewsOf(known), what);
  }

private:
  mutable std::mutex mutex_;
  std::map<std::string, Value, std::less<>> values_;
};

} // namespace mlbridge

#endif
