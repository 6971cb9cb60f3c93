//! Mappings of library files as code, as the kernel reports them when they are made.
//!
//! Each CPU has a perf event that counts nothing (`PERF_COUNT_SW_DUMMY`) and records a `PERF_RECORD_MMAP2` for every
//! mapping of a file as code by any process (perf_event_open(2)), which needs CAP_PERFMON. A record is written before
//! mmap(2) returns, so it precedes the first call of the library.

#![expect(unsafe_code, reason = "the file descriptor of a sampler is available as a number only")]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::Duration;

use perf_event::data::{Mmap2, Record as Data};
use perf_event::events::Software;
use perf_event::{Builder, Clock, Record, SampleFlag, Sampler};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::maps::FileKey;
use crate::pace::Pace;
use crate::{clock, maps, proc};

/// Bytes of the records of one CPU: about 300 mappings. When full, further ones are lost, which the kernel reports.
const BUFFER_BYTES: usize = 32 << 10;
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// A process that has mapped a file with the name of a library as code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mapped {
    /// Id of the process.
    pub pid: u32,
    /// When it made the mapping, CLOCK_MONOTONIC ns.
    pub at_ns: u64,
    /// The file.
    pub file: FileKey,
}

/// What was reported since the last read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReportedMappings {
    /// Mappings of libraries; those of one CPU are in the order in which they were made.
    pub mapped: Vec<Mapped>,
    /// Number of records that were lost, of any file.
    pub lost: u64,
}

/// The mappings that the kernel reports.
pub struct MappingEvents {
    cpus: Vec<usize>,
    samplers: Vec<Sampler>,
    pace: Pace,
}

impl MappingEvents {
    /// Follows the mappings of all processes on every CPU that is online.
    pub fn open() -> io::Result<MappingEvents> {
        let cpus = online();
        let samplers = cpus.iter().map(|cpu| sampler(*cpu)).collect::<io::Result<_>>()?;
        Ok(MappingEvents { cpus, samplers, pace: Pace::default() })
    }

    /// Returns true if other CPUs are online than those that are followed.
    pub fn is_outdated(&self) -> bool {
        online() != self.cpus
    }

    /// Reads what was reported since the last read.
    pub fn read(&mut self) -> ReportedMappings {
        let mut batch = ReportedMappings::default();
        for sampler in &mut self.samplers {
            while let Some(record) = sampler.next_record() {
                batch.add(&record);
            }
        }
        batch
    }

    /// Waits until a file is mapped as code or the time is over. Does not return at once for each of very many mappings.
    pub fn wait(&mut self, at_most: Duration) {
        let pause = self.pace.pause(clock::now_ns()).min(at_most);
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        let readable = |sampler: &Sampler| {
            // SAFETY: the sampler owns the descriptor and lives longer than the borrow, which ends in this function.
            let fd = unsafe { BorrowedFd::borrow_raw(sampler.as_raw_fd()) };
            PollFd::from_borrowed_fd(fd, PollFlags::IN)
        };
        let mut all: Vec<PollFd<'_>> = self.samplers.iter().map(readable).collect();
        // An interrupted wait is a short one.
        if poll(&mut all, Timespec::try_from(at_most - pause).ok().as_ref()).is_ok_and(|ready| ready > 0) {
            self.pace.woken();
        }
    }
}

impl ReportedMappings {
    fn add(&mut self, record: &Record<'_>) {
        match record.parse_record() {
            Ok(Data::Mmap2(mapping)) if maps::library_named(maps::file_name(&mapping.filename)).is_some() => {
                let at_ns = time_ns(record).unwrap_or_default();
                self.mapped.push(Mapped { pid: mapping.pid, at_ns, file: file(&mapping) });
            }
            Ok(Data::Lost(lost)) => self.lost = self.lost.saturating_add(lost.lost),
            Ok(_) => {}
            // A record of unknown form may have been a mapping.
            Err(_) => self.lost = self.lost.saturating_add(1),
        }
    }
}

fn file(mapping: &Mmap2<'_>) -> FileKey {
    let device = (mapping.maj().unwrap_or_default(), mapping.min().unwrap_or_default());
    FileKey { device, inode: mapping.ino().unwrap_or_default() }
}

/// Returns the last field of a record, which is its time.
fn time_ns(record: &Record<'_>) -> Option<u64> {
    record.to_contiguous().last_chunk().copied().map(u64::from_ne_bytes)
}

fn sampler(cpu: usize) -> io::Result<Sampler> {
    let mut builder = Builder::new(Software::DUMMY);
    builder.any_pid().one_cpu(cpu).mmap(true).mmap2(true).sample_id_all(true).sample(SampleFlag::TIME);
    builder.clockid(Clock::MONOTONIC).exclude_kernel(true).wakeup_watermark(1).enabled(true);
    builder.build()?.sampled(BUFFER_BYTES)
}

fn online() -> Vec<usize> {
    parse_cpus(&proc::read_text(ONLINE).unwrap_or_default())
}

/// Returns the CPUs of a list such as `0-3,8`.
fn parse_cpus(list: &str) -> Vec<usize> {
    let range = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(parse_cpus("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(parse_cpus("0"), [0]);
        assert_eq!(parse_cpus(""), [] as [usize; 0]);
    }
}
