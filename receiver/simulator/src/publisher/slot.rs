//! A shared object that exports the thread-local variable by which threads publish their trace contexts, and a function
//! that says where the calling thread's stands: what a tracer's native part is to whoever looks at it from outside.
//!
//! The one idea: an object in assembly, so that each way of reaching a variable that compilers know can be had from
//! rustc alone: `way` is one of `descriptor` (TLSDESC), `module` (the older GNU dialect, x86-64 only) and `distance`
//! (initial-exec); with `large` its block is too large for the room that the loader keeps beside those of the start.
//! Built by build.rs, not part of the crate: a `cdylib` would hide the variable.

#![no_std]

use core::arch::global_asm;

#[cfg(large)]
global_asm!(".section .tbss,\"awT\",@nobits", ".p2align 3", ".zero 65536", ".text");

global_asm!(
    ".section .tbss,\"awT\",@nobits",
    ".globl otel_thread_ctx_v1",
    ".size otel_thread_ctx_v1, 8",
    ".p2align 3",
    "otel_thread_ctx_v1:",
    ".zero 8",
    ".text",
    ".globl warptap_stub_context",
    ".type warptap_stub_context, @function",
    "warptap_stub_context:",
);

#[cfg(all(target_arch = "x86_64", way = "descriptor"))]
global_asm!(
    "pushq %rbp",
    "leaq otel_thread_ctx_v1@tlsdesc(%rip), %rax",
    "call *otel_thread_ctx_v1@tlscall(%rax)",
    "addq %fs:0, %rax",
    "popq %rbp",
    "retq",
    options(att_syntax)
);

// Padded to the length that linkers know to rewrite.
#[cfg(all(target_arch = "x86_64", way = "module"))]
global_asm!(
    "pushq %rbp",
    ".byte 0x66",
    "leaq otel_thread_ctx_v1@tlsgd(%rip), %rdi",
    ".value 0x6666",
    "rex64",
    "call __tls_get_addr@PLT",
    "popq %rbp",
    "retq",
    options(att_syntax)
);

#[cfg(all(target_arch = "x86_64", way = "distance"))]
global_asm!(
    "movq otel_thread_ctx_v1@gottpoff(%rip), %rax",
    "addq %fs:0, %rax",
    "retq",
    options(att_syntax)
);

#[cfg(all(target_arch = "aarch64", way = "descriptor"))]
global_asm!(
    "stp x29, x30, [sp, #-16]!",
    "adrp x0, :tlsdesc:otel_thread_ctx_v1",
    "ldr x1, [x0, :tlsdesc_lo12:otel_thread_ctx_v1]",
    "add x0, x0, :tlsdesc_lo12:otel_thread_ctx_v1",
    ".tlsdesccall otel_thread_ctx_v1",
    "blr x1",
    "mrs x1, tpidr_el0",
    "add x0, x0, x1",
    "ldp x29, x30, [sp], #16",
    "ret",
);

#[cfg(all(target_arch = "aarch64", way = "distance"))]
global_asm!(
    "adrp x0, :gottprel:otel_thread_ctx_v1",
    "ldr x0, [x0, :gottprel_lo12:otel_thread_ctx_v1]",
    "mrs x1, tpidr_el0",
    "add x0, x0, x1",
    "ret",
);
