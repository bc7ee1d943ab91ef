// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options of a URI, each of which is taken or refused by the floor that it belongs to.
#ifndef MLBRIDGE_CORE_URI_OPTIONS_H
#define MLBRIDGE_CORE_URI_OPTIONS_H

#include <mlbridge/tensor.h>
#include <mlbridge/uri.h>

#include <optional>

namespace mlbridge {

/// Takes an option out of the URI.
std::optional<std::string> takeOption(Uri &uri, const std::string &key);
/// Takes it into `to`, which stays as it is without it.
void takeOption(Uri &uri, const std::string &key, std::string &to);

/// InvalidArgument: an engine, transport or function has other options than this one.
Status unknownOption(std::string_view scheme, std::string_view key,
                     Span<const std::string_view> known);
/// True if the failure is that of unknownOption, maybe of a component.
bool isUnknownOption(const Status &status, const std::string &key);

} // namespace mlbridge

#endif
