//! The receiver component: the thread that polls, the task that delivers, and the detection of a driver that hangs.

use std::sync::Arc;
use std::time::Duration;

use component::status::ComponentStatus;
use component::{BoxFuture, Consumer, Host, Receiver, Running, StartResult};
use instrumentation::Backpressure;
use pdata::Signal;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::driver::{Driver, Vendor};
use crate::monitor::{Monitor, Settings};
use crate::poller::{Heartbeat, Poller};

/// Time without an answer after which a driver counts as hanging; at least [`SLOW_INTERVALS`] intervals.
const SLOW: Duration = Duration::from_secs(10);
/// Minimum number of intervals before a driver counts as hanging.
const SLOW_INTERVALS: u32 = 3;
/// Interval of the check for a hanging driver.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time that a stop waits for a hanging driver.
const STOP_MAX: Duration = Duration::from_secs(2);

/// Returns a receiver that polls a vendor's driver at the configured interval.
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
            let heartbeat = Arc::new(Heartbeat::new());
            let watch = Poller {
                vendor,
                interval,
                monitor: Monitor::new(vendor, settings),
                sender,
                heartbeat: Arc::clone(&heartbeat),
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
                    () = watch_heartbeat(vendor, &heartbeat, slow, &host, stop) => {
                        tracing::warn!(vendor = vendor.name, "the GPU driver still does not answer; stopping without it");
                    }
                }
            });
            Ok(running)
        })
    }
}

/// Logs once when the driver hangs and once when it answers again. Ends some time after the stop, since a call into a
/// driver cannot be cancelled.
async fn watch_heartbeat(
    vendor: Vendor,
    heartbeat: &Heartbeat,
    slow: Duration,
    host: &Host,
    stop: CancellationToken,
) {
    let mut is_slow = false;
    while tokio::time::timeout(CHECK_INTERVAL, stop.cancelled()).await.is_err() {
        let silent = heartbeat.silent_for();
        if is_slow != (silent > slow) {
            is_slow = !is_slow;
            if is_slow {
                tracing::warn!(
                    vendor = vendor.name,
                    seconds = silent.as_secs(),
                    "the GPU driver does not answer"
                );
                host.report(ComponentStatus::RecoverableError("the GPU driver does not answer".to_owned()));
            } else {
                tracing::info!(vendor = vendor.name, "the GPU driver answers again");
            }
        }
    }
    while heartbeat.silent_for() < STOP_MAX {
        tokio::time::sleep(STOP_MAX).await;
    }
}
