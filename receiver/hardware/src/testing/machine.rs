//! A machine whose driver answers by a script: what is read of it, and when.

use std::collections::BTreeSet;
use std::path::Path;

use instrumentation::testing::Output;
use simulator::DriverControl;

use super::{each_pass, points, told};
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

    /// What is told at each pass: the event's name without its beginning, and the body.
    pub fn story(&self, seconds: impl IntoIterator<Item = u64>) -> Vec<Vec<(String, String)>> {
        let short = |(name, body): (String, String)| (name.replace("gpu.hardware.", ""), body);
        self.passes(seconds).iter().map(|output| told(output).into_iter().map(short).collect()).collect()
    }

    /// Holds what is told every ten seconds against this; at first the devices are seen.
    #[track_caller]
    pub fn check_story(&self, want: &[&[(&str, &str)]]) {
        let found = self.story((0..want.len() as u64).map(|n| n * 10));
        assert!(found[0].iter().any(|(name, _)| name == "seen"), "{:?}", found[0]);
        for (at, (found, want)) in found.iter().zip(want).enumerate().skip(1) {
            let want: Vec<(String, String)> =
                want.iter().map(|(name, body)| ((*name).to_owned(), (*body).to_owned())).collect();
            assert_eq!(*found, want, "at {} s", at * 10);
        }
    }
}

/// Holds all points of an output against what is written of them, with abbreviations for what is long; there are no
/// others.
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
    assert_eq!(more, [""; 0], "points that nobody expected");
}
