//! A day of two GPUs and everything that befalls them, in seconds: flat memory, nothing missed.

mod common;

use common::*;

const DAY: Hours = Hours {
    count: 24,
    device: |number| {
        WHOLE.replace("gpu0", &format!("gpu{number}")).replace("GPU-5a", &format!("GPU-{number}"))
    },
    lost: "GPU_IS_LOST",
    question: "power",
    incident: ("xid", |number| format!("xid {}", 60 + number)),
};

#[test]
fn a_day_with_faults_misses_nothing_and_takes_no_more_memory_than_its_first_hours() {
    let last = DAY.check(&machine_of(&DAY.script()));
    assert_eq!(sum(&last, "error.type=xid"), (DAY.count * DEVICES * INCIDENTS) as f64);
}
