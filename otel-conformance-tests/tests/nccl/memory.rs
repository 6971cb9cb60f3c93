//! The memory of the agent is bounded when communicators are created and destroyed.

use std::fs;

use crate::is_long;
use crate::job::Job;
use crate::live::agent::Agent;
use crate::live::binary::binary;
use crate::live::inbox::Inbox;

/// Number of communicators that each of two ranks creates and destroys.
const COMMUNICATORS: usize = 10_000;
/// Maximum growth of the agent after a tenth of them, KiB.
const GROWTH_MAX_KIB: u64 = 2_048;

/// Returns the resident memory of a process in KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn memory_is_bounded_after_ten_thousand_communicators() {
    let Some(binary) = binary() else { return };
    if !is_long() {
        return println!("skipped: it takes a minute; WARPTAP_NCCL_LONG=1 lets it run");
    }
    // Once later events were reported, the agent has processed all earlier ones.
    let script = format!(
        "ranks 2\ncomm world\nrepeat {COMMUNICATORS}\ncomm passing\nallreduce passing 8 float32 sum\nsync\n\
         destroy passing\nallgather world 8 int8 at={}\nend\n",
        COMMUNICATORS / 10
    );
    let mut job = Job::start(&binary, &script);
    let inbox = Inbox::open();
    let receiver = ", collection_interval: 1s";
    let agent = Agent::start(&binary, job.dir.path(), &job.ranks, receiver, &inbox.exporter);
    job.go();
    let points = inbox.until_point("nccl.collective.count", "nccl.operation=AllGather", 2);
    let early = resident_kib(agent.pid());
    job.done();
    job.end();
    inbox.until("nccl.rank.ended", |reported| reported.len() >= 2);
    let late = resident_kib(agent.pid());
    println!("at most {points} points at once");
    println!(
        "resident after {} communicators {early} KiB, after {COMMUNICATORS} {late} KiB",
        COMMUNICATORS / 10
    );
    assert!(late <= early + GROWTH_MAX_KIB, "{early} KiB, then {late} KiB");
}
