//! A call of every function in which no two arguments are alike, and what it must be read as.
//!
//! The one idea: what a call means is told by its C prototype alone; whoever reads it by a row's wiring, the
//! stub's decoder or a kernel program, must come to the same. A slot that is off by one reads a neighbour.

use probe_abi::{Action, Direction};

use crate::invoke::{Outcome, Request};
use crate::model::call::{Effect, Function};
use crate::prototype::{Role, has, prototype};

/// What a call must be read as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Meaning {
    /// The stream; 0 where the function has none.
    pub stream: u64,
    /// The handle, address, device, or pointer to where the object is written.
    pub handle: u64,
    /// The graph; 0 where the function has none.
    pub graph: u64,
    /// Bytes.
    pub bytes: u64,
    /// Threads started; 0 for what is no launch.
    pub threads: u64,
    /// The direction, as [`Direction`]'s number.
    pub direction: u32,
}

/// The call of the function with this index, its values different from every other function's too.
pub fn request(index: usize, function: Function) -> Request {
    let n = index as u64;
    let is_host = matches!(Effect::of(function.probe), Effect::HostAlloc);
    let is_device = function.probe.action == Action::SetDevice;
    Request {
        kernel: 0x1eaf_0000_0000 + n * 0x40,
        stream: 0x5151_0000_0000 + n * 0x100,
        handle: if is_device { 1 + n % 7 } else { 0x4e4e_0000_0000 + n * 0x100 },
        graph: 0x6a6a_0000_0000 + n * 0x100,
        bytes: match has(&function, Role::Width) {
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

/// Directions that a symbol tells.
const WAYS: &[(&str, Direction)] = &[
    ("DtoD", Direction::DeviceToDevice),
    ("DtoH", Direction::DeviceToHost),
    ("HtoD", Direction::HostToDevice),
    ("Peer", Direction::DeviceToDevice),
];

/// What the call must be read as, once it was made.
pub fn meaning(request: &Request, made: &Outcome) -> Meaning {
    let roles = prototype(&request.function).unwrap_or_default();
    let holds = |role: Role| roles.contains(&role);
    let out = word_of(roles, made, Role::Out);
    let is_sized = roles.iter().any(|r| matches!(r, Role::Bytes | Role::Width | Role::Params(_)));
    let starts = [Role::Config, Role::Grid, Role::Grid3, Role::Threads3];
    Meaning {
        stream: if holds(Role::Stream) || holds(Role::Config) { request.stream } else { 0 },
        handle: if holds(Role::Handle) { request.handle } else { out.unwrap_or(0) },
        graph: if holds(Role::Graph) { request.graph } else { 0 },
        bytes: if is_sized { request.bytes[0] * request.bytes[1] } else { 0 },
        threads: if starts.into_iter().any(holds) { request.threads() } else { 0 },
        direction: direction(request, roles) as u32,
    }
}

fn direction(request: &Request, roles: &[Role]) -> Direction {
    if roles.contains(&Role::Kind) {
        return Direction::from_kind(request.kind);
    }
    let symbol = request.function.probe.symbol;
    WAYS.iter().find(|(part, _)| symbol.contains(part)).map_or(Direction::Unknown, |(_, way)| *way)
}

/// The word of a role that stands, as pointers do, before any argument of two words.
fn word_of(roles: &[Role], made: &Outcome, role: Role) -> Option<u64> {
    roles.iter().position(|r| *r == role).map(|at| made.words[at])
}
