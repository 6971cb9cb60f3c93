//! The overhead budget: a storm of launches is brought under it, its calls are estimated, and everything is attached again
//! after it.

#![expect(unsafe_code, reason = "calls functions of a loaded library")]

use std::fs::File;
use std::io::{BufRead as _, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use capture::Settings;
use event::{Event, Overhead, StepRecord};
use libloading::Library;
use probe_abi::record::flag;
use simulator::player::Player;

use crate::rig::{Rig, rig, settings};

/// Environment variable with the directory of the stub libraries and the file of a caller's state, a line each.
pub const CALLER: &str = "WARPTAP_TEST_STORM";
const BUDGET: f64 = 0.01;
/// Offsets in the file of state: the phase that the test sets, the calls made so far.
const PHASE: u64 = 0;
const CALLS: u64 = 8;
/// Phases: calls at full speed, and one step in 5 ms.
const STORM: u64 = 0;
const CALM: u64 = 1;
const STOP: u64 = 2;
/// Calls between two looks at the phase.
const ROUND: u64 = 1_000;

type Launch = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u32;
type Synchronize = unsafe extern "C" fn(u64) -> u32;

fn read(file: &File, offset: u64) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, offset).unwrap();
    u64::from_ne_bytes(bytes)
}

/// Functions that begin as those of real libraries do, and do nothing.
const STUB: &str = "
.macro stub name
.globl \\name
.type \\name, %function
\\name:
#ifdef __x86_64__
 push %rbp
 mov %rsp, %rbp
 xor %eax, %eax
 pop %rbp
 ret
#else
 stp x29, x30, [sp, #-16]!
 mov x0, #0
 ldp x29, x30, [sp], #16
 ret
#endif
.size \\name, .-\\name
.endm
stub hipLaunchKernel
stub hipStreamSynchronize
.section .note.GNU-stack,\"\",%progbits
";

/// Builds the stub library with the C compiler that Rust links with. Prints why and returns false if there is none.
fn build(dir: &Path) -> bool {
    let source = dir.join("stub.S");
    std::fs::write(&source, STUB).unwrap();
    let built =
        Command::new("cc").arg("-shared").arg(&source).arg("-o").arg(dir.join("libamdhip64.so.6")).status();
    let is_built = built.is_ok_and(|status| status.success());
    if !is_built {
        println!("skipped: cc cannot build the stub library");
    }
    is_built
}

/// Spins for about this time.
fn spin(rounds: u64) {
    for n in 0..rounds {
        std::hint::black_box(n);
    }
}

/// Returns the rounds of [`spin`] that take a microsecond where no other thread disturbs.
fn spin_rounds() -> u64 {
    const ROUNDS: u64 = 100_000;
    let ns = (0..10).map(|_| {
        let began = Instant::now();
        spin(ROUNDS);
        began.elapsed().as_nanos() as u64
    });
    (ROUNDS * 1_000 / ns.min().unwrap_or(0).max(1)).max(1)
}

/// Launches as the file of state says, and counts the launches there.
pub fn storm(stubs: &Path, state: &Path) {
    // SAFETY: the stub library has no initialisers.
    let runtime = unsafe { Library::new(stubs.join("libamdhip64.so.6")) }.unwrap();
    // SAFETY: C functions of these types.
    let launch = unsafe { *runtime.get::<Launch>(b"hipLaunchKernel").unwrap() };
    // SAFETY: as above.
    let synchronize = unsafe { *runtime.get::<Synchronize>(b"hipStreamSynchronize").unwrap() };
    let rounds = spin_rounds();
    let state = File::options().read(true).write(true).open(state).unwrap();
    println!("@player ready {}", std::process::id());
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    let mut calls = 0;
    loop {
        let (launches, pause) = match read(&state, PHASE) {
            STORM => (ROUND, Duration::ZERO),
            CALM => (3, Duration::from_millis(5)),
            _ => break,
        };
        for _ in 0..launches {
            // SAFETY: the stub takes any integers; the default stream is always there.
            unsafe { launch(1, 1 << 32 | 1, 1, 1 << 32 | 1, 1, 0, 0, 0, 0) };
            spin(rounds);
        }
        // SAFETY: as above.
        unsafe { synchronize(0) };
        calls += launches;
        state.write_all_at(&calls.to_ne_bytes(), CALLS).unwrap();
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    println!("@player done {calls}");
    std::io::stdout().flush().unwrap();
    std::io::stdin().lock().read_to_end(&mut Vec::new()).unwrap();
}

/// A storm, and what was seen of it.
struct Storm {
    rig: Rig,
    player: Player,
    state: File,
}

/// Numbers of launches: made, observed, and estimated.
#[derive(Clone, Copy, Debug)]
struct Launches {
    at: Instant,
    made: u64,
    observed: u64,
    estimated: u64,
}

impl Storm {
    fn start(name: &str, budget: Option<f64>) -> Option<Storm> {
        let settings = Settings { overhead_budget: budget, totals_every_ns: 250_000_000, ..settings() };
        let mut rig = rig(name, &settings)?;
        if !build(&rig.dir) {
            return None;
        }
        let path = rig.dir.join("state");
        std::fs::write(&path, [0; 16]).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["calling_process", "--exact", "--nocapture", "--quiet"]);
        command.env(CALLER, format!("{}\n{}", rig.dir.display(), path.display()));
        let player = Player::start(command).unwrap();
        rig.attach(&player);
        let state = File::options().read(true).write(true).open(path).unwrap();
        Some(Storm { rig, player, state })
    }

    fn set(&self, phase: u64) {
        self.state.write_all_at(&phase.to_ne_bytes(), PHASE).unwrap();
    }

    fn run(&mut self, time: Duration) {
        let began = Instant::now();
        self.rig.wait("the time", |_| {
            std::thread::park_timeout(Duration::from_millis(2));
            began.elapsed() >= time
        });
    }

    fn launches(&mut self) -> Launches {
        let mut events = Vec::new();
        self.rig.capture.read_totals(&mut events);
        let totals = events.iter().filter_map(|e| if let Event::Operation(o) = e { Some(o) } else { None });
        let is_launch = |row| probe_abi::row(row).is_some_and(|row| row.symbol == "hipLaunchKernel");
        let total = totals.into_iter().find(|o| is_launch(o.row));
        let (observed, estimated) = total.map_or((0, 0), |o| (o.calls, o.unobserved));
        Launches { at: Instant::now(), made: read(&self.state, CALLS), observed, estimated }
    }

    fn overhead(&mut self) -> Overhead {
        let mut events = Vec::new();
        self.rig.capture.read_totals(&mut events);
        events.iter().find_map(|e| if let Event::Overhead(o) = e { Some(**o) } else { None }).unwrap()
    }

    fn steps(&self) -> Vec<StepRecord> {
        let steps = self.rig.events.iter();
        steps.filter_map(|e| if let Event::Step(s) = e { Some(*s) } else { None }).collect()
    }
}

fn per_second(from: &Launches, to: &Launches, of: impl Fn(&Launches) -> u64) -> f64 {
    (of(to) - of(from)) as f64 / to.at.duration_since(from.at).as_secs_f64()
}

#[test]
fn storm_is_brought_under_the_budget_and_its_calls_are_estimated() {
    let Some(mut storm) = Storm::start("budget", Some(BUDGET)) else { return };
    storm.player.go().unwrap();
    let began = storm.launches();
    storm.run(Duration::from_secs(2));
    let held = storm.launches();
    storm.run(Duration::from_secs(20));
    let (end, overhead) = (storm.launches(), storm.overhead());
    storm.set(CALM);
    let calm = Instant::now();
    storm.rig.wait("the probes to be attached again", |_| calm.elapsed() > Duration::from_secs(1));
    while storm.overhead().attached != [1.0; 3] {
        storm.run(Duration::from_millis(100));
        assert!(calm.elapsed() < Duration::from_secs(30), "{:?}", storm.overhead());
    }
    let returned = calm.elapsed();
    let again = storm.launches();
    storm.run(Duration::from_secs(1));
    let last = storm.launches();
    storm.set(STOP);
    let made = storm.player.done().unwrap();
    storm.rig.wait("the last totals", |_| true);
    let total = storm.launches();
    let account = storm.rig.capture.account();
    println!(
        "launches per second: {:.0} made, {:.0} observed in the first 2 s; then {:.0} made, {:.0} observed",
        per_second(&began, &held, |l| l.made),
        per_second(&began, &held, |l| l.observed),
        per_second(&held, &end, |l| l.made),
        per_second(&held, &end, |l| l.observed)
    );
    let share = per_second(&held, &end, |l| l.observed) * account.run_cost_ns as f64 / 1e9;
    let error = (total.observed + total.estimated) as f64 / made as f64 - 1.0;
    println!(
        "share {:.3} % of the thread's time at {} ns a hit (reported {:.3} %, attached {:?}); {made} made, estimate off by {:.2} %; attached again after {:.1} s",
        100.0 * share,
        account.run_cost_ns,
        100.0 * overhead.share,
        overhead.attached,
        100.0 * error,
        returned.as_secs_f64()
    );
    assert!(account.is_balanced(), "{account:?}");
    let missing = (last.made - again.made).abs_diff(last.observed - again.observed);
    assert!(missing <= 6, "{missing} more than the calls between the reads of both counts");
    assert!(share < BUDGET && overhead.share < BUDGET);
    assert!(error.abs() < 0.05, "{total:?}");
    assert!(returned < Duration::from_secs(10));
    for step in storm.steps() {
        let launches = step.work[probe_abi::fold::Counter::Launches as usize];
        let is_marked = step.header.flags & flag::UNARMED != 0;
        assert!(is_marked || [3, ROUND].contains(&launches), "{launches} launches in a step");
    }
    let (marked, whole): (Vec<_>, Vec<_>) =
        storm.steps().into_iter().partition(|s| s.header.flags & flag::UNARMED != 0);
    println!("{} steps whole, {} marked", whole.len(), marked.len());
    storm.player.finish().unwrap();
}
