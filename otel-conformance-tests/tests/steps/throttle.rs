//! A GPU is throttled in the middle of a step: the outlier names the GPU, the reason and the duration; that of the
//! other GPU does not.
//!
//! The driver's script has a clock of its own, which starts when the driver is opened. A temperature that rises by
//! one degree per millisecond gives the time of that clock.

use std::fs;
use std::path::Path;
use std::time::Instant;

use simulator::oracle::StepLine;

use super::{Log, outliers_in, unix};
use crate::live::agent::{Agent, PATIENCE, Setup, player, turn};
use crate::live::binary::binary;
use crate::live::inbox::{Inbox, POLL_EVERY, ReportedItem};

/// One second of decodes of 4 ms, one of two seconds, and some more.
const SCRIPT: &str = "\
stream main
graph decode main nodes=40
event done
thread engine
  repeat 300
    step decode main
      fault brake gpu=500x at=250
      copy h2d 2KiB main
      launch main grid=32 block=128
      graphlaunch decode main gpu=4ms
      record done main
      sync event done
    end
  end
end
";

const MS: u64 = 1_000_000;
/// The driver's time at which the players start, and at which the throttling of the first GPU begins: about 400 ms
/// after the start of the slow step, and until its end.
const GO_MS: u64 = 1_500;
const BRAKE_MS: u64 = GO_MS + 1_600;
/// Interval of the clock polls.
const LOOKS_MS: u64 = 20;

/// Returns a script of two GPUs with one process each, of which the first is throttled.
fn driver(pids: [u32; 2]) -> String {
    let gpus = (0..2).map(|at| {
        format!(
            "0s gpu{at} uuid GPU-{at}a\n0s gpu{at} pci 00000000:{at}B:00.0\n0s gpu{at} processes {}:5\n\
             0s gpu{at} throttle 0\n0s gpu{at} throttled.hw_power_brake 0\n0s gpu{at} temperature 0 +1000/s\n",
            pids[at]
        )
    });
    let brake = format!(
        "{BRAKE_MS}ms gpu0 throttle 128\n{BRAKE_MS}ms gpu0 throttled.hw_power_brake 0 +1000000000/s\n"
    );
    gpus.collect::<String>() + &brake
}

/// Returns the time at which the driver's clock began, ns since 1970, from reported temperatures; waits for `GO_MS`.
fn driver_began(inbox: &Inbox) -> u64 {
    let began = Instant::now();
    loop {
        let reported = inbox.history("hw.temperature", "GPU-0a");
        if reported.last().is_some_and(|(_, degrees)| *degrees >= GO_MS as f64) {
            let mut began: Vec<u64> =
                reported.iter().map(|(at, degrees)| at - *degrees as u64 * MS).collect();
            began.sort_unstable();
            return began[began.len() / 2];
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain for the driver: {reported:?}");
        std::thread::sleep(POLL_EVERY);
    }
}

/// Returns the slow step of a player, and the span and log record of its outlier.
fn slow(dir: &Path, name: &str, inbox: &Inbox) -> (StepLine, ReportedItem, ReportedItem) {
    let step = Log::read(dir, name).slow.remove(0);
    let spans = inbox.until_spans(|spans| !outliers_in(spans, &step).is_empty());
    let found = outliers_in(&spans, &step);
    let [span] = found[..] else { panic!("one outlier in the slow step: {found:#?}") };
    let records = inbox.until("gpu.step.outlier", |r| r.iter().any(|r| r.ids.1 == span.ids.1));
    let record = records.into_iter().find(|r| r.ids.1 == span.ids.1).unwrap();
    (step, span.clone(), record)
}

/// Regression test: a published agent attributed the throttling of every GPU to every process.
#[test]
fn power_brake_is_attributed_only_to_steps_of_its_gpu() {
    let Some(binary) = binary() else { return };
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let mut players = ["braked", "free"].map(|name| player(&binary, dir.path(), name, SCRIPT));
    let pids = [players[0].pid(), players[1].pid()];
    let (library, script) = (simulator::install_nvml(dir.path()).unwrap(), dir.path().join("driver"));
    fs::write(&script, driver(pids)).unwrap();
    let inbox = Inbox::open();
    let library = library.display();
    let setup = Setup {
        pids: &pids,
        receiver: &format!(
            ", collection_interval: 250ms, outliers: {{excess_min: 15ms}}, hardware: {{interval: {LOOKS_MS}ms, library: '{library}'}}"
        ),
        exporter: &inbox.exporter,
        other: &format!("nvml: {{collection_interval: 100ms, library: '{library}'}}"),
        variables: &[(simulator::smi::driver::SCRIPT, &script)],
        ..Setup::default()
    };
    let _agent = Agent::set_up(&binary, dir.path(), &setup);
    let began = driver_began(&inbox);
    players.iter_mut().for_each(|player| player.go().unwrap());
    let calls: u64 = players.iter_mut().map(|player| player.done().unwrap()).sum();
    inbox.until_sum("warptap.probe.hits", calls as f64);

    let (step, span, record) = slow(dir.path(), "braked", &inbox);
    let (first, exit) = (unix(step.first_ns), unix(step.exit_ns));
    let braked_ns = exit.saturating_sub(first.max(began + BRAKE_MS * MS));
    let share = braked_ns as f64 / (exit - first) as f64;
    println!("braked for {:.1} ms of {:.1} ms", braked_ns as f64 / 1e6, (exit - first) as f64 / 1e6);
    assert!(share > 0.6, "the step was where the brake is: {share}");
    for said in [&span, &record] {
        assert_eq!((said.text("hw.id"), said.text("gpu.step.gpu.certainty")), ("GPU-0a", "listed"));
        assert_eq!(said.text("gpu.step.throttle.reasons"), "hw_power_brake");
        assert_eq!(said.text("gpu.step.cause"), "throttle");
        // The precision is that of the polls at both ends, and of the driver's start time.
        let reported: f64 = said.number("gpu.step.throttle.duration");
        let off_ms = (reported * 1e3 - braked_ns as f64 / 1e6).abs();
        println!("reported: {:.1} ms, off by {off_ms:.1} ms", reported * 1e3);
        assert!(off_ms < 100.0, "{reported} s of {braked_ns} ns");
        assert!((said.number::<f64>("gpu.step.throttle.share") - share).abs() < 0.05, "{share}: {said:?}");
    }
    assert!(record.body.contains("hw_power_brake throttled the GPU's clocks"), "{}", record.body);
    let (_, span, record) = slow(dir.path(), "free", &inbox);
    for said in [&span, &record] {
        assert_eq!((said.text("hw.id"), said.text("gpu.step.gpu.certainty")), ("GPU-1a", "listed"));
        assert!(said.attributes.keys().all(|key| !key.starts_with("gpu.step.throttle")), "{said:?}");
        assert_ne!(said.text("gpu.step.cause"), "throttle");
    }
    inbox.until_point("gpu.step.outliers", "gpu.step.cause=throttle", 1);
    let outliers = inbox.sums("gpu.step.outliers");
    let throttled = outliers.keys().filter(|(_, key)| key.contains("gpu.step.cause=throttle"));
    assert!(
        throttled.clone().count() > 0 && throttled.clone().all(|(pid, _)| *pid == pids[0]),
        "{outliers:?}"
    );
}
