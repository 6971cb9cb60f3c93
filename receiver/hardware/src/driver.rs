//! What a driver of GPUs can be asked, and how its answers are kept.
//!
//! The one idea: every question has an answer at every pass, and "not supported", "lost" and "failed" are answers too.
//! So nothing that a driver does, or leaves undone, stops a pass. What the answers mean is for [`crate::Monitor`] to
//! say; who asks is behind [`Driver`] and [`Session`], which every vendor's package has of its own.

use std::time::Duration;

use opentelemetry::logs::Severity;
use semconv::value::GpuHardwareThrottleReason as Reason;

use crate::questions::{QUESTIONS, Question};
use crate::throttle::Reasons;

/// Whose GPUs a driver is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Vendor {
    /// The value of `hw.vendor`.
    pub name: &'static str,
    /// The receiver's kind, by which its thread and what it tells are known.
    pub receiver: &'static str,
    /// The name of the scope of everything that the receiver emits.
    pub scope: &'static str,
    /// What it can say that holds clocks down.
    pub reasons: &'static [Reason],
}

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// It was not asked: it is no question to this driver, or not this time.
    #[error("not asked")]
    Unasked,
    /// The device, or its driver, does not know the question.
    #[error("not supported")]
    Unsupported,
    /// The device does not answer at all any more.
    #[error("{0}")]
    Lost(&'static str),
    /// It did not work this time.
    #[error("{0}")]
    Failed(&'static str),
}

impl Fault {
    /// The value of `error.type`.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Unasked => "not_asked",
            Fault::Unsupported => "not_supported",
            Fault::Lost(name) | Fault::Failed(name) => name,
        }
    }
}

/// What stays the same of a device for as long as it is there. Empty where it is not known.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Identity {
    /// As its vendor writes it: `GPU-<uuid>` or `MIG-<uuid>` of NVIDIA's.
    pub id: String,
    /// By which it is spoken of on its machine: `GPU 0`.
    pub name: String,
    /// What it is.
    pub model: String,
    /// Of its board.
    pub serial: String,
    /// Of its firmware.
    pub firmware: String,
    /// Of its driver.
    pub driver: String,
    /// Where it stands on the PCI bus.
    pub pci: String,
    /// The id of the device that it is a part of.
    pub parent: String,
}

/// A process that uses a device.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Process {
    /// Its pid.
    pub pid: u32,
    /// What it runs; empty where that cannot be read.
    pub executable: String,
    /// Device memory that it uses; none where the driver does not say.
    pub bytes: Option<u64>,
}

impl Process {
    /// A process, and what it runs.
    pub fn named(pid: u32) -> Process {
        let path = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        Process { pid, executable: name.unwrap_or_default(), bytes: None }
    }
}

/// What one device answered at one pass.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Which device.
    pub identity: Identity,
    /// An answer to each question, in the order of [`Question::ALL`].
    pub answers: [Result<u64, Fault>; QUESTIONS],
    /// Percent of full speed, of each fan.
    pub fans: Vec<u64>,
    /// Processes that compute on it.
    pub processes: Vec<Process>,
}

impl Reading {
    /// A device that was asked nothing yet.
    pub fn blank(identity: Identity) -> Reading {
        Reading::silent(identity, Fault::Unasked)
    }

    /// A device that answers nothing, for this reason.
    pub fn silent(identity: Identity, why: Fault) -> Reading {
        Reading { identity, answers: [Err(why); QUESTIONS], fans: Vec::new(), processes: Vec::new() }
    }

    /// Keeps the answer to a question.
    pub fn set(&mut self, question: Question, answer: Result<u64, Fault>) {
        self.answers[question as usize] = answer;
    }

    /// What holds its clocks down, where it says that.
    pub fn reasons(&self) -> Option<Reasons> {
        self.answer(Question::Throttle).ok().map(Reasons::from_answer)
    }

    /// The answer to one question.
    pub fn answer(&self, question: Question) -> Result<u64, Fault> {
        self.answers[question as usize]
    }

    /// Why it does not answer at all, where it does not.
    pub fn lost(&self) -> Option<&'static str> {
        self.answers.iter().find_map(|answer| match answer {
            Err(Fault::Lost(why)) => Some(*why),
            _ => None,
        })
    }
}

/// Something that a device reported by itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Incident {
    /// The id of the device.
    pub device: String,
    /// The event of the registry that it is.
    pub event: &'static str,
    /// How grave it is.
    pub severity: Severity,
    /// What it says, behind the device's name.
    pub text: String,
    /// By what it differs from others of its event: an attribute and its value.
    pub which: (&'static str, String),
    /// The `error.type` that it is counted as; none where it is no error.
    pub error: Option<&'static str>,
}

/// A driver that may be there.
pub trait Driver: Send {
    /// Opens it, hands what answers to `work`, and closes it when that returns.
    fn open(&mut self, work: &mut dyn FnMut(&mut dyn Session)) -> Result<(), Fault>;
}

/// A driver that is open.
pub trait Session {
    /// Asks every device every question. The error is the driver's as a whole.
    fn read(&mut self) -> Result<Vec<Reading>, Fault>;

    /// Asks every device, in the order of their numbers, what holds its clocks down, and, where `with_processes`, who
    /// computes on it; their executables stay unread. Nothing else is asked.
    fn glance(&mut self, with_processes: bool) -> Result<Vec<Reading>, Fault>;

    /// Waits for what a device reports by itself, at most for this long.
    fn wait(&mut self, at_most: Duration) -> Option<Incident>;
}
