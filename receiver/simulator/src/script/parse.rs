//! Reads a script. The first thing that is wrong ends it, with its line and what was expected there.
//!
//! The one idea: a word is a row of [`WORDS`] that says how many arguments and which keys it takes, so that every
//! mistake is found in one place; what is left for a word's own function is to build its action.

use super::line::{Line, lines};
use super::value::{Sort, Span};
use super::words::{self, Word};
use crate::scripts;

use super::{Action, Api, Script, Statement, Thread, Times, When};

/// A script that cannot be read.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// What is wrong with a line.
pub(super) type Result<T> = std::result::Result<T, String>;

/// Blocks within blocks.
const DEPTH_MAX: usize = 16;

/// Reads a script.
pub fn parse(text: &str) -> std::result::Result<Script, ParseError> {
    let lines = expanded(text).map_err(|(line, problem)| ParseError { line, problem })?;
    let threads = lines.iter().filter(|l| l.word == "thread").filter_map(|l| l.arguments.first());
    let mut reader = Reader {
        script: Script { streams: vec!["default".into()], ..Script::default() },
        thread_names: threads.map(ToString::to_string).collect(),
        pieces: Vec::new(),
        lines: &lines,
        at: 0,
    };
    match reader.script() {
        Ok(()) => Ok(reader.script),
        Err(problem) => {
            let line = reader.lines.get(reader.at.saturating_sub(1)).map_or(0, |l| l.number);
            Err(ParseError { line, problem })
        }
    }
}

/// The lines of a script, those of an included piece in the place of the line that includes it.
fn expanded(text: &str) -> std::result::Result<Vec<Line<'_>>, (usize, String)> {
    let mut all = Vec::new();
    for line in lines(text)? {
        if line.word != "include" {
            all.push(line);
            continue;
        }
        let wrong = |problem: String| (line.number, problem);
        let name = line.only_argument().map_err(wrong)?;
        let piece = scripts::piece(name).ok_or_else(|| wrong(format!("there is no piece '{name}'")))?;
        let of_piece =
            lines(piece).map_err(|(at, problem)| wrong(format!("piece '{name}', line {at}: {problem}")))?;
        all.extend(of_piece.into_iter().map(|l| Line { number: line.number, ..l }));
    }
    Ok(all)
}

/// A script being read.
pub(super) struct Reader<'a> {
    pub(super) script: Script,
    thread_names: Vec<String>,
    /// What `define` gave names to.
    pieces: Vec<(String, Vec<Statement>)>,
    lines: &'a [Line<'a>],
    at: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<&'a Line<'a>> {
        let line = self.lines.get(self.at)?;
        self.at += 1;
        Some(line)
    }

    fn script(&mut self) -> Result<()> {
        while let Some(line) = self.next() {
            match line.word {
                "api" => self.api(line)?,
                "define" => self.define(line)?,
                "seed" => self.script.seed = Sort::Count.value(line.only_argument()?)?,
                "thread" => self.thread(line)?,
                _ => {
                    let statement = self.statement(line, 0)?;
                    self.script.setup.push(statement);
                }
            }
        }
        match self.script.threads.is_empty() && self.script.setup.is_empty() {
            true => Err("the script does nothing: it has no thread and no call".into()),
            false => Ok(()),
        }
    }

    fn api(&mut self, line: &Line<'_>) -> Result<()> {
        if self.at != 1 {
            return Err("api must stand in the first line".into());
        }
        self.script.api = match line.only_argument()? {
            "cuda" => Api::Cuda,
            "driver" => Api::Driver,
            "hip" => Api::Hip,
            other => return Err(format!("'{other}' is no api; expected cuda, driver or hip")),
        };
        Ok(())
    }

    fn define(&mut self, line: &Line<'_>) -> Result<()> {
        let name = line.only_argument()?.to_string();
        let body = self.block(1)?;
        self.pieces.push((name, body));
        Ok(())
    }

    fn thread(&mut self, line: &Line<'_>) -> Result<()> {
        line.check((1, 2), &[&["copies", "process"]])?;
        let is_later = match line.arguments.get(1) {
            None => false,
            Some(&"later") => true,
            Some(other) => return Err(format!("'{other}' says nothing about a thread; expected later")),
        };
        let name = line.arguments[0].to_string();
        if self.script.threads.iter().any(|t| t.name == name) {
            return Err(format!("there is a thread '{name}' already"));
        }
        let copies = line.key("copies").map_or(Ok(1), |text| Sort::Count.value(text))?;
        let process = line.key("process").map(str::to_string);
        let body = self.block(1)?;
        self.script.threads.push(Thread { name, is_later, copies, process, body });
        Ok(())
    }

    /// The statements up to the `end` of the block that has just begun.
    fn block(&mut self, depth: usize) -> Result<Vec<Statement>> {
        let mut body = Vec::new();
        if depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} blocks within each other"));
        }
        while let Some(line) = self.next() {
            if line.word == "end" {
                return Ok(body);
            }
            body.push(self.statement(line, depth)?);
        }
        Err("a block is open; expected end".into())
    }

    fn statement(&mut self, line: &Line<'_>, depth: usize) -> Result<Statement> {
        let when = when(line)?;
        let action = match line.word {
            "repeat" => self.repeat(line, depth)?,
            "step" => self.step(line, depth)?,
            "use" => self.use_piece(line)?,
            name => {
                let word = words::find(name)?;
                let Word { arguments, keys, build, .. } = word;
                line.check(*arguments, &[keys, WHEN, if word.is_call { words::CALL } else { &[] }])?;
                build(self, line)?
            }
        };
        Ok(Statement { when, action })
    }

    fn repeat(&mut self, line: &Line<'_>, depth: usize) -> Result<Action> {
        line.check((1, 1), &[WHEN])?;
        let text = line.arguments[0];
        let times = match Sort::Count.value(text) {
            Ok(count) => Times::Count(count),
            Err(_) => Times::For(Sort::Time.value(text).map_err(|e| format!("{e}, nor a number of turns"))?),
        };
        Ok(Action::Repeat(times, self.block(depth + 1)?))
    }

    fn step(&mut self, line: &Line<'_>, depth: usize) -> Result<Action> {
        line.check((2, 2), &[&["size"], WHEN])?;
        let phase = line.arguments[0].to_string();
        self.stream(line.arguments[1])?;
        let size = line.key("size").map_or(Ok(Span::just(1_000)), |text| Sort::Factor.span(text))?;
        Ok(Action::Step { phase, size, body: self.block(depth + 1)? })
    }

    fn use_piece(&mut self, line: &Line<'_>) -> Result<Action> {
        line.check((1, 1), &[WHEN])?;
        let name = line.arguments[0];
        let piece = self.pieces.iter().find(|(n, _)| n == name);
        piece
            .map(|(_, body)| Action::Group(body.clone()))
            .ok_or_else(|| format!("nothing is defined as '{name}'"))
    }

    /// The place of a stream that was made above.
    pub(super) fn stream(&self, name: &str) -> Result<usize> {
        known("stream", name, self.script.streams.iter())
    }

    /// The place of an event that was made above.
    pub(super) fn event(&self, name: &str) -> Result<usize> {
        known("event", name, self.script.events.iter().map(|(n, _)| n))
    }

    /// The place of a graph that was made above.
    pub(super) fn graph(&self, name: &str) -> Result<usize> {
        known("graph", name, self.script.graphs.iter())
    }

    /// The place of a thread, wherever it stands.
    pub(super) fn thread_of(&self, name: &str) -> Result<usize> {
        known("thread", name, self.thread_names.iter())
    }
}

/// Keys that every statement takes.
const WHEN: &[&str] = &["after", "at", "every", "from", "unless", "until"];

fn when(line: &Line<'_>) -> Result<When> {
    let key = |name: &str| line.key(name).map_or(Ok(0), |text| Sort::Count.value(text));
    let mut when = When {
        every: key("every")?,
        after: key("after")?,
        unless: key("unless")?,
        from: key("from")?,
        until: key("until")?,
    };
    if line.key("at").is_some() {
        when.from = key("at")?;
        when.until = when.from + 1;
    }
    Ok(when)
}

fn known<'n>(sort: &str, name: &str, mut names: impl Iterator<Item = &'n String> + Clone) -> Result<usize> {
    names.clone().position(|n| n == name).ok_or_else(|| {
        let all: Vec<_> = names.by_ref().map(String::as_str).collect();
        match all.is_empty() {
            true => format!("there is no {sort} '{name}', nor any other"),
            false => format!("there is no {sort} '{name}'; there are {}", all.join(", ")),
        }
    })
}
