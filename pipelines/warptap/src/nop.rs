//! The receiver `nop`, which receives nothing: for a pipeline that must have a receiver.

use std::sync::Arc;

use component::{
    BoxFuture, BuildContext, Consumer, Host, Receiver, ReceiverFactory, Running, Stability, StartResult,
};
use config::{ConfigError, Section};
use pdata::Signal;
use tokio_util::sync::CancellationToken;

/// The row of this receiver.
pub(crate) const FACTORY: ReceiverFactory = ReceiverFactory {
    kind: "nop",
    aliases: &[],
    signals: &Signal::ALL,
    stability: Stability::Beta,
    about: "Receives nothing, for a pipeline that must have a receiver.",
    example: "",
    keys: config::keys::<NopReceiverConfig>,
    build,
};

config::section! {
    /// The section of the receiver, which has no keys.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct NopReceiverConfig {
    }
}

struct Nop;

fn build(_: &BuildContext, section: Section<'_>) -> Result<Box<dyn Receiver>, ConfigError> {
    section.read::<NopReceiverConfig>().1.finish()?;
    Ok(Box::new(Nop))
}

impl Receiver for Nop {
    fn start(
        self: Box<Self>,
        next: Vec<(Signal, Arc<dyn Consumer>)>,
        _: &Host,
        _: CancellationToken,
    ) -> BoxFuture<'static, StartResult<Running>> {
        drop(next);
        let running: Running = Box::pin(async {});
        Box::pin(async { Ok(running) })
    }
}
