//! What /proc tells of a process: when it began, what it runs, which container it is in.
//!
//! Everything read here is the process's own word: sizes are bounded, odd bytes replaced, nothing is believed
//! beyond being a label.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use event::{ProcessId, ProcessInfo};

/// Bytes read of any one file of a process.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Arguments kept of a command line, and bytes of each.
const ARGUMENTS_MAX: usize = 64;
const ARGUMENT_BYTES_MAX: usize = 1_024;
/// Environment variables that OpenTelemetry gives a meaning (environment variable specification).
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// Reads at most 4 MiB of a file of /proc.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same as text, odd bytes replaced.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Pids of all processes.
pub fn pids() -> BTreeSet<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeSet::new() };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.flatten().filter_map(number).collect()
}

/// Describes a process as far as it can still be read.
pub fn describe(process: ProcessId, at_ns: u64) -> ProcessInfo {
    let dir = format!("/proc/{}", process.pid);
    let executable_path = fs::read_link(format!("{dir}/exe")).unwrap_or_default().display().to_string();
    let executable_path = executable_path.trim_end_matches(" (deleted)").to_owned();
    let name = executable_path.rsplit('/').next().unwrap_or_default();
    let comm = || read_text(format!("{dir}/comm")).unwrap_or_default().trim_end().to_owned();
    let cgroup = read_text(format!("{dir}/cgroup")).unwrap_or_default();
    let mut attributes = environment(&read(format!("{dir}/environ")).unwrap_or_default());
    attributes.extend(pod_uid(&cgroup).map(|uid| ("k8s.pod.uid".to_owned(), uid)));
    attributes.sort();
    attributes.dedup_by(|a, b| a.0 == b.0);
    ProcessInfo {
        process,
        at_ns,
        executable: if name.is_empty() { comm() } else { name.to_owned() },
        executable_path,
        command: command(&read(format!("{dir}/cmdline")).unwrap_or_default()),
        container_id: container_id(&cgroup).unwrap_or_default(),
        attributes,
        visible: Vec::new(),
        blind: Vec::new(),
    }
}

fn command(bytes: &[u8]) -> Vec<String> {
    let arguments = bytes.split(|b| *b == 0).filter(|a| !a.is_empty()).take(ARGUMENTS_MAX);
    arguments.map(|a| String::from_utf8_lossy(&a[..a.len().min(ARGUMENT_BYTES_MAX)]).into_owned()).collect()
}

/// By which torchrun, mpirun and srun tell a process who it is in its job, and launchers and container runtimes which
/// devices it sees. Nothing else of an environment leaves it.
const LAUNCHERS: [&str; 18] = [
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "NVIDIA_VISIBLE_DEVICES",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMIX_NAMESPACE",
    "PMI_RANK",
    "PMI_SIZE",
    "RANK",
    "ROCR_VISIBLE_DEVICES",
    "SLURM_JOB_ID",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "TORCHELASTIC_RUN_ID",
    "WORLD_SIZE",
];

/// What a launcher told the process, sorted by name.
pub fn launched(pid: u32) -> Vec<(String, String)> {
    let mut told = launchers(&read(format!("/proc/{pid}/environ")).unwrap_or_default());
    told.sort();
    told
}

fn launchers(environment: &[u8]) -> Vec<(String, String)> {
    let all = environment.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
    let all = all.filter_map(|entry| entry.split_once('='));
    all.filter(|(name, _)| LAUNCHERS.contains(name))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// The resource attributes that a process's environment asks for.
fn environment(bytes: &[u8]) -> Vec<(String, String)> {
    let mut attributes = Vec::new();
    for variable in bytes.split(|b| *b == 0) {
        let variable = String::from_utf8_lossy(variable);
        match variable.split_once('=') {
            Some((SERVICE_NAME, value)) if !value.is_empty() => {
                attributes.insert(0, ("service.name".to_owned(), value.to_owned()));
            }
            Some((RESOURCE_ATTRIBUTES, list)) => attributes.extend(pairs(list)),
            _ => {}
        }
    }
    attributes.truncate(ARGUMENTS_MAX);
    attributes
}

fn pairs(list: &str) -> impl Iterator<Item = (String, String)> + '_ {
    let pair = |p: &str| p.split_once('=').map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned()));
    list.split(',').filter_map(pair).filter(|(key, _)| !key.is_empty())
}

/// The container in a cgroup path: its last part of 64 hexadecimal digits, whatever a runtime puts around it.
fn container_id(cgroup: &str) -> Option<String> {
    let is_id = |part: &&str| part.len() == 64 && part.bytes().all(|b| b.is_ascii_hexdigit());
    cgroup.split(|c: char| !c.is_ascii_alphanumeric()).rfind(is_id).map(str::to_owned)
}

/// The pod in a cgroup path: `pod` and a UUID, its dashes written `_` by systemd.
fn pod_uid(cgroup: &str) -> Option<String> {
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
    fn of_an_environment_only_what_launchers_say_is_read() {
        let found = launchers(b"RANK=3\0AWS_SECRET=x\0WORLD_SIZE=8\0MY_RANK=4\0\xff=1\0PATH");
        let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, [("RANK", "3"), ("WORLD_SIZE", "8")]);
    }

    #[test]
    fn the_environment_names_the_service() {
        let found = environment(b"A=b\0OTEL_RESOURCE_ATTRIBUTES=x=1, y = 2,bad,=\0OTEL_SERVICE_NAME=llm\0");
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        assert_eq!(found, [pair("service.name", "llm"), pair("x", "1"), pair("y", "2")]);
    }

    #[test]
    fn this_process_describes_itself() {
        let pid = std::process::id();
        let info = describe(ProcessId { pid, start_ns: 0 }, 7);
        assert!(info.executable.starts_with("capture"), "{info:?}");
        assert!(!info.command.is_empty());
    }
}
