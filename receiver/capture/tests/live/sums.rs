//! Launches are counted outside the folds of their streams ([`probe_abi::hot`]): none may be missed or counted twice.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use event::Event;
use probe_abi::counters::SelfCounter;
use probe_abi::fold::Counter;
use probe_abi::{Action, row};
use simulator::oracle::{Line, read};

use crate::rig::{rig, settings};

/// Launches and the threads they start, by stream.
type Sums = BTreeMap<u64, (u64, u64)>;

/// Plays a script and compares the sums over all steps of a stream, unfinished ones included, with the calls made.
fn check(name: &str, script: &str) {
    let Some(mut rig) = rig(name, &settings()) else { return };
    let path = rig.dir.join("script");
    std::fs::write(&path, script).unwrap();
    let player = rig.player(&[path.to_str().unwrap()]);
    let calls = rig.play(player);
    let (mut made, mut seen) = (Sums::new(), Sums::new());
    let add = |sums: &mut Sums, stream, launches, threads| {
        let sum = sums.entry(stream).or_default();
        *sum = (sum.0 + launches, sum.1 + threads);
    };
    for line in read(&rig.oracle()).unwrap() {
        if let Line::Call(call) = line
            && row(call.row).is_some_and(|p| p.action == Action::Launch)
        {
            add(&mut made, call.stream, 1, call.threads);
        }
    }
    for event in &rig.events {
        if let Event::Step(step) = event {
            let work = |counter| step.work[counter as usize];
            add(&mut seen, step.stream, work(Counter::Launches), work(Counter::Threads));
        }
    }
    assert!(made.len() > 1, "the script launches");
    assert_eq!(seen, made);
    let account = rig.capture.account();
    assert_eq!(
        (account.hits, account.lost(), account[SelfCounter::UnmatchedReturn]),
        (calls, 0, 0),
        "{account:?}"
    );
    assert!(account.is_balanced(), "{account:?}");
}

#[test]
fn launches_of_concurrent_threads_are_counted_once() {
    let mut script = "stream main\nstream other\nevent done\n".to_owned();
    for (name, grid) in [("first", 2), ("second", 3)] {
        writeln!(script, "thread {name}\nrepeat 4000\nlaunch main grid={grid} block=32\nend\nend").unwrap();
    }
    script += "thread sync\nrepeat 300\nrecord done main\nlaunch main grid=5 block=32\nsync event done\n\
               launch other grid=7 block=32\nsync stream main every=3\nend\nend\n";
    check("concurrent", &script);
}

#[test]
fn streams_sharing_or_reusing_a_slot_are_counted_separately() {
    // So many streams that some share slots; then as many again, in the slots of those destroyed.
    let mut script = "thread main\nrepeat 2\n".to_owned();
    for word in ["stream", "launch", "launch", "launch", "sync stream", "launch", "launch", "destroy"] {
        for at in 0..400 {
            let grid = if word == "launch" { format!(" grid={} block=32", at + 1) } else { String::new() };
            writeln!(script, "{word} s{at}{grid}").unwrap();
        }
    }
    check("places", &(script + "end\nend\n"));
}
