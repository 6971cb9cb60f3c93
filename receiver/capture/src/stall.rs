//! Reports of looks at processes that do not end.
//!
//! Files of /proc and of users can be on a file system that never answers, or wait for a lock that a process holds. The
//! reading thread is blocked then and cannot report it, so another thread does. That thread sleeps while nothing is read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Thread, current, park, park_timeout};
use std::time::{Duration, Instant};

/// Time after which a look is reported.
const PATIENCE: Duration = Duration::from_secs(1);

/// A look at a process.
#[derive(Clone, Copy, Debug)]
struct Look {
    pid: u32,
    began: Instant,
    is_reported: bool,
}

#[derive(Default)]
struct State {
    look: Option<Look>,
    /// The thread that waits for a look to begin.
    parked: Option<Thread>,
    is_over: bool,
}

impl State {
    fn set(&mut self, look: Option<Look>) -> Option<Look> {
        if look.is_some() {
            self.parked.take().iter().for_each(Thread::unpark);
        }
        std::mem::replace(&mut self.look, look)
    }
}

type Shared = Arc<Mutex<State>>;

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // No code panics while it holds the lock.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches the looks at processes; dropping it ends the watch, within a second if a look has just ended.
pub struct StallWatch {
    state: Shared,
}

/// A look under way; dropping it ends the look.
pub struct Looking {
    state: Shared,
    before: Option<Look>,
}

impl StallWatch {
    /// Starts a watch that logs looks of a second.
    pub fn start() -> StallWatch {
        StallWatch::with(|pid| {
            tracing::warn!(
                pid,
                "the scan of this process takes more than a second: nothing is read meanwhile"
            );
        })
    }

    fn with(report: impl Fn(u32) + Send + 'static) -> StallWatch {
        let state = Shared::default();
        let watched = Arc::clone(&state);
        let spawned = Builder::new().name("gpu-stall".to_owned()).spawn(move || watch(&watched, report));
        let unwatched = |error: &_| tracing::warn!(%error, "files that do not answer are not reported");
        let _ = spawned.inspect_err(unwatched);
        StallWatch { state }
    }

    /// Begins a look at a process. A look within another one is a new one.
    pub fn look(&self, pid: u32) -> Looking {
        let look = Look { pid, began: Instant::now(), is_reported: false };
        let before = lock(&self.state).set(Some(look));
        Looking { state: Arc::clone(&self.state), before }
    }
}

impl Drop for StallWatch {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.is_over = true;
        state.parked.take().iter().for_each(Thread::unpark);
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        let now = Instant::now();
        lock(&self.state).set(self.before.map(|before| Look { began: now, ..before }));
    }
}

fn watch(state: &Mutex<State>, report: impl Fn(u32)) {
    loop {
        let mut now = lock(state);
        if now.is_over {
            return;
        }
        match now.look.as_mut().filter(|look| !look.is_reported) {
            Some(look) if look.began.elapsed() >= PATIENCE => {
                look.is_reported = true;
                let pid = look.pid;
                drop(now);
                report(pid);
            }
            Some(look) => {
                let rest = PATIENCE.saturating_sub(look.began.elapsed());
                drop(now);
                park_timeout(rest);
            }
            None => {
                now.parked = Some(current());
                drop(now);
                park();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn look_that_does_not_end_is_reported_once() {
        let (sender, reports) = channel();
        let watch = StallWatch::with(move |pid| sender.send(pid).unwrap());
        drop(watch.look(7));
        let outer = watch.look(8);
        let inner = watch.look(9);
        assert_eq!(reports.recv_timeout(10 * PATIENCE), Ok(9));
        drop(inner);
        assert_eq!(reports.recv_timeout(10 * PATIENCE), Ok(8));
        drop(outer);
        let again = watch.look(10);
        assert_eq!(reports.recv_timeout(10 * PATIENCE), Ok(10));
        drop((again, watch));
        assert!(reports.recv().is_err(), "the thread ends with the watch");
    }
}
