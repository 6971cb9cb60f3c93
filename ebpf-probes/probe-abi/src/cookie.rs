//! A probe row packed into the 64 bits that a uprobe carries, so that one generic program serves every function.
//!
//! | bits | field | bits | field |
//! |---|---|---|---|
//! | 0-9 | id | 25 | blocking |
//! | 10-14 | action | 32-35 | position of the handle |
//! | 15-18 | position of the stream | 36-39 | position of the copy kind, or the direction |
//! | 19-21 | grid | 40 | the direction is an argument |
//! | 22 | per-thread twin | 41-42 | how bytes are computed |
//! | 23, 24 | driver, timed | 43-51 | position or offset of the bytes |
//! | | | 52-55 | position of the graph |
//! | | | 56-57 | size of the elements that are counted, a power of two |
//!
//! If the action is [`Action::RecordArgs`], the upper half has other fields:
//!
//! | bits | field | bits | field |
//! |---|---|---|---|
//! | 32-35, 36-38 | position and kind of the memory read at entry | 50 | argument 3 is a struct by value |
//! | 39-42, 43-45 | position and kind of the memory read at return | 51-54 | position of the handle that ends |
//! | 46-49 | position of the number of list items | 15-18 | position of the handle that numbers calls |
//! | 26-29 | number of arguments | 30 | moves data |
//!
//! Cookies of launches and of calls that move data have no bit above 30, so that their programs can contain the cookie
//! as a constant ([`Cookie::as_constant`]). The layout is private to one build of agent and object: both come from
//! this file.

use crate::probe::{
    Action, Api, ArgPos, ArgsSpec, Bytes, Direction, DirectionSource, Grid, Pointee, PointeeKind, Probe,
};

/// A packed probe row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct Cookie(pub u64);

const fn field(value: u64, shift: u32, bits: u32) -> u64 {
    (value >> shift) & ((1 << bits) - 1)
}

#[inline(always)]
const fn memory(number: u64) -> PointeeKind {
    match number {
        1 => PointeeKind::Int,
        2 => PointeeKind::Word,
        3 => PointeeKind::Id,
        4 => PointeeKind::Ints,
        5 => PointeeKind::Words,
        6 => PointeeKind::Written,
        _ => PointeeKind::None,
    }
}

/// How the bytes of a call are computed: the packed form of [`Bytes`].
pub mod bytes {
    /// The call moves no bytes.
    pub const NONE: u64 = 0;
    /// The value of one argument.
    pub const ARG: u64 = 1;
    /// The product of an argument and the next one.
    pub const PRODUCT: u64 = 2;
    /// The product of three words in the struct that the first argument points to. The offset is a multiple of 8; its lowest
    /// bit is set for two words.
    pub const VOLUME: u64 = 3;
    /// The lowest bit of the offset: the product is of two words.
    pub const IS_AREA: u64 = 1;
}

/// Packs the fields of rows whose calls are recorded with arguments; 0 for other rows.
const fn args(args: &ArgsSpec) -> u64 {
    (args.counted.0 as u64) << 15
        | (args.arguments as u64) << 26
        | (args.is_operation() as u64) << 30
        | (args.entry.arg.0 as u64) << 32
        | (args.entry.kind as u64) << 36
        | (args.exit.arg.0 as u64) << 39
        | (args.exit.kind as u64) << 43
        | (args.count.0 as u64) << 46
        | (args.by_value as u64) << 50
        | (args.ends.0 as u64) << 51
}

impl Cookie {
    /// Packs a row. `twin` marks the per-thread-default-stream twin; `timed` that the return is probed too.
    pub const fn pack(probe: &Probe, twin: bool, timed: bool) -> Cookie {
        let w = &probe.wiring;
        // An unknown direction, as of rows that are not copies, is packed as zeroes.
        let (direction, from_arg) = match w.direction {
            DirectionSource::Fixed(direction) => (direction as u64 ^ Direction::Unknown as u64, 0),
            DirectionSource::Arg(position) => (position as u64, 1),
        };
        let (size_kind, size) = match w.bytes {
            Bytes::None => (bytes::NONE, 0),
            Bytes::Arg(position) => (bytes::ARG, position as u64),
            Bytes::Product(position) => (bytes::PRODUCT, position as u64),
            Bytes::Volume(offset) => (bytes::VOLUME, offset as u64),
            Bytes::Area(offset) => (bytes::VOLUME, offset as u64 | bytes::IS_AREA),
        };
        Cookie(
            probe.id as u64
                | (probe.action as u64) << 10
                | (w.stream.0 as u64) << 15
                | (w.grid as u64) << 19
                | (twin as u64) << 22
                | (matches!(probe.api, Api::Driver) as u64) << 23
                | (timed as u64) << 24
                | (w.blocking as u64) << 25
                | (w.handle.0 as u64) << 32
                | direction << 36
                | from_arg << 40
                | size_kind << 41
                | size << 43
                | (w.graph.0 as u64) << 52
                | (w.element_shift as u64) << 56
                | args(&w.args),
        )
    }

    /// Returns the row's id.
    #[inline(always)]
    pub const fn id(self) -> u16 {
        field(self.0, 0, 10) as u16
    }

    /// Returns the number of the row's action.
    #[inline(always)]
    pub const fn action(self) -> u8 {
        field(self.0, 10, 5) as u8
    }

    /// Returns true if the row's action is `action`.
    #[inline(always)]
    pub const fn is(self, action: Action) -> bool {
        self.action() == action as u8
    }

    /// Returns the position of the stream.
    #[inline(always)]
    pub const fn stream(self) -> ArgPos {
        ArgPos(field(self.0, 15, 4) as u8)
    }

    /// Returns the position of the handle.
    #[inline(always)]
    pub const fn handle(self) -> ArgPos {
        ArgPos(field(self.0, 32, 4) as u8)
    }

    /// Returns the position of the graph, as opposed to an executable graph.
    #[inline(always)]
    pub const fn graph(self) -> ArgPos {
        ArgPos(field(self.0, 52, 4) as u8)
    }

    /// Returns the position of a copy's kind. Has no meaning if [`Cookie::is_direction_fixed`].
    #[inline(always)]
    pub const fn direction_arg(self) -> u64 {
        field(self.0, 36, 4)
    }

    /// Returns true if the symbol alone determines the direction.
    #[inline(always)]
    pub const fn is_direction_fixed(self) -> bool {
        field(self.0, 40, 1) == 0
    }

    /// Returns how the bytes are computed, one of [`bytes`].
    #[inline(always)]
    pub const fn size_kind(self) -> u64 {
        field(self.0, 41, 2)
    }

    /// Returns the position or offset that the bytes are computed from.
    #[inline(always)]
    pub const fn size(self) -> u64 {
        field(self.0, 43, 9)
    }

    /// Returns the size of the elements that [`Cookie::size`] counts, as a power of two.
    #[inline(always)]
    pub const fn element_shift(self) -> u64 {
        field(self.0, 56, 2)
    }

    /// Returns the number of the row's [`Grid`].
    #[inline(always)]
    pub const fn grid(self) -> u8 {
        field(self.0, 19, 3) as u8
    }

    /// Returns true if the row's grid is `grid`.
    #[inline(always)]
    pub const fn has_grid(self, grid: Grid) -> bool {
        self.grid() == grid as u8
    }

    /// Returns true if the call returns only when its work is done.
    #[inline(always)]
    pub const fn is_blocking(self) -> bool {
        field(self.0, 25, 1) == 1
    }

    /// Returns true for the twin whose stream 0 is the thread's own.
    #[inline(always)]
    pub const fn is_twin(self) -> bool {
        field(self.0, 22, 1) == 1
    }

    /// Returns true for a driver function.
    #[inline(always)]
    pub const fn is_driver(self) -> bool {
        field(self.0, 23, 1) == 1
    }

    /// Returns true if the return is probed, too.
    #[inline(always)]
    pub const fn is_timed(self) -> bool {
        field(self.0, 24, 1) == 1
    }

    /// Returns the memory that is read at entry. For rows with call arguments.
    #[inline(always)]
    pub const fn args_at_entry(self) -> Pointee {
        Pointee { arg: ArgPos(field(self.0, 32, 4) as u8), kind: memory(field(self.0, 36, 3)) }
    }

    /// Returns the memory that is read at the return. For rows with call arguments.
    #[inline(always)]
    pub const fn args_at_exit(self) -> Pointee {
        Pointee { arg: ArgPos(field(self.0, 39, 4) as u8), kind: memory(field(self.0, 43, 3)) }
    }

    /// Returns the position of the number of list items. For rows with call arguments.
    #[inline(always)]
    pub const fn args_count(self) -> ArgPos {
        ArgPos(field(self.0, 46, 4) as u8)
    }

    /// Returns true if argument 3 is a struct by value. For rows with call arguments.
    #[inline(always)]
    pub const fn has_struct_by_value(self) -> bool {
        field(self.0, 50, 1) == 1
    }

    /// Returns true if the call moves data. For rows with call arguments.
    #[inline(always)]
    pub const fn is_operation(self) -> bool {
        field(self.0, 30, 1) == 1
    }

    /// Returns the position of the handle by which calls are numbered. For rows with call arguments.
    #[inline(always)]
    pub const fn counted_handle(self) -> ArgPos {
        self.stream()
    }

    /// Returns the position of the handle that the call ends. For rows with call arguments.
    #[inline(always)]
    pub const fn ended_handle(self) -> ArgPos {
        ArgPos(field(self.0, 51, 4) as u8)
    }

    /// Returns the number of arguments. For rows with call arguments.
    #[inline(always)]
    pub const fn arguments(self) -> u64 {
        field(self.0, 26, 4)
    }

    /// Returns true if the memory to record exceeds the short record. For rows with call arguments.
    #[inline(always)]
    pub const fn has_long_args(self) -> bool {
        let exit = field(self.0, 43, 3);
        let is_long = exit > PointeeKind::Word as u64 && exit != PointeeKind::Written as u64;
        field(self.0, 36, 3) != PointeeKind::None as u64 || is_long
    }

    /// Returns true if the call ends a group of calls, and its record has the handles that these have written. For
    /// rows with call arguments.
    #[inline(always)]
    pub const fn records_written(self) -> bool {
        field(self.0, 43, 3) == PointeeKind::Written as u64
    }

    /// Returns the cookie as an immediate operand of an instruction; `None` if it does not fit. Cookies of launches
    /// and of calls that move data fit.
    pub const fn as_constant(self) -> Option<i32> {
        if self.0 <= i32::MAX as u64 { Some(self.0 as i32) } else { None }
    }

    /// Returns the direction of a copy whose kind argument has the value `kind`.
    #[inline(always)]
    pub const fn direction(self, kind: u64) -> Direction {
        let fixed = self.direction_arg() ^ Direction::Unknown as u64;
        Direction::from_kind(if self.is_direction_fixed() { fixed } else { kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PROBES;

    #[test]
    fn cookies_of_frequent_calls_fit_an_instruction() {
        let frequent = |p: &&Probe| p.action == Action::Launch || p.wiring.args.is_operation();
        for probe in PROBES.iter().filter(frequent) {
            let cookie = Cookie::pack(probe, true, true);
            assert_eq!(cookie.as_constant().map(|c| c as u64), Some(cookie.0), "{}", probe.symbol);
        }
    }

    #[test]
    fn cookies_unpack_to_their_rows() {
        for probe in PROBES {
            for twin in [false, true] {
                let c = Cookie::pack(probe, twin, probe.is_timed());
                let w = &probe.wiring;
                assert_eq!(c.id(), probe.id, "{}", probe.symbol);
                assert_eq!(c.action(), probe.action as u8, "{}", probe.symbol);
                assert_eq!(c.grid(), w.grid as u8, "{}", probe.symbol);
                assert_eq!((c.is_blocking(), c.is_twin()), (w.blocking, twin), "{}", probe.symbol);
                assert_eq!((c.is_driver(), c.is_timed()), (probe.api == Api::Driver, probe.is_timed()));
                if probe.action == Action::RecordArgs {
                    let behind = (c.args_at_entry(), c.args_at_exit(), c.args_count());
                    assert_eq!(behind, (w.args.entry, w.args.exit, w.args.count), "{}", probe.symbol);
                    let flags = (c.has_struct_by_value(), c.is_operation());
                    assert_eq!(flags, (w.args.by_value, w.args.is_operation()), "{}", probe.symbol);
                    let handles = (c.counted_handle(), c.ended_handle());
                    assert_eq!(handles, (w.args.counted, w.args.ends), "{}", probe.symbol);
                    assert_eq!(c.arguments(), u64::from(w.args.arguments), "{}", probe.symbol);
                    continue;
                }
                assert_eq!(c.stream(), w.stream, "{}", probe.symbol);
                assert_eq!((c.handle(), c.graph()), (w.handle, w.graph), "{}", probe.symbol);
                match w.direction {
                    DirectionSource::Fixed(d) => {
                        assert_eq!((c.is_direction_fixed(), c.direction(9)), (true, d))
                    }
                    DirectionSource::Arg(position) => {
                        assert_eq!((c.is_direction_fixed(), c.direction_arg()), (false, u64::from(position)))
                    }
                }
                let size = match w.bytes {
                    Bytes::None => (bytes::NONE, 0),
                    Bytes::Arg(s) => (bytes::ARG, u64::from(s)),
                    Bytes::Product(s) => (bytes::PRODUCT, u64::from(s)),
                    Bytes::Volume(o) => (bytes::VOLUME, u64::from(o)),
                    Bytes::Area(o) => (bytes::VOLUME, u64::from(o) | bytes::IS_AREA),
                };
                assert_eq!(c.element_shift(), u64::from(w.element_shift), "{}", probe.symbol);
                assert_eq!((c.size_kind(), c.size()), size, "{}", probe.symbol);
            }
        }
    }
}
