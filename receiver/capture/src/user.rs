//! The user who answers for a process, which the process cannot choose.
//!
//! That is the real uid, unless the process is in a user namespace: there a user can have thousands of uids
//! (user_namespaces(7)), and the user who made the namespace answers for all of them.

#![expect(unsafe_code, reason = "system calls that no crate wraps")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::linux::fs::MetadataExt as _;
use std::sync::LazyLock;

use crate::proc;

/// `include/uapi/linux/nsfs.h`; needs Linux 4.11.
const NS_GET_PARENT: libc::c_ulong = 0xb702;
const NS_GET_OWNER_UID: libc::c_ulong = 0xb704;
/// The kernel nests no more user namespaces.
const DEPTH_MAX: usize = 33;
/// The user id of root.
pub const ROOT: u32 = 0;

/// Inode number of the user namespace of this agent; 0 if the kernel has none.
static OWN_NAMESPACE: LazyLock<u64> =
    LazyLock::new(|| std::fs::metadata("/proc/self/ns/user").map_or(0, |namespace| namespace.st_ino()));

/// Returns the user who answers for a process; `u32::MAX` if it has ended.
pub fn of(pid: u32) -> u32 {
    let owner = owner_of(pid).ok().flatten();
    // Container runtimes make namespaces as root, for processes of several users.
    owner.filter(|owner| *owner != ROOT).unwrap_or_else(|| proc::uid_of(pid).unwrap_or(u32::MAX))
}

/// Returns the owner of the outermost user namespace of a process within that of this agent; `None` if they share it.
fn owner_of(pid: u32) -> io::Result<Option<u32>> {
    let own = *OWN_NAMESPACE;
    let path = format!("/proc/{pid}/ns/user");
    if std::fs::metadata(&path)?.st_ino() == own {
        return Ok(None);
    }
    let mut namespace = File::open(path)?;
    for _ in 0..DEPTH_MAX {
        let parent = File::from(parent_of(namespace.as_raw_fd())?);
        if parent.metadata()?.st_ino() == own {
            return owner(namespace.as_raw_fd()).map(Some);
        }
        namespace = parent;
    }
    Ok(None)
}

fn parent_of(namespace: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the command takes no argument.
    match unsafe { libc::ioctl(namespace, NS_GET_PARENT) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel has just made the descriptor, and nothing else refers to it.
        parent => Ok(unsafe { OwnedFd::from_raw_fd(parent) }),
    }
}

fn owner(namespace: RawFd) -> io::Result<u32> {
    let mut uid: libc::uid_t = 0;
    // SAFETY: the command writes a uid to its argument.
    match unsafe { libc::ioctl(namespace, NS_GET_OWNER_UID, &raw mut uid) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(uid),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn process_outside_of_user_namespaces_has_its_real_uid() {
        let real = std::fs::metadata("/proc/self").unwrap().st_uid();
        assert_eq!(of(std::process::id()), real);
        assert_eq!(of(u32::MAX), u32::MAX);
    }

    /// User 61001 has the uids from 100000 in the namespace.
    #[test]
    fn user_answers_for_every_uid_of_their_namespace() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "61001", "--regid", "61001", "--clear-groups"]);
        command.args(["unshare", "--user", "--keep-caps", "sh", "-c"]);
        command.arg("echo ready && read line && exec setpriv --reuid 1 sh -c 'echo ready && read line'");
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut child) = started else { return println!("skipped: setpriv is not installed") };
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (mut input, mut line) = (child.stdin.take().unwrap(), String::new());
        let is_ready = |output: &mut BufReader<_>, line: &mut String| output.read_line(line).unwrap() > 0;
        let map = format!("/proc/{}/uid_map", child.id());
        if !is_ready(&mut output, &mut line) || std::fs::write(map, "0 61001 1\n1 100000 10\n").is_err() {
            return println!("skipped: no right to make a user namespace with several uids");
        }
        input.write_all(b"\n").unwrap();
        assert!(is_ready(&mut output, &mut line));
        assert_eq!(proc::uid_of(child.id()), Some(100_000));
        assert_eq!(of(child.id()), 61_001);
        drop(input);
        child.wait().unwrap();
    }
}
