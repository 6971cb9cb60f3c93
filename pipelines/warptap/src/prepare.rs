//! Loads a configuration and builds its plan. Accesses only the locations that the configuration names.

use config::{ConfigError, Problem, Seen};

use crate::config::telemetry::TelemetryConfig;
use crate::config::{Environment, Loaded, Sources, load};
use crate::graph::{Factories, Plan};
use crate::privileges::Privileges;

/// A configuration that is ready to run.
pub struct Prepared {
    /// The graph to start.
    pub plan: Plan,
    /// The settings of internal telemetry.
    pub telemetry: TelemetryConfig,
    /// The components that run, and why privileges that they do not use are kept, if they are.
    pub privileges: Privileges,
    /// Problems that do not prevent a start.
    pub warnings: Vec<Problem>,
    /// The loaded configuration it was built from.
    pub loaded: Loaded,
}

/// Loads the configuration of the sources and builds its plan, or returns all its problems.
pub fn prepare(
    sources: impl Into<Sources>,
    environment: &dyn Environment,
    factories: Factories<'_>,
) -> Result<Prepared, ConfigError> {
    let loaded = load(sources, environment)?;
    let Built { plan, telemetry, privileges } = plan(&loaded, factories)?;
    let warnings = loaded.warnings.iter().cloned().chain(plan.warnings.clone()).collect();
    Ok(Prepared { plan, telemetry, privileges, warnings, loaded })
}

/// The plan and settings built from a loaded configuration.
pub struct Built {
    /// The graph to start.
    pub plan: Plan,
    /// The settings of internal telemetry.
    pub telemetry: TelemetryConfig,
    /// What the privileges depend on.
    pub privileges: Privileges,
}

/// Builds the plan of a loaded configuration.
pub fn plan(loaded: &Loaded, factories: Factories<'_>) -> Result<Built, ConfigError> {
    let seen = Seen::default();
    let sections = loaded.sections(&seen);
    let mut plan = Plan::build(&sections, factories, VERSION)?;
    plan.warnings.extend(seen.warnings());
    let components = sections.service.components();
    let privileges = Privileges { components, keep: sections.service.keep_privileges };
    Ok(Built { plan, telemetry: sections.service.telemetry, privileges })
}

/// The version of this binary.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
