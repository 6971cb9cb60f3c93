//! Calls every function of libnccl once, each argument with a value of its own, so that a probe row with a wrong argument
//! position reads a wrong value.

use probe_abi::record::ARGUMENTS;
use probe_abi::{Library, PROBES, Probe};

use crate::model::thread;
use crate::nccl::abi::NcclId;
use crate::nccl::prototypes::{NcclRole, prototype};
use crate::nccl_calls::{Nccl, NcclOutcome};
use crate::oracle::{Line, Log, NcclLine};

/// Number of items of lists.
const ITEMS: usize = 3;
use NcclRole::{Count, Id, IdPointer, Int, Ints, OutHandle, OutHandles, OutId, OutInt, Word};

const LIST: [i32; ITEMS] = [5, -9, 2];

/// The memory that a call's pointers refer to; each call has its own.
struct Scene {
    id: NcclId,
    list: [i32; ITEMS],
    handles: [u64; ITEMS],
    written_id: NcclId,
    number: i32,
}

impl Scene {
    fn new(row: u16) -> Scene {
        let byte = |at: usize| (at * 3 + usize::from(row)) as u8;
        Scene {
            id: NcclId(std::array::from_fn(byte)),
            list: LIST,
            handles: [0; ITEMS],
            written_id: NcclId([0; 128]),
            number: 0,
        }
    }

    fn word(&mut self, role: NcclRole, row: u16, at: usize) -> u64 {
        let own = u64::from(row) << 8 | (at as u64 + 1);
        match role {
            Word => 0x5e00_0000_0000 | own << 4,
            Int => 0xdead_0000_0000_0000 | own,
            Count => 0xbeef_0000_0000_0000 | ITEMS as u64,
            OutHandle | OutHandles => self.handles.as_mut_ptr() as u64,
            OutInt => &raw mut self.number as u64,
            OutId => &raw mut self.written_id as u64,
            IdPointer => &raw const self.id as u64,
            Ints => self.list.as_ptr() as u64,
            Id => 0,
        }
    }

    /// Returns the memory that the call read and the memory that it wrote, as hexadecimal digits.
    fn memory(&self, roles: &[NcclRole]) -> (String, String) {
        let (mut entry, mut exit) = (String::new(), String::new());
        for role in roles {
            match role {
                Id | IdPointer => entry = hex(&self.id.0),
                Ints => entry = hex(&self.list.map(i32::to_le_bytes).concat()),
                OutHandle => exit = hex(&self.handles[0].to_le_bytes()),
                OutHandles => exit = hex(&self.handles.map(u64::to_le_bytes).concat()),
                OutInt => exit = hex(&self.number.to_le_bytes()),
                OutId => exit = hex(&self.written_id.0),
                Word | Int | Count => {}
            }
        }
        (entry, exit)
    }
}

/// Returns bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Calls every function that the library exports once; returns the number of calls.
pub(super) fn run(nccl: &Nccl, log: &Log) -> std::io::Result<u64> {
    nccl.set_lenient(true);
    let rows = PROBES.iter().filter(|p| p.library == Library::Nccl && nccl.address(p.symbol) != 0);
    let lines: Vec<Line> = rows.filter_map(|probe| play(nccl, probe)).map(Line::Nccl).collect();
    nccl.set_lenient(false);
    log.write(&lines)?;
    Ok(lines.len() as u64)
}

fn play(nccl: &Nccl, probe: &Probe) -> Option<NcclLine> {
    let roles = prototype(probe.symbol)?;
    let mut scene = Scene::new(probe.id);
    let mut words = [0; ARGUMENTS];
    for (at, role) in roles.iter().enumerate() {
        words[at] = scene.word(*role, probe.id, at);
    }
    let made = make(nccl, probe.symbol, roles, &words, &scene.id);
    let (entry, exit) = scene.memory(roles);
    Some(NcclLine {
        symbol: probe.symbol.into(),
        row: probe.id,
        pid: std::process::id(),
        tid: thread::tid(),
        arguments: words[..roles.len()].to_vec(),
        entry,
        exit,
        entry_ns: made.entry_ns,
        exit_ns: made.exit_ns,
        result: made.result,
        ..NcclLine::default()
    })
}

#[allow(unsafe_code, reason = "calls a C library")]
fn make(nccl: &Nccl, symbol: &str, roles: &[NcclRole], words: &[u64; ARGUMENTS], id: &NcclId) -> NcclOutcome {
    // SAFETY: the words follow the function's prototype; pointers among them point into the scene, which outlives the
    // call, and a lenient stub follows no other.
    unsafe {
        match roles.contains(&Id) {
            true => nccl.init(symbol, words[0], words[1] as i32, id, words[3] as i32, words[4]),
            false => nccl.call(symbol, words),
        }
    }
}
