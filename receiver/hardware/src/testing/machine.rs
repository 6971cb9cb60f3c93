//! A machine whose driver answers by a script.

use std::collections::BTreeSet;
use std::path::Path;

use instrumentation::testing::Output;
use simulator::DriverControl;

use super::{each_poll, log_records, points};
use crate::{Driver, Vendor};

/// A machine with its own stub library in its own folder.
pub struct Machine<D> {
    _folder: tempfile::TempDir,
    vendor: Vendor,
    library: fn(&Path) -> D,
    /// Control of the stub library.
    pub control: DriverControl,
}

impl<D: Driver> Machine<D> {
    /// Returns a machine with the vendor's stub, which `load` installs in a folder and `library` opens there.
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

    /// Returns the vendor's driver for the stub library.
    pub fn library(&self) -> D {
        (self.library)(self.control.path())
    }

    /// Returns the output of a poll at each of these seconds of the script.
    pub fn polls(&self, seconds: impl IntoIterator<Item = u64>) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.each_poll(seconds, &mut |output| outputs.push(output));
        outputs
    }

    /// Polls at each of these seconds of the script and passes each output to `take`.
    pub fn each_poll(&self, seconds: impl IntoIterator<Item = u64>, take: &mut dyn FnMut(Output)) {
        each_poll(self.vendor, &mut self.library(), &|at_ns| self.control.set_now(at_ns), seconds, take);
    }

    /// Returns the log records of each poll: the event name without its prefix, and the body.
    pub fn story(&self, seconds: impl IntoIterator<Item = u64>) -> Vec<Vec<(String, String)>> {
        let short = |(name, body): (String, String)| (name.replace("gpu.hardware.", ""), body);
        self.polls(seconds)
            .iter()
            .map(|output| log_records(output).into_iter().map(short).collect())
            .collect()
    }

    /// Compares the log records of a poll every ten seconds with `want`; the first poll discovers the devices.
    #[track_caller]
    pub fn check_story(&self, want: &[&[(&str, &str)]]) {
        let found = self.story((0..want.len() as u64).map(|n| n * 10));
        assert!(found[0].iter().any(|(name, _)| name == "device.discovered"), "{:?}", found[0]);
        for (at, (found, want)) in found.iter().zip(want).enumerate().skip(1) {
            let want: Vec<(String, String)> =
                want.iter().map(|(name, body)| ((*name).to_owned(), (*body).to_owned())).collect();
            assert_eq!(*found, want, "at {} s", at * 10);
        }
    }
}

/// Compares all points of an output with `expected`, in which abbreviations are replaced first.
#[track_caller]
pub fn check_points(output: &Output, expected: &[(&str, f64)], abbreviations: &[(&str, &str)]) {
    let whole = |written: &str| {
        abbreviations.iter().fold(written.to_owned(), |text, (short, long)| text.replace(short, long))
    };
    let found = points(output);
    for (written, value) in expected {
        let written = whole(written);
        let point = found.get(&written).unwrap_or_else(|| panic!("{written} is not among {found:#?}"));
        assert_eq!(point, value, "{written}");
    }
    let wanted: BTreeSet<String> = expected.iter().map(|(written, _)| whole(written)).collect();
    let more: Vec<&String> = found.keys().filter(|key| !wanted.contains(*key)).collect();
    assert_eq!(more, [""; 0], "unexpected points");
}
