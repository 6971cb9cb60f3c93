//! States of processes in which they do not answer, or are no more.

use std::io;
use std::path::Path;
use std::process::exit;
use std::time::Duration;

use super::files::{junk, map};
use super::{announce, is_over, wait};

/// Time between the starts of two processes: 5,000 in a minute.
const START_EVERY: Duration = Duration::from_millis(12);
/// Files that these processes map, in turn.
const JUNK: usize = 64;

/// Changes the user of this process. Panics without the right to.
pub(super) fn become_user(user: u32) {
    // SAFETY: the calls change this process only, which has one thread that matters.
    assert_eq!(unsafe { (libc::setgid(user), libc::setuid(user)) }, (0, 0), "{}", io::Error::last_os_error());
}

/// Maps files, loads a library, prints that it is ready, waits for a line, and calls the library.
pub(super) fn call(paths: &[&Path]) {
    let [files @ .., library] = paths else { panic!("expected files and a library") };
    files.iter().for_each(|file| map(file));
    // SAFETY: the initialisers of a stub have no preconditions.
    let library = unsafe { libloading::Library::new(*library) }.expect("a library");
    // SAFETY: the symbol is a C function of two integers.
    let malloc = unsafe { library.get::<unsafe extern "C" fn(*mut u64, u64) -> u32>("cudaMalloc") };
    let (malloc, mut address) = (malloc.expect("a stub of the CUDA runtime"), 0);
    announce();
    io::stdin().read_line(&mut String::new()).expect("an input");
    // SAFETY: the function writes an address to its first argument.
    unsafe { malloc(&raw mut address, 64) };
    std::mem::forget(library);
}

/// Calls as [`call`] does, and stops itself. It goes on when it is continued.
pub(super) fn stop(paths: &[&Path]) {
    call(paths);
    // SAFETY: the signal stops this process only.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Calls as [`call`] does, and waits without being interruptible for a child that waits for the end of the input.
pub(super) fn suspend(paths: &[&Path]) {
    call(paths);
    // SAFETY: without a stack, a memory or file descriptors in common, the child continues like that of fork(2).
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_VFORK | libc::SIGCHLD, 0, 0, 0, 0) };
    assert!(child >= 0, "{}", io::Error::last_os_error());
    if child == 0 {
        wait();
        exit(0);
    }
}

/// Until the input ends, starts processes that map a file with the name of a library and end at once.
pub(super) fn start_and_end_processes(paths: &[&Path]) {
    let [dir] = paths else { panic!("expected a directory, not {paths:?}") };
    announce();
    for number in (0..JUNK).cycle().take_while(|_| !is_over()) {
        let path = junk(dir, number);
        // SAFETY: this process has one thread that matters, and the child makes system calls only.
        if unsafe { libc::fork() } == 0 {
            map(&path);
            // SAFETY: nothing of the parent is to be run at the end of the child.
            unsafe { libc::_exit(0) };
        }
        std::thread::sleep(START_EVERY);
        // SAFETY: no status is wanted. There may be no child that has ended.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
    }
}
