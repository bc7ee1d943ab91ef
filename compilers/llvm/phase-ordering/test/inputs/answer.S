# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# An assembler file, which no pass sees.
#ifdef __x86_64__
.globl answer
answer:
  movl $42, %eax
  ret
#else
.globl answer
answer:
#endif
.section .note.GNU-stack,"",@progbits
