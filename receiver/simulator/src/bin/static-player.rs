//! The player with libcudart's functions in the executable, as in a program linked with the static CUDA runtime: no
//! libcudart is mapped, and the symbols are only in the executable's symbol table. The driver is loaded, as the static
//! runtime does.
//!
//! All threads publish the same trace context, the initial value of the thread-local variable.

#![allow(unsafe_code, reason = "the program contains the functions of a C library")]
#![allow(non_snake_case, reason = "the functions have their C names")]

use std::arch::global_asm;
use std::process::ExitCode;

use simulator::functions::Own;
use simulator::{stub_controls, stub_function};

// The variable, exported by build.rs, and the record that it points to: trace, span, valid, sampled, no attributes.
global_asm!(
    ".section .tdata,\"awT\",@progbits",
    ".globl otel_thread_ctx_v1",
    ".size otel_thread_ctx_v1, 8",
    ".p2align 3",
    "otel_thread_ctx_v1:",
    ".quad warptap_stub_record",
    ".section .data.warptap_stub_record,\"aw\",@progbits",
    ".globl warptap_stub_record",
    ".hidden warptap_stub_record",
    ".p2align 1",
    "warptap_stub_record:",
    ".fill 16, 1, 0x5a",
    ".fill 8, 1, 0xa5",
    ".byte 1, 1, 0, 0",
    ".text",
);

unsafe extern "C" {
    /// The first byte of the record.
    static mut warptap_stub_record: u8;
}

stub_controls!();
include!(concat!(env!("OUT_DIR"), "/cudart_functions.rs"));

/// Returns the control functions; the generated `functions` returns the others.
fn controls() -> Own {
    vec![
        ("warptap_stub_lenient", warptap_stub_lenient as *const () as usize),
        ("warptap_stub_nested", warptap_stub_nested as *const () as usize),
        ("warptap_stub_next", warptap_stub_next as *const () as usize),
        ("warptap_stub_seen", warptap_stub_seen as *const () as usize),
    ]
}

/// Writes to the record, as programs do that publish one. Kernel programs cannot read a page that was never accessed.
fn write_record() {
    let record = &raw mut warptap_stub_record;
    // SAFETY: the byte is in the section above, and no other thread runs yet.
    unsafe { record.write_volatile(record.read_volatile()) };
}

fn main() -> ExitCode {
    write_record();
    let own = functions().into_iter().chain(controls()).collect();
    simulator::player::main_with_own(std::env::args_os().skip(1), own)
}
