//! `forward`: sends data of one pipeline unchanged to others, to merge or fork pipelines.

use std::sync::Arc;

use component::{BuildContext, Connector, ConnectorFactory, Consumer, Host, Running, Stability};
use config::{ConfigError, Section};
use pdata::Signal;
use tokio_util::sync::CancellationToken;

/// The row of this connector.
pub const FACTORY: ConnectorFactory = ConnectorFactory {
    kind: "forward",
    aliases: &[],
    signals: &Signal::ALL,
    stability: Stability::Beta,
    about: "Sends data of one pipeline to others of the same signal.",
    example: "",
    keys: config::keys::<ForwardConfig>,
    build,
};

config::section! {
    /// The section of the connector, which has no keys.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct ForwardConfig {
    }
}

struct Forward;

fn build(_: &BuildContext, section: Section<'_>) -> Result<Box<dyn Connector>, ConfigError> {
    section.read::<ForwardConfig>().1.finish()?;
    Ok(Box::new(Forward))
}

impl Connector for Forward {
    fn outputs(&self, from: Signal) -> &'static [Signal] {
        match from {
            Signal::Logs => &[Signal::Logs],
            Signal::Metrics => &[Signal::Metrics],
            Signal::Traces => &[Signal::Traces],
            Signal::Profiles => &[Signal::Profiles],
        }
    }

    fn start(
        self: Box<Self>,
        _: (Signal, Signal),
        next: Arc<dyn Consumer>,
        _: &Host,
        _: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running) {
        (next, Box::pin(async {}))
    }
}

#[cfg(test)]
mod tests {
    use component::testing::{build, check_problem};

    use super::*;
    use crate::testing::pass;

    #[test]
    fn data_of_every_signal_is_forwarded_unchanged() {
        for (signal, json) in [
            (Signal::Logs, r#"{"resourceLogs":[{"schemaUrl":"u"}]}"#),
            (Signal::Metrics, r#"{"resourceMetrics":[{"schemaUrl":"u"}]}"#),
            (Signal::Traces, r#"{"resourceSpans":[{"schemaUrl":"u"}]}"#),
        ] {
            assert_eq!(pass(&FACTORY, "null", (signal, signal), json), [json]);
            assert_eq!(build(&FACTORY, "{}").unwrap().outputs(signal), [signal]);
        }
    }

    #[test]
    fn no_key_is_accepted() {
        check_problem(&FACTORY, r#"{"to": "x"}"#, "invalid keys: to");
    }
}
