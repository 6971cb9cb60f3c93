//! `attributes`: changes the attributes of spans, log records and metric points, of all or of those selected by
//! `include` and `exclude`.

use std::sync::Arc;

use component::{BuildContext, Consumer, Host, Processor, ProcessorFactory, Running, Stability};
use config::{ConfigError, Section};
use pdata::{Data, Signal};
use tokio_util::sync::CancellationToken;

use crate::actions::{self, Action, ActionConfig};
use crate::change;
use crate::matching::{MatchConfig, Selection};

/// The row of this processor.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    kind: "attributes",
    aliases: &[],
    signals: &Signal::STABLE,
    stability: Stability::Beta,
    about: "Adds, changes, hashes or deletes attributes of spans, points and log records.",
    example: "\
actions:
  - key: user.id
    action: hash
",
    keys: config::keys::<AttributesConfig>,
    build,
};

config::section! {
    /// The section of the processor.
    #[derive(Clone, Debug, PartialEq)]
    pub struct AttributesConfig {
        /// Items to change. Unset changes all.
        pub include: Option<MatchConfig>,
        /// Items to leave unchanged, of those included.
        pub exclude: Option<MatchConfig>,
        /// Actions, in order.
        pub actions: Vec<ActionConfig>,
    }
}

struct Attributes {
    selection: Selection,
    actions: Vec<Action>,
}

fn build(_: &BuildContext, section: Section<'_>) -> Result<Box<dyn Processor>, ConfigError> {
    let (config, mut problems) = section.read::<AttributesConfig>();
    let actions = actions::compile("actions", &config.actions, &mut problems);
    let selection = Selection::compile(config.include.as_ref(), config.exclude.as_ref(), &mut problems);
    problems.finish()?;
    Ok(Box::new(Attributes { selection, actions }))
}

impl Processor for Attributes {
    fn start(
        self: Box<Self>,
        next: Arc<dyn Consumer>,
        _: &Host,
        _: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running) {
        change::stage(move |data| self.change(data), next)
    }
}

impl Attributes {
    fn change(&self, data: &mut Data) {
        data.for_each_item_mut(|origin, mut item| {
            if self.selection.contains(origin, item.as_ref()) {
                item.for_each_attributes(|attributes| actions::apply(&self.actions, attributes));
            }
        });
    }
}

#[cfg(test)]
mod tests;
