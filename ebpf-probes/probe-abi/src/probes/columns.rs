//! Constructors of probe rows, and setters of their columns.

use crate::nccl::{Operation, Role};
use crate::probe::{
    Action, Api, ArgPos, Bytes, Direction, DirectionSource, Grid, Library, Pointee, PointeeKind, Probe,
    Wiring,
};

pub(super) const fn probe(
    id: u16,
    library: Library,
    api: Api,
    symbol: &'static str,
    action: Action,
) -> Probe {
    Probe { id, library, api, symbol, twin: None, action, wiring: Wiring::NONE }
}

pub(super) const fn cudart(id: u16, symbol: &'static str, action: Action) -> Probe {
    probe(id, Library::Cudart, Api::Runtime, symbol, action)
}

pub(super) const fn cuda(id: u16, symbol: &'static str, action: Action) -> Probe {
    probe(id, Library::Cuda, Api::Driver, symbol, action)
}

pub(super) const fn hip(id: u16, symbol: &'static str, action: Action) -> Probe {
    probe(id, Library::Amdhip, Api::Runtime, symbol, action)
}

/// Returns the row of an NCCL function with this number of arguments.
pub(super) const fn nccl(id: u16, symbol: &'static str, role: Role, arguments: u8) -> Probe {
    let mut row = probe(id, Library::Nccl, Api::Collective, symbol, Action::RecordArgs);
    row.wiring.args.role = Some(role);
    row.wiring.args.arguments = arguments;
    row
}

/// Returns the row of an NCCL function that moves data. Its last recorded arguments are the number of elements, their
/// datatype, the reduction and the root or peer of operations that have one, the communicator and the stream.
pub(super) const fn moves(id: u16, symbol: &'static str, operation: Operation, arguments: u8) -> Probe {
    let mut row = nccl(id, symbol, Role::Operation(operation), arguments).comm(arguments - 1);
    let args = &mut row.wiring.args;
    args.stream = ArgPos(arguments);
    if operation.is_collective() {
        args.counted = args.comm;
    }
    let mut next = args.comm.0 - 1;
    if operation.has_peer() {
        args.peer = ArgPos(next);
        next -= 1;
    }
    if operation.reduces() {
        args.reduction = ArgPos(next);
        next -= 1;
    }
    args.elements = ArgPos(next - 1);
    row
}

/// Setters of a row's columns.
impl Probe {
    pub(super) const fn twin(mut self, symbol: &'static str) -> Probe {
        self.twin = Some(symbol);
        self
    }

    pub(super) const fn stream(mut self, position: u8) -> Probe {
        self.wiring.stream = ArgPos(position);
        self
    }

    pub(super) const fn handle(mut self, position: u8) -> Probe {
        self.wiring.handle = ArgPos(position);
        self
    }

    pub(super) const fn graph(mut self, position: u8) -> Probe {
        self.wiring.graph = ArgPos(position);
        self
    }

    pub(super) const fn bytes(mut self, bytes: Bytes) -> Probe {
        self.wiring.bytes = bytes;
        self
    }

    /// Sets the size of the elements that the bytes count: 2 or 4.
    pub(super) const fn elements_of(mut self, bytes: u8) -> Probe {
        self.wiring.element_shift = bytes.trailing_zeros() as u8;
        self
    }

    pub(super) const fn kind(mut self, position: u8) -> Probe {
        self.wiring.direction = DirectionSource::Arg(position);
        self
    }

    pub(super) const fn direction(mut self, direction: Direction) -> Probe {
        self.wiring.direction = DirectionSource::Fixed(direction);
        self
    }

    pub(super) const fn grid(mut self, grid: Grid) -> Probe {
        self.wiring.grid = grid;
        self
    }

    pub(super) const fn blocking(mut self) -> Probe {
        self.wiring.blocking = true;
        self
    }

    pub(super) const fn entry(mut self, position: u8, kind: PointeeKind) -> Probe {
        self.wiring.args.entry = Pointee { arg: ArgPos(position), kind };
        self
    }

    pub(super) const fn exit(mut self, position: u8, kind: PointeeKind) -> Probe {
        self.wiring.args.exit = Pointee { arg: ArgPos(position), kind };
        self
    }

    pub(super) const fn count(mut self, position: u8) -> Probe {
        self.wiring.args.count = ArgPos(position);
        self
    }

    pub(super) const fn by_value(mut self) -> Probe {
        self.wiring.args.by_value = true;
        self
    }

    pub(super) const fn comm(mut self, position: u8) -> Probe {
        self.wiring.args.comm = ArgPos(position);
        self
    }

    pub(super) const fn ranks(mut self, count: u8, own: u8) -> Probe {
        (self.wiring.args.nranks, self.wiring.args.rank) = (ArgPos(count), ArgPos(own));
        self
    }

    pub(super) const fn color_and_key(mut self, color: u8, key: u8) -> Probe {
        (self.wiring.args.peer, self.wiring.args.rank) = (ArgPos(color), ArgPos(key));
        self
    }

    pub(super) const fn ends(mut self, position: u8) -> Probe {
        self.wiring.args.ends = ArgPos(position);
        self
    }
}
