//! The script language of drivers: the value of each device's fields over time.
//!
//! ```text
//! # from  device     field         value
//! 0s      driver     version       550.54
//! 0s      gpu0       uuid          GPU-1
//! 0s      gpu0       temperature   41
//! 0s      gpu0       energy        5000 +700/s      grows by 700 a second
//! 30s     gpu0       power         NOT_SUPPORTED
//! 40s     gpu0       clock.sm      slow 20ms 1410   the call takes 20 ms
//! 50s     gpu0       *             GPU_IS_LOST      every field fails
//! 70s     gpu0       *             answers          every field is as before
//! 80s     gpu0       xid           79               an event
//! 90s     gpu1       present       no
//! ```
//!
//! A device is `gpuN`, a MIG instance of it `gpuN/migM`. A field without a line is `NOT_SUPPORTED`. Errors have the names
//! that the library's header gives them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Codes, Return};
use crate::text::{ParseError, Result, Unit, lines};

/// The value of a field.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ScriptedValue {
    /// An error that the call returns.
    Error(Return),
    /// A number, and its growth per second.
    Number(u64, u64),
    /// A text.
    Text(String),
}

impl ScriptedValue {
    /// Returns the value as text.
    pub fn into_text(self) -> String {
        match self {
            ScriptedValue::Text(text) => text,
            ScriptedValue::Number(number, _) => number.to_string(),
            ScriptedValue::Error(error) => error.to_string(),
        }
    }
}

/// A line without its device and field.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Line {
    at_ns: u64,
    slow_ns: u64,
    /// `None` ends a line for all fields.
    value: Option<ScriptedValue>,
}

/// A parsed script of a driver.
#[derive(Clone, Debug)]
pub struct DriverScript {
    codes: &'static Codes,
    lines: BTreeMap<(String, String), Vec<Line>>,
    devices: BTreeSet<String>,
}

/// All fields of a device.
const ANY: &str = "*";

impl DriverScript {
    /// Returns a script without lines.
    pub const fn empty(codes: &'static Codes) -> DriverScript {
        DriverScript { codes, lines: BTreeMap::new(), devices: BTreeSet::new() }
    }

    /// Returns the numbers of the library.
    pub const fn codes(&self) -> &'static Codes {
        self.codes
    }

    /// Parses a script.
    pub fn parse(codes: &'static Codes, text: &str) -> std::result::Result<DriverScript, ParseError> {
        let mut script = DriverScript::empty(codes);
        for (number, line) in lines(text) {
            script.add(line).map_err(|problem| ParseError { line: number, problem })?;
        }
        script.lines.values_mut().for_each(|lines| lines.sort_by_key(|line| line.at_ns));
        Ok(script)
    }

    fn add(&mut self, line: &str) -> Result<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [at, device, field, value @ ..] = words.as_slice() else {
            return Err(format!("'{line}' is too short; expected a time, a device, a field and a value"));
        };
        let at_ns = Unit::Time.value(at)?;
        let (slow_ns, value) = match value {
            ["slow", time, rest @ ..] => (Unit::Time.value(time)?, rest),
            rest => (0, rest),
        };
        let value = match value {
            ["answers"] => None,
            words => Some(parse_value(self.codes, words)?),
        };
        if *device != "driver" {
            self.devices.insert((*device).to_owned());
        }
        let key = ((*device).to_owned(), (*field).to_owned());
        self.lines.entry(key).or_default().push(Line { at_ns, slow_ns, value });
        Ok(())
    }

    /// Returns the value of a field at `at_ns`, and the time that the call takes, ns.
    pub fn query(&self, device: &str, field: &str, at_ns: u64) -> (ScriptedValue, u64) {
        let line = self.line(device, ANY, at_ns).filter(|line| line.value.is_some());
        let line = line.or_else(|| self.line(device, field, at_ns));
        let unsupported = ScriptedValue::Error(self.codes.not_supported);
        let Some(line) = line else { return (unsupported, 0) };
        let value = match &line.value {
            Some(ScriptedValue::Number(first, rate)) => {
                let passed = u128::from(at_ns - line.at_ns) * u128::from(*rate) / 1_000_000_000;
                ScriptedValue::Number(first + passed as u64, 0)
            }
            Some(value) => value.clone(),
            None => unsupported,
        };
        (value, line.slow_ns)
    }

    /// Returns the value of a field if it is a number.
    pub fn number(&self, device: &str, field: &str, at_ns: u64) -> Option<u64> {
        match self.query(device, field, at_ns).0 {
            ScriptedValue::Number(number, _) => Some(number),
            _ => None,
        }
    }

    /// Returns the error that a query of a field returns.
    pub fn error(&self, device: &str, field: &str, at_ns: u64) -> Option<Return> {
        match self.query(device, field, at_ns).0 {
            ScriptedValue::Error(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the devices present, without MIG instances, in order.
    pub fn devices(&self, at_ns: u64) -> Vec<String> {
        self.present(at_ns, |device| !device.contains('/'))
    }

    /// Returns the MIG instances of a device, in order.
    pub fn instances(&self, device: &str, at_ns: u64) -> Vec<String> {
        self.present(at_ns, |other| other.strip_prefix(device).is_some_and(|rest| rest.starts_with('/')))
    }

    fn present(&self, at_ns: u64, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
        let absent = ScriptedValue::Text("no".to_owned());
        let is_absent = |line: &Line| line.value.as_ref() == Some(&absent);
        let is_present = |device: &str| {
            let is_removed = self.line(device, "present", at_ns).is_some_and(is_absent);
            self.line(device, "uuid", at_ns).is_some() && !is_removed
        };
        self.devices.iter().filter(|device| is_meant(device) && is_present(device)).cloned().collect()
    }

    /// Returns the events after `after_ns` up to `until_ns`, in order: time, device and number.
    pub fn events(&self, after_ns: u64, until_ns: u64) -> Vec<(u64, String, u64)> {
        let of = |device: &String, lines: &[Line]| {
            let due = lines.iter().filter(|line| line.at_ns > after_ns && line.at_ns <= until_ns);
            let number = |line: &Line| match line.value {
                Some(ScriptedValue::Number(number, _)) => Some((line.at_ns, device.clone(), number)),
                _ => None,
            };
            due.filter_map(number).collect::<Vec<_>>()
        };
        let all = self.lines.iter().filter(|((_, field), _)| field == self.codes.event);
        let mut all: Vec<_> = all.flat_map(|((device, _), lines)| of(device, lines)).collect();
        all.sort();
        all
    }

    /// Returns the line that is in effect at `at_ns`.
    fn line(&self, device: &str, field: &str, at_ns: u64) -> Option<&Line> {
        let lines = self.lines.get(&(device.to_owned(), field.to_owned()))?;
        lines.iter().rev().find(|line| line.at_ns <= at_ns)
    }
}

fn parse_value(codes: &Codes, words: &[&str]) -> Result<ScriptedValue> {
    let [first, rest @ ..] = words else { return Err("expected a value".to_owned()) };
    if let (Some(error), []) = (codes.error(first), rest) {
        return Ok(ScriptedValue::Error(error));
    }
    match (first.parse(), rest) {
        (Ok(number), []) => Ok(ScriptedValue::Number(number, 0)),
        (Ok(number), [rate]) if rate.starts_with('+') => {
            let rate = rate.strip_prefix('+').and_then(|rate| rate.strip_suffix("/s"));
            let rate = rate.and_then(|rate| rate.parse().ok()).ok_or("expected a rate such as +7/s")?;
            Ok(ScriptedValue::Number(number, rate))
        }
        _ => Ok(ScriptedValue::Text(words.join(" "))),
    }
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

    fn script() -> DriverScript {
        DriverScript::parse(
            &CODES,
            "0s gpu0 uuid GPU-1\n0s gpu0 energy 5000 +700/s # joules\n0s gpu0 name NVIDIA H100\n
             5s gpu0 * GPU_IS_LOST\n7s gpu0 * answers\n8s gpu0 power slow 20ms 300\n9s gpu0 xid 79\n
             3s gpu0/mig0 uuid MIG-1\n4s gpu1 uuid GPU-2\n6s gpu1 present no",
        )
        .unwrap()
    }

    #[test]
    fn values_apply_from_their_time_and_faults_override_them() {
        let script = script();
        let energy = |s: u64| script.query("gpu0", "energy", s * SECOND).0;
        assert_eq!([energy(0), energy(4)], [ScriptedValue::Number(5000, 0), ScriptedValue::Number(7800, 0)]);
        assert_eq!(energy(5), ScriptedValue::Error(15));
        assert_eq!(energy(7), ScriptedValue::Number(9900, 0));
        assert_eq!(script.query("gpu0", "name", SECOND).0, ScriptedValue::Text("NVIDIA H100".to_owned()));
        assert_eq!(script.query("gpu0", "power", 8 * SECOND), (ScriptedValue::Number(300, 0), 20_000_000));
        assert_eq!(script.query("gpu0", "power", SECOND).0, ScriptedValue::Error(3));
    }

    #[test]
    fn devices_appear_and_disappear_and_events_occur_once() {
        let script = script();
        assert_eq!(script.devices(0), ["gpu0"]);
        assert_eq!(script.devices(4 * SECOND), ["gpu0", "gpu1"]);
        assert_eq!(script.devices(6 * SECOND), ["gpu0"]);
        assert_eq!(script.instances("gpu0", 3 * SECOND), ["gpu0/mig0"]);
        assert_eq!(script.events(0, 9 * SECOND), [(9 * SECOND, "gpu0".to_owned(), 79)]);
        assert_eq!(script.events(9 * SECOND, 20 * SECOND), []);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, want) in [
            ("0s gpu0 power", "line 1: expected a value"),
            ("\nsoon gpu0 power 3", "line 2: 'soon' is not a time"),
            ("0s gpu0", "line 1: '0s gpu0' is too short; expected a time, a device"),
            ("0s gpu0 energy 1 +7", "line 1: expected a rate"),
        ] {
            let error = DriverScript::parse(&CODES, text).unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }
}
