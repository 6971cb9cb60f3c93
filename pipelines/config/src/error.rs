//! Errors of a configuration: a list of problems, each with its position, which are reported together.

use std::fmt;

use super::Position;

/// A problem in a configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The position of the wrong value.
    pub position: Position,
    /// The path in the configuration, such as `exporters::otlp_grpc::endpoint`; empty for the file as a whole.
    pub path: String,
    /// The problem, and what was expected.
    pub message: String,
    /// Valid words similar to the wrong ones, as suggestions.
    pub nearest: Vec<String>,
}

impl Problem {
    /// Creates a problem without a suggestion.
    pub fn new(position: Position, path: impl Into<String>, message: impl Into<String>) -> Self {
        Problem { position, path: path.into(), message: message.into(), nearest: Vec::new() }
    }
}

/// Writes one line: `file:line:column: path: message (did you mean "word"?)`.
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

/// All problems of a configuration, in the order of the file if known. Displays one line per problem.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    /// Returns the problems, at least one.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns an error if there are problems.
    pub fn unless_empty(problems: Vec<Problem>) -> Result<(), ConfigError> {
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::from(problems)) }
    }

    /// Returns the problems by value.
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems
    }
}

/// Creates an error of at least one problem; use [`ConfigError::unless_empty`] for a list that may be empty.
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
