//! Trace contexts that threads publish as OTEP 4947 specifies, compared with those recorded with their steps.
//!
//! The calling process loads a shared object that exports the variable, with a different TLS access model in each test,
//! and publishes records through it from its own threads.

#![expect(unsafe_code, reason = "calls functions of loaded libraries, and writes what they hand out")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, Read as _, Write as _};
use std::path::Path;
use std::process::Command;

use event::{Event, TraceContext};
use libloading::Library;
use probe_abi::context::Published;
use probe_abi::counters::SelfCounter;
use simulator::player::Player;
use simulator::{PUBLISHERS, install, install_publisher};

use crate::rig::{Rig, rig, settings};

/// Environment variable with the publisher and the directory of stub libraries, a line each.
pub const CALLER: &str = "WARPTAP_TEST_PUBLISHER";

type Slot = unsafe extern "C" fn() -> *mut *const Published;
type Launch = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u32;
type Synchronize = unsafe extern "C" fn(u64) -> u32;

fn record(trace: u8, span: u8, valid: u8, flags: u8) -> Published {
    let words = |id: u8| u32::from_ne_bytes([id; 4]);
    Published { trace_id: [words(trace); 4], span_id: [words(span); 2], valid, flags, attributes_size: 0 }
}

/// The record that the thread of a step publishes.
#[derive(Clone, Copy)]
enum Publishes {
    /// No record, and the thread never accessed the variable.
    Untouched,
    /// A null pointer.
    Null,
    /// A pointer to unmapped memory.
    Wild,
    /// Trace, span, valid, flags.
    Record(u8, u8, u8, u8),
}

/// A step: the published record, the expected context (span and flags), and how often a context is dropped.
type Case = (Publishes, Option<(u8, u8)>, u64);

/// The steps, each on its own thread and then all on one.
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
        // SAFETY: the function gives the address of this thread's own variable, which no other code writes.
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

/// Publishes and calls: one step before the publisher is loaded, then two of each of [`STEPS`].
pub fn publish_and_call(publisher: &Path, stubs: &Path) {
    let wait = || {
        println!("@player ready {}", std::process::id());
        std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    };
    let paths = install(stubs).unwrap();
    // SAFETY: the stub libraries and the publishers have initialisers without preconditions.
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

/// Returns the context recorded with each step, in order.
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
    rig.attach(&player);
    player.go().unwrap();
    player.ready().unwrap();
    let pid = player.pid();
    let expected = format!("trace contexts: otel_thread_ctx_v1 in {}", publisher.0);
    rig.wait("the publisher", |rig| {
        let (observed, gaps) = rig.capture.coverage(pid).unwrap();
        assert!(gaps.is_empty(), "{gaps:?}");
        observed.contains(&expected)
    });
    let calls = rig.play(player);
    let seen = contexts(&rig);
    let expected = |(_, expected, _): &Case| *expected;
    let expected: Vec<_> = std::iter::once(None).chain(STEPS.iter().chain(&STEPS).map(expected)).collect();
    let spans = seen.iter().map(|c| c.map(|c| (c.span_id[0], c.trace_flags)));
    assert_eq!(spans.collect::<Vec<_>>(), expected);
    for context in seen.iter().flatten() {
        let trace = if context.span_id[0] == 8 { 9 } else { 1 };
        assert_eq!((context.trace_id, context.span_id), ([trace; 16], [context.span_id[0]; 8]));
    }
    let account = rig.capture.account();
    let strange: u64 = STEPS.iter().map(|(.., strange)| 2 * strange).sum();
    assert_eq!(
        (account.hits, account.lost(), account[SelfCounter::TraceContextUnreadable]),
        (calls, 0, strange),
        "{account:?}"
    );
    assert!(account.is_balanced(), "{account:?}");
}

#[test]
fn context_is_read_through_a_descriptor() {
    check(PUBLISHERS[0]);
}

#[test]
fn context_is_read_through_a_near_descriptor() {
    check(PUBLISHERS[1]);
}

#[test]
fn context_is_read_at_a_fixed_distance() {
    check(PUBLISHERS[2]);
}

#[test]
fn context_is_read_through_a_module_number() {
    check(PUBLISHERS[3]);
}
