//! One device over time: its sums and since when they add up, what was told of it, and whether it still answers.
//!
//! The one idea: the driver's counts are absolute and begin again when it is loaded anew. A count that is smaller than
//! before has begun again behind the last pass, and so has its series; nothing that it counted since is left out.
//! Since when the first one adds up is not known: its series begins with its first point, as OpenTelemetry's data
//! model says it for a start that nobody saw.

use std::collections::{BTreeMap, BTreeSet};

use semconv::value::GpuHardwareThrottleReason as Reason;

use crate::driver::{Fault, Identity, Incident, Reading};
use crate::questions::{QUESTIONS, Question};
use crate::throttle::Reasons;

/// Kinds of what one device reported that are counted apart. Further kinds are counted together.
const KINDS_MAX: usize = 16;
/// Under this value.
const OTHER: &str = "other";
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
    Incident(Incident),
    Lost(&'static str),
    Recovered,
    Seen { unsupported: Vec<&'static str> },
    Unanswered(Question, &'static str),
}

/// A kind of error that a device reports: its `error.type`, and the attribute by which it differs.
pub(crate) type Kind = (&'static str, &'static str, String);

/// A device.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) identity: Identity,
    /// When it was first seen, ns since 1970.
    pub(crate) since: u64,
    /// When it last answered or did not.
    pub(crate) at: u64,
    pub(crate) sums: [Option<Sum>; QUESTIONS],
    /// Errors that it reported.
    pub(crate) reported: BTreeMap<Kind, u64>,
    /// Time by reason, as far as it was seen.
    pub(crate) held_ns: [u64; Reason::ALL.len()],
    reasons: Reasons,
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
            reported: BTreeMap::new(),
            held_ns: [0; Reason::ALL.len()],
            reasons: Reasons::default(),
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
        self.reasons = Reasons::default();
        (!std::mem::replace(&mut self.is_gone, true)).then_some(Told::Gone)
    }

    /// It reported something.
    pub(crate) fn report(&mut self, incident: &Incident) -> Told {
        if let Some(error) = incident.error {
            let (key, value) = incident.which.clone();
            let kind = (error, key, value);
            let is_room = self.reported.len() < KINDS_MAX || self.reported.contains_key(&kind);
            let kind = if is_room { kind } else { (error, key, OTHER.to_owned()) };
            *self.reported.entry(kind).or_default() += 1;
        }
        Told::Incident(incident.clone())
    }

    fn appear(&mut self, reading: &Reading, told: &mut Vec<Told>) {
        let was_away = std::mem::take(&mut self.is_gone) || self.is_lost;
        match reading.lost() {
            Some(why) => {
                self.reasons = Reasons::default();
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
        for question in Question::ALL {
            let row = question.row();
            let (true, Ok(value)) = (row.becomes.is_sum(), reading.answer(question)) else { continue };
            let grown = self.grow(question, value, at);
            let kind = row.attributes.iter().find(|(key, _)| *key == semconv::attribute::ERROR_TYPE);
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
        for (held, reason) in self.held_ns.iter_mut().zip(Reason::ALL) {
            if self.reasons.has(reason) {
                *held += passed;
            }
        }
        self.reasons = reading.reasons().unwrap_or_default();
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
                Err(Fault::Unasked) => continue,
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
