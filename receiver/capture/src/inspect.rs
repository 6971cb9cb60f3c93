//! What is inspected of processes, by a [`process_info::Inspector`].

use crate::libraries::LibraryKey;
use crate::maps::FileKey;

/// What is inspected of a process.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Question {
    /// Command line and environment, for its description.
    Description,
    /// What a file exports of trace contexts.
    Exports(FileKey),
    /// The functions of a library; true if the main program contains it.
    Functions(LibraryKey, bool),
    /// The mapped files.
    Maps,
    /// Where the loader has put its trace contexts.
    Memory,
    /// What the selection depends on.
    Subject,
}

/// The inspector of processes.
pub type ProcessInspector = process_info::Inspector<Question>;
