//! A machine whose driver answers by a script: what is read of it, and when.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub use hardware::testing::*;
use nvml::{Library, VENDOR};
pub use sdk::testing::*;
use stubs::DriverControl;

/// A driver of its own, in a folder of its own.
pub struct Machine {
    _folder: tempfile::TempDir,
    pub control: DriverControl,
}

impl Machine {
    pub fn of(script: &str) -> Machine {
        let folder = tempfile::tempdir().expect("a folder");
        let control = DriverControl::nvml(folder.path()).expect("the stub can be loaded");
        assert!(control.set_script(script), "the script can be read:\n{script}");
        Machine { _folder: folder, control }
    }

    pub fn library(&self) -> Library {
        Library { path: self.control.path().into() }
    }

    /// Passes at these seconds of the script, and everything that they gave.
    pub fn passes(&self, seconds: impl IntoIterator<Item = u64>) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.each_pass(seconds, &mut |output| outputs.push(output));
        outputs
    }

    /// The same, one output after the other.
    pub fn each_pass(&self, seconds: impl IntoIterator<Item = u64>, take: &mut dyn FnMut(Output)) {
        each_pass(VENDOR, &mut self.library(), &|at_ns| self.control.set_now(at_ns), seconds, take);
    }
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
