//! Agents that end in the middle of a job, and adopt each other's probes: what the next one reports is true.

use std::path::{Path, PathBuf};
use std::time::Duration;

use capture::{Capture, PinSettings, Settings};
use probe_abi::fold::mix;

use super::{JOB, Reported, check_reported, check_sums, logs, read_for, rig, variable};

/// The entry point of a guard; not a test.
#[test]
fn guard_process() {
    // Not started as a guard.
    let _ = capture::guard();
}

/// Directory of the pins, removed on drop.
struct PinDir(PathBuf);

impl Drop for PinDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Lets two agents end at once, without notice and with all that they read, and a third one report. Returns false if this
/// machine cannot do that.
fn check_round(round: u64, seed: u64) -> bool {
    let dir = PinDir(Path::new("/sys/fs/bpf").join(format!("warptap-late-{}", std::process::id())));
    let Some(mut rig) = rig::rig(&format!("restart-{round}"), &rig::settings()) else { return false };
    let (mut player, ranks) = rig.unattached_ranks(JOB);
    let guard = ["restart::guard_process", "--exact", "--quiet"].map(Into::into).to_vec();
    let pin = PinSettings { path: dir.0.clone(), expire_after: Duration::from_secs(20), guard };
    let settings = Settings { pids: ranks.clone(), pin: Some(pin), ..rig::settings() };
    let start = |rig: &mut rig::Rig| {
        // Ends the agent before.
        rig.capture = Capture::start(&rig::settings()).unwrap();
        rig.events.clear();
        rig.capture = Capture::start(&settings).unwrap();
    };
    start(&mut rig);
    if !dir.0.exists() {
        println!("skipped: {} cannot be created: mount -t bpf bpf /sys/fs/bpf", dir.0.display());
        return false;
    }
    player.go().unwrap();
    for at in 0..2 {
        let after = Duration::from_micros(50_000 + mix(seed ^ (round * 2 + at)) % 900_000);
        read_for(&mut rig, after);
        start(&mut rig);
    }
    read_for(&mut rig, Duration::from_secs(3));
    drop(player);
    let (reported, logs) = (Reported::of(&rig.events, &ranks), logs(&rig));
    check_reported(&format!("round {round}, restarted twice"), &reported, &logs, 0);
    check_sums(&reported, &ranks);
    true
}

#[test]
fn reported_waits_and_verdicts_after_a_restart_are_true() {
    let seed = variable("WARPTAP_LATE_SEED").unwrap_or_else(capture::now_ns);
    println!("seed {seed}");
    let rounds = variable("WARPTAP_LATE_ROUNDS").unwrap_or(2);
    let _ = (0..rounds).all(|round| check_round(round, seed));
}
