//! A stored queue driven by a list of actions and compared with a model: what was acknowledged is delivered,
//! refused for good by the backend, or still stored; what is delivered twice was in flight when the process
//! was killed. A run is a function of its actions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::harness::{Answer, Backend, Disk, Process, Shape, request};

/// What happens next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// A request of so many items comes.
    Offer(u8),
    /// So many come at once.
    Burst(u8),
    /// From now on the backend answers so.
    Answer(Answer),
    /// Time passes, in tenths of a second.
    Wait(u8),
    /// The disk is full, or is not any more.
    Full(bool),
    /// The process is killed after so many turns of the scheduler, and started again.
    Kill(u8),
    /// It is stopped and started again.
    Restart,
}

/// What a run showed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Items that were acknowledged.
    pub acknowledged: usize,
    /// Items that were delivered more than once.
    pub duplicates: usize,
    /// Items that were under way at kills and stops, added up.
    pub in_flight_at_kills: usize,
}

/// The world of one run.
struct World {
    shape: Shape,
    disk: Arc<Disk>,
    backend: Arc<Backend>,
    process: Option<Process>,
    next_id: u64,
    acknowledged: BTreeSet<u64>,
    /// Offered, and no answer was heard: they may be stored or not.
    unsure: BTreeSet<u64>,
    report: Report,
}

/// Runs actions in order and checks what must hold after each and at the end.
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
            Action::Offer(items) => self.offer(&[items]).await,
            Action::Burst(count) => self.offer(&vec![1; count.into()]).await,
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

    async fn offer(&mut self, sizes: &[u8]) {
        let requests = self.requests(sizes);
        let front = self.process.as_ref().unwrap().front.clone();
        let mut offers = JoinSet::new();
        for ids in requests {
            let front = front.clone();
            offers.spawn(async move { (front.consume(request(ids.clone())).await, ids) });
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
        let held = self.process.as_ref().unwrap().counts().queue_size;
        assert!(held <= self.shape.queue_size as u64, "{held} held");
    }

    /// Kills the process while a request is on its way in, maybe.
    async fn kill(&mut self, turns: u8) {
        let ids = self.requests(&[3]).remove(0);
        let front = self.process.as_ref().unwrap().front.clone();
        let mut offer = Box::pin(front.consume(request(ids.clone())));
        let mut answered = None;
        for _ in 0..turns % 16 {
            tokio::select! {
                biased;
                answer = &mut offer, if answered.is_none() => answered = Some(answer),
                () = tokio::task::yield_now() => {}
            }
        }
        match answered {
            Some(Ok(())) => self.acknowledged.extend(ids),
            Some(Err(_)) => {}
            None => self.unsure.extend(ids),
        }
        drop(offer);
        self.report.in_flight_at_kills += self.backend.in_flight();
        self.process.take().unwrap().kill();
        tokio::task::yield_now().await;
        self.process = Some(Process::start(self.shape, &self.disk, &self.backend).await);
    }

    async fn restart(&mut self) {
        let counts = self.process.take().unwrap().stop().await;
        assert_eq!(counts.unreadable_requests, 0);
        self.process = Some(Process::start(self.shape, &self.disk, &self.backend).await);
    }

    /// The backend takes everything now: what is stored must arrive, all of it.
    async fn end(mut self) -> Report {
        self.disk.set_full(false);
        self.backend.answer(Answer::Take);
        self.restart().await;
        let mut hours = 0;
        while self.process.as_ref().unwrap().counts().queue_size > 0 {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            hours += 1;
            assert!(hours < 100, "{:?} is never sent", self.process.as_ref().unwrap().counts());
        }
        let counts = self.process.take().unwrap().stop().await;
        assert_eq!((counts.queue_size, counts.unreadable_requests), (0, 0), "{counts:?}");
        assert!(self.disk.names().iter().all(|name| name == "qmv0"), "{:?} are left over", self.disk.names());
        self.judge();
        self.report
    }

    fn judge(&mut self) {
        let (delivered, refused) = (self.backend.delivered(), self.backend.refused());
        let missing: Vec<&u64> = self
            .acknowledged
            .iter()
            .filter(|id| !delivered.contains_key(id) && !refused.contains(id))
            .collect();
        assert!(missing.is_empty(), "acknowledged and lost: {missing:?}");
        let strange: Vec<&u64> = delivered
            .keys()
            .filter(|id| !self.acknowledged.contains(id) && !self.unsure.contains(id))
            .collect();
        assert!(strange.is_empty(), "delivered although refused: {strange:?}");
        self.report.acknowledged = self.acknowledged.len();
        self.report.duplicates = delivered.values().map(|times| times - 1).sum();
    }
}
