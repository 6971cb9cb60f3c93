//! A running plan: nodes start from the sinks up, so that a node that receives data can send it on, and stop from
//! the sources down, so that data in flight is still accepted.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use component::status::ComponentStatus;
use component::{Capabilities, Consumer, Host, Running, StartResult, metrics, spans};
use config::Node as ConfigValue;
use opentelemetry::KeyValue;
use pdata::Signal;
use semconv::own_metric;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::edge::{Counted, Edge};
use super::key::NodeKey;
use super::plan::{Component, Plan, Planned};
use super::wiring::Output;

/// A graph of running components.
pub struct Graph {
    /// The host of every component, without extensions.
    base_host: Host,
    /// The running nodes, in no particular order; `Node::level` determines the order of starts and stops.
    pub(super) nodes: Vec<Node>,
    /// The entry edges of all pipelines.
    pub(super) heads: Vec<(Signal, Arc<Edge>)>,
    failed: mpsc::UnboundedReceiver<String>,
    failures: mpsc::UnboundedSender<String>,
}

/// A running node.
pub(super) struct Node {
    pub(super) key: NodeKey,
    pub(super) level: u32,
    /// The configuration it was built from.
    pub(super) config: ConfigValue,
    /// The consumer that upstream nodes call; none for extensions and receivers.
    consumer: Option<Arc<dyn Consumer>>,
    /// The edges it sends data to, by signal.
    pub(super) edges: Vec<(Signal, Arc<Edge>)>,
    /// The capabilities that an extension offers to other components.
    capabilities: Capabilities,
    task: Task,
}

/// The background work of one component.
struct Task {
    stop: CancellationToken,
    work: AbortHandle,
    ended: JoinHandle<()>,
}

/// The error of a component that failed to start.
#[derive(Debug)]
pub struct StartError {
    name: String,
    source: Box<dyn Error + Send + Sync>,
}

impl StartError {
    /// Returns the error of something that components need.
    pub fn new(name: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        StartError { name: name.into(), source: source.into() }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot start pipelines: failed to start {}: {}", self.name, self.source)
    }
}

impl Error for StartError {}

/// The outcome of a stop.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Stopped {
    /// Components that did not finish in time, and were aborted with the data they held.
    pub abandoned: Vec<String>,
}

impl Graph {
    /// Starts extensions, then exporters, processors and connectors, then receivers. If one fails to start, those
    /// before it are stopped again within `stop_max`.
    pub async fn start(plan: Plan, host: &Host, stop_max: Duration) -> Result<Self, StartError> {
        let (failures, failed) = mpsc::unbounded_channel();
        let mut graph =
            Graph { base_host: host.clone(), nodes: Vec::new(), heads: Vec::new(), failed, failures };
        match graph.start_all(plan).await {
            Ok(()) => Ok(graph),
            Err(error) => {
                graph.stop(stop_max).await;
                Err(error)
            }
        }
    }

    async fn start_all(&mut self, plan: Plan) -> Result<(), StartError> {
        for planned in plan.nodes {
            self.start_node(planned).await?;
        }
        self.connect_heads(&plan.heads);
        self.describe(plan.pipelines);
        Ok(())
    }

    /// Creates the entry edges of the pipelines.
    pub(super) fn connect_heads(&mut self, heads: &[Output]) {
        self.heads = self.edges(heads);
    }

    /// Publishes the running pipelines and extensions, and marks the collector as ready.
    pub(super) fn describe(&self, pipelines: Vec<component::status::PipelineInfo>) {
        let extensions = self.nodes.iter().filter(|n| matches!(n.key, NodeKey::Extension(_)));
        self.base_host.state().describe(pipelines, extensions.map(|n| n.key.id().to_string()).collect());
        self.base_host.state().set_ready(true);
    }

    /// Starts one node; the nodes it feeds must be running.
    pub(super) async fn start_node(&mut self, planned: Planned) -> Result<(), StartError> {
        let Planned { key, level, config, component, outputs } = planned;
        let host = self.host(&key);
        host.report(ComponentStatus::Starting);
        let stop = CancellationToken::new();
        let edges = self.edges(&outputs);
        let started = start(component, &key, &edges, &host, stop.clone()).await;
        let Started { consumer, capabilities, running } =
            started.map_err(|source| StartError { name: key.to_string(), source })?;
        host.report(ComponentStatus::Ok);
        let task = self.run(key.to_string(), stop, running);
        self.nodes.push(Node { key, level, config, consumer, edges, capabilities, task });
        Ok(())
    }

    /// Returns the host of one node, with all running extensions.
    fn host(&self, key: &NodeKey) -> Host {
        let extensions = self.nodes.iter().filter(|n| matches!(n.key, NodeKey::Extension(_)));
        let add = |host: Host, n: &Node| host.with_extension(n.key.id().clone(), n.capabilities.clone());
        extensions.fold(self.base_host.of(&key.to_string()), add)
    }

    fn edges(&self, outputs: &[Output]) -> Vec<(Signal, Arc<Edge>)> {
        outputs.iter().map(|(signal, to)| (*signal, Edge::to(self.consumers(to)))).collect()
    }

    /// Returns the consumers of the nodes.
    pub(super) fn consumers(&self, keys: &[NodeKey]) -> Vec<Arc<dyn Consumer>> {
        let consumer = |key: &NodeKey| self.nodes.iter().find(|n| n.key == *key)?.consumer.clone();
        keys.iter().filter_map(consumer).collect()
    }

    /// Spawns the work of a component, and reports its panic to [`Graph::failed`].
    fn run(&mut self, name: String, stop: CancellationToken, running: Running) -> Task {
        let work = tokio::spawn(running);
        let (abort, failures) = (work.abort_handle(), self.failures.clone());
        let ended = tokio::spawn(async move {
            if work.await.is_err_and(|e| e.is_panic()) {
                // The receiver is gone while the graph is being stopped.
                _ = failures.send(name);
            }
        });
        Task { stop, work: abort, ended }
    }

    /// Returns a consumer that feeds all pipelines of a signal, for a caller without receivers.
    pub fn consumer(&self, signal: Signal) -> Option<Arc<dyn Consumer>> {
        let matching = self.heads.iter().filter(|(s, _)| *s == signal);
        let consumers: Vec<Arc<dyn Consumer>> = matching.map(|(_, edge)| edge.clone() as _).collect();
        (!consumers.is_empty()).then(|| component::FanOut::over(consumers))
    }

    /// Waits until a component panics, and returns its name. The collector cannot recover from that.
    pub async fn failed(&mut self) -> String {
        match self.failed.recv().await {
            Some(name) => name,
            // Unreachable: the graph itself holds a sender.
            None => std::future::pending().await,
        }
    }

    /// Stops all components in the reverse order of their start, each after those that feed it, within `stop_max`.
    /// Each level may use an equal share of the remaining time, so that a component that hangs leaves time for those
    /// below it to send their data. A component that has not ended by then is aborted.
    pub async fn stop(mut self, stop_max: Duration) -> Stopped {
        self.base_host.state().set_ready(false);
        let nodes = std::mem::take(&mut self.nodes);
        self.stop_nodes(nodes, stop_max, |_| ()).await
    }

    /// Stops `nodes`, the highest level first; calls `before` with each level before it stops.
    pub(super) async fn stop_nodes(
        &self,
        mut nodes: Vec<Node>,
        stop_max: Duration,
        before: impl Fn(u32),
    ) -> Stopped {
        let last = Instant::now() + stop_max;
        let mut stopped = Stopped::default();
        nodes.sort_by(|a, b| (b.level, &a.key).cmp(&(a.level, &b.key)));
        while let Some(level) = nodes.first().map(|n| n.level) {
            let rest = nodes.split_off(nodes.partition_point(|n| n.level == level));
            let levels_left = 1 + rest.chunk_by(|a, b| a.level == b.level).count() as u32;
            before(level);
            let now = Instant::now();
            let deadline = now + (last - now) / levels_left;
            self.stop_level(std::mem::replace(&mut nodes, rest), deadline, &mut stopped).await;
        }
        stopped
    }

    async fn stop_level(&self, level: Vec<Node>, deadline: Instant, stopped: &mut Stopped) {
        level.iter().for_each(|node| node.task.stop.cancel());
        for Node { key, task, .. } in level {
            if timeout_at(deadline, task.ended).await.is_err() {
                task.work.abort();
                stopped.abandoned.push(key.to_string());
            }
            self.base_host.state().remove(&key.to_string());
        }
    }
}

/// A started component.
struct Started {
    consumer: Option<Arc<dyn Consumer>>,
    capabilities: Capabilities,
    running: Running,
}

async fn start(
    component: Component,
    key: &NodeKey,
    edges: &[(Signal, Arc<Edge>)],
    host: &Host,
    stop: CancellationToken,
) -> StartResult<Started> {
    let next = || edges.first().map_or_else(|| Edge::to(Vec::new()), |(_, edge)| edge.clone());
    let fed = |(consumer, running)| Started {
        consumer: Some(consumer),
        capabilities: Capabilities::default(),
        running,
    };
    Ok(match component {
        Component::Connector(connector, ends) => fed(connector.start(ends, next(), host, stop)),
        Component::Exporter(exporter) => fed(exporter.start(host, stop).await?),
        Component::Extension(extension) => {
            let (capabilities, running) = extension.start(host, stop).await?;
            Started { consumer: None, capabilities, running }
        }
        Component::Processor(processor, signal) => {
            let counted = |metric: semconv::Counter, next| match UNCOUNTED.contains(&key.id().kind()) {
                true => next,
                false => counted(metric, next, key, signal, host),
            };
            let (consumer, running) =
                processor.start(counted(own_metric::OTELCOL_PROCESSOR_OUTGOING_ITEMS, next()), host, stop);
            fed((counted(own_metric::OTELCOL_PROCESSOR_INCOMING_ITEMS, consumer), running))
        }
        Component::Receiver(receiver) => {
            let traced =
                |(s, edge): &(_, Arc<Edge>)| (*s, spans::receiving(key.id(), *s, edge.clone(), host.spans()));
            let running = receiver.start(edges.iter().map(traced).collect(), host, stop).await?;
            Started { consumer: None, capabilities: Capabilities::default(), running }
        }
    })
}

/// Processors whose items the Collector does not count, since they send them later.
const UNCOUNTED: [&str; 1] = ["batch"];

/// Counts the items passed to `next` under the Collector's metric.
fn counted(
    metric: semconv::Counter,
    next: Arc<dyn Consumer>,
    key: &NodeKey,
    signal: Signal,
    host: &Host,
) -> Arc<dyn Consumer> {
    let items = metrics::u64_counter(host.meter(), metric).build();
    let processor = KeyValue::new("processor", key.id().to_string());
    Arc::new(Counted { next, items, attributes: [processor, KeyValue::new("otel.signal", signal.name())] })
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
