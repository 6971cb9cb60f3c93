//! Stragglers and hangs: the right rank is named in time, and no other.

use std::time::{Duration, Instant};

use simulator::oracle::NcclLine;

use crate::job::Job;
use crate::live::agent::Agent;
use crate::live::binary::binary;
use crate::live::inbox::{Inbox, ReportedItem};
use crate::{is_long, times};

/// Limits of a verdict in collectives or time after the first late one.
const COLLECTIVES_MAX: u64 = 3;
const TIME_MAX: Duration = Duration::from_secs(2);
/// Smallest delay that counts as late, without the probes' own time.
const LATENESS_MIN: Duration = Duration::from_micros(1_900);
/// Maximum delay of a hang's report in addition to the timeout: the interval of checks and the delivery.
const HANG_SLACK: Duration = Duration::from_millis(500);

/// A rank that is late in a range of collectives of a communicator.
#[derive(Clone, Debug)]
struct Late {
    communicator: &'static str,
    rank: u32,
    by_ms: u64,
    turns: std::ops::Range<u64>,
}

impl Late {
    const fn new(rank: u32, by_ms: u64, from: u64, until: u64) -> Late {
        Late { communicator: "world", rank, by_ms, turns: from..until }
    }

    fn line(&self) -> String {
        format!(
            "late {}ms only={} from={} until={}\n",
            self.by_ms, self.rank, self.turns.start, self.turns.end
        )
    }
}

/// Plays a job traced by an agent; returns the straggler events.
fn watch(script: &str, late: &[Late]) -> Option<(Job, Vec<ReportedItem>)> {
    let binary = binary()?;
    let mut job = Job::start(&binary, script);
    let inbox = Inbox::open();
    let _agent = Agent::start(&binary, job.dir.path(), &job.ranks, "", &inbox.exporter);
    job.go();
    job.done();
    let named = |reported: &[ReportedItem], late: &Late| {
        reported.iter().any(|s| s.pid == job.ranks[late.rank as usize])
    };
    let reported = inbox.until("nccl.straggler", |reported| late.iter().all(|late| named(reported, late)));
    Some((job, reported))
}

/// Checks that each late rank is named in its communicator in time, and no rank that was not late.
#[track_caller]
fn check(job: &Job, reported: &[ReportedItem], late: &[Late]) {
    let calls = job.calls();
    for event in reported {
        let is_late = |late: &Late| {
            let pid = job.ranks[late.rank as usize];
            let own = calls.iter().find(|c| c.pid == pid && c.communicator == late.communicator);
            let who = (event.pid, event.number::<u32>("nccl.rank"), event.text("nccl.communicator.hash"));
            who == (pid, own.unwrap().rank, &job.hash(late.communicator))
        };
        assert!(late.iter().any(is_late) || was_late(&calls, event), "no rank was late: {event:#?}");
    }
    late.iter().for_each(|late| check_time(job, reported, late));
}

/// Returns whether the oracle log confirms a straggler, because ranks are also late on a busy machine: it is later
/// than the median of all ranks in as many of the last collectives as reported.
fn was_late(calls: &[NcclLine], event: &ReportedItem) -> bool {
    let seq: u64 = event.number("nccl.sequence");
    let [rounds, rounds_late] =
        ["nccl.straggler.collectives", "nccl.straggler.late_collectives"].map(|key| event.number::<u64>(key));
    let Some(communicator) = calls.iter().find(|c| c.pid == event.pid && c.seq == Some(seq)) else {
        return false;
    };
    let is_late = |seq: &u64| {
        let of = calls.iter().filter(|c| c.seq == Some(*seq) && c.communicator == communicator.communicator);
        let mut arrivals: Vec<u64> = of.clone().map(|c| c.entry_ns).collect();
        arrivals.sort_unstable();
        let own = of.clone().find(|c| c.pid == event.pid);
        own.is_some_and(|own| own.entry_ns > arrivals[arrivals.len() / 2] + LATENESS_MIN.as_nanos() as u64)
    };
    let late = (seq + 1 - rounds..=seq).filter(is_late).count() as u64;
    println!("{}: {late} of {rounds} by the ranks' own log", event.body);
    late >= rounds_late
}

#[track_caller]
fn check_time(job: &Job, reported: &[ReportedItem], late: &Late) {
    let calls = job.calls();
    let is_it = |c: &&NcclLine| c.late_ns == late.by_ms * 1_000_000 && c.pid == job.ranks[late.rank as usize];
    let begin = calls.iter().find(is_it).unwrap();
    let first_seq = begin.seq.unwrap();
    let of_it = reported.iter().filter(|event| event.pid == begin.pid);
    let first = of_it
        .map(|event| (event.number::<u64>("nccl.sequence"), event.at_ns))
        .find(|(seq, _)| *seq >= first_seq);
    let (seq, at_ns) = first.unwrap_or_else(|| panic!("{late:?} is not named: {reported:#?}"));
    let unix_ns = begin.entry_ns.wrapping_add_signed(capture::offsets().to_unix_ns);
    let after = Duration::from_nanos(at_ns.saturating_sub(unix_ns));
    let ranks = job.ranks.len();
    println!("{ranks} ranks, {late:?}: named {} collectives, {after:?} after the first", seq - first_seq);
    assert!(seq - first_seq <= COLLECTIVES_MAX || after <= TIME_MAX, "{late:?}: after {after:?}");
}

/// Returns a script with jitter and late ranks in the communicator `world`, and another communicator. After each
/// collective the ranks wait long enough for all of them to be woken, even on few CPUs.
fn job(ranks: usize, seed: usize, turns: u64, late: &[Late]) -> String {
    let late: String = late.iter().map(Late::line).collect();
    let pace_ms = if ranks == 64 { 25 } else { 4 };
    format!(
        "ranks {ranks}\nseed {seed}\ncomm world\ncomm odd of=1,3,5,7\nrepeat {turns}\n\
         allreduce odd 8 int32 max only=1,3,5,7 stream=side\nsync side only=1,3,5,7\n\
         pace world {pace_ms}ms\nsleep 0ms..1ms\n{late}allreduce world 4096 float32 sum\nsync\nend\n"
    )
}

#[test]
fn only_the_late_rank_of_eight_is_named() {
    for seed in 1..=times() {
        let late = [Late::new(3, 5, 60, 80), Late::new(6, 20, 130, 150), Late::new(1, 100, 200, 206)];
        let Some((job, reported)) = watch(&job(8, seed, 210, &late), &late) else { return };
        check(&job, &reported, &late);
    }
}

#[test]
fn only_the_late_rank_of_64_is_named() {
    for seed in 1..=times() {
        // On two CPUs 64 ranks arrive over milliseconds, so a delay of 5 ms may need the widest window.
        let late = [Late::new(40, 5, 40, 72), Late::new(7, 20, 100, 120), Late::new(63, 100, 150, 156)];
        let Some((job, reported)) = watch(&job(64, seed, 160, &late), &late) else { return };
        check(&job, &reported, &late);
    }
}

#[test]
fn two_late_ranks_are_distinguished_by_communicator() {
    for seed in 1..=times() {
        let late = [
            Late { communicator: "even", ..Late::new(2, 10, 60, 90) },
            Late { communicator: "odd", ..Late::new(5, 15, 60, 90) },
        ];
        let script = format!(
            "ranks 8\nseed {seed}\ncomm even of=0,2,4,6\ncomm odd of=1,3,5,7\nrepeat 100\npace even 4ms only=0,2,4,6\npace odd 4ms only=1,3,5,7\nsleep 0ms..1ms\n{}{}\
             allreduce even 64 float16 sum only=0,2,4,6\nallgather odd 64 float16 only=1,3,5,7\nsync\nend\n",
            late[0].line(),
            late[1].line()
        );
        let Some((job, reported)) = watch(&script, &late) else { return };
        check(&job, &reported, &late);
    }
}

/// In simulated time `nccl` runs without a straggler for ten minutes; here as long as the test may take.
#[test]
fn jitter_alone_names_no_rank() {
    let Some(binary) = binary() else { return };
    let turns = if is_long() { 150_000 } else { 800 };
    let script = format!(
        "ranks 8\nseed 5\ncomm world\nrepeat {turns}\npace world 3ms\nsleep 0ms..1ms\n\
         allreduce world 4096 float32 sum\nsync\nend\n"
    );
    let mut job = Job::start(&binary, &script);
    let inbox = Inbox::open();
    let (receiver, began) = (", collection_interval: 1s", Instant::now());
    let agent = Agent::start(&binary, job.dir.path(), &job.ranks, receiver, &inbox.exporter);
    job.go();
    job.done();
    let made = job.calls().iter().filter(|call| call.seq.is_some()).count();
    inbox.until_sum("nccl.collective.count", made as f64);
    drop(agent);
    let verdicts: Vec<ReportedItem> =
        inbox.logs().into_iter().filter(|event| event.name == "nccl.straggler").collect();
    println!("{made} calls of 8 ranks in {:?}", began.elapsed());
    let calls = job.calls();
    let wrong: Vec<&ReportedItem> = verdicts.iter().filter(|event| !was_late(&calls, event)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn rank_that_never_arrives_is_named_within_the_timeout() {
    let Some(binary) = binary() else { return };
    let script = "ranks 4\ncomm world\nrepeat 20\nsleep 0ms..1ms\nstop only=2 at=11\n\
                  reducescatter world 640 bfloat16 avg\nsync\nend\n";
    let mut job = Job::start(&binary, script);
    let inbox = Inbox::open();
    let timeout = Duration::from_secs(2);
    let receiver = format!(", nccl: {{hang_timeout: {}ms}}", timeout.as_millis());
    let _agent = Agent::start(&binary, job.dir.path(), &job.ranks, &receiver, &inbox.exporter);
    job.go();
    let reported = inbox.until("nccl.hang", |reported| !reported.is_empty());
    let [hang] = reported.as_slice() else { panic!("{reported:#?}") };
    assert_eq!(hang.pid, job.ranks[2], "it is reported of the rank that does not come");
    assert_eq!(hang.text("nccl.communicator.hash"), job.hash("world"));
    assert_eq!((hang.text("nccl.operation"), hang.number::<u64>("nccl.sequence")), ("ReduceScatter", 11));
    let rank = |n: usize| format!("rank {n} (process {})", job.ranks[n]);
    let (missing, waiting) = (hang.text("nccl.hang.missing_ranks"), hang.text("nccl.hang.waiting_ranks"));
    assert!(missing.lines().count() == 1 && missing.starts_with(&rank(2)), "{missing}");
    let mut waiting: Vec<&str> = waiting.lines().collect();
    waiting.sort_unstable();
    assert_eq!(waiting, [0, 1, 3].map(rank), "{hang:#?}");
    let calls = job.calls();
    let first_ns = calls.iter().filter(|c| c.seq == Some(11)).map(|c| c.exit_ns).min().unwrap();
    let after = hang.at_ns - first_ns.wrapping_add_signed(capture::offsets().to_unix_ns);
    let after = Duration::from_nanos(after);
    println!("reported {after:?} after the first rank began to wait, with a timeout of {timeout:?}");
    assert!(after <= timeout + HANG_SLACK, "{after:?}");
    job.end();
}
