/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The version of MLBridge, by semver.org; docs/compatibility.md says what each number promises. It
 * stands here alone: CMake, pkg-config, Python's packages and the commands read this file. */
#ifndef MLBRIDGE_VERSION_H
#define MLBRIDGE_VERSION_H

/* Grows with incompatible changes. */
#define MLBRIDGE_VERSION_MAJOR 0
/* Grows with additions; before 1.0.0, also with incompatible changes. */
#define MLBRIDGE_VERSION_MINOR 2
/* Grows with corrections. */
#define MLBRIDGE_VERSION_PATCH 0

#endif
