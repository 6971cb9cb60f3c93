//! Every script of the player: the steps of its oracle, of the kernel programs, and of the fold in user space over the
//! calls of the oracle are the same.
//!
//! The three share no code above the fold. Without live probes the other two are compared. The steps that the engine
//! assembles are compared with those that the scripts name.

use std::collections::BTreeMap;
use std::path::Path;

use event::{Event, ProcessId, StepRecord};
use probe_abi::Direction;
use probe_abi::fold::Counter;
use probe_abi::record::flag;
use simulator::oracle::{CallLine, Line, StepLine, read};
use simulator::ranks::is_ranks;
use simulator::scripts::SCRIPTS;
use steps::{Engine, Finding};
use trace::Call;
use trace::fold::{Bounds, Folder};

use crate::rig::{Rig, player_command, rig, settings};

/// Scripts with nested calls: the oracle does not log the steps that nested sync calls end.
const NESTED: &[&str] = &["faults"];

/// Scripts with iterations that no sync call ends, and how many they have: the oracle knows sync calls only.
const INFERRED: &[(&str, usize)] = &[("train-sparse", 60)];

/// The compared parts of a step: process, stream, work, threads, sync call.
type Shape = (u32, u64, [u64; 14], [u32; 2], String);

/// A step, when it began, and when its sync call was entered and returned.
pub struct Seen {
    pub shape: Shape,
    pub times: [u64; 3],
}

pub fn of_record(step: &StepRecord) -> Seen {
    let columns = [
        Counter::Enqueues,
        Counter::Launches,
        Counter::GraphLaunches,
        Counter::Threads,
        Counter::Copies,
        Counter::BytesToDevice,
        Counter::BytesFromDevice,
        Counter::BytesOnDevice,
        Counter::BytesFilled,
        Counter::GraphsKnown,
        Counter::GraphKernels,
        Counter::GraphThreads,
        Counter::GraphForeign,
        Counter::GraphBytes,
    ];
    let header = &step.header;
    let symbol = probe_abi::row(header.row).map_or("", |row| row.symbol);
    let work = columns.map(|c| step.work[c as usize]);
    Seen {
        shape: (header.pid, step.stream, work, [header.tid, step.first_tid], symbol.to_string()),
        times: [step.first_ns, header.entry_ns, header.entry_ns + header.duration_ns],
    }
}

pub fn of_line(step: &StepLine) -> Seen {
    let w = &step.work;
    let bytes = [Direction::HostToDevice, Direction::DeviceToHost, Direction::DeviceToDevice];
    let [to, from, on] = bytes.map(|way| w.bytes[way as usize]);
    let g = &w.graphs;
    let work = [
        w.enqueues,
        w.launches,
        w.graph_launches,
        w.threads,
        w.copies,
        to,
        from,
        on,
        w.filled,
        g.known,
        g.kernels,
        g.threads,
        g.foreign,
        g.bytes,
    ];
    let row =
        probe_abi::PROBES.iter().find(|p| p.symbol == step.closer || p.twin == Some(&*step.closer)).unwrap();
    Seen {
        shape: (step.pid, step.stream, work, [step.tid, step.first_tid], row.symbol.to_string()),
        times: [step.first_ns, step.enter_ns, step.exit_ns],
    }
}

/// Sorts steps by stream and end.
fn sorted(steps: impl Iterator<Item = Seen>) -> Vec<Seen> {
    let mut steps: Vec<Seen> = steps.collect();
    steps.sort_by_key(|s| (s.shape.0, s.shape.1, s.times[2]));
    steps
}

fn finished(events: &[Event]) -> Vec<Seen> {
    let is_finished = |s: &&StepRecord| s.header.flags & flag::UNFINISHED == 0;
    sorted(whole_records(events).iter().filter(is_finished).map(of_record))
}

/// Returns the records of steps. What a call ended that began the next iteration is added to the record of the next sync
/// call: the oracle knows sync calls only.
pub fn whole_records(events: &[Event]) -> Vec<StepRecord> {
    let (mut marked, mut whole) = (BTreeMap::<_, StepRecord>::new(), Vec::new());
    for event in events {
        let Event::Step(step) = event else { continue };
        let key = (step.header.pid, step.stream);
        let mut step = marked.remove(&key).map_or(*step, |mark| added(&mark, step));
        match step.header.flags & flag::ITERATION {
            0 => whole.push(step),
            _ => {
                step.header.flags &= !flag::UNFINISHED;
                marked.insert(key, step);
            }
        }
    }
    whole
}

/// Returns a step that begins with another one.
fn added(first: &StepRecord, last: &StepRecord) -> StepRecord {
    let work = std::array::from_fn(|at| first.work[at].wrapping_add(last.work[at]));
    StepRecord { work, first_ns: first.first_ns, first_tid: first.first_tid, ..*last }
}

/// The results of a script from each source.
struct Played {
    lines: Vec<Line>,
    /// Events of the capture; `None` without live probes.
    kernel: Option<Vec<Event>>,
    folded: Vec<Event>,
}

impl Played {
    /// Returns the pid of the player.
    fn pid(&self) -> u32 {
        let begun = self.lines.iter().find_map(|l| if let Line::Process(p) = l { Some(p.pid) } else { None });
        begun.unwrap_or(0)
    }

    fn made(&self) -> Vec<Seen> {
        sorted(self.lines.iter().filter_map(|l| if let Line::Step(s) = l { Some(of_line(s)) } else { None }))
    }
}

/// Returns a line of the oracle as a call for the fold in user space.
fn call(line: &CallLine) -> Call {
    Call {
        process: ProcessId { pid: line.pid, start_ns: 1 },
        tid: line.tid,
        row: line.row,
        is_twin: line.twin,
        entry_ns: line.entry_ns,
        duration_ns: line.exit_ns - line.entry_ns,
        result: line.result,
        stream: line.stream,
        handle: (line.handle != 0 || line.symbol.contains("SetDevice")).then_some(line.handle),
        graph: line.graph,
        bytes: line.bytes,
        threads: line.threads,
        identity: 1,
        direction: Direction::from_kind(u64::from(line.direction)),
    }
}

/// Returns the events of the calls of the oracle. An exec starts a new process.
fn fold(lines: &[Line]) -> Vec<Event> {
    let mut calls: Vec<&CallLine> =
        lines.iter().filter_map(|l| if let Line::Call(c) = l { Some(c) } else { None }).collect();
    let mut begun: BTreeMap<u64, u32> = BTreeMap::new();
    begun.extend(
        lines.iter().filter_map(|l| if let Line::Process(p) = l { Some((p.at_ns, p.pid)) } else { None }),
    );
    calls.sort_by_key(|c| c.entry_ns);
    let (mut folder, mut events) = (Folder::new(Bounds::default()), Vec::new());
    for line in calls.into_iter().filter(|line| line.row != 0) {
        while let Some(next) = begun.first_entry().filter(|next| *next.key() <= line.entry_ns) {
            let (at_ns, pid) = next.remove_entry();
            folder.advance(at_ns, &mut events);
            folder.exit(pid, at_ns, &mut events);
        }
        folder.push(&call(line), &mut events);
    }
    folder.finish(&mut events);
    assert!(folder.account().is_balanced(), "{:?}", folder.account());
    events
}

fn play(rig: &mut Option<Rig>, name: &str, text: &str) -> Played {
    let source = format!("@{name}");
    let arguments = [source.as_str(), "--speed", speed(text), "--turns", "12"];
    let (lines, kernel) = match rig {
        Some(rig) => {
            play_live(rig, &arguments, text);
            let account = rig.capture.account();
            assert!(account.is_balanced() && account.lost() == 0, "{name}: {account:?}");
            (read(&rig.oracle()).unwrap(), Some(std::mem::take(&mut rig.events)))
        }
        None => (play_alone(name, &arguments), None),
    };
    Played { folded: fold(&lines), lines, kernel }
}

/// Returns the speed that a script states, or the default.
fn speed(text: &str) -> &'static str {
    if text.contains("poll ") { "4" } else { "50" }
}

fn play_live(rig: &mut Rig, arguments: &[&str], text: &str) {
    let mut player = rig.player(arguments);
    if text.contains("exec @") {
        rig.follow_exec(&mut player);
    }
    rig.play(player);
}

fn play_alone(name: &str, arguments: &[&str]) -> Vec<Line> {
    let dir = std::env::temp_dir().join(format!("warptap-alone-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let oracle = dir.join("oracle.jsonl");
    let mut all: Vec<_> = arguments.iter().map(Into::into).collect();
    all.extend(["--oracle".into(), oracle.clone().into(), "--stubs".into(), dir.join("stubs").into()]);
    assert!(player_command(&all).status().unwrap().success(), "{name}");
    let lines = read(&oracle).unwrap();
    let _ = std::fs::remove_dir_all(Path::new(&dir));
    lines
}

/// Returns when calls returned, by thread and entry.
fn returns(lines: &[Line]) -> BTreeMap<(u32, u64), u64> {
    let call =
        |line: &Line| if let Line::Call(c) = line { Some(((c.tid, c.entry_ns), c.exit_ns)) } else { None };
    lines.iter().filter_map(call).collect()
}

#[track_caller]
fn check_shapes(name: &str, who: &str, seen: &[Seen], made: &[Seen]) {
    let (seen, made): (Vec<&Shape>, Vec<&Shape>) =
        (seen.iter().map(|s| &s.shape).collect(), made.iter().map(|s| &s.shape).collect());
    let first = seen.iter().zip(&made).position(|(seen, made)| seen != made);
    let at = first.unwrap_or(seen.len().min(made.len()));
    assert!(
        seen == made,
        "{name}, {who}: {} steps, made were {}; the first that differs is\n{:?}, made was\n{:?}",
        seen.len(),
        made.len(),
        seen.get(at),
        made.get(at)
    );
}

fn check(name: &str, played: &Played) {
    let made = played.made();
    assert!(!made.is_empty(), "{name} has no steps");
    let folded = finished(&played.folded);
    check_shapes(name, "folded", &folded, &made);
    for (folded, made) in folded.iter().zip(&made) {
        assert_eq!(folded.times, made.times, "{name}: {:?}", made.shape);
    }
    let Some(events) = &played.kernel else { return };
    let kernel = finished(events);
    // Only the player itself is traced, not the processes that it starts.
    let pid = played.pid();
    let made: Vec<Seen> = made.into_iter().filter(|s| s.shape.0 == pid).collect();
    check_shapes(name, "by the kernel", &kernel, &made);
    let returns = returns(&played.lines);
    for (seen, made) in kernel.iter().zip(&made) {
        let ([first, enter, exit], [made_first, made_enter, made_exit]) = (seen.times, made.times);
        let latest = returns[&(made.shape.3[1], made_first)];
        let is_within = (made_first..=latest).contains(&first)
            && (made_enter..=exit).contains(&enter)
            && exit <= made_exit;
        assert!(is_within, "{name}: {:?}, made was {:?} {:?}", seen.times, made.times, made.shape);
    }
}

/// An assembled step: process, begin, end, number of enqueueing calls.
type Whole = (u32, u64, u64, u64);

/// Sorts steps by the thread that waited for their end, since steps of several threads may end at nearly the same time.
fn in_order(mut steps: Vec<(u32, Whole)>) -> Vec<Whole> {
    steps.sort_by_key(|(thread, step)| (step.0, *thread, step.2));
    steps.into_iter().map(|(_, step)| step).collect()
}

/// Returns the steps that the script names, assembled from their parts; every other sync call is a step. `None` if two
/// named steps end in one call.
fn named(lines: &[Line]) -> Option<Vec<Whole>> {
    let mut steps: BTreeMap<(u32, u64, bool, u64), (u32, Whole)> = BTreeMap::new();
    let mut begun = 0;
    for line in lines {
        begun += u64::from(matches!(line, Line::Process(_)));
        let Line::Step(line) = line else { continue };
        if line.phase.contains('+') {
            return None;
        }
        let key = (line.pid, begun, line.step.is_some(), line.step.unwrap_or(line.enter_ns));
        let (thread, step) = steps.entry(key).or_insert((line.tid, (line.pid, u64::MAX, 0, 0)));
        if line.exit_ns > step.2 {
            *thread = line.tid;
        }
        *step = (line.pid, step.1.min(line.first_ns), step.2.max(line.exit_ns), step.3 + line.work.enqueues);
    }
    Some(in_order(steps.into_values().collect()))
}

fn whole(events: &[Event]) -> Vec<Whole> {
    let (mut engine, mut findings) = (Engine::new(steps::Settings::default()), Vec::new());
    events.iter().for_each(|event| engine.observe(event, &mut findings));
    engine.finish(&mut findings);
    let whole = |finding| match finding {
        Finding::Step(s) if !s.is_unfinished => {
            Some((s.thread, (s.process.pid, s.start_ns, s.end_ns, s.work.of(Counter::Enqueues))))
        }
        _ => None,
    };
    in_order(findings.into_iter().filter_map(whole).collect())
}

fn check_whole(name: &str, text: &str, played: &Played) {
    if let Some((_, iterations)) = INFERRED.iter().find(|(inferred, _)| *inferred == name) {
        return check_inferred(name, *iterations, played);
    }
    let Some(made) = named(&played.lines) else {
        // On a busy machine a thread may query so late that the first answer is yes, and the wait is not recognised.
        assert!(text.contains("poll "), "{name}: two steps were closed at once");
        return println!("{name}: a question came late");
    };
    let folded = whole(&played.folded);
    let first = folded.iter().zip(&made).position(|(folded, made)| folded != made);
    let around = |steps: &[Whole]| first.map(|at| steps[at..steps.len().min(at + 2)].to_vec());
    assert!(folded == made, "{name}, folded: {:?}, made were {:?}", around(&folded), around(&made));
    let Some(events) = &played.kernel else { return };
    let (kernel, pid) = (whole(events), played.pid());
    let made: Vec<Whole> = made.into_iter().filter(|made| made.0 == pid).collect();
    assert_eq!(kernel.len(), made.len(), "{name}, by the kernel");
    for (seen, made) in kernel.iter().zip(&made) {
        let is_within = made.1 <= seen.1 && seen.1 < seen.2 && seen.2 <= made.2;
        assert!(seen.3 == made.3 && is_within, "{name}: {seen:?}, made was {made:?}");
    }
    println!("{name}: {} steps", made.len());
}

/// Compares the iterations of the fold in user space with those of the kernel.
fn check_inferred(name: &str, iterations: usize, played: &Played) {
    let folded = whole(&played.folded);
    assert_eq!(folded.len(), iterations, "{name}, folded");
    let Some(events) = &played.kernel else { return };
    let enqueues = |steps: &[Whole]| steps.iter().map(|step| step.3).collect::<Vec<_>>();
    assert_eq!(enqueues(&whole(events)), enqueues(&folded), "{name}, by the kernel");
    println!("{name}: {iterations} iterations");
}

#[test]
fn every_script_has_the_steps_of_its_oracle() {
    let mut rig = rig("scripts", &settings());
    let only = std::env::var("WARPTAP_SCRIPT").ok();
    let is_schedule = |name: &str, text: &str| !NESTED.contains(&name) && !is_ranks(text);
    for (name, text) in SCRIPTS.iter().filter(|(name, text)| is_schedule(name, text)) {
        if only.as_ref().is_none_or(|only| only == name) {
            let played = play(&mut rig, name, text);
            check(name, &played);
            check_whole(name, text, &played);
        }
    }
}
