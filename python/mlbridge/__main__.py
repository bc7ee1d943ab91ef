# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m mlbridge`."""

import sys

from .cli import main

sys.exit(main())
