//! What a driver of GPUs can be asked, and how its answers are kept.
//!
//! The one idea: every question has an answer at every pass, and "not supported", "lost" and "failed" are answers too.
//! So nothing that a driver does, or leaves undone, stops a pass. What the answers mean is for [`crate::Monitor`] to
//! say; who asks is behind [`Driver`] and [`Session`], of which the real one stands in [`crate::session`].

use std::time::Duration;

use crate::questions::{QUESTIONS, Question};

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
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
            Fault::Unsupported => "not_supported",
            Fault::Lost(name) | Fault::Failed(name) => name,
        }
    }
}

/// What stays the same of a device for as long as it is there. Empty where it is not known.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Identity {
    /// `GPU-<uuid>` or `MIG-<uuid>`.
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
    /// A device that answers nothing, for this reason.
    pub fn silent(identity: Identity, why: Fault) -> Reading {
        Reading { identity, answers: [Err(why); QUESTIONS], fans: Vec::new(), processes: Vec::new() }
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

/// An error that a device reported by itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Xid {
    /// Whose.
    pub device: String,
    /// Its number.
    pub number: u64,
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
    /// computes on it; their executables stay unread. Everything else is told to be not supported.
    fn glance(&mut self, with_processes: bool) -> Result<Vec<Reading>, Fault>;

    /// Waits for an XID, at most for this long.
    fn wait(&mut self, at_most: Duration) -> Option<Xid>;
}
