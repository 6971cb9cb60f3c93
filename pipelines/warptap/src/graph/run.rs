//! A plan that runs: started from the sinks up, so that whoever receives data can hand it on, and stopped
//! from the sources down, so that what is in flight is still taken.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use component::status::Status;
use component::{Capabilities, Consumer, Host, Running, StartResult, metrics, spans};
use config::Node as Config;
use opentelemetry::KeyValue;
use pdata::Signal;
use semconv::own_metric;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::edge::{Counted, Edge};
use super::key::Key;
use super::plan::{Part, Plan, Planned};
use super::wiring::Way;

/// Pipelines at work.
pub struct Graph {
    /// What every component finds around it, but extensions.
    bare: Host,
    /// What runs, in no order of meaning: levels say who comes first.
    pub(super) nodes: Vec<Node>,
    /// The fronts of all pipelines.
    pub(super) heads: Vec<(Signal, Arc<Edge>)>,
    failed: mpsc::UnboundedReceiver<String>,
    failures: mpsc::UnboundedSender<String>,
}

/// A node that runs.
pub(super) struct Node {
    pub(super) key: Key,
    pub(super) level: u32,
    /// What it was built from.
    pub(super) config: Config,
    /// What hands it data; nothing does that with extensions and receivers.
    front: Option<Arc<dyn Consumer>>,
    /// Where its data goes.
    pub(super) edges: Vec<(Signal, Arc<Edge>)>,
    /// What an extension offers.
    capabilities: Capabilities,
    task: Task,
}

/// The background work of one component.
struct Task {
    stop: CancellationToken,
    work: AbortHandle,
    ended: JoinHandle<()>,
}

/// A component that could not open what it needs.
#[derive(Debug)]
pub struct StartError {
    name: String,
    source: Box<dyn Error + Send + Sync>,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot start pipelines: failed to start {}: {}", self.name, self.source)
    }
}

impl Error for StartError {}

/// How a stop went.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Stopped {
    /// Components that did not finish in time, and were abandoned with what they held.
    pub abandoned: Vec<String>,
}

impl Graph {
    /// Starts everything: extensions, exporters, what stands between, receivers. Where one cannot start, those
    /// before it are stopped again, within `stop_max`.
    pub async fn start(plan: Plan, host: &Host, stop_max: Duration) -> Result<Self, StartError> {
        let (failures, failed) = mpsc::unbounded_channel();
        let mut graph = Graph { bare: host.clone(), nodes: Vec::new(), heads: Vec::new(), failed, failures };
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
        self.lead_in(&plan.heads);
        self.describe(plan.pipelines);
        Ok(())
    }

    /// Builds the fronts of the pipelines.
    pub(super) fn lead_in(&mut self, heads: &[Way]) {
        self.heads = self.edges(heads);
    }

    /// Tells what runs, and that it is ready.
    pub(super) fn describe(&self, pipelines: Vec<component::status::PipelineInfo>) {
        let extensions = self.nodes.iter().filter(|n| matches!(n.key, Key::Extension(_)));
        self.bare.state().describe(pipelines, extensions.map(|n| n.key.id().to_string()).collect());
        self.bare.state().set_ready(true);
    }

    /// Starts one node; those that it feeds run already.
    pub(super) async fn start_node(&mut self, planned: Planned) -> Result<(), StartError> {
        let Planned { key, level, config, part, ways } = planned;
        let host = self.host(&key);
        host.report(Status::Starting);
        let stop = CancellationToken::new();
        let edges = self.edges(&ways);
        let started = start(part, &key, &edges, &host, stop.clone()).await;
        let Started { front, capabilities, running } =
            started.map_err(|source| StartError { name: key.to_string(), source })?;
        host.report(Status::Ok);
        let task = self.run(key.to_string(), stop, running);
        self.nodes.push(Node { key, level, config, front, edges, capabilities, task });
        Ok(())
    }

    /// The surroundings of one node: everything, and the extensions that run.
    fn host(&self, key: &Key) -> Host {
        let extensions = self.nodes.iter().filter(|n| matches!(n.key, Key::Extension(_)));
        let add = |host: Host, n: &Node| host.with_extension(n.key.id().clone(), n.capabilities.clone());
        extensions.fold(self.bare.of(&key.to_string()), add)
    }

    fn edges(&self, ways: &[Way]) -> Vec<(Signal, Arc<Edge>)> {
        ways.iter().map(|(signal, to)| (*signal, Edge::to(self.fronts(to)))).collect()
    }

    /// What hands data to nodes.
    pub(super) fn fronts(&self, keys: &[Key]) -> Vec<Arc<dyn Consumer>> {
        let front = |key: &Key| self.nodes.iter().find(|n| n.key == *key)?.front.clone();
        keys.iter().filter_map(front).collect()
    }

    /// Lets the work of a component run.
    fn run(&mut self, name: String, stop: CancellationToken, running: Running) -> Task {
        let work = tokio::spawn(running);
        let (abort, failures) = (work.abort_handle(), self.failures.clone());
        let ended = tokio::spawn(async move {
            if work.await.is_err_and(|e| e.is_panic()) {
                // Nobody listens any more where the graph is being stopped.
                _ = failures.send(name);
            }
        });
        Task { stop, work: abort, ended }
    }

    /// The front of all pipelines of a signal, for a caller that feeds them itself.
    pub fn front(&self, signal: Signal) -> Option<Arc<dyn Consumer>> {
        let matching = self.heads.iter().filter(|(s, _)| *s == signal);
        let fronts: Vec<Arc<dyn Consumer>> = matching.map(|(_, edge)| edge.clone() as _).collect();
        (!fronts.is_empty()).then(|| component::FanOut::over(fronts))
    }

    /// Waits until a component panics, and returns which. That cannot be mended while running.
    pub async fn failed(&mut self) -> String {
        match self.failed.recv().await {
            Some(name) => name,
            // The graph holds a sender of its own.
            None => std::future::pending().await,
        }
    }

    /// Stops everything in the reverse order of its start, each component after those that feed it. It takes
    /// `stop_max` at most: a level may use its share of what is left, so that one that hangs does not keep
    /// those below it from sending what they hold. What has not ended by then is abandoned.
    pub async fn stop(mut self, stop_max: Duration) -> Stopped {
        self.bare.state().set_ready(false);
        let nodes = std::mem::take(&mut self.nodes);
        self.stop_nodes(nodes, stop_max, |_| ()).await
    }

    /// Stops some nodes, the highest level first; `before` is called with each level before it is stopped.
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
            self.bare.state().remove(&key.to_string());
        }
    }
}

/// What came out of a start.
struct Started {
    front: Option<Arc<dyn Consumer>>,
    capabilities: Capabilities,
    running: Running,
}

async fn start(
    part: Part,
    key: &Key,
    edges: &[(Signal, Arc<Edge>)],
    host: &Host,
    stop: CancellationToken,
) -> StartResult<Started> {
    let next = || edges.first().map_or_else(|| Edge::to(Vec::new()), |(_, edge)| edge.clone());
    let fed =
        |(front, running)| Started { front: Some(front), capabilities: Capabilities::default(), running };
    Ok(match part {
        Part::Connector(connector, ends) => fed(connector.start(ends, next(), host, stop)),
        Part::Exporter(exporter) => fed(exporter.start(host, stop).await?),
        Part::Extension(extension) => {
            let (capabilities, running) = extension.start(host, stop).await?;
            Started { front: None, capabilities, running }
        }
        Part::Processor(processor, signal) => {
            let counted = |metric: semconv::Counter, next| match UNCOUNTED.contains(&key.id().kind()) {
                true => next,
                false => counted(metric, next, key, signal, host),
            };
            let (front, running) =
                processor.start(counted(own_metric::OTELCOL_PROCESSOR_OUTGOING_ITEMS, next()), host, stop);
            fed((counted(own_metric::OTELCOL_PROCESSOR_INCOMING_ITEMS, front), running))
        }
        Part::Receiver(receiver) => {
            let traced =
                |(s, edge): &(_, Arc<Edge>)| (*s, spans::receiving(key.id(), *s, edge.clone(), host.spans()));
            let running = receiver.start(edges.iter().map(traced).collect(), host, stop).await?;
            Started { front: None, capabilities: Capabilities::default(), running }
        }
    })
}

/// Processors that the Collector leaves out, since they hand on later what they took.
const UNCOUNTED: [&str; 1] = ["batch"];

/// Counts what goes to `next` as the Collector does.
fn counted(
    metric: semconv::Counter,
    next: Arc<dyn Consumer>,
    key: &Key,
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
