//! One rank: makes the calls, and writes down which collective each was, and how late the script made it.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use table::PROBES;
use table::record::ARGUMENTS;

use super::super::lines::call_line;
use super::super::nccl_sentinels::hex;
use super::super::protocol;
use super::super::{PlayError, options::Options};
use crate::functions::{Functions, by_symbol};
use crate::invoke::{Outcome, Request};
use crate::model::order::Order;
use crate::model::{clock, thread};
use crate::nccl::abi::{NO_COLOR, UniqueId};
use crate::nccl_calls::{Made, Nccl};
use crate::oracle::{Line, Log, NcclLine, WaitLine};
use crate::ranks::{Color, Operation, Peer, RankScript, Statement, What};
use crate::script::Times;
use crate::script::value::{Random, Span};
use crate::sentinel;

/// How often a rank looks for an id that another is to write.
const LOOK_NS: u64 = 200_000;

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

    /// The id of a communicator: its first rank makes it, the others read it.
    fn id(&mut self, name: &str, is_first: bool) -> UniqueId {
        let generation = self.generations.entry(name.to_owned()).or_default();
        *generation += 1;
        let path = self.meeting.join(format!("{name}.{generation}.id"));
        if is_first {
            let mut id = UniqueId([0; 128]);
            let mut line = self.words("ncclGetUniqueId", &[&raw mut id as u64]);
            line.exit = hex(&id.0);
            self.lines.push(Line::Nccl(line));
            let draft = path.with_extension("draft");
            let _ = std::fs::write(&draft, id.0).and_then(|()| std::fs::rename(&draft, &path));
        }
        loop {
            match std::fs::read(&path).ok().and_then(|bytes| bytes.try_into().ok()) {
                Some(bytes) => return UniqueId(bytes),
                None => clock::sleep_until(clock::now_ns() + LOOK_NS),
            }
        }
    }

    #[allow(unsafe_code, reason = "calls a C library")]
    fn make(&mut self, name: &str, of: Option<&[usize]>) {
        let of: Vec<usize> = of.map_or_else(|| (0..self.script.ranks).collect(), <[usize]>::to_vec);
        let Some(rank) = of.iter().position(|rank| *rank == self.rank) else { return };
        let id = self.id(name, rank == 0);
        // For ever: a group writes it when it ends.
        let place: &'static AtomicU64 = Box::leak(Box::default());
        let (symbol, out) = ("ncclCommInitRankConfig", place.as_ptr() as u64);
        // SAFETY: the place is there for ever, and the stub looks at no configuration.
        let made = unsafe { self.nccl.init(symbol, out, of.len() as i32, &id, rank as i32, 0) };
        let handle = place.load(Relaxed);
        self.join(name, name.into(), handle, rank, of.len());
        if handle == 0 {
            self.unwritten.push((name.into(), place));
        }
        let line = self.line(symbol, vec![out, of.len() as u64, 0, rank as u64, 0], made);
        let line = NcclLine { entry: hex(&id.0), exit: hex(&handle.to_le_bytes()), ..line };
        let line = self.of_member(line, name);
        self.lines.push(Line::Nccl(line));
    }

    fn join(&mut self, name: &str, label: String, handle: u64, rank: usize, nranks: usize) {
        let member = Member { label, handle, rank, nranks, next_seq: 0 };
        self.members.insert(name.into(), member);
    }

    fn split(&mut self, name: &str, parent: &str, color: Color) {
        let Some(member) = self.members.get(parent) else { return };
        let of = |rank: usize| match color {
            Color::None => NO_COLOR,
            Color::Number(color) => color,
            Color::Divided(by) => (rank / by) as i32,
            Color::Remainder(by) => (rank % by) as i32,
        };
        let (own, handle) = (of(member.rank), member.handle);
        let mine: Vec<usize> = (0..member.nranks).filter(|rank| of(*rank) == own).collect();
        let rank = mine.iter().position(|rank| *rank == member.rank).unwrap_or(0);
        let (key, mut child) = (member.rank as u64, 0u64);
        let words = [handle, u64::from(own as u32), key, &raw mut child as u64, 0];
        let line = self.words("ncclCommSplit", &words);
        if child != 0 {
            self.join(name, format!("{name}.{own}"), child, rank, mine.len());
        }
        let line = self.of_member(NcclLine { exit: hex(&child.to_le_bytes()), ..line }, name);
        self.lines.push(Line::Nccl(line));
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

    fn ask(&mut self, name: &str) {
        let Some(handle) = self.members.get(name).map(|m| m.handle) else { return };
        for symbol in ["ncclCommCount", "ncclCommUserRank"] {
            let mut value = 0i32;
            let line = self.words(symbol, &[handle, &raw mut value as u64]);
            let line = self.of_member(NcclLine { exit: hex(&value.to_le_bytes()), ..line }, name);
            self.lines.push(Line::Nccl(line));
        }
    }

    fn end(&mut self, symbol: &'static str, name: &str) {
        let Some(handle) = self.members.get(name).map(|m| m.handle) else { return };
        let line = self.words(symbol, &[handle]);
        let line = self.of_member(line, name);
        self.lines.push(Line::Nccl(line));
        if symbol != "ncclCommFinalize" {
            self.members.remove(name);
        }
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

    /// The handles that the end of a group wrote: address and handle of each, as hexadecimal digits.
    fn take_written(&mut self) -> String {
        let mut written = String::new();
        for (name, place) in std::mem::take(&mut self.unwritten) {
            let handle = place.load(Relaxed);
            written += &hex(&[place.as_ptr() as u64, handle].map(u64::to_le_bytes).concat());
            if let Some(member) = self.members.get_mut(&name) {
                member.handle = handle;
            }
        }
        written
    }

    /// A call of the runtime.
    fn runtime(&mut self, symbol: &str, stream: u64, handle: u64, order: &Order) -> Outcome {
        let Some((index, function)) = by_symbol(symbol) else { return Outcome::default() };
        self.request(&Request { stream, handle, ..Request::new(index, function) }, order)
    }

    fn request(&mut self, request: &Request, order: &Order) -> Outcome {
        self.calls += 1;
        let made = self.functions.call(request, order);
        let meaning = sentinel::meaning(request, &made);
        self.lines.push(Line::Call(call_line(thread::tid(), request, &made, &meaning)));
        made
    }

    fn stream(&mut self, name: &str) -> u64 {
        if let Some(known) = self.streams.get(name) {
            return known.handle;
        }
        let handle = self.runtime("cudaStreamCreate", 0, 0, &Order::NONE).written;
        self.streams.insert(name.into(), Stream { handle, ..Stream::default() });
        handle
    }

    fn sync(&mut self, name: &str) {
        let stream = self.stream(name);
        self.wait("cudaStreamSynchronize", "warptap_stub_wait_stream", name, stream, 0);
    }

    fn event_sync(&mut self, name: &str) {
        let stream = self.stream(name);
        let known = self.streams.get(name).map_or(0, |s| s.event);
        let event =
            if known == 0 { self.runtime("cudaEventCreate", 0, 0, &Order::NONE).written } else { known };
        self.nccl.record(event, stream);
        self.runtime("cudaEventRecord", stream, event, &Order::NONE);
        if let Some(stream) = self.streams.get_mut(name) {
            stream.event = event;
        }
        self.wait("cudaEventSynchronize", "warptap_stub_wait_event", name, stream, event);
    }

    /// A wait of the runtime, inside which the stub waits for the other ranks.
    fn wait(&mut self, symbol: &'static str, inside: &str, name: &str, stream: u64, event: u64) {
        // What follows may never return. Who is paced has others beside him that want the CPU now.
        if !self.is_paced {
            self.flush();
        }
        let row = PROBES.iter().find(|p| p.symbol == symbol).map_or(0, |p| p.id);
        let order = Order {
            inner: self.nccl.address(inside) as u64,
            inner_row: row.into(),
            inner_depth: 1,
            gpu_ns: 0,
            ..Order::NONE
        };
        let made = self.runtime(symbol, stream, event, &order);
        let covers = self.streams.get_mut(name).map(|s| std::mem::take(&mut s.pending)).unwrap_or_default();
        self.lines.push(Line::Wait(WaitLine {
            symbol: symbol.into(),
            pid: std::process::id(),
            tid: thread::tid(),
            stream,
            enter_ns: made.entry_ns,
            exit_ns: made.exit_ns,
            covers,
        }));
    }

    fn capture(&mut self, name: &str, body: &[Statement], turn: u64) -> Flow {
        let stream = self.stream(name);
        self.runtime("cudaStreamBeginCapture", stream, 0, &Order::NONE);
        self.nccl.set_capturing(stream, true);
        self.is_capturing = true;
        let flow = self.all(body, turn);
        self.is_capturing = false;
        self.nccl.set_capturing(stream, false);
        let graph = self.runtime("cudaStreamEndCapture", stream, 0, &Order::NONE).written;
        let Some((index, function)) = by_symbol("cudaGraphInstantiate") else { return flow };
        let made = self.request(&Request { graph, ..Request::new(index, function) }, &Order::NONE);
        if let Some(stream) = self.streams.get_mut(name) {
            stream.graph = made.written;
        }
        flow
    }

    fn replay(&mut self, name: &str) {
        let stream = self.stream(name);
        let graph = self.streams.get(name).map_or(0, |s| s.graph);
        self.runtime("cudaGraphLaunch", stream, graph, &Order::NONE);
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
