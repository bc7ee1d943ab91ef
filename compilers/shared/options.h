// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared by the plugins of all compilers: the options with which they open a model, and the texts
// of their messages. Depends on no compiler.
#ifndef MLBRIDGE_COMPILERS_SHARED_OPTIONS_H
#define MLBRIDGE_COMPILERS_SHARED_OPTIONS_H

#include <mlbridge/model.h>

#include <string>

namespace mlbridge::plugin {

struct ModelOptions {
  std::string Prefix; ///< "inliner" if an option is -inliner-model, empty if it is model
  std::string Model;  ///< a URI
  std::string Deadline = "5s";
  std::string OnFailure = "stock"; ///< or "fail"

  /// InvalidArgument: the option -PREFIX-OPTION has a value that it can't have.
  Status invalid(const std::string &Option, const std::string &Expected,
                 const std::string &Value) const;
  /// InvalidArgument if there is no model.
  Status checkModel() const;
  /// The first other option that makes no sense, as InvalidArgument.
  Status check() const;
  bool mustNotFail() const { return OnFailure == "fail"; }
  /// Options with which the model is opened, or a Runner made, for a file or function, the context.
  /// Requires that check() has accepted these.
  OpenOptions opening(std::string Unit = {}) const;
  /// The text of a failure, with the model's URI.
  std::string describe(const Status &Failure) const;

private:
  std::string nameOf(const std::string &Option) const;
};

} // namespace mlbridge::plugin

#endif
