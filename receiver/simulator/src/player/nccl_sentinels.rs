//! Every function of libnccl once, no two arguments alike, in the words of nccl.h: what each argument *is* stands
//! here, so that a row that looks in the wrong place finds something else.

use probe_abi::record::ARGUMENTS;
use probe_abi::{Library, PROBES, Probe};

use crate::model::thread;
use crate::nccl::abi::UniqueId;
use crate::nccl_calls::{Made, Nccl};
use crate::oracle::{Line, Log, NcclLine};

/// What an argument is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Role {
    /// Buffer, count, handle, stream: a word of its own.
    Word,
    /// An `int`: what the register holds above it means nothing.
    Int,
    /// How many items the lists have.
    Count,
    /// Where a handle is written.
    OutHandle,
    /// Where as many handles are written.
    OutHandles,
    /// Where a number is written.
    OutInt,
    /// Where an id is written.
    OutId,
    /// An id by value.
    Id,
    /// A pointer to an id.
    IdPointer,
    /// A pointer to `int`s.
    Ints,
}

use Role::{Count, Id, IdPointer, Int, Ints, OutHandle, OutHandles, OutId, OutInt, Word};

/// Items of lists.
const ITEMS: usize = 3;
const LIST: [i32; ITEMS] = [5, -9, 2];

/// nccl.h 2.32 and rccl.h, sorted by name; `Config` forms of collectives have one word more.
const PROTOTYPES: &[(&str, &[Role])] = &[
    ("ncclAllGather", &[Word, Word, Word, Int, Word, Word]),
    ("ncclAllReduce", &[Word, Word, Word, Int, Int, Word, Word]),
    ("ncclAllToAll", &[Word, Word, Word, Int, Word, Word]),
    ("ncclAlltoAll", &[Word, Word, Word, Int, Word, Word]),
    ("ncclBcast", &[Word, Word, Int, Int, Word, Word]),
    ("ncclBroadcast", &[Word, Word, Word, Int, Int, Word, Word]),
    ("ncclCommAbort", &[Word]),
    ("ncclCommCount", &[Word, OutInt]),
    ("ncclCommCuDevice", &[Word, OutInt]),
    ("ncclCommDestroy", &[Word]),
    ("ncclCommFinalize", &[Word]),
    ("ncclCommGrow", &[Word, Int, IdPointer, Int, OutHandle, Word]),
    ("ncclCommInitAll", &[OutHandles, Count, Ints]),
    ("ncclCommInitRank", &[OutHandle, Int, Id, Int]),
    ("ncclCommInitRankConfig", &[OutHandle, Int, Id, Int, Word]),
    ("ncclCommInitRankScalable", &[OutHandle, Int, Int, Int, IdPointer, Word]),
    ("ncclCommShrink", &[Word, Ints, Count, OutHandle, Word, Int]),
    ("ncclCommSplit", &[Word, Int, Int, OutHandle, Word]),
    ("ncclCommUserRank", &[Word, OutInt]),
    ("ncclGather", &[Word, Word, Word, Int, Int, Word, Word]),
    ("ncclGetUniqueId", &[OutId]),
    ("ncclGetVersion", &[OutInt]),
    ("ncclGroupEnd", &[]),
    ("ncclGroupStart", &[]),
    ("ncclRecv", &[Word, Word, Int, Int, Word, Word]),
    ("ncclReduce", &[Word, Word, Word, Int, Int, Int, Word, Word]),
    ("ncclReduceScatter", &[Word, Word, Word, Int, Int, Word, Word]),
    ("ncclScatter", &[Word, Word, Word, Int, Int, Word, Word]),
    ("ncclSend", &[Word, Word, Int, Int, Word, Word]),
];

fn prototype(symbol: &str) -> Option<&'static [Role]> {
    let find = |symbol: &str| PROTOTYPES.binary_search_by_key(&symbol, |(name, _)| name).ok();
    let at = find(symbol).or_else(|| find(symbol.strip_suffix("Config")?))?;
    Some(PROTOTYPES[at].1)
}

/// What pointers point to: the call's own, so that no two calls share any of it.
struct Scene {
    id: UniqueId,
    list: [i32; ITEMS],
    handles: [u64; ITEMS],
    written_id: UniqueId,
    number: i32,
}

impl Scene {
    fn new(row: u16) -> Scene {
        let byte = |at: usize| (at * 3 + usize::from(row)) as u8;
        Scene {
            id: UniqueId(std::array::from_fn(byte)),
            list: LIST,
            handles: [0; ITEMS],
            written_id: UniqueId([0; 128]),
            number: 0,
        }
    }

    fn word(&mut self, role: Role, row: u16, at: usize) -> u64 {
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

    /// What the call reads behind a pointer, and what it wrote behind another.
    fn memory(&self, roles: &[Role]) -> (String, String) {
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

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Calls everything that the library has once; gives the number of calls.
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
fn make(nccl: &Nccl, symbol: &str, roles: &[Role], words: &[u64; ARGUMENTS], id: &UniqueId) -> Made {
    // SAFETY: the words are laid out by the function's prototype; pointers among them point into the scene, which
    // outlives the call, and the lenient stub follows no other.
    unsafe {
        match roles.contains(&Id) {
            true => nccl.init(symbol, words[0], words[1] as i32, id, words[3] as i32, words[4]),
            false => nccl.call(symbol, words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_prototype_and_prototypes_are_sorted() {
        assert!(PROTOTYPES.is_sorted_by(|a, b| a.0 < b.0));
        for probe in PROBES.iter().filter(|p| p.library == Library::Nccl) {
            let roles =
                prototype(probe.symbol).unwrap_or_else(|| panic!("{}: add its prototype", probe.symbol));
            let told = probe.wiring.args;
            assert_eq!(usize::from(told.arguments), roles.len(), "{}", probe.symbol);
            assert_eq!(told.by_value, roles.contains(&Id), "{}", probe.symbol);
        }
    }
}
