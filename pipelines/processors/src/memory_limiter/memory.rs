//! The memory in use and the memory available to the process, from files of the kernel.
//!
//! Used memory is the resident set, `VmRSS`, on which the kernel's OOM killer acts. Available memory is the minimum
//! of the machine's memory and the limits of the process's control group and its ancestors, of version 2 or 1.
//! Functions take the root folder as an argument, so that tests can supply their own.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the resident memory in bytes; `None` if the kernel does not report it.
pub(super) fn used_bytes(root: &Path) -> Option<u64> {
    field_bytes(&read(root, "proc/self/status")?, "VmRSS:")
}

/// Returns the available memory in bytes.
pub(super) fn total_bytes(root: &Path) -> u64 {
    let machine = read(root, "proc/meminfo").and_then(|text| field_bytes(&text, "MemTotal:"));
    cgroup_limits(root).chain(machine).min().unwrap_or(u64::MAX)
}

fn read(root: &Path, file: &str) -> Option<String> {
    fs::read_to_string(root.join(file)).ok()
}

/// Returns the value of a line such as `VmRSS:     123 kB`.
fn field_bytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns the memory limits of the process's control groups, of all versions and ancestors.
fn cgroup_limits(root: &Path) -> impl Iterator<Item = u64> {
    let mounts = read(root, "proc/self/mountinfo").unwrap_or_default();
    let groups = read(root, "proc/self/cgroup").unwrap_or_default();
    let files = mounts.lines().filter_map(Mount::parse).filter_map(|mount| {
        let group = groups.lines().find_map(|line| mount.version.group(line))?;
        Some(limit_files(root, &mount, group))
    });
    let files: Vec<PathBuf> = files.flatten().collect();
    files.into_iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok())
}

/// Returns the limit files of `group` and of its ancestors, up to the root of the mount.
fn limit_files(root: &Path, mount: &Mount<'_>, group: &str) -> Vec<PathBuf> {
    let top = root.join(mount.point.trim_start_matches('/'));
    let below = Path::new(group).strip_prefix(mount.root).unwrap_or(Path::new(""));
    let below = below.components().filter(|c| matches!(c, std::path::Component::Normal(_)));
    let mut folders = vec![top];
    for part in below {
        let next = folders[folders.len() - 1].join(part);
        folders.push(next);
    }
    folders.iter().map(|folder| folder.join(mount.version.file())).collect()
}

/// The version of a control group hierarchy that limits memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Version {
    One,
    Two,
}

impl Version {
    fn file(self) -> &'static str {
        match self {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        }
    }

    /// Returns the group in a line of `/proc/self/cgroup`, if it is of this hierarchy.
    fn group(self, line: &str) -> Option<&str> {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, group) = (parts.next()?, parts.next()?);
        let is_this = match self {
            Version::One => controllers.split(',').any(|c| c == "memory"),
            Version::Two => controllers.is_empty(),
        };
        is_this.then_some(group)
    }
}

/// A mounted control group hierarchy with memory limits.
struct Mount<'a> {
    version: Version,
    root: &'a str,
    point: &'a str,
}

impl<'a> Mount<'a> {
    /// Parses a line such as `31 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw`.
    fn parse(line: &'a str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (place.next()?, place.next()?);
        let mut kind = kind.split(' ');
        let version = match (kind.next()?, kind.nth(1)?) {
            ("cgroup2", _) => Version::Two,
            ("cgroup", options) if options.split(',').any(|o| o == "memory") => Version::One,
            _ => return None,
        };
        Some(Mount { version, root, point })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 5 kB\n");

    /// Checks the available memory of a machine with these files.
    #[track_caller]
    fn check(files: &[(&str, &str)], total: u64) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(total_bytes(root.path()), total, "{files:?}");
    }

    #[test]
    fn memory_of_the_machine_is_the_limit_without_control_groups() {
        check(&[MEMINFO], 1_024_000);
        check(&[], u64::MAX);
    }

    #[test]
    fn control_groups_of_version_2_and_ancestors_are_limits() {
        let mount = (
            "proc/self/mountinfo",
            "31 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
        );
        let group = ("proc/self/cgroup", "0::/a/b\n");
        let max = |path, text| (path, text);
        check(&[MEMINFO, mount, group, max("sys/fs/cgroup/a/b/memory.max", "max\n")], 1_024_000);
        check(&[MEMINFO, mount, group, max("sys/fs/cgroup/a/b/memory.max", "5000\n")], 5000);
        check(
            &[
                MEMINFO,
                mount,
                group,
                max("sys/fs/cgroup/a/b/memory.max", "5000\n"),
                max("sys/fs/cgroup/a/memory.max", "4000\n"),
            ],
            4000,
        );
        check(&[MEMINFO, mount, group, max("sys/fs/cgroup/a/b/memory.max", "99999999999\n")], 1_024_000);
        let inside = ("proc/self/cgroup", "0::/\n");
        check(&[MEMINFO, mount, inside, max("sys/fs/cgroup/memory.max", "6000\n")], 6000);
    }

    #[test]
    fn control_groups_of_version_1_are_limits() {
        let mount = (
            "proc/self/mountinfo",
            "30 23 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
             33 23 0:28 /docker/c1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
        );
        let group = ("proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/c1\n0::/\n");
        let limit = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "7000\n");
        check(&[MEMINFO, mount, group, limit], 7000);
        let none = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        check(&[MEMINFO, mount, group, none], 1_024_000);
    }

    #[test]
    fn memory_of_this_process_is_measured() {
        let root = Path::new("/");
        if !root.join("proc/self/status").exists() {
            return eprintln!("skipped: no /proc here");
        }
        let used = used_bytes(root).unwrap();
        assert!(used > 64 * 1024 && used < total_bytes(root), "{used}");
    }
}
