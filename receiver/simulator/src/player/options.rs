//! The player's command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;

use clap::{CommandFactory as _, Parser};

use super::PlayError;
use crate::scripts;

/// What to play.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source {
    /// A script in a file.
    File(PathBuf),
    /// A built-in script.
    BuiltIn(String),
    /// A profiler trace.
    Trace(PathBuf),
    /// A call of every function of the device libraries.
    Sentinels,
    /// A call of every function of libnccl.
    NcclSentinels,
}

impl Source {
    fn of(text: &str) -> Result<Source, String> {
        let path = PathBuf::from(text);
        Ok(match text.strip_prefix('@') {
            Some(name) => Source::BuiltIn(name.to_string()),
            None if text.ends_with(".json") || text.ends_with(".json.gz") => Source::Trace(path),
            None => Source::File(path),
        })
    }

    /// Returns the command line argument of the source.
    pub(super) fn name(&self) -> String {
        match self {
            Source::File(path) | Source::Trace(path) => path.display().to_string(),
            Source::BuiltIn(name) => format!("@{name}"),
            Source::Sentinels => "--sentinels".into(),
            Source::NcclSentinels => "--nccl-sentinels".into(),
        }
    }

    /// Returns the name and the text of a script.
    pub(super) fn script(&self) -> Result<(String, String), PlayError> {
        let text = match self {
            Source::BuiltIn(name) => scripts::find(name).map(str::to_string).ok_or_else(|| {
                let names: Vec<_> = scripts::SCRIPTS.iter().map(|(name, _)| *name).collect();
                let known = names.join(", ");
                PlayError::Usage(format!("no built-in script '{name}'; expected one of {known}"))
            })?,
            Source::File(path) | Source::Trace(path) => std::fs::read_to_string(path)
                .map_err(PlayError::file(format!("read script {}", path.display())))?,
            Source::Sentinels | Source::NcclSentinels => String::new(),
        };
        Ok((self.name(), text))
    }
}

/// The parsed command line.
#[derive(Clone, Debug, Parser, PartialEq)]
#[command(name = "player", about = "Calls the stub libraries as a script or a profiler trace describes")]
#[command(no_binary_name = true)]
pub(super) struct Options {
    /// Script FILE, @NAME of a built-in script, or PyTorch profiler trace (*.json, *.json.gz)
    #[arg(value_name = "FILE|@NAME", value_parser = Source::of)]
    #[arg(required_unless_present_any = ["sentinels", "nccl_sentinels"])]
    file: Option<Source>,
    /// Call every function of the device libraries once
    #[arg(long)]
    sentinels: bool,
    /// Call every function of libnccl once
    #[arg(long)]
    nccl_sentinels: bool,
    /// Divide all times by this factor
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = positive, allow_negative_numbers = true)]
    pub(super) speed: f64,
    /// End after this time, whatever the script says
    #[arg(long = "seconds", value_name = "N", value_parser = nanoseconds, allow_negative_numbers = true)]
    pub(super) seconds_ns: Option<u64>,
    /// End each repeat of a given time after this number of turns, too
    #[arg(long, value_name = "N", value_parser = turns, allow_negative_numbers = true)]
    pub(super) turns: Option<u64>,
    /// Write the oracle log to this file
    #[arg(long, value_name = "FILE")]
    pub(super) oracle: Option<PathBuf>,
    /// Install the stub libraries in this directory and leave them there
    #[arg(long, value_name = "DIR")]
    pub(super) stubs: Option<PathBuf>,
    /// Wait for a line on standard input before the first call, and for its end before exiting
    #[arg(long)]
    pub(super) wait_go: bool,
    /// Process of the script, or rank, that this player plays; set by a parent player.
    #[arg(long, hide = true)]
    pub(super) process: Option<String>,
    /// Directory in which ranks meet; set by a parent player.
    #[arg(long, hide = true)]
    pub(super) meeting: Option<PathBuf>,
    /// Append to the oracle log and use the installed stubs; set by a parent player.
    #[arg(long, hide = true)]
    pub(super) goes_on: bool,
    /// Remove the directory of the stubs at the end; set by a parent player.
    #[arg(long, hide = true)]
    pub(super) remove_stubs: bool,
    /// Remove the directory of the stubs at the start signal, when all processes have mapped them; for scripts without an
    /// exec. Set by a parent.
    #[arg(long, hide = true)]
    pub(super) unlink_stubs: bool,
    /// How this process received its options.
    #[arg(skip)]
    pub(super) origin: Origin,
}

/// How a process received its options, so that another can be started with options of its own.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Origin {
    /// As its last arguments; these preceded them.
    Arguments(Vec<OsString>),
    /// In this environment variable, one argument per line.
    Variable(String),
}

impl Default for Origin {
    fn default() -> Origin {
        Origin::Arguments(Vec::new())
    }
}

impl Origin {
    /// Returns a command that runs this program with other options.
    pub(super) fn again(&self, arguments: &[OsString]) -> Command {
        let own = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
        let mut command = Command::new(own);
        match self {
            Origin::Arguments(before) => {
                command.args(before.iter().skip(1)).args(arguments);
            }
            Origin::Variable(name) => {
                let lines = arguments.join(OsStr::new("\n"));
                command.args(std::env::args_os().skip(1)).env(name, lines);
            }
        }
        command
    }
}

impl Options {
    /// Parses the last arguments of this process.
    pub(super) fn last(arguments: Vec<OsString>) -> Result<Options, PlayError> {
        let before = std::env::args_os().len().saturating_sub(arguments.len());
        let origin = Origin::Arguments(std::env::args_os().take(before).collect());
        Ok(Options { origin, ..Options::try_parse_from(arguments)? })
    }

    /// Parses the value of an environment variable.
    pub(super) fn of_variable(name: &str, value: &OsStr) -> Result<Options, PlayError> {
        let lines = value.as_bytes().split(|byte| *byte == b'\n');
        let options = Options::try_parse_from(lines.map(OsStr::from_bytes))?;
        Ok(Options { origin: Origin::Variable(name.to_string()), ..options })
    }

    /// Returns what to play.
    pub(super) fn source(&self) -> Source {
        match &self.file {
            Some(source) => source.clone(),
            None if self.sentinels => Source::Sentinels,
            None => Source::NcclSentinels,
        }
    }

    /// Returns the usage line.
    pub(super) fn usage() -> String {
        Options::command().render_usage().to_string()
    }

    /// Returns the arguments of a player that plays `source` with the same options.
    pub(super) fn again(&self, source: &OsString) -> Vec<OsString> {
        let mut again =
            vec![source.clone(), "--speed".into(), self.speed.to_string().into(), "--goes-on".into()];
        let values = [
            ("--oracle", self.oracle.clone().map(Into::into)),
            ("--turns", self.turns.map(|turns| turns.to_string().into())),
            ("--seconds", self.seconds_ns.map(|ns| (ns as f64 / 1e9).to_string().into())),
        ];
        for (name, value) in values {
            again.extend(value.into_iter().flat_map(|value| [name.into(), value]));
        }
        again
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
    number.ok_or_else(|| "expected a number above 0".to_string())
}

fn nanoseconds(text: &str) -> Result<u64, String> {
    positive(text).map(|seconds| (seconds * 1e9) as u64)
}

fn turns(text: &str) -> Result<u64, String> {
    positive(text).map(|turns| turns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        Options::last(arguments.iter().map(Into::into).collect()).map_err(|e| e.to_string())
    }

    #[test]
    fn command_line_survives_a_round_trip() {
        let options =
            parse(&["a.script", "--speed", "2.5", "--oracle", "o", "--seconds", "3", "--turns", "9"])
                .unwrap();
        assert_eq!((options.speed, options.seconds_ns, options.turns), (2.5, Some(3_000_000_000), Some(9)));
        let again: Vec<_> =
            options.again(&"b".into()).iter().map(|a| a.to_string_lossy().into_owned()).collect();
        let again = parse(&again.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        let expected = Options { file: Some(Source::File("b".into())), goes_on: true, ..options };
        assert_eq!(Options { origin: expected.origin.clone(), ..again }, expected);
    }

    #[test]
    fn wrong_command_lines_are_refused() {
        for (arguments, part) in [
            (&[][..], "not provided"),
            (&["a", "b"], "'b'"),
            (&["a", "--speed"], "a value is required"),
            (&["a", "--speed", "-1"], "'-1'"),
            (&["a", "--fast"], "'--fast'"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(part) && error.contains("--help"), "{error}");
        }
    }
}
