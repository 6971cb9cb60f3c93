//! The identity of a workload, which survives restarts of the process and of the agent.
//!
//! A workload is a program with its arguments, its names in Kubernetes and elsewhere, and its rank. Everything that a restart
//! changes without changing the steps is left out: pids, container and pod ids, ports, addresses, file descriptors, seeds,
//! log folders. The device is left out, too: the scheduler may assign another one of the node, and if that is slower, the
//! baseline reports a lasting change.
//!
//! Processes without distinguishing marks (replicas on one node without a rank) are one workload: they share stored
//! baselines, and the most recently used process writes them. Arguments are matched by heuristics: an option missing from
//! [`TRANSIENT`] costs a warm-up, no more.

use std::fmt;

use event::{LauncherEnv, ProcessInfo};
use probe_abi::fold::mix;

/// Attributes that name a workload and survive its processes.
const NAMES: [&str; 10] = [
    "gen_ai.request.model",
    "k8s.container.name",
    "k8s.cronjob.name",
    "k8s.daemonset.name",
    "k8s.deployment.name",
    "k8s.job.name",
    "k8s.namespace.name",
    "k8s.statefulset.name",
    "service.name",
    "service.namespace",
];
/// Variables with the rank of a process in its job, best first: by node, then global.
const RANKS: [&str; 5] = ["LOCAL_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK"];
/// Words in the names of options whose value changes with each start.
const TRANSIENT: [&str; 14] = [
    "addr", "address", "dir", "endpoint", "fd", "file", "handle", "host", "id", "log", "port", "seed",
    "socket", "url",
];

/// Words in the names of options whose value is part of the identity, whatever the other words (`--model-id`).
const STABLE: [&str; 6] = ["adapter", "checkpoint", "config", "engine", "model", "tokenizer"];

/// The id of a workload across restarts.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkloadId(pub u64);

impl WorkloadId {
    /// Returns the workload of a process, given the environment of its launcher, if any.
    pub fn of(info: &ProcessInfo, launched: Option<&LauncherEnv>) -> WorkloadId {
        let mut identity = Identity::default();
        identity.describe(info);
        launched.into_iter().for_each(|launched| identity.launched(launched));
        identity.workload().unwrap_or_default()
    }
}

/// The parts of a workload's identity that are known so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Identity {
    program: Option<u64>,
    rank: u64,
}

impl Identity {
    /// Applies the description of the process; a later one replaces it.
    pub(crate) fn describe(&mut self, info: &ProcessInfo) {
        let path = [&info.executable_path, &info.executable].into_iter().find(|text| !text.is_empty());
        let names = info.attributes.iter().filter(|(key, _)| NAMES.contains(&key.as_str()));
        let mut hash = Hash::default();
        hash.list(path.into_iter().map(String::as_str));
        hash.list(stable(&info.command).iter().map(String::as_str));
        hash.list(names.flat_map(|(key, value)| [key.as_str(), value]));
        self.program = Some(hash.0);
    }

    /// Applies the environment of its launcher.
    pub(crate) fn launched(&mut self, launched: &LauncherEnv) {
        let mut hash = Hash::default();
        hash.list(launched.first(&RANKS));
        self.rank = hash.0;
    }

    /// Returns the workload; `None` before the process was described.
    pub(crate) fn workload(&self) -> Option<WorkloadId> {
        self.program.map(|program| WorkloadId(mix(program ^ self.rank)))
    }
}

impl fmt::Display for WorkloadId {
    /// Writes sixteen hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Returns the arguments without the parts that a restart changes.
fn stable(command: &[String]) -> Vec<String> {
    let mut stable = Vec::with_capacity(command.len());
    let mut is_transient_value = false;
    for argument in command {
        let is_option = argument.starts_with('-');
        if is_transient_value && !is_option {
            is_transient_value = false;
            continue;
        }
        let (name, value) = argument.split_once('=').map_or((&**argument, None), |(n, v)| (n, Some(v)));
        is_transient_value = is_option && value.is_none() && is_transient(name);
        match value {
            Some(_) if is_option && is_transient(name) => stable.push(name.to_owned()),
            _ => stable.push(without_handles(argument)),
        }
    }
    stable
}

/// Returns true for options such as `--master-port`, `--log_dir`: with a [`TRANSIENT`] word and without a [`STABLE`] one.
fn is_transient(option: &str) -> bool {
    let has_one_of = |list: &[&str]| option.split(['-', '_', '.']).any(|word| list.contains(&word));
    has_one_of(&TRANSIENT) && !has_one_of(&STABLE)
}

/// Removes digits from code on a command line, such as Python's for a child process, which contains descriptor numbers.
fn without_handles(argument: &str) -> String {
    match argument.contains('(') {
        true => argument.chars().filter(|c| !c.is_ascii_digit()).collect(),
        false => argument.to_owned(),
    }
}

#[derive(Debug, Default)]
struct Hash(u64);

impl Hash {
    /// Adds a list; lists and their texts are delimited.
    fn list<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) {
        let mut count = 0;
        for text in texts {
            text.bytes().for_each(|byte| self.word(u64::from(byte)));
            self.word(0x100 + text.len() as u64);
            count += 1;
        }
        self.word(count);
    }

    fn word(&mut self, word: u64) {
        self.0 = mix(self.0.rotate_left(5) ^ word.wrapping_add(0x9e37_79b9_7f4a_7c15));
    }
}

#[cfg(test)]
mod tests {
    use event::ProcessId;

    use super::*;

    fn process(pid: u32, command: &str) -> ProcessInfo {
        ProcessInfo {
            process: ProcessId { pid, start_ns: u64::from(pid) },
            at_ns: u64::from(pid),
            executable: "python3.12".to_owned(),
            executable_path: "/usr/bin/python3.12".to_owned(),
            command: command.split_whitespace().map(str::to_owned).collect(),
            container_id: format!("{pid:064x}"),
            attributes: vec![("k8s.pod.uid".to_owned(), pid.to_string())],
            ..ProcessInfo::default()
        }
    }

    #[track_caller]
    fn check(one: &str, other: &str, is_same: bool) {
        let (one, other) = (process(1, one), process(2, other));
        let ids = (WorkloadId::of(&one, None), WorkloadId::of(&other, None));
        assert_eq!(ids.0 == ids.1, is_same, "{:?} and {:?}", one.command, other.command);
    }

    #[test]
    fn a_restart_is_the_same_workload() {
        check("vllm serve meta/llama --port 8000", "vllm serve meta/llama --port 8001", true);
        check("vllm serve m --port=8000 -tp 2", "vllm serve m --port=9000 -tp 2", true);
        check("sglang --nccl-port 1 --model-path m", "sglang --nccl-port 2 --model-path m", true);
        check("train.py --seed 1 --log_dir /a", "train.py --seed 2 --log_dir /b", true);
        check(
            "python -c spawn_main(tracker_fd=5,pipe_handle=7)",
            "python -c spawn_main(tracker_fd=9,pipe_handle=11)",
            true,
        );
        check("VLLM::Worker_TP0", "VLLM::Worker_TP0", true);
    }

    #[test]
    fn another_model_size_or_rank_is_another_workload() {
        check("vllm serve meta/llama", "vllm serve meta/other", false);
        check("vllm serve m --max-model-len 8192", "vllm serve m --max-model-len 4096", false);
        check(
            "text-generation-server serve --model-id a",
            "text-generation-server serve --model-id b",
            false,
        );
        check("run.py --engine_dir /a", "run.py --engine_dir /b", false);
        check("VLLM::Worker_TP0", "VLLM::Worker_TP1", false);
        check("serve --port 1 --verbose", "serve --port 1", false);
        check("a b", "ab", false);
        let info = process(1, "train.py");
        let launched = |rank: &str| LauncherEnv {
            variables: vec![("LOCAL_RANK".to_owned(), rank.to_owned()), ("RANK".to_owned(), "9".to_owned())],
            ..LauncherEnv::default()
        };
        let ids = ["0", "1"].map(|rank| WorkloadId::of(&info, Some(&launched(rank))));
        assert_ne!(ids[0], ids[1]);
        assert_ne!(ids[0], WorkloadId::of(&info, None));
    }

    #[test]
    fn the_names_that_a_workload_was_given_count() {
        let (mut one, other) = (process(1, "serve"), process(1, "serve"));
        one.attributes.push(("k8s.deployment.name".to_owned(), "chat".to_owned()));
        assert_ne!(WorkloadId::of(&one, None), WorkloadId::of(&other, None));
        assert_eq!(WorkloadId::of(&one, None).to_string().len(), 16);
    }
}
