//! A machine with the vendor's stub, and what devices of its answer.

#![allow(dead_code, unused_imports, reason = "each test program uses a part of it")]

pub use hardware::testing::*;
pub use instrumentation::testing::*;
use nvml::{NvmlLibrary, VENDOR};
use simulator::DriverControl;

/// Returns a machine with a stub of the vendor's library.
pub fn machine_of(script: &str) -> Machine<NvmlLibrary> {
    Machine::of(VENDOR, DriverControl::nvml, |path| NvmlLibrary { path: path.into() }, script)
}

/// A device that answers everything.
pub const WHOLE: &str = "\
0s driver version 550.54.15
0s gpu0 uuid GPU-5a
0s gpu0 name NVIDIA H100 80GB HBM3
0s gpu0 serial 165
0s gpu0 vbios 96.00
0s gpu0 pci 00000000:1B:00.0
0s gpu0 index 0
0s gpu0 events yes
0s gpu0 clock.graphics 1980
0s gpu0 clock.sm 1965
0s gpu0 clock.memory 2619
0s gpu0 clock.video 1545
0s gpu0 ecc.corrected 3
0s gpu0 ecc.uncorrected 1
0s gpu0 energy 5000000 +300000/s
0s gpu0 memory.total 85899345920
0s gpu0 memory.used 21474836480
0s gpu0 memory.reserved 1073741824
0s gpu0 nvlink.crc_data 4
0s gpu0 nvlink.crc_flit 5
0s gpu0 nvlink.recovery 6
0s gpu0 nvlink.replay 7
0s gpu0 pcie.received 1000 +100/s
0s gpu0 pcie.transmitted 2000 +200/s
0s gpu0 pcie.replay 8
0s gpu0 power 312500
0s gpu0 remapped.failure 0
0s gpu0 remapped.pending 0
0s gpu0 temperature 61
0s gpu0 temperature.memory 72
0s gpu0 throttle 132
0s gpu0 throttled.hw_power_brake 31000000
0s gpu0 throttled.hw_thermal 0
0s gpu0 throttled.sw_power_cap 9000000000 +250000000/s
0s gpu0 throttled.sw_thermal 5000000
0s gpu0 throttled.sync_boost 0
0s gpu0 utilization 87
0s gpu0 utilization.encoder 12
0s gpu0 utilization.decoder 34
0s gpu0 fans 2
0s gpu0 fan0 45
0s gpu0 fan1 50
0s gpu0 processes 4194303:1048576
";
