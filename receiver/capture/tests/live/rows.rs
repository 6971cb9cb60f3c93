//! Every probe row, hit once with distinct arguments through its own probe.

use std::collections::BTreeMap;

use event::{CallRecord, Event, StepRecord};
use probe_abi::counters::SelfCounter;
use probe_abi::fold::Counter;
use probe_abi::{Action, Direction, PROBES, row};
use simulator::oracle::{CallLine, Line, read};

use crate::rig::{Rig, rig, settings};

/// Plays the sentinel calls and returns the lines of the oracle.
fn sentinels(rig: &mut Rig) -> Vec<CallLine> {
    // Functions that no row names are called too, by the direction: they are not ours to see.
    let player = rig.player(&["--sentinels"]);
    rig.play(player);
    let lines: Vec<CallLine> = read(&rig.oracle())
        .unwrap()
        .into_iter()
        .filter_map(|l| match l {
            Line::Call(call) if call.row != 0 => Some(call),
            _ => None,
        })
        .collect();
    lines
}

fn hits(events: &[Event]) -> BTreeMap<u16, u64> {
    let mut hits = BTreeMap::new();
    for event in events {
        if let Event::Operation(total) = event {
            hits.insert(total.row, total.calls);
        }
    }
    hits
}

fn calls(events: &[Event]) -> Vec<CallRecord> {
    events.iter().filter_map(|e| if let Event::Call(c) = e { Some(*c) } else { None }).collect()
}

fn steps(events: &[Event]) -> Vec<StepRecord> {
    events.iter().filter_map(|e| if let Event::Step(s) = e { Some(*s) } else { None }).collect()
}

fn is_reported(action: Action) -> bool {
    use Action::{
        Alloc, CaptureEnd, Create, Free, GraphDestroy, GraphUpdate, Instantiate, Report, StreamDestroy,
    };
    let of_graphs = matches!(action, CaptureEnd | GraphDestroy | GraphUpdate | Instantiate);
    of_graphs || matches!(action, Alloc | Create | Free | Report | StreamDestroy)
}

#[test]
fn rows_and_twins_hit_once_per_call() {
    let Some(mut rig) = rig("rows", &settings()) else { return };
    let made = sentinels(&mut rig);
    let mut expected = BTreeMap::new();
    made.iter().for_each(|c| *expected.entry(c.row).or_insert(0) += 1);
    let device = PROBES.iter().filter(|p| p.library != probe_abi::Library::Nccl).count();
    assert_eq!(expected.len(), device, "the sentinels call every row of a device");
    assert_eq!(hits(&rig.events), expected);
    let account = rig.capture.account();
    assert!(
        account.is_balanced() && account.lost() == 0 && account[SelfCounter::UnmatchedReturn] == 0,
        "{account:?}"
    );
}

#[test]
fn reported_rows_have_handle_bytes_and_stream_of_the_table() {
    let Some(mut rig) = rig("slots", &settings()) else { return };
    let made = sentinels(&mut rig);
    let mut seen = calls(&rig.events);
    for call in made.iter().filter(|c| row(c.row).is_some_and(|p| is_reported(p.action))) {
        let at = seen
            .iter()
            .position(|s| s.header.row == call.row && s.handle == call.handle && s.bytes == call.bytes);
        let at = at.unwrap_or_else(|| {
            panic!(
                "{}: handle {:#x}, {} bytes, in none of {:#x?}",
                call.symbol,
                call.handle,
                call.bytes,
                seen.iter().filter(|s| s.header.row == call.row).collect::<Vec<_>>()
            )
        });
        let record = seen.remove(at);
        let has_stream = row(call.row).is_some_and(|p| p.wiring.stream != probe_abi::ArgPos::NONE);
        assert!(!has_stream || record.stream == call.stream, "{}: {record:?}", call.symbol);
        assert_eq!((record.result, record.header.tid), (call.result, call.tid), "{}", call.symbol);
        let took = call.exit_ns - call.entry_ns;
        assert!(
            record.header.entry_ns >= call.entry_ns && record.header.duration_ns <= took,
            "{}",
            call.symbol
        );
    }
}

/// Adds the work of a call to that of its stream.
fn add(work: &mut [u64; 6], call: &CallLine) {
    let Some(probe) = row(call.row) else { return };
    match probe.action {
        Action::Launch => work[0] = work[0].wrapping_add(call.threads),
        Action::Copy => {
            let place = match Direction::from_kind(u64::from(call.direction)) {
                Direction::HostToDevice => 1,
                Direction::DeviceToHost => 2,
                Direction::DeviceToDevice => 3,
                Direction::HostToHost | Direction::Unknown => 4,
            };
            work[place] += call.bytes;
        }
        Action::Fill => work[5] += call.bytes,
        _ => {}
    }
}

#[test]
fn enqueueing_rows_add_their_work_to_their_stream() {
    let Some(mut rig) = rig("work", &settings()) else { return };
    let made = sentinels(&mut rig);
    let mut expected: BTreeMap<u64, [u64; 6]> = BTreeMap::new();
    let enqueues = |c: &&CallLine| {
        row(c.row).is_some_and(|p| matches!(p.action, Action::Launch | Action::Copy | Action::Fill))
    };
    let mut capturing = std::collections::BTreeSet::new();
    for call in &made {
        match row(call.row).map(|p| p.action) {
            Some(Action::CaptureBegin) => drop(capturing.insert(call.stream)),
            Some(Action::CaptureEnd) => drop(capturing.remove(&call.stream)),
            _ => {}
        }
        // What is captured into a graph is not work.
        if !enqueues(&call) || capturing.contains(&call.stream) {
            continue;
        }
        // Stream 0 of a twin is the thread's own; its step says so in the upper half of the stream.
        let own = call.twin && call.stream == 0;
        let key = if own { u64::from(call.tid) << 32 } else { call.stream };
        add(expected.entry(key).or_default(), call);
    }
    let mut seen: BTreeMap<u64, [u64; 6]> = BTreeMap::new();
    let columns = [
        Counter::Threads,
        Counter::BytesToDevice,
        Counter::BytesFromDevice,
        Counter::BytesOnDevice,
        Counter::BytesElsewhere,
        Counter::BytesFilled,
    ];
    for step in steps(&rig.events) {
        let work = seen.entry(step.stream).or_default();
        for (all, column) in work.iter_mut().zip(columns) {
            *all = all.wrapping_add(step.work[column as usize]);
        }
    }
    seen.retain(|_, work| *work != [0; 6]);
    expected.retain(|_, work| *work != [0; 6]);
    assert_eq!(seen, expected);
}
