//! Messages of a Collector about a configuration, with the positions of the user's file.
//!
//! Its decoder prints a heading for each component, and for each struct in it, and then the problems of what is under the
//! heading. Its validation prints one line per problem, which begins with the path of the component.

use std::path::Path;

use config::{Node, Position, Problem, Section};

use crate::config::ComponentKind;

/// Returns the problems in what a program printed to standard error.
pub(super) fn problems(output: &str, configuration: &Node, program: &Path) -> Vec<Problem> {
    let mut reader = Reader {
        configuration,
        program: program.display().to_string(),
        component: None,
        within: String::new(),
    };
    let lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.filter_map(|line| reader.read(line)).collect()
}

struct Reader<'a> {
    configuration: &'a Node,
    program: String,
    /// The path and section of the component of the last heading.
    component: Option<(String, &'a Node)>,
    /// The path of the struct of the last heading in it.
    within: String,
}

impl<'a> Reader<'a> {
    fn read(&mut self, line: &str) -> Option<Problem> {
        let line = line.trim_start_matches("Error: ");
        if let Some(heading) = line.strip_suffix(HEADING) {
            self.enter(heading);
            return None;
        }
        if let Some((component, key, message)) = self.validated(line) {
            return Some(Section::new(&component.0, component.1).problem(&key, self.message(message)));
        }
        if let Some(component) = self.unknown_type(line) {
            return Some(Section::new(&component.0, component.1).problem("", self.message(line)));
        }
        Some(match &self.component {
            Some((path, node)) => {
                Section::new(path, node).problem(&key(&self.within, line, node), self.message(line))
            }
            None => Problem::new(Position::unknown(), "", self.message(line)),
        })
    }

    fn message(&self, line: &str) -> String {
        format!("{}: {line}", self.program)
    }

    fn enter(&mut self, heading: &str) {
        let quoted = quoted(heading).unwrap_or_default();
        match heading.split_once(READING) {
            Some((_, id)) => {
                let id = id.trim().trim_matches(['"', ':']);
                self.component = self.find(quoted, id);
                self.within.clear();
            }
            None if self.component.is_some() => self.within = quoted.replace('.', "::"),
            None => {}
        }
    }

    fn find(&self, section: &str, id: &str) -> Option<(String, &'a Node)> {
        Some((format!("{section}::{id}"), self.configuration.get(section)?.get(id)?))
    }

    /// Splits a line of validation: the component, the path of the key in it, and the message.
    fn validated<'l>(&self, line: &'l str) -> Option<((String, &'a Node), String, &'l str)> {
        let (path, message) = line.split_once(": ")?;
        let (section, rest) = path.split_once("::")?;
        let kind = ComponentKind::ALL.into_iter().find(|kind| kind.section() == section)?;
        let (id, key) = rest.split_once("::").unwrap_or((rest, ""));
        Some((self.find(kind.section(), id)?, key.to_owned(), message))
    }

    /// Returns the component of a line about a type that the program does not know.
    fn unknown_type(&self, line: &str) -> Option<(String, &'a Node)> {
        let section = quoted(line)?;
        let id = line.split_once(" for id: \"")?.1.split('"').next()?;
        self.find(section, id)
    }
}

/// The end of a heading.
const HEADING: &str = "decoding failed due to the following error(s):";
/// What the heading of a component has before its id.
const READING: &str = " error reading configuration for ";

/// Returns the text in the quotation marks that a line begins with: the path of a key, or the type of a struct.
fn quoted(line: &str) -> Option<&str> {
    line.strip_prefix('\'')?.split('\'').next()
}

/// Returns the path of the key that a line is about, if there is one in the component.
fn key(within: &str, line: &str, node: &Node) -> String {
    let unknown = line.split_once(" has invalid keys: ").and_then(|(_, keys)| keys.split(", ").next());
    let name = unknown.or_else(|| quoted(line)).unwrap_or_default().replace('.', "::");
    let below = |path: &str| path.split("::").try_fold(node, |node, step| node.get(step)).is_some();
    let paths = [format!("{within}::{name}"), name];
    paths.into_iter().find(|path| below(path)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::tree;

    const CONFIGURATION: &str = "\
receivers:
  otlp:
    protocols:
      grpc:
        foo: 1
        endpoint: 5
    bar: 2
  nix:
exporters:
  debug/a:
    verbosity: loud
    sending_queue:
      queue_size: -1
";

    /// Compares line, path and message of each problem.
    #[track_caller]
    fn check(output: &str, want: &[(u32, &str, &str)]) {
        let problems = problems(output, &tree(CONFIGURATION), Path::new("go"));
        let shown: Vec<_> =
            problems.iter().map(|p| (p.position.line, p.path.as_str(), p.message.as_str())).collect();
        assert_eq!(shown, want, "{output}");
    }

    // What v0.159 prints.
    #[test]
    fn problems_of_decoding_have_the_position_of_their_key() {
        let output = "\
Error: failed to get config: cannot unmarshal the configuration: decoding failed due to the following error(s):

'receivers' error reading configuration for \"otlp\": decoding failed due to the following error(s):

'protocols.grpc' decoding failed due to the following error(s):

'endpoint' expected type 'string', got unconvertible type 'int'
'configgrpc.ServerConfig' has invalid keys: foo
'otlpreceiver.Config' has invalid keys: bar
'receivers' unknown type: \"nix\" for id: \"nix\" (valid values: [otlp])
'exporters' error reading configuration for \"debug/a\": decoding failed due to the following error(s):

'verbosity' unknown metrics level \"loud\"
";
        check(
            output,
            &[
                (
                    6,
                    "receivers::otlp::protocols::grpc::endpoint",
                    "go: 'endpoint' expected type 'string', got unconvertible type 'int'",
                ),
                (
                    5,
                    "receivers::otlp::protocols::grpc::foo",
                    "go: 'configgrpc.ServerConfig' has invalid keys: foo",
                ),
                (7, "receivers::otlp::bar", "go: 'otlpreceiver.Config' has invalid keys: bar"),
                (
                    8,
                    "receivers::nix",
                    "go: 'receivers' unknown type: \"nix\" for id: \"nix\" (valid values: [otlp])",
                ),
                (11, "exporters::debug/a::verbosity", "go: 'verbosity' unknown metrics level \"loud\""),
            ],
        );
    }

    #[test]
    fn problems_of_validation_have_the_position_of_their_component() {
        check(
            "Error: receivers::otlp: must specify at least one protocol\nexporters::debug/a::sending_queue: `queue_size` must be positive\nexporters::x: y\n",
            &[
                (3, "receivers::otlp", "go: must specify at least one protocol"),
                (13, "exporters::debug/a::sending_queue", "go: `queue_size` must be positive"),
                (0, "", "go: exporters::x: y"),
            ],
        );
    }
}
