//! What would become of a configuration, without running it.

use component::ComponentId;
use config::{ConfigError, Position, Problem, Seen};

use super::choose::{Chosen, choose};
use super::program::{self, Program};
use super::{messages, split, text};
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

impl Migration {
    /// Divides a configuration. Without a Collector, it is assumed that one has every component of the known distributions.
    ///
    /// # Errors
    /// The Collector that the user names cannot be run.
    pub fn of(loaded: &Loaded, factories: Factories<'_>) -> Result<Self, ConfigError> {
        let seen = Seen::default();
        let sections = loaded.sections(&seen);
        let failed = |message: String| Problem::new(Position::unknown(), "--collector", message);
        let program = program::wanted(&loaded.delegation, &sections.service.collector).transpose();
        let program =
            program.and_then(|path| path.map(|path| Program::open(&path)).transpose()).map_err(failed)?;
        let is_in_child = |kind: ComponentKind, name: &str| match &program {
            Some(program) => program.has(kind, name),
            None => distribution(kind, name).is_some(),
        };
        let refused = prepare::refused(&sections, factories);
        let is_refused = |kind, id: &ComponentId| refused.iter().any(|r| (r.kind, &r.id) == (kind, id));
        let lacks = |kind, id: &ComponentId| {
            !factories.has(kind, id.kind()) || (program.is_some() && is_refused(kind, id))
        };
        let chosen = choose(&sections, lacks, is_in_child);
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
            let refused = program.validate(&text::of(&split.child)?);
            let refused =
                refused.map_err(|message| Problem::new(Position::unknown(), "--collector", message))?;
            self.problems.extend(messages::problems(&refused, &split.child, program.path()));
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
