//! The player as a program, see [`simulator::player`].

use std::process::ExitCode;

fn main() -> ExitCode {
    simulator::player::main(std::env::args_os().skip(1))
}
