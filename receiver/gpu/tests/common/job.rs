//! A job of ranks, each in its own process, as events of probes: calls of NCCL, waits, and failures.

use event::{CallArgs, CallRecord, ClockOffsets, Event, ProcessId, ProcessInfo, StepRecord};
use probe_abi::record::{CountParts, Header};

use super::{MS, SECOND, UNIX, US, row};

/// The bytes of an `ncclUniqueId`.
pub type UniqueId = [u8; 128];

/// The stream of a rank's collectives, and the thread's own.
pub const STREAM: u64 = 0x7700;

/// One rank of one communicator.
#[derive(Clone, Copy, Debug)]
pub struct Rank {
    pub process: ProcessId,
    pub number: u32,
    pub comm: u64,
    pub sequence: u64,
}

impl Rank {
    pub fn new(pid: u32, number: u32) -> Rank {
        let process = ProcessId { pid, start_ns: u64::from(pid) * 1_000 };
        Rank { process, number, comm: 0x5000_0000, sequence: 0 }
    }

    /// Returns this process as a rank of another communicator.
    pub fn of(self, comm: u64) -> Rank {
        Rank { comm, ..self }
    }

    pub fn info(&self) -> ProcessInfo {
        ProcessInfo {
            process: self.process,
            at_ns: SECOND,
            executable: "python3.12".to_owned(),
            command: ["python3", "train.py"].map(str::to_owned).to_vec(),
            observed: vec!["libnccl.so.2".to_owned()],
            ..ProcessInfo::default()
        }
    }

    fn header(&self, symbol: &str, entry_ns: u64, duration_ns: u64) -> Header {
        Header {
            row: row(symbol),
            pid: self.process.pid,
            tid: self.process.pid,
            process_start_ns: self.process.start_ns,
            entry_ns,
            duration_ns,
            ..Header::default()
        }
    }

    /// Returns the event of an NCCL call.
    pub fn call_args(
        &self,
        symbol: &str,
        entry_ns: u64,
        duration_ns: u64,
        change: impl FnOnce(&mut CallArgs),
    ) -> Event {
        let header = self.header(symbol, entry_ns, duration_ns);
        let mut args = CallArgs { header, device: -1, ..CallArgs::default() };
        change(&mut args);
        Event::CallArgs(args)
    }

    /// Creates the communicator.
    pub fn init(&self, entry_ns: u64, duration_ns: u64, nranks: u32, id: &UniqueId) -> Event {
        self.call_args("ncclCommInitRank", entry_ns, duration_ns, |t| {
            t.device = (self.number % 8) as i32;
            t.arguments = [0x7ffd_0000, nranks.into(), 0x7ffd_1000, self.number.into(), 0, 0, 0, 0];
            (t.entry, t.exit) = (id.to_vec(), self.comm.to_le_bytes().to_vec());
        })
    }

    /// Returns a call of a function whose only argument is the communicator.
    pub fn of_comm(&self, symbol: &str, entry_ns: u64) -> Event {
        self.call_args(symbol, entry_ns, US, |t| t.arguments[0] = self.comm)
    }

    /// Returns an all-reduce of floats.
    pub fn all_reduce(&self, entry_ns: u64, duration_ns: u64) -> Event {
        self.call_args("ncclAllReduce", entry_ns, duration_ns, |t| {
            t.arguments = [0x10, 0x20, 1_024, 7, 0, self.comm, STREAM, 0];
        })
    }

    pub fn all_gather(&self, entry_ns: u64, duration_ns: u64) -> Event {
        self.call_args("ncclAllGather", entry_ns, duration_ns, |t| {
            t.arguments = [0x10, 0x20, 512, 9, self.comm, STREAM, 0, 0];
        })
    }

    pub fn send(&self, entry_ns: u64, to: u32) -> Event {
        self.call_args("ncclSend", entry_ns, 10 * US, |t| {
            t.arguments = [0x10, 64, 1, to.into(), self.comm, STREAM, 0, 0];
        })
    }

    pub fn recv(&self, entry_ns: u64, from: u32) -> Event {
        self.call_args("ncclRecv", entry_ns, 10 * US, |t| {
            t.arguments = [0x10, 64, 1, from.into(), self.comm, STREAM, 0, 0];
        })
    }

    /// Returns a wait for the stream: a step whose first work was enqueued at `first_ns`.
    pub fn sync(&mut self, first_ns: u64, entry_ns: u64, exit_ns: u64) -> Event {
        let mut step = StepRecord {
            header: self.header("cudaStreamSynchronize", entry_ns, exit_ns - entry_ns),
            stream: STREAM,
            sequence: self.sequence,
            first_ns,
            first_tid: self.process.pid,
            run_queue: CountParts { gap: 0, enqueue: 10 * US, wait: 0 },
            enqueued_since_sync: 20,
            process_enqueued_since_sync: 20,
            ..StepRecord::default()
        };
        (step.work[0], step.work[1], step.work[3], step.work[11]) = (20, 20, 400_000, 7);
        self.sequence += 1;
        Event::Step(step)
    }

    /// Returns a call on the stream, with a handle if the function has one.
    pub fn call(&self, symbol: &str, entry_ns: u64, handle: u64) -> Event {
        let header = self.header(symbol, entry_ns, US);
        Event::Call(CallRecord { header, handle, stream: STREAM, ..CallRecord::default() })
    }
}

/// Ranks that wait for each collective before the next.
#[derive(Clone, Debug)]
pub struct Job {
    pub ranks: Vec<Rank>,
    pub id: UniqueId,
    pub now_ns: u64,
    pub events: Vec<Event>,
}

impl Job {
    /// Returns a job of `count` ranks that have created their communicator, in processes numbered from `pid`.
    pub fn new(count: u32, pid: u32) -> Job {
        let id = std::array::from_fn(|at| (pid as u8).wrapping_add(at as u8));
        let ranks: Vec<Rank> = (0..count).map(|number| Rank::new(pid + number, number)).collect();
        let init = ranks.iter().map(|r| r.init(2 * SECOND, 10 * MS, count, &id)).collect();
        Job { ranks, id, now_ns: 3 * SECOND, events: init }
    }

    /// Runs one collective and the wait for it, in which rank `r` is `late_ns(r)` late; a rank with `None` is
    /// missing. Streams are known from the waits.
    pub fn round(&mut self, late_ns: impl Fn(u32) -> Option<u64>) {
        let (base_ns, mut last_ns, mut is_whole) = (self.now_ns, self.now_ns, true);
        let jitter = |number: u32| probe_abi::fold::mix(base_ns ^ u64::from(number)) % (200 * US);
        let arrivals: Vec<Option<u64>> = (self.ranks.iter())
            .map(|r| late_ns(r.number).map(|ns| base_ns + 5 * MS + ns + jitter(r.number)))
            .collect();
        for (rank, at_ns) in self.ranks.iter().zip(&arrivals) {
            is_whole &= at_ns.is_some();
            let Some(at_ns) = *at_ns else { continue };
            last_ns = last_ns.max(at_ns);
            self.events.push(rank.all_reduce(at_ns, 20 * US));
        }
        for (rank, at_ns) in self.ranks.iter_mut().zip(arrivals).filter(|_| is_whole) {
            let Some(at_ns) = at_ns else { continue };
            let exit_ns = last_ns + 2 * MS + jitter(rank.number) / 10;
            self.events.push(rank.sync(base_ns, at_ns + 30 * US, exit_ns));
        }
        self.now_ns = last_ns + 5 * MS;
    }

    pub fn rounds(&mut self, count: u32, late_ns: impl Fn(u32) -> Option<u64>) {
        (0..count).for_each(|_| self.round(&late_ns));
    }
}

/// Returns the events of jobs as a capture records them: sorted by time, with ticks.
pub fn events_until(infos: Vec<ProcessInfo>, mut events: Vec<Event>, until_ns: u64) -> Vec<Event> {
    events.extend((SECOND..until_ns).step_by(100 * MS as usize).map(|at_ns| Event::Tick { at_ns }));
    events.sort_by_key(Event::at_ns);
    let clock = ClockOffsets { at_ns: SECOND, to_unix_ns: UNIX as i64, to_boottime_ns: 0 };
    let first = [Event::Clock(clock)].into_iter();
    first.chain(infos.into_iter().map(|info| Event::Process(Box::new(info)))).chain(events).collect()
}

/// Returns the events of one job.
pub fn job_events(job: &Job) -> Vec<Event> {
    let infos = job.ranks.iter().map(Rank::info).collect();
    events_until(infos, job.events.clone(), job.now_ns + SECOND)
}
