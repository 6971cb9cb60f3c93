//! Counts of the library files that are not probed, by reason.

/// Why the functions of a file are not probed. The position of a reason in [`RefusalReason::ALL`] is its number in
/// recordings.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum RefusalReason {
    /// The file cannot be looked up or opened.
    Inaccessible,
    /// There is a FIFO, a device or a link at the path of the file.
    Irregular,
    /// The file is not a readable ELF file.
    Malformed,
    /// The file has none of the functions.
    NoFunctions,
    /// The kernel rejected the probes.
    NotAttached,
    /// There is another file at the path of the file.
    Replaced,
    /// The tables of the file are larger than those of any library.
    TooLarge,
    /// The file is on a file system that a user serves, whose pages may never come.
    Untrusted,
}

impl RefusalReason {
    /// Every reason.
    pub const ALL: [RefusalReason; 8] = [
        RefusalReason::Inaccessible,
        RefusalReason::Irregular,
        RefusalReason::Malformed,
        RefusalReason::NoFunctions,
        RefusalReason::NotAttached,
        RefusalReason::Replaced,
        RefusalReason::TooLarge,
        RefusalReason::Untrusted,
    ];
}

/// Why a file is removed from the files that are known. The position of a reason in [`EvictionReason::ALL`] is its number
/// in recordings.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum EvictionReason {
    /// The file is probed and used, by a user who has more than a share of the files.
    OverShare,
    /// The file was refused.
    Refused,
    /// The file is probed, and no process maps it.
    Unused,
}

impl EvictionReason {
    /// Every reason.
    pub const ALL: [EvictionReason; 3] =
        [EvictionReason::OverShare, EvictionReason::Refused, EvictionReason::Unused];
}

/// Counts of files and scans since the source began.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FileCounts {
    /// Files that were examined and refused, by reason.
    pub refused: [u64; RefusalReason::ALL.len()],
    /// Files that were evicted to make space for others, by reason.
    pub evicted: [u64; EvictionReason::ALL.len()],
    /// Scans that were postponed because those of the same user took too long.
    pub postponed: u64,
    /// Inspections of files and memory of processes that were not answered in time.
    pub unanswered: u64,
}
