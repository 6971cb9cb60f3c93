//! A shared object that exports the thread-local variable in which threads publish their trace contexts, and a function
//! that returns the address of the calling thread's, as the native part of a tracer does.
//!
//! Written in assembly, so that rustc alone can build each TLS access model: `tls_model` is `descriptor` (TLSDESC),
//! `module` (general dynamic, x86-64 only) or `distance` (initial-exec); with `large` the TLS block exceeds the surplus
//! that the loader reserves at start. Built by build.rs and not part of the crate, since a `cdylib` would hide the
//! variable.

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

#[cfg(all(target_arch = "x86_64", tls_model = "descriptor"))]
global_asm!(
    "pushq %rbp",
    "leaq otel_thread_ctx_v1@tlsdesc(%rip), %rax",
    "call *otel_thread_ctx_v1@tlscall(%rax)",
    "addq %fs:0, %rax",
    "popq %rbp",
    "retq",
    options(att_syntax)
);

// Padded to the length that linkers can rewrite.
#[cfg(all(target_arch = "x86_64", tls_model = "module"))]
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

#[cfg(all(target_arch = "x86_64", tls_model = "distance"))]
global_asm!(
    "movq otel_thread_ctx_v1@gottpoff(%rip), %rax",
    "addq %fs:0, %rax",
    "retq",
    options(att_syntax)
);

#[cfg(all(target_arch = "aarch64", tls_model = "descriptor"))]
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

#[cfg(all(target_arch = "aarch64", tls_model = "distance"))]
global_asm!(
    "adrp x0, :gottprel:otel_thread_ctx_v1",
    "ldr x0, [x0, :gottprel_lo12:otel_thread_ctx_v1]",
    "mrs x1, tpidr_el0",
    "add x0, x0, x1",
    "ret",
);
