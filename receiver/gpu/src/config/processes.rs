//! The keys under `processes`: which processes are traced.

use capture::selection::{Condition, Patterns, Property, Selection};
use config::Problems;

config::section! {
    /// Which processes are traced.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub struct ProcessesConfig {
        /// Processes to trace. An entry matches a process if all its conditions hold; one entry must match. Without entries,
        /// all processes are traced.
        pub include: Vec<ProcessMatchConfig>,
        /// Processes that are not traced, although they are included.
        pub exclude: Vec<ProcessMatchConfig>,
    }

    /// Conditions on a process, all of which must hold. A condition holds if one of its values matches, and does not if the
    /// property is not known.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub struct ProcessMatchConfig {
        /// Comparison with the values. Regular expressions match anywhere in a text unless they are anchored.
        pub match_type: MatchTypeConfig,
        /// Names of the executable, the last part of its path.
        pub executable_names: Vec<String>,
        /// Paths of the executable as the process sees them.
        pub executable_paths: Vec<String>,
        /// Command lines: the arguments, separated by spaces. At most 64 arguments of 1 KiB are compared.
        pub command_lines: Vec<String>,
        /// Users that started the process: names in `/etc/passwd`, or uids.
        pub users: Vec<String>,
        /// Paths of control groups, as `/proc/PID/cgroup` shows them to the collector.
        pub cgroups: Vec<String>,
        /// Container ids.
        pub container_ids: Vec<String>,
        /// UIDs of Kubernetes pods, of the control group or of `OTEL_RESOURCE_ATTRIBUTES`.
        pub pod_uids: Vec<String>,
        /// Names of Kubernetes pods, known if `OTEL_RESOURCE_ATTRIBUTES` of the process has `k8s.pod.name`.
        pub pod_names: Vec<String>,
        /// Kubernetes namespaces, known if `OTEL_RESOURCE_ATTRIBUTES` of the process has `k8s.namespace.name`.
        pub namespaces: Vec<String>,
        /// Service names, known if `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` of the process has one.
        pub services: Vec<String>,
    }
}

config::choice! {
    /// The comparison of texts.
    #[derive(Default)]
    pub enum MatchTypeConfig {
        /// Whole texts.
        #[default]
        Strict = "strict",
        /// Regular expressions.
        Regexp = "regexp",
    }
}

impl ProcessesConfig {
    /// Returns true if all processes are traced.
    pub(super) fn is_everything(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Checks the conditions.
    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        for (path, why) in self.compile().1 {
            problems.add(&path, why);
        }
    }

    /// Returns the selection.
    pub(super) fn selection(&self) -> Selection {
        self.compile().0
    }

    /// Returns the selection without wrong patterns, and the path and the reason of each problem.
    fn compile(&self) -> (Selection, Vec<(String, String)>) {
        let mut problems = Vec::new();
        let [include, exclude] =
            [("include", &self.include), ("exclude", &self.exclude)].map(|(key, entries)| {
                let entries = entries.iter().enumerate();
                entries
                    .map(|(index, entry)| entry.compile(&format!("processes::{key}[{index}]"), &mut problems))
                    .collect()
            });
        (Selection { include, exclude }, problems)
    }
}

impl ProcessMatchConfig {
    /// Returns the key, the property and the values of each condition.
    fn conditions(&self) -> [(&'static str, Property, &Vec<String>); 10] {
        [
            ("executable_names", Property::ExecutableName, &self.executable_names),
            ("executable_paths", Property::ExecutablePath, &self.executable_paths),
            ("command_lines", Property::CommandLine, &self.command_lines),
            ("users", Property::User, &self.users),
            ("cgroups", Property::Cgroup, &self.cgroups),
            ("container_ids", Property::ContainerId, &self.container_ids),
            ("pod_uids", Property::PodUid, &self.pod_uids),
            ("pod_names", Property::PodName, &self.pod_names),
            ("namespaces", Property::Namespace, &self.namespaces),
            ("services", Property::ServiceName, &self.services),
        ]
    }

    fn compile(&self, path: &str, problems: &mut Vec<(String, String)>) -> Vec<Condition> {
        let all = self.conditions();
        if all.iter().all(|(_, _, values)| values.is_empty()) {
            let keys = all.map(|(key, _, _)| key).join(", ");
            problems
                .push((path.to_owned(), format!("there is no condition: expected at least one of {keys}")));
        }
        let mut compiled = Vec::new();
        for (key, property, values) in all.into_iter().filter(|(_, _, values)| !values.is_empty()) {
            match self.match_type.patterns(values) {
                Ok(patterns) => compiled.push(Condition { property, patterns }),
                Err((index, why)) => problems.push((format!("{path}::{key}[{index}]"), why)),
            }
        }
        compiled
    }
}

impl MatchTypeConfig {
    /// Returns the values as patterns, or the index of a wrong one and the reason.
    fn patterns(self, values: &[String]) -> Result<Patterns, (usize, String)> {
        if let Some(index) = values.iter().position(String::is_empty) {
            return Err((index, "\"\": expected a text or pattern that is not empty".to_owned()));
        }
        match self {
            MatchTypeConfig::Strict => Ok(Patterns::Strict(values.to_vec())),
            MatchTypeConfig::Regexp => Patterns::regexp(values)
                .map_err(|e| (e.index, format!("{:?}: {e}: expected a regular expression", values[e.index]))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;

    #[test]
    fn every_key_is_a_condition() {
        let config = read(
            r#"{"processes": {"include": [{"match_type": "regexp", "command_lines": ["a|b"], "users": ["1000"]}],
                "exclude": [{"executable_names": ["x"]}, {"pod_names": ["y"]}]}}"#,
        );
        let selection = config.unwrap().capture().selection;
        let strict = |property, value: &str| {
            vec![Condition { property, patterns: Patterns::Strict(vec![value.to_owned()]) }]
        };
        let regexp = |property, value: &str| Condition {
            property,
            patterns: Patterns::regexp(&[value.to_owned()]).unwrap(),
        };
        let include = vec![regexp(Property::CommandLine, "a|b"), regexp(Property::User, "1000")];
        assert_eq!(selection.include, [include]);
        assert_eq!(
            selection.exclude,
            [strict(Property::ExecutableName, "x"), strict(Property::PodName, "y")]
        );
        for (key, property, _) in ProcessMatchConfig::default().conditions() {
            let json = format!(r#"{{"processes": {{"include": [{{"{key}": ["v"]}}]}}}}"#);
            assert_eq!(read(&json).unwrap().processes.selection().include, [strict(property, "v")], "{key}");
        }
    }

    #[test]
    fn all_processes_are_traced_by_default() {
        assert!(read("{}").unwrap().processes.selection().is_everything());
        assert!(
            read(r#"{"processes": {"include": [], "exclude": null}}"#).unwrap().processes.is_everything()
        );
    }

    #[test]
    fn wrong_conditions_are_reported_with_their_place() {
        for (json, want) in [
            (
                r#"{"include": [{"users": ["a"]}, {"match_type": "regexp", "users": ["a", "b("]}]}"#,
                "processes::include[1]::users[1]: \"b(\": unclosed group: expected a regular expression",
            ),
            (
                r#"{"exclude": [{}]}"#,
                "processes::exclude[0]: there is no condition: expected at least one of exec",
            ),
            (r#"{"exclude": [{"match_type": "regexp"}]}"#, "processes::exclude[0]: there is no condition"),
            (
                r#"{"exclude": [{"cgroups": [""]}]}"#,
                "processes::exclude[0]::cgroups[0]: \"\": expected a text",
            ),
            (r#"{"exclude": [{"match_type": "glob", "users": ["a"]}]}"#, "processes::exclude[0]::match_type"),
            (r#"{"exclude": [{"executable_name": ["a"]}]}"#, "executable_names"),
            (r#"{"exclude": [{"users": [1000]}]}"#, "processes::exclude[0]::users[0]"),
            (r#"{"exclude": {"users": ["a"]}}"#, "processes::exclude"),
        ] {
            let error = read(&format!(r#"{{"processes": {json}}}"#)).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
        let processes = r#""processes": {"exclude": [{"users": ["a"]}]}"#;
        for (other, want) in [
            (
                r#""capture": {"trace_all": false, "pids": [7]}"#,
                "expected `processes` or `capture::pids`, not both",
            ),
            (r#""source": {"recording": "x"}"#, "expected `processes` or `source::recording`, not both"),
        ] {
            let error = read(&format!("{{{processes}, {other}}}")).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}
