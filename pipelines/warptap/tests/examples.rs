//! Every file of `config-examples` can be run as it is.

use std::io;
use std::path::{Path, PathBuf};

use warptap::components::{EXPORTERS, FACTORIES, PROCESSORS, RECEIVERS};
use warptap::config::{Outside, Process};
use warptap::prepare::prepare;

/// Types that the examples use and the binary does not have yet. A row that arrives must leave this list:
/// the last test sees to that.
const AWAITED: &[&str] = &[];

/// The files of this repository, and no variables: an example must run without any being set.
struct Repository;

impl Outside for Repository {
    fn env(&self, _name: &str) -> Option<String> {
        None
    }

    fn read(&self, path: &str, limit: usize) -> io::Result<Vec<u8>> {
        Process.read(path, limit)
    }
}

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config-examples");
    let entries = std::fs::read_dir(folder).expect("the examples are part of the repository");
    let files = entries.map(|entry| entry.expect("the folder can be listed").path());
    files.filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect()
}

#[test]
fn every_example_can_be_run() {
    let examples = examples();
    assert!(!examples.is_empty());
    for example in examples {
        let location = format!("file:{}", example.display());
        let Err(error) = prepare(&[location], &Repository, FACTORIES) else { continue };
        let is_awaited = |message: &str| {
            AWAITED.iter().any(|kind| message.starts_with(&format!("unknown type: {kind:?}")))
        };
        let wrong: Vec<_> = error.problems().iter().filter(|p| !is_awaited(&p.message)).collect();
        assert!(wrong.is_empty(), "{error}");
        println!("{}: checked without its components that are not built in yet", example.display());
    }
}

#[test]
fn what_is_awaited_is_not_there() {
    for kind in AWAITED {
        let is_there = RECEIVERS.iter().any(|row| row.answers_to(kind))
            || PROCESSORS.iter().any(|row| row.answers_to(kind))
            || EXPORTERS.iter().any(|row| row.kind == *kind);
        assert!(!is_there, "{kind:?} is built in: take it off AWAITED");
    }
}
