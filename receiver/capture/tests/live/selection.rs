//! Selection of processes that use one library file: an excluded one leaves no event, count or map entry, and a selected one
//! is observed as if it were alone.
//!
//! The processes differ by an argument of their command line, which the test program ignores.

#![expect(unsafe_code, reason = "calls functions of a foreign library")]

use std::io::{BufRead as _, BufReader, Write as _, stdin};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use capture::selection::{Condition, Patterns, Property, Selection};
use capture::{MapSizes, Settings};
use event::{Event, EventSource as _};
use probe_abi::Library;
use probe_abi::counters::{DropReason, SelfCounter};
use simulator::player::Player;

use crate::pins::PinDir;
use crate::rig::{Rig, player_command, rig, settings};

/// Environment variable with the arguments of [`call_and_exec`], one a line.
pub const CALLER: &str = "WARPTAP_TEST_SELECTED";
/// Arguments that the selection knows processes by.
const CHOSEN: &str = "chosen-process";
const LEFT_OUT: &str = "left-out-process";

type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u32;

/// Maps a library, waits for a line, calls a function, waits for another line, and executes itself to do the same again if
/// there is a next mark. The arguments are the library, the function, the number of calls, and the next mark and number.
pub fn call_and_exec(arguments: &str) {
    let arguments: Vec<&str> = arguments.lines().collect();
    let [file, function, calls, rest @ ..] = &arguments[..] else { panic!("{arguments:?}") };
    // SAFETY: the initialisers of these libraries have no preconditions.
    let loaded = unsafe { libloading::Library::new(*file) }.unwrap();
    // SAFETY: the symbol is a C function of at most nine integer arguments.
    let called = unsafe { loaded.get::<Function>(*function) }.unwrap();
    report("mapped");
    let mut written = [0u64; 4];
    for _ in 0..calls.parse().unwrap() {
        // SAFETY: the function writes at most one handle to its first argument.
        unsafe { called(written.as_mut_ptr() as u64, 64, 0, 0, 0, 0, 0, 0, 0) };
    }
    report("called");
    if let [mark, calls] = rest {
        panic!("{}", caller(mark).env(CALLER, format!("{file}\n{function}\n{calls}")).exec());
    }
}

/// Prints a line and waits for one.
fn report(what: &str) {
    println!("@{what}");
    let _ = stdin().lines().next();
}

fn caller(mark: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["calling_process", "--exact", "--nocapture", "--quiet", "--skip", mark]);
    command
}

/// A process that runs [`call_and_exec`].
struct Caller {
    child: Child,
    pid: u32,
}

impl Caller {
    fn start(library: &Path, function: &str, mark: &str, calls: u64, next: Option<(&str, u64)>) -> Caller {
        let next = next.map_or(String::new(), |(mark, calls)| format!("\n{mark}\n{calls}"));
        let mut command = caller(mark);
        command.env(CALLER, format!("{}\n{function}\n{calls}{next}", library.display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        wait_for_line(&mut child, "mapped");
        Caller { pid: child.id(), child }
    }

    /// Lets the process go on until it reports this.
    fn go(&mut self, until: &str) {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
        wait_for_line(&mut self.child, until);
    }

    fn finish(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

fn wait_for_line(child: &mut Child, what: &str) {
    // The process waits for a line before it prints the next one, so that none is lost in the buffer.
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with(&format!("@{what}"))), "{what}");
}

fn selection() -> Selection {
    let entry = |mark: &str| {
        let patterns = Patterns::regexp(&[format!("--skip {mark}$")]).unwrap();
        vec![Condition { property: Property::CommandLine, patterns }]
    };
    Selection { include: vec![entry(CHOSEN), entry(LEFT_OUT)], exclude: vec![entry(LEFT_OUT)] }
}

fn selective() -> Settings {
    Settings { trace_all: true, selection: selection(), ..settings() }
}

fn stub(rig: &Rig) -> PathBuf {
    simulator::install::install(&rig.dir.join("stubs")).unwrap().of(Library::Cudart).to_owned()
}

/// Returns the excluded processes, discarded records, and excluded processes without a slot in the filter.
fn account(rig: &mut Rig) -> [u64; 3] {
    let mut events = Vec::new();
    rig.capture.read_totals(&mut events);
    let counts = events.iter().find_map(|e| match e {
        Event::Selection { excluded, discarded, unfiltered, .. } => {
            Some([*excluded, *discarded, *unfiltered])
        }
        _ => None,
    });
    counts.unwrap()
}

fn wait_for_excluded(rig: &mut Rig, count: u64) {
    rig.wait("the decision", |rig| account(rig)[0] == count);
}

/// Starts a selected process, which keeps the library attached, and reads until it is.
fn attached(rig: &mut Rig, library: &Path, function: &str) -> Caller {
    let keeper = Caller::start(library, function, CHOSEN, 1, None);
    wait_for_libraries(rig, keeper.pid);
    keeper
}

fn wait_for_libraries(rig: &mut Rig, pid: u32) {
    rig.wait("the libraries", |rig| rig.capture.coverage(pid).is_some_and(|(seen, _)| !seen.is_empty()));
}

/// Returns the largest number of calls that was reported of a process.
fn calls_of(rig: &mut Rig, pid: u32) -> u64 {
    let mut events = std::mem::take(&mut rig.events);
    rig.capture.read_totals(&mut events);
    rig.events = events;
    let calls = rig.events.iter().filter_map(|e| match e {
        Event::Operation(total) if total.process.pid == pid => Some(total.calls),
        _ => None,
    });
    calls.max().unwrap_or(0)
}

fn is_of(event: &Event, pid: u32) -> bool {
    match event {
        Event::Process(info) => info.process.pid == pid,
        Event::LauncherEnv(launched) => launched.process.pid == pid,
        Event::Exit { process, .. } => process.pid == pid,
        Event::Step(step) => step.header.pid == pid,
        Event::Context(context) => context.header.pid == pid,
        Event::Call(call) => call.header.pid == pid,
        Event::CallArgs(args) => args.header.pid == pid,
        Event::UnderWay(call) => call.process.pid == pid,
        Event::Operation(total) => total.process.pid == pid,
        Event::Overhead(overhead) => overhead.process.pid == pid,
        Event::Armed { pid: of, .. } => *of == pid,
        _ => false,
    }
}

fn events_of(rig: &Rig, pid: u32) -> Vec<&Event> {
    rig.events.iter().filter(|e| is_of(e, pid)).collect()
}

/// Returns the names of the maps of this program with keys that begin with the pid.
fn maps_with(pid: u32) -> Vec<String> {
    let own = std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let texts = own.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    let ids = texts.filter_map(|text| {
        let id = text.lines().find_map(|line| line.strip_prefix("map_id:"))?;
        id.trim().parse::<u32>().ok()
    });
    ids.filter_map(|id| name_if_keyed(id, pid)).collect()
}

fn name_if_keyed(id: u32, pid: u32) -> Option<String> {
    use aya::maps::{HashMap, Map, MapData};
    let data = || MapData::from_id(id).ok();
    let name = data()?.info().ok()?.name_as_str()?.to_owned();
    let has = match name.as_str() {
        "PROCESSES" => keys::<u32, { size_of::<probe_abi::record::ProcessFold>() }>(data()?)?.contains(&pid),
        "STREAMS" => {
            let keys = keys::<[u32; 4], { size_of::<probe_abi::fold::StreamFold>() }>(data()?)?;
            keys.iter().any(|key| key[0] == pid)
        }
        "DURATIONS" => {
            let keys = keys::<[u32; 2], { size_of::<probe_abi::record::OperationFold>() }>(data()?)?;
            keys.iter().any(|key| key[0] == pid)
        }
        "THREADS" => keys::<u32, { size_of::<probe_abi::record::ThreadFold>() }>(data()?)?.contains(&pid),
        _ => false,
    };
    fn keys<K: aya::Pod, const BYTES: usize>(data: MapData) -> Option<Vec<K>> {
        let map = HashMap::<_, K, [u8; BYTES]>::try_from(Map::from_map_data(data).ok()?).ok()?;
        Some(map.keys().flatten().collect())
    }
    has.then_some(name)
}

const WORK: &str = "\
stream main
thread engine
  malloc a 4096
  repeat 40
    launch main grid=2 block=32
    launch main grid=2 block=32
    copy h2d 4096 main
    sync stream main
  end
  free a
end
";

fn player(rig: &Rig, mark: &str, script: &str) -> Player {
    let path = rig.dir.join("script");
    std::fs::write(&path, script).unwrap();
    let stubs = rig.dir.join("stubs");
    let arguments = [path.as_os_str(), "--wait-go".as_ref(), "--stubs".as_ref(), stubs.as_os_str()];
    let mut command = player_command(&arguments.map(Into::into));
    command.args(["--skip", mark]);
    Player::start(command).unwrap()
}

#[test]
fn excluded_process_leaves_nothing() {
    let Some(mut rig) = rig("excluded", &selective()) else { return };
    let chosen = player(&rig, CHOSEN, WORK);
    let mut left_out = player(&rig, LEFT_OUT, WORK);
    let (chosen_pid, left_out_pid) = (chosen.pid(), left_out.pid());
    wait_for_libraries(&mut rig, chosen_pid);
    wait_for_excluded(&mut rig, 1);
    left_out.go().unwrap();
    let calls = left_out.done().unwrap();
    for _ in 0..20 {
        rig.capture.read(&mut rig.events).unwrap();
    }
    assert_eq!(maps_with(left_out_pid), [] as [&str; 0]);
    let made = rig.play(chosen);
    assert!(events_of(&rig, left_out_pid).is_empty(), "{:?}", events_of(&rig, left_out_pid));
    let steps = rig.events.iter().filter(|e| matches!(e, Event::Step(s) if s.header.pid == chosen_pid));
    assert_eq!(steps.count(), 40);
    let probes = rig.capture.account();
    assert_eq!((probes.hits, probes.lost(), probes.is_balanced()), (made, 0, true), "{probes:?}");
    // A driver call that the runtime makes is left out, too.
    assert!(probes[SelfCounter::Filtered] >= calls, "{probes:?}");
    assert_eq!(account(&mut rig), [1, 0, 0]);
    left_out.finish().unwrap();
    wait_for_excluded(&mut rig, 0);
}

/// The decision is made after the first calls, whose state is removed; the calls under way then have a fate.
#[test]
fn first_calls_of_an_excluded_process_leave_nothing() {
    let Some(mut rig) = rig("first-calls", &selective()) else { return };
    let library = stub(&rig);
    let keeper = attached(&mut rig, &library, "cudaMalloc");
    let mut early = Caller::start(&library, "cudaMalloc", LEFT_OUT, 100, None);
    early.go("called");
    assert!(maps_with(early.pid).contains(&"PROCESSES".to_owned()), "it was not decided on");
    wait_for_excluded(&mut rig, 1);
    rig.wait("its records", |rig| account(rig)[1] == 100);
    assert!(events_of(&rig, early.pid).is_empty(), "{:?}", events_of(&rig, early.pid));
    let of_process = maps_with(early.pid);
    assert!(of_process.iter().all(|map| map == "THREADS"), "{of_process:?}");
    let probes = rig.capture.account();
    assert!(probes.is_balanced() && probes.hits == 100, "{probes:?}");
    early.finish();
    wait_for_excluded(&mut rig, 0);
    keeper.finish();
}

#[test]
fn call_under_way_when_its_process_is_excluded_has_a_fate() {
    let Some(mut rig) = rig("under-way", &selective()) else { return };
    let script =
        "stream main\nthread engine\n  launch main grid=2 block=32 gpu=3s\n  sync stream main\nend\n";
    let keeper = player(&rig, CHOSEN, script);
    wait_for_libraries(&mut rig, keeper.pid());
    // Not read, so that the process is decided on while it waits.
    let mut waiting = player(&rig, LEFT_OUT, script);
    waiting.go().unwrap();
    // A call that takes no time is not seen under way so often.
    let mut seen = 0;
    while seen < 1_000 {
        let is_under_way = !rig.capture.account().is_balanced();
        seen = if is_under_way { seen + 1 } else { 0 };
    }
    wait_for_excluded(&mut rig, 1);
    waiting.done().unwrap();
    waiting.finish().unwrap();
    wait_for_excluded(&mut rig, 0);
    let probes = rig.capture.account();
    let abandoned = probes.dropped[DropReason::Abandoned as usize];
    assert!(probes.is_balanced() && abandoned == 1, "{probes:?}");
    rig.play(keeper);
}

/// Nothing is read from the exec to the last call, so that the kernel alone knows of the new program.
#[test]
fn selected_program_is_observed_after_an_exec_of_an_excluded_one() {
    let Some(mut rig) = rig("exec-in", &selective()) else { return };
    let library = stub(&rig);
    let keeper = attached(&mut rig, &library, "cudaStreamQuery");
    let mut process = Caller::start(&library, "cudaStreamQuery", LEFT_OUT, 100, Some((CHOSEN, 70)));
    wait_for_excluded(&mut rig, 1);
    process.go("called");
    assert_eq!(calls_of(&mut rig, process.pid), 0);
    process.go("mapped");
    process.go("called");
    rig.wait("its calls", |rig| calls_of(rig, process.pid) > 0);
    assert_eq!((calls_of(&mut rig, process.pid), account(&mut rig)[0]), (70, 0));
    let pid = process.pid;
    process.finish();
    rig.wait("its end", |rig| events_of(rig, pid).iter().any(|e| matches!(e, Event::Exit { .. })));
    let probes = rig.capture.account();
    assert!(probes.is_balanced() && probes[SelfCounter::Filtered] == 100, "{probes:?}");
    keeper.finish();
}

#[test]
fn excluded_program_is_left_out_after_an_exec_of_a_selected_one() {
    let Some(mut rig) = rig("exec-out", &selective()) else { return };
    let library = stub(&rig);
    let keeper = attached(&mut rig, &library, "cudaStreamQuery");
    let mut process = Caller::start(&library, "cudaStreamQuery", CHOSEN, 50, Some((LEFT_OUT, 30)));
    wait_for_libraries(&mut rig, process.pid);
    process.go("called");
    process.go("mapped");
    let pid = process.pid;
    rig.wait("the exec", |rig| events_of(rig, pid).iter().any(|e| matches!(e, Event::Exit { .. })));
    wait_for_excluded(&mut rig, 1);
    process.go("called");
    assert_eq!(calls_of(&mut rig, pid), 50);
    let last = events_of(&rig, pid).pop();
    assert!(matches!(last, Some(Event::Exit { .. })), "{last:?}");
    assert_eq!(maps_with(pid), [] as [&str; 0]);
    let probes = rig.capture.account();
    assert!(probes.is_balanced() && probes[SelfCounter::Filtered] == 30, "{probes:?}");
    process.finish();
    wait_for_excluded(&mut rig, 0);
    keeper.finish();
}

/// The pinned maps have what the agent before counted of the process.
#[test]
fn process_that_an_earlier_agent_traced_is_excluded() {
    let Some(dir) = PinDir::new("selection") else { return };
    let all = Settings { trace_all: true, ..dir.settings(&[]) };
    let Some(mut rig) = rig("selected-before", &all) else { return };
    let library = stub(&rig);
    let mut process = Caller::start(&library, "cudaMalloc", LEFT_OUT, 100, None);
    let pid = process.pid;
    wait_for_libraries(&mut rig, pid);
    process.go("called");
    rig.wait("its calls", |rig| {
        events_of(rig, pid).iter().filter(|e| matches!(e, Event::Call(_))).count() == 100
    });
    rig.restart(&Settings { selection: selection(), ..all });
    wait_for_excluded(&mut rig, 1);
    assert!(events_of(&rig, pid).is_empty(), "{:?}", events_of(&rig, pid));
    let of_process = maps_with(pid);
    assert!(of_process.iter().all(|map| map == "THREADS"), "{of_process:?}");
    let probes = rig.capture.account();
    assert!(probes.is_balanced() && probes.hits == 100, "{probes:?}");
    process.finish();
    wait_for_excluded(&mut rig, 0);
}

#[test]
fn records_are_discarded_when_the_filter_is_full() {
    // This program's own entry is the only one.
    let sizes = MapSizes { filter: 1, ..MapSizes::default() };
    let Some(mut rig) = rig("full-filter", &Settings { sizes, ..selective() }) else { return };
    let library = stub(&rig);
    let keeper = attached(&mut rig, &library, "cudaMalloc");
    let mut process = Caller::start(&library, "cudaMalloc", LEFT_OUT, 100, None);
    wait_for_excluded(&mut rig, 1);
    process.go("called");
    rig.wait("its records", |rig| account(rig)[1] == 100);
    assert_eq!(account(&mut rig), [1, 100, 1]);
    let pid = process.pid;
    process.finish();
    wait_for_excluded(&mut rig, 0);
    assert!(events_of(&rig, pid).is_empty(), "{:?}", events_of(&rig, pid));
    assert_eq!(maps_with(pid), [] as [&str; 0]);
    let probes = rig.capture.account();
    assert!(probes.is_balanced() && probes.hits == 100, "{probes:?}");
    keeper.finish();
}
