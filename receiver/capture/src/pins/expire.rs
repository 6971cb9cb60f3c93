//! The end of pins without an owner: removal by command, and by the guard of an agent.
//!
//! The kernel has no expiry for pins, and a program cannot detach itself: a check in each program would cost every call
//! and leave the trap, which is most of the cost. So a process must remove them. The guard waits for the lock of the
//! directory, which the kernel releases when the agent ends, and uses no CPU until then. Where the guard is killed with
//! the agent, as in a container, the next agent adopts the pins, or a command removes them.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::root::{self, Root};
use crate::settings::PinSettings;

/// Environment variables with the parameters of a guard.
const PATH: &str = "WARPTAP_GUARD_PATH";
const OWNER: &str = "WARPTAP_GUARD_OWNER";
const AFTER_MS: &str = "WARPTAP_GUARD_AFTER_MS";

/// Minimum interval at which a directory without an owner is read.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// What was removed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Unpinned {
    /// Library files that were attached.
    pub files: u64,
    /// Maps.
    pub maps: u64,
}

/// Starts this program again as the guard of the pins of `owner`, which outlives this process.
pub(super) fn start_guard(pin: &PinSettings, owner: &str) -> io::Result<()> {
    if pin.guard.is_empty() {
        return Ok(());
    }
    let mut command = Command::new("/proc/self/exe");
    // A process group of its own, so that a signal to the terminal's does not end it with the agent.
    command.args(&pin.guard).current_dir("/").process_group(0);
    env::args_os().next().map(|name| command.arg0(name));
    command.env_clear().env(PATH, &pin.path).env(OWNER, owner);
    command.env(AFTER_MS, pin.expire_after.as_millis().to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    // Reaps it if it ends first, as the guard of a receiver does that was replaced by a reload.
    std::thread::Builder::new().name("pin-guard".to_owned()).spawn(move || child.wait())?;
    Ok(())
}

/// Waits until the agent that started this process has ended, and removes its pins if no other agent becomes their owner
/// in time. Fails if the process was not started as a guard.
pub fn guard() -> Result<Unpinned, String> {
    let variable = |name: &str| env::var_os(name).ok_or_else(|| format!("{name} is not set"));
    let (path, owner) = (PathBuf::from(variable(PATH)?), variable(OWNER)?);
    let after_ms: Option<u64> = variable(AFTER_MS)?.to_str().and_then(|ms| ms.parse().ok());
    let after = after_ms.ok_or_else(|| format!("{AFTER_MS} is not a number of milliseconds"))?;
    expire(&path, &owner, Duration::from_millis(after))
}

/// Removes the pins of an owner this time after it has ended; nothing if there is another owner by then.
fn expire(path: &Path, owner: &OsStr, after: Duration) -> Result<Unpinned, String> {
    wait_for_end(path)?;
    std::thread::sleep(after);
    let is_same = || root::owner(path).is_some_and(|(name, _)| OsStr::new(&name) == owner);
    match Root::own_existing(path) {
        Ok(root) if is_same() => remove(root),
        _ => Ok(Unpinned::default()),
    }
}

/// Waits until the owner of the directory has ended.
fn wait_for_end(path: &Path) -> Result<(), String> {
    let dir = root::open(path)?;
    dir.lock().map_err(|e| format!("cannot lock {}: {e}", path.display()))
}

/// Removes the pins that have had no owner for this time, again and again while `report` returns true, which is called
/// with what was removed.
pub fn watch(path: &Path, after: Duration, mut report: impl FnMut(Unpinned) -> bool) -> Result<(), String> {
    root::check_parents(path)?;
    loop {
        let Some((owner, _)) = root::owner(path) else {
            std::thread::sleep(after.max(WATCH_EVERY));
            continue;
        };
        let removed = expire(path, owner.as_ref(), after)?;
        if removed != Unpinned::default() && !report(removed) {
            return Ok(());
        }
    }
}

/// Removes everything that is pinned in a directory. Fails if an agent owns it; removes nothing if there is no such
/// directory.
pub fn unpin(path: &Path) -> Result<Unpinned, String> {
    root::check_parents(path)?;
    match path.exists() {
        true => remove(Root::own_existing(path)?),
        false => Ok(Unpinned::default()),
    }
}

fn remove(root: Root) -> Result<Unpinned, String> {
    let mut removed = Unpinned::default();
    for id in root.ids() {
        let entries = |dir: &str| root::names(&root.path().join(&id).join(dir)).len() as u64;
        removed.files += entries("files");
        removed.maps += entries("maps") + entries("agent");
    }
    let path = root.path();
    root::remove_all(path).map_err(|e| format!("cannot remove what is in {}: {e}", path.display()))?;
    // The directory stays: an agent that is starting may have opened it.
    Ok(removed)
}

/// Counts what is pinned in a directory, without changing anything.
pub(crate) fn pinned_files(path: &Path) -> u64 {
    let files = |id: String| root::names(&path.join(id).join("files")).len() as u64;
    root::ids(path).into_iter().map(files).sum()
}

/// Returns the pid of the live owner, if there is one.
pub(crate) fn live_owner(path: &Path) -> Option<u32> {
    let dir = root::open(path).ok()?;
    match root::lock(&dir, Duration::ZERO) {
        Err(root::LockError::Owned) => root::owner(path).map(|(_, pid)| pid),
        _ => None,
    }
}

/// Checks that a directory can be used for pins, without changing anything.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    root::check_parents(path)?;
    if path.exists() { root::open(path).map(drop) } else { Ok(()) }
}
