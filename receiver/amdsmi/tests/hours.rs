//! Simulated hours of two GPUs with every fault, in seconds: memory is flat and no event is missed.

mod common;

use common::*;

const HOURS: Hours = Hours {
    count: 8,
    device: |number| WHOLE.replace("gpu0", &format!("gpu{number}")).replace("2cff", &format!("2cf{number}")),
    lost: "IO",
    query: "energy",
    incident: ("notification", |number| format!("notification {}", 1 + number)),
};

#[test]
fn hours_with_faults_miss_nothing_and_memory_is_flat() {
    let last = HOURS.check(&machine_of(&HOURS.script()));
    // Of an hour's notifications one is a memory fault of a program.
    assert_eq!(sum(&last, "error.type=vm_fault"), (HOURS.count * DEVICES) as f64);
}
