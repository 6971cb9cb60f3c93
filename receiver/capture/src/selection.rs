//! The selection of the processes to trace: a pure decision on the description of a process.
//!
//! A process is selected if an entry of `include` matches it, or there is none, and no entry of `exclude` does. An entry
//! matches if all its conditions hold, and a condition holds if one of its patterns matches a value that the process has.
//! A property that is not known, such as the pod of a process outside of Kubernetes, matches no pattern.

use event::ProcessInfo;
use regex::RegexSet;

/// A property of a process that is compared with patterns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Property {
    /// A control group of the process: a path below the root of the hierarchy.
    Cgroup,
    /// The arguments, separated by spaces.
    CommandLine,
    /// `container.id`.
    ContainerId,
    /// `process.executable.name`.
    ExecutableName,
    /// `process.executable.path`.
    ExecutablePath,
    /// `k8s.namespace.name`.
    Namespace,
    /// `k8s.pod.name`.
    PodName,
    /// `k8s.pod.uid`.
    PodUid,
    /// `service.name`, where the process sets it.
    ServiceName,
    /// The user that started the process: name and uid.
    User,
}

/// The description of a process that a selection decides on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Subject {
    /// What is reported of the process.
    pub info: ProcessInfo,
    /// Uid and, where known, name of its user.
    pub users: Vec<String>,
    /// Its control groups, one in each hierarchy.
    pub cgroups: Vec<String>,
}

impl Subject {
    /// Returns false for a process that ended before it was described.
    pub fn is_known(&self) -> bool {
        !(self.info.command.is_empty() && self.info.executable_path.is_empty())
    }

    /// Returns the values of a property; none if it is not known.
    fn values(&self, property: Property) -> Vec<String> {
        let info = &self.info;
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty()).into_iter().collect();
        match property {
            Property::Cgroup => self.cgroups.clone(),
            Property::CommandLine => known(&info.command.join(" ")),
            Property::ContainerId => known(&info.container_id),
            Property::ExecutableName => known(&info.executable),
            Property::ExecutablePath => known(&info.executable_path),
            Property::Namespace => self.attribute("k8s.namespace.name"),
            Property::PodName => self.attribute("k8s.pod.name"),
            Property::PodUid => self.attribute("k8s.pod.uid"),
            Property::ServiceName => self.attribute("service.name"),
            Property::User => self.users.clone(),
        }
    }

    fn attribute(&self, key: &str) -> Vec<String> {
        let found = self.info.attributes.iter().filter(|(name, _)| name == key);
        found.map(|(_, value)| value.clone()).collect()
    }
}

/// Texts of which one must match.
#[derive(Clone, Debug)]
pub enum Patterns {
    /// Whole texts.
    Strict(Vec<String>),
    /// Regular expressions, which match anywhere in a text unless they are anchored.
    Regexp(RegexSet),
}

impl Patterns {
    /// Compiles regular expressions.
    pub fn regexp(patterns: &[String]) -> Result<Patterns, PatternError> {
        for (index, pattern) in patterns.iter().enumerate() {
            let failed = |e: regex::Error| PatternError { index, reason: last_line(&e.to_string()) };
            RegexSet::new([pattern]).map_err(failed)?;
        }
        let failed = |e: regex::Error| PatternError { index: 0, reason: last_line(&e.to_string()) };
        RegexSet::new(patterns).map(Patterns::Regexp).map_err(failed)
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Patterns::Strict(texts) => texts.iter().any(|t| t == text),
            Patterns::Regexp(patterns) => patterns.is_match(text),
        }
    }
}

impl PartialEq for Patterns {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Patterns::Strict(a), Patterns::Strict(b)) => a == b,
            (Patterns::Regexp(a), Patterns::Regexp(b)) => a.patterns() == b.patterns(),
            _ => false,
        }
    }
}

/// A pattern that is not a regular expression.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct PatternError {
    /// Index of the pattern in its list.
    pub index: usize,
    /// What is wrong with it, in one line.
    pub reason: String,
}

/// Returns the last line of a pattern's error, without the picture above it.
fn last_line(text: &str) -> String {
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// A condition on a property.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The property.
    pub property: Property,
    /// The patterns of which one must match one of its values.
    pub patterns: Patterns,
}

impl Condition {
    fn holds(&self, subject: &Subject) -> bool {
        subject.values(self.property).iter().any(|value| self.patterns.matches(value))
    }
}

/// The processes to trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Entries of which one must match, each with conditions that must all hold. Without entries, every process matches.
    pub include: Vec<Vec<Condition>>,
    /// Entries of which none may match.
    pub exclude: Vec<Vec<Condition>>,
}

impl Selection {
    /// Returns true if every process is selected, whatever its description.
    pub fn is_everything(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Returns true if the process is to be traced.
    pub fn selects(&self, subject: &Subject) -> bool {
        let matches = |entry: &Vec<Condition>| entry.iter().all(|condition| condition.holds(subject));
        (self.include.is_empty() || self.include.iter().any(matches)) && !self.exclude.iter().any(matches)
    }
}

#[cfg(test)]
mod tests;
