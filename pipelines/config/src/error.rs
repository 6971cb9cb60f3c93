//! What is wrong with a configuration: a list of problems, each with its position, reported together.

use std::fmt;

use super::Position;

/// One thing that is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// Where it was written.
    pub position: Position,
    /// The config path, such as `exporters::otlp_grpc::endpoint`; empty for the file as a whole.
    pub path: String,
    /// What is wrong and what was expected.
    pub message: String,
    /// Valid words near the wrong ones, if any: what the writer may have meant.
    pub nearest: Vec<String>,
}

impl Problem {
    /// A problem without a suggestion.
    pub fn new(position: Position, path: impl Into<String>, message: impl Into<String>) -> Self {
        Problem { position, path: path.into(), message: message.into(), nearest: Vec::new() }
    }
}

/// One line: `file:line:column: path: message (did you mean "word"?)`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.position)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match self.nearest.as_slice() {
            [] => Ok(()),
            words => {
                let quoted: Vec<String> = words.iter().map(|w| format!("{w:?}")).collect();
                write!(f, " (did you mean {}?)", quoted.join(", "))
            }
        }
    }
}

/// All that is wrong, in the order of the file where that is known. Prints one line per problem.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    /// All problems, at least one.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// `Ok` where nothing is wrong.
    pub fn unless_empty(problems: Vec<Problem>) -> Result<(), ConfigError> {
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::from(problems)) }
    }

    /// The problems, to be joined with others.
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems
    }
}

/// An empty list makes an error that says nothing; [`ConfigError::unless_empty`] knows better.
impl From<Vec<Problem>> for ConfigError {
    fn from(mut problems: Vec<Problem>) -> Self {
        let place = |p: &Problem| (p.position.source.clone(), p.position.line, p.position.column);
        problems.sort_by_key(place);
        ConfigError { problems }
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        ConfigError { problems: vec![problem] }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
