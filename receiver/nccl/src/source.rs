//! Observations of what the CUDA and HIP probes already tell.
//!
//! The one idea: a step's record is a closer, with its event resolved by the kernel: nothing else of it is needed here.
//! What the records do not tell has to come beside them for waits to be complete:
//!
//! | observation | from |
//! |---|---|
//! | [`StreamAction::Sync`], [`StreamAction::SyncUntil`], [`StreamAction::DeviceSync`] | step records: here |
//! | [`StreamAction::Record`], [`StreamAction::WaitEvent`] | a record each of `cudaEventRecord`, `cudaStreamWaitEvent` and their twins, of processes that use NCCL: handle and stream. Without them a wait for the compute stream covers nothing of PyTorch's NCCL stream |
//! | [`StreamAction::BeginCapture`], [`StreamAction::EndCapture`] | a record each |
//! | queries | no records are needed: a query that is answered "done" closes the work of its stream, and its step record is a wait from the first "not yet" on |
//! | [`StreamAction::DestroyStream`], [`StreamAction::DestroyEvent`] | a record each |
//! | [`crate::observe::UnderWay`] | the kernel's map of threads, read about once a second |

use event::{ProcessId, StepRecord};
use probe_abi::Action;
use probe_abi::record::{StreamKey, flag};

use crate::observe::{StreamAction, StreamCall};

/// The closer that a step's record tells of; `None` where nobody waited.
pub fn closer(record: &StepRecord) -> Option<StreamCall> {
    let header = &record.header;
    let action = probe_abi::row(header.row)?.action;
    if header.flags & flag::UNFINISHED != 0 {
        return None;
    }
    let stream = StreamKey { pid: header.pid, tid: 0, stream: without_device(record) };
    Some(StreamCall {
        process: ProcessId::from(header),
        tid: header.tid,
        entry_ns: header.entry_ns,
        duration_ns: header.duration_ns,
        action: match action {
            Action::DeviceSync => StreamAction::DeviceSync,
            _ if record.recorded_ns > 0 => StreamAction::SyncUntil(stream, record.recorded_ns),
            _ => StreamAction::Sync(stream),
        },
    })
}

/// The stream; of a default stream of a further device without what stands for that device, since calls of NCCL do not
/// tell which they mean ([`StreamKey::default_of`]).
fn without_device(record: &StepRecord) -> u64 {
    let (thread, handle) = (record.stream >> 32, record.stream & 0xffff_ffff);
    let is_default = handle >> 12 == 1 && (thread == 0 || thread == u64::from(record.header.tid));
    if is_default { thread << 32 } else { record.stream }
}

#[cfg(test)]
mod tests {
    use probe_abi::PROBES;
    use probe_abi::record::Header;

    use super::*;

    #[track_caller]
    fn check(symbol: &str, recorded_ns: u64, flags: u32, expected: Option<StreamAction>) {
        let row = PROBES.iter().find(|p| p.symbol == symbol).expect("a probed function").id;
        let header =
            Header { row, flags, pid: 7, tid: 8, entry_ns: 100, duration_ns: 5, ..Header::default() };
        let record = StepRecord { header, stream: 0x77, recorded_ns, ..StepRecord::default() };
        assert_eq!(closer(&record).map(|c| c.action), expected, "{symbol}");
    }

    #[test]
    fn a_default_stream_is_the_same_whatever_device_it_is_of() {
        let of = |stream| {
            let header = Header { tid: 8, ..Header::default() };
            without_device(&StepRecord { header, stream, ..StepRecord::default() })
        };
        assert_eq!([0, 0x1003, 8 << 32 | 0x1003].map(of), [0, 0, 8 << 32]);
        assert_eq!([0x77, 0x7f00_0000_1003].map(of), [0x77, 0x7f00_0000_1003]);
    }

    #[test]
    fn a_step_s_closer_covers_what_its_record_says() {
        let stream = StreamKey { pid: 7, tid: 0, stream: 0x77 };
        check("cudaStreamSynchronize", 0, 0, Some(StreamAction::Sync(stream)));
        check("cudaMemcpy", 0, 0, Some(StreamAction::Sync(stream)));
        check("cudaEventSynchronize", 90, 0, Some(StreamAction::SyncUntil(stream, 90)));
        check("cuEventSynchronize", 90, 0, Some(StreamAction::SyncUntil(stream, 90)));
        check("cudaEventQuery", 90, flag::POLLED, Some(StreamAction::SyncUntil(stream, 90)));
        check("cudaStreamQuery", 0, flag::POLLED, Some(StreamAction::Sync(stream)));
        check("hipDeviceSynchronize", 0, 0, Some(StreamAction::DeviceSync));
        check("cudaStreamSynchronize", 0, flag::UNFINISHED, None);
    }
}
