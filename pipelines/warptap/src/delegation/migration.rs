//! What would become of a configuration, without running it.

use config::{ConfigError, Position, Problem, Seen};

use super::choose::{Chosen, choose};
use super::program::Program;
use super::{lacks, split, validate};
use crate::config::{ComponentKind, Configured, Loaded, Sections};
use crate::graph::{Factories, distribution};
use crate::prepare;

/// The division of a configuration, and what is said against it.
pub struct Migration {
    chosen: Chosen,
    /// The Collector that runs what is delegated, if the user names one.
    program: Option<Program>,
    counts: [usize; 2],
    /// The smallest distribution with everything that is delegated.
    distribution: &'static str,
    /// What this collector does in another way, ignores, or warns about.
    pub notes: Vec<Problem>,
    /// What prevents a start.
    pub problems: Vec<Problem>,
}

/// Returns the problem of a Collector that cannot be run.
fn unusable(message: String) -> Problem {
    Problem::new(Position::unknown(), "--collector", message)
}

impl Migration {
    /// Divides a configuration. Without a Collector, it is assumed that one has every component of the known distributions.
    ///
    /// # Errors
    /// The Collector that the user names cannot be run.
    pub fn of(loaded: &Loaded, factories: Factories<'_>) -> Result<Self, ConfigError> {
        let seen = Seen::default();
        let sections = loaded.sections(&seen);
        let program = Program::open_wanted(&loaded.delegation, &sections.service.collector);
        let program = program.map_err(unusable)?;
        let is_in_child = |kind: ComponentKind, name: &str| match &program {
            Some(program) => program.has(kind, name),
            None => distribution(kind, name).is_some(),
        };
        // Only the Collector itself knows which settings it accepts.
        let refused = match program {
            Some(_) => prepare::refused(&sections, factories),
            None => Vec::new(),
        };
        let chosen = choose(&sections, lacks(factories, &refused), is_in_child);
        let is_delegated = |c: &&Configured<'_>| chosen.is_delegated(c.kind, &c.id);
        let delegated: Vec<_> = sections.components.iter().filter(is_delegated).collect();
        let counts = [sections.components.len() - delegated.len(), delegated.len()];
        let needed = delegated.iter().filter_map(|c| distribution(c.kind, c.id.kind()));
        // Each distribution contains those with shorter names.
        let distribution = needed.max_by_key(|name| name.len()).unwrap_or_default();
        let mut migration = Migration {
            chosen,
            program,
            counts,
            distribution,
            notes: loaded.warnings.clone(),
            problems: Vec::new(),
        };
        if let Err(error) = migration.check(loaded, &sections, factories) {
            migration.problems.extend(error.into_problems());
        }
        Ok(migration)
    }

    /// Builds the own part, and asks the Collector about the other one.
    fn check(
        &mut self,
        loaded: &Loaded,
        sections: &Sections<'_>,
        factories: Factories<'_>,
    ) -> Result<(), ConfigError> {
        ConfigError::unless_empty(sections.problems.clone())?;
        let places = split::Places::of(&loaded.delegation.directory, self.program.as_ref());
        let split = split::split(&loaded.root, sections, &self.chosen, &places);
        let mut own = Loaded { root: split.native, warnings: Vec::new(), ..loaded.clone() };
        own.bridge = None;
        match prepare::plan(&own, factories) {
            Ok(built) => self.notes.extend(built.plan.warnings),
            Err(error) => self.problems.extend(error.into_problems()),
        }
        if let Some(program) = self.program.as_ref().filter(|_| !self.chosen.is_empty()) {
            let (_, problems) = validate(program, &split.child).map_err(unusable)?;
            self.problems.extend(problems);
        }
        Ok(())
    }

    /// Returns a line for each component, which says where it runs.
    pub fn components<T>(&self, loaded: &Loaded, line: impl Fn(&Configured<'_>, &str) -> T) -> Vec<T> {
        let seen = Seen::default();
        let sections = loaded.sections(&seen);
        sections.components.iter().map(|c| line(c, &self.place(c))).collect()
    }

    fn place(&self, component: &Configured<'_>) -> String {
        if !self.chosen.is_delegated(component.kind, &component.id) {
            return match self.chosen.is_in_child(component.kind, &component.id) {
                true => "runs in warptap, and in the Collector for what is delegated".to_owned(),
                false => "runs in warptap".to_owned(),
            };
        }
        match (&self.program, distribution(component.kind, component.id.kind())) {
            (Some(program), _) => format!("delegated to {}", program.version()),
            (None, Some(distribution)) => format!("delegated: exists in {distribution}"),
            (None, None) => "delegated: uses a delegated extension".to_owned(),
        }
    }

    /// Returns the counts as a sentence, and the command that runs the configuration.
    pub fn summary(&self) -> String {
        let [own, delegated] = self.counts;
        let how = match (&self.program, delegated) {
            (_, 0) => "no other Collector is needed".to_owned(),
            (Some(_), _) => "run it with the same --collector".to_owned(),
            (None, _) => format!("run it with --collector PATH, the path of {}", self.distribution),
        };
        format!("{own} components run in warptap, {delegated} are delegated: {how}")
    }
}
