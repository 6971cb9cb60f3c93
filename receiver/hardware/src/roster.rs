//! The devices of a machine by their numbers.
//!
//! A lost device does not report its identity. Its number identifies it as long as the driver lists as many devices as
//! before.

use std::collections::BTreeMap;

use crate::driver::Identity;

/// Prefix of the id of a device whose identity was never read.
const UNKNOWN: &str = "GPU-unknown";

/// Identities by device number.
#[derive(Debug, Default)]
pub struct Roster {
    driver: String,
    devices: BTreeMap<u32, Listed>,
}

/// A listed device.
#[derive(Debug)]
struct Listed {
    identity: Identity,
    is_silent: bool,
}

impl Roster {
    /// Returns an empty roster. `driver` is the driver version, or empty if each device reports its own.
    pub fn new(driver: String) -> Roster {
        Roster { driver, devices: BTreeMap::new() }
    }

    /// Records the number of listed devices. If it changed, all identities are dropped, since numbers may have been
    /// reassigned.
    pub fn list(&mut self, count: usize) {
        if count != self.devices.len() {
            self.devices.clear();
        }
    }

    /// Returns the identity of device `index` with the unique id `id`. A new id is looked up with `read`; the name, and
    /// the driver version if there is one for all devices, are added.
    pub fn identify(&mut self, index: u32, id: String, read: impl FnOnce() -> Identity) -> Identity {
        let listed = self.devices.remove(&index).filter(|listed| listed.identity.id == id);
        let new = || {
            let new = read();
            let driver = if self.driver.is_empty() { new.driver } else { self.driver.clone() };
            Identity { id, name: name(index), driver, ..new }
        };
        let identity = listed.map_or_else(new, |listed| listed.identity);
        self.devices.insert(index, Listed { identity: identity.clone(), is_silent: false });
        identity
    }

    /// Marks device `index` as silent and returns its last known identity.
    pub fn silence(&mut self, index: u32) -> Identity {
        let identity = self.remembered(index);
        self.devices.insert(index, Listed { identity: identity.clone(), is_silent: true });
        identity
    }

    /// Returns the last known identity of device `index`.
    pub fn remembered(&self, index: u32) -> Identity {
        let unknown = || Identity {
            id: format!("{UNKNOWN}-{index}"),
            name: name(index),
            driver: self.driver.clone(),
            ..Identity::default()
        };
        self.devices.get(&index).map_or_else(unknown, |listed| listed.identity.clone())
    }

    /// Returns the ids of the devices that answer, by number.
    pub fn answering(&self) -> BTreeMap<u32, String> {
        let all = self.devices.iter().filter(|(_, listed)| !listed.is_silent);
        all.map(|(index, listed)| (*index, listed.identity.id.clone())).collect()
    }

    /// Returns the id of the only device for which `is_so` holds, or the unknown id if there is none or several.
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
    fn silent_device_keeps_its_identity_until_the_list_changes() {
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
