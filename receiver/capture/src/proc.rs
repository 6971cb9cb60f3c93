//! Facts about processes from /proc, beside the descriptions of [`process_info`]: start, open GPUs, launcher variables.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use event::{ProcessId, ProcessInfo};
pub use process_info::{outline, read, read_text};

use crate::selection::Subject;

/// Beginnings of the paths of device files by which NVIDIA's and AMD's drivers are used, under WSL too, and of the file
/// that the simulator has in their place.
const GPUS: [&str; 5] = ["/dev/dri/render", "/dev/dxg", "/dev/kfd", "/dev/nvidia", "/memfd:warptap-stub-gpu"];

/// Resolution of the start of a process in /proc, ns.
const TICK_NS: u64 = 10_000_000;

/// Returns when a process started, CLOCK_MONOTONIC ns, at most 10 ms too early.
pub fn started_ns(pid: u32) -> Option<u64> {
    process_info::identify(pid)?.start_ns.checked_add_signed(-crate::clock::offsets().to_boottime_ns)
}

/// Returns true if the process has not ended; a later process with its pid is another one.
pub fn is_running(process: ProcessId) -> bool {
    // The start is 0 where the kernel programs cannot read it.
    let found = process_info::identify(process.pid);
    found.is_some_and(|f| process.start_ns == 0 || process.start_ns.abs_diff(f.start_ns) < 2 * TICK_NS)
}

/// Returns true if the process has a GPU open, as it has before it enqueues work or allocates memory. Of a process without any open
/// file it is assumed: the kernel has closed them, since the process ends.
pub fn has_gpu_open(pid: u32) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return true };
    let is_gpu = |path: &Path| GPUS.iter().any(|gpu| path.to_str().is_some_and(|path| path.starts_with(gpu)));
    let files: Vec<_> = files.flatten().collect();
    files.is_empty() || files.iter().any(|file| fs::read_link(file.path()).is_ok_and(|path| is_gpu(&path)))
}

/// Describes a process, with its launcher variables.
pub fn describe_all(process: ProcessId, at_ns: u64) -> (ProcessInfo, Vec<(String, String)>) {
    (process_info::describe(process, at_ns), launcher_variables(process.pid))
}

/// Describes a process for the selection of those to trace. What cannot be read is not known.
pub fn subject(pid: u32) -> Subject {
    let process = process_info::identify(pid).unwrap_or(ProcessId { pid, start_ns: 0 });
    let cgroups = cgroups(&read_text(format!("/proc/{pid}/cgroup")).unwrap_or_default());
    let status = read_text(format!("/proc/{pid}/status")).unwrap_or_default();
    let users = users(&status, &read_text("/etc/passwd").unwrap_or_default());
    Subject { info: process_info::describe(process, 0), users, cgroups }
}

/// Returns the paths in the text of a cgroup file (cgroups(7)), one in each hierarchy: `ID:CONTROLLERS:PATH`.
pub(crate) fn cgroups(text: &str) -> Vec<String> {
    let path = |line: &str| line.splitn(3, ':').nth(2).map(str::to_owned);
    let mut paths: Vec<String> = text.lines().filter_map(path).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Returns the real uid in the text of a status file, and its name in the text of a passwd file.
pub(crate) fn users(status: &str, passwd: &str) -> Vec<String> {
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next());
    let Some(uid) = uid else { return Vec::new() };
    let name = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    };
    [uid.to_owned()].into_iter().chain(passwd.lines().find_map(name)).collect()
}

/// Returns the real uid of a process. Unlike the owner of its files in /proc, it does not depend on whether the process lets
/// others trace it.
pub fn uid_of(pid: u32) -> Option<u32> {
    let status = read_text(format!("/proc/{pid}/status")).ok()?;
    users(&status, "").first()?.parse().ok()
}

/// Returns true if there is a process with this pid.
pub fn exists(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Returns the pids of all processes.
pub fn pids() -> BTreeSet<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeSet::new() };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.flatten().filter_map(number).collect()
}

/// Returns the pid of the process that a process or thread id belongs to; `None` if there is none.
pub fn process_of(id: u32) -> Option<u32> {
    let status = read_text(format!("/proc/{id}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// Returns the id of the current thread.
pub fn own_tid() -> Option<u32> {
    fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok()
}

/// Longest variable of a launcher that is recorded, with its name.
const LAUNCHER_BYTES_MAX: usize = 1_024;
/// Variables by which torchrun, mpirun and srun set the rank of a process, and launchers and container runtimes its
/// visible devices. No other variables are recorded.
pub(crate) const LAUNCHERS: [&str; 18] = [
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

/// Returns the launcher variables of a process, sorted by name.
fn launcher_variables(pid: u32) -> Vec<(String, String)> {
    launchers(&read(format!("/proc/{pid}/environ")).unwrap_or_default()).into_iter().collect()
}

/// Returns the launcher variables in an environment. Of several with one name, the first counts, as for getenv(3).
pub(crate) fn launchers(environment: &[u8]) -> BTreeMap<String, String> {
    let all = environment.split(|byte| *byte == 0).filter(|entry| entry.len() <= LAUNCHER_BYTES_MAX);
    let all = all.filter_map(|entry| std::str::from_utf8(entry).ok()?.split_once('='));
    let mut found = BTreeMap::new();
    for (name, value) in all.filter(|(name, _)| LAUNCHERS.contains(name)) {
        found.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_that_ends_is_assumed_to_have_had_a_gpu_open() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(!has_gpu_open(child.id()));
        child.kill().unwrap();
        let begin = std::time::Instant::now();
        while !has_gpu_open(child.id()) {
            assert!(begin.elapsed().as_secs() < 30, "the child does not end");
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(has_gpu_open(child.id()));
    }

    #[test]
    fn only_launcher_variables_are_read_from_an_environment() {
        let long = format!("LOCAL_RANK={}", "1".repeat(LAUNCHER_BYTES_MAX));
        let all = b"RANK=3\0AWS_SECRET=x\0WORLD_SIZE=8\0MY_RANK=4\0\xff=1\0PATH\0RANK=4\0".to_vec();
        let found = launchers(&[all, long.into_bytes()].concat());
        let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, [("RANK", "3"), ("WORLD_SIZE", "8")]);
    }

    #[test]
    fn cgroups_of_all_hierarchies_are_read() {
        let v1 = "5:cpu,cpuacct:/kubepods/pod1\n1:name=systemd:/a:b\n0::/kubepods/pod1\nbad\n";
        assert_eq!(cgroups(v1), ["/a:b", "/kubepods/pod1"]);
    }

    #[test]
    fn user_has_a_uid_and_a_name_if_known() {
        let status = "Name:\tx\nUid:\t1000\t0\t0\t0\n";
        let passwd = "root:x:0:0::/:/bin/sh\nalice:x:1000:1000::/home:/bin/sh\n";
        assert_eq!(users(status, passwd), ["1000", "alice"]);
        assert_eq!(users(status, "alice:x:10\nbad\n"), ["1000"]);
        assert_eq!(users("", passwd), [] as [&str; 0]);
    }

    #[test]
    fn this_process_is_described_for_the_selection() {
        let own = subject(std::process::id());
        assert!(own.info.executable.starts_with("capture") && !own.info.command.is_empty(), "{own:?}");
        assert!(!own.users.is_empty() && !own.cgroups.is_empty(), "{own:?}");
    }

    #[test]
    fn this_process_started_before_now() {
        let started_ns = started_ns(std::process::id()).unwrap();
        assert!(started_ns > 0 && started_ns <= crate::clock::now_ns());
    }

    #[test]
    fn threads_belong_to_their_process() {
        let own = std::process::id();
        let task = fs::read_dir("/proc/self/task").unwrap().flatten().last().unwrap();
        let thread = task.file_name().to_str().unwrap().parse().unwrap();
        assert_eq!((process_of(own), process_of(thread), process_of(u32::MAX)), (Some(own), Some(own), None));
    }
}
