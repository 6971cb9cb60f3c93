//! `nop`: accepts and discards all data, for testing a pipeline.

use std::sync::Arc;

use component::{
    BoxFuture, BuildContext, Consumer, Exporter, ExporterFactory, Host, Refused, Running, Stability,
    StartResult,
};
use config::{ConfigError, Section};
use pdata::{Data, Signal};
use tokio_util::sync::CancellationToken;

/// The row of this exporter.
pub const FACTORY: ExporterFactory = ExporterFactory {
    kind: "nop",
    aliases: &[],
    signals: &Signal::ALL,
    stability: Stability::Beta,
    about: "Accepts and discards all data.",
    example: "",
    keys: config::keys::<NopConfig>,
    build,
};

config::section! {
    /// The section of the exporter, which has no keys.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct NopConfig {
    }
}

struct Nop;

fn build(_: &BuildContext, section: Section<'_>) -> Result<Box<dyn Exporter>, ConfigError> {
    section.read::<NopConfig>().1.finish()?;
    Ok(Box::new(Nop))
}

impl Exporter for Nop {
    fn start(
        self: Box<Self>,
        _: &Host,
        _: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Arc<dyn Consumer>, Running)>> {
        Box::pin(async {
            let consumer: Arc<dyn Consumer> = Arc::new(Nop);
            let running: Running = Box::pin(async {});
            Ok((consumer, running))
        })
    }
}

impl Consumer for Nop {
    fn consume(&self, _: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async { Ok(()) })
    }
}

#[cfg(test)]
mod tests {
    use component::testing::{Started, problems};

    use super::*;
    use crate::testing::span;

    #[tokio::test]
    async fn all_data_is_accepted() {
        let exporter = Started::exporter(&FACTORY, "{}").await;
        assert_eq!(exporter.input.consume(span("one")).await, Ok(()));
        exporter.end().await;
    }

    #[test]
    fn the_section_has_no_keys() {
        assert_eq!(problems(&FACTORY, "null"), [""; 0]);
        let found = problems(&FACTORY, r#"{"endpoint": "x"}"#);
        assert!(matches!(&found[..], [one] if one.contains("invalid keys: endpoint")), "{found:?}");
    }
}
