//! Parses a script. The first error ends it, with its line and what was expected.
//!
//! Words that make one action are rows of [`words`]; those that begin a block or describe the script are here.

use super::scope::Scope;
use super::turns::{Times, When};
use super::{Script, ScriptAction, ScriptApi, Statement, Thread, words};
use crate::scripts;
use crate::text::{self, ParseError, Result, ScriptLine, Unit, Word};

/// The maximum depth of nested blocks.
const DEPTH_MAX: usize = 16;

/// Words that this file handles, for errors.
const BLOCKS: [&str; 8] = ["api", "define", "include", "repeat", "seed", "step", "thread", "use"];

/// Parses a script.
pub fn parse(text: &str) -> std::result::Result<Script, ParseError> {
    let lines = expanded(text)?;
    let threads = lines.iter().filter(|l| l.word == "thread").filter_map(|l| l.arguments.first());
    let thread_names = threads.map(ToString::to_string).collect();
    let script = Script { streams: vec!["default".into()], ..Script::default() };
    let mut reader =
        Reader { scope: Scope { script, thread_names }, pieces: Vec::new(), lines: &lines, at: 0 };
    match reader.script() {
        Ok(()) => Ok(reader.scope.script),
        Err(problem) => {
            let line = lines.get(reader.at.saturating_sub(1)).map_or(0, |l| l.number);
            Err(ParseError { line, problem })
        }
    }
}

/// Returns the lines of a script, with each `include` replaced by the lines of the piece.
fn expanded(text: &str) -> std::result::Result<Vec<ScriptLine<'_>>, ParseError> {
    let mut all = Vec::new();
    for line in text::split(text)? {
        if line.word != "include" {
            all.push(line);
            continue;
        }
        let number = line.number;
        let wrong = |problem: String| ParseError { line: number, problem };
        let name = line.only_argument().map_err(wrong)?;
        let piece = scripts::piece(name).ok_or_else(|| wrong(format!("there is no piece '{name}'")))?;
        let piece = text::split(piece).map_err(|e| wrong(format!("piece '{name}', {e}")))?;
        all.extend(piece.into_iter().map(|l| ScriptLine { number, ..l }));
    }
    Ok(all)
}

/// A script being parsed.
struct Reader<'a> {
    scope: Scope,
    /// Statements named by `define`.
    pieces: Vec<(String, Vec<Statement>)>,
    lines: &'a [ScriptLine<'a>],
    at: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<&'a ScriptLine<'a>> {
        let line = self.lines.get(self.at)?;
        self.at += 1;
        Some(line)
    }

    fn script(&mut self) -> Result<()> {
        while let Some(line) = self.next() {
            match line.word {
                "api" => self.api(line)?,
                "define" => self.define(line)?,
                "seed" => self.scope.script.seed = Unit::Count.value(line.only_argument()?)?,
                "thread" => self.thread(line)?,
                _ => {
                    let statement = self.statement(line, 0)?;
                    self.scope.script.setup.push(statement);
                }
            }
        }
        match self.scope.script.threads.is_empty() && self.scope.script.setup.is_empty() {
            true => Err("the script does nothing: it has no thread and no call".into()),
            false => Ok(()),
        }
    }

    fn api(&mut self, line: &ScriptLine<'_>) -> Result<()> {
        if self.at != 1 {
            return Err("api must be in the first line".into());
        }
        self.scope.script.api = match line.only_argument()? {
            "cuda" => ScriptApi::Cuda,
            "driver" => ScriptApi::Driver,
            "hip" => ScriptApi::Hip,
            other => return Err(format!("unknown api '{other}'; expected cuda, driver or hip")),
        };
        Ok(())
    }

    fn define(&mut self, line: &ScriptLine<'_>) -> Result<()> {
        let name = line.only_argument()?.to_string();
        let body = self.block(1)?;
        self.pieces.push((name, body));
        Ok(())
    }

    fn thread(&mut self, line: &ScriptLine<'_>) -> Result<()> {
        line.check((1, 2), &[&["copies", "process"]])?;
        let is_later = match line.arguments.get(1) {
            None => false,
            Some(&"later") => true,
            Some(other) => return Err(format!("unknown argument '{other}' of thread; expected later")),
        };
        let name = line.arguments[0].to_string();
        if self.scope.script.threads.iter().any(|t| t.name == name) {
            return Err(format!("there is a thread '{name}' already"));
        }
        let copies = line.value("copies", Unit::Count, 1)?;
        let process = line.key("process").map(str::to_string);
        let body = self.block(1)?;
        self.scope.script.threads.push(Thread { name, is_later, copies, process, body });
        Ok(())
    }

    /// Parses the statements up to the `end` of the current block.
    fn block(&mut self, depth: usize) -> Result<Vec<Statement>> {
        let mut body = Vec::new();
        if depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} nested blocks"));
        }
        while let Some(line) = self.next() {
            if line.word == "end" {
                return Ok(body);
            }
            body.push(self.statement(line, depth)?);
        }
        Err("a block is open: 'end' is missing".into())
    }

    fn statement(&mut self, line: &ScriptLine<'_>, depth: usize) -> Result<Statement> {
        let when = When::of(line)?;
        let action = match line.word {
            "repeat" => self.repeat(line, depth)?,
            "step" => self.step(line, depth)?,
            "use" => self.use_piece(line)?,
            name => {
                let Word { arguments, keys, build, .. } = text::find(words::WORDS, name, &BLOCKS)?;
                line.check(*arguments, &[&keys.concat(), When::KEYS])?;
                build(&mut self.scope, line)?
            }
        };
        Ok(Statement { when, action })
    }

    fn repeat(&mut self, line: &ScriptLine<'_>, depth: usize) -> Result<ScriptAction> {
        line.check((1, 1), &[When::KEYS])?;
        Ok(ScriptAction::Repeat(Times::parse(line.arguments[0])?, self.block(depth + 1)?))
    }

    fn step(&mut self, line: &ScriptLine<'_>, depth: usize) -> Result<ScriptAction> {
        line.check((2, 2), &[&["size"], When::KEYS])?;
        let phase = line.arguments[0].to_string();
        self.scope.stream(line.arguments[1])?;
        let size = line.span("size", Unit::Factor, 1_000)?;
        Ok(ScriptAction::Step { phase, size, body: self.block(depth + 1)? })
    }

    fn use_piece(&mut self, line: &ScriptLine<'_>) -> Result<ScriptAction> {
        line.check((1, 1), &[When::KEYS])?;
        let name = line.arguments[0];
        let piece = self.pieces.iter().find(|(n, _)| n == name);
        piece
            .map(|(_, body)| ScriptAction::Group(body.clone()))
            .ok_or_else(|| format!("nothing is defined as '{name}'"))
    }
}
