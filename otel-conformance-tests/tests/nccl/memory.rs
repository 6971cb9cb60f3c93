//! Communicators that come and go: what the agent remembers of them is bounded.

use std::fs;

use crate::inbox::Inbox;
use crate::is_long;
use crate::job::{Agent, Job, binary};

/// Communicators made and destroyed, by each of two ranks.
const COMMUNICATORS: usize = 10_000;
/// What the agent may grow by after a tenth of them, KiB.
const GROWTH_MAX_KIB: u64 = 2_048;

/// Resident memory of a process, KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn ten_thousand_communicators_leave_nothing_behind() {
    let Some(binary) = binary() else { return };
    if !is_long() {
        return println!("skipped: it takes a minute; WARPTAP_NCCL_LONG=1 lets it run");
    }
    let script = format!(
        "ranks 2\ncomm world\nrepeat {COMMUNICATORS}\ncomm passing\nallreduce passing 8 float32 sum\nsync\n\
         destroy passing\nend\n"
    );
    let mut job = Job::start(&binary, &script);
    let inbox = Inbox::open();
    let receiver = ", collection_interval: 1s";
    let agent = Agent::start(&binary, job.dir.path(), &job.ranks, receiver, &inbox.exporter);
    job.go();
    let destroyed = |least: usize| {
        job.until("communicators", |calls| {
            calls.iter().filter(|call| call.symbol == "ncclCommDestroy").count() >= 2 * least
        });
        inbox.until_sum("nccl.collective.count", 2.0 * least as f64);
        resident_kib(agent.pid())
    };
    let (early, late) = (destroyed(COMMUNICATORS / 10), destroyed(COMMUNICATORS));
    println!(
        "resident after {} communicators {early} KiB, after {COMMUNICATORS} {late} KiB",
        COMMUNICATORS / 10
    );
    assert!(late <= early + GROWTH_MAX_KIB, "{early} KiB, then {late} KiB");
    job.end();
}
