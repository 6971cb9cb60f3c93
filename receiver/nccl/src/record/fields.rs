//! Encoding of a flight record: one list of fields per struct gives both directions.

use recording::codec::{Encoder, Encoding, Field};
use recording::fields;

use super::{FlightRecord, RankRecord};
use crate::identity::{CommunicatorId, Fact, IdSource, RankIdentity, Source};
use crate::observe::StepNote;
use crate::op::Op;
use crate::operation::Operation;

fields! {
    FlightRecord { process, at_ns, ranks, steps }
    RankRecord { who, handle, next_seq, is_exact, enqueued_ns, outstanding_count, outstanding, recent }
    RankIdentity { communicator, rank, nranks, process, tid, device }
    CommunicatorId { hash, source }
    Fact { value, source }
    Op { operation as OperationNumber, datatype, reduction, peer, count, seq, entry_ns, enqueue_ns, arrival_ns, enqueued_ns }
    StepNote { process, end_ns, duration_ns, sequence }
}

macro_rules! named {
    ($($name:ident),*) => {$(
        impl Field for $name {
            fn put(&self, out: &mut Encoder) {
                (*self as u8).put(out);
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                $name::from_number(u8::take(from)?)
            }
        }
    )*};
}

named!(IdSource, Source);

/// An operation as its number.
struct OperationNumber;

impl Encoding<Operation> for OperationNumber {
    fn put(value: &Operation, out: &mut Encoder) {
        (*value as u8).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Operation> {
        Operation::from_number(u8::take(from)?)
    }
}
