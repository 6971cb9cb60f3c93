//! The processes that use the devices of a poll, each once, those that use most memory first.

use std::collections::BTreeMap;

use crate::driver::{Process, Reading};
use crate::monitor::DriverPoll;

/// A process and its memory on each device.
pub(crate) struct User<'a> {
    pub(crate) process: &'a Process,
    /// Device ids, and bytes on each device.
    pub(crate) devices: Vec<(&'a str, u64)>,
}

/// Returns the processes, those that use most memory first. A process on a partition of a device is not counted on the
/// device itself.
pub(crate) fn users(poll: &DriverPoll) -> Vec<User<'_>> {
    let is_in_part = |whole: &Reading, pid: u32| {
        let mut parts = poll.readings.iter().filter(|part| part.identity.parent == whole.identity.id);
        parts.any(|part| part.processes.iter().any(|process| process.pid() == pid))
    };
    let mut users: BTreeMap<u32, User<'_>> = BTreeMap::new();
    for reading in &poll.readings {
        for process in reading.processes.iter().filter(|process| !is_in_part(reading, process.pid())) {
            let Some(bytes) = process.bytes else { continue };
            let user = users.entry(process.pid()).or_insert(User { process, devices: Vec::new() });
            user.devices.push((&reading.identity.id, bytes));
        }
    }
    let mut users: Vec<User<'_>> = users.into_values().collect();
    users.sort_by_key(|user| std::cmp::Reverse(user.devices.iter().map(|(_, bytes)| *bytes).sum::<u64>()));
    users
}
