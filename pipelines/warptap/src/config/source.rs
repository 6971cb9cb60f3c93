//! Sources of configuration text: `file:`, `env:`, `yaml:`, `http:` and `https:` locations, read through an
//! [`Environment`], so that all later steps are pure.

use std::io;
use std::sync::Arc;

use config::{ConfigError, Node, Position, Problem, Value};

use super::yaml;

/// Environment variables, files and network, as the loader accesses them.
pub trait Environment {
    /// Returns the value of an environment variable, if set.
    fn env(&self, name: &str) -> Option<String>;
    /// Returns the content of a file; bytes after `limit` may be omitted.
    fn read(&self, path: &str, limit: usize) -> io::Result<Vec<u8>>;
    /// Returns a server's answer for a URI, at most `limit` bytes, or the reason of the failure.
    fn fetch(&self, uri: &str, limit: usize) -> Result<Vec<u8>, String> {
        let _ = (uri, limit);
        Err("there is no network here".to_owned())
    }
}

/// A scheme and the text after its colon.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Location {
    scheme: String,
    opaque: String,
}

/// Returns whether a text is the name of an environment variable.
pub(super) fn is_name(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(is_inner)
}

impl Location {
    /// Parses an argument of `--config`, in which a path needs no scheme.
    pub(super) fn of_argument(text: &str) -> Result<Self, String> {
        let is_drive = text.as_bytes().get(1) == Some(&b':') && text.as_bytes()[0].is_ascii_alphabetic();
        if is_drive || !text.contains(':') {
            return Ok(Location { scheme: "file".to_owned(), opaque: text.to_owned() });
        }
        Location::parse(text)
    }

    /// Parses the text between `${` and `}`, in which a variable needs no scheme.
    pub(super) fn of_reference(text: &str) -> Result<Self, String> {
        let location = match text.contains(':') {
            true => Location::parse(text).map_err(|wrong| match text.split_once(":-") {
                Some((name, _)) if is_name(name) => format!("{wrong}: write ${{env:{text}}}"),
                _ => wrong,
            })?,
            false => Location { scheme: "env".to_owned(), opaque: text.to_owned() },
        };
        if location.opaque.contains('$') {
            let Location { scheme, opaque } = location;
            return Err(format!("the uri \"{scheme}:{opaque}\" contains unsupported characters ('$')"));
        }
        Ok(location)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (scheme, opaque) = text.split_once(':').unwrap_or((text, ""));
        let mut chars = scheme.chars();
        let is_scheme = chars.next().is_some_and(|c| c.is_ascii_alphabetic())
            && scheme.len() > 1
            && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-'));
        match is_scheme {
            true => Ok(Location { scheme: scheme.to_owned(), opaque: opaque.to_owned() }),
            false => Err(format!("invalid uri: {text:?}")),
        }
    }

    /// Returns the prefix of positions in the text.
    fn source(&self) -> Arc<str> {
        match self.scheme.as_str() {
            "file" => Arc::from(self.opaque.as_str()),
            "env" => Arc::from(format!("env:{}", self.opaque.split(":-").next().unwrap_or_default())),
            "http" | "https" => Arc::from(format!("{}:{}", self.scheme, self.opaque)),
            scheme => Arc::from(scheme),
        }
    }

    /// Retrieves the text.
    pub(super) fn retrieve(&self, environment: &dyn Environment) -> Result<Retrieved, String> {
        let row = PROVIDERS.iter().find(|(scheme, _)| *scheme == self.scheme);
        let Some((_, provide)) = row else {
            let Location { scheme, opaque } = self;
            let known: Vec<&str> = schemes().collect();
            return Err(format!(
                "scheme {scheme:?} is not supported for uri \"{scheme}:{opaque}\": expected one of {}",
                known.join(", ")
            ));
        };
        Ok(Retrieved { provided: provide(&self.opaque, environment)?, source: self.source() })
    }
}

/// The result of a provider.
enum Provided {
    /// Text, to be parsed as YAML.
    Text(String),
    /// The empty string, which YAML would parse as null.
    EmptyString,
    /// A variable that is not set.
    Unset,
}

type Provide = fn(&str, &dyn Environment) -> Result<Provided, String>;

/// The providers by scheme.
static PROVIDERS: [(&str, Provide); 5] =
    [("env", variable), ("file", file), ("http", http), ("https", https), ("yaml", inline)];

/// Returns the supported schemes, sorted.
pub fn schemes() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().map(|(scheme, _)| *scheme)
}

fn variable(opaque: &str, environment: &dyn Environment) -> Result<Provided, String> {
    let (name, default) = opaque.split_once(":-").map_or((opaque, None), |(name, text)| (name, Some(text)));
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        let expected = "must match regex ^[a-zA-Z_][a-zA-Z0-9_]*$";
        return Err(format!("environment variable {name:?} has invalid name: {expected}"));
    }
    Ok(match (environment.env(name), default) {
        (Some(text), _) => Provided::Text(text),
        (None, Some("")) => Provided::EmptyString,
        (None, Some(default)) => Provided::Text(default.to_owned()),
        (None, None) => Provided::Unset,
    })
}

fn file(path: &str, environment: &dyn Environment) -> Result<Provided, String> {
    let bytes = environment
        .read(path, yaml::TEXT_BYTES_MAX + 1)
        .map_err(|e| format!("unable to read the file {path:?}: {e}"))?;
    if bytes.len() > yaml::TEXT_BYTES_MAX {
        return Err(format!("the file {path:?} is longer than {} bytes", yaml::TEXT_BYTES_MAX));
    }
    text(bytes, &format!("the file {path:?}"))
}

fn text(bytes: Vec<u8>, what: &str) -> Result<Provided, String> {
    let text = String::from_utf8(bytes);
    text.map(Provided::Text)
        .map_err(|e| format!("{what} is not UTF-8 at byte {}", e.utf8_error().valid_up_to()))
}

fn http(opaque: &str, environment: &dyn Environment) -> Result<Provided, String> {
    fetched(&format!("http:{opaque}"), environment)
}

fn https(opaque: &str, environment: &dyn Environment) -> Result<Provided, String> {
    fetched(&format!("https:{opaque}"), environment)
}

fn fetched(uri: &str, environment: &dyn Environment) -> Result<Provided, String> {
    let bytes = environment
        .fetch(uri, yaml::TEXT_BYTES_MAX)
        .map_err(|e| format!("unable to download the file via HTTP GET for uri {uri:?}: {e}"))?;
    text(bytes, &format!("the answer for uri {uri:?}"))
}

fn inline(text: &str, _outside: &dyn Environment) -> Result<Provided, String> {
    Ok(Provided::Text(text.to_owned()))
}

/// A retrieved text.
pub(super) struct Retrieved {
    provided: Provided,
    source: Arc<str>,
}

impl Retrieved {
    /// Returns the text for use within a longer one.
    pub(super) fn text(&self) -> &str {
        match &self.provided {
            Provided::Text(text) => text,
            Provided::EmptyString | Provided::Unset => "",
        }
    }

    /// Returns whether the source is a variable that is not set.
    pub(super) fn is_unset(&self) -> bool {
        matches!(self.provided, Provided::Unset)
    }

    /// Parses the text. Invalid YAML, and YAML that is a single string, is the text itself; the error of invalid
    /// YAML is returned with it.
    pub(super) fn read(self) -> (Node, Option<ConfigError>) {
        let start = Position { source: self.source.clone(), line: 1, column: 1 };
        let (value, not_yaml) = match self.provided {
            Provided::Unset => (Value::Null, None),
            Provided::EmptyString => (Value::String(String::new()), None),
            Provided::Text(text) => match yaml::parse(&text, &self.source) {
                Ok(Node { value: Value::String(_), .. }) => (Value::String(text), None),
                Ok(node) => return (node, None),
                Err(error) => (Value::String(text), Some(error)),
            },
        };
        (Node::new(value, start), not_yaml)
    }

    /// Parses the text as a whole configuration, which must be a mapping.
    pub(super) fn into_configuration(self) -> Result<Node, ConfigError> {
        let (node, not_yaml) = self.read();
        match (&node.value, not_yaml) {
            (Value::Null, _) => Ok(Node::new(Value::Mapping(Vec::new()), node.position)),
            (Value::Mapping(_), _) => Ok(node),
            (_, Some(error)) => Err(error),
            (other, None) => {
                let message = format!("expected a mapping of sections, got {}", other.go_type());
                Err(Problem::new(node.position, "", message).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_without_a_scheme_are_paths() {
        for (text, want) in [
            ("a.yaml", Ok(("file", "a.yaml"))),
            ("file:/x/a.yaml", Ok(("file", "/x/a.yaml"))),
            ("env:NAME", Ok(("env", "NAME"))),
            ("yaml:a::b: 1", Ok(("yaml", "a::b: 1"))),
            ("yaml:a: 1\nb: 2", Ok(("yaml", "a: 1\nb: 2"))),
            ("C:\\a.yaml", Ok(("file", "C:\\a.yaml"))),
            ("./a:b", Err("invalid uri: \"./a:b\"")),
            (":x", Err("invalid uri: \":x\"")),
        ] {
            let got = Location::of_argument(text);
            let got = got.as_ref().map(|l| (l.scheme.as_str(), l.opaque.as_str())).map_err(String::as_str);
            assert_eq!(got, want, "{text}");
        }
    }
}
