//! The program of an OpenTelemetry Collector: where it is, what it contains, and what it says about a configuration.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Delegation;
use crate::config::{CollectorConfig, ComponentKind};

/// Names of the Collector's distributions, the one with most components first.
const NAMES: [&str; 3] = ["otelcol-contrib", "otelcol-k8s", "otelcol"];

/// Longest run of a command of the Collector that answers a question.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// How often an answer is polled.
const POLL_EVERY: Duration = Duration::from_millis(5);

/// A Collector that can be run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Program {
    path: PathBuf,
    listed: Listed,
}

/// The output of the command `components`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
struct Listed {
    buildinfo: BuildInfo,
    receivers: Vec<Row>,
    processors: Vec<Row>,
    exporters: Vec<Row>,
    connectors: Vec<Row>,
    extensions: Vec<Row>,
}

#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
struct BuildInfo {
    command: String,
    version: String,
}

/// A component of a Collector.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Row {
    /// Its type.
    pub name: String,
    /// The Go module that contains it, and its version.
    #[serde(default)]
    pub module: String,
    /// The stability by signal.
    #[serde(default)]
    pub stability: BTreeMap<String, String>,
}

impl Listed {
    fn rows(&self, kind: ComponentKind) -> &[Row] {
        match kind {
            ComponentKind::Connector => &self.connectors,
            ComponentKind::Exporter => &self.exporters,
            ComponentKind::Extension => &self.extensions,
            ComponentKind::Processor => &self.processors,
            ComponentKind::Receiver => &self.receivers,
        }
    }
}

/// Returns the program that a user wants to run what this collector lacks: the argument of `--collector`, or the configured path;
/// none if there is neither.
///
/// # Errors
/// The user asks for a search, and finds none.
fn wanted(delegation: &Delegation, settings: &CollectorConfig) -> Option<Result<PathBuf, String>> {
    match (delegation.program.as_deref(), settings.path.as_str()) {
        (None, "") => None,
        (None | Some(""), path) if !path.is_empty() => Some(Ok(path.into())),
        (None | Some(""), _) => Some(find()),
        (Some(path), _) => Some(Ok(path.into())),
    }
}

/// Finds a Collector in the directories of `PATH`, by the names of its distributions.
///
/// # Errors
/// There is none; the message says how to name one.
pub fn find() -> Result<PathBuf, String> {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let in_path = |name: &str| {
        std::env::split_paths(&directories).map(|dir| dir.join(name)).find(|path| is_executable(path))
    };
    NAMES.into_iter().find_map(in_path).ok_or_else(|| {
        format!(
            "found none of {} in the directories of PATH: name one, as in --collector PATH",
            NAMES.join(", ")
        )
    })
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

impl Program {
    /// Opens the program that a user wants to run what this collector lacks; none if the user does not name one.
    ///
    /// # Errors
    /// The user asks for a search, which finds none; or the program is not a Collector that can be run.
    pub(super) fn open_wanted(
        delegation: &Delegation,
        settings: &CollectorConfig,
    ) -> Result<Option<Self>, String> {
        wanted(delegation, settings).transpose()?.map(|path| Program::open(&path)).transpose()
    }

    /// Asks a program for its components.
    ///
    /// # Errors
    /// The program cannot be run, or does not answer as a Collector does.
    pub fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let (status, out, errors) = answer(Command::new(path).arg("components")).map_err(|e| {
            format!("cannot run {shown}: {e}: expected the program of an OpenTelemetry Collector")
        })?;
        if !status.success() {
            return Err(format!("{shown} components: {status}: {}", errors.trim()));
        }
        let listed: Listed = serde_yaml::from_str(&out).map_err(|e| {
            format!("{shown} components: {e}: expected the components of an OpenTelemetry Collector")
        })?;
        match listed.receivers.is_empty() && listed.exporters.is_empty() {
            true => Err(format!(
                "{shown} lists no receivers and no exporters: expected an OpenTelemetry Collector"
            )),
            false => Ok(Program { path: path.to_owned(), listed }),
        }
    }

    /// Returns the path of the program.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its name and version, such as `otelcol-contrib 0.159.0`.
    pub fn version(&self) -> String {
        let BuildInfo { command, version } = &self.listed.buildinfo;
        format!("{command} {version}").trim().to_owned()
    }

    /// Returns its components of one kind.
    pub fn rows(&self, kind: ComponentKind) -> &[Row] {
        self.listed.rows(kind)
    }

    /// Returns whether it has a component. The deprecated name of a type is the type without underscores.
    pub fn has(&self, kind: ComponentKind, name: &str) -> bool {
        let bare = |text: &str| text.replace('_', "");
        let mut rows = self.rows(kind).iter();
        rows.any(|row| bare(&row.name) == bare(name)) || self.has_as(kind, name)
    }

    /// Returns whether it has a component by a name that was changed in another way.
    fn has_as(&self, kind: ComponentKind, name: &str) -> bool {
        let renamed = RENAMED.iter().find(|row| row.0 == kind && row.1 == name);
        renamed.is_some_and(|row| self.rows(kind).iter().any(|own| own.name == row.2))
    }

    /// Returns the type of its OTLP exporter over gRPC, which was renamed in v0.147.
    pub(super) fn otlp_exporter(&self) -> &'static str {
        let has_new = self.rows(ComponentKind::Exporter).iter().any(|row| row.name == "otlp_grpc");
        if has_new { "otlp_grpc" } else { "otlp" }
    }

    /// Returns what it says against a configuration; nothing if it accepts it.
    ///
    /// # Errors
    /// It cannot be asked.
    pub(super) fn validate(&self, configuration: &str) -> Result<String, String> {
        let failed = |e: io::Error| format!("cannot run {} validate: {e}", self.path.display());
        let file = private_file(configuration).map_err(failed)?;
        let mut command = Command::new(&self.path);
        command.arg("validate").arg("--config").arg(file.path());
        let (status, _, errors) = answer(&mut command).map_err(failed)?;
        match status.success() {
            true => Ok(String::new()),
            false if errors.trim().is_empty() => Err(format!("{} validate: {status}", self.path.display())),
            false => Ok(errors),
        }
    }
}

/// Types whose deprecated name differs by more than underscores.
const RENAMED: [(ComponentKind, &str, &str); 3] = [
    (ComponentKind::Exporter, "otlp", "otlp_grpc"),
    (ComponentKind::Exporter, "otlphttp", "otlp_http"),
    (ComponentKind::Exporter, "otlp_grpc", "otlp"),
];

/// Writes secrets to a file that only this user can read, and that is removed with the value.
fn private_file(text: &str) -> io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("warptap-").suffix(".yaml").tempfile()?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// Writes a file that only this user can read, in place of an older one.
pub(super) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// Runs a command to its end, and returns its status and output; kills it if it takes too long.
fn answer(command: &mut Command) -> io::Result<(ExitStatus, String, String)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let out = read(child.stdout.take());
    let errors = read(child.stderr.take());
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begin.elapsed() > ANSWER_MAX {
            child.kill()?;
            child.wait()?;
            let message = format!("no answer within {} s", ANSWER_MAX.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        std::thread::sleep(POLL_EVERY);
    };
    Ok((status, out(), errors()))
}

/// Reads a pipe on a thread; the returned function waits for its end.
fn read(pipe: Option<impl io::Read + Send + 'static>) -> impl FnOnce() -> String {
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // An unreadable answer is an empty one.
            _ = pipe.take(OUTPUT_MAX).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    });
    move || reader.join().unwrap_or_default()
}

/// Longest output that is read, in bytes.
const OUTPUT_MAX: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("otelcol");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        (dir, path)
    }

    const LIST: &str = "cat <<E\nbuildinfo: {command: otelcol, version: 0.1.0}\nreceivers:\n- name: host_metrics\n\
        exporters:\n- name: otlp_grpc\nE";

    #[test]
    fn components_are_known_by_both_of_their_names() {
        let (_dir, path) = script(LIST);
        let program = Program::open(&path).unwrap();
        assert_eq!((program.version().as_str(), program.otlp_exporter()), ("otelcol 0.1.0", "otlp_grpc"));
        for (kind, name, want) in [
            (ComponentKind::Receiver, "host_metrics", true),
            (ComponentKind::Receiver, "hostmetrics", true),
            (ComponentKind::Receiver, "otlp", false),
            (ComponentKind::Exporter, "otlp", true),
            (ComponentKind::Exporter, "host_metrics", false),
        ] {
            assert_eq!(program.has(kind, name), want, "{kind:?} {name}");
        }
    }

    #[test]
    fn programs_that_are_no_collector_are_refused() {
        for (text, want) in [
            ("exit 3", "exit status: 3"),
            ("echo 'a: ['", "expected the components of an OpenTelemetry Collector"),
            ("echo 'a: 1'", "lists no receivers"),
        ] {
            let (_dir, path) = script(text);
            let error = Program::open(&path).unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        }
        let error = Program::open(Path::new("/nonexistent")).unwrap_err();
        assert!(error.starts_with("cannot run /nonexistent: No such file"), "{error}");
    }

    #[test]
    fn the_configuration_is_checked_by_the_program() {
        let (_dir, path) = script(&format!(
            "[ $1 = components ] && {{ {LIST}\n exit 0; }}\ngrep -q good $3 || {{ echo no >&2; exit 1; }}"
        ));
        let program = Program::open(&path).unwrap();
        assert_eq!(program.validate("good").unwrap(), "");
        assert_eq!(program.validate("bad").unwrap(), "no\n");
    }

    #[test]
    fn the_program_of_the_command_line_takes_precedence() {
        let delegation = |program: Option<&str>| Delegation {
            program: program.map(str::to_owned),
            ..Delegation::default()
        };
        let path = |path: &str| CollectorConfig { path: path.to_owned(), ..CollectorConfig::default() };
        assert_eq!(wanted(&delegation(None), &path("")), None);
        assert_eq!(wanted(&delegation(None), &path("/a")), Some(Ok("/a".into())));
        assert_eq!(wanted(&delegation(Some("")), &path("/a")), Some(Ok("/a".into())));
        assert_eq!(wanted(&delegation(Some("/b")), &path("/a")), Some(Ok("/b".into())));
    }
}
