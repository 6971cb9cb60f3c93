//! The player: calls the stub libraries as a script or a profiler trace describes, on real threads.
//!
//! See `player --help` for its options. With `--wait-go` it prints `@player ready PID` when the libraries are mapped, makes
//! no call before it has read a line, prints `@player done CALLS` at the end, and exits when its input is closed; so a test
//! attaches before the first call and reads counters after the last one, without sleeping. Such a player, and the
//! players that it starts, end with their parent and leave no directory.
//!
//! The player is a function, so that any binary can be the traced program by running itself again.

mod calls;
mod lines;
mod nccl_sentinels;
mod options;
mod parent;
mod plan;
mod protocol;
mod ranks;
mod replay;
mod run;
mod sentinels;
mod spin;
mod temporary;
mod world;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use probe_abi::Library;

use crate::functions::{Functions, LoadError, Own};
use crate::install::install;
use crate::model::clock;
use crate::nccl_calls::Nccl;
use crate::oracle::{Line, Log, ProcessLine};
use crate::ranks::RankScript;
use crate::script::Script;
use crate::script::parse::parse;
use crate::text::ParseError;
use options::{Options, Source};
use temporary::TemporaryDir;
use world::World;

pub use protocol::{Player, ProtocolError};

/// An error of the player.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The command line could not be parsed, or asks for help.
    #[error(transparent)]
    Options(#[from] clap::Error),
    /// The command line does not fit the script.
    #[error("{0}\n{usage}", usage = Options::usage())]
    Usage(String),
    /// A script could not be parsed.
    #[error("{name}: {source}")]
    Script {
        /// Name of the script.
        name: String,
        /// Line and problem.
        source: ParseError,
    },
    /// A trace could not be read.
    #[error("{name}: {problem}")]
    Trace {
        /// Path of the trace.
        name: String,
        /// Description of the problem.
        problem: String,
    },
    /// A stub library could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// An operation on a file failed.
    #[error("cannot {action}: {source}")]
    File {
        /// Operation and path.
        action: String,
        /// Cause of the failure.
        source: std::io::Error,
    },
}

impl PlayError {
    fn file(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> PlayError {
        let action = action.into();
        move |source| PlayError::File { action, source }
    }
}

/// Runs the player with the last arguments of this process, without the program name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    run_main(Options::last(arguments.into_iter().collect()), None)
}

/// Runs the player with the arguments in an environment variable, one per line; returns `None` if it is not set. For test
/// programs that run themselves again as the traced program, with their own arguments unchanged.
pub fn main_by_variable(name: &str) -> Option<ExitCode> {
    let value = std::env::var_os(name)?;
    Some(run_main(Options::of_variable(name, &value), None))
}

/// Runs the player in a program that contains libcudart's functions itself.
pub fn main_with_own(arguments: impl IntoIterator<Item = OsString>, own: Own) -> ExitCode {
    run_main(Options::last(arguments.into_iter().collect()), Some(own))
}

fn run_main(options: Result<Options, PlayError>, own: Option<Own>) -> ExitCode {
    match options.and_then(|options| play(&options, own)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(PlayError::Options(error)) => {
            let _ = error.print();
            ExitCode::from(if error.use_stderr() { 2 } else { 0 })
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "player: {error}");
            ExitCode::from(2)
        }
    }
}

fn play(options: &Options, own: Option<Own>) -> Result<(), PlayError> {
    if options.wait_go {
        parent::end_with_parent();
    }
    let play = Play::of(options)?;
    let stubs = StubDir::of(options)?;
    let functions = load(&stubs, &play, own)?;
    let nccl = match play {
        Play::NcclSentinels | Play::Ranks(_) => {
            Some(Nccl::load(&crate::install::Paths::under(stubs.path()).nccl)?)
        }
        _ => None,
    };
    let log = match &options.oracle {
        Some(path) => Log::open(path, options.goes_on)
            .map_err(PlayError::file(format!("open oracle log {}", path.display())))?,
        None => Log::default(),
    };
    let calls = match play {
        Play::Ranks(script) => {
            return match (&options.process, &nccl) {
                (Some(_), Some(nccl)) => ranks::play(&script, options, &functions, nccl, &log),
                _ => ranks::lead(&script, options, stubs),
            };
        }
        Play::Script(script) => play_script(script, functions, &log, options, stubs)?,
        Play::Sentinels | Play::NcclSentinels | Play::Trace(_) if !protocol::ready(options.wait_go) => None,
        Play::Sentinels => {
            begin(&log, options, 0)?;
            Some(sentinels::run(&functions, &log).map_err(PlayError::file("write the oracle log"))?)
        }
        Play::NcclSentinels => {
            begin(&log, options, 0)?;
            let run = |nccl| nccl_sentinels::run(nccl, &log).map_err(PlayError::file("write the oracle log"));
            Some(nccl.as_ref().map(run).transpose()?.unwrap_or(0))
        }
        Play::Trace(plan) => {
            begin(&log, options, plan.left_out)?;
            let run = replay::run(&plan, &functions, &log, options.speed);
            Some(run.map_err(PlayError::file("write the oracle log"))?)
        }
    };
    if let Some(calls) = calls {
        protocol::done(options.wait_go, calls);
    }
    Ok(())
}

/// Plays a script; returns the number of calls, or `None` if the input ended before the start.
fn play_script(
    script: Box<Script>,
    functions: Functions,
    log: &Log,
    options: &Options,
    stubs: StubDir,
) -> Result<Option<u64>, PlayError> {
    let world = World::new(script, functions, log.clone(), options, stubs.path())?;
    let others = run::start_others(&world)?;
    if !protocol::ready(options.wait_go) {
        return Ok(None);
    }
    let _stubs = stubs.needed_after_start(options);
    begin(log, options, 0)?;
    run::run(world.begin(), others).map(Some)
}

/// Logs the start of the process.
fn begin(log: &Log, options: &Options, left_out: u64) -> Result<(), PlayError> {
    let began = ProcessLine {
        pid: std::process::id(),
        script: options.source().name(),
        at_ns: clock::now_ns(),
        left_out,
    };
    log.write(&[Line::Process(began)]).map_err(PlayError::file("write the oracle log"))
}

/// The parsed input of the player.
enum Play {
    Script(Box<Script>),
    Sentinels,
    NcclSentinels,
    Ranks(RankScript),
    Trace(plan::Plan),
}

impl Play {
    fn of(options: &Options) -> Result<Play, PlayError> {
        match options.source() {
            Source::Sentinels => Ok(Play::Sentinels),
            Source::NcclSentinels => Ok(Play::NcclSentinels),
            Source::Trace(path) => Ok(Play::Trace(plan::Plan::read(&path)?)),
            source => {
                let (name, text) = source.script()?;
                let play = match crate::ranks::is_ranks(&text) {
                    true => crate::ranks::parse(&text).map(Play::Ranks),
                    false => parse(&text).map(|script| Play::Script(Box::new(script))),
                };
                play.map_err(|source| PlayError::Script { name, source })
            }
        }
    }

    /// Returns the libraries that it calls, the lowest first.
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

/// The directory of the stub libraries.
enum StubDir {
    /// Removed on drop.
    Owned(TemporaryDir),
    /// Remains.
    Given(PathBuf),
}

impl StubDir {
    fn of(options: &Options) -> Result<StubDir, PlayError> {
        let stubs = match &options.stubs {
            Some(dir) if !options.remove_stubs => StubDir::Given(dir.clone()),
            Some(dir) => StubDir::Owned(TemporaryDir::adopt(dir.clone())),
            None => StubDir::Owned(
                TemporaryDir::create("stubs")
                    .map_err(PlayError::file("create a directory for the stub libraries"))?,
            ),
        };
        let dir = stubs.path();
        if !(options.goes_on && dir.is_dir()) {
            install(dir)
                .map_err(PlayError::file(format!("install the stub libraries in {}", dir.display())))?;
        }
        Ok(stubs)
    }

    fn path(&self) -> &Path {
        match self {
            StubDir::Owned(dir) => dir.path(),
            StubDir::Given(dir) => dir,
        }
    }

    /// Removes the directory if no process needs it once all have mapped the libraries.
    fn needed_after_start(self, options: &Options) -> Option<StubDir> {
        (!options.unlink_stubs).then_some(self)
    }
}

fn load(stubs: &StubDir, play: &Play, own: Option<Own>) -> Result<Functions, PlayError> {
    let paths = crate::install::Paths::under(stubs.path());
    let mut libraries = play.libraries();
    libraries.retain(|library| own.is_none() || *library != Library::Cudart);
    let functions = Functions::load(&paths, &libraries)?;
    Ok(match own {
        Some(own) => functions.with_own(Library::Cudart, &own),
        None => functions,
    })
}
