//! An exporter whose endpoint no request can be sent to, such as one with a placeholder that was not filled in. As in the Collector,
//! it starts, so that other pipelines run: it reports that it fails, and its data is counted as failed.

use std::sync::Arc;

use component::status::ComponentStatus;
use component::{BoxFuture, ComponentId, Consumer, Exporter, Host, Refused, Running, StartResult};
use config::Section;
use pdata::{Data, Signal};
use queue::{ExporterMetrics, Stages};
use tokio_util::sync::CancellationToken;

pub(crate) struct Unusable {
    id: ComponentId,
    /// What is wrong with the endpoint.
    reason: String,
    stages: Stages,
}

impl Unusable {
    /// Returns the exporter of a section whose endpoint is unusable for a reason, of which the section warns.
    pub(crate) fn boxed(
        id: ComponentId,
        section: &Section<'_>,
        reason: String,
        stages: Stages,
    ) -> Box<dyn Exporter> {
        section.warn("endpoint", format!("no data can be exported: {reason}"));
        Box::new(Unusable { id, reason, stages })
    }
}

impl Exporter for Unusable {
    fn start(
        self: Box<Self>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Arc<dyn Consumer>, Running)>> {
        let host = host.clone();
        Box::pin(async move {
            let metrics = ExporterMetrics::with_servers(&host, &self.id, Signal::ALL.map(|_| None));
            tracing::error!(exporter = %self.id, reason = self.reason, "no data can be exported");
            let sender = Arc::new(Refusing(self.reason.clone()));
            let (consumer, running) =
                queue::stack(&host, &self.id, &Signal::ALL, &self.stages, sender, &metrics, &stop).await?;
            let running: Running = Box::pin(async move {
                host.report(ComponentStatus::PermanentError(self.reason));
                running.await;
            });
            Ok((consumer, running))
        })
    }
}

/// Refuses everything.
struct Refusing(String);

impl Consumer for Refusing {
    fn consume(&self, _: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(std::future::ready(Err(Refused::permanent(self.0.clone()))))
    }
}
