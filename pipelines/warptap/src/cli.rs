//! The command line: the flags and commands of the OpenTelemetry Collector, and those of a node agent.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::commands::demo::scenario::Scenario;
use crate::config::Sources;
use crate::config::gates::Gates;
use crate::delegation::{Delegation, guard};

/// An OpenTelemetry collector for GPU nodes: reports which step was slow, in which phase, and what on the host caused it
#[derive(Debug, Parser)]
#[command(name = "warptap", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// The command; without one, the collector runs.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The configuration to run.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// A command other than running the collector.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check that this machine can run the gpu receiver, and print what to do if it cannot
    Check,
    /// List the components of this binary, and of a Collector, as YAML
    Components(ComponentsArgs),
    /// Show a slow step of a simulated inference server from probe to telemetry; needs neither root nor a GPU
    Demo(DemoArgs),
    /// List the feature gates, or show one of them
    Featuregate(FeaturegateArgs),
    /// Become the Collector that runs delegated components; started by its guard
    #[command(hide = true, name = guard::STAGE)]
    ExecCollector,
    /// Remove the pinned probes of a collector that has ended; started by the collector
    #[command(hide = true, name = GUARD)]
    Guard,
    /// Run the Collector that runs delegated components; started by the collector
    #[command(hide = true, name = guard::GUARD)]
    GuardCollector,
    /// Print what of a configuration runs here, what a Collector must run, and what differs, without running anything
    Migrate(MigrateArgs),
    /// Run the simulator's player, the workload of the demo
    #[command(hide = true)]
    Player(PlayerArgs),
    /// Print the merged configuration with secrets redacted
    #[command(alias = "print-initial-config")]
    PrintConfig(PrintConfigArgs),
    /// Record what the probes see to a file
    Record(RecordArgs),
    /// Analyse recordings and PyTorch profiler traces, plain or gzip, without root or a GPU
    Replay(ReplayArgs),
    /// Remove probes that a collector left attached
    Unpin(UnpinArgs),
    /// Check a configuration without running it; prints nothing if it is valid
    Validate(ConfigArgs),
}

/// The command with which the collector starts the guard of its pinned probes.
pub const GUARD: &str = "guard";

/// Locations of the configuration.
#[derive(Args, Clone, Debug, Default)]
pub struct ConfigArgs {
    /// A file, or a location such as file:PATH, env:NAME, yaml:TEXT or https://HOST/PATH; may be repeated, later
    /// ones override earlier ones
    #[arg(long = "config", value_name = "LOCATION")]
    pub locations: Vec<String>,
    /// The OpenTelemetry Collector that runs the components which warptap does not have; without PATH, otelcol-contrib,
    /// otelcol-k8s or otelcol of the PATH variable
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = "")]
    pub collector: Option<String>,
    /// Feature gates to enable, such as a,b, or to disable, such as -c
    #[arg(long = "feature-gates", value_name = "LIST", allow_hyphen_values = true)]
    pub gates: Vec<String>,
    /// Override one value of all locations, such as processors.batch.timeout=2s
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}

impl ConfigArgs {
    /// Returns the locations in the order of merging, and the gates.
    ///
    /// # Errors
    /// There is no location, or an argument cannot be parsed.
    pub fn all(&self) -> anyhow::Result<Sources> {
        let gates = Gates::parse(&self.gates).map_err(anyhow::Error::msg)?;
        if self.locations.is_empty() && self.sets.is_empty() {
            bail!("at least one config flag must be provided:{NEXT_STEPS}");
        }
        let sets = self.sets.iter().map(|set| location_of_set(set));
        let locations = self.locations.iter().cloned().map(Ok).chain(sets).collect::<anyhow::Result<_>>()?;
        Ok(Sources { locations, gates, delegation: Delegation::new(self.collector.clone()) })
    }
}

/// Commands that run without a configuration.
const NEXT_STEPS: &str = "\n  warptap demo             shows slow steps of a simulated inference server\n  \
    warptap check            checks that this machine can run the gpu receiver\n  \
    warptap --config FILE    runs a configuration; config-examples/quick-start.yaml is a small one\n  \
    warptap --help           lists all commands";

/// Converts the argument `a.b=c` to the location `yaml:a::b: c`.
fn location_of_set(set: &str) -> anyhow::Result<String> {
    let (key, value) = set
        .split_once('=')
        .with_context(|| format!("invalid argument {set:?} for \"--set\" flag: missing equal sign"))?;
    Ok(format!("yaml:{}: {}", key.replace('.', "::").trim(), value.trim()))
}

/// Arguments of `components`.
#[derive(Args, Clone, Debug, Default)]
pub struct ComponentsArgs {
    /// List the components of this OpenTelemetry Collector, too
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = "")]
    pub collector: Option<String>,
}

/// Arguments of `migrate`.
#[derive(Args, Clone, Debug)]
pub struct MigrateArgs {
    /// Configurations of an OpenTelemetry Collector, merged in this order
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<String>,
    /// The OpenTelemetry Collector that would run the components which warptap does not have
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = "", require_equals = true)]
    pub collector: Option<String>,
}

/// Arguments of `featuregate`.
#[derive(Args, Clone, Debug, Default)]
pub struct FeaturegateArgs {
    /// Show only this gate
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Gates that are enabled or disabled.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Arguments of `print-config`.
#[derive(Args, Clone, Debug)]
pub struct PrintConfigArgs {
    /// The configuration to print.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Redact or show secrets
    #[arg(long, value_enum, default_value_t)]
    pub mode: PrintMode,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: PrintFormat,
    /// Fail on an invalid configuration
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    pub validate: bool,
}

/// How `print-config` prints secrets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum PrintMode {
    /// Print [REDACTED] in place of secrets
    #[default]
    Redacted,
    /// Print secrets
    Unredacted,
}

/// Output format of `print-config`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum PrintFormat {
    /// YAML
    #[default]
    Yaml,
    /// JSON
    Json,
}

/// Arguments of `warptap demo`.
#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// Problem to show
    #[arg(value_parser = Scenario::parser(), default_value = "incident")]
    pub scenario: &'static Scenario,
    /// Seconds to run
    #[arg(long, value_name = "N", default_value = "20", value_parser = seconds)]
    pub seconds: Duration,
    /// File for the telemetry that would have been sent, as OTLP JSON lines
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Arguments of the simulator's player, which parses them itself.
#[derive(Args, Clone, Debug)]
pub struct PlayerArgs {
    /// See `warptap player --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Arguments of `record`.
#[derive(Args, Clone, Debug)]
pub struct RecordArgs {
    /// The file to write; it must not exist
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Seconds to record; by default until interrupted
    #[arg(long, value_name = "N", value_parser = seconds)]
    pub seconds: Option<Duration>,
    /// Record only this process; may be repeated
    #[arg(long = "pid", value_name = "P")]
    pub pids: Vec<u32>,
}

/// Arguments of `replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// Recordings and PyTorch profiler traces
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Write the telemetry to this file as OTLP JSON lines
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write every step to this file as JSON lines; copied_bytes is between host and device, device_copied_bytes on and
    /// between devices
    #[arg(long, value_name = "FILE")]
    pub steps: Option<PathBuf>,
    /// A configuration whose pipelines process the telemetry; its receivers are not started.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Arguments of `unpin`.
#[derive(Args, Clone, Debug)]
pub struct UnpinArgs {
    /// Directory of the pins, as in the key pin::path of the gpu receiver
    #[arg(long, value_name = "DIR", default_value = capture::PinSettings::PATH)]
    pub path: PathBuf,
    /// Run until interrupted, and remove pins that no collector has owned for --after
    #[arg(long)]
    pub watch: bool,
    /// Seconds without an owner, with --watch
    #[arg(long, value_name = "N", default_value = "300", value_parser = seconds, requires = "watch")]
    pub after: Duration,
}

/// Parses a positive number of seconds, which may have a fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("{text:?} is not a number of seconds: expected a number above 0, such as 20 or 0.5");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(seconds).ok().filter(|d| !d.is_zero()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> Result<Cli, String> {
        Cli::try_parse_from(line.split(' ')).map_err(|e| e.to_string())
    }

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn arguments_without_a_command_run_a_configuration() {
        let cli = parse("warptap --config a.yaml --set=a.b=c --config=b.yaml").unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.config.all().unwrap().locations, ["a.yaml", "b.yaml", "yaml:a::b: c"]);
    }

    #[test]
    fn missing_configuration_names_the_next_steps() {
        let error = parse("warptap").unwrap().config.all().unwrap_err().to_string();
        assert!(error.starts_with("at least one config flag must be provided"), "{error}");
        for command in ["demo", "check", "--config", "--help"] {
            assert!(error.contains(&format!("warptap {command}")), "{error}");
        }
    }

    #[test]
    fn set_needs_an_equal_sign() {
        for (set, want) in [
            ("a=b", Ok("yaml:a: b")),
            (" a.b = x=y ", Ok("yaml:a::b: x=y")),
            ("a.b=", Ok("yaml:a::b: ")),
            ("a", Err("missing equal sign")),
        ] {
            match (location_of_set(set), want) {
                (Ok(location), Ok(want)) => assert_eq!(location, want),
                (Err(error), Err(want)) => assert!(error.to_string().contains(want), "{error}"),
                (got, want) => panic!("{set}: {got:?}, expected {want:?}"),
            }
        }
    }

    #[test]
    fn commands_accept_their_arguments() {
        for line in [
            "warptap check",
            "warptap components",
            "warptap demo",
            "warptap demo slow-decode --seconds 0.5 --out x.jsonl",
            "warptap featuregate",
            "warptap featuregate service.profilesSupport",
            "warptap print-config --config b.yaml",
            "warptap print-initial-config --config b.yaml --mode=unredacted --format json --validate=false",
            "warptap record --out x --seconds 3 --pid 7",
            "warptap replay a b.gz --out c",
            "warptap replay a --config b.yaml",
            "warptap unpin",
            "warptap unpin --path /sys/fs/bpf/x --watch --after 7",
            "warptap validate --config b.yaml",
            "warptap validate --config b.yaml --feature-gates -a,b",
        ] {
            assert!(parse(line).is_ok_and(|cli| cli.command.is_some()), "{line}");
        }
    }

    #[test]
    fn mistakes_are_reported_with_the_nearest_word() {
        for (line, want) in [
            ("warptap demo slow-decoed", "slow-decode"),
            ("warptap demo --seconds 0", "not a number of seconds"),
            ("warptap demo --seconds -1", "unexpected argument"),
            ("warptap demo --seconds nan", "not a number of seconds"),
            ("warptap print-config --mode x", "unredacted"),
            ("warptap record", "--out"),
            ("warptap replay", "<FILE>"),
            ("warptap unpin --after 7", "--watch"),
            ("warptap valdate", "validate"),
            ("warptap --conifg x", "--config"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(want), "{line}: {error}");
        }
    }
}
