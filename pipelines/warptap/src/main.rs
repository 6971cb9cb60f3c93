//! The `warptap` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    warptap::main()
}
