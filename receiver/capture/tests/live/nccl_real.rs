//! NVIDIA's own libnccl from the Python package index: the same rows on the real machine code.
//!
//! Without a driver NCCL fails every call that needs a communicator, after its entry: recorded arguments are compared
//! with those passed, and values that it does write (its version, an id) with the memory at return.

use std::io::{BufRead as _, Read as _, Write as _};
use std::path::Path;
use std::process::Command;

use probe_abi::counters::SelfCounter;
use probe_abi::record::ARGUMENTS;
use probe_abi::{Library, PROBES};
use simulator::nccl::abi::NcclId;
use simulator::nccl_calls::{Nccl, NcclOutcome};
use simulator::oracle::{Line, Log, NcclLine};
use simulator::player::Player;

use crate::nccl::{compare, hex, made, recorded};
use crate::nvidia::library;
use crate::rig::{Rig, rig, settings};

/// Environment variable with the library to call and the path of the log of calls.
pub const CALLER: &str = "WARPTAP_TEST_NCCL_CALLER";

/// Memory that NCCL may read or write, at one address for the life of the process.
struct Scene {
    id: NcclId,
    handles: [u64; 2],
    number: i32,
    devices: [i32; 2],
}

impl Scene {
    /// Returns the arguments of each call: no communicator, since NCCL would dereference it; the others are distinct.
    fn calls(&mut self) -> Vec<(&'static str, Vec<u64>)> {
        let (id, out) = (&raw mut self.id as u64, self.handles.as_mut_ptr() as u64);
        let (number, devices) = (&raw mut self.number as u64, self.devices.as_ptr() as u64);
        let config = 0;
        vec![
            ("ncclGetVersion", vec![number]),
            ("ncclGetUniqueId", vec![id]),
            ("ncclGroupStart", vec![]),
            ("ncclGroupEnd", vec![]),
            ("ncclAllReduce", vec![0x11, 0x12, 0x13, 7, 2, 0, 0x17]),
            ("ncclReduceScatter", vec![0x21, 0x22, 0x23, 7, 2, 0, 0x27]),
            ("ncclAllGather", vec![0x31, 0x32, 0x33, 7, 0, 0x36]),
            ("ncclReduce", vec![0x41, 0x42, 0x43, 7, 2, 1, 0, 0x48]),
            ("ncclBroadcast", vec![0x51, 0x52, 0x53, 7, 1, 0, 0x57]),
            ("ncclBcast", vec![0x61, 0x62, 7, 1, 0, 0x66]),
            ("ncclSend", vec![0x71, 0x72, 7, 1, 0, 0x76]),
            ("ncclRecv", vec![0x81, 0x82, 7, 1, 0, 0x86]),
            ("ncclCommCount", vec![0, number]),
            ("ncclCommUserRank", vec![0, number]),
            ("ncclCommCuDevice", vec![0, number]),
            ("ncclCommSplit", vec![0, 3, 4, out, config]),
            ("ncclCommFinalize", vec![0]),
            ("ncclCommDestroy", vec![0]),
            ("ncclCommAbort", vec![0]),
            ("ncclCommInitRank", vec![out, 2, 0, 1]),
            ("ncclCommInitRankConfig", vec![out, 2, 0, 1, config]),
            ("ncclCommInitRankScalable", vec![out, 2, 1, 1, id, config]),
            ("ncclCommInitAll", vec![out, 2, devices]),
        ]
    }

    fn memory(&self, symbol: &str) -> (String, String) {
        let handle = || hex(&self.handles[0].to_le_bytes());
        let of_id = || hex(&self.id.0);
        match symbol {
            "ncclGetUniqueId" => (String::new(), of_id()),
            "ncclGetVersion" | "ncclCommCount" | "ncclCommUserRank" | "ncclCommCuDevice" => {
                (String::new(), hex(&self.number.to_le_bytes()))
            }
            "ncclCommSplit" => (String::new(), handle()),
            "ncclCommInitRank" | "ncclCommInitRankConfig" | "ncclCommInitRankScalable" => (of_id(), handle()),
            "ncclCommInitAll" => (
                hex(&self.devices.map(i32::to_le_bytes).concat()),
                hex(&self.handles.map(u64::to_le_bytes).concat()),
            ),
            _ => Default::default(),
        }
    }
}

#[expect(unsafe_code, reason = "calls functions of a foreign library")]
fn make(nccl: &Nccl, symbol: &str, words: &[u64], id: &NcclId) -> NcclOutcome {
    let mut all = [0; ARGUMENTS];
    all[..words.len()].copy_from_slice(words);
    // SAFETY: the words are the arguments that nccl.h declares; NCCL refuses each call that has no communicator.
    unsafe {
        match symbol {
            "ncclCommInitRank" | "ncclCommInitRankConfig" => {
                nccl.init(symbol, all[0], all[1] as i32, id, all[3] as i32, all[4])
            }
            _ => nccl.call(symbol, &all),
        }
    }
}

/// Calls every function of the library.
pub fn call_everything(path: &str, oracle: &str) {
    let nccl = Nccl::load(Path::new(path)).unwrap();
    println!("@player ready {}", std::process::id());
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    let mut scene = Box::new(Scene { id: NcclId([0; 128]), handles: [0; 2], number: 0, devices: [0, 1] });
    let mut lines = Vec::new();
    for (symbol, words) in scene.calls() {
        if nccl.address(symbol) == 0 {
            continue;
        }
        let id = scene.id;
        let made = make(&nccl, symbol, &words, &id);
        let (entry, exit) = scene.memory(symbol);
        lines.push(Line::Nccl(NcclLine {
            symbol: symbol.into(),
            row: PROBES.iter().find(|p| p.symbol == symbol).unwrap().id,
            pid: std::process::id(),
            tid: simulator::model::thread::tid(),
            arguments: words,
            entry,
            exit,
            entry_ns: made.entry_ns,
            exit_ns: made.exit_ns,
            result: made.result,
            ..NcclLine::default()
        }));
    }
    Log::open(Path::new(oracle), false).unwrap().write(&lines).unwrap();
    println!("@player done {}", lines.len());
    std::io::stdout().flush().unwrap();
    std::io::stdin().lock().read_to_end(&mut Vec::new()).unwrap();
}

fn caller(rig: &mut Rig, library: &Path) -> Player {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["calling_process", "--exact", "--nocapture", "--quiet"]);
    command.env(CALLER, format!("{}\n{}", library.display(), rig.oracle().display()));
    let player = Player::start(command).unwrap();
    rig.attach(&player);
    player
}

#[test]
fn libnccl_of_nvidia_hits_the_same_rows() {
    let Some(path) = library("nvidia-nccl-cu12", "libnccl.so.2") else { return };
    let Some(mut rig) = rig("libnccl", &settings()) else { return };
    let player = caller(&mut rig, &path);
    let (seen, _) = rig.capture.coverage(player.pid()).unwrap();
    let functions = PROBES.iter().filter(|p| p.library == Library::Nccl).count();
    assert!(seen.iter().any(|s| s.starts_with("libnccl.so.2: ")), "{functions} functions: {seen:?}");
    rig.play(player);
    let (recorded, made) = (recorded(&rig), made(&rig));
    assert!(made.len() >= 20, "{} functions were called", made.len());
    for call in &made {
        let of_call = |t: &&event::CallArgs| {
            t.header.row == call.row && t.header.entry_ns >= call.entry_ns && t.exit_ns() <= call.exit_ns
        };
        let mut of_call = recorded.iter().filter(of_call);
        compare(of_call.next().unwrap_or_else(|| panic!("{} is not recorded", call.symbol)), call);
        assert_eq!(of_call.next(), None, "{} is recorded once", call.symbol);
    }
    let succeeded = |symbol: &str| made.iter().any(|c| c.symbol == symbol && c.result == 0);
    assert!(succeeded("ncclGetVersion") && succeeded("ncclGetUniqueId"), "{made:#?}");
    let account = rig.capture.account();
    assert_eq!((account.lost(), account[SelfCounter::UnmatchedReturn]), (0, 0), "{account:?}");
    // Inside NCCL's ncclBcast is its ncclBroadcast.
    assert_eq!(account[SelfCounter::Suppressed], 1, "{account:?}");
    assert!(account.is_balanced(), "{account:?}");
}
