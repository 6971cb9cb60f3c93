//! Collectives in progress at the exit of a rank or of the agent.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use crate::job::Job;
use crate::live::agent::{Agent, PATIENCE};
use crate::live::binary::binary;
use crate::live::inbox::{Inbox, ReportedItem};

/// A script in which rank 1 does not enter the fourth collective, for which the others wait.
const HANGS: &str =
    "ranks 3\ncomm world\nrepeat 5\nstop only=1 at=3\nallreduce world 80 float32 sum\nsync\nend\n";
/// The collective that they wait in.
const OUTSTANDING: &str = "#3 AllReduce of 80 float32, sum, enqueued";

/// Starts the ranks and waits until two have entered the last collective.
fn until_it_hangs(job: &mut Job) {
    job.go();
    job.until("two ranks in the last collective", |calls| {
        calls.iter().filter(|call| call.seq == Some(3)).count() == 2
    });
}

fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

#[track_caller]
fn check_outstanding(said: &ReportedItem, job: &Job, rank: usize) {
    let who = (said.pid, said.number::<usize>("nccl.rank"), said.text("nccl.communicator.hash"));
    assert_eq!(who, (job.ranks[rank], rank, job.hash("world").as_str()));
    let (outstanding, recent) = (said.text("nccl.outstanding"), said.text("nccl.recent_operations"));
    assert!(outstanding.lines().count() == 1 && outstanding.starts_with(OUTSTANDING), "{said:#?}");
    assert!(recent.lines().any(|line| line.starts_with("#2 AllReduce of 80 float32, sum")), "{said:#?}");
}

#[test]
fn killed_rank_reports_its_outstanding_collectives() {
    let Some(binary) = binary() else { return };
    let mut job = Job::start(&binary, HANGS);
    let inbox = Inbox::open();
    let _agent = Agent::start(&binary, job.dir.path(), &job.ranks, "", &inbox.exporter);
    until_it_hangs(&mut job);
    kill(job.ranks[2]);
    let reported = inbox.until("nccl.rank.ended", |reported| !reported.is_empty());
    assert_eq!(reported.len(), 1);
    check_outstanding(&reported[0], &job, 2);
    assert_eq!((reported[0].text("nccl.end.reason"), reported[0].text("nccl.end.signal")), ("killed", "9"));
    assert!(reported[0].body.contains("was killed by SIGKILL"), "{}", reported[0].body);
    job.end();
}

/// Returns the time of the last write to a directory.
fn written(directory: &Path) -> Option<SystemTime> {
    let files = directory.read_dir().ok()?.flatten();
    files.filter_map(|file| file.metadata().ok()?.modified().ok()).max()
}

#[test]
fn restarted_agent_reports_collectives_of_ranks_that_exited_meanwhile() {
    let Some(binary) = binary() else { return };
    let mut job = Job::start(&binary, HANGS);
    let kept = job.dir.path().join("kept");
    let extension = format!("file_storage: {{directory: '{}', create_directory: true}}", kept.display());
    let receiver = ", storage: file_storage, nccl: {hang_timeout: 1500ms}";
    let start = |inbox: &Inbox, job: &Job| {
        Agent::start_with(&binary, job.dir.path(), &job.ranks, receiver, &inbox.exporter, &extension)
    };
    let inbox = Inbox::open();
    let agent = start(&inbox, &job);
    until_it_hangs(&mut job);
    // Records are written every second if something changed, and before the hang something did.
    let last = job.calls().iter().map(|call| call.exit_ns).max().unwrap();
    let last = SystemTime::UNIX_EPOCH
        + Duration::from_nanos(last.wrapping_add_signed(capture::offsets().to_unix_ns));
    inbox.until("nccl.hang", |reported| !reported.is_empty());
    let began = Instant::now();
    while written(&kept).is_none_or(|at| at < last) {
        assert!(began.elapsed() < PATIENCE, "nothing is written");
        std::thread::sleep(Duration::from_millis(20));
    }
    agent.kill();
    kill(job.ranks[2]);

    let inbox = Inbox::open();
    let _agent = start(&inbox, &job);
    let reported = inbox.until("nccl.flight_record", |reported| !reported.is_empty());
    assert_eq!(reported.len(), 1);
    check_outstanding(&reported[0], &job, 2);
    assert!(reported[0].body.contains("ended while the agent was not running"), "{}", reported[0].body);
    // A rank that hangs makes no calls; its restored state is reported when it exits.
    kill(job.ranks[0]);
    let reported = inbox.until("nccl.flight_record", |reported| reported.len() > 1);
    assert_eq!(reported.len(), 2);
    check_outstanding(&reported[1], &job, 0);
    job.end();
}

/// The creation of the communicator was traced only by the first agent.
#[test]
fn restarted_agent_restores_identities_and_names_the_late_rank() {
    let Some(binary) = binary() else { return };
    let script = "ranks 4\ncomm world\nrepeat 1200\npace world 12ms\nlate 30ms only=2 from=250\n\
                  allreduce world 80 float32 sum\nsync\nend\n";
    let mut job = Job::start(&binary, script);
    let kept = job.dir.path().join("kept");
    let extension = format!("file_storage: {{directory: '{}', create_directory: true}}", kept.display());
    let start = |inbox: &Inbox, job: &Job| {
        let receiver = ", storage: file_storage";
        Agent::start_with(&binary, job.dir.path(), &job.ranks, receiver, &inbox.exporter, &extension)
    };
    let agent = start(&Inbox::open(), &job);
    job.go();
    job.until("communicators that are made", |calls| calls.iter().any(|call| call.seq.is_some()));
    let made = SystemTime::now();
    let began = Instant::now();
    // A write later than the interval includes them.
    while written(&kept).is_none_or(|at| at < made + Duration::from_millis(1_500)) {
        assert!(began.elapsed() < PATIENCE, "nothing is written");
        std::thread::sleep(Duration::from_millis(20));
    }
    agent.kill();
    let inbox = Inbox::open();
    let _agent = start(&inbox, &job);
    let reported = inbox.until("nccl.straggler", |reported| reported.iter().any(|s| s.pid == job.ranks[2]));
    let of = reported.iter().find(|s| s.pid == job.ranks[2]).unwrap();
    let who =
        (of.number::<usize>("nccl.rank"), of.text("nccl.rank_source"), of.text("nccl.communicator.hash"));
    assert_eq!(who, (2, "restored", job.hash("world").as_str()));
    assert_eq!((of.text("nccl.communicator.source"), of.number::<u32>("nccl.nranks")), ("nccl", 4));
    job.end();
}
