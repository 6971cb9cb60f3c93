//! Scripts of ranks: what every process of a distributed job does, in lines.
//!
//! The one idea: one text for all ranks, as in a job's own program; a line that only some ranks do says which. `#`
//! begins a comment; `end` ends what `repeat`, `group` or `capture` began.
//!
//! ```text
//! ranks 8                                 # first line: so many processes on this node
//! seed 7                                  # where the ranges' values come from, another for each rank
//! comm world                              # of all ranks, or: comm some of=0,1,5
//! split pairs world color=rank/2          # a part of it: color=rank/N, rank%N, a number, or none
//! repeat 200                              # or a time
//!   sleep 0ms..1ms                          # each rank draws its own: jitter
//!   late 20ms only=3 from=50              # rank 3 is late for the next collective, and the oracle says so
//!   allreduce world 4096 float32 sum
//!   sync
//! end
//! ```
//!
//! | word | arguments and keys | meaning |
//! |---|---|---|
//! | `comm` | name, `of=RANKS` | ncclGetUniqueId by the first of them, ncclCommInitRankConfig by all |
//! | `split` | name, parent, `color=` | ncclCommSplit; the ranks keep their order |
//! | `allreduce` `reducescatter` `allgather` `reduce` `broadcast` `bcast` `alltoall` `gather` `scatter` | communicator, count, datatype, reduction where there is one; `root=`, `stream=` | |
//! | `send` `recv` | communicator, count, datatype, `peer=N`, or `peer=+N` counted from this rank; `stream=` | |
//! | `sync` | stream | cudaStreamSynchronize: returns when the last rank of all of its collectives has come |
//! | `eventsync` | stream | cudaEventRecord and cudaEventSynchronize |
//! | `late` | time | sleeps, and says so of the next collective |
//! | `sleep` `burn` | time | sleeps; uses CPU |
//! | `pace` | communicator, time | sleeps until so long after its last collective was complete: all ranks go on at once |
//! | `group` … `end` | | ncclGroupStart, ncclGroupEnd |
//! | `capture` … `end`, `replay` | stream | what stands inside is captured into a graph; launches the last one captured |
//! | `ask` | communicator | ncclCommCount, ncclCommUserRank |
//! | `destroy` `abort` `finalize` | communicator | |
//! | `stop` | | this rank does nothing more, and stays |
//! | `crash` | | this rank is killed |
//!
//! Every line takes `only=RANKS` and `every=N after=M at=K from=K until=K` as in [`crate::script`].

use crate::script::value::{Sort, Span};
use crate::script::{Times, When};

/// A parsed script.
#[derive(Clone, Debug, Default)]
pub struct RankScript {
    /// Processes.
    pub ranks: usize,
    /// Where the ranges' values come from.
    pub seed: u64,
    /// What each does.
    pub body: Vec<Statement>,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Statement {
    /// On which turns of the innermost `repeat`.
    pub when: When,
    /// Which ranks; `None` all.
    pub only: Option<Vec<usize>>,
    /// What.
    pub what: What,
}

/// An operation, as a line describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operation {
    /// The function.
    pub symbol: &'static str,
    /// The communicator's name.
    pub communicator: String,
    /// Elements.
    pub count: u64,
    /// `ncclDataType_t`.
    pub datatype: u64,
    /// `ncclRedOp_t`.
    pub reduction: u64,
    /// Root or peer.
    pub peer: Peer,
    /// The stream's name.
    pub stream: String,
}

/// A rank that a line names.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Peer {
    /// None.
    #[default]
    None,
    /// This one.
    Rank(usize),
    /// So many further than oneself.
    Further(usize),
}

/// Which part of a split a rank goes to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Color {
    /// None.
    None,
    /// One for all.
    Number(i32),
    /// The rank divided by this.
    Divided(usize),
    /// The rank's remainder by this.
    Remainder(usize),
}

/// What a line does.
#[derive(Clone, Debug)]
pub enum What {
    /// Makes a communicator of these ranks; `None` all.
    Comm(String, Option<Vec<usize>>),
    /// Makes a part of one: name, parent.
    Split(String, String, Color),
    /// Moves data.
    Operation(Operation),
    /// Waits for a stream.
    Sync(String),
    /// Waits for an event recorded on a stream.
    EventSync(String),
    /// Is late.
    Late(Span),
    /// Sleeps.
    Sleep(Span),
    /// Sleeps until so long after the last collective of a communicator was complete.
    Pace(String, Span),
    /// Uses CPU.
    Burn(Span),
    /// A group.
    Group(Vec<Statement>),
    /// Captured on a stream.
    Capture(String, Vec<Statement>),
    /// Launches what was captured last, on a stream.
    Replay(String),
    /// Again and again.
    Repeat(Times, Vec<Statement>),
    /// Asks a communicator for its size and rank.
    Ask(String),
    /// The function of this name on a communicator: destroy, abort, finalize.
    End(&'static str, String),
    /// Does nothing more.
    Stop,
    /// Is killed.
    Crash,
}

/// A line that makes no sense.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct RankError {
    line: usize,
    problem: String,
}

/// Word, function, has a reduction, has a root or peer.
const OPERATIONS: &[(&str, &str, bool, bool)] = &[
    ("allgather", "ncclAllGather", false, false),
    ("allreduce", "ncclAllReduce", true, false),
    ("alltoall", "ncclAlltoAll", false, false),
    ("bcast", "ncclBcast", false, true),
    ("broadcast", "ncclBroadcast", false, true),
    ("gather", "ncclGather", false, true),
    ("recv", "ncclRecv", false, true),
    ("reduce", "ncclReduce", true, true),
    ("reducescatter", "ncclReduceScatter", true, false),
    ("scatter", "ncclScatter", false, true),
    ("send", "ncclSend", false, true),
];

/// In the order of `ncclDataType_t`.
const DATATYPES: [&str; 12] = [
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16",
    "f8e4m3", "f8e5m2",
];
/// In the order of `ncclRedOp_t`.
const REDUCTIONS: [&str; 5] = ["sum", "prod", "max", "min", "avg"];

/// True for the text of a script of ranks.
pub fn is_ranks(text: &str) -> bool {
    text.lines().map(words).find(|w| !w.is_empty()).is_some_and(|w| w[0] == "ranks")
}

fn words(line: &str) -> Vec<&str> {
    line.split('#').next().unwrap_or_default().split_whitespace().collect()
}

type Result<T> = std::result::Result<T, String>;

/// Reads a script.
pub fn parse(text: &str) -> std::result::Result<RankScript, RankError> {
    let lines: Vec<(usize, Vec<&str>)> =
        text.lines().enumerate().map(|(at, l)| (at + 1, words(l))).filter(|(_, w)| !w.is_empty()).collect();
    let mut reader = Reader { lines: &lines, at: 0, script: RankScript::default() };
    let body = reader.block(false).map_err(|problem| {
        let line = lines.get(reader.at.saturating_sub(1)).map_or(0, |(number, _)| *number);
        RankError { line, problem }
    })?;
    Ok(RankScript { body, ..reader.script })
}

struct Reader<'a> {
    lines: &'a [(usize, Vec<&'a str>)],
    at: usize,
    script: RankScript,
}

/// A line's arguments and keys, taken one by one.
struct Line<'a> {
    words: Vec<&'a str>,
    keys: Vec<(&'a str, &'a str)>,
}

impl<'a> Line<'a> {
    fn of(words: &[&'a str]) -> Line<'a> {
        let keys = words.iter().filter_map(|w| w.split_once('=')).collect();
        let mut words: Vec<&str> = words[1..].iter().copied().filter(|w| !w.contains('=')).collect();
        words.reverse();
        Line { words, keys }
    }

    fn word(&mut self, what: &str) -> Result<&'a str> {
        self.words.pop().ok_or_else(|| format!("{what} is missing"))
    }

    fn name(&mut self, what: &str) -> Result<String> {
        self.word(what).map(str::to_owned)
    }

    fn stream(&mut self) -> String {
        self.words.pop().or_else(|| self.key("stream")).unwrap_or("main").to_owned()
    }

    fn key(&mut self, name: &str) -> Option<&'a str> {
        let at = self.keys.iter().position(|(key, _)| *key == name)?;
        Some(self.keys.remove(at).1)
    }

    fn number(&mut self, name: &str) -> Result<u64> {
        self.key(name).map_or(Ok(0), |text| Sort::Count.value(text))
    }

    fn ranks(&mut self, name: &str) -> Result<Option<Vec<usize>>> {
        let one = |text: &str| Sort::Count.value(text).map(|n| n as usize);
        self.key(name).map(|text| text.split(',').map(one).collect()).transpose()
    }

    fn place(&mut self, what: &str, names: &[&str]) -> Result<u64> {
        let word = self.word(what)?;
        let at = names.iter().position(|name| *name == word);
        at.map(|at| at as u64)
            .ok_or_else(|| format!("'{word}' is no {what}; expected one of {}", names.join(", ")))
    }

    fn finish(self) -> Result<()> {
        let rest = self.words.into_iter().chain(self.keys.into_iter().map(|(key, _)| key)).next();
        rest.map_or(Ok(()), |word| Err(format!("'{word}' means nothing here")))
    }

    fn when(&mut self) -> Result<When> {
        let at = self.key("at").map(|text| Sort::Count.value(text)).transpose()?;
        let when = When {
            every: self.number("every")?,
            after: self.number("after")?,
            unless: self.number("unless")?,
            from: self.number("from")?,
            until: self.number("until")?,
        };
        Ok(at.map_or(when, |at| When { from: at, until: at + 1, ..when }))
    }
}

impl Reader<'_> {
    fn block(&mut self, is_inner: bool) -> Result<Vec<Statement>> {
        let mut body = Vec::new();
        while let Some((_, words)) = self.lines.get(self.at) {
            self.at += 1;
            let mut line = Line::of(words);
            match words[0] {
                "end" if is_inner => return Ok(body),
                "ranks" if self.at == 1 => {
                    self.script.ranks = Sort::Count.value(line.word("a number")?)? as usize
                }
                "seed" => self.script.seed = Sort::Count.value(line.word("a number")?)?,
                word => {
                    let (when, only) = (line.when()?, line.ranks("only")?);
                    let what = self.what(word, &mut line)?;
                    line.finish()?;
                    body.push(Statement { when, only, what });
                }
            }
        }
        if is_inner { Err("'end' is missing".into()) } else { Ok(body) }
    }

    fn what(&mut self, word: &str, line: &mut Line<'_>) -> Result<What> {
        Ok(match word {
            "comm" => What::Comm(line.name("a name")?, line.ranks("of")?),
            "split" => What::Split(line.name("a name")?, line.name("a communicator")?, color(line)?),
            "sync" => What::Sync(line.stream()),
            "eventsync" => What::EventSync(line.stream()),
            "late" => What::Late(Sort::Time.span(line.word("a time")?)?),
            "sleep" => What::Sleep(Sort::Time.span(line.word("a time")?)?),
            "pace" => What::Pace(line.name("a communicator")?, Sort::Time.span(line.word("a time")?)?),
            "burn" => What::Burn(Sort::Time.span(line.word("a time")?)?),
            "group" => What::Group(self.block(true)?),
            "capture" => What::Capture(line.stream(), self.block(true)?),
            "replay" => What::Replay(line.stream()),
            "repeat" => {
                let times = line.word("a number or a time")?;
                let times = Sort::Count
                    .value(times)
                    .map(Times::Count)
                    .or_else(|_| Sort::Time.value(times).map(Times::For));
                What::Repeat(times?, self.block(true)?)
            }
            "ask" => What::Ask(line.name("a communicator")?),
            "destroy" => What::End("ncclCommDestroy", line.name("a communicator")?),
            "abort" => What::End("ncclCommAbort", line.name("a communicator")?),
            "finalize" => What::End("ncclCommFinalize", line.name("a communicator")?),
            "stop" => What::Stop,
            "crash" => What::Crash,
            _ => What::Operation(operation(word, line)?),
        })
    }
}

fn color(line: &mut Line<'_>) -> Result<Color> {
    let text = line.key("color").ok_or("color= is missing")?;
    let number = |text: &str| Sort::Count.value(text).map(|n| n.max(1) as usize);
    Ok(match (text, text.strip_prefix("rank/"), text.strip_prefix("rank%")) {
        ("none", ..) => Color::None,
        (_, Some(by), _) => Color::Divided(number(by)?),
        (_, _, Some(by)) => Color::Remainder(number(by)?),
        _ => Color::Number(Sort::Count.value(text)? as i32),
    })
}

fn operation(word: &str, line: &mut Line<'_>) -> Result<Operation> {
    let known = OPERATIONS
        .binary_search_by_key(&word, |(name, ..)| name)
        .map_err(|_| format!("unknown word '{word}'"))?;
    let (_, symbol, reduces, has_peer) = OPERATIONS[known];
    let communicator = line.name("a communicator")?;
    let count = Sort::Count.value(line.word("a count")?)?;
    let datatype = line.place("datatype", &DATATYPES)?;
    let reduction = if reduces { line.place("reduction", &REDUCTIONS)? } else { 0 };
    let peer = match line.key("root").or_else(|| line.key("peer")) {
        Some(text) => match text.strip_prefix('+') {
            Some(further) => Peer::Further(Sort::Count.value(further)? as usize),
            None => Peer::Rank(Sort::Count.value(text)? as usize),
        },
        None if has_peer => Peer::Rank(0),
        None => Peer::None,
    };
    let stream = line.stream();
    Ok(Operation { symbol, communicator, count, datatype, reduction, peer, stream })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_of_ranks_is_told_by_its_first_word_and_read() {
        let text = "# a job\nranks 4\nseed 9\ncomm world\nsplit pairs world color=rank/2\nrepeat 3\n\
                    late 5ms only=1,2 from=1\nsend pairs 16 float16 peer=+1 stream=side\nsync side\nend\n";
        assert!(is_ranks(text) && !is_ranks("stream main\n"));
        let script = parse(text).unwrap();
        assert_eq!((script.ranks, script.seed, script.body.len()), (4, 9, 3));
        let What::Repeat(Times::Count(3), body) = &script.body[2].what else { panic!("{script:?}") };
        assert_eq!((body[0].only.as_deref(), body[0].when.from), (Some(&[1, 2][..]), 1));
        let What::Operation(send) = &body[1].what else { panic!("{body:?}") };
        let expected = Operation {
            symbol: "ncclSend",
            communicator: "pairs".into(),
            count: 16,
            datatype: 6,
            reduction: 0,
            peer: Peer::Further(1),
            stream: "side".into(),
        };
        assert_eq!(*send, expected);
    }

    #[test]
    fn a_wrong_line_is_named_with_what_is_wrong() {
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
    fn operations_are_sorted() {
        assert!(OPERATIONS.is_sorted_by(|a, b| a.0 < b.0));
    }
}
