//! The part of a span's tracestate that sampling reads and writes: `ot=rv:…;th:…`.
//!
//! Other members and fields are preserved. An invalid tracestate is ignored as a whole and not rewritten.

use super::threshold::{Randomness, Threshold};

/// The maximum length of a tracestate that is parsed, in bytes.
const BYTES_MAX: usize = 1024;
/// The W3C's limits of members, and of bytes of a member's value.
const MEMBERS_MAX: usize = 32;
const VALUE_BYTES_MAX: usize = 256;

/// A parsed tracestate.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Tracestate {
    pub(super) randomness: Option<Randomness>,
    pub(super) threshold: Option<Threshold>,
    /// The other fields of the member `ot`.
    fields: Vec<String>,
    /// The other members.
    members: Vec<String>,
}

impl Tracestate {
    /// Creates a tracestate without other members.
    pub(super) fn new(randomness: Option<Randomness>, threshold: Option<Threshold>) -> Self {
        Tracestate { randomness, threshold, ..Tracestate::default() }
    }

    /// Parses a tracestate; returns `None` if it is invalid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut state = Tracestate::default();
        if text.len() > BYTES_MAX || text.split(',').count() > MEMBERS_MAX {
            return None;
        }
        for member in text.split(',').map(|m| m.trim_matches([' ', '\t'])).filter(|m| !m.is_empty()) {
            let (key, value) = member.split_once('=')?;
            if !is_key(key) || !is_value(value) {
                return None;
            }
            match key {
                "ot" => state.read_fields(value)?,
                _ => state.members.push(member.to_owned()),
            }
        }
        Some(state)
    }

    fn read_fields(&mut self, value: &str) -> Option<()> {
        for field in value.split(';') {
            let (key, value) = field.split_once(':')?;
            let is_key = key.starts_with(|c: char| c.is_ascii_lowercase())
                && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
            let is_value = value.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
            if !is_key || !is_value {
                return None;
            }
            match key {
                "rv" => self.randomness = Some(Randomness::parse(value)?),
                "th" => self.threshold = Some(Threshold::parse(value)?),
                _ => self.fields.push(field.to_owned()),
            }
        }
        Some(())
    }

    /// Returns the text of the tracestate: the member `ot` is first, because it was changed last.
    pub(super) fn write(&self) -> String {
        let threshold = self.threshold.filter(|t| *t != Threshold::NEVER);
        let randomness = self.randomness.map(|r| format!("rv:{}", r.digits()));
        let threshold = threshold.map(|t| format!("th:{}", t.digits()));
        let fields: Vec<String> =
            randomness.into_iter().chain(threshold).chain(self.fields.iter().cloned()).collect();
        let ours = (!fields.is_empty()).then(|| format!("ot={}", fields.join(";")));
        let members: Vec<String> = ours.into_iter().chain(self.members.iter().cloned()).collect();
        members.join(",")
    }
}

/// Returns whether a text is a key of the W3C: `vendor`, or `tenant@system`.
fn is_key(key: &str) -> bool {
    let is_rest = |text: &str| {
        text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-*/".contains(&b))
    };
    let starts = |text: &str, digits: bool| {
        text.starts_with(|c: char| c.is_ascii_lowercase() || (digits && c.is_ascii_digit()))
    };
    match key.split_once('@') {
        None => starts(key, false) && key.len() <= 256 && is_rest(key),
        Some((tenant, system)) => {
            (starts(tenant, true) && tenant.len() <= 241 && is_rest(tenant))
                && (starts(system, false) && system.len() <= 14 && is_rest(system))
        }
    }
}

/// Returns whether a text is a value of the W3C: printable, without commas and equals signs, and without a trailing
/// space.
fn is_value(value: &str) -> bool {
    let is_printable = |b: u8| (0x20..=0x7e).contains(&b) && b != b',' && b != b'=';
    !value.is_empty()
        && value.len() <= VALUE_BYTES_MAX
        && !value.ends_with(' ')
        && value.bytes().all(is_printable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_member_is_written_first() {
        for (text, written) in [
            ("", ""),
            ("a=b", "a=b"),
            ("a=b, ot=th:8 ,c@d=e", "ot=th:8,a=b,c@d=e"),
            ("ot=th:c;rv:00000000000001;x:y", "ot=rv:00000000000001;th:c;x:y"),
            ("ot=p:8;r:62", "ot=p:8;r:62"),
            (",,a=b", "a=b"),
        ] {
            assert_eq!(Tracestate::parse(text).unwrap().write(), written, "{text:?}");
        }
    }

    #[test]
    fn invalid_tracestates_are_ignored() {
        let long = format!("a={}", "x".repeat(257));
        let many = vec!["a=b"; 33].join(",");
        for bad in [
            "a", "A=b", "=b", "a=", "ot=th", "ot=th:zz", "ot=th:8;", "ot=rv:1", "ot=T:1", "a@=b", &long,
            &many,
        ] {
            assert_eq!(Tracestate::parse(bad), None, "{bad:?}");
        }
    }
}
