//! The component: the thread that asks, the task that hands on, and an eye on a driver that hangs.

use std::sync::Arc;
use std::time::Duration;

use component::status::Status;
use component::{BoxFuture, Consumer, Host, Receiver, Running, StartResult};
use instrumentation::Backpressure;
use pdata::Signal;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::driver::{Driver, Vendor};
use crate::monitor::{Monitor, Settings};
use crate::watch::{Pulse, Watch};

/// A driver that has not answered for so long hangs, if that is more than [`SLOW_INTERVALS`].
const SLOW: Duration = Duration::from_secs(10);
/// The same in intervals.
const SLOW_INTERVALS: u32 = 3;
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long a stop waits for a driver that hangs.
const STOP_MAX: Duration = Duration::from_secs(2);

/// A receiver that asks a vendor's driver as often as the configuration says.
pub fn receiver(vendor: Vendor, config: &Config, driver: Box<dyn Driver>) -> Box<dyn Receiver> {
    let (settings, interval) = (config.settings(), *config.collection_interval);
    Box::new(HardwareReceiver { vendor, settings, interval, driver })
}

struct HardwareReceiver {
    vendor: Vendor,
    settings: Settings,
    interval: Duration,
    driver: Box<dyn Driver>,
}

impl Receiver for HardwareReceiver {
    fn start(
        self: Box<Self>,
        next: Vec<(Signal, Arc<dyn Consumer>)>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<Running>> {
        let host = host.clone();
        Box::pin(async move {
            let HardwareReceiver { vendor, mut settings, interval, driver } = *self;
            settings.host.extend(instrumentation::host());
            let (sender, delivery) = instrumentation::channel(Backpressure::DropOldest, next);
            let pulse = Arc::new(Pulse::new());
            let watch = Watch {
                vendor,
                interval,
                monitor: Monitor::new(vendor, settings),
                sender,
                pulse: Arc::clone(&pulse),
                host: host.clone(),
                absent: None,
            };
            let thread = std::thread::Builder::new().name(vendor.receiver.to_owned());
            let thread = thread.spawn(move || watch.run(driver))?;
            let delivered = delivery.run(thread.thread().clone(), stop.clone());
            let slow = SLOW.max(interval.saturating_mul(SLOW_INTERVALS));
            let running: Running = Box::pin(async move {
                tokio::select! {
                    () = delivered => {}
                    () = give_up(vendor, &pulse, slow, &host, stop) => {
                        tracing::warn!(vendor = vendor.name, "the GPU driver still does not answer: it is not waited for");
                    }
                }
            });
            Ok(running)
        })
    }
}

/// Tells of a driver that hangs, once, and when it answers again. Ends a while after the stop: a call into a driver
/// cannot be taken back.
async fn give_up(vendor: Vendor, pulse: &Pulse, slow: Duration, host: &Host, stop: CancellationToken) {
    let mut is_slow = false;
    while tokio::time::timeout(LOOK, stop.cancelled()).await.is_err() {
        let silent = pulse.silent_for();
        if is_slow != (silent > slow) {
            is_slow = !is_slow;
            if is_slow {
                tracing::warn!(
                    vendor = vendor.name,
                    seconds = silent.as_secs(),
                    "the GPU driver does not answer"
                );
                host.report(Status::RecoverableError("the GPU driver does not answer".to_owned()));
            } else {
                tracing::info!(vendor = vendor.name, "the GPU driver answers again");
            }
        }
    }
    while pulse.silent_for() < STOP_MAX {
        tokio::time::sleep(STOP_MAX).await;
    }
}
