//! Agents that are killed and started again while a player makes calls: every call is counted once.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use capture::{Capture, MapSizes, PinSettings, Settings, Unpinned};
use event::{Event, EventSource as _};
use probe_abi::record::flag;
use simulator::player::Player;

use crate::rig::{Rig, rig, settings};

/// Environment variable with the arguments of an agent: directory of the pins, time until they
/// expire, size of the map of streams, pids.
pub const AGENT: &str = "WARPTAP_TEST_AGENT";
/// Environment variable with the number of rounds.
const ROUNDS: &str = "WARPTAP_RESTART_ROUNDS";
/// Longer than an agent is away.
pub const EXPIRE_AFTER: Duration = Duration::from_secs(20);
/// Size of the map of streams of an agent, which another agent changes.
pub const STREAMS: u32 = 1_000;
const READY: &str = "@agent ready";

/// Launches of two threads, timed calls, and calls with a record of their own.
const SCRIPT: &str = "\
stream main
stream side
thread first
  repeat 20s
    launch main grid=2 block=32
    launch main grid=2 block=32
    copy h2d 4096 main
    malloc a 4096
    free a
    sync stream main
    sleep 500us
  end
end
thread second
  repeat 20s
    repeat 50
      launch side grid=3 block=32
    end
    sync stream side
    sleep 1ms
  end
end
";

/// Returns the number of rounds of a test.
pub fn rounds(default: u32) -> u32 {
    std::env::var(ROUNDS).map_or(default, |rounds| rounds.parse().unwrap())
}

/// Directory of the pins of a test, removed on drop.
pub struct PinDir(pub PathBuf);

impl PinDir {
    /// Returns a directory; prints why and returns `None` without a bpf file system.
    pub fn new(name: &str) -> Option<PinDir> {
        let dir = Path::new("/sys/fs/bpf").join(format!("warptap-test-{}-{name}", std::process::id()));
        match std::fs::create_dir(&dir) {
            Ok(()) => {
                std::fs::remove_dir(&dir).unwrap();
                Some(PinDir(dir))
            }
            Err(e) => {
                println!("skipped: {}: {e}; mount -t bpf bpf /sys/fs/bpf", dir.display());
                None
            }
        }
    }

    pub fn settings(&self, pids: &[u32]) -> Settings {
        agent_settings(&self.0, EXPIRE_AFTER, pids.to_vec())
    }
}

impl Drop for PinDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn agent_settings(path: &Path, expire_after: Duration, pids: Vec<u32>) -> Settings {
    let guard = ["guard_process", "--exact", "--quiet"].map(Into::into).to_vec();
    let pin = Some(PinSettings { path: path.to_owned(), expire_after, guard });
    let sizes = MapSizes { streams: STREAMS, ..MapSizes::default() };
    Settings { pin, pids, sizes, linger_ns: 60_000_000_000, ..settings() }
}

/// Runs an agent until it is killed.
pub fn run_agent(arguments: &str) {
    let mut lines = arguments.lines();
    let path = lines.next().unwrap();
    let expire_after = Duration::from_millis(lines.next().unwrap().parse().unwrap());
    let streams = lines.next().unwrap().parse().unwrap();
    let pids = lines.map(|pid| pid.parse().unwrap()).collect();
    let sizes = MapSizes { streams, ..MapSizes::default() };
    let settings = Settings { sizes, ..agent_settings(Path::new(path), expire_after, pids) };
    let mut capture = Capture::start(&settings).unwrap();
    let mut events = Vec::new();
    capture.read(&mut events).unwrap();
    println!("{READY}");
    loop {
        events.clear();
        capture.read(&mut events).unwrap();
        capture.read_totals(&mut events);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Starts an agent in its own process and waits until it has attached.
pub fn agent(dir: &PinDir, expire_after: Duration, pid: u32, streams: u32) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["agent_process", "--exact", "--nocapture", "--quiet"]);
    command.env(AGENT, format!("{}\n{}\n{streams}\n{pid}", dir.0.display(), expire_after.as_millis()));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with(READY)), "the agent started");
    child
}

pub fn script(rig: &Rig) -> String {
    let path = rig.dir.join("script");
    std::fs::write(&path, SCRIPT).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Returns the calls that the last totals of each function count.
pub fn totals(events: &[Event], pid: u32) -> u64 {
    let mut calls = std::collections::BTreeMap::new();
    for event in events {
        if let Event::Operation(total) = event
            && total.process.pid == pid
        {
            calls.insert(total.row, total.calls);
        }
    }
    calls.into_values().sum()
}

pub fn pause(ms: u64) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(ms) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Lets agents of their own processes be killed after these times, ms, each followed by such a gap, while a player
/// runs; the last agent is the rig's.
fn play_killed(rig: &mut Rig, dir: &PinDir, kills_ms: &[(u64, u64)]) {
    // Ends the owner of the pins.
    rig.capture = Capture::start(&settings()).unwrap();
    let script = script(rig);
    let mut player = rig.unattached_player(&[&script, "--seconds", "2"]);
    let pid = player.pid();
    let mut first = agent(dir, EXPIRE_AFTER, pid, STREAMS);
    player.go().unwrap();
    for (at, (alive_ms, gap_ms)) in kills_ms.iter().enumerate() {
        if at > 0 {
            first = agent(dir, EXPIRE_AFTER, pid, STREAMS);
        }
        pause(*alive_ms);
        first.kill().unwrap();
        first.wait().unwrap();
        pause(*gap_ms);
    }
    rig.events.clear();
    rig.capture = Capture::start(&dir.settings(&[pid])).unwrap();
    let calls = finish(rig, player);
    let account = rig.capture.account();
    println!("killed after {kills_ms:?} ms: {calls} calls, {} hits", account.hits);
    assert_eq!((account.hits, totals(&rig.events, pid)), (calls, calls), "{account:?}");
    assert!(account.is_balanced() && account.lost() == 0, "{account:?}");
    let is_marked = |e: &&Event| matches!(e, Event::Step(s) if s.header.flags & flag::UNARMED != 0);
    let marked = rig.events.iter().filter(is_marked).count();
    assert!(marked <= 4, "two steps of each stream are marked: {marked}");
}

pub fn finish(rig: &mut Rig, mut player: Player) -> u64 {
    let pid = player.pid();
    let playing = std::thread::spawn(move || {
        let calls = player.done().unwrap();
        player.finish().unwrap();
        calls
    });
    rig.wait("the player's end", |rig| {
        let has_ended = |e: &Event| matches!(e, Event::Exit { process, .. } if process.pid == pid);
        playing.is_finished() && rig.events.iter().any(has_ended)
    });
    playing.join().unwrap()
}

#[test]
fn killed_agents_lose_no_call_and_count_none_twice() {
    let (Some(dir), Some(mut rig)) = (PinDir::new("kill"), rig("pins-kill", &settings())) else { return };
    let mut seed = capture::now_ns();
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..rounds(3) {
        let kills: Vec<_> = (0..=random(3)).map(|_| (random(400), random(150))).collect();
        play_killed(&mut rig, &dir, &kills);
        std::io::stdout().flush().unwrap();
    }
}

/// Starts an agent that attaches to a player, and kills it.
fn leave_behind(rig: &mut Rig, dir: &PinDir, expire_after: Duration) -> (Player, u32) {
    let script = script(rig);
    let player = rig.unattached_player(&[&script, "--seconds", "0.2"]);
    let pid = player.pid();
    let mut agent = agent(dir, expire_after, pid, STREAMS);
    assert!(capture::unpin(&dir.0).unwrap_err().contains(&agent.id().to_string()), "the agent is the owner");
    agent.kill().unwrap();
    agent.wait().unwrap();
    (player, pid)
}

fn links(dir: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries.flatten().map(|e| if e.path().is_dir() { links(&e.path()) } else { 1 }).sum()
}

#[test]
fn pins_of_an_agent_that_does_not_return_expire() {
    let (Some(dir), Some(mut rig)) = (PinDir::new("expire"), rig("pins-expire", &settings())) else { return };
    let (player, _) = leave_behind(&mut rig, &dir, Duration::from_millis(1_500));
    assert!(links(&dir.0) > 35, "the agent has ended and its probes are attached");
    let began = Instant::now();
    rig.wait("the end of the pins", |_| links(&dir.0) == 0);
    assert!(began.elapsed() > Duration::from_millis(500), "they outlive the agent");
    drop(player);
}

#[test]
fn agent_that_returns_in_time_keeps_the_pins() {
    let (Some(dir), Some(mut rig)) = (PinDir::new("return"), rig("pins-return", &settings())) else { return };
    let (player, pid) = leave_behind(&mut rig, &dir, Duration::from_millis(700));
    rig.capture = Capture::start(&dir.settings(&[pid])).unwrap();
    let before = links(&dir.0);
    let began = Instant::now();
    rig.wait("the time of the first guard", |_| began.elapsed() > Duration::from_millis(1_500));
    assert!(before > 35 && links(&dir.0) == before, "{before} links");
    drop(player);
}

#[test]
fn unpin_removes_what_an_agent_left_behind() {
    let (Some(dir), Some(mut rig)) = (PinDir::new("unpin"), rig("pins-unpin", &settings())) else { return };
    let (player, pid) = leave_behind(&mut rig, &dir, EXPIRE_AFTER);
    let removed = capture::unpin(&dir.0).unwrap();
    assert!(removed.files == 2 && removed.maps > 20, "{removed:?}");
    assert_eq!((links(&dir.0), capture::unpin(&dir.0)), (0, Ok(Unpinned::default())));
    rig.capture = Capture::start(&dir.settings(&[pid])).unwrap();
    assert!(links(&dir.0) > 35, "the next agent begins again");
    drop(player);
}

#[test]
fn directory_that_others_can_write_is_refused() {
    let (Some(dir), Some(mut rig)) = (PinDir::new("hostile"), rig("pins-hostile", &settings())) else {
        return;
    };
    let inner = PinDir(dir.0.join("inner"));
    std::fs::create_dir(&dir.0).unwrap();
    let set_mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let mut check = |path: &Path, is_used: bool| {
        rig.capture = Capture::start(&settings()).unwrap();
        rig.capture = Capture::start(&agent_settings(path, EXPIRE_AFTER, Vec::new())).unwrap();
        assert_eq!(links(&dir.0) > 0, is_used, "{}", path.display());
    };
    for mode in [0o770, 0o707, 0o1777, 0o750] {
        set_mode(&dir.0, mode);
        check(&dir.0, false);
    }
    set_mode(&dir.0, 0o777);
    check(&inner.0, false);
    set_mode(&dir.0, 0o700);
    std::os::unix::fs::chown(&dir.0, Some(65_534), None).unwrap();
    check(&dir.0, false);
    check(&inner.0, false);
    std::os::unix::fs::chown(&dir.0, Some(0), None).unwrap();
    check(&dir.0, true);
}

#[test]
fn second_agent_does_not_touch_the_pins_of_the_first() {
    let (Some(dir), Some(mut rig)) = (PinDir::new("second"), rig("pins-second", &settings())) else { return };
    let first = Capture::start(&dir.settings(&[])).unwrap();
    let before = links(&dir.0);
    rig.capture = Capture::start(&dir.settings(&[1])).unwrap();
    assert!(before > 20 && links(&dir.0) == before, "{before}");
    drop(first);
}

/// A call, and later more records than an agent takes in one read.
const ALLOCATIONS: &str = "\
thread first
  malloc b 4096
  sleep 600ms
  repeat 8000
    malloc a 4096
    free a
  end
end
";

/// The list of processes ended a process before its last records were read, and nothing knew its executable any more.
#[test]
fn process_that_ends_between_two_agents_is_complete() {
    let (Some(dir), Some(mut rig)) = (PinDir::new("between"), rig("pins-between", &settings())) else {
        return;
    };
    let path = rig.dir.join("allocations");
    std::fs::write(&path, ALLOCATIONS).unwrap();
    let mut player = rig.unattached_player(&[path.to_str().unwrap()]);
    let pid = player.pid();
    let mut agent = agent(&dir, EXPIRE_AFTER, pid, STREAMS);
    player.go().unwrap();
    pause(300);
    agent.kill().unwrap();
    agent.wait().unwrap();
    let calls = player.done().unwrap();
    player.finish().unwrap();
    rig.events.clear();
    rig.capture = Capture::start(&dir.settings(&[pid])).unwrap();
    let is_end = |e: &Event| matches!(e, Event::Exit { process, .. } if process.pid == pid);
    rig.wait("the end of the process", |rig| rig.events.iter().any(is_end));
    let account = rig.capture.account();
    assert_eq!((totals(&rig.events, pid), account.hits, account.lost()), (calls, calls, 0));
    (0..5).for_each(|_| assert!(rig.capture.read(&mut rig.events).unwrap()));
    let end = rig.events.iter().position(is_end).unwrap();
    let is_call = |e: &Event| matches!(e, Event::Call(call) if call.header.pid == pid);
    let calls_after = rig.events[end..].iter().filter(|e| is_call(e)).count();
    assert!(rig.events.iter().any(is_call) && calls_after == 0, "{calls_after} records after the end");
    let described =
        rig.events.iter().find_map(|e| if let Event::Process(info) = e { Some(info) } else { None });
    let own = std::env::current_exe().unwrap();
    assert_eq!(described.unwrap().executable_path, own.to_str().unwrap());
}
