/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * All of the C interface. Plain C11: every struct states its size, and every name begins with
 * mlbridge_ or MLBRIDGE_. docs/c.md is the guide.
 *
 * Strings that go in are UTF-8, terminated, and copied. What a function gives out belongs to the
 * object that it was asked of, unless its verb is open, new, create or listen: then the caller
 * closes or destroys it, and it is never null, but carries its failure. A null object is an error
 * of the call (MLBRIDGE_INVALID_ARGUMENT), never a crash, and nothing to close or destroy. Nothing
 * here prints or exits. */
#ifndef MLBRIDGE_C_MLBRIDGE_H
#define MLBRIDGE_C_MLBRIDGE_H

#include <mlbridge/c/driver.h>
#include <mlbridge/c/environment.h>
#include <mlbridge/c/extension.h>
#include <mlbridge/c/function.h>
#include <mlbridge/c/model.h>
#include <mlbridge/c/runner.h>
#include <mlbridge/c/sampler.h>
#include <mlbridge/c/server.h>
#include <mlbridge/c/status.h>
#include <mlbridge/c/tensor.h>

#endif
