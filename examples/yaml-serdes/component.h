// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef YAML_COMPONENT_H
#define YAML_COMPONENT_H

#include <mlbridge/component.h>

const mlb_component &yamlComponent();

#endif
