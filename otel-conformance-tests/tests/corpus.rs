//! Configurations as users have them, in `corpus/`: what a real Collector accepts, warptap accepts with that Collector beside it, and
//! the other way round.
//!
//! The Collector is that of the variable `WARPTAP_COLLECTOR`, or the one that was built for these tests, which has few components. Files
//! with components that it does not have are counted and not compared.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test, which says what it found")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use otel_conformance_tests::{collector_program, peer, warptap_program};

/// Files that only one of them accepts, and why.
const EXCEPTIONS: [(&str, &str); 1] = [(
    "vendor-openobserve-kubernetes-agent.yaml",
    "the Collector's detector k8snode cannot be created outside of a cluster; warptap's detects nothing there",
)];

/// Variables that the files refer to without a default.
const VARIABLES: [(&str, &str); 4] = [
    ("K8S_NODE_NAME", "a"),
    ("LISTEN_HTTP", "localhost:4318"),
    ("MY_POD_IP", "127.0.0.1"),
    ("NODE_NAME", "a"),
];

/// The verdicts of both about a file.
struct Verdict {
    file: String,
    /// What the Collector says against it.
    collector: Option<String>,
    /// What warptap says against it.
    warptap: Option<String>,
}

#[test]
fn what_the_collector_accepts_is_accepted_and_nothing_else() {
    let Some(warptap) = peer(warptap_program()) else { return };
    let named = std::env::var_os("WARPTAP_COLLECTOR").map(PathBuf::from);
    let Some(collector) = named.or_else(|| peer(collector_program())) else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut files: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let verdicts: Vec<Verdict> =
        files.iter().filter_map(|file| compare(file, &warptap, &collector)).collect();
    let both = |accepted: bool| {
        verdicts
            .iter()
            .filter(|v| v.collector.is_none() == accepted && v.warptap.is_none() == accepted)
            .count()
    };
    println!(
        "{} files: {} accepted by both, {} refused by both, {} not compared",
        files.len(),
        both(true),
        both(false),
        files.len() - verdicts.len()
    );
    let is_exception = |v: &&Verdict| EXCEPTIONS.iter().any(|(file, _)| *file == v.file);
    let differ = verdicts.iter().filter(|v| v.collector.is_none() != v.warptap.is_none());
    let report: Vec<String> = differ.filter(|v| !is_exception(v)).map(Verdict::report).collect();
    assert!(report.is_empty(), "{}", report.join("\n"));
}

impl Verdict {
    fn report(&self) -> String {
        let said = |verdict: &Option<String>| verdict.as_deref().unwrap_or("accepts it").trim().to_owned();
        format!(
            "{}:\n  the Collector: {}\n  warptap: {}",
            self.file,
            said(&self.collector),
            said(&self.warptap)
        )
    }
}

/// Asks both; returns nothing if the Collector does not have a component of the file.
fn compare(file: &Path, warptap: &Path, collector: &Path) -> Option<Verdict> {
    let ask = |program: &Path| {
        let mut command = Command::new(program);
        command.arg("validate").arg("--config").arg(file).current_dir(std::env::temp_dir());
        command.envs(VARIABLES);
        command
    };
    let by_collector = refusal(&ask(collector).output().unwrap());
    let is_broken = file.to_str().unwrap().ends_with("-broken.yaml");
    if !is_broken && by_collector.as_ref().is_some_and(|said| said.contains("unknown type: ")) {
        return None;
    }
    let by_warptap = refusal(&ask(warptap).arg("--collector").arg(collector).output().unwrap());
    let file = file.file_name().unwrap().to_str().unwrap().to_owned();
    Some(Verdict { file, collector: by_collector, warptap: by_warptap })
}

/// Returns what a program printed if it refused.
fn refusal(output: &Output) -> Option<String> {
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}
