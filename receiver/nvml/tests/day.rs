//! A simulated day of two GPUs with every fault, in seconds: memory is flat and no event is missed.

mod common;

use common::*;

const DAY: Hours = Hours {
    count: 24,
    device: |number| {
        WHOLE.replace("gpu0", &format!("gpu{number}")).replace("GPU-5a", &format!("GPU-{number}"))
    },
    lost: "GPU_IS_LOST",
    query: "power",
    incident: ("xid", |number| format!("xid {}", 60 + number)),
};

#[test]
fn day_with_faults_misses_nothing_and_memory_is_flat() {
    let last = DAY.check(&machine_of(&DAY.script()));
    assert_eq!(sum(&last, "error.type=xid"), (DAY.count * DEVICES * INCIDENTS) as f64);
}
