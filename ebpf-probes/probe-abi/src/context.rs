//! Trace contexts that threads publish for observers outside their process.
//!
//! OpenTelemetry's OTEP 4947 defines a thread-local variable that points to a record with the ids of the active span
//! (<https://github.com/open-telemetry/opentelemetry-specification/blob/main/oteps/profiles/4947-thread-ctx.md>). User
//! space locates that variable once per process ([`Variable`]); the programs read it where a step ends, on the thread
//! that waited. The memory belongs to the traced process: a record that is unreadable or invalid is counted and
//! ignored.

use crate::record::Header;

/// Name of the variable among the publisher's dynamic symbols.
pub const SYMBOL: &str = "otel_thread_ctx_v1";
/// Slots for processes; a power of two. Of two processes with one slot, the first has it until it ends.
pub const VARIABLES: u32 = 4096;

/// Location of the variable in each thread of a process. Written by user space.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct Variable {
    /// Process id; 0 in a free slot.
    pub pid: u64,
    /// Number of the module, which indexes the thread's table of blocks (dtv); 0 if the variable is at the same offset
    /// from each thread pointer.
    pub module: u64,
    /// Offset in bytes from the start of the block, or from the thread pointer; wraps around for negative offsets.
    pub offset: u64,
    /// Offset of the table's address from the thread pointer.
    pub table_at: u64,
    /// Offset of the number of the last entry from the start of the table.
    pub last_at: u64,
    /// Size of an entry, which begins with the block's address, in bytes.
    pub entry_bytes: u64,
}

impl Variable {
    /// Returns the slot of a process.
    #[inline(always)]
    pub const fn slot(pid: u32) -> u32 {
        pid & (VARIABLES - 1)
    }
}

/// Beginning of a published record, as it is in memory. Attributes follow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct Published {
    /// Trace id, in memory order.
    pub trace_id: [u32; 4],
    /// Id of the active span, in memory order.
    pub span_id: [u32; 2],
    /// 1 if the record is valid.
    pub valid: u8,
    /// W3C trace flags. Publishers of the draft set them to 0.
    pub flags: u8,
    /// Size of the attributes that follow, in bytes.
    pub attributes_size: u16,
}

/// State of a published record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ContextState {
    /// The thread has an active span.
    Active,
    /// The thread has no active span, or the record is being changed.
    Inactive,
    /// The record violates the format.
    Invalid,
}

impl Published {
    /// Returns the state of the record.
    #[inline(always)]
    pub fn state(&self) -> ContextState {
        let is_set = |id: &[u32]| id.iter().fold(0, |all, word| all | word) != 0;
        match (self.valid, is_set(&self.trace_id), is_set(&self.span_id)) {
            (0, ..) | (1, false, false) => ContextState::Inactive,
            (1, true, true) => ContextState::Active,
            _ => ContextState::Invalid,
        }
    }
}

/// Trace context of a thread that waited for a step. Precedes the step's own record, which has the same process,
/// thread and entry.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct ContextRecord {
    /// `entry_ns` and `duration_ns` are those of the sync call.
    pub header: Header,
    /// Trace id, in memory order.
    pub trace_id: [u32; 4],
    /// Id of the active span, in memory order.
    pub span_id: [u32; 2],
    /// W3C trace flags.
    pub trace_flags: u32,
    /// Always 0.
    pub pad: u32,
}

const _: () = {
    assert!(size_of::<Published>() == 28);
    assert!(size_of::<ContextRecord>() == 72);
    assert!(size_of::<Variable>() == 48);
    assert!(VARIABLES.is_power_of_two());
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_active_when_valid_with_both_ids() {
        let state = |valid, trace, span| {
            let mut record = Published { valid, ..Published::default() };
            (record.trace_id[3], record.span_id[0]) = (trace, span);
            record.state()
        };
        assert_eq!(state(1, 1, 1), ContextState::Active);
        assert_eq!([state(0, 1, 1), state(0, 0, 0), state(1, 0, 0)], [ContextState::Inactive; 3]);
        assert_eq!(
            [state(1, 1, 0), state(1, 0, 1), state(2, 1, 1), state(255, 0, 0)],
            [ContextState::Invalid; 4]
        );
    }
}
