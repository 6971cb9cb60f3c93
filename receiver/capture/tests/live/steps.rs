//! Steps of the kernel programs compared with those of the player.

use event::{Event, StepRecord};
use probe_abi::counters::SelfCounter;
use probe_abi::fold::Counter;
use probe_abi::record::flag;
use simulator::oracle::{Line, StepLine, read};

use crate::rig::{Rig, rig, settings};

/// A script that enqueues two steps ahead: each wait is for the event before the latest.
const AHEAD: &str = "\
stream main
event done ring=4
thread engine
  repeat 40
    step decode main
      launch main grid=8x2x1 block=128
      copy h2d 4096 main
      launch main grid=16 block=64 gpu=200us
      record done main
      sync event done back=1 from=1
    end
  end
  sync stream main
end
";

const SYNCHRONOUS: &str = "\
stream main
graph decode main nodes=20
event done
thread engine
  repeat 30
    step prefill main every=5
      launch main grid=100 block=256
      launch main grid=100 block=256 gpu=300us
      sync stream main
    end
    step decode main
      graphlaunch decode main gpu=150us
      copy d2h 4KiB main
      record done main
      sync event done
    end
  end
end
";

const TWO_STREAMS: &str = "\
stream left
stream right
thread engine
  repeat 20
    launch left grid=3 block=32
    launch right grid=5 block=32 gpu=100us
    launch right grid=5 block=32
    sync device
  end
end
";

fn work(step: &StepRecord) -> [u64; 5] {
    let columns =
        [Counter::Enqueues, Counter::Launches, Counter::GraphLaunches, Counter::Threads, Counter::Copies];
    columns.map(|c| step.work[c as usize])
}

fn logged(step: &StepLine) -> [u64; 5] {
    let w = &step.work;
    [w.enqueues, w.launches, w.graph_launches, w.threads, w.copies]
}

fn seen(rig: &Rig) -> Vec<StepRecord> {
    let finished = |e: &Event| match e {
        Event::Step(s) if s.header.flags & flag::UNFINISHED == 0 => Some(*s),
        _ => None,
    };
    rig.events.iter().filter_map(finished).collect()
}

/// Plays a script and compares each step with the oracle: its stream, work and times.
fn check(name: &str, script: &str) {
    let Some(mut rig) = rig(name, &settings()) else { return };
    let path = rig.dir.join("script");
    std::fs::write(&path, script).unwrap();
    let player = rig.player(&[path.to_str().unwrap()]);
    let calls = rig.play(player);
    let mut made: Vec<StepLine> = read(&rig.oracle())
        .unwrap()
        .into_iter()
        .filter_map(|l| if let Line::Step(s) = l { Some(s) } else { None })
        .collect();
    let mut steps = seen(&rig);
    made.sort_by_key(|s| (s.exit_ns, s.stream));
    steps.sort_by_key(|s| (s.header.entry_ns + s.header.duration_ns, s.stream));
    // Streams closed by one call return together: order them alike.
    made.sort_by_key(|s| (s.enter_ns, s.stream));
    steps.sort_by_key(|s| (s.header.entry_ns, s.stream));
    let shape = |s: &StepRecord| (s.stream, work(s));
    assert_eq!(
        steps.iter().map(shape).collect::<Vec<_>>(),
        made.iter().map(|s| (s.stream, logged(s))).collect::<Vec<_>>()
    );
    for (step, made) in steps.iter().zip(&made) {
        let exit_ns = step.header.entry_ns + step.header.duration_ns;
        assert!((made.enter_ns..=made.exit_ns).contains(&step.header.entry_ns), "{step:?} {made:?}");
        assert!(exit_ns <= made.exit_ns && exit_ns >= made.enter_ns, "{step:?} {made:?}");
        assert!(
            step.first_ns >= made.first_ns && step.first_ns <= made.first_ns + 5_000_000,
            "{step:?} {made:?}"
        );
        assert_eq!((step.header.tid, step.first_tid), (made.tid, made.first_tid));
    }
    let account = rig.capture.account();
    assert_eq!(
        (account.hits, account.lost(), account[SelfCounter::UnmatchedReturn]),
        (calls, 0, 0),
        "{account:?}"
    );
    assert!(account.is_balanced() && account[SelfCounter::Suppressed] > 0, "{account:?}");
}

#[test]
fn work_enqueued_ahead_is_in_the_next_step() {
    check("ahead", AHEAD);
}

#[test]
fn graphs_copies_and_launches_are_in_their_step() {
    check("synchronous", SYNCHRONOUS);
}

#[test]
fn a_device_synchronisation_closes_each_stream() {
    check("device", TWO_STREAMS);
}
