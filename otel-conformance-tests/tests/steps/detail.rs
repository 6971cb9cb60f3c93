//! Outliers increase the sampling of calls, recovery decreases it, and no count depends on it.
//!
//! One copy is slow twice: at first its process is healthy, and only long calls are recorded; the second time it is not,
//! and every call is recorded.

use std::collections::BTreeMap;

use simulator::oracle::{CallLine, StepLine};

use super::{Log, outliers_in, unix};
use crate::live::agent::{Agent, Setup, player, turn};
use crate::live::binary::binary;
use crate::live::inbox::{Inbox, ReportedItem};

/// Decodes of 3 ms; in two of them the copy takes 40 ms.
const SCRIPT: &str = "\
stream main
graph decode main nodes=40
event done
thread engine
  repeat 1300
    step decode main
      fault swap host=4000x at=300
      fault swap host=4000x at=400
      copy h2d 2KiB main host=10us
      launch main grid=32 block=128
      graphlaunch decode main gpu=3ms
      record done main
      sync event done
    end
  end
end
";

const MS: u64 = 1_000_000;
const TROUBLE_NS: u64 = 1_500 * MS;
/// Collection interval, which bounds the delay between an event and its count.
const COLLECTED_NS: u64 = 100 * MS;
/// The probe is inside the interval that the player's log measures.
const OFF_NS: u64 = MS;

/// Returns whether a call is timed: the returns of launches are not observed.
fn is_timed(call: &&CallLine) -> bool {
    probe_abi::row(call.row).is_some_and(probe_abi::Probe::is_timed)
}

/// Returns the call spans below a span, in order.
fn calls_of<'a>(spans: &'a [ReportedItem], root: &ReportedItem) -> Vec<&'a ReportedItem> {
    let mut calls: Vec<&ReportedItem> =
        spans.iter().filter(|s| s.name == "gpu.step.call" && s.ids.2 == root.ids.1).collect();
    calls.sort_by_key(|s| s.at_ns);
    calls
}

/// Returns the player's calls within a step except the sync call, in order.
fn made_in<'a>(log: &'a Log, step: &StepLine) -> Vec<&'a CallLine> {
    let is_within = |c: &&CallLine| c.entry_ns >= step.first_ns && c.exit_ns < step.enter_ns;
    let mut calls: Vec<&CallLine> = log.calls.iter().filter(is_timed).filter(is_within).collect();
    calls.sort_by_key(|c| c.entry_ns);
    calls
}

#[track_caller]
fn assert_same(reported: &ReportedItem, made: &CallLine) {
    assert_eq!(reported.text("gpu.cuda.operation.name"), made.symbol);
    assert_eq!(reported.number::<u32>("thread.id"), made.tid);
    let (from, to) = (unix(made.entry_ns) - OFF_NS, unix(made.exit_ns) + OFF_NS);
    assert!(from <= reported.at_ns && reported.end_ns <= to, "{reported:?} is {made:?}");
    let (took, made_ns) = (reported.end_ns - reported.at_ns, made.exit_ns - made.entry_ns);
    assert!(took.abs_diff(made_ns) < 2 * OFF_NS, "{took} ns reported, {made_ns} ns made");
}

/// Returns the only outlier of a slow step, and its log record.
fn outlier(inbox: &Inbox, spans: &[ReportedItem], step: &StepLine) -> (ReportedItem, ReportedItem) {
    let found = outliers_in(spans, step);
    let [span] = found[..] else { panic!("one outlier in the slow step: {found:#?}") };
    let records = inbox.until("gpu.step.outlier", |r| r.iter().any(|r| r.ids.1 == span.ids.1));
    let record = records.into_iter().find(|r| r.ids.1 == span.ids.1).unwrap();
    let (_, said) =
        record.body.split_once("; cudaMemcpyAsync took ").unwrap_or_else(|| panic!("{}", record.body));
    assert!(said.contains(" ms, usually 0.0"), "40 ms and 10 us: {said}");
    (span.clone(), record)
}

/// Returns the share of hits that were delivered between successive collections: from, to, share.
fn shares(inbox: &Inbox) -> Vec<(u64, u64, f64)> {
    let delivered = inbox.history("warptap.probe.calls", "warptap.probe.outcome=delivered");
    let hits: BTreeMap<u64, f64> = inbox.history("warptap.probe.hits", "").into_iter().collect();
    let all: Vec<(u64, f64, f64)> =
        delivered.into_iter().filter_map(|(at, n)| Some((at, n, *hits.get(&at)?))).collect();
    let pairs = all.windows(2).filter(|pair| pair[1].2 - pair[0].2 >= 20.0);
    pairs.map(|p| (p[0].0, p[1].0, (p[1].1 - p[0].1) / (p[1].2 - p[0].2))).collect()
}

/// Regression test: a sampler never left its degraded state.
#[test]
fn detail_follows_outliers_and_counts_stay_exact() {
    let Some(binary) = binary() else { return };
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let mut player = player(&binary, dir.path(), "swaps", SCRIPT);
    let inbox = Inbox::open();
    let setup = Setup {
        pids: &[player.pid()],
        receiver: &format!(
            ", collection_interval: {}ms, detail: {{trouble: {}ms}}, outliers: {{excess_min: 15ms, spans_burst: 100}}",
            COLLECTED_NS / MS,
            TROUBLE_NS / MS
        ),
        exporter: &inbox.exporter,
        ..Setup::default()
    };
    let _agent = Agent::set_up(&binary, dir.path(), &setup);
    player.go().unwrap();
    let calls = player.done().unwrap();
    inbox.until_sum("warptap.probe.hits", calls as f64);
    inbox.until_sum("gpu.cuda.operation.count", calls as f64);

    let log = Log::read(dir.path(), "swaps");
    let [first, second] = &log.slow[..] else { panic!("two slow steps: {:?}", log.slow) };
    let spans = inbox.until_spans(|spans| !outliers_in(spans, second).is_empty());
    let (root, _) = outlier(&inbox, &spans, first);
    let copy = *made_in(&log, first).iter().max_by_key(|c| c.exit_ns - c.entry_ns).unwrap();
    let reported = calls_of(&spans, &root);
    let long: Vec<_> = reported.iter().filter(|s| s.text("gpu.call.weight") == "1").collect();
    assert!(
        !long.is_empty() && long.len() <= reported.len(),
        "the first outlier has its long call: {reported:?}"
    );
    assert_same(reported.iter().max_by_key(|s| s.end_ns - s.at_ns).unwrap(), copy);

    let (root, record) = outlier(&inbox, &spans, second);
    let (reported, made) = (calls_of(&spans, &root), made_in(&log, second));
    assert_eq!(reported.len(), made.len(), "every call of the second: {reported:#?} of {made:#?}");
    reported.iter().zip(&made).for_each(|(reported, made)| assert_same(reported, made));
    assert!(reported.iter().all(|s| s.text("gpu.call.weight") == "1"));
    assert!(record.text("gpu.step.calls").starts_with("cudaMemcpyAsync took "), "{record:?}");

    goes_up_and_down(&inbox, &spans, second);
    same_counts(&inbox, &log, player.pid());
    player.finish().unwrap();
}

/// Checks the share of delivered hits: eight of ten in detail, two otherwise, which are the steps themselves.
fn goes_up_and_down(inbox: &Inbox, spans: &[ReportedItem], last: &StepLine) {
    // Noise of the machine causes outliers, too.
    let large = |s: &&ReportedItem| s.name == "infer.outlier.2x" || s.name == "infer.outlier.3x";
    let trouble: Vec<(u64, u64)> =
        spans.iter().filter(large).map(|s| (s.end_ns, s.end_ns + TROUBLE_NS)).collect();
    let (mut inside, mut before, mut behind) = (0, 0, 0);
    for (from, to, share) in shares(inbox) {
        let is_inside = |(begin, end): &(u64, u64)| from > begin + COLLECTED_NS && to < *end;
        let is_outside = |(begin, end): &(u64, u64)| to < *begin || from > end + 2 * COLLECTED_NS;
        if trouble.iter().any(is_inside) {
            inside += 1;
            assert!(share > 0.7, "{share} delivered in trouble, {from} to {to} of {trouble:?}");
        } else if trouble.iter().all(is_outside) {
            assert!(share < 0.3, "{share} delivered without trouble, {from} to {to} of {trouble:?}");
            match from < unix(last.first_ns) {
                true => before += 1,
                false => behind += 1,
            }
        }
    }
    println!("collections: {before} before trouble, {inside} in it, {behind} behind it");
    // Noise may start the detail early, so that no collection precedes it.
    assert!(before + behind >= 3 && inside >= 5 && behind >= 1, "{before} {inside} {behind}: {trouble:?}");
}

/// Checks that calls and durations by function equal those of the player, however many calls were recorded.
fn same_counts(inbox: &Inbox, log: &Log, pid: u32) {
    let mut made = BTreeMap::<String, [f64; 2]>::new();
    for call in log.calls.iter().filter(|c| c.row != 0 && c.pid == pid) {
        let counts = made.entry(probe_abi::row(call.row).unwrap().symbol.to_owned()).or_default();
        counts[0] += 1.0;
        counts[1] += if is_timed(&call) { 1.0 } else { 0.0 };
    }
    let mut reported = BTreeMap::<String, [f64; 2]>::new();
    for (at, name) in ["gpu.cuda.operation.count", "gpu.cuda.operation.duration"].into_iter().enumerate() {
        for ((of, key), value) in inbox.sums(name) {
            let symbol = key.split("gpu.cuda.operation.name=").nth(1).unwrap_or_default();
            assert_eq!(of, pid);
            reported.entry(symbol.to_owned()).or_default()[at] += value;
        }
    }
    assert_eq!(reported, made);
}
