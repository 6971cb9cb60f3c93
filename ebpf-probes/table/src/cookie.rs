//! A row packed into the 64 bits that a uprobe carries, so that one generic program serves every function.
//!
//! | bits | field | bits | field |
//! |---|---|---|---|
//! | 0-9 | id | 28-29 | how bytes are computed |
//! | 10-14 | action | 30-38 | slot or offset of the bytes |
//! | 15-18 | stream slot | 39-41 | grid |
//! | 19-22 | handle slot | 42 | blocking |
//! | 23-26 | kind slot, or direction | 43 | per-thread twin |
//! | 27 | direction is fixed | 44, 45 | driver, timed |
//!
//! The layout is private to one build of agent and object: both come from this file.

use crate::probe::{Action, Api, Bytes, Direction, Grid, Probe, Slot, Way};

/// A packed row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct Cookie(pub u64);

const fn field(value: u64, shift: u32, bits: u32) -> u64 {
    (value >> shift) & ((1 << bits) - 1)
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

impl Cookie {
    /// Packs a row. `twin` marks the per-thread-default-stream twin; `timed` that the return is probed too.
    pub const fn pack(probe: &Probe, twin: bool, timed: bool) -> Cookie {
        let w = &probe.wiring;
        let (way, fixed) = match w.way {
            Way::Fixed(direction) => (direction as u64, 1),
            Way::Arg(slot) => (slot as u64, 0),
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
                | (w.handle.0 as u64) << 19
                | way << 23
                | fixed << 27
                | size_kind << 28
                | size << 30
                | (w.grid as u64) << 39
                | (w.blocking as u64) << 42
                | (twin as u64) << 43
                | (matches!(probe.api, Api::Driver) as u64) << 44
                | (timed as u64) << 45,
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
        Slot(field(self.0, 19, 4) as u8)
    }

    /// The slot of a copy's kind, or the direction's number where [`Cookie::is_way_fixed`].
    #[inline(always)]
    pub const fn way(self) -> u64 {
        field(self.0, 23, 4)
    }

    /// True where the symbol says the direction.
    #[inline(always)]
    pub const fn is_way_fixed(self) -> bool {
        field(self.0, 27, 1) == 1
    }

    /// How the bytes are computed, one of [`bytes`].
    #[inline(always)]
    pub const fn size_kind(self) -> u64 {
        field(self.0, 28, 2)
    }

    /// The slot or offset that the bytes are computed from.
    #[inline(always)]
    pub const fn size(self) -> u64 {
        field(self.0, 30, 9)
    }

    /// How the threads of a launch are counted, as [`Grid`]'s number.
    #[inline(always)]
    pub const fn grid(self) -> u8 {
        field(self.0, 39, 3) as u8
    }

    /// True if the row's grid is `grid`.
    #[inline(always)]
    pub const fn has_grid(self, grid: Grid) -> bool {
        self.grid() == grid as u8
    }

    /// True where the call returns only when its work is done.
    #[inline(always)]
    pub const fn is_blocking(self) -> bool {
        field(self.0, 42, 1) == 1
    }

    /// True for the twin whose stream 0 is the thread's own.
    #[inline(always)]
    pub const fn is_twin(self) -> bool {
        field(self.0, 43, 1) == 1
    }

    /// True for a driver function.
    #[inline(always)]
    pub const fn is_driver(self) -> bool {
        field(self.0, 44, 1) == 1
    }

    /// True where the return is probed too.
    #[inline(always)]
    pub const fn is_timed(self) -> bool {
        field(self.0, 45, 1) == 1
    }

    /// The direction of a copy whose kind argument has the value `kind`.
    #[inline(always)]
    pub const fn direction(self, kind: u64) -> Direction {
        Direction::from_kind(if self.is_way_fixed() { self.way() } else { kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PROBES;

    #[test]
    fn a_cookie_gives_back_the_row_it_was_packed_from() {
        for probe in PROBES {
            for twin in [false, true] {
                let c = Cookie::pack(probe, twin, probe.is_timed());
                let w = &probe.wiring;
                assert_eq!(c.id(), probe.id, "{}", probe.symbol);
                assert_eq!(c.action(), probe.action as u8, "{}", probe.symbol);
                assert_eq!((c.stream(), c.handle()), (w.stream, w.handle), "{}", probe.symbol);
                assert_eq!(c.grid(), w.grid as u8, "{}", probe.symbol);
                assert_eq!((c.is_blocking(), c.is_twin()), (w.blocking, twin), "{}", probe.symbol);
                assert_eq!((c.is_driver(), c.is_timed()), (probe.api == Api::Driver, probe.is_timed()));
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
