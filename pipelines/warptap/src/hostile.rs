//! Configurations from an enemy: what the fuzz target and the smoke test hold the loader to.
//!
//! Whatever the bytes, loading ends, does not panic, says the same twice, and refuses with words.

use std::io;

use crate::components::FACTORIES;
use crate::config::Outside;
use crate::prepare::prepare;

/// Loads `data` as a configuration, whose parts between NUL bytes are the main text, and the texts that any
/// variable and any file hold. Panics where the loader does not keep its promises.
pub fn check(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == 0);
    let mut part = || parts.next().unwrap_or_default().to_vec();
    let world = World { main: part(), variable: part(), file: part() };
    let location = format!("yaml:{}", String::from_utf8_lossy(&world.main));
    let outcome = || prepare(std::slice::from_ref(&location), &world, FACTORIES).map(drop);
    match (outcome(), outcome()) {
        (Ok(()), Ok(())) => {}
        (Err(first), Err(second)) => {
            assert_eq!(first, second, "the same bytes are refused in the same words");
            assert!(!first.problems().is_empty(), "a refusal says why");
            assert!(first.problems().iter().all(|p| !p.message.is_empty()), "every problem has words");
        }
        (first, second) => panic!("once {first:?}, once {second:?}"),
    }
}

struct World {
    main: Vec<u8>,
    variable: Vec<u8>,
    file: Vec<u8>,
}

impl Outside for World {
    fn env(&self, _name: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.variable).into_owned())
    }

    fn read(&self, _path: &str, _limit: usize) -> io::Result<Vec<u8>> {
        Ok(self.file.clone())
    }
}
