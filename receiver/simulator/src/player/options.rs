//! The player's command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;

use super::PlayError;
use crate::scripts;

/// How it is called.
pub(super) const USAGE: &str = "usage: player FILE|@NAME|--sentinels|--nccl-sentinels [--speed X] [--seconds N] [--turns N] \
     [--oracle FILE] [--stubs DIR] [--wait-go]";

/// What to play.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source {
    /// A script in a file.
    File(PathBuf),
    /// A built-in script.
    BuiltIn(String),
    /// A profiler trace.
    Trace(PathBuf),
    /// A call of everything.
    Sentinels,
    /// A call of everything in libnccl.
    NcclSentinels,
}

impl Source {
    fn of(text: &OsString) -> Source {
        let path = PathBuf::from(text);
        let name = text.to_string_lossy();
        match name.strip_prefix('@') {
            Some(name) => Source::BuiltIn(name.to_string()),
            None if name.ends_with(".json") || name.ends_with(".json.gz") => Source::Trace(path),
            None => Source::File(path),
        }
    }

    /// As the command line names it.
    pub(super) fn name(&self) -> String {
        match self {
            Source::File(path) | Source::Trace(path) => path.display().to_string(),
            Source::BuiltIn(name) => format!("@{name}"),
            Source::Sentinels => "--sentinels".into(),
            Source::NcclSentinels => "--nccl-sentinels".into(),
        }
    }

    /// A script's name and text.
    pub(super) fn script(&self) -> Result<(String, String), PlayError> {
        let text = match self {
            Source::BuiltIn(name) => match scripts::find(name) {
                Some(text) => text.to_string(),
                None => {
                    let names: Vec<_> = scripts::SCRIPTS.iter().map(|(name, _)| *name).collect();
                    let known = names.join(", ");
                    return Err(PlayError::Usage(format!("no built-in script '{name}'; there are {known}")));
                }
            },
            Source::File(path) | Source::Trace(path) => std::fs::read_to_string(path)
                .map_err(PlayError::file(format!("read script {}", path.display())))?,
            Source::Sentinels | Source::NcclSentinels => String::new(),
        };
        Ok((self.name(), text))
    }
}

/// The parsed command line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Options {
    pub(super) source: Source,
    /// How many times as fast as written.
    pub(super) speed: f64,
    /// To end after, ns, whatever the script says.
    pub(super) seconds_ns: Option<u64>,
    /// Turns after which a `repeat` of some time ends too.
    pub(super) turns: Option<u64>,
    pub(super) oracle: Option<PathBuf>,
    pub(super) stubs: Option<PathBuf>,
    pub(super) wait_go: bool,
    /// Of a process started by a player: which of the script's processes it is.
    pub(super) process: Option<String>,
    /// Of a rank's process: the directory where the ranks meet.
    pub(super) meeting: Option<PathBuf>,
    /// Of a process that takes over: the oracle log and the stubs are there already.
    pub(super) goes_on: bool,
    /// Of a process that takes over: the stubs' directory ends with it.
    pub(super) remove_stubs: bool,
    /// How this process was told what to play, so that another can be.
    pub(super) told: Told,
}

/// How a process is told what to play.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Told {
    /// By its last arguments; these came before them.
    Arguments(Vec<OsString>),
    /// By this variable of its environment, an argument a line.
    Variable(String),
}

impl Told {
    /// This program, told to play by these arguments.
    pub(super) fn again(&self, arguments: &[OsString]) -> Command {
        let own = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
        let mut command = Command::new(own);
        match self {
            Told::Arguments(before) => {
                command.args(before.iter().skip(1)).args(arguments);
            }
            Told::Variable(name) => {
                let lines = arguments.join(OsStr::new("\n"));
                command.args(std::env::args_os().skip(1)).env(name, lines);
            }
        }
        command
    }
}

impl Options {
    /// Reads the last arguments of this process.
    pub(super) fn last(arguments: Vec<OsString>) -> Result<Options, PlayError> {
        let before = std::env::args_os().len().saturating_sub(arguments.len());
        let told = Told::Arguments(std::env::args_os().take(before).collect());
        Options::read(arguments, told)
    }

    /// Reads a variable of the environment.
    pub(super) fn of_variable(name: &str, value: &OsStr) -> Result<Options, PlayError> {
        let lines = value.as_bytes().split(|byte| *byte == b'\n');
        let arguments = lines.map(|line| OsStr::from_bytes(line).to_os_string()).collect();
        Options::read(arguments, Told::Variable(name.to_string()))
    }

    fn read(arguments: Vec<OsString>, told: Told) -> Result<Options, PlayError> {
        let mut options = Options {
            source: Source::Sentinels,
            speed: 1.0,
            seconds_ns: None,
            turns: None,
            oracle: None,
            stubs: None,
            wait_go: false,
            process: None,
            meeting: None,
            goes_on: false,
            remove_stubs: false,
            told,
        };
        let mut source = None;
        let mut rest = arguments.into_iter();
        while let Some(argument) = rest.next() {
            let name = argument.to_string_lossy().into_owned();
            let mut value = || rest.next().ok_or_else(|| PlayError::Usage(format!("{name} lacks its value")));
            match name.as_str() {
                "--speed" => options.speed = positive(&name, &value()?)?,
                "--seconds" => options.seconds_ns = Some((positive(&name, &value()?)? * 1e9) as u64),
                "--turns" => options.turns = Some(positive(&name, &value()?)? as u64),
                "--oracle" => options.oracle = Some(value()?.into()),
                "--stubs" => options.stubs = Some(value()?.into()),
                "--wait-go" => options.wait_go = true,
                "--sentinels" => source = Some(Source::Sentinels),
                "--nccl-sentinels" => source = Some(Source::NcclSentinels),
                "--process" => options.process = Some(value()?.to_string_lossy().into_owned()),
                "--meeting" => options.meeting = Some(value()?.into()),
                "--goes-on" => options.goes_on = true,
                "--remove-stubs" => options.remove_stubs = true,
                _ if name.starts_with("--") => {
                    return Err(PlayError::Usage(format!("unknown option '{name}'")));
                }
                _ if source.is_some() => {
                    return Err(PlayError::Usage(format!("'{name}' is one file too many")));
                }
                _ => source = Some(Source::of(&argument)),
            }
        }
        options.source = source.ok_or_else(|| PlayError::Usage("nothing to play".into()))?;
        Ok(options)
    }

    /// Arguments of a player that plays `source` with the same options.
    pub(super) fn again(&self, source: &OsString) -> Vec<OsString> {
        let mut again =
            vec![source.clone(), "--speed".into(), self.speed.to_string().into(), "--goes-on".into()];
        let mut with = |name: &str, value: Option<OsString>| {
            if let Some(value) = value {
                again.extend([name.into(), value]);
            }
        };
        with("--oracle", self.oracle.clone().map(Into::into));
        with("--turns", self.turns.map(|turns| turns.to_string().into()));
        with("--seconds", self.seconds_ns.map(|ns| (ns as f64 / 1e9).to_string().into()));
        again
    }
}

fn positive(name: &str, value: &OsString) -> Result<f64, PlayError> {
    let text = value.to_string_lossy();
    let number = text.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
    number.ok_or_else(|| PlayError::Usage(format!("{name} is '{text}'; expected a number above 0")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Options, String> {
        Options::last(arguments.iter().map(Into::into).collect()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_command_line_is_read_and_said_again() {
        let options =
            read(&["a.script", "--speed", "2.5", "--oracle", "o", "--seconds", "3", "--turns", "9"]).unwrap();
        assert_eq!((options.speed, options.seconds_ns, options.turns), (2.5, Some(3_000_000_000), Some(9)));
        let again: Vec<_> =
            options.again(&"b".into()).iter().map(|a| a.to_string_lossy().into_owned()).collect();
        let again = read(&again.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        let expected = Options { source: Source::File("b".into()), goes_on: true, ..options };
        assert_eq!(Options { told: expected.told.clone(), ..again }, expected);
    }

    #[test]
    fn wrong_command_lines_are_refused() {
        for (arguments, part) in [
            (&[][..], "nothing to play"),
            (&["a", "b"], "'b'"),
            (&["a", "--speed"], "lacks"),
            (&["a", "--speed", "-1"], "'-1'"),
            (&["a", "--fast"], "'--fast'"),
        ] {
            let error = read(arguments).unwrap_err();
            assert!(error.contains(part) && error.contains("usage"), "{error}");
        }
    }
}
