//! A consumer that records what it receives and answers as scripted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pdata::Data;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::context::{self, Context};
use crate::{BoxFuture, Consumer, Refused};

type Answer = Result<(), Refused>;

/// A batch that a [`Sink`] received.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Received data.
    pub data: Data,
    /// The context of the request.
    pub context: Context,
    /// The time since the sink was created, by tokio's clock.
    pub at: Duration,
    /// The answer of the sink.
    pub answer: Answer,
}

/// A consumer that records what it receives and answers as scripted. While its gate is closed, no answer returns.
#[derive(Debug)]
pub struct Sink {
    deliveries: Mutex<Vec<Delivery>>,
    script: Mutex<VecDeque<Answer>>,
    answer: Mutex<Answer>,
    created: Instant,
    gate: Semaphore,
    arrived: Semaphore,
}

impl Sink {
    /// Returns a sink that accepts everything.
    pub fn new() -> Arc<Self> {
        Self::answering([])
    }

    /// Returns a sink that gives these answers in turn, then accepts.
    pub fn answering(answers: impl IntoIterator<Item = Answer>) -> Arc<Self> {
        Arc::new(Sink {
            deliveries: Mutex::default(),
            script: Mutex::new(answers.into_iter().collect()),
            answer: Mutex::new(Ok(())),
            created: Instant::now(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            arrived: Semaphore::new(0),
        })
    }

    /// Returns a sink that always gives this answer.
    pub fn always(answer: Answer) -> Arc<Self> {
        let sink = Self::new();
        sink.set_answer(answer);
        sink
    }

    /// Returns a sink whose gate is closed.
    pub fn with_closed_gate() -> Arc<Self> {
        let sink = Self::new();
        sink.close_gate();
        sink
    }

    /// Sets the answer to the batches after the scripted ones.
    pub fn set_answer(&self, answer: Answer) {
        *locked(&self.answer) = answer;
    }

    /// Closes the gate.
    pub fn close_gate(&self) {
        self.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// Opens the gate, once.
    pub fn open_gate(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS);
    }

    /// Waits until this many more batches have arrived.
    pub async fn arrived(&self, batches: u32) {
        self.arrived.acquire_many(batches).await.expect("it is never closed").forget();
    }

    /// Returns everything received.
    pub fn deliveries(&self) -> Vec<Delivery> {
        locked(&self.deliveries).clone()
    }

    /// Returns the batches received, accepted or not.
    pub fn got(&self) -> Vec<Data> {
        self.deliveries().into_iter().map(|delivery| delivery.data).collect()
    }

    /// Returns the batches accepted since the last call, and clears the deliveries.
    pub fn take(&self) -> Vec<Data> {
        let taken = std::mem::take(&mut *locked(&self.deliveries));
        taken.into_iter().filter(|delivery| delivery.answer.is_ok()).map(|delivery| delivery.data).collect()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Consumer for Sink {
    fn consume(&self, data: Data) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            let scripted = locked(&self.script).pop_front();
            let answer = scripted.unwrap_or_else(|| locked(&self.answer).clone());
            let (context, at) = (context::current(), self.created.elapsed());
            locked(&self.deliveries).push(Delivery { data, context, at, answer: answer.clone() });
            self.arrived.add_permits(1);
            let _open = self.gate.acquire().await;
            answer
        })
    }
}
