//! Loads a configuration and builds its plan. Accesses only the locations that the configuration names, and the Collector
//! that a user names to run what this one lacks.

use config::{ConfigError, Problem, Seen};

use crate::config::telemetry::TelemetryConfig;
use crate::config::{Configured, Environment, Loaded, Sections, Sources, load};
use crate::delegation::{self, RefusedSettings, delegate};
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
    prepare_loaded(load(sources, environment)?, factories)
}

/// Builds the plan of a loaded configuration, of which a Collector may run a part, or returns all its problems.
pub fn prepare_loaded(mut loaded: Loaded, factories: Factories<'_>) -> Result<Prepared, ConfigError> {
    delegate(&mut loaded, factories)?;
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
    let with_child = [factories.extensions, &[delegation::FACTORY]].concat();
    let factories = match loaded.bridge {
        Some(_) => Factories { extensions: &with_child, ..factories },
        None => factories,
    };
    let mut plan = Plan::build(&sections, factories, VERSION, loaded.bridge.as_ref())?;
    plan.warnings.extend(seen.warnings());
    let components = sections.service.components();
    let keep = match (sections.service.keep_privileges.as_str(), &loaded.bridge) {
        ("", Some(_)) => "components of the Collector may use them".to_owned(),
        (reason, _) => reason.to_owned(),
    };
    let privileges = Privileges { components, keep };
    Ok(Built { plan, telemetry: sections.service.telemetry, privileges })
}

/// Returns the components of this binary that refuse their settings, each with its first problem.
pub fn refused(sections: &Sections<'_>, factories: Factories<'_>) -> Vec<RefusedSettings> {
    let refused = |configured: &Configured<'_>| {
        let error = factories.check(configured, VERSION)?;
        let problem = error.into_problems().into_iter().next()?;
        Some(RefusedSettings { kind: configured.kind, id: configured.id.clone(), problem })
    };
    sections.components.iter().filter_map(refused).collect()
}

/// The version of this binary.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
