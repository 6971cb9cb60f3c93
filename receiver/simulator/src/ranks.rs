//! The script language of ranks: the calls that each process of a distributed job makes.
//!
//! One script describes all ranks, as a job's own program does; `only=` restricts a line to some ranks. `#` begins a
//! comment; `end` ends a `repeat`, `group` or `capture`.
//!
//! ```text
//! ranks 8                                 # first line: number of processes on this node
//! seed 7                                  # of the values drawn from ranges; each rank draws its own
//! comm world                              # of all ranks, or: comm some of=0,1,5
//! split pairs world color=rank/2          # color=rank/N, rank%N, a number, or none
//! repeat 200                              # or a time
//!   sleep 0ms..1ms                        # jitter
//!   late 20ms only=3 from=50              # delays rank 3's next collective; recorded in the oracle log
//!   allreduce world 4096 float32 sum
//!   sync
//! end
//! ```
//!
//! | word | arguments and keys | meaning |
//! |---|---|---|
//! | `comm` | name, `of=RANKS` | ncclGetUniqueId by the first rank, ncclCommInitRankConfig by all |
//! | `split` | name, parent, `color=` | ncclCommSplit; the ranks keep their order |
//! | `allreduce` `reducescatter` `allgather` `reduce` `broadcast` `bcast` `alltoall` `gather` `scatter` | communicator, count, datatype, reduction if it reduces; `root=`, `stream=` | the collective |
//! | `send` `recv` | communicator, count, datatype, `peer=N`, or `peer=+N` counted from this rank; `stream=` | a message |
//! | `sync` | stream | cudaStreamSynchronize: returns when the last rank of each of the stream's collectives has arrived |
//! | `eventsync` | stream | cudaEventRecord and cudaEventSynchronize |
//! | `late` | time | sleeps; recorded as lateness of the next collective |
//! | `sleep` `burn` | time | sleeps; uses CPU |
//! | `pace` | communicator, time | sleeps until a time after its last collective was complete, the same for all ranks |
//! | `group` … `end` | | ncclGroupStart, ncclGroupEnd |
//! | `capture` … `end`, `replay` | stream | captures the lines into a graph; launches the last graph captured |
//! | `query` | communicator | ncclCommCount, ncclCommUserRank |
//! | `destroy` `abort` `finalize` | communicator | ncclCommDestroy, ncclCommAbort, ncclCommFinalize |
//! | `stop` | | the rank makes no further calls, but does not exit |
//! | `crash` | | the rank kills itself |
//!
//! All ranks end a `repeat` of a time after the same turn, and so does the player's time limit: at the end of a turn of
//! an outermost `repeat`, or of one of a time.
//!
//! Every line takes `only=RANKS` and `every=N after=M at=K from=K until=K` as in [`crate::script`].

use crate::script::turns::{Times, When};
use crate::text::{self, ParseError, Result, ScriptLine, Unit, ValueRange, Word};

/// A parsed script of ranks.
#[derive(Clone, Debug, Default)]
pub struct RankScript {
    /// Number of processes.
    pub ranks: usize,
    /// Seed of the values drawn from ranges.
    pub seed: u64,
    /// Statements of every rank.
    pub body: Vec<RankStatement>,
}

/// A line of a script of ranks.
#[derive(Clone, Debug)]
pub struct RankStatement {
    /// Turns of the innermost `repeat` on which it runs.
    pub when: When,
    /// Ranks that run it; `None` for all.
    pub only: Option<Vec<usize>>,
    /// Action of the line.
    pub action: RankAction,
}

/// A collective or a message, as a line describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct RankOperation {
    /// Function and its arguments.
    pub function: &'static OperationRow,
    /// Name of the communicator.
    pub communicator: String,
    /// Number of elements.
    pub count: u64,
    /// Datatype, an `ncclDataType_t`.
    pub datatype: u64,
    /// Reduction, an `ncclRedOp_t`.
    pub reduction: u64,
    /// Root or peer.
    pub peer: RankPeer,
    /// Name of the stream.
    pub stream: String,
}

/// The rank that a line names.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RankPeer {
    /// No rank.
    #[default]
    None,
    /// A rank by its number.
    Rank(usize),
    /// A rank counted from the one that runs the line.
    Further(usize),
}

/// The color of each rank in a split.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Color {
    /// `NCCL_SPLIT_NOCOLOR`.
    None,
    /// One color for all ranks.
    Number(i32),
    /// The rank divided by a number.
    Divided(usize),
    /// The remainder of the rank by a number.
    Remainder(usize),
}

/// The action of a line.
#[derive(Clone, Debug)]
pub enum RankAction {
    /// Creates a communicator of some ranks; `None` for all.
    Comm(String, Option<Vec<usize>>),
    /// Splits a communicator: name, parent, color.
    Split(String, String, Color),
    /// Enqueues a collective or a message.
    Operation(RankOperation),
    /// Waits for a stream.
    Sync(String),
    /// Waits for an event recorded on a stream.
    EventSync(String),
    /// Delays the next collective.
    Late(ValueRange),
    /// Sleeps.
    Sleep(ValueRange),
    /// Sleeps until a time after the last collective of a communicator was complete.
    Pace(String, ValueRange),
    /// Uses CPU.
    Burn(ValueRange),
    /// Runs statements as a group.
    Group(Vec<RankStatement>),
    /// Captures statements on a stream.
    Capture(String, Vec<RankStatement>),
    /// Launches the last graph captured on a stream.
    Replay(String),
    /// Repeats statements.
    Repeat(RankLoop),
    /// Queries a communicator for its size and rank.
    Query(String),
    /// Calls a function that ends a communicator.
    End(&'static str, String),
    /// Makes no further calls.
    Stop,
    /// Kills the rank.
    Crash,
}

/// A `repeat`.
#[derive(Clone, Debug)]
pub struct RankLoop {
    /// Number of the loop in the script, from 0.
    pub number: usize,
    /// How often it runs.
    pub times: Times,
    /// What it repeats.
    pub body: Vec<RankStatement>,
}

/// The function of a word that enqueues a collective or a message.
#[derive(Debug, PartialEq)]
pub struct OperationRow {
    word: &'static str,
    /// Exported symbol.
    pub symbol: &'static str,
    /// Number of buffers that it takes.
    pub buffers: usize,
    /// Whether it takes a reduction.
    pub reduces: bool,
    /// Whether it takes a root or peer.
    pub has_peer: bool,
}

const fn row(
    word: &'static str,
    symbol: &'static str,
    buffers: usize,
    reduces: bool,
    has_peer: bool,
) -> OperationRow {
    OperationRow { word, symbol, buffers, reduces, has_peer }
}

/// Word, function, buffers, takes a reduction, takes a root or peer.
static OPERATIONS: &[OperationRow] = &[
    row("allgather", "ncclAllGather", 2, false, false),
    row("allreduce", "ncclAllReduce", 2, true, false),
    row("alltoall", "ncclAlltoAll", 2, false, false),
    row("bcast", "ncclBcast", 1, false, true),
    row("broadcast", "ncclBroadcast", 2, false, true),
    row("gather", "ncclGather", 2, false, true),
    row("recv", "ncclRecv", 1, false, true),
    row("reduce", "ncclReduce", 2, true, true),
    row("reducescatter", "ncclReduceScatter", 2, true, false),
    row("scatter", "ncclScatter", 2, false, true),
    row("send", "ncclSend", 1, false, true),
];

/// Datatypes in the order of `ncclDataType_t`.
const DATATYPES: [&str; 12] = [
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16",
    "f8e4m3", "f8e5m2",
];
/// Reductions in the order of `ncclRedOp_t`.
const REDUCTIONS: [&str; 5] = ["sum", "prod", "max", "min", "avg"];

type Build = fn(&mut Reader<'_>, &ScriptLine<'_>) -> Result<RankAction>;

const fn word(name: &'static str, least: usize, most: usize, build: Build) -> Word<Build> {
    Word { name, arguments: (least, most), keys: &[], build }
}

/// The words other than those of [`OPERATIONS`], sorted by name.
static WORDS: &[Word<Build>] = &[
    word("abort", 1, 1, |_, l| Ok(RankAction::End("ncclCommAbort", name(l)))),
    word("burn", 1, 1, |_, l| Ok(RankAction::Burn(time(l, 0)?))),
    word("capture", 0, 1, |r, l| Ok(RankAction::Capture(stream(l, 0), r.block(true)?))),
    Word {
        name: "comm",
        arguments: (1, 1),
        keys: &[&["of"]],
        build: |_, l| Ok(RankAction::Comm(name(l), ranks(l, "of")?)),
    },
    word("crash", 0, 0, |_, _| Ok(RankAction::Crash)),
    word("destroy", 1, 1, |_, l| Ok(RankAction::End("ncclCommDestroy", name(l)))),
    word("eventsync", 0, 1, |_, l| Ok(RankAction::EventSync(stream(l, 0)))),
    word("finalize", 1, 1, |_, l| Ok(RankAction::End("ncclCommFinalize", name(l)))),
    word("group", 0, 0, |r, _| Ok(RankAction::Group(r.block(true)?))),
    word("late", 1, 1, |_, l| Ok(RankAction::Late(time(l, 0)?))),
    word("pace", 2, 2, |_, l| Ok(RankAction::Pace(name(l), time(l, 1)?))),
    word("query", 1, 1, |_, l| Ok(RankAction::Query(name(l)))),
    word("repeat", 1, 1, |r, l| Ok(RankAction::Repeat(r.repeat(l)?))),
    word("replay", 0, 1, |_, l| Ok(RankAction::Replay(stream(l, 0)))),
    word("sleep", 1, 1, |_, l| Ok(RankAction::Sleep(time(l, 0)?))),
    Word { name: "split", arguments: (2, 2), keys: &[&["color"]], build: split },
    word("stop", 0, 0, |_, _| Ok(RankAction::Stop)),
    word("sync", 0, 1, |_, l| Ok(RankAction::Sync(stream(l, 0)))),
];

/// Returns true for the text of a script of ranks.
pub fn is_ranks(text: &str) -> bool {
    text::lines(text).next().is_some_and(|(_, line)| line.split_whitespace().next() == Some("ranks"))
}

/// Parses a script of ranks.
pub fn parse(text: &str) -> std::result::Result<RankScript, ParseError> {
    let lines = text::split(text)?;
    let mut reader = Reader { lines: &lines, at: 0, loops: 0, script: RankScript::default() };
    let body = reader.block(false).map_err(|problem| {
        let line = lines.get(reader.at.saturating_sub(1)).map_or(0, |l| l.number);
        ParseError { line, problem }
    })?;
    Ok(RankScript { body, ..reader.script })
}

struct Reader<'a> {
    lines: &'a [ScriptLine<'a>],
    at: usize,
    /// Number of loops so far.
    loops: usize,
    script: RankScript,
}

impl Reader<'_> {
    fn block(&mut self, is_inner: bool) -> Result<Vec<RankStatement>> {
        let mut body = Vec::new();
        while let Some(line) = self.lines.get(self.at) {
            self.at += 1;
            match line.word {
                "end" if is_inner => return Ok(body),
                "ranks" if self.at == 1 => {
                    self.script.ranks = Unit::Count.value(line.only_argument()?)? as usize;
                }
                "seed" => self.script.seed = Unit::Count.value(line.only_argument()?)?,
                _ => body.push(self.statement(line)?),
            }
        }
        if is_inner { Err("a block is open: 'end' is missing".into()) } else { Ok(body) }
    }

    fn repeat(&mut self, line: &ScriptLine<'_>) -> Result<RankLoop> {
        let number = self.loops;
        self.loops += 1;
        Ok(RankLoop { number, times: Times::parse(line.arguments[0])?, body: self.block(true)? })
    }

    fn statement(&mut self, line: &ScriptLine<'_>) -> Result<RankStatement> {
        let (when, only) = (When::of(line)?, ranks(line, "only")?);
        let action = match OPERATIONS.iter().find(|row| row.word == line.word) {
            Some(row) => RankAction::Operation(operation(row, line)?),
            None => {
                let operations: Vec<_> = OPERATIONS.iter().map(|row| row.word).collect();
                let Word { arguments, keys, build, .. } = text::find(WORDS, line.word, &operations)?;
                line.check(*arguments, &[&keys.concat(), When::KEYS, &["only"]])?;
                build(self, line)?
            }
        };
        Ok(RankStatement { when, only, action })
    }
}

fn name(line: &ScriptLine<'_>) -> String {
    line.arguments[0].to_owned()
}

fn time(line: &ScriptLine<'_>, at: usize) -> Result<ValueRange> {
    Unit::Time.span(line.arguments[at])
}

/// Returns the stream that an argument or the key `stream` names; `main` without either.
fn stream(line: &ScriptLine<'_>, at: usize) -> String {
    line.arguments.get(at).copied().or_else(|| line.key("stream")).unwrap_or("main").to_owned()
}

fn ranks(line: &ScriptLine<'_>, key: &str) -> Result<Option<Vec<usize>>> {
    let one = |text: &str| Unit::Count.value(text).map(|n| n as usize);
    line.key(key).map(|text| text.split(',').map(one).collect()).transpose()
}

fn split(_: &mut Reader<'_>, line: &ScriptLine<'_>) -> Result<RankAction> {
    let text = line.key("color").ok_or("key 'color' is missing")?;
    let number = |text: &str| Unit::Count.value(text).map(|n| n.max(1) as usize);
    let color = match (text, text.strip_prefix("rank/"), text.strip_prefix("rank%")) {
        ("none", ..) => Color::None,
        (_, Some(by), _) => Color::Divided(number(by)?),
        (_, _, Some(by)) => Color::Remainder(number(by)?),
        _ => Color::Number(Unit::Count.value(text)? as i32),
    };
    Ok(RankAction::Split(name(line), line.arguments[1].to_owned(), color))
}

fn operation(function: &'static OperationRow, line: &ScriptLine<'_>) -> Result<RankOperation> {
    let count = 3 + usize::from(function.reduces);
    line.check((count, count + 1), &[&["only", "peer", "root", "stream"], When::KEYS])?;
    let peer = match line.key("root").or_else(|| line.key("peer")) {
        Some(text) => match text.strip_prefix('+') {
            Some(further) => RankPeer::Further(Unit::Count.value(further)? as usize),
            None => RankPeer::Rank(Unit::Count.value(text)? as usize),
        },
        None if function.has_peer => RankPeer::Rank(0),
        None => RankPeer::None,
    };
    Ok(RankOperation {
        function,
        communicator: name(line),
        count: Unit::Count.value(line.arguments[1])?,
        datatype: index("datatype", line.arguments[2], &DATATYPES)?,
        reduction: if function.reduces { index("reduction", line.arguments[3], &REDUCTIONS)? } else { 0 },
        peer,
        stream: stream(line, count),
    })
}

fn index(sort: &str, name: &str, names: &[&str]) -> Result<u64> {
    let at = names.iter().position(|known| *known == name);
    at.map(|at| at as u64)
        .ok_or_else(|| format!("unknown {sort} '{name}'; expected one of {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_of_ranks_begins_with_ranks_and_parses() {
        let text = "# a job\nranks 4\nseed 9\ncomm world\nsplit pairs world color=rank/2\nrepeat 3\n\
                    late 5ms only=1,2 from=1\nsend pairs 16 float16 peer=+1 stream=side\nsync side\nend\n";
        assert!(is_ranks(text) && !is_ranks("stream main\n"));
        let script = parse(text).unwrap();
        assert_eq!((script.ranks, script.seed, script.body.len()), (4, 9, 3));
        let RankAction::Repeat(RankLoop { number: 0, times: Times::Count(3), body }) = &script.body[2].action
        else {
            panic!("{script:?}")
        };
        assert_eq!((body[0].only.as_deref(), body[0].when.from), (Some(&[1, 2][..]), 1));
        let RankAction::Operation(send) = &body[1].action else { panic!("{body:?}") };
        let expected = RankOperation {
            function: OPERATIONS.iter().find(|row| row.symbol == "ncclSend").unwrap(),
            communicator: "pairs".into(),
            count: 16,
            datatype: 6,
            reduction: 0,
            peer: RankPeer::Further(1),
            stream: "side".into(),
        };
        assert_eq!(*send, expected);
    }

    #[test]
    fn errors_name_the_line_and_the_problem() {
        for (text, line, part) in [
            ("ranks 2\nallreduce world 3 float99 sum", 2, "'float99'"),
            ("ranks 2\njump", 2, "'jump'"),
            ("ranks 2\nrepeat 3\nsync", 3, "'end' is missing"),
            ("ranks 2\n\nsync main color=3", 3, "'color'"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.line == line && error.problem.contains(part), "{error}");
        }
    }

    #[test]
    fn words_and_operations_are_sorted() {
        assert!(OPERATIONS.is_sorted_by(|a, b| a.word < b.word));
        assert!(WORDS.is_sorted_by(|a, b| a.name < b.name));
    }
}
