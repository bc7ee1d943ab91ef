// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A SerDes that lives in a component: C++ on this side, the table of mlbridge/component.h on the
// other.
#ifndef MLBRIDGE_SERDES_COMPONENT_SERDES_H
#define MLBRIDGE_SERDES_COMPONENT_SERDES_H

#include "serdes/serdes.h"
#include <mlbridge/component.h>

namespace mlbridge {

/// `table` must live as long as the result and its codecs. InvalidArgument if the table is too
/// short for this version of the library.
Expected<std::unique_ptr<SerDes>> newComponentSerDes(std::string name, const mlb_serdes *table);

} // namespace mlbridge

#endif
