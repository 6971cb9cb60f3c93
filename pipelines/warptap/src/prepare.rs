//! Everything between the command line and a graph: load, read, build. Nothing outside is touched but what
//! the locations of the configuration name.

use config::{ConfigError, Problem, Seen};

use crate::config::telemetry::Telemetry;
use crate::config::{Loaded, Outside, Sources, load};
use crate::graph::{Factories, Plan};

/// A configuration that can be run.
pub struct Prepared {
    /// What to run.
    pub plan: Plan,
    /// What to tell of oneself.
    pub telemetry: Telemetry,
    /// What is odd but no error.
    pub warnings: Vec<Problem>,
    /// What it was made of.
    pub loaded: Loaded,
}

/// Loads the locations and builds what they say, or tells all that is wrong with it.
pub fn prepare(
    sources: impl Into<Sources>,
    outside: &dyn Outside,
    factories: Factories<'_>,
) -> Result<Prepared, ConfigError> {
    let loaded = load(sources, outside)?;
    let Built { plan, telemetry } = plan(&loaded, factories)?;
    let warnings = loaded.warnings.iter().cloned().chain(plan.warnings.clone()).collect();
    Ok(Prepared { plan, telemetry, warnings, loaded })
}

/// What a loaded configuration comes to.
pub struct Built {
    /// What to run.
    pub plan: Plan,
    /// What to tell of oneself.
    pub telemetry: Telemetry,
}

/// Builds what a loaded configuration says.
pub fn plan(loaded: &Loaded, factories: Factories<'_>) -> Result<Built, ConfigError> {
    let seen = Seen::default();
    let sections = loaded.sections(&seen);
    let mut plan = Plan::build(&sections, factories, VERSION)?;
    plan.warnings.extend(seen.warnings());
    Ok(Built { plan, telemetry: sections.service.telemetry })
}

/// The version of this binary.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
