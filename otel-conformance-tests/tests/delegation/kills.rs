//! The Collector beside warptap, warptap itself, and both are killed under load: what was acknowledged is delivered, and neither a
//! process nor a socket is left.

use std::time::{Duration, Instant};

use crate::backend::Backend;
use crate::dice::Dice;
use crate::filled;
use crate::processes::{descendants, free_ports, is_running, kill, socket_directories, start, wait};
use crate::programs;
use crate::senders::Senders;

/// A step of every record is in the Collector: `unroll` leaves records without lists as they are. The exporter has no queue, so that an
/// acknowledgement is that of the backend.
const YAML: &str = "\
receivers: {otlp: {protocols: {http: {endpoint: '127.0.0.1:${port0}'}}}}
processors: {unroll: }
exporters:
  otlp_http:
    endpoint: 'http://127.0.0.1:${port1}'
    compression: none
    timeout: 2s
    sending_queue: {enabled: false}
    retry_on_failure: {initial_interval: 20ms, max_interval: 100ms}
service: {pipelines: {logs: {receivers: [otlp], processors: [unroll], exporters: [otlp_http]}}}
";

/// Number of kills of each kind.
fn rounds() -> u64 {
    std::env::var("WARPTAP_CHAOS_ROUNDS").map_or(4, |rounds| rounds.parse().unwrap())
}

/// What is killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Collector,
    Warptap,
    Both,
}

#[test]
fn nothing_acknowledged_is_lost_when_either_process_is_killed() {
    let Some((warptap, collector)) = programs() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (backend, mut senders, mut dice) = (Backend::start(), Senders::start(), Dice::of(7));
    let begin = Instant::now();
    let mut kills = 0;
    for victim in [Victim::Collector, Victim::Warptap, Victim::Both] {
        for _ in 0..rounds() {
            let [port] = free_ports();
            let yaml = filled(YAML, dir.path(), &[port, backend.address.port()]);
            let running = start(&warptap, Some(&collector), &yaml, dir.path()).unwrap();
            senders.send_to(Some(([127, 0, 0, 1], port).into()));
            let before = senders.acknowledged();
            wait("acknowledged records", || senders.acknowledged() > before + 50);
            std::thread::sleep(Duration::from_millis(dice.below(300)));
            let started = descendants(running.pid());
            let [_guard, child] = started[..] else { panic!("a guard and a Collector run, not {started:?}") };
            kills += 1;
            match victim {
                Victim::Collector => {
                    kill(&[child]);
                    // Senders wait until it runs again.
                    let before = senders.acknowledged();
                    wait("records through the next Collector", || senders.acknowledged() > before + 50);
                    senders.send_to(None);
                    assert!(running.stop().success());
                }
                Victim::Warptap => running.kill(),
                Victim::Both => {
                    kill(&[running.pid(), child]);
                    running.kill();
                }
            }
            senders.send_to(None);
            wait("the end of all processes", || !started.iter().any(|pid| is_running(*pid)));
            assert_eq!(socket_directories(dir.path()), [] as [String; 0], "{victim:?}");
        }
    }
    let (acknowledged, unsure) = senders.stop();
    let delivered = backend.delivered();
    let missing = acknowledged.iter().filter(|id| !delivered.contains_key(id)).count();
    let twice: usize = delivered.values().map(|times| times - 1).sum();
    println!(
        "{kills} kills in {:.1?}: {} acknowledged, {} unsure, {} delivered, {missing} missing, {twice} twice",
        begin.elapsed(),
        acknowledged.len(),
        unsure.len(),
        delivered.len()
    );
    assert_eq!(missing, 0);
}
