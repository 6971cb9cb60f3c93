//! Identity of a node of the graph: its component, and its pipeline or signals.

use std::fmt;

use component::ComponentId;
use pdata::Signal;

use crate::config::{ComponentKind, PipelineId};

/// Identifies one instance of a component. A receiver or exporter has one instance per id, shared by pipelines and
/// signals; a processor has one per pipeline; a connector has one per pair of signals.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum NodeKey {
    /// An extension.
    Extension(ComponentId),
    /// An exporter.
    Exporter(ComponentId),
    /// A connector between pipelines of two signals.
    Connector {
        /// The id of the connector.
        id: ComponentId,
        /// The signal of the pipelines that end in it.
        from: Signal,
        /// The signal of the pipelines that it feeds.
        to: Signal,
    },
    /// A processor of a pipeline.
    Processor {
        /// The pipeline that contains it.
        pipeline: PipelineId,
        /// The id of the processor.
        id: ComponentId,
    },
    /// A receiver.
    Receiver(ComponentId),
}

impl NodeKey {
    /// Returns the kind of the component.
    pub fn kind(&self) -> ComponentKind {
        match self {
            NodeKey::Extension(_) => ComponentKind::Extension,
            NodeKey::Exporter(_) => ComponentKind::Exporter,
            NodeKey::Connector { .. } => ComponentKind::Connector,
            NodeKey::Processor { .. } => ComponentKind::Processor,
            NodeKey::Receiver(_) => ComponentKind::Receiver,
        }
    }

    /// Returns the id of the component.
    pub fn id(&self) -> &ComponentId {
        match self {
            NodeKey::Extension(id)
            | NodeKey::Exporter(id)
            | NodeKey::Receiver(id)
            | NodeKey::Connector { id, .. }
            | NodeKey::Processor { id, .. } => id,
        }
    }

    /// Formats the node as the Collector does in its message about a cycle.
    pub(super) fn in_cycle(&self) -> String {
        match self {
            NodeKey::Connector { id, from, to } => {
                format!("connector \"{id}\" ({} to {})", from.name(), to.name())
            }
            NodeKey::Processor { pipeline, id } => format!("processor \"{id}\" in pipeline \"{pipeline}\""),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" {}", self.id(), self.kind().noun())?;
        match self {
            NodeKey::Processor { pipeline, .. } => write!(f, " of pipeline {pipeline}"),
            NodeKey::Connector { from, to, .. } => write!(f, " of {} to {}", from.name(), to.name()),
            _ => Ok(()),
        }
    }
}
