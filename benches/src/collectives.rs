//! Ring records of a node whose ranks run collectives and wait for them, as the kernel programs would write them.

use event::{ClockOffsets, Event, ProcessId, ProcessInfo, StepRecord};
use probe_abi::fold::COUNTERS;
use probe_abi::record::{ArgsRecord, CountParts, Header, NOT_SEEN, RecordKind};
use zerocopy::IntoBytes;

use crate::records;

/// Number of ranks, each a process.
pub const RANKS: u32 = 8;
/// Collectives before each wait: the buckets of one backward pass.
const BUCKET: u64 = 8;
const COMM: u64 = 0x7f00_0000_5000;
const STREAM: u64 = 0x7f00_0000_7000;
/// Time between two collectives of a rank in ns: all ranks together make about 20,000 per second.
const PERIOD_NS: u64 = 400_000;

/// A node of ranks.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    collectives: u64,
}

impl Node {
    /// Returns a node whose ranks each run `collectives` collectives.
    pub fn new(collectives: u64) -> Node {
        Node { collectives }
    }

    /// Returns the events before the first collective.
    pub fn begin(&self) -> Vec<Event> {
        let mut events =
            vec![Event::Clock(ClockOffsets { at_ns: 1, to_unix_ns: 1 << 60, to_boottime_ns: 0 })];
        for rank in 0..RANKS {
            let info = ProcessInfo { process: process(rank), at_ns: 1, ..ProcessInfo::default() };
            events.push(Event::Process(Box::new(info)));
            let mut args = event::CallArgs {
                header: header("ncclCommInitRank", rank, 1_000, 1_000),
                ..Default::default()
            };
            args.arguments = [0x10, RANKS.into(), 0x20, rank.into(), 0, 0, 0, 0];
            (args.entry, args.exit) = (vec![7; 128], COMM.to_le_bytes().to_vec());
            events.push(Event::CallArgs(args));
        }
        events
    }

    /// Returns the events of a communicator of all ranks from its creation to its end, with a few collectives.
    pub fn communicator(&self, number: u64) -> Vec<Event> {
        let at_ns = 2_000_000_000 + number * 10_000_000;
        let comm = COMM + (1 + number % 64) * 0x1000;
        let id: Vec<u8> = (0..128).map(|at| (number >> (8 * (at % 8))) as u8).collect();
        let args = |symbol: &str, rank: u32, after_ns: u64| event::CallArgs {
            header: header(symbol, rank, at_ns + after_ns, 1_000),
            ..event::CallArgs::default()
        };
        let mut events = Vec::new();
        for rank in 0..RANKS {
            let mut init = args("ncclCommInitRank", rank, 0);
            init.arguments = [0x10, RANKS.into(), 0x20, rank.into(), 0, 0, 0, 0];
            (init.entry, init.exit) = (id.clone(), comm.to_le_bytes().to_vec());
            events.push(Event::CallArgs(init));
        }
        for n in 1..4 {
            for rank in 0..RANKS {
                let mut reduce = args("ncclAllReduce", rank, n * 1_000_000);
                reduce.arguments = [0x10, 0x20, 1 << 20, 7, 0, comm, STREAM, 0];
                events.push(Event::CallArgs(reduce));
            }
        }
        let (first_ns, end_ns) = (at_ns + 1_000_000, at_ns + 5_000_000);
        let wait = |rank| Event::Step(step(rank, number, first_ns, end_ns - 1_000_000, end_ns));
        events.extend((0..RANKS).map(wait));
        for rank in 0..RANKS {
            let mut destroy = args("ncclCommDestroy", rank, 6_000_000);
            destroy.arguments[0] = comm;
            events.push(Event::CallArgs(destroy));
        }
        events
    }

    /// Returns all ring records in the order of their returns. The last rank starts each first collective of a bucket
    /// `late_ns` after the others.
    pub fn ring(&self, late_ns: u64) -> Vec<Vec<u8>> {
        let mut all: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut at_ns = 1_000_000_000;
        for bucket in 0..self.collectives / BUCKET {
            let first_ns = at_ns;
            for n in 0..BUCKET {
                for rank in 0..RANKS {
                    let late = if rank == RANKS - 1 { late_ns } else { 0 };
                    let jitter = probe_abi::fold::mix(at_ns ^ u64::from(rank)) % 50_000;
                    let entry_ns = at_ns + late + jitter + n * PERIOD_NS;
                    all.push((entry_ns + 8_000, record_bytes(rank, entry_ns, 8_000, bucket * BUCKET + n)));
                }
            }
            let end_ns = first_ns + late_ns + BUCKET * PERIOD_NS + 500_000;
            let waits = (0..RANKS).map(|rank| {
                let entry_ns = first_ns + if rank == RANKS - 1 { late_ns } else { 0 } + BUCKET * PERIOD_NS;
                (end_ns, records::bytes(&step(rank, bucket, first_ns, entry_ns, end_ns)))
            });
            all.extend(waits);
            at_ns = end_ns + 100_000;
        }
        all.sort_by_key(|(exit_ns, _)| *exit_ns);
        all.into_iter().map(|(_, bytes)| bytes).collect()
    }
}

fn process(rank: u32) -> ProcessId {
    ProcessId { pid: 1_000 + rank, start_ns: 1 }
}

fn header(symbol: &str, rank: u32, entry_ns: u64, duration_ns: u64) -> Header {
    let row = probe_abi::PROBES.iter().find(|probe| probe.symbol == symbol).map_or(0, |probe| probe.id);
    let ProcessId { pid, start_ns } = process(rank);
    Header {
        kind: RecordKind::Args as u16,
        row,
        flags: 0,
        pid,
        tid: pid,
        process_start_ns: start_ns,
        entry_ns,
        duration_ns,
    }
}

/// Returns the bytes of a call record in the ring.
fn record_bytes(rank: u32, entry_ns: u64, duration_ns: u64, ordinal: u64) -> Vec<u8> {
    let record = ArgsRecord {
        header: header("ncclAllReduce", rank, entry_ns, duration_ns),
        device: -1,
        arguments: [0x10, 0x20, 1 << 20, 7, 0, COMM, STREAM, 0],
        ordinal,
        ..ArgsRecord::default()
    };
    record.as_bytes().to_vec()
}

fn step(rank: u32, sequence: u64, first_ns: u64, entry_ns: u64, exit_ns: u64) -> StepRecord {
    let mut header = header("cudaStreamSynchronize", rank, entry_ns, exit_ns - entry_ns);
    header.kind = RecordKind::Step as u16;
    let mut work = [0; COUNTERS];
    (work[0], work[1], work[3], work[11]) = (300, 300, 40_000_000, 0x1234_5678);
    StepRecord {
        header,
        stream: STREAM,
        sequence,
        first_ns,
        run_queue: CountParts { gap: NOT_SEEN, enqueue: 1_000, wait: 0 },
        enqueued_since_sync: 300,
        process_enqueued_since_sync: 300,
        first_tid: header.tid,
        device: 0,
        work,
        ..StepRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use event::decode::{Record, decode};

    use super::*;

    #[test]
    fn every_record_decodes() {
        let ring = Node::new(BUCKET).ring(0);
        let args = ring.iter().filter(|bytes| matches!(decode(bytes), Ok(Record::CallArgs(_)))).count();
        let steps = ring.iter().filter(|bytes| matches!(decode(bytes), Ok(Record::Step(_)))).count();
        assert_eq!((args, steps), (BUCKET as usize * RANKS as usize, RANKS as usize));
    }
}
