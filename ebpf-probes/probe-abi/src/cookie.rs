//! A row packed into the 64 bits that a uprobe carries, so that one generic program serves every function.
//!
//! | bits | field | bits | field |
//! |---|---|---|---|
//! | 0-9 | id | 25 | blocking |
//! | 10-14 | action | 32-35 | handle slot |
//! | 15-18 | stream slot | 36-39 | kind slot, or direction |
//! | 19-21 | grid | 40 | direction is told by an argument |
//! | 22 | per-thread twin | 41-42 | how bytes are computed |
//! | 23, 24 | driver, timed | 43-51 | slot or offset of the bytes |
//! | | | 52-55 | graph slot |
//!
//! Where the action is [`Action::Tell`] the upper half is another:
//!
//! | bits | field | bits | field |
//! |---|---|---|---|
//! | 32-35, 36-38 | slot, amount read at entry | 50 | argument 3 is a struct by value |
//! | 39-42, 43-45 | slot, amount read at return | 51-54 | slot of the handle that ends |
//! | 46-49 | slot of the items of a list | 15-18 | slot of the handle it is counted by |
//! | 26-29 | arguments | 30 | moves data |
//!
//! Launches and calls that move data have nothing above bit 30, so that their programs can hold the cookie as a constant
//! ([`Cookie::as_constant`]).
//! The layout is private to one build of agent and object: both come from this file.

use crate::probe::{Action, Api, Behind, Bytes, Direction, Grid, Memory, Probe, Slot, Told, Way};

/// A packed row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct Cookie(pub u64);

const fn field(value: u64, shift: u32, bits: u32) -> u64 {
    (value >> shift) & ((1 << bits) - 1)
}

#[inline(always)]
const fn memory(number: u64) -> Memory {
    match number {
        1 => Memory::Int,
        2 => Memory::Word,
        3 => Memory::Id,
        4 => Memory::Ints,
        5 => Memory::Words,
        6 => Memory::Written,
        _ => Memory::None,
    }
}

/// What the bytes of a call are computed from; the packed form of [`Bytes`].
pub mod bytes {
    /// No bytes.
    pub const NONE: u64 = 0;
    /// One argument.
    pub const ARG: u64 = 1;
    /// An argument times the next.
    pub const PRODUCT: u64 = 2;
    /// Three words behind the first argument.
    pub const VOLUME: u64 = 3;
}

/// What a row that is told has beside the rest; 0 of others.
const fn told(told: &Told) -> u64 {
    (told.counted.0 as u64) << 15
        | (told.arguments as u64) << 26
        | (told.is_operation as u64) << 30
        | (told.entry.slot.0 as u64) << 32
        | (told.entry.what as u64) << 36
        | (told.exit.slot.0 as u64) << 39
        | (told.exit.what as u64) << 43
        | (told.count.0 as u64) << 46
        | (told.by_value as u64) << 50
        | (told.ends.0 as u64) << 51
}

impl Cookie {
    /// Packs a row. `twin` marks the per-thread-default-stream twin; `timed` that the return is probed too.
    pub const fn pack(probe: &Probe, twin: bool, timed: bool) -> Cookie {
        let w = &probe.wiring;
        // An unknown direction, that of rows that are no copies, is all zeroes.
        let (way, is_told) = match w.way {
            Way::Fixed(direction) => (direction as u64 ^ Direction::Unknown as u64, 0),
            Way::Arg(slot) => (slot as u64, 1),
        };
        let (size_kind, size) = match w.bytes {
            Bytes::None => (bytes::NONE, 0),
            Bytes::Arg(slot) => (bytes::ARG, slot as u64),
            Bytes::Product(slot) => (bytes::PRODUCT, slot as u64),
            Bytes::Volume(offset) => (bytes::VOLUME, offset as u64),
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
                | way << 36
                | is_told << 40
                | size_kind << 41
                | size << 43
                | (w.graph.0 as u64) << 52
                | told(&w.told),
        )
    }

    /// The row's number.
    #[inline(always)]
    pub const fn id(self) -> u16 {
        field(self.0, 0, 10) as u16
    }

    /// The row's action, as its number.
    #[inline(always)]
    pub const fn action(self) -> u8 {
        field(self.0, 10, 5) as u8
    }

    /// True if the row's action is `action`.
    #[inline(always)]
    pub const fn is(self, action: Action) -> bool {
        self.action() == action as u8
    }

    /// Where the stream stands.
    #[inline(always)]
    pub const fn stream(self) -> Slot {
        Slot(field(self.0, 15, 4) as u8)
    }

    /// Where the handle stands.
    #[inline(always)]
    pub const fn handle(self) -> Slot {
        Slot(field(self.0, 32, 4) as u8)
    }

    /// Where the graph stands that is no executable one.
    #[inline(always)]
    pub const fn graph(self) -> Slot {
        Slot(field(self.0, 52, 4) as u8)
    }

    /// The slot of a copy's kind; where [`Cookie::is_way_fixed`], [`Cookie::direction`] knows what.
    #[inline(always)]
    pub const fn way(self) -> u64 {
        field(self.0, 36, 4)
    }

    /// True where the symbol says the direction.
    #[inline(always)]
    pub const fn is_way_fixed(self) -> bool {
        field(self.0, 40, 1) == 0
    }

    /// How the bytes are computed, one of [`bytes`].
    #[inline(always)]
    pub const fn size_kind(self) -> u64 {
        field(self.0, 41, 2)
    }

    /// The slot or offset that the bytes are computed from.
    #[inline(always)]
    pub const fn size(self) -> u64 {
        field(self.0, 43, 9)
    }

    /// How the threads of a launch are counted, as [`Grid`]'s number.
    #[inline(always)]
    pub const fn grid(self) -> u8 {
        field(self.0, 19, 3) as u8
    }

    /// True if the row's grid is `grid`.
    #[inline(always)]
    pub const fn has_grid(self, grid: Grid) -> bool {
        self.grid() == grid as u8
    }

    /// True where the call returns only when its work is done.
    #[inline(always)]
    pub const fn is_blocking(self) -> bool {
        field(self.0, 25, 1) == 1
    }

    /// True for the twin whose stream 0 is the thread's own.
    #[inline(always)]
    pub const fn is_twin(self) -> bool {
        field(self.0, 22, 1) == 1
    }

    /// True for a driver function.
    #[inline(always)]
    pub const fn is_driver(self) -> bool {
        field(self.0, 23, 1) == 1
    }

    /// True where the return is probed too.
    #[inline(always)]
    pub const fn is_timed(self) -> bool {
        field(self.0, 24, 1) == 1
    }

    /// Of a row that is told: what is read at entry.
    #[inline(always)]
    pub const fn told_at_entry(self) -> Behind {
        Behind { slot: Slot(field(self.0, 32, 4) as u8), what: memory(field(self.0, 36, 3)) }
    }

    /// Of a row that is told: what is read at the return.
    #[inline(always)]
    pub const fn told_at_exit(self) -> Behind {
        Behind { slot: Slot(field(self.0, 39, 4) as u8), what: memory(field(self.0, 43, 3)) }
    }

    /// Of a row that is told: where the number of items of a list stands.
    #[inline(always)]
    pub const fn told_count(self) -> Slot {
        Slot(field(self.0, 46, 4) as u8)
    }

    /// Of a row that is told: argument 3 is a struct by value.
    #[inline(always)]
    pub const fn has_struct_by_value(self) -> bool {
        field(self.0, 50, 1) == 1
    }

    /// Of a row that is told: it moves data.
    #[inline(always)]
    pub const fn is_operation(self) -> bool {
        field(self.0, 30, 1) == 1
    }

    /// Of a row that is told: the handle by which it is counted.
    #[inline(always)]
    pub const fn told_counted(self) -> Slot {
        self.stream()
    }

    /// Of a row that is told: the handle that ends.
    #[inline(always)]
    pub const fn told_ends(self) -> Slot {
        Slot(field(self.0, 51, 4) as u8)
    }

    /// Of a row that is told: how many arguments it has.
    #[inline(always)]
    pub const fn arguments(self) -> u64 {
        field(self.0, 26, 4)
    }

    /// Of a row that is told: what it brings along is more than the short record holds.
    #[inline(always)]
    pub const fn is_told_at_length(self) -> bool {
        let exit = field(self.0, 43, 3);
        let is_long = exit > Memory::Word as u64 && exit != Memory::Written as u64;
        field(self.0, 36, 3) != Memory::None as u64 || is_long
    }

    /// Of a row that is told: it ends what earlier calls began, and says what they wrote.
    #[inline(always)]
    pub const fn tells_written(self) -> bool {
        field(self.0, 43, 3) == Memory::Written as u64
    }

    /// The cookie as what an instruction can hold; `None` where it does not fit. Those of launches and of calls that
    /// move data do.
    pub const fn as_constant(self) -> Option<i32> {
        if self.0 <= i32::MAX as u64 { Some(self.0 as i32) } else { None }
    }

    /// The direction of a copy whose kind argument has the value `kind`.
    #[inline(always)]
    pub const fn direction(self, kind: u64) -> Direction {
        let fixed = self.way() ^ Direction::Unknown as u64;
        Direction::from_kind(if self.is_way_fixed() { fixed } else { kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PROBES;

    #[test]
    fn cookies_of_launches_and_of_calls_that_move_data_fit_an_instruction() {
        let frequent = |p: &&Probe| p.action == Action::Launch || p.wiring.told.is_operation;
        for probe in PROBES.iter().filter(frequent) {
            let cookie = Cookie::pack(probe, true, true);
            assert_eq!(cookie.as_constant().map(|c| c as u64), Some(cookie.0), "{}", probe.symbol);
        }
    }

    #[test]
    fn a_cookie_gives_back_the_row_it_was_packed_from() {
        for probe in PROBES {
            for twin in [false, true] {
                let c = Cookie::pack(probe, twin, probe.is_timed());
                let w = &probe.wiring;
                assert_eq!(c.id(), probe.id, "{}", probe.symbol);
                assert_eq!(c.action(), probe.action as u8, "{}", probe.symbol);
                assert_eq!(c.grid(), w.grid as u8, "{}", probe.symbol);
                assert_eq!((c.is_blocking(), c.is_twin()), (w.blocking, twin), "{}", probe.symbol);
                assert_eq!((c.is_driver(), c.is_timed()), (probe.api == Api::Driver, probe.is_timed()));
                if probe.action == Action::Tell {
                    let behind = (c.told_at_entry(), c.told_at_exit(), c.told_count());
                    assert_eq!(behind, (w.told.entry, w.told.exit, w.told.count), "{}", probe.symbol);
                    let flags = (c.has_struct_by_value(), c.is_operation());
                    assert_eq!(flags, (w.told.by_value, w.told.is_operation), "{}", probe.symbol);
                    let handles = (c.told_counted(), c.told_ends());
                    assert_eq!(handles, (w.told.counted, w.told.ends), "{}", probe.symbol);
                    assert_eq!(c.arguments(), u64::from(w.told.arguments), "{}", probe.symbol);
                    continue;
                }
                assert_eq!(c.stream(), w.stream, "{}", probe.symbol);
                assert_eq!((c.handle(), c.graph()), (w.handle, w.graph), "{}", probe.symbol);
                match w.way {
                    Way::Fixed(d) => assert_eq!((c.is_way_fixed(), c.direction(9)), (true, d)),
                    Way::Arg(slot) => assert_eq!((c.is_way_fixed(), c.way()), (false, u64::from(slot))),
                }
                let size = match w.bytes {
                    Bytes::None => (bytes::NONE, 0),
                    Bytes::Arg(s) => (bytes::ARG, u64::from(s)),
                    Bytes::Product(s) => (bytes::PRODUCT, u64::from(s)),
                    Bytes::Volume(o) => (bytes::VOLUME, u64::from(o)),
                };
                assert_eq!((c.size_kind(), c.size()), size, "{}", probe.symbol);
            }
        }
    }
}
