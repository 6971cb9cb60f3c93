//! NVIDIA's own libcudart, 12 and 13, from the Python package index: the same rows on the real machine code.
//!
//! Without a driver every call fails, after its entry and before it accesses a device. A failed call is recorded with
//! its handle, bytes and stream, which are compared with those passed. Launches are compared by the stream and the
//! threads of their fold.

#![expect(unsafe_code, reason = "calls functions of a foreign library")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use event::Event;
use probe_abi::counters::SelfCounter;
use probe_abi::fold::Counter;
use probe_abi::{Action, ArgPos, Bytes, Grid, Library, Probe, attach_points, row};
use simulator::player::Player;

use crate::rig::{Rig, rig, settings};

/// Environment variables with the library to call, and with the path of the log of arguments.
pub const CALLER: &str = "WARPTAP_TEST_CALLER";
const ARGUMENTS: usize = 9;
const PAGE: usize = 4096;

type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u32;

/// Calls every function of the library that has a row; each argument is the address of its own page of zeroes, so that
/// every read succeeds.
pub fn call_everything(library: &str, log: &str) {
    let pages: Vec<u64> = (0..ARGUMENTS).map(|_| Vec::leak(vec![0u64; PAGE / 8]).as_ptr() as u64).collect();
    // SAFETY: the initialisers of NVIDIA's library have no preconditions.
    let loaded = unsafe { libloading::Library::new(library) }.unwrap();
    std::fs::write(log, pages.iter().map(u64::to_string).collect::<Vec<_>>().join("\n")).unwrap();
    println!("@player ready {}", std::process::id());
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    let mut calls = 0;
    for (symbol, _) in attach_points(Library::Cudart, false) {
        // SAFETY: the symbol is a C function of at most nine integer arguments; more are passed than it takes.
        let Ok(function) = (unsafe { loaded.get::<Function>(symbol) }) else { continue };
        let a = &pages;
        // SAFETY: without a driver the function fails before it uses what the pages hold.
        unsafe { function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]) };
        calls += 1;
    }
    println!("@player done {calls}");
    std::io::stdout().flush().unwrap();
    std::io::stdin().lock().read_to_end(&mut Vec::new()).unwrap();
}

/// Returns the library from a wheel, cached in the build directory; prints why and returns `None` without network.
pub fn library(package: &str, file: &str) -> Option<PathBuf> {
    let dir = std::env::current_exe().unwrap().parent()?.join("wheels").join(package);
    let find = || walk(&dir).into_iter().find(|p| p.file_name().is_some_and(|n| n == file));
    if let Some(found) = find() {
        return Some(found);
    }
    std::fs::create_dir_all(&dir).unwrap();
    let pip = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"];
    let downloaded = Command::new("python3").args(pip).arg(&dir).arg(package).output();
    if !downloaded.as_ref().is_ok_and(|o| o.status.success()) {
        println!("skipped: {package} cannot be downloaded with pip");
        return None;
    }
    let wheels = walk(&dir).into_iter().filter(|p| p.extension().is_some_and(|e| e == "whl"));
    for wheel in wheels {
        Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(&dir).status().unwrap();
    }
    find()
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path());
    entries.flat_map(|p| if p.is_dir() { walk(&p) } else { vec![p] }).collect()
}

fn caller(rig: &mut Rig, library: &Path) -> (Player, Vec<u64>) {
    let log = rig.dir.join("arguments");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["calling_process", "--exact", "--nocapture", "--quiet"]);
    command.env(CALLER, format!("{}\n{}", library.display(), log.display()));
    let player = Player::start(command).unwrap();
    rig.attach(&player);
    let text = std::fs::read_to_string(log).unwrap();
    (player, text.lines().map(|n| n.parse().unwrap()).collect())
}

/// Returns the argument at an argument position; 0 for none.
fn argument(pages: &[u64], slot: ArgPos) -> u64 {
    usize::from(slot.0).checked_sub(1).and_then(|at| pages.get(at)).copied().unwrap_or(0)
}

fn bytes(pages: &[u64], probe: &Probe) -> u64 {
    let elements = match probe.wiring.bytes {
        // The struct that the first argument points to is all zeroes.
        Bytes::None | Bytes::Volume(_) | Bytes::Area(_) => 0,
        Bytes::Arg(slot) => argument(pages, ArgPos(slot)),
        Bytes::Product(slot) => argument(pages, ArgPos(slot)).wrapping_mul(argument(pages, ArgPos(slot + 1))),
    };
    elements << probe.wiring.element_shift
}

fn stream(pages: &[u64], probe: &Probe) -> u64 {
    if probe.wiring.stream == ArgPos::IN_CONFIG { 0 } else { argument(pages, probe.wiring.stream) }
}

fn threads(pages: &[u64], probe: &Probe) -> u64 {
    let low = |n: usize| pages[n - 1] & 0xffff_ffff;
    let pair = |n: usize| low(n).wrapping_mul(pages[n - 1] >> 32);
    match probe.wiring.grid {
        Grid::Dim3 => pair(2).wrapping_mul(low(3)).wrapping_mul(pair(4)).wrapping_mul(low(5)),
        _ => 0,
    }
}

fn check(package: &str, file: &str) {
    let Some(library) = library(package, file) else { return };
    let Some(mut rig) = rig(package, &settings()) else { return };
    let (player, pages) = caller(&mut rig, &library);
    let calls = rig.play(player);
    assert!(calls >= 70, "{calls} functions of {file}");
    let account = rig.capture.account();
    assert_eq!(
        (account.hits, account.lost(), account[SelfCounter::UnmatchedReturn]),
        (calls, 0, 0),
        "{account:?}"
    );
    assert!(account.is_balanced(), "{account:?}");
    let mut failed = 0;
    for event in &rig.events {
        let Event::Call(call) = event else { continue };
        let probe = row(call.header.row).unwrap();
        failed += u64::from(call.result != 0);
        let seen = (call.handle, call.bytes, call.stream);
        let handle = argument(&pages, probe.wiring.handle);
        assert_eq!(seen, (handle, bytes(&pages, probe), stream(&pages, probe)), "{}", probe.symbol);
    }
    assert!(failed >= 60, "{failed} calls failed, as they must without a driver, and were reported");
    launches(&rig, &pages);
}

/// Asserts that launches that failed are folded under the stream that was passed.
fn launches(rig: &Rig, pages: &[u64]) {
    // Totals are cumulative: the last of a row counts.
    let mut totals = BTreeMap::new();
    for event in &rig.events {
        if let Event::Operation(total) = event {
            totals.insert(total.row, total.calls);
        }
    }
    let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
    for (id, calls) in totals {
        let probe = row(id).unwrap();
        if probe.action == Action::Launch {
            let all = expected.entry(stream(pages, probe)).or_default();
            *all = all.wrapping_add(threads(pages, probe).wrapping_mul(calls));
        }
    }
    let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
    for event in &rig.events {
        if let Event::Step(step) = event {
            let all = seen.entry(step.stream).or_default();
            *all = all.wrapping_add(step.work[Counter::Threads as usize]);
        }
    }
    for (stream, threads) in expected.into_iter().filter(|(stream, _)| *stream != 0) {
        assert_eq!(seen.get(&stream), Some(&threads), "threads on stream {stream:#x}");
    }
}

#[test]
fn libcudart_12_of_nvidia_hits_the_same_rows() {
    check("nvidia-cuda-runtime-cu12", "libcudart.so.12");
}

#[test]
fn libcudart_13_of_nvidia_hits_the_same_rows() {
    check("nvidia-cuda-runtime", "libcudart.so.13");
}
