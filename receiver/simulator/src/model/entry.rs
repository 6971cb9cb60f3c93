//! The code between an exported symbol and its handler.
//!
//! A probed function should begin with `push %rbp`, which uprobes emulate (others are single-stepped), and must preserve
//! the argument registers. So every exported function is written in assembly: it makes a frame, loads its index and jumps
//! to a common part, which saves the registers for the Rust handler.

use super::handler::{device_handler, forward_handler};

/// Defines one exported function of a stub: `$index` is its index, `$common` the common part.
#[cfg(target_arch = "x86_64")]
#[macro_export]
macro_rules! stub_function {
    ($common:ident, $index:literal, $symbol:ident) => {
        /// A function of the GPU API.
        ///
        /// # Safety
        /// As its C prototype requires.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $symbol() {
            core::arch::naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                concat!("mov eax, ", $index),
                "jmp {common}",
                common = sym $crate::model::entry::$common,
            )
        }
    };
}

/// Defines one exported function of a stub: `$index` is its index, `$common` the common part.
#[cfg(target_arch = "aarch64")]
#[macro_export]
macro_rules! stub_function {
    ($common:ident, $index:literal, $symbol:ident) => {
        /// A function of the GPU API.
        ///
        /// # Safety
        /// As its C prototype requires.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $symbol() {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-80]!",
                "mov x29, sp",
                concat!("mov w9, #", $index),
                "b {common}",
                common = sym $crate::model::entry::$common,
            )
        }
    };
}

/// Defines the common part `$name`, which calls the Rust function `$handler`.
#[cfg(target_arch = "x86_64")]
macro_rules! common_part {
    ($(#[$doc:meta])* $name:ident, $handler:path) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// Only stub functions may jump to it, with their frame made and their index in eax.
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "sub rsp, 48",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "mov edi, eax",
                "mov rsi, rsp",
                "lea rdx, [rbp + 16]",
                "call {handler}",
                "leave",
                "ret",
                handler = sym $handler,
            )
        }
    };
}

/// Defines the common part `$name`, which calls the Rust function `$handler`.
#[cfg(target_arch = "aarch64")]
macro_rules! common_part {
    ($(#[$doc:meta])* $name:ident, $handler:path) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// Only stub functions may jump to it, with their frame made and their index in w9.
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "mov w0, w9",
                "add x1, sp, #16",
                "add x2, sp, #80",
                "bl {handler}",
                "ldp x29, x30, [sp], #80",
                "ret",
                handler = sym $handler,
            )
        }
    };
}

common_part! {
    /// The common part of the libraries that contain a device model.
    device, device_handler
}
common_part! {
    /// The common part of libcudart.
    forward, forward_handler
}
