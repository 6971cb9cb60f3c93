//! Everything between the command line and a graph: load, read, build. Nothing outside is touched but what
//! the locations of the configuration name.

use component::config::{ConfigError, Problem};

use crate::config::{LogLevel, Outside, Sections, load};
use crate::graph::{Factories, Plan};

/// A configuration that can be run.
pub struct Prepared {
    /// What to run.
    pub plan: Plan,
    /// What to log.
    pub log_level: LogLevel,
    /// What is odd but no error.
    pub warnings: Vec<Problem>,
}

/// Loads the locations and builds what they say, or tells all that is wrong with it.
pub fn prepare(
    locations: &[String],
    outside: &dyn Outside,
    factories: Factories<'_>,
) -> Result<Prepared, ConfigError> {
    let loaded = load(locations, outside)?;
    let sections = Sections::read(&loaded.root);
    let plan = Plan::build(&sections, factories, VERSION)?;
    let warnings = loaded.warnings.into_iter().chain(plan.warnings.iter().cloned()).collect();
    Ok(Prepared { plan, log_level: sections.service.log_level, warnings })
}

/// The version of this binary.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
