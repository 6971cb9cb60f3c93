//! A configuration with every component built: looked up by type, decoded, validated, and opened by none.

use component::config::{ConfigError, Problem, nearest};
use component::{
    BuildContext, ComponentId, Exporter, ExporterFactory, Factory, Processor, ProcessorFactory, Receiver,
    ReceiverFactory, find,
};

use crate::config::{Configured, Kind, Pipeline, PipelineId, Reference, Sections};

/// The tables that components are looked up in.
#[derive(Clone, Copy, Debug)]
pub struct Factories<'a> {
    /// Rows of exporters.
    pub exporters: &'a [ExporterFactory],
    /// Rows of processors.
    pub processors: &'a [ProcessorFactory],
    /// Rows of receivers.
    pub receivers: &'a [ReceiverFactory],
}

/// What is about to run.
pub struct Plan {
    pub(super) exporters: Vec<Built<dyn Exporter>>,
    pub(super) receivers: Vec<Built<dyn Receiver>>,
    pub(super) pipelines: Vec<PlannedPipeline>,
    /// What is odd but no error, such as a deprecated name.
    pub warnings: Vec<Problem>,
}

/// A component that was built and not started.
pub(super) struct Built<T: ?Sized> {
    pub(super) id: ComponentId,
    pub(super) component: Box<T>,
}

/// A pipeline whose processors are built.
pub(super) struct PlannedPipeline {
    pub(super) id: PipelineId,
    pub(super) receivers: Vec<ComponentId>,
    pub(super) processors: Vec<Built<dyn Processor>>,
    pub(super) exporters: Vec<ComponentId>,
}

impl Plan {
    /// Builds every component that is configured, those that no pipeline uses too: their sections must be
    /// right all the same. Tells all that is wrong with any of them, and with the sections themselves.
    pub fn build(
        sections: &Sections<'_>,
        factories: Factories<'_>,
        version: &'static str,
    ) -> Result<Self, ConfigError> {
        let (problems, warnings) = (sections.problems.clone(), sections.warnings.clone());
        let mut builder = Builder { sections, version, problems, warnings };
        builder.refuse_all(Kind::Connector);
        builder.refuse_all(Kind::Extension);
        let exporters = builder.build_all(Kind::Exporter, factories.exporters);
        let processors = builder.build_all(Kind::Processor, factories.processors);
        let receivers = builder.build_all(Kind::Receiver, factories.receivers);
        for pipeline in &sections.service.pipelines {
            builder.check_signal(pipeline, Kind::Receiver, factories.receivers);
            builder.check_signal(pipeline, Kind::Processor, factories.processors);
            builder.check_signal(pipeline, Kind::Exporter, factories.exporters);
        }
        // Built to be validated; each pipeline gets its own below.
        drop(processors);
        ConfigError::unless_empty(std::mem::take(&mut builder.problems))?;
        let plan_pipeline = |pipeline| builder.plan_pipeline(pipeline, factories.processors);
        let pipelines: Vec<PlannedPipeline> =
            sections.service.pipelines.iter().map(plan_pipeline).collect::<Result<_, ConfigError>>()?;
        Ok(Plan { exporters, receivers, pipelines, warnings: builder.warnings }.without_unused())
    }

    /// The same plan without its receivers, for a caller that feeds the pipelines itself.
    pub fn without_receivers(mut self) -> Self {
        self.receivers.clear();
        self
    }

    fn without_unused(mut self) -> Self {
        let pipelines = &self.pipelines;
        self.exporters.retain(|e| pipelines.iter().any(|p| p.exporters.contains(&e.id)));
        self.receivers.retain(|r| pipelines.iter().any(|p| p.receivers.contains(&r.id)));
        self
    }
}

struct Builder<'a> {
    sections: &'a Sections<'a>,
    version: &'static str,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Builder<'_> {
    fn build_all<T: ?Sized>(&mut self, kind: Kind, rows: &[Factory<T>]) -> Vec<Built<T>> {
        let mut built = Vec::new();
        for configured in self.sections.of(kind) {
            let Some(row) = find(rows, configured.id.kind()) else {
                self.problems.push(unknown_type(configured, rows));
                continue;
            };
            if row.kind != configured.id.kind() {
                let message = format!("{:?} is a deprecated name of {:?}", configured.id.kind(), row.kind);
                self.warnings.push(configured.problem(message));
            }
            match self.build_one(configured, row) {
                Ok(component) => built.push(component),
                Err(error) => self.problems.extend(error.into_problems()),
            }
        }
        built
    }

    fn build_one<T: ?Sized>(
        &self,
        configured: &Configured<'_>,
        row: &Factory<T>,
    ) -> Result<Built<T>, ConfigError> {
        let id = configured.id.clone();
        let context = BuildContext { id: id.clone(), version: self.version };
        (row.build)(&context, configured.section()).map(|component| Built { id, component })
    }

    /// Kinds of which there are no components yet.
    fn refuse_all(&mut self, kind: Kind) {
        let refused = self.sections.of(kind).map(|c| unknown_type::<dyn Exporter>(c, &[]));
        self.problems.extend(refused);
    }

    /// Notes every component that does not handle the signal of its pipeline.
    fn check_signal<T: ?Sized>(&mut self, pipeline: &Pipeline, kind: Kind, rows: &[Factory<T>]) {
        for Reference { id, position } in pipeline.references(kind) {
            let Some(row) = find(rows, id.kind()) else { continue };
            if !row.signals.contains(&pipeline.id.signal) {
                let (noun, signal) = (kind.noun(), pipeline.id.signal.name());
                let handled: Vec<&str> = row.signals.iter().map(|s| s.name()).collect();
                let handled = handled.join(", ");
                let message =
                    format!("{noun} \"{id}\" does not support {signal}: expected a pipeline of {handled}");
                self.problems.push(Problem::new(position.clone(), pipeline.path.clone(), message));
            }
        }
    }

    fn plan_pipeline(
        &self,
        pipeline: &Pipeline,
        rows: &[ProcessorFactory],
    ) -> Result<PlannedPipeline, ConfigError> {
        let processors = pipeline.processors.iter().filter_map(|reference| {
            let configured = self.sections.of(Kind::Processor).find(|c| c.id == reference.id)?;
            Some(self.build_one(configured, find(rows, reference.id.kind())?))
        });
        Ok(PlannedPipeline {
            id: pipeline.id.clone(),
            receivers: unique(&pipeline.receivers),
            processors: processors.collect::<Result<_, _>>()?,
            exporters: unique(&pipeline.exporters),
        })
    }
}

/// The ids of a list, each once.
fn unique(references: &[Reference]) -> Vec<ComponentId> {
    let mut ids: Vec<ComponentId> = Vec::new();
    for reference in references {
        if !ids.contains(&reference.id) {
            ids.push(reference.id.clone());
        }
    }
    ids
}

fn unknown_type<T: ?Sized>(configured: &Configured<'_>, rows: &[Factory<T>]) -> Problem {
    let kind = configured.id.kind();
    if configured.kind == Kind::Exporter && kind == "logging" {
        return configured
            .problem("the logging exporter has been deprecated, use the debug exporter instead");
    }
    let known: Vec<&str> = rows.iter().map(|row| row.kind).collect();
    let id = configured.id.to_string();
    let values = known.join(" ");
    let mut problem =
        configured.problem(format!("unknown type: {kind:?} for id: {id:?} (valid values: [{values}])"));
    problem.nearest.extend(nearest(kind, known).map(str::to_owned));
    problem
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
