//! Hostile processes of an unprivileged user, for tests of an agent that examines them.
//!
//! A test executes itself with a variable that names the user, an action of [`ACTIONS`] and its arguments ([`Acting`]); its entry
//! point for such processes calls [`main_by_variable`].

#![expect(unsafe_code, reason = "maps files as code, changes the user, and mounts a file system")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "for tests")]

mod acting;
mod files;
mod namespace;
mod states;
mod unanswering;

use std::io::Read as _;
use std::path::Path;

pub use acting::Acting;
pub use files::{install_long_names, install_oversized, map};
pub use namespace::with_file_at;
pub use unanswering::Unanswering;

/// The beginning of the line that a process prints when it has acted; its pid follows.
pub const READY: &str = "@ready ";

/// An action of a hostile process, with its arguments.
type Action = fn(&[&Path]);

/// What hostile processes do, by name. Most then wait until their input ends; the others act until then.
pub const ACTIONS: [(&str, Action); 9] = [
    ("call", states::call),
    ("fifo", files::leave_fifo),
    ("flicker", states::start_and_end_processes),
    ("junk", files::map_junk),
    ("many", files::map_many),
    ("map", files::map_all),
    ("replace", files::replace_and_map),
    ("stop", states::stop),
    ("suspend", states::suspend),
];

/// If the environment variable is set, acts as it says and returns true when the input has ended. Panics if it cannot act.
pub fn main_by_variable(name: &str) -> bool {
    let Ok(arguments) = std::env::var(name) else { return false };
    let arguments: Vec<&str> = arguments.lines().collect();
    let [user, name, ref paths @ ..] = arguments[..] else { panic!("{arguments:?}") };
    let Some((_, action)) = ACTIONS.iter().find(|(action, _)| *action == name) else { return false };
    states::become_user(user.parse().expect("a uid"));
    action(&paths.iter().map(Path::new).collect::<Vec<_>>());
    wait();
    true
}

/// Prints that the process is ready.
fn announce() {
    println!("{READY}{}", std::process::id());
}

/// Prints that the process is ready, and waits until its input ends.
fn wait() {
    announce();
    let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
}

/// Returns true when the input has ended, without waiting. There is no input other than its end.
fn is_over() -> bool {
    let mut input = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is to one structure.
    unsafe { libc::poll(&raw mut input, 1, 0) > 0 }
}
