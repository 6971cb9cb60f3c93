//! What both protocols come down to: who sends, what is sent, and the pipelines' answer to it.

use std::sync::Arc;

use component::auth::{Identity, ServerAuth, Unauthenticated};
use component::context::{self, Context, Metadata};
use component::{Consumer, Refused};
use pdata::{Data, Signal};

use crate::counts::{Counts, Outcome};

/// Where the data of one protocol goes, by signal.
pub(crate) struct Sink {
    next: [Option<Arc<dyn Consumer>>; Signal::ALL.len()],
    counts: Counts,
    auth: Option<Arc<dyn ServerAuth>>,
    includes_metadata: bool,
}

impl Sink {
    pub(crate) fn new(
        next: &[(Signal, Arc<dyn Consumer>)],
        counts: Counts,
        auth: Option<Arc<dyn ServerAuth>>,
        includes_metadata: bool,
    ) -> Self {
        let mut by_signal = [const { None }; Signal::ALL.len()];
        for (signal, consumer) in next {
            by_signal[*signal as usize] = Some(consumer.clone());
        }
        Sink { next: by_signal, counts, auth, includes_metadata }
    }

    /// True where a pipeline wants the signal.
    pub(crate) fn wants(&self, signal: Signal) -> bool {
        self.next[signal as usize].is_some()
    }

    /// What to remember of a request, whose headers are read only where someone wants to know.
    pub(crate) fn admit(&self, headers: impl FnOnce() -> Metadata) -> Result<Context, Unauthenticated> {
        if self.auth.is_none() && !self.includes_metadata {
            return Ok(Context::default());
        }
        let headers = headers();
        let identity = match &self.auth {
            None => Identity::default(),
            Some(auth) => auth.authenticate(&headers)?,
        };
        let metadata = if self.includes_metadata { headers } else { Metadata::default() };
        Ok(Context { metadata: Arc::new(metadata), identity: Arc::new(identity) })
    }

    /// Hands data on. What is empty is taken without a word to anyone, as OTLP asks.
    pub(crate) async fn take(&self, context: Context, data: Data) -> Result<(), Refused> {
        let (signal, items) = (data.signal(), data.items());
        let Some(next) = &self.next[signal as usize] else {
            return Err(Refused::permanent(format!("no pipeline for {}", signal.name())));
        };
        if items == 0 {
            return Ok(());
        }
        let mut pending = Pending { counts: &self.counts, signal, items, outcome: Outcome::Failed };
        let outcome = context::scope(context, next.consume(data)).await;
        pending.outcome = if outcome.is_ok() { Outcome::Accepted } else { Outcome::Refused };
        outcome
    }
}

/// A request that the pipelines have; counted however it ends, also where nobody waits for the answer.
struct Pending<'a> {
    counts: &'a Counts,
    signal: Signal,
    items: usize,
    outcome: Outcome,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.counts.add(self.signal, self.items, self.outcome);
    }
}
