//! The real agent under every attack at once of a user without privileges, who maps, names and sends what harms: another user's
//! programs are traced completely, memory stays bounded, no file of others is written, and SIGTERM ends it.
//!
//! `WARPTAP_ATTACKED_SECONDS` is the duration (15). With the release build, the figures of TESTING.md:
//! `WARPTAP_ATTACKED_SECONDS=600 cargo test --release -p warptap -p otel-conformance-tests --test attacked -- --nocapture`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test, which says what it found")]

#[path = "attacked/agent.rs"]
mod agent;
#[path = "attacked/attacker.rs"]
mod attacker;
mod live;
#[path = "attacked/victim.rs"]
mod victim;
#[path = "attacked/writes.rs"]
mod writes;

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agent::Agent;
use attacker::Attacker;
use live::inbox::Inbox;
use victim::Victim;
use writes::Writes;

/// Environment variable with what a hostile process does ([`simulator::attacks`]).
const CALLER: &str = "WARPTAP_TEST_HOSTILE";
const ATTACKER: u32 = 61_001;
const VICTIM: u32 = 61_002;
/// How long a program of the victim runs, and then attacks of processes and files that are new.
const ROUND: Duration = Duration::from_secs(5);
/// Memory of its own that the agent may use, in any build.
const MIB_MAX: f64 = 64.0;
/// Longest time from SIGTERM to the end.
const END_MAX: Duration = Duration::from_secs(5);

fn seconds() -> u64 {
    std::env::var("WARPTAP_ATTACKED_SECONDS").map_or(15, |seconds| seconds.parse().unwrap())
}

/// Returns a directory of a user in `dir`.
fn directory_of(dir: &Path, user: u32) -> PathBuf {
    let dir = dir.join(user.to_string());
    std::fs::create_dir(&dir).unwrap();
    chown(&dir, Some(user), Some(user)).unwrap();
    dir
}

/// The entry point of hostile processes; not a test.
#[test]
fn hostile_process() {
    simulator::attacks::main_by_variable(CALLER);
}

#[test]
fn agent_under_every_attack_at_once_traces_others_completely() {
    let Some(warptap) = live::binary::binary() else { return };
    if !is_root() {
        return println!("skipped: processes of other users can be started by root only");
    }
    let _turn = live::agent::turn();
    let temporary = tempfile::tempdir().unwrap();
    std::fs::set_permissions(temporary.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let dir = temporary.path();
    let inbox = Inbox::open();
    let mut agent = Agent::start(&warptap, &dir.join("agent"), &inbox.exporter);
    let writes = Writes::of(agent.pid());
    let mut attacker = Attacker::new(directory_of(dir, ATTACKER), agent.http);
    let mut victim = Victim::new(&warptap, directory_of(dir, VICTIM));
    let (began, cpu_before) = (Instant::now(), agent.cpu_seconds());
    let whole = Duration::from_secs(seconds());
    attacker.begin();
    victim.begin(whole);
    while began.elapsed() < whole {
        attacker.attack();
        victim.run(ROUND);
        agent.measure();
        attacker.pause();
    }
    victim.end();
    let share = (agent.cpu_seconds() - cpu_before) / began.elapsed().as_secs_f64();
    victim.compare(&inbox);
    let (ended_in, status) = agent.stop();
    println!("{attacker}\n{victim}");
    println!(
        "agent: at most {:.1} MiB of its own, {:.1} MiB with the pages of its files; {:.2} % of a core; ended in {ended_in:?}",
        agent.own_mib,
        agent.resident_mib,
        share * 100.0
    );
    assert!(status.success() && ended_in < END_MAX, "{status} after {ended_in:?}");
    assert!(agent.own_mib < MIB_MAX, "{} MiB", agent.own_mib);
    assert_eq!(writes.outside(&dir.join("agent")), [] as [PathBuf; 0], "files that the agent wrote");
    assert_eq!(agent.control_characters_in_log(), 0);
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").unwrap().lines().any(|line| line.starts_with("Uid:\t0\t0\t"))
}
