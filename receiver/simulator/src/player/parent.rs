//! The end of a player whose parent has ended, however that ended: no player outlives the program that controls it.

#![allow(unsafe_code, reason = "system calls; each block states its requirements")]

use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};

use super::temporary;

/// Lets this process end with its parent. From now on it ignores SIGINT, which a terminal sends to parent and player at
/// once: the player ends after the parent and removes its directories.
///
/// Needs Linux 5.3. Without it, or if the parent is in another pid namespace, a player ends when its input does.
pub(super) fn end_with_parent() {
    // SAFETY: ignoring a signal has no requirements.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    // SAFETY: the call takes a pid and no flags, and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, std::os::unix::process::parent_id(), 0) };
    if let Ok(fd @ 0..) = i32::try_from(fd) {
        // SAFETY: the descriptor is new and nothing else owns it.
        let parent = unsafe { OwnedFd::from_raw_fd(fd) };
        // A thread that cannot be started is ignored: the end of input remains.
        let _ = std::thread::Builder::new().name("parent".into()).spawn(move || {
            wait(&parent);
            temporary::exit();
        });
    }
}

/// Waits until the process of a pidfd has ended.
fn wait(process: &OwnedFd) {
    let mut poll = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry that outlives the call.
    while unsafe { libc::poll(&raw mut poll, 1, -1) } != 1 {}
}
