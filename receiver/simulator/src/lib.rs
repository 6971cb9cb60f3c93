//! Stub GPU libraries with the real symbols and the real ABI, and a player that makes real calls of them.
//!
//! The one idea: everything that watches GPU programs can be proved without a GPU if the libraries that the
//! probes sit on are stand-ins while the calls, threads, waits and times are real. Every row of
//! [`probe_abi::PROBES`] is an exported function of one of three shared objects; [`player`] calls them as a
//! script or a profiler trace tells it, and writes down what it called, so that a test can compare.
//!
//! Knows nothing of probes, the kernel or the agent: it is what they look at.

pub mod amdsmi;
pub mod driver_control;
pub mod functions;
pub mod install;
pub mod invoke;
pub mod model;
pub mod nccl;
pub mod nccl_calls;
pub mod nvml;
pub mod oracle;
pub mod player;
pub mod prototype;
pub mod ranks;
pub mod script;
pub mod scripts;
pub mod sentinel;
pub mod smi;
pub mod truth;

pub use driver_control::DriverControl;
pub use install::{BUILT, PUBLISHERS, Paths, install, install_amdsmi, install_nvml, install_publisher};
