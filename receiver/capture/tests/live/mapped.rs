//! Libraries that a process maps while the capture runs: a process sleeps a random time, maps a fresh copy of a library and
//! calls it at once. Its own log tells which calls were made before the probes, and how long that took.
//!
//! `WARPTAP_MAPPED_ROUNDS=50 WARPTAP_MAPPED_MS=10000` in the environment makes the run whose figures are in TESTING.md.

#![expect(unsafe_code, reason = "calls functions of a foreign library")]

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use event::{Event, EventSource as _};
use perf_event::Builder;
use perf_event::events::Event as PerfEvent;
use perf_event_open_sys::bindings::perf_event_attr;
use probe_abi::Library;

use crate::nvidia::library;
use crate::rig::{Rig, rig};

/// Environment variable with the arguments of [`map_and_call`], one a line.
pub const CALLER: &str = "WARPTAP_TEST_MAPPER";
const PAUSE: Duration = Duration::from_micros(20);
const MS: u64 = 1_000_000;
/// Time after the mapping from which calls are expected to be counted, ns.
const GRACE_NS: u64 = 10 * MS;
/// Offset in a library at which there is code or data that nothing runs meanwhile.
const CODE_OFFSET: u64 = 4096;
/// Time between two starts of processes: 200 start per second.
const START_EVERY: Duration = Duration::from_millis(5);
/// Processes that may run at once.
const START_AHEAD: u32 = 8;

type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u32;

/// Sleeps, maps the library, calls a function of it for some time, and writes to the log: when it began to map the
/// library, when it had, and when it made each call, ns. The arguments are the library, the function, the log, and two
/// times in ms.
pub fn map_and_call(arguments: &str) {
    let arguments: Vec<&str> = arguments.lines().collect();
    let [file, function, log, sleep_ms, call_ms] = arguments[..] else { panic!("{arguments:?}") };
    std::thread::sleep(Duration::from_millis(sleep_ms.parse().unwrap()));
    let mut times = vec![capture::now_ns()];
    // SAFETY: the initialisers of these libraries have no preconditions.
    let loaded = unsafe { libloading::Library::new(file) }.unwrap();
    // SAFETY: the symbol is a C function of at most nine integer arguments.
    let function = unsafe { loaded.get::<Function>(function) }.unwrap();
    times.push(capture::now_ns());
    let version = 0u64;
    let end_ns = times[1] + call_ms.parse::<u64>().unwrap() * MS;
    while times[times.len() - 1] < end_ns {
        times.push(capture::now_ns());
        // SAFETY: the function writes at most one integer to its first argument.
        unsafe { function(std::ptr::from_ref(&version) as u64, 0, 0, 0, 0, 0, 0, 0, 0) };
        std::thread::sleep(PAUSE);
    }
    write_log(log, &times);
}

/// Writes the log at once, so that a reader never sees a part of it.
fn write_log(log: &str, times: &[u64]) {
    let text = times.iter().map(u64::to_string).collect::<Vec<_>>().join("\n");
    std::fs::write(format!("{log}.part"), text).unwrap();
    std::fs::rename(format!("{log}.part"), log).unwrap();
}

/// What a process logged, and what the capture reported of it.
struct Round {
    mapping_ns: [u64; 2],
    calls: Vec<u64>,
    counted: usize,
    unobserved_ns: u64,
    armed: Option<(u64, u64)>,
}

impl Round {
    fn read(rig: &Rig, pid: u32, log: &Path) -> Round {
        let text = std::fs::read_to_string(log).unwrap();
        let times: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        let operations = rig.events.iter().filter_map(|e| match e {
            Event::Operation(total) if total.process.pid == pid => Some(total.calls as usize),
            _ => None,
        });
        // Calls of NCCL are recorded, others are counted.
        let is_record = |e: &&Event| matches!(e, Event::CallArgs(args) if args.header.pid == pid);
        let records = rig.events.iter().filter(is_record).count();
        let unobserved = rig.events.iter().filter_map(|e| match e {
            Event::Process(info) if info.process.pid == pid => Some(info.unobserved_ns),
            _ => None,
        });
        let armed = rig.events.iter().find_map(|e| match e {
            Event::Armed { at_ns, pid: of, mapped_ns } if *of == pid => Some((*mapped_ns, *at_ns)),
            _ => None,
        });
        Round {
            mapping_ns: [times[0], times[1]],
            calls: times[2..].to_vec(),
            counted: operations.max().unwrap_or(0).max(records),
            unobserved_ns: unobserved.max().unwrap_or(0),
            armed,
        }
    }

    /// Returns the number of calls later than the grace time, and how many of them were not counted.
    fn late_calls(&self) -> (usize, usize) {
        let until_ns = self.mapping_ns[1] + GRACE_NS;
        let early = self.calls.partition_point(|at_ns| *at_ns < until_ns);
        let missed = self.calls.len() - self.counted;
        (self.calls.len() - early, missed.saturating_sub(early))
    }

    /// Returns by how much the stated end of the unobserved time is later than the first counted call, ns; negative if
    /// it is earlier than the last call that was not counted.
    fn stated_error_ns(&self) -> i64 {
        let (mapped_ns, _) = self.armed.unwrap();
        let end_ns = mapped_ns + self.unobserved_ns;
        let missed = self.calls.len() - self.counted;
        let first_counted = self.calls.get(missed).copied().unwrap_or(u64::MAX);
        match missed.checked_sub(1).map(|last| self.calls[last]) {
            Some(last_missed) if end_ns < last_missed => end_ns as i64 - last_missed as i64,
            _ if end_ns > first_counted => (end_ns - first_counted) as i64,
            _ => 0,
        }
    }
}

/// Copies a library to a new file of the same name, which no probe is attached to.
fn fresh_copy(rig: &Rig, library: &Path, round: usize) -> PathBuf {
    let dir = rig.dir.join(format!("fresh-{round}"));
    std::fs::create_dir_all(&dir).unwrap();
    let copy = dir.join(library.file_name().unwrap());
    std::fs::copy(library, &copy).unwrap();
    copy
}

/// A probe of the code at an offset of a file, as perf_event_open(2) takes it.
struct FileProbe<'a>(&'a CStr);

impl PerfEvent for FileProbe<'_> {
    fn update_attrs(self, attr: &mut perf_event_attr) {
        let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type").unwrap();
        attr.type_ = kind.trim().parse().unwrap();
        (attr.config1, attr.config2) = (self.0.as_ptr() as u64, CODE_OFFSET);
    }
}

/// Returns how long the kernel takes to add one probe to a file that no process maps, ns. Removes the file.
fn single_probe_ns(file: &Path) -> u64 {
    let path = CString::new(file.as_os_str().as_bytes()).unwrap();
    let probe = FileProbe(&path);
    let began_ns = capture::now_ns();
    let probe = Builder::new(probe).build().unwrap();
    let took_ns = capture::now_ns() - began_ns;
    drop(probe);
    std::fs::remove_file(file).unwrap();
    // Shortly after a probe was added or removed, the kernel adds the next one faster.
    std::thread::sleep(Duration::from_millis(50));
    took_ns
}

/// Median, 99th percentile and maximum of times, as text.
fn distribution(times_ns: &mut [u64]) -> String {
    times_ns.sort_unstable();
    let [median, p99, longest] = [(1, 2), (99, 100), (1, 1)]
        .map(|(part, of)| times_ns[((times_ns.len() - 1) * part).div_ceil(of)] as f64 / MS as f64);
    format!("median {median:.1} ms, p99 {p99:.1} ms, longest {longest:.1} ms")
}

/// Reads events, and waits in between as the receiver does, until the process has ended and its exit was read.
fn follow(rig: &mut Rig, child: &mut Child) {
    let (pid, began) = (child.id(), Instant::now());
    let mut has_ended = false;
    loop {
        rig.capture.read(&mut rig.events).unwrap();
        let is_exit = |e: &Event| matches!(e, Event::Exit { process, .. } if process.pid == pid);
        has_ended |= child.try_wait().unwrap().is_some();
        if has_ended && (rig.events.iter().any(is_exit) || began.elapsed() > Duration::from_secs(60)) {
            return;
        }
        rig.capture.wait();
    }
}

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs the rounds of a library, prints their figures, and checks those that do not depend on the load of the machine.
fn check(name: &str, library: &Path, function: &str, command: impl Fn(&Path) -> (Command, PathBuf)) {
    let Some(mut rig) = rig(name, &capture::Settings::default()) else { return };
    for _ in 0..100 {
        rig.capture.read(&mut rig.events).unwrap();
        rig.capture.wait();
    }
    let (rounds, call_ms) = (number("WARPTAP_MAPPED_ROUNDS", 3), number("WARPTAP_MAPPED_MS", 300));
    let (mut arming, mut single, mut errors, mut late, mut missed) = (vec![], vec![], vec![], 0, 0);
    for round in 0..rounds {
        single.push(single_probe_ns(&fresh_copy(&rig, library, round)));
        let copy = fresh_copy(&rig, library, round);
        let log = rig.dir.join(format!("log-{round}"));
        let (mut command, seen_as) = command(&copy);
        let sleep_ms = round * 37 % 100;
        let arguments =
            format!("{}\n{function}\n{}\n{sleep_ms}\n{call_ms}", seen_as.display(), log.display());
        let mut child = command.env(CALLER, arguments).stdout(Stdio::null()).spawn().unwrap();
        follow(&mut rig, &mut child);
        let seen = Round::read(&rig, child.id(), &log);
        let (mapped_ns, armed_ns) = seen.armed.expect("the kernel reported the mapping");
        assert!((seen.mapping_ns[0]..=seen.mapping_ns[1]).contains(&mapped_ns), "{name}: the reported time");
        assert!(seen.counted > 0 && seen.unobserved_ns > 0, "{name}: {} calls", seen.counted);
        arming.push(armed_ns - mapped_ns);
        errors.push(seen.stated_error_ns());
        let (all, lost) = seen.late_calls();
        (late, missed) = (late + all, missed + lost);
        rig.events.clear();
        // NVIDIA's libraries would fill a small disk.
        std::fs::remove_dir_all(copy.parent().unwrap()).unwrap();
    }
    let worst = errors.iter().map(|ns| ns.unsigned_abs()).max().unwrap_or(0);
    println!(
        "{name}: {rounds} rounds; from mapping to probes: {}; the kernel's time for a single probe of a file: {}; \
         stated within {:.2} ms; {missed} of {late} calls later than 10 ms were missed ({:.3} %)",
        distribution(&mut arming),
        distribution(&mut single),
        worst as f64 / MS as f64,
        100.0 * missed as f64 / late.max(1) as f64,
    );
    let is_complete = errors.iter().all(|ns| *ns >= 0);
    assert!(is_complete, "{name}: calls are missing that are later than the unobserved time: {errors:?} ns");
}

fn caller() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["calling_process", "--exact", "--nocapture", "--quiet"]);
    command
}

fn stub(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("warptap-stubs-{}-{name}", std::process::id()));
    simulator::install::install(&dir).unwrap().of(Library::Cudart).to_owned()
}

#[test]
fn fresh_copy_of_a_library_is_probed_when_it_is_mapped() {
    let library = stub("mapped");
    check("mapped", &library, "cudaStreamQuery", |copy| (caller(), copy.to_owned()));
    let _ = std::fs::remove_dir_all(library.parent().unwrap());
}

/// Starts processes until it is dropped.
struct Starts<'a>(&'a AtomicBool);

impl Drop for Starts<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Starts processes, which map a few libraries each, at a constant rate until `is_over`. Returns their number per second.
fn start_processes(is_over: &AtomicBool) -> f64 {
    let (began, mut started, mut running) = (Instant::now(), 0_u32, VecDeque::new());
    while !is_over.load(Ordering::Relaxed) {
        running.push_back(Command::new("true").spawn().unwrap());
        started += 1;
        if let Some(mut child) = running.pop_front_if(|_| started > START_AHEAD) {
            child.wait().unwrap();
        }
        std::thread::sleep((START_EVERY * started).saturating_sub(began.elapsed()));
    }
    let rate = f64::from(started) / began.elapsed().as_secs_f64();
    running.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
    rate
}

#[test]
fn library_is_probed_while_many_processes_start() {
    let library = stub("starts");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let rate = scope.spawn(|| start_processes(&is_over));
        let starts = Starts(&is_over);
        check("starts", &library, "cudaStreamQuery", |copy| (caller(), copy.to_owned()));
        drop(starts);
        println!("starts: {:.0} processes per second", rate.join().unwrap());
    });
    let _ = std::fs::remove_dir_all(library.parent().unwrap());
}

#[test]
fn library_in_a_mount_namespace_is_probed_when_it_is_mapped() {
    let library = stub("namespace");
    check("namespace", &library, "cudaStreamQuery", |copy| {
        let mut command = Command::new("unshare");
        let inside = "mount --bind \"$0\" /mnt && exec \"$@\"";
        command.args(["--mount", "sh", "-c", inside]).arg(copy.parent().unwrap());
        command.arg(std::env::current_exe().unwrap());
        command.args(["calling_process", "--exact", "--nocapture", "--quiet"]);
        (command, Path::new("/mnt").join(copy.file_name().unwrap()))
    });
    let _ = std::fs::remove_dir_all(library.parent().unwrap());
}

#[test]
fn libraries_of_nvidia_are_probed_when_they_are_mapped() {
    let files = [
        ("nvidia-cuda-runtime-cu12", "libcudart.so.12", "cudaStreamQuery"),
        ("nvidia-nccl-cu12", "libnccl.so.2", "ncclGetVersion"),
    ];
    for (package, file, function) in files {
        if let Some(library) = library(package, file) {
            check(package, &library, function, |copy| (caller(), copy.to_owned()));
        }
    }
}

/// Calls a function of the library by ctypes, as [`map_and_call`] does.
const PYTHON: &str = r#"
import ctypes, os, time
file, function, log, sleep_ms, call_ms = os.environ["WARPTAP_TEST_MAPPER"].splitlines()
time.sleep(int(sleep_ms) / 1000)
times = [time.monotonic_ns()]
call = getattr(ctypes.CDLL(file), function)
times.append(time.monotonic_ns())
version = ctypes.c_int()
while times[-1] < times[1] + int(call_ms) * 1_000_000:
    times.append(time.monotonic_ns())
    call(ctypes.byref(version), 0)
    time.sleep(20e-6)
open(log, "w").write("\n".join(map(str, times)))
"#;

#[test]
fn library_of_a_virtual_environment_is_probed_when_python_maps_it() {
    let venv = std::env::temp_dir().join(format!("warptap-venv-{}", std::process::id()));
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(&venv).status();
    if !made.is_ok_and(|status| status.success()) {
        return println!("skipped: python3 cannot make a virtual environment");
    }
    let library = stub("venv");
    check("venv", &library, "cudaStreamQuery", |copy| {
        let installed = venv.join("lib").join(format!("libcudart-{:x}.so.12", copy.as_os_str().len()));
        let _ = std::fs::remove_file(&installed);
        std::fs::copy(copy, &installed).unwrap();
        let mut command = Command::new(venv.join("bin/python3"));
        command.args(["-c", PYTHON]);
        (command, installed)
    });
    let _ = std::fs::remove_dir_all(library.parent().unwrap());
    let _ = std::fs::remove_dir_all(venv);
}
