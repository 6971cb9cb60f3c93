//! Inspects processes on a thread of its own, since a process can delay them without limit: the files that it maps, and
//! those that its memory is mapped from, can be on a file system that never answers (FUSE, NFS), and the kernel reads its
//! maps and memory under locks that it holds.
//!
//! The caller waits for the answers of a turn for [`TURN`] in all. An inspection that takes longer goes on in its thread. Until it
//! ends, nothing else is asked about that process, and the next inspection gets another thread: [`UNANSWERED_MAX`] in all, and
//! [`UNANSWERED_OF_USER_MAX`] for the processes of a user.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Time for which a caller waits in one turn.
pub const TURN: Duration = Duration::from_millis(100);

/// How long a caller waits for answers.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Time in one turn.
    turn: Duration,
    /// An inspection is not begun if less of the turn is left.
    least: Duration,
    /// Time after which an inspection without an answer is logged.
    report_after: Duration,
}

impl Patience {
    /// Waits for [`TURN`], for what usually takes a tenth of a millisecond.
    pub const USUAL: Patience =
        Patience { turn: TURN, least: Duration::from_millis(20), report_after: Duration::from_millis(500) };
    /// Does not wait, for what takes long: all answers are late.
    pub const NONE: Patience =
        Patience { turn: Duration::ZERO, least: Duration::ZERO, report_after: Duration::from_secs(30) };
}
/// Inspections without an answer.
const UNANSWERED_MAX: usize = 64;
const UNANSWERED_OF_USER_MAX: usize = 16;
/// Late answers that are kept. Further ones replace others, whose questions are asked again.
const KEPT_MAX: usize = 64;
/// Processes that wait to be inspected. Further ones are inspected when they give another reason.
const AWAITED_MAX: usize = 32_768;

/// The reason why an inspection has no answer yet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoAnswer {
    /// This inspection, or an earlier one of the same process, has not ended.
    Unanswered,
    /// Too many inspections of processes of the same user, or at all, have not ended.
    TooMany,
    /// The time of this turn is used up.
    Postponed,
    /// There is no thread for it, or it panicked.
    Failed,
}

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            NoAnswer::Unanswered => "the process, or the file system of its files, does not answer",
            NoAnswer::TooMany => {
                "other processes of the user, or the file systems of their files, do not answer"
            }
            NoAnswer::Postponed => "other processes are inspected first",
            NoAnswer::Failed => "the inspection failed",
        })
    }
}

type Answer = Box<dyn Any + Send>;
type Inspection = Box<dyn FnOnce() -> Answer + Send>;

/// A thread that makes inspections, one after the other. It ends when the value is dropped, and its inspection with it.
struct Worker {
    inspections: Sender<Inspection>,
    answers: Receiver<Answer>,
}

impl Worker {
    fn spawn(name: &str) -> Option<Worker> {
        let (inspections, asked) = channel::<Inspection>();
        let (answer, answers) = channel();
        let work = move || asked.into_iter().try_for_each(|inspect| answer.send(inspect()));
        let spawned = Builder::new().name(name.to_owned()).spawn(work);
        let failed = |error: &_| tracing::error!(%error, "no thread can be started to inspect processes");
        spawned.inspect_err(failed).is_ok().then_some(Worker { inspections, answers })
    }
}

/// An inspection that took longer than the caller waited.
struct Unanswered<Q> {
    pid: u32,
    user: u32,
    question: Q,
    /// The answer is kept for the next time that the question is asked.
    is_kept: bool,
    worker: Worker,
    began: Instant,
    is_reported: bool,
}

/// Inspects processes. `Q` says what is inspected of a process; an answer has the same type each time.
pub struct Inspector<Q> {
    name: &'static str,
    patience: Patience,
    idle: Option<Worker>,
    unanswered: Vec<Unanswered<Q>>,
    /// Answers that came late.
    kept: BTreeMap<(u32, Q), Answer>,
    /// Processes that are to be inspected again when an inspection ends.
    waiting: BTreeSet<u32>,
    /// Processes that are to be inspected again in the next turn.
    postponed: BTreeSet<u32>,
    left: Duration,
    late: u64,
}

impl<Q: Copy + Debug + Ord> Inspector<Q> {
    /// Creates a inspector whose threads have this name.
    pub fn new(name: &'static str) -> Inspector<Q> {
        Inspector::with(Patience::USUAL, name)
    }

    /// Creates an inspector with another patience.
    pub fn with(patience: Patience, name: &'static str) -> Inspector<Q> {
        Inspector {
            name,
            patience,
            idle: None,
            unanswered: Vec::new(),
            kept: BTreeMap::new(),
            waiting: BTreeSet::new(),
            postponed: BTreeSet::new(),
            left: patience.turn,
            late: 0,
        }
    }

    /// Begins a turn. Returns the processes that had no answer before and can be inspected again.
    pub fn begin_turn(&mut self) -> BTreeSet<u32> {
        self.left = self.patience.turn;
        let mut ready = std::mem::take(&mut self.postponed);
        if self.collect() {
            ready.append(&mut self.waiting);
        }
        self.report();
        ready
    }

    /// Returns true if an inspection of this process had no answer, and can have none until [`Inspector::begin_turn`] returns it.
    pub fn awaits(&self, pid: u32) -> bool {
        self.waiting.contains(&pid) || self.postponed.contains(&pid)
    }

    /// Returns the number of inspections so far that took longer than the caller waited.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Inspects a process of a user (uid) by calling a function. A late answer is dropped.
    pub fn inspect<T: Send + 'static>(
        &mut self,
        (pid, user): (u32, u32),
        question: Q,
        inspect: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        self.ask((pid, user), (question, false), inspect).inspect_err(|why| self.note(pid, *why))
    }

    /// Inspects a process of a user (uid) by calling a function. A late answer is that of the next inspection with this question.
    pub fn inspect_once<T: Send + 'static>(
        &mut self,
        (pid, user): (u32, u32),
        question: Q,
        inspect: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        if let Some(answer) = self.kept.remove(&(pid, question)).and_then(|kept| kept.downcast().ok()) {
            return Ok(*answer);
        }
        self.ask((pid, user), (question, true), inspect).inspect_err(|why| self.note(pid, *why))
    }

    /// Begins to inspect a process of a user (uid); [`Inspector::take_kept`] returns the answer. Returns false if it cannot begin
    /// now.
    pub fn begin<T: Send + 'static>(
        &mut self,
        (pid, user): (u32, u32),
        question: Q,
        inspect: impl FnOnce() -> T + Send + 'static,
    ) -> bool {
        let has_begun = self.check(pid, user).is_ok();
        has_begun
            && match self.ask((pid, user), (question, true), inspect) {
                Ok(answer) => {
                    self.kept.insert((pid, question), Box::new(answer));
                    true
                }
                Err(why) => why == NoAnswer::Unanswered,
            }
    }

    /// Returns the answer of an inspection that was begun, once it has ended.
    pub fn take_kept<T: Send + 'static>(&mut self, pid: u32, question: Q) -> Option<T> {
        self.kept.remove(&(pid, question)).and_then(|kept| kept.downcast().ok()).map(|answer| *answer)
    }

    /// Forgets what was asked about a process that has ended.
    pub fn forget(&mut self, pid: u32) {
        self.kept.retain(|(of, _), _| *of != pid);
        self.unanswered
            .iter_mut()
            .filter(|inspection| inspection.pid == pid)
            .for_each(|inspection| inspection.is_kept = false);
        self.waiting.remove(&pid);
        self.postponed.remove(&pid);
    }

    fn ask<T: Send + 'static>(
        &mut self,
        (pid, user): (u32, u32),
        (question, is_kept): (Q, bool),
        inspect: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        self.check(pid, user)?;
        let worker = self.idle.take().or_else(|| Worker::spawn(self.name)).ok_or(NoAnswer::Failed)?;
        let began = Instant::now();
        worker.inspections.send(Box::new(|| Box::new(inspect()) as Answer)).map_err(|_| NoAnswer::Failed)?;
        let answer = worker.answers.recv_timeout(self.left);
        self.left = self.left.saturating_sub(began.elapsed());
        match answer {
            Ok(answer) => {
                self.idle = Some(worker);
                answer.downcast().map(|answer| *answer).map_err(|_| NoAnswer::Failed)
            }
            Err(RecvTimeoutError::Timeout) => {
                self.late += 1;
                let inspection =
                    Unanswered { pid, user, question, is_kept, worker, began, is_reported: false };
                self.unanswered.push(inspection);
                Err(NoAnswer::Unanswered)
            }
            Err(RecvTimeoutError::Disconnected) => Err(NoAnswer::Failed),
        }
    }

    /// Fails if no inspection of this process can begin now.
    fn check(&self, pid: u32, user: u32) -> Result<(), NoAnswer> {
        let of_user = self.unanswered.iter().filter(|inspection| inspection.user == user).count();
        if self.unanswered.iter().any(|inspection| inspection.pid == pid) {
            return Err(NoAnswer::Unanswered);
        }
        if self.unanswered.len() >= UNANSWERED_MAX || of_user >= UNANSWERED_OF_USER_MAX {
            return Err(NoAnswer::TooMany);
        }
        if self.left < self.patience.least { Err(NoAnswer::Postponed) } else { Ok(()) }
    }

    fn note(&mut self, pid: u32, why: NoAnswer) {
        let awaited = self.waiting.len() + self.postponed.len();
        match why {
            _ if awaited >= AWAITED_MAX => {}
            NoAnswer::Unanswered | NoAnswer::TooMany => drop(self.waiting.insert(pid)),
            NoAnswer::Postponed => drop(self.postponed.insert(pid)),
            NoAnswer::Failed => tracing::error!(pid, "an inspection of a process failed"),
        }
    }

    /// Collects the late answers. Returns true if an inspection has ended.
    fn collect(&mut self) -> bool {
        let before = self.unanswered.len();
        for inspection in std::mem::take(&mut self.unanswered) {
            match inspection.worker.answers.try_recv() {
                Err(TryRecvError::Empty) => self.unanswered.push(inspection),
                Err(TryRecvError::Disconnected) => self.note(inspection.pid, NoAnswer::Failed),
                Ok(answer) => self.end(inspection, answer),
            }
        }
        self.unanswered.len() < before
    }

    fn end(&mut self, inspection: Unanswered<Q>, answer: Answer) {
        if inspection.is_kept {
            self.kept.insert((inspection.pid, inspection.question), answer);
        }
        if self.kept.len() > KEPT_MAX {
            self.kept.pop_first();
        }
        if inspection.is_reported {
            tracing::info!(pid = inspection.pid, "a process answers again");
        }
        self.idle.get_or_insert(inspection.worker);
    }

    fn report(&mut self) {
        let report_after = self.patience.report_after;
        let overdue = |inspection: &&mut Unanswered<Q>| {
            !inspection.is_reported && inspection.began.elapsed() >= report_after
        };
        for inspection in self.unanswered.iter_mut().filter(overdue) {
            inspection.is_reported = true;
            let Unanswered { pid, user, question, .. } = *inspection;
            tracing::warn!(
                pid,
                user,
                ?question,
                "a process, or the file system of its files, does not answer: it is not inspected until it does"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    const USER: u32 = 1;

    fn inspector() -> Inspector<u8> {
        Inspector::new("test")
    }

    /// Lets an inspection of this process wait until the sender is dropped.
    fn stall(inspector: &mut Inspector<u8>, pid: u32, user: u32) -> std::sync::mpsc::SyncSender<()> {
        let (end, ended) = sync_channel::<()>(0);
        inspector.begin_turn();
        let late = inspector.inspect_once((pid, user), 0, move || ended.recv().is_err());
        assert_eq!(late, Err(NoAnswer::Unanswered));
        end
    }

    /// Begins turns until one returns processes.
    fn ready(inspector: &mut Inspector<u8>) -> Vec<u32> {
        loop {
            let ready = inspector.begin_turn();
            if !ready.is_empty() {
                return ready.into_iter().collect();
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn answers_of_one_thread_are_those_of_their_inspections() {
        let mut inspector = inspector();
        let id = || std::thread::current().id();
        let first = inspector.inspect((1, USER), 0, id).unwrap();
        assert!(
            first != id() && inspector.inspect((2, USER), 0, id) == Ok(first),
            "one thread, and not this one"
        );
        assert_eq!(inspector.inspect((1, USER), 1, || "text".to_owned()), Ok("text".to_owned()));
        assert_eq!(inspector.late(), 0);
    }

    #[test]
    fn process_without_an_answer_delays_no_other_and_is_ready_when_it_answers() {
        let mut inspector = inspector();
        let end = stall(&mut inspector, 1, USER);
        assert_eq!(inspector.inspect((2, USER), 0, || 7), Err(NoAnswer::Postponed), "the turn is used up");
        assert_eq!(inspector.begin_turn(), BTreeSet::from([2]));
        assert_eq!(inspector.inspect((2, USER), 0, || 7), Ok(7));
        assert_eq!(inspector.inspect((1, USER), 1, || 7), Err(NoAnswer::Unanswered));
        assert!(inspector.awaits(1) && !inspector.awaits(2) && inspector.begin_turn().is_empty());
        drop(end);
        assert_eq!(ready(&mut inspector), [1]);
        let again = inspector.inspect_once((1, USER), 0, || panic!("the late answer is kept"));
        assert_eq!((again, inspector.late()), (Ok(true), 1));
        assert_eq!(inspector.inspect_once((1, USER), 0, || false), Ok(false), "it is given once");
    }

    #[test]
    fn late_answer_of_a_process_that_has_ended_is_dropped() {
        let mut inspector = inspector();
        let end = stall(&mut inspector, 1, USER);
        inspector.forget(1);
        assert!(!inspector.awaits(1));
        drop(end);
        while !inspector.unanswered.is_empty() {
            inspector.begin_turn();
        }
        assert_eq!(inspector.inspect_once((1, USER), 0, || false), Ok(false), "asked again");
    }

    #[test]
    fn user_whose_processes_do_not_answer_uses_up_its_own_inspections() {
        let mut inspector = inspector();
        let count = UNANSWERED_OF_USER_MAX as u32;
        let _ends: Vec<_> = (0..count).map(|pid| stall(&mut inspector, pid, USER)).collect();
        inspector.begin_turn();
        assert_eq!(inspector.inspect((count, USER), 0, || 7), Err(NoAnswer::TooMany));
        assert_eq!(inspector.inspect((count, USER + 1), 0, || 7), Ok(7));
    }

    #[test]
    fn panic_of_an_inspection_is_no_answer() {
        let mut inspector = inspector();
        let failed = inspector.inspect((1, USER), 0, || -> u8 { std::panic::resume_unwind(Box::new(())) });
        assert_eq!((failed, inspector.inspect((1, USER), 0, || 7)), (Err(NoAnswer::Failed), Ok(7)));
    }
}
