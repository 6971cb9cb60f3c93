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
//! | [`StreamAction::PolledEvent`], [`StreamAction::PolledStream`] | may be left out: a query that is answered "done" closes the work of its stream, and its step record is a wait from the first "not yet" on |
//! | [`StreamAction::DestroyStream`], [`StreamAction::DestroyEvent`] | a record each |
//! | [`crate::observe::UnderWay`] | the kernel's map of threads, read about once a second |

use event::{ProcessId, StepRecord};
use table::Action;
use table::record::{StreamKey, flag};

use crate::observe::{StreamAction, StreamCall};

/// The closer that a step's record tells of; `None` where nobody waited.
pub fn closer(record: &StepRecord) -> Option<StreamCall> {
    let header = &record.header;
    let action = table::row(header.row)?.action;
    if header.flags & flag::UNFINISHED != 0 {
        return None;
    }
    let stream = StreamKey { pid: header.pid, tid: 0, stream: record.stream };
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

#[cfg(test)]
mod tests {
    use table::PROBES;
    use table::record::Header;

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
