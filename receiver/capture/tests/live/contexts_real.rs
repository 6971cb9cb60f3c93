//! A tracer from the Python package index that publishes its threads' contexts: Datadog's, from 4.x on.
//!
//! Its spans are real, and its publisher is an extension that Python loads with the first import, long after the process
//! started; the calls go to the stub library. The spans of the tracer are compared with the contexts of steps.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use event::Event;
use probe_abi::counters::SelfCounter;
use simulator::install;
use simulator::player::Player;

use crate::rig::{rig, settings};

const PACKAGE: &str = "ddtrace";

/// A script of steps in a span, without a span, in a nested span whose trace is sampled, and on another thread.
const PROGRAM: &str = r#"
import ctypes, os, sys, threading
_driver, runtime = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
def wait():
    print("@player ready", os.getpid(), flush=True)
    sys.stdin.readline()
def step(span, flags):
    runtime.cudaLaunchKernel(*[ctypes.c_uint64(n) for n in [1, 1 << 32 | 1, 1, 1 << 32 | 1, 1, 0, 0, 0, 0]])
    runtime.cudaStreamSynchronize(None)
    log.write("%032x %016x %d\n" % (span.trace_id, span.span_id, flags) if span else "none\n")
wait()
from ddtrace.trace import tracer
wait()
with open(sys.argv[3], "w") as log:
    with tracer.trace("request") as span:
        step(span, 0)
    step(None, 0)
    with tracer.trace("kept") as outer:
        outer.context.sampling_priority = 2
        with tracer.trace("inside") as inner:
            step(inner, 1)
    def work():
        with tracer.trace("thread") as span:
            step(span, 0)
        step(None, 0)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
print("@player done", 10, flush=True)
sys.stdin.read()
"#;

/// Returns the directory of the package; prints why and returns `None` if it cannot be installed.
fn installed() -> Option<PathBuf> {
    let dir = std::env::current_exe().unwrap().parent()?.join("wheels").join(format!("{PACKAGE}-installed"));
    if dir.exists() {
        return Some(dir);
    }
    // Whole or not at all.
    let draft = dir.with_extension(std::process::id().to_string());
    let pip = ["-m", "pip", "install", "--quiet", "--only-binary=:all:", "--target"];
    let done = Command::new("python3").args(pip).arg(&draft).arg(PACKAGE).output();
    if !done.as_ref().is_ok_and(|o| o.status.success()) || std::fs::rename(&draft, &dir).is_err() {
        println!("skipped: {PACKAGE} cannot be installed with pip");
        return None;
    }
    Some(dir)
}

#[test]
fn context_of_a_real_tracer_is_read() {
    let Some(package) = installed() else { return };
    let Some(mut rig) = rig("tracer", &settings()) else { return };
    let (paths, log) = (install(&rig.dir.join("stubs")).unwrap(), rig.dir.join("log"));
    let mut command = Command::new("python3");
    command.args(["-c", PROGRAM]).args([&paths.cuda, &paths.cudart, &log]).env("PYTHONPATH", package);
    // There is no receiver for its spans.
    for off in
        ["DD_INSTRUMENTATION_TELEMETRY_ENABLED", "DD_REMOTE_CONFIGURATION_ENABLED", "DD_TRACE_STARTUP_LOGS"]
    {
        command.env(off, "false");
    }
    let mut player = Player::start(command).unwrap();
    let pid = player.pid();
    rig.attach(&player);
    player.go().unwrap();
    player.ready().unwrap();
    rig.wait("the tracer's publisher", |rig| {
        let (observed, gaps) = rig.capture.coverage(pid).unwrap();
        assert!(gaps.is_empty(), "{gaps:?}");
        observed.iter().any(|line| line.starts_with("trace contexts: otel_thread_ctx_v1 in _native"))
    });
    rig.play(player);
    let (mut seen, mut context) = (String::new(), None);
    for event in &rig.events {
        match event {
            Event::Context(c) => context = Some(*c),
            Event::Step(step) => match context.take().filter(|c| c.header.entry_ns == step.header.entry_ns) {
                None => seen.push_str("none\n"),
                Some(c) => {
                    let (trace, span) = (u128::from_be_bytes(c.trace_id), u64::from_be_bytes(c.span_id));
                    writeln!(seen, "{trace:032x} {span:016x} {}", c.trace_flags).unwrap();
                }
            },
            _ => {}
        }
    }
    assert_eq!(seen, std::fs::read_to_string(log).unwrap());
    assert_eq!(rig.capture.account()[SelfCounter::TraceContextUnreadable], 0);
}
