//! Fields of a flight record as bytes: one list of fields per struct, from which both directions come.

use event::ProcessId;

use super::{FlightRecord, LIST_MAX, RankRecord};
use crate::identity::{CommunicatorId, Fact, IdSource, Source, Who};
use crate::observe::StepNote;
use crate::op::Op;
use crate::operation::Operation;

/// Something that can be written and read back. `take` gives `None` where the bytes end too early or mean nothing.
pub(super) trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                let (first, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(<$number>::from_le_bytes(*first))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i32);

macro_rules! structs {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: Field::take(from)?),* })
            }
        }
    )*};
}

// The order of the fields is the format.
structs! {
    FlightRecord { process, at_ns, ranks, steps }
    ProcessId { pid, start_ns }
    RankRecord { who, handle, next_seq, is_exact, enqueued_ns, outstanding_count, outstanding, recent }
    Who { communicator, rank, nranks, process, tid, device }
    CommunicatorId { hash, source }
    Fact { value, source }
    Op { operation, datatype, reduction, peer, count, seq, entry_ns, enqueue_ns, arrival_ns, enqueued_ns }
    StepNote { process, end_ns, duration_ns, sequence }
}

impl Field for [u8; 4] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        u32::take(from).map(u32::to_le_bytes)
    }
}

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        match u8::take(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// A byte that says whether there is one.
impl Field for Option<u32> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        match bool::take(from)? {
            true => Some(Some(u32::take(from)?)),
            false => Some(None),
        }
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        let items = &self[..self.len().min(LIST_MAX)];
        (items.len() as u16).put(out);
        items.iter().for_each(|item| item.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let count = u16::take(from)?;
        (0..count).map(|_| T::take(from)).collect()
    }
}

macro_rules! named {
    ($($name:ident),*) => {$(
        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                (*self as u8).put(out);
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                $name::from_number(u8::take(from)?)
            }
        }
    )*};
}

named!(Operation, IdSource, Source);
