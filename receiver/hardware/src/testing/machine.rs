//! A machine whose driver answers by a script: what is read of it, and when.

use std::path::Path;

use sdk::testing::Output;
use stubs::DriverControl;

use super::each_pass;
use crate::{Driver, Vendor};

/// A driver of its own, in a folder of its own.
pub struct Machine<D> {
    _folder: tempfile::TempDir,
    vendor: Vendor,
    library: fn(&Path) -> D,
    /// The stub that answers.
    pub control: DriverControl,
}

impl<D: Driver> Machine<D> {
    /// A machine with this vendor's stub, which `load` puts into a folder and `library` opens there.
    pub fn of(
        vendor: Vendor,
        load: fn(&Path) -> std::io::Result<DriverControl>,
        library: fn(&Path) -> D,
        script: &str,
    ) -> Machine<D> {
        let folder = tempfile::tempdir().expect("a folder");
        let control = load(folder.path()).expect("the stub can be loaded");
        assert!(control.set_script(script), "the script can be read:\n{script}");
        Machine { _folder: folder, vendor, library, control }
    }

    /// The vendor's own way to its library.
    pub fn library(&self) -> D {
        (self.library)(self.control.path())
    }

    /// Passes at these seconds of the script, and everything that they gave.
    pub fn passes(&self, seconds: impl IntoIterator<Item = u64>) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.each_pass(seconds, &mut |output| outputs.push(output));
        outputs
    }

    /// The same, one output after the other.
    pub fn each_pass(&self, seconds: impl IntoIterator<Item = u64>, take: &mut dyn FnMut(Output)) {
        each_pass(self.vendor, &mut self.library(), &|at_ns| self.control.set_now(at_ns), seconds, take);
    }
}
