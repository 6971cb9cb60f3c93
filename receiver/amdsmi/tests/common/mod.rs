//! A machine with the vendor's stub, and what devices of its answer.

#![allow(dead_code, unused_imports, reason = "each test program uses a part of it")]

use amdsmi::{AmdsmiLibrary, VENDOR};
pub use hardware::testing::*;
pub use instrumentation::testing::*;
use simulator::DriverControl;

/// Returns a machine with a stub of the vendor's library.
pub fn machine_of(script: &str) -> Machine<AmdsmiLibrary> {
    Machine::of(VENDOR, DriverControl::amdsmi, |path| AmdsmiLibrary::at(path), script)
}

/// An MI300X that answers everything. Its firmware counts a thousand cycles a second.
pub const WHOLE: &str = "\
0s driver version 26.0.2
0s gpu0 uuid 2cff74a1-0000-1000-80f1-000000000000
0s gpu0 name AMD Instinct MI300X
0s gpu0 board.serial 692341
0s gpu0 vbios 022.040.003.042
0s gpu0 driver 6.14.14
0s gpu0 bdf 49408
0s gpu0 events yes
0s gpu0 clock.graphics.first 2100
0s gpu0 clock.memory 1300
0s gpu0 clock.soc 900
0s gpu0 clock.video 29
0s gpu0 ecc.corrected 3
0s gpu0 ecc.deferred 2
0s gpu0 ecc.uncorrected 1
0s gpu0 energy 1000000 +100000/s
0s gpu0 fan 102
0s gpu0 memory.total 206158430208
0s gpu0 memory.used 51539607552
0s gpu0 pcie.nak_received 4
0s gpu0 pcie.nak_sent 5
0s gpu0 pcie.recovery 6
0s gpu0 pcie.replay 7
0s gpu0 power 612
0s gpu0 temperature.edge 48
0s gpu0 temperature.hotspot 71
0s gpu0 temperature.memory 63
0s gpu0 utilization 93
0s gpu0 xgmi.received 1000 +10/s
0s gpu0 xgmi.transmitted 2000 +20/s
0s gpu0 clock_ns 5000000000 +1000000000/s
0s gpu0 accumulation 1000000 +1000/s
0s gpu0 held.prochot 0
0s gpu0 held.ppt 7000 +250/s
0s gpu0 held.socket 40 +10/s
0s gpu0 held.vr 0
0s gpu0 held.hbm 0
0s gpu0 processes 4194303:1048576
";

/// An MI210, whose firmware counts no cycles and sets bits: power and memory too hot.
pub const BITS: &str = "\
0s gpu0 uuid a1
0s gpu0 name AMD Instinct MI210
0s gpu0 power.average 250
0s gpu0 clock.graphics 1700
0s gpu0 throttle 17179869185
";
