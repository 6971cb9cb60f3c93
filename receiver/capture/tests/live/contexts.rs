//! The traces that threads publish, as OTEP 4947 has them do it, against those that come with their steps.
//!
//! The process that calls loads a shared object that exports the variable, each time by another of the ways that
//! compilers know, and publishes real records through it from its own threads.

#![expect(unsafe_code, reason = "calls functions of loaded libraries, and writes what they hand out")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, Read as _, Write as _};
use std::path::Path;
use std::process::Command;

use event::{Event, TraceContext};
use libloading::Library;
use probe_abi::context::Published;
use simulator::player::Player;
use simulator::{PUBLISHERS, install, install_publisher};

use crate::rig::{Rig, rig, settings};

/// The publisher and the directory of stub libraries, a line each, in the environment of the process that publishes.
pub const CALLER: &str = "WARPTAP_TEST_PUBLISHER";

type Slot = unsafe extern "C" fn() -> *mut *const Published;
type Launch = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u32;
type Synchronize = unsafe extern "C" fn(u64) -> u32;

fn record(trace: u8, span: u8, valid: u8, flags: u8) -> Published {
    let words = |id: u8| u32::from_ne_bytes([id; 4]);
    Published { trace_id: [words(trace); 4], span_id: [words(span); 2], valid, flags, attributes_size: 0 }
}

/// What a step's thread publishes.
#[derive(Clone, Copy)]
enum Publishes {
    /// Nothing, and it never asked where the variable stands.
    Untouched,
    /// A pointer to nothing.
    Null,
    /// A pointer to where nothing is.
    Wild,
    /// Trace, span, valid, flags.
    Record(u8, u8, u8, u8),
}

/// A step: what its thread publishes, what must be told of it (span and flags), and how often it is counted as strange.
type Case = (Publishes, Option<(u8, u8)>, u64);

/// Each on a thread of its own, then all on one.
const STEPS: [Case; 11] = {
    use Publishes::{Null, Record, Untouched, Wild};
    [
        (Untouched, None, 0),
        (Record(1, 2, 1, 1), Some((2, 1)), 0),
        (Record(1, 3, 1, 0), Some((3, 0)), 0),
        (Record(1, 4, 0, 1), None, 0),
        (Null, None, 0),
        (Record(0, 0, 1, 0), None, 0),
        (Record(9, 8, 1, 3), Some((8, 3)), 0),
        (Wild, None, 1),
        (Record(0, 5, 1, 1), None, 1),
        (Record(5, 0, 1, 1), None, 1),
        (Record(5, 5, 2, 1), None, 1),
    ]
};

struct Calls {
    launch: Launch,
    synchronize: Synchronize,
    slot: Slot,
}

impl Calls {
    fn step(&self, publishes: Publishes) {
        let held;
        let pointer = match publishes {
            Publishes::Untouched => return self.wait(),
            Publishes::Null => std::ptr::null(),
            Publishes::Wild => std::ptr::without_provenance(0x10),
            Publishes::Record(trace, span, valid, flags) => {
                held = record(trace, span, valid, flags);
                &raw const held
            }
        };
        // SAFETY: the function gives the address of this thread's own variable, which nobody else writes.
        unsafe { (self.slot)().write_volatile(pointer) };
        self.wait();
        // SAFETY: as above; `held` is gone after this.
        unsafe { (self.slot)().write_volatile(std::ptr::null()) };
    }

    fn wait(&self) {
        // SAFETY: the stub's functions take any integers; the default stream is always there.
        unsafe {
            (self.launch)(1, 1 << 32 | 1, 1, 1 << 32 | 1, 1, 0, 0, 0, 0);
            (self.synchronize)(0);
        }
    }
}

/// The process that publishes: a step before its publisher is loaded, then two each of [`STEPS`].
pub fn publish_and_call(publisher: &Path, stubs: &Path) {
    let wait = || {
        println!("@player ready {}", std::process::id());
        std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    };
    let paths = install(stubs).unwrap();
    // SAFETY: the stub libraries and the publishers have no initialisers that ask anything of us.
    let load = |path: &Path| unsafe { Library::new(path) }.unwrap();
    let (_driver, runtime) = (load(&paths.cuda), load(&paths.cudart));
    // SAFETY: a C function of this type.
    let launch = unsafe { *runtime.get::<Launch>(b"cudaLaunchKernel").unwrap() };
    // SAFETY: as above.
    let synchronize = unsafe { *runtime.get::<Synchronize>(b"cudaStreamSynchronize").unwrap() };
    extern "C" fn none() -> *mut *const Published {
        std::ptr::null_mut()
    }
    wait();
    Calls { launch, synchronize, slot: none }.wait();
    let publisher = load(publisher);
    // SAFETY: as above.
    let slot = unsafe { *publisher.get::<Slot>(b"warptap_stub_context").unwrap() };
    wait();
    let calls = Calls { launch, synchronize, slot };
    for (publishes, ..) in STEPS {
        std::thread::scope(|scope| scope.spawn(|| calls.step(publishes)).join()).unwrap();
    }
    STEPS.iter().for_each(|(publishes, ..)| calls.step(*publishes));
    println!("@player done {}", 2 * (1 + 2 * STEPS.len()));
    std::io::stdout().flush().unwrap();
    std::io::stdin().lock().read_to_end(&mut Vec::new()).unwrap();
}

/// Of each step in turn, the context that came with it.
fn contexts(rig: &Rig) -> Vec<Option<TraceContext>> {
    let (mut latest, mut steps) = (BTreeMap::new(), Vec::new());
    for event in &rig.events {
        match event {
            Event::Context(context) => drop(latest.insert(context.header.tid, *context)),
            Event::Step(step) => {
                let of_thread = latest.remove(&step.header.tid);
                assert!(of_thread.is_none_or(|c| c.header.entry_ns == step.header.entry_ns), "{of_thread:?}");
                steps.push(of_thread);
            }
            _ => {}
        }
    }
    assert_eq!(latest, BTreeMap::new(), "each context has its step");
    steps
}

fn check(publisher: (&str, &[u8])) {
    let Some(mut rig) = rig(publisher.0, &settings()) else { return };
    let path = install_publisher(&rig.dir, publisher).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["calling_process", "--exact", "--nocapture", "--quiet"]);
    command.env(CALLER, format!("{}\n{}", path.display(), rig.dir.join("stubs").display()));
    let mut player = Player::start(command).unwrap();
    rig.look(&player);
    player.go().unwrap();
    player.ready().unwrap();
    let pid = player.pid();
    let expected = format!("trace contexts: otel_thread_ctx_v1 in {}", publisher.0);
    rig.wait("the publisher", |rig| {
        let (visible, blind) = rig.capture.sight(pid).unwrap();
        assert!(blind.is_empty(), "{blind:?}");
        visible.contains(&expected)
    });
    let calls = rig.play(player);
    let seen = contexts(&rig);
    let told = |(_, told, _): &Case| *told;
    let expected: Vec<_> = std::iter::once(None).chain(STEPS.iter().chain(&STEPS).map(told)).collect();
    let spans = seen.iter().map(|c| c.map(|c| (c.span_id[0], c.trace_flags)));
    assert_eq!(spans.collect::<Vec<_>>(), expected);
    for context in seen.iter().flatten() {
        let trace = if context.span_id[0] == 8 { 9 } else { 1 };
        assert_eq!((context.trace_id, context.span_id), ([trace; 16], [context.span_id[0]; 8]));
    }
    let account = rig.capture.account();
    let strange: u64 = STEPS.iter().map(|(.., strange)| 2 * strange).sum();
    assert_eq!((account.hits, account.lost(), account.dropped_contexts), (calls, 0, strange), "{account:?}");
    assert!(account.is_balanced(), "{account:?}");
}

#[test]
fn a_step_comes_with_the_trace_that_its_thread_publishes_by_a_descriptor() {
    check(PUBLISHERS[0]);
}

#[test]
fn a_step_comes_with_the_trace_that_its_thread_publishes_beside_the_blocks_of_the_start() {
    check(PUBLISHERS[1]);
}

#[test]
fn a_step_comes_with_the_trace_that_its_thread_publishes_at_a_fixed_distance() {
    check(PUBLISHERS[2]);
}

#[test]
fn a_step_comes_with_the_trace_that_its_thread_publishes_in_the_older_dialect() {
    check(PUBLISHERS[3]);
}
