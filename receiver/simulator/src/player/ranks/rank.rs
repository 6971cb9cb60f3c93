//! One rank: makes the calls, and writes down which collective each was, and how late the script made it.
//!
//! Statements and operations are here; what makes [`communicators`], and what waits for [`streams`], beside it.

mod communicators;
mod streams;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use probe_abi::PROBES;
use probe_abi::record::ARGUMENTS;

use super::super::protocol;
use super::super::{PlayError, options::Options};
use crate::functions::Functions;
use crate::model::{clock, thread};
use crate::nccl_calls::{Made, Nccl};
use crate::oracle::{Line, Log, NcclLine};
use crate::ranks::{Operation, Peer, RankScript, Statement, What};
use crate::script::Times;
use crate::script::value::{Random, Span};

/// A communicator that this rank is in.
struct Member {
    /// What the oracle calls it: its name in the script; of a split with the color behind it.
    label: String,
    handle: u64,
    rank: usize,
    nranks: usize,
    next_seq: u64,
}

/// A stream behind a name.
#[derive(Default)]
struct Stream {
    handle: u64,
    event: u64,
    graph: u64,
    /// Collectives that nobody has waited for.
    pending: Vec<(String, u64)>,
}

/// Whether to go on.
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
    meeting: PathBuf,
    rank: usize,
    random: Random,
    members: BTreeMap<String, Member>,
    /// How often a communicator of a name was made.
    generations: BTreeMap<String, u32>,
    streams: BTreeMap<String, Stream>,
    /// Communicators whose handle is written when their group ends, and where.
    unwritten: Vec<(String, &'static AtomicU64)>,
    lines: Vec<Line>,
    calls: u64,
    late_ns: u64,
    depth: u32,
    is_capturing: bool,
    /// It goes on when all others do: what can be done before is done before.
    is_paced: bool,
    ends_ns: u64,
    /// Ends each `repeat` that goes by time.
    turns: Option<u64>,
}

/// Plays one rank's part, from the word to go until the input closes: also in mid-wait, so that no rank outlives who
/// started it.
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
        return Err(PlayError::Usage(format!("rank {rank} cannot meet the others in {}", meeting.display())));
    }
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
        meeting,
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
        is_capturing: false,
        is_paced: false,
        ends_ns: options.seconds_ns.map_or(u64::MAX, |ns| clock::now_ns().saturating_add(ns)),
        turns: options.turns,
    };
    player.all(&script.body, 0);
    player.flush();
    protocol::say_done(player.calls);
    loop {
        std::thread::park();
    }
}

impl Rank<'_> {
    fn all(&mut self, body: &[Statement], turn: u64) -> Flow {
        for statement in body {
            let is_mine = statement.only.as_ref().is_none_or(|only| only.contains(&self.rank));
            if is_mine && statement.when.holds(turn) && self.one(&statement.what, turn) == Flow::Over {
                return Flow::Over;
            }
        }
        Flow::On
    }

    fn one(&mut self, what: &What, turn: u64) -> Flow {
        match what {
            What::Comm(name, of) => self.make(name, of.as_deref()),
            What::Split(name, parent, color) => self.split(name, parent, *color),
            What::Operation(operation) => self.operation(operation),
            What::Sync(stream) => self.sync(stream),
            What::EventSync(stream) => self.event_sync(stream),
            What::Late(span) => self.late_ns += self.sleep(span),
            What::Sleep(span) => drop(self.sleep(span)),
            What::Pace(name, span) => self.pace(name, span),
            What::Burn(span) => clock::burn(span.sample(&mut self.random)),
            What::Group(body) => return self.group(body, turn),
            What::Capture(stream, body) => return self.capture(stream, body, turn),
            What::Replay(stream) => self.replay(stream),
            What::Repeat(times, body) => return self.repeat(*times, body),
            What::Ask(name) => self.ask(name),
            What::End(symbol, name) => self.end(symbol, name),
            What::Stop => return Flow::Over,
            What::Crash => self.crash(),
        }
        Flow::On
    }

    fn repeat(&mut self, times: Times, body: &[Statement]) -> Flow {
        let began_ns = clock::now_ns();
        for turn in 0.. {
            let more = match times {
                Times::Count(count) => turn < count,
                Times::For(_) if self.turns.is_some_and(|turns| turn >= turns) => false,
                Times::For(ns) => clock::now_ns() < began_ns.saturating_add(ns),
            };
            if !more || clock::now_ns() >= self.ends_ns {
                break;
            }
            if self.all(body, turn) == Flow::Over {
                return Flow::Over;
            }
        }
        Flow::On
    }

    fn sleep(&mut self, span: &Span) -> u64 {
        let ns = span.sample(&mut self.random);
        clock::sleep_until(clock::now_ns().saturating_add(ns));
        ns
    }

    fn pace(&mut self, name: &str, span: &Span) {
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

    fn line(&mut self, symbol: &'static str, arguments: Vec<u64>, made: Made) -> NcclLine {
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
        // SAFETY: every caller lays the words out by the function's prototype; pointers among them outlive the call.
        let made = unsafe { self.nccl.call(symbol, &all) };
        self.line(symbol, words.to_vec(), made)
    }

    fn of_member(&self, line: NcclLine, name: &str) -> NcclLine {
        let Some(member) = self.members.get(name) else { return line };
        let (rank, nranks) = (member.rank as u32, member.nranks as u32);
        NcclLine { communicator: member.label.clone(), rank, nranks, ..line }
    }

    fn operation(&mut self, operation: &Operation) {
        let stream = self.stream(&operation.stream);
        let Some(member) = self.members.get_mut(&operation.communicator) else { return };
        let is_message = matches!(operation.symbol, "ncclSend" | "ncclRecv");
        let peer = match operation.peer {
            Peer::None => 0,
            Peer::Rank(rank) => rank,
            Peer::Further(by) => (member.rank + by) % member.nranks,
        };
        let seq = member.next_seq;
        member.next_seq += u64::from(!is_message);
        let words = words_of(operation, member.handle, peer as u64, stream);
        let label = member.label.clone();
        let line = self.words(operation.symbol, &words);
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

    fn group(&mut self, body: &[Statement], turn: u64) -> Flow {
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

    #[allow(unsafe_code, reason = "asks the system to kill this process")]
    fn crash(&mut self) {
        self.flush();
        // SAFETY: it kills this process and nothing else.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}

/// The arguments of an operation, as nccl.h has them.
fn words_of(o: &Operation, comm: u64, peer: u64, stream: u64) -> Vec<u64> {
    const SEND: u64 = 0x7d00_0000_1000;
    const RECEIVE: u64 = 0x7d00_0000_2000;
    match o.symbol {
        "ncclAllReduce" | "ncclReduceScatter" => {
            vec![SEND, RECEIVE, o.count, o.datatype, o.reduction, comm, stream]
        }
        "ncclAllGather" | "ncclAlltoAll" => vec![SEND, RECEIVE, o.count, o.datatype, comm, stream],
        "ncclReduce" => vec![SEND, RECEIVE, o.count, o.datatype, o.reduction, peer, comm, stream],
        "ncclBroadcast" | "ncclGather" | "ncclScatter" => {
            vec![SEND, RECEIVE, o.count, o.datatype, peer, comm, stream]
        }
        _ => vec![SEND, o.count, o.datatype, peer, comm, stream],
    }
}
