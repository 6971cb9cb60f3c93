//! Tests of the player as a process: its protocol and its oracle log.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use event::{Event, EventSource};
use probe_abi::fold::Counter;
use probe_abi::record::flag;
use simulator::model::call::StubFunction;
use simulator::oracle::{self, CallLine, Line, StepLine};
use simulator::player::Player;
use simulator::ranks::is_ranks;
use simulator::scripts::SCRIPTS;
use trace::{Limits, Trace};

const PLAYER: &str = env!("CARGO_BIN_EXE_player");
const STATIC_PLAYER: &str = env!("CARGO_BIN_EXE_static-player");

/// Creates an empty directory for a test.
fn scratch(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn player(program: &str, source: &str, oracle: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.arg(source).arg("--oracle").arg(oracle).args(more);
    command
}

struct Played {
    calls: Vec<CallLine>,
    steps: Vec<StepLine>,
    processes: Vec<oracle::ProcessLine>,
}

fn read(log: &Path) -> Played {
    let mut played = Played { calls: Vec::new(), steps: Vec::new(), processes: Vec::new() };
    for line in oracle::read(log).unwrap() {
        match line {
            Line::Call(call) => played.calls.push(call),
            Line::Step(step) => played.steps.push(step),
            Line::Process(process) => played.processes.push(process),
            Line::Nccl(_) | Line::Wait(_) => {}
        }
    }
    played
}

/// Plays a script, which must print nothing.
fn play(name: &str, program: &str, text: &str, more: &[&str]) -> Played {
    let dir = scratch(name);
    let (script, log) = (dir.join("a.script"), dir.join("oracle"));
    std::fs::write(&script, text).unwrap();
    let output = player(program, script.to_str().unwrap(), &log, more).output().unwrap();
    assert_quiet(name, &output);
    read(&log)
}

fn assert_quiet(name: &str, output: &Output) {
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && message.is_empty(), "{name}: {message}");
    assert!(output.stdout.is_empty(), "{name} printed {:?}", String::from_utf8_lossy(&output.stdout));
}

const TURNS: &str = "
stream main
event done ring=2
thread engine
  repeat 4
    step decode main
      fault slow gpu=8x at=2
      launch main grid=4x2 block=64 gpu=1ms
      copy d2h 4KiB main gpu=0us
      record done main
      sync event done
    end
    malloc buffer 1MiB result=2 at=1
    malloc buffer 1MiB unless=2 after=1
    free buffer
  end
end
";

#[test]
fn oracle_log_matches_the_script() {
    let played = play("asked", PLAYER, TURNS, &[]);
    let engine: Vec<_> = played.calls.iter().filter(|c| c.thread == "engine").collect();
    let of = |symbol: &str| engine.iter().filter(|c| c.symbol == symbol).collect::<Vec<_>>();
    let launches = of("cudaLaunchKernel");
    let steps: Vec<_> = launches.iter().map(|c| (c.threads, c.phase.as_ref(), c.step)).collect();
    assert_eq!(steps, [0, 1, 2, 3].map(|n| (512, "decode", Some(n))));
    assert!(of("cudaMemcpyAsync").iter().all(|c| c.bytes == 4096 && c.direction == 2 && c.stream != 0));
    let mallocs: Vec<_> = of("cudaMalloc").iter().map(|c| (c.result, c.handle != 0)).collect();
    assert_eq!(mallocs, [(0, true), (2, false), (0, true)]);
    let freed: Vec<_> = of("cudaFree").iter().map(|c| (c.result, c.handle)).collect();
    let made: Vec<_> = of("cudaMalloc").iter().filter(|c| c.result == 0).map(|c| (0, c.handle)).collect();
    assert_eq!(freed, made, "only successful allocations are freed");
    let faults: Vec<_> = played.steps.iter().map(|s| s.fault.as_str()).collect();
    assert_eq!(faults, ["", "", "slow", ""]);
    for step in &played.steps {
        let scripted_ns = if step.fault.is_empty() { 1_000_000 } else { 8_000_000 };
        assert!(step.exit_ns - step.first_ns >= scripted_ns, "{step:?}");
        assert_eq!((step.work.launches, step.work.copies, step.work.bytes[2]), (1, 1, 4096));
        assert_eq!((step.closer.as_ref(), step.work.threads), ("cudaEventSynchronize", 512));
    }
    let rings: Vec<_> = of("cudaEventSynchronize").iter().map(|c| c.handle).collect();
    assert!(
        rings[0] == rings[2] && rings[1] == rings[3] && rings[0] != rings[1],
        "events of a ring are used in turn"
    );
}

#[test]
fn script_calls_the_functions_of_its_api() {
    let symbols = |api: &str| {
        let played = play(&format!("api-{api}"), PLAYER, &format!("api {api}\n{TURNS}"), &["--speed", "100"]);
        let engine = played.calls.iter().filter(|c| c.thread == "engine");
        engine.take(4).map(|c| c.symbol.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        symbols("driver"),
        ["cuLaunchKernel", "cuMemcpyDtoHAsync_v2", "cuEventRecord", "cuEventSynchronize"]
    );
    assert_eq!(
        symbols("hip"),
        ["hipLaunchKernel", "hipMemcpyAsync", "hipEventRecord", "hipEventSynchronize"]
    );
}

#[test]
fn a_step_is_scaled_as_a_whole() {
    let text = "
stream main
thread engine
  step prefill main size=2x
    launch main grid=10x3 block=64 gpu=1ms
    copy h2d 1000 main gpu=0us
    sync stream main
  end
end
";
    let played = play("scaled", PLAYER, text, &[]);
    let step = &played.steps[0];
    assert_eq!((step.work.threads, step.work.bytes[1]), (20 * 3 * 64, 2000));
    assert!(step.exit_ns - step.first_ns >= 2_000_000);
}

#[test]
fn work_enqueued_ahead_belongs_to_the_next_step() {
    let text = "
stream main
event done ring=4
thread engine
  repeat 6
    step a main
      launch main gpu=100us
      launch main gpu=100us
      record done main
    end
    sync event done back=1
  end
  sync event done
end
";
    let played = play("ahead", PLAYER, text, &[]);
    let steps: Vec<_> = played.steps.iter().map(|s| (s.step, s.work.launches)).collect();
    assert_eq!(steps, [0, 1, 2, 3, 4, 5].map(|n| (Some(n), 2)));
    let next: Vec<_> = played.calls.iter().filter(|c| c.symbol == "cudaLaunchKernel").collect();
    for (n, step) in played.steps.iter().enumerate().take(5) {
        assert!(
            next[2 * n + 2].entry_ns < step.enter_ns,
            "step {} was enqueued before {n} was waited for",
            n + 1
        );
    }
}

#[test]
fn two_threads_share_a_step() {
    let text = "
stream main
thread forward
  repeat 5
    step train main
      launch main
      signal go
      await back
      sync stream main
    end
  end
end
thread autograd
  repeat 5
    await go
    repeat 3
      launch main
    end
    signal back
  end
end
";
    let played = play("threads", PLAYER, text, &[]);
    let steps: Vec<_> = played.steps.iter().map(|s| (s.phase.as_str(), s.work.launches)).collect();
    assert_eq!(steps, [("train", 4); 5]);
    let tids: std::collections::BTreeSet<_> =
        played.calls.iter().filter(|c| c.symbol == "cudaLaunchKernel").map(|c| c.tid).collect();
    assert_eq!(tids.len(), 2);
}

#[test]
fn static_runtime_makes_the_same_calls() {
    let shape = |program: &str, name: &str| {
        let played = play(name, program, TURNS, &["--speed", "100"]);
        let calls: Vec<_> = played.calls.into_iter().filter(|c| c.thread == "engine").collect();
        calls.into_iter().map(|c| (c.symbol, c.bytes, c.threads, c.result)).collect::<Vec<_>>()
    };
    assert_eq!(shape(PLAYER, "shared"), shape(STATIC_PLAYER, "static"));
}

#[test]
fn static_runtime_is_in_the_program_and_in_no_library() {
    use object::{Object, ObjectSection, ObjectSymbol};
    let bytes = std::fs::read(STATIC_PLAYER).unwrap();
    let file = object::File::parse(bytes.as_slice()).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let symbols: BTreeMap<_, _> =
        file.symbols().map(|s| (s.name().unwrap_or_default(), s.address())).collect();
    for (_, function) in StubFunction::all().filter(|(_, f)| f.probe.library == probe_abi::Library::Cudart) {
        let at = (symbols[function.symbol()] - text.address()) as usize;
        let first = &text.data().unwrap()[at..at + 4];
        assert!(
            std::env::consts::ARCH != "x86_64" || first == [0x55, 0x48, 0x89, 0xe5],
            "{}",
            function.symbol()
        );
    }
    let dir = scratch("static-maps");
    let arguments = ["--wait-go", "--stubs", dir.to_str().unwrap()];
    let player =
        Player::start(player(STATIC_PLAYER, "@after-exec", &dir.join("oracle"), &arguments)).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", player.pid())).unwrap();
    assert!(maps.contains("libcuda.so.1") && !maps.contains("libcudart"), "{maps}");
}

#[test]
fn player_without_a_parent_exits_without_a_call() {
    let log = scratch("alone").join("oracle");
    let mut command = player(PLAYER, "@after-exec", &log, &["--wait-go"]);
    assert!(command.stdin(Stdio::null()).output().unwrap().status.success());
    let played = read(&log);
    assert!(played.calls.is_empty() && played.processes.is_empty());
}

#[test]
fn player_waits_for_start_and_for_end_of_input() {
    let log = scratch("led").join("oracle");
    let arguments = ["--wait-go", "--speed", "50"];
    let mut player = Player::start(player(PLAYER, "@after-exec", &log, &arguments)).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", player.pid())).unwrap();
    assert!(maps.contains("libcudart.so.12") && maps.contains("libcuda.so.1"), "{maps}");
    assert!(read(&log).calls.is_empty());
    player.go().unwrap();
    let calls = player.done().unwrap();
    assert_eq!(calls, read(&log).calls.len() as u64);
    assert!(Path::new(&format!("/proc/{}/maps", player.pid())).exists());
    assert!(player.finish().unwrap().success());
}

/// Variable that makes this test program run as a player.
const VARIABLE: &str = "STUBS_TEST_PLAYER";

/// Entry point of this program as a player, not a test.
#[test]
fn player_process() {
    simulator::player::main_by_variable(VARIABLE);
}

#[test]
fn exec_keeps_the_process_id() {
    let log = scratch("exec").join("oracle");
    check_exec(&log, player(PLAYER, "@exec", &log, &["--wait-go", "--speed", "50"]));
}

#[test]
fn test_program_can_run_as_player_and_exec_itself() {
    let log = scratch("exec-variable").join("oracle");
    let mut command = Command::new(std::env::current_exe().unwrap());
    let arguments = format!("@exec\n--wait-go\n--speed\n50\n--oracle\n{}", log.display());
    command.args(["player_process", "--exact", "--nocapture"]).env(VARIABLE, arguments);
    check_exec(&log, command);
}

fn check_exec(log: &Path, command: Command) {
    let mut player = Player::start(command).unwrap();
    let pid = player.pid();
    player.go().unwrap();
    player.ready().unwrap();
    player.go().unwrap();
    player.done().unwrap();
    assert!(player.finish().unwrap().success());
    let played = read(log);
    assert_eq!(played.processes.iter().map(|p| p.pid).collect::<Vec<_>>(), [pid, pid]);
    let phases: Vec<_> = played.steps.iter().map(|s| s.phase.as_str()).collect();
    assert_eq!(phases.len(), 40);
    assert!(phases[..20].iter().all(|p| *p == "before") && phases[20..].iter().all(|p| *p == "after"));
}

#[test]
fn process_key_starts_another_process() {
    let text = "
stream main
thread engine
  repeat 20
    launch main gpu=2ms
    sync stream main
  end
end
thread neighbour process=other
  repeat 20
    launch main gpu=2ms
    sync stream main
  end
end
";
    let played = play("neighbour", PLAYER, text, &[]);
    let pid = |thread: &str| played.calls.iter().find(|c| c.thread == thread).map(|c| c.pid).unwrap();
    assert_ne!(pid("engine"), pid("neighbour"));
    let calls = |thread: &str| played.calls.iter().filter(|c| c.thread == thread).count();
    assert_eq!((calls("engine"), calls("neighbour")), (40, 40));
}

#[test]
fn every_function_has_one_sentinel_call() {
    let dir = scratch("sentinels");
    let log = dir.join("oracle");
    let output = Command::new(PLAYER).args(["--sentinels", "--oracle"]).arg(&log).output().unwrap();
    assert_quiet("sentinels", &output);
    let calls = read(&log).calls;
    let tested: Vec<_> = calls.iter().filter(|c| c.phase == "sentinel").map(|c| c.symbol.as_ref()).collect();
    let expected: Vec<_> = StubFunction::all().map(|(_, f)| f.symbol()).collect();
    assert_eq!(tested, expected);
    let failed: Vec<_> = calls.iter().filter(|c| c.result != 0).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// Results that scripts order, and that of a query before the work is done.
const EXPECTED: [u32; 3] = [0, 2, 600];

#[test]
fn every_script_runs() {
    let start = |(name, text): &(&'static str, &str)| {
        let log = scratch(&format!("script-{name}")).join("oracle");
        // A query must run before the work is done.
        let speed = if text.contains("poll ") { "4" } else { "2000" };
        let mut command = player(PLAYER, &format!("@{name}"), &log, &["--speed", speed, "--turns", "30"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        (*name, log, command.spawn().unwrap())
    };
    // Scripts of ranks have no steps; `ranks.rs` tests them.
    let under_way: Vec<_> = SCRIPTS.iter().filter(|(_, text)| !is_ranks(text)).map(start).collect();
    for (name, log, child) in under_way {
        assert_quiet(name, &child.wait_with_output().unwrap());
        let played = read(&log);
        assert!(played.calls.len() > 20 && !played.steps.is_empty(), "{name}");
        let odd = played.calls.iter().find(|c| !EXPECTED.contains(&c.result));
        assert_eq!(odd, None, "{name}");
        let in_order = |s: &StepLine| s.first_ns <= s.enter_ns && s.enter_ns <= s.exit_ns;
        assert!(played.steps.iter().all(in_order), "{name}");
    }
}

#[test]
fn errors_name_the_input_and_the_problem() {
    let dir = scratch("wrong");
    let (script, trace) = (dir.join("a.script"), dir.join("b.json"));
    std::fs::write(&script, "stream a\nlanch a\n").unwrap();
    std::fs::write(&trace, "{\"traceEvents\": []}").unwrap();
    let check = |source: &str, parts: &[&str]| {
        let output = Command::new(PLAYER).arg(source).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    };
    check(script.to_str().unwrap(), &["a.script: line 2: 'lanch'"]);
    check(trace.to_str().unwrap(), &["b.json", "no call"]);
    check("/nowhere.script", &["/nowhere.script"]);
    check("@nothing", &["'nothing'", "slow-decode"]);
}

/// The stream of a step, and its launches, graph launches, threads and copies.
type Shape = (u64, [u64; 4]);

fn shapes_of_file(trace: Trace) -> Vec<Shape> {
    let mut events = Vec::new();
    let mut source = trace.into_events();
    while source.read(&mut events).unwrap() {}
    let steps = events.iter().filter_map(|e| if let Event::Step(step) = e { Some(step) } else { None });
    let (mut open, mut shapes) = (BTreeMap::new(), Vec::new());
    for step in steps.filter(|s| s.header.flags & flag::UNFINISHED == 0) {
        let work: &mut [u64; 4] = open.entry(step.stream).or_default();
        let counters = [Counter::Launches, Counter::GraphLaunches, Counter::Threads, Counter::Copies];
        work.iter_mut().zip(counters).for_each(|(sum, counter)| *sum += step.work[counter as usize]);
        // The player calls from one thread, so that no iteration ends without a sync call.
        if step.header.flags & flag::ITERATION == 0 {
            shapes.extend(open.remove(&step.stream).map(|work| (step.stream, work)));
        }
    }
    shapes
}

#[test]
fn played_trace_has_the_steps_of_its_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let Ok(files) = std::fs::read_dir(&folder) else {
        println!("skipped: no profiler traces in {}", folder.display());
        return;
    };
    let dir = scratch("traces");
    let play = |file: PathBuf| {
        let log = dir.join(file.file_name().unwrap());
        let child = player(PLAYER, file.to_str().unwrap(), &log, &["--speed", "4"]).spawn().unwrap();
        (file, log, child)
    };
    let files = files.map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "gz"));
    let under_way: Vec<_> = files.map(play).collect();
    for (file, log, mut child) in under_way {
        let trace = Trace::read(std::fs::File::open(&file).unwrap(), &Limits::default()).unwrap();
        let mut expected = shapes_of_file(trace);
        assert!(child.wait().unwrap().success(), "{}", file.display());
        let mut played: Vec<Shape> = read(&log).steps.iter().map(shape_of_step).collect();
        expected.sort_unstable();
        played.sort_unstable();
        assert_eq!(played, expected, "{}", file.display());
    }
}

fn shape_of_step(step: &StepLine) -> Shape {
    let work = &step.work;
    (step.stream, [work.launches, work.graph_launches, work.threads, work.copies])
}
