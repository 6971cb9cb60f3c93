//! The interface of a GPU driver, and the values that it returns.
//!
//! Every query has a result at every poll; "not supported", "lost" and "failed" are results, too, so that no fault of a
//! driver ends a poll. Each vendor's crate implements [`Driver`] and [`Session`]; [`crate::Monitor`] interprets values.

use std::time::Duration;

use event::{ProcessId, ProcessInfo};
use opentelemetry::logs::Severity;
use semconv::value::GpuHardwareThrottleReason as Reason;

use crate::queries::{DriverQuery, QUERY_COUNT};
use crate::throttle::Reasons;

/// Creates the driver of a vendor: that of the library at a path, or of the one that the loader finds.
pub type DriverFactory = fn(path: Option<&str>) -> Box<dyn Driver>;

/// A vendor of GPUs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Vendor {
    /// The value of `hw.vendor`.
    pub name: &'static str,
    /// Component type of the receiver, which also names its thread.
    pub receiver: &'static str,
    /// Name of the instrumentation scope.
    pub scope: &'static str,
    /// Throttle reasons that the driver reports.
    pub reasons: &'static [Reason],
}

/// The reason why a query has no value.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// The query does not exist for this driver, or was not part of this poll.
    #[error("not queried")]
    NotQueried,
    /// The device or its driver does not support the query.
    #[error("not supported")]
    Unsupported,
    /// The device is lost; holds the value of `error.type`.
    #[error("{0}")]
    Lost(&'static str),
    /// The query failed this time; holds the value of `error.type`.
    #[error("{0}")]
    Failed(&'static str),
}

impl Fault {
    /// Returns the value of `error.type`.
    pub fn name(self) -> &'static str {
        match self {
            Fault::NotQueried => "not_queried",
            Fault::Unsupported => "not_supported",
            Fault::Lost(name) | Fault::Failed(name) => name,
        }
    }
}

/// The identity of a device. Unknown members are empty.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Identity {
    /// The vendor's unique id, such as NVIDIA's `GPU-<uuid>` or `MIG-<uuid>`.
    pub id: String,
    /// Name on its machine, such as `GPU 0`.
    pub name: String,
    /// Model name.
    pub model: String,
    /// Serial number of the board.
    pub serial: String,
    /// Firmware version.
    pub firmware: String,
    /// Driver version.
    pub driver: String,
    /// PCI address.
    pub pci: String,
    /// Id of the device that this one is a partition of.
    pub parent: String,
}

/// A process that uses a device.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Process {
    /// Its description; only the pid if it cannot be read.
    pub info: ProcessInfo,
    /// Bytes of device memory in use, if the driver reports them.
    pub bytes: Option<u64>,
}

impl Process {
    /// Returns a process with its pid alone.
    pub fn numbered(pid: u32) -> Process {
        let process = ProcessId { pid, start_ns: 0 };
        Process { info: ProcessInfo { process, ..ProcessInfo::default() }, bytes: None }
    }

    /// Returns a process with its description, read from `/proc`.
    pub fn described(pid: u32) -> Process {
        match process_info::identify(pid) {
            Some(process) => Process { info: process_info::describe(process, 0), bytes: None },
            None => Process::numbered(pid),
        }
    }

    /// Returns its pid.
    pub fn pid(&self) -> u32 {
        self.info.process.pid
    }
}

/// The values of one device at one poll.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Identity of the device.
    pub identity: Identity,
    /// The result of each query, in the order of [`DriverQuery::ALL`].
    pub values: [Result<u64, Fault>; QUERY_COUNT],
    /// Speed of each fan in percent of its maximum.
    pub fans: Vec<u64>,
    /// Processes that compute on the device.
    pub processes: Vec<Process>,
}

impl Reading {
    /// Returns a reading without any query.
    pub fn blank(identity: Identity) -> Reading {
        Reading::silent(identity, Fault::NotQueried)
    }

    /// Returns a reading whose queries all failed with `why`.
    pub fn silent(identity: Identity, why: Fault) -> Reading {
        Reading { identity, values: [Err(why); QUERY_COUNT], fans: Vec::new(), processes: Vec::new() }
    }

    /// Sets the result of a query.
    pub fn set(&mut self, query: DriverQuery, value: Result<u64, Fault>) {
        self.values[query as usize] = value;
    }

    /// Returns the active throttle reasons, if the device reports them.
    pub fn reasons(&self) -> Option<Reasons> {
        self.value(DriverQuery::Throttle).ok().map(Reasons::from_bits)
    }

    /// Returns the result of a query.
    pub fn value(&self, query: DriverQuery) -> Result<u64, Fault> {
        self.values[query as usize]
    }

    /// Returns the `error.type` of a lost device.
    pub fn lost(&self) -> Option<&'static str> {
        self.values.iter().find_map(|value| match value {
            Err(Fault::Lost(why)) => Some(*why),
            _ => None,
        })
    }
}

/// An event that a device reported by itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Incident {
    /// Id of the device.
    pub device: String,
    /// Event name in the registry.
    pub event: &'static str,
    /// Severity of the log record.
    pub severity: Severity,
    /// Text that follows the device's name in the log record.
    pub text: String,
    /// Attribute, and its value, that distinguishes incidents of one event.
    pub which: (&'static str, String),
    /// The `error.type` under which the incident is counted, if it is an error.
    pub error: Option<&'static str>,
}

/// A driver that may be absent.
pub trait Driver: Send {
    /// Opens the driver, runs `work` with a session, and closes the driver.
    ///
    /// # Errors
    /// The driver is absent or cannot be opened.
    fn open(&mut self, work: &mut dyn FnMut(&mut dyn Session)) -> Result<(), Fault>;
}

/// An open driver.
pub trait Session {
    /// Runs every query on every device.
    ///
    /// # Errors
    /// The driver failed as a whole.
    fn read(&mut self) -> Result<Vec<Reading>, Fault>;

    /// Reads the throttle state of every device in the order of their numbers, and nothing else but, with
    /// `with_processes`, the pids that compute on it. Descriptions are not read.
    ///
    /// # Errors
    /// The driver failed as a whole.
    fn read_clocks(&mut self, with_processes: bool) -> Result<Vec<Reading>, Fault>;

    /// Waits for an event of a device, at most for `at_most`.
    fn wait(&mut self, at_most: Duration) -> Option<Incident>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process was named by its executable alone, so that two of one program were one series.
    #[test]
    fn process_has_the_resource_that_other_receivers_give_it() {
        let pid = std::process::id();
        let known = process_info::identify(pid).unwrap();
        // The kernel programs report the start to the nanosecond.
        let traced = process_info::describe(ProcessId { start_ns: known.start_ns + 1_234_567, ..known }, 0);
        let polled = Process::described(pid);
        let [own, of_gpu] = [&polled.info, &traced]
            .map(|info| instrumentation::encoded(&instrumentation::process(info, &[])));
        assert_eq!(own, of_gpu);
        for key in ["process.executable.path", "service.instance.id", "service.name"] {
            assert!(own.attributes.iter().any(|a| a.key == key), "{key}");
        }
    }

    #[test]
    fn processes_that_cannot_be_read_differ_by_their_pid() {
        let resource =
            |pid| instrumentation::encoded(&instrumentation::process(&Process::described(pid).info, &[]));
        assert_ne!(resource(u32::MAX), resource(u32::MAX - 1));
    }
}
