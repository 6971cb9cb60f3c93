//! Scripts: from when on which device answers what to which question.
//!
//! ```text
//! # from  device     question      answer
//! 0s      driver     version       550.54
//! 0s      gpu0       uuid          GPU-1
//! 0s      gpu0       temperature   41
//! 0s      gpu0       energy        5000 +700/s      grows from then on
//! 30s     gpu0       power         NOT_SUPPORTED
//! 40s     gpu0       clock.sm      slow 20ms 1410   the answer takes its time
//! 50s     gpu0       *             GPU_IS_LOST      whatever it is asked
//! 70s     gpu0       *             answers          as before
//! 80s     gpu0       xid           79               an event, not an answer
//! 90s     gpu1       present       no
//! ```
//!
//! A device is `gpuN`, an instance of it `gpuN/migM`. What no line answers is `NOT_SUPPORTED`. Errors have the names of
//! the library's own.

use std::collections::{BTreeMap, BTreeSet};

use super::{Codes, Return};

/// What is answered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// An error.
    Error(Return),
    /// A number, and by how much it grows in a second.
    Number(u64, u64),
    /// Anything else.
    Text(String),
}

impl Answer {
    /// As a text.
    pub fn into_text(self) -> String {
        match self {
            Answer::Text(text) => text,
            Answer::Number(number, _) => number.to_string(),
            Answer::Error(error) => error.to_string(),
        }
    }
}

/// One line, without whom it is about.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Line {
    at_ns: u64,
    slow_ns: u64,
    /// `None` takes back what was said of every question.
    answer: Option<Answer>,
}

/// A script.
#[derive(Clone, Debug)]
pub struct Script {
    codes: &'static Codes,
    lines: BTreeMap<(String, String), Vec<Line>>,
    devices: BTreeSet<String>,
}

/// The question that stands for all of a device's.
const ANY: &str = "*";

impl Script {
    /// Nothing is answered.
    pub const fn empty(codes: &'static Codes) -> Script {
        Script { codes, lines: BTreeMap::new(), devices: BTreeSet::new() }
    }

    /// The library's numbers.
    pub const fn codes(&self) -> &'static Codes {
        self.codes
    }

    /// Reads a script; the error names the line.
    pub fn parse(codes: &'static Codes, text: &str) -> Result<Script, String> {
        let mut script = Script::empty(codes);
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                script.add(line).map_err(|problem| format!("line {}: {problem}: {line}", number + 1))?;
            }
        }
        script.lines.values_mut().for_each(|lines| lines.sort_by_key(|line| line.at_ns));
        Ok(script)
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [at, device, question, answer @ ..] = words.as_slice() else {
            return Err("expected a time, a device, a question and an answer".to_owned());
        };
        let at_ns = duration(at).ok_or("expected a time such as 30s")?;
        let (slow_ns, answer) = match answer {
            ["slow", time, rest @ ..] => (duration(time).ok_or("expected a time behind slow")?, rest),
            rest => (0, rest),
        };
        let answer = match answer {
            ["answers"] => None,
            words => Some(read(self.codes, words)?),
        };
        if *device != "driver" {
            self.devices.insert((*device).to_owned());
        }
        let key = ((*device).to_owned(), (*question).to_owned());
        self.lines.entry(key).or_default().push(Line { at_ns, slow_ns, answer });
        Ok(())
    }

    /// What `device` answers at `at_ns`, and for how long the caller has to wait for it. Numbers have grown.
    pub fn ask(&self, device: &str, question: &str, at_ns: u64) -> (Answer, u64) {
        let line = self.line(device, ANY, at_ns).filter(|line| line.answer.is_some());
        let line = line.or_else(|| self.line(device, question, at_ns));
        let unsupported = Answer::Error(self.codes.not_supported);
        let Some(line) = line else { return (unsupported, 0) };
        let answer = match &line.answer {
            Some(Answer::Number(first, rate)) => {
                let passed = u128::from(at_ns - line.at_ns) * u128::from(*rate) / 1_000_000_000;
                Answer::Number(first + passed as u64, 0)
            }
            Some(answer) => answer.clone(),
            None => unsupported,
        };
        (answer, line.slow_ns)
    }

    /// The number that is answered.
    pub fn number(&self, device: &str, question: &str, at_ns: u64) -> Option<u64> {
        match self.ask(device, question, at_ns).0 {
            Answer::Number(number, _) => Some(number),
            _ => None,
        }
    }

    /// The error that is answered to whatever is asked, or to this question.
    pub fn error(&self, device: &str, question: &str, at_ns: u64) -> Option<Return> {
        match self.ask(device, question, at_ns).0 {
            Answer::Error(error) => Some(error),
            _ => None,
        }
    }

    /// The devices that are there, MIG instances left out, in order.
    pub fn devices(&self, at_ns: u64) -> Vec<String> {
        self.present(at_ns, |device| !device.contains('/'))
    }

    /// The MIG instances of a device, in order.
    pub fn instances(&self, device: &str, at_ns: u64) -> Vec<String> {
        self.present(at_ns, |other| other.strip_prefix(device).is_some_and(|rest| rest.starts_with('/')))
    }

    fn present(&self, at_ns: u64, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
        let is_there = |device: &str| {
            let absent = Answer::Text("no".to_owned());
            let named = self.line(device, "uuid", at_ns).is_some();
            named
                && self
                    .line(device, "present", at_ns)
                    .is_none_or(|line| line.answer.as_ref() != Some(&absent))
        };
        self.devices.iter().filter(|device| is_meant(device) && is_there(device)).cloned().collect()
    }

    /// The events of devices that come behind `after_ns` and not behind `until_ns`: when, whose, which; in order.
    pub fn events(&self, after_ns: u64, until_ns: u64) -> Vec<(u64, String, u64)> {
        let of = |device: &String, lines: &[Line]| {
            let due = lines.iter().filter(|line| line.at_ns > after_ns && line.at_ns <= until_ns);
            let number = |line: &Line| match line.answer {
                Some(Answer::Number(number, _)) => Some((line.at_ns, device.clone(), number)),
                _ => None,
            };
            due.filter_map(number).collect::<Vec<_>>()
        };
        let all = self.lines.iter().filter(|((_, question), _)| question == self.codes.event);
        let mut all: Vec<_> = all.flat_map(|((device, _), lines)| of(device, lines)).collect();
        all.sort();
        all
    }

    /// The last line that holds.
    fn line(&self, device: &str, question: &str, at_ns: u64) -> Option<&Line> {
        let lines = self.lines.get(&(device.to_owned(), question.to_owned()))?;
        lines.iter().rev().find(|line| line.at_ns <= at_ns)
    }
}

fn read(codes: &Codes, words: &[&str]) -> Result<Answer, String> {
    let [first, rest @ ..] = words else { return Err("expected an answer".to_owned()) };
    if let (Some(error), []) = (codes.error(first), rest) {
        return Ok(Answer::Error(error));
    }
    match (first.parse(), rest) {
        (Ok(number), []) => Ok(Answer::Number(number, 0)),
        (Ok(number), [rate]) if rate.starts_with('+') => {
            let rate = rate.strip_prefix('+').and_then(|rate| rate.strip_suffix("/s"));
            let rate = rate.and_then(|rate| rate.parse().ok()).ok_or("expected a rate such as +7/s")?;
            Ok(Answer::Number(number, rate))
        }
        _ => Ok(Answer::Text(words.join(" "))),
    }
}

/// A time in nanoseconds: `5ms`, `5s`, `5m`, `5h`.
fn duration(text: &str) -> Option<u64> {
    let units = [("ms", 1_000_000), ("s", 1_000_000_000), ("m", 60_000_000_000), ("h", 3_600_000_000_000)];
    let (number, unit) =
        units.iter().find_map(|(word, unit)| Some((text.strip_suffix(word)?.parse::<u64>().ok()?, *unit)))?;
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    static CODES: Codes = Codes {
        errors: &[("NOT_SUPPORTED", 3), ("GPU_IS_LOST", 15)],
        event: "xid",
        insufficient_size: 7,
        invalid_argument: 2,
        not_supported: 3,
        timeout: 10,
        uninitialized: 1,
    };

    fn script() -> Script {
        Script::parse(
            &CODES,
            "0s gpu0 uuid GPU-1\n0s gpu0 energy 5000 +700/s # joules\n0s gpu0 name NVIDIA H100\n
             5s gpu0 * GPU_IS_LOST\n7s gpu0 * answers\n8s gpu0 power slow 20ms 300\n9s gpu0 xid 79\n
             3s gpu0/mig0 uuid MIG-1\n4s gpu1 uuid GPU-2\n6s gpu1 present no",
        )
        .unwrap()
    }

    #[test]
    fn an_answer_holds_from_its_time_on_and_a_fault_covers_it() {
        let script = script();
        let energy = |s: u64| script.ask("gpu0", "energy", s * SECOND).0;
        assert_eq!([energy(0), energy(4)], [Answer::Number(5000, 0), Answer::Number(7800, 0)]);
        assert_eq!(energy(5), Answer::Error(15));
        assert_eq!(energy(7), Answer::Number(9900, 0));
        assert_eq!(script.ask("gpu0", "name", SECOND).0, Answer::Text("NVIDIA H100".to_owned()));
        assert_eq!(script.ask("gpu0", "power", 8 * SECOND), (Answer::Number(300, 0), 20_000_000));
        assert_eq!(script.ask("gpu0", "power", SECOND).0, Answer::Error(3));
    }

    #[test]
    fn devices_come_and_go_and_events_come_once() {
        let script = script();
        assert_eq!(script.devices(0), ["gpu0"]);
        assert_eq!(script.devices(4 * SECOND), ["gpu0", "gpu1"]);
        assert_eq!(script.devices(6 * SECOND), ["gpu0"]);
        assert_eq!(script.instances("gpu0", 3 * SECOND), ["gpu0/mig0"]);
        assert_eq!(script.events(0, 9 * SECOND), [(9 * SECOND, "gpu0".to_owned(), 79)]);
        assert_eq!(script.events(9 * SECOND, 20 * SECOND), []);
    }

    #[test]
    fn a_line_that_says_nothing_is_named() {
        for (text, want) in [
            ("0s gpu0 power", "line 1: expected an answer"),
            ("\nsoon gpu0 power 3", "line 2: expected a time"),
            ("0s gpu0", "line 1: expected a time, a device"),
            ("0s gpu0 energy 1 +7", "line 1: expected a rate"),
        ] {
            let told = Script::parse(&CODES, text).unwrap_err();
            assert!(told.starts_with(want), "{told}");
        }
    }
}
