//! The command line: the Collector's own flags and commands, and those that only a node agent has.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::commands::demo::scenario::Scenario;
use crate::config::Sources;
use crate::config::gates::Gates;

/// A collector for GPU nodes: shows which step was slow, in which phase, and what on the host caused it.
#[derive(Debug, Parser)]
#[command(name = "warptap", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do; without it, the collector runs.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Which configuration to run.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// What to do instead of running.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say whether this machine has what the gpu receiver needs, and what to do about what is missing
    Check,
    /// List the components of this binary, as YAML
    Components,
    /// Show a slow step of a simulated inference server from probe to telemetry; needs neither root nor a GPU
    Demo(DemoArgs),
    /// List the feature gates, or show one
    Featuregate(FeaturegateArgs),
    /// Run the simulator's player, the workload of the demo
    #[command(hide = true)]
    Player(PlayerArgs),
    /// Print the configuration that the sources come to, without its secrets
    #[command(alias = "print-initial-config")]
    PrintConfig(PrintConfigArgs),
    /// Record what the probes see to a file
    Record(RecordArgs),
    /// Analyse recordings and PyTorch profiler traces, plain or gzip, without root or a GPU
    Replay(ReplayArgs),
    /// Check a configuration without running it; says nothing where it is right
    Validate(ConfigArgs),
}

/// Where the configuration is.
#[derive(Args, Clone, Debug, Default)]
pub struct ConfigArgs {
    /// A file, or a location such as file:PATH, env:NAME, yaml:TEXT or https://HOST/PATH; given more than once,
    /// later ones lie on top of earlier ones
    #[arg(long = "config", value_name = "LOCATION")]
    pub locations: Vec<String>,
    /// Feature gates to turn on, such as a,b; or off, such as -c
    #[arg(long = "feature-gates", value_name = "LIST", allow_hyphen_values = true)]
    pub gates: Vec<String>,
    /// Set one value on top of all locations, such as processors.batch.timeout=2s
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}

impl ConfigArgs {
    /// All locations, in the order they are merged, and the gates. At least one location must have been given.
    pub fn all(&self) -> anyhow::Result<Sources> {
        let gates = Gates::parse(&self.gates).map_err(anyhow::Error::msg)?;
        if self.locations.is_empty() && self.sets.is_empty() {
            bail!("at least one config flag must be provided");
        }
        let sets = self.sets.iter().map(|set| location_of_set(set));
        let locations = self.locations.iter().cloned().map(Ok).chain(sets).collect::<anyhow::Result<_>>()?;
        Ok(Sources { locations, gates })
    }
}

/// `a.b=c` as `yaml:a::b: c`.
fn location_of_set(set: &str) -> anyhow::Result<String> {
    let (key, value) = set
        .split_once('=')
        .with_context(|| format!("invalid argument {set:?} for \"--set\" flag: missing equal sign"))?;
    Ok(format!("yaml:{}: {}", key.replace('.', "::").trim(), value.trim()))
}

/// Which gates to show.
#[derive(Args, Clone, Debug, Default)]
pub struct FeaturegateArgs {
    /// The only one
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Gates that are turned on or off.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// What to print, and how.
#[derive(Args, Clone, Debug)]
pub struct PrintConfigArgs {
    /// Which configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Whether secrets are printed
    #[arg(long, value_enum, default_value_t)]
    pub mode: PrintMode,
    /// As what it is printed
    #[arg(long, value_enum, default_value_t)]
    pub format: PrintFormat,
    /// Whether a configuration that is not valid is refused
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    pub validate: bool,
}

/// Whether secrets are printed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum PrintMode {
    /// [REDACTED] in place of them
    #[default]
    Redacted,
    /// As they are
    Unredacted,
}

/// As what a configuration is printed.
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

/// What to record.
#[derive(Args, Clone, Debug)]
pub struct RecordArgs {
    /// The file to write; it must not exist
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// How long to record; without it, until interrupted
    #[arg(long, value_name = "N", value_parser = seconds)]
    pub seconds: Option<Duration>,
    /// Record this process alone; several by repeating it
    #[arg(long = "pid", value_name = "P")]
    pub pids: Vec<u32>,
}

/// What to replay.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// Recordings and traces
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Where to write the telemetry, as OTLP JSON lines
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Where to write every step, as JSON lines, to compare with a program's own log
    #[arg(long, value_name = "FILE")]
    pub steps: Option<PathBuf>,
    /// Send the telemetry through the pipelines of a configuration, without its receivers.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// A positive number of seconds, with a fraction if need be.
fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no number of seconds: expected one above 0, such as 20 or 0.5");
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
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn without_a_command_it_runs_a_configuration() {
        let cli = parse("warptap --config a.yaml --set=a.b=c --config=b.yaml").unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.config.all().unwrap().locations, ["a.yaml", "b.yaml", "yaml:a::b: c"]);
        let told = parse("warptap").unwrap().config.all().unwrap_err().to_string();
        assert_eq!(told, "at least one config flag must be provided");
    }

    #[test]
    fn a_set_needs_an_equal_sign() {
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
    fn commands_take_their_arguments() {
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
            "warptap validate --config b.yaml",
            "warptap validate --config b.yaml --feature-gates -a,b",
        ] {
            assert!(parse(line).is_ok_and(|cli| cli.command.is_some()), "{line}");
        }
    }

    #[test]
    fn wrong_lines_are_told_with_the_nearest_word() {
        for (line, want) in [
            ("warptap demo slow-decoed", "slow-decode"),
            ("warptap demo --seconds 0", "no number of seconds"),
            ("warptap demo --seconds -1", "unexpected argument"),
            ("warptap demo --seconds nan", "no number of seconds"),
            ("warptap print-config --mode x", "unredacted"),
            ("warptap record", "--out"),
            ("warptap replay", "<FILE>"),
            ("warptap valdate", "validate"),
            ("warptap --conifg x", "--config"),
        ] {
            let told = parse(line).unwrap_err();
            assert!(told.contains(want), "{line}: {told}");
        }
    }
}
