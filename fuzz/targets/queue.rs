//! Arbitrary bytes as actions on a persistent queue: requests, answers of the backend, full disks, kills and
//! stops. The invariants are in `world`.

#![no_main]
#![allow(dead_code, reason = "the harness is shared with tests that use more of it")]

#[path = "../../pipelines/queue/tests/stored/harness.rs"]
mod harness;
#[path = "../../pipelines/queue/tests/stored/observed.rs"]
mod observed;
#[path = "../../pipelines/queue/tests/stored/world.rs"]
mod world;

use libfuzzer_sys::fuzz_target;
use queue::Sizer;

use harness::{Answer, Shape};
use world::{Action, check};

/// The most actions of one run.
const ACTIONS_MAX: usize = 100;

/// Reads a shape from the first bytes.
fn shape(head: &[u8; 5]) -> Shape {
    let [sizer, size, consumers, least, more] = head.map(i64::from);
    let (sizer, queue_size) = match sizer % 3 {
        0 => (Sizer::Requests, 1 + size),
        1 => (Sizer::Items, 1 + 4 * size),
        _ => (Sizer::Bytes, 100 + 100 * size),
    };
    let batch = (least % 2 == 0).then(|| (1 + least, 1 + least + more));
    Shape { sizer, queue_size, num_consumers: 1 + consumers % 12, batch }
}

/// Reads an action from two bytes.
fn action(bytes: &[u8]) -> Action {
    let [what, value] = [bytes[0], bytes[1]];
    match what % 10 {
        0..3 => Action::Arrive(1 + value % 40),
        3..5 => Action::Burst(1 + value % 40),
        5 => Action::Wait(value),
        6 => {
            Action::Answer([Answer::Take, Answer::Later, Answer::Never, Answer::Hang][usize::from(value % 4)])
        }
        7 => Action::Full(value % 2 == 0),
        8 => Action::Kill(value),
        _ => Action::Restart,
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((head, rest)) = data.split_first_chunk::<5>() else { return };
    let actions: Vec<Action> = rest.chunks_exact(2).take(ACTIONS_MAX).map(action).collect();
    check(shape(head), &actions);
});
