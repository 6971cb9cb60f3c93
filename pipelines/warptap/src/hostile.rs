//! Checks of the loader with hostile configurations, for the fuzz target and the smoke test.
//!
//! For any bytes, loading terminates without a panic, gives the same result twice, and refuses with a message; the
//! printed configuration is valid YAML.

use std::io;
use std::sync::Arc;

use config::Seen;

use crate::cli::PrintMode;
use crate::components::FACTORIES;
use crate::config::gates::Gates;
use crate::config::{Environment, Printed, Sources, load, yaml};
use crate::graph::Plan;
use crate::prepare::{VERSION, prepare};

/// Loads `data` as a configuration. NUL bytes separate the main text, the value of every variable and the content of
/// every file. Panics if the loader breaks one of its guarantees.
pub fn check(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == 0);
    let mut part = || parts.next().unwrap_or_default().to_vec();
    let world = World { main: part(), variable: part(), file: part() };
    let location = format!("yaml:{}", String::from_utf8_lossy(&world.main));
    let outcome = || prepare(std::slice::from_ref(&location), &world, FACTORIES).map(drop);
    match (outcome(), outcome()) {
        (Ok(()), Ok(())) => {}
        (Err(first), Err(second)) => {
            assert_eq!(first, second, "loading is deterministic");
            assert!(!first.problems().is_empty(), "an error has a problem");
            assert!(first.problems().iter().all(|p| !p.message.is_empty()), "every problem has a message");
        }
        (first, second) => panic!("first {first:?}, then {second:?}"),
    }
    print(vec![location.clone()], "", &world);
    let gates = "confmap.enableMergeAppendOption,service.AllowNoPipelines,service.profilesSupport";
    print(vec![location.clone(), "env:VARIABLE".to_owned(), location], gates, &world);
}

/// Prints the resolved configuration of the locations, valid or not.
fn print(locations: Vec<String>, gates: &str, world: &World) {
    let gates = Gates::parse(&[gates]).expect("these gates exist");
    let Ok(loaded) = load(&Sources { locations, gates, ..Sources::default() }, world) else { return };
    let seen = Seen::default();
    let _ = Plan::build(&loaded.sections(&seen), FACTORIES, VERSION, None);
    for mode in [PrintMode::Redacted, PrintMode::Unredacted] {
        let printed = Printed { root: &loaded.root, seen: &seen, mode };
        let text = printed.to_yaml().expect("a tree of plain values can be printed");
        let again = yaml::parse(&text, &Arc::from("printed"));
        assert!(again.is_ok() || text.len() > yaml::TEXT_BYTES_MAX, "{text}\ndoes not read back: {again:?}");
    }
}

struct World {
    main: Vec<u8>,
    variable: Vec<u8>,
    file: Vec<u8>,
}

impl Environment for World {
    fn env(&self, _name: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.variable).into_owned())
    }

    fn read(&self, _path: &str, _limit: usize) -> io::Result<Vec<u8>> {
        Ok(self.file.clone())
    }
}
