//! The devices of a machine by their numbers.
//!
//! The one idea: a device that is lost does not say who it is. Its number does, as long as the driver lists as many
//! devices as before.

use std::collections::BTreeMap;

use crate::driver::Identity;

/// How the id of a device begins that never said who it is.
const UNKNOWN: &str = "GPU-unknown";

/// Who answers to which number.
#[derive(Debug, Default)]
pub struct Roster {
    driver: String,
    devices: BTreeMap<u32, Listed>,
}

/// A device by its number.
#[derive(Debug)]
struct Listed {
    identity: Identity,
    is_silent: bool,
}

impl Roster {
    /// Nobody, of a driver of this version; empty where each device says that.
    pub fn new(driver: String) -> Roster {
        Roster { driver, devices: BTreeMap::new() }
    }

    /// So many devices are listed. Where that is new, numbers may be other devices' now: one that does not answer must
    /// not pass for another.
    pub fn list(&mut self, count: usize) {
        if count != self.devices.len() {
            self.devices.clear();
        }
    }

    /// Who answers to this number, by what the device says of itself, asked where the id is a new one: all but its
    /// number, and its driver where there is one of all devices.
    pub fn identify(&mut self, index: u32, id: String, ask: impl FnOnce() -> Identity) -> Identity {
        let listed = self.devices.remove(&index).filter(|listed| listed.identity.id == id);
        let asked = || {
            let asked = ask();
            let driver = if self.driver.is_empty() { asked.driver } else { self.driver.clone() };
            Identity { id, name: name(index), driver, ..asked }
        };
        let identity = listed.map_or_else(asked, |listed| listed.identity);
        self.devices.insert(index, Listed { identity: identity.clone(), is_silent: false });
        identity
    }

    /// Who it was that does not say so now.
    pub fn silence(&mut self, index: u32) -> Identity {
        let identity = self.remembered(index);
        self.devices.insert(index, Listed { identity: identity.clone(), is_silent: true });
        identity
    }

    /// Who answered to this number.
    pub fn remembered(&self, index: u32) -> Identity {
        let unknown = || Identity {
            id: format!("{UNKNOWN}-{index}"),
            name: name(index),
            driver: self.driver.clone(),
            ..Identity::default()
        };
        self.devices.get(&index).map_or_else(unknown, |listed| listed.identity.clone())
    }

    /// The ids of those that answer, by number.
    pub fn answering(&self) -> BTreeMap<u32, String> {
        let all = self.devices.iter().filter(|(_, listed)| !listed.is_silent);
        all.map(|(index, listed)| (*index, listed.identity.id.clone())).collect()
    }

    /// The id of the only one of whom this is so; where there is none, or are several, one that nobody has.
    pub fn only(&self, is_so: impl Fn(u32) -> bool) -> String {
        let mut all = self.devices.iter().filter(|(index, _)| is_so(**index));
        match (all.next(), all.next()) {
            (Some((_, listed)), None) => listed.identity.id.clone(),
            _ => UNKNOWN.to_owned(),
        }
    }
}

fn name(index: u32) -> String {
    format!("GPU {index}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(roster: &mut Roster, index: u32, id: &str) -> Identity {
        roster.identify(index, id.to_owned(), || Identity { model: "M".to_owned(), ..Identity::default() })
    }

    #[test]
    fn a_silent_device_is_who_it_was_until_the_list_is_another() {
        let mut roster = Roster::new("7".to_owned());
        let first = known(&mut roster, 0, "a");
        assert_eq!((first.name.as_str(), first.model.as_str(), first.driver.as_str()), ("GPU 0", "M", "7"));
        known(&mut roster, 1, "b");
        assert_eq!(roster.silence(0), first);
        assert_eq!(roster.answering(), BTreeMap::from([(1, "b".to_owned())]));
        roster.list(2);
        assert_eq!((roster.remembered(0).id, roster.only(|index| index == 0)), ("a".into(), "a".into()));
        roster.list(1);
        assert_eq!(
            (roster.remembered(0).id, roster.only(|_| true)),
            ("GPU-unknown-0".into(), UNKNOWN.into())
        );
    }
}
