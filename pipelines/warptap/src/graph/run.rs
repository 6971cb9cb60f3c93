//! A plan that runs: started from the sinks up, so that whoever receives data can hand it on, and stopped
//! from the sources down, so that what is in flight is still taken.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use component::{ComponentId, Consumer, Exporter, FanOut, Host, Receiver, Running, Signal, StartResult};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::plan::{Built, Plan, PlannedPipeline};
use crate::config::{Kind, PipelineId};

/// Pipelines at work.
pub struct Graph {
    /// What runs, in the order it was started: each group is stopped and awaited before the one ahead of it.
    groups: Vec<Vec<Task>>,
    inlets: Vec<Inlet>,
    failed: mpsc::UnboundedReceiver<String>,
    failures: mpsc::UnboundedSender<String>,
}

/// The consumer in front of a pipeline, and which receivers feed it.
struct Inlet {
    pipeline: PipelineId,
    receivers: Vec<ComponentId>,
    consumer: Arc<dyn Consumer>,
}

/// The background work of one component.
struct Task {
    name: String,
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
    /// Starts everything: exporters, processors, receivers. Where one cannot start, those before it are
    /// stopped again, within `stop_max`.
    pub async fn start(plan: Plan, stop_max: Duration) -> Result<Self, StartError> {
        let (failures, failed) = mpsc::unbounded_channel();
        let mut graph = Graph { groups: Vec::new(), inlets: Vec::new(), failed, failures };
        match graph.start_all(plan).await {
            Ok(()) => Ok(graph),
            Err(error) => {
                graph.stop(stop_max).await;
                Err(error)
            }
        }
    }

    async fn start_all(&mut self, plan: Plan) -> Result<(), StartError> {
        let exporters = self.start_exporters(plan.exporters).await?;
        for pipeline in plan.pipelines {
            self.start_pipeline(pipeline, &exporters);
        }
        self.start_receivers(plan.receivers).await
    }

    async fn start_exporters(&mut self, exporters: Vec<Built<dyn Exporter>>) -> Result<Sinks, StartError> {
        let mut sinks = Sinks::new();
        self.groups.push(Vec::new());
        for Built { id, component } in exporters {
            let (name, stop) = (name(Kind::Exporter, &id), CancellationToken::new());
            let (consumer, running) = named(&name, component.start(&Host::detached(), stop.clone()).await)?;
            self.run(name, stop, running);
            sinks.push((id, consumer));
        }
        Ok(sinks)
    }

    fn start_pipeline(&mut self, pipeline: PlannedPipeline, sinks: &Sinks) {
        let is_ours = |(id, _): &&(ComponentId, Arc<dyn Consumer>)| pipeline.exporters.contains(id);
        let mut consumer = FanOut::over(sinks.iter().filter(is_ours).map(|(_, c)| c.clone()).collect());
        for Built { id, component } in pipeline.processors.into_iter().rev() {
            let stop = CancellationToken::new();
            let (before, running) = component.start(consumer, &Host::detached(), stop.clone());
            self.groups.push(Vec::new());
            self.run(format!("{} of pipeline {}", name(Kind::Processor, &id), pipeline.id), stop, running);
            consumer = before;
        }
        self.inlets.push(Inlet { pipeline: pipeline.id, receivers: pipeline.receivers, consumer });
    }

    async fn start_receivers(&mut self, receivers: Vec<Built<dyn Receiver>>) -> Result<(), StartError> {
        self.groups.push(Vec::new());
        for Built { id, component } in receivers {
            let (name, stop) = (name(Kind::Receiver, &id), CancellationToken::new());
            let feeds =
                |signal| self.inlet(signal, |inlet| inlet.receivers.contains(&id)).map(|c| (signal, c));
            let next = Signal::STABLE.into_iter().filter_map(feeds).collect();
            let running = named(&name, component.start(next, &Host::detached(), stop.clone()).await)?;
            self.run(name, stop, running);
        }
        Ok(())
    }

    /// Lets the work of a component run, in the group that was opened last.
    fn run(&mut self, name: String, stop: CancellationToken, running: Running) {
        let work = tokio::spawn(running);
        let (abort, failures, who) = (work.abort_handle(), self.failures.clone(), name.clone());
        let ended = tokio::spawn(async move {
            if work.await.is_err_and(|e| e.is_panic()) {
                // Nobody listens any more where the graph is being stopped.
                _ = failures.send(who);
            }
        });
        let group = self.groups.last_mut().expect("a group is opened before components run");
        group.push(Task { name, stop, work: abort, ended });
    }

    fn inlet(&self, signal: Signal, wanted: impl Fn(&Inlet) -> bool) -> Option<Arc<dyn Consumer>> {
        let matching = self.inlets.iter().filter(|i| i.pipeline.signal == signal && wanted(i));
        let consumers: Vec<_> = matching.map(|inlet| inlet.consumer.clone()).collect();
        (!consumers.is_empty()).then(|| FanOut::over(consumers))
    }

    /// The front of all pipelines of a signal, for a caller that feeds them itself.
    pub fn front(&self, signal: Signal) -> Option<Arc<dyn Consumer>> {
        self.inlet(signal, |_| true)
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
    /// `stop_max` at most: a group may use its share of what is left, so that one that hangs does not keep
    /// those behind it from sending what they hold. What has not ended by then is abandoned.
    pub async fn stop(self, stop_max: Duration) -> Stopped {
        let last = Instant::now() + stop_max;
        let mut stopped = Stopped::default();
        let mut groups_left = self.groups.len() as u32;
        for group in self.groups.into_iter().rev() {
            let now = Instant::now();
            stop_group(group, now + (last - now) / groups_left, &mut stopped).await;
            groups_left -= 1;
        }
        stopped
    }
}

async fn stop_group(group: Vec<Task>, deadline: Instant, stopped: &mut Stopped) {
    group.iter().for_each(|task| task.stop.cancel());
    for task in group {
        if timeout_at(deadline, task.ended).await.is_err() {
            task.work.abort();
            stopped.abandoned.push(task.name);
        }
    }
}

/// Where pipelines end, by exporter.
type Sinks = Vec<(ComponentId, Arc<dyn Consumer>)>;

fn name(kind: Kind, id: &ComponentId) -> String {
    format!("\"{id}\" {}", kind.noun())
}

fn named<T>(name: &str, result: StartResult<T>) -> Result<T, StartError> {
    result.map_err(|source| StartError { name: name.to_owned(), source })
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
