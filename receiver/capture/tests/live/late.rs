//! Attachment in the middle of a program: every step that is not marked is a step of the program.

use std::time::{Duration, Instant};

use event::{Event, StepRecord};
use probe_abi::record::flag;
use simulator::oracle::{Line, read};

use crate::rig::{Rig, rig, settings};
use crate::scripts::{Seen, of_line, of_record, whole_records};

/// Scripts with work ahead of its waits, on several streams and of several threads.
const SCRIPTS: [&str; 4] = ["@vllm-async", "@vllm-eager", "fork-join", "@train"];
/// Two streams that fork and join.
const FORK_JOIN: &str = "\
seed 44
stream main
stream side
event fork ring=2
event join ring=2
thread engine
  repeat 20s
    launch main grid=64 block=128 gpu=50us
    record fork main
    wait side fork
    repeat 3
      launch side grid=64 block=128 gpu=50us
    end
    record join side
    wait main join
    launch main grid=64 block=128 gpu=50us
    copy d2h 128 main
    sync stream main
  end
end
";
/// Moments of attachment after the start, ms.
const MOMENTS_MS: [u64; 3] = [37, 150, 411];
/// Enqueues, launches, graph launches, threads, copies, bytes: the work of a step except the contents of graphs, which
/// are unknown if the graphs were captured earlier.
const WORK: usize = 9;

fn steps(rig: &Rig) -> Vec<StepRecord> {
    let steps = whole_records(&rig.events).into_iter();
    steps.filter(|s| s.header.flags & flag::UNFINISHED == 0).collect()
}

/// Starts a script and attaches to it after some time. Returns the times before and after the attachment.
fn play_late(rig: &mut Rig, script: &str, after: Duration) -> (u64, u64) {
    let path = rig.dir.join("fork-join");
    std::fs::write(&path, FORK_JOIN).unwrap();
    let script = if script.starts_with('@') { script } else { path.to_str().unwrap() };
    let mut player = rig.unattached_player(&[script, "--seconds", "2"]);
    let pid = player.pid();
    player.go().unwrap();
    let began = Instant::now();
    rig.wait("the moment of attachment", |_| began.elapsed() >= after);
    let before_ns = capture::now_ns();
    rig.capture.trace(pid).unwrap();
    let attached_ns = capture::now_ns();
    let playing = std::thread::spawn(move || {
        player.done().unwrap();
        player.finish().unwrap();
    });
    rig.wait("the player's end", |rig| {
        let has_ended = |e: &Event| matches!(e, Event::Exit { process, .. } if process.pid == pid);
        playing.is_finished() && rig.events.iter().any(has_ended)
    });
    playing.join().unwrap();
    (before_ns, attached_ns)
}

fn is_same(record: &Seen, made: &Seen) -> bool {
    let ([first, enter, exit], [made_first, made_enter, made_exit]) = (record.times, made.times);
    record.shape.2[..WORK] == made.shape.2[..WORK]
        && record.shape.3 == made.shape.3
        && made_first <= first
        && (made_enter..=exit).contains(&enter)
        && exit <= made_exit
}

/// A step of which enqueues were missed began when its first one was seen, and had less work.
#[test]
fn unmarked_steps_after_a_late_attach_are_whole() {
    let Some(mut rig) = rig("late-steps", &settings()) else { return };
    for (script, ms) in SCRIPTS.into_iter().flat_map(|script| MOMENTS_MS.map(|ms| (script, ms))) {
        let (before_ns, attached_ns) = play_late(&mut rig, script, Duration::from_millis(ms));
        let lines = read(&rig.oracle()).unwrap();
        let made: Vec<Seen> = lines
            .iter()
            .filter_map(|l| if let Line::Step(s) = l { Some(of_line(s)) } else { None })
            .collect();
        let (marked, whole): (Vec<_>, Vec<_>) =
            steps(&rig).into_iter().partition(|s| s.header.flags & flag::UNARMED != 0);
        for step in &whole {
            let seen = of_record(step);
            let found = made.iter().find(|made| is_same(&seen, made));
            let at_us = (step.first_ns as i64 - before_ns as i64) / 1_000;
            assert!(found.is_some(), "{script} at {ms} ms: {:?} is not a step, {at_us} us", seen.shape);
        }
        println!("{script} at {ms} ms: {} steps, {} marked", whole.len(), marked.len());
        // Those that begin while functions are attached are marked, and of each stream the one under way.
        let later = marked.iter().filter(|step| step.first_ns > attached_ns).count();
        assert!(
            !marked.is_empty() && later <= 6 && whole.len() > 3,
            "{script}: {} and {later}",
            marked.len()
        );
        rig.events.clear();
    }
}

#[test]
fn allocations_of_a_late_process_are_marked() {
    let Some(mut rig) = rig("late-memory", &settings()) else { return };
    let is_allocation = |e: &&Event| match e {
        Event::Call(c) => probe_abi::row(c.header.row).is_some_and(|row| row.symbol == "cudaMalloc"),
        _ => false,
    };
    let path = rig.dir.join("allocate");
    let script = "stream main\nthread one\nrepeat 20s\nmalloc m 4KiB\nlaunch main\nsync stream main\nfree m\nsleep 1ms\nend\nend\n";
    std::fs::write(&path, script).unwrap();
    let arguments = [path.to_str().unwrap(), "--seconds", "1"];
    for is_late in [false, true] {
        let mut player = rig.unattached_player(&arguments);
        let pid = player.pid();
        if is_late {
            player.go().unwrap();
            let has_begun = |rig: &mut Rig| std::fs::metadata(rig.oracle()).is_ok_and(|log| log.len() > 0);
            rig.wait("the first calls", has_begun);
        }
        rig.capture.trace(pid).unwrap();
        if !is_late {
            player.go().unwrap();
        }
        rig.wait("allocations", |rig| rig.events.iter().filter(is_allocation).count() > 20);
        let flags = |e: &Event| if let Event::Call(c) = e { c.header.flags & flag::LATE } else { 0 };
        let marked = rig.events.iter().filter(is_allocation).filter(|e| flags(e) != 0).count();
        let all = rig.events.iter().filter(is_allocation).count();
        assert_eq!(marked, if is_late { all } else { 0 }, "{all} allocations");
        let unarmed = steps(&rig).iter().filter(|s| s.header.flags & flag::UNARMED != 0).count();
        assert_eq!(unarmed, usize::from(is_late));
        player.done().unwrap();
        player.finish().unwrap();
        rig.wait("the exit", |rig| rig.events.iter().any(|e| matches!(e, Event::Exit { .. })));
        rig.events.clear();
    }
}
