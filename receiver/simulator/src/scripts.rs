//! The scripts that come with the player, inside it: `@NAME` on its command line.

macro_rules! scripts {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../scripts/", $name, ".script")))),*]
    };
}

/// Name and text, sorted by name.
pub static SCRIPTS: &[(&str, &str)] = scripts![
    "after-exec",
    "async-scheduling",
    "cold-start",
    "cpu-contention",
    "default-streams-of-devices",
    "exec",
    "faults",
    "fork-join",
    "gpu-steal",
    "graphs",
    "incident",
    "late-rank",
    "legacy-default-stream",
    "memcpy-bottleneck",
    "own-default-streams",
    "periodic-spike",
    "polling",
    "pools",
    "reused-handles",
    "sglang-overlap",
    "slow-decode",
    "tensorrt-llm",
    "tgi",
    "torch-inference",
    "train",
    "train-sparse",
    "two-devices",
    "two-threads",
    "vllm-async",
    "vllm-eager",
    "vllm-graphs",
    "vllm-hip",
    "vllm-v1",
];

/// The scripts that a demonstration can run: they go on for an hour, or as long as `--seconds` says.
pub static DEMOS: &[&str] = &[
    "cold-start",
    "cpu-contention",
    "gpu-steal",
    "incident",
    "late-rank",
    "memcpy-bottleneck",
    "periodic-spike",
    "slow-decode",
];

/// Pieces that scripts include.
static PIECES: &[(&str, &str)] = &[("engine", include_str!("../scripts/engine.piece"))];

/// The built-in script of this name.
pub fn find(name: &str) -> Option<&'static str> {
    SCRIPTS.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// The piece of this name.
pub(crate) fn piece(name: &str) -> Option<&'static str> {
    PIECES.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks;
    use crate::script::parse::parse;

    #[test]
    fn every_script_can_be_read() {
        for (name, text) in SCRIPTS {
            let problem = match ranks::is_ranks(text) {
                true => ranks::parse(text).err().map(|e| e.to_string()),
                false => parse(text).err().map(|e| e.to_string()),
            };
            assert_eq!(problem, None, "@{name}");
        }
        assert!(SCRIPTS.windows(2).all(|w| w[0].0 < w[1].0));
        assert!(DEMOS.iter().all(|name| find(name).is_some()));
    }

    #[test]
    fn every_file_is_among_the_scripts() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
        for entry in std::fs::read_dir(dir).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let known = match name.strip_suffix(".script") {
                Some(name) => find(name).is_some(),
                None => piece(name.trim_end_matches(".piece")).is_some(),
            };
            assert!(known, "{name}");
        }
    }
}
