//! One device over time: its sums and since when they add up, what was told of it, and whether it still answers.
//!
//! The one idea: the driver's counts are absolute and begin again when it is loaded anew. A count that is smaller than
//! before has begun again behind the last pass, and so has its series; nothing that it counted since is left out.
//! Since when the first one adds up is not known: its series begins with its first point, as OpenTelemetry's data
//! model says it for a start that nobody saw.

use std::collections::{BTreeMap, BTreeSet};

use semconv::value::GpuHardwareThrottleReason as Reason;

use crate::driver::{Fault, Identity, Reading};
use crate::questions::{Becomes, QUESTIONS, Question, ROWS};
use crate::throttle::{counted_by, is_active};

/// XIDs of one device that are counted apart. Further numbers are counted together.
const XIDS_MAX: usize = 16;
/// Under this name.
const OTHER_XID: &str = "other";
/// What is held to be so between two passes is so for at most this long: passes that did not happen saw nothing.
const HELD_NS_MAX: u64 = 60_000_000_000;

/// A sum of the driver's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum {
    /// Since when it adds up, ns since 1970.
    pub(crate) start: u64,
    /// What it last was.
    pub(crate) last: u64,
}

/// What is to be told of a device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Told {
    Answered(Question),
    Errors { kind: &'static str, count: u64 },
    Gone,
    Lost(&'static str),
    Recovered,
    Seen { unsupported: Vec<&'static str> },
    Unanswered(Question, &'static str),
    Xid(u64),
}

/// A device.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) identity: Identity,
    /// When it was first seen, ns since 1970.
    pub(crate) since: u64,
    /// When it last answered or did not.
    pub(crate) at: u64,
    pub(crate) sums: [Option<Sum>; QUESTIONS],
    /// Counts by number.
    pub(crate) xids: BTreeMap<String, u64>,
    /// Time by reason, as far as it was seen.
    pub(crate) held_ns: [u64; Reason::ALL.len()],
    mask: Option<u64>,
    is_seen: bool,
    is_lost: bool,
    pub(crate) is_gone: bool,
    answered: BTreeSet<Question>,
    silent: BTreeSet<Question>,
}

impl Known {
    /// A device that nothing is known of but who it is.
    pub(crate) fn new(identity: Identity, at: u64) -> Known {
        Known {
            identity,
            since: at,
            at,
            sums: [None; QUESTIONS],
            xids: BTreeMap::new(),
            held_ns: [0; Reason::ALL.len()],
            mask: None,
            is_seen: false,
            is_lost: false,
            is_gone: false,
            answered: BTreeSet::new(),
            silent: BTreeSet::new(),
        }
    }

    /// What it answered at this pass, and what is to be told of that.
    pub(crate) fn take(&mut self, reading: &Reading, at: u64) -> Vec<Told> {
        let mut told = Vec::new();
        self.appear(reading, &mut told);
        if !self.is_lost {
            self.add_up(reading, at, &mut told);
            self.hold(reading, at);
            self.judge(reading, &mut told);
        }
        self.at = at;
        told
    }

    /// It is not listed any more.
    pub(crate) fn leave(&mut self) -> Option<Told> {
        self.mask = None;
        (!std::mem::replace(&mut self.is_gone, true)).then_some(Told::Gone)
    }

    /// It reported an error.
    pub(crate) fn report(&mut self, xid: u64) -> Told {
        let number = xid.to_string();
        let is_room = self.xids.len() < XIDS_MAX || self.xids.contains_key(&number);
        let number = if is_room { number } else { OTHER_XID.to_owned() };
        *self.xids.entry(number).or_default() += 1;
        Told::Xid(xid)
    }

    fn appear(&mut self, reading: &Reading, told: &mut Vec<Told>) {
        let was_away = std::mem::take(&mut self.is_gone) || self.is_lost;
        match reading.lost() {
            Some(why) => {
                self.mask = None;
                if !std::mem::replace(&mut self.is_lost, true) {
                    told.push(Told::Lost(why));
                }
            }
            None => {
                self.is_lost = false;
                self.identity = reading.identity.clone();
                if !std::mem::replace(&mut self.is_seen, true) {
                    told.push(Told::Seen { unsupported: unsupported(reading) });
                } else if was_away {
                    told.push(Told::Recovered);
                }
            }
        }
    }

    fn add_up(&mut self, reading: &Reading, at: u64, told: &mut Vec<Told>) {
        for row in &ROWS {
            let is_sum = matches!(row.becomes, Becomes::Count(_) | Becomes::Amount(..));
            let is_sum = is_sum || Reason::ALL.into_iter().any(|r| counted_by(r) == Some(row.question));
            let (true, Ok(value)) = (is_sum, reading.answer(row.question)) else { continue };
            let grown = self.grow(row.question, value, at);
            let kind = row.attribute.filter(|(key, _)| *key == semconv::attribute::ERROR_TYPE);
            if let (Some((_, kind)), 1..) = (kind, grown) {
                told.push(Told::Errors { kind, count: grown });
            }
        }
    }

    /// By how much a sum grew.
    fn grow(&mut self, question: Question, value: u64, at: u64) -> u64 {
        let before = self.at;
        let sum = self.sums[question as usize].get_or_insert(Sum { start: at, last: value });
        let grown = value.checked_sub(sum.last).unwrap_or_else(|| {
            sum.start = before;
            value
        });
        sum.last = value;
        grown
    }

    /// What was so at the last pass was so until this one.
    fn hold(&mut self, reading: &Reading, at: u64) {
        let passed = at.saturating_sub(self.at).min(HELD_NS_MAX);
        let mask = self.mask.unwrap_or(0);
        for (held, reason) in self.held_ns.iter_mut().zip(Reason::ALL) {
            if is_active(reason, mask) {
                *held += passed;
            }
        }
        self.mask = reading.answer(Question::Throttle).ok();
    }

    fn judge(&mut self, reading: &Reading, told: &mut Vec<Told>) {
        for question in Question::ALL {
            let why = match reading.answer(question) {
                Ok(_) => {
                    self.answered.insert(question);
                    if self.silent.remove(&question) {
                        told.push(Told::Answered(question));
                    }
                    continue;
                }
                Err(Fault::Unsupported) if !self.answered.contains(&question) => continue,
                Err(fault) => fault.name(),
            };
            if self.silent.insert(question) {
                told.push(Told::Unanswered(question, why));
            }
        }
    }
}

fn unsupported(reading: &Reading) -> Vec<&'static str> {
    let is_not = |question: &Question| reading.answer(*question) == Err(Fault::Unsupported);
    Question::ALL.into_iter().filter(is_not).map(Question::name).collect()
}
