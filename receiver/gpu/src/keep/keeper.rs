//! The receiver's end: opens the storage, and stands between the reading thread and the task that writes.

use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

use component::storage::Namespace;
use component::{ComponentId, Host, Running, StartResult};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Changes, Left, Losses, Store, lives};
use crate::analyzer::Analyzer;
use crate::batch::Sink;

/// How often the analysis is asked what changed: a crash costs what happened since.
const EVERY: Duration = Duration::from_secs(1);

/// What a receiver keeps where.
#[derive(Clone, Debug)]
pub(crate) struct Keeping {
    /// The receiver.
    pub(crate) receiver: ComponentId,
    /// The extension that stores.
    pub(crate) storage: ComponentId,
}

/// The reading thread's side.
pub(crate) struct Keeper {
    left: Left,
    changes: Changes,
    losses: Arc<Losses>,
    asked: Instant,
}

/// Reads what an earlier run left, and gives the work of writing. Without a storage there is nothing to do.
pub(crate) async fn open(
    keeping: Option<Keeping>,
    host: &Host,
    stop: &CancellationToken,
) -> StartResult<(Option<Keeper>, Running)> {
    let Some(Keeping { receiver, storage }) = keeping else { return Ok((None, Box::pin(ready(())))) };
    let namespace = Namespace { kind: "receiver", id: receiver, name: "records".to_owned() };
    let client = host.storage(&storage)?.open(namespace).await?;
    let losses = Arc::<Losses>::default();
    let (store, left) = Store::open(client, Arc::clone(&losses)).await?;
    let (sender, batches) = mpsc::channel(1);
    let changes = Changes::new(sender, Arc::clone(&losses));
    let keeper = Keeper { left, changes, losses, asked: Instant::now() };
    Ok((Some(keeper), Box::pin(store.run(batches, stop.clone()))))
}

impl Keeper {
    /// Hands over what an earlier run left.
    pub(crate) fn recall(&mut self, analyzer: &mut Analyzer, sink: Sink<'_>) {
        analyzer.recall(&std::mem::take(&mut self.left), &lives, sink);
    }

    /// Asks what changed, and looks who is gone, if it is time.
    pub(crate) fn look(&mut self, analyzer: &mut Analyzer, sink: Sink<'_>) {
        if self.asked.elapsed() >= EVERY {
            self.asked = Instant::now();
            analyzer.look_again(&lives, sink);
            analyzer.changes(&mut |change| self.changes.put(change));
            self.changes.flush();
            analyzer.set_unkept(self.losses.unkept());
        }
    }

    /// Asks for the last time, and waits until a batch that is under way is written.
    pub(crate) fn close(mut self, analyzer: &mut Analyzer) {
        analyzer.last_changes(&mut |change| self.changes.put(change));
        self.changes.close();
    }
}
