//! Every file of `config-examples` loads as it is.

use std::io;
use std::path::{Path, PathBuf};

use warptap::components::FACTORIES;
use warptap::config::{Environment, Process, yaml};
use warptap::prepare::prepare;

/// The files of this repository, without variables: an example must load without any being set.
struct Repository;

impl Environment for Repository {
    fn env(&self, _name: &str) -> Option<String> {
        None
    }

    fn read(&self, path: &str, limit: usize) -> io::Result<Vec<u8>> {
        Process.read(path, limit)
    }
}

fn yaml_files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let entries = std::fs::read_dir(folder).expect("the examples are part of the repository");
    let files = entries.map(|entry| entry.expect("the folder can be listed").path());
    let files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
    assert!(!files.is_empty());
    files
}

#[test]
fn every_example_loads() {
    for example in yaml_files("config-examples") {
        let location = format!("file:{}", example.display());
        if let Err(error) = prepare(&[location], &Repository, FACTORIES) {
            panic!("{}: {error}", example.display());
        }
    }
}

#[test]
fn every_kubernetes_manifest_parses_and_names_its_configuration() {
    for path in yaml_files("config-examples/kubernetes") {
        let text = std::fs::read_to_string(&path).expect("a manifest");
        for document in text.split("\n---\n") {
            let source = path.display().to_string().into();
            let node = yaml::parse(document, &source).unwrap_or_else(|error| panic!("{error}"));
            for key in ["apiVersion", "kind", "metadata"] {
                assert!(node.get(key).is_some(), "{}: no {key}", path.display());
            }
        }
        let named =
            text.split_once("--from-file=config.yaml=").and_then(|(_, rest)| rest.split_whitespace().next());
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let configuration = repository.join(named.expect("the manifest names its configuration"));
        assert!(configuration.exists(), "{} is missing", configuration.display());
    }
}
