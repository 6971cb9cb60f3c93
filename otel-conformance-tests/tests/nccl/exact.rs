//! The spans and metrics of every collective against the oracle log: numbers exactly, times within microseconds.

use std::collections::BTreeMap;

use nccl::operation::{datatype_name, reduction_name};
use simulator::oracle::NcclLine;

use crate::job::Job;
use crate::live::agent::Agent;
use crate::live::binary::binary;
use crate::live::inbox::{Inbox, ReportedItem};

/// A job with every kind of NCCL call, on four ranks with jitter, one of which is late at times.
const JOB: &str = "\
ranks 4
seed 11
comm world
comm two of=1,3
split pairs world color=rank/2
repeat 20
  pace world 80ms
  sleep 0us..900us
  late 3ms only=2 every=7
  allreduce world 4096 float16 sum
  sync
  reducescatter pairs 64 float32 avg stream=side
  allgather world 128 bfloat16
  reduce world 5 int32 max root=1
  broadcast world 33 uint64 root=2
  bcast two 3 int64 root=1 only=1,3
  alltoall world 77 float64
  gather world 9 int8 root=3
  scatter world 8 uint32 root=0
  group
    send world 10 uint8 peer=+1
    recv world 10 uint8 peer=+3
  end
  eventsync
  sync side
end
";

/// Function, operation, and the positions of count, datatype and reduction.
const FUNCTIONS: [(&str, &str, usize, usize, Option<usize>); 11] = [
    ("ncclAllGather", "AllGather", 2, 3, None),
    ("ncclAllReduce", "AllReduce", 2, 3, Some(4)),
    ("ncclAlltoAll", "AlltoAll", 2, 3, None),
    ("ncclBcast", "Broadcast", 1, 2, None),
    ("ncclBroadcast", "Broadcast", 2, 3, None),
    ("ncclGather", "Gather", 2, 3, None),
    ("ncclRecv", "Recv", 1, 2, None),
    ("ncclReduce", "Reduce", 2, 3, Some(4)),
    ("ncclReduceScatter", "ReduceScatter", 2, 3, Some(4)),
    ("ncclScatter", "Scatter", 2, 3, None),
    ("ncclSend", "Send", 1, 2, None),
];
/// Bytes of an element, by `ncclDataType_t`.
const SIZES: [u64; 12] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1];

/// Returns the operation, datatype, reduction and bytes of a call.
fn moved(call: &NcclLine) -> Option<(&'static str, &'static str, &'static str, u64)> {
    let (_, operation, count, datatype, reduction) = *FUNCTIONS.iter().find(|(f, ..)| *f == call.symbol)?;
    let argument = |at: usize| call.arguments[at];
    let bytes = argument(count) * SIZES[argument(datatype) as usize];
    let reduction = reduction.map_or("", |at| reduction_name(argument(at) as u32));
    Some((operation, datatype_name(argument(datatype) as u32), reduction, bytes))
}

/// Checks that every span of a rank belongs to one call and describes it.
#[track_caller]
fn check_spans(job: &Job, spans: &[ReportedItem]) {
    let mut reported: BTreeMap<(u32, String, u64), &ReportedItem> = BTreeMap::new();
    for span in spans.iter().filter(|s| is_part(s)) {
        let key = (span.pid, span.text("nccl.communicator.hash").to_owned(), span.number("nccl.sequence"));
        assert!(reported.insert(key, span).is_none(), "reported twice: {span:?}");
    }
    let calls = job.calls();
    let collectives: Vec<&NcclLine> = calls.iter().filter(|c| c.seq.is_some()).collect();
    assert_eq!(reported.len(), collectives.len());
    let names = names(job, spans);
    for call in collectives {
        let key = (call.pid, names[&call.communicator].clone(), call.seq.unwrap());
        let span = reported.get(&key).unwrap_or_else(|| panic!("not reported: {call:?}"));
        let (operation, datatype, reduction, bytes) = moved(call).unwrap();
        let reported = ["nccl.operation", "nccl.datatype", "nccl.reduction"].map(|key| span.text(key));
        assert_eq!(reported, [operation, datatype, reduction], "{call:?}");
        let reported: [u64; 3] = ["nccl.bytes", "nccl.rank", "nccl.nranks"].map(|key| span.number(key));
        assert_eq!(reported, [bytes, call.rank.into(), call.nranks.into()], "{call:?}");
    }
}

fn is_part(span: &ReportedItem) -> bool {
    span.name.starts_with("nccl.rank.") && !span.text("nccl.sequence").is_empty() && !is_side(span)
}

/// Returns whether a span is one side of a message.
fn is_side(span: &ReportedItem) -> bool {
    !span.text("nccl.message.sequence").is_empty()
}

/// Checks that both sides of a message have linked spans in one trace.
#[track_caller]
fn check_messages(job: &Job, spans: &[ReportedItem]) {
    let calls = job.calls();
    let sides: Vec<&ReportedItem> = spans.iter().filter(|s| is_side(s)).collect();
    let made = calls.iter().filter(|c| ["ncclSend", "ncclRecv"].contains(&&*c.symbol)).count();
    assert_eq!(sides.len(), made);
    let mut messages: BTreeMap<&Vec<u8>, Vec<&ReportedItem>> = BTreeMap::new();
    sides.iter().for_each(|side| messages.entry(&side.ids.0).or_default().push(side));
    assert_eq!(2 * messages.len(), made);
    for both in messages.values() {
        let [send, recv] = ["Send", "Recv"].map(|name| {
            *both.iter().find(|s| s.text("nccl.operation") == name).unwrap_or_else(|| panic!("{both:#?}"))
        });
        assert_eq!(recv.ids.2, send.ids.1, "the receiver's is a child of the sender's");
        assert_eq!(send.text("nccl.rank"), recv.text("nccl.peer"));
        assert_eq!(send.text("nccl.peer"), recv.text("nccl.rank"));
        assert_eq!((send.pid, recv.pid), {
            let pid = |rank: &str| job.ranks[rank.parse::<usize>().unwrap()];
            (pid(send.text("nccl.rank")), pid(recv.text("nccl.rank")))
        });
    }
}

/// Returns the reported names of communicators by their names in the script; those of a split are found by their ranks.
fn names(job: &Job, spans: &[ReportedItem]) -> BTreeMap<String, String> {
    let mut names: BTreeMap<String, String> =
        ["world", "two"].into_iter().map(|name| (name.to_owned(), job.hash(name))).collect();
    let calls = job.calls();
    for call in calls.iter().filter(|c| c.communicator.starts_with("pairs.")) {
        let known: Vec<String> = names.values().cloned().collect();
        let of = spans.iter().filter(|s| is_part(s) && s.pid == call.pid);
        let other =
            of.map(|s| s.text("nccl.communicator.hash")).find(|hash| !known.iter().any(|k| k == hash));
        if let Some(hash) = other {
            names.entry(call.communicator.clone()).or_insert_with(|| hash.to_owned());
        }
    }
    names
}

/// Checks calls and bytes by process, operation, datatype and reduction.
#[track_caller]
fn check_sums(job: &Job, inbox: &Inbox) {
    let (mut count, mut io): (BTreeMap<_, f64>, BTreeMap<_, f64>) = Default::default();
    for call in job.calls() {
        let Some((operation, datatype, reduction, bytes)) = moved(&call) else { continue };
        let mut key = vec![format!("nccl.datatype={datatype}"), format!("nccl.operation={operation}")];
        key.extend((!reduction.is_empty()).then(|| format!("nccl.reduction={reduction}")));
        let key = (call.pid, key.join(" "));
        *count.entry(key.clone()).or_default() += 1.0;
        *io.entry(key).or_default() += bytes as f64;
    }
    inbox.until_sum("nccl.collective.count", count.values().sum());
    for (name, made) in [("nccl.collective.count", count), ("nccl.collective.io", io)] {
        let mut reported: BTreeMap<(u32, String), f64> = BTreeMap::new();
        for ((pid, key), value) in inbox.sums(name) {
            let is_ours = |part: &&str| {
                ["nccl.datatype", "nccl.operation", "nccl.reduction"]
                    .contains(&part.split('=').next().unwrap())
            };
            let key: Vec<&str> = key.split(' ').filter(is_ours).collect();
            *reported.entry((pid, key.join(" "))).or_default() += value;
        }
        assert_eq!(reported, made, "{name}");
    }
}

/// Prints the distribution of differences and checks it.
#[track_caller]
fn check_times(what: &str, mut off_ns: Vec<u64>) {
    off_ns.sort_unstable();
    let at = |share: f64| off_ns[((off_ns.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    let within = off_ns.iter().filter(|ns| **ns <= 50_000).count();
    println!(
        "{what}: {} of {} within 50 us of the log; p50 {:.1} us, p90 {:.1} us, p99 {:.1} us, largest {:.1} us",
        within,
        off_ns.len(),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    assert!(within * 100 >= off_ns.len() * 95, "{what}: only {within} of {} within 50 us", off_ns.len());
}

fn seconds_as_ns(span: &ReportedItem, key: &str) -> u64 {
    (span.number::<f64>(key) * 1e9).round() as u64
}

#[test]
fn every_collective_is_reported_as_the_oracle_logged_it() {
    let Some(binary) = binary() else { return };
    let mut job = Job::start(&binary, JOB);
    let inbox = Inbox::open();
    let receiver = ", collection_interval: 500ms, nccl: {traces: {rate: 1, skew_min: 0s}}";
    let agent = Agent::start(&binary, job.dir.path(), &job.ranks, receiver, &inbox.exporter);
    job.go();
    job.done();
    check_sums(&job, &inbox);
    let collectives = job.calls().iter().filter(|c| c.seq.is_some()).count();
    let spans = inbox.until_spans(|spans| spans.iter().filter(|s| is_part(s)).count() >= collectives);
    let messages = job.calls().iter().filter(|c| ["ncclSend", "ncclRecv"].contains(&&*c.symbol)).count();
    let spans_of_messages =
        inbox.until_spans(|spans| spans.iter().filter(|s| is_side(s)).count() >= messages);
    drop(agent);
    check_spans(&job, &spans);
    check_messages(&job, &spans_of_messages);
    let names = names(&job, &spans);

    // Arrival times of the ranks by collective.
    let calls = job.calls();
    let mut arrivals: BTreeMap<(&str, u64), Vec<&NcclLine>> = BTreeMap::new();
    for call in calls.iter().filter(|c| c.seq.is_some()) {
        arrivals.entry((&call.communicator, call.seq.unwrap())).or_default().push(call);
    }
    let part = |call: &NcclLine| {
        let is_it = |s: &&ReportedItem| {
            is_part(s)
                && s.pid == call.pid
                && s.text("nccl.communicator.hash") == names[&call.communicator]
                && s.number::<u64>("nccl.sequence") == call.seq.unwrap()
        };
        spans.iter().find(is_it).unwrap()
    };
    let mut skews = Vec::new();
    for ranks in arrivals.values() {
        let (first, last) = (ranks.iter().map(|c| c.entry_ns).min(), ranks.iter().map(|c| c.entry_ns).max());
        let skew_ns = last.unwrap() - first.unwrap();
        // A span reported before the last arrival has no skew.
        let reported = ranks.iter().map(|call| part(call)).find(|span| !span.text("nccl.skew").is_empty());
        skews.push(seconds_as_ns(reported.unwrap(), "nccl.skew").abs_diff(skew_ns));
    }
    check_times("arrival skew", skews);
    let mut waits = Vec::new();
    for wait in job.waits() {
        for (name, seq) in &wait.covers {
            let is_it = |c: &&NcclLine| c.pid == wait.pid && c.communicator == *name && c.seq == Some(*seq);
            let call = calls.iter().find(is_it).unwrap();
            let span = part(call);
            let enqueue =
                spans.iter().find(|s| s.name == "nccl.rank.enqueue" && s.ids.2 == span.ids.1).unwrap();
            waits.push((span.end_ns - enqueue.end_ns).abs_diff(wait.exit_ns - call.exit_ns));
        }
    }
    check_times("barrier wait", waits);
}
