//! Reports of attachments that do not end.
//!
//! The kernel takes locks of every process that maps a file, and reads the file, before it has attached to it. The reading
//! thread is blocked then and cannot report it, so another thread does. That thread sleeps while nothing is attached.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Thread, current, park, park_timeout};
use std::time::{Duration, Instant};

/// Time after which an attachment is reported.
const PATIENCE: Duration = Duration::from_secs(1);

/// An attachment to the libraries of a process.
#[derive(Clone, Copy, Debug)]
struct Attachment {
    pid: u32,
    began: Instant,
    is_reported: bool,
}

#[derive(Default)]
struct State {
    attachment: Option<Attachment>,
    /// The thread that waits for an attachment to begin.
    parked: Option<Thread>,
    is_over: bool,
}

impl State {
    fn set(&mut self, attachment: Option<Attachment>) {
        if attachment.is_some() {
            self.parked.take().iter().for_each(Thread::unpark);
        }
        self.attachment = attachment;
    }
}

type Shared = Arc<Mutex<State>>;

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // No code panics while it holds the lock.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches attachments; dropping it ends the watch, within a second if one has just ended.
pub struct StallWatch {
    state: Shared,
}

/// An attachment under way; dropping it ends the attachment.
pub struct Attaching {
    state: Shared,
}

impl StallWatch {
    /// Starts a watch that logs attachments of a second.
    pub fn start() -> StallWatch {
        StallWatch::with(|pid| {
            tracing::warn!(
                pid,
                "the kernel needs more than a second to probe the libraries of this process: nothing is read meanwhile"
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

    /// Begins an attachment to the libraries of a process.
    pub fn attaching(&self, pid: u32) -> Attaching {
        let attachment = Attachment { pid, began: Instant::now(), is_reported: false };
        lock(&self.state).set(Some(attachment));
        Attaching { state: Arc::clone(&self.state) }
    }
}

impl Drop for StallWatch {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.is_over = true;
        state.parked.take().iter().for_each(Thread::unpark);
    }
}

impl Drop for Attaching {
    fn drop(&mut self) {
        lock(&self.state).set(None);
    }
}

fn watch(state: &Mutex<State>, report: impl Fn(u32)) {
    loop {
        let mut now = lock(state);
        if now.is_over {
            return;
        }
        match now.attachment.as_mut().filter(|attachment| !attachment.is_reported) {
            Some(attachment) if attachment.began.elapsed() >= PATIENCE => {
                attachment.is_reported = true;
                let pid = attachment.pid;
                drop(now);
                report(pid);
            }
            Some(attachment) => {
                let rest = PATIENCE.saturating_sub(attachment.began.elapsed());
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
    fn attachment_that_does_not_end_is_reported_once() {
        let (sender, reports) = channel();
        let watch = StallWatch::with(move |pid| sender.send(pid).unwrap());
        drop(watch.attaching(7));
        let attaching = watch.attaching(8);
        assert_eq!(reports.recv_timeout(10 * PATIENCE), Ok(8));
        drop(attaching);
        let again = watch.attaching(9);
        assert_eq!(reports.recv_timeout(10 * PATIENCE), Ok(9));
        drop((again, watch));
        assert!(reports.recv().is_err(), "the thread ends with the watch");
    }
}
