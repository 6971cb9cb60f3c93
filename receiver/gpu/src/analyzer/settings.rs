//! Settings of the analysis, and its findings as observers see them.

use event::ProcessInfo;
use steps::{Finding, Hint};

use crate::collectives::CollectiveSettings;
use crate::contexts::Relation;
use crate::detail::DetailSettings;

/// A finding, shown to an observer before it becomes telemetry.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// A finding about steps.
    Step(&'a Finding),
    /// A finding about collectives.
    Collective(&'a nccl::Finding),
}

/// A function that is called with every finding.
pub type Look<'a> = &'a mut dyn FnMut(Found<'_>);

/// The settings of the analysis.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Interval of collections in event time, ns; 0 is taken as 1.
    pub collection_interval_ns: u64,
    /// Attributes of the machine on every resource: `host.name` and others.
    pub host: Vec<(String, String)>,
    /// The maximum number of processes with series.
    pub processes_max: usize,
    /// Burst of spans of one process.
    pub spans_burst: u32,
    /// Rate of spans of one process in the long run.
    pub spans_per_minute: u32,
    /// Relation of an outlier's span to the span that was active on its thread.
    pub relation: Relation,
    /// What is known of processes; the first rule that matches one counts.
    pub workloads: Vec<WorkloadRule>,
    /// Settings of the analysis of steps.
    pub steps: steps::Settings,
    /// Settings of the analysis of collectives.
    pub collectives: CollectiveSettings,
    /// The maximum number of functions of a process whose launches have a series with their name.
    pub kernel_names_max: usize,
    /// When all calls of a process are recorded.
    pub detail: DetailSettings,
}

/// What is known of the processes that match a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WorkloadRule {
    /// Names of the executable; empty for any.
    pub executable_names: Vec<String>,
    /// Texts of which the command line contains one; empty for any.
    pub command_lines: Vec<String>,
    /// What the processes do.
    pub hint: Hint,
}

impl WorkloadRule {
    /// Returns true if the rule matches the process.
    pub(crate) fn matches(&self, info: &ProcessInfo) -> bool {
        let is_any = |texts: &[String], matches: &dyn Fn(&String) -> bool| {
            texts.is_empty() || texts.iter().any(matches)
        };
        let command = info.command.join(" ");
        is_any(&self.executable_names, &|name| *name == info.executable)
            && is_any(&self.command_lines, &|text| command.contains(text.as_str()))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            collection_interval_ns: 10_000_000_000,
            host: Vec::new(),
            processes_max: 256,
            spans_burst: 10,
            spans_per_minute: 30,
            relation: Relation::default(),
            workloads: Vec::new(),
            steps: steps::Settings::default(),
            collectives: CollectiveSettings::default(),
            kernel_names_max: 20,
            detail: DetailSettings::default(),
        }
    }
}
