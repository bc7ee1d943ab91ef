// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef GRAPH_COMPONENT_H
#define GRAPH_COMPONENT_H

#include <mlbridge/component.h>

const mlb_component &graphComponent();

#endif
