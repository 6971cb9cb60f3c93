//! A rank: makes its calls and logs the collective of each, and the lateness that the script caused.
//!
//! Statements and operations are here; [`communicators`] and [`streams`] have modules of their own.

mod communicators;
mod streams;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::sync::atomic::AtomicU64;

use probe_abi::PROBES;
use probe_abi::record::ARGUMENTS;

use super::super::protocol;
use super::super::{PlayError, options::Options};
use super::ids::Ids;
use super::last_turn::{LastTurns, LoopExecution};
use crate::functions::Functions;
use crate::model::{clock, thread};
use crate::nccl_calls::{Nccl, NcclOutcome};
use crate::oracle::{Line, Log, NcclLine};
use crate::ranks::{RankAction, RankLoop, RankOperation, RankPeer, RankScript, RankStatement};
use crate::script::turns::Times;
use crate::text::{Random, ValueRange};

/// A communicator of this rank.
struct Member {
    /// Name in the oracle log: that of the script, for a split with the color appended.
    label: String,
    handle: u64,
    rank: usize,
    nranks: usize,
    next_seq: u64,
}

/// The stream of a name.
#[derive(Default)]
struct Stream {
    handle: u64,
    event: u64,
    graph: u64,
    /// Collectives that were not waited for.
    pending: Vec<(String, u64)>,
}

/// Whether the next statement runs.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Flow {
    On,
    Over,
}

struct Rank<'a> {
    script: &'a RankScript,
    functions: &'a Functions,
    nccl: &'a Nccl,
    log: &'a Log,
    ids: Ids,
    last_turns: LastTurns,
    rank: usize,
    random: Random,
    members: BTreeMap<String, Member>,
    /// Number of communicators created under each name.
    generations: BTreeMap<String, u32>,
    streams: BTreeMap<String, Stream>,
    /// Communicators whose handle is written at the end of their group, and the address of each.
    unwritten: Vec<(String, &'static AtomicU64)>,
    lines: Vec<Line>,
    calls: u64,
    late_ns: u64,
    depth: u32,
    /// How often each loop was executed, by its number.
    executions: BTreeMap<usize, usize>,
    /// Number of loops around the current statement.
    loops: u32,
    is_capturing: bool,
    /// Whether it continues at the same time as its peers; work is then done before the wait.
    is_paced: bool,
    ends_ns: u64,
    /// Limit of the turns of each `repeat` of a time.
    turns: Option<u64>,
}

/// Plays one rank until its input is closed, even during a wait, so that no rank outlives its parent.
pub(in super::super) fn play(
    script: &RankScript,
    options: &Options,
    functions: &Functions,
    nccl: &Nccl,
    log: &Log,
) -> Result<(), PlayError> {
    let meeting = options.meeting.clone().unwrap_or_default();
    let rank = options.process.as_deref().and_then(|p| p.parse().ok()).unwrap_or(0);
    if !nccl.meet_at(&meeting.join("board")) {
        return Err(PlayError::Usage(format!("rank {rank} cannot share the page in {}", meeting.display())));
    }
    let failed = || PlayError::file(format!("share files in {}", meeting.display()));
    let ids = Ids::share(&meeting.join("ids"), script).map_err(failed())?;
    let last_turns = LastTurns::share(&meeting.join("turns")).map_err(failed())?;
    if !protocol::ready(options.wait_go) {
        return Ok(());
    }
    std::thread::spawn(|| {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let mut player = Rank {
        script,
        functions,
        nccl,
        log,
        ids,
        last_turns,
        rank,
        random: Random::new(script.seed.wrapping_mul(1_000_003).wrapping_add(rank as u64)),
        members: BTreeMap::new(),
        generations: BTreeMap::new(),
        streams: BTreeMap::new(),
        unwritten: Vec::new(),
        lines: Vec::new(),
        calls: 0,
        late_ns: 0,
        depth: 0,
        executions: BTreeMap::new(),
        loops: 0,
        is_capturing: false,
        is_paced: false,
        ends_ns: options.seconds_ns.map_or(u64::MAX, |ns| clock::now_ns().saturating_add(ns)),
        turns: options.turns,
    };
    player.all(&script.body, 0);
    player.flush();
    protocol::send_done(player.calls);
    loop {
        std::thread::park();
    }
}

impl Rank<'_> {
    fn all(&mut self, body: &[RankStatement], turn: u64) -> Flow {
        for statement in body {
            let is_mine = statement.only.as_ref().is_none_or(|only| only.contains(&self.rank));
            if is_mine && statement.when.holds(turn) && self.one(&statement.action, turn) == Flow::Over {
                return Flow::Over;
            }
        }
        Flow::On
    }

    fn one(&mut self, action: &RankAction, turn: u64) -> Flow {
        match action {
            RankAction::Comm(name, of) => self.make(name, of.as_deref()),
            RankAction::Split(name, parent, color) => self.split(name, parent, *color),
            RankAction::Operation(operation) => self.operation(operation),
            RankAction::Sync(stream) => self.sync(stream),
            RankAction::EventSync(stream) => self.event_sync(stream),
            RankAction::Late(span) => self.late_ns += self.sleep(span),
            RankAction::Sleep(span) => drop(self.sleep(span)),
            RankAction::Pace(name, span) => self.pace(name, span),
            RankAction::Burn(span) => clock::burn(span.sample(&mut self.random)),
            RankAction::Group(body) => return self.group(body, turn),
            RankAction::Capture(stream, body) => return self.capture(stream, body, turn),
            RankAction::Replay(stream) => self.replay(stream),
            RankAction::Repeat(repeat) => return self.repeat(repeat),
            RankAction::Query(name) => self.query(name),
            RankAction::End(symbol, name) => self.end(symbol, name),
            RankAction::Stop => return Flow::Over,
            RankAction::Crash => self.crash(),
        }
        Flow::On
    }

    fn repeat(&mut self, repeat: &RankLoop) -> Flow {
        let before = self.executions.entry(repeat.number).or_default();
        let of = LoopExecution { number: repeat.number, before: *before };
        *before += 1;
        let began_ns = clock::now_ns();
        for turn in 0.. {
            if !self.continues(repeat.times, of, began_ns, turn) {
                break;
            }
            self.loops += 1;
            let flow = self.all(&repeat.body, turn);
            self.loops -= 1;
            if flow == Flow::Over {
                return Flow::Over;
            }
        }
        Flow::On
    }

    /// Returns whether a loop that began at `began_ns` runs a turn. All ranks run the same turns.
    fn continues(&self, times: Times, of: LoopExecution, began_ns: u64, turn: u64) -> bool {
        let ends_ns = match times {
            Times::Count(count) if turn >= count => return false,
            // A turn of the loop around it is not ended in its middle.
            Times::Count(_) if self.loops > 0 => return true,
            Times::Count(_) => self.ends_ns,
            Times::For(_) if self.turns.is_some_and(|turns| turn >= turns) => return false,
            Times::For(ns) => self.ends_ns.min(began_ns.saturating_add(ns)),
        };
        ends_ns == u64::MAX || self.last_turns.runs(of, turn, clock::now_ns() >= ends_ns)
    }

    fn sleep(&mut self, span: &ValueRange) -> u64 {
        let ns = span.sample(&mut self.random);
        clock::sleep_until(clock::now_ns().saturating_add(ns));
        ns
    }

    fn pace(&mut self, name: &str, span: &ValueRange) {
        self.is_paced = true;
        self.flush();
        let completed_ns = self.members.get(name).map_or(0, |m| self.nccl.completed_ns(m.handle));
        clock::sleep_until(completed_ns.saturating_add(span.sample(&mut self.random)));
    }

    fn flush(&mut self) {
        if self.log.write(&std::mem::take(&mut self.lines)).is_err() {
            let rank = self.rank;
            let _ = writeln!(std::io::stderr(), "player: rank {rank} cannot write the oracle log");
        }
    }

    fn line(&mut self, symbol: &'static str, arguments: Vec<u64>, made: NcclOutcome) -> NcclLine {
        self.calls += 1;
        NcclLine {
            symbol: symbol.into(),
            row: PROBES.iter().find(|p| p.symbol == symbol).map_or(0, |p| p.id),
            pid: std::process::id(),
            tid: thread::tid(),
            arguments,
            entry_ns: made.entry_ns,
            exit_ns: made.exit_ns,
            result: made.result,
            ..NcclLine::default()
        }
    }

    #[allow(unsafe_code, reason = "calls a C library")]
    fn words(&mut self, symbol: &'static str, words: &[u64]) -> NcclLine {
        let mut all = [0; ARGUMENTS];
        all[..words.len()].copy_from_slice(words);
        // SAFETY: every caller passes words by the function's prototype; pointers among them outlive the call.
        let made = unsafe { self.nccl.call(symbol, &all) };
        self.line(symbol, words.to_vec(), made)
    }

    fn of_member(&self, line: NcclLine, name: &str) -> NcclLine {
        let Some(member) = self.members.get(name) else { return line };
        let (rank, nranks) = (member.rank as u32, member.nranks as u32);
        NcclLine { communicator: member.label.clone(), rank, nranks, ..line }
    }

    fn operation(&mut self, operation: &RankOperation) {
        let stream = self.stream(&operation.stream);
        let Some(member) = self.members.get_mut(&operation.communicator) else { return };
        let is_message = matches!(operation.function.symbol, "ncclSend" | "ncclRecv");
        let peer = match operation.peer {
            RankPeer::None => 0,
            RankPeer::Rank(rank) => rank,
            RankPeer::Further(by) => (member.rank + by) % member.nranks,
        };
        let seq = member.next_seq;
        member.next_seq += u64::from(!is_message);
        let words = words_of(operation, member.handle, peer as u64, stream);
        let label = member.label.clone();
        let line = self.words(operation.function.symbol, &words);
        let seq = (!is_message).then_some(seq);
        if let (Some(seq), Some(stream), false) =
            (seq, self.streams.get_mut(&operation.stream), self.is_capturing)
        {
            stream.pending.push((label, seq));
        }
        let late_ns = if seq.is_some() { std::mem::take(&mut self.late_ns) } else { 0 };
        let line = NcclLine { seq, late_ns, captured: self.is_capturing, grouped: self.depth > 0, ..line };
        let line = self.of_member(line, &operation.communicator);
        self.lines.push(Line::Nccl(line));
    }

    fn group(&mut self, body: &[RankStatement], turn: u64) -> Flow {
        let line = self.words("ncclGroupStart", &[]);
        self.lines.push(Line::Nccl(line));
        self.depth += 1;
        let flow = self.all(body, turn);
        self.depth -= 1;
        let mut line = self.words("ncclGroupEnd", &[]);
        if self.depth == 0 {
            line.exit = self.take_written();
        }
        self.lines.push(Line::Nccl(line));
        flow
    }

    #[allow(unsafe_code, reason = "kills this process by a system call")]
    fn crash(&mut self) {
        self.flush();
        // SAFETY: it kills this process and nothing else.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}

/// Returns the arguments of an operation in the order of nccl.h.
fn words_of(o: &RankOperation, comm: u64, peer: u64, stream: u64) -> Vec<u64> {
    const BUFFERS: [u64; 2] = [0x7d00_0000_1000, 0x7d00_0000_2000];
    let mut words = BUFFERS[..o.function.buffers].to_vec();
    words.extend([o.count, o.datatype]);
    words.extend(o.function.reduces.then_some(o.reduction));
    words.extend(o.function.has_peer.then_some(peer));
    words.extend([comm, stream]);
    words
}
