//! How much a queue may hold: places that are taken, waited for in turn, and given back when dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The room of one queue, in units of its sizer.
#[derive(Debug)]
pub(crate) struct Room {
    capacity: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    /// Who waits, in the order they came. An entry whose receiver is gone is skipped.
    waiting: VecDeque<(u64, oneshot::Sender<Place>)>,
}

/// Room that is taken, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    size: u64,
    room: Option<Arc<Room>>,
}

impl Room {
    pub(crate) fn of(capacity: u64) -> Arc<Self> {
        Arc::new(Room { capacity, state: Mutex::default() })
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Takes room at once, or none.
    pub(crate) fn try_take(self: &Arc<Self>, size: u64) -> Option<Place> {
        let mut state = self.lock();
        (state.used.saturating_add(size) <= self.capacity).then(|| self.place(&mut state, size))
    }

    /// Takes room, after those who came before. Never ends for what is larger than the capacity.
    pub(crate) async fn take(self: &Arc<Self>, size: u64) -> Option<Place> {
        let coming = {
            let mut state = self.lock();
            if state.waiting.is_empty() && state.used.saturating_add(size) <= self.capacity {
                return Some(self.place(&mut state, size));
            }
            let (sender, coming) = oneshot::channel();
            state.waiting.push_back((size, sender));
            coming
        };
        coming.await.ok()
    }

    /// Takes room whether or not there is any: for what was there before the capacity was.
    pub(crate) fn force(self: &Arc<Self>, size: u64) -> Place {
        self.place(&mut self.lock(), size)
    }

    fn place(self: &Arc<Self>, state: &mut State, size: u64) -> Place {
        state.used = state.used.saturating_add(size);
        Place { size, room: Some(self.clone()) }
    }

    /// Gives room back that was taken for good.
    pub(crate) fn give_back(self: &Arc<Self>, size: u64) {
        let mut gone = Vec::new();
        let mut state = self.lock();
        state.used = state.used.saturating_sub(size);
        while let Some((size, _)) = state.waiting.front()
            && state.used.saturating_add(*size) <= self.capacity
        {
            let (size, sender) = state.waiting.pop_front().expect("it was just looked at");
            let place = self.place(&mut state, size);
            if let Err(mut unwanted) = sender.send(place) {
                state.used -= size;
                unwanted.room = None;
                gone.push(unwanted);
            }
        }
    }

    /// A panic elsewhere leaves plain values behind, which are as good as before.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Takes its room for good: until somebody gives it back to the room itself.
    pub(crate) fn keep(mut self) {
        self.room = None;
    }

    /// How much is taken.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(room) = self.room.take() {
            room.give_back(self.size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn room_is_taken_in_turn_and_given_back() {
        let room = Room::of(10);
        let (six, four) = (room.try_take(6).unwrap(), room.try_take(4).unwrap());
        assert!(room.try_take(1).is_none());
        let mut large = Box::pin(room.take(8));
        let mut small = Box::pin(room.take(1));
        assert!(futures_pending(&mut large).await && futures_pending(&mut small).await);
        drop(four);
        assert!(futures_pending(&mut small).await, "who came later does not overtake");
        drop(large);
        drop(six);
        assert_eq!(small.await.unwrap().size(), 1);
        assert!(room.try_take(10).is_some(), "all of it came back");
        let beyond = room.force(25);
        assert!(room.try_take(1).is_none());
        drop(beyond);
        assert!(room.try_take(10).is_some());
    }

    async fn futures_pending(future: &mut (impl Future + Unpin)) -> bool {
        tokio::select! { biased; _ = future => false, () = std::future::ready(()) => true }
    }
}
