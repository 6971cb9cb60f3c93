//! Descriptions of processes from /proc: executable, command line, container, and resource attributes in the environment.
//!
//! The content is under the control of the process: sizes are bounded, invalid UTF-8 is replaced, and the values are
//! used as labels only.

mod inspector;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use event::{ProcessId, ProcessInfo};

pub use inspector::{Inspector, NoAnswer, Patience};

/// Bytes read of any one file of a process.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Arguments of a command line, or resource attributes, that are kept of a process.
const ITEMS_MAX: usize = 64;
/// Bytes that are kept of each argument, key and value.
const ITEM_BYTES_MAX: usize = 1_024;
/// Bytes that are kept of a command line, and of the resource attributes: each is kept for every process, and exported.
const COMMAND_BYTES_MAX: usize = 8_192;
const ATTRIBUTES_BYTES_MAX: usize = 4_096;
/// Duration of the ticks in which /proc states when a process started, ns: `USER_HZ` is 100 on all architectures.
const TICK_NS: u64 = 10_000_000;
/// Variables defined by the environment variable specification of OpenTelemetry.
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// The variable by which a process says what it does, and the attribute that has its value.
const WORKLOAD: &str = "WARPTAP_WORKLOAD";
const WORKLOAD_ATTRIBUTE: &str = "warptap.workload";

/// Reads at most 4 MiB of a file of /proc.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads at most 4 MiB of a file of /proc as text, with invalid UTF-8 replaced.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the identity of the process that has this pid now, with a start time rounded down to 10 ms; `None` if there is
/// none.
pub fn identify(pid: u32) -> Option<ProcessId> {
    let stat = read_text(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, can contain anything; the start is the 20th field after it.
    let ticks: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    Some(ProcessId { pid, start_ns: ticks.checked_mul(TICK_NS)? })
}

/// Describes a process; what can no longer be read stays empty. The command line and the environment are in the memory of
/// the process, which can be served by a program that never answers: see [`Inspector`].
pub fn describe(process: ProcessId, at_ns: u64) -> ProcessInfo {
    let dir = format!("/proc/{}", process.pid);
    let mut info = outline(process, at_ns);
    info.attributes.extend(environment(&read(format!("{dir}/environ")).unwrap_or_default()));
    info.attributes.sort();
    info.attributes.dedup_by(|a, b| a.0 == b.0);
    info.command = command(&read(format!("{dir}/cmdline")).unwrap_or_default());
    info
}

/// Describes a process by what the kernel knows of it, without its command line and environment. Never waits for the process.
pub fn outline(process: ProcessId, at_ns: u64) -> ProcessInfo {
    let dir = format!("/proc/{}", process.pid);
    let executable_path = fs::read_link(format!("{dir}/exe")).unwrap_or_default().display().to_string();
    let executable_path = executable_path.trim_end_matches(" (deleted)").to_owned();
    let name = executable_path.rsplit('/').next().unwrap_or_default();
    let comm = || read_text(format!("{dir}/comm")).unwrap_or_default().trim_end().to_owned();
    let cgroup = read_text(format!("{dir}/cgroup")).unwrap_or_default();
    ProcessInfo {
        process,
        at_ns,
        executable: if name.is_empty() { comm() } else { name.to_owned() },
        executable_path,
        container_id: container_id(&cgroup).unwrap_or_default(),
        attributes: pod_uid(&cgroup).map(|uid| ("k8s.pod.uid".to_owned(), uid)).into_iter().collect(),
        ..ProcessInfo::default()
    }
}

/// Returns the arguments in a cmdline file (proc_pid_cmdline(5)), without empty ones: the first, within the limits.
pub fn command(cmdline: &[u8]) -> Vec<String> {
    let arguments = cmdline.split(|b| *b == 0).filter(|argument| !argument.is_empty());
    let texts = arguments.map(|argument| cut(&String::from_utf8_lossy(argument)));
    within(COMMAND_BYTES_MAX, texts, String::len)
}

/// Returns the resource attributes in an environ file (proc_pid_environ(5)): the first, within the limits.
pub fn environment(environ: &[u8]) -> Vec<(String, String)> {
    let mut attributes = Vec::new();
    for variable in environ.split(|b| *b == 0) {
        let variable = String::from_utf8_lossy(variable);
        match variable.split_once('=') {
            Some((SERVICE_NAME, value)) if !value.is_empty() => {
                attributes.insert(0, ("service.name".to_owned(), cut(value)));
            }
            Some((WORKLOAD, value)) if !value.is_empty() => {
                attributes.insert(0, (WORKLOAD_ATTRIBUTE.to_owned(), cut(value)));
            }
            Some((RESOURCE_ATTRIBUTES, list)) => attributes.extend(pairs(list).take(ITEMS_MAX)),
            _ => {}
        }
    }
    within(ATTRIBUTES_BYTES_MAX, attributes.into_iter(), |(key, value)| key.len() + value.len())
}

/// Returns the first items, at most [`ITEMS_MAX`] and at most this number of bytes.
fn within<T>(bytes_max: usize, items: impl Iterator<Item = T>, bytes: impl Fn(&T) -> usize) -> Vec<T> {
    let mut left = bytes_max;
    let fits = |item: &T| left.checked_sub(bytes(item)).map(|rest| left = rest).is_some();
    items.take(ITEMS_MAX).take_while(fits).collect()
}

/// Returns the first [`ITEM_BYTES_MAX`] bytes of a text.
fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(ITEM_BYTES_MAX)].to_owned()
}

fn pairs(list: &str) -> impl Iterator<Item = (String, String)> + '_ {
    let pair = |p: &str| p.split_once('=').map(|(k, v)| (cut(k.trim()), cut(v.trim())));
    list.split(',').filter_map(pair).filter(|(key, _)| !key.is_empty())
}

/// Returns the container id in a cgroup path: its last part of 64 hexadecimal digits, whatever surrounds it.
pub fn container_id(cgroup: &str) -> Option<String> {
    let is_id = |part: &&str| part.len() == 64 && part.bytes().all(|b| b.is_ascii_hexdigit());
    cgroup.split(|c: char| !c.is_ascii_alphanumeric()).rfind(is_id).map(str::to_owned)
}

/// Returns the pod UID in a cgroup path: `pod` and a UUID, in which systemd writes `_` for `-`.
pub fn pod_uid(cgroup: &str) -> Option<String> {
    cgroup.match_indices("pod").find_map(|(at, pod)| uuid(&cgroup[at + pod.len()..]))
}

fn uuid(text: &str) -> Option<String> {
    let uuid: String = text.chars().take(36).map(|c| if c == '_' { '-' } else { c }).collect();
    let fits = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    (uuid.len() == 36 && uuid.bytes().enumerate().all(fits)).then_some(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_and_pods_are_read_from_each_runtimes_cgroup() {
        let id = "0123456789abcdef".repeat(4);
        let uid = "11111111-2222-3333-4444-555555555555";
        let paths = [
            format!(
                "0::/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{id}.scope",
                uid.replace('-', "_")
            ),
            format!("0::/kubepods/burstable/pod{uid}/{id}"),
            format!("0::/system.slice/docker-{id}.scope"),
        ];
        assert!(paths.iter().all(|p| container_id(p).as_deref() == Some(id.as_str())));
        let uids: Vec<_> = paths.iter().map(|p| pod_uid(p)).collect();
        assert_eq!(uids, [Some(uid.to_owned()), Some(uid.to_owned()), None]);
        assert_eq!(container_id("0::/user.slice/user-0.slice"), None);
    }

    #[test]
    fn the_environment_names_the_service() {
        let found = environment(b"A=b\0OTEL_RESOURCE_ATTRIBUTES=x=1, y = 2,bad,=\0OTEL_SERVICE_NAME=llm\0");
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        assert_eq!(found, [pair("service.name", "llm"), pair("x", "1"), pair("y", "2")]);
        let said = environment(b"WARPTAP_WORKLOAD=training\0");
        assert_eq!(said, [("warptap.workload".to_owned(), "training".to_owned())]);
    }

    /// Every process can have megabytes of each, and all of it was kept and exported.
    #[test]
    fn long_command_lines_and_environments_are_cut() {
        let argument = [b"\xff\0--x=", "é".repeat(ITEM_BYTES_MAX).as_bytes(), b"\0"].concat();
        let arguments = command(&argument.repeat(1_000));
        assert!(arguments.iter().all(|a| a.len() <= ITEM_BYTES_MAX) && arguments.len() < 20, "{arguments:?}");
        assert_eq!(arguments[..2], ["\u{fffd}".to_owned(), "--x=".to_owned() + &"é".repeat(510)]);
        assert_eq!(command(&b"x\0".repeat(1_000)).len(), ITEMS_MAX);
        let variable = format!("OTEL_RESOURCE_ATTRIBUTES=a=1,k={}\0", "v".repeat(ITEM_BYTES_MAX + 1));
        let attributes = environment(variable.repeat(1_000).as_bytes());
        assert!(attributes.iter().all(|(_, value)| value.len() <= ITEM_BYTES_MAX));
        assert_eq!(attributes.len(), 7, "4 KiB hold three of the values");
    }

    #[test]
    fn this_process_describes_itself() {
        let pid = std::process::id();
        let info = describe(ProcessId { pid, start_ns: 0 }, 7);
        assert!(info.executable.starts_with("process_info"), "{info:?}");
        assert!(!info.command.is_empty());
    }

    #[test]
    fn start_of_a_process_is_between_boot_and_its_description() {
        let own = identify(std::process::id()).unwrap();
        assert!(own.start_ns > 0 && own.start_ns.is_multiple_of(TICK_NS));
        assert_eq!(identify(u32::MAX), None);
    }
}
