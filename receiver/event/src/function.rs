//! Functions that processes launch on a GPU.

use crate::ProcessId;

/// A function that a process launched on a GPU, and its name where it is known.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct GpuFunction {
    /// Identity of the process.
    pub process: ProcessId,
    /// When the name was determined.
    pub at_ns: u64,
    /// Number of the function in its process, in the order of first launches. It implies the lane of the function in
    /// [`probe_abi::function`].
    pub ordinal: u32,
    /// Symbol of the device function as its library registered it, mangled or plain; empty if it is not known.
    pub symbol: String,
    /// File name of the module that contains the host function; empty if it is not known, as for functions loaded
    /// by the driver.
    pub module: String,
    /// Offset of the host function in that file; without a module the handle of the function.
    pub offset: u64,
}

/// Launches of a function since its process was first seen; a later total replaces an earlier one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FunctionTotal {
    /// When it was read.
    pub at_ns: u64,
    /// Identity of the process.
    pub process: ProcessId,
    /// Number of the function in its process.
    pub ordinal: u32,
    /// Launches, those that were captured into a graph included; a replay of the graph is none.
    pub launches: u64,
}
