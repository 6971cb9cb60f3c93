//! `resource`: changes the attributes of resources.

use std::sync::Arc;

use component::{BuildContext, Consumer, Host, Processor, ProcessorFactory, Running, Stability};
use config::{ConfigError, Section};
use pdata::{Data, Signal};
use tokio_util::sync::CancellationToken;

use crate::actions::{self, Action, ActionConfig};
use crate::change;

/// The row of this processor.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    kind: "resource",
    aliases: &[],
    signals: &Signal::ALL,
    stability: Stability::Beta,
    about: "Adds, changes or deletes attributes of the resource.",
    example: "\
attributes:
  - key: deployment.environment.name
    value: production
    action: upsert
",
    keys: config::keys::<ResourceConfig>,
    build,
};

config::section! {
    /// The section of the processor.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ResourceConfig {
        /// Actions on the attributes of every resource, in order.
        pub attributes: Vec<ActionConfig>,
    }
}

struct Resource {
    actions: Vec<Action>,
}

fn build(_: &BuildContext, section: Section<'_>) -> Result<Box<dyn Processor>, ConfigError> {
    let (config, mut problems) = section.read::<ResourceConfig>();
    let actions = actions::compile("attributes", &config.attributes, &mut problems);
    problems.finish()?;
    Ok(Box::new(Resource { actions }))
}

impl Processor for Resource {
    fn start(
        self: Box<Self>,
        next: Arc<dyn Consumer>,
        _: &Host,
        _: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running) {
        change::stage(move |data| self.change(data), next)
    }
}

impl Resource {
    fn change(&self, data: &mut Data) {
        data.for_each_resource_mut(|resource, _| {
            actions::apply(&self.actions, &mut resource.get_or_insert_default().attributes);
        });
    }
}

#[cfg(test)]
mod tests {
    use component::testing::problems;

    use super::*;
    use crate::testing::check;

    #[test]
    fn only_resources_are_changed() {
        let settings = r#"{"attributes": [{"key": "a", "value": 1, "action": "upsert"}]}"#;
        check(
            &FACTORY,
            settings,
            Signal::Traces,
            r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"b","value":{"boolValue":true}}]},"scopeSpans":[{"spans":[{"name":"n"}]}]},{"schemaUrl":"s"}]}"#,
            r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"b","value":{"boolValue":true}},{"key":"a","value":{"intValue":"1"}}]},"scopeSpans":[{"spans":[{"name":"n"}]}]},{"resource":{"attributes":[{"key":"a","value":{"intValue":"1"}}]},"schemaUrl":"s"}]}"#,
        );
        let one = r#"[{"resource":{"attributes":[{"key":"a","value":{"intValue":"1"}}]}}]"#;
        check(
            &FACTORY,
            settings,
            Signal::Logs,
            r#"{"resourceLogs":[{}]}"#,
            &format!(r#"{{"resourceLogs":{one}}}"#),
        );
        check(
            &FACTORY,
            settings,
            Signal::Metrics,
            r#"{"resourceMetrics":[{}]}"#,
            &format!(r#"{{"resourceMetrics":{one}}}"#),
        );
    }

    #[test]
    fn a_configuration_without_actions_is_refused() {
        assert_eq!(problems(&FACTORY, "{}"), ["x: missing required field \"attributes\""]);
        let found = problems(&FACTORY, r#"{"attributes": [{"key": "a", "action": "rename"}]}"#);
        let want = "x::attributes[0]::action: unsupported action \"rename\": expected insert, update, upsert, \
                    delete, hash, extract or convert";
        assert_eq!(found, [want]);
    }
}
