/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   bc's library of mathematical functions left empty: it is made by running a first bc. */
{"", 0}
