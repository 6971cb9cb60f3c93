//! What a node of the graph is: which component, and at which place in which pipeline.

use std::fmt;

use component::ComponentId;
use pdata::Signal;

use crate::config::{Kind, PipelineId};

/// Names one instance of a component. Receivers and exporters are one per id, shared by pipelines and signals;
/// processors one per pipeline; connectors one per pair of signals.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Key {
    /// An extension.
    Extension(ComponentId),
    /// An exporter.
    Exporter(ComponentId),
    /// A connector between pipelines of two signals.
    Connector {
        /// Which.
        id: ComponentId,
        /// The signal of the pipelines that end in it.
        from: Signal,
        /// The signal of the pipelines that it feeds.
        to: Signal,
    },
    /// A processor of a pipeline.
    Processor {
        /// Where.
        pipeline: PipelineId,
        /// Which.
        id: ComponentId,
    },
    /// A receiver.
    Receiver(ComponentId),
}

impl Key {
    /// The kind of component.
    pub fn kind(&self) -> Kind {
        match self {
            Key::Extension(_) => Kind::Extension,
            Key::Exporter(_) => Kind::Exporter,
            Key::Connector { .. } => Kind::Connector,
            Key::Processor { .. } => Kind::Processor,
            Key::Receiver(_) => Kind::Receiver,
        }
    }

    /// The id of the component.
    pub fn id(&self) -> &ComponentId {
        match self {
            Key::Extension(id)
            | Key::Exporter(id)
            | Key::Receiver(id)
            | Key::Connector { id, .. }
            | Key::Processor { id, .. } => id,
        }
    }

    /// The same in the words that the Collector tells cycles in.
    pub(super) fn in_cycle(&self) -> String {
        match self {
            Key::Connector { id, from, to } => {
                format!("connector \"{id}\" ({} to {})", from.name(), to.name())
            }
            Key::Processor { pipeline, id } => format!("processor \"{id}\" in pipeline \"{pipeline}\""),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" {}", self.id(), self.kind().noun())?;
        match self {
            Key::Processor { pipeline, .. } => write!(f, " of pipeline {pipeline}"),
            Key::Connector { from, to, .. } => write!(f, " of {} to {}", from.name(), to.name()),
            _ => Ok(()),
        }
    }
}
