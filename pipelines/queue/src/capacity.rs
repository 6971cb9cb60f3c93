//! The capacity of a queue, held as permits, acquired first come first served, and released when dropped.
//!
//! tokio's `Semaphore` is close, but its sizes end at `u32`, and a queue that is restored from disk must be
//! able to exceed its capacity.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The capacity of one queue, in units of its sizer.
#[derive(Debug)]
pub(crate) struct Capacity {
    total: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    /// Waiting senders in order of arrival. An entry whose receiver was dropped is skipped.
    waiting: VecDeque<(u64, oneshot::Sender<Permit>)>,
}

/// A share of a capacity, released on drop.
#[derive(Debug)]
pub(crate) struct Permit {
    size: u64,
    capacity: Option<Arc<Capacity>>,
}

impl Capacity {
    /// Returns a capacity of `total` units, all of them free.
    pub(crate) fn new(total: u64) -> Arc<Self> {
        Arc::new(Capacity { total, state: Mutex::default() })
    }

    /// Returns the size of the whole capacity.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Acquires a permit if it is available now.
    pub(crate) fn try_acquire(self: &Arc<Self>, size: u64) -> Option<Permit> {
        let mut state = self.lock();
        (state.used.saturating_add(size) <= self.total).then(|| self.permit(&mut state, size))
    }

    /// Waits for a permit, after earlier callers. Never returns for a size above the total.
    pub(crate) async fn acquire(self: &Arc<Self>, size: u64) -> Option<Permit> {
        let receiver = {
            let mut state = self.lock();
            if state.waiting.is_empty() && state.used.saturating_add(size) <= self.total {
                return Some(self.permit(&mut state, size));
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push_back((size, sender));
            receiver
        };
        receiver.await.ok()
    }

    /// Acquires a permit even if the total is exceeded, for requests that were stored by an earlier process.
    pub(crate) fn acquire_over_limit(self: &Arc<Self>, size: u64) -> Permit {
        self.permit(&mut self.lock(), size)
    }

    fn permit(self: &Arc<Self>, state: &mut State, size: u64) -> Permit {
        state.used = state.used.saturating_add(size);
        Permit { size, capacity: Some(self.clone()) }
    }

    /// Releases units whose permit was forgotten, and passes them on to waiting senders.
    pub(crate) fn release(self: &Arc<Self>, size: u64) {
        // Permits of senders that stopped waiting are dropped after the lock.
        let mut unwanted = Vec::new();
        let mut state = self.lock();
        state.used = state.used.saturating_sub(size);
        while let Some((size, sender)) = state.waiting.pop_front() {
            if state.used.saturating_add(size) > self.total {
                state.waiting.push_front((size, sender));
                break;
            }
            let permit = self.permit(&mut state, size);
            if let Err(mut permit) = sender.send(permit) {
                state.used -= size;
                permit.capacity = None;
                unwanted.push(permit);
            }
        }
    }

    /// Locks the state. It consists of plain values, so a panic elsewhere leaves it usable.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Disables the automatic release; the units stay in use until [`Capacity::release`].
    pub(crate) fn forget(mut self) {
        self.capacity = None;
    }

    /// Returns the number of units.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(capacity) = self.capacity.take() {
            capacity.release(self.size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn permits_are_acquired_in_order_and_released_on_drop() {
        let capacity = Capacity::new(10);
        let (six, four) = (capacity.try_acquire(6).unwrap(), capacity.try_acquire(4).unwrap());
        assert!(capacity.try_acquire(1).is_none());
        let mut large = Box::pin(capacity.acquire(8));
        let mut small = Box::pin(capacity.acquire(1));
        assert!(is_pending(&mut large).await && is_pending(&mut small).await);
        drop(four);
        assert!(is_pending(&mut small).await, "a later sender does not overtake");
        drop(large);
        drop(six);
        assert_eq!(small.await.unwrap().size(), 1);
        assert!(capacity.try_acquire(10).is_some(), "all units were released");
        let over_limit = capacity.acquire_over_limit(25);
        assert!(capacity.try_acquire(1).is_none());
        drop(over_limit);
        assert!(capacity.try_acquire(10).is_some());
    }

    async fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
        tokio::select! { biased; _ = future => false, () = std::future::ready(()) => true }
    }
}
