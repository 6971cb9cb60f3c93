//! A process in a user namespace, where it mounts what it wants.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns a command that runs this test's program as a user in a user namespace, where a file is at a second path, too. Needs
/// setpriv(1), unshare(1) and mount(8).
pub fn with_file_at(user: u32, file: &Path, also_at: &Path) -> Command {
    fs::write(also_at, "").expect("the directory can be written");
    let (user, program) = (user.to_string(), also_at.with_file_name("program"));
    // The program itself may be in a directory that other users cannot read.
    let _ = fs::hard_link(std::env::current_exe().expect("this program is a file"), &program);
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    command.args(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.arg("mount --bind \"$0\" \"$1\" && shift && exec \"$@\"").args([file, also_at]).arg(program);
    command
}
