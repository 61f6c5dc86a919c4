// SPDX-License-Identifier: MIT
    .section .rodata
    .global image_start, image_end
    .balign 16
image_start:
    .incbin "process"
image_end:
    .section .note.GNU-stack, "", %progbits
