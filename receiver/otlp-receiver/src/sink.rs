//! The part that both protocols share: authentication, and passing data to the pipelines.

use std::net::SocketAddr;
use std::sync::Arc;

use component::auth::{Identity, ServerAuth, Unauthenticated};
use component::context::{self, Context, Metadata};
use component::{Consumer, Refused};
use pdata::{Data, Signal};

use crate::counts::{Counts, Outcome};

/// The consumers of one protocol, by signal.
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

    /// Returns true if a pipeline consumes the signal.
    pub(crate) fn accepts(&self, signal: Signal) -> bool {
        self.next[signal as usize].is_some()
    }

    /// Authenticates a request from an address and returns its context. The headers are only converted if they are needed.
    pub(crate) fn authenticate(
        &self,
        from: Option<SocketAddr>,
        headers: impl FnOnce() -> Metadata,
    ) -> Result<Context, Unauthenticated> {
        let address = from.map(|from| from.ip().to_canonical());
        if self.auth.is_none() && !self.includes_metadata {
            return Ok(Context { address, ..Context::default() });
        }
        let headers = headers();
        let identity = match &self.auth {
            None => Identity::default(),
            Some(auth) => auth.authenticate(&headers)?,
        };
        let metadata = if self.includes_metadata { headers } else { Metadata::default() };
        Ok(Context { metadata: Arc::new(metadata), identity: Arc::new(identity), address })
    }

    /// Passes data to the pipelines. As OTLP requires, an empty request is a success.
    pub(crate) async fn consume(&self, context: Context, data: Data) -> Result<(), Refused> {
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

/// A request in the pipelines. It is counted when dropped, also if the sender stopped waiting.
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
