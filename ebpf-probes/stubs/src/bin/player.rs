//! The player as a program; everything is in [`stubs::player`].

use std::process::ExitCode;

fn main() -> ExitCode {
    stubs::player::main(std::env::args_os().skip(1))
}
