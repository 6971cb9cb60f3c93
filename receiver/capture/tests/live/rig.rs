//! The fixture of live tests: a capture, and players in their own processes.
//!
//! A player is this test program, executed with [`PLAYER`] set (see `main.rs`), so that the tests need no other binary.
//! No test sleeps: players report when they are ready and done, and tests wait for conditions.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use capture::{Capture, Readiness, Settings, checks};
use event::{Event, EventSource as _};
use simulator::player::Player;

/// Environment variable with the arguments of a player, one a line.
pub const PLAYER: &str = "WARPTAP_TEST_PLAYER";
/// Environment variable with the exit code of a player.
pub const EXIT: &str = "WARPTAP_TEST_EXIT";
const PATIENCE: Duration = Duration::from_secs(30);

/// A capture and its events so far.
pub struct Rig {
    pub capture: Capture,
    pub events: Vec<Event>,
    pub dir: PathBuf,
    /// The lock of live tests on this machine: captures would trace each other's players.
    _turn: std::fs::File,
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Returns settings that trace the players of this test alone, since other tests run at the same time.
pub fn settings() -> Settings {
    Settings { trace_all: false, linger_ns: 0, ..Settings::default() }
}

/// Returns a rig; prints why and returns `None` if this machine cannot load eBPF programs.
pub fn rig(name: &str, settings: &Settings) -> Option<Rig> {
    let dir = std::env::temp_dir().join(format!("warptap-live-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let turn = std::fs::File::create(std::env::temp_dir().join("warptap-live.lock")).unwrap();
    turn.lock().unwrap();
    match Capture::start(settings) {
        Ok(capture) => Some(Rig { capture, events: Vec::new(), dir, _turn: turn }),
        Err(reason) => {
            let missing = checks().into_iter().find(|c| c.readiness == Readiness::Missing);
            // A machine that has all it takes and refuses all the same is a defect, not a reason to skip.
            assert!(missing.is_some(), "{reason}");
            println!("skipped: {reason}");
            None
        }
    }
}

/// Returns the command that runs a player with these arguments.
pub fn player_command(arguments: &[OsString]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["player_process", "--exact", "--nocapture", "--quiet"]);
    let lines: Vec<String> = arguments.iter().map(|a| a.to_str().unwrap().to_owned()).collect();
    command.env(PLAYER, lines.join("\n"));
    command
}

impl Rig {
    /// Ends the capture and starts another. This machine's other live tests wait all the time.
    pub fn restart(&mut self, settings: &Settings) {
        // Ends the owner of the pins.
        self.capture = Capture::start(&self::settings()).unwrap();
        self.events.clear();
        self.capture = Capture::start(settings).unwrap();
    }

    /// Starts a player that waits for its start signal, and attaches to it.
    pub fn player(&mut self, arguments: &[&str]) -> Player {
        let stubs = self.dir.join("stubs");
        self.player_with(arguments, &stubs)
    }

    /// Starts a player with the stub libraries in `stubs`, and attaches to it.
    pub fn player_with(&mut self, arguments: &[&str], stubs: &Path) -> Player {
        self.start(self.command(arguments, stubs))
    }

    /// Starts a player that exits with this code.
    pub fn player_exiting(&mut self, arguments: &[&str], code: u8) -> Player {
        let mut command = self.command(arguments, &self.dir.join("stubs"));
        command.env(EXIT, code.to_string());
        self.start(command)
    }

    fn command(&self, arguments: &[&str], stubs: &Path) -> Command {
        let mut all: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        all.extend([
            "--wait-go".into(),
            "--oracle".into(),
            self.oracle().into(),
            "--stubs".into(),
            stubs.into(),
        ]);
        player_command(&all)
    }

    /// Starts a player without attaching to it.
    pub fn unattached_player(&mut self, arguments: &[&str]) -> Player {
        Player::start(self.command(arguments, &self.dir.join("stubs"))).unwrap()
    }

    fn start(&mut self, command: Command) -> Player {
        let player = Player::start(command).unwrap();
        self.attach(&player);
        player
    }

    /// Returns the path of the log that players write.
    pub fn oracle(&self) -> PathBuf {
        self.dir.join("oracle.jsonl")
    }

    /// Attaches to a player that is ready.
    pub fn attach(&mut self, player: &Player) {
        self.capture.trace(player.pid()).unwrap();
        let (observed, gaps) = self.capture.coverage(player.pid()).unwrap();
        assert!(!observed.is_empty(), "nothing is visible of the player: {gaps:?}");
    }

    /// Starts a player of a script of ranks, attaches to it and to every rank, and returns it with the pids of the ranks.
    pub fn ranks(&mut self, script: &str) -> (Player, Vec<u32>) {
        let (player, ranks) = self.unattached_ranks(script);
        self.attach(&player);
        ranks.iter().for_each(|pid| self.capture.trace(*pid).unwrap());
        (player, ranks)
    }

    /// Starts a player of a script of ranks, and returns it with the pids of the ranks.
    pub fn unattached_ranks(&mut self, script: &str) -> (Player, Vec<u32>) {
        let path = self.dir.join("ranks");
        std::fs::write(&path, script).unwrap();
        let player = self.unattached_player(&[path.to_str().unwrap()]);
        let ranks = player.ranks().unwrap();
        (player, ranks)
    }

    /// Starts a player that executes another program, and attaches to that before its first call.
    pub fn follow_exec(&mut self, player: &mut Player) {
        let pid = player.pid();
        player.go().unwrap();
        std::thread::scope(|scope| {
            // The second program says that it is ready, too. Records are read meanwhile: whether a program has a GPU
            // open is known only until it executes another one.
            let ready = scope.spawn(|| player.ready().unwrap());
            self.wait("the second program", |_| ready.is_finished());
        });
        self.wait("the exec", |rig| {
            rig.events.iter().any(|e| matches!(e, Event::Exit { process, .. } if process.pid == pid))
        });
        self.attach(player);
    }

    /// Reads events until `holds`; panics with the events on timeout.
    pub fn wait(&mut self, what: &str, mut holds: impl FnMut(&mut Rig) -> bool) {
        let began = Instant::now();
        loop {
            let mut events = std::mem::take(&mut self.events);
            self.capture.read(&mut events).unwrap();
            self.events = events;
            if holds(self) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "waited in vain for {what}: {:?}", self.capture.account());
            std::thread::yield_now();
        }
    }

    /// Plays to the end while reading, until the process has exited and all its events were read.
    pub fn play(&mut self, player: Player) -> u64 {
        let pid = player.pid();
        self.play_all(player, &[pid])
    }

    /// Runs a player to its end, whose calls are made by these processes.
    pub fn play_all(&mut self, mut player: Player, pids: &[u32]) -> u64 {
        player.go().unwrap();
        self.play_on(player, pids)
    }

    /// Waits while reading for the end of a player that was started before.
    pub fn play_on(&mut self, mut player: Player, pids: &[u32]) -> u64 {
        let playing = std::thread::spawn(move || {
            let calls = player.done().unwrap();
            player.finish().unwrap();
            calls
        });
        self.wait("the player's end", |rig| {
            let has_ended = |pid: &u32| {
                rig.events.iter().any(|e| matches!(e, Event::Exit { process, .. } if process.pid == *pid))
            };
            playing.is_finished() && pids.iter().all(has_ended)
        });
        playing.join().unwrap()
    }
}
