//! The extension that runs the child: starts it, logs its lines, reports its state, and starts it again if it ends by itself.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use component::status::ComponentStatus;
use component::{
    BoxFuture, BuildContext, Capabilities, Extension, ExtensionFactory, Host, Running, Stability,
    StartResult, metrics,
};
use config::{ConfigError, Section};
use opentelemetry::metrics::Counter;
use semconv::own_metric;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::guard::Guarded;
use super::log::Line;
use super::{directory, program};

/// The row of this extension.
pub(super) const FACTORY: ExtensionFactory = ExtensionFactory {
    kind: "collector",
    aliases: &[],
    signals: &[],
    stability: Stability::Beta,
    about: "Runs an OpenTelemetry Collector with the components that are delegated.",
    example: "",
    keys: config::keys::<ChildConfig>,
    build,
};

config::section! {
    /// The section of the extension, which delegation makes.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ChildConfig {
        /// The program of the Collector.
        pub path: String,
        /// The directory of the sockets.
        pub directory: String,
        /// The text of its configuration.
        pub configuration: String,
        /// Largest memory in MiB.
        pub memory_limit_mib: u64,
        /// Largest number of cores.
        pub cpus: u64,
    }
}

/// Longest start: a Collector that waits for a cloud's metadata takes seconds.
const START_MAX: Duration = Duration::from_secs(60);
/// Delay before the first restart; doubles with each one.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// Longest delay before a restart.
const RESTART_AFTER_MAX: Duration = Duration::from_secs(30);
/// A child that ran this long is started again without a longer delay.
const STEADY: Duration = Duration::from_secs(60);
/// Longest line of its log, in bytes; the rest is another line.
const LINE_MAX: u64 = 64 << 10;
/// Lines that are read before they are logged.
const LINES_MAX: usize = 256;
/// Lines that an error shows of a child that did not start.
const SHOWN_LINES: usize = 3;

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Extension>, ConfigError> {
    let config: ChildConfig = section.decode()?;
    Ok(Box::new(ChildExtension { name: context.id.to_string(), config }))
}

struct ChildExtension {
    name: String,
    config: ChildConfig,
}

impl Extension for ChildExtension {
    fn start(
        self: Box<Self>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Capabilities, Running)>> {
        let host = host.clone();
        Box::pin(async move {
            let metrics_stop = CancellationToken::new();
            let state = host.state().clone();
            let (environment, metrics) = super::metrics::receive(state.clone(), metrics_stop.clone()).await?;
            // If the child does not start, nothing sends metrics.
            let metrics_stop = metrics_stop.drop_guard();
            let metrics = tokio::spawn(metrics);
            let runner = Runner::new(&self.config, self.name, host, environment)?;
            let process = runner.run().await?;
            let running = async move {
                runner.supervise(process, stop).await;
                drop(metrics_stop);
                // It has sent everything it had.
                _ = metrics.await;
                state.set_child_metrics(None);
            };
            Ok((Capabilities::default(), Box::pin(running) as Running))
        })
    }
}

/// What it takes to start the child, once or again.
struct Runner {
    name: String,
    guarded: Guarded,
    /// Environment variables of the child.
    environment: Vec<(&'static str, String)>,
    host: Host,
    restarts: Counter<u64>,
}

impl Runner {
    fn new(
        config: &ChildConfig,
        name: String,
        host: Host,
        environment: Vec<(&'static str, String)>,
    ) -> std::io::Result<Self> {
        let directory = PathBuf::from(&config.directory);
        let configuration = directory.join("collector.yaml");
        program::write_private(&configuration, &config.configuration)?;
        let guarded = Guarded {
            program: config.path.clone().into(),
            configuration,
            directory,
            memory_limit_mib: config.memory_limit_mib,
            cpus: config.cpus,
        };
        let restarts = metrics::u64_counter(host.meter(), own_metric::WARPTAP_COLLECTOR_RESTARTS).build();
        restarts.add(0, &[]);
        Ok(Runner { name, guarded, environment, host, restarts })
    }

    /// Starts the child and waits until its pipelines run.
    async fn run(&self) -> StartResult<Process> {
        directory::remove_sockets(&self.guarded.directory)?;
        let mut process = Process::start(&self.guarded, &self.environment)?;
        let mut last = VecDeque::with_capacity(SHOWN_LINES);
        let ready = async {
            while let Some(line) = process.lines.recv().await {
                if line.is_ready() {
                    // In other words than the child, since scripts wait for these of this collector.
                    tracing::info!(
                        extension = self.name,
                        "the Collector that runs delegated components is ready"
                    );
                    return true;
                }
                line.log();
                if last.len() == SHOWN_LINES {
                    last.pop_front();
                }
                last.push_back(line.text());
            }
            false
        };
        match timeout(START_MAX, ready).await {
            Ok(true) => Ok(process),
            Ok(false) => {
                let status = process.child.wait().await?;
                let shown = Vec::from(last).join("; ");
                Err(format!("{} did not start: {status}: {shown}", self.guarded.program.display()).into())
            }
            Err(_) => {
                process.stop().await;
                let seconds = START_MAX.as_secs();
                Err(format!("{} did not start within {seconds} s", self.guarded.program.display()).into())
            }
        }
    }

    /// Keeps the child running until `stop`.
    async fn supervise(self, mut process: Process, stop: CancellationToken) {
        let mut delay = RESTART_AFTER;
        loop {
            let begin = Instant::now();
            let ended = tokio::select! {
                () = stop.cancelled() => return process.stop().await,
                ended = process.log_until_end() => ended,
            };
            if begin.elapsed() >= STEADY {
                delay = RESTART_AFTER;
            }
            let mut reason = ended.map_or_else(|e| e.to_string(), |status| status.to_string());
            process = loop {
                tracing::error!(extension = self.name, reason, restart_after = ?delay, "the Collector that runs delegated components has ended");
                self.host.report(ComponentStatus::RecoverableError(reason));
                // Pipelines through the child accept no data until it runs again.
                self.host.state().set_ready(false);
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(delay) => {}
                }
                delay = (delay * 2).min(RESTART_AFTER_MAX);
                self.restarts.add(1, &[]);
                let started = tokio::select! {
                    () = stop.cancelled() => return,
                    started = self.run() => started,
                };
                match started {
                    Ok(process) => break process,
                    Err(error) => reason = error.to_string(),
                }
            };
            self.host.report(ComponentStatus::Ok);
            self.host.state().set_ready(true);
        }
    }
}

/// A running child and its guard.
struct Process {
    /// The guard, whose exit status is that of the child.
    child: Child,
    lines: mpsc::Receiver<Line>,
}

impl Process {
    fn start(guarded: &Guarded, environment: &[(&'static str, String)]) -> std::io::Result<Self> {
        let mut command = Command::from(guarded.command());
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (send, lines) = mpsc::channel(LINES_MAX);
        if let Some(pipe) = child.stderr.take() {
            tokio::spawn(read_lines(pipe, send));
        }
        Ok(Process { child, lines })
    }

    /// Logs the lines of the child until it has ended.
    async fn log_until_end(&mut self) -> std::io::Result<ExitStatus> {
        while let Some(line) = self.lines.recv().await {
            line.log();
        }
        self.child.wait().await
    }

    /// Ends the child, which sends what it has before. Its guard kills it if that takes too long.
    async fn stop(mut self) {
        if let Some(mut pipe) = self.child.stdin.take() {
            // Fails only if the guard has ended.
            _ = pipe.write_all(b"\n").await;
            if let Err(error) = self.log_until_end().await {
                tracing::warn!(%error, "the end of the Collector that runs delegated components was not seen");
            }
        }
    }
}

/// Reads lines until the end of the pipe, which all processes behind it have closed then.
async fn read_lines(pipe: impl AsyncRead + Unpin, to: mpsc::Sender<Line>) {
    let mut pipe = BufReader::new(pipe);
    loop {
        let mut line = Vec::new();
        match (&mut pipe).take(LINE_MAX).read_until(b'\n', &mut line).await {
            Ok(read) if read > 0 => {
                let text = String::from_utf8_lossy(&line);
                if !text.trim().is_empty() && to.send(Line::parse(text.trim_end())).await.is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}
