//! The processes between this collector and the child: a guard, which ends the child when the collector ends, however it ends;
//! and a short first stage of the child itself, which sets what a process can set for itself only and then becomes the Collector.
//!
//! The guard reads a pipe whose other end only the collector has. When the collector writes to it, or ends, the guard asks the
//! child to end, and kills it if it does not. If the collector has ended, the guard then removes the directory of the sockets. If
//! the guard itself is killed, the kernel asks the child to end (`PR_SET_PDEATHSIG`).

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getppid, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal, setrlimit,
};

use super::directory;

/// What the guard needs to know.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Guarded {
    /// The program of the Collector.
    pub program: PathBuf,
    /// The file of its configuration.
    pub configuration: PathBuf,
    /// The directory that is removed if the collector is gone.
    pub directory: PathBuf,
    /// Largest memory of the child in MiB; 0 for no limit.
    pub memory_limit_mib: u64,
    /// Largest number of cores that the child uses at once; 0 for no limit.
    pub cpus: u64,
}

/// The command of the guard.
pub const GUARD: &str = "guard-collector";
/// The command of the first stage of the child.
pub const STAGE: &str = "exec-collector";

/// Environment variables with the parameters of both.
const PROGRAM: &str = "WARPTAP_CHILD_PROGRAM";
const CONFIGURATION: &str = "WARPTAP_CHILD_CONFIGURATION";
const DIRECTORY: &str = "WARPTAP_CHILD_DIRECTORY";
const MEMORY_MIB: &str = "WARPTAP_CHILD_MEMORY_MIB";
const CPUS: &str = "WARPTAP_CHILD_CPUS";
/// The pid of the guard.
const PARENT: &str = "WARPTAP_CHILD_GUARD";

/// How long the child has to end after it was asked to.
const END_MAX: Duration = Duration::from_secs(30);

/// The share of the memory limit from which on Go's runtime collects garbage as often as necessary.
const SOFT_LIMIT_PERCENT: u64 = 80;

impl Guarded {
    /// Returns the command that starts the guard, without its pipes.
    pub fn command(&self) -> Command {
        let mut command = own(GUARD);
        command.env(PROGRAM, &self.program).env(CONFIGURATION, &self.configuration);
        command.env(DIRECTORY, &self.directory);
        command.env(MEMORY_MIB, self.memory_limit_mib.to_string()).env(CPUS, self.cpus.to_string());
        // Signals of a terminal are for the collector, which ends the child in its turn.
        command.process_group(0);
        command
    }

    fn of_environment() -> Result<Self, String> {
        let variable = |name: &str| std::env::var_os(name).ok_or_else(|| format!("{name} is not set"));
        let number = |name: &str| {
            let text: OsString = variable(name)?;
            text.to_str().and_then(|n| n.parse().ok()).ok_or_else(|| format!("{name} is not a number"))
        };
        Ok(Guarded {
            program: variable(PROGRAM)?.into(),
            configuration: variable(CONFIGURATION)?.into(),
            directory: variable(DIRECTORY)?.into(),
            memory_limit_mib: number(MEMORY_MIB)?,
            cpus: number(CPUS)?,
        })
    }
}

/// Returns a command of this program.
fn own(command: &str) -> Command {
    let mut own = Command::new("/proc/self/exe");
    own.arg(command);
    if let Some(name) = std::env::args_os().next() {
        own.arg0(name);
    }
    own
}

/// What happened.
enum Event {
    /// The child has ended.
    Child(io::Result<ExitStatus>),
    /// The collector asks to end the child.
    Asked,
    /// The collector has ended.
    Gone,
}

/// Runs the child until it ends, or until the collector does. Returns the exit code of the child.
///
/// # Errors
/// The process was not started as a guard, or cannot start the child.
pub fn guard() -> Result<u8, String> {
    let guarded = Guarded::of_environment()?;
    let failed = |e: io::Error| format!("cannot run {}: {e}", guarded.program.display());
    // The kernel asks the child to end when this thread ends, which is the main one.
    let mut stage = own(STAGE);
    let child = stage.env(PARENT, std::process::id().to_string()).stdin(Stdio::null()).spawn();
    let child = child.map_err(failed)?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or("the child has no pid")?;
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| failed(e.into()))?;
    let (status, is_gone) = watch(child, &|signal| _ = pidfd_send_signal(&process, signal));
    if is_gone {
        directory::remove(&guarded.directory);
    }
    status.map(code).map_err(failed)
}

/// Waits until the child has ended, and asks it to end when the collector asks for that or has ended. Returns its status, and
/// whether the collector has ended.
fn watch(mut child: Child, signal: &dyn Fn(Signal)) -> (io::Result<ExitStatus>, bool) {
    let (send, events) = mpsc::channel();
    let asked = send.clone();
    std::thread::spawn(move || asked.send(read_request(&mut io::stdin())));
    std::thread::spawn(move || send.send(Event::Child(child.wait())));
    let status = |limit| loop {
        match events.recv_timeout(limit) {
            Ok(Event::Child(status)) => return Some(status),
            Ok(_) => {}
            Err(_) => return None,
        }
    };
    match events.recv() {
        Ok(Event::Child(status)) => (status, matches!(events.recv_timeout(GONE_MAX), Ok(Event::Gone))),
        Err(_) => (Err(io::ErrorKind::BrokenPipe.into()), true),
        Ok(event) => {
            signal(Signal::TERM);
            let ended = status(END_MAX).unwrap_or_else(|| {
                signal(Signal::KILL);
                status(Duration::MAX).unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))
            });
            (ended, matches!(event, Event::Gone))
        }
    }
}

/// Waits for a request of the collector, which is one byte, or for its end.
fn read_request(pipe: &mut dyn io::Read) -> Event {
    match pipe.read(&mut [0]) {
        Ok(1) => Event::Asked,
        _ => Event::Gone,
    }
}

/// If both are killed at once, the end of the collector is seen at most this much later than that of the child.
const GONE_MAX: Duration = Duration::from_millis(200);

/// Returns the exit code as a shell would have it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Becomes the Collector, which ends with its guard and within its limits.
///
/// # Errors
/// The process was not started by a guard, or the Collector cannot be executed. On success it does not return.
pub fn stage() -> Result<(), String> {
    let guarded = Guarded::of_environment()?;
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|e| format!("cannot end with the guard: {e}"))?;
    let parent: Option<i32> = std::env::var(PARENT).ok().and_then(|pid| pid.parse().ok());
    if parent.and_then(Pid::from_raw) != getppid() {
        return Err("the guard has ended".to_owned());
    }
    let mut command = Command::new(&guarded.program);
    command.arg("--config").arg(&guarded.configuration);
    guarded.limit(&mut command)?;
    for name in [PROGRAM, CONFIGURATION, DIRECTORY, MEMORY_MIB, CPUS, PARENT] {
        command.env_remove(name);
    }
    Err(format!("cannot run {}: {}", guarded.program.display(), command.exec()))
}

impl Guarded {
    /// Sets the limits. Those of memory are for Go's runtime, which then collects garbage earlier, and for the kernel, which refuses
    /// more, so that the process ends.
    fn limit(&self, command: &mut Command) -> Result<(), String> {
        if self.cpus > 0 {
            command.env("GOMAXPROCS", self.cpus.to_string());
        }
        if self.memory_limit_mib > 0 {
            let bytes = self.memory_limit_mib << 20;
            command.env("GOMEMLIMIT", (bytes / 100 * SOFT_LIMIT_PERCENT).to_string());
            let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
            setrlimit(Resource::Data, limit).map_err(|e| format!("cannot limit memory: {e}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_a_request_and_the_end_of_the_pipe_is_the_end_of_the_collector() {
        assert!(matches!(read_request(&mut [1_u8].as_slice()), Event::Asked));
        assert!(matches!(read_request(&mut [].as_slice()), Event::Gone));
    }

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let status = |line: &str| Command::new("sh").args(["-c", line]).status().unwrap();
        assert_eq!(code(status("exit 3")), 3);
        assert_eq!(code(status("kill -9 $$")), 137);
    }
}
