//! The player: makes the calls that a script or a profiler trace tells it to make, on real threads.
//!
//! ```text
//! player FILE [--speed X] [--seconds N] [--turns N] [--oracle FILE] [--stubs DIR] [--wait-go]
//! player --sentinels|--nccl-sentinels [--oracle FILE] [--stubs DIR] [--wait-go]
//! ```
//!
//! FILE is a script (see [`crate::script`]), `@NAME` for one of the built-in ones, or a PyTorch profiler trace
//! (`*.json`, `*.json.gz`). `--seconds` ends the play, whatever the script says; `--turns` ends each `repeat` that
//! goes by time after so many turns, so that a demonstration makes the same calls twice. With `--wait-go` it prints `@player ready PID` once the libraries are mapped, makes
//! no call before it has read a line, prints `@player done CALLS` at the end, and goes when its input closes: so
//! a test attaches before the first call and counts after the last, without sleeping.
//!
//! The one idea: the player is a function, so that any binary can be the traced program by running itself again.

mod calls;
mod lines;
mod nccl_sentinels;
mod options;
mod plan;
mod protocol;
mod ranks;
mod replay;
mod run;
mod sentinels;
mod spin;
mod world;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use probe_abi::Library;

use crate::functions::{Functions, LoadError, Own};
use crate::install::install;
use crate::model::clock;
use crate::nccl_calls::Nccl;
use crate::oracle::{Line, Log, ProcessLine};
use crate::ranks::{RankError, RankScript};
use crate::script::parse::{ParseError, parse};
use options::{Options, Source};

pub use protocol::{Player, ProtocolError};

/// The player could not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The command line.
    #[error("{0}\n{usage}", usage = options::USAGE)]
    Usage(String),
    /// A script.
    #[error("{name}: {source}")]
    Script {
        /// Its name.
        name: String,
        /// What is wrong.
        source: ParseError,
    },
    /// A script of ranks.
    #[error("{name}: {source}")]
    Ranks {
        /// Its name.
        name: String,
        /// What is wrong.
        source: RankError,
    },
    /// A trace.
    #[error("{name}: {problem}")]
    Trace {
        /// Its path.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// A stub library.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A file.
    #[error("cannot {what}: {source}")]
    File {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

impl PlayError {
    fn file(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> PlayError {
        let what = what.into();
        move |source| PlayError::File { what, source }
    }
}

/// Runs the player with these arguments, program name left out; the last arguments of this process.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    run_main(Options::last(arguments.into_iter().collect()), None)
}

/// Runs the player with the arguments that stand in this variable of the environment, one a line; `None` where
/// there is no such variable. For a test program that runs itself again as the traced one: its own arguments stay
/// as they are, for a process that the player starts too.
pub fn main_by_variable(name: &str) -> Option<ExitCode> {
    let value = std::env::var_os(name)?;
    Some(run_main(Options::of_variable(name, &value), None))
}

/// The same for a program that holds libcudart's functions itself.
pub fn main_with_own(arguments: impl IntoIterator<Item = OsString>, own: Own) -> ExitCode {
    run_main(Options::last(arguments.into_iter().collect()), Some(own))
}

fn run_main(options: Result<Options, PlayError>, own: Option<Own>) -> ExitCode {
    match options.and_then(|options| play(&options, own)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "player: {error}");
            ExitCode::from(2)
        }
    }
}

fn play(options: &Options, own: Option<Own>) -> Result<(), PlayError> {
    let play = Play::of(options)?;
    let stubs = StubDir::of(options)?;
    let functions = load(&stubs, &play, own)?;
    let nccl = match play {
        Play::NcclSentinels | Play::Ranks(_) => {
            Some(Nccl::load(&crate::install::Paths::under(&stubs.dir).nccl)?)
        }
        _ => None,
    };
    let log = match &options.oracle {
        Some(path) => Log::open(path, options.goes_on)
            .map_err(PlayError::file(format!("open oracle log {}", path.display())))?,
        None => Log::default(),
    };
    if let (Play::Ranks(script), Some(nccl)) = (&play, &nccl) {
        return match options.process {
            Some(_) => ranks::play(script, options, &functions, nccl, &log),
            None => ranks::lead(script, options, &stubs.dir),
        };
    }
    if !protocol::ready(options.wait_go) {
        return Ok(());
    }
    let began = ProcessLine {
        pid: std::process::id(),
        script: options.source.name(),
        at_ns: clock::now_ns(),
        left_out: if let Play::Trace(plan) = &play { plan.left_out } else { 0 },
    };
    let write = |lines: &[Line]| log.write(lines).map_err(PlayError::file("write the oracle log"));
    write(&[Line::Process(began)])?;
    let calls = match play {
        Play::Script(script) => run::run(world::World::new(script, functions, log, options, &stubs.dir)?)?,
        Play::Sentinels => {
            sentinels::run(&functions, &log).map_err(PlayError::file("write the oracle log"))?
        }
        Play::NcclSentinels | Play::Ranks(_) => match &nccl {
            Some(nccl) => nccl_sentinels::run(nccl, &log).map_err(PlayError::file("write the oracle log"))?,
            None => 0,
        },
        Play::Trace(plan) => replay::run(&plan, &functions, &log, options.speed)
            .map_err(PlayError::file("write the oracle log"))?,
    };
    drop(stubs);
    protocol::done(options.wait_go, calls);
    Ok(())
}

/// What is to be played.
enum Play {
    Script(Box<crate::script::Script>),
    Sentinels,
    NcclSentinels,
    Ranks(RankScript),
    Trace(plan::Plan),
}

impl Play {
    fn of(options: &Options) -> Result<Play, PlayError> {
        match &options.source {
            Source::Sentinels => Ok(Play::Sentinels),
            Source::NcclSentinels => Ok(Play::NcclSentinels),
            Source::Trace(path) => Ok(Play::Trace(plan::Plan::read(path)?)),
            source => {
                let (name, text) = source.script()?;
                if crate::ranks::is_ranks(&text) {
                    let script = crate::ranks::parse(&text);
                    return Ok(Play::Ranks(script.map_err(|source| PlayError::Ranks { name, source })?));
                }
                let script = parse(&text).map_err(|source| PlayError::Script { name, source })?;
                Ok(Play::Script(Box::new(script)))
            }
        }
    }

    /// The libraries it calls, the lowest first.
    fn libraries(&self) -> Vec<Library> {
        match self {
            Play::Script(script) => script.api.libraries().to_vec(),
            Play::Sentinels => vec![Library::Cuda, Library::Cudart, Library::Amdhip],
            Play::NcclSentinels => Vec::new(),
            Play::Ranks(_) => vec![Library::Cuda, Library::Cudart],
            Play::Trace(plan) => plan.libraries(),
        }
    }
}

/// The directory with the libraries; one of our own making ends with us.
struct StubDir {
    dir: PathBuf,
    is_ours: bool,
}

impl StubDir {
    fn of(options: &Options) -> Result<StubDir, PlayError> {
        let ours = std::env::temp_dir().join(format!("warptap-stubs-{}", std::process::id()));
        let dir = options.stubs.clone().unwrap_or(ours);
        let is_there = options.goes_on && dir.is_dir();
        if !is_there {
            install(&dir).map_err(PlayError::file(format!("install the stubs in {}", dir.display())))?;
        }
        Ok(StubDir { is_ours: options.stubs.is_none() || options.remove_stubs, dir })
    }
}

impl Drop for StubDir {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

fn load(stubs: &StubDir, play: &Play, own: Option<Own>) -> Result<Functions, PlayError> {
    let paths = crate::install::Paths::under(&stubs.dir);
    let mut libraries = play.libraries();
    libraries.retain(|library| own.is_none() || *library != Library::Cudart);
    let functions = Functions::load(&paths, &libraries)?;
    Ok(match own {
        Some(own) => functions.with_own(Library::Cudart, &own),
        None => functions,
    })
}
