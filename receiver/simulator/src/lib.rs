//! A simulator of GPU programs: stub GPU libraries with the real symbols and ABI, and a player that calls them.
//!
//! It allows the agent to be tested without a GPU: the libraries are stubs, but calls, threads, waits and times are real.
//! Every row of [`probe_abi::PROBES`] is an exported function of a stub library; the [`player`] calls the functions as a
//! script or a profiler trace describes, and logs its calls in the [`oracle`] log, which tests compare with the agent's
//! output.
//!
//! Knows nothing of probes, the kernel or the agent.

pub mod amdsmi;
#[cfg(feature = "testing")]
pub mod attacks;
pub mod driver_control;
pub mod functions;
pub mod install;
pub mod invoke;
pub mod model;
pub mod named;
pub mod nccl;
pub mod nccl_calls;
pub mod nvml;
pub mod oracle;
pub mod player;
mod prototype;
pub mod ranks;
pub mod script;
pub mod scripts;
pub mod sentinel;
pub mod smi;
pub mod text;
pub mod truth;

pub use driver_control::DriverControl;
pub use install::{BUILT, PUBLISHERS, Paths, install, install_amdsmi, install_nvml, install_publisher};
