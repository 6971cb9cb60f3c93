//! Step records as the kernel would write them, for benchmarks that need no kernel.

use event::StepRecord;
use probe_abi::fold::COUNTERS;
use probe_abi::record::{CountParts, Header, NOT_SEEN, RecordKind};
use zerocopy::IntoBytes;

/// Returns step number `n` of a server that decodes in 20 ms, with some spread and occasional slow steps.
pub fn step(n: u64) -> StepRecord {
    let spread = probe_abi::fold::mix(n) % 2_000_000;
    let slow = if n % 1_000 == 999 { 60_000_000 } else { 0 };
    let (begin, wait) = (n * 30_000_000, 15_000_000 + spread + slow);
    let mut work = [0; COUNTERS];
    (work[0], work[1], work[2], work[3], work[4], work[8]) = (14, 4, 1, 130_000, 20_000, 9);
    work[12] = 0x1234_5678;
    StepRecord {
        header: Header {
            kind: RecordKind::Step as u16,
            row: 34,
            flags: 0,
            pid: 1_000,
            tid: 1_000,
            process_start_ns: 1,
            entry_ns: begin + 5_000_000,
            duration_ns: wait,
        },
        stream: 0x7f00_0000_1000,
        sequence: n,
        previous_exit_ns: begin.saturating_sub(1_000_000),
        first_ns: begin,
        recorded_ns: begin + 4_900_000,
        run_queue: CountParts { gap: NOT_SEEN, enqueue: 10_000, wait: 5_000 },
        enqueued_since_sync: 14,
        process_enqueued_since_sync: 14,
        first_tid: 1_000,
        device: 0,
        work,
        ..StepRecord::default()
    }
}

/// Returns the bytes of a step record in the ring.
pub fn bytes(step: &StepRecord) -> Vec<u8> {
    step.as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_bytes_decode_to_the_record() {
        let step = super::step(7);
        assert_eq!(event::decode::decode(&super::bytes(&step)), Ok(event::decode::Record::Step(step)));
    }
}
