//! Where a thread publishes the trace that it works for, so that whoever watches it from outside can say so too.
//!
//! OpenTelemetry's OTEP 4947 has threads keep a pointer in a thread-local variable, to a record with the ids of the
//! active span (<https://github.com/open-telemetry/opentelemetry-specification/blob/main/oteps/profiles/4947-thread-ctx.md>).
//! The one idea: user space finds out once per process where that variable stands ([`Variable`]), the programs follow
//! it where a step ends, on the very thread that waited. The process owns all of it: what cannot be read or means
//! nothing is counted and left out.

use crate::record::Header;

/// The variable's name in the dynamic symbols of whoever publishes.
pub const SYMBOL: &str = "otel_thread_ctx_v1";
/// BucketCounts for processes; a power of two. Of two that fall on one, the first has it until it is given back.
pub const VARIABLES: u32 = 4096;

/// Where the variable stands in each thread of a process. ArgsSpec by user space.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct Variable {
    /// Whose it is; 0 where nobody's.
    pub pid: u64,
    /// The module's number, by which its block is found in the thread's own table of blocks (dtv); 0 where the variable
    /// stands at the same distance from each thread's pointer.
    pub module: u64,
    /// Bytes from the block's beginning, or from the thread pointer; counted around the end where it lies below.
    pub offset: u64,
    /// Where the table's address stands, from the thread pointer on.
    pub table_at: u64,
    /// Where the number of its last entry stands, from the table on.
    pub last_at: u64,
    /// Bytes of an entry, which begins with the block's address.
    pub entry_bytes: u64,
}

impl Variable {
    /// Where a process's stands.
    #[inline(always)]
    pub const fn slot(pid: u32) -> u32 {
        pid & (VARIABLES - 1)
    }
}

/// What the pointer points to, as far as it is read: attributes follow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct Published {
    /// The trace, as it lies in memory.
    pub trace_id: [u32; 4],
    /// The active span, likewise.
    pub span_id: [u32; 2],
    /// 1 where the record counts.
    pub valid: u8,
    /// W3C trace flags. Publishers of the draft left them 0.
    pub flags: u8,
    /// Bytes of attributes behind it.
    pub attributes_size: u16,
}

/// What a record says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ContextState {
    /// The thread works for a trace.
    Active,
    /// For none, or the record is being changed.
    Inactive,
    /// Nothing that the format allows.
    Invalid,
}

impl Published {
    /// What the record says.
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

/// The trace that a thread worked for when it waited for a step. Comes before the step's own record, which has the same
/// process, thread and entry.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct ContextRecord {
    /// `entry_ns` and `duration_ns` are those of the sync_call.
    pub header: Header,
    /// The trace, as it lies in memory.
    pub trace_id: [u32; 4],
    /// The span that was active, likewise.
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
    fn a_record_counts_where_it_is_valid_and_has_both_ids() {
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
