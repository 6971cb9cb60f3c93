//! Sentinel calls, whose arguments all differ, and the values that a decoder must read.
//!
//! The expected values follow from the C prototype alone. The stub's decoder and the kernel programs, which use the row's
//! wiring, must read the same; a wrong argument position reads another value.

use probe_abi::{Action, Direction};

use crate::invoke::{Outcome, Request};
use crate::model::call::{Effect, StubFunction};
use crate::prototype::{ArgumentRole, prototype};

/// The decoded arguments that are expected of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Meaning {
    /// Stream; 0 if the function has none.
    pub stream: u64,
    /// Handle, address, device, or pointer to which the object is written.
    pub handle: u64,
    /// Graph; 0 if the function has none.
    pub graph: u64,
    /// Bytes copied, set or allocated.
    pub bytes: u64,
    /// Threads that a launch starts; 0 for others.
    pub threads: u64,
    /// Direction, the number of a [`Direction`].
    pub direction: u32,
}

/// Returns the sentinel call of a function; its arguments also differ from those of other functions.
pub fn request(index: usize, function: StubFunction) -> Request {
    let n = index as u64;
    let is_host = matches!(Effect::of(function.probe), Effect::HostAlloc);
    let is_device = function.probe.action == Action::SetDevice;
    Request {
        kernel: 0x1eaf_0000_0000 + n * 0x40,
        stream: 0x5151_0000_0000 + n * 0x100,
        handle: if is_device { 1 + n % 7 } else { 0x4e4e_0000_0000 + n * 0x100 },
        graph: 0x6a6a_0000_0000 + n * 0x100,
        bytes: match prototype(&function).unwrap_or_default().iter().any(|r| r.is_width()) {
            true => [0x1_0000 + n, 3 + n],
            false if is_host => [0x1000 + n, 1],
            false => [(1 << 32) + 0x1_0000 + n, 1],
        },
        kind: n % 4,
        grid: [3 + n as u32, 5, 7],
        block: [11, 13, 17],
        fill: true,
        ..Request::new(index, function)
    }
}

/// Directions by a part of the symbol.
const DIRECTIONS: &[(&str, Direction)] = &[
    ("DtoD", Direction::DeviceToDevice),
    ("DtoH", Direction::DeviceToHost),
    ("HtoD", Direction::HostToDevice),
    ("Peer", Direction::DeviceToDevice),
];

/// Returns the decoded arguments that are expected of a call.
pub fn meaning(request: &Request, made: &Outcome) -> Meaning {
    let roles = prototype(&request.function).unwrap_or_default();
    let holds = |role: ArgumentRole| roles.contains(&role);
    let out = word_of(roles, made, ArgumentRole::Out);
    let unit = roles.iter().find_map(|r| r.unit());
    let starts = [ArgumentRole::Config, ArgumentRole::Grid, ArgumentRole::Grid3, ArgumentRole::Threads3];
    Meaning {
        stream: if holds(ArgumentRole::Stream) || holds(ArgumentRole::Config) { request.stream } else { 0 },
        handle: if holds(ArgumentRole::Handle) { request.handle } else { out.unwrap_or(0) },
        graph: if holds(ArgumentRole::Graph) { request.graph } else { 0 },
        bytes: unit.map_or(0, |unit| request.bytes[0] * request.bytes[1] * unit),
        threads: if starts.into_iter().any(holds) { request.threads() } else { 0 },
        direction: direction(request, roles) as u32,
    }
}

fn direction(request: &Request, roles: &[ArgumentRole]) -> Direction {
    if roles.contains(&ArgumentRole::Kind) {
        return Direction::from_kind(request.kind);
    }
    let symbol = request.function.probe.symbol;
    DIRECTIONS
        .iter()
        .find(|(part, _)| symbol.contains(part))
        .map_or(Direction::Unknown, |(_, direction)| *direction)
}

/// Returns the word of a role, which must precede arguments of two words, as pointers do.
fn word_of(roles: &[ArgumentRole], made: &Outcome, role: ArgumentRole) -> Option<u64> {
    roles.iter().position(|r| *r == role).map(|at| made.words[at])
}
