//! Conversion of records of the CUDA and HIP probes to observations.
//!
//! A step record is a sync call whose event the kernel has resolved. Complete waits need further observations:
//!
//! | observation | from |
//! |---|---|
//! | [`StreamAction::Sync`], [`StreamAction::SyncUntil`], [`StreamAction::DeviceSync`] | step records: here |
//! | [`StreamAction::Record`], [`StreamAction::WaitEvent`] | one record of each `cudaEventRecord`, `cudaStreamWaitEvent` and their variants, of processes that use NCCL: handle and stream. Without them a wait for the compute stream covers nothing of PyTorch's NCCL stream |
//! | [`StreamAction::BeginCapture`], [`StreamAction::EndCapture`] | one record of each call |
//! | queries | no records: a query that returns "done" completes the work of its stream, and its step record is a wait from the first "not ready" on |
//! | [`StreamAction::DestroyStream`], [`StreamAction::DestroyEvent`] | one record of each call |
//! | [`crate::observe::OngoingCall`] | the kernel's map of threads, polled about once a second |

use event::{ProcessId, StepRecord};
use probe_abi::Action;
use probe_abi::record::{StreamKey, flag};

use crate::observe::{StreamAction, StreamCall};

/// Returns the sync call of a step record; `None` if no thread waited.
pub fn sync_call(record: &StepRecord) -> Option<StreamCall> {
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

/// Returns the stream without the device bits of a default stream, since NCCL calls do not contain the device
/// ([`StreamKey::default_of`]).
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
        assert_eq!(sync_call(&record).map(|c| c.action), expected, "{symbol}");
    }

    #[test]
    fn default_stream_is_equal_for_all_devices() {
        let of = |stream| {
            let header = Header { tid: 8, ..Header::default() };
            without_device(&StepRecord { header, stream, ..StepRecord::default() })
        };
        assert_eq!([0, 0x1003, 8 << 32 | 0x1003].map(of), [0, 0, 8 << 32]);
        assert_eq!([0x77, 0x7f00_0000_1003].map(of), [0x77, 0x7f00_0000_1003]);
    }

    #[test]
    fn sync_call_of_a_step_covers_what_its_record_contains() {
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
