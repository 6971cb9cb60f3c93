//! A persistent queue driven by a list of actions and compared with a model: acknowledged requests are
//! delivered, refused permanently by the backend, or still stored; requests that are delivered twice were in
//! flight when the process was killed. A run is a function of its actions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::harness::{Answer, Backend, Disk, Process, Shape, request};

/// One step of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// A request with this number of items arrives.
    Arrive(u8),
    /// This number of requests arrives at once.
    Burst(u8),
    /// The backend changes its answer.
    Answer(Answer),
    /// Tenths of a second pass.
    Wait(u8),
    /// The disk becomes full, or has space again.
    Full(bool),
    /// The process is killed after this number of scheduler turns, and started again.
    Kill(u8),
    /// The process is stopped and started again.
    Restart,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Items that were acknowledged.
    pub acknowledged: usize,
    /// Items that were delivered more than once.
    pub duplicates: usize,
    /// Sum of items in flight at kills.
    pub in_flight_at_kills: usize,
}

/// The state of one run.
struct World {
    shape: Shape,
    disk: Arc<Disk>,
    backend: Arc<Backend>,
    process: Option<Process>,
    next_id: u64,
    acknowledged: BTreeSet<u64>,
    /// Items of requests that were never answered: they may be stored or not.
    unsure: BTreeSet<u64>,
    report: Report,
}

/// Runs the actions in order and checks the invariants after each and at the end.
pub fn check(shape: Shape, actions: &[Action]) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let mut world = World::new(shape).await;
        for action in actions {
            world.act(*action).await;
        }
        world.end().await
    })
}

impl World {
    async fn new(shape: Shape) -> Self {
        let (disk, backend) = (Arc::<Disk>::default(), Backend::new());
        let process = Some(Process::start(shape, &disk, &backend).await);
        World {
            shape,
            disk,
            backend,
            process,
            next_id: 0,
            acknowledged: BTreeSet::new(),
            unsure: BTreeSet::new(),
            report: Report::default(),
        }
    }

    async fn act(&mut self, action: Action) {
        match action {
            Action::Arrive(items) => self.arrive(&[items]).await,
            Action::Burst(count) => self.arrive(&vec![1; count.into()]).await,
            Action::Answer(answer) => self.backend.answer(answer),
            Action::Wait(tenths) => tokio::time::sleep(Duration::from_millis(100 * u64::from(tenths))).await,
            Action::Full(is_full) => self.disk.set_full(is_full),
            Action::Kill(turns) => self.kill(turns).await,
            Action::Restart => self.restart().await,
        }
    }

    fn requests(&mut self, sizes: &[u8]) -> Vec<std::ops::Range<u64>> {
        let mut one = |items: &u8| {
            let begin = self.next_id;
            self.next_id += u64::from(*items);
            begin..self.next_id
        };
        sizes.iter().map(&mut one).collect()
    }

    async fn arrive(&mut self, sizes: &[u8]) {
        let requests = self.requests(sizes);
        let input = self.process.as_ref().unwrap().input.clone();
        let mut offers = JoinSet::new();
        for ids in requests {
            let input = input.clone();
            offers.spawn(async move { (input.consume(request(ids.clone())).await, ids) });
        }
        for (answer, ids) in offers.join_all().await {
            match answer {
                Ok(()) => self.acknowledged.extend(ids),
                Err(refused) => assert!(
                    refused.is_retryable() || refused.to_string().contains("larger than the sending queue"),
                    "{refused}"
                ),
            }
        }
        let size = self.process.as_ref().unwrap().queue_size();
        assert!(size <= self.shape.queue_size as u64, "the queue has size {size}");
    }

    /// Kills the process, possibly while a request is being enqueued.
    async fn kill(&mut self, turns: u8) {
        let ids = self.requests(&[3]).remove(0);
        let input = self.process.as_ref().unwrap().input.clone();
        let mut capabilities = Box::pin(input.consume(request(ids.clone())));
        let mut answered = None;
        for _ in 0..turns % 16 {
            tokio::select! {
                biased;
                answer = &mut capabilities, if answered.is_none() => answered = Some(answer),
                () = tokio::task::yield_now() => {}
            }
        }
        match answered {
            Some(Ok(())) => self.acknowledged.extend(ids),
            Some(Err(_)) => {}
            None => self.unsure.extend(ids),
        }
        drop(capabilities);
        self.report.in_flight_at_kills += self.backend.in_flight();
        self.process.take().unwrap().kill();
        tokio::task::yield_now().await;
        self.process = Some(Process::start(self.shape, &self.disk, &self.backend).await);
    }

    async fn restart(&mut self) {
        let (counts, _) = self.process.take().unwrap().stop().await;
        assert_eq!(counts.unreadable_requests, 0);
        self.process = Some(Process::start(self.shape, &self.disk, &self.backend).await);
    }

    /// Lets the backend accept everything; all stored requests must arrive.
    async fn end(mut self) -> Report {
        self.disk.set_full(false);
        self.backend.answer(Answer::Take);
        self.restart().await;
        let mut hours = 0;
        while self.process.as_ref().unwrap().queue_size() > 0 {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            hours += 1;
            assert!(hours < 100, "{} are never sent", self.process.as_ref().unwrap().queue_size());
        }
        let (counts, size) = self.process.take().unwrap().stop().await;
        assert_eq!((size, counts.unreadable_requests), (0, 0), "{counts:?}");
        assert!(self.disk.names().iter().all(|name| name == "qmv0"), "{:?} are left over", self.disk.names());
        self.check_deliveries();
        self.report
    }

    fn check_deliveries(&mut self) {
        let (delivered, refused) = (self.backend.delivered(), self.backend.refused());
        let missing: Vec<&u64> = self
            .acknowledged
            .iter()
            .filter(|id| !delivered.contains_key(id) && !refused.contains(id))
            .collect();
        assert!(missing.is_empty(), "acknowledged and lost: {missing:?}");
        let unexpected: Vec<&u64> = delivered
            .keys()
            .filter(|id| !self.acknowledged.contains(id) && !self.unsure.contains(id))
            .collect();
        assert!(unexpected.is_empty(), "delivered although refused: {unexpected:?}");
        self.report.acknowledged = self.acknowledged.len();
        self.report.duplicates = delivered.values().map(|times| times - 1).sum();
    }
}
